/* call: one request and its answer, on a connection of the pool. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "http/call.h"
#include "rt/loop.h"

#define BUFFER        16384u
#define SPACES_POOLED 32u

/* ---- spaces ---- */

static void
call_space_free(struct http_call *k)
{
    free(k->lines_at);
    inbuf_fini(&k->in);
    free(k);
}

void
call_spaces_free(struct pool *p)
{
    struct list *n;

    while ((n = list_pop_front(&p->spaces)) != NULL)
        call_space_free(LIST_ENTRY(n, struct http_call, link));
    p->spaces_idle = 0;
}

static struct http_call *
space_acquire(struct pool *p)
{
    struct list *n = list_pop_front(&p->spaces);
    struct http_call *k;

    if (n != NULL) {
        p->spaces_idle--;
        return LIST_ENTRY(n, struct http_call, link);
    }
    k = xcalloc(1, sizeof *k);
    k->lines_at = xmalloc(CALL_LINES_MAX);
    inbuf_init(&k->in, BUFFER);
    return k;
}

static void
space_release(struct pool *p, struct http_call *k)
{
    if (p->spaces_idle >= SPACES_POOLED || k->in.room != BUFFER) {
        call_space_free(k);
        return;
    }
    list_init(&k->link);
    list_push_front(&p->spaces, &k->link);
    p->spaces_idle++;
}

/* ---- begin ---- */

static bool
is_idempotent(enum http_method m)
{
    return m == HTTP_METHOD_GET || m == HTTP_METHOD_HEAD || m == HTTP_METHOD_PUT ||
           m == HTTP_METHOD_DELETE || m == HTTP_METHOD_OPTIONS;
}

/* Gets a connection and resets the state of the call. May switch. */
static enum err
call_attach(struct http_call *k, bool fresh, struct errbuf *eb)
{
    bool reused;
    enum err rc;

    pool_release(&k->conn, false);
    k->in.at = k->in.end = 0;
    k->broken = false;
    k->held = true;
    http_head_init(&k->head);
    rc = pool_acquire(k->pool, &k->req, fresh, k->by, &k->conn, &reused, eb);
    if (rc == ERR_OK && k->req.connected != NULL)
        *k->req.connected = true;
    k->may_repeat = rc == ERR_OK && reused && is_idempotent(k->method) && !k->req.once;
    return rc;
}

/* True if the call may be retried after a pooled connection failed with `rc`. */
static bool
should_repeat(const struct http_call *k, enum err rc)
{
    return rc == ERR_CLOSED && k->may_repeat && k->written == 0 && !k->answered &&
           k->in.end == 0 && k->interim == 0;
}

static void
call_retry(struct http_call *k, struct errbuf *eb)
{
    k->pool->stats.retried++;
    err_forget(eb);
}

/* Sends what needs no body bytes: a whole request without a body, or a head with Expect. In that case it waits for 100
 * Continue. May switch. */
static enum err
send_first(struct http_call *k, struct errbuf *eb)
{
    bool none = k->length == HTTP_NO_BODY || k->length == 0;
    enum err rc;

    if (!none && !k->req.expect_continue)
        return ERR_OK;
    rc = call_send(k, NULL, 0, false, eb);
    if (rc == ERR_OK && none) {
        k->sent_all = true;
        return ERR_OK;
    }
    if (rc != ERR_OK)
        return rc;
    rc =
        call_read_head(k, deadline_in_ms(k->pool->client->options.continue_ms), true, eb);
    /* A server without support for Expect waits for the body. */
    if (rc != ERR_TIMEOUT || deadline_passed(k->by))
        return rc;
    err_forget(eb);
    return ERR_OK;
}

/* Copies what http_call_request borrows from the caller: a retry passes it to the pool. */
static void
own_names(struct http_call *k, const struct http_call_request *req)
{
    k->req = *req;
    k->req.host = xstrdup(req->host);
    k->req.tls_name = req->tls_name != NULL ? xstrdup(req->tls_name) : NULL;
}

static void
call_free(struct http_call *k)
{
    free((char *)(uintptr_t)k->req.host);
    free((char *)(uintptr_t)k->req.tls_name);
    k->req.host = k->req.tls_name = NULL;
    space_release(k->pool, k);
}

enum err
http_call_begin(struct http_client *c, const struct http_call_request *req,
                struct http_call **out, struct errbuf *eb)
{
    struct pool *p = &c->at[rt_loop_index()];
    struct http_call *k = space_acquire(p);
    enum err rc;

    *out = NULL;
    k->pool = p;
    k->conn = NULL;
    own_names(k, req);
    k->by = req->by.at_ns != 0 ? req->by : DEADLINE_NEVER;
    k->first_byte_ms =
        req->first_byte_ms != 0 ? req->first_byte_ms : c->options.first_byte_ms;
    k->between_ms = req->between_ms != 0 ? req->between_ms : c->options.between_ms;
    k->method = http_method_of(span_of(req->method));
    k->length = req->length;
    k->written = 0;
    k->sent_all = k->answered = k->ended = false;
    k->interim = 0;
    call_build_head(k, req);
    if (k->lines.bad)
        rc = err_set(eb, ERR_BAD_REQUEST,
                     "the headers of a request hold control bytes, or more than %u",
                     CALL_LINES_MAX);
    else
        rc = call_attach(k, req->fresh, eb);
    if (rc == ERR_OK) {
        rc = send_first(k, eb);
        if (should_repeat(k, rc)) {
            call_retry(k, eb);
            rc = call_attach(k, true, eb);
            if (rc == ERR_OK)
                rc = send_first(k, eb);
        }
        rc = rc != ERR_OK && k->conn != NULL ? call_answer_instead(k, rc, eb) : rc;
    }
    k->req.connected = NULL;
    if (rc != ERR_OK) {
        pool_release(&k->conn, false);
        call_free(k);
        return rc;
    }
    *out = k;
    return ERR_OK;
}

