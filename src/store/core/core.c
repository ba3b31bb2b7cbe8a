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

void
version_saw(struct store *d, const struct version *v)
{
    struct store_ids *ids = d->ids;

    assert(on_owner(d));
    if (v->epoch < atomic_load(&ids->map_epoch))
        return;
    atomic_store(&ids->map_epoch, v->epoch);
    if (v->counter > atomic_load(&ids->counter))
        atomic_store(&ids->counter, v->counter);
    assert(atomic_load(&ids->counter) >= v->counter);
}

struct content_id
content_mint(struct store *d)
{
    return content_id_of(d->epoch, d->o.node, next_id(d));
}
