/* error: errors as AIS clients read them: one JSON object; for HEAD, which has no body, in the header Hdr-Error.
 *
 * The Python SDK finds out what is missing by the first thing in the text that looks like SCHEME://BUCKET[/OBJECT]. So an
 * error about a bucket has no object behind it, and one about an object has. */
#include <assert.h>
#include <stdio.h>

#include "api/ais/ais.h"
#include "base/mem.h"

#define ERROR_TEXT_MAX 4096

/* The status is only the nearest: this room's own errors say theirs. */
static enum err
err_of_status(int status)
{
    switch (status) {
    case 401:
    case 403:
        return ERR_DENIED;
    case 404:
        return ERR_NOT_FOUND;
    case 405:
        return ERR_NOT_ALLOWED;
    case 409:
        return ERR_EXISTS;
    case 416:
        return ERR_RANGE;
    case 501:
        return ERR_NOT_IMPLEMENTED;
    case 503:
        return ERR_BUSY;
    case 507:
        return ERR_NO_SPACE;
    default:
        return ERR_BAD_REQUEST;
    }
}

enum err
ais_fault(struct request *q, int status, const char *tcode, const char *fmt, ...)
{
    struct fault *f = &q->fault;
    va_list args;

    assert(status >= 400);
    *f = (struct fault){.code = status >= 500 ? S3_InternalError : S3_InvalidRequest};
    va_start(args, fmt);
    vsnprintf(f->message, sizeof f->message, fmt, args);
    va_end(args);
    q->ais->status = status;
    q->ais->tcode = tcode;
    return err_of_status(status);
}

enum err
ais_no_bucket(struct request *q, const struct ais_bucket *b)
{
    ais_fault(q, 404,
              b->provider == MAP_AIS && !b->elsewhere ? "ErrBckNotFound"
                                                      : "ErrRemoteBckNotFound",
              "bucket \"%s\" does not exist", b->text);
    return ERR_NO_BUCKET;
}

enum err
ais_no_object(struct request *q, const struct ais_bucket *b, struct span object)
{
    return ais_fault(q, 404, "ErrNotFound", "object \"%s/%.*s\" does not exist", b->text,
                     (int)MIN(object.len, 200u), object.at);
}

enum err
ais_fault_from(struct request *q, enum err rc, const struct errbuf *eb)
{
    if (rc == ERR_NO_BUCKET)
        return ais_no_bucket(q, &q->ais->bucket);
    if (rc == ERR_NOT_FOUND && q->ais->object.len > 0)
        return ais_no_object(q, &q->ais->bucket, q->ais->object);
    if (rc == ERR_NO_UPLOAD)
        return ais_fault(q, 404, "ErrNotFound", "the multipart upload does not exist");
    return fault_from(q, rc, eb); /* ais_write_error() translates it */
}

/* What faults of lower rooms are called here. */
static const struct translation {
    enum s3_code code;
    int status;
    const char *tcode;
} translations[] = {
    {S3_NoSuchBucket, 404, "ErrBckNotFound"},
    {S3_NoSuchKey, 404, "ErrNotFound"},
    {S3_NoSuchUpload, 404, "ErrNotFound"},
    {S3_BadDigest, 400, "ErrBadCksum"},
    {S3_InvalidRange, 416, "ErrRangeNotSatisfiable"},
    {S3_MissingContentLength, 400, NULL},
    {S3_NotImplemented, 501, "ErrNotImpl"},
    {S3_InsufficientStorage, 507, "ErrCapExceeded"},
    {S3_QuotaExceeded, 507, "ErrCapExceeded"},
    {S3_BucketAlreadyOwnedByYou, 409, "ErrBucketAlreadyExists"},
    {S3_BucketAlreadyExists, 409, "ErrBucketAlreadyExists"},
    {S3_BucketNotEmpty, 409, "ErrBusy"},
    {S3_OperationAborted, 409, "ErrBusy"},
};

/* Without credentials it is 401: a client then asks for a token. */
static void
translate_denied(struct request *q)
{
    bool no_token = q->caller.kind == CALLER_ANONYMOUS;
    struct fault was = q->fault;

    if (no_token && was.message[0] != '\0' &&
        strcmp(was.message, s3_code_message(S3_AccessDenied)) != 0)
        ais_fault(q, 403, NULL, "%s", was.message); /* the gate says why */
    else if (no_token)
        ais_fault(q, 401, NULL, "token required");
    else
        ais_fault(q, 403, NULL,
                  "insufficient permissions: user \"%.*s\" may not %.*s \"%.*s\"",
                  (int)MIN(q->caller.name.len, 64u), q->caller.name.at,
                  SPAN_ARG(q->http->head->method_text),
                  (int)MIN(q->http->head->path.len, 100u), q->http->head->path.at);
}

static void
translate(struct request *q)
{
    enum s3_code code = q->fault.code;

    if (q->ais->status != 0)
        return;
    q->ais->status = s3_code_status(code);
    if (code == S3_AccessDenied)
        translate_denied(q);
    for (size_t i = 0; i < ARRAY_LEN(translations); i++)
        if (translations[i].code == code) {
            q->ais->status = translations[i].status;
            q->ais->tcode = translations[i].tcode;
        }
    if (code == S3_NoSuchBucket && q->ais->bucket.text != NULL)
        ais_no_bucket(q, &q->ais->bucket);
    if (code == S3_NoSuchKey && q->ais->object.len > 0)
        ais_no_object(q, &q->ais->bucket, q->ais->object);
}

static void
put_error(struct request *q, struct buf *out)
{
    const struct http_head *head = q->http->head;
    struct span path = {head->path.at, MIN(head->path.len, 512u)};
    struct ais_ids ids;
    struct json j;

    ais_ids(q->api, &ids);
    json_begin(&j, out);
    json_open_object(&j, NULL);
    if (q->ais->tcode != NULL)
        json_text(&j, "tcode", q->ais->tcode);
    json_text(&j, "message", q->fault.message);
    json_span(&j, "method", head->method_text);
    json_span(&j, "url_path", path);
    json_text(&j, "remote_addr", q->http->peer);
    json_text(&j, "caller", "");
    json_text(&j, "node", arena_printf(q->arena, "p[%s]", ids.gateway));
    json_i64(&j, "status", q->ais->status);
    json_end(&j);
}

void
ais_write_error(struct request *q)
{
    struct buf body;

    assert(!http_reply_began(q->http));
    if (q->ais == NULL)
        q->ais = arena_alloc(q->arena, sizeof *q->ais);
    translate(q);
    http_headers_clear(q->http);
    request_put_ids(q);
    buf_init(&body, ERROR_TEXT_MAX);
    put_error(q, &body);
    http_header(q->http, "content-type", SPAN("application/json; charset=utf-8"));
    http_header(q->http, "x-content-type-options", SPAN("nosniff"));
    if (q->ais->status == 503 || q->ais->status == 429)
        http_header(q->http, "retry-after", SPAN("1"));
    for (unsigned i = 0; q->ais->status == 416 && i < q->fault.extra_count; i++)
        if (strcmp(q->fault.extra[i].name, "ActualObjectSize") == 0)
            http_headerf(q->http, "content-range", "bytes */%.*s",
                         SPAN_ARG(q->fault.extra[i].value));
    if (q->http->head->method == HTTP_METHOD_HEAD && !body.full) {
        http_header(q->http, "hdr-error", buf_span(&body));
        http_reply(q->http, q->ais->status, (struct span){"", 0});
    } else {
        http_reply(q->http, q->ais->status, buf_span(&body));
    }
    buf_fini(&body);
}
