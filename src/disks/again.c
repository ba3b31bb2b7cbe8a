/* Objects that are served again without looking for them. The serial is read before anything is judged by the set, and
 * compared before anything is given out: in between nothing of the set has changed. */
#include "disks/internal.h"

/* The disk that orders the writes of the key, if it is the one that was read: then its row is the key's. */
static struct disk *
owner_read(struct disks *ds, const struct disks_key *k, const struct disks_reader *r)
{
    struct places p;

    if (r->disks == NULL)
        return only_disk(ds);
    if (r->from == NULL || !atomic_load_explicit(&ds->settled, memory_order_acquire))
        return NULL;
    places_of(ds, k, &p);
    return p.count > 0 && p.at[0] == r->row.disk ? ds->slots[p.at[0]].disk : NULL;
}

bool
disks_again_keep(struct disks *ds, const struct disks_key *k,
                 const struct disks_reader *r, struct disks_again *out)
{
    uint32_t serial = atomic_load_explicit(&ds->serial, memory_order_acquire);
    struct disk *d = owner_read(ds, k, r);

    if (d == NULL)
        return false;
    *out = (struct disks_again){.serial = serial,
                                .disk = r->disks != NULL ? r->row.disk : 0};
    return disk_again_keep(d, &k->at, r->from, &out->at);
}

static struct disk *
disk_of(struct disks *ds, const struct disks_again *a)
{
    struct disk *d = only_disk(ds);

    return d != NULL ? d : ds->slots[a->disk].disk;
}

/* The set may be another by now: who was at that place then may be gone. */
void
disks_again_ahead(struct disks *ds, const struct disks_again *a)
{
    if (a->serial == atomic_load_explicit(&ds->serial, memory_order_acquire))
        disk_again_ahead(disk_of(ds, a), &a->at);
}

bool
disks_again_begin(struct disks *ds, const struct disks_again *a, struct disk_held *out)
{
    return a->serial == atomic_load_explicit(&ds->serial, memory_order_acquire) &&
           disk_again_begin(disk_of(ds, a), &a->at, out);
}

void
disks_again_end(struct disk_held *held)
{
    disk_again_end(held);
}
