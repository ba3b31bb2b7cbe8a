/* index_code: an index of members as bytes: docs/formats.md, section "Index of a shard". No I/O; any thread.
 *
 * The bytes name the object and its version, and carry a sum: an index that is not of exactly this version is never used.
 */
#pragma once
#include "base/buf.h"
#include "shard/index.h"

#define SHARD_CODE_MAX (64u << 20) /* bytes; a larger index is not kept */

/* Appends to `out`; out->full: it is too large. */
void shard_index_encode(const struct shard_index *x, uint64_t bucket, struct span key,
                        const struct shard_version *v, struct buf *out);
/* ERR_NOT_FOUND: of another object or version; ERR_CORRUPT: damaged. On ERR_OK the caller owns one reference. */
enum err shard_index_parse(struct span bytes, uint64_t bucket, struct span key,
                           const struct shard_version *v, struct shard_index **out,
                           struct errbuf *eb) MUST_CHECK;
/* What follows the record, its sum compared: `count` members of an archive of `archive` bytes. ERR_CORRUPT. */
enum err shard_index_parse_body(enum shard_format f, uint64_t count, struct span body,
                                uint64_t archive, struct shard_index **out,
                                struct errbuf *eb) MUST_CHECK;
