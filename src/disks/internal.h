/* internal: shared by the files of the disks room.
 *
 * Slots are numbered in the order in which disks were opened in this process, and numbers are
 * never reused. The set changes on loop 0 only (the control loop): membership, states, jobs.
 */
#pragma once
#include <stdatomic.h>

#include "base/list.h"
#include "base/mem.h"
#include "disks/disks.h"
#include "disks/hedge.h"
#include "disks/keylock.h"
#include "disks/membership.h"
#include "disks/place.h"
#include "disks/replica.h"
#include "rt/loop.h"
#include "rt/sync.h"

#define WRITER_GENERATIONS 16
#define LOOPS_MAX          256
/* Number of deleted bucket ids to remember. A request would have to outlive this many later
 * deletions to miss one. */
#define CLOSED_BUCKETS 4096u
/* Keys with these flags may have older versions. */
#define ENTRY_HISTORY (ENTRY_VERSIONED | ENTRY_SUSPENDED | ENTRY_MARKER)
#define REPAIRS_MAX   4096 /* keys that wait for a repair; beyond that, a whole pass */

enum replica_state {
    REPLICA_ACTIVE,   /* takes keys by its weight */
    REPLICA_DRAINING, /* accepts nothing new */
    /* accepts no writes until the next start: its objects are still read */
    REPLICA_FROZEN,
    /* Failed or missing: does not answer; keys that only it holds are unavailable. */
    REPLICA_OUT,
    REPLICA_REMOVED, /* removed */
};

/* Fields are grouped by who may touch them. */
struct replica_slot {
    /* Set before slot_count includes it, then constant. */
    uint8_t id[16];
    char *path; /* owned */
    struct place_disk place;
    struct disks *disks;
    /* Its store is owned; NULL: the disk was missing at the start. Closed once REMOVED and no
     * call is inside. */
    struct replica at;

    /* Any loop. */
    _Atomic int state;
    struct hedge_times times[HEDGE_KINDS]; /* hedge.c */

    /* Control loop. */
    uint64_t durable; /* commits of prepared versions are durable up to this counter */
    enum replica_state
        in_list; /* state for the list on disk; `state` follows once that is written */
    bool missed; /* out or frozen; may hold keys that by their order are not its own */
    uint64_t
        went_at; /* id counter when it went out: it coordinated no later prepare; 0: an earlier
                  * start */
    bool replaced;     /* its disk returned, and has a later slot */
    bool retiring;     /* removed, or its disk returns; waits for every loop to pass */
    _Atomic bool gone; /* every loop has passed */
};

struct disks {
    /* Any loop. */
    _Atomic uint32_t
        sole; /* 1 + the slot of the only disk; 0: several, or the set is changing */
    _Atomic uint32_t
        serial; /* changes whenever `sole`, a slot's state or `converged` does */
    _Atomic bool converged; /* every object lies where its key's order says */
    _Atomic bool guarded;   /* writes lock their key, because objects may be moved */
    _Atomic bool
        all_locked; /* guarded, and no change without its key's lock is in progress */
    _Atomic bool out_diverged; /* a disk that is out is `missed`: it may hold any key */
    _Atomic uint32_t slot_count;
    struct replica_slot slots[DISKS_MAX];
    struct store_ids ids;            /* shared with every store */
    struct block_cache *block_cache; /* owned; shared with every store */
    struct hedge hedge;

    /* Counts changes in progress, so that a change of the set can wait for the earlier ones. */
    _Atomic uint32_t phase;      /* parity chooses the counter */
    _Atomic uint64_t changes[2]; /* changes between change_begin() and change_end() */
    /* Waits for the changes of the phase before; NULL: none. */
    struct rt_waiter *_Atomic ender;
    _Atomic uint64_t
        closed[CLOSED_BUCKETS]; /* buckets that are closed or deleted, by id; 0: none */
    _Atomic uint32_t generation;
    _Atomic uint64_t
        writers[WRITER_GENERATIONS]; /* open ones, by generation of their begin */
    /* Calls inside each slot: entries on this loop minus exits on it. Only the sum over all
     * loops is meaningful. */
    struct {
        _Atomic uint64_t of_slot[DISKS_MAX];
    } inside[LOOPS_MAX];
    _Atomic uint64_t removals; /* copies removed from a disk */
    _Atomic uint32_t
        pauses; /* listings that removals disturbed; removals pause for them */
    struct keylocks *keylocks;     /* owned */
    struct rebalancer *rebalancer; /* owned; rebalance.h */

    /* Control loop. */
    struct {
        struct store_options o;   /* for disks added later */
        uint64_t first_map_epoch; /* with which this start began */
        struct rt_dir *state;     /* owned; NULL: no list is kept */
        struct membership membership;
        /* The last process closed in order, or its traces are handled. */
        bool closed_well;
        bool
            after_crash; /* not converged only because of a crash: no object is missing */
        bool stored_converged;   /* the value in the list on disk */
        struct rt_sem storing;   /* serializes writes of the list */
        struct rt_sem changing;  /* serializes changes of the set */
        struct rt_sem ending;    /* serializes waits for changes */
        uint64_t unguarded;      /* number of unguard() calls */
        uint32_t states;         /* changes of slots or of their states */
        uint64_t rebalance_rate; /* bytes a second; 0: the rebalancer's default */
        void (*on_list)(void *arg);
        void *on_list_arg;
        /* Returns the next bucket after `after`, by id; false: no more. NULL: buckets are not
         * known yet. */
        bool (*next_bucket)(void *arg, uint64_t after, struct disks_bucket *out);
        void *buckets_arg;
    } control;
};

