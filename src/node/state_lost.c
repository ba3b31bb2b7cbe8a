#include "node/state_lost.h"

#include <inttypes.h>

enum err
state_check_lost(struct meta *m, struct disks *ds, const char *path, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(4), MIB(1));
    struct meta_pair *none;
    struct store_stat stat;
    uint64_t revision = 0;
    uint32_t count;
    /* Each change makes the revision larger, and the first bucket was one. */
    enum err rc = meta_list(m, SPAN("nothing/"), a, &none, &count, &revision, eb);

    arena_free(&a);
    if (rc != ERR_OK || revision > 0)
        return rc;
    disks_stat(ds, &stat);
    if (stat.objects == 0)
        return ERR_OK;
    return err_set(
        eb, ERR_CORRUPT,
        "the node's state, %s/.forebay/node/meta, is empty, and its disks hold "
        "%" PRIu64 " objects: put it back from a backup, or, if the node has "
        "other disks, start with those and --without this one "
        "(docs/recovery.md)",
        path, stat.objects);
}
