/* The block cache takes what nothing else uses and gives it back when something does: samples in, a target out, in
 * virtual time. */
#include "base/mem.h"
#include "check.h"
#include "node/cache_policy.h"

/* A machine with others on it. */
struct world {
    struct cache_policy policy;
    struct cache_sample s;
    uint64_t limit, others; /* bytes that other programs take */
    uint64_t wants;         /* the cache grows to this if it may */
};

static struct world
world_of(uint64_t limit, uint64_t most, bool fixed)
{
    struct world w = {.limit = limit, .wants = UINT64_MAX};

    cache_policy_init(&w.policy, most, fixed);
    w.s.memory = (struct rt_memory){
        .machine = limit, .limit = limit, .group_stalled_us = 1, .machine_stalled_us = 1};
    return w;
}

/* 250 ms pass; stalls in thousandths of them. Returns the target; the cache follows it. */
static uint64_t
world_step(struct world *w, unsigned group_stalls, unsigned machine_stalls)
{
    uint64_t target;

    w->s.at_ms += CACHE_LOOK_MS;
    w->s.memory.available = w->limit - MIN(w->limit, w->others + w->s.held);
    w->s.memory.group_stalled_us += (uint64_t)group_stalls * CACHE_LOOK_MS;
    w->s.memory.machine_stalled_us += (uint64_t)machine_stalls * CACHE_LOOK_MS;
    target = cache_policy_step(&w->policy, &w->s);
    w->s.held = MIN(target, w->wants);
    return target;
}

static void
test_it_grows_to_half_of_an_idle_machine(void)
{
    struct world w = world_of(GIB(64), GIB(32), false);

    w.others = GIB(2);
    CHECK_U64(world_step(&w, 0, 0), GIB(32));
    CHECK_U64(cache_policy_wait_ms(&w.s), CACHE_REST_MS);
    CHECK_U64(world_step(&w, 0, 0), GIB(32));
    w.others = GIB(20); /* there is still more than the reserve */
    CHECK_U64(world_step(&w, 0, 0), GIB(32));
    CHECK_U64(cache_policy_wait_ms(&w.s), CACHE_LOOK_MS);
}

static void
test_it_leaves_the_reserve(void)
{
    struct world w = world_of(GIB(16), GIB(8), false);

    w.others = GIB(12);
    for (unsigned i = 0; i < 100; i++)
        (void)world_step(&w, 0, 0);
    CHECK(w.s.held > GIB(2) && w.s.held <= GIB(4) - cache_reserve(GIB(16)));
}

/* A program takes 4 GiB a second: there is always something left for it, and the reserve is back within a second. */
static void
test_it_gives_back_within_a_second(void)
{
    struct world w = world_of(GIB(16), GIB(8), false);
    uint64_t began;

    w.others = GIB(2);
    CHECK_U64(world_step(&w, 0, 0), GIB(8));
    began = w.s.at_ms;
    for (; w.others < GIB(15); w.others += GIB(1)) {
        CHECK(w.others + w.s.held < GIB(16));
        (void)world_step(&w, 0, 0);
        CHECK(w.policy.tight == (w.others + GIB(8) + cache_reserve(GIB(16)) > GIB(16)));
        CHECK(w.s.held <= GIB(16) - w.others);
    }
    began = w.s.at_ms;
    w.others = GIB(16); /* all of it: down to nothing */
    while (w.s.held > 0 && w.s.at_ms - began < 1000)
        (void)world_step(&w, 0, 0);
    CHECK_U64(w.s.held, 0);
    w.others = GIB(2); /* it ends: after a while the cache grows again */
    CHECK_U64(world_step(&w, 0, 0), 0);
    for (unsigned i = 0; i < CACHE_WAIT_MS / CACHE_LOOK_MS; i++)
        (void)world_step(&w, 0, 0);
    CHECK_U64(w.s.held, GIB(8));
}

