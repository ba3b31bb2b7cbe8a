/* internal: what the files of this room share. Nobody outside includes it.
 *
 * Fields are grouped by who may touch them. "Home" is the disk's home loop: the committers, the flusher and
 * whoever reserves space run there, so between two switches they are alone.
 */
#pragma once
#include <stdatomic.h>

#include "base/list.h"
#include "disk/disk.h"
#include "disk/durable.h"
#include "disk/find.h"
#include "disk/hot.h"
#include "disk/index.h"
#include "disk/list.h"
#include "disk/retired.h"
#include "disk/tail.h"
#include "rt/daemon.h"
#include "rt/fiber.h"
#include "rt/file.h"
#include "rt/loop.h"
#include "rt/sync.h"

#define FORMAT_VERSION  1
#define DISK_ALIGN      4096u
#define BLOCK_BYTES     (16u << 10) /* of a block sum */
#define HEAD_MAX        (20u << 10) /* header of a member */
#define META_MAX        (8u << 10)  /* metadata fields of an object */
#define GROUP_MAX       ((4u << 20) - DISK_ALIGN)
#define GROUP_MEMBERS   512
#define BODY_HEAD       DISK_ALIGN
#define SUMS_HEAD_ROOM  (12u << 10)
#define BODY_OWN        (16u << 20) /* from here on a body has a segment of its own */
#define BODY_STEP       (16u << 20) /* one of unknown length grows by this */
#define BODY_MAX        ((uint64_t)5 << 30)
#define BUCKET_NOTE_MAX (64u << 10)
#define PART_MAX        DISK_PARTS_MAX
#define DOUBT_PLACES    4096u

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
    struct disk *disk; /* borrowed */
    uint32_t id;
    uint32_t generation;
    enum disk_class class;
    enum segment_kind kind;
    uint64_t first_group; /* of a log */
    struct rt_file *file; /* owned */

    /* Any loop. */
    _Atomic uint32_t refs;
    _Atomic bool doomed;         /* a write or sync failed: nothing more goes here */
    _Atomic uint32_t head_guess; /* how long heads of members are; read_file.c */

    /* Home. */
    struct {
        uint64_t size; /* allocated */
        uint64_t used; /* the next place or group goes here */
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
        bool headless;        /* its header is lost, and first_group may be one too few */
        struct survey survey; /* compact_log.c, compact_body.c */
        struct list of_class; /* logs and shared segments of the class, by id */
        struct list of_dirty;
    } home;
};

/* One log: home. */
struct log {
    struct segment *now; /* the one appended to; in disk->segments */
    uint64_t next_group;
    struct log_position end;     /* behind the last group */
    struct log_position covered; /* up to here the index has it, durably */
    uint64_t uncovered;          /* bytes of groups that the index does not cover */
    uint64_t synced_group;       /* this one and all before it are durable */
    uint64_t promised;           /* the last group that was synced before a reply */
    bool failed;                 /* a write or sync failed: takes nothing more */
    struct durable durable;      /* how groups that are synced are written */
    bool dirty;                  /* cached: written since the last sync */
    bool
        full; /* takes no more groups, whatever room is left in it: the next begins another */
};

/* A body that lost its row. */
struct dying {
    enum disk_class class;
    uint32_t segment;
    uint64_t offset;
    struct content_id content;
};
struct committer; /* commit.c */
struct prepared;  /* prepare.h */
struct flusher;   /* flush.c */
struct space;     /* space.h */
struct usage;     /* usage.h */
struct readings;  /* reading.h */
struct compactor; /* compact.h */
struct puncher;   /* punch.h */
struct heat;      /* heat.h */
struct evictor;   /* evict.h */
struct ahead;     /* ahead.h */

#define SEGMENT_TABLE_TOP  4096
#define SEGMENT_TABLE_PAGE 4096
typedef _Atomic(struct segment *) segment_slot;

