#include "store/index/list.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/metrics.h"
#include "rt/fiber.h"
#include "store/core/core.h"
#include "store/index/entry.h"
#include "store/index/index.h"
#include "store/index/memtable.h"
#include "store/index/run.h"
#include "store/index/suspect.h"
#include "store/record/format.h"
#include "store/record/keys.h"
#include "store/store_entry.h"
#include "store/store_replica.h"
#include "store/store_upload.h"
#include "store/store_version.h"

/* Keys of one round, from each side: about 0.1 ms, after which others have their turn. */
#define ROUND_MIN     8u
#define ROUND_MAX     256u
#define SCRATCH_FIRST KIB(64)
#define SCRATCH_MAX   MIB(2) /* two pages of the longest keys with all they hold */

/* A walk over memtable and index, in rounds. In a round both give a page that begins at the same place; they are
 * merged up to where the shorter of the pages that may go on ends. */
struct merge {
    struct memtable *memtable;
    struct index *index;
    struct arena *scratch; /* owned; a round's pages */
    struct scan scan; /* of the next round; `after` is `place` once a round is over */
    struct page from_memtable, from_index;
    uint32_t memtable_at, index_at;
    struct span
        bound; /* keys up to it can be trusted; unbounded when neither page says more */
    bool bounded, began;
    char place[KEY_UPLOAD_MAX];
};

static struct merge *
list_merge_new(struct memtable *t, struct index *x, const struct scan *s)
{
    struct merge *m = xmalloc(sizeof *m);

    assert(s->table < TABLES_);
    assert(s->after.len <= sizeof m->place);
    m->memtable = t;
    m->index = x;
    m->scratch = arena_new(SCRATCH_FIRST, SCRATCH_MAX);
    m->scan = *s;
    m->scan.max = MIN(MAX(s->max, ROUND_MIN), ROUND_MAX);
    m->from_memtable = m->from_index = (struct page){0};
    m->memtable_at = m->index_at = 0;
    m->bounded = m->began = false;
    return m;
}

static void
list_merge_free(struct merge **mp)
{
    arena_free(&(*mp)->scratch);
    free(*mp);
    *mp = NULL;
}

static void
bound_by(struct merge *m, const struct page *p)
{
    struct span last;

    if (!p->more)
        return;
    assert(p->count > 0);
    last = p->entries[p->count - 1].key;
    if (!m->bounded || span_cmp(last, m->bound) < 0)
        m->bound = last;
    m->bounded = true;
}

/* The memtable first: what leaves it meanwhile is in the index by then. */
static enum err
list_next_round(struct merge *m, struct errbuf *eb)
{
    enum err rc;

    if (m->began) {
        assert(m->bounded && m->bound.len <= sizeof m->place);
        memcpy(m->place, m->bound.at, m->bound.len);
        m->scan.after = (struct span){m->place, m->bound.len};
        m->scan.inclusive = false;
        rt_yield();
    }
    m->began = true;
    m->bounded = false;
    m->memtable_at = m->index_at = 0;
    arena_reset(m->scratch);
    rc = memtable_scan(m->memtable, &m->scan, m->scratch, &m->from_memtable);
    if (rc != ERR_OK)
        return err_set(eb, rc, "list: no memory for a page of %u keys", m->scan.max);
    rc = index_scan(m->index, &m->scan, m->scratch, &m->from_index, eb); /* may switch */
    bound_by(m, &m->from_memtable);
    bound_by(m, &m->from_index);
    return rc;
}

/* The next key with its value, good until the next call; *over when there is none. Gone ones and tombstones
 * come too. Ties: what is in the memtable is newer. May switch. */
static enum err
list_merge_next(struct merge *m, struct coded_entry *out, bool *in_index, bool *over,
                struct errbuf *eb)
{
    *over = false;
    for (;;) {
        struct coded_entry *t = m->memtable_at < m->from_memtable.count
                                    ? &m->from_memtable.entries[m->memtable_at]
                                    : NULL;
        struct coded_entry *i = m->index_at < m->from_index.count
                                    ? &m->from_index.entries[m->index_at]
                                    : NULL;
        int c = t == NULL ? 1 : i == NULL ? -1 : span_cmp(t->key, i->key);
        struct coded_entry *first = c <= 0 ? t : i;
        enum err rc;

        if (first != NULL && (!m->bounded || span_cmp(first->key, m->bound) <= 0)) {
            assert(first->table == m->scan.table && first->bucket == m->scan.bucket);
            *out = *first;
            *in_index = c > 0;
            m->memtable_at += c <= 0;
            m->index_at += c >= 0;
            return ERR_OK;
        }
        if (m->began && !m->bounded) {
            *over = true;
            return ERR_OK;
        }
        rc = list_next_round(m, eb);
        if (rc != ERR_OK)
            return rc;
    }
}

