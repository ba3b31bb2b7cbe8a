/* The writers of store_write.h. A body stays in memory while it is small; otherwise it goes to
 * its place in a body segment. */
#include "store/ops/writer.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "store/core/core.h"
#include "store/health/health.h"
#include "store/record/block.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/segment/body.h"
#include "store/segment/read.h"
#include "store/segment/segment.h"
#include "store/segment/space.h"
#include "store/store_entry.h"
#include "store/store_upload.h"
#include "store/wal/commit.h"

#define WRITE_PIECE (1u << 20) /* bytes per write to a body segment */
/* Minimum of an early write, before the buffer is full. */
#define EARLY_LEAST (256u << 10)

/* The fiber of a writer that writes the available part of a buffer while the rest arrives. */
struct early {
    struct rt_waiter *waits; /* the fiber that waits for it, or NULL */
    bool runs;
    bool given_up; /* the body is aborted: write no further piece */
    enum err rc;
    struct errbuf eb;
};

struct store_writer {
    /* Set at creation. */
    struct store *disk;
    enum store_class class;
    unsigned loop;
    uint64_t size; /* announced, or STORE_SIZE_UNKNOWN */
    struct store_key key;
    struct content_id content;
    uint32_t seed;
    struct upload_id upload;
    uint32_t part; /* 0: an object */

    /* On its own loop. */
    /* Bytes not yet on the disk. A small body's buffer is taken with its first bytes, because
     * they may be the caller's (zero-copy). */
    struct iobuf *buf;
    const char *
        zero_copy; /* store_write_zero_copy(): there is no `buf`; `buf_len` bytes are here */
    char small_sums[4 * (STORE_INLINE_MAX / BLOCK_BYTES)]; /* of a body in the log */
    uint64_t buf_at;                                       /* its offset in the body */
    uint32_t buf_len;
    uint32_t buf_summed; /* this many of its bytes are summed; whole blocks */
    /* This many of its bytes, whole pages, are written or being written. */
    uint32_t gone;
    struct early *early; /* owned; NULL until the first early write */
    struct body body;    /* body.segment NULL: small so far */
    struct buf sums;     /* sums of what is on the disk, be32 each */
    bool broken;         /* a write failed: the writer can only be aborted */

    char names[]; /* immutable name and key */
};

/* Asserts the invariants of a writer that hold between two calls, on its loop. */
static void
writer_check(const struct store_writer *w)
{
    assert(w->loop == rt_loop_index());
    assert(w->class < STORE_CLASSES_);
    assert(w->buf == NULL || w->zero_copy == NULL);
    assert(w->buf != NULL || w->zero_copy != NULL || w->buf_len == 0);
    assert(w->buf == NULL || w->buf_len <= w->buf->room);
    assert(w->buf_summed <= w->buf_len || w->zero_copy != NULL);
    assert(w->buf_summed % BLOCK_BYTES == 0 || w->buf_summed == w->buf_len);
    assert(w->gone <= w->buf_len);
    assert(w->gone % STORE_ALIGN == 0 || w->gone == w->buf_len);
    assert(w->buf_at == 0 || w->body.segment != NULL);
    assert(w->sums.len >= 4 * (w->buf_at / BLOCK_BYTES));
    assert(w->size == STORE_SIZE_UNKNOWN || w->buf_at + w->buf_len <= w->size);
    assert(w->size != STORE_SIZE_UNKNOWN || w->buf_at + w->buf_len <= BODY_MAX);
}

static struct log_record
writer_head_of(const struct store_writer *w)
{
    return (struct log_record){.bucket = w->key.bucket,
                               .immutable_name = w->key.immutable_name,
                               .key = w->key.key,
                               .content = w->content,
                               .upload = w->upload,
                               .part = w->part};
}

static enum err
writer_reserve(struct store_writer *w, struct errbuf *eb)
{
    struct log_record head = writer_head_of(w);

    return body_reserve(w->disk, w->class, &head, w->size, &w->body, eb);
}

