/* evict: removes cached objects of an attached bucket on request. The remote is not changed. */
#pragma once
#include "object/object.h"

struct object_evicting {
    /* Set by the caller. */
    struct span prefix; /* borrowed */
    /* All zeros before the first call. */
    char after[STORE_KEY_MAX];
    size_t after_len;
    bool begun, chunks,
        over; /* chunks: the objects are done, the chunks of large ones follow */
    uint64_t objects, bytes, kept; /* kept: pinned, or with an in-doubt write */
    uint64_t absent;               /* names that are not cached here */
};
/* Evicts the next page of keys (at most 256); `over` is set after the last page. Durable. The caller may stop
 * between two pages. May switch. */
enum err object_evict_page(struct object_service *s, const struct map_bucket *b,
                           struct object_evicting *e, struct errbuf *eb) MUST_CHECK;
/* Evicts these keys, at most OBJECT_EVICT_NAMES; `prefix` and its position are not used. */
#define OBJECT_EVICT_NAMES 256u
enum err object_evict_names(struct object_service *s, const struct map_bucket *b,
                            const struct span *keys, uint32_t count,
                            struct object_evicting *e, struct errbuf *eb) MUST_CHECK;
