/* run: the start and the end of everything: threads and their loops, the engine in force, and how all loops detect
 * together that nothing is left to do. */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "rt/internal.h"
#include "rt/limits.h"
#include "rt/real.h"

/* The stop token visits the loops at the end; each keeps it until it is quiet. When two rounds in a row count the
 * same number of fibers and messages, nothing happened between them, and nothing is in transit. */
struct stop_token {
    struct rt_msg msg;
    unsigned at;
    uint64_t count, last_count;
};

struct start {
    /* Any thread, holding `lock`. */
    struct lock lock;
    pthread_cond_t changed;
    unsigned reported;
    enum err rc;
    bool decided;  /* all have reported: run, or close again */
    unsigned left; /* loops that have made their last turn */
    bool may_close;
};

struct seat {
    pthread_t thread;
    int cpu; /* -1: not bound */
    bool joinable;
    struct rt_msg stop, exit;
};

struct runtime {
    const struct rt_options *options;
    struct loop *loops; /* owned */
    struct seat *seats; /* owned */
    unsigned count;
    fiber_fn *main;
    void *main_arg;
    struct stop_token token;
    struct start start;
};

/* Functions find their runtime without a parameter. A process has one; the simulator has one for each of its nodes, and
 * runtime_enter() says which of them this thread works in. The engine is the same for all. */
static struct runtime of_process;
static struct runtime *rt = &of_process;
static const struct engine_ops *engine = &epoll_ops;

const struct engine_ops *
rt_engine_ops(void)
{
    return engine;
}

enum rt_engine
rt_engine_now(void)
{
    return engine->kind;
}

const char *
rt_engine_name(enum rt_engine e)
{
    static const char *const names[] = {
        [RT_AUTO] = "auto", [RT_URING] = "uring", [RT_EPOLL] = "epoll", [RT_SIM] = "sim"};

    assert(e < ARRAY_LEN(names));
    return names[e];
}

unsigned
rt_loop_count(void)
{
    return rt->count;
}

unsigned
rt_loop_index(void)
{
    assert(loop_self != NULL);
    return loop_self->index;
}

bool
rt_on_loop(void)
{
    return loop_self != NULL;
}

struct loop *
loop_at(unsigned index)
{
    assert(index < rt->count);
    return &rt->loops[index];
}

/* ---- the end ---- */

static void
on_exit_message(struct rt_msg *m)
{
    (void)m;
    assert(loop_self->messages > 0);
    assert(!loop_self->exit);
    loop_self->messages--;
    loop_self->exit = true;
}

static void
on_stop_message(struct rt_msg *m)
{
    (void)m;
    loop_stop(loop_self);
}

static void
run_on_token(struct rt_msg *m)
{
    assert(loop_self->token == NULL); /* there is one token */
    loop_self->messages--;            /* the token itself is no work */
    loop_self->token = CONTAINER_OF(m, struct stop_token, msg);
}

/* With the token and quiet: count, and pass it on; after a full round loop 0 decides whether to end. */
void
loop_pass_token(struct loop *l)
{
    struct stop_token *t = l->token;

    assert(t != NULL);
    assert(loop_quiet(l));
    if (l->index == 0 && t->at == rt->count) {
        if (t->count == t->last_count) {
            for (unsigned i = 0; i < rt->count; i++) {
                rt->seats[i].exit.fn = on_exit_message;
                rt_post(i, &rt->seats[i].exit);
            }
            l->token = NULL;
            return;
        }
        t->last_count = t->count;
        t->count = 0;
        t->at = 0;
    }
    t->count += l->started + l->messages;
    t->at++;
    l->token = NULL;
    rt_post(t->at % rt->count, &t->msg);
}

static void
run_main(void *arg)
{
    (void)arg;
    rt->main(rt->main_arg);
    for (unsigned i = 0; i < rt->count; i++) {
        rt->seats[i].stop.fn = on_stop_message;
        rt_post(i, &rt->seats[i].stop);
    }
    rt->token = (struct stop_token){.msg.fn = run_on_token, .last_count = UINT64_MAX};
    rt_post(0, &rt->token.msg);
}

/* ---- the start ---- */

/* Every loop reports whether it opened, and learns whether all did. */
static enum err
run_report_start(enum err rc)
{
    struct start *s = &rt->start;

    lock_acquire(&s->lock);
    s->reported++;
    assert(s->reported < rt->count); /* loop 0 does not report */
    if (rc != ERR_OK)
        s->rc = rc;
    pthread_cond_broadcast(&s->changed);
    while (!s->decided)
        lock_wait(&s->lock, &s->changed);
    rc = s->rc;
    lock_release(&s->lock);
    return rc;
}

