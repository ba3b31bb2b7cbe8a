/* once: a small object read without a fiber; see disk_read.h. Whatever is unusual is the long way's: this one says nothing of
 * what it met, counts no damage, waits for nothing. */
#include <assert.h>

#include "base/metrics.h"
#include "disk/find.h"
#include "disk/health.h"
#include "disk/prepare.h"
#include "disk/read.h"
#include "disk/segment.h"

/* The header, and so much of the body that the CPU sees by itself how it goes on. */
#define SOON_READ 2560u
/* Pages of the index that one look-up waits for: one is usual, a leaf. */
#define LOOKS_MOST 16u

static bool
is_small_and_plain(const struct row *row)
{
    unsigned wanted = ROW_PLAIN | ROW_INLINE;
    unsigned unwanted = ROW_PARTS | ROW_DOUBT | ROW_TOMBSTONE | ROW_ETAG_TEXT |
                        ROW_META_APART | ROW_UNDECIDED;

    return (row->flags & (wanted | unwanted)) == wanted && row->size > 0 &&
           row->size <= DISK_INLINE_MAX;
}

static void
on_read(struct rt_reading *reading, int64_t result)
{
    struct disk_once *o = CONTAINER_OF(reading, struct disk_once, reading);
    uint64_t skip = o->row.offset - o->from, n = result > 0 ? (uint64_t)result : 0;
    struct span have = {o->buf->at + skip, n > skip ? n - skip : 0};
    bool good =
        read_is_whole(o->disk, o->log, &o->row, o->bucket, o->key, have, &o->bytes);

    metric_add(M_DISK_IO_BYTES, 0, (int64_t)n);
    if (good && o->hot)
        hot_add(o->disk->hot, &o->row.content, 0, o->bytes.at, (uint32_t)o->bytes.len);
    if (good) {
        metric_add(M_HOT, 1, 1);
        metric_add(M_READ_ONCE, 0, 1);
    }
    o->on_done(o, good);
}

static bool
begin_reading(struct disk_once *o)
{
    struct disk *d = o->disk;
    uint64_t end;

    o->log = segment_pin(d, o->row.segment);
    if (o->log == NULL)
        return false;
    o->from = align_down(o->row.offset, DISK_ALIGN);
    end = align_up(o->row.offset + read_first_look(o->log, &o->row, true), DISK_ALIGN);
    o->len = end - o->from;
    o->reading.on_read = on_read;
    if (iobuf_get_pinned((uint32_t)o->len, &o->buf) != ERR_OK)
        return false;
    o->reading.soon_read = (struct span){o->buf->at + (o->row.offset - o->from),
                                         MIN(end - o->row.offset, (uint64_t)SOON_READ)};
    return rt_read_begin(o->log->file, o->from, o->buf, 0, (uint32_t)o->len, RT_READ,
                         &o->reading) == ERR_OK;
}

/* True: the row is there, or *want is a page that is to come first. */
static bool
find(struct disk_once *o, struct index_want *want)
{
    struct disk *d = o->disk;
    enum err rc;

    *want = (struct index_want){.known = o->looks > 0, .page = o->page};
    if (health_may_read(d->health, NULL) != ERR_OK || prepared_count(d->prepared) != 0)
        return false;
    rc = find_object_now(d->tail, d->index, o->bucket, o->key, want, &o->row, NULL);
    o->page = want->page;
    if (rc == ERR_BUSY && want->known)
        return ++o->looks <= LOOKS_MOST;
    want->known = false;
    if (rc != ERR_OK || !is_small_and_plain(&o->row) ||
        hot_has(d->hot, &o->row.content, 0))
        return false;
    o->row.disk = o->slot;
    o->hot = hot_wants(d->hot, &o->row.content, 0);
    return true;
}

static void on_page(struct rt_reading *reading, int64_t result);

/* A page of the index that is not in memory, or the object. */
static bool
go_on(struct disk_once *o)
{
    struct index_want want;

    if (!find(o, &want))
        return false;
    if (!want.known)
        return begin_reading(o);
    o->reading.on_read = on_page;
    return index_page_begin(o->disk->index, want.page, &o->buf, &o->reading);
}

/* What was read is not looked at: it is in memory now, and the look-up begins anew. */
static void
on_page(struct rt_reading *reading, int64_t result)
{
    struct disk_once *o = CONTAINER_OF(reading, struct disk_once, reading);

    iobuf_drop(&o->buf);
    if (result <= 0 || !go_on(o))
        o->on_done(o, false);
}

bool
disk_once_begin(struct disk *d, const struct disk_key *k, struct disk_once *o)
{
    o->disk = d;
    o->bucket = k->bucket;
    o->key = k->key;
    o->log = NULL;
    o->buf = NULL;
    o->looks = 0;
    if (go_on(o))
        return true;
    disk_once_end(o);
    return false;
}

void
disk_once_abandon(struct disk_once *o)
{
    rt_read_abandon(&o->reading);
}

void
disk_once_end(struct disk_once *o)
{
    iobuf_drop(&o->buf);
    segment_drop(&o->log);
}
