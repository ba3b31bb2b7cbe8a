/* internal: the structs behind server.h, and the functions that its files share. Inside
 * `http` only.
 *
 *     server.c  loops, listeners, limits, drain, stop
 *     conn.c    one connection: parked, heads, one request after the other, closing
 *     admit.c   admission: a slot for each request, a bounded wait for one, or 503
 *     inline.c  requests answered without a fiber
 *     body.c    the request's body
 *     reply.c   the answer */
#pragma once
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/mem.h"
#include "base/num.h"
#include "http/inbuf.h"
#include "http/peers.h"
#include "http/server.h"
#include "rt/loop.h"
#include "rt/sync.h"
#include "wire/http_head_cache.h"

/* Limits of a reply's head: the lines that the handler adds, and the prefix before them. */
#define REPLY_LINES_MAX  16384u
#define REPLY_PREFIX_MAX 256u
/* Larger sends are cut into slices of this size, each with its own deadline. Four block cache pieces and a head fit in one. */
#define SEND_SLICE ((1u << 20) + REPLY_PREFIX_MAX + REPLY_LINES_MAX)
/* Bytes that the server reads and drops after a reply, before it closes the connection. */
#define LINGER_BYTES_MAX (64u << 20)
/* Memory charged to the account for a connection: while parked; in addition with TLS. */
#define CONN_BYTES 1024
#define TLS_BYTES  (40 << 10)
/* Load shedding: when memory is tight, the server closes connections stalled for SHED_STALLED_NS, at most SHED_MOST
 * every SHED_EVERY_NS. */
#define SHED_STALLED_NS (UINT64_C(5) * 1000000000)
#define SHED_EVERY_NS   (UINT64_C(100) * 1000000)
#define SHED_MOST       8u
/* When memory is tight, a head that is not complete after this time is closed. */
#define SHED_HEAD_NS (UINT64_C(1) * 1000000000)
#define STALLED_NOW  1u
/* Work sets kept on a loop for the next request. */
#define WORKS_POOLED 64u

enum body_state {
    BODY_WAITS, /* the handler has read nothing */
    BODY_READS,
    BODY_ENDED, /* complete, or no body */
    BODY_FAILED,
};

enum reply_state {
    REPLY_NONE,
    REPLY_HELD,  /* the head is built, and is sent with the first piece */
    REPLY_SENDS, /* the head is sent */
    REPLY_DONE,
    REPLY_FAILED, /* the connection must be reset */
};

/* Replies up to this size are sent in a batch at the end of the loop iteration. Otherwise a client that is faster than
 * one request would be woken for each reply. */
#define BATCHED_REPLY_MAX (64u << 10)

/* The working memory of a connection with an active request; pooled by the loop. */
struct work {
    struct list link;
    struct inbuf in;
    struct http_head head; /* borrows from `in` */
    struct arena *arena;   /* owned */
    struct http_request request;
    char id[17];
    struct http_conn *conn; /* the connection, while in a list of the loop */
    struct list
        waits; /* in loop->pending: read, not answered; or in loop->waiting: answered, not sent */
    bool is_inline; /* no fiber yet */
    bool
        has_place; /* the handler returned, the reply is batched: still counted in flight */
    bool later;    /* the reply is deferred: the handler will call http_deferred_done() */
    struct rt_cond
        deferred_over; /* a fiber that needs the connection waits for the deferred reply */
    void (*on_abandon)(struct http_request *r); /* if `later` */
    bool tried;

    struct {
        enum body_state state;
        uint64_t left; /* with a known length */
        struct http_chunked chunked;
        uint64_t read;      /* bytes handed out */
        uint64_t waited_ns; /* waiting for the client; for the minimum rate */
        bool trusted;
    } body;

