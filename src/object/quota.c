/* quota: what a bucket may hold. Asked before a body is taken, so that who is over it does not send one; those on their way
 * at that moment may still come in. */
#include <inttypes.h>

#include "object/internal.h"
#include "object/put.h"

/* What the key holds now would be replaced. */
static void
without_replaced(struct object_service *s, const struct map_bucket *b, struct span key,
                 uint64_t *objects, uint64_t *bytes)
{
    struct disks_key k = object_disk_key(b, key);
    struct errbuf eb = {{0}};
    struct row row;

    if (b->versioning == MAP_VERSIONED ||
        disks_lookup(s->options.disks, &k, &row, &eb) != ERR_OK)
        return; /* an older version stays, and counts no more; what can't be read is not replaced for nothing */
    *objects -= *objects > 0;
    *bytes -= *bytes < row.size ? *bytes : row.size;
}

enum err
quota_admit(struct object_service *s, const struct map_bucket *b, struct span key,
            uint64_t size, unsigned count, struct errbuf *eb)
{
    uint64_t objects, bytes, more = size == DISK_SIZE_UNKNOWN ? 0 : size;
    bool over;

    if (b->quota_bytes == 0 && b->quota_objects == 0)
        return ERR_OK;
    disks_bucket_usage(s->options.disks, b->id, b->copies, &objects, &bytes);
    for (int i = 0; i < 2; i++) {
        over = (b->quota_bytes > 0 &&
                (bytes > b->quota_bytes || more > b->quota_bytes - bytes)) ||
               (b->quota_objects > 0 && objects + count > b->quota_objects);
        if (!over)
            return ERR_OK;
        if (i == 0 && count > 0)
            without_replaced(s, b, key, &objects, &bytes);
    }
    if (b->quota_objects > 0 && objects + count > b->quota_objects)
        return err_set(eb, ERR_QUOTA,
                       "bucket \"%s\" holds %" PRIu64 " objects, its quota is %" PRIu64
                       " (forebay bucket set --quota-objects)",
                       b->name, objects, b->quota_objects);
    return err_set(eb, ERR_QUOTA,
                   "bucket \"%s\" holds %" PRIu64 " bytes, with %" PRIu64
                   " more it would be over its quota of %" PRIu64
                   " (forebay bucket set --quota-bytes)",
                   b->name, bytes, more, b->quota_bytes);
}
