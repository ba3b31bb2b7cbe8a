/* Small objects read without a fiber, of whichever disk has them. What needs a second disk is the long way's. */
#include "disks/internal.h"

/* The disk of the key, entered. NULL: there is more to it. */
static struct store *
enter(struct disks *ds, const struct disks_key *k, struct disks_async_read *o)
{
    struct store *d = one_enter(ds, &o->counted);
    struct places p;

    o->disks = d == NULL ? ds : NULL;
    if (d != NULL)
        return d;
    if (k->copies > 1 || !atomic_load_explicit(&ds->converged, memory_order_acquire))
        return NULL;
    places_of(ds, k, &p);
    o->slot = p.count > 0 ? p.at[0] : 0;
    return p.count > 0 ? replica_enter(ds, o->slot) : NULL;
}

static void
leave(struct disks_async_read *o)
{
    if (o->disks == NULL)
        one_leave(o->counted);
    else
        replica_leave(o->disks, o->slot);
}

bool
disks_async_read_begin(struct disks *ds, const struct disks_key *k,
                       struct disks_async_read *o)
{
    struct store *d = enter(ds, k, o);

    if (d == NULL)
        return false;
    o->at.slot = o->disks != NULL ? (uint16_t)o->slot : 0;
    if (store_async_read_begin(d, &k->at, &o->at))
        return true;
    leave(o);
    return false;
}

void
disks_async_read_end(struct disks_async_read *o)
{
    store_async_read_end(&o->at);
    leave(o);
}
