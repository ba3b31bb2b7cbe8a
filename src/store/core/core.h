/* core: the state of an open store that every sub-room needs: identity, folders, owner loop, and
 * a pointer to what each sub-room owns. A sub-room sees the structs of the sub-rooms above it
 * and its own; others are incomplete here.
 *
 * "Owner" is the store's owner loop. Committers, flusher and every reservation run there, so
 * between two switches they have exclusive access.
 */
#pragma once
#include <assert.h>
#include <stdatomic.h>

#include "base/list.h"
#include "rt/fiber.h"
#include "rt/file.h"
#include "rt/loop.h"
#include "rt/sync.h"
#include "store/record/format.h"
#include "store/store.h"

struct store {
    /* Set in store_open(), then constant: any loop. */
    struct store_options o;
    bool read_only;        /* for the check: nothing is written */
    struct store_ids *ids; /* own_ids, or the node's */
    struct store_ids own_ids;
    uint8_t disk_id[16];
    uint64_t
        epoch; /* the start count of this open: higher than any on this disk before */
    uint64_t former_epoch;       /* of the open before */
    bool again;                  /* the second try of one open: the epoch is unchanged */
    _Atomic uint64_t generation; /* of the superblock; any loop reads */
    uint64_t map_epoch; /* of the superblock: no version here is of a later one; owner */
    uint32_t cluster_sum; /* crc32c of the cluster id: the seed of block sums */
    struct rt_dir *root, *state, *dir[STORE_CLASSES_];
    struct rt_file *superblock; /* locked */

    _Atomic bool failed; /* any loop: a write or sync of the native class failed */
    bool open;           /* owner: accepts changes */

    /* Owned by the sub-rooms. store_open() sets the pointers. */
    struct health *health; /* NULL while read_only, like space and prealloc */

    struct memtable *memtable;
    struct index *index;
    struct usage *usage;
    struct key_filter *key_filter; /* owner; keys that memtable and index may hold */

    struct segments *segments;
    struct space *space;
    struct block_cache *block_cache;
    struct readings *readings;
    struct access_freq *access_freq;

    struct wals *wals;
    struct prepared *prepared;
    struct committer *committer[STORE_CLASSES_];
    struct flusher *flusher;
    struct prealloc *prealloc;

    struct compactor *compactor;
    struct puncher *puncher;
    struct evictor *evictor;

    struct suspects *suspects; /* keys of which changes are lost (index/suspect.h) */
    struct recovery *recovery;
    struct scrub *scrub;
};

/* store.c: allocates a store with everything that its sub-rooms own, but without folders:
 * store_open() opens those, and the check does so read-only. store_free() undoes it, whatever
 * has been opened. */
struct store *store_new(const struct store_options *o, bool read_only);
void store_free(struct store **dp); /* NULL is fine */

/* store.c: asserts the invariants of all sub-rooms that hold between two switches of the owner
 * loop. The simulators call it after every operation. */
void store_invariants(const struct store *d);

/* Runs fn(arg) on the owner loop, directly if this is it. May switch. */
enum err on_owner_loop(struct store *d, fiber_fn *fn, void *arg) MUST_CHECK;
/* True if this fiber runs on the owner loop. For asserts. */
static inline bool
on_owner(const struct store *d)
{
    return rt_loop_index() == d->o.owner_loop;
}
struct content_id content_mint(struct store *d); /* any loop */
static inline uint64_t
next_id(struct store *d)
{
    return atomic_fetch_add_explicit(&d->ids->counter, 1, memory_order_relaxed) + 1;
}
/* The version of a change that this disk's committer orders. The epoch is read first: if it rises
 * in between, the next version is still higher than this one. It is not above that of the
 * superblock, which is durable: the next start begins with a higher one. Owner. */
static inline struct version
version_mint(struct store *d)
{
    uint64_t epoch = atomic_load_explicit(&d->ids->map_epoch, memory_order_acquire);
    struct version v = {.epoch = epoch < d->map_epoch ? epoch : d->map_epoch};

    v.counter = next_id(d);
    assert(on_owner(d));
    assert(v.epoch > 0);
    return v;
}
/* No version on this disk is higher. Owner. */
static inline struct version
version_latest(struct store *d)
{
    uint64_t epoch = atomic_load(&d->ids->map_epoch);

    return (struct version){.epoch = epoch < d->map_epoch ? epoch : d->map_epoch,
                            .counter = atomic_load(&d->ids->counter)};
}
/* Raises the epoch of new versions to that of `v`, and their counter: a version that is here is
 * never given out again, nor a lower one. */
void version_saw(struct store *d, const struct version *v);
