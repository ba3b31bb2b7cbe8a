/* reply: the answer. Its head is built in one place, right before the handler's own
 * lines, and leaves together with the first bytes of the body. */
#include "base/log.h"
#include "http/internal.h"
#include "rt/sendable.h"

#define IOV_MAX_HERE 16
/* From this size on the socket's unsent low-water mark is lowered: a slow reader pins memory. */
#define LOWAT_FROM  (256u << 10)
#define LOWAT_BYTES (128u << 10)

void
reply_begin(struct http_conn *c)
{
    struct work *w = c->work;
    char *lines_at = w->reply.lines_at;

    memset(&w->reply, 0, sizeof w->reply);
    w->reply.lines_at = lines_at;
    w->reply.lines =
        (struct http_lines){.at = lines_at + REPLY_PREFIX_MAX, .room = REPLY_LINES_MAX};
}

/* ---- lines ---- */

static struct http_lines *
lines_of(struct http_request *r)
{
    struct work *w = r->conn->work;

    assert(w->reply.state == REPLY_NONE);
    return &w->reply.lines;
}

void
http_header(struct http_request *r, const char *name, struct span value)
{
    http_put(lines_of(r), name, value);
}

void
http_header_own(struct http_request *r, struct span name, struct span value)
{
    http_put_own(lines_of(r), name, value);
}

void
http_header_u64(struct http_request *r, const char *name, uint64_t value)
{
    http_put_u64(lines_of(r), name, value);
}

void
http_headerf(struct http_request *r, const char *name, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof text)
        lines_of(r)->bad = true;
    else
        http_put(lines_of(r), name, (struct span){text, (size_t)n});
}

void
http_headers_clear(struct http_request *r)
{
    struct http_lines *l = lines_of(r);

    l->len = 0;
    l->bad = false;
}

void
http_header_lines(struct http_request *r, struct span lines)
{
    http_put_lines(lines_of(r), lines);
}

struct span
http_header_text(const struct http_request *r)
{
    const struct http_lines *l = &r->conn->work->reply.lines;

    return (struct span){l->at, l->bad ? 0 : l->len};
}

/* ---- the head ---- */

static void
put_framing(struct http_conn *c, struct http_lines *p)
{
    struct work *w = c->work;
    int64_t length = w->reply.length;

    if (length == HTTP_CHUNKED && w->head.minor == 0) {
        w->reply.raw_chunked = true;
        w->reply.close_after = true;
    }
    if (!w->head.keep_alive || !body_can_finish(c) ||
        atomic_load_explicit(&c->server->draining, memory_order_relaxed))
        w->reply.close_after = true;
    if (w->reply.close_after)
        http_put(p, "Connection", SPAN("close"));
    else if (w->head.minor == 0)
        http_put(p, "Connection", SPAN("keep-alive"));
    if (w->reply.status == 204 || w->reply.status == 304)
        return;
    if (length >= 0)
        http_put_length(p, (uint64_t)length);
    else if (!w->reply.raw_chunked)
        http_put(p, "Transfer-Encoding", SPAN("chunked"));
}

/* Builds the head. ERR_INTERNAL: a line is invalid; an error reply is still possible. */
static enum err
build(struct http_conn *c, int status, int64_t length)
{
    struct work *w = c->work;
    char room[REPLY_PREFIX_MAX], *at;
    struct http_lines p = {.at = room, .room = sizeof room};

    assert(w->reply.state == REPLY_NONE);
    assert(length >= HTTP_CHUNKED);
    if (c->server->handler.may_answer != NULL && status < 500 &&
        !c->server->handler.may_answer(&w->request, c->server->handler.arg)) {
        w->reply.barred = true;
        return ERR_UNAVAILABLE;
    }
    http_put_end(&w->reply.lines);
    if (w->reply.lines.bad) {
        LOG(LOG_ERROR, "http.bad_lines",
            "an answer's headers were too long or held control bytes",
            L_TEXT("request_id", w->id), L_SPAN("target", w->head.target));
        http_headers_clear(&w->request);
        return ERR_INTERNAL;
    }
    w->reply.status = status;
    w->reply.length = length;
    w->reply.silent =
        w->head.method == HTTP_METHOD_HEAD || status == 204 || status == 304;
    http_put_status(&p, status);
    http_put_lines(&p, conn_date_lines(c->loop, w->request.began_ns));
    put_framing(c, &p);
    assert(!p.bad);
    at = w->reply.lines.at - p.len;
    memcpy(at, room, p.len);
    w->reply.head = (struct span){at, p.len + w->reply.lines.len};
    w->reply.state = REPLY_HELD;
    if (length > (int64_t)LOWAT_FROM && !w->reply.silent)
        rt_stream_set_lowat(c->stream, LOWAT_BYTES);
    return ERR_OK;
}