static enum err
list_corrupt(struct index *x, bool in_index, struct span key, struct errbuf *eb)
{
    if (in_index)
        index_set_hiding(x);
    metric_add(M_CHECKSUM_FAILURES, 0, 1);
    return err_set(eb, ERR_CORRUPT,
                   "the index entry of \"%.*s\" in the %s has a wrong sum",
                   (int)MIN(key.len, 100u), key.at, in_index ? "index" : "memtable");
}

static enum err
list_no_room(struct errbuf *eb, uint32_t max)
{
    return err_set(eb, ERR_BUSY, "list: no memory for a page of %u keys", max);
}

/* ---- the three lists ---- */

/* What a list is made of. `take` turns a coded entry into item `at`: ERR_NOT_FOUND says that it is none (gone). */
struct listing {
    enum err (*take)(struct listing *l, const struct coded_entry *e, uint32_t at);
    struct arena *arena;
    void *items;
    size_t item_size;
    uint32_t max, count;
    bool more;
    bool any;                        /* tombstones that are kept, too */
    enum list_which which;           /* of uploads */
    const struct suspects *suspects; /* borrowed */
};

/* The pointer to a null version is no version. */
static bool
is_pointer(const struct coded_entry *e)
{
    struct span last = span_from(e->key, e->key.len - MIN(e->key.len, 16u));

    for (size_t i = 0; i < last.len; i++)
        if ((unsigned char)last.at[i] != 0xFF)
            return false;
    return e->table == TABLE_VERSIONS;
}

/* Of a suspect key the entry may be older than what is lost: who compares disks must not take it for the truth. */
static bool
list_is_suspect(const struct listing *l, const struct coded_entry *e)
{
    struct entry_key where = {e->table, e->bucket, e->key};
    struct entry entry;

    return suspects_any(l->suspects) && e->table == TABLE_OBJECTS &&
           entry_decode(&where, e->value, &entry) == ERR_OK &&
           suspects_verify(l->suspects, run_key_hash(e->bucket, e->key), &entry, NULL) !=
               ERR_OK;
}

/* What this list does not show. */
static bool
list_is_hidden(const struct listing *l, const struct coded_entry *e)
{
    if (e->value.len == 0 || is_pointer(e))
        return true;
    if (e->table == TABLE_UPLOADS)
        return l->which != LIST_ALL &&
               upload_entry_is_copy(e->value) != (l->which == LIST_COPIES);
    if (e->table != TABLE_OBJECTS || !entry_is_tombstone(e->value))
        return false;
    return !l->any || !(entry_is_kept(e->value) || entry_is_marker(e->value));
}

static enum err
list_fill(struct listing *l, struct memtable *t, struct index *x, struct scan *s,
          struct errbuf *eb)
{
    struct merge *m;
    struct coded_entry e;
    bool in_index, over;
    enum err rc = ERR_OK;

    assert(l->take != NULL && l->item_size > 0);
    l->count = 0;
    l->more = false;
    l->suspects = index_suspects(x);
    l->items = arena_try(l->arena, MAX(l->max, 1u) * l->item_size);
    if (l->items == NULL)
        return list_no_room(eb, l->max);
    s->max = l->max < ROUND_MAX ? l->max + 1 : ROUND_MAX; /* one more answers *more */
    m = list_merge_new(t, x, s);
    for (;;) {
        rc = list_merge_next(m, &e, &in_index, &over, eb);
        if (rc != ERR_OK || over)
            break;
        if (list_is_hidden(l, &e) || list_is_suspect(l, &e))
            continue;
        if (l->count == l->max) {
            l->more = true;
            break;
        }
        rc = l->take(l, &e, l->count);
        if (rc == ERR_CORRUPT)
            rc = list_corrupt(x, in_index, e.key, eb);
        else if (rc == ERR_BUSY)
            rc = list_no_room(eb, l->max);
        if (rc != ERR_OK)
            break;
        l->count++;
    }
    list_merge_free(&m);
    assert(l->count <= l->max);
    assert(!l->more || l->count == l->max);
    return rc;
}

