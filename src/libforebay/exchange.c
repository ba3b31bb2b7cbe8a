/* exchange: one request and its answer over a connection of the handle.
 *
 * The parsers, the signature and the error documents are those of the other clients (wire, client); only the waiting
 * differs, since here a thread may block (docs/decisions/0029-libforebay.md).
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/uri.h"
#include "client/failure.h"
#include "libforebay/internal.h"
#include "wire/proxy.h"
#include "wire/s3xml.h"

#define IN_ROOM        KIB(96) /* a head fits whole: HTTP_HEAD_ROOM */
#define HEAD_OUT_MAX   KIB(16)
#define ARENA_BEGIN    KIB(16)
#define ARENA_MOST     MIB(1)
#define ERROR_DOC_MAX  KIB(64)
#define DIRECT_MIN     KIB(16) /* from here on received to where it belongs */
#define INTERIM_MOST   16u     /* 1xx heads before an answer */
#define AUTHORITY_ROOM 300u

static_assert(IN_ROOM >= HTTP_HEAD_ROOM, "the largest head fits");

/* ---- connecting ---- */

/* The tunnel of a proxy to a server with TLS. */
static enum err
open_tunnel(struct forebay *f, const struct proxy *p, struct conn *c, struct errbuf *eb)
{
    char ask[HEAD_OUT_MAX / 4], reply[1];
    struct buf got;
    size_t n = 0;
    int len =
        snprintf(ask, sizeof ask, "CONNECT %s:%u HTTP/1.1\r\nHost: %s:%u\r\n%s%s%s\r\n",
                 f->at.host, f->at.port, f->at.host, f->at.port,
                 p->authorization != NULL ? "Proxy-Authorization: " : "",
                 p->authorization != NULL ? p->authorization : "",
                 p->authorization != NULL ? "\r\n" : "");
    enum err rc =
        len > 0 && (size_t)len < sizeof ask
            ? plain_send(c->stream, ask, (size_t)len, f->idle_ms, eb)
            : err_set(eb, ERR_BAD_REQUEST, "the proxy's credentials are too long");

    buf_init(&got, PROXY_RESPONSE_ROOM);
    while (rc == ERR_OK) { /* byte by byte: what follows belongs to TLS */
        rc = plain_recv(c->stream, reply, 1, f->idle_ms, &n, eb);
        if (rc == ERR_OK && n == 0)
            rc = err_set(eb, ERR_CLOSED, "the proxy closed the connection");
        if (rc != ERR_OK)
            break;
        buf_put(&got, reply, 1);
        rc = proxy_response(got.at, got.len, eb);
        if (rc == ERR_OK)
            break;
        if (rc == ERR_BUSY)
            rc = got.full ? err_set(eb, ERR_BACKEND, "the proxy's answer is too long")
                          : ERR_OK;
    }
    buf_fini(&got);
    if (rc != ERR_OK)
        err_prefix(eb, "through the proxy %s", p->name);
    return rc;
}

static enum err
conn_open(struct forebay *f, struct conn **out, struct errbuf *eb)
{
    const struct proxy *p = proxies_for(&f->proxies, f->at.host, f->at.port, f->at.tls);
    struct plain_target to = {.host = p != NULL ? p->host : f->at.host,
                              .port = p != NULL ? p->port : f->at.port,
                              .interruptible = f->interruptible};
    struct deadline by = plain_deadline_ms(f->connect_ms);
    struct conn *c = xcalloc(1, sizeof *c);
    enum err rc = plain_connect(&to, by, &c->stream, eb);

    if (rc == ERR_OK && p != NULL && f->at.tls)
        rc = open_tunnel(f, p, c, eb);
    if (rc == ERR_OK && f->at.tls)
        rc = plain_handshake(c->stream, f->tls, f->at.host, by, eb);
    if (rc != ERR_OK) {
        conn_free(&c);
        return rc;
    }
    c->keys = sigv4_cache_new();
    c->arena = arena_new(ARENA_BEGIN, ARENA_MOST);
    c->in = xmalloc(IN_ROOM);
    *out = c;
    return ERR_OK;
}

