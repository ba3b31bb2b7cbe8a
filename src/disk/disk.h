/* disk: one disk of a node: logs, bodies, index, commit, read. docs/formats.md has every byte.
 *
 * This is the door, for the rooms above. Behind it, one header for each thing that they may want of a disk:
 *   disk_row.h      what is known of an object: key, row, metadata; begin here
 *   disk_options.h  how a disk is opened
 *   disk_read.h     bytes and metadata of a row
 *   disk_write.h    put, delete, conditions, doubts
 *   disk_version.h  S3's versions
 *   disk_upload.h   multipart uploads
 *   disk_copies.h   one object on several disks of a node
 *   disk_space.h    room: how much, whose, and more of it
 *   disk_health.h   health, scrub, check
 * and here: open and close, look up and list, figures. rescue.h is for disks that nobody serves.
 *
 * The log is the truth, the index follows. One committer fiber (on the disk's home loop) gathers the changes
 * of all loops, judges their conditions, appends them to the log, syncs once, makes them visible and answers.
 * A change that returned ERR_OK is durable (native) or written (cached), and every later lookup on any loop
 * sees it. A change that failed after it was handed to the committer with anything but ERR_PRECONDITION,
 * ERR_NOT_FOUND, ERR_EXISTS, ERR_NO_UPLOAD is *unknown*: it may be there after a restart.
 *
 * Fibers: any loop. "May switch" is said where it does. Memory: what is borrowed must outlive the call.
 */
#pragma once
#include "disk/disk_copies.h"
#include "disk/disk_health.h"
#include "disk/disk_options.h"
#include "disk/disk_read.h"
#include "disk/disk_row.h"
#include "disk/disk_space.h"
#include "disk/disk_upload.h"
#include "disk/disk_version.h"
#include "disk/disk_write.h"

struct disk;

/* ---- a disk ---- */
/* Makes or opens `path`. Replays the tail of the log. On ERR_OK the caller owns *out. Only while nobody else
 * has it (flock): ERR_EXISTS. A disk of another cluster: ERR_DENIED. May switch. */
enum err disk_open(const char *path, const struct disk_options *o, struct disk **out,
                   struct errbuf *eb) MUST_CHECK;
/* Commits the index, so that the next start replays nothing. May switch. */
void disk_close(struct disk **dp);
/* What the superblock of `path` says, without locking or opening: ERR_NOT_FOUND when it is no disk. */
struct disk_identity {
    uint8_t cluster_id[16], disk_id[16];
    uint64_t epoch;      /* of its latest start */
    uint64_t generation; /* of the superblock */
    bool node_state;     /* the node's state lies here */
    bool removed;        /* disk_mark_removed() */
};
enum err disk_identify(const char *path, struct disk_identity *out,
                       struct errbuf *eb) MUST_CHECK;
/* Writes into the superblock that the disk no longer belongs to its node: whoever opens it is told so (ERR_DENIED). May
 * switch. */
enum err disk_mark_removed(struct disk *d, struct errbuf *eb) MUST_CHECK;
/* Writes there whether the node's state lies on this disk. May switch. */
enum err disk_mark_state(struct disk *d, bool holds, struct errbuf *eb) MUST_CHECK;
/* As it was opened; lives as long as the disk. */
const char *disk_path(const struct disk *d);
/* The id of an open disk. */
void disk_id(const struct disk *d, uint8_t out[16]);

/* ---- looking up, listing ---- */
/* Finds the current row of a key: tail first, then the index. ERR_NOT_FOUND. Switches only while the index is
 * not resident, or while versions are undecided here: where one is of this key, out->flags has ROW_UNDECIDED, with
 * ERR_NOT_FOUND too (all else is zero then). */
enum err disk_lookup(struct disk *d, const struct disk_key *k, struct row *out,
                     struct errbuf *eb) MUST_CHECK;
/* The same, but a kept tombstone is a row (ROW_TOMBSTONE | ROW_KEPT, version, mtime_ms). */
enum err disk_lookup_any(struct disk *d, const struct disk_key *k, struct row *out,
                         struct errbuf *eb) MUST_CHECK;

struct disk_entry {
    struct span key; /* in the arena */
    struct row row;
};
/* Up to `max` rows of a bucket with key > after (or >= from, when `inclusive`) in byte order, living ones only
 * (tail merged with the index). Goes page by page: nothing is held between calls. *more says whether another
 * may follow. May switch. */
enum err disk_list(struct disk *d, uint64_t bucket, struct span after, bool inclusive,
                   uint32_t max, struct arena *a, struct disk_entry **out,
                   uint32_t *count, bool *more, struct errbuf *eb) MUST_CHECK;

/* The same with kept tombstones. */
enum err disk_list_any(struct disk *d, uint64_t bucket, struct span after, bool inclusive,
                       uint32_t max, struct arena *a, struct disk_entry **out,
                       uint32_t *count, bool *more, struct errbuf *eb) MUST_CHECK;

/* ---- the rest ---- */
/* Is there any object or upload in the bucket? */
enum err disk_bucket_empty(struct disk *d, uint64_t bucket, bool *empty,
                           struct errbuf *eb) MUST_CHECK;
/* Bucket records also stand in the logs (decision D6). */
enum err disk_bucket_note(struct disk *d, uint64_t bucket, struct span record,
                          struct errbuf *eb) MUST_CHECK;
/* Waits until everything that was handed over is in the index: for tests and for clean shutdown. */
enum err disk_settle(struct disk *d, struct errbuf *eb) MUST_CHECK;
struct disk_stat {
    uint64_t total_bytes, free_bytes; /* of the file system */
    uint64_t filesystem;              /* which one; 0: not known */
    /* Of groups and bodies in segments, dead ones included; not what is allocated ahead. */
    uint64_t native_bytes, cached_bytes;
    /* Of both classes, as of the last change that is visible. */
    uint64_t objects, older;         /* living ones; older versions */
    uint64_t open_parts, open_bytes; /* of uploads in progress */
    uint64_t tail_bytes, hot_bytes;
    uint64_t undecided; /* versions that are prepared here */
    enum disk_index index;
    unsigned index_percent; /* of the reading that proves it */
};
/* Asks the file system: may switch. */
void disk_stat(const struct disk *d, struct disk_stat *out);
/* cached_bytes alone. Any loop; does not wait. */
uint64_t disk_cached_bytes(const struct disk *d);
