#include "bench/spread.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "rt/fiber.h"
#include "rt/loop.h"

struct spread {
    unsigned loops;
    spread_fn *fn;
    void *arg;
    struct rt_group group;
    enum err rc;
    struct errbuf eb;
};
struct part {
    struct spread *spread;
    unsigned i;
    enum err rc;
    struct errbuf eb;
};

/* On its loop. */
static void
run_there(void *arg)
{
    struct part *p = arg;

    p->rc = p->spread->fn(p->spread->arg, p->i, &p->eb);
}

/* On loop 0. */
static void
spread_run_part(void *arg)
{
    struct part *p = arg;
    struct spread *s = p->spread;
    enum err rc = rt_call_cancellable(p->i % s->loops, run_there, p);

    if (rc == ERR_BUSY)
        rc = err_set(&p->eb, rc, "%u concurrent tasks exceed the fibers of this client",
                     p->i + 1);
    rc = rc == ERR_OK ? p->rc : rc;
    if (rc == ERR_OK || s->rc != ERR_OK)
        return;
    s->rc = rc;
    s->eb = p->eb;
    rt_group_cancel(&s->group);
}

enum err
spread_run(unsigned count, unsigned loops, spread_fn *fn, void *arg, struct errbuf *eb)
{
    struct spread s = {.loops = loops, .fn = fn, .arg = arg};
    struct part *parts = xcalloc(count, sizeof *parts);
    enum err rc = ERR_OK;

    assert(loops > 0 && loops <= rt_loop_count());
    assert(rt_loop_index() == 0);
    rt_group_begin(&s.group);
    for (unsigned i = 0; i < count && rc == ERR_OK; i++) {
        parts[i] = (struct part){.spread = &s, .i = i};
        rc = rt_group_start(&s.group, spread_run_part, &parts[i]);
        if (rc != ERR_OK) {
            s.rc = err_set(&s.eb, rc,
                           "%u concurrent tasks exceed the fibers of this client", count);
            rt_group_cancel(&s.group);
        }
    }
    rt_group_join(&s.group);
    free(parts);
    if (s.rc != ERR_OK && eb != NULL)
        *eb = s.eb;
    return s.rc == ERR_OK && rt_cancelled() ? ERR_CANCELLED : s.rc;
}
