/* conn: one connection's life.
 *
 *     accepted -> parked <----------------------------+
 *                   | bytes: answered inline (inline.c), or
 *                   | a fiber, a work set             | all answered, no bytes left
 *                   v                                 |
 *               head read -> a slot (admit.c) -> handler -> reply -> rest of the body drained
 *                   | refused, closing, broken
 *                   v
 *               lingers or reset, closed
 */
#include "base/account.h"
#include "base/log.h"
#include "base/metrics.h"
#include <endian.h>

#include "http/internal.h"
#include "rt/frames.h"

/* Pipelined requests answered before the fiber yields to others of the loop. */
#define TURN_REQUESTS 16

enum { ACTIVE, IDLE }; /* labels of M_CONNECTIONS */

/* Renders the text again once a second; `now_ns` avoids another clock read. */
struct span
conn_date_lines(struct http_loop *l, uint64_t now_ns)
{
    if (now_ns >= l->date_until_ns) {
        uint64_t wall_ns = rt_wall_ns(), second = 1000000000u;
        char date[NUM_DATE_TEXT];
        int n;

        l->date_until_ns = rt_now_ns() + second - wall_ns % second;
        date_http((int64_t)(wall_ns / second), date);
        n = snprintf(l->date_lines, sizeof l->date_lines,
                     "Date: %s\r\nServer: forebay\r\n", date);
        assert(n > 0);
        assert((size_t)n < sizeof l->date_lines);
        l->date_len = (size_t)n;
    }
    return (struct span){l->date_lines, l->date_len};
}

/* Receives into the free room of the buffer. *n = 0: the end. May switch. */
static enum err
conn_fill(struct http_conn *c, struct deadline by, size_t *n)
{
    struct inbuf *b = &c->work->in;
    enum err rc = rt_recv(c->stream, b->buf + b->end, b->room - b->end, by, n, NULL);

    if (rc == ERR_OK)
        b->end += *n;
    return rc;
}

/* ---- heads ---- */

enum head_result {
    HEAD_READ,    /* work->head is there, and work->in stands behind it */
    HEAD_REFUSED, /* head.status and head.why tell */
    HEAD_QUIET,   /* no bytes after all: park again */
    HEAD_GONE,    /* the client disconnected, or stopped within the head */
};

/* Takes a head from the buffer: from the head cache, or parsed. */
static enum http_parse
parse_head(struct http_conn *c)
{
    struct work *w = c->work;
    struct inbuf *b = &w->in;
    enum http_parse parsed;

    if (w->head.scanned_ == 0 &&
        http_head_cache_parse(c->loop->known, &c->head_cache_at, &w->head, b->buf + b->at,
                              inbuf_here(b))) {
        b->body_at = b->at += w->head.len;
        return HTTP_DONE;
    }
    parsed = inbuf_head(b, &w->head, false, HTTP_METHOD_OTHER);
    if (parsed == HTTP_DONE)
        http_head_cache_insert(c->loop->known, &c->head_cache_at, &w->head,
                               b->buf + b->at - w->head.len);
    return parsed;
}

/* No request begins like that. */
static bool
is_tls_hello(const struct http_conn *c)
{
    const struct inbuf *b = &c->work->in;

    return c->server->options.tls == NULL && inbuf_here(b) > 0 && b->buf[b->at] == 0x16;
}

/* The client cannot read an answer in clear text; the operator can read the log. */
static void
tell_tls_hello(struct http_conn *c)
{
    metric_add(M_REQUESTS_BAD, REJECTED_FRAMING, 1);
    if (!atomic_exchange(&c->server->tls_told, true))
        LOG(LOG_WARN, "http.tls",
            "TLS on a plain HTTP port: the client must use http://, or set tls.cert and "
            "tls.key; this line comes once",
            L_TEXT("peer", rt_stream_peer(c->stream)));
}

/* May switch, but not before the first byte. */
static enum head_result
wait_for_head(struct http_conn *c)
{
    struct work *w = c->work;
    struct deadline by = {0};

    http_head_init(&w->head);
    for (;;) {
        enum http_parse parsed = parse_head(c);
        enum err rc;
        size_t n;

        if (parsed != HTTP_MORE) {
            c->stalled_ns = 0;
            return parsed == HTTP_DONE ? HEAD_READ : HEAD_REFUSED;
        }
        if (is_tls_hello(c)) {
            tell_tls_hello(c);
            return HEAD_GONE;
        }
        if (inbuf_here(&w->in) > 0 && by.at_ns == 0) {
            by = deadline_in_ms(c->server->options.header_ms);
            admit_head_begin(c);
            c->stalled_ns = c->head_ns;
        }
        rc = conn_fill(c, by, &n);
        if (rc == ERR_TIMEOUT && inbuf_here(&w->in) == 0)
            return HEAD_QUIET;
        if (rc == ERR_TIMEOUT) {
            w->head.status = 408;
            w->head.why = "the headers took too long";
            return HEAD_REFUSED;
        }
        if (rc != ERR_OK || n == 0)
            return HEAD_GONE;
    }
}

