/* chunk_read: reads a range of an object that is kept in chunks, one chunk after the other. Missing chunks are
 * fetched, several at once ahead of the reader, so that the reader gets their combined speed. The window is
 * CHUNK_WINDOW chunks, however slow the reader is, and closes when the reader leaves. The first piece is returned
 * only after the remote has answered for the first missing chunk: until then another status can still be sent.
 *
 * One fiber.
 */
#pragma once
#include "object/chunks.h"

#define CHUNK_WINDOW 8u /* chunks of one reader in flight at a time */

struct chunk_reader;
struct chunk_reader_options {
    struct object_service *s;
    const struct map_bucket *bucket; /* borrowed, like all pointers here */
    struct span key;
    const struct chunked *of; /* copied */
    uint64_t first, len;      /* inside the object, at least one byte */
    struct pace *
        prefetch; /* set by a prefetch: local chunks are skipped, and a chunk that cannot be kept ends the read; borrowed; NULL: an ordinary reader */
};
struct chunk_reader *chunk_reader_new(const struct chunk_reader_options *o);
/* The next piece of the range; pieces from a disk are verified. Valid until the next call; len 0 at the end.
 * ERR_NOT_FOUND: the remote has another version or none; at the first piece the caller may look the object up
 * again. May switch. */
enum err chunk_reader_next(struct chunk_reader *r, struct deadline by, struct span *piece,
                           struct errbuf *eb) MUST_CHECK;
/* Where the last piece came from. */
enum object_source chunk_reader_source(const struct chunk_reader *r);
void chunk_reader_free(struct chunk_reader **rp); /* NULL is fine. May switch */
