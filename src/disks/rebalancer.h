/* rebalancer: internals of the fibers of rebalance.h: passes (rebalancer.c) and repairs
 * (repair.c). */
#pragma once
#include "base/lock.h"
#include "disks/rebalance.h"

struct rebalancer {
    /* Control loop. */
    struct rt_group group;
    struct rt_cond wake;
    bool stopping;
    unsigned waited_for; /* repairs that a caller waits for */
    uint64_t passes, retry_at_ms, throttle_ns;
    uint32_t wishes_of_pass, states_of_pass; /* values when the last pass began */
    struct {
        uint64_t pass, seen, total, moved, moved_bytes, copied_bytes, failed, began_ms;
        bool waiting;
        char why[sizeof((struct errbuf *)0)->text];
    } now; /* as in struct disks_status; others may read a torn number */

    /* Any loop. */
    _Atomic bool woken;
    _Atomic uint32_t wishes;   /* counts changes */
    _Atomic uint32_t holds;    /* buckets being changed: the set does not converge */
    _Atomic uint32_t repairs;  /* queued or in progress */
    _Atomic bool repairs_lost; /* the queue was full: a pass will find it */

    struct lock lock; /* protects the queue */
    struct list queue;
    _Atomic uint64_t repaired;
};

/* Makes writers lock their keys, and waits for those that did not. Control loop. May switch. */
void rebalancer_guard(struct disks *ds);
/* key_reconcile(), counted and within the rate. True: something was wrong. Control loop. May
 * switch. */
bool rebalancer_reconcile(struct disks *ds, const struct disks_key *k, uint64_t damaged,
                          bool repair);
/* Repairs the queued keys, one after the other; the second call drops the queue, at the end.
 * Control loop. The first may switch. */
void repair_run_queued(struct disks *ds);
void repair_forget_queued(struct rebalancer *rb);