static void
test_stalls_shrink_it(void)
{
    struct world w = world_of(GIB(16), GIB(8), false);

    CHECK_U64(world_step(&w, 0, 0), GIB(8));
    CHECK_U64(world_step(&w, 100, 0), GIB(7));
    for (unsigned i = 0; i < 400; i++)
        (void)world_step(&w, 500, 0);
    CHECK_U64(w.s.held, 0); /* whatever the other figures say */
}

static void
test_few_stalls_stop_its_growth(void)
{
    struct world w = world_of(GIB(16), GIB(8), false);

    w.wants = GIB(3);
    (void)world_step(&w, 0, 0);
    w.wants = UINT64_MAX;
    CHECK_U64(world_step(&w, 20, 0), GIB(3));
    CHECK(!w.policy.tight);
    CHECK_U64(world_step(&w, 0, 0), GIB(8));
}

/* Another group that thrashes within its own limit is no reason; a machine that has little left is. */
static void
test_stalls_of_the_machine(void)
{
    struct world w = world_of(GIB(16), GIB(8), false);

    CHECK_U64(world_step(&w, 0, 0), GIB(8));
    CHECK_U64(world_step(&w, 0, 900), GIB(8));
    w.others = GIB(6); /* 2 GiB left: more than the reserve, less than twice as much */
    CHECK_U64(world_step(&w, 0, 900), GIB(7));
}

static void
test_a_fixed_size(void)
{
    struct world w = world_of(GIB(16), GIB(1), true);

    w.others = GIB(15);
    CHECK_U64(world_step(&w, 0, 0), GIB(1));
    CHECK_U64(world_step(&w, 200, 0),
              GIB(1) - MIB(128)); /* as before: an eighth a look */
    CHECK_U64(world_step(&w, 0, 0), GIB(1));
}

static void
test_clients_come_first(void)
{
    struct world w = world_of(GIB(16), GIB(8), false);

    CHECK_U64(world_step(&w, 0, 0), GIB(8));
    w.s.clients_tight = true;
    CHECK_U64(world_step(&w, 0, 0), GIB(7));
}

static void
test_the_reserve(void)
{
    CHECK_U64(cache_reserve(MIB(128)), MIB(32));
    CHECK_U64(cache_reserve(MIB(512)), MIB(64));
    CHECK_U64(cache_reserve(GIB(4)), GIB(4) / 10);
    CHECK_U64(cache_reserve(GIB(1024)), GIB(8));
}

/* Any samples: never more than `most`, and below the reserve never more than it holds. */
static void
test_any_samples(void)
{
    uint64_t x = 88172645463325252u;
    struct cache_policy p;
    struct cache_sample s = {0};

    cache_policy_init(&p, GIB(40), false);
    for (unsigned i = 0; i < 100000; i++) {
        uint64_t target;

        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        s.at_ms += x % 3 == 0 ? 0 : x % 100000;
        s.memory.limit = x % 7 == 0 ? 0 : (x >> 8) % GIB(128);
        s.memory.available = x % 5 == 0 ? 0 : (x >> 16) % GIB(256);
        s.memory.group_stalled_us =
            x % 11 == 0 ? 0 : s.memory.group_stalled_us + x % 9999;
        s.memory.machine_stalled_us += x % 4 == 0 ? x % 999999 : 0;
        s.clients_tight = x % 13 == 0;
        target = cache_policy_step(&p, &s);
        CHECK(target <= GIB(40));
        CHECK(s.memory.available >= cache_reserve(s.memory.limit) || target <= s.held);
        s.held = target;
    }
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_it_grows_to_half_of_an_idle_machine);
    RUN(test_it_leaves_the_reserve);
    RUN(test_it_gives_back_within_a_second);
    RUN(test_stalls_shrink_it);
    RUN(test_few_stalls_stop_its_growth);
    RUN(test_stalls_of_the_machine);
    RUN(test_a_fixed_size);
    RUN(test_clients_come_first);
    RUN(test_the_reserve);
    RUN(test_any_samples);
    return check_done();
}
