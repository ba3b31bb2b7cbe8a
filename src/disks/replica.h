/* replica: one participant that holds copies of objects, as the rest of this room sees it.
 *
 * A write with copies is a two-phase commit. A body goes to every replica under one content id.
 * The copies prepare it. The owner checks preconditions, assigns the version and commits. Then
 * the copies commit. If the owner rejects the write, the copies abort.
 *
 * A replica is a table of operations. Today every replica is a store of this node, and each
 * operation is the function of store.h with the same name (see there for the contract). A
 * replica on another node brings a table of its own. Calls that only make sense for a local disk
 * (space, health, the cached class, reads without a fiber) go to `store` directly.
 *
 * Fibers: any loop; all operations may switch.
 */
#pragma once
#include "store/store.h"

struct replica;
struct replica_reader; /* a body being read; of the replica that began it */
struct replica_writer; /* a body being written */

/* X(name, function of the store, parameters, arguments): enum err replica_NAME(struct replica *, parameters). The last
 * parameter is `eb`. */
#define REPLICA_OPS(X)                                                                   \
    /* -- reading -- */                                                                  \
    X(lookup, store_lookup,                                                              \
      (const struct store_key *k, struct entry *out, struct errbuf *eb), (k, out, eb))   \
    X(lookup_any, store_lookup_any,                                                      \
      (const struct store_key *k, struct entry *out, struct errbuf *eb), (k, out, eb))   \
    X(meta, store_meta,                                                                  \
      (const struct store_key *k, const struct entry *e, struct arena *a,                \
       struct object_meta *out, struct errbuf *eb),                                      \
      (k, e, a, out, eb))                                                                \
    X(version_find, store_version_find,                                                  \
      (const struct store_key *k, const struct version *born, struct entry *out,         \
       bool *current, struct errbuf *eb),                                                \
      (k, born, out, current, eb))                                                       \
    X(version_list, store_version_list,                                                  \
      (uint64_t bucket, struct span after_key, bool inclusive,                           \
       const struct version *after, uint32_t max, struct arena *a,                       \
       struct store_version **out, uint32_t *count, bool *more, struct errbuf *eb),      \
      (bucket, after_key, inclusive, after, max, a, out, count, more, eb))               \
    X(list, store_list,                                                                  \
      (uint64_t bucket, struct span after, bool inclusive, uint32_t max,                 \
       struct arena *a, struct store_entry **out, uint32_t *count, bool *more,           \
       struct errbuf *eb),                                                               \
      (bucket, after, inclusive, max, a, out, count, more, eb))                          \
    X(list_any, store_list_any,                                                          \
      (uint64_t bucket, struct span after, bool inclusive, uint32_t max,                 \
       struct arena *a, struct store_entry **out, uint32_t *count, bool *more,           \
       struct errbuf *eb),                                                               \
      (bucket, after, inclusive, max, a, out, count, more, eb))                          \
    X(bucket_empty, store_bucket_empty,                                                  \
      (uint64_t bucket, bool *empty, struct errbuf *eb), (bucket, empty, eb))            \
    X(object_parts, store_object_parts,                                                  \
      (const struct entry *e, struct arena *a, struct store_object_part **out,           \
       uint32_t *count, struct errbuf *eb),                                              \
      (e, a, out, count, eb))                                                            \
    /* -- two-phase commit -- */                                                         \
    X(commit_prepared, store_commit_prepared,                                            \
      (const struct store_key *k, const struct content_id *content,                      \
       const struct version *v, struct errbuf *eb),                                      \
      (k, content, v, eb))                                                               \
    X(abort_prepared, store_abort_prepared,                                              \
      (const struct store_key *k, const struct content_id *content, struct errbuf *eb),  \
      (k, content, eb))                                                                  \
    X(prepared, store_prepared,                                                          \
      (const struct content_id *after, uint32_t max, struct arena *a,                    \
       struct store_prepared **out, uint32_t *count, bool *more, struct errbuf *eb),     \
      (after, max, a, out, count, more, eb))                                             \
    X(flush, store_flush, (struct errbuf * eb), (eb))                                    \
    /* -- changes; `as`: the version that the owner gave, NULL: this replica owns -- */  \
    X(delete_with, store_delete_with,                                                    \
      (const struct store_key *k, const struct store_delete_options *o,                  \
       struct store_deleted *out, struct errbuf *eb),                                    \
      (k, o, out, eb))                                                                   \
    X(delete_mark, store_delete_mark,                                                    \
      (const struct store_key *k, enum store_versioning versioning,                      \
       const struct store_condition *c, const struct version *as, struct entry *marker,  \
       struct errbuf *eb),                                                               \
      (k, versioning, c, as, marker, eb))                                                \
    X(version_delete, store_version_delete,                                              \
      (const struct store_key *k, const struct version *born,                            \
       const struct store_condition *c, const struct version *as, struct entry *was,     \
       struct version *decided, struct errbuf *eb),                                      \
      (k, born, c, as, was, decided, eb))                                                \
    X(set_meta, store_set_meta,                                                          \
      (const struct store_key *k, const struct version *born,                            \
       const struct object_meta *meta, const struct store_condition *c,                  \
       const struct version *as, struct entry *out, struct errbuf *eb),                  \
      (k, born, meta, c, as, out, eb))                                                   \
    X(tombstone_drop, store_tombstone_drop,                                              \
      (const struct store_key *k, const struct version *v, struct errbuf *eb),           \
      (k, v, eb))                                                                        \
    X(drop_copy, store_drop_replica,                                                     \
      (const struct store_key *k, const struct version *v, struct errbuf *eb),           \
      (k, v, eb))                                                                        \
    /* -- uploads, and copies of objects in parts -- */                                  \
    X(upload_begin_as, store_upload_begin_as,                                            \
      (const struct store_key *k, const struct object_meta *meta,                        \
       const struct upload_id *u, struct errbuf *eb),                                    \
      (k, meta, u, eb))                                                                  \
    X(upload_meta, store_upload_meta,                                                    \
      (const struct store_key *k, const struct upload_id *u, struct arena *a,            \
       struct object_meta *out, struct errbuf *eb),                                      \
      (k, u, a, out, eb))                                                                \
    X(upload_list, store_upload_list,                                                    \
      (uint64_t bucket, struct span after_key, const struct upload_id *after_id,         \
       uint32_t max, struct arena *a, struct store_upload **out, uint32_t *count,        \
       bool *more, struct errbuf *eb),                                                   \
      (bucket, after_key, after_id, max, a, out, count, more, eb))                       \
    X(part_list, store_part_list,                                                        \
      (const struct store_key *k, const struct upload_id *u, uint32_t after,             \
       uint32_t max, struct arena *a, struct store_part **out, uint32_t *count,          \
       bool *more, struct errbuf *eb),                                                   \
      (k, u, after, max, a, out, count, more, eb))                                       \
    X(part_find, store_part_find,                                                        \
      (const struct store_key *k, const struct upload_id *u, uint32_t number,            \
       struct entry *out, struct errbuf *eb),                                            \
      (k, u, number, out, eb))                                                           \
    X(upload_prepare, store_upload_prepare,                                              \
      (const struct store_key *k, const struct upload_id *u,                             \
       const struct store_part *parts, uint32_t count, const struct content_id *content, \
       const struct object_meta *meta, const struct coordinator *by, struct errbuf *eb), \
      (k, u, parts, count, content, meta, by, eb))                                       \
    X(upload_complete, store_upload_complete,                                            \
      (const struct store_key *k, const struct upload_id *u,                             \
       const struct store_part *parts, uint32_t count, const struct object_meta *meta,   \
       const struct store_condition *c, struct entry *out, struct errbuf *eb),           \
      (k, u, parts, count, meta, c, out, eb))                                            \
    X(upload_complete_as, store_upload_complete_as,                                      \
      (const struct store_key *k, const struct upload_id *u,                             \
       const struct store_part *parts, uint32_t count, const struct content_id *content, \
       const struct object_meta *meta, const struct store_condition *c,                  \
       struct entry *out, struct errbuf *eb),                                            \
      (k, u, parts, count, content, meta, c, out, eb))                                   \
    X(upload_abort, store_upload_abort,                                                  \
      (const struct store_key *k, const struct upload_id *u, struct errbuf *eb),         \
      (k, u, eb))                                                                        \
    X(copy_begin, store_replica_begin,                                                   \
      (const struct store_key *k, const struct entry *e, struct upload_id *out,          \
       struct errbuf *eb),                                                               \
      (k, e, out, eb))                                                                   \
    X(copy_complete, store_replica_complete,                                             \
      (const struct store_key *k, const struct upload_id *u,                             \
       const struct store_part *parts, uint32_t count, const struct object_meta *meta,   \
       const struct entry *e, struct errbuf *eb),                                        \
      (k, u, parts, count, meta, e, eb))                                                 \
    X(copy_list, store_replica_list,                                                     \
      (uint64_t bucket, struct span after_key, const struct upload_id *after_id,         \
       uint32_t max, struct arena *a, struct store_upload **out, uint32_t *count,        \
       bool *more, struct errbuf *eb),                                                   \
      (bucket, after_key, after_id, max, a, out, count, more, eb))

