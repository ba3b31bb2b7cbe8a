/* here: what this node holds of a bucket: one object, or a page of keys.
 *
 *     GET /_/buckets/NAME/here?key=KEY           where it lies, how long it stays; 404 when it is not here. Right: read
 *     GET /_/buckets/NAME/here?prefix=P          a page of at most 1,000 keys in order; from=KEY, max=N. Right: list
 *
 * encoding=url: keys in the answer are percent-encoded, for those that are no UTF-8.
 */
#include "object/local.h"

#include "api/admin/admin.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/uri.h"
#include "wire/checksum.h"
#include "wire/json.h"

#define ROOT     "/_/buckets/"
#define LEAF     "/here"
#define PAGE_MAX MIB(8)

static const struct {
    const char *name, *why;
} fates[] = {
    [FATE_STAYS] = {"stays", "it exists only here"},
    [FATE_PINNED] = {"stays", "it is pinned"},
    [FATE_IN_DOUBT] =
        {"stays",
         "the outcome of a write at the remote is not known: the next read asks"},
    [FATE_READ_MORE] = {"stays", "it is read more than its segment on the average"},
    [FATE_COLDEST] = {"next", "no segment is colder than its own"},
    [FATE_LATER] = {"later", "colder segments go first"},
};

static void
here_put_key(struct json *j, const char *name, struct span key, bool encoded)
{
    struct buf text;

    if (!encoded) {
        json_span(j, name, key);
        return;
    }
    buf_init(&text, 3 * key.len + 1);
    uri_encode(&text, key, true);
    json_span(j, name, buf_span(&text));
    buf_fini(&text);
}

static void
here_put_checksum(struct json *j, const struct object_meta *m)
{
    struct checksum_value v = {.kind = (enum checksum_kind)m->checksum_algorithm};
    char text[CHECKSUM_TEXT_MAX];

    if (m->checksum.len == 0 || m->checksum.len > sizeof v.bytes)
        return;
    memcpy(v.bytes, m->checksum.at, m->checksum.len);
    (void)checksum_text(&v, text);
    json_text(j, "checksum_algorithm", checksum_name(v.kind));
    json_text(j, "checksum", text);
}

static void
put_segment(struct json *j, const struct object_local *h, bool all)
{
    char date[NUM_DATE_TEXT];

    json_open_object(j, "disk");
    json_text(j, "id", h->where.id);
    if (all)
        json_text(j, "path", h->where.path);
    json_end(j);
    json_open_object(j, "segment");
    json_text(j, "kind", h->where.at.kind);
    json_u64(j, "id", h->where.at.segment);
    json_u64(j, "offset", h->where.at.offset);
    json_u64(j, "living_bytes", h->where.at.living);
    date_iso(h->where.at.segment_made_ms, date);
    json_text(j, "made", h->where.at.segment_made_ms > 0 ? date : NULL);
    if (h->cached)
        json_f64(j, "access_freq", h->where.at.access_freq / 16.0);
    json_end(j);
}

static void
put_here(struct json *j, const struct request *q, struct span key,
         const struct object_local *h, bool all)
{
    bool encoded = span_is(query_get(&q->query, "encoding"), "url");
    char date[NUM_DATE_TEXT];

    json_open_object(j, NULL);
    json_text(j, "bucket", q->bucket->name);
    here_put_key(j, "key", key, encoded);
    json_text(j, "class", h->cached ? "cached" : "native");
    json_u64(j, "size", h->info.size);
    json_text(j, "etag", h->info.etag);
    date_iso(h->info.mtime_ms, date);
    json_text(j, "modified", date);
    here_put_checksum(j, &h->info.meta);
    json_u64(j, "copies", h->copies);
    put_segment(j, h, all);
    if (h->present.chunks > 0) {
        json_u64(j, "present_bytes", h->present.here);
        json_u64(j, "chunks", h->present.chunks);
        json_u64(j, "chunks_here", h->present.chunks_here);
    }
    if (h->cached) {
        json_u64(j, "reads", h->reads);
        if (h->ttl_left_ms >= 0)
            json_i64(j, "ttl_left_ms", h->ttl_left_ms);
        else
            json_put_null(j, "ttl_left_ms");
        json_text(j, "pin", h->pin);
    }
    json_text(j, "eviction", fates[h->fate].name);
    json_text(j, "why", fates[h->fate].why);
    json_end(j);
}

