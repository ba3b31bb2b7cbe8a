/* body_reserve: reserves the place of a body. Shared segments hand out one place after the
 * other, serialized by owner.reserve; a large body has a segment of its own. */
#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "rt/point.h"
#include "store/core/core.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/segment/body.h"
#include "store/segment/body_internal.h"
#include "store/segment/segment.h"
#include "store/segment/space.h"
#include "store/store_entry.h"

#define BODY_BYTES_LEAST MIB(64) /* of a shared segment, while the disk holds little */

/* The header of a place until its body is sealed. */
static struct log_record
open_head(const struct body *b)
{
    struct log_record m = b->head;

    m.kind = LOG_RECORD_OPEN;
    m.payload = b->span - BODY_HEAD;
    m.span = b->span;
    m.meta = NULL;
    return m;
}

/* A reserved place whose header a separate fiber is writing, while the body arrives. */
struct opening {
    struct list of_segment;
    struct segment *segment; /* a reference */
    uint64_t offset;
    struct iobuf *header;
};

/* True if a place in [from, end) has no header yet. */
bool
body_is_opening(const struct segment *s, uint64_t from, uint64_t end)
{
    assert(from <= end);
    LIST_EACH(&s->owner.openings, n)
    {
        uint64_t at = LIST_ENTRY(n, struct opening, of_segment)->offset;

        if (at >= from && at < end)
            return true;
    }
    return false;
}

/* Waits for the headers before a place. Several headers are written at once. Before a body is
 * acknowledged, a scan along the chain from the first place must be able to reach it. So all
 * headers in front must be on disk, and its own first header, which the final one overwrites. */
enum err
body_wait_for_headers(struct segment *s, uint64_t before, struct errbuf *eb)
{
    while (body_is_opening(s, 0, before)) {
        enum err rc = rt_cond_wait(&s->owner.opened, DEADLINE_NEVER);

        if (rc != ERR_OK)
            return err_set(eb, rc, "stopped waiting for the places before this one");
    }
    return !s->doomed ? ERR_OK
                      : err_set(eb, ERR_IO, "a write to this segment has failed");
}

static enum err
reserve_own(struct body *b, uint64_t size, struct errbuf *eb)
{
    uint64_t bytes;
    struct iobuf *io;
    struct log_record open;
    enum err rc = body_head_buffer(&io, eb);

    assert(on_owner(b->disk));
    assert(b->segment == NULL);
    if (rc != ERR_OK)
        return rc;
    b->growing = size == STORE_SIZE_UNKNOWN;
    b->span = b->growing ? BODY_STEP - 2 * STORE_ALIGN : body_span(size);
    b->room = b->growing ? 0 : size;
    bytes = STORE_ALIGN + b->span + STORE_ALIGN; /* zeros behind it end the archive */
    rc = segment_make(b->disk, b->class, SEGMENT_ONE, 0, bytes, &b->segment, eb);
    if (rc != ERR_OK) {
        iobuf_drop(&io);
        return rc;
    }
    b->offset = STORE_ALIGN;
    atomic_fetch_add(&b->disk->segments->used_bytes[b->class], b->span);
    open = open_head(b);
    rc = body_head_write_from(io, b->segment, b->offset, &open, RT_WRITE, eb);
    if (rc == ERR_OK && b->class == STORE_NATIVE)
        rc = rt_dir_sync(b->disk->dir[b->class], eb);
    if (rc != ERR_OK)
        body_release(b);
    return rc;
}

/* Ends a segment that accepts no more bodies behind the last one: releases the rest of the
 * allocation, and writes a block of zeros, which ends the archive. A failure only leaves the
 * file larger. */
static void
cut_end(struct segment *s)
{
    struct errbuf eb = {0};
    uint64_t end = s->owner.used + STORE_ALIGN;
    enum err rc = ERR_OK;

    assert(s->kind == SEGMENT_BODIES);
    assert(s->owner.used + STORE_ALIGN <= s->owner.size || s->doomed ||
           s->owner.used <= s->owner.size);
    if (end >= s->owner.size)
        return;
    rc = rt_truncate(s->file, s->owner.used, &eb);
    if (rc == ERR_OK) {
        s->owner.size = s->owner.used;
        rc = rt_truncate(s->file, end, &eb);
    }
    if (rc == ERR_OK)
        s->owner.size = end;
    else
        LOG(LOG_WARN, "store.truncate_failed",
            "a segment stays larger than what it holds", L_U64("segment", s->id),
            L_TEXT("error", eb.text));
}

