#include "store/gc/punch.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "rt/point.h"
#include "store/core/core.h"
#include "store/gc/relocate.h"
#include "store/index/index.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/segment/body.h"
#include "store/segment/reading.h"
#include "store/segment/scan.h"
#include "store/segment/segment.h"
#include "store/segment/space.h"
#include "store/store_entry.h"
#include "store/wal/flush.h"
#include "store/wal/wal.h"

#define WAITING_MAX 65536u
#define BATCH       64u /* places whose headers share one sync */
/* A segment is walked if it holds this much more than its live bytes. */
#define SWEEP_LEAST MIB(1)

struct puncher {
    struct store *disk;      /* borrowed */
    struct garbage *waiting; /* owned */
    uint32_t count, room;
};

/* Asserts the invariants that hold between two switches. */
void
puncher_check(const struct puncher *p)
{
    assert(p->disk != NULL);
    assert(p->count <= p->room);
    assert(p->count <= WAITING_MAX);
    assert((p->waiting != NULL) == (p->room > 0));
    for (uint32_t i = 0; i < p->count; i++) {
        assert(p->waiting[i].class < STORE_CLASSES_);
        assert(p->waiting[i].segment > 0);
    }
}

struct puncher *
puncher_new(struct store *d)
{
    struct puncher *p = xcalloc(1, sizeof *p);

    assert(d != NULL);
    p->disk = d;
    return p;
}

void
puncher_free(struct puncher **pp)
{
    if (*pp == NULL)
        return;
    free((*pp)->waiting);
    free(*pp);
    *pp = NULL;
}

void
puncher_add(struct puncher *p, const struct garbage *garbage, uint32_t count)
{
    assert(count == 0 || garbage != NULL);
    assert(p->count <= WAITING_MAX);
    count = MIN(count, WAITING_MAX - p->count);
    if (p->count + count > p->room) {
        p->room = MAX(p->count + count, 2 * p->room);
        p->waiting = xrealloc(p->waiting, p->room * sizeof *p->waiting);
    }
    if (count > 0)
        memcpy(p->waiting + p->count, garbage, count * sizeof *garbage);
    p->count += count;
}

void
puncher_on_garbage(struct store *d, const struct garbage *garbage, uint32_t count)
{
    puncher_add(d->puncher, garbage, count);
}

void
puncher_given_out(struct puncher *p, uint32_t segment, uint64_t from)
{
    uint32_t kept = 0;

    assert(segment > 0);
    assert(from >= STORE_ALIGN);
    for (uint32_t i = 0; i < p->count; i++) {
        if (p->waiting[i].segment != segment || p->waiting[i].offset < from)
            p->waiting[kept++] = p->waiting[i];
    }
    p->count = kept;
}

/* ---- segments of one body ---- */

