/* index: LMDB, ordered keys to entries; follows the logs and may be lost. docs/formats.md, section "index".
 *
 * One environment a disk. A loop keeps one read transaction, renewed for each call and reset before it returns:
 * nothing is held over a switch, what is found is copied out. While the file is resident (populated in the
 * background, within memory_bytes) reads run on the loop. Beyond that a look-up first asks for each page on its way whether
 * it is in memory (index_resident.h), has the engine read what is not, and runs on the loop; the rest goes to the pool. So
 * does an index whose pages the kernel took back. One writer: one
 * batch, one durable commit, from begin to commit in one job of the pool.
 *
 * A entry whose sum is wrong is ERR_CORRUPT and makes the index bad: it goes on, remembers that with the next batch
 * or when it is closed, and is rebuilt at the next open. Where entries may be hidden by the damage (a page that is none, a entry
 * under a key that is not its own) what it does not have is ERR_CORRUPT from then on, and never ERR_NOT_FOUND. A fault under the map (SIGBUS; SIGSEGV of damaged pages) and a commit that failed are ERR_IO
 * and end it: from then on every call is ERR_IO.
 *
 * Fibers: any loop reads; index_apply() on the disk's owner loop.
 */
#pragma once
#include "rt/file.h"
#include "store/index/memtable.h"
#include "store/record/keys.h"
#include "store/store_entry.h"
#include "store/store_health.h"

struct health;

struct index;

/* A place in the log of a class: everything before it is checkpoint. */
struct wal_position {
    uint64_t generation; /* of the segment */
    uint64_t batch;      /* number of the last commit batch before it */
    uint32_t segment;
    uint64_t offset;
};
struct index_checkpoint {
    uint64_t generation; /* of the superblock when it was written */
    struct wal_position log[STORE_CLASSES_];
};

struct index_options {
    struct rt_dir *dir; /* of the disk; the index is its folder "index". Borrowed. */
    uint8_t disk_id[16];
    uint64_t map_bytes;    /* 0: 64 GiB, sparse, fixed while open */
    uint64_t memory_bytes; /* 0: 1 GiB: a larger index is read by the pool */
    unsigned workers;      /* threads that may read beside the loops; 0: 256 */
    /* Nothing is changed, not even what is of no use. The caller holds the disk's lock. */
    bool read_only;
    /* What is there is known to be of no use, and not looked at. */
    bool discard;
    /* Else they end in the index: there is nobody else who could hold the key. */
    bool keep_tombstones;
    struct health *health; /* is told of faults; NULL is fine */
};
enum index_state {
    INDEX_GOOD,
    INDEX_EMPTY,   /* new, or truncated by the disk: replay from the start of the logs */
    INDEX_FOREIGN, /* of another disk: emptied */
    INDEX_BAD,     /* marked, unreadable, or shorter than it says: emptied */
};

/* *checkpoint is zero unless INDEX_GOOD; read only and not good: *out is NULL. Whether a good
 * one is older than its logs reach back is for the caller to judge: then index_reset(). May
 * switch. */
enum err index_open(const struct index_options *o, struct index **out,
                    enum index_state *state, struct index_checkpoint *checkpoint,
                    struct errbuf *eb) MUST_CHECK;
/* While logs are replayed nobody else waits for the loop: reads stay on it, however large the index is. */
void index_replaying(struct index *x, bool yes);
/* Throws everything away. Nobody else uses it meanwhile. May switch. */
enum err index_reset(struct index *x, struct errbuf *eb) MUST_CHECK;
/* What never was in memory, or was away from it long enough, comes in behind the caller, a piece at a time, where it may. To be
 * called now and then. Owner loop. */
void index_populate_behind(struct index *x);
/* From now on no more of it comes in than the piece that is on its way. Owner loop. */
void index_will_close(struct index *x);
/* And that one is waited for. Owner loop, as nothing else of the closing needs to be; may switch. */
void index_end_populating(struct index *x);
void index_close(struct index **xp); /* May switch. */
/* Writes the index of a disk that nobody has open anew, without free pages. On an error what was there stands. May
 * switch. */
enum err index_compact(struct rt_dir *disk, struct errbuf *eb) MUST_CHECK;

/* The batch and the position it reaches to, in one durable commit. On an error nothing of it is in the index.
 * May switch. */
enum err index_apply(struct index *x, const struct frozen_runs *b,
                     const struct index_checkpoint *checkpoint,
                     struct errbuf *eb) MUST_CHECK;

/* One that is bad is marked as such by a file beside it, once, so that no start believes it again, without a write to what is
 * damaged. Owner loop; may switch. */
void index_mark_bad(struct index *x);

/* What a look-up that may not wait would have waited for; before it: what has come since the last time. */
struct index_want {
    bool known; /* a page that index_page_begin() brings in */
    uint64_t page;
};
/* Copies the coded value of a key to `value` (VALUE_CODED_MAX bytes). ERR_NOT_FOUND. May switch while the index
 * is not resident; with `want` it does not, and that is ERR_BUSY. */
