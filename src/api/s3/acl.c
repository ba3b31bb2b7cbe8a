/* acl: access control lists of buckets and objects: their documents, and the headers that give one to what is made. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/access.h"
#include "api/s3/s3.h"
#include "base/mem.h"
#include "wire/s3acl.h"

static const struct {
    const char *header;
    uint8_t permissions;
} grant_headers[] = {
    {"x-amz-grant-read", S3ACL_READ},
    {"x-amz-grant-write", S3ACL_WRITE},
    {"x-amz-grant-read-acp", S3ACL_READ_ACP},
    {"x-amz-grant-write-acp", S3ACL_WRITE_ACP},
    {"x-amz-grant-full-control", S3ACL_FULL_CONTROL},
};

/* Grantees must be users of this server: a name that means no user today may mean one tomorrow. */
static enum err
check_grantees(struct request *q, const struct s3acl *acl)
{
    for (unsigned i = 0; i < acl->count; i++) {
        const struct s3acl_grant *g = &acl->grants[i];

        if (g->kind == S3ACL_USER && g->user.len > 0 && !span_is(g->user, OWNER_ID) &&
            !auth_user_exists(q->api->options.auth, g->user))
            return fault_argument(&q->fault, "CanonicalUser/ID", g->user, "Invalid id");
    }
    return ERR_OK;
}

/* The headers x-amz-grant-*; *any: there is one. */
static enum err
take_grant_headers(struct request *q, struct s3acl *acl, bool *any)
{
    struct fields h = http_fields(q->http->head);
    enum err rc = ERR_OK;

    *any = false;
    for (size_t i = 0; i < ARRAY_LEN(grant_headers) && rc == ERR_OK; i++) {
        const struct field *value = fields_find(h, grant_headers[i].header);

        if (value == NULL)
            continue;
        *any = true;
        rc = s3acl_add_header(value->value, grant_headers[i].permissions, q->arena, acl,
                              &q->fault);
    }
    return rc == ERR_OK ? check_grantees(q, acl) : rc;
}

/* `canned` and the headers as one list; *given: something was said. InvalidRequest: both ways at once. */
static enum err
list_of_headers(struct request *q, struct span canned, struct span owner,
                struct span bucket_owner, struct s3acl *acl, bool *given)
{
    enum err rc;
    bool grants;

    acl->owner = owner;
    acl->count = 0;
    rc = take_grant_headers(q, acl, &grants);
    *given = grants || canned.len > 0;
    if (rc != ERR_OK)
        return rc;
    if (grants && canned.len > 0)
        return fault_set(&q->fault, S3_InvalidRequest,
                         "Specifying both Canned ACLs and Header Grants is not allowed");
    if (!grants && !s3acl_canned(canned.len > 0 ? canned : SPAN("private"), owner,
                                 bucket_owner, acl))
        return fault_argument(&q->fault, "x-amz-acl", canned,
                              "The canned ACL is not one of private, public-read, "
                              "public-read-write, authenticated-read, bucket-owner-read, "
                              "bucket-owner-full-control");
    return ERR_OK;
}

static enum err
refuse_public_list(struct request *q, const struct map_bucket *b, const struct s3acl *acl)
{
    return (b->public_block & MAP_BLOCK_PUBLIC_ACLS) != 0 && s3acl_is_public(acl)
               ? fault_set(&q->fault, S3_AccessDenied,
                           "The public access block of the bucket refuses public ACLs")
               : ERR_OK;
}

/* Who owns what this caller writes: the bucket's owner where the bucket says so, or where the caller is no user. */
static struct span
writer_of(struct request *q, bool gives_to_owner)
{
    const struct map_bucket *b = q->bucket;
    struct span caller = access_caller_name(q);

    if (caller.len == 0 || b->owner == NULL ||
        b->ownership == MAP_BUCKET_OWNER_ENFORCED ||
        (b->ownership == MAP_BUCKET_OWNER_PREFERRED && gives_to_owner))
        return access_owner_name(b);
    return caller;
}

