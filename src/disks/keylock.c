#include "disks/keylock.h"

#include <assert.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/mem.h"

#define STRIPES 1024u

struct waiter {
    struct rt_waiter wait;
    struct list of_stripe;
};
struct stripe {
    bool held;
    struct list waiters;
};

struct keylocks {
    struct lock lock; /* protects the stripes; never held across a switch */
    struct stripe stripes[STRIPES];
};

struct keylocks *
keylocks_new(void)
{
    struct keylocks *l = xcalloc(1, sizeof *l);

    lock_init(&l->lock, LOCK_KEYS);
    for (unsigned i = 0; i < STRIPES; i++)
        list_init(&l->stripes[i].waiters);
    return l;
}

void
keylocks_free(struct keylocks **lp)
{
    struct keylocks *l = *lp;

    *lp = NULL;
    if (l == NULL)
        return;
    lock_fini(&l->lock);
    free(l);
}

void
keylock_take(struct keylocks *l, uint64_t key_hash)
{
    struct stripe *s = &l->stripes[key_hash % STRIPES];
    struct waiter w;

    rt_waiter_init(&w.wait);
    lock_acquire(&l->lock);
    if (!s->held) {
        s->held = true;
        lock_release(&l->lock);
        return;
    }
    list_push_back(&s->waiters, &w.of_stripe);
    lock_release(&l->lock);
    rt_wait(&w.wait);
}

void
keylock_release(struct keylocks *l, uint64_t key_hash)
{
    struct stripe *s = &l->stripes[key_hash % STRIPES];
    struct waiter *next = NULL;

    lock_acquire(&l->lock);
    assert(s->held);
    if (list_empty(&s->waiters))
        s->held = false;
    else
        next = LIST_ENTRY(list_pop_front(&s->waiters), struct waiter, of_stripe);
    lock_release(&l->lock);
    if (next != NULL)
        rt_wake(&next->wait); /* `held` passes to it */
}
