/* Several loops and threads: messages, calls, wakes, retiring, the worker pool,
 * listeners, signals, descriptors running out. Runs under TSan too. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/mem.h"
#include "engines.h"
#include "rt/net.h"
#include "rt/sanitize.h"
#include "rt/sync.h"

#define SOON deadline_in_ms(PATIENCE_MS)

/* ---- messages ---- */

enum { MESSAGES = 200000, IN_FLIGHT = 64 }; /* each way */

struct ball {
    struct rt_msg msg;
    struct side *from;
};
/* One loop's half of the game: sends its balls to the other loop, which sends them
 * back. */
struct side {
    unsigned loop, other;
    unsigned sent, home, abroad;
    struct ball balls[IN_FLIGHT];
    struct rt_waiter over;
};

static void on_abroad(struct rt_msg *m);

static void
on_owner_loop(struct rt_msg *m)
{
    struct ball *b = CONTAINER_OF(m, struct ball, msg);
    struct side *s = b->from;

    CHECK(rt_loop_index() == s->loop);
    s->home++;
    if (s->sent < MESSAGES) {
        s->sent++;
        m->fn = on_abroad;
        rt_post(s->other, m);
    } else if (s->home == MESSAGES) {
        rt_wake(&s->over);
    }
}

static void
on_abroad(struct rt_msg *m)
{
    struct ball *b = CONTAINER_OF(m, struct ball, msg);

    b->from->abroad++; /* only ever on the other loop */
    m->fn = on_owner_loop;
    rt_post(b->from->loop, m);
}

static void
play(void *arg)
{
    struct side *s = arg;

    CHECK(rt_loop_index() == s->loop);
    rt_waiter_init(&s->over);
    s->sent = IN_FLIGHT;
    for (unsigned i = 0; i < IN_FLIGHT; i++) {
        s->balls[i] = (struct ball){.msg.fn = on_abroad, .from = s};
        rt_post(s->other, &s->balls[i].msg);
    }
    rt_wait(&s->over);
}

static void
messages_fiber(void *arg)
{
    struct side *sides = xcalloc(2, sizeof *sides);
    struct rt_group g;

    (void)arg;
    sides[0].other = sides[1].loop = 1;
    rt_group_begin(&g);
    CHECK(rt_group_start(&g, play, &sides[0]) == ERR_OK);
    CHECK(rt_call(1, play, &sides[1]) == ERR_OK);
    rt_group_join(&g);
    for (unsigned i = 0; i < 2; i++) {
        CHECK_U64(sides[i].home, MESSAGES);
        CHECK_U64(sides[i].abroad, MESSAGES);
    }
    free(sides);
}
CASE(test_no_message_is_lost, 2, messages_fiber)

/* ---- calls ---- */

static atomic_uint ran_on[4];

static void
note_loop(void *arg)
{
    (void)arg;
    atomic_fetch_add(&ran_on[rt_loop_index()], 1);
    CHECK(rt_sleep_ms(1) == ERR_OK);
}

static void
call_all(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < 30; i++)
        CHECK(rt_call(i % rt_loop_count(), note_loop, NULL) == ERR_OK);
}

static void
calls_fiber(void *arg)
{
    struct rt_group g;

    (void)arg;
    CHECK(rt_loop_count() == 3 && rt_loop_index() == 0 && rt_on_loop());
    for (unsigned i = 0; i < 3; i++)
        ran_on[i] = 0;
    rt_group_begin(&g);
    for (unsigned i = 0; i < 5; i++)
        CHECK(rt_group_start(&g, call_all, NULL) == ERR_OK);
    rt_group_join(&g);
    for (unsigned i = 0; i < 3; i++)
        CHECK_U64(ran_on[i], 50);
}
CASE(test_calls_run_where_they_are_sent, 3, calls_fiber)

static struct deadline seen_scope;

static void
see_scope(void *arg)
{
    (void)arg;
    seen_scope = rt_scope_now();
}

static void
call_scope_fiber(void *arg)
{
    struct rt_scope s;
    struct deadline by = SOON;

    (void)arg;
    rt_scope_begin(&s, by);
    CHECK(rt_call(1, see_scope, NULL) == ERR_OK);
    rt_scope_end(&s);
    CHECK(seen_scope.at_ns == by.at_ns);
}
CASE(test_calls_carry_the_scope, 2, call_scope_fiber)

