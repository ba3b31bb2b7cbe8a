/* Listings: the entries of every disk, merged in byte order, each key once. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "disks/history.h"
#include "disks/internal.h"
#include "disks/version_tombstone.h"
#include "rt/point.h"

#define SCRATCH_BYTES MIB(2) /* for one disk's page: keys of any length */
#define PAGE_MAX      256u
#define TRIES         4 /* of a page that moving objects disturb; then removals pause */

/* One disk's part of a listing. */
struct source {
    struct replica *from; /* entered */
    uint8_t slot;
    struct arena *arena; /* owned; one page */
    struct store_entry *entries;
    uint32_t at, count;
    bool more;
};

struct merge {
    struct disks *ds;
    uint64_t bucket;
    struct source *sources; /* owned */
    unsigned count;
    uint32_t page;
    bool history; /* a disk has versions of the last key */
};

static enum err
refill(struct merge *m, struct source *s, struct span after, bool inclusive,
       struct errbuf *eb)
{
    char last[STORE_KEY_MAX];

    assert(after.len <= STORE_KEY_MAX);
    assert(s->from != NULL);
    /* `after` may lie in the page that is about to be dropped. */
    memcpy(last, after.at, after.len);
    arena_reset(s->arena);
    s->at = s->count = 0;
    return replica_list_any(s->from, m->bucket, (struct span){last, after.len}, inclusive,
                            m->page, s->arena, &s->entries, &s->count, &s->more, eb);
}

/* Reads the first page of each disk. Disks that lose objects come first: a moving object is on
 * its new disk before it leaves the old one. */
static enum err
merge_begin(struct merge *m, struct span after, bool inclusive, struct errbuf *eb)
{
    uint8_t all[DISKS_MAX];
    unsigned n = places_all(m->ds, all);
    enum err rc = ERR_OK;

    m->sources = xcalloc(n + 1, sizeof *m->sources);
    for (unsigned i = 0; i < n && rc == ERR_OK; i++) {
        struct source *s = &m->sources[m->count];

        s->from = replica_enter(m->ds, all[i]);
        if (s->from == NULL)
            continue;
        s->slot = all[i];
        s->arena = arena_new(KIB(16), SCRATCH_BYTES);
        m->count++;
        rc = refill(m, s, after, inclusive, eb);
    }
    return rc;
}

static void
merge_end(struct merge *m)
{
    for (unsigned i = 0; i < m->count; i++) {
        arena_free(&m->sources[i].arena);
        replica_leave(m->sources[i].from);
    }
    free(m->sources);
}

/* Returns the next key of all disks, with its newest entry; ERR_NOT_FOUND: none. Its span lies
 * in the source's page until the next call of merge_step(). */
static enum err
merge_next(struct merge *m, struct store_entry *out, struct errbuf *eb)
{
    const struct store_entry *best = NULL;

    m->history = false;
    for (unsigned i = 0; i < m->count; i++) {
        struct source *s = &m->sources[i];
        struct store_entry *e;
        int order;

        if (s->at == s->count && s->more && s->count > 0) {
            enum err rc = refill(m, s, s->entries[s->count - 1].key, false, eb);

            if (rc != ERR_OK)
                return rc;
        }
        if (s->at == s->count)
            continue;
        e = &s->entries[s->at];
        e->entry.place.disk = s->slot;
        order = best != NULL ? span_cmp(e->key, best->key) : -1;
        if (order <= 0)
            m->history =
                (order == 0 && m->history) || (e->entry.flags & ENTRY_HISTORY) != 0;
        if (order < 0 ||
            (order == 0 && version_order(&e->entry.version, &best->entry.version) > 0))
            best = e;
    }
    if (best == NULL)
        return ERR_NOT_FOUND;
    *out = *best;
    return ERR_OK;
}

/* Advances every source past this key. */
static void
merge_step(struct merge *m, struct span key)
{
    char copy[STORE_KEY_MAX];
    struct span same = {copy, key.len};

    assert(key.len <= STORE_KEY_MAX);
    memcpy(copy, key.at, key.len);
    for (unsigned i = 0; i < m->count; i++) {
        struct source *s = &m->sources[i];

        if (s->at < s->count && span_eq(s->entries[s->at].key, same))
            s->at++;
    }
}

