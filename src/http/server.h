/* server: HTTP/1.1 connections. A request is a fiber that runs the handler from top to
 * bottom; a connection, its buffers and its requests stay on one loop. An idle connection
 * holds neither fiber nor buffer.
 *
 * The handler may read the body, and replies once: http_reply(), or
 * http_reply_begin(), http_reply_write() ..., http_reply_end(). The server completes what the handler omits: without a reply the client gets 500; a body shorter than announced ends
 * in a reset, so a client never takes it for complete. This room does framing, Date, Connection, Content-Length, HEAD,
 * 204, 304, 100-continue and keep-alive; it knows no routes.
 *
 * Memory: a request and all it lends (head, arena, peer, id) live until the handler
 * returns. Fibers: every call that takes a request belongs to the handler's fiber. "May
 * switch" waits for the client.
 */
#pragma once
#include <stdarg.h>
#include <sys/uio.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/metrics.h"
#include "rt/net.h"
#include "rt/tls.h"
#include "wire/http.h"

struct http_server;
struct http_conn;

/* What the handler sees. Read only; fields behind `conn` belong to this room. */
struct http_request {
    const struct http_head *head;
    struct arena *arena; /* reset after each request; limit: options.arena_bytes */
    const char *id;      /* 16 hex digits, unique; the same in the log */
    const char *peer;    /* "127.0.0.1:51234" */
    bool is_loopback, is_tls;
    bool draining;     /* the server is draining: the handler may answer 503 */
    bool tried;        /* `try_inline` has declined it */
    uint64_t began_ns; /* rt_now_ns() when the head was complete */
    uint64_t
        handler_hash; /* the handler's own, for `prefetch` and `try_inline`; 0 at first */
    void *user;       /* the handler's own; NULL at first; on_done sees it */
    struct http_conn *conn;
};

/* The outcome of a request; for the access log and metric_request_done(). */
struct http_done {
    int status; /* 0: the client disconnected before a reply */
    uint64_t duration_ns, first_byte_ns;
    uint64_t bytes_in, bytes_out; /* of bodies */
    bool whole;                   /* the reply was sent completely */
};

#define HTTP_PREFETCH_STEPS 3u
struct http_handler {
    /* May switch. */
    void (*handle)(struct http_request *r, void *arg);
    /* Called before `try_inline` for a group of requests, HTTP_PREFETCH_STEPS times each: one step for all of them, then the
 * next. Only prefetches memory that `try_inline` will read. NULL: none. Must not switch. */
    void (*prefetch)(struct http_request *r, unsigned step, void *arg);
    /* May answer a request with a known head by http_reply_zero_copy(), before a fiber exists. True: it replied or called
 * http_defer(). False: it had no effect, and `handle` runs. NULL: none. Must not switch. */
    bool (*try_inline)(struct http_request *r, void *arg);
    /* Asked when the head of a reply is made whose status is below 500: false: it must not leave, and the client gets 503
     * (http_reply_is_barred()). NULL: every reply leaves. Must not switch. */
    bool (*may_answer)(struct http_request *r, void *arg);
    /* After each request that reached `handle`, or was answered inline; may be NULL. Must not switch. */
    void (*on_done)(struct http_request *r, const struct http_done *d, void *arg);
    /* Writes the body of an error reply made by this room (framing, limits, busy, no reply), at most `room` bytes, and its content type; returns its length. NULL: one
     * line of plain text. Must not switch. */
    size_t (*error_body)(int status, const char *why, const char *id, char *out,
                         size_t room, const char **content_type, void *arg);
    /* True for probes and metrics: served even when requests_max is reached or the server drains; only connections_max
 * bounds them. NULL: none. Must not switch. */
    bool (*is_vital)(const struct http_head *head, void *arg);
    void *arg;
};

