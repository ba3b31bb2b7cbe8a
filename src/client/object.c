/* object: GET, HEAD, PUT and DELETE of one object. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "client/internal.h"
#include "wire/etag.h"

#define USER_PREFIX "x-amz-meta-"

static struct span
keep_span(struct arena *a, struct span s)
{
    return s.len > 0 ? arena_span(a, s) : (struct span){"", 0};
}

static void
read_user_metadata(const struct http_head *h, struct arena *a, struct s3_object_info *out)
{
    size_t prefix = strlen(USER_PREFIX);

    out->user = arena_alloc(a, (h->count > 0 ? h->count : 1) * sizeof *out->user);
    for (unsigned i = 0; i < h->count; i++) {
        struct span name = h->headers[i].name;
        char *lower;

        if (name.len <= prefix || strncasecmp(name.at, USER_PREFIX, prefix) != 0)
            continue;
        lower = arena_strdup(a, span_from(name, prefix));
        for (char *p = lower; *p != '\0'; p++)
            if (*p >= 'A' && *p <= 'Z')
                *p = (char)(*p + 32);
        out->user[out->user_count].name = (struct span){lower, name.len - prefix};
        out->user[out->user_count++].value = arena_span(a, h->headers[i].value);
    }
}

static void
read_checksums(const struct http_head *h, struct arena *a, struct s3_object_info *out)
{
    struct fields f = http_fields(h);

    for (int kind = CHECKSUM_CRC32; kind < CHECKSUM_KIND_COUNT_; kind++) {
        struct span v = fields_get(f, checksum_header((enum checksum_kind)kind));

        if (v.at == NULL)
            continue;
        out->checksum_name = span_of(checksum_name((enum checksum_kind)kind));
        out->checksum_value = arena_span(a, v);
        out->checksum_type = keep_span(a, fields_get(f, "x-amz-checksum-type"));
        return;
    }
}

/* Reads the head of an answer. Everything is copied: the head goes with the connection. */
static enum err
info_of(const struct http_head *h, struct arena *a, struct s3_object_info *out,
        struct errbuf *eb)
{
    struct fields f = http_fields(h);
    struct range range = {0};
    uint64_t size = 0;
    int64_t mtime_s = 0, date_s = 0;

    *out = (struct s3_object_info){0};
    if (h->body_length < 0)
        return err_set(eb, ERR_BACKEND, "the server did not say how long the object is");
    out->body_length = (uint64_t)h->body_length;
    out->size = out->body_length;
    if (h->code == 206) {
        if (content_range_parse(http_get(h, HTTP_CONTENT_RANGE), &range, &size) !=
                ERR_OK ||
            size == UINT64_MAX)
            return err_set(eb, ERR_BACKEND,
                           "the server sent a part without a Content-Range");
        /* The largest length in HTTP; a larger one would let a reader run past the end. */
        if (size > INT64_MAX || range.len != out->body_length)
            return err_set(eb, ERR_BACKEND,
                           "the server sent %" PRIu64 " bytes as the %" PRIu64
                           " from %" PRIu64 " on of %" PRIu64,
                           out->body_length, range.len, range.first, size);
        out->partial = true;
        out->range_first = range.first;
        out->size = size;
    }
    if (date_http_parse(http_get(h, HTTP_LAST_MODIFIED), &mtime_s) != ERR_OK)
        mtime_s = 0;
    out->mtime_ms = mtime_s * 1000;
    if (date_http_parse(fields_get(f, "date"), &date_s) == ERR_OK)
        out->date_ms = date_s * 1000;
    /* A weak ETag does not identify bytes. */
    if (!span_starts(span_trim(http_get(h, HTTP_ETAG)), SPAN("W/")))
        out->etag = keep_span(a, etag_unquote(http_get(h, HTTP_ETAG)));
    out->ranges = span_case_is(fields_get(f, "accept-ranges"), "bytes");
    out->stale = fields_get(f, "x-forebay-stale").len > 0;
    out->last_modified = keep_span(a, http_get(h, HTTP_LAST_MODIFIED));
    out->content_type = keep_span(a, http_get(h, HTTP_CONTENT_TYPE));
    out->cache_control = keep_span(a, http_get(h, HTTP_CACHE_CONTROL));
    out->content_disposition = keep_span(a, http_get(h, HTTP_CONTENT_DISPOSITION));
    out->content_encoding = keep_span(a, http_get(h, HTTP_CONTENT_ENCODING));
    out->content_language = keep_span(a, http_get(h, HTTP_CONTENT_LANGUAGE));
    out->expires = keep_span(a, http_get(h, HTTP_EXPIRES));
    out->storage_class = keep_span(a, http_get(h, HTTP_AMZ_STORAGE_CLASS));
    out->version_id = keep_span(a, fields_get(f, "x-amz-version-id"));
    out->sse = keep_span(a, fields_get(f, "x-amz-server-side-encryption"));
    out->sse_kms =
        keep_span(a, fields_get(f, "x-amz-server-side-encryption-aws-kms-key-id"));
    if (out->sse_kms.len == 0)
        out->sse_kms = keep_span(
            a, fields_get(f, "x-amz-server-side-encryption-customer-algorithm"));
    if (out->sse_kms.len == 0 && out->sse.len > 4 && memcmp(out->sse.at, "aws:", 4) == 0)
        out->sse_kms = out->sse; /* some servers do not name the key */
    read_user_metadata(h, a, out);
    read_checksums(h, a, out);
    return ERR_OK;
}