static enum err
here_object(struct request *q, struct span key)
{
    bool all = caller_may(q, AUTH_ADMIN, SPAN(AUTH_EVERY_BUCKET), (struct span){"", 0});
    struct errbuf eb = {0};
    struct object_local h;
    struct admin_page here_page;
    enum err rc =
        object_local(q->api->options.object, q->bucket, key, request_work(q), &h, &eb);

    if (rc == ERR_NOT_FOUND)
        return fault_set(&q->fault, S3_NoSuchKey, "Nothing of this key is here");
    if (rc != ERR_OK)
        return fault_from(q, rc, &eb);
    admin_page_begin(&here_page, PAGE_MAX);
    put_here(&here_page.j, q, key, &h, all);
    return admin_page_answer(q, &here_page, 200);
}

static void
here_put_entry(struct json *j, const struct object_local_entry *e, bool cached,
               bool encoded)
{
    json_open_object(j, NULL);
    here_put_key(j, "key", e->key, encoded);
    json_u64(j, "size", e->size);
    json_text(j, "state",
              !cached       ? "native"
              : e->in_doubt ? "in-doubt"
              : e->pinned   ? "pinned"
                            : "cached");
    if (e->chunk_count > 0) {
        json_u64(j, "chunks", e->chunk_count);
        json_u64(j, "chunks_here", e->chunks_here);
        json_u64(j, "present_bytes", e->here_bytes);
    }
    json_end(j);
}

static enum err
here_page(struct request *q, struct span prefix)
{
    bool encoded = span_is(query_get(&q->query, "encoding"), "url"), more = false;
    struct span from = query_get(&q->query, "from");
    struct object_local_entry *entries = NULL;
    struct errbuf eb = {0};
    uint32_t count = 0;
    uint64_t max = OBJECT_LOCAL_PAGE;
    struct admin_page here_page;
    enum err rc = query_u64(&q->query, "max", OBJECT_LOCAL_PAGE, 1, OBJECT_LOCAL_PAGE,
                            &max, &q->fault);

    if (rc != ERR_OK)
        return rc;
    if (from.at == NULL)
        from = (struct span){"", 0};
    rc = object_local_page(q->api->options.object, q->bucket, prefix, from, (uint32_t)max,
                           request_work(q), &entries, &count, &more, &eb);
    if (rc != ERR_OK)
        return fault_from(q, rc, &eb);
    admin_page_begin(&here_page, PAGE_MAX);
    json_open_object(&here_page.j, NULL);
    json_text(&here_page.j, "bucket", q->bucket->name);
    json_text(&here_page.j, "class", q->bucket->cached ? "cached" : "native");
    json_open_array(&here_page.j, "keys");
    for (uint32_t i = 0; i < count; i++)
        here_put_entry(&here_page.j, &entries[i], q->bucket->cached, encoded);
    json_end(&here_page.j);
    json_bool(&here_page.j, "more", more);
    json_end(&here_page.j);
    return admin_page_answer(q, &here_page, 200);
}

static struct span
here_bucket_of(const struct request *q)
{
    struct span name = span_from(q->http->head->path, strlen(ROOT));

    name.len -= MIN(name.len, strlen(LEAF));
    return name;
}

enum err
admin_bucket_here(struct request *q)
{
    struct span path = q->http->head->path, bucket = here_bucket_of(q);
    struct span key = query_get(&q->query, "key"),
                prefix = query_get(&q->query, "prefix");
    const struct map_bucket *b;
    enum err rc;

    if (path.len < strlen(LEAF) ||
        !span_is(span_from(path, path.len - strlen(LEAF)), LEAF))
        return fault_set(&q->fault, S3_NoSuchKey, "There is no such page under /_/");
    if ((key.at != NULL) == (prefix.at != NULL) || (key.at != NULL && key.len == 0) ||
        key.len > OBJECT_KEY_MAX)
        return fault_set(&q->fault, S3_InvalidArgument,
                         "One of key=KEY and prefix=PREFIX is expected");
    rc = key.at != NULL ? caller_require(q, AUTH_READ, bucket, key)
                        : caller_require(q, AUTH_LIST, bucket, prefix);
    if (rc != ERR_OK)
        return rc;
    b = map_bucket_find(map_now(q->api->options.map), bucket);
    if (b == NULL)
        return fault_set(&q->fault, S3_NoSuchBucket, NULL);
    q->bucket = map_bucket_ref(b);
    return key.at != NULL ? here_object(q, key) : here_page(q, prefix);
}
