/* get: GET and HEAD of objects: a range or the whole, with the headers of AIS. */
#include "api/ais/checksum.h"
#include "api/ais/ops.h"
#include "api/inline_get.h"
#include "api/s3/s3.h"
#include "base/mem.h"
#include "base/num.h"
#include "rt/fiber.h"
#include "wire/etag.h"

/* ---- headers ---- */

void
ais_put_checksum(struct request *q, const struct object_info *info)
{
    char text[AIS_CHECKSUM_TEXT];
    enum ais_checksum c = ais_checksum_of(q->bucket, &info->meta, text);

    if (c == AIS_CHECKSUM_NONE)
        return;
    http_header_own(q->http, SPAN("ais-checksum-type: "), span_of(ais_checksum_name(c)));
    http_header_own(q->http, SPAN("ais-checksum-value: "), span_of(text));
}

static void
put_number_header(struct request *q, struct span name, uint64_t value)
{
    char text[24];
    int n = snprintf(text, sizeof text, "%llu", (unsigned long long)value);

    http_header_own(q->http, name, (struct span){text, (size_t)n});
}

void
ais_put_atime(struct request *q, const struct object_info *info)
{
    put_number_header(q, SPAN("ais-atime: "), (uint64_t)info->mtime_ms * 1000000u);
}

void
ais_put_version(struct request *q, const struct object_info *info)
{
    if (info->meta.backend_version.len > 0)
        http_header(q->http, "ais-version", info->meta.backend_version);
    else if (!q->bucket->cached)
        put_number_header(q, SPAN("ais-version: "), info->overwrites + UINT64_C(1));
}

void
ais_put_custom(struct request *q, const struct object_info *info)
{
    for (uint32_t i = 0; i < info->meta.user_count; i++)
        http_headerf(q->http, "ais-custom-md", "%.*s=%.*s",
                     SPAN_ARG(info->meta.user[i].name),
                     SPAN_ARG(info->meta.user[i].value));
}

static void
put_object_headers(struct request *q, const struct object_info *info)
{
    request_put_ids(q);
    ais_put_checksum(q, info);
    ais_put_atime(q, info);
    ais_put_version(q, info);
    ais_put_custom(q, info);
    http_header_lines(q->http, SPAN("accept-ranges: bytes\r\n"
                                    "content-type: application/octet-stream\r\n"));
}

/* ---- GET ---- */

static enum err
choose_range(struct request *q, const struct object_info *info, struct range *out,
             int *status)
{
    struct span header = http_get(q->http->head, HTTP_RANGE);
    bool several = span_find(header, ',') != NULL;

    *status = 200;
    switch (several ? RANGE_UNSATISFIABLE : range_resolve(header, info->size, out)) {
    case RANGE_PART:
        *status = 206;
        return ERR_OK;
    case RANGE_WHOLE:
        return ERR_OK;
    case RANGE_UNSATISFIABLE:
        break;
    }
    return range_fault(header, info->size, arena_alloc(q->arena, 24), &q->fault);
}

/* Opens the object, and has the first piece: until then an error has an answer of its own. *again: it was replaced
 * between two of these steps. */
static enum err
open_for_get(struct request *q, struct object_info *info, struct object_get **get,
             struct range *range, int *status, struct span *piece, bool *again)
{
    struct errbuf eb = {{0}};
    enum err rc = s3_open_object(q, q->bucket, q->name.key, NULL, false, info, get, &eb);

    *again = false;
    if (rc != ERR_OK)
        return ais_fault_from(q, rc, &eb);
    rc = choose_range(q, info, range, status);
    if (rc != ERR_OK)
        return rc;
    rc = object_get_range(*get, range->first, range->len, &eb);
    if (rc == ERR_OK)
        rc = object_get_next(*get, DEADLINE_NEVER, piece, &eb);
    *again = rc == ERR_NOT_FOUND;
    return rc == ERR_OK ? ERR_OK : ais_fault_from(q, rc, &eb);
}

/* Parameters that change nothing of the answer to a GET: such an answer may be kept. */
static bool
is_plain_get(const struct request *q)
{
    for (size_t i = 0; i < q->query.count; i++)
        if (!span_is(q->query.at[i].name, "provider") &&
            !span_is(q->query.at[i].name, "namespace"))
            return false;
    return true;
}

/* What only remote buckets know. */
static enum err
check_get(struct request *q)
{
    struct span blob = fields_get(http_fields(q->http->head), "ais-blob-download");

    if (blob.len > 0 && !span_is(blob, "false") && !q->bucket->cached)
        return ais_fault(q, 400, NULL, "blob download: bucket \"%s\" is not remote",
                         q->ais->bucket.text);
    if (query_get(&q->query, "etl_name").len > 0)
        return ais_fault(q, 501, "ErrUnsupp",
                         "transforms (etl_name) are not implemented");
    return ERR_OK;
}

enum err
ais_get_object(struct request *q)
{
    struct object_info *info = arena_alloc(q->arena, sizeof *info);
    struct object_get *get = NULL;
    struct range range = {0};
    struct span piece = {"", 0};
    bool again = false;
    int status = 200;
    enum err rc = check_get(q);

    while (rc == ERR_OK) {
        rc = open_for_get(q, info, &get, &range, &status, &piece, &again);
        if (!again)
            break;
        object_get_end(&get);
        rc = rt_retry() ? ERR_OK
                        : ais_fault(q, 503, NULL, "the object is replaced all the time");
    }
    if (rc == ERR_OK) {
        put_object_headers(q, info);
        if (status == 206)
            http_headerf(q->http, "content-range", "bytes %llu-%llu/%llu",
                         (unsigned long long)range.first,
                         (unsigned long long)(range.first + range.len - 1),
                         (unsigned long long)info->size);
        else if (is_plain_get(q))
            inline_get_keep(q, get);
        rc = http_reply_begin(q->http, status, (int64_t)range.len);
        rc = rc == ERR_OK ? s3_send_body(q, get, piece) : ERR_OK;
    }
    object_get_end(&get);
    return rc;
}
