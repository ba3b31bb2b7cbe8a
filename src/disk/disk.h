/* disk: one disk of a node: logs, bodies, index, commit, read. docs/formats.md has every byte.
 *
 * The log is the truth, the index follows. One committer fiber (on the disk's home loop) gathers the changes
 * of all loops, judges their conditions, appends them to the log, syncs once, makes them visible and answers.
 * A change that returned ERR_OK is durable (native) or written (cached), and every later lookup on any loop
 * sees it. A change that failed after it was handed to the committer with anything but ERR_PRECONDITION,
 * ERR_NOT_FOUND, ERR_EXISTS, ERR_NO_UPLOAD is *unknown*: it may be there after a restart.
 *
 * Fibers: any loop. "May switch" is said where it does. Memory: what is borrowed must outlive the call.
 */
#pragma once
#include <stdatomic.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"
#include "rt/file.h"
#include "rt/time.h"

struct disk;
struct hot;

enum disk_class { DISK_NATIVE, DISK_CACHED, DISK_CLASSES_ };

#define DISK_KEY_MAX      1024
#define DISK_INLINE_MAX   (256u << 10) /* larger bodies go to body segments */
#define DISK_SIZE_UNKNOWN UINT64_MAX
#define DISK_PARTS_MAX    10000

/* (epoch, node, counter): minted once for each body, the same on every copy; see disk.md rule 6. */
struct content_id {
    uint8_t bytes[16];
};
struct version {
    uint64_t epoch;   /* every start of a node is a new one */
    uint64_t counter; /* within the epoch */
};

/* Content ids and versions are counted here: one for all disks of a node, owned by whoever opens them. */
struct disk_ids {
    _Atomic uint64_t counter;
};

/* When a disk is slow, and when it has to leave (health.h). 0 stands for the default in brackets. */
struct disk_limits {
    uint64_t
        errors; /* [100] places at which something fails within ... ; UINT64_MAX: no limit */
    uint64_t error_window_ms; /* [10 min] ... this: it leaves */
    uint64_t slow_factor;     /* [10] times its own usual: it is slow */
    uint64_t slow_ms;         /* [none] absolute, instead of the factor */
    uint64_t slow_leave_ms;   /* [never] slow for so long: it leaves */
    uint64_t
        stall_ms; /* [2 min] operations are there and none ends: it leaves; UINT64_MAX: never */
    uint64_t tick_ms; /* [1,000] */
};
struct disk_options {
    uint8_t cluster_id
        [16]; /* minted by the first serve, for ever; disk_open() refuses another one's disk */
    uint16_t node;  /* node number, 1 for the first */
    uint64_t epoch; /* of this start, larger than any before */
    uint64_t
        segment_bytes; /* at most, 0: 1 GiB; bodies from 16 MiB have one of their own */
    uint64_t
        cached_bytes; /* that the class cached is to take here: its logs and shared segments are a 64th of it at most, as
                         compaction writes what lives in one before it is given back; 0: no matter */
    uint64_t tail_bytes;      /* 0: 64 MiB: log beyond what the index covers, at most */
    uint64_t index_map_bytes; /* 0: 64 GiB, sparse */
    uint64_t
        index_memory_bytes; /* 0: 1 GiB: a larger index is taken not to stay in memory, and no loop touches it */
    uint64_t index_interval_ms;   /* 0: 1,000: one durable index commit an interval */
    uint64_t promise_interval_ms; /* 0: 10,000: as often, at most, promised.h writes */
    uint64_t hot_bytes;           /* the hot set; 0: none */
    uint32_t undecided_max;       /* prepared versions at a time; 0: 65,536 */
    uint64_t
        compact_bytes_s; /* 0: 64 MiB: compaction reads and writes no more, a quarter of it while others write */
    uint32_t
        compact_bodies_percent; /* 0: 10, 25 while others write: so much of a segment of many bodies is headers of dead ones
                                   before the living move */
    unsigned home_loop;
    /* The index is made anew, and what is left of the logs is believed, however little: `forebay disk rebuild`. Else a
     * disk whose index knows more than its native log says is refused. */
    bool rebuild;
    /* Now and then while a long log is read, on the home loop; NULL: none. It must not switch. */
    void (*on_replay)(void *arg, uint64_t done_bytes, uint64_t total_bytes);
    void *on_replay_arg;
    struct disk_ids *ids; /* lent; NULL: its own */
    struct hot *hot;      /* lent: the hot set of the node; NULL: one of hot_bytes */
    struct disk_limits limits;
    uint64_t scrub_rate;    /* bytes a second at most; 0: 64 MiB */
    uint64_t scrub_pass_ms; /* a pass of the scrub in so long; 0: a week */
    bool state_elsewhere;   /* a new disk: the node's state lies on another one */
};

/* Makes or opens `path`. Replays the tail of the log. On ERR_OK the caller owns *out. Only while nobody else
 * has it (flock): ERR_EXISTS. A disk of another cluster: ERR_DENIED. May switch. */
enum err disk_open(const char *path, const struct disk_options *o, struct disk **out,
                   struct errbuf *eb) MUST_CHECK;
/* Commits the index, so that the next start replays nothing. May switch. */
void disk_close(struct disk **dp);
/* What the superblock of `path` says, without locking or opening: ERR_NOT_FOUND when it is no disk. */
struct disk_identity {
    uint8_t cluster_id[16], disk_id[16];
    uint64_t epoch;      /* of its latest start */
    uint64_t generation; /* of the superblock */
    bool node_state;     /* the node's state lies here */
    bool removed;        /* disk_mark_removed() */
};
enum err disk_identify(const char *path, struct disk_identity *out,
                       struct errbuf *eb) MUST_CHECK;
