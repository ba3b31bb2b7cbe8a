#include "store/wal/sync_mode.h"

#include "base/mem.h"

#define PROBE  32u /* one batch in so many uses the slower mode */
#define WEIGHT 8u  /* weight of the average against one new batch */
#define OUTLIER                                                                          \
    4u /* limit for one batch: this multiple of the average; it waited for others */

bool
sync_mode_as_one(struct sync_mode *d)
{
    bool probe = d->asked++ % PROBE == PROBE - 1;

    return probe ? !d->one : d->one;
}

void
sync_mode_took(struct sync_mode *d, bool one, uint64_t ns)
{
    uint64_t *usual = &d->usual_ns[one], now, other;

    ns = MAX(ns, 1u);
    *usual =
        *usual == 0 ? ns : (*usual * (WEIGHT - 1) + MIN(ns, OUTLIER * *usual)) / WEIGHT;
    now = d->usual_ns[d->one];
    other = d->usual_ns[!d->one];
    /* Switch only for a gain of an eighth or more, so that equal modes do not alternate. */
    if (now != 0 && other != 0 && other < now - now / WEIGHT)
        d->one = !d->one;
}
