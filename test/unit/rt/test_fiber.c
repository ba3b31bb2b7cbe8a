/* Fibers of one loop: order, time, scopes, shields, groups, and that cancellation sticks
 * to every kind of wait. */
#include <fenv.h>

#include "engines.h"
#include "rt/fiber.h"
#include "rt/file.h"
#include "rt/sync.h"

/* ---- order and time ---- */

struct steps {
    char text[32];
};

static void
say(struct steps *s, char c)
{
    s->text[strlen(s->text)] = c;
}

static struct steps order;

static void
abc(void *arg)
{
    (void)arg;
    say(&order, 'a');
    rt_yield();
    say(&order, 'b');
}

static void
order_fiber(void *arg)
{
    struct rt_group g;

    (void)arg;
    order = (struct steps){0};
    CHECK(rt_self() != NULL);
    rt_group_begin(&g);
    CHECK(rt_group_start(&g, abc, NULL) == ERR_OK);
    CHECK(rt_group_start(&g, abc, NULL) == ERR_OK);
    say(&order, '0'); /* children run at the next turn */
    rt_group_join(&g);
    CHECK_STR(order.text, "0aabb");
}
CASE(test_fibers_take_turns, 1, order_fiber)

/* ---- the retry budget ---- */

/* Takes `*arg` retries inside of a loop of its own; *arg becomes what it got. */
static void
inner_loop(void *arg)
{
    struct rt_retries inner;
    unsigned *want = arg, got = 0;

    rt_retries_begin(&inner);
    while (got < *want && rt_retry())
        got++;
    rt_retries_end(&inner);
    *want = got;
}

/* Nested loops and calls to other loops share the budget of the outermost one; a later one is full again. */
static void
retries_fiber(void *arg)
{
    struct rt_retries outer;
    unsigned n = 10;

    (void)arg;
    rt_retries_begin(&outer);
    CHECK(rt_retry());
    inner_loop(&n);
    CHECK_U64(n, 10);
    CHECK(rt_call(rt_loop_count() - 1, inner_loop, &n) == ERR_OK);
    CHECK_U64(n, 10);
    n = 2 * RT_RETRIES;
    inner_loop(&n);
    CHECK_U64(n, RT_RETRIES - 21);
    CHECK(!rt_retry());
    rt_retries_end(&outer);
    n = 2 * RT_RETRIES;
    inner_loop(&n);
    CHECK_U64(n, RT_RETRIES);
}
CASE(test_nested_loops_share_one_retry_budget, 1, retries_fiber)
REAL_CASE(test_the_retry_budget_goes_to_other_loops, 2, retries_fiber)

/* Fibers that others wait for run first, whenever they were woken. */
static struct rt_cond wakes;

static void
plain_fiber(void *arg)
{
    (void)arg;
    CHECK(rt_cond_wait(&wakes, DEADLINE_NEVER) == ERR_OK);
    say(&order, 'p');
}

static void
essential_fiber(void *arg)
{
    (void)arg;
    rt_essential();
    CHECK(rt_cond_wait(&wakes, DEADLINE_NEVER) == ERR_OK);
    say(&order, 'e');
    rt_yield(); /* a fiber that yields has no claim */
    say(&order, 'E');
}

static void
first_fiber(void *arg)
{
    struct rt_group g;

    (void)arg;
    order = (struct steps){0};
    rt_cond_init(&wakes);
    rt_group_begin(&g);
    CHECK(rt_group_start(&g, plain_fiber, NULL) == ERR_OK);
    CHECK(rt_group_start(&g, plain_fiber, NULL) == ERR_OK);
    CHECK(rt_group_start(&g, essential_fiber, NULL) == ERR_OK);
    rt_yield();
    rt_cond_broadcast(&wakes);
    rt_group_join(&g);
    CHECK_STR(order.text, "eppE");
}
CASE(test_essential_fibers_come_first, 1, first_fiber)

