/* The index held against what was counted when it was written, a piece at a time. */
#include "rt/fiber.h"
#include "store/scrub/scrub.h"

#define BUSY_MS 20u

/* What came of a piece. ERR_BUSY: the pool has no place now; nothing has moved, and it is asked again. */
static enum err
wait_if_busy(enum err rc, enum err (*on_bytes)(void *arg, uint64_t bytes), void *arg)
{
    if (rc != ERR_BUSY)
        return rc;
    rc = rt_sleep_ms(BUSY_MS);
    if (rc == ERR_OK)
        rc = on_bytes(arg, 0);
    return rc == ERR_OK ? ERR_BUSY : rc;
}

enum err
scrub_read_index(struct store *d, const _Atomic bool *stop,
                 enum err (*on_bytes)(void *arg, uint64_t bytes), void *arg,
                 struct errbuf *eb)
{
    bool over = false;
    enum err rc;

    do
        rc = wait_if_busy(index_prove_begin(d->index, stop, eb), on_bytes, arg);
    while (rc == ERR_BUSY);
    if (rc != ERR_OK)
        return rc;
    while (rc == ERR_OK && !over) {
        uint64_t bytes;

        rc = wait_if_busy(index_prove_some(d->index, &bytes, &over, eb), on_bytes, arg);
        if (rc == ERR_BUSY)
            rc = ERR_OK;
        else if (rc == ERR_OK && !over)
            rc = on_bytes(arg, bytes);
    }
    index_prove_end(d->index);
    return rc;
}
