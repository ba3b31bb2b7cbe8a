/* What the files of this room share: members.c is the fiber and the beat, join.c enters and leaves the map, evict.c watches
 * the others. Loop 0 only, but for the lease. */
#pragma once
#include <stdatomic.h>

#include "members/beat.h"
#include "members/members.h"
#include "rt/fiber.h"

/* The beat of a node, as seen last. */
struct members_seen {
    uint32_t number;
    uint64_t revision; /* 0: it has none */
    uint64_t first_ns; /* when this one was seen first, by this node's clock */
    int64_t skew_ms;
    struct beat beat;
};
struct members {
    struct members_options o; /* texts are owned */
    struct members_clock clock;
    uint64_t incarnation, sequence;
    uint32_t number;
    enum members_state state;
    struct errbuf why;
    _Atomic uint64_t lease_until_ns; /* 0: none */
    uint64_t beat_revision;          /* of our beat, as we left it */
    uint64_t probation_ns;           /* when it began */

    struct node_map *map; /* owned; adopted; NULL before the first */
    uint64_t map_revision;
    bool adopting;
    uint64_t adopted[MEMBERS_ADOPTED_];

    struct members_seen seen[MAP_NODES_MAX];
    uint32_t seen_count;
    uint64_t looked_ns; /* the last good look at all beats; 0: none */
    unsigned former; /* how often the beat of a former process of this node has changed */

    struct meta_watch *watch;
    struct rt_group group; /* one fiber */
    struct rt_cond wake, changed;
    bool poked, stopping, ready;
    struct node_disk disks[MAP_NODE_DISKS_MAX]; /* those of members_ready() */
    uint32_t disk_count;
};

#ifdef FB_TEST_HOOKS
#define MEMBERS_PLANTED(what) ((members_plant & (what)) != 0)
#else
#define MEMBERS_PLANTED(what) false
#endif

uint64_t members_now_ns(const struct members *m);
/* The scope of one request to meta: shorter than the beat's period, or nearly. */
void members_request_begin(struct rt_scope *s);
/* The node is not in the map any more: its lease ends now. */
void members_lost(struct members *m, const char *why);
/* For good. */
void members_refuse(struct members *m);
/* Takes over a newer map: calls on_map, acknowledges. Own node not in it as this incarnation: members_lost(). May switch. */
enum err members_adopt(struct members *m, const struct meta_pair *pair,
                       struct errbuf *eb);
void members_lease_extend(struct members *m, uint64_t sent_ns);
/* The value of our next beat, in `out`. */
void members_next_beat(struct members *m, uint64_t epoch, struct buf *out);

/* ---- join.c ---- */
/* One try. ERR_OK: it is in, or on probation. ERR_BUSY: again later. Others: refused, or meta does not answer. */
enum err members_try_join(struct members *m, struct errbuf *eb) MUST_CHECK;
/* Ready, or on probation for long enough: becomes up. */
void members_try_promote(struct members *m);
void members_try_leave(struct members *m);

/* ---- evict.c ---- */
/* Looks at all beats, and evicts whose is too old. May switch. */
void members_look(struct members *m);
/* Since when this revision of the node's beat is known, by this node's clock. */
const struct members_seen *members_see(struct members *m, uint32_t number,
                                       const struct meta_pair *pair);
struct members_seen *members_seen_of(struct members *m, uint32_t number);