static void
say_and_wait(void *arg)
{
    struct rt_cond *c = arg;

    say(&order, 'w');
    CHECK(rt_cond_wait(c, DEADLINE_NEVER) == ERR_OK);
    say(&order, 'W');
}

static void
say_one(void *arg)
{
    say(&order, *(const char *)arg);
}

/* 1 and 2 are run by `first` before `last`, which was ready sooner; nothing is left over for a second call. */
static void
hurrying(void *arg)
{
    struct rt_group g;

    rt_group_begin(&g);
    CHECK(rt_group_start(&g, say_one, "1") == ERR_OK);
    rt_cond_broadcast(arg);
    CHECK(rt_group_start(&g, say_one, "2") == ERR_OK);
    rt_run_woken();
    say(&order, 'h');
    rt_run_woken();
    say(&order, 'i');
    rt_group_join(&g);
}

static void
woken_fiber(void *arg)
{
    struct rt_group g;
    struct rt_cond c;

    (void)arg;
    order = (struct steps){0};
    rt_cond_init(&c);
    rt_group_begin(&g);
    CHECK(rt_group_start(&g, say_and_wait, &c) == ERR_OK);
    rt_yield();
    CHECK(rt_group_start(&g, hurrying, &c) == ERR_OK);
    CHECK(rt_group_start(&g, say_one, "l") == ERR_OK);
    rt_group_join(&g);
    CHECK_STR(order.text, "w1W2hil");
}
CASE(test_those_that_were_woken_run_before_the_others, 1, woken_fiber)

static void
sleep_fiber(void *arg)
{
    uint64_t before = rt_now_ns();

    (void)arg;
    CHECK(rt_sleep_ms(20) == ERR_OK);
    CHECK(rt_now_ns() - before >= 20 * 1000000u);
    if (rt_engine_now() == RT_SIM)
        CHECK(rt_now_ns() - before < 21 * 1000000u);
    CHECK(rt_sleep_ms(0) == ERR_OK);
    CHECK(rt_sleep_until((struct deadline){1}) == ERR_OK); /* long ago */
    CHECK(rt_wall_ns() > 1600000000u * 1000000000ull);
}
CASE(test_sleeps_at_least_as_long_as_asked, 1, sleep_fiber)

enum { MANY = 2000 };
static unsigned woken;
static uint64_t last_due;

static void
sleep_then_count(void *arg)
{
    uint64_t ms = (uint64_t)(uintptr_t)arg;
    uint64_t due = rt_now_ns() + ms * 1000000u;

    CHECK(rt_sleep_ms(ms) == ERR_OK);
    CHECK(rt_now_ns() >= due);
    woken++;
    last_due = due;
}

static void
timers_fiber(void *arg)
{
    struct rt_group g;
    uint32_t random = 12345;

    (void)arg;
    woken = 0;
    rt_group_begin(&g);
    for (unsigned i = 0; i < MANY; i++) {
        random = random * 1664525 + 1013904223;
        CHECK(rt_group_start(&g, sleep_then_count, (void *)(uintptr_t)(random >> 26)) ==
              ERR_OK);
    }
    rt_group_join(&g);
    CHECK_U64(woken, MANY);
}
CASE(test_many_timers_all_fire, 1, timers_fiber)

static void
round_up_and_wait(void *arg)
{
    (void)arg;
    fesetround(FE_UPWARD);
    rt_yield();
    CHECK(fegetround() == FE_UPWARD);
}

static void
rounding_fiber(void *arg)
{
    struct rt_group g;

    (void)arg;
    rt_group_begin(&g);
    CHECK(rt_group_start(&g, round_up_and_wait, NULL) == ERR_OK);
    rt_yield();
    CHECK(fegetround() == FE_TONEAREST);
    rt_group_join(&g);
    CHECK(fegetround() == FE_TONEAREST);
}
CASE(test_a_fiber_keeps_its_rounding_mode, 1, rounding_fiber)

/* ---- deadlines ---- */

