/* disk_copies: what a layer above needs to keep an object on several disks of a node; part of disk.h.
 *
 * A write with copies: the body goes to all disks under one content id; disk_prepare() on the copies, durable but seen
 * by nobody; disk_commit() on the owner, which judges conditions and gives the version; disk_decide() on the copies;
 * then the reply. Where the owner refused, disk_give_up(). After a crash the owner's row tells the outcome of what
 * disk_undecided() lists: it has that content: decide, with its version; it has not: give up (it was never
 * committed, or something newer has replaced it). Only the class native has copies.
 *
 * All calls: any loop, may switch. */
#pragma once
#include "disk/disk_upload.h"

/* An id of this disk's (or its node's) counter: for an upload that begins on several disks. */
struct content_id disk_mint(struct disk *d);
const struct content_id *disk_writer_content(
    const struct disk_writer *w); /* the writer's */
/* disk_write_begin() for a body whose content id is given: what another disk of the node holds or will hold. */
enum err disk_write_begin_as(struct disk *d, const struct disk_key *k, uint64_t size,
                             const struct content_id *content, struct disk_writer **out,
                             struct errbuf *eb) MUST_CHECK;

/* Takes the writer: *wp is NULL afterwards, whatever the result. On ERR_OK the body is durable on this disk, and stays
 * through restarts, unseen, until disk_decide() or disk_give_up(). ERR_BUSY: too many are undecided (disk_options.
 * undecided_max). ERR_EXISTS: this content is prepared, or decided, already. Another error: unknown, as with
 * disk_commit(); say disk_give_up(). */
enum err disk_prepare(struct disk_writer **wp, const struct object_meta *meta,
                      struct errbuf *eb) MUST_CHECK;
/* The prepared body becomes the key's row, version `v`, unless a newer row or tombstone is here: then it is dropped.
 * Seen by every look-up that begins later, but not synced: after a crash it may be undecided again. The same again is
 * ERR_OK. ERR_NOT_FOUND: nothing is prepared under this content and the key is at an older version: this copy is
 * lost, to be repaired. */
enum err disk_decide(struct disk *d, const struct disk_key *k,
                     const struct content_id *content, const struct version *v,
                     struct errbuf *eb) MUST_CHECK;
/* Drops what was prepared; ERR_OK too where nothing is. Durable. ERR_PRECONDITION: it is decided, the key's
 * current row has this content. */
enum err disk_give_up(struct disk *d, const struct disk_key *k,
                      const struct content_id *content, struct errbuf *eb) MUST_CHECK;

struct disk_undecided {
    uint64_t bucket;
    struct span key; /* in the arena */
    struct content_id content;
    /* Given when it was prepared: later than all that was decided here before. Where the owner is gone for good,
     * deciding with it, in its order, keeps what was acknowledged. */
    struct version prepared;
    uint64_t size;
    int64_t mtime_ms;
    struct upload_id upload; /* zero, or the upload that was to be completed */
};
/* What is prepared and undecided, by content id, those after `after` (NULL: from the first). After a start these are
 * leftovers; while writes go on, also those under way. */
enum err disk_undecided(struct disk *d, const struct content_id *after, uint32_t max,
                        struct arena *a, struct disk_undecided **out, uint32_t *count,
                        bool *more, struct errbuf *eb) MUST_CHECK;

/* The same version, whole, written to this disk: repair, drain, rebalance, more copies. Takes the writer (of
 * disk_write_begin_as() with the row's content). Durable; becomes current, also in place of the same version (which
 * was damaged, or is moved). `row` gives the version; all else is as written. ERR_PRECONDITION: a newer row or
 * tombstone is here; nothing was changed. Versions of a key only rise: whoever has ended a tombstone brings nothing
 * back that is older. */
enum err disk_commit_copy(struct disk_writer **wp, const struct object_meta *meta,
                          const struct row *row, struct errbuf *eb) MUST_CHECK;
/* The same for an object that came in parts (ROW_PARTS): disk_copy_begin() on the disk it comes to, then
 * disk_part_begin_as() for each of its parts (disk_object_parts(), disk_read_begin() at its offset), then
 * disk_copy_complete(). The upload has the row's content id, so that a copy goes on where it was left: ERR_EXISTS, *out
 * is set, disk_part_list() says what is there. disk_upload_list() does not show it, disk_copy_list() does: after a start,
 * to go on with or to end by disk_upload_abort(). */
