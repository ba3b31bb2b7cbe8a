/* stream: the members of a tar, tgz or tar.lz4, one after the other, in one pass. For zip and for random access: index.h, member.h.
 *
 * Sizes are checked against the archive: a member that is said to be longer than what follows is an error that names it.
 * Fibers: one. Calls may switch.
 */
#pragma once
#include "shard/format.h"
#include "shard/input.h"

struct shard_member {
    struct span name; /* valid until the next shard_stream_next() */
    uint64_t size;
    uint64_t offset; /* of its payload in an uncompressed tar */
    int64_t mtime_s;
};
struct shard_stream;
/* Borrows `in`, reads it from its start. */
enum err shard_stream_open(struct shard_input *in, enum shard_format f,
                           struct shard_stream **out, struct errbuf *eb) MUST_CHECK;
/* The next regular file; *end: there is none. Skips what was not read of the one before. */
enum err shard_stream_next(struct shard_stream *s, struct shard_member *m, bool *end,
                           struct errbuf *eb) MUST_CHECK;
/* The next piece of the member, valid until the next call; len 0: its end. */
enum err shard_stream_data(struct shard_stream *s, struct span *piece,
                           struct errbuf *eb) MUST_CHECK;
void shard_stream_close(struct shard_stream **sp); /* NULL is fine */
