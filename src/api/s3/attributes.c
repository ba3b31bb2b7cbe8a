/* attributes: GetObjectAttributes: what is known of an object, as a document, without its bytes. */
#include <string.h>

#include "api/access.h"
#include "api/s3/s3.h"
#include "base/mem.h"
#include "base/num.h"

enum { A_ETAG = 1, A_CHECKSUM = 2, A_PARTS = 4, A_CLASS = 8, A_SIZE = 16 };

static const struct {
    const char *name;
    unsigned bit;
} known[] = {
    {"ETag", A_ETAG},          {"Checksum", A_CHECKSUM}, {"ObjectParts", A_PARTS},
    {"StorageClass", A_CLASS}, {"ObjectSize", A_SIZE},
};

/* The header, which may come several times. */
static enum err
read_wanted(struct request *q, unsigned *out)
{
    struct fields h = http_fields(q->http->head);

    *out = 0;
    for (size_t i = 0; i < h.count; i++) {
        struct span rest = h.at[i].value;

        if (!span_case_is(h.at[i].name, "x-amz-object-attributes"))
            continue;
        while (rest.len > 0) {
            const char *comma = memchr(rest.at, ',', rest.len);
            size_t len = comma != NULL ? (size_t)(comma - rest.at) : rest.len;
            struct span name = span_trim((struct span){rest.at, len});
            unsigned bit = 0;

            for (size_t k = 0; k < ARRAY_LEN(known); k++)
                if (span_is(name, known[k].name))
                    bit = known[k].bit;
            if (bit == 0)
                return fault_argument(&q->fault, "x-amz-object-attributes", name,
                                      "Invalid attribute name specified.");
            *out |= bit;
            rest = span_from(rest, len + (comma != NULL));
        }
    }
    if (*out == 0)
        return fault_set(&q->fault, S3_InvalidRequest,
                         "The x-amz-object-attributes header is missing or empty");
    return ERR_OK;
}

static enum err
header_number(struct request *q, const char *name, uint64_t absent, uint64_t *out)
{
    struct span given = fields_get(http_fields(q->http->head), name);

    *out = absent;
    if (given.at == NULL || num_u64(span_trim(given), out) == ERR_OK)
        return ERR_OK;
    return fault_argument(&q->fault, name, given, "The value is not a number");
}

struct page_of_parts {
    const struct object_part_place *parts;
    uint32_t count;
    uint64_t marker, max;
};

static void
attributes_put_value(struct xml *x, uint8_t algorithm, struct span value)
{
    struct checksum_value v = {.kind = (enum checksum_kind)algorithm};
    char text[CHECKSUM_TEXT_MAX];

    if (v.kind == CHECKSUM_NONE || value.len != checksum_len(v.kind))
        return;
    memcpy(v.bytes, value.at, value.len);
    checksum_text(&v, text);
    xml_text(x, checksum_element(v.kind), text);
}

static void
put_parts(struct xml *x, const struct page_of_parts *p)
{
    uint64_t first = MIN(p->marker, (uint64_t)p->count);
    uint64_t end = MIN(first + p->max, (uint64_t)p->count);

    xml_open(x, "ObjectParts");
    xml_u64(x, "PartsCount", p->count);
    xml_u64(x, "PartNumberMarker", p->marker);
    xml_u64(x, "NextPartNumberMarker", end);
    xml_u64(x, "MaxParts", p->max);
    xml_bool(x, "IsTruncated", end < p->count);
    for (uint64_t i = first; i < end; i++) {
        xml_open(x, "Part");
        xml_u64(x, "PartNumber", i + 1);
        xml_u64(x, "Size", p->parts[i].size);
        attributes_put_value(x, p->parts[i].checksum_algorithm, p->parts[i].checksum);
        xml_close(x);
    }
    xml_close(x);
}

/* AWS: the value of a COMPOSITE one stands here without "-N". */
static void
attributes_put_checksum(struct xml *x, const struct object_meta *m)
{
    if (m->checksum_algorithm == CHECKSUM_NONE)
        return;
    xml_open(x, "Checksum");
    attributes_put_value(x, m->checksum_algorithm, m->checksum);
    if (m->checksum_type != CHECKSUM_TYPE_NONE)
        xml_text(x, "ChecksumType",
                 checksum_type_name((enum checksum_type)m->checksum_type));
    xml_close(x);
}

static void
put_document(struct xml *x, unsigned wanted, const struct object_info *info,
             const struct page_of_parts *parts)
{
    xml_open_s3(x, "GetObjectAttributesResponse");
    if ((wanted & A_ETAG) != 0)
        xml_text(x, "ETag", info->etag); /* alone in S3 without quotes */
    if ((wanted & A_CHECKSUM) != 0)
        attributes_put_checksum(x, &info->meta);
    if ((wanted & A_PARTS) != 0 && parts->count > 0)
        put_parts(x, parts);
    if ((wanted & A_CLASS) != 0)
        xml_span(x, "StorageClass",
                 info->meta.storage_class.len > 0 ? info->meta.storage_class
                                                  : SPAN("STANDARD"));
    if ((wanted & A_SIZE) != 0)
        xml_u64(x, "ObjectSize", info->size);
    xml_close(x);
}

static enum err
attributes_answer(struct request *q, unsigned wanted, const struct object_info *info,
                  const struct page_of_parts *parts)
{
    char date[NUM_DATE_TEXT];
    struct buf body;
    struct xml x;
    enum err rc;

    date_http(info->mtime_ms / 1000, date);
    http_header(q->http, "last-modified", span_of(date));
    s3_put_version_of(q, info);
    buf_init(&body, MIB(2));
    xml_begin(&x, &body);
    put_document(&x, wanted, info, parts);
    rc = s3_answer_xml(q, &body);
    buf_fini(&body);
    return rc;
}

enum err
s3_object_attributes(struct request *q)
{
    struct object_info *info = arena_alloc(q->arena, sizeof *info);
    struct object_get *get = NULL;
    struct object_part_place *places = NULL;
    const struct object_version *v;
    struct page_of_parts parts = {0};
    struct errbuf eb = {{0}};
    unsigned wanted;
    enum err rc = read_wanted(q, &wanted);

    if (rc == ERR_OK)
        rc = header_number(q, "x-amz-part-number-marker", 0, &parts.marker);
    if (rc == ERR_OK)
        rc = header_number(q, "x-amz-max-parts", S3_PAGE_MAX, &parts.max);
    if (rc == ERR_OK)
        rc = s3_version_requested(q, &v);
    if (rc != ERR_OK)
        return rc;
    parts.max = MIN(parts.max, (uint64_t)S3_PAGE_MAX);
    if ((wanted & (A_PARTS | A_CHECKSUM)) != 0 && !q->bucket->cached) {
        rc = s3_open_object(q, q->bucket, q->name.key, v, (wanted & A_CHECKSUM) != 0,
                            info, &get, &eb);
        if (rc == ERR_OK && (wanted & A_PARTS) != 0)
            rc = object_parts(get, request_work(q), &places, &parts.count, &eb);
        parts.parts = places;
        object_get_end(&get);
    } else {
        rc = object_head_version(q->api->options.object, q->bucket, q->name.key, v,
                                 q->arena, info, &eb);
    }
    if (rc != ERR_OK)
        return s3_missing(q, v, info, rc, &eb);
    rc = access_recheck(q, &info->meta);
    return rc == ERR_OK ? attributes_answer(q, wanted, info, &parts) : rc;
}
