#include "meta/state_file.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "base/hash.h"
#include "base/mem.h"
#include "meta/meta.h"
#include "rt/fault.h"

#define REVISION_BYTES  8
#define PAIR_HEAD_BYTES 12 /* be64 revision, be32 sum; the value follows */
#define HEAD_BYTES      28 /* be64 revision, count, sum; be32 sum of these */
#define HEAD_KEY        "head"
#define FORMER_KEY      "revision" /* of programs that wrote no sums */

static_assert(HEAD_BYTES == 3 * 8 + 4, "three numbers and a sum");
static_assert(META_VALUE_MAX < UINT32_MAX - PAIR_HEAD_BYTES, "lengths fit");

static void
state_put_be(void *p, uint64_t v, unsigned bytes)
{
    unsigned char *out = p;

    for (unsigned i = bytes; i-- > 0; v >>= 8)
        out[i] = (unsigned char)v;
}

static uint64_t
state_take_be(const void *p, unsigned bytes)
{
    struct cursor c = cursor_of(p, bytes);

    return take_be(&c, bytes);
}

/* ---- pairs ---- */

static uint32_t
pair_sum(struct span key, const void *revision, struct span value)
{
    char len[4];
    uint32_t sum;

    state_put_be(len, key.len, sizeof len);
    sum = hash_crc32c(0, len, sizeof len);
    sum = hash_crc32c(sum, key.at, key.len);
    sum = hash_crc32c(sum, revision, REVISION_BYTES);
    return value.len > 0 ? hash_crc32c(sum, value.at, value.len) : sum;
}

int
state_pair_decode(struct span key, const MDB_val *v, uint64_t *revision,
                  struct span *value)
{
    const char *at = v->mv_data;

    if (v->mv_size < PAIR_HEAD_BYTES || v->mv_size > PAIR_HEAD_BYTES + META_VALUE_MAX)
        return MDB_CORRUPTED;
    *revision = state_take_be(at, REVISION_BYTES);
    *value = (struct span){at + PAIR_HEAD_BYTES, v->mv_size - PAIR_HEAD_BYTES};
    return *revision > 0 &&
                   pair_sum(key, at, *value) == state_take_be(at + REVISION_BYTES, 4)
               ? 0
               : MDB_CORRUPTED;
}

/* What a pair adds to the sum of the head. */
static uint64_t
pair_weight(struct span key, const MDB_val *v)
{
    return hash_xxh3(v->mv_data, v->mv_size, hash_xxh3(key.at, key.len, 0));
}

static int
pair_find(const struct state_file *f, MDB_txn *txn, struct span key, MDB_val *v)
{
    MDB_val k = {key.len, (void *)(uintptr_t)key.at};

    assert(key.len > 0);
    return mdb_get(txn, f->pairs, &k, v);
}

int
state_pair_get(const struct state_file *f, MDB_txn *txn, struct span key,
               uint64_t *revision, struct span *value)
{
    MDB_val v;
    int rc = pair_find(f, txn, key, &v);

    *revision = 0;
    *value = (struct span){NULL, 0};
    if (rc != 0)
        return rc == MDB_NOTFOUND ? 0 : rc;
    return state_pair_decode(key, &v, revision, value);
}

static int
tally_out(const struct state_file *f, MDB_txn *txn, struct span key, struct state_head *h)
{
    MDB_val v;
    int rc = pair_find(f, txn, key, &v);

    if (rc != 0)
        return rc;
    if (h->count == 0)
        return MDB_CORRUPTED;
    h->count--;
    h->sum -= pair_weight(key, &v);
    return 0;
}

int
state_pair_put(const struct state_file *f, MDB_txn *txn, struct span key,
               uint64_t revision, struct span value, struct state_head *h)
{
    MDB_val k = {key.len, (void *)(uintptr_t)key.at};
    MDB_val v = {PAIR_HEAD_BYTES + value.len, NULL};
    int rc = tally_out(f, txn, key, h);
    char *at;

    assert(revision > 0);
    assert(value.len <= META_VALUE_MAX);
    if (rc == 0 || rc == MDB_NOTFOUND)
        rc = mdb_put(txn, f->pairs, &k, &v, MDB_RESERVE);
    if (rc != 0)
        return rc;
    at = v.mv_data;
    state_put_be(at, revision, REVISION_BYTES);
    state_put_be(at + REVISION_BYTES, pair_sum(key, at, value), 4);
    if (value.len > 0)
        memcpy(at + PAIR_HEAD_BYTES, value.at, value.len);
    h->count++;
    h->sum += pair_weight(key, &v);
    return 0;
}

int
state_pair_remove(const struct state_file *f, MDB_txn *txn, struct span key,
                  struct state_head *h)
{
    MDB_val k = {key.len, (void *)(uintptr_t)key.at};
    int rc = tally_out(f, txn, key, h);

