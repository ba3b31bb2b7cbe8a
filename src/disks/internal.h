/* internal: what the files of the disks room share. Nobody outside includes it. */
#pragma once
#include <stdatomic.h>

#include "disks/disks.h"

struct disks {
    /* Any loop. */
    struct disk *_Atomic one; /* there is one disk: nothing else need be looked at */
    struct disk_ids ids;      /* lent to every disk */
    /* Counts changes of the set, of a disk's state, of settled; before the first write is acknowledged that follows it. */
    _Atomic uint32_t serial;
};

struct disks_writer {
    struct disks *disks;
    struct disk_writer *to; /* owned */
};

/* The only disk, or NULL when there are several. */
static inline struct disk *
only_disk(struct disks *ds)
{
    return atomic_load_explicit(&ds->one, memory_order_acquire);
}
