#include "object/hasher.h"

#include <assert.h>

#include "base/mem.h"
#include "base/metrics.h"
#include "base/num.h"
#include "rt/fiber.h"
#include "rt/loop.h"

/* Of each stream in a turn: about 60 us, which delays a first byte. */
#define LAG_SLICE (32u << 10)

/* Turns that a round waits while the loop has other work: bodies received meanwhile fill its lanes. A reader waits
 * for the bytes of a fetch, so a fetch waits less. */
#define TURNS 8

void
hashing_init(struct hashing *of_loop)
{
    *of_loop = (struct hashing){.patience_ns = 2000000};
    list_init(&of_loop->lagging);
    rt_cond_init(&of_loop->fuller);
}

/* On the stack of the fiber inside hasher_add(). */
struct piece {
    struct md5_job job;
    struct rt_waiter waits; /* of all but the first */
};

/* The first fiber's job is the last of the list. */
static void
run_all(struct hashing *of_loop)
{
    struct md5_job *jobs = of_loop->jobs;
    bool together = jobs->next != NULL;

    assert(jobs != NULL);
    assert(of_loop->job_count > 0);
    for (const struct md5_job *j = jobs; j != NULL; j = j->next)
        metric_add(M_MD5_BYTES, together ? 1 : 0, (int64_t)j->len);
    of_loop->jobs = NULL;
    of_loop->job_count = 0;
    of_loop->in_a_hurry = false;
    md5_run(jobs);
    for (struct md5_job *j = jobs, *next; (next = j->next) != NULL; j = next)
        rt_wake(&CONTAINER_OF(j, struct piece, job)->waits);
}

/* The first fiber hashes for all. A run costs as much for two pieces as for full lanes: while the loop has other
 * work, more pieces may come. */
static void
lead_jobs(struct hashing *of_loop)
{
    unsigned lanes = md5_lanes();

    assert(of_loop->job_count == 1);
    for (unsigned turn = 0; turn < (of_loop->in_a_hurry ? 1 : TURNS) &&
                            of_loop->job_count < lanes && rt_others_ready();
         turn++)
        rt_yield();
    run_all(of_loop);
    rt_run_woken();
}

void
hasher_add(struct object_service *s, struct md5 *m, const void *data, size_t len,
           unsigned char *out)
{
    struct hashing *of_loop = &s->hashing[rt_loop_index()];
    struct piece p;

    p.job.next =
        of_loop->jobs; /* field by field: the buffer for the tail needs no zeros */
    p.job.md5 = m;
    p.job.data = data;
    p.job.len = len;
    p.job.out = out;
    p.job.phase = MD5_BEGIN;
    assert((of_loop->jobs == NULL) == (of_loop->job_count == 0));
    of_loop->jobs = &p.job;
    of_loop->job_count++;
    of_loop->in_a_hurry |= out == NULL;
    if (p.job.next == NULL) {
        lead_jobs(of_loop);
    } else {
        rt_waiter_init(&p.waits);
        rt_wait(&p.waits);
    }
    assert(p.job.phase == MD5_OVER);
}

/* ---- streams that lag ---- */

