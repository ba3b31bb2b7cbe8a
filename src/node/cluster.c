/* cluster: this node as one of a cluster: what its folder says, the key, etcd, its place in the map, its identity.
 *
 * The order at a start: the folder names its cluster; the key and etcd must be those of that cluster; the node takes its
 * place in the map as `joining`; identity and folder say so; then the disks open, and when the node listens it becomes up.
 * A node that ran alone and creates the cluster keeps its id and its number: its buckets and users go to etcd first.
 */
#include <assert.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "meta/follow.h"
#include "node/cluster_file.h"
#include "node/cluster_move.h"
#include "node/internal.h"
#include "rt/time.h"

#define ETCD_RETRY_MS 1000u
#define PREFIX_MAX    (sizeof "forebay//" + MAP_NODE_NAME_MAX)

/* ---- the folder and the options ---- */

static enum err
cluster_check_names(const struct node_cluster_options *c, const char *node,
                    struct errbuf *eb)
{
    if (c->name == NULL || c->key_file == NULL)
        return err_set(eb, ERR_BAD_REQUEST,
                       "%s is missing: --etcd, --cluster and --cluster-key go together",
                       c->name == NULL ? "--cluster NAME" : "--cluster-key FILE");
    if (!node_name_is_good(span_of(c->name)))
        return err_set(eb, ERR_BAD_REQUEST,
                       "--cluster \"%s\": a name has 1 to %u letters, digits, '-', '_' "
                       "and '.'",
                       c->name, MAP_NODE_NAME_MAX);
    if (!node_name_is_good(span_of(node)))
        return err_set(eb, ERR_BAD_REQUEST,
                       "--node \"%s\": a name has 1 to %u letters, digits, '-', '_' "
                       "and '.'",
                       node, MAP_NODE_NAME_MAX);
    return ERR_OK;
}

enum err
node_cluster_check(struct node *n)
{
    const struct node_cluster_options *c = &n->o->cluster;
    struct cluster_file f;
    enum err rc = ERR_OK;

    if (c->etcd == NULL)
        return cluster_file_must_be_alone(n->folders.state, n->state_path, &n->eb);
    rc = cluster_file_load(n->folders.state, &f, &n->eb);
    if (rc != ERR_OK)
        return rc;
    n->name = xstrdup(c->node != NULL           ? c->node
                      : f.node[0] != '\0'       ? f.node
                      : c->node_default != NULL ? c->node_default
                                                : "");
    rc = cluster_check_names(c, n->name, &n->eb);
    if (rc != ERR_OK || f.cluster[0] == '\0')
        return rc;
    if (strcmp(f.cluster, c->name) != 0)
        return err_set(&n->eb, ERR_DENIED,
                       "%s belongs to cluster \"%s\", and --cluster says \"%s\"",
                       n->state_path, f.cluster, c->name);
    if (strcmp(f.node, n->name) != 0)
        return err_set(&n->eb, ERR_DENIED,
                       "%s is the folder of node \"%s\", and --node says \"%s\": a node "
                       "keeps its name for life",
                       n->state_path, f.node, n->name);
    return ERR_OK;
}

/* "HOST:PORT", where IPv6 has brackets; owned by the caller. */
static char *
address_of(const char *host, uint16_t port)
{
    return strchr(host, ':') != NULL && host[0] != '[' ? xasprintf("[%s]:%u", host, port)
                                                       : xasprintf("%s:%u", host, port);
}

static bool
is_wildcard(const char *addr)
{
    return strcmp(addr, "0.0.0.0") == 0 || strcmp(addr, "::") == 0;
}