static bool
keep_key(struct arena *a, struct span key, struct span *out)
{
    char *at = arena_try(a, key.len + 1);

    if (at != NULL)
        memcpy(at, key.at, key.len);
    *out = (struct span){at, key.len};
    return at != NULL;
}

static enum err
list_take_object(struct listing *l, const struct coded_entry *e, uint32_t at)
{
    struct store_entry *out = (struct store_entry *)l->items + at;
    struct entry_key where = {e->table, e->bucket, e->key};

    if (entry_decode(&where, e->value, &out->entry) != ERR_OK)
        return ERR_CORRUPT;
    return keep_key(l->arena, e->key, &out->key) ? ERR_OK : ERR_BUSY;
}

static enum err
list_entries(struct memtable *t, struct index *x, uint64_t bucket, struct span after,
             bool inclusive, bool any, uint32_t max, struct arena *a,
             struct store_entry **out, uint32_t *count, bool *more, struct errbuf *eb)
{
    struct scan s = {
        .table = TABLE_OBJECTS, .bucket = bucket, .after = after, .inclusive = inclusive};
    struct listing l = {.take = list_take_object,
                        .arena = a,
                        .item_size = sizeof **out,
                        .max = max,
                        .any = any};
    enum err rc = list_fill(&l, t, x, &s, eb);

    *out = l.items;
    *count = l.count;
    *more = l.more;
    return rc;
}

enum err
list_objects(struct memtable *t, struct index *x, uint64_t bucket, struct span after,
             bool inclusive, uint32_t max, struct arena *a, struct store_entry **out,
             uint32_t *count, bool *more, struct errbuf *eb)
{
    return list_entries(t, x, bucket, after, inclusive, false, max, a, out, count, more,
                        eb);
}

enum err
list_objects_any(struct memtable *t, struct index *x, uint64_t bucket, struct span after,
                 bool inclusive, uint32_t max, struct arena *a, struct store_entry **out,
                 uint32_t *count, bool *more, struct errbuf *eb)
{
    return list_entries(t, x, bucket, after, inclusive, true, max, a, out, count, more,
                        eb);
}

static enum err
list_take_prepared(struct listing *l, const struct coded_entry *e, uint32_t at)
{
    struct store_prepared *out = (struct store_prepared *)l->items + at;
    struct entry_key where = {e->table, e->bucket, e->key};
    struct prepared_entry p;

    if (prepared_entry_decode(&where, e->value, &p) != ERR_OK)
        return ERR_CORRUPT;
    *out = (struct store_prepared){.bucket = p.bucket,
                                   .content = p.entry.content,
                                   .prepared = p.entry.version,
                                   .coordinator = p.coordinator,
                                   .size = p.entry.size,
                                   .mtime_ms = p.entry.mtime_ms,
                                   .upload = p.upload};
    return keep_key(l->arena, p.key, &out->key) ? ERR_OK : ERR_BUSY;
}

enum err
list_prepared(struct memtable *t, struct index *x, const struct content_id *after,
              uint32_t max, struct arena *a, struct store_prepared **out, uint32_t *count,
              bool *more, struct errbuf *eb)
{
    struct scan s = {.table = TABLE_PREPARED, .inclusive = after == NULL};
    struct listing l = {
        .take = list_take_prepared, .arena = a, .item_size = sizeof **out, .max = max};
    enum err rc;

    if (after != NULL)
        s.after = (struct span){(const char *)after->bytes, sizeof after->bytes};
    rc = list_fill(&l, t, x, &s, eb);
    *out = l.items;
    *count = l.count;
    *more = l.more;
    return rc;
}

static enum err
list_take_upload(struct listing *l, const struct coded_entry *e, uint32_t at)
{
    struct store_upload *out = (struct store_upload *)l->items + at;
    struct entry_key where = {e->table, e->bucket, e->key};
    struct upload_entry u;
    char key[STORE_KEY_MAX];
    size_t key_len;

    if (upload_entry_decode(&where, e->value, &u) != ERR_OK ||
        !key_upload_parse(e->key, key, &key_len, &out->id))
        return ERR_CORRUPT;
    out->begun_ms = u.begun_ms;
    return keep_key(l->arena, (struct span){key, key_len}, &out->key) ? ERR_OK : ERR_BUSY;
}

