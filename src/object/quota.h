/* quota: what a bucket may hold, with what is on its way into it.
 *
 * Who brings something announces what it adds, before a body is asked for, then reads what others have announced and what the
 * bucket holds: of two that would pass the quota together the later one is refused. What was announced is given back when
 * it is there, or given up; by then the bucket's usage counts it. So a byte may count twice for a moment, and never not at all.
 *
 * Any loop, no lock. Only buckets with a quota are counted, so what began before the bucket got one comes in beside it.
 */
#pragma once
#include "object/internal.h"

struct on_its_way; /* what was announced of one bucket */

struct numbered *quotas_new(void);      /* of each bucket's number */
void quotas_free(struct numbered **qp); /* no claim is left; NULL is fine */

struct quota_ask {
    struct span key;
    uint64_t size;  /* STORE_SIZE_UNKNOWN: asked again when it is known */
    unsigned count; /* objects: 1, or 0 of a part */
    const struct upload_id
        *upload; /* of a part: it replaces the one of its number. NULL: an object */
    uint32_t part;
    bool counted; /* its bytes are the bucket's already: parts that become an object */
};
/* What one has announced. All zeros: nothing. */
struct quota_claim {
    struct on_its_way *of; /* borrowed of the service; NULL: nothing is announced */
    uint64_t bytes, objects;
    uint64_t leans_bytes; /* the rest takes the place of so many, ... */
    bool
        leans; /* ... of an object or part that is there, without which it would be over */
    bool leans_on_object;
    struct content_id content; /* of that object */
};
/* May this come into the bucket? ERR_QUOTA with a sentence. On ERR_OK the claim is announced, in place of what it was before; on
 * an error it is as before. May switch, where the bucket has a quota. */
enum err quota_claim(struct object_service *s, const struct map_bucket *b,
                     const struct quota_ask *ask, struct quota_claim *claim,
                     struct errbuf *eb) MUST_CHECK;
/* Just before it is committed, with its size. The same, unless all that it rests on still stands. */
enum err quota_confirm(struct object_service *s, const struct map_bucket *b,
                       const struct quota_ask *ask, struct quota_claim *claim,
                       struct errbuf *eb) MUST_CHECK;
/* What must hold when it is committed: the caller's condition (NULL: none), and that the object is still there whose room it
 * takes. In *room where it is another. */
const struct store_condition *quota_condition(const struct quota_claim *claim,
                                              const struct store_condition *c,
                                              struct store_condition *room);
/* The outcome of that commit: ERR_BUSY where the object has changed meanwhile; else as it was. May switch. */
enum err quota_explain(struct object_service *s, const struct map_bucket *b,
                       struct span key, const struct quota_claim *claim, enum err rc,
                       struct errbuf *eb) MUST_CHECK;
void quota_release(struct quota_claim *claim); /* twice is fine */
