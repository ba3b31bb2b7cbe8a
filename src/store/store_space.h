/* store_space: space and its use: in all, by bucket, by object; eviction of the cached class.
 * Part of store.h. */
#pragma once
#include "store/store_entry.h"

struct store;

struct store_space {
    uint64_t total_bytes, free_bytes; /* of the file system, a second old */
    uint64_t reserve_bytes; /* reserved so that a full disk can delete and compact */
    bool full;              /* rejects objects: ERR_NO_SPACE */
    /* Of batches and bodies: live bytes, headers included, some seconds old; compaction reclaims
     * the rest over time. */
    uint64_t living_bytes[STORE_CLASSES_], dead_bytes[STORE_CLASSES_];
    uint64_t prealloc_bytes; /* allocated for later use */
    /* Since open: bytes appended for users and by compaction (write amplification is their sum
     * over the first), and bytes freed by unlinking, punching and compaction. */
    uint64_t user_bytes, moved_bytes;
    uint64_t unlinked_bytes, punched_bytes, compacted_bytes;
};
/* Any loop, no lock. */
void store_space(const struct store *d, struct store_space *out);
/* Usage of a bucket, up to the last visible change: number and bytes of live objects (a
 * multipart object is one), of older versions, or of parts of uploads in progress. Any loop;
 * does not wait. */
enum usage_kind { USAGE_LIVE, USAGE_OLDER, USAGE_OPEN };
void store_bucket_usage(const struct store *d, uint64_t bucket, enum usage_kind which,
                        uint64_t *objects, uint64_t *bytes);
/* Compacts and punches until nothing is worth it, without waiting for an idle disk: tests and
 * tools. May switch. */
enum err store_compact(struct store *d, struct errbuf *eb) MUST_CHECK;

/* Before the first write of a start: where the file system of the disk is full, releases the room that is kept for that.
 * Nothing is done where there is room, for a new folder, and for a disk that another process serves. May switch. */
enum err store_make_start_room(const char *path, struct errbuf *eb) MUST_CHECK;
/* A start has failed with ERR_NO_SPACE: puts into *eb what is free on the disk's file system, and what to do, unless there
 * is room. May switch. */
#define STORE_FILES_FIRST 48u
void store_explain_no_room(const char *path, struct errbuf *eb);

/* Where an object is stored, for display. */
struct store_location {
    const char *kind; /* of the segment: "log", "body", "one" */
    uint32_t segment;
    uint64_t offset;         /* of its record */
    int64_t segment_made_ms; /* the object may be newer */
    uint64_t living;         /* live bytes of the segment, as far as the index covers */
    /* Cached class: recent reads of each live byte, in sixteenths. */
    uint32_t access_freq;
};
/* Of a current entry. ERR_NOT_FOUND: it is no longer current. May switch. */
enum err store_location(struct store *d, const struct entry *entry,
                        struct store_location *out, struct errbuf *eb) MUST_CHECK;

/* ---- eviction: objects of the class cached, which can be fetched again (evict.h) ---- */
/* Adds reads of a cached object. Any loop, no lock; does not switch. */
void store_access_freq_add(struct store *d, const struct entry *entry, uint32_t reads);
/* Begins a new window; drops the counts of the window before the last. One caller at a time. */
void store_access_freq_rotate(struct store *d);
/* Finds the first bucket with a number >= from that the index ever had a key of. ERR_NOT_FOUND.
 * May switch. */
enum err store_next_bucket(struct store *d, uint64_t from, uint64_t *out,
                           struct errbuf *eb) MUST_CHECK;
struct store_candidate {
    uint64_t bucket;
    struct span key;
    const struct entry *entry;
    uint32_t access_freq; /* of its segment */
};
struct store_evict_options {
    uint64_t target; /* live bytes that the class may keep */
    uint64_t want;   /* minimum to evict */
    /* True: do not evict this one. On the owner loop, must not switch. NULL: evict any. */
    bool (*keep)(void *arg, const struct store_candidate *c);
    void *arg;
};
struct store_evicted {
    uint64_t living; /* live bytes of the class afterwards, headers included */
    uint64_t objects, bytes, kept, segments;
    uint32_t
        coldest; /* access_freq of the next candidate segment: sixteenths of a read */
    uint64_t reclaimed; /* bytes freed since open, of all classes */
};
/* Evicts the coldest segments until both conditions hold, or nothing more may be evicted.
 * Durable. May switch. */
enum err store_evict(struct store *d, const struct store_evict_options *o,
                     struct store_evicted *out, struct errbuf *eb) MUST_CHECK;