/* ---- the request ---- */

/* Path and query in the arena; *path is the first part of *target. */
static enum err
write_target(const struct call *c, struct arena *a, struct span *path,
             struct span *target, struct errbuf *eb)
{
    struct buf text;
    enum err rc = ERR_OK;

    buf_init(&text, HEAD_OUT_MAX / 2);
    buf_putc(&text, '/');
    uri_encode(&text, c->bucket, false);
    if (c->key.len > 0)
        buf_putc(&text, '/');
    uri_encode(&text, c->key, true);
    path->len = text.len;
    for (unsigned i = 0; i < c->param_count; i++) {
        buf_putc(&text, i == 0 ? '?' : '&');
        uri_encode(&text, c->params[i].name, false);
        buf_putc(&text, '=');
        uri_encode(&text, c->params[i].value, false);
    }
    if (text.full)
        rc = err_set(eb, ERR_TOO_LARGE, "path and query have over %u bytes",
                     (unsigned)(HEAD_OUT_MAX / 2));
    else
        *target = arena_span(a, buf_span(&text));
    path->at = target->at;
    buf_fini(&text);
    return rc;
}

/* Adds the fields of the signature to `h`, which has room for them; *count grows. */
static enum err
sign_fields(struct forebay *f, const struct call *c, struct conn *conn, struct span path,
            struct field *h, size_t *count, struct errbuf *eb)
{
    struct sigv4_creds creds = {.access_key = span_of(f->credentials.access_key),
                                .secret = span_of(f->credentials.secret_key),
                                .token = span_of(f->credentials.session_token),
                                .region = span_of(f->region)};
    struct sigv4_request req = {.method = span_of(c->method),
                                .path = path,
                                .headers = {h, *count},
                                .tls = f->at.tls};
    struct query q = {c->params, c->param_count};
    struct sigv4_signed *s = arena_alloc(conn->arena, sizeof *s);
    char hex[2 * DIGEST_MAX + 1] = "UNSIGNED-PAYLOAD";
    unsigned char sum[DIGEST_MAX];
    enum err rc;

    if (c->hash_body || c->body.at == NULL) {
        digest_oneshot(DIGEST_SHA256, c->body.at != NULL ? c->body.at : "", c->body.len,
                       sum);
        hex_encode(sum, SHA256_LEN, hex);
    }
    rc = sigv4_sign(&req, &q, &creds, arena_span(conn->arena, span_of(hex)), conn->keys,
                    (int64_t)time(NULL), conn->arena, s);
    if (rc != ERR_OK)
        return err_set(eb, rc, "the request is too large to sign");
    for (size_t i = 0; i < s->add_count; i++)
        h[(*count)++] = s->add[i];
    return ERR_OK;
}

static enum err
write_call_head(struct forebay *f, const struct call *c, struct conn *conn,
                struct span *out, struct errbuf *eb)
{
    const struct proxy *p =
        f->at.tls ? NULL : proxies_for(&f->proxies, f->at.host, f->at.port, false);
    struct field h[ARRAY_LEN(c->headers) + SIGV4_ADDED_MAX + 1];
    struct http_lines lines = {.at = arena_alloc(conn->arena, HEAD_OUT_MAX),
                               .room = HEAD_OUT_MAX};
    struct span path = {"", 0}, target = {"", 0};
    size_t n = 0;
    enum err rc = write_target(c, conn->arena, &path, &target, eb);

