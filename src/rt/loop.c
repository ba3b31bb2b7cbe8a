#include "rt/loop.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/metrics.h"
#include "rt/internal.h"
#include "rt/real.h"
#include "rt/sanitize.h"

_Thread_local struct loop *loop_self;

/* ---- mailbox ---- The sender pushes, then looks whether the loop sleeps; the loop says
 * that it sleeps, then looks whether there is something. All four are sequentially
 * consistent, so at least one of them sees the other. */

void
mailbox_push(struct loop *l, struct rt_msg *m)
{
    struct rt_msg *head = atomic_load_explicit(&l->box.head, memory_order_relaxed);

    assert(m->fn != NULL);
    do {
        m->next = head;
    } while (!atomic_compare_exchange_weak(&l->box.head, &head, m));
    if (l != loop_self && atomic_load(&l->box.asleep) &&
        atomic_exchange(&l->box.asleep, false))
        l->ops->wake(l);
}

void
rt_post(unsigned loop, struct rt_msg *m)
{
    mailbox_push(loop_at(loop), m);
}

/* Oldest first. What handlers post to this loop is left for the next turn. */
static void
mailbox_drain(struct loop *l)
{
    struct rt_msg *m, *oldest = NULL;

    if (atomic_load_explicit(&l->box.head, memory_order_relaxed) == NULL)
        return;
    m = atomic_exchange(&l->box.head, NULL);
    while (m != NULL) {
        struct rt_msg *next = m->next;

        m->next = oldest;
        oldest = m;
        m = next;
    }
    while (oldest != NULL) {
        struct rt_msg *next = oldest->next; /* the handler may free it */

        l->messages++;
        oldest->fn(oldest);
        oldest = next;
    }
}

void
rt_after_poll(struct rt_after_poll *s)
{
    assert(loop_self != NULL);
    assert(s->fn != NULL);
    list_push_back(&loop_self->soon, &s->link);
}

void
rt_before_submit(struct rt_after_poll *s)
{
    assert(loop_self != NULL);
    assert(s->fn != NULL);
    list_push_back(&loop_self->before_submit, &s->link);
}

static void
run_deferred(struct list *due)
{
    struct list *n;

    while ((n = list_pop_front(due)) != NULL) {
        struct rt_after_poll *s = LIST_ENTRY(n, struct rt_after_poll, link);

        s->fn(s);
    }
}

void
loop_run_before_submit(struct loop *l)
{
    run_deferred(&l->before_submit);
}

/* ---- turns ---- */

void
loop_ready(struct loop *l, struct fiber *f)
{
    assert(f->loop == l);
    assert(list_empty(&f->link));
    list_push_back(&l->ready, &f->link);
}

/* Runs the fibers that are ready now. Fibers that become ready meanwhile wait until the next poll of the kernel. */
static void
loop_run_ready(struct loop *l)
{
    struct list now;
    struct list *n;
    int64_t switches = 0;

    if (list_empty(&l->ready))
        return;
    now = l->ready;
    now.next->prev = &now;
    now.prev->next = &now;
    list_init(&l->ready);
    assert(l->turn == NULL); /* turns do not nest */
    l->turn = &now;
    while ((n = list_pop_front(&now)) != NULL) {
        struct fiber *f = LIST_ENTRY(n, struct fiber, link);
        fiber_fn *fn = f->fn; /* it may end */

        fiber_enter(l, f);
        watchdog_mark(&l->watchdog,
                      l->watchdog.doing != NULL ? l->watchdog.doing : "a fiber", fn);
        switches++;
    }
    l->turn = NULL;
    metric_add(M_SWITCHES, 0, switches);
}

bool
rt_others_ready(void)
{
    const struct loop *l = loop_self;

    return !list_empty(&l->ready) || (l->turn != NULL && !list_empty(l->turn));
}

static void
count_fibers(struct loop *l)
{
    if (l->fibers != l->fibers_counted)
        metric_add(M_FIBERS, 0, (int64_t)l->fibers - (int64_t)l->fibers_counted);
    l->fibers_counted = l->fibers;
}

void
loop_turn(struct loop *l)
{
    uint64_t until;

    assert(l == loop_self);
    assert(l->self == NULL);
    assert(!l->exit);
    l->now_ns = l->ops->now_ns();
    if (l->watchdog.from_ns != 0)
        watchdog_end(&l->watchdog, l->index, l->now_ns);
    watchdog_begin(&l->watchdog, l->now_ns);
    loop_run_before_submit(l);
    run_deferred(&l->soon);
    watchdog_mark(&l->watchdog, "rt_after_poll callbacks", NULL);
    mailbox_drain(l);
    watchdog_mark(&l->watchdog, "messages", NULL);
    timer_run(&l->timers, l->now_ns);
    watchdog_mark(&l->watchdog, "timers", NULL);
    stream_start_due(l);
    loop_run_ready(l);
    count_fibers(l);
    if (l->exit)
        return;
    if (l->token != NULL && loop_quiet(l))
        loop_pass_token(l);

    until = timer_next(&l->timers);
    if (!list_empty(&l->ready) || !list_empty(&l->soon) ||
        !list_empty(&l->before_submit)) {
        until = 0;
    } else {
        atomic_store(&l->box.asleep, true);
        if (atomic_load(&l->box.head) != NULL)
            until = 0;
    }
    if (until != 0) /* the time asleep is none of the turn's */
        watchdog_end(&l->watchdog, l->index, l->ops->now_ns());
    l->ops->wait(l, until);
    if (until == 0)
        watchdog_mark(&l->watchdog, "asking the kernel", NULL);
    atomic_store_explicit(&l->box.asleep, false, memory_order_relaxed);
}

