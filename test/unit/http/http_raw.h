/* http_raw: a client that sends given bytes and reads answers by the parser alone,
 * without the pool. */
#pragma once
#include "unit/http/http_rig.h"

static struct stream *
raw_connect(struct rig *rig)
{
    struct stream *s = NULL;
    struct errbuf eb = {0};

    if (rt_connect("127.0.0.1", rig->port, deadline_in_ms(60000), &s, &eb) != ERR_OK)
        fprintf(stderr, "raw_connect: %s\n", eb.text);
    return s;
}

static void
raw_send(struct stream *s, const void *bytes, size_t len)
{
    CHECK(rt_send(s, bytes, len, deadline_in_ms(60000), NULL) == ERR_OK);
}

/* One whole answer, its body in `out` (cleared first). The head is valid until the
 * next call. */
struct raw {
    struct stream *s;
    char buf[HTTP_HEAD_ROOM];
    size_t at, end;
    struct http_head head;
    bool ended; /* by an end, not by a reset */
};

static enum err
raw_more(struct raw *w)
{
    size_t n;
    enum err rc;

    if (w->end == sizeof w->buf) {
        memmove(w->buf, w->buf + w->at, w->end - w->at);
        w->end -= w->at;
        w->at = 0;
    }
    rc = rt_recv(w->s, w->buf + w->end, sizeof w->buf - w->end, deadline_in_ms(60000), &n,
                 NULL);
    if (rc == ERR_OK && n == 0) {
        w->ended = true;
        rc = ERR_CLOSED;
    }
    w->end += rc == ERR_OK ? n : 0;
    return rc;
}

/* The status, 0 when the connection ended before or in the middle of it, -1 when it is
 * not HTTP. */
static int
raw_answer(struct raw *w, enum http_method method, struct buf *body)
{
    struct http_chunked c;
    enum http_parse parsed;
    int status;
    int64_t left;

    buf_clear(body);
    for (;;) {
        http_head_init(&w->head);
        parsed = http_response_parse(&w->head, w->buf + w->at, w->end - w->at, method);
        if (parsed != HTTP_MORE)
            break;
        if (raw_more(w) != ERR_OK)
            return 0;
    }
    if (parsed == HTTP_BAD)
        return -1;
    w->at += w->head.len;
    status = w->head.code;
    left = w->head.body_length;
    http_chunked_init(&c);
    while (left != 0) {
        struct span piece = {w->buf + w->at, w->end - w->at};
        size_t used = piece.len;

        if (left > 0 && piece.len > (uint64_t)left)
            piece.len = used = (size_t)left;
        if (left == HTTP_CHUNKED && used > 0) {
            enum http_chunk what =
                http_chunked_next(&c, w->buf + w->at, w->end - w->at, &used, &piece);

            if (what == HTTP_CHUNK_BAD)
                return -1;
            if (what == HTTP_CHUNK_END)
                left = 0;
        }
        buf_put_span(body, piece);
        w->at += used;
        if (left > 0)
            left -= (int64_t)used;
        if (left != 0 && w->at == w->end) {
            enum err rc = raw_more(w);

            if (w->ended && left == HTTP_TO_END)
                return status;
            if (rc != ERR_OK)
                return 0;
        }
    }
    return status;
}

/* Nothing more comes but the end of the connection, cleanly or by reset. */
static bool
raw_is_closed(struct raw *w)
{
    return w->at == w->end && raw_more(w) == ERR_CLOSED;
}
