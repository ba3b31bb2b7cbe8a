/* The check compares the disk's index with the one that it made from the logs: every entry, byte by byte. */
#include "store/index/entry.h"
#include "store/index/index.h"
#include "store/index/memtable.h"
#include "store/index/run.h"
#include "store/offline/check.h"
#include "store/record/format.h"
#include "store/record/keys.h"
#include "store/recover/recovery.h"
#include "store/recover/replay.h"
#include "store/store_entry.h"
#include "store/wal/truncated.h"
#include "store/wal/wal.h"
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#define PAGE 256u

/* One index, walked in key order, page by page. */
struct side {
    struct index *index;
    struct arena *arena; /* owned */
    struct scan scan;
    struct page page;
    uint32_t at;
    bool began;
    unsigned char after[KEY_UPLOAD_MAX];
};

static void
side_begin(struct side *s, struct index *x, enum table table, uint64_t bucket)
{
    *s = (struct side){
        .index = x,
        .arena = arena_new(KIB(64), MIB(2)),
        .scan = {.table = table, .bucket = bucket, .inclusive = true, .max = PAGE}};
}

/* The coded entry at hand, or NULL at the end. */
static enum err
side_look(struct side *s, const struct coded_entry **out, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    assert(s->at <= s->page.count);
    *out = NULL;
    if (s->at == s->page.count && (!s->began || s->page.more)) {
        if (s->began) {
            struct span last = s->page.entries[s->page.count - 1].key;

            memcpy(s->after, last.at, last.len);
            s->scan.after = (struct span){(char *)s->after, last.len};
            s->scan.inclusive = false;
        }
        s->began = true;
        s->at = 0;
        arena_reset(s->arena);
        rc = index_scan(s->index, &s->scan, s->arena, &s->page, eb);
    }
    if (rc == ERR_OK && s->at < s->page.count)
        *out = &s->page.entries[s->at];
    return rc;
}

static const char *
entry_text(const struct coded_entry *e, char out[CHECK_KEY_TEXT])
{
    return check_key(e->bucket, e->key, out);
}

static void
tell(struct check *k, const struct coded_entry *ours, const struct coded_entry *real,
     int c)
{
    static const char *const what[TABLES_] = {
        [TABLE_OBJECTS] = "entry",
        [TABLE_PARTS] = "entry of a part",
        [TABLE_UPLOADS] = "entry of an upload",
        [TABLE_DONE] = "entry of a completed upload",
        [TABLE_PREPARED] = "entry of a prepared version",
        [TABLE_VERSIONS] = "entry of an older version"};
    char text[CHECK_KEY_TEXT];

    assert(ours != NULL || real != NULL);
    k->repair.index = true;
    if (c < 0)
        check_fault(k, "the index lacks the %s of %s", what[ours->table],
                    entry_text(ours, text));
    else if (c > 0)
        check_fault(k, "the index has a %s of %s that the logs do not know",
                    what[real->table], entry_text(real, text));
    else
        check_fault(k, "the index says something else than the logs in the %s of %s",
                    what[real->table], entry_text(real, text));
}

/* The same entry under another version: an object that compaction moved behind an in-doubt mark has the mark's when it comes from the
 * logs (change_moved.c), and one that was the current version until an older log was moved behind it has that of what ended
 * the one before. Both say which version it was born with. */
static bool
same_but_version(const struct coded_entry *a, const struct coded_entry *b)
{
    struct entry_key where = {a->table, a->bucket, a->key};
    unsigned char coded[ENTRY_CODED_MAX];
    struct entry x, y;
    struct version born_x, born_y;

    if ((a->table != TABLE_OBJECTS && a->table != TABLE_VERSIONS) ||
        entry_decode(&where, a->value, &x) != ERR_OK ||
        entry_decode(&where, b->value, &y) != ERR_OK ||
        (!entry_has_object(&x) && (x.flags & ENTRY_MARKER) == 0))
        return false;
    born_x = entry_born(&x);
    born_y = entry_born(&y);
    x.born = born_x;
    x.version = y.version;
    return version_cmp(&born_x, &born_y) == 0 &&
           span_eq((struct span){(char *)coded, entry_encode(&where, &x, coded)},
                   b->value);
}