static enum err
get_buffer(struct store_writer *w, struct errbuf *eb)
{
    uint64_t room = w->size <= STORE_INLINE_MAX     ? MAX(w->size, 1u)
                    : w->size == STORE_SIZE_UNKNOWN ? STORE_INLINE_MAX
                                                    : WRITE_PIECE;
    enum err rc = iobuf_get((uint32_t)room, &w->buf);

    return rc == ERR_OK ? rc : err_set(eb, rc, "no buffer to write a body");
}

/* Takes a buffer for the body. A small body may be zero-copy, so its buffer is taken once it
 * turns out not to be. A body without a buffer is rejected before the client sends it. */
static enum err
begin_buffer(struct store_writer *w, struct errbuf *eb)
{
    if (w->size == 0 || w->size > STORE_INLINE_MAX)
        return get_buffer(w, eb);
    if (iobuf_left() < w->size)
        return err_set(eb, ERR_BUSY, "no buffer to write a body");
    return ERR_OK;
}

static void
free_writer(struct store_writer *w)
{
    assert(w->early == NULL || !w->early->runs);
    free(w->early);
    iobuf_drop(&w->buf);
    buf_fini(&w->sums);
    free(w);
}

enum err
writer_begin_as(struct store *d, const struct store_key *k, enum store_class class,
                uint64_t size, const struct content_id *content,
                const struct upload_id *upload, uint32_t part, struct store_writer **out,
                struct errbuf *eb)
{
    struct store_writer *w;
    enum err rc;

    assert(class < STORE_CLASSES_);
    assert(part <= PART_MAX);
    assert((part == 0) == (upload == NULL));
    *out = NULL;
    if (size != STORE_SIZE_UNKNOWN && size > BODY_MAX)
        return err_set(eb, ERR_TOO_LARGE, "a body of %" PRIu64 " bytes, at most %" PRIu64,
                       size, BODY_MAX);
    if (k->key.len == 0 || k->key.len > STORE_KEY_MAX)
        return err_set(eb, ERR_BAD_REQUEST, "a key of %zu bytes, 1 to %u are allowed",
                       k->key.len, STORE_KEY_MAX);
    if (atomic_load(&d->failed))
        return err_set(eb, ERR_IO, "the disk has failed");
    if (health_may_write(d->health, eb) != ERR_OK)
        return ERR_IO;
    rc = space_admit(d->space, size, eb);
    if (rc != ERR_OK)
        return rc;
    w = xcalloc(1, sizeof *w + k->immutable_name.len + k->key.len);
    w->disk = d;
    w->class = class;
    w->loop = rt_loop_index();
    w->size = size;
    if (k->immutable_name.len > 0)
        memcpy(w->names, k->immutable_name.at, k->immutable_name.len);
    memcpy(w->names + k->immutable_name.len, k->key.at, k->key.len);
    w->key = (struct store_key){.bucket = k->bucket,
                                .immutable_name = {w->names, k->immutable_name.len},
                                .key = {w->names + k->immutable_name.len, k->key.len}};
    w->content = content != NULL ? *content : content_mint(d);
    w->seed = block_seed(d->cluster_sum, &w->content, 0);
    if (upload != NULL)
        w->upload = *upload;
    w->part = part;
    buf_init(&w->sums, 4 * block_count(BODY_MAX) + 4);
    rc = begin_buffer(w, eb);
    if (rc == ERR_OK && size > STORE_INLINE_MAX && size != STORE_SIZE_UNKNOWN)
        rc = writer_reserve(w, eb);
    if (rc != ERR_OK) {
        free_writer(w);
        return rc;
    }
    *out = w;
    return ERR_OK;
}

enum err
writer_begin(struct store *d, const struct store_key *k, enum store_class class,
             uint64_t size, const struct upload_id *upload, uint32_t part,
             struct store_writer **out, struct errbuf *eb)
{
    return writer_begin_as(d, k, class, size, NULL, upload, part, out, eb);
}

enum err
store_write_begin(struct store *d, const struct store_key *k, enum store_class class,
                  uint64_t size, struct store_writer **out, struct errbuf *eb)
{
    return writer_begin(d, k, class, size, NULL, 0, out, eb);
}

