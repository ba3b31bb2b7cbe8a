#include "rt/watchdog.h"

#include <assert.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"

#define LIMIT_DEFAULT_MS 50u
#define SAY_EVERY_NS     (UINT64_C(10) * 1000000000)

static const struct {
    uint64_t ns;
    const char *seconds;
} bounds[TURN_BOUNDS] = {
    {1000000, "0.001"},  {2500000, "0.0025"}, {5000000, "0.005"}, {10000000, "0.01"},
    {25000000, "0.025"}, {50000000, "0.05"},  {100000000, "0.1"}, {250000000, "0.25"},
    {500000000, "0.5"},  {1000000000, "1"},
};

void
watchdog_init(struct watchdog *w, uint64_t limit_ms)
{
    w->limit_ns = (limit_ms > 0 ? limit_ms : LIMIT_DEFAULT_MS) * 1000000;
}

/* The code address of a fiber's function, as addr2line takes it: "forebay+0x1234". */
static const char *
watchdog_place(fiber_fn *fn, char *out, size_t room)
{
    Dl_info info = {0};
    const char *name;

    out[0] = '\0';
    if (fn == NULL || dladdr((void *)(uintptr_t)fn, &info) == 0 || info.dli_fname == NULL)
        return out;
    name = strrchr(info.dli_fname, '/');
    (void)snprintf(out, room, "%s+0x%" PRIxPTR, name != NULL ? name + 1 : info.dli_fname,
                   (uintptr_t)fn - (uintptr_t)info.dli_fbase);
    return out;
}

static void
watchdog_log(struct watchdog *w, unsigned loop, uint64_t now_ns, uint64_t took_ns)
{
    uint64_t all = MAX(watchdog_cycles() - w->begun, UINT64_C(1));
    char place[96];

    if (w->said_ns != 0 && now_ns - w->said_ns < SAY_EVERY_NS) {
        w->unsaid++;
        return;
    }
    LOG(LOG_WARN, "loop.slow_turn",
        "a turn of a loop took too long and delayed other requests", L_U64("loop", loop),
        L_U64("took_ms", took_ns / 1000000), L_U64("limit_ms", w->limit_ns / 1000000),
        L_TEXT("longest", w->what),
        L_TEXT("at", watchdog_place(w->fn, place, sizeof place)),
        L_U64("share_percent", 100 * (w->most / 1024) / MAX(all / 1024, UINT64_C(1))),
        L_U64("unsaid", w->unsaid));
    w->said_ns = now_ns;
    w->unsaid = 0;
}

/* Only the owner writes. */
static void
watchdog_count(_Atomic uint64_t *to, uint64_t n)
{
    atomic_store_explicit(to, atomic_load_explicit(to, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

void
watchdog_end(struct watchdog *w, unsigned loop, uint64_t now_ns)
{
    uint64_t took = now_ns - w->from_ns;
    unsigned i = 0;

    assert(w->from_ns != 0); /* a turn is open */
    assert(now_ns >= w->from_ns);
    w->from_ns = 0;
    while (i < TURN_BOUNDS && took > bounds[i].ns)
        i++;
    watchdog_count(&w->counts[i], 1);
    watchdog_count(&w->sum_ns, took);
    if (i == 0) /* nearly always */
        return;
    if (took > atomic_load_explicit(&w->max_ns, memory_order_relaxed))
        atomic_store_explicit(&w->max_ns, took, memory_order_relaxed);
    if (took > w->limit_ns)
        watchdog_log(w, loop, now_ns, took);
}

void
watchdog_report(const struct watchdog *w, unsigned loop, struct buf *out)
{
    uint64_t count = 0;

    for (unsigned i = 0; i <= TURN_BOUNDS; i++) {
        count += atomic_load_explicit(&w->counts[i], memory_order_relaxed);
        buf_printf(
            out, "forebay_loop_turn_seconds_bucket{loop=\"%u\",le=\"%s\"} %" PRIu64 "\n",
            loop, i < TURN_BOUNDS ? bounds[i].seconds : "+Inf", count);
    }
    buf_printf(out, "forebay_loop_turn_seconds_sum{loop=\"%u\"} %.6f\n", loop,
               (double)atomic_load_explicit(&w->sum_ns, memory_order_relaxed) / 1e9);
    buf_printf(out, "forebay_loop_turn_seconds_count{loop=\"%u\"} %" PRIu64 "\n", loop,
               count);
}
