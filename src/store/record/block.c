#include "store/record/block.h"

#include <assert.h>

#include "base/hash.h"
#include "store/record/format.h"

static void
block_put_be(unsigned char *out, uint64_t v, unsigned bytes)
{
    for (unsigned i = bytes; i-- > 0; v >>= 8)
        out[i] = (unsigned char)v;
}

uint32_t
block_seed(uint32_t cluster_sum, const struct content_id *id, uint32_t slice)
{
    unsigned char rest[sizeof id->bytes + 4];

    memcpy(rest, id->bytes, sizeof id->bytes);
    block_put_be(rest + sizeof id->bytes, slice, 4);
    return hash_crc32c(cluster_sum, rest, sizeof rest);
}

uint32_t
block_sum(uint32_t seed, uint64_t number, const void *bytes, uint32_t len)
{
    unsigned char be[8];

    block_put_be(be, number, 8);
    return hash_crc32c(hash_crc32c(seed, be, sizeof be), bytes, len);
}

void
block_sums_put(uint32_t seed, uint64_t number, const void *bytes, uint64_t len, char *out)
{
    assert(out != NULL);
    for (uint64_t at = 0; at < len; at += BLOCK_BYTES, number++, out += 4)
        block_put_be((unsigned char *)out,
                     block_sum(seed, number, (const char *)bytes + at,
                               block_len(len, at / BLOCK_BYTES)),
                     4);
}

enum err
block_check(uint32_t seed, uint64_t number, const void *bytes, uint64_t len,
            const char *sums, uint64_t *bad)
{
    for (uint64_t at = 0; at < len; at += BLOCK_BYTES, number++, sums += 4) {
        unsigned char want[4];

        block_put_be(want,
                     block_sum(seed, number, (const char *)bytes + at,
                               block_len(len, at / BLOCK_BYTES)),
                     4);
        if (memcmp(want, sums, sizeof want) != 0) {
            *bad = number;
            return ERR_CORRUPT;
        }
    }
    return ERR_OK;
}