/* Writes into the superblock that the disk no longer belongs to its node: whoever opens it is told so (ERR_DENIED). May
 * switch. */
enum err disk_mark_removed(struct disk *d, struct errbuf *eb) MUST_CHECK;
/* Writes there whether the node's state lies on this disk. May switch. */
enum err disk_mark_state(struct disk *d, bool holds, struct errbuf *eb) MUST_CHECK;
/* As it was opened; lives as long as the disk. */
const char *disk_path(const struct disk *d);
/* The id of an open disk. */
void disk_id(const struct disk *d, uint8_t out[16]);

/* ---- rows ---- */
enum row_flags {
    ROW_PLAIN =
        1, /* default content type, no user metadata, no checksum but CRC64NVME: the header need not be read for more */
    ROW_CACHED = 2, /* class */
    ROW_PARTS = 4,  /* layout: manifest of parts */
    ROW_DOUBT =
        8, /* cached: a write-through of unknown outcome; not to be served before revalidation */
    ROW_TOMBSTONE = 16, /* never returned by lookups */
    ROW_INLINE = 32,    /* a member of the log */
    ROW_ETAG_TEXT = 64, /* ETag is not an MD5: it stands in the metadata */
    ROW_KEPT = 8192,    /* of a tombstone: stays until disk_tombstone_end() */
    /* 128 and 4096 belong to the coding. What no lookup stores is taken from the highest bit down. */
    ROW_VERSIONED = 256,   /* written while versioning was on: has an id of its own */
    ROW_MARKER = 512,      /* with ROW_TOMBSTONE: a delete marker, which is kept */
    ROW_META_APART = 1024, /* the metadata stands in a record of its own */
    ROW_SUSPENDED = 2048,  /* the null version, written while versioning was suspended */
    /* cached: stands for an object whose bytes are kept in chunks, as objects of their own; `size` is 0, the
     * metadata says how many (`whole_bytes`) */
    ROW_CHUNKS = 16384,
};
/* What the index knows of an object; plain data, copied out. */
struct row {
    uint32_t flags;
    uint32_t parts; /* of the ETag "-N"; 0 for a single PUT */
    struct version version;
    struct content_id content;
    uint64_t size;
    int64_t mtime_ms;
    uint16_t
        disk; /* never stored: which one of the node this was found on; set by `disks` */
    uint32_t segment; /* place: opaque outside the disk room */
    uint64_t offset;
    uint8_t md5[16];
    uint32_t
        overwrites; /* how often the key was written before: AIS's version, less one */
    /* S3's version id: the version it was written with. `version` rises with later changes of its metadata, or when
     * it becomes the current one again. Zero: the same as `version`; row_born() knows. */
    struct version born;
    uint32_t meta_segment; /* ROW_META_APART: place of the record */
    uint64_t meta_offset;
};
/* In row.flags of a look-up, never stored: a version of this key is prepared here and nobody has said yet whether it
 * is decided (see "copies"). */
#define ROW_UNDECIDED (1u << 31)

static inline struct version
row_born(const struct row *row)
{
    return row->born.epoch != 0 || row->born.counter != 0 ? row->born : row->version;
}
/* The version S3 calls "null": written before versioning was on, or while it was suspended. */
static inline bool
row_is_null_version(const struct row *row)
{
    return (row->flags & ROW_VERSIONED) == 0;
}

/* Everything else about an object: one record, in the member's pax header. Spans are borrowed from the caller
 * (writing) or lie in the arena (reading). */
struct object_pair {
    struct span name, value;
};
struct object_meta {
    int64_t mtime_ms;
    struct span content_type; /* empty: the default, binary/octet-stream */
    struct span cache_control, content_disposition, content_encoding, content_language,
        expires;
    const struct object_pair
        *user; /* x-amz-meta-NAME without the prefix, lower case; values raw bytes */
    uint32_t user_count;
    uint8_t md5[16];
    uint32_t parts; /* 0, or N of a multipart ETag */
    struct span
        etag_text; /* cached: the backend's ETag where it is not MD5-shaped; else empty */
    struct span backend_version; /* cached: version id at the backend, may be empty */
    uint8_t checksum_algorithm;  /* wire/checksum.h; 0: none */
    uint8_t checksum_type;       /* wire/checksum.h */
    struct span checksum;        /* binary */
    struct span storage_class;   /* empty: STANDARD */
    struct span tags; /* of the object: "a=b&c=d", percent-encoded; empty: none */
    /* What the write does to what was there before, as the bucket's versioning says. */
    uint8_t versioning; /* enum disk_versioning */
    /* cached, ROW_CHUNKS: of an object that is kept in chunks of `chunk_bytes`; else 0 */
    uint64_t whole_bytes;
    uint32_t chunk_bytes;
};
enum disk_versioning { DISK_UNVERSIONED, DISK_VERSIONED, DISK_SUSPENDED };

/* Copies everything that hangs off `from` into the arena; `from` and `to` may be the same. */
void meta_copy(struct arena *a, const struct object_meta *from, struct object_meta *to);
/* More than 8 KiB of fields are refused when they come in: ERR_BAD_REQUEST. */
enum err meta_check(const struct object_meta *meta, struct errbuf *eb) MUST_CHECK;

struct disk_key {
    uint64_t bucket; /* id, never reused */
    struct span
        birth_name; /* the bucket's name at birth: stands in the member, names it in tar */
    struct span key; /* 1 to 1,024 bytes */
};

/* Finds the current row of a key: tail first, then the index. ERR_NOT_FOUND. Switches only while the index is
 * not resident, or while versions are undecided here: where one is of this key, out->flags has ROW_UNDECIDED, with
 * ERR_NOT_FOUND too (all else is zero then). */
