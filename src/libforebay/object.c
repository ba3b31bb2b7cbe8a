/* object: get, head, put and remove of one object. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/num.h"
#include "libforebay/internal.h"
#include "wire/etag.h"

#define PUT_MOST GIB(5)

/* ---- get ---- */

/* A read in progress, across attempts. */
struct reading {
    const char *bucket, *key;
    uint64_t first, len; /* wanted; FOREBAY_TO_END */
    char *to;            /* the caller's, or owned */
    size_t room, got;
    bool fixed;     /* `to` is the caller's */
    bool known;     /* the first head has been read: `goal` and `etag` hold */
    uint64_t goal;  /* bytes that there will be */
    char etag[200]; /* with quotes; "" where the server gives none */
};

static void
reading_call(const struct reading *r, struct call *c, char range[64])
{
    uint64_t from = r->first + r->got;
    bool to_end = r->len == FOREBAY_TO_END || r->len > UINT64_MAX - 1 - r->first;

    *c = (struct call){
        .method = "GET", .bucket = span_of(r->bucket), .key = span_of(r->key)};
    if (from == 0 && to_end)
        return;
    if (to_end)
        snprintf(range, 64, "bytes=%" PRIu64 "-", from);
    else
        snprintf(range, 64, "bytes=%" PRIu64 "-%" PRIu64, from, r->first + r->len - 1);
    c->headers[c->header_count++] = (struct field){SPAN("range"), span_of(range)};
    if (r->known && r->etag[0] != '\0')
        c->headers[c->header_count++] =
            (struct field){SPAN("if-match"), span_of(r->etag)};
}

/* The head of the first answer says how much there will be; those of later ones must go on where it broke off. */
static enum err
reading_head(struct reading *r, const struct exchange *x, bool ranged, struct errbuf *eb)
{
    const struct http_head *h = &x->conn->head;
    struct span etag = http_get(h, HTTP_ETAG);
    struct range part = {0};
    uint64_t size = 0;

    if (h->body_length < 0)
        return err_set(eb, ERR_BACKEND, "the server did not say how long the object is");
    if (ranged) {
        if (h->code != 206 ||
            content_range_parse(http_get(h, HTTP_CONTENT_RANGE), &part, &size) !=
                ERR_OK ||
            part.first != r->first + r->got || part.len != (uint64_t)h->body_length)
            return err_set(eb, ERR_BACKEND,
                           "the server did not give the range that was asked for");
    }
    if (!r->known) {
        r->known = true;
        r->goal = (uint64_t)h->body_length;
        if (!span_starts(etag, SPAN("W/"))) /* a weak one does not identify bytes */
            snprintf(r->etag, sizeof r->etag, "%.*s", SPAN_ARG(etag));
    } else if (r->got + (uint64_t)h->body_length != r->goal) {
        return err_set(eb, ERR_PRECONDITION, "the object changed while it was read");
    }
    if (r->fixed && r->goal > r->room)
        return err_set(eb, ERR_BACKEND, "the server sent more than was asked for");
    if (!r->fixed && r->to == NULL) {
        r->room = r->goal > 0 ? (size_t)r->goal : 1;
        r->to = r->goal < SIZE_MAX ? malloc(r->room) : NULL;
        if (r->to == NULL)
            return err_set(eb, ERR_TOO_LARGE,
                           "there is no memory for the %" PRIu64
                           " bytes of s3://%s/%.100s: read it in ranges",
                           r->goal, r->bucket, r->key);
    }
    return ERR_OK;
}

static enum err
reading_attempt(struct forebay *f, struct reading *r, struct failure *why,
                struct errbuf *eb)
{
    struct exchange x;
    struct call c;
    char range[64];
    size_t n = 1;
    enum err rc;

    reading_call(r, &c, range);
    rc = exchange_begin(f, &c, &x, why, eb);
    if (rc != ERR_OK)
        return rc;
    rc = reading_head(r, &x, c.header_count > 0, eb);
    while (rc == ERR_OK && r->got < r->goal && n > 0) {
        rc = exchange_read(&x, r->to + r->got, (size_t)(r->goal - r->got), &n, eb);
        r->got += rc == ERR_OK ? n : 0;
        why->retry = rc != ERR_OK && rc != ERR_BACKEND;
    }
    assert(rc != ERR_OK || r->got == r->goal); /* exchange_read() checks the length */
    exchange_end(&x);
    return rc;
}

static int
reading_run(struct forebay *f, struct reading *r, struct forebay_error *e)
{
    struct attempts tries = {0};
    struct failure why = {0};
    struct errbuf eb = {{0}};
    enum err rc;

    for (;;) {
        size_t before = r->got;

        rc = reading_attempt(f, r, &why, &eb);
        if (rc == ERR_OK)
            return FOREBAY_OK;
        if (rc == ERR_RANGE && r->first == 0 && r->got == 0) { /* an empty object */
            r->goal = 0;
            if (!r->fixed)
                r->to = xmalloc(1);
            return FOREBAY_OK;
        }
        if (r->got > before)
            tries.failed = 0;
        if (!attempts_go_on(f, &tries, rc, &why, &eb))
            return result_of(rc, &why, &eb, e);
    }
}