enum err
s3_acl_of_new_object(struct request *q, struct span canned, struct object_meta *meta)
{
    const struct map_bucket *b = q->bucket;
    bool gives = span_is(canned, "bucket-owner-full-control"), given;
    struct span owner = writer_of(q, gives);
    struct s3acl *acl;
    enum err rc;

    meta->acl = (struct span){NULL, 0};
    if (canned.len == 0 && span_eq(owner, access_owner_name(b)) &&
        !s3_has_grant_header(q)) /* nearly always: nothing to keep */
        return ERR_OK;
    acl = arena_alloc(q->arena, sizeof *acl);
    rc = list_of_headers(q, canned, owner, access_owner_name(b), acl, &given);
    if (rc != ERR_OK)
        return rc;
    if (b->ownership == MAP_BUCKET_OWNER_ENFORCED)
        return given && !gives ? s3_fault(q, S3_AccessControlListNotSupported) : ERR_OK;
    if (b->cached)
        return given && !gives && !span_is(canned, "private")
                   ? fault_set(&q->fault, S3_NotImplemented,
                               "x-amz-acl: objects of an attached bucket have no ACLs")
                   : ERR_OK;
    rc = refuse_public_list(q, b, acl);
    if (rc != ERR_OK ||
        (span_eq(owner, access_owner_name(b)) && (span_is(canned, "private") || gives)))
        return rc;
    return s3acl_encode(acl, q->arena, &meta->acl, &q->fault);
}

bool
s3_has_grant_header(const struct request *q)
{
    struct fields h = http_fields(q->http->head);

    for (size_t i = 0; i < h.count; i++)
        if (h.at[i].name.len >= strlen("x-amz-grant-read") &&
            strncasecmp(h.at[i].name.at, "x-amz-grant-", 12) == 0)
            return true;
    return false;
}

enum err
s3_access_of_new_bucket(struct request *q, struct map_bucket_access *out)
{
    struct span canned = http_get(q->http->head, HTTP_AMZ_ACL);
    struct span ownership =
        fields_get(http_fields(q->http->head), "x-amz-object-ownership");
    struct s3acl *acl = arena_alloc(q->arena, sizeof *acl);
    bool given;
    enum err rc;

    *out = (struct map_bucket_access){.owner = access_caller_name(q)};
    rc = s3_ownership_of(q, ownership, &out->ownership);
    if (rc == ERR_OK)
        rc = list_of_headers(q, canned, out->owner, out->owner, acl, &given);
    if (rc != ERR_OK || !given || span_is(canned, "private"))
        return rc;
    if (out->ownership == MAP_BUCKET_OWNER_ENFORCED)
        return s3_fault(q, S3_InvalidBucketAclWithObjectOwnership);
    return s3acl_encode(acl, q->arena, &out->acl, &q->fault);
}

bool
s3_bucket_list_gives_others(const struct map_bucket *b)
{
    struct s3acl *acl;
    bool others = true; /* one that cannot be read gives who knows what */

    if (b->acl == NULL)
        return false;
    acl = xcalloc(1, sizeof *acl);
    if (s3acl_decode(span_of(b->acl), acl)) {
        others = false;
        for (unsigned i = 0; i < acl->count; i++)
            others = others || acl->grants[i].kind != S3ACL_USER ||
                     !span_eq(acl->grants[i].user, access_owner_name(b));
    }
    free(acl);
    return others;
}

struct span
s3_owner_of(const struct map_bucket *b, struct span kept_acl)
{
    struct s3acl acl;

    assert(b != NULL);
    return kept_acl.len > 0 && b->ownership != MAP_BUCKET_OWNER_ENFORCED &&
                   s3acl_decode(kept_acl, &acl)
               ? acl.owner
               : access_owner_name(b);
}

/* ---- the documents ---- */

static struct span
shown_owner(struct span name)
{
    return name.len > 0 ? name : SPAN(OWNER_ID);
}

/* The kept list, or the private one that stands for none. */
static enum err
list_of_kept(struct request *q, struct span kept, struct s3acl *acl)
{
    struct span owner = access_owner_name(q->bucket);

    if (kept.len > 0 && !s3acl_decode(kept, acl))
        return fault_set(&q->fault, S3_InternalError,
                         "The access control list cannot be read");
    if (kept.len == 0)
        (void)s3acl_canned(SPAN("private"), shown_owner(owner), owner, acl);
    acl->owner = shown_owner(acl->owner);
    return ERR_OK;
}

static enum err
s3_answer_acl(struct request *q, struct span kept)
{
    struct s3acl *acl = arena_alloc(q->arena, sizeof *acl);
    struct s3_document d;
    enum err rc = list_of_kept(q, kept, acl);

    if (rc != ERR_OK)
        return rc;
    s3_document_begin(&d, KIB(64), "AccessControlPolicy");
    s3acl_write(acl, &d.xml);
    return s3_document_answer(q, &d);
}

/* The object whose list is asked for. */
static enum err
head_for_acl(struct request *q, const struct object_version **v, struct object_info *info)
{
    struct errbuf eb = {{0}};
    enum err rc = s3_version_requested(q, v);

    if (rc != ERR_OK)
        return rc;
    rc = object_head_version(q->api->options.object, q->bucket, q->name.key, *v, q->arena,
                             info, &eb);
    if (rc != ERR_OK)
        return s3_missing(q, *v, info, rc, &eb);
    return access_recheck(q, &info->meta);
}

