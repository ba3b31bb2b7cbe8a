/* Verifying the index. LMDB's cursors read all pairs in key order; their number and the sum of their sums are compared with the
 * tally that every batch keeps in the meta entry (index_tally_goes(), index_tally_comes()). A page that is lost, changed, or an
 * older state of itself changes the sum. Three more checks find damage that leaves the sum alone:
 *
 *     order    keys ascend, and each pair lies in one page of the file
 *     search   a search for the first and the last key of a leaf finds that very pair: no branch leads it elsewhere
 *     free     the lists of free pages name each page once, and none that holds pairs: LMDB would write over it
 *
 * A damaged page can end LMDB by a fault or by its own assertion. So everything here runs under a guard, in a second
 * environment that is read-only and takes no locks, and the index itself stays in use. Such an environment has no place in LMDB's
 * table of readers: the turn keeps writers out while it reads. A long read transaction would also keep LMDB from using free pages
 * again, so beside writers the index is verified in pieces:
 *
 *     place    pairs before it are counted, and each batch corrects the count; pairs behind it will be read
 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rt/fault.h"
#include "store/health/health.h"
#include "store/index/entry.h"
#include "store/index/index.h"
#include "store/index/index_internal.h"

#define FIRST_PAGE 2u /* behind LMDB's two meta pages */
#define FREE_TABLE                                                                       \
    0 /* LMDB's own: lists of free pages, each begins with how many it names */

/* Leaves of one piece: a millisecond, and as many reads of the disk where they are not in memory. */
#ifndef FB_TEST_HOOKS
static const
#endif
    uint32_t index_prove_piece = 256;
/* A start verifies an index of up to this size as a whole, which takes some hundredths of a second. */
#ifndef FB_TEST_HOOKS
static const
#endif
    uint64_t index_probe_all_of = MIB(32);

struct index_verify {
    struct index *x;
    const _Atomic bool *stop; /* NULL is fine */
    MDB_env *env;             /* owned; NULL: not open */
    MDB_dbi dbi[DBS_];
    const char *map;

    /* Of one piece. */
    struct index_place place; /* where it begins; then, where it ended */
    uint32_t left;            /* leaves that it may still read */
    struct index_tally tally; /* of the pairs that it read */
    MDB_txn *txn;
    MDB_cursor *cursor;
    uint64_t last_page;
    unsigned char *free; /* owned: a bit for each page */

    /* What came of it. */
    const char *wrong; /* NULL: nothing is */
    uint64_t wrong_page;
    bool stopped;
    bool gone; /* nothing was read: the disk, or the index, had failed before */
    int rc;    /* of LMDB */
};

static bool
found_wrong(struct index_verify *v, uint64_t page, const char *what)
{
    if (v->wrong == NULL) {
        v->wrong = what;
        v->wrong_page = page;
    }
    return false;
}

/* LMDB's codes: false for all but success and the end of a table. */
static bool
went_well(struct index_verify *v, int rc)
{
    if (rc == MDB_CORRUPTED || rc == MDB_PAGE_NOTFOUND || rc == MDB_CURSOR_FULL ||
        rc == MDB_BAD_TXN)
        return found_wrong(v, 0, "or one that it leads to is no page of the index");
    if (rc != 0 && rc != MDB_NOTFOUND)
        v->rc = rc;
    return rc == 0 || rc == MDB_NOTFOUND;
}

static uint64_t
page_of(const struct index_verify *v, const void *at)
{
    return (uint64_t)((uintptr_t)at - (uintptr_t)v->map) / v->x->page_bytes;
}

/* ---- free pages ---- */

static bool
free_page(struct index_verify *v, uint64_t page)
{
    unsigned char bit = (unsigned char)(1u << (page % 8));

    if (page < FIRST_PAGE || page > v->last_page)
        return found_wrong(v, page, "is free, and not in the file");
    if ((v->free[page / 8] & bit) != 0)
        return found_wrong(v, page, "is twice in the lists of free pages");
    v->free[page / 8] |= bit;
    return true;
}

static bool
read_free_list(struct index_verify *v, const MDB_val *list)
{
    uint64_t page = page_of(v, list->mv_data), count, free;
    const char *at = list->mv_data;

    if (page > v->last_page || list->mv_size < sizeof count ||
        list->mv_size > (v->last_page - page + 1) * v->x->page_bytes)
        return found_wrong(v, page, "has a list of free pages that is none");
    memcpy(&count, at, sizeof count);
    if (count > list->mv_size / sizeof count - 1)
        return found_wrong(v, page, "has a list of free pages that is none");
    for (uint64_t i = 1; i <= count; i++) {
        memcpy(&free, at + i * sizeof free, sizeof free);
        if (!free_page(v, free))
            return false;
    }
    return true;
}

