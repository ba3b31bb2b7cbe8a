/* nodes: what this node knows of the other ones, for the requests of every loop: the map of nodes, which of them orders the
 * writes of a key and answers its reads, and whether this node may act as an owner now.
 *
 * A NULL `struct nodes` stands for a node that runs alone: each call then answers "here", without a look at anything else.
 *
 * Who calls: the node publishes (loop 0); the api asks (any loop, no lock, never switches but for nodes_catch_up()).
 * Memory: nodes_publish() copies the map. What a call lends lives until the fiber switches; struct nodes_route lends texts
 * of the snapshot for as long.
 * Design: decisions D7 to D9. With one replica a native key has one owner, dead or alive; a cached key is served by the
 * first live node of its order.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "map/map.h"
#include "map/node_map.h"

struct nodes;
struct nodes_options {
    uint32_t self; /* the number of this node in the map */
    /* Time that the lease of this node is still valid; 0: it has none. Any loop, never switches. */
    uint64_t (*lease_left_ns)(void *arg);
    /* Reads the map from meta until the adopted one has at least this epoch; it is published when this returns. Any loop.
     * ERR_UNAVAILABLE: meta does not answer, or has no such epoch. May switch. */
    enum err (*fetch_map)(void *arg, uint64_t epoch, struct errbuf *eb);
    void *arg;
};
/* Without a map: each route is ERR_UNAVAILABLE until nodes_publish(). */
struct nodes *nodes_new(const struct nodes_options *o);
void nodes_free(struct nodes **np); /* NULL is fine; after the last request */

/* From members' on_map, on loop 0: copies `m`. When it returns, every later look of any loop sees it. Never switches. */
void nodes_publish(struct nodes *n, const struct node_map *m);
/* On loop 0, when members_acknowledged(epoch of the published map) holds: every live node has adopted that map or a later
 * one. Until then this node refuses native keys that it gained since the last acknowledged map. A stale epoch is ignored. */
void nodes_acknowledge(struct nodes *n, uint64_t epoch);
/* The epoch of the published map, and whether it is acknowledged. 0: no map yet. Any loop. */
uint64_t nodes_epoch(const struct nodes *n);
bool nodes_is_acknowledged(const struct nodes *n);

/* The first epoch that this node saw since its start with the nodes that take keys, their states and starts as they are now.
 * Under an earlier epoch another node may have written a key of an attached bucket that this node owns now.
 * 0: no cluster; UINT64_MAX: no map yet. Any loop. */
uint64_t nodes_stable_since(const struct nodes *n);

/* The published map, until the next switch. NULL: none yet. */
const struct node_map *nodes_map(const struct nodes *n);
uint32_t nodes_self(const struct nodes *n);
bool nodes_has_lease(const struct nodes *n); /* true without a cluster */
/* The published map has this epoch or a later one afterwards. A map that has it already: ERR_OK at once. May switch. */
enum err nodes_catch_up(struct nodes *n, uint64_t epoch, struct errbuf *eb) MUST_CHECK;

struct nodes_route {
    bool here;
    uint32_t number; /* of the owner */
    const char
        *address; /* its peer address (`control` in the map), HOST:PORT; NULL when here */
    uint64_t epoch; /* of the map that says so; 0 without a cluster */
};
/* The node that orders the writes of this key and answers its reads.
 * ERR_UNAVAILABLE, in words: there is no map, this node is the owner and has no lease or not yet all acknowledgements, the
 * owner of a native key is not live, or no node has a place for keys. */
enum err nodes_route(const struct nodes *n, const struct map_bucket *b, struct span key,
                     struct nodes_route *out, struct errbuf *eb) MUST_CHECK;
/* The same without words, for paths that only answer "here": true if this node owns the key and may answer. */
bool nodes_owns(const struct nodes *n, const struct map_bucket *b, struct span key);

/* This node owns the key by the published map, whatever its lease: of a native bucket. */
bool nodes_places_here(const struct nodes *n, const struct map_bucket *b,
                       struct span key);

/* The nodes that may hold keys now: for requests that ask all of them. ERR_UNAVAILABLE, in words: one that holds native keys
 * is not live, or this node has a place and no lease. `out` has MAP_NODES_MAX places. */
enum err nodes_holders(const struct nodes *n, bool cached, struct nodes_route *out,
                       uint32_t *count, struct errbuf *eb) MUST_CHECK;

/* The digest by which a key is placed: of "PROVIDER/NAMESPACE/BUCKET/KEY", as AIS clients compute it. */
uint64_t nodes_key_digest(const struct map_bucket *b, struct span key);
