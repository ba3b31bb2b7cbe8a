/* fake_remote: a remote bucket in the test's own program: one object, and every way to misbehave. It serves on every
 * loop; a test changes it while no request is under way. */
#pragma once
#include <stdatomic.h>

#include "check.h"

#include "base/hash.h"
#include "base/mem.h"
#include "base/num.h"
#include "http/server.h"
#include "rt/loop.h"
#include "wire/etag.h"

struct fake {
    struct http_server *server;
    uint16_t port;
    char endpoint[64];
    /* The object; NULL: none. */
    const char *body;
    size_t len;
    char etag[64]; /* without quotes */
    /* How it behaves. */
    unsigned
        fail_times; /* the next so many requests get `fail_status`; 0 as status: a reset */
    int fail_status;
    _Atomic unsigned
        cut_times; /* the next so many bodies end in a reset after cut_after bytes */
    size_t cut_after;
    bool change_after_cut; /* the object is another one then */
    bool plain_errors;     /* errors have no document */
    bool flip_last;        /* the last byte is a wrong one */
    _Atomic bool hold; /* GETs wait behind the first half of the body while it is set */
    const char *document; /* what other requests are answered with, 200 */
    /* What it saw. */
    _Atomic unsigned requests, gets, heads, puts, deletes, others, ranges, conditions;
    char last_authorization[256];
    char last_target[512];
    struct buf stored; /* the body of the last PUT */
};

static inline void
fake_set(struct fake *f, const char *body, size_t len)
{
    unsigned char md5[DIGEST_MAX];

    f->body = body;
    f->len = len;
    digest_oneshot(DIGEST_MD5, body, len, md5);
    hex_encode(md5, 16, f->etag);
}

static inline void
fake_send(struct fake *f, struct http_request *r, uint64_t first, uint64_t last,
          int status)
{
    uint64_t at = first, end = last + 1;
    bool cut = f->cut_times > 0 && r->head->method == HTTP_METHOD_GET;
    size_t sent = 0;

    f->cut_times -= cut;
    http_headerf(r, "etag", "\"%s\"", f->etag);
    http_header(r, "last-modified", SPAN("Wed, 01 Jan 2025 00:00:00 GMT"));
    http_header(r, "x-amz-meta-color", SPAN("green"));
    if (status == 206)
        http_headerf(r, "content-range", "bytes %llu-%llu/%zu", (unsigned long long)first,
                     (unsigned long long)last, f->len);
    if (http_reply_begin(r, status, (int64_t)(end - first)) != ERR_OK)
        return;
    while (at < end && http_reply_wants_body(r)) {
        size_t n = MIN(end - at, 32768u);
        char piece[1];

        if (cut && sent + n > f->cut_after)
            n = f->cut_after - sent;
        if (f->flip_last && at + n == f->len && n > 0)
            n--;
        if (n > 0 && http_reply_write(r, f->body + at, n) != ERR_OK)
            return;
        at += n;
        sent += n;
        if (cut && sent >= f->cut_after) {
            rt_yield();
            if (f->change_after_cut)
                memcpy(f->etag, "0123456789abcdef0123456789abcdef", 33);
            http_reply_abort(r);
            return;
        }
        if (f->flip_last && at + 1 == f->len) {
            piece[0] = (char)(f->body[at] ^ 1);
            if (http_reply_write(r, piece, 1) != ERR_OK)
                return;
            at++;
        }
        while (f->hold && at >= f->len / 2)
            if (rt_sleep_ms(1) != ERR_OK)
                return;
    }
    (void)http_reply_end(r);
}

static inline void
fake_error(struct http_request *r, int status, const char *code)
{
    char text[256];
    int n = snprintf(text, sizeof text,
                     "<?xml version=\"1.0\"?><Error><Code>%s</Code><Message>said the "
                     "remote</Message></Error>",
                     code);

    (void)http_reply(r, status, (struct span){text, (size_t)n});
}

