/* tier: how much of the remote buckets is kept here, and what. docs/tier.md is the page for users.
 *
 * A fetch asks tier_admits() before its first byte is kept. A fiber on the loop that started the service looks once a
 * second, or when it is woken: over the high watermark it has the coldest segments evicted down to the low one, each bucket
 * with a budget of its own likewise; it ends windows (admission.h), and takes away what removed buckets left.
 *
 * Any loop, unless said.
 */
#pragma once
#include "object/admission.h"
#include "object/internal.h"

struct tier;
/* The fiber runs here. ERR_BUSY. */
enum err tier_start(struct object_service *s, struct errbuf *eb) MUST_CHECK;
void tier_stop(struct object_service *s); /* switches */

/* May an object of so many bytes be kept? One miss of its key is counted. `prefetch`: somebody asked for it to be kept (a
 * prefetch), so that only room decides. Where it may, its bytes count as taken until tier_release(): many that come at the same
 * time would each find the same room. */
bool tier_admits(struct object_service *s, const struct map_bucket *b, struct span key,
                 uint64_t size, bool prefetch);
/* So many admitted bytes are counted by the disk from now on, or never will be. */
void tier_release(struct object_service *s, uint64_t size);
/* Would it be, if it were read now? Nothing is counted. */
bool tier_would_keep(struct object_service *s, const struct map_bucket *b,
                     struct span key, uint64_t size);
/* It was kept; `entry` is its place. */
void tier_kept(struct object_service *s, const struct map_bucket *b, struct span key,
               const struct entry *entry);
/* It was read from here. */
void tier_read(struct object_service *s, const struct map_bucket *b, struct span key,
               const struct entry *entry);
/* Objects in chunks ended: what belongs to none is taken away soon (chunks.h). */
void tier_sweep(struct object_service *s);
/* Does a pin of the bucket say that the key stays? */
bool tier_is_pinned(const struct map_bucket *b, struct span key);
/* Its prefix, borrowed from the bucket; NULL: none does. */
const char *tier_pin_of(const struct map_bucket *b, struct span key);
/* What the policy knows of a key, for people. */
struct tier_view {
    uint32_t reads;   /* in the last two windows, hits and misses */
    uint32_t coldest; /* access_freq of the segment that is the next to go */
};
void tier_view(const struct object_service *s, const struct map_bucket *b,
               struct span key, struct tier_view *out);
