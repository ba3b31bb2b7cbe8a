/* batch_reply: a batch as the body of an answer; see batch_reply.h.
 *
 * A tar and frames are sent by reference: heads from a buffer of this file, bytes from where the disk or the block cache has them,
 * those of many small items in one system call. Other formats are copied through their writer.
 */
#include "api/batch_reply.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "shard/write.h"
#include "wire/tar.h"

#define IOV_MAX_HERE 192u
#define HEADS_BYTES  (64u << 10)
#define HEAD_ROOM    (2 * TAR_BLOCK + 2 * TAR_PATH_MAX) /* the longest head of a name */
#define SEND_BYTES   (512u << 10) /* gathered before they are sent */

struct sender {
    struct batch_reply *r;
    struct batch *batch;
    struct buf name;
    bool began;
    /* By reference. */
    struct iovec iov[IOV_MAX_HERE + 2 * BATCH_PIECES_MAX];
    unsigned iov_count;
    size_t iov_bytes;
    struct buf heads; /* its memory does not move: reserved at the start */
    /* Through a writer. */
    struct shard_writer *writer;
};

/* ---- what leaves ---- */

static enum err
sender_begin(struct sender *s)
{
    struct batch_reply *r = s->r;
    const char *type = r->content_type != NULL ? r->content_type
                       : r->frames             ? "application/x-forebay-frames"
                                               : shard_format_media(r->format);
    enum err rc;

    if (s->began)
        return ERR_OK;
    s->began = true;
    http_header(r->q->http, "content-type", span_of(type));
    rc = http_reply_begin(r->q->http, 200, HTTP_CHUNKED);
    return rc == ERR_OK && r->before != NULL ? r->before(r->arg, r->q->http) : rc;
}

/* Sends what was gathered, and gives back what the batch lent. */
static enum err
sender_flush(struct sender *s)
{
    struct batch_reply *r = s->r;
    enum err rc = sender_begin(s);

    if (rc == ERR_OK && r->may_go_on != NULL && !r->may_go_on(r->arg))
        rc = ERR_CANCELLED;
    if (rc == ERR_OK && s->iov_count > 0)
        rc = http_reply_writev(r->q->http, s->iov, (int)s->iov_count);
    s->iov_count = 0;
    s->iov_bytes = 0;
    buf_clear(&s->heads);
    batch_release(s->batch);
    return rc;
}

static void
sender_lend(struct sender *s, const void *at, size_t len)
{
    assert(s->iov_count < ARRAY_LEN(s->iov));
    if (len == 0)
        return;
    s->iov[s->iov_count++] = (struct iovec){(void *)(uintptr_t)at, len};
    s->iov_bytes += len;
}

static enum err
sender_sink(void *arg, struct span bytes, struct errbuf *eb)
{
    struct sender *s = arg;
    enum err rc = sender_begin(s);

    (void)eb;
    return rc == ERR_OK ? http_reply_write(s->r->q->http, bytes.at, bytes.len) : rc;
}

/* ---- an item ---- */

static void
put_frame_head(struct buf *out, const struct batch_got *got, bool missing)
{
    buf_be(out, got->index, 4);
    buf_be(out, missing ? 404 : 200, 4);
    buf_be(out, missing ? 0 : got->size, 8);
}

static enum err
sender_put_head(struct sender *s, const struct batch_got *got, bool missing,
                struct errbuf *eb)
{
    uint64_t size = missing ? 0 : got->size;
    size_t from = s->heads.len;

    buf_clear(&s->name);
    if (missing)
        buf_puts(&s->name, "__404__/");
    s->r->name(s->r->arg, got->index, &s->name);
    assert(!s->name.full);
    if (s->writer != NULL)
        return shard_writer_member(s->writer, buf_span(&s->name), size,
                                   got->mtime_ms / 1000, eb);
    if (s->r->frames)
        put_frame_head(&s->heads, got, missing);
    else
        tar_put_head(&s->heads,
                     &(struct tar_member){.path = buf_span(&s->name),
                                          .size = size,
                                          .mtime_s = MAX(got->mtime_ms / 1000, 0)},
                     0);
    assert(!s->heads.full);
    sender_lend(s, s->heads.at + from, s->heads.len - from);
    return ERR_OK;
}

/* Through the writer: copied. */
static enum err
sender_put_pieces(struct sender *s, const struct span *pieces, unsigned count,
                  struct errbuf *eb)
{
    enum err rc = ERR_OK;

    for (unsigned i = 0; rc == ERR_OK && i < count; i++) {
        if (s->writer != NULL)
            rc = shard_writer_data(s->writer, pieces[i], eb);
        else
            sender_lend(s, pieces[i].at, pieces[i].len);
    }
    return rc;
}