/* ---- the request's body ---- */

enum err
http_call_write(struct http_call *k, const void *data, size_t len, struct errbuf *eb)
{
    enum err rc;

    assert(!k->sent_all);
    assert(k->length == HTTP_CHUNKED || len <= (uint64_t)k->length - k->written);
    if (len == 0)
        return ERR_OK;
    rc = k->held ? ERR_OK : call_poll_answer(k, eb);
    if (rc != ERR_OK || k->answered)
        return rc;
    rc = call_send(k, data, len, false, eb);
    if (should_repeat(k, rc)) {
        call_retry(k, eb);
        rc = call_attach(k, true, eb);
        if (rc == ERR_OK)
            rc = call_send(k, data, len, false, eb);
    }
    k->written += len;
    return rc != ERR_OK && k->conn != NULL ? call_answer_instead(k, rc, eb) : rc;
}

/* Ends the request. May switch. */
static enum err
send_rest(struct http_call *k, struct errbuf *eb)
{
    enum err rc;

    if (k->sent_all || k->answered)
        return ERR_OK;
    assert(k->length == HTTP_CHUNKED || k->written == (uint64_t)k->length);
    rc = call_send(k, NULL, 0, true, eb);
    if (should_repeat(k, rc)) {
        call_retry(k, eb);
        rc = call_attach(k, true, eb);
        if (rc == ERR_OK)
            rc = call_send(k, NULL, 0, true, eb);
    }
    if (rc == ERR_OK)
        k->sent_all = true;
    return rc != ERR_OK && k->conn != NULL ? call_answer_instead(k, rc, eb) : rc;
}

static enum err
call_await_answer(struct http_call *k, struct errbuf *eb)
{
    enum err rc = call_read_head(k, deadline_in_ms(k->first_byte_ms), false, eb);

    if (rc != ERR_TIMEOUT)
        return rc;
    k->broken = true;
    return err_set(eb, rc, "no answer from %s within %" PRIu64 " ms",
                   rt_stream_peer(k->conn->stream), k->first_byte_ms);
}

enum err
http_call_finish(struct http_call *k, const struct http_head **head, struct errbuf *eb)
{
    enum err rc = send_rest(k, eb);

    *head = NULL;
    if (rc == ERR_OK && !k->answered) {
        rc = call_await_answer(k, eb);
        if (should_repeat(k, rc)) {
            call_retry(k, eb);
            k->sent_all = false;
            rc = call_attach(k, true, eb);
            if (rc == ERR_OK)
                rc = call_send(k, NULL, 0, true, eb);
            k->sent_all = rc == ERR_OK;
            if (rc == ERR_OK)
                rc = call_await_answer(k, eb);
        }
    }
    if (rc != ERR_OK)
        return rc;
    *head = &k->head;
    return ERR_OK;
}

const char *
http_call_proxy(const struct http_call *k)
{
    return k->proxy != NULL ? k->proxy->name : NULL;
}

bool
http_call_answered(const struct http_call *k)
{
    return k->answered;
}

bool
http_call_has_body(const struct http_call *k)
{
    assert(k->answered);
    return !k->ended;
}

bool
http_call_sent_all(const struct http_call *k)
{
    return k->sent_all;
}

/* ---- the end ---- */

void
http_call_end(struct http_call **kp)
{
    struct http_call *k = *kp;
    bool clean;

    *kp = NULL;
    if (k == NULL)
        return;
    clean = k->answered && k->sent_all && !k->broken && k->head.keep_alive &&
            call_skip_rest(k) && inbuf_here(&k->in) == 0;
    pool_release(&k->conn, clean);
    call_free(k);
}

/* ---- all in one ---- */

static enum err
call_read_all(struct http_call *k, struct buf *out, struct errbuf *eb)
{
    for (;;) {
        /* Reading one byte more than the limit detects a longer body. */
        size_t room = MIN(out->limit - out->len, 65536), n;
        char one, *to = room > 0 ? buf_reserve(out, room) : &one;
        enum err rc;

        if (to == NULL)
            return err_set(eb, ERR_TOO_LARGE, "an answer of more than %zu bytes",
                           out->limit);
        rc = http_call_read(k, to, room > 0 ? room : 1, &n, eb);
        if (rc != ERR_OK || n == 0)
            return rc;
        if (room == 0)
            return err_set(eb, ERR_TOO_LARGE, "an answer of more than %zu bytes",
                           out->limit);
        out->len += n;
    }
}

enum err
http_call_simple(struct http_client *c, const struct http_call_request *req,
                 struct span body, int *status, struct buf *out,
                 void (*on_head)(const struct http_head *h, void *arg), void *arg,
                 struct errbuf *eb)
{
    const struct http_head *head;
    struct http_call *k;
    enum err rc = http_call_begin(c, req, &k, eb);

    if (rc != ERR_OK)
        return rc;
    if (body.len > 0)
        rc = http_call_write(k, body.at, body.len, eb);
    if (rc == ERR_OK)
        rc = http_call_finish(k, &head, eb);
    if (rc == ERR_OK) {
        *status = head->code;
        if (on_head != NULL)
            on_head(head, arg);
        rc = call_read_all(k, out, eb);
    }
    http_call_end(&k);
    return rc;
}