static bool
read_free_pages(struct index_verify *v)
{
    MDB_val key, list;
    int rc = mdb_cursor_open(v->txn, FREE_TABLE, &v->cursor);

    for (unsigned op = MDB_FIRST; rc == 0; op = MDB_NEXT) {
        rc = mdb_cursor_get(v->cursor, &key, &list, (MDB_cursor_op)op);
        if (rc == 0 && !read_free_list(v, &list))
            return false;
    }
    mdb_cursor_close(v->cursor);
    v->cursor = NULL;
    return went_well(v, rc);
}

/* ---- pairs ---- */

static bool
is_in_page(const struct index_verify *v, const MDB_val *key, const MDB_val *value)
{
    uint64_t page = page_of(v, key->mv_data);
    uintptr_t begin = (uintptr_t)v->map + page * v->x->page_bytes,
              end = begin + v->x->page_bytes;

    return page >= FIRST_PAGE && page <= v->last_page && key->mv_size > 0 &&
           key->mv_size <= INDEX_KEY_MAX &&
           (uintptr_t)key->mv_data + key->mv_size <= end &&
           (uintptr_t)value->mv_data >= begin && (uintptr_t)value->mv_data <= end &&
           value->mv_size <= end - (uintptr_t)value->mv_data;
}

static bool
is_found(const struct index_verify *v, unsigned db, MDB_val key, const MDB_val *value)
{
    MDB_val found;

    return mdb_get(v->txn, v->dbi[db], &key, &found) == 0 &&
           found.mv_data == value->mv_data;
}

static bool
ascends(const MDB_val *before, const MDB_val *key)
{
    return span_cmp((struct span){before->mv_data, before->mv_size},
                    (struct span){key->mv_data, key->mv_size}) < 0;
}

static bool
is_same_meta(const struct index_verify *v, const MDB_val *value)
{
    struct index_meta meta;

    return index_meta_decode((struct span){value->mv_data, value->mv_size}, &meta) &&
           meta.tally.pairs == v->x->meta.tally.pairs &&
           meta.tally.sum == v->x->meta.tally.sum;
}

/* A pair that is the first of its leaf. False with nothing wrong: the piece ends before it. */
static bool
enter_leaf(struct index_verify *v, unsigned db, const MDB_val *key, const MDB_val *value)
{
    uint64_t page = page_of(v, key->mv_data);

    v->stopped = v->stop != NULL && atomic_load_explicit(v->stop, memory_order_relaxed);
    if (v->stopped)
        return false;
    if (v->left == 0) {
        v->place.len = key->mv_size;
        memcpy(v->place.key, key->mv_data, key->mv_size);
        return false;
    }
    v->left--;
    if ((v->free[page / 8] & 1u << (page % 8)) != 0)
        return found_wrong(v, page, "has pairs, and is in a list of free pages");
    return is_found(v, db, *key, value) ||
           found_wrong(v, page, "has a key that no search comes to");
}

/* From the place on. True: to its end. */
static bool
read_table(struct index_verify *v, unsigned db)
{
    MDB_val key = {v->place.len, v->place.key}, value, last = {0, NULL}, last_value = {0};
    uint64_t page = 0;
    int rc = mdb_cursor_open(v->txn, v->dbi[db], &v->cursor);
    MDB_cursor_op op = v->place.len > 0 ? MDB_SET_RANGE : MDB_FIRST;

    for (; rc == 0; op = MDB_NEXT, last = key, last_value = value) {
        bool first;

        rc = mdb_cursor_get(v->cursor, &key, &value, op);
        if (rc != 0)
            break;
        if (!is_in_page(v, &key, &value))
            return found_wrong(v, page, "has a pair outside of itself");
        first = page_of(v, key.mv_data) != page;
        if (first && last.mv_data != NULL && !is_found(v, db, last, &last_value))
            return found_wrong(v, page, "has a key that no search comes to");
        page = page_of(v, key.mv_data);
        if (last.mv_data != NULL && !ascends(&last, &key))
            return found_wrong(v, page, "has a key that no search comes to");
        if (first && !enter_leaf(v, db, &key, &value))
            return false;
        if (db == DB_META) {
            if (!is_same_meta(v, &value))
                return found_wrong(v, page, "has a meta entry that was not written last");
            continue;
        }
        v->tally.pairs++;
        v->tally.sum += index_pair_sum(db, &key, &value);
    }
    mdb_cursor_close(v->cursor);
    v->cursor = NULL;
    if (rc == MDB_NOTFOUND && last.mv_data != NULL && !is_found(v, db, last, &last_value))
        return found_wrong(v, page, "has a key that no search comes to");
    return went_well(v, rc);
}

