/* A disk goes: by itself, because it failed, or because it was removed. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "disks/move.h"

#define UNDECIDED_PAGE 256u
#define FORGOTTEN      (DISKS_MAX + 1u) /* instead of a slot that has gone */

/* ---- what was prepared and whose outcome nobody told ---- */

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

/* ---- out ---- */

/* Also where the list can't be written: then the next start finds the disk missing, or looks through it. */
static void
goes(struct disks *ds, unsigned i, enum slot_state state)
{
    struct slot *s = &ds->slots[i];
    struct errbuf eb = {{0}};

    s->missed |= !atomic_load(&ds->settled) && !ds->keeper.after_crash;
    /* Before anybody sees it out: who asks then must not be told that there is nothing. */
    if (state == SLOT_OUT && s->missed)
        atomic_store(&ds->out_unsettled, true);
    atomic_store(&ds->guarded, true);
    atomic_store(&ds->settled, false);
    ds->keeper.after_crash = false;
    if (slot_becomes(ds, i, state, &eb) == ERR_OK)
        return;
    LOG(LOG_WARN, "disks.list", eb.text, L_TEXT("path", s->path));
    s->in_list = state;
    atomic_store(&s->state, state);
    set_changed(ds);
    writers_next(ds);
}

void
slot_freezes(struct disks *ds, unsigned i)
{
    LOG(LOG_ERROR, "disks.frozen", "a disk takes no writes; the others take them",
        L_TEXT("path", ds->slots[i].path));
    goes(ds, i, SLOT_FROZEN);
    mover_wake(ds);
}

void
slot_goes_out(struct disks *ds, unsigned i)
{
    struct slot *s = &ds->slots[i];
    struct disk_health h = {0};
    struct errbuf eb = {{0}};

    disk_health(s->disk, &h);
    LOG(LOG_ERROR, "disks.out", "a disk has left; the node goes on without it",
        L_TEXT("path", s->path), L_TEXT("why", h.why));
    goes(ds, i, SLOT_OUT);
    if (ds->keeper.next_bucket != NULL && undecided_resolve(ds, i, &eb) != ERR_OK)
        LOG(LOG_WARN, "disks.undecided", eb.text, L_TEXT("path", s->path));
    mover_wake(ds);
}

/* ---- gone ---- */

static uint64_t
inside_as_one(struct disks *ds, unsigned slot)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < rt_loop_count() && i < LOOPS_MAX; i++)
        sum += atomic_load(&ds->inside[i].of_slot[slot]);
    return sum;
}

static void
on_all_passed(void *arg)
{
    struct slot *s = arg;

    atomic_store(&s->gone, true);
}

bool
slots_close_gone(struct disks *ds)
{
    bool more = false;

    for (unsigned i = 0; i < atomic_load(&ds->slot_count); i++) {
        struct slot *s = &ds->slots[i];

        if (slot_state(s) != SLOT_GONE || s->disk == NULL)
            continue;
        more = true;
        if (!s->retiring) {
            s->retiring = true;
            rt_retire(on_all_passed, s);
        }
        if (!atomic_load(&s->gone) || atomic_load(&s->busy) > 0 ||
            inside_as_one(ds, i) > 0)
            continue;
        LOG(LOG_INFO, "disks.closed", "a removed disk is closed",
            L_TEXT("path", s->path));
        disk_close(&s->disk);
    }
    return more;
}
