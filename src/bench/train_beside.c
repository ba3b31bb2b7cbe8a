/* train_beside: a training job saves while it reads: how much do readers and writers take from each other? */
#include <stdlib.h>

#include "base/mem.h"
#include "bench/train.h"
#include "rt/fiber.h"

#define PART MIB(8)
#define KEPT 4u /* checkpoints that are there at a time: then the first is written over */

struct writing {
    struct train *t;
    struct checkpoint c;
    struct checkpoint_pass *sum; /* owned */
    bool over;
    enum err rc;
    struct errbuf eb;
};

/* One checkpoint behind the other, as long as there are readers; the last one may end behind them. */
static void
write_on(void *arg)
{
    struct writing *w = arg;

    while (!w->over && w->rc == ERR_OK && !rt_cancelled()) {
        unsigned number = w->t->beside.checkpoints % KEPT;

        w->rc = checkpoint_write(&w->c, number, w->sum, &w->eb);
        w->t->beside.checkpoints += w->rc == ERR_OK;
    }
}

/* Both at once, until the readers are done. */
static enum err
read_and_write(struct train *t, struct writing *w)
{
    unsigned n = t->best != NULL ? t->best->accelerators : t->reported->accelerators;
    struct rt_group group;
    enum err rc;

    rt_group_begin(&group);
    rc = rt_group_start(&group, write_on, w);
    if (rc == ERR_OK)
        rc = train_once(t, n, 0, &t->beside.trial);
    w->over = true;
    if (rc != ERR_OK)
        rt_group_cancel(&group);
    rt_group_join(&group);
    if (rc == ERR_OK && w->rc != ERR_OK) {
        t->s->eb = w->eb;
        rc = w->rc;
    }
    t->beside.bytes = w->sum->bytes;
    t->beside.seconds = w->sum->seconds;
    t->beside.trial.runs = 1;
    return rc;
}

enum err
train_beside(struct train *t)
{
    struct writing w = {.t = t, .sum = xcalloc(1, sizeof *w.sum)};
    enum err rc = train_plan(t, t->beside.model, 0, PART, &w.c);

    if (rc == ERR_OK) {
        checkpoint_init(&w.c, t->s, &t->place, KEPT, t->seed);
        rc = read_and_write(t, &w);
        train_remove(t, &w.c);
    }
    checkpoint_fini(&w.c);
    free(w.sum);
    return rc;
}
