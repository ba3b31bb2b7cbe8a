/* body: the request's body, by length or by chunks, within the client's time. */
#include "base/account.h"
#include "http/internal.h"

void
body_begin(struct http_conn *c)
{
    struct work *w = c->work;
    int64_t length = w->head.body_length;

    memset(&w->body, 0, sizeof w->body);
    /* A client that expects 100 Continue before an empty body gets it as well: botocore before 1.36 takes a final answer for that of the next request on the connection. */
    w->body.state = length != 0 || w->head.expect ? BODY_WAITS : BODY_ENDED;
    w->body.left = length > 0 ? (uint64_t)length : 0;
    if (length == HTTP_CHUNKED)
        http_chunked_init(&w->body.chunked);
}

int64_t
http_body_length(const struct http_request *r)
{
    return r->head->body_length;
}

void
http_body_trust(struct http_request *r)
{
    r->conn->work->body.trusted = true;
}

static enum err
body_fail(struct work *w, enum err rc)
{
    w->body.state = BODY_FAILED;
    metric_add(M_REQUESTS_BAD, REJECTED_BODY, 1);
    return rc;
}

/* How long the client may send nothing from now on. Only time spent waiting for the client counts, so a slow handler
 * does not use up the client's grace. */
static struct deadline
patience(const struct http_conn *c)
{
    const struct http_server_options *o = &c->server->options;
    const struct work *w = c->work;
    uint64_t allowed_ns, now = rt_now_ns();

    if (w->body.trusted)
        return (struct deadline){now + o->body_idle_ms * 1000000u};
    allowed_ns = o->body_grace_ms * 1000000u + w->body.read / o->body_rate * 1000000000u;
    return (struct deadline){
        now + (allowed_ns > w->body.waited_ns ? allowed_ns - w->body.waited_ns : 0)};
}

/* rt_recv() with the client's deadline; the end of the stream is an error here. May
 * switch. */
static enum err
body_receive(void *conn, char *to, size_t len, size_t *n, struct errbuf *eb)
{
    struct http_conn *c = conn;
    struct work *w = c->work;
    uint64_t from = rt_now_ns();
    enum err rc;

    c->stalled_ns = from;
    rc = rt_recv(c->stream, to, len, patience(c), n, NULL);
    c->stalled_ns = 0;
    w->body.waited_ns += rt_now_ns() - from;
    if (rc == ERR_OK && *n > 0)
        return ERR_OK;
    if (rc == ERR_TIMEOUT)
        return err_set(eb, body_fail(w, rc),
                       "the body came too slowly: %" PRIu64 " bytes of it are here",
                       w->body.read);
    if (rc == ERR_CANCELLED)
        return err_set(eb, body_fail(w, rc), "cancelled in the middle of the body");
    return err_set(eb, body_fail(w, ERR_INCOMPLETE),
                   "the client left after %" PRIu64 " bytes of its body", w->body.read);
}

/* Sends 100 Continue, if the client expects it, at the handler's first read. May switch. */
static enum err
say_continue(struct http_conn *c, struct errbuf *eb)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct work *w = c->work;
    enum err rc;

    /* No 100 Continue once body bytes have arrived, nor after a final head: the client would read it as body. */
    if (!w->head.expect || inbuf_here(&w->in) > 0 || w->reply.state > REPLY_HELD)
        return ERR_OK;
    rc = rt_send(c->stream, text, sizeof text - 1,
                 deadline_in_ms(c->server->options.body_idle_ms), NULL);
    if (rc == ERR_OK)
        return ERR_OK;
    return err_set(eb, body_fail(w, rc == ERR_CANCELLED ? rc : ERR_INCOMPLETE),
                   "the client left before its body");
}

static enum err
read_more(struct http_conn *c, char *to, size_t len, size_t *n, struct errbuf *eb)
{
    struct work *w = c->work;
    bool ended = false;
    enum err rc;

    if (w->head.body_length == HTTP_CHUNKED) {
        rc = inbuf_chunked(&w->in, &w->body.chunked, body_receive, c, to, len, n, &ended,
                           eb);
    } else {
        rc = inbuf_sized(&w->in, &w->body.left, body_receive, c, to, len, n, eb);
        ended = w->body.left == 0;
    }
    if (rc != ERR_OK)
        return w->body.state == BODY_FAILED
                   ? rc
                   : body_fail(w, rc); /* receive() has counted its own errors */
    if (ended)
        w->body.state = BODY_ENDED;
    w->body.read += *n;
    return ERR_OK;
}

