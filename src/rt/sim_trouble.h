/* sim_trouble: faults of simulated disks. A mount point ("/NAME") is one disk with one file system: it has its own
 * room, its own queue, and its own faults. rt/sim.h has the rest of the simulator.
 *
 * Any time, also inside a world (a test's own fiber may inject faults). Random draws come from the seed, and only
 * for disks with faults. The index (LMDB, in memory that stands for it) is affected by `gone` only. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct sim;

struct sim_trouble {
    /* Of 10,000 operations of the kind, so many fail with EIO. A failed write may have reached the disk all the
     * same. After a failed sync some of its data is on the disk, and the rest is taken for clean (sim_disk.h).
     * Writes include reserving, punching, truncating, and making or removing names. */
    unsigned read_errors, write_errors, sync_errors;
    bool gone;        /* every operation fails with EIO, names too */
    bool lies;        /* syncs say that they were done, and do nothing */
    bool full;        /* nothing more can be allocated: ENOSPC */
    unsigned slow_us; /* more for each operation */
};
/* Takes effect at once and replaces earlier faults of that disk. A zeroed struct ends them. */
void sim_trouble(struct sim *s, const char *mount, const struct sim_trouble *t);

/* Moves the wall clock forward, or back. */
void sim_jump_clock(struct sim *s, int64_t ms);
