/* internal: what the files of the disks room share.
 *
 * Slots are numbered in the order in which disks came in this process, and never used twice: a slot that is read once
 * stays what it is. The set changes on loop 0 only (the control loop): membership, states, jobs.
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
/* Ids of deleted buckets that are remembered: a request would have to outlive as many that were made since. */
#define CLOSED_BUCKETS 4096u
/* Keys with these may have older versions, which stand beside them. */
#define ENTRY_HISTORY (ENTRY_VERSIONED | ENTRY_SUSPENDED | ENTRY_MARKER)
#define REPAIRS_MAX   4096 /* keys that wait for a repair; beyond: a whole pass */

enum replica_state {
    REPLICA_ACTIVE,   /* takes what its weight says */
    REPLICA_DRAINING, /* takes nothing new */
    /* takes no writes until the next start: what it has is read, nothing goes there */
    REPLICA_FROZEN,
    REPLICA_OUT, /* failed, or not here: it does not answer, keys that only it holds are unavailable */
    REPLICA_REMOVED, /* removed */
};

/* Fields by who may touch them. */
struct replica_slot {
    /* Set before it is counted in slot_count, then never changed. */
    uint8_t id[16];
    char *path; /* owned */
    struct place_disk place;
    struct disks *disks;
    /* Its store is owned; NULL: the disk was not here at the start. Closed when REMOVED and no call is inside. */
    struct replica at;

    /* Any loop. */
    _Atomic int state;
    struct hedge_times times[HEDGE_KINDS]; /* hedge.c */

    /* Control loop. */
    uint64_t
        durable; /* commits of prepared versions of this epoch up to this counter survive a power cut */
    enum replica_state
        in_list; /* the state that the list on disk is to say; `state` follows when it does */
    bool missed; /* out or frozen, and it may hold keys that its order does not say */
    uint64_t
        went_at; /* out or frozen: the counter of ids then; it coordinated no later prepare. 0: before this start */
    bool retiring;     /* removed, and every loop is about to have passed on */
    _Atomic bool gone; /* every loop has */
};

struct disks {
    /* Any loop. */
    _Atomic uint32_t
        sole; /* 1 + the slot of the only disk; 0: there are several, or a change is under way */
    _Atomic uint32_t
        serial; /* another one whenever `sole`, a slot's state, or `converged` changes */
    _Atomic bool converged; /* every object lies where its order says */
    _Atomic bool
        guarded; /* writes take the lock of their key: objects may be moved meanwhile */
    _Atomic bool
        all_locked; /* guarded, and no change that began without its key's lock is under way */
    _Atomic bool out_diverged; /* a disk that is out is `missed`: anything may be on it */
    _Atomic uint32_t slot_count;
    struct replica_slot slots[DISKS_MAX];
    struct store_ids ids;            /* shared with every store */
    struct block_cache *block_cache; /* owned; shared with every store */
    struct hedge hedge;

    /* Changes under way, so that a change of the set can wait for those that began before it. */
    _Atomic uint32_t phase;          /* parity chooses the counter */
    _Atomic uint64_t changes[2];     /* calls between change_begin() and change_end() */
    struct rt_waiter *_Atomic ender; /* waits for those of the phase before; NULL: none */
    _Atomic uint64_t
        closed[CLOSED_BUCKETS]; /* buckets that are deleted, or were: by id; 0: none */
    _Atomic uint32_t generation;
    _Atomic uint64_t
        writers[WRITER_GENERATIONS]; /* open ones, by generation of their begin */
    /* Calls inside each slot: what entered on this loop less what left on it. Only the sum over all loops means anything. */
    struct {
        _Atomic uint64_t of_slot[DISKS_MAX];
    } inside[LOOPS_MAX];
    _Atomic uint64_t removals; /* copies that were taken away from a place */
    _Atomic uint32_t
        pauses; /* listings that were disturbed by removals, and hold them up for a moment */
    struct keylocks *keylocks;     /* owned */
    struct rebalancer *rebalancer; /* owned; rebalance.h */