static void
scopes_fiber(void *arg)
{
    struct rt_cond never;
    struct rt_scope outer, inner;
    struct rt_shield shield;
    uint64_t begin = rt_now_ns();

    (void)arg;
    rt_cond_init(&never);
    CHECK(rt_scope_now().at_ns == UINT64_MAX);
    CHECK(rt_cond_wait(&never, deadline_in_ms(5)) == ERR_TIMEOUT);

    rt_scope_begin(&outer, deadline_in_ms(20));
    rt_scope_begin(&inner,
                   deadline_in_ms(PATIENCE_MS)); /* can't be longer than the outer one */
    CHECK(rt_cond_wait(&never, DEADLINE_NEVER) == ERR_TIMEOUT);
    if (rt_engine_now() == RT_SIM)
        CHECK(rt_now_ns() - begin < 30 * 1000000u);
    CHECK(rt_sleep_ms(1000) == ERR_TIMEOUT); /* the scope is over, not the sleep */
    rt_shield_begin(&shield);
    CHECK(rt_scope_now().at_ns == UINT64_MAX);
    CHECK(rt_sleep_ms(1) == ERR_OK);
    rt_shield_end(&shield);
    CHECK(rt_sleep_ms(1) == ERR_TIMEOUT);
    rt_scope_end(&inner);
    rt_scope_end(&outer);
    CHECK(rt_scope_now().at_ns == UINT64_MAX);
    CHECK(rt_sleep_ms(1) == ERR_OK);
}
CASE(test_scopes_bound_waits_and_shields_lift_them, 1, scopes_fiber)

static struct deadline seen_scope;

static void
see_scope(void *arg)
{
    (void)arg;
    seen_scope = rt_scope_now();
}

static void
inherit_fiber(void *arg)
{
    struct rt_scope s;
    struct rt_group g;
    struct deadline by = deadline_in_ms(5000);

    (void)arg;
    rt_scope_begin(&s, by);
    rt_group_begin(&g);
    CHECK(rt_group_start(&g, see_scope, NULL) == ERR_OK);
    rt_group_join(&g);
    rt_scope_end(&s);
    CHECK(seen_scope.at_ns == by.at_ns);
}
CASE(test_children_inherit_the_scope, 1, inherit_fiber)

/* ---- cancellation ---- */

struct victim {
    enum err first, second, shielded, after;
    bool saw, ended;
    struct fiber *self;
    struct rt_cond cond;
};

static void
be_cancelled(void *arg)
{
    struct victim *v = arg;
    struct rt_shield shield;

    v->self = rt_self();
    v->first = rt_cond_wait(&v->cond, DEADLINE_NEVER);
    v->second = rt_sleep_ms(1000);
    rt_shield_begin(&shield);
    v->saw = rt_cancelled();
    v->shielded = rt_sleep_ms(2);
    rt_shield_end(&shield);
    v->after = rt_sleep_ms(1000);
    v->ended = true;
}

static void
sticky_fiber(void *arg)
{
    struct victim v = {0};
    struct rt_group g;

    (void)arg;
    rt_cond_init(&v.cond);
    rt_group_begin(&g);
    CHECK(rt_group_start(&g, be_cancelled, &v) == ERR_OK);
    rt_yield();
    rt_cancel(v.self);
    rt_cancel(v.self); /* idempotent */
    rt_group_join(&g);
    CHECK(v.first == ERR_CANCELLED && v.second == ERR_CANCELLED);
    CHECK(v.shielded == ERR_OK && v.saw);
    CHECK(v.after == ERR_CANCELLED && v.ended);
}
CASE(test_cancellation_sticks_and_shields_hide_it, 1, sticky_fiber)

static enum err child_saw, grandchild_saw;

static void
wait_long(void *arg)
{
    *(enum err *)arg = rt_sleep_ms(60000);
}

