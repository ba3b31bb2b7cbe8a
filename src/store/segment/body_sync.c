/* body_sync: one sync shared by the bodies of a segment. */
#include <assert.h>

#include "base/log.h"
#include "base/metrics.h"
#include "rt/point.h"
#include "store/core/core.h"
#include "store/record/format.h"
#include "store/segment/body.h"
#include "store/segment/body_internal.h"
#include "store/segment/segment.h"
#include "store/store_entry.h"

static void
note_dirty(void *arg)
{
    struct segment *s = arg;

    assert(s->class == STORE_CACHED);
    assert(on_owner(s->disk));
    if (s->owner.dirty)
        return;
    s->owner.dirty = true;
    segment_ref(s);
    list_push_back(&s->disk->segments->dirty_bodies, &s->owner.of_dirty);
}

/* Syncs the segment. A failed sync is final: the segment accepts nothing more, and every body
 * that waited for that sync fails. */
static enum err
sync_segment(struct segment *s, struct errbuf *eb)
{
    enum err rc = rt_sync(s->file, eb);

    metric_add(M_DISK_SYNCS, 0, 1);
    if (rc != ERR_OK) {
        s->doomed = true;
        atomic_store(&s->disk->failed, true);
        LOG(LOG_ERROR, "store.body_sync_failed",
            "the disk takes nothing more until the next start",
            L_TEXT("disk", rt_dir_path(s->disk->root)), L_U64("segment", s->id));
    }
    return rc;
}

unsigned
body_sealing_begin(struct segment *s)
{
    assert(s->owner.sealing_turn <= 1);
    s->owner.sealing[s->owner.sealing_turn]++;
    return s->owner.sealing_turn;
}

void
body_sealing_end(struct segment *s, unsigned turn)
{
    assert(s->owner.sealing[turn] > 0);
    if (--s->owner.sealing[turn] == 0)
        rt_cond_broadcast(&s->owner.synced);
}

/* Waits for bodies that are in their last writes. The disk does these before the flush anyway,
 * or soon; with a sync of their own they would first wait for this one. Bodies that begin later
 * are not waited for. */
static void
wait_for_others(struct segment *s)
{
    unsigned turn = s->owner.sealing_turn;

    assert(s->owner.syncing);
    s->owner.sealing_turn = !turn;
    while (s->owner.sealing[turn] > 0 &&
           rt_cond_wait(&s->owner.synced, DEADLINE_NEVER) == ERR_OK)
        ;
}

struct sync_job {
    struct segment *segment;
    uint64_t wanted; /* number of the sync; 0: the next one */
    struct errbuf *eb;
    enum err rc;
};

/* Makes a body durable. Bodies sealed during a sync wait for the next one and share it. */
static void
sync_together(void *arg)
{
    struct sync_job *j = arg;
    struct segment *s = j->segment;
    /* A sync that has begun may miss this body. */
    uint64_t mine = j->wanted != 0 ? j->wanted : s->owner.syncs_begun + 1;
    struct rt_shield shield;

    assert(on_owner(s->disk));
    assert(s->kind == SEGMENT_BODIES);
    assert(mine <= s->owner.syncs_begun + 1);
    rt_shield_begin(&shield);
    j->rc = ERR_OK;
    while (j->rc == ERR_OK && s->owner.syncs_done < mine) {
        if (s->doomed) {
            j->rc = err_set(j->eb, ERR_IO, "a write or sync of this segment has failed");
        } else if (s->owner.syncing) {
            j->rc = rt_cond_wait(&s->owner.synced, DEADLINE_NEVER);
        } else {
            s->owner.syncing = true;
            wait_for_others(s);
            s->owner.syncs_begun++;
            j->rc = sync_segment(s, j->eb);
            s->owner.syncing = false;
            if (j->rc == ERR_OK)
                s->owner.syncs_done = s->owner.syncs_begun;
            rt_cond_broadcast(&s->owner.synced);
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

    assert(b->segment != NULL);
    if (b->class == STORE_CACHED)
        return on_owner_loop(b->disk, note_dirty, b->segment);
    if (b->segment->doomed)
        return err_set(eb, ERR_IO, "a sync of this segment has failed");
    POINT(BODY_SEALED);
    if (b->segment->kind == SEGMENT_ONE) {
        rc = sync_segment(b->segment, eb);
    } else {
        rc = on_owner_loop(b->disk, sync_together, &j);
        if (rc == ERR_OK)
            rc = j.rc;
    }
    POINT(BODY_SYNCED);
    return rc;
}
