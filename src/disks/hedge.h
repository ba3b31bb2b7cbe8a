/* hedge: how long reads take on each disk, when another copy is asked, and which disk is not asked first.
 *
 * A read of an object with copies that takes longer than hardly any read does (mean and four deviations of the disk that
 * is the fastest now) is left to itself, and another copy is read. That costs reads, so it is bounded: five in a hundred,
 * some saved up; without credit it waits for a multiple of that time. A disk that is three times slower than another one
 * is not asked first at all, which costs none; one read in sixty-four finds out whether it still is.
 *
 * Any loop; no lock: a sample that is lost between two loops does no harm.
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

/* Of one disk and kind of read; 0: not known yet. */
struct hedge_times {
    _Atomic uint32_t mean_us, deviation_us; /* of the last few */
};
struct hedge {
    /* In hundredths of a read; may fall below 0 when many are late at once. */
    _Atomic int32_t credit;
    _Atomic uint32_t turn;
};
#define HEDGE_CREDIT_MAX 3200

/* A read of that kind begins: when to ask another copy. `again`: others were asked before it. */
struct deadline hedge_begin(struct disks *ds, enum hedge_kind kind, bool again);
/* It came from the disk after so long. */
void hedge_took(struct disks *ds, unsigned slot, enum hedge_kind kind, uint64_t ns);
/* It was left after so long, and another copy is asked: counted. */
void hedge_late(struct disks *ds, unsigned slot, enum hedge_kind kind, uint64_t ns);
/* Is the slot much slower than others are? True but for now and then, when it is to be tried. */
bool hedge_avoids(struct disks *ds, unsigned slot, enum hedge_kind kind);
