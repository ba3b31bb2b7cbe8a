/* bucket: buckets, listings, multipart uploads, and anything else with small bodies. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/uri.h"
#include "client/internal.h"

static struct span nothing = {"", 0};

static enum err
simple(struct s3_client *c, const char *method, struct span bucket, struct s3_failure *f,
       struct errbuf *eb)
{
    struct s3_order o = {.method = method, .bucket = bucket};
    struct arena *a = arena_new(KIB(4), MIB(1));
    enum err rc = order_simple(c, &o, nothing, a, NULL, f, eb);

    if (rc == ERR_NOT_FOUND && f->code[0] == '\0')
        rc = err_set(eb, ERR_NO_BUCKET, "no bucket \"%.*s\"", SPAN_ARG(bucket));
    arena_free(&a);
    return rc;
}

enum err
s3_bucket_make(struct s3_client *c, struct span bucket, struct s3_failure *f,
               struct errbuf *eb)
{
    return simple(c, "PUT", bucket, f, eb);
}

enum err
s3_bucket_head(struct s3_client *c, struct span bucket, struct s3_failure *f,
               struct errbuf *eb)
{
    return simple(c, "HEAD", bucket, f, eb);
}

enum err
s3_bucket_remove(struct s3_client *c, struct span bucket, struct s3_failure *f,
                 struct errbuf *eb)
{
    return simple(c, "DELETE", bucket, f, eb);
}

enum err
s3_list_buckets(struct s3_client *c, struct arena *a, struct s3_bucket_entry **out,
                uint32_t *count, struct s3_failure *f, struct errbuf *eb)
{
    struct s3_order o = {.method = "GET"};
    struct s3xml_bucket_list list;
    struct span doc;
    enum err rc = order_simple(c, &o, nothing, a, &doc, f, eb);

    if (rc == ERR_OK)
        rc = s3xml_buckets_parse(doc, a, &list, eb);
    if (rc != ERR_OK)
        return rc;
    *count = (uint32_t)list.count;
    *out = arena_alloc(a, (list.count > 0 ? list.count : 1) * sizeof **out);
    for (size_t i = 0; i < list.count; i++)
        (*out)[i] =
            (struct s3_bucket_entry){list.entries[i].name, list.entries[i].created_ms};
    return ERR_OK;
}

static int
by_name(const void *a, const void *b)
{
    return span_cmp(((const struct s3_list_entry *)a)->key,
                    ((const struct s3_list_entry *)b)->key);
}

enum err
s3_list_objects(struct s3_client *c, const struct s3_list *l, struct arena *a,
                struct s3_list_page *out, struct s3_failure *f, struct errbuf *eb)
{
    struct param params[7] = {{SPAN("list-type"), SPAN("2")},
                              {SPAN("encoding-type"), SPAN("url")}};
    struct s3_order o = {
        .method = "GET", .bucket = l->bucket, .params = params, .param_count = 2};
    struct s3xml_list list;
    struct span doc;
    enum err rc;

    params[o.param_count++] = (struct param){SPAN("prefix"), l->prefix};
    params[o.param_count++] = (struct param){
        SPAN("max-keys"),
        span_of(arena_printf(a, "%u", l->max_keys > 0 ? l->max_keys : 1000))};
    if (l->delimiter.len > 0)
        params[o.param_count++] = (struct param){SPAN("delimiter"), l->delimiter};
    if (l->token.len > 0)
        params[o.param_count++] = (struct param){SPAN("continuation-token"), l->token};
    else if (l->start_after.len > 0)
        params[o.param_count++] = (struct param){SPAN("start-after"), l->start_after};
    rc = order_simple(c, &o, nothing, a, &doc, f, eb);
    if (rc == ERR_OK)
        rc = s3xml_list_parse(doc, a, &list, eb);
    if (rc != ERR_OK)
        return rc;
    *out = (struct s3_list_page){
        .entries =
            arena_alloc(a, (list.count > 0 ? list.count : 1) * sizeof *out->entries),
        .count = (uint32_t)list.count,
        .truncated = list.truncated,
        .next_token = list.next_token};
    for (size_t i = 0; i < list.count; i++)
        out->entries[i] = (struct s3_list_entry){.key = list.entries[i].key,
                                                 .etag = list.entries[i].etag,
                                                 .size = list.entries[i].size,
                                                 .mtime_ms = list.entries[i].mtime_ms,
                                                 .is_prefix = list.entries[i].is_prefix};
    qsort(out->entries, out->count, sizeof *out->entries, by_name);
    return ERR_OK;
}

/* A document that may be an error under status 200. */
static enum err
result_of(struct span doc, const struct s3_order *o, struct arena *a,
          struct s3xml_result *out, struct s3_failure *f, struct errbuf *eb)
{
    struct s3xml_error error;
    enum err rc = s3xml_result_parse(doc, a, out, &error, eb);

