/* version: ids in requests and answers, and the versioning of a bucket. */
#include <stdlib.h>

#include "api/s3/s3.h"
#include "base/mem.h"
#include "base/num.h"
#include "wire/s3xml.h"

#define PAGE_BYTES_MAX (8u << 20)

enum err
s3_version_of(struct request *q, struct span text, const struct object_version **out)
{
    struct object_version *v;

    *out = NULL;
    if (text.at == NULL)
        return ERR_OK;
    v = arena_alloc(q->arena, sizeof *v);
    if (!object_version_parse(text, v))
        return fault_argument(&q->fault, "versionId", text,
                              "Invalid version id specified");
    *out = v;
    return ERR_OK;
}

enum err
s3_version_asked(struct request *q, const struct object_version **out)
{
    *out = NULL;
    if (q->query.count == 0)
        return ERR_OK;
    return s3_version_of(q, query_get(&q->query, "versionId"), out);
}

void
s3_put_version(struct request *q, const char *header, const struct object_version *v)
{
    char text[OBJECT_VERSION_TEXT];

    object_version_text(v, text);
    http_header(q->http, header, span_of(text));
}

void
s3_put_version_of(struct request *q, const struct object_info *info)
{
    if (q->bucket->versioning != MAP_UNVERSIONED)
        s3_put_version(q, "x-amz-version-id", &info->version);
}

enum err
s3_missing(struct request *q, const struct object_version *v,
           const struct object_info *info, enum err rc, const struct errbuf *eb)
{
    if (rc != ERR_NOT_FOUND)
        return fault_from(q, rc, eb);
    if (info->is_marker)
        q->marker = info; /* the answer says so */
    if (v == NULL)
        return s3_fault(q, S3_NoSuchKey);
    if (info->is_marker)
        return s3_fault(q, S3_MethodNotAllowed);
    fault_set(&q->fault, S3_NoSuchVersion, NULL);
    fault_add(&q->fault, "Key", q->name.key);
    fault_add(&q->fault, "VersionId", query_get(&q->query, "versionId"));
    return rc;
}

/* ---- of a bucket ---- */

static enum err
refuse_attached(struct request *q, const char *what)
{
    if (!q->bucket->cached)
        return ERR_OK;
    return fault_set(&q->fault, S3_NotImplemented,
                     "%s of an attached bucket is the remote's: not implemented here",
                     what);
}

enum err
s3_get_versioning(struct request *q)
{
    struct buf body;
    struct xml x;
    enum err rc;

    buf_init(&body, 1024);
    xml_begin(&x, &body);
    xml_open_s3(&x, "VersioningConfiguration");
    if (q->bucket->versioning != MAP_UNVERSIONED)
        xml_text(&x, "Status",
                 q->bucket->versioning == MAP_VERSIONED ? "Enabled" : "Suspended");
    xml_close(&x);
    rc = s3_answer_xml(q, &body);
    buf_fini(&body);
    return rc;
}

static enum err
set_versioning(struct map_bucket *b, void *arg, struct errbuf *eb)
{
    (void)eb;
    b->versioning = *(enum map_versioning *)arg;
    return ERR_OK;
}

enum err
s3_put_versioning(struct request *q)
{
    enum map_versioning to;
    struct errbuf eb = {{0}};
    struct span doc;
    bool enabled = false;
    enum err rc = refuse_attached(q, "Versioning");

    if (rc == ERR_OK)
        rc = s3_body_document(q, S3XML_BODY_MAX, false, &doc);
    if (rc == ERR_OK)
        rc = s3xml_versioning_parse(doc, q->arena, &enabled, &q->fault);
    if (rc != ERR_OK)
        return rc;
    to = enabled ? MAP_VERSIONED : MAP_SUSPENDED;
    rc = change_bucket(q, q->bucket, set_versioning, &to, &eb);
    return rc == ERR_OK ? s3_answer_empty(q, 200) : fault_from(q, rc, &eb);
}

/* ---- listing ---- */

struct request_of_versions {
    bool url;
    struct span prefix, delimiter, key_marker, version_marker;
    const struct object_version *version;
    uint64_t max;
};

static enum err
read_parameters(struct request *q, struct request_of_versions *l)
{
    struct span encoding = query_get(&q->query, "encoding-type");
    enum err rc =
        query_u64(&q->query, "max-keys", S3_PAGE_MAX, 0, INT32_MAX, &l->max, &q->fault);

    if (rc != ERR_OK)
        return rc;
    if (encoding.len > 0 && !span_is(encoding, "url"))
        return fault_argument(&q->fault, "encoding-type", encoding,
                              "Invalid Encoding Method specified in Request");
    l->url = encoding.len > 0;
    l->max = MIN(l->max, S3_PAGE_MAX);
    l->prefix = query_get(&q->query, "prefix");
    l->delimiter = query_get(&q->query, "delimiter");
    l->key_marker = query_get(&q->query, "key-marker");
    l->version_marker = query_get(&q->query, "version-id-marker");
    if (l->prefix.len > S3_KEY_MAX || l->key_marker.len > S3_KEY_MAX ||
        l->delimiter.len > S3_KEY_MAX)
        return s3_fault(q, S3_KeyTooLongError);
    if (l->version_marker.len == 0)
        return ERR_OK;
    if (l->key_marker.len == 0)
        return fault_argument(
            &q->fault, "version-id-marker", l->version_marker,
            "A version-id marker cannot be specified without a key marker.");
    return s3_version_of(q, l->version_marker, &l->version);
}

