/* Eviction of cached objects over several disks: each evicts its share. */
#include <assert.h>

#include "base/hash.h"
#include "base/mem.h"
#include "disks/internal.h"

void
disks_access_freq_add(struct disks *ds, const struct entry *entry, uint32_t reads)
{
    struct replica *r = replica_enter(ds, entry->place.disk);

    if (r != NULL)
        store_access_freq_add(r->store, entry, reads);
    replica_leave(r);
}

void
disks_access_freq_rotate(struct disks *ds)
{
    for (struct replica_walk w = replica_walk(ds); replica_walk_next(&w);)
        store_access_freq_rotate(w.at->store);
}

/* Bytes to evict if less than twice the reserve is free: as many as leave half a reserve more
 * than that. */
static uint64_t
lacks(struct store *d)
{
    struct store_space s;

    store_space(d, &s);
    if (s.reserve_bytes == 0 || s.free_bytes >= 2 * s.reserve_bytes)
        return 0;
    return 2 * s.reserve_bytes + s.reserve_bytes / 2 - s.free_bytes;
}

bool
disks_cache_is_tight(struct disks *ds)
{
    bool tight = false;

    for (struct replica_walk w = replica_walk(ds); replica_walk_next(&w);)
        tight = tight || lacks(w.at->store) > 0;
    return tight;
}

static uint64_t
share(uint64_t whole, uint64_t part, uint64_t all)
{
    return (uint64_t)((long double)whole * (long double)part / (long double)MAX(all, 1u));
}

static enum err
evict_from(struct store *d, const struct store_evict_options *o, uint64_t all,
           struct store_evicted *out, struct errbuf *eb)
{
    struct store_evict_options mine = *o;
    uint64_t cached = store_cached_bytes(d);

    if (o->target != UINT64_MAX)
        mine.target = share(o->target, cached, all);
    mine.want = MAX(share(o->want, cached, all), lacks(d));
    return store_evict(d, &mine, out, eb);
}

enum err
disks_evict(struct disks *ds, const struct store_evict_options *o,
            struct store_evicted *out, struct errbuf *eb)
{
    uint64_t cached = disks_cached_bytes(ds);
    enum err rc = ERR_OK;

    *out = (struct store_evicted){.coldest = UINT32_MAX};
    for (struct replica_walk w = replica_walk(ds); replica_walk_next(&w);) {
        struct store_evicted one;
        enum err last = evict_from(w.at->store, o, cached, &one, eb);

        if (last != ERR_OK) {
            rc = last; /* continue with the others */
            continue;
        }
        out->living += one.living;
        out->objects += one.objects;
        out->bytes += one.bytes;
        out->kept += one.kept;
        out->segments += one.segments;
        out->reclaimed += one.reclaimed;
        if (one.living > 0)
            out->coldest = MIN(out->coldest, one.coldest);
    }
    if (out->coldest == UINT32_MAX)
        out->coldest = 0;
    return rc;
}

bool
disks_next_bucket(struct disks *ds, uint64_t after, uint64_t *out)
{
    bool found = false;

    for (struct replica_walk w = replica_walk(ds); replica_walk_next(&w);) {
        uint64_t id;

        if (store_next_bucket(w.at->store, after + 1, &id, NULL) != ERR_OK ||
            (found && id >= *out))
            continue;
        assert(id > after);
        *out = id;
        found = true;
    }
    return found;
}

enum err
disks_evict_one(struct disks *ds, uint64_t bucket, struct span key,
                const struct entry *entry, struct errbuf *eb)
{
    struct store_key k = {.bucket = bucket, .key = key};
    struct store_condition unchanged = {.if_version = true, .version = entry->version};
    struct replica *r = replica_enter(ds, entry->place.disk);
    bool existed;
    enum err rc = r != NULL
                      ? store_delete(r->store, &k, STORE_CACHED, &unchanged, &existed, eb)
                      : err_unreachable(eb);

    replica_leave(r);
    return rc == ERR_PRECONDITION || rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

enum err
disks_where(struct disks *ds, const struct entry *entry, struct disks_where *out,
            struct errbuf *eb)
{
    const struct replica_slot *s = &ds->slots[entry->place.disk];
    struct replica *r = replica_enter(ds, entry->place.disk);
    enum err rc;

    *out = (struct disks_where){.path = s->path};
    hex_encode(s->id, sizeof s->id, out->id);
    rc = r != NULL ? store_location(r->store, entry, &out->at, eb) : err_unreachable(eb);
    replica_leave(r);
    return rc;
}