enum err disk_lookup(struct disk *d, const struct disk_key *k, struct row *out,
                     struct errbuf *eb) MUST_CHECK;
/* The same, but a kept tombstone is a row (ROW_TOMBSTONE | ROW_KEPT, version, mtime_ms). */
enum err disk_lookup_any(struct disk *d, const struct disk_key *k, struct row *out,
                         struct errbuf *eb) MUST_CHECK;
/* Metadata of a row, from the member's header, verified; not needed when ROW_PLAIN, but for the checksum. May switch. */
enum err disk_meta(struct disk *d, const struct disk_key *k, const struct row *row,
                   struct arena *a, struct object_meta *out,
                   struct errbuf *eb) MUST_CHECK;

/* The parts of an object that came in parts (ROW_PARTS), in its order. ERR_NOT_FOUND: the row is no longer current. May
 * switch. */
struct disk_object_part {
    uint32_t number;
    uint64_t offset, size;
    struct content_id content;
    uint8_t md5[16];
    uint8_t checksum_algorithm; /* 0: none is known */
    struct span checksum;       /* binary, in the arena */
};
enum err disk_object_parts(struct disk *d, const struct row *row, struct arena *a,
                           struct disk_object_part **out, uint32_t *count,
                           struct errbuf *eb) MUST_CHECK;

/* ---- reading ---- */
struct disk_reader;
/* Pins what the row names, so that it is not reused while read. One fiber begins, reads and ends: what follows is read
 * ahead by a child of it. ERR_NOT_FOUND: the row is no longer current, look up again. May switch. */
enum err disk_read_begin(struct disk *d, const struct disk_key *k, const struct row *row,
                         uint64_t offset, uint64_t len, struct disk_reader **out,
                         struct errbuf *eb) MUST_CHECK;
/* The next verified piece, at most 1 MiB (256 KiB typical), valid until the next call; len 0 at the end.
 * A block whose sum is wrong: ERR_CORRUPT, nothing of that piece is given. May switch unless hot. */
enum err disk_read_next(struct disk_reader *r, struct deadline by, struct span *piece,
                        struct errbuf *eb) MUST_CHECK;
/* What follows the piece that was given last and is in memory like it: up to `max` further pieces, valid as long. None where
 * any of that has to be read. Once after each disk_read_next(). Never switches. */
#define DISK_MORE 3u
unsigned disk_read_more(struct disk_reader *r, struct span *pieces, unsigned max);
/* Was the piece that was given last in memory? */
bool disk_read_was_hot(const struct disk_reader *r);
void disk_read_end(struct disk_reader **rp); /* NULL is fine */

/* ---- once more ----
 * An object of up to 1 MiB that was just served whole from the hot set can be served again without looking for it. What is
 * remembered is plain data, for the same loop and while the disk is open. Nothing switches. */
struct disk_again {
    struct content_id content;
    uint32_t hash, stamp; /* of the row */
    uint32_t entry, len;  /* of its first piece, in the hot set; of all of it */
    const char *at; /* where that was: only to be asked for, it may be another's now */
};
/* While the reader's first piece is at hand, of all of the object. False: it is not such an object. */
bool disk_again_keep(struct disk *d, const struct disk_key *k,
                     const struct disk_reader *r, struct disk_again *out);
/* Asks for the memory that disk_again_begin() looks at. */
void disk_again_ahead(struct disk *d, const struct disk_again *a);
/* False: the row has changed since, or the bytes are no longer in memory: look it up. True: the pieces stay until
 * disk_again_end(), over switches too. */
struct disk_held {
    struct span pieces[1 + DISK_MORE];
    uint32_t entries[1 + DISK_MORE];
    unsigned count;
    uint32_t front;  /* so many bytes before the first piece may be written over */
    struct hot *hot; /* which outlives the disk where it was lent to it */
};
bool disk_again_begin(struct disk *d, const struct disk_again *a, struct disk_held *out);
void disk_again_end(struct disk_held *held); /* twice is fine */

/* ---- without a fiber ----
 * A small object of a log, looked up and read while nobody waits. Nothing switches. */
struct disk_once {
    /* Given. Called once, outside any fiber. `good`: row and bytes are there, verified, until disk_once_end(). Otherwise
     * something was not as expected: only the long way tells what, and does what is to be done. */
    void (*on_done)(struct disk_once *o, bool good);
    uint16_t slot; /* what row.disk is to say */
    struct row row;
    struct span bytes;
    /* The disk's own. */
    struct disk *disk;
    struct segment *log;
    struct iobuf *buf;
    struct rt_reading reading;
    uint64_t bucket, from, len;
    struct span key;
    uint32_t looks; /* pages of the index that were waited for */
    uint64_t page;  /* the last one of them */
    bool hot;       /* this read makes it so */
};
/* True: begun. The struct and what `k` borrows stay until on_done and disk_once_end(). False: nothing has happened, and this
 * is for the long way: another kind of object, one that is in memory. */
bool disk_once_begin(struct disk *d, const struct disk_key *k, struct disk_once *o);
void disk_once_end(struct disk_once *o);
/* Instead of waiting for on_done any longer: nobody wants the answer. disk_once_end() follows. */
void disk_once_abandon(struct disk_once *o);

/* ---- writing ---- */
struct disk_writer;
/* Reserves a place for `size` bytes, or for a body of unknown length up to 5 GiB. ERR_NO_SPACE before the first
 * byte. On error *out is NULL. May switch. */
enum err disk_write_begin(struct disk *d, const struct disk_key *k, enum disk_class class,
                          uint64_t size, struct disk_writer **out,
                          struct errbuf *eb) MUST_CHECK;
