#include "disk/flush.h"

#include <stdlib.h>

#include "base/log.h"
#include "disk/known_fill.h"
#include "disk/log.h"
#include "disk/promised.h"
#include "disk/punch.h"
#include "disk/segment.h"
#include "disk/space.h"
#include "rt/point.h"

struct flusher {
    struct disk *disk;
    struct rt_cond kick, round_over;
    struct rt_daemon daemon;
    uint64_t rounds;         /* finished */
    struct known_fill *fill; /* owned; NULL: nothing to do */
    bool wanted, stop;
    bool
        starved; /* the last round found no room for the index; what waits stays in the tail */
    bool broken; /* the index takes nothing more */
};

bool
flush_is_behind(const struct disk *d)
{
    uint64_t log =
        d->home.log[DISK_NATIVE].uncovered + d->home.log[DISK_CACHED].uncovered;

    return tail_bytes(d->tail) > d->o.tail_bytes || log > d->o.tail_bytes;
}

/* Cached segments are synced here and not before a reply: the index names nothing that a crash could lose. */
static enum err
sync_cached(struct disk *d, struct errbuf *eb)
{
    struct list *dirty = &d->home.dirty_bodies;
    enum err rc = ERR_OK;
    bool any = !list_empty(dirty);

    while (!list_empty(dirty)) {
        struct segment *s =
            LIST_ENTRY(list_pop_front(dirty), struct segment, home.of_dirty);

        s->home.dirty = false;
        if (rc == ERR_OK && !s->doomed)
            rc = rt_sync(s->file, eb);
        if (rc != ERR_OK)
            s->doomed = true;
        segment_drop(&s);
    }
    if (rc == ERR_OK && any)
        rc = rt_dir_sync(d->dir[DISK_CACHED], eb);
    /* Of a log that failed nobody knows what is durable: then the index covers nothing more of it. */
    if (rc == ERR_OK &&
        (!d->home.log[DISK_CACHED].failed || d->home.log[DISK_CACHED].uncovered > 0))
        rc = log_sync(d, DISK_CACHED, eb);
    return rc;
}

/* Decisions about copies are answered before they are synced: the index names none that a crash could lose. */
static enum err
sync_native(struct disk *d, const struct log_position *covered, struct errbuf *eb)
{
    struct log *log = &d->home.log[DISK_NATIVE];

    if (log->synced_group >= covered->group)
        return ERR_OK;
    log->dirty = true; /* a sync that somebody else has begun may not be over */
    return log_sync(d, DISK_NATIVE, eb);
}

/* They died, but the index does not know: with what dies from now on they are tried again. */
static void
give_back(struct disk *d, struct dying *dying, uint32_t count)
{
    uint32_t more = d->home.dying_count;

    if (count > 0) {
        dying = xrealloc(dying, (count + more) * sizeof *dying);
        if (more > 0)
            memcpy(dying + count, d->home.dying, more * sizeof *dying);
        free(d->home.dying);
        d->home.dying = dying;
        d->home.dying_count = d->home.dying_room = count + more;
    } else {
        free(dying);
    }
}

/* Twice where room is short: what the ballast held is for this, too. */
static enum err
into_index(struct disk *d, const struct batch *batch, const struct index_covered *covered,
           struct errbuf *eb)
{
    enum err rc = index_apply(d->index, batch, covered, eb);

    if (rc != ERR_NO_SPACE)
        return rc;
    space_ran_out(d->space, "the index does not fit");
    return space_give_ballast(d->space) ? index_apply(d->index, batch, covered, eb) : rc;
}

/* Up to the end this is one moment: the runs, how far they reach, what died in them. */
bool
flush_freeze(struct disk *d, struct flush *f)
{
    *f = (struct flush){.covered = {.generation = d->generation}};
    if (!tail_freeze(d->tail, &f->batch))
        return false;
    for (unsigned c = 0; c < DISK_CLASSES_; c++) {
        f->covered.log[c] = d->home.log[c].end;
        f->before[c] = d->home.log[c].uncovered;
    }
    f->dying = d->home.dying;
    f->dying_count = d->home.dying_count;
    d->home.dying = NULL;
    d->home.dying_count = d->home.dying_room = 0;
    return true;
}

