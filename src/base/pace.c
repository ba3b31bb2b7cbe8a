#include "base/pace.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/mem.h"

struct pace {
    _Atomic uint32_t refs;
    uint64_t rate;         /* bytes a second; 0: no limit */
    _Atomic uint64_t owed; /* when everything that arrived was allowed to arrive */
};

struct pace *
pace_new(uint64_t bytes_per_s)
{
    struct pace *p = xcalloc(1, sizeof *p);

    p->rate = bytes_per_s;
    atomic_init(&p->refs, 1);
    return p;
}

struct pace *
pace_ref(struct pace *p)
{
    if (p != NULL)
        atomic_fetch_add(&p->refs, 1);
    return p;
}

void
pace_drop(struct pace **pp)
{
    struct pace *p = *pp;

    *pp = NULL;
    if (p != NULL && atomic_fetch_sub(&p->refs, 1) == 1)
        free(p);
}

/* Idle time earns no credit: no burst follows it. */
uint64_t
pace_spent(struct pace *p, uint64_t now_ns, uint64_t bytes)
{
    uint64_t owed = atomic_load(&p->owed), next;

    if (p->rate == 0)
        return 0;
    do {
        next = MAX(owed, now_ns) + (uint64_t)((double)bytes * 1e9 / (double)p->rate);
    } while (!atomic_compare_exchange_weak(&p->owed, &owed, next));
    return next;
}

uint64_t
pace_due(const struct pace *p)
{
    return atomic_load(&p->owed);
}
