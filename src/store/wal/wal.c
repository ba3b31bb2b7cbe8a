#include "store/wal/wal.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/metrics.h"
#include "rt/point.h"
#include "store/core/core.h"
#include "store/health/health.h"
#include "store/index/index.h"
#include "store/index/suspect.h"
#include "store/record/format.h"
#include "store/segment/segment.h"
#include "store/segment/space.h"
#include "store/store_entry.h"
#include "store/wal/prealloc.h"
#include "store/wal/sync_mode.h"
#include "store/wal/truncated.h"
#include "store/wal/watermark.h"

/* Asserts the invariants of a log that hold between two batches. */
static void
wal_check(const struct wal *log, enum store_class class)
{
    assert(class < STORE_CLASSES_);
    assert(log->synced_batch < log->next_batch || log->next_batch == 0);
    assert(log->durable_mark <= log->synced_batch || class == STORE_CACHED);
    assert(log->end.batch < log->next_batch || log->next_batch == 0);
    assert(log->checkpoint.batch <= log->end.batch || log->end.batch == 0);
    if (log->now == NULL)
        return;
    segment_check(log->now);
    assert(log->now->kind == SEGMENT_LOG);
    assert(log->now->class == class);
    assert(log->now->owner.current);
    assert(!segment_is_spare(log->now));
    assert(log->now->first_batch <= log->next_batch);
    assert(log->now->owner.used <= log->now->owner.size);
}

static enum err
wal_fail(struct store *d, enum store_class class, enum err rc, struct errbuf *eb)
{
    struct wal *log = &d->wals->of[class];

    assert(rc != ERR_OK);
    log->failed = true;
    health_log_failed(d->health, class == STORE_NATIVE ? "native" : "cached");
    if (class == STORE_NATIVE)
        atomic_store(&d->failed, true);
    LOG(LOG_ERROR, "store.wal_failed", "the log takes nothing more until the next start",
        L_TEXT("disk", rt_dir_path(d->root)),
        L_TEXT("class", class == STORE_NATIVE ? "native" : "cached"),
        L_TEXT("error", eb != NULL ? eb->text : ""));
    return rc == ERR_CANCELLED ? rc : ERR_IO;
}

enum err
wal_sync(struct store *d, enum store_class class, struct errbuf *eb)
{
    struct wal *log = &d->wals->of[class];
    uint64_t batch;
    enum err rc;

    assert(on_owner(d));
    assert(class < STORE_CLASSES_);
    if (log->failed)
        return err_set(eb, ERR_IO, "the log has failed");
    if (!log->dirty || log->now == NULL)
        return ERR_OK;
    log->dirty = false; /* appends during the sync set it again */
    batch = log->next_batch - 1;
    rc = rt_sync(log->now->file, eb);
    metric_add(M_DISK_SYNCS, 0, 1);
    if (rc != ERR_OK)
        return wal_fail(d, class, rc, eb);
    log->synced_batch = MAX(log->synced_batch, batch);
    return ERR_OK;
}

enum err
wal_reserve(struct store *d, enum store_class class, uint64_t bytes, struct errbuf *eb)
{
    struct wal *log = &d->wals->of[class];
    uint64_t most = MIN(d->o.segment_bytes, LOG_BYTES_MOST);
    struct segment *next;
    enum err rc;

    wal_check(log, class);
    assert(on_owner(d));
    assert(bytes % STORE_ALIGN == 0);
    if (log->failed)
        return err_set(eb, ERR_IO, "the log has failed");
    assert(bytes <= BATCH_MAX);
    if (log->now != NULL && !log->full &&
        log->now->owner.used + bytes + STORE_ALIGN <= log->now->owner.size)
        return ERR_OK;
    /* A synced record in the next segment promises that everything before it is durable. A sync
     * by the flusher may still be running. */
    log->dirty = true;
    rc = wal_sync(d, class, eb);
    if (rc != ERR_OK)
        return rc;
    rc = segment_make_shared(d, class, SEGMENT_LOG, log->next_batch, LOG_BYTES_LEAST,
                             most, bytes, &next, eb);
    if (rc == ERR_NO_SPACE) {
        space_ran_out(d->space, "a new log does not fit");
        if (space_give_ballast(d->space)) /* deletes must be recorded */
            rc = segment_make_shared(d, class, SEGMENT_LOG, log->next_batch,
                                     LOG_BYTES_LEAST, most, bytes, &next, eb);
    }
    if (rc != ERR_OK)
        return rc;
    rc = log_set_add(d, next, eb);
    if (rc !=
        ERR_OK) { /* it takes no batch; it stays, because one of the lists may name it */
        segment_drop(&next);
        return rc;
    }
    if (log->now != NULL)
        log->now->owner.current = false;
    segment_drop(&log->now); /* readers find it in the segment table */
    log->now = next;
    next->owner.current = true;
    log->full = false;
    return ERR_OK;
}

/* Writes and syncs the batch, in two operations or in one. The one operation covers only this
 * batch; if the batch before is not durable yet, a full sync follows. ERR_NO_SPACE: the write
 * failed, and nothing was written. */
static enum err
wal_write_batch(struct wal *log, struct iobuf *b, uint32_t len, bool sync,
                struct errbuf *eb)
{
    struct rt_file *file = log->now->file;
    uint64_t at = log->now->owner.used, begun_ns = rt_now_ns();
    bool may =
        sync && log->synced_batch + 1 == log->next_batch && rt_writes_durable(file);
    bool one = may && sync_mode_as_one(&log->sync_mode);
    enum err rc = ERR_NO_SPACE;

