/* buckets: attaching a remote bucket, and what is attached. S3 has no words for these. */
#include <jansson.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "api/admin/admin.h"
#include "api/s3/s3.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "object/chunks.h"
#include "rt/time.h"
#include "wire/json.h"

#define ATTACH_BODY_MAX (64u << 10)
#define LIST_MAX        (8u << 20)

/* Unsaid is as private: made before names were looked after. */
static const char *const networks[] = {[MAP_NETWORK_UNSAID] = "private",
                                       [MAP_NETWORK_PUBLIC] = "public",
                                       [MAP_NETWORK_PRIVATE] = "private",
                                       [MAP_NETWORK_ANY] = "any"};

/* What its quota counts: each object once, however many copies it has. Does not wait. */
static void
put_usage(struct json *j, const struct map_bucket *b, struct disks *ds)
{
    static const struct {
        enum usage_kind which;
        const char *count, *bytes;
    } rows[] = {{USAGE_LIVE, "objects", "bytes"},
                {USAGE_OLDER, "older", "older_bytes"},
                {USAGE_OPEN, "open_parts", "open_bytes"}};

    json_open_object(j, "holds");
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint64_t count, bytes;

        disks_bucket_usage(ds, b->id, rows[i].which, b->copies, &count, &bytes);
        json_u64(j, rows[i].count, count);
        json_u64(j, rows[i].bytes, bytes);
    }
    json_end(j);
}

/* What its own cache budget counts: objects, and chunks of large ones. Does not wait. */
static void
put_cached(struct json *j, const struct map_bucket *b, struct disks *ds)
{
    uint64_t count, bytes, chunks, in_chunks;

    disks_bucket_usage(ds, b->id, USAGE_LIVE, 1, &count, &bytes);
    disks_bucket_usage(ds, chunk_space(b->id), USAGE_LIVE, 1, &chunks, &in_chunks);
    json_u64(j, "cached_objects", count);
    json_u64(j, "cached_bytes", bytes + in_chunks);
}

static void admin_bucket_put_bucket(struct json *j, const struct map_bucket *b,
                                    const char *job, struct disks *ds);

void
admin_put_bucket(struct json *j, const struct map_bucket *b)
{
    admin_bucket_put_bucket(j, b, "", NULL);
}

void
admin_put_bucket_and_job(struct json *j, const struct map_bucket *b, const char *job)
{
    admin_bucket_put_bucket(j, b, job, NULL);
}

/* `ds` NULL: without what it holds. */
static void
admin_bucket_put_bucket(struct json *j, const struct map_bucket *b, const char *job,
                        struct disks *ds)
{
    char date[NUM_DATE_TEXT];

    date_iso(b->created_ms, date);
    json_open_object(j, NULL);
    json_text(j, "name", b->name);
    json_u64(j, "id", b->id);
    json_text(j, "created", date);
    json_bool(j, "cached", b->cached);
    json_bool(j, "anonymous_read", b->anonymous_read);
    if (job[0] != '\0')
        json_text(j, "job", job);
    if (!b->cached) {
        json_u64(j, "copies", MAX(b->copies, 1u));
        json_u64(j, "min_copies", b->min_copies > 0 ? b->min_copies : MAX(b->copies, 1u));
        if (b->quota_bytes > 0)
            json_u64(j, "quota_bytes", b->quota_bytes);
        if (b->quota_objects > 0)
            json_u64(j, "quota_objects", b->quota_objects);
        if (b->upload_ttl_ms > 0)
            json_u64(j, "upload_ttl_ms", b->upload_ttl_ms);
    }
    if (!b->cached && ds != NULL)
        put_usage(j, b, ds);
    if (b->cached && ds != NULL)
        put_cached(j, b, ds);
    if (b->cached) {
        if (b->ttl_ms > 0)
            json_u64(j, "ttl_ms", b->ttl_ms);
        json_bool(j, "fail_stale", b->fail_stale);
        if (b->cache_budget > 0)
            json_u64(j, "cache_budget", b->cache_budget);
        if (b->pin_count > 0) {
            json_open_array(j, "pins");
            for (unsigned i = 0; i < b->pin_count; i++)
                json_text(j, NULL, b->pins[i]);
            json_end(j);
        }
        json_open_object(j, "remote");
        json_text(j, "bucket", b->backend.bucket);
        json_text(j, "endpoint", b->backend.endpoint);
        json_text(j, "region", b->backend.region);
        json_bool(j, "plain_http", b->backend.plain_http);
        json_bool(j, "requester_pays", b->backend.requester_pays);
        json_text(j, "network", networks[b->backend.network]);
        json_text(j, "credentials",
                  b->backend.credentials == NULL      ? "server"
                  : b->backend.credentials[0] == '\0' ? "anonymous"
                                                      : "stored");
        json_end(j);
    }
    json_end(j);
}

