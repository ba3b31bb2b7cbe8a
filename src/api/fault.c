/* fault: maps errors of lower rooms to S3 error codes and XML documents. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "api/internal.h"
#include "base/log.h"
#include "base/num.h"
#include "wire/xml.h"

#define ERROR_BODY_MAX (64u << 10)

/* The S3 codes of base/err.h. Codes that are not listed map to InternalError. */
static const enum s3_code codes[ERR_COUNT_] = {
    [ERR_BAD_REQUEST] = S3_InvalidRequest,
    [ERR_DENIED] = S3_AccessDenied,
    [ERR_QUOTA] = S3_QuotaExceeded,
    [ERR_NOT_FOUND] = S3_NoSuchKey,
    [ERR_NO_BUCKET] = S3_NoSuchBucket,
    [ERR_NO_UPLOAD] = S3_NoSuchUpload,
    [ERR_NOT_ALLOWED] = S3_MethodNotAllowed,
    [ERR_TIMEOUT] = S3_SlowDown,
    [ERR_EXISTS] = S3_BucketAlreadyOwnedByYou,
    [ERR_NOT_EMPTY] = S3_BucketNotEmpty,
    [ERR_PRECONDITION] = S3_PreconditionFailed,
    [ERR_NOT_MODIFIED] = S3_NotModified,
    [ERR_TOO_LARGE] = S3_EntityTooLarge,
    [ERR_RANGE] = S3_InvalidRange,
    [ERR_BAD_DIGEST] = S3_BadDigest,
    [ERR_INCOMPLETE] = S3_IncompleteBody,
    [ERR_NOT_IMPLEMENTED] = S3_NotImplemented,
    [ERR_BACKEND] = S3_ServiceUnavailable,
    [ERR_BUSY] = S3_SlowDown,
    [ERR_CANCELLED] = S3_ServiceUnavailable,
    [ERR_CLOSED] = S3_ServiceUnavailable,
    [ERR_UNAVAILABLE] = S3_ServiceUnavailable,
    [ERR_NO_SPACE] = S3_InsufficientStorage, /* clients would retry a 503 forever */
};

/* True if the client may see the message. Messages about disks and memory stay in the log: they may contain paths. */
static bool
is_for_client(enum err code)
{
    switch (code) {
    case ERR_IO:
    case ERR_CORRUPT:
    case ERR_INTERNAL:
    case ERR_CLOSED:
    case ERR_CANCELLED:
        return false;
    case ERR_OK:
    case ERR_BAD_REQUEST:
    case ERR_DENIED:
    case ERR_QUOTA:
    case ERR_NOT_FOUND:
    case ERR_NO_BUCKET:
    case ERR_NO_UPLOAD:
    case ERR_NOT_ALLOWED:
    case ERR_TIMEOUT:
    case ERR_EXISTS:
    case ERR_NOT_EMPTY:
    case ERR_PRECONDITION:
    case ERR_NOT_MODIFIED:
    case ERR_TOO_LARGE:
    case ERR_RANGE:
    case ERR_BAD_DIGEST:
    case ERR_INCOMPLETE:
    case ERR_NOT_IMPLEMENTED:
    case ERR_BACKEND:
    case ERR_BUSY:
    case ERR_UNAVAILABLE:
    case ERR_NO_SPACE:
    case ERR_COUNT_:
        break;
    }
    return true;
}

enum err
fault_from(struct request *q, enum err code, const struct errbuf *eb)
{
    enum s3_code s3 = codes[code] != S3_OK ? codes[code] : S3_InternalError;

    assert(code != ERR_OK);
    assert(code < ERR_COUNT_);
    if (!is_for_client(code))
        LOG(LOG_ERROR, "api.failed", eb->text, L_TEXT("id", q->http->id),
            L_TEXT("code", err_name(code)), L_SPAN("path", q->http->head->path));
    /* Without these words a client would try again for ever. */
    if (code == ERR_CORRUPT && q->name.key.len > 0) {
        fault_set(&q->fault, s3,
                  "The stored object is damaged: its bytes do not match their checksums, "
                  "and there is no intact copy");
        return code;
    }
    /* Uses the message of S3 where clients know it, else our own, which is more specific. */
    if (code == ERR_NOT_FOUND || code == ERR_NO_BUCKET || code == ERR_NO_UPLOAD ||
        !is_for_client(code) || eb->text[0] == '\0')
        fault_set(&q->fault, s3, NULL);
    else
        fault_set(&q->fault, s3, "%s", eb->text);
    return code;
}

static void
write_document(struct request *q, struct buf *out)
{
    const struct fault *f = &q->fault;
    struct xml x;

    xml_begin(&x, out);
    xml_open(&x, "Error");
    xml_text(&x, "Code", s3_code_name(f->code));
    xml_text(&x, "Message", f->message);
    if (f->code == S3_NoSuchBucket || f->code == S3_BucketNotEmpty)
        xml_span(&x, "BucketName", q->name.bucket);
    if (f->code == S3_NoSuchKey)
        xml_span(&x, "Key", q->name.key);
    for (unsigned i = 0; i < f->extra_count; i++)
        xml_span(&x, f->extra[i].name, f->extra[i].value);
    xml_span(&x, "Resource", q->http->head->path);
    xml_text(&x, "RequestId", q->http->id);
    xml_text(&x, "HostId", q->http->id);
    xml_close(&x);
}

/* Adds the headers of the delete marker that hides the object. */
static void
fault_put_marker(struct request *q)
{
    char id[OBJECT_VERSION_TEXT], date[NUM_DATE_TEXT];

    if (q->marker == NULL)
        return;
    object_version_text(&q->marker->version, id);
    http_header(q->http, "x-amz-delete-marker", SPAN("true"));
    http_header(q->http, "x-amz-version-id", span_of(id));
    if (q->fault.code != S3_MethodNotAllowed)
        return;
    date_http(q->marker->mtime_ms / 1000, date);
    http_header(q->http, "last-modified", span_of(date));
    http_header(q->http, "allow", SPAN("DELETE"));
}

const char *
fault_name(const struct request *q)
{
    return s3_code_name(q->fault.code);
}

void
fault_answer_xml(struct request *q)
{
    struct buf body;
    int status = s3_code_status(q->fault.code);

    assert(q->fault.code != S3_OK);
    assert(!http_reply_began(q->http));
    http_headers_clear(q->http);
    request_put_ids(q);
    if (status == 503)
        http_header(q->http, "retry-after", SPAN("1"));
    http_header(q->http, "x-amz-bucket-region", span_of(q->api->options.region));
    if (q->fault.code == S3_InvalidRange)
        for (unsigned i = 0; i < q->fault.extra_count; i++)
            if (strcmp(q->fault.extra[i].name, "ActualObjectSize") == 0)
                http_headerf(q->http, "content-range", "bytes */%.*s",
                             SPAN_ARG(q->fault.extra[i].value));
    fault_put_marker(q);
    if (status == 304 || q->http->head->method == HTTP_METHOD_HEAD) {
        http_reply(q->http, status, (struct span){"", 0});
        return;
    }
    http_header(q->http, "content-type", SPAN("application/xml"));
    buf_init(&body, ERROR_BODY_MAX);
    write_document(q, &body);
    if (body.full) { /* the canonical request is too long: send the code alone */
        q->fault.extra_count = 0;
        buf_clear(&body);
        write_document(q, &body);
    }
    http_reply(q->http, status, buf_span(&body));
    buf_fini(&body);
}
