#include "store/wal/flush.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "rt/point.h"
#include "store/core/core.h"
#include "store/index/index.h"
#include "store/index/key_filter_fill.h"
#include "store/index/memtable.h"
#include "store/index/suspect.h"
#include "store/segment/segment.h"
#include "store/segment/space.h"
#include "store/store_entry.h"
#include "store/wal/truncated.h"
#include "store/wal/wal.h"

struct flusher {
    struct store *disk;
    struct rt_cond kick, round_over;
    struct rt_daemon daemon;
    uint64_t rounds;              /* rounds finished */
    struct key_filter_fill *fill; /* owned; NULL: no filter to fill */
    bool wanted, stop;
    bool starved; /* no space for the index in the last round; rows stay in memory */
    bool broken;  /* the index accepts nothing more */
};

bool
flush_is_behind(const struct store *d)
{
    uint64_t log =
        d->wals->of[STORE_NATIVE].uncovered + d->wals->of[STORE_CACHED].uncovered;

    return memtable_bytes(d->memtable) > d->o.memtable_bytes || log > d->o.memtable_bytes;
}

/* Syncs cached segments, which are not synced before a reply. The index must name nothing that a
 * crash could lose. */
static enum err
sync_cached(struct store *d, struct errbuf *eb)
{
    struct list *dirty = &d->segments->dirty_bodies;
    enum err rc = ERR_OK;
    bool any = !list_empty(dirty);

    while (!list_empty(dirty)) {
        struct segment *s =
            LIST_ENTRY(list_pop_front(dirty), struct segment, owner.of_dirty);

        s->owner.dirty = false;
        if (rc == ERR_OK && !s->doomed)
            rc = rt_sync(s->file, eb);
        if (rc != ERR_OK)
            s->doomed = true;
        segment_drop(&s);
    }
    if (rc == ERR_OK && any)
        rc = rt_dir_sync(d->dir[STORE_CACHED], eb);
    /* After a failed write or sync it is unknown what is durable: the index covers nothing more
     * of this log. */
    if (rc == ERR_OK &&
        (!d->wals->of[STORE_CACHED].failed || d->wals->of[STORE_CACHED].uncovered > 0))
        rc = wal_sync(d, STORE_CACHED, eb);
    return rc;
}

/* Syncs the log before the index covers commits and aborts, which are answered without a sync.
 * The index must name nothing that a crash could lose. */
static enum err
sync_native(struct store *d, const struct wal_position *checkpoint, struct errbuf *eb)
{
    struct wal *log = &d->wals->of[STORE_NATIVE];

    if (log->synced_batch >= checkpoint->batch)
        return ERR_OK;
    log->dirty = true; /* another fiber's sync may still be running */
    return wal_sync(d, STORE_NATIVE, eb);
}

/* Returns the garbage to the list, because the index does not record it yet. The next round
 * tries again. */
static void
flush_give_back(struct store *d, struct garbage *garbage, uint32_t count)
{
    uint32_t more = d->wals->garbage_count;

    if (count > 0) {
        garbage = xrealloc(garbage, (count + more) * sizeof *garbage);
        if (more > 0)
            memcpy(garbage + count, d->wals->garbage, more * sizeof *garbage);
        free(d->wals->garbage);
        d->wals->garbage = garbage;
        d->wals->garbage_count = d->wals->garbage_room = count + more;
    } else {
        free(garbage);
    }
}

/* Writes to the index; if space is short, releases the ballast and tries again. */
static enum err
into_index(struct store *d, const struct frozen_runs *batch,
           const struct index_checkpoint *checkpoint, struct errbuf *eb)
{
    enum err rc = index_apply(d->index, batch, checkpoint, eb);

    if (rc != ERR_NO_SPACE)
        return rc;
    space_ran_out(d->space, "the index does not fit");
    return space_give_ballast(d->space) ? index_apply(d->index, batch, checkpoint, eb)
                                        : rc;
}

enum err
suspects_persist(struct store *d, struct errbuf *eb)
{
    struct suspects *s = d->suspects;
    struct buf bytes;
    enum err rc;

    assert(on_owner(d));
    assert(!d->read_only);
    if (!s->dirty)
        return ERR_OK;
    s->dirty = false; /* what changes while it is written is written again */
    buf_init(&bytes, SUSPECTS_MAX * (SUSPECT_ENTRY_BYTES + 8) + 4096);
    suspects_encode(s, &bytes);
    if (!s->all && atomic_load(&s->left) == 0 && s->known_count == 0)
        rc = rt_dir_unlink(d->state, SUSPECT_FILE, eb);
    else
        rc = rt_file_store(d->state, SUSPECT_FILE, bytes.at, bytes.len, 0600, eb);
    buf_fini(&bytes);
    if (rc == ERR_OK || rc == ERR_NOT_FOUND)
        return ERR_OK;
    s->dirty = true;
    return rc;
}

/* Must not switch until it has taken the runs, their log positions and their garbage. */
bool
flush_freeze(struct store *d, struct flush *f)
{
    assert(on_owner(d));
    assert(d->wals->garbage_count <= d->wals->garbage_room);
    *f = (struct flush){.checkpoint = {.generation = d->generation}};
    if (!memtable_freeze(d->memtable, &f->batch))
        return false;
    for (unsigned c = 0; c < STORE_CLASSES_; c++) {
        f->checkpoint.log[c] = d->wals->of[c].end;
        f->before[c] = d->wals->of[c].uncovered;
    }
    f->garbage = d->wals->garbage;
    f->garbage_count = d->wals->garbage_count;
    d->wals->garbage = NULL;
    d->wals->garbage_count = d->wals->garbage_room = 0;
    return true;
}

