#include "conf/suggest.h"

#include "base/mem.h"

enum { LONGEST = 64 };

void
suggest_begin(struct suggest *s, struct span word)
{
    *s = (struct suggest){.word = word, .distance = (unsigned)MIN(word.len / 3 + 1, 4)};
}

/* Insertions, deletions, replacements and swaps of neighbours that make b of a
 * (restricted Damerau-Levenshtein), by three rows of the usual table. */
static unsigned
distance(struct span a, struct span b)
{
    unsigned char rows[3][LONGEST + 1];
    unsigned char *before = rows[0], *last = rows[1], *now = rows[2];

    for (size_t j = 0; j <= b.len; j++)
        last[j] = (unsigned char)j;
    for (size_t i = 1; i <= a.len; i++) {
        unsigned char *oldest = before;

        now[0] = (unsigned char)i;
        for (size_t j = 1; j <= b.len; j++) {
            bool same = a.at[i - 1] == b.at[j - 1];
            unsigned least = last[j - 1] + !same;

            least = MIN(least, last[j] + 1u);
            least = MIN(least, now[j - 1] + 1u);
            if (i > 1 && j > 1 && a.at[i - 1] == b.at[j - 2] &&
                a.at[i - 2] == b.at[j - 1])
                least = MIN(least, before[j - 2] + 1u);
            now[j] = (unsigned char)least;
        }
        before = last;
        last = now;
        now = oldest;
    }
    return last[b.len];
}

void
suggest_offer(struct suggest *s, const char *name)
{
    struct span b = span_of(name);
    const char *dot = strrchr(name, '.');
    unsigned d;

    if (s->word.len == 0 || s->word.len > LONGEST || b.len > LONGEST)
        return;
    d = distance(s->word, b);
    if (dot != NULL && span_is(s->word, dot + 1))
        d = 1; /* the right name, its table forgotten */
    if (d < s->distance) {
        s->distance = d;
        s->best = name;
    }
}
