/* route: which operation a request means. Method, level and sub-resource choose a row of one table. */
#include <string.h>

#include "api/inline_get.h"
#include "api/relay.h"
#include "api/s3/s3.h"
#include "base/mem.h"

enum level { SERVICE, BUCKET, OBJECT };
enum { NEEDS_BUCKET = 1 };

/* A sub-resource is a query parameter that selects another operation. Unknown parameters select nothing. */
struct route {
    enum http_method method;
    enum level level;
    const char *sub;    /* NULL: none of the sub-resources below is there */
    enum need need;     /* the right that the gate asks for */
    const char *action; /* its name in the policy language */
    unsigned flags;
    enum metric_op op;
    s3_operation *run;
};

#define G HTTP_METHOD_GET
#define H HTTP_METHOD_HEAD
#define P HTTP_METHOD_PUT
#define T HTTP_METHOD_POST
#define D HTTP_METHOD_DELETE
#define O HTTP_METHOD_OPTIONS
static const struct route routes[] = {
    /* method, level, sub-resource, right, action, flags, metric, operation; the most usual ones first */
    {G, OBJECT, NULL, NEED_READ, "s3:GetObject", NEEDS_BUCKET, OP_get, s3_get_object},
    {H, OBJECT, NULL, NEED_READ, "s3:GetObject", NEEDS_BUCKET, OP_head, s3_head_object},
    {P, OBJECT, NULL, NEED_WRITE, "s3:PutObject", NEEDS_BUCKET, OP_put, s3_put_object},
    {D, OBJECT, NULL, NEED_WRITE, "s3:DeleteObject", NEEDS_BUCKET, OP_delete,
     s3_delete_object},
    {G, SERVICE, NULL, NEED_USER, "s3:ListAllMyBuckets", 0, OP_bucket,
     s3_list_all_buckets},
    {P, BUCKET, NULL, NEED_MAKE_BUCKET, "s3:CreateBucket", 0, OP_bucket,
     s3_create_bucket},
    {H, BUCKET, NULL, NEED_ANY_RIGHT, "s3:ListBucket", NEEDS_BUCKET, OP_bucket,
     s3_head_bucket_op},
    {D, BUCKET, NULL, NEED_ADMIN, "s3:DeleteBucket", NEEDS_BUCKET, OP_bucket,
     s3_delete_bucket},
    {G, BUCKET, NULL, NEED_LIST, "s3:ListBucket", NEEDS_BUCKET, OP_list,
     s3_list_v1_or_v2},
    {G, BUCKET, "versions", NEED_LIST, "s3:ListBucketVersions", NEEDS_BUCKET, OP_list,
     s3_list_versions},
    {G, BUCKET, "location", NEED_ANY_RIGHT, "s3:GetBucketLocation", NEEDS_BUCKET,
     OP_bucket, s3_bucket_location},
    {G, BUCKET, "uploads", NEED_LIST, "s3:ListBucketMultipartUploads", NEEDS_BUCKET,
     OP_mpu, s3_list_uploads},
    {T, BUCKET, "delete", NEED_EACH_KEY, "s3:DeleteObject", NEEDS_BUCKET, OP_delete,
     s3_delete_objects},
    {T, BUCKET, "batch", NEED_ANY_RIGHT, "s3:GetObject", NEEDS_BUCKET, OP_get, s3_batch},
    {G, BUCKET, "versioning", NEED_ANY_RIGHT, "s3:GetBucketVersioning", NEEDS_BUCKET,
     OP_bucket, s3_get_versioning},
    {P, BUCKET, "versioning", NEED_ADMIN, "s3:PutBucketVersioning", NEEDS_BUCKET,
     OP_bucket, s3_put_versioning},
    {G, BUCKET, "acl", NEED_READ_ACL, "s3:GetBucketAcl", NEEDS_BUCKET, OP_bucket,
     s3_get_acl},
    {G, BUCKET, "object-lock", NEED_ANY_RIGHT, "s3:GetBucketObjectLockConfiguration",
     NEEDS_BUCKET, OP_bucket, s3_bucket_probe},
    {G, BUCKET, "policy", NEED_ADMIN, "s3:GetBucketPolicy", NEEDS_BUCKET, OP_bucket,
     s3_get_policy},
    {G, BUCKET, "policyStatus", NEED_ANY_RIGHT, "s3:GetBucketPolicyStatus", NEEDS_BUCKET,
     OP_bucket, s3_get_policy_status},
    {G, BUCKET, "cors", NEED_ANY_RIGHT, "s3:GetBucketCORS", NEEDS_BUCKET, OP_bucket,
     s3_get_bucket_cors},
    {P, BUCKET, "cors", NEED_ADMIN, "s3:PutBucketCORS", NEEDS_BUCKET, OP_bucket,
     s3_put_bucket_cors},
    {D, BUCKET, "cors", NEED_ADMIN, "s3:PutBucketCORS", NEEDS_BUCKET, OP_bucket,
     s3_delete_bucket_cors},
    {T, BUCKET, NULL, NEED_FORM, "s3:PutObject", 0, OP_put, s3_post_form},
    {O, BUCKET, NULL, NEED_NOTHING, NULL, 0, OP_other, s3_preflight},
    {O, OBJECT, NULL, NEED_NOTHING, NULL, 0, OP_other, s3_preflight},
    {G, BUCKET, "lifecycle", NEED_ANY_RIGHT, "s3:GetLifecycleConfiguration", NEEDS_BUCKET,
     OP_bucket, s3_bucket_probe},
    {G, BUCKET, "tagging", NEED_ANY_RIGHT, "s3:GetBucketTagging", NEEDS_BUCKET, OP_bucket,
     s3_get_bucket_tags},
    {P, BUCKET, "tagging", NEED_ADMIN, "s3:PutBucketTagging", NEEDS_BUCKET, OP_bucket,
     s3_put_bucket_tags},
    {D, BUCKET, "tagging", NEED_ADMIN, "s3:PutBucketTagging", NEEDS_BUCKET, OP_bucket,
     s3_delete_bucket_tags},
    {G, BUCKET, "website", NEED_ANY_RIGHT, "s3:GetBucketWebsite", NEEDS_BUCKET, OP_bucket,
     s3_bucket_probe},
    {G, BUCKET, "replication", NEED_ANY_RIGHT, "s3:GetReplicationConfiguration",
     NEEDS_BUCKET, OP_bucket, s3_bucket_probe},
    {G, BUCKET, "encryption", NEED_ANY_RIGHT, "s3:GetEncryptionConfiguration",
     NEEDS_BUCKET, OP_bucket, s3_bucket_probe},
    {G, BUCKET, "requestPayment", NEED_ANY_RIGHT, "s3:GetBucketRequestPayment",
     NEEDS_BUCKET, OP_bucket, s3_bucket_probe},
    {G, BUCKET, "accelerate", NEED_ANY_RIGHT, "s3:GetAccelerateConfiguration",
     NEEDS_BUCKET, OP_bucket, s3_bucket_probe},
    {G, BUCKET, "logging", NEED_ANY_RIGHT, "s3:GetBucketLogging", NEEDS_BUCKET, OP_bucket,
     s3_bucket_probe},
    {G, BUCKET, "notification", NEED_ANY_RIGHT, "s3:GetBucketNotification", NEEDS_BUCKET,
     OP_bucket, s3_bucket_probe},
    {G, BUCKET, "ownershipControls", NEED_ANY_RIGHT, "s3:GetBucketOwnershipControls",
     NEEDS_BUCKET, OP_bucket, s3_get_ownership},
    {G, BUCKET, "publicAccessBlock", NEED_ANY_RIGHT, "s3:GetBucketPublicAccessBlock",
     NEEDS_BUCKET, OP_bucket, s3_get_public_block},
    {G, OBJECT, "attributes", NEED_READ, "s3:GetObjectAttributes", NEEDS_BUCKET, OP_head,
     s3_object_attributes},
    {G, OBJECT, "tagging", NEED_READ, "s3:GetObjectTagging", NEEDS_BUCKET, OP_other,
     s3_get_object_tags},
    {P, OBJECT, "tagging", NEED_WRITE_TAGS, "s3:PutObjectTagging", NEEDS_BUCKET, OP_other,
     s3_put_object_tags},
    {D, OBJECT, "tagging", NEED_WRITE, "s3:DeleteObjectTagging", NEEDS_BUCKET, OP_other,
     s3_delete_object_tags},
    {G, OBJECT, "acl", NEED_READ_ACL, "s3:GetObjectAcl", NEEDS_BUCKET, OP_other,
     s3_get_acl},
    {G, OBJECT, "shard-index", NEED_READ, "s3:GetObject", NEEDS_BUCKET, OP_get,
     s3_shard_index},
    {T, OBJECT, "uploads", NEED_WRITE, "s3:PutObject", NEEDS_BUCKET, OP_mpu,
     s3_create_upload},
    {P, OBJECT, "uploadId", NEED_WRITE, "s3:PutObject", NEEDS_BUCKET, OP_put,
     s3_put_part},
    {T, OBJECT, "uploadId", NEED_WRITE, "s3:PutObject", NEEDS_BUCKET, OP_mpu,
     s3_complete_upload},
    {D, OBJECT, "uploadId", NEED_WRITE, "s3:AbortMultipartUpload", NEEDS_BUCKET, OP_mpu,
     s3_abort_upload},
    {G, OBJECT, "uploadId", NEED_WRITE, "s3:ListMultipartUploadParts", NEEDS_BUCKET,
     OP_mpu, s3_list_parts},
    {P, BUCKET, "acl", NEED_WRITE_ACL, "s3:PutBucketAcl", NEEDS_BUCKET, OP_bucket,
     s3_put_acl},
    {P, OBJECT, "acl", NEED_WRITE_ACL, "s3:PutObjectAcl", NEEDS_BUCKET, OP_other,
     s3_put_acl},
    {P, BUCKET, "policy", NEED_ADMIN, "s3:PutBucketPolicy", NEEDS_BUCKET, OP_bucket,
     s3_put_policy},
    {D, BUCKET, "policy", NEED_ADMIN, "s3:DeleteBucketPolicy", NEEDS_BUCKET, OP_bucket,
     s3_delete_policy},
    {P, BUCKET, "publicAccessBlock", NEED_ADMIN, "s3:PutBucketPublicAccessBlock",
     NEEDS_BUCKET, OP_bucket, s3_put_public_block},
    {D, BUCKET, "publicAccessBlock", NEED_ADMIN, "s3:PutBucketPublicAccessBlock",
     NEEDS_BUCKET, OP_bucket, s3_delete_public_block},
    {P, BUCKET, "ownershipControls", NEED_ADMIN, "s3:PutBucketOwnershipControls",
     NEEDS_BUCKET, OP_bucket, s3_put_ownership},
    {D, BUCKET, "ownershipControls", NEED_ADMIN, "s3:PutBucketOwnershipControls",
     NEEDS_BUCKET, OP_bucket, s3_delete_ownership},
};
#undef G
#undef H
#undef P
#undef T
#undef D
#undef O

