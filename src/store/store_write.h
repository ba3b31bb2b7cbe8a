/* store_write: an object is written, deleted, in doubt; conditions. Part of store.h. */
#pragma once
#include "store/store_entry.h"

struct store;

struct store_writer;
/* Reserves a place for `size` bytes, or for a body of unknown length up to 5 GiB. ERR_NO_SPACE before the first
 * byte. On error *out is NULL. May switch. */
enum err store_write_begin(struct store *d, const struct store_key *k,
                           enum store_class class, uint64_t size,
                           struct store_writer **out, struct errbuf *eb) MUST_CHECK;
/* Copies; backpressure by switching. */
enum err store_write(struct store_writer *w, const void *data, size_t len,
                     struct errbuf *eb) MUST_CHECK;
/* The same without the copy: *at is where the next bytes go, and so many at most; 0: the buffer is full, or the body is. What
 * came there, store_write_filled() reports; from then on some of it may be on its way to the disk. store_write_flush() is for a
 * full buffer and for a whole body of more than STORE_INLINE_MAX (of a smaller one nothing happens): what is in memory goes to
 * the disk, and stays where it is until more comes. *at is NULL for a zero-copy body or without a buffer: store_write() says
 * which. May switch. */
size_t store_write_room(struct store_writer *w, void **at);
void store_write_filled(struct store_writer *w, size_t len);
enum err store_write_flush(struct store_writer *w, struct errbuf *eb) MUST_CHECK;
uint64_t store_written(const struct store_writer *w);
/* A body of at most STORE_INLINE_MAX of which nothing has come yet, whole: not copied, but lent by the caller until the writer is
 * committed or aborted. */
void store_write_zero_copy(struct store_writer *w, struct span body);
/* Bytes of an uncommitted writer that are in memory or on disk already, for waiters of a cold GET. May switch. */
enum err store_write_peek(struct store_writer *w, uint64_t offset, void *buf, size_t len,
                          size_t *n, struct errbuf *eb) MUST_CHECK;
void store_write_abort(struct store_writer **wp); /* NULL is fine. May switch. */

/* The committer checks conditions, in one step with publishing. */
struct store_condition {
    bool if_absent; /* no current object: else ERR_PRECONDITION */
    bool
        if_content; /* the current content id is this, else ERR_PRECONDITION / NOT_FOUND */
    struct content_id content;
    bool
        if_version; /* the current version is this one, or there is none and version is zero */
    struct version version;
    /* S3's: there must be an object (ERR_NOT_FOUND), and it has one of these ETags, this size, was modified in this
     * second (ERR_PRECONDITION). ETags that are no MD5 match none: only backends give them. */
    bool if_exists;
    const struct md5_etag *etags;
    uint32_t etag_count; /* 0: any */
    bool if_size, if_mtime;
    uint64_t size;
    int64_t mtime_s;
    bool
        or_absent; /* ETag, size and time need not hold where there is no object (DELETE) */
};
struct md5_etag {
    uint8_t md5[16];
    uint32_t parts; /* N of "-N", else 0 */
};
/* What the committer would say of a change of the version in `entry`: ERR_OK, ERR_NOT_FOUND or ERR_PRECONDITION. NULL: no
 * condition. Of what a version is born with (all but its own version) it says the same as long as the version is there. */
enum err store_condition_check(const struct store_condition *c, const struct entry *entry,
                               struct errbuf *eb) MUST_CHECK;
/* Takes the writer: *wp is NULL afterwards, whatever the result. `meta->md5` etc. are final. May switch. */
enum err store_commit(struct store_writer **wp, const struct object_meta *meta,
                      const struct store_condition *c, struct entry *out,
                      struct errbuf *eb) MUST_CHECK;
/* ERR_OK with *existed false when there was nothing: nothing is written then. A cached class delete is synced
 * too (disk.md rule 4). May switch. For a bucket with versioning: store_delete_mark(). */
enum err store_delete(struct store *d, const struct store_key *k, enum store_class class,
                      const struct store_condition *c, bool *existed,
                      struct errbuf *eb) MUST_CHECK;
/* Leaves a delete marker as the current version; `versioning` says what becomes of what was there. *marker is its entry.
 * `as` (here and below): the version that another disk of the node has committed; NULL: this one gives it. With it a
 * *marker that is one (ENTRY_MARKER) gives time and id, and takes its place among what is here. May switch. */
enum err store_delete_mark(struct store *d, const struct store_key *k,
                           enum store_versioning versioning,
                           const struct store_condition *c, const struct version *as,
                           struct entry *marker, struct errbuf *eb) MUST_CHECK;
/* Cached: marks the key in doubt, synced, before a write-through goes to the backend; ends by store_commit,
 * store_delete or store_in_doubt_clear (outcome known: unchanged). A key without an entry can be in doubt too: then
 * store_lookup gives an entry with ENTRY_IN_DOUBT and size 0. */
enum err store_in_doubt_begin(struct store *d, const struct store_key *k,
                              struct errbuf *eb) MUST_CHECK;
enum err store_in_doubt_clear(struct store *d, const struct store_key *k,
                              struct errbuf *eb) MUST_CHECK;
/* The same, but of the in_doubt that store_in_doubt_count() had counted, and of this version of the entry: ERR_PRECONDITION where another
 * came, of this key or, by chance, of another. Nothing is written then. */
enum err store_in_doubt_resolve(struct store *d, const struct store_key *k,
                                const struct version *version, uint32_t in_doubt,
                                struct errbuf *eb) MUST_CHECK;
uint32_t store_in_doubt_count(struct store *d, const struct store_key *k);
