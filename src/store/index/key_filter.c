#include "store/index/key_filter.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/num.h"

#define RECORD_LEAST 1536u /* bytes of a record in a log */
#define KEY_BITS     16u   /* for each: one in about fifty is taken for met */
#define WORDS_LEAST  512u
#define WORDS_MOST   (1u << 20) /* of one part */
#define WORDS_FAR    (1u << 12) /* of a part that is not in a near cache anyway */
#define PARTS_MOST   12u        /* 16 MiB: each is twice as large as the one before */

static_assert((WORDS_LEAST & (WORDS_LEAST - 1)) == 0, "a mask chooses the word");
static_assert((WORDS_MOST & (WORDS_MOST - 1)) == 0, "a mask chooses the word");
/* Three bits of one word a key, so that a question costs one cache miss for each part that is not small. */
struct part {
    uint64_t mask;
    uint64_t words[];
};
struct key_filter {
    struct part *at[PARTS_MOST]; /* owned */
    unsigned count;
    uint64_t left; /* keys that the last part still takes */
    bool complete;
};

static void
filter_grow(struct key_filter *k, uint64_t words)
{
    struct part *p = xcalloc(1, sizeof *p + words * sizeof p->words[0]);

    assert((words & (words - 1)) == 0);
    assert(words >= WORDS_LEAST && words <= WORDS_MOST);
    assert(k->count < PARTS_MOST);
    p->mask = words - 1;
    k->at[k->count++] = p;
    k->left = words * 64 / KEY_BITS;
}

struct key_filter *
key_filter_new(uint64_t log_bytes)
{
    uint64_t wanted = log_bytes / RECORD_LEAST * KEY_BITS / 64, words = WORDS_LEAST;
    struct key_filter *k = xcalloc(1, sizeof *k);

    while (words < wanted && words < WORDS_MOST)
        words *= 2;
    filter_grow(k, words);
    return k;
}

void
key_filter_free(struct key_filter **kp)
{
    struct key_filter *k = *kp;

    *kp = NULL;
    if (k == NULL)
        return;
    for (unsigned i = 0; i < k->count; i++)
        free(k->at[i]);
    free(k);
}

static uint64_t
filter_bits_of(uint64_t hash)
{
    return (uint64_t)1 << (hash >> 58) | (uint64_t)1 << (hash >> 52 & 63) |
           (uint64_t)1 << (hash >> 46 & 63);
}

/* A part that is full is followed by a larger one; the largest takes all that come. */
static void
filter_make_room(struct key_filter *k)
{
    uint64_t words = k->at[k->count - 1]->mask + 1;

    assert(k->count > 0);
    if (k->left == 0 && words < WORDS_MOST && k->count < PARTS_MOST)
        filter_grow(k, 2 * words);
}

void
key_filter_add(struct key_filter *k, uint64_t hash)
{
    struct part *p;

    if (key_filter_maybe(k, hash))
        return;
    filter_make_room(k);
    p = k->at[k->count - 1];
    p->words[hash & p->mask] |= filter_bits_of(hash);
    k->left -= k->left > 0 ? 1 : 0;
    assert(key_filter_maybe(k, hash));
}

void
key_filter_prefetch(const struct key_filter *k, uint64_t hash)
{
    for (unsigned i = k->count; i-- > 0 && k->at[i]->mask >= WORDS_FAR;)
        __builtin_prefetch(&k->at[i]->words[hash & k->at[i]->mask]);
}

bool
key_filter_maybe(const struct key_filter *k, uint64_t hash)
{
    uint64_t bits = filter_bits_of(hash);

    for (unsigned i = k->count; i-- > 0;) {
        const struct part *p = k->at[i];

        if ((p->words[hash & p->mask] & bits) == bits)
            return true;
    }
    return false;
}

void
key_filter_complete(struct key_filter *k)
{
    k->complete = true;
}

bool
key_filter_is_complete(const struct key_filter *k)
{
    return k->complete;
}
