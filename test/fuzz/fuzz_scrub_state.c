/* The saved state of a scrub: what is read formats back to bytes that read the same. The input is sealed with a right
 * sum first. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "store/scrub/scrub.h"
#include "store/store_health.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ROOM 8u

static void
put_be32(unsigned char *at, uint32_t n)
{
    for (unsigned i = 0; i < 4; i++)
        at[i] = (unsigned char)(n >> (24 - 8 * i));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct scrub_finding first[ROOM], second[ROOM];
    static struct scrub_state a, b;
    unsigned char *sealed;
    uint32_t count, again;
    struct buf out;

    if (size < 8 || size > 65536)
        return 0;
    sealed = malloc(size + 4);
    assert(sealed != NULL);
    memcpy(sealed, data, size);
    put_be32(sealed + 4, (uint32_t)size + 4);
    put_be32(sealed + size, hash_crc32c(0, sealed, size));
    if (scrub_decode((struct span){(char *)sealed, size + 4}, &a, first, ROOM, &count,
                     NULL) == ERR_OK) {
        buf_init(&out, SCRUB_STATE_MAX);
        scrub_encode(&a, first, count, &out);
        assert(scrub_decode(buf_span(&out), &b, second, ROOM, &again, NULL) == ERR_OK);
        assert(again == count && memcmp(&a, &b, sizeof a) == 0);
        assert(memcmp(first, second, count * sizeof *first) == 0);
        buf_fini(&out);
    }
    free(sealed);
    return 0;
}
