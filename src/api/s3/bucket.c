/* bucket: operations on buckets, and the questions that clients ask before they trust one. */
#include <string.h>

#include "api/access.h"
#include "api/s3/s3.h"
#include "base/mem.h"
#include "base/num.h"
#include "wire/s3xml.h"

#define LIST_BYTES_MAX (4u << 20)

static void
s3_list_put_bucket(struct xml *x, const struct map_bucket *b)
{
    char date[NUM_DATE_TEXT];

    date_iso(b->created_ms, date);
    xml_open(x, "Bucket");
    xml_text(x, "Name", b->name);
    xml_text(x, "CreationDate", date);
    xml_close(x);
}

enum err
s3_list_all_buckets(struct request *q)
{
    const struct map *m =
        map_now(q->api->options.map); /* no switch until the document is made */
    struct span prefix = query_get(&q->query, "prefix");
    struct span token = query_get(&q->query, "continuation-token");
    bool paged = query_has(&q->query, "max-buckets");
    uint64_t max = 0, shown = 0;
    uint32_t i = 0;
    struct s3_document d;
    enum err rc = query_u64(&q->query, "max-buckets", 10000, 1, 10000, &max, &q->fault);

    if (rc != ERR_OK)
        return rc;
    s3_document_begin(&d, LIST_BYTES_MAX, "ListAllMyBucketsResult");
    s3_xml_owner(&d.xml, access_caller_name(q));
    xml_open(&d.xml, "Buckets");
    for (; i < map_bucket_count(m) && shown < max; i++) {
        const struct map_bucket *b = map_bucket_at(m, i);
        struct span name = span_of(b->name);

        if ((prefix.len > 0 && !span_starts(name, prefix)) ||
            (token.len > 0 && span_cmp(name, token) <= 0) ||
            !caller_has_any_right(q, name))
            continue;
        s3_list_put_bucket(&d.xml, b);
        shown++;
    }
    xml_close(&d.xml);
    if (prefix.len > 0)
        xml_span(&d.xml, "Prefix", prefix);
    if (paged && i < map_bucket_count(m) && i > 0)
        xml_text(&d.xml, "ContinuationToken", map_bucket_at(m, i - 1)->name);
    return s3_document_answer(q, &d);
}

/* The bucket that is there is the caller's own, made in the same way. Then us-east-1 answers as if it were made now, and
 * the other regions BucketAlreadyOwnedByYou. */
static bool
s3_is_own_bucket(const struct request *q, const struct map_bucket_access *wanted)
{
    const struct map_bucket *b =
        map_bucket_find(map_now(q->api->options.map), q->name.bucket);
    struct span acl =
        b != NULL && b->acl != NULL ? span_of(b->acl) : (struct span){"", 0};

    return b != NULL && !b->cached && span_eq(access_owner_name(b), wanted->owner) &&
           span_eq(acl, wanted->acl);
}

enum err
s3_create_bucket(struct request *q)
{
    const struct map_bucket *made = NULL;
    struct map_bucket_access access;
    struct span doc, location = {"", 0};
    struct errbuf eb = {{0}};
    enum err rc = s3_body_document(q, S3XML_BODY_MAX, false, &doc);

    if (rc == ERR_OK)
        rc = s3xml_create_bucket_parse(doc, q->arena, &location, &q->fault);
    if (rc != ERR_OK)
        return rc;
    rc = s3_access_of_new_bucket(q, &access);
    if (rc != ERR_OK)
        return rc;
    if (span_case_is(
            fields_get(http_fields(q->http->head), "x-amz-bucket-object-lock-enabled"),
            "true"))
        return fault_set(
            &q->fault, S3_NotImplemented,
            "x-amz-bucket-object-lock-enabled: object lock is not implemented");
    rc = make_bucket(q, q->name.bucket, NULL, &access, &made, &eb);
    map_bucket_drop(&made);
    if (rc == ERR_EXISTS && !s3_is_own_bucket(q, &access))
        return s3_fault(q, S3_BucketAlreadyExists);
    if (rc == ERR_EXISTS && strcmp(q->api->options.region, "us-east-1") != 0)
        return s3_fault(q, S3_BucketAlreadyOwnedByYou);
    if (rc != ERR_OK && rc != ERR_EXISTS)
        return fault_from(q, rc, &eb);
    http_headerf(q->http, "location", "/%.*s", SPAN_ARG(q->name.bucket));
    return s3_answer_empty(q, 200);
}