void
hash_stream_begin(struct object_service *s, struct hash_stream *h)
{
    assert(s->hashing != NULL);
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

#define PATIENT_TURNS 16
/* After so many rounds in a row that waited in vain (other clients have stalled), only one round of so many waits. */
#define VAIN_ROUNDS 8

/* Hashes one slice of each of these streams. */
static void
run_together(struct md5_job *jobs, unsigned count)
{
    assert(count <= MD5_LANES_MAX);
    for (unsigned i = 0; i < count; i++) {
        jobs[i].next = i + 1 < count ? &jobs[i + 1] : NULL;
        metric_add(M_MD5_BYTES, count > 1 ? 1 : 0, (int64_t)jobs[i].len);
    }
    if (count > 0)
        md5_run(jobs);
}

/* Hashes a slice of all lagging streams. The jobs are on this stack: a run never switches. */
static void
run_slices(struct list *lagging)
{
    struct md5_job jobs[MD5_LANES_MAX];
    unsigned count = 0;

    LIST_EACH(lagging, n)
    {
        struct hash_stream *h = LIST_ENTRY(n, struct hash_stream, of_loop);
        size_t len = MIN(h->len, LAG_SLICE);

        if (len == 0)
            continue;
        if (count == ARRAY_LEN(jobs)) {
            run_together(jobs, count);
            count = 0;
        }
        jobs[count++] = (struct md5_job){.md5 = &h->md5, .data = h->at, .len = len};
        h->at += len;
        h->len -= len;
    }
    run_together(jobs, count);
}

static bool
is_only(const struct list *lagging)
{
    assert(lagging->next != lagging);
    return lagging->next->next == lagging;
}

/* Wakes the fibers whose digest is ready; with `all` every waiting one: one of them leads from now on. */
static void
wake_drained(struct list *lagging, bool all)
{
    LIST_EACH(lagging, n)
    {
        struct hash_stream *h = LIST_ENTRY(n, struct hash_stream, of_loop);
        struct rt_waiter *waits = h->waits;

        if (waits == NULL || (h->len > 0 && !all))
            continue;
        h->waits = NULL;
        rt_wake(waits);
    }
}

/* Do half of the streams wait for their digests? Then waiting for the others does not pay. The leader counts, too. */
static bool
lanes_are_full(const struct list *lagging)
{
    unsigned want = 1, all = 0;

    LIST_EACH(lagging, n)
    {
        const struct hash_stream *x = LIST_ENTRY(n, struct hash_stream, of_loop);

        if (x->waits != NULL && !x->patient)
            return true;
        want += x->waits != NULL;
        all++;
    }
    return 2 * want >= all;
}

/* The loop is idle, but hashing one stream alone costs as much as hashing sixteen. */
static void
wait_for_lanes(struct hashing *of_loop, const struct hash_stream *h)
{
    struct deadline by;
    bool came = false;

    assert(of_loop->led);
    if (!h->patient || lanes_are_full(&of_loop->lagging))
        return;
    if (of_loop->in_vain >= VAIN_ROUNDS && of_loop->in_vain % VAIN_ROUNDS != 0) {
        of_loop->in_vain++;
        return;
    }
    by = (struct deadline){rt_now_ns() + of_loop->patience_ns};
    while (!lanes_are_full(&of_loop->lagging) &&
           rt_cond_wait(&of_loop->fuller, by) == ERR_OK)
        came = true;
    of_loop->in_vain = came ? 0 : of_loop->in_vain + 1;
}

/* Hashes for all lagging streams, until this one has its digest. */
static void
lead_streams(struct hashing *of_loop, struct hash_stream *h)
{
    assert(!of_loop->led);
    assert(h->len > 0);
    of_loop->led = true;
    rt_yield(); /* queued bytes are received first */
    for (unsigned turn = 1; turn < (h->patient ? PATIENT_TURNS : TURNS) &&
                            rt_others_ready() && !is_only(&of_loop->lagging);
         turn++)
        rt_yield();
    wait_for_lanes(of_loop, h);
    while (h->len > 0) {
        run_slices(&of_loop->lagging);
        wake_drained(&of_loop->lagging, false);
        if (h->len > 0)
            rt_yield(); /* no fiber waits for more than one round */
    }
    assert(of_loop->led);
    assert(h->len == 0);
    of_loop->led = false;
    wake_drained(&of_loop->lagging, true);
}

void
hash_stream_drain(struct object_service *s, struct hash_stream *h, bool patient)
{
    struct hashing *of_loop = &s->hashing[rt_loop_index()];

    h->patient = patient;
    while (h->len > 0) {
        struct rt_waiter waits;

        if (!of_loop->led) {
            lead_streams(of_loop, h);
            continue;
        }
        rt_waiter_init(&waits);
        assert(h->waits == NULL);
        h->waits = &waits;
        rt_cond_signal(&of_loop->fuller);
        rt_wait(&waits);
    }
    assert(h->len == 0);
}

void
hash_stream_add(struct object_service *s, struct hash_stream *h, const void *data,
                size_t len)
{
    struct hashing *of_loop = &s->hashing[rt_loop_index()];

    assert(h->of_loop.next != NULL);
    assert(h->len == 0 || h->at + h->len == data);
    if (h->len == 0)
        h->at = data;
    h->len += len;
    if (is_only(&of_loop->lagging))
        hash_stream_drain(s, h, false);
}
