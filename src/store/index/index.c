#include "store/index/index.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "rt/fault.h"
#include "store/health/health.h"
#include "store/index/index_internal.h"
#include "store/index/suspect.h"
#include "store/record/keys.h"
#include "store/store_health.h"

#define MAP_DEFAULT    GIB(64)
#define MEMORY_DEFAULT GIB(1)
/* As many as the option `workers` allows: a reader is 64 bytes, and only those in use are looked at. */
#define WORKERS_DEFAULT 256u
#define MARK            "damaged" /* beside data.mdb: that is not to be believed */

const char *const index_db_names[DBS_] = {
    [TABLE_OBJECTS] = "objects",
    [TABLE_PARTS] = "parts",
    [TABLE_UPLOADS] = "uploads",
    [TABLE_DONE] = "done",
    [DB_SPACES] = "spaces",
    [DB_SEGMENTS] = "segments",
    [DB_META] = "meta",
    [DB_BUCKETS] = "buckets",
    [TABLE_VERSIONS] = "versions",
    [TABLE_PREPARED] = "prepared",
};

/* ---- what goes wrong ---- */

bool
index_guard(struct index *x, void (*fn)(void *arg), void *arg)
{
    if (atomic_load_explicit(&x->dead, memory_order_relaxed) ||
        health_gone(x->options.health))
        return false;
    if (rt_guard(x->map, x->map_len, fn, arg))
        return true;
    atomic_store(&x->faulted, true);
    if (!atomic_exchange(&x->dead, true))
        LOG(LOG_ERROR, "index.fault",
            "the index's pages cannot be had, or are damaged; it is not read any more",
            L_TEXT("path", rt_dir_path(x->dir)));
    health_index_fault(x->options.health);
    atomic_store(&x->bad, true);
    health_index_is(x->options.health, index_trust(x));
    return false;
}

enum err
index_code(struct index *x, int rc, const char *what, struct errbuf *eb)
{
    if (rc == MDB_SUCCESS)
        return ERR_OK;
    if (rc == MDB_NOTFOUND)
        return ERR_NOT_FOUND;
    if (rc == MDB_MAP_FULL || rc == ENOSPC)
        return err_set(eb, ERR_NO_SPACE, "index: %s: %s", what, mdb_strerror(rc));
    if (rc == ENOMEM)
        return err_set(eb, ERR_BUSY, "index: %s: out of memory", what);
    if (rc == MDB_READERS_FULL) /* says nothing of its pages */
        return err_set(eb, ERR_BUSY, "index: %s: too many read it at once", what);
    index_set_bad(x);
    if (rc == MDB_CORRUPTED || rc == MDB_PAGE_NOTFOUND || rc == MDB_INVALID ||
        rc == MDB_VERSION_MISMATCH) {
        atomic_store(&x->hiding, true);
        return err_set(eb, ERR_CORRUPT, "index: %s: %s", what, mdb_strerror(rc));
    }
    return err_set(eb, ERR_IO, "index: %s: %s", what, mdb_strerror(rc));
}

bool
index_is_bad(const struct index *x)
{
    return atomic_load(&x->bad) || atomic_load(&x->dead);
}

void
index_set_bad(struct index *x)
{
    if (!atomic_exchange(&x->bad, true))
        LOG(LOG_ERROR, "index.bad",
            "the index is damaged; it will be rebuilt at the next start",
            L_TEXT("path", rt_dir_path(x->dir)));
    health_index_is(x->options.health, index_trust(x));
}

void
index_set_proven(struct index *x, bool yes)
{
    atomic_store(&x->proven, yes);
    health_index_is(x->options.health, index_trust(x));
}

enum store_index
index_trust(const struct index *x)
{
    if (index_is_bad(x))
        return STORE_INDEX_DAMAGED;
    return atomic_load(&x->proven) ? STORE_INDEX_PROVEN : STORE_INDEX_UNPROVEN;
}

void
index_set_suspects(struct index *x, const struct suspects *s)
{
    x->suspects = s;
}

const struct suspects *
index_suspects(const struct index *x)
{
    return x->suspects;
}

bool
index_is_hiding(const struct index *x)
{
    return atomic_load_explicit(&x->hiding, memory_order_relaxed);
}

