/* Looking up and reading, around what is lost, rotten or slow. */
#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "disks/ended.h"
#include "disks/history.h"
#include "disks/internal.h"
#include "disks/move.h"
#include "rt/point.h"

#define LOOKUPS_MAX 64 /* while what is looked for is moved again and again */

static bool
same_content(const struct row *a, const struct row *b)
{
    return memcmp(&a->content, &b->content, sizeof a->content) == 0;
}

/* ---- looking up ---- */

/* One round over every slot; the lookups may switch, so what is moved meanwhile can be missed. *history: a disk has versions
 * of the key. */
static enum err
ask_all(struct disks *ds, const struct disks_key *k, const struct places *p,
        struct row *out, bool *history, struct errbuf *eb)
{
    bool found = false, deaf = p->unheard, undecided = false;

    for (unsigned i = 0; i < p->count; i++) {
        struct disk *d = slot_enter(ds, p->at[i]);
        struct row row;
        enum err rc = d != NULL ? disk_lookup_any(d, &k->at, &row, eb) : ERR_UNAVAILABLE;

        if (d != NULL)
            slot_leave(ds, p->at[i]);
        else if (slot_is_gone(ds, p->at[i]))
            continue;
        if (rc != ERR_OK && rc != ERR_NOT_FOUND) {
            deaf = true;
            continue;
        }
        undecided |= (row.flags & ROW_UNDECIDED) != 0;
        *history |= rc == ERR_OK && (row.flags & ROW_HISTORY) != 0;
        if (rc != ERR_OK || (found && version_order(&row.version, &out->version) <= 0))
            continue;
        row.flags &= ~ROW_UNDECIDED;
        *out = row;
        out->disk = p->at[i];
        found = true;
    }
    /* Who ordered that write is not here to say what became of it: it will be decided in a moment (undecided.c). */
    if (undecided && deaf)
        return unheard(eb);
    if (found)
        return ERR_OK;
    return deaf ? unheard(eb) : err_set(eb, ERR_NOT_FOUND, "there is no such object");
}

static enum err
ask_until_still(struct disks *ds, const struct disks_key *k, struct row *out,
                bool *history, struct errbuf *eb)
{
    for (unsigned i = 0; i < LOOKUPS_MAX; i++) {
        uint64_t forgets = atomic_load(&ds->forgets);
        struct places p;
        enum err rc;

        places_of(ds, k, &p);
        POINT(PLACES_CHOSEN);
        *history = false;
        rc = ask_all(ds, k, &p, out, history, eb);
        if (rc != ERR_NOT_FOUND || atomic_load(&ds->forgets) == forgets)
            return rc;
    }
    return err_set(eb, ERR_BUSY, "objects are moved faster than they can be looked up");
}

enum err
lookup_all(struct disks *ds, const struct disks_key *k, struct row *out,
           struct errbuf *eb)
{
    bool history;
    enum err rc = ask_until_still(ds, k, out, &history, eb);