enum err
loop_open(struct loop *l, const struct rt_options *o, unsigned loops, struct errbuf *eb)
{
    enum err rc;

    assert(loop_self == NULL); /* one loop per thread */
    assert(loops > 0);
    loop_self = l;
    list_init(&l->ready);
    list_init(&l->parked);
    list_init(&l->due);
    list_init(&l->soon);
    list_init(&l->before_submit);
    list_init(&l->disks);
    rt_group_begin(&l->root);
    watchdog_init(&l->watchdog, o->turn_limit_ms);
    l->tsan_fiber = TSAN_CURRENT();
    l->now_ns = l->ops->now_ns();
    metrics_thread_begin();
    rc = stacks_init(&l->stacks, o->fibers_max, loops, eb);
    if (rc == ERR_OK)
        rc = l->ops->open(l, eb);
    if (rc != ERR_OK) {
        stacks_fini(&l->stacks);
        loop_self = NULL;
    }
    return rc;
}

void
loop_close(struct loop *l)
{
    assert(l == loop_self);
    assert(l->fibers == 0);
    assert(l->in_flight == 0);
    assert(l->root.alive == 0);
    assert(list_empty(&l->ready));
    assert(list_empty(&l->parked));
    assert(list_empty(&l->due));
    assert(l->retired == NULL);
    l->ops->close(l);
    io_queues_free(l);
    iobuf_free_idle(l);
    sendable_pipe_free(&l->zero_copy_pipe);
    timer_fini(&l->timers);
    stacks_fini(&l->stacks);
    loop_self = NULL;
}

void
loop_stop(struct loop *l)
{
    assert(l == loop_self);
    l->stopping = true;
    rt_group_cancel(&l->root);
    stream_unpark_all(l);
}

bool
loop_quiet(const struct loop *l)
{
    return l->stopping && l->fibers == 0 && l->in_flight == 0 && list_empty(&l->parked) &&
           list_empty(&l->due) && l->retired == NULL && !l->retiring;
}

/* ---- between loops ---- */

struct call {
    struct rt_msg msg;
    struct rt_waiter waiter;
    fiber_fn *fn;
    void *arg;
    struct deadline scope;
    struct rt_retries *retries; /* of the caller, which waits meanwhile */
    struct fiber *fiber;        /* on its loop: while fn runs */
    enum err rc;

    struct rt_msg cancel;
    struct rt_waiter cancel_seen; /* `cancel` has arrived */
};

static void
run_call(void *arg)
{
    struct call *c = arg;

    assert(c->fiber == rt_self());
    c->fn(c->arg);
    c->fiber = NULL;
    rt_wake(&c->waiter);
}

static void
on_call(struct rt_msg *m)
{
    struct call *c = CONTAINER_OF(m, struct call, msg);
    struct loop *l = loop_self;

    assert(c->fiber == NULL);
    c->fiber = fiber_start(l, &l->root, c->scope, run_call, c);
    if (c->fiber != NULL) {
        c->fiber->retries = c->retries;
        return;
    }
    c->rc = ERR_BUSY;
    rt_wake(&c->waiter);
}

enum err
rt_call(unsigned loop, fiber_fn *fn, void *arg)
{
    struct call c = {.fn = fn,
                     .arg = arg,
                     .scope = rt_scope_now(),
                     .retries = rt_self()->retries,
                     .rc = ERR_OK};

    c.msg.fn = on_call;
    rt_waiter_init(&c.waiter);
    rt_post(loop, &c.msg);
    rt_wait(&c.waiter);
    return c.rc;
}

static void
on_cancel(struct rt_msg *m)
{
    struct call *c = CONTAINER_OF(m, struct call, cancel);

    if (c->fiber != NULL)
        rt_cancel(c->fiber);
    rt_wake(&c->cancel_seen);
}

/* False: the fiber was cancelled, or its deadline passed, before the wake came. */
static bool
wait_unless_cancelled(struct rt_waiter *w)
{
    enum err rc = ERR_OK;

    w->fiber = rt_self();
    while (rc == ERR_OK && !w->done)
        rc = fiber_wait(DEADLINE_NEVER);
    w->fiber = NULL;
    return w->done;
}

