/* quota: limits a bucket by what it holds and what is being written.
 *
 * A writer first claims what it adds, before a body is accepted, then reads the claims of others and the bucket's
 * usage. Of two writers that would exceed the quota together, the later one is rejected. A claim is released after
 * the commit or the abort; by then the usage counts the object. So a byte may count twice for a moment, but is never
 * missed.
 *
 * Any loop, no lock. Only buckets with a quota are counted: a write that began before the bucket got one is not
 * limited.
 */
#pragma once
#include "object/internal.h"

struct on_its_way; /* the claims of one bucket */

struct numbered *quotas_new(void);      /* by bucket id */
void quotas_free(struct numbered **qp); /* no claim may be left; NULL is fine */

struct quota_ask {
    struct span key;
    uint64_t size;  /* STORE_SIZE_UNKNOWN: claimed again when it is known */
    unsigned count; /* objects: 1, or 0 for a part */
    const struct upload_id
        *upload; /* of a part: it replaces the one of its number. NULL: an object */
    uint32_t part;
    bool counted; /* the usage has its bytes already: parts that become an object */
};
/* One claim. All zeros: none. */
struct quota_claim {
    struct on_its_way *of; /* borrowed from the service; NULL: no claim */
    uint64_t bytes, objects;
    uint64_t leans_bytes; /* the claim relies on replacing this many bytes ... */
    bool
        leans; /* ... of an existing object or part; without it the quota would be exceeded */
    bool leans_on_object;
    struct content_id content; /* of that object */
};
/* Claims room for a write. ERR_QUOTA with a sentence. On ERR_OK the new claim replaces the old one; on error the
 * old one stays. May switch, if the bucket has a quota. */
enum err quota_claim(struct object_service *s, const struct map_bucket *b,
                     const struct quota_ask *ask, struct quota_claim *claim,
                     struct errbuf *eb) MUST_CHECK;
/* Directly before the commit, with the final size: claims again if what the claim relies on has changed. */
enum err quota_confirm(struct object_service *s, const struct map_bucket *b,
                       const struct quota_ask *ask, struct quota_claim *claim,
                       struct errbuf *eb) MUST_CHECK;
/* The condition of the commit: the caller's (NULL: none), and that the object whose room is reused still exists.
 * *room is used when that is another condition. */
const struct store_condition *quota_condition(const struct quota_claim *claim,
                                              const struct store_condition *c,
                                              struct store_condition *room);
/* Maps the result of that commit: ERR_BUSY when the replaced object has changed; else `rc`. May switch. */
enum err quota_explain(struct object_service *s, const struct map_bucket *b,
                       struct span key, const struct quota_claim *claim, enum err rc,
                       struct errbuf *eb) MUST_CHECK;
void quota_release(struct quota_claim *claim); /* twice is fine */
