/* chunk_read: a range of an object in chunks, one chunk after the other. Those that are not here are fetched, several at
 * once ahead of the reader, so that it goes as fast as they do together; never further ahead than CHUNK_WINDOW, however
 * slow the reader is, and none once it has left. Before the first piece the remote has answered for the first chunk that is
 * missing, however many stand in front of it: until then there is another answer to give.
 *
 * One fiber.
 */
#pragma once
#include "object/chunks.h"

#define CHUNK_WINDOW 8u /* under way for a reader at a time */

struct chunk_reader;
struct chunk_reader_options {
    struct object_service *s;
    const struct map_bucket *bucket; /* borrowed, as all here */
    struct span key;
    const struct chunked *of; /* copied */
    uint64_t first, len;      /* inside the object, at least one byte */
    struct pace *behind; /* a prefetch: what is here is passed over, what cannot be kept
                                   ends it; borrowed; NULL: none */
};
struct chunk_reader *chunk_reader_new(const struct chunk_reader_options *o);
/* The next piece of the bytes, verified where it comes from a disk; valid until the next call; len 0 at the end. ERR_NOT_FOUND:
 * the remote has another version, or none; at the first piece it can be looked for. May switch. */
enum err chunk_reader_next(struct chunk_reader *r, struct deadline by, struct span *piece,
                           struct errbuf *eb) MUST_CHECK;
/* Of the bytes given last. */
enum object_source chunk_reader_source(const struct chunk_reader *r);
void chunk_reader_free(struct chunk_reader **rp); /* NULL is fine. May switch */
