#include "rt/frames.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "rt/internal.h"

/* Head and short pieces are sent from here, so that a short message is one TLS record. */
#define GATHER_BYTES 2048u
#define FRAME_IOV    16

struct frames {
    const struct stream_layer *below; /* TLS; NULL: the plain stream */
    enum err failed;                  /* sticky */

    /* Sending: one fiber at a time. */
    uint32_t next_sent;
    bool sending;
    unsigned char gather[GATHER_BYTES];

    /* Receiving: one fiber at a time. */
    uint32_t next_received;
    unsigned char head[FRAME_HEAD_BYTES];
    size_t head_got;
    struct frame_head now; /* with head_got == FRAME_HEAD_BYTES */
    char *held; /* owned; NULL: none. Bytes of this frame that no caller has yet */
    size_t held_got, held_at; /* received; taken by callers */
};

/* ---- heads ---- */

static void
frame_put32(unsigned char *out, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        out[i] = (unsigned char)(v >> (24 - 8 * i));
}

static uint32_t
frame_get32(const unsigned char *in)
{
    return (uint32_t)in[0] << 24 | (uint32_t)in[1] << 16 | (uint32_t)in[2] << 8 | in[3];
}

void
frame_head_put(const struct frame_head *h, unsigned char out[FRAME_HEAD_BYTES])
{
    assert(h->len > 0 && h->len <= FRAME_BYTES_MAX);
    frame_put32(out, h->len);
    frame_put32(out + 4, h->number);
    frame_put32(out + 8, h->crc);
}

enum err
frame_head_parse(const unsigned char in[FRAME_HEAD_BYTES], uint32_t expected,
                 struct frame_head *out, struct errbuf *eb)
{
    *out = (struct frame_head){.len = frame_get32(in),
                               .number = frame_get32(in + 4),
                               .crc = frame_get32(in + 8)};
    if (out->len == 0 || out->len > FRAME_BYTES_MAX)
        return err_set(eb, ERR_CORRUPT, "a frame of %u bytes; they have 1 to %u",
                       out->len, FRAME_BYTES_MAX);
    if (out->number != expected)
        return err_set(eb, ERR_CORRUPT, "frame %u where frame %u should follow",
                       out->number, expected);
    return ERR_OK;
}

uint32_t
frame_crc_begin(uint32_t len, uint32_t number)
{
    unsigned char text[8];

    frame_put32(text, len);
    frame_put32(text + 4, number);
    return hash_crc32c(0, text, sizeof text);
}

/* ---- sending ---- */

static enum err
send_below(struct stream *s, struct frames *f, struct iovec *iov, int count,
           struct deadline by, struct errbuf *eb)
{
    return f->below != NULL ? f->below->sendv(s, iov, count, by, eb)
                            : stream_sendv_raw(s, iov, count, by, eb);
}

/* Takes up to FRAME_BYTES_MAX from the pieces; *iov and *count move on. Fills `out` with head and bytes; returns how many
 * pieces. */
static int
frame_fill(struct frames *f, struct iovec **iov, int *count, struct iovec *out)
{
    struct frame_head h = {.number = f->next_sent++};
    size_t gathered = FRAME_HEAD_BYTES;
    struct iovec *from = *iov;
    int n = 1, left = *count;
    uint32_t crc;

    while (left > 0 && h.len < FRAME_BYTES_MAX && n < FRAME_IOV) {
        size_t take = MIN(from->iov_len, FRAME_BYTES_MAX - h.len);

        if (n == 1 && take <= sizeof f->gather - gathered) {
            memcpy(f->gather + gathered, from->iov_base, take);
            gathered += take;
        } else {
            out[n++] = (struct iovec){from->iov_base, take};
        }
        h.len += (uint32_t)take;
        from->iov_base = (char *)from->iov_base + take;
        from->iov_len -= take;
        if (from->iov_len == 0) { /* else the frame is full, and the next one goes on */
            from++;
            left--;
        }
    }
    *iov = from;
    *count = left;
    assert(h.len > 0);
    out[0] = (struct iovec){f->gather, gathered};
    crc = frame_crc_begin(h.len, h.number);
    crc = hash_crc32c(crc, f->gather + FRAME_HEAD_BYTES, gathered - FRAME_HEAD_BYTES);
    for (int i = 1; i < n; i++)
        crc = hash_crc32c(crc, out[i].iov_base, out[i].iov_len);
    h.crc = crc;
    frame_head_put(&h, f->gather);
    return n;
}

