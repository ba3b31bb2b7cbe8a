/* cluster_keys: nodes that are only members: a key-value service over the real members, map, meta and http, whose owners move
 * as the map says. It stands for what an owner does with a key, and tests what ownership rests on: leases, epochs,
 * acknowledgements, relays.
 *
 * The values lie in a store that all nodes reach, as replicas would be, and that refuses an epoch below the highest one that
 * it has seen for the key. An owner keeps the value in memory, from its first look at the store on: so two owners at a time
 * show as stale reads. A gateway that does not own a key relays the request once, with its epoch.
 */
#pragma once
#include "base/num.h"
#include "map/node_place.h"
#include "members/members.h"
#include "sim/cluster_world.h"

/* Bugs on purpose; those of members come in addition (members_plant). */
enum {
    KEYS_PLANT_STALE_READ = 1, /* reads ask for no lease */
    KEYS_PLANT_LOST_WRITE = 2, /* now and then a write is acknowledged, and not made */
    KEYS_PLANT_TWO_OWNERS = 4, /* neither lease nor acknowledgement, and no fence */
    KEYS_PLANT_OLD_EPOCH = 8,  /* a relayed request is carried out whatever its epoch */
    KEYS_PLANT_UNFENCED =
        16, /* the store takes any epoch: else it hides faults of members */
};

struct keys_store {
    uint32_t value[CLUSTER_KEYS];
    uint64_t fence[CLUSTER_KEYS];
};
struct keys_kept {
    uint32_t number;
    uint64_t floor; /* what its disks have seen */
};
struct keys_world {
    struct keys_store store;
    struct keys_kept kept[CLUSTER_NODES];
    unsigned plant;
};
struct keys_node {
    struct cluster_node *at;
    struct keys_world *world;
    struct meta *meta;
    struct members *members;
    struct http_client *client;
    struct http_server *server;
    struct {
        bool mine, loaded, busy;
        uint64_t since; /* the epoch with which it was gained */
        uint32_t value;
        struct rt_cond free;
    } keys[CLUSTER_KEYS];
    uint64_t epoch; /* adopted */
};

static inline bool
keys_planted(const struct keys_node *n, unsigned bug)
{
    return (n->world->plant & bug) != 0;
}

/* ---- ownership ---- */

static inline uint64_t
keys_digest(unsigned key)
{
    char name[16];

    snprintf(name, sizeof name, "ais/b/%u", key);
    return node_place_digest(span_of(name));
}

/* What it owned before counts as gained when it was out meanwhile. */
static inline void
keys_on_map(void *arg, const struct node_map *m)
{
    struct keys_node *n = arg;
    struct keys_kept *kept = n->at->kept;
    const struct node_entry *me = node_map_named(m, span_of(n->at->name));

    for (unsigned k = 0; k < CLUSTER_KEYS; k++) {
        bool mine = me != NULL && node_place_live_owner(m, keys_digest(k)) == me;

        if (mine && (!n->keys[k].mine || me->since > n->epoch)) {
            n->keys[k].since = m->epoch;
            n->keys[k].loaded = false;
        }
        n->keys[k].mine = mine;
        if (!mine)
            n->keys[k].loaded = false;
    }
    n->epoch = kept->floor = m->epoch;
    if (me != NULL)
        kept->number = me->number;
}

static inline bool
keys_may_order(const struct keys_node *n, unsigned key)
{
    return n->members != NULL && n->keys[key].mine &&
           (keys_planted(n, KEYS_PLANT_TWO_OWNERS) ||
            (members_lease_left_ns(n->members) > 0 &&
             members_acknowledged(n->members, n->keys[key].since)));
}

/* ---- the store ---- */

static inline enum err
keys_store_go(struct keys_node *n, unsigned key, uint64_t epoch)
{
    struct keys_store *s = &n->world->store;
    enum err rc = rt_sleep_ms(1 + sim_random() % 20);

    if (rc == ERR_OK && epoch < s->fence[key] &&
        !keys_planted(n, KEYS_PLANT_TWO_OWNERS | KEYS_PLANT_UNFENCED))
        rc = ERR_UNAVAILABLE;
    if (rc == ERR_OK)
        s->fence[key] = MAX(s->fence[key], epoch);
    return rc;
}

static inline enum err
keys_load(struct keys_node *n, unsigned key)
{
    uint64_t epoch = n->epoch;
    enum err rc = n->keys[key].loaded ? ERR_OK : keys_store_go(n, key, epoch);

    if (rc != ERR_OK || n->keys[key].loaded)
        return rc;
    if (n->keys[key].since > epoch)
        return ERR_UNAVAILABLE; /* lost and gained meanwhile */
    n->keys[key].value = n->world->store.value[key];
    n->keys[key].loaded = true;
    return ERR_OK;
}