/* In front of a head's date, and the date. */
#define DATE_AT  (sizeof "HTTP/1.1 200 OK\r\n" - 1)
#define DATE_LEN (sizeof "Date: Sat, 21 Nov 2026 15:16:00 GMT\r\n" - 1)

size_t
http_template_make(const struct http_request *r, uint64_t length, char *out, size_t room,
                   size_t *lines_at)
{
    const struct http_lines *lines = &r->conn->work->reply.lines;
    struct http_lines l = {.at = out, .room = room};

    http_put_status(&l, 200);
    assert(l.bad || l.len == DATE_AT);
    http_put_lines(&l, conn_date_lines(r->conn->loop, r->began_ns));
    http_put_length(&l, length);
    *lines_at = l.len;
    http_put_lines(&l, (struct span){lines->at, lines->len});
    http_put_end(&l);
    return l.bad || lines->bad ? 0 : l.len;
}

char *
http_reply_template(struct http_request *r, struct span form, size_t lines_at)
{
    struct http_conn *c = r->conn;
    struct work *w = c->work;
    char *at = w->reply.lines_at;

    assert(w->reply.state == REPLY_NONE);
    assert(form.len > DATE_AT + DATE_LEN && form.len <= REPLY_LINES_MAX);
    if (!w->is_inline || !w->head.keep_alive || w->head.minor == 0 || r->draining ||
        w->head.method != HTTP_METHOD_GET || w->body.state != BODY_ENDED)
        return NULL;
    memcpy(at, form.at, form.len);
    memcpy(at + DATE_AT, conn_date_lines(c->loop, r->began_ns).at, DATE_LEN);
    w->reply.head = (struct span){at, form.len};
    return at + lines_at;
}

bool
http_reply_began(const struct http_request *r)
{
    return r->conn->work->reply.state != REPLY_NONE;
}

bool
http_reply_wants_body(const struct http_request *r)
{
    return !r->conn->work->reply.silent && r->head->method != HTTP_METHOD_HEAD;
}

bool
http_reply_is_barred(const struct http_request *r)
{
    return r->conn->work->reply.barred;
}

void
http_reply_close_after(struct http_request *r)
{
    assert(r->conn->work->reply.state == REPLY_NONE);
    r->conn->work->reply.close_after = true;
}

/* ---- sending ---- */

/* Sends all bytes, in slices: a client that takes some bytes within send_stall_ms is alive.
 * May switch. */
static enum err
reply_send_all(struct http_conn *c, struct iovec *iov, int count, bool more)
{
    struct work *w = c->work;
    enum err rc = ERR_OK;
    int i = 0;

    while (i < count && rc == ERR_OK) {
        struct iovec part[IOV_MAX_HERE];
        size_t len = 0;
        int n = 0;

        while (i < count && n < IOV_MAX_HERE && len < SEND_SLICE) {
            size_t take = MIN(iov[i].iov_len, SEND_SLICE - len);

            part[n++] = (struct iovec){iov[i].iov_base, take};
            len += take;
            iov[i].iov_base = (char *)iov[i].iov_base + take;
            iov[i].iov_len -= take;
            if (iov[i].iov_len == 0)
                i++;
        }
        c->stalled_ns = STALLED_NOW;
        rc = (more || i < count ? rt_sendv_more : rt_sendv)(
            c->stream, part, n, deadline_in_ms(c->server->options.send_stall_ms), NULL);
    }
    c->stalled_ns = 0;
    if (rc != ERR_OK)
        w->reply.state = REPLY_FAILED;
    w->reply.last_ns = rt_now_ns();
    if (rc == ERR_OK && w->reply.first_ns == 0)
        w->reply.first_ns = w->reply.last_ns;
    return rc == ERR_OK || rc == ERR_TIMEOUT || rc == ERR_CANCELLED ? rc : ERR_CLOSED;
}

