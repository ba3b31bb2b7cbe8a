#include "object/hasher.h"

#include <assert.h>

#include "base/mem.h"
#include "base/metrics.h"
#include "base/num.h"
#include "rt/fiber.h"
#include "rt/loop.h"

#define LAG_SLICE (64u << 10) /* of each stream in a turn */

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
    struct md5_job **waiting = &s->hashing[rt_loop_index()].jobs;
    struct md5_job job = {
        .next = *waiting, .md5 = m, .data = data, .len = len, .out = out};

    *waiting = &job;
    if (job.next != NULL || rt_crowded())
        rt_yield();
    if (job.phase != MD5_OVER) /* nobody who laid his bytes there sooner is back yet */
        run_all(waiting);
    assert(job.phase == MD5_OVER);
}

/* ---- streams that lag ---- */

void
hash_stream_begin(struct object_service *s, struct hash_stream *h)
{
    *h = (struct hash_stream){0};
    md5_init(&h->md5);
    list_push_back(&s->hashing[rt_loop_index()].lagging, &h->of_loop);
}

void
hash_stream_end(struct hash_stream *h)
{
    if (h->of_loop.next != NULL)
        list_remove(&h->of_loop);
    *h = (struct hash_stream){0};
}

/* One slice of each stream, all together. Jobs lie here: a run never switches. */
static void
run_slices(struct list *lagging)
{
    struct md5_job jobs[MD5_LANES_MAX], *first = NULL;
    unsigned count = 0;

    LIST_EACH(lagging, n)
    {
        struct hash_stream *h = LIST_ENTRY(n, struct hash_stream, of_loop);
        size_t len = MIN(h->len, LAG_SLICE);

        if (len == 0)
            continue;
        if (count == ARRAY_LEN(jobs)) {
            md5_run(first);
            count = 0;
            first = NULL;
        }
        jobs[count] =
            (struct md5_job){.next = first, .md5 = &h->md5, .data = h->at, .len = len};
        first = &jobs[count++];
        metric_add(M_MD5_BYTES, count > 1 ? 1 : 0, (int64_t)len);
        h->at += len;
        h->len -= len;
    }
    md5_run(first);
}

void
hash_stream_settle(struct object_service *s, struct hash_stream *h)
{
    struct list *lagging = &s->hashing[rt_loop_index()].lagging;

    while (h->len > 0) {
        if (rt_crowded())
            rt_yield(); /* others may lay down theirs, or do the work */
        if (h->len > 0)
            run_slices(lagging);
    }
}

void
hash_stream_add(struct object_service *s, struct hash_stream *h, const void *data,
                size_t len)
{
    struct list *lagging = &s->hashing[rt_loop_index()].lagging;

    assert(h->len == 0 || h->at + h->len == data);
    if (h->len == 0)
        h->at = data;
    h->len += len;
    if (lagging->next->next == lagging) /* it is the only one */
        hash_stream_settle(s, h);
}
