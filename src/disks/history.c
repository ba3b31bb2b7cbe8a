/* history: the versions of a key, delete markers included, on the disks of the key's order.
 *
 * The versions of a key are the union of what all disks have. Each disk that should have the key
 * gets the missing ones, the newest first, so that each is inserted behind the one before it.
 * Then the other disks lose theirs, the current one last. So an older version never becomes
 * visible meanwhile.
 */
#include "disks/history.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "disks/rebalance.h"
#include "disks/version_tombstone.h"

#define AT_A_TIME   100u
#define HISTORY_MAX 100000u /* versions of one key */
#define SCRATCH_MAX MIB(1)
#define TRIES_MAX   64u /* limit of retries while versions of a key keep moving */

struct kept {
    struct entry entry; /* with the newest metadata on any disk */
    uint64_t on;        /* bits of slots that have exactly this */
    bool ended;         /* ended while one of the disks was away */
    struct version as;
};
struct history {
    struct kept *at; /* owned; oldest first */
    uint32_t count, room;
};

/* Oldest first; among entries of one version, oldest metadata first. */
static int
by_birth(const void *x, const void *y)
{
    const struct kept *a = x, *b = y;
    struct version p = entry_born(&a->entry), q = entry_born(&b->entry);
    int c = version_order(&p, &q);

    return c != 0 ? c : version_order(&a->entry.version, &b->entry.version);
}

/* ---- collecting ---- */

static void
keep(struct history *h, const struct entry *entry, unsigned slot)
{
    assert(slot < DISKS_MAX);
    assert(h->count <= h->room);

    if (h->count == h->room) {
        h->room = h->room == 0 ? 16 : 2 * h->room;
        h->at = xrealloc(h->at, h->room * sizeof *h->at);
    }
    h->at[h->count] = (struct kept){.entry = *entry, .on = (uint64_t)1 << slot};
    h->at[h->count++].entry.place.disk = (uint16_t)slot;
}

/* Merges duplicates: each version once, with the newest metadata and the disks that have exactly
 * this; sorted. */
static void
fold(struct history *h)
{
    uint32_t n = 0;

    if (h->count > 0)
        qsort(h->at, h->count, sizeof *h->at, by_birth);
    for (uint32_t i = 0; i < h->count; i++) {
        struct kept *k = &h->at[i], *last = n > 0 ? &h->at[n - 1] : NULL;
        struct version born = entry_born(&k->entry),
                       other =
                           last != NULL ? entry_born(&last->entry) : (struct version){0};

        if (last == NULL || version_order(&born, &other) != 0)
            h->at[n++] = *k;
        else if (version_order(&k->entry.version, &last->entry.version) == 0)
            last->on |= k->on;
        else
            *last = *k;
    }
    h->count = n;
}

/* False: stop. */
typedef bool version_fn(void *arg, const struct entry *entry);

/* Visits all versions of the key on one disk, newest first. */
static enum err
each_version(struct replica *d, const struct store_key *k, version_fn *fn, void *arg,
             struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(16), SCRATCH_MAX);
    struct version after;
    bool more = true, begun = false;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && more) {
        struct store_version *found;
        uint32_t count;

        arena_reset(a);
        rc = replica_version_list(d, k->bucket, k->key, !begun, begun ? &after : NULL,
                                  AT_A_TIME, a, &found, &count, &more, eb);
        for (uint32_t i = 0; rc == ERR_OK && i < count && more; i++)
            more = span_eq(found[i].key, k->key);
        for (uint32_t i = 0; rc == ERR_OK && i < count; i++) {
            if (!span_eq(found[i].key, k->key))
                break;
            more = fn(arg, &found[i].entry) && more;
            after = entry_born(&found[i].entry);
            begun = true;
        }
        more = more && count > 0;
    }
    arena_free(&a);
    return rc;
}

struct gathering {
    struct history *history;
    unsigned slot;
    uint32_t least; /* number of versions before */
};

static bool
gather_one(void *arg, const struct entry *entry)
{
    struct gathering *g = arg;

    keep(g->history, entry, g->slot);
    return g->history->count - g->least <= HISTORY_MAX;
}

/* Adds all versions of the key on one disk. */
static enum err
gather_from(struct replica *d, const struct store_key *k, unsigned slot,
            struct history *h, struct errbuf *eb)
{
    struct gathering g = {.history = h, .slot = slot, .least = h->count};
    enum err rc = each_version(d, k, gather_one, &g, eb);

