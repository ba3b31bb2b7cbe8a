/* The count of starts and the epoch of versions, which are two things.
 *
 * The count of starts orders commit batches of a log and makes content ids unique. A version is
 * (map epoch, counter): the map's epoch orders versions of one key across owners. A start begins
 * with a higher epoch than any disk has seen, so its counter may begin at 0. A later epoch is
 * durable in the superblocks before the first version has it.
 */
#include <assert.h>

#include "disks/internal.h"
#include "rt/loop.h"

uint64_t
disks_starts(const struct disks *ds)
{
    return ds->control.o.epoch;
}

uint64_t
disks_map_epoch(const struct disks *ds)
{
    return atomic_load(&ds->ids.map_epoch);
}

void
map_epoch_begin(struct disks *ds)
{
    assert(rt_loop_index() == 0);
    assert(atomic_load(&ds->slot_count) == 0);
    assert(ds->control.o.map_epoch > 0);
    ds->control.first_map_epoch = ds->control.o.map_epoch;
    atomic_store(&ds->ids.map_epoch, ds->control.o.map_epoch);
}

/* A disk that takes no writes gets no version of the new epoch either. */
static enum err
raise_everywhere(struct disks *ds, uint64_t epoch, struct errbuf *eb)
{
    for (struct replica_walk w = replica_walk(ds); replica_walk_next(&w);) {
        enum err rc = store_accepts_writes(w.at->store)
                          ? store_raise_map_epoch(w.at->store, epoch, eb)
                          : ERR_OK;

        if (rc == ERR_OK)
            continue;
        replica_walk_end(&w);
        return rc;
    }
    return ERR_OK;
}

enum err
map_epoch_opened(struct disks *ds, struct errbuf *eb)
{
    uint64_t epoch = disks_map_epoch(ds);

    assert(rt_loop_index() == 0);
    assert(epoch >= ds->control.first_map_epoch);
    if (epoch == ds->control.first_map_epoch)
        return ERR_OK;
    return raise_everywhere(ds, epoch, eb);
}

enum err
map_epoch_raise(struct disks *ds, uint64_t epoch, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    assert(rt_loop_index() == 0);
    assert(epoch > 0);
    if (epoch <= disks_map_epoch(ds))
        return ERR_OK;
    rc = raise_everywhere(ds, epoch, eb);
    if (rc == ERR_OK)
        atomic_store(&ds->ids.map_epoch, epoch);
    return rc;
}

struct raising {
    struct disks *ds;
    uint64_t epoch;
    struct errbuf *eb;
    enum err rc;
};

static void
raise_on_loop_0(void *arg)
{
    struct raising *r = arg;
    struct disks *ds = r->ds;

    r->rc = rt_sem_acquire(&ds->control.changing, DEADLINE_NEVER);
    if (r->rc != ERR_OK) {
        (void)err_set(r->eb, r->rc, "the change of the map's epoch was cancelled");
        return;
    }
    r->rc = map_epoch_raise(ds, r->epoch, r->eb);
    rt_sem_release(&ds->control.changing);
}

enum err
disks_raise_map_epoch(struct disks *ds, uint64_t epoch, struct errbuf *eb)
{
    struct raising r = {.ds = ds, .epoch = epoch, .eb = eb, .rc = ERR_CANCELLED};
    enum err rc = rt_call(0, raise_on_loop_0, &r);

    assert(epoch > 0);
    return rc == ERR_OK ? r.rc : err_set(eb, rc, "no fiber to raise the map's epoch");
}
