#include "store/core/core.h"

#include "store/record/keys.h"
#include "store/store_entry.h"

enum err
on_owner_loop(struct store *d, fiber_fn *fn, void *arg)
{
    if (rt_loop_index() != d->o.owner_loop)
        return rt_call(d->o.owner_loop, fn, arg);
    fn(arg);
    return ERR_OK;
}

struct content_id
content_mint(struct store *d)
{
    return content_id_of(d->epoch, d->o.node, next_id(d));
}