/* Copies; backpressure by switching. */
enum err disk_write(struct disk_writer *w, const void *data, size_t len,
                    struct errbuf *eb) MUST_CHECK;
/* The same without the copy: *at is where the next bytes go, and so many at most; 0: the buffer is full, or the body is. What
 * came there is told by disk_write_filled(); from then on some of it may be on its way to the disk. disk_write_flush() is for a
 * full buffer and for a whole body of more than DISK_INLINE_MAX (of a smaller one nothing happens): what is in memory goes to
 * the disk, and stays where it is until more comes. *at is NULL where a body is lent or there is no buffer: disk_write() tells
 * which. May switch. */
size_t disk_write_room(struct disk_writer *w, void **at);
void disk_write_filled(struct disk_writer *w, size_t len);
enum err disk_write_flush(struct disk_writer *w, struct errbuf *eb) MUST_CHECK;
uint64_t disk_written(const struct disk_writer *w);
/* A body of at most DISK_INLINE_MAX of which nothing has come yet, whole: not copied, but lent by the caller until the writer is
 * committed or aborted. */
void disk_write_lend(struct disk_writer *w, struct span body);
/* Bytes of an uncommitted writer that are in memory or on disk already, for waiters of a cold GET. May switch. */
enum err disk_write_peek(struct disk_writer *w, uint64_t offset, void *buf, size_t len,
                         size_t *n, struct errbuf *eb) MUST_CHECK;
void disk_write_abort(struct disk_writer **wp); /* NULL is fine. May switch. */

/* Conditions are judged by the committer, in one step with publishing. */
struct disk_condition {
    bool if_absent; /* no current object: else ERR_PRECONDITION */
    bool
        if_content; /* the current content id is this, else ERR_PRECONDITION / NOT_FOUND */
    struct content_id content;
    bool
        if_version; /* the current version is this one, or there is none and version is zero */
    struct version version;
    /* S3's: there must be an object (ERR_NOT_FOUND), and it has one of these ETags, this size, was modified in this
     * second (ERR_PRECONDITION). ETags that are no MD5 match none: only backends give them. */
    bool if_exists;
    const struct disk_etag *etags;
    uint32_t etag_count; /* 0: any */
    bool if_size, if_mtime;
    uint64_t size;
    int64_t mtime_s;
    bool
        or_absent; /* ETag, size and time need not hold where there is no object (DELETE) */
};
struct disk_etag {
    uint8_t md5[16];
    uint32_t parts; /* N of "-N", else 0 */
};
/* What the committer would say of a change of the version in `row`: ERR_OK, ERR_NOT_FOUND or ERR_PRECONDITION. NULL: no
 * condition. Of what a version is born with (all but its own version) it says the same as long as the version is there. */
enum err disk_condition_judge(const struct disk_condition *c, const struct row *row,
                              struct errbuf *eb) MUST_CHECK;
/* Takes the writer: *wp is NULL afterwards, whatever the result. `meta->md5` etc. are final. May switch. */
enum err disk_commit(struct disk_writer **wp, const struct object_meta *meta,
                     const struct disk_condition *c, struct row *out,
                     struct errbuf *eb) MUST_CHECK;
/* ERR_OK with *existed false when there was nothing: nothing is written then. A cached class delete is synced
 * too (disk.md rule 4). May switch. For a bucket with versioning: disk_delete_mark(). */
enum err disk_delete(struct disk *d, const struct disk_key *k, enum disk_class class,
                     const struct disk_condition *c, bool *existed,
                     struct errbuf *eb) MUST_CHECK;
/* Leaves a delete marker as the current version; `versioning` says what becomes of what was there. *marker is its row.
 * `as` (here and below): the version that another disk of the node has decided; NULL: this one decides. With it a
 * *marker that is one (ROW_MARKER) gives time and id, and takes its place among what is here. May switch. */
enum err disk_delete_mark(struct disk *d, const struct disk_key *k,
                          enum disk_versioning versioning, const struct disk_condition *c,
                          const struct version *as, struct row *marker,
                          struct errbuf *eb) MUST_CHECK;
/* Cached: marks the key in doubt, synced, before a write-through goes to the backend; ends by disk_commit,
 * disk_delete or disk_doubt_clear (outcome known: unchanged). A key without a row can be in doubt too: then
 * disk_lookup gives a row with ROW_DOUBT and size 0. */
enum err disk_doubt(struct disk *d, const struct disk_key *k,
                    struct errbuf *eb) MUST_CHECK;
enum err disk_doubt_clear(struct disk *d, const struct disk_key *k,
                          struct errbuf *eb) MUST_CHECK;

/* ---- listing ---- */
struct disk_entry {
    struct span key; /* in the arena */
    struct row row;
};
/* Up to `max` rows of a bucket with key > after (or >= from, when `inclusive`) in byte order, living ones only
 * (tail merged with the index). Goes page by page: nothing is held between calls. *more says whether another
 * may follow. May switch. */
enum err disk_list(struct disk *d, uint64_t bucket, struct span after, bool inclusive,
                   uint32_t max, struct arena *a, struct disk_entry **out,
                   uint32_t *count, bool *more, struct errbuf *eb) MUST_CHECK;

/* The same with kept tombstones. */
enum err disk_list_any(struct disk *d, uint64_t bucket, struct span after, bool inclusive,
                       uint32_t max, struct arena *a, struct disk_entry **out,
                       uint32_t *count, bool *more, struct errbuf *eb) MUST_CHECK;

