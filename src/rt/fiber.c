#include "rt/fiber.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/metrics.h"
#include "rt/internal.h"
#include "rt/sanitize.h"
#include "rt/switch.h"

/* ---- in and out ---- */

/* From the loop into `f`, until f waits or ends. */
void
fiber_enter(struct loop *l, struct fiber *f)
{
    assert(l == loop_self);
    assert(l->self == NULL);
    assert(f->fn != NULL);
    assert(!f->waiting);
    l->self = f;
    l->spent = 0;
    l->woken_behind = l->ready.prev;
    l->watchdog.doing = f->doing;
    ASAN_LEAVE(&l->asan_fake, f->stack_low, f->stack_size);
    TSAN_SWITCH(f->tsan_fiber);
    switch_to(&l->main_sp, f->sp);
    ASAN_ARRIVE(l->asan_fake, NULL, NULL);
    l->self = NULL;
    if (f->fn == NULL) {
        l->fibers--;
        stacks_put(&l->stacks, f);
    }
}

void
rt_doing(const char *what)
{
    assert(rt_self() != NULL);
    loop_self->self->doing = loop_self->watchdog.doing = what;
}

/* From the running fiber to its loop. */
static void
fiber_leave(struct fiber *f)
{
    struct loop *l = f->loop;

    assert(l->self == f);
    ASAN_LEAVE(f->fn != NULL ? &f->asan_fake : NULL, l->asan_low, l->asan_size);
    TSAN_SWITCH(l->tsan_fiber);
    switch_to(&f->sp, l->main_sp);
    ASAN_ARRIVE(f->asan_fake, NULL, NULL);
}

static void
leave_group(struct fiber *f)
{
    struct rt_group *g = f->group;

    assert(g->alive > 0);
    assert(!list_empty(&g->members));
    list_remove(&f->of_group);
    if (--g->alive == 0 && g->joiner != NULL)
        fiber_wake(g->joiner, ERR_OK);
}

static void
fiber_main(void *arg)
{
    struct fiber *f = arg;

    ASAN_ARRIVE(NULL, &f->loop->asan_low, &f->loop->asan_size);
    f->fn(f->arg);
    assert(f == rt_self());
    assert(list_empty(&f->groups)); /* else a group was not joined */
    assert(f->shields == 0);
    assert(!f->owed);
    assert(f->timer.place == TIMER_IDLE);
    leave_group(f);
    f->fn = NULL;
    fiber_leave(f);
    abort(); /* an ended fiber ran on */
}

static void
on_deadline(struct timer *t)
{
    fiber_wake(CONTAINER_OF(t, struct fiber, timer), ERR_TIMEOUT);
}

struct fiber *
fiber_start(struct loop *l, struct rt_group *group, struct deadline scope, fiber_fn *fn,
            void *arg)
{
    struct fiber *f = stacks_get(&l->stacks);

    assert(l == loop_self);
    assert(fn != NULL);
    if (f == NULL)
        return NULL;
    *f = (struct fiber){
        .loop = l,
        .fn = fn,
        .arg = arg,
        .group = group,
        .scope = scope,
        .background = l->self != NULL && l->self->background,
        .cancelled = group->cancelled,
        .stack_low = f->stack_low,
        .stack_size = f->stack_size,
        .tsan_fiber = f->tsan_fiber,
    };
    f->sp = switch_make(f->stack_low + f->stack_size, fiber_main, f);
    timer_init(&f->timer, on_deadline);
    list_init(&f->groups);
    list_init(&f->link);
    list_push_back(&group->members, &f->of_group);
    group->alive++;
    l->fibers++;
    l->started++;
    loop_ready(l, f);
    return f;
}

/* ---- waiting ---- */

static void
wait_here(struct fiber *f)
{
    assert(!f->waiting);
    assert(list_empty(&f->link)); /* it is in no run queue */
    f->waiting = true;
    fiber_leave(f);
    assert(!f->waiting);
    assert(f->loop == loop_self);
}

enum err
fiber_wait(struct deadline by)
{
    struct fiber *f = rt_self();
    struct loop *l = f->loop;
    enum err rc;

    assert(f != NULL);
    assert(!f->owed);
    assert(f->timer.place == TIMER_IDLE);
    if (f->cancelled && f->shields == 0)
        return ERR_CANCELLED;
    by = deadline_sooner(by, f->scope);
    if (by.at_ns <= l->now_ns)
        return ERR_TIMEOUT;
    if (l->ops->before_wait != NULL) {
        rc = l->ops->before_wait(l, false);
        if (rc != ERR_OK)
            return rc;
    }
    if (by.at_ns != UINT64_MAX)
        timer_add(&l->timers, &f->timer, by.at_ns);
    wait_here(f);
    timer_remove(&l->timers, &f->timer);
    return f->why;
}

void
fiber_wait_owed(void)
{
    struct fiber *f = rt_self();

    assert(f != NULL);
    assert(!f->owed);
    if (f->loop->ops->before_wait != NULL)
        (void)f->loop->ops->before_wait(f->loop, true);
    f->owed = true;
    wait_here(f);
    f->owed = false;
}

void
fiber_wake(struct fiber *f, enum err why)
{
    assert(f->loop == loop_self);
    if (!f->waiting)
        return;
    f->waiting = false;
    f->why = why;
    if (f->essential) /* others wait for it */
        list_push_front(&f->loop->ready, &f->link);
    else
        loop_ready(f->loop, f);
}