void
flush_thaw(struct disk *d, struct flush *f)
{
    tail_thaw(d->tail, &f->batch);
    give_back(d, f->dying, f->dying_count);
    f->dying = NULL;
}

enum err
flush_frozen(struct disk *d, struct flush *f, struct errbuf *eb)
{
    enum err rc = tail_settle(d->tail, &f->batch);

    if (rc != ERR_OK)
        (void)err_set(eb, rc, "index: %s", err_name(rc));
    if (rc == ERR_OK)
        rc = sync_cached(d, eb);
    if (rc == ERR_OK)
        rc = sync_native(d, &f->covered.log[DISK_NATIVE], eb);
    POINT(INDEX_BEFORE);
    if (rc == ERR_OK)
        rc = into_index(d, &f->batch, &f->covered, eb);
    POINT(INDEX_COMMITTED);
    if (rc != ERR_OK) {
        flush_thaw(d, f);
        return rc;
    }
    tail_drop(d->tail, &f->batch);
    POINT(INDEX_DROPPED);
    for (unsigned c = 0; c < DISK_CLASSES_; c++) {
        d->home.log[c].uncovered -= f->before[c];
        d->home.log[c].covered = f->covered.log[c];
    }
    puncher_add(d->puncher, f->dying, f->dying_count);
    free(f->dying);
    f->dying = NULL;
    return ERR_OK;
}

enum err
flush_round(struct disk *d, struct errbuf *eb)
{
    struct flush f;

    return flush_freeze(d, &f) ? flush_frozen(d, &f, eb) : ERR_OK;
}

enum err
flush_position(struct disk *d, struct errbuf *eb)
{
    struct batch nothing = {0};
    struct index_covered covered = {.generation = d->generation};
    enum err rc = flush_round(d, eb);

    for (unsigned c = 0; c < DISK_CLASSES_; c++)
        covered.log[c] = d->home.log[c].end;
    if (rc == ERR_OK)
        rc = index_apply(d->index, &nothing, &covered, eb);
    for (unsigned c = 0; rc == ERR_OK && c < DISK_CLASSES_; c++)
        d->home.log[c].covered = covered.log[c];
    return rc;
}

static void
flusher_run(void *arg)
{
    struct flusher *f = arg;
    struct disk *d = f->disk;
    enum err rc = ERR_OK;

    rt_doing("flusher");
    rt_essential();
    f->fill = known_fill_new(d);
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
            LOG(LOG_WARN, "disk.index_starved",
                "no room for the index: changes wait in memory, and in the log",
                L_TEXT("disk", rt_dir_path(d->root)), L_TEXT("error", eb.text));
        f->starved = now == ERR_NO_SPACE;
        promised_keep(d, last);
        if (now != ERR_OK && now != ERR_NO_SPACE) {
            f->broken = true;
            LOG(LOG_ERROR, "disk.index_failed",
                "the index takes nothing more; it is rebuilt at the next start",
                L_TEXT("disk", rt_dir_path(d->root)), L_TEXT("error", eb.text));
        }
        rt_shield_end(&shield);
        f->rounds++;
        rt_cond_broadcast(&f->round_over);
        if (last)
            break;
        if (f->fill != NULL && !known_fill_some(f->fill))
            known_fill_free(&f->fill);
        if (!f->wanted && !f->stop)
            rc = rt_cond_wait(&f->kick, deadline_in_ms(d->o.index_interval_ms));
    }
    known_fill_free(&f->fill);
    f->broken = true;
    rt_cond_broadcast(&f->round_over);
    rt_daemon_over(&f->daemon);
}

enum err
flush_wait(struct disk *d, struct errbuf *eb)
{
    struct flusher *f = d->flusher;
    uint64_t until = f->rounds + 2; /* the round at hand may have begun before */
    enum err rc = ERR_OK;

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
flusher_start(struct disk *d, struct errbuf *eb)
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
flusher_stop(struct disk *d)
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
