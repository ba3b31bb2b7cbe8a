/* make: buckets created, destroyed, attached, evicted and listed. */
#include <stdlib.h>
#include <string.h>

#include "api/ais/documents.h"
#include "api/ais/ops.h"
#include "api/merge.h"
#include "api/node_ask.h"
#include "base/log.h"
#include "base/mem.h"
#include "object/evict.h"
#include "rt/fiber.h"
#include "wire/s3xml.h"

#define GCS_ENDPOINT "https://storage.googleapis.com"

/* ---- create ---- */

/* value.extra.PROVIDER.NAME */
static const char *
extra_text(const struct request *q, const char *provider, const char *name)
{
    const json_t *extra = ais_member(q->ais->value, "extra");
    const char *text = json_string_value(ais_member(ais_member(extra, provider), name));

    return text != NULL && text[0] != '\0' ? text : NULL;
}

static char *
arena_text(struct request *q, const char *text)
{
    return text != NULL ? arena_strdup(q->arena, span_of(text)) : NULL;
}

/* "http://host/path/" is the endpoint "http://host" and the path there. */
static void
split_url(struct request *q, const char *url, struct map_backend *out)
{
    const char *host = strstr(url, "://"), *path;
    size_t len;

    host = host != NULL ? host + 3 : url;
    path = strchr(host, '/');
    len = path != NULL ? (size_t)(path - url) : strlen(url);
    out->endpoint = arena_strdup(q->arena, (struct span){url, len});
    while (path != NULL && *path == '/')
        path++;
    len = path != NULL ? strlen(path) : 0;
    while (len > 0 && path[len - 1] == '/')
        len--;
    out->bucket = arena_strdup(q->arena, (struct span){len > 0 ? path : "", len});
}

/* Where a remote bucket is: as the properties say, else as this server's environment. */
static enum err
take_backend(struct request *q, const struct ais_bucket *at, struct map_backend *out)
{
    enum map_provider p = at->provider;
    const char *provider = map_provider_name(p);
    const char *endpoint = extra_text(q, provider, "endpoint");
    const char *url = extra_text(q, "http", "original_url");

    if (endpoint == NULL && p == MAP_AWS)
        endpoint = getenv("AWS_ENDPOINT_URL_S3") != NULL ? getenv("AWS_ENDPOINT_URL_S3")
                   : getenv("AWS_ENDPOINT_URL") != NULL  ? getenv("AWS_ENDPOINT_URL")
                                                         : getenv("S3_ENDPOINT");
    if (endpoint == NULL && p == MAP_GCP)
        endpoint = GCS_ENDPOINT;
    if (p == MAP_HTTP && url != NULL)
        endpoint = url;
    if (endpoint == NULL && p != MAP_AWS)
        return ais_fault(q, 400, NULL,
                         "bucket \"%s\": say where it is in the property extra.%s.%s",
                         at->text, p == MAP_HTTP ? "http" : provider,
                         p == MAP_HTTP ? "original_url" : "endpoint");
    *out = (struct map_backend){
        .endpoint = arena_text(q, endpoint),
        .region = arena_text(q, extra_text(q, provider, "cloud_region")),
        .bucket = arena_strdup(q->arena, p == MAP_HTTP ? SPAN("") : at->name),
        .path_style = endpoint != NULL,
        .plain_http = p == MAP_HTTP,
    };
    if (p == MAP_HTTP) {
        out->credentials = arena_text(q, "");
        split_url(q, endpoint, out);
    }
    return ERR_OK;
}

static enum err
already_exists(struct request *q)
{
    return ais_fault(q, 409, "ErrBucketAlreadyExists", "bucket \"%s\" already exists",
                     q->ais->bucket.text);
}

static enum err
make_one(struct request *q, const struct ais_bucket *b, const struct map_backend *backend)
{
    struct map_bucket_id id = {.provider = b->provider,
                               .ns = b->ns,
                               .name = b->name,
                               .qualified = !span_eq(b->uname, b->name)};
    const struct map_bucket *made = NULL;
    struct errbuf eb = {{0}};
    enum err rc = make_bucket_as(q, &id, backend, NULL, &made, &eb);

    map_bucket_drop(&made);
    if (rc == ERR_EXISTS)
        return already_exists(q);
    return rc == ERR_OK ? ERR_OK : ais_fault_from(q, rc, &eb);
}

enum err
ais_make_bucket(struct request *q, const struct ais_bucket *b)
{
    if (b->provider != MAP_AIS || b->elsewhere)
        return ais_no_bucket(q, b);
    return make_one(q, b, NULL);
}

