/* What a replay has read becomes durable, and gets into the index beside the reading. */

#include <assert.h>

#include "store/core/core.h"
#include "store/index/index.h"
#include "store/record/format.h"
#include "store/recover/replay.h"
#include "store/segment/segment.h"
#include "store/store_entry.h"
#include "store/wal/flush.h"
#include "store/wal/wal.h"

/* What replay has read may be in the page cache only (the process died, the machine did not): it is synced before
 * the index names it. Cached bodies were, one by one; here the log, and the folders. */
static enum err
sync_replayed(struct store *d, struct segment *log, uint64_t batch, struct errbuf *eb)
{
    struct wal *native = &d->wals->of[STORE_NATIVE];
    enum err rc = d->read_only ? ERR_OK : rt_sync(log->file, eb);

    if (d->read_only)
        return ERR_OK;
    if (rc == ERR_OK)
        native->synced_batch = MAX(native->synced_batch, batch);
    for (unsigned c = 0; rc == ERR_OK && c < STORE_CLASSES_; c++)
        rc = rt_dir_sync(d->dir[c], eb);
    return rc;
}

static void
background_flush_run(void *arg)
{
    struct background_flush *b = arg;
    uint64_t batch = b->flush.checkpoint.log[STORE_NATIVE].batch;

    assert(b->busy);
    assert(b->log != NULL);
    b->rc = sync_replayed(b->disk, b->log, batch, &b->eb);
    if (b->rc == ERR_OK)
        b->rc = flush_frozen(b->disk, &b->flush, &b->eb);
    else
        flush_thaw(b->disk, &b->flush);
}

enum err
background_flush_end(struct background_flush *b, struct errbuf *eb)
{
    if (!b->busy)
        return ERR_OK;
    rt_group_join(&b->batch);
    b->busy = false;
    segment_drop(&b->log);
    if (b->rc != ERR_OK && eb != NULL)
        *eb = b->eb;
    return b->rc;
}

/* Begins a round when the former one is over. */
enum err
background_flush_begin(struct background_flush *b, struct segment *log, struct errbuf *eb)
{
    enum err rc = background_flush_end(b, eb);

    assert(log->kind == SEGMENT_LOG);
    if (rc != ERR_OK || !flush_freeze(b->disk, &b->flush))
        return rc;
    b->log = segment_ref(log);
    b->eb = (struct errbuf){0};
    b->busy = true;
    rt_group_begin(&b->batch);
    if (rt_group_start(&b->batch, background_flush_run, b) != ERR_OK)
        background_flush_run(b); /* no fiber for it: the replay waits */
    return ERR_OK;
}

enum err
replay_flush(struct store *d, struct segment *log, struct errbuf *eb)
{
    enum err rc = sync_replayed(d, log, d->wals->of[STORE_NATIVE].next_batch - 1, eb);

    assert(log->kind == SEGMENT_LOG);
    return rc == ERR_OK ? flush_round(d, eb) : rc;
}

/* And a sync of it may have failed before that: then the kernel takes the bytes for clean though the disk has not got them,
 * and no later sync brings them there (D9). So those that are to be believed are written once more. What can't be read is
 * damage, and was said. */
enum err
replay_rewrite_range(struct segment *s, uint64_t from, uint64_t to, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    assert(from % STORE_ALIGN == 0);
    assert(to % STORE_ALIGN == 0);
    while (rc == ERR_OK && from < to) {
        uint32_t len = (uint32_t)MIN(to - from, MIB(1)), n;
        struct iobuf *b;

        if (iobuf_get(len, &b) != ERR_OK)
            return err_set(eb, ERR_BUSY, "no buffer for the log that is replayed");
        if (rt_read(s->file, from, b, 0, len, RT_WRITE, DEADLINE_NEVER, &n, eb) ==
                ERR_OK &&
            n == len)
            rc = rt_write(s->file, from, b, 0, len, RT_WRITE, eb);
        iobuf_drop(&b);
        from += len;
    }
    return rc;
}

enum err
replay_rewrite(struct replaying *r, uint64_t to, struct errbuf *eb)
{
    uint64_t from = r->again;

    assert(to >= from);
    r->again = to;
    return r->last && !r->disk->read_only ? replay_rewrite_range(r->segment, from, to, eb)
                                          : ERR_OK;
}

/* The same for the segment's own header, and for its size. */
enum err
replay_renew_segment(struct segment *s, struct errbuf *eb)
{
    uint64_t size;
    enum err rc = rt_file_size(s->file, &size, eb);

    if (rc == ERR_OK)
        rc = rt_truncate(s->file, size, eb);
    return rc == ERR_OK ? replay_rewrite_range(s, 0, STORE_ALIGN, eb) : rc;
}
