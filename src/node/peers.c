/* peers: what a node of a cluster needs of the other ones for requests: the map of owners for all loops, and the port that
 * serves other nodes. Loop 0, but for fetch_map(). */
#include <assert.h>

#include "base/log.h"
#include "node/internal.h"
#include "rt/fiber.h"
#include "rt/time.h"

#define FETCH_POLL_MS 20u
#define FETCH_MS      5000u

static uint64_t
node_lease_left(void *arg)
{
    return members_lease_left_ns(((const struct node *)arg)->members);
}

/* The members follow the map by a watch, and read it with every beat: this waits until they have adopted it. */
static enum err
node_fetch_map(void *arg, uint64_t epoch, struct errbuf *eb)
{
    const struct node *n = arg;
    struct deadline by = deadline_in_ms(FETCH_MS);
    enum err rc = ERR_OK;

    while (nodes_epoch(n->nodes) < epoch && rc == ERR_OK && !deadline_passed(by))
        rc = rt_sleep_ms(FETCH_POLL_MS);
    if (nodes_epoch(n->nodes) >= epoch)
        return ERR_OK;
    return err_set(
        eb, ERR_UNAVAILABLE,
        "the map of the cluster with epoch %llu has not arrived from etcd; this "
        "node has %llu; retry later",
        (unsigned long long)epoch, (unsigned long long)nodes_epoch(n->nodes));
}

void
node_peers_open(struct node *n)
{
    if (n->members == NULL)
        return;
    n->nodes = nodes_new(&(struct nodes_options){.self = members_number(n->members),
                                                 .lease_left_ns = node_lease_left,
                                                 .fetch_map = node_fetch_map,
                                                 .arg = n});
    if (members_map(n->members) != NULL)
        nodes_publish(n->nodes, members_map(n->members));
}

enum err
node_peers_listen(struct node *n)
{
    struct peer_options o = {.key = n->key.bytes,
                             .cluster_id = n->id.cluster_id,
                             .name = n->name,
                             .server = &n->o->http};
    uint16_t port;
    enum err rc;

    if (n->members == NULL)
        return ERR_OK;
    assert(n->nodes != NULL);
    o.self = nodes_self(n->nodes);
    api_peer_handler(n->api, &o);
    rc = peer_start(&o, &n->peers, &n->eb);
    if (rc == ERR_OK)
        rc = peer_listen(n->peers, n->peer_addr, n->peer_port, &port, &n->eb);
    if (rc == ERR_OK)
        api_set_peers(n->api, n->peers);
    return rc;
}

void
node_peers_look(struct node *n)
{
    uint64_t epoch;

    if (n->nodes == NULL || nodes_is_acknowledged(n->nodes))
        return;
    epoch = nodes_epoch(n->nodes);
    if (epoch == 0 || !members_acknowledged(n->members, epoch))
        return;
    nodes_acknowledge(n->nodes, epoch);
    LOG(LOG_INFO, "node.map", "all nodes know the map", L_U64("epoch", epoch));
}

enum err
node_peers_may_begin_job(void *arg, struct errbuf *eb)
{
    const struct node *n = arg;
    const struct node_map *map = members_map(n->members);

    if (map->now.count <= 1)
        return ERR_OK;
    return err_set(
        eb, ERR_NOT_IMPLEMENTED,
        "keys are spread over %u nodes, and a job would see those of one: jobs "
        "over the nodes of a cluster do not exist yet",
        map->now.count);
}
