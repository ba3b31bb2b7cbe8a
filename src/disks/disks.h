/* disks: the disks of one node. The same verbs as disk.h, over all of them; who uses it need not know how many there are.
 *
 * A key has its place by weighted rendezvous (place.h): the first disk of its order owns it, the next ones hold the
 * copies that its bucket wants. The owner orders the writes of a key: a body goes to all of its disks under one content
 * id, is prepared on the copies, judged and committed by the owner, then decided on the copies, then answered. Reads go
 * to the owner, and around it when it is lost, rotten or slow.
 *
 * The set is *settled* when every object lies where its key's order says. While it is not (a disk came or goes, one
 * failed), a lookup asks every disk, and the highest version wins, tombstones included. "Not found" is said only when
 * everyone who could hold the key was heard; else ERR_UNAVAILABLE.
 *
 * With one disk and no copies every call is the one of disk.h behind one branch: no lock, no allocation.
 *
 * Fibers: any loop. Everything may switch but disks_stat(), disks_status() and, while the index is resident and there is
 * one disk, disks_lookup(). Memory: what is borrowed must outlive the call.
 * On disk: the list of disks, docs/formats.md section 10.
 */
#pragma once
#include "disk/disk.h"

#define DISKS_MAX        64 /* of a node, those included that left since its start */
#define DISKS_COPIES_MAX 8

struct disks;

/* A key, and how many disks its object is to lie on. The cached class has one copy always. */
struct disks_key {
    struct disk_key at;
    unsigned copies;     /* 0 and 1: one */
    unsigned min_copies; /* a write is taken with so many; 0: as many as `copies` */
};

/* ---- open ---- */
struct disks_options {
    const char *const *paths; /* in any order */
    unsigned count;
    struct disk_options disk; /* for each; epoch: the least; hot_bytes: of all together */
};
/* Opens all of them, and checks that they are all: the list that stands on the disk with the node's state names each by
 * its id. New ones are added to it. ERR_DENIED with a sentence that says what to do: a missing mount, a disk of another
 * cluster, a clone, two states, one that was removed. On ERR_OK the caller owns *out. */
enum err disks_open(const struct disks_options *o, struct disks **out,
                    struct errbuf *eb) MUST_CHECK;
/* One disk, and no list: for tools and tests. */
enum err disks_open_one(const char *path, const struct disk_options *o,
                        struct disks **out, struct errbuf *eb) MUST_CHECK;
void disks_close(struct disks **dp); /* NULL is fine. May switch. */

/* ---- as in disk.h ---- */
enum err disks_lookup(struct disks *ds, const struct disks_key *k, struct row *out,
                      struct errbuf *eb) MUST_CHECK;
enum err disks_meta(struct disks *ds, const struct disks_key *k, const struct row *row,
                    struct arena *a, struct object_meta *out,
                    struct errbuf *eb) MUST_CHECK;

/* Embedded by the caller, so that a reader costs no second allocation. All zeros: nothing to end. */
struct disks_reader {
    struct disk_reader *from; /* owned */
    struct disks *disks; /* NULL: one disk, nothing to read around; the rest is not set */
    struct disks_key key; /* spans borrowed until the end */
    struct row row;       /* the copy that is read; `disk` says where */
    uint64_t at, left;    /* of the range */
    uint64_t tried;       /* bits of disks that failed this reader */
};
/* The spans of `k` must outlive the reader. A copy that fails midway is left for another one, at that offset: same content id, so the
 * same bytes. */
enum err disks_read_begin(struct disks *ds, const struct disks_key *k,
                          const struct row *row, uint64_t offset, uint64_t len,
                          struct disks_reader *out, struct errbuf *eb) MUST_CHECK;
enum err disks_read_next(struct disks_reader *r, struct deadline by, struct span *piece,
                         struct errbuf *eb) MUST_CHECK;
void disks_read_end(struct disks_reader *r); /* twice is fine */

/* Once more: see disk.h. Nothing switches. Kept only of rows that their owner gave out while the set was settled, and good for
 * nothing once the set has changed. */
struct disks_again {
    struct disk_again at;
    uint32_t serial; /* of the set */
    uint16_t disk;
};
bool disks_again_keep(struct disks *ds, const struct disks_key *k,
                      const struct disks_reader *r, struct disks_again *out);
