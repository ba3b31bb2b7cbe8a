/* headers: metadata between headers and objects, both ways. */
#include <assert.h>
#include <string.h>

#include "api/s3/s3.h"
#include "base/mem.h"
#include "base/num.h"
#include "rt/time.h"
#include "wire/s3tags.h"

#define USER_PREFIX "x-amz-meta-"
#define SYSTEM_MAX                                                                       \
    8192            /* content type and its like, together: it comes back in every head */
#define USER_MAX 64 /* pairs; 2 KiB of them are the real limit */

/* Headers that would change what is stored or who may read it, not built yet: refused by name, never ignored. */
#define UNBUILT(X)                                                                       \
    X("x-amz-object-lock-mode")                                                          \
    X("x-amz-object-lock-retain-until-date")                                             \
    X("x-amz-object-lock-legal-hold")                                                    \
    X("x-amz-server-side-encryption")                                                    \
    X("x-amz-server-side-encryption-aws-kms-key-id")                                     \
    X("x-amz-server-side-encryption-customer-algorithm")                                 \
    X("x-amz-server-side-encryption-customer-key")                                       \
    X("x-amz-server-side-encryption-context")                                            \
    X("x-amz-website-redirect-location")                                                 \
    X("x-amz-write-offset-bytes")                                                        \
    X("if-modified-since")                                                               \
    X("if-unmodified-since")                                                             \
    X("content-range")

#define X(text) {.at = (text), .len = sizeof(text) - 1},
static const struct span unbuilt[] = {UNBUILT(X)};
#undef X
/* Bit n: a name of n bytes is among them. */
#define X(text) | UINT64_C(1) << (sizeof(text) - 1)
static const uint64_t unbuilt_lengths = 0 UNBUILT(X);
#undef X

/* The name of the table that this one is, or NULL. */
static const struct span *
unbuilt_of(struct span name)
{
    if (name.len >= 64 || (unbuilt_lengths >> name.len & 1) == 0)
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(unbuilt); i++) {
        if (name.len == unbuilt[i].len &&
            strncasecmp(name.at, unbuilt[i].at, name.len) == 0)
            return &unbuilt[i];
    }
    return NULL;
}

enum err
s3_refuse_unbuilt(struct request *q)
{
    struct fields headers = http_fields(q->http->head);

    for (size_t i = 0; i < headers.count; i++) {
        const struct span *name = unbuilt_of(headers.at[i].name);

        if (name == NULL)
            continue;
        fault_set(&q->fault, S3_NotImplemented,
                  "The header %.*s is not implemented for %.*s", SPAN_ARG(*name),
                  SPAN_ARG(q->http->head->method_text));
        fault_add(&q->fault, "Header", *name);
        return ERR_NOT_IMPLEMENTED;
    }
    return ERR_OK;
}

/* "gzip, aws-chunked" is stored as "gzip", "aws-chunked" alone as nothing. */
static struct span
without_aws_chunked(struct arena *a, struct span value)
{
    struct buf out;
    struct span kept;

    buf_init(&out, value.len + 1);
    while (value.len > 0) {
        const char *comma = memchr(value.at, ',', value.len);
        size_t len = comma != NULL ? (size_t)(comma - value.at) : value.len;
        struct span token = span_trim((struct span){value.at, len});

        value = span_from(value, len + (comma != NULL));
        if (token.len == 0 || span_case_is(token, "aws-chunked"))
            continue;
        if (out.len > 0)
            buf_puts(&out, ",");
        buf_put_span(&out, token);
    }
    kept = arena_span(a, buf_span(&out));
    buf_fini(&out);
    return kept;
}

static bool
is_user_header(struct span name)
{
    return name.len > strlen(USER_PREFIX) &&
           strncasecmp(name.at, USER_PREFIX, strlen(USER_PREFIX)) == 0;
}

static struct span
lower_case(struct arena *a, struct span s)
{
    char *p = arena_strdup(a, s);

    for (size_t i = 0; i < s.len; i++)
        if (p[i] >= 'A' && p[i] <= 'Z')
            p[i] = (char)(p[i] + 32);
    return (struct span){p, s.len};
}

/* Repeated names join with a comma. */
static bool
join_with_earlier(struct arena *a, struct object_pair *pairs, uint32_t count,
                  struct span name, struct span value)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!span_eq(pairs[i].name, name))
            continue;
        pairs[i].value = span_of(
            arena_printf(a, "%.*s,%.*s", SPAN_ARG(pairs[i].value), SPAN_ARG(value)));
        return true;
    }
    return false;
}

