/* call: one request and its answer, on a connection of the pool. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "http/client.h"
#include "http/inbuf.h"
#include "http/pool.h"
#include "rt/loop.h"

#define LINES_MAX   32768u
#define BUFFER      16384u
#define SPACES_KEPT 32u
/* A send of more goes in slices of this size, each with its own deadline. */
#define SEND_SLICE (1u << 20)
/* Heads with 1xx that may come before the answer. */
#define INTERIM_MAX 16u

struct http_call {
    struct list link; /* in pool->spaces while idle */
    struct pool *pool;
    struct pool_conn *conn;
    struct http_call_request
        req;                   /* host and so on: only until http_call_begin() returns */
    const struct proxy *proxy; /* NULL: none */
    struct deadline by;
    uint64_t first_byte_ms, between_ms;
    enum http_method method;
    char *lines_at; /* owned */
    struct http_lines lines;
    bool held; /* the head waits for the first piece */
    bool
        may_repeat; /* on a reused connection, method idempotent, nothing of a body taken */
    int64_t length;
    uint64_t written;
    bool sent_all; /* the request is out, its last chunk too */
    bool answered; /* the answer's head is read */

    struct inbuf in;
    struct http_head head; /* borrows from `in` */
    uint64_t left;
    struct http_chunked chunked;
    bool ended;  /* the answer's body */
    bool broken; /* nothing may follow on this connection */
    unsigned interim;
};

/* ---- spaces ---- */

static void
space_free(struct http_call *k)
{
    free(k->lines_at);
    inbuf_fini(&k->in);
    free(k);
}

void
call_spaces_free(struct pool *p)
{
    struct list *n;

    while ((n = list_pop_front(&p->spaces)) != NULL)
        space_free(LIST_ENTRY(n, struct http_call, link));
    p->spaces_idle = 0;
}

static struct http_call *
space_take(struct pool *p)
{
    struct list *n = list_pop_front(&p->spaces);
    struct http_call *k;

    if (n != NULL) {
        p->spaces_idle--;
        return LIST_ENTRY(n, struct http_call, link);
    }
    k = xcalloc(1, sizeof *k);
    k->lines_at = xmalloc(LINES_MAX);
    inbuf_init(&k->in, BUFFER);
    return k;
}

static void
space_give(struct pool *p, struct http_call *k)
{
    if (p->spaces_idle >= SPACES_KEPT || k->in.room != BUFFER) {
        space_free(k);
        return;
    }
    list_init(&k->link);
    list_push_front(&p->spaces, &k->link);
    p->spaces_idle++;
}

/* ---- sending ---- */

/* Sends all, in slices that each have their time. May switch. */
static enum err
send_all(struct http_call *k, struct iovec *iov, int count, struct errbuf *eb)
{
    enum err rc = ERR_OK;
    int i = 0;

    while (i < count && rc == ERR_OK) {
        struct iovec part[4];
        size_t len = 0;
        int n = 0;

        while (i < count && n < 4 && len < SEND_SLICE) {
            size_t take = MIN(iov[i].iov_len, SEND_SLICE - len);

            part[n++] = (struct iovec){iov[i].iov_base, take};
            len += take;
            iov[i].iov_base = (char *)iov[i].iov_base + take;
            iov[i].iov_len -= take;
            if (iov[i].iov_len == 0)
                i++;
        }
        rc = rt_sendv(k->conn->stream, part, n,
                      deadline_sooner(k->by, deadline_in_ms(k->between_ms)), eb);
    }
    if (rc != ERR_OK)
        k->broken = true;
    if (rc == ERR_IO)
        rc = ERR_CLOSED;
    return rc;
}

static struct iovec
piece(const void *at, size_t len)
{
    return (struct iovec){(void *)(uintptr_t)at, len};
}

/* Sends the head, if it is still held, then `len` bytes of the body, or, with `last`,
 * the end of a chunked one. May switch. */