enum err
list_uploads(struct memtable *t, struct index *x, uint64_t bucket, enum list_which which,
             struct span after_key, const struct upload_id *after_id, uint32_t max,
             struct arena *a, struct store_upload **out, uint32_t *count, bool *more,
             struct errbuf *eb)
{
    struct upload_id last;
    unsigned char from[KEY_UPLOAD_MAX];
    struct scan s = {
        .table = TABLE_UPLOADS, .bucket = bucket, .after = {(char *)from, 0}};
    struct listing l = {.take = list_take_upload,
                        .arena = a,
                        .item_size = sizeof **out,
                        .max = max,
                        .which = which};
    enum err rc;

    memset(&last, 0xFF, sizeof last); /* larger than any id */
    if (after_id != NULL || after_key.len > 0)
        s.after.len = key_upload(after_key, after_id != NULL ? after_id : &last, from);
    rc = list_fill(&l, t, x, &s, eb);
    *out = l.items;
    *count = l.count;
    *more = l.more;
    return rc;
}

static enum err
list_take_part(struct listing *l, const struct coded_entry *e, uint32_t at)
{
    struct list_part *out = (struct list_part *)l->items + at;
    struct entry_key where = {e->table, e->bucket, e->key};
    struct upload_id id;

    if (part_entry_decode(&where, e->value, &out->part) != ERR_OK ||
        !key_part_parse(e->key, &id, &out->number))
        return ERR_CORRUPT;
    return ERR_OK;
}

enum err
list_parts(struct memtable *t, struct index *x, const struct upload_id *id,
           uint32_t after, uint32_t max, struct arena *a, struct list_part **out,
           uint32_t *count, bool *more, struct errbuf *eb)
{
    unsigned char from[KEY_PART_BYTES];
    struct scan s = {.table = TABLE_PARTS,
                     .prefix = {(const char *)id->id.bytes, sizeof id->id.bytes},
                     .after = {(char *)from, sizeof from}};
    struct listing l = {
        .take = list_take_part, .arena = a, .item_size = sizeof **out, .max = max};
    enum err rc;

    key_part(id, after, from);
    rc = list_fill(&l, t, x, &s, eb);
    *out = l.items;
    *count = l.count;
    *more = l.more;
    return rc;
}

static enum err
list_take_older(struct listing *l, const struct coded_entry *e, uint32_t at)
{
    struct entry_key where = {e->table, e->bucket, e->key};

    return entry_decode(&where, e->value, (struct entry *)l->items + at);
}

enum err
list_older(struct memtable *t, struct index *x, uint64_t bucket, struct span key,
           const struct version *after, uint32_t max, struct arena *a, struct entry **out,
           uint32_t *count, bool *more, struct errbuf *eb)
{
    unsigned char from[KEY_UPLOAD_MAX];
    size_t len = key_version(key, after, from);
    struct scan s = {.table = TABLE_VERSIONS,
                     .bucket = bucket,
                     .prefix = {(char *)from, len - 16},
                     .after = {(char *)from, len}};
    struct listing l = {
        .take = list_take_older, .arena = a, .item_size = sizeof **out, .max = max};
    enum err rc = list_fill(&l, t, x, &s, eb);

    *out = l.items;
    *count = l.count;
    *more = l.more;
    return rc;
}

/* ---- versions: current entries and older ones side by side, both in order of keys ---- */

struct side {
    struct merge *merge; /* owned */
    bool over;
    struct span key; /* in the merge's page, or in `name` */
    struct entry entry;
    char name[STORE_KEY_MAX];
};