    struct {
        enum reply_state state;
        int status;
        int64_t length; /* announced, or HTTP_CHUNKED */
        bool silent;    /* HEAD, 204, 304: no body goes out */
        bool
            raw_chunked; /* HTTP/1.0: no chunked coding, the end of the connection ends the body */
        bool barred; /* may_answer has refused it */
        bool close_after;
        bool whole;
        bool batched; /* http_reply_last(): built, sent at the end of this iteration */
        uint64_t written;  /* of the body */
        uint64_t first_ns; /* time at which the first bytes were sent */
        uint64_t last_ns;  /* time at which the last bytes were sent */
        char *lines_at;    /* owned: room for prefix and lines */
        struct http_lines lines;
        struct span head; /* built; inside lines_at */
        /* http_reply_zero_copy() */
        struct span lent[HTTP_ZERO_COPY_MAX];
        unsigned zero_copy_count;
        size_t zero_copy_bytes;
        size_t room;                /* headroom before them */
        void (*release)(void *arg); /* NULL: nothing is lent */
        void *release_arg;
        size_t sent; /* of head and body, when it was sent at once */
    } reply;
};

struct http_conn {
    struct http_server *server;
    struct http_loop *loop;
    struct stream *stream; /* owned */
    struct list link;      /* in loop->conns */
    struct fiber *fiber;   /* NULL while parked */
    struct work *work;     /* NULL while parked with nothing received */
    bool greeted;          /* TLS handshake done, or plain */
    const char *
        over_limit; /* why it gets 503 and is closed: too many connections; NULL: it may stay */
    uint64_t address; /* of the peer, as peers.h counts it; if counted */
    bool is_counted;
    /* In loop->heads: its request head, or TLS handshake, is not complete. In loop->lingering: it is answered, and closes. */
    struct list shed_link;
    uint64_t head_ns; /* in loop->heads: since when; 0: it is not */
    bool lingers;     /* in loop->lingering */
    /* When the server began to wait for the client: to send, or to receive a head or body. 0: not waiting. STALLED_NOW:
 * waiting, start not read yet (a reply reads no clock). */
    uint64_t stalled_ns;
    unsigned head_cache_at; /* index in loop->known of the last match */
    bool keep;              /* another request may follow */
};

/* One loop's part of a server. Used by that loop only, except for the counters, which any thread may read. */
struct http_loop {
    struct http_server *server;
    struct list conns;
    struct list heads;     /* shed_link, oldest first */
    struct list lingering; /* shed_link */
    unsigned heads_count, lingering_count;
    struct list works; /* idle */
    unsigned works_idle;
    bool stopping;
    uint64_t date_until_ns; /* monotonic: when `date_lines` expires */
    char date_lines[80];
    size_t date_len;
    struct http_head_cache *known; /* owned */
    struct list pending;         /* work.waits: requests to answer inline in one group */
    struct rt_after_poll answer; /* theirs */
    unsigned inline_count;
    uint64_t inline_ns;  /* time at which the first of them arrived */
    struct list waiting; /* work.waits: replies to send at the end of this iteration */
    struct rt_after_poll send; /* theirs */
    bool send_due;
    uint64_t ids;      /* request ids issued so far */
    uint64_t shed_ns;  /* when connections were last shed */
    struct list queue; /* requests that wait for a slot, first come first served */
    unsigned queued;
    atomic_uint connections, idle, in_flight;
    atomic_ullong accepted, requests, refused;
};

struct http_server {
    struct http_server_options options; /* defaults filled in */
    struct http_handler handler;
    uint32_t connections_a_loop, requests_a_loop, waiting_a_loop, heads_a_loop;
    struct peers peers;
    atomic_bool tls_told; /* a TLS hello on the plain port was logged */
    uint64_t id_seed;
    unsigned loops;
    atomic_bool draining;
    struct listener **listeners; /* owned */
    unsigned listener_count;
    struct http_loop at[]; /* by rt_loop_index() */
};

/* conn.c */
void conn_accepted(struct stream *s, void *server); /* outside any fiber */
void conn_close_when_idle(
    struct http_conn *c);             /* idle: closes soon; busy: after its answer */
void conn_abort(struct http_conn *c); /* idle or busy: ends as soon as it can */
/* "Date: ...\r\nServer: ...\r\n" for a request that began at now_ns. */
struct span conn_date_lines(struct http_loop *l, uint64_t now_ns);

