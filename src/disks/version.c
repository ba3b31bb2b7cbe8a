/* Versions of keys, delete markers and metadata, over all disks: the owner checks and commits,
 * the copies follow. */
#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "disks/history.h"
#include "disks/internal.h"
#include "disks/rebalance.h"
#include "disks/version_tombstone.h"
#include "rt/fiber.h"

#define PAGE_TRIES 8u

/* One change on one replica. `as` NULL: the replica checks preconditions and assigns the
 * version, *decided. */
typedef enum err version_fn(struct replica *d, const struct store_key *k, void *arg,
                            const struct version *as, struct version *decided,
                            struct errbuf *eb);

/* False: the replica did not follow; a repair fixes it later. */
static bool
follow(struct disks *ds, const struct disks_key *k, unsigned slot, version_fn *fn,
       void *arg, const struct version *as)
{
    struct replica *d = replica_enter(ds, slot);
    struct version decided;
    struct errbuf eb = {{0}};
    enum err rc = fn(d, &k->at, arg, as, &decided, &eb);

    assert(slot < atomic_load(&ds->slot_count));
    assert(as != NULL);
    replica_leave(d);
    if (rc == ERR_OK || rc == ERR_NOT_FOUND)
        return true;
    LOG(LOG_WARN, "disks.version", eb.text, L_SPAN("key", k->at.key));
    if (set_diverge(ds, &eb) != ERR_OK)
        LOG(LOG_WARN, "disks.list", eb.text, L_U64("slot", slot));
    repair_later(ds, k, slot);
    return false;
}

static version_fn mark_on, delete_on, set_meta_on;
static enum err remember_before(struct disks *ds, const struct disks_key *k,
                                const struct places *p, bool incomplete, void *arg,
                                struct version *null_born, struct errbuf *eb);
static enum err remember_end(struct disks *ds, const struct disks_key *k,
                             const struct places *p, const void *arg,
                             const struct version *as, struct errbuf *eb);

/* Applies a change: the owner checks and commits, the others follow. Before a version ends it
 * writes the tombstones that other replicas need, and drops them once every replica has the end.
 * *missed: some replica may not have it. */
static enum err
change_on_reached(struct disks *ds, const struct disks_key *k, const struct places *p,
                  unsigned told, bool locked, version_fn *fn, void *arg, bool *missed,
                  struct errbuf *eb)
{
    struct version decided = {0}, replaced = {0};
    bool incomplete = locked || any_replica_unreachable(ds), ends = fn == delete_on;
    struct places marked = *p;
    struct replica *owner = replica_enter(ds, p->at[0]);
    enum err rc = owner != NULL ? ERR_OK : err_unreachable(eb);

    assert(told >= 1);
    assert(told <= p->count);
    marked.count = incomplete ? p->count : 1;
    if (rc == ERR_OK && ends && (incomplete || told > 1))
        rc = remember_before(ds, k, &marked, incomplete, arg, &replaced, eb);
    if (rc == ERR_OK)
        rc = fn(owner, &k->at, arg, NULL, &decided, eb);
    replica_leave(owner);
    for (unsigned i = 1; rc == ERR_OK && i < told; i++)
        incomplete |= !follow(ds, k, p->at[i], fn, arg, &decided);
    incomplete |= any_replica_unreachable(ds);
    if (rc == ERR_OK && ends && incomplete)
        rc = remember_end(ds, k, p, arg, &decided, eb);
    if (replaced.epoch != 0 && !incomplete)
        version_tombstone_drop_nulls(ds, k, p->at[0], &replaced);
    *missed = incomplete;
    return rc;
}

