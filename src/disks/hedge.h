/* hedge: measures the read times of each disk, and decides when a read tries another copy and
 * which disk to avoid.
 *
 * A hedged read leaves a slow copy and reads another one. It does so once the read takes longer
 * than nearly all reads of the fastest disk: mean plus four deviations. Hedges cost reads, so
 * credit bounds them: five in a hundred reads, some saved up. Without credit a read waits a
 * multiple of that time. A disk three times slower than another is not read first at all, which
 * costs nothing; one read in sixty-four tests whether it is still slow.
 *
 * Any loop; no lock: a sample lost between two loops does no harm.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "rt/time.h"

struct disks;

enum hedge_kind { HEDGE_SMALL, HEDGE_LARGE, HEDGE_KINDS };
#define HEDGE_LARGE_BYTES (64u << 10)
static inline enum hedge_kind
hedge_kind_of(uint64_t bytes)
{
    return bytes < HEDGE_LARGE_BYTES ? HEDGE_SMALL : HEDGE_LARGE;
}

/* Times of one disk and kind of read; 0: unknown. */
struct hedge_times {
    _Atomic uint32_t mean_us, deviation_us; /* moving averages */
};
struct hedge {
    /* In hundredths of a read; may fall below 0 if many are late at once. */
    _Atomic int32_t credit;
    _Atomic uint32_t turn;
};
#define HEDGE_CREDIT_MAX 3200

/* Begins a read of that kind; returns when to try another copy. `again`: another copy was tried
 * before. */
struct deadline hedge_begin(struct disks *ds, enum hedge_kind kind, bool again);
/* Records a successful read from the disk and its time. */
void hedge_took(struct disks *ds, unsigned slot, enum hedge_kind kind, uint64_t ns);
/* Records and counts a read that was abandoned after this time for another copy. */
void hedge_late(struct disks *ds, unsigned slot, enum hedge_kind kind, uint64_t ns);
/* True if the slot is much slower than others. Now and then returns false for it, to test it. */
bool hedge_avoids(struct disks *ds, unsigned slot, enum hedge_kind kind);
