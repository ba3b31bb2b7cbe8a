/* api_rig: everything of a node behind one port, in one program: disk, buckets, backends, users, the API and its
 * server, and a client that asks it. In the simulator (`path` "/disk") or on a real engine (a temporary folder). */
#pragma once
#include "check.h"

#include "api/api.h"
#include "base/buf.h"
#include "base/mem.h"
#include "http/client.h"
#include "rt/loop.h"

struct site {
    /* Given. */
    const char *path;
    bool auth_required, bench_objects;
    struct span token_key;
    struct nodes *nodes; /* borrowed; NULL: alone */
    uint64_t epoch, block_cache_bytes;
    struct http_server_options http_options;
    struct http_client_options client_options;
    /* Open. */
    struct rt_dir *dir, *meta_dir, *secrets;
    struct meta *meta;
    struct disks *disks;
    struct map_service *map;
    struct cloud *cloud;
    struct object_service *object;
    struct job_service *jobs;
    struct auth *auth;
    struct api *api;
    struct http_server *server;
    struct http_client *client;
    uint16_t port;
    struct errbuf eb;
};

static inline enum err
site_folder(struct site *s, const char *name, struct rt_dir **out)
{
    enum err rc = rt_dir_make(s->dir, name, 0700, &s->eb);

    return rc == ERR_OK || rc == ERR_EXISTS ? rt_dir_open_at(s->dir, name, out, &s->eb)
                                            : rc;
}

static inline enum err
site_open_state(struct site *s)
{
    struct store_options d = {.cluster_id = {7},
                              .node = 1,
                              .epoch = s->epoch + 1,
                              .block_cache_bytes = s->block_cache_bytes};
    struct auth_options a = {.required = s->auth_required, .clear_text_ok = true};
    enum err rc = rt_dir_open(s->path, &s->dir, &s->eb);

    if (rc == ERR_OK)
        rc = site_folder(s, "meta", &s->meta_dir);
    if (rc == ERR_OK)
        rc = site_folder(s, "secrets", &s->secrets);
    if (rc == ERR_OK)
        rc = meta_open_embedded(s->meta_dir, &s->meta, &s->eb);
    if (rc == ERR_OK)
        rc = disks_open_one(s->path, &d, &s->disks, &s->eb);
    if (rc == ERR_OK)
        rc = auth_new(&a, &s->auth, &s->eb);
    if (rc == ERR_OK)
        rc = auth_make_first(s->auth, s->dir, "credentials", &s->eb);
    if (rc == ERR_OK)
        rc = auth_load_meta(s->auth, s->meta, &s->eb);
    return rc == ERR_OK ? map_start(s->meta, &s->map, &s->eb) : rc;
}

static inline enum err
site_open_services(struct site *s)
{
    struct cloud_options c = {.secrets = s->secrets,
                              .state = s->dir,
                              .retries = 2,
                              .retry_ms = 500,
                              .timeout_ms = 2000};
    struct object_options o = {
        .disks = s->disks, .map = s->map, .node = 1, .nodes = s->nodes};
    struct job_options j = {.meta = s->meta, .map = s->map, .node = 1, .epoch = 1};
    struct api_options a = {.auth = s->auth,
                            .map = s->map,
                            .disks = s->disks,
                            .meta = s->meta,
                            .dot = s->dir,
                            .secrets = s->secrets,
                            .bench_objects = s->bench_objects,
                            .token_key = s->token_key,
                            .nodes = s->nodes,
                            .block_cache_bytes = s->block_cache_bytes};
    enum err rc = cloud_start(&c, &s->cloud, &s->eb);

    o.cloud = a.cloud = s->cloud;
    if (rc == ERR_OK)
        rc = object_start(&o, &s->object, &s->eb);
    a.object = s->object;
    j.object = s->object;
    j.cloud = s->cloud;
    if (rc == ERR_OK)
        rc = job_start(&j, &s->jobs, &s->eb);
    a.jobs = s->jobs;
    if (rc == ERR_OK)
        rc = api_new(&a, &s->api, &s->eb);
    return rc;
}

/* What is open when it fails is closed by site_close(). */
static inline enum err
site_open(struct site *s)
{
    struct http_handler handler;
    enum err rc = site_open_state(s);

    if (rc == ERR_OK)
        rc = site_open_services(s);
    if (rc != ERR_OK)
        return rc;
    api_handler(s->api, &handler);
    rc = http_server_new(&s->http_options, &handler, &s->server, &s->eb);
    if (rc == ERR_OK)
        rc = http_server_listen(s->server, "127.0.0.1", 0, NULL, &s->port, &s->eb);
    if (rc == ERR_OK)
        rc = http_client_new(&s->client_options, &s->client, &s->eb);
    if (rc == ERR_OK)
        api_set_ready(s->api, true);
    return rc;
}

static inline void
site_close(struct site *s)
{
    struct rt_shield shield;

    rt_shield_begin(&shield);
    http_client_free(&s->client);
    job_halt(s->jobs);
    if (s->object != NULL)
        object_end_fetches(s->object);
    if (s->server != NULL)
        http_server_stop(&s->server);
    job_stop(&s->jobs);
    object_stop(&s->object);
    api_free(&s->api);
    cloud_stop(&s->cloud);
    map_stop(&s->map);
    auth_free(&s->auth);
    disks_close(&s->disks);
    meta_close(&s->meta);
    rt_dir_close(&s->secrets);
    rt_dir_close(&s->meta_dir);
    rt_dir_close(&s->dir);
    rt_shield_end(&shield);
}

/* ---- asking ---- */

struct ask {
    const char *method, *target;
    struct span body;            /* at NULL: none */
    const struct field *headers; /* at most 8 */
    size_t header_count;
    const char *host; /* NULL: 127.0.0.1 and the port */
};

/* The status, 0 when no whole answer came; its body in *out, which the caller frees. */
static inline int
site_ask(struct site *s, const struct ask *q, struct buf *out)
{
    struct http_call_request req = {.host = "127.0.0.1",
                                    .port = s->port,
                                    .method = q->method,
                                    .target = span_of(q->target),
                                    .host_header = span_of(q->host),
                                    .headers = {q->headers, q->header_count},
                                    .length = q->body.at != NULL ? (int64_t)q->body.len
                                                                 : HTTP_NO_BODY,
                                    .by = deadline_in_ms(PATIENCE_MS)};
    int status = 0;
    enum err rc;

    buf_init(out, 64u << 20);
    s->eb = (struct errbuf){{0}};
    rc = http_call_simple(s->client, &req, q->body, &status, out, NULL, NULL, &s->eb);
    buf_putc(out, '\0'); /* for strstr */
    out->len--;
    return rc == ERR_OK ? status : 0;
}

/* The same; only the status is wanted. */
static inline int
site_status(struct site *s, const struct ask *q)
{
    struct buf out;
    int status = site_ask(s, q, &out);

    buf_fini(&out);
    return status;
}