/* *busy: a reader has it open. */
static enum err
unlink_one(struct store *d, const struct garbage *dead, bool *busy, struct errbuf *eb)
{
    struct reading_place place = {.segment = dead->segment, .offset = UINT64_MAX};
    struct index_segment seen = {0};
    uint64_t size = 0;
    enum err rc = index_segment(d->index, dead->class, dead->segment, &seen, eb);

    assert(on_owner(d));
    assert(dead->segment > 0);
    assert(dead->class < STORE_CLASSES_);
    if ((rc != ERR_OK && rc != ERR_NOT_FOUND) || seen.living > 0)
        return rc;
    rc = readings_ask(d, &place, 1);
    *busy = rc != ERR_OK || place.busy;
    if (*busy)
        return ERR_OK;
    rc = segment_size(d, dead->class, dead->segment, &size, eb);
    if (index_is_bad(d->index)) /* found during this round */
        return ERR_OK;
    if (rc == ERR_OK)
        rc = segment_remove(d, dead->class, SEGMENT_ONE, dead->segment, eb);
    if (rc == ERR_OK) {
        atomic_fetch_sub(&d->segments->used_bytes[dead->class],
                         size - MIN(size, 2 * STORE_ALIGN));
        space_reclaimed(d->space, SPACE_UNLINK, size);
    }
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

/* ---- places in shared segments ---- */

struct dead_range {
    uint64_t offset, span;
};

/* Checks whether this place is to be punched, and writes a dead header if it has none. */
static enum err
bury(struct store *d, struct segment *s, uint64_t offset,
     const struct content_id *content, struct dead_range *out, struct errbuf *eb)
{
    struct scan_source source = {.file = s->file,
                                 .segment = s->id,
                                 .generation = s->generation,
                                 .size = s->owner.size};
    struct iobuf *buf;
    struct log_record m;
    uint64_t next;
    bool lives = false;
    enum err rc = ERR_OK;
    enum scanned got = place_scan(&source, offset, &m, &buf, &next, eb);

    assert(on_owner(d));
    assert(s->kind == SEGMENT_BODIES);
    *out = (struct dead_range){0};
    if (got == SCAN_ERROR)
        return ERR_IO;
    if (got != SCAN_BATCH)
        return ERR_OK; /* reused, or damaged: the check reports it */
    /* Another body's header stays. A dead header may be a leftover inside a reused place, with a
     * span that reaches into the next place. Only a walk from place to place (no content) may
     * trust it. */
    if (m.kind == LOG_RECORD_OPEN ||
        (content != NULL &&
         (m.kind == LOG_RECORD_DEAD || !content_eq(&m.content, content))))
        lives = true;
    else
        rc = relocate_body_is_live(d, &m, &lives, eb);
    if (rc == ERR_OK && !lives && m.kind != LOG_RECORD_DEAD)
        rc = body_mark_dead(s, m.offset, &m.content, m.span, RT_BACKGROUND, eb);
    if (rc == ERR_OK && !lives && m.span > BODY_HEAD)
        *out = (struct dead_range){offset, m.span};
    iobuf_drop(&buf);
    return rc;
}

static void
drop_empty(struct dead_range *ranges, uint32_t *count)
{
    uint32_t n = 0;

    assert(*count <= BATCH);
    for (uint32_t i = 0; i < *count; i++) {
        if (ranges[i].span > 0)
            ranges[n++] = ranges[i];
    }
    *count = n;
}

/* Makes the dead headers durable, then punches the bytes behind them. */
static enum err
punch_holes(struct store *d, struct segment *s, struct dead_range *ranges, uint32_t count,
            struct errbuf *eb)
{
    enum err rc;

    drop_empty(ranges, &count);
    if (count == 0)
        return ERR_OK;
    assert(count <= BATCH);
    rc = rt_sync(s->file, eb);
    if (rc != ERR_OK) {
        s->doomed = true;
        return rc;
    }
    for (uint32_t i = 0; rc == ERR_OK && i < count; i++) {
        uint64_t bytes = ranges[i].span - BODY_HEAD;
        uint64_t counted = MIN(bytes, s->owner.counted);

        assert(ranges[i].span > BODY_HEAD);
        assert(counted <= s->owner.counted);
        if (index_is_bad(d->index)) /* found during this round */
            break;
        POINT(PUNCH_BEFORE);
        rc = rt_punch(s->file, ranges[i].offset + BODY_HEAD, bytes, eb);
        POINT(PUNCHED);
        if (rc != ERR_OK)
            break;
        s->owner.counted -= counted;
        atomic_fetch_sub(&d->segments->used_bytes[s->class], counted);
        space_reclaimed(d->space, SPACE_PUNCH, bytes);
    }
    return rc;
}

enum err
punch_if_empty(struct store *d, struct segment *s, bool *gone, struct errbuf *eb)
{
    struct reading_place place = {.segment = s->id, .offset = UINT64_MAX};
    struct index_segment seen = {0};
    enum err rc;

    assert(on_owner(d));
    assert(s->kind == SEGMENT_BODIES);
    *gone = false;
    if (s == d->segments->bodies[s->class] || s->owner.open_places > 0 ||
        (d->wals->damaged && s->class == STORE_NATIVE))
        return ERR_OK;
    rc = index_segment(d->index, s->class, s->id, &seen, eb);
    if ((rc != ERR_OK && rc != ERR_NOT_FOUND) || seen.living > 0)
        return rc == ERR_NOT_FOUND ? ERR_OK : rc;
    /* Changes that are committed but not yet in the index count as well. */
    rc = flush_wait(d, eb);
    if (rc == ERR_OK)
        rc = index_segment(d->index, s->class, s->id, &seen, eb);
    if ((rc != ERR_OK && rc != ERR_NOT_FOUND) || seen.living > 0)
        return rc;
    rc = readings_ask(d, &place, 1);
    if (rc != ERR_OK || place.busy || index_is_bad(d->index))
        return ERR_OK;
    *gone = true;
    atomic_fetch_sub(&d->segments->used_bytes[s->class], s->owner.counted);
    space_reclaimed(d->space, SPACE_UNLINK, s->owner.counted + STORE_ALIGN);
    s->owner.counted = 0;
    return segment_remove(d, s->class, SEGMENT_BODIES, s->id, eb);
}

/* ---- queued garbage ---- */

static int
by_place(const void *a, const void *b)
{
    const struct garbage *x = a, *y = b;

    if (x->segment != y->segment)
        return x->segment < y->segment ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Punches queued places of one shared segment, at most BATCH. A place with a reader stays
 * queued. */
static enum err
punch_some(struct puncher *p, struct segment *s, const struct garbage *dead,
           uint32_t count, struct errbuf *eb)
{
    struct store *d = p->disk;
    struct reading_place asked[BATCH];
    struct dead_range ranges[BATCH];
    enum err rc = ERR_OK;

    assert(count > 0);
    assert(count <= BATCH);
    assert(s->kind == SEGMENT_BODIES);
    for (uint32_t i = 0; i < count; i++)
        asked[i] = (struct reading_place){dead[i].segment, dead[i].offset, false};
    if (readings_ask(d, asked, count) != ERR_OK) {
        puncher_add(p, dead, count);
        return ERR_OK;
    }
    for (uint32_t i = 0; rc == ERR_OK && i < count; i++) {
        ranges[i] = (struct dead_range){0};
        if (asked[i].busy)
            puncher_add(p, &dead[i], 1);
        else
            rc = bury(d, s, dead[i].offset, &dead[i].content, &ranges[i], eb);
    }
    return rc == ERR_OK ? punch_holes(d, s, ranges, count, eb) : rc;
}

static enum err
try_segment(struct puncher *p, const struct garbage *dead, uint32_t count,
            struct errbuf *eb)
{
    struct store *d = p->disk;
    struct segment *s = segment_pin(d, dead->segment);
    bool busy = false, gone = false;
    enum err rc = ERR_OK;

    assert(count > 0);
    if (s == NULL) {
        rc = unlink_one(d, dead, &busy, eb);
        if (busy)
            puncher_add(p, dead, 1);
        return rc;
    }
    if (s->kind == SEGMENT_BODIES && !s->doomed) {
        rc = punch_if_empty(d, s, &gone, eb);
        for (uint32_t i = 0; rc == ERR_OK && !gone && i < count; i += BATCH)
            rc = punch_some(p, s, dead + i, MIN(count - i, BATCH), eb);
        if (rc == ERR_OK && !gone)
            rc = punch_if_empty(d, s, &gone, eb);
    }
    segment_drop(&s);
    return rc;
}

static enum err
try_waiting(struct puncher *p, struct errbuf *eb)
{
    struct garbage *at = p->waiting;
    uint32_t count = p->count, same;
    enum err rc = ERR_OK;

    if (count == 0)
        return ERR_OK;
    p->waiting = NULL;
    p->count = p->room = 0;
    qsort(at, count, sizeof *at, by_place);
    for (uint32_t i = 0; i < count; i += same) {
        for (same = 1; i + same < count && at[i + same].segment == at[i].segment;)
            same++;
        if (rc == ERR_OK)
            rc = try_segment(p, &at[i], same, eb);
        else
            puncher_add(p, &at[i], same);
    }
    free(at);
    return rc;
}

/* ---- garbage left by a crash ---- */

static enum err
sweep(struct puncher *p, struct segment *s, struct errbuf *eb)
{
    struct store *d = p->disk;
    struct scan_source source = {.file = s->file,
                                 .segment = s->id,
                                 .generation = s->generation,
                                 .size = s->owner.size};
    struct reading_place asked;
    uint64_t at = STORE_ALIGN, next, dead = 0;
    enum scanned got = SCAN_BATCH;
    enum err rc = ERR_OK;

    assert(s->kind == SEGMENT_BODIES);
    assert(s->owner.swept);
    assert(s != p->disk->segments->bodies[s->class]);
    while (rc == ERR_OK) {
        struct iobuf *buf;
        struct log_record m;
        struct dead_range dead_range;

        got = place_scan(&source, at, &m, &buf, &next, eb);
        if (got != SCAN_BATCH)
            break;
        iobuf_drop(&buf);
        asked = (struct reading_place){s->id, at, false};
        if (m.kind != LOG_RECORD_DEAD && d->wals->damaged && s->class == STORE_NATIVE)
            asked.busy = true; /* it may be all that is left of an object */
        else
            rc = readings_ask(d, &asked, 1);
        if (rc == ERR_OK && !asked.busy && m.kind != LOG_RECORD_OPEN) {
            rc = bury(d, s, at, NULL, &dead_range, eb);
            dead += dead_range.span > 0;
            if (rc == ERR_OK)
                rc = punch_holes(d, s, &dead_range, 1, eb);
        }
        at = next;
        rt_yield();
    }
    if (dead > 0)
        LOG(LOG_INFO, "store.swept", "places of dead bodies that a crash had left",
            L_TEXT("disk", rt_dir_path(d->root)), L_U64("segment", s->id),
            L_U64("count", dead));
    return got == SCAN_ERROR ? ERR_IO : rc;
}

/* Walks one segment per round. *more: there was one. */
static enum err
sweep_one(struct puncher *p, bool *more, struct errbuf *eb)
{
    struct store *d = p->disk;

    *more = false;
    for (unsigned c = 0; c < STORE_CLASSES_; c++) {
        LIST_EACH(&d->segments->of_class[c], n)
        {
            struct segment *s = LIST_ENTRY(n, struct segment, owner.of_class);
            struct index_segment seen = {0};
            bool gone = false;
            enum err rc;

            if (s->kind != SEGMENT_BODIES || s->owner.swept || s->doomed ||
                s == d->segments->bodies[c] || s->owner.open_places > 0)
                continue;
            s->owner.swept = *more = true;
            segment_ref(s); /* n itself may have been removed */
            rc = punch_if_empty(d, s, &gone, eb);
            if (rc == ERR_OK && !gone) {
                rc = index_segment(d->index, (enum store_class)c, s->id, &seen, eb);
                if (rc == ERR_NOT_FOUND)
                    rc = ERR_OK;
            }
            if (rc == ERR_OK && !gone &&
                (int64_t)s->owner.counted > seen.living + (int64_t)SWEEP_LEAST)
                rc = sweep(p, s, eb);
            segment_drop(&s);
            return rc;
        }
    }
    return ERR_OK;
}

enum err
puncher_round(struct puncher *p, bool *more, struct errbuf *eb)
{
    enum err rc = try_waiting(p, eb);

    assert(on_owner(p->disk));
    *more = false;
    if (rc == ERR_OK)
        rc = sweep_one(p, more, eb);
    puncher_check(p);
    return rc;
}
