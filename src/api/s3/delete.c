/* delete: one object, or up to 1,000 named in a document. */
#include "api/s3/s3.h"
#include "wire/s3xml.h"

#define RESULT_MAX (4u << 20)

static enum err
refuse_conditions(struct request *q)
{
    static const char *const names[] = {"if-match", "x-amz-if-match-last-modified-time",
                                        "x-amz-if-match-size", "x-amz-mfa"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (fields_find(http_fields(q->http->head), names[i]) == NULL)
            continue;
        fault_set(&q->fault, S3_NotImplemented,
                  "The header %s is not implemented for DELETE", names[i]);
        fault_add(&q->fault, "Header", span_of(names[i]));
        return ERR_NOT_BUILT;
    }
    return ERR_OK;
}

enum err
s3_delete_object(struct request *q)
{
    struct span version = query_get(&q->query, "versionId");
    struct errbuf eb = {{0}};
    enum err rc = refuse_conditions(q);

    if (rc == ERR_OK && version.at != NULL && !span_is(version, "null"))
        rc = fault_argument(&q->fault, "versionId", version,
                            "Invalid version id specified");
    if (rc != ERR_OK)
        return rc;
    rc = object_delete(q->api->options.object, q->bucket, q->name.key, &eb);
    AUDIT(q, "object.delete", rc == ERR_OK ? "ok" : err_name(rc),
          L_SPAN("bucket", q->name.bucket), L_SPAN("object", q->name.key));
    return rc == ERR_OK ? s3_answer_empty(q, 204) : fault_from(q, rc, &eb);
}

/* Deletes one of the list; a fault of its own goes into the document. */
static void
delete_one(struct request *q, const struct s3xml_delete_item *item, bool quiet,
           struct xml *x)
{
    struct errbuf eb = {{0}};
    enum err rc = s3_key_check(item->key, q->arena, &q->fault);

    if (rc == ERR_OK)
        rc = caller_must(q, AUTH_WRITE, q->name.bucket, item->key);
    if (rc == ERR_OK && item->has_condition)
        rc = fault_set(&q->fault, S3_NotImplemented,
                       "Conditions of a delete are not implemented");
    if (rc == ERR_OK && item->version.len > 0 && !span_is(item->version, "null"))
        rc = fault_set(&q->fault, S3_NoSuchVersion, NULL);
    if (rc == ERR_OK) {
        rc = object_delete(q->api->options.object, q->bucket, item->key, &eb);
        if (rc != ERR_OK)
            fault_from(q, rc, &eb);
    }
    AUDIT(q, "object.delete", rc == ERR_OK ? "ok" : s3_code_name(q->fault.code),
          L_SPAN("bucket", q->name.bucket), L_SPAN("object", item->key));
    if (rc == ERR_OK && quiet)
        return;
    xml_open(x, rc == ERR_OK ? "Deleted" : "Error");
    xml_span(x, "Key", item->key);
    if (item->version.len > 0)
        xml_span(x, "VersionId", item->version);
    if (rc != ERR_OK) {
        xml_text(x, "Code", s3_code_name(q->fault.code));
        xml_text(x, "Message", q->fault.message);
    }
    xml_close(x);
}

enum err
s3_delete_objects(struct request *q)
{
    struct s3xml_delete list;
    struct span doc;
    struct buf body;
    struct xml x;
    enum err rc = s3_body_document(q, S3XML_DELETE_BODY_MAX, true, &doc);

    if (rc == ERR_OK)
        rc = s3xml_delete_parse(doc, request_work(q), &list, &q->fault);
    if (rc != ERR_OK)
        return rc;
    buf_init(&body, RESULT_MAX);
    xml_begin(&x, &body);
    xml_open_s3(&x, "DeleteResult");
    for (size_t i = 0; i < list.count; i++)
        delete_one(q, &list.items[i], list.quiet, &x);
    xml_close(&x);
    rc = s3_answer_xml(q, &body);
    buf_fini(&body);
    return rc;
}
