/* park: streams without a waiting fiber; a fiber is started when bytes arrive (rt/net.h).
 *
 *   busy --rt_park--> parked --edge, deadline, rt_unpark--> due
 *   due --a stack is free--> started --runs--> busy
 *
 * `parked` is true in the three states in the middle. The stream is in loop.parked, in loop.due, and in neither of
 * them, in this order. */
#include <assert.h>

#include "base/mem.h"
#include "rt/internal.h"

static void
run_parked(void *arg)
{
    struct stream *s = arg;
    void (*on_ready)(void *arg, enum err why) = s->park.on_ready;
    void *ready_arg = s->park.arg;
    enum err why = s->park.why;
    bool closed = s->closed;

    assert(s->parked);
    assert(why != PARK_WAITING);
    s->parked = false;
    stream_leave(s);
    if (!closed)
        on_ready(ready_arg, why);
}

static bool
park_start(struct stream *s)
{
    struct loop *l = s->loop;

    assert(s->parked);
    assert(s->park.why != PARK_WAITING);
    if (fiber_start(l, &l->root, DEADLINE_NEVER, run_parked, s) == NULL)
        return false;
    s->users++; /* until run_parked() */
    list_remove(&s->park.of_loop);
    return true;
}

void
stream_unpark(struct stream *s, enum err why)
{
    if (s->park.why != PARK_WAITING)
        return;
    assert(why != PARK_WAITING);
    assert(s->parked);
    s->park.why = why;
    timer_remove(&s->loop->timers, &s->park.timer);
    list_remove(&s->park.of_loop);
    if (!park_start(s))
        list_push_back(&s->loop->due, &s->park.of_loop);
}

/* The deadline may have moved meanwhile: that is cheaper than moving the timer each time. */
void
stream_on_park_deadline(struct timer *t)
{
    struct stream *s = CONTAINER_OF(t, struct stream, park.timer);

    if (s->park.until_ns > s->loop->now_ns)
        timer_add(&s->loop->timers, t, s->park.until_ns);
    else
        stream_unpark(s, ERR_TIMEOUT);
}

bool
stream_run_inline(struct stream *s)
{
    return s->park.inline_handler != NULL && s->park.why == PARK_WAITING &&
           s->layer == NULL && s->park.inline_handler(s->park.inline_arg);
}

void
rt_on_inline(struct stream *s, bool (*inline_handler)(void *arg), void *arg)
{
    s->park.inline_handler = inline_handler;
    s->park.inline_arg = arg;
}

bool
rt_park_later(struct stream *s, struct deadline by)
{
    if (!s->parked || s->park.why != PARK_WAITING)
        return false;
    assert(by.at_ns >= s->park.until_ns);
    s->park.until_ns = by.at_ns;
    if (rt_may_have_bytes(s))
        stream_unpark(s, ERR_OK);
    return true;
}

void
rt_resume(struct stream *s)
{
    if (s->parked)
        stream_unpark(s, ERR_OK);
}

void
stream_start_due(struct loop *l)
{
    LIST_EACH(&l->due, n)
    {
        if (!park_start(LIST_ENTRY(n, struct stream, park.of_loop)))
            return;
    }
}

void
stream_unpark_all(struct loop *l)
{
    LIST_EACH(&l->parked, n)
    {
        stream_unpark(LIST_ENTRY(n, struct stream, park.of_loop), ERR_CANCELLED);
    }
}

void
rt_park(struct stream *s, struct deadline by, void (*on_ready)(void *arg, enum err why),
        void *arg)
{
    struct loop *l = s->loop;

    assert(l == loop_self);
    assert(!s->closed);
    assert(!s->parked);
    assert(s->receiver == NULL);
    assert(on_ready != NULL);
    assert(s->park.timer.place == TIMER_IDLE);
    s->parked = true;
    s->park.on_ready = on_ready;
    s->park.arg = arg;
    s->park.why = PARK_WAITING;
    s->park.until_ns = by.at_ns;
    list_push_back(&l->parked, &s->park.of_loop);
    if (l->stopping)
        stream_unpark(s, ERR_CANCELLED);
    else if (rt_may_have_bytes(s))
        stream_unpark(s, ERR_OK);
    else if (by.at_ns != UINT64_MAX)
        timer_add(&l->timers, &s->park.timer, by.at_ns);
}

void
rt_unpark(struct stream *s)
{
    if (s->parked)
        stream_unpark(s, ERR_CANCELLED);
}
