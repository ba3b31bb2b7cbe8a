/* cluster_world: a simulated cluster under trouble: a node for etcd, nodes of ours, and the script's own node, on which clients
 * work, fibers make trouble, and every answer goes into a history.
 *
 * What a node does is the caller's (struct cluster_kind): cluster_keys.h has a small key-value service over members and
 * map. Clients speak HTTP to any node: GET, PUT and DELETE of /KEY, If-None-Match: * and
 * If-Match with the value.
 *
 * When the trouble is over all nodes come back, and each key is read through each node. Then: is the history of each key
 * linearizable, is what was acknowledged there, did all nodes come in.
 */
#pragma once
#include "etcd_model.h"
#include "http/client.h"
#include "rt/sim_cluster.h"
#include "sim/linear.h"
#include "sim/sim_main.h"

#define CLUSTER_NODES      3u
#define CLUSTER_KEYS       6u
#define CLUSTER_CLIENTS    5u
#define CLUSTER_UNKNOWN    16u /* changes of unknown outcome of one key, at most */
#define CLUSTER_TROUBLE_MS 100000u
#define CLUSTER_FAILED_MAX 60u
#define CLUSTER_RECOVER_MS                                                               \
    600000u /* a node that was evicted too often stays out for five minutes */

struct cluster_world;
struct cluster_node {
    struct cluster_world *world;
    unsigned index;
    char name[16], addr[16];
    struct sim *host;
    bool stop;               /* its first fiber is to end in order */
    bool in;                 /* it says that it works */
    unsigned starts, failed; /* failed: of the latest ones, one after the other */
    void *kept, *own;        /* the kind's: what outlives its worlds, and what does not */
};
struct cluster_ask;
struct cluster_kind {
    /* The first fiber of each world of a node: until n->stop, or it is cancelled. */
    void (*run)(void *node);
    /* What a client sends for an operation: target, body, and what If-Match says; then more fields, at most 4. */
    void (*fill)(struct cluster_ask *a);
    size_t (*sign)(struct cluster_ask *a, struct fields sent, struct field *add);
    /* The value of a body; UINT32_MAX: it is none that was ever sent. */
    uint32_t (*value_of)(struct span body);
    /* Whether this status says that a change had no effect and will have none. */
    bool (*had_no_effect)(int status);
    /* On the script's node, when all nodes are in for the first time; NULL: nothing to do. */
    void (*prepare)(struct cluster_world *w);
    bool power;  /* crashes may take unsynced data */
    bool direct; /* a key is asked of one node only, for nodes relay nothing */
};
struct cluster_world {
    const struct cluster_kind *kind;
    void *arg; /* the kind's */
    uint64_t seed;
    struct sim_cluster *cluster;
    struct sim *script, *etcd;
    struct model *model;
    bool etcd_stop;
    struct cluster_node nodes[CLUSTER_NODES];
    struct http_client *client;
    struct history history;
    uint32_t guess[CLUSTER_KEYS]; /* the last value that a client saw */
    unsigned unknown[CLUSTER_KEYS];
    unsigned in_trouble; /* fibers that still make some */
    bool over;
    unsigned answers, refusals, failures, crashes, whole_at_end;
    uint64_t recovered_ms;
};

/* ---- nodes ---- */

static inline void
cluster_etcd_run(void *arg)
{
    struct cluster_world *w = arg;
    struct errbuf eb = {{0}};
    struct rt_shield shield;
    enum err rc = model_door_open(w->model, 0, "10.0.1.1", &eb);

    while (rc == ERR_OK && !w->etcd_stop)
        rc = rt_sleep_ms(50);
    rt_shield_begin(&shield);
    http_server_stop(&w->model->doors[0].server);
    rt_shield_end(&shield);
}

/* Sometimes its power goes in the middle of something: as the nth write, sync, rename or the like of this world begins. */
static inline void
cluster_start(struct cluster_node *n)
{
    n->stop = n->in = false;
    n->starts++;
    if (n->world->kind->power && n->world->in_trouble > 0 && !n->world->over &&
        sim_random() % 2 == 0)
        sim_cut_at(n->host, 1 + sim_random() % 700);
    sim_cluster_start(n->host, n->world->kind->run, n);
}

static inline void
cluster_wait_down(const struct sim *host)
{
    while (sim_cluster_is_up(host))
        (void)!rt_sleep_ms(1);
}

static inline void
cluster_stop(struct cluster_node *n)
{
    n->stop = true;
    cluster_wait_down(n->host);
    n->in = false;
}

