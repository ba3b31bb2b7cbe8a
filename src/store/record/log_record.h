/* record: the header of one record of a segment: a record inside a tar header, built and read back.
 * docs/formats.md, sections 3 and 4. Pure functions: any thread.
 *
 * Spans of a struct that is written are borrowed from the caller; of one that was read they lie in the window.
 */
#pragma once
#include "base/buf.h"
#include "store/record/format.h"
#include "store/store_entry.h"
#include "store/store_upload.h"
#include "wire/record.h"
#include <assert.h>

/* X(number, id, name in tar and in messages) */
#define LOG_RECORD_KINDS(X)                                                              \
    X(1, SEGMENT_HEADER, "segment")                                                      \
    X(2, PUT, "put")                                                                     \
    X(3, COMMIT, "commit")                                                               \
    X(4, DELETE, "delete")                                                               \
    X(5, META, "meta")                                                                   \
    X(6, IN_DOUBT, "doubt")                                                              \
    X(7, IN_DOUBT_CLEAR, "doubt-clear")                                                  \
    X(8, UPLOAD_BEGIN, "upload-begin")                                                   \
    X(9, PART, "part")                                                                   \
    X(10, UPLOAD_COMPLETE, "upload-complete")                                            \
    X(11, UPLOAD_ABORT, "upload-abort")                                                  \
    X(12, UPLOAD_EXPIRE, "upload-expire")                                                \
    X(13, BUCKET, "bucket")                                                              \
    X(14, OBSOLETE, "obsolete")                                                          \
    X(15, ABORT_PREPARED, "abort")                                                       \
    X(16, RELOCATED, "moved")                                                            \
    X(17, PUNCHED, "punched")                                                            \
    X(18, TOMBSTONE, "tombstone")                                                        \
    X(19, TOMBSTONE_END, "tombstone-end")                                                \
    X(20, PREPARE, "prepare")                                                            \
    X(21, COMMIT_PREPARED, "decide")                                                     \
    X(22, SLICE, "slice")                                                                \
    X(23, CHUNK, "chunk")                                                                \
    X(24, VERSION_DELETE, "version-delete")                                              \
    X(25, KEYS, "keys")                                                                  \
    X(32, BODY, "body")                                                                  \
    X(33, OPEN, "open")                                                                  \
    X(34, SUMS, "sums")                                                                  \
    X(35, DEAD, "dead")

enum log_record_kind {
#define X(number, id, name) LOG_RECORD_##id = (number),
    LOG_RECORD_KINDS(X)
#undef X
};
const char *log_record_kind_name(unsigned kind); /* NULL: unknown */

struct place {
    uint32_t segment, generation;
    uint64_t offset, span;
};

struct log_record {
    enum log_record_kind kind;
    bool last; /* of its batch */
    bool
        after_unsynced; /* the batch before its own was not synced when this was written */
    uint64_t
        unsynced; /* cached, the first of its batch: the first batch that was not synced then */

    /* What binds it to where it stands. */
    uint32_t segment, generation;
    uint64_t offset;
    uint32_t head_len; /* set by log_record_encode() and log_record_parse() */
    uint64_t payload;
    uint64_t epoch, batch;

    /* Fields; which ones belong to a kind says the table in docs/formats.md. */
    uint64_t bucket;
    struct span immutable_name, key;
    struct content_id content;
    struct version version;
    struct version
        born; /* the version that a version-delete ends, or a meta record changes */
    uint32_t layout; /* of what a meta record is about: LAYOUT_PARTS */
    uint64_t size;
    struct place place, old_place; /* old: of a moved one */
    uint64_t span;
    struct span block_sums;
    uint32_t payload_sum;
    struct upload_id upload;
    struct span keys,
        keys_before; /* of keys: what its batch changes, and the one before */
    uint32_t part;
    bool meta_behind;
    bool copy; /* of an upload-begin: it copies an object of another disk */
    struct coordinator coordinator; /* of a prepare */
    const struct object_meta
        *meta; /* written: NULL for none. Read: see log_record_meta() */