static enum err
frames_sendv(struct stream *s, struct iovec *iov, int count, struct deadline by,
             struct errbuf *eb)
{
    struct frames *f = s->layer_data;
    enum err rc = f->failed;

    if (rc != ERR_OK)
        return err_set(eb, rc, "the stream to %s has failed before", rt_stream_peer(s));
    assert(!f->sending); /* one sender */
    f->sending = true;
    while (rc == ERR_OK) {
        struct iovec out[FRAME_IOV];

        while (count > 0 && iov->iov_len == 0) {
            iov++;
            count--;
        }
        if (count == 0)
            break;
        rc = send_below(s, f, out, frame_fill(f, &iov, &count, out), by, eb);
    }
    f->sending = false;
    if (rc != ERR_OK)
        f->failed = rc; /* an unknown part of a frame was sent */
    return rc;
}

static enum err
frames_send_end(struct stream *s, struct deadline by)
{
    struct frames *f = s->layer_data;

    return f->below != NULL ? f->below->send_end(s, by) : stream_send_end_raw(s, by);
}

/* ---- receiving ---- */

static enum err
frame_broken(struct stream *s, struct frames *f, enum err rc, struct errbuf *eb)
{
    f->failed = rc;
    err_prefix(eb, "receiving from %s", rt_stream_peer(s));
    return rc;
}

/* Receives at least one byte of a frame that has begun. */
static enum err
frame_receive_part(struct stream *s, struct frames *f, void *to, size_t len,
                   struct deadline by, size_t *n, struct errbuf *eb)
{
    enum err rc = f->below != NULL ? f->below->recv(s, to, len, by, n, eb)
                                   : stream_recv_raw(s, to, len, by, n, eb);

    if (rc == ERR_OK && *n == 0)
        return frame_broken(
            s, f, err_set(eb, ERR_CLOSED, "truncated: the stream ended within a frame"),
            eb);
    return rc;
}

/* *end: the stream ended in front of a frame. */
static enum err
frame_receive_head(struct stream *s, struct frames *f, struct deadline by, bool *end,
                   struct errbuf *eb)
{
    enum err rc;

    *end = false;
    while (f->head_got < FRAME_HEAD_BYTES) {
        unsigned char *to = f->head + f->head_got;
        size_t room = FRAME_HEAD_BYTES - f->head_got, n;

        if (f->head_got > 0)
            rc = frame_receive_part(s, f, to, room, by, &n, eb);
        else
            rc = f->below != NULL ? f->below->recv(s, to, room, by, &n, eb)
                                  : stream_recv_raw(s, to, room, by, &n, eb);
        if (rc != ERR_OK)
            return rc;
        if (n == 0) {
            *end = true;
            return ERR_OK;
        }
        f->head_got += n;
        if (f->head_got < FRAME_HEAD_BYTES)
            continue;
        rc = frame_head_parse(f->head, f->next_received, &f->now, eb);
        if (rc != ERR_OK)
            return frame_broken(s, f, rc, eb);
    }
    return ERR_OK;
}

static enum err
frame_verify(struct stream *s, struct frames *f, const char *bytes, struct errbuf *eb)
{
    uint32_t crc =
        hash_crc32c(frame_crc_begin(f->now.len, f->now.number), bytes, f->now.len);

    f->next_received++;
    f->head_got = 0;
    if (crc == f->now.crc)
        return ERR_OK;
    return frame_broken(s, f,
                        err_set(eb, ERR_CORRUPT,
                                "frame %u has CRC-32C %08x and should have %08x",
                                f->now.number, crc, f->now.crc),
                        eb);
}