static inline enum err
keys_save(struct keys_node *n, unsigned key, uint32_t value)
{
    enum err rc;

    n->keys[key].loaded = false; /* until the outcome is known */
    rc = keys_store_go(n, key, n->epoch);
    if (rc != ERR_OK)
        return rc;
    if (!keys_planted(n, KEYS_PLANT_LOST_WRITE) || sim_random() % 20 != 0)
        n->world->store.value[key] = value;
    (void)!rt_sleep_ms(sim_random() % 5);
    return keys_may_order(n, key) ? ERR_OK : ERR_UNAVAILABLE;
}

/* ---- requests ---- */

static inline void
keys_lock(struct keys_node *n, unsigned key)
{
    while (n->keys[key].busy)
        (void)!rt_cond_wait(&n->keys[key].free, DEADLINE_NEVER);
    n->keys[key].busy = true;
}

static inline void
keys_unlock(struct keys_node *n, unsigned key)
{
    n->keys[key].busy = false;
    rt_cond_signal(&n->keys[key].free);
}

static inline int
keys_read(struct keys_node *n, unsigned key, uint32_t *value)
{
    if (keys_planted(n, KEYS_PLANT_STALE_READ) && n->keys[key].loaded) {
        *value = n->keys[key].value;
        return *value == 0 ? 404 : 200;
    }
    if (!keys_may_order(n, key) || keys_load(n, key) != ERR_OK)
        return 503;
    *value = n->keys[key].value;
    if (!keys_may_order(n, key)) /* with a fresh clock, before it is answered */
        return 503;
    return *value == 0 ? 404 : 200;
}

static inline int
keys_change(struct keys_node *n, unsigned key, const struct http_request *r,
            uint32_t value)
{
    struct span match = fields_get(http_fields(r->head), "if-match");
    bool creates = fields_get(http_fields(r->head), "if-none-match").at != NULL;
    uint32_t now;

    if (!keys_may_order(n, key) || keys_load(n, key) != ERR_OK || !keys_may_order(n, key))
        return 500; /* nothing was done */
    now = n->keys[key].value;
    if ((creates && now != 0) ||
        (match.at != NULL && (now == 0 || now != strtoul(match.at, NULL, 10))))
        return 412;
    if (keys_save(n, key, value) != ERR_OK)
        return 503;
    n->keys[key].value = value;
    n->keys[key].loaded = true;
    return 200;
}

static inline void
keys_serve(struct keys_node *n, unsigned key, struct http_request *r, uint32_t value)
{
    bool reads = span_is(r->head->method_text, "GET");
    char text[16];
    int status;

    keys_lock(n, key);
    status = reads ? keys_read(n, key, &value) : keys_change(n, key, r, value);
    keys_unlock(n, key);
    snprintf(text, sizeof text, "%u", value);
    (void)http_reply(r, status, reads && status == 200 ? span_of(text) : SPAN(""));
}

/* The request as it came, to the owner, once. */
static inline void
keys_relay(struct keys_node *n, struct http_request *r, const char *owner,
           struct span body)
{
    struct span match = fields_get(http_fields(r->head), "if-match"),
                none = fields_get(http_fields(r->head), "if-none-match");
    char epoch[24], host[24], method[16];
    struct field f[2] = {{SPAN("x-epoch"), {epoch, 0}}};
    bool puts = span_is(r->head->method_text, "PUT");
    struct http_call_request req = {.host = host,
                                    .port = 80,
                                    .method = method,
                                    .target = r->head->target,
                                    .headers = {f, 1},
                                    .length = puts ? (int64_t)body.len : HTTP_NO_BODY,
                                    .fresh = true,
                                    .by = deadline_in_ms(6000)};
    int status = 0;
    struct buf out;
    enum err rc;

    snprintf(host, sizeof host, "%.*s", (int)strcspn(owner, ":"), owner);
    snprintf(method, sizeof method, "%.*s", SPAN_ARG(r->head->method_text));
    f[0].value.len = (size_t)snprintf(epoch, sizeof epoch, "%" PRIu64, n->epoch);
    if (match.at != NULL || none.at != NULL) {
        f[1] = match.at != NULL ? (struct field){SPAN("if-match"), match}
                                : (struct field){SPAN("if-none-match"), none};
        req.headers.count = 2;
    }
    buf_init(&out, 4096);
    rc = http_call_simple(n->client, &req, body, &status, &out, NULL, NULL, NULL);
    (void)http_reply(r, rc == ERR_OK ? status : 503, buf_span(&out));
    buf_fini(&out);
}