static enum err
head_object(struct s3_client *c, const struct s3_call_spec *o, struct arena *a,
            struct s3_object_info *out, struct s3_failure *f, struct errbuf *eb)
{
    struct s3_call *call = NULL;
    enum err rc;

    *f = (struct s3_failure){0};
    rc = call_begin(c, o, &call, eb);
    f->retry = rc != ERR_OK && rc != ERR_CANCELLED;
    if (rc == ERR_OK)
        rc = call_finish(call, o, f, eb);
    /* The length of a HEAD is in Content-Length; it has no body. */
    if (rc == ERR_OK) {
        struct http_head head = *call->head;
        uint64_t length = 0;

        if (num_u64(http_get(&head, HTTP_CONTENT_LENGTH), &length) != ERR_OK)
            rc =
                err_set(eb, ERR_BACKEND, "the server did not say how long the object is");
        head.body_length = (int64_t)length;
        if (rc == ERR_OK)
            rc = info_of(&head, a, out, eb);
    }
    s3_end(&call);
    return rc;
}

enum err
s3_head(struct s3_client *c, struct span bucket, struct span key, struct arena *a,
        struct s3_object_info *out, struct s3_failure *f, struct errbuf *eb)
{
    struct s3_call_spec o = {
        .method = "HEAD", .bucket = bucket, .key = key, .length = HTTP_NO_BODY};

    return head_object(c, &o, a, out, f, eb);
}

enum err
s3_head_sums(struct s3_client *c, struct span bucket, struct span key, struct arena *a,
             struct s3_object_info *out, struct s3_failure *f, struct errbuf *eb)
{
    struct s3_header headers[1] = {{SPAN("x-amz-checksum-mode"), SPAN("ENABLED")}};
    struct s3_call_spec o = {.method = "HEAD",
                             .bucket = bucket,
                             .key = key,
                             .headers = headers,
                             .header_count = 1,
                             .length = HTTP_NO_BODY};

    return head_object(c, &o, a, out, f, eb);
}