/* By what other nodes and clients reach this one. */
static enum err
find_addresses(struct node *n)
{
    const struct node_options *o = n->o;
    const char *colon = o->advertise != NULL ? strrchr(o->advertise, ':') : NULL;
    char *host;

    if (o->port == 0 || strncmp(o->addr, "unix:", 5) == 0)
        return err_set(&n->eb, ERR_BAD_REQUEST,
                       "a node of a cluster is reached by its port: give --listen "
                       "ADDR:PORT, not a free port or a socket file");
    if (o->advertise == NULL && is_wildcard(o->addr))
        return err_set(&n->eb, ERR_BAD_REQUEST,
                       "--listen %s does not say how other nodes reach this one: give "
                       "--advertise HOST:PORT",
                       o->addr);
    if (o->advertise != NULL && (colon == NULL || colon == o->advertise))
        return err_set(&n->eb, ERR_BAD_REQUEST, "--advertise \"%s\": expected HOST:PORT",
                       o->advertise);
    n->peer_port =
        o->cluster.peer_port != 0 ? o->cluster.peer_port : (uint16_t)(o->port + 1);
    n->peer_addr = xstrdup(o->cluster.peer_addr != NULL ? o->cluster.peer_addr : o->addr);
    host = colon != NULL ? xmemdup0(o->advertise, (size_t)(colon - o->advertise))
                         : xstrdup(o->addr);
    n->data_address =
        colon != NULL ? xstrdup(o->advertise) : address_of(o->addr, o->port);
    n->peer_address = address_of(
        is_wildcard(n->peer_addr) || colon != NULL ? host : n->peer_addr, n->peer_port);
    free(host);
    return ERR_OK;
}

/* ---- etcd ---- */

static enum err
load_password(struct node *n, char **out)
{
    const char *path = n->o->cluster.etcd_password_file;
    size_t len = 0;
    enum err rc;

    *out = NULL;
    if (path == NULL)
        return ERR_OK;
    rc = rt_private_load(path, 4096, out, &len, &n->eb);
    if (rc != ERR_OK)
        err_prefix(&n->eb, "cluster.etcd_password_file");
    while (rc == ERR_OK && len > 0 &&
           ((*out)[len - 1] == '\n' || (*out)[len - 1] == '\r'))
        (*out)[--len] = '\0';
    return rc;
}

/* Until etcd answers, or a signal ends the start. */
static enum err
open_etcd(struct node *n)
{
    char prefix[PREFIX_MAX], *password = NULL;
    struct meta_etcd_options o = {.endpoints = n->o->cluster.etcd,
                                  .prefix = prefix,
                                  .user = n->o->cluster.etcd_user,
                                  .ca_file = n->o->cluster.etcd_ca_file};
    enum err rc = load_password(n, &password);

    snprintf(prefix, sizeof prefix, "forebay/%s/", n->o->cluster.name);
    o.password = password;
    while (rc == ERR_OK) {
        rc = meta_open_etcd(&o, &n->meta, &n->eb);
        if (rc == ERR_OK || rc == ERR_BAD_REQUEST || rc == ERR_DENIED ||
            rc == ERR_CANCELLED)
            break;
        LOG(LOG_WARN, "node.waits_for_etcd", n->eb.text,
            L_TEXT("etcd", n->o->cluster.etcd));
        rc = rt_sleep_ms(ETCD_RETRY_MS);
        if (rc != ERR_OK)
            (void)err_set(&n->eb, rc, "stopped while it waited for etcd at %s",
                          n->o->cluster.etcd);
    }
    if (password != NULL)
        OPENSSL_cleanse(password, strlen(password));
    free(password);
    return rc;
}

