/* tier: decides how much of the remote buckets is kept here, and what. docs/tier.md is the users' page.
 *
 * A fetch asks tier_admits() before it keeps its first byte. A fiber on the loop that started the service wakes once
 * a second, or when signalled: above the high watermark it evicts the coldest segments down to the low one, likewise
 * for each bucket with a budget of its own; it ends windows (admission.h), and removes what deleted buckets left.
 *
 * Any loop, unless stated.
 */
#pragma once
#include "object/admission.h"
#include "object/internal.h"

struct tier;
/* The fiber runs on the calling loop. ERR_BUSY. */
enum err tier_start(struct object_service *s, struct errbuf *eb) MUST_CHECK;
void tier_stop(struct object_service *s); /* switches */

/* May an object of this size be kept? Counts one miss of its key. `prefetch`: only room decides. On true its bytes
 * are reserved until tier_release(): concurrent fetches would each find the same room. */
bool tier_admits(struct object_service *s, const struct map_bucket *b, struct span key,
                 uint64_t size, bool prefetch);
/* The disk counts these reserved bytes from now on, or they will not be written. */
void tier_release(struct object_service *s, uint64_t size);
/* The same question for a read now. Counts nothing. */
bool tier_would_keep(struct object_service *s, const struct map_bucket *b,
                     struct span key, uint64_t size);
/* It was kept in the place of `entry`. */
void tier_kept(struct object_service *s, const struct map_bucket *b, struct span key,
               const struct entry *entry);
/* It was read locally. */
void tier_read(struct object_service *s, const struct map_bucket *b, struct span key,
               const struct entry *entry);
/* Entries of objects in chunks ended: chunks without an entry are removed soon (chunks.h). */
void tier_sweep(struct object_service *s);
/* Does a pin of the bucket protect the key? */
bool tier_is_pinned(const struct map_bucket *b, struct span key);
/* The prefix of that pin, borrowed from the bucket; NULL: none. */
const char *tier_pin_of(const struct map_bucket *b, struct span key);
/* What the policy knows of a key, for status pages. */
struct tier_view {
    uint32_t reads;   /* in the last two windows, hits and misses */
    uint32_t coldest; /* access frequency of the segment that is evicted next */
};
void tier_view(const struct object_service *s, const struct map_bucket *b,
               struct span key, struct tier_view *out);
