/* inline_read: small objects read without a fiber. Serves only what object_get_begin() would serve without asking a
 * backend. */
#include <assert.h>
#include <string.h>

#include "base/metrics.h"
#include "object/internal.h"
#include "object/readahead.h"
#include "object/revalidate.h"
#include "object/tier.h"

#define REVALIDATED_SAMPLE 16u

/* Of a cached bucket: would an ordinary read ask the backend, or say that it is down? */
static bool
needs_backend(const struct object_service *s, bool cached, uint64_t ttl_ms)
{
    return cached && (ttl_ms != 0 || cloud_any_down(s->options.cloud));
}

/* ---- revalidated: from the block cache ---- */

void
object_revalidated_prefetch(struct object_service *s, const struct object_revalidated *a)
{
    disks_revalidated_prefetch(s->options.disks, &a->at);
}

/* Reads are counted in steps of this size, so that a frequently read object costs its segment's counter little. */
static void
count_revalidated(struct object_service *s, const struct object_revalidated *a)
{
    struct entry entry = {.place = a->place,
                          .size = a->size,
                          .flags = ENTRY_CACHED | (a->in_log ? ENTRY_INLINE : 0)};

    disks_access_freq_add(s->options.disks, &entry, REVALIDATED_SAMPLE);
}

bool
object_inline_revalidate(struct object_service *s, struct object_revalidated *a,
                         struct object_inline *o)
{
    if (needs_backend(s, a->cached, 0) ||
        !disks_revalidated_begin(s->options.disks, &a->at, &o->pinned))
        return false;
    assert(o->pinned.count >= 1);
    assert(o->pinned.count <= 1 + STORE_READ_MORE);
    o->revalidated = true;
    memcpy(o->pieces, o->pinned.pieces, o->pinned.count * sizeof o->pieces[0]);
    o->count = o->pinned.count;
    o->headroom = o->pinned.front;
    if (a->cached) {
        get_count_cached(a->size);
        if (++a->reads % REVALIDATED_SAMPLE == 0)
            count_revalidated(s, a);
    }
    return true;
}

/* ---- by key: one read of the disk ---- */

static void
on_read(struct store_async_read *read, bool good)
{
    struct object_inline *o = CONTAINER_OF(read, struct object_inline, async.at);

    assert(!o->revalidated);
    if (good && !revalidate_is_fresh(o->s, o->bucket, o->key, &o->async.at.entry))
        good = false; /* an ordinary read asks the remote */
    if (good) {
        o->pieces[0] = read->bytes;
        o->count = 1;
        /* What is before the body in the buffer was read and verified, and is needed no more. */
        o->headroom = (size_t)(read->bytes.at - read->buf->at);
    }
    o->on_done(o, good);
}

bool
object_inline_begin(struct object_service *s, const struct map_bucket *b, struct span key,
                    struct object_inline *o)
{
    struct disks_key k = object_disk_key(b, key);

    assert(o->on_done != NULL);
    if (needs_backend(s, b->cached, b->ttl_ms))
        return false;
    o->s = s;
    o->bucket = b;
    o->key = key;
    o->revalidated = false;
    o->async.at.on_done = on_read;
    return disks_async_read_begin(s->options.disks, &k, &o->async);
}

void
object_inline_info(struct object_inline *o, struct object_info *out)
{
    const struct entry *entry = &o->async.at.entry;
    struct object_meta meta = {.mtime_ms = entry->mtime_ms, .parts = entry->parts};

    assert(!o->revalidated);
    memset(out, 0, sizeof *out);
    memcpy(meta.md5, entry->md5, sizeof meta.md5);
    info_from_meta(entry, &meta, out);
    get_count_local(o->bucket, entry->size);
    if (!o->bucket->cached)
        return;
    tier_read(o->s, o->bucket, o->key, entry);
    readahead_observe(o->s, o->bucket, o->key, entry->size);
}

void
object_inline_abandon(struct object_inline *o)
{
    assert(!o->revalidated);
    store_async_read_abandon(&o->async.at);
}

/* ---- both ---- */

void
object_inline_end(struct object_inline *o)
{
    if (o->revalidated)
        disks_revalidated_end(&o->pinned);
    else
        disks_async_read_end(&o->async);
}
