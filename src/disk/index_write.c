/* Writing the index: one batch, one durable commit, from begin to commit in one job of the pool. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "disk/health.h"
#include "disk/index_ahead.h"
#include "disk/index_internal.h"
#include "disk/usage.h"
#include "rt/sim.h"

#define DONE_KEEP_MS                                                                     \
    (7 * 24 * 3600 * INT64_C(1000)) /* completed uploads are remembered so long */
#define DONE_SWEEP 256u             /* of them looked at with each batch */

/* The way to a key: a cell in each layer. Copied out, since a write moves what LMDB shows: `row` lies in `copied`, or in the
 * run that it comes from. */
struct step {
    unsigned char coded[KEY_CODED_MAX];
    size_t len;
    bool exists;
    uint64_t sum; /* of the pair that stands there; 0: none */
    uint32_t space, layer;
    struct span row; /* empty: none */
    unsigned char copied[ROW_CODED_MAX];
};
struct path {
    struct step at[KEY_LAYERS_MAX];
    unsigned count;
};

/* A table that was empty when the batch began takes keys in ascending order without a search: what is behind all that it
 * has is not there yet, and goes to the end of its last page. */
struct append {
    bool on;
    unsigned char last[KEY_CODED_MAX]; /* no key of the table is larger */
    size_t len;
    MDB_cursor *
        cursor; /* at the table's end; NULL once somebody else has written. Ends with the transaction */
};

#define SEGMENT_SLOTS 256u
struct writer {
    struct index *x;
    const struct batch *batch;
    struct append append; /* of the objects */
    MDB_cursor *
        at; /* in the objects, where the key before is or would be: keys come in order, so the next one is mostly on the
                     * same page, to which nothing has to be gone down. NULL: not open. Ends with the transaction */
    /* Owned, and freed outside the guard. */
    struct index_ahead *ahead;
    struct path *path;

    MDB_txn *txn;
    struct index_meta meta; /* takes effect with the commit */
    uint64_t bucket;        /* the last one asked for, and its space; 0: none */
    uint32_t space;
    struct run_segment *segments; /* owned: changes of this batch */
    uint32_t segment_count, segment_room;
    uint32_t segment_at[SEGMENT_SLOTS]; /* where one of these was met last, + 1 */
    struct index_usage *usage;          /* owned: the same by bucket */
    uint32_t usage_count, usage_room;
    unsigned char done_at[16];
    int64_t now_ms;
    int rc;
};

/* ---- the tally, and pairs by their key ---- */

static void
tally_goes(struct writer *w, uint64_t sum)
{
    w->meta.tally.pairs--;
    w->meta.tally.sum -= sum;
}

static void
tally_comes(struct writer *w, uint64_t sum)
{
    w->meta.tally.pairs++;
    w->meta.tally.sum += sum;
}

/* `before`: what stands there, NULL where nothing does. */
static int
put_pair(struct writer *w, unsigned db, MDB_val *key, const MDB_val *before,
         MDB_val *value)
{
    if (before != NULL)
        tally_goes(w, index_pair_sum(db, key, before));
    tally_comes(w, index_pair_sum(db, key, value));
    return mdb_put(w->txn, w->x->dbi[db], key, value, 0);
}

static int
del_pair(struct writer *w, unsigned db, MDB_val *key, const MDB_val *before)
{
    tally_goes(w, index_pair_sum(db, key, before));
    return mdb_del(w->txn, w->x->dbi[db], key, NULL);
}

static int
del_at(struct writer *w, unsigned db, MDB_cursor *cursor, const MDB_val *key,
       const MDB_val *value)
{
    tally_goes(w, index_pair_sum(db, key, value));
    return mdb_cursor_del(cursor, 0);
}

/* ---- segments: living and dead bytes ---- */

