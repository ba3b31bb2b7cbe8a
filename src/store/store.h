/* store: one disk of a node: write-ahead log, bodies, index, commit, reads. docs/formats.md
 * describes every byte.
 *
 * This is the contract for the rooms below this one in src/ROOMS. It includes one header per
 * subject:
 *   store_entry.h    key, entry and metadata of an object; begin here
 *   store_options.h  how a disk is opened
 *   store_read.h     bytes and metadata of an entry
 *   store_write.h    put, delete, conditions, in-doubt writes
 *   store_version.h  S3's versions
 *   store_upload.h   multipart uploads
 *   store_replica.h  one object on several disks of a node
 *   store_space.h    space: how much, of which bucket, and how to free it
 *   store_health.h   health, scrub, check
 * This file has open and close, look-up and list, figures. store_rescue.h is for disks that are
 * not served.
 *
 * The log is authoritative; the index follows it. One committer fiber (on the disk's owner loop)
 * gathers the changes of all loops. It checks their conditions, appends them to the log, syncs
 * once, publishes them and answers. A change that returned ERR_OK is durable (native) or written
 * (cached), and every later look-up on any loop sees it. A submitted change that failed with
 * anything but ERR_PRECONDITION, ERR_NOT_FOUND, ERR_EXISTS, ERR_NO_UPLOAD is *unknown*: it may
 * be there after a restart.
 *
 * Fibers: any loop. Calls that may switch say so. Memory: what is borrowed must outlive the
 *         call.
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
/* Creates or opens `path`, and replays the log after the checkpoint position. On ERR_OK the
 * caller owns *out. ERR_EXISTS: another process holds the lock (flock). ERR_DENIED: a disk of
 * another cluster. May switch. */
enum err store_open(const char *path, const struct store_options *o, struct store **out,
                    struct errbuf *eb) MUST_CHECK;
/* Commits the index, so that the next start replays nothing. May switch. */
void store_close(struct store **dp);
/* The superblock of `path`, read without locking or opening. ERR_NOT_FOUND: not a disk. */
struct store_identity {
    uint8_t cluster_id[16], disk_id[16];
    uint64_t epoch;      /* the count of its last start */
    uint64_t map_epoch;  /* no version on it is of a later one */
    uint64_t generation; /* of the superblock */
    bool node_state;     /* the disk holds the node's state */
    bool removed;        /* store_mark_removed() */
    bool rebuilt;        /* from the segments: `generation` says nothing */
};
/* Of the superblock; rises with each of its writes. Any loop. */
uint64_t store_generation(const struct store *d);
enum err store_identify(const char *path, struct store_identity *out,
                        struct errbuf *eb) MUST_CHECK;
/* Makes `epoch` durable as that of the map: versions of it may be written from then on, once
 * store_ids.map_epoch has it too. Never lowers it. One call at a time. May switch. */
enum err store_raise_map_epoch(struct store *d, uint64_t epoch,
                               struct errbuf *eb) MUST_CHECK;
/* Records in the superblock that the disk no longer belongs to its node; opening it then fails
 * (ERR_DENIED). May switch. */
enum err store_mark_removed(struct store *d, struct errbuf *eb) MUST_CHECK;
/* Records in the superblock whether the disk holds the node's state. May switch. */
enum err store_mark_state(struct store *d, bool holds, struct errbuf *eb) MUST_CHECK;
/* The path as given at open; lives as long as the disk. */
const char *store_path(const struct store *d);
/* The id of an open disk. */
void store_id(const struct store *d, uint8_t out[16]);

/* ---- looking up, listing ---- */
/* Finds the current entry of a key: memtable first, then the index. ERR_NOT_FOUND. If a version
 * of the key is prepared here, out->flags has ENTRY_PREPARED, also with ERR_NOT_FOUND (the other
 * fields are zero then). Switches only while the index is not resident, or while versions are
 * prepared here. */
enum err store_lookup(struct store *d, const struct store_key *k, struct entry *out,
                      struct errbuf *eb) MUST_CHECK;
/* The same, but also returns a tombstone that is kept (ENTRY_TOMBSTONE | ENTRY_KEPT, version,
 * mtime_ms). */
enum err store_lookup_any(struct store *d, const struct store_key *k, struct entry *out,
                          struct errbuf *eb) MUST_CHECK;

struct store_entry {
    struct span key; /* in the arena */
    struct entry entry;
};
/* Lists up to `max` live entries of a bucket with key > after (or >= from, if `inclusive`) in
 * byte order, from memtable and index. Holds nothing between calls. *more: another entry may
 * follow. May switch. */
enum err store_list(struct store *d, uint64_t bucket, struct span after, bool inclusive,
                    uint32_t max, struct arena *a, struct store_entry **out,
                    uint32_t *count, bool *more, struct errbuf *eb) MUST_CHECK;

/* The same, including tombstones that are kept. */
enum err store_list_any(struct store *d, uint64_t bucket, struct span after,
                        bool inclusive, uint32_t max, struct arena *a,
                        struct store_entry **out, uint32_t *count, bool *more,
                        struct errbuf *eb) MUST_CHECK;

/* ---- the rest ---- */
/* Finds out whether the bucket is empty: no object, version or delete marker. Uploads in progress do not count. */
enum err store_bucket_empty(struct store *d, uint64_t bucket, bool *empty,
                            struct errbuf *eb) MUST_CHECK;
/* Writes a bucket record to the log (decision D6). */
enum err store_bucket_note(struct store *d, uint64_t bucket, struct span record,
                           struct errbuf *eb) MUST_CHECK;
/* Waits until everything submitted so far is in the index: for tests and for clean shutdown. */
enum err store_flush(struct store *d, struct errbuf *eb) MUST_CHECK;
struct store_stat {
    uint64_t total_bytes, free_bytes; /* of the file system */
    uint64_t filesystem;              /* its id; 0: unknown */
    /* Of batches and bodies in segments, garbage included; without space allocated ahead. */
    uint64_t native_bytes, cached_bytes;
    /* Of both classes, up to the last visible change. */
    uint64_t objects, older;         /* live objects; older versions */
    uint64_t open_parts, open_bytes; /* of uploads in progress */
    uint64_t memtable_bytes, block_cache_bytes;
    uint64_t prepared; /* versions prepared here */
    enum store_index index;
    unsigned index_percent; /* progress of the index verification */
};
/* Reads the file system: may switch. */
void store_stat(const struct store *d, struct store_stat *out);
/* Only cached_bytes. Any loop; does not wait. */
uint64_t store_cached_bytes(const struct store *d);