enum err
s3_get_acl(struct request *q)
{
    struct object_info *info;
    const struct object_version *v;
    enum err rc;

    if (q->name.key.len == 0)
        return s3_answer_acl(q, q->bucket->acl != NULL ? span_of(q->bucket->acl)
                                                       : (struct span){NULL, 0});
    info = arena_alloc(q->arena, sizeof *info);
    rc = head_for_acl(q, &v, info);
    if (rc != ERR_OK)
        return rc;
    s3_put_version_of(q, info);
    return s3_answer_acl(q, info->meta.acl);
}

/* The list of the request: its document, or its headers. The owner stays who it is. */
static enum err
list_of_request(struct request *q, struct span owner, struct s3acl *acl)
{
    struct span canned = http_get(q->http->head, HTTP_AMZ_ACL), doc, kept;
    bool given;
    enum err rc = s3_body_document(q, S3XML_BODY_MAX, false, &doc);

    if (rc == ERR_OK && doc.len > 0) {
        rc = s3acl_parse_document(doc, request_work(q), acl, &q->fault);
        if (rc == ERR_OK && acl->owner.len > 0 &&
            !span_eq(acl->owner, shown_owner(owner)))
            rc = fault_set(&q->fault, S3_AccessDenied,
                           "The owner of an access control list cannot be changed");
        if (rc == ERR_OK)
            rc = check_grantees(q, acl);
    } else if (rc == ERR_OK) {
        rc = list_of_headers(q, canned, owner, access_owner_name(q->bucket), acl, &given);
        if (rc == ERR_OK && !given)
            rc = fault_set(&q->fault, S3_MissingSecurityHeader,
                           "Your request was missing a required header: give x-amz-acl, "
                           "x-amz-grant-* or a document");
    }
    acl->owner = owner;
    if (rc == ERR_OK && q->bucket->ownership == MAP_BUCKET_OWNER_ENFORCED)
        rc = s3_fault(q, S3_AccessControlListNotSupported);
    if (rc == ERR_OK)
        rc = refuse_public_list(q, q->bucket, acl);
    return rc == ERR_OK ? s3acl_encode(acl, q->arena, &kept, &q->fault) : rc;
}

static enum err
set_bucket_acl(struct map_bucket *b, void *arg, struct errbuf *eb)
{
    const struct span *kept = arg;

    (void)eb;
    free(b->acl);
    b->acl = xmemdup0(kept->at, kept->len);
    return ERR_OK;
}

static enum err
put_bucket_acl(struct request *q, struct s3acl *acl)
{
    struct errbuf eb = {{0}};
    struct span kept;
    enum err rc = list_of_request(q, access_owner_name(q->bucket), acl);

    if (rc == ERR_OK)
        rc = s3acl_encode(acl, q->arena, &kept, &q->fault);
    if (rc != ERR_OK)
        return rc;
    rc = change_bucket(q, q->bucket, set_bucket_acl, &kept, &eb);
    return rc == ERR_OK ? s3_answer_empty(q, 200) : fault_from(q, rc, &eb);
}

static enum err
set_object_acl(struct object_meta *meta, void *arg, struct arena *a, struct errbuf *eb)
{
    (void)a;
    (void)eb;
    meta->acl = *(const struct span *)arg;
    return ERR_OK;
}

enum err
s3_put_acl(struct request *q)
{
    struct s3acl *acl = arena_alloc(q->arena, 2 * sizeof *acl), *was = acl + 1;
    struct object_info *info = arena_alloc(q->arena, sizeof *info);
    const struct object_version *v;
    struct errbuf eb = {{0}};
    struct span kept;
    enum err rc;

    if (q->name.key.len == 0)
        return put_bucket_acl(q, acl);
    if (q->bucket->cached)
        return fault_set(&q->fault, S3_NotImplemented,
                         "Objects of an attached bucket have no ACLs");
    rc = head_for_acl(q, &v, info);
    if (rc == ERR_OK)
        rc = list_of_kept(q, info->meta.acl, was);
    if (rc == ERR_OK)
        rc = list_of_request(
            q, span_is(was->owner, OWNER_ID) ? (struct span){"", 0} : was->owner, acl);
    if (rc == ERR_OK)
        rc = s3acl_encode(acl, q->arena, &kept, &q->fault);
    if (rc != ERR_OK)
        return rc;
    rc = object_change_meta(q->api->options.object, q->bucket, q->name.key, v, NULL,
                            set_object_acl, &kept, q->arena, info, &eb);
    if (rc != ERR_OK)
        return s3_missing(q, v, info, rc, &eb);
    s3_put_version_of(q, info);
    return s3_answer_empty(q, 200);
}