static void
count_segment(struct writer *w, enum disk_class class, uint32_t segment, int64_t living,
              int64_t dead)
{
    uint32_t *met = &w->segment_at[(DISK_CLASSES_ * segment + class) % SEGMENT_SLOTS];
    uint32_t i = *met - 1; /* never met: larger than all */

    if (i >= w->segment_count || w->segments[i].segment != segment ||
        w->segments[i].class != class)
        for (i = 0; i < w->segment_count; i++)
            if (w->segments[i].segment == segment && w->segments[i].class == class)
                break;
    if (i == w->segment_count) {
        if (w->segment_count == w->segment_room) {
            w->segment_room = MAX(16u, 2 * w->segment_room);
            w->segments = xrealloc(w->segments, w->segment_room * sizeof *w->segments);
        }
        w->segments[w->segment_count++] =
            (struct run_segment){.class = class, .segment = segment};
    }
    *met = i + 1;
    w->segments[i].living += living;
    w->segments[i].dead += dead;
}

/* Does the row refer to a place of its own: a member of a log, a body, a manifest? */
static bool
has_place(const struct row *row)
{
    return (row->flags & ROW_TOMBSTONE) == 0 && row->segment != 0;
}

static enum disk_class
class_of(const struct row *row)
{
    return (row->flags & ROW_CACHED) != 0 ? DISK_CACHED : DISK_NATIVE;
}

/* A record of metadata holds its log. */
static void
count_apart(struct writer *w, const struct row *row, enum disk_class class, int64_t by)
{
    if ((row->flags & ROW_META_APART) != 0)
        count_segment(w, class, row->meta_segment, by, 0);
}

static void
count_row(struct writer *w, const struct row *row, bool comes)
{
    enum disk_class class = class_of(row);
    int64_t size = row_weight(row);

    if ((row->flags & ROW_TOMBSTONE) == 0)
        w->meta.objects += comes ? 1 : UINT64_MAX;
    if (has_place(row))
        count_segment(w, class, row->segment, comes ? size : -size, comes ? 0 : size);
    count_apart(w, row, class, comes ? RECORD_WEIGHT : -RECORD_WEIGHT);
}

/* An older version. The bytes of one that comes were counted as dead when another took its place in `objects`. */
static void
count_older(struct writer *w, const struct row *row, bool comes)
{
    enum disk_class class = class_of(row);
    int64_t size = row_weight(row);

    if (has_place(row))
        count_segment(w, class, row->segment, comes ? size : -size, comes ? -size : size);
    count_apart(w, row, class, comes ? RECORD_WEIGHT : -RECORD_WEIGHT);
}

/* `before` NULL: there was none. A row that only changed its flags or metadata stays where it is. */
static void
count_change(struct writer *w, const struct row *before, const struct row *after)
{
    if (before != NULL && after != NULL && has_place(before) && has_place(after) &&
        before->segment == after->segment && before->offset == after->offset &&
        ((before->flags | after->flags) & ROW_META_APART) == 0)
        return;
    if (before != NULL)
        count_row(w, before, false);
    if (after != NULL)
        count_row(w, after, true);
}

