/* Emulated accelerators: utilisation by their own clock, exactly; what a source of known latency allows, in virtual time;
 * each file once an epoch, never further ahead than asked; errors and cancelling. */
#include "bench/accelerator.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "check.h"
#include "rt/fiber.h"
#include "rt/sim.h"
#include "rt/sync.h"
#include "rt/time.h"

#define MS(n) ((uint64_t)((n)*1000000.0))

/* ---- the clock ---- */

static void
test_the_clock(void)
{
    struct au a;

    au_begin(&a, MS(10), 1, MS(100));
    CHECK_U64(au_step(&a, MS(150)), MS(50)); /* left out */
    CHECK(au_of(&a) == 0);
    CHECK_U64(au_step(&a, MS(120)), 0); /* was there before: no wait */
    CHECK(au_of(&a) == 1.0);
    CHECK_U64(au_step(&a, MS(180)), MS(10)); /* 170 was the end of the step before */
    CHECK_U64(a.run_ns, MS(30));
    CHECK_U64(a.computed_ns, MS(20));
    CHECK(au_of(&a) == 20.0 / 30.0);
    au_end(&a, MS(185)); /* still computing: nothing was waited for */
    CHECK(au_of(&a) == 20.0 / 30.0);
    au_end(&a, MS(200));
    CHECK(au_of(&a) == 0.5);
}

static void
test_a_clock_that_never_got_going(void)
{
    struct au a;

    au_begin(&a, MS(10), 2, 0);
    (void)au_step(&a, MS(5));
    au_end(&a, MS(100));
    CHECK(au_of(&a) == 0);
    CHECK_U64(a.run_ns, MS(85)); /* it counts as waiting beside the others */
}

/* ---- a source ---- */

#define FILES 12

struct source {
    uint64_t takes_ms;
    unsigned fail_every, calls, concurrency, most_concurrent;
    unsigned seen[FILES];
    uint64_t samples;
    struct rt_sem line; /* one behind the other, when serial */
    bool serial;
};

static enum err
fetch(void *arg, const struct train_piece *p, uint64_t *bytes, struct errbuf *eb)
{
    struct source *s = arg;
    enum err rc = ERR_OK;

    s->calls++;
    s->concurrency++;
    s->most_concurrent = MAX(s->most_concurrent, s->concurrency);
    if (s->fail_every > 0 && s->calls % s->fail_every == 0) {
        s->concurrency--;
        return err_set(eb, ERR_IO, "call %u fails", s->calls);
    }
    if (s->serial)
        rc = rt_sem_acquire(&s->line, DEADLINE_NEVER);
    if (rc == ERR_OK) {
        rc = rt_sleep_ms(s->takes_ms);
        if (s->serial)
            rt_sem_release(&s->line);
    }
    s->concurrency--;
    if (rc == ERR_OK) {
        s->seen[p->file]++;
        s->samples += p->samples;
        *bytes = p->bytes;
    }
    return rc;
}

struct world {
    struct source source;
    struct train_file files[FILES];
    struct train_order order;
    struct train_options o;
    struct train_result *r;
};

/* A batch of 4 files of a sample each, 100 ms a step. */
static struct world *
world_new(void)
{
    struct world *w = xcalloc(1, sizeof *w);

    for (unsigned i = 0; i < FILES; i++)
        w->files[i] = (struct train_file){.bytes = 1000, .samples = 1};
    rt_sem_init(&w->source.line, 1);
    train_order_init(
        &w->order, w->files, FILES,
        &(struct train_layout){.sample_bytes = 1000, .request_bytes = 5000, .batch = 4},
        7);
    w->r = xcalloc(1, sizeof *w->r);
    w->o = (struct train_options){.accelerators = 1,
                                  .readers = 1,
                                  .prefetch = 2,
                                  .batch = 4,
                                  .step_ns = MS(100),
                                  .duration_ms = 10000,
                                  .order = &w->order,
                                  .fetch = fetch,
                                  .arg = &w->source};
    return w;
}

static void
world_free(struct world *w)
{
    free(w->r);
    free(w);
}

static void
run_well(struct world *w)
{
    struct errbuf eb = {{0}};

    CHECK(train_run(&w->o, w->r, &eb) == ERR_OK);
}

/* The simulator lets a microsecond pass a turn, and the last batch is cut short. */
static bool
about(double a, double b)
{
    return a > b - 0.003 && a < b + 0.003;
}

