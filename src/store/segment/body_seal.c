/* body_seal: completes a written body: its tail, its sums and the final header, then a sync. */
#include <assert.h>

#include "base/hash.h"
#include "store/core/core.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/segment/body.h"
#include "store/segment/body_internal.h"
#include "store/segment/segment.h"
#include "store/segment/space.h"

static struct log_record
body_sums_record(const struct body *b, uint64_t size, struct span sums,
                 const struct object_meta *meta)
{
    return (struct log_record){.kind = LOG_RECORD_SUMS,
                               .segment = b->segment->id,
                               .generation = b->segment->generation,
                               .epoch = b->disk->epoch,
                               .offset = b->offset + BODY_HEAD + align_up(size, 512),
                               .payload = sums.len,
                               .payload_sum = hash_crc32c(0, sums.at, sums.len),
                               .content = b->head.content,
                               .meta = meta};
}

/* The bytes behind the whole pages of the payload: tail, sums header, sums; then, if the place
 * is larger, a dead record that fills it. It is one write that ends at a multiple of 4 KiB, with
 * or without the filler. */
struct sums_write {
    struct segment *segment; /* borrowed */
    struct iobuf *io;        /* owned */
    uint64_t from, end;      /* without the filler */
    bool filled;
    struct errbuf eb;
    enum err rc;
};

/* Fills the rest of the place from `end` on. */
static void
seal_put_filler(char *to, const struct body *b, uint64_t end)
{
    struct log_record fill = {.kind = LOG_RECORD_DEAD, .span = b->offset + b->span - end};

    assert(end < b->offset + b->span);
    assert((b->offset + b->span - end) % STORE_ALIGN == 0);
    fill.payload = fill.span - BODY_HEAD;
    body_head_put(to, b->segment, end, &fill);
}

static enum err
seal_put_sums(struct sums_write *w, const struct body *b, uint64_t size, struct span tail,
              struct span sums, const struct object_meta *meta, struct errbuf *eb)
{
    struct log_record m = body_sums_record(b, size, sums, meta);
    struct buf head;
    uint64_t len;
    enum err rc;

