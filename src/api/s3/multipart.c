/* multipart: uploads in parts. */
#include <string.h>

#include "api/access.h"
#include "api/s3/s3.h"
#include "base/mem.h"
#include "base/num.h"
#include "wire/etag.h"
#include "wire/s3xml.h"

#define RESULT_MAX (8u << 20)

static enum err
upload_id_of(struct request *q, struct span *out)
{
    *out = query_get(&q->query, "uploadId");
    if (out->len == 0 || out->len > S3_UPLOAD_ID_MAX)
        return s3_fault(q, S3_NoSuchUpload);
    return ERR_OK;
}

enum err
s3_create_upload(struct request *q)
{
    struct fields headers = http_fields(q->http->head);
    struct object_meta meta;
    enum checksum_kind kind;
    enum checksum_type type;
    struct span upload_id, doc;
    struct errbuf eb = {{0}};
    struct s3_document d;
    enum err rc = s3_refuse_unbuilt(q);

    if (rc == ERR_OK)
        rc = s3_body_document(q, S3XML_BODY_MAX, false, &doc);
    if (rc == ERR_OK)
        rc = s3_meta_from_headers(q, &meta);
    if (rc == ERR_OK)
        rc = s3_tags_header(q, &meta.tags);
    if (rc == ERR_OK)
        rc = s3_acl_of_new_object(q, http_get(q->http->head, HTTP_AMZ_ACL), &meta);
    if (rc == ERR_OK)
        rc = checksum_multipart(fields_get(headers, "x-amz-checksum-algorithm"),
                                fields_get(headers, "x-amz-checksum-type"), &kind, &type,
                                &q->fault);
    if (rc != ERR_OK)
        return rc;
    if (fields_find(headers, "x-amz-checksum-algorithm") != NULL) {
        meta.checksum_algorithm = (uint8_t)kind;
        meta.checksum_type = (uint8_t)type;
    }
    rc = object_upload_begin(q->api->options.object, q->bucket, q->name.key, &meta,
                             q->arena, &upload_id, &eb);
    if (rc != ERR_OK)
        return fault_from(q, rc, &eb);
    if (meta.checksum_algorithm != CHECKSUM_NONE) {
        http_header(q->http, "x-amz-checksum-algorithm", span_of(checksum_name(kind)));
        http_header(q->http, "x-amz-checksum-type", span_of(checksum_type_name(type)));
    }
    s3_document_begin(&d, KIB(16), "InitiateMultipartUploadResult");
    xml_span(&d.xml, "Bucket", q->name.bucket);
    xml_span(&d.xml, "Key", q->name.key);
    xml_span(&d.xml, "UploadId", upload_id);
    return s3_document_answer(q, &d);
}

static enum err
s3_part_store(struct request *q, struct s3_body *body, struct span upload_id,
              uint32_t number, struct object_info *info)
{
    struct object_put_options o = {.size = body->size,
                                   .checksum_algorithm = (uint8_t)body->sums.kind};
    struct object_meta none = {0};
    struct object_put *put = NULL;
    struct errbuf eb = {{0}};
    enum err rc = object_part_begin(q->api->options.object, q->bucket, q->name.key,
                                    upload_id, number, &o, &put, &eb);

    if (rc != ERR_OK)
        return fault_from(q, rc, &eb);
    rc = s3_body_to_put(body, put);
    if (rc == ERR_OK) {
        rc = object_put_commit(&put, &none, q->arena, info, &eb);
        if (rc != ERR_OK)
            rc = fault_from(q, rc, &eb);
    }
    object_put_abort(&put);
    return rc;
}