struct long_call {
    unsigned loop;
    bool begun; /* both are of the loop that calls */
    enum err rc;
};

static void
sleep_for_an_hour(void *arg)
{
    *(enum err *)arg = rt_sleep_ms(3600 * 1000);
}

static void
call_along(void *arg)
{
    struct long_call *c = arg;

    c->begun = true;
    CHECK(rt_call_cancellable(c->loop, sleep_for_an_hour, &c->rc) == ERR_OK);
}

/* Cancelled at once, a turn later, long after: what was called ends, and is waited for. */
static void
call_along_fiber(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < 60; i++) {
        struct long_call c = {.loop = i % 2 + 1, .rc = ERR_OK};
        struct rt_group g;

        rt_group_begin(&g);
        CHECK(rt_group_start(&g, call_along, &c) == ERR_OK);
        while (i >= 20 && !c.begun)
            rt_yield();
        if (i >= 40)
            CHECK(rt_sleep_ms(1) == ERR_OK);
        rt_group_cancel(&g);
        rt_group_join(&g);
        CHECK(c.rc == ERR_CANCELLED);
    }
    ran_on[1] = 0;
    CHECK(rt_call_cancellable(1, note_loop, NULL) == ERR_OK);
    CHECK_U64(ran_on[1], 1);
}
CASE(test_a_call_is_cancelled_along, 3, call_along_fiber)

static void *
wake_later(void *arg)
{
    usleep(2000);
    rt_wake(arg);
    return NULL;
}

static void
wake_fiber(void *arg)
{
    struct rt_waiter w, early;
    pthread_t thread;

    (void)arg;
    rt_waiter_init(&w);
    CHECK(pthread_create(&thread, NULL, wake_later, &w) == 0);
    rt_wait(&w);
    pthread_join(thread, NULL);

    rt_waiter_init(&early);
    rt_wake(&early); /* before the wait: it is kept */
    CHECK(rt_sleep_ms(1) == ERR_OK);
    rt_wait(&early);
}
REAL_CASE(test_threads_wake_fibers, 2, wake_fiber)

/* ---- retiring ---- */

/* A snapshot that all loops read and one replaces. `alive` is cleared when it is retired;
 * no reader may see that. */
struct snapshot {
    atomic_bool alive;
};
static struct snapshot *_Atomic current;
static atomic_uint retired, reads;
static atomic_bool over;

static void
retire_snapshot(void *ptr)
{
    struct snapshot *s = ptr;

    atomic_store(&s->alive, false);
    free(s);
    atomic_fetch_add(&retired, 1);
}

static void
read_snapshots(void *arg)
{
    (void)arg;
    while (!atomic_load(&over)) {
        for (unsigned i = 0; i < 50; i++) {
            struct snapshot *s = atomic_load(&current);

            CHECK(atomic_load(&s->alive));
            atomic_fetch_add(&reads, 1);
        }
        rt_yield();
    }
}

static void
call_reader(void *arg)
{
    CHECK(rt_call(*(unsigned *)arg, read_snapshots, NULL) == ERR_OK);
}

static struct snapshot *
new_snapshot(void)
{
    struct snapshot *s = xcalloc(1, sizeof *s);

    atomic_store(&s->alive, true);
    return s;
}

static void
retire_fiber(void *arg)
{
    unsigned loops[] = {1, 2};
    struct rt_group g;

    (void)arg;
    retired = reads = 0;
    over = false;
    atomic_store(&current, new_snapshot());
    rt_group_begin(&g);
    for (unsigned i = 0; i < 2; i++)
        CHECK(rt_group_start(&g, call_reader, &loops[i]) == ERR_OK);
    for (unsigned i = 0; i < 500; i++) {
        rt_retire(retire_snapshot, atomic_exchange(&current, new_snapshot()));
        if (i % 10 == 0)
            rt_yield();
    }
    for (struct deadline by = SOON; atomic_load(&retired) == 0 && !deadline_passed(by);)
        CHECK(rt_sleep_ms(1) == ERR_OK);
    CHECK(atomic_load(&retired) > 0); /* though the readers still run */
    atomic_store(&over, true);
    rt_group_join(&g);
    rt_retire(retire_snapshot, atomic_exchange(&current, NULL));
}