/* Prepends another parameter to a list in parentheses. */
#define REPLICA_LIST(...) __VA_ARGS__

struct replica_ops {
#define X(name, fn, params, args)                                                        \
    enum err (*name)(struct replica * r, REPLICA_LIST params) MUST_CHECK;
    REPLICA_OPS(X)
#undef X
    /* Bodies: as store_read_*(), store_write_*() and the like. `content` NULL: the replica mints
     * the id. */
    enum err (*read_begin)(struct replica *r, const struct store_key *k,
                           const struct entry *e, uint64_t offset, uint64_t len,
                           struct replica_reader **out, struct errbuf *eb);
    enum err (*read_next)(struct replica_reader *r, struct deadline by,
                          struct span *piece, struct errbuf *eb);
    void (*read_end)(struct replica_reader **rp);
    enum err (*write_begin)(struct replica *r, const struct store_key *k,
                            enum store_class class, uint64_t size,
                            const struct content_id *content, struct replica_writer **out,
                            struct errbuf *eb);
    enum err (*part_begin)(struct replica *r, const struct store_key *k,
                           const struct upload_id *u, uint32_t number, uint64_t size,
                           const struct content_id *content, struct replica_writer **out,
                           struct errbuf *eb);
    enum err (*write)(struct replica_writer *w, const void *data, size_t len,
                      struct errbuf *eb);
    void (*write_abort)(struct replica_writer **wp);
    const struct content_id *(*content)(
        const struct replica_writer *w); /* the writer's */
    /* These take the writer: *wp is NULL afterwards, whatever the result. */
    enum err (*prepare)(struct replica_writer **wp, const struct object_meta *meta,
                        const struct coordinator *by, struct errbuf *eb);
    enum err (*commit)(struct replica_writer **wp, const struct object_meta *meta,
                       const struct store_condition *c, struct entry *out,
                       struct errbuf *eb);
    enum err (*commit_replica)(struct replica_writer **wp, const struct object_meta *meta,
                               const struct entry *e, struct errbuf *eb);
    enum err (*part_commit)(struct replica_writer **wp, const struct object_meta *meta,
                            struct errbuf *eb);
};

struct replica {
    const struct replica_ops *ops; /* NULL: it was missing at the start */
    struct store *store;           /* owned by its slot; the local store behind it */
};

extern const struct replica_ops replica_local_ops;

/* Returns ERR_UNAVAILABLE, with a message. */
enum err err_unreachable(struct errbuf *eb);

/* `r` NULL: the replica is out of service; returns err_unreachable(). */
#define X(name, fn, params, args)                                                        \
    static inline enum err replica_##name(struct replica *r, REPLICA_LIST params)        \
    {                                                                                    \
        return r != NULL ? r->ops->name(r, REPLICA_LIST args) : err_unreachable(eb);     \
    }
REPLICA_OPS(X)
#undef X

/* The store's own reader and writer, for operations of a local body beyond the table: pieces in
 * memory, space to read into. */
static inline struct store_reader *
replica_local_reader(struct replica_reader *r)
{
    return (struct store_reader *)(void *)r;
}
static inline struct store_writer *
replica_local_writer(const struct replica_writer *w)
{
    return (struct store_writer *)(uintptr_t)w;
}
