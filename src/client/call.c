/* call: one signed request, and its answer as an error code. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/uri.h"
#include "client/internal.h"
#include "rt/loop.h"
#include "wire/s3name.h"

#define ARENA_FIRST    KIB(16)
#define ARENA_MAX      MIB(2)
#define ERROR_BODY_MAX KIB(64)
#define TARGET_MAX     KIB(16)

/* "/bucket/key" or, with virtual hosts, "/key"; percent-encoded. */
static void
put_path(struct buf *text, const struct s3_client *c, const struct s3_call_spec *o)
{
    buf_putc(text, '/');
    if (!c->virtual_host && o->bucket.len > 0) {
        uri_encode(text, o->bucket, c->plain);
        if (o->key.len > 0)
            buf_putc(text, '/');
    }
    uri_encode(text, o->key, true);
}

/* Path and query in the arena; `path` is the first part of `target`. */
static enum err
target_of(const struct s3_client *c, const struct s3_call_spec *o, struct arena *a,
          struct span *path, struct span *target, struct errbuf *eb)
{
    struct buf text;
    enum err rc = ERR_OK;

    buf_init(&text, TARGET_MAX);
    put_path(&text, c, o);
    path->len = text.len;
    for (uint32_t i = 0; i < o->param_count; i++) {
        buf_putc(&text, i == 0 ? '?' : '&');
        uri_encode(&text, o->params[i].name, false);
        buf_putc(&text, '=');
        uri_encode(&text, o->params[i].value, false);
    }
    if (text.full)
        rc = err_set(eb, ERR_TOO_LARGE, "path and query have over %zu bytes",
                     (size_t)TARGET_MAX);
    else
        *target = arena_span(a, buf_span(&text));
    path->at = target->at;
    buf_fini(&text);
    return rc;
}

static struct span
host_of(const struct s3_client *c, const struct s3_call_spec *o, struct arena *a)
{
    if (c->virtual_host && o->bucket.len > 0)
        return span_of(
            arena_printf(a, "%.*s.%s", SPAN_ARG(o->bucket), c->at.host_header));
    return span_of(c->at.host_header);
}

/* The caller's headers and those of the signature. The http room sends Host, but it is signed. */
static enum err
sign_call(struct s3_client *c, const struct s3_call_spec *o, struct span path,
          struct span host, struct arena *a, struct fields *out, struct errbuf *eb)
{
    struct field *h = arena_alloc(a, (o->header_count + 3 + SIGV4_ADDED_MAX) * sizeof *h);
    struct query q = {o->params, o->param_count};
    struct sigv4_signed *s = arena_alloc(a, sizeof *s);
    size_t n = 0;
    enum err rc;

    for (uint32_t i = 0; i < o->header_count; i++)
        h[n++] = (struct field){o->headers[i].name, o->headers[i].value};
    if (c->latest)
        h[n++] = (struct field){SPAN("x-forebay-latest"), SPAN("1")};
    if (c->requester_pays)
        h[n++] = (struct field){SPAN("x-amz-request-payer"), SPAN("requester")};
    if (!c->anonymous) {
        struct sigv4_creds creds = {.access_key = span_of(c->credentials.access_key),
                                    .secret = span_of(c->credentials.secret_key),
                                    .token = span_of(c->credentials.session_token),
                                    .region = span_of(c->region)};
        struct sigv4_request req = {
            .method = span_of(o->method), .path = path, .tls = c->at.tls};

        h[n] = (struct field){SPAN("host"), host};
        req.headers = (struct fields){h, n + 1};
        rc = sigv4_sign(
            &req, &q, &creds,
            span_of(o->sha256_hex != NULL ? o->sha256_hex : "UNSIGNED-PAYLOAD"),
            c->keys[rt_loop_index()], (int64_t)(rt_wall_ns() / 1000000000u), a, s);
        if (rc != ERR_OK)
            return err_set(eb, rc, "the request is too large to sign");
        for (size_t i = 0; i < s->add_count; i++)
            h[n++] = s->add[i];
    }
    *out = (struct fields){h, n};
    return ERR_OK;
}

enum err
call_begin(struct s3_client *c, const struct s3_call_spec *o, struct s3_call **out,
           struct errbuf *eb)
{
    struct s3_call *call = xcalloc(1, sizeof *call);
    struct http_call_request req = {.host = c->at.host,
                                    .port = c->at.port,
                                    .tls = c->at.tls,
                                    .method = o->method,
                                    .length = o->length,
                                    .expect_continue = o->expect,
                                    .connected = o->connected};
    struct span path = {"", 0};
    enum err rc;

