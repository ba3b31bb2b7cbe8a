/* tail: what is committed but not yet in the index: immutable sorted runs in memory, one a commit group, merged
 * as they pile up.
 *
 * One fiber, on the disk's home loop, fills runs and pushes them (the committer; before any other reader: the
 * replay). Any loop reads, without a lock: a reader takes the list of runs that is current, and what it was
 * given stays good until its next switch; old lists die by rt_retire().
 *
 * A lookup asks the tail first and the index after it. Runs leave the tail only when the index has them and a
 * new read transaction would see them: so nothing is ever in neither.
 */
#pragma once
#include "base/arena.h"
#include "disk/recent.h"
#include "disk/run.h"

struct tail;
struct tail *tail_new(void);
void tail_free(struct tail **tp); /* nobody reads any more */
/* Takes the run (*rp becomes NULL) and makes it visible to every loop. Home loop. */
void tail_push(struct tail *t, struct run **rp);
/* The replay has nobody who waits, and nobody else reads: what it changes is gathered, and put in order by the pool, a
 * hundred thousand keys at a time. Until told otherwise, by the same fiber, which may switch then. */
void tail_replaying(struct tail *t, bool yes);
/* While replaying: where changes may be added at once (run_gather_new()); NULL else. Good until the next switch, and the
 * next tail_push() or tail_gather(). */
struct run *tail_gathered(struct tail *t);
/* The end of a group of which some changes may have been added so; *rp has the others, or is NULL. */
void tail_gather(struct tail *t, struct run **rp);
/* What the loops remember of their lookups: a push makes them forget what it changes. */
struct recent *tail_recent(struct tail *t);
uint64_t tail_bytes(const struct tail *t);     /* memory of all runs; any loop */
uint64_t tail_bytes_new(const struct tail *t); /* of those that are not frozen. Home */
uint32_t tail_count(const struct tail *t);     /* entries */

enum tail_answer { TAIL_SILENT, TAIL_HAS, TAIL_GONE };
/* The newest value of a key; TAIL_GONE only where the value is empty (tombstones are values). *value is good
 * until the next switch. Any loop. */
enum tail_answer tail_find(const struct tail *t, enum table table, uint64_t bucket,
                           struct span key, struct span *value);

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
    struct entry *entries; /* in the arena, bytes included; ascending */
    uint32_t count;
    bool more; /* the page ended for max, not for want of keys */
};
/* Tombstones and gone ones included. ERR_BUSY: the arena's limit. Any loop; does not switch. */
enum err tail_scan(struct tail *t, const struct scan *s, struct arena *a,
                   struct page *out) MUST_CHECK;

/* ---- towards the index ---- */
/* What the tail holds now is frozen: no longer merged with what comes, still read. The batch borrows the runs
 * until tail_drop(). One batch at a time. Home loop. */
struct batch {
    const struct run **runs; /* oldest first */
    uint32_t count;
};
bool tail_freeze(struct tail *t, struct batch *out); /* false: nothing to do */
/* While replaying: the batch's runs are put in order, before the index takes them. On an error some are not. May switch. */
enum err tail_settle(struct tail *t, struct batch *b) MUST_CHECK;
void tail_drop(struct tail *t, struct batch *b); /* the index has it, durably */
void tail_thaw(struct tail *t, struct batch *b); /* the index failed: all stays */
