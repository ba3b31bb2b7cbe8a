/* Writing the index: one batch, one durable commit, from begin to commit in one job of the pool. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rt/sim.h"
#include "store/health/health.h"
#include "store/index/entry.h"
#include "store/index/index.h"
#include "store/index/index_decoder.h"
#include "store/index/index_internal.h"
#include "store/index/index_writer.h"
#include "store/index/run.h"
#include "store/index/usage.h"
#include "store/record/keys.h"
#include "store/store_entry.h"
#include "store/store_upload.h"

#define DONE_KEEP_MS                                                                     \
    (7 * 24 * 3600 * INT64_C(1000)) /* completed uploads are remembered so long */
#define DONE_SWEEP 256u             /* of them looked at with each batch */

/* ---- entries ---- */

/* Parts of an upload that has ended. */
static int
sweep_parts(struct index_writer *w, struct span upload)
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
        rc = index_del_at(w, TABLE_PARTS, cursor, &key, &value);
        if (rc != 0)
            break;
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

/* An object's entry takes the place of `s`, unless a newer one stands there. */
static int
change_object(struct index_writer *w, const struct decoded_entry *ae,
              struct index_step *s, bool gone)
{
    const struct coded_entry *e = &ae->e;
    struct entry_key where = {e->table, e->bucket, e->key};
    struct span old = s->entry;
    struct entry before;
    const struct entry *after = gone ? NULL : &ae->entry;
    bool had = old.len > 0;

    assert(e->table == TABLE_OBJECTS);
    if (ae->bad)
        return MDB_CORRUPTED;
    if (had && entry_decode(&where, old, &before) != ERR_OK) {
        index_set_bad(
            w->x); /* what comes from the log is right, and heals this entry at least */
        had = false;
    } else if (had && !entry_is_newer(e->table, old, e->value)) {
        return MDB_KEYEXIST;
    }
    index_count_change(w, had ? &before : NULL, after);
    index_count_usage(w, e->bucket, had ? &before : NULL, after);
    return 0;
}

/* The record of an upload's begin holds its log. */
static int
change_upload(struct index_writer *w, const struct coded_entry *e,
              const struct index_step *s)
{
    struct entry_key where = {e->table, e->bucket, e->key};
    struct span old = s->entry;
    struct upload_entry before, after;

    if (e->value.len > 0 && upload_entry_decode(&where, e->value, &after) != ERR_OK)
        return MDB_CORRUPTED; /* our own memory */
    if (old.len > 0 && upload_entry_decode(&where, old, &before) != ERR_OK)
        index_set_bad(w->x);
    else if (old.len > 0)
        index_count_segment(w, before.class, before.segment, -RECORD_WEIGHT, 0);
    if (e->value.len > 0)
        index_count_segment(w, after.class, after.segment, RECORD_WEIGHT, 0);
    return 0;
}

static int
change_older(struct index_writer *w, const struct coded_entry *e,
             const struct index_step *s)
{
    struct entry_key where = {e->table, e->bucket, e->key};
    struct span old = s->entry;
    struct entry before, after;
    bool had = old.len > 0, gone = e->value.len == 0;

    assert(e->table == TABLE_VERSIONS);
    if (!gone && entry_decode(&where, e->value, &after) != ERR_OK)
        return MDB_CORRUPTED; /* our own memory */
    if (had && entry_decode(&where, old, &before) != ERR_OK) {
        index_set_bad(w->x);
        had = false;
    }
    if (had)
        index_count_older(w, &before, false);
    if (!gone)
        index_count_older(w, &after, true);
    index_count_usage(w, usage_of_older(e->bucket), had ? &before : NULL,
                      gone ? NULL : &after);
    return 0;
}

/* An object whose key is new, as most are: one search tells that, and is where it goes. MDB_KEYEXIST: it is not, or that is not
 * the way to tell; nothing has changed. */
static int
insert_object(struct index_writer *w, const struct decoded_entry *ae,
              struct index_step *s)
{
    const struct coded_entry *e = &ae->e;
    unsigned char bytes[INDEX_CELL_MAX];
    struct index_cell cell = {.entry = e->value};
    MDB_val key, value;
    uint32_t space;
    int rc = key_layers(e->key.len) == 1 ? index_space_of(w, e->bucket, true, &space)
                                         : MDB_KEYEXIST;

    if (rc != 0)
        return rc;
    s->len = key_code(space, e->key, s->coded);
    if (index_append_fits(w, e->table, s))
        return MDB_KEYEXIST;
    if (ae->bad)
        return MDB_CORRUPTED;
    key = (MDB_val){s->len, s->coded};
    value = (MDB_val){index_cell_encode(&key, &cell, bytes), bytes};
    rc = index_put(w, e->table, &key, &value, MDB_NOOVERWRITE);
    if (rc != 0)
        return rc;
    index_tally_comes(w, e->table, &key, index_pair_sum(e->table, &key, &value));
    index_count_change(w, NULL, &ae->entry);
    index_count_usage(w, e->bucket, NULL, &ae->entry);
    return 0;
}