/* The first node leaves a value that only the key makes; every later one compares. */
static enum err
check_key(struct node *n)
{
    struct arena *a = arena_new(4096, 4 * META_VALUE_MAX);
    unsigned char proof[32];
    struct meta_change c = {.key = SPAN("key-proof"),
                            .value = {(const char *)proof, sizeof proof}};
    struct span reads[] = {SPAN("key-proof")};
    struct meta_txn t = {&c, 1, reads, 1};
    struct meta_result r = {0};
    enum err rc;

    cluster_key_derive(&n->key, "forebay cluster proof", span_of(n->o->cluster.name),
                       proof, sizeof proof);
    rc = meta_apply_txn(n->meta, &t, a, &r, &n->eb);
    if (rc == ERR_PRECONDITION)
        rc = span_eq(r.reads[0].value, c.value)
                 ? ERR_OK
                 : err_set(&n->eb, ERR_DENIED,
                           "%s is not the key of cluster \"%s\": use the file that its "
                           "first node was started with",
                           n->o->cluster.key_file, n->o->cluster.name);
    arena_free(&a);
    return rc;
}

/* ---- joining ---- */

/* The highest epoch that a version on the disks may have. */
static enum err
epoch_of_disks(struct node *n, uint64_t *out)
{
    *out = 0;
    for (unsigned i = 0; i < n->o->dir_count; i++) {
        struct store_identity is;
        enum err rc = store_identify(n->o->dirs[i], &is, &n->eb);

        if (rc == ERR_OK)
            *out = MAX(*out, is.map_epoch);
        else if (rc != ERR_NOT_FOUND)
            return rc;
    }
    err_forget(&n->eb);
    return ERR_OK;
}

static void
on_map(void *arg, const struct node_map *map)
{
    struct node *n = arg;
    struct errbuf eb = {{0}};

    if (n->nodes != NULL)
        nodes_publish(n->nodes, map);
    if (n->disks != NULL && disks_raise_map_epoch(n->disks, map->epoch, &eb) != ERR_OK)
        LOG(LOG_WARN, "node.map_epoch", eb.text, L_U64("epoch", map->epoch));
}

static void
on_look(void *arg)
{
    node_peers_look(arg);
}

static void
on_refused(void *arg)
{
    struct node *n = arg;

    n->refused = true;
    n->signals++;
    rt_cond_broadcast(&n->signalled);
}

/* ---- buckets and users ---- */

static enum err
adopt_before(void *arg, struct errbuf *eb)
{
    const struct node *n = arg;

    return members_catch_up(n->members, eb);
}

static bool
what_is_adopted(struct span prefix, enum members_adopted *out)
{
    *out = span_is(prefix, "bucket/") ? MEMBERS_BUCKETS : MEMBERS_USERS;
    return *out == MEMBERS_BUCKETS || span_is(prefix, "user/");
}

static void
adopt_published(void *arg, struct span prefix, uint64_t revision)
{
    const struct node *n = arg;
    enum members_adopted what;

    if (what_is_adopted(prefix, &what))
        members_adopted(n->members, what, revision);
}

static enum err
adopt_wait(void *arg, struct span prefix, uint64_t revision, struct errbuf *eb)
{
    const struct node *n = arg;
    enum members_adopted what;

    return what_is_adopted(prefix, &what)
               ? members_wait_adopted(n->members, what, revision, eb)
               : ERR_OK;
}

static void
follow_as_one_of_many(struct node *n)
{
    struct meta_adoption a = {adopt_before, adopt_published, adopt_wait, n};

    meta_adoption_set(n->meta, &a);
}

static enum err
cluster_take_place(struct node *n, bool alone_before)
{
    const struct node_cluster_options *c = &n->o->cluster;
    struct members_options m = {.meta = n->meta,
                                .cluster = c->name,
                                .node = n->name,
                                .data = n->data_address,
                                .control = n->peer_address,
                                .clients = n->data_address,
                                .domain = c->domain,
                                .weight = c->weight,
                                .takes_keys = true,
                                .waits = true,
                                .on_map = on_map,
                                .on_look = on_look,
                                .on_refused = on_refused,
                                .arg = n};
    uint64_t epoch;
    enum err rc = epoch_of_disks(n, &epoch);

    if (rc != ERR_OK)
        return rc;
    if (!n->id.first) {
        m.number = n->id.node;
        m.cluster_id = n->id.cluster_id;
    }
    if (alone_before) {
        m.number = 0; /* the first node of the cluster gets number 1, as one alone has */
        m.first_epoch = epoch + 1;
    } else {
        m.epoch = epoch;
    }
    return members_join(&m, &n->members, &n->eb);
}

