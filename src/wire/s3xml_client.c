/* Documents that a client reads: listings, results, errors. Each reader is a table of elements and a few
 * lines for what ends an item. */
#include <limits.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/uri.h"
#include "wire/etag.h"
#include "wire/s3xml.h"
#include "wire/s3xml_util.h"
#include "wire/xml.h"

#define DOC_MAX                                                                          \
    ((size_t)16 * 1024 * 1024) /* 1,000 keys of 1 KiB, percent-encoded: 3 MiB */

/* ---- a table of elements ---- */

enum as { AS_TEXT, AS_ETAG, AS_U64, AS_UNSIGNED, AS_TIME, AS_BOOL };
struct element {
    const char *name;
    enum as as;
    size_t offset; /* in the struct that takes it */
};

static enum err
s3client_store(struct arena *a, const struct element *e, struct span text, void *into)
{
    char *at = (char *)into + e->offset;
    struct span trimmed = span_trim(text);
    uint64_t number;

    switch (e->as) {
    case AS_TEXT:
        return s3xml_keep(a, text, (struct span *)(void *)at) ? ERR_OK : ERR_TOO_LARGE;
    case AS_ETAG:
        return s3xml_keep(a, etag_unquote(text), (struct span *)(void *)at)
                   ? ERR_OK
                   : ERR_TOO_LARGE;
    case AS_U64:
        return num_u64(trimmed, (uint64_t *)(void *)at);
    case AS_UNSIGNED:
        if (num_u64(trimmed, &number) != ERR_OK || number > UINT_MAX)
            return ERR_BAD_REQUEST;
        *(unsigned *)(void *)at = (unsigned)number;
        return ERR_OK;
    case AS_TIME:
        return date_iso_parse(trimmed, (int64_t *)(void *)at);
    case AS_BOOL:
        *(bool *)(void *)at = span_case_is(trimmed, "true");
        return ERR_OK;
    }
    return ERR_INTERNAL;
}

static enum err
store_by_name(struct arena *a, const struct element *table, size_t count,
              struct span name, struct span text, void *into)
{
    for (size_t i = 0; i < count; i++) {
        if (span_is(name, table[i].name))
            return s3client_store(a, &table[i], text, into);
    }
    return ERR_OK;
}
#define STORE(a, table, name, text, into)                                                \
    store_by_name((a), (table), ARRAY_LEN(table), (name), (text), (into))

/* ---- one reading ---- */

struct reading {
    struct arena *arena;
    const char *root; /* what it must be called */
    void *out;
    void *items; /* an array in the arena */
    size_t room, count;
    void *item; /* the one under way; NULL between items */
};

static enum err
s3client_check_root(const struct reading *r, unsigned depth, struct span name)
{
    return depth == 0 && !span_is(name, r->root) ? ERR_BAD_REQUEST : ERR_OK;
}

static enum err
s3client_begin_item(struct reading *r, size_t size)
{
    r->item = s3xml_grow(r->arena, &r->items, &r->room, r->count, size);
    return r->item != NULL ? ERR_OK : ERR_TOO_LARGE;
}

static void
s3client_end_item(struct reading *r)
{
    r->count++;
    r->item = NULL;
}

static enum err
s3client_read_document(struct span doc, struct reading *r,
                       enum err (*on_open)(void *, unsigned, struct span),
                       enum err (*on_close)(void *, unsigned, struct span, struct span),
                       struct errbuf *eb)
{
    struct xml_handler h = {
        .on_open = on_open, .on_close = on_close, .arg = r, .size_max = DOC_MAX};
    enum err rc = xml_read(doc, &h, eb);

    if (rc != ERR_OK)
        err_prefix(eb, "%s", r->root);
    return rc;
}

/* ---- ListAllMyBucketsResult ---- */

static const struct element bucket_fields[] = {
    {"Name", AS_TEXT, offsetof(struct s3xml_bucket_entry, name)},
    {"CreationDate", AS_TIME, offsetof(struct s3xml_bucket_entry, created_ms)},
};
static const struct element bucket_list_fields[] = {
    {"ContinuationToken", AS_TEXT, offsetof(struct s3xml_bucket_list, next_token)},
};

static enum err
buckets_open(void *arg, unsigned depth, struct span name)
{
    struct reading *r = arg;

    if (depth == 2 && span_is(name, "Bucket"))
        return s3client_begin_item(r, sizeof(struct s3xml_bucket_entry));
    return s3client_check_root(r, depth, name);
}

static enum err
buckets_close(void *arg, unsigned depth, struct span name, struct span text)
{
    struct reading *r = arg;

    if (depth == 3 && r->item != NULL)
        return STORE(r->arena, bucket_fields, name, text, r->item);
    if (depth == 2 && r->item != NULL)
        s3client_end_item(r);
    if (depth == 1)
        return STORE(r->arena, bucket_list_fields, name, text, r->out);
    return ERR_OK;
}

