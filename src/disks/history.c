/* history: a key that has versions: all of them, delete markers too, are where the key's order says.
 *
 * What any disk has is a version: the union of all of them goes to each disk that should have the key, the newest first, so
 * that each takes its place behind the one before it; then the others lose theirs, the current one last. So no older one
 * comes to light meanwhile.
 */
#include "disks/history.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "disks/ended.h"
#include "disks/move.h"

#define AT_A_TIME   100u
#define HISTORY_MAX 100000u /* versions of one key */
#define SCRATCH_MAX MIB(1)

struct kept {
    struct row row; /* with the newest metadata that any disk has */
    uint64_t on;    /* bits of slots that have just this */
    bool ended;     /* while one of them was away */
    struct version as;
};
struct history {
    struct kept *at; /* owned; the oldest first */
    uint32_t count, room;
};

static int
by_birth(const void *x, const void *y)
{
    const struct kept *a = x, *b = y;
    struct version p = row_born(&a->row), q = row_born(&b->row);

    return version_order(&p, &q);
}

/* ---- what there is ---- */

static struct kept *
find_kept(struct history *h, const struct row *row)
{
    struct version born = row_born(row);

    for (uint32_t i = 0; i < h->count; i++) {
        struct version other = row_born(&h->at[i].row);

        if (version_order(&born, &other) == 0)
            return &h->at[i];
    }
    return NULL;
}

static void
keep(struct history *h, const struct row *row, unsigned slot)
{
    struct kept *k = find_kept(h, row);
    uint64_t bit = (uint64_t)1 << slot;
    int c = k != NULL ? version_order(&row->version, &k->row.version) : 1;

    if (k == NULL) {
        if (h->count == h->room) {
            h->room = h->room == 0 ? 16 : 2 * h->room;
            h->at = xrealloc(h->at, h->room * sizeof *h->at);
        }
        k = &h->at[h->count++];
    }
    if (c > 0)
        *k = (struct kept){.row = *row, .on = bit};
    else if (c == 0)
        k->on |= bit;
    if (c > 0)
        k->row.disk = (uint16_t)slot;
}

/* All versions that one disk has of the key, the newest first. */
static enum err
gather_from(struct disk *d, const struct disk_key *k, unsigned slot, struct history *h,
            struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(16), SCRATCH_MAX);
    struct version after;
    bool more = true, begun = false;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && more) {
        struct disk_version *found;
        uint32_t count;

        arena_reset(a);
        rc = disk_version_list(d, k->bucket, k->key, !begun, begun ? &after : NULL,
                               AT_A_TIME, a, &found, &count, &more, eb);
        for (uint32_t i = 0; rc == ERR_OK && i < count && more; i++)
            more = span_eq(found[i].key, k->key);
        for (uint32_t i = 0; rc == ERR_OK && i < count; i++) {
            if (!span_eq(found[i].key, k->key))
                break;
            keep(h, &found[i].row, slot);
            after = row_born(&found[i].row);
            begun = true;
        }
        more = more && count > 0;
        if (h->count > HISTORY_MAX)
            rc = err_set(eb, ERR_TOO_LARGE, "a key of over %u versions is not moved",
                         HISTORY_MAX);
    }
    arena_free(&a);
    return rc;
}

static enum err
gather(struct disks *ds, const struct disks_key *k, const struct places *p,
       struct history *h, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    for (unsigned i = 0; rc == ERR_OK && i < p->count; i++) {
        struct disk *d = slot_enter(ds, p->at[i]);

        if (d == NULL)
            return unheard(eb);
        rc = gather_from(d, &k->at, p->at[i], h, eb);
        slot_leave(ds, p->at[i]);
    }
    if (rc == ERR_OK && h->count > 0)
        qsort(h->at, h->count, sizeof *h->at, by_birth);
    for (uint32_t i = 0; rc == ERR_OK && i < h->count; i++) {
        struct version born = row_born(&h->at[i].row);

        h->at[i].ended = ended_ask(ds, k, &born, &h->at[i].as);
    }
    return rc;
}

/* ---- bringing and taking away ---- */

static enum err
bring_marker(struct disks *ds, const struct disks_key *k, const struct row *row,
             unsigned to, struct errbuf *eb)
{
    struct disk *d = slot_enter(ds, to);
    struct row marker = *row;
    enum err rc;

    if (d == NULL)
        return unheard(eb);
    rc = disk_delete_mark(
        d, &k->at, (row->flags & ROW_VERSIONED) != 0 ? DISK_VERSIONED : DISK_SUSPENDED,
        NULL, &row->version, &marker, eb);
    slot_leave(ds, to);
    return rc;
}

