/* server: HTTP/1.1 connections. A request is a fiber that runs the handler from top to
 * bottom; a connection, its buffers and its requests stay on one loop. An idle connection
 * holds neither fiber nor buffer.
 *
 * The handler reads the body, if it wants to, and answers once: http_reply(), or
 * http_reply_begin(), http_reply_write() ..., http_reply_end(). What it leaves undone is
 * done for it: without an answer the client gets 500, a body that was promised and not
 * sent whole ends in a reset, so nothing short looks whole. Framing, Date, Connection,
 * Content-Length, HEAD, 204, 304, 100-continue and keep-alive are this room's; it knows
 * no route.
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
    bool draining;     /* the server is on its way out: the handler may answer 503 */
    bool tried;        /* `try_inline` has declined it */
    uint64_t began_ns; /* rt_now_ns() when the head was whole */
    uint64_t
        handler_hash; /* the handler's own, for `prefetch` and `try_inline`; 0 at first */
    void *user;       /* the handler's own; NULL at first; on_done sees it */
    struct http_conn *conn;
};

/* What became of it; for the access log and metric_request_done(). */
struct http_done {
    int status; /* 0: the client left before an answer */
    uint64_t duration_ns, first_byte_ns;
    uint64_t bytes_in, bytes_out; /* of bodies */
    bool whole;                   /* the answer went out completely */
};

#define HTTP_PREFETCH_STEPS 3u
struct http_handler {
    /* May switch. */
    void (*handle)(struct http_request *r, void *arg);
    /* Of several requests that go to `try_inline` next, each HTTP_PREFETCH_STEPS times, one step for all of them before the
     * next: asks for the memory it will look at, and does nothing else. NULL: none. Must not switch. */
    void (*prefetch)(struct http_request *r, unsigned step, void *arg);
    /* May answer a request whose head is like one before, by http_reply_zero_copy(), before there is a fiber for it. True: it
     * did, or it has said http_defer(). False: nothing is done yet, `handle` is asked. NULL: none. Must not switch. */
    bool (*try_inline)(struct http_request *r, void *arg);
    /* After each request that reached `handle`, or was answered at once; NULL is fine. Must not switch. */
    void (*on_done)(struct http_request *r, const struct http_done *d, void *arg);
    /* Writes the body of an answer this room gives by itself (framing, limits, busy, no
     * answer), at most `room` bytes, and its content type; returns its length. NULL: one
     * line of plain text. Must not switch. */
    size_t (*error_body)(int status, const char *why, const char *id, char *out,
                         size_t room, const char **content_type, void *arg);
    /* Probes and metrics: answered at once even when too much is in flight or the server
     * drains; bounded by the connections. NULL: none. Must not switch. */
    bool (*is_vital)(const struct http_head *head, void *arg);
    void *arg;
};

/* 0 stands for the default in brackets. */
struct http_server_options {
    struct tls_context *tls;  /* borrowed; NULL: plain */
    uint32_t connections_max; /* [65,536] beyond: 503; far beyond: closed */
    uint32_t requests_max;    /* [4,096] in flight; what comes beyond waits, head read and
                              body unread, ... */
    uint32_t waiting_max;     /* [4,096] ... if no more than so many do, ... */
    uint64_t wait_ms;       /* [100 ms] ... so long, and gets 503 with Retry-After then */
    uint32_t buffer_bytes;  /* [16 KiB] of an active connection; long heads take more for
                               as long as they need */
    uint32_t arena_bytes;   /* [4 MiB] limit of a request's arena */
    uint64_t header_ms;     /* [10 s] from the first byte of a head to its last */
    uint64_t idle_ms;       /* [75 s] between requests */
    uint64_t body_grace_ms; /* [10 s] waiting for a body that comes slower than ... */
    uint64_t body_rate;     /* [1,024] ... so many bytes a second */
    uint64_t body_idle_ms;  /* [5 min] of silence in a trusted body (http_body_trust) */
    uint64_t send_stall_ms; /* [30 min] a client takes nothing */
    uint32_t retry_after_s; /* [1] in 503 */
    uint32_t
        rejected_max; /* [64] connections over the limit that are still told so; further ones are closed at once */
    uint64_t drain_bytes; /* [64 KiB] of an unread body that are read to keep the
                               connection; more: closed */
    uint64_t linger_ms;   /* [2 s] of silence, while a client that still sends is read
                           before a close */
};

/* On a loop. The server serves every loop of this run. */
enum err http_server_new(const struct http_server_options *o,
                         const struct http_handler *h, struct http_server **out,
                         struct errbuf *eb) MUST_CHECK;
/* Any number of addresses; `o` may be NULL. *bound is the port (for port 0). A port
 * that is taken is tried again for a moment. May switch. */
enum err http_server_listen(struct http_server *s, const char *addr, uint16_t port,
                            const struct rt_listen_options *o, uint16_t *bound,
                            struct errbuf *eb) MUST_CHECK;
/* From now on new requests get 503 with Retry-After, idle connections close, requests in
 * flight end with Connection: close. Listeners stay open. Returns when none is in flight
 * (true) or at `by`. May switch. */
bool http_server_drain(struct http_server *s, struct deadline by);
/* Closes listeners, cancels what is in flight, waits until every connection is gone,
 * frees. May switch. */
void http_server_stop(struct http_server **sp);

struct http_server_stats {
    uint32_t connections, idle, in_flight;
    uint64_t accepted, requests, refused; /* since the start */
};
/* Sums over loops; exact only when nothing moves. */
void http_server_stats(const struct http_server *s, struct http_server_stats *out);

