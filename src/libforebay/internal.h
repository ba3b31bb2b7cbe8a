/* internal: what the files of libforebay share: the handle, its connections, and one request with its answer. */
#pragma once
#include <stdatomic.h>

#include "base/arena.h"
#include "base/lock.h"
#include "client/endpoint.h"
#include "client/s3.h"
#include "libforebay/forebay.h"
#include "rt/plain_stream.h"
#include "wire/http.h"
#include "wire/sigv4.h"

/* A connection; belongs to the call that has it. */
struct conn {
    struct plain_stream *stream; /* owned */
    struct sigv4_cache *keys;    /* owned; one a connection, since it has no lock */
    struct arena *arena;         /* owned: the text of the request in progress */
    struct http_head head;       /* of its answer; borrows `in` */
    char *in; /* owned: received and not given out, from `at` to `have` */
    size_t at, have;
    bool used; /* it has answered before, so the server may close it at any time */
};

struct forebay {
    /* Set in forebay_open(), then never changed. */
    struct s3_endpoint at;
    char *endpoint, *region; /* owned */
    struct s3_credentials credentials;
    struct proxies proxies;
    struct plain_tls *tls; /* owned; NULL: clear text */
    unsigned connections, attempts;
    uint64_t connect_ms, idle_ms;
    bool interruptible;
    bool
        foreign_keys; /* of AWS's environment or files, at a server on loopback, which may want none */

    atomic_bool unsigned_requests;
    atomic_int
        process; /* whose descriptors the connections are; -1: a child is taking over */

    /* Any thread, holding `lock`. A slot is a connection or none, in use or free. */
    struct {
        struct lock lock;
        pthread_cond_t freed;
        struct conn **conns; /* `connections` of them */
        bool *busy;
    } locked;
};

/* ---- handle.c ---- */
/* A slot for this call. It waits where all are in use. */
unsigned handle_acquire(struct forebay *f);
void handle_release(struct forebay *f, unsigned slot);
void conn_free(struct conn **cp); /* NULL is fine */

/* ---- exchange.c: one request and its answer ---- */
struct call {
    const char *method;
    struct span bucket, key;
    const struct param *params;
    unsigned param_count;
    struct field headers[4];
    unsigned header_count;
    struct span body; /* `at` NULL: none */
    bool hash_body;   /* signs the body's SHA-256, else it goes unsigned */
};
/* Facts about a failed answer. */
struct failure {
    int status; /* 0: none came */
    char code[64];
    uint64_t retry_after_ms;
    bool retry;
};
struct exchange {
    struct forebay *f;
    struct conn *conn; /* borrowed from the slot */
    unsigned slot;
    bool active;  /* the slot is ours */
    bool ended;   /* the whole body was given out */
    int64_t left; /* of a body with a length, else HTTP_CHUNKED or HTTP_TO_END */
    struct http_chunked chunks;
    struct span pending; /* decoded, inside conn->in */
};
/* Sends the call and reads the head of its answer. On ERR_OK its status is 2xx, x->conn->head is valid until the first
 * exchange_read(), and exchange_end() follows. On any error the exchange has ended. */
enum err exchange_begin(struct forebay *f, const struct call *c, struct exchange *x,
                        struct failure *why, struct errbuf *eb) MUST_CHECK;
/* *n = 0: the end, and the length was right. ERR_INCOMPLETE, ERR_TIMEOUT, ERR_CLOSED, ERR_BACKEND. */
enum err exchange_read(struct exchange *x, void *to, size_t len, size_t *n,
                       struct errbuf *eb) MUST_CHECK;
void exchange_end(struct exchange *x); /* keeps the connection when it is clean */

/* ---- attempts.c ---- */
struct attempts {
    unsigned failed; /* in a row, without progress */
};
/* After a failure: waits and returns true when the call is to be tried again. */
bool attempts_go_on(struct forebay *f, struct attempts *t, enum err rc,
                    const struct failure *why, struct errbuf *eb);
/* The public code, with the sentence. */
int result_of(enum err rc, const struct failure *why, const struct errbuf *eb,
              struct forebay_error *e);
/* A sentence for arguments that no server needs to see. */
int result_invalid(struct forebay_error *e, const char *fmt, ...) PRINTF(2, 3);
void result_clear(struct forebay_error *e);
/* False, with a result in *rc: no name of a bucket, or no key. */
bool check_names(const char *bucket, const char *key, struct forebay_error *e, int *rc);
