#include "bench/load.h"

#include <assert.h>

#include "rt/fiber.h"
#include "rt/time.h"

struct load {
    const struct load_options *o;
    load_step *step;
    void *arg;
    struct load_result *out;
    uint64_t next;
    struct deadline end;
    uint64_t began_ns;
    enum err rc; /* of the last error */
};

static bool
goes_on(const struct load *l)
{
    return (l->o->count == 0 || l->next < l->o->count) && !deadline_passed(l->end) &&
           l->out->errors <= LOAD_ERRORS_MAX && !rt_cancelled();
}

static void
load_keep(struct load *l, struct load_sample *s, uint64_t took_ns)
{
    struct load_result *r = l->out;

    s->took_ns = took_ns;
    histogram_add(&r->took, took_ns);
    if (s->first_ns > 0)
        histogram_add(&r->first, s->first_ns);
    r->done++;
    r->items += s->items;
    r->bytes += s->bytes;
    if (l->o->on_step != NULL)
        l->o->on_step(l->o->arg, s);
}

/* When step `number` is due; now, when the loop is closed. False: not before the end. */
static bool
load_wait_for(const struct load *l, uint64_t number, uint64_t *due_ns)
{
    struct deadline due = {l->began_ns};

    *due_ns = rt_now_ns();
    if (l->o->per_second == 0)
        return true;
    due.at_ns += (uint64_t)((double)number * 1e9 / (double)l->o->per_second);
    if (due.at_ns >= l->end.at_ns)
        return false;
    if (due.at_ns > *due_ns && rt_sleep_until(due) != ERR_OK)
        return false;
    *due_ns = due.at_ns;
    return true;
}

static void
load_work(void *arg)
{
    struct load *l = arg;

    while (goes_on(l)) {
        struct load_sample s = {.items = 1};
        struct errbuf eb = {{0}};
        uint64_t number = l->next++, began;
        enum err rc;

        if (!load_wait_for(l, number, &began))
            return;
        rc = l->step(l->arg, number, &s, &eb);

        if (rc == ERR_OK) {
            load_keep(l, &s, rt_now_ns() - began);
        } else if (rc != ERR_CANCELLED) {
            l->rc = rc;
            if (l->out->errors++ == 0)
                l->out->first_error = eb;
        }
    }
}

enum err
load_run(const struct load_options *o, load_step *step, void *arg,
         struct load_result *out, struct errbuf *eb)
{
    struct load l = {.o = o, .step = step, .arg = arg, .out = out, .end = DEADLINE_NEVER};
    struct rt_group group;
    uint64_t began = rt_now_ns();
    enum err rc = ERR_OK;

    assert(o->concurrency > 0);
    assert(o->count > 0 || o->duration_ms > 0);
    if (o->duration_ms > 0)
        l.end.at_ns = began + o->duration_ms * 1000000u;
    l.began_ns = began;
    rt_group_begin(&group);
    for (unsigned i = 0; i < o->concurrency && rc == ERR_OK; i++)
        rc = rt_group_start(&group, load_work, &l);
    rt_group_join(&group);
    out->seconds = (double)(rt_now_ns() - began) / 1e9;
    if (rc != ERR_OK)
        return err_set(eb, rc, "%u concurrent workers exceed the fibers of this client",
                       o->concurrency);
    if (l.rc == ERR_OK || (out->done > 0 && out->errors <= LOAD_ERRORS_MAX))
        return ERR_OK;
    if (eb != NULL)
        *eb = out->first_error;
    return l.rc;
}
