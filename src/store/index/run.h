/* run: changes in key order, immutable once finished: one commit batch, or several merged.
 *
 * One fiber fills a run, in the order of the log; run_finish() sorts it and keeps the newest change of each key. From then on any
 * thread may read it, and references count it.
 */
#pragma once
#include "store/index/entry.h"
#include "store/record/keys.h"
#include "store/store_entry.h"

struct upload_id;

struct run;
struct coded_entry {
    enum table table;
    uint64_t bucket;
    struct span key;
    struct span value; /* coded; empty: deleted */
};

struct run *run_new(void);
void run_free(struct run **rp); /* one that was not pushed; NULL is fine */
/* In the order of the log; later ones replace earlier ones of the same key (see entry_is_newer()). A deletion is
 * an entry with ENTRY_TOMBSTONE and its version. Key bytes are copied. */
void run_object(struct run *r, uint64_t bucket, struct span key,
                const struct entry *entry);
/* The same; hash is run_key_hash() of the key. */
void run_object_hashed(struct run *r, uint64_t bucket, struct span key, uint64_t hash,
                       const struct entry *entry);
/* The same; `value` comes from entry_encode() for this very key. */
void run_object_coded(struct run *r, uint64_t bucket, struct span key, uint64_t hash,
                      struct span value);
void run_upload(struct run *r, uint64_t bucket, struct span key,
                const struct upload_id *id,
                const struct upload_entry *u); /* NULL: ended, its parts with it */
/* An older version; NULL: gone. `born` zero: the pointer to the null version, of which only `born` counts. */
void run_version(struct run *r, uint64_t bucket, struct span key,
                 const struct version *born, const struct entry *entry);
void run_part(struct run *r, const struct upload_id *id, uint32_t number,
              const struct part_entry *p);
void run_done(struct run *r, const struct upload_id *id, const struct done_entry *d);
void run_prepared(struct run *r, const struct content_id *content,
                  const struct prepared_entry *p); /* NULL: committed or aborted */
/* Bytes of a segment that became live or garbage, beyond what the index derives from object entries (parts, manifests). */
void run_segment(struct run *r, enum store_class class, uint32_t segment, int64_t living,
                 int64_t dead);

/* ---- replay ---- */
/* A run that gathers the changes of many batches. run_find() works while the same thread fills it; nothing else works before
 * run_in_order() has made a finished run of it. */
struct run *run_gather(void);
/* Adds an object of which the run has no change yet, as run_object_coded() does. */
void run_gather_new(struct run *r, uint64_t bucket, struct span key, uint64_t hash,
                    struct span value);
void run_gather_expect(const struct run *r, uint64_t hash); /* prefetches its slot */
/* Adds all changes of an unfinished run, and its counts of segments. */
void run_gather_all(struct run *r, const struct run *from);
/* A finished run with the same keys. It shares the bytes of `from`, to which nothing may be added any more. Any thread. */
struct run *run_in_order(const struct run *from);
bool run_is_finished(const struct run *r);
uint32_t run_count(const struct run *r);

/* ---- below: memtable.c, index.c and tests ---- */

/* Sorts, keeps the newest change of each key, builds the table for lookups. Once. */
void run_finish(struct run *r);
struct run *run_ref(const struct run *r); /* any thread */
void run_drop(struct run *r);
size_t run_bytes(const struct run *r); /* memory */
#define RUN_MERGE_MOST 8u
struct run *run_merge(const struct run *const *runs,
                      uint32_t count); /* oldest first; at most RUN_MERGE_MOST */

uint32_t run_hash(enum table table, uint64_t bucket, struct span key);
/* Of an object's key; its low half is run_hash(). */
uint64_t run_key_hash(uint64_t bucket, struct span key);
/* False: not in this run. *value borrows from the run. */
bool run_find(const struct run *r, uint32_t hash, enum table table, uint64_t bucket,
              struct span key, struct span *value);

/* The hash of the first object's change at or behind *from, in any order; *from is moved to it. */
bool run_object_hash(const struct run *r, uint32_t *from, uint32_t *hash);

struct run_segment {
    enum store_class class;
    uint32_t segment;
    int64_t living, dead;
};
const struct run_segment *run_segments(const struct run *r, uint32_t *count);

/* Several runs as one, in order of (table, bucket, key), each key once, with its newest value. */
struct run_walk {
    struct run_place *heap; /* owned */
    uint32_t count;
    size_t
        skip; /* bytes that all its keys begin with; SIZE_MAX: they are of several tables */
};
/* From the first key >= (table, bucket, from); runs oldest first. They outlive the walk. */
void run_walk_begin(struct run_walk *w, const struct run *const *runs, uint32_t count,
                    enum table table, uint64_t bucket, struct span from);
bool run_walk_next(struct run_walk *w,
                   struct coded_entry *out); /* out borrows from a run */
void run_walk_end(struct run_walk *w);
