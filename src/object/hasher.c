#include "object/hasher.h"

#include <assert.h>

#include "base/metrics.h"
#include "rt/fiber.h"
#include "rt/loop.h"

/* The jobs lie on the stacks of fibers that are in hasher_add(). */
static void
run_all(struct md5_job **waiting)
{
    struct md5_job *jobs = *waiting;
    bool together = jobs->next != NULL;

    for (const struct md5_job *j = jobs; j != NULL; j = j->next)
        metric_add(M_MD5_BYTES, together ? 1 : 0, (int64_t)j->len);
    *waiting = NULL;
    md5_run(jobs);
}

void
hasher_add(struct object_service *s, struct md5 *m, const void *data, size_t len,
           unsigned char *out)
{
    struct md5_job **waiting = &s->hashing[rt_loop_index()];
    struct md5_job job = {
        .next = *waiting, .md5 = m, .data = data, .len = len, .out = out};

    *waiting = &job;
    if (job.next != NULL || rt_crowded())
        rt_yield();
    if (job.phase != MD5_OVER) /* nobody who laid his bytes there sooner is back yet */
        run_all(waiting);
    assert(job.phase == MD5_OVER);
}
