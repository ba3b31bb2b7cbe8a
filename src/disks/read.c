/* Look-ups and reads. They avoid disks that are unreachable, damaged or slow. */
#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "disks/history.h"
#include "disks/internal.h"
#include "disks/rebalance.h"
#include "disks/version_tombstone.h"
#include "rt/fiber.h"
#include "rt/point.h"

static bool
same_content(const struct entry *a, const struct entry *b)
{
    return memcmp(&a->content, &b->content, sizeof a->content) == 0;
}

/* ---- looking up ---- */

/* One round over every slot. The look-ups may switch, so it can miss an object that moves
 * meanwhile. *history: a disk has versions of the key. */
static enum err
lookup_ask_all(struct disks *ds, const struct disks_key *k, const struct places *p,
               struct entry *out, bool *history, struct errbuf *eb)
{
    bool found = false, incomplete = p->unreachable, prepared = false;

    assert(p->placed <= p->count);
    assert(p->count <= DISKS_MAX);
    for (unsigned i = 0; i < p->count; i++) {
        struct replica *d = replica_enter(ds, p->at[i]);
        struct entry entry;
        enum err rc = replica_lookup_any(d, &k->at, &entry, eb);

        replica_leave(d);
        if (d == NULL && replica_is_removed(ds, p->at[i]))
            continue;
        if (rc != ERR_OK && rc != ERR_NOT_FOUND) {
            incomplete = true;
            continue;
        }
        prepared |= (entry.flags & ENTRY_PREPARED) != 0;
        *history |= rc == ERR_OK && (entry.flags & ENTRY_HISTORY) != 0;
        if (rc != ERR_OK || (found && version_order(&entry.version, &out->version) <= 0))
            continue;
        entry.flags &= ~ENTRY_PREPARED;
        *out = entry;
        out->place.disk = p->at[i];
        found = true;
    }
    /* The write is in doubt: its coordinator is unreachable. It is resolved soon (prepared.c). */
    if (prepared && incomplete)
        return err_unreachable(eb);
    if (found)
        return ERR_OK;
    return incomplete ? err_unreachable(eb)
                      : err_set(eb, ERR_NOT_FOUND, "there is no such object");
}

static enum err
ask_until_still(struct disks *ds, const struct disks_key *k, struct entry *out,
                bool *history, struct errbuf *eb)
{
    struct rt_retries retries;
    uint64_t removals;
    bool still;
    enum err rc;

    rt_retries_begin(&retries);
    do {
        struct places p;

        removals = atomic_load(&ds->removals);
        places_of(ds, k, &p);
        POINT(PLACES_CHOSEN);
        *history = false;
        rc = lookup_ask_all(ds, k, &p, out, history, eb);
        still = rc != ERR_NOT_FOUND || atomic_load(&ds->removals) == removals;
    } while (!still && rt_retry());
    rt_retries_end(&retries);
    return still ? rc
                 : err_set(eb, ERR_BUSY,
                           "objects are relocated faster than they can be looked up");
}

enum err
lookup_all(struct disks *ds, const struct disks_key *k, struct entry *out,
           struct errbuf *eb)
{
    bool history;
    enum err rc = ask_until_still(ds, k, out, &history, eb);

    /* If a disk missed the last change, the highest entry is not the newest version. */
    if (rc == ERR_OK && (history || version_tombstone_find_plain(ds, k, out))) {
        struct entry newest;

        rc = history_current(ds, k, &newest, eb);
        if (rc == ERR_OK)
            *out = newest;
        else if (
            rc ==
            ERR_NOT_FOUND) /* the present version has ended; a replica has not received that */
            *out = (struct entry){.flags = ENTRY_TOMBSTONE | ENTRY_MARKER,
                                  .place.disk = out->place.disk};
        else
            return rc;
        rc = ERR_OK;
    }
    return rc;
}

