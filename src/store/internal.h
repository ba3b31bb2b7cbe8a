/* internal: what the files of this room share. Nobody outside includes it.
 *
 * Fields are grouped by who may touch them. "Home" is the disk's owner loop: the committers, the flusher and
 * whoever reserves space run there, so between two switches they are alone.
 */
#pragma once
#include <stdatomic.h>

#include "base/list.h"
#include "rt/daemon.h"
#include "rt/fiber.h"
#include "rt/file.h"
#include "rt/loop.h"
#include "rt/sync.h"
#include "store/index/find.h"
#include "store/index/index.h"
#include "store/index/list.h"
#include "store/index/memtable.h"
#include "store/segment/block_cache.h"
#include "store/segment/sync_mode.h"
#include "store/segment/truncated.h"
#include "store/store.h"

#define FORMAT_VERSION  1
#define STORE_ALIGN     4096u
#define BLOCK_BYTES     (16u << 10) /* of a block sum */
#define HEAD_MAX        (20u << 10) /* header of a record */
#define META_MAX        (8u << 10)  /* metadata fields of an object */
#define BATCH_MAX       ((4u << 20) - STORE_ALIGN)
#define BATCH_RECORDS   512
#define BODY_HEAD       STORE_ALIGN
#define SUMS_HEAD_ROOM  (12u << 10)
#define BODY_OWN        (16u << 20) /* from here on a body has a segment of its own */
#define BODY_STEP       (16u << 20) /* one of unknown length grows by this */
#define BODY_MAX        ((uint64_t)5 << 30)
#define BUCKET_NOTE_MAX (64u << 10)
#define PART_MAX        STORE_PARTS_MAX
#define IN_DOUBT_SLOTS  4096u

enum segment_kind { SEGMENT_LOG, SEGMENT_BODIES, SEGMENT_ONE };

/* What compaction found when it last looked at all of a segment. */
struct survey {
    bool done;
    uint64_t living;   /* bytes that would have to move */
    uint64_t waiting;  /* of these: records that could go if no older log were there */
    int64_t indexed;   /* living bytes that the index counted then */
    uint64_t deaths;   /* of bodies in the class, until then */
    uint64_t again_ms; /* of bodies: not before */
};

/* A segment that is written, or shared. Segments of one finished body have none: they are opened by name. */
struct segment {
    /* Set at birth. */
    struct store *disk; /* borrowed */
    uint32_t id;
    uint32_t generation;
    enum store_class class;
    enum segment_kind kind;
    uint64_t first_batch; /* of a log */
    struct rt_file *file; /* owned */

    /* Any loop. */
    _Atomic uint32_t refs;
    _Atomic bool doomed;         /* a write or sync failed: nothing more goes here */
    _Atomic uint32_t head_guess; /* how long heads of records are; read_file.c */

    /* Home. */
    struct {
        uint64_t size; /* allocated */
        uint64_t used; /* the next place or batch goes here */
        unsigned open_places;
        struct list
            openings; /* shared bodies: places without their header yet (body_reserve.c) */
        struct rt_cond opened; /* one of them has it */
        bool syncing;          /* shared bodies, native */
        /* Of them: so many have their last writes on their way. Those of `sealing_turn` have begun since the sync that was
         * begun last, the others before; it waits for them (body_sync.c). */
        uint32_t sealing[2];
        unsigned sealing_turn;
        uint64_t syncs_begun, syncs_done;
        struct rt_cond synced; /* one is over */
        uint64_t counted;      /* of it in used_bytes of the disk */
        bool dirty;            /* cached: written since the last sync */
        bool evicted;          /* its objects were: worth compacting whatever it holds */
        bool swept;            /* bodies: what a crash had left is punched */
        bool held;            /* compaction can do nothing with it until the next start */
        bool headless;        /* its header is lost, and first_batch may be one too few */
        struct survey survey; /* compact_log.c, compact_body.c */
        struct list of_class; /* logs and shared segments of the class, by id */
        struct list of_dirty;
    } owner;
};

/* One log: owner. */
struct wal {
    struct segment *now; /* the one appended to; in disk->segments */
    uint64_t next_batch;
    struct wal_position end;        /* behind the last batch */
    struct wal_position checkpoint; /* up to here the index has it, durably */
    uint64_t uncovered;             /* bytes of batches that the index does not cover */
    uint64_t synced_batch;          /* this one and all before it are durable */
    uint64_t durable_mark;          /* the last batch that was synced before a reply */
    bool failed;                    /* a write or sync failed: takes nothing more */
    struct sync_mode sync_mode;     /* how batches that are synced are written */
    bool dirty;                     /* cached: written since the last sync */
    bool
        full; /* takes no more batches, whatever room is left in it: the next begins another */
};