static void
is_kept_busy(void *arg)
{
    struct world *w = world_new();

    (void)arg;
    w->source.takes_ms = 24; /* 4 of them one after the other: 96 of 100 ms */
    run_well(w);
    CHECK(w->r->au == 1.0);
    CHECK(w->r->au_least == 1.0);
    CHECK_U64(histogram_at(&w->r->wait, 1), 0);
    CHECK(about(w->r->samples_s / 40, 1));
    CHECK_U64(w->r->steps, 100);
    world_free(w);
}

static void
waits_for_a_slow_source(void *arg)
{
    struct world *w = world_new();

    (void)arg;
    w->source.takes_ms = 50; /* a batch takes 200 ms, a step 100 */
    w->o.duration_ms = 100000;
    run_well(w);
    CHECK(about(w->r->au, 0.5));
    CHECK(about(w->r->samples_s / 20, 1));
    CHECK(about((double)histogram_at(&w->r->wait, 0.5) / MS(100), 1));
    CHECK((double)w->r->in_flight_ns / 1e9 / w->r->seconds > 0.99);
    world_free(w);
}

static void
readers_hide_latency(void *arg)
{
    struct world *w = world_new();

    (void)arg;
    w->source.takes_ms = 150;
    w->o.readers = 4; /* 150 ms a batch; */
    w->o.duration_ms = 100000;
    run_well(w);
    CHECK(about(w->r->au, 100.0 / 150));
    CHECK_U64(w->source.most_concurrent, 4);
    *w->r = (struct train_result){0};
    w->o.readers = 8; /* two batches at a time: 75 ms each */
    run_well(w);
    CHECK(w->r->au == 1.0);
    *w->r = (struct train_result){0};
    w->source.most_concurrent = 0;
    w->o.prefetch = 1; /* no more than the next batch is ever asked for */
    run_well(w);
    CHECK_U64(w->source.most_concurrent, 4);
    CHECK(about(w->r->au, 100.0 / 150));
    world_free(w);
}

/* Storage that gives 100 samples/s to all: enough for two and a half. */
static void
share_a_source(void *arg)
{
    static const double want[] = {1, 1, 100.0 / 120, 100.0 / 160};

    (void)arg;
    for (unsigned n = 1; n <= ARRAY_LEN(want); n++) {
        struct world *w = world_new();

        w->source.serial = true;
        w->source.takes_ms = 10;
        w->o.accelerators = n;
        w->o.readers = 2;
        w->o.duration_ms = 100000;
        run_well(w);
        CHECK(w->r->au > want[n - 1] - 0.01 && w->r->au < want[n - 1] + 0.01);
        CHECK(w->r->au_least <= w->r->au);
        CHECK(w->r->samples_s < 101);
        world_free(w);
    }
}

static void
read_each_file_once_an_epoch(void *arg)
{
    struct world *w = world_new();

    (void)arg;
    w->source.takes_ms = 1;
    w->o.accelerators = 3;
    w->o.duration_ms = 0;
    train_order_again(&w->order, true);
    run_well(w);
    for (unsigned i = 0; i < FILES; i++)
        CHECK_U64(w->source.seen[i], 1);
    world_free(w);
}

/* Files of ten samples in requests of up to five: a batch of four takes no more than four at once. */
static void
cut_large_files(void *arg)
{
    struct world *w = world_new();

    (void)arg;
    for (unsigned i = 0; i < FILES; i++)
        w->files[i] = (struct train_file){.bytes = 10000, .samples = 10};
    w->source.takes_ms = 1;
    w->o.duration_ms = 0;
    train_order_again(&w->order, true);
    run_well(w);
    CHECK_U64(w->source.samples, 120);
    CHECK_U64(w->r->samples, 120);
    CHECK_U64(w->r->steps, 30);
    CHECK_U64(w->r->bytes, 120000);
    CHECK_U64(w->r->requests, 36); /* 4, 4, 2, then 2, 4, 4 */
    world_free(w);
}

