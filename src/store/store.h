/* store: one disk of a node: write-ahead log, bodies, index, commit, reads. docs/formats.md has every byte.
 *
 * This is the contract for the rooms below this one in src/ROOMS. It includes one header for each subject:
 *   store_entry.h    what is known of an object: key, entry, metadata; begin here
 *   store_options.h  how a disk is opened
 *   store_read.h     bytes and metadata of an entry
 *   store_write.h    put, delete, conditions, writes in doubt
 *   store_version.h  S3's versions
 *   store_upload.h   multipart uploads
 *   store_replica.h  one object on several disks of a node
 *   store_space.h    room: how much, of which bucket, and how to get more
 *   store_health.h   health, scrub, check
 * and here: open and close, look up and list, figures. store_rescue.h is for disks that are not served.
 *
 * The log is the truth, the index follows. One committer fiber (on the disk's owner loop) gathers the changes
 * of all loops, checks their conditions, appends them to the log, syncs once, makes them visible and answers.
 * A change that returned ERR_OK is durable (native) or written (cached), and every later lookup on any loop
 * sees it. A change that failed after it was handed to the committer with anything but ERR_PRECONDITION,
 * ERR_NOT_FOUND, ERR_EXISTS, ERR_NO_UPLOAD is *unknown*: it may be there after a restart.
 *
 * Fibers: any loop. "May switch" is said where it does. Memory: what is borrowed must outlive the call.
 */
#pragma once
#include "store/store_entry.h"
#include "store/store_health.h"
#include "store/store_options.h"
#include "store/store_read.h"
#include "store/store_replica.h"
#include "store/store_space.h"
#include "store/store_upload.h"
#include "store/store_version.h"
#include "store/store_write.h"

struct store;

/* ---- a disk ---- */
/* Makes or opens `path`, and replays the log behind the checkpoint position. On ERR_OK the caller owns *out. ERR_EXISTS:
 * another process has it (flock). A disk of another cluster: ERR_DENIED. May switch. */
enum err store_open(const char *path, const struct store_options *o, struct store **out,
                    struct errbuf *eb) MUST_CHECK;
/* Commits the index, so that the next start replays nothing. May switch. */
void store_close(struct store **dp);
/* What the superblock of `path` says, without locking or opening: ERR_NOT_FOUND when it is no disk. */
struct store_identity {
    uint8_t cluster_id[16], disk_id[16];
    uint64_t epoch;      /* of its latest start */
    uint64_t generation; /* of the superblock */
    bool node_state;     /* the node's state lies here */
    bool removed;        /* store_mark_removed() */
};
enum err store_identify(const char *path, struct store_identity *out,
                        struct errbuf *eb) MUST_CHECK;
/* Writes into the superblock that the disk no longer belongs to its node: opening it is refused (ERR_DENIED). May
 * switch. */
enum err store_mark_removed(struct store *d, struct errbuf *eb) MUST_CHECK;
/* Writes there whether the node's state lies on this disk. May switch. */
enum err store_mark_state(struct store *d, bool holds, struct errbuf *eb) MUST_CHECK;
/* As it was opened; lives as long as the disk. */
const char *store_path(const struct store *d);
/* The id of an open disk. */
void store_id(const struct store *d, uint8_t out[16]);

/* ---- looking up, listing ---- */
/* Finds the current entry of a key: memtable first, then the index. ERR_NOT_FOUND. Switches only while the index is
 * not resident, or while versions are prepared here: where one is of this key, out->flags has ENTRY_PREPARED, with
 * ERR_NOT_FOUND too (all else is zero then). */
enum err store_lookup(struct store *d, const struct store_key *k, struct entry *out,
                      struct errbuf *eb) MUST_CHECK;
/* The same, but a tombstone that is kept is an entry (ENTRY_TOMBSTONE | ENTRY_KEPT, version, mtime_ms). */
enum err store_lookup_any(struct store *d, const struct store_key *k, struct entry *out,
                          struct errbuf *eb) MUST_CHECK;

struct store_entry {
    struct span key; /* in the arena */
    struct entry entry;
};
/* Up to `max` entries of a bucket with key > after (or >= from, when `inclusive`) in byte order, living ones only
 * (memtable merged with the index). Goes page by page: nothing is held between calls. *more says whether another
 * may follow. May switch. */
enum err store_list(struct store *d, uint64_t bucket, struct span after, bool inclusive,
                    uint32_t max, struct arena *a, struct store_entry **out,
                    uint32_t *count, bool *more, struct errbuf *eb) MUST_CHECK;

/* The same with tombstone that is kepts. */
enum err store_list_any(struct store *d, uint64_t bucket, struct span after,
                        bool inclusive, uint32_t max, struct arena *a,
                        struct store_entry **out, uint32_t *count, bool *more,
                        struct errbuf *eb) MUST_CHECK;

/* ---- the rest ---- */
/* Is there any object or upload in the bucket? */
enum err store_bucket_empty(struct store *d, uint64_t bucket, bool *empty,
                            struct errbuf *eb) MUST_CHECK;
/* Bucket records also stand in the logs (decision D6). */
enum err store_bucket_note(struct store *d, uint64_t bucket, struct span record,
                           struct errbuf *eb) MUST_CHECK;
/* Waits until everything that was handed over is in the index: for tests and for clean shutdown. */
enum err store_flush(struct store *d, struct errbuf *eb) MUST_CHECK;
struct store_stat {
    uint64_t total_bytes, free_bytes; /* of the file system */
    uint64_t filesystem;              /* which one; 0: not known */
    /* Of batches and bodies in segments, dead ones included; not what is allocated ahead. */
    uint64_t native_bytes, cached_bytes;
    /* Of both classes, as of the last change that is visible. */
    uint64_t objects, older;         /* living ones; older versions */
    uint64_t open_parts, open_bytes; /* of uploads in progress */
    uint64_t memtable_bytes, block_cache_bytes;
    uint64_t prepared; /* versions that are prepared here */
    enum store_index index;
    unsigned index_percent; /* of the reading that proves it */
};
/* Asks the file system: may switch. */
void store_stat(const struct store *d, struct store_stat *out);
/* cached_bytes alone. Any loop; does not wait. */
uint64_t store_cached_bytes(const struct store *d);