static enum err
change_on_places(struct disks *ds, const struct disks_key *k, bool locked, version_fn *fn,
                 void *arg, bool *missed, struct errbuf *eb)
{
    struct places p;
    uint64_t targets = 0;
    unsigned told;
    enum err rc;

    places_of_change(ds, k, locked, &p);
    if (p.placed == 0)
        return err_unreachable(eb);
    /* A marker goes to disks with versions of the key, or to those that should have the key. No
     * pass would remove it from others. */
    told = locked && (fn != mark_on || p.with > 0) ? p.count : p.placed;
    for (unsigned i = 0; i < MIN(told, p.placed); i++)
        targets |= (uint64_t)1 << p.at[i];
    rc = locked ? copy_to_owner(ds, k, p.at[0], targets, eb) : ERR_OK;
    return rc == ERR_OK ? change_on_reached(ds, k, &p, told, locked, fn, arg, missed, eb)
                        : rc;
}

static enum err
version_change(struct disks *ds, const struct disks_key *k, version_fn *fn, void *arg,
               struct errbuf *eb)
{
    struct key_change change = key_change_begin(ds, k);
    bool missed = false;
    enum err rc = bucket_takes(ds, k->at.bucket, eb);

    if (rc == ERR_OK)
        rc = change_on_places(ds, k, change.locked, fn, arg, &missed, eb);
    key_change_end(&change);
    /* A disk has missed new tags. A delete of this version may have begun while no disk was
     * missing; it writes its tombstone last. If power failed before that, the disk would restore
     * the version with its old tags. So wait for such deletes. */
    if (rc == ERR_OK && missed && fn == set_meta_on)
        rc = unlocked_before_end(ds, eb);
    return rc;
}

/* ---- the three changes ---- */

struct marking {
    enum store_versioning versioning;
    const struct store_condition *condition;
    struct entry *marker;
};

static enum err
mark_on(struct replica *d, const struct store_key *k, void *arg, const struct version *as,
        struct version *decided, struct errbuf *eb)
{
    struct marking *m = arg;
    struct entry entry = as != NULL ? *m->marker : (struct entry){0};
    enum err rc = replica_delete_mark(d, k, m->versioning, m->condition, as, &entry, eb);

    if (rc == ERR_OK && as == NULL) {
        *m->marker = entry;
        *decided = entry.version;
    }
    return rc;
}

enum err
disks_delete_mark(struct disks *ds, const struct disks_key *k,
                  enum store_versioning versioning, const struct store_condition *c,
                  struct entry *marker, struct errbuf *eb)
{
    struct marking m = {versioning, c, marker};

    return version_change(ds, k, mark_on, &m, eb);
}

struct ending {
    const struct version *born; /* NULL: the null version, whichever exists */
    const struct store_condition *condition;
    struct entry *was;
    struct version null_born; /* birth of the null version, if other disks have it too */
};

static enum err
delete_on(struct replica *d, const struct store_key *k, void *arg,
          const struct version *as, struct version *decided, struct errbuf *eb)
{
    struct ending *e = arg;
    struct entry was;
    enum err rc =
        replica_version_delete(d, k, e->born, e->condition, as, &was, decided, eb);

    if (rc == ERR_OK && as == NULL)
        *e->was = was;
    return rc;
}

/* Writes, before a null version ends, a tombstone for the null versions that it replaced. A copy
 * may lose their replacement in a power cut before it receives the end, since the commit of a
 * prepared version is not synced. A disk that is away never received it. The tombstone is right
 * whether or not the end follows. */
static enum err
remember_replaced(struct disks *ds, const struct disks_key *k, const struct places *p,
                  struct ending *e, const struct entry *entry, struct version *null_born,
                  struct errbuf *eb)
{
    assert(entry_is_null_version(entry));

    e->null_born = *null_born = entry_born(entry);
    e->born = &e->null_born; /* exactly this one, not a later replacement */
    return version_tombstone_put_nulls(ds, k, p, null_born, eb);
}

/* Makes durable what must precede the end of a version on the owner. If a replica is
 * unreachable, this includes a tombstone of the version. Otherwise a power cut between the
 * owner's end and its tombstone would let a disk that missed the latest tags restore the version
 * without them. With the tombstone the version has ended, whether or not the end follows; so
 * none is written if the owner would reject the end. */
