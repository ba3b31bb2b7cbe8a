#include "bench/accelerator.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "rt/fiber.h"
#include "rt/sync.h"
#include "rt/time.h"

#define RETRY_MS 20

/* ---- the clock ---- */

void
au_begin(struct au *a, uint64_t step_ns, uint32_t left_out, uint64_t now_ns)
{
    assert(step_ns > 0);
    *a = (struct au){
        .step_ns = step_ns, .left_out = left_out, .from_ns = now_ns, .end_ns = now_ns};
}

uint64_t
au_step(struct au *a, uint64_t ready_ns)
{
    uint64_t waited = ready_ns > a->end_ns ? ready_ns - a->end_ns : 0;

    a->end_ns += waited + a->step_ns;
    a->steps++;
    if (a->steps <= a->left_out) {
        a->from_ns = a->end_ns;
        return waited;
    }
    a->counted++;
    a->computed_ns += a->step_ns;
    a->run_ns = a->end_ns - a->from_ns;
    return waited;
}

void
au_end(struct au *a, uint64_t now_ns)
{
    if (now_ns > a->end_ns)
        a->run_ns = now_ns - a->from_ns;
}

double
au_of(const struct au *a)
{
    return a->counted > 0 ? (double)a->computed_ns / (double)a->run_ns : 0;
}

/* ---- the order ---- */

void
train_order_init(struct train_order *o, const struct train_file *files, uint32_t count,
                 uint64_t sample_bytes, uint64_t request_bytes, uint64_t seed)
{
    assert(count > 0);
    *o = (struct train_order){.files = files,
                              .file_count = count,
                              .sample_bytes = sample_bytes,
                              .request_bytes = request_bytes,
                              .seed = seed | 1};
    o->order = xmalloc(count * sizeof *o->order);
    for (uint32_t i = 0; i < count; i++)
        o->order[i] = i;
    train_order_again(o, false);
}

void
train_order_fini(struct train_order *o)
{
    free(o->order);
    o->order = NULL;
}

static uint64_t
next_random(struct train_order *o)
{
    o->seed ^= o->seed << 13;
    o->seed ^= o->seed >> 7;
    o->seed ^= o->seed << 17;
    return o->seed;
}

void
train_order_again(struct train_order *o, bool once)
{
    for (uint32_t i = o->file_count; i > 1; i--) {
        uint32_t other = (uint32_t)(next_random(o) % i), swap = o->order[i - 1];

        o->order[i - 1] = o->order[other];
        o->order[other] = swap;
    }
    o->next = 0;
    o->once = once;
}

static bool
next_file(struct train_order *o, uint32_t *out)
{
    if (o->next == o->file_count) {
        if (o->once)
            return false;
        train_order_again(o, false);
    }
    *out = o->order[o->next++];
    return true;
}

/* ---- a run ---- */

struct slot {
    uint32_t missing;  /* samples that have not come */
    uint64_t ready_ns; /* when the last one came */
};
struct run {
    const struct train_options *o;
    struct train_result *out;
    uint64_t until_ns; /* UINT64_MAX: the order ends it */
    enum err rc;
    struct rt_group group; /* of the accelerators */
};
struct accelerator {
    struct run *run;
    struct au au;
    struct slot slots[TRAIN_PREFETCH_MAX]; /* batch n is in slot n % prefetch */
    uint64_t taken;                        /* batches that steps have begun with */
    uint64_t cutting;                      /* the batch that is being asked for */
    uint32_t cut;                          /* samples of it that somebody has asked for */
    uint32_t readers;                      /* that have not ended */
    bool dry;                              /* the order has ended */
    bool has_file;
    uint32_t file, file_sample; /* what is being read, how far */
    struct rt_cond room, ready; /* for readers; for the one that computes */
    struct rt_group group;
};

static void
fail(struct run *r, enum err rc)
{
    r->rc = r->rc == ERR_OK ? rc : r->rc;
    rt_group_cancel(&r->group);
}

