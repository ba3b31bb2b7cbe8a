/* endpoint: the rate of a remote, shared by its readers, and readers before background transfers. In virtual time. */
#include "cloud/endpoint.h"
#include "unit/rt/engines.h"

#define PIECE  1000u
#define RATE   100000u /* 10 ms a piece */
#define PIECES 100u

struct taker {
    struct endpoint *e;
    const bool *urgent;
    unsigned wanted, took;
    uint64_t last_ns;
    enum err rc;
};

static void
take(void *arg)
{
    struct taker *t = arg;

    while (t->took < t->wanted) {
        t->rc = endpoint_wait(t->e, t->urgent);
        if (t->rc != ERR_OK)
            return;
        endpoint_consumed(t->e, PIECE);
        t->took++;
        t->last_ns = rt_now_ns();
    }
}

static void
all_together(void *arg)
{
    struct endpoints list = {NULL};
    struct endpoint *c = endpoint_of(&list, "one", RATE);
    struct taker two[2] = {{.e = c, .wanted = PIECES}, {.e = c, .wanted = PIECES}};
    uint64_t begun = rt_now_ns();
    struct rt_group g;

    (void)arg;
    CHECK(endpoint_of(&list, "two", RATE) != c && endpoint_of(&list, "one", 1) == c);
    rt_group_begin(&g);
    for (unsigned i = 0; i < 2; i++)
        CHECK(rt_group_start(&g, take, &two[i]) == ERR_OK);
    rt_group_join(&g);
    /* The last ones do not wait for what they took. */
    CHECK(rt_now_ns() - begun >= (2 * PIECES - 2) * 10000000ull);
    CHECK(rt_now_ns() - begun <= (2 * PIECES + 2) * 10000000ull);
    endpoints_fini(&list);
}

static void
readers_first(void *arg)
{
    struct endpoints list = {NULL};
    struct endpoint *c = endpoint_of(&list, "one", RATE);
    bool urgent = false;
    struct taker reader = {.e = c, .wanted = 3 * PIECES},
                 behind = {.e = c, .urgent = &urgent, .wanted = 3 * PIECES};
    uint64_t begun = rt_now_ns();
    struct rt_group g;

    (void)arg;
    rt_group_begin(&g);
    CHECK(rt_group_start(&g, take, &behind) == ERR_OK);
    CHECK(rt_group_start(&g, take, &reader) == ERR_OK);
    CHECK(rt_sleep_until((struct deadline){begun + 2900000000ull}) == ERR_OK);
    CHECK(reader.took > 270 && behind.took >= 2 && behind.took < 20);
    CHECK(rt_sleep_until((struct deadline){begun + 3400000000ull}) == ERR_OK);
    CHECK(reader.took == reader.wanted && behind.took > 20); /* no other reader */
    rt_group_cancel(&g);
    rt_group_join(&g);
    CHECK(behind.rc == ERR_CANCELLED);
    endpoints_fini(&list);
}

static void
a_reader_comes(void *arg)
{
    struct endpoints list = {NULL};
    struct endpoint *c = endpoint_of(&list, "one", RATE);
    bool urgent = false;
    struct taker reader = {.e = c, .wanted = 3 * PIECES},
                 joined = {.e = c, .urgent = &urgent, .wanted = PIECES};
    struct rt_group g;

    (void)arg;
    rt_group_begin(&g);
    CHECK(rt_group_start(&g, take, &joined) == ERR_OK);
    CHECK(rt_group_start(&g, take, &reader) == ERR_OK);
    CHECK(rt_sleep_ms(500) == ERR_OK);
    CHECK(joined.took < 10);
    urgent = true;
    rt_group_join(&g);
    CHECK(joined.last_ns < reader.last_ns);
    endpoints_fini(&list);
}

static void
no_rate(void *arg)
{
    struct endpoints list = {NULL};
    struct taker t = {.e = endpoint_of(&list, "one", 0), .wanted = PIECES};
    uint64_t begun = rt_now_ns();

    (void)arg;
    take(&t);
    CHECK_U64(rt_now_ns(), begun);
    endpoints_fini(&list);
}

static void
down_and_up(void *arg)
{
    struct endpoints list = {NULL};
    struct endpoint *one = endpoint_of(&list, "one", 0);

    (void)arg;
    (void)endpoint_of(&list, "two", 0);
    CHECK(!endpoints_any_down(&list) && !endpoint_is_down(&list, "one"));
    endpoint_mark_down(one);
    endpoint_mark_down(one);
    CHECK(endpoints_any_down(&list) && endpoint_is_down(&list, "one"));
    CHECK(!endpoint_is_down(&list, "two") && !endpoint_is_down(&list, "three"));
    endpoint_mark_up(one);
    endpoint_mark_up(one);
    CHECK(!endpoints_any_down(&list) && !endpoint_is_down(&list, "one"));
    endpoint_mark_down(one);
    CHECK(rt_sleep_ms(ENDPOINT_DOWN_MS - 1) == ERR_OK && endpoint_is_down(&list, "one"));
    CHECK(rt_sleep_ms(2) == ERR_OK && !endpoint_is_down(&list, "one"));
    CHECK(!endpoints_any_down(&list));
    endpoints_fini(&list);
}

static void
test_in_virtual_time(void)
{
    fiber_fn *const all[] = {all_together, readers_first, a_reader_comes, no_rate,
                             down_and_up};

    for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++)
        run_fiber(RT_SIM, 1, all[i], NULL);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_in_virtual_time);
    return check_done();
}
