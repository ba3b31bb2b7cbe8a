/* Looking up and reading. */
#include "disks/internal.h"

enum err
disks_lookup(struct disks *ds, const struct disks_key *k, struct row *out,
             struct errbuf *eb)
{
    return disk_lookup(only_disk(ds), &k->at, out, eb);
}

enum err
disks_meta(struct disks *ds, const struct disks_key *k, const struct row *row,
           struct arena *a, struct object_meta *out, struct errbuf *eb)
{
    return disk_meta(only_disk(ds), &k->at, row, a, out, eb);
}

enum err
disks_read_begin(struct disks *ds, const struct disks_key *k, const struct row *row,
                 uint64_t offset, uint64_t len, struct disks_reader *out,
                 struct errbuf *eb)
{
    out->from = NULL;
    out->disks = NULL;
    return disk_read_begin(only_disk(ds), &k->at, row, offset, len, &out->from, eb);
}

enum err
disks_read_next(struct disks_reader *r, struct deadline by, struct span *piece,
                struct errbuf *eb)
{
    return disk_read_next(r->from, by, piece, eb);
}

void
disks_read_end(struct disks_reader *r)
{
    disk_read_end(&r->from);
}
