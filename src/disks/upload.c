/* Multipart uploads: parts lie where the object will. */
#include <stdlib.h>

#include "base/mem.h"
#include "disks/internal.h"

enum err
disks_upload_begin(struct disks *ds, const struct disks_key *k, enum disk_class class,
                   const struct object_meta *meta, struct upload_id *out,
                   struct errbuf *eb)
{
    return disk_upload_begin(only_disk(ds), &k->at, class, meta, out, eb);
}

enum err
disks_part_begin(struct disks *ds, const struct disks_key *k, const struct upload_id *u,
                 uint32_t number, uint64_t size, struct disks_writer **out,
                 struct errbuf *eb)
{
    struct disks_writer *w = xcalloc(1, sizeof *w);
    enum err rc;

    w->disks = ds;
    rc = disk_part_begin(only_disk(ds), &k->at, u, number, size, &w->to, eb);
    if (rc != ERR_OK)
        disks_write_abort(&w);
    *out = w;
    return rc;
}

enum err
disks_part_commit(struct disks_writer **wp, const struct object_meta *meta,
                  struct errbuf *eb)
{
    enum err rc = disk_part_commit(&(*wp)->to, meta, eb);

    disks_write_abort(wp);
    return rc;
}

enum err
disks_part_list(struct disks *ds, const struct disks_key *k, const struct upload_id *u,
                uint32_t after, uint32_t max, struct arena *a, struct disk_part **out,
                uint32_t *count, bool *more, struct errbuf *eb)
{
    return disk_part_list(only_disk(ds), &k->at, u, after, max, a, out, count, more, eb);
}

enum err
disks_upload_meta(struct disks *ds, const struct disks_key *k, const struct upload_id *u,
                  struct arena *a, struct object_meta *out, struct errbuf *eb)
{
    return disk_upload_meta(only_disk(ds), &k->at, u, a, out, eb);
}

enum err
disks_upload_complete(struct disks *ds, const struct disks_key *k,
                      const struct upload_id *u, const struct disk_part *parts,
                      uint32_t count, const struct object_meta *meta,
                      const struct disk_condition *c, struct row *out, struct errbuf *eb)
{
    return disk_upload_complete(only_disk(ds), &k->at, u, parts, count, meta, c, out, eb);
}

enum err
disks_upload_abort(struct disks *ds, const struct disks_key *k, const struct upload_id *u,
                   struct errbuf *eb)
{
    return disk_upload_abort(only_disk(ds), &k->at, u, eb);
}