    assert(slot < DISKS_MAX);
    if (rc == ERR_OK && h->count - g.least > HISTORY_MAX)
        rc = err_set(eb, ERR_TOO_LARGE, "a key of over %u versions is not moved",
                     HISTORY_MAX);
    fold(h);
    return rc;
}

struct search {
    const struct content_id *content;
    struct version *born;
    bool found;
};

static bool
is_it(void *arg, const struct entry *entry)
{
    struct search *s = arg;

    if (s->found || memcmp(&entry->content, s->content, sizeof *s->content) != 0)
        return !s->found;
    *s->born = entry_born(entry);
    s->found = true;
    return false;
}

enum err
history_find(struct replica *d, const struct store_key *k,
             const struct content_id *content, struct version *born, struct errbuf *eb)
{
    struct search s = {.content = content, .born = born};
    enum err rc = each_version(d, k, is_it, &s, eb);

    if (rc != ERR_OK)
        return rc;
    return s.found ? ERR_OK : ERR_NOT_FOUND;
}

/* The newest null version replaced the others. A disk that was away did not receive that. */
static void
end_old_nulls(struct history *h)
{
    const struct kept *newest = NULL;

    for (uint32_t i = h->count; i-- > 0;) {
        struct kept *v = &h->at[i];

        if (!entry_is_null_version(&v->entry))
            continue;
        if (newest != NULL && !v->ended) {
            v->ended = true;
            v->as = newest->entry.version;
        }
        newest = newest != NULL ? newest : v;
    }
}

static enum err
gather(struct disks *ds, const struct disks_key *k, const struct places *p,
       struct history *h, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    assert(p->count <= DISKS_MAX);
    for (unsigned i = 0; rc == ERR_OK && i < p->count; i++) {
        struct replica *d = replica_enter(ds, p->at[i]);

        if (d == NULL)
            return err_unreachable(eb);
        rc = gather_from(d, &k->at, p->at[i], h, eb);
        replica_leave(d);
    }
    for (uint32_t i = 0; rc == ERR_OK && i < h->count; i++)
        h->at[i].ended = version_tombstone_find(ds, k, &h->at[i].entry, &h->at[i].as);
    if (rc == ERR_OK)
        end_old_nulls(h);
    return rc;
}

/* ---- copying and removing ---- */

static enum err
history_copy_marker(struct disks *ds, const struct disks_key *k,
                    const struct entry *entry, unsigned to, struct errbuf *eb)
{
    struct replica *d = replica_enter(ds, to);
    struct entry marker = *entry;
    enum err rc = replica_delete_mark(
        d, &k->at,
        (entry->flags & ENTRY_VERSIONED) != 0 ? STORE_VERSIONED : STORE_SUSPENDED, NULL,
        &entry->version, &marker, eb);

    replica_leave(d);
    return rc;
}

static enum err
bring(struct disks *ds, const struct disks_key *k, struct kept *v, unsigned to,
      uint64_t *bytes, struct errbuf *eb)
{
    uint64_t left = v->on & ~((uint64_t)1 << to);
    enum err rc = ERR_CORRUPT;

    assert(v->on != 0);
    assert(to < atomic_load(&ds->slot_count));
    if ((v->entry.flags & ENTRY_MARKER) != 0)
        return history_copy_marker(ds, k, &v->entry, to, eb);
    (void)err_set(eb, rc, "no other disk has a copy of a version that can be read");
    for (unsigned slot = 0; left != 0 && rc != ERR_OK; slot++, left >>= 1) {
        struct replica *d;
        struct entry entry;
        struct version born = entry_born(&v->entry);
        bool current;

        if ((left & 1) == 0)
            continue;
        d = replica_enter(ds, slot);
        rc = replica_version_find(d, &k->at, &born, &entry, &current, eb);
        replica_leave(d);
        if (rc != ERR_OK)
            continue;
        entry.place.disk = (uint16_t)slot;
        if ((entry.flags & (ENTRY_VERSIONED | ENTRY_SUSPENDED)) == 0)
            entry.flags |= ENTRY_SUSPENDED; /* a null version may arrive late */
        rc = copy_object(ds, k, &entry, to, bytes, eb);
    }
    return rc;
}