    if (rc == 0)
        rc = mdb_del(txn, f->pairs, &k, NULL);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

/* ---- the head ---- */

int
state_head_get(const struct state_file *f, MDB_txn *txn, struct state_head *out)
{
    MDB_val k = {strlen(HEAD_KEY), (void *)(uintptr_t)HEAD_KEY}, v;
    int rc = mdb_get(txn, f->system, &k, &v);
    struct cursor c;

    *out = (struct state_head){0};
    if (rc != 0)
        return rc;
    if (v.mv_size != HEAD_BYTES)
        return MDB_CORRUPTED;
    c = cursor_of(v.mv_data, v.mv_size);
    *out = (struct state_head){.revision = take_be(&c, 8), .count = take_be(&c, 8)};
    out->sum = take_be(&c, 8);
    return take_be(&c, 4) == hash_crc32c(0, v.mv_data, HEAD_BYTES - 4) ? 0
                                                                       : MDB_CORRUPTED;
}

int
state_head_put(const struct state_file *f, MDB_txn *txn, const struct state_head *h)
{
    char bytes[HEAD_BYTES];
    MDB_val k = {strlen(HEAD_KEY), (void *)(uintptr_t)HEAD_KEY}, v = {HEAD_BYTES, bytes};

    assert(h->revision > 0 || h->count == 0);
    assert(h->count > 0 || h->sum == 0);
    state_put_be(bytes, h->revision, 8);
    state_put_be(bytes + 8, h->count, 8);
    state_put_be(bytes + 16, h->sum, 8);
    state_put_be(bytes + 24, hash_crc32c(0, bytes, HEAD_BYTES - 4), 4);
    return mdb_put(txn, f->system, &k, &v, 0);
}

/* ---- what a file is, as found ---- */

/* LMDB opens a file that was cut in the middle as if it were whole. */
static bool
is_cut(const struct state_file *f, uint64_t as_found)
{
    MDB_envinfo info;
    MDB_stat stat;

    return as_found > 0 && mdb_env_info(f->env, &info) == 0 &&
           mdb_env_stat(f->env, &stat) == 0 &&
           (info.me_last_pgno + 1) * (uint64_t)stat.ms_psize > as_found;
}

/* One pair: its sum, its order, and that a search finds it where it is. */
static int
verify_pair(const struct state_file *f, MDB_txn *txn, struct span before, struct span key,
            const MDB_val *v, struct state_head *seen)
{
    uint64_t revision;
    struct span value;
    MDB_val found;
    int rc = MDB_CORRUPTED;

    if (key.len > 0 && key.len <= META_KEY_MAX &&
        (before.len == 0 || span_cmp(before, key) < 0))
        rc = state_pair_decode(key, v, &revision, &value);
    if (rc == 0)
        rc = pair_find(f, txn, key, &found) == 0 && found.mv_data == v->mv_data &&
                     revision <= f->head.revision
                 ? 0
                 : MDB_CORRUPTED;
    seen->count++;
    if (rc == 0)
        seen->sum += pair_weight(key, v);
    return rc;
}

static int
verify_pairs(const struct state_file *f, MDB_txn *txn)
{
    struct state_head seen = {0};
    struct span before = {NULL, 0};
    MDB_cursor *cursor = NULL;
    MDB_val k, v;
    int rc = mdb_cursor_open(txn, f->pairs, &cursor);

    if (rc == 0)
        rc = mdb_cursor_get(cursor, &k, &v, MDB_FIRST);
    while (rc == 0) {
        struct span key = {k.mv_data, k.mv_size};

        rc = seen.count < f->head.count ? verify_pair(f, txn, before, key, &v, &seen)
                                        : MDB_CORRUPTED;
        before = key;
        if (rc == 0)
            rc = mdb_cursor_get(cursor, &k, &v, MDB_NEXT);
    }
    if (cursor != NULL)
        mdb_cursor_close(cursor);
    if (rc == MDB_NOTFOUND)
        rc = seen.count == f->head.count && seen.sum == f->head.sum ? 0 : MDB_CORRUPTED;
    return rc;
}

static int
open_tables(struct state_file *f, MDB_txn *txn, unsigned flags)
{
    int rc = mdb_dbi_open(txn, "pairs", flags, &f->pairs);

    return rc == 0 ? mdb_dbi_open(txn, "system", flags, &f->system) : rc;
}

/* A file that was just made, or whose making a crash ended. */
static int
state_file_begin(struct state_file *f)
{
    MDB_txn *txn = NULL;
    int rc = mdb_txn_begin(f->env, NULL, 0, &txn);

    if (rc == 0)
        rc = open_tables(f, txn, MDB_CREATE);
    f->head = (struct state_head){0};
    if (rc == 0)
        rc = state_head_put(f, txn, &f->head);
    if (rc != 0) {
        if (txn != NULL)
            mdb_txn_abort(txn);
        return rc;
    }
    return mdb_txn_commit(txn);
}

/* ---- a file of a former program ---- */

/* A pair of it: be64 revision, value. */
static int
convert_pair(struct state_file *f, MDB_txn *txn, struct span key, struct state_head *h)
{
    MDB_val k = {key.len, (void *)(uintptr_t)key.at}, v;
    int rc = mdb_get(txn, f->pairs, &k, &v);
    uint64_t revision;
    size_t len;
    char *value;

    if (rc == 0 &&
        (v.mv_size < REVISION_BYTES || v.mv_size > REVISION_BYTES + META_VALUE_MAX))
        rc = MDB_CORRUPTED;
    if (rc != 0)
        return rc;
    revision = state_take_be(v.mv_data, REVISION_BYTES);
    len = v.mv_size - REVISION_BYTES;
    value = xmemdup0((const char *)v.mv_data + REVISION_BYTES, len);
    rc = mdb_del(txn, f->pairs, &k, NULL);
    if (rc == 0)
        rc = revision > 0
                 ? state_pair_put(f, txn, key, revision, (struct span){value, len}, h)
                 : MDB_CORRUPTED;
    free(value);
    return rc;
}

static int
convert_pairs(struct state_file *f, MDB_txn *txn, struct state_head *h)
{
    char last[META_KEY_MAX], *key;
    MDB_cursor *cursor = NULL;
    size_t len = 0;
    MDB_val k, v;
    int rc = 0;

    while (rc == 0) {
        k = (MDB_val){len, last};
        rc = mdb_cursor_open(txn, f->pairs, &cursor);
        if (rc == 0)
            rc = mdb_cursor_get(cursor, &k, &v, len > 0 ? MDB_SET_RANGE : MDB_FIRST);
        if (rc == 0 && len > 0)
            rc = mdb_cursor_get(cursor, &k, &v, MDB_NEXT);
        if (rc == 0 && (k.mv_size == 0 || k.mv_size > META_KEY_MAX))
            rc = MDB_CORRUPTED;
        if (rc == 0) {
            len = k.mv_size;
            memcpy(last, k.mv_data, len);
        }
        mdb_cursor_close(cursor);
        key = last;
        if (rc == 0)
            rc = convert_pair(f, txn, (struct span){key, len}, h);
    }
    return rc == MDB_NOTFOUND ? 0 : rc;
}

/* Writes the sums, all in one transaction. There was no tally, so a pair that was lost before is
 * not noticed. */
static int
convert(struct state_file *f, uint64_t revision)
{
    MDB_val k = {strlen(FORMER_KEY), (void *)(uintptr_t)FORMER_KEY};
    struct state_head h = {.revision = revision};
    MDB_txn *txn = NULL;
    int rc = mdb_txn_begin(f->env, NULL, 0, &txn);

    if (rc != 0)
        return rc;
    rc = convert_pairs(f, txn, &h);
    if (rc == 0)
        rc = state_head_put(f, txn, &h);
    if (rc == 0)
        rc = mdb_del(txn, f->system, &k, NULL);
    if (rc == MDB_NOTFOUND)
        rc = 0;
    if (rc != 0) {
        mdb_txn_abort(txn);
        return rc;
    }
    f->head = h;
    f->former = true;
    return mdb_txn_commit(txn);
}

/* Without a head: a former program's, or one whose making was broken off. */
static int
former_revision(const struct state_file *f, MDB_txn *txn, uint64_t *out)
{
    MDB_val k = {strlen(FORMER_KEY), (void *)(uintptr_t)FORMER_KEY}, v;
    MDB_stat stat;
    int rc = mdb_get(txn, f->system, &k, &v);

    *out = 0;
    if (rc == 0 && v.mv_size == REVISION_BYTES) {
        *out = state_take_be(v.mv_data, REVISION_BYTES);
        return *out > 0 ? 0 : MDB_CORRUPTED;
    }
    if (rc == MDB_NOTFOUND)
        rc = mdb_stat(txn, f->pairs, &stat);
    return rc == 0 && stat.ms_entries == 0 ? 0 : MDB_CORRUPTED;
}

/* ---- open ---- */

/* LMDB would end the process where a page is not of the kind that it expects. */
static void
on_assert(MDB_env *env, const char *what)
{
    (void)env;
    (void)what;
    rt_guard_leave();
}

static int
open_env(struct state_file *f, const char *path, bool in_folder)
{
    int rc = mdb_env_create(&f->env);

    if (rc == 0)
        rc = mdb_env_set_assert(f->env, on_assert);
    if (rc == 0)
        rc = mdb_env_set_mapsize(f->env, STATE_MAP_BYTES);
    if (rc == 0)
        rc = mdb_env_set_maxdbs(f->env, 4);
    return rc == 0 ? mdb_env_open(f->env, path,
                                  MDB_NOTLS | (in_folder ? 0 : MDB_NOSUBDIR), 0600)
                   : rc;
}

/* Reads it as it is; changes nothing. */
static int
look_at(struct state_file *f, uint64_t *former)
{
    MDB_txn *txn = NULL;
    int rc = mdb_txn_begin(f->env, NULL, MDB_RDONLY, &txn);

    *former = 0;
    if (rc != 0)
        return rc;
    rc = open_tables(f, txn, 0);
    if (rc == 0) {
        rc = state_head_get(f, txn, &f->head);
        if (rc == 0) {
            rc = verify_pairs(f, txn);
        } else if (rc == MDB_NOTFOUND) {
            rc = former_revision(f, txn, former);
            f->former = rc == 0;
        }
    }
    if (rc == 0)
        return mdb_txn_commit(txn); /* keeps the handles of the tables */
    mdb_txn_abort(txn);
    return rc;
}

/* True if nothing was ever committed to it. */
static bool
is_unwritten(const struct state_file *f)
{
    MDB_envinfo info;

    return mdb_env_info(f->env, &info) == 0 && info.me_last_txnid == 0;
}

static enum err
state_file_result(int rc, struct errbuf *eb)
{
    if (rc == 0)
        return ERR_OK;
    if (rc == MDB_CORRUPTED || rc == MDB_NOTFOUND)
        return err_set(eb, ERR_CORRUPT, "what it holds is not what was written");
    return err_set(eb, rc == MDB_MAP_FULL || rc > 0 ? ERR_IO : ERR_CORRUPT, "%s",
                   mdb_strerror(rc));
}

enum err
state_file_make(struct state_file *f, const char *path, bool in_folder, struct errbuf *eb)
{
    int rc;

    *f = (struct state_file){.fresh = true};
    rc = open_env(f, path, in_folder);
    return state_file_result(rc == 0 ? state_file_begin(f) : rc, eb);
}

enum err
state_file_open(struct state_file *f, const char *path, bool in_folder, uint64_t as_found,
                struct errbuf *eb)
{
    uint64_t former = 0;
    int rc;