static enum err
metadata_too_large(struct request *q, size_t size, const char *most)
{
    fault_set(&q->fault, S3_MetadataTooLarge, NULL);
    fault_add(&q->fault, "Size", span_of(arena_printf(q->arena, "%zu", size)));
    fault_add(&q->fault, "MaxSizeAllowed", span_of(most));
    return ERR_TOO_LARGE;
}

/* Names without the prefix, and values: what S3 limits. */
static size_t
user_size(struct fields headers)
{
    size_t total = 0;

    for (size_t i = 0; i < headers.count; i++)
        if (is_user_header(headers.at[i].name))
            total +=
                headers.at[i].name.len - strlen(USER_PREFIX) + headers.at[i].value.len;
    return total;
}

static enum err
headers_user_metadata(struct request *q, struct fields headers, struct object_meta *out)
{
    struct object_pair *pairs = NULL;
    size_t total = user_size(headers);

    for (size_t i = 0; i < headers.count; i++) {
        const struct field *f = &headers.at[i];
        struct span name;

        if (!is_user_header(f->name))
            continue;
        if (pairs == NULL)
            pairs = arena_alloc(q->arena, USER_MAX * sizeof *pairs);
        name = lower_case(q->arena, span_from(f->name, strlen(USER_PREFIX)));
        if (total > S3_METADATA_MAX || out->user_count == USER_MAX)
            return metadata_too_large(q, total, "2048");
        if (!join_with_earlier(q->arena, pairs, out->user_count, name, f->value))
            pairs[out->user_count++] = (struct object_pair){name, f->value};
    }
    out->user = pairs;
    return ERR_OK;
}

static const char *const storage_classes[] = {
    "STANDARD",     "REDUCED_REDUNDANCY",  "STANDARD_IA",
    "ONEZONE_IA",   "INTELLIGENT_TIERING", "GLACIER",
    "DEEP_ARCHIVE", "GLACIER_IR",          "EXPRESS_ONEZONE",
};

static enum err
storage_class(struct request *q, struct span given, struct object_meta *out)
{
    if (given.len == 0)
        return ERR_OK;
    for (size_t i = 0; i < ARRAY_LEN(storage_classes); i++)
        if (span_is(given, storage_classes[i])) {
            if (i > 0)
                out->storage_class = given;
            return ERR_OK;
        }
    return s3_fault(q, S3_InvalidStorageClass);
}

/* What both ways have in common: limits, storage class, user metadata. */
static enum err
finish_meta(struct request *q, struct fields f, struct span class,
            struct object_meta *out)
{
    size_t size;
    enum err rc;

    if (span_is(out->content_type, "binary/octet-stream"))
        out->content_type = (struct span){NULL, 0};
    size = out->content_type.len + out->cache_control.len + out->content_disposition.len +
           out->content_language.len + out->expires.len + out->content_encoding.len;
    if (size > SYSTEM_MAX)
        return metadata_too_large(q, size, "8192");
    rc = storage_class(q, class, out);
    return rc == ERR_OK ? headers_user_metadata(q, f, out) : rc;
}

enum err
s3_meta_from_headers(struct request *q, struct object_meta *out)
{
    const struct http_head *h = q->http->head;

    *out = (struct object_meta){
        .content_type = http_get(h, HTTP_CONTENT_TYPE),
        .cache_control = http_get(h, HTTP_CACHE_CONTROL),
        .content_disposition = http_get(h, HTTP_CONTENT_DISPOSITION),
        .content_language = http_get(h, HTTP_CONTENT_LANGUAGE),
        .expires = http_get(h, HTTP_EXPIRES),
        .content_encoding =
            without_aws_chunked(q->arena, http_get(h, HTTP_CONTENT_ENCODING)),
    };
    return finish_meta(q, http_fields(h), http_get(h, HTTP_AMZ_STORAGE_CLASS), out);
}

enum err
s3_meta_from_fields(struct request *q, struct fields f, struct object_meta *out)
{
    *out = (struct object_meta){
        .content_type = fields_get(f, "content-type"),
        .cache_control = fields_get(f, "cache-control"),
        .content_disposition = fields_get(f, "content-disposition"),
        .content_language = fields_get(f, "content-language"),
        .expires = fields_get(f, "expires"),
        .content_encoding = fields_get(f, "content-encoding"),
    };
    return finish_meta(q, f, fields_get(f, "x-amz-storage-class"), out);
}

