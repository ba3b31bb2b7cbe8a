/* local: what this node holds of a bucket, and for how long: for status pages. Reads the index; does not ask the
 * remote.
 *
 * Fibers of any loop; everything may switch.
 */
#pragma once
#include "object/object.h"

/* What eviction would do with it. */
enum object_fate {
    FATE_STAYS,    /* native: there is no other copy */
    FATE_PINNED,   /* by a prefix of its bucket */
    FATE_IN_DOUBT, /* it has an in-doubt write */
    FATE_READ_MORE, /* more than the average of its segment: it stays when that segment is evicted */
    FATE_COLDEST, /* its segment is evicted next */
    FATE_LATER,   /* colder segments are evicted before it */
};
struct object_local {
    struct object_info info; /* with the checksum; in the arena */
    struct disks_where where;
    struct object_present present; /* of a large object: how much is here */
    bool cached;
    unsigned copies; /* the number that its bucket wants */
    enum object_fate fate;
    const char *pin; /* the prefix; borrowed from the bucket; NULL */
    uint32_t reads;  /* recent reads, hits and misses; of cached buckets */
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
    bool chunks; /* kept in chunks, some of which may be missing */
    uint64_t chunk_count, chunks_here, here_bytes; /* of one in chunks */
};
#define OBJECT_LOCAL_PAGE 1000u
/* Lists keys with the prefix, starting at `from`, at most OBJECT_LOCAL_PAGE. *more: other keys may follow the last
 * one. */
enum err object_local_page(struct object_service *s, const struct map_bucket *b,
                           struct span prefix, struct span from, uint32_t max,
                           struct arena *a, struct object_local_entry **out,
                           uint32_t *count, bool *more, struct errbuf *eb) MUST_CHECK;
