/* policy: the policy of a bucket, its public access block, and who owns what others write into it. */
#include <stdlib.h>
#include <string.h>

#include "api/access.h"
#include "api/s3/s3.h"
#include "base/mem.h"
#include "wire/s3acl.h"
#include "wire/s3policy.h"

#define POLICY_BODY_MAX (64u << 10)

enum err
s3_expected_owner(struct request *q, const struct map_bucket *b, enum http_field header)
{
    struct span expected = http_get(q->http->head, header);
    struct span owner = access_owner_name(b);

    if (expected.at == NULL || span_eq(expected, owner.len > 0 ? owner : SPAN(OWNER_ID)))
        return ERR_OK;
    return fault_set(&q->fault, S3_AccessDenied,
                     "The bucket does not belong to the expected owner");
}

/* ---- the policy ---- */

enum err
s3_get_policy(struct request *q)
{
    if (q->bucket->policy == NULL)
        return s3_fault(q, S3_NoSuchBucketPolicy);
    request_put_ids(q);
    http_header(q->http, "content-type", SPAN("application/json"));
    http_reply(q->http, 200, arena_span(q->arena, span_of(q->bucket->policy)));
    return ERR_OK;
}

static enum err
set_policy(struct map_bucket *b, void *arg, struct errbuf *eb)
{
    return map_bucket_set_policy(b, *(const struct span *)arg, eb);
}

static enum err
change_policy(struct request *q, struct span json)
{
    struct errbuf eb = {{0}};
    enum err rc = change_bucket(q, q->bucket, set_policy, &json, &eb);

    return rc == ERR_OK ? s3_answer_empty(q, 204) : fault_from(q, rc, &eb);
}

enum err
s3_put_policy(struct request *q)
{
    struct s3policy *parsed = NULL;
    struct errbuf eb = {{0}};
    struct span doc;
    bool is_public;
    enum err rc = s3_body_document(q, POLICY_BODY_MAX, false, &doc);

    if (rc != ERR_OK)
        return rc;
    rc = s3policy_parse(doc, q->name.bucket, &parsed, &eb);
    if (rc != ERR_OK)
        return fault_set(&q->fault, S3_MalformedPolicy, "%s", eb.text);
    is_public = s3policy_is_public(parsed);
    s3policy_free(&parsed);
    if (is_public && (q->bucket->public_block & MAP_BLOCK_PUBLIC_POLICY) != 0)
        return fault_set(&q->fault, S3_AccessDenied,
                         "The public access block of the bucket refuses public policies");
    return change_policy(q, doc);
}

enum err
s3_delete_policy(struct request *q)
{
    return change_policy(q, (struct span){"", 0});
}

/* By its policy or by its list. */
static bool
is_public(const struct map_bucket *b)
{
    struct s3acl *acl;
    bool by_list = false;

    if (b->anonymous_read ||
        (b->parsed_policy != NULL && s3policy_is_public(b->parsed_policy)))
        return true;
    if (b->acl == NULL || (b->public_block & MAP_IGNORE_PUBLIC_ACLS) != 0)
        return false;
    acl = xcalloc(1, sizeof *acl);
    by_list = s3acl_decode(span_of(b->acl), acl) && s3acl_is_public(acl);
    free(acl);
    return by_list;
}

enum err
s3_get_policy_status(struct request *q)
{
    struct s3_document d;

    s3_document_begin(&d, 1024, "PolicyStatus");
    xml_text(&d.xml, "IsPublic", is_public(q->bucket) ? "true" : "false");
    return s3_document_answer(q, &d);
}

/* ---- the public access block ---- */

static const struct {
    const char *element;
    unsigned bit;
} block_elements[] = {
    {"BlockPublicAcls", MAP_BLOCK_PUBLIC_ACLS},
    {"IgnorePublicAcls", MAP_IGNORE_PUBLIC_ACLS},
    {"BlockPublicPolicy", MAP_BLOCK_PUBLIC_POLICY},
    {"RestrictPublicBuckets", MAP_RESTRICT_PUBLIC_BUCKETS},
};

struct settings_reading {
    struct request *q;
    const char *root;
    unsigned block;
    struct span ownership;
};

static enum err
settings_open(void *arg, unsigned depth, struct span name)
{
    const struct settings_reading *r = arg;

    return depth > 0 || span_is(name, r->root) ? ERR_OK : s3_fault(r->q, S3_MalformedXML);
}

static enum err
block_close(void *arg, unsigned depth, struct span name, struct span text)
{
    struct settings_reading *r = arg;

    if (depth != 1)
        return ERR_OK;
    text = span_trim(text);
    for (size_t i = 0; i < ARRAY_LEN(block_elements); i++)
        if (span_is(name, block_elements[i].element)) {
            if (!span_case_is(text, "true") && !span_case_is(text, "false"))
                break;
            if (span_case_is(text, "true"))
                r->block |= block_elements[i].bit;
            return ERR_OK;
        }
    return s3_fault(r->q, S3_MalformedXML);
}

static enum err
read_settings(struct settings_reading *r,
              enum err (*on_close)(void *, unsigned, struct span, struct span))
{
    struct xml_handler h = {.on_open = settings_open, .on_close = on_close, .arg = r};
    struct errbuf eb = {{0}};
    struct span doc;
    enum err rc = s3_body_document(r->q, S3XML_BODY_MAX, false, &doc);