    assert(len % STORE_ALIGN == 0);
    assert(at % STORE_ALIGN == 0);
    if (one)
        rc = rt_write_durable(file, at, b, 0, len, RT_WRITE, eb);
    /* Either the write or the sync had no space. Writing again tells which. */
    if (rc == ERR_NO_SPACE) {
        one = false;
        rc = rt_write(file, at, b, 0, len, RT_WRITE, eb);
    }
    POINT(WAL_WRITTEN);
    if (rc != ERR_OK || !sync)
        return rc;
    if (!one)
        rc = rt_sync(file, eb);
    metric_add(M_DISK_SYNCS, 0, 1);
    POINT(WAL_SYNCED);
    if (rc == ERR_OK && may)
        sync_mode_took(&log->sync_mode, one, rt_now_ns() - begun_ns);
    return rc == ERR_NO_SPACE ? ERR_IO : rc; /* a failed sync is final as well */
}

void
wal_set_digest_before(struct store *d, struct span keys)
{
    buf_clear(&d->wals->digest_before);
    buf_put(&d->wals->digest_before, keys.at, keys.len);
    assert(!d->wals->digest_before.full);
}

enum err
wal_append(struct store *d, enum store_class class, struct iobuf *b, uint32_t len,
           bool sync, struct errbuf *eb)
{
    struct wal *log = &d->wals->of[class];
    struct segment *s = log->now;
    enum err rc;

    assert(len % STORE_ALIGN == 0 && s->owner.used % STORE_ALIGN == 0 &&
           len + STORE_ALIGN <= b->room);
    wal_check(log, class);
    assert(on_owner(d));
    assert(len > 0 && len <= BATCH_MAX);
    assert(s->owner.used + len + STORE_ALIGN <= s->owner.size);
    assert(!log->failed);
    memset(b->at + len, 0, STORE_ALIGN);
    POINT(WAL_BEFORE);
    rc = wal_write_batch(log, b, len + STORE_ALIGN, sync, eb);
    if (rc == ERR_NO_SPACE) { /* the next batch gets the same place and number */
        space_ran_out(d->space, "a record does not fit");
        (void)space_give_ballast(d->space);
        return rc;
    }
    if (rc != ERR_OK)
        return wal_fail(d, class, rc, eb);
    /* It may switch: a flush meanwhile must not cover this batch, whose changes are not in the memtable yet. */
    if (class == STORE_NATIVE) {
        watermark_add(d->wals->mark, log->next_batch, buf_span(&d->wals->digest));
        wal_set_digest_before(d, buf_span(&d->wals->digest));
        if (sync)
            watermark_write(d, log->next_batch);
    }
    metric_add(M_DISK_IO_BYTES, 1, len);
    s->owner.used += len;
    s->owner.counted += len;
    log->dirty = !sync;
    log->uncovered += len;
    atomic_fetch_add(&d->segments->used_bytes[class], len);
    log->end = (struct wal_position){.generation = s->generation,
                                     .segment = s->id,
                                     .offset = s->owner.used,
                                     .batch = log->next_batch};
    if (sync)
        log->synced_batch = log->durable_mark = log->next_batch;
    log->next_batch++;
    if (class == STORE_NATIVE)
        prealloc_wal_grew(d, s);
    wal_check(log, class);
    assert(log->end.batch + 1 == log->next_batch);
    return ERR_OK;
}

void
wals_check(const struct store *d)
{
    const struct wals *w = d->wals;

    assert(on_owner(d));
    assert(w->garbage_count <= w->garbage_room);
    assert((w->garbage != NULL) == (w->garbage_room > 0));
    truncated_check(&w->truncated);
    log_set_check(&w->set);
    for (unsigned c = 0; c < STORE_CLASSES_; c++) {
        const struct wal *log = &w->of[c];

        assert(log->next_batch > 0);
        assert(log->end.batch < log->next_batch);
        assert(log->checkpoint.batch <= log->end.batch);
        assert(log->synced_batch < log->next_batch);
        assert(log->now == NULL || log->now->kind == SEGMENT_LOG);
        assert(log->now == NULL || log->now->class == c);
        assert(log->now == NULL || log->now->owner.current);
        assert(log->now == NULL || log->now->first_batch <= log->next_batch);
    }
}

struct wals *
wals_new(void)
{
    struct wals *w = xcalloc(1, sizeof *w);

    rt_sem_init(&w->truncated_turn, 1);
    log_set_init(&w->set);
    buf_init(&w->digest, BATCH_RECORDS * SUSPECT_ENTRY_BYTES);
    buf_init(&w->digest_before, BATCH_RECORDS * SUSPECT_ENTRY_BYTES);
    w->mark = watermark_new();
    return w;
}

void
wals_free(struct wals **wp)
{
    struct wals *w = *wp;

    *wp = NULL;
    if (w == NULL)
        return;
    for (unsigned c = 0; c < STORE_CLASSES_; c++)
        segment_drop(&w->of[c].now);
    truncated_fini(&w->truncated);
    log_set_fini(&w->set);
    watermark_free(&w->mark);
    buf_fini(&w->digest);
    buf_fini(&w->digest_before);
    free(w->garbage);
    free(w);
}
