/* disks: the disks of one node. The same verbs as store.h, over all of them; callers need not know how many there are.
 *
 * A key has its place by weighted rendezvous (place.h): the first disk of its order owns it, the next ones hold the
 * copies that its bucket wants. The owner orders the writes of a key: a body goes to all of its disks under one content
 * id, is prepared on the copies, checked and committed by the owner, then committed on the copies, then acknowledged. Reads go
 * to the owner, and around it when it is lost, rotten or slow.
 *
 * The set is *converged* when every object lies where its key's order says. While it is not (a disk came or goes, one
 * failed), a lookup asks every disk, and the highest version wins, tombstones included. "Not found" is said only when
 * every replica that could hold the key has answered; else ERR_UNAVAILABLE.
 *
 * With one disk every key lies there: no lock is taken, no order is computed.
 *
 * Fibers: any loop. Everything may switch. Memory: what is borrowed must outlive the call.
 * On disk: the list of disks, docs/formats.md section 10.
 */
#pragma once
#include "store/store.h"

#define DISKS_MAX        64 /* of a node, those included that left since its start */
#define DISKS_COPIES_MAX 8

struct disks;
struct replica;        /* replica.h */
struct replica_reader; /* replica.h */

/* A key, and how many disks its object is to lie on. The cached class has one copy always. */
struct disks_key {
    struct store_key at;
    unsigned copies;     /* 0 and 1: one */
    unsigned min_copies; /* a write is taken with so many; 0: as many as `copies` */
};

/* ---- open ---- */
struct disks_options {
    const char *const *paths; /* in any order */
    unsigned count;
    struct store_options
        disk; /* for each; epoch: the least; block_cache_bytes: of all together */
    const char *
        state; /* the folder of the node's state, where the list of disks is; NULL: none is kept */
    const char *const *
        without; /* paths or ids of listed disks that are lost: the node starts without them */
    unsigned without_count;
    uint64_t
        rebalance_rate; /* bytes a second that are moved between disks at most; 0: 128 MiB */
    void (*on_list)(
        void *
            arg); /* called after each durable change of the list; may switch; NULL: none */
    void *arg;
};
/* Before anything is opened: which of the paths is the disk with the node's state? The first, when all are new.
 * Of two that are, one may have been lost while the other one's copy took its place: then it is that. ERR_NOT_FOUND: none
 * is, although there are disks. ERR_DENIED: two are; one was removed; two are the same. May switch. */
enum err disks_find_state(const char *const *paths, unsigned count, unsigned *which,
                          struct errbuf *eb) MUST_CHECK;
/* On loop 0. Opens all of them, and checks that they are all: the list that stands on the disk with the node's state names each by
 * its id. New ones are added to it. ERR_DENIED with a sentence that says what to do: a missing mount, a disk of another
 * cluster, a clone, two states, one that was removed. On ERR_OK the caller owns *out. */
enum err disks_open(const struct disks_options *o, struct disks **out,
                    struct errbuf *eb) MUST_CHECK;
/* One disk, and no list: for tools and tests. */
enum err disks_open_one(const char *path, const struct store_options *o,
                        struct disks **out, struct errbuf *eb) MUST_CHECK;
void disks_close(struct disks **dp); /* NULL is fine. May switch. */

/* ---- as in store.h ---- */
enum err disks_lookup(struct disks *ds, const struct disks_key *k, struct entry *out,
                      struct errbuf *eb) MUST_CHECK;
enum err disks_meta(struct disks *ds, const struct disks_key *k,
                    const struct entry *entry, struct arena *a, struct object_meta *out,
                    struct errbuf *eb) MUST_CHECK;

/* Embedded by the caller, so that a reader costs no second allocation. All zeros: nothing to end. */
struct disks_reader {
    struct disks *disks;
    struct replica *copy;        /* the replica that is read, entered; NULL with `from` */
    struct replica_reader *from; /* owned */
    struct disks_key key;        /* spans borrowed until the end */
    struct entry entry;          /* the copy that is read; `disk` says where */
    uint64_t at, left;           /* of the range */
    uint64_t tried;              /* bits of slots that failed this reader */
    uint64_t slow;               /* those of them that only did not answer in a hurry */
    bool fresh;                  /* nothing was read of this copy yet */
};
/* The spans of `k` must outlive the reader. A copy that fails midway is left for another one, at that offset: same content id, so the
 * same bytes. */
