#include "disk/body.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/metrics.h"
#include "disk/block.h"
#include "disk/segment.h"
#include "disk/space.h"
#include "rt/point.h"

#define BODY_BYTES_LEAST MIB(64) /* of a shared segment, while the disk holds little */

uint64_t
body_span(uint64_t size)
{
    return align_up(BODY_HEAD + align_up(size, 512) + SUMS_HEAD_ROOM +
                        align_up(4 * block_count(size), 512),
                    DISK_ALIGN);
}

/* ---- headers in place ---- */

static enum err
head_buffer(struct iobuf **out, struct errbuf *eb)
{
    enum err rc = iobuf_get(BODY_HEAD, out);

    return rc == ERR_OK ? ERR_OK : err_set(eb, rc, "no buffer for the header of a body");
}

/* A header of 4 KiB as it stands at `offset`. */
static void
put_head(struct iobuf *b, const struct segment *s, uint64_t offset, struct member *m)
{
    struct buf head;

    m->segment = s->id;
    m->generation = s->generation;
    m->offset = offset;
    m->epoch = s->disk->epoch;
    buf_init(&head, BODY_HEAD);
    member_encode(m, BODY_HEAD, &head);
    assert(!head.full && head.len == BODY_HEAD);
    memcpy(b->at, head.at, BODY_HEAD);
    buf_fini(&head);
}

/* Writes it, out of a buffer that is dropped. */
static enum err
write_head_from(struct iobuf *b, struct segment *s, uint64_t offset, struct member *m,
                enum rt_class class, struct errbuf *eb)
{
    enum err rc;

    put_head(b, s, offset, m);
    rc = rt_write(s->file, offset, b, 0, BODY_HEAD, class, eb);
    iobuf_drop(&b);
    return rc;
}

static enum err
write_head(struct segment *s, uint64_t offset, struct member *m, struct errbuf *eb)
{
    struct iobuf *b;
    enum err rc = head_buffer(&b, eb);

    return rc == ERR_OK ? write_head_from(b, s, offset, m, RT_WRITE, eb) : rc;
}

enum err
body_bury(struct segment *s, uint64_t offset, const struct content_id *content,
          uint64_t span, enum rt_class class, struct errbuf *eb)
{
    struct member dead = {.kind = MEMBER_DEAD,
                          .content = *content,
                          .span = span,
                          .payload = span - BODY_HEAD};
    struct iobuf *b;
    enum err rc = head_buffer(&b, eb);

    return rc == ERR_OK ? write_head_from(b, s, offset, &dead, class, eb) : rc;
}

/* What a place says of itself until its body is sealed. */
static struct member
open_head(const struct body *b)
{
    struct member m = b->head;

    m.kind = MEMBER_OPEN;
    m.payload = b->span - BODY_HEAD;
    m.span = b->span;
    m.meta = NULL;
    return m;
}

/* ---- reserving: home ---- */

/* A place that was given out and whose header is on its way, written by a fiber of its own: the body comes meanwhile. */
struct opening {
    struct list of_segment;
    struct segment *segment; /* a reference */
    uint64_t offset;
    struct iobuf *header;
};

/* Is the header of a place in [from, end) not there yet? */
static bool
is_opening(const struct segment *s, uint64_t from, uint64_t end)
{
    LIST_EACH(&s->home.openings, n)
    {
        uint64_t at = LIST_ENTRY(n, struct opening, of_segment)->offset;

        if (at >= from && at < end)
            return true;
    }
    return false;
}

/* Several headers are written at once. No body may be acknowledged before all headers in front of it are there, whoever
 * follows the chain from the first place must come to it, and its own: the final one goes over that. */
static enum err
wait_for_headers(struct segment *s, uint64_t before, struct errbuf *eb)
{
    while (is_opening(s, 0, before)) {
        enum err rc = rt_cond_wait(&s->home.opened, DEADLINE_NEVER);

        if (rc != ERR_OK)
            return err_set(eb, rc, "gave up waiting for the places before this one");
    }
    return !s->doomed ? ERR_OK
                      : err_set(eb, ERR_IO, "a write to this segment has failed");
}

