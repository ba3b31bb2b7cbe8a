/* cluster: the nodes of the cluster as this node sees them, what is wrong, and what to type.
 *
 *     GET  /_/cluster   all of it
 *     POST /_/cluster   {"action": "maintenance", "node": NAME, "on": true|false}
 *                       {"action": "remove", "node": NAME, "lost": true}: its objects are lost
 *
 * Members live on loop 0: the page is written there.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/admin/admin.h"
#include "base/hash.h"
#include "base/mem.h"
#include "rt/loop.h"
#include "rt/time.h"

#define BODY_MAX      KIB(4)
#define PAGE_MAX      MIB(1)
#define NS            1000000u
#define SKEW_ALARM_MS 60000

/* ---- what is shown ---- */

struct cluster_page {
    struct request *q;
    const struct members *m;
    const struct node_map *map;
    struct members_peer peers[MAP_NODES_MAX];
    uint32_t peer_count;
    uint64_t lease_ms;
    struct json *j;
    bool whole; /* every node is up, and nothing is wrong */
};

static const struct members_peer *
peer_of(const struct cluster_page *p, uint32_t number)
{
    for (uint32_t i = 0; i < p->peer_count; i++) {
        if (p->peers[i].number == number)
            return &p->peers[i];
    }
    return NULL;
}

static uint32_t
placed_weight(const struct node_placement *p, uint32_t number)
{
    for (uint32_t i = 0; i < p->count; i++) {
        if (p->at[i].number == number)
            return p->at[i].weight;
    }
    return 0;
}

static uint64_t
weight_of_all(const struct node_placement *p)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < p->count; i++)
        sum += p->at[i].weight;
    return sum;
}

static void
put_node(struct cluster_page *p, const struct node_entry *n)
{
    bool self = n->number == members_number(p->m);
    const struct members_peer *peer = peer_of(p, n->number);
    uint64_t all = weight_of_all(&p->map->now);
    uint32_t placed = placed_weight(&p->map->now, n->number);
    char id[33];

    json_open_object(p->j, NULL);
    json_text(p->j, "name", n->name);
    json_u64(p->j, "number", n->number);
    json_text(p->j, "state", node_state_name(n->state));
    json_bool(p->j, "self", self);
    json_text(p->j, "address", n->data);
    json_text(p->j, "peer_address", n->control);
    json_text(p->j, "domain", n->domain);
    json_u64(p->j, "weight", n->weight);
    json_f64(p->j, "keys_percent", all > 0 ? 100.0 * placed / (double)all : 0);
    json_u64(p->j, "since_epoch", n->since);
    json_u64(p->j, "evictions", n->strike_count);
    if (self || peer != NULL) {
        json_u64(p->j, "epoch", self ? p->map->epoch : peer->epoch);
        json_u64(p->j, "beat_age_ms", self ? 0 : peer->age_ns / NS);
        json_i64(p->j, "skew_ms", self ? 0 : peer->skew_ms);
    }
    json_open_array(p->j, "disks");
    for (uint32_t i = 0; i < n->disk_count; i++) {
        hex_encode(n->disks[i].id, sizeof n->disks[i].id, id);
        id[32] = '\0';
        json_text(p->j, NULL, id);
    }
    json_end(p->j);
    json_end(p->j);
}

/* A sentence, and what to type. */
PRINTF(3, 4)
static void
put_problem(struct cluster_page *p, const char *type, const char *fmt, ...)
{
    char text[512];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    json_open_object(p->j, NULL);
    json_text(p->j, "what", text);
    json_text(p->j, "do", type);
    json_end(p->j);
    p->whole = false;
}

static void
put_problems_of(struct cluster_page *p, const struct node_entry *n)
{
    const struct members_peer *peer = peer_of(p, n->number);
    bool keys = placed_weight(&p->map->now, n->number) > 0;
    char type[128];

    switch (n->state) {
    case NODE_DOWN:
        put_problem(p, "start it again with the line by which it was started",
                    "node %s is down%s", n->name,
                    keys ? ": its objects of native buckets are not available (503)"
                         : "");
        break;
    case NODE_JOINING:
        put_problem(p, "wait: forebay cluster wait", "node %s joins: its disks open",
                    n->name);
        break;
    case NODE_MAINTENANCE:
        (void)snprintf(type, sizeof type, "forebay cluster maintenance %s --off",
                       n->name);
        put_problem(p, type, "node %s is in maintenance%s", n->name,
                    keys ? ": its objects of native buckets are not available (503)"
                         : "");
        break;
    case NODE_UP:
    case NODE_DRAINING:
    case NODE_REMOVED:
    case NODE_STATES_:
        break;
    }
    if (peer != NULL && node_is_live(n) &&
        (peer->skew_ms > SKEW_ALARM_MS || peer->skew_ms < -SKEW_ALARM_MS))
        put_problem(p, "set its clock (NTP): signatures fail at 15 minutes",
                    "the clock of node %s differs by %" PRId64 " s from this one's",
                    n->name, peer->skew_ms / 1000);
}

static unsigned
late_strikes(const struct node_entry *n)
{
    int64_t now_ms = (int64_t)(rt_wall_ns() / NS);
    unsigned count = 0;

    for (uint32_t i = 0; i < n->strike_count; i++)
        count += now_ms - n->strikes_ms[i] < (int64_t)MEMBERS_STRIKES_MS;
    return count;
}

