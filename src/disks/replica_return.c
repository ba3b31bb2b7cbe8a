/* A disk that was out of service, and is readable again, comes back while the node serves.
 *
 * Its former slot is out. The store in that slot failed for good, so it is closed, and the disk is opened into a new
 * slot, as a start would do: under a higher count of starts, and under a higher map epoch, because its log has batches
 * and versions of this process already. Until the new slot is published the former one stays out, so that no look-up
 * takes a key for absent. The set diverges, and a pass brings what the disk missed.
 */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "disks/rebalance.h"
#include "disks/replica_slot.h"
#include "rt/time.h"

#define RELEASE_MS      10000u /* for calls that are still inside the failed store */
#define RELEASE_TICK_MS 20u

bool
replica_find_out(const struct disks *ds, const uint8_t id[16], unsigned *out)
{
    for (unsigned i = 0; i < atomic_load(&ds->slot_count); i++)
        if (replica_state(&ds->slots[i]) == REPLICA_OUT &&
            memcmp(ds->slots[i].id, id, 16) == 0) {
            *out = i;
            return true;
        }
    return false;
}

static enum err
check_return(struct disks *ds, const char *path, const struct store_identity *is,
             struct errbuf *eb)
{
    const struct membership_disk *d =
        membership_find(&ds->control.membership, is->disk_id);

    assert(d != NULL);
    if (memcmp(is->cluster_id, ds->control.o.cluster_id, 16) != 0)
        return err_set(eb, ERR_DENIED, "%s is a disk of another cluster", path);
    if (is->node_state)
        return err_set(eb, ERR_DENIED,
                       "%s left while it held the node's state; restart the node to take "
                       "it back",
                       path);
    if (!is->rebuilt && is->generation < d->generation)
        return err_set(eb, ERR_DENIED,
                       "%s was rolled back to a snapshot (superblock %" PRIu64
                       ", it was %" PRIu64
                       "): put the right disk back, or empty the folder to use it as a "
                       "new disk",
                       path, is->generation, d->generation);
    return ERR_OK;
}

static void
on_loops_passed(void *arg)
{
    struct replica_slot *s = arg;

    atomic_store(&s->gone, true);
}

/* Closes the store of a slot that is out, once no call is inside. May switch. */
static enum err
replica_release(struct disks *ds, unsigned i, struct errbuf *eb)
{
    struct replica_slot *s = &ds->slots[i];
    struct deadline by = deadline_in_ms(RELEASE_MS);

    assert(replica_state(s) == REPLICA_OUT);
    if (s->at.store == NULL)
        return ERR_OK;
    if (!s->retiring) {
        s->retiring = true;
        rt_retire(on_loops_passed, s);
    }
    while (!atomic_load(&s->gone) || replica_inside(ds, i) > 0) {
        if (deadline_passed(by))
            return err_set(eb, ERR_BUSY,
                           "%" PRIu64 " calls still wait for the former disk at %s; try "
                           "again, or restart the node",
                           replica_inside(ds, i), s->path);
        if (rt_sleep_ms(RELEASE_TICK_MS) != ERR_OK)
            return err_set(eb, ERR_CANCELLED, "the node is closing");
    }
    assert(replica_state(s) == REPLICA_OUT); /* the caller holds `changing` */
    store_close(&s->at.store);
    return ERR_OK;
}

/* Opens the disk into the next slot, which is not published. */
static enum err
replica_reopen(struct disks *ds, const char *path, const struct store_identity *is,
               struct errbuf *eb)
{
    uint64_t starts = ds->control.o.epoch;
    enum err rc = map_epoch_raise(ds, is->map_epoch + 1, eb);

    if (rc != ERR_OK)
        return rc;
    ds->control.o.epoch = is->epoch >= starts ? is->epoch + 1 : starts;
    rc = replica_slot_open(ds, path, false, eb);
    ds->control.o.epoch = starts;
    return rc;
}

enum err
replica_take_back(struct disks *ds, unsigned i, const char *path,
                  const struct store_identity *is, struct errbuf *eb)
{
    struct replica_slot *former = &ds->slots[i], *s;
    enum err rc = check_return(ds, path, is, eb);

    assert(rt_loop_index() == 0);
    assert(replica_state(former) == REPLICA_OUT);
    if (rc == ERR_OK)
        rc = replica_release(ds, i, eb);
    if (rc == ERR_OK)
        rc = replica_reopen(ds, path, is, eb);
    if (rc != ERR_OK)
        return rc;
    s = &ds->slots[atomic_load(&ds->slot_count)];
    assert(memcmp(s->id, former->id, sizeof s->id) == 0);
    replica_set_open(ds);
    ds->control.membership.open = true;
    /* The list says that the disk is in use before anything is written to it. */
    former->in_list = REPLICA_ACTIVE;
    rc = membership_store(ds, eb);
    if (rc != ERR_OK) {
        former->in_list = REPLICA_OUT;
        replica_slot_abandon(ds);
        return rc;
    }
    former->replaced = true;
    atomic_store(&s->state, REPLICA_ACTIVE);
    replica_slot_publish(ds);
    former->in_list = REPLICA_REMOVED;
    replica_publish_state(ds, i, REPLICA_REMOVED);
    missed_count(ds);
    LOG(LOG_INFO, "disks.returned", "a disk is back; what it missed is copied to it",
        L_TEXT("path", s->path));
    return ERR_OK;
}
