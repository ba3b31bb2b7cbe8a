/* The operations of a replica that is a store of this node: each one is a function of store.h. */
#include "disks/replica.h"

#include <assert.h>

#define X(name, fn, params, args)                                                        \
    static enum err local_##name(struct replica *r, REPLICA_LIST params)                 \
    {                                                                                    \
        return fn(r->store, REPLICA_LIST args);                                          \
    }
REPLICA_OPS(X)
#undef X

/* ---- bodies ---- */

static enum err
local_read_begin(struct replica *r, const struct store_key *k, const struct entry *e,
                 uint64_t offset, uint64_t len, struct replica_reader **out,
                 struct errbuf *eb)
{
    struct store_reader *reader = NULL;
    enum err rc = store_read_begin(r->store, k, e, offset, len, &reader, eb);

    assert((rc == ERR_OK) == (reader != NULL));
    *out = (struct replica_reader *)(void *)reader;
    return rc;
}

static enum err
local_read_next(struct replica_reader *r, struct deadline by, struct span *piece,
                struct errbuf *eb)
{
    return store_read_next(replica_local_reader(r), by, piece, eb);
}

static void
local_read_end(struct replica_reader **rp)
{
    struct store_reader *reader = replica_local_reader(*rp);

    *rp = NULL;
    store_read_end(&reader);
}

static enum err
local_write_begin(struct replica *r, const struct store_key *k, enum store_class class,
                  uint64_t size, const struct content_id *content,
                  struct replica_writer **out, struct errbuf *eb)
{
    struct store_writer *w = NULL;
    enum err rc = content == NULL
                      ? store_write_begin(r->store, k, class, size, &w, eb)
                      : store_write_begin_as(r->store, k, size, content, &w, eb);

    /* Only the native class has copies. */
    assert(content == NULL || class == STORE_NATIVE);
    assert((rc == ERR_OK) == (w != NULL));
    *out = (struct replica_writer *)(void *)w;
    return rc;
}

static enum err
local_part_begin(struct replica *r, const struct store_key *k, const struct upload_id *u,
                 uint32_t number, uint64_t size, const struct content_id *content,
                 struct replica_writer **out, struct errbuf *eb)
{
    struct store_writer *w = NULL;
    enum err rc = content == NULL ? store_part_begin(r->store, k, u, number, size, &w, eb)
                                  : store_part_begin_as(r->store, k, u, number, size,
                                                        content, &w, eb);

    assert((rc == ERR_OK) == (w != NULL));
    *out = (struct replica_writer *)(void *)w;
    return rc;
}

static enum err
local_write(struct replica_writer *w, const void *data, size_t len, struct errbuf *eb)
{
    return store_write(replica_local_writer(w), data, len, eb);
}

static const struct content_id *
local_content(const struct replica_writer *w)
{
    return store_writer_content(replica_local_writer(w));
}

/* Returns the store's writer, which the caller must end; *wp becomes NULL. */
static struct store_writer *
take_writer(struct replica_writer **wp)
{
    struct store_writer *w = replica_local_writer(*wp);

    *wp = NULL;
    return w;
}

static void
local_write_abort(struct replica_writer **wp)
{
    struct store_writer *w = take_writer(wp);

    store_write_abort(&w);
}

static enum err
local_prepare(struct replica_writer **wp, const struct object_meta *meta,
              const struct coordinator *by, struct errbuf *eb)
{
    struct store_writer *w = take_writer(wp);
    enum err rc = store_prepare(&w, meta, by, eb);

    assert(w == NULL);
    return rc;
}

static enum err
local_commit(struct replica_writer **wp, const struct object_meta *meta,
             const struct store_condition *c, struct entry *out, struct errbuf *eb)
{
    struct store_writer *w = take_writer(wp);
    enum err rc = store_commit(&w, meta, c, out, eb);

    assert(w == NULL);
    return rc;
}

static enum err
local_commit_replica(struct replica_writer **wp, const struct object_meta *meta,
                     const struct entry *e, struct errbuf *eb)
{
    struct store_writer *w = take_writer(wp);
    enum err rc = store_commit_replica(&w, meta, e, eb);

    assert(w == NULL);
    return rc;
}

static enum err
local_part_commit(struct replica_writer **wp, const struct object_meta *meta,
                  struct errbuf *eb)
{
    struct store_writer *w = take_writer(wp);
    enum err rc = store_part_commit(&w, meta, eb);

    assert(w == NULL);
    return rc;
}

const struct replica_ops replica_local_ops = {
#define X(name, fn, params, args) .name = local_##name,
    REPLICA_OPS(X)
#undef X
        .read_begin = local_read_begin,
    .read_next = local_read_next,
    .read_end = local_read_end,
    .write_begin = local_write_begin,
    .part_begin = local_part_begin,
    .write = local_write,
    .write_abort = local_write_abort,
    .content = local_content,
    .prepare = local_prepare,
    .commit = local_commit,
    .commit_replica = local_commit_replica,
    .part_commit = local_part_commit,
};