enum err
s3_put_part(struct request *q)
{
    struct object_info *info = arena_alloc(q->arena, sizeof *info);
    struct span upload_id;
    struct s3_body body;
    uint64_t number;
    enum err rc = s3_refuse_unbuilt(q);

    if (rc == ERR_OK && !query_has(&q->query, "partNumber"))
        rc = fault_argument(&q->fault, "partNumber", SPAN(""),
                            "An upload of a part needs its "
                            "partNumber");
    if (rc == ERR_OK)
        rc =
            query_u64(&q->query, "partNumber", 0, 1, S3XML_PARTS_MAX, &number, &q->fault);
    if (rc == ERR_OK)
        rc = upload_id_of(q, &upload_id);
    if (rc != ERR_OK)
        return rc;
    if (fields_find(http_fields(q->http->head), "x-amz-copy-source") != NULL)
        return s3_copy_part(q, upload_id, (uint32_t)number);
    rc = s3_body_begin(q, &body);
    if (rc == ERR_OK)
        rc = s3_part_store(q, &body, upload_id, (uint32_t)number, info);
    s3_body_end(&body);
    if (rc != ERR_OK)
        return rc;
    s3_put_etag(q, info->etag);
    if (info->meta.checksum_algorithm != CHECKSUM_NONE)
        s3_put_checksum_header(q, &info->meta);
    return s3_answer_empty(q, 200);
}

/* As the list has it. */
static void
add_etag(struct request *q, const struct object_complete *what, uint32_t number)
{
    for (uint32_t i = 0; i < what->count; i++)
        if (what->parts[i].number == number)
            fault_add(&q->fault, "ETag", etag_unquote(what->parts[i].etag));
}

/* What object_upload_complete() found wrong with the list, as S3 says it. */
static enum err
complete_fault(struct request *q, const struct object_complete *what,
               const struct object_bad_part *bad, enum err rc, const struct errbuf *eb)
{
    enum object_complete_why why = bad->why;
    uint32_t number = bad->number;
    const char *text = arena_printf(q->arena, "%u", number);

    if (why == COMPLETE_BAD_PART) {
        fault_set(&q->fault, S3_InvalidPart, NULL);
        fault_add(&q->fault, "UploadId", query_get(&q->query, "uploadId"));
        fault_add(&q->fault, "PartNumber", span_of(text));
        add_etag(q, what, number);
        return ERR_BAD_REQUEST;
    }
    if (why == COMPLETE_TOO_SMALL) {
        fault_set(&q->fault, S3_EntityTooSmall, NULL);
        fault_add(&q->fault, "ProposedSize",
                  span_of(arena_printf(q->arena, "%llu", (unsigned long long)bad->size)));
        fault_add(&q->fault, "MinSizeAllowed", SPAN("5242880"));
        fault_add(&q->fault, "PartNumber", span_of(text));
        add_etag(q, what, number);
        return ERR_BAD_REQUEST;
    }
    if (why == COMPLETE_NO_CHECKSUM)
        return fault_set(&q->fault, S3_InvalidRequest,
                         "The upload was created using a checksum. The complete request "
                         "must include the checksum for each part. It was missing for "
                         "part %u in the request.",
                         number);
    if (why == COMPLETE_WRONG_TYPE)
        return fault_set(&q->fault, S3_InvalidRequest, "%s", eb->text);
    if (why == COMPLETE_BAD_DIGEST)
        return fault_set(&q->fault, S3_BadDigest,
                         "The checksum you specified did not match the calculated "
                         "checksum.");
    if (why == COMPLETE_WRONG_SIZE)
        return fault_set(
            &q->fault, S3_InvalidRequest,
            "The provided 'x-amz-mp-object-size' header does not match what was "
            "computed.");
    return fault_from(q, rc, eb);
}

static enum err
answer_complete(struct request *q, const struct object_info *info)
{
    struct s3_document d;

    s3_document_begin(&d, KIB(16), "CompleteMultipartUploadResult");
    xml_text(&d.xml, "Location",
             arena_printf(q->arena, "/%.*s/%.*s", SPAN_ARG(q->name.bucket),
                          SPAN_ARG(q->name.key)));
    xml_span(&d.xml, "Bucket", q->name.bucket);
    xml_span(&d.xml, "Key", q->name.key);
    xml_etag(&d.xml, "ETag", span_of(info->etag));
    s3_xml_checksum(&d.xml, &info->meta);
    return s3_document_answer(q, &d);
}

