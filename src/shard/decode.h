/* decode: gzip, raw deflate and LZ4 frames, at any split of the input. No I/O; never switches. One decoder holds 64 KiB of output and
 * the library's state: 48 KiB for deflate, up to 8 MiB for LZ4 frames of 4 MiB blocks.
 *
 * A decompression bomb costs time, not memory: what expands more than SHARD_RATIO_MAX times, beyond SHARD_RATIO_FROM bytes, is an
 * error.
 */
#pragma once
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

enum shard_coding { SHARD_GZIP, SHARD_DEFLATE, SHARD_LZ4 };

#define SHARD_RATIO_MAX  400u
#define SHARD_RATIO_FROM (16u << 20)

struct shard_decoder;
/* ERR_BUSY: out of memory, or too many decoders of this program are at work (SHARD_DECODERS_MAX). */
#define SHARD_DECODERS_MAX 64u
enum err shard_decoder_new(enum shard_coding coding, struct shard_decoder **out,
                           struct errbuf *eb) MUST_CHECK;
void shard_decoder_free(struct shard_decoder **dp); /* NULL is fine */
/* Consumes from *in. *out: decoded bytes, valid until the next call; empty: all of *in is used up, or the end was reached. */
enum err shard_decoder_next(struct shard_decoder *d, struct span *in, struct span *out,
                            struct errbuf *eb) MUST_CHECK;
/* The end of the input: was it the end of the coded data, too? ERR_INCOMPLETE. */
enum err shard_decoder_finish(const struct shard_decoder *d,
                              struct errbuf *eb) MUST_CHECK;
