#include "disk/log.h"

#include <assert.h>

#include "base/log.h"
#include "base/metrics.h"
#include "disk/ahead.h"
#include "disk/health.h"
#include "disk/segment.h"
#include "disk/space.h"
#include "rt/point.h"

static enum err
give_up(struct disk *d, enum disk_class class, enum err rc, struct errbuf *eb)
{
    struct log *log = &d->home.log[class];

    log->failed = true;
    health_log_failed(d->health, class == DISK_NATIVE ? "native" : "cached");
    if (class == DISK_NATIVE)
        atomic_store(&d->failed, true);
    LOG(LOG_ERROR, "disk.log_failed", "the log takes nothing more until the next start",
        L_TEXT("disk", rt_dir_path(d->root)),
        L_TEXT("class", class == DISK_NATIVE ? "native" : "cached"),
        L_TEXT("error", eb != NULL ? eb->text : ""));
    return rc == ERR_CANCELLED ? rc : ERR_IO;
}

enum err
log_sync(struct disk *d, enum disk_class class, struct errbuf *eb)
{
    struct log *log = &d->home.log[class];
    uint64_t group;
    enum err rc;

    if (log->failed)
        return err_set(eb, ERR_IO, "the log has failed");
    if (!log->dirty || log->now == NULL)
        return ERR_OK;
    log->dirty = false; /* what is appended from here on sets it again */
    group = log->next_group - 1;
    rc = rt_sync(log->now->file, eb);
    metric_add(M_DISK_SYNCS, 0, 1);
    if (rc != ERR_OK)
        return give_up(d, class, rc, eb);
    log->synced_group = MAX(log->synced_group, group);
    return ERR_OK;
}

enum err
log_room(struct disk *d, enum disk_class class, uint64_t bytes, struct errbuf *eb)
{
    struct log *log = &d->home.log[class];
    uint64_t most = MIN(d->o.segment_bytes, LOG_BYTES_MOST);
    struct segment *next;
    enum err rc;

    if (log->failed)
        return err_set(eb, ERR_IO, "the log has failed");
    assert(bytes <= GROUP_MAX);
    if (log->now != NULL && !log->full &&
        log->now->home.used + bytes + DISK_ALIGN <= log->now->home.size)
        return ERR_OK;
    /* A record that is synced in the next segment promises all that stands before it; a sync that the flusher has
     * begun may not be over. */
    log->dirty = true;
    rc = log_sync(d, class, eb);
    if (rc != ERR_OK)
        return rc;
    rc = segment_make_shared(d, class, SEGMENT_LOG, log->next_group, LOG_BYTES_LEAST,
                             most, bytes, &next, eb);
    if (rc == ERR_NO_SPACE) {
        space_ran_out(d->space, "a new log does not fit");
        if (space_give_ballast(d->space)) /* deletes have to be written */
            rc = segment_make_shared(d, class, SEGMENT_LOG, log->next_group,
                                     LOG_BYTES_LEAST, most, bytes, &next, eb);
    }
    if (rc != ERR_OK)
        return rc;
    segment_drop(&log->now); /* the table keeps it for its readers */
    log->now = next;
    log->full = false;
    return ERR_OK;
}

/* A write and a sync, or both at once. The latter speaks for this group alone: where the one before is not durable yet, a sync has
 * to be. ERR_NO_SPACE: of the write, and nothing was written. */
static enum err
write_group(struct log *log, struct iobuf *b, uint32_t len, bool sync, struct errbuf *eb)
{
    struct rt_file *file = log->now->file;
    uint64_t at = log->now->home.used, begun_ns = rt_now_ns();
    bool may =
        sync && log->synced_group + 1 == log->next_group && rt_writes_durable(file);
    bool one = may && durable_as_one(&log->durable);
    enum err rc = ERR_NO_SPACE;

    if (one)
        rc = rt_write_durable(file, at, b, 0, len, RT_WRITE, eb);
    /* No space for the write, or for the sync: who writes once more is told. */
    if (rc == ERR_NO_SPACE) {
        one = false;
        rc = rt_write(file, at, b, 0, len, RT_WRITE, eb);
    }
    POINT(LOG_WRITTEN);
    if (rc != ERR_OK || !sync)
        return rc;
    if (!one)
        rc = rt_sync(file, eb);
    metric_add(M_DISK_SYNCS, 0, 1);
    POINT(LOG_SYNCED);
    if (rc == ERR_OK && may)
        durable_took(&log->durable, one, rt_now_ns() - begun_ns);
    return rc == ERR_NO_SPACE ? ERR_IO : rc; /* of a sync that is final as well */
}

enum err
log_append(struct disk *d, enum disk_class class, struct iobuf *b, uint32_t len,
           bool sync, struct errbuf *eb)
{
    struct log *log = &d->home.log[class];
    struct segment *s = log->now;
    enum err rc;

    assert(len % DISK_ALIGN == 0 && s->home.used % DISK_ALIGN == 0 &&
           len + DISK_ALIGN <= b->room);
    memset(b->at + len, 0, DISK_ALIGN);
    POINT(LOG_BEFORE);
    rc = write_group(log, b, len + DISK_ALIGN, sync, eb);
    if (rc == ERR_NO_SPACE) { /* the next group takes the same place and number */
        space_ran_out(d->space, "a record does not fit");
        (void)space_give_ballast(d->space);
        return rc;
    }
    if (rc != ERR_OK)
        return give_up(d, class, rc, eb);
    metric_add(M_DISK_IO_BYTES, 1, len);
    s->home.used += len;
    s->home.counted += len;
    log->dirty = !sync;
    log->uncovered += len;
    atomic_fetch_add(&d->used_bytes[class], len);
    log->end = (struct log_position){.generation = s->generation,
                                     .segment = s->id,
                                     .offset = s->home.used,
                                     .group = log->next_group};
    if (sync)
        log->synced_group = log->promised = log->next_group;
    log->next_group++;
    if (class == DISK_NATIVE)
        ahead_log_grew(d, s);
    return ERR_OK;
}
