/* get: GET and HEAD of objects: conditions, ranges, then the body piece by piece. */
#include "api/access.h"
#include "api/inline_get.h"
#include "api/s3/copy_far.h"
#include "api/s3/s3.h"
#include "base/mem.h"
#include "base/num.h"
#include "rt/fiber.h"
#include "rt/time.h"
#include "wire/etag.h"

/* Where the bytes came from, for users who wonder about their cache. */
static void
put_source(struct request *q, enum object_source source, bool stale)
{
    static const char *const names[] = {
        [OBJECT_LOCAL] = "hit",
        [OBJECT_FETCHED] = "miss",
        [OBJECT_JOINED] = "coalesced",
        [OBJECT_BYPASS] = "bypass",
    };

    if (q->bucket->cached)
        http_header(q->http, "x-forebay-cache", span_of(names[source]));
    if (stale)
        http_header(q->http, "x-forebay-stale", SPAN("backend-down"));
}

static enum err
check_conditions(struct request *q, const struct object_info *info)
{
    const struct http_head *h = q->http->head;
    struct conditions c = {
        .if_match = http_get(h, HTTP_IF_MATCH),
        .if_none_match = http_get(h, HTTP_IF_NONE_MATCH),
        .if_modified_since = http_get(h, HTTP_IF_MODIFIED_SINCE),
        .if_unmodified_since = http_get(h, HTTP_IF_UNMODIFIED_SINCE),
    };
    enum err rc = access_recheck(q, &info->meta);

    if (rc != ERR_OK)
        return rc;
    if (c.if_match.at == NULL && c.if_none_match.at == NULL &&
        c.if_modified_since.at == NULL && c.if_unmodified_since.at == NULL)
        return ERR_OK;
    return preconditions_check(&c, span_of(info->etag), info->mtime_ms / 1000,
                               (int64_t)(rt_wall_ns() / 1000000000u), &q->fault);
}

/* 304 carries ETag and Last-Modified. */
static enum err
answer_not_modified(struct request *q, const struct object_info *info)
{
    s3_put_object_headers(q, info);
    s3_put_version_of(q, info);
    http_reply(q->http, 304, (struct span){"", 0});
    return ERR_OK;
}

enum err
s3_open_object(struct request *q, const struct map_bucket *b, struct span key,
               const struct object_version *v, bool with_sum, struct object_info *info,
               struct object_get **out, struct errbuf *eb)
{
    struct rt_retries retries;
    bool replaced;
    enum err rc;

    *out = NULL;
    if (b->cached &&
        fields_get(http_fields(q->http->head), "x-forebay-latest").at != NULL) {
        rc = object_revalidate(q->api->options.object, b, key, q->arena, eb);
        if (rc != ERR_OK)
            return rc;
    }
    rt_retries_begin(&retries);
    do {
        replaced = false;
        rc = object_get_begin_version(q->api->options.object, b, key, v, q->arena, info,
                                      out, eb);
        if (rc == ERR_OK && with_sum) {
            rc = object_get_checksum(*out, q->arena, info, eb);
            replaced = rc == ERR_NOT_FOUND;
        }
        if (rc != ERR_OK)
            object_get_end(out);
    } while (replaced && rt_retry());
    rt_retries_end(&retries);
    return replaced
               ? err_set(eb, ERR_BUSY,
                         "the object was replaced more than %u times while it was read",
                         RT_RETRIES)
               : rc;
}

static const char *const overrides[] = {
    "response-content-type",        "response-cache-control",
    "response-content-disposition", "response-content-encoding",
    "response-content-language",    "response-expires",
};

static bool
may_stand_in_head(struct span value)
{
    for (size_t i = 0; i < value.len; i++)
        if ((unsigned char)value.at[i] < ' ' || value.at[i] == 0x7f)
            return false;
    return value.len <= 1024;
}