/* A client that deletes objects says where they go from: a write to an attached bucket goes to its remote. */
static void
put_remote_headers(struct request *q)
{
    const struct map_backend *b = &q->bucket->backend;

    if (!q->bucket->cached || q->caller.kind == CALLER_ANONYMOUS)
        return;
    if (b->endpoint != NULL)
        http_header(q->http, "x-forebay-remote", span_of(b->endpoint));
    else
        http_headerf(q->http, "x-forebay-remote", "https://s3.%s.amazonaws.com",
                     b->region != NULL ? b->region : "us-east-1");
    http_header(q->http, "x-forebay-remote-bucket",
                span_of(b->bucket != NULL ? b->bucket : ""));
}

enum err
s3_head_bucket_op(struct request *q)
{
    http_header(q->http, "x-amz-bucket-region", span_of(q->api->options.region));
    put_remote_headers(q);
    return s3_answer_empty(q, 200);
}

enum err
s3_delete_bucket(struct request *q)
{
    struct errbuf eb = {{0}};
    enum err rc = bucket_close_everywhere(q, q->bucket, &eb);

    if (rc == ERR_OK) {
        rc = map_bucket_remove(q->api->options.map, q->name.bucket, q->bucket->id, &eb);
        if (rc != ERR_OK && rc != ERR_NO_BUCKET)
            bucket_reopen_everywhere(q, q->bucket);
    }
    AUDIT_CHANGE(q, "bucket.delete", rc, L_SPAN("bucket", q->name.bucket));
    if (rc != ERR_OK)
        return fault_from(q, rc, &eb);
    if (q->bucket->cached)
        cloud_credentials_remove(q->api->options.cloud, q->bucket->backend.credentials);
    return s3_answer_empty(q, 204);
}

enum err
s3_bucket_location(struct request *q)
{
    struct buf body;
    struct xml x;
    enum err rc;

    buf_init(&body, 1024);
    xml_begin(&x, &body);
    if (strcmp(q->api->options.region, "us-east-1") == 0) {
        xml_open_s3(&x, "LocationConstraint");
        xml_close(&x);
    } else {
        buf_puts(&body, "<LocationConstraint xmlns=\"" XML_S3_NAMESPACE "\">");
        xml_escape(&body, span_of(q->api->options.region));
        buf_puts(&body, "</LocationConstraint>");
    }
    rc = s3_answer_xml(q, &body);
    buf_fini(&body);
    return rc;
}

/* What a bucket without any configuration answers to each question (s3-pitfalls, section 15). */
static const struct probe {
    const char *sub;
    enum s3_code absent; /* 404 with its own code, or S3_OK: an empty document */
    const char *root;
    const char *inner_name, *inner_value;
} probes[] = {
    {"requestPayment", S3_OK, "RequestPaymentConfiguration", "Payer", "BucketOwner"},
    {"accelerate", S3_OK, "AccelerateConfiguration", NULL, NULL},
    {"logging", S3_OK, "BucketLoggingStatus", NULL, NULL},
    {"notification", S3_OK, "NotificationConfiguration", NULL, NULL},
    {"object-lock", S3_ObjectLockConfigurationNotFoundError, NULL, NULL, NULL},
    {"lifecycle", S3_NoSuchLifecycleConfiguration, NULL, NULL, NULL},
    {"website", S3_NoSuchWebsiteConfiguration, NULL, NULL, NULL},
    {"replication", S3_ReplicationConfigurationNotFoundError, NULL, NULL, NULL},
    {"encryption", S3_ServerSideEncryptionConfigurationNotFoundError, NULL, NULL, NULL},
};

enum err
s3_bucket_probe(struct request *q)
{
    const struct probe *p = NULL;
    struct s3_document d;

    for (size_t i = 0; i < ARRAY_LEN(probes) && p == NULL; i++)
        if (query_has(&q->query, probes[i].sub))
            p = &probes[i];
    if (p == NULL)
        return s3_not_built(q);
    if (p->absent != S3_OK)
        return s3_fault(q, p->absent);
    s3_document_begin(&d, 1024, p->root);
    if (p->inner_name != NULL)
        xml_text(&d.xml, p->inner_name, p->inner_value);
    return s3_document_answer(q, &d);
}