enum err
admin_bucket_list(struct request *q)
{
    const struct map *m =
        map_now(q->api->options.map); /* no switch until the text is made */
    struct admin_page page;

    admin_page_begin(&page, LIST_MAX);
    json_open_object(&page.j, NULL);
    json_open_array(&page.j, "buckets");
    for (uint32_t i = 0; i < map_bucket_count(m); i++)
        admin_bucket_put_bucket(&page.j, map_bucket_at(m, i), "", q->api->options.disks);
    json_end(&page.j);
    json_end(&page.j);
    return admin_page_answer(q, &page, 200);
}

#define TEXT_MAX 512

/* A text member, or NULL. ERR_BAD_REQUEST when it is something else than short printable text. */
static enum err
admin_bucket_text_of(struct request *q, const json_t *object, const char *name,
                     char **out)
{
    const json_t *v = json_object_get(object, name);

    *out = NULL;
    if (v == NULL || json_is_null(v))
        return ERR_OK;
    if (!json_is_string(v))
        return fault_set(&q->fault, S3_InvalidArgument, "\"%s\" must be text", name);
    if (json_string_length(v) > TEXT_MAX && v != json_object_get(object, "session_token"))
        return fault_set(&q->fault, S3_InvalidArgument,
                         "\"%s\" has %zu bytes, at most %u are taken", name,
                         json_string_length(v), TEXT_MAX);
    for (const char *p = json_string_value(v); *p != '\0'; p++)
        if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 0x7f)
            return fault_set(&q->fault, S3_InvalidArgument,
                             "\"%s\" has a character that is not printable ASCII", name);
    *out = (char *)(uintptr_t)json_string_value(v);
    return ERR_OK;
}

struct attach {
    char *name, *network;
    struct map_backend backend;
    struct s3_credentials keys;
    bool has_keys, dry;
    char region[CLOUD_REGION_TEXT];
    char secret[CLOUD_SECRET_NAME]; /* the name they are stored under */
};

static enum err
read_keys(struct request *q, const json_t *v, struct attach *at)
{
    enum err rc;

    if (v == NULL || json_is_null(v))
        return ERR_OK;
    if (json_is_string(v) && strcmp(json_string_value(v), "anonymous") == 0) {
        at->backend.credentials = (char *)(uintptr_t) "";
        return ERR_OK;
    }
    if (!json_is_object(v))
        return fault_set(
            &q->fault, S3_InvalidArgument,
            "\"credentials\" is \"anonymous\", or has access_key and secret_key");
    rc = admin_bucket_text_of(q, v, "access_key", &at->keys.access_key);
    if (rc == ERR_OK)
        rc = admin_bucket_text_of(q, v, "secret_key", &at->keys.secret_key);
    if (rc == ERR_OK)
        rc = admin_bucket_text_of(q, v, "session_token", &at->keys.session_token);
    if (rc == ERR_OK && (at->keys.access_key == NULL || at->keys.secret_key == NULL))
        rc = fault_set(&q->fault, S3_InvalidArgument,
                       "\"credentials\" needs access_key and secret_key");
    at->has_keys = rc == ERR_OK;
    return rc;
}

static enum err
read_network(struct request *q, struct attach *at)
{
    if (at->network == NULL)
        return ERR_OK;
    for (unsigned i = MAP_NETWORK_PUBLIC; i <= MAP_NETWORK_ANY; i++)
        if (strcmp(at->network, networks[i]) == 0) {
            at->backend.network = (enum map_network)i;
            return ERR_OK;
        }
    return fault_set(&q->fault, S3_InvalidArgument,
                     "\"network\" is public, private or any, not \"%s\"", at->network);
}

