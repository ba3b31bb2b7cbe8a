/* store_replica: what a layer above needs to keep an object on several disks of a node; part of store.h.
 *
 * A write with copies: the body goes to all disks under one content id; store_prepare() on the copies, durable but seen
 * by no look-up; store_commit() on the owner, which checks conditions and gives the version; store_commit_prepared() on the copies;
 * then the reply. Where the owner refused, store_abort_prepared(). After a crash the owner's entry has the outcome of what
 * store_prepared() lists: it has that content: commit it, with its version; it has not: abort (it was never
 * committed, or something newer has replaced it). Only the class native has copies.
 *
 * All calls: any loop, may switch. */
#pragma once
#include "store/store_upload.h"

/* An id of this disk's (or its node's) counter: for an upload that begins on several disks. */
struct content_id store_mint_id(struct store *d);
const struct content_id *store_writer_content(
    const struct store_writer *w); /* the writer's */
/* store_write_begin() for a body whose content id is given: what another disk of the node holds or will hold. */
enum err store_write_begin_as(struct store *d, const struct store_key *k, uint64_t size,
                              const struct content_id *content, struct store_writer **out,
                              struct errbuf *eb) MUST_CHECK;

/* Takes the writer: *wp is NULL afterwards, whatever the result. On ERR_OK the body is durable on this disk, and stays
 * through restarts, unseen, until store_commit_prepared() or store_abort_prepared(). ERR_BUSY: too many are prepared (store_options.
 * prepared_max). ERR_EXISTS: this content is prepared, or committed, already. Another error: unknown, as with
 * store_commit(); say store_abort_prepared(). */
enum err store_prepare(struct store_writer **wp, const struct object_meta *meta,
                       struct errbuf *eb) MUST_CHECK;
/* The prepared body becomes the key's entry, version `v`, unless a newer entry or tombstone is here: then it is dropped.
 * Seen by every look-up that begins later, but not synced: after a crash it may be prepared again. The same again is
 * ERR_OK. ERR_NOT_FOUND: nothing is prepared under this content and the key is at an older version: this copy is
 * lost, to be repaired. */
enum err store_commit_prepared(struct store *d, const struct store_key *k,
                               const struct content_id *content, const struct version *v,
                               struct errbuf *eb) MUST_CHECK;
/* Drops what was prepared; ERR_OK too where nothing is. Durable. ERR_PRECONDITION: it is committed, the key's
 * current entry has this content. */
enum err store_abort_prepared(struct store *d, const struct store_key *k,
                              const struct content_id *content,
                              struct errbuf *eb) MUST_CHECK;

struct store_prepared {
    uint64_t bucket;
    struct span key; /* in the arena */
    struct content_id content;
    /* Given when it was prepared: later than all that was committed here before. Where the owner is gone for good,
     * committing with it, in its order, keeps what was acknowledged. */
    struct version prepared;
    uint64_t size;
    int64_t mtime_ms;
    struct upload_id upload; /* zero, or the upload that was to be completed */
};
/* What is prepared and prepared, by content id, those after `after` (NULL: from the first). After a start these are
 * leftovers; while writes go on, also those under way. */
enum err store_prepared(struct store *d, const struct content_id *after, uint32_t max,
                        struct arena *a, struct store_prepared **out, uint32_t *count,
                        bool *more, struct errbuf *eb) MUST_CHECK;

/* The same version, whole, written to this disk: repair, drain, rebalance, more copies. Takes the writer (of
 * store_write_begin_as() with the entry's content). Durable; becomes current, also in place of the same version (which
 * was damaged, or is moved). `entry` gives the version; all else is as written. ERR_PRECONDITION: a newer entry or
 * tombstone is here; nothing was changed. Versions of a key only rise: a caller that has dropped a tombstone brings nothing
 * back that is older. */
enum err store_commit_replica(struct store_writer **wp, const struct object_meta *meta,
                              const struct entry *entry, struct errbuf *eb) MUST_CHECK;
/* The same for an object that came in parts (ENTRY_PARTS): store_replica_begin() on the disk it comes to, then
 * store_part_begin_as() for each of its parts (store_object_parts(), store_read_begin() at its offset), then
 * store_replica_complete(). The upload has the entry's content id, so that a copy goes on where it was left: ERR_EXISTS, *out
 * is set, store_part_list() says what is there. store_upload_list() does not show it, store_replica_list() does: after a start,
 * to go on with or to end by store_upload_abort(). */
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
/* Takes this disk's copy away without saying that the object is deleted: drain, rebalance, fewer copies. Durable. Only
 * while the entry is this version: else ERR_PRECONDITION; ERR_NOT_FOUND where there is none. */
enum err store_drop_replica(struct store *d, const struct store_key *k,
                            const struct version *v, struct errbuf *eb) MUST_CHECK;

/* store_delete() for keys that other disks may hold too. */
struct store_delete_options {
    const struct store_condition *condition; /* NULL: none */
    const struct version
        *version; /* as the owner committed; NULL: this disk is the owner */
    bool
        keep_tombstone; /* it stays, and refuses older copies, until store_tombstone_drop() */
    bool always;        /* keep_tombstone: also where this disk has nothing of the key */
    int64_t now_ms;     /* becomes the tombstone's mtime_ms */
};
struct store_deleted {
    bool existed;           /* an object was here */
    struct version version; /* of the delete; zero where nothing was written */
};
/* Durable. With a version that is older than the entry's nothing is written, and that is ERR_OK. */
enum err store_delete_with(struct store *d, const struct store_key *k,
                           const struct store_delete_options *o,
                           struct store_deleted *out, struct errbuf *eb) MUST_CHECK;
/* Every disk that could hold an older version has it, or left for good: the tombstone that is kept `v` goes. ERR_OK where
 * there is none, or another. Not synced: after a crash it may be there again. */
enum err store_tombstone_drop(struct store *d, const struct store_key *k,
                              const struct version *v, struct errbuf *eb) MUST_CHECK;

/* Uploads on several disks: one id, the parts' content ids the same; written, listed and ended as others. ERR_EXISTS:
 * the upload is here already. */
enum err store_upload_begin_as(struct store *d, const struct store_key *k,
                               const struct object_meta *meta, const struct upload_id *u,
                               struct errbuf *eb) MUST_CHECK;
enum err store_part_begin_as(struct store *d, const struct store_key *k,
                             const struct upload_id *u, uint32_t number, uint64_t size,
                             const struct content_id *content, struct store_writer **out,
                             struct errbuf *eb) MUST_CHECK;
/* store_upload_complete(), but prepared, under the content id that the owner's entry gets by store_upload_complete_as().
 * Until it is committed or aborted no part of this upload can be replaced, and it can't be aborted or prepared again
 * (ERR_BUSY). store_commit_prepared() ends the upload. */
enum err store_upload_prepare(struct store *d, const struct store_key *k,
                              const struct upload_id *u, const struct store_part *parts,
                              uint32_t count, const struct content_id *content,
                              const struct object_meta *meta,
                              struct errbuf *eb) MUST_CHECK;
/* store_upload_complete() with a content id that was minted before. A repeat answers the entry of the first one: where
 * out->content is not `content`, what was prepared under it is to be aborted. */
enum err store_upload_complete_as(struct store *d, const struct store_key *k,
                                  const struct upload_id *u,
                                  const struct store_part *parts, uint32_t count,
                                  const struct content_id *content,
                                  const struct object_meta *meta,
                                  const struct store_condition *c, struct entry *out,
                                  struct errbuf *eb) MUST_CHECK;
