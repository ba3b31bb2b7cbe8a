/* copy: CopyObject and UploadPartCopy: bytes that are here already, or at a backend, become another object or a part.
 * What is read is verified, and summed again. An object copied onto itself with other metadata keeps its bytes. */
#include <string.h>

#include "api/access.h"
#include "api/s3/copy_far.h"
#include "api/s3/s3.h"
#include "base/mem.h"
#include "base/num.h"
#include "rt/fiber.h"
#include "rt/time.h"
#include "wire/etag.h"
#include "wire/s3tags.h"

struct copying {
    struct request *q;
    struct s3_copy_source source;
    const struct map_bucket *from; /* one reference */
    const struct object_version *version;
    struct object_info info;
    struct object_get *get;
    struct far_source far; /* with `elsewhere` */
    bool elsewhere;        /* another node owns the source */
    bool replace_meta, replace_tags;
    struct object_meta meta; /* where it is replaced */
    struct span tags;
    enum checksum_kind sum; /* asked for; CHECKSUM_NONE: as the source */
    const struct object_condition *condition;
    struct range range;
    bool by_list; /* only the list of the source can allow it */
};

/* ---- what the request says ---- */

static enum err
directive(struct request *q, const char *header, bool *replace)
{
    struct span given = fields_get(http_fields(q->http->head), header);

    *replace = span_is(given, "REPLACE");
    if (given.at == NULL || *replace || span_is(given, "COPY"))
        return ERR_OK;
    return fault_argument(&q->fault, header, given, "Unknown %s directive.",
                          strstr(header, "tagging") != NULL ? "tagging" : "metadata");
}

/* The node that owns the source. */
static enum err
find_source(struct copying *c)
{
    struct request *q = c->q;
    struct errbuf eb = {{0}};
    struct nodes_route to;
    enum err rc = nodes_route(q->api->options.nodes, c->from, c->source.key, &to, &eb);

    if (rc != ERR_OK)
        return fault_from(q, rc, &eb);
    c->elsewhere = !to.here;
    if (!c->elsewhere)
        return ERR_OK;
    to.address = arena_strdup(q->arena, span_of(to.address));
    c->far = (struct far_source){to, c->from, c->source.key, c->source.version};
    return ERR_OK;
}

static enum err
read_source(struct copying *c)
{
    struct request *q = c->q;
    struct span header = fields_get(http_fields(q->http->head), "x-amz-copy-source");
    enum err rc = s3_copy_source_parse(header, q->arena, &c->source, &q->fault);

    if (rc == ERR_OK && http_body_length(q->http) > 0)
        rc = fault_set(&q->fault, S3_InvalidRequest, "A copy request has no body");
    if (rc == ERR_OK) /* the list of the source may allow it yet, once it is open */
        c->by_list = !caller_may(q, AUTH_READ, c->source.bucket, c->source.key);
    if (rc == ERR_OK && c->source.version.len > 0)
        rc = s3_version_of(q, c->source.version, &c->version);
    if (rc != ERR_OK)
        return rc;
    c->from = map_bucket_find(map_now(q->api->options.map), c->source.bucket);
    if (c->from == NULL && c->by_list)
        return s3_fault(q, S3_AccessDenied);
    if (c->from == NULL) {
        fault_set(&q->fault, S3_NoSuchBucket, NULL);
        q->name.bucket = c->source.bucket; /* the one that the answer names */
        return ERR_NO_BUCKET;
    }
    c->from = map_bucket_ref(c->from);
    return find_source(c);
}

/* All of x-amz-copy-source-if-*: what fails is 412, never 304. */
static enum err
check_source_conditions(struct copying *c)
{
    struct request *q = c->q;
    struct fields h = http_fields(q->http->head);
    struct conditions cond = {
        .if_match = fields_get(h, "x-amz-copy-source-if-match"),
        .if_none_match = fields_get(h, "x-amz-copy-source-if-none-match"),
        .if_modified_since = fields_get(h, "x-amz-copy-source-if-modified-since"),
        .if_unmodified_since = fields_get(h, "x-amz-copy-source-if-unmodified-since"),
    };
    enum err rc =
        preconditions_check(&cond, span_of(c->info.etag), c->info.mtime_ms / 1000,
                            (int64_t)(rt_wall_ns() / 1000000000u), &q->fault);

    if (rc != ERR_NOT_MODIFIED)
        return rc;
    fault_set(&q->fault, S3_PreconditionFailed, NULL);
    fault_add(&q->fault, "Condition",
              cond.if_none_match.at != NULL
                  ? SPAN("x-amz-copy-source-If-None-Match")
                  : SPAN("x-amz-copy-source-If-Modified-Since"));
    return ERR_PRECONDITION;
}

