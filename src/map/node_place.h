/* node_place: which nodes hold a key: weighted rendezvous hashing (decision D7).
 *
 * Each node has a score for each key, and the best ones hold it. A node that comes or goes moves only its own keys. With
 * equal weights the order is that of AIS clients, so that they can go direct. Otherwise the order is by -weight / ln(score),
 * computed with integers: all nodes agree to the last bit, whatever their libraries are.
 * No I/O. Any loop.
 */
#pragma once
#include "map/node_map.h"

/* Of a key, by its unique name (bucket and key, as AIS writes it), and of a node, by its name at birth. */
uint64_t node_place_digest(struct span name);
/* How well a node suits a key: higher is better. */
uint64_t node_place_score(uint64_t node_digest, uint64_t key_digest);
/* The 64 ranges of keys, which move one by one. */
static inline uint32_t
node_place_range(uint64_t key_digest)
{
    return (uint32_t)(key_digest >> 58);
}
/* The nodes of a placement in the order of a key, at most `max`. The first one is the best whatever its domain; each later
 * one of the first `replicas` has a failure domain of its own while there are such. Returns how many. *domains: how many
 * different ones the first `replicas` have; may be NULL. */
uint32_t node_place_order(const struct node_map *m, const struct node_placement *p,
                          uint64_t key_digest, uint32_t replicas,
                          const struct node_entry **out, uint32_t max, uint32_t *domains);
/* The placement in force for a key: `now`, or `next` when its range has moved. */
const struct node_placement *node_place_of(const struct node_map *m, uint64_t key_digest);
/* The first node of the key's order, whatever its state; NULL: no node has a place. */
const struct node_entry *node_place_owner(const struct node_map *m, uint64_t key_digest);
/* The first live one: what serves keys that can be fetched again. NULL: none is alive. */
const struct node_entry *node_place_live_owner(const struct node_map *m,
                                               uint64_t key_digest);
