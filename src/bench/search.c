#include "bench/search.h"

#include <assert.h>

#include "base/mem.h"

void
search_init(struct search *s, unsigned most, unsigned first)
{
    assert(first > 0 && first <= most);
    *s = (struct search){.bad = most + 1, .most = most, .first = first};
}

unsigned
search_next(const struct search *s)
{
    if (s->bad - s->good <= 1)
        return 0;
    if (s->bad > s->most && s->good == 0)
        return s->first;
    if (s->bad > s->most && s->first > 1 && s->good == s->first)
        return s->good + 1; /* as expected, if that one fails */
    if (s->bad > s->most)   /* none has failed */
        return MIN(2 * s->good, s->most);
    if (s->hope > s->good && s->hope < s->bad)
        return s->hope;
    if (s->said && s->hope == s->good)
        return s->good + 1;
    return s->good + (s->bad - s->good) / 2;
}

void
search_told(struct search *s, unsigned tried, bool passed, unsigned hope)
{
    assert(tried > s->good && tried < s->bad);
    if (passed)
        s->good = tried;
    else
        s->bad = tried;
    /* A hope that came true is the end, if the next one up fails. */
    s->hope = !passed ? hope : tried == s->hope && s->said ? tried + 1 : 0;
    s->said = !passed && hope > 0;
}
