#include "store/segment/body.h"

#include <assert.h>
#include <inttypes.h>

#include "base/log.h"
#include "base/metrics.h"
#include "rt/point.h"
#include "store/core/core.h"
#include "store/record/block.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/segment/body_internal.h"
#include "store/segment/segment.h"
#include "store/segment/space.h"

uint64_t
body_span(uint64_t size)
{
    assert(size <= BODY_MAX);
    return align_up(BODY_HEAD + align_up(size, 512) + SUMS_HEAD_ROOM +
                        align_up(4 * block_count(size), 512),
                    STORE_ALIGN);
}

/* Asserts the invariants of a body that has a place. */
static void
body_check(const struct body *b)
{
    assert(b->disk != NULL && b->segment != NULL);
    assert(b->segment->kind != SEGMENT_LOG);
    assert(b->segment->class == b->class);
    assert(b->offset % STORE_ALIGN == 0 && b->offset >= STORE_ALIGN);
    assert(b->span % STORE_ALIGN == 0 && b->span > BODY_HEAD);
    assert(!b->growing || b->segment->kind == SEGMENT_ONE);
    assert(!b->sealed || b->finished || b->segment->kind == SEGMENT_ONE);
}

struct place
body_place(const struct body *b)
{
    assert(b->segment != NULL);
    assert(b->span > 0);
    return (struct place){.segment = b->segment->id,
                          .generation = b->segment->generation,
                          .offset = b->offset,
                          .span = b->span};
}

/* ---- headers in place ---- */

enum err
body_head_buffer(struct iobuf **out, struct errbuf *eb)
{
    enum err rc = iobuf_get(BODY_HEAD, out);

    return rc == ERR_OK ? ERR_OK : err_set(eb, rc, "no buffer for the header of a body");
}

/* Encodes a header of 4 KiB for the place at `offset`. */
void
body_head_put(char *to, const struct segment *s, uint64_t offset, struct log_record *m)
{
    struct buf head;

    assert(offset % STORE_ALIGN == 0);
    assert(offset >= STORE_ALIGN);
    m->segment = s->id;
    m->generation = s->generation;
    m->offset = offset;
    m->epoch = s->disk->epoch;
    buf_init(&head, BODY_HEAD);
    log_record_encode(m, BODY_HEAD, &head);
    assert(!head.full && head.len == BODY_HEAD);
    memcpy(to, head.at, BODY_HEAD);
    buf_fini(&head);
}

/* Writes it from a buffer, which it drops. */
enum err
body_head_write_from(struct iobuf *b, struct segment *s, uint64_t offset,
                     struct log_record *m, enum rt_class class, struct errbuf *eb)
{
    enum err rc;

    assert(b->room >= BODY_HEAD);
    assert(s->kind != SEGMENT_LOG);
    body_head_put(b->at, s, offset, m);
    rc = rt_write(s->file, offset, b, 0, BODY_HEAD, class, eb);
    iobuf_drop(&b);
    return rc;
}

enum err
body_head_write(struct segment *s, uint64_t offset, struct log_record *m,
                struct errbuf *eb)
{
    struct iobuf *b;
    enum err rc = body_head_buffer(&b, eb);

    return rc == ERR_OK ? body_head_write_from(b, s, offset, m, RT_WRITE, eb) : rc;
}

enum err
body_mark_dead(struct segment *s, uint64_t offset, const struct content_id *content,
               uint64_t span, enum rt_class class, struct errbuf *eb)
{
    struct log_record dead = {.kind = LOG_RECORD_DEAD,
                              .content = *content,
                              .span = span,
                              .payload = span - BODY_HEAD};
    struct iobuf *b;
    enum err rc = body_head_buffer(&b, eb);

    assert(span > BODY_HEAD);
    assert(span % STORE_ALIGN == 0);
    return rc == ERR_OK ? body_head_write_from(b, s, offset, &dead, class, eb) : rc;
}

/* ---- writing ---- */

enum err
body_grow(struct body *b, uint64_t payload, struct errbuf *eb)
{
    uint64_t have = STORE_ALIGN + b->span + STORE_ALIGN;
    uint64_t want = align_up(STORE_ALIGN + body_span(payload) + STORE_ALIGN, BODY_STEP);
    enum err rc;

    assert(b->growing);
    assert(b->segment->kind == SEGMENT_ONE);
    if (want <= have)
        return ERR_OK;
    rc = space_leaves_reserve(b->disk->space, want - have, eb);
    if (rc == ERR_OK)
        rc = rt_fallocate(b->segment->file, have, want - have, eb);
    if (rc == ERR_NO_SPACE)
        space_ran_out(b->disk->space, "a body of unknown length grew");
    if (rc != ERR_OK)
        return rc;
    atomic_fetch_add(&b->disk->segments->used_bytes[b->class], want - have);
    b->segment->owner.size = want; /* it has no other writer */
    b->span = want - 2 * STORE_ALIGN;
    return ERR_OK;
}

enum err
body_write(struct body *b, uint64_t at, struct iobuf *data, uint32_t from, uint32_t len,
           struct errbuf *eb)
{
    enum err rc = ERR_OK;

    body_check(b);
    assert(at % STORE_ALIGN == 0 && len % STORE_ALIGN == 0);
    assert(len > 0 && from + len <= data->room);
    assert(!b->sealed);
    if (at + len > BODY_MAX)
        return err_set(eb, ERR_TOO_LARGE, "a body of more than %" PRIu64 " bytes",
                       BODY_MAX);
    if (b->growing)
        rc = body_grow(b, at + len, eb);
    if (rc == ERR_OK)
        rc = rt_write(b->segment->file, b->offset + BODY_HEAD + at, data, from, len,
                      b->moves ? RT_BACKGROUND : RT_BODY, eb);
    if (rc == ERR_OK)
        metric_add(M_DISK_IO_BYTES, 1, len);
    POINT(BODY_WRITTEN);
    return rc;
}

/* ---- the end, with the place kept ---- */

static void
close_place(void *arg)
{
    struct segment *s = arg;

    assert(s->kind == SEGMENT_BODIES);
    assert(s->owner.open_places > 0);
    s->owner.open_places--;
}

void
body_keep(struct body *b)
{
    if (b->segment == NULL)
        return;
    if (b->segment->kind == SEGMENT_BODIES &&
        on_owner_loop(b->disk, close_place, b->segment) != ERR_OK)
        LOG0(LOG_DEBUG, "store.place_open", "a place stays counted as open");
    segment_drop(&b->segment);
}

void
body_leave(struct body *b)
{
    segment_drop(&b->segment);
}
