/* Objects that are served again without looking for them. The serial is read before anything is judged by the set, and
 * compared before anything is given out: in between nothing of the set has changed. */
#include "disks/internal.h"

/* The disk that orders the writes of the key, if it is the one that was read: then its entry is the key's. */
static struct store *
owner_read(struct disks *ds, const struct disks_key *k, const struct disks_reader *r)
{
    struct places p;

    if (r->disks == NULL)
        return only_disk(ds);
    if (r->from == NULL || !atomic_load_explicit(&ds->converged, memory_order_acquire))
        return NULL;
    places_of(ds, k, &p);
    return p.count > 0 && p.at[0] == r->entry.place.disk ? ds->slots[p.at[0]].disk : NULL;
}

bool
disks_revalidated_keep(struct disks *ds, const struct disks_key *k,
                       const struct disks_reader *r, struct disks_revalidated *out)
{
    uint32_t serial = atomic_load_explicit(&ds->serial, memory_order_acquire);
    struct store *d = owner_read(ds, k, r);

    if (d == NULL)
        return false;
    *out = (struct disks_revalidated){.serial = serial,
                                      .disk = r->disks != NULL ? r->entry.place.disk : 0};
    return store_revalidated_keep(d, &k->at, r->from, &out->at);
}

static struct store *
disk_of(struct disks *ds, const struct disks_revalidated *a)
{
    struct store *d = only_disk(ds);

    return d != NULL ? d : ds->slots[a->disk].disk;
}

/* The set may be another by now: who was at that place then may be gone. */
void
disks_revalidated_prefetch(struct disks *ds, const struct disks_revalidated *a)
{
    if (a->serial == atomic_load_explicit(&ds->serial, memory_order_acquire))
        store_revalidated_prefetch(disk_of(ds, a), &a->at);
}

bool
disks_revalidated_begin(struct disks *ds, const struct disks_revalidated *a,
                        struct store_pinned *out)
{
    return a->serial == atomic_load_explicit(&ds->serial, memory_order_acquire) &&
           store_revalidated_begin(disk_of(ds, a), &a->at, out);
}

void
disks_revalidated_end(struct store_pinned *held)
{
    store_revalidated_end(held);
}
