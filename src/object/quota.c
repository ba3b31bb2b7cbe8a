/* quota: what a bucket may hold. Asked before a body is taken, so that who is over it does not send one; those on their way
 * at that moment may still come in. */
#include <inttypes.h>

#include "object/internal.h"
#include "object/put.h"

struct held {
    uint64_t objects,
        bytes; /* older versions with them; bytes of parts of uploads, too */
    uint64_t older_bytes, open_bytes;
};

static struct held
held_by(struct object_service *s, const struct map_bucket *b)
{
    struct disks *ds = s->options.disks;
    struct held h;
    uint64_t older, parts;

    disks_bucket_usage(ds, b->id, DISK_USAGE_LIVE, b->copies, &h.objects, &h.bytes);
    disks_bucket_usage(ds, b->id, DISK_USAGE_OLDER, b->copies, &older, &h.older_bytes);
    disks_bucket_usage(ds, b->id, DISK_USAGE_OPEN, b->copies, &parts, &h.open_bytes);
    h.objects += older;
    h.bytes += h.older_bytes + h.open_bytes;
    return h;
}

static void
without_part(struct object_service *s, const struct disks_key *k,
             const struct quota_ask *ask, struct held *h)
{
    struct arena *a = arena_new(KIB(1), KIB(64));
    struct errbuf eb = {{0}};
    struct disk_part *p;
    uint32_t count;
    bool more;

    if (ask->part > 0 &&
        disks_part_list(s->options.disks, k, ask->upload, ask->part - 1, 1, a, &p, &count,
                        &more, &eb) == ERR_OK &&
        count > 0 && p->number == ask->part)
        h->bytes -= MIN(h->bytes, p->size);
    arena_free(&a);
}

/* What the key, or the part's number, holds now would be replaced. */
static void
without_replaced(struct object_service *s, const struct map_bucket *b,
                 const struct quota_ask *ask, struct held *h)
{
    struct disks_key k = object_disk_key(b, ask->key);
    struct errbuf eb = {{0}};
    struct row row;

    if (ask->upload != NULL) {
        without_part(s, &k, ask, h);
        return;
    }
    if (b->versioning == MAP_VERSIONED ||
        disks_lookup(s->options.disks, &k, &row, &eb) != ERR_OK)
        return; /* it stays as an older version; what can't be read is not replaced for nothing */
    if (b->versioning == MAP_SUSPENDED && !row_is_null_version(&row))
        return;
    h->objects -= h->objects > 0;
    h->bytes -= MIN(h->bytes, row.size);
}

enum err
quota_admit(struct object_service *s, const struct map_bucket *b,
            const struct quota_ask *ask, struct errbuf *eb)
{
    uint64_t more = ask->size == DISK_SIZE_UNKNOWN ? 0 : ask->size;
    struct held h;
    bool over;

    if (b->quota_bytes == 0 && b->quota_objects == 0)
        return ERR_OK;
    h = held_by(s, b);
    for (int i = 0; i < 2; i++) {
        over = (b->quota_bytes > 0 && !ask->counted &&
                (h.bytes > b->quota_bytes || more > b->quota_bytes - h.bytes)) ||
               (b->quota_objects > 0 && ask->count > 0 &&
                h.objects + ask->count > b->quota_objects);
        if (!over)
            return ERR_OK;
        if (i == 0)
            without_replaced(s, b, ask, &h);
    }
    if (b->quota_objects > 0 && ask->count > 0 &&
        h.objects + ask->count > b->quota_objects)
        return err_set(eb, ERR_QUOTA,
                       "bucket \"%s\" holds %" PRIu64
                       " objects, older versions counted, its quota is %" PRIu64
                       " (forebay bucket set --quota-objects)",
                       b->name, h.objects, b->quota_objects);
    return err_set(eb, ERR_QUOTA,
                   "bucket \"%s\" holds %" PRIu64 " bytes, %" PRIu64
                   " of them of older versions and %" PRIu64
                   " of uploads in progress, with %" PRIu64
                   " more it would be over its quota of %" PRIu64
                   " (forebay bucket set --quota-bytes)",
                   b->name, h.bytes, h.older_bytes, h.open_bytes, more, b->quota_bytes);
}