static inline void
keys_handle(struct http_request *r, void *arg)
{
    struct keys_node *n = arg;
    struct span at = fields_get(http_fields(r->head), "x-epoch"), body = SPAN("");
    unsigned key = (unsigned)(r->head->target.at[1] - '0');
    const struct node_map *m;
    const struct node_entry *owner;

    assert(key < CLUSTER_KEYS);
    if (http_body_length(r) > 0 && http_body_all(r, 64, &body, NULL) != ERR_OK) {
        http_reply_abort(r);
        return;
    }
    m = n->members != NULL ? members_map(n->members) : NULL;
    owner = m != NULL ? node_place_live_owner(m, keys_digest(key)) : NULL;
    if (owner == NULL) {
        (void)http_reply(r, 500, SPAN("no map"));
    } else if (at.at != NULL && strtoull(at.at, NULL, 10) != n->epoch &&
               !keys_planted(n, KEYS_PLANT_OLD_EPOCH)) {
        (void)http_reply(r, 500, SPAN("another epoch"));
    } else if (at.at != NULL && keys_planted(n, KEYS_PLANT_OLD_EPOCH)) {
        n->keys[key].mine = true; /* "they would not ask me otherwise" */
        keys_serve(n, key, r, (uint32_t)strtoul(body.len > 0 ? body.at : "0", NULL, 10));
    } else if (n->keys[key].mine) {
        keys_serve(n, key, r, (uint32_t)strtoul(body.len > 0 ? body.at : "0", NULL, 10));
    } else if (at.at != NULL) {
        (void)http_reply(r, 500, SPAN("not mine"));
    } else {
        keys_relay(n, r, owner->data, body);
    }
}

/* ---- a node's life ---- */

static inline enum err
keys_open(struct keys_node *n, struct errbuf *eb)
{
    struct keys_kept *kept = n->at->kept;
    struct members_options o = {.cluster = "bay",
                                .node = n->at->name,
                                .data = n->at->addr,
                                .takes_keys = true,
                                .number = kept->number,
                                .epoch = kept->floor,
                                .on_map = keys_on_map,
                                .arg = n};
    struct meta_etcd_options e = {.endpoints = "http://10.0.1.1:2379",
                                  .prefix = "forebay/bay/",
                                  .timeout_ms = 5000};
    struct http_handler h = {.handle = keys_handle, .arg = n};
    uint16_t port;
    enum err rc = meta_open_etcd(&e, &n->meta, eb);

    if (rc == ERR_OK)
        rc = http_client_new(&(struct http_client_options){.connect_ms = 2000},
                             &n->client, eb);
    if (rc == ERR_OK)
        rc = http_server_new(&(struct http_server_options){.linger_ms = 100}, &h,
                             &n->server, eb);
    if (rc == ERR_OK)
        rc = http_server_listen(n->server, n->at->addr, 80, NULL, &port, eb);
    o.meta = n->meta;
    return rc == ERR_OK ? members_join(&o, &n->members, eb) : rc;
}

static inline void
keys_close(struct keys_node *n, bool in_order)
{
    struct rt_shield shield;

    rt_shield_begin(&shield);
    http_server_stop(&n->server);
    if (in_order)
        members_leave(&n->members);
    else
        members_abandon(&n->members);
    http_client_free(&n->client);
    meta_close(&n->meta);
    rt_shield_end(&shield);
}

/* One life of the process. */
static inline void
keys_once(struct keys_node *n)
{
    struct errbuf eb = {{0}};
    struct rt_scope scope;
    enum err rc;

    rt_scope_begin(&scope, deadline_in_ms(30000));
    rc = keys_open(n, &eb);
    rt_scope_end(&scope);
    while (rc == ERR_OK && !n->at->stop &&
           members_state_now(n->members) != MEMBERS_REFUSED) {
        n->at->in = members_state_now(n->members) == MEMBERS_IN &&
                    members_lease_left_ns(n->members) > 0;
        rc = rt_sleep_ms(20);
    }
    n->at->in = false;
    keys_close(n, rc == ERR_OK && n->at->stop);
}

static inline void
keys_run(void *arg)
{
    struct cluster_node *at = arg;
    struct keys_node *n = xcalloc(1, sizeof *n);

    n->at = at;
    n->world = at->world->arg;
    for (unsigned k = 0; k < CLUSTER_KEYS; k++)
        rt_cond_init(&n->keys[k].free);
    while (!at->stop && !rt_cancelled()) {
        keys_once(n);
        memset(&n->epoch, 0, sizeof n->epoch);
        for (unsigned k = 0; k < CLUSTER_KEYS; k++)
            n->keys[k].mine = n->keys[k].loaded = false;
        (void)!rt_sleep_ms(300);
    }
    free(n);
}

static inline void
keys_fill(struct cluster_ask *a)
{
    snprintf(a->target, sizeof a->target, "/%u", a->op.key);
    snprintf(a->condition, sizeof a->condition, "%u", a->op.expected);
    if (strcmp(a->method, "PUT") == 0)
        a->body = span_of(arena_printf(a->arena, "%u", a->op.value));
}

static inline uint32_t
keys_value_of(struct span body)
{
    uint64_t n = 0;

    return num_u64(body, &n) == ERR_OK && n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

static inline bool
keys_had_no_effect(int status)
{
    return status == 500;
}

static inline uint64_t
keys_live(uint64_t seed, unsigned plant)
{
    static const struct cluster_kind kind = {.run = keys_run,
                                             .fill = keys_fill,
                                             .value_of = keys_value_of,
                                             .had_no_effect = keys_had_no_effect};
    struct keys_world world = {.plant = plant};
    void *kept[CLUSTER_NODES];

    for (unsigned i = 0; i < CLUSTER_NODES; i++)
        kept[i] = &world.kept[i];
    return cluster_live(seed, &kind, &world, kept);
}