static int
write_segments(struct writer *w)
{
    MDB_dbi dbi = w->x->dbi[DB_SEGMENTS];

    for (uint32_t i = 0; i < w->segment_count; i++) {
        const struct run_segment *change = &w->segments[i];
        unsigned char coded[INDEX_SEGMENT_KEY], bytes[INDEX_SEGMENT_BYTES];
        MDB_val key = {sizeof coded, coded}, value, old;
        struct index_segment now = {0};
        bool had;
        int rc;

        index_segment_key(change->class, change->segment, coded);
        rc = mdb_get(w->txn, dbi, &key, &old);
        if (rc != 0 && rc != MDB_NOTFOUND)
            return rc;
        had = rc == 0;
        if (had && !index_segment_decode(coded, &old, &now))
            return MDB_CORRUPTED;
        now.living += change->living;
        now.dead = MAX(now.dead + change->dead, 0);
        index_segment_encode(coded, &now, bytes);
        value = (MDB_val){sizeof bytes, bytes};
        rc = put_pair(w, DB_SEGMENTS, &key, had ? &old : NULL, &value);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* ---- buckets: living objects and their bytes; older versions as a bucket of their own ---- */

/* Changes come in order of buckets: the last one is the one, or there is none yet. */
static void
count_usage(struct writer *w, uint64_t bucket, const struct row *before,
            const struct row *after)
{
    struct index_usage *u;

    if (w->usage_count == 0 || w->usage[w->usage_count - 1].bucket != bucket) {
        if (w->usage_count == w->usage_room) {
            w->usage_room = MAX(16u, 2 * w->usage_room);
            w->usage = xrealloc(w->usage, w->usage_room * sizeof *w->usage);
        }
        w->usage[w->usage_count++] = (struct index_usage){.bucket = bucket};
    }
    u = &w->usage[w->usage_count - 1];
    if (before != NULL && row_has_object(before)) {
        u->objects--;
        u->bytes -= (int64_t)before->size;
    }
    if (after != NULL && row_has_object(after)) {
        u->objects++;
        u->bytes += (int64_t)after->size;
    }
}

static int
write_usage(struct writer *w)
{
    MDB_dbi dbi = w->x->dbi[DB_BUCKETS];

    for (uint32_t i = 0; i < w->usage_count; i++) {
        struct index_usage now = w->usage[i], before;
        unsigned char coded[8], bytes[INDEX_USAGE_BYTES];
        MDB_val key = {sizeof coded, coded}, value, old;
        bool had;
        int rc;

        index_usage_key(now.bucket, coded);
        rc = mdb_get(w->txn, dbi, &key, &old);
        if (rc != 0 && rc != MDB_NOTFOUND)
            return rc;
        had = rc == 0;
        if (had) {
            if (!index_usage_decode(coded, &old, &before))
                return MDB_CORRUPTED;
            now.objects += before.objects;
            now.bytes += before.bytes;
        }
        index_usage_encode(coded, &now, bytes);
        value = (MDB_val){sizeof bytes, bytes};
        if (now.objects == 0 && now.bytes == 0)
            rc = had ? del_pair(w, DB_BUCKETS, &key, &old) : 0;
        else
            rc = put_pair(w, DB_BUCKETS, &key, had ? &old : NULL, &value);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* ---- a table that fills from empty ---- */

static int
append_begin(struct writer *w)
{
    MDB_stat stat;
    int rc = mdb_stat(w->txn, w->x->dbi[TABLE_OBJECTS], &stat);

    w->append.on = rc == 0 && stat.ms_entries == 0;
    return rc;
}

static bool
append_fits(const struct writer *w, enum table table, const struct step *s)
{
    const struct append *a = &w->append;

    return a->on && table == TABLE_OBJECTS &&
           span_cmp((struct span){(const char *)s->coded, s->len},
                    (struct span){(const char *)a->last, a->len}) > 0;
}

static int
append_put(struct writer *w, enum table table, MDB_val *key, MDB_val *value)
{
    struct append *a = &w->append;
    int rc =
        a->cursor != NULL ? 0 : mdb_cursor_open(w->txn, w->x->dbi[table], &a->cursor);

    memcpy(a->last, key->mv_data, key->mv_size);
    a->len = key->mv_size;
    return rc == 0 ? mdb_cursor_put(a->cursor, key, value, MDB_APPEND) : rc;
}

/* What is written without the cursor may move the end of the table, which it takes for known. */
static void
append_pause(struct writer *w)
{
    if (w->append.cursor != NULL)
        mdb_cursor_close(w->append.cursor);
    w->append.cursor = NULL;
}

/* ---- objects, by a cursor that stays ---- */

static int
objects_open(struct writer *w)
{
    return w->at != NULL ? 0 : mdb_cursor_open(w->txn, w->x->dbi[TABLE_OBJECTS], &w->at);
}

static void
objects_close(struct writer *w)
{
    if (w->at != NULL)
        mdb_cursor_close(w->at);
    w->at = NULL;
}

static int
get(struct writer *w, enum table table, MDB_val *key, MDB_val *value)
{
    int rc;

    if (table != TABLE_OBJECTS)
        return mdb_get(w->txn, w->x->dbi[table], key, value);
    rc = objects_open(w);
    return rc == 0 ? mdb_cursor_get(w->at, key, value, MDB_SET) : rc;
}

static int
put(struct writer *w, enum table table, MDB_val *key, MDB_val *value, unsigned flags)
{
    int rc;

    append_pause(w);
    if (table != TABLE_OBJECTS)
        return mdb_put(w->txn, w->x->dbi[table], key, value, flags);
    rc = objects_open(w);
    return rc == 0 ? mdb_cursor_put(w->at, key, value, flags) : rc;
}

static int
del(struct writer *w, enum table table, MDB_val *key)
{
    append_pause(w);
    if (table == TABLE_OBJECTS) /* pages may join: nobody stands on one meanwhile */
        objects_close(w);
    return mdb_del(w->txn, w->x->dbi[table], key, NULL);
}

/* ---- keys in layers ---- */

static int
space_of(struct writer *w, uint64_t bucket, bool make, uint32_t *space)
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
        index_space_encode(bucket, *space, bytes);
        value = (MDB_val){sizeof bytes, bytes};
        rc = put_pair(w, DB_SPACES, &key, NULL, &value);
    }
    if (rc == 0) {
        w->bucket = bucket;
        w->space = *space;
    }
    return rc;
}

static int
load_step(struct writer *w, enum table table, uint32_t space, struct span part,
          struct step *s)
{
    MDB_val key, value;
    struct index_cell cell;
    int rc;

    s->space = space; /* field by field: the arrays need no zeros */
    s->layer = 0;
    s->exists = false;
    s->row = (struct span){"", 0};
    s->len = key_code(space, part, s->coded);
    if (append_fits(w, table, s))
        return 0;
    key = (MDB_val){s->len, s->coded};
    rc = get(w, table, &key, &value);
    if (rc == MDB_NOTFOUND)
        return 0;
    if (rc != 0)
        return rc;
    if (!index_cell_parse(&key, &value, &cell) || cell.row.len > sizeof s->copied)
        return MDB_CORRUPTED;
    s->exists = true;
    s->sum = index_pair_sum(table, &key, &value);
    s->layer = cell.layer;
    memcpy(s->copied, cell.row.at, cell.row.len);
    s->row = (struct span){(const char *)s->copied, cell.row.len};
    return 0;
}

/* Writes the step as it stands, or removes what has neither row nor layer. */
static int
store_step(struct writer *w, enum table table, struct step *s)
{
    unsigned char bytes[INDEX_CELL_MAX];
    MDB_val key = {s->len, (void *)(uintptr_t)s->coded}, value;
    struct index_cell cell = {.row = s->row, .layer = s->layer};
    bool gone = s->row.len == 0 && s->layer == 0;

    if (gone && !s->exists)
        return 0;
    value = (MDB_val){index_cell_encode(&key, &cell, bytes), bytes};
    if (s->exists)
        tally_goes(w, s->sum);
    s->exists = !gone;
    s->sum = gone ? 0 : index_pair_sum(table, &key, &value);
    if (!gone)
        tally_comes(w, s->sum);
    if (append_fits(w, table, s))
        return append_put(w, table, &key, &value);
    return gone ? del(w, table, &key) : put(w, table, &key, &value, 0);
}

/* Goes down to the last layer; makes layers that are missing. MDB_NOTFOUND: not there and not made. */
static int
go_down(struct writer *w, enum table table, const struct entry *e, bool make,
        struct path *p)
{
    uint32_t space;
    int rc = space_of(w, e->bucket, make, &space);

    p->count = key_layers(e->key.len);
    for (unsigned i = 0; rc == 0; i++) {
        struct step *s = &p->at[i];

        rc = load_step(w, table, space, key_layer(e->key, i), s);
        if (rc != 0 || i + 1 == p->count)
            break;
        if (s->layer == 0) {
            if (!make)
                return MDB_NOTFOUND;
            s->layer = w->meta.next_space++;
            rc = store_step(w, table, s);
        }
        space = s->layer;
    }
    return rc;
}

/* A layer in which nothing is left goes, and so do the layers above it. */
static int
go_up(struct writer *w, enum table table, struct path *p)
{
    int rc = 0;

    for (unsigned i = p->count - 1; rc == 0 && i > 0; i--) {
        unsigned char coded[KEY_CODED_MAX];
        MDB_val key = {key_code(p->at[i].space, SPAN(""), coded), coded}, value;
        MDB_cursor *cursor;
        bool empty;

        if (p->at[i].row.len > 0 || p->at[i].layer != 0)
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
        rc = store_step(w, table, &p->at[i - 1]);
    }
    return rc;
}

/* ---- entries ---- */

/* Parts of an upload that has ended. */
static int
sweep_parts(struct writer *w, struct span upload)
{
    struct span id = span_from(upload, upload.len - sizeof(struct upload_id));
    MDB_val key = {id.len, (void *)(uintptr_t)id.at}, value;
    MDB_cursor *cursor;
    int rc = mdb_cursor_open(w->txn, w->x->dbi[TABLE_PARTS], &cursor);

    if (rc != 0)
        return rc;
    for (rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE); rc == 0;
         rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
        if (key.mv_size < id.len || memcmp(key.mv_data, id.at, id.len) != 0)
            break;
        rc = del_at(w, TABLE_PARTS, cursor, &key, &value);
        if (rc != 0)
            break;
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

/* An object's row takes the place of `s`, unless a newer one stands there. */
static int
change_object(struct writer *w, const struct ahead_entry *ae, struct step *s, bool gone)
{
    const struct entry *e = &ae->e;
    struct row_home home = {e->table, e->bucket, e->key};
    struct span old = s->row;
    struct row before;
    const struct row *after = gone ? NULL : &ae->row;
    bool had = old.len > 0;

    if (ae->bad)
        return MDB_CORRUPTED;
    if (had && row_decode(&home, old, &before) != ERR_OK) {
        index_set_bad(
            w->x); /* what comes from the log is right, and heals this row at least */
        had = false;
    } else if (had && !row_is_newer(e->table, old, e->value)) {
        return MDB_KEYEXIST;
    }
    count_change(w, had ? &before : NULL, after);
    count_usage(w, e->bucket, had ? &before : NULL, after);
    return 0;
}

/* The record of an upload's begin holds its log. */
static int
change_upload(struct writer *w, const struct entry *e, const struct step *s)
{
    struct row_home home = {e->table, e->bucket, e->key};
    struct span old = s->row;
    struct upload_row before, after;

    if (e->value.len > 0 && upload_row_decode(&home, e->value, &after) != ERR_OK)
        return MDB_CORRUPTED; /* our own memory */
    if (old.len > 0 && upload_row_decode(&home, old, &before) != ERR_OK)
        index_set_bad(w->x);
    else if (old.len > 0)
        count_segment(w, before.class, before.segment, -RECORD_WEIGHT, 0);
    if (e->value.len > 0)
        count_segment(w, after.class, after.segment, RECORD_WEIGHT, 0);
    return 0;
}

static int
change_older(struct writer *w, const struct entry *e, const struct step *s)
{
    struct row_home home = {e->table, e->bucket, e->key};
    struct span old = s->row;
    struct row before, after;
    bool had = old.len > 0, gone = e->value.len == 0;

    if (!gone && row_decode(&home, e->value, &after) != ERR_OK)
        return MDB_CORRUPTED; /* our own memory */
    if (had && row_decode(&home, old, &before) != ERR_OK) {
        index_set_bad(w->x);
        had = false;
    }
    if (had)
        count_older(w, &before, false);
    if (!gone)
        count_older(w, &after, true);
    count_usage(w, usage_of_older(e->bucket), had ? &before : NULL, gone ? NULL : &after);
    return 0;
}

/* An object whose key is new, as most are: one search tells that, and is where it goes. MDB_KEYEXIST: it is not, or that is not
 * the way to tell; nothing has changed. */
static int
insert_object(struct writer *w, const struct ahead_entry *ae, struct step *s)
{
    const struct entry *e = &ae->e;
    unsigned char bytes[INDEX_CELL_MAX];
    struct index_cell cell = {.row = e->value};
    MDB_val key, value;
    uint32_t space;
    int rc =
        key_layers(e->key.len) == 1 ? space_of(w, e->bucket, true, &space) : MDB_KEYEXIST;

    if (rc != 0)
        return rc;
    s->len = key_code(space, e->key, s->coded);
    if (append_fits(w, e->table, s))
        return MDB_KEYEXIST;
    if (ae->bad)
        return MDB_CORRUPTED;
    key = (MDB_val){s->len, s->coded};
    value = (MDB_val){index_cell_encode(&key, &cell, bytes), bytes};
    rc = put(w, e->table, &key, &value, MDB_NOOVERWRITE);
    if (rc != 0)
        return rc;
    tally_comes(w, index_pair_sum(e->table, &key, &value));
    count_change(w, NULL, &ae->row);
    count_usage(w, e->bucket, NULL, &ae->row);
    return 0;
}

/* What nearly all entries of a rebuild are: an object behind all that its table has, of one layer, in the bucket of the one
 * before. *done false: it is not. */
static int
append_object(struct writer *w, const struct ahead_entry *ae, bool *done)
{
    const struct append *a = &w->append;
    const struct entry *e = &ae->e;
    unsigned char coded[KEY_CODED_MAX];
    MDB_val key = {0, coded}, value = {e->value.len, (void *)(uintptr_t)e->value.at};

    *done = false;
    if (!a->on || a->cursor == NULL || e->table != TABLE_OBJECTS ||
        e->key.len >= KEY_LAYER_BYTES || e->bucket != w->bucket || w->space == 0 ||
        ae->bad || (ae->row.flags & ROW_TOMBSTONE) != 0)
        return 0;
    key.mv_size = key_code(w->space, e->key, coded);
    if (span_cmp((struct span){(const char *)coded, key.mv_size},
                 (struct span){(const char *)a->last, a->len}) <= 0)
        return 0;
    *done = true;
    count_change(w, NULL, &ae->row);
    count_usage(w, e->bucket, NULL, &ae->row);
    tally_comes(w, index_pair_sum(TABLE_OBJECTS, &key, &value));
    return append_put(w, TABLE_OBJECTS, &key, &value);
}

static int
apply_layered(struct writer *w, const struct ahead_entry *ae, struct path *p)
{
    const struct entry *e = &ae->e;
    bool gone = e->value.len == 0 ||
                (e->table == TABLE_OBJECTS && !w->x->options.keep_tombstones &&
                 row_is_tombstone(e->value) && !row_is_marker(e->value) &&
                 !row_is_kept(e->value));
    struct step *last;
    int rc = e->table == TABLE_OBJECTS && !gone ? insert_object(w, ae, &p->at[0])
                                                : MDB_KEYEXIST;

    if (rc != MDB_KEYEXIST)
        return rc;
    rc = go_down(w, e->table, e, !gone, p);
    if (rc == 0) {
        last = &p->at[p->count - 1];
        if (e->table == TABLE_OBJECTS)
            rc = change_object(w, ae, last, gone);
        else if (e->table == TABLE_VERSIONS)
            rc = change_older(w, e, last);
        else if (e->table == TABLE_UPLOADS)
            rc = change_upload(w, e, last);
        if (rc == MDB_KEYEXIST)
            return 0;
        assert(e->value.len <= sizeof last->copied);
        last->row = gone ? (struct span){"", 0} : e->value;
        if (rc == 0)
            rc = store_step(w, e->table, last);
        if (rc == 0 && gone)
            rc = go_up(w, e->table, p);
    }
    if (rc == MDB_NOTFOUND)
        rc = 0;
    if (rc == 0 && gone && e->table == TABLE_UPLOADS)
        rc = sweep_parts(w, e->key);
    return rc;
}

/* A prepared version holds its place as an object would. `old`: NULL where there was none. */
static int
change_prepared(struct writer *w, const struct entry *e, const MDB_val *old)
{
    struct row_home home = {e->table, 0, e->key};
    struct prepared_row p;

    if (old != NULL) {
        struct span bytes = {old->mv_data, old->mv_size};

        if (prepared_row_decode(&home, bytes, &p) != ERR_OK)
            index_set_bad(w->x);
        else if (has_place(&p.row))
            count_segment(w, class_of(&p.row), p.row.segment, -row_weight(&p.row), 0);
    }
    if (e->value.len == 0)
        return 0;
    if (prepared_row_decode(&home, e->value, &p) != ERR_OK)
        return MDB_CORRUPTED; /* our own memory */
    if (has_place(&p.row))
        count_segment(w, class_of(&p.row), p.row.segment, row_weight(&p.row), 0);
    return 0;
}

static int
apply_flat(struct writer *w, const struct entry *e)
{
    MDB_val key = {e->key.len, (void *)(uintptr_t)e->key.at};
    MDB_val value = {e->value.len, (void *)(uintptr_t)e->value.at}, old;
    int rc = mdb_get(w->txn, w->x->dbi[e->table], &key, &old);
    bool had = rc == 0;

    if (rc == MDB_NOTFOUND)
        rc = 0;
    if (rc == 0 && e->table == TABLE_PREPARED)
        rc = change_prepared(w, e, had ? &old : NULL);
    if (rc != 0)
        return rc;
    if (e->value.len > 0)
        return put_pair(w, e->table, &key, had ? &old : NULL, &value);
    return had ? del_pair(w, e->table, &key, &old) : 0;
}

static int
apply_entry(struct writer *w, const struct ahead_entry *ae)
{
    bool done;
    int rc = append_object(w, ae, &done);

    if (done || rc != 0)
        return rc;
    return index_is_layered(ae->e.table) ? apply_layered(w, ae, w->path)
                                         : apply_flat(w, &ae->e);
}

static int
apply_entries(struct writer *w)
{
    const struct ahead_entry *ae;
    int rc = 0;

    while (rc == 0 && (ae = index_ahead_next(w->ahead)) != NULL)
        rc = apply_entry(w, ae);
    for (uint32_t i = 0; i < w->batch->count; i++) {
        uint32_t count;
        const struct run_segment *s = run_segments(w->batch->runs[i], &count);

        for (uint32_t k = 0; k < count; k++)
            count_segment(w, s[k].class, s[k].segment, s[k].living, s[k].dead);
    }
    return rc;
}

/* Forgets completed uploads after a week: looks at a few with each batch, round and round. */
static int
sweep_done(struct writer *w)
{
    MDB_val key = {sizeof w->done_at, w->done_at}, value;
    MDB_cursor *cursor;
    int rc = mdb_cursor_open(w->txn, w->x->dbi[TABLE_DONE], &cursor);

    if (rc != 0)
        return rc;
    rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    for (unsigned i = 0; rc == 0 && i < DONE_SWEEP; i++) {
        struct row_home home = {TABLE_DONE, 0, {key.mv_data, key.mv_size}};
        struct span bytes = {value.mv_data, value.mv_size};
        struct done_row done;

        if (done_row_decode(&home, bytes, &done) != ERR_OK)
            index_set_bad(w->x);
        else if (done.completed_ms + DONE_KEEP_MS < w->now_ms)
            rc = del_at(w, TABLE_DONE, cursor, &key, &value);
        if (rc == 0)
            rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
        if (rc == 0 && key.mv_size == sizeof w->done_at)
            memcpy(w->done_at, key.mv_data, sizeof w->done_at);
    }
    mdb_cursor_close(cursor);
    if (rc == MDB_NOTFOUND) {
        memset(w->done_at, 0, sizeof w->done_at);
        rc = 0;
    }
    return rc;
}

static int
write_meta(struct writer *w)
{
    unsigned char bytes[INDEX_META_BYTES];
    MDB_val key = {4, (void *)(uintptr_t) "meta"}, value = {sizeof bytes, bytes};

    w->meta.bad = atomic_load(&w->x->bad);
    index_meta_encode(&w->meta, bytes);
    return mdb_put(w->txn, w->x->dbi[DB_META], &key, &value, 0);
}

/* ---- the job ---- */

static void
apply_guarded(void *arg)
{
    struct writer *w = arg;

    w->rc = mdb_txn_begin(w->x->env, NULL, 0, &w->txn);
    if (w->rc != 0)
        return;
    w->rc = append_begin(w);
    if (w->rc == 0)
        w->rc = apply_entries(w);
    if (w->rc == 0)
        w->rc = sweep_done(w);
    if (w->rc == 0)
        w->rc = write_segments(w);
    if (w->rc == 0)
        w->rc = write_usage(w);
    if (w->rc == 0)
        w->rc = write_meta(w);
    if (w->rc != 0) {
        mdb_txn_abort(w->txn);
        return;
    }
    w->rc = mdb_txn_commit(w->txn);
    /* A sync that failed is final: nobody knows what of it is on the disk. */
    if (w->rc == 0 || w->rc == MDB_MAP_FULL || w->rc == ENOSPC)
        return;
    health_index_commit(w->x->options.health, w->rc);
    if (w->rc != EROFS) /* then nothing was written, and what is there can be read */
        atomic_store(&w->x->dead, true);
}

static void
apply_work(void *arg)
{
    struct writer *w = arg;
    struct index *x = w->x;

    index_ahead_begin(w->ahead);
    w->now_ms = (int64_t)(rt_wall_ns() / 1000000u);
    w->path = xmalloc(sizeof *w->path);
    /* After a fault the transaction is left as it is: LMDB's abort would crash (runtime.md 9). */
    if (!index_guard(x, apply_guarded, w))
        w->rc = EIO;
    free(w->path);
    free(w->segments);
    free(w->usage);
    if (w->rc != 0)
        return;
    x->meta = w->meta;
    memcpy(x->done_at, w->done_at, sizeof x->done_at);
    atomic_store(&x->objects, x->meta.objects);
    index_grown(x);
}

static void
help_work(void *arg)
{
    index_ahead_help(arg);
}

/* Without it the writer does all by itself. */
static void
help_fiber(void *arg)
{
    (void)!rt_blocking(help_work, arg, DEADLINE_NEVER);
}

/* apply_work() on a thread of the pool, with another one to help where that is worth it. */
static enum err
apply_on_pool(struct writer *w)
{
    struct rt_group helper;
    enum err rc;

    w->ahead = index_ahead_new(w->batch);
    rt_group_begin(&helper);
    if (index_ahead_is_worth_help(w->batch) && rt_engine_now() != RT_SIM)
        (void)!rt_group_start(&helper, help_fiber, w->ahead);
    rc = rt_blocking(apply_work, w, DEADLINE_NEVER);
    index_ahead_end(w->ahead);
    rt_group_join(&helper);
    index_ahead_free(&w->ahead);
    return rc;
}

enum err
index_apply(struct index *x, const struct batch *b, const struct index_covered *covered,
            struct errbuf *eb)
{
    struct writer w = {.x = x, .batch = b, .meta = x->meta};
    enum err rc;

    index_wait_populated(x);
    w.meta.covered = *covered;
    memcpy(w.done_at, x->done_at, sizeof w.done_at);
    rc = apply_on_pool(&w);
    if (rc != ERR_OK)
        return err_set(eb, rc, "index: commit: %s", err_name(rc));
    if (w.rc != 0)
        return index_code(x, w.rc, "commit", eb);
    if (rt_engine_now() == RT_SIM)
        sim_index_committed(rt_dir_path(x->dir));
    return ERR_OK;
}
