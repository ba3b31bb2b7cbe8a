/* Room for cached objects on several disks: each gives its share. */
#include "base/hash.h"
#include "base/mem.h"
#include "disks/internal.h"

void
disks_access_freq_add(struct disks *ds, const struct entry *entry, uint32_t reads)
{
    _Atomic uint64_t *counted;
    struct store *d = one_enter(ds, &counted);

    if (d != NULL) {
        store_access_freq_add(d, entry, reads);
        one_leave(counted);
        return;
    }
    d = replica_enter(ds, entry->place.disk);
    if (d == NULL)
        return;
    store_access_freq_add(d, entry, reads);
    replica_leave(ds, entry->place.disk);
}

void
disks_access_freq_rotate(struct disks *ds)
{
    uint8_t all[DISKS_MAX];
    unsigned n = places_all(ds, all);

    for (unsigned i = 0; i < n; i++) {
        struct store *d = replica_enter(ds, all[i]);

        if (d == NULL)
            continue;
        store_access_freq_rotate(d);
        replica_leave(ds, all[i]);
    }
}

/* Bytes that should be given back for want of room on the file system: half a reserve above twice the reserve. */
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
    uint8_t all[DISKS_MAX];
    unsigned n = places_all(ds, all);
    bool tight = false;

    for (unsigned i = 0; i < n; i++) {
        struct store *d = replica_enter(ds, all[i]);

        if (d == NULL)
            continue;
        tight = tight || lacks(d) > 0;
        replica_leave(ds, all[i]);
    }
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
    uint8_t all[DISKS_MAX];
    unsigned n = places_all(ds, all);
    uint64_t cached = disks_cached_bytes(ds);
    enum err rc = ERR_OK;

    *out = (struct store_evicted){.coldest = UINT32_MAX};
    for (unsigned i = 0; i < n; i++) {
        struct store *d = replica_enter(ds, all[i]);
        struct store_evicted one;
        enum err last;

        if (d == NULL)
            continue;
        last = evict_from(d, o, cached, &one, eb);
        replica_leave(ds, all[i]);
        if (last != ERR_OK) {
            rc = last; /* the others go on */
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
    uint8_t all[DISKS_MAX];
    unsigned n = places_all(ds, all);
    bool found = false;

    for (unsigned i = 0; i < n; i++) {
        struct store *d = replica_enter(ds, all[i]);
        uint64_t id;

        if (d == NULL)
            continue;
        if (store_next_bucket(d, after + 1, &id, NULL) == ERR_OK &&
            (!found || id < *out)) {
            *out = id;
            found = true;
        }
        replica_leave(ds, all[i]);
    }
    return found;
}

enum err
disks_evict_one(struct disks *ds, uint64_t bucket, struct span key,
                const struct entry *entry, struct errbuf *eb)
{
    struct store_key k = {.bucket = bucket, .key = key};
    struct store_condition unchanged = {.if_version = true, .version = entry->version};
    struct store *one = only_disk(ds);
    unsigned i = one != NULL ? atomic_load(&ds->one_slot) : entry->place.disk;
    struct store *d = replica_enter(ds, i);
    bool existed;
    enum err rc;

    if (d == NULL)
        return unreachable(eb);
    rc = store_delete(d, &k, STORE_CACHED, &unchanged, &existed, eb);
    replica_leave(ds, i);
    return rc == ERR_PRECONDITION || rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

enum err
disks_where(struct disks *ds, const struct entry *entry, struct disks_where *out,
            struct errbuf *eb)
{
    struct store *one = only_disk(ds);
    unsigned i = one != NULL ? atomic_load(&ds->one_slot) : entry->place.disk;
    struct store *d = replica_enter(ds, i);
    enum err rc;

    *out = (struct disks_where){.path = ds->slots[i].path};
    if (d == NULL)
        return unreachable(eb);
    hex_encode(ds->slots[i].id, sizeof ds->slots[i].id, out->id);
    rc = store_location(d, entry, &out->at, eb);
    replica_leave(ds, i);
    return rc;
}
