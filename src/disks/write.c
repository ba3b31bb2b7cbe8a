/* Bodies on their way in, and what makes and ends objects. */
#include <stdlib.h>

#include "base/mem.h"
#include "disks/internal.h"

enum err
disks_write_begin(struct disks *ds, const struct disks_key *k, enum disk_class class,
                  uint64_t size, struct disks_writer **out, struct errbuf *eb)
{
    struct disks_writer *w = xcalloc(1, sizeof *w);
    enum err rc;

    w->disks = ds;
    rc = disk_write_begin(only_disk(ds), &k->at, class, size, &w->to, eb);
    if (rc != ERR_OK)
        disks_write_abort(&w);
    *out = w;
    return rc;
}

enum err
disks_write(struct disks_writer *w, const void *data, size_t len, struct errbuf *eb)
{
    return disk_write(w->to, data, len, eb);
}

uint64_t
disks_written(const struct disks_writer *w)
{
    return disk_written(w->to);
}

enum err
disks_write_peek(struct disks_writer *w, uint64_t offset, void *buf, size_t len,
                 size_t *n, struct errbuf *eb)
{
    return disk_write_peek(w->to, offset, buf, len, n, eb);
}

void
disks_write_abort(struct disks_writer **wp)
{
    struct disks_writer *w = *wp;

    *wp = NULL;
    if (w == NULL)
        return;
    disk_write_abort(&w->to);
    free(w);
}

enum err
disks_commit(struct disks_writer **wp, const struct object_meta *meta,
             const struct disk_condition *c, struct row *out, struct errbuf *eb)
{
    enum err rc = disk_commit(&(*wp)->to, meta, c, out, eb);

    disks_write_abort(wp);
    return rc;
}

enum err
disks_delete(struct disks *ds, const struct disks_key *k, enum disk_class class,
             const struct disk_condition *c, bool *existed, struct errbuf *eb)
{
    return disk_delete(only_disk(ds), &k->at, class, c, existed, eb);
}

enum err
disks_doubt(struct disks *ds, const struct disks_key *k, struct errbuf *eb)
{
    return disk_doubt(only_disk(ds), &k->at, eb);
}

enum err
disks_doubt_clear(struct disks *ds, const struct disks_key *k, struct errbuf *eb)
{
    return disk_doubt_clear(only_disk(ds), &k->at, eb);
}
