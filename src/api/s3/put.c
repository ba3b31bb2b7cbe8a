/* put: PUT of an object. Everything that can be refused is refused before the body is asked for. */
#include "api/s3/s3.h"
#include "rt/time.h"

static enum err
s3_put_store(struct request *q, struct s3_body *body, const struct object_meta *meta,
             const struct object_condition *condition, struct object_info *info)
{
    struct object_put_options o = {.size = body->size,
                                   .checksum_algorithm =
                                       s3_checksum_kept(q->bucket, body->sums.kind),
                                   .condition = condition};
    struct object_put *put = NULL;
    struct errbuf eb;
    enum err rc;

    err_forget(&eb);
    rc = object_put_begin(q->api->options.object, q->bucket, q->name.key, &o, &put, &eb);
    if (rc != ERR_OK)
        return fault_from(q, rc, &eb);
    rc = s3_body_to_put(body, put);
    if (rc == ERR_OK) {
        rc = object_put_commit(&put, meta, q->arena, info, &eb);
        if (rc != ERR_OK)
            rc = s3_condition_fault(q, condition, rc, &eb);
    }
    object_put_abort(&put);
    return rc;
}

enum err
s3_put_object(struct request *q)
{
    struct object_info *info = arena_alloc(q->arena, sizeof *info);
    const struct object_condition *condition;
    struct object_meta meta;
    struct s3_body body;
    enum err rc;

    if (query_has(&q->query, "partNumber"))
        return fault_argument(&q->fault, "partNumber", query_get(&q->query, "partNumber"),
                              "partNumber needs an uploadId");
    if (fields_find(http_fields(q->http->head), "x-amz-copy-source") != NULL)
        return s3_copy_object(q);
    rc = s3_refuse_unbuilt(q);
    if (rc == ERR_OK)
        rc = s3_meta_from_headers(q, &meta);
    if (rc == ERR_OK)
        rc = s3_tags_header(q, &meta.tags);
    if (rc == ERR_OK)
        rc = s3_acl_of_new_object(q, http_get(q->http->head, HTTP_AMZ_ACL), &meta);
    if (rc == ERR_OK)
        rc = s3_write_condition(q, &condition);
    if (rc != ERR_OK)
        return rc;
    rc = s3_body_begin(q, &body);
    if (rc == ERR_OK)
        rc = s3_put_store(q, &body, &meta, condition, info);
    s3_body_end(&body);
    if (rc != ERR_OK)
        return rc;
    s3_put_etag(q, info->etag);
    s3_put_new_version(q, info);
    s3_put_checksum_header(q, &info->meta);
    return s3_answer_empty(q, 200);
}
