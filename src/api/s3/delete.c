/* delete: one object, or up to 1,000 named in a document. */
#include "api/node_ask.h"
#include "api/s3/s3.h"
#include "rt/fiber.h"
#include "wire/s3xml.h"

#define RESULT_MAX (4u << 20)
#define FAR_FIBERS 16u /* deletes at other nodes at the same time */

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

/* One of the list: what was asked, and what came of it. */
struct deletion {
    const struct s3xml_delete_item *item;
    enum err rc;
    struct fault fault;
    struct object_deleted done;
    struct nodes_route to; /* the node that owns the key */
    bool elsewhere;
};

static void
put_result(const struct deletion *d, struct xml *x)
{
    char id[OBJECT_VERSION_TEXT];

    xml_open(x, d->rc == ERR_OK ? "Deleted" : "Error");
    xml_span(x, "Key", d->item->key);
    if (d->item->version.len > 0)
        xml_span(x, "VersionId", d->item->version);
    if (d->rc != ERR_OK) {
        xml_text(x, "Code", s3_code_name(d->fault.code));
        xml_text(x, "Message", d->fault.message);
    } else if (d->done.marker) {
        object_version_text(&d->done.version, id);
        xml_bool(x, "DeleteMarker", true);
        xml_text(x, "DeleteMarkerVersionId", id);
    }
    xml_close(x);
}

enum err
s3_delete_item(struct request *q, const struct s3xml_delete_item *item,
               struct object_deleted *done)
{
    struct object_delete_options o = {0};
    struct object_condition room;
    struct object_version version;
    struct errbuf eb = {{0}};
    enum err rc = s3_item_condition(q, item, &room, &o.condition);

    *done = (struct object_deleted){0};
    if (rc == ERR_OK && item->version.len > 0) {
        o.version = &version;
        if (!object_version_parse(item->version, &version))
            rc = s3_fault(q, S3_NoSuchVersion);
    }
    if (rc == ERR_OK) {
        rc = object_delete_with(q->api->options.object, q->bucket, item->key, &o, done,
                                &eb);
        if (rc != ERR_OK)
            s3_condition_fault(q, o.condition, rc, &eb);
    }
    AUDIT(q, "object.delete", rc == ERR_OK ? "ok" : s3_code_name(q->fault.code),
          L_SPAN("bucket", q->name.bucket), L_SPAN("object", item->key));
    return rc;
}

/* Checks one of the list, and deletes it where it is here; a fault of its own goes into the document. */
static void
delete_one(struct request *q, struct deletion *d)
{
    const struct s3xml_delete_item *item = d->item;
    struct errbuf eb = {{0}};

    q->fault = (struct fault){0};
    d->rc = s3_key_check(item->key, q->arena, &q->fault);
    if (d->rc == ERR_OK)
        d->rc = caller_require(q, AUTH_WRITE, q->name.bucket, item->key);
    if (d->rc != ERR_OK)
        AUDIT(q, "object.delete", s3_code_name(q->fault.code),
              L_SPAN("bucket", q->name.bucket), L_SPAN("object", item->key));
    if (d->rc == ERR_OK && q->api->options.nodes != NULL) {
        d->rc = nodes_route(q->api->options.nodes, q->bucket, item->key, &d->to, &eb);
        if (d->rc != ERR_OK)
            fault_from(q, d->rc, &eb);
        d->elsewhere = d->rc == ERR_OK && !d->to.here;
    }
    if (d->elsewhere)
        d->to.address = arena_strdup(request_work(q), span_of(d->to.address));
    else if (d->rc == ERR_OK)
        d->rc = s3_delete_item(q, item, &d->done);
    d->fault = q->fault;
}

/* ---- at the nodes that own them ---- */

struct far_deletions {
    struct request *q;
    struct deletion *at;
    size_t count, next;
};

static void
far_fiber(void *arg)
{
    struct far_deletions *f = arg;

    while (f->next < f->count) {
        struct deletion *d = &f->at[f->next++];

        if (d->elsewhere)
            d->rc = node_ask_delete(f->q, &d->to, d->item, &d->done, &d->fault);
    }
}

static void
delete_far(struct request *q, struct deletion *at, size_t count)
{
    struct far_deletions f = {.q = q, .at = at, .count = count};
    struct rt_group g;
    enum err rc = ERR_OK;

    rt_group_begin(&g);
    for (unsigned i = 1; i < FAR_FIBERS && rc == ERR_OK; i++)
        rc = rt_group_start(&g, far_fiber, &f);
    far_fiber(&f); /* this one helps: all is done even where no other could start */
    rt_group_join(&g);
}

enum err
s3_delete_objects(struct request *q)
{
    struct s3xml_delete list;
    struct deletion *all;
    bool elsewhere = false;
    struct span doc;
    struct s3_document d;
    enum err rc = s3_body_document(q, S3XML_DELETE_BODY_MAX, true, &doc);

    if (rc == ERR_OK)
        rc = s3xml_delete_parse(doc, request_work(q), &list, &q->fault);
    if (rc != ERR_OK)
        return rc;
    all = arena_alloc(request_work(q), (list.count + 1) * sizeof *all);
    for (size_t i = 0; i < list.count; i++) {
        all[i].item = &list.items[i];
        delete_one(q, &all[i]);
        elsewhere = elsewhere || all[i].elsewhere;
    }
    if (elsewhere)
        delete_far(q, all, list.count);
    s3_document_begin(&d, RESULT_MAX, "DeleteResult");
    for (size_t i = 0; i < list.count; i++)
        if (all[i].rc != ERR_OK || !list.quiet)
            put_result(&all[i], &d.xml);
    return s3_document_answer(q, &d);
}
