/* parts: uploads in parts, as AIS has them. They are the uploads of S3, without a least size of a part, and they are
 * complete only with exactly the parts that were uploaded. The object's checksum is the CRC-32C of the whole, which
 * follows from the parts'. */
#include <string.h>

#include "api/ais/ops.h"
#include "api/ais/put.h"
#include "base/mem.h"

#define PARTS_A_TIME 1000u

static enum err
part_upload_id(struct request *q, struct span *out)
{
    *out = query_get(&q->query, "uploadId");
    return out->len > 0 && out->len <= S3_UPLOAD_ID_MAX
               ? ERR_OK
               : ais_fault(q, 404, "ErrNotFound",
                           "multipart upload \"%.*s\" does not exist",
                           (int)MIN(out->len, 64u), out->at != NULL ? out->at : "");
}

enum err
ais_begin_upload(struct request *q, const struct object_meta *of, struct span *id)
{
    struct object_meta meta = of != NULL ? *of : (struct object_meta){0};
    struct errbuf eb = {{0}};
    enum err rc;

    if (!q->bucket->cached) {
        meta.checksum_algorithm = CHECKSUM_CRC32C;
        meta.checksum_type = CHECKSUM_FULL_OBJECT;
        meta.checksum = (struct span){NULL, 0};
    }
    rc = object_upload_begin(q->api->options.object, q->bucket, q->name.key, &meta,
                             q->arena, id, &eb);
    return rc == ERR_OK ? ERR_OK : ais_fault_from(q, rc, &eb);
}

enum err
ais_create_upload(struct request *q)
{
    struct span id;
    enum err rc = ais_begin_upload(q, NULL, &id);

    return rc == ERR_OK ? ais_answer_text(q, 200, id) : rc;
}

enum err
ais_put_part(struct request *q)
{
    struct object_info *info = arena_alloc(q->arena, sizeof *info);
    enum checksum_kind stored = q->bucket->cached ? CHECKSUM_NONE : CHECKSUM_CRC32C;
    struct object_put_options o = {.checksum_algorithm = (uint8_t)stored};
    struct object_meta none = {0};
    struct object_put *put = NULL;
    struct errbuf eb = {{0}};
    struct ais_given given;
    struct s3_body body;
    uint64_t number = 0;
    struct span id;
    enum err rc = part_upload_id(q, &id);

    if (rc == ERR_OK)
        rc = query_u64(&q->query, "partNumber", 0, 1, OBJECT_PARTS_MAX, &number,
                       &q->fault);
    if (rc == ERR_OK && number == 0)
        rc = ais_fault(q, 400, NULL, "invalid part number: 1 to %d are possible",
                       OBJECT_PARTS_MAX);
    if (rc == ERR_OK)
        rc = ais_given_take(q, &given);
    if (rc != ERR_OK)
        return rc;
    rc = s3_body_begin(q, &body);
    o.size = body.size;
    if (rc == ERR_OK && body.size == 0)
        rc = ais_fault(q, 400, NULL, "part %llu: invalid size (0)",
                       (unsigned long long)number);
    if (rc == ERR_OK) {
        rc = object_part_begin(q->api->options.object, q->bucket, q->name.key, id,
                               (uint32_t)number, &o, &put, &eb);
        if (rc != ERR_OK)
            rc = ais_fault_from(q, rc, &eb);
    }
    if (rc == ERR_OK)
        rc = ais_body_to_put(q, &body, &given, stored, put);
    if (rc == ERR_OK && body.got == 0 && body.size == OBJECT_SIZE_UNKNOWN)
        rc = ais_fault(q, 400, NULL, "part %llu: invalid size (0)",
                       (unsigned long long)number);
    if (rc == ERR_OK) {
        rc = object_put_commit(&put, &none, q->arena, info, &eb);
        if (rc != ERR_OK)
            rc = ais_fault_from(q, rc, &eb);
    }
    object_put_abort(&put);
    s3_body_end(&body);
    return rc == ERR_OK ? ais_answer_empty(q, 200) : rc;
}

/* ---- complete ---- */

static int
by_number(const void *a, const void *b)
{
    uint32_t x = ((const struct object_complete_part *)a)->number;
    uint32_t y = ((const struct object_complete_part *)b)->number;

    return (x > y) - (x < y);
}