static enum head_result
conn_read_head(struct http_conn *c)
{
    enum head_result result = wait_for_head(c);

    admit_head_over(c);
    return result;
}

/* Eight digits at once: each in a byte of its own, the first in the lowest, then the letters moved up. */
static void
put_hex(char out[8], uint32_t x)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t v = __builtin_bswap32(x), letters;

    v = (v | v << 16) & UINT64_C(0x0000ffff0000ffff);
    v = (v | v << 8) & UINT64_C(0x00ff00ff00ff00ff);
    v = (v >> 4 | v << 8) & (ones * 0x0f);
    letters = (v + ones * 6) >> 4 & ones;
    v += ones * '0' + letters * ('a' - '0' - 10);
    v = htole64(v);
    memcpy(out, &v, sizeof v);
}

/* A bijection, so that ids of one server are unique; it hides the count of requests. */
static void
name_request(struct http_loop *l, char out[17])
{
    uint64_t x = l->server->id_seed + ((uint64_t)(l - l->server->at) << 48) + l->ids++;

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    put_hex(out, (uint32_t)(x >> 32));
    put_hex(out + 8, (uint32_t)x);
    out[16] = '\0';
}

void
conn_begin_request(struct http_conn *c, uint64_t now_ns)
{
    struct work *w = c->work;

    name_request(c->loop, w->id);
    w->request = (struct http_request){
        .head = &w->head,
        .arena = w->arena,
        .id = w->id,
        .peer = rt_stream_peer(c->stream),
        .is_loopback = rt_stream_is_loopback(c->stream),
        .is_tls = rt_stream_is_tls(c->stream),
        .draining = atomic_load_explicit(&c->server->draining, memory_order_relaxed),
        .tried = w->tried,
        .began_ns = now_ns,
        .conn = c,
    };
    w->tried = false;
    body_begin(c);
    reply_begin(c);
}

void
http_request_pass_on(struct http_request *r, const char *id, const char *peer,
                     bool is_loopback, bool is_tls)
{
    struct work *w = r->conn->work;

    assert(r == &w->request);
    assert(w->reply.state == REPLY_NONE);
    assert(strlen(id) == 16);
    memcpy(w->id, id, 16);
    r->peer = peer;
    r->is_loopback = is_loopback;
    r->is_tls = is_tls;
}

/* ---- requests ---- */

void
conn_refuse(struct http_conn *c, enum http_rejected label, int status, const char *why)
{
    conn_count_event(&c->loop->refused);
    metric_add(M_REQUESTS_BAD, label, 1);
    reply_error(c, status, why);
}

void
conn_report_done(struct http_conn *c)
{
    struct work *w = c->work;
    const struct http_handler *h = &c->server->handler;
    uint64_t now = w->reply.last_ns;
    struct http_done d;

    if (h->on_done == NULL)
        return;
    if (now == 0)
        now = rt_now_ns();
    d = (struct http_done){
        .status = w->reply.first_ns != 0 ? w->reply.status : 0,
        .duration_ns = now - w->request.began_ns,
        .first_byte_ns =
            w->reply.first_ns != 0 ? w->reply.first_ns - w->request.began_ns : 0,
        .bytes_in = w->body.read,
        .bytes_out = w->reply.silent ? 0 : w->reply.written,
        .whole = w->reply.whole,
    };
    h->on_done(&w->request, &d, h->arg);
}

/* Serves one request whose head is read, to its end or to a batched reply. True: another may follow. May switch. */
static bool
serve_request(struct http_conn *c)
{
    struct work *w = c->work;
    struct rt_retries retries;
    bool keep;

    conn_begin_request(c, rt_now_ns());
    conn_count_event(&c->loop->requests);
    if (admit(c)) {
        rt_retries_begin(&retries);
        c->server->handler.handle(&w->request, c->server->handler.arg);
        rt_retries_end(&retries);
        if (w->reply.batched && w->reply.state == REPLY_HELD)
            return true;
        reply_finish(c);
        admit_over(c);
        conn_report_done(c);
    }
    keep = w->reply.state == REPLY_DONE && !w->reply.close_after && body_finish(c);
    arena_reset(w->arena);
    return keep;
}

