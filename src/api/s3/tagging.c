/* tagging: tags of objects and of buckets. */
#include <stdlib.h>

#include "api/access.h"
#include "api/s3/s3.h"
#include "base/mem.h"
#include "wire/s3tags.h"
#include "wire/s3xml.h"

#define DOCUMENT_MAX (256u << 10)

static enum err
answer_tags(struct request *q, struct span tags)
{
    struct buf body;
    enum err rc = ERR_OK;

    buf_init(&body, DOCUMENT_MAX);
    if (!s3tags_write(tags, &body))
        rc = s3_fault(q, S3_InternalError);
    if (rc == ERR_OK)
        rc = s3_answer_xml(q, &body);
    buf_fini(&body);
    return rc;
}

/* ---- of an object ---- */

enum err
s3_tags_header(struct request *q, struct span *out)
{
    struct span given = fields_get(http_fields(q->http->head), "x-amz-tagging");

    *out = (struct span){NULL, 0};
    if (given.len == 0)
        return ERR_OK;
    return s3tags_parse_header(given, S3TAGS_OF_OBJECT, q->arena, out, &q->fault);
}

/* The remote has them, and one version of each object. */
static enum err
fault_of_remote(struct request *q, enum err rc, const struct errbuf *eb)
{
    struct object_info none = {0};

    return s3_missing(q, NULL, &none, rc, eb);
}

static enum err
no_such_version(struct request *q, const struct object_version *v)
{
    return v != NULL && !v->null ? s3_fault(q, S3_NoSuchVersion) : ERR_OK;
}

static enum err
get_remote_tags(struct request *q, const struct object_version *v)
{
    struct errbuf eb = {{0}};
    struct span tags = {NULL, 0};
    enum err rc = no_such_version(q, v);

    if (rc != ERR_OK)
        return rc;
    rc = object_remote_tags(q->api->options.object, q->bucket, q->name.key,
                            request_work(q), &tags, &eb);
    return rc == ERR_OK ? answer_tags(q, tags) : fault_of_remote(q, rc, &eb);
}

static enum err
change_remote_tags(struct request *q, const struct object_version *v, struct span tags,
                   int status)
{
    struct errbuf eb = {{0}};
    enum err rc = no_such_version(q, v);

    if (rc != ERR_OK)
        return rc;
    rc =
        object_set_remote_tags(q->api->options.object, q->bucket, q->name.key, tags, &eb);
    return rc == ERR_OK ? s3_answer_empty(q, status) : fault_of_remote(q, rc, &eb);
}

enum err
s3_get_object_tags(struct request *q)
{
    struct object_info *info = arena_alloc(q->arena, sizeof *info);
    const struct object_version *v;
    struct errbuf eb = {{0}};
    enum err rc = s3_version_requested(q, &v);

    if (rc != ERR_OK)
        return rc;
    if (q->bucket->cached)
        return get_remote_tags(q, v);
    rc = object_head_version(q->api->options.object, q->bucket, q->name.key, v, q->arena,
                             info, &eb);
    if (rc != ERR_OK)
        return s3_missing(q, v, info, rc, &eb);
    rc = access_recheck(q, &info->meta);
    if (rc != ERR_OK)
        return rc;
    s3_put_version_of(q, info);
    return answer_tags(q, info->meta.tags);
}

static enum err
set_tags(struct object_meta *meta, void *arg, struct arena *a, struct errbuf *eb)
{
    (void)a;
    (void)eb;
    meta->tags = *(struct span *)arg;
    return ERR_OK;
}

static enum err
change_tags(struct request *q, struct span tags, int status)
{
    struct object_info *info = arena_alloc(q->arena, sizeof *info);
    const struct object_version *v;
    struct errbuf eb = {{0}};
    enum err rc = s3_version_requested(q, &v);

    if (rc != ERR_OK)
        return rc;
    if (q->bucket->cached)
        return change_remote_tags(q, v, tags, status);
    rc = object_change_meta(q->api->options.object, q->bucket, q->name.key, v, NULL,
                            set_tags, &tags, q->arena, info, &eb);
    if (rc != ERR_OK)
        return s3_missing(q, v, info, rc, &eb);
    s3_put_version_of(q, info);
    return s3_answer_empty(q, status);
}

enum err
s3_put_object_tags(struct request *q)
{
    struct span doc, tags;
    enum err rc = s3_body_document(q, S3XML_BODY_MAX, false, &doc);

    if (rc == ERR_OK)
        rc = s3tags_parse_document(doc, S3TAGS_OF_OBJECT, request_work(q), &tags,
                                   &q->fault);
    if (rc == ERR_OK && access_asks_request_tags(q)) {
        q->request_tags = tags.at != NULL ? tags : SPAN("");
        rc = caller_require(q, AUTH_WRITE, q->name.bucket, q->name.key);
    }
    return rc == ERR_OK ? change_tags(q, tags, 200) : rc;
}

enum err
s3_delete_object_tags(struct request *q)
{
    return change_tags(q, (struct span){NULL, 0}, 204);
}

/* ---- of a bucket ---- */

enum err
s3_get_bucket_tags(struct request *q)
{
    if (q->bucket->tags == NULL)
        return s3_fault(q, S3_NoSuchTagSet);
    return answer_tags(q, span_of(q->bucket->tags));
}

static enum err
set_bucket_tags(struct map_bucket *b, void *arg, struct errbuf *eb)
{
    const struct span *tags = arg;

    (void)eb;
    free(b->tags);
    b->tags = tags->len > 0 ? xmemdup0(tags->at, tags->len) : NULL;
    return ERR_OK;
}

static enum err
change_bucket_tags(struct request *q, struct span tags)
{
    struct errbuf eb = {{0}};
    enum err rc = change_bucket(q, q->bucket, set_bucket_tags, &tags, &eb);

    return rc == ERR_OK ? s3_answer_empty(q, 204) : fault_from(q, rc, &eb);
}

enum err
s3_put_bucket_tags(struct request *q)
{
    struct span doc, tags;
    enum err rc = s3_body_document(q, S3XML_BODY_MAX, false, &doc);

    if (rc == ERR_OK)
        rc = s3tags_parse_document(doc, S3TAGS_OF_BUCKET, request_work(q), &tags,
                                   &q->fault);
    if (rc == ERR_OK && tags.len > MAP_DOCUMENT_MAX)
        rc = fault_set(&q->fault, S3_MaxMessageLengthExceeded,
                       "The tags are over %u bytes", MAP_DOCUMENT_MAX);
    return rc == ERR_OK ? change_bucket_tags(q, tags) : rc;
}

enum err
s3_delete_bucket_tags(struct request *q)
{
    return change_bucket_tags(q, (struct span){NULL, 0});
}