    w->segment = b->segment;
    w->from = b->offset + BODY_HEAD + size - tail.len; /* a multiple of 4 KiB */
    buf_init(&head, HEAD_MAX);
    log_record_encode(&m, 0, &head);
    w->end = align_up(m.offset + head.len + align_up(sums.len, 512), STORE_ALIGN);
    m.head_len = (uint32_t)(w->end - align_up(sums.len, 512) - m.offset);
    buf_clear(&head);
    log_record_encode(&m, m.head_len, &head);
    len = w->end - w->from;
    assert(w->end <= b->offset + b->span);
    rc = iobuf_get((uint32_t)len + BODY_HEAD, &w->io);
    if (rc == ERR_OK) {
        char *at = w->io->at + (m.offset - w->from);

        memset(w->io->at, 0, len);
        memcpy(w->io->at, tail.at, tail.len);
        memcpy(at, head.at, head.len);
        memcpy(at + head.len, sums.at, sums.len);
        if (w->end < b->offset + b->span)
            seal_put_filler(w->io->at + len, b, w->end);
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
    uint64_t len = w->end - w->from + (w->filled ? BODY_HEAD : 0);

    assert(w->from % STORE_ALIGN == 0);
    assert(w->end % STORE_ALIGN == 0);
    assert(w->from < w->end);
    w->rc =
        rt_write(w->segment->file, w->from, w->io, 0, (uint32_t)len, RT_WRITE, &w->eb);
}

/* True if the metadata fits in the body's own 4 KiB. */
static bool
meta_fits(const struct body *b, const struct object_meta *meta)
{
    struct log_record m = b->head;
    struct buf head;
    bool fits;

    m.kind = LOG_RECORD_BODY;
    m.segment = m.generation = UINT32_MAX;
    m.offset = m.epoch = INT64_MAX; /* the longest possible numbers */
    m.payload = m.span = m.size = BODY_MAX;
    m.meta = meta;
    buf_init(&head, HEAD_MAX);
    log_record_encode(&m, 0, &head);
    fits = !head.full && head.len <= BODY_HEAD;
    buf_fini(&head);
    return fits;
}

struct seal_job {
    struct body *body;
    struct log_record head;
    struct sums_write sums;
    struct errbuf *eb;
    enum err rc;
};

/* Writes sums and final header concurrently: neither is valid before the sync. */
static enum err
write_both(struct seal_job *j)
{
    struct sums_write *sums = &j->sums;
    struct body *b = j->body;
    struct rt_group batch;
    enum err rc;

    rt_group_begin(&batch);
    if (rt_group_start(&batch, write_sums, sums) != ERR_OK)
        write_sums(sums);
    rc = body_head_write(b->segment, b->offset, &j->head, j->eb);
    rt_group_join(&batch);
    if (rc == ERR_OK && sums->rc != ERR_OK) {
        rc = sums->rc;
        if (j->eb != NULL)
            *j->eb = sums->eb;
    }
    return rc;
}

static bool
is_last(const struct body *b)
{
    return b->segment->owner.used == b->offset + b->span;
}

/* Takes the reservation turn if this is the last place, so that none is reserved behind it.
 * *has: it holds the turn. */
static enum err
hold_last(struct body *b, bool *has, struct errbuf *eb)
{
    enum err rc;

    *has = false;
    if (!is_last(b))
        return ERR_OK;
    rc = rt_sem_acquire(&b->disk->segments->reserve, DEADLINE_NEVER);
    if (rc != ERR_OK)
        return err_set(eb, rc, "stopped waiting for the end of the segment");
    *has = is_last(b);
    if (!*has)
        rt_sem_release(&b->disk->segments->reserve);
    return ERR_OK;
}

/* Cuts the last place of its segment to the size of its body. A place with others behind it
 * keeps its span, and a dead record fills the rest. Such places are sealed concurrently. */
static void
seal_shared(void *arg)
{
    struct seal_job *j = arg;
    struct body *b = j->body;
    struct segment *s = b->segment;
    struct rt_shield shield;
    uint64_t cut = b->offset + b->span - j->sums.end;
    unsigned turn;
    bool last = false;

    assert(on_owner(b->disk));
    assert(!b->finished);
    assert(j->sums.end <= b->offset + b->span);
    assert(s->kind == SEGMENT_BODIES);
    rt_shield_begin(&shield);
    j->rc = body_wait_for_headers(s, b->offset + 1, j->eb);
    if (j->rc == ERR_OK)
        j->rc = hold_last(b, &last, j->eb);
    if (j->rc == ERR_OK) {
        j->sums.filled = !last && cut > 0;
        j->head.span = last ? b->span - cut : b->span;
        b->finished = true;
        turn = body_sealing_begin(s);
        j->rc = write_both(j);
        body_sealing_end(s, turn);
        /* for a relocation, once all bodies of its batch are written */
        if (!b->moves)
            b->sync_wanted = s->owner.syncs_begun + 1;
        if (j->rc == ERR_OK && last) {
            s->owner.used -= cut;
            s->owner.counted -= MIN(s->owner.counted, cut);
            atomic_fetch_sub(&b->disk->segments->used_bytes[b->class], cut);
            b->span -= cut;
        }
        if (last)
            rt_sem_release(&b->disk->segments->reserve);
    }
    rt_shield_end(&shield);
}

static enum err
seal_own(struct body *b, struct seal_job *j)
{
    uint64_t size = j->sums.end + STORE_ALIGN;
    enum err rc;

    assert(b->segment->kind == SEGMENT_ONE);
    assert(j->sums.end <= b->offset + b->span);
    assert(b->offset == STORE_ALIGN);
    j->head.span = j->sums.end - b->offset;
    atomic_fetch_sub(&b->disk->segments->used_bytes[b->class], b->span - j->head.span);
    b->span = j->head.span;
    rc = write_both(j);
    if (rc == ERR_OK && size < b->segment->owner.size) {
        rc = rt_truncate(b->segment->file, size, j->eb);
        b->segment->owner.size = size;
    }
    return rc;
}

static enum err
seal_body(struct body *b, struct seal_job *j)
{
    enum err rc;

    if (b->segment->kind == SEGMENT_ONE)
        return seal_own(b, j);
    rc = on_owner_loop(b->disk, seal_shared, j);
    return rc == ERR_OK ? j->rc : rc;
}

enum err
body_seal(struct body *b, uint64_t size, struct span tail, struct span sums,
          const struct object_meta *meta, struct errbuf *eb)
{
    bool fits = meta_fits(b, meta);
    struct seal_job j = {.body = b, .head = b->head, .eb = eb, .rc = ERR_CANCELLED};
    enum err rc = ERR_OK;

    assert(!b->sealed && tail.len < STORE_ALIGN && (size - tail.len) % STORE_ALIGN == 0);
    if (b->growing)
        rc = body_grow(b, size, eb);
    if (rc == ERR_OK)
        rc = seal_put_sums(&j.sums, b, size, tail, sums, fits ? NULL : meta, eb);
    if (rc != ERR_OK)
        return rc;
    j.head.kind = LOG_RECORD_BODY;
    j.head.payload = j.head.size = size;
    j.head.meta = fits ? meta : NULL;
    j.head.meta_behind = !fits;
    rc = seal_body(b, &j);
    iobuf_drop(&j.sums.io);
    if (rc == ERR_OK && !b->moves)
        rc = body_sync(b, eb);
    b->sealed = rc == ERR_OK;
    if (b->sealed)
        space_appended(b->disk->space, b->moves ? SPACE_COMPACTION : SPACE_USER, b->span);
    return rc;
}