/* All names that select something, here or at AWS: what no route takes is 501 by its name, never ignored. */
static const char *const subs[] = {
    "accelerate",
    "acl",
    "analytics",
    "attributes",
    "cors",
    "delete",
    "encryption",
    "intelligent-tiering",
    "inventory",
    "legal-hold",
    "lifecycle",
    "location",
    "logging",
    "metadataAnnotationTable",
    "metadataConfiguration",
    "metadataInventoryTable",
    "metadataJournalTable",
    "metadataTable",
    "metrics",
    "notification",
    "object-lock",
    "ownershipControls",
    "policy",
    "policyStatus",
    "publicAccessBlock",
    "replication",
    "requestPayment",
    "restore",
    "retention",
    "select",
    "session",
    "tagging",
    "torrent",
    "uploadId",
    "uploads",
    "versioning",
    "versions",
    "website",
    "renameObject",
    "annotation",
    "abac",
    "batch",
    "shard-index",
    "append",
};

bool
s3_route_at(size_t index, struct s3_route_name *out)
{
    static const char *const paths[] = {
        [SERVICE] = "/", [BUCKET] = "/bucket", [OBJECT] = "/bucket/key"};
    static const char *const methods[] = {
        [HTTP_METHOD_GET] = "GET",       [HTTP_METHOD_HEAD] = "HEAD",
        [HTTP_METHOD_PUT] = "PUT",       [HTTP_METHOD_POST] = "POST",
        [HTTP_METHOD_DELETE] = "DELETE", [HTTP_METHOD_OPTIONS] = "OPTIONS",
    };

    if (index >= ARRAY_LEN(routes))
        return false;
    *out =
        (struct s3_route_name){methods[routes[index].method], paths[routes[index].level],
                               routes[index].sub, routes[index].need};
    return true;
}

