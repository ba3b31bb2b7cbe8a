/* call: one request and its answer, on a connection of the pool; client.h is the contract upward. Inside `http` only.
 *
 * call.c begins and ends a call, and retries it once where that is safe. call_request.c builds and sends the request;
 * call_answer.c reads the answer. An error that makes the connection unusable sets `broken`. A call belongs to one fiber.
 */
#pragma once
#include "http/client.h"
#include "http/inbuf.h"
#include "http/pool.h"

#define CALL_LINES_MAX 32768u

struct http_call {
    struct list link; /* in pool->spaces while idle */
    struct pool *pool;
    struct pool_conn *conn;
    struct http_call_request req; /* valid only until http_call_begin() returns */
    const struct proxy *proxy;    /* NULL: none */
    struct deadline by;
    uint64_t first_byte_ms, between_ms;
    enum http_method method;
    char *lines_at; /* owned */
    struct http_lines lines;
    bool held; /* the head is sent with the first piece of the body */
    bool
        may_repeat; /* retry allowed: reused connection, idempotent method, no body bytes taken from the caller */
    int64_t length;
    uint64_t written;
    bool sent_all; /* the whole request is sent, including the last chunk */
    bool answered; /* the answer's head is read */

    struct inbuf in;
    struct http_head head; /* borrows from `in` */
    uint64_t left;
    struct http_chunked chunked;
    bool ended;  /* the answer's body */
    bool broken; /* the connection must be closed after this call */
    unsigned interim;
};

/* ---- call_request.c ---- */

/* Builds the head in k->lines and sets k->proxy. k->lines is `bad` if a line has control bytes or the head exceeds
 * CALL_LINES_MAX. */
void call_build_head(struct http_call *k, const struct http_call_request *req);
/* Sends the head, if it is still held, then `len` bytes of the body, or, with `last`, the end of a chunked one.
 * ERR_CLOSED: the connection is lost. May switch. */
enum err call_send(struct http_call *k, const void *data, size_t len, bool last,
                   struct errbuf *eb) MUST_CHECK;

/* ---- call_answer.c ---- */

/* Waits for the final head (sets k->answered) or, with `interim`, for 100 Continue. After ERR_TIMEOUT the connection is
 * still usable; after any other error it is not. May switch. */
enum err call_read_head(struct http_call *k, struct deadline by, bool interim,
                        struct errbuf *eb) MUST_CHECK;
/* Checks whether the answer arrived before the request was fully sent; sets k->answered. Never waits. */
enum err call_poll_answer(struct http_call *k, struct errbuf *eb) MUST_CHECK;
/* Called after sending failed with `rc`. A server that rejects a request early answers and closes. ERR_OK: that answer
 * was read; else `rc`. May switch. */
enum err call_answer_instead(struct http_call *k, enum err rc,
                             struct errbuf *eb) MUST_CHECK;
/* Discards the received bytes of the answer's body. True: the body is complete. Never waits. */
bool call_skip_rest(struct http_call *k);
