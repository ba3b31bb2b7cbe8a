/* disk_space: how much room there is and who has it: in all, by bucket, by object; and room made in the class cached.
 * Part of disk.h. */
#pragma once
#include "disk/disk_row.h"

struct disk;

struct disk_space {
    uint64_t total_bytes, free_bytes; /* of the file system, a second old */
    uint64_t reserve_bytes; /* kept, so that a full disk can delete and compact */
    bool full;              /* no object comes in: ERR_NO_SPACE */
    /* Of groups and bodies: what lives in them, headers included, some seconds old; the rest is reclaimed by and by. */
    uint64_t living_bytes[DISK_CLASSES_], dead_bytes[DISK_CLASSES_];
    uint64_t ahead_bytes; /* allocated for what comes next */
    /* Since it was opened: appended for users and by compaction (write amplification is their sum over the first), and
     * given back by unlinking, punching, compacting. */
    uint64_t user_bytes, moved_bytes;
    uint64_t unlinked_bytes, punched_bytes, compacted_bytes;
};
/* Any loop, no lock. */
void disk_space(const struct disk *d, struct disk_space *out);
/* What a bucket holds, as of the last change that is visible: living objects (one of parts is one), its older versions, or the
 * parts of its uploads in progress; and their bytes. Any loop; does not wait. */
enum disk_usage { DISK_USAGE_LIVE, DISK_USAGE_OLDER, DISK_USAGE_OPEN };
void disk_bucket_usage(const struct disk *d, uint64_t bucket, enum disk_usage which,
                       uint64_t *objects, uint64_t *bytes);
/* Compacts and punches until nothing is worth it, without waiting for quiet: tests and tools. May switch. */
enum err disk_compact(struct disk *d, struct errbuf *eb) MUST_CHECK;

/* Where an object lies, for people's eyes. */
struct disk_where {
    const char *kind; /* of the segment: "log", "body", "one" */
    uint32_t segment;
    uint64_t offset;         /* of its member */
    int64_t segment_made_ms; /* the object came later */
    uint64_t living;         /* bytes of the segment, as far as the index covers */
    uint32_t heat; /* class cached: sixteenths of a read of each of them, lately */
};
/* Of a row that is current. ERR_NOT_FOUND: it no longer is. May switch. */
enum err disk_where(struct disk *d, const struct row *row, struct disk_where *out,
                    struct errbuf *eb) MUST_CHECK;

/* ---- eviction: objects of the class cached, which can be fetched again (evict.h) ---- */
/* An object of the class was read so many times. Any loop, no lock, nothing switches. */
void disk_heat_add(struct disk *d, const struct row *row, uint32_t reads);
/* Reads of the window before the last are forgotten. One caller at a time. */
void disk_heat_rotate(struct disk *d);
/* The first bucket with a number >= from that the index ever had a key of. ERR_NOT_FOUND. May switch. */
enum err disk_next_bucket(struct disk *d, uint64_t from, uint64_t *out,
                          struct errbuf *eb) MUST_CHECK;
struct disk_candidate {
    uint64_t bucket;
    struct span key;
    const struct row *row;
    uint32_t heat; /* of its segment */
};
struct disk_evict_options {
    uint64_t target; /* bytes of the class that may go on living */
    uint64_t want;   /* so many are to go at least */
    /* True: this one stays. On the home loop, must not switch. NULL: none stays. */
    bool (*keep)(void *arg, const struct disk_candidate *c);
    void *arg;
};
struct disk_evicted {
    uint64_t living; /* bytes of the class, headers included, afterwards */
    uint64_t objects, bytes, kept, segments;
    uint32_t coldest;   /* heat of the segment that would be next: sixteenths of a read */
    uint64_t reclaimed; /* bytes given back since the disk was opened, of all classes */
};
/* Evicts the coldest segments until both hold, or there is nothing more that may go. Durable. May switch. */
enum err disk_evict(struct disk *d, const struct disk_evict_options *o,
                    struct disk_evicted *out, struct errbuf *eb) MUST_CHECK;
