/* member: the header of one member of a segment: a record inside a tar header, built and read back.
 * docs/formats.md, sections 3 and 4. Pure functions: any thread.
 *
 * Spans of a struct that is written are borrowed from the caller; of one that was read they lie in the window.
 */
#pragma once
#include "base/buf.h"
#include "disk/internal.h"
#include "wire/record.h"

/* X(number, id, name in tar and in messages) */
#define MEMBER_KINDS(X)                                                                  \
    X(1, SEGMENT_HEADER, "segment")                                                      \
    X(2, PUT, "put")                                                                     \
    X(3, COMMIT, "commit")                                                               \
    X(4, DELETE, "delete")                                                               \
    X(5, META, "meta")                                                                   \
    X(6, DOUBT, "doubt")                                                                 \
    X(7, DOUBT_CLEAR, "doubt-clear")                                                     \
    X(8, UPLOAD_BEGIN, "upload-begin")                                                   \
    X(9, PART, "part")                                                                   \
    X(10, UPLOAD_COMPLETE, "upload-complete")                                            \
    X(11, UPLOAD_ABORT, "upload-abort")                                                  \
    X(12, UPLOAD_EXPIRE, "upload-expire")                                                \
    X(13, BUCKET, "bucket")                                                              \
    X(14, OBSOLETE, "obsolete")                                                          \
    X(15, ABORT, "abort")                                                                \
    X(16, MOVED, "moved")                                                                \
    X(17, PUNCHED, "punched")                                                            \
    X(18, TOMBSTONE, "tombstone")                                                        \
    X(19, TOMBSTONE_END, "tombstone-end")                                                \
    X(20, PREPARE, "prepare")                                                            \
    X(21, DECIDE, "decide")                                                              \
    X(22, SLICE, "slice")                                                                \
    X(23, CHUNK, "chunk")                                                                \
    X(24, VERSION_DELETE, "version-delete")                                              \
    X(32, BODY, "body")                                                                  \
    X(33, OPEN, "open")                                                                  \
    X(34, SUMS, "sums")                                                                  \
    X(35, DEAD, "dead")

enum member_kind {
#define X(number, id, name) MEMBER_##id = (number),
    MEMBER_KINDS(X)
#undef X
};
const char *member_kind_name(unsigned kind); /* NULL: unknown */

struct place {
    uint32_t segment, generation;
    uint64_t offset, span;
};

struct member {
    enum member_kind kind;
    bool last; /* of its group */
    bool
        after_unsynced; /* the group before its own was not synced when this was written */
    uint64_t
        unsynced; /* cached, the first of its group: the first group that was not synced then */

    /* What binds it to where it stands. */
    uint32_t segment, generation;
    uint64_t offset;
    uint32_t head_len; /* set by member_encode() and member_parse() */
    uint64_t payload;
    uint64_t epoch, group;

    /* Fields; which ones belong to a kind says the table in docs/formats.md. */
    uint64_t bucket;
    struct span birth_name, key;
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
    uint32_t part;
    bool meta_behind;
    bool copy; /* of an upload-begin: it copies an object of another disk */
    const struct object_meta *meta; /* written: NULL for none. Read: see member_meta() */

    /* Of a segment header. */
    uint8_t cluster_id[16], disk_id[16];
    enum disk_class class;
    enum segment_kind segment_kind;
    uint64_t first_group, segment_bytes;
    int64_t mtime_ms; /* also of objects: for tar */

    /* Only where read. */
    struct span record; /* the record's bytes, in the window */
    const struct row *
        row; /* what member_row() gives of a put or commit, where it was asked before; borrowed, NULL: ask */
    uint64_t key_hash; /* run_key_hash(), where it was made with `row`; 0: not known */
    struct span
        coded;        /* `row` as the index has it, where it was made with it; borrowed */
    struct span body; /* the payload, where the scanner or the committer has it at hand */
    bool
        body_damaged; /* it is not what its sums say: taken from what is left of a damaged group */
};