/* A whole frame into the caller's memory. What was received when the wait ends early is held for the next call. */
static enum err
frame_receive_direct(struct stream *s, struct frames *f, char *to, struct deadline by,
                     struct errbuf *eb)
{
    size_t got = 0;

    while (got < f->now.len) {
        size_t n;
        enum err rc = frame_receive_part(s, f, to + got, f->now.len - got, by, &n, eb);

        if (rc != ERR_OK && got > 0 && f->failed == ERR_OK) {
            assert(f->held == NULL);
            f->held = xmalloc(f->now.len);
            memcpy(f->held, to, got);
            f->held_got = got;
            f->held_at = 0;
        }
        if (rc != ERR_OK)
            return rc;
        got += n;
    }
    return frame_verify(s, f, to, eb);
}

static enum err
frame_receive_held(struct stream *s, struct frames *f, struct deadline by,
                   struct errbuf *eb)
{
    if (f->held == NULL) {
        f->held = xmalloc(f->now.len);
        f->held_got = f->held_at = 0;
    }
    while (f->held_got < f->now.len) {
        size_t n;
        enum err rc = frame_receive_part(s, f, f->held + f->held_got,
                                         f->now.len - f->held_got, by, &n, eb);

        if (rc != ERR_OK)
            return rc;
        f->held_got += n;
    }
    return frame_verify(s, f, f->held, eb);
}

/* True: `held` is a verified frame, or the rest of one. */
static bool
frame_is_ready(const struct frames *f)
{
    return f->held != NULL && f->head_got == 0;
}

static enum err
frames_recv(struct stream *s, void *buf, size_t len, struct deadline by, size_t *n,
            struct errbuf *eb)
{
    struct frames *f = s->layer_data;
    enum err rc;
    bool end;

    *n = 0;
    if (f->failed != ERR_OK)
        return err_set(eb, f->failed, "the stream of %s has failed before",
                       rt_stream_peer(s));
    if (!frame_is_ready(f)) {
        rc = frame_receive_head(s, f, by, &end, eb);
        if (rc != ERR_OK || end)
            return rc;
        if (f->held == NULL && f->now.len <= len) {
            rc = frame_receive_direct(s, f, buf, by, eb);
            *n = rc == ERR_OK ? f->now.len : 0;
            return rc;
        }
        rc = frame_receive_held(s, f, by, eb);
        if (rc != ERR_OK)
            return rc;
    }
    assert(f->held_at < f->held_got);
    *n = MIN(len, f->held_got - f->held_at);
    memcpy(buf, f->held + f->held_at, *n);
    f->held_at += *n;
    if (f->held_at == f->held_got) {
        free(f->held);
        f->held = NULL;
    }
    return ERR_OK;
}

static bool
frames_has_bytes(const struct stream *s)
{
    const struct frames *f = s->layer_data;

    return f->failed != ERR_OK || frame_is_ready(f) ||
           (f->below != NULL && f->below->has_bytes(s));
}

static void
frames_destroy(struct stream *s)
{
    struct frames *f = s->layer_data;

    if (f->below != NULL)
        f->below->destroy(s);
    free(f->held);
    free(f);
    s->layer_data = NULL;
}

static const struct stream_layer frames_layer = {
    .recv = frames_recv,
    .sendv = frames_sendv,
    .send_end = frames_send_end,
    .has_bytes = frames_has_bytes,
    .destroy = frames_destroy,
};

void
rt_frames_begin(struct stream *s)
{
    struct frames *f = xcalloc(1, sizeof *f);

    assert(s->layer_data == NULL);
    assert(!s->parked);
    f->below = s->layer;
    s->layer = &frames_layer;
    s->layer_data = f;
}
