/* chunks: large objects of attached buckets, kept in chunks (decision D10; docs/formats.md section 8.2,
 * docs/tier.md).
 *
 * An index entry without bytes represents the object: it has ETag, metadata and length (ENTRY_CHUNKS). Writes,
 * deletes, in-doubt records and expiry act on it as on any entry. Each chunk is a cached object in a bucket of its
 * own (chunk_space()); its name encodes key, version and number. So chunks are fetched, scrubbed, relocated and
 * evicted one by one. A chunk is read only while the entry of its version exists; chunks of older versions are never
 * read, and a sweep removes them.
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
    struct content_id content; /* of the entry that represents the object */
    char etag[160];            /* without quotes */
};
/* From an entry with ENTRY_CHUNKS and its information. */
void chunked_of(const struct entry *entry, const struct object_info *info,
                struct chunked *out);
uint32_t chunk_count(const struct chunked *c);
/* The length of one chunk; the last one may be shorter. */
uint32_t chunk_len(const struct chunked *c, uint32_t number);
/* The chunk's key on the disk; returns the length. */
size_t chunk_name(const struct chunked *c, struct span key, uint32_t number,
                  char out[STORE_KEY_MAX]);
/* False: not the name of a chunk. *key points into `name`. */
bool chunk_name_parse(struct span name, struct span *key, uint64_t tag[2],
                      uint32_t *number);

/* The bucket of the chunks of a bucket's objects, and the reverse. */
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

/* Should this remote object be kept in chunks? `etag` as the remote sent it. */
bool chunks_fit(const struct object_service *s, const struct map_bucket *b,
                struct span key, const struct s3_object_info *from,
                const struct object_info *info);
/* Does the entry of this version still exist, and is it not in doubt? *entry: the entry. */
bool chunks_entry(struct object_service *s, const struct map_bucket *b, struct span key,
                  const struct chunked *c, struct entry *entry);
bool chunks_stand(struct object_service *s, const struct map_bucket *b, struct span key,
                  const struct chunked *c);
/* The remote has another version, or none: ends the entry, durably, and sweeps the chunks. */
void chunks_outdated(struct object_service *s, const struct map_bucket *b,
                     struct span key, const struct chunked *c);
/* Does the key have an entry with ENTRY_CHUNKS? A caller that ends the entry calls tier_sweep(). */
bool chunks_are_of(struct object_service *s, const struct map_bucket *b, struct span key);
/* Removes the chunks that belong to no entry. Runs until the end, or until *stop. May switch. */
enum err chunks_sweep(struct object_service *s, const bool *stop,
                      struct errbuf *eb) MUST_CHECK;
