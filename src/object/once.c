/* once: small objects got without a fiber. Only what object_get_begin() would give out unasked: no backend is heard. */
#include <string.h>

#include "base/metrics.h"
#include "object/internal.h"
#include "object/readahead.h"
#include "object/tier.h"

bool
object_once_begin(struct object_service *s, const struct map_bucket *b, struct span key,
                  struct object_once *o)
{
    struct disks_key k = object_disk_key(b, key);

    if (b->cached && (b->ttl_ms != 0 || cloud_any_down(s->options.cloud)))
        return false; /* its time may be over; that may have to be said */
    o->s = s;
    o->bucket = b;
    o->key = key;
    return disks_once_begin(s->options.disks, &k, &o->at);
}

void
object_once_info(struct object_once *o, struct object_info *out)
{
    const struct row *row = &o->at.at.row;
    struct object_meta meta = {.mtime_ms = row->mtime_ms, .parts = row->parts};

    memset(out, 0, sizeof *out);
    memcpy(meta.md5, row->md5, sizeof meta.md5);
    info_from_meta(row, &meta, out);
    get_count_local(o->bucket, row->size);
    if (!o->bucket->cached)
        return;
    tier_read(o->s, o->bucket, o->key, row);
    readahead_saw(o->s, o->bucket, o->key, row->size);
}

void
object_once_end(struct object_once *o)
{
    disks_once_end(&o->at);
}