    /* Of a segment header. */
    uint8_t cluster_id[16], disk_id[16];
    enum store_class class;
    enum segment_kind segment_kind;
    uint64_t first_batch, segment_bytes;
    int64_t mtime_ms; /* also of objects: for tar */

    /* Only where read. */
    struct span record; /* the record's bytes, in the window */
    const struct entry *
        entry; /* what record_entry() gives of a put or commit, where it was asked before; borrowed, NULL: ask */
    uint64_t key_hash; /* run_key_hash(), where it was made with `entry`; 0: not known */
    struct span
        coded; /* `entry` as the index has it, where it was made with it; borrowed */
    struct span body; /* the payload, where the scanner or the committer has it at hand */
    bool
        body_damaged; /* it is not what its sums say: taken from what is left of a damaged batch */
};

enum log_record_field {
    FIELD_SEGMENT = 1,
    FIELD_GENERATION,
    FIELD_OFFSET,
    FIELD_HEADER,
    FIELD_PAYLOAD,
    FIELD_EPOCH,
    FIELD_BATCH,
    FIELD_FLAGS,
    FIELD_UNSYNCED,
    FIELD_BUCKET = 16,
    FIELD_IMMUTABLE_NAME,
    FIELD_KEY,
    FIELD_CONTENT,
    FIELD_VERSION,
    FIELD_SIZE,
    FIELD_PLACE,
    FIELD_SPAN,
    FIELD_BLOCK_SUMS,
    FIELD_PAYLOAD_SUM,
    FIELD_LAYOUT,
    FIELD_UPLOAD,
    FIELD_PART,
    FIELD_META_BEHIND,
    FIELD_OLD_PLACE,
    FIELD_BORN = 36,
    FIELD_COPY = 37,
    FIELD_MARKER = 38, /* in archives only */
    FIELD_COORDINATOR = 39,
    FIELD_CLUSTER = 40,
    FIELD_DISK,
    FIELD_CLASS,
    FIELD_SEGMENT_KIND,
    FIELD_FIRST_BATCH,
    FIELD_SEGMENT_BYTES,
    FIELD_KEYS, /* of a record keys */
    FIELD_KEYS_BEFORE,
    FIELD_MTIME = 64, /* from here on: metadata, in meta.c */
    FIELD_MD5,
    FIELD_PARTS,
    FIELD_CONTENT_TYPE,
    FIELD_CACHE_CONTROL,
    FIELD_CONTENT_DISPOSITION,
    FIELD_CONTENT_ENCODING,
    FIELD_CONTENT_LANGUAGE,
    FIELD_EXPIRES,
    FIELD_USER,
    FIELD_ETAG_TEXT,
    FIELD_BACKEND_VERSION,
    FIELD_CHECKSUM,
    FIELD_STORAGE_CLASS,
    FIELD_OBJECT_TAGS,
    FIELD_VERSIONING,
    FIELD_CHUNKS,
    FIELD_OVERWRITES,
    FIELD_ACL,
    FIELD_END_,
};
#define LOG_RECORD_VERSION 1
/* Of a record that leaves an older version or a delete marker: a program that does not know them must not read it. */
#define LOG_RECORD_VERSION_VERSIONED 2
/* Of one that stands for pieces: read as an object it would be an empty one. */
#define LOG_RECORD_VERSION_CHUNKS 3
/* Of a version-delete that ends the null versions before the one it names as well: read without that, they came back. */
#define LOG_RECORD_VERSION_ENDS_NULL 4
/* Of a prepare that names its coordinator: a program that does not know the field would abort what another node prepared. */
#define LOG_RECORD_VERSION_COORDINATED 5
#define LOG_RECORD_VERSION_NEWEST      LOG_RECORD_VERSION_COORDINATED
#define COORDINATOR_BYTES              10
#define LAYOUT_PLAIN                   1
#define LAYOUT_PARTS                   2
static_assert(LOG_RECORD_PUT == 2, "kinds are numbers on the disk");
static_assert(LOG_RECORD_VERSION_DELETE == 24, "kinds are numbers on the disk");
static_assert(LOG_RECORD_KEYS == 25, "kinds are numbers on the disk");
static_assert(FIELD_KEYS == 46, "fields are numbers on the disk");
static_assert(LOG_RECORD_BODY == 32, "kinds of body segments begin here");
static_assert(LOG_RECORD_DEAD == 35, "kinds are numbers on the disk");
static_assert(LOG_RECORD_VERSION < LOG_RECORD_VERSION_NEWEST,
              "newer records have higher versions");
