/* embedded: meta on one LMDB environment, every change one durable commit on the worker pool. */
#include "meta/meta.h"

#include <assert.h>
#include <lmdb.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cursor.h"
#include "base/mem.h"
#include "rt/fault.h"
#include "rt/loop.h"

#define MAP_BYTES      MIB(256) /* sparse; bounds what all keys together may take */
#define WATCHES_MAX    16
#define REVISION_BYTES 8

struct watch {
    struct rt_msg msg; /* first: the loop gives it back */
    struct meta *m;
    char *prefix;
    size_t prefix_len;
    unsigned loop;
    void (*on_change)(void *arg);
    void *arg;
    _Atomic bool posted;
};

struct meta {
    MDB_env *env;
    _Atomic bool
        faulted;    /* the disk did not give a page: nothing is asked of `env` again */
    MDB_dbi pairs;  /* key -> be64 revision | value */
    MDB_dbi system; /* "revision" -> be64 */
    void (*after)(void *arg); /* NULL: nobody */
    void *after_arg;
    struct watch watches[WATCHES_MAX];
    _Atomic unsigned watch_count;
};

static enum err
lmdb_err(struct errbuf *eb, int rc, const char *what)
{
    if (rc == MDB_MAP_FULL)
        return err_set(eb, ERR_NO_SPACE, "%s: node state holds its limit of %llu MiB",
                       what, (unsigned long long)(MAP_BYTES >> 20));
    return err_set(eb, ERR_IO, "%s: %s", what, mdb_strerror(rc));
}

static uint64_t
read_be64(const void *p)
{
    struct cursor c = cursor_of(p, 8);

    return take_be(&c, 8);
}

static void
write_be64(void *p, uint64_t v)
{
    unsigned char *out = p;

    for (int i = 7; i >= 0; i--, v >>= 8)
        out[i] = (unsigned char)v;
}

/* ---- jobs: each runs whole on a worker, under a guard ---- */

struct job {
    struct meta *m;
    void (*work)(void *arg);
    void *arg;
};

static void
guarded(void *arg)
{
    struct job *j = arg;

    /* Where LMDB's map lies is not known: while a job runs any fault on its thread is the map's. */
    if (!rt_guard(NULL, SIZE_MAX, j->work, j->arg))
        atomic_store(&j->m->faulted, true);
}

/* ERR_IO when the disk does not give the pages, now or before; `work` may have run in part then. */
static enum err
meta_job_run(struct meta *m, void (*work)(void *arg), void *arg, const char *what,
             struct errbuf *eb)
{
    struct job j = {m, work, arg};
    enum err rc = ERR_OK;

    if (!atomic_load(&m->faulted))
        rc = rt_blocking(guarded, &j, DEADLINE_NEVER);
    if (rc != ERR_OK)
        return err_set(eb, rc, "%s was given up", what);
    if (atomic_load(&m->faulted))
        return err_set(
            eb, ERR_IO,
            "%s: the pages of its file cannot be had, or are damaged (SIGBUS, SIGSEGV)",
            what);
    return ERR_OK;
}

struct open_job {
    const char *path;
    struct meta *m;
    uint64_t file_bytes; /* of data.mdb as found; 0: none */
    bool cut;            /* it is shorter than what it says */
    int rc;
};

/* LMDB opens a file that was cut in the middle as if it were whole. */
static bool
is_cut(const struct open_job *j)
{
    MDB_envinfo info;
    MDB_stat stat;

    return j->file_bytes > 0 && mdb_env_info(j->m->env, &info) == 0 &&
           mdb_env_stat(j->m->env, &stat) == 0 &&
           (info.me_last_pgno + 1) * (uint64_t)stat.ms_psize > j->file_bytes;
}

/* LMDB would end the process where a page is not of the kind that it expects. */
static void
on_assert(MDB_env *env, const char *what)
{
    (void)env;
    (void)what;
    rt_guard_leave();
}