static enum err
send_pieces(struct http_call *k, const void *data, size_t len, bool last,
            struct errbuf *eb)
{
    bool coded = k->length == HTTP_CHUNKED;
    char chunk[HTTP_CHUNK_HEAD_ROOM];
    struct iovec all[4];
    int n = 0;

    if (k->held)
        all[n++] = piece(k->lines_at, k->lines.len);
    if (coded && len > 0)
        all[n++] = piece(chunk, http_chunk_head(chunk, len));
    if (len > 0)
        all[n++] = piece(data, len);
    if (coded && len > 0)
        all[n++] = piece("\r\n", 2);
    if (coded && last)
        all[n++] = piece("0\r\n\r\n", 5);
    k->held = false;
    return n > 0 ? send_all(k, all, n, eb) : ERR_OK;
}

/* ---- the answer's head ---- */

static enum err
not_http(struct http_call *k, const char *why, struct errbuf *eb)
{
    k->broken = true;
    return err_set(eb, ERR_BACKEND, "the answer of %s is not HTTP as it should be: %s",
                   rt_stream_peer(k->conn->stream), why);
}

/* Receives behind what is there. *n = 0: the end. May switch. */
static enum err
fill(struct http_call *k, struct deadline by, size_t *n, struct errbuf *eb)
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
begin_body(struct http_call *k)
{
    k->answered = true;
    k->ended = k->head.body_length == 0;
    k->left = k->head.body_length > 0 ? (uint64_t)k->head.body_length : 0;
    http_chunked_init(&k->chunked);
}

/* Looks at what is in the buffer. ERR_OK: a head was there: the answer's
 * (k->answered), or 100 Continue. ERR_BUSY: more is needed. */
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
            begin_body(k);
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

/* Waits for the next head that matters: the answer's, or, with `interim`, 100
 * Continue. May switch. */
static enum err
read_head(struct http_call *k, struct deadline by, bool interim, struct errbuf *eb)
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
        rc = fill(k, by, &n, eb);
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

/* Has the answer come while the request is still on its way? Never waits. */
static enum err
look_for_answer(struct http_call *k, struct errbuf *eb)
{
    enum err rc;

    if (k->answered || !rt_may_have_bytes(k->conn->stream))
        return ERR_OK;
    rc = read_head(k, (struct deadline){0}, false, eb);
    if (rc != ERR_TIMEOUT)
        return rc;
    err_forget(eb);
    return ERR_OK;
}

/* Sending failed. A server that refuses in the middle of a body answers and closes: is
 * the answer there? */
static enum err
answer_instead(struct http_call *k, enum err rc, struct errbuf *eb)
{
    if (rc != ERR_CLOSED || k->answered)
        return rc;
    if (read_head(k, deadline_in_ms(k->between_ms), false, NULL) != ERR_OK)
        return rc;
    k->broken = true;
    err_forget(eb);
    return ERR_OK;
}

/* ---- begin ---- */

/* What a proxy is asked for without a tunnel names the host: the one that the request is signed for, where it is. */
static void
put_first_line(struct http_call *k, const struct http_call_request *req, bool usual,
               bool six)
{
    struct buf target;

    if (k->proxy == NULL || req->tls) {
        http_put_request(&k->lines, req->method, req->target);
        return;
    }
    buf_init(&target, LINES_MAX);
    if (req->host_header.len > 0)
        buf_printf(&target, "http://%.*s", SPAN_ARG(req->host_header));
    else if (usual)
        buf_printf(&target, six ? "http://[%s]" : "http://%s", req->host);
    else
        buf_printf(&target, six ? "http://[%s]:%u" : "http://%s:%u", req->host,
                   req->port);
    buf_put(&target, req->target.at, req->target.len);
    http_put_request(&k->lines, req->method, buf_span(&target));
    k->lines.bad = k->lines.bad || target.full;
    buf_fini(&target);
    if (k->proxy->authorization != NULL)
        http_put(&k->lines, "Proxy-Authorization", span_of(k->proxy->authorization));
}

