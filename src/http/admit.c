/* admit: admission control: a slot for each request, at most http.requests.
 *
 *     head read -> a slot is free ---------------------> handler -> the slot is released
 *                    | none                               ^                |
 *                    v                                    | first come, first served
 *                  waits, its body unread, in l->queue ---+----------------+
 *                    | wait_ms are over, or too many wait
 *                    v
 *                  503 with Retry-After
 *
 * A rejected client retries at once, and a rejection costs as much as serving a request; so a burst waits. Waiting
 * requests are bounded in number and time, and the account counts their memory: when memory is tight, none starts to
 * wait. While one waits no slot is free, so requests keep their order.
 */
#include "base/account.h"
#include "base/metrics.h"
#include "http/internal.h"

/* ---- room ---- */

/* The connection that has waited longest for its client, or NULL. */
static struct http_conn *
most_stalled(struct http_loop *l, uint64_t now)
{
    struct http_conn *oldest = NULL;

    LIST_EACH(&l->conns, n)
    {
        struct http_conn *c = LIST_ENTRY(n, struct http_conn, link);

        if (c->stalled_ns == STALLED_NOW)
            c->stalled_ns = now;
        if (c->stalled_ns != 0 && (oldest == NULL || c->stalled_ns < oldest->stalled_ns))
            oldest = c;
    }
    return oldest;
}

/* The fiber is in head or linger, and has not been cancelled. */
static void
shed_now(struct http_conn *c)
{
    assert(c->fiber != NULL);
    if (c->head_ns != 0)
        admit_head_over(c);
    else
        admit_linger_over(c);
    c->stalled_ns = 0;
    metric_add(M_SHED, 0, 1);
    rt_cancel(c->fiber);
}

static struct http_conn *
first_to_shed(struct list *of)
{
    return list_empty(of) ? NULL : LIST_ENTRY(of->next, struct http_conn, shed_link);
}

/* What holds memory for a client that wants nothing more, or has not said what it wants. */
static void
shed_unready(struct http_loop *l, uint64_t now)
{
    struct http_conn *c;

    while ((c = first_to_shed(&l->lingering)) != NULL)
        shed_now(c);
    while ((c = first_to_shed(&l->heads)) != NULL && now - c->head_ns >= SHED_HEAD_NS)
        shed_now(c);
}

void
admit_head_begin(struct http_conn *c)
{
    struct http_loop *l = c->loop;
    struct http_conn *oldest;

    if (c->head_ns != 0)
        return;
    c->head_ns = rt_now_ns();
    list_push_back(&l->heads, &c->shed_link);
    l->heads_count++;
    if ((account_tight() & TIGHT_MEMORY) != 0)
        shed_unready(l, c->head_ns);
    while (l->heads_count + l->lingering_count > l->server->heads_a_loop) {
        oldest = first_to_shed(&l->lingering);
        if (oldest == NULL)
            oldest = first_to_shed(&l->heads);
        if (oldest == c)
            break;
        shed_now(oldest);
    }
}

void
admit_head_over(struct http_conn *c)
{
    if (c->head_ns == 0)
        return;
    assert(c->loop->heads_count > 0);
    c->head_ns = 0;
    list_remove(&c->shed_link);
    c->loop->heads_count--;
}

void
admit_linger_begin(struct http_conn *c)
{
    assert(c->head_ns == 0);
    assert(!c->lingers);
    c->lingers = true;
    list_push_back(&c->loop->lingering, &c->shed_link);
    c->loop->lingering_count++;
}

void
admit_linger_over(struct http_conn *c)
{
    if (!c->lingers)
        return;
    assert(c->loop->lingering_count > 0);
    c->lingers = false;
    list_remove(&c->shed_link);
    c->loop->lingering_count--;
}

/* Sheds load when memory is tight or no slot is free: cancels the connections that have waited longest for their clients.
 * A client that pauses its reading has send_stall_ms only while there is room for others. */
