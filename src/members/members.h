/* members: which nodes of a cluster live, and whether this node may act as one of them.
 *
 * Heartbeats by value (no lease of etcd: decision D6). Every MEMBERS_BEAT_MS this node rewrites its key `beat/N` by
 * compare-and-set on the revision that it left, and reads the map in the same step. The *lease* is valid until
 * MEMBERS_LEASE_MS after that request was sent. Any node that has seen another one's beat unchanged for MEMBERS_EVICT_MS of
 * its own clock evicts it: one transaction removes the beat, if it is still that one, and writes the next map, if it is
 * still the one that was read. Both go through etcd's log, so two evictors do no harm, and an evicted node cannot beat
 * again without a new place in the map. Only the *rates* of clocks are assumed to agree, within 10 %:
 * 8 s / 0.9 < 10 s / 1.1.
 *
 * A map is *adopted* when on_map has returned; the next beat acknowledges its epoch. A node that gained keys with an epoch
 * orders their writes only when members_acknowledged() says that all others have adopted it or were evicted.
 *
 * Fibers: loop 0; members_lease_left_ns() on any loop, at any time, in front of and behind whatever needs the lease.
 */
#pragma once
#include "map/node_map.h"
#include "meta/meta.h"
#include "rt/sync.h"

#define MEMBERS_BEAT_MS  2000u
#define MEMBERS_LEASE_MS 8000u
#define MEMBERS_EVICT_MS 10000u
#define MEMBERS_BLIND_MS                                                                 \
    4000u /* longer between two looks: the age of beats starts again */
#define MEMBERS_STRIKES_MS 600000u /* three evictions within this time ... */
#define MEMBERS_PROBATION_MS                                                             \
    300000u /* ... and the node stays out until it has been up so long */

/* CLOCK_BOOTTIME and waiting by it; a test has others. */
struct members_clock {
    uint64_t (*now_ns)(void *arg);
    /* Until signalled, or `ms` later. ERR_OK, ERR_TIMEOUT, ERR_CANCELLED. May switch. */
    enum err (*wait)(void *arg, struct rt_cond *c, uint64_t ms);
    void *arg;
};
struct members_options {
    struct meta *meta;                             /* borrowed */
    const char *cluster, *node;                    /* names; copied, as all texts here */
    const char *data, *control, *clients, *domain; /* NULL: none */
    uint32_t weight;                               /* 0: MAP_NODE_WEIGHT */
    /* Joins the placement. Where native buckets exist already, a new node gets no keys and an old one keeps its weight: their
     * objects would have to move, which does not exist yet. */
    bool takes_keys;
    /* Comes in as `joining`, without a lease, until members_ready(): the disks open meanwhile. */
    bool waits;
    /* What the disks know. 0: nothing yet. */
    uint32_t number;
    const unsigned char *cluster_id; /* 16 bytes; NULL */
    uint64_t epoch;                  /* the highest one */
    /* Of the first map, where there is none yet: a node that ran alone keeps its id, and its versions stay the lower ones.
     * 0: 1. */
    uint64_t first_epoch;
    const struct members_clock *clock; /* NULL: the system's */
    /* Each map, in order of epochs, before it is acknowledged: the node stops what it must no longer do. May switch. */
    void (*on_map)(void *arg, const struct node_map *m);
    /* After each round: beats and acknowledgements of others may be new. It must not switch. NULL: nothing. */
    void (*on_look)(void *arg);
    /* The state is MEMBERS_REFUSED: the process ends soon. It must not switch. NULL: nothing. */
    void (*on_refused)(void *arg);
    void *arg;
};

/* Parts of the shared state of which beats say the revision that a node acts by. */
enum members_adopted { MEMBERS_BUCKETS, MEMBERS_USERS, MEMBERS_ADOPTED_ };

enum members_state {
    MEMBERS_OUT,       /* not in yet, or evicted: it tries to join */
    MEMBERS_PROBATION, /* beats, and is not up: joining, in maintenance, or evicted too often */
    MEMBERS_IN,
    MEMBERS_REFUSED, /* for good; members_why() says why */
};