struct disks_writer {
    struct disks *disks;
    enum store_class class;
    uint32_t generation; /* its index in writers[] */
    unsigned placed;     /* disks that it should go to */
    unsigned count;      /* disks that it goes to, all entered */
    unsigned least;      /* disks needed for success */
    struct replica_writer
        *to[DISKS_COPIES_MAX]; /* owned; the owner's first; NULL: that one failed */
    uint8_t slot[DISKS_COPIES_MAX];
    struct upload_id upload; /* of a part */
    uint32_t part;           /* its number; 0: no part */
    struct disks_key key;    /* spans in `names` */
    char names[];
};

/* Returns the slot of the only disk. False: there are several, or a change of the set is in
 * progress. */
static inline bool
sole_slot(const struct disks *ds, unsigned *out)
{
    uint32_t sole = atomic_load_explicit(&ds->sole, memory_order_acquire);

    *out = sole > 0 ? sole - 1 : 0;
    return sole > 0;
}
static inline bool
is_sole(const struct disks *ds)
{
    return atomic_load_explicit(&ds->sole, memory_order_acquire) > 0;
}

static inline enum replica_state
replica_state(const struct replica_slot *s)
{
    return (enum replica_state)atomic_load_explicit(&s->state, memory_order_acquire);
}

/* ---- set.c ---- */

/* Where a key lies, or may lie. */
struct places {
    unsigned
        count; /* slots in service: placed ones in the key's order, then the others */
    unsigned placed;  /* the first so many should hold the object */
    unsigned with;    /* places_of_change(): the first so many have versions of the key */
    bool unreachable; /* a slot out of service could hold the key */
    uint8_t at[DISKS_MAX];
};
void places_of(struct disks *ds, const struct disks_key *k, struct places *out);
/* True if a disk cannot receive a delete now and may return with the object. */
bool any_replica_unreachable(struct disks *ds);
/* All slots in service. Those that lose objects come before those that gain them. */
unsigned places_all(struct disks *ds, uint8_t out[DISKS_MAX]);

/* Enters slot i: its replica stays open until replica_leave(). NULL: out of service or removed.
 * Costs two plain additions on this loop. Only on threads that are loops. */
struct replica *replica_enter(struct disks *ds, unsigned i);
/* On any loop, not only that of replica_enter(). NULL is fine. */
void replica_leave(struct replica *r);
/* The slot number of a replica. */
static inline unsigned
replica_slot_of(const struct replica *r)
{
    const struct replica_slot *s = CONTAINER_OF(r, const struct replica_slot, at);

    return (unsigned)(s - s->disks->slots);
}
/* True if the disk was drained or dropped, then removed: its objects are not missed, not even by
 * calls that were about to read it. */
bool replica_is_removed(struct disks *ds, unsigned i);
/* Number of calls inside slot i. Exact once it can no longer be entered and every loop has
 * passed. */
uint64_t replica_inside(struct disks *ds, unsigned i);

/* Iterates over the replicas in service. Those that lose objects come before those that gain
 * them:
 *     for (struct replica_walk w = replica_walk(ds); replica_walk_next(&w);) ... w.at, w.slot
 * End an incomplete walk with replica_walk_end(). */
struct replica_walk {
    struct disks *ds;
    struct replica *at; /* entered; NULL before the first and after the last */
    unsigned slot;
    unsigned next, count;
    uint8_t all[DISKS_MAX];
};
struct replica_walk replica_walk(struct disks *ds);
bool replica_walk_next(struct replica_walk *w);
void replica_walk_end(struct replica_walk *w);

/* As memcmp(). */
static inline int
version_order(const struct version *a, const struct version *b)
{
    if (a->epoch != b->epoch)
        return a->epoch < b->epoch ? -1 : 1;
    return (a->counter > b->counter) - (a->counter < b->counter);
}

/* A change of one key in progress. It holds the key's lock if objects may be moved (`guarded`). */
struct key_change {
    struct disks *ds;
    uint64_t hash; /* of the key, if `locked` */
    uint32_t phase;
    bool locked;
};
/* The caller ends it on the same fiber. May switch. */
struct key_change key_change_begin(struct disks *ds, const struct disks_key *k);
void key_change_end(struct key_change *c);

/* Bracket each change of an object. *phase is passed to change_end(). Does not wait. */
bool change_begin(struct disks *ds,
                  uint32_t *phase); /* returns whether keys are locked */
void change_end(struct disks *ds, uint32_t phase);
/* Waits for every change that began before. Control loop. May switch. */
void changes_before_end(struct disks *ds);
/* Waits for every earlier change that began without its key's lock; returns at once if there can
 * be none. Any loop, but not between change_begin() and change_end(). May switch. */