static void
refuse_head(struct http_conn *c)
{
    struct work *w = c->work;
    int status = w->head.status;

    conn_begin_request(c, rt_now_ns());
    w->head.keep_alive = false;
    conn_refuse(c,
                status == 408                    ? REJECTED_TIMEOUT
                : status == 431 || status == 414 ? REJECTED_HEADER
                                                 : REJECTED_FRAMING,
                status, w->head.why);
}

/* ---- the end ---- */

/* Lingering close. If the server closed while the client still sends, the client's kernel would discard the reply. So
 * the server shuts down its direction and drains the other for a while. May switch. */
static void
conn_linger(struct http_conn *c)
{
    struct work *w = c->work;
    uint64_t quiet_ms = c->server->options.linger_ms, dropped = 0;
    /* A client that was too slow for its head is not waited for again. */
    struct deadline last =
        deadline_in_ms(w->head.status == 408 ? quiet_ms : 10 * quiet_ms);
    size_t n = 1;

    if (rt_send_end(c->stream, deadline_in_ms(quiet_ms)) != ERR_OK)
        return;
    while (n > 0 && dropped < LINGER_BYTES_MAX) {
        w->in.at = w->in.end = 0;
        if (conn_fill(c, deadline_sooner(last, deadline_in_ms(quiet_ms)), &n) != ERR_OK)
            return;
        dropped += n;
    }
}

/* Frees everything of this connection; its stream is already closed. */
static void
conn_free(struct http_conn *c)
{
    struct http_loop *l = c->loop;

    if (c->work != NULL) {
        reply_release(c->work);
        list_remove(&c->work->waits);
    }
    work_release(l, &c->work);
    list_remove(&c->link);
    assert(c->head_ns == 0);
    assert(!c->lingers);
    if (c->is_counted)
        peers_leave(&c->server->peers, c->address);
    account_add(ACCOUNT_CONNECTIONS, -CONN_BYTES);
    if (c->server->options.tls != NULL)
        account_add(ACCOUNT_TLS, -TLS_BYTES);
    free(c);
    /* http_server_stop() on another loop frees the server when it sees zero. */
    atomic_store_explicit(&l->connections,
                          atomic_load_explicit(&l->connections, memory_order_relaxed) - 1,
                          memory_order_release);
}

/* Ends an active connection: reset, linger or close, by its last reply. May switch. */
static void
conn_finish(struct http_conn *c)
{
    struct work *w = c->work;

    if (w->reply.state == REPLY_DONE &&
        (inbuf_here(&w->in) > 0 || w->body.state != BODY_ENDED || w->head.status != 0)) {
        admit_linger_begin(c);
        conn_linger(c);
        admit_linger_over(c);
    } else if (w->reply.state == REPLY_DONE && c->server->options.tls != NULL) {
        /* Sends close_notify; its loss does no harm. */
        enum err rc =
            rt_send_end(c->stream, deadline_in_ms(c->server->options.linger_ms));

        (void)rc;
    }
    metric_add(M_CONNECTIONS, ACTIVE, -1);
    if (w->reply.state == REPLY_FAILED)
        rt_stream_reset(&c->stream);
    else
        rt_stream_close(&c->stream);
    conn_free(c);
}

static void conn_on_ready(void *arg, enum err why);

static void
park(struct http_conn *c)
{
    const struct work *w = c->work;
    uint64_t idle_ns = c->server->options.idle_ms * 1000000u, last_ns;

    c->fiber = NULL;
    if (w->reply.state == REPLY_HELD) {
        last_ns = w->request.began_ns; /* updated when the reply is sent */
        conn_batch_reply(c);
    } else {
        last_ns = w->reply.last_ns;
        work_release(c->loop, &c->work);
    }
    metric_add(M_CONNECTIONS, ACTIVE, -1);
    metric_add(M_CONNECTIONS, IDLE, 1);
    conn_count(&c->loop->idle, 1);
    /* last_ns: the clock was read when the reply was sent. */
    rt_park(c->stream,
            (struct deadline){(last_ns != 0 ? last_ns : rt_now_ns()) + idle_ns},
            conn_on_ready, c);
}

bool
conn_is_ending(const struct http_conn *c)
{
    return c->loop->stopping ||
           atomic_load_explicit(&c->server->draining, memory_order_relaxed);
}

/* Serves requests while there are any. True: the connection may be parked. May switch. */
static bool
conn_serve(struct http_conn *c)
{
    unsigned served = 0;

    for (;;) {
        switch (conn_read_head(c)) {
        case HEAD_READ:
            break;
        case HEAD_QUIET:
            return !conn_is_ending(c);
        case HEAD_REFUSED:
            refuse_head(c);
            return false;
        case HEAD_GONE:
            return false;
        }
        if (!serve_request(c))
            return false;
        if (c->work->reply.state == REPLY_HELD)
            return true;
        inbuf_shrink(&c->work->in, c->server->options.buffer_bytes);
        if (inbuf_here(&c->work->in) == 0)
            return !conn_is_ending(c);
        if (++served % TURN_REQUESTS == 0)
            rt_yield();
    }
}