const char *
s3_sub_at(size_t index)
{
    return index < ARRAY_LEN(subs) ? subs[index] : NULL;
}

static const char *
sub_of(const struct query *query, enum http_method method)
{
    if (method ==
        HTTP_METHOD_OPTIONS) /* it asks for another request, whatever that selects */
        return NULL;
    if (query->count == 0)
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(subs); i++)
        if (query_has(query, subs[i]))
            return subs[i];
    return NULL;
}

static enum level
level_of(const struct request *q)
{
    return q->name.bucket.len == 0 ? SERVICE : q->name.key.len == 0 ? BUCKET : OBJECT;
}

static bool
same_sub(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static const struct route *
find_route(enum http_method method, enum level level, const char *sub)
{
    for (size_t i = 0; i < ARRAY_LEN(routes); i++)
        if (routes[i].method == method && routes[i].level == level &&
            same_sub(routes[i].sub, sub))
            return &routes[i];
    return NULL;
}

enum err
s3_not_built(struct request *q)
{
    const char *sub = sub_of(&q->query, q->http->head->method);

    if (sub == NULL)
        return s3_fault(q, S3_MethodNotAllowed);
    return fault_set(&q->fault, S3_NotImplemented,
                     "The sub-resource \"%s\" is not implemented for %.*s", sub,
                     SPAN_ARG(q->http->head->method_text));
}

/* The policy language has names of their own for what is done to a version that is named. */
static const char *
action_of_route(const struct request *q, const char *action)
{
    static const struct {
        const char *current, *versioned;
    } names[] = {
        {"s3:GetObject", "s3:GetObjectVersion"},
        {"s3:DeleteObject", "s3:DeleteObjectVersion"},
        {"s3:GetObjectAcl", "s3:GetObjectVersionAcl"},
        {"s3:PutObjectAcl", "s3:PutObjectVersionAcl"},
        {"s3:GetObjectTagging", "s3:GetObjectVersionTagging"},
        {"s3:PutObjectTagging", "s3:PutObjectVersionTagging"},
        {"s3:DeleteObjectTagging", "s3:DeleteObjectVersionTagging"},
        {"s3:GetObjectAttributes", "s3:GetObjectVersionAttributes"},
    };

    if (action != NULL && q->query.count > 0 && query_has(&q->query, "versionId"))
        for (size_t i = 0; i < ARRAY_LEN(names); i++)
            if (strcmp(names[i].current, action) == 0)
                return names[i].versioned;
    return action;
}

static enum err
s3_run_route(struct request *q)
{
    const struct route *r = find_route(q->http->head->method, level_of(q),
                                       sub_of(&q->query, q->http->head->method));
    /* Only callers with a right in the bucket learn that there is no such route. */
    enum need need = r != NULL                ? r->need
                     : q->name.bucket.len > 0 ? NEED_ANY_RIGHT
                                              : NEED_USER;
    enum err rc;

    if (r != NULL) {
        q->op = r->op;
        q->action = action_of_route(q, r->action);
    }
    if (http_get(q->http->head, HTTP_ORIGIN).at != NULL)
        s3_cors_match(q);
    if (q->http->draining)
        return fault_set(&q->fault, S3_ServiceUnavailable,
                         "The server is on its way out");
    if (r != NULL && r->level == OBJECT && r->method != HTTP_METHOD_OPTIONS) {
        bool answered;

        rc = relay_route(q, &answered);
        if (rc != ERR_OK || answered)
            return rc;
    }
    rc = gate(q, need);
    /* Names that only AIS allows can be read and written here, too; made here they cannot be. */
    if (rc == ERR_OK && q->name.bucket.len > 0 &&
        (r == NULL || r->run == s3_create_bucket ||
         map_bucket_find(map_now(q->api->options.map), q->name.bucket) == NULL))
        rc = s3_bucket_check(q->name.bucket, &q->fault);
    if (rc != ERR_OK)
        return rc;
    if (r == NULL)
        return s3_not_built(q);
    if ((r->flags & NEEDS_BUCKET) != 0) {
        rc = s3_find_bucket(q);
        if (rc == ERR_OK)
            rc = s3_expected_owner(q, q->bucket, HTTP_AMZ_EXPECTED_BUCKET_OWNER);
        if (rc != ERR_OK)
            return rc;
    }
    if (inline_get_authorized(q))
        return ERR_OK;
    return r->run(q);
}

void
s3_handle(struct request *q)
{
    enum err rc = s3_run_route(q);

    if (rc == ERR_OK || http_reply_is_barred(q->http))
        return;
    if (http_reply_began(q->http))
        http_reply_abort(q->http);
    else
        q->front->write_error(q);
}