int
forebay_get(struct forebay *f, const char *bucket, const char *key, uint64_t first,
            uint64_t len, void **data, size_t *got, struct forebay_error *e)
{
    struct reading r = {.bucket = bucket, .key = key, .first = first, .len = len};
    int rc;

    *data = NULL;
    *got = 0;
    if (!check_names(bucket, key, e, &rc))
        return rc;
    if (len == 0)
        return result_invalid(e, "a range has at least 1 byte");
    rc = reading_run(f, &r, e);
    if (rc != FOREBAY_OK) {
        free(r.to);
        return rc;
    }
    *data = r.to;
    *got = r.got;
    return FOREBAY_OK;
}

int
forebay_get_into(struct forebay *f, const char *bucket, const char *key, uint64_t first,
                 void *to, size_t room, size_t *got, struct forebay_error *e)
{
    struct reading r = {.bucket = bucket,
                        .key = key,
                        .first = first,
                        .len = room,
                        .to = to,
                        .room = room,
                        .fixed = true};
    int rc;

    *got = 0;
    if (!check_names(bucket, key, e, &rc))
        return rc;
    if (room == 0)
        return result_invalid(e, "a range has at least 1 byte");
    rc = reading_run(f, &r, e);
    *got = rc == FOREBAY_OK ? r.got : 0;
    return rc;
}

void
forebay_free(void *data)
{
    free(data);
}

/* ---- calls with a small answer ---- */

/* Runs the call until it succeeds or fails for good; `on_head` reads the answer's head. */
static int
run_small(struct forebay *f, const struct call *c,
          enum err (*on_head)(const struct http_head *h, void *arg, struct errbuf *eb),
          void *arg, struct forebay_error *e)
{
    struct attempts tries = {0};
    struct failure why = {0};
    struct errbuf eb = {{0}};
    char rest[512];
    enum err rc;

    for (;;) {
        struct exchange x;
        size_t n = 1;

        rc = exchange_begin(f, c, &x, &why, &eb);
        if (rc == ERR_OK && on_head != NULL)
            rc = on_head(&x.conn->head, arg, &eb);
        while (rc == ERR_OK && n > 0) /* keeps the connection */
            rc = exchange_read(&x, rest, sizeof rest, &n, &eb);
        exchange_end(&x);
        if (rc == ERR_OK)
            return FOREBAY_OK;
        why.retry = why.retry || rc == ERR_INCOMPLETE;
        if (!attempts_go_on(f, &tries, rc, &why, &eb))
            return result_of(rc, &why, &eb, e);
    }
}

static enum err
take_info(const struct http_head *h, void *arg, struct errbuf *eb)
{
    struct forebay_info *out = arg;
    int64_t s = 0;

    if (num_u64(http_get(h, HTTP_CONTENT_LENGTH), &out->size) != ERR_OK)
        return err_set(eb, ERR_BACKEND, "the server did not say how long the object is");
    if (date_http_parse(http_get(h, HTTP_LAST_MODIFIED), &s) == ERR_OK)
        out->mtime_ms = s * 1000;
    snprintf(out->etag, sizeof out->etag, "%.*s",
             SPAN_ARG(etag_unquote(http_get(h, HTTP_ETAG))));
    snprintf(out->content_type, sizeof out->content_type, "%.*s",
             SPAN_ARG(http_get(h, HTTP_CONTENT_TYPE)));
    return ERR_OK;
}

int
forebay_head(struct forebay *f, const char *bucket, const char *key,
             struct forebay_info *out, struct forebay_error *e)
{
    struct call c = {.method = "HEAD", .bucket = span_of(bucket), .key = span_of(key)};
    int rc;

    *out = (struct forebay_info){0};
    if (!check_names(bucket, key, e, &rc))
        return rc;
    return run_small(f, &c, take_info, out, e);
}

int
forebay_put(struct forebay *f, const char *bucket, const char *key, const void *data,
            size_t len, struct forebay_error *e)
{
    struct call c = {.method = "PUT", .bucket = span_of(bucket), .key = span_of(key)};
    char text[BASE64_LEN(4) + 1];
    unsigned char bytes[4];
    uint32_t sum;
    int rc;

    if (!check_names(bucket, key, e, &rc))
        return rc;
    if (len > PUT_MOST) {
        result_invalid(e,
                       "%zu bytes for s3://%s/%.100s: one request carries at most 5 GiB",
                       len, bucket, key);
        return e->code = FOREBAY_TOO_LARGE;
    }
    sum = hash_crc32c(0, data, len);
    for (unsigned i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(sum >> (24 - 8 * i));
    base64_encode(bytes, 4, text);
    c.body = (struct span){data != NULL ? data : "", len};
    c.headers[c.header_count++] =
        (struct field){SPAN("x-amz-checksum-crc32c"), span_of(text)};
    return run_small(f, &c, NULL, NULL, e);
}

int
forebay_remove(struct forebay *f, const char *bucket, const char *key,
               struct forebay_error *e)
{
    struct call c = {.method = "DELETE", .bucket = span_of(bucket), .key = span_of(key)};
    int rc;

    if (!check_names(bucket, key, e, &rc))
        return rc;
    return run_small(f, &c, NULL, NULL, e);
}
