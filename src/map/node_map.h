/* node_map: the map of a cluster as one value of meta: its epoch, its nodes with their disks and states, and by which
 * weights keys are placed. docs/formats.md, section "map record".
 *
 * A writer copies it, raises the epoch by one, and writes it by compare-and-set on the revision that was read.
 * Readers hold immutable snapshots. With one node the record has the epoch alone.
 * No I/O. Any loop.
 */
#pragma once
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

#define MAP_NODES_MAX        128u
#define MAP_NODE_DISKS_MAX   64u
#define MAP_NODE_NAME_MAX    64u
#define MAP_NODE_TEXT_MAX    255u  /* an address, a failure domain */
#define MAP_NODE_WEIGHT      1000u /* unless said otherwise */
#define MAP_NODE_WEIGHT_MAX  1000000u
#define MAP_NODE_STRIKES_MAX 3u
#define MAP_RANGES           64u /* of keys, by the upper bits of their digest */

enum node_state {
    NODE_JOINING,
    NODE_UP,
    NODE_DOWN,
    NODE_DRAINING,
    NODE_MAINTENANCE,
    NODE_REMOVED,
    NODE_STATES_
};
const char *node_state_name(enum node_state s); /* "joining", "up", ... */

struct node_disk {
    unsigned char id[16];
    bool in_sync;
};
struct node_entry {
    uint32_t number;      /* from 1; never used again */
    char *name;           /* at birth: placement hashes it; owned, as all texts here */
    uint64_t incarnation; /* random, of the start that runs under this number */
    enum node_state state;
    uint64_t since;  /* the epoch in which it came into this state, or started again */
    uint32_t weight; /* as configured */
    char *domain;    /* failure domain, "rack=r1"; NULL: the node itself */
    char *data, *control, *clients; /* addresses, HOST:PORT; NULL: none */
    struct node_disk *disks;        /* owned */
    uint32_t disk_count;
    int64_t strikes_ms
        [MAP_NODE_STRIKES_MAX]; /* the latest evictions, wall clock, oldest first */
    uint32_t strike_count;
};
/* Which nodes hold keys, and in what proportion. */
struct node_placement {
    struct {
        uint32_t number, weight;
    } at[MAP_NODES_MAX];
    uint32_t count;
};
struct node_map {
    uint64_t epoch;
    char *cluster;                /* its name; NULL: one node alone */
    unsigned char cluster_id[16]; /* random, for life; zeros without a cluster */
    uint32_t next_number;
    struct node_entry *nodes; /* owned; ascending numbers */
    uint32_t count;
    struct node_placement now, next;
    bool moves;       /* `next` counts */
    uint64_t flipped; /* bit i: range i is placed by `next` already */
};

/* On ERR_OK the caller owns *out. ERR_CORRUPT; ERR_NOT_IMPLEMENTED: a newer program wrote it. */
enum err node_map_decode(struct span record, struct node_map **out,
                         struct errbuf *eb) MUST_CHECK;
/* `out` is full when it does not fit into its limit. */
void node_map_encode(const struct node_map *m, struct buf *out);
struct node_map *node_map_new(uint64_t epoch);
struct node_map *node_map_copy(const struct node_map *m); /* what encodes equally */
void node_map_free(struct node_map **mp);

/* NULL: there is none. */
struct node_entry *node_map_find(const struct node_map *m, uint32_t number);
struct node_entry *node_map_named(const struct node_map *m, struct span name);
/* Of a node, or of a cluster: 1 to MAP_NODE_NAME_MAX letters, digits, '-', '_' and '.'. */
bool node_name_is_good(struct span name);
/* A new node with the next number, NODE_JOINING, without a place for keys. ERR_BAD_REQUEST: the name; ERR_EXISTS;
 * ERR_TOO_LARGE: there are MAP_NODES_MAX. */
enum err node_map_add(struct node_map *m, struct span name, struct node_entry **out,
                      struct errbuf *eb) MUST_CHECK;
/* Whether a node in this state orders writes and answers reads. */
static inline bool
node_is_live(const struct node_entry *n)
{
    return n->state == NODE_UP || n->state == NODE_DRAINING;
}