/* ---- on a worker, under a guard ---- */

/* Handles of the tables, and where the map lies, which LMDB does not say. */
static int
open_tables(struct index_verify *v)
{
    MDB_val key = {4, (void *)(uintptr_t) "meta"}, value;
    const void *map;
    size_t map_len;
    int rc = mdb_txn_begin(v->env, NULL, MDB_RDONLY, &v->txn);

    for (unsigned i = 0; rc == 0 && i < DBS_; i++)
        if (v->x->dbi[i] != NO_DBI)
            rc = mdb_dbi_open(v->txn, index_db_names[i], 0, &v->dbi[i]);
    if (rc == 0)
        rc = mdb_get(v->txn, v->dbi[DB_META], &key, &value);
    if (rc == 0 && !rt_map_range(value.mv_data, &map, &map_len))
        rc = MDB_CORRUPTED;
    if (rc != 0)
        return rc == MDB_NOTFOUND ? MDB_CORRUPTED : rc;
    v->map = map;
    rc = mdb_txn_commit(v->txn); /* an aborted one would close the handles */
    v->txn = NULL;
    return rc;
}

static int
open_env(struct index_verify *v)
{
    const struct index *x = v->x;
    int rc = index_env_open(rt_dir_path(x->dir), MDB_RDONLY | MDB_NOLOCK,
                            x->options.map_bytes, 1, &v->env);

    return rc == 0 ? open_tables(v) : rc;
}

/* How much there is to verify, about. */
static void
count_leaves(struct index_verify *v)
{
    uint64_t sum = 0;
    MDB_stat stat;

    for (unsigned i = 0; i < DBS_; i++)
        if (v->dbi[i] != NO_DBI && mdb_stat(v->txn, v->dbi[i], &stat) == 0)
            sum += stat.ms_leaf_pages;
    atomic_store(&v->x->pages_to_prove, sum);
}

static void
piece_guarded(void *arg)
{
    struct index_verify *v = arg;
    struct index_place *p = &v->place;
    MDB_envinfo info;
    bool good = v->map != NULL || went_well(v, open_env(v));

    if (!good || !went_well(v, mdb_txn_begin(v->env, NULL, MDB_RDONLY, &v->txn)) ||
        !went_well(v, mdb_env_info(v->env, &info)))
        return;
    v->last_page = info.me_last_pgno;
    if (v->last_page >= v->x->options.map_bytes / v->x->page_bytes) {
        (void)found_wrong(v, v->last_page, "is the last one, and not in the file");
        return;
    }
    v->free = xcalloc(1, v->last_page / 8 + 1);
    count_leaves(v);
    good = read_free_pages(v);
    while (good && p->db < DBS_) {
        good = v->dbi[p->db] == NO_DBI || read_table(v, p->db);
        if (good) {
            p->db++;
            p->len = 0;
        }
    }
}

/* After a fault too: a read transaction without a place in the table of readers is only memory. */
static void
piece_end(struct index_verify *v)
{
    if (v->cursor != NULL)
        mdb_cursor_close(v->cursor);
    if (v->txn != NULL)
        mdb_txn_abort(v->txn);
    free(v->free);
    v->cursor = NULL;
    v->txn = NULL;
    v->free = NULL;
}

static bool
is_gone(const struct index *x)
{
    return atomic_load(&x->dead) || health_gone(x->options.health);
}

static void
piece_work(void *arg)
{
    struct index_verify *v = arg;

    v->gone = is_gone(v->x);
    if (v->gone)
        return;
    /* The map is not known before it is there: any SIGBUS on this thread is the index's. */
    if (!rt_guard(NULL, SIZE_MAX, piece_guarded, v)) {
        v->gone = is_gone(v->x);
        (void)found_wrong(v, 0, "or one that it leads to cannot be read");
    }
    piece_end(v);
}

static void
close_work(void *arg)
{
    struct index_verify *v = arg;

    mdb_env_close(v->env);
    v->env = NULL;
}

/* ---- on a fiber of the owner loop ---- */

static struct index_verify *
verify_new(struct index *x, const _Atomic bool *stop)
{
    struct index_verify *v = xcalloc(1, sizeof *v);

    assert(x->env != NULL);
    v->x = x;
    v->stop = stop;
    return v;
}

