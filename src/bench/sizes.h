/* sizes: how large the objects of a benchmark are: one size, anything between two, or a mix. Any thread. */
#pragma once
#include <stdint.h>

#include "base/err.h"

#define SIZES_MAX 16
struct sizes {
    unsigned count;
    struct {
        uint64_t from,
            to; /* the same: exactly that; else each doubling between them is as likely as the next */
        uint64_t until; /* of the weights so far */
    } at[SIZES_MAX];
};
/* "4KiB", "4KiB-1MiB", "4KiB:70,1MiB-64MiB:30". ERR_BAD_REQUEST. */
enum err sizes_parse(const char *text, uint64_t most, struct sizes *out,
                     struct errbuf *eb) MUST_CHECK;
/* The size of object `number`: the same each time. */
uint64_t sizes_of(const struct sizes *s, uint64_t number);