static enum err
history_copy_all(struct disks *ds, const struct disks_key *k, struct history *h,
                 unsigned to, uint64_t damaged, struct reconciled *done,
                 struct errbuf *eb)
{
    enum err rc = ERR_OK;

    assert(to < atomic_load(&ds->slot_count));
    for (uint32_t i = h->count; rc == ERR_OK && i-- > 0;) {
        uint64_t bit = (uint64_t)1 << to;
        bool marker = (h->at[i].entry.flags & ENTRY_MARKER) != 0;

        if (h->at[i].ended)
            continue;
        if ((h->at[i].on & bit) != 0 && ((damaged & bit) == 0 || marker))
            continue;
        done->changed = true;
        rc = bring(ds, k, &h->at[i], to, &done->bytes, eb);
        if (rc == ERR_OK)
            h->at[i].on |= bit;
    }
    return rc;
}

/* Ends versions on disks that were away when they ended. It runs after copying, so such a
 * version is current only if there is no other. */
static enum err
end_all(struct disks *ds, const struct disks_key *k, const struct places *p,
        const struct history *h, struct reconciled *done, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    assert(p->placed <= p->count);
    for (uint32_t n = 0; rc == ERR_OK && n < h->count; n++) {
        struct version born = entry_born(&h->at[n].entry);

        for (unsigned i = 0; rc == ERR_OK && h->at[n].ended && i < p->count; i++) {
            struct replica *d = replica_enter(ds, p->at[i]);

            rc = replica_version_delete(d, &k->at, &born, NULL, &h->at[n].as, NULL, NULL,
                                        eb);
            replica_leave(d);
            done->changed = done->changed || rc == ERR_OK;
            if (rc == ERR_NOT_FOUND)
                rc = ERR_OK;
        }
    }
    return rc;
}

static enum err
history_remove(struct disks *ds, const struct disks_key *k, unsigned slot,
               struct reconciled *done, struct errbuf *eb)
{
    struct replica *d = replica_enter(ds, slot);
    struct history mine = {0};
    enum err rc;

    if (d == NULL)
        return err_unreachable(eb);
    rc = gather_from(d, &k->at, slot, &mine, eb);
    if (mine.count > 0)
        atomic_fetch_add(&ds->removals,
                         1); /* a look-up that has read the other disks already repeats */
    for (uint32_t i = 0; rc == ERR_OK && i < mine.count; i++) {
        struct version born = entry_born(&mine.at[i].entry);

        done->changed = true;
        rc = replica_version_delete(d, &k->at, &born, NULL, NULL, NULL, NULL, eb);
        if (rc == ERR_NOT_FOUND)
            rc = ERR_OK;
    }
    replica_leave(d);
    free(mine.at);
    if (rc == ERR_OK && mine.count > 0)
        atomic_fetch_add(&ds->removals, 1);
    return rc;
}

static bool
all_durable(struct disks *ds, const struct places *p, const struct history *h)
{
    assert(p->placed <= p->count);

    for (uint32_t i = 0; i < h->count; i++)
        for (unsigned k = 0; k < p->placed; k++)
            if (!h->at[i].ended && !is_durable(ds, p->at[k], &h->at[i].entry.version))
                return false;
    return true;
}

static bool
has_any(const struct history *h, unsigned slot)
{
    assert(slot < DISKS_MAX);

    for (uint32_t i = 0; i < h->count; i++)
        if ((h->at[i].on >> slot & 1) != 0)
            return true;
    return false;
}

/* ---- the calls ---- */

enum err
history_reconcile(struct disks *ds, const struct disks_key *k, const struct places *p,
                  uint64_t damaged, struct reconciled *done, bool *early,
                  struct errbuf *eb)
{
    struct history h = {0};
    enum err rc = p->unreachable ? err_unreachable(eb) : gather(ds, k, p, &h, eb);

    assert(p->placed > 0);
    assert(p->placed <= p->count);
    *early = false;
    for (unsigned i = 0; rc == ERR_OK && i < p->placed; i++)
        rc = history_copy_all(ds, k, &h, p->at[i], damaged, done, eb);
    if (rc == ERR_OK)
        rc = end_all(ds, k, p, &h, done, eb);
    if (rc == ERR_OK && p->count > p->placed && !all_durable(ds, p, &h)) {
        *early = true;
        rc = err_set(eb, ERR_BUSY, "its copies are not durable yet");
    }
    for (unsigned i = p->placed; rc == ERR_OK && i < p->count; i++)
        rc = history_remove(ds, k, p->at[i], done, eb);
    free(h.at);
    return rc;
}