/* ---- versions (S3's; a bucket that never had them on has none of this) ---- */
/* A version by its id; a null pointer: the null version. Delete markers are found too (ROW_MARKER). *current says whether
 * it is the current one. ERR_NOT_FOUND. May switch. */
enum err disk_version_find(struct disk *d, const struct disk_key *k,
                           const struct version *born, struct row *out, bool *current,
                           struct errbuf *eb) MUST_CHECK;
/* Ends one version for ever; where it was the current one, the newest of the others becomes that. *was and
 * *decided (they may be NULL) are what it was, and the version of this change. ERR_NOT_FOUND: there is none. May switch. */
enum err disk_version_delete(struct disk *d, const struct disk_key *k,
                             const struct version *born, const struct disk_condition *c,
                             const struct version *as, struct row *was,
                             struct version *decided, struct errbuf *eb) MUST_CHECK;
struct disk_version {
    struct span key; /* in the arena */
    struct row row;  /* ROW_MARKER: a delete marker */
    bool latest;
};
/* All versions by key, the newest of each first, from behind (after_key, *after), or with `after` NULL from the key
 * behind after_key (at it, when inclusive). May switch. */
enum err disk_version_list(struct disk *d, uint64_t bucket, struct span after_key,
                           bool inclusive, const struct version *after, uint32_t max,
                           struct arena *a, struct disk_version **out, uint32_t *count,
                           bool *more, struct errbuf *eb) MUST_CHECK;
/* Other metadata for the same content: the version keeps its id, `version` of the row rises. Class native only. `born`
 * NULL: the current object; else the version of that id, whichever it is (the null version: its own id, as
 * disk_version_find() tells). ERR_NOT_FOUND: there is no such object. May switch. */
enum err disk_set_meta(struct disk *d, const struct disk_key *k,
                       const struct version *born, const struct object_meta *meta,
                       const struct disk_condition *c, const struct version *as,
                       struct row *out, struct errbuf *eb) MUST_CHECK;

/* ---- multipart ---- */
struct upload_id {
    struct content_id id;
};
enum err disk_upload_begin(struct disk *d, const struct disk_key *k,
                           enum disk_class class, const struct object_meta *meta,
                           struct upload_id *out, struct errbuf *eb) MUST_CHECK;
/* A part is a body: its writer comes from here, ends by disk_part_commit. The same number again replaces. */
enum err disk_part_begin(struct disk *d, const struct disk_key *k,
                         const struct upload_id *u, uint32_t number, uint64_t size,
                         struct disk_writer **out, struct errbuf *eb) MUST_CHECK;
enum err disk_part_commit(struct disk_writer **wp, const struct object_meta *meta,
                          struct errbuf *eb) MUST_CHECK;
struct disk_part {
    uint32_t number;
    uint64_t size;
    uint8_t md5[16];
    int64_t mtime_ms;
    struct content_id content;
    uint8_t checksum_algorithm;
    struct span checksum; /* in the arena */
};
enum err disk_part_list(struct disk *d, const struct disk_key *k,
                        const struct upload_id *u, uint32_t after, uint32_t max,
                        struct arena *a, struct disk_part **out, uint32_t *count,
                        bool *more, struct errbuf *eb) MUST_CHECK; /* ERR_NO_UPLOAD */
/* Where a part lies now, for disk_read_begin(): it may be moved until that has opened it. ERR_NO_UPLOAD: none of this number,
 * or no such upload. */
enum err disk_part_find(struct disk *d, const struct disk_key *k,
                        const struct upload_id *u, uint32_t number, struct row *out,
                        struct errbuf *eb) MUST_CHECK;
/* Meta as given at begin. */
enum err disk_upload_meta(struct disk *d, const struct disk_key *k,
                          const struct upload_id *u, struct arena *a,
                          struct object_meta *out, struct errbuf *eb) MUST_CHECK;
/* One record, one row. The parts named (ascending) become the object, the others are given up. Remembered for
 * 7 days: a repeat with the same upload id answers the same row. */
enum err disk_upload_complete(struct disk *d, const struct disk_key *k,
                              const struct upload_id *u, const struct disk_part *parts,
                              uint32_t count, const struct object_meta *meta,
                              const struct disk_condition *c, struct row *out,
                              struct errbuf *eb) MUST_CHECK;
enum err disk_upload_abort(struct disk *d, const struct disk_key *k,
                           const struct upload_id *u, struct errbuf *eb) MUST_CHECK;
struct disk_upload {
    struct span key; /* in the arena */
    struct upload_id id;
    int64_t begun_ms;
};
/* Uploads in progress of a bucket, by key, then time of begin. */
enum err disk_upload_list(struct disk *d, uint64_t bucket, struct span after_key,
                          const struct upload_id *after_id, uint32_t max, struct arena *a,
                          struct disk_upload **out, uint32_t *count, bool *more,
                          struct errbuf *eb) MUST_CHECK;

/* ---- copies: what a layer above needs to keep an object on several disks of a node ----
 *
 * A write with copies: the body goes to all disks under one content id; disk_prepare() on the copies, durable but seen
 * by nobody; disk_commit() on the owner, which judges conditions and gives the version; disk_decide() on the copies;
 * then the reply. Where the owner refused, disk_give_up(). After a crash the owner's row tells the outcome of what
 * disk_undecided() lists: it has that content: decide, with its version; it has not: give up (it was never
 * committed, or something newer has replaced it). Only the class native has copies.
 *
 * All calls: any loop, may switch. */

/* An id of this disk's (or its node's) counter: for an upload that begins on several disks. */
struct content_id disk_mint(struct disk *d);
const struct content_id *disk_writer_content(
    const struct disk_writer *w); /* the writer's */