    *out = NULL;
    call->arena = arena_new(ARENA_FIRST, ARENA_MAX);
    rc = target_of(c, o, call->arena, &path, &req.target, eb);
    req.host_header = host_of(c, o, call->arena);
    if (rc == ERR_OK)
        rc = sign_call(c, o, path, req.host_header, call->arena, &req.headers, eb);
    if (rc == ERR_OK)
        rc = http_call_begin(c->http, &req, &call->http, eb);
    if (rc != ERR_OK) {
        s3_end(&call);
        return rc;
    }
    *out = call;
    return ERR_OK;
}

void
s3_end(struct s3_call **cp)
{
    struct s3_call *call = *cp;

    *cp = NULL;
    if (call == NULL)
        return;
    http_call_end(&call->http);
    arena_free(&call->arena);
    free(call);
}

enum err
call_document(struct s3_call *call, size_t limit, struct arena *a, struct span *out,
              struct errbuf *eb)
{
    struct buf text;
    enum err rc = ERR_OK;
    size_t n = 0;

    *out = (struct span){"", 0};
    buf_init(&text, limit);
    do {
        char *room = buf_reserve(&text, MIN(KIB(16), limit - text.len));

        if (text.len == limit || room == NULL) {
            rc = err_set(eb, ERR_BACKEND, "the server's answer is over %zu bytes", limit);
            break;
        }
        rc = http_call_read(call->http, room, MIN(KIB(16), limit - text.len), &n, eb);
        text.len += rc == ERR_OK ? n : 0;
    } while (rc == ERR_OK && n > 0);
    if (rc == ERR_OK) {
        char *copy = arena_try(a, text.len + 1);

        if (copy == NULL)
            rc = err_set(eb, ERR_BACKEND, "the server's answer of %zu bytes is too large",
                         text.len);
        else if (text.len > 0)
            memcpy(copy, text.at, text.len);
        *out = (struct span){copy, copy != NULL ? text.len : 0};
    }
    buf_fini(&text);
    return rc;
}

/* Servers that reject a name mention neither the name nor the limit. */
static bool
say_what_is_wrong(const struct s3_call_spec *o, const struct s3_failure *f, enum err rc,
                  struct errbuf *eb)
{
    if (f->status != 400)
        return false;
    if (o->bucket.len > 0 && !s3_bucket_ok(o->bucket))
        err_set(eb, rc,
                "\"%.*s\" cannot be a bucket's name: %d to %d of a-z, 0-9, \"-\" and "
                "\".\", a "
                "letter or digit first and last, and no IP address",
                (int)MIN(o->bucket.len, 100u), o->bucket.at, S3_BUCKET_MIN,
                S3_BUCKET_MAX);
    else if (o->key.len > S3_KEY_MAX)
        err_set(eb, rc, "the key \"%.60s...\" has %zu bytes: at most %d", o->key.at,
                o->key.len, S3_KEY_MAX);
    else
        return false;
    return true;
}

enum err
error_of_document(struct span doc, int status, const struct s3_call_spec *o,
                  struct s3_failure *f, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(4), MIB(1));
    struct s3xml_error e = {.code = {"", 0}};
    enum err rc;

    f->status = status;
    if (s3xml_error_parse(doc, a, &e, NULL) == ERR_OK && e.code.len < sizeof f->code)
        memcpy(f->code, e.code.at, e.code.len);
    f->retry = failure_may_pass(status == 200 ? 500 : status, f->code);
    rc = failure_code(status == 200 ? 500 : status, f->code);
    if (say_what_is_wrong(o, f, rc, eb)) {
        arena_free(&a);
        return rc;
    }
    if (e.message.len > 0)
        err_set(eb, rc, "%s (%d): %.*s", f->code, status, (int)MIN(e.message.len, 200u),
                e.message.at);
    else
        err_set(eb, rc, "the server answered %d%s%s to %s", status,
                f->code[0] != '\0' ? " " : "", f->code, o->method);
    if (o->bucket.len > 0)
        err_prefix(eb, "s3://%.*s%s%.*s", SPAN_ARG(o->bucket), o->key.len > 0 ? "/" : "",
                   (int)MIN(o->key.len, 100u), o->key.at);
    arena_free(&a);
    return rc;
}

static enum err
read_refusal(struct s3_call *call, const struct s3_call_spec *o, struct s3_failure *f,
             struct errbuf *eb)
{
    struct span doc = {"", 0}, after = http_get(call->head, HTTP_RETRY_AFTER);
    const char *proxy = http_call_proxy(call->http);
    struct errbuf why = {{0}};
    uint64_t seconds;
    enum err rc;

