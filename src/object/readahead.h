/* readahead: fetches ahead for a reader that goes through numbered objects in order (shard-000017.tar,
 * shard-000018.tar, ...). Each loop watches the names read in attached buckets. After RUN reads in order (a few
 * missing or out of order are allowed) the following objects are fetched, at most a window ahead of the last one
 * read.
 *
 * Nothing is fetched that a read would not keep (tier.h), that lies past the last existing number, or while many
 * readers wait for backends.
 *
 * Any loop; each watches its own reads.
 */
#pragma once
#include "object/internal.h"

struct readahead;                                 /* of all loops */
struct readahead *readahead_new(unsigned window); /* objects ahead; 0: off */
/* Lets no fetch start, and waits for those in flight. May switch. */
void readahead_free(struct readahead **rp); /* NULL is fine */

/* A key of an attached bucket is read, an object of this size: the following ones need room of the same size. Does
 * not wait. */
void readahead_observe(struct object_service *s, const struct map_bucket *b,
                       struct span key, uint64_t bytes);

/* The number in which two names differ, if they differ in nothing else: its place in `b`, and both values. Exposed
 * for tests. */
struct readahead_step {
    size_t at, digits; /* in `b` */
    uint64_t from, to;
};
bool readahead_compare(struct span a, struct span b, struct readahead_step *out);
