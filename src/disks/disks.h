/* disks: the disks of one node as one. The same operations as store.h; callers need not know how
 * many disks there are.
 *
 * Weighted rendezvous (place.h) places each key. The first disk of the key's order is its owner;
 * the next ones hold the copies that its bucket wants. The owner orders the writes of a key. A
 * body goes to all of the key's disks under one content id. The copies prepare it, the owner
 * checks and commits it, the copies commit it, and then the write is acknowledged. Reads go to
 * the owner, or to another copy if the owner is unreachable, damaged or slow.
 *
 * The set is *converged* when every object lies where its key's order says. While it is not (a
 * disk was added or removed, or failed), a lookup reads every disk, and the highest version
 * wins, tombstones included. A lookup returns "not found" only if every replica that could hold
 * the key has answered; otherwise ERR_UNAVAILABLE.
 *
 * With one disk every key lies there: no lock is taken, no order is computed.
 *
 * Fibers: any loop. Every call may switch. Memory: what is borrowed must outlive the call.
 * On disk: the list of disks, docs/formats.md section 10.
 */
#pragma once
#include "store/store.h"

#define DISKS_MAX        64 /* per node, including disks that left since its start */
#define DISKS_COPIES_MAX 8

struct disks;
struct replica;        /* replica.h */
struct replica_reader; /* replica.h */

/* A key, and the number of disks its object should lie on. The cached class always has one copy. */
struct disks_key {
    struct store_key at;
    unsigned copies;     /* 0 and 1: one */
    unsigned min_copies; /* a write succeeds with this many; 0: as many as `copies` */
};

/* ---- open ---- */
struct disks_options {
    const char *const *paths; /* in any order */
    unsigned count;
    struct store_options
        disk; /* for each disk; epoch and map_epoch: the least; block_cache_bytes: for all together */
    const char *
        state; /* the folder of the node's state, where the list of disks is; NULL: none is kept */
    const char *const *
        without; /* paths or ids of listed disks that are lost: the node starts without them */
    unsigned without_count;
    uint64_t
        rebalance_rate; /* limit in bytes a second for moves between disks; 0: 128 MiB */
    void (*on_list)(
        void *
            arg); /* called after each durable change of the list; may switch; NULL: none */
    void *arg;
};
/* ---- map_epoch.c: the count of starts, and the epoch of versions ---- */
/* The count of starts, which content ids and upload ids have. Earlier ids have no higher one. */
uint64_t disks_starts(const struct disks *ds);
/* The map epoch of everything written from now on; earlier versions have no higher one. */
uint64_t disks_map_epoch(const struct disks *ds);
/* Raises it, when the cluster has a new map: durable on every disk in service, then in use. Never
 * lowers it: a lower one is ignored. On an error the old one stays in use. May switch. */
enum err disks_raise_map_epoch(struct disks *ds, uint64_t epoch,
                               struct errbuf *eb) MUST_CHECK;

/* Call before opening: finds which of the paths is the disk with the node's state. If all are
 * new, it is the first. If two claim it, one may have been lost while the other continued from a
 * copy of the state; then it is the other. ERR_NOT_FOUND: there are disks, but none has it.
 * ERR_DENIED: two have it, one was removed, or two are the same disk. May switch. */
enum err disks_find_state(const char *const *paths, unsigned count, unsigned *which,
                          struct errbuf *eb) MUST_CHECK;
/* Compares the disk that holds the node's state with a list of disks that was kept elsewhere, in a
 * copy of the state: ERR_DENIED if that disk was rolled back since. May switch. */
enum err disks_check_state(const char *path, struct span list,
                           struct errbuf *eb) MUST_CHECK;
/* Opens all disks, on loop 0, and checks that none is missing. The list on the disk with the
 * node's state names each disk by its id; new disks are added to it. ERR_DENIED, with a message
 * that says what to do: a missing mount, a disk of another cluster, a clone, two states, a
 * removed disk. On ERR_OK the caller owns *out. */
enum err disks_open(const struct disks_options *o, struct disks **out,
                    struct errbuf *eb) MUST_CHECK;
/* Opens one disk without a list: for tools and tests. */
enum err disks_open_one(const char *path, const struct store_options *o,
                        struct disks **out, struct errbuf *eb) MUST_CHECK;