    assert(c->header_count <= ARRAY_LEN(c->headers));
    h[n++] = (struct field){SPAN("host"), span_of(f->at.host_header)};
    for (unsigned i = 0; i < c->header_count; i++)
        h[n++] = c->headers[i];
    if (rc == ERR_OK && !atomic_load(&f->unsigned_requests))
        rc = sign_fields(f, c, conn, path, h, &n, eb);
    if (rc != ERR_OK)
        return rc;
    if (p != NULL) /* a proxy wants the whole URL */
        target = span_of(arena_printf(conn->arena, "http://%s%.*s", f->at.host_header,
                                      SPAN_ARG(target)));
    http_put_request(&lines, c->method, target);
    for (size_t i = 0; i < n; i++)
        http_put(&lines, arena_strdup(conn->arena, h[i].name), h[i].value);
    if (p != NULL && p->authorization != NULL)
        http_put(&lines, "proxy-authorization", span_of(p->authorization));
    if (c->body.at != NULL)
        http_put_length(&lines, c->body.len);
    http_put_end(&lines);
    if (lines.bad)
        return err_set(eb, ERR_BAD_REQUEST,
                       "the request has bytes that HTTP cannot carry");
    *out = (struct span){lines.at, lines.len};
    return ERR_OK;
}

static enum err
send_call(struct exchange *x, const struct call *c, struct errbuf *eb)
{
    struct conn *conn = x->conn;
    struct span head = {"", 0};
    enum err rc;

    arena_reset(conn->arena);
    rc = write_call_head(x->f, c, conn, &head, eb);
    if (rc == ERR_OK && c->body.len > 0 && c->body.len <= KIB(64)) { /* in one segment */
        char *both = arena_alloc(conn->arena, head.len + c->body.len);

        memcpy(both, head.at, head.len);
        memcpy(both + head.len, c->body.at, c->body.len);
        return plain_send(conn->stream, both, head.len + c->body.len, x->f->idle_ms, eb);
    }
    if (rc == ERR_OK)
        rc = plain_send(conn->stream, head.at, head.len, x->f->idle_ms, eb);
    return rc == ERR_OK && c->body.len > 0
               ? plain_send(conn->stream, c->body.at, c->body.len, x->f->idle_ms, eb)
               : rc;
}

/* ---- the head of the answer ---- */

/* *came: at least one byte of an answer was received. */
static enum err
read_head(struct exchange *x, enum http_method method, bool *came, struct errbuf *eb)
{
    struct conn *c = x->conn;

    c->at = c->have = 0;
    *came = false;
    http_head_init(&c->head);
    for (unsigned interim = 0;;) {
        enum http_parse got = http_response_parse(&c->head, c->in, c->have, method);
        size_t n = 0;
        enum err rc;

        if (got == HTTP_BAD)
            return err_set(eb, ERR_BACKEND, "the server's answer is not HTTP: %s",
                           c->head.why);
        if (got == HTTP_DONE && c->head.code >= 200)
            break;
        if (got == HTTP_DONE) { /* 1xx: skipped */
            if (++interim > INTERIM_MOST)
                return err_set(eb, ERR_BACKEND, "the server sent over %u interim answers",
                               INTERIM_MOST);
            c->have -= c->head.len;
            memmove(c->in, c->in + c->head.len, c->have);
            http_head_init(&c->head);
            continue;
        }
        assert(c->have < IN_ROOM);
        rc = plain_recv(c->stream, c->in + c->have, IN_ROOM - c->have, x->f->idle_ms, &n,
                        eb);
        if (rc == ERR_OK && n == 0)
            rc = err_set(eb, ERR_CLOSED, "%s closed the connection before an answer",
                         x->f->endpoint);
        if (rc != ERR_OK)
            return rc;
        c->have += n;
        *came = true;
    }
    c->used = true;
    c->at = c->head.len;
    x->left = c->head.body_length;
    x->ended = x->left == 0;
    x->pending = (struct span){"", 0};
    if (x->left == HTTP_CHUNKED)
        http_chunked_init(&x->chunks);
    return ERR_OK;
}

/* ---- the body of the answer ---- */

static enum err
exchange_refill(struct exchange *x, struct errbuf *eb)
{
    struct conn *c = x->conn;
    size_t n = 0;
    enum err rc;

    assert(c->at == c->have);
    rc = plain_recv(c->stream, c->in, IN_ROOM, x->f->idle_ms, &n, eb);
    if (rc == ERR_OK && n == 0)
        return err_set(eb, ERR_INCOMPLETE, "the server ended the answer in the middle");
    c->at = 0;
    c->have = n;
    return rc;
}

