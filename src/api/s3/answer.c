/* answer: what every operation needs at its end and its beginning. */
#include <string.h>

#include "api/s3/s3.h"

enum err
s3_fault(struct request *q, enum s3_code code)
{
    return fault_set(&q->fault, code, NULL);
}

enum err
s3_find_bucket(struct request *q)
{
    const struct map_bucket *b =
        map_bucket_find(map_now(q->api->options.map), q->name.bucket);

    if (b == NULL)
        return s3_fault(q, S3_NoSuchBucket);
    q->bucket = map_bucket_ref(b);
    return ERR_OK;
}

enum err
s3_answer_xml(struct request *q, const struct buf *body)
{
    if (body->full)
        return fault_set(&q->fault, S3_InternalError,
                         "The answer is over its limit of %zu bytes", body->limit);
    request_put_ids(q);
    http_header(q->http, "content-type", SPAN("application/xml"));
    http_reply(q->http, 200, buf_span(body));
    return ERR_OK;
}

void
s3_document_begin(struct s3_document *d, size_t max, const char *root)
{
    buf_init(&d->body, max);
    xml_begin(&d->xml, &d->body);
    xml_open_s3(&d->xml, root);
}

enum err
s3_document_answer(struct request *q, struct s3_document *d)
{
    enum err rc;

    xml_close(&d->xml);
    rc = s3_answer_xml(q, &d->body);
    buf_fini(&d->body);
    return rc;
}

enum err
s3_answer_empty(struct request *q, int status)
{
    request_put_ids(q);
    http_reply_last(q->http, status);
    return ERR_OK;
}

static void
put_person(struct xml *x, const char *role, struct span name)
{
    xml_open(x, role);
    xml_span(x, "ID", name.len > 0 ? name : SPAN(OWNER_ID));
    xml_span(x, "DisplayName", name.len > 0 ? name : SPAN("forebay"));
    xml_close(x);
}

void
s3_xml_owner(struct xml *x, struct span name)
{
    put_person(x, "Owner", name);
}

void
s3_xml_initiator(struct xml *x, struct span name)
{
    put_person(x, "Initiator", name);
    put_person(x, "Owner", name);
}

void
s3_xml_checksum(struct xml *x, const struct object_meta *m)
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
    if (m->checksum_type != CHECKSUM_TYPE_NONE)
        xml_text(x, "ChecksumType",
                 checksum_type_name((enum checksum_type)m->checksum_type));
}
