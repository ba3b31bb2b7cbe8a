#include "disks/hedge.h"

#include <assert.h>

#include "base/mem.h"
#include "base/metrics.h"
#include "disks/internal.h"

#define LEAST_US     2000u  /* shorter reads are not worth a second one */
#define MOST_US      80000u /* the longest wait for one copy while there is another */
#define PATIENCE     8u     /* wait factor without credit */
#define READ_CREDIT  5      /* earned by each read */
#define HEDGE_CREDIT 100    /* price of a second read */
#define SLOWER       3u     /* factor from which on a disk is not read first */
#define TRY_EACH     64u
#define PART         8u /* weight of a sample: one part in so many */
#define DEVIATIONS   4u
#define A_MINUTE_US  60000000u

static uint32_t
get(const _Atomic uint32_t *at)
{
    return atomic_load_explicit(at, memory_order_relaxed);
}

static void
set(_Atomic uint32_t *at, uint32_t value)
{
    atomic_store_explicit(at, value, memory_order_relaxed);
}

static const struct hedge_times *
times_of(const struct disks *ds, unsigned slot, enum hedge_kind kind)
{
    assert(slot < DISKS_MAX);
    assert(kind < HEDGE_KINDS);

    return &ds->slots[slot].times[kind];
}

/* An upper bound that few of these reads exceed, as TCP computes its retransmission timeout. */
static uint32_t
high_of(const struct hedge_times *t)
{
    return get(&t->mean_us) + DEVIATIONS * get(&t->deviation_us);
}

/* The lowest known bound of all slots; 0: none known. */
static uint32_t
hedge_least_of(struct disks *ds, enum hedge_kind kind, bool high)
{
    uint32_t count = atomic_load_explicit(&ds->slot_count, memory_order_acquire),
             least = 0;

    for (uint32_t i = 0; i < count; i++) {
        const struct hedge_times *t = times_of(ds, i, kind);
        uint32_t us = high ? high_of(t) : get(&t->mean_us);

        if (us > 0 && replica_state(&ds->slots[i]) < REPLICA_OUT &&
            (least == 0 || us < least))
            least = us;
    }
    return least;
}

struct deadline
hedge_begin(struct disks *ds, enum hedge_kind kind, bool again)
{
    uint32_t high = hedge_least_of(ds, kind, true), us = MOST_US;
    int32_t credit = atomic_load_explicit(&ds->hedge.credit, memory_order_relaxed);

    if (high > 0)
        us = MIN(MAX(high, LEAST_US), MOST_US);
    if (again || credit < HEDGE_CREDIT)
        us = MAX(us * PATIENCE, MOST_US);
    return (struct deadline){rt_now_ns() + us * UINT64_C(1000)};
}

/* Moves the average by a fraction toward `us`. */
static void
approach(_Atomic uint32_t *at, uint32_t us)
{
    uint32_t known = get(at);

    set(at, us > known ? known + (us - known) / PART : known - (known - us) / PART);
}

static void
learn(struct hedge_times *t, uint64_t ns)
{
    uint32_t us = (uint32_t)MIN(MAX(ns / 1000, UINT64_C(1)), (uint64_t)A_MINUTE_US);
    uint32_t mean = get(&t->mean_us);

    if (mean == 0) {
        set(&t->mean_us, us);
        set(&t->deviation_us, us / 2);
        return;
    }
    approach(&t->mean_us, us);
    approach(&t->deviation_us, us > mean ? us - mean : mean - us);
}

void
hedge_took(struct disks *ds, unsigned slot, enum hedge_kind kind, uint64_t ns)
{
    assert(slot < DISKS_MAX);

    if (atomic_load_explicit(&ds->hedge.credit, memory_order_relaxed) < HEDGE_CREDIT_MAX)
        atomic_fetch_add_explicit(&ds->hedge.credit, READ_CREDIT, memory_order_relaxed);
    learn(&ds->slots[slot].times[kind], ns);
}

/* The true time is unknown. Twice the wait is a guess that later samples correct. */
void
hedge_late(struct disks *ds, unsigned slot, enum hedge_kind kind, uint64_t ns)
{
    assert(slot < DISKS_MAX);

    atomic_fetch_sub_explicit(&ds->hedge.credit, HEDGE_CREDIT, memory_order_relaxed);
    metric_add(M_READS_HEDGED, 0, 1);
    learn(&ds->slots[slot].times[kind], 2 * ns);
}

static bool
is_slower(struct disks *ds, unsigned slot, enum hedge_kind kind)
{
    uint32_t mean = get(&times_of(ds, slot, kind)->mean_us);

    return mean >= LEAST_US && mean / SLOWER >= hedge_least_of(ds, kind, false);
}

/* For a disk without samples of that kind, compares the other kind. */
bool
hedge_avoids(struct disks *ds, unsigned slot, enum hedge_kind kind)
{
    assert(kind < HEDGE_KINDS);

    if (get(&times_of(ds, slot, kind)->mean_us) == 0)
        kind = kind == HEDGE_SMALL ? HEDGE_LARGE : HEDGE_SMALL;
    return is_slower(ds, slot, kind) &&
           atomic_fetch_add_explicit(&ds->hedge.turn, 1, memory_order_relaxed) %
                   TRY_EACH !=
               0;
}