static enum err
reserve_own(struct body *b, uint64_t size, struct errbuf *eb)
{
    uint64_t bytes;
    struct iobuf *io;
    struct member open;
    enum err rc = head_buffer(&io, eb);

    if (rc != ERR_OK)
        return rc;
    b->growing = size == DISK_SIZE_UNKNOWN;
    b->span = b->growing ? BODY_STEP - 2 * DISK_ALIGN : body_span(size);
    b->room = b->growing ? 0 : size;
    bytes = DISK_ALIGN + b->span + DISK_ALIGN; /* zeros behind it end the archive */
    rc = segment_make(b->disk, b->class, SEGMENT_ONE, 0, bytes, &b->segment, eb);
    if (rc != ERR_OK) {
        iobuf_drop(&io);
        return rc;
    }
    b->offset = DISK_ALIGN;
    atomic_fetch_add(&b->disk->used_bytes[b->class], b->span);
    open = open_head(b);
    rc = write_head_from(io, b->segment, b->offset, &open, RT_WRITE, eb);
    if (rc == ERR_OK && b->class == DISK_NATIVE)
        rc = rt_dir_sync(b->disk->dir[b->class], eb);
    if (rc != ERR_OK)
        body_give_back(b);
    return rc;
}

/* A segment that takes no more bodies ends behind the last: what is allocated beyond is given back, and a block of zeros,
 * whatever stood there, ends the archive. Where that fails it only stays larger. */
static void
cut_end(struct segment *s)
{
    struct errbuf eb = {0};
    uint64_t end = s->home.used + DISK_ALIGN;
    enum err rc = ERR_OK;

    if (end >= s->home.size)
        return;
    rc = rt_truncate(s->file, s->home.used, &eb);
    if (rc == ERR_OK) {
        s->home.size = s->home.used;
        rc = rt_truncate(s->file, end, &eb);
    }
    if (rc == ERR_OK)
        s->home.size = end;
    else
        LOG(LOG_WARN, "disk.not_cut", "a segment stays larger than what it holds",
            L_U64("segment", s->id), L_TEXT("error", eb.text));
}

/* The shared segment that has room for `span`, with the turn to reserve held. */
static enum err
shared_segment(struct disk *d, enum disk_class class, uint64_t span, struct errbuf *eb)
{
    struct segment *s = d->home.bodies[class], *next;
    enum err rc;

    if (s != NULL && !s->doomed && s->home.used + span + DISK_ALIGN <= s->home.size)
        return ERR_OK;
    rc = segment_make_shared(d, class, SEGMENT_BODIES, 0, BODY_BYTES_LEAST,
                             d->o.segment_bytes, span, &next, eb);
    if (rc != ERR_OK)
        return rc;
    if (s != NULL && !s->doomed)
        cut_end(s);
    segment_drop(&d->home.bodies[class]);
    d->home.bodies[class] = next;
    return ERR_OK;
}

/* The next place of the shared segment, without its header. */
static enum err
take_place(struct body *b, uint64_t size, struct errbuf *eb)
{
    struct disk *d = b->disk;
    enum err rc = rt_sem_take(&d->home.reserve, DEADLINE_NEVER);

    if (rc != ERR_OK)
        return err_set(eb, rc, "gave up waiting for a place");
    b->span = body_span(size);
    b->room = size;
    rc = shared_segment(d, b->class, b->span, eb);
    if (rc == ERR_OK) {
        struct segment *s = d->home.bodies[b->class];

        b->segment = segment_ref(s);
        b->offset = s->home.used;
        s->home.used += b->span;
        s->home.counted += b->span;
        s->home.open_places++;
        atomic_fetch_add(&d->used_bytes[b->class], b->span);
    }
    rt_sem_give(&d->home.reserve);
    return rc;
}

/* A header that may be half there: nothing goes behind it, and nothing that went there is acknowledged. The place stays; the
 * next start finds it. */
