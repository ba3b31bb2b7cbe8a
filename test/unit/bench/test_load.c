/* A load follows its options: count, concurrency, duration; errors are counted and end what makes no sense.
 * In virtual time, so that durations are exact. */
#include "bench/load.h"
#include "check.h"
#include "rt/fiber.h"
#include "rt/sim.h"

struct step {
    unsigned concurrency, most_concurrent, calls, notes;
    uint64_t takes_ms;
    unsigned fail_every; /* 0: never */
    bool seen[1000];
};

static enum err
one(void *arg, uint64_t number, struct load_sample *out, struct errbuf *eb)
{
    struct step *s = arg;
    enum err rc;

    s->calls++;
    s->concurrency++;
    if (s->concurrency > s->most_concurrent)
        s->most_concurrent = s->concurrency;
    if (number < 1000) {
        CHECK(!s->seen[number]);
        s->seen[number] = true;
    }
    rc = rt_sleep_ms(s->takes_ms);
    s->concurrency--;
    if (rc != ERR_OK)
        return rc;
    out->bytes = 10;
    out->first_ns = 1000;
    if (s->fail_every > 0 && (number + 1) % s->fail_every == 0)
        return err_set(eb, ERR_IO, "step %u fails", (unsigned)number);
    return ERR_OK;
}

static void
note(void *arg, const struct load_sample *s)
{
    struct step *mine = arg;

    CHECK_U64(s->bytes, 10);
    mine->notes++;
}

static void
counts(void *arg)
{
    struct step s = {.takes_ms = 7};
    struct load_options o = {.concurrency = 4, .count = 100, .on_step = note, .arg = &s};
    struct load_result *r = calloc(1, sizeof *r);
    struct errbuf eb = {{0}};

    (void)arg;
    REQUIRE(r != NULL);
    CHECK(load_run(&o, one, &s, r, &eb) == ERR_OK);
    CHECK_U64(s.calls, 100);
    CHECK_U64(s.most_concurrent, 4);
    CHECK_U64(s.notes, 100);
    CHECK_U64(r->done, 100);
    CHECK_U64(r->bytes, 1000);
    CHECK_U64(r->items, 100);
    CHECK_U64(r->errors, 0);
    CHECK_U64(r->took.total, 100);
    CHECK_U64(r->first.total, 100);
    CHECK(histogram_at(&r->took, 0.5) >= 7000000);
    CHECK(r->seconds >= 25 * 0.007 && r->seconds < 25 * 0.007 + 0.1);
    for (int i = 0; i < 100; i++)
        CHECK(s.seen[i]);
    free(r);
}

static void
ends_in_time(void *arg)
{
    struct step s = {.takes_ms = 10};
    struct load_options o = {.concurrency = 2, .duration_ms = 1000};
    struct load_result *r = calloc(1, sizeof *r);
    struct errbuf eb = {{0}};

    (void)arg;
    REQUIRE(r != NULL);
    CHECK(load_run(&o, one, &s, r, &eb) == ERR_OK);
    CHECK(r->done >= 190 && r->done <= 202);
    CHECK(r->seconds >= 1 && r->seconds < 1.1);
    free(r);
}

static void
counts_errors(void *arg)
{
    struct step s = {.takes_ms = 1, .fail_every = 10};
    struct load_options o = {.concurrency = 3, .count = 100};
    struct load_result *r = calloc(1, sizeof *r);
    struct errbuf eb = {{0}};

    (void)arg;
    REQUIRE(r != NULL);
    CHECK(load_run(&o, one, &s, r, &eb) == ERR_OK);
    CHECK_U64(r->errors, 10);
    CHECK_U64(r->done, 90);
    CHECK_SAYS(r->first_error.text, "step 9 fails");
    free(r);
}

static void
ends_when_nothing_works(void *arg)
{
    struct step s = {.takes_ms = 1, .fail_every = 1};
    struct load_options o = {.concurrency = 3, .count = 1000};
    struct load_result *r = calloc(1, sizeof *r);
    struct errbuf eb = {{0}};

    (void)arg;
    REQUIRE(r != NULL);
    CHECK(load_run(&o, one, &s, r, &eb) == ERR_IO);
    CHECK_SAYS(eb.text, "step 0 fails");
    CHECK(r->errors > LOAD_ERRORS_MAX && r->errors <= LOAD_ERRORS_MAX + 3);
    CHECK_U64(r->done, 0);
    free(r);
}

struct cut {
    struct load_result *r;
    struct step s;
    enum err rc;
};

static void
long_load(void *arg)
{
    struct cut *c = arg;
    struct load_options o = {.concurrency = 2, .duration_ms = 100000};
    struct errbuf eb = {{0}};

    c->rc = load_run(&o, one, &c->s, c->r, &eb);
}

/* Ctrl-C: the report covers what was done until then. */
static void
is_cancelled(void *arg)
{
    struct cut c = {.r = calloc(1, sizeof *c.r), .s = {.takes_ms = 10}, .rc = ERR_IO};
    struct rt_group g;

    (void)arg;
    REQUIRE(c.r != NULL);
    rt_group_begin(&g);
    CHECK(rt_group_start(&g, long_load, &c) == ERR_OK);
    CHECK(rt_sleep_ms(500) == ERR_OK);
    rt_group_cancel(&g);
    rt_group_join(&g);
    CHECK(c.rc == ERR_OK);
    CHECK(c.r->done >= 90 && c.r->done <= 100);
    CHECK_U64(c.r->errors, 0);
    CHECK(c.r->seconds < 0.6);
    free(c.r);
}

static void
in_sim(fiber_fn *fn)
{
    struct sim *s = sim_new(&(struct sim_options){.seed = 1, .calm = true});
    struct errbuf eb = {{0}};

    CHECK(sim_run_world(s, fn, NULL, &eb) == ERR_OK);
    sim_free(&s);
}

static void
test_counts(void)
{
    in_sim(counts);
}
static void
test_ends_in_time(void)
{
    in_sim(ends_in_time);
}
static void
test_counts_errors(void)
{
    in_sim(counts_errors);
}
static void
test_ends_when_nothing_works(void)
{
    in_sim(ends_when_nothing_works);
}
static void
test_is_cancelled(void)
{
    in_sim(is_cancelled);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_counts);
    RUN(test_ends_in_time);
    RUN(test_counts_errors);
    RUN(test_ends_when_nothing_works);
    RUN(test_is_cancelled);
    return check_done();
}