enum err
index_lists_all(const struct index *x, struct errbuf *eb)
{
    return index_is_hiding(x)
               ? err_set(eb, ERR_CORRUPT,
                         "the index of disk \"%s\" is damaged, and what it lists may not "
                         "be all (the next start rebuilds it)",
                         rt_dir_path(x->options.dir))
               : ERR_OK;
}

void
index_set_hiding(struct index *x)
{
    index_set_bad(x);
    atomic_store(&x->hiding, true);
}

/* ---- opening; on a worker ---- */

/* LMDB would end the process where a page is not of the kind that it expects: it ends the guard instead. */
static void
on_lmdb_assert(MDB_env *env, const char *what)
{
    (void)env;
    (void)what;
    rt_guard_leave();
}

int
index_env_open(const char *path, unsigned flags, uint64_t map_bytes, unsigned readers,
               MDB_env **env)
{
    int rc = mdb_env_create(env);

    if (rc == 0)
        rc = mdb_env_set_assert(*env, on_lmdb_assert);
    if (rc == 0)
        rc = mdb_env_set_maxdbs(*env, DBS_);
    if (rc == 0)
        rc = mdb_env_set_mapsize(*env, map_bytes);
    if (rc == 0)
        rc = mdb_env_set_maxreaders(*env, readers);
    /* NOTLS: transactions belong to loops and jobs, not to threads. Never NOSYNC (runtime.md 9). */
    if (rc == 0)
        rc = mdb_env_open(*env, path, flags | MDB_NOTLS | MDB_NORDAHEAD, 0600);
    return rc;
}

static int
open_env(struct index *x)
{
    return index_env_open(
        rt_dir_path(x->dir), x->options.read_only ? MDB_RDONLY | MDB_NOLOCK : 0,
        x->options.map_bytes, x->loops + x->options.workers + 2, &x->env);
}

/* Each loop's transaction, ready to be renewed. */
static int
open_readers(struct index *x)
{
    int rc = 0;

    for (unsigned i = 0; rc == 0 && i < x->loops; i++) {
        assert(x->readers[i].txn == NULL);
        rc = mdb_txn_begin(x->env, NULL, MDB_RDONLY, &x->readers[i].txn);
        if (rc == 0)
            mdb_txn_reset(x->readers[i].txn);
    }
    return rc;
}

static void
close_env(struct index *x)
{
    assert(!x->proof.on);
    for (unsigned i = 0; i < x->loops; i++) {
        if (x->readers[i].txn != NULL)
            mdb_txn_abort(x->readers[i].txn);
        x->readers[i] = (struct index_reader){0};
    }
    mdb_env_close(x->env); /* NULL is fine */
    x->env = NULL;
    x->map = NULL;
    x->map_len = 0;
}

struct open_job {
    struct index *x;
    uint64_t file_bytes; /* of data.mdb as found; 0: none */
    bool fresh;
    MDB_txn *txn; /* not ended yet: a fault came in between */
    int rc;
    enum index_state state;
};

/* Makes what is missing, and the meta entry of an empty index. */
static int
open_tables(struct open_job *j)
{
    struct index *x = j->x;
    unsigned char bytes[INDEX_META_BYTES];
    MDB_val key = {4, (void *)(uintptr_t) "meta"}, value = {sizeof bytes, bytes};
    bool read_only = x->options.read_only;
    MDB_txn *txn;
    int rc = mdb_txn_begin(x->env, NULL, read_only ? MDB_RDONLY : 0, &j->txn);

    if (rc != 0)
        return rc;
    for (unsigned i = 0; rc == 0 && i < DBS_; i++) {
        rc = mdb_dbi_open(j->txn, index_db_names[i], read_only ? 0 : MDB_CREATE,
                          &x->dbi[i]);
        if (rc == MDB_NOTFOUND && i == TABLE_PREPARED) { /* of an older program */
            x->dbi[i] = NO_DBI;
            rc = 0;
        }
    }
    if (rc == 0 && j->fresh) {
        x->meta = (struct index_meta){.next_space = 1};
        memcpy(x->meta.disk_id, x->options.disk_id, sizeof x->meta.disk_id);
        index_meta_encode(&x->meta, bytes);
        rc = mdb_put(j->txn, x->dbi[DB_META], &key, &value, 0);
    }
    txn = j->txn;
    j->txn = NULL;
    if (rc == 0)
        return mdb_txn_commit(txn);
    mdb_txn_abort(txn);
    return rc;
}