static enum err
sender_put_bytes(struct sender *s, const struct batch_got *got, struct errbuf *eb)
{
    static const char zeros[TAR_BLOCK];
    struct span pieces[BATCH_PIECES_MAX];
    uint64_t left = got->size;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && left > 0) {
        unsigned count;

        rc = batch_read(s->batch, pieces, &count, eb);
        if (rc == ERR_OK)
            rc = sender_put_pieces(s, pieces, count, eb);
        for (unsigned i = 0; rc == ERR_OK && i < count; i++)
            left -= pieces[i].len;
        if (rc == ERR_OK && left > 0) /* the next read takes these pieces back */
            rc = sender_flush(s);
    }
    if (rc == ERR_OK && s->writer == NULL && !s->r->frames)
        sender_lend(s, zeros, (size_t)tar_padding(got->size));
    s->r->bytes += got->size - left;
    return rc;
}

/* *skip: an error that is marked in place. */
static enum err
sender_item(struct sender *s, const struct batch_got *got, struct errbuf *eb)
{
    bool missing = got->status == ERR_NOT_FOUND && s->r->mark_missing;
    enum err rc;

    s->r->failed = got->index;
    if (got->status != ERR_OK && !missing)
        return err_set(eb, got->status, "%s", got->why);
    s->r->objects++;
    s->r->missing += missing;
    rc = sender_put_head(s, got, missing, eb);
    return rc == ERR_OK && !missing ? sender_put_bytes(s, got, eb) : rc;
}

static enum err
sender_items(struct sender *s, struct errbuf *eb)
{
    for (;;) {
        struct batch_got got;
        bool end;
        enum err rc = ERR_OK;

        if (s->iov_count >= IOV_MAX_HERE || s->iov_bytes >= SEND_BYTES ||
            s->heads.len + HEAD_ROOM > HEADS_BYTES ||
            (!batch_is_ready(s->batch) && s->iov_count > 0))
            rc = sender_flush(s);
        else if (s->writer != NULL && !batch_is_ready(s->batch)) {
            batch_release(s->batch);
            rc = s->r->objects > 0 ? shard_writer_flush(s->writer, eb) : ERR_OK;
        }
        if (rc == ERR_OK)
            rc = batch_next(s->batch, &got, &end, eb);
        if (rc != ERR_OK || end)
            return rc;
        rc = sender_item(s, &got, eb);
        if (rc != ERR_OK)
            return rc;
    }
}

static enum err
sender_end(struct sender *s, struct errbuf *eb)
{
    static const char zeros[2 * TAR_BLOCK];
    enum err rc;

    if (s->writer != NULL)
        rc = shard_writer_end(s->writer, eb);
    else {
        if (!s->r->frames)
            sender_lend(s, zeros, sizeof zeros);
        rc = sender_flush(s);
    }
    if (rc == ERR_OK && s->r->after != NULL)
        rc = s->r->after(s->r->arg, s->r->q->http);
    return rc == ERR_OK ? http_reply_end(s->r->q->http) : rc;
}

enum err
batch_reply_send(struct batch_reply *r, struct errbuf *eb)
{
    struct sender *s = xcalloc(1, sizeof *s);
    const struct api *a = r->q->api;
    bool began;
    enum err rc;

    s->r = r;
    buf_init(&s->name, 2 * TAR_PATH_MAX);
    buf_init(&s->heads, HEADS_BYTES);
    buf_reserve(&s->heads, HEADS_BYTES);
    rc = batch_begin(a->options.object, a->shards, r->items, r->count, &s->batch, eb);
    if (rc == ERR_OK && !r->frames && r->format != SHARD_TAR)
        rc = shard_writer_new(r->format, (struct shard_sink){sender_sink, s}, &s->writer,
                              eb);
    if (rc == ERR_OK)
        rc = sender_items(s, eb);
    if (rc == ERR_OK)
        rc = sender_end(s, eb);
    began = s->began;
    shard_writer_free(&s->writer);
    batch_end(&s->batch);
    buf_fini(&s->heads);
    buf_fini(&s->name);
    free(s);
    if (rc != ERR_OK && began) {
        if (rc != ERR_CLOSED && rc != ERR_TIMEOUT && rc != ERR_CANCELLED)
            LOG(LOG_WARN, "batch.reset", eb->text, L_TEXT("id", r->q->http->id),
                L_TEXT("code", err_name(rc)), L_U64("item", r->failed));
        http_reply_abort(r->q->http);
        return ERR_OK;
    }
    return rc;
}