static void
test_nothing_is_retired_while_a_loop_uses_it(void)
{
    for (unsigned i = 0; i < 2; i++) {
        run_fiber(engines_[i], 3, retire_fiber, NULL);
        CHECK_U64(retired, 501); /* the end waits for the last one */
        CHECK(reads > 0);
    }
}

/* ---- the worker pool ---- */

struct gate {
    pthread_mutex_t mtx;
    pthread_cond_t changed;
    bool open;
    unsigned inside;
};
static struct gate gate = {.mtx = PTHREAD_MUTEX_INITIALIZER,
                           .changed = PTHREAD_COND_INITIALIZER};

static void
pass_gate(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&gate.mtx);
    gate.inside++;
    while (!gate.open)
        pthread_cond_wait(&gate.changed, &gate.mtx);
    pthread_mutex_unlock(&gate.mtx);
}

static unsigned
inside_gate(void)
{
    unsigned n;

    pthread_mutex_lock(&gate.mtx);
    n = gate.inside;
    pthread_mutex_unlock(&gate.mtx);
    return n;
}

static void
open_gate(bool open)
{
    pthread_mutex_lock(&gate.mtx);
    gate.open = open;
    gate.inside = 0;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.mtx);
}

struct job {
    enum err rc;
    struct deadline by;
    struct fiber *self;
};

static void
block(void *arg)
{
    struct job *j = arg;

    j->self = rt_self();
    j->rc = rt_blocking(pass_gate, NULL, j->by);
}

/* run_fiber() gives 4 workers and a queue of 8. */
static void
pool_fiber(void *arg)
{
    struct job jobs[13];
    struct rt_group g;

    (void)arg;
    open_gate(false);
    rt_group_begin(&g);
    for (unsigned i = 0; i < 12; i++) {
        jobs[i] = (struct job){.rc = ERR_INTERNAL, .by = SOON};
        CHECK(rt_group_start(&g, block, &jobs[i]) == ERR_OK);
        if (i == 3)
            while (inside_gate() < 4)
                CHECK(rt_sleep_ms(1) == ERR_OK);
    }
    rt_yield();
    rt_yield();
    CHECK(rt_blocking(pass_gate, NULL, SOON) == ERR_BUSY); /* 4 run, 8 wait */
    rt_cancel(jobs[0].self);                               /* has begun: waited for */
    rt_cancel(jobs[10].self);                              /* has not: taken back */
    while (jobs[10].rc == ERR_INTERNAL)
        CHECK(rt_sleep_ms(1) == ERR_OK);
    CHECK(jobs[10].rc == ERR_CANCELLED);
    jobs[12] =
        (struct job){.rc = ERR_INTERNAL, .by = deadline_in_ms(30)}; /* in its place */
    CHECK(rt_group_start(&g, block, &jobs[12]) == ERR_OK);
    while (jobs[12].rc == ERR_INTERNAL)
        CHECK(rt_sleep_ms(1) == ERR_OK);
    CHECK(jobs[12].rc == ERR_TIMEOUT);
    CHECK(jobs[0].rc == ERR_INTERNAL);
    open_gate(true);
    rt_group_join(&g);
    for (unsigned i = 0; i < 12; i++)
        CHECK(i == 10 || jobs[i].rc == ERR_OK);
}
REAL_CASE(test_a_full_pool_is_busy_and_what_has_not_begun_is_taken_back, 2, pool_fiber)

/* ---- listeners ---- */

enum { CLIENTS = 60 };
static atomic_uint served[4];
static struct listener *listener;

static void
echo(void *arg, enum err why)
{
    struct stream *s = arg;
    char got[64];
    size_t n = 0;

    if (why == ERR_OK && rt_recv(s, got, sizeof got, SOON, &n, NULL) == ERR_OK && n > 0 &&
        rt_send(s, got, n, SOON, NULL) == ERR_OK) {
        rt_park(s, DEADLINE_NEVER, echo, s);
        return;
    }
    rt_stream_close(&s);
}