static enum err
source_fault(struct copying *c, enum err rc, const struct errbuf *eb)
{
    struct request *q = c->q;

    if (rc != ERR_NOT_FOUND)
        return fault_from(q, rc, eb);
    if (c->info.is_marker && c->version != NULL)
        return fault_set(&q->fault, S3_InvalidRequest,
                         "The source of a copy request may not specifically refer to a "
                         "delete marker by version id.");
    fault_set(&q->fault, c->version != NULL ? S3_NoSuchVersion : S3_NoSuchKey, NULL);
    q->name.key = c->source.key; /* the one that the answer names */
    return rc;
}

static enum err
open_source(struct copying *c)
{
    struct request *q = c->q;
    struct errbuf eb = {{0}};
    enum err rc;

    object_get_end(&c->get);
    rc = c->elsewhere ? far_source_info(q, &c->far, &c->info, &eb)
                      : s3_open_object(q, c->from, c->source.key, c->version, true,
                                       &c->info, &c->get, &eb);
    if (c->by_list &&
        (rc != ERR_OK || c->elsewhere || /* the list stays with the other node */
         !access_object_gives(q, c->from, c->source.key, &c->info.meta)))
        return s3_fault(q, S3_AccessDenied);
    if (rc != ERR_OK)
        return source_fault(c, rc, &eb);
    return check_source_conditions(c);
}

/* ---- the bytes ---- */

/* Are they what the source was stored as? */
static bool
as_stored(const struct copying *c, const struct object_sums *got, uint8_t algorithm)
{
    const struct object_meta *m = &c->info.meta;
    char etag[ETAG_TEXT_MAX];

    if (c->range.len != c->info.size)
        return true;
    if (m->parts == 0 && m->etag_text.len == 0) {
        etag_text(got->md5, 0, etag);
        if (strcmp(etag, c->info.etag) != 0)
            return false;
    }
    return m->checksum_algorithm != algorithm || algorithm == CHECKSUM_NONE ||
           m->checksum_type != CHECKSUM_FULL_OBJECT ||
           (m->checksum.len == got->checksum_len &&
            memcmp(m->checksum.at, got->checksum, got->checksum_len) == 0);
}

static enum err
copy_transfer(struct copying *c, struct object_put *put, uint8_t algorithm, bool *again)
{
    struct request *q = c->q;
    struct object_sums sums;
    struct errbuf eb = {{0}};
    enum err rc = c->elsewhere
                      ? far_source_copy(q, &c->far, &c->info, c->range.first,
                                        c->range.len, put, &eb)
                      : object_copy_body(c->get, c->range.first, c->range.len, put, &eb);

    *again = rc == ERR_NOT_FOUND;
    if (rc == ERR_OK)
        rc = object_put_sums(put, &sums, &eb);
    if (rc == ERR_OK && !as_stored(c, &sums, algorithm))
        rc = err_set(&eb, ERR_CORRUPT, "the source of a copy is not what it was");
    return rc == ERR_OK ? ERR_OK : fault_from(q, rc, &eb);
}

/* ---- CopyObject ---- */

static enum err
refuse_copy_headers(struct request *q)
{
    static const char *const names[] = {
        "x-amz-copy-source-server-side-encryption-customer-algorithm",
        "x-amz-copy-source-server-side-encryption-customer-key",
        "x-amz-source-expected-bucket-owner",
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (fields_find(http_fields(q->http->head), names[i]) == NULL)
            continue;
        fault_set(&q->fault, S3_NotImplemented, "The header %s is not implemented",
                  names[i]);
        fault_add(&q->fault, "Header", span_of(names[i]));
        return ERR_NOT_IMPLEMENTED;
    }
    return s3_refuse_unbuilt(q);
}

static enum err
read_copy(struct copying *c)
{
    struct request *q = c->q;
    struct fields h = http_fields(q->http->head);
    struct span algorithm = fields_get(h, "x-amz-checksum-algorithm");
    enum err rc = refuse_copy_headers(q);

    if (rc == ERR_OK)
        rc = directive(q, "x-amz-metadata-directive", &c->replace_meta);
    if (rc == ERR_OK)
        rc = directive(q, "x-amz-tagging-directive", &c->replace_tags);
    if (rc == ERR_OK && algorithm.len > 0)
        rc = checksum_of_name(algorithm, &c->sum, &q->fault);
    if (rc == ERR_OK)
        rc = s3_meta_from_headers(q, &c->meta);
    if (rc == ERR_OK && c->replace_tags)
        rc = s3_tags_header(q, &c->tags);
    if (rc == ERR_OK)
        rc = s3_acl_of_new_object(q, http_get(q->http->head, HTTP_AMZ_ACL), &c->meta);
    if (rc == ERR_OK)
        rc = s3_write_condition(q, &c->condition);
    return rc == ERR_OK ? read_source(c) : rc;
}