/* disk_write_begin() for a body whose content id is given: what another disk of the node holds or will hold. */
enum err disk_write_begin_as(struct disk *d, const struct disk_key *k, uint64_t size,
                             const struct content_id *content, struct disk_writer **out,
                             struct errbuf *eb) MUST_CHECK;

/* Takes the writer: *wp is NULL afterwards, whatever the result. On ERR_OK the body is durable on this disk, and stays
 * through restarts, unseen, until disk_decide() or disk_give_up(). ERR_BUSY: too many are undecided (disk_options.
 * undecided_max). ERR_EXISTS: this content is prepared, or decided, already. Another error: unknown, as with
 * disk_commit(); say disk_give_up(). */
enum err disk_prepare(struct disk_writer **wp, const struct object_meta *meta,
                      struct errbuf *eb) MUST_CHECK;
/* The prepared body becomes the key's row, version `v`, unless a newer row or tombstone is here: then it is dropped.
 * Seen by every look-up that begins later, but not synced: after a crash it may be undecided again. The same again is
 * ERR_OK. ERR_NOT_FOUND: nothing is prepared under this content and the key is at an older version: this copy is
 * lost, to be repaired. */
enum err disk_decide(struct disk *d, const struct disk_key *k,
                     const struct content_id *content, const struct version *v,
                     struct errbuf *eb) MUST_CHECK;
/* Drops what was prepared; ERR_OK too where nothing is. Not synced. ERR_PRECONDITION: it is decided, the key's
 * current row has this content. */
enum err disk_give_up(struct disk *d, const struct disk_key *k,
                      const struct content_id *content, struct errbuf *eb) MUST_CHECK;

struct disk_undecided {
    uint64_t bucket;
    struct span key; /* in the arena */
    struct content_id content;
    /* Given when it was prepared: later than all that was decided here before. Where the owner is gone for good,
     * deciding with it, in its order, keeps what was acknowledged. */
    struct version prepared;
    uint64_t size;
    int64_t mtime_ms;
    struct upload_id upload; /* zero, or the upload that was to be completed */
};
/* What is prepared and undecided, by content id, those after `after` (NULL: from the first). After a start these are
 * leftovers; while writes go on, also those under way. */
enum err disk_undecided(struct disk *d, const struct content_id *after, uint32_t max,
                        struct arena *a, struct disk_undecided **out, uint32_t *count,
                        bool *more, struct errbuf *eb) MUST_CHECK;

/* The same version, whole, written to this disk: repair, drain, rebalance, more copies. Takes the writer (of
 * disk_write_begin_as() with the row's content). Durable; becomes current, also in place of the same version (which
 * was damaged, or is moved). `row` gives the version; all else is as written. ERR_PRECONDITION: a newer row or
 * tombstone is here; nothing was changed. Versions of a key only rise: whoever has ended a tombstone brings nothing
 * back that is older. */
enum err disk_commit_copy(struct disk_writer **wp, const struct object_meta *meta,
                          const struct row *row, struct errbuf *eb) MUST_CHECK;
/* The same for an object that came in parts (ROW_PARTS): disk_copy_begin() on the disk it comes to, then
 * disk_part_begin_as() for each of its parts (disk_object_parts(), disk_read_begin() at its offset), then
 * disk_copy_complete(). The upload has the row's content id, so that a copy goes on where it was left: ERR_EXISTS, *out
 * is set, disk_part_list() says what is there. disk_upload_list() does not show it, disk_copy_list() does: after a start,
 * to go on with or to end by disk_upload_abort(). */
enum err disk_copy_begin(struct disk *d, const struct disk_key *k, const struct row *row,
                         struct upload_id *out, struct errbuf *eb) MUST_CHECK;
enum err disk_copy_complete(struct disk *d, const struct disk_key *k,
                            const struct upload_id *u, const struct disk_part *parts,
                            uint32_t count, const struct object_meta *meta,
                            const struct row *row, struct errbuf *eb) MUST_CHECK;
enum err disk_copy_list(struct disk *d, uint64_t bucket, struct span after_key,
                        const struct upload_id *after_id, uint32_t max, struct arena *a,
                        struct disk_upload **out, uint32_t *count, bool *more,
                        struct errbuf *eb) MUST_CHECK;
/* Takes this disk's copy away without saying that the object is deleted: drain, rebalance, fewer copies. Durable. Only
 * while the row is this version: else ERR_PRECONDITION; ERR_NOT_FOUND where there is none. */
enum err disk_forget(struct disk *d, const struct disk_key *k, const struct version *v,
                     struct errbuf *eb) MUST_CHECK;

/* disk_delete() for keys that other disks may hold too. */
struct disk_delete_options {
    const struct disk_condition *condition; /* NULL: none */
    const struct version
        *version; /* as the owner decided; NULL: this disk is the owner */
    bool
        keep_tombstone; /* it stays, and refuses older copies, until disk_tombstone_end() */
    bool always;        /* keep_tombstone: also where this disk has nothing of the key */
    int64_t now_ms;     /* becomes the tombstone's mtime_ms */
};
struct disk_deleted {
    bool existed;           /* an object was here */
    struct version version; /* of the delete; zero where nothing was written */
};
/* Durable. With a version that is older than the row's nothing is written, and that is ERR_OK. */
enum err disk_delete_with(struct disk *d, const struct disk_key *k,
                          const struct disk_delete_options *o, struct disk_deleted *out,
                          struct errbuf *eb) MUST_CHECK;
/* All who could hold an older version have heard of it, or left for good: the kept tombstone `v` goes. ERR_OK where
 * there is none, or another. Not synced: after a crash it may be there again. */
enum err disk_tombstone_end(struct disk *d, const struct disk_key *k,
                            const struct version *v, struct errbuf *eb) MUST_CHECK;

