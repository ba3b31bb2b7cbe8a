#include "rt/daemon.h"

#include <assert.h>

#include "rt/loop.h"

enum err
rt_daemon_start(struct rt_daemon *d, fiber_fn *run, void *arg)
{
    enum err rc;

    assert(!d->running);
    d->running = true;
    rc = rt_spawn(run, arg);
    if (rc != ERR_OK)
        d->running = false;
    return rc;
}

void
rt_daemon_over(struct rt_daemon *d)
{
    d->running = false;
    if (d->joiner != NULL)
        rt_wake(d->joiner);
}

void
rt_daemon_join(struct rt_daemon *d)
{
    struct rt_waiter over;

    if (!d->running)
        return;
    assert(d->joiner == NULL);
    rt_waiter_init(&over);
    d->joiner = &over;
    rt_wait(&over); /* owed by rt_daemon_over() */
}