static void
run_announce(unsigned started, enum err rc)
{
    struct start *s = &rt->start;

    lock_acquire(&s->lock);
    while (s->reported < started)
        lock_wait(&s->lock, &s->changed);
    if (rc != ERR_OK)
        s->rc = rc;
    assert(!s->decided);
    s->decided = true;
    pthread_cond_broadcast(&s->changed);
    lock_release(&s->lock);
}

/* A thread that posts to a loop may still be about to wake it long after the loop handled the message. So engines
 * close only when no such thread is left, loop or worker. */
static void
leave_together(struct loop *l)
{
    struct start *s = &rt->start;

    lock_acquire(&s->lock);
    s->left++;
    assert(s->left <= rt->count);
    pthread_cond_broadcast(&s->changed);
    if (l->index == 0) {
        while (s->left < rt->count)
            lock_wait(&s->lock, &s->changed);
        lock_release(&s->lock);
        if (!engine->single)
            pools_stop();
        lock_acquire(&s->lock);
        s->may_close = true;
        pthread_cond_broadcast(&s->changed);
    }
    while (!s->may_close)
        lock_wait(&s->lock, &s->changed);
    lock_release(&s->lock);
}

static void
turn_until_exit(struct loop *l)
{
    while (!l->exit)
        loop_turn(l);
    leave_together(l);
}

static void
bind_to(int cpu)
{
    cpu_set_t one;

    if (cpu < 0)
        return;
    CPU_ZERO(&one);
    CPU_SET((size_t)cpu, &one);
    if (pthread_setaffinity_np(pthread_self(), sizeof one, &one) != 0)
        LOG(LOG_WARN, "rt.pin", "a loop could not be bound to its cpu",
            L_I64("cpu", cpu));
}

static void *
loop_thread(void *arg)
{
    struct loop *l = arg;
    struct errbuf eb = {0};
    struct signal_stack stack;
    enum err opened, rc;

    signals_thread_begin(&stack);
    bind_to(rt->seats[l->index].cpu);
    opened = loop_open(l, rt->options, rt->count, &eb);
    if (opened != ERR_OK)
        LOG(LOG_WARN, "rt.loop", "a loop could not start", L_U64("loop", l->index),
            L_TEXT("why", eb.text));
    rc = run_report_start(opened);
    if (rc == ERR_OK)
        turn_until_exit(l);
    if (opened == ERR_OK)
        loop_close(l);
    signals_thread_end(&stack);
    return NULL;
}

static enum err
start_threads(struct errbuf *eb)
{
    enum err rc = ERR_OK;
    unsigned started = 0;

    for (unsigned i = 1; i < rt->count && rc == ERR_OK; i++) {
        int error =
            pthread_create(&rt->seats[i].thread, NULL, loop_thread, &rt->loops[i]);

        if (error != 0)
            rc = err_errno(eb, ERR_BUSY, error, "thread of loop %u", i);
        else
            started++;
        rt->seats[i].joinable = error == 0;
    }
    run_announce(started, rc);
    if (rc == ERR_OK && rt->start.rc != ERR_OK)
        rc = err_set(eb, rt->start.rc, "not every loop could start; see the log");
    return rc;
}

/* Loop 0 runs in the caller's thread. */
static enum err
run_loops(struct errbuf *eb)
{
    struct loop *zero = &rt->loops[0];
    struct signal_stack stack;
    enum err rc;

    signals_thread_begin(&stack);
    rc = loop_open(zero, rt->options, rt->count, eb);
    if (rc == ERR_OK) {
        rc = start_threads(eb);
        if (rc == ERR_OK &&
            fiber_start(zero, &zero->root, DEADLINE_NEVER, run_main, NULL) == NULL)
            abort(); /* the first stack of the first loop: stacks_init() guarantees it */
        if (rc == ERR_OK)
            turn_until_exit(zero);
        for (unsigned i = 1; i < rt->count; i++)
            if (rt->seats[i].joinable)
                pthread_join(rt->seats[i].thread, NULL);
        signals_close(zero);
        loop_close(zero);
    }
    signals_thread_end(&stack);
    return rc;
}

/* As many loops as requested, or one per usable CPU; loop i is bound to the i-th of them. */
static void
seat_loops(const struct rt_options *o, bool single)
{
    cpu_set_t mask;
    unsigned n = 0;

    CPU_ZERO(&mask);
    (void)sched_getaffinity(0, sizeof mask, &mask);
    rt->count = single ? 1 : o->loops > 0 ? o->loops : rt_cpus();
    rt->loops = xcalloc(rt->count, sizeof *rt->loops);
    rt->seats = xcalloc(rt->count, sizeof *rt->seats);
    for (unsigned i = 0; i < rt->count; i++) {
        rt->loops[i].index = i;
        rt->loops[i].ops = engine;
        rt->seats[i].cpu = -1;
    }
    for (int cpu = 0; o->pin && !single && cpu < CPU_SETSIZE && n < rt->count; cpu++)
        if (CPU_ISSET((size_t)cpu, &mask))
            rt->seats[n++].cpu = cpu;
}