/* A body that lost its entry. */
struct garbage {
    enum store_class class;
    uint32_t segment;
    uint64_t offset;
    struct content_id content;
};
struct committer;   /* commit.c */
struct prepared;    /* prepare.h */
struct flusher;     /* flush.c */
struct space;       /* space.h */
struct usage;       /* usage.h */
struct readings;    /* reading.h */
struct compactor;   /* compact.h */
struct puncher;     /* punch.h */
struct access_freq; /* access_freq.h */
struct evictor;     /* evict.h */
struct prealloc;    /* ahead.h */

#define SEGMENT_TABLE_TOP  4096
#define SEGMENT_TABLE_PAGE 4096
typedef _Atomic(struct segment *) segment_slot;

struct store {
    /* Set in store_open(), then never changed: any loop. */
    struct store_options o;
    bool read_only;        /* the check's: nothing is written */
    struct store_ids *ids; /* own_ids, or lent */
    uint8_t disk_id[16];
    uint64_t epoch;        /* of this opening: larger than any on this disk before */
    uint64_t former_epoch; /* of the opening before */
    bool again;            /* the second try of one opening: the epoch is its own */
    uint64_t generation;   /* of the superblock */
    uint32_t cluster_sum;  /* crc32c of the cluster id: where block sums begin */
    struct rt_dir *root, *state, *dir[STORE_CLASSES_];
    struct rt_file *superblock; /* locked */
    struct memtable *memtable;
    struct index *index;
    struct block_cache *block_cache;
    struct committer *committer[STORE_CLASSES_];
    struct flusher *flusher;
    struct scrub *scrub;
    struct health *health;     /* NULL: the check's */
    struct prepared *prepared; /* owned */
    struct space *space;       /* NULL: the check's */
    struct usage *usage;
    struct readings *readings;
    struct compactor *compactor; /* NULL: the check's */
    struct puncher *puncher;
    struct access_freq *access_freq;
    struct evictor *evictor;
    struct prealloc *prealloc; /* NULL: the check's */

    /* Any loop. */
    segment_slot
        *_Atomic segments[SEGMENT_TABLE_TOP]; /* pages by id; see segment_pin() */
    struct store_ids own_ids;
    _Atomic uint32_t
        in_doubt[IN_DOUBT_SLOTS]; /* in_doubt_of(); only owner changes them */
    _Atomic bool failed;
    _Atomic uint64_t used_bytes
        [STORE_CLASSES_]; /* of batches and places, not what is allocated ahead */

    /* Home. */
    struct {
        uint32_t next_segment;
        struct wal log[STORE_CLASSES_];
        struct list segments_of[STORE_CLASSES_];
        struct segment
            *bodies[STORE_CLASSES_]; /* shared one that takes bodies now, or NULL */
        struct rt_sem reserve;       /* one reservation at a time */
        struct list
            dirty_bodies;        /* cached, holding references; synced before the index */
        struct garbage *garbage; /* bodies that died since the last flush; owned */
        uint32_t garbage_count, garbage_room;
        uint64_t deaths[STORE_CLASSES_]; /* of bodies, since the start */
        struct segment
            *spare[STORE_CLASSES_]; /* a log to be written over, or NULL; owned */
        struct truncated truncated;
        struct rt_sem truncated_turn; /* one write of it at a time (promised.h) */
        uint64_t durable_mark_due_ns; /* not before */
        uint64_t given_back;          /* places found without a record at start */
        bool after_gap;    /* the replay has passed one of the cached log: hole.h */
        bool after_damage; /* and what was in it had been promised */
        bool
            wal_damaged; /* changes of the native log are lost: bodies without a record are kept */
        uint64_t replayed, to_replay;  /* bytes of logs */
        struct key_filter *key_filter; /* owned; keys that memtable and index may hold */
        struct scan_readahead
            *scan_readahead;   /* owned; NULL but while a replay has several logs */
        struct chains *chains; /* owned; NULL but while cached logs are replayed */
        uint64_t replay_told_ns;
        bool
            wal_lost; /* as wal_damaged, but for a rebuild that only keeps what there is */
        bool open;    /* takes changes */
    } owner;
};

/* Runs fn(arg) on the owner loop: directly when this is it. May switch. */
enum err on_owner_loop(struct store *d, fiber_fn *fn, void *arg) MUST_CHECK;

/* How many in_doubt came of keys with this hash (run_key_hash()); of others that fall there, too. */
static inline _Atomic uint32_t *
in_doubt_of(struct store *d, uint64_t key_hash)
{
    return &d->in_doubt[key_hash % IN_DOUBT_SLOTS];
}
struct content_id content_mint(struct store *d); /* any loop */
static inline uint64_t
next_id(struct store *d)
{
    return atomic_fetch_add_explicit(&d->ids->counter, 1, memory_order_relaxed) + 1;
}
static inline bool
content_eq(const struct content_id *a, const struct content_id *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}
static inline int
version_cmp(const struct version *a, const struct version *b)
{
    if (a->epoch != b->epoch)
        return a->epoch < b->epoch ? -1 : 1;
    return (a->counter > b->counter) - (a->counter < b->counter);
}
