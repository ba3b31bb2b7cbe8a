/* Where an entry goes in the index: keys in layers, and the two cursors by which most writes need no search. */
#include "store/index/index_internal.h"
#include "store/index/index_writer.h"
#include "store/record/keys.h"
#include <assert.h>
#include <string.h>

/* ---- a table that fills from empty ---- */

int
index_append_begin(struct index_writer *w)
{
    MDB_stat stat;
    int rc = mdb_stat(w->txn, w->x->dbi[TABLE_OBJECTS], &stat);

    w->append.on = rc == 0 && stat.ms_entries == 0;
    return rc;
}

bool
index_append_fits(const struct index_writer *w, enum table table,
                  const struct index_step *s)
{
    const struct index_append *a = &w->append;

    return a->on && table == TABLE_OBJECTS &&
           span_cmp((struct span){(const char *)s->coded, s->len},
                    (struct span){(const char *)a->last, a->len}) > 0;
}

int
index_append_put(struct index_writer *w, enum table table, MDB_val *key, MDB_val *value)
{
    struct index_append *a = &w->append;
    int rc =
        a->cursor != NULL ? 0 : mdb_cursor_open(w->txn, w->x->dbi[table], &a->cursor);

    assert(a->on && table == TABLE_OBJECTS);
    assert(key->mv_size <= sizeof a->last);
    memcpy(a->last, key->mv_data, key->mv_size);
    a->len = key->mv_size;
    return rc == 0 ? mdb_cursor_put(a->cursor, key, value, MDB_APPEND) : rc;
}

/* A write without the cursor may move the end of the table. */
static void
append_pause(struct index_writer *w)
{
    if (w->append.cursor != NULL)
        mdb_cursor_close(w->append.cursor);
    w->append.cursor = NULL;
}

/* ---- objects, by a cursor that stays ---- */

static int
objects_open(struct index_writer *w)
{
    return w->at != NULL ? 0 : mdb_cursor_open(w->txn, w->x->dbi[TABLE_OBJECTS], &w->at);
}

static void
objects_close(struct index_writer *w)
{
    if (w->at != NULL)
        mdb_cursor_close(w->at);
    w->at = NULL;
}

static int
layer_get(struct index_writer *w, enum table table, MDB_val *key, MDB_val *value)
{
    int rc;

    if (table != TABLE_OBJECTS)
        return mdb_get(w->txn, w->x->dbi[table], key, value);
    rc = objects_open(w);
    return rc == 0 ? mdb_cursor_get(w->at, key, value, MDB_SET) : rc;
}

int
index_put(struct index_writer *w, enum table table, MDB_val *key, MDB_val *value,
          unsigned flags)
{
    int rc;

    append_pause(w);
    if (table != TABLE_OBJECTS)
        return mdb_put(w->txn, w->x->dbi[table], key, value, flags);
    rc = objects_open(w);
    return rc == 0 ? mdb_cursor_put(w->at, key, value, flags) : rc;
}

static int
layer_del(struct index_writer *w, enum table table, MDB_val *key)
{
    append_pause(w);
    if (table == TABLE_OBJECTS) /* pages may join: no cursor may stand on one */
        objects_close(w);
    return mdb_del(w->txn, w->x->dbi[table], key, NULL);
}

/* ---- keys in layers ---- */

int
index_space_of(struct index_writer *w, uint64_t bucket, bool make, uint32_t *space)
{
    unsigned char coded[8], bytes[INDEX_SPACE_BYTES];
    MDB_val key = {sizeof coded, coded}, value;
    int rc;

    *space = w->space;
    if (w->space != 0 && w->bucket == bucket)
        return 0;
    for (unsigned i = 0; i < sizeof coded; i++)
        coded[i] = (unsigned char)(bucket >> (8 * (7 - i)));
    rc = mdb_get(w->txn, w->x->dbi[DB_SPACES], &key, &value);
    if (rc == 0 && !index_space_decode(bucket, &value, space))
        return MDB_CORRUPTED;
    if (rc == MDB_NOTFOUND && make) {
        *space = w->meta.next_space++;
        assert(*space != 0 && w->meta.next_space != 0);
        index_space_encode(bucket, *space, bytes);
        value = (MDB_val){sizeof bytes, bytes};
        rc = index_put_pair(w, DB_SPACES, &key, NULL, &value);
    }
    if (rc == 0) {
        w->bucket = bucket;
        w->space = *space;
    }
    return rc;
}