enum err disk_copy_begin(struct disk *d, const struct disk_key *k, const struct row *row,
                         struct upload_id *out, struct errbuf *eb) MUST_CHECK;
enum err disk_copy_complete(struct disk *d, const struct disk_key *k,
                            const struct upload_id *u, const struct disk_part *parts,
                            uint32_t count, const struct object_meta *meta,
                            const struct row *row, struct errbuf *eb) MUST_CHECK;
enum err disk_copy_list(struct disk *d, uint64_t bucket, struct span after_key,
                        const struct upload_id *after_id, uint32_t max, struct arena *a,
                        struct disk_upload **out, uint32_t *count, bool *more,
                        struct errbuf *eb) MUST_CHECK;
/* Takes this disk's copy away without saying that the object is deleted: drain, rebalance, fewer copies. Durable. Only
 * while the row is this version: else ERR_PRECONDITION; ERR_NOT_FOUND where there is none. */
enum err disk_forget(struct disk *d, const struct disk_key *k, const struct version *v,
                     struct errbuf *eb) MUST_CHECK;

/* disk_delete() for keys that other disks may hold too. */
struct disk_delete_options {
    const struct disk_condition *condition; /* NULL: none */
    const struct version
        *version; /* as the owner decided; NULL: this disk is the owner */
    bool
        keep_tombstone; /* it stays, and refuses older copies, until disk_tombstone_end() */
    bool always;        /* keep_tombstone: also where this disk has nothing of the key */
    int64_t now_ms;     /* becomes the tombstone's mtime_ms */
};
struct disk_deleted {
    bool existed;           /* an object was here */
    struct version version; /* of the delete; zero where nothing was written */
};
/* Durable. With a version that is older than the row's nothing is written, and that is ERR_OK. */
enum err disk_delete_with(struct disk *d, const struct disk_key *k,
                          const struct disk_delete_options *o, struct disk_deleted *out,
                          struct errbuf *eb) MUST_CHECK;
/* All who could hold an older version have heard of it, or left for good: the kept tombstone `v` goes. ERR_OK where
 * there is none, or another. Not synced: after a crash it may be there again. */
enum err disk_tombstone_end(struct disk *d, const struct disk_key *k,
                            const struct version *v, struct errbuf *eb) MUST_CHECK;

/* Uploads on several disks: one id, the parts' content ids the same; written, listed and ended as others. ERR_EXISTS:
 * the upload is here already. */
enum err disk_upload_begin_as(struct disk *d, const struct disk_key *k,
                              const struct object_meta *meta, const struct upload_id *u,
                              struct errbuf *eb) MUST_CHECK;
enum err disk_part_begin_as(struct disk *d, const struct disk_key *k,
                            const struct upload_id *u, uint32_t number, uint64_t size,
                            const struct content_id *content, struct disk_writer **out,
                            struct errbuf *eb) MUST_CHECK;
/* disk_upload_complete(), but prepared, under the content id that the owner's row gets by disk_upload_complete_as().
 * Until it is decided or given up no part of this upload can be replaced, and it can't be aborted or prepared again
 * (ERR_BUSY). disk_decide() ends the upload. */
enum err disk_upload_prepare(struct disk *d, const struct disk_key *k,
                             const struct upload_id *u, const struct disk_part *parts,
                             uint32_t count, const struct content_id *content,
                             const struct object_meta *meta,
                             struct errbuf *eb) MUST_CHECK;
/* disk_upload_complete() with a content id that was minted before. A repeat answers the row of the first one: where
 * out->content is not `content`, what was prepared under it is to be given up. */
enum err disk_upload_complete_as(struct disk *d, const struct disk_key *k,
                                 const struct upload_id *u, const struct disk_part *parts,
                                 uint32_t count, const struct content_id *content,
                                 const struct object_meta *meta,
                                 const struct disk_condition *c, struct row *out,
                                 struct errbuf *eb) MUST_CHECK;