/* Sends the head, if it is still held, with up to IOV_MAX_HERE - 3 pieces of the body.
 * May switch. */
static enum err
send_pieces(struct http_conn *c, const struct iovec *iov, int count, size_t len)
{
    struct work *w = c->work;
    bool coded = w->reply.length == HTTP_CHUNKED && !w->reply.raw_chunked;
    char chunk[HTTP_CHUNK_HEAD_ROOM];
    struct iovec all[IOV_MAX_HERE];
    bool more = (int64_t)(w->reply.written + len) < w->reply.length;
    int n = 0;

    assert(count <= IOV_MAX_HERE - 3);
    if (w->reply.state == REPLY_HELD && len <= BATCHED_REPLY_MAX && !more &&
        rt_others_ready())
        rt_yield();
    if (w->reply.state == REPLY_HELD)
        all[n++] = (struct iovec){(char *)(uintptr_t)w->reply.head.at, w->reply.head.len};
    if (coded && len > 0)
        all[n++] = (struct iovec){chunk, http_chunk_head(chunk, len)};
    for (int i = 0; i < count; i++) {
        if (iov[i].iov_len > 0)
            all[n++] = iov[i];
    }
    if (coded && len > 0)
        all[n++] = (struct iovec){(char *)(uintptr_t) "\r\n", 2};
    w->reply.state = REPLY_SENDS;
    return n > 0 ? reply_send_all(c, all, n, more) : ERR_OK;
}

enum err
http_reply_begin(struct http_request *r, int status, int64_t length)
{
    return build(r->conn, status, length);
}

enum err
http_reply_writev(struct http_request *r, struct iovec *iov, int count)
{
    struct work *w = r->conn->work;
    enum err rc = ERR_OK;

    if (w->reply.state == REPLY_FAILED)
        return ERR_CLOSED;
    assert(w->reply.state == REPLY_HELD || w->reply.state == REPLY_SENDS);
    while (count > 0 && rc == ERR_OK) {
        int n = MIN(count, IOV_MAX_HERE - 3);
        size_t len = 0;

        for (int i = 0; i < n; i++)
            len += iov[i].iov_len;
        assert(w->reply.length < 0 ||
               len <= (uint64_t)w->reply.length - w->reply.written);
        if (!w->reply.silent && len > 0)
            rc = send_pieces(r->conn, iov, n, len);
        if (rc == ERR_OK)
            w->reply.written += len;
        iov += n;
        count -= n;
    }
    return rc;
}

enum err
http_reply_write(struct http_request *r, const void *data, size_t len)
{
    struct iovec one = {(void *)(uintptr_t)data, len};

    return http_reply_writev(r, &one, 1);
}

/* The announced length is written: sends a head without a body, or the last chunk. May switch. */
static enum err
send_end(struct http_conn *c)
{
    struct work *w = c->work;
    bool coded =
        w->reply.length == HTTP_CHUNKED && !w->reply.raw_chunked && !w->reply.silent;
    struct iovec last = {(char *)(uintptr_t) "0\r\n\r\n", 5}, both[2];
    enum err rc = ERR_OK;
    int n = 0;

    if (w->reply.state == REPLY_HELD)
        both[n++] =
            (struct iovec){(char *)(uintptr_t)w->reply.head.at, w->reply.head.len};
    if (coded)
        both[n++] = last;
    if (n > 0)
        rc = reply_send_all(c, both, n, false);
    if (rc != ERR_OK)
        return rc;
    w->reply.state = REPLY_DONE;
    w->reply.whole = true;
    return ERR_OK;
}