enum err
store_write_begin_as(struct store *d, const struct store_key *k, uint64_t size,
                     const struct content_id *content, struct store_writer **out,
                     struct errbuf *eb)
{
    return writer_begin_as(d, k, STORE_NATIVE, size, content, NULL, 0, out, eb);
}

const struct content_id *
store_writer_content(const struct store_writer *w)
{
    return &w->content;
}

uint64_t
store_written(const struct store_writer *w)
{
    return w->buf_at + w->buf_len;
}

static uint64_t
still_fits(const struct store_writer *w)
{
    assert(store_written(w) <= (w->size == STORE_SIZE_UNKNOWN ? BODY_MAX : w->size));
    return (w->size == STORE_SIZE_UNKNOWN ? BODY_MAX : w->size) - store_written(w);
}

/* Computes the missing sums of the buffer up to `end`. */
static void
add_sums(struct store_writer *w, uint32_t end)
{
    uint32_t len = end - w->buf_summed;
    char *at = buf_reserve(&w->sums, 4 * block_count(len));

    assert(at != NULL && w->buf_at % BLOCK_BYTES == 0 &&
           w->buf_summed % BLOCK_BYTES == 0);
    block_sums_put(w->seed, (w->buf_at + w->buf_summed) / BLOCK_BYTES,
                   w->buf->at + w->buf_summed, len, at);
    w->sums.len += 4 * block_count(len);
    w->buf_summed = end;
}

/* Sums whole blocks while they are in the CPU's cache; the commit sums the rest. */
static void
sum_whole_blocks(struct store_writer *w)
{
    uint32_t end = (uint32_t)align_down(w->buf_len, BLOCK_BYTES);

    if (w->buf->room > STORE_INLINE_MAX && end > w->buf_summed)
        add_sums(w, end);
}

/* ---- writing to the disk ---- */

/* Bytes of whole pages of the buffer that are not being written yet. */
static uint32_t
left_of_buffer(const struct store_writer *w)
{
    return (uint32_t)align_down(w->buf_len, STORE_ALIGN) - w->gone;
}

#ifdef FB_TEST_HOOKS
bool writer_loses_early_writes;
#else
static const bool writer_loses_early_writes = false;
#endif

static void
write_early(void *arg)
{
    struct store_writer *w = arg;
    struct early *e = w->early;
    struct rt_shield shield;

    rt_shield_begin(&shield);
    while (e->rc == ERR_OK && !e->given_up && left_of_buffer(w) >= EARLY_LEAST) {
        uint32_t from = w->gone, len = left_of_buffer(w);

        w->gone += len;
        if (!writer_loses_early_writes)
            e->rc = body_write(&w->body, w->buf_at + from, w->buf, from, len, &e->eb);
    }
    rt_shield_end(&shield);
    e->runs = false;
    if (e->waits != NULL)
        rt_wake(e->waits);
}

/* Starts an early write, so that the disk works while more bytes arrive. Otherwise, with sixteen
 * concurrent bodies, it would be idle until all are complete. Without a fiber everything is
 * written at the end. */
static void
begin_early(struct store_writer *w)
{
    struct early *e = w->early;

    if (w->body.segment == NULL || w->body.growing || left_of_buffer(w) < EARLY_LEAST ||
        still_fits(w) == 0 || w->buf_len == w->buf->room)
        return;
    if (e == NULL)
        w->early = e = xcalloc(1, sizeof *e);
    if (e->runs || e->rc != ERR_OK)
        return;
    e->runs = true;
    if (rt_spawn(write_early, w) != ERR_OK)
        e->runs = false;
}

/* Waits until no write of the buffer is in progress. Returns their result. */
static enum err
writer_end_early(struct store_writer *w, struct errbuf *eb)
{
    struct early *e = w->early;
    struct rt_waiter waits;

    if (e == NULL)
        return ERR_OK;
    if (e->runs) {
        rt_waiter_init(&waits);
        e->waits = &waits;
        rt_wait(&waits);
        e->waits = NULL;
    }
    if (e->rc != ERR_OK && eb != NULL)
        *eb = e->eb;
    return e->rc;
}

