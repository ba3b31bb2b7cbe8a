#include "cli/lanes.h"

#include <assert.h>

#include "base/num.h"
#include "rt/fiber.h"

/* Turns that a piece waits for those of other bodies, while the loop has other work: they are read or sent meanwhile. Without
 * other work there is nothing to wait for, and lanes that are empty cost nothing. */
#define PATIENCE_TURNS 8
#define FULL           16u /* lanes of the widest kernel */

void
lanes_enter(struct lanes *l)
{
    l->streams++;
}

void
lanes_leave(struct lanes *l)
{
    assert(l->streams > 0);
    l->streams--;
}

void
lanes_add(struct lanes *l, struct md5 *m, const void *data, size_t len)
{
    struct md5_job job = {.next = l->jobs, .md5 = m, .data = data, .len = len};
    struct md5_job *all;

    l->jobs = &job;
    l->waiting++;
    for (unsigned turn = 0;
         turn < PATIENCE_TURNS && job.phase != MD5_OVER &&
         l->waiting < MIN(l->streams, FULL) && (turn == 0 || rt_others_ready());
         turn++)
        rt_yield();
    if (job.phase == MD5_OVER)
        return;
    all = l->jobs;
    l->jobs = NULL;
    l->waiting = 0;
    md5_run(all);
    assert(job.phase == MD5_OVER);
}