static void
shed(struct http_conn *for_whom)
{
    struct http_loop *l = for_whom->loop;
    uint64_t now = rt_now_ns();

    if (now - l->shed_ns < SHED_EVERY_NS)
        return;
    l->shed_ns = now;
    if ((account_tight() & TIGHT_MEMORY) != 0)
        shed_unready(l, now);
    for (unsigned i = 0; i < SHED_MOST; i++) {
        struct http_conn *oldest = most_stalled(l, now);

        if (oldest == NULL || now - oldest->stalled_ns < SHED_STALLED_NS)
            return;
        oldest->stalled_ns = 0;
        metric_add(M_SHED, 0, 1);
        rt_cancel(oldest->fiber);
    }
}

/* ---- slots ---- */

/* On the stack of the fiber that waits. */
struct waiter {
    struct list link; /* in l->queue until it has a slot */
    struct rt_cond given;
    bool has_place;
};

static unsigned
in_flight(const struct http_loop *l)
{
    return atomic_load_explicit(&l->in_flight, memory_order_relaxed);
}

static bool
is_full(const struct http_loop *l)
{
    bool full = in_flight(l) >= l->server->requests_a_loop;

    assert(full || list_empty(&l->queue));
    return full;
}

void
admit_counted(struct http_conn *c)
{
    conn_count(&c->loop->in_flight, 1);
}

void
admit_over(struct http_conn *c)
{
    struct http_loop *l = c->loop;
    struct waiter *w;
    struct list *n;

    assert(in_flight(l) > 0);
    conn_count(&l->in_flight, -1);
    if (in_flight(l) >= l->server->requests_a_loop) /* a probe ran beyond the limit */
        return;
    n = list_pop_front(&l->queue);
    if (n == NULL)
        return;
    w = LIST_ENTRY(n, struct waiter, link);
    assert(!w->has_place);
    assert(l->queued > 0);
    w->has_place = true;
    l->queued--;
    conn_count(&l->in_flight, 1);
    rt_cond_signal(&w->given);
}

/* True: the request has a slot. May switch. */
static bool
wait_for_place(struct http_conn *c)
{
    struct http_loop *l = c->loop;
    struct deadline by = deadline_in_ms(c->server->options.wait_ms);
    struct waiter w = {.has_place = false};
    enum err rc = ERR_OK;

    if (l->queued >= l->server->waiting_a_loop)
        return false;
    metric_add(M_WAITED, 0, 1);
    rt_cond_init(&w.given);
    list_push_back(&l->queue, &w.link);
    l->queued++;
    while (!w.has_place && rc == ERR_OK)
        rc = rt_cond_wait(&w.given, by);
    if (!w.has_place) {
        assert(l->queued > 0);
        list_remove(&w.link);
        l->queued--;
    }
    return w.has_place;
}

bool
admit_inline(const struct http_conn *c)
{
    return c->over_limit == NULL && account_tight() == 0 && !is_full(c->loop) &&
           !conn_is_ending(c);
}

/* A reason to reject that does not depend on the requests in flight; NULL: none. */
static const char *
why_none(const struct http_conn *c)
{
    if (c->over_limit != NULL)
        return c->over_limit;
    if (c->work->request.draining)
        return "this server is going down";
    if ((account_tight() & TIGHT_MEMORY) != 0)
        return "memory is tight";
    return NULL;
}

bool
admit(struct http_conn *c)
{
    struct work *w = c->work;
    const struct http_handler *h = &c->server->handler;
    bool full = is_full(c->loop);
    const char *why = why_none(c);

    if (account_tight() != 0 || full)
        shed(c);
    if ((why == NULL && !full) ||
        (h->is_vital != NULL && h->is_vital(&w->head, h->arg))) {
        admit_counted(c);
        return true;
    }
    if (why == NULL && wait_for_place(c))
        return true;
    w->reply.close_after = c->over_limit != NULL;
    conn_refuse(c, REJECTED_BUSY, 503, why != NULL ? why : "too many requests in flight");
    return false;
}
