/* bucket: buckets, listings, multipart uploads, and anything else with small bodies. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/uri.h"
#include "client/internal.h"

static struct span nothing = {"", 0};

/* 2xx with another document than expected: empty or cut, so treated like no answer. */
static enum err
no_document(struct s3_failure *f, struct errbuf *eb)
{
    f->retry = true;
    err_prefix(eb, "the server's answer cannot be read");
    return ERR_BACKEND;
}

static enum err
bucket_call(struct s3_client *c, const char *method, struct span bucket,
            struct s3_failure *f, struct errbuf *eb)
{
    struct s3_call_spec o = {.method = method, .bucket = bucket};
    struct arena *a = arena_new(KIB(4), MIB(1));
    enum err rc = call_simple(c, &o, nothing, a, NULL, f, eb);

    if (rc == ERR_NOT_FOUND && f->code[0] == '\0')
        rc = err_set(eb, ERR_NO_BUCKET, "no bucket \"%.*s\"", SPAN_ARG(bucket));
    arena_free(&a);
    return rc;
}

enum err
s3_bucket_remote(struct s3_client *c, struct span bucket, struct arena *a,
                 struct s3_bucket_remote *out, struct s3_failure *f, struct errbuf *eb)
{
    struct s3_call_spec o = {.method = "HEAD", .bucket = bucket};
    struct s3_call *call = NULL;
    enum err rc = call_ask(c, &o, nothing, &call, f, eb);

    *out = (struct s3_bucket_remote){nothing, nothing};
    if (rc == ERR_OK) {
        struct fields h = http_fields(call->head);

        out->endpoint = arena_span(a, fields_get(h, "x-forebay-remote"));
        out->bucket = arena_span(a, fields_get(h, "x-forebay-remote-bucket"));
    } else if (rc == ERR_NOT_FOUND && f->code[0] == '\0') {
        rc = err_set(eb, ERR_NO_BUCKET, "no bucket \"%.*s\"", SPAN_ARG(bucket));
    }
    s3_end(&call);
    return rc;
}

enum err
s3_bucket_make(struct s3_client *c, struct span bucket, struct s3_failure *f,
               struct errbuf *eb)
{
    return bucket_call(c, "PUT", bucket, f, eb);
}

enum err
s3_bucket_head(struct s3_client *c, struct span bucket, struct s3_failure *f,
               struct errbuf *eb)
{
    return bucket_call(c, "HEAD", bucket, f, eb);
}

enum err
s3_bucket_remove(struct s3_client *c, struct span bucket, struct s3_failure *f,
                 struct errbuf *eb)
{
    return bucket_call(c, "DELETE", bucket, f, eb);
}

enum err
s3_list_buckets(struct s3_client *c, struct arena *a, struct s3_bucket_entry **out,
                uint32_t *count, struct s3_failure *f, struct errbuf *eb)
{
    struct s3_call_spec o = {.method = "GET"};
    struct s3xml_bucket_list list;
    struct span doc;
    enum err rc = call_simple(c, &o, nothing, a, &doc, f, eb);

    if (rc == ERR_OK && s3xml_buckets_parse(doc, a, &list, eb) != ERR_OK)
        rc = no_document(f, eb);
    if (rc != ERR_OK)
        return rc;
    *count = (uint32_t)list.count;
    *out = arena_try(a, (list.count > 0 ? list.count : 1) * sizeof **out);
    if (*out == NULL)
        return err_set(eb, ERR_BACKEND, "the server's list of %zu buckets is too long",
                       list.count);
    for (size_t i = 0; i < list.count; i++)
        (*out)[i] =
            (struct s3_bucket_entry){list.entries[i].name, list.entries[i].created_ms};
    return ERR_OK;
}

static int
by_name(const void *a, const void *b)
{
    return span_cmp(((const struct s3xml_list_entry *)a)->key,
                    ((const struct s3xml_list_entry *)b)->key);
}

/* Entries arrive in order, except that prefixes follow all keys. */
static void
put_in_order(struct s3xml_list_entry *entries, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (by_name(&entries[i - 1], &entries[i]) > 0) {
            qsort(entries, count, sizeof *entries, by_name);
            return;
        }
}

/* Parses what has arrived while the rest is in flight. */
static enum err
read_page(struct s3_call *call, const struct s3_list *l, struct s3xml_list_reader *r,
          struct arena *a, struct s3_failure *f, struct errbuf *eb)
{
    bool told = l->on_token == NULL;
    enum err rc;
    size_t n;

    do {
        struct span token;
        size_t room;
        char *at = s3xml_list_room(r, &room);

        rc = http_call_read(call->http, at, room, &n, eb);
        f->retry = rc != ERR_OK;
        if (rc == ERR_OK && s3xml_list_feed(r, n, eb) != ERR_OK)
            rc = no_document(f, eb);
        if (rc == ERR_OK && !told && s3xml_list_token(r, a, &token)) {
            told = true;
            l->on_token(l->arg, token);
        }
    } while (rc == ERR_OK && n > 0);
    return rc;
}

static enum err
end_page(const struct s3_list *l, struct s3xml_list_reader *r, struct arena *a,
         struct s3_list_page *out, struct s3_failure *f, struct errbuf *eb)
{
    struct s3xml_list list;
    enum err rc = s3xml_list_end(r, a, &list, eb);

