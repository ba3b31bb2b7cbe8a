/* async_read: small objects read without a fiber. Serves only what object_get_begin() would serve without asking a
 * backend. */
#include <string.h>

#include "base/metrics.h"
#include "object/internal.h"
#include "object/readahead.h"
#include "object/tier.h"

bool
object_async_read_begin(struct object_service *s, const struct map_bucket *b,
                        struct span key, struct object_async_read *o)
{
    struct disks_key k = object_disk_key(b, key);

    if (b->cached && (b->ttl_ms != 0 || cloud_any_down(s->options.cloud)))
        return false; /* its time to live may be over; the answer may need the stale header */
    o->s = s;
    o->bucket = b;
    o->key = key;
    return disks_async_read_begin(s->options.disks, &k, &o->at);
}

void
object_async_read_info(struct object_async_read *o, struct object_info *out)
{
    const struct entry *entry = &o->at.at.entry;
    struct object_meta meta = {.mtime_ms = entry->mtime_ms, .parts = entry->parts};

    memset(out, 0, sizeof *out);
    memcpy(meta.md5, entry->md5, sizeof meta.md5);
    info_from_meta(entry, &meta, out);
    get_count_local(o->bucket, entry->size);
    if (!o->bucket->cached)
        return;
    tier_read(o->s, o->bucket, o->key, entry);
    readahead_observe(o->s, o->bucket, o->key, entry->size);
}

void
object_async_read_end(struct object_async_read *o)
{
    disks_async_read_end(&o->at);
}
