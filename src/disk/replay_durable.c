/* What a replay has read becomes durable, and gets into the index beside the reading. */
#include "disk/replay.h"

#include "disk/index.h"
#include "disk/segment.h"

/* What replay has read may be in the page cache only (the process died, the machine did not): it is synced before
 * the index names it. Cached bodies were, one by one; here the log, and the folders. */
static enum err
sync_replayed(struct disk *d, struct segment *log, uint64_t group, struct errbuf *eb)
{
    struct log *native = &d->home.log[DISK_NATIVE];
    enum err rc = rt_sync(log->file, eb);

    if (rc == ERR_OK)
        native->synced_group = MAX(native->synced_group, group);
    for (unsigned c = 0; rc == ERR_OK && c < DISK_CLASSES_; c++)
        rc = rt_dir_sync(d->dir[c], eb);
    return rc;
}

static void
flush_beside(void *arg)
{
    struct beside *b = arg;
    uint64_t group = b->flush.covered.log[DISK_NATIVE].group;

    b->rc = sync_replayed(b->disk, b->log, group, &b->eb);
    if (b->rc == ERR_OK)
        b->rc = flush_frozen(b->disk, &b->flush, &b->eb);
    else
        flush_thaw(b->disk, &b->flush);
}

enum err
beside_end(struct beside *b, struct errbuf *eb)
{
    if (!b->busy)
        return ERR_OK;
    rt_group_join(&b->group);
    b->busy = false;
    segment_drop(&b->log);
    if (b->rc != ERR_OK && eb != NULL)
        *eb = b->eb;
    return b->rc;
}

/* Begins a round when the former one is over. */
enum err
beside_begin(struct beside *b, struct segment *log, struct errbuf *eb)
{
    enum err rc = beside_end(b, eb);

    if (rc != ERR_OK || !flush_freeze(b->disk, &b->flush))
        return rc;
    b->log = segment_ref(log);
    b->eb = (struct errbuf){0};
    b->busy = true;
    rt_group_begin(&b->group);
    if (rt_group_start(&b->group, flush_beside, b) != ERR_OK)
        flush_beside(b); /* no fiber for it: the replay waits */
    return ERR_OK;
}

enum err
replay_flush(struct disk *d, struct segment *log, struct errbuf *eb)
{
    enum err rc = sync_replayed(d, log, d->home.log[DISK_NATIVE].next_group - 1, eb);

    return rc == ERR_OK ? flush_round(d, eb) : rc;
}

/* And a sync of it may have failed before that: then the kernel takes the bytes for clean though the disk has not got them,
 * and no later sync brings them there (D9). So those that are to be believed are written once more. What can't be read is
 * damage, and was said. */
enum err
replay_write_again(struct segment *s, uint64_t from, uint64_t to, struct errbuf *eb)
{
    enum err rc = ERR_OK;

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
replay_again(struct replaying *r, uint64_t to, struct errbuf *eb)
{
    uint64_t from = r->again;

    r->again = to;
    return r->last ? replay_write_again(r->segment, from, to, eb) : ERR_OK;
}

/* The same for the segment's own header, and for its size. */
enum err
replay_renew_segment(struct segment *s, struct errbuf *eb)
{
    uint64_t size;
    enum err rc = rt_file_size(s->file, &size, eb);

    if (rc == ERR_OK)
        rc = rt_truncate(s->file, size, eb);
    return rc == ERR_OK ? replay_write_again(s, 0, DISK_ALIGN, eb) : rc;
}
