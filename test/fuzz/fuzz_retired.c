/* Any bytes: a list of retired logs that reads formats back to one that reads the same, and covers what it says. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "disk/retired.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct retired r, again;
    struct errbuf eb = {0};
    struct buf bytes;

    if (retired_decode((struct span){(const char *)data, size}, &r, &eb) != ERR_OK) {
        assert(eb.text[0] != '\0');
        assert(r.of[DISK_NATIVE].count == 0 && r.of[DISK_CACHED].count == 0);
        return 0;
    }
    buf_init(&bytes, 1u << 20);
    retired_encode(&r, &bytes);
    assert(retired_decode(buf_span(&bytes), &again, &eb) == ERR_OK);
    for (unsigned c = 0; c < DISK_CLASSES_; c++) {
        assert(r.of[c].count == again.of[c].count);
        for (uint32_t i = 0; i < r.of[c].count; i++) {
            const struct retired_range *at = &r.of[c].at[i];

            assert(memcmp(at, &again.of[c].at[i], sizeof *at) == 0);
            assert(retired_covers(&r, (enum disk_class)c, at->first, at->last));
            assert(!retired_covers(&r, (enum disk_class)c, at->first - 1, at->last));
        }
    }
    buf_fini(&bytes);
    retired_fini(&r);
    retired_fini(&again);
    return 0;
}
