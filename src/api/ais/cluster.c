/* cluster: health, and the documents of the cluster: its map, its buckets, what it is attached to. One node is the gateway
 * and the only target, with an id each: clients want both lists filled, and the ids to differ. */
#include "api/ais/ais.h"
#include "api/ais/documents.h"
#include "api/ais/ops.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/num.h"
#include "rt/time.h"

#define ID_SEED 1103515245u /* of clients that compute the target of an object */

/* 8 letters and digits out of a hash. */
static void
id_of(const uint8_t cluster[16], uint64_t seed, size_t len, char *out)
{
    static const char digits[] =
        "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789";
    uint64_t hash = hash_xxh3(cluster, 16, seed);

    for (size_t i = 0; i < len; i++) {
        out[i] = digits[hash % (sizeof digits - 1)];
        hash /= sizeof digits - 1;
    }
    out[len] = '\0';
}

void
ais_ids(const struct api *a, struct ais_ids *out)
{
    uint64_t node = a->options.node;

    id_of(a->options.cluster_id, 1 + 2 * node, AIS_ID_TEXT - 1, out->gateway);
    id_of(a->options.cluster_id, 2 + 2 * node, AIS_ID_TEXT - 1, out->target);
    id_of(a->options.cluster_id, 0, sizeof out->cluster - 2, out->cluster);
}

/* ---- addresses ---- */

/* "HOST:PORT" by which this client reaches us: as configured, else as it has just done. */
static struct span
own_address(const struct request *q)
{
    const char *advertise = q->api->options.advertise;

    return advertise != NULL && advertise[0] != '\0' ? span_of(advertise)
                                                     : q->http->head->host;
}

static void
put_address(struct json *j, const char *key, const struct request *q)
{
    struct span address = own_address(q), host = address, port = SPAN("");
    const char *scheme = q->http->is_tls ? "https" : "http";

    for (size_t i = address.len; i > 0 && address.at[i - 1] != ']'; i--)
        if (address.at[i - 1] == ':') {
            host.len = i - 1;
            port = span_from(address, i);
            break;
        }
    if (port.len == 0)
        port = q->http->is_tls ? SPAN("443") : SPAN("80");
    json_open_object(j, key);
    json_span(j, "node_ip_addr", host);
    json_span(j, "daemon_port", port);
    json_text(j, "direct_url",
              arena_printf(q->arena, "%s://%.*s", scheme, SPAN_ARG(address)));
    json_end(j);
}

void
ais_put_snode(struct json *j, const char *key, const struct request *q, bool target)
{
    static const char *const nets[] = {"public_net", "intra_control_net",
                                       "intra_data_net"};
    struct ais_ids ids;
    const char *id = target ? ids.target : ids.gateway;

    ais_ids(q->api, &ids);
    json_open_object(j, key);
    for (size_t i = 0; i < ARRAY_LEN(nets); i++)
        put_address(j, nets[i], q);
    json_text(j, "daemon_type", target ? "target" : "proxy");
    json_text(j, "daemon_id", id);
    json_u64(j, "flags", target ? 0 : 2);
    json_u64(j, "id_digest", hash_xxh64(id, strlen(id), ID_SEED));
    json_end(j);
}

/* "2026-08-19 10:00:00", of the oldest bucket: a cluster has no other date. */
static const char *
created_text(struct request *q)
{
    const struct map *m = map_now(q->api->options.map);
    int64_t first = (int64_t)(rt_wall_ns() / 1000000u);
    char date[NUM_DATE_TEXT];

    for (uint32_t i = 0; i < map_bucket_count(m); i++)
        first = MIN(first, map_bucket_at(m, i)->created_ms);
    date_iso(first, date);
    return arena_printf(q->arena, "%.10s %.8s", date, date + 11);
}

static void
put_smap(struct request *q, struct json *j, const char *key)
{
    struct ais_ids ids;

    ais_ids(q->api, &ids);
    json_open_object(j, key);
    json_open_object(j, "pmap");
    ais_put_snode(j, arena_printf(q->arena, "%s", ids.gateway), q, false);
    json_end(j);
    ais_put_snode(j, "proxy_si", q, false);
    json_open_object(j, "tmap");
    ais_put_snode(j, arena_printf(q->arena, "%s", ids.target), q, true);
    json_end(j);
    json_text(j, "uuid", ids.cluster);
    json_text(j, "creation_time", created_text(q));
    json_text(j, "version", "3");
    json_put_null(j, "ext");
    json_end(j);
}

