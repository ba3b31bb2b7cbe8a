/* list_versions: every version of the keys of a bucket. */
#include "api/access.h"
#include "api/merge.h"
#include "api/s3/s3.h"
#include "base/num.h"

#define PAGE_BYTES_MAX (8u << 20)

struct request_of_versions {
    struct s3_page_query page;
    struct span key_marker, version_marker;
    const struct object_version *version;
    struct span owner; /* of the bucket */
};

static enum err
list_versions_read_parameters(struct request *q, struct request_of_versions *l)
{
    enum err rc = s3_page_query(q, "max-keys", &l->page);

    l->owner = access_owner_name(q->bucket);
    if (rc != ERR_OK)
        return rc;
    l->key_marker = query_get(&q->query, "key-marker");
    l->version_marker = query_get(&q->query, "version-id-marker");
    if (l->key_marker.len > S3_KEY_MAX)
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
    xml_key(x, "Key", e->name, l->page.url);
    xml_text(x, "VersionId", id);
    xml_bool(x, "IsLatest", e->latest);
    xml_text(x, "LastModified", date);
    if (!e->is_marker) {
        xml_etag(x, "ETag", span_of(e->etag));
        xml_u64(x, "Size", e->size);
        xml_text(x, "StorageClass", "STANDARD");
    }
    s3_xml_owner(x, l->owner);
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
    s3_put_page_query(x, "MaxKeys", &l->page);
    xml_key(x, "KeyMarker", l->key_marker, l->page.url);
    xml_span(x, "VersionIdMarker", l->version_marker);
    if (page->truncated && last != NULL) {
        xml_key(x, "NextKeyMarker", last->name, l->page.url);
        object_version_text(&last->version, id);
        if (!last->is_prefix)
            xml_text(x, "NextVersionIdMarker", id);
    }
    xml_bool(x, "IsTruncated", page->truncated);
    for (uint32_t i = 0; i < page->count; i++)
        if (!page->entries[i].is_prefix)
            put_version_entry(x, l, &page->entries[i]);
    for (uint32_t i = 0; i < page->count; i++)
        if (page->entries[i].is_prefix)
            s3_put_common_prefix(x, page->entries[i].name, &l->page);
}

/* What a remote has of versions it does not tell us: each of its objects is one, "null". */
static enum err
list_attached(struct request *q, const struct request_of_versions *l,
              struct object_version_page *out, struct errbuf *eb)
{
    struct object_list_options o = {.prefix = l->page.prefix,
                                    .delimiter = l->page.delimiter,
                                    .after = l->key_marker,
                                    .max = (uint32_t)l->page.max};
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
        snprintf(v->etag, sizeof v->etag, "%.*s", SPAN_ARG(e->etag));
    }
    out->truncated = page.truncated;
    out->stale = page.stale;
    return ERR_OK;
}

enum err
s3_list_versions(struct request *q)
{
    struct request_of_versions *l = arena_alloc(q->arena, sizeof *l);
    struct object_version_list o;
    struct object_version_page page = {0};
    struct errbuf eb = {{0}};
    struct s3_document d;
    enum err rc;

    *l = (struct request_of_versions){0};
    rc = list_versions_read_parameters(q, l);
    if (rc != ERR_OK)
        return rc;
    o = (struct object_version_list){.prefix = l->page.prefix,
                                     .delimiter = l->page.delimiter,
                                     .after = l->key_marker,
                                     .after_version = l->version,
                                     .max = (uint32_t)l->page.max};
    if (l->page.max > 0)
        rc = q->bucket->cached
                 ? list_attached(q, l, &page, &eb)
                 : merge_versions(q, q->bucket, &o, request_work(q), &page, &eb);
    if (rc != ERR_OK)
        return fault_from(q, rc, &eb);
    s3_document_begin(&d, PAGE_BYTES_MAX, "ListVersionsResult");
    put_page(q, &d.xml, l, &page);
    if (page.stale)
        http_header(q->http, "x-forebay-stale", SPAN("backend-down"));
    return s3_document_answer(q, &d);
}
