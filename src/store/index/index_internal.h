/* Inside of index*.c. */
#pragma once
#include "store/index/entry.h"
#include "store/index/index.h"
#include "store/record/keys.h"
#include "store/store_entry.h"
#include <lmdb.h>
#include <stdatomic.h>

#include "rt/loop.h"
#include "rt/sync.h"

/* The databases of the environment: the tables first. */
enum index_db {
    DB_SPACES = TABLES_, /* be64 bucket -> be32 space | be32 sum */
    DB_SEGMENTS, /* u8 class | be32 segment -> be64 living | be64 dead | be32 sum */
    DB_META,     /* "meta" -> struct index_meta */
    DB_BUCKETS,  /* be64 bucket -> be64 objects | be64 bytes | be32 sum */
    DBS_
};
extern const char *const index_db_names[DBS_];
#define INDEX_FOLDER "index"
#define NO_DBI                                                                           \
    0 /* read-only: a missing table counts as empty. LMDB's own tables are 0 and 1 */

/* All pairs of all databases but `meta`: their number and the sum of their sums, in any order. */
struct index_tally {
    uint64_t pairs, sum;
};
uint64_t index_pair_sum(unsigned db, const MDB_val *key, const MDB_val *value);

/* The meta entry, written with every batch. */
struct index_meta {
    uint8_t disk_id[16];
    bool bad;            /* to be rebuilt at the next open */
    uint32_t next_space; /* spaces are never used again */
    uint64_t objects;
    struct index_tally tally;
    struct index_checkpoint checkpoint;
};
#define INDEX_META_BYTES 128u
void index_meta_encode(const struct index_meta *m, unsigned char out[INDEX_META_BYTES]);
bool index_meta_decode(struct span value, struct index_meta *out);

/* A place between the pairs of all tables, which stand in the order of enum index_db. */
#define INDEX_KEY_MAX 511u /* LMDB's */
struct index_place {
    unsigned db; /* DBS_: the end */
    size_t len;
    unsigned char key[INDEX_KEY_MAX];
};
static inline bool
index_place_is_behind(const struct index_place *p, unsigned db, const MDB_val *key)
{
    return db < p->db ||
           (db == p->db && span_cmp((struct span){key->mv_data, key->mv_size},
                                    (struct span){(const char *)p->key, p->len}) < 0);
}

/* The index is being verified in pieces (index_verify.c): what stands before the place is counted, and every batch corrects the count. */
struct index_proof {
    bool on;
    struct index_verify *verify; /* owned */
    struct index_place place;
    struct index_tally counted;
};

/* What a loop remembers: some spaces of buckets, which never change; and, for a short while, that a page was in memory. */
#define SPACE_CACHE 64u
#define HERE_CACHE  1024u
struct index_reader {
    MDB_txn *txn; /* reset between calls */
    uint32_t asked;
    struct {
        uint64_t page; /* 0: none, or the first */
        uint64_t until_ns;
    } here[HERE_CACHE];
    struct {
        uint64_t bucket;
        uint32_t space; /* 0: none */
    } cache[SPACE_CACHE];
} __attribute__((aligned(64)));

struct index {
    /* Set by open and reset, then never changed. */
    struct index_options options;
    struct rt_dir *dir; /* owned: the folder */
    MDB_env *env;       /* NULL: not open */
    MDB_dbi dbi[DBS_];
    const void *map;
    size_t map_len, page_bytes;
    struct rt_file *
        pages; /* owned: data.mdb, to read pages into memory. NULL: it could not be opened */
    unsigned loops;
    const struct suspects *suspects; /* borrowed */

    struct index_reader *readers; /* each only by its loop */

    /* Any thread. */
    _Atomic bool bad, dead, resident, replaying;
    _Atomic uint64_t
        away_ns; /* when the kernel was seen to have reclaimed pages; 0: it has not */
    _Atomic unsigned times_away;
    _Atomic bool faulted; /* dead because of its pages */
    _Atomic bool hiding;  /* damaged, and searches may miss entries */
    _Atomic bool proven;  /* verified since it was opened, or new */
    _Atomic uint64_t used_bytes, objects, pages_proven, pages_to_prove;

