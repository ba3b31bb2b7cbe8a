/* rebalancer: the fibers of rebalance.h from inside: passes (rebalancer.c) and repairs (repair.c). */
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
    uint32_t wishes_of_pass, states_of_pass; /* when the latest pass began */
    struct {
        uint64_t pass, seen, total, moved, moved_bytes, copied_bytes, failed, began_ms;
        bool waiting;
        char why[sizeof((struct errbuf *)0)->text];
    } now; /* as in struct disks_status; read from elsewhere too, and no worse for a torn number */

    /* Any loop. */
    _Atomic bool woken;
    _Atomic uint32_t wishes;   /* times that something changed */
    _Atomic uint32_t holds;    /* a bucket is being changed: the set does not converge */
    _Atomic uint32_t repairs;  /* in the queue, or under way */
    _Atomic bool repairs_lost; /* there was no place for one: a pass will find it */

    struct lock lock; /* over the queue */
    struct list queue;
    _Atomic uint64_t repaired;
};

/* From here on writers take the lock of their key, and those who did not are done. Control loop. May switch. */
void rebalancer_guard(struct disks *ds);
/* key_reconcile(), counted and at the pace. True: something was wrong. Control loop. May switch. */
bool rebalancer_reconcile(struct disks *ds, const struct disks_key *k, uint64_t damaged,
                          bool repair);
/* The keys that wait for a repair, one after the other; and all of them forgotten, at the end. Control loop. The first may switch. */
void repair_run_queued(struct disks *ds);
void repair_forget_queued(struct rebalancer *rb);
