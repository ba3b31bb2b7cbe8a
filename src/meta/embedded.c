/* embedded: meta on two LMDB files of the node's state, every change durable in both, on the worker pool.
 *
 * data.mdb answers. second.mdb gets each change behind it. An open verifies both (state_file.h) and takes the one that is
 * whole and has the later revision; the other one is made again from it. So one of them may be damaged, behind or gone,
 * and nothing is silently less than it was. */
#include "meta/backend.h"

#include <assert.h>
#include <errno.h>
#include <lmdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cursor.h"
#include "base/log.h"
#include "base/mem.h"
#include "meta/state_file.h"
#include "rt/fault.h"
#include "rt/loop.h"

#define FILES 2u

/* LMDB's names for the lock beside each. */
static const char *const file_names[FILES] = {"data.mdb", "second.mdb"};
static const char *const lock_names[FILES] = {"lock.mdb", "second.mdb-lock"};

struct embedded {
    struct meta base; /* first */
    struct state_file file[FILES];
    _Atomic bool faulted; /* the disk did not give a page: no file is used again */
    _Atomic bool
        second_failed; /* the second lacks changes: the next open makes it again */
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
        return err_set(eb, ERR_NO_SPACE, "%s: node state holds its limit of %u MiB", what,
                       STATE_MAP_BYTES >> 20);
    return err_set(eb, ERR_IO, "%s: %s", what, mdb_strerror(rc));
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
    int rc = mdb_cursor_open(j->txn, j->m->file[0].pairs, &j->cursor);

