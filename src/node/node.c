#include "node/node.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "node/internal.h"
#include "node/offline.h"
#include "node/state_lost.h"

#define TOKEN_KEY_MAX   4096u
#define TOKEN_KEY_LEAST 8u

static bool
node_is_loopback(const char *addr)
{
    struct in6_addr v6;
    struct in_addr v4;

    if (strncmp(addr, "unix:", 5) == 0)
        return true;
    if (inet_pton(AF_INET, addr, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, addr, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

static enum err
check_options(const struct node_options *o, struct errbuf *eb)
{
    if ((o->live.tls_cert != NULL) != (o->live.tls_key != NULL))
        return err_set(eb, ERR_BAD_REQUEST,
                       "TLS needs both a certificate and its key: --tls-cert and "
                       "--tls-key");
    if (!node_is_loopback(o->addr) && o->live.tls_cert == NULL && !o->insecure_http)
        return err_set(
            eb, ERR_DENIED,
            "%s is not a loopback address: without TLS keys and data would cross the "
            "network in the clear. Give --tls-cert and --tls-key (forebay tls selfsign "
            "makes a pair), or listen on 127.0.0.1, or add --insecure-http if that is "
            "what you want",
            o->addr);
    return ERR_OK;
}

static enum err
node_open_state(struct node *n)
{
    enum err rc = node_find_state(n);

    if (rc == ERR_OK)
        rc = node_folders_open(n->state_path, &n->folders, &n->eb);
    if (rc == ERR_OK)
        rc = node_check_restored(n->folders.dot, n->state_path, &n->eb);
    if (rc == ERR_OK)
        rc = node_cluster_check(n);
    if (n->o->cluster.etcd != NULL)
        return rc == ERR_OK ? node_cluster_open(n) : rc;
    if (rc == ERR_OK)
        rc = identity_start(n->folders.state, n->state_path, &n->id, &n->eb);
    if (rc == ERR_OK)
        rc = meta_open_embedded(n->folders.meta, &n->meta, &n->eb);
    if (rc == ERR_OK)
        meta_after(n->meta, node_state_changed, n);
    return rc;
}

static enum err
open_users(struct node *n)
{
    struct auth_options a = {
        .required = n->o->auth || !node_is_loopback(n->o->addr),
        .clear_text_ok = node_is_loopback(n->o->addr) || n->o->insecure_http,
        .sealing = n->members != NULL ? &n->sealing : NULL,
    };
    unsigned mode;
    enum err rc = auth_new(&a, &n->auth, &n->eb);

    if (rc != ERR_OK)
        return rc;
    n->keys_made =
        rt_dir_mode(n->folders.dot, NODE_CREDENTIALS, &mode, NULL) == ERR_NOT_FOUND;
    n->credentials_path = xasprintf("%s/.forebay/" NODE_CREDENTIALS, n->state_path);
    rc = node_load_users(n, n->auth, n->o->live.credentials, &n->eb);
    n->credentials_whole = realpath(n->credentials_path, NULL);
    return rc == ERR_OK ? auth_load_meta(n->auth, n->meta, &n->eb) : rc;
}

/* Without the line end that editors leave. */
static enum err
load_token_key(struct node *n, struct span *out)
{
    size_t len;
    enum err rc;

    if (n->o->token_key_file == NULL)
        return ERR_OK;
    rc =
        rt_private_load(n->o->token_key_file, TOKEN_KEY_MAX, &n->token_key, &len, &n->eb);
    if (rc != ERR_OK) {
        err_prefix(&n->eb, "ais.token_key_file");
        return rc;
    }
    n->token_key_len = len;
    while (len > 0 && (n->token_key[len - 1] == '\n' || n->token_key[len - 1] == '\r'))
        len--;
    if (len < TOKEN_KEY_LEAST)
        return err_set(
            &n->eb, ERR_BAD_REQUEST,
            "ais.token_key_file \"%s\": a key of %zu bytes, at least %u are needed",
            n->o->token_key_file, len, TOKEN_KEY_LEAST);
    *out = (struct span){n->token_key, len};
    return ERR_OK;
}

static enum err
open_services(struct node *n)
{
    struct cloud_options c = n->o->backend;
    struct object_options ob = {.cache_budget = n->o->cache_budget,
                                .cache_high = n->o->cache_high,
                                .readahead = n->o->readahead,
                                .large_bytes = n->o->cache_large,
                                .chunk_bytes = (uint32_t)n->o->cache_chunk,
                                .cache_low = n->o->cache_low,
                                .node = n->id.node};
    struct api_options a = {.region = n->o->region,
                            .bench_objects = n->o->bench_objects,
                            .block_cache_bytes = n->o->block_cache_bytes,
                            .block_cache_fixed = n->block_cache_fixed,
                            .access_log = n->o->live.access_log};
    struct job_options jobs;
    enum err rc = map_start(n->meta, &n->map, &n->eb);

    node_peers_open(n);
    if (rc == ERR_OK)
        node_report_buckets(n);
    if (rc == ERR_OK)
        rc = audit_open(n->o->audit, &n->audit, &n->eb);
    c.secrets = n->folders.secrets;
    c.state = n->folders.state;
    if (n->members != NULL)
        c.shared = (struct shared_secrets){.meta = n->meta, .sealing = &n->sealing};
    if (rc == ERR_OK)
        rc = cloud_start(&c, &n->cloud, &n->eb);
    if (rc == ERR_OK) {
        ob.disks = n->disks;
        ob.map = n->map;
        ob.cloud = n->cloud;
        ob.nodes = n->nodes;
        rc = object_start(&ob, &n->object, &n->eb);
    }
    jobs = (struct job_options){.meta = n->meta,
                                .map = n->map,
                                .object = n->object,
                                .disks = n->disks,
                                .cloud = n->cloud,
                                .promote_dir = n->o->promote_dir,
                                .download_private = n->o->download_private,
                                .node = n->id.node,
                                .epoch = n->id.starts,
                                .spill = n->folders.spill,
                                .reshard_memory = n->o->reshard_memory,
                                .reshard_spill = n->o->reshard_spill,
                                .one_of_many = n->members != NULL,
                                .may_begin =
                                    n->members != NULL ? node_peers_may_begin_job : NULL,
                                .arg = n};
    if (rc == ERR_OK)
        rc = job_start(&jobs, &n->jobs, &n->eb);
    if (rc == ERR_OK)
        rc = load_token_key(n, &a.token_key);
    if (rc == ERR_OK) {
        memcpy(a.cluster_id, n->id.cluster_id, sizeof a.cluster_id);
        a.node = n->id.node;
        a.members = n->members;
        a.nodes = n->nodes;
        a.advertise = n->o->advertise;
        a.auth = n->auth;
        a.audit = n->audit;
        a.skew_s = n->o->skew_s;
        a.credentials = n->credentials_whole;
        a.map = n->map;
        a.meta = n->meta;
        a.dot = n->folders.dot;
        a.secrets = n->folders.secrets;
        a.shards = n->folders.shards;
        a.shard_index_bytes = n->o->shard_index_bytes;
        a.object = n->object;
        a.jobs = n->jobs;
        a.cloud = n->cloud;
        a.disks = n->disks;
        a.domain_count = MIN(n->o->domain_count, API_DOMAINS_MAX);
        for (unsigned i = 0; i < a.domain_count; i++)
            a.domains[i] = n->o->domains[i];
        rc = api_new(&a, &n->api, &n->eb);
    }
    return rc;
}

static enum err
listen_http(struct node *n)
{
    struct rt_listen_options l = {.congestion = n->o->congestion};
    struct http_server_options h = n->o->http;
    struct http_handler handler;
    enum err rc = node_open_tls(n);

    if (rc != ERR_OK)
        return rc;
    h.tls = n->tls;
    node_fit_descriptors(&h);
    api_handler(n->api, &handler);
    rc = http_server_new(&h, &handler, &n->http, &n->eb);
    return rc == ERR_OK
               ? http_server_listen(n->http, n->o->addr, n->o->port, &l, &n->port, &n->eb)
               : rc;
}

/* A full disk still starts, to be read and to have objects deleted. */
static enum err
make_room_to_start(struct node *n)
{
    enum err rc = ERR_OK;

    for (unsigned i = 0; rc == ERR_OK && i < n->o->dir_count; i++)
        rc = store_make_start_room(n->o->dirs[i], &n->eb);
    return rc;
}

static enum err
node_open_all(struct node *n)
{
    enum err rc = make_room_to_start(n);

    if (rc == ERR_OK)
        rc = node_open_state(n);

    metrics_set_engine(rt_engine_name(rt_engine_now()));
    if (rc == ERR_OK)
        rc = node_open_disks(n);
    if (rc == ERR_OK)
        rc = state_check_lost(n->meta, n->disks, n->state_path, &n->eb);
    if (rc == ERR_OK)
        rc = n->members != NULL
                 ? node_cluster_disks(n)
                 : map_epoch_store(n->meta, disks_map_epoch(n->disks), &n->eb);
    if (rc == ERR_OK)
        node_write_state_copies(n); /* before any object is moved */
    if (rc == ERR_OK)
        rc = open_users(n);
    if (rc == ERR_OK)
        rc = open_services(n);
    if (rc == ERR_OK)
        rc = node_peers_listen(n);
    return rc == ERR_OK ? listen_http(n) : rc;
}

/* Closes everything that is open, in reverse order. */
static void
close_all(struct node *n)
{
    struct rt_shield shield;

    rt_shield_begin(&shield);
    job_halt(n->jobs); /* before their fetches fail */
    if (n->object != NULL)
        object_end_fetches(n->object);
    if (n->http != NULL)
        http_server_stop(&n->http);
    peer_stop(&n->peers);
    node_close_tls(n);
    job_stop(&n->jobs);
    object_stop(&n->object);
    api_free(&n->api);
    if (n->token_key != NULL)
        hash_wipe(n->token_key, n->token_key_len);
    free(n->token_key);
    audit_close(&n->audit);
    cloud_stop(&n->cloud);
    disks_close(&n->disks); /* uses the map's list of buckets */
    map_stop(&n->map);
    auth_free(&n->auth);
    node_cluster_leave(n);
    nodes_free(&n->nodes);
    meta_close(&n->meta);
    node_folders_close(&n->folders);
    free(n->credentials_path);
    free(n->credentials_whole);
    rt_shield_end(&shield);
}

void
node_end(void *node)
{
    struct node *n = node;

    n->signals++;
    if (n->draining != NULL)
        rt_cancel(n->draining); /* second signal: cancel the requests in flight */
    if (n->joining != NULL)
        rt_cancel(n->joining);
    rt_cond_broadcast(&n->signalled);
}

static void
report_ready(struct node *n)
{
    struct store_stat st;
    struct node_ready r = {
        .dirs = n->o->dirs,
        .dir_count = n->o->dir_count,
        .addr = n->o->addr,
        .port = n->port,
        .credentials = n->credentials_path,
        .first_start = n->keys_made,
        .keys_needed = n->o->auth || !node_is_loopback(n->o->addr),
        .tls = n->tls != NULL,
        .engine = rt_engine_name(rt_engine_now()),
        .buckets = map_bucket_count(map_now(n->map)),
    };

    disks_stat(n->disks, &st);
    r.free_bytes = st.free_bytes;
    r.objects = st.objects;
    api_set_ready(n->api, true);
    node_cluster_ready(n);
    LOG(LOG_INFO, "node.ready", "serving", L_TEXT("addr", n->o->addr),
        L_U64("port", n->port), L_TEXT("engine", r.engine),
        L_U64("loops", rt_loop_count()), L_U64("start", n->id.starts));
    if (n->o->on_ready != NULL)
        n->o->on_ready(&r, n->o->arg);
}

/* Waits for the next signal, at most until `by`. */
static bool
wait_for_signal(struct node *n, unsigned seen, struct deadline by)
{
    while (n->signals <= seen)
        if (rt_cond_wait(&n->signalled, by) != ERR_OK)
            return false;
    return true;
}

static void
node_drain(struct node *n)
{
    bool whole;

    n->draining = rt_self();
    LOG(LOG_INFO, "node.draining", "ending: no new requests",
        L_U64("grace_ms", n->o->drain_grace_ms));
    api_set_ready(n->api, false);
    if (n->o->drain_grace_ms > 0)
        (void)wait_for_signal(n, n->signals, deadline_in_ms(n->o->drain_grace_ms));
    whole = http_server_drain(n->http, deadline_in_ms(n->o->drain_ms));
    if (n->peers != NULL)
        whole = peer_drain(n->peers, deadline_in_ms(n->o->drain_ms)) && whole;
    if (!whole)
        LOG0(LOG_WARN, "node.cut", "requests that were still in flight are cut");
}

void
node_run(void *node)
{
    struct node *n = node;
    struct rt_group watching;

    rt_cond_init(&n->signalled);
    rt_cond_init(&n->copies.wanted);
    rt_cond_init(&n->copies.written);
    rt_on_signal(SIGTERM, node_end, n);
    rt_on_signal(SIGINT, node_end, n);
    n->rc = node_open_all(n);
    for (unsigned i = 0; n->rc == ERR_NO_SPACE && i < n->o->dir_count; i++)
        store_explain_no_room(n->o->dirs[i], &n->eb);
    if (n->rc == ERR_OK) {
        rt_group_begin(&watching);
        node_watch(n, &watching);
        /* The machine's memory is no part of a simulated world. */
        if (rt_engine_now() != RT_SIM &&
            rt_group_start(&watching, node_watch_memory, n) != ERR_OK)
            LOG0(LOG_WARN, "node.no_watch", "no fiber to look after memory");
        if (rt_group_start(&watching, node_state_copies_run, n) != ERR_OK)
            LOG0(LOG_WARN, "node.no_copies",
                 "no fiber to write copies of the node's state");
        report_ready(n);
        (void)wait_for_signal(n, 0, DEADLINE_NEVER);
        node_drain(n);
        rt_group_cancel(&watching);
        rt_group_join(&watching);
    }
    close_all(n);
}

enum err
node_serve(const struct node_options *o, struct errbuf *eb)
{
    struct node_options fitted = *o;
    struct node n = {.o = &fitted};
    enum err rc = check_options(o, eb);

    if (rc != ERR_OK)
        return rc;
    node_fit_memory(&fitted, &n.block_cache_fixed);
    rc = rt_run(&fitted.rt, node_run, &n, eb);
    if (rc == ERR_OK && n.rc != ERR_OK && eb != NULL)
        *eb = n.eb;
    return rc == ERR_OK ? n.rc : rc;
}
