/* multipart: uploads in parts. */
#include <string.h>

#include "api/s3/s3.h"
#include "base/mem.h"
#include "base/num.h"
#include "wire/s3xml.h"

#define UPLOAD_ID_MAX 1024
#define RESULT_MAX    (8u << 20)

static enum err
upload_id_of(struct request *q, struct span *out)
{
    *out = query_get(&q->query, "uploadId");
    if (out->len == 0 || out->len > UPLOAD_ID_MAX)
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
    struct buf body;
    struct xml x;
    enum err rc = s3_refuse_unbuilt(q);

    if (rc == ERR_OK)
        rc = s3_body_document(q, S3XML_BODY_MAX, false, &doc);
    if (rc == ERR_OK)
        rc = s3_meta_from_headers(q, &meta);
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
    buf_init(&body, KIB(16));
    xml_begin(&x, &body);
    xml_open_s3(&x, "InitiateMultipartUploadResult");
    xml_span(&x, "Bucket", q->name.bucket);
    xml_span(&x, "Key", q->name.key);
    xml_span(&x, "UploadId", upload_id);
    xml_close(&x);
    rc = s3_answer_xml(q, &body);
    buf_fini(&body);
    return rc;
}

static enum err
store_part(struct request *q, struct s3_body *body, struct span upload_id,
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
    rc = s3_body_begin(q, &body);
    if (rc == ERR_OK)
        rc = store_part(q, &body, upload_id, (uint32_t)number, info);
    s3_body_end(&body);
    if (rc != ERR_OK)
        return rc;
    s3_put_etag(q, info->etag);
    if (info->meta.checksum_algorithm != CHECKSUM_NONE)
        s3_put_checksum_header(q, &info->meta);
    return s3_answer_empty(q, 200);
}

/* What object_upload_complete() found wrong with the list, as S3 says it. */
static enum err
complete_fault(struct request *q, enum object_complete_why why, uint32_t number,
               enum err rc, const struct errbuf *eb)
{
    const char *text = arena_printf(q->arena, "%u", number);

    if (why == COMPLETE_BAD_PART) {
        fault_set(&q->fault, S3_InvalidPart, NULL);
        fault_add(&q->fault, "UploadId", query_get(&q->query, "uploadId"));
        fault_add(&q->fault, "PartNumber", span_of(text));
        return ERR_BAD_REQUEST;
    }
    if (why == COMPLETE_TOO_SMALL) {
        fault_set(&q->fault, S3_EntityTooSmall, NULL);
        fault_add(&q->fault, "MinSizeAllowed", SPAN("5242880"));
        fault_add(&q->fault, "PartNumber", span_of(text));
        return ERR_BAD_REQUEST;
    }
    if (why == COMPLETE_WRONG_SIZE)
        return fault_set(
            &q->fault, S3_InvalidRequest,
            "The provided 'x-amz-mp-object-size' header does not match what was "
            "computed.");
    return fault_from(q, rc, eb);
}

static void
put_complete_checksum(struct xml *x, const struct object_meta *m)
{
    struct checksum_value v = {.kind = (enum checksum_kind)m->checksum_algorithm};
    char text[CHECKSUM_TEXT_MAX];

    if (v.kind == CHECKSUM_NONE || m->checksum.len != checksum_len(v.kind))
        return;
    memcpy(v.bytes, m->checksum.at, m->checksum.len);
    if (m->checksum_type == CHECKSUM_COMPOSITE)
        checksum_composite_text(&v, m->parts, text);
    else
        checksum_text(&v, text);
    xml_text(x, checksum_element(v.kind), text);
    xml_text(x, "ChecksumType", checksum_type_name((enum checksum_type)m->checksum_type));
}

static enum err
answer_complete(struct request *q, const struct object_info *info)
{
    struct buf body;
    struct xml x;
    enum err rc;

    buf_init(&body, KIB(16));
    xml_begin(&x, &body);
    xml_open_s3(&x, "CompleteMultipartUploadResult");
    xml_text(&x, "Location",
             arena_printf(q->arena, "/%.*s/%.*s", SPAN_ARG(q->name.bucket),
                          SPAN_ARG(q->name.key)));
    xml_span(&x, "Bucket", q->name.bucket);
    xml_span(&x, "Key", q->name.key);
    xml_etag(&x, "ETag", span_of(info->etag));
    put_complete_checksum(&x, &info->meta);
    xml_close(&x);
    rc = s3_answer_xml(q, &body);
    buf_fini(&body);
    return rc;
}

