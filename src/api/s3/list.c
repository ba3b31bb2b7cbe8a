/* list: ListObjects in both versions. */
#include <string.h>

#include "api/access.h"
#include "api/merge.h"
#include "api/s3/s3.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/num.h"
#include "wire/s3name.h"

#define PAGE_BYTES_MAX (8u << 20)
#define TOKEN_SUM      4

struct list_request {
    struct s3_page_query page;
    bool v2, fetch_owner;
    struct span token, start_after, marker;
    struct span after; /* where the page begins */
    struct span owner; /* of the bucket */
};

/* A continuation token is the last name of the page and a sum, in base64: opaque, and anything else is refused. */
static struct span
token_of(struct arena *a, struct span name)
{
    size_t len = name.len + TOKEN_SUM;
    char *raw = arena_alloc(a, len);
    char *text = arena_alloc(a, BASE64_LEN(len) + 1);
    uint32_t sum = hash_crc32c(0, name.at, name.len);

    memcpy(raw, name.at, name.len);
    for (unsigned i = 0; i < TOKEN_SUM; i++)
        raw[name.len + i] = (char)(sum >> (8 * i));
    return (struct span){text, base64_encode(raw, len, text)};
}

static bool
token_open(struct arena *a, struct span token, struct span *name)
{
    char *raw = arena_alloc(a, token.len + 1);
    int len = base64_decode(token.at, token.len, raw, token.len);
    uint32_t sum = 0;

    if (len < TOKEN_SUM)
        return false;
    name->at = raw;
    name->len = (size_t)len - TOKEN_SUM;
    for (unsigned i = 0; i < TOKEN_SUM; i++)
        sum |= (uint32_t)(unsigned char)raw[name->len + i] << (8 * i);
    return sum == hash_crc32c(0, name->at, name->len);
}

static enum err
s3_list_read_parameters(struct request *q, struct list_request *l)
{
    struct span type = query_get(&q->query, "list-type");
    enum err rc = s3_page_query(q, "max-keys", &l->page);

    if (rc != ERR_OK)
        return rc;
    if (type.len > 0 && !span_is(type, "2") && !span_is(type, "1"))
        return fault_argument(&q->fault, "list-type", type,
                              "list-type is 2 or is left out");
    l->owner = access_owner_name(q->bucket);
    l->v2 = span_is(type, "2");
    l->fetch_owner = span_is(query_get(&q->query, "fetch-owner"), "true");
    l->token = query_get(&q->query, "continuation-token");
    l->start_after = query_get(&q->query, "start-after");
    l->marker = query_get(&q->query, "marker");
    l->after = l->v2 ? l->start_after : l->marker;
    if (l->v2 && l->token.len > 0 && !token_open(q->arena, l->token, &l->after))
        return fault_argument(&q->fault, "continuation-token", l->token,
                              "The continuation token provided is incorrect");
    if (l->after.len > S3_KEY_MAX)
        return fault_set(&q->fault, S3_KeyTooLongError, NULL);
    return ERR_OK;
}

static void
s3_list_put_entry(struct xml *x, const struct list_request *l,
                  const struct object_entry *e)
{
    char date[NUM_DATE_TEXT];

    if (e->is_prefix) {
        s3_put_common_prefix(x, e->name, &l->page);
        return;
    }
    date_iso(e->mtime_ms, date);
    xml_open(x, "Contents");
    xml_key(x, "Key", e->name, l->page.url);
    xml_text(x, "LastModified", date);
    if (e->etag.len > 0) /* there are remotes that have none */
        xml_etag(x, "ETag", e->etag);
    xml_u64(x, "Size", e->size);
    if (!l->v2 || l->fetch_owner)
        s3_xml_owner(x, l->owner);
    xml_text(x, "StorageClass", "STANDARD");
    xml_close(x);
}

static void
put_v2_state(struct request *q, struct xml *x, const struct list_request *l,
             const struct object_page *page)
{
    xml_u64(x, "KeyCount", page->count);
    if (l->token.at != NULL)
        xml_span(x, "ContinuationToken", l->token);
    if (l->start_after.len > 0)
        xml_key(x, "StartAfter", l->start_after, l->page.url);
    if (page->truncated)
        xml_span(x, "NextContinuationToken", token_of(q->arena, page->next_after));
}

static void
put_v1_state(struct xml *x, const struct list_request *l, const struct object_page *page)
{
    xml_key(x, "Marker", l->marker, l->page.url);
    if (page->truncated && l->page.delimiter.len > 0)
        xml_key(x, "NextMarker", page->next_after, l->page.url);
}

static enum err
answer_page(struct request *q, const struct list_request *l,
            const struct object_page *page)
{
    struct s3_document d;

    s3_document_begin(&d, PAGE_BYTES_MAX, "ListBucketResult");
    xml_span(&d.xml, "Name", q->name.bucket);
    s3_put_page_query(&d.xml, "MaxKeys", &l->page);
    if (l->v2)
        put_v2_state(q, &d.xml, l, page);
    else
        put_v1_state(&d.xml, l, page);
    xml_bool(&d.xml, "IsTruncated", page->truncated);
    /* Keys and common prefixes stand in their own groups at AWS; clients merge them. Keys first. */
    for (uint32_t i = 0; i < page->count; i++)
        if (!page->entries[i].is_prefix)
            s3_list_put_entry(&d.xml, l, &page->entries[i]);
    for (uint32_t i = 0; i < page->count; i++)
        if (page->entries[i].is_prefix)
            s3_list_put_entry(&d.xml, l, &page->entries[i]);
    if (page->stale)
        http_header(q->http, "x-forebay-stale", SPAN("backend-down"));
    return s3_document_answer(q, &d);
}

static enum err
s3_list_run(struct request *q, struct list_request *l)
{
    struct object_list_options o;
    struct object_page page = {0};
    struct errbuf eb = {{0}};
    enum err rc = s3_list_read_parameters(q, l);

    if (rc != ERR_OK)
        return rc;
    o = (struct object_list_options){.prefix = l->page.prefix,
                                     .delimiter = l->page.delimiter,
                                     .after = l->after,
                                     .max = (uint32_t)l->page.max};
    if (l->page.max > 0) { /* 0: an empty page that is not truncated */
        rc = merge_list(q, q->bucket, &o, request_work(q), &page, &eb);
        if (rc != ERR_OK)
            return fault_from(q, rc, &eb);
    }
    return answer_page(q, l, &page);
}

enum err
s3_list_v1_or_v2(struct request *q)
{
    struct list_request *l = arena_alloc(q->arena, sizeof *l);

    return s3_list_run(q, l);
}
