/* breaker and throttle: when a backend is left alone, when it is asked again, and how many transfers it gets at once. */
#include "base/mem.h"
#include "check.h"
#include "cloud/breaker.h"
#include "cloud/throttle.h"
#include "rt/loop.h"

#define MS 1000000ull

static void
fail(struct breaker *b, uint64_t now_ms)
{
    uint64_t left;

    if (breaker_allows(b, now_ms * MS, &left))
        (void)breaker_report(b, BREAKER_NO_ANSWER, now_ms * MS);
}

static bool
may(struct breaker *b, uint64_t now_ms)
{
    uint64_t left;

    return breaker_allows(b, now_ms * MS, &left);
}

static void
test_opens(void)
{
    struct breaker b = {0};
    uint64_t left;

    for (unsigned i = 0; i < 100; i++) /* many at the same moment are one event */
        fail(&b, 1);
    CHECK(!breaker_is_open(&b));
    fail(&b, BREAKER_SPAN_MS);
    CHECK(!breaker_is_open(&b));
    fail(&b, BREAKER_SPAN_MS + 1);
    CHECK(breaker_is_open(&b));
    CHECK(!breaker_allows(&b, (BREAKER_SPAN_MS + 1) * MS, &left));
    CHECK_U64(left, BREAKER_WAIT_MS);
}

static void
test_few_do_not_open(void)
{
    struct breaker b = {0};

    for (unsigned i = 0; i + 1 < BREAKER_FAILURES; i++)
        fail(&b, i * BREAKER_SPAN_MS);
    CHECK(!breaker_is_open(&b));
    CHECK(!breaker_report(&b, BREAKER_ANSWERED, 1)); /* nothing has changed for others */
    for (unsigned i = 0; i + 1 < BREAKER_FAILURES; i++)
        fail(&b, 100000 + i * BREAKER_SPAN_MS);
    CHECK(!breaker_is_open(&b));
}

static void
test_trial(void)
{
    struct breaker b = {0};
    uint64_t now = 0;

    for (unsigned i = 0; i < BREAKER_FAILURES; i++)
        fail(&b, now = i * BREAKER_SPAN_MS);
    CHECK(breaker_is_open(&b));
    CHECK(!breaker_report(&b, BREAKER_NO_ANSWER, now * MS)); /* one that began before */
    CHECK(!may(&b, now + BREAKER_WAIT_MS - 1));
    CHECK(may(&b, now += BREAKER_WAIT_MS));
    CHECK(!may(&b, now)); /* one call only */
    CHECK(!breaker_report(&b, BREAKER_UNKNOWN, now * MS));
    CHECK(may(&b, now));
    CHECK(!breaker_report(&b, BREAKER_NO_ANSWER, now * MS));
    CHECK(!may(&b, now + 2 * BREAKER_WAIT_MS - 1));
    for (unsigned i = 0; i < 20; i++) { /* the wait has an end */
        now += BREAKER_WAIT_MAX_MS;
        CHECK(may(&b, now));
        (void)breaker_report(&b, BREAKER_NO_ANSWER, now * MS);
    }
    CHECK(may(&b, now += BREAKER_WAIT_MAX_MS));
    CHECK(breaker_report(&b, BREAKER_ANSWERED, now * MS));
    CHECK(!breaker_is_open(&b) && may(&b, now) && may(&b, now));
}

/* ---- the throttle ---- */

struct some {
    struct throttle *t;
    unsigned *in, *most;
};

static void
transfer(void *arg)
{
    struct some *s = arg;

    CHECK(throttle_enter(s->t) == ERR_OK);
    ++*s->in;
    *s->most = MAX(*s->most, *s->in);
    for (int i = 0; i < 3; i++)
        rt_yield();
    --*s->in;
    throttle_success(s->t);
    throttle_leave(s->t);
}

static unsigned
most_at_once(struct throttle *t, unsigned count)
{
    unsigned in = 0, most = 0;
    struct some s = {t, &in, &most};
    struct rt_group g;

    rt_group_begin(&g);
    for (unsigned i = 0; i < count; i++)
        CHECK(rt_group_start(&g, transfer, &s) == ERR_OK);
    rt_group_join(&g);
    CHECK_U64(t->busy, 0);
    return most;
}

static void
throttled(void *arg)
{
    struct throttle t;

    (void)arg;
    throttle_init(&t, 16);
    CHECK_U64(most_at_once(&t, 40), 16);
    t.busy = 16;
    CHECK(throttle_slow_down(&t, 1000 * MS));
    CHECK(!throttle_slow_down(&t, 1001 * MS)); /* the same burst */
    CHECK_U64((unsigned)t.limit, 8);
    CHECK(throttle_slow_down(&t, 2000 * MS));
    t.busy = 0;
    CHECK_U64((unsigned)t.limit, 4);
    CHECK(most_at_once(&t, 4) <= 5);
    for (unsigned i = 0; i < 10; i++) {
        t.busy = 1;
        (void)throttle_slow_down(&t, (3000 + i * 1000) * MS);
        t.busy = 0;
    }
    CHECK_U64((unsigned)t.limit, 1);
    CHECK(most_at_once(&t, 300) > 8); /* it comes back as things go well */
    for (unsigned i = 0; i < 1000; i++)
        throttle_success(&t);
    CHECK_U64((unsigned)t.limit, 16);
}

static void
test_throttle(void)
{
    struct rt_options o = {.engine = RT_EPOLL, .loops = 1};
    struct errbuf eb = {{0}};

    CHECK(rt_run(&o, throttled, NULL, &eb) == ERR_OK);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_opens);
    RUN(test_few_do_not_open);
    RUN(test_trial);
    RUN(test_throttle);
    return check_done();
}