static void
meta_open_work(void *arg)
{
    struct open_job *j = arg;
    MDB_txn *txn = NULL;

    j->rc = mdb_env_create(&j->m->env);
    if (j->rc == 0)
        j->rc = mdb_env_set_assert(j->m->env, on_assert);
    if (j->rc == 0)
        j->rc = mdb_env_set_mapsize(j->m->env, MAP_BYTES);
    if (j->rc == 0)
        j->rc = mdb_env_set_maxdbs(j->m->env, 4);
    if (j->rc == 0)
        j->rc = mdb_env_open(j->m->env, j->path, MDB_NOTLS, 0600);
    if (j->rc == 0 && is_cut(j)) {
        j->cut = true;
        return;
    }
    if (j->rc == 0)
        j->rc = mdb_txn_begin(j->m->env, NULL, 0, &txn);
    if (j->rc == 0)
        j->rc = mdb_dbi_open(txn, "pairs", MDB_CREATE, &j->m->pairs);
    if (j->rc == 0)
        j->rc = mdb_dbi_open(txn, "system", MDB_CREATE, &j->m->system);
    if (j->rc == 0) {
        j->rc = mdb_txn_commit(txn);
        txn = NULL;
    }
    if (txn != NULL)
        mdb_txn_abort(txn);
}

/* Reads: a range of keys copied out into `found`, so that the arena stays with the fiber. */
struct read_job {
    struct meta *m;
    struct span key;
    bool prefix; /* all keys that start with it, else exactly it */
    struct buf
        found; /* be32 key length, be32 value length, be64 revision, key, value; repeated */
    uint32_t count;
    uint64_t revision;
    MDB_txn *txn; /* these two not closed yet: a fault came in between */
    MDB_cursor *cursor;
    int rc;
};

static uint64_t
revision_now(struct meta *m, MDB_txn *txn)
{
    MDB_val k = {8, "revision"}, v;

    return mdb_get(txn, m->system, &k, &v) == 0 && v.mv_size == 8 ? read_be64(v.mv_data)
                                                                  : 0;
}

static void
read_range(struct read_job *j)
{
    MDB_val k = {j->key.len, (void *)(uintptr_t)j->key.at}, v;

    j->rc = mdb_cursor_open(j->txn, j->m->pairs, &j->cursor);
    if (j->rc != 0)
        return;
    j->rc = mdb_cursor_get(j->cursor, &k, &v, j->key.len > 0 ? MDB_SET_RANGE : MDB_FIRST);
    while (j->rc == 0) {
        struct span key = {k.mv_data, k.mv_size};

        if (!(j->prefix ? span_starts(key, j->key) : span_eq(key, j->key)))
            break;
        if (v.mv_size < REVISION_BYTES) {
            j->rc = MDB_CORRUPTED;
            break;
        }
        buf_be(&j->found, k.mv_size, 4);
        buf_be(&j->found, v.mv_size - REVISION_BYTES, 4);
        buf_put(&j->found, v.mv_data, REVISION_BYTES);
        buf_put(&j->found, k.mv_data, k.mv_size);
        buf_put(&j->found, (const char *)v.mv_data + REVISION_BYTES,
                v.mv_size - REVISION_BYTES);
        j->count++;
        if (!j->prefix)
            break;
        j->rc = mdb_cursor_get(j->cursor, &k, &v, MDB_NEXT);
    }
    if (j->rc == MDB_NOTFOUND)
        j->rc = 0;
}

/* A read that a fault ended may be given back all the same, a write may not. */
static void
read_end(struct read_job *j)
{
    if (j->cursor != NULL)
        mdb_cursor_close(j->cursor);
    if (j->txn != NULL)
        mdb_txn_abort(j->txn);
    j->cursor = NULL;
    j->txn = NULL;
}

static void
meta_read_work(void *arg)
{
    struct read_job *j = arg;

    j->rc = mdb_txn_begin(j->m->env, NULL, MDB_RDONLY, &j->txn);
    if (j->rc != 0)
        return;
    j->revision = revision_now(j->m, j->txn);
    read_range(j);
    read_end(j);
}

struct apply_job {
    struct meta *m;
    const struct meta_change *changes;
    uint32_t count;
    uint64_t revision;
    uint32_t refused; /* index of the change whose condition failed */
    bool precondition;
    int rc;
};

static int
apply_one(struct apply_job *j, MDB_txn *txn, uint32_t index)
{
    const struct meta_change *c = &j->changes[index];
    MDB_val k = {c->key.len, (void *)(uintptr_t)c->key.at}, v;
    uint64_t now = 0;
    int rc = mdb_get(txn, j->m->pairs, &k, &v);

    if (rc == 0 && v.mv_size >= REVISION_BYTES)
        now = read_be64(v.mv_data);
    else if (rc != MDB_NOTFOUND)
        return rc != 0 ? rc : MDB_CORRUPTED;
    if (c->if_revision != META_ANY && c->if_revision != now) {
        j->precondition = true;
        j->refused = index;
        return 0;
    }
    if (c->remove) {
        rc = mdb_del(txn, j->m->pairs, &k, NULL);
        return rc == MDB_NOTFOUND ? 0 : rc;
    }
    v = (MDB_val){REVISION_BYTES + c->value.len, NULL};
    rc = mdb_put(txn, j->m->pairs, &k, &v, MDB_RESERVE);
    if (rc != 0)
        return rc;
    write_be64(v.mv_data, j->revision);
    if (c->value.len > 0)
        memcpy((char *)v.mv_data + REVISION_BYTES, c->value.at, c->value.len);
    return 0;
}

