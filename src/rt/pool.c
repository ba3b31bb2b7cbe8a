#include "rt/internal.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"

enum { WORKERS_DEFAULT = 8, QUEUE_DEFAULT = 1024, RESOLVERS = 2, RESOLVE_QUEUE = 256 };

struct pool {
    /* Set by pools_start(). */
    unsigned threads_max, queue_max;

    /* Any thread, holding `lock`. */
    struct lock lock;
    pthread_cond_t more;
    struct list queue; /* rt_job.link */
    unsigned queued, idle, threads;
    bool stop;
    pthread_t *ids; /* owned; `threads` of them */
};
static struct pool pools[POOLS_];

static void
pool_on_done(struct rt_msg *m)
{
    struct rt_job *j = CONTAINER_OF(m, struct rt_job, msg);

    assert(loop_self->index == j->loop);
    assert(loop_self->in_flight > 0);
    assert(j->begun);
    loop_self->in_flight--;
    j->done(j);
}

static void *
pool_thread(void *arg)
{
    struct pool *p = arg;

    metrics_thread_begin();
    lock_acquire(&p->lock);
    for (;;) {
        struct list *n = list_pop_front(&p->queue);
        struct rt_job *j;

        if (n == NULL) {
            if (p->stop)
                break;
            p->idle++;
            lock_wait(&p->lock, &p->more);
            p->idle--;
            continue;
        }
        j = LIST_ENTRY(n, struct rt_job, link);
        assert(!j->begun);
        assert(p->queued > 0);
        j->begun = true;
        p->queued--;
        lock_release(&p->lock);
        j->work(j);
        rt_post(j->loop, &j->msg); /* *j belongs to the loop again */
        lock_acquire(&p->lock);
    }
    lock_release(&p->lock);
    return NULL;
}

/* Called with the lock held. Signals are for the loops' threads. False: the system refused a thread. */
static bool
add_thread(struct pool *p)
{
    sigset_t all, old;
    int error;

    assert(p->threads < p->threads_max);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    error = pthread_create(&p->ids[p->threads], NULL, pool_thread, p);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (error == 0)
        p->threads++;
    return error == 0;
}

static enum err
pool_enqueue(struct pool *p, struct rt_job *j, bool always)
{
    enum err rc = ERR_BUSY;
    bool too_few = false;

    assert(loop_self != NULL);
    assert(j->work != NULL);
    assert(j->done != NULL);
    j->loop = loop_self->index;
    j->begun = false;
    j->msg.fn = pool_on_done;
    lock_acquire(&p->lock);
    if (always || p->queued < p->queue_max) {
        if (p->queued >= p->idle && p->threads < p->threads_max)
            too_few = !add_thread(p);
        if (p->threads > 0) {
            list_push_back(&p->queue, &j->link);
            p->queued++;
            rc = ERR_OK;
            pthread_cond_signal(&p->more);
        }
    }
    lock_release(&p->lock);
    if (too_few)
        LOG0(LOG_WARN, "rt.pool", "a worker thread could not be started");
    if (rc == ERR_OK)
        loop_self->in_flight++;
    return rc;
}

enum err
pool_submit(enum pool_kind kind, struct rt_job *j)
{
    return pool_enqueue(&pools[kind], j, false);
}

/* Without any thread the job runs here: it delays this loop, but is not lost. */
void
pool_submit_always(enum pool_kind kind, struct rt_job *j)
{
    if (pool_enqueue(&pools[kind], j, true) == ERR_OK)
        return;
    loop_self->in_flight++;
    j->begun = true;
    j->work(j);
    rt_post(j->loop, &j->msg);
}

bool
pool_cancel(enum pool_kind kind, struct rt_job *j)
{
    struct pool *p = &pools[kind];
    bool mine;

    assert(j->loop == loop_self->index);
    lock_acquire(&p->lock);
    mine = !j->begun;
    if (mine) {
        assert(p->queued > 0);
        list_remove(&j->link);
        p->queued--;
    }
    lock_release(&p->lock);
    if (mine)
        loop_self->in_flight--;
    return mine;
}

static void
pool_start(struct pool *p, unsigned threads_max, unsigned queue_max)
{
    assert(p->ids == NULL); /* not started twice */
    assert(threads_max > 0);
    *p = (struct pool){.threads_max = threads_max, .queue_max = queue_max};
    lock_init(&p->lock, LOCK_WORKERS);
    pthread_cond_init(&p->more, NULL);
    list_init(&p->queue);
    p->ids = xcalloc(threads_max, sizeof *p->ids);
}

static void
pool_stop(struct pool *p)
{
    lock_acquire(&p->lock);
    assert(p->queued == 0);
    assert(!p->stop);
    p->stop = true;
    pthread_cond_broadcast(&p->more);
    lock_release(&p->lock);
    for (unsigned i = 0; i < p->threads; i++)
        pthread_join(p->ids[i], NULL);
    pthread_cond_destroy(&p->more);
    lock_fini(&p->lock);
    free(p->ids);
    p->ids = NULL;
}

void
pools_start(unsigned workers, unsigned queue_max)
{
    pool_start(&pools[POOL_WORK], workers > 0 ? workers : WORKERS_DEFAULT,
               queue_max > 0 ? queue_max : QUEUE_DEFAULT);
    pool_start(&pools[POOL_RESOLVE], RESOLVERS, RESOLVE_QUEUE);
}

void
pools_stop(void)
{
    for (unsigned i = 0; i < POOLS_; i++)
        pool_stop(&pools[i]);
}

/* ---- a fiber waits for its job ---- */

struct waited_job {
    struct rt_job job;
    void (*work)(void *arg);
    void *arg;
    struct fiber *fiber; /* NULL: not waiting */
    bool done;
};

static void
work_for_fiber(struct rt_job *j)
{
    struct waited_job *w = CONTAINER_OF(j, struct waited_job, job);

    w->work(w->arg);
}

static void
done_for_fiber(struct rt_job *j)
{
    struct waited_job *w = CONTAINER_OF(j, struct waited_job, job);

    w->done = true;
    fiber_wake(w->fiber, ERR_OK);
}

enum err
pool_run(enum pool_kind kind, void (*work)(void *arg), void *arg, struct deadline by)
{
    struct waited_job w = {.work = work, .arg = arg, .fiber = rt_self()};
    enum err rc;

    w.job.work = work_for_fiber;
    w.job.done = done_for_fiber;
    rc = pool_submit(kind, &w.job);
    if (rc != ERR_OK)
        return rc;
    assert(w.fiber != NULL);
    rc = fiber_wait(by);
    if (w.done)
        return ERR_OK;
    if (pool_cancel(kind, &w.job))
        return rc;
    while (!w.done)
        fiber_wait_owed();
    return ERR_OK;
}