enum err disks_read_begin(struct disks *ds, const struct disks_key *k,
                          const struct entry *entry, uint64_t offset, uint64_t len,
                          struct disks_reader *out, struct errbuf *eb) MUST_CHECK;
enum err disks_read_next(struct disks_reader *r, struct deadline by, struct span *piece,
                         struct errbuf *eb) MUST_CHECK;
unsigned disks_read_more(struct disks_reader *r, struct span *pieces,
                         unsigned max);      /* store_read_more() */
void disks_read_end(struct disks_reader *r); /* twice is fine */

/* Without a fiber: see store_read.h. For keys of one copy, while the set is converged; of others it says false. */
struct disks_async_read {
    struct store_async_read at; /* on_done is the caller's */
    struct replica *from;       /* entered */
};
bool disks_async_read_begin(struct disks *ds, const struct disks_key *k,
                            struct disks_async_read *o);
void disks_async_read_end(struct disks_async_read *o);

/* Once more: see store_read.h. Nothing switches. Kept only of entries that their owner gave out while the set was converged, and good for
 * nothing once the set has changed. */
struct disks_revalidated {
    struct store_revalidated at;
    uint32_t serial; /* of the set */
    uint16_t disk;
};
bool disks_revalidated_keep(struct disks *ds, const struct disks_key *k,
                            const struct disks_reader *r, struct disks_revalidated *out);
void disks_revalidated_prefetch(struct disks *ds, const struct disks_revalidated *a);
bool disks_revalidated_begin(struct disks *ds, const struct disks_revalidated *a,
                             struct store_pinned *out);
void disks_revalidated_end(struct store_pinned *held); /* twice is fine */

struct disks_writer;
/* ERR_UNAVAILABLE: fewer disks are here than min_copies. */
enum err disks_write_begin(struct disks *ds, const struct disks_key *k,
                           enum store_class class, uint64_t size,
                           struct disks_writer **out, struct errbuf *eb) MUST_CHECK;
enum err disks_write(struct disks_writer *w, const void *data, size_t len,
                     struct errbuf *eb) MUST_CHECK;
/* As store_write_room() and so on; *at is NULL for a body of several copies: that is written by disks_write(). */
size_t disks_write_room(struct disks_writer *w, void **at);
void disks_write_filled(struct disks_writer *w, size_t len);
enum err disks_write_flush(struct disks_writer *w, struct errbuf *eb) MUST_CHECK;
/* As store_write_zero_copy(). False: nothing was done; it is to be written. */
bool disks_write_lend(struct disks_writer *w, struct span body);
enum err disks_write_peek(struct disks_writer *w, uint64_t offset, void *buf, size_t len,
                          size_t *n, struct errbuf *eb) MUST_CHECK;
void disks_write_abort(struct disks_writer **wp); /* NULL is fine */
enum err disks_commit(struct disks_writer **wp, const struct object_meta *meta,
                      const struct store_condition *c, struct entry *out,
                      struct errbuf *eb) MUST_CHECK;
enum err disks_delete(struct disks *ds, const struct disks_key *k, enum store_class class,
                      const struct store_condition *c, bool *existed,
                      struct errbuf *eb) MUST_CHECK;
enum err disks_in_doubt_begin(struct disks *ds, const struct disks_key *k,
                              struct errbuf *eb) MUST_CHECK;
enum err disks_in_doubt_clear(struct disks *ds, const struct disks_key *k,
                              struct errbuf *eb) MUST_CHECK;
/* As store_in_doubt_resolve(), for the entry that disks_lookup() gave; ERR_PRECONDITION also where its disk is not the key's owner. */
enum err disks_in_doubt_resolve(struct disks *ds, const struct disks_key *k,
                                const struct entry *entry, uint32_t count,
                                struct errbuf *eb) MUST_CHECK;
