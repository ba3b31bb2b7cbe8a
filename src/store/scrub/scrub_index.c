/* The index held against what was counted when it was written, a piece at a time. */
#include "rt/fiber.h"
#include "store/core/core.h"
#include "store/index/index.h"
#include "store/scrub/scrub.h"

#define BUSY_MS 20u

enum err
scrub_read_index(struct store *d, const _Atomic bool *stop,
                 enum err (*on_bytes)(void *arg, uint64_t bytes), void *arg,
                 struct errbuf *eb)
{
    bool over = false;
    enum err rc = ERR_OK;

    index_prove_begin(d->index, stop);
    while (rc == ERR_OK && !over) {
        uint64_t bytes;

        rc = index_prove_some(d->index, &bytes, &over, eb);
        if (rc == ERR_BUSY) /* the pool has no room now: the same piece again */
            rc = rt_sleep_ms(BUSY_MS);
        if (rc == ERR_OK && !over)
            rc = on_bytes(arg, bytes);
    }
    index_prove_end(d->index);
    return rc;
}