/* 0 stands for the default in brackets. */
struct http_server_options {
    struct tls_context *tls;  /* borrowed; NULL: plain */
    bool frames;              /* checked frames over it (rt/frames.h) */
    uint32_t connections_max; /* [65,536] beyond: 503; far beyond: closed */
    uint32_t
        peer_max; /* [a quarter of them] of one address, or /64 of IPv6; likewise. Not of loopback, unless ... */
    bool peer_loopback; /* ... set: for tests */
    uint32_t
        heads_max; /* [1,024] connections whose request head is not complete; beyond: the oldest is closed */
    uint32_t
        requests_max; /* [4,096] in flight; further requests wait, head read and body unread, ... */
    uint32_t waiting_max; /* [4,096] ... at most this many a server, ... */
    uint64_t wait_ms;     /* [100 ms] ... and this long; then 503 with Retry-After */
    uint32_t
        buffer_bytes; /* [16 KiB] of an active connection; a long head gets a longer one for its request */
    uint32_t arena_bytes;   /* [4 MiB] limit of a request's arena */
    uint64_t header_ms;     /* [10 s] from the first byte of a head to its last */
    uint64_t idle_ms;       /* [75 s] between requests */
    uint64_t body_grace_ms; /* [10 s] a body may be slower than ... */
    uint64_t body_rate;     /* [1,024] ... this many bytes a second */
    uint64_t body_idle_ms;  /* [5 min] of silence in a trusted body (http_body_trust) */
    uint64_t send_stall_ms; /* [30 min] without progress in sending to a client */
    uint32_t retry_after_s; /* [1] in 503 */
    uint32_t
        rejected_max; /* [64] connections over connections_max that get a 503; further ones are closed at once */
    uint64_t
        drain_bytes; /* [64 KiB] of an unread body are drained to keep the connection; for more it is closed */
    uint64_t
        linger_ms; /* [2 s] of silence that end the draining of a client before a close */
};

/* On a loop. The server serves every loop of this run. */
enum err http_server_new(const struct http_server_options *o,
                         const struct http_handler *h, struct http_server **out,
                         struct errbuf *eb) MUST_CHECK;
/* Any number of addresses; `o` may be NULL. *bound is the port (for port 0). A port in use is retried for a moment. May switch. */
enum err http_server_listen(struct http_server *s, const char *addr, uint16_t port,
                            const struct rt_listen_options *o, uint16_t *bound,
                            struct errbuf *eb) MUST_CHECK;
/* From now on new requests get 503 with Retry-After, idle connections close, requests in
 * flight end with Connection: close. Listeners stay open. Returns when none is in flight
 * (true) or at `by`. May switch. */
bool http_server_drain(struct http_server *s, struct deadline by);
/* Closes listeners, cancels requests in flight, waits until every connection is closed, frees. May switch. */
void http_server_stop(struct http_server **sp);

struct http_server_stats {
    uint32_t connections, idle, in_flight;
    uint64_t accepted, requests, refused; /* since the start */
};
/* Sums over loops; exact only on an idle server. */
void http_server_stats(const struct http_server *s, struct http_server_stats *out);

/* For a request that another node passes on: it has the id, the client's address and the client's kind of connection as that
 * node saw them. `id`: 16 hex digits; `peer` must outlive the request. Before anything is answered. */
void http_request_pass_on(struct http_request *r, const char *id, const char *peer,
                          bool is_loopback, bool is_tls);

/* ---- the body of the request ---- */
/* Its length, HTTP_CHUNKED, or 0 without one. */
int64_t http_body_length(const struct http_request *r);
/* Gets the whole body if it was received with the head. *body lies in the connection's buffer until the request ends,
 * and nothing is left to read. False, without effect: no body, reading has begun, it is chunked, or not all received. */
bool http_body_here(struct http_request *r, struct span *body);
/* Reads at least 1 byte up to `len`; *n = 0: the end. The first read sends 100 Continue if the client expects it. ERR_INCOMPLETE: the client left early; ERR_TIMEOUT:
 * too slow; ERR_BAD_REQUEST: chunks are wrong. After an error the connection will close.
 * May switch. */
enum err http_body_read(struct http_request *r, void *buf, size_t len, size_t *n,
                        struct errbuf *eb) MUST_CHECK;
/* Reads the whole body into the arena. ERR_TOO_LARGE beyond `limit`; with a known length before reading. A NUL follows
 * *out. May switch. */
enum err http_body_all(struct http_request *r, size_t limit, struct span *out,
                       struct errbuf *eb) MUST_CHECK;
/* The sender is authenticated: body_idle_ms replaces the minimum rate. */
void http_body_trust(struct http_request *r);

