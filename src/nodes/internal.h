/* What the files of this room share: nodes.c replaces snapshots, route.c reads them. */
#pragma once
#include <stdatomic.h>

#include "nodes/nodes.h"

/* Immutable but for `acknowledged`, which only becomes true. */
struct nodes_snapshot {
    struct node_map *map;    /* owned */
    struct node_map *agreed; /* owned; the last acknowledged map before; NULL: none */
    uint64_t stable_since;   /* the epoch that nodes_stable_since() gives */
    _Atomic bool acknowledged;
};
struct nodes {
    struct nodes_options o;
    _Atomic(struct nodes_snapshot *) now; /* owned; NULL: none yet */
};

/* Until the next switch. NULL: no map yet. */
static inline const struct nodes_snapshot *
nodes_snapshot_now(const struct nodes *n)
{
    return atomic_load_explicit(&n->now, memory_order_acquire);
}