void
places_of_change(struct disks *ds, const struct disks_key *k, bool guarded,
                 struct places *out)
{
    uint8_t with[DISKS_MAX], without[DISKS_MAX];
    unsigned with_count = 0, without_count = 0;

    places_of(ds, k, out);
    if (!guarded)
        return;
    for (unsigned i = 0; i < out->count; i++) {
        struct replica *d = replica_enter(ds, out->at[i]);
        struct entry entry;
        enum err rc = replica_lookup_any(d, &k->at, &entry, NULL);

        replica_leave(d);
        if (rc == ERR_OK && (entry.flags & ENTRY_HISTORY) != 0 &&
            replica_state(&ds->slots[out->at[i]]) != REPLICA_FROZEN)
            with[with_count++] = out->at[i];
        else
            without[without_count++] = out->at[i];
    }
    out->with = with_count;
    if (with_count == 0)
        return;
    memcpy(out->at, with, with_count);
    memcpy(out->at + with_count, without, without_count);
    out->count = MAX(with_count, out->placed);
}

/* Reads the entry of the key's owner. ERR_UNAVAILABLE: read the other replicas as well. */
static enum err
lookup_at_owner(struct disks *ds, const struct disks_key *k, struct entry *out,
                struct errbuf *eb)
{
    struct places p;
    struct replica *owner;
    enum err rc;

    places_of(ds, k, &p);
    owner = p.count > 0 ? replica_enter(ds, p.at[0]) : NULL;
    rc = replica_lookup(owner, &k->at, out, eb);
    replica_leave(owner);
    if (rc == ERR_OK) {
        out->place.disk = p.at[0];
        out->flags &= ~ENTRY_PREPARED;
    }
    if (rc == ERR_OK || (rc == ERR_NOT_FOUND && !p.unreachable) || is_sole(ds))
        return rc; /* a sole replica's error is final */
    return rc == ERR_NOT_FOUND ? err_unreachable(eb) : ERR_UNAVAILABLE;
}

/* A change of the key is lost on some of its disks. Of a converged set the others have every acknowledged write, as
 * object or as prepared version: if none of them knows the key, it is not there. */
static bool
is_absent_on_the_others(struct disks *ds, const struct disks_key *k)
{
    unsigned absent = 0, suspect = 0;
    struct places p;

    if (!atomic_load_explicit(&ds->converged, memory_order_acquire))
        return false;
    places_of(ds, k, &p);
    for (unsigned i = 0; i < p.placed; i++) {
        struct replica *d = replica_enter(ds, p.at[i]);
        struct entry entry = {0};
        enum err rc = replica_lookup_any(d, &k->at, &entry, NULL);

        suspect += rc == ERR_CORRUPT && d->store != NULL &&
                   store_key_is_suspect(d->store, &k->at);
        absent += rc == ERR_NOT_FOUND && (entry.flags & ENTRY_PREPARED) == 0;
        replica_leave(d);
    }
    return suspect > 0 && absent > 0 && absent + suspect == p.placed &&
           atomic_load_explicit(&ds->converged, memory_order_acquire);
}

enum err
disks_lookup(struct disks *ds, const struct disks_key *k, struct entry *out,
             struct errbuf *eb)
{
    enum err rc = ERR_UNAVAILABLE;

    if (atomic_load_explicit(&ds->converged, memory_order_acquire)) {
        rc = lookup_at_owner(ds, k, out, eb);
        if (rc == ERR_OK || rc == ERR_NOT_FOUND || is_sole(ds))
            return rc;
    }
    rc = lookup_all(ds, k, out, eb);
    if ((rc == ERR_OK && (out->flags & ENTRY_TOMBSTONE) != 0) ||
        (rc == ERR_UNAVAILABLE && is_absent_on_the_others(ds, k)))
        return err_set(eb, ERR_NOT_FOUND, "the object was deleted");
    return rc;
}

/* ---- copies of an entry ---- */