void
s3_put_found_headers(struct request *q, const struct object_info *info)
{
    s3_put_object_headers(q, info);
    s3_put_version_of(q, info);
    put_source(q, info->source, info->stale);
    if (q->from != NULL)
        far_source_put_headers(q, info);
}

/* What GET and HEAD request beside the object itself. */
struct asked {
    const struct object_version *version; /* NULL: the current one */
    uint64_t part;                        /* 0: none */
    bool sum;                             /* x-amz-checksum-mode */
};

static enum err
check_overrides(struct request *q)
{
    for (size_t i = 0; i < ARRAY_LEN(overrides); i++) {
        struct span given = query_get(&q->query, overrides[i]);

        if (given.at == NULL)
            continue;
        if (q->caller.kind == CALLER_ANONYMOUS)
            return fault_set(&q->fault, S3_InvalidRequest,
                             "Request specific response headers cannot be used for "
                             "anonymous GET requests.");
        if (!may_stand_in_head(given))
            return fault_argument(&q->fault, overrides[i], given,
                                  "Header value cannot be represented");
    }
    return ERR_OK;
}

static enum err
check_parameters(struct request *q, struct asked *out)
{
    enum err rc = ERR_OK;

    *out = (struct asked){
        .sum = span_case_is(fields_get(http_fields(q->http->head), "x-amz-checksum-mode"),
                            "enabled")};
    if (q->query.count > 0) {
        rc = check_overrides(q);
        if (rc == ERR_OK)
            rc = s3_version_requested(q, &out->version);
        if (rc == ERR_OK && query_has(&q->query, "partNumber"))
            rc = query_u64(&q->query, "partNumber", 1, 1, OBJECT_PARTS_MAX, &out->part,
                           &q->fault);
        if (rc == ERR_OK && out->part > 0 &&
            http_get(q->http->head, HTTP_RANGE).at != NULL)
            rc = fault_set(
                &q->fault, S3_InvalidRequest,
                "Cannot specify both Range header and partNumber query parameter");
    }
    if (rc == ERR_OK &&
        fields_find(http_fields(q->http->head),
                    "x-amz-server-side-encryption-customer-algorithm") != NULL)
        rc = fault_set(&q->fault, S3_NotImplemented,
                       "Encryption with customer keys is not implemented");
    return rc;
}

/* The checksum of the bytes of one part, where it is of the object's algorithm; of an object that came whole that of the
 * object, which is its only part. */
static void
put_part_sum(struct request *q, const struct object_info *info,
             const struct object_part_place *part)
{
    struct object_meta own = info->meta;

    if (part != NULL && part->checksum_algorithm != own.checksum_algorithm)
        return;
    if (part != NULL) {
        own.checksum_type = CHECKSUM_TYPE_NONE; /* the value of a part has no "-N" */
        own.checksum = part->checksum;
    }
    s3_put_checksum_header(q, &own);
    if (part != NULL && part->checksum.len > 0 &&
        info->meta.checksum_type != CHECKSUM_TYPE_NONE)
        http_header(
            q->http, "x-amz-checksum-type",
            span_of(checksum_type_name((enum checksum_type)info->meta.checksum_type)));
}

/* The bytes of one part. An object that came whole has one. */
static enum err
choose_part(struct request *q, const struct asked *asked, const struct object_info *info,
            struct object_get *get, struct range *out, int *status)
{
    struct object_part_place *parts = NULL;
    struct errbuf eb = {{0}};
    uint64_t number = asked->part;
    uint32_t count = 0;
    enum err rc = object_parts(get, request_work(q), &parts, &count, &eb);