static_assert(LAYOUT_PLAIN != LAYOUT_PARTS, "layouts are apart");
static_assert(FIELD_MTIME == 64, "metadata fields begin here");

#define LOG_RECORD_KEY_BYTES 12 /* of each change in a record keys: hash 8, bucket 4 */
#define LOG_RECORD_HEAD_SUM  4  /* bytes of the head sum, behind the record */
/* The sum over a header, the head sum at `at` as zeros. */
uint32_t log_record_head_sum(const char *head, size_t len, size_t at);

/* The metadata fields. */
size_t meta_len(const struct object_meta *meta);
/* Without pairs, and the same but for time and sums? */
bool meta_is_alike(const struct object_meta *a, const struct object_meta *b);
void meta_put(struct record_writer *w, const struct object_meta *meta);
/* Appends the header to `out`, exactly `head_len` bytes long (0: the shortest), and sets m->head_len. */
void log_record_encode(struct log_record *m, uint32_t head_len, struct buf *out);

enum log_record_result {
    LOG_RECORD_OK,
    LOG_RECORD_MORE, /* the window is too short: *need bytes are wanted */
    LOG_RECORD_ZERO, /* a block of zeros */
    LOG_RECORD_BAD,  /* no record: the sentence says why */
    LOG_RECORD_NEWER, /* whole, but of a version or kind that this program does not know: refuse the disk */
};
/* Reads the header at the front of `window`: checks both sums, the version, and that every field which the kind
 * requires is there. Where it should stand is for the caller to compare (log_record_is_at()). */
enum log_record_result log_record_parse(struct span window, struct log_record *out,
                                        size_t *need, struct errbuf *eb);
/* The same for a window that begins where a record should stand, and is as long as a header may be or as the entry says: what
 * looks like a tar header has to be right by the sum over all of it, and tar's own checksums are not added up. Who searches
 * wants them too, before it believes a length and reads on. */
enum log_record_result log_record_parse_placed(struct span window, struct log_record *out,
                                               size_t *need, struct errbuf *eb);
bool log_record_is_at(const struct log_record *m, uint32_t segment, uint32_t generation,
                      uint64_t offset);

/* The metadata of a record that was read; pairs go to the arena, texts stay in the window unless `copy`. */
enum err log_record_meta(const struct log_record *m, struct arena *a, bool copy,
                         struct object_meta *out, struct errbuf *eb) MUST_CHECK;
/* The entry that a put, commit, part or upload-complete makes. */
enum err record_entry(const struct log_record *m, enum store_class class,
                      struct entry *out, struct errbuf *eb) MUST_CHECK;

static inline bool
log_record_has_upload(const struct log_record *m)
{
    static const struct content_id none;

    return !content_eq(&m->upload.id, &none);
}
/* A prepare that completes an upload: its payload is the manifest. */
static inline bool
log_record_is_prepared_upload(const struct log_record *m)
{
    return m->kind == LOG_RECORD_PREPARE && log_record_has_upload(m);
}

static inline uint64_t
log_record_end(const struct log_record *m) /* offset behind payload and padding */
{
    return m->offset + m->head_len + align_up(m->payload, 512);
}