static enum err
read_attach(struct request *q, const json_t *doc, struct attach *at)
{
    static const struct {
        const char *name;
        size_t offset;
    } texts[] = {
        {"name", offsetof(struct attach, name)},
        {"endpoint", offsetof(struct attach, backend.endpoint)},
        {"region", offsetof(struct attach, backend.region)},
        {"bucket", offsetof(struct attach, backend.bucket)},
        {"network", offsetof(struct attach, network)},
    };
    enum err rc = ERR_OK;

    for (size_t i = 0; i < ARRAY_LEN(texts) && rc == ERR_OK; i++)
        rc = admin_bucket_text_of(q, doc, texts[i].name,
                                  (char **)(void *)((char *)at + texts[i].offset));
    if (rc == ERR_OK)
        rc = read_keys(q, json_object_get(doc, "credentials"), at);
    if (rc == ERR_OK)
        rc = read_network(q, at);
    if (rc != ERR_OK)
        return rc;
    at->backend.path_style = true;
    rc = admin_flag_of(q, doc, "path_style", &at->backend.path_style);
    if (rc == ERR_OK)
        rc = admin_flag_of(q, doc, "requester_pays", &at->backend.requester_pays);
    if (rc == ERR_OK)
        rc = admin_flag_of(q, doc, "plain_http", &at->backend.plain_http);
    if (rc != ERR_OK)
        return rc;
    if (at->backend.plain_http && at->backend.bucket == NULL)
        at->backend.bucket = (char *)(uintptr_t) "";
    if (at->backend.plain_http && (at->backend.endpoint == NULL || at->has_keys))
        return fault_set(&q->fault, S3_InvalidArgument,
                         "A plain web server has an \"endpoint\" and no keys");
    if (at->backend.plain_http)
        at->backend.credentials = (char *)(uintptr_t) "";
    if (at->name == NULL || at->backend.bucket == NULL)
        return fault_set(&q->fault, S3_InvalidArgument,
                         "\"name\" and \"bucket\" are needed");
    /* The refusal quotes the name, and is sent when the document is gone. */
    return s3_bucket_check(arena_span(q->http->arena, span_of(at->name)), &q->fault);
}

/* The administrator named the remote: what it said helps, and is not a secret. */
static enum err
refuse_attach(struct request *q, enum err rc, const struct errbuf *eb)
{
    enum s3_code code = rc == ERR_EXISTS        ? S3_BucketAlreadyOwnedByYou
                        : rc == ERR_DENIED      ? S3_AccessDenied
                        : rc == ERR_NO_BUCKET   ? S3_NoSuchBucket
                        : rc == ERR_NOT_FOUND   ? S3_NoSuchBucket
                        : rc == ERR_BAD_REQUEST ? S3_InvalidRequest
                                                : S3_ServiceUnavailable;

    return fault_set(&q->fault, code, "%s", eb->text);
}

/* The remote is asked first. */
static enum err
admin_bucket_make(struct request *q, struct attach *at, const struct map_bucket **made,
                  struct errbuf *eb)
{
    enum err rc = cloud_probe(q->api->options.cloud, &at->backend, at->region, eb);

    if (rc == ERR_OK && at->region[0] != '\0')
        at->backend.region = at->region;

    if (rc == ERR_OK && !at->dry)
        rc = make_bucket(q, span_of(at->name), &at->backend, NULL, made, eb);
    return rc;
}

/* Keys are stored before the bucket exists, so that it never stands without them, and removed where it came to
 * nothing. */
