/* embedded: meta on one LMDB environment, every change one durable commit on the worker pool. */
#include "meta/backend.h"

#include <assert.h>
#include <errno.h>
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
#define REVISION_BYTES 8

struct embedded {
    struct meta base; /* first */
    MDB_env *env;
    _Atomic bool faulted; /* the disk did not give a page: `env` is not used again */
    MDB_dbi pairs;        /* key -> be64 revision | value */
    MDB_dbi system;       /* "revision" -> be64 */
};

#ifdef FB_TEST_HOOKS
bool meta_lose_outcome;
#endif

static struct embedded *
embedded_of(struct meta *m)
{
    return CONTAINER_OF(m, struct embedded, base);
}

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
    struct embedded *m;
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
meta_job_run(struct embedded *m, void (*work)(void *arg), void *arg, const char *what,
             struct errbuf *eb)
{
    struct job j = {m, work, arg};
    enum err rc = ERR_OK;

    assert(work != NULL);
    if (!atomic_load(&m->faulted))
        rc = rt_blocking(guarded, &j, DEADLINE_NEVER);
    if (rc != ERR_OK)
        return err_set(eb, rc, "%s was cancelled", what);
    if (atomic_load(&m->faulted))
        return err_set(
            eb, ERR_IO,
            "%s: the pages of its file cannot be had, or are damaged (SIGBUS, SIGSEGV)",
            what);
    return ERR_OK;
}

struct open_job {
    const char *path;
    struct embedded *m;
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

/* ---- reads ---- */

/* Pairs are copied out on the worker, so that the arena stays with the fiber: be32 key length, be32 value length, be64
 * revision, key, value; repeated. */
struct found {
    struct buf bytes;
    uint32_t count;
};

static void
found_add(struct found *f, struct span key, struct span value, uint64_t revision)
{
    buf_be(&f->bytes, key.len, 4);
    buf_be(&f->bytes, value.len, 4);
    buf_be(&f->bytes, revision, 8);
    buf_put(&f->bytes, key.at, key.len);
    buf_put(&f->bytes, value.at, value.len);
    f->count++;
}

/* Keys and values stay where they stand, in one copy. Ends `f`. */
static enum err
found_pairs(struct found *f, struct arena *a, struct meta_pair **out, struct errbuf *eb)
{
    struct meta_pair *pairs = arena_try(a, f->count * sizeof *pairs);
    char *copy = arena_try(a, f->bytes.len);
    struct cursor c = cursor_of(copy, f->bytes.len);

    if (pairs == NULL || copy == NULL) {
        enum err rc =
            err_set(eb, ERR_TOO_LARGE,
                    "%u keys of the node's state, %zu bytes, are over the limit",
                    f->count, f->bytes.len);

        buf_fini(&f->bytes);
        return rc;
    }
    if (f->bytes.len > 0)
        memcpy(copy, f->bytes.at, f->bytes.len);
    for (uint32_t i = 0; i < f->count; i++) {
        size_t key_len = take_be(&c, 4), value_len = take_be(&c, 4);

        pairs[i].revision = take_be(&c, 8);
        pairs[i].key = take_span(&c, key_len);
        pairs[i].value = take_span(&c, value_len);
        assert(pairs[i].key.len > 0);
    }
    assert(!c.bad);
    buf_fini(&f->bytes);
    *out = pairs;
    return ERR_OK;
}

static uint64_t
revision_now(struct embedded *m, MDB_txn *txn)
{
    MDB_val k = {8, "revision"}, v;

    return mdb_get(txn, m->system, &k, &v) == 0 && v.mv_size == 8 ? read_be64(v.mv_data)
                                                                  : 0;
}

struct page_job {
    struct embedded *m;
    const struct meta_range *range;
    struct found found;
    bool more;
    uint64_t revision;
    MDB_txn *txn; /* these two not closed yet: a fault came in between */
    MDB_cursor *cursor;
    int rc;
};

/* At the first key of the page; MDB_NOTFOUND: there is none. */
static int
page_seek(struct page_job *j, MDB_val *k, MDB_val *v)
{
    struct span from = j->range->after.len > 0 ? j->range->after : j->range->prefix;
    int rc;

    *k = (MDB_val){from.len, (void *)(uintptr_t)from.at};
    rc = mdb_cursor_get(j->cursor, k, v, from.len > 0 ? MDB_SET_RANGE : MDB_FIRST);
    if (rc == 0 && j->range->after.len > 0 &&
        span_eq((struct span){k->mv_data, k->mv_size}, j->range->after))
        rc = mdb_cursor_get(j->cursor, k, v, MDB_NEXT);
    return rc;
}

static int
page_read(struct page_job *j)
{
    assert(j->range->max > 0);
    assert(j->range->max <= META_PAGE_MAX);

    MDB_val k, v;
    int rc = mdb_cursor_open(j->txn, j->m->pairs, &j->cursor);

    if (rc == 0)
        rc = page_seek(j, &k, &v);
    for (; rc == 0; rc = mdb_cursor_get(j->cursor, &k, &v, MDB_NEXT)) {
        struct span key = {k.mv_data, k.mv_size};

        if (!span_starts(key, j->range->prefix))
            return 0;
        if (v.mv_size < REVISION_BYTES)
            return MDB_CORRUPTED;
        j->more = j->found.count == j->range->max ||
                  (j->found.count > 0 &&
                   j->found.bytes.len + key.len + v.mv_size > META_PAGE_BYTES);
        if (j->more)
            return 0;
        found_add(&j->found, key,
                  (struct span){(const char *)v.mv_data + REVISION_BYTES,
                                v.mv_size - REVISION_BYTES},
                  read_be64(v.mv_data));
    }
    return rc == MDB_NOTFOUND ? 0 : rc;
}

/* A read that a fault ended may be given back all the same, a write may not. */
static void
page_end(struct page_job *j)
{
    if (j->cursor != NULL)
        mdb_cursor_close(j->cursor);
    if (j->txn != NULL)
        mdb_txn_abort(j->txn);
    j->cursor = NULL;
    j->txn = NULL;
}

static void
page_work(void *arg)
{
    struct page_job *j = arg;

    j->rc = mdb_txn_begin(j->m->env, NULL, MDB_RDONLY, &j->txn);
    if (j->rc != 0)
        return;
    j->revision = revision_now(j->m, j->txn);
    j->rc = page_read(j);
    page_end(j);
}

static enum err
embedded_page(struct meta *base, const struct meta_range *r, struct arena *a,
              struct meta_page *out, struct errbuf *eb)
{
    struct page_job j = {.m = embedded_of(base), .range = r};
    enum err rc;

