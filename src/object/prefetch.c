/* prefetch: fetches an object of a cached bucket for later readers. */
#include <stdatomic.h>

#include "base/mem.h"
#include "base/pace.h"
#include "object/internal.h"
#include "object/keys.h"

#define INFO_BYTES           MIB(1)
#define PREFETCH_FIRST_BYTES MIB(128) /* of one object, for a reader that may follow */

struct prefetch {
    struct object_service *s;
    const struct map_bucket *bucket;
    struct span key;
    struct pace *pace;
    enum object_prefetched how;
    uint64_t most; /* the bytes to fetch at most */
    uint64_t bytes;
    enum err rc;
    struct errbuf *eb;
};

/* Reads along until the fetch ends. */
static enum err
read_along(struct prefetch *b, struct object_get *g, uint64_t size)
{
    struct span piece = {"", 1};
    enum err rc = object_get_range(g, 0, MIN(size, b->most), b->eb);

    while (rc == ERR_OK && piece.len > 0) {
        rc = object_get_next(g, DEADLINE_NEVER, &piece, b->eb);
        if (rc == ERR_OK)
            b->bytes += piece.len;
    }
    return rc;
}

static void
prefetch_on_owner(void *arg)
{
    struct prefetch *b = arg;
    struct arena *a = arena_new(KIB(4), INFO_BYTES);
    struct object_info info;
    struct object_get *g = NULL;

    b->rc = get_begin_background(b->s, b->bucket, b->key, b->pace, a, &info, &g, b->eb);
    if (b->rc == ERR_OK && info.source == OBJECT_BYPASS) {
        b->how = PREFETCHED_NO_ROOM;
    } else if (b->rc == ERR_OK && (info.source != OBJECT_LOCAL || info.chunk_bytes > 0)) {
        b->rc = read_along(b, g, info.size);
        b->how = object_get_source(g) == OBJECT_BYPASS   ? PREFETCHED_NO_ROOM
                 : info.chunk_bytes > 0 && b->bytes == 0 ? PREFETCHED_BEFORE
                                                         : PREFETCHED_NOW;
    }
    object_get_end(&g);
    arena_free(&a);
}

enum err
object_prefetch(struct object_service *s, const struct map_bucket *b, struct span key,
                struct pace *pace, enum object_prefetched *how, uint64_t *bytes,
                struct errbuf *eb)
{
    struct prefetch what = {.s = s,
                            .bucket = b,
                            .key = key,
                            .pace = pace,
                            .how = PREFETCHED_BEFORE,
                            .most = UINT64_MAX,
                            .eb = eb};
    enum err rc =
        key_run_on_owner_cancellable(key_owner_loop(b, key), prefetch_on_owner, &what);

    if (rc != ERR_OK)
        return err_set(eb, rc, "no fiber is free for the fetch");
    *how = what.how;
    *bytes = what.bytes;
    return what.rc;
}

enum err
prefetch_first_bytes(struct object_service *s, const struct map_bucket *b,
                     struct span key, struct errbuf *eb)
{
    struct prefetch what = {.s = s,
                            .bucket = b,
                            .key = key,
                            .pace = pace_new(0),
                            .how = PREFETCHED_BEFORE,
                            .most = PREFETCH_FIRST_BYTES,
                            .eb = eb};
    enum err rc =
        key_run_on_owner_cancellable(key_owner_loop(b, key), prefetch_on_owner, &what);

    pace_drop(&what.pace);
    return rc != ERR_OK ? err_set(eb, rc, "no fiber is free for the fetch") : what.rc;
}

uint64_t
object_cache_budget(const struct object_service *s)
{
    return s->options.cache_budget;
}

unsigned
object_readers_waiting(const struct object_service *s)
{
    return atomic_load_explicit(&s->remote_readers, memory_order_relaxed);
}