bool
http_body_here(struct http_request *r, struct span *body)
{
    struct work *w = r->conn->work;

    if (w->body.state != BODY_WAITS || w->head.body_length <= 0 ||
        inbuf_here(&w->in) < w->body.left)
        return false;
    *body = (struct span){w->in.buf + w->in.at, w->body.left};
    w->in.at += body->len;
    w->body.read = body->len;
    w->body.left = 0;
    w->body.state = BODY_ENDED;
    return true;
}

enum err
http_body_read(struct http_request *r, void *buf, size_t len, size_t *n,
               struct errbuf *eb)
{
    struct http_conn *c = r->conn;
    struct work *w = c->work;
    enum err rc = ERR_OK;

    *n = 0;
    assert(len > 0);
    if (w->body.state == BODY_FAILED)
        return err_set(eb, ERR_INCOMPLETE, "the body has failed before");
    if (w->body.state == BODY_WAITS) {
        rc = say_continue(c, eb);
        if (rc != ERR_OK)
            return rc;
        w->body.state = w->head.body_length != 0 ? BODY_READS : BODY_ENDED;
    }
    return w->body.state == BODY_READS ? read_more(c, buf, len, n, eb) : ERR_OK;
}

enum err
http_body_all(struct http_request *r, size_t limit, struct span *out, struct errbuf *eb)
{
    int64_t known = http_body_length(r);
    size_t taken = known >= 0 ? MIN((size_t)known, limit) : limit;
    struct buf b;
    enum err rc = ERR_OK;
    char *copy = NULL;

    *out = (struct span){"", 0};
    if (known > 0 && (uint64_t)known > limit)
        return err_set(eb, ERR_TOO_LARGE, "a body of %" PRId64 " bytes, at most %zu",
                       known, limit);
    /* Counted twice: in the growing buffer and in the arena. */
    if (!account_reserve(ACCOUNT_DOCUMENTS, 2 * taken))
        return err_set(eb, ERR_BUSY, "no memory for a body of %zu bytes", taken);
    buf_init(&b, limit + 1);
    for (size_t n = 1; rc == ERR_OK && n > 0;) {
        size_t room = MIN(limit + 1 - b.len, 16384);
        char *to = buf_reserve(&b, room);

        rc = to == NULL
                 ? err_set(eb, ERR_TOO_LARGE, "a body of more than %zu bytes", limit)
                 : http_body_read(r, to, room, &n, eb);
        if (rc == ERR_OK)
            b.len += n;
        if (rc == ERR_OK && b.len > limit)
            rc = err_set(eb, ERR_TOO_LARGE, "a body of more than %zu bytes", limit);
    }
    if (rc == ERR_OK) {
        copy = arena_try(r->arena, b.len + 1);
        if (copy == NULL)
            rc = err_set(eb, ERR_BUSY, "no memory for a body of %zu bytes", b.len);
    }
    if (rc == ERR_OK) {
        if (b.len > 0)
            memcpy(copy, b.at, b.len);
        *out = (struct span){copy, b.len};
    }
    account_add(ACCOUNT_DOCUMENTS, -(int64_t)(2 * taken));
    buf_fini(&b);
    return rc;
}

/* True if the rest of a chunked body, with its end, is already received. */
static bool
has_last_chunk(const struct work *w)
{
    struct http_chunked probe = w->body.chunked;

    for (size_t at = w->in.at; at < w->in.end;) {
        struct span piece;
        size_t used;
        enum http_chunk what =
            http_chunked_next(&probe, w->in.buf + at, w->in.end - at, &used, &piece);

        if (what == HTTP_CHUNK_END || what == HTTP_CHUNK_BAD)
            return what == HTTP_CHUNK_END;
        at += used;
    }
    return false;
}

bool
body_can_finish(const struct http_conn *c)
{
    const struct work *w = c->work;

    if (w->body.state == BODY_ENDED || w->body.state == BODY_FAILED)
        return w->body.state == BODY_ENDED;
    /* A client without 100 Continue may send the body or not: the next bytes could be body or request. */
    if (w->body.state == BODY_WAITS && w->head.expect && inbuf_here(&w->in) == 0)
        return false;
    if (w->head.body_length == HTTP_CHUNKED)
        return has_last_chunk(w);
    return w->body.left <= c->server->options.drain_bytes;
}

bool
body_finish(struct http_conn *c)
{
    struct work *w = c->work;
    size_t n = 1;

    if (!body_can_finish(c))
        return false;
    /* Draining reads into the memory of the reply's lines: large enough that rejecting many bodies of 64 KiB takes few receive calls. */
    assert(w->reply.state == REPLY_DONE);
    while (n > 0) {
        if (http_body_read(&w->request, w->reply.lines_at, REPLY_LINES_MAX, &n, NULL) !=
            ERR_OK)
            return false;
    }
    return true;
}
