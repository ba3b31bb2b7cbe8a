/* Any bytes as a pattern: its names are made without a fault, and the first and last differ where there are two. */
#include <stdint.h>
#include <stdlib.h>

#include "base/mem.h"
#include "wire/brace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new(4096, MIB(1));
    struct errbuf eb = {0};
    struct brace *b;
    struct buf text;

    buf_init(&text, MIB(1));
    if (brace_parse((struct span){(const char *)data, size}, a, &b, &eb) == ERR_OK) {
        if (brace_count(b) == 0 || brace_count(b) > BRACE_COUNT_MAX)
            abort();
        brace_name(b, 0, &text);
        brace_name(b, brace_count(b) - 1, &text);
        brace_pattern(b, brace_count(b) / 2, &text);
    }
    buf_fini(&text);
    arena_free(&a);
    return 0;
}