/* Finds another slot with the same content, not one of `tried`, and its entry. False: none. */
static bool
other_copy(struct disks *ds, const struct disks_key *k, const struct entry *entry,
           uint64_t tried, struct entry *out)
{
    struct version born = entry_born(entry);
    struct places p;
    bool current;

    places_of(ds, k, &p);
    for (unsigned i = 0; i < p.count; i++) {
        struct replica *d;
        enum err rc;

        if ((tried >> p.at[i] & 1) != 0 || (d = replica_enter(ds, p.at[i])) == NULL)
            continue;
        rc = (entry->flags & ENTRY_HISTORY) == 0 ? replica_lookup(d, &k->at, out, NULL)
                                                 : ERR_NOT_FOUND;
        if (rc != ERR_OK ||
            !same_content(entry, out)) /* an older one; also one from before versioning */
            rc = replica_version_find(d, &k->at, &born, out, &current, NULL);
        replica_leave(d);
        out->place.disk = p.at[i];
        out->flags &= ~ENTRY_PREPARED;
        if (rc == ERR_OK && same_content(entry, out))
            return true;
    }
    return false;
}

static bool
is_trouble(enum err rc)
{
    return rc == ERR_IO || rc == ERR_CORRUPT || rc == ERR_NOT_FOUND ||
           rc == ERR_UNAVAILABLE || rc == ERR_TIMEOUT;
}

static bool
is_slow(struct disks *ds, unsigned i, enum hedge_kind kind)
{
    struct store_health h;
    struct replica *d;

    assert(i < atomic_load(&ds->slot_count));
    if (hedge_avoids(ds, i, kind))
        return true;
    d = replica_enter(ds, i);
    if (d == NULL)
        return true;
    store_health(d->store, &h);
    replica_leave(d);
    return h.state == STORE_SLOW;
}

/* Chooses the first copy to read: the entry's own, or another one if only the former's disk is
 * slow. */
static struct entry
choose_copy(struct disks *ds, const struct disks_key *k, const struct entry *entry,
            enum hedge_kind kind)
{
    struct entry other;

    if (k->copies > 1 && is_slow(ds, entry->place.disk, kind) &&
        other_copy(ds, k, entry, (uint64_t)1 << entry->place.disk, &other) &&
        !is_slow(ds, other.place.disk, kind))
        return other;
    return *entry;
}

/* A read with a deadline after which another copy is read (`hurry`), and its time. Unused on a
 * sole replica. */
struct timed {
    struct disks *ds;
    unsigned slot;
    enum hedge_kind kind;
    struct deadline late;
    uint64_t begun; /* 0: not measured */
    struct rt_scope scope;
};

static void
timed_begin(struct timed *t, struct disks *ds, unsigned slot, enum hedge_kind kind,
            bool hurry, bool again)
{
    t->begun = 0;
    if (is_sole(ds))
        return;
    t->ds = ds;
    t->slot = slot;
    t->kind = kind;
    t->late = hurry ? hedge_begin(ds, kind, again) : DEADLINE_NEVER;
    t->begun = rt_now_ns();
    rt_scope_begin(&t->scope, t->late);
}

/* `counts`: the time says something about the disk. */
static void
timed_end(struct timed *t, enum err rc, bool counts)
{
    if (t->begun == 0)
        return;
    rt_scope_end(&t->scope);
    if (rc == ERR_TIMEOUT && deadline_passed(t->late))
        hedge_late(t->ds, t->slot, t->kind, rt_now_ns() - t->begun);
    if (rc == ERR_OK && counts)
        hedge_took(t->ds, t->slot, t->kind, rt_now_ns() - t->begun);
}

/* Reads one copy's metadata, until the deadline for another copy. */
static enum err
meta_from_copy(struct disks *ds, const struct disks_key *k, const struct entry *at,
               bool hurry, bool again, struct arena *a, struct object_meta *out,
               struct errbuf *eb)
{
    struct replica *r = replica_enter(ds, at->place.disk);
    struct timed t;
    enum err rc;