enum err
http_reply_end(struct http_request *r)
{
    struct work *w = r->conn->work;

    if (w->reply.state == REPLY_FAILED)
        return ERR_CLOSED;
    if (w->reply.state == REPLY_DONE)
        return ERR_OK;
    assert(w->reply.state != REPLY_NONE);
    if (!w->reply.silent && w->reply.length >= 0 &&
        w->reply.written < (uint64_t)w->reply.length) {
        http_reply_abort(r);
        return ERR_INCOMPLETE;
    }
    return send_end(r->conn);
}

/* Head and body in one send. */
static enum err
reply_with(struct http_conn *c, int status, const struct span *pieces, unsigned count,
           size_t len)
{
    struct work *w = c->work;
    enum err rc = build(c, status, (int64_t)len);
    struct iovec iov[HTTP_ZERO_COPY_MAX];

    if (rc != ERR_OK)
        return rc;
    for (unsigned i = 0; i < count; i++)
        iov[i] = (struct iovec){(char *)(uintptr_t)pieces[i].at, pieces[i].len};
    if (!w->reply.silent && len > 0)
        rc = send_pieces(c, iov, (int)count, len);
    w->reply.written = len;
    return rc == ERR_OK ? send_end(c) : rc;
}

enum err
http_reply(struct http_request *r, int status, struct span body)
{
    return reply_with(r->conn, status, &body, 1, body.len);
}

enum err
http_reply_last(struct http_request *r, int status)
{
    struct work *w = r->conn->work;
    enum err rc = build(r->conn, status, 0);

    assert(!w->is_inline);
    if (rc != ERR_OK)
        return rc;
    w->reply.batched = conn_may_batch_reply(r->conn);
    return w->reply.batched ? ERR_OK : send_end(r->conn);
}

void
reply_release(struct work *w)
{
    void (*release)(void *arg) = w->reply.release;

    w->reply.release = NULL;
    if (release != NULL)
        release(w->reply.release_arg);
}

static bool
is_one_piece(const struct work *w)
{
    return w->reply.zero_copy_count == 1 &&
           w->reply.head.at + w->reply.head.len == w->reply.lent[0].at;
}

int
reply_rest(const struct work *w, size_t from, struct iovec out[1 + HTTP_ZERO_COPY_MAX])
{
    int n = 0;

    if (is_one_piece(w)) {
        struct span s = w->reply.head;

        out[0] = (struct iovec){(char *)(uintptr_t)s.at + from,
                                s.len + w->reply.zero_copy_bytes - from};
        return 1;
    }
    for (unsigned i = 0; i <= w->reply.zero_copy_count; i++) {
        struct span s = i == 0 ? w->reply.head : w->reply.lent[i - 1];
        size_t gone = MIN(from, s.len);

        from -= gone;
        if (gone < s.len)
            out[n++] = (struct iovec){(char *)(uintptr_t)s.at + gone, s.len - gone};
    }
    return n;
}

void
http_reply_headroom(struct http_request *r, size_t room)
{
    r->conn->work->reply.room = room;
}

/* Copies the head in front of a single piece: one buffer instead of two saves the kernel more than the copy costs. */
static void
put_head_in_front(struct work *w)
{
    struct span h = w->reply.head;
    char *at = (char *)(uintptr_t)w->reply.lent[0].at - h.len;

    if (w->reply.zero_copy_count != 1 || h.len > w->reply.room ||
        h.len + w->reply.zero_copy_bytes >= RT_ZERO_COPY_MIN)
        return; /* nor with zero-copy sends: the kernel would still read memory that the next head overwrites */
    memcpy(at, h.at, h.len);
    w->reply.head.at = at;
}