    buf_init(&j.found.bytes, META_PAGE_BYTES + 2 * META_VALUE_MAX);
    rc = meta_job_run(j.m, page_work, &j, "reading the node's state", eb);
    if (rc == ERR_OK && j.rc != 0)
        rc = lmdb_err(eb, j.rc, "reading the node's state");
    if (rc != ERR_OK) {
        page_end(&j);
        buf_fini(&j.found.bytes);
        return rc;
    }
    assert(!j.found.bytes.full);
    if (r->revision != 0 && r->revision != j.revision) { /* only the latest one is kept */
        buf_fini(&j.found.bytes);
        return err_set(eb, ERR_BUSY, "the node's state changes while it is listed");
    }
    out->count = j.found.count;
    out->more = j.more;
    out->revision = j.revision;
    return found_pairs(&j.found, a, &out->pairs, eb);
}

/* ---- transactions ---- */

struct txn_job {
    struct embedded *m;
    const struct meta_txn *t;
    struct found found; /* what `reads` ask for */
    uint64_t revision;
    uint32_t failed; /* index of the change whose condition does not hold */
    bool precondition;
    bool committing;  /* from here on an error says nothing of the outcome */
    MDB_txn *reading; /* not closed yet: a fault came in between */
    int rc;
};

/* The revision of a key and its value; 0: it does not exist. */
static int
txn_read(struct txn_job *j, MDB_txn *txn, struct span key, uint64_t *revision,
         struct span *value)
{
    MDB_val k = {key.len, (void *)(uintptr_t)key.at}, v;
    int rc = mdb_get(txn, j->m->pairs, &k, &v);