    assert(at->place.disk < atomic_load(&ds->slot_count));
    timed_begin(&t, ds, at->place.disk, HEDGE_SMALL, hurry, again);
    rc = replica_meta(r, &k->at, at, a, out, eb);
    timed_end(&t, rc, true);
    replica_leave(r);
    return rc;
}

enum err
disks_meta(struct disks *ds, const struct disks_key *k, const struct entry *entry,
           struct arena *a, struct object_meta *out, struct errbuf *eb)
{
    struct entry at = choose_copy(ds, k, entry, HEDGE_SMALL), late = at;
    bool hurry = k->copies > 1;
    uint64_t tried = 0, slow = 0; /* slow: bits of disks that missed the deadline */
    struct errbuf first;          /* set with first_rc */
    enum err first_rc = ERR_OK;

    for (;;) {
        enum err rc = meta_from_copy(ds, k, &at, hurry, tried != 0, a, out, eb);

        if (!is_trouble(rc) || rt_cancelled())
            return rc;
        if (hurry && rc == ERR_TIMEOUT) {
            slow |= (uint64_t)1 << at.place.disk;
            late = at;
        }
        if (first_rc == ERR_OK || first_rc == ERR_TIMEOUT) {
            first_rc = rc;
            if (eb != NULL)
                first = *eb;
        }
        if (rc == ERR_CORRUPT || rc == ERR_IO)
            repair_later(ds, k, at.place.disk);
        tried |= (uint64_t)1 << at.place.disk;
        if (other_copy(ds, k, entry, tried, &at))
            continue;
        if (!hurry || slow == 0) {
            if (eb != NULL)
                *eb = first;
            return first_rc;
        }
        /* No copy answered within its deadline: give one that was only slow more time. A look-up
         * does not find it again if it was overwritten since. */
        tried &= ~slow;
        at = late;
        hurry = false;
    }
}

/* ---- reading ---- */

static void
leave_copy(struct disks_reader *r)
{
    assert((r->from == NULL) == (r->copy == NULL));
    if (r->from == NULL)
        return;
    r->copy->ops->read_end(&r->from);
    replica_leave(r->copy);
    r->copy = NULL;
}

static enum err
open_copy(struct disks_reader *r, struct errbuf *eb)
{
    struct replica *copy = replica_enter(r->disks, r->entry.place.disk);
    enum err rc;

    assert(r->from == NULL);
    if (copy == NULL)
        return err_unreachable(eb);
    rc = copy->ops->read_begin(copy, &r->key.at, &r->entry, r->at, r->left, &r->from, eb);
    r->fresh = true;
    if (rc == ERR_OK)
        r->copy = copy;
    else
        replica_leave(copy);
    return rc;
}

/* Continues with another copy. False: none can be opened; then a copy that was only late stays
 * open. It pins the body: once an overwrite has replaced this version, no look-up finds it again. */
static bool
read_around(struct disks_reader *r, enum err why)
{
    struct disks_reader late = {0};
    struct entry next;

    assert(why != ERR_OK);
    if (why == ERR_CORRUPT || why == ERR_IO)
        repair_later(r->disks, &r->key, r->entry.place.disk);
    if (why != ERR_TIMEOUT)
        leave_copy(r);
    late.copy = r->copy;
    late.from = r->from;
    late.entry = r->entry;
    r->copy = NULL;
    r->from = NULL;
    for (;;) {
        r->tried |= (uint64_t)1 << r->entry.place.disk;
        if (!other_copy(r->disks, &r->key, &late.entry, r->tried, &next))
            break;
        r->entry = next;
        if (open_copy(r, NULL) == ERR_OK) {
            leave_copy(&late);
            return true;
        }
    }
    r->copy = late.copy;
    r->from = late.from;
    r->entry = late.entry;
    return false;
}