static enum err
side_next(struct side *s, struct index *x, struct errbuf *eb)
{
    struct coded_entry e;
    bool in_index;
    size_t len;

    for (;;) {
        enum err rc = list_merge_next(s->merge, &e, &in_index, &s->over, eb);
        struct entry_key where = {e.table, e.bucket, e.key};
        struct version born;

        if (rc != ERR_OK || s->over)
            return rc;
        if (e.value.len == 0 || is_pointer(&e) ||
            (e.table == TABLE_OBJECTS && entry_is_tombstone(e.value) &&
             !entry_is_marker(e.value)))
            continue;
        if (entry_decode(&where, e.value, &s->entry) != ERR_OK ||
            (e.table == TABLE_VERSIONS &&
             !key_version_parse(e.key, s->name, &len, &born)))
            return list_corrupt(x, in_index, e.key, eb);
        s->key = e.table == TABLE_VERSIONS ? (struct span){s->name, len} : e.key;
        return ERR_OK;
    }
}

static enum err
keep_version(struct arena *a, const struct side *s, bool latest,
             struct store_version *out)
{
    *out = (struct store_version){.entry = s->entry, .latest = latest};
    return keep_key(a, s->key, &out->key) ? ERR_OK : ERR_BUSY;
}

/* Where both sides begin, so that what follows (after_key, after) comes next. */
static void
begin_sides(struct side *now, struct side *older, struct memtable *t, struct index *x,
            uint64_t bucket, struct span after_key, bool inclusive,
            const struct version *after, uint32_t max)
{
    const struct version first = {UINT64_MAX, UINT64_MAX}, last = {0};
    unsigned char from[KEY_UPLOAD_MAX];
    const struct version *at = after != NULL ? after : inclusive ? &first : &last;
    struct scan of_now = {.table = TABLE_OBJECTS,
                          .bucket = bucket,
                          .after = after_key,
                          .inclusive = inclusive || after != NULL,
                          .max = max};
    struct scan of_older = {.table = TABLE_VERSIONS,
                            .bucket = bucket,
                            .after = {(char *)from, 0},
                            .max = max};

    if (after_key.len > 0)
        of_older.after.len = key_version(after_key, at, from);
    now->merge = list_merge_new(t, x, &of_now);
    older->merge = list_merge_new(t, x, &of_older);
    /* The first round reads it; it lies here no longer then. */
    memcpy(older->merge->place, from, of_older.after.len);
    older->merge->scan.after.at = older->merge->place;
}

enum err
list_versions(struct memtable *t, struct index *x, uint64_t bucket, struct span after_key,
              bool inclusive, const struct version *after, uint32_t max, struct arena *a,
              struct store_version **out, uint32_t *count, bool *more, struct errbuf *eb)
{
    struct side *now = xcalloc(2, sizeof *now), *older = now + 1;
    enum err rc;

    *more = false;
    *count = 0;
    *out = arena_try(a, MAX(max, 1u) * sizeof **out);
    begin_sides(now, older, t, x, bucket, after_key, inclusive, after, max);
    rc = *out == NULL ? list_no_room(eb, max) : side_next(now, x, eb);
    /* Of the marker's own key the current version comes again only where it is older than the marker: what was
     * current then is deleted. */
    if (rc == ERR_OK && after != NULL && !now->over && span_eq(now->key, after_key)) {
        struct version born = entry_born(&now->entry);

        if (version_cmp(&born, after) >= 0)
            rc = side_next(now, x, eb);
    }
    if (rc == ERR_OK)
        rc = side_next(older, x, eb);
    while (rc == ERR_OK && !(now->over && older->over)) {
        bool current = older->over || (!now->over && span_cmp(now->key, older->key) <= 0);
        struct side *next = current ? now : older;

        if (*count == max) {
            *more = true;
            break;
        }
        rc = keep_version(a, next, current, *out + *count);
        if (rc == ERR_BUSY)
            rc = list_no_room(eb, max);
        if (rc == ERR_OK) {
            ++*count;
            rc = side_next(next, x, eb);
        }
    }
    assert(*count <= max);
    list_merge_free(&now->merge);
    list_merge_free(&older->merge);
    free(now);
    return rc;
}

enum err
list_bucket_empty(struct memtable *t, struct index *x, uint64_t bucket, bool *empty,
                  struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(4), KIB(64));
    struct store_version *objects;
    uint32_t count = 0;
    bool more;
    /* A delete marker is something too: S3 keeps the bucket for it. */
    enum err rc = list_versions(t, x, bucket, SPAN(""), true, NULL, 1, a, &objects,
                                &count, &more, eb);

    *empty = count == 0;
    arena_free(&a);
    return rc;
}