/* ---- clients ---- */

struct cluster_ask {
    struct cluster_world *w;
    struct history_op op;
    const struct cluster_node *gateway;
    struct arena *arena;
    const char *method;
    struct span body; /* in the arena */
    char condition[64], target[64];
};

static inline enum history_end
cluster_outcome(const struct cluster_ask *a, enum err rc, int status)
{
    if (rc != ERR_OK)
        return HISTORY_UNKNOWN;
    if (a->op.call == HISTORY_READ)
        return status == 200 || status == 404 ? HISTORY_OK : HISTORY_NONE;
    if (status >= 200 && status < 300)
        return HISTORY_OK;
    if (status == 412 || (status == 404 && a->op.call == HISTORY_SWAP))
        return HISTORY_REFUSED;
    return a->w->kind->had_no_effect(status) ? HISTORY_NONE : HISTORY_UNKNOWN;
}

static inline enum err
cluster_send(struct cluster_ask *a, struct buf *out, int *status)
{
    struct field f[8] = {{SPAN("host"), span_of(a->gateway->addr)}};
    const struct history_op *op = &a->op;
    bool puts = strcmp(a->method, "PUT") == 0;
    struct http_call_request req = {
        .host = a->gateway->addr,
        .port = 80,
        .method = a->method,
        .target = span_of(a->target),
        .length = puts ? (int64_t)a->body.len : HTTP_NO_BODY,
        .fresh = true, /* else the client of this tree may send a request twice */
        .by = deadline_in_ms(8000)};
    struct errbuf eb = {{0}};
    size_t n = 1;

    if (op->call == HISTORY_CREATE)
        f[n++] = (struct field){SPAN("if-none-match"), SPAN("*")};
    if (op->call == HISTORY_SWAP)
        f[n++] = (struct field){SPAN("if-match"), span_of(a->condition)};
    if (a->w->kind->sign != NULL)
        n += a->w->kind->sign(a, (struct fields){f, n}, f + n);
    req.headers = (struct fields){f + 1, n - 1};
    return http_call_simple(a->w->client, &req, a->body, status, out, NULL, NULL, &eb);
}

/* One operation through this gateway, from its begin to what became of it. */
static inline enum history_end
cluster_ask(struct cluster_world *w, const struct history_op *op,
            const struct cluster_node *gateway)
{
    bool puts = op->call != HISTORY_READ && op->call != HISTORY_REMOVE;
    struct cluster_ask a = {.w = w,
                            .op = *op,
                            .gateway = gateway,
                            .arena = arena_new(4096, MIB(2)),
                            .body = SPAN(""),
                            .method = op->call == HISTORY_READ ? "GET"
                                      : puts                   ? "PUT"
                                                               : "DELETE"};
    size_t at = history_begin(&w->history, op);
    enum history_end end;
    struct buf out;
    enum err rc;
    int status = 0;

    w->kind->fill(&a);
    buf_init(&out, MIB(2));
    rc = cluster_send(&a, &out, &status);
    end = cluster_outcome(&a, rc, status);
    if (op->call == HISTORY_READ && end == HISTORY_OK)
        w->history.at[at].value = status == 200 ? w->kind->value_of(buf_span(&out)) : 0;
    if (end == HISTORY_OK)
        w->guess[op->key] = op->call == HISTORY_REMOVE ? 0 : w->history.at[at].value;
    buf_fini(&out);
    arena_free(&a.arena);
    history_end(&w->history, at, end, rt_now_ns());
    end = w->history.at[at].end;
    w->unknown[op->key] += end == HISTORY_UNKNOWN;
    w->answers += end == HISTORY_OK;
    w->refusals += end == HISTORY_REFUSED;
    w->failures += end == HISTORY_UNKNOWN || end == HISTORY_NONE;
    return end;
}

static inline const struct cluster_node *
cluster_gateway(const struct cluster_world *w, unsigned key, uint64_t drawn)
{
    return &w->nodes[(w->kind->direct ? key : drawn) % CLUSTER_NODES];
}

