/* chunks: large objects of attached buckets, kept in chunks (decision D10; docs/formats.md section 8.2, docs/tier.md).
 *
 * A entry without bytes stands for the object: it has ETag, metadata and the length (ENTRY_CHUNKS), and is what a write, a
 * delete, a doubt or a time to live ends, as any entry. Each chunk is a cached object by itself, in a bucket of its own
 * (chunk_space()), whose name says key, version and number. So a chunk is fetched, scrubbed, moved and evicted alone, and
 * nobody asks for it unless the entry of its version stands: what an older version left is never read, and swept away.
 *
 * Any loop.
 */
#pragma once
#include "object/internal.h"

#define CHUNK_SUFFIX    42u /* "#", 32 hex digits, ".", 8 hex digits */
#define CHUNKED_KEY_MAX (STORE_KEY_MAX - CHUNK_SUFFIX)
#define CHUNKS_MAX      (1u << 31)

/* An object in chunks, one version of it. */
struct chunked {
    uint64_t size;
    uint32_t chunk_bytes;
    uint64_t tag[2];           /* of ETag, size and chunk_bytes */
    struct content_id content; /* of the entry that stands for it */
    char etag[160];            /* without quotes */
};
/* What a entry with ENTRY_CHUNKS and its information say. */
void chunked_of(const struct entry *entry, const struct object_info *info,
                struct chunked *out);
uint32_t chunk_count(const struct chunked *c);
/* Bytes of one; the last has what is left. */
uint32_t chunk_len(const struct chunked *c, uint32_t number);
/* Its name on the disk; returns the length. */
size_t chunk_name(const struct chunked *c, struct span key, uint32_t number,
                  char out[STORE_KEY_MAX]);
/* False: no name of a chunk. *key lies in `name`. */
bool chunk_name_parse(struct span name, struct span *key, uint64_t tag[2],
                      uint32_t *number);

/* The bucket of the chunks of a bucket's objects, and the other way round. */
static inline uint64_t
chunk_space(uint64_t bucket)
{
    return bucket | (uint64_t)1 << 63;
}
static inline uint64_t
chunk_owner(uint64_t bucket)
{
    return bucket & ~((uint64_t)1 << 63);
}
struct disks_key chunk_disk_key(const struct map_bucket *b, struct span name);
enum err chunk_lookup(struct object_service *s, const struct map_bucket *b,
                      struct span name, struct entry *out, struct errbuf *eb) MUST_CHECK;

/* Is this object of a remote to be kept in chunks? `etag` as the remote wrote it. */
bool chunks_fit(const struct object_service *s, const struct map_bucket *b,
                struct span key, const struct s3_object_info *from,
                const struct object_info *info);
/* Does the entry that stands for this version still stand, and not in doubt? *entry: it. */
bool chunks_entry(struct object_service *s, const struct map_bucket *b, struct span key,
                  const struct chunked *c, struct entry *entry);
bool chunks_stand(struct object_service *s, const struct map_bucket *b, struct span key,
                  const struct chunked *c);
/* The remote has another version, or none: the entry ends, durably, and the chunks are swept. */
void chunks_outdated(struct object_service *s, const struct map_bucket *b,
                     struct span key, const struct chunked *c);
/* Is a entry with ENTRY_CHUNKS there? What ends it says tier_sweep(). */
bool chunks_are_of(struct object_service *s, const struct map_bucket *b, struct span key);
/* Takes away the chunks to which no entry belongs. Goes on until it is through, or *stop. May switch. */
enum err chunks_sweep(struct object_service *s, const bool *stop,
                      struct errbuf *eb) MUST_CHECK;
