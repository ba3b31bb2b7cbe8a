#include "object/pace.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/mem.h"

struct object_pace {
    _Atomic uint32_t refs;
    uint64_t rate;         /* bytes a second; 0: no limit */
    _Atomic uint64_t owed; /* when all that came may have come */
};

struct object_pace *
object_pace_new(uint64_t bytes_per_s)
{
    struct object_pace *p = xcalloc(1, sizeof *p);

    p->rate = bytes_per_s;
    atomic_init(&p->refs, 1);
    return p;
}

struct object_pace *
object_pace_ref(struct object_pace *p)
{
    if (p != NULL)
        atomic_fetch_add(&p->refs, 1);
    return p;
}

void
object_pace_drop(struct object_pace **pp)
{
    struct object_pace *p = *pp;

    *pp = NULL;
    if (p != NULL && atomic_fetch_sub(&p->refs, 1) == 1)
        free(p);
}

/* Time that nothing came in is not made up for: no burst follows it. */
uint64_t
object_pace_took(struct object_pace *p, uint64_t now_ns, uint64_t bytes)
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
object_pace_due(const struct object_pace *p)
{
    return atomic_load(&p->owed);
}
