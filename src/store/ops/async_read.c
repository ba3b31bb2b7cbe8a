/* async_read: a small object read without a fiber; see store_read.h. Anything unusual is left to
 * the ordinary path: this one reports nothing, counts no damage, waits for nothing. */
#include <assert.h>

#include "base/metrics.h"
#include "store/core/core.h"
#include "store/health/health.h"
#include "store/index/find.h"
#include "store/index/index.h"
#include "store/record/format.h"
#include "store/segment/block_cache.h"
#include "store/segment/read.h"
#include "store/segment/segment.h"
#include "store/store_entry.h"
#include "store/store_read.h"
#include "store/wal/prepared.h"

/* The header, and enough of the body for the CPU's prefetcher to continue by itself. */
#define SOON_READ 2560u
/* Most index pages that one look-up waits for; usual is one, a leaf. */
#define LOOKS_MOST 16u

static bool
is_small_and_plain(const struct entry *entry)
{
    unsigned wanted = ENTRY_PLAIN | ENTRY_INLINE;
    unsigned unwanted = ENTRY_PARTS | ENTRY_IN_DOUBT | ENTRY_TOMBSTONE | ENTRY_ETAG_TEXT |
                        ENTRY_META_APART | ENTRY_PREPARED;

    return (entry->flags & (wanted | unwanted)) == wanted && entry->size > 0 &&
           entry->size <= STORE_INLINE_MAX;
}

static void
async_on_read(struct rt_async_read *reading, int64_t result)
{
    struct store_async_read *o = CONTAINER_OF(reading, struct store_async_read, reading);
    uint64_t skip = o->entry.place.offset - o->from,
             n = result > 0 ? (uint64_t)result : 0;
    struct span have = {o->buf->at + skip, n > skip ? n - skip : 0};
    bool good =
        read_is_whole(o->disk, o->log, &o->entry, o->bucket, o->key, have, &o->bytes);

    metric_add(M_DISK_IO_BYTES, 0, (int64_t)n);
    if (good && o->block_cache)
        block_cache_add(o->disk->block_cache, &o->entry.content, 0, o->bytes.at,
                        (uint32_t)o->bytes.len);
    if (good) {
        metric_add(M_BLOCK_CACHE, 1, 1);
        metric_add(M_ASYNC_READS, 0, 1);
    }
    o->on_done(o, good);
}

static bool
begin_reading(struct store_async_read *o)
{
    struct store *d = o->disk;
    uint64_t end;

    assert(o->buf == NULL);
    o->log = segment_pin(d, o->entry.place.segment);
    if (o->log == NULL)
        return false;
    o->from = align_down(o->entry.place.offset, STORE_ALIGN);
    end = align_up(o->entry.place.offset + read_first_look(o->log, &o->entry, true),
                   STORE_ALIGN);
    o->len = end - o->from;
    o->reading.on_read = async_on_read;
    if (iobuf_get_pinned((uint32_t)o->len, &o->buf) != ERR_OK)
        return false;
    o->reading.prefetch_span =
        (struct span){o->buf->at + (o->entry.place.offset - o->from),
                      MIN(end - o->entry.place.offset, (uint64_t)SOON_READ)};
    return rt_read_begin(o->log->file, o->from, o->buf, 0, (uint32_t)o->len, RT_READ,
                         &o->reading) == ERR_OK;
}

/* True: the entry is found, or *want is a page to read first. */
static bool
async_read_find(struct store_async_read *o, struct index_want *want)
{
    struct store *d = o->disk;
    enum err rc;

    assert(o->disk != NULL);
    *want = (struct index_want){.known = o->looks > 0, .page = o->page};
    if (health_may_read(d->health, NULL) != ERR_OK || prepared_count(d->prepared) != 0)
        return false;
    rc = find_object_now(d->memtable, d->index, o->bucket, o->key, want, &o->entry, NULL);
    o->page = want->page;
    if (rc == ERR_BUSY && want->known)
        return ++o->looks <= LOOKS_MOST;
    want->known = false;
    if (rc != ERR_OK || !is_small_and_plain(&o->entry) ||
        block_cache_has(d->block_cache, &o->entry.content, 0))
        return false;
    o->entry.place.disk = o->slot;
    o->block_cache = block_cache_wants(d->block_cache, &o->entry.content, 0);
    return true;
}

static void on_page(struct rt_async_read *reading, int64_t result);

/* Starts to read an index page that is not in memory, or the object. */
static bool
go_on(struct store_async_read *o)
{
    struct index_want want;

    if (!async_read_find(o, &want))
        return false;
    if (!want.known)
        return begin_reading(o);
    o->reading.on_read = on_page;
    return index_page_begin(o->disk->index, want.page, &o->buf, &o->reading);
}

/* Ignores the bytes: the page is in the page cache now, and the look-up starts again. */
static void
on_page(struct rt_async_read *reading, int64_t result)
{
    struct store_async_read *o = CONTAINER_OF(reading, struct store_async_read, reading);

    iobuf_drop(&o->buf);
    if (result <= 0 || !go_on(o))
        o->on_done(o, false);
}

bool
store_async_read_begin(struct store *d, const struct store_key *k,
                       struct store_async_read *o)
{
    o->disk = d;
    o->bucket = k->bucket;
    o->key = k->key;
    o->log = NULL;
    o->buf = NULL;
    o->looks = 0;
    if (go_on(o))
        return true;
    store_async_read_end(o);
    return false;
}

void
store_async_read_abandon(struct store_async_read *o)
{
    rt_read_abandon(&o->reading);
}

void
store_async_read_end(struct store_async_read *o)
{
    iobuf_drop(&o->buf);
    segment_drop(&o->log);
}