/* The next piece of the batch that is being cut; false: there are no more files. */
static bool
cut_piece(struct accelerator *a, struct train_piece *out, uint64_t *batch)
{
    const struct train_options *o = a->run->o;
    const struct train_order *order = o->order;
    const struct train_file *f;
    uint64_t samples;

    if (!a->has_file && !next_file(o->order, &a->file))
        return false;
    f = &order->files[a->file];
    samples = MAX(order->request_bytes / order->sample_bytes, 1u);
    samples = MIN(samples, o->batch - a->cut);
    samples = MIN(samples, f->samples - a->file_sample);
    *out = (struct train_piece){
        .file = a->file, .whole = f->samples == 1, .samples = (uint32_t)samples};
    if (f->samples > 1) {
        out->offset = a->file_sample * order->sample_bytes;
        out->bytes = samples * order->sample_bytes;
    } else {
        out->bytes = f->bytes;
    }
    *batch = a->cutting;
    a->cut += (uint32_t)samples;
    if (a->cut == o->batch) {
        a->cutting++;
        a->cut = 0;
    }
    a->file_sample += (uint32_t)samples;
    a->has_file = a->file_sample < f->samples;
    a->file_sample = a->has_file ? a->file_sample : 0;
    return true;
}

/* Until it works. False: the run is over. */
static bool
fetch(struct accelerator *a, const struct train_piece *p)
{
    struct run *r = a->run;

    for (;;) {
        struct errbuf eb = {{0}};
        uint64_t began = rt_now_ns(), bytes = 0, took;
        enum err rc = r->o->fetch(r->o->arg, p, &bytes, &eb);

        if (rc == ERR_CANCELLED || rt_cancelled())
            return false;
        took = rt_now_ns() - began;
        r->out->in_flight_ns += took;
        if (rc == ERR_OK) {
            histogram_add(&r->out->took, took);
            r->out->requests++;
            r->out->bytes += bytes;
            return true;
        }
        if (r->out->errors++ == 0)
            r->out->first_error = eb;
        if (r->out->errors > TRAIN_ERRORS_MAX) {
            fail(r, rc);
            return false;
        }
        if (rt_sleep_ms(RETRY_MS) != ERR_OK)
            return false;
    }
}

static void
came(struct accelerator *a, uint64_t batch, uint32_t samples)
{
    struct slot *s = &a->slots[batch % a->run->o->prefetch];

    assert(s->missing >= samples);
    s->missing -= samples;
    if (s->missing == 0) {
        s->ready_ns = rt_now_ns();
        rt_cond_signal(&a->ready);
    }
}

static void
read_on(void *arg)
{
    struct accelerator *a = arg;
    const struct train_options *o = a->run->o;

    for (;;) {
        struct train_piece p;
        uint64_t batch;

        if (a->cutting >= a->taken + o->prefetch) {
            if (rt_cond_wait(&a->room, DEADLINE_NEVER) != ERR_OK)
                break;
            continue;
        }
        if (!cut_piece(a, &p, &batch)) {
            a->dry = true;
            break;
        }
        if (!fetch(a, &p))
            break;
        came(a, batch, p.samples);
    }
    a->readers--;
    rt_cond_signal(&a->ready);
}

/* The next batch is whole, at `*ready_ns`. False: it never will be, or not before the end. */
static bool
wait_batch(struct accelerator *a, uint64_t *ready_ns)
{
    const struct slot *s = &a->slots[a->taken % a->run->o->prefetch];

    while (s->missing > 0) {
        if (a->readers ==
            0) /* what is missing was never there: the last batch is not full */
            return false;
        if (rt_cond_wait(&a->ready, (struct deadline){a->run->until_ns}) != ERR_OK)
            return false;
    }
    *ready_ns = s->ready_ns;
    return true;
}