static void
put_version_entry(struct xml *x, const struct request_of_versions *l,
                  const struct object_version_entry *e)
{
    char date[NUM_DATE_TEXT], id[OBJECT_VERSION_TEXT];

    date_iso(e->mtime_ms, date);
    object_version_text(&e->version, id);
    xml_open(x, e->is_marker ? "DeleteMarker" : "Version");
    xml_key(x, "Key", e->name, l->url);
    xml_text(x, "VersionId", id);
    xml_bool(x, "IsLatest", e->latest);
    xml_text(x, "LastModified", date);
    if (!e->is_marker) {
        xml_etag(x, "ETag", span_of(e->etag));
        xml_u64(x, "Size", e->size);
        xml_text(x, "StorageClass", "STANDARD");
    }
    s3_xml_owner(x);
    xml_close(x);
}

static void
put_page(struct request *q, struct xml *x, const struct request_of_versions *l,
         const struct object_version_page *page)
{
    const struct object_version_entry *last =
        page->count > 0 ? &page->entries[page->count - 1] : NULL;
    char id[OBJECT_VERSION_TEXT];

    xml_span(x, "Name", q->name.bucket);
    xml_key(x, "Prefix", l->prefix, l->url);
    if (l->delimiter.len > 0)
        xml_key(x, "Delimiter", l->delimiter, l->url);
    xml_key(x, "KeyMarker", l->key_marker, l->url);
    xml_span(x, "VersionIdMarker", l->version_marker);
    if (page->truncated && last != NULL) {
        xml_key(x, "NextKeyMarker", last->name, l->url);
        object_version_text(&last->version, id);
        if (!last->is_prefix)
            xml_text(x, "NextVersionIdMarker", id);
    }
    xml_u64(x, "MaxKeys", l->max);
    if (l->url)
        xml_text(x, "EncodingType", "url");
    xml_bool(x, "IsTruncated", page->truncated);
    for (uint32_t i = 0; i < page->count; i++)
        if (!page->entries[i].is_prefix)
            put_version_entry(x, l, &page->entries[i]);
    for (uint32_t i = 0; i < page->count; i++) {
        if (!page->entries[i].is_prefix)
            continue;
        xml_open(x, "CommonPrefixes");
        xml_key(x, "Prefix", page->entries[i].name, l->url);
        xml_close(x);
    }
}

/* What a remote has of versions it does not tell us: each of its objects is one, "null". */
static enum err
list_attached(struct request *q, const struct request_of_versions *l,
              struct object_version_page *out, struct errbuf *eb)
{
    struct object_list_options o = {.prefix = l->prefix,
                                    .delimiter = l->delimiter,
                                    .after = l->key_marker,
                                    .max = (uint32_t)l->max};
    struct object_page page;
    enum err rc = object_list(q->api->options.object, q->bucket, &o, q->arena, &page, eb);

    if (rc != ERR_OK)
        return rc;
    out->entries = arena_alloc(request_work(q), (page.count + 1) * sizeof *out->entries);
    for (uint32_t i = 0; i < page.count; i++) {
        const struct object_entry *e = &page.entries[i];
        struct object_version_entry *v = &out->entries[out->count++];

        *v = (struct object_version_entry){.name = e->name,
                                           .is_prefix = e->is_prefix,
                                           .latest = true,
                                           .size = e->size,
                                           .mtime_ms = e->mtime_ms,
                                           .version = {.null = true}};
        memcpy(v->etag, e->etag, sizeof v->etag);
    }
    out->truncated = page.truncated;
    return ERR_OK;
}

enum err
s3_list_versions(struct request *q)
{
    struct request_of_versions *l = arena_alloc(q->arena, sizeof *l);
    struct object_version_list o;
    struct object_version_page page = {0};
    struct errbuf eb = {{0}};
    struct buf body;
    struct xml x;
    enum err rc;

    *l = (struct request_of_versions){0};
    rc = read_parameters(q, l);
    if (rc != ERR_OK)
        return rc;
    o = (struct object_version_list){.prefix = l->prefix,
                                     .delimiter = l->delimiter,
                                     .after = l->key_marker,
                                     .after_version = l->version,
                                     .max = (uint32_t)l->max};
    if (l->max > 0)
        rc = q->bucket->cached ? list_attached(q, l, &page, &eb)
                               : object_version_list(q->api->options.object, q->bucket,
                                                     &o, request_work(q), &page, &eb);
    if (rc != ERR_OK)
        return fault_from(q, rc, &eb);
    buf_init(&body, PAGE_BYTES_MAX);
    xml_begin(&x, &body);
    xml_open_s3(&x, "ListVersionsResult");
    put_page(q, &x, l, &page);
    xml_close(&x);
    rc = s3_answer_xml(q, &body);
    buf_fini(&body);
    return rc;
}