    if (num_u64(after, &seconds) == ERR_OK)
        f->retry_after_ms = MIN(seconds, 3600) * 1000;
    if (strcmp(o->method, "HEAD") != 0 &&
        call_document(call, ERROR_BODY_MAX, call->arena, &doc, &why) != ERR_OK)
        doc = (struct span){"", 0}; /* the status is clear enough */
    rc = error_of_document(doc, call->head->code, o, f, eb);
    if (proxy != NULL && f->code[0] == '\0') /* it may be the proxy's own answer */
        err_prefix(eb, "through the proxy %s", proxy);
    return proxy != NULL && f->status == 407 ? ERR_BACKEND : rc;
}

enum err
call_finish(struct s3_call *call, const struct s3_call_spec *o, struct s3_failure *f,
            struct errbuf *eb)
{
    enum err rc = http_call_finish(call->http, &call->head, eb);

    if (rc != ERR_OK) {
        f->retry = rc != ERR_CANCELLED;
        return rc;
    }
    f->status = call->head->code;
    snprintf(f->region, sizeof f->region, "%.*s",
             SPAN_ARG(fields_get(http_fields(call->head), "x-amz-bucket-region")));
    if (call->head->code >= 200 && call->head->code < 300)
        return ERR_OK;
    return read_refusal(call, o, f, eb);
}

enum err
call_ask(struct s3_client *c, const struct s3_call_spec *given, struct span body,
         struct s3_call **out, struct s3_failure *f, struct errbuf *eb)
{
    struct s3_call_spec o = *given;
    bool connected = false;
    unsigned char sum[DIGEST_MAX];
    char hex[2 * DIGEST_MAX + 1];
    enum err rc;

    *f = (struct s3_failure){0};
    o.connected = &connected;
    digest_oneshot(DIGEST_SHA256, body.at, body.len, sum);
    hex_encode(sum, 32, hex);
    o.sha256_hex = hex;
    if (body.len > 0 || strcmp(o.method, "PUT") == 0 || strcmp(o.method, "POST") == 0)
        o.length = (int64_t)body.len;
    else
        o.length = HTTP_NO_BODY;
    rc = call_begin(c, &o, out, eb);
    if (rc == ERR_OK && body.len > 0)
        rc = http_call_write((*out)->http, body.at, body.len, eb);
    if (rc == ERR_OK)
        rc = call_finish(*out, &o, f, eb);
    else
        f->retry = rc != ERR_CANCELLED;
    f->unsent = !connected;
    return rc;
}

enum err
call_simple(struct s3_client *c, const struct s3_call_spec *o, struct span body,
            struct arena *a, struct span *answer, struct s3_failure *f, struct errbuf *eb)
{
    struct s3_call *call = NULL;
    struct span ignored;
    enum err rc = call_ask(c, o, body, &call, f, eb);

    if (rc == ERR_OK && strcmp(o->method, "HEAD") != 0) {
        rc = call_document(call, MIB(16), a, answer != NULL ? answer : &ignored, eb);
        f->retry = rc != ERR_OK;
    }
    s3_end(&call);
    return rc;
}

enum err
s3_presign(struct s3_client *c, const char *method, struct span bucket, struct span key,
           uint64_t expires_s, struct arena *a, struct span *url, struct errbuf *eb)
{
    struct s3_call_spec o = {.method = method, .bucket = bucket, .key = key};
    struct sigv4_creds creds = {.access_key = span_of(c->credentials.access_key),
                                .secret = span_of(c->credentials.secret_key),
                                .token = span_of(c->credentials.session_token),
                                .region = span_of(c->region)};
    struct sigv4_request req = {.method = span_of(method), .tls = c->at.tls};
    struct span host = host_of(c, &o, a), target, query;
    struct field header = {SPAN("host"), host};
    enum err rc;

    if (c->anonymous)
        return err_set(
            eb, ERR_BAD_REQUEST,
            "a URL can be signed with keys only, and there are none: --profile, "
            "AWS_ACCESS_KEY_ID, or eval $(forebay env) for a server of this machine");
    if (expires_s == 0 || expires_s > SIGV4_EXPIRES_MAX_S)
        return err_set(eb, ERR_BAD_REQUEST, "a URL lives 1 second to 7 days");
    rc = target_of(c, &o, a, &req.path, &target, eb);
    if (rc != ERR_OK)
        return rc;
    req.headers = (struct fields){&header, 1};
    rc = sigv4_presign(&req, &(struct query){NULL, 0}, &creds, expires_s,
                       c->keys[rt_loop_index()], (int64_t)(rt_wall_ns() / 1000000000u), a,
                       &query);
    if (rc != ERR_OK)
        return err_set(eb, rc, "the URL is too long to sign");
    *url = span_of(arena_printf(a, "http%s://%.*s%.*s?%.*s", c->at.tls ? "s" : "",
                                SPAN_ARG(host), SPAN_ARG(req.path), SPAN_ARG(query)));
    return ERR_OK;
}