static void
have_a_child(void *arg)
{
    struct rt_group g;

    (void)arg;
    rt_group_begin(&g);
    CHECK(rt_group_start(&g, wait_long, &grandchild_saw) == ERR_OK);
    child_saw = rt_sleep_ms(60000);
    rt_group_join(&g); /* not before the grandchild has ended */
    CHECK(grandchild_saw == ERR_CANCELLED);
}

static void
groups_fiber(void *arg)
{
    struct rt_group g;
    enum err late = ERR_OK;

    (void)arg;
    child_saw = grandchild_saw = ERR_OK;
    rt_group_begin(&g);
    CHECK(rt_group_start(&g, have_a_child, NULL) == ERR_OK);
    CHECK(rt_sleep_ms(5) == ERR_OK);
    rt_group_cancel(&g);
    CHECK(rt_group_start(&g, wait_long, &late) ==
          ERR_OK); /* cancelled from birth, but it runs */
    rt_group_join(&g);
    CHECK(child_saw == ERR_CANCELLED && late == ERR_CANCELLED);
    CHECK(!rt_cancelled());
}
CASE(test_cancelling_a_group_reaches_grandchildren, 1, groups_fiber)

/* What happened first counts: a signal that came before the cancellation is not lost. */
static void
race_fiber(void *arg)
{
    struct victim v = {0};
    struct rt_group g;

    (void)arg;
    rt_cond_init(&v.cond);
    rt_group_begin(&g);
    CHECK(rt_group_start(&g, be_cancelled, &v) == ERR_OK);
    rt_yield();
    rt_cond_signal(&v.cond);
    rt_cancel(v.self);
    rt_group_join(&g);
    CHECK(v.first == ERR_OK && v.second == ERR_CANCELLED);
}
CASE(test_a_wake_before_the_cancel_counts, 1, race_fiber)

static enum err daemon_saw;

static void
daemon_fiber(void *arg)
{
    daemon_saw = rt_sleep_ms(60000);
    CHECK(rt_spawn(wait_long, arg) == ERR_OK); /* even now: it is born cancelled */
}

static enum err late_saw;

static void
spawn_fiber(void *arg)
{
    (void)arg;
    daemon_saw = late_saw = ERR_OK;
    CHECK(rt_spawn(daemon_fiber, &late_saw) == ERR_OK);
    rt_yield();
}

static void
test_the_end_cancels_and_joins_what_was_spawned(void)
{
    for (unsigned i = 0; i < 2; i++) {
        run_fiber(engines_[i], 1, spawn_fiber, NULL);
        CHECK(daemon_saw == ERR_CANCELLED);
        CHECK(late_saw == ERR_CANCELLED);
    }
}

/* ---- stacks ---- */

static unsigned too_many;

static void
fill_stacks_fiber(void *arg)
{
    struct rt_group g;
    enum err seen[70];
    unsigned started = 0;

    (void)arg;
    rt_group_begin(&g);
    while (started < 70 && rt_group_start(&g, wait_long, &seen[started]) == ERR_OK)
        started++;
    too_many = started;
    rt_group_cancel(&g);
    rt_group_join(&g);
    for (unsigned i = 0; i < started; i++)
        CHECK(seen[i] == ERR_CANCELLED);
    CHECK(rt_spawn(abc, NULL) == ERR_OK); /* stacks are free again */
}

static void
test_out_of_stacks_is_busy(void)
{
    struct rt_options o = {.engine = RT_EPOLL, .loops = 1, .fibers_max = 64};

    CHECK(rt_run(&o, fill_stacks_fiber, NULL, NULL) == ERR_OK);
    CHECK_U64(too_many, 63); /* one is the first fiber's */
}

static unsigned
deep(unsigned n)
{
    volatile char room[256];

    room[0] = (char)n;
    return n == 0 ? (unsigned)room[0] : deep(n - 1) + 1;
}

static void
deep_fiber(void *arg)
{
    (void)arg;
    CHECK(deep(100) == 100); /* 40 KiB or so */
    rt_yield();
    CHECK(deep(100) == 100);
}
CASE(test_a_stack_takes_40_kib, 1, deep_fiber)

