/* store_space: how much room there is and what uses it: in all, by bucket, by object; and room made in the class cached.
 * Part of store.h. */
#pragma once
#include "store/store_entry.h"

struct store;

struct store_space {
    uint64_t total_bytes, free_bytes; /* of the file system, a second old */
    uint64_t reserve_bytes; /* kept, so that a full disk can delete and compact */
    bool full;              /* no object comes in: ERR_NO_SPACE */
    /* Of batches and bodies: what lives in them, headers included, some seconds old; the rest is reclaimed by and by. */
    uint64_t living_bytes[STORE_CLASSES_], dead_bytes[STORE_CLASSES_];
    uint64_t prealloc_bytes; /* allocated for what comes next */
    /* Since it was opened: appended for users and by compaction (write amplification is their sum over the first), and
     * given back by unlinking, punching, compacting. */
    uint64_t user_bytes, moved_bytes;
    uint64_t unlinked_bytes, punched_bytes, compacted_bytes;
};
/* Any loop, no lock. */
void store_space(const struct store *d, struct store_space *out);
/* What a bucket holds, as of the last change that is visible: living objects (one of parts is one), its older versions, or the
 * parts of its uploads in progress; and their bytes. Any loop; does not wait. */
enum usage_kind { USAGE_LIVE, USAGE_OLDER, USAGE_OPEN };
void store_bucket_usage(const struct store *d, uint64_t bucket, enum usage_kind which,
                        uint64_t *objects, uint64_t *bytes);
/* Compacts and punches until nothing is worth it, without waiting for quiet: tests and tools. May switch. */
enum err store_compact(struct store *d, struct errbuf *eb) MUST_CHECK;

/* Where an object lies, for people's eyes. */
struct store_location {
    const char *kind; /* of the segment: "log", "body", "one" */
    uint32_t segment;
    uint64_t offset;         /* of its record */
    int64_t segment_made_ms; /* the object came later */
    uint64_t living;         /* bytes of the segment, as far as the index covers */
    uint32_t access_freq; /* class cached: sixteenths of a read of each of them, lately */
};
/* Of an entry that is current. ERR_NOT_FOUND: it no longer is. May switch. */
enum err store_location(struct store *d, const struct entry *entry,
                        struct store_location *out, struct errbuf *eb) MUST_CHECK;

/* ---- eviction: objects of the class cached, which can be fetched again (evict.h) ---- */
/* An object of the class was read so many times. Any loop, no lock, nothing switches. */
void store_access_freq_add(struct store *d, const struct entry *entry, uint32_t reads);
/* Reads of the window before the last are forgotten. One caller at a time. */
void store_access_freq_rotate(struct store *d);
/* The first bucket with a number >= from that the index ever had a key of. ERR_NOT_FOUND. May switch. */
enum err store_next_bucket(struct store *d, uint64_t from, uint64_t *out,
                           struct errbuf *eb) MUST_CHECK;
struct store_candidate {
    uint64_t bucket;
    struct span key;
    const struct entry *entry;
    uint32_t access_freq; /* of its segment */
};
struct store_evict_options {
    uint64_t target; /* bytes of the class that may go on living */
    uint64_t want;   /* so many are to go at least */
    /* True: this one stays. On the owner loop, must not switch. NULL: none stays. */
    bool (*keep)(void *arg, const struct store_candidate *c);
    void *arg;
};
struct store_evicted {
    uint64_t living; /* bytes of the class, headers included, afterwards */
    uint64_t objects, bytes, kept, segments;
    uint32_t
        coldest; /* access_freq of the segment that would be next: sixteenths of a read */
    uint64_t reclaimed; /* bytes given back since the disk was opened, of all classes */
};
/* Evicts the coldest segments until both hold, or there is nothing more that may go. Durable. May switch. */
enum err store_evict(struct store *d, const struct store_evict_options *o,
                     struct store_evicted *out, struct errbuf *eb) MUST_CHECK;