/* Waits for the piece being written, and starts no other. */
static void
stop_early(struct store_writer *w)
{
    if (w->early != NULL)
        w->early->given_up = true;
    (void)writer_end_early(w, NULL);
}

/* After success the buffer is on the disk up to `end`; on an error the writer is broken. */
static enum err
writer_write_out(struct store_writer *w, uint32_t end, struct errbuf *eb)
{
    uint32_t from = w->gone;
    enum err rc = ERR_OK, early;

    assert(end <= w->buf_len);
    assert(w->gone <= end || w->gone <= w->buf_len);
    if (from < end) {
        w->gone = end;
        rc = body_write(&w->body, w->buf_at + from, w->buf, from, end - from, eb);
    }
    early = writer_end_early(w, rc == ERR_OK ? eb : NULL);
    rc = rc == ERR_OK ? early : rc;
    w->broken |= rc != ERR_OK;
    return rc;
}

/* Writes the full buffer. It keeps the bytes until they are on the disk: store_write_peek()
 * relies on that. */
static enum err
writer_spill(struct store_writer *w, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    assert(w->buf != NULL);
    if (w->body.segment == NULL)
        rc = writer_reserve(w, eb);
    w->broken |= rc != ERR_OK;
    if (rc == ERR_OK)
        rc = writer_write_out(w, w->buf_len, eb);
    if (rc != ERR_OK)
        return rc;
    if (w->buf_len > w->buf_summed)
        add_sums(w, w->buf_len);
    w->buf_at += w->buf_len;
    w->buf_len = w->buf_summed = w->gone = 0;
    return ERR_OK;
}

/* Writes the whole pages of the last buffer, unless an early write has. */
static enum err
write_rest(struct store_writer *w, struct errbuf *eb)
{
    if (w->body.segment == NULL)
        return ERR_OK;
    return writer_write_out(w, (uint32_t)align_down(w->buf_len, STORE_ALIGN), eb);
}

static enum err
refuse_more(const struct store_writer *w, struct errbuf *eb)
{
    bool known = w->size != STORE_SIZE_UNKNOWN;

    return err_set(eb, known ? ERR_BAD_REQUEST : ERR_TOO_LARGE,
                   "a body of more than %" PRIu64 " bytes", known ? w->size : BODY_MAX);
}

enum err
store_write(struct store_writer *w, const void *data, size_t len, struct errbuf *eb)
{
    const char *from = data;

    writer_check(w);
    if (w->broken)
        return err_set(eb, ERR_IO, "an earlier write of this body failed");
    if (len > still_fits(w))
        return refuse_more(w, eb);
    assert(w->zero_copy == NULL);
    if (w->buf == NULL && get_buffer(w, eb) != ERR_OK)
        return ERR_BUSY;
    while (len > 0) {
        uint32_t n;
        enum err rc;

        /* Only when more bytes arrive: a body that just fills the buffer may still go to the
         * log. */
        if (w->buf_len == w->buf->room) {
            rc = writer_spill(w, eb);
            if (rc != ERR_OK)
                return rc;
        }
        n = (uint32_t)MIN(len, (size_t)(w->buf->room - w->buf_len));
        memcpy(w->buf->at + w->buf_len, from, n);
        w->buf_len += n;
        from += n;
        len -= n;
        sum_whole_blocks(w);
    }
    return ERR_OK;
}

size_t
store_write_room(struct store_writer *w, void **at)
{
    uint64_t left = still_fits(w);

    writer_check(w);
    *at = NULL;
    if (w->zero_copy != NULL || (w->buf == NULL && get_buffer(w, NULL) != ERR_OK))
        return 0; /* store_write() reports why */
    *at = w->buf->at + w->buf_len;
    return (size_t)MIN(left, w->buf->room - w->buf_len);
}