/* ---- health ---- */

static void
put_node_state(struct request *q, struct json *j, const char *key)
{
    struct ais_ids ids;
    const char *url =
        arena_printf(q->arena, "%s://%.*s", q->http->is_tls ? "https" : "http",
                     SPAN_ARG(own_address(q)));

    ais_ids(q->api, &ids);
    json_open_object(j, key);
    json_open_object(j, "smap");
    json_open_object(j, "Primary");
    json_text(j, "pub_url", url);
    json_text(j, "control_url", url);
    json_text(j, "id", ids.gateway);
    json_end(j);
    json_text(j, "uuid", ids.cluster);
    json_text(j, "version", "3");
    json_end(j);
    json_open_object(j, "bmd");
    json_text(j, "uuid", ids.cluster);
    ais_put_number(j, "version", map_serial(map_now(q->api->options.map)));
    json_end(j);
    for (size_t i = 0; i < 3; i++) {
        static const char *const names[] = {"rmd", "config", "etlmd"};

        json_open_object(j, names[i]);
        json_text(j, "version", "1");
        json_end(j);
    }
    json_u64(j, "flags", 6); /* the cluster and the node have started, nothing is wrong */
    json_end(j);
}

void
ais_put_node_state(struct request *q, struct json *j, const char *key)
{
    put_node_state(q, j, key);
}

enum err
ais_health(struct request *q)
{
    struct ais_document d;
    uint64_t uptime = rt_now_ns() - q->api->began_ns;

    if (!atomic_load(&q->api->ready) || q->http->draining) {
        request_put_ids(q);
        http_reply(q->http, 503, (struct span){"", 0}); /* empty: clients come again */
        return ERR_OK;
    }
    http_header_u64(q->http, "ais-node-uptime", uptime);
    http_header_u64(q->http, "ais-cluster-uptime", uptime);
    if (!ais_query_flag(q, "cii"))
        return ais_answer_empty(q, 200);
    ais_document_begin(&d);
    put_node_state(q, &d.j, NULL);
    return ais_document_answer(q, &d);
}

/* ---- the buckets of the cluster ---- */

/* As BMD: provider -> namespace -> bucket -> properties. */
static void
put_buckets_of(struct request *q, struct json *j, enum map_provider p)
{
    const struct map *m =
        map_now(q->api->options.map); /* no switch until it is written */
    uint32_t count = map_bucket_count(m);

    for (uint32_t i = 0; i < count; i++) {
        const struct map_bucket *first = map_bucket_at(m, i);
        bool seen = first->provider != p;

        for (uint32_t k = 0; k < i && !seen; k++)
            seen = map_bucket_at(m, k)->provider == p &&
                   strcmp(map_bucket_at(m, k)->ns, first->ns) == 0;
        if (seen)
            continue;
        json_open_object(j, arena_printf(q->arena, "@#%s", first->ns));
        for (uint32_t k = i; k < count; k++) {
            const struct map_bucket *b = map_bucket_at(m, k);

            if (b->provider == p && strcmp(b->ns, first->ns) == 0 && !b->closing)
                ais_put_props(q, j, b->name, b);
        }
        json_end(j);
    }
}

static enum err
show_bmd(struct request *q)
{
    struct ais_document d;
    struct ais_ids ids;
    const struct map *m = map_now(q->api->options.map);

    ais_ids(q->api, &ids);
    ais_document_begin(&d);
    json_open_object(&d.j, NULL);
    json_open_object(&d.j, "providers");
    for (unsigned p = 0; p < MAP_PROVIDERS_; p++) {
        bool any = p == MAP_AIS;

        for (uint32_t i = 0; i < map_bucket_count(m) && !any; i++)
            any = map_bucket_at(m, i)->provider == p;
        if (!any)
            continue;
        json_open_object(&d.j, map_provider_name((enum map_provider)p));
        put_buckets_of(q, &d.j, (enum map_provider)p);
        json_end(&d.j);
    }
    json_end(&d.j);
    json_text(&d.j, "uuid", ids.cluster);
    ais_put_number(&d.j, "version", map_serial(m));
    json_put_null(&d.j, "ext");
    json_end(&d.j);
    return ais_document_answer(q, &d);
}

static enum err
show_smap(struct request *q)
{
    struct ais_document d;

    ais_document_begin(&d);
    put_smap(q, &d.j, NULL);
    return ais_document_answer(q, &d);
}