/* An in-doubt mark that only the logs know: compaction drops the record that cleared it (gc/relocate.c), and without that the
 * remote is asked once more. `b`: NULL where the index has no such entry. */
static bool
same_but_in_doubt(const struct check *k, const struct coded_entry *a,
                  const struct coded_entry *b)
{
    struct entry_key where = {a->table, a->bucket, a->key};
    unsigned char coded[ENTRY_CODED_MAX];
    struct coded_entry cleared = *a;
    struct entry x, y;

    if (a->table != TABLE_OBJECTS ||
        (truncated_next_after(&k->disk->wals->truncated, STORE_CACHED, 0) == 0 &&
         !k->disk->recovery->after_gap) ||
        entry_decode(&where, a->value, &x) != ERR_OK || (x.flags & ENTRY_IN_DOUBT) == 0)
        return false;
    if (!entry_has_object(&x)) /* it is only the mark */
        return b == NULL || (entry_decode(&where, b->value, &y) == ERR_OK &&
                             (y.flags & ENTRY_TOMBSTONE) != 0);
    if (b == NULL)
        return false;
    x.flags &= ~(uint32_t)ENTRY_IN_DOUBT;
    cleared.value = (struct span){(char *)coded, entry_encode(&where, &x, coded)};
    return span_eq(cleared.value, b->value) || same_but_version(&cleared, b);
}

/* ---- what a start has dropped ---- */

static int
by_content(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct content_id));
}

bool
check_is_dropped(const struct check *k, const struct entry *entry)
{
    if (k->disk->recovery->drop_cached && (entry->flags & ENTRY_CACHED) != 0)
        return true;
    return k->dropped_count > 0 && bsearch(&entry->content, k->dropped, k->dropped_count,
                                           sizeof *k->dropped, by_content) != NULL;
}

/* The entry of an object or a part, in the class cached. */
static bool
cached_entry(const struct coded_entry *e, struct entry *out)
{
    struct entry_key where = {e->table, e->bucket, e->key};
    struct part_entry part;

    if (e->table == TABLE_OBJECTS)
        return entry_decode(&where, e->value, out) == ERR_OK &&
               (out->flags & ENTRY_CACHED) != 0 && entry_has_object(out);
    if (e->table != TABLE_PARTS || part_entry_decode(&where, e->value, &part) != ERR_OK)
        return false;
    *out = part.entry;
    return (out->flags & ENTRY_CACHED) != 0;
}

/* The cached log is damaged, so that nothing is known of the cached class but what the disk's index says. */
static bool
is_unknown(const struct check *k, const struct coded_entry *e)
{
    struct entry entry;

    return k->disk->recovery->drop_cached && cached_entry(e, &entry);
}

/* The logs have it and the index does not (`b`: NULL, or what is left of the key): bytes that were not synced before a power
 * cut were not there when the disk started. */
static bool
start_dropped(struct check *k, const struct coded_entry *a, const struct coded_entry *b)
{
    struct errbuf eb = {0};
    struct entry entry;
    bool there;

    assert(k->dropped_count <= k->dropped_room);
    if ((b != NULL && (a->table != TABLE_OBJECTS || !entry_is_tombstone(b->value))) ||
        !cached_entry(a, &entry) ||
        replay_row_is_intact(k->disk, &entry, &there, &eb) != ERR_OK || there)
        return false;
    if (k->dropped_count == k->dropped_room) {
        k->dropped_room = MAX(64u, 2 * k->dropped_room);
        k->dropped = xrealloc(k->dropped, k->dropped_room * sizeof *k->dropped);
    }
    k->dropped[k->dropped_count++] = entry.content;
    return true;
}