/* The place in the map is this node's for life: identity and folder say so before the disks open. */
static enum err
keep_place(struct node *n)
{
    const struct node_map *map = members_map(n->members);
    struct cluster_file f = {{0}, {0}};
    enum err rc;

    assert(map != NULL);
    assert(members_number(n->members) <= UINT16_MAX);
    if (!n->id.first && n->id.node != members_number(n->members))
        return err_set(&n->eb, ERR_DENIED,
                       "the disks of %s are of node %u, and the map gave number %u",
                       n->state_path, n->id.node, members_number(n->members));
    memcpy(n->id.cluster_id, map->cluster_id, sizeof n->id.cluster_id);
    n->id.node = (uint16_t)members_number(n->members);
    n->id.starts++;
    rc = identity_put(n->folders.state, &n->id, &n->eb);
    snprintf(f.cluster, sizeof f.cluster, "%s", n->o->cluster.name);
    snprintf(f.node, sizeof f.node, "%s", n->name);
    return rc == ERR_OK ? cluster_file_store(n->folders.state, &f, &n->eb) : rc;
}

enum err
node_cluster_open(struct node *n)
{
    struct cluster_file f;
    bool alone_before = false;
    enum err rc = find_addresses(n);

    n->joining = rt_self();
    if (rc == ERR_OK)
        rc = identity_load(n->folders.state, n->state_path, &n->id, &n->eb);
    if (rc == ERR_OK)
        rc = cluster_file_load(n->folders.state, &f, &n->eb);
    if (rc == ERR_OK)
        rc = cluster_key_load(n->o->cluster.key_file, &n->key, &n->eb);
    if (rc == ERR_OK) {
        cluster_key_seal(&n->key, &n->sealing);
        rc = open_etcd(n);
    }
    if (rc == ERR_OK)
        rc = check_key(n);
    if (rc == ERR_OK && !n->id.first && f.cluster[0] == '\0')
        rc = cluster_move_in(n, &alone_before);
    if (rc == ERR_OK)
        rc = cluster_take_place(n, alone_before);
    if (rc == ERR_OK)
        rc = keep_place(n);
    if (rc == ERR_OK)
        follow_as_one_of_many(n);
    n->joining = NULL;
    return rc;
}

/* ---- later ---- */

enum err
node_cluster_disks(struct node *n)
{
    const struct node_map *map = members_map(n->members);

    return disks_raise_map_epoch(n->disks, map->epoch, &n->eb);
}

struct gathered {
    struct node_disk at[MAP_NODE_DISKS_MAX];
    uint32_t count;
};

static void
gather_disk(void *arg, unsigned slot, struct store *d)
{
    struct gathered *g = arg;

    (void)slot;
    if (g->count == MAP_NODE_DISKS_MAX)
        return;
    store_id(d, g->at[g->count].id);
    g->at[g->count++].in_sync = true;
}

void
node_cluster_ready(struct node *n)
{
    struct gathered g = {.count = 0};

    if (n->members == NULL)
        return;
    disks_each(n->disks, gather_disk, &g);
    members_ready(n->members, g.at, g.count);
}

void
node_cluster_leave(struct node *n)
{
    if (n->refused && n->members != NULL && n->rc == ERR_OK)
        n->rc = err_set(&n->eb, ERR_UNAVAILABLE, "%s", members_why(n->members));
    members_leave(&n->members);
    cluster_key_wipe(&n->key);
    OPENSSL_cleanse(&n->sealing, sizeof n->sealing);
    free(n->name);
    free(n->data_address);
    free(n->peer_address);
    free(n->peer_addr);
}
