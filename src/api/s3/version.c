/* version: ids in requests and answers, and the versioning of a bucket. */
#include <stdlib.h>

#include "api/s3/s3.h"
#include "base/mem.h"
#include "base/num.h"
#include "wire/s3xml.h"

enum err
s3_version_of(struct request *q, struct span text, const struct object_version **out)
{
    struct object_version *v;

    *out = NULL;
    if (text.at == NULL)
        return ERR_OK;
    v = arena_alloc(q->arena, sizeof *v);
    if (!object_version_parse(text, v))
        return fault_argument(&q->fault, "versionId", text,
                              "Invalid version id specified");
    *out = v;
    return ERR_OK;
}

enum err
s3_version_requested(struct request *q, const struct object_version **out)
{
    *out = NULL;
    if (q->query.count == 0)
        return ERR_OK;
    return s3_version_of(q, query_get(&q->query, "versionId"), out);
}

void
s3_put_version(struct request *q, const char *header, const struct object_version *v)
{
    char text[OBJECT_VERSION_TEXT];

    object_version_text(v, text);
    http_header(q->http, header, span_of(text));
}

void
s3_put_version_of(struct request *q, const struct object_info *info)
{
    if (q->bucket->versioning != MAP_UNVERSIONED)
        s3_put_version(q, "x-amz-version-id", &info->version);
}

void
s3_put_new_version(struct request *q, const struct object_info *info)
{
    if (q->bucket->versioning == MAP_VERSIONED)
        s3_put_version(q, "x-amz-version-id", &info->version);
}

enum err
s3_missing(struct request *q, const struct object_version *v,
           const struct object_info *info, enum err rc, const struct errbuf *eb)
{
    if (rc != ERR_NOT_FOUND)
        return fault_from(q, rc, eb);
    if (info->is_marker)
        q->marker = info; /* the answer says so */
    if (v == NULL)
        return s3_fault(q, S3_NoSuchKey);
    if (info->is_marker)
        return s3_fault(q, S3_MethodNotAllowed);
    fault_set(&q->fault, S3_NoSuchVersion, NULL);
    fault_add(&q->fault, "Key", q->name.key);
    fault_add(&q->fault, "VersionId", query_get(&q->query, "versionId"));
    return rc;
}

/* ---- of a bucket ---- */

static enum err
refuse_attached(struct request *q, const char *what)
{
    if (!q->bucket->cached)
        return ERR_OK;
    return fault_set(&q->fault, S3_NotImplemented,
                     "%s of an attached bucket is the remote's: not implemented here",
                     what);
}

enum err
s3_get_versioning(struct request *q)
{
    struct s3_document d;

    s3_document_begin(&d, 1024, "VersioningConfiguration");
    if (q->bucket->versioning != MAP_UNVERSIONED)
        xml_text(&d.xml, "Status",
                 q->bucket->versioning == MAP_VERSIONED ? "Enabled" : "Suspended");
    return s3_document_answer(q, &d);
}

static enum err
set_versioning(struct map_bucket *b, void *arg, struct errbuf *eb)
{
    (void)eb;
    b->versioning = *(enum map_versioning *)arg;
    return ERR_OK;
}

enum err
s3_put_versioning(struct request *q)
{
    enum map_versioning to;
    struct errbuf eb = {{0}};
    struct span doc;
    bool enabled = false;
    enum err rc = refuse_attached(q, "Versioning");

    if (rc == ERR_OK)
        rc = s3_body_document(q, S3XML_BODY_MAX, false, &doc);
    if (rc == ERR_OK)
        rc = s3xml_versioning_parse(doc, q->arena, &enabled, &q->fault);
    if (rc != ERR_OK)
        return rc;
    to = enabled ? MAP_VERSIONED : MAP_SUSPENDED;
    rc = change_bucket(q, q->bucket, set_versioning, &to, &eb);
    return rc == ERR_OK ? s3_answer_empty(q, 200) : fault_from(q, rc, &eb);
}