static void
runtime_init(const struct rt_options *options, fiber_fn *start, void *arg)
{
    assert(start != NULL);
    rt->options = options;
    rt->main = start;
    rt->main_arg = arg;
    rt->start = (struct start){.rc = ERR_OK};
    lock_init(&rt->start.lock, LOCK_START);
    pthread_cond_init(&rt->start.changed, NULL);
    seat_loops(options, engine->single);
}

static void
runtime_fini(void)
{
    assert(loop_self == NULL);
    pthread_cond_destroy(&rt->start.changed);
    lock_fini(&rt->start.lock);
    free(rt->seats);
    free(rt->loops);
    rt->seats = NULL;
    rt->loops = NULL;
    rt->count = 0;
}

enum err
rt_run_on(const struct engine_ops *ops, const struct rt_options *options, fiber_fn *start,
          void *arg, struct errbuf *eb)
{
    cpu_set_t before;
    bool pinned;
    enum err rc;

    assert(rt == &of_process);
    assert(rt->loops == NULL); /* one runtime at a time */
    assert(loop_self == NULL);
    engine = ops;
    runtime_init(options, start, arg);
    iobuf_set_limit(options->iobuf_bytes);
    metrics_set_engine(rt_engine_name(ops->kind));
    pinned = rt->seats[0].cpu >= 0 &&
             pthread_getaffinity_np(pthread_self(), sizeof before, &before) == 0;
    if (!ops->single) {
        real_raise_limits();
        pools_start(options->workers, options->worker_queue);
    }

    report_begin(rt->count);
    rc = run_loops(eb);
    report_end();
    if (rc != ERR_OK && !ops->single)
        pools_stop(); /* else leave_together() has done it */

    if (pinned)
        pthread_setaffinity_np(pthread_self(), sizeof before, &before);
    runtime_fini();
    engine = &epoll_ops;
    return rc;
}

enum err
rt_run(const struct rt_options *options, fiber_fn *start, void *arg, struct errbuf *eb)
{
    struct errbuf why = {0};
    enum err rc;

    assert(options->engine != RT_SIM); /* rt/sim.h has its own entry */
    if (options->engine == RT_EPOLL)
        return rt_run_on(&epoll_ops, options, start, arg, eb);
    rc = rt_run_on(&uring_ops, options, start, arg, &why);
    if (rc == ERR_OK || options->engine == RT_URING) {
        if (eb != NULL)
            *eb = why;
        return rc;
    }
    LOG(LOG_WARN, "rt.engine", "io_uring is not available; using epoll",
        L_TEXT("why", why.text));
    return rt_run_on(&epoll_ops, options, start, arg, eb);
}

/* ---- several runtimes: the simulator's nodes ---- */

void
runtimes_begin(const struct engine_ops *ops)
{
    assert(rt == &of_process);
    assert(rt->loops == NULL);
    assert(ops->single);
    engine = ops;
    iobuf_set_limit(0);
    metrics_set_engine(rt_engine_name(ops->kind));
}

void
runtimes_end(void)
{
    assert(rt == &of_process);
    engine = &epoll_ops;
}

struct runtime *
runtime_enter(struct runtime *r)
{
    struct runtime *before = rt;

    rt = r != NULL ? r : &of_process;
    loop_self = rt->loops;
    return before;
}

enum err
runtime_open(const struct rt_options *options, fiber_fn *start, void *arg,
             struct runtime **out, struct errbuf *eb)
{
    struct runtime *before = runtime_enter(NULL);
    enum err rc;

    assert(engine->single);
    *out = rt = xcalloc(1, sizeof *rt);
    runtime_init(options, start, arg);
    rc = loop_open(rt->loops, options, rt->count, eb);
    if (rc == ERR_OK &&
        fiber_start(rt->loops, &rt->loops->root, DEADLINE_NEVER, run_main, NULL) == NULL)
        abort(); /* the first stack of a loop: stacks_init() guarantees it */
    if (rc != ERR_OK) {
        runtime_fini();
        free(rt);
        *out = NULL;
    }
    (void)runtime_enter(before);
    return rc;
}

bool
runtime_turn(struct runtime *r)
{
    assert(rt == r);
    assert(loop_self == r->loops);
    loop_turn(r->loops);
    return !r->loops->exit;
}

void
runtime_close(struct runtime **rp)
{
    struct runtime *r = *rp;

    *rp = NULL;
    assert(rt == r);
    assert(r->loops->exit);
    loop_close(r->loops);
    runtime_fini();
    free(r);
    (void)runtime_enter(NULL);
}
