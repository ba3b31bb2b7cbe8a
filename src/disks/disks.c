/* Opening, closing and counting the disks of a node. */
#include "disks/disks.h"

#include <stdlib.h>

#include "base/mem.h"
#include "disks/internal.h"

enum err
disks_open_one(const char *path, const struct disk_options *o, struct disks **out,
               struct errbuf *eb)
{
    struct disks *ds = xcalloc(1, sizeof *ds);
    struct disk *d = NULL;
    enum err rc = disk_open(path, o, &d, eb);

    *out = NULL;
    atomic_store(&ds->one, d);
    if (rc == ERR_OK)
        *out = ds;
    else
        disks_close(&ds);
    return rc;
}

enum err
disks_open(const struct disks_options *o, struct disks **out, struct errbuf *eb)
{
    *out = NULL;
    if (o->count != 1)
        return err_set(eb, ERR_NOT_BUILT, "%u disks: one is possible so far", o->count);
    return disks_open_one(o->paths[0], &o->disk, out, eb);
}

void
disks_close(struct disks **dp)
{
    struct disks *ds = *dp;
    struct disk *d;

    *dp = NULL;
    if (ds == NULL)
        return;
    d = only_disk(ds);
    disk_close(&d);
    free(ds);
}

enum err
disks_settle(struct disks *ds, struct errbuf *eb)
{
    return disk_settle(only_disk(ds), eb);
}

enum err
disks_bucket_note(struct disks *ds, uint64_t bucket, struct span record,
                  struct errbuf *eb)
{
    return disk_bucket_note(only_disk(ds), bucket, record, eb);
}

void
disks_stat(struct disks *ds, struct disk_stat *out)
{
    disk_stat(only_disk(ds), out);
}