    if (rc == ERR_NOT_FOUND)
        return error_of_document(doc, 200, o, f, eb);
    if (rc != ERR_OK)
        f->retry = true; /* empty or cut: as good as no answer */
    return rc;
}

enum err
s3_upload_begin(struct s3_client *c, struct span bucket, struct span key,
                const struct s3_header *headers, uint32_t header_count, struct arena *a,
                struct span *upload_id, struct s3_failure *f, struct errbuf *eb)
{
    struct param params[1] = {{SPAN("uploads"), {"", 0}}};
    struct s3_order o = {.method = "POST",
                         .bucket = bucket,
                         .key = key,
                         .params = params,
                         .param_count = 1,
                         .headers = headers,
                         .header_count = header_count};
    struct s3xml_result result;
    struct span doc;
    enum err rc = order_simple(c, &o, nothing, a, &doc, f, eb);

    if (rc == ERR_OK)
        rc = result_of(doc, &o, a, &result, f, eb);
    if (rc == ERR_OK && result.upload_id.len == 0)
        rc = err_set(eb, ERR_BACKEND, "the server began an upload without an id");
    if (rc == ERR_OK)
        *upload_id = result.upload_id;
    return rc;
}

enum err
s3_upload_complete(struct s3_client *c, struct span bucket, struct span key,
                   struct span upload_id, const struct s3_part *parts, uint32_t count,
                   struct arena *a, struct span *etag, struct s3_failure *f,
                   struct errbuf *eb)
{
    struct param params[1] = {{SPAN("uploadId"), upload_id}};
    struct s3_order o = {.method = "POST",
                         .bucket = bucket,
                         .key = key,
                         .params = params,
                         .param_count = 1};
    struct s3xml_result result;
    struct span doc;
    struct buf body;
    struct xml x;
    enum err rc;

    buf_init(&body, S3XML_COMPLETE_BODY_MAX);
    xml_begin(&x, &body);
    xml_open_s3(&x, "CompleteMultipartUpload");
    for (uint32_t i = 0; i < count; i++) {
        xml_open(&x, "Part");
        xml_u64(&x, "PartNumber", parts[i].number);
        xml_etag(&x, "ETag", parts[i].etag);
        xml_close(&x);
    }
    xml_close(&x);
    rc = order_simple(c, &o, buf_span(&body), a, &doc, f, eb);
    buf_fini(&body);
    if (rc == ERR_OK)
        rc = result_of(doc, &o, a, &result, f, eb);
    if (rc == ERR_OK)
        *etag = result.etag;
    return rc;
}

enum err
s3_upload_abort(struct s3_client *c, struct span bucket, struct span key,
                struct span upload_id, struct s3_failure *f, struct errbuf *eb)
{
    struct param params[1] = {{SPAN("uploadId"), upload_id}};
    struct s3_order o = {.method = "DELETE",
                         .bucket = bucket,
                         .key = key,
                         .params = params,
                         .param_count = 1};
    struct arena *a = arena_new(KIB(4), MIB(1));
    enum err rc = order_simple(c, &o, nothing, a, NULL, f, eb);

    arena_free(&a);
    return rc;
}

/* Our own pages and rare operations: the status is the caller's to judge, so an error answer is no error here. */
enum err
s3_request(struct s3_client *c, const struct s3_request *r, struct arena *a, int *status,
           struct span *body, struct errbuf *eb)
{
    struct query q = {NULL, 0};
    struct s3_order o = {.method = r->method,
                         .key = span_from(r->path, 1),
                         .headers = r->headers,
                         .header_count = r->header_count};
    struct s3_failure f = {0};
    struct errbuf why = {{0}};
    enum err rc = query_parse(r->query, a, &q, NULL);

    if (rc != ERR_OK)
        return err_set(eb, rc, "the query \"%.*s\" is malformed", SPAN_ARG(r->query));
    o.params = q.at;
    o.param_count = (uint32_t)q.count;
    *body = nothing;
    rc = order_simple(c, &o, r->body, a, body, &f, &why);
    *status = f.status;
    if (rc != ERR_OK && f.status != 0) {
        *body = span_of(arena_printf(a, "%s", why.text));
        return ERR_OK;
    }
    if (rc != ERR_OK && eb != NULL)
        *eb = why;
    return rc;
}