/* ---- the body of the request ---- */
/* Its length, HTTP_CHUNKED, or 0 without one. */
int64_t http_body_length(const struct http_request *r);
/* The whole body, where it came with the head: *body lies in the connection's buffer until the request ends, and nothing is left
 * to be read. False: nothing was done; it has none, has begun to be read, comes in chunks, or is not all here. */
bool http_body_here(struct http_request *r, struct span *body);
/* Reads at least 1 byte up to `len`; *n = 0: the end. At the first read 100 Continue is
 * sent when the client waits for it. ERR_INCOMPLETE: the client left early; ERR_TIMEOUT:
 * too slow; ERR_BAD_REQUEST: chunks are wrong. After an error the connection will close.
 * May switch. */
enum err http_body_read(struct http_request *r, void *buf, size_t len, size_t *n,
                        struct errbuf *eb) MUST_CHECK;
/* The whole of it into the arena; ERR_TOO_LARGE beyond `limit`, before anything is read
 * when the length is known. *out has a NUL behind it. May switch. */
enum err http_body_all(struct http_request *r, size_t limit, struct span *out,
                       struct errbuf *eb) MUST_CHECK;
/* The sender has shown who it is: pauses of body_idle_ms instead of the minimum rate. */
void http_body_trust(struct http_request *r);

/* ---- the answer ---- */
/* Adds a line to the answer's head; before http_reply*(). A value that may not stand in a
 * head, or more than 16 KiB of them, makes the answer a 500. */
void http_header(struct http_request *r, const char *name, struct span value);
void http_header_u64(struct http_request *r, const char *name, uint64_t value);
void http_headerf(struct http_request *r, const char *name, const char *fmt, ...)
    PRINTF(3, 4);
void http_headers_clear(struct http_request *r);
/* Lines with their ends that were made here before: not looked at again. */
void http_header_lines(struct http_request *r, struct span lines);
/* The name is a literal of the program with ": " behind it, and is not checked; the value is. */
void http_header_own(struct http_request *r, struct span name, struct span value);
/* The lines so far, until the next is added; before http_reply*(). */
struct span http_header_text(const struct http_request *r);

/* Head and body in one send. For HEAD only the length of `body` is sent. May
 * switch. */
enum err http_reply(struct http_request *r, int status, struct span body);
/* An answer without a body, behind which the handler does nothing that others wait for: it may leave when the handler has
 * returned, with those of the other requests of this turn. May switch. */
enum err http_reply_last(struct http_request *r, int status);
/* The same with at most HTTP_ZERO_COPY_MAX pieces that are borrowed until release(arg), which is called exactly once. In `try_inline` it
 * leaves with the others of this turn and never switches; elsewhere it may. An error: release was called, and what stands
 * for an answer is the caller's to say. */
#define HTTP_ZERO_COPY_MAX 4
enum err http_reply_zero_copy(struct http_request *r, int status,
                              const struct span *pieces, unsigned count,
                              void (*release)(void *arg), void *arg);
/* The head of an answer 200 to a GET with `length` bytes, on a connection that stays: as text, to be used for other requests. Of its lines so
 * far, which begin at *lines_at. 0: `room` is too small. */
size_t http_template_make(const struct http_request *r, uint64_t length, char *out,
                          size_t room, size_t *lines_at);
/* In `try_inline`, instead of lines, before http_reply_zero_copy() with 200 and as many bytes: the head is that text, with the date of now. Its lines, for
 * the handler to write its own over; NULL: it is not the head for this connection, nothing was done. */
char *http_reply_template(struct http_request *r, struct span form, size_t lines_at);
/* Before http_reply_zero_copy() with one piece: `room` bytes in front of it may be written over. A head that fits there leaves with the piece as one. */
void http_reply_headroom(struct http_request *r, size_t room);
/* In `try_inline`: the reply comes in a later iteration, by http_reply_zero_copy() and http_deferred_done(), both outside any fiber and
 * without a switch. Or on_abandon is called instead, in a fiber, without a switch: the connection ends, or the server; the
 * request is gone behind that call. */
void http_defer(struct http_request *r, void (*on_abandon)(struct http_request *r));
/* It has been answered, and leaves at the end of this turn; now when it is large. False: nothing has happened, `handle` is asked with `tried` set;
 * *r and its arena are no longer the handler's. */
void http_deferred_done(struct http_request *r, bool answered);
/* `length`: of the body, or HTTP_CHUNKED. The head is held back and leaves with the first
 * piece. To HEAD, 204 and 304 writes are counted and not sent. */
enum err http_reply_begin(struct http_request *r, int status, int64_t length) MUST_CHECK;
bool http_reply_wants_body(
    const struct http_request *r); /* false: HEAD, 204, 304: spare the reading */
/* ERR_CLOSED: the client is gone; ERR_TIMEOUT: it takes nothing. More than was promised
 * is an assert. May switch. */
enum err http_reply_write(struct http_request *r, const void *data,
                          size_t len) MUST_CHECK;
enum err http_reply_writev(struct http_request *r, struct iovec *iov,
                           int count) MUST_CHECK; /* iov changes */
/* Less written than promised: the connection is reset and ERR_INCOMPLETE returned. May
 * switch. */
enum err http_reply_end(struct http_request *r);
/* Resets the connection now: what was sent can't look whole. Before any byte went out an
 * answer is still possible: then prefer that (http_reply_began() says). */
void http_reply_abort(struct http_request *r);
bool http_reply_began(const struct http_request
                          *r); /* a head was built: the status can't change any more */
/* The connection closes behind this answer. */
void http_reply_close_after(struct http_request *r);