/* The checksum and type of the whole object, where the client says them. */
static enum err
wanted_sum(struct request *q, struct object_complete *out)
{
    struct fields h = http_fields(q->http->head);
    struct span type = fields_get(h, "x-amz-checksum-type");

    if (span_is(type, "COMPOSITE"))
        out->want_type = CHECKSUM_COMPOSITE;
    else if (span_is(type, "FULL_OBJECT"))
        out->want_type = CHECKSUM_FULL_OBJECT;
    else if (type.at != NULL)
        return fault_set(&q->fault, S3_InvalidRequest,
                         "Value for x-amz-checksum-type header is invalid.");
    for (size_t i = 0; i < h.count; i++) {
        enum checksum_kind kind = checksum_of_header(h.at[i].name);
        struct span text = h.at[i].value;
        const char *dash = memchr(text.at, '-', text.len); /* of a composite one */
        struct checksum_value v;
        enum err rc;

        if (kind == CHECKSUM_NONE)
            continue;
        if (dash != NULL)
            text.len = (size_t)(dash - text.at);
        rc = checksum_parse(kind, text, &v, &q->fault);
        if (rc != ERR_OK)
            return rc;
        out->want_algorithm = (uint8_t)kind;
        memcpy(out->want_checksum, v.bytes, sizeof out->want_checksum);
    }
    return ERR_OK;
}

/* The size the client expects, where it says so. */
static enum err
wanted_size(struct request *q, uint64_t *out)
{
    struct span given = fields_get(http_fields(q->http->head), "x-amz-mp-object-size");

    *out = OBJECT_ANY_SIZE;
    if (given.at == NULL || num_u64(given, out) == ERR_OK)
        return ERR_OK;
    return fault_argument(&q->fault, "x-amz-mp-object-size", given,
                          "The size is not a number");
}

static void
multipart_list_of(struct request *q, const struct s3xml_complete *list,
                  struct object_complete *out)
{
    struct object_complete_part *parts =
        arena_alloc(request_work(q), list->count * sizeof *parts); /* parts are 10,000 */

    for (size_t i = 0; i < list->count; i++) {
        parts[i] = (struct object_complete_part){
            .number = list->parts[i].number,
            .etag = list->parts[i].etag,
            .checksum_algorithm = (uint8_t)list->parts[i].sum.kind,
        };
        memcpy(parts[i].checksum, list->parts[i].sum.bytes, sizeof parts[i].checksum);
    }
    out->parts = parts;
    out->count = (uint32_t)list->count;
}

enum err
s3_complete_upload(struct request *q)
{
    struct object_info *info = arena_alloc(q->arena, sizeof *info);
    struct s3xml_complete list;
    struct object_complete what = {0};
    struct object_bad_part bad;
    struct span upload_id, doc;
    struct errbuf eb = {{0}};
    enum err rc = s3_write_condition(q, &what.condition);

    if (rc == ERR_OK)
        rc = wanted_sum(q, &what);
    if (rc == ERR_OK)
        rc = upload_id_of(q, &upload_id);
    if (rc == ERR_OK)
        rc = s3_body_document(q, S3XML_COMPLETE_BODY_MAX, false, &doc);
    if (rc == ERR_OK)
        rc = s3xml_complete_parse(doc, request_work(q), &list, &q->fault);
    if (rc != ERR_OK && q->fault.code == S3_InvalidPartOrder)
        fault_add(&q->fault, "UploadId", upload_id);
    if (rc != ERR_OK)
        return rc;
    rc = wanted_size(q, &what.want_size);
    if (rc != ERR_OK)
        return rc;
    multipart_list_of(q, &list, &what);
    rc = object_upload_complete(q->api->options.object, q->bucket, q->name.key, upload_id,
                                &what, request_work(q), info, &bad, &eb);
    if (rc == ERR_PRECONDITION || (rc == ERR_NOT_FOUND && what.condition != NULL))
        return s3_condition_fault(q, what.condition, rc, &eb);
    if (rc != ERR_OK)
        return complete_fault(q, &what, &bad, rc, &eb);
    s3_put_new_version(q, info);
    return answer_complete(q, info);
}