/* Reads the meta entry, and finds where LMDB's map lies, which LMDB does not say. */
static enum index_state
index_check_state(struct open_job *j)
{
    struct index *x = j->x;
    MDB_val key = {4, (void *)(uintptr_t) "meta"}, value;
    enum index_state state = INDEX_BAD;
    MDB_dbi meta;
    int rc;

    if (mdb_txn_begin(x->env, NULL, MDB_RDONLY, &j->txn) != 0)
        return INDEX_BAD;
    rc = mdb_dbi_open(j->txn, index_db_names[DB_META], 0, &meta);
    if (rc == 0)
        rc = mdb_get(j->txn, meta, &key, &value);
    if (rc == MDB_NOTFOUND)
        state = INDEX_EMPTY;
    else if (rc == 0 &&
             index_meta_decode((struct span){value.mv_data, value.mv_size}, &x->meta) &&
             rt_map_range(value.mv_data, &x->map, &x->map_len) && !x->meta.bad)
        state = memcmp(x->meta.disk_id, x->options.disk_id, sizeof x->meta.disk_id) == 0
                    ? INDEX_GOOD
                    : INDEX_FOREIGN;
    mdb_txn_abort(j->txn);
    j->txn = NULL;
    return state;
}

/* Opened without an error says little: LMDB opens a file cut to nothing as an empty one, and one cut in the
 * middle as whole. */
static bool
is_whole(struct index *x, uint64_t file_bytes)
{
    MDB_envinfo info;
    MDB_stat stat;

    return mdb_env_info(x->env, &info) == 0 && mdb_env_stat(x->env, &stat) == 0 &&
           (info.me_last_pgno + 1) * (uint64_t)stat.ms_psize <= file_bytes;
}

static void
open_guarded(void *arg)
{
    struct open_job *j = arg;

    j->rc = open_env(j->x);
    if (j->rc != 0)
        return;
    if (!j->fresh)
        j->state = index_check_state(j);
    if (!j->fresh && j->state == INDEX_GOOD && !is_whole(j->x, j->file_bytes))
        j->state = INDEX_BAD;
    if (j->fresh || j->state == INDEX_GOOD)
        j->rc = open_tables(j);
    if (j->rc == 0 && j->fresh)
        (void)index_check_state(j); /* finds the map */
    if (j->rc == 0 && (j->fresh || j->state == INDEX_GOOD))
        j->rc = open_readers(j->x);
}

static void
index_open_work(void *arg)
{
    struct open_job *j = arg;

    /* The map is not known before it is there: any SIGBUS on this thread is the index's. */
    j->state = INDEX_BAD;
    if (!rt_guard(NULL, SIZE_MAX, open_guarded, j))
        j->rc = MDB_CORRUPTED;
    if (j->rc == 0 && (j->fresh || j->state == INDEX_GOOD)) {
        MDB_stat stat;

        (void)mdb_env_stat(j->x->env, &stat);
        j->x->page_bytes = stat.ms_psize;
        assert(j->x->page_bytes > 0);
        atomic_store(&j->x->objects, j->x->meta.objects);
        index_set_proven(j->x, j->fresh);
        index_opened(j->x);
    } else {
        if (j->rc != 0) /* whatever the meta entry says: a table is damaged */
            j->state = INDEX_BAD;
        if (j->txn != NULL)
            mdb_txn_abort(j->txn);
        close_env(j->x);
    }
}

static void
index_close_work(void *arg)
{
    close_env(arg);
}

/* ---- opening; on a fiber ---- */

static enum err
file_bytes(struct index *x, uint64_t *out, struct errbuf *eb)
{
    struct rt_file *f;
    enum err rc = rt_open(x->dir, "data.mdb", 0, 0, &f, eb);

    *out = 0;
    if (rc == ERR_NOT_FOUND)
        return ERR_OK;
    if (rc != ERR_OK)
        return rc;
    rc = rt_file_size(f, out, eb);
    rt_file_close(&f);
    return rc;
}

/* A disk that left because of its index still accepts these writes. */
static void
index_release(struct index *x)
{
    if (atomic_load(&x->faulted))
        rt_dir_observe(x->dir, NULL);
}