static inline void
fake_read(struct fake *f, struct http_request *r)
{
    struct span if_match = http_get(r->head, HTTP_IF_MATCH);
    struct range range = {0};

    f->conditions += if_match.at != NULL;
    if (f->body == NULL) {
        fake_error(r, 404, "NoSuchKey");
        return;
    }
    if (if_match.at != NULL && !span_is(etag_unquote(if_match), f->etag)) {
        fake_error(r, 412, "PreconditionFailed");
        return;
    }
    switch (range_resolve(http_get(r->head, HTTP_RANGE), f->len, &range)) {
    case RANGE_WHOLE:
        fake_send(f, r, 0, f->len - 1, 200);
        break;
    case RANGE_PART:
        f->ranges++;
        fake_send(f, r, range.first, range.first + range.len - 1, 206);
        break;
    case RANGE_UNSATISFIABLE:
        fake_error(r, 416, "InvalidRange");
        break;
    }
}

static inline void
fake_write(struct fake *f, struct http_request *r)
{
    char piece[4096];
    size_t n = 1;

    buf_clear(&f->stored);
    while (n > 0 && http_body_read(r, piece, sizeof piece, &n, NULL) == ERR_OK)
        buf_put(&f->stored, piece, n);
    fake_set(f, f->stored.at, f->stored.len);
    http_headerf(r, "etag", "\"%s\"", f->etag);
    (void)http_reply(r, 200, SPAN(""));
}

static inline void
fake_handle(struct http_request *r, void *arg)
{
    struct fake *f = arg;
    struct span auth = fields_get(http_fields(r->head), "authorization");

    f->requests++;
    snprintf(f->last_authorization, sizeof f->last_authorization, "%.*s", SPAN_ARG(auth));
    snprintf(f->last_target, sizeof f->last_target, "%.*s", SPAN_ARG(r->head->target));
    f->gets += r->head->method == HTTP_METHOD_GET && r->head->query.len == 0;
    f->heads += r->head->method == HTTP_METHOD_HEAD;
    if (f->fail_times > 0) {
        f->fail_times--;
        if (f->fail_status == 0)
            http_reply_abort(r);
        else if (f->fail_status / 100 == 3) {
            http_header(r, "location", SPAN("http://127.0.0.1:9/elsewhere"));
            (void)http_reply(r, f->fail_status, SPAN(""));
        } else if (f->plain_errors) {
            (void)http_reply(r, f->fail_status, SPAN("not XML"));
        } else {
            fake_error(r, f->fail_status,
                       f->fail_status == 403 ? "AccessDenied" : "InternalError");
        }
    } else if (r->head->query.len > 0) {
        f->others++;
        (void)http_reply(r, 200, span_of(f->document));
    } else if (r->head->method == HTTP_METHOD_PUT) {
        f->puts++;
        fake_write(f, r);
    } else if (r->head->method == HTTP_METHOD_DELETE) {
        f->deletes++;
        f->body = NULL;
        (void)http_reply(r, 204, SPAN(""));
    } else {
        fake_read(f, r);
    }
}

static inline void
fake_start(struct fake *f)
{
    struct http_server_options o = {.linger_ms = 50};
    struct http_handler h = {.handle = fake_handle, .arg = f};
    struct errbuf eb = {{0}};

    *f = (struct fake){.document = ""};
    buf_init(&f->stored, 64u << 20);
    REQUIRE(http_server_new(&o, &h, &f->server, &eb) == ERR_OK);
    REQUIRE(http_server_listen(f->server, "127.0.0.1", 0, NULL, &f->port, &eb) == ERR_OK);
    snprintf(f->endpoint, sizeof f->endpoint, "http://127.0.0.1:%u", f->port);
}

static inline void
fake_release(struct fake *f)
{
    f->hold = false;
}

static inline void
fake_stop(struct fake *f)
{
    fake_release(f);
    http_server_stop(&f->server);
    buf_fini(&f->stored);
}