/* Bytes of a chunk that are still to come go straight to where they belong. */
static enum err
read_chunk_direct(struct exchange *x, void *to, size_t len, size_t *n, struct errbuf *eb)
{
    struct span data = {"", 0};
    size_t used = 0;
    enum err rc = plain_recv(x->conn->stream, to, len, x->f->idle_ms, n, eb);

    if (rc == ERR_OK && *n == 0)
        return err_set(eb, ERR_INCOMPLETE, "the server ended the answer in the middle");
    if (rc != ERR_OK)
        return rc;
    if (http_chunked_next(&x->chunks, to, *n, &used, &data) != HTTP_CHUNK_DATA ||
        used != *n || data.len != *n)
        return err_set(eb, ERR_INTERNAL, "the chunks of the answer do not add up");
    return ERR_OK;
}

static enum err
read_chunked(struct exchange *x, void *to, size_t len, size_t *n, struct errbuf *eb)
{
    struct conn *c = x->conn;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && x->pending.len == 0) {
        uint64_t sure = http_chunked_left(&x->chunks);
        size_t used = 0;

        if (c->at == c->have && sure >= DIRECT_MIN && len >= DIRECT_MIN)
            return read_chunk_direct(x, to, MIN(len, sure), n, eb);
        if (c->at == c->have)
            rc = exchange_refill(x, eb);
        if (rc != ERR_OK)
            break;
        switch (http_chunked_next(&x->chunks, c->in + c->at, c->have - c->at, &used,
                                  &x->pending)) {
        case HTTP_CHUNK_END:
            c->at += used;
            x->ended = true;
            return ERR_OK;
        case HTTP_CHUNK_BAD:
            return err_set(eb, ERR_BACKEND, "the server's answer is not HTTP: %s",
                           x->chunks.why);
        case HTTP_CHUNK_MORE:
            x->pending = (struct span){"", 0};
            break;
        case HTTP_CHUNK_DATA:
            break;
        }
        c->at += used;
    }
    if (rc != ERR_OK)
        return rc;
    *n = MIN(len, x->pending.len);
    memcpy(to, x->pending.at, *n);
    x->pending = span_from(x->pending, *n);
    return ERR_OK;
}

enum err
exchange_read(struct exchange *x, void *to, size_t len, size_t *n, struct errbuf *eb)
{
    struct conn *c = x->conn;
    enum err rc = ERR_OK;

    assert(x->active);
    assert(len > 0);
    *n = 0;
    if (x->ended)
        return ERR_OK;
    if (x->left == HTTP_CHUNKED)
        return read_chunked(x, to, len, n, eb);
    if (x->left > 0)
        len = MIN(len, (uint64_t)x->left);
    if (c->at < c->have) {
        *n = MIN(len, c->have - c->at);
        memcpy(to, c->in + c->at, *n);
        c->at += *n;
    } else {
        rc = plain_recv(c->stream, to, len, x->f->idle_ms, n, eb);
        if (rc == ERR_OK && *n == 0 && x->left != HTTP_TO_END)
            rc = err_set(eb, ERR_INCOMPLETE, "the server ended the answer in the middle");
        x->ended = rc == ERR_OK && *n == 0;
    }
    if (rc == ERR_OK && x->left > 0) {
        x->left -= (int64_t)*n;
        x->ended = x->left == 0;
    }
    return rc;
}

void
exchange_end(struct exchange *x)
{
    struct conn *c = x->conn;

    if (!x->active)
        return;
    x->active = false;
    if (c != NULL &&
        (!x->ended || x->left == HTTP_TO_END || !c->head.keep_alive || c->at != c->have))
        conn_free(
            &x->f->locked.conns[x->slot]); /* the slot is ours until it is released */
    x->conn = NULL;
    handle_release(x->f, x->slot);
}

/* ---- error answers ---- */