void disks_close(struct disks **dp); /* NULL is fine. May switch. */

/* ---- as in store.h ---- */
enum err disks_lookup(struct disks *ds, const struct disks_key *k, struct entry *out,
                      struct errbuf *eb) MUST_CHECK;
enum err disks_meta(struct disks *ds, const struct disks_key *k,
                    const struct entry *entry, struct arena *a, struct object_meta *out,
                    struct errbuf *eb) MUST_CHECK;

/* Embedded by the caller, so that a reader needs no second allocation. All zeros: nothing to
 * end. */
struct disks_reader {
    struct disks *disks;
    struct replica *copy;        /* the replica being read, entered; NULL with `from` */
    struct replica_reader *from; /* owned */
    struct disks_key key;        /* spans borrowed until the end */
    struct entry entry;          /* the copy being read; `disk` is its slot */
    uint64_t at, left;           /* of the range */
    uint64_t tried;              /* bits of slots that failed for this reader */
    uint64_t slow;               /* those of them that only missed a deadline */
    bool fresh;                  /* nothing of this copy has been read yet */
};
/* Begins a read. The spans of `k` must outlive the reader. If a copy fails midway, the reader
 * continues with another one at that offset: the same content id means the same bytes. */
enum err disks_read_begin(struct disks *ds, const struct disks_key *k,
                          const struct entry *entry, uint64_t offset, uint64_t len,
                          struct disks_reader *out, struct errbuf *eb) MUST_CHECK;
enum err disks_read_next(struct disks_reader *r, struct deadline by, struct span *piece,
                         struct errbuf *eb) MUST_CHECK;
unsigned disks_read_more(struct disks_reader *r, struct span *pieces,
                         unsigned max);      /* store_read_more() */
void disks_read_end(struct disks_reader *r); /* idempotent */

/* A read without a fiber: see store_read.h. For keys of one copy, while the set is converged;
 * for others it returns false. */
struct disks_async_read {
    struct store_async_read at; /* the caller sets on_done */
    struct replica *from;       /* entered */
};
bool disks_async_read_begin(struct disks *ds, const struct disks_key *k,
                            struct disks_async_read *o);
void disks_async_read_end(struct disks_async_read *o);

/* A revalidated read: see store_read.h. Nothing switches. It remembers only entries that the
 * owner returned while the set was converged. A change of the set invalidates it. */
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
void disks_revalidated_end(struct store_pinned *held); /* idempotent */

struct disks_writer;
/* ERR_UNAVAILABLE: fewer disks are in service than min_copies. */
enum err disks_write_begin(struct disks *ds, const struct disks_key *k,
                           enum store_class class, uint64_t size,
                           struct disks_writer **out, struct errbuf *eb) MUST_CHECK;
enum err disks_write(struct disks_writer *w, const void *data, size_t len,
                     struct errbuf *eb) MUST_CHECK;
/* As store_write_room() and so on. *at is NULL for a body of several copies: use disks_write()
 * for it. */
size_t disks_write_room(struct disks_writer *w, void **at);
void disks_write_filled(struct disks_writer *w, size_t len);
enum err disks_write_flush(struct disks_writer *w, struct errbuf *eb) MUST_CHECK;
/* As store_write_zero_copy(). False: nothing was done; use disks_write(). */
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
/* As store_in_doubt_resolve(), for the entry that disks_lookup() returned. Also ERR_PRECONDITION
 * if its disk is not the key's owner. */
enum err disks_in_doubt_resolve(struct disks *ds, const struct disks_key *k,
                                const struct entry *entry, uint32_t count,
                                struct errbuf *eb) MUST_CHECK;
uint32_t disks_in_doubt_count(struct disks *ds, const struct disks_key *k,
                              const struct entry *entry);

/* Lists every key once, in byte order, whatever disks it lies on. `copies`: of the bucket. If
 * that many disks are out of service, some keys may be unknown: ERR_UNAVAILABLE. */
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

/* ---- restored.c: what a backup reads, and what a restore writes under the original ids ---- */
/* Reads a whole part of an upload in progress; *entry is its entry. ERR_NO_UPLOAD. */
enum err disks_part_read_begin(struct disks *ds, const struct disks_key *k,
                               const struct upload_id *u, uint32_t number,
                               struct entry *entry, struct disks_reader *out,
                               struct errbuf *eb) MUST_CHECK;
