/* The answer of a call: its head, which may arrive before the request is fully sent, and its body. */
#include <inttypes.h>

#include "http/call.h"

/* Limit of 1xx heads before the answer. */
#define INTERIM_MAX 16u

/* ---- the head ---- */

static enum err
not_http(struct http_call *k, const char *why, struct errbuf *eb)
{
    k->broken = true;
    return err_set(eb, ERR_BACKEND, "the answer of %s is not HTTP as it should be: %s",
                   rt_stream_peer(k->conn->stream), why);
}

/* Receives into the free room of the buffer. *n = 0: the end. May switch. */
static enum err
call_answer_fill(struct http_call *k, struct deadline by, size_t *n, struct errbuf *eb)
{
    struct inbuf *b = &k->in;
    enum err rc = rt_recv(k->conn->stream, b->buf + b->end, b->room - b->end,
                          deadline_sooner(by, k->by), n, eb);

    if (rc == ERR_OK)
        b->end += *n;
    return rc;
}

/* The body's framing, from the head. */
static void
call_answer_begin_body(struct http_call *k)
{
    k->answered = true;
    k->ended = k->head.body_length == 0;
    k->left = k->head.body_length > 0 ? (uint64_t)k->head.body_length : 0;
    http_chunked_init(&k->chunked);
}

/* Parses the buffer. ERR_OK: a head was found: the answer's (k->answered), or 100 Continue. ERR_BUSY: incomplete. */
static enum err
parse_buffered(struct http_call *k, struct errbuf *eb)
{
    for (;;) {
        switch (inbuf_head(&k->in, &k->head, true, k->method)) {
        case HTTP_MORE:
            return ERR_BUSY;
        case HTTP_BAD:
            return not_http(k, k->head.why, eb);
        case HTTP_DONE:
            break;
        }
        if (k->head.code >= 200) {
            call_answer_begin_body(k);
            return ERR_OK;
        }
        if (k->head.code == 101 || ++k->interim > INTERIM_MAX)
            return not_http(k, "it begins with a 1xx that was not asked for", eb);
        if (k->head.code == 100) {
            http_head_init(&k->head);
            return ERR_OK;
        }
        http_head_init(&k->head);
    }
}

enum err
call_read_head(struct http_call *k, struct deadline by, bool interim, struct errbuf *eb)
{
    for (;;) {
        enum err rc = parse_buffered(k, eb);
        size_t n;

        if (rc == ERR_OK && (k->answered || interim))
            return ERR_OK;
        if (rc == ERR_OK)
            continue;
        if (rc != ERR_BUSY)
            return rc;
        rc = call_answer_fill(k, by, &n, eb);
        if (rc == ERR_OK && n == 0)
            rc = err_set(eb, ERR_CLOSED, "%s closed the connection before its answer",
                         rt_stream_peer(k->conn->stream));
        if (rc == ERR_TIMEOUT)
            return rc; /* perhaps only the wait for 100 Continue */
        if (rc != ERR_OK) {
            k->broken = true;
            return rc == ERR_IO ? ERR_CLOSED : rc;
        }
    }
}

enum err
call_poll_answer(struct http_call *k, struct errbuf *eb)
{
    enum err rc;

    if (k->answered || !rt_may_have_bytes(k->conn->stream))
        return ERR_OK;
    rc = call_read_head(k, (struct deadline){0}, false, eb);
    if (rc != ERR_TIMEOUT)
        return rc;
    err_forget(eb);
    return ERR_OK;
}

enum err
call_answer_instead(struct http_call *k, enum err rc, struct errbuf *eb)
{
    if (rc != ERR_CLOSED || k->answered)
        return rc;
    if (call_read_head(k, deadline_in_ms(k->between_ms), false, NULL) != ERR_OK)
        return rc;
    k->broken = true;
    err_forget(eb);
    return ERR_OK;
}

/* ---- the body ---- */

static enum err
call_answer_receive(void *call, char *to, size_t len, size_t *n, struct errbuf *eb)
{
    struct http_call *k = call;
    enum err rc = rt_recv(k->conn->stream, to, len,
                          deadline_sooner(k->by, deadline_in_ms(k->between_ms)), n, eb);

    if (rc == ERR_OK && *n > 0)
        return ERR_OK;
    k->broken = true;
    if (rc == ERR_OK && k->head.body_length == HTTP_TO_END) {
        k->ended = true;
        return ERR_OK;
    }
    if (rc == ERR_TIMEOUT)
        return err_set(eb, rc,
                       "nothing came from %s for %" PRIu64 " ms in the middle of a body",
                       rt_stream_peer(k->conn->stream), k->between_ms);
    if (rc == ERR_CANCELLED)
        return rc;
    return err_set(eb, ERR_INCOMPLETE, "%s closed the connection in the middle of a body",
                   rt_stream_peer(k->conn->stream));
}

/* A body that ends with the connection. */
static enum err
read_to_end(struct http_call *k, char *to, size_t len, size_t *n, struct errbuf *eb)
{
    *n = MIN(len, inbuf_here(&k->in));
    if (*n == 0)
        return call_answer_receive(k, to, len, n, eb);
    memcpy(to, k->in.buf + k->in.at, *n);
    k->in.at += *n;
    return ERR_OK;
}

enum err
http_call_read(struct http_call *k, void *buf, size_t len, size_t *n, struct errbuf *eb)
{
    enum err rc;

    *n = 0;
    assert(k->answered);
    assert(len > 0);
    if (k->ended)
        return ERR_OK;
    if (k->head.body_length == HTTP_TO_END)
        return read_to_end(k, buf, len, n, eb);
    if (k->head.body_length == HTTP_CHUNKED) {
        rc = inbuf_chunked(&k->in, &k->chunked, call_answer_receive, k, buf, len, n,
                           &k->ended, eb);
        return rc == ERR_BAD_REQUEST ? not_http(k, k->chunked.why, eb) : rc;
    }
    rc = inbuf_sized(&k->in, &k->left, call_answer_receive, k, buf, len, n, eb);
    k->ended = k->left == 0;
    return rc;
}

bool
call_skip_rest(struct http_call *k)
{
    char over[1024];

    while (!k->ended && inbuf_here(&k->in) > 0 && k->head.body_length != HTTP_TO_END) {
        size_t n;

        /* With bytes in the buffer a step does not wait, except for an incomplete chunk line. */
        if (k->head.body_length == HTTP_CHUNKED ||
            http_call_read(k, over, sizeof over, &n, NULL) != ERR_OK)
            return false;
    }
    return k->ended;
}