static inline struct history_op
cluster_draw_op(struct cluster_world *w, unsigned process)
{
    static const enum history_call calls[] = {
        HISTORY_READ,  HISTORY_READ, HISTORY_READ, HISTORY_READ,   HISTORY_WRITE,
        HISTORY_WRITE, HISTORY_SWAP, HISTORY_SWAP, HISTORY_CREATE, HISTORY_REMOVE};
    unsigned key = (unsigned)(sim_random() % CLUSTER_KEYS);
    struct history_op op = {.process = process,
                            .key = key,
                            .call = calls[sim_random() % ARRAY_LEN(calls)],
                            .expected = w->guess[key],
                            .began_ns = rt_now_ns()};

    if (w->unknown[key] >= CLUSTER_UNKNOWN)
        op.call = HISTORY_READ; /* else the checker would not come to an end */
    if (op.call == HISTORY_SWAP && op.expected == 0)
        op.call = HISTORY_CREATE;
    if (op.call == HISTORY_WRITE || op.call == HISTORY_SWAP || op.call == HISTORY_CREATE)
        op.value = ++w->history.values;
    return op;
}

struct cluster_client {
    struct cluster_world *w;
    unsigned number;
};

/* After an unknown outcome it goes on as another process, for the former one never ended. */
static inline void
cluster_client_run(void *arg)
{
    struct cluster_client *c = arg;
    struct cluster_world *w = c->w;
    unsigned process = c->number;

    while (!w->over && rt_sleep_ms(sim_random() % 700) == ERR_OK) {
        struct history_op op = cluster_draw_op(w, process);

        enum history_end end =
            cluster_ask(w, &op, cluster_gateway(w, op.key, sim_random()));

        if (end == HISTORY_UNKNOWN)
            process += CLUSTER_CLIENTS;
        if (end == HISTORY_UNKNOWN || end == HISTORY_NONE)
            (void)!rt_sleep_ms(sim_random() % 1500);
    }
}

/* ---- trouble ---- */

static inline void
cluster_ways(struct cluster_node *n, struct sim *other, bool out, bool in, bool cut)
{
    if (out)
        sim_cluster_cut(n->host, other, cut);
    if (in)
        sim_cluster_cut(other, n->host, cut);
}

static inline void
cluster_crash(struct cluster_node *n)
{
    bool power = n->world->kind->power && sim_random() % 2 == 0;

    n->world->crashes++;
    if (sim_cluster_is_up(n->host))
        sim_cluster_crash(n->host, power ? SIM_POWER : SIM_KILL);
    cluster_wait_down(n->host);
    n->in = false;
    (void)!rt_sleep_ms(sim_random() % 15000);
    cluster_start(n);
}

/* One kind of trouble for one node, for a while. */
static inline void
cluster_disturb(struct cluster_node *n)
{
    struct cluster_world *w = n->world;
    struct cluster_node *peer =
        &w->nodes[(n->index + 1 + sim_random() % 2) % CLUSTER_NODES];
    struct sim *other = sim_random() % 2 == 0 ? w->etcd : peer->host;
    unsigned ways = 1 + (unsigned)(sim_random() % 3);

    switch (sim_random() % 8) {
    case 0:
    case 1:
        cluster_crash(n);
        return;
    case 2:
        cluster_stop(n);
        (void)!rt_sleep_ms(sim_random() % 5000);
        cluster_start(n);
        return;
    case 3:
    case 4:
        sim_cluster_pause(n->host, true);
        (void)!rt_sleep_ms(sim_random() % 20000);
        sim_cluster_pause(n->host, false);
        return;
    case 5:
    case 6:
        cluster_ways(n, other, (ways & 1) != 0, (ways & 2) != 0, true);
        (void)!rt_sleep_ms(sim_random() % 20000);
        cluster_ways(n, other, true, true, false);
        return;
    default:
        sim_cluster_slow(n->host, other, (uint32_t)(sim_random() % 2000000));
        (void)!rt_sleep_ms(sim_random() % 15000);
        sim_cluster_slow(n->host, other, 0);
        return;
    }
}

static inline void
cluster_trouble_run(void *arg)
{
    struct cluster_node *n = arg;
    struct cluster_world *w = n->world;

    while (!w->over) {
        for (uint64_t left = sim_random() % 400; left > 0 && !w->over; left--) {
            if (!sim_cluster_is_up(n->host)) {
                w->crashes++;
                (void)!rt_sleep_ms(sim_random() % 15000);
                cluster_start(n);
            }
            (void)!rt_sleep_ms(100);
        }
        if (!w->over && sim_cluster_is_up(n->host))
            cluster_disturb(n);
    }
    sim_cut_at(n->host, 0);
    if (!sim_cluster_is_up(n->host))
        cluster_start(n);
    w->in_trouble--;
}

