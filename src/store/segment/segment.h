/* segment: the tar files of a disk: creation, names, look-up by number, pinning.
 * docs/formats.md, sections 1 and 3.
 *
 * While a disk is open, its table holds the logs and shared body segments with their open files.
 * A reader opens a segment of one body by name. segment_pin() works on any loop without a lock:
 * the owner loop empties a slot, and the table's reference is dropped once every loop has passed
 * that point.
 */
#pragma once
#include "store/core/core.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/store_entry.h"

/* What compaction found in its last full look at a segment. */
struct survey {
    bool done;
    uint64_t living;   /* bytes that it would have to move */
    uint64_t waiting;  /* of these: records that could go if no older log existed */
    int64_t indexed;   /* live bytes as the index counted then */
    uint64_t deaths;   /* bodies of the class that had become garbage by then */
    uint64_t again_ms; /* of bodies: earliest time of the next look */
};

/* A log, a shared segment, or a segment being written. A finished segment of one body has none:
 * readers open it by name. */
struct segment {
    /* Set at creation. */
    struct store *disk; /* borrowed */
    uint32_t id;
    uint32_t generation;
    enum store_class class;
    enum segment_kind kind;
    uint64_t first_batch; /* of a log */
    struct rt_file *file; /* owned */

    /* Any loop. */
    _Atomic uint32_t refs;
    _Atomic bool doomed;         /* a write or sync failed: accepts nothing more */
    _Atomic uint32_t head_guess; /* typical length of a record's head; read_file.c */

    /* Owner loop. */
    struct {
        uint64_t size; /* allocated */
        uint64_t used; /* offset of the next place or batch */
        unsigned open_places;
        struct list
            openings; /* shared bodies: places without a header yet (body_reserve.c) */
        struct rt_cond opened; /* one of them has its header */
        bool syncing;          /* shared bodies, native */
        /* Number of bodies in their last writes, by turn. Those of `sealing_turn` began after
         * the last sync began, the others before; the sync waits for the others (body_sync.c). */
        uint32_t sealing[2];
        unsigned sealing_turn;
        uint64_t syncs_begun, syncs_done;
        struct rt_cond synced; /* a sync has ended */
        uint64_t counted;      /* its share of used_bytes of the disk */
        bool dirty;            /* cached: written since the last sync */
        /* Eviction took its objects: compact it whatever it holds. */
        bool evicted;
        bool swept;           /* bodies: leftovers of a crash are punched */
        bool current;         /* the log that is appended to */
        bool held;            /* compaction cannot touch it until the next start */
        bool headless;        /* its header is lost; first_batch may be one too low */
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

    /* Owner loop. */
    uint32_t next_id;
    struct list of_class[STORE_CLASSES_];   /* logs and shared segments, by id */
    struct segment *bodies[STORE_CLASSES_]; /* shared segment for new bodies, or NULL */
    struct segment *spare[STORE_CLASSES_];  /* a log to overwrite, or NULL; owned */
    struct rt_sem reserve;                  /* one reservation at a time */
    struct list dirty_bodies; /* cached, as references; synced before the index */
};
struct segments *segments_new(void);
/* Asserts the invariants that hold between switches. */
void segments_check(const struct store *d);
void segments_free(struct segments **sp); /* NULL is fine */

void segment_check(
    const struct segment *s); /* asserts the invariants of its fields; owner loop */

#define SEGMENT_NAME_ROOM 24
#define LOG_BYTES_LEAST   MIB(16)
#define LOG_BYTES_MOST    MIB(256)
const char *segment_kind_name(enum segment_kind kind); /* "log", "body", "one" */
void segment_name(enum segment_kind kind, uint32_t id, char out[SEGMENT_NAME_ROOM]);
bool segment_name_parse(const char *name, enum segment_kind *kind, uint32_t *id);

/* Creates a segment of `bytes` (for one body of unknown length, a first allocation) and writes
 * its header. Logs and shared segments are then durable, including the folder, and in the table;
 * a segment for one body is neither yet. The caller owns a reference. Owner loop; may switch. */
enum err segment_make(struct store *d, enum store_class class, enum segment_kind kind,
                      uint64_t first_batch, uint64_t bytes, struct segment **out,
                      struct errbuf *eb) MUST_CHECK;
/* The same for logs and shared segments, with a computed size. A log has a 32nd of what the
 * class holds; others have as much, between `from` and `most`. If the disk has less left, the
 * segment is smaller, but has space for `room` after the header. A log takes the spare if there
 * is one. Owner loop; may switch. */
enum err segment_make_shared(struct store *d, enum store_class class,
                             enum segment_kind kind, uint64_t first_batch, uint64_t from,
                             uint64_t most, uint64_t room, struct segment **out,
                             struct errbuf *eb) MUST_CHECK;
/* Returns the file size of a segment of one body. May switch. */
enum err segment_size(struct store *d, enum store_class class, uint32_t id, uint64_t *out,
                      struct errbuf *eb) MUST_CHECK;
/* Opens an existing segment and checks its header. Logs and shared segments enter the table.
 * Owner loop; may switch. */
enum err segment_open(struct store *d, enum store_class class, enum segment_kind kind,
                      uint32_t id, struct segment **out, struct errbuf *eb) MUST_CHECK;
/* The two calls open a log whose header is lost, for a caller that identifies it otherwise
 * (lost_head.c). After the first, the log is not in the table, and its generation and first
 * batch are unknown. The second puts it into the table; `first_batch` is the one before the
 * first batch known to be in it. Owner loop; the first may switch. */
enum err segment_open_headless(struct store *d, enum store_class class, uint32_t id,
                               struct segment **out, struct errbuf *eb) MUST_CHECK;
void segment_join(struct segment *s, uint32_t generation, uint64_t first_batch);
/* Removes a segment from table and folder. Owner loop; may switch. */
enum err segment_remove(struct store *d, enum store_class class, enum segment_kind kind,
                        uint32_t id, struct errbuf *eb) MUST_CHECK;

/* Removes a log without live data from table and folder, durably, or makes it the spare of its
 * class. The header of a spare has the next generation, so no old batch can be read again. Takes
 * the caller's reference. Owner loop; may switch. */
enum err segment_recycle(struct store *d, struct segment **sp,
                         struct errbuf *eb) MUST_CHECK;
/* Makes the spare that the class will need as its next log: filled with zeros, durable. Removes
 * it again if it is no longer useful when ready (another spare exists, space is tight, *stop).
 * Owner loop; may switch. */
enum err segment_make_spare(struct store *d, enum store_class class, const bool *stop,
                            struct errbuf *eb) MUST_CHECK;
/* Unlinks the spare: at close, or to free space. Owner loop; may switch. */
void segment_drop_spare(struct store *d, enum store_class class);
static inline bool
segment_is_spare(const struct segment *s)
{
    return s->kind == SEGMENT_LOG && s->first_batch == 0;
}

/* Unlinks a file that holds nothing yet; logs a failure. */
void segment_discard(struct store *d, enum store_class class, const char *name);

/* Returns a new reference to a segment in the table, or NULL. Any loop. */
struct segment *segment_pin(struct store *d, uint32_t id);
struct segment *segment_ref(struct segment *s);
void segment_drop(struct segment **sp);    /* NULL is fine. Any loop. */
void segment_table_clear(struct store *d); /* at close, when no readers are left */

/* Reads and checks the header of a segment file. *out has id, generation and the segment's
 * fields. The caller compares the ids of cluster and disk. Any loop; may switch. */
enum err segment_header_read(struct rt_file *f, struct log_record *out,
                             struct errbuf *eb) MUST_CHECK;
