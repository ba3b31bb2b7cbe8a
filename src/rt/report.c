#include "rt/internal.h"

#include <assert.h>
#include <inttypes.h>

#include "base/account.h"
#include "base/buf.h"
#include "base/metrics.h"

static unsigned loops; /* 0 unless registered */

/* Runs in the scraping thread, on any thread: atomics only. */
static void
report_collect(struct buf *out, void *arg)
{
    (void)arg;
    buf_puts(
        out,
        "# HELP forebay_fiber_stack_high_water_bytes deepest stack of a fiber, sampled\n"
        "# TYPE forebay_fiber_stack_high_water_bytes gauge\n");
    for (unsigned i = 0; i < loops; i++)
        buf_printf(out, "forebay_fiber_stack_high_water_bytes{loop=\"%u\"} %" PRIu64 "\n",
                   i, (uint64_t)loop_at(i)->stacks.high_water);
    buf_puts(out,
             "# HELP forebay_loop_connections connections handed to a loop and open\n"
             "# TYPE forebay_loop_connections gauge\n");
    for (unsigned i = 0; i < loops; i++)
        buf_printf(out, "forebay_loop_connections{loop=\"%u\"} %u\n", i,
                   atomic_load(&loop_at(i)->connections));
    buf_puts(out, WATCHDOG_FAMILY);
    for (unsigned i = 0; i < loops; i++)
        watchdog_report(&loop_at(i)->watchdog, i, out);
    buf_puts(out,
             "# HELP forebay_loop_turn_max_seconds the longest turn since the start\n"
             "# TYPE forebay_loop_turn_max_seconds gauge\n");
    for (unsigned i = 0; i < loops; i++)
        buf_printf(out, "forebay_loop_turn_max_seconds{loop=\"%u\"} %.6f\n", i,
                   (double)atomic_load(&loop_at(i)->watchdog.max_ns) / 1e9);
    buf_puts(out, "# HELP forebay_memory_bytes memory held for peers\n"
                  "# TYPE forebay_memory_bytes gauge\n");
    for (unsigned i = 0; i < ACCOUNT_KINDS_; i++)
        buf_printf(out, "forebay_memory_bytes{kind=\"%s\"} %" PRIu64 "\n",
                   account_name((enum account_kind)i), account_of((enum account_kind)i));
    buf_puts(out, "# HELP forebay_memory_limit_bytes of all kinds but buffers; beyond "
                  "three quarters requests "
                  "get 503\n# TYPE forebay_memory_limit_bytes gauge\n");
    buf_printf(out, "forebay_memory_limit_bytes %" PRIu64 "\n", account_limit());
    buf_puts(out, "# HELP forebay_io_buffer_bytes I/O buffers in use\n"
                  "# TYPE forebay_io_buffer_bytes gauge\n");
    buf_printf(out, "forebay_io_buffer_bytes %" PRIu64 "\n", iobuf_in_use());
    buf_puts(out, "# HELP forebay_io_block_bytes huge pages that buffers for large reads "
                  "are cut from\n"
                  "# TYPE forebay_io_block_bytes gauge\n");
    buf_printf(out, "forebay_io_block_bytes %" PRIu64 "\n", blocks_bytes());
}

void
report_begin(unsigned loop_count)
{
    assert(loops == 0);
    assert(loop_count > 0);
    loops = loop_count;
    metrics_register(report_collect, &loops);
}

void
report_end(void)
{
    metrics_unregister(&loops);
    assert(loops > 0);
    loops = 0;
}
