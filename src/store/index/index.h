/* index: the ordered map from keys to entries behind the memtable, in LMDB. It follows the write-ahead logs and may be lost: replay
 * rebuilds it. docs/formats.md, section "index".
 *
 * Reading: each loop keeps one read transaction, renewed for each call and reset before the call returns, so nothing is held over a
 * switch and results are copied out. While all of the file is in memory (index_memory.c) reads run on the loop. Otherwise a lookup
 * checks each page on its way before it touches it (index_resident.h), lets the engine read a missing one, and then runs on the
 * loop; all other reads go to the pool.
 *
 * Writing: one writer. index_apply() brings a batch of frozen memtable runs in, in one durable transaction on the pool.
 *
 * Damage: an entry with a wrong sum is ERR_CORRUPT and makes the index bad: it stays in use and is rebuilt at the next open. If
 * damage may hide entries (a broken page, an entry under another key), the index is hiding: what it lacks is ERR_CORRUPT, never
 * ERR_NOT_FOUND. A fault under the map (SIGBUS, SIGSEGV) and a failed commit end the index: every later call is ERR_IO.
 *
 * Fibers: any loop reads; index_apply() runs on the owner loop of the disk.
 */
#pragma once
#include "rt/file.h"
#include "store/index/memtable.h"
#include "store/record/keys.h"
#include "store/store_entry.h"
#include "store/store_health.h"

struct suspects;

struct health;

struct index;

/* A position in the write-ahead log of a class. Of a checkpoint: the index covers everything before it. */
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
    /* Changes nothing, not even an index that is of no use. The caller holds the lock of the disk. */
    bool read_only;
    /* Discards the present index without reading it. */
    bool discard;
    /* Keeps tombstones for other replicas; without it no other disk can hold the key. */
    bool keep_tombstones;
    struct health *health; /* counts faults; NULL is fine */
};
enum index_state {
    INDEX_GOOD,
    INDEX_EMPTY,   /* new, or truncated by the disk: replay from the start of the logs */
    INDEX_FOREIGN, /* of another disk: emptied */
    INDEX_BAD,     /* marked, unreadable, or shorter than it says: emptied */
};

/* *checkpoint is zero unless INDEX_GOOD. Read-only and not good: *out is NULL. A good index may be older than the oldest log:
 * the caller checks that and calls index_reset(). May switch. */
enum err index_open(const struct index_options *o, struct index **out,
                    enum index_state *state, struct index_checkpoint *checkpoint,
                    struct errbuf *eb) MUST_CHECK;
/* During replay no request waits for the loop: reads stay on it, however large the index is. */
void index_replaying(struct index *x, bool yes);
/* Look-ups and lists ask these before they believe what they found. Borrowed; NULL: none. */
void index_set_suspects(struct index *x, const struct suspects *s);
const struct suspects *index_suspects(const struct index *x);
/* Empties the index. No other call may run meanwhile. May switch. */
enum err index_reset(struct index *x, struct errbuf *eb) MUST_CHECK;
/* Brings the index into memory behind the caller, a piece at a time: what was never there, or was reclaimed long enough ago. Called
 * now and then. Owner loop. */
void index_populate_behind(struct index *x);
/* Ends that after the piece that is being read. Owner loop. */
void index_will_close(struct index *x);
/* The same, and waits for that piece. Owner loop; may switch. */
void index_end_populating(struct index *x);
void index_close(struct index **xp); /* May switch. */

/* Applies the batch and its checkpoint in one durable transaction. On an error nothing of it is in the index. Owner loop.
 * May switch. */
enum err index_apply(struct index *x, const struct frozen_runs *b,
                     const struct index_checkpoint *checkpoint,
                     struct errbuf *eb) MUST_CHECK;

/* Marks a bad index by a file beside it, once, so that no later start uses it. Writes nothing to the damaged file. Owner loop;
 * may switch. */
void index_mark_bad(struct index *x);

/* The page that a lookup without waiting needs; before the lookup: the page that was read since the last try. */
struct index_want {
    bool known; /* index_page_begin() reads `page` */
    uint64_t page;
};
/* Copies the coded value of a key to `value` (VALUE_CODED_MAX bytes). ERR_NOT_FOUND. May switch while the index is not resident;
 * with `want` it returns ERR_BUSY instead. */
enum err index_find(struct index *x, enum table table, uint64_t bucket, struct span key,
                    struct index_want *want, unsigned char *value, size_t *len,
                    struct errbuf *eb) MUST_CHECK;
/* Begins to read a page into the page cache (rt_read_begin()); afterwards the caller looks up again. The content of *buf means nothing; the
 * caller drops it. False: nothing has begun. */
bool index_page_begin(struct index *x, uint64_t page, struct iobuf **buf,
                      struct rt_async_read *reading);
/* Checks a lookup that found no object: are the two entries beside the place of the key intact, and on both sides of it? A key with a
 * flipped bit hides its entry, and stands beside its place: ERR_CORRUPT. ERR_EXISTS: the key is there by now, or is a tombstone. Keys
 * of more than one layer are not checked. May switch while the index is not resident. */
enum err index_near(struct index *x, uint64_t bucket, struct span key,
                    struct errbuf *eb) MUST_CHECK;
/* Like memtable_scan(). May switch while the index is not resident. */
enum err index_scan(struct index *x, const struct scan *s, struct arena *a,
                    struct page *out, struct errbuf *eb) MUST_CHECK;
#ifdef FB_TEST_HOOKS
extern _Atomic uint64_t index_entries_walked; /* by all scans */
#endif

/* Payload bytes of a segment, as far as the index covers. `living` is exact, and at least one for each entry that names a place in the
 * segment: at 0 the segment is garbage. `dead` lacks what came and went within one batch. ERR_NOT_FOUND: no entry ever named it. */
struct index_segment {
    int64_t living, dead;
};
enum err index_segment(struct index *x, enum store_class class, uint32_t segment,
                       struct index_segment *out, struct errbuf *eb) MUST_CHECK;

/* All segments, in order. `on_segment` runs after the transaction. May switch. */
enum err index_segments(struct index *x,
                        void (*on_segment)(void *arg, enum store_class class,
                                           uint32_t segment,
                                           const struct index_segment *seen),
                        void *arg, struct errbuf *eb) MUST_CHECK;

/* Objects and bytes of all buckets that have any, in order, as far as the index covers. `on_usage` runs after the transaction. May
 * switch. */
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
/* Is the index verified? A new one is, and one that a start or a scrub has read as a whole. An unverified index answers lookups, but
 * its word frees no space. Any thread. */
enum store_index index_trust(const struct index *x);

/* ERR_CORRUPT while entries may be hidden: a listing may lack some. Any thread. */
enum err index_lists_all(const struct index *x, struct errbuf *eb) MUST_CHECK;

bool index_is_bad(const struct index *x); /* any thread */
/* A reader found an entry that contradicts its body. Any thread. */
void index_set_bad(struct index *x);
bool index_is_hiding(const struct index *x);
/* The same, and the entry may stand under a wrong key. Any thread. */
void index_set_hiding(struct index *x);
struct index_stat {
    uint64_t objects;    /* living entries */
    uint64_t used_bytes; /* of the file */
    bool resident;
    uint64_t pages_proven, pages_to_prove; /* of the last verification; about */
};
void index_stat(struct index *x, struct index_stat *out);
