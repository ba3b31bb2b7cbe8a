#include "store/wal/sync_mode.h"

#include "base/mem.h"

#define PROBE  32u /* one batch of so many goes the slower way */
#define WEIGHT 8u  /* of the batches before, against one */
#define OUTLIER                                                                          \
    4u /* a batch that waited for something else counts as so many usual ones */

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
    /* By an eighth at least: what is as quick stays as it is. */
    if (now != 0 && other != 0 && other < now - now / WEIGHT)
        d->one = !d->one;
}
