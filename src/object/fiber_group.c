#include "object/fiber_group.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/mem.h"
#include "object/keys.h"
#include "rt/loop.h"

struct of_loop {
    struct list members;
    unsigned busy;
    struct rt_cond ended;
};

struct fiber_group {
    _Atomic bool ending;
    struct of_loop *loops; /* owned; one a loop */
};

struct group_fiber {
    struct list link;
    struct fiber_group *group;
    struct fiber *fiber; /* once it has begun */
    void (*run)(void *arg);
    void *arg;
};

bool
fiber_group_is_ending(const struct fiber_group *g)
{
    return g->ending;
}

unsigned
fiber_group_busy(const struct fiber_group *g)
{
    return g->loops[rt_loop_index()].busy;
}

static void
run_member(void *arg)
{
    struct group_fiber *m = arg;
    struct of_loop *l = &m->group->loops[rt_loop_index()];

    assert(l->busy > 0);
    assert(m->fiber == NULL);
    m->fiber = rt_self();
    if (m->group->ending)
        rt_cancel(m->fiber);
    m->run(m->arg);
    list_remove(&m->link);
    free(m);
    if (--l->busy == 0)
        rt_cond_broadcast(&l->ended);
}

enum err
fiber_group_spawn(struct fiber_group *g, void (*run)(void *arg), void *arg)
{
    struct of_loop *l = &g->loops[rt_loop_index()];
    struct group_fiber *m;
    enum err rc;

    assert(run != NULL);
    if (g->ending)
        return ERR_CANCELLED;
    m = xcalloc(1, sizeof *m);
    *m = (struct group_fiber){.group = g, .run = run, .arg = arg};
    rc = rt_spawn(run_member, m);
    if (rc != ERR_OK) {
        free(m);
        return rc;
    }
    list_init(&m->link);
    list_push_back(&l->members, &m->link);
    l->busy++;
    return ERR_OK;
}

/* ---- begin and end ---- */

struct fiber_group *
fiber_group_new(void)
{
    struct fiber_group *g = xcalloc(1, sizeof *g);

    g->loops = xcalloc(rt_loop_count(), sizeof *g->loops);
    for (unsigned i = 0; i < rt_loop_count(); i++) {
        list_init(&g->loops[i].members);
        rt_cond_init(&g->loops[i].ended);
    }
    return g;
}

static void
group_end_on_loop(void *arg)
{
    struct fiber_group *g = arg;
    struct of_loop *l = &g->loops[rt_loop_index()];
    struct rt_shield shield;

    assert(g->ending);
    rt_shield_begin(&shield);
    LIST_EACH(&l->members, n)
    {
        struct group_fiber *m = LIST_ENTRY(n, struct group_fiber, link);

        if (m->fiber != NULL)
            rt_cancel(m->fiber);
    }
    while (l->busy > 0)
        if (rt_cond_wait(&l->ended, DEADLINE_NEVER) != ERR_OK)
            break;
    rt_shield_end(&shield);
}

void
fiber_group_end(struct fiber_group **gp)
{
    struct fiber_group *g = *gp;

    if (g == NULL)
        return;
    g->ending = true;
    for (unsigned i = 0; i < rt_loop_count(); i++)
        while (key_run_on_owner(i, group_end_on_loop, g) != ERR_OK)
            rt_yield(); /* no stack is free there: others are ending too */
    *gp = NULL;         /* only now: ending fibers read it */
    assert(g->ending);
    free(g->loops);
    free(g);
}
