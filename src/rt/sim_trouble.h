/* sim_trouble: what simulated disks do to those who trust them. A mount point ("/NAME") is one disk with one file
 * system: it has its own room, its own queue, and its own trouble. rt/sim.h has the rest of the simulator.
 *
 * Any time, also inside a world (a fiber of the test's own plays fate). What is drawn comes from the seed, and from
 * disks in trouble only. The index (LMDB, in memory that stands for it) has no part in it but `gone`.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct sim;

struct sim_trouble {
    /* Of 10,000 operations of the kind as many fail with EIO. A write that failed may be there all the same; of what a
     * failed sync was for some is there and the rest is taken for clean (sim_disk.h). Of writes, also those that
     * reserve, punch or truncate, and names made or removed. */
    unsigned read_errors, write_errors, sync_errors;
    bool gone;        /* every operation fails with EIO, names too */
    bool lies;        /* syncs say that they were done, and do nothing */
    bool full;        /* nothing more can be allocated: ENOSPC */
    unsigned slow_us; /* more for each operation */
};
/* From now on; replaces what was said of that disk before. A zeroed one ends it. */
void sim_trouble(struct sim *s, const char *mount, const struct sim_trouble *t);

/* Somebody sets the wall clock: forward, or back. */
void sim_jump_clock(struct sim *s, int64_t ms);
