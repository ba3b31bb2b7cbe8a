/* quota: what a bucket may hold. Asked before a body is taken, so that who is over it does not send one; those on their way
 * at that moment may still come in. */
#include <inttypes.h>

#include "object/internal.h"
#include "object/put.h"

struct held {
    uint64_t objects, bytes; /* older versions with them */
    uint64_t older_bytes;
};

static struct held
held_by(struct object_service *s, const struct map_bucket *b)
{
    struct held h;
    uint64_t older;

    disks_bucket_usage(s->options.disks, b->id, false, b->copies, &h.objects, &h.bytes);
    disks_bucket_usage(s->options.disks, b->id, true, b->copies, &older, &h.older_bytes);
    h.objects += older;
    h.bytes += h.older_bytes;
    return h;
}

/* What the key holds now would be replaced. */
static void
without_replaced(struct object_service *s, const struct map_bucket *b, struct span key,
                 struct held *h)
{
    struct disks_key k = object_disk_key(b, key);
    struct errbuf eb = {{0}};
    struct row row;

    if (b->versioning == MAP_VERSIONED ||
        disks_lookup(s->options.disks, &k, &row, &eb) != ERR_OK)
        return; /* it stays as an older version; what can't be read is not replaced for nothing */
    if (b->versioning == MAP_SUSPENDED && !row_is_null_version(&row))
        return;
    h->objects -= h->objects > 0;
    h->bytes -= MIN(h->bytes, row.size);
}

enum err
quota_admit(struct object_service *s, const struct map_bucket *b, struct span key,
            uint64_t size, unsigned count, struct errbuf *eb)
{
    uint64_t more = size == DISK_SIZE_UNKNOWN ? 0 : size;
    struct held h;
    bool over;

    if (b->quota_bytes == 0 && b->quota_objects == 0)
        return ERR_OK;
    h = held_by(s, b);
    for (int i = 0; i < 2; i++) {
        over = (b->quota_bytes > 0 &&
                (h.bytes > b->quota_bytes || more > b->quota_bytes - h.bytes)) ||
               (b->quota_objects > 0 && h.objects + count > b->quota_objects);
        if (!over)
            return ERR_OK;
        if (i == 0 && count > 0)
            without_replaced(s, b, key, &h);
    }
    if (b->quota_objects > 0 && h.objects + count > b->quota_objects)
        return err_set(eb, ERR_QUOTA,
                       "bucket \"%s\" holds %" PRIu64
                       " objects, older versions counted, its quota is %" PRIu64
                       " (forebay bucket set --quota-objects)",
                       b->name, h.objects, b->quota_objects);
    return err_set(eb, ERR_QUOTA,
                   "bucket \"%s\" holds %" PRIu64 " bytes, %" PRIu64
                   " of them of older versions, with %" PRIu64
                   " more it would be over its quota of %" PRIu64
                   " (forebay bucket set --quota-bytes)",
                   b->name, h.bytes, h.older_bytes, more, b->quota_bytes);
}