/* etcd stands still, dies and starts again, and breaks connections. */
static inline void
cluster_etcd_trouble_run(void *arg)
{
    struct cluster_world *w = arg;

    while (!w->over) {
        unsigned what = (unsigned)(sim_random() % 4);

        (void)!rt_sleep_ms(5000 + sim_random() % 40000);
        if (w->over || what == 3)
            continue;
        if (what == 0)
            sim_cluster_pause(w->etcd, true);
        else if (what == 1)
            sim_cluster_crash(w->etcd, SIM_KILL);
        else
            sim_cluster_resets(w->cluster, 200);
        (void)!rt_sleep_ms(sim_random() % 15000);
        sim_cluster_pause(w->etcd, false);
        sim_cluster_resets(w->cluster, 0);
        if (what == 1) {
            cluster_wait_down(w->etcd);
            sim_cluster_start(w->etcd, cluster_etcd_run, w);
        }
    }
    w->in_trouble--;
}

/* ---- the whole ---- */

static inline unsigned
cluster_count_in(const struct cluster_world *w)
{
    unsigned in = 0;

    for (unsigned i = 0; i < CLUSTER_NODES; i++)
        in += w->nodes[i].in;
    return in;
}

/* A node that fails to start again and again would do so for ever. */
static inline bool
cluster_is_lost(const struct cluster_world *w)
{
    for (unsigned i = 0; i < CLUSTER_NODES; i++) {
        if (w->nodes[i].failed > CLUSTER_FAILED_MAX)
            return true;
    }
    return false;
}

static inline bool
cluster_wait_whole(struct cluster_world *w, uint64_t ms)
{
    uint64_t until = rt_now_ns() + ms * 1000000u;

    while (cluster_count_in(w) < CLUSTER_NODES && !cluster_is_lost(w) &&
           rt_now_ns() < until)
        (void)!rt_sleep_ms(50);
    return cluster_count_in(w) == CLUSTER_NODES;
}

static inline void
cluster_last_reads(struct cluster_world *w)
{
    uint64_t until = rt_now_ns() + CLUSTER_TROUBLE_MS * UINT64_C(1000000);

    for (unsigned k = 0; k < CLUSTER_KEYS; k++) {
        for (unsigned i = 0; i < CLUSTER_NODES; i++) {
            enum history_end end = HISTORY_UNKNOWN;

            while (end != HISTORY_OK && rt_now_ns() < until && !cluster_is_lost(w)) {
                struct history_op op = {
                    .process = 1000 + i, .key = k, .began_ns = rt_now_ns(), .last = true};

                end = cluster_ask(w, &op, cluster_gateway(w, k, i));
                if (end != HISTORY_OK)
                    (void)!rt_sleep_ms(200);
            }
            w->whole_at_end += end == HISTORY_OK;
        }
    }
}

static inline void
cluster_end(struct cluster_world *w)
{
    for (unsigned i = 0; i < CLUSTER_NODES; i++)
        cluster_stop(&w->nodes[i]);
    w->etcd_stop = true;
    cluster_wait_down(w->etcd);
    http_client_free(&w->client);
}

static inline void
cluster_script(void *arg)
{
    struct cluster_world *w = arg;
    struct cluster_client clients[CLUSTER_CLIENTS];
    struct http_client_options o = {.connect_ms = 2000, .first_byte_ms = 6000};
    struct errbuf eb = {{0}};
    struct rt_group g;
    uint64_t began;

    CHECK(http_client_new(&o, &w->client, &eb) == ERR_OK);
    sim_cluster_start(w->etcd, cluster_etcd_run, w);
    for (unsigned i = 0; i < CLUSTER_NODES; i++)
        cluster_start(&w->nodes[i]);
    CHECK(cluster_wait_whole(w, CLUSTER_RECOVER_MS));
    if (w->kind->prepare != NULL)
        w->kind->prepare(w);
    rt_group_begin(&g);
    for (unsigned i = 0; i < CLUSTER_CLIENTS; i++) {
        clients[i] = (struct cluster_client){w, i};
        CHECK(rt_group_start(&g, cluster_client_run, &clients[i]) == ERR_OK);
    }
    w->in_trouble = CLUSTER_NODES + 1;
    for (unsigned i = 0; i < CLUSTER_NODES; i++)
        CHECK(rt_group_start(&g, cluster_trouble_run, &w->nodes[i]) == ERR_OK);
    CHECK(rt_group_start(&g, cluster_etcd_trouble_run, w) == ERR_OK);
    CHECK(rt_sleep_ms(CLUSTER_TROUBLE_MS) == ERR_OK);
    w->over = true;
    rt_group_join(&g);
    began = rt_now_ns();
    CHECK(cluster_wait_whole(w, CLUSTER_RECOVER_MS));
    cluster_last_reads(w);
    w->recovered_ms = (rt_now_ns() - began) / 1000000u;
    cluster_end(w);
}

