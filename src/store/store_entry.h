/* store_entry: what a store keeps of an object: its key, its entry, its metadata. Plain data; part of store.h. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/span.h"

enum store_class { STORE_NATIVE, STORE_CACHED, STORE_CLASSES_ };

#define STORE_KEY_MAX      1024
#define STORE_INLINE_MAX   (256u << 10) /* larger bodies go to body segments */
#define STORE_SIZE_UNKNOWN UINT64_MAX
#define STORE_PARTS_MAX    10000

/* (epoch, node, counter): minted once for each body, the same on every copy; see disk.md rule 6. */
struct content_id {
    uint8_t bytes[16];
};
struct version {
    uint64_t epoch;   /* every start of a node is a new one */
    uint64_t counter; /* within the epoch */
};

enum entry_flags {
    ENTRY_PLAIN =
        1, /* default content type, no user metadata, no checksum but CRC64NVME: the header need not be read for more */
    ENTRY_CACHED = 2, /* class */
    ENTRY_PARTS = 4,  /* layout: manifest of parts */
    ENTRY_IN_DOUBT =
        8, /* cached: a write-through of unknown outcome; not to be served before revalidation */
    ENTRY_TOMBSTONE = 16, /* never returned by lookups */
    ENTRY_INLINE = 32,    /* a record of the log */
    ENTRY_ETAG_TEXT = 64, /* ETag is not an MD5: it stands in the metadata */
    ENTRY_KEPT = 8192,    /* of a tombstone: stays until store_tombstone_drop() */
    /* 128 and 4096 belong to the coding. What no lookup stores is taken from the highest bit down. */
    ENTRY_VERSIONED = 256,   /* written while versioning was on: has an id of its own */
    ENTRY_MARKER = 512,      /* with ENTRY_TOMBSTONE: a delete marker, which is kept */
    ENTRY_META_APART = 1024, /* the metadata stands in a record of its own */
    ENTRY_SUSPENDED = 2048, /* the null version, written while versioning was suspended */
    /* cached: stands for an object whose bytes are kept in chunks, as objects of their own; `size` is 0, the
     * metadata says how many (`whole_bytes`) */
    ENTRY_CHUNKS = 16384,
};
/* Where this node keeps a version. Only the store reads it: other rooms copy it and hand it back. `disk` belongs to `disks`. */
struct entry_place {
    uint16_t disk; /* never stored: on which disk of the node the entry was found */
    uint32_t segment;
    uint64_t offset;
    uint32_t meta_segment; /* ENTRY_META_APART: the record of the metadata */
    uint64_t meta_offset;
};
/* One version of an object, as the index has it: plain data, copied out. All but `place` is the same on every node. */
struct entry {
    uint32_t flags;
    uint32_t parts; /* of the ETag "-N"; 0 for a single PUT */
    struct version version;
    struct content_id content;
    uint64_t size;
    int64_t mtime_ms;
    uint8_t md5[16];
    uint32_t
        overwrites; /* how often the key was written before: AIS's version, less one */
    /* S3's version id: the version it was written with. `version` rises with later changes of its metadata, or when
     * it becomes the current one again. Zero: the same as `version`; entry_born() knows. */
    struct version born;
    struct entry_place place;
};
/* In entry.flags of a look-up, never stored: a version of this key is prepared here, neither committed nor aborted
 * yet (store_replica.h). */
#define ENTRY_PREPARED (1u << 31)

static inline struct version
entry_born(const struct entry *entry)
{
    return entry->born.epoch != 0 || entry->born.counter != 0 ? entry->born
                                                              : entry->version;
}
/* The version S3 calls "null": written before versioning was on, or while it was suspended. */
static inline bool
entry_is_null_version(const struct entry *entry)
{
    return (entry->flags & ENTRY_VERSIONED) == 0;
}

/* Everything else about an object: one record, in the record's pax header. Spans are borrowed from the caller
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
    uint8_t versioning; /* enum store_versioning */
    /* cached, ENTRY_CHUNKS: of an object that is kept in chunks of `chunk_bytes`; else 0 */
    uint64_t whole_bytes;
    uint32_t chunk_bytes;
};
enum store_versioning { STORE_UNVERSIONED, STORE_VERSIONED, STORE_SUSPENDED };

/* Copies everything that hangs off `from` into the arena; `from` and `to` may be the same. */
void meta_copy(struct arena *a, const struct object_meta *from, struct object_meta *to);
/* More than 8 KiB of fields are refused when they come in: ERR_BAD_REQUEST. */
enum err meta_check(const struct object_meta *meta, struct errbuf *eb) MUST_CHECK;

struct store_key {
    uint64_t bucket; /* id, never reused */
    struct span
        immutable_name; /* the name the bucket was made with: stands in the record, names it in tar */
    struct span key; /* 1 to 1,024 bytes */
};