    /* Where a disk missed what came last, the highest row is not the newest version. */
    if (rc == ERR_OK && (history || ended_ask_plain(ds, k, out))) {
        struct row newest;

        rc = history_current(ds, k, &newest, eb);
        if (rc == ERR_OK)
            *out = newest;
        else if (rc ==
                 ERR_NOT_FOUND) /* what is there was ended: somebody has to hear of it */
            *out = (struct row){.flags = ROW_TOMBSTONE | ROW_MARKER, .disk = out->disk};
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
        struct disk *d = slot_enter(ds, out->at[i]);
        struct row row;
        enum err rc =
            d != NULL ? disk_lookup_any(d, &k->at, &row, NULL) : ERR_UNAVAILABLE;

        if (d != NULL)
            slot_leave(ds, out->at[i]);
        if (rc == ERR_OK && (row.flags & ROW_HISTORY) != 0 &&
            slot_state(&ds->slots[out->at[i]]) != SLOT_FROZEN)
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

static enum err
lookup_many(struct disks *ds, const struct disks_key *k, struct row *out,
            struct errbuf *eb)
{
    enum err rc = ERR_UNAVAILABLE;

    if (atomic_load_explicit(&ds->settled, memory_order_acquire)) {
        struct places p;
        struct disk *d;

        places_of(ds, k, &p);
        d = p.count > 0 ? slot_enter(ds, p.at[0]) : NULL;
        if (d != NULL) {
            rc = disk_lookup(d, &k->at, out, eb);
            slot_leave(ds, p.at[0]);
            out->disk = p.at[0];
            out->flags &= ~ROW_UNDECIDED;
        }
        if (rc == ERR_NOT_FOUND && p.unheard)
            return unheard(eb);
        if (rc == ERR_OK || rc == ERR_NOT_FOUND)
            return rc;
    }
    rc = lookup_all(ds, k, out, eb);
    if (rc == ERR_OK && (out->flags & ROW_TOMBSTONE) != 0)
        return err_set(eb, ERR_NOT_FOUND, "the object was deleted");
    return rc;
}

enum err
disks_lookup(struct disks *ds, const struct disks_key *k, struct row *out,
             struct errbuf *eb)
{
    _Atomic uint64_t *counted;
    struct disk *d = one_enter(ds, &counted);
    enum err rc;

    if (d == NULL)
        return lookup_many(ds, k, out, eb);
    rc = disk_lookup(d, &k->at, out, eb);
    one_leave(counted);
    return rc;
}

/* ---- copies of a row ---- */

/* Another slot that has the same content, not one of `tried`; its row. False: there is none. */
static bool
other_copy(struct disks *ds, const struct disks_key *k, const struct row *row,
           uint64_t tried, struct row *out)
{
    struct version born = row_born(row);
    struct places p;
    bool current;

    places_of(ds, k, &p);
    for (unsigned i = 0; i < p.count; i++) {
        struct disk *d;
        enum err rc;

        if ((tried >> p.at[i] & 1) != 0 || (d = slot_enter(ds, p.at[i])) == NULL)
            continue;
        rc = (row->flags & ROW_HISTORY) == 0 ? disk_lookup(d, &k->at, out, NULL)
                                             : ERR_NOT_FOUND;
        if (rc != ERR_OK ||
            !same_content(row, out)) /* an older one: written before versioning, too */
            rc = disk_version_find(d, &k->at, &born, out, &current, NULL);
        slot_leave(ds, p.at[i]);
        out->disk = p.at[i];
        out->flags &= ~ROW_UNDECIDED;
        if (rc == ERR_OK && same_content(row, out))
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
    struct disk_health h;
    struct disk *d;

    if (hedge_avoids(ds, i, kind))
        return true;
    d = slot_enter(ds, i);
    if (d == NULL)
        return true;
    disk_health(d, &h);
    slot_leave(ds, i);
    return h.state == DISK_SLOW;
}

/* The copy to begin with: the row's own, or another one where that disk is slow and the other's is not. */
static struct row
choose_copy(struct disks *ds, const struct disks_key *k, const struct row *row,
            enum hedge_kind kind)
{
    struct row other;

    if (k->copies > 1 && is_slow(ds, row->disk, kind) &&
        other_copy(ds, k, row, (uint64_t)1 << row->disk, &other) &&
        !is_slow(ds, other.disk, kind))
        return other;
    return *row;
}

/* One copy's metadata, for as long as there may be a better one. */
static enum err
meta_of_copy(struct disks *ds, const struct disks_key *k, const struct row *at,
             bool hurry, bool again, struct arena *a, struct object_meta *out,
             struct errbuf *eb)
{
    struct disk *d = slot_enter(ds, at->disk);
    struct deadline late = hurry ? hedge_begin(ds, HEDGE_SMALL, again) : DEADLINE_NEVER;
    uint64_t begun = rt_now_ns();
    struct rt_scope scope;
    enum err rc;

    if (d == NULL)
        return unheard(eb);
    rt_scope_begin(&scope, late);
    rc = disk_meta(d, &k->at, at, a, out, eb);
    rt_scope_end(&scope);
    slot_leave(ds, at->disk);
    if (rc == ERR_TIMEOUT && deadline_passed(late))
        hedge_late(ds, at->disk, HEDGE_SMALL, rt_now_ns() - begun);
    if (rc == ERR_OK)
        hedge_took(ds, at->disk, HEDGE_SMALL, rt_now_ns() - begun);
    return rc;
}

static enum err
meta_many(struct disks *ds, const struct disks_key *k, const struct row *row,
          struct arena *a, struct object_meta *out, struct errbuf *eb)
{
    struct row at = choose_copy(ds, k, row, HEDGE_SMALL);
    bool hurry = k->copies > 1;
    uint64_t tried = 0, slow = 0; /* slow: bits of disks that did not answer in a hurry */
    struct errbuf first = {{0}};
    enum err first_rc = ERR_OK;

    for (;;) {
        enum err rc = meta_of_copy(ds, k, &at, hurry, tried != 0, a, out, eb);

        if (!is_trouble(rc) || rt_cancelled())
            return rc;
        if (hurry && rc == ERR_TIMEOUT)
            slow |= (uint64_t)1 << at.disk;
        if (first_rc == ERR_OK || first_rc == ERR_TIMEOUT) {
            first_rc = rc;
            if (eb != NULL)
                first = *eb;
        }
        if (rc == ERR_CORRUPT || rc == ERR_IO)
            repair_later(ds, k, at.disk);
        tried |= (uint64_t)1 << at.disk;
        if (other_copy(ds, k, row, tried, &at))
            continue;
        /* Nobody said it in a hurry: those that were only slow may take their time. */
        tried &= ~slow;
        if (!hurry || slow == 0 || !other_copy(ds, k, row, tried, &at)) {
            if (eb != NULL)
                *eb = first;
            return first_rc;
        }
        hurry = false;
    }
}

enum err
disks_meta(struct disks *ds, const struct disks_key *k, const struct row *row,
           struct arena *a, struct object_meta *out, struct errbuf *eb)
{
    _Atomic uint64_t *counted;
    struct disk *d = one_enter(ds, &counted);
    enum err rc;

    if (d == NULL)
        return meta_many(ds, k, row, a, out, eb);
    rc = disk_meta(d, &k->at, row, a, out, eb);
    one_leave(counted);
    return rc;
}

/* ---- reading ---- */

static void
leave_copy(struct disks_reader *r)
{
    if (r->from == NULL)
        return;
    disk_read_end(&r->from);
    slot_leave(r->disks, r->row.disk);
}

static enum err
open_copy(struct disks_reader *r, struct errbuf *eb)
{
    struct disk *d = slot_enter(r->disks, r->row.disk);
    enum err rc;

    if (d == NULL)
        return unheard(eb);
    rc = disk_read_begin(d, &r->key.at, &r->row, r->at, r->left, &r->from, eb);
    r->fresh = true;
    if (rc != ERR_OK)
        slot_leave(r->disks, r->row.disk);
    return rc;
}

/* Goes on from another copy; false: there is none that can be opened. */
static bool
read_around(struct disks_reader *r, enum err why)
{
    struct row next;

    leave_copy(r);
    if (why == ERR_CORRUPT || why == ERR_IO)
        repair_later(r->disks, &r->key, r->row.disk);
    for (;;) {
        r->tried |= (uint64_t)1 << r->row.disk;
        if (!other_copy(r->disks, &r->key, &r->row, r->tried, &next))
            return false;
        r->row = next;
        if (open_copy(r, NULL) == ERR_OK)
            return true;
    }
}

static enum err
begin_many(struct disks *ds, const struct disks_key *k, const struct row *row,
           uint64_t offset, uint64_t len, struct disks_reader *r, struct errbuf *eb)
{
    enum err rc;

    *r = (struct disks_reader){.disks = ds,
                               .key = *k,
                               .row = choose_copy(ds, k, row, hedge_kind_of(len)),
                               .at = offset,
                               .left = len};
    rc = open_copy(r, eb);
    if (rc == ERR_OK || !is_trouble(rc))
        return rc;
    return read_around(r, rc) ? ERR_OK : rc;
}

enum err
disks_read_begin(struct disks *ds, const struct disks_key *k, const struct row *row,
                 uint64_t offset, uint64_t len, struct disks_reader *out,
                 struct errbuf *eb)
{
    struct disk *d = one_enter(ds, &out->counted);
    enum err rc;

    if (d == NULL)
        return begin_many(ds, k, row, offset, len, out, eb);
    out->disks = NULL;
    rc = disk_read_begin(d, &k->at, row, offset, len, &out->from, eb);
    if (rc != ERR_OK)
        one_leave(out->counted);
    return rc;
}

/* Nobody gave the piece in a hurry: those that were only slow, at this piece or an earlier one, may take their time. False:
 * nobody was. */
static bool
take_time(struct disks_reader *r)
{
    struct row next;

    if (r->slow == 0)
        return false;
    r->tried &= ~r->slow;
    if (!other_copy(r->disks, &r->key, &r->row, r->tried, &next))
        return false;
    r->row = next; /* opened when it is asked */
    return true;
}

/* The next piece of the copy at hand, for as long as there may be a better one. */
static enum err
next_of_copy(struct disks_reader *r, bool hurry, struct deadline by, struct span *piece,
             struct errbuf *eb)
{
    enum hedge_kind kind = hedge_kind_of(r->left);
    struct deadline late =
        hurry ? hedge_begin(r->disks, kind, r->tried != 0) : DEADLINE_NEVER;
    uint64_t begun = rt_now_ns();
    struct rt_scope scope;
    enum err rc;

    rt_scope_begin(&scope, late);
    rc = disk_read_next(r->from, by, piece, eb);
    rt_scope_end(&scope);
    if (rc == ERR_TIMEOUT && deadline_passed(late))
        hedge_late(r->disks, r->row.disk, kind, rt_now_ns() - begun);
    /* Later pieces were read ahead: how long was not seen. */
    if (rc == ERR_OK && r->fresh && !disk_read_was_hot(r->from))
        hedge_took(r->disks, r->row.disk, kind, rt_now_ns() - begun);
    r->fresh = false;
    return rc;
}

static enum err
next_many(struct disks_reader *r, struct deadline by, struct span *piece,
          struct errbuf *eb)
{
    struct errbuf first = {{0}};
    enum err first_rc = ERR_OK;
    bool hurry = r->key.copies > 1;

    for (;;) {
        enum err rc = r->from != NULL ? ERR_OK : open_copy(r, eb);

        if (rc == ERR_OK)
            rc = next_of_copy(r, hurry, by, piece, eb);
        if (rc == ERR_OK) {
            r->at += piece->len;
            r->left -= piece->len;
            return rc;
        }
        if (!is_trouble(rc) || rt_cancelled())
            return rc;
        if (rc != ERR_TIMEOUT)
            r->slow &= ~((uint64_t)1 << r->row.disk);
        else if (hurry)
            r->slow |= (uint64_t)1 << r->row.disk;
        if (first_rc == ERR_OK || first_rc == ERR_TIMEOUT) {
            first_rc = rc;
            if (eb != NULL)
                first = *eb;
        }
        if (read_around(r, rc))
            continue;
        if (!hurry || !take_time(r)) {
            if (eb != NULL)
                *eb = first;
            return first_rc;
        }
        hurry = false;
    }
}

enum err
disks_read_next(struct disks_reader *r, struct deadline by, struct span *piece,
                struct errbuf *eb)
{
    return r->disks == NULL ? disk_read_next(r->from, by, piece, eb)
                            : next_many(r, by, piece, eb);
}

unsigned
disks_read_more(struct disks_reader *r, struct span *pieces, unsigned max)
{
    unsigned n = r->from != NULL ? disk_read_more(r->from, pieces, max) : 0;

    for (unsigned i = 0; i < n && r->disks != NULL; i++) {
        r->at += pieces[i].len;
        r->left -= pieces[i].len;
    }
    return n;
}

void
disks_read_end(struct disks_reader *r)
{
    if (r->disks != NULL) {
        leave_copy(r);
        return;
    }
    if (r->from == NULL)
        return;
    disk_read_end(&r->from);
    one_leave(r->counted);
}