static inline void
cluster_say_bad(const struct cluster_world *w, unsigned key, size_t bad, const char *what)
{
    const struct history_op *op = &w->history.at[bad];
    const char *path = getenv("FOREBAY_HISTORY");

    fprintf(stderr,
            "seed %" PRIu64
            ", key %u: %s: process %u, %s of %u (expected %u), from %.6f s "
            "to %.6f s\n",
            w->seed, key, what, op->process, history_calls[op->call], op->value,
            op->expected, (double)op->began_ns / 1e9, (double)op->ended_ns / 1e9);
    if (path != NULL && !history_write(&w->history, key, path))
        fprintf(stderr, "%s: the history could not be written\n", path);
}

static inline void
cluster_check(struct cluster_world *w)
{
    CHECK_U64(w->whole_at_end, CLUSTER_KEYS * CLUSTER_NODES);
    for (unsigned k = 0; k < CLUSTER_KEYS; k++) {
        size_t bad = 0;
        enum linear_verdict v = linear_key(&w->history, k, &bad);

        CHECK(v == LINEAR_GOOD);
        if (v != LINEAR_GOOD)
            cluster_say_bad(w, k, bad, v == LINEAR_BAD ? "no order" : "too many orders");
        if (!linear_durable(&w->history, k, &bad)) {
            CHECK(false && "an acknowledged write is gone");
            cluster_say_bad(w, k, bad, "an acknowledged write is gone");
        }
    }
    if (getenv("V") != NULL)
        fprintf(stderr,
                "seed %" PRIu64
                ": %zu operations, %u answers, %u refusals, %u failures, %u "
                "crashes, whole after %.1f s\n",
                w->seed, w->history.count, w->answers, w->refusals, w->failures,
                w->crashes, (double)w->recovered_ms / 1e3);
}

static inline uint64_t
cluster_live(uint64_t seed, const struct cluster_kind *kind, void *arg,
             void *kept[CLUSTER_NODES])
{
    struct cluster_world w = {.kind = kind, .arg = arg, .seed = seed};
    struct errbuf eb = {{0}};
    uint64_t hash, state = seed;

    w.cluster = sim_cluster_new(
        &(struct sim_options){.seed = seed, .lossy = true, .max_delay_us = 2000});
    w.model = model_new();
    w.script = sim_cluster_add(
        w.cluster, &(struct sim_cluster_node){.name = "script", .addr = "10.0.2.1"});
    w.etcd = sim_cluster_add(
        w.cluster, &(struct sim_cluster_node){.name = "etcd", .addr = "10.0.1.1"});
    for (unsigned i = 0; i < CLUSTER_NODES; i++) {
        struct cluster_node *n = &w.nodes[i];

        n->world = &w;
        n->index = i;
        n->kept = kept[i];
        snprintf(n->name, sizeof n->name, "node-%c", 'a' + (int)i);
        snprintf(n->addr, sizeof n->addr, "10.0.0.%u", i + 1);
        n->host = sim_cluster_add(
            w.cluster, &(struct sim_cluster_node){
                           .name = n->name,
                           .addr = n->addr,
                           .rate_ppm = (int64_t)(sim_draw(&state) % 200001) - 100000,
                           .offset_ns = sim_draw(&state) % 1000000000000u,
                           .wall_ms = (int64_t)(sim_draw(&state) % 60000)});
    }
    CHECK(sim_cluster_run(w.cluster, w.script, cluster_script, &w, &eb) == ERR_OK);
    cluster_check(&w);
    hash = sim_cluster_trace(w.cluster);
    for (size_t i = 0; i < w.history.count; i++) {
        const struct history_op *op = &w.history.at[i];
        uint64_t words[] = {hash,      op->process,  op->key,      op->call,    op->end,
                            op->value, op->expected, op->began_ns, op->ended_ns};

        hash = hash_xxh3(words, sizeof words, 0);
    }
    history_free(&w.history);
    model_drop(&w.model);
    sim_cluster_free(&w.cluster);
    return hash;
}