static void
build_head(struct http_call *k, const struct http_call_request *req)
{
    struct http_lines *l = &k->lines;
    bool usual = req->port == (req->tls ? 443 : 80);
    bool six = strchr(req->host, ':') != NULL && strncmp(req->host, "unix:", 5) != 0;

    *l = (struct http_lines){.at = k->lines_at, .room = LINES_MAX};
    k->proxy = pool_proxy(k->pool->client, req);
    put_first_line(k, req, usual, six);
    if (req->host_header.len > 0) {
        http_put(l, "Host", req->host_header);
    } else if (strncmp(req->host, "unix:", 5) == 0) {
        http_put(l, "Host", SPAN("localhost"));
    } else {
        char host[300];
        int n = snprintf(host, sizeof host, six ? "[%s]" : "%s", req->host);

        l->bad = l->bad || n < 0 || n > 280;
        if (!usual && !l->bad)
            n += snprintf(host + n, 8, ":%u", req->port);
        if (!l->bad)
            http_put(l, "Host", (struct span){host, (size_t)n});
    }
    for (size_t i = 0; i < req->headers.count && !l->bad; i++) {
        char *name = xmemdup0(req->headers.at[i].name.at, req->headers.at[i].name.len);

        http_put(l, name, req->headers.at[i].value);
        free(name);
    }
    if (req->length == HTTP_CHUNKED)
        http_put(l, "Transfer-Encoding", SPAN("chunked"));
    else if (req->length >= 0)
        http_put_u64(l, "Content-Length", (uint64_t)req->length);
    if (req->expect_continue)
        http_put(l, "Expect", SPAN("100-continue"));
    http_put_end(l);
}

static bool
is_idempotent(enum http_method m)
{
    return m == HTTP_METHOD_GET || m == HTTP_METHOD_HEAD || m == HTTP_METHOD_PUT ||
           m == HTTP_METHOD_DELETE || m == HTTP_METHOD_OPTIONS;
}

/* A connection, and everything as before the first byte. May switch. */
static enum err
attach(struct http_call *k, bool fresh, struct errbuf *eb)
{
    bool reused;
    enum err rc;

    pool_give(&k->conn, false);
    k->in.at = k->in.end = 0;
    k->broken = false;
    k->held = true;
    http_head_init(&k->head);
    rc = pool_take(k->pool, &k->req, fresh, k->by, &k->conn, &reused, eb);
    k->may_repeat = rc == ERR_OK && reused && is_idempotent(k->method);
    return rc;
}

/* The connection was pooled and has died: is another try right? `rc` is what befell
 * it. */
static bool
should_repeat(const struct http_call *k, enum err rc)
{
    return rc == ERR_CLOSED && k->may_repeat && k->written == 0 && !k->answered &&
           k->in.end == 0 && k->interim == 0;
}

static void
begin_again(struct http_call *k, struct errbuf *eb)
{
    k->pool->stats.retried++;
    err_forget(eb);
}

/* Sends what can go without the caller's body: a whole request without one, or the
 * head that asks for 100 Continue, and waits for that. May switch. */
static enum err
send_first(struct http_call *k, struct errbuf *eb)
{
    bool none = k->length == HTTP_NO_BODY || k->length == 0;
    enum err rc;

    if (!none && !k->req.expect_continue)
        return ERR_OK;
    rc = send_pieces(k, NULL, 0, false, eb);
    if (rc == ERR_OK && none) {
        k->sent_all = true;
        return ERR_OK;
    }
    if (rc != ERR_OK)
        return rc;
    rc = read_head(k, deadline_in_ms(k->pool->client->options.continue_ms), true, eb);
    /* A server that knows nothing of Expect waits for the body. */
    if (rc != ERR_TIMEOUT || deadline_passed(k->by))
        return rc;
    err_forget(eb);
    return ERR_OK;
}

/* What http_call_request borrowed from the caller is kept for a repetition: the pool
 * asks for it by name. */
static void
own_names(struct http_call *k, const struct http_call_request *req)
{
    k->req = *req;
    k->req.host = xstrdup(req->host);
    k->req.tls_name = req->tls_name != NULL ? xstrdup(req->tls_name) : NULL;
}