static enum err
give(struct arena *a, struct store_entry *e, struct store_entry *out, struct errbuf *eb)
{
    char *key = arena_try(a, e->key.len);

    if (key == NULL)
        return err_set(eb, ERR_BUSY, "no memory for a page of keys");
    memcpy(key, e->key.at, e->key.len);
    *out = *e;
    out->key.at = key;
    out->entry.flags &= ~ENTRY_PREPARED;
    return ERR_OK;
}

/* True if the key is to be listed. While disks have missed changes, all of them decide which
 * version is current. */
static bool
is_object(struct merge *m, struct store_entry *e)
{
    struct disks_key k = {.at = {.bucket = m->bucket, .key = e->key}};

    if (!atomic_load_explicit(&m->ds->converged, memory_order_acquire) &&
        (m->history || version_tombstone_find_plain(m->ds, &k, &e->entry)) &&
        history_current(m->ds, &k, &e->entry, NULL) != ERR_OK)
        return false;
    return (e->entry.flags & ENTRY_TOMBSTONE) == 0;
}

static enum err
list_merged(struct disks *ds, uint64_t bucket, struct span after, bool inclusive,
            uint32_t max, struct arena *a, struct store_entry *out, uint32_t *count,
            bool *more, struct errbuf *eb)
{
    struct merge m = {.ds = ds, .bucket = bucket, .page = MIN(max + 1, PAGE_MAX)};
    enum err rc = merge_begin(&m, after, inclusive, eb);

    *count = 0;
    *more = false;
    while (rc == ERR_OK) {
        struct store_entry e;

        rc = merge_next(&m, &e, eb);
        if (rc != ERR_OK)
            break;
        if (*count == max) { /* perhaps only a tombstone follows: the next page tells */
            *more = true;
            break;
        }
        if (is_object(&m, &e))
            rc = give(a, &e, &out[(*count)++], eb);
        merge_step(&m, e.key);
    }
    merge_end(&m);
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

/* ---- pages ---- */

struct pages {
    size_t size;
    int (*cmp)(const void *a, const void *b);
    unsigned sources;
    const char *at[DISKS_MAX];
    uint32_t next[DISKS_MAX], count[DISKS_MAX];
    bool more[DISKS_MAX];
};

struct pages *
pages_new(struct arena *a, size_t size, int (*cmp)(const void *a, const void *b))
{
    struct pages *p = arena_try(a, sizeof *p);

    assert(size > 0);
    assert(cmp != NULL);
    if (p == NULL)
        return NULL;
    p->size = size;
    p->cmp = cmp;
    p->sources = 0;
    return p;
}

void
pages_add(struct pages *p, const void *items, uint32_t count, bool more)
{
    unsigned i = p->sources++;

    assert(count == 0 || items != NULL);
    assert(i < DISKS_MAX);
    p->at[i] = items;
    p->next[i] = 0;
    p->count[i] = count;
    p->more[i] = more;
}

static const void *
page_item(const struct pages *p, unsigned i)
{
    assert(p->next[i] < p->count[i]);
    return p->at[i] + p->next[i] * p->size;
}

bool
pages_next(struct pages *p, void *out)
{
    const void *first = NULL;

    for (unsigned i = 0; i < p->sources; i++) {
        if (p->next[i] == p->count[i] && p->more[i])
            return false;
        if (p->next[i] < p->count[i] &&
            (first == NULL || p->cmp(page_item(p, i), first) < 0))
            first = page_item(p, i);
    }
    if (first == NULL)
        return false;
    memcpy(out, first, p->size);
    for (unsigned i = 0; i < p->sources; i++)
        if (p->next[i] < p->count[i] && p->cmp(page_item(p, i), out) == 0)
            p->next[i]++;
    return true;
}

bool
pages_left(const struct pages *p)
{
    for (unsigned i = 0; i < p->sources; i++)
        if (p->next[i] < p->count[i] || p->more[i])
            return true;
    return false;
}

/* ---- objects ---- */

bool
listing_incomplete(struct disks *ds, unsigned copies)
{
    unsigned out = 0;

    for (unsigned i = 0; i < atomic_load(&ds->slot_count); i++)
        out += replica_state(&ds->slots[i]) == REPLICA_OUT;
    return out > 0 && (out >= MAX(copies, 1u) || atomic_load(&ds->out_diverged));
}

/* Lists of disks on which changes are lost lack keys. With fewer such disks than copies another disk lists each of them,
 * once every object is on all its disks. */
static enum err
lists_lack(struct disks *ds, uint64_t bucket, unsigned copies, struct errbuf *eb)
{
    unsigned lacking = 0, out = 0;

    for (unsigned i = 0; i < atomic_load(&ds->slot_count); i++) {
        struct replica *r = replica_enter(ds, i);

        lacking += r != NULL && r->store != NULL && store_list_lacks(r->store, bucket);
        out += replica_state(&ds->slots[i]) == REPLICA_OUT;
        replica_leave(r);
    }
    if (lacking == 0)
        return ERR_OK;
    if (lacking + out >= MAX(copies, 1u))
        return err_set(
            eb, ERR_CORRUPT,
            "damaged: acknowledged changes of this bucket are lost on %u disks, "
            "and a list may not have them; see forebay disk check",
            lacking);
    if (!atomic_load_explicit(&ds->converged, memory_order_acquire))
        return err_set(
            eb, ERR_UNAVAILABLE,
            "acknowledged changes of this bucket are lost on %u disks, and are made "
            "again from other copies; lists are complete afterwards",
            lacking);
    return ERR_OK;
}

static enum err
list_many(struct disks *ds, uint64_t bucket, unsigned copies, struct span after,
          bool inclusive, uint32_t max, struct arena *a, struct store_entry **out,
          uint32_t *count, bool *more, struct errbuf *eb)
{
    bool paused = false;
    enum err rc;

    *count = 0;
    *more = false;
    if (listing_incomplete(ds, copies))
        return err_unreachable(eb);
    rc = lists_lack(ds, bucket, copies, eb);
    if (rc != ERR_OK)
        return rc;
    *out = arena_try(a, (max + 1) * sizeof **out);
    if (*out == NULL)
        return err_set(eb, ERR_BUSY, "no memory for a page of %u keys", max);
    POINT(PLACES_CHOSEN);
    for (unsigned i = 0;; i++) {
        uint64_t removals = atomic_load(&ds->removals);

        rc = list_merged(ds, bucket, after, inclusive, max, a, *out, count, more, eb);
        if (rc != ERR_OK || atomic_load(&ds->removals) == removals || i == TRIES)
            break;
        if (!paused)
            atomic_fetch_add(&ds->pauses, 1);
        paused = true;
    }
    if (paused)
        atomic_fetch_sub(&ds->pauses, 1);
    if (rc == ERR_OK &&
        listing_incomplete(ds, copies)) /* a disk left before it was read */
        rc = err_unreachable(eb);
    return rc;
}

/* A sole replica needs no merge: returns its own page. */
static enum err
list_sole(struct disks *ds, unsigned slot, uint64_t bucket, struct span after,
          bool inclusive, uint32_t max, struct arena *a, struct store_entry **out,
          uint32_t *count, bool *more, struct errbuf *eb)
{
    struct replica *r = replica_enter(ds, slot);
    enum err rc = replica_list(r, bucket, after, inclusive, max, a, out, count, more, eb);

    replica_leave(r);
    for (uint32_t i = 0; rc == ERR_OK && i < *count; i++)
        (*out)[i].entry.place.disk = (uint16_t)slot;
    return rc;
}

enum err
disks_list(struct disks *ds, uint64_t bucket, unsigned copies, struct span after,
           bool inclusive, uint32_t max, struct arena *a, struct store_entry **out,
           uint32_t *count, bool *more, struct errbuf *eb)
{
    unsigned slot;

    return sole_slot(ds, &slot) ? list_sole(ds, slot, bucket, after, inclusive, max, a,
                                            out, count, more, eb)
                                : list_many(ds, bucket, copies, after, inclusive, max, a,
                                            out, count, more, eb);
}

enum err
disks_bucket_empty(struct disks *ds, uint64_t bucket, unsigned copies, bool *empty,
                   struct errbuf *eb)
{
    struct replica_walk w;

    *empty = true;
    if (listing_incomplete(ds, copies))
        return err_unreachable(eb);
    w = replica_walk(ds);
    POINT(PLACES_CHOSEN);
    while (*empty && replica_walk_next(&w)) {
        enum err rc = replica_bucket_empty(w.at, bucket, empty, eb);

        if (rc != ERR_OK) {
            replica_walk_end(&w);
            return rc;
        }
    }
    replica_walk_end(&w);
    /* A disk left before it was read. */
    return *empty && listing_incomplete(ds, copies) ? err_unreachable(eb) : ERR_OK;
}
