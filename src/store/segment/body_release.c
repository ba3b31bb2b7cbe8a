/* body_release: releases places of bodies that were not committed. */
#include "base/log.h"
#include "store/core/core.h"
#include "store/record/format.h"
#include "store/segment/body.h"
#include "store/segment/body_internal.h"
#include "store/segment/segment.h"

/* Releases the place. The last place of a segment is reused. A finished body that was rejected
 * (its condition failed) gets a dead header, too. Otherwise, if the logs were lost before
 * something overwrites it, rebuild --from-bodies would take it for the newest write of its key. */
static void
body_release_shared(void *arg)
{
    struct body *b = arg;
    struct segment *s = b->segment;
    struct errbuf eb = {0};
    bool is_last;
    enum err rc = ERR_OK;

    while (
        rc == ERR_OK &&
        body_is_opening(s, b->offset,
                        b->offset + 1)) /* nothing may come after what is written now */
        rc = rt_cond_wait(&s->owner.opened, DEADLINE_NEVER);
    if (rc == ERR_OK)
        rc = rt_sem_acquire(&b->disk->segments->reserve, DEADLINE_NEVER);
    if (rc != ERR_OK)
        return; /* the place stays; the next start finds it */
    s->owner.open_places--;
    is_last = s->owner.used == b->offset + b->span;
    if (!is_last || b->finished)
        rc = body_mark_dead(s, b->offset, &b->head.content, b->span, RT_WRITE, &eb);
    if (is_last && rc == ERR_OK) {
        s->owner.used = b->offset;
        s->owner.counted -= MIN(s->owner.counted, b->span);
        atomic_fetch_sub(&b->disk->segments->used_bytes[b->class], b->span);
    }
    rt_sem_release(&b->disk->segments->reserve);
    if (rc != ERR_OK)
        LOG(LOG_WARN, "store.release_failed",
            "a place without a body stays until the next start",
            L_TEXT("error", eb.text));
}

static void
body_release_own(void *arg)
{
    struct body *b = arg;
    char name[SEGMENT_NAME_ROOM];

    segment_name(SEGMENT_ONE, b->segment->id, name);
    segment_discard(b->disk, b->class, name);
    atomic_fetch_sub(&b->disk->segments->used_bytes[b->class], b->span);
}

void
body_release(struct body *b)
{
    struct rt_shield shield;
    enum err rc;

    if (b->segment == NULL)
        return;
    rt_shield_begin(&shield);
    rc = on_owner_loop(
        b->disk, b->segment->kind == SEGMENT_ONE ? body_release_own : body_release_shared,
        b);
    if (rc != ERR_OK)
        LOG0(LOG_WARN, "store.release_failed",
             "no fiber to give a place back; the next start does");
    rt_shield_end(&shield);
    segment_drop(&b->segment);
}
