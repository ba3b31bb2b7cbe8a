/* memtable: what is committed and not yet in the index: immutable sorted runs in memory, one for each commit batch, merged as they
 * pile up.
 *
 * One fiber on the owner loop of the disk fills runs and pushes them: the committer, and before it the replay. Any loop reads,
 * without a lock: a reader takes the current list of runs, and what it gets stays valid until its next switch; rt_retire() frees
 * old lists.
 *
 * A lookup asks the memtable first, then the index. Runs leave the memtable only when the index has them and a new read
 * transaction sees them. So every change is in at least one of them.
 */
#pragma once
#include "base/arena.h"
#include "store/index/lookup_cache.h"
#include "store/index/run.h"
#include "store/record/keys.h"

struct run;

struct memtable;
struct memtable *memtable_new(void);
void memtable_free(struct memtable **tp); /* no loop reads it any more */
/* Takes the run (*rp becomes NULL) and makes it visible to every loop. Owner loop. */
void memtable_push(struct memtable *t, struct run **rp);
/* During replay only the replay reads: its changes are gathered, and the pool sorts them, a hundred thousand keys at a time. The same
 * fiber ends that with `false`, and may switch then. */
void memtable_replaying(struct memtable *t, bool yes);
/* During replay: the run to which changes may be added directly (run_gather_new()); else NULL. Valid until the next switch,
 * memtable_push() or memtable_gather(). */
struct run *memtable_gathered(struct memtable *t);
/* The end of a batch, of which some changes may be in memtable_gathered() already; *rp has the others, or is NULL. */
void memtable_gather(struct memtable *t, struct run **rp);
/* The lookup caches of the loops: a push invalidates what it changes. */
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

/* A page of keys in byte order. Memtable and index answer it alike; list.c merges. */
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
    bool more; /* the page ended at `max`, and keys follow */
};
/* Tombstones and deleted keys included. ERR_BUSY: the limit of the arena. Any loop; does not switch. */
enum err memtable_scan(struct memtable *t, const struct scan *s, struct arena *a,
                       struct page *out) MUST_CHECK;

/* ---- towards the index ---- */
/* Freezes the present runs: they are still read, and no longer merged with later ones. The batch borrows them until memtable_drop() or
 * memtable_thaw(). One batch at a time. Owner loop. */
struct frozen_runs {
    const struct run **runs; /* oldest first */
    uint32_t count;
};
bool memtable_freeze(struct memtable *t,
                     struct frozen_runs *out); /* false: nothing to do */
/* During replay: sorts the runs of the batch for the index. On an error some are not sorted. May switch. */
enum err memtable_sort_frozen(struct memtable *t, struct frozen_runs *b) MUST_CHECK;
void memtable_drop(struct memtable *t,
                   struct frozen_runs *b); /* the index has it, durably */
void memtable_thaw(struct memtable *t,
                   struct frozen_runs *b); /* the index failed: all stays */