static void
meta_apply_work(void *arg)
{
    struct apply_job *j = arg;
    MDB_txn *txn = NULL;
    char revision[REVISION_BYTES];
    MDB_val k = {8, "revision"}, v = {REVISION_BYTES, revision};

    j->rc = mdb_txn_begin(j->m->env, NULL, 0, &txn);
    if (j->rc != 0)
        return;
    j->revision = revision_now(j->m, txn) + 1;
    for (uint32_t i = 0; i < j->count && j->rc == 0 && !j->precondition; i++)
        j->rc = apply_one(j, txn, i);
    if (j->rc == 0 && !j->precondition) {
        write_be64(revision, j->revision);
        j->rc = mdb_put(txn, j->m->system, &k, &v, 0);
    }
    if (j->rc == 0 && !j->precondition)
        j->rc = mdb_txn_commit(txn);
    else
        mdb_txn_abort(txn);
}

/* ---- the interface ---- */

static enum err
size_as_found(struct rt_dir *dir, uint64_t *out, struct errbuf *eb)
{
    struct rt_file *f;
    enum err rc = rt_open(dir, "data.mdb", 0, 0, &f, eb);

    *out = 0;
    if (rc == ERR_NOT_FOUND)
        return ERR_OK;
    if (rc != ERR_OK)
        return rc;
    rc = rt_file_size(f, out, eb);
    rt_file_close(&f);
    return rc;
}

enum err
meta_open_embedded(struct rt_dir *dir, struct meta **out, struct errbuf *eb)
{
    struct meta *m = xcalloc(1, sizeof *m);
    struct open_job j = {.path = rt_dir_path(dir), .m = m};
    enum err rc = size_as_found(dir, &j.file_bytes, eb);

    *out = NULL;
    if (rc == ERR_OK)
        rc = meta_job_run(m, meta_open_work, &j, "opening the node's state", eb);
    if (rc == ERR_OK && j.cut)
        rc = err_set(eb, ERR_CORRUPT,
                     "the node's state %s/data.mdb is damaged: its %llu bytes are fewer "
                     "than it says; restore it from a backup (docs/recovery.md)",
                     j.path, (unsigned long long)j.file_bytes);
    else if (rc == ERR_OK && j.rc != 0)
        rc = lmdb_err(eb, j.rc, "opening the node's state");
    if (rc != ERR_OK) {
        meta_close(&m);
        return rc;
    }
    *out = m;
    return ERR_OK;
}

void
meta_close(struct meta **mp)
{
    struct meta *m = *mp;

    *mp = NULL;
    if (m == NULL)
        return;
    for (unsigned i = 0; i < atomic_load(&m->watch_count); i++)
        free(m->watches[i].prefix);
    if (m->env != NULL)
        mdb_env_close(m->env);
    free(m);
}

static enum err
read_pairs(struct read_job *j, struct arena *a, struct meta_pair **out, struct errbuf *eb)
{
    struct cursor c;
    char *copy;
    enum err rc;

    buf_init(&j->found, MAP_BYTES);
    rc = meta_job_run(j->m, meta_read_work, j, "reading the node's state", eb);
    if (rc == ERR_OK && j->rc != 0)
        rc = lmdb_err(eb, j->rc, "reading the node's state");
    if (rc != ERR_OK) {
        read_end(j);
        buf_fini(&j->found);
        return rc;
    }
    /* Keys and values stay where they stand, in one copy. */
    *out = arena_try(a, j->count * sizeof **out);
    copy = arena_try(a, j->found.len);
    if (*out == NULL || copy == NULL) {
        rc = err_set(eb, ERR_TOO_LARGE,
                     "%u keys of the node's state, %zu bytes, are over the limit",
                     j->count, j->found.len);
        buf_fini(&j->found);
        return rc;
    }
    if (j->found.len > 0)
        memcpy(copy, j->found.at, j->found.len);
    c = cursor_of(copy, j->found.len);
    for (uint32_t i = 0; i < j->count; i++) {
        size_t key_len = take_be(&c, 4), value_len = take_be(&c, 4);

        (*out)[i].revision = take_be(&c, 8);
        (*out)[i].key = take_span(&c, key_len);
        (*out)[i].value = take_span(&c, value_len);
    }
    assert(!c.bad);
    buf_fini(&j->found);
    return ERR_OK;
}