static void
on_stream(struct stream *s, void *arg)
{
    CHECK(arg == &listener);
    atomic_fetch_add(&served[rt_loop_index()], 1);
    rt_park(s, DEADLINE_NEVER, echo, s);
}

static void
serve_fiber(void *arg)
{
    struct stream **clients = xcalloc(CLIENTS, sizeof *clients);
    char got[8];
    size_t n;

    (void)arg;
    for (unsigned i = 0; i < 4; i++)
        served[i] = 0;
    CHECK(rt_listen("127.0.0.1", 0, NULL, &listener, NULL) == ERR_OK);
    rt_listener_serve(listener, on_stream, &listener);
    for (unsigned i = 0; i < CLIENTS; i++)
        CHECK(rt_connect("127.0.0.1", rt_listener_port(listener), SOON, &clients[i],
                         NULL) == ERR_OK);
    for (unsigned round = 0; round < 3; round++)
        for (unsigned i = 0; i < CLIENTS; i++) {
            CHECK(rt_send(clients[i], "ping", 4, SOON, NULL) == ERR_OK);
            CHECK(rt_recv(clients[i], got, sizeof got, SOON, &n, NULL) == ERR_OK &&
                  n == 4);
        }
    for (unsigned i = 0; i < 3; i++)
        CHECK_U64(served[i], CLIENTS / 3); /* each to the loop with the fewest */
    for (unsigned i = 0; i < CLIENTS; i++)
        rt_stream_close(&clients[i]);
    rt_listener_close(&listener);
    free(clients);
}
REAL_CASE(test_connections_go_to_the_emptiest_loop, 3, serve_fiber)

/* ---- descriptors run out ---- */

enum { WAITING = 20, ROOM = 5 };

static void
emfile_fiber(void *arg)
{
    struct rlimit was, low;
    struct stream *clients[WAITING];
    unsigned total;
    int probe;
    char got[8];
    size_t n;

    (void)arg;
    for (unsigned i = 0; i < 4; i++)
        served[i] = 0;
    CHECK(rt_listen("127.0.0.1", 0, NULL, &listener, NULL) == ERR_OK);
    for (unsigned i = 0; i < WAITING; i++)
        CHECK(rt_connect("127.0.0.1", rt_listener_port(listener), SOON, &clients[i],
                         NULL) == ERR_OK);
    probe = dup(0);
    CHECK(probe >= 0 && close(probe) == 0);
    CHECK(getrlimit(RLIMIT_NOFILE, &was) == 0);
    low = was;
    low.rlim_cur = (rlim_t)probe + ROOM;
    CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
    rt_listener_serve(listener, on_stream, &listener);
    while (served[0] + served[1] == 0)
        CHECK(rt_sleep_ms(1) == ERR_OK);
    CHECK(rt_sleep_ms(150) ==
          ERR_OK); /* longer than a pause: it is tried again, in vain */
    total = served[0] + served[1];
    CHECK(total > 0 && total <= ROOM);
    CHECK(setrlimit(RLIMIT_NOFILE, &was) == 0);
    for (unsigned i = 0; i < WAITING; i++) { /* after the next pause each is served */
        CHECK(rt_send(clients[i], "late", 4, SOON, NULL) == ERR_OK);
        CHECK(rt_recv(clients[i], got, sizeof got, SOON, &n, NULL) == ERR_OK && n == 4);
        rt_stream_close(&clients[i]);
    }
    CHECK_U64(served[0] + served[1], WAITING);
    rt_listener_close(&listener);
}
REAL_CASE(test_without_descriptors_accepting_pauses_and_resumes, 2, emfile_fiber)

/* ---- idle connections ---- */

enum { IDLE = 500 };
static atomic_uint parked_streams;

static uint64_t
anonymous_kib(void)
{
    char line[128];
    unsigned long kib = 0;
    FILE *f = fopen("/proc/self/status", "re");

    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "RssAnon: %lu", &kib) == 1)
            break;
    if (f != NULL)
        fclose(f);
    return kib;
}

static void
close_ready(void *arg, enum err why)
{
    struct stream *s = arg;

    (void)why;
    rt_stream_close(&s);
}