static enum err
show_snode(struct request *q)
{
    struct ais_document d;

    ais_document_begin(&d);
    ais_put_snode(&d.j, NULL, q, ais_asks_target(q));
    return ais_document_answer(q, &d);
}

/* Remote clusters that are attached: none. */
static enum err
show_remote(struct request *q)
{
    struct ais_document d;

    ais_document_begin(&d);
    json_open_object(&d.j, NULL);
    json_put_null(&d.j, "a");
    json_u64(&d.j, "ver", 0);
    json_end(&d.j);
    return ais_document_answer(q, &d);
}

/* The providers that buckets can be attached of. */
static enum err
show_backends(struct request *q)
{
    struct ais_document d;

    ais_document_begin(&d);
    json_open_array(&d.j, NULL);
    for (unsigned p = MAP_AWS; p < MAP_PROVIDERS_; p++)
        json_text(&d.j, NULL, map_provider_name((enum map_provider)p));
    json_end(&d.j);
    return ais_document_answer(q, &d);
}

static enum err
show_addresses(struct request *q)
{
    return ais_answer_text(q, 200, own_address(q));
}

static enum err
show_version(struct request *q)
{
    return ais_answer_text(q, 200, SPAN(AIS_VERSION_TEXT));
}

/* ---- which document ---- */

bool
ais_asks_target(const struct request *q)
{
    struct span id = fields_get(http_fields(q->http->head), "ais-node-id");
    struct ais_ids ids;

    ais_ids(q->api, &ids);
    return q->ais->place == AIS_REVERSE && span_is(id, ids.target);
}

enum err
ais_check_node(struct request *q)
{
    struct span id = fields_get(http_fields(q->http->head), "ais-node-id");
    struct ais_ids ids;

    ais_ids(q->api, &ids);
    if (span_is(id, ids.target) || span_is(id, ids.gateway))
        return ERR_OK;
    return ais_fault(q, 404, "errNodeNotFound",
                     "errNodeNotFound: node \"%.*s\" is not in the cluster map",
                     (int)MIN(id.len, 64u), id.at);
}

struct document {
    const char *what;
    ais_operation *show;
};
static const struct document of_cluster[] = {
    {"smap", show_smap},
    {"bmd", show_bmd},
    {"snode", show_snode},
    {"smapvote", show_smap},
    {"cluster_config", ais_show_cluster_config},
    {"sysinfo", ais_show_cluster_sysinfo},
    {"node_stats", ais_show_cluster_stats},
    {"mountpaths", ais_show_cluster_mountpaths},
    {"backends", show_backends},
    {"remote", show_remote},
    {"target_ips", show_addresses},
};
static const struct document of_node[] = {
    {"smap", show_smap},
    {"bmd", show_bmd},
    {"snode", show_snode},
    {"config", ais_show_node_config},
    {"node_stats", ais_show_node_stats},
    {"node_status", ais_show_node_status},
    {"sysinfo", ais_show_node_sysinfo},
    {"metrics", ais_show_metric_names},
    {"mountpaths", ais_show_mountpaths},
    {"disk", ais_show_disks},
    {"software_version", show_version},
    {"log", ais_show_log},
    {"tls_certificate", ais_show_certificate},
};

static enum err
show_document(struct request *q, const struct document *at, size_t count)
{
    struct span what = query_get(&q->query, "what");

    for (size_t i = 0; i < count; i++)
        if (span_is(what, at[i].what))
            return at[i].show(q);
    return ais_fault(q, 400, NULL, "invalid \"what=%.*s\": there is no such document",
                     (int)MIN(what.len, 64u), what.at != NULL ? what.at : "");
}

enum err
ais_show_node(struct request *q)
{
    enum err rc = q->ais->place == AIS_REVERSE ? ais_check_node(q) : ERR_OK;

    return rc == ERR_OK ? show_document(q, of_node, ARRAY_LEN(of_node)) : rc;
}

enum err
ais_show_cluster(struct request *q)
{
    return show_document(q, of_cluster, ARRAY_LEN(of_cluster));
}

bool
ais_what_at(bool cluster, size_t index, const char **what)
{
    size_t count = cluster ? ARRAY_LEN(of_cluster) : ARRAY_LEN(of_node);

    if (index >= count)
        return false;
    *what = cluster ? of_cluster[index].what : of_node[index].what;
    return true;
}