/* What nearly all entries of a rebuild are: an object behind all that its table has, of one layer, in the bucket of the one
 * before. *done false: it is not. */
static int
append_object(struct index_writer *w, const struct decoded_entry *ae, bool *done)
{
    const struct index_append *a = &w->append;
    const struct coded_entry *e = &ae->e;
    unsigned char coded[KEY_CODED_MAX];
    MDB_val key = {0, coded}, value = {e->value.len, (void *)(uintptr_t)e->value.at};

    *done = false;
    if (!a->on || a->cursor == NULL || e->table != TABLE_OBJECTS ||
        e->key.len >= KEY_LAYER_BYTES || e->bucket != w->bucket || w->space == 0 ||
        ae->bad || (ae->entry.flags & ENTRY_TOMBSTONE) != 0)
        return 0;
    key.mv_size = key_code(w->space, e->key, coded);
    if (span_cmp((struct span){(const char *)coded, key.mv_size},
                 (struct span){(const char *)a->last, a->len}) <= 0)
        return 0;
    *done = true;
    index_count_change(w, NULL, &ae->entry);
    index_count_usage(w, e->bucket, NULL, &ae->entry);
    index_tally_comes(w, TABLE_OBJECTS, &key,
                      index_pair_sum(TABLE_OBJECTS, &key, &value));
    return index_append_put(w, TABLE_OBJECTS, &key, &value);
}

static int
apply_layered(struct index_writer *w, const struct decoded_entry *ae,
              struct index_path *p)
{
    const struct coded_entry *e = &ae->e;
    bool gone = e->value.len == 0 ||
                (e->table == TABLE_OBJECTS && !w->x->options.keep_tombstones &&
                 entry_is_tombstone(e->value) && !entry_is_marker(e->value) &&
                 !entry_is_kept(e->value));
    struct index_step *last;
    int rc = e->table == TABLE_OBJECTS && !gone ? insert_object(w, ae, &p->at[0])
                                                : MDB_KEYEXIST;

    if (rc != MDB_KEYEXIST)
        return rc;
    rc = index_go_down(w, e->table, e, !gone, p);
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
        last->entry = gone ? (struct span){"", 0} : e->value;
        if (rc == 0)
            rc = index_store_step(w, e->table, last);
        if (rc == 0 && gone)
            rc = index_go_up(w, e->table, p);
    }
    if (rc == MDB_NOTFOUND)
        rc = 0;
    if (rc == 0 && gone && e->table == TABLE_UPLOADS)
        rc = sweep_parts(w, e->key);
    return rc;
}

/* A prepared version holds its place as an object would. `old`: NULL where there was none. */
static int
change_prepared(struct index_writer *w, const struct coded_entry *e, const MDB_val *old)
{
    struct entry_key where = {e->table, 0, e->key};
    struct prepared_entry p;

    assert(e->table == TABLE_PREPARED);
    if (old != NULL) {
        struct span bytes = {old->mv_data, old->mv_size};

        if (prepared_entry_decode(&where, bytes, &p) != ERR_OK)
            index_set_bad(w->x);
        else if (index_has_place(&p.entry))
            index_count_segment(w, index_class_of(&p.entry), p.entry.place.segment,
                                -entry_weight(&p.entry), 0);
    }
    if (e->value.len == 0)
        return 0;
    if (prepared_entry_decode(&where, e->value, &p) != ERR_OK)
        return MDB_CORRUPTED; /* our own memory */
    if (index_has_place(&p.entry))
        index_count_segment(w, index_class_of(&p.entry), p.entry.place.segment,
                            entry_weight(&p.entry), 0);
    return 0;
}

static int
apply_flat(struct index_writer *w, const struct coded_entry *e)
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
        return index_put_pair(w, e->table, &key, had ? &old : NULL, &value);
    return had ? index_del_pair(w, e->table, &key, &old) : 0;
}

static int
apply_entry(struct index_writer *w, const struct decoded_entry *ae)
{
    bool done;
    int rc = append_object(w, ae, &done);

    if (done || rc != 0)
        return rc;
    return index_is_layered(ae->e.table) ? apply_layered(w, ae, w->path)
                                         : apply_flat(w, &ae->e);
}

static int
apply_entries(struct index_writer *w)
{
    const struct decoded_entry *ae;
    int rc = 0;

    assert(w->txn != NULL && w->decoder != NULL && w->path != NULL);
    while (rc == 0 && (ae = index_decoder_next(w->decoder)) != NULL)
        rc = apply_entry(w, ae);
    for (uint32_t i = 0; i < w->batch->count; i++) {
        uint32_t count;
        const struct run_segment *s = run_segments(w->batch->runs[i], &count);

        for (uint32_t k = 0; k < count; k++)
            index_count_segment(w, s[k].class, s[k].segment, s[k].living, s[k].dead);
    }
    return rc;
}