uint32_t disks_in_doubt_count(struct disks *ds, const struct disks_key *k,
                              const struct entry *entry);

/* Every key once, in byte order, whatever disks it lies on. `copies` of the bucket: with as many disks out of service
 * not all keys are known: ERR_UNAVAILABLE. */
enum err disks_list(struct disks *ds, uint64_t bucket, unsigned copies, struct span after,
                    bool inclusive, uint32_t max, struct arena *a,
                    struct store_entry **out, uint32_t *count, bool *more,
                    struct errbuf *eb) MUST_CHECK;

/* ---- version.c ---- */
enum err disks_delete_mark(struct disks *ds, const struct disks_key *k,
                           enum store_versioning versioning,
                           const struct store_condition *c, struct entry *marker,
                           struct errbuf *eb) MUST_CHECK;
enum err disks_version_find(struct disks *ds, const struct disks_key *k,
                            const struct version *born, struct entry *out, bool *current,
                            struct errbuf *eb) MUST_CHECK;
enum err disks_version_delete(struct disks *ds, const struct disks_key *k,
                              const struct version *born, const struct store_condition *c,
                              struct entry *was, struct errbuf *eb) MUST_CHECK;
/* `copies`: of the bucket. */
enum err disks_version_list(struct disks *ds, uint64_t bucket, unsigned copies,
                            struct span after_key, bool inclusive,
                            const struct version *after, uint32_t max, struct arena *a,
                            struct store_version **out, uint32_t *count, bool *more,
                            struct errbuf *eb) MUST_CHECK;
enum err disks_object_parts(struct disks *ds, const struct entry *entry, struct arena *a,
                            struct store_object_part **out, uint32_t *count,
                            struct errbuf *eb) MUST_CHECK;
enum err disks_set_meta(struct disks *ds, const struct disks_key *k,
                        const struct version *born, const struct object_meta *meta,
                        const struct store_condition *c, struct entry *out,
                        struct errbuf *eb) MUST_CHECK;

enum err disks_upload_begin(struct disks *ds, const struct disks_key *k,
                            const struct object_meta *meta, struct upload_id *out,
                            struct errbuf *eb) MUST_CHECK;
enum err disks_part_begin(struct disks *ds, const struct disks_key *k,
                          const struct upload_id *u, uint32_t number, uint64_t size,
                          struct disks_writer **out, struct errbuf *eb) MUST_CHECK;
enum err disks_part_commit(struct disks_writer **wp, const struct object_meta *meta,
                           struct errbuf *eb) MUST_CHECK;
enum err disks_part_list(struct disks *ds, const struct disks_key *k,
                         const struct upload_id *u, uint32_t after, uint32_t max,
                         struct arena *a, struct store_part **out, uint32_t *count,
                         bool *more, struct errbuf *eb) MUST_CHECK;
enum err disks_upload_meta(struct disks *ds, const struct disks_key *k,
                           const struct upload_id *u, struct arena *a,
                           struct object_meta *out, struct errbuf *eb) MUST_CHECK;
enum err disks_upload_complete(struct disks *ds, const struct disks_key *k,
                               const struct upload_id *u, const struct store_part *parts,
                               uint32_t count, const struct object_meta *meta,
                               const struct store_condition *c, struct entry *out,
                               struct errbuf *eb) MUST_CHECK;
enum err disks_upload_abort(struct disks *ds, const struct disks_key *k,
                            const struct upload_id *u, struct errbuf *eb) MUST_CHECK;
enum err disks_upload_list(struct disks *ds, uint64_t bucket, unsigned copies,
                           struct span after_key, const struct upload_id *after_id,
                           uint32_t max, struct arena *a, struct store_upload **out,
                           uint32_t *count, bool *more, struct errbuf *eb) MUST_CHECK;

/* ---- restored.c: what a backup takes, and what a restore brings back under the ids it had ---- */
/* The epoch of everything that is written now; what was written before has no higher one. */
uint64_t disks_epoch(const struct disks *ds);
/* Reads all of a part of an upload in progress; *entry is its entry. ERR_NO_UPLOAD. */
enum err disks_part_read_begin(struct disks *ds, const struct disks_key *k,
                               const struct upload_id *u, uint32_t number,
                               struct entry *entry, struct disks_reader *out,
                               struct errbuf *eb) MUST_CHECK;