static void
on_idle_stream(struct stream *s, void *arg)
{
    (void)arg;
    rt_park(s, deadline_in_ms(60000), close_ready, s);
    atomic_fetch_add(&parked_streams, 1);
}

static void
idle_fiber(void *arg)
{
    struct stream **clients = xcalloc(IDLE, sizeof *clients);
    uint64_t before, after;

    (void)arg;
    parked_streams = 0;
    CHECK(rt_listen("127.0.0.1", 0, NULL, &listener, NULL) == ERR_OK);
    rt_listener_serve(listener, on_idle_stream, NULL);
    before = anonymous_kib();
    for (unsigned i = 0; i < IDLE; i++)
        CHECK(rt_connect("127.0.0.1", rt_listener_port(listener), SOON, &clients[i],
                         NULL) == ERR_OK);
    while (atomic_load(&parked_streams) < IDLE)
        CHECK(rt_sleep_ms(1) == ERR_OK);
    after = anonymous_kib();
    if (!FB_ASAN && !FB_TSAN)
        CHECK(after - before < IDLE * 2); /* both ends of each: 2 KiB */
    fprintf(stderr, "%s: %d idle connections, both ends: %u bytes each\n",
            rt_engine_name(rt_engine_now()), IDLE,
            (unsigned)((after - before) * 1024 / IDLE));
    for (unsigned i = 0; i < IDLE; i++)
        rt_stream_close(&clients[i]);
    rt_listener_close(&listener);
    free(clients);
}
REAL_CASE(test_idle_connections_are_small, 2, idle_fiber)

/* ---- signals; ends ---- */

static unsigned hups;
static struct rt_cond hup;

static void
on_hup(void *arg)
{
    CHECK(arg == &hups && rt_loop_index() == 0);
    hups++;
    rt_cond_broadcast(&hup);
}

static void
signal_fiber(void *arg)
{
    (void)arg;
    hups = 0;
    rt_cond_init(&hup);
    rt_on_signal(SIGHUP, on_hup, &hups);
    for (unsigned i = 1; i <= 2; i++) {
        CHECK(kill(getpid(), SIGHUP) == 0);
        while (hups < i)
            CHECK(rt_cond_wait(&hup, SOON) == ERR_OK);
    }
}
REAL_CASE(test_a_signal_is_a_fiber_of_loop_0, 2, signal_fiber)

static atomic_uint ended;

static void
do_nothing(void *arg)
{
    (void)arg;
}

static void
linger(void *arg)
{
    struct rt_shield shield;

    (void)arg;
    CHECK(rt_sleep_ms(60000) == ERR_CANCELLED);
    rt_shield_begin(&shield);
    /* The other loops still answer while they stop. */
    CHECK(rt_call((rt_loop_index() + 1) % rt_loop_count(), do_nothing, NULL) == ERR_OK);
    rt_shield_end(&shield);
    atomic_fetch_add(&ended, 1);
}

static void
spawn_here(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < 20; i++)
        CHECK(rt_spawn(linger, NULL) == ERR_OK);
}

static void
ends_fiber(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < rt_loop_count(); i++)
        CHECK(rt_call(i, spawn_here, NULL) == ERR_OK);
}

static void
test_the_end_reaches_all_loops(void)
{
    for (unsigned i = 0; i < 2; i++) {
        ended = 0;
        run_fiber(engines_[i], 3, ends_fiber, NULL);
        CHECK_U64(ended, 60);
    }
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_no_message_is_lost);
    RUN(test_calls_run_where_they_are_sent);
    RUN(test_calls_carry_the_scope);
    RUN(test_a_call_is_cancelled_along);
    RUN(test_threads_wake_fibers);
    RUN(test_nothing_is_retired_while_a_loop_uses_it);
    RUN(test_a_full_pool_is_busy_and_what_has_not_begun_is_taken_back);
    RUN(test_connections_go_to_the_emptiest_loop);
    RUN(test_without_descriptors_accepting_pauses_and_resumes);
    RUN(test_idle_connections_are_small);
    RUN(test_a_signal_is_a_fiber_of_loop_0);
    RUN(test_the_end_reaches_all_loops);
    return check_done();
}
