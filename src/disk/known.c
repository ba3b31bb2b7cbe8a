#include "disk/known.h"

#include <stdlib.h>

#include "base/mem.h"

#define RECORD_LEAST 1536u /* bytes of a record in a log */
#define KEY_BITS     16u   /* for each: one in about fifty is taken for met */
#define WORDS_LEAST  512u
#define WORDS_MOST   (2u << 20)

/* Three bits of one word a key, so that a question costs one cache miss. */
struct known {
    uint64_t mask;
    uint64_t words[];
};

struct known *
known_new(uint64_t log_bytes)
{
    uint64_t wanted = log_bytes / RECORD_LEAST * KEY_BITS / 64, words = WORDS_LEAST;
    struct known *k;

    while (words < wanted && words < WORDS_MOST)
        words *= 2;
    k = xcalloc(1, sizeof *k + words * sizeof k->words[0]);
    k->mask = words - 1;
    return k;
}

void
known_free(struct known **kp)
{
    free(*kp);
    *kp = NULL;
}

static uint64_t
bits_of(uint64_t hash)
{
    return (uint64_t)1 << (hash >> 58) | (uint64_t)1 << (hash >> 52 & 63) |
           (uint64_t)1 << (hash >> 46 & 63);
}

void
known_add(struct known *k, uint64_t hash)
{
    k->words[hash & k->mask] |= bits_of(hash);
}

void
known_prefetch(const struct known *k, uint64_t hash)
{
    __builtin_prefetch(&k->words[hash & k->mask]);
}

bool
known_maybe(const struct known *k, uint64_t hash)
{
    uint64_t bits = bits_of(hash);

    return (k->words[hash & k->mask] & bits) == bits;
}