enum err
s3xml_buckets_parse(struct span doc, struct arena *a, struct s3xml_bucket_list *out,
                    struct errbuf *eb)
{
    struct reading r = {.arena = a, .root = "ListAllMyBucketsResult", .out = out};
    enum err rc;

    *out = (struct s3xml_bucket_list){0};
    rc = s3client_read_document(doc, &r, buckets_open, buckets_close, eb);
    out->entries = r.items;
    out->count = rc == ERR_OK ? r.count : 0;
    return rc;
}

/* ---- ListMultipartUploadsResult ---- */

static const struct element upload_list_fields[] = {
    {"IsTruncated", AS_BOOL, offsetof(struct s3xml_upload_list, truncated)},
    {"NextKeyMarker", AS_TEXT, offsetof(struct s3xml_upload_list, next_key)},
    {"NextUploadIdMarker", AS_TEXT, offsetof(struct s3xml_upload_list, next_id)},
};
static const struct element upload_fields[] = {
    {"Key", AS_TEXT, offsetof(struct s3xml_upload_entry, key)},
    {"Prefix", AS_TEXT, offsetof(struct s3xml_upload_entry, key)},
    {"UploadId", AS_TEXT, offsetof(struct s3xml_upload_entry, upload_id)},
    {"Initiated", AS_TIME, offsetof(struct s3xml_upload_entry, begun_ms)},
};

static enum err
uploads_open(void *arg, unsigned depth, struct span name)
{
    struct reading *r = arg;
    bool prefix = span_is(name, "CommonPrefixes");
    enum err rc;

    if (depth != 1 || (!prefix && !span_is(name, "Upload")))
        return s3client_check_root(r, depth, name);
    rc = s3client_begin_item(r, sizeof(struct s3xml_upload_entry));
    if (rc == ERR_OK)
        ((struct s3xml_upload_entry *)r->item)->is_prefix = prefix;
    return rc;
}

static enum err
uploads_close(void *arg, unsigned depth, struct span name, struct span text)
{
    struct reading *r = arg;
    struct s3xml_upload_list *out = r->out;

    if (depth == 2 && r->item != NULL)
        return STORE(r->arena, upload_fields, name, text, r->item);
    if (depth != 1)
        return ERR_OK;
    if (r->item != NULL) {
        const struct s3xml_upload_entry *e = r->item;

        if (e->key.len == 0 || (!e->is_prefix && e->upload_id.len == 0))
            return ERR_BAD_REQUEST;
        s3client_end_item(r);
        return ERR_OK;
    }
    if (span_is(name, "EncodingType"))
        out->url_encoded = span_case_is(span_trim(text), "url");
    return STORE(r->arena, upload_list_fields, name, text, out);
}

enum err
s3xml_uploads_parse(struct span doc, struct arena *a, struct s3xml_upload_list *out,
                    struct errbuf *eb)
{
    struct reading r = {.arena = a, .root = "ListMultipartUploadsResult", .out = out};
    enum err rc;

    *out = (struct s3xml_upload_list){0};
    rc = s3client_read_document(doc, &r, uploads_open, uploads_close, eb);
    if (rc != ERR_OK)
        return rc;
    out->entries = r.items;
    out->count = r.count;
    for (size_t i = 0; out->url_encoded && i < out->count; i++)
        if (!s3xml_decode_key(&out->entries[i].key))
            return err_set(eb, ERR_BAD_REQUEST,
                           "ListMultipartUploadsResult: a key with a bad escape");
    if (out->url_encoded && out->next_key.len > 0 && !s3xml_decode_key(&out->next_key))
        return err_set(eb, ERR_BAD_REQUEST,
                       "ListMultipartUploadsResult: a marker with a bad escape");
    return ERR_OK;
}

/* ---- ListPartsResult ---- */

static const struct element part_fields[] = {
    {"PartNumber", AS_UNSIGNED, offsetof(struct s3xml_part_entry, number)},
    {"Size", AS_U64, offsetof(struct s3xml_part_entry, size)},
    {"ETag", AS_ETAG, offsetof(struct s3xml_part_entry, etag)},
    {"LastModified", AS_TIME, offsetof(struct s3xml_part_entry, mtime_ms)},
};
static const struct element part_list_fields[] = {
    {"IsTruncated", AS_BOOL, offsetof(struct s3xml_part_list, truncated)},
    {"NextPartNumberMarker", AS_UNSIGNED, offsetof(struct s3xml_part_list, next_marker)},
};

static enum err
parts_open(void *arg, unsigned depth, struct span name)
{
    struct reading *r = arg;

    if (depth == 1 && span_is(name, "Part"))
        return s3client_begin_item(r, sizeof(struct s3xml_part_entry));
    return s3client_check_root(r, depth, name);
}

static enum err
parts_close(void *arg, unsigned depth, struct span name, struct span text)
{
    struct reading *r = arg;

    if (depth == 2 && r->item != NULL)
        return STORE(r->arena, part_fields, name, text, r->item);
    if (depth == 1 && r->item != NULL)
        s3client_end_item(r);
    else if (depth == 1)
        return STORE(r->arena, part_list_fields, name, text, r->out);
    return ERR_OK;
}