/* As disks_commit(), but it becomes the version that was born so, and takes its place among those of the key; which it is to
 * do says meta->versioning, which is not 0. `born` is of an earlier epoch than disks_epoch(). */
enum err disks_commit_version(struct disks_writer **wp, const struct object_meta *meta,
                              const struct version *born, struct errbuf *eb) MUST_CHECK;
/* A delete marker: ENTRY_MARKER with ENTRY_VERSIONED or ENTRY_SUSPENDED, its version and its time. */
enum err disks_restore_marker(struct disks *ds, const struct disks_key *k,
                              const struct entry *marker, struct errbuf *eb) MUST_CHECK;
/* An upload under its id. ERR_EXISTS: it is there. */
enum err disks_upload_begin_as(struct disks *ds, const struct disks_key *k,
                               const struct object_meta *meta, const struct upload_id *u,
                               struct errbuf *eb) MUST_CHECK;
/* The parts become a version as of disks_commit_version(). */
enum err disks_upload_complete_version(struct disks *ds, const struct disks_key *k,
                                       const struct upload_id *u,
                                       const struct store_part *parts, uint32_t count,
                                       const struct object_meta *meta,
                                       const struct version *born,
                                       struct errbuf *eb) MUST_CHECK;

enum err disks_bucket_empty(struct disks *ds, uint64_t bucket, unsigned copies,
                            bool *empty, struct errbuf *eb) MUST_CHECK;
/* A bucket ends: from here on nothing is taken into it, and what was being taken is there, or not, when this returns. A
 * request that still means it is answered ERR_BUSY: asked again it finds no such bucket, or this one. ERR_BUSY: another call
 * is ending it. Where it is not removed after all: disks_bucket_reopen(). Any loop. May switch. */
enum err disks_bucket_close(struct disks *ds, uint64_t bucket,
                            struct errbuf *eb) MUST_CHECK;
void disks_bucket_reopen(struct disks *ds, uint64_t bucket);
/* On every disk. */
enum err disks_bucket_note(struct disks *ds, uint64_t bucket, struct span record,
                           struct errbuf *eb) MUST_CHECK;
enum err disks_flush(struct disks *ds, struct errbuf *eb) MUST_CHECK;
/* Of all disks together, a file system counted once; a copy counts as an object of its own. block_cache_bytes is the node's.
 * Asks the file systems: may switch. */
void disks_stat(struct disks *ds, struct store_stat *out);
/* cached_bytes of it alone. Any loop, also outside fibers; does not wait. */
uint64_t disks_cached_bytes(struct disks *ds);
/* Cached objects: which are read, and room for others (store_space.h). Targets are of all disks together; a disk with little room
 * left gives more. disks_evict() may switch, the others do not. */
void disks_access_freq_add(struct disks *ds, const struct entry *entry, uint32_t reads);
void disks_access_freq_rotate(struct disks *ds);
enum err disks_evict(struct disks *ds, const struct store_evict_options *o,
                     struct store_evicted *out, struct errbuf *eb) MUST_CHECK;
/* One cached object, as it was listed or looked up (`entry`); another version stays. ERR_OK too where it is gone. */
enum err disks_evict_one(struct disks *ds, uint64_t bucket, struct span key,
                         const struct entry *entry, struct errbuf *eb) MUST_CHECK;
/* Where the copy lies that the entry was read of. ERR_NOT_FOUND: it is no longer current. May switch. */
struct disks_where {
    struct store_location at;
    const char *path; /* of the disk; lives as long as the node */
    char id[33];
};
enum err disks_where(struct disks *ds, const struct entry *entry, struct disks_where *out,
                     struct errbuf *eb) MUST_CHECK;