    /* Control loop. */
    struct {
        struct store_options o; /* for disks that come */
        struct rt_dir *state;   /* owned; NULL: no list is kept */
        struct membership membership;
        bool closed_well; /* nothing of a disorderly end is left to be looked after */
        bool
            after_crash; /* that is all why the set is not converged: no object is missed */
        bool stored_converged;   /* what the list on disk says */
        struct rt_sem storing;   /* one writes it at a time */
        struct rt_sem changing;  /* one change of the set at a time */
        struct rt_sem ending;    /* one waits for changes at a time */
        uint64_t unguarded;      /* how often */
        uint32_t states;         /* how often a slot came, or its state changed */
        uint64_t rebalance_rate; /* bytes a second; 0: the rebalancer's own */
        void (*on_list)(void *arg);
        void *on_list_arg;
        /* Buckets by id, those behind `after`; false: no more. NULL: they are not known yet. */
        bool (*next_bucket)(void *arg, uint64_t after, struct disks_bucket *out);
        void *buckets_arg;
    } control;
};

struct disks_writer {
    struct disks *disks;
    enum store_class class;
    uint32_t generation; /* counted in writers[] */
    unsigned placed;     /* disks it should go to */
    unsigned count;      /* disks it goes to, all entered */
    unsigned least;      /* with so many it is taken */
    struct replica_writer
        *to[DISKS_COPIES_MAX]; /* owned; the owner's first; NULL: it failed */
    uint8_t slot[DISKS_COPIES_MAX];
    struct disks_key key; /* spans in `names` */
    char names[];
};

/* The slot of the only disk. False: there are several, or there is a change of the set under way. */
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
        count; /* slots that answer: placed ones in the key's order, then the others */
    unsigned placed;  /* of these, the first so many are where the object should be */
    unsigned with;    /* places_of_change(): the first so many have versions of the key */
    bool unreachable; /* one that does not answer could hold the key */
    uint8_t at[DISKS_MAX];
};
void places_of(struct disks *ds, const struct disks_key *k, struct places *out);
/* Is there a disk that cannot receive a delete now, and may come back with the object? */
bool any_replica_unreachable(struct disks *ds);
/* All that answer, those that lose objects before those that gain them. */
unsigned places_all(struct disks *ds, uint8_t out[DISKS_MAX]);

/* The replica of slot i, which stays open until replica_leave(); NULL: it is out of service or removed. Two plain additions of
 * this loop. Not on threads that are no loop. */
struct replica *replica_enter(struct disks *ds, unsigned i);
/* On any loop, not only that of replica_enter(). NULL is fine. */
void replica_leave(struct replica *r);
/* The slot of a replica. */
static inline unsigned
replica_slot_of(const struct replica *r)
{
    const struct replica_slot *s = CONTAINER_OF(r, const struct replica_slot, at);

    return (unsigned)(s - s->disks->slots);
}
/* The disk was drained or dropped, then removed: what it had is not missed, also by calls that were about to ask it. */
bool replica_is_removed(struct disks *ds, unsigned i);
/* Calls inside slot i. Exact once it can no longer be entered and every loop has passed on. */
uint64_t replica_inside(struct disks *ds, unsigned i);

/* Each replica that answers, those that lose objects before those that gain them:
 *     for (struct replica_walk w = replica_walk(ds); replica_walk_next(&w);) ... w.at, w.slot
 * A walk that is left early is ended by replica_walk_end(). */
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

/* Below, above or 0, as memcmp(). */
static inline int
version_order(const struct version *a, const struct version *b)
{
    if (a->epoch != b->epoch)
        return a->epoch < b->epoch ? -1 : 1;
    return (a->counter > b->counter) - (a->counter < b->counter);
}

/* A change of one key: begun, and with the key's lock where objects may be moved (`guarded`). */
struct key_change {
    struct disks *ds;
    uint64_t hash; /* of the key, when `locked` */
    uint32_t phase;
    bool locked;
};
/* The caller ends it on the same fiber. May switch. */
struct key_change key_change_begin(struct disks *ds, const struct disks_key *k);
void key_change_end(struct key_change *c);

/* Around each change of an object. *phase goes back to change_end(). Does not wait. */
bool change_begin(struct disks *ds,
                  uint32_t *phase); /* returns whether keys are locked */
void change_end(struct disks *ds, uint32_t phase);
/* Returns when every change that began before has ended. Control loop. May switch. */
void changes_before_end(struct disks *ds);
/* The same of those that began without the lock of their key; not where none can be. Any loop, not between change_begin() and
 * change_end(). May switch. */