enum err
s3_head_part(struct s3_client *c, struct span bucket, struct span key, uint32_t part,
             struct arena *a, struct s3_object_info *out, struct s3_failure *f,
             struct errbuf *eb)
{
    char number[16];
    struct param params[1] = {{SPAN("partNumber"), {number, 0}}};
    struct s3_call_spec o = {.method = "HEAD",
                             .bucket = bucket,
                             .key = key,
                             .params = params,
                             .param_count = 1,
                             .length = HTTP_NO_BODY};

    params[0].value.len = (size_t)snprintf(number, sizeof number, "%u", part);
    return head_object(c, &o, a, out, f, eb);
}

enum err
s3_get_begin(struct s3_client *c, const struct s3_get *g, struct arena *a,
             struct s3_object_info *out, struct s3_call **call, struct s3_failure *f,
             struct errbuf *eb)
{
    struct s3_header headers[3];
    struct s3_call_spec o = {.method = "GET",
                             .bucket = g->bucket,
                             .key = g->key,
                             .headers = headers,
                             .length = HTTP_NO_BODY};
    char range[64];
    enum err rc;

    *f = (struct s3_failure){0};
    *call = NULL;
    if (g->range) {
        if (g->last == UINT64_MAX)
            snprintf(range, sizeof range, "bytes=%llu-", (unsigned long long)g->first);
        else
            snprintf(range, sizeof range, "bytes=%llu-%llu", (unsigned long long)g->first,
                     (unsigned long long)g->last);
        headers[o.header_count++] = (struct s3_header){SPAN("range"), span_of(range)};
    }
    if (g->if_match.len > 0)
        headers[o.header_count++] = (struct s3_header){
            SPAN("if-match"),
            span_of(arena_printf(a, "\"%.*s\"", SPAN_ARG(g->if_match)))};
    if (g->checksum_mode)
        headers[o.header_count++] =
            (struct s3_header){SPAN("x-amz-checksum-mode"), SPAN("ENABLED")};
    rc = call_begin(c, &o, call, eb);
    f->retry = rc != ERR_OK && rc != ERR_CANCELLED;
    if (rc == ERR_OK)
        rc = call_finish(*call, &o, f, eb);
    if (rc == ERR_OK)
        rc = info_of((*call)->head, a, out, eb);
    if (rc == ERR_OK && g->range && (!out->partial || out->range_first != g->first))
        rc = err_set(eb, ERR_BACKEND,
                     "the server did not give the range that was asked for");
    if (rc == ERR_OK && !g->range && out->body_length != out->size)
        rc = err_set(eb, ERR_BACKEND,
                     "the server sent a part of what was asked for as a whole");
    if (rc != ERR_OK)
        s3_end(call);
    return rc;
}

enum err
s3_page_begin(struct s3_client *c, struct span path, struct s3_call **call,
              struct s3_failure *f, struct errbuf *eb)
{
    struct s3_call_spec o = {
        .method = "GET", .key = span_from(path, 1), .length = HTTP_NO_BODY};
    enum err rc;

    *f = (struct s3_failure){0};
    *call = NULL;
    rc = call_begin(c, &o, call, eb);
    if (rc == ERR_OK)
        rc = call_finish(*call, &o, f, eb);
    if (rc != ERR_OK)
        s3_end(call);
    return rc;
}

enum err
s3_read(struct s3_call *call, void *buf, size_t len, size_t *n, struct errbuf *eb)
{
    return http_call_read(call->http, buf, len, n, eb);
}

enum err
s3_put_begin(struct s3_client *c, const struct s3_put *p, struct s3_call **call,
             struct errbuf *eb)
{
    char number[16];
    struct param params[2] = {{SPAN("partNumber"), {number, 0}},
                              {SPAN("uploadId"), p->upload_id}};
    struct s3_header *headers = xcalloc(p->header_count + 1, sizeof *headers);
    struct s3_call_spec o = {.method = "PUT",
                             .bucket = p->bucket,
                             .key = p->key,
                             .headers = headers,
                             .header_count = p->header_count,
                             .length = (int64_t)p->size,
                             .sha256_hex = p->sha256_hex,
                             .expect = p->size > KIB(64),
                             .connected = p->connected};
    enum err rc;

