/* Takes a disk out of service: it failed, or was removed. */
#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "disks/rebalancer.h"

/* ---- out ---- */

/* Takes effect even if the list can't be written: then the next start finds the disk missing, or
 * checks all its objects. */
static void
goes(struct disks *ds, unsigned i, enum replica_state state)
{
    struct replica_slot *s = &ds->slots[i];
    struct errbuf eb = {{0}};

    assert(rt_loop_index() == 0);
    assert(state == REPLICA_FROZEN || state == REPLICA_OUT);
    assert(i < atomic_load(&ds->slot_count));
    s->missed |= !atomic_load(&ds->converged) && !ds->control.after_crash;
    /* Before others see it as out: a look-up must not return "not found" then. */
    if (state == REPLICA_OUT && s->missed)
        atomic_store(&ds->out_diverged, true);
    atomic_store(&ds->guarded, true);
    atomic_store(&ds->converged, false);
    ds->control.after_crash = false;
    atomic_fetch_add(
        &ds->rebalancer->wishes,
        1); /* a pass that ends during the write of the list must not converge the set */
    if (replica_set_state(ds, i, state, &eb) != ERR_OK) {
        LOG(LOG_WARN, "disks.list", eb.text, L_TEXT("path", s->path));
        s->in_list = state;
        replica_publish_state(ds, i, state);
    }
    if (s->went_at == 0)
        s->went_at = atomic_load(&ds->ids.counter);
}

void
replica_freeze(struct disks *ds, unsigned i)
{
    assert(i < atomic_load(&ds->slot_count));

    LOG(LOG_ERROR, "disks.frozen", "a disk takes no writes; the others take them",
        L_TEXT("path", ds->slots[i].path));
    goes(ds, i, REPLICA_FROZEN);
    rebalancer_wake(ds);
}

void
replica_take_out(struct disks *ds, unsigned i)
{
    struct replica_slot *s = &ds->slots[i];
    struct store_health h = {0};

    assert(s->at.store != NULL);
    store_health(s->at.store, &h);
    LOG(LOG_ERROR, "disks.out", "a disk has left; the node goes on without it",
        L_TEXT("path", s->path), L_TEXT("why", h.why));
    goes(ds, i, REPLICA_OUT);
    rebalancer_resolve_prepared(ds);
    rebalancer_wake(ds);
}

/* ---- removed disks ---- */

static void
on_all_passed(void *arg)
{
    struct replica_slot *s = arg;

    atomic_store(&s->gone, true);
}

bool
replicas_close_removed(struct disks *ds)
{
    bool more = false;

    assert(rt_loop_index() == 0);
    for (unsigned i = 0; i < atomic_load(&ds->slot_count); i++) {
        struct replica_slot *s = &ds->slots[i];

        if (replica_state(s) != REPLICA_REMOVED || s->at.store == NULL)
            continue;
        more = true;
        if (!s->retiring) {
            s->retiring = true;
            rt_retire(on_all_passed, s);
        }
        if (!atomic_load(&s->gone) || replica_inside(ds, i) > 0)
            continue;
        LOG(LOG_INFO, "disks.closed", "a removed disk is closed",
            L_TEXT("path", s->path));
        store_close(&s->at.store);
    }
    return more;
}
