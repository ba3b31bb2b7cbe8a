/* client: calls over HTTP/1.1 with a pool of connections for each (host, port, tls) on
 * each loop.
 *
 *     rc = http_call_begin(c, &req, &call, &eb);     connects, or takes one from the pool
 *     rc = http_call_write(call, data, len, &eb);    any number; none without a body
 *     rc = http_call_finish(call, &head, &eb);       ends the body; waits for the head
 *     while ((rc = http_call_read(call, buf, sizeof buf, &n, &eb)) == ERR_OK && n > 0)
 *         ...
 *     http_call_end(&call);                          always; keeps it when it is clean
 *
 * A status of 4xx or 5xx is an answer, not an error. Errors: ERR_TIMEOUT (a deadline,
 * which the sentence names), ERR_CLOSED (no connection, or lost before the answer),
 * ERR_INCOMPLETE (the body ended early), ERR_BACKEND (the answer is not HTTP or exceeds a limit), ERR_BUSY (too many connections), ERR_CANCELLED.
 *
 * A server may close a pooled connection just as a call uses it. If no byte of an answer arrived and the caller has
 * passed no body, the client retries the call once on a new connection.
 *
 * Fibers: a call belongs to one fiber of one loop. A client may be used on all loops.
 */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "rt/net.h"
#include "rt/tls.h"
#include "wire/http.h"
#include "wire/proxy.h"

struct http_client;
struct http_call;

/* 0 stands for the default in brackets. */
struct http_client_options {
    struct tls_context
        *tls;    /* borrowed; for calls with `tls`; NULL: such calls are refused */
    bool frames; /* checked frames over each connection (rt/frames.h) */
    uint32_t
        per_host_max; /* [64] connections to one (host, port, tls) a loop; further calls wait */
    uint32_t
        hosts_max; /* [1,024] a loop; beyond it ERR_BUSY, unless a host without connections can be dropped */
    uint64_t idle_ms;       /* [20 s] a pooled connection is kept */
    uint64_t connect_ms;    /* [10 s] name, TCP and TLS together */
    uint64_t first_byte_ms; /* [60 s] from the end of the request to the answer's head */
    uint64_t between_ms;    /* [30 s] between bytes of the answer, or without progress in
                               sending */
    const struct proxies *proxies; /* borrowed; NULL: none */
    unsigned
        refuse; /* rt_connect_within(): applies to hosts, not to the configured proxies */
    uint64_t
        continue_ms; /* [1 s] to wait for 100 Continue, then the body is sent anyway */
};

enum err http_client_new(const struct http_client_options *o, struct http_client **out,
                         struct errbuf *eb) MUST_CHECK; /* on a loop */
/* No call may be left. Closes pooled connections on all loops. May switch. */
void http_client_free(struct http_client **cp);

#define HTTP_NO_BODY (-3)

struct http_call_request {
    const char *host; /* name or address, as rt_connect() wants it; NUL-terminated */
    uint16_t port;
    bool tls;
    const char *tls_name; /* name to verify and send; NULL: host */
    const char *method;   /* "GET" */
    struct span target;   /* raw: path and query, already encoded */
    struct span
        host_header; /* empty: `host`, and the port unless it is the default one */
    struct fields
        headers;    /* borrowed until http_call_begin() returns; no framing, no Host */
    int64_t length; /* of the body; HTTP_CHUNKED; HTTP_NO_BODY: no body and no
                       Content-Length */
    bool
        expect_continue; /* the client sends the body after 100 Continue; a final status ends the sending */
    bool fresh;  /* never a pooled connection */
    bool direct; /* never through a proxy */
    bool once;   /* never sent again, whatever the method */
    bool *
        connected; /* NULL, or set to true before the first byte of the request may leave; borrowed until http_call_begin() returns */
    struct deadline by; /* of the whole call; {0} stands for DEADLINE_NEVER */
    /* Override the client's timeouts for this call; 0: the client's. */
    uint64_t first_byte_ms, between_ms;
};

/* *out is NULL on error. May switch. */
enum err http_call_begin(struct http_client *c, const struct http_call_request *req,
                         struct http_call **out, struct errbuf *eb) MUST_CHECK;
/* The first piece leaves with the head in one send. If the server has already answered (an early error, say), further bytes are dropped with ERR_OK; http_call_finish()
 * returns that answer. May
 * switch. */
enum err http_call_write(struct http_call *call, const void *data, size_t len,
                         struct errbuf *eb) MUST_CHECK;
/* Fewer bytes than `length` written is an assert unless the server answered early. *head
 * is lent until http_call_end(). 1xx heads are skipped. May switch. */
enum err http_call_finish(struct http_call *call, const struct http_head **head,
                          struct errbuf *eb) MUST_CHECK;
/* Reads at least 1 byte; *n = 0: the end of a body that is complete by its framing. May
 * switch. */
enum err http_call_read(struct http_call *call, void *buf, size_t len, size_t *n,
                        struct errbuf *eb) MUST_CHECK;
/* "host:port" of the proxy in use, for messages; NULL: none. */
const char *http_call_proxy(const struct http_call *call);
/* True if the head of the answer has been read already: no more of the request's body is wanted. */
bool http_call_answered(const struct http_call *call);
/* True if bytes of the answer's body may still follow; after http_call_finish(). */
bool http_call_has_body(const struct http_call *call);
/* True if the whole body was sent; false after an early answer. */
bool http_call_sent_all(const struct http_call *call);
/* Reads a short rest of the body, if there is one, to keep the connection. NULL is fine.
 * Never waits. */
void http_call_end(struct http_call **callp);

/* A whole call: sends `body` and reads the answer into `out`, which the caller initialises. The limit of `out` bounds the
 * body: ERR_TOO_LARGE. Only the status outlives the call; `on_head` (may be NULL) copies what else is needed from the
 * head. May switch.
 */
enum err http_call_simple(struct http_client *c, const struct http_call_request *req,
                          struct span body, int *status, struct buf *out,
                          void (*on_head)(const struct http_head *h, void *arg),
                          void *arg, struct errbuf *eb) MUST_CHECK;

struct http_client_stats {
    uint32_t connections, idle;
    uint64_t connects, reused, retried; /* since the start */
};
void http_client_stats(const struct http_client *c,
                       struct http_client_stats *out); /* of this loop */
