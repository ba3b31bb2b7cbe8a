#include "bench/accelerator.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "bench/spread.h"
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
    uint32_t cut;                          /* samples of it that readers have requested */
    uint32_t readers;                      /* that have not ended */
    bool dry;                              /* the order has ended */
    struct train_cursor cursor;
    struct rt_cond room, ready; /* for readers; for the one that computes */
    struct rt_group group;
};

static void
accelerator_fail(struct run *r, enum err rc)
{
    r->rc = r->rc == ERR_OK ? rc : r->rc;
    rt_group_cancel(&r->group);
}

/* The next piece of the batch that is being cut; false: there are no more files. */
static bool
cut_piece(struct accelerator *a, struct train_piece *out, uint64_t *batch)
{
    const struct train_options *o = a->run->o;

    if (!train_order_cut(o->order, &a->cursor, o->batch - a->cut, out))
        return false;
    *batch = a->cutting;
    a->cut += out->samples;
    if (a->cut == o->batch) {
        a->cutting++;
        a->cut = 0;
    }
    return true;
}

/* Until it works. False: the run is over. */
static bool
accelerator_fetch(struct accelerator *a, const struct train_piece *p)
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
            accelerator_fail(r, rc);
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

    if (samples == 0)
        return; /* the batch may be gone */
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
        if (!accelerator_fetch(a, &p))
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
        accelerator_fail(a->run, rc);
    rt_group_cancel(&a->group);
    rt_group_join(&a->group);
}

/* What follows from the sums. */
static void
accelerator_rate(struct train_result *r)
{
    r->au = r->run_ns > 0 ? (double)r->computed_ns / (double)r->run_ns : 0;
}

static void
accelerator_sum(const struct train_options *o, const struct accelerator *all,
                struct train_result *out)
{
    out->au_least = 1;
    for (unsigned i = 0; i < o->accelerators; i++) {
        const struct au *a = &all[i].au;

        out->steps += a->steps;
        out->counted += a->counted;
        out->samples += a->steps * o->batch;
        out->computed_ns += a->computed_ns;
        out->run_ns += a->run_ns;
        out->au_least = MIN(out->au_least, au_of(a));
        if (a->run_ns > 0)
            out->samples_s += (double)a->counted * o->batch / ((double)a->run_ns / 1e9);
    }
    accelerator_rate(out);
}

static enum err
run_here(const struct train_options *o, struct train_result *out, struct errbuf *eb)
{
    struct run r = {.o = o, .out = out, .until_ns = UINT64_MAX};
    struct accelerator *all = xcalloc(o->accelerators, sizeof *all);
    uint64_t began = rt_now_ns();

    if (o->duration_ms > 0)
        r.until_ns = began + o->duration_ms * 1000000u;
    rt_group_begin(&r.group);
    for (unsigned i = 0; i < o->accelerators && r.rc == ERR_OK; i++) {
        all[i].run = &r;
        r.rc = rt_group_start(&r.group, accelerate, &all[i]);
    }
    rt_group_join(&r.group);
    out->seconds = (double)(rt_now_ns() - began) / 1e9;
    accelerator_sum(o, all, out);
    free(all);
    if (r.rc == ERR_OK && rt_cancelled())
        r.rc = ERR_CANCELLED;
    if (r.rc == ERR_BUSY && out->errors == 0)
        return err_set(
            eb, r.rc,
            "%u accelerators with %u readers each exceed the fibers of this client",
            o->accelerators, o->readers);
    if (r.rc != ERR_OK && r.rc != ERR_CANCELLED && eb != NULL)
        *eb = out->first_error;
    return r.rc;
}

/* ---- several loops ---- */

struct shares {
    const struct train_options *o;
    struct train_result *results; /* one a loop */
};

static enum err
run_share(void *arg, unsigned i, struct errbuf *eb)
{
    struct shares *s = arg;
    struct train_options o = *s->o;

    o.accelerators = o.accelerators / o.loops + (i < o.accelerators % o.loops);
    return run_here(&o, &s->results[i], eb);
}

static void
add_result(struct train_result *to, const struct train_result *r)
{
    histogram_merge(&to->wait, &r->wait);
    histogram_merge(&to->took, &r->took);
    if (to->errors == 0)
        to->first_error = r->first_error;
    to->steps += r->steps;
    to->samples += r->samples;
    to->bytes += r->bytes;
    to->requests += r->requests;
    to->errors += r->errors;
    to->counted += r->counted;
    to->in_flight_ns += r->in_flight_ns;
    to->computed_ns += r->computed_ns;
    to->run_ns += r->run_ns;
    to->samples_s += r->samples_s;
    to->seconds = MAX(to->seconds, r->seconds);
    to->au_least = MIN(to->au_least, r->au_least);
}

static enum err
run_spread(const struct train_options *o, struct train_result *out, struct errbuf *eb)
{
    struct shares s = {o, xcalloc(o->loops, sizeof *s.results)};
    enum err rc = spread_run(o->loops, o->loops, run_share, &s, eb);

    out->au_least = 1;
    for (unsigned i = 0; i < o->loops; i++)
        add_result(out, &s.results[i]);
    accelerator_rate(out);
    free(s.results);
    return rc;
}

enum err
train_run(const struct train_options *o, struct train_result *out, struct errbuf *eb)
{
    struct train_options each = *o;

    assert(o->accelerators > 0 && o->accelerators <= TRAIN_ACCELERATORS_MAX);
    assert(o->readers > 0 && o->prefetch > 0 && o->prefetch <= TRAIN_PREFETCH_MAX);
    assert(o->duration_ms > 0 || o->order->once);
    each.loops = MIN(o->loops, o->accelerators);
    return each.loops > 1 ? run_spread(&each, out, eb) : run_here(&each, out, eb);
}