/* The list of the message: [{"part-number": 1, "etag": ""}, ...] */
static enum err
take_list(struct request *q, struct object_complete_part **out, uint32_t *count)
{
    const json_t *list = q->ais->value;
    size_t n = json_array_size(list);
    struct object_complete_part *parts;

    if (!json_is_array(list) || n == 0)
        return ais_fault(q, 400, NULL, "complete: there are no chunks to complete");
    if (n > OBJECT_PARTS_MAX)
        return ais_fault(q, 400, NULL, "complete: %zu parts, at most %d", n,
                         OBJECT_PARTS_MAX);
    parts = arena_alloc(request_work(q), n * sizeof *parts);
    for (size_t i = 0; i < n; i++) {
        uint64_t number;
        enum err rc = ais_number(q, json_array_get(list, i), "part-number", &number);

        if (rc != ERR_OK)
            return rc;
        if (number == 0 || number > OBJECT_PARTS_MAX)
            return ais_fault(q, 400, NULL,
                             "complete: part number %llu, 1 to %d are possible",
                             (unsigned long long)number, OBJECT_PARTS_MAX);
        parts[i].number = (uint32_t)number;
    }
    qsort(parts, n, sizeof *parts, by_number);
    *out = parts;
    *count = (uint32_t)n;
    return ERR_OK;
}

static enum err
not_all_parts(struct request *q)
{
    return ais_fault(
        q, 400, NULL,
        "complete: partial completion is not allowed: the list must have each "
        "uploaded part once");
}

/* The parts that were uploaded, all of them and in order, must be those of the list. */
static enum err
match_all(struct request *q, struct span id, struct object_complete_part *parts,
          uint32_t count)
{
    uint32_t at = 0, after = 0;
    bool more = true;

    while (more) {
        struct object_part *page = NULL;
        struct errbuf eb = {{0}};
        uint32_t n = 0;
        enum err rc =
            object_part_list(q->api->options.object, q->bucket, q->name.key, id, after,
                             PARTS_A_TIME, request_work(q), &page, &n, &more, &eb);

        if (rc != ERR_OK)
            return ais_fault_from(q, rc, &eb);
        for (uint32_t i = 0; i < n; i++, at++) {
            if (at == count || parts[at].number != page[i].number)
                return not_all_parts(q);
            parts[at].etag = span_of(page[i].etag);
        }
        more = more && n > 0;
        after = n > 0 ? page[n - 1].number : after;
    }
    return at == count ? ERR_OK : not_all_parts(q);
}

enum err
ais_finish_upload(struct request *q, struct span id, struct object_complete_part *parts,
                  uint32_t count, struct object_info *info)
{
    struct object_service *s = q->api->options.object;
    struct object_complete what = {.parts = parts,
                                   .count = count,
                                   .want_size = OBJECT_ANY_SIZE,
                                   .any_part_size = true};
    struct object_bad_part bad;
    struct errbuf eb = {{0}};
    enum err rc = match_all(q, id, parts, count);

    if (rc != ERR_OK)
        return rc;
    rc = object_next_overwrites(s, q->bucket, q->name.key, &what.overwrites, &eb);
    if (rc == ERR_OK)
        rc = object_upload_complete(s, q->bucket, q->name.key, id, &what, request_work(q),
                                    info, &bad, &eb);
    return rc == ERR_OK ? ERR_OK : ais_fault_from(q, rc, &eb);
}

enum err
ais_complete_upload(struct request *q)
{
    struct object_info *info = arena_alloc(q->arena, sizeof *info);
    struct object_complete_part *parts = NULL;
    struct object_meta meta;
    struct errbuf eb = {{0}};
    uint32_t count = 0;
    struct span id;
    enum err rc = part_upload_id(q, &id);

    if (rc == ERR_OK) { /* one that was completed before is gone here */
        rc = object_upload_meta(q->api->options.object, q->bucket, q->name.key, id,
                                q->arena, &meta, &eb);
        if (rc != ERR_OK)
            return ais_fault_from(q, rc, &eb);
    }
    if (rc == ERR_OK)
        rc = take_list(q, &parts, &count);
    if (rc == ERR_OK)
        rc = ais_finish_upload(q, id, parts, count, info);
    return rc == ERR_OK ? ais_answer_empty(q, 200) : rc;
}

enum err
ais_abort_upload(struct request *q)
{
    struct errbuf eb = {{0}};
    struct span id;
    enum err rc = part_upload_id(q, &id);

    if (rc != ERR_OK)
        return rc;
    rc = object_upload_abort(q->api->options.object, q->bucket, q->name.key, id, &eb);
    return rc == ERR_OK ? ais_answer_empty(q, 200) : ais_fault_from(q, rc, &eb);
}