/* Forgets completed uploads after a week: looks at a few with each batch, round and round. */
static int
sweep_done(struct index_writer *w)
{
    MDB_val key = {sizeof w->done_at, w->done_at}, value;
    MDB_cursor *cursor;
    int rc = mdb_cursor_open(w->txn, w->x->dbi[TABLE_DONE], &cursor);

    if (rc != 0)
        return rc;
    rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    for (unsigned i = 0; rc == 0 && i < DONE_SWEEP; i++) {
        struct entry_key where = {TABLE_DONE, 0, {key.mv_data, key.mv_size}};
        struct span bytes = {value.mv_data, value.mv_size};
        struct done_entry done;

        if (done_entry_decode(&where, bytes, &done) != ERR_OK)
            index_set_bad(w->x);
        else if (done.completed_ms + DONE_KEEP_MS < w->now_ms)
            rc = index_del_at(w, TABLE_DONE, cursor, &key, &value);
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
write_meta(struct index_writer *w)
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
    struct index_writer *w = arg;

    w->rc = mdb_txn_begin(w->x->env, NULL, 0, &w->txn);
    if (w->rc != 0)
        return;
    w->rc = index_append_begin(w);
    if (w->rc == 0)
        w->rc = apply_entries(w);
    if (w->rc == 0)
        w->rc = sweep_done(w);
    if (w->rc == 0)
        w->rc = index_write_segments(w);
    if (w->rc == 0)
        w->rc = index_write_usage(w);
    if (w->rc == 0)
        w->rc = write_meta(w);
    if (w->rc != 0) {
        mdb_txn_abort(w->txn);
        return;
    }
    w->rc = mdb_txn_commit(w->txn);
    /* A failed sync is final: what of it is on the disk is unknown. */
    if (w->rc == 0 || w->rc == MDB_MAP_FULL || w->rc == ENOSPC)
        return;
    health_index_commit(w->x->options.health, w->rc);
    if (w->rc != EROFS) /* then nothing was written, and what is there can be read */
        atomic_store(&w->x->dead, true);
}

static void
index_apply_work(void *arg)
{
    struct index_writer *w = arg;
    struct index *x = w->x;

    assert(w->txn == NULL && w->rc == 0);
    index_decoder_begin(w->decoder);
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
    assert(w->segment_count <= w->segment_room && w->usage_count <= w->usage_room);
    assert(x->proof.on || (w->proven.pairs == 0 && w->proven.sum == 0));
    x->meta = w->meta;
    x->proof.counted.pairs += w->proven.pairs;
    x->proof.counted.sum += w->proven.sum;
    memcpy(x->done_at, w->done_at, sizeof x->done_at);
    atomic_store(&x->objects, x->meta.objects);
    index_grown(x);
}

static void
decoder_help_work(void *arg)
{
    index_decoder_help(arg);
}

/* Without it the writer does all by itself. */
static void
decoder_help_fiber(void *arg)
{
    (void)!rt_blocking(decoder_help_work, arg, DEADLINE_NEVER);
}

/* index_apply_work() on a thread of the pool, with another one to help where that is worth it. */
static enum err
apply_on_pool(struct index_writer *w)
{
    struct rt_group helper;
    enum err rc;

    w->decoder = index_decoder_new(w->batch);
    rt_group_begin(&helper);
    if (index_decoder_is_worth_help(w->batch) && rt_engine_now() != RT_SIM)
        (void)!rt_group_start(&helper, decoder_help_fiber, w->decoder);
    rc = rt_blocking(index_apply_work, w, DEADLINE_NEVER);
    index_decoder_end(w->decoder);
    rt_group_join(&helper);
    index_decoder_free(&w->decoder);
    return rc;
}

enum err
index_apply(struct index *x, const struct frozen_runs *b,
            const struct index_checkpoint *checkpoint, struct errbuf *eb)
{
    struct index_writer w = {.x = x, .batch = b};
    enum err rc;

    assert(!x->options.read_only);
    assert(b->count > 0);
    index_turn_acquire(x);
    w.meta = x->meta;
    w.meta.checkpoint = *checkpoint;
    memcpy(w.done_at, x->done_at, sizeof w.done_at);
    rc = apply_on_pool(&w);
    index_turn_release(x);
    if (rc != ERR_OK)
        return err_set(eb, rc, "index: commit: %s", err_name(rc));
    if (w.rc != 0)
        return index_code(x, w.rc, "commit", eb);
    if (rt_engine_now() == RT_SIM)
        sim_index_committed(rt_dir_path(x->dir));
    return ERR_OK;
}
