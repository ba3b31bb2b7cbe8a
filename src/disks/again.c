/* Objects that are served again without looking for them. */
#include "disks/internal.h"

bool
disks_again_keep(struct disks *ds, const struct disks_key *k,
                 const struct disks_reader *r, struct disks_again *out)
{
    struct disk *d = only_disk(ds);

    if (d == NULL)
        return false;
    *out = (struct disks_again){
        .serial = atomic_load_explicit(&ds->serial, memory_order_acquire)};
    return disk_again_keep(d, &k->at, r->from, &out->at);
}

bool
disks_again_begin(struct disks *ds, const struct disks_again *a, struct disk_held *out)
{
    struct disk *d = only_disk(ds);

    if (d == NULL || a->serial != atomic_load_explicit(&ds->serial, memory_order_acquire))
        return false;
    return disk_again_begin(d, &a->at, out);
}

void
disks_again_end(struct disk_held *held)
{
    disk_again_end(held);
}