/* The fiber of an active connection. */
static void
conn_on_ready(void *arg, enum err why)
{
    struct http_conn *c = arg;
    const struct http_server_options *o = &c->server->options;

    metric_add(M_CONNECTIONS, IDLE, -1);
    conn_count(&c->loop->idle, -1);
    if (c->work != NULL && c->work->later) {
        if (!conn_wait_deferred(c))
            why = ERR_CANCELLED;
        else if (why == ERR_TIMEOUT)
            why = ERR_OK; /* the delay was the server's own */
    } else if (c->work != NULL && (why == ERR_TIMEOUT || c->work->has_place)) {
        why = ERR_OK; /* the request arrived in time and is answered */
    }
    if (why != ERR_OK) {
        rt_stream_close(&c->stream);
        conn_free(c);
        return;
    }
    metric_add(M_CONNECTIONS, ACTIVE, 1);
    c->fiber = rt_self();
    if (c->work == NULL) {
        c->work = work_acquire(c->loop);
        c->work->reply.state = REPLY_NONE;
        c->work->reply.last_ns = 0;
        c->work->head.status = 0;
    } else if (!conn_resume(c)) {
        conn_finish(c);
        return;
    }
    if (!c->greeted) {
        admit_head_begin(c);
        c->greeted =
            o->tls == NULL || rt_tls_accept(o->tls, c->stream,
                                            deadline_in_ms(o->header_ms), NULL) == ERR_OK;
        admit_head_over(c);
        if (!c->greeted) {
            metric_add(M_REQUESTS_BAD, REJECTED_FRAMING, 1);
            conn_finish(c);
            return;
        }
        if (o->frames)
            rt_frames_begin(c->stream);
    }
    if (conn_serve(c))
        park(c);
    else
        conn_finish(c);
}

void
conn_accepted(struct stream *s, void *server)
{
    struct http_server *srv = server;
    struct http_loop *l = &srv->at[rt_loop_index()];
    unsigned open = atomic_load_explicit(&l->connections, memory_order_relaxed);
    const char *over_limit =
        open >= srv->connections_a_loop ? "too many connections" : NULL;
    bool is_counted = srv->options.peer_loopback || !rt_stream_is_loopback(s);
    uint64_t address = peers_address(&srv->peers, rt_stream_peer(s));
    struct http_conn *c;

    conn_count_event(&l->accepted);
    metric_add(M_ACCEPTED, 0, 1);
    if (l->stopping || open >= srv->connections_a_loop + srv->options.rejected_max) {
        conn_count_event(&l->refused);
        rt_stream_close(&s);
        return;
    }
    if (is_counted) {
        unsigned of_peer = peers_enter(&srv->peers, address);

        if (of_peer > srv->options.peer_max + srv->options.rejected_max) {
            peers_leave(&srv->peers, address);
            conn_count_event(&l->refused);
            rt_stream_close(&s);
            return;
        }
        if (of_peer > srv->options.peer_max)
            over_limit = "too many connections from this address: the limit is "
                         "http.connections_per_address";
    }
    c = xcalloc(1, sizeof *c);
    *c = (struct http_conn){
        .server = srv,
        .loop = l,
        .stream = s,
        .greeted = srv->options.tls == NULL && !srv->options.frames,
        .over_limit = over_limit,
        .is_counted = is_counted,
        .address = address,
    };
    list_push_back(&l->conns, &c->link);
    account_add(ACCOUNT_CONNECTIONS, CONN_BYTES);
    if (srv->options.tls != NULL)
        account_add(ACCOUNT_TLS, TLS_BYTES);
    conn_count(&l->connections, 1);
    conn_count(&l->idle, 1);
    metric_add(M_CONNECTIONS, IDLE, 1);
    if (srv->handler.try_inline != NULL && srv->options.tls == NULL)
        rt_on_inline(s, conn_inline_read, c);
    rt_park(s, deadline_in_ms(srv->options.idle_ms), conn_on_ready, c);
}

void
conn_close_when_idle(struct http_conn *c)
{
    if (c->fiber == NULL && c->work == NULL)
        rt_unpark(c->stream); /* busy connections see `draining` when they reply */
}

void
conn_abort(struct http_conn *c)
{
    if (c->fiber == NULL)
        rt_unpark(c->stream);
    else
        rt_cancel(c->fiber);
}
