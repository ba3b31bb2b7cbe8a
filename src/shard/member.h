/* member: one member of a shard as a reader.
 *
 * A member of an uncompressed tar is one read of its bytes once the shard has an index; the first read builds it. A member of a zip
 * is one read, too, and its CRC-32 is compared when it is read whole. Members of tgz and tar.lz4 are decoded from the archive's start.
 * Fibers: one a reader, of any loop; everything may switch.
 */
#pragma once
#include "shard/format.h"
#include "shard/index.h"
#include "shard/match.h"
#include "shard/stream.h"

struct shard_service;
#define SHARD_CACHE_BYTES (256u << 20) /* of all indexes together */
/* Borrows `o`. One for all loops; on a loop. */
struct shard_service *shard_start(struct object_service *o, size_t cache_bytes);
/* Keeps indexes in a folder, too, of `limit` bytes at most: files.h. Before the first reader; once. May switch. */
enum err shard_keep_in(struct shard_service *s, struct rt_dir *dir, uint64_t limit,
                       struct errbuf *eb) MUST_CHECK;
/* The object was written or deleted: its kept index leaves. May switch. */
void shard_forget(struct shard_service *s, uint64_t bucket, struct span key);
void shard_stop(struct shard_service **sp); /* no reader is left */
struct shard_cache *shard_cache_of(struct shard_service *s);

struct shard_ask {
    const struct map_bucket *bucket; /* borrowed while the reader is open */
    struct span key;                 /* likewise */
    enum shard_format format;        /* SHARD_NONE: by the extension of `key` */
    const struct shard_version
        *version; /* borrowed: another one is ERR_NOT_FOUND; NULL: the current one */
};
struct shard_reader;
/* ERR_NOT_FOUND: no such object, or the object has no such member; ERR_BAD_REQUEST: it is no archive, or a damaged one. On ERR_OK the
 * caller ends *out with shard_member_close(). */
enum err shard_member_open(struct shard_service *s, const struct shard_ask *ask,
                           struct span member, struct shard_reader **out,
                           struct errbuf *eb) MUST_CHECK;
uint64_t shard_member_size(const struct shard_reader *r);
/* Of the archive: time and version. */
const struct object_info *shard_member_archive(const struct shard_reader *r);
/* Once, before the first shard_member_next(): [first, first + len) lies inside the member. */
enum err shard_member_range(struct shard_reader *r, uint64_t first, uint64_t len,
                            struct errbuf *eb) MUST_CHECK;
/* The next piece, valid until the next call; len 0: the end. */
enum err shard_member_next(struct shard_reader *r, struct span *piece,
                           struct errbuf *eb) MUST_CHECK;
/* The pieces that follow in memory already: object_get_more(). */
unsigned shard_member_more(struct shard_reader *r, struct span *pieces, unsigned max);
/* Does it read the member's own bytes and nothing else of the archive? */
bool shard_member_is_plain(const struct shard_reader *r);
/* In the fiber that has read from it, unless it was read to its end and is plain. */
void shard_member_close(struct shard_reader **rp); /* NULL is fine */

/* The index of a tar or zip: from memory, from the node's state, or built and kept. ERR_BAD_REQUEST: it is neither. On ERR_OK the
 * caller ends *out with shard_index_close(). */
struct shard_open;
enum err shard_index_open(struct shard_service *s, const struct shard_ask *ask,
                          struct shard_open **out, struct errbuf *eb) MUST_CHECK;
const struct shard_index *shard_index_of(const struct shard_open *o);
const struct object_info *shard_index_archive(const struct shard_open *o);
void shard_index_close(struct shard_open **op); /* NULL is fine */

/* All members that match, in the order of the archive, with their bytes. */
struct shard_scan;
enum err shard_scan_open(struct shard_service *s, const struct shard_ask *ask,
                         struct shard_match *m, struct shard_scan **out,
                         struct errbuf *eb) MUST_CHECK;
/* The next one; *end: there is none. `m` is valid until the next call. */
enum err shard_scan_next(struct shard_scan *n, struct shard_member *m, bool *end,
                         struct errbuf *eb) MUST_CHECK;
enum err shard_scan_data(struct shard_scan *n, struct span *piece,
                         struct errbuf *eb) MUST_CHECK;
void shard_scan_close(struct shard_scan **np); /* NULL is fine */