void
store_write_filled(struct store_writer *w, size_t len)
{
    assert(w->buf != NULL);
    assert(w->zero_copy == NULL);
    assert(len <= still_fits(w) && len <= w->buf->room - w->buf_len);
    w->buf_len += (uint32_t)len;
    sum_whole_blocks(w);
    begin_early(w);
}

void
store_write_zero_copy(struct store_writer *w, struct span body)
{
    writer_check(w);
    assert(body.len > 0 && body.len == w->size && body.len <= STORE_INLINE_MAX);
    assert(store_written(w) == 0);
    iobuf_drop(&w->buf);
    w->zero_copy = body.at;
    w->buf_len = (uint32_t)body.len;
    /* Sums now: the caller has just read the bytes, and they leave the CPU's cache before the
     * commit. */
    block_sums_put(w->seed, 0, body.at, body.len, w->small_sums);
}

/* The bytes in memory. */
static const char *
writer_held(const struct store_writer *w)
{
    return w->zero_copy != NULL ? w->zero_copy : w->buf->at;
}

enum err
store_write_flush(struct store_writer *w, struct errbuf *eb)
{
    writer_check(w);
    if (w->broken)
        return err_set(eb, ERR_IO, "an earlier write of this body failed");
    if (still_fits(w) == 0)
        return write_rest(w, eb);
    assert(w->buf_len == w->buf->room);
    return writer_spill(w, eb);
}

/* ---- peeking ---- */

struct peek {
    struct store_writer *w;
    uint64_t offset;
    void *buf;
    size_t len, n;
    struct errbuf *eb;
    enum err rc;
};

/* Reads whole blocks from the disk and verifies them with the sums in memory. */
static void
peek_disk(struct peek *p)
{
    struct store_writer *w = p->w;
    struct segment *s =
        segment_ref(w->body.segment); /* the writer may end during this read */
    uint64_t first = p->offset / BLOCK_BYTES, from = first * BLOCK_BYTES;
    uint64_t to = MIN(align_up(p->offset + p->len, BLOCK_BYTES), w->buf_at), bad, have;
    uint64_t at = w->body.offset + BODY_HEAD + from;
    struct store *d = w->disk;
    struct entry entry = {
        .content = w->content, .place.segment = s->id, .place.offset = w->body.offset};
    struct buf sums;
    struct iobuf *io;
    uint32_t skip, seed = w->seed;

    assert(w->body.segment != NULL);
    assert(p->offset < w->buf_at);
    to = MIN(to, from + MIB(1));
    buf_init(&sums, MIB(1));
    buf_put(&sums, w->sums.at + 4 * first, 4 * block_count(to - from));
    p->rc = read_span(s->file, at, to - from, DEADLINE_NEVER, &io, &skip, &have, p->eb);
    if (p->rc == ERR_OK) {
        if (have < to - from ||
            block_check(seed, first, io->at + skip, to - from, sums.at, &bad) != ERR_OK) {
            p->rc = read_damage(d, &entry, first, p->eb);
        } else {
            p->n = MIN(p->len, to - p->offset);
            memcpy(p->buf, io->at + skip + (p->offset - from), p->n);
        }
    }
    iobuf_drop(&io);
    buf_fini(&sums);
    segment_drop(&s);
}

static void
peek_here(void *arg)
{
    struct peek *p = arg;
    struct store_writer *w = p->w;

    p->rc = ERR_OK;
    p->n = 0;
    if (p->offset >= store_written(w) || p->len == 0)
        return;
    if (p->offset < w->buf_at) {
        peek_disk(p);
        return;
    }
    p->n = MIN(p->len, (size_t)(store_written(w) - p->offset));
    memcpy(p->buf, writer_held(w) + (p->offset - w->buf_at), p->n);
}

enum err
store_write_peek(struct store_writer *w, uint64_t offset, void *buf, size_t len,
                 size_t *n, struct errbuf *eb)
{
    struct peek p = {
        .w = w, .offset = offset, .buf = buf, .len = len, .eb = eb, .rc = ERR_CANCELLED};

    *n = 0;
    if (w->loop == rt_loop_index()) {
        peek_here(&p);
    } else {
        enum err rc = rt_call(w->loop, peek_here, &p);

        if (rc != ERR_OK)
            return rc;
    }
    *n = p.n;
    return p.rc;
}