/* Has a disk so little room left that cached objects should go? */
bool disks_cache_is_tight(struct disks *ds);
/* The first bucket behind `after` that a disk has, or had, objects of; false: there is none. May switch. */
bool disks_next_bucket(struct disks *ds, uint64_t after, uint64_t *out);
/* Gives about so many bytes of the block cache back to the system. Blocks: on a worker. */
void disks_shrink_block_cache(struct disks *ds, uint64_t bytes);
/* What a bucket holds, as store_bucket_usage(): each once, as far as all copies are made. Does not wait. */
void disks_bucket_usage(struct disks *ds, uint64_t bucket, enum usage_kind which,
                        unsigned copies, uint64_t *objects, uint64_t *bytes);

/* ---- disks come and go while the node serves: any loop, may switch ---- */

/* What moving objects needs to know of a bucket. */
struct disks_bucket {
    uint64_t id;
    struct span immutable_name; /* in `owned` */
    unsigned copies;            /* as in struct disks_key */
    bool cached;
    char *owned;
};
void disks_bucket_fini(struct disks_bucket *b);
/* From now on it is known which buckets there are: `next` gives the one with the smallest id larger than `after`, false
 * when there is none; on loop 0, it does not switch. Objects are moved from then on. On loop 0. */
void disks_buckets(struct disks *ds,
                   bool (*next)(void *arg, uint64_t after, struct disks_bucket *out),
                   void *arg);

/* The folder becomes a disk of the node; it is made when missing. What belongs there by the order of keys moves there in
 * the background. ERR_DENIED, ERR_EXISTS with a sentence: it is, or was, a disk of a node. */
enum err disks_add(struct disks *ds, const char *path, uint8_t id[16],
                   struct errbuf *eb) MUST_CHECK;
/* `which`: the path as listed, or the beginning of the id, 6 characters at least. The disk takes nothing new, and what it
 * has moves to the others in the background; `undo`: it takes its share again. */
enum err disks_drain(struct disks *ds, const char *which, bool undo,
                     struct errbuf *eb) MUST_CHECK;
/* The disk is no longer the node's. ERR_DENIED while it may hold the only copy of anything; `force` gives that up. */
enum err disks_remove(struct disks *ds, const char *which, bool force,
                      struct errbuf *eb) MUST_CHECK;
/* Around a change of a bucket's copies: before the record changes, and after. Objects get and lose copies in the
 * background. After disks_hold() failed there is nothing to release. */
enum err disks_hold(struct disks *ds, struct errbuf *eb) MUST_CHECK;
void disks_release(struct disks *ds);

/* A scrub found a damaged copy: it is checked, and repaired from another one. `slot`: as in entry.disk; for a
 * disk of which only the struct is known, disks_replica_slot_of(). Any loop. Does not wait. */
void disks_repair(struct disks *ds, const struct disks_key *k, unsigned slot);
unsigned disks_replica_slot_of(struct disks *ds, const struct store *d);
/* Calls fn for each open disk; on the caller's fiber, may switch. */
void disks_each(struct disks *ds, void (*fn)(void *arg, unsigned slot, struct store *d),
                void *arg);

/* What `forebay disk ls` shows. */
struct disks_status {
    unsigned count;
    struct disks_one {
        char id[33];       /* hex */
        const char *path;  /* lives as long as the node */
        const char *state; /* active, draining, drained, out */
        uint64_t weight;
        struct store_stat stat;
        struct store_health health;
    } disks[DISKS_MAX];
    bool converged;
    uint64_t pass;        /* over all entries, the number of the one under way; 0: none */
    uint64_t seen, total; /* entries of it */
    uint64_t elapsed_ms;  /* of it */
    uint64_t moved, moved_bytes; /* copied since the set was converged last */
    uint64_t copied_bytes;       /* in all, since the disks were opened */
    uint64_t failed;             /* in it: could not be reconciled */
    bool waiting;                /* for uploads that began before the set changed */
    uint64_t repairs, repaired;  /* that wait; done since the start */
    char why[384];               /* the last failure */
};
/* Of it what was copied since the disks were opened. Any loop; does not wait. */
uint64_t disks_copied_bytes(struct disks *ds);
/* May switch. It is large: not on a fiber's stack. */
void disks_status(struct disks *ds, struct disks_status *out);