    if (rc != ERR_OK)
        return fault_from(q, rc, &eb);
    if (count == 0 && info->meta.parts > 0)
        return fault_set(&q->fault, S3_NotImplemented,
                         "The parameter \"partNumber\" is not implemented for objects "
                         "that a remote has in parts");
    if (number > MAX(count, 1u)) {
        fault_set(&q->fault, S3_InvalidPartNumber, NULL);
        fault_add(&q->fault, "PartNumberRequested", query_get(&q->query, "partNumber"));
        fault_add(&q->fault, "ActualPartCount",
                  span_of(arena_printf(q->arena, "%u", MAX(count, 1u))));
        return ERR_RANGE;
    }
    *out = count > 0 ? (struct range){parts[number - 1].offset, parts[number - 1].size}
                     : (struct range){0, info->size};
    *status = out->len > 0 ? 206 : 200;
    if (count > 0)
        http_headerf(q->http, "x-amz-mp-parts-count", "%u", count);
    if (asked->sum)
        put_part_sum(q, info, count > 0 ? &parts[number - 1] : NULL);
    return ERR_OK;
}

/* Which bytes, and with which status. */
static enum err
get_choose_range(struct request *q, const struct object_info *info, struct range *out,
                 int *status)
{
    const struct http_head *h = q->http->head;
    struct span header = http_get(h, HTTP_RANGE);

    if (header.at != NULL && !if_range_holds(http_get(h, HTTP_IF_RANGE),
                                             span_of(info->etag), info->mtime_ms / 1000))
        header = (struct span){NULL, 0};
    switch (range_resolve(header, info->size, out)) {
    case RANGE_PART:
        *status = 206;
        return ERR_OK;
    case RANGE_WHOLE:
        *status = 200;
        return ERR_OK;
    case RANGE_UNSATISFIABLE:
        break;
    }
    return range_fault(header, info->size, arena_alloc(q->arena, 24), &q->fault);
}

/* A whole object's checksum never stands beside a range of its bytes: clients hold it against what they got. */
static bool
shows_sum(const struct request *q, const struct asked *asked)
{
    return asked->sum && http_get(q->http->head, HTTP_RANGE).at == NULL;
}

static void
get_put_head(struct request *q, const struct asked *asked, const struct object_info *info,
             const struct range *range, int status, const char *unverified)
{
    s3_put_found_headers(q, info);
    if (unverified != NULL)
        http_header(q->http, "x-forebay-unverified", span_of(unverified));
    if (status == 206)
        http_headerf(q->http, "content-range", "bytes %llu-%llu/%llu",
                     (unsigned long long)range->first,
                     (unsigned long long)(range->first + range->len - 1),
                     (unsigned long long)info->size);
    else if (asked->sum && asked->part == 0)
        s3_put_checksum_header(q, &info->meta);
}

/* With what stands behind it in memory: sent at once. */
static enum err
send_piece(struct request *q, struct object_get *get, struct span piece)
{
    struct span more[OBJECT_READ_MORE];
    struct iovec iov[1 + OBJECT_READ_MORE] = {{(void *)(uintptr_t)piece.at, piece.len}};
    unsigned count = object_get_more(get, more, OBJECT_READ_MORE);

    for (unsigned i = 0; i < count; i++)
        iov[1 + i] = (struct iovec){(void *)(uintptr_t)more[i].at, more[i].len};
    return http_reply_writev(q->http, iov, 1 + (int)count);
}

/* From the piece at hand on. After the head is out there is no other answer: an error resets the connection. */
enum err
s3_send_body(struct request *q, struct object_get *get, struct span piece)
{
    struct errbuf eb = {{0}};
    enum err rc = ERR_OK;

    while (rc == ERR_OK && piece.len > 0) {
        rc = send_piece(q, get, piece);
        if (rc != ERR_OK)
            return ERR_OK; /* the client is gone: there is no answer */
        rc = object_get_next(get, DEADLINE_NEVER, &piece, &eb);
    }
    if (rc != ERR_OK)
        return fault_from(q, rc, &eb);
    http_reply_end(q->http);
    return ERR_OK;
}

/* Finds the object, checks conditions and range, and has the first piece of the bytes: until then an error has an answer
 * of its own. *again: it was replaced between two of these steps. */
