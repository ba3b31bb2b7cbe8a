/* rebalance: moves objects to where their key's order says; a fiber on loop 0, while there are
 * several disks.
 *
 *     IDLE  --(not converged)--> PASS --(nothing was wrong)--> IDLE, converged
 *     IDLE  --(a finding)------> REPAIR --> IDLE
 *
 * A pass walks every entry of every disk and compares it with the order of its key. It makes
 * missing copies, and drops a surplus copy once every replica that should have the object does.
 * A pass keeps no state but the data itself: after an interruption, also by a restart, the next
 * pass continues with what is left.
 *
 * A second fiber checks four times a second whether a disk has failed or accepts no writes. Such
 * a disk orders no write from then on, and the current pass restarts, as it does when a disk is
 * added or drained.
 */
#pragma once
#include "disks/internal.h"

/* Starts the fiber; on loop 0, in disks_open(). */
enum err rebalancer_start(struct disks *ds, struct errbuf *eb) MUST_CHECK;
void rebalancer_stop(struct disks *ds);
/* After a disk went out: starts a fiber that resolves the versions prepared under its order.
 * Control loop. Does not wait. */
void rebalancer_resolve_prepared(struct disks *ds);
/* Tells the rebalancer to look for changes now. Any loop. Does not wait. */
void rebalancer_wake(struct disks *ds);

/* Queues a reconcile of one key; `slot` is where something was wrong. Any loop. Does not wait. */
void repair_later(struct disks *ds, const struct disks_key *k, unsigned slot);

/* Closes removed disks without a call inside. True: others are still open. Control loop. May
 * switch. */
bool replicas_close_removed(struct disks *ds);
/* Freezes a disk that accepts no writes: its objects get another place, and are read on it until
 * then. Control loop. May switch. */
void replica_freeze(struct disks *ds, unsigned i);
/* Takes a disk that does not answer out of service. Control loop. May switch. */
void replica_take_out(struct disks *ds, unsigned i);
/* prepared.c: commit or abort in-doubt versions, according to the other disks. A version that
 * fails, or for which a disk gave no answer, stays prepared and does not stop the others.
 * Returns the first error. Control loop. All may switch. */
/* Resolves versions prepared before this start. Not synced: prepared_flush(). */
enum err prepared_resolve(struct disks *ds, struct errbuf *eb) MUST_CHECK;
/* Resolves all versions that are prepared when it begins, durably. It takes the key's lock for
 * each, so that the write is not in progress. While guarded. */
enum err prepared_resolve_orphans(struct disks *ds, struct errbuf *eb) MUST_CHECK;
/* The same for a disk that is about to be removed: keeps what that disk may have coordinated.
 * While guarded, after all earlier changes have ended. An error: the disk must not be removed
 * yet. */
enum err prepared_before_removal(struct disks *ds, unsigned slot,
                                 struct errbuf *eb) MUST_CHECK;
/* Makes all commits so far durable on every writable disk. */
enum err prepared_flush(struct disks *ds, struct errbuf *eb) MUST_CHECK;
#ifdef FB_TEST_HOOKS
/* Test: bits of slots that give no answer here. */
extern uint64_t prepared_unreachable;
/* Test: the same, for lookups of an upload. */
extern uint64_t upload_replicas_unreachable;
#endif

struct reconciled {
    uint64_t bytes; /* bytes copied */
    bool changed;   /* something was wrong */
};
/* Reconciles one key. Copies on the slots of `damaged` (bits) are written again from another
 * one, even if a read of them succeeds: the block cache might answer it. May switch. */
enum err key_reconcile(struct disks *ds, const struct disks_key *k, uint64_t damaged,
                       struct reconciled *done, struct errbuf *eb) MUST_CHECK;

/* Aborts incomplete copies of multipart objects on a slot that a pass did not need. May switch. */
enum err copy_uploads_abort(struct disks *ds, const struct disks_bucket *b, unsigned slot,
                            struct arena *a, struct errbuf *eb) MUST_CHECK;
/* Ends an upload that was aborted while a disk was away, on all disks in service. Control loop.
 * May switch. */
enum err upload_end_everywhere(struct disks *ds, const struct disks_key *k,
                               const struct upload_id *u, struct errbuf *eb) MUST_CHECK;
/* Ends an upload that is open on `slot`, if another disk completed it, or it was aborted, while
 * `slot` was away. Control loop. May switch. */
enum err upload_end_done(struct disks *ds, const struct disks_key *k,
                         const struct upload_id *u, unsigned slot,
                         struct errbuf *eb) MUST_CHECK;
/* Repairs a damaged copy on `slot` now. ERR_NOT_FOUND: there is no other copy. Any loop. May
 * switch. */
enum err repair_now(struct disks *ds, const struct store_key *k, unsigned slot,
                    struct errbuf *eb) MUST_CHECK;
/* Finds the bucket with this id; false: unknown. Control loop. */
bool bucket_of(struct disks *ds, uint64_t id, struct disks_bucket *out);

/* Prevents the set from converging while a bucket's copies are changed. */
void rebalancer_hold(struct disks *ds, int more);
/* Fills in the fields on moves and repairs. */
void rebalancer_status(struct disks *ds, struct disks_status *out);
