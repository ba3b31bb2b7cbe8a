#include "rt/sync.h"

#include <assert.h>

#include "rt/internal.h"

/* One waiting fiber, on its own stack. The waker takes it off the list first. */
struct waiting {
    struct list link;
    struct fiber *fiber;
};

static enum err
wait_in(struct list *waiters, struct deadline by)
{
    struct waiting w = {.fiber = rt_self()};
    enum err rc;

    assert(w.fiber != NULL);
    list_push_back(waiters, &w.link);
    rc = fiber_wait(by);
    list_remove(&w.link);
    return rc;
}

static bool
wake_first(struct list *waiters)
{
    struct list *n = list_pop_front(waiters);

    if (n == NULL)
        return false;
    assert(LIST_ENTRY(n, struct waiting, link)->fiber->loop == loop_self);
    fiber_wake(LIST_ENTRY(n, struct waiting, link)->fiber, ERR_OK);
    return true;
}

void
rt_cond_init(struct rt_cond *c)
{
    list_init(&c->waiters);
}

enum err
rt_cond_wait(struct rt_cond *c, struct deadline by)
{
    return wait_in(&c->waiters, by);
}

/* A fiber whose wait has ended otherwise, but which has not run since, is still in the list: it must not swallow a signal
 * that another one needs. */
void
rt_cond_signal(struct rt_cond *c)
{
    LIST_EACH(&c->waiters, n)
    {
        struct waiting *w = LIST_ENTRY(n, struct waiting, link);
        bool still_waits = w->fiber->waiting;

        assert(w->fiber != rt_self());
        list_remove(n);
        fiber_wake(w->fiber, ERR_OK);
        if (still_waits)
            return;
    }
}

void
rt_cond_broadcast(struct rt_cond *c)
{
    while (wake_first(&c->waiters))
        ;
}

void
rt_sem_init(struct rt_sem *s, unsigned count)
{
    list_init(&s->waiters);
    s->free = count;
}

bool
rt_sem_try_acquire(struct rt_sem *s)
{
    if (s->free == 0 || !list_empty(&s->waiters))
        return false;
    s->free--;
    return true; /* a unit is free only while no fiber waits */
}

/* A release hands its unit to the first waiter, whose wait then ends with ERR_OK whatever else happens. */
enum err
rt_sem_acquire(struct rt_sem *s, struct deadline by)
{
    return rt_sem_try_acquire(s) ? ERR_OK : wait_in(&s->waiters, by);
}

void
rt_sem_release(struct rt_sem *s)
{
    LIST_EACH(&s->waiters, n)
    {
        struct waiting *w = LIST_ENTRY(n, struct waiting, link);

        list_remove(n);
        if (w->fiber->waiting) {
            fiber_wake(w->fiber, ERR_OK);
            return;
        }
    }
    s->free++;
    assert(s->free > 0); /* no overflow */
    assert(list_empty(&s->waiters));
}
