/* What was prepared on one disk, and of which nobody has told the outcome: asked of the others. */
#include <string.h>

#include "base/mem.h"
#include "disks/move.h"

#define UNDECIDED_PAGE 256u
#define FORGOTTEN      (DISKS_MAX + 1u) /* instead of a slot that has gone */

/* The name at birth of a bucket: what placement hashes. */
bool
bucket_of(struct disks *ds, uint64_t id, struct disks_bucket *out)
{
    return ds->keeper.next_bucket != NULL &&
           ds->keeper.next_bucket(ds->keeper.buckets_arg, id - 1, out) && out->id == id;
}

/* Did the slot that has gone order the writes of this key? */
static bool
was_owner(struct disks *ds, const struct disks_key *k, unsigned gone)
{
    struct place_disk all[DISKS_MAX];
    unsigned count = atomic_load(&ds->slot_count);
    uint8_t first;

    for (unsigned i = 0; i < count; i++) {
        all[i] = ds->slots[i].place;
        if (slot_state(&ds->slots[i]) != SLOT_ACTIVE && i != gone &&
            slot_state(&ds->slots[i]) != SLOT_OUT)
            all[i].weight = 0;
    }
    return place_order(place_hash(k->at.birth_name, k->at.key), all, count, &first, 1) ==
               1 &&
           slot_state(&ds->slots[first]) == SLOT_OUT;
}

/* Who has a row with this content says that it was decided, and the version that it was born with: what changed it since comes
 * with a pass. ERR_NOT_FOUND: all were asked, and nobody has; another error: somebody could not be asked. */
static enum err
find_decided(struct disks *ds, const struct disks_key *k,
             const struct content_id *content, struct version *out, struct errbuf *eb)
{
    uint8_t all[DISKS_MAX];
    unsigned n = places_all(ds, all);
    enum err unknown = ERR_NOT_FOUND;

    for (unsigned i = 0; i < n; i++) {
        struct disk *d = slot_enter(ds, all[i]);
        struct row row;
        enum err rc = d != NULL ? disk_lookup_any(d, &k->at, &row, eb) : unheard(eb);

        if (d != NULL)
            slot_leave(ds, all[i]);
        if (rc == ERR_OK && memcmp(&row.content, content, sizeof *content) == 0) {
            *out = row_born(&row);
            return ERR_OK;
        }
        if (rc != ERR_OK && rc != ERR_NOT_FOUND)
            unknown = rc;
    }
    return unknown;
}

static enum err
resolve_one(struct disks *ds, struct disk *d, const struct disk_undecided *u,
            unsigned gone, struct errbuf *eb)
{
    struct disks_bucket b = {0};
    struct version v;
    struct disks_key k = {.at = {.bucket = u->bucket, .key = u->key}};
    bool leftover = u->prepared.epoch < ds->keeper.o.epoch, known, orphan;
    enum err rc = ERR_OK;

    known = bucket_of(ds, u->bucket, &b);
    k.at.birth_name = b.birth_name;
    orphan = known && was_owner(ds, &k, gone);
    if (find_decided(ds, &k, &u->content, &v, NULL) == ERR_OK)
        rc = leftover || orphan ? disk_decide(d, &k.at, &u->content, &v, eb) : ERR_OK;
    else if (orphan) /* it may have been answered: in the order of its giver it stays */
        rc = disk_decide(d, &k.at, &u->content, &u->prepared, eb);
    else if (leftover)
        rc = disk_give_up(d, &k.at, &u->content, eb);
    disks_bucket_fini(&b);
    return rc;
}

/* As it was listed, perhaps by a write that goes on: under the lock that one has ended, and the same again is harmless. What no disk
 * has as the current version stays: an older one may be it, which is not asked about here. */
static enum err
end_forgotten(struct disks *ds, struct disk *d, const struct disk_undecided *u,
              struct errbuf *eb)
{
    struct disks_bucket b = {0};
    struct disks_key k = {.at = {.bucket = u->bucket, .key = u->key}};
    struct version v;
    uint64_t hash;
    enum err rc = ERR_OK;

    if (u->prepared.epoch < ds->keeper.o.epoch || !bucket_of(ds, u->bucket, &b)) {
        disks_bucket_fini(&b);
        return ERR_OK;
    }
    k.at.birth_name = b.birth_name;
    hash = place_hash(k.at.birth_name, k.at.key);
    keylock_take(ds->keylocks, hash);
    if (atomic_load(&ds->all_locked)) {
        rc = find_decided(ds, &k, &u->content, &v, eb);
        if (rc == ERR_OK)
            rc = disk_decide(d, &k.at, &u->content, &v, eb);
        if (rc == ERR_OK)
            rc = disk_settle(d, eb); /* is_durable() takes it for that */
    }
    keylock_release(ds->keylocks, hash);
    disks_bucket_fini(&b);
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

/* `gone` as in undecided_resolve(); FORGOTTEN: as in undecided_end_forgotten(). */
static enum err
resolve_on(struct disks *ds, struct disk *d, unsigned gone, struct errbuf *eb)
{
    enum err kept = ERR_OK;

    struct arena *a = arena_new(KIB(16), MIB(2));
    struct content_id last, *after = NULL;
    bool more = true;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && more) {
        struct disk_undecided *found = NULL;
        uint32_t count = 0;

        arena_reset(a);
        rc = disk_undecided(d, after, UNDECIDED_PAGE, a, &found, &count, &more, eb);
        for (uint32_t i = 0; rc == ERR_OK && i < count; i++) {
            struct errbuf why = {{0}};
            enum err one = gone == FORGOTTEN ? end_forgotten(ds, d, &found[i], &why)
                                             : resolve_one(ds, d, &found[i], gone, &why);

            if (one == ERR_OK)
                continue;
            if (kept == ERR_OK)
                *eb = why;
            kept = kept != ERR_OK ? kept : one;
            rc = gone == FORGOTTEN ? ERR_OK : one;
        }
        if (count > 0) {
            last = found[count - 1].content;
            after = &last;
        }
    }
    arena_free(&a);
    return rc != ERR_OK ? rc : kept;
}

enum err
undecided_end_forgotten(struct disks *ds, struct errbuf *eb)
{
    uint8_t all[DISKS_MAX];
    unsigned n = places_all(ds, all);
    enum err rc = ERR_OK;

    for (unsigned i = 0; i < n; i++) {
        struct disk *d =
            slot_state(&ds->slots[all[i]]) != SLOT_FROZEN ? slot_enter(ds, all[i]) : NULL;
        struct errbuf why = {{0}};
        enum err one;

        if (d == NULL)
            continue;
        one = resolve_on(ds, d, FORGOTTEN, &why);
        slot_leave(ds, all[i]);
        if (one == ERR_OK || rc != ERR_OK)
            continue;
        rc = one;
        *eb = why;
    }
    return rc;
}

enum err
undecided_resolve(struct disks *ds, unsigned gone, struct errbuf *eb)
{
    uint8_t all[DISKS_MAX];
    unsigned n = places_all(ds, all);
    enum err rc = ERR_OK;

    for (unsigned i = 0; rc == ERR_OK && i < n; i++) {
        struct disk *d = slot_enter(ds, all[i]);

        if (d == NULL)
            continue;
        rc = resolve_on(ds, d, gone, eb);
        slot_leave(ds, all[i]);
    }
    return rc;
}