struct fiber *
rt_self(void)
{
    return loop_self != NULL ? loop_self->self : NULL;
}

void
rt_yield(void)
{
    struct fiber *f = rt_self();

    assert(f != NULL);
    loop_ready(f->loop, f);
    fiber_leave(f);
}

void
rt_run_woken(void)
{
    struct fiber *f = rt_self();
    struct loop *l = f->loop;
    struct list *n;

    assert(l->turn != NULL); /* a fiber runs within a turn */
    if (l->ready.prev == l->woken_behind)
        return;
    list_push_front(l->turn, &f->link);
    while ((n = l->ready.prev) != l->woken_behind) {
        list_remove(n);
        list_push_front(l->turn, n);
    }
    fiber_leave(f);
}

enum err
rt_sleep_until(struct deadline when)
{
    struct fiber *f = rt_self();
    enum err rc;

    assert(f != NULL);
    if (deadline_passed(when))
        return f->cancelled && f->shields == 0 ? ERR_CANCELLED : ERR_OK;
    rc = fiber_wait(when);
    return rc == ERR_TIMEOUT && deadline_passed(when) ? ERR_OK : rc;
}

enum err
rt_sleep_ms(uint64_t ms)
{
    return rt_sleep_until((struct deadline){rt_now_ns() + ms * 1000000u});
}

/* ---- cancellation ---- */

bool
rt_cancelled(void)
{
    return rt_self()->cancelled;
}

static void
cancel_groups(struct fiber *f)
{
    LIST_EACH(&f->groups, n)
    {
        rt_group_cancel(LIST_ENTRY(n, struct rt_group, of_parent));
    }
}

/* Inside a shield it has no effect yet; the end of the shield cancels the groups. */
void
rt_cancel(struct fiber *f)
{
    assert(f->loop == loop_self);
    if (f->cancelled)
        return;
    f->cancelled = true;
    if (f->shields > 0)
        return;
    cancel_groups(f);
    if (!f->owed)
        fiber_wake(f, ERR_CANCELLED);
}

void
rt_scope_begin(struct rt_scope *s, struct deadline by)
{
    struct fiber *f = rt_self();

    assert(f != NULL);
    s->outer = f->scope;
    f->scope = deadline_sooner(by, f->scope);
    assert(f->scope.at_ns <= s->outer.at_ns);
}

void
rt_scope_end(struct rt_scope *s)
{
    assert(rt_self()->scope.at_ns <= s->outer.at_ns);
    rt_self()->scope = s->outer;
}

struct deadline
rt_scope_now(void)
{
    return rt_self()->scope;
}

void
rt_retries_begin(struct rt_retries *r)
{
    struct fiber *f = rt_self();

    assert(f != NULL);
    *r = (struct rt_retries){.left = RT_RETRIES, .outermost = f->retries == NULL};
    if (r->outermost)
        f->retries = r;
}

void
rt_retries_end(struct rt_retries *r)
{
    struct fiber *f = rt_self();

    assert(f->retries != NULL);
    assert(!r->outermost || f->retries == r);
    if (r->outermost)
        f->retries = NULL;
}

bool
rt_retry(void)
{
    struct rt_retries *r = rt_self()->retries;

    assert(r != NULL);
    assert(r->left <= RT_RETRIES);
    if (r->left == 0)
        return false;
    r->left--;
    return true;
}

void
rt_shield_begin(struct rt_shield *s)
{
    struct fiber *f = rt_self();

    s->outer = f->scope;
    f->scope = DEADLINE_NEVER;
    f->shields++;
    assert(f->shields > 0); /* no overflow */
}

void
rt_shield_end(struct rt_shield *s)
{
    struct fiber *f = rt_self();

    assert(f->shields > 0);
    f->scope = s->outer;
    if (--f->shields == 0 && f->cancelled)
        cancel_groups(f);
}

/* ---- groups ---- */

void
rt_group_begin(struct rt_group *g)
{
    struct fiber *f = rt_self();

    *g = (struct rt_group){.cancelled = f != NULL && f->cancelled && f->shields == 0};
    list_init(&g->members);
    list_init(&g->of_parent);
    if (f != NULL)
        list_push_back(&f->groups, &g->of_parent);
}

/* A child of a cancelled group runs all the same, cancelled from the start: it may own what it was given. */
enum err
rt_group_start(struct rt_group *g, fiber_fn *fn, void *arg)
{
    struct fiber *f = rt_self();

    assert(f != NULL);
    return fiber_start(f->loop, g, f->scope, fn, arg) != NULL ? ERR_OK : ERR_BUSY;
}

void
rt_group_cancel(struct rt_group *g)
{
    if (g->cancelled)
        return;
    g->cancelled = true;
    LIST_EACH(&g->members, n)
    {
        rt_cancel(LIST_ENTRY(n, struct fiber, of_group));
    }
}

void
rt_group_join(struct rt_group *g)
{
    assert(g->joiner == NULL);
    assert(rt_self() != NULL);
    g->joiner = rt_self();
    while (g->alive > 0)
        fiber_wait_owed();
    assert(g->joiner == rt_self());
    assert(list_empty(&g->members));
    g->joiner = NULL;
    list_remove(&g->of_parent);
}

enum err
rt_spawn(fiber_fn *fn, void *arg)
{
    struct loop *l = loop_self;

    assert(l != NULL);
    return fiber_start(l, &l->root, DEADLINE_NEVER, fn, arg) != NULL ? ERR_OK : ERR_BUSY;
}
