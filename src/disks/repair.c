/* repair: keys with a damaged or missing copy; the rebalancer's fiber takes them from a queue
 * and reconciles them. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "disks/rebalancer.h"

struct repair {
    struct list of_queue;
    struct disks_key key; /* its spans follow this struct */
    uint64_t damaged;
    char names[];
};

static bool
repair_same_key(const struct disks_key *a, const struct disks_key *b)
{
    return a->at.bucket == b->at.bucket && span_eq(a->at.key, b->at.key);
}

static bool
already_queued(struct rebalancer *rb, const struct disks_key *k, uint64_t bit)
{
    LIST_EACH(&rb->queue, at)
    {
        struct repair *r = LIST_ENTRY(at, struct repair, of_queue);

        if (repair_same_key(&r->key, k)) {
            r->damaged |= bit;
            return true;
        }
    }
    return false;
}

void
repair_later(struct disks *ds, const struct disks_key *k, unsigned slot)
{
    size_t birth = k->at.immutable_name.len, key = k->at.key.len;
    struct rebalancer *rb = ds->rebalancer;
    uint64_t bit = (uint64_t)1 << slot;
    struct repair *r;

    assert(slot < DISKS_MAX);
    if (rb == NULL || is_sole(ds))
        return;
    if (atomic_load(&rb->repairs) >= REPAIRS_MAX) {
        atomic_store(&rb->repairs_lost, true);
        return;
    }
    r = xcalloc(1, sizeof *r + birth + key);
    r->key = *k;
    r->damaged = bit;
    memcpy(r->names, k->at.immutable_name.at, birth);
    memcpy(r->names + birth, k->at.key.at, key);
    r->key.at.immutable_name = (struct span){r->names, birth};
    r->key.at.key = (struct span){r->names + birth, key};
    lock_acquire(&rb->lock);
    if (already_queued(rb, k, bit)) {
        free(r);
    } else {
        list_push_back(&rb->queue, &r->of_queue);
        atomic_fetch_add(&rb->repairs, 1);
    }
    lock_release(&rb->lock);
    rebalancer_wake(ds);
}

static struct repair *
next_repair(struct rebalancer *rb)
{
    struct list *at;

    lock_acquire(&rb->lock);
    at = list_pop_front(&rb->queue);
    lock_release(&rb->lock);
    return at != NULL ? LIST_ENTRY(at, struct repair, of_queue) : NULL;
}

void
repair_run_queued(struct disks *ds)
{
    struct rebalancer *rb = ds->rebalancer;
    struct repair *r;

    assert(rt_loop_index() == 0);
    if (atomic_load(&rb->repairs) == 0)
        return;
    rebalancer_guard(ds);
    while (!rb->stopping && (r = next_repair(rb)) != NULL) {
        (void)rebalancer_reconcile(ds, &r->key, r->damaged, true);
        atomic_fetch_sub(&rb->repairs, 1); /* only now may the set converge */
        free(r);
    }
}

struct repairing {
    struct disks *ds;
    const struct store_key *key;
    unsigned slot;
    struct errbuf *eb;
    enum err rc;
};

static void
repair_on_control_loop(void *arg)
{
    struct repairing *r = arg;
    struct disks *ds = r->ds;
    struct disks_key k = {.at = *r->key};
    struct reconciled done = {0};
    struct disks_bucket b = {0};

    assert(rt_loop_index() == 0);
    assert(r->slot < DISKS_MAX);
    r->rc = ERR_NOT_FOUND;
    if (ds->rebalancer == NULL || ds->rebalancer->stopping || is_sole(ds) ||
        !bucket_of(ds, k.at.bucket, &b))
        return;
    k.at.immutable_name = b.immutable_name;
    k.copies = b.copies;
    ds->rebalancer->waited_for++;
    atomic_fetch_add(&ds->rebalancer->repairs, 1); /* keeps the set guarded meanwhile */
    rebalancer_guard(ds);
    r->rc = key_reconcile(ds, &k, (uint64_t)1 << r->slot, &done, r->eb);
    atomic_fetch_sub(&ds->rebalancer->repairs, 1);
    if (r->rc == ERR_OK)
        atomic_fetch_add(&ds->rebalancer->repaired, 1);
    ds->rebalancer->waited_for--;
    if (r->rc == ERR_CORRUPT)
        r->rc = ERR_NOT_FOUND;
    disks_bucket_fini(&b);
}

enum err
repair_now(struct disks *ds, const struct store_key *k, unsigned slot, struct errbuf *eb)
{
    struct repairing r = {
        .ds = ds, .key = k, .slot = slot, .eb = eb, .rc = ERR_CANCELLED};
    enum err rc = rt_call(0, repair_on_control_loop, &r);

    return rc == ERR_OK ? r.rc : rc;
}

void
repair_forget_queued(struct rebalancer *rb)
{
    struct repair *r;

    while ((r = next_repair(rb)) != NULL)
        free(r);
}
