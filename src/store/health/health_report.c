/* What the metrics page says of the disks of this process. */
#include <inttypes.h>

#include "base/mem.h"
#include "base/metrics.h"
#include "store/health/health_internal.h"
#include "store/store_health.h"

static const struct counter {
    const char *op;
    size_t at;
} counters[] = {
    {"read", offsetof(struct store_health, read_errors)},
    {"write", offsetof(struct store_health, write_errors)},
    {"sync", offsetof(struct store_health, sync_errors)},
    {"name", offsetof(struct store_health, name_errors)},
    {"index", offsetof(struct store_health, index_faults)},
    {"sum", offsetof(struct store_health, corrupt_blocks)},
};

static void
family(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Under the lock. */
static void
sample(struct buf *out, const struct health *h, const char *name, const char *label,
       const char *value, double n)
{
    buf_printf(out, "%s{disk=\"", name);
    metrics_put_label(out, span_of(h->path));
    if (label != NULL)
        buf_printf(out, "\",%s=\"%s", label, value);
    buf_printf(out, "\"} %.17g\n", n);
}

static void
each(struct buf *out, void (*put)(struct buf *out, const struct health *h))
{
    LIST_EACH(&healths, n)
    put(out, LIST_ENTRY(n, struct health, of_all));
}

static void
put_errors(struct buf *out, const struct health *h)
{
    struct store_health now;

    health_counts(h, &now);
    for (unsigned i = 0; i < ARRAY_LEN(counters); i++)
        sample(out, h, "forebay_disk_errors_total", "op", counters[i].op,
               (double)*(uint64_t *)(void *)((char *)&now + counters[i].at));
}

static void
put_state(struct buf *out, const struct health *h)
{
    for (unsigned s = STORE_OK; s <= STORE_FAILED; s++)
        sample(out, h, "forebay_disk_state", "state",
               store_state_name((enum store_state)s),
               atomic_load(&h->state) == s ? 1 : 0);
}

static void
put_index(struct buf *out, const struct health *h)
{
    static const char *const names[] = {[STORE_INDEX_UNPROVEN] = "unproven",
                                        [STORE_INDEX_PROVEN] = "proven",
                                        [STORE_INDEX_DAMAGED] = "damaged"};

    for (unsigned i = 0; i < ARRAY_LEN(names); i++)
        sample(out, h, "forebay_disk_index", "state", names[i],
               atomic_load(&h->index) == i ? 1 : 0);
}

static void
put_slow(struct buf *out, const struct health *h)
{
    sample(out, h, "forebay_disk_slow_operations_total", NULL, NULL,
           (double)atomic_load(&h->slow_ops));
}

static const char *const meter_ops[METERS] = {"read_small", "read_large", "write_small",
                                              "write_large", "sync"};

static void
put_count(struct buf *out, const struct health *h)
{
    for (unsigned i = 0; i < METERS; i++)
        sample(out, h, "forebay_disk_operations_total", "op", meter_ops[i],
               (double)atomic_load(&h->meters[i].count));
}

static void
put_time(struct buf *out, const struct health *h)
{
    for (unsigned i = 0; i < METERS; i++)
        sample(out, h, "forebay_disk_io_seconds_total", "op", meter_ops[i],
               (double)atomic_load(&h->meters[i].sum_ns) / 1e9);
}

static void
collect(struct buf *out, void *arg)
{
    (void)arg;
    lock_acquire(&healths_lock);
    if (!list_empty(&healths)) {
        family(out, "forebay_disk_errors_total", "counter",
               "operations of a disk that failed, and blocks with a wrong sum");
        each(out, put_errors);
        family(out, "forebay_disk_state", "gauge", "1 for the state a disk is in");
        each(out, put_state);
        family(out, "forebay_disk_index", "gauge",
               "1 for what is known of a disk's index: not read as a whole since the "
               "start, read and as it was written, or damaged");
        each(out, put_index);
        family(out, "forebay_disk_slow_operations_total", "counter",
               "operations that took ten times the usual");
        each(out, put_slow);
        family(out, "forebay_disk_operations_total", "counter",
               "operations of a disk that succeeded; large ones are over 64 KiB");
        each(out, put_count);
        family(out, "forebay_disk_io_seconds_total", "counter", "time they took");
        each(out, put_time);
    }
    lock_release(&healths_lock);
}

void
health_report(void)
{
    static _Atomic bool registered;

    if (!atomic_exchange(&registered, true))
        metrics_register(collect, &registered);
}