/* What the copy is stored with. */
static struct object_meta
meta_of_copy(const struct copying *c)
{
    struct object_meta m = c->replace_meta ? c->meta : c->info.meta;

    if (!c->replace_meta)
        m.storage_class = c->meta.storage_class; /* of the request, like AWS */
    m.tags = c->replace_tags ? c->tags : c->info.meta.tags;
    m.acl = c->meta.acl; /* of the request, never of the source */
    m.etag_text = m.backend_version = (struct span){NULL, 0};
    return m;
}

static bool
is_itself(const struct copying *c)
{
    return c->from->id == c->q->bucket->id && c->version == NULL &&
           span_eq(c->source.key, c->q->name.key);
}

static enum err
refuse_idle_copy(struct copying *c)
{
    if (!is_itself(c) || c->replace_meta || c->sum != CHECKSUM_NONE ||
        fields_find(http_fields(c->q->http->head), "x-amz-storage-class") != NULL)
        return ERR_OK;
    return fault_set(
        &c->q->fault, S3_InvalidRequest,
        "This copy request is illegal because it is trying to copy an object to itself "
        "without changing the object's metadata, storage class, website redirect "
        "location or encryption attributes.");
}

struct describing {
    const struct copying *c;
    struct object_meta meta;
};

/* Only while it is still the version whose preconditions were checked. */
static enum err
copy_describe(struct object_meta *meta, void *arg, struct arena *a, struct errbuf *eb)
{
    const struct describing *d = arg;
    struct object_meta was = *meta;

    (void)a;
    if (memcmp(was.md5, d->c->info.meta.md5, sizeof was.md5) != 0 ||
        was.parts != d->c->info.meta.parts)
        return err_set(eb, ERR_NOT_FOUND, "the object was replaced");
    *meta = d->meta;
    memcpy(meta->md5, was.md5, sizeof meta->md5);
    meta->parts = was.parts;
    meta->etag_text = was.etag_text;
    meta->checksum = was.checksum;
    meta->checksum_algorithm = was.checksum_algorithm;
    meta->checksum_type = was.checksum_type;
    meta->versioning = was.versioning;
    meta->mtime_ms = (int64_t)(rt_wall_ns() / 1000000u);
    return ERR_OK;
}

/* Onto itself: a record of metadata, no byte is copied. */
static enum err
copy_in_place(struct copying *c, struct object_info *out, bool *again)
{
    struct request *q = c->q;
    struct describing d = {c, meta_of_copy(c)};
    struct errbuf eb = {{0}};
    enum err rc = object_change_meta(q->api->options.object, q->bucket, q->name.key, NULL,
                                     c->condition, copy_describe, &d, q->arena, out, &eb);

    *again = rc == ERR_NOT_FOUND;
    return rc == ERR_OK ? ERR_OK : s3_condition_fault(q, c->condition, rc, &eb);
}

static enum err
copy_send_bytes(struct copying *c, struct object_info *out, bool *again)
{
    struct request *q = c->q;
    struct object_meta meta = meta_of_copy(c);
    struct object_put_options o = {
        .size = c->info.size,
        .checksum_algorithm = s3_checksum_kept(
            q->bucket, c->sum != CHECKSUM_NONE
                           ? c->sum
                           : (enum checksum_kind)c->info.meta.checksum_algorithm),
        .condition = c->condition};
    struct object_put *put = NULL;
    struct errbuf eb = {{0}};
    enum err rc =
        object_put_begin(q->api->options.object, q->bucket, q->name.key, &o, &put, &eb);

    if (rc != ERR_OK)
        return fault_from(q, rc, &eb);
    rc = copy_transfer(c, put, o.checksum_algorithm, again);
    if (rc == ERR_OK) {
        rc = object_put_commit(&put, &meta, q->arena, out, &eb);
        if (rc != ERR_OK)
            rc = s3_condition_fault(q, c->condition, rc, &eb);
    }
    object_put_abort(&put);
    return rc;
}

/* A version with an id stays as it was put: where versions are suspended, too, a copy of it is the null version. */
static bool
may_stay(const struct copying *c)
{
    const struct map_bucket *to = c->q->bucket;

    return is_itself(c) && !to->cached && to->versioning != MAP_VERSIONED &&
           c->info.version.null && c->sum == CHECKSUM_NONE;
}

static enum err
copy_object_attempt(struct copying *c, struct object_info *out, bool *again)
{
    struct request *q = c->q;
    enum err rc = open_source(c);

    *again = false;
    if (rc == ERR_OK)
        rc = refuse_idle_copy(c);
    if (rc != ERR_OK)
        return rc;
    if (c->info.size > S3_PUT_MAX)
        return fault_set(&q->fault, S3_InvalidRequest,
                         "The specified copy source is larger than the maximum allowable "
                         "size for a copy source: %llu",
                         (unsigned long long)S3_PUT_MAX);
    c->range = (struct range){0, c->info.size};
    if (may_stay(c))
        return copy_in_place(c, out, again);
    return copy_send_bytes(c, out, again);
}

