/* search: the largest number that passes, in few tries: doubled until one fails, then between the two, where the one that failed
 * may say what it lets hope for. Begun at what is expected, two tries tell that it is so. Passing is taken to be monotonic. Plain data.
 */
#pragma once
#include <stdbool.h>

struct search {
    unsigned good; /* the largest that passed; 0: none */
    unsigned bad;  /* the smallest that failed; most + 1: none */
    unsigned most, first;
    unsigned hope; /* to be tried next, if it lies between the two; 0: nothing */
    bool said;     /* `hope` is what one that failed said */
};
/* `first`: where to begin, at most `most`; 1 unless something is known. */
void search_init(struct search *s, unsigned most, unsigned first);
/* The next to try; 0: it is over, and `good` is the result. */
unsigned search_next(const struct search *s);
/* `hope`: about how many would pass, as one that failed says; 0: it does not. */
void search_told(struct search *s, unsigned tried, bool passed, unsigned hope);
