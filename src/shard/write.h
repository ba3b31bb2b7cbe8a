/* write: an archive under construction, member by member, into a sink. Memory: the codec's state, and for a zip the
 * names of its members. No I/O of its own; may switch where the sink does.
 *
 * A zip is written in one pass: members are stored, their CRC-32 stands behind the data and in the directory.
 */
#pragma once
#include "base/buf.h"
#include "shard/format.h"
#include "wire/tar.h"

struct shard_sink {
    enum err (*put)(void *arg, struct span bytes, struct errbuf *eb);
    void *arg;
};
#define SHARD_ZIP_NAMES_MAX                                                              \
    (64u << 20) /* bytes of the directory of a zip that is written */

struct shard_writer;
enum err shard_writer_new(enum shard_format f, struct shard_sink sink,
                          struct shard_writer **out, struct errbuf *eb) MUST_CHECK;
/* The next member; the one before has had all its bytes. `name`: 1 to TAR_PATH_MAX bytes. ERR_TOO_LARGE: the directory of a zip. */
enum err shard_writer_member(struct shard_writer *w, struct span name, uint64_t size,
                             int64_t mtime_s, struct errbuf *eb) MUST_CHECK;
enum err shard_writer_data(struct shard_writer *w, struct span bytes,
                           struct errbuf *eb) MUST_CHECK;
/* The end of the archive. */
enum err shard_writer_end(struct shard_writer *w, struct errbuf *eb) MUST_CHECK;
/* Hands what it holds back to the sink, so that a slow archive arrives. */
enum err shard_writer_flush(struct shard_writer *w, struct errbuf *eb) MUST_CHECK;
void shard_writer_free(struct shard_writer **wp); /* NULL is fine */