/* As disks_commit(), but creates the version with birth `born`, in its order among the versions
 * of the key. meta->versioning, which is not 0, says what it does to the others. `born` is of an
 * earlier epoch than disks_map_epoch(). */
enum err disks_commit_version(struct disks_writer **wp, const struct object_meta *meta,
                              const struct version *born, struct errbuf *eb) MUST_CHECK;
/* Writes a delete marker: ENTRY_MARKER with ENTRY_VERSIONED or ENTRY_SUSPENDED, its version and
 * its time. */
enum err disks_restore_marker(struct disks *ds, const struct disks_key *k,
                              const struct entry *marker, struct errbuf *eb) MUST_CHECK;
/* Begins an upload under a given id. ERR_EXISTS: the upload is present. */
enum err disks_upload_begin_as(struct disks *ds, const struct disks_key *k,
                               const struct object_meta *meta, const struct upload_id *u,
                               struct errbuf *eb) MUST_CHECK;
/* Completes an upload as a version, as disks_commit_version() does. */
enum err disks_upload_complete_version(struct disks *ds, const struct disks_key *k,
                                       const struct upload_id *u,
                                       const struct store_part *parts, uint32_t count,
                                       const struct object_meta *meta,
                                       const struct version *born,
                                       struct errbuf *eb) MUST_CHECK;

enum err disks_bucket_empty(struct disks *ds, uint64_t bucket, unsigned copies,
                            bool *empty, struct errbuf *eb) MUST_CHECK;
/* Closes a bucket before its removal: from now on it takes no writes. Writes in progress have
 * ended when this returns. A request that still uses the bucket gets ERR_BUSY; on a retry it
 * finds the bucket removed or reopened. ERR_BUSY: another call is closing it. If the removal
 * fails: disks_bucket_reopen(). Any loop. May switch. */
enum err disks_bucket_close(struct disks *ds, uint64_t bucket,
                            struct errbuf *eb) MUST_CHECK;
void disks_bucket_reopen(struct disks *ds, uint64_t bucket);
/* Writes the bucket record on every disk. */
enum err disks_bucket_note(struct disks *ds, uint64_t bucket, struct span record,
                           struct errbuf *eb) MUST_CHECK;
enum err disks_flush(struct disks *ds, struct errbuf *eb) MUST_CHECK;
/* Figures of all disks together. A file system counts once; each copy counts as an object.
 * block_cache_bytes is the node's. Reads the file systems: may switch. */
void disks_stat(struct disks *ds, struct store_stat *out);
/* Only cached_bytes of it. Any loop, also outside fibers; does not wait. */
uint64_t disks_cached_bytes(struct disks *ds);
/* Access counts of cached objects, and their eviction (store_space.h). Targets are for all disks
 * together; a disk with little space left evicts more. disks_evict() may switch, the others do
 * not. */
void disks_access_freq_add(struct disks *ds, const struct entry *entry, uint32_t reads);
void disks_access_freq_rotate(struct disks *ds);
enum err disks_evict(struct disks *ds, const struct store_evict_options *o,
                     struct store_evicted *out, struct errbuf *eb) MUST_CHECK;
/* Evicts one cached object in the version of `entry`; another version stays. ERR_OK also if it
 * is no longer there. */
enum err disks_evict_one(struct disks *ds, uint64_t bucket, struct span key,
                         const struct entry *entry, struct errbuf *eb) MUST_CHECK;
/* The place of the copy that the entry was read from. ERR_NOT_FOUND: the entry is no longer
 * current. May switch. */
struct disks_where {
    struct store_location at;
    const char *path; /* of the disk; lives as long as the node */
    char id[33];
};
enum err disks_where(struct disks *ds, const struct entry *entry, struct disks_where *out,
                     struct errbuf *eb) MUST_CHECK;
/* True if a disk has so little space left that cached objects should be evicted. */
bool disks_cache_is_tight(struct disks *ds);
/* Finds the first bucket after `after` that a disk has, or had, objects of; false: none. May
 * switch. */
bool disks_next_bucket(struct disks *ds, uint64_t after, uint64_t *out);
/* The block cache of the node, and the bytes that it may hold from now on: it returns what it holds beyond. The second
 * one blocks: call on a worker, one at a time. */