static enum err
answer_copy(struct request *q, const char *root, const struct object_info *info)
{
    char date[NUM_DATE_TEXT];
    struct s3_document d;

    date_iso(info->mtime_ms, date);
    s3_document_begin(&d, KIB(4), root);
    xml_text(&d.xml, "LastModified", date);
    xml_etag(&d.xml, "ETag", span_of(info->etag));
    s3_xml_checksum(&d.xml, &info->meta);
    return s3_document_answer(q, &d);
}

static void
put_source_version(const struct copying *c)
{
    if (c->from->versioning != MAP_UNVERSIONED)
        s3_put_version(c->q, "x-amz-copy-source-version-id", &c->info.version);
}

enum err
s3_copy_object(struct request *q)
{
    struct copying *c = arena_alloc(q->arena, sizeof *c);
    struct object_info *info = arena_alloc(q->arena, sizeof *info);
    bool again = false;
    enum err rc;

    *c = (struct copying){.q = q};
    rc = read_copy(c);
    while (rc == ERR_OK) {
        rc = copy_object_attempt(c, info, &again);
        if (!again)
            break;
        rc = rt_retry() ? ERR_OK : s3_fault(q, S3_SlowDown);
    }
    object_get_end(&c->get);
    if (rc == ERR_OK) {
        put_source_version(c);
        s3_put_new_version(q, info);
        rc = answer_copy(q, "CopyObjectResult", info);
    }
    map_bucket_drop(&c->from);
    return rc;
}

/* ---- UploadPartCopy ---- */

static enum err
copy_choose_range(struct copying *c)
{
    struct request *q = c->q;
    struct span given = fields_get(http_fields(q->http->head), "x-amz-copy-source-range");
    enum err rc;

    c->range = (struct range){0, c->info.size};
    if (given.at == NULL)
        return c->info.size <= S3_PUT_MAX
                   ? ERR_OK
                   : fault_set(&q->fault, S3_InvalidRequest,
                               "The specified copy source is larger than the maximum "
                               "allowable size for a copy source: %llu",
                               (unsigned long long)S3_PUT_MAX);
    rc = copy_range_parse(given, &c->range, &q->fault);
    if (rc != ERR_OK)
        return rc;
    if (c->range.first >= c->info.size || c->range.len > c->info.size - c->range.first)
        return fault_argument(
            &q->fault, "x-amz-copy-source-range", given,
            "Range specified is not valid for source object of size: %llu",
            (unsigned long long)c->info.size);
    return c->range.len <= S3_PUT_MAX ? ERR_OK : s3_fault(q, S3_EntityTooLarge);
}

static enum err
copy_part_attempt(struct copying *c, struct span upload_id, uint32_t number,
                  struct object_info *out, bool *again)
{
    struct request *q = c->q;
    struct object_put_options o = {.sum_as_upload = true};
    struct object_meta none = {0};
    struct object_put *put = NULL;
    struct errbuf eb = {{0}};
    enum err rc = open_source(c);

    *again = false;
    if (rc == ERR_OK)
        rc = copy_choose_range(c);
    if (rc != ERR_OK)
        return rc;
    o.size = c->range.len;
    rc = object_part_begin(q->api->options.object, q->bucket, q->name.key, upload_id,
                           number, &o, &put, &eb);
    if (rc != ERR_OK)
        return fault_from(q, rc, &eb);
    rc = copy_transfer(c, put, CHECKSUM_NONE, again);
    if (rc == ERR_OK) {
        rc = object_put_commit(&put, &none, q->arena, out, &eb);
        if (rc != ERR_OK)
            rc = fault_from(q, rc, &eb);
    }
    object_put_abort(&put);
    return rc;
}

enum err
s3_copy_part(struct request *q, struct span upload_id, uint32_t number)
{
    struct copying *c = arena_alloc(q->arena, sizeof *c);
    struct object_info *info = arena_alloc(q->arena, sizeof *info);
    bool again = false;
    enum err rc;

    *c = (struct copying){.q = q};
    rc = refuse_copy_headers(q);
    if (rc == ERR_OK)
        rc = read_source(c);
    while (rc == ERR_OK) {
        rc = copy_part_attempt(c, upload_id, number, info, &again);
        if (!again)
            break;
        rc = rt_retry() ? ERR_OK : s3_fault(q, S3_SlowDown);
    }
    object_get_end(&c->get);
    if (rc == ERR_OK) {
        put_source_version(c);
        rc = answer_copy(q, "CopyPartResult", info);
    }
    map_bucket_drop(&c->from);
    return rc;
}