static void
compute(struct accelerator *a)
{
    struct run *r = a->run;
    uint64_t ready = 0, waited;
    bool counts;

    while (a->au.end_ns < r->until_ns && wait_batch(a, &ready)) {
        counts = a->au.steps >= a->au.left_out;
        waited = au_step(&a->au, ready);
        if (counts)
            histogram_add(&r->out->wait, waited);
        a->slots[a->taken++ % r->o->prefetch].missing = r->o->batch;
        rt_cond_broadcast(&a->room);
        if (rt_sleep_until((struct deadline){a->au.end_ns}) != ERR_OK)
            return;
    }
    /* An order that has ended owes nothing; one that goes on let it wait until now. */
    if (!a->dry && !rt_cancelled())
        au_end(&a->au, rt_now_ns());
}

static void
accelerate(void *arg)
{
    struct accelerator *a = arg;
    const struct train_options *o = a->run->o;
    enum err rc = ERR_OK;

    au_begin(&a->au, o->step_ns, o->prefetch + 1, rt_now_ns());
    for (unsigned i = 0; i < o->prefetch; i++)
        a->slots[i].missing = o->batch;
    rt_cond_init(&a->room);
    rt_cond_init(&a->ready);
    rt_group_begin(&a->group);
    for (unsigned i = 0; i < o->readers && rc == ERR_OK; i++) {
        a->readers++;
        rc = rt_group_start(&a->group, read_on, a);
        a->readers -= rc != ERR_OK;
    }
    if (rc == ERR_OK)
        compute(a);
    else
        fail(a->run, rc);
    rt_group_cancel(&a->group);
    rt_group_join(&a->group);
}

static void
sum_up(const struct train_options *o, const struct accelerator *all,
       struct train_result *out)
{
    double computed = 0, run = 0;

    out->au_least = 1;
    for (unsigned i = 0; i < o->accelerators; i++) {
        const struct au *a = &all[i].au;

        out->steps += a->steps;
        out->counted += a->counted;
        out->samples += a->steps * o->batch;
        computed += (double)a->computed_ns;
        run += (double)a->run_ns;
        out->au_least = MIN(out->au_least, au_of(a));
        if (a->run_ns > 0)
            out->samples_s += (double)a->counted * o->batch / ((double)a->run_ns / 1e9);
    }
    out->au = run > 0 ? computed / run : 0;
}

enum err
train_run(const struct train_options *o, struct train_result *out, struct errbuf *eb)
{
    struct run r = {.o = o, .out = out, .until_ns = UINT64_MAX};
    struct accelerator *all = xcalloc(o->accelerators, sizeof *all);
    uint64_t began = rt_now_ns();

    assert(o->accelerators > 0 && o->accelerators <= TRAIN_ACCELERATORS_MAX);
    assert(o->readers > 0 && o->prefetch > 0 && o->prefetch <= TRAIN_PREFETCH_MAX);
    assert(o->duration_ms > 0 || o->order->once);
    if (o->duration_ms > 0)
        r.until_ns = began + o->duration_ms * 1000000u;
    rt_group_begin(&r.group);
    for (unsigned i = 0; i < o->accelerators && r.rc == ERR_OK; i++) {
        all[i].run = &r;
        r.rc = rt_group_start(&r.group, accelerate, &all[i]);
    }
    rt_group_join(&r.group);
    out->seconds = (double)(rt_now_ns() - began) / 1e9;
    sum_up(o, all, out);
    free(all);
    if (r.rc == ERR_OK && rt_cancelled())
        r.rc = ERR_CANCELLED;
    if (r.rc == ERR_BUSY && out->errors == 0)
        return err_set(eb, r.rc, "%u accelerators with %u readers each are too many here",
                       o->accelerators, o->readers);
    if (r.rc != ERR_OK && r.rc != ERR_CANCELLED && eb != NULL)
        *eb = out->first_error;
    return r.rc;
}