    if (rc == ERR_TOO_LARGE)
        return ERR_BACKEND;
    if (rc != ERR_OK)
        return no_document(f, eb);
    put_in_order(list.entries, list.count);
    *out = (struct s3_list_page){.entries = list.entries,
                                 .count = (uint32_t)list.count,
                                 .truncated = list.truncated,
                                 .next_token = list.next_token};
    if (out->truncated && l->token.len > 0 && span_eq(out->next_token, l->token))
        return err_set(eb, ERR_BACKEND,
                       "the server's list does not go on: each page says "
                       "that the same one follows");
    return ERR_OK;
}

enum err
s3_list_objects(struct s3_client *c, const struct s3_list *l, struct arena *a,
                struct s3_list_page *out, struct s3_failure *f, struct errbuf *eb)
{
    struct param params[7] = {{SPAN("list-type"), SPAN("2")},
                              {SPAN("encoding-type"), SPAN("url")}};
    struct s3_call_spec o = {
        .method = "GET", .bucket = l->bucket, .params = params, .param_count = 2};
    struct s3xml_list_reader *r = s3xml_list_begin();
    struct s3_call *call = NULL;
    bool stale = false;
    char max[16];
    enum err rc;

    *out = (struct s3_list_page){0};
    params[o.param_count++] = (struct param){SPAN("prefix"), l->prefix};
    snprintf(max, sizeof max, "%u", l->max_keys > 0 ? l->max_keys : 1000);
    params[o.param_count++] = (struct param){SPAN("max-keys"), span_of(max)};
    if (l->delimiter.len > 0)
        params[o.param_count++] = (struct param){SPAN("delimiter"), l->delimiter};
    if (l->token.len > 0)
        params[o.param_count++] = (struct param){SPAN("continuation-token"), l->token};
    else if (l->start_after.len > 0)
        params[o.param_count++] = (struct param){SPAN("start-after"), l->start_after};
    rc = call_ask(c, &o, nothing, &call, f, eb);
    if (rc == ERR_OK) {
        stale = fields_get(http_fields(call->head), "x-forebay-stale").len > 0;
        rc = read_page(call, l, r, a, f, eb);
    }
    s3_end(&call);
    if (rc == ERR_OK)
        rc = end_page(l, r, a, out, f, eb);
    out->stale = stale;
    s3xml_list_free(&r);
    return rc;
}

/* A document that may be an error under status 200. */
static enum err
result_of(struct span doc, const struct s3_call_spec *o, struct arena *a,
          struct s3xml_result *out, struct s3_failure *f, struct errbuf *eb)
{
    struct s3xml_error error;
    enum err rc = s3xml_result_parse(doc, a, out, &error, eb);

    if (rc == ERR_NOT_FOUND)
        return error_of_document(doc, 200, o, f, eb);
    return rc == ERR_OK ? ERR_OK : no_document(f, eb);
}

enum err
s3_upload_begin(struct s3_client *c, struct span bucket, struct span key,
                const struct s3_header *headers, uint32_t header_count, struct arena *a,
                struct span *upload_id, struct s3_failure *f, struct errbuf *eb)
{
    struct param params[1] = {{SPAN("uploads"), {"", 0}}};
    struct s3_call_spec o = {.method = "POST",
                             .bucket = bucket,
                             .key = key,
                             .params = params,
                             .param_count = 1,
                             .headers = headers,
                             .header_count = header_count};
    struct s3xml_result result;
    struct span doc;
    enum err rc = call_simple(c, &o, nothing, a, &doc, f, eb);

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
    struct s3_completion w = {.bucket = bucket,
                              .key = key,
                              .upload_id = upload_id,
                              .parts = parts,
                              .count = count};

    return s3_upload_complete_if(c, &w, a, etag, f, eb);
}

enum err
s3_upload_complete_if(struct s3_client *c, const struct s3_completion *w, struct arena *a,
                      struct span *etag, struct s3_failure *f, struct errbuf *eb)
{
    struct param params[1] = {{SPAN("uploadId"), w->upload_id}};
    struct s3_call_spec o = {.method = "POST",
                             .bucket = w->bucket,
                             .key = w->key,
                             .params = params,
                             .param_count = 1,
                             .headers = w->headers,
                             .header_count = w->header_count};
    struct s3xml_result result;
    struct span doc;
    struct buf body;
    struct xml x;
    enum err rc;

    buf_init(&body, S3XML_COMPLETE_BODY_MAX);
    xml_begin(&x, &body);
    xml_open_s3(&x, "CompleteMultipartUpload");
    for (uint32_t i = 0; i < w->count; i++) {
        xml_open(&x, "Part");
        xml_u64(&x, "PartNumber", w->parts[i].number);
        xml_etag(&x, "ETag", w->parts[i].etag);
        xml_close(&x);
    }
    xml_close(&x);
    rc = call_simple(c, &o, buf_span(&body), a, &doc, f, eb);
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
    struct s3_call_spec o = {.method = "DELETE",
                             .bucket = bucket,
                             .key = key,
                             .params = params,
                             .param_count = 1};
    struct arena *a = arena_new(KIB(4), MIB(1));
    enum err rc = call_simple(c, &o, nothing, a, NULL, f, eb);

    arena_free(&a);
    return rc;
}

/* For our own pages and rare operations: the caller checks the status, so an error answer is not an error here. */
enum err
s3_request(struct s3_client *c, const struct s3_request *r, struct arena *a, int *status,
           struct span *body, struct errbuf *eb)
{
    struct query q = {NULL, 0};
    struct s3_call_spec o = {.method = r->method,
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
    rc = call_simple(c, &o, r->body, a, body, &f, &why);
    *status = f.status;
    if (rc != ERR_OK && f.status != 0) {
        *body = span_of(arena_printf(a, "%s", why.text));
        return ERR_OK;
    }
    if (rc != ERR_OK && eb != NULL)
        *eb = why;
    return rc;
}