static enum err
bring(struct disks *ds, const struct disks_key *k, struct kept *v, unsigned to,
      uint64_t *bytes, struct errbuf *eb)
{
    uint64_t left = v->on & ~((uint64_t)1 << to);
    enum err rc = ERR_CORRUPT;

    if ((v->row.flags & ROW_MARKER) != 0)
        return bring_marker(ds, k, &v->row, to, eb);
    (void)err_set(eb, rc, "no other disk has a copy of a version that can be read");
    for (unsigned slot = 0; left != 0 && rc != ERR_OK; slot++, left >>= 1) {
        struct disk *d;
        struct row row;
        struct version born = row_born(&v->row);
        bool current;

        if ((left & 1) == 0)
            continue;
        d = slot_enter(ds, slot);
        rc = d != NULL ? disk_version_find(d, &k->at, &born, &row, &current, eb)
                       : unheard(eb);
        if (d != NULL)
            slot_leave(ds, slot);
        if (rc != ERR_OK)
            continue;
        row.disk = (uint16_t)slot;
        if ((row.flags & (ROW_VERSIONED | ROW_SUSPENDED)) == 0)
            row.flags |= ROW_SUSPENDED; /* a null version, which may come late */
        rc = copy_object(ds, k, &row, to, bytes, eb);
    }
    return rc;
}

static enum err
bring_all(struct disks *ds, const struct disks_key *k, struct history *h, unsigned to,
          uint64_t damaged, struct put_right *done, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    for (uint32_t i = h->count; rc == ERR_OK && i-- > 0;) {
        uint64_t bit = (uint64_t)1 << to;
        bool marker = (h->at[i].row.flags & ROW_MARKER) != 0;

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

/* What was ended while a disk was away ends there too: behind what was brought, so that it is the current one only where
 * nothing else is. */
static enum err
end_all(struct disks *ds, const struct disks_key *k, const struct places *p,
        const struct history *h, struct put_right *done, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    for (uint32_t n = 0; rc == ERR_OK && n < h->count; n++) {
        struct version born = row_born(&h->at[n].row);

        for (unsigned i = 0; rc == ERR_OK && h->at[n].ended && i < p->count; i++) {
            struct disk *d = slot_enter(ds, p->at[i]);

            if (d == NULL)
                return unheard(eb);
            rc =
                disk_version_delete(d, &k->at, &born, NULL, &h->at[n].as, NULL, NULL, eb);
            slot_leave(ds, p->at[i]);
            done->changed = done->changed || rc == ERR_OK;
            if (rc == ERR_NOT_FOUND)
                rc = ERR_OK;
        }
    }
    return rc;
}

static enum err
take_away(struct disks *ds, const struct disks_key *k, unsigned slot,
          struct put_right *done, struct errbuf *eb)
{
    struct disk *d = slot_enter(ds, slot);
    struct history mine = {0};
    enum err rc;

    if (d == NULL)
        return unheard(eb);
    rc = gather_from(d, &k->at, slot, &mine, eb);
    if (mine.count > 0)
        qsort(mine.at, mine.count, sizeof *mine.at, by_birth);
    for (uint32_t i = 0; rc == ERR_OK && i < mine.count; i++) {
        struct version born = row_born(&mine.at[i].row);

        done->changed = true;
        rc = disk_version_delete(d, &k->at, &born, NULL, NULL, NULL, NULL, eb);
        if (rc == ERR_NOT_FOUND)
            rc = ERR_OK;
    }
    slot_leave(ds, slot);
    free(mine.at);
    if (rc == ERR_OK && mine.count > 0)
        atomic_fetch_add(&ds->forgets, 1);
    return rc;
}

static bool
all_durable(struct disks *ds, const struct places *p, const struct history *h)
{
    for (uint32_t i = 0; i < h->count; i++)
        for (unsigned k = 0; k < p->placed; k++)
            if (!h->at[i].ended && !is_durable(ds, p->at[k], &h->at[i].row.version))
                return false;
    return true;
}

/* ---- the calls ---- */

enum err
history_put_right(struct disks *ds, const struct disks_key *k, const struct places *p,
                  uint64_t damaged, struct put_right *done, bool *early,
                  struct errbuf *eb)
{
    struct history h = {0};
    enum err rc = p->unheard ? unheard(eb) : gather(ds, k, p, &h, eb);

    *early = false;
    for (unsigned i = 0; rc == ERR_OK && i < p->placed; i++)
        rc = bring_all(ds, k, &h, p->at[i], damaged, done, eb);
    if (rc == ERR_OK)
        rc = end_all(ds, k, p, &h, done, eb);
    if (rc == ERR_OK && p->count > p->placed && !all_durable(ds, p, &h)) {
        *early = true;
        rc = err_set(eb, ERR_BUSY, "its copies are not durable yet");
    }
    for (unsigned i = p->placed; rc == ERR_OK && i < p->count; i++)
        rc = take_away(ds, k, p->at[i], done, eb);
    free(h.at);
    return rc;
}

enum err
history_bring_home(struct disks *ds, const struct disks_key *k, unsigned to,
                   struct errbuf *eb)
{
    struct put_right done = {0};
    struct history h = {0};
    struct places p;
    enum err rc;

    places_of(ds, k, &p);
    rc = gather(ds, k, &p, &h, eb);
    if (rc == ERR_OK)
        rc = bring_all(ds, k, &h, to, 0, &done, eb);
    if (rc == ERR_OK)
        rc = end_all(ds, k, &p, &h, &done, eb);
    free(h.at);
    return rc;
}