/* The bucket of the request is what is kept here of the remote one `at`: of itself, or of the one in "backend_bck". */
static enum err
attach_remote(struct request *q, const struct ais_bucket *at)
{
    char region[CLOUD_REGION_TEXT] = "";
    struct map_backend backend;
    struct errbuf eb = {{0}};
    enum err rc = take_backend(q, at, &backend);

    if (rc != ERR_OK)
        return rc;
    rc = cloud_probe(q->api->options.cloud, &backend, region, &eb);
    if (rc == ERR_NOT_FOUND || rc == ERR_NO_BUCKET)
        return ais_no_bucket(q, at);
    if (rc == ERR_DENIED)
        return ais_fault(q, 403, NULL, "the remote denies access: %s", eb.text);
    if (rc != ERR_OK)
        return ais_fault(q, 400, NULL, "the remote of bucket \"%s\": %s", at->text,
                         eb.text);
    if (region[0] != '\0')
        backend.region = region;
    return make_one(q, &q->ais->bucket, &backend);
}

/* value.backend_bck of a native bucket; without a name there is none. */
static enum err
take_backend_bucket(struct request *q, struct ais_bucket *at)
{
    const json_t *of = ais_member(q->ais->value, "backend_bck");
    const char *name = json_string_value(ais_member(of, "name"));
    enum err rc;

    *at = q->ais->bucket;
    if (name == NULL || name[0] == '\0')
        return ERR_OK;
    if (q->ais->bucket.provider != MAP_AIS)
        return ais_fault(q, 400, NULL,
                         "bucket \"%s\": only one of the provider ais has a "
                         "backend_bck",
                         q->ais->bucket.text);
    rc = ais_bucket_json(q, of, at);
    if (rc == ERR_OK && at->provider == MAP_AIS)
        rc = ais_fault(q, 400, NULL, "backend bucket \"%s\" must be remote", at->text);
    return rc;
}

enum err
ais_create_bucket(struct request *q)
{
    const struct ais_bucket *b = &q->ais->bucket;
    const struct map_bucket *now;
    struct ais_bucket at;
    enum err rc = ais_check_props(q, q->ais->value);

    if (rc == ERR_OK)
        rc = take_backend_bucket(q, &at);
    if (rc != ERR_OK)
        return rc;
    if (b->elsewhere)
        return ais_fault(q, 400, NULL, "bucket \"%s\" is of another cluster", b->text);
    now = map_bucket_find(map_now(q->api->options.map), b->uname);
    if (now != NULL && now->provider == b->provider)
        return already_exists(q);
    rc = at.provider == MAP_AIS ? make_one(q, b, NULL) : attach_remote(q, &at);
    if (rc == ERR_OK && json_object_size(q->ais->value) > 0) {
        rc = ais_bucket_find(q, b, &q->bucket);
        if (rc == ERR_OK)
            rc = ais_set_props(q, q->ais->value);
    }
    return rc == ERR_OK ? ais_answer_empty(q, 200) : rc;
}

/* ---- destroy ---- */

#define DELETES_A_TIME 256u
#define DELETE_FIBERS  32u

/* Names to delete, which a few fibers share: each delete waits for the disk, and they commit together. */
struct purge {
    struct request *q;
    struct object_page page;
    uint32_t next;
    enum err rc;
    struct errbuf eb;
};

/* Here, or at the node that owns it. */
static enum err
purge_key(struct request *q, struct span key, struct errbuf *eb)
{
    struct s3xml_delete_item item = {.key = key};
    struct object_deleted done;
    struct nodes_route to;
    struct fault fault = {0};
    char address[MAP_NODE_TEXT_MAX + 1];
    enum err rc = nodes_route(q->api->options.nodes, q->bucket, key, &to, eb);

    if (rc != ERR_OK)
        return rc;
    if (to.here)
        return object_delete(q->api->options.object, q->bucket, key, eb);
    snprintf(address, sizeof address, "%s", to.address); /* the snapshot may go */
    to.address = address;
    rc = node_ask_delete(q, &to, &item, &done, &fault);
    return rc == ERR_OK ? rc : err_set(eb, rc, "%s", fault.message);
}

static void
purge_fiber(void *arg)
{
    struct purge *p = arg;

    while (p->rc == ERR_OK && p->next < p->page.count) {
        struct span key = p->page.entries[p->next++].name;
        struct errbuf eb = {{0}};
        enum err rc = purge_key(p->q, key, &eb);

        if (rc != ERR_OK && rc != ERR_NOT_FOUND && p->rc == ERR_OK) {
            p->rc = rc;
            p->eb = eb;
        }
    }
}

static enum err
delete_page(struct purge *p)
{
    struct rt_group group;
    enum err rc = ERR_OK;

    p->next = 0;
    rt_group_begin(&group);
    for (unsigned i = 0; i < DELETE_FIBERS && i < p->page.count && rc == ERR_OK; i++)
        rc = rt_group_start(&group, purge_fiber, p);
    purge_fiber(p); /* this one helps: all is done even where no other could start */
    rt_group_join(&group);
    return p->rc;
}

