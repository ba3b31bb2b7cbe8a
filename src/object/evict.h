/* evict: takes what is kept of an attached bucket away, as somebody asked. The remote is not touched. */
#pragma once
#include "object/object.h"

struct object_evicting {
    /* By the caller. */
    struct span prefix; /* borrowed */
    /* Zeros at first. */
    char after[STORE_KEY_MAX];
    size_t after_len;
    bool begun, chunks,
        over; /* chunks: objects are through, now the chunks of large ones */
    uint64_t objects, bytes, kept; /* kept: pinned, or with a write of unknown outcome */
    uint64_t absent;               /* names of which nothing was here */
};
/* The next page of keys (at most 256); `over` says that there is none left. Durable. May be given up between two pages.
 * May switch. */
enum err object_evict_page(struct object_service *s, const struct map_bucket *b,
                           struct object_evicting *e, struct errbuf *eb) MUST_CHECK;
/* The same of those keys, at most OBJECT_EVICT_NAMES; `prefix` and what belongs to it are not used. */
#define OBJECT_EVICT_NAMES 256u
enum err object_evict_names(struct object_service *s, const struct map_bucket *b,
                            const struct span *keys, uint32_t count,
                            struct object_evicting *e, struct errbuf *eb) MUST_CHECK;
