/* store_write: writing and deleting objects, in-doubt writes, conditions. Part of store.h. */
#pragma once
#include "store/store_entry.h"

struct store;

struct store_writer;
/* Begins a body: reserves a place for `size` bytes, or for an unknown length up to 5 GiB.
 * ERR_NO_SPACE comes before the first byte. On error *out is NULL. May switch. */
enum err store_write_begin(struct store *d, const struct store_key *k,
                           enum store_class class, uint64_t size,
                           struct store_writer **out, struct errbuf *eb) MUST_CHECK;
/* Copies the bytes; waits for the disk by switching. */
enum err store_write(struct store_writer *w, const void *data, size_t len,
                     struct errbuf *eb) MUST_CHECK;
/* Writing without a copy. store_write_room() returns how many bytes may go to *at; 0: the buffer
 * is full, or the body complete. store_write_filled() reports the bytes placed there; from then
 * on they may be written to the disk. store_write_flush() is for a full buffer and for a
 * complete body of more than STORE_INLINE_MAX (smaller ones: no effect). It writes the buffer to
 * the disk and keeps the bytes in it until more arrive. *at is NULL for a zero-copy body or
 * without a buffer: store_write() then reports why. May switch. */
size_t store_write_room(struct store_writer *w, void **at);
void store_write_filled(struct store_writer *w, size_t len);
enum err store_write_flush(struct store_writer *w, struct errbuf *eb) MUST_CHECK;
uint64_t store_written(const struct store_writer *w);
/* Passes a whole body of at most STORE_INLINE_MAX, before any other write. It is not copied: the
 * caller lends it until the writer is committed or aborted. */
void store_write_zero_copy(struct store_writer *w, struct span body);
/* Reads bytes of an uncommitted writer, from memory or disk, for readers that wait for a fetch.
 * May switch. */
enum err store_write_peek(struct store_writer *w, uint64_t offset, void *buf, size_t len,
                          size_t *n, struct errbuf *eb) MUST_CHECK;
void store_write_abort(struct store_writer **wp); /* NULL is fine. May switch. */

/* The committer checks conditions, in one step with publishing. */
struct store_condition {
    bool if_absent; /* no current object, else ERR_PRECONDITION */
    bool
        if_content; /* the current content id is this, else ERR_PRECONDITION / NOT_FOUND */
    struct content_id content;
    bool
        if_version; /* the current version is this one, or none exists and this is zero */
    struct version version;
    /* S3's conditions: an object exists (ERR_NOT_FOUND), and has one of these ETags, this size,
     * this modification second (ERR_PRECONDITION). ETags that are no MD5 never match: only
     * backends produce them. */
    bool if_exists;
    const struct md5_etag *etags;
    uint32_t etag_count; /* 0: any */
    /* No object, or one that has none of these ETags, else ERR_PRECONDITION. */
    const struct md5_etag *none_etags;
    uint32_t none_count;
    bool if_size, if_mtime;
    uint64_t size;
    int64_t mtime_s;
    bool
        or_absent; /* DELETE: ETag, size and time are ignored if there is no object, but a delete
                     * marker has none of them (ERR_PRECONDITION) */
};
struct md5_etag {
    uint8_t md5[16];
    uint32_t parts; /* N of "-N", else 0 */
};
/* The result that the committer would give for a change of the version in `entry`: ERR_OK,
 * ERR_NOT_FOUND or ERR_PRECONDITION. NULL: no condition. For conditions on properties fixed at
 * birth (all but the version) the result holds as long as the version exists. */
enum err store_condition_check(const struct store_condition *c, const struct entry *entry,
                               struct errbuf *eb) MUST_CHECK;
/* Takes the writer: *wp is NULL afterwards, whatever the result. `meta->md5` etc. are final. May
 * switch. */
enum err store_commit(struct store_writer **wp, const struct object_meta *meta,
                      const struct store_condition *c, struct entry *out,
                      struct errbuf *eb) MUST_CHECK;
/* ERR_OK with *existed false if there was nothing; then nothing is written. A delete in the
 * cached class is synced, too (disk.md rule 4). May switch. For a bucket with versioning:
 * store_delete_mark(). */
enum err store_delete(struct store *d, const struct store_key *k, enum store_class class,
                      const struct store_condition *c, bool *existed,
                      struct errbuf *eb) MUST_CHECK;
/* Writes a delete marker as the current version; `versioning` decides what happens to the former
 * one. *marker is its entry. `as` (here and below): the version that another disk of the node
 * has committed; NULL: this disk assigns it. With `as`, a *marker that is one (ENTRY_MARKER)
 * gives time and id, and the marker is inserted in its order. May switch. */
enum err store_delete_mark(struct store *d, const struct store_key *k,
                           enum store_versioning versioning,
                           const struct store_condition *c, const struct version *as,
                           struct entry *marker, struct errbuf *eb) MUST_CHECK;
/* Cached: durably marks the key in doubt before a write-through goes to the backend.
 * store_commit(), store_delete() or store_in_doubt_clear() (outcome known: unchanged) ends it. A
 * key without an entry can be in doubt, too: store_lookup() then returns an entry with
 * ENTRY_IN_DOUBT and size 0. */
enum err store_in_doubt_begin(struct store *d, const struct store_key *k,
                              struct errbuf *eb) MUST_CHECK;
enum err store_in_doubt_clear(struct store *d, const struct store_key *k,
                              struct errbuf *eb) MUST_CHECK;
/* The same, but only while store_in_doubt_count() still has this count, and the entry this
 * version. ERR_PRECONDITION: another in-doubt write began, of this key or, by collision, of
 * another; nothing is written. */
enum err store_in_doubt_resolve(struct store *d, const struct store_key *k,
                                const struct version *version, uint32_t in_doubt,
                                struct errbuf *eb) MUST_CHECK;
uint32_t store_in_doubt_count(struct store *d, const struct store_key *k);