static enum err
open_object(struct request *q, const struct asked *asked, struct object_info *info,
            struct object_get **get, struct range *range, int *status, struct span *piece,
            bool *again)
{
    struct errbuf eb = {{0}};
    enum err rc = s3_open_object(q, q->bucket, q->name.key, asked->version,
                                 shows_sum(q, asked), info, get, &eb);

    *again = false;
    if (rc != ERR_OK)
        return s3_missing(q, asked->version, info, rc, &eb);
    rc = check_conditions(q, info);
    if (rc == ERR_OK)
        rc = asked->part == 0 ? get_choose_range(q, info, range, status)
                              : choose_part(q, asked, info, *get, range, status);
    if (rc != ERR_OK)
        return rc;
    rc = object_get_range(*get, range->first, range->len, &eb);
    if (rc == ERR_OK)
        rc = object_get_next(*get, DEADLINE_NEVER, piece, &eb);
    *again = rc == ERR_NOT_FOUND;
    info->source = object_get_source(*get);
    return rc == ERR_OK ? ERR_OK : fault_from(q, rc, &eb);
}

enum err
s3_get_object(struct request *q)
{
    struct object_info *info = arena_alloc(q->arena, sizeof *info);
    struct object_get *get = NULL;
    struct range range = {0};
    struct span piece = {"", 0};
    struct asked asked;
    bool again = false;
    int status = 200;
    enum err rc = check_parameters(q, &asked);

    if (rc != ERR_OK)
        return rc;
    for (;;) {
        rc = open_object(q, &asked, info, &get, &range, &status, &piece, &again);
        if (!again)
            break;
        object_get_end(&get);
        http_headers_clear(q->http);
        if (!rt_retry())
            break;
    }
    if (again)
        rc = s3_fault(q, S3_SlowDown);
    if (rc == ERR_NOT_MODIFIED) {
        object_get_end(&get);
        return answer_not_modified(q, info);
    }
    if (rc == ERR_OK) {
        get_put_head(q, &asked, info, &range, status, object_get_unverified(get));
        if (status == 200)
            inline_get_keep(q, get);
        rc = http_reply_begin(q->http, status, (int64_t)range.len);
        rc = rc == ERR_OK ? s3_send_body(q, get, piece) : ERR_OK;
    }
    object_get_end(&get);
    return rc;
}

enum err
s3_head_object(struct request *q)
{
    struct object_info *info = arena_alloc(q->arena, sizeof *info);
    struct object_get *get = NULL;
    struct range range = {0};
    struct errbuf eb = {{0}};
    struct asked asked;
    bool sum;
    int status = 200;
    enum err rc = check_parameters(q, &asked);

    if (rc != ERR_OK)
        return rc;
    sum = shows_sum(q, &asked) && !q->bucket->cached; /* no fetch for a HEAD */
    rc = asked.part > 0 || sum
             ? s3_open_object(q, q->bucket, q->name.key, asked.version, sum, info, &get,
                              &eb)
             : object_head_version(q->api->options.object, q->bucket, q->name.key,
                                   asked.version, q->arena, info, &eb);
    if (rc != ERR_OK)
        return s3_missing(q, asked.version, info, rc, &eb);
    rc = check_conditions(q, info);
    if (rc == ERR_OK)
        rc = asked.part == 0 ? get_choose_range(q, info, &range, &status)
                             : choose_part(q, &asked, info, get, &range, &status);
    object_get_end(&get);
    if (rc == ERR_NOT_MODIFIED)
        return answer_not_modified(q, info);
    if (rc != ERR_OK)
        return rc;
    get_put_head(q, &asked, info, &range, status, NULL);
    rc = http_reply_begin(q->http, status, (int64_t)range.len);
    if (rc == ERR_OK)
        http_reply_end(q->http);
    return ERR_OK;
}