    if (p->header_count > 0)
        memcpy(headers, p->headers, p->header_count * sizeof *headers);
    if (p->md5_base64 != NULL)
        headers[o.header_count++] =
            (struct s3_header){SPAN("content-md5"), span_of(p->md5_base64)};
    if (p->upload_id.len > 0) {
        params[0].value.len =
            (size_t)snprintf(number, sizeof number, "%u", p->part_number);
        o.params = params;
        o.param_count = 2;
    }
    rc = call_begin(c, &o, call, eb);
    free(headers);
    if (rc == ERR_OK) {
        (*call)->bucket = arena_span((*call)->arena, p->bucket);
        (*call)->key = arena_span((*call)->arena, p->key);
    }
    return rc;
}

enum err
s3_write(struct s3_call *call, const void *data, size_t len, struct errbuf *eb)
{
    return http_call_write(call->http, data, len, eb);
}

enum err
s3_put_finish(struct s3_call *call, struct arena *a, struct span *etag,
              struct s3_failure *f, struct errbuf *eb)
{
    struct s3_call_spec o = {.method = "PUT", .bucket = call->bucket, .key = call->key};
    enum err rc;

    *f = (struct s3_failure){0};
    rc = call_finish(call, &o, f, eb);
    if (rc == ERR_OK)
        *etag = keep_span(a, etag_unquote(http_get(call->head, HTTP_ETAG)));
    return rc;
}

enum err
s3_delete_if(struct s3_client *c, struct span bucket, struct span key,
             const struct s3_header *headers, uint32_t header_count, struct s3_failure *f,
             struct errbuf *eb)
{
    struct s3_call_spec o = {.method = "DELETE",
                             .bucket = bucket,
                             .key = key,
                             .headers = headers,
                             .header_count = header_count};
    struct arena *a = arena_new(KIB(4), MIB(1));
    enum err rc = call_simple(c, &o, (struct span){"", 0}, a, NULL, f, eb);

    arena_free(&a);
    return rc;
}

enum err
s3_delete(struct s3_client *c, struct span bucket, struct span key, struct s3_failure *f,
          struct errbuf *eb)
{
    return s3_delete_if(c, bucket, key, NULL, 0, f, eb);
}

/* ---- tags ---- */

enum err
s3_tags_get(struct s3_client *c, struct span bucket, struct span key, struct arena *a,
            struct span *doc, struct s3_failure *f, struct errbuf *eb)
{
    struct param params[1] = {{SPAN("tagging"), SPAN("")}};
    struct s3_call_spec o = {.method = "GET",
                             .bucket = bucket,
                             .key = key,
                             .params = params,
                             .param_count = 1};

    return call_simple(c, &o, (struct span){"", 0}, a, doc, f, eb);
}

enum err
s3_tags_set(struct s3_client *c, struct span bucket, struct span key, struct span doc,
            struct s3_failure *f, struct errbuf *eb)
{
    struct param params[1] = {{SPAN("tagging"), SPAN("")}};
    unsigned char md5[DIGEST_MAX];
    char text[BASE64_LEN(16) + 1];
    struct s3_header headers[] = {{SPAN("content-md5"), {text, BASE64_LEN(16)}}};
    struct s3_call_spec o = {.method = doc.len > 0 ? "PUT" : "DELETE",
                             .bucket = bucket,
                             .key = key,
                             .params = params,
                             .param_count = 1,
                             .headers = headers,
                             .header_count = doc.len > 0};
    struct arena *a = arena_new(KIB(4), MIB(1));
    enum err rc;

    digest_oneshot(DIGEST_MD5, doc.at, doc.len, md5);
    base64_encode(md5, 16, text);
    rc = call_simple(c, &o, doc, a, NULL, f, eb);
    arena_free(&a);
    return rc;
}