/* Rows in columns: a batch is whole when all chunks of its row group are. */
static void
read_columns(void *arg)
{
    struct world *w = world_new();

    (void)arg;
    for (unsigned i = 0; i < FILES; i++)
        w->files[i] = (struct train_file){.bytes = 80000, .samples = 80};
    w->source.takes_ms = 25; /* 5 columns by 5 readers */
    w->o.readers = 5;
    w->o.batch = 40;
    w->o.duration_ms = 0;
    train_order_init(
        &w->order, w->files, FILES,
        &(struct train_layout){
            .sample_bytes = 1000, .columns = 5, .read_bytes = 200, .batch = 40},
        7);
    train_order_again(&w->order, true);
    run_well(w);
    CHECK(w->r->au == 1.0);
    CHECK_U64(w->r->samples, FILES * 80);
    CHECK_U64(w->r->bytes, FILES * 80 * 200);
    CHECK_U64(w->r->requests, FILES * 2 * 5);
    world_free(w);
}

static void
try_again(void *arg)
{
    struct world *w = world_new();

    (void)arg;
    w->source.takes_ms = 1;
    w->source.fail_every = 5;
    w->o.duration_ms = 0;
    train_order_again(&w->order, true);
    run_well(w);
    CHECK_U64(w->source.samples, FILES); /* none is lost */
    CHECK(w->r->errors > 0);
    CHECK_SAYS(w->r->first_error.text, "call 5 fails");
    world_free(w);
}

static void
abandon(void *arg)
{
    struct world *w = world_new();
    struct errbuf eb = {{0}};

    (void)arg;
    w->source.fail_every = 1;
    w->o.accelerators = 3;
    CHECK(train_run(&w->o, w->r, &eb) == ERR_IO);
    CHECK_SAYS(eb.text, "call 1 fails");
    CHECK(w->r->errors <= TRAIN_ERRORS_MAX + 3);
    CHECK(w->r->au == 0);
    world_free(w);
}

static void
starve(void *arg)
{
    struct world *w = world_new();

    (void)arg;
    w->source.takes_ms = 1000000;
    run_well(w);
    CHECK(w->r->au == 0 && w->r->au_least == 0);
    CHECK_U64(w->r->counted, 0);
    CHECK(w->r->seconds < 10.1); /* the end comes all the same */
    world_free(w);
}

struct cut {
    struct world *w;
    enum err rc;
};
static void
long_run(void *arg)
{
    struct cut *c = arg;
    struct errbuf eb = {{0}};

    c->rc = train_run(&c->w->o, c->w->r, &eb);
}

static void
is_cancelled(void *arg)
{
    struct cut c = {world_new(), ERR_OK};
    struct rt_group g;

    (void)arg;
    c.w->source.takes_ms = 30;
    c.w->o.accelerators = 4;
    rt_group_begin(&g);
    CHECK(rt_group_start(&g, long_run, &c) == ERR_OK);
    CHECK(rt_sleep_ms(1234) == ERR_OK);
    rt_group_cancel(&g);
    rt_group_join(&g);
    CHECK(c.rc == ERR_CANCELLED);
    CHECK_U64(c.w->source.concurrency, 0);
    CHECK_U64(c.w->r->errors, 0);
    world_free(c.w);
}

static void
in_sim(fiber_fn *fn)
{
    struct sim *s = sim_new(&(struct sim_options){.seed = 1, .calm = true});
    struct errbuf eb = {{0}};

    CHECK(sim_run_world(s, fn, NULL, &eb) == ERR_OK);
    sim_free(&s);
}

#define IN_SIM(fn)                                                                       \
    static void test_##fn(void)                                                          \
    {                                                                                    \
        in_sim(fn);                                                                      \
    }
IN_SIM(is_kept_busy)
IN_SIM(waits_for_a_slow_source)
IN_SIM(readers_hide_latency)
IN_SIM(share_a_source)
IN_SIM(read_each_file_once_an_epoch)
IN_SIM(cut_large_files)
IN_SIM(read_columns)
IN_SIM(try_again)
IN_SIM(abandon)
IN_SIM(starve)
IN_SIM(is_cancelled)

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_the_clock);
    RUN(test_a_clock_that_never_got_going);
    RUN(test_is_kept_busy);
    RUN(test_waits_for_a_slow_source);
    RUN(test_readers_hide_latency);
    RUN(test_share_a_source);
    RUN(test_read_each_file_once_an_epoch);
    RUN(test_cut_large_files);
    RUN(test_read_columns);
    RUN(test_try_again);
    RUN(test_abandon);
    RUN(test_starve);
    RUN(test_is_cancelled);
    return check_done();
}