/* Compaction drops a completed upload whose object is gone; the index remembers it for a week. */
static bool
agree(struct check *k, const struct coded_entry *a, const struct coded_entry *b, int c,
      enum table table)
{
    assert(a != NULL || b != NULL);
    assert(table < TABLES_);
    if (is_unknown(k, c < 0 ? a : b))
        return true;
    if (c < 0)
        return same_but_in_doubt(k, a, NULL) || start_dropped(k, a, NULL);
    if (c > 0)
        return table == TABLE_DONE;
    return span_eq(a->value, b->value) || same_but_version(a, b) ||
           same_but_in_doubt(k, a, b) || start_dropped(k, a, b);
}

static enum err
compare(struct check *k, enum table table, uint64_t bucket, struct errbuf *eb)
{
    struct side *ours = xmalloc(sizeof *ours), *real = xmalloc(sizeof *real);
    const struct coded_entry *a, *b;
    enum err rc;

    side_begin(ours, k->disk->index, table, bucket);
    side_begin(real, k->real, table, bucket);
    for (;;) {
        int c;

        rc = side_look(ours, &a, eb);
        if (rc == ERR_OK)
            rc = side_look(real, &b, eb);
        if (rc != ERR_OK || (a == NULL && b == NULL))
            break;
        c = a == NULL ? 1 : b == NULL ? -1 : span_cmp(a->key, b->key);
        if (!agree(k, a, b, c, table))
            tell(k, a, b, c);
        ours->at += c <= 0;
        real->at += c >= 0;
    }
    arena_free(&ours->arena);
    arena_free(&real->arena);
    free(ours);
    free(real);
    return rc;
}

/* The smallest bucket >= from that either index has keys of. */
static enum err
next_bucket(struct check *k, uint64_t from, uint64_t *out, struct errbuf *eb)
{
    uint64_t ours, real;
    enum err rc = index_bucket(k->disk->index, from, &ours, eb), rc_real;

    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return rc;
    rc_real = index_bucket(k->real, from, &real, eb);
    if (rc_real != ERR_OK && rc_real != ERR_NOT_FOUND)
        return rc_real;
    if (rc != ERR_OK && rc_real != ERR_OK)
        return ERR_NOT_FOUND;
    *out = rc != ERR_OK ? real : rc_real != ERR_OK ? ours : MIN(ours, real);
    return ERR_OK;
}

static enum err
unreadable(struct check *k, const struct errbuf *why)
{
    k->repair.index = true;
    check_fault(k, "the index can't be read: %s", why->text);
    return ERR_OK;
}

static enum err
compare_all(struct check *k, struct errbuf *eb)
{
    uint64_t bucket = 0;
    struct errbuf why = {0};
    bool readable;
    enum err rc = index_verify(k->real, NULL, &readable, &why), verified = rc;

    if (rc == ERR_CORRUPT && !readable) /* nothing of it is worth a comparison */
        return unreadable(k, &why);
    for (rc = next_bucket(k, 0, &bucket, &why); rc == ERR_OK;
         rc = next_bucket(k, bucket, &bucket, &why)) {
        rc = compare(k, TABLE_OBJECTS, bucket, &why);
        if (rc == ERR_OK)
            rc = compare(k, TABLE_VERSIONS, bucket, &why);
        if (rc == ERR_OK)
            rc = compare(k, TABLE_UPLOADS, bucket, &why);
        if (rc != ERR_OK || bucket == UINT64_MAX)
            break;
        bucket++;
    }
    if (rc == ERR_OK || rc == ERR_NOT_FOUND)
        rc = compare(k, TABLE_PARTS, 0, &why);
    if (rc == ERR_OK)
        rc = compare(k, TABLE_PREPARED, 0, &why);
    if (rc == ERR_IO || rc == ERR_CORRUPT) /* the real one's: ours is whole */
        return unreadable(k, &why);
    if (rc != ERR_OK)
        *eb = why;
    else if (verified == ERR_CORRUPT && !k->repair.index) /* no table of the logs' */
        return unreadable(k, &why);
    return rc;
}

enum err
check_index(struct check *k, struct errbuf *eb)
{
    enum err rc = compare_all(k, eb);

    assert(k->real != NULL);
    if (k->dropped_count > 0)
        qsort(k->dropped, k->dropped_count, sizeof *k->dropped, by_content);
    return rc;
}
