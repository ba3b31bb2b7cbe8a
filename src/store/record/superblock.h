/* superblock: what a disk is, in two copies. docs/formats.md, section 2. */
#pragma once
#include "rt/file.h"
#include "store/store_entry.h"

#define SUPERBLOCK_BYTES 4096
/* Flags. */
#define SUPERBLOCK_NODE_STATE 1u
#define SUPERBLOCK_REMOVED    2u
#define SUPERBLOCK_REBUILT    4u /* until a node opens the disk again */

struct superblock {
    uint8_t cluster_id[16], disk_id[16];
    uint64_t generation;
    uint64_t epoch;     /* the count of starts, of the latest */
    uint64_t map_epoch; /* no version on the disk is of a later one */
    int64_t made_ms;
    uint32_t flags;
};

/* Pure. */
void superblock_encode(const struct superblock *s, char out[SUPERBLOCK_BYTES]);
/* ERR_CORRUPT: wrong magic or sum; ERR_NOT_IMPLEMENTED: another format version. */
enum err superblock_decode(struct span bytes, struct superblock *out,
                           struct errbuf *eb) MUST_CHECK;

/* The newer good copy of the two in `state` (DISK/.forebay). ERR_NOT_FOUND: neither file is there. May switch. */
enum err superblock_load(struct rt_dir *state, struct superblock *out,
                         struct errbuf *eb) MUST_CHECK;
/* Writes and syncs the twin, then `first`, in place; makes both where they are not. May switch. */
enum err superblock_save(struct rt_dir *state, struct rt_file *first,
                         const struct superblock *s, struct errbuf *eb) MUST_CHECK;

/* What a disk without a good superblock is, as far as the headers of its segments say: ids, and the largest epoch that
 * wrote. ERR_NOT_FOUND: there is no segment; ERR_DENIED: they belong to several disks. May switch. */
enum err superblock_from_segments(struct rt_dir *root, struct superblock *out,
                                  struct errbuf *eb) MUST_CHECK;