/* Sends a head from http_reply_template() with its body. */
static enum err
begin_from_template(struct http_conn *c, int status, int64_t length)
{
    struct work *w = c->work;

    assert(w->is_inline && status == 200);
    w->reply.status = status;
    w->reply.length = length;
    w->reply.state = REPLY_HELD;
    if (length > (int64_t)LOWAT_FROM)
        rt_stream_set_lowat(c->stream, LOWAT_BYTES);
    return ERR_OK;
}

enum err
http_reply_zero_copy(struct http_request *r, int status, const struct span *pieces,
                     unsigned count, void (*release)(void *arg), void *arg)
{
    struct http_conn *c = r->conn;
    struct work *w = c->work;
    size_t len = 0;
    enum err rc;

    assert(count >= 1);
    assert(count <= HTTP_ZERO_COPY_MAX);
    assert(release != NULL);
    assert(w->reply.release == NULL);
    assert(w->reply.state == REPLY_NONE);
    for (unsigned i = 0; i < count; i++)
        len += pieces[i].len;
    w->reply.release = release;
    w->reply.release_arg = arg;
    rc = w->reply.head.len > 0 ? begin_from_template(c, status, (int64_t)len)
         : w->is_inline        ? build(c, status, (int64_t)len)
                               : reply_with(c, status, pieces, count, len);
    if (rc != ERR_OK || !w->is_inline) {
        reply_release(w);
        return rc;
    }
    w->reply.written = len;
    if (w->reply.silent)
        return ERR_OK;
    memcpy(w->reply.lent, pieces, count * sizeof *pieces);
    w->reply.zero_copy_count = count;
    w->reply.zero_copy_bytes = len;
    put_head_in_front(w);
    return ERR_OK;
}

void
reply_send_rest(struct http_conn *c)
{
    struct work *w = c->work;
    struct iovec rest[1 + HTTP_ZERO_COPY_MAX];
    enum err rc;

    assert(w->reply.state == REPLY_SENDS);
    assert(w->reply.sent <= w->reply.head.len + w->reply.zero_copy_bytes);
    rc = reply_send_all(c, rest, reply_rest(w, w->reply.sent, rest), false);
    reply_release(w);
    if (rc == ERR_OK) {
        w->reply.state = REPLY_DONE;
        w->reply.whole = true;
    }
}

void
http_reply_abort(struct http_request *r)
{
    r->conn->work->reply.state = REPLY_FAILED;
}

/* ---- replies that the handler left unfinished ---- */

void
reply_error(struct http_conn *c, int status, const char *why)
{
    struct work *w = c->work;
    const struct http_handler *h = &c->server->handler;
    const char *type = "text/plain";
    char body[1024];
    size_t len;

    http_headers_clear(&w->request);
    if (status == 503)
        http_header_u64(&w->request, "Retry-After", c->server->options.retry_after_s);
    if (h->error_body != NULL) {
        len = h->error_body(status, why, w->id, body, sizeof body, &type, h->arg);
    } else {
        int n = snprintf(body, sizeof body, "%d %s: %s (request %s)\n", status,
                         http_reason(status), why, w->id);

        len = n < 0 ? 0 : MIN((size_t)n, sizeof body - 1);
    }
    assert(len <= sizeof body);
    http_header(&w->request, "Content-Type", span_of(type));
    /* A failure sets the reply state, and the connection is reset. */
    (void)http_reply(&w->request, status, (struct span){body, len});
}

void
reply_finish(struct http_conn *c)
{
    struct work *w = c->work;

    switch (w->reply.state) {
    case REPLY_NONE:
        if (w->body.state == BODY_FAILED || rt_cancelled())
            w->reply.state = REPLY_FAILED; /* the client disconnected */
        else if (w->reply.barred)
            reply_error(c, 503,
                        "this node may not answer now: it has lost touch with the "
                        "cluster; retry later");
        else
            reply_error(c, 500, "the request found no answer");
        break;
    case REPLY_HELD:
    case REPLY_SENDS:
        (void)http_reply_end(
            &w->request); /* a short body aborts the reply and sets its state */
        break;
    case REPLY_DONE:
    case REPLY_FAILED:
        break;
    }
}