struct disks_block_cache {
    uint64_t bytes, held, target; /* of pieces; of memory; at most */
};
void disks_block_cache(struct disks *ds, struct disks_block_cache *out);
void disks_block_cache_target(struct disks *ds, uint64_t bytes);
/* Usage of a bucket, as store_bucket_usage(): each object once, provided all copies exist. Does
 * not wait. */
void disks_bucket_usage(struct disks *ds, uint64_t bucket, enum usage_kind which,
                        unsigned copies, uint64_t *objects, uint64_t *bytes);

/* ---- adding and removing disks while the node serves: any loop, may switch ---- */

/* What the rebalancer needs to know of a bucket. */
struct disks_bucket {
    uint64_t id;
    struct span immutable_name; /* in `owned` */
    unsigned copies;            /* as in struct disks_key */
    bool cached;
    char *owned;
};
void disks_bucket_fini(struct disks_bucket *b);
/* Installs the source of buckets and starts the rebalancer. `next` returns the bucket with the
 * smallest id above `after`, or false if there is none. It runs on loop 0 and does not switch.
 * Call on loop 0. */
void disks_buckets(struct disks *ds,
                   bool (*next)(void *arg, uint64_t after, struct disks_bucket *out),
                   void *arg);

/* Refuses a folder that is unlikely to be meant as a disk: a missing one, and one that holds other things and nothing of ours, unless
 * they may. May switch. */
struct disks_folder_may {
    bool be_missing, have_others;
};
enum err disks_folder_check(const char *path, const struct disks_folder_may *may,
                            struct errbuf *eb) MUST_CHECK;
/* Adds a folder as a disk of the node, and creates it if it is missing. Keys placed there by
 * their order move there in the background. A disk of this node that is out of service is taken
 * back. ERR_DENIED, ERR_EXISTS with a message: it is, or was, a disk of a node. ERR_BUSY: calls
 * are still inside the disk that failed. */
enum err disks_add(struct disks *ds, const char *path, uint8_t id[16],
                   struct errbuf *eb) MUST_CHECK;
/* Drains a disk. `which`: the path as listed, or the first 6 or more characters of the id. The
 * disk accepts nothing new, and its objects move to the others in the background. `undo`: it
 * takes its share again. */
enum err disks_drain(struct disks *ds, const char *which, bool undo,
                     struct errbuf *eb) MUST_CHECK;
/* Removes a disk from the node. ERR_DENIED while it may hold the only copy of anything, unless
 * `force`. */
enum err disks_remove(struct disks *ds, const char *which, bool force,
                      struct errbuf *eb) MUST_CHECK;
/* Bracket a change of a bucket's copies: hold before the record changes, release after. Objects
 * gain or lose copies in the background. After a failed disks_hold() there is nothing to
 * release. */
enum err disks_hold(struct disks *ds, struct errbuf *eb) MUST_CHECK;
void disks_release(struct disks *ds);

/* Reports a damaged copy that a scrub found: it is checked, and repaired from another one.
 * `slot`: as in entry.disk. Any loop. Does not wait. */
void disks_repair(struct disks *ds, const struct disks_key *k, unsigned slot);
/* Calls fn for each open disk, on the caller's fiber; may switch. */
void disks_each(struct disks *ds, void (*fn)(void *arg, unsigned slot, struct store *d),
                void *arg);

/* The data of `forebay disk ls`. */
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
    uint64_t pass;        /* number of the current pass over all entries; 0: none */
    uint64_t seen, total; /* entries of it */
    uint64_t elapsed_ms;  /* of the pass */
    uint64_t moved, moved_bytes; /* copied since the set last converged */
    uint64_t copied_bytes;       /* copied since the disks were opened */
    uint64_t failed;             /* keys of the pass that could not be reconciled */
    bool waiting;                /* waits for uploads that began before the set changed */
    uint64_t repairs, repaired;  /* repairs waiting; done since the start */
    char why[384];               /* the last failure */
};
/* Only copied_bytes of it. Any loop; does not wait. */
uint64_t disks_copied_bytes(struct disks *ds);
/* May switch. The struct is large: do not put it on a fiber's stack. */
void disks_status(struct disks *ds, struct disks_status *out);
