/* memtable: what is committed but not yet in the index: immutable sorted runs in memory, one a commit batch, merged
 * as they pile up.
 *
 * One fiber, on the disk's owner loop, fills runs and pushes them (the committer; before any other reader: the
 * replay). Any loop reads, without a lock: a reader takes the list of runs that is current, and what it was
 * given stays good until its next switch; old lists die by rt_retire().
 *
 * A lookup asks the memtable first and the index after it. Runs leave the memtable only when the index has them and a
 * new read transaction would see them: so nothing is ever in neither.
 */
#pragma once
#include "base/arena.h"
#include "store/index/lookup_cache.h"
#include "store/index/run.h"
#include "store/record/keys.h"

struct run;

struct memtable;
struct memtable *memtable_new(void);
void memtable_free(struct memtable **tp); /* nobody reads any more */
/* Takes the run (*rp becomes NULL) and makes it visible to every loop. Owner loop. */
void memtable_push(struct memtable *t, struct run **rp);
/* The replay has nobody who waits, and nobody else reads: what it changes is gathered, and put in order by the pool, a
 * hundred thousand keys at a time. Until told otherwise, by the same fiber, which may switch then. */
void memtable_replaying(struct memtable *t, bool yes);
/* While replaying: where changes may be added at once (run_gather_new()); NULL else. Good until the next switch, and the
 * next memtable_push() or memtable_gather(). */
struct run *memtable_gathered(struct memtable *t);
/* The end of a batch of which some changes may have been added so; *rp has the others, or is NULL. */
void memtable_gather(struct memtable *t, struct run **rp);
/* What the loops remember of their lookups: a push makes them forget what it changes. */
struct lookup_cache *memtable_lookup_cache(struct memtable *t);
uint64_t memtable_bytes(const struct memtable *t); /* memory of all runs; any loop */
uint64_t memtable_bytes_new(
    const struct memtable *t); /* of those that are not frozen. Home */
uint32_t memtable_count(const struct memtable *t); /* entries */

enum memtable_result { MEMTABLE_MISS, MEMTABLE_HIT, MEMTABLE_DELETED };
/* The newest value of a key; MEMTABLE_DELETED only where the value is empty (tombstones are values). *value is good
 * until the next switch. Any loop. */
enum memtable_result memtable_find(const struct memtable *t, enum table table,
                                   uint64_t bucket, struct span key, struct span *value);

/* A page of keys in byte order. Tail and index answer it alike; list.c merges. */
struct scan {
    enum table table;
    uint64_t bucket;
    struct span prefix; /* keys that begin so; empty: all of the bucket */
    struct span after;  /* keys > after, or >= after when inclusive */
    bool inclusive;
    uint32_t max;
};
struct page {
    struct coded_entry *entries; /* in the arena, bytes included; ascending */
    uint32_t count;
    bool more; /* the page ended for max, not for want of keys */
};
/* Tombstones and gone ones included. ERR_BUSY: the arena's limit. Any loop; does not switch. */
enum err memtable_scan(struct memtable *t, const struct scan *s, struct arena *a,
                       struct page *out) MUST_CHECK;

/* ---- towards the index ---- */
/* What the memtable holds now is frozen: no longer merged with what comes, still read. The batch borrows the runs
 * until memtable_drop(). One batch at a time. Owner loop. */
struct frozen_runs {
    const struct run **runs; /* oldest first */
    uint32_t count;
};
bool memtable_freeze(struct memtable *t,
                     struct frozen_runs *out); /* false: nothing to do */
/* While replaying: the batch's runs are put in order, before the index takes them. On an error some are not. May switch. */
enum err memtable_sort_frozen(struct memtable *t, struct frozen_runs *b) MUST_CHECK;
void memtable_drop(struct memtable *t,
                   struct frozen_runs *b); /* the index has it, durably */
void memtable_thaw(struct memtable *t,
                   struct frozen_runs *b); /* the index failed: all stays */