enum member_field {
    FIELD_SEGMENT = 1,
    FIELD_GENERATION,
    FIELD_OFFSET,
    FIELD_HEADER,
    FIELD_PAYLOAD,
    FIELD_EPOCH,
    FIELD_GROUP,
    FIELD_FLAGS,
    FIELD_UNSYNCED,
    FIELD_BUCKET = 16,
    FIELD_BIRTH_NAME,
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
    FIELD_CLUSTER = 40,
    FIELD_DISK,
    FIELD_CLASS,
    FIELD_SEGMENT_KIND,
    FIELD_FIRST_GROUP,
    FIELD_SEGMENT_BYTES,
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
};
#define MEMBER_RECORD_VERSION 1
/* Of a record that leaves an older version or a delete marker: who does not know of these must not read it. */
#define MEMBER_RECORD_VERSIONED 2
/* Of one that stands for pieces: read as an object it would be an empty one. */
#define MEMBER_RECORD_CHUNKS 3
/* Of a version-delete that ends the null versions before the one it names as well: read without that, they came back. */
#define MEMBER_RECORD_ENDS_NULL 4
#define MEMBER_RECORD_NEWEST    MEMBER_RECORD_ENDS_NULL
#define LAYOUT_PLAIN            1
#define LAYOUT_PARTS            2

#define MEMBER_HEAD_SUM 4 /* bytes of the head sum, behind the record */
/* The sum over a header, the head sum at `at` as zeros. */
uint32_t member_head_sum(const char *head, size_t len, size_t at);

/* The metadata fields. */
size_t meta_len(const struct object_meta *meta);
/* Without pairs, and the same but for time and sums? */
bool meta_is_alike(const struct object_meta *a, const struct object_meta *b);
void meta_put(struct record_writer *w, const struct object_meta *meta);
/* Appends the header to `out`, exactly `head_len` bytes long (0: the shortest), and sets m->head_len. */
void member_encode(struct member *m, uint32_t head_len, struct buf *out);

enum member_got {
    MEMBER_GOOD,
    MEMBER_MORE, /* the window is too short: *need bytes are wanted */
    MEMBER_ZERO, /* a block of zeros */
    MEMBER_BAD,  /* no member: the sentence says why */
    MEMBER_NEWER, /* whole, but of a version or kind that this program does not know: refuse the disk */
};
/* Reads the header at the front of `window`: checks both sums, the version, and that every field which the kind
 * requires is there. Where it should stand is for the caller to compare (member_stands()). */
enum member_got member_parse(struct span window, struct member *out, size_t *need,
                             struct errbuf *eb);
/* The same for a window that begins where a member should stand, and is as long as a header may be or as the row says: what
 * looks like a tar header has to be right by the sum over all of it, and tar's own checksums are not added up. Who searches
 * wants them too, before he believes a length and reads on. */
enum member_got member_parse_placed(struct span window, struct member *out, size_t *need,
                                    struct errbuf *eb);
bool member_stands(const struct member *m, uint32_t segment, uint32_t generation,
                   uint64_t offset);

/* The metadata of a member that was read; pairs go to the arena, texts stay in the window unless `copy`. */
enum err member_meta(const struct member *m, struct arena *a, bool copy,
                     struct object_meta *out, struct errbuf *eb) MUST_CHECK;
/* The row that a put, commit, part or upload-complete makes. */
enum err member_row(const struct member *m, enum disk_class class, struct row *out,
                    struct errbuf *eb) MUST_CHECK;

static inline bool
member_has_upload(const struct member *m)
{
    static const struct content_id none;

    return !content_eq(&m->upload.id, &none);
}
/* A prepare that completes an upload: its payload is the manifest. */
static inline bool
member_is_prepared_upload(const struct member *m)
{
    return m->kind == MEMBER_PREPARE && member_has_upload(m);
}

static inline uint64_t
member_end(const struct member *m) /* offset behind payload and padding */
{
    return m->offset + m->head_len + align_up(m->payload, 512);
}
