/* store_replica: operations for a layer that keeps an object on several disks of a node; part of
 * store.h.
 *
 * A write with copies is a two-phase commit. The body goes to all disks under one content id.
 * store_prepare() makes it durable on the copies, invisible to look-ups. store_commit() on the
 * owner checks conditions and assigns the version. store_commit_prepared() follows on the
 * copies, then the reply; if the owner rejected the write, store_abort_prepared(). After a crash
 * the owner's entry decides about each version that store_prepared() lists. If it has that
 * content: commit with its version. If not: abort, because it was never committed or something
 * newer has replaced it. Only the native class has copies.
 *
 * All calls: any loop, may switch. */
#pragma once
#include "store/store_upload.h"

/* Mints an id from the counter of this disk (or its node): for an upload that begins on several
 * disks. */
struct content_id store_mint_id(struct store *d);
const struct content_id *store_writer_content(
    const struct store_writer *w); /* the writer's */
/* store_write_begin() for a body with a given content id, which another disk of the node holds
 * or will hold. */
enum err store_write_begin_as(struct store *d, const struct store_key *k, uint64_t size,
                              const struct content_id *content, struct store_writer **out,
                              struct errbuf *eb) MUST_CHECK;

/* Takes the writer: *wp is NULL afterwards, whatever the result. On ERR_OK the body is durable
 * on this disk. It survives restarts, invisible, until store_commit_prepared() or
 * store_abort_prepared(). ERR_BUSY: too many are prepared (store_options.prepared_max).
 * ERR_EXISTS: this content is already prepared or committed. Another error: unknown, as with
 * store_commit(); call store_abort_prepared(). `by`: the node that orders the write; NULL: this
 * one. Only that node's outcome, or a new owner of the key, ends the prepared version. */
enum err store_prepare(struct store_writer **wp, const struct object_meta *meta,
                       const struct coordinator *by, struct errbuf *eb) MUST_CHECK;
/* Makes the prepared body the key's entry, as version `v`, or drops it if a newer entry or
 * tombstone is here. Every later look-up sees it. Not synced: after a crash it may be prepared
 * again. Idempotent. ERR_NOT_FOUND: nothing is prepared under this content, and the key is at an
 * older version: this copy is lost and needs repair. */
enum err store_commit_prepared(struct store *d, const struct store_key *k,
                               const struct content_id *content, const struct version *v,
                               struct errbuf *eb) MUST_CHECK;
/* Drops a prepared version, durably; ERR_OK also if there is none. ERR_PRECONDITION: it is
 * committed, the key's current entry has this content. */
enum err store_abort_prepared(struct store *d, const struct store_key *k,
                              const struct content_id *content,
                              struct errbuf *eb) MUST_CHECK;

struct store_prepared {
    uint64_t bucket;
    struct span key; /* in the arena */
    struct content_id content;
    /* Assigned at prepare: later than everything committed here before. If the owner is lost for
     * good, committing with this version, in its order, keeps the acknowledged writes. */
    struct version prepared;
    struct coordinator coordinator; /* node 0: this node, under the epoch of `prepared` */
    uint64_t size;
    int64_t mtime_ms;
    struct upload_id upload; /* zero, or the upload that was to be completed */
};
/* Lists the prepared versions, by content id, after `after` (NULL: from the first). After a
 * start these are leftovers; while writes run, also those in progress. */
enum err store_prepared(struct store *d, const struct content_id *after, uint32_t max,
                        struct arena *a, struct store_prepared **out, uint32_t *count,
                        bool *more, struct errbuf *eb) MUST_CHECK;

/* Writes a whole copy of a committed version to this disk: repair, drain, rebalance, more
 * copies. Takes the writer (of store_write_begin_as() with the entry's content). Durable;
 * becomes current, also in place of the same version (which was damaged, or moves). `entry`
 * gives the version; all else is as written. ERR_PRECONDITION: a newer entry or tombstone is
 * here; nothing was changed. Versions of a key only rise: after dropping a tombstone the caller
 * must not write an older version. */
enum err store_commit_replica(struct store_writer **wp, const struct object_meta *meta,
                              const struct entry *entry, struct errbuf *eb) MUST_CHECK;
