/* Revalidated reads: serve an object again without a look-up. The serial of the set is read
 * before any decision and compared before serving; if equal, the set has not changed in between. */
#include "disks/internal.h"

bool
disks_revalidated_keep(struct disks *ds, const struct disks_key *k,
                       const struct disks_reader *r, struct disks_revalidated *out)
{
    uint32_t serial = atomic_load_explicit(&ds->serial, memory_order_acquire);
    struct places p;

    if (r->from == NULL || !atomic_load_explicit(&ds->converged, memory_order_acquire))
        return false;
    places_of(ds, k, &p);
    if (p.count == 0 || p.at[0] != r->entry.place.disk)
        return false; /* only an entry from the key's owner is authoritative */
    *out = (struct disks_revalidated){.serial = serial, .disk = p.at[0]};
    return store_revalidated_keep(ds->slots[p.at[0]].at.store, &k->at,
                                  replica_local_reader(r->from), &out->at);
}

/* With another serial the slot may be of a removed disk. */
void
disks_revalidated_prefetch(struct disks *ds, const struct disks_revalidated *a)
{
    if (a->serial == atomic_load_explicit(&ds->serial, memory_order_acquire))
        store_revalidated_prefetch(ds->slots[a->disk].at.store, &a->at);
}

bool
disks_revalidated_begin(struct disks *ds, const struct disks_revalidated *a,
                        struct store_pinned *out)
{
    return a->serial == atomic_load_explicit(&ds->serial, memory_order_acquire) &&
           store_revalidated_begin(ds->slots[a->disk].at.store, &a->at, out);
}

void
disks_revalidated_end(struct store_pinned *held)
{
    store_revalidated_end(held);
}
