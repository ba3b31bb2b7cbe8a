/* internal: the structs behind server.h, and what its files call of each other. Inside
 * `http` only.
 *
 *     server.c  loops, listeners, limits, drain, stop
 *     conn.c    one connection: parked, heads, one request after the other, closing
 *     admit.c   a place for each request, or a wait for one, or 503
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
#include "http/server.h"
#include "rt/loop.h"
#include "rt/sync.h"
#include "wire/http_head_cache.h"

/* Bytes of an answer's head that the handler may add, and what stands before them. */
#define REPLY_LINES_MAX  16384u
#define REPLY_PREFIX_MAX 256u
/* A send of more goes in slices of this size, each with its own deadline: four hot pieces and a head are one. */
#define SEND_SLICE ((1u << 20) + REPLY_PREFIX_MAX + REPLY_LINES_MAX)
/* What a client may still send, unread, after its reply. */
#define LINGER_BYTES_MAX (64u << 20)
/* What a connection takes, for the account: parked; with TLS. */
#define CONN_BYTES 1024
#define TLS_BYTES  (40 << 10)
/* When memory is tight, connections that have stalled for so long are closed first; so many at a time, so often. */
#define SHED_STALLED_NS (UINT64_C(5) * 1000000000)
#define SHED_EVERY_NS   (UINT64_C(100) * 1000000)
#define SHED_MOST       8u
#define STALLED_NOW     1u
/* Work sets kept on a loop for the next request. */
#define WORKS_POOLED 64u

enum body_state {
    BODY_WAITS, /* nothing of it has been asked for */
    BODY_READS,
    BODY_ENDED, /* whole; or there is none */
    BODY_FAILED,
};

enum reply_state {
    REPLY_NONE,
    REPLY_HELD,  /* the head is built and waits for the first piece */
    REPLY_SENDS, /* the head is out */
    REPLY_DONE,
    REPLY_FAILED, /* the connection must be reset: nothing may follow */
};

/* Answers up to this size leave together with those of the other requests of this turn: a client that answers faster than
 * one request is served would otherwise be woken for each of them. */
#define BATCHED_REPLY_MAX (64u << 10)

/* What a connection needs while a request is on its way; pooled by the loop. */
struct work {
    struct list link;
    struct inbuf in;
    struct http_head head; /* borrows from `in` */
    struct arena *arena;   /* owned */
    struct http_request request;
    char id[17];
    struct http_conn *conn; /* whose, while it waits */
    struct list
        waits; /* in loop->pending: read, not answered; or in loop->waiting: answered, not sent */
    bool is_inline; /* no fiber yet */
    bool has_place; /* its handler is over, its answer waits: still counted in flight */
    bool later;     /* the handler will say http_deferred_done() */
    struct rt_cond deferred_over; /* for a fiber that wants the connection meanwhile */
    void (*on_abandon)(struct http_request *r); /* if `later` */
    bool tried;

    struct {
        enum body_state state;
        uint64_t left; /* with a known length */
        struct http_chunked chunked;
        uint64_t read;      /* bytes handed out */
        uint64_t waited_ns; /* in the client's hands, for the minimum rate */
        bool trusted;
    } body;