void
s3_put_etag(struct request *q, const char *etag)
{
    char quoted[sizeof((struct object_info *)0)->etag + 2];
    size_t len = strlen(etag);

    assert(len + 2 < sizeof quoted);
    quoted[0] = '"';
    memcpy(quoted + 1, etag, len);
    quoted[len + 1] = '"';
    http_header_own(q->http, SPAN("etag: "), (struct span){quoted, len + 2});
}

void
s3_put_checksum_header(struct request *q, const struct object_meta *meta)
{
    struct checksum_value v = {.kind = (enum checksum_kind)meta->checksum_algorithm};
    char text[CHECKSUM_TEXT_MAX];

    if (v.kind == CHECKSUM_NONE || meta->checksum.len != checksum_len(v.kind))
        return;
    memcpy(v.bytes, meta->checksum.at, meta->checksum.len);
    if (meta->checksum_type == CHECKSUM_COMPOSITE)
        checksum_composite_text(&v, meta->parts, text);
    else
        checksum_text(&v, text);
    if (v.kind == CHECKSUM_CRC64NVME) /* nearly always: it is the one that we make */
        http_header_own(q->http, SPAN("x-amz-checksum-crc64nvme: "), span_of(text));
    else
        http_header(q->http, checksum_header(v.kind), span_of(text));
    if (meta->checksum_type == CHECKSUM_FULL_OBJECT)
        http_header_lines(q->http, SPAN("x-amz-checksum-type: FULL_OBJECT\r\n"));
    else if (meta->checksum_type != CHECKSUM_TYPE_NONE)
        http_header(q->http, "x-amz-checksum-type",
                    span_of(checksum_type_name((enum checksum_type)meta->checksum_type)));
}

uint8_t
s3_checksum_kept(const struct map_bucket *b, enum checksum_kind given)
{
    return (uint8_t)(given == CHECKSUM_NONE && !b->cached ? CHECKSUM_CRC64NVME : given);
}

static void
put_if(struct request *q, const char *name, const char *override, struct span stored)
{
    struct span given = query_get(&q->query, override);

    if (given.at != NULL)
        http_header(q->http, name, given);
    else if (stored.len > 0)
        http_header(q->http, name, stored);
}

/* Nothing was given with it, nothing is asked for beside it. */
static bool
header_is_plain(const struct request *q, const struct object_meta *m)
{
    return q->query.count == 0 && m->user_count == 0 &&
           (m->content_type.len | m->cache_control.len | m->content_disposition.len |
            m->content_encoding.len | m->content_language.len | m->expires.len |
            m->storage_class.len | m->tags.len) == 0;
}

void
s3_put_object_headers(struct request *q, const struct object_info *info)
{
    const struct object_meta *m = &info->meta;
    char date[NUM_DATE_TEXT];

    request_put_ids(q);
    s3_put_etag(q, info->etag);
    date_http(info->mtime_ms / 1000, date);
    http_header_own(q->http, SPAN("last-modified: "), span_of(date));
    if (header_is_plain(q, m)) {
        http_header_lines(q->http, SPAN("accept-ranges: bytes\r\n"
                                        "content-type: binary/octet-stream\r\n"));
        return;
    }
    http_header(q->http, "accept-ranges", SPAN("bytes"));
    put_if(q, "content-type", "response-content-type",
           m->content_type.len > 0 ? m->content_type : SPAN("binary/octet-stream"));
    put_if(q, "cache-control", "response-cache-control", m->cache_control);
    put_if(q, "content-disposition", "response-content-disposition",
           m->content_disposition);
    put_if(q, "content-encoding", "response-content-encoding", m->content_encoding);
    put_if(q, "content-language", "response-content-language", m->content_language);
    put_if(q, "expires", "response-expires", m->expires);
    if (m->storage_class.len > 0)
        http_header(q->http, "x-amz-storage-class", m->storage_class);
    if (m->tags.len > 0)
        http_headerf(q->http, "x-amz-tagging-count", "%u", s3tags_count(m->tags));
    for (uint32_t i = 0; i < m->user_count; i++)
        http_header(q->http,
                    arena_printf(q->arena, USER_PREFIX "%.*s", SPAN_ARG(m->user[i].name)),
                    m->user[i].value);
}
