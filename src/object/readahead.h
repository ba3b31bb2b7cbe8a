/* readahead: a reader that goes through numbered objects in order (shard-000017.tar, shard-000018.tar, ...) finds the next
 * ones here. Each loop watches the names that are read of attached buckets; after RUN of them in order, a few missing or out
 * of order allowed, the next ones are fetched, no more than so many ahead of the one that was read last.
 *
 * Nothing is fetched ahead that a read would not keep (tier.h), while many readers wait for backends, or behind the last
 * number there is.
 *
 * Any loop; what is watched lies on each.
 */
#pragma once
#include "object/internal.h"

struct readahead;                                 /* of all loops */
struct readahead *readahead_new(unsigned window); /* objects ahead; 0: off */
/* Nothing begins any more; waits for what is under way. May switch. */
void readahead_free(struct readahead **rp); /* NULL is fine */

/* A key of an attached bucket is read, an object of so many bytes: there is to be room for the next ones as for this one. Does
 * not wait. */
void readahead_observe(struct object_service *s, const struct map_bucket *b,
                       struct span key, uint64_t bytes);

/* The number in which two names differ, if that is all they differ in: its place in `b`, and both values. Exposed for
 * tests. */
struct readahead_step {
    size_t at, digits; /* in `b` */
    uint64_t from, to;
};
bool readahead_compare(struct span a, struct span b, struct readahead_step *out);