    *revision = 0;
    *value = (struct span){NULL, 0};
    if (rc != 0)
        return rc == MDB_NOTFOUND ? 0 : rc;
    if (v.mv_size < REVISION_BYTES)
        return MDB_CORRUPTED;
    *revision = read_be64(v.mv_data);
    *value = (struct span){(const char *)v.mv_data + REVISION_BYTES,
                           v.mv_size - REVISION_BYTES};
    return 0;
}

static int
txn_reads(struct txn_job *j, MDB_txn *txn)
{
    int rc = 0;

    for (uint32_t i = 0; i < j->t->read_count && rc == 0; i++) {
        struct span value;
        uint64_t revision;

        rc = txn_read(j, txn, j->t->reads[i], &revision, &value);
        if (rc == 0)
            found_add(&j->found, j->t->reads[i], value, revision);
    }
    return rc;
}

static int
txn_conditions(struct txn_job *j, MDB_txn *txn)
{
    for (uint32_t i = 0; i < j->t->change_count; i++) {
        const struct meta_change *c = &j->t->changes[i];
        struct span value;
        uint64_t now;
        int rc = txn_read(j, txn, c->key, &now, &value);

        if (rc != 0)
            return rc;
        if (c->if_revision == META_ANY || c->if_revision == now)
            continue;
        j->precondition = true;
        j->failed = i;
        return 0;
    }
    return 0;
}

static int
txn_change(struct txn_job *j, MDB_txn *txn, const struct meta_change *c)
{
    assert(j->revision > 0);

    MDB_val k = {c->key.len, (void *)(uintptr_t)c->key.at};
    MDB_val v = {REVISION_BYTES + c->value.len, NULL};
    int rc;

    if (c->remove) {
        rc = mdb_del(txn, j->m->pairs, &k, NULL);
        return rc == MDB_NOTFOUND ? 0 : rc;
    }
    rc = mdb_put(txn, j->m->pairs, &k, &v, MDB_RESERVE);
    if (rc != 0)
        return rc;
    write_be64(v.mv_data, j->revision);
    if (c->value.len > 0)
        memcpy((char *)v.mv_data + REVISION_BYTES, c->value.at, c->value.len);
    return 0;
}

static int
txn_write(struct txn_job *j, MDB_txn *txn)
{
    char revision[REVISION_BYTES];
    MDB_val k = {8, "revision"}, v = {REVISION_BYTES, revision};
    int rc = txn_conditions(j, txn);

    if (rc == 0 && j->precondition)
        return txn_reads(j, txn);
    j->revision++;
    for (uint32_t i = 0; i < j->t->change_count && rc == 0; i++)
        rc = txn_change(j, txn, &j->t->changes[i]);
    write_be64(revision, j->revision);
    if (rc == 0)
        rc = mdb_put(txn, j->m->system, &k, &v, 0);
    return rc == 0 ? txn_reads(j, txn) : rc;
}

static void
txn_work(void *arg)
{
    struct txn_job *j = arg;
    bool writes = j->t->change_count > 0;
    MDB_txn *txn = NULL;

    assert(j->t->change_count <= META_CHANGE_MAX);
    j->rc = mdb_txn_begin(j->m->env, NULL, writes ? 0 : MDB_RDONLY, &txn);
    if (j->rc != 0)
        return;
    j->reading = writes ? NULL : txn;
    j->revision = revision_now(j->m, txn);
    j->rc = writes ? txn_write(j, txn) : txn_reads(j, txn);
    j->committing = writes && j->rc == 0 && !j->precondition;
    if (j->committing)
        j->rc = mdb_txn_commit(txn);
    else
        mdb_txn_abort(txn);
    j->reading = NULL;
#ifdef FB_TEST_HOOKS
    if (j->committing && j->rc == 0 && meta_lose_outcome) {
        meta_lose_outcome = false;
        j->rc = EIO;
    }
#endif
}

static enum err
embedded_apply(struct meta *base, const struct meta_txn *t, struct arena *a,
               struct meta_result *out, struct errbuf *eb)
{
    const char *what =
        t->change_count > 0 ? "changing the node's state" : "reading the node's state";
    struct txn_job j = {.m = embedded_of(base), .t = t};
    enum err rc;

    buf_init(&j.found.bytes, META_READ_MAX * (META_VALUE_MAX + META_KEY_MAX + 16));
    rc = meta_job_run(j.m, txn_work, &j, what, eb);
    if (rc == ERR_OK && j.rc != 0)
        rc = lmdb_err(eb, j.rc, what);
    if (rc != ERR_OK) {
        out->unknown = j.committing;
        if (j.reading != NULL)
            mdb_txn_abort(j.reading);
        buf_fini(&j.found.bytes);
        return rc;
    }
    out->revision = j.revision;
    out->failed = j.failed;
    for (uint32_t i = 0; i < t->change_count && !j.precondition; i++)
        meta_changed(base, t->changes[i].key);
    if (t->read_count > 0)
        rc = found_pairs(&j.found, a, &out->reads, eb);
    else
        buf_fini(&j.found.bytes);
    if (rc == ERR_OK && j.precondition)
        rc = err_set(eb, ERR_PRECONDITION, "\"%.*s\" has changed meanwhile",
                     SPAN_ARG(t->changes[j.failed].key));
    return rc;
}

/* ---- open and close ---- */

static void
embedded_close(struct meta *base)
{
    struct embedded *m = embedded_of(base);

    if (m->env != NULL)
        mdb_env_close(m->env);
    free(m);
}

static const struct meta_ops embedded_ops = {
    .name = "embedded",
    .page = embedded_page,
    .apply = embedded_apply,
    .close = embedded_close,
};

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
    struct embedded *m = xcalloc(1, sizeof *m);
    struct open_job j = {.path = rt_dir_path(dir), .m = m};
    enum err rc = size_as_found(dir, &j.file_bytes, eb);

    *out = NULL;
    m->base.ops = &embedded_ops;
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
        embedded_close(&m->base);
        return rc;
    }
    *out = &m->base;
    return ERR_OK;
}
