/* store_entry: the data that a store keeps of an object: key, entry, metadata. Plain data; part
 * of store.h. */
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

/* (start count, node, counter): minted once per body, the same on every copy; see disk.md rule 6. */
struct content_id {
    uint8_t bytes[16];
};
/* Compared only between versions of one key. Never a clock, and not the count of starts. */
struct version {
    uint64_t
        epoch; /* of the map under which the key's owner assigned it; every start has a new one */
    uint64_t counter; /* within the epoch; shared by all disks of the node */
};
/* Who ordered a prepared version (two-phase commit), and under which map. */
struct coordinator {
    uint16_t
        node; /* 0: the node that has the disk, in a record of a program before record version 5 */
    uint64_t epoch; /* of the map */
};

enum entry_flags {
    ENTRY_PLAIN =
        1, /* default content type, no user metadata, only CRC64NVME: no need to read the header */
    ENTRY_CACHED = 2,     /* class */
    ENTRY_PARTS = 4,      /* layout: a manifest of parts */
    ENTRY_IN_DOUBT = 8,   /* cached: in-doubt write-through; revalidate before serving */
    ENTRY_TOMBSTONE = 16, /* look-ups never return it */
    ENTRY_INLINE = 32,    /* the body is in a log record */
    ENTRY_ETAG_TEXT = 64, /* the ETag is not an MD5: it is in the metadata */
    ENTRY_KEPT = 8192,    /* of a tombstone: kept until store_tombstone_drop() */
    /* 128 and 4096 belong to the coding. Flags that are never stored are allocated from the
     * highest bit down. */
    ENTRY_VERSIONED = 256,   /* written while versioning was on: has a version id */
    ENTRY_MARKER = 512,      /* with ENTRY_TOMBSTONE: a delete marker, which is kept */
    ENTRY_META_APART = 1024, /* the metadata is in a separate record */
    ENTRY_SUSPENDED = 2048, /* the null version, written while versioning was suspended */
    /* cached: the object is stored in chunks, each an object of its own; `size` is 0, the
     * metadata has the total size (`whole_bytes`) */
    ENTRY_CHUNKS = 16384,
};
/* Where this node keeps a version. Only the store interprets it; other rooms copy it. `disk`
 * belongs to the room `disks`. */
struct entry_place {
    uint16_t disk; /* never stored: the disk of the node on which the entry was found */
    uint32_t segment;
    uint64_t offset;
    uint32_t meta_segment; /* ENTRY_META_APART: place of the metadata record */
    uint64_t meta_offset;
};
/* One version of an object, as in the index: plain data, copied out. All but `place` is the same
 * on every node. */
struct entry {
    uint32_t flags;
    uint32_t parts; /* of the ETag "-N"; 0 for a single PUT */
    struct version version;
    struct content_id content;
    uint64_t size;
    int64_t mtime_ms;
    uint8_t md5[16];
    uint32_t
        overwrites; /* number of earlier writes of the key: AIS's version minus one */
    /* S3's version id: the version at birth. `version` rises when its metadata changes, or when
     * it becomes current again. Zero: equal to `version`; use entry_born(). */
    struct version born;
    struct entry_place place;
};
/* In entry.flags of a look-up, never stored: a version of this key is prepared here and not yet
 * committed or aborted (store_replica.h). */
#define ENTRY_PREPARED (1u << 31)

static inline struct version
entry_born(const struct entry *entry)
{
    return entry->born.epoch != 0 || entry->born.counter != 0 ? entry->born
                                                              : entry->version;
}
/* True for the version that S3 calls "null": written before versioning was on, or while it was
 * suspended. */
static inline bool
entry_is_null_version(const struct entry *entry)
{
    return (entry->flags & ENTRY_VERSIONED) == 0;
}

/* The metadata of an object, in the record's pax header. Spans are borrowed from the caller
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
        etag_text; /* cached: the backend's ETag if it is not MD5-shaped; else empty */
    struct span backend_version; /* cached: version id at the backend, may be empty */
    uint8_t checksum_algorithm;  /* wire/checksum.h; 0: none */
    uint8_t checksum_type;       /* wire/checksum.h */
    struct span checksum;        /* binary */
    struct span storage_class;   /* empty: STANDARD */
    struct span tags; /* of the object: "a=b&c=d", percent-encoded; empty: none */
    struct span
        acl; /* its access control list (wire/s3acl.h); empty: private, the bucket owner's */
    /* How the write treats earlier versions, by the bucket's versioning. */
    uint8_t versioning; /* enum store_versioning */
    /* cached, ENTRY_CHUNKS: total size of an object stored in chunks of `chunk_bytes`; else 0 */
    uint64_t whole_bytes;
    uint32_t chunk_bytes;
    uint32_t overwrites; /* of the entry; a writer that counts none leaves 0 */
};
enum store_versioning { STORE_UNVERSIONED, STORE_VERSIONED, STORE_SUSPENDED };

/* Copies `from` and all that it points to into the arena; `from` and `to` may be the same. */
void meta_copy(struct arena *a, const struct object_meta *from, struct object_meta *to);
/* Rejects more than 8 KiB of fields: ERR_BAD_REQUEST. */
enum err meta_check(const struct object_meta *meta, struct errbuf *eb) MUST_CHECK;

struct store_key {
    uint64_t bucket; /* id, never reused */
    struct span
        immutable_name; /* the bucket's name at creation, in the record and in tar */
    struct span key;    /* 1 to 1,024 bytes */
};
