/* The index held against what was counted when it was written, a piece at a time. */
#include "disk/scrub.h"

enum err
scrub_read_index(struct disk *d, const _Atomic bool *stop,
                 enum err (*on_bytes)(void *arg, uint64_t bytes), void *arg,
                 struct errbuf *eb)
{
    bool over = false;
    enum err rc = index_prove_begin(d->index, stop, eb);

    if (rc != ERR_OK)
        return rc;
    while (rc == ERR_OK && !over) {
        uint64_t bytes;

        rc = index_prove_some(d->index, &bytes, &over, eb);
        if (rc == ERR_OK && !over)
            rc = on_bytes(arg, bytes);
    }
    index_prove_end(d->index);
    return rc;
}