static void
read_error(struct exchange *x, const struct call *c, struct failure *why, enum err *rc,
           struct errbuf *eb)
{
    struct span after = http_get(&x->conn->head, HTTP_RETRY_AFTER);
    struct arena *a = arena_new(KIB(4), MIB(1));
    struct s3xml_error doc = {.code = {"", 0}};
    struct errbuf ignored = {{0}};
    struct buf text;
    uint64_t seconds = 0;
    size_t n = 1;

    why->status = x->conn->head.code;
    if (num_u64(after, &seconds) == ERR_OK)
        why->retry_after_ms = MIN(seconds, 3600) * 1000;
    buf_init(&text, ERROR_DOC_MAX);
    while (n > 0) { /* without its end the status is clear enough */
        char *room = buf_reserve(&text, KIB(4));

        if (room == NULL || exchange_read(x, room, KIB(4), &n, &ignored) != ERR_OK)
            break;
        text.len += n;
    }
    if (s3xml_error_parse(buf_span(&text), a, &doc, NULL) == ERR_OK &&
        doc.code.len < sizeof why->code)
        memcpy(why->code, doc.code.at, doc.code.len);
    why->retry = failure_may_pass(why->status, why->code);
    *rc = failure_code(why->status, why->code);
    if (doc.message.len > 0)
        err_set(eb, *rc, "%s (%d): %.*s", why->code, why->status,
                (int)MIN(doc.message.len, 240u), doc.message.at);
    else
        err_set(eb, *rc, "the server answered %d to %s", why->status, c->method);
    err_prefix(eb, "s3://%.*s%s%.*s", SPAN_ARG(c->bucket), c->key.len > 0 ? "/" : "",
               (int)MIN(c->key.len, 100u), c->key.at);
    buf_fini(&text);
    arena_free(&a);
}

/* ---- all of it ---- */

/* One try on the connection of the slot. *stale: the server may have closed it before the request came. */
static enum err
try_call(struct exchange *x, const struct call *c, bool *stale, struct errbuf *eb)
{
    bool came = false, used;
    enum err rc;

    assert(x->active);
    x->conn = x->f->locked.conns[x->slot];
    if (x->conn != NULL && !plain_is_quiet(x->conn->stream))
        conn_free(&x->f->locked.conns[x->slot]);
    if (x->f->locked.conns[x->slot] == NULL) {
        rc = conn_open(x->f, &x->f->locked.conns[x->slot], eb);
        if (rc != ERR_OK) {
            x->conn = NULL;
            return rc;
        }
    }
    x->conn = x->f->locked.conns[x->slot];
    used = x->conn->used;
    rc = send_call(x, c, eb);
    if (rc == ERR_OK || rc == ERR_CLOSED) { /* it may have answered before it closed */
        enum err sent = rc;

        rc = read_head(x, http_method_of(span_of(c->method)), &came, eb);
        rc = sent != ERR_OK && rc != ERR_OK ? sent : rc;
        if (sent != ERR_OK)
            x->conn->head.keep_alive = false;
    }
    *stale = rc == ERR_CLOSED && used && !came;
    return rc;
}

enum err
exchange_begin(struct forebay *f, const struct call *c, struct exchange *x,
               struct failure *why, struct errbuf *eb)
{
    bool stale = false;
    enum err rc;

    *why = (struct failure){0};
    err_forget(eb);
    *x = (struct exchange){.f = f, .slot = handle_acquire(f), .active = true};
    rc = try_call(x, c, &stale, eb);
    if (stale) {
        conn_free(&f->locked.conns[x->slot]);
        rc = try_call(x, c, &stale, eb);
    }
    if (rc != ERR_OK) {
        why->retry = rc == ERR_CLOSED || rc == ERR_TIMEOUT || rc == ERR_BUSY;
    } else if (x->conn->head.code < 200 || x->conn->head.code >= 300) {
        read_error(x, c, why, &rc, eb);
        assert(rc != ERR_OK);
    } else {
        why->status = x->conn->head.code;
        return ERR_OK;
    }
    if (why->status == 0) { /* the state of the connection is unknown */
        conn_free(&f->locked.conns[x->slot]);
        x->conn = NULL;
    }
    exchange_end(x);
    return rc;
}