static enum err
remember_before(struct disks *ds, const struct disks_key *k, const struct places *p,
                bool incomplete, void *arg, struct version *null_born, struct errbuf *eb)
{
    struct ending *e = arg;
    struct replica *d = replica_enter(ds, p->at[0]);
    struct entry entry = {0};
    struct version born;
    bool current;
    enum err rc = replica_version_find(d, &k->at, e->born, &entry, &current, eb);

    assert(p->count > 0);
    replica_leave(d);
    if (rc == ERR_NOT_FOUND)
        return ERR_OK; /* the owner returns the error */
    born = entry_born(&entry);
    if (rc == ERR_OK && entry_is_null_version(&entry))
        rc = remember_replaced(ds, k, p, e, &entry, null_born, eb);
    if (rc == ERR_OK && incomplete &&
        store_condition_check(e->condition, &entry, NULL) == ERR_OK)
        rc = version_tombstone_put(ds, k, p, &born, NULL, eb);
    return rc;
}

/* Writes the tombstone of an ended version, because a replica that could have the version did
 * not receive its end. */
static enum err
remember_end(struct disks *ds, const struct disks_key *k, const struct places *p,
             const void *arg, const struct version *as, struct errbuf *eb)
{
    const struct ending *e = arg;
    struct version born = entry_born(e->was);
    enum err rc = version_tombstone_put(ds, k, p, &born, as, eb);

    assert(as->epoch != 0);
    if (rc == ERR_OK && entry_is_null_version(e->was))
        rc = version_tombstone_put_nulls(ds, k, p, as, eb);
    return rc;
}

enum err
disks_version_delete(struct disks *ds, const struct disks_key *k,
                     const struct version *born, const struct store_condition *c,
                     struct entry *was, struct errbuf *eb)
{
    struct rt_retries retries;
    struct ending e;
    enum err rc;

    rt_retries_begin(&retries);
    do {
        e = (struct ending){.born = born, .condition = c, .was = was};
        rc = version_change(ds, k, delete_on, &e, eb);
    } while (rc == ERR_NOT_FOUND && e.born != born && rt_retry());
    rt_retries_end(&retries);
    return rc;
}

struct describing {
    const struct version *born;
    const struct object_meta *meta;
    const struct store_condition *condition;
    struct entry *out;
};

static enum err
set_meta_on(struct replica *d, const struct store_key *k, void *arg,
            const struct version *as, struct version *decided, struct errbuf *eb)
{
    struct describing *m = arg;
    struct entry entry;
    enum err rc = replica_set_meta(d, k, m->born, m->meta, m->condition, as, &entry, eb);

    if (rc == ERR_OK && as == NULL) {
        *m->out = entry;
        *decided = entry.version;
    }
    return rc;
}

enum err
disks_set_meta(struct disks *ds, const struct disks_key *k, const struct version *born,
               const struct object_meta *meta, const struct store_condition *c,
               struct entry *out, struct errbuf *eb)
{
    struct describing m = {born, meta, c, out};

    return version_change(ds, k, set_meta_on, &m, eb);
}

/* ---- reading ---- */

/* Finds a version on any disk, with the newest metadata; for null versions (`born` NULL) the
 * newest one. *current: as that disk reports it. */
static enum err
find_on_any(struct disks *ds, const struct disks_key *k, const struct version *born,
            struct entry *out, bool *current, struct errbuf *eb)
{
    struct places p;
    bool found = false, incomplete;

    places_of(ds, k, &p);
    incomplete = p.unreachable;
    for (unsigned i = 0; i < p.count; i++) {
        struct replica *d = replica_enter(ds, p.at[i]);
        struct entry entry = {0};
        struct version a, b;
        bool now = false;
        int c = 1;
        enum err rc = replica_version_find(d, &k->at, born, &entry, &now, eb);

        replica_leave(d);
        if (rc != ERR_OK && rc != ERR_NOT_FOUND && p.count == 1 && !p.unreachable)
            return rc; /* there is no other replica */
        incomplete |= rc != ERR_OK && rc != ERR_NOT_FOUND;
        if (rc == ERR_OK && found) {
            a = entry_born(&entry);
            b = entry_born(out);
            c = version_order(&a, &b);
            c = c == 0 ? version_order(&entry.version, &out->version) : c;
        }
        if (rc != ERR_OK || c <= 0)
            continue;
        entry.flags &= ~ENTRY_PREPARED;
        *out = entry;
        out->place.disk = p.at[i];
        *current = now;
        found = true;
        if (atomic_load_explicit(&ds->converged, memory_order_acquire))
            break;
    }
    if (found)
        return ERR_OK;
    return incomplete ? err_unreachable(eb)
                      : err_set(eb, ERR_NOT_FOUND, "there is no such version");
}

