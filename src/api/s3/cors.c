/* cors: what browsers ask before a page of another site may read or write, and the lines that let it see the answer. The
 * rules stand in the bucket's settings; a preflight is never signed. */
#include <stdlib.h>
#include <string.h>

#include "api/s3/s3.h"
#include "base/mem.h"
#include "wire/cors.h"

/* The rules of the bucket that is asked for; false: there are none. Needs no rights: only the rules show in answers. */
static bool
rules_of(struct request *q, struct cors *out)
{
    const struct map_bucket *b =
        q->name.bucket.len > 0
            ? map_bucket_find(map_now(q->api->options.map), q->name.bucket)
            : NULL;

    return b != NULL && b->cors != NULL &&
           cors_parse(span_of(b->cors), request_work(q), out, NULL) == ERR_OK;
}

void
s3_cors_match(struct request *q)
{
    const struct http_head *h = q->http->head;
    struct span method =
        fields_get(http_fields(h), "access-control-request-method"); /* as with AWS */
    struct cors rules;
    bool any = false;

    if (!rules_of(q, &rules))
        return;
    q->cors =
        cors_find(&rules, http_get(h, HTTP_ORIGIN),
                  method.len > 0 ? method : h->method_text, (struct span){"", 0}, &any);
    q->cors_any = any;
}

enum err
s3_preflight(struct request *q)
{
    struct fields headers = http_fields(q->http->head);
    struct span origin = http_get(q->http->head, HTTP_ORIGIN);
    struct span method = fields_get(headers, "access-control-request-method");
    struct span wanted = fields_get(headers, "access-control-request-headers");
    struct cors rules;
    bool any = false;

    if (origin.len == 0)
        return fault_set(&q->fault, S3_BadRequest,
                         "Insufficient information. Origin request header needed.");
    if (method.len == 0)
        return fault_set(&q->fault, S3_BadRequest,
                         "Invalid Access-Control-Request-Method: null");
    if (!rules_of(q, &rules))
        return fault_set(&q->fault, S3_AccessForbidden,
                         "CORSResponse: CORS is not enabled for this bucket.");
    q->cors = cors_find(&rules, origin, method, wanted, &any);
    q->cors_any = any;
    if (q->cors == NULL)
        return fault_set(&q->fault, S3_AccessForbidden, NULL);
    if (wanted.len > 0)
        http_header(q->http, "access-control-allow-headers", wanted);
    return s3_answer_empty(q, 200);
}

/* ---- the configuration ---- */

static enum err
set_cors(struct map_bucket *b, void *arg, struct errbuf *eb)
{
    const char *doc = arg;

    (void)eb;
    free(b->cors);
    b->cors = doc != NULL ? xstrdup(doc) : NULL;
    return ERR_OK;
}

static enum err
cors_change(struct request *q, const char *doc, int status)
{
    struct errbuf eb = {{0}};
    enum err rc = change_bucket(q, q->bucket, set_cors, (void *)(uintptr_t)doc, &eb);

    return rc == ERR_OK ? s3_answer_empty(q, status) : fault_from(q, rc, &eb);
}

enum err
s3_put_bucket_cors(struct request *q)
{
    struct span doc;
    struct cors rules;
    struct buf text;
    enum err rc = s3_body_document(q, KIB(64), false, &doc);

    if (rc == ERR_OK)
        rc = cors_parse(doc, request_work(q), &rules, &q->fault);
    if (rc != ERR_OK)
        return rc;
    buf_init(&text,
             MAP_DOCUMENT_MAX); /* as we write it: what was not understood is not kept */
    cors_write(&rules, &text);
    buf_putc(&text, '\0');
    rc = text.full
             ? fault_set(&q->fault, S3_InvalidRequest,
                         "The CORS configuration is over %u bytes", MAP_DOCUMENT_MAX)
             : cors_change(q, text.at, 200);
    buf_fini(&text);
    return rc;
}

enum err
s3_delete_bucket_cors(struct request *q)
{
    return cors_change(q, NULL, 204);
}

enum err
s3_get_bucket_cors(struct request *q)
{
    struct buf text;
    enum err rc;

    if (q->bucket->cors == NULL)
        return s3_fault(q, S3_NoSuchCORSConfiguration);
    buf_init(&text, MAP_DOCUMENT_MAX + 1);
    buf_puts(&text, q->bucket->cors);
    rc = s3_answer_xml(q, &text);
    buf_fini(&text);
    return rc;
}
