/* repair: keys in which somebody has met something wrong: queued, and put right by the mover's fiber. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "disks/mover.h"

struct repair {
    struct list of_queue;
    struct disks_key key; /* spans behind this struct */
    uint64_t damaged;
    char names[];
};

static bool
same_key(const struct disks_key *a, const struct disks_key *b)
{
    return a->at.bucket == b->at.bucket && span_eq(a->at.key, b->at.key);
}

static bool
already_queued(struct mover *mv, const struct disks_key *k, uint64_t bit)
{
    LIST_EACH(&mv->queue, at)
    {
        struct repair *r = LIST_ENTRY(at, struct repair, of_queue);

        if (same_key(&r->key, k)) {
            r->damaged |= bit;
            return true;
        }
    }
    return false;
}

void
repair_later(struct disks *ds, const struct disks_key *k, unsigned slot)
{
    size_t birth = k->at.birth_name.len, key = k->at.key.len;
    struct mover *mv = ds->mover;
    uint64_t bit = (uint64_t)1 << slot;
    struct repair *r;

    if (mv == NULL || only_disk(ds) != NULL)
        return;
    if (atomic_load(&mv->repairs) >= REPAIRS_MAX) {
        atomic_store(&mv->repairs_lost, true);
        return;
    }
    r = xcalloc(1, sizeof *r + birth + key);
    r->key = *k;
    r->damaged = bit;
    memcpy(r->names, k->at.birth_name.at, birth);
    memcpy(r->names + birth, k->at.key.at, key);
    r->key.at.birth_name = (struct span){r->names, birth};
    r->key.at.key = (struct span){r->names + birth, key};
    lock_take(&mv->lock);
    if (already_queued(mv, k, bit)) {
        free(r);
    } else {
        list_push_back(&mv->queue, &r->of_queue);
        atomic_fetch_add(&mv->repairs, 1);
    }
    lock_release(&mv->lock);
    mover_wake(ds);
}

static struct repair *
next_repair(struct mover *mv)
{
    struct list *at;

    lock_take(&mv->lock);
    at = list_pop_front(&mv->queue);
    lock_release(&mv->lock);
    return at != NULL ? LIST_ENTRY(at, struct repair, of_queue) : NULL;
}

void
repair_run_queued(struct disks *ds)
{
    struct mover *mv = ds->mover;
    struct repair *r;

    if (atomic_load(&mv->repairs) == 0)
        return;
    mover_guard(ds);
    while (!mv->stopping && (r = next_repair(mv)) != NULL) {
        (void)mover_put_right(ds, &r->key, r->damaged, true);
        atomic_fetch_sub(&mv->repairs, 1); /* until now the disks are not clean */
        free(r);
    }
}

struct repairing {
    struct disks *ds;
    const struct disk_key *key;
    unsigned slot;
    struct errbuf *eb;
    enum err rc;
};

static void
repair_on_keeper(void *arg)
{
    struct repairing *r = arg;
    struct disks *ds = r->ds;
    struct disks_key k = {.at = *r->key};
    struct put_right done = {0};
    struct disks_bucket b = {0};

    r->rc = ERR_NOT_FOUND;
    if (ds->mover == NULL || ds->mover->stopping || only_disk(ds) != NULL ||
        !bucket_of(ds, k.at.bucket, &b))
        return;
    k.at.birth_name = b.birth_name;
    k.copies = b.copies;
    ds->mover->at_once++;
    atomic_fetch_add(&ds->mover->repairs, 1); /* nobody unguards meanwhile */
    mover_guard(ds);
    r->rc = key_put_right(ds, &k, (uint64_t)1 << r->slot, &done, r->eb);
    atomic_fetch_sub(&ds->mover->repairs, 1);
    if (r->rc == ERR_OK)
        atomic_fetch_add(&ds->mover->repaired, 1);
    ds->mover->at_once--;
    if (r->rc == ERR_CORRUPT)
        r->rc = ERR_NOT_FOUND;
    disks_bucket_fini(&b);
}

enum err
repair_now(struct disks *ds, const struct disk_key *k, unsigned slot, struct errbuf *eb)
{
    struct repairing r = {
        .ds = ds, .key = k, .slot = slot, .eb = eb, .rc = ERR_CANCELLED};
    enum err rc = rt_call(0, repair_on_keeper, &r);

    return rc == ERR_OK ? r.rc : rc;
}

void
repair_forget_queued(struct mover *mv)
{
    struct repair *r;

    while ((r = next_repair(mv)) != NULL)
        free(r);
}