enum err
s3_abort_upload(struct request *q)
{
    struct span upload_id;
    struct errbuf eb = {{0}};
    enum err rc = upload_id_of(q, &upload_id);

    if (rc != ERR_OK)
        return rc;
    rc = object_upload_abort(q->api->options.object, q->bucket, q->name.key, upload_id,
                             &eb);
    return rc == ERR_OK ? s3_answer_empty(q, 204) : fault_from(q, rc, &eb);
}

static void
put_part(struct xml *x, const struct object_part *p)
{
    struct object_meta sum = {.checksum_algorithm = p->checksum_algorithm,
                              .checksum = p->checksum};
    char date[NUM_DATE_TEXT];

    date_iso(p->mtime_ms, date);
    xml_open(x, "Part");
    xml_u64(x, "PartNumber", p->number);
    xml_text(x, "LastModified", date);
    xml_etag(x, "ETag", span_of(p->etag));
    xml_u64(x, "Size", p->size);
    s3_xml_checksum(x, &sum);
    xml_close(x);
}

static void
put_sum_kind(struct xml *x, uint8_t algorithm, uint8_t type)
{
    if (algorithm == CHECKSUM_NONE)
        return;
    xml_text(x, "ChecksumAlgorithm", checksum_name((enum checksum_kind)algorithm));
    if (type != CHECKSUM_TYPE_NONE)
        xml_text(x, "ChecksumType", checksum_type_name((enum checksum_type)type));
}

struct page_of_parts {
    struct span upload_id;
    uint64_t after, max;
    const struct object_meta *meta; /* of the upload */
    struct object_part *parts;
    uint32_t count;
    bool more;
};

static enum err
answer_parts(struct request *q, const struct page_of_parts *p)
{
    struct s3_document d;

    s3_document_begin(&d, RESULT_MAX, "ListPartsResult");
    xml_span(&d.xml, "Bucket", q->name.bucket);
    xml_span(&d.xml, "Key", q->name.key);
    xml_span(&d.xml, "UploadId", p->upload_id);
    s3_xml_initiator(&d.xml, s3_owner_of(q->bucket, p->meta->acl));
    xml_text(&d.xml, "StorageClass", "STANDARD");
    xml_u64(&d.xml, "PartNumberMarker", p->after);
    xml_u64(&d.xml, "NextPartNumberMarker",
            p->count > 0 ? p->parts[p->count - 1].number : p->after);
    xml_u64(&d.xml, "MaxParts", p->max);
    xml_bool(&d.xml, "IsTruncated", p->more && p->max > 0);
    put_sum_kind(&d.xml, p->meta->checksum_algorithm, p->meta->checksum_type);
    for (uint32_t i = 0; i < p->count; i++)
        put_part(&d.xml, &p->parts[i]);
    return s3_document_answer(q, &d);
}

enum err
s3_list_parts(struct request *q)
{
    struct object_service *s = q->api->options.object;
    struct page_of_parts p = {0};
    struct object_meta meta;
    struct errbuf eb = {{0}};
    enum err rc = upload_id_of(q, &p.upload_id);

    if (rc == ERR_OK)
        rc = query_u64(&q->query, "part-number-marker", 0, 0, INT32_MAX, &p.after,
                       &q->fault);
    if (rc == ERR_OK)
        rc = query_u64(&q->query, "max-parts", S3_PAGE_MAX, 0, INT32_MAX, &p.max,
                       &q->fault);
    if (rc != ERR_OK)
        return rc;
    p.max = MIN(p.max, S3_PAGE_MAX);
    p.meta = &meta;
    rc = object_upload_meta(s, q->bucket, q->name.key, p.upload_id, q->arena, &meta, &eb);
    if (rc == ERR_OK)
        rc = object_part_list(s, q->bucket, q->name.key, p.upload_id, (uint32_t)p.after,
                              (uint32_t)p.max, request_work(q), &p.parts, &p.count,
                              &p.more, &eb);
    return rc == ERR_OK ? answer_parts(q, &p) : fault_from(q, rc, &eb);
}