    struct {
        enum reply_state state;
        int status;
        int64_t length;   /* promised, or HTTP_CHUNKED */
        bool silent;      /* HEAD, 204, 304: no body goes out */
        bool raw_chunked; /* HTTP/1.0: no coding, the connection's end ends it */
        bool close_after;
        bool whole;
        bool batched;      /* http_reply_last(): built, and sent when this turn is over */
        uint64_t written;  /* of the body */
        uint64_t first_ns; /* when the first bytes had left */
        uint64_t last_ns;  /* when the last had */
        char *lines_at;    /* owned: room for prefix and lines */
        struct http_lines lines;
        struct span head; /* built; inside lines_at */
        /* http_reply_zero_copy() */
        struct span lent[HTTP_ZERO_COPY_MAX];
        unsigned zero_copy_count;
        size_t zero_copy_bytes;
        size_t room;                /* in front of them */
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
    struct work *work;     /* NULL while parked and nothing has come */
    bool greeted;          /* TLS is up, or not wanted */
    bool over_limit;       /* over the limit: gets 503 and goes */
    /* Since when it has been in the client's hands: sending, receiving a body or a head. 0: it is not; STALLED_NOW:
     * since some time, which has not been looked at yet (no clock is read for a reply). */
    uint64_t stalled_ns;
    unsigned head_cache_at; /* where in loop->known its heads were last found */
    bool keep;              /* another request may follow */
};

/* One loop's part of a server. Only on that loop, but for the counters, which others
 * may read. */
struct http_loop {
    struct http_server *server;
    struct list conns;
    struct list works; /* idle */
    unsigned works_idle;
    bool stopping;
    uint64_t date_until_ns; /* on the monotonic clock: when `date_lines` are over */
    char date_lines[80];
    size_t date_len;
    struct http_head_cache *known; /* owned */
    struct list pending; /* work.waits: requests to be answered inline, together */
    struct rt_after_poll answer; /* theirs */
    unsigned inline_count;
    uint64_t inline_ns;  /* the clock when the first of them came */
    struct list waiting; /* work.waits: answers that leave at the end of this turn */
    struct rt_after_poll send; /* theirs */
    bool send_due;
    uint64_t ids;      /* requests named so far */
    uint64_t shed_ns;  /* when connections were last shed */
    struct list queue; /* of those who wait for a place, the first of them first */
    unsigned queued;
    atomic_uint connections, idle, in_flight;
    atomic_ullong accepted, requests, refused;
};

struct http_server {
    struct http_server_options options; /* defaults filled in */
    struct http_handler handler;
    uint32_t connections_a_loop, requests_a_loop, waiting_a_loop;
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
/* Reads over a short rest; false: the connection can't be kept. May switch. */
bool body_finish(struct http_conn *c);
bool body_can_finish(const struct http_conn *c); /* is the rest short and sure to come? */

/* inline.c */
bool conn_inline_read(void *conn); /* see rt_on_inline() */
void conn_inline_answer(struct rt_after_poll *s);
void conn_send_replies(struct rt_after_poll *s);
/* May an answer that is built leave when the fiber has parked the connection? */
bool conn_may_batch_reply(const struct http_conn *c);
/* It does, with its work set and its place. The fiber parks the connection next. */
void conn_batch_reply(struct http_conn *c);
/* The fiber of this connection waits until the handler has said http_deferred_done(). False: it was cancelled before, and the
 * request is abandoned. May switch. */
bool conn_wait_deferred(struct http_conn *c);
/* What conn_inline_read() left for the fiber of this connection: true, go on reading heads; false, it ends. May switch. */
bool conn_resume(struct http_conn *c);

/* conn.c, for inline.c */
void conn_begin_request(struct http_conn *c, uint64_t now_ns);
void conn_report_done(struct http_conn *c);
bool conn_is_ending(const struct http_conn *c);

/* Counters of a loop are written by it alone and read by others: no locked instruction. */
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
/* Counted, and answered by this room. May switch. */
void conn_refuse(struct http_conn *c, enum http_rejected label, int status,
                 const char *why);

/* admit.c */
/* A place for the request whose head was read. It may wait for one, first come first served. True: the handler is to be
 * asked, and admit_over() owed. False: it was answered 503. May switch. */
bool admit(struct http_conn *c);
/* Is there a place now, and no reason to refuse? Takes none. */
bool admit_inline(const struct http_conn *c);
void admit_counted(struct http_conn *c); /* takes a place, be there one or not */
/* The place goes to the first who waits. On the connection's loop, in a fiber or outside. */
void admit_over(struct http_conn *c);

/* reply.c */
/* What http_reply_zero_copy() was lent goes back; twice is fine. */
void reply_release(struct work *w);
/* Head and what was lent from byte `from` on; how many. */
int reply_rest(const struct work *w, size_t from,
               struct iovec out[1 + HTTP_ZERO_COPY_MAX]);
/* Head and lent body from the byte on that was not sent. May switch. */
void reply_send_rest(struct http_conn *c);
void reply_begin(struct http_conn *c);
/* Gives what the handler left undone. May switch. */
void reply_finish(struct http_conn *c);
/* An answer of this room's own, with the handler's error_body; closes behind it. May
 * switch. */
void reply_error(struct http_conn *c, int status, const char *why);