    if (rc == 0)
        rc = page_seek(j, &k, &v);
    for (; rc == 0; rc = mdb_cursor_get(j->cursor, &k, &v, MDB_NEXT)) {
        struct span key = {k.mv_data, k.mv_size}, value;
        uint64_t revision;

        if (!span_starts(key, j->range->prefix))
            return 0;
        rc = state_pair_decode(key, &v, &revision, &value);
        if (rc != 0)
            return rc;
        j->more = j->found.count == j->range->max ||
                  (j->found.count > 0 &&
                   j->found.bytes.len + key.len + value.len > META_PAGE_BYTES);
        if (j->more)
            return 0;
        found_add(&j->found, key, value, revision);
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
    struct state_head head;

    j->rc = mdb_txn_begin(j->m->file[0].env, NULL, MDB_RDONLY, &j->txn);
    if (j->rc == 0)
        j->rc = state_head_get(&j->m->file[0], j->txn, &head);
    if (j->rc == 0) {
        j->revision = head.revision;
        j->rc = page_read(j);
    }
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
    struct state_head head;
    int rc, second_rc;
};

static int
txn_reads(struct txn_job *j, MDB_txn *txn)
{
    int rc = 0;

    for (uint32_t i = 0; i < j->t->read_count && rc == 0; i++) {
        struct span value;
        uint64_t revision;

        rc = state_pair_get(&j->m->file[0], txn, j->t->reads[i], &revision, &value);
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
        int rc = state_pair_get(&j->m->file[0], txn, c->key, &now, &value);

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

/* All changes, as revision h->revision. */
static int
txn_changes(const struct txn_job *j, const struct state_file *f, MDB_txn *txn,
            struct state_head *h)
{
    int rc = 0;

    assert(h->revision > 0);
    for (uint32_t i = 0; i < j->t->change_count && rc == 0; i++) {
        const struct meta_change *c = &j->t->changes[i];

        rc = c->remove ? state_pair_remove(f, txn, c->key, h)
                       : state_pair_put(f, txn, c->key, h->revision, c->value, h);
    }
    return rc == 0 ? state_head_put(f, txn, h) : rc;
}

static int
txn_write(struct txn_job *j, MDB_txn *txn)
{
    int rc = txn_conditions(j, txn);

    if (rc == 0 && j->precondition)
        return txn_reads(j, txn);
    j->revision = ++j->head.revision;
    if (rc == 0)
        rc = txn_changes(j, &j->m->file[0], txn, &j->head);
    return rc == 0 ? txn_reads(j, txn) : rc;
}

/* The same changes in the second file. */
static int
txn_repeat(const struct txn_job *j)
{
    const struct state_file *f = &j->m->file[1];
    struct state_head h;
    MDB_txn *txn = NULL;
    int rc = mdb_txn_begin(f->env, NULL, 0, &txn);

    if (rc != 0)
        return rc;
    rc = state_head_get(f, txn, &h);
    h.revision++;
    if (rc == 0)
        rc = txn_changes(j, f, txn, &h);
    if (rc == 0 && (h.revision != j->head.revision || h.count != j->head.count ||
                    h.sum != j->head.sum))
        rc = MDB_CORRUPTED;
    if (rc == 0)
        return mdb_txn_commit(txn);
    mdb_txn_abort(txn);
    return rc;
}

static void
txn_work(void *arg)
{
    struct txn_job *j = arg;
    bool writes = j->t->change_count > 0;
    MDB_txn *txn = NULL;

    assert(j->t->change_count <= META_CHANGE_MAX);
    j->rc = mdb_txn_begin(j->m->file[0].env, NULL, writes ? 0 : MDB_RDONLY, &txn);
    if (j->rc != 0)
        return;
    j->reading = writes ? NULL : txn;
    j->rc = state_head_get(&j->m->file[0], txn, &j->head);
    j->revision = j->head.revision;
    if (j->rc == 0)
        j->rc = writes ? txn_write(j, txn) : txn_reads(j, txn);
    j->committing = writes && j->rc == 0 && !j->precondition;
    if (j->committing)
        j->rc = mdb_txn_commit(txn);
    else
        mdb_txn_abort(txn);
    j->reading = NULL;
    if (j->committing && j->rc == 0 && !atomic_load(&j->m->second_failed))
        j->second_rc = txn_repeat(j);
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
    if (rc == ERR_OK && j.second_rc != 0) {
        atomic_store(&j.m->second_failed, true);
        LOG(LOG_ERROR, "meta.second",
            "the second file of the node's state takes no changes any more: one damaged "
            "bit in the first may now lose changes; restart the node",
            L_TEXT("error", mdb_strerror(j.second_rc)));
    }
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

    for (unsigned i = 0; i < FILES; i++)
        state_file_close(&m->file[i]);
    free(m);
}

static const struct meta_ops embedded_ops = {
    .name = "embedded",
    .page = embedded_page,
    .apply = embedded_apply,
    .close = embedded_close,
};

static enum err
size_as_found(struct rt_dir *dir, const char *name, uint64_t *out, struct errbuf *eb)
{
    struct rt_file *f;
    enum err rc = rt_open(dir, name, 0, 0, &f, eb);

    *out = 0;
    if (rc == ERR_NOT_FOUND)
        return ERR_OK;
    if (rc != ERR_OK)
        return rc;
    rc = rt_file_size(f, out, eb);
    rt_file_close(&f);
    return rc;
}

/* One file being opened, or made. */
struct file_job {
    struct state_file *file;
    const struct state_file *from; /* whose pairs it gets; NULL: none */
    char path[4096];
    bool make, in_folder, faulted;
    uint64_t as_found;
    struct errbuf eb;
    enum err rc;
};

static void
file_work(void *arg)
{
    struct file_job *j = arg;
    int rc;

    j->rc = j->make
                ? state_file_make(j->file, j->path, j->in_folder, &j->eb)
                : state_file_open(j->file, j->path, j->in_folder, j->as_found, &j->eb);
    if (j->rc != ERR_OK || j->from == NULL)
        return;
    rc = state_file_copy(j->from, j->file);
    if (rc != 0)
        j->rc = lmdb_err(&j->eb, rc, "writing the node's state again");
}

static void
file_guarded(void *arg)
{
    struct file_job *j = arg;

    j->faulted = !rt_guard(NULL, SIZE_MAX, file_work, j);
}

/* Runs the job for file i. After an error the file is closed, or, behind a fault in the library,
 * not used again. */
static enum err
file_run(struct embedded *m, struct rt_dir *dir, unsigned i, struct file_job *j,
         struct errbuf *eb)
{
    enum err rc;

    j->file = &m->file[i];
    j->in_folder = i == 0; /* LMDB names the files of a folder itself */
    if (j->in_folder)
        (void)snprintf(j->path, sizeof j->path, "%s", rt_dir_path(dir));
    else
        (void)snprintf(j->path, sizeof j->path, "%s/%s", rt_dir_path(dir), file_names[i]);
    rc = rt_blocking(file_guarded, j, DEADLINE_NEVER);
    if (rc != ERR_OK)
        return err_set(eb, rc, "opening the node's state was cancelled");
    if (j->faulted) {
        *j->file = (struct state_file){0};
        return err_set(eb, ERR_CORRUPT, "its pages cannot be read (SIGBUS, SIGSEGV)");
    }
    if (j->rc != ERR_OK) {
        *eb = j->eb;
        state_file_close(j->file);
    }
    return j->rc;
}

/* ERR_OK: it is open and whole, or fresh: there is none. */
static enum err
file_open(struct embedded *m, struct rt_dir *dir, unsigned i, struct errbuf *eb)
{
    struct file_job *j = xcalloc(1, sizeof *j);
    enum err rc = size_as_found(dir, file_names[i], &j->as_found, eb);

    m->file[i].fresh = rc == ERR_OK && j->as_found == 0;
    if (rc == ERR_OK && j->as_found > 0)
        rc = file_run(m, dir, i, j, eb);
    free(j);
    return rc;
}

/* Makes file i, with the pairs of the other one if that is open. */
static enum err
file_make(struct embedded *m, struct rt_dir *dir, unsigned i, struct errbuf *eb)
{
    struct file_job *j = xcalloc(1, sizeof *j);
    enum err rc;

    assert(i < FILES);
    j->make = true;
    j->from = m->file[1 - i].env != NULL ? &m->file[1 - i] : NULL;
    state_file_close(&m->file[i]);
    rc = rt_dir_unlink(dir, file_names[i], eb);
    if (rc == ERR_OK || rc == ERR_NOT_FOUND)
        rc = rt_dir_unlink(dir, lock_names[i], eb);
    if (rc == ERR_OK || rc == ERR_NOT_FOUND)
        rc = file_run(m, dir, i, j, eb);
    free(j);
    return rc;
}

/* Which file the other one is made from; FILES: both are the same. One of them is open. */
static unsigned
better_file(const struct embedded *m)
{
    const struct state_file *a = &m->file[0], *b = &m->file[1];

    assert(a->env != NULL || b->env != NULL);
    if (a->env == NULL || b->env == NULL)
        return a->env != NULL ? 0 : 1;
    if (a->head.revision != b->head.revision)
        return a->head.revision > b->head.revision ? 0 : 1;
    return a->head.count == b->head.count && a->head.sum == b->head.sum ? FILES : 0;
}

/* Says which file is made again, and why. A second file that is absent, or lacks the change during
 * which the process ended, is usual. */
static void
say_remade(const struct embedded *m, struct rt_dir *dir, unsigned better,
           const struct errbuf *why)
{
    const struct state_file *bad = &m->file[1 - better];

    assert(better < FILES);
    if (better == 0 && (bad->fresh || (bad->env != NULL && bad->head.revision + 1 ==
                                                               m->file[0].head.revision)))
        return;
    LOG(LOG_WARN, "meta.restored",
        "a file of the node's state is damaged, gone or behind: it is made again from "
        "the "
        "other one; nothing is lost",
        L_TEXT("folder", rt_dir_path(dir)), L_TEXT("file", file_names[1 - better]),
        L_TEXT("why", bad->fresh         ? "it is not there"
                      : bad->env != NULL ? "it lacks changes"
                                         : why->text));
}

static enum err
open_files(struct embedded *m, struct rt_dir *dir, struct errbuf *eb)
{
    struct errbuf why[FILES] = {{{0}}};
    enum err rc[FILES], made = ERR_OK;
    unsigned better;

    for (unsigned i = 0; i < FILES; i++) {
        rc[i] = file_open(m, dir, i, &why[i]);
        if (rc[i] == ERR_CANCELLED)
            return err_set(eb, rc[i], "%s", why[i].text);
    }
    for (unsigned i = 0; i < FILES; i++)
        if (rc[i] != ERR_OK && m->file[1 - i].env == NULL)
            return err_set(
                eb, rc[i],
                "the node's state %s/%s is damaged (%s), and %s is %s: restore "
                "it from a backup (docs/recovery.md)",
                rt_dir_path(dir), file_names[i], why[i].text, file_names[1 - i],
                rc[1 - i] != ERR_OK ? "damaged as well" : "not there");
    if (m->file[0].env == NULL && m->file[1].env == NULL)
        made = file_make(m, dir, 0, eb);
    if (made != ERR_OK)
        return made;
    better = better_file(m);
    if (better == FILES)
        return ERR_OK;
    say_remade(m, dir, better, &why[1 - better]);
    return file_make(m, dir, 1 - better, eb);
}

enum err
meta_open_embedded(struct rt_dir *dir, struct meta **out, struct errbuf *eb)
{
    struct embedded *m = xcalloc(1, sizeof *m);
    enum err rc;

    *out = NULL;
    m->base.ops = &embedded_ops;
    rc = open_files(m, dir, eb);
    if (rc != ERR_OK) {
        embedded_close(&m->base);
        return rc;
    }
    assert(m->file[0].env != NULL);
    assert(m->file[1].env != NULL);
    *out = &m->base;
    return ERR_OK;
}
