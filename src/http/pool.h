/* pool: the client's connections: by host, one set a loop. Inside `http` only. */
#pragma once
#include "base/list.h"
#include "http/client.h"
#include "rt/loop.h"
#include "rt/sync.h"

/* Hosts are few: a list, most recently used first. */
struct pool_host {
    struct list link; /* in pool.hosts */
    struct list idle; /* pool_conn.link; most recently used first */
    struct rt_cond turn;
    char *name;     /* owned */
    char *tls_name; /* owned; NULL: plain */
    uint16_t port;
    bool direct;
    const struct proxy *proxy; /* borrowed; NULL: none */
    unsigned open;             /* connections, idle ones included */
    unsigned waiting;          /* fibers in `turn` */
};

struct pool_conn {
    struct list link; /* in host->idle while parked */
    struct pool_host *host;
    struct stream *stream; /* owned */
    struct pool *pool;
    struct deadline idle_by; /* when a parked connection expires */
    struct rt_waiter handed; /* the call that takes it waits here */
    enum { POOL_BUSY, POOL_PARKED, POOL_WANTED, POOL_GONE } state;
};

/* One loop's part of a client. */
struct pool {
    struct http_client *client;
    struct list hosts;
    unsigned host_count;
    struct list spaces; /* idle buffers of calls (call.c) */
    unsigned spaces_idle;
    struct http_client_stats stats;
};

struct http_client {
    struct http_client_options options; /* defaults filled in */
    unsigned loops;
    struct pool at[]; /* by rt_loop_index() */
};

/* Gets a connection for `req`: an idle one unless `fresh`, else a new one, else it waits for the next released one.
 * *reused: not a new one. May switch. */
enum err pool_acquire(struct pool *p, const struct http_call_request *req, bool fresh,
                      struct deadline by, struct pool_conn **out, bool *reused,
                      struct errbuf *eb) MUST_CHECK;
/* `clean`: the connection can serve another call. Otherwise it is closed. */
void pool_release(struct pool_conn **cp, bool clean);
/* The proxy for `req`, or NULL. */
const struct proxy *pool_proxy(const struct http_client *c,
                               const struct http_call_request *req);
/* call.c: frees the idle buffers of this loop. */
void call_spaces_free(struct pool *p);
