/* bulk: what the server does by itself: deletes up to a thousand objects in one request, copies from key to key. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/uri.h"
#include "client/internal.h"

static void
delete_body(const struct span *keys, uint32_t count, struct buf *out)
{
    struct xml x;

    xml_begin(&x, out);
    xml_open_s3(&x, "Delete");
    xml_bool(&x, "Quiet", true);
    for (uint32_t i = 0; i < count; i++) {
        xml_open(&x, "Object");
        xml_span(&x, "Key", keys[i]);
        xml_close(&x);
    }
    xml_close(&x);
}

enum err
s3_delete_many(struct s3_client *c, struct span bucket, const struct span *keys,
               uint32_t count, struct arena *a, struct s3_refusal *first,
               uint32_t *refused, struct s3_failure *f, struct errbuf *eb)
{
    unsigned char md5[DIGEST_MAX];
    char md5_text[BASE64_LEN(16) + 1];
    struct param params[1] = {{SPAN("delete"), {"", 0}}};
    struct s3_header headers[1] = {{SPAN("content-md5"), {md5_text, BASE64_LEN(16)}}};
    struct s3_call_spec o = {.method = "POST",
                             .bucket = bucket,
                             .params = params,
                             .param_count = 1,
                             .headers = headers,
                             .header_count = 1};
    struct s3xml_delete_result result = {0};
    struct span doc;
    struct buf body;
    enum err rc;

    *refused = 0;
    *first = (struct s3_refusal){.key = {"", 0}};
    buf_init(&body, MIB(8));
    delete_body(keys, count, &body);
    digest_oneshot(DIGEST_MD5, body.at, body.len, md5);
    base64_encode(md5, 16, md5_text);
    rc = call_simple(c, &o, buf_span(&body), a, &doc, f, eb);
    buf_fini(&body);
    if (rc == ERR_OK && s3xml_delete_result_parse(doc, a, &result, eb) != ERR_OK) {
        f->retry = true;
        err_prefix(eb, "the server's answer to a delete of %u objects cannot be read",
                   count);
        return ERR_BACKEND;
    }
    if (rc == ERR_OK && result.failure_count > 0) {
        *refused = (uint32_t)result.failure_count;
        *first = (struct s3_refusal){result.failures[0].key, result.failures[0].code,
                                     result.failures[0].message};
    }
    return rc;
}

/* The value of x-amz-copy-source is a path, encoded as one. */
static struct span
copy_source(const struct s3_copy *copy, struct arena *a)
{
    struct span out;
    struct buf text;

    buf_init(&text, KIB(8));
    buf_putc(&text, '/');
    uri_encode(&text, copy->from_bucket, false);
    buf_putc(&text, '/');
    uri_encode(&text, copy->from_key, true);
    out = arena_span(a, buf_span(&text));
    buf_fini(&text);
    return out;
}

enum err
s3_copy(struct s3_client *c, const struct s3_copy *copy, struct arena *a,
        struct span *etag, struct s3_failure *f, struct errbuf *eb)
{
    char number[16];
    struct param params[2] = {{SPAN("partNumber"), {number, 0}},
                              {SPAN("uploadId"), copy->upload_id}};
    struct s3_header headers[3] = {
        {SPAN("x-amz-copy-source"), copy_source(copy, a)},
    };
    struct s3_call_spec o = {.method = "PUT",
                             .bucket = copy->bucket,
                             .key = copy->key,
                             .params = params,
                             .headers = headers,
                             .header_count = 1};
    struct s3xml_result result;
    struct s3xml_error error;
    struct span doc;
    enum err rc;

    if (copy->if_match.len > 0)
        headers[o.header_count++] = (struct s3_header){
            SPAN("x-amz-copy-source-if-match"),
            span_of(arena_printf(a, "\"%.*s\"", SPAN_ARG(copy->if_match)))};
    if (copy->upload_id.len > 0) {
        params[0].value.len =
            (size_t)snprintf(number, sizeof number, "%u", copy->part_number);
        o.param_count = 2;
        headers[o.header_count++] = (struct s3_header){
            SPAN("x-amz-copy-source-range"),
            span_of(arena_printf(a, "bytes=%llu-%llu", (unsigned long long)copy->first,
                                 (unsigned long long)copy->last))};
    }
    rc = call_simple(c, &o, SPAN(""), a, &doc, f, eb);
    if (rc != ERR_OK)
        return rc;
    rc = s3xml_result_parse(doc, a, &result, &error, eb);
    if (rc == ERR_NOT_FOUND) /* an error under status 200 */
        return error_of_document(doc, 200, &o, f, eb);
    if (rc != ERR_OK) {
        f->retry = true;
        err_prefix(eb, "the server's answer to a copy cannot be read");
        return ERR_BACKEND;
    }
    *etag = result.etag;
    return ERR_OK;
}

enum err
s3_batch_begin(struct s3_client *c, const struct s3_batch_get *b, struct s3_call **call,
               struct s3_failure *f, struct errbuf *eb)
{
    struct param params[3] = {{SPAN("batch"), {"", 0}},
                              {SPAN("on-missing"), SPAN("mark")},
                              {SPAN("format"), b->format}};
    struct s3_header headers[1] = {
        {SPAN("content-type"), b->json ? SPAN("application/json") : SPAN("text/plain")}};
    struct s3_call_spec o = {.method = "POST",
                             .bucket = b->bucket,
                             .params = params,
                             .param_count = b->format.len > 0 ? 3 : 2,
                             .headers = headers,
                             .header_count = 1};

    *f = (struct s3_failure){0};
    *call = NULL;
    if (b->fail_on_missing)
        params[1].value = SPAN("fail");
    return call_ask(c, &o, b->list, call, f, eb);
}