static void
call_free(struct http_call *k)
{
    free((char *)(uintptr_t)k->req.host);
    free((char *)(uintptr_t)k->req.tls_name);
    k->req.host = k->req.tls_name = NULL;
    space_give(k->pool, k);
}

enum err
http_call_begin(struct http_client *c, const struct http_call_request *req,
                struct http_call **out, struct errbuf *eb)
{
    struct pool *p = &c->at[rt_loop_index()];
    struct http_call *k = space_take(p);
    enum err rc;

    *out = NULL;
    k->pool = p;
    k->conn = NULL;
    own_names(k, req);
    k->by = req->by.at_ns != 0 ? req->by : DEADLINE_NEVER;
    k->first_byte_ms =
        req->first_byte_ms != 0 ? req->first_byte_ms : c->options.first_byte_ms;
    k->between_ms = req->between_ms != 0 ? req->between_ms : c->options.between_ms;
    k->method = http_method_of(span_of(req->method));
    k->length = req->length;
    k->written = 0;
    k->sent_all = k->answered = k->ended = false;
    k->interim = 0;
    build_head(k, req);
    if (k->lines.bad)
        rc = err_set(eb, ERR_BAD_REQUEST,
                     "the headers of a request hold control bytes, or more than %u",
                     LINES_MAX);
    else
        rc = attach(k, req->fresh, eb);
    if (rc == ERR_OK) {
        rc = send_first(k, eb);
        if (should_repeat(k, rc)) {
            begin_again(k, eb);
            rc = attach(k, true, eb);
            if (rc == ERR_OK)
                rc = send_first(k, eb);
        }
        rc = rc != ERR_OK && k->conn != NULL ? answer_instead(k, rc, eb) : rc;
    }
    if (rc != ERR_OK) {
        pool_give(&k->conn, false);
        call_free(k);
        return rc;
    }
    *out = k;
    return ERR_OK;
}

/* ---- the request's body ---- */

enum err
http_call_write(struct http_call *k, const void *data, size_t len, struct errbuf *eb)
{
    enum err rc;

    assert(!k->sent_all);
    assert(k->length == HTTP_CHUNKED || len <= (uint64_t)k->length - k->written);
    if (len == 0)
        return ERR_OK;
    rc = k->held ? ERR_OK : look_for_answer(k, eb);
    if (rc != ERR_OK || k->answered)
        return rc;
    rc = send_pieces(k, data, len, false, eb);
    if (should_repeat(k, rc)) {
        begin_again(k, eb);
        rc = attach(k, true, eb);
        if (rc == ERR_OK)
            rc = send_pieces(k, data, len, false, eb);
    }
    k->written += len;
    return rc != ERR_OK && k->conn != NULL ? answer_instead(k, rc, eb) : rc;
}

/* Ends the request. May switch. */
static enum err
send_rest(struct http_call *k, struct errbuf *eb)
{
    enum err rc;

    if (k->sent_all || k->answered)
        return ERR_OK;
    assert(k->length == HTTP_CHUNKED || k->written == (uint64_t)k->length);
    rc = send_pieces(k, NULL, 0, true, eb);
    if (should_repeat(k, rc)) {
        begin_again(k, eb);
        rc = attach(k, true, eb);
        if (rc == ERR_OK)
            rc = send_pieces(k, NULL, 0, true, eb);
    }
    if (rc == ERR_OK)
        k->sent_all = true;
    return rc != ERR_OK && k->conn != NULL ? answer_instead(k, rc, eb) : rc;
}

static enum err
await_answer(struct http_call *k, struct errbuf *eb)
{
    enum err rc = read_head(k, deadline_in_ms(k->first_byte_ms), false, eb);

    if (rc != ERR_TIMEOUT)
        return rc;
    k->broken = true;
    return err_set(eb, rc, "no answer from %s within %" PRIu64 " ms",
                   rt_stream_peer(k->conn->stream), k->first_byte_ms);
}