/* ---- commit and abort ---- */

void
store_write_abort(struct store_writer **wp)
{
    struct store_writer *w = *wp;

    *wp = NULL;
    if (w == NULL)
        return;
    stop_early(w);
    body_release(&w->body);
    free_writer(w);
}

static enum err
check_end(const struct store_writer *w, const struct object_meta *meta, struct errbuf *eb)
{
    if (w->broken)
        return err_set(eb, ERR_IO, "a write of this body failed");
    if (w->size != STORE_SIZE_UNKNOWN && store_written(w) != w->size)
        return err_set(eb, ERR_INCOMPLETE, "%" PRIu64 " bytes came of %" PRIu64,
                       store_written(w), w->size);
    return meta_check(meta, eb);
}

/* Writes the rest of the buffer, then the seal: afterwards only the log record is missing. */
static enum err
finish_body(struct store_writer *w, const struct object_meta *meta, struct errbuf *eb)
{
    uint64_t size = store_written(w);
    uint32_t whole = (uint32_t)align_down(w->buf_len, STORE_ALIGN);
    enum err rc = write_rest(w, eb);

    assert(w->zero_copy == NULL);
    assert(w->body.segment != NULL);
    if (w->buf_len > w->buf_summed)
        add_sums(w, w->buf_len);
    if (rc != ERR_OK)
        return rc;
    return body_seal(&w->body, size,
                     (struct span){w->buf->at + whole, w->buf_len - whole},
                     buf_span(&w->sums), meta, eb);
}

enum err
writer_submit(struct store_writer **wp, const struct object_meta *meta, struct commit *c,
              struct errbuf *eb)
{
    struct store_writer *w = *wp;
    enum err rc = check_end(w, meta, eb);

    assert(w->part == 0 || c->kind == 0 || c->kind == LOG_RECORD_PART);
    *wp = NULL;
    c->key = &w->key;
    c->meta = meta;
    c->content = w->content;
    c->size = store_written(w);
    c->upload = w->upload;
    if (w->part > 0)
        c->of.upload.part = w->part;
    if (rc != ERR_OK)
        stop_early(w);
    if (rc == ERR_OK && w->body.segment != NULL) {
        rc = finish_body(w, meta, eb);
        if (rc == ERR_OK)
            c->place = body_place(&w->body);
    } else if (rc == ERR_OK) {
        if (w->zero_copy == NULL)
            block_sums_put(w->seed, 0, writer_held(w), w->buf_len, w->small_sums);
        c->payload = (struct span){writer_held(w), w->buf_len};
        c->block_sums = (struct span){w->small_sums, 4 * block_count(w->buf_len)};
    }
    if (rc == ERR_OK) {
        if (c->kind == 0)
            c->kind = w->part > 0             ? LOG_RECORD_PART
                      : c->place.segment != 0 ? LOG_RECORD_COMMIT
                                              : LOG_RECORD_PUT;
        rc = commit_submit(w->disk, w->class, c, eb);
    }
    if (rc == ERR_OK)
        body_keep(&w->body);
    else if (c->unknown)
        body_leave(&w->body);
    else
        body_release(&w->body);
    free_writer(w);
    return rc;
}

enum err
writer_commit(struct store_writer **wp, const struct object_meta *meta,
              const struct store_condition *condition, struct entry *out,
              struct errbuf *eb)
{
    struct commit c;
    enum err rc;

    commit_init(&c);
    c.condition = condition;
    rc = writer_submit(wp, meta, &c, eb);
    if (rc == ERR_OK && out != NULL)
        *out = c.entry;
    return rc;
}

enum err
store_commit(struct store_writer **wp, const struct object_meta *meta,
             const struct store_condition *c, struct entry *out, struct errbuf *eb)
{
    assert((*wp)->part == 0);
    return writer_commit(wp, meta, c, out, eb);
}