/* Uploads on several disks: one id, the parts' content ids the same; written, listed and ended as others. ERR_EXISTS:
 * the upload is here already. */
enum err disk_upload_begin_as(struct disk *d, const struct disk_key *k,
                              const struct object_meta *meta, const struct upload_id *u,
                              struct errbuf *eb) MUST_CHECK;
enum err disk_part_begin_as(struct disk *d, const struct disk_key *k,
                            const struct upload_id *u, uint32_t number, uint64_t size,
                            const struct content_id *content, struct disk_writer **out,
                            struct errbuf *eb) MUST_CHECK;
/* disk_upload_complete(), but prepared, under the content id that the owner's row gets by disk_upload_complete_as().
 * Until it is decided or given up no part of this upload can be replaced, and it can't be aborted or prepared again
 * (ERR_BUSY). disk_decide() ends the upload. */
enum err disk_upload_prepare(struct disk *d, const struct disk_key *k,
                             const struct upload_id *u, const struct disk_part *parts,
                             uint32_t count, const struct content_id *content,
                             const struct object_meta *meta,
                             struct errbuf *eb) MUST_CHECK;
/* disk_upload_complete() with a content id that was minted before. A repeat answers the row of the first one: where
 * out->content is not `content`, what was prepared under it is to be given up. */
enum err disk_upload_complete_as(struct disk *d, const struct disk_key *k,
                                 const struct upload_id *u, const struct disk_part *parts,
                                 uint32_t count, const struct content_id *content,
                                 const struct object_meta *meta,
                                 const struct disk_condition *c, struct row *out,
                                 struct errbuf *eb) MUST_CHECK;

/* ---- the rest ---- */
/* Is there any object or upload in the bucket? */
enum err disk_bucket_empty(struct disk *d, uint64_t bucket, bool *empty,
                           struct errbuf *eb) MUST_CHECK;
/* Bucket records also stand in the logs (decision D6). */
enum err disk_bucket_note(struct disk *d, uint64_t bucket, struct span record,
                          struct errbuf *eb) MUST_CHECK;
/* Waits until everything that was handed over is in the index: for tests and for clean shutdown. */
enum err disk_settle(struct disk *d, struct errbuf *eb) MUST_CHECK;
struct disk_stat {
    uint64_t total_bytes, free_bytes; /* of the file system */
    uint64_t filesystem;              /* which one; 0: not known */
    /* Of groups and bodies in segments, dead ones included; not what is allocated ahead. */
    uint64_t native_bytes, cached_bytes;
    /* Of both classes, as of the last change that is visible. */
    uint64_t objects, older;         /* living ones; older versions */
    uint64_t open_parts, open_bytes; /* of uploads in progress */
    uint64_t tail_bytes, hot_bytes;
    uint64_t undecided; /* versions that are prepared here */
    /* Does the index say what was written last? What a start has not read as a whole is read behind it. */
    enum disk_index { DISK_INDEX_UNPROVEN, DISK_INDEX_PROVEN, DISK_INDEX_DAMAGED } index;
    unsigned index_percent; /* of that reading */
};
/* Asks the file system: may switch. */
void disk_stat(const struct disk *d, struct disk_stat *out);
/* cached_bytes alone. Any loop; does not wait. */
uint64_t disk_cached_bytes(const struct disk *d);

/* ---- space ---- */
struct disk_space {
    uint64_t total_bytes, free_bytes; /* of the file system, a second old */
    uint64_t reserve_bytes; /* kept, so that a full disk can delete and compact */
    bool full;              /* no object comes in: ERR_NO_SPACE */
    /* Of groups and bodies: what lives in them, headers included, some seconds old; the rest is reclaimed by and by. */
    uint64_t living_bytes[DISK_CLASSES_], dead_bytes[DISK_CLASSES_];
    uint64_t ahead_bytes; /* allocated for what comes next */
    /* Since it was opened: appended for users and by compaction (write amplification is their sum over the first), and
     * given back by unlinking, punching, compacting. */
    uint64_t user_bytes, moved_bytes;
    uint64_t unlinked_bytes, punched_bytes, compacted_bytes;
};
/* Any loop, no lock. */
void disk_space(const struct disk *d, struct disk_space *out);
/* What a bucket holds, as of the last change that is visible: living objects (one of parts is one), its older versions, or the
 * parts of its uploads in progress; and their bytes. Any loop; does not wait. */
enum disk_usage { DISK_USAGE_LIVE, DISK_USAGE_OLDER, DISK_USAGE_OPEN };
void disk_bucket_usage(const struct disk *d, uint64_t bucket, enum disk_usage which,
                       uint64_t *objects, uint64_t *bytes);
/* Compacts and punches until nothing is worth it, without waiting for quiet: tests and tools. May switch. */
enum err disk_compact(struct disk *d, struct errbuf *eb) MUST_CHECK;

/* Where an object lies, for people's eyes. */
struct disk_where {
    const char *kind; /* of the segment: "log", "body", "one" */
    uint32_t segment;
    uint64_t offset;         /* of its member */
    int64_t segment_made_ms; /* the object came later */
    uint64_t living;         /* bytes of the segment, as far as the index covers */
    uint32_t heat; /* class cached: sixteenths of a read of each of them, lately */
};
/* Of a row that is current. ERR_NOT_FOUND: it no longer is. May switch. */
enum err disk_where(struct disk *d, const struct row *row, struct disk_where *out,
                    struct errbuf *eb) MUST_CHECK;