enum err
s3xml_parts_parse(struct span doc, struct arena *a, struct s3xml_part_list *out,
                  struct errbuf *eb)
{
    struct reading r = {.arena = a, .root = "ListPartsResult", .out = out};
    enum err rc;

    *out = (struct s3xml_part_list){0};
    rc = s3client_read_document(doc, &r, parts_open, parts_close, eb);
    out->parts = r.items;
    out->count = rc == ERR_OK ? r.count : 0;
    return rc;
}

/* ---- DeleteResult ---- */

static const struct element failure_fields[] = {
    {"Key", AS_TEXT, offsetof(struct s3xml_delete_failure, key)},
    {"Code", AS_TEXT, offsetof(struct s3xml_delete_failure, code)},
    {"Message", AS_TEXT, offsetof(struct s3xml_delete_failure, message)},
};

static enum err
deleted_open(void *arg, unsigned depth, struct span name)
{
    struct reading *r = arg;

    if (depth == 1 && span_is(name, "Error"))
        return s3client_begin_item(r, sizeof(struct s3xml_delete_failure));
    return s3client_check_root(r, depth, name);
}

static enum err
deleted_close(void *arg, unsigned depth, struct span name, struct span text)
{
    struct reading *r = arg;
    struct s3xml_delete_result *out = r->out;

    if (depth == 2 && r->item != NULL)
        return STORE(r->arena, failure_fields, name, text, r->item);
    if (depth == 1 && r->item != NULL)
        s3client_end_item(r);
    else if (depth == 1 && span_is(name, "Deleted"))
        out->deleted_count++;
    return ERR_OK;
}

enum err
s3xml_delete_result_parse(struct span doc, struct arena *a,
                          struct s3xml_delete_result *out, struct errbuf *eb)
{
    struct reading r = {.arena = a, .root = "DeleteResult", .out = out};
    enum err rc;

    *out = (struct s3xml_delete_result){0};
    rc = s3client_read_document(doc, &r, deleted_open, deleted_close, eb);
    out->failures = r.items;
    out->failure_count = rc == ERR_OK ? r.count : 0;
    return rc;
}

/* ---- results of one request, or an Error ---- */

static const struct element error_fields[] = {
    {"Code", AS_TEXT, offsetof(struct s3xml_error, code)},
    {"Message", AS_TEXT, offsetof(struct s3xml_error, message)},
    {"RequestId", AS_TEXT, offsetof(struct s3xml_error, request_id)},
    {"Resource", AS_TEXT, offsetof(struct s3xml_error, resource)},
    {"Region", AS_TEXT, offsetof(struct s3xml_error, region)},
};
static const struct element result_fields[] = {
    {"UploadId", AS_TEXT, offsetof(struct s3xml_result, upload_id)},
    {"ETag", AS_ETAG, offsetof(struct s3xml_result, etag)},
    {"Location", AS_TEXT, offsetof(struct s3xml_result, location)},
    {"Bucket", AS_TEXT, offsetof(struct s3xml_result, bucket)},
    {"Key", AS_TEXT, offsetof(struct s3xml_result, key)},
};
struct either {
    struct s3xml_result result;
    struct s3xml_error error;
};

static enum err
result_close(void *arg, unsigned depth, struct span name, struct span text)
{
    struct reading *r = arg;
    struct either *out = r->out;
    enum checksum_kind kind = checksum_of_element(name);
    enum err rc;

    if (depth == 0)
        return s3xml_keep(r->arena, name, &out->result.root) ? ERR_OK : ERR_TOO_LARGE;
    if (depth != 1)
        return ERR_OK;
    rc = STORE(r->arena, error_fields, name, text, &out->error);
    if (rc == ERR_OK)
        rc = STORE(r->arena, result_fields, name, text, &out->result);
    /* A composite value ("...-3") has no binary form: it is left out. */
    if (rc == ERR_OK && kind != CHECKSUM_NONE &&
        checksum_parse(kind, span_trim(text), &out->result.sum, NULL) != ERR_OK)
        out->result.sum.kind = CHECKSUM_NONE;
    return rc;
}

enum err
s3xml_result_parse(struct span doc, struct arena *a, struct s3xml_result *out,
                   struct s3xml_error *out_error, struct errbuf *eb)
{
    struct either both = {0};
    struct reading r = {.arena = a, .root = "answer", .out = &both};
    enum err rc = s3client_read_document(doc, &r, NULL, result_close, eb);

    *out = both.result;
    *out_error = both.error;
    if (rc != ERR_OK)
        return rc;
    return span_is(both.result.root, "Error") ? ERR_NOT_FOUND : ERR_OK;
}

enum err
s3xml_error_parse(struct span doc, struct arena *a, struct s3xml_error *out,
                  struct errbuf *eb)
{
    struct s3xml_result ignored;
    enum err rc = s3xml_result_parse(doc, a, &ignored, out, eb);

    if (rc == ERR_OK)
        return err_set(eb, ERR_NOT_FOUND, "answer: not an Error document");
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}