/* Conditions are not built yet: refused by name. */
static enum err
refuse_complete_extras(struct request *q)
{
    struct fields headers = http_fields(q->http->head);
    static const char *const names[] = {"if-match", "if-none-match"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (fields_find(headers, names[i]) != NULL) {
            fault_set(&q->fault, S3_NotImplemented,
                      "The header %s is not implemented for CompleteMultipartUpload",
                      names[i]);
            fault_add(&q->fault, "Header", span_of(names[i]));
            return ERR_NOT_BUILT;
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
list_of(struct request *q, const struct s3xml_complete *list, struct object_complete *out)
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
    struct object_complete what;
    enum object_complete_why why = COMPLETE_OK;
    struct span upload_id, doc;
    struct errbuf eb = {{0}};
    uint32_t bad = 0;
    enum err rc = refuse_complete_extras(q);

    if (rc == ERR_OK)
        rc = upload_id_of(q, &upload_id);
    if (rc == ERR_OK)
        rc = s3_body_document(q, S3XML_COMPLETE_BODY_MAX, false, &doc);
    if (rc == ERR_OK)
        rc = s3xml_complete_parse(doc, request_work(q), &list, &q->fault);
    if (rc != ERR_OK)
        return rc;
    rc = wanted_size(q, &what.want_size);
    if (rc != ERR_OK)
        return rc;
    list_of(q, &list, &what);
    rc = object_upload_complete(q->api->options.object, q->bucket, q->name.key, upload_id,
                                &what, request_work(q), info, &why, &bad, &eb);
    if (rc != ERR_OK)
        return complete_fault(q, why, bad, rc, &eb);
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
    char date[NUM_DATE_TEXT];

    date_iso(p->mtime_ms, date);
    xml_open(x, "Part");
    xml_u64(x, "PartNumber", p->number);
    xml_text(x, "LastModified", date);
    xml_etag(x, "ETag", span_of(p->etag));
    xml_u64(x, "Size", p->size);
    xml_close(x);
}

enum err
s3_list_parts(struct request *q)
{
    struct object_part *parts = NULL;
    struct span upload_id;
    struct errbuf eb = {{0}};
    uint64_t after, max;
    uint32_t count = 0;
    bool more = false;
    struct buf body;
    struct xml x;
    enum err rc = upload_id_of(q, &upload_id);

    if (rc == ERR_OK)
        rc = query_u64(&q->query, "part-number-marker", 0, 0, INT32_MAX, &after,
                       &q->fault);
    if (rc == ERR_OK)
        rc =
            query_u64(&q->query, "max-parts", S3_PAGE_MAX, 0, INT32_MAX, &max, &q->fault);
    if (rc != ERR_OK)
        return rc;
    max = MIN(max, S3_PAGE_MAX);
    rc = object_part_list(q->api->options.object, q->bucket, q->name.key, upload_id,
                          (uint32_t)after, (uint32_t)max, q->arena, &parts, &count, &more,
                          &eb);
    if (rc != ERR_OK)
        return fault_from(q, rc, &eb);
    buf_init(&body, RESULT_MAX);
    xml_begin(&x, &body);
    xml_open_s3(&x, "ListPartsResult");
    xml_span(&x, "Bucket", q->name.bucket);
    xml_span(&x, "Key", q->name.key);
    xml_span(&x, "UploadId", upload_id);
    xml_u64(&x, "PartNumberMarker", after);
    if (count > 0)
        xml_u64(&x, "NextPartNumberMarker", parts[count - 1].number);
    xml_u64(&x, "MaxParts", max);
    xml_bool(&x, "IsTruncated", more && max > 0);
    xml_text(&x, "StorageClass", "STANDARD");
    for (uint32_t i = 0; i < count; i++)
        put_part(&x, &parts[i]);
    xml_close(&x);
    rc = s3_answer_xml(q, &body);
    buf_fini(&body);
    return rc;
}

static void
put_upload(struct xml *x, const struct object_upload *u, bool url)
{
    char date[NUM_DATE_TEXT];

    date_iso(u->begun_ms, date);
    xml_open(x, "Upload");
    xml_key(x, "Key", u->key, url);
    xml_span(x, "UploadId", u->upload_id);
    xml_text(x, "StorageClass", "STANDARD");
    xml_text(x, "Initiated", date);
    xml_close(x);
}

enum err
s3_list_uploads(struct request *q)
{
    struct span key_marker = query_get(&q->query, "key-marker");
    struct span id_marker = query_get(&q->query, "upload-id-marker");
    struct span prefix = query_get(&q->query, "prefix");
    bool url = span_is(query_get(&q->query, "encoding-type"), "url");
    struct object_upload *uploads = NULL;
    struct errbuf eb = {{0}};
    uint64_t max;
    uint32_t count = 0;
    bool more = false;
    struct buf body;
    struct xml x;
    enum err rc =
        query_u64(&q->query, "max-uploads", S3_PAGE_MAX, 0, INT32_MAX, &max, &q->fault);

    if (rc != ERR_OK)
        return rc;
    if (prefix.len > S3_KEY_MAX || key_marker.len > S3_KEY_MAX ||
        id_marker.len > UPLOAD_ID_MAX)
        return s3_fault(q, S3_KeyTooLongError);
    if (query_get(&q->query, "delimiter").len > 0)
        return fault_set(
            &q->fault, S3_NotImplemented,
            "The parameter \"delimiter\" is not implemented for listings of uploads");
    max = MIN(max, S3_PAGE_MAX);
    rc = object_upload_list(q->api->options.object, q->bucket, prefix, key_marker,
                            id_marker, (uint32_t)max, q->arena, &uploads, &count, &more,
                            &eb);
    if (rc != ERR_OK)
        return fault_from(q, rc, &eb);
    buf_init(&body, RESULT_MAX);
    xml_begin(&x, &body);
    xml_open_s3(&x, "ListMultipartUploadsResult");
    xml_span(&x, "Bucket", q->name.bucket);
    xml_key(&x, "KeyMarker", key_marker, url);
    xml_span(&x, "UploadIdMarker", id_marker);
    if (more && count > 0) {
        xml_key(&x, "NextKeyMarker", uploads[count - 1].key, url);
        xml_span(&x, "NextUploadIdMarker", uploads[count - 1].upload_id);
    }
    if (prefix.len > 0)
        xml_key(&x, "Prefix", prefix, url);
    if (url)
        xml_text(&x, "EncodingType", "url");
    xml_u64(&x, "MaxUploads", max);
    xml_bool(&x, "IsTruncated", more && max > 0);
    for (uint32_t i = 0; i < count; i++)
        put_upload(&x, &uploads[i], url);
    xml_close(&x);
    rc = s3_answer_xml(q, &body);
    buf_fini(&body);
    return rc;
}