/* ---- eviction: objects of the class cached, which can be fetched again (evict.h) ---- */
/* An object of the class was read so many times. Any loop, no lock, nothing switches. */
void disk_heat_add(struct disk *d, const struct row *row, uint32_t reads);
/* Reads of the window before the last are forgotten. One caller at a time. */
void disk_heat_rotate(struct disk *d);
/* The first bucket with a number >= from that the index ever had a key of. ERR_NOT_FOUND. May switch. */
enum err disk_next_bucket(struct disk *d, uint64_t from, uint64_t *out,
                          struct errbuf *eb) MUST_CHECK;
struct disk_candidate {
    uint64_t bucket;
    struct span key;
    const struct row *row;
    uint32_t heat; /* of its segment */
};
struct disk_evict_options {
    uint64_t target; /* bytes of the class that may go on living */
    uint64_t want;   /* so many are to go at least */
    /* True: this one stays. On the home loop, must not switch. NULL: none stays. */
    bool (*keep)(void *arg, const struct disk_candidate *c);
    void *arg;
};
struct disk_evicted {
    uint64_t living; /* bytes of the class, headers included, afterwards */
    uint64_t objects, bytes, kept, segments;
    uint32_t coldest;   /* heat of the segment that would be next: sixteenths of a read */
    uint64_t reclaimed; /* bytes given back since the disk was opened, of all classes */
};
/* Evicts the coldest segments until both hold, or there is nothing more that may go. Durable. May switch. */
enum err disk_evict(struct disk *d, const struct disk_evict_options *o,
                    struct disk_evicted *out, struct errbuf *eb) MUST_CHECK;

/* ---- health ---- */
enum disk_state {
    DISK_OK,
    DISK_SLOW, /* ten times its own usual */
    DISK_READ_ONLY, /* until the next start: a sync or the log failed, or the file system takes no writes */
    DISK_FAILED, /* until the next start: has left; everything is ERR_IO at once */
};
const char *disk_state_name(enum disk_state s); /* "ok", "slow", "read-only", "failed" */
struct disk_health {
    enum disk_state state;
    uint64_t read_errors, write_errors, sync_errors,
        name_errors;         /* since it was opened */
    uint64_t corrupt_blocks; /* sums that were wrong when read: no reason to leave */
    uint64_t slow_ops, index_faults;
    char why[128]; /* empty while it is well */
};
/* Any thread. */
void disk_health(const struct disk *d, struct disk_health *out);
/* The same in one load: has it left? */
bool disk_has_left(const struct disk *d);
/* False from the moment on at which a write of unknown outcome is answered: until the next start nobody can tell this disk
 * anything, and what it says of itself may not be all that it has. */
bool disk_takes_writes(const struct disk *d);

/* ---- scrub ---- */
struct disk_scrub_pass {
    uint64_t number;             /* the first is 1; 0: none yet */
    uint64_t began_ms, ended_ms; /* ended 0: under way */
    uint64_t objects, parts, bytes;
    uint64_t findings, repaired;
};
enum disk_outcome {
    FINDING_OPEN,     /* there is no other copy, or it could not be brought here */
    FINDING_REPAIRED, /* from another copy */
    FINDING_DROPPED,  /* cached: the next read fetches it anew */
};
struct disk_finding {
    uint64_t pass;
    int64_t found_ms;
    uint64_t bucket;
    uint32_t part;  /* number, 0: none */
    uint64_t block; /* the first wrong one */
    enum disk_outcome outcome;
    char what[64]; /* "a block", "the header", ... */
    char key[DISK_KEY_MAX];
    size_t key_len;
};
#define DISK_FINDINGS_MAX 256u /* the newest; those beyond are counted only */
struct disk_scrub_status {
    bool running;                      /* or about to: it was asked for */
    bool asked;                        /* for this pass: it goes at the full rate */
    uint64_t total_bytes;              /* what a pass reads, about */
    uint64_t rate;                     /* bytes a second at most, now */
    int64_t next_ms;                   /* when the next pass begins by itself */
    struct disk_scrub_pass pass, last; /* the one under way or ended; the one before */
    const struct disk_finding
        *findings; /* in the arena, newest first: of the last two passes */
    uint32_t count;
};
/* Any loop. Both may switch. */
enum err disk_scrub_status(struct disk *d, struct arena *a, struct disk_scrub_status *out,
                           struct errbuf *eb) MUST_CHECK;
/* Begins a pass now, from the start, at the full rate. */
enum err disk_scrub_start(struct disk *d, struct errbuf *eb) MUST_CHECK;
/* Repairs a damaged native version from another copy. On the home loop; may switch. ERR_NOT_FOUND: there is none. */
typedef enum err disk_repair_fn(void *arg, const struct disk_key *k,
                                const struct row *row, struct errbuf *eb);
void disk_on_damage(struct disk *d, disk_repair_fn *fn,
                    void *arg); /* before it is served; NULL: none */

/* ---- check ---- */
struct disk_checked {
    uint64_t records; /* of logs */
    uint64_t objects,
        parts; /* living ones, read as a GET would read them; parts of open uploads */
    uint64_t bytes;         /* of these */
    uint64_t faults, notes; /* sentences of either kind */
};
/* Reads everything of a disk that nobody serves, and changes nothing on it: superblock, every record, every living
 * byte, the index against the logs (rebuilt for it in a new folder under `scratch`, which is removed again). Says
 * each finding in a sentence; a note is odd but harmless. ERR_OK also where there are faults; ERR_EXISTS: the disk is
 * served; ERR_NOT_FOUND: no disk. Any loop. May switch. */
enum err disk_check(const char *path, const char *scratch,
                    void (*say)(void *arg, bool fault, const char *sentence), void *arg,
                    struct disk_checked *out, struct errbuf *eb) MUST_CHECK;