enum err
disks_read_begin(struct disks *ds, const struct disks_key *k, const struct entry *entry,
                 uint64_t offset, uint64_t len, struct disks_reader *r, struct errbuf *eb)
{
    enum err rc;

    *r = (struct disks_reader){.disks = ds,
                               .key = *k,
                               .entry = choose_copy(ds, k, entry, hedge_kind_of(len)),
                               .at = offset,
                               .left = len};
    rc = open_copy(r, eb);
    if (rc == ERR_OK || !is_trouble(rc))
        return rc;
    return read_around(r, rc) ? ERR_OK : rc;
}

/* No copy gave the piece within its deadline. Gives those that were only slow, at this piece or
 * an earlier one, more time. False: none was. */
static bool
retry_slow(struct disks_reader *r)
{
    struct entry next;

    assert((r->slow & ~r->tried) == 0);
    if (r->slow == 0)
        return false;
    r->tried &= ~r->slow;
    if (!other_copy(r->disks, &r->key, &r->entry, r->tried, &next))
        return false;
    r->entry = next; /* opened at the next read */
    return true;
}

/* Reads the next piece of the current copy, until the deadline for another copy. */
static enum err
next_of_copy(struct disks_reader *r, bool hurry, struct deadline by, struct span *piece,
             struct errbuf *eb)
{
    struct timed t;
    enum err rc;

    timed_begin(&t, r->disks, r->entry.place.disk, hedge_kind_of(r->left), hurry,
                r->tried != 0);
    rc = r->copy->ops->read_next(r->from, by, piece, eb);
    /* Later pieces were read ahead: their time is unknown. */
    timed_end(&t, rc, r->fresh && !store_read_from_memory(replica_local_reader(r->from)));
    r->fresh = false;
    if (rc == ERR_OK) {
        assert(piece->len <= r->left);
        r->at += piece->len;
        r->left -= piece->len;
    }
    return rc;
}

/* The current copy failed with `rc`: reads the piece from another one. */
static enum err
next_of_others(struct disks_reader *r, enum err rc, struct deadline by,
               struct span *piece, struct errbuf *eb)
{
    struct errbuf first; /* set with first_rc */
    enum err first_rc = ERR_OK;
    bool hurry = r->key.copies > 1;

    for (;;) {
        if (!is_trouble(rc) || rt_cancelled())
            return rc;
        if (rc != ERR_TIMEOUT)
            r->slow &= ~((uint64_t)1 << r->entry.place.disk);
        else if (hurry)
            r->slow |= (uint64_t)1 << r->entry.place.disk;
        if (first_rc == ERR_OK || first_rc == ERR_TIMEOUT) {
            first_rc = rc;
            if (eb != NULL)
                first = *eb;
        }
        if (!read_around(r, rc)) {
            if (!hurry || (r->from == NULL && !retry_slow(r))) {
                if (eb != NULL)
                    *eb = first;
                return first_rc;
            }
            hurry = false;
        }
        rc = r->from != NULL ? ERR_OK : open_copy(r, eb);
        if (rc == ERR_OK)
            rc = next_of_copy(r, hurry, by, piece, eb);
        if (rc == ERR_OK)
            return rc;
    }
}

enum err
disks_read_next(struct disks_reader *r, struct deadline by, struct span *piece,
                struct errbuf *eb)
{
    enum err rc = r->from != NULL ? ERR_OK : open_copy(r, eb);

    assert(r->disks != NULL);
    if (rc == ERR_OK)
        rc = next_of_copy(r, r->key.copies > 1, by, piece, eb);
    return rc == ERR_OK ? rc : next_of_others(r, rc, by, piece, eb);
}

unsigned
disks_read_more(struct disks_reader *r, struct span *pieces, unsigned max)
{
    unsigned n =
        r->from != NULL ? store_read_more(replica_local_reader(r->from), pieces, max) : 0;

    assert(n <= max);
    for (unsigned i = 0; i < n; i++) {
        assert(pieces[i].len <= r->left);
        r->at += pieces[i].len;
        r->left -= pieces[i].len;
    }
    return n;
}

void
disks_read_end(struct disks_reader *r)
{
    leave_copy(r);
}