enum err unlocked_before_end(struct disks *ds, struct errbuf *eb) MUST_CHECK;
/* Ends the locking of keys by changes. Control loop. */
void unguard(struct disks *ds);
/* Checks that the bucket accepts objects. ERR_BUSY: it is being deleted. Between change_begin()
 * and change_end(). */
enum err bucket_takes(struct disks *ds, uint64_t bucket, struct errbuf *eb) MUST_CHECK;
uint32_t generation_enter(struct disks *ds);
void generation_leave(struct disks *ds, uint32_t generation);
/* True if a new generation of writers may begin: the counter that it reuses has no open writer.
 * Control loop. */
bool writers_may_next(struct disks *ds);
/* Begins a new generation of writers, if one may begin. Call it after publishing what they must
 * see. Control loop. */
void writers_next(struct disks *ds);
/* True if writers of an earlier generation are open. */
bool writers_old(struct disks *ds);

/* Marks the set as not converged, durably. Any loop. May switch. */
enum err set_diverge(struct disks *ds, struct errbuf *eb) MUST_CHECK;
/* Updates out_diverged after a change of a slot's state, or of `missed` of one that is out.
 * Control loop. */
void missed_count(struct disks *ds);
/* Writes the list of disks. Control loop. */
enum err membership_store(struct disks *ds, struct errbuf *eb) MUST_CHECK;
/* Stores the state in the list on disk, then publishes it. Control loop. */
enum err replica_set_state(struct disks *ds, unsigned i, enum replica_state state,
                           struct errbuf *eb) MUST_CHECK;
/* Publishes the state without writing the list. Control loop. */
void replica_publish_state(struct disks *ds, unsigned i, enum replica_state state);
static inline void
set_changed(struct disks *ds)
{
    atomic_fetch_add(&ds->serial, 1);
}

/* ---- map_epoch.c ---- */

/* Before the first disk opens: versions of this start are of control.o.map_epoch. */
void map_epoch_begin(struct disks *ds);
/* Makes `epoch` durable on every disk, then that of new versions; nothing where it is not higher. The caller holds
 * `changing`. Control loop. May switch. */
enum err map_epoch_raise(struct disks *ds, uint64_t epoch, struct errbuf *eb) MUST_CHECK;
/* All are open: a disk whose logs had a later epoch than its superblock has raised it for all. */
enum err map_epoch_opened(struct disks *ds, struct errbuf *eb) MUST_CHECK;

/* ---- list.c ---- */

/* One page of each replica, merged in order without duplicates. */
struct pages;
/* For items of `size` bytes; `cmp` as for qsort(). In the arena; NULL: the arena is full. */
struct pages *pages_new(struct arena *a, size_t size,
                        int (*cmp)(const void *a, const void *b));
void pages_add(struct pages *p, const void *items, uint32_t count, bool more);
/* False: no item is left, or a page has ended whose replica has more. */
bool pages_next(struct pages *p, void *out);
/* True if there is anything after the items returned so far. */
bool pages_left(const struct pages *p);

/* True if, with this many copies, all copies of some object may be on disks out of service. */
bool listing_incomplete(struct disks *ds, unsigned copies);

/* Keeps the first of several errors: *first and the text in `eb` (NULL is fine). */
void note_first(enum err one, const struct errbuf *why, enum err *first,
                struct errbuf *eb);

/* ---- copy.c ---- */

/* Drops the entry of a cached key on slot `slot`. ERR_OK also if there is none, or the slot is
 * out of service. */
enum err cached_drop(struct disks *ds, const struct disks_key *k, unsigned slot,
                     bool *dropped, struct errbuf *eb) MUST_CHECK;

/* ---- read.c ---- */

/* Reads the key on every replica; the highest version wins; out->place.disk is its slot. A
 * tombstone is an entry. ERR_NOT_FOUND, or ERR_UNAVAILABLE if a replica that could have the key
 * did not answer. */
enum err lookup_all(struct disks *ds, const struct disks_key *k, struct entry *out,
                    struct errbuf *eb) MUST_CHECK;

/* Where a change of the key goes. While objects may be moved (`guarded`), the change goes to the
 * disks that have older versions: these come first. May switch. */
void places_of_change(struct disks *ds, const struct disks_key *k, bool guarded,
                      struct places *out);

/* ---- copy.c ---- */

/* Copies the object of `entry` (on slot entry->place.disk) to slot `to`, durably.
 * ERR_PRECONDITION: something newer is there. The caller holds the key's lock. */
enum err copy_object(struct disks *ds, const struct disks_key *k,
                     const struct entry *entry, unsigned to, uint64_t *bytes,
                     struct errbuf *eb) MUST_CHECK;
/* Copies the present state of the key, object or tombstone, to slot `to`, so that it can check
 * conditions. For a key with versions it copies all of them, and also to the slots of `also`
 * (bits), where the change goes. The caller holds the key's lock. */
enum err copy_to_owner(struct disks *ds, const struct disks_key *k, unsigned to,
                       uint64_t also, struct errbuf *eb) MUST_CHECK;