static enum err
admin_bucket_attach_one(struct request *q, struct attach *at)
{
    const struct map_bucket *made = NULL;
    struct errbuf eb = {{0}};
    struct admin_page page;
    enum err rc = ERR_OK;

    if (map_bucket_find(map_now(q->api->options.map), span_of(at->name)) != NULL)
        return fault_set(
            &q->fault, S3_BucketAlreadyOwnedByYou,
            "A bucket \"%s\" exists already; choose another local name with --as",
            at->name);
    if (at->has_keys) {
        at->backend.credentials = at->secret;
        rc = cloud_credentials_store(q->api->options.cloud, at->name, &at->keys,
                                     at->secret, &eb);
        if (rc != ERR_OK)
            return fault_from(q, rc, &eb);
    }
    rc = admin_bucket_make(q, at, &made, &eb);
    if (rc != ERR_OK || at->dry)
        cloud_credentials_remove(q->api->options.cloud, at->secret);
    if (rc != ERR_OK) {
        map_bucket_drop(&made);
        return refuse_attach(q, rc, &eb);
    }
    if (at->dry) {
        struct map_bucket would = {.name = at->name,
                                   .cached = true,
                                   .backend = at->backend,
                                   .created_ms = (int64_t)(rt_wall_ns() / 1000000u)};

        admin_page_begin(&page, KIB(64));
        admin_put_bucket(&page.j, &would);
        return admin_page_answer(q, &page, 200);
    }
    LOG(LOG_INFO, "bucket.attached", "remote bucket attached", L_TEXT("id", q->http->id),
        L_TEXT("bucket", made->name), L_TEXT("remote", made->backend.bucket),
        L_SPAN("user", q->caller.name));
    admin_page_begin(&page, KIB(64));
    admin_put_bucket(&page.j, made);
    map_bucket_drop(&made);
    return admin_page_answer(q, &page, 200);
}

static void
admin_bucket_wipe(char *secret)
{
    if (secret != NULL)
        OPENSSL_cleanse(secret, strlen(secret));
}

enum err
admin_read_object(struct request *q, size_t limit, json_t **doc)
{
    struct span body;
    /* With its hash, or the chunks' signatures, checked. */
    enum err rc = s3_body_document(q, limit, false, &body);

    *doc = NULL;
    if (rc != ERR_OK)
        return rc;
    *doc = json_loadb(body.at, body.len, JSON_REJECT_DUPLICATES, NULL);
    OPENSSL_cleanse((void *)(uintptr_t)body.at, body.len);
    if (json_is_object(*doc))
        return ERR_OK;
    json_decref(*doc);
    *doc = NULL;
    return fault_set(&q->fault, S3_InvalidArgument, "The body must be a JSON object");
}

enum err
admin_flag_of(struct request *q, const json_t *doc, const char *name, bool *out)
{
    const json_t *v = json_object_get(doc, name);

    if (v != NULL && !json_is_boolean(v))
        return fault_set(&q->fault, S3_InvalidArgument, "\"%s\" is true or false", name);
    *out = v != NULL ? json_is_true(v) : *out;
    return ERR_OK;
}

enum err
admin_is_dry(struct request *q, json_t *doc, bool *dry)
{
    enum err rc;

    *dry = false;
    rc = admin_flag_of(q, doc, "dry_run", dry);
    (void)json_object_del(doc, "dry_run");
    return rc;
}

enum err
admin_read_bucket(struct request *q, size_t limit, json_t **doc)
{
    struct span name = span_from(q->http->head->path, strlen("/_/buckets/"));
    const struct map_bucket *b = map_bucket_find(map_now(q->api->options.map), name);

    *doc = NULL;
    if (b == NULL) {
        q->name.bucket = name;
        return fault_set(&q->fault, S3_NoSuchBucket, NULL);
    }
    q->bucket = map_bucket_ref(b);
    return admin_read_object(q, limit, doc);
}

enum err
admin_bucket_attach(struct request *q)
{
    struct attach at = {0};
    json_t *doc = NULL;
    enum err rc = admin_read_object(q, ATTACH_BODY_MAX, &doc);

    if (rc == ERR_OK)
        rc = admin_is_dry(q, doc, &at.dry);
    if (rc == ERR_OK)
        rc = read_attach(q, doc, &at);
    if (rc == ERR_OK)
        rc = admin_bucket_attach_one(q, &at);
    admin_bucket_wipe(at.keys.secret_key); /* they are the document's */
    admin_bucket_wipe(at.keys.session_token);
    json_decref(doc);
    return rc;
}
