/* rebalance: copies objects to where they belong: a fiber on loop 0, while there are several disks.
 *
 *     IDLE  --(not converged)--> PASS --(nothing was wrong)--> IDLE, converged
 *     IDLE  --(a finding)------> REPAIR --> IDLE
 *
 * A pass walks every entry of every disk and compares it with the order of its key: a missing copy is made, a surplus one is
 * dropped once every replica that should have the object does. Its state is the data itself: after it ends, by a restart
 * too, the next pass continues with what is left. A second fiber looks, four times a second, whether a disk has left or takes
 * no writes: that disk owns no write from then on, and a pass that is under way ends and starts over, as it does when a disk
 * comes or is drained.
 */
#pragma once
#include "disks/internal.h"

/* The fiber; on loop 0, in disks_open(). */
enum err rebalancer_start(struct disks *ds, struct errbuf *eb) MUST_CHECK;
void rebalancer_stop(struct disks *ds);
/* A disk went out: a fiber of its own resolves what was prepared under its order. Control loop. Does not wait. */
void rebalancer_resolve_prepared(struct disks *ds);
/* Something changed: look now. Any loop. Does not wait. */
void rebalancer_wake(struct disks *ds);

/* One key's copies are compared and made whole soon; `slot` is where something was wrong. Any loop. Does not wait. */
void repair_later(struct disks *ds, const struct disks_key *k, unsigned slot);

/* Closes removed disks without a call inside. True: others are still to be closed. Control loop. May switch. */
bool replicas_close_removed(struct disks *ds);
/* A disk takes no writes any more: its objects get another place, and are read there as long as they have none. Control loop. May
 * switch. */
void replica_freeze(struct disks *ds, unsigned i);
/* A disk does not answer any more: it is left out from here on. Control loop. May switch. */
void replica_take_out(struct disks *ds, unsigned i);
/* prepared.c: commits or aborts what was prepared and whose outcome is unknown here, as the other disks say. One that fails,
 * or for which a disk gave no answer, stays, and does not stop the others; returns the first error. Control loop. All may
 * switch. */
/* What was prepared before this start. Not synced: prepared_flush(). */
enum err prepared_resolve(struct disks *ds, struct errbuf *eb) MUST_CHECK;
/* All of it that was prepared when it begins, and durable: each under its key's lock, so that its write is not under way. While
 * guarded. */
enum err prepared_resolve_orphans(struct disks *ds, struct errbuf *eb) MUST_CHECK;
/* The same for a disk that is about to be removed: what it may have coordinated is kept. While guarded, and all
 * who began before have ended. An error: it must not go yet. */
enum err prepared_before_removal(struct disks *ds, unsigned slot,
                                 struct errbuf *eb) MUST_CHECK;
/* What is committed by now is durable on every disk that takes writes. */
enum err prepared_flush(struct disks *ds, struct errbuf *eb) MUST_CHECK;
#ifdef FB_TEST_HOOKS
extern uint64_t prepared_unreachable;        /* bits of slots that give no answer here */
extern uint64_t upload_replicas_unreachable; /* the same, for lookups of an upload */
#endif

struct reconciled {
    uint64_t bytes; /* that were copied */
    bool changed;   /* something was wrong */
};
/* Reconciles one key; copies on the slots of `damaged` (bits) are written again from another one:
 * a read of them might be answered from the block cache. May switch. */
enum err key_reconcile(struct disks *ds, const struct disks_key *k, uint64_t damaged,
                       struct reconciled *done, struct errbuf *eb) MUST_CHECK;

/* Copies of objects in parts that were begun on a slot and never completed: aborts what a pass did not need. May
 * switch. */
enum err copy_uploads_abort(struct disks *ds, const struct disks_bucket *b, unsigned slot,
                            struct arena *a, struct errbuf *eb) MUST_CHECK;
/* An upload that was aborted while a disk was away: ends on all that are there. Control loop. May switch. */
enum err upload_end_everywhere(struct disks *ds, const struct disks_key *k,
                               const struct upload_id *u, struct errbuf *eb) MUST_CHECK;
/* An upload that is open on `slot`, and that another disk has completed, or that was aborted, while this one was away, ends there too.
 * Control loop. May switch. */
enum err upload_end_done(struct disks *ds, const struct disks_key *k,
                         const struct upload_id *u, unsigned slot,
                         struct errbuf *eb) MUST_CHECK;
/* A damaged copy on `slot` is made good now. ERR_NOT_FOUND: there is no other one. Any loop. May switch. */
enum err repair_now(struct disks *ds, const struct store_key *k, unsigned slot,
                    struct errbuf *eb) MUST_CHECK;
/* The bucket with this id, on the control loop; false: it is unknown. */
bool bucket_of(struct disks *ds, uint64_t id, struct disks_bucket *out);

/* While a bucket's copies are changed the set does not converge. */
void rebalancer_hold(struct disks *ds, int more);
/* Fills in what is said of moving and repairs. */
void rebalancer_status(struct disks *ds, struct disks_status *out);