static void
put_problems(struct cluster_page *p)
{
    p->whole = true;
    json_open_array(p->j, "problems");
    if (p->lease_ms == 0 && members_state_now(p->m) != MEMBERS_PROBATION)
        put_problem(p, "is etcd up, and can this node reach it?",
                    "this node has no lease%s%s",
                    members_why(p->m)[0] != '\0' ? ": " : "", members_why(p->m));
    for (uint32_t i = 0; i < p->map->count; i++)
        put_problems_of(p, &p->map->nodes[i]);
    json_end(p->j);
    json_open_array(p->j, "notes");
    for (uint32_t i = 0; i < p->map->count; i++) {
        const struct node_entry *n = &p->map->nodes[i];
        char text[256];

        if (late_strikes(n) > 1) {
            (void)snprintf(
                text, sizeof text,
                "node %s was evicted %u times in ten minutes: look at its log, "
                "its memory and its network",
                n->name, late_strikes(n));
            json_text(p->j, NULL, text);
        }
        if (n->state == NODE_REMOVED || placed_weight(&p->map->now, n->number) > 0)
            continue;
        (void)snprintf(text, sizeof text,
                       "node %s holds no keys: it joined when native buckets existed, "
                       "and their objects cannot move yet. It serves as a gateway",
                       n->name);
        json_text(p->j, NULL, text);
    }
    json_end(p->j);
    json_bool(p->j, "whole", p->whole);
}

static void
cluster_page_fill(void *arg)
{
    struct cluster_page *p = arg;
    char id[33];

    p->map = members_map(p->m);
    p->peer_count = members_peers(p->m, p->peers, MAP_NODES_MAX);
    p->lease_ms = members_lease_left_ns(p->m) / NS;
    assert(p->map != NULL);
    hex_encode(p->map->cluster_id, sizeof p->map->cluster_id, id);
    id[32] = '\0';
    json_open_object(p->j, NULL);
    json_text(p->j, "cluster", p->map->cluster);
    json_text(p->j, "id", id);
    json_u64(p->j, "epoch", p->map->epoch);
    json_u64(p->j, "node", members_number(p->m));
    json_u64(p->j, "lease_ms", p->lease_ms);
    json_bool(p->j, "acknowledged", members_acknowledged(p->m, p->map->epoch));
    json_open_array(p->j, "nodes");
    for (uint32_t i = 0; i < p->map->count; i++)
        put_node(p, &p->map->nodes[i]);
    json_end(p->j);
    put_problems(p);
    json_end(p->j);
}

static enum err
cluster_alone(struct request *q)
{
    return fault_set(&q->fault, S3_NoSuchKey,
                     "This server runs alone: forebay serve with --etcd, --cluster and "
                     "--cluster-key makes it a node of a cluster (docs/cluster.md)");
}

static enum err
cluster_page_answer(struct request *q)
{
    struct cluster_page *p = xcalloc(1, sizeof *p);
    struct admin_page page;
    enum err rc;

    admin_page_begin(&page, PAGE_MAX);
    p->q = q;
    p->m = q->api->options.members;
    p->j = &page.j;
    rc = rt_call(0, cluster_page_fill, p);
    free(p);
    if (rc == ERR_OK)
        return admin_page_answer(q, &page, 200);
    buf_fini(&page.text);
    return fault_set(&q->fault, S3_ServiceUnavailable, "No stack to look at the nodes");
}

enum err
admin_cluster_show(struct request *q)
{
    return q->api->options.members != NULL ? cluster_page_answer(q) : cluster_alone(q);
}

/* ---- what is changed ---- */

struct cluster_change {
    struct members *m;
    struct span node;
    bool remove, flag;
    enum err rc;
    struct errbuf eb;
};

static void
cluster_change_run(void *arg)
{
    struct cluster_change *c = arg;

    c->rc = c->remove ? members_remove_node(c->m, c->node, c->flag, &c->eb)
                      : members_set_maintenance(c->m, c->node, c->flag, &c->eb);
}

static enum err
cluster_refuse(struct request *q, const struct cluster_change *c)
{
    if (c->rc == ERR_NOT_FOUND)
        return fault_set(&q->fault, S3_NoSuchKey, "%s", c->eb.text);
    if (c->rc == ERR_EXISTS || c->rc == ERR_PRECONDITION)
        return fault_set(&q->fault, S3_OperationAborted, "%s", c->eb.text);
    return fault_from(q, c->rc, &c->eb);
}

enum err
admin_cluster_change(struct request *q)
{
    struct cluster_change c = {.m = q->api->options.members, .rc = ERR_CANCELLED};
    const char *action, *node;
    json_t *doc = NULL;
    enum err rc;

    if (c.m == NULL)
        return cluster_alone(q);
    rc = admin_read_object(q, BODY_MAX, &doc);
    if (rc != ERR_OK)
        return rc;
    action = json_string_value(json_object_get(doc, "action"));
    node = json_string_value(json_object_get(doc, "node"));
    c.remove = action != NULL && strcmp(action, "remove") == 0;
    rc = admin_flag_of(q, doc, c.remove ? "lost" : "on", &c.flag);
    if (rc == ERR_OK && (node == NULL || action == NULL ||
                         (!c.remove && strcmp(action, "maintenance") != 0)))
        rc = fault_set(&q->fault, S3_InvalidArgument,
                       "\"action\" is \"maintenance\" or \"remove\", and \"node\" the "
                       "name of a node");
    if (rc != ERR_OK) {
        json_decref(doc);
        return rc;
    }
    c.node = span_of(node);
    if (rt_call(0, cluster_change_run, &c) != ERR_OK)
        err_set(&c.eb, c.rc, "no stack to change the map");
    AUDIT_CHANGE(q, c.remove ? "cluster.remove" : "cluster.maintenance", c.rc,
                 L_TEXT("node", node),
                 L_TEXT(c.remove ? "lost" : "on", c.flag ? "yes" : "no"));
    json_decref(doc);
    return c.rc == ERR_OK ? cluster_page_answer(q) : cluster_refuse(q, &c);
}
