/* Any bytes: a list of retired logs that reads formats back to one that reads the same, and covers what it says. */
#include "store/store_entry.h"
#include "store/wal/truncated.h"
#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool
covers(const struct truncated *r, unsigned list, uint64_t first, uint64_t last)
{
    return list == TRUNCATED_LOST
               ? truncated_covers_lost(r, first, last)
               : truncated_covers(r, (enum store_class)list, first, last);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct truncated r, again;
    struct errbuf eb = {0};
    struct buf bytes;

    if (truncated_decode((struct span){(const char *)data, size}, &r, &eb) != ERR_OK) {
        assert(eb.text[0] != '\0');
        for (unsigned c = 0; c < TRUNCATED_LISTS; c++)
            assert(r.of[c].count == 0);
        return 0;
    }
    buf_init(&bytes, 1u << 20);
    truncated_encode(&r, &bytes);
    assert(truncated_decode(buf_span(&bytes), &again, &eb) == ERR_OK);
    assert(r.durable_mark == again.durable_mark);
    assert(r.damaged == again.damaged);
    for (unsigned c = 0; c < TRUNCATED_LISTS; c++) {
        assert(r.of[c].count == again.of[c].count);
        for (uint32_t i = 0; i < r.of[c].count; i++) {
            const struct truncated_range *at = &r.of[c].at[i];

            assert(memcmp(at, &again.of[c].at[i], sizeof *at) == 0);
            assert(covers(&r, c, at->first, at->last));
            assert(!covers(&r, c, at->first - 1, at->last));
        }
    }
    buf_fini(&bytes);
    truncated_fini(&r);
    truncated_fini(&again);
    return 0;
}
