/* Small objects read without a fiber, from any disk. Whatever needs a second disk takes the
 * ordinary path. */
#include "disks/internal.h"

/* Returns the replica of the key, entered. NULL: more than one must be read. */
static struct replica *
async_read_enter(struct disks *ds, const struct disks_key *k)
{
    struct places p;

    if (k->copies > 1 || !atomic_load_explicit(&ds->converged, memory_order_acquire))
        return NULL;
    places_of(ds, k, &p);
    return p.count > 0 ? replica_enter(ds, p.at[0]) : NULL;
}

bool
disks_async_read_begin(struct disks *ds, const struct disks_key *k,
                       struct disks_async_read *o)
{
    struct replica *r = async_read_enter(ds, k);

    if (r == NULL)
        return false;
    o->at.slot = (uint16_t)replica_slot_of(r);
    o->from = r;
    if (store_async_read_begin(r->store, &k->at, &o->at))
        return true;
    replica_leave(r);
    return false;
}

void
disks_async_read_end(struct disks_async_read *o)
{
    store_async_read_end(&o->at);
    replica_leave(o->from);
}