static void
verify_free(struct index_verify **vp)
{
    struct index_verify *v = *vp;
    struct rt_shield shield;

    *vp = NULL;
    if (v == NULL)
        return;
    assert(v->txn == NULL && v->cursor == NULL && v->free == NULL);
    rt_shield_begin(&shield);
    if (v->env != NULL && rt_blocking(close_work, v, DEADLINE_NEVER) != ERR_OK)
        close_work(v); /* the pool is full or gone: then it blocks this loop, once */
    rt_shield_end(&shield);
    free(v);
}

/* One piece of up to `leaves`. The caller has the turn. */
static enum err
verify_piece(struct index_verify *v, uint32_t leaves, struct errbuf *eb)
{
    enum err rc;

    assert(leaves > 0 && v->place.db <= DBS_ && v->place.len <= sizeof v->place.key);
    v->left = leaves;
    v->tally = (struct index_tally){0};
    rc = rt_blocking(piece_work, v, DEADLINE_NEVER);
    if (rc != ERR_OK)
        return err_set(eb, rc, "index: not verified: %s", err_name(rc));
    if (v->gone)
        return err_set(eb, ERR_IO, "index: not verified: the disk failed");
    if (v->stopped)
        return err_set(eb, ERR_CANCELLED, "index: not verified");
    if (v->rc != 0)
        return index_code(v->x, v->rc, "verify", eb);
    assert(v->left <= leaves);
    assert(v->txn == NULL && v->cursor == NULL);
    if (v->wrong == NULL)
        return ERR_OK;
    index_set_hiding(v->x);
    return err_set(eb, ERR_CORRUPT, "the index is damaged: page %" PRIu64 " %s",
                   v->wrong_page, v->wrong);
}

/* All pairs were counted: are they what was written? */
static enum err
conclude(struct index *x, const struct index_tally *is, struct errbuf *eb)
{
    const struct index_tally *should = &x->meta.tally;

    if (is->pairs == should->pairs && is->sum == should->sum) {
        index_set_proven(x, true);
        return ERR_OK;
    }
    index_set_hiding(x);
    return err_set(
        eb, ERR_CORRUPT,
        "the index is damaged: its pages lead to entries that were not written last");
}

enum err
index_verify(struct index *x, const _Atomic bool *stop, bool *readable, struct errbuf *eb)
{
    struct index_verify *v = verify_new(x, stop);
    enum err rc;

    index_turn_acquire(x);
    rc = verify_piece(v, UINT32_MAX, eb);
    if (readable != NULL)
        *readable = rc == ERR_OK;
    if (rc == ERR_OK)
        rc = conclude(x, &v->tally, eb);
    index_turn_release(x);
    verify_free(&v);
    return rc;
}

/* For a server under test: an index of so many bytes, and no larger one, is verified as a whole. */
static uint64_t
probe_all_of(void)
{
#ifdef FB_TEST_HOOKS
    const char *text = getenv("FOREBAY_TEST_INDEX_WHOLE");

    if (text != NULL)
        return strtoull(text, NULL, 10);
#endif
    return index_probe_all_of;
}

enum err
index_probe(struct index *x, struct errbuf *eb)
{
    return atomic_load(&x->used_bytes) <= probe_all_of() ? index_verify(x, NULL, NULL, eb)
                                                         : ERR_OK;
}

/* ---- beside writers ---- */

void
index_prove_begin(struct index *x, const _Atomic bool *stop)
{
    index_wait_populated(x, stop);
    index_turn_acquire(x);
    assert(!x->proof.on);
    x->proof = (struct index_proof){.on = true, .verify = verify_new(x, stop)};
    index_turn_release(x);
    atomic_store(&x->pages_to_prove, 0);
    atomic_store(&x->pages_proven, 0);
}

enum err
index_prove_some(struct index *x, uint64_t *bytes, bool *over, struct errbuf *eb)
{
    struct index_proof *p = &x->proof;
    struct index_verify *v = p->verify;
    enum err rc;

    *bytes = 0;
    *over = false;
    index_turn_acquire(x);
    assert(p->on);
    rc = verify_piece(v, index_prove_piece, eb);
    if (rc == ERR_OK) {
        uint32_t leaves = index_prove_piece - v->left;

        p->place = v->place;
        p->counted.pairs += v->tally.pairs;
        p->counted.sum += v->tally.sum;
        atomic_fetch_add(&x->pages_proven, leaves);
        *bytes = leaves * (uint64_t)v->x->page_bytes;
        *over = p->place.db == DBS_;
        if (*over)
            rc = conclude(x, &p->counted, eb);
    }
    index_turn_release(x);
    return rc;
}

void
index_prove_end(struct index *x)
{
    index_turn_acquire(x);
    x->proof.on = false;
    verify_free(&x->proof.verify);
    index_turn_release(x);
}