enum err index_find(struct index *x, enum table table, uint64_t bucket, struct span key,
                    struct index_want *want, unsigned char *value, size_t *len,
                    struct errbuf *eb) MUST_CHECK;
/* Brings a page into memory, then the caller looks again. `reading` as rt_read_begin() has it, which this is; *buf is of no use, and
 * the caller's to drop. False: nothing has begun. */
bool index_page_begin(struct index *x, uint64_t page, struct iobuf **buf,
                      struct rt_async_read *reading);
/* Of a key of an object that is missing: are the entries beside its place what they should be? A key of which a bit changed
 * stands beside where it should, so this is how its entry, once hidden, is found out: ERR_CORRUPT. ERR_EXISTS: it is there
 * by now, or is a tombstone. Keys of more than one layer are not looked at. May switch while
 * the index is not resident. */
enum err index_near(struct index *x, uint64_t bucket, struct span key,
                    struct errbuf *eb) MUST_CHECK;
/* Like memtable_scan(). May switch while the index is not resident. */
enum err index_scan(struct index *x, const struct scan *s, struct arena *a,
                    struct page *out, struct errbuf *eb) MUST_CHECK;
#ifdef FB_TEST_HOOKS
extern _Atomic uint64_t index_entries_walked; /* by all scans: what a page costs */
#endif

/* Payload bytes of a segment as far as the index covers. `living` is exact, and at least one for everything that names
 * a place in it: where it is 0 the segment is of no use. `dead` knows nothing of what came and went within one batch. ERR_NOT_FOUND: it never heard of the segment. */
struct index_segment {
    int64_t living, dead;
};
enum err index_segment(struct index *x, enum store_class class, uint32_t segment,
                       struct index_segment *out, struct errbuf *eb) MUST_CHECK;

/* All of them, in order, as index_segment() would tell. `on_segment` runs after the transaction. May switch. */
enum err index_segments(struct index *x,
                        void (*on_segment)(void *arg, enum store_class class,
                                           uint32_t segment,
                                           const struct index_segment *seen),
                        void *arg, struct errbuf *eb) MUST_CHECK;

/* Objects of a bucket and their bytes, as far as the index covers: all buckets that have any, in order. `on_usage` runs
 * after the transaction. */
struct index_usage {
    uint64_t bucket;
    int64_t objects, bytes;
};
enum err index_usage(struct index *x,
                     void (*on_usage)(void *arg, const struct index_usage *u), void *arg,
                     struct errbuf *eb) MUST_CHECK;

/* The first bucket with a number >= from that the index ever had a key of. ERR_NOT_FOUND. */
enum err index_bucket(struct index *x, uint64_t from, uint64_t *out,
                      struct errbuf *eb) MUST_CHECK;

/* Verifies the index as a whole: all pairs are those that were written last, and searches find them. Writers wait for it, a second and
 * more where the index has gigabytes. ERR_CORRUPT: it is damaged, and hiding from then on. `stop`, where there is one:
 * ERR_CANCELLED. *readable, where there is one: only what the pages hold is wrong, so that LMDB may walk them. Owner loop; may
 * switch. */
enum err index_verify(struct index *x, const _Atomic bool *stop, bool *readable,
                      struct errbuf *eb) MUST_CHECK;
/* Of an index that a start is about to use: the same where it is small. A larger one is verified behind the start. */
enum err index_probe(struct index *x, struct errbuf *eb) MUST_CHECK;

/* The same beside writers, one at a time, in pieces of a millisecond between which the caller waits as it likes. some(): *bytes were
 * read; *over: all of it is verified. ERR_CORRUPT: it is damaged. ERR_BUSY: try the same piece again. end() follows begin(), whatever
 * some() returned. Owner loop; they may switch. */
void index_prove_begin(struct index *x, const _Atomic bool *stop);
enum err index_prove_some(struct index *x, uint64_t *bytes, bool *over,
                          struct errbuf *eb) MUST_CHECK;
void index_prove_end(struct index *x);
#ifdef FB_TEST_HOOKS
extern uint32_t index_prove_piece;  /* leaves of one */
extern uint64_t index_probe_all_of; /* bytes: a larger index is not small */
#endif
/* Is it known that the index says what was written last? One that was made anew, or that the start has read as a whole, is. What
 * is not proven may be asked, but nothing is given back because it knows of no use for it. Any thread. */
enum store_index index_trust(const struct index *x);

/* ERR_CORRUPT while entries may be hidden: what it lists may not be all. Any thread. */
enum err index_lists_all(const struct index *x, struct errbuf *eb) MUST_CHECK;

bool index_is_bad(const struct index *x); /* any thread */
void index_set_bad(
    struct index *x); /* a reader found a entry that its body contradicts */
bool index_is_hiding(const struct index *x);
void index_set_hiding(
    struct index *x); /* the same, and the entry may stand under a wrong key */
struct index_stat {
    uint64_t objects;    /* living entries */
    uint64_t used_bytes; /* of the file */
    bool resident;
    uint64_t pages_proven, pages_to_prove; /* of the last proof; about */
};
void index_stat(struct index *x, struct index_stat *out);
