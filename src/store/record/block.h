/* block: the sums of 16 KiB blocks, which bind bytes to their cluster and body. docs/formats.md, section 5.
 *
 * Pure functions: any thread. */
#pragma once
#include "store/record/format.h"

struct content_id;

static inline uint64_t
block_count(uint64_t size)
{
    return (size + BLOCK_BYTES - 1) / BLOCK_BYTES;
}
/* Bytes of block `number` of a body of `size`. */
static inline uint32_t
block_len(uint64_t size, uint64_t number)
{
    return (uint32_t)MIN((uint64_t)BLOCK_BYTES, size - number * BLOCK_BYTES);
}

/* What the sums of one body begin with. */
uint32_t block_seed(uint32_t cluster_sum, const struct content_id *id, uint32_t slice);
uint32_t block_sum(uint32_t seed, uint64_t number, const void *bytes, uint32_t len);

/* Sums of all blocks of `bytes`, the first of which has `number`; be32 each. */
void block_sums_put(uint32_t seed, uint64_t number, const void *bytes, uint64_t len,
                    char *out);
/* Checks the blocks of `bytes` (whole ones; the last may be the body's short one) against sums, be32 each. On
 * ERR_CORRUPT *bad is the number of the first wrong one. */
enum err block_check(uint32_t seed, uint64_t number, const void *bytes, uint64_t len,
                     const char *sums, uint64_t *bad) MUST_CHECK;