/* Finds the shared segment with room for `span`, holding its reservation turn. */
static enum err
shared_segment(struct store *d, enum store_class class, uint64_t span, struct errbuf *eb)
{
    struct segment *s = d->segments->bodies[class], *next;
    enum err rc;

    assert(on_owner(d));
    assert(span % STORE_ALIGN == 0);
    if (s != NULL && !s->doomed && s->owner.used + span + STORE_ALIGN <= s->owner.size)
        return ERR_OK;
    rc = segment_make_shared(d, class, SEGMENT_BODIES, 0, BODY_BYTES_LEAST,
                             d->o.segment_bytes, span, &next, eb);
    if (rc != ERR_OK)
        return rc;
    if (s != NULL && !s->doomed)
        cut_end(s);
    segment_drop(&d->segments->bodies[class]);
    d->segments->bodies[class] = next;
    return ERR_OK;
}

/* Reserves the next place of the shared segment, without its header. */
static enum err
reserve_take_place(struct body *b, uint64_t size, struct errbuf *eb)
{
    struct store *d = b->disk;
    enum err rc = rt_sem_acquire(&d->segments->reserve, DEADLINE_NEVER);

    assert(size < BODY_OWN);
    assert(b->segment == NULL);
    if (rc != ERR_OK)
        return err_set(eb, rc, "stopped waiting for a place");
    b->span = body_span(size);
    b->room = size;
    rc = shared_segment(d, b->class, b->span, eb);
    if (rc == ERR_OK) {
        struct segment *s = d->segments->bodies[b->class];

        b->segment = segment_ref(s);
        b->offset = s->owner.used;
        s->owner.used += b->span;
        s->owner.counted += b->span;
        s->owner.open_places++;
        atomic_fetch_add(&d->segments->used_bytes[b->class], b->span);
    }
    rt_sem_release(&d->segments->reserve);
    return rc;
}

/* Handles a header that may be half written: nothing more is placed behind it, and nothing
 * placed there is acknowledged. The place stays; the next start finds it. */
static void
write_opening(void *arg)
{
    struct opening *o = arg;
    struct segment *s = o->segment;
    struct errbuf eb = {0};
    struct rt_shield shield;
    enum err rc;

    assert(s->kind == SEGMENT_BODIES);
    assert(o->offset + BODY_HEAD <= s->owner.used || s->doomed);
    rt_shield_begin(&shield);
    rc = rt_write(s->file, o->offset, o->header, 0, BODY_HEAD, RT_WRITE, &eb);
    rt_shield_end(&shield);
    if (rc != ERR_OK) {
        s->doomed = true;
        LOG(LOG_WARN, "store.place_not_opened", "a segment takes no more bodies",
            L_U64("segment", s->id), L_TEXT("error", eb.text));
    }
    list_remove(&o->of_segment);
    rt_cond_broadcast(&s->owner.opened);
    iobuf_drop(&o->header);
    segment_drop(&o->segment);
    free(o);
}

static enum err
reserve_shared(struct body *b, uint64_t size, struct errbuf *eb)
{
    struct opening *o;
    struct log_record open;
    struct iobuf *io;
    enum err rc = body_head_buffer(&io, eb);

    if (rc != ERR_OK)
        return rc;
    rc = reserve_take_place(b, size, eb);
    if (rc != ERR_OK) {
        iobuf_drop(&io);
        return rc;
    }
    open = open_head(b);
    body_head_put(io->at, b->segment, b->offset,
                  &open); /* the reserving fiber may end sooner */
    o = xmalloc(sizeof *o);
    *o = (struct opening){
        .segment = segment_ref(b->segment), .offset = b->offset, .header = io};
    list_push_back(&b->segment->owner.openings, &o->of_segment);
    if (rt_spawn(write_opening, o) != ERR_OK)
        write_opening(o);
    return ERR_OK;
}

struct reserve_job {
    struct body *body;
    uint64_t size;
    struct errbuf *eb;
    enum err rc;
};

static void
reserve_on_owner(void *arg)
{
    struct reserve_job *j = arg;

    if (!j->body->disk->open)
        j->rc = err_set(j->eb, ERR_CLOSED, "the disk is closing");
    else if (j->size == STORE_SIZE_UNKNOWN || j->size >= BODY_OWN)
        j->rc = reserve_own(j->body, j->size, j->eb);
    else
        j->rc = reserve_shared(j->body, j->size, j->eb);
    if (j->rc == ERR_NO_SPACE && j->size < BODY_OWN)
        space_ran_out(j->body->disk->space, "a segment for bodies does not fit");
}

enum err
body_reserve(struct store *d, enum store_class class, const struct log_record *head,
             uint64_t size, struct body *out, struct errbuf *eb)
{
    struct reserve_job j = {.body = out, .size = size, .eb = eb, .rc = ERR_CANCELLED};
    enum err rc;

    assert(class < STORE_CLASSES_);
    assert(size == STORE_SIZE_UNKNOWN || size <= BODY_MAX);
    *out = (struct body){.disk = d, .class = class, .head = *head};
    if (atomic_load(&d->failed))
        return err_set(eb, ERR_IO, "the disk has failed");
    rc = on_owner_loop(d, reserve_on_owner, &j);
    if (rc != ERR_OK)
        return err_set(eb, rc, "no fiber to reserve a place");
    POINT(BODY_RESERVED);
    return j.rc;
}
