#include "api/trace.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rt/loop.h"

/* Only on its loop. */
struct ring {
    struct trace_entry *at; /* owned; NULL until the first watcher */
    uint64_t written;       /* entry n lies at n % TRACE_KEPT */
    uint64_t reported_ns;   /* requests done until then were reported */
    uint64_t gone;          /* overwritten unread, and not yet reported as lost */
};
struct trace {
    _Atomic uint64_t until_ns; /* watched until then */
    unsigned loops;
    struct ring rings[];
};

struct trace *
trace_new(void)
{
    unsigned loops = rt_loop_count();
    struct trace *t = xcalloc(1, sizeof *t + loops * sizeof t->rings[0]);

    t->loops = loops;
    return t;
}

void
trace_free(struct trace **tp)
{
    struct trace *t = *tp;

    *tp = NULL;
    if (t == NULL)
        return;
    for (unsigned i = 0; i < t->loops; i++)
        free(t->rings[i].at);
    free(t);
}

static void
trace_put(char *to, size_t room, struct span from)
{
    size_t n = MIN(from.len, room - 1);

    memcpy(to, from.at, n);
    to[n] = '\0';
}

void
trace_note(struct trace *t, const struct http_request *r, const struct http_done *d)
{
    uint64_t until = atomic_load_explicit(&t->until_ns, memory_order_relaxed);
    struct trace_entry *e;
    struct ring *ring;

    if (LIKELY(until == 0) || until < rt_turn_ns())
        return;
    ring = &t->rings[rt_loop_index()];
    if (ring->at == NULL)
        ring->at = xcalloc(TRACE_KEPT, sizeof *ring->at);
    e = &ring->at[ring->written % TRACE_KEPT];
    if (ring->written++ >= TRACE_KEPT && e->done_ns > ring->reported_ns)
        ring->gone++;
    *e = (struct trace_entry){.done_ns = rt_now_ns(),
                              .wall_ms = (int64_t)(rt_wall_ns() / 1000000u),
                              .duration_ns = d->duration_ns,
                              .first_byte_ns = d->first_byte_ns,
                              .bytes_in = d->bytes_in,
                              .bytes_out = d->bytes_out,
                              .status = d->status};
    trace_put(e->id, sizeof e->id, span_of(r->id));
    trace_put(e->peer, sizeof e->peer, span_of(r->peer));
    trace_put(e->method, sizeof e->method, r->head->method_text);
    trace_put(e->path, sizeof e->path, r->head->path);
}

struct gathering {
    struct trace *t;
    uint64_t after_ns, upto_ns, lost;
    struct trace_entry *at; /* owned */
    size_t count, room;
};

/* On the loop of the ring, so no entry is added meanwhile. */
static void
trace_gather(void *arg)
{
    struct gathering *g = arg;
    struct ring *r = &g->t->rings[rt_loop_index()];
    uint64_t first = r->written > TRACE_KEPT ? r->written - TRACE_KEPT : 0;

    assert(r->at != NULL || r->written == 0);
    if (r->reported_ns > 0) /* before the first look nothing is lost */
        g->lost += r->gone;
    r->gone = 0;
    r->reported_ns = g->upto_ns;
    for (uint64_t n = first; n < r->written; n++) {
        const struct trace_entry *e = &r->at[n % TRACE_KEPT];

        if (e->done_ns <= g->after_ns || e->done_ns > g->upto_ns)
            continue;
        if (g->count == g->room) {
            g->room = g->room > 0 ? g->room * 2 : 256;
            g->at = xrealloc(g->at, g->room * sizeof *g->at);
        }
        g->at[g->count++] = *e;
    }
}

static int
by_time(const void *a, const void *b)
{
    uint64_t x = ((const struct trace_entry *)a)->done_ns,
             y = ((const struct trace_entry *)b)->done_ns;

    return (x > y) - (x < y);
}

enum err
trace_look(struct trace *t, uint64_t after_ns, struct trace_entry *out, size_t room,
           size_t *count, uint64_t *upto_ns, uint64_t *lost, struct errbuf *eb)
{
    struct gathering g = {.t = t, .after_ns = after_ns, .upto_ns = rt_now_ns()};
    enum err rc = ERR_OK;

    if (after_ns == 0)
        g.after_ns = g.upto_ns;
    atomic_store_explicit(&t->until_ns, g.upto_ns + TRACE_WATCH_MS * 1000000ull,
                          memory_order_relaxed);
    for (unsigned i = 0; rc == ERR_OK && i < t->loops; i++)
        rc = rt_call(i, trace_gather, &g);
    if (rc != ERR_OK)
        err_set(eb, rc, "a loop has no room for another fiber");
    if (g.count > 0)
        qsort(g.at, g.count, sizeof *g.at, by_time);
    *count = MIN(g.count, room);
    if (*count > 0)
        memcpy(out, g.at, *count * sizeof *out);
    *upto_ns = *count < g.count ? out[*count - 1].done_ns : g.upto_ns;
    *lost = g.lost;
    free(g.at);
    return rc;
}