struct members;
/* Returns when the node is in, on probation, or refused: ERR_EXISTS: another node runs under this name; ERR_UNAVAILABLE:
 * another cluster, or an older state of it than the disks know. While etcd does not answer it waits. The scope of the
 * fiber bounds that. The fiber outlives the members. May switch. */
enum err members_join(const struct members_options *o, struct members **out,
                      struct errbuf *eb) MUST_CHECK;
/* The node can serve, with these disks: it becomes up. Once. */
void members_ready(struct members *m, const struct node_disk *disks, uint32_t count);
/* Takes the node out of the map, so that others need not wait for it to be evicted. NULL is fine. May switch. */
void members_leave(struct members **mp);
/* Ends without a word, as a crash does. NULL is fine. May switch. */
void members_abandon(struct members **mp);

/* Time that the lease is still valid; 0: it is not. Any loop. */
uint64_t members_lease_left_ns(const struct members *m);
enum members_state members_state_now(const struct members *m);
const char *members_why(const struct members *m); /* the last error, or "" */
uint32_t members_number(const struct members *m);
/* The map that was adopted last; valid until the next switch. */
const struct node_map *members_map(const struct members *m);
/* Every node that is live in the adopted map has acknowledged `epoch`, or a later one. False while that is not known. */
bool members_acknowledged(const struct members *m, uint64_t epoch);

/* What is known of the beat of another node. */
struct members_peer {
    uint32_t number;
    uint64_t age_ns; /* since its beat was first seen */
    int64_t skew_ms; /* of its wall clock, about */
    uint64_t epoch;  /* that it has acknowledged */
};
uint32_t members_peers(const struct members *m, struct members_peer *out, uint32_t max);

/* ---- the shared state beside the map: on loop 0 ---- */

/* This node acts by this revision from here on; its next beat says so, at once. */
void members_adopted(struct members *m, enum members_adopted what, uint64_t revision);
/* Until every live node acts by this revision or a later one, or was evicted. ERR_UNAVAILABLE, in words: this node has no
 * lease, or the time is over: the change is made, and some node may not know it. May switch. */
enum err members_wait_adopted(struct members *m, enum members_adopted what,
                              uint64_t revision, struct errbuf *eb) MUST_CHECK;
/* The map that meta has now, or a later one, is adopted when this returns. May switch. */
enum err members_catch_up(struct members *m, struct errbuf *eb) MUST_CHECK;

/* ---- what an operator says: on loop 0; may switch ---- */

/* A node in maintenance has no lease and serves nothing, also after a restart. When that ends it becomes up by itself.
 * ERR_NOT_FOUND: no such node; ERR_EXISTS: it is removed, or in that state already; ERR_BUSY: the map is changed elsewhere. */
enum err members_set_maintenance(struct members *m, struct span node, bool on,
                                 struct errbuf *eb) MUST_CHECK;
/* Removes a node for ever: its name and number never come back, its keys go to the others. ERR_PRECONDITION: it has keys,
 * and `lost` does not say that their objects are lost; ERR_EXISTS: it is up. */
enum err members_remove_node(struct members *m, struct span node, bool lost,
                             struct errbuf *eb) MUST_CHECK;

#ifdef FB_TEST_HOOKS
/* Faults to plant, for tests of the checker: a sum of these. */
enum {
    MEMBERS_PLANT_LEASE_FROM_ANSWER = 1, /* instead of from the request */
    MEMBERS_PLANT_EVICT_UNSEEN = 2,      /* whatever the beat is now */
    MEMBERS_PLANT_EVICT_EARLY = 4,       /* after half of the time */
    MEMBERS_PLANT_NO_ACKNOWLEDGE = 8,    /* orders keys at once */
    MEMBERS_PLANT_BLIND = 16,            /* ages beats while it sees none */
};
extern unsigned members_plant;
#endif