/* True if a newer null version exists, which replaced this one. */
static bool
is_replaced(struct disks *ds, const struct disks_key *k, const struct entry *entry)
{
    struct version born = entry_born(entry), other;
    struct entry newest;
    bool current;

    if (!entry_is_null_version(entry) ||
        find_on_any(ds, k, NULL, &newest, &current, NULL) != ERR_OK)
        return false;
    other = entry_born(&newest);
    return version_order(&other, &born) > 0;
}

/* Corrects the result while disks have missed changes: an ended version counts as absent, and
 * all disks decide which version is current. */
static enum err
check_found(struct disks *ds, const struct disks_key *k, const struct entry *entry,
            bool *current, struct errbuf *eb)
{
    struct version as, born = entry_born(entry), now;
    struct entry newest;
    enum err rc;

    if (version_tombstone_find(ds, k, entry, &as) || is_replaced(ds, k, entry))
        return err_set(eb, ERR_NOT_FOUND, "the version was deleted");
    if ((entry->flags & ENTRY_HISTORY) == 0 && *current)
        return ERR_OK;
    rc = history_current(ds, k, &newest, eb);
    now = entry_born(&newest);
    *current = rc == ERR_OK && version_order(&now, &born) == 0;
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

enum err
disks_version_find(struct disks *ds, const struct disks_key *k,
                   const struct version *born, struct entry *out, bool *current,
                   struct errbuf *eb)
{
    struct rt_retries retries;
    uint64_t removals;
    enum err rc;

    rt_retries_begin(&retries);
    do {
        removals = atomic_load(&ds->removals);
        rc = find_on_any(ds, k, born, out, current, eb);
    } while (rc == ERR_NOT_FOUND && atomic_load(&ds->removals) != removals && rt_retry());
    rt_retries_end(&retries);
    if (rc == ERR_OK && !atomic_load_explicit(&ds->converged, memory_order_acquire))
        rc = check_found(ds, k, out, current, eb);
    return rc;
}

enum err
disks_object_parts(struct disks *ds, const struct entry *entry, struct arena *a,
                   struct store_object_part **out, uint32_t *count, struct errbuf *eb)
{
    struct replica *r = replica_enter(ds, entry->place.disk);
    enum err rc = replica_object_parts(r, entry, a, out, count, eb);

    replica_leave(r);
    return rc;
}

/* By key; newest first within a key. */
static int
version_cmp(const void *x, const void *y)
{
    const struct store_version *a = x, *b = y;
    struct version born_a = entry_born(&a->entry), born_b = entry_born(&b->entry);
    int c = span_cmp(a->key, b->key);

    return c != 0 ? c : version_order(&born_b, &born_a);
}

static void
merge_versions(struct pages *p, uint32_t max, struct span after_key, bool resumes,
               struct store_version *out, uint32_t *count, bool *more)
{
    struct store_version v;

    assert(*count <= max);
    while (*count < max && pages_next(p, &v)) {
        struct span before = *count > 0 ? out[*count - 1].key
                             : resumes  ? after_key
                                        : (struct span){"", 0};

        /* A disk that missed the newest version reports an older one as the latest. */
        v.latest = v.latest && (before.len == 0 || !span_eq(before, v.key));
        out[(*count)++] = v;
    }
    *more = pages_left(p);
}

/* Removes versions that a returning disk lists although they have ended, or were replaced as the
 * null version. *before: the item before the page was the latest of the same key, and was
 * removed. */
static void
drop_deleted(struct disks *ds, uint64_t bucket, struct store_version *at, uint32_t *count,
             bool *before)
{
    uint32_t kept = 0;
    bool latest = *before;

    assert(bucket != 0);
    for (uint32_t i = 0; i < *count; i++) {
        struct disks_key k = {.at = {.bucket = bucket, .key = at[i].key}};
        struct version as;

        if (i > 0 && !span_eq(at[i].key, at[i - 1].key))
            latest = false;
        if (version_tombstone_find(ds, &k, &at[i].entry, &as) ||
            is_replaced(ds, &k, &at[i].entry)) {
            latest = latest || at[i].latest;
            continue;
        }
        at[i].latest = at[i].latest || latest;
        latest = false;
        at[kept++] = at[i];
    }
    *count = kept;
    *before = latest;
}

/* Where a listing continues. */
struct cursor {
    struct span key;
    bool inclusive;
    const struct version *after;
};

static enum err
page_of_all(struct disks *ds, uint64_t bucket, const struct cursor *from, uint32_t max,
            struct arena *a, struct store_version *out, uint32_t *count, bool *more,
            struct errbuf *eb)
{
    struct pages *p = pages_new(a, sizeof *out, version_cmp);

    if (p == NULL)
        return err_set(eb, ERR_BUSY, "no memory for a page of %u versions", max);
    for (struct replica_walk w = replica_walk(ds); replica_walk_next(&w);) {
        struct store_version *found = NULL;
        uint32_t n = 0;
        bool rest = false;
        enum err rc = replica_version_list(w.at, bucket, from->key, from->inclusive,
                                           from->after, max, a, &found, &n, &rest, eb);

        if (rc != ERR_OK) {
            replica_walk_end(&w);
            return rc;
        }
        pages_add(p, found, n, rest);
    }
    merge_versions(p, max, from->key, from->after != NULL, out, count, more);
    return ERR_OK;
}

/* Repeats the page if an object moved past the listing. */
static enum err
still_page(struct disks *ds, uint64_t bucket, const struct cursor *from, uint32_t max,
           struct arena *a, struct store_version *out, uint32_t *count, bool *more,
           struct errbuf *eb)
{
    uint64_t removals;
    unsigned tries = 0;
    enum err rc;

    do {
        removals = atomic_load(&ds->removals);
        *count = 0;
        *more = false;
        rc = page_of_all(ds, bucket, from, max, a, out, count, more, eb);
    } while (rc == ERR_OK && atomic_load(&ds->removals) != removals &&
             tries++ < PAGE_TRIES);
    return rc;
}

enum err
disks_version_list(struct disks *ds, uint64_t bucket, unsigned copies,
                   struct span after_key, bool inclusive, const struct version *after,
                   uint32_t max, struct arena *a, struct store_version **out,
                   uint32_t *count, bool *more, struct errbuf *eb)
{
    struct cursor from = {after_key, inclusive, after};
    struct version last;
    bool latest = false;
    enum err rc;

    assert(max > 0);
    *count = 0;
    *more = false;
    if (listing_incomplete(ds, copies))
        return err_unreachable(eb);
    *out = arena_try(a, (max + 1) * sizeof **out);
    if (*out == NULL)
        return err_set(eb, ERR_BUSY, "no memory for a page of %u versions", max);
    for (;;) {
        rc = still_page(ds, bucket, &from, max, a, *out, count, more, eb);
        if (rc == ERR_OK &&
            listing_incomplete(ds, copies)) /* a disk left before it was read */
            return err_unreachable(eb);
        if (rc != ERR_OK || *count == 0)
            return rc;
        latest = latest && span_eq((*out)[0].key, from.key);
        last = entry_born(&(*out)[*count - 1].entry);
        from = (struct cursor){(*out)[*count - 1].key, false, &last};
        if (!atomic_load_explicit(&ds->converged, memory_order_acquire))
            drop_deleted(ds, bucket, *out, count, &latest);
        if (*count > 0 || !*more)
            return ERR_OK; /* otherwise the whole page had ended */
    }
}
