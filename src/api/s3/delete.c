/* delete: one object, or up to 1,000 named in a document. */
#include "api/s3/s3.h"
#include "wire/s3xml.h"

#define RESULT_MAX (4u << 20)

enum err
s3_delete_object(struct request *q)
{
    struct object_delete_options o = {0};
    struct object_deleted done;
    struct errbuf eb = {{0}};
    enum err rc = s3_version_requested(q, &o.version);

    if (rc == ERR_OK && fields_find(http_fields(q->http->head), "x-amz-mfa") != NULL)
        rc = fault_set(&q->fault, S3_NotImplemented,
                       "The header x-amz-mfa is not implemented for DELETE");
    if (rc == ERR_OK)
        rc = s3_delete_condition(q, &o.condition);
    if (rc != ERR_OK)
        return rc;
    rc = object_delete_with(q->api->options.object, q->bucket, q->name.key, &o, &done,
                            &eb);
    AUDIT(q, "object.delete", rc == ERR_OK ? "ok" : err_name(rc),
          L_SPAN("bucket", q->name.bucket), L_SPAN("object", q->name.key));
    if (rc != ERR_OK)
        return s3_condition_fault(q, o.condition, rc, &eb);
    if (done.marker)
        http_header(q->http, "x-amz-delete-marker", SPAN("true"));
    if (done.named)
        s3_put_version(q, "x-amz-version-id", &done.version);
    return s3_answer_empty(q, 204);
}

static void
put_result(struct request *q, const struct s3xml_delete_item *item, enum err rc,
           const struct object_deleted *done, struct xml *x)
{
    char id[OBJECT_VERSION_TEXT];

    xml_open(x, rc == ERR_OK ? "Deleted" : "Error");
    xml_span(x, "Key", item->key);
    if (item->version.len > 0)
        xml_span(x, "VersionId", item->version);
    if (rc != ERR_OK) {
        xml_text(x, "Code", s3_code_name(q->fault.code));
        xml_text(x, "Message", q->fault.message);
    } else if (done->marker) {
        object_version_text(&done->version, id);
        xml_bool(x, "DeleteMarker", true);
        xml_text(x, "DeleteMarkerVersionId", id);
    }
    xml_close(x);
}

/* Deletes one of the list; a fault of its own goes into the document. */
static void
delete_one(struct request *q, const struct s3xml_delete_item *item, bool quiet,
           struct xml *x)
{
    struct object_delete_options o = {0};
    struct object_condition room;
    struct object_version version;
    struct object_deleted done = {0};
    struct errbuf eb = {{0}};
    enum err rc = s3_key_check(item->key, q->arena, &q->fault);

    if (rc == ERR_OK)
        rc = caller_require(q, AUTH_WRITE, q->name.bucket, item->key);
    if (rc == ERR_OK)
        rc = s3_item_condition(q, item, &room, &o.condition);
    if (rc == ERR_OK && item->version.len > 0) {
        o.version = &version;
        if (!object_version_parse(item->version, &version))
            rc = s3_fault(q, S3_NoSuchVersion);
    }
    if (rc == ERR_OK) {
        rc = object_delete_with(q->api->options.object, q->bucket, item->key, &o, &done,
                                &eb);
        if (rc != ERR_OK)
            s3_condition_fault(q, o.condition, rc, &eb);
    }
    AUDIT(q, "object.delete", rc == ERR_OK ? "ok" : s3_code_name(q->fault.code),
          L_SPAN("bucket", q->name.bucket), L_SPAN("object", item->key));
    if (rc != ERR_OK || !quiet)
        put_result(q, item, rc, &done, x);
}

enum err
s3_delete_objects(struct request *q)
{
    struct s3xml_delete list;
    struct span doc;
    struct s3_document d;
    enum err rc = s3_body_document(q, S3XML_DELETE_BODY_MAX, true, &doc);

    if (rc == ERR_OK)
        rc = s3xml_delete_parse(doc, request_work(q), &list, &q->fault);
    if (rc != ERR_OK)
        return rc;
    s3_document_begin(&d, RESULT_MAX, "DeleteResult");
    for (size_t i = 0; i < list.count; i++)
        delete_one(q, &list.items[i], list.quiet, &d.xml);
    return s3_document_answer(q, &d);
}