    assert(as_found > 0);
    *f = (struct state_file){0};
    rc = open_env(f, path, in_folder);
    if (rc == 0 && is_cut(f, as_found))
        return err_set(eb, ERR_CORRUPT, "its %llu bytes are fewer than it says",
                       (unsigned long long)as_found);
    if (rc == 0 && is_unwritten(f)) {
        state_file_close(f);
        f->fresh = true;
        return ERR_OK;
    }
    if (rc == 0)
        rc = look_at(f, &former);
    if (rc == 0 && f->former)
        rc = convert(f, former);
    return state_file_result(rc, eb);
}

void
state_file_close(struct state_file *f)
{
    if (f->env != NULL)
        mdb_env_close(f->env);
    *f = (struct state_file){0};
}

static int
copy_pairs(const struct state_file *from, MDB_txn *reading, struct state_file *to,
           MDB_txn *writing)
{
    struct state_head h = {0};
    MDB_cursor *cursor = NULL;
    MDB_val k, v;
    int rc = mdb_cursor_open(reading, from->pairs, &cursor);

    if (rc == 0)
        rc = mdb_cursor_get(cursor, &k, &v, MDB_FIRST);
    while (rc == 0) {
        struct span key = {k.mv_data, k.mv_size}, value;
        uint64_t revision;

        rc = state_pair_decode(key, &v, &revision, &value);
        if (rc == 0)
            rc = state_pair_put(to, writing, key, revision, value, &h);
        if (rc == 0)
            rc = mdb_cursor_get(cursor, &k, &v, MDB_NEXT);
    }
    if (cursor != NULL)
        mdb_cursor_close(cursor);
    if (rc != MDB_NOTFOUND)
        return rc;
    if (h.count != from->head.count || h.sum != from->head.sum)
        return MDB_CORRUPTED;
    h.revision = from->head.revision;
    to->head = h;
    return state_head_put(to, writing, &h);
}

int
state_file_copy(const struct state_file *from, struct state_file *to)
{
    MDB_txn *reading = NULL, *writing = NULL;
    int rc = mdb_txn_begin(from->env, NULL, MDB_RDONLY, &reading);

    assert(to->fresh);
    assert(from->env != to->env);
    if (rc == 0)
        rc = mdb_txn_begin(to->env, NULL, 0, &writing);
    if (rc == 0)
        rc = copy_pairs(from, reading, to, writing);
    if (reading != NULL)
        mdb_txn_abort(reading);
    if (rc == 0)
        return mdb_txn_commit(writing);
    if (writing != NULL)
        mdb_txn_abort(writing);
    return rc;
}