enum err
history_copy_to_owner(struct disks *ds, const struct disks_key *k, unsigned to,
                      uint64_t also, struct errbuf *eb)
{
    struct reconciled done = {0};
    struct history h = {0};
    struct places p;
    enum err rc;

    assert(to < atomic_load(&ds->slot_count));
    places_of(ds, k, &p);
    rc = gather(ds, k, &p, &h, eb);
    if (rc == ERR_OK)
        rc = history_copy_all(ds, k, &h, to, 0, &done, eb);
    for (unsigned i = 0; rc == ERR_OK && i < p.count; i++)
        if (p.at[i] != to && ((also >> p.at[i] & 1) != 0 || has_any(&h, p.at[i])) &&
            replica_state(&ds->slots[p.at[i]]) != REPLICA_FROZEN &&
            history_copy_all(ds, k, &h, p.at[i], 0, &done, NULL) != ERR_OK)
            repair_later(ds, k, p.at[i]);
    if (rc == ERR_OK)
        rc = end_all(ds, k, &p, &h, &done, eb);
    free(h.at);
    return rc;
}

/* ---- the current one ---- */

/* Finds the newest version of the key on one disk that is older than `before`. */
static enum err
newest_before(struct disks *ds, const struct store_key *k, unsigned slot,
              const struct version *before, struct arena *a, struct entry *out,
              struct errbuf *eb)
{
    struct replica *d = replica_enter(ds, slot);
    struct store_version *found;
    uint32_t count;
    bool more;
    enum err rc;

    assert(slot < atomic_load(&ds->slot_count));
    if (d == NULL)
        return err_unreachable(eb);
    arena_reset(a);
    rc = replica_version_list(d, k->bucket, k->key, before == NULL, before, 1, a, &found,
                              &count, &more, eb);
    replica_leave(d);
    if (rc != ERR_OK)
        return rc;
    if (count == 0 || !span_eq(found[0].key, k->key))
        return ERR_NOT_FOUND;
    *out = found[0].entry;
    out->place.disk = (uint16_t)slot;
    return ERR_OK;
}

/* The same over all disks. *incomplete: one did not answer. */
static bool
newest_of_all(struct disks *ds, const struct disks_key *k, const struct version *before,
              struct arena *a, struct entry *out, bool *incomplete)
{
    struct places p;
    bool found = false;

    places_of(ds, k, &p);
    *incomplete = p.unreachable;
    for (unsigned i = 0; i < p.count; i++) {
        struct entry entry;
        enum err rc = newest_before(ds, &k->at, p.at[i], before, a, &entry, NULL);
        struct version born, best;
        int c;

        *incomplete |=
            rc != ERR_OK && rc != ERR_NOT_FOUND && !replica_is_removed(ds, p.at[i]);
        if (rc != ERR_OK)
            continue;
        born = entry_born(&entry);
        best = entry_born(out);
        c = found ? version_order(&born, &best) : 1;
        if (c < 0 || (c == 0 && version_order(&entry.version, &out->version) <= 0))
            continue;
        *out = entry;
        found = true;
    }
    return found;
}

enum err
history_current(struct disks *ds, const struct disks_key *k, struct entry *out,
                struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(4), SCRATCH_MAX);
    struct version before, as;
    bool incomplete = false, found = true, begun = false;
    unsigned tries = 0;

    while (found) {
        uint64_t removals = atomic_load(&ds->removals);

        *out = (struct entry){0};
        found = newest_of_all(ds, k, begun ? &before : NULL, a, out, &incomplete);
        if (atomic_load(&ds->removals) != removals && tries++ < TRIES_MAX) {
            found = true; /* a version moved past this look-up */
            continue;
        }
        if (!found || !version_tombstone_find(ds, k, out, &as))
            break;
        before = entry_born(out);
        begun = true;
    }
    arena_free(&a);
    out->flags &= ~ENTRY_PREPARED;
    if (found)
        return ERR_OK;
    return incomplete ? err_unreachable(eb)
                      : err_set(eb, ERR_NOT_FOUND, "the version was deleted");
}