static enum err
remove_files(struct index *x, struct errbuf *eb)
{
    enum err rc = rt_dir_unlink(x->dir, "data.mdb", eb);

    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return rc;
    rc = rt_dir_unlink(x->dir, "lock.mdb", eb);
    if (rc == ERR_OK || rc == ERR_NOT_FOUND) /* after the file that it marks */
        rc = rt_dir_unlink(x->dir, MARK, eb);
    x->marked = false;
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

void
index_mark_bad(struct index *x)
{
    static const char text[] = "The index is damaged: the next start rebuilds it.\n";
    struct errbuf eb = {0};

    if (x->marked || !atomic_load(&x->bad) || x->options.read_only)
        return;
    index_release(x);
    x->marked = rt_file_store(x->dir, MARK, text, sizeof text - 1, 0600, &eb) == ERR_OK;
    if (!x->marked && !x->not_marked_told)
        LOG(LOG_WARN, "index.not_marked",
            "a start after a kill may believe a bad index; it is tried again",
            L_TEXT("path", rt_dir_path(x->dir)), L_TEXT("error", eb.text));
    x->not_marked_told = !x->marked;
}

/* Without the file the pool waits for pages that are not in memory. */
static void
open_pages(struct index *x)
{
    struct errbuf eb = {0};

    if (rt_open(x->dir, "data.mdb", 0, 0, &x->pages, &eb) != ERR_OK)
        LOG(LOG_INFO, "index.pages",
            "the index is read by threads where it is not in memory",
            L_TEXT("path", rt_dir_path(x->dir)), L_TEXT("error", eb.text));
}

/* Opens the present file, or makes a new one. */
static enum err
index_try_open(struct index *x, bool fresh, enum index_state *state, struct errbuf *eb)
{
    struct open_job j = {.x = x, .fresh = fresh};
    unsigned mode;
    enum err rc = ERR_OK;

    if (fresh)
        rc = remove_files(x, eb);
    else
        rc = file_bytes(x, &j.file_bytes, eb);
    if (rc != ERR_OK)
        return rc;
    if (x->options.read_only && j.file_bytes == 0) {
        *state = INDEX_EMPTY;
        return ERR_OK;
    }
    if (!fresh && j.file_bytes > 0 && rt_dir_mode(x->dir, MARK, &mode, NULL) == ERR_OK) {
        *state = INDEX_BAD;
        return ERR_OK;
    }
    rc = rt_blocking(index_open_work, &j, DEADLINE_NEVER);
    if (rc != ERR_OK)
        return err_set(eb, rc, "index: opening: %s", err_name(rc));
    *state = j.state;
    if (x->env != NULL)
        open_pages(x);
    if (j.rc == 0 || (!fresh && (j.rc == MDB_CORRUPTED || j.rc == MDB_INVALID ||
                                 j.rc == MDB_VERSION_MISMATCH)))
        return ERR_OK;
    return index_code(x, j.rc, "opening", eb);
}

static struct index *
index_new(const struct index_options *o)
{
    struct index *x = xcalloc(1, sizeof *x);

    assert(o->dir != NULL);
    x->options = *o;
    x->options.map_bytes = o->map_bytes != 0 ? o->map_bytes : MAP_DEFAULT;
    x->options.memory_bytes = o->memory_bytes != 0 ? o->memory_bytes : MEMORY_DEFAULT;
    x->options.workers = o->workers != 0 ? o->workers : WORKERS_DEFAULT;
    x->loops = rt_loop_count();
    x->readers = aligned_alloc(64, x->loops * sizeof *x->readers);
    assert(x->readers != NULL);
    memset(x->readers, 0, x->loops * sizeof *x->readers);
    rt_cond_init(&x->populated);
    rt_sem_init(&x->turn, 1);
    assert(x->loops > 0);
    return x;
}

static enum err
index_open_folder(struct index *x, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    if (!x->options.read_only)
        rc = rt_dir_make(x->options.dir, INDEX_FOLDER, 0700, eb);
    if (rc == ERR_OK || rc == ERR_EXISTS)
        rc = rt_dir_open_at(x->options.dir, INDEX_FOLDER, &x->dir, eb);
    return rc;
}

/* The present index is of no use: begins with an empty one. */
static enum err
index_start_empty(struct index *x, enum index_state found, struct errbuf *eb)
{
    static const char *const words[] = {"good", "empty", "foreign", "bad"};
    enum index_state fresh;

    if (found != INDEX_EMPTY)
        LOG(LOG_WARN, "index.discarded",
            "the index is of no use and will be rebuilt from the logs",
            L_TEXT("why", words[found]), L_TEXT("path", rt_dir_path(x->dir)));
    return index_try_open(x, true, &fresh, eb);
}

enum err
index_open(const struct index_options *o, struct index **out, enum index_state *state,
           struct index_checkpoint *checkpoint, struct errbuf *eb)
{
    struct index *x = index_new(o);
    enum err rc = index_open_folder(x, eb);

    *out = NULL;
    *checkpoint = (struct index_checkpoint){0};
    *state = INDEX_EMPTY;
    if (rc == ERR_OK && o->discard)
        *state = INDEX_BAD;
    else if (rc == ERR_OK)
        rc = index_try_open(x, false, state, eb);
    if (rc == ERR_OK && *state != INDEX_GOOD && !o->read_only)
        rc = index_start_empty(x, *state, eb);
    if (rc != ERR_OK || (o->read_only && *state != INDEX_GOOD)) {
        index_close(&x);
        return rc == ERR_NOT_FOUND && o->read_only ? ERR_OK : rc;
    }
    assert(x->env != NULL);
    *checkpoint = x->meta.checkpoint;
    index_populate_behind(x);
    *out = x;
    return ERR_OK;
}

void
index_turn_acquire(struct index *x)
{
    struct rt_shield shield;

    rt_shield_begin(&shield);
    (void)!rt_sem_acquire(&x->turn, DEADLINE_NEVER);
    rt_shield_end(&shield);
}

void
index_turn_release(struct index *x)
{
    rt_sem_release(&x->turn);
}

enum err
index_reset(struct index *x, struct errbuf *eb)
{
    enum index_state state;
    enum err rc;

    assert(!x->options.read_only && !x->proof.on);
    index_end_populating(x);
    assert(!x->populating);
    x->populate_no_more = false;
    rc = rt_blocking(index_close_work, x, DEADLINE_NEVER);
    if (rc != ERR_OK)
        return err_set(eb, rc, "index: closing: %s", err_name(rc));
    rt_file_close(&x->pages);
    x->populated_bytes = 0;
    atomic_store(&x->resident, false);
    atomic_store(&x->away_ns, 0);
    atomic_store(&x->times_away, 0);
    atomic_store(&x->bad, false);
    atomic_store(&x->hiding, false);
    atomic_store(&x->dead, false);
    return index_try_open(x, true, &state, eb);
}

/* The next open finds none, and replay rebuilds it. */
static void
discard(struct index *x)
{
    struct errbuf eb = {0};

    index_release(x);
    if (remove_files(x, &eb) != ERR_OK)
        LOG(LOG_WARN, "index.not_discarded", "the next start may believe a bad index",
            L_TEXT("path", rt_dir_path(x->dir)), L_TEXT("error", eb.text));
}

void
index_close(struct index **xp)
{
    struct index *x = *xp;
    struct rt_shield shield;

    *xp = NULL;
    if (x == NULL)
        return;
    index_end_populating(x);
    assert(!x->populating && !x->proof.on);
    if (x->env != NULL) {
        rt_shield_begin(&shield);
        if (rt_blocking(index_close_work, x, DEADLINE_NEVER) != ERR_OK)
            close_env(x); /* the pool is full or gone: then it blocks this loop, once */
        if (index_is_bad(x) && !x->options.read_only)
            discard(x);
        rt_shield_end(&shield);
    }
    rt_file_close(&x->pages);
    rt_dir_close(&x->dir);
    free(x->readers);
    free(x);
}

void
index_stat(struct index *x, struct index_stat *out)
{
    *out = (struct index_stat){
        .objects = atomic_load(&x->objects),
        .used_bytes = atomic_load(&x->used_bytes),
        .resident = atomic_load(&x->resident),
        .pages_proven = atomic_load(&x->pages_proven),
        .pages_to_prove = atomic_load(&x->pages_to_prove),
    };
}