/* ---- the answer ---- */
/* Adds a line to the answer's head; before http_reply*(). An invalid value, or more than 16 KiB of lines, turns the reply into a 500. */
void http_header(struct http_request *r, const char *name, struct span value);
void http_header_u64(struct http_request *r, const char *name, uint64_t value);
void http_headerf(struct http_request *r, const char *name, const char *fmt, ...)
    PRINTF(3, 4);
void http_headers_clear(struct http_request *r);
/* Complete lines, with CRLF, that this module rendered earlier; not checked again. */
void http_header_lines(struct http_request *r, struct span lines);
/* `name` is a literal that ends in ": " and is not checked; the value is checked. */
void http_header_own(struct http_request *r, struct span name, struct span value);
/* The lines so far, valid until the next is added; before http_reply*(). */
struct span http_header_text(const struct http_request *r);

/* Head and body in one send. For HEAD only the length of `body` is sent. May
 * switch. */
enum err http_reply(struct http_request *r, int status, struct span body);
/* A reply without a body, as the handler's last action. It may be sent after the handler has returned, in a batch with
 * other replies of this iteration. May switch. */
enum err http_reply_last(struct http_request *r, int status);
/* http_reply() with at most HTTP_ZERO_COPY_MAX borrowed pieces. release(arg) is called exactly once, on error too. In
 * `try_inline` the reply is batched with others of this iteration, and the call never switches; elsewhere it may. After
 * an error the caller sends another reply. */
#define HTTP_ZERO_COPY_MAX 4
enum err http_reply_zero_copy(struct http_request *r, int status,
                              const struct span *pieces, unsigned count,
                              void (*release)(void *arg), void *arg);
/* Renders a reusable head: 200 to a GET with `length` bytes, on a kept connection, with the lines added so far. They
 * begin at *lines_at. Returns the length; 0: `room` is too small. */
size_t http_template_make(const struct http_request *r, uint64_t length, char *out,
                          size_t room, size_t *lines_at);
/* In `try_inline`, instead of adding lines, before http_reply_zero_copy() with 200 and the same length: uses that head with
 * the current date. Returns its lines, which the handler may overwrite. NULL, without effect: the head does not fit this
 * connection. */
char *http_reply_template(struct http_request *r, struct span form, size_t lines_at);
/* Before http_reply_zero_copy() with one piece: `room` writable bytes precede the piece. A head that fits there is sent
 * with the piece as one buffer. */
void http_reply_headroom(struct http_request *r, size_t room);
/* In `try_inline`: defers the reply to a later iteration. The handler then calls http_reply_zero_copy() and
 * http_deferred_done(), outside any fiber and without a switch. If the connection or the server ends first, the server
 * calls on_abandon instead, in a fiber, without a switch; the request is invalid after that call. */
void http_defer(struct http_request *r, void (*on_abandon)(struct http_request *r));
/* Ends a deferral. `answered`: the reply is sent at the end of this iteration, a large one at once. Not `answered`: the
 * server runs `handle` with `tried` set. Either way *r and its arena no longer belong to the handler. */
void http_deferred_done(struct http_request *r, bool answered);
/* `length`: of the body, or HTTP_CHUNKED. The head is held back and leaves with the first
 * piece. For HEAD, 204 and 304 writes are counted and not sent. */
enum err http_reply_begin(struct http_request *r, int status, int64_t length) MUST_CHECK;
bool http_reply_wants_body(
    const struct http_request
        *r); /* false for HEAD, 204, 304: the body need not be read */
/* ERR_CLOSED: the client disconnected; ERR_TIMEOUT: it reads nothing. More than `length` is an assert. May switch. */
enum err http_reply_write(struct http_request *r, const void *data,
                          size_t len) MUST_CHECK;
enum err http_reply_writev(struct http_request *r, struct iovec *iov,
                           int count) MUST_CHECK; /* iov changes */
/* With less than `length` written the connection is reset: ERR_INCOMPLETE. May
 * switch. */
enum err http_reply_end(struct http_request *r);
/* Resets the connection now, so the client cannot take the body for complete. Before the first byte is sent, prefer an
 * error reply: see http_reply_began(). */
void http_reply_abort(struct http_request *r);
bool http_reply_began(
    const struct http_request *r); /* a head is built: the status is final */
/* True if may_answer has refused a reply: the room answers with 503 when the handler returns. */
bool http_reply_is_barred(const struct http_request *r);
/* Closes the connection after this reply. */
void http_reply_close_after(struct http_request *r);