struct disk {
    /* Set in disk_open(), then never changed: any loop. */
    struct disk_options o;
    bool read_only;       /* the check's: nothing is written */
    struct disk_ids *ids; /* own_ids, or lent */
    uint8_t disk_id[16];
    uint64_t epoch;        /* of this opening: larger than any on this disk before */
    uint64_t former_epoch; /* of the opening before */
    bool again;            /* the second try of one opening: the epoch is its own */
    uint64_t generation;   /* of the superblock */
    uint32_t cluster_sum;  /* crc32c of the cluster id: where block sums begin */
    struct rt_dir *root, *state, *dir[DISK_CLASSES_];
    struct rt_file *superblock; /* locked */
    struct tail *tail;
    struct index *index;
    struct hot *hot;
    struct committer *committer[DISK_CLASSES_];
    struct flusher *flusher;
    struct scrub *scrub;
    struct health *health;     /* NULL: the check's */
    struct prepared *prepared; /* owned */
    struct space *space;       /* NULL: the check's */
    struct usage *usage;
    struct readings *readings;
    struct compactor *compactor; /* NULL: the check's */
    struct puncher *puncher;
    struct heat *heat;
    struct evictor *evictor;
    struct ahead *ahead; /* NULL: the check's */

    /* Any loop. */
    segment_slot
        *_Atomic segments[SEGMENT_TABLE_TOP]; /* pages by id; see segment_pin() */
    struct disk_ids own_ids;
    _Atomic uint32_t doubts[DOUBT_PLACES]; /* doubts_of(); only home changes them */
    _Atomic bool failed;
    _Atomic uint64_t
        used_bytes[DISK_CLASSES_]; /* of groups and places, not what is allocated ahead */

    /* Home. */
    struct {
        uint32_t next_segment;
        struct log log[DISK_CLASSES_];
        struct list segments_of[DISK_CLASSES_];
        struct segment
            *bodies[DISK_CLASSES_]; /* shared one that takes bodies now, or NULL */
        struct rt_sem reserve;      /* one reservation at a time */
        struct list
            dirty_bodies;    /* cached, holding references; synced before the index */
        struct dying *dying; /* bodies that died since the last flush; owned */
        uint32_t dying_count, dying_room;
        uint64_t deaths[DISK_CLASSES_]; /* of bodies, since the start */
        struct segment
            *spare[DISK_CLASSES_]; /* a log to be written over, or NULL; owned */
        struct retired retired;
        struct rt_sem retired_turn; /* one write of it at a time (promised.h) */
        uint64_t promise_due_ns;    /* not before */
        uint64_t given_back;        /* places found without a record at start */
        bool behind_hole;   /* the replay has passed one of the cached log: hole.h */
        bool behind_damage; /* and what was in it had been promised */
        bool
            log_damaged; /* changes of the native log are lost: bodies without a record are kept */
        uint64_t replayed, to_replay; /* bytes of logs */
        struct known *known;          /* owned; keys that tail and index may hold */
        struct scan_ahead
            *scan_ahead;       /* owned; NULL but while a replay has several logs */
        struct chains *chains; /* owned; NULL but while cached logs are replayed */
        uint64_t replay_told_ns;
        bool
            log_lost; /* as log_damaged, but for a rebuild that only keeps what there is */
        bool open;    /* takes changes */
    } home;
};

/* Runs fn(arg) on the home loop: directly when this is it. May switch. */
enum err on_home(struct disk *d, fiber_fn *fn, void *arg) MUST_CHECK;

/* How many doubts came of keys with this hash (run_key_hash()); of others that fall there, too. */
static inline _Atomic uint32_t *
doubts_of(struct disk *d, uint64_t key_hash)
{
    return &d->doubts[key_hash % DOUBT_PLACES];
}
struct content_id content_mint(struct disk *d); /* any loop */
static inline uint64_t
next_id(struct disk *d)
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
