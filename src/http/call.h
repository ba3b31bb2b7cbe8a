/* call: one request and its answer, on a connection of the pool; client.h is the contract upward. Inside `http` only.
 *
 * call.c begins and ends it and sends it once more where that is right; call_request.c makes and sends the request,
 * call_answer.c reads the answer. What breaks the connection sets `broken`. A call belongs to one fiber.
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
    struct http_call_request
        req;                   /* host and so on: only until http_call_begin() returns */
    const struct proxy *proxy; /* NULL: none */
    struct deadline by;
    uint64_t first_byte_ms, between_ms;
    enum http_method method;
    char *lines_at; /* owned */
    struct http_lines lines;
    bool held; /* the head waits for the first piece */
    bool
        may_repeat; /* on a reused connection, method idempotent, nothing of a body taken */
    int64_t length;
    uint64_t written;
    bool sent_all; /* the request is out, its last chunk too */
    bool answered; /* the answer's head is read */

    struct inbuf in;
    struct http_head head; /* borrows from `in` */
    uint64_t left;
    struct http_chunked chunked;
    bool ended;  /* the answer's body */
    bool broken; /* nothing may follow on this connection */
    unsigned interim;
};

/* ---- call_request.c ---- */

/* Into k->lines, which are `bad` where they hold control bytes or more than CALL_LINES_MAX. Sets k->proxy. */
void call_build_head(struct http_call *k, const struct http_call_request *req);
/* Sends the head, if it is still held, then `len` bytes of the body, or, with `last`, the end of a chunked one.
 * ERR_CLOSED: the connection is lost. May switch. */
enum err call_send(struct http_call *k, const void *data, size_t len, bool last,
                   struct errbuf *eb) MUST_CHECK;

/* ---- call_answer.c ---- */

/* Waits for the next head that matters: the answer's (k->answered), or, with `interim`, 100 Continue. ERR_TIMEOUT leaves
 * the connection as it is, every other error is its end. May switch. */
enum err call_read_head(struct http_call *k, struct deadline by, bool interim,
                        struct errbuf *eb) MUST_CHECK;
/* Has the answer come while the request is still on its way? k->answered tells. Never waits. */
enum err call_poll_answer(struct http_call *k, struct errbuf *eb) MUST_CHECK;
/* Sending failed with `rc`. A server that refuses in the middle of a body answers and closes: ERR_OK where its answer is
 * there, else `rc`. May switch. */
enum err call_answer_instead(struct http_call *k, enum err rc,
                             struct errbuf *eb) MUST_CHECK;
/* Takes over what is here already of the answer's rest; true: that was all of it. Never waits. */
bool call_skip_rest(struct http_call *k);
