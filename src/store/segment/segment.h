/* segment: the tar files of a disk: made, named, found by number, pinned. docs/formats.md, sections 1 and 3.
 *
 * Logs and shared body segments are in the disk's table while it is open, with their file; a segment of one
 * body is opened by name by its reader. segment_pin() works on any loop without a lock: a slot is
 * emptied on the owner loop, the table's reference dropped when every loop has passed on.
 */
#pragma once
#include "store/core/core.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/store_entry.h"

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
    /* Set when it is made. */
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

    /* Owner loop. */
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
        bool current;          /* the log that is appended to */
        bool held;            /* compaction can do nothing with it until the next start */
        bool headless;        /* its header is lost, and first_batch may be one too few */
        struct survey survey; /* compact_log.c, compact_body.c */
        struct list of_class; /* logs and shared segments of the class, by id */
        struct list of_dirty;
    } owner;
};

#define SEGMENT_TABLE_TOP  4096
#define SEGMENT_TABLE_PAGE 4096
typedef _Atomic(struct segment *) segment_slot;

/* The segments of a store. */
struct segments {
    /* Any loop. */
    segment_slot *_Atomic table[SEGMENT_TABLE_TOP]; /* pages by id; see segment_pin() */
    _Atomic uint64_t
        used_bytes[STORE_CLASSES_]; /* of batches and places, not what is preallocated */

    /* Owner. */
    uint32_t next_id;
    struct list of_class[STORE_CLASSES_]; /* logs and shared segments, by id */
    struct segment
        *bodies[STORE_CLASSES_];           /* shared one that takes bodies now, or NULL */
    struct segment *spare[STORE_CLASSES_]; /* a log to be written over, or NULL; owned */
    struct rt_sem reserve;                 /* one reservation at a time */
    struct list dirty_bodies; /* cached, holding references; synced before the index */
};
struct segments *segments_new(void);
void segments_check(const struct store *d); /* asserts what holds between switches */
void segments_free(struct segments **sp);   /* NULL is fine */

void segment_check(
    const struct segment *s); /* asserts what holds between its fields; owner */

#define SEGMENT_NAME_ROOM 24
#define LOG_BYTES_LEAST   MIB(16)
#define LOG_BYTES_MOST    MIB(256)
const char *segment_kind_name(enum segment_kind kind); /* "log", "body", "one" */
void segment_name(enum segment_kind kind, uint32_t id, char out[SEGMENT_NAME_ROOM]);
bool segment_name_parse(const char *name, enum segment_kind *kind, uint32_t *id);

/* Makes a segment of `bytes` (a first step of it for one body of unknown length), header written. Logs and
 * shared ones are durable, folder included, and in the table; one for a body is not yet either. The caller owns
 * a reference. Owner loop; may switch. */
enum err segment_make(struct store *d, enum store_class class, enum segment_kind kind,
                      uint64_t first_batch, uint64_t bytes, struct segment **out,
                      struct errbuf *eb) MUST_CHECK;
/* The same for logs and shared segments: a log as large as a 32nd of what the class holds, others as large as that,
 * between `from` and `most`; smaller where
 * the disk has not that much left, but with room for `room` behind the header. A log takes the spare, if there is one.
 * Owner loop; may switch. */
enum err segment_make_shared(struct store *d, enum store_class class,
                             enum segment_kind kind, uint64_t first_batch, uint64_t from,
                             uint64_t most, uint64_t room, struct segment **out,
                             struct errbuf *eb) MUST_CHECK;
/* Bytes of the file of a segment of one body. May switch. */
enum err segment_size(struct store *d, enum store_class class, uint32_t id, uint64_t *out,
                      struct errbuf *eb) MUST_CHECK;
/* Opens one that exists and checks its header. Logs and shared ones come into the table. Owner loop; may switch. */
enum err segment_open(struct store *d, enum store_class class, enum segment_kind kind,
                      uint32_t id, struct segment **out, struct errbuf *eb) MUST_CHECK;
/* One log whose header is lost, for a caller that finds out otherwise what it is (lost_head.c): not in the table, generation and
 * first batch unknown. Then it comes into the table: `first_batch` is the one in front of the first that is known to stand in
 * it. Owner loop; the first may switch. */
enum err segment_open_headless(struct store *d, enum store_class class, uint32_t id,
                               struct segment **out, struct errbuf *eb) MUST_CHECK;
void segment_join(struct segment *s, uint32_t generation, uint64_t first_batch);
/* Takes it out of table and folder. Owner loop; may switch. */
enum err segment_remove(struct store *d, enum store_class class, enum segment_kind kind,
                        uint32_t id, struct errbuf *eb) MUST_CHECK;

/* A log in which nothing lives any more goes out of table and folder, durably, or becomes the spare of its class: its
 * header says so under the next generation, and no old batch can be read again. Takes the caller's reference. Owner loop;
 * may switch. */
enum err segment_recycle(struct store *d, struct segment **sp,
                         struct errbuf *eb) MUST_CHECK;
/* Makes the log that the class will need next, as its spare: written full of zeros, durable. What is not wanted any more
 * when it is ready (there is a spare by then, room is tight, *stop) is removed again. Owner loop; may switch. */
enum err segment_make_spare(struct store *d, enum store_class class, const bool *stop,
                            struct errbuf *eb) MUST_CHECK;
/* Unlinks the spare: for want of room, at the end. Owner loop; may switch. */
void segment_drop_spare(struct store *d, enum store_class class);
static inline bool
segment_is_spare(const struct segment *s)
{
    return s->kind == SEGMENT_LOG && s->first_batch == 0;
}

/* Unlinks a file that holds nothing yet; says so when it can't. */
void segment_discard(struct store *d, enum store_class class, const char *name);

/* One more reference on what is in the table, or NULL. Any loop. */
struct segment *segment_pin(struct store *d, uint32_t id);
struct segment *segment_ref(struct segment *s);
void segment_drop(struct segment **sp);    /* NULL is fine. Any loop. */
void segment_table_clear(struct store *d); /* at the end: there are no readers any more */

/* Reads and checks the header of a segment file. *out has id, generation and the segment's fields; the ids of
 * cluster and disk are for the caller to compare. Any loop; may switch. */
enum err segment_header_read(struct rt_file *f, struct log_record *out,
                             struct errbuf *eb) MUST_CHECK;