void
flush_thaw(struct store *d, struct flush *f)
{
    memtable_thaw(d->memtable, &f->batch);
    flush_give_back(d, f->garbage, f->garbage_count);
    f->garbage = NULL;
}

enum err
flush_frozen(struct store *d, struct flush *f, struct errbuf *eb)
{
    enum err rc = memtable_sort_frozen(d->memtable, &f->batch);

    assert(on_owner(d));
    assert(f->garbage != NULL || f->garbage_count == 0);
    if (rc != ERR_OK)
        (void)err_set(eb, rc, "index: %s", err_name(rc));
    if (rc == ERR_OK && !d->read_only)
        rc = sync_cached(d, eb);
    if (rc == ERR_OK && !d->read_only)
        rc = sync_native(d, &f->checkpoint.log[STORE_NATIVE], eb);
    if (rc == ERR_OK && !d->read_only)
        rc = suspects_persist(d, eb);
    POINT(INDEX_BEFORE);
    if (rc == ERR_OK)
        rc = into_index(d, &f->batch, &f->checkpoint, eb);
    POINT(INDEX_COMMITTED);
    if (rc != ERR_OK) {
        flush_thaw(d, f);
        return rc;
    }
    memtable_drop(d->memtable, &f->batch);
    POINT(INDEX_DROPPED);
    for (unsigned c = 0; c < STORE_CLASSES_; c++) {
        assert(d->wals->of[c].uncovered >= f->before[c]);
        assert(f->checkpoint.log[c].batch <= d->wals->of[c].end.batch);
        d->wals->of[c].uncovered -= f->before[c];
        d->wals->of[c].checkpoint = f->checkpoint.log[c];
    }
    if (d->wals->on_garbage != NULL)
        d->wals->on_garbage(d, f->garbage, f->garbage_count);
    free(f->garbage);
    f->garbage = NULL;
    return ERR_OK;
}

enum err
flush_round(struct store *d, struct errbuf *eb)
{
    struct flush f;

    return flush_freeze(d, &f) ? flush_frozen(d, &f, eb) : ERR_OK;
}

static void
flusher_run(void *arg)
{
    struct flusher *f = arg;
    struct store *d = f->disk;
    enum err rc = ERR_OK;

    rt_doing("flusher");
    rt_essential();
    f->fill = key_filter_fill_new(d);
    while (rc == ERR_OK || rc == ERR_TIMEOUT) {
        struct errbuf eb = {0};
        struct rt_shield shield;
        bool last = f->stop;
        enum err now;

        rt_shield_begin(&shield);
        f->wanted = false;
        now = f->broken ? ERR_OK : flush_round(d, &eb);
        index_mark_bad(d->index);
        index_populate_behind(d->index);
        if (now == ERR_NO_SPACE && !f->starved)
            LOG(LOG_WARN, "store.index_starved",
                "no room for the index: changes wait in memory, and in the log",
                L_TEXT("disk", rt_dir_path(d->root)), L_TEXT("error", eb.text));
        f->starved = now == ERR_NO_SPACE;
        durable_mark_persist(d, last);
        if (now != ERR_OK && now != ERR_NO_SPACE) {
            f->broken = true;
            LOG(LOG_ERROR, "store.index_failed",
                "the index takes nothing more; it is rebuilt at the next start",
                L_TEXT("disk", rt_dir_path(d->root)), L_TEXT("error", eb.text));
        }
        rt_shield_end(&shield);
        f->rounds++;
        rt_cond_broadcast(&f->round_over);
        if (last)
            break;
        if (f->fill != NULL && !key_filter_fill_some(f->fill))
            key_filter_fill_free(&f->fill);
        if (!f->wanted && !f->stop)
            rc = rt_cond_wait(&f->kick, deadline_in_ms(d->o.index_interval_ms));
    }
    key_filter_fill_free(&f->fill);
    f->broken = true;
    rt_cond_broadcast(&f->round_over);
    rt_daemon_over(&f->daemon);
}

enum err
flush_wait(struct store *d, struct errbuf *eb)
{
    struct flusher *f = d->flusher;
    /* The current round may have begun before this call. */
    uint64_t until = f->rounds + 2;
    enum err rc = ERR_OK;

    assert(on_owner(d));
    while (rc == ERR_OK && !f->broken && f->rounds < until) {
        f->wanted = true;
        rt_cond_signal(&f->kick);
        rc = rt_cond_wait(&f->round_over, DEADLINE_NEVER);
    }
    if (rc == ERR_OK && f->starved && !f->broken)
        rc = err_set(eb, ERR_NO_SPACE,
                     "the disk is full: its index has no room to take what changed");
    if (rc == ERR_OK && f->broken)
        rc = err_set(
            eb, ERR_IO,
            "the index of this disk takes nothing; it is rebuilt at the next start");
    return rc;
}

enum err
flusher_start(struct store *d, struct errbuf *eb)
{
    struct flusher *f = xcalloc(1, sizeof *f);
    enum err rc;

    f->disk = d;
    rt_cond_init(&f->kick);
    rt_cond_init(&f->round_over);
    d->flusher = f;
    rc = rt_daemon_start(&f->daemon, flusher_run, f);
    if (rc != ERR_OK) {
        f->broken = true;
        return err_set(eb, rc, "no fiber for the index");
    }
    return ERR_OK;
}

void
flusher_stop(struct store *d)
{
    struct flusher *f = d->flusher;

    if (f == NULL)
        return;
    f->stop = true;
    rt_cond_signal(&f->kick);
    rt_daemon_join(&f->daemon);
}

void
flusher_free(struct flusher **fp)
{
    free(*fp);
    *fp = NULL;
}