/* Messages arrive in order: the call before its cancel. Both lie on this stack until the other loop has handled both. */
enum err
rt_call_cancellable(unsigned loop, fiber_fn *fn, void *arg)
{
    struct call c = {.fn = fn,
                     .arg = arg,
                     .scope = rt_scope_now(),
                     .retries = rt_self()->retries,
                     .rc = ERR_OK};

    c.msg.fn = on_call;
    rt_waiter_init(&c.waiter);
    rt_post(loop, &c.msg);
    if (wait_unless_cancelled(&c.waiter))
        return c.rc;
    if (rt_cancelled()) {
        c.cancel.fn = on_cancel;
        rt_waiter_init(&c.cancel_seen);
        rt_post(loop, &c.cancel);
        rt_wait(&c.cancel_seen);
    }
    rt_wait(&c.waiter);
    return c.rc;
}

static void
on_waiter_wake(struct rt_msg *m)
{
    struct rt_waiter *w = CONTAINER_OF(m, struct rt_waiter, msg);

    assert(w->loop == loop_self->index);
    assert(!w->done); /* one wake per wait */
    w->done = true;
    if (w->fiber != NULL)
        fiber_wake(w->fiber, ERR_OK);
}

void
rt_waiter_init(struct rt_waiter *w)
{
    *w = (struct rt_waiter){.msg.fn = on_waiter_wake, .loop = rt_loop_index()};
}

/* w->fiber is set only while the fiber waits here: an earlier wake must not end another wait of it. */
void
rt_wait(struct rt_waiter *w)
{
    assert(rt_self() != NULL);
    assert(w->fiber == NULL);
    w->fiber = rt_self();
    while (!w->done)
        fiber_wait_owed();
    w->fiber = NULL;
}

void
rt_wake(struct rt_waiter *w)
{
    if (loop_self != NULL && loop_self->index == w->loop)
        on_waiter_wake(&w->msg);
    else
        rt_post(w->loop, &w->msg);
}

/* ---- retiring (epoch-based reclamation) ---- A round is one message that visits every loop and returns to its origin.
 * Loops handle messages between fibers, so when it returns no fiber anywhere still uses what it looked up before the round
 * began. What is retired during a round waits for the next one. */

struct retired {
    struct retired *next;
    void (*fn)(void *ptr);
    void *ptr;
};
struct round {
    struct rt_msg msg;
    unsigned origin, at;
    struct retired *list; /* owned */
};

static void on_round(struct rt_msg *m);

static void
send_round(struct loop *l)
{
    struct round *r = xmalloc(sizeof *r);

    assert(!l->retiring);
    assert(l->retired != NULL);
    *r = (struct round){.msg.fn = on_round, .origin = l->index, .list = l->retired};
    r->at = (l->index + 1) % rt_loop_count();
    l->retired = NULL;
    l->retiring = true;
    rt_post(r->at, &r->msg);
}

static void
on_round(struct rt_msg *m)
{
    struct round *r = CONTAINER_OF(m, struct round, msg);
    struct loop *l = loop_self;
    struct retired *list = r->list;

    if (r->at != r->origin) {
        r->at = (r->at + 1) % rt_loop_count();
        rt_post(r->at, &r->msg);
        return;
    }
    assert(l->index == r->origin);
    assert(l->retiring);
    free(r);
    l->retiring = false;
    if (l->retired != NULL)
        send_round(l);
    while (list != NULL) {
        struct retired *next = list->next;

        list->fn(list->ptr);
        free(list);
        list = next;
    }
}

void
rt_retire(void (*fn)(void *ptr), void *ptr)
{
    struct loop *l = loop_self;
    struct retired *r = xmalloc(sizeof *r);

    assert(l != NULL);
    assert(fn != NULL);
    *r = (struct retired){.next = l->retired, .fn = fn, .ptr = ptr};
    l->retired = r;
    if (!l->retiring)
        send_round(l);
}

enum err
rt_blocking(void (*work)(void *arg), void *arg, struct deadline by)
{
    return loop_self->ops->blocking(work, arg, by);
}

/* ---- the clocks ---- */

uint64_t
rt_now_ns(void)
{
    return rt_engine_ops()->now_ns();
}

uint64_t
rt_turn_ns(void)
{
    return loop_self != NULL ? loop_self->now_ns : rt_now_ns();
}

uint64_t
rt_boot_ns(void)
{
    return rt_engine_ops()->kind == RT_SIM ? rt_now_ns() : real_boot_ns();
}

uint64_t
rt_wall_ns(void)
{
    return rt_engine_ops()->wall_ns();
}

/* ---- daemons ---- */

enum err
rt_daemon_start(struct rt_daemon *d, fiber_fn *run, void *arg)
{
    enum err rc;

    assert(!d->running);
    assert(d->joiner == NULL);
    d->running = true;
    rc = rt_spawn(run, arg);
    if (rc != ERR_OK)
        d->running = false;
    return rc;
}

void
rt_daemon_over(struct rt_daemon *d)
{
    assert(d->running);
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