/* The same for a multipart object (ENTRY_PARTS): store_replica_begin() on the target disk, then
 * store_part_begin_as() for each part (store_object_parts(), store_read_begin() at its offset),
 * then store_replica_complete(). The upload has the entry's content id, so an interrupted copy
 * can continue: ERR_EXISTS, *out is set, and store_part_list() lists the parts present.
 * store_upload_list() omits it, store_replica_list() has it: after a start, continue it or end
 * it with store_upload_abort(). */
enum err store_replica_begin(struct store *d, const struct store_key *k,
                             const struct entry *entry, struct upload_id *out,
                             struct errbuf *eb) MUST_CHECK;
enum err store_replica_complete(struct store *d, const struct store_key *k,
                                const struct upload_id *u, const struct store_part *parts,
                                uint32_t count, const struct object_meta *meta,
                                const struct entry *entry, struct errbuf *eb) MUST_CHECK;
enum err store_replica_list(struct store *d, uint64_t bucket, struct span after_key,
                            const struct upload_id *after_id, uint32_t max,
                            struct arena *a, struct store_upload **out, uint32_t *count,
                            bool *more, struct errbuf *eb) MUST_CHECK;
/* Removes this disk's copy without a delete: drain, rebalance, fewer copies. Durable. Only while
 * the entry is this version: else ERR_PRECONDITION; ERR_NOT_FOUND if there is none. */
enum err store_drop_replica(struct store *d, const struct store_key *k,
                            const struct version *v, struct errbuf *eb) MUST_CHECK;

/* store_delete() for keys that other disks may hold, too. */
struct store_delete_options {
    const struct store_condition *condition; /* NULL: none */
    const struct version
        *version; /* as the owner committed it; NULL: this disk is the owner */
    bool
        keep_tombstone; /* keep it, to reject older copies, until store_tombstone_drop() */
    bool always;        /* keep_tombstone: also if this disk has nothing of the key */
    int64_t now_ms;     /* becomes the tombstone's mtime_ms */
};
struct store_deleted {
    bool existed;           /* an object existed here */
    struct version version; /* version of the delete; zero if nothing was written */
};
/* Durable. If the given version is older than the entry's, writes nothing and returns ERR_OK. */
enum err store_delete_with(struct store *d, const struct store_key *k,
                           const struct store_delete_options *o,
                           struct store_deleted *out, struct errbuf *eb) MUST_CHECK;
/* Drops the tombstone `v`, once every disk that could hold an older version has it or is
 * removed. ERR_OK if there is none, or another one. Not synced: after a crash it may exist
 * again. */
enum err store_tombstone_drop(struct store *d, const struct store_key *k,
                              const struct version *v, struct errbuf *eb) MUST_CHECK;

/* Uploads on several disks: the same upload id and content ids of parts everywhere; written,
 * listed and ended as others. ERR_EXISTS: the upload is present already. */
enum err store_upload_begin_as(struct store *d, const struct store_key *k,
                               const struct object_meta *meta, const struct upload_id *u,
                               struct errbuf *eb) MUST_CHECK;
enum err store_part_begin_as(struct store *d, const struct store_key *k,
                             const struct upload_id *u, uint32_t number, uint64_t size,
                             const struct content_id *content, struct store_writer **out,
                             struct errbuf *eb) MUST_CHECK;
/* store_upload_complete() as a prepare, under the content id that the owner's entry gets by
 * store_upload_complete_as(). Until it is committed or aborted, no part of this upload can be
 * replaced, and the upload can't be aborted or prepared again (ERR_BUSY).
 * store_commit_prepared() ends the upload. */
enum err store_upload_prepare(struct store *d, const struct store_key *k,
                              const struct upload_id *u, const struct store_part *parts,
                              uint32_t count, const struct content_id *content,
                              const struct object_meta *meta,
                              const struct coordinator *by, struct errbuf *eb) MUST_CHECK;
/* store_upload_complete() with a content id minted before. A repeat returns the entry of the
 * first call; if out->content is not `content`, abort what was prepared under `content`. */
enum err store_upload_complete_as(struct store *d, const struct store_key *k,
                                  const struct upload_id *u,
                                  const struct store_part *parts, uint32_t count,
                                  const struct content_id *content,
                                  const struct object_meta *meta,
                                  const struct store_condition *c, struct entry *out,
                                  struct errbuf *eb) MUST_CHECK;