/* server.c */
struct work *work_acquire(struct http_loop *l);
void work_release(struct http_loop *l, struct work **wp);

/* body.c */
void body_begin(struct http_conn *c);
/* Drains the rest of a short body; false: the connection can't be kept. May switch. */
bool body_finish(struct http_conn *c);
bool body_can_finish(
    const struct http_conn *c); /* true: the rest is short and will arrive */

/* inline.c */
bool conn_inline_read(void *conn); /* see rt_on_inline() */
void conn_inline_answer(struct rt_after_poll *s);
void conn_send_replies(struct rt_after_poll *s);
/* May a reply that is built be sent after the fiber has parked the connection? */
bool conn_may_batch_reply(const struct http_conn *c);
/* Queues the reply for the batch, with its work set and its slot. The fiber must park the connection next. */
void conn_batch_reply(struct http_conn *c);
/* Waits until the handler calls http_deferred_done(). False: the fiber was cancelled first, and the request is abandoned.
 * May switch. */
bool conn_wait_deferred(struct http_conn *c);
/* Finishes what conn_inline_read() left to the fiber. True: continue reading heads; false: the connection ends. May
 * switch. */
bool conn_resume(struct http_conn *c);

/* conn.c, for inline.c */
void conn_begin_request(struct http_conn *c, uint64_t now_ns);
void conn_report_done(struct http_conn *c);
bool conn_is_ending(const struct http_conn *c);

/* Only the loop writes its counters; any thread may read them. So a relaxed store suffices, without a locked instruction. */
static inline void
conn_count(atomic_uint *n, int delta)
{
    atomic_store_explicit(n,
                          atomic_load_explicit(n, memory_order_relaxed) + (unsigned)delta,
                          memory_order_relaxed);
}

static inline void
conn_count_event(atomic_ullong *n)
{
    atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

enum http_rejected { /* labels of M_REQUESTS_BAD */
                     REJECTED_FRAMING,
                     REJECTED_HEADER,
                     REJECTED_TIMEOUT,
                     REJECTED_BUSY,
                     REJECTED_BODY,
};
/* Counts the request as rejected and sends an error reply. May switch. */
void conn_refuse(struct http_conn *c, enum http_rejected label, int status,
                 const char *why);

/* admit.c */
/* The connection waits for the rest of a head, or of a TLS handshake, from now to admit_head_over(). Beyond heads_max, and when
 * memory is tight, other connections are closed for it: first those that linger, then the oldest heads. */
void admit_head_begin(struct http_conn *c);
void admit_head_over(struct http_conn *c); /* also of one that is shed; twice is fine */
/* It was answered and is drained before it closes. */
void admit_linger_begin(struct http_conn *c);
void admit_linger_over(struct http_conn *c);
/* Takes a slot for a request whose head is read; waits if none is free, first come first served. True: the caller runs the
 * handler and then calls admit_over(). False: the request was answered with 503. May switch. */
bool admit(struct http_conn *c);
/* True if a slot is free and nothing else speaks against admission. Takes no slot. */
bool admit_inline(const struct http_conn *c);
void admit_counted(struct http_conn *c); /* takes a slot even beyond the limit */
/* Gives the slot back; the first waiting request gets it. On the connection's loop, in a fiber or outside. */
void admit_over(struct http_conn *c);

/* reply.c */
/* Releases the pieces lent to http_reply_zero_copy(); idempotent. */
void reply_release(struct work *w);
/* Fills `out` with head and lent pieces from byte `from` on; returns the count. */
int reply_rest(const struct work *w, size_t from,
               struct iovec out[1 + HTTP_ZERO_COPY_MAX]);
/* Sends the unsent rest of head and lent pieces. May switch. */
void reply_send_rest(struct http_conn *c);
void reply_begin(struct http_conn *c);
/* Completes a reply that the handler left unfinished. May switch. */
void reply_finish(struct http_conn *c);
/* Sends an error reply made with the handler's error_body, then closes the connection. May switch. */
void reply_error(struct http_conn *c, int status, const char *why);
