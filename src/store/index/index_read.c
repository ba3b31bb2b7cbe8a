/* Reading the index: what is asked of LMDB; index_call.h has where that runs. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "base/mem.h"
#include "store/index/entry.h"
#include "store/index/index.h"
#include "store/index/index_call.h"
#include "store/index/index_internal.h"
#include "store/index/index_resident.h"
#include "store/index/memtable.h"
#include "store/index/run.h"
#include "store/record/keys.h"
#include "store/store_entry.h"

/* ---- one key ---- */

static void
space_key(uint64_t bucket, unsigned char bytes[8])
{
    for (unsigned i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(bucket >> (8 * (7 - i)));
}

static bool
knows_space(const struct index_call *c, uint64_t bucket)
{
    unsigned at = (unsigned)(bucket % SPACE_CACHE);

    return c->mine != NULL && c->mine->cache[at].space != 0 &&
           c->mine->cache[at].bucket == bucket;
}

static int
space_of(struct index_call *c, MDB_txn *txn, uint64_t bucket, uint32_t *space)
{
    unsigned at = (unsigned)(bucket % SPACE_CACHE);
    unsigned char bytes[8];
    MDB_val key = {sizeof bytes, bytes}, value;
    int rc;

    if (knows_space(c, bucket)) {
        *space = c->mine->cache[at].space;
        return 0;
    }
    space_key(bucket, bytes);
    rc = mdb_get(txn, c->x->dbi[DB_SPACES], &key, &value);
    if (rc != 0)
        return rc;
    if (!index_space_decode(bucket, &value, space))
        return MDB_CORRUPTED;
    if (c->mine != NULL) {
        c->mine->cache[at].bucket = bucket;
        c->mine->cache[at].space = *space;
    }
    return 0;
}

struct find {
    enum table table;
    uint64_t bucket;
    struct span key;
    unsigned char *value;
    size_t *len;
};

static int
find_take_value(const struct find *f, struct span v)
{
    assert(f->value != NULL && f->len != NULL);
    if (v.len == 0)
        return MDB_NOTFOUND;
    if (v.len > VALUE_CODED_MAX)
        return MDB_CORRUPTED;
    memcpy(f->value, v.at, v.len);
    *f->len = v.len;
    return 0;
}

static int
find_layered(struct index_call *c, MDB_txn *txn)
{
    struct find *f = c->arg;
    unsigned char coded[KEY_CODED_MAX];
    unsigned layers = key_layers(f->key.len);
    uint32_t space;
    int rc = space_of(c, txn, f->bucket, &space);

    for (unsigned i = 0; rc == 0; i++) {
        MDB_val key = {key_code(space, key_layer(f->key, i), coded), coded}, value;
        struct index_cell cell;

        rc = mdb_get(txn, c->x->dbi[f->table], &key, &value);
        if (rc != 0)
            break;
        if (!index_cell_parse(&key, &value, &cell))
            return MDB_CORRUPTED;
        if (i + 1 == layers)
            return find_take_value(f, cell.entry);
        if (cell.layer == 0)
            return MDB_NOTFOUND;
        space = cell.layer;
    }
    return rc;
}

/* Rows of objects and versions lie in the leaf that has their key. Keys of several layers are for the pool. */
static enum index_resident
resident_layered(struct index_call *c, MDB_txn *txn, uint64_t *page)
{
    struct find *f = c->arg;
    unsigned char coded[KEY_CODED_MAX], bytes[8];
    MDB_val key = {sizeof bytes, bytes};
    enum index_resident look = INDEX_PAGE_RESIDENT;
    uint32_t space;

    space_key(f->bucket, bytes);
    if (!knows_space(c, f->bucket))
        look = index_resident(c->x, txn, DB_SPACES, &key, page);
    if (look != INDEX_PAGE_RESIDENT || space_of(c, txn, f->bucket, &space) != 0)
        return look; /* run() tells why */
    key = (MDB_val){key_code(space, f->key, coded), coded};
    return index_resident(c->x, txn, f->table, &key, page);
}

static bool
may_check_resident(const struct find *f)
{
    return (f->table == TABLE_OBJECTS || f->table == TABLE_VERSIONS) &&
           key_layers(f->key.len) == 1;
}

static int
find_flat(struct index_call *c, MDB_txn *txn)
{
    struct find *f = c->arg;
    MDB_val key = {f->key.len, (void *)(uintptr_t)f->key.at}, value;
    MDB_dbi dbi = c->x->dbi[f->table];
    int rc = dbi == NO_DBI ? MDB_NOTFOUND : mdb_get(txn, dbi, &key, &value);

    return rc != 0 ? rc : find_take_value(f, (struct span){value.mv_data, value.mv_size});
}

enum err
index_find(struct index *x, enum table table, uint64_t bucket, struct span key,
           struct index_want *want, unsigned char *value, size_t *len, struct errbuf *eb)
{
    struct find f = {
        .table = table, .bucket = bucket, .key = key, .value = value, .len = len};
    struct index_call c = {.x = x,
                           .run = index_is_layered(table) ? find_layered : find_flat,
                           .look = may_check_resident(&f) ? resident_layered : NULL,
                           .arg = &f};
    enum err rc;

    assert(table < TABLES_);
    *len = 0;
    rc = want != NULL ? index_call_now(&c, want, "lookup", eb)
                      : index_call(&c, "lookup", eb);
    if (rc == ERR_NOT_FOUND && index_is_hiding(x))
        return err_set(eb, ERR_CORRUPT,
                       "the index is damaged: what it lacks may be there all the same "
                       "(the next start rebuilds it)");
    return rc;
}

/* ---- where a key is missing ---- */

struct near {
    uint64_t bucket;
    struct span key;
    uint32_t space;
    bool met; /* the key stands beside the place to which a search for it comes */
};

/* An entry under a key that is not its own has a wrong sum. One of another space is not known whose it is. */
static bool
pair_is_valid(const struct near *n, const MDB_val *key, const MDB_val *value)
{
    struct entry_key where = {.table = TABLE_OBJECTS, .bucket = n->bucket};
    unsigned char ours[KEY_CODED_MAX];
    struct index_cell cell;
    struct entry entry;
    size_t prefix = key_code(n->space, SPAN(""), ours);

    if (key->mv_size < prefix || !index_cell_parse(key, value, &cell))
        return false;
    if (memcmp(key->mv_data, ours, prefix) != 0 || cell.entry.len == 0)
        return true;
    where.key = (struct span){(const char *)key->mv_data + prefix, key->mv_size - prefix};
    return entry_decode(&where, cell.entry, &entry) == ERR_OK;
}

static int
key_order(const MDB_val *key, const unsigned char *coded, size_t len)
{
    return span_cmp((struct span){key->mv_data, key->mv_size},
                    (struct span){(const char *)coded, len});
}

/* Where a bit of a branch leads a search to another page than its own, what stands beside the place it came to is not on both sides of
 * the key: LMDB goes from page to page there without a comparison. */
static int
resident_near(struct index_call *c, MDB_txn *txn)
{
    struct near *n = c->arg;
    unsigned char coded[KEY_CODED_MAX];
    size_t len;
    MDB_val key, value, ours;
    MDB_cursor *cursor;
    int rc = c->x->dbi[TABLE_OBJECTS] == NO_DBI ? MDB_NOTFOUND
                                                : space_of(c, txn, n->bucket, &n->space);

    if (rc != 0)
        return rc;
    rc = mdb_cursor_open(txn, c->x->dbi[TABLE_OBJECTS], &cursor);
    if (rc != 0)
        return rc;
    len = key_code(n->space, n->key, coded);
    key = (MDB_val){len, coded};
    rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    n->met = rc == 0 && key_order(&key, coded, len) == 0;
    if (n->met &&
        mdb_get(txn, c->x->dbi[TABLE_OBJECTS], &(MDB_val){len, coded}, &ours) != 0)
        rc = MDB_CORRUPTED; /* no search comes to it */
    if (rc == 0 && (key_order(&key, coded, len) < 0 || !pair_is_valid(n, &key, &value)))
        rc = MDB_CORRUPTED;
    if (rc == 0 || rc == MDB_NOTFOUND)
        rc = mdb_cursor_get(cursor, &key, &value, rc == 0 ? MDB_PREV : MDB_LAST);
    if (rc == 0 && (key_order(&key, coded, len) >= 0 || !pair_is_valid(n, &key, &value)))
        rc = MDB_CORRUPTED;
    mdb_cursor_close(cursor);
    return rc;
}

enum err
index_near(struct index *x, uint64_t bucket, struct span key, struct errbuf *eb)
{
    struct near n = {.bucket = bucket, .key = key};
    struct index_call c = {.x = x, .run = resident_near, .arg = &n};
    enum err rc;

    if (key_layers(key.len) > 1)
        return ERR_OK;
    rc = index_call(&c, "lookup", eb);
    if (rc == ERR_OK && n.met)
        return ERR_EXISTS;
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

struct segment_find {
    unsigned char key[INDEX_SEGMENT_KEY];
    struct index_segment *out;
};

static int
find_segment(struct index_call *c, MDB_txn *txn)
{
    struct segment_find *f = c->arg;
    MDB_val key = {sizeof f->key, f->key}, value;
    int rc = mdb_get(txn, c->x->dbi[DB_SEGMENTS], &key, &value);

    if (rc == 0 && !index_segment_decode(f->key, &value, f->out))
        rc = MDB_CORRUPTED;
    return rc;
}

enum err
index_segment(struct index *x, enum store_class class, uint32_t segment,
              struct index_segment *out, struct errbuf *eb)
{
    struct segment_find f = {.out = out};
    struct index_call c = {.x = x, .run = find_segment, .arg = &f};

    *out = (struct index_segment){0};
    index_segment_key(class, segment, f.key);
    return index_call(&c, "segment", eb);
}

/* Pages of a small database, so that no loop is held for long. */
#define SMALL_PAGE 256u

struct segment_page {
    unsigned char from[INDEX_SEGMENT_KEY];
    uint32_t count;
    bool more;
    struct {
        unsigned char key[INDEX_SEGMENT_KEY];
        struct index_segment seen;
    } at[SMALL_PAGE];
};

static int
segment_page(struct index_call *c, MDB_txn *txn)
{
    struct segment_page *p = c->arg;
    MDB_val key = {sizeof p->from, p->from}, value;
    MDB_cursor *cursor;
    int rc = mdb_cursor_open(txn, c->x->dbi[DB_SEGMENTS], &cursor);

    if (rc != 0)
        return rc;
    p->count = 0;
    p->more = false;
    for (rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE); rc == 0;
         rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
        if (p->count == SMALL_PAGE) {
            p->more = true;
            break;
        }
        if (key.mv_size != INDEX_SEGMENT_KEY ||
            !index_segment_decode(key.mv_data, &value, &p->at[p->count].seen)) {
            rc = MDB_CORRUPTED;
            break;
        }
        memcpy(p->at[p->count++].key, key.mv_data, key.mv_size);
    }
    if (rc == 0 && p->more)
        memcpy(p->from, key.mv_data, MIN(key.mv_size, sizeof p->from));
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

enum err
index_segments(struct index *x,
               void (*on_segment)(void *arg, enum store_class class, uint32_t segment,
                                  const struct index_segment *seen),
               void *arg, struct errbuf *eb)
{
    struct segment_page *p = xcalloc(1, sizeof *p);
    struct index_call c = {.x = x, .run = segment_page, .arg = p};
    enum err rc;

    do {
        rc = index_call(&c, "segments", eb);
        for (uint32_t i = 0; rc == ERR_OK && i < p->count; i++) {
            struct cursor key = cursor_of(p->at[i].key, INDEX_SEGMENT_KEY);
            unsigned class = (unsigned)take_be(&key, 1);

            if (class < STORE_CLASSES_)
                on_segment(arg, (enum store_class) class, (uint32_t)take_be(&key, 4),
                           &p->at[i].seen);
        }
    } while (rc == ERR_OK && p->more);
    free(p);
    return rc;
}

struct usage_page {
    uint64_t from;
    uint32_t count;
    bool more;
    struct index_usage at[SMALL_PAGE];
};

static int
usage_page(struct index_call *c, MDB_txn *txn)
{
    struct usage_page *p = c->arg;
    unsigned char bytes[8];
    MDB_val key = {sizeof bytes, bytes}, value;
    MDB_cursor *cursor;
    int rc = mdb_cursor_open(txn, c->x->dbi[DB_BUCKETS], &cursor);

    if (rc != 0)
        return rc;
    p->count = 0;
    p->more = false;
    index_usage_key(p->from, bytes);
    for (rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE); rc == 0;
         rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
        if (p->count == ARRAY_LEN(p->at)) {
            p->more = true;
            break;
        }
        if (key.mv_size != sizeof bytes ||
            !index_usage_decode(key.mv_data, &value, &p->at[p->count])) {
            rc = MDB_CORRUPTED;
            break;
        }
        p->count++;
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

enum err
index_usage(struct index *x, void (*on_usage)(void *arg, const struct index_usage *u),
            void *arg, struct errbuf *eb)
{
    struct usage_page *p = xcalloc(1, sizeof *p);
    struct index_call c = {.x = x, .run = usage_page, .arg = p};
    enum err rc;

    do {
        rc = index_call(&c, "buckets", eb);
        for (uint32_t i = 0; rc == ERR_OK && i < p->count; i++)
            on_usage(arg, &p->at[i]);
        if (p->count > 0)
            p->from = p->at[p->count - 1].bucket + 1;
    } while (rc == ERR_OK && p->more);
    free(p);
    return rc;
}

static int
find_bucket_usage(struct index_call *c, MDB_txn *txn)
{
    uint64_t *bucket = c->arg;
    unsigned char bytes[8];
    MDB_val key = {sizeof bytes, bytes}, value;
    struct cursor coded;
    MDB_cursor *cursor;
    int rc = mdb_cursor_open(txn, c->x->dbi[DB_SPACES], &cursor);

    if (rc != 0)
        return rc;
    space_key(*bucket, bytes);
    rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    if (rc == 0) {
        uint32_t space;

        coded = cursor_of(key.mv_data, key.mv_size);
        *bucket = take_be(&coded, 8);
        if (coded.bad || !index_space_decode(*bucket, &value, &space))
            rc = MDB_CORRUPTED;
    }
    mdb_cursor_close(cursor);
    return rc;
}

enum err
index_bucket(struct index *x, uint64_t from, uint64_t *out, struct errbuf *eb)
{
    struct index_call c = {.x = x, .run = find_bucket_usage, .arg = out};

    *out = from;
    return index_call(&c, "buckets", eb);
}

/* ---- a page of keys ---- */

struct walk {
    const struct scan *scan;
    struct arena *arena;
    struct page *page;
    struct index *x;
    MDB_txn *txn;
    MDB_dbi dbi;
    char *name; /* the key so far, layer by layer; room for KEY_UPLOAD_MAX */
    bool over;  /* the page is full, or the prefix has ended */
    bool no_room;
};

/* One entry of the page: name[0, len). */
static void
scan_emit(struct walk *w, size_t len, struct span value)
{
    struct coded_entry *e = &w->page->entries[w->page->count];
    char *at;

    assert(!w->over && len <= KEY_UPLOAD_MAX);
    assert(w->page->count <= w->scan->max);
    if (!span_starts((struct span){w->name, len}, w->scan->prefix)) {
        w->over = true; /* the scan began at the prefix: this is behind it */
        return;
    }
    if (w->page->count == w->scan->max) {
        w->page->more = w->over = true;
        return;
    }
    at = arena_try(w->arena, len + value.len + 1);
    if (at == NULL) {
        w->no_room = w->over = true;
        return;
    }
    memcpy(at, w->name, len);
    memcpy(at + len, value.at, value.len);
    *e = (struct coded_entry){
        w->scan->table, w->scan->bucket, {at, len}, {at + len, value.len}};
    w->page->count++;
}

#ifdef FB_TEST_HOOKS
_Atomic uint64_t index_entries_walked;
#define COUNT_ENTRY() (void)index_entries_walked++
#else
#define COUNT_ENTRY() (void)0
#endif

/* One space: its entries from `seek` on, and what lies in the layers below them, in key_order. `base` bytes of the
 * name stand. Recursion ends with the longest key: KEY_LAYERS_MAX deep. */
static int
walk_space(struct walk *w, uint32_t space, size_t base, struct span seek, bool inclusive)
{
    struct span first = {seek.at, MIN(seek.len, (size_t)KEY_LAYER_BYTES)};
    unsigned char coded[KEY_CODED_MAX];
    MDB_val key = {key_code(space, first, coded), coded}, value;
    MDB_cursor *cursor;
    int rc = mdb_cursor_open(w->txn, w->dbi, &cursor);

    assert(base <= KEY_UPLOAD_MAX);
    if (rc != 0)
        return rc;
    for (rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE); rc == 0 && !w->over;
         rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
        struct cursor bytes = cursor_of(key.mv_data, key.mv_size);
        bool other = take_be(&bytes, 4) != space;
        struct span part = {(const char *)bytes.at, cursor_left(&bytes)};
        bool on_seek = span_eq(part, first);
        struct index_cell cell;

        COUNT_ENTRY();
        if (bytes.bad || other)
            break;
        if (part.len > KEY_LAYER_BYTES || base + part.len > KEY_UPLOAD_MAX ||
            !index_cell_parse(&key, &value, &cell)) {
            rc = MDB_CORRUPTED;
            break;
        }
        memcpy(w->name + base, part.at, part.len);
        if (cell.entry.len > 0 &&
            (!on_seek || (inclusive && seek.len <= KEY_LAYER_BYTES)))
            scan_emit(w, base + part.len, cell.entry);
        if (cell.layer != 0 && !w->over) {
            bool within = on_seek && seek.len > KEY_LAYER_BYTES;

            rc = walk_space(w, cell.layer, base + part.len,
                            within ? span_from(seek, KEY_LAYER_BYTES) : SPAN(""),
                            within ? inclusive : true);
            if (rc != 0)
                break;
        }
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

/* Where to begin: behind `after`, or with the prefix. */
static struct span
start_of(const struct scan *s, bool *inclusive)
{
    bool from_prefix = span_cmp(s->after, s->prefix) < 0;

    *inclusive = from_prefix || s->inclusive;
    return from_prefix ? s->prefix : s->after;
}

static int
scan_layered(struct index_call *c, MDB_txn *txn)
{
    struct walk *w = c->arg;
    bool inclusive;
    struct span from = start_of(w->scan, &inclusive);
    uint32_t space;
    int rc = space_of(c, txn, w->scan->bucket, &space);

    if (rc != 0)
        return rc == MDB_NOTFOUND ? 0 : rc;
    w->txn = txn;
    return walk_space(w, space, 0, from, inclusive);
}

static int
scan_flat(struct index_call *c, MDB_txn *txn)
{
    struct walk *w = c->arg;
    bool inclusive;
    struct span from = start_of(w->scan, &inclusive);
    MDB_val key = {from.len, (void *)(uintptr_t)from.at}, value;
    MDB_cursor *cursor;
    int rc;

    if (w->dbi == NO_DBI)
        return 0;
    rc = mdb_cursor_open(txn, w->dbi, &cursor);
    if (rc != 0)
        return rc;
    for (rc = mdb_cursor_get(cursor, &key, &value,
                             from.len > 0 ? MDB_SET_RANGE : MDB_FIRST);
         rc == 0 && !w->over; rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
        if (key.mv_size > KEY_UPLOAD_MAX) {
            rc = MDB_CORRUPTED;
            break;
        }
        memcpy(w->name, key.mv_data, key.mv_size);
        if (inclusive || !span_eq((struct span){w->name, key.mv_size}, from))
            scan_emit(w, key.mv_size, (struct span){value.mv_data, value.mv_size});
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

enum err
index_scan(struct index *x, const struct scan *s, struct arena *a, struct page *out,
           struct errbuf *eb)
{
    struct walk w = {.scan = s, .arena = a, .page = out, .x = x, .dbi = x->dbi[s->table]};
    struct index_call c = {
        .x = x, .run = index_is_layered(s->table) ? scan_layered : scan_flat, .arg = &w};
    enum err rc;

    assert(s->table < TABLES_ && s->max > 0);
    *out = (struct page){0};
    out->entries = arena_try(a, s->max * sizeof *out->entries);
    w.name = arena_try(a, KEY_UPLOAD_MAX);
    if (out->entries == NULL || w.name == NULL)
        return err_set(eb, ERR_BUSY, "index: no memory for a page of %u keys", s->max);
    rc = index_call(&c, "list", eb);
    if (rc == ERR_OK && w.no_room)
        rc = err_set(eb, ERR_BUSY, "index: no memory for a page of %u keys", s->max);
    return rc;
}