enum err
meta_get(struct meta *m, struct span key, struct arena *a, struct meta_pair *out,
         struct errbuf *eb)
{
    struct read_job j = {.m = m, .key = key};
    struct meta_pair *found = NULL;
    enum err rc = read_pairs(&j, a, &found, eb);

    if (rc != ERR_OK)
        return rc;
    if (j.count == 0)
        return err_set(eb, ERR_NOT_FOUND, "no key \"%.*s\" in the node's state",
                       SPAN_ARG(key));
    *out = found[0];
    return ERR_OK;
}

enum err
meta_list(struct meta *m, struct span prefix, struct arena *a, struct meta_pair **out,
          uint32_t *count, uint64_t *revision, struct errbuf *eb)
{
    struct read_job j = {.m = m, .key = prefix, .prefix = true};
    enum err rc = read_pairs(&j, a, out, eb);

    if (rc != ERR_OK)
        return rc;
    *count = j.count;
    *revision = j.revision;
    return ERR_OK;
}

static void
on_watch(struct rt_msg *msg)
{
    struct watch *w = CONTAINER_OF(msg, struct watch, msg);

    atomic_store(&w->posted, false); /* before the call: a later change posts again */
    w->on_change(w->arg);
}

static void
tell_watches(struct meta *m, const struct meta_change *changes, uint32_t count)
{
    unsigned watches = atomic_load(&m->watch_count);

    for (unsigned i = 0; i < watches; i++) {
        struct watch *w = &m->watches[i];
        struct span prefix = {w->prefix, w->prefix_len};
        bool hit = false;

        for (uint32_t k = 0; k < count && !hit; k++)
            hit = span_starts(changes[k].key, prefix);
        if (hit && !atomic_exchange(&w->posted, true)) {
            w->msg.fn = on_watch;
            rt_post(w->loop, &w->msg);
        }
    }
}

enum err
meta_apply(struct meta *m, const struct meta_change *changes, uint32_t count,
           uint64_t *revision, struct errbuf *eb)
{
    struct apply_job j = {.m = m, .changes = changes, .count = count};
    enum err rc;

    if (count == 0 || count > META_CHANGE_MAX)
        return err_set(eb, ERR_BAD_REQUEST, "a change of %u keys, 1 to %u are possible",
                       count, META_CHANGE_MAX);
    for (uint32_t i = 0; i < count; i++) {
        if (changes[i].key.len == 0 || changes[i].key.len > META_KEY_MAX)
            return err_set(eb, ERR_BAD_REQUEST,
                           "a key of %zu bytes, 1 to %u are possible", changes[i].key.len,
                           META_KEY_MAX);
        if (changes[i].value.len > META_VALUE_MAX)
            return err_set(eb, ERR_TOO_LARGE,
                           "a value of %zu bytes, at most %u are possible",
                           changes[i].value.len, META_VALUE_MAX);
    }
    rc = meta_job_run(m, meta_apply_work, &j, "changing the node's state", eb);
    if (rc != ERR_OK)
        return rc;
    if (j.rc != 0)
        return lmdb_err(eb, j.rc, "changing the node's state");
    if (j.precondition)
        return err_set(eb, ERR_PRECONDITION, "\"%.*s\" has changed meanwhile",
                       SPAN_ARG(changes[j.refused].key));
    if (revision != NULL)
        *revision = j.revision;
    tell_watches(m, changes, count);
    if (m->after != NULL)
        m->after(m->after_arg);
    return ERR_OK;
}

void
meta_after(struct meta *m, void (*fn)(void *arg), void *arg)
{
    m->after = fn;
    m->after_arg = arg;
}

enum err
meta_watch(struct meta *m, struct span prefix, void (*on_change)(void *arg), void *arg)
{
    unsigned at = atomic_load(&m->watch_count);
    struct watch *w;

    if (at >= WATCHES_MAX)
        return ERR_BUSY;
    w = &m->watches[at];
    w->m = m;
    w->prefix = xmemdup0(prefix.at, prefix.len);
    w->prefix_len = prefix.len;
    w->loop = rt_loop_index();
    w->on_change = on_change;
    w->arg = arg;
    atomic_store(&m->watch_count, at + 1);
    return ERR_OK;
}