/* Every object of a native bucket, older versions too: only then it may go. */
static enum err
purge_bucket(struct request *q, struct errbuf *eb)
{
    struct object_list_options o = {.max = DELETES_A_TIME};
    struct purge p = {.q = q};
    struct arena *a = arena_new(KIB(64), WORK_BYTES_MAX);
    bool more = true;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && more) {
        arena_reset(a);
        rc = merge_list(q, q->bucket, &o, a, &p.page, eb);
        more = rc == ERR_OK && p.page.count > 0;
        if (more)
            rc = delete_page(&p);
        if (p.rc != ERR_OK)
            *eb = p.eb;
    }
    arena_free(&a);
    return rc;
}

enum err
ais_remove_bucket(struct request *q)
{
    struct map_service *map = q->api->options.map;
    struct span uname = span_of(q->bucket->uname);
    struct errbuf eb = {{0}};
    enum err rc = ERR_OK;

    /* Deletes of a closing bucket are possible, writes are not: nothing comes after what is deleted. */
    if (!q->bucket->cached && !q->bucket->closing)
        rc = map_bucket_set_closing(map, q->bucket, true, &eb);
    if (rc == ERR_OK && !q->bucket->cached)
        rc = purge_bucket(q, &eb);
    if (rc == ERR_OK)
        rc = bucket_close_everywhere(q, q->bucket, &eb);
    if (rc == ERR_OK) {
        rc = map_bucket_remove(map, uname, q->bucket->id, &eb);
        if (rc != ERR_OK && rc != ERR_NO_BUCKET)
            bucket_reopen_everywhere(q, q->bucket);
    }
    AUDIT_CHANGE(q, "bucket.delete", rc, L_SPAN("bucket", uname));
    if (rc != ERR_OK)
        return ais_fault_from(q, rc, &eb);
    if (q->bucket->cached)
        cloud_credentials_remove(q->api->options.cloud, q->bucket->backend.credentials);
    return ERR_OK;
}

enum err
ais_destroy_bucket(struct request *q)
{
    enum err rc = ais_remove_bucket(q);

    return rc == ERR_OK ? ais_answer_empty(q, 200) : rc;
}

/* What is cached of a remote bucket goes; the bucket too, unless the client keeps it. */
enum err
ais_evict_bucket(struct request *q)
{
    struct object_evicting *e;
    struct errbuf eb = {{0}};
    enum err rc = ERR_OK;

    if (!q->bucket->cached)
        return ais_fault(q, 400, NULL,
                         "bucket \"%s\" is not remote: evicting would lose its objects",
                         q->ais->bucket.text);
    if (!ais_query_flag(q, "keep_bck_md"))
        return ais_destroy_bucket(q);
    e = xcalloc(1, sizeof *e);
    e->prefix = SPAN("");
    while (rc == ERR_OK && !e->over)
        rc = object_evict_page(q->api->options.object, q->bucket, e, &eb);
    free(e);
    return rc == ERR_OK ? ais_answer_empty(q, 200) : ais_fault_from(q, rc, &eb);
}

/* ---- list, head ---- */

static bool
is_listed(const struct request *q, const struct map_bucket *b, bool any,
          enum map_provider p)
{
    return !b->closing && (any || b->provider == p) &&
           (q->ais->name[0] == '\0' || strcmp(q->ais->name, b->name) == 0) &&
           caller_has_any_right(q, span_of(b->uname));
}

enum err
ais_list_buckets(struct request *q)
{
    const struct map *m =
        map_now(q->api->options.map); /* no switch until it is written */
    struct span provider = query_get(&q->query, "provider");
    bool outside = span_is(query_get(&q->query, "presence"), "5");
    enum map_provider p = MAP_AIS;
    struct ais_document d;

    if (!ais_provider_of(provider, &p))
        return ais_fault(q, 400, NULL,
                         "provider \"%.*s\": it is one of ais, aws, gcp, azure, oci, ht",
                         (int)MIN(provider.len, 40u), provider.at);
    ais_document_begin(&d);
    json_open_array(&d.j, NULL);
    for (uint32_t i = 0; i < map_bucket_count(m) && !outside; i++)
        if (is_listed(q, map_bucket_at(m, i), provider.len == 0, p))
            ais_bucket_put(&d.j, NULL, map_bucket_at(m, i));
    json_end(&d.j);
    return ais_document_answer(q, &d);
}

void
ais_put_props_header(struct request *q)
{
    struct buf text;
    struct json j;

    buf_init(&text, KIB(12));
    json_begin(&j, &text);
    ais_put_props(q, &j, NULL, q->bucket);
    http_header(q->http, "ais-bucket-props", buf_span(&text));
    if (q->bucket->cached) {
        http_header(q->http, "ais-provider",
                    span_of(map_provider_name(q->bucket->provider)));
        http_header(q->http, "ais-versioning-enabled", SPAN("false"));
    }
    buf_fini(&text);
}

enum err
ais_head_bucket(struct request *q)
{
    if (q->ais->object.len > 0)
        return ais_fault(q, 400, NULL, "a prefix needs bsumm_remote");
    ais_put_props_header(q);
    return ais_answer_empty(q, 200);
}