enum err unlocked_before_end(struct disks *ds, struct errbuf *eb) MUST_CHECK;
/* Changes take no locks from here on. Control loop. */
void unguard(struct disks *ds);
/* Does the bucket take objects? ERR_BUSY: it is being deleted. Between change_begin() and change_end(). */
enum err bucket_takes(struct disks *ds, uint64_t bucket, struct errbuf *eb) MUST_CHECK;
uint32_t generation_enter(struct disks *ds);
void generation_leave(struct disks *ds, uint32_t generation);
/* May there be a new generation of writers? Not while one of the sixteen is still open. Control loop. */
bool writers_may_next(struct disks *ds);
/* From now on writers are of a new generation, if there may be one: after what they are to know is published. Control loop. */
void writers_next(struct disks *ds);
/* Are writers open that began in an earlier generation? */
bool writers_old(struct disks *ds);

/* The set is not converged from here on, and that is on stable storage. Any loop. May switch. */
enum err set_diverge(struct disks *ds, struct errbuf *eb) MUST_CHECK;
/* A slot's state, or `missed` of one that is out, has changed. Control loop. */
void missed_count(struct disks *ds);
/* Writes the list of disks. Control loop. */
enum err membership_store(struct disks *ds, struct errbuf *eb) MUST_CHECK;
/* Stores the state in the list on disk, then publishes it. Control loop. */
enum err replica_set_state(struct disks *ds, unsigned i, enum replica_state state,
                           struct errbuf *eb) MUST_CHECK;
/* Publishes the state, whatever the list says. Control loop. */
void replica_publish_state(struct disks *ds, unsigned i, enum replica_state state);
static inline void
set_changed(struct disks *ds)
{
    atomic_fetch_add(&ds->serial, 1);
}

/* ---- list.c ---- */

/* One page of each replica, merged in order; what several have is given out once. */
struct pages;
/* Of items of `size` bytes; `cmp` as for qsort(). In the arena; NULL: it is full. */
struct pages *pages_new(struct arena *a, size_t size,
                        int (*cmp)(const void *a, const void *b));
void pages_add(struct pages *p, const void *items, uint32_t count, bool more);
/* False: no item is left, or a page has ended behind which its replica has more. */
bool pages_next(struct pages *p, void *out);
/* Is there anything behind what was given out? */
bool pages_left(const struct pages *p);

/* With so many disks out of service, may every copy of something be out? */
bool listing_incomplete(struct disks *ds, unsigned copies);

/* Keeps the first error of several: *first and the text in `eb` (NULL is fine). */
void note_first(enum err one, const struct errbuf *why, enum err *first,
                struct errbuf *eb);

/* ---- copy.c ---- */

/* What slot `slot` has of a cached key is dropped; ERR_OK too where there is nothing, or the slot is out of service. */
enum err cached_drop(struct disks *ds, const struct disks_key *k, unsigned slot,
                     bool *dropped, struct errbuf *eb) MUST_CHECK;

/* ---- read.c ---- */

/* Asks every replica; the highest version wins; out->place.disk is its slot. A tombstone is an entry. ERR_NOT_FOUND, or
 * ERR_UNAVAILABLE when a replica that could know did not answer. */
enum err lookup_all(struct disks *ds, const struct disks_key *k, struct entry *out,
                    struct errbuf *eb) MUST_CHECK;

/* Where a change of the key goes. While objects may be moved (`guarded`), a key with older versions stays where they are:
 * the disks that have them come first. May switch. */
void places_of_change(struct disks *ds, const struct disks_key *k, bool guarded,
                      struct places *out);

/* ---- copy.c ---- */

/* The object of `entry` (on slot entry->place.disk) to slot `to`, whole: durable there. ERR_PRECONDITION: something newer is there.
 * The caller holds the key's lock. */
enum err copy_object(struct disks *ds, const struct disks_key *k,
                     const struct entry *entry, unsigned to, uint64_t *bytes,
                     struct errbuf *eb) MUST_CHECK;
/* What the key is now, object or tombstone, is on slot `to` when this returns ERR_OK: so that it can check conditions. Of a
 * key with versions all are, and on the slots of `also` (bits) too, to which the change goes. The caller holds the key's
 * lock. */
enum err copy_to_owner(struct disks *ds, const struct disks_key *k, unsigned to,
                       uint64_t also, struct errbuf *eb) MUST_CHECK;