enum err
http_call_finish(struct http_call *k, const struct http_head **head, struct errbuf *eb)
{
    enum err rc = send_rest(k, eb);

    *head = NULL;
    if (rc == ERR_OK && !k->answered) {
        rc = await_answer(k, eb);
        if (should_repeat(k, rc)) {
            begin_again(k, eb);
            k->sent_all = false;
            rc = attach(k, true, eb);
            if (rc == ERR_OK)
                rc = send_pieces(k, NULL, 0, true, eb);
            k->sent_all = rc == ERR_OK;
            if (rc == ERR_OK)
                rc = await_answer(k, eb);
        }
    }
    if (rc != ERR_OK)
        return rc;
    *head = &k->head;
    return ERR_OK;
}

const char *
http_call_proxy(const struct http_call *k)
{
    return k->proxy != NULL ? k->proxy->name : NULL;
}

bool
http_call_sent_all(const struct http_call *k)
{
    return k->sent_all;
}

/* ---- the answer's body ---- */

static enum err
receive(void *call, char *to, size_t len, size_t *n, struct errbuf *eb)
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
        return receive(k, to, len, n, eb);
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
        rc = inbuf_chunked(&k->in, &k->chunked, receive, k, buf, len, n, &k->ended, eb);
        return rc == ERR_BAD_REQUEST ? not_http(k, k->chunked.why, eb) : rc;
    }
    rc = inbuf_sized(&k->in, &k->left, receive, k, buf, len, n, eb);
    k->ended = k->left == 0;
    return rc;
}

/* ---- the end ---- */

/* Takes over what is here already of the answer's rest; true: that was all of it. */
static bool
skip_rest(struct http_call *k)
{
    char over[1024];

    while (!k->ended && inbuf_here(&k->in) > 0 && k->head.body_length != HTTP_TO_END) {
        size_t n;

        /* With bytes here a step waits for none, but for the lines of a chunk that are
         * cut. */
        if (k->head.body_length == HTTP_CHUNKED ||
            http_call_read(k, over, sizeof over, &n, NULL) != ERR_OK)
            return false;
    }
    return k->ended;
}

void
http_call_end(struct http_call **kp)
{
    struct http_call *k = *kp;
    bool clean;

    *kp = NULL;
    if (k == NULL)
        return;
    clean = k->answered && k->sent_all && !k->broken && k->head.keep_alive &&
            skip_rest(k) && inbuf_here(&k->in) == 0;
    pool_give(&k->conn, clean);
    call_free(k);
}

/* ---- all in one ---- */

static enum err
read_all(struct http_call *k, struct buf *out, struct errbuf *eb)
{
    for (;;) {
        /* One byte more than may come tells that more would come. */
        size_t room = MIN(out->limit - out->len, 65536), n;
        char one, *to = room > 0 ? buf_reserve(out, room) : &one;
        enum err rc;

        if (to == NULL)
            return err_set(eb, ERR_TOO_LARGE, "an answer of more than %zu bytes",
                           out->limit);
        rc = http_call_read(k, to, room > 0 ? room : 1, &n, eb);
        if (rc != ERR_OK || n == 0)
            return rc;
        if (room == 0)
            return err_set(eb, ERR_TOO_LARGE, "an answer of more than %zu bytes",
                           out->limit);
        out->len += n;
    }
}

enum err
http_call_simple(struct http_client *c, const struct http_call_request *req,
                 struct span body, int *status, struct buf *out,
                 void (*on_head)(const struct http_head *h, void *arg), void *arg,
                 struct errbuf *eb)
{
    const struct http_head *head;
    struct http_call *k;
    enum err rc = http_call_begin(c, req, &k, eb);

    if (rc != ERR_OK)
        return rc;
    if (body.len > 0)
        rc = http_call_write(k, body.at, body.len, eb);
    if (rc == ERR_OK)
        rc = http_call_finish(k, &head, eb);
    if (rc == ERR_OK) {
        *status = head->code;
        if (on_head != NULL)
            on_head(head, arg);
        rc = read_all(k, out, eb);
    }
    http_call_end(&k);
    return rc;
}