bool disks_again_begin(struct disks *ds, const struct disks_again *a,
                       struct disk_held *out);
void disks_again_end(struct disk_held *held); /* twice is fine */

struct disks_writer;
/* ERR_UNAVAILABLE: fewer disks are here than min_copies. */
enum err disks_write_begin(struct disks *ds, const struct disks_key *k,
                           enum disk_class class, uint64_t size,
                           struct disks_writer **out, struct errbuf *eb) MUST_CHECK;
enum err disks_write(struct disks_writer *w, const void *data, size_t len,
                     struct errbuf *eb) MUST_CHECK;
uint64_t disks_written(const struct disks_writer *w);
enum err disks_write_peek(struct disks_writer *w, uint64_t offset, void *buf, size_t len,
                          size_t *n, struct errbuf *eb) MUST_CHECK;
void disks_write_abort(struct disks_writer **wp); /* NULL is fine */
enum err disks_commit(struct disks_writer **wp, const struct object_meta *meta,
                      const struct disk_condition *c, struct row *out,
                      struct errbuf *eb) MUST_CHECK;
enum err disks_delete(struct disks *ds, const struct disks_key *k, enum disk_class class,
                      const struct disk_condition *c, bool *existed,
                      struct errbuf *eb) MUST_CHECK;
enum err disks_doubt(struct disks *ds, const struct disks_key *k,
                     struct errbuf *eb) MUST_CHECK;
enum err disks_doubt_clear(struct disks *ds, const struct disks_key *k,
                           struct errbuf *eb) MUST_CHECK;

/* Every key once, in byte order, whatever disks it lies on. */
enum err disks_list(struct disks *ds, uint64_t bucket, struct span after, bool inclusive,
                    uint32_t max, struct arena *a, struct disk_entry **out,
                    uint32_t *count, bool *more, struct errbuf *eb) MUST_CHECK;

enum err disks_upload_begin(struct disks *ds, const struct disks_key *k,
                            enum disk_class class, const struct object_meta *meta,
                            struct upload_id *out, struct errbuf *eb) MUST_CHECK;
enum err disks_part_begin(struct disks *ds, const struct disks_key *k,
                          const struct upload_id *u, uint32_t number, uint64_t size,
                          struct disks_writer **out, struct errbuf *eb) MUST_CHECK;
enum err disks_part_commit(struct disks_writer **wp, const struct object_meta *meta,
                           struct errbuf *eb) MUST_CHECK;
enum err disks_part_list(struct disks *ds, const struct disks_key *k,
                         const struct upload_id *u, uint32_t after, uint32_t max,
                         struct arena *a, struct disk_part **out, uint32_t *count,
                         bool *more, struct errbuf *eb) MUST_CHECK;
enum err disks_upload_meta(struct disks *ds, const struct disks_key *k,
                           const struct upload_id *u, struct arena *a,
                           struct object_meta *out, struct errbuf *eb) MUST_CHECK;
enum err disks_upload_complete(struct disks *ds, const struct disks_key *k,
                               const struct upload_id *u, const struct disk_part *parts,
                               uint32_t count, const struct object_meta *meta,
                               const struct disk_condition *c, struct row *out,
                               struct errbuf *eb) MUST_CHECK;
enum err disks_upload_abort(struct disks *ds, const struct disks_key *k,
                            const struct upload_id *u, struct errbuf *eb) MUST_CHECK;
enum err disks_upload_list(struct disks *ds, uint64_t bucket, struct span after_key,
                           const struct upload_id *after_id, uint32_t max,
                           struct arena *a, struct disk_upload **out, uint32_t *count,
                           bool *more, struct errbuf *eb) MUST_CHECK;

enum err disks_bucket_empty(struct disks *ds, uint64_t bucket, bool *empty,
                            struct errbuf *eb) MUST_CHECK;
/* On every disk. */
enum err disks_bucket_note(struct disks *ds, uint64_t bucket, struct span record,
                           struct errbuf *eb) MUST_CHECK;
enum err disks_settle(struct disks *ds, struct errbuf *eb) MUST_CHECK;
/* Of all disks together; a copy counts as an object of its own. hot_bytes is the node's. */
void disks_stat(struct disks *ds, struct disk_stat *out);