    if (rc != ERR_OK)
        return rc;
    rc = xml_read(doc, &h, &eb);
    return rc != ERR_OK && r->q->fault.code == S3_OK ? s3_fault(r->q, S3_MalformedXML)
                                                     : rc;
}

static enum err
set_public_block(struct map_bucket *b, void *arg, struct errbuf *eb)
{
    (void)eb;
    b->public_block = *(const unsigned *)arg;
    return ERR_OK;
}

static enum err
change_public_block(struct request *q, unsigned block, int status)
{
    struct errbuf eb = {{0}};
    enum err rc = change_bucket(q, q->bucket, set_public_block, &block, &eb);

    return rc == ERR_OK ? s3_answer_empty(q, status) : fault_from(q, rc, &eb);
}

enum err
s3_get_public_block(struct request *q)
{
    struct s3_document d;

    if (q->bucket->public_block == 0)
        return s3_fault(q, S3_NoSuchPublicAccessBlockConfiguration);
    s3_document_begin(&d, 4096, "PublicAccessBlockConfiguration");
    for (size_t i = 0; i < ARRAY_LEN(block_elements); i++)
        xml_bool(&d.xml, block_elements[i].element,
                 (q->bucket->public_block & block_elements[i].bit) != 0);
    return s3_document_answer(q, &d);
}

enum err
s3_put_public_block(struct request *q)
{
    struct settings_reading r = {
        .q = q, .root = "PublicAccessBlockConfiguration", .block = MAP_BLOCK_SET};
    enum err rc = read_settings(&r, block_close);

    return rc == ERR_OK ? change_public_block(q, r.block, 200) : rc;
}

enum err
s3_delete_public_block(struct request *q)
{
    return change_public_block(q, 0, 204);
}

/* ---- ownership ---- */

static const char *const ownerships[] = {
    [MAP_OBJECT_WRITER] = "ObjectWriter",
    [MAP_BUCKET_OWNER_PREFERRED] = "BucketOwnerPreferred",
    [MAP_BUCKET_OWNER_ENFORCED] = "BucketOwnerEnforced",
};

enum err
s3_ownership_of(struct request *q, struct span text, enum map_ownership *out)
{
    *out = MAP_OWNERSHIP_UNSAID;
    if (text.len == 0)
        return ERR_OK;
    for (unsigned i = MAP_OBJECT_WRITER; i < ARRAY_LEN(ownerships); i++)
        if (span_is(text, ownerships[i])) {
            *out = (enum map_ownership)i;
            return ERR_OK;
        }
    return fault_argument(&q->fault, "x-amz-object-ownership", text,
                          "The ownership is not one of ObjectWriter, "
                          "BucketOwnerPreferred, BucketOwnerEnforced");
}

static enum err
ownership_close(void *arg, unsigned depth, struct span name, struct span text)
{
    struct settings_reading *r = arg;

    if (depth != 2 || !span_is(name, "ObjectOwnership"))
        return ERR_OK;
    if (r->ownership.at != NULL)
        return s3_fault(r->q, S3_MalformedXML);
    r->ownership = arena_span(r->q->arena, span_trim(text));
    return ERR_OK;
}

static enum err
set_ownership(struct map_bucket *b, void *arg, struct errbuf *eb)
{
    (void)eb;
    b->ownership = *(const enum map_ownership *)arg;
    return ERR_OK;
}

static enum err
change_ownership(struct request *q, enum map_ownership ownership, int status)
{
    struct errbuf eb = {{0}};
    enum err rc = change_bucket(q, q->bucket, set_ownership, &ownership, &eb);

    return rc == ERR_OK ? s3_answer_empty(q, status) : fault_from(q, rc, &eb);
}

enum err
s3_get_ownership(struct request *q)
{
    struct s3_document d;

    if (q->bucket->ownership == MAP_OWNERSHIP_UNSAID)
        return s3_fault(q, S3_OwnershipControlsNotFoundError);
    s3_document_begin(&d, 1024, "OwnershipControls");
    xml_open(&d.xml, "Rule");
    xml_text(&d.xml, "ObjectOwnership", ownerships[q->bucket->ownership]);
    xml_close(&d.xml);
    return s3_document_answer(q, &d);
}

enum err
s3_put_ownership(struct request *q)
{
    struct settings_reading r = {.q = q, .root = "OwnershipControls"};
    enum map_ownership ownership;
    enum err rc = read_settings(&r, ownership_close);

    if (rc == ERR_OK && r.ownership.len == 0)
        rc = s3_fault(q, S3_MalformedXML);
    if (rc == ERR_OK)
        rc = s3_ownership_of(q, r.ownership, &ownership);
    /* A list that would give nothing from now on must be taken away knowingly. */
    if (rc == ERR_OK && ownership == MAP_BUCKET_OWNER_ENFORCED &&
        s3_bucket_list_gives_others(q->bucket))
        rc = s3_fault(q, S3_InvalidBucketAclWithObjectOwnership);
    return rc == ERR_OK ? change_ownership(q, ownership, 200) : rc;
}

enum err
s3_delete_ownership(struct request *q)
{
    return change_ownership(q, MAP_OWNERSHIP_UNSAID, 204);
}