static void
write_opening(void *arg)
{
    struct opening *o = arg;
    struct segment *s = o->segment;
    struct errbuf eb = {0};
    struct rt_shield shield;
    enum err rc;

    rt_shield_begin(&shield);
    rc = rt_write(s->file, o->offset, o->header, 0, BODY_HEAD, RT_WRITE, &eb);
    rt_shield_end(&shield);
    if (rc != ERR_OK) {
        s->doomed = true;
        LOG(LOG_WARN, "disk.place_not_opened", "a segment takes no more bodies",
            L_U64("segment", s->id), L_TEXT("error", eb.text));
    }
    list_remove(&o->of_segment);
    rt_cond_broadcast(&s->home.opened);
    iobuf_drop(&o->header);
    segment_drop(&o->segment);
    free(o);
}

static enum err
reserve_shared(struct body *b, uint64_t size, struct errbuf *eb)
{
    struct opening *o;
    struct member open;
    struct iobuf *io;
    enum err rc = head_buffer(&io, eb);

    if (rc != ERR_OK)
        return rc;
    rc = take_place(b, size, eb);
    if (rc != ERR_OK) {
        iobuf_drop(&io);
        return rc;
    }
    open = open_head(b);
    put_head(io, b->segment, b->offset, &open); /* who reserves may be gone sooner */
    o = xmalloc(sizeof *o);
    *o = (struct opening){
        .segment = segment_ref(b->segment), .offset = b->offset, .header = io};
    list_push_back(&b->segment->home.openings, &o->of_segment);
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
reserve_on_home(void *arg)
{
    struct reserve_job *j = arg;

    if (!j->body->disk->home.open)
        j->rc = err_set(j->eb, ERR_CLOSED, "the disk is closing");
    else if (j->size == DISK_SIZE_UNKNOWN || j->size >= BODY_OWN)
        j->rc = reserve_own(j->body, j->size, j->eb);
    else
        j->rc = reserve_shared(j->body, j->size, j->eb);
    if (j->rc == ERR_NO_SPACE && j->size < BODY_OWN)
        space_ran_out(j->body->disk->space, "a segment for bodies does not fit");
}

enum err
body_reserve(struct disk *d, enum disk_class class, const struct member *head,
             uint64_t size, struct body *out, struct errbuf *eb)
{
    struct reserve_job j = {.body = out, .size = size, .eb = eb, .rc = ERR_CANCELLED};
    enum err rc;

    *out = (struct body){.disk = d, .class = class, .head = *head};
    if (atomic_load(&d->failed))
        return err_set(eb, ERR_IO, "the disk has failed");
    rc = on_home(d, reserve_on_home, &j);
    if (rc != ERR_OK)
        return err_set(eb, rc, "no fiber to reserve a place");
    POINT(BODY_RESERVED);
    return j.rc;
}

/* ---- writing ---- */

static enum err
grow(struct body *b, uint64_t payload, struct errbuf *eb)
{
    uint64_t have = DISK_ALIGN + b->span + DISK_ALIGN;
    uint64_t want = align_up(DISK_ALIGN + body_span(payload) + DISK_ALIGN, BODY_STEP);
    enum err rc;

    if (want <= have)
        return ERR_OK;
    rc = space_leaves_reserve(b->disk->space, want - have, eb);
    if (rc == ERR_OK)
        rc = rt_fallocate(b->segment->file, have, want - have, eb);
    if (rc == ERR_NO_SPACE)
        space_ran_out(b->disk->space, "a body of unknown length grew");
    if (rc != ERR_OK)
        return rc;
    atomic_fetch_add(&b->disk->used_bytes[b->class], want - have);
    b->segment->home.size = want; /* its only writer is this one */
    b->span = want - 2 * DISK_ALIGN;
    return ERR_OK;
}

enum err
body_write(struct body *b, uint64_t at, struct iobuf *data, uint32_t len,
           struct errbuf *eb)
{
    enum err rc = ERR_OK;

    assert(at % DISK_ALIGN == 0 && len % DISK_ALIGN == 0);
    if (at + len > BODY_MAX)
        return err_set(eb, ERR_TOO_LARGE, "a body of more than %" PRIu64 " bytes",
                       BODY_MAX);
    if (b->growing)
        rc = grow(b, at + len, eb);
    if (rc == ERR_OK)
        rc = rt_write(b->segment->file, b->offset + BODY_HEAD + at, data, 0, len,
                      b->moves ? RT_BACKGROUND : RT_WRITE, eb);
    if (rc == ERR_OK)
        metric_add(M_DISK_IO_BYTES, 1, len);
    POINT(BODY_WRITTEN);
    return rc;
}

/* ---- sealing ---- */

static struct member
sums_member(const struct body *b, uint64_t size, struct span sums,
            const struct object_meta *meta)
{
    return (struct member){.kind = MEMBER_SUMS,
                           .segment = b->segment->id,
                           .generation = b->segment->generation,
                           .epoch = b->disk->epoch,
                           .offset = b->offset + BODY_HEAD + align_up(size, 512),
                           .payload = sums.len,
                           .payload_sum = hash_crc32c(0, sums.at, sums.len),
                           .content = b->head.content,
                           .meta = meta};
}

/* Behind the whole pages of the payload: its tail, sums header, sums. One write that ends at a multiple of 4 KiB, the
 * place's end. */
struct sums_write {
    const struct body *body;
    struct iobuf *io; /* owned */
    uint64_t from, end;
    struct errbuf eb;
    enum err rc;
};

static enum err
put_sums(struct sums_write *w, uint64_t size, struct span tail, struct span sums,
         const struct object_meta *meta, struct errbuf *eb)
{
    const struct body *b = w->body;
    struct member m = sums_member(b, size, sums, meta);
    struct buf head;
    uint64_t len;
    enum err rc;

    w->from = b->offset + BODY_HEAD + size - tail.len; /* a multiple of 4 KiB */
    buf_init(&head, HEAD_MAX);
    member_encode(&m, 0, &head);
    w->end = align_up(m.offset + head.len + align_up(sums.len, 512), DISK_ALIGN);
    m.head_len = (uint32_t)(w->end - align_up(sums.len, 512) - m.offset);
    buf_clear(&head);
    member_encode(&m, m.head_len, &head);
    len = w->end - w->from;
    rc = iobuf_get((uint32_t)len, &w->io);
    if (rc == ERR_OK) {
        char *at = w->io->at + (m.offset - w->from);

        memset(w->io->at, 0, len);
        memcpy(w->io->at, tail.at, tail.len);
        memcpy(at, head.at, head.len);
        memcpy(at + head.len, sums.at, sums.len);
    } else {
        rc = err_set(eb, rc, "no buffer for the sums of a body");
    }
    buf_fini(&head);
    return rc;
}

static void
write_sums(void *arg)
{
    struct sums_write *w = arg;

    w->rc = rt_write(w->body->segment->file, w->from, w->io, 0,
                     (uint32_t)(w->end - w->from), RT_WRITE, &w->eb);
}

/* Does the metadata fit in the body's own 4 KiB? */
static bool
meta_fits(const struct body *b, const struct object_meta *meta)
{
    struct member m = b->head;
    struct buf head;
    bool fits;

    m.kind = MEMBER_BODY;
    m.segment = m.generation = UINT32_MAX;
    m.offset = m.epoch = INT64_MAX; /* the longest numbers there can be */
    m.payload = m.span = m.size = BODY_MAX;
    m.meta = meta;
    buf_init(&head, HEAD_MAX);
    member_encode(&m, 0, &head);
    fits = !head.full && head.len <= BODY_HEAD;
    buf_fini(&head);
    return fits;
}

struct seal_job {
    struct body *body;
    struct member head;
    uint64_t end;
    struct errbuf *eb;
    enum err rc;
};

/* The final header of a shared place. The last one of its segment is cut to what it takes; one that has others
 * behind it keeps its span, the rest is a dead member. */
static void
seal_shared(void *arg)
{
    struct seal_job *j = arg;
    struct body *b = j->body;
    struct segment *s = b->segment;
    struct rt_shield shield;

    rt_shield_begin(&shield);
    j->rc = wait_for_headers(s, b->offset + 1, j->eb);
    if (j->rc == ERR_OK)
        j->rc = rt_sem_take(&b->disk->home.reserve, DEADLINE_NEVER);
    if (j->rc == ERR_OK) {
        bool is_last = s->home.used == b->offset + b->span;

        if (!is_last && j->end < b->offset + b->span) {
            struct member fill = {.kind = MEMBER_DEAD,
                                  .span = b->offset + b->span - j->end};

            fill.payload = fill.span - BODY_HEAD;
            j->rc = write_head(s, j->end, &fill, j->eb);
        }
        j->head.span = is_last ? j->end - b->offset : b->span;
        b->finished = true;
        if (j->rc == ERR_OK)
            j->rc = write_head(s, b->offset, &j->head, j->eb);
        if (j->rc == ERR_OK && is_last)
            s->home.used = j->end;
        if (j->rc == ERR_OK) {
            atomic_fetch_sub(&b->disk->used_bytes[b->class], b->span - j->head.span);
            s->home.counted -= MIN(s->home.counted, b->span - j->head.span);
            b->span = j->head.span;
        }
        rt_sem_give(&b->disk->home.reserve);
    }
    rt_shield_end(&shield);
}

static enum err
seal_own(struct body *b, struct seal_job *j)
{
    uint64_t size = j->end + DISK_ALIGN;
    enum err rc;

    j->head.span = j->end - b->offset;
    atomic_fetch_sub(&b->disk->used_bytes[b->class], b->span - j->head.span);
    b->span = j->head.span;
    rc = write_head(b->segment, b->offset, &j->head, j->eb);
    if (rc == ERR_OK && size < b->segment->home.size) {
        rc = rt_truncate(b->segment->file, size, j->eb);
        b->segment->home.size = size;
    }
    return rc;
}

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

struct sync_job {
    struct segment *segment;
    struct errbuf *eb;
    enum err rc;
};

/* Bodies of a segment that were sealed while it was synced wait for the next sync and share it. */
static void
sync_together(void *arg)
{
    struct sync_job *j = arg;
    struct segment *s = j->segment;
    uint64_t mine =
        s->home.syncs_begun + 1; /* one that has begun may miss what is ours */
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
    struct sync_job j = {.segment = b->segment, .eb = eb, .rc = ERR_CANCELLED};
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

static enum err
write_final_head(struct body *b, struct seal_job *j)
{
    enum err rc;

    if (b->segment->kind == SEGMENT_ONE)
        return seal_own(b, j);
    rc = on_home(b->disk, seal_shared, j);
    return rc == ERR_OK ? j->rc : rc;
}

/* The sums go beside the header: neither says anything before the sync. */
static enum err
write_both(struct body *b, struct sums_write *sums, struct seal_job *j, struct errbuf *eb)
{
    struct rt_group group;
    enum err rc;

    rt_group_begin(&group);
    if (rt_group_start(&group, write_sums, sums) != ERR_OK)
        write_sums(sums);
    rc = write_final_head(b, j);
    rt_group_join(&group);
    if (rc == ERR_OK && sums->rc != ERR_OK) {
        rc = sums->rc;
        if (eb != NULL)
            *eb = sums->eb;
    }
    return rc;
}

enum err
body_seal(struct body *b, uint64_t size, struct span tail, struct span sums,
          const struct object_meta *meta, struct errbuf *eb)
{
    bool fits = meta_fits(b, meta);
    struct sums_write w = {.body = b, .rc = ERR_CANCELLED};
    struct seal_job j = {.body = b, .head = b->head, .eb = eb, .rc = ERR_CANCELLED};
    enum err rc = ERR_OK;

    assert(!b->sealed && tail.len < DISK_ALIGN && (size - tail.len) % DISK_ALIGN == 0);
    if (b->growing)
        rc = grow(b, size, eb);
    if (rc == ERR_OK)
        rc = put_sums(&w, size, tail, sums, fits ? NULL : meta, eb);
    if (rc != ERR_OK)
        return rc;
    assert(w.end <= b->offset + b->span);
    j.end = w.end;
    j.head.kind = MEMBER_BODY;
    j.head.payload = j.head.size = size;
    j.head.meta = fits ? meta : NULL;
    j.head.meta_behind = !fits;
    rc = write_both(b, &w, &j, eb);
    iobuf_drop(&w.io);
    if (rc == ERR_OK && !b->moves)
        rc = body_sync(b, eb);
    b->sealed = rc == ERR_OK;
    if (b->sealed)
        space_appended(b->disk->space, b->moves ? SPACE_COMPACTION : SPACE_USER, b->span);
    return rc;
}

struct place
body_place(const struct body *b)
{
    return (struct place){.segment = b->segment->id,
                          .generation = b->segment->generation,
                          .offset = b->offset,
                          .span = b->span};
}

/* ---- the end ---- */

static void
close_place(void *arg)
{
    struct segment *s = arg;

    s->home.open_places--;
}

void
body_keep(struct body *b)
{
    if (b->segment == NULL)
        return;
    if (b->segment->kind == SEGMENT_BODIES &&
        on_home(b->disk, close_place, b->segment) != ERR_OK)
        LOG0(LOG_DEBUG, "disk.place_open", "a place stays counted as open");
    segment_drop(&b->segment);
}

void
body_leave(struct body *b)
{
    segment_drop(&b->segment);
}

/* The last place of a segment is given out again. A finished body that was refused (its condition did not hold) is buried
 * there too: were the logs lost before something comes over it, rebuild --from-bodies would take it for the newest write of
 * its key. */
static void
give_back_shared(void *arg)
{
    struct body *b = arg;
    struct segment *s = b->segment;
    struct errbuf eb = {0};
    bool is_last;
    enum err rc = ERR_OK;

    while (rc == ERR_OK &&
           is_opening(s, b->offset,
                      b->offset + 1)) /* nothing may come after what is written now */
        rc = rt_cond_wait(&s->home.opened, DEADLINE_NEVER);
    if (rc == ERR_OK)
        rc = rt_sem_take(&b->disk->home.reserve, DEADLINE_NEVER);
    if (rc != ERR_OK)
        return; /* the place stays; the next start finds it */
    s->home.open_places--;
    is_last = s->home.used == b->offset + b->span;
    if (!is_last || b->finished)
        rc = body_bury(s, b->offset, &b->head.content, b->span, RT_WRITE, &eb);
    if (is_last && rc == ERR_OK) {
        s->home.used = b->offset;
        s->home.counted -= MIN(s->home.counted, b->span);
        atomic_fetch_sub(&b->disk->used_bytes[b->class], b->span);
    }
    rt_sem_give(&b->disk->home.reserve);
    if (rc != ERR_OK)
        LOG(LOG_WARN, "disk.give_back_failed",
            "a place without a body stays until the next start",
            L_TEXT("error", eb.text));
}

static void
give_back_own(void *arg)
{
    struct body *b = arg;
    char name[SEGMENT_NAME_ROOM];

    segment_name(SEGMENT_ONE, b->segment->id, name);
    segment_discard(b->disk, b->class, name);
    atomic_fetch_sub(&b->disk->used_bytes[b->class], b->span);
}

void
body_give_back(struct body *b)
{
    struct rt_shield shield;
    enum err rc;

    if (b->segment == NULL)
        return;
    rt_shield_begin(&shield);
    rc = on_home(b->disk,
                 b->segment->kind == SEGMENT_ONE ? give_back_own : give_back_shared, b);
    if (rc != ERR_OK)
        LOG0(LOG_WARN, "disk.give_back_failed",
             "no fiber to give a place back; the next start does");
    rt_shield_end(&shield);
    segment_drop(&b->segment);
}