static int
load_step(struct index_writer *w, enum table table, uint32_t space, struct span part,
          struct index_step *s)
{
    MDB_val key, value;
    struct index_cell cell;
    int rc;

    s->space = space; /* field by field: the arrays need no zeros */
    s->layer = 0;
    s->exists = false;
    s->entry = (struct span){"", 0};
    s->len = key_code(space, part, s->coded);
    if (index_append_fits(w, table, s))
        return 0;
    key = (MDB_val){s->len, s->coded};
    rc = layer_get(w, table, &key, &value);
    if (rc == MDB_NOTFOUND)
        return 0;
    if (rc != 0)
        return rc;
    if (!index_cell_parse(&key, &value, &cell) || cell.entry.len > sizeof s->copied)
        return MDB_CORRUPTED;
    s->exists = true;
    s->sum = index_pair_sum(table, &key, &value);
    s->layer = cell.layer;
    memcpy(s->copied, cell.entry.at, cell.entry.len);
    s->entry = (struct span){(const char *)s->copied, cell.entry.len};
    return 0;
}

int
index_store_step(struct index_writer *w, enum table table, struct index_step *s)
{
    unsigned char bytes[INDEX_CELL_MAX];
    MDB_val key = {s->len, (void *)(uintptr_t)s->coded}, value;
    struct index_cell cell = {.entry = s->entry, .layer = s->layer};
    bool gone = s->entry.len == 0 && s->layer == 0;

    assert(s->len >= 4 && s->len <= KEY_CODED_MAX);
    assert(s->layer == 0 || s->len == KEY_CODED_MAX);
    if (gone && !s->exists)
        return 0;
    value = (MDB_val){index_cell_encode(&key, &cell, bytes), bytes};
    if (s->exists)
        index_tally_goes(w, table, &key, s->sum);
    s->exists = !gone;
    s->sum = gone ? 0 : index_pair_sum(table, &key, &value);
    if (!gone)
        index_tally_comes(w, table, &key, s->sum);
    if (index_append_fits(w, table, s))
        return index_append_put(w, table, &key, &value);
    return gone ? layer_del(w, table, &key) : index_put(w, table, &key, &value, 0);
}

int
index_go_down(struct index_writer *w, enum table table, const struct coded_entry *e,
              bool make, struct index_path *p)
{
    uint32_t space;
    int rc = index_space_of(w, e->bucket, make, &space);

    assert(index_is_layered(table) && e->table == table);
    p->count = key_layers(e->key.len);
    assert(p->count > 0 && p->count <= KEY_LAYERS_MAX);
    for (unsigned i = 0; rc == 0; i++) {
        struct index_step *s = &p->at[i];

        rc = load_step(w, table, space, key_layer(e->key, i), s);
        if (rc != 0 || i + 1 == p->count)
            break;
        if (s->layer == 0) {
            if (!make)
                return MDB_NOTFOUND;
            s->layer = w->meta.next_space++;
            assert(s->layer != 0);
            rc = index_store_step(w, table, s);
        }
        space = s->layer;
    }
    return rc;
}

int
index_go_up(struct index_writer *w, enum table table, struct index_path *p)
{
    int rc = 0;

    for (unsigned i = p->count - 1; rc == 0 && i > 0; i--) {
        unsigned char coded[KEY_CODED_MAX];
        MDB_val key = {key_code(p->at[i].space, SPAN(""), coded), coded}, value;
        MDB_cursor *cursor;
        bool empty;

        assert(p->at[i - 1].layer == p->at[i].space);
        if (p->at[i].entry.len > 0 || p->at[i].layer != 0)
            break;
        rc = mdb_cursor_open(w->txn, w->x->dbi[table], &cursor);
        if (rc != 0)
            break;
        rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
        empty = rc == MDB_NOTFOUND ||
                (rc == 0 && (key.mv_size < 4 || memcmp(key.mv_data, coded, 4) != 0));
        mdb_cursor_close(cursor);
        if (rc != 0 && rc != MDB_NOTFOUND)
            break;
        rc = 0;
        if (!empty)
            break;
        p->at[i - 1].layer = 0;
        rc = index_store_step(w, table, &p->at[i - 1]);
    }
    return rc;
}
