/* here: what this node holds of a bucket, and for how long, for people's eyes. Rows are looked at; no remote is asked.
 *
 * Fibers of any loop; everything may switch.
 */
#pragma once
#include "object/object.h"

/* Would it go when room is needed? */
enum object_fate {
    FATE_STAYS,     /* native: there is no other copy */
    FATE_PINNED,    /* by a prefix of its bucket */
    FATE_IN_DOUBT,  /* a write whose outcome at the remote is unknown */
    FATE_READ_MORE, /* than its segment on the average: it stays when that one goes */
    FATE_COLDEST,   /* its segment is the next to go */
    FATE_LATER,     /* when colder segments have gone */
};
struct object_local {
    struct object_info info; /* with the checksum; in the arena */
    struct disks_where where;
    struct object_present present; /* of a large one: how much of it */
    bool cached;
    unsigned copies; /* that its bucket wants */
    enum object_fate fate;
    const char *pin; /* the prefix; borrowed from the bucket; NULL */
    uint32_t reads;  /* of late, hits and misses; of cached buckets */
    int64_t
        ttl_left_ms; /* until the remote is asked again; 0: at the next read; -1: never */
};
/* ERR_NOT_FOUND: nothing of it is here (the remote may have it). */
enum err object_local(struct object_service *s, const struct map_bucket *b,
                      struct span key, struct arena *a, struct object_local *out,
                      struct errbuf *eb) MUST_CHECK;

struct object_local_entry {
    struct span key; /* in the arena */
    uint64_t size;
    bool pinned, in_doubt;
    bool chunks; /* kept in chunks, of which not all need be here */
};
#define OBJECT_LOCAL_PAGE 1000u
/* Keys with the prefix from `from` on, at most OBJECT_LOCAL_PAGE. *more: there may be others behind the last. */
enum err object_local_page(struct object_service *s, const struct map_bucket *b,
                           struct span prefix, struct span from, uint32_t max,
                           struct arena *a, struct object_local_entry **out,
                           uint32_t *count, bool *more, struct errbuf *eb) MUST_CHECK;
