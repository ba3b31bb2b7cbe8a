/* body_sync: the sync that bodies of a segment share. */
#include <assert.h>

#include "base/log.h"
#include "base/metrics.h"
#include "disk/body.h"
#include "disk/body_internal.h"
#include "disk/segment.h"
#include "rt/point.h"

static void
note_dirty(void *arg)
{
    struct segment *s = arg;

    if (s->home.dirty)
        return;
    s->home.dirty = true;
    segment_ref(s);
    list_push_back(&s->disk->home.dirty_bodies, &s->home.of_dirty);
}

/* A failed sync is final: the segment takes nothing more, whoever waited for that sync is refused. */
static enum err
sync_segment(struct segment *s, struct errbuf *eb)
{
    enum err rc = rt_sync(s->file, eb);

    metric_add(M_DISK_SYNCS, 0, 1);
    if (rc != ERR_OK) {
        s->doomed = true;
        atomic_store(&s->disk->failed, true);
        LOG(LOG_ERROR, "disk.body_sync_failed",
            "the disk takes nothing more until the next start",
            L_TEXT("disk", rt_dir_path(s->disk->root)), L_U64("segment", s->id));
    }
    return rc;
}

unsigned
body_sealing_begin(struct segment *s)
{
    s->home.sealing[s->home.sealing_turn]++;
    return s->home.sealing_turn;
}

void
body_sealing_end(struct segment *s, unsigned turn)
{
    assert(s->home.sealing[turn] > 0);
    if (--s->home.sealing[turn] == 0)
        rt_cond_broadcast(&s->home.synced);
}

/* Bodies whose last writes are on their way come along: the disk does these before the flush anyway, or in a moment, and with a
 * sync of their own they would wait for this one first. Those that begin meanwhile are not waited for. */
static void
wait_for_others(struct segment *s)
{
    unsigned turn = s->home.sealing_turn;

    s->home.sealing_turn = !turn;
    while (s->home.sealing[turn] > 0 &&
           rt_cond_wait(&s->home.synced, DEADLINE_NEVER) == ERR_OK)
        ;
}

struct sync_job {
    struct segment *segment;
    uint64_t wanted; /* number of the sync; 0: of the next one */
    struct errbuf *eb;
    enum err rc;
};

/* Bodies of a segment that were sealed while it was synced wait for the next sync and share it. */
static void
sync_together(void *arg)
{
    struct sync_job *j = arg;
    struct segment *s = j->segment;
    /* One that has begun may miss what is ours. */
    uint64_t mine = j->wanted != 0 ? j->wanted : s->home.syncs_begun + 1;
    struct rt_shield shield;

    rt_shield_begin(&shield);
    j->rc = ERR_OK;
    while (j->rc == ERR_OK && s->home.syncs_done < mine) {
        if (s->doomed) {
            j->rc = err_set(j->eb, ERR_IO, "a write or sync of this segment has failed");
        } else if (s->home.syncing) {
            j->rc = rt_cond_wait(&s->home.synced, DEADLINE_NEVER);
        } else {
            s->home.syncing = true;
            wait_for_others(s);
            s->home.syncs_begun++;
            j->rc = sync_segment(s, j->eb);
            s->home.syncing = false;
            if (j->rc == ERR_OK)
                s->home.syncs_done = s->home.syncs_begun;
            rt_cond_broadcast(&s->home.synced);
        }
    }
    rt_shield_end(&shield);
}

enum err
body_sync(struct body *b, struct errbuf *eb)
{
    struct sync_job j = {
        .segment = b->segment, .wanted = b->sync_wanted, .eb = eb, .rc = ERR_CANCELLED};
    enum err rc;

    if (b->class == DISK_CACHED)
        return on_home(b->disk, note_dirty, b->segment);
    if (b->segment->doomed)
        return err_set(eb, ERR_IO, "a sync of this segment has failed");
    POINT(BODY_SEALED);
    if (b->segment->kind == SEGMENT_ONE) {
        rc = sync_segment(b->segment, eb);
    } else {
        rc = on_home(b->disk, sync_together, &j);
        if (rc == ERR_OK)
            rc = j.rc;
    }
    POINT(BODY_SYNCED);
    return rc;
}