    /* One job at a time: open, apply. */
    struct index_meta meta;
    struct index_proof proof;
    unsigned char done_at[16]; /* where the next sweep of completed uploads begins */

    /* Owner loop. */
    bool populating;       /* a fiber reads it into memory, a piece at a time */
    bool populate_no_more; /* the index will be closed */
    bool marked;           /* as bad, by a file */
    bool not_marked_told;
    struct rt_cond populated; /* a piece was read, or populating ended */
    struct rt_sem turn;       /* a batch, or a piece of verification */

    /* How much of the map is in memory. Belongs to the writing job while the index is resident, else to the owner loop. */
    uint64_t populated_bytes;
};

/* An environment of LMDB on the file or folder at `path`, in *env whatever comes of it: mdb_env_close() ends it. On a worker, under a
 * guard. */
int index_env_open(const char *path, unsigned flags, uint64_t map_bytes, unsigned readers,
                   MDB_env **env);
/* Runs fn under a guard over the map. False: a fault, or the index is dead already. */
bool index_guard(struct index *x, void (*fn)(void *arg), void *arg);
/* The error for a code of LMDB; records damage in x. */
enum err index_code(struct index *x, int rc, const char *what, struct errbuf *eb);

/* index_memory.c. index_opened() learns the size and reads a small index into memory; index_grown() does the same after a commit, for the
 * new pages of a resident index. Both block: on a worker. */
void index_opened(struct index *x);
void index_grown(struct index *x);
/* The kernel has reclaimed pages of a resident index. Any thread. */
void index_is_absent(struct index *x);
/* Waits until populating ends, or `stop` (NULL is fine). Owner loop; may switch. */
void index_wait_populated(struct index *x, const _Atomic bool *stop);
void index_set_proven(struct index *x, bool yes);
void index_turn_acquire(struct index *x); /* owner loop; may switch */
void index_turn_release(struct index *x);
#ifdef FB_TEST_HOOKS
extern uint32_t index_populate_at_once, index_populate_piece; /* bytes */
extern void (*index_on_populate)(void); /* on a worker, before each piece; NULL is fine */
#endif

/* A value under a key of exactly KEY_LAYER_BYTES holds an entry, the space of the layer behind it, or both; shorter keys hold an entry
 * only. */
struct index_cell {
    struct span entry; /* empty: none */
    uint32_t layer;    /* 0: none */
};
#define INDEX_CELL_MAX (9 + ENTRY_CODED_MAX)
bool index_cell_parse(const MDB_val *key, const MDB_val *value, struct index_cell *out);
size_t index_cell_encode(const MDB_val *key, const struct index_cell *cell,
                         unsigned char *out);
/* Spaces: coded with a sum over bucket and number. */
#define INDEX_SPACE_BYTES 8u
void index_space_encode(uint64_t bucket, uint32_t space,
                        unsigned char out[INDEX_SPACE_BYTES]);
bool index_space_decode(uint64_t bucket, const MDB_val *value, uint32_t *space);
#define INDEX_SEGMENT_KEY   5u
#define INDEX_SEGMENT_BYTES 20u
void index_segment_key(enum store_class class, uint32_t segment,
                       unsigned char out[INDEX_SEGMENT_KEY]);
void index_segment_encode(const unsigned char *key, const struct index_segment *s,
                          unsigned char *out);
bool index_segment_decode(const unsigned char *key, const MDB_val *value,
                          struct index_segment *out);

#define INDEX_USAGE_BYTES 20u
void index_usage_key(uint64_t bucket, unsigned char out[8]);
void index_usage_encode(const unsigned char *key, const struct index_usage *u,
                        unsigned char *out);
bool index_usage_decode(const unsigned char *key, const MDB_val *value,
                        struct index_usage *out);

static inline bool
index_is_layered(enum table table)
{
    return table == TABLE_OBJECTS || table == TABLE_UPLOADS || table == TABLE_VERSIONS;
}