/* ---- sync ---- */

struct taker {
    struct rt_sem *sem;
    struct steps *log;
    char name;
    uint64_t ms;
};

static void
take(void *arg)
{
    struct taker *t = arg;
    enum err rc =
        rt_sem_acquire(t->sem, t->ms > 0 ? deadline_in_ms(t->ms) : DEADLINE_NEVER);

    say(t->log, rc == ERR_OK ? t->name : 'x');
}

static void
sem_fiber(void *arg)
{
    struct rt_sem s;
    struct steps log = {0};
    struct taker a = {&s, &log, 'a', 0}, b = {&s, &log, 'b', 5}, c = {&s, &log, 'c', 0};
    struct rt_group g;

    (void)arg;
    rt_sem_init(&s, 2);
    CHECK(rt_sem_acquire(&s, DEADLINE_NEVER) == ERR_OK);
    CHECK(rt_sem_try_acquire(&s) && !rt_sem_try_acquire(&s));
    rt_group_begin(&g);
    CHECK(rt_group_start(&g, take, &a) == ERR_OK);
    CHECK(rt_group_start(&g, take, &b) == ERR_OK);
    CHECK(rt_group_start(&g, take, &c) == ERR_OK);
    while (log.text[0] == '\0') /* b ends */
        CHECK(rt_sleep_ms(1) == ERR_OK);
    CHECK_STR(log.text, "x");
    rt_sem_release(&s);
    CHECK(!rt_sem_try_acquire(&s)); /* it is a's already */
    rt_sem_release(&s);
    rt_group_join(&g);
    CHECK_STR(log.text, "xac");
    rt_sem_release(&s);
    rt_sem_release(&s);
    CHECK_U64(s.free, 2);
}
CASE(test_semaphores_are_first_come_first_served, 1, sem_fiber)

static struct rt_cond shared;
static unsigned signalled;

static void
wait_shared(void *arg)
{
    (void)arg;
    if (rt_cond_wait(&shared, DEADLINE_NEVER) == ERR_OK)
        signalled++;
}

static void
cond_fiber(void *arg)
{
    struct rt_group g;

    (void)arg;
    signalled = 0;
    rt_cond_init(&shared);
    rt_cond_signal(&shared); /* not kept */
    rt_group_begin(&g);
    for (int i = 0; i < 5; i++)
        CHECK(rt_group_start(&g, wait_shared, NULL) == ERR_OK);
    rt_yield();
    rt_yield();
    CHECK_U64(signalled, 0);
    rt_cond_signal(&shared);
    rt_yield();
    CHECK_U64(signalled, 1);
    rt_cond_broadcast(&shared);
    rt_group_join(&g);
    CHECK_U64(signalled, 5);
    rt_cond_broadcast(&shared);
}
CASE(test_signal_wakes_one_and_broadcast_all, 1, cond_fiber)

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_fibers_take_turns);
    RUN(test_nested_loops_share_one_retry_budget);
    RUN(test_the_retry_budget_goes_to_other_loops);
    RUN(test_essential_fibers_come_first);
    RUN(test_those_that_were_woken_run_before_the_others);
    RUN(test_sleeps_at_least_as_long_as_asked);
    RUN(test_many_timers_all_fire);
    RUN(test_a_fiber_keeps_its_rounding_mode);
    RUN(test_scopes_bound_waits_and_shields_lift_them);
    RUN(test_children_inherit_the_scope);
    RUN(test_cancellation_sticks_and_shields_hide_it);
    RUN(test_cancelling_a_group_reaches_grandchildren);
    RUN(test_a_wake_before_the_cancel_counts);
    RUN(test_the_end_cancels_and_joins_what_was_spawned);
    RUN(test_out_of_stacks_is_busy);
    RUN(test_a_stack_takes_40_kib);
    RUN(test_semaphores_are_first_come_first_served);
    RUN(test_signal_wakes_one_and_broadcast_all);
    return check_done();
}
