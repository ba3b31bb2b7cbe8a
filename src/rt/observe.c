/* observe: reports the results of operations below a directory to its observer (rt/file.h). */
#include <assert.h>

#include "rt/internal.h"

struct rt_observer *
observer_ref(struct rt_observer *o)
{
    if (o != NULL) {
        uint32_t before = atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);

        assert(before > 0);
        (void)before;
    }
    return o;
}

void
rt_observer_drop(struct rt_observer **op)
{
    struct rt_observer *o = *op;

    *op = NULL;
    if (o != NULL && atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) == 1)
        o->free(o);
}

void
rt_dir_observe(struct rt_dir *d, struct rt_observer *o)
{
    rt_observer_drop(&d->observer);
    d->observer = observer_ref(o);
}

enum err
observer_may_begin(const struct rt_observer *o, const char *name, struct errbuf *eb)
{
    if (o == NULL || !atomic_load_explicit(&o->shut, memory_order_relaxed))
        return ERR_OK;
    return err_set(eb, ERR_IO, "'%s': its disk was taken out of service", name);
}

uint32_t
observer_begin(struct rt_observer *o)
{
    return o != NULL
               ? atomic_fetch_add_explicit(&o->in_flight, 1, memory_order_relaxed) + 1
               : 0;
}

void
observer_end(struct rt_observer *o, const struct rt_io_done *d)
{
    uint32_t before;

    if (o == NULL)
        return;
    assert(d->kind < RT_IOS_);
    assert(d->error >= 0);
    before = atomic_fetch_sub_explicit(&o->in_flight, 1, memory_order_relaxed);
    assert(before > 0);
    (void)before;
    atomic_fetch_add_explicit(&o->done, 1, memory_order_relaxed);
    o->on_io(o, d);
}
