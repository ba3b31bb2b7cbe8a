/* Protects: several simulated nodes in one process: a crash takes one of them alone, a paused one does nothing, a way that
 * is cut is cut in one direction, clocks differ as they should, and equal seeds make equal traces. */
#include "base/mem.h"
#include "check.h"
#include "rt/file.h"
#include "rt/net.h"
#include "rt/sim_cluster.h"
#include "rt/sync.h"

#define PORT 80

static struct sim_cluster *cluster;
static struct sim *script_node, *server, *other;
static bool stop;
static unsigned served;

static uint64_t
in_cluster(uint64_t seed, fiber_fn *script)
{
    struct errbuf eb = {{0}};
    uint64_t trace;

    cluster = sim_cluster_new(
        &(struct sim_options){.seed = seed, .lossy = true, .max_delay_us = 500});
    script_node = sim_cluster_add(
        cluster, &(struct sim_cluster_node){.name = "script", .addr = "10.0.0.9"});
    server = sim_cluster_add(cluster, &(struct sim_cluster_node){.name = "server",
                                                                 .addr = "10.0.0.1",
                                                                 .rate_ppm = 100000,
                                                                 .offset_ns = 5000000000u,
                                                                 .wall_ms = 7000});
    other = sim_cluster_add(cluster, &(struct sim_cluster_node){.name = "other",
                                                                .addr = "10.0.0.2",
                                                                .rate_ppm = -100000});
    stop = false;
    served = 0;
    CHECK(sim_cluster_run(cluster, script_node, script, NULL, &eb) == ERR_OK);
    trace = sim_cluster_trace(cluster);
    sim_cluster_free(&cluster);
    return trace;
}

/* ---- a server that answers each byte with the next letter, and its client ---- */

static void
serve_one(void *arg)
{
    struct stream *s = arg;
    size_t n;
    char c;

    while (rt_recv(s, &c, 1, DEADLINE_NEVER, &n, NULL) == ERR_OK && n == 1) {
        c++;
        served++;
        if (rt_send(s, &c, 1, DEADLINE_NEVER, NULL) != ERR_OK)
            break;
    }
    rt_stream_close(&s);
}

static void
serve(void *arg)
{
    struct listener *l = NULL;
    struct rt_group g;

    (void)arg;
    rt_group_begin(&g);
    CHECK(rt_listen("10.0.0.1", PORT, NULL, &l, NULL) == ERR_OK);
    while (!stop) {
        struct stream *s = NULL;
        enum err rc = rt_accept(l, deadline_in_ms(20), &s, NULL);

        if (rc == ERR_OK)
            CHECK(rt_group_start(&g, serve_one, s) == ERR_OK);
        else if (rc != ERR_TIMEOUT)
            break;
    }
    rt_listener_close(&l);
    rt_group_cancel(&g);
    rt_group_join(&g);
}

static enum err
dial(struct stream **out)
{
    return rt_connect("10.0.0.1", PORT, deadline_in_ms(2000), out, NULL);
}

static enum err
ask_within(struct stream *s, char c, uint64_t ms)
{
    size_t n = 0;
    char got = 0;
    enum err rc = rt_send(s, &c, 1, deadline_in_ms(ms), NULL);

    if (rc == ERR_OK)
        rc = rt_recv(s, &got, 1, deadline_in_ms(ms), &n, NULL);
    if (rc == ERR_OK && n == 0)
        return ERR_CLOSED;
    CHECK(rc != ERR_OK || got == c + 1);
    return rc;
}

static void
wait_down(const struct sim *node)
{
    while (sim_cluster_is_up(node))
        CHECK(rt_sleep_ms(1) == ERR_OK);
}

static void
end_server(void)
{
    stop = true;
    wait_down(server);
}

/* Started, and it listens. */
static void
begin_server(struct stream **out)
{
    stop = false;
    sim_cluster_start(server, serve, NULL);
    while (dial(out) != ERR_OK)
        CHECK(rt_sleep_ms(1) == ERR_OK);
}

/* ---- cases ---- */

static void
two_nodes_talk(void *arg)
{
    struct stream *s = NULL, *local = NULL;

    (void)arg;
    CHECK(dial(&s) == ERR_CLOSED); /* it is down: refused */
    begin_server(&s);
    for (char c = 'a'; c < 'z'; c++)
        CHECK(ask_within(s, c, 1000) == ERR_OK);
    CHECK_STR(rt_stream_peer(s), "10.0.0.1:80");
    CHECK(!rt_stream_is_loopback(s));
    CHECK(rt_connect("127.0.0.1", PORT, deadline_in_ms(100), &local, NULL) == ERR_CLOSED);
    rt_stream_close(&s);
    end_server();
}

static void
test_two_nodes_talk(void)
{
    uint64_t one = in_cluster(1, two_nodes_talk), again = in_cluster(1, two_nodes_talk);

    CHECK_U64(again, one);
    CHECK(in_cluster(2, two_nodes_talk) != one);
}

static uint64_t seen_now, seen_wall;

static void
tell_time(void *arg)
{
    (void)arg;
    seen_now = rt_now_ns();
    seen_wall = rt_wall_ns();
    CHECK(rt_sleep_ms(11000) == ERR_OK);
    CHECK(rt_now_ns() - seen_now >= 11000000000u);
}

/* Eleven seconds of a clock that is 10 % fast are ten of the script's. */
static void
clocks_differ(void *arg)
{
    uint64_t began = rt_now_ns();

    (void)arg;
    sim_cluster_start(server, tell_time, NULL);
    wait_down(server);
    CHECK(rt_now_ns() - began >= 9990000000u);
    CHECK(rt_now_ns() - began < 10100000000u);
    CHECK(seen_now >= 5000000000u + began);
    CHECK(seen_wall - (rt_wall_ns() - rt_now_ns() + began) >= 7000000000u);
    CHECK_U64(rt_now_ns(), sim_cluster_now_ns(cluster));
    began = rt_now_ns();
    sim_cluster_start(other, tell_time, NULL);
    wait_down(other);
    CHECK(rt_now_ns() - began > 12200000000u);
}

static void
test_clocks_differ(void)
{
    in_cluster(3, clocks_differ);
}

/* What is sent to a paused node waits in its kernel; its own deadlines pass. */
static void
paused(void *arg)
{
    struct stream *s = NULL, *second = NULL;
    uint64_t began;

    (void)arg;
    begin_server(&s);
    CHECK(ask_within(s, 'a', 1000) == ERR_OK);
    sim_cluster_pause(server, true);
    CHECK(sim_cluster_is_paused(server));
    began = served;
    CHECK(ask_within(s, 'b', 5000) == ERR_TIMEOUT);
    CHECK(dial(&second) == ERR_OK);
    CHECK_U64(served, began);
    sim_cluster_pause(server, false);
    CHECK(ask_within(second, 'c', 1000) == ERR_OK);
    CHECK_U64(served, began + 2);
    rt_stream_close(&second);
    rt_stream_close(&s);
    end_server();
}

static void
test_paused(void)
{
    in_cluster(4, paused);
}

/* First the answers are lost, then the questions. What was held arrives when the way is open again. */
static void
cut_one_way(void *arg)
{
    struct stream *s = NULL, *none = NULL;
    size_t n;
    char c;

    (void)arg;
    begin_server(&s);
    CHECK(ask_within(s, 'a', 1000) == ERR_OK);
    sim_cluster_cut(server, script_node, true);
    CHECK(ask_within(s, 'b', 3000) == ERR_TIMEOUT);
    CHECK_U64(served, 2);
    CHECK(dial(&none) == ERR_TIMEOUT);
    sim_cluster_cut(server, script_node, false);
    CHECK(rt_recv(s, &c, 1, deadline_in_ms(1000), &n, NULL) == ERR_OK && c == 'c');
    sim_cluster_cut(script_node, server, true);
    CHECK(ask_within(s, 'd', 3000) == ERR_TIMEOUT);
    CHECK_U64(served, 2);
    CHECK(dial(&none) == ERR_TIMEOUT);
    sim_cluster_cut(script_node, server, false);
    CHECK(rt_recv(s, &c, 1, deadline_in_ms(1000), &n, NULL) == ERR_OK && c == 'e');
    rt_stream_close(&s);
    end_server();
}

static void
test_cut_one_way(void)
{
    in_cluster(5, cut_one_way);
}

static void
slow_way(void *arg)
{
    struct stream *s = NULL;
    uint64_t began;

    (void)arg;
    begin_server(&s);
    sim_cluster_slow(server, script_node, 300000);
    began = rt_now_ns();
    CHECK(ask_within(s, 'a', 1000) == ERR_OK);
    CHECK(rt_now_ns() - began >= 300000000u);
    sim_cluster_slow(server, script_node, 0);
    rt_stream_close(&s);
    end_server();
}

static void
test_slow_way(void)
{
    in_cluster(6, slow_way);
}

static void
resets(void *arg)
{
    struct stream *s = NULL;
    enum err rc = ERR_OK;

    (void)arg;
    begin_server(&s);
    sim_cluster_resets(cluster, 500);
    for (unsigned i = 0; rc == ERR_OK && i < 1000; i++)
        rc = ask_within(s, 'a', 1000);
    CHECK(rc == ERR_CLOSED);
    rt_stream_close(&s);
    sim_cluster_resets(cluster, 0);
    end_server();
}

static void
test_resets(void)
{
    in_cluster(7, resets);
}

/* ---- crashes ---- */

/* A small file, not synced; then it serves. */
static void
write_and_serve(void *arg)
{
    struct rt_dir *d = NULL;
    struct rt_file *f = NULL;
    struct iobuf *b = NULL;

    CHECK(rt_dir_open("/disk", &d, NULL) == ERR_OK);
    CHECK(rt_open(d, "note", RT_O_WRITE | RT_O_CREATE, 0600, &f, NULL) == ERR_OK);
    CHECK(iobuf_get(4096, &b) == ERR_OK);
    memset(b->at, 'n', 4096);
    CHECK(rt_write(f, 0, b, 0, 4096, RT_WRITE, NULL) == ERR_OK);
    iobuf_drop(&b);
    rt_file_close(&f);
    rt_dir_close(&d);
    serve(arg);
}

static bool found;

static void
look_for_note(void *arg)
{
    struct rt_dir *d = NULL;
    struct rt_file *f = NULL;

    (void)arg;
    CHECK(rt_dir_open("/disk", &d, NULL) == ERR_OK);
    found = rt_open(d, "note", 0, 0, &f, NULL) == ERR_OK;
    rt_file_close(&f);
    rt_dir_close(&d);
}

/* The process dies: its connections end, and the kernel has its writes. */
static void
killed(void *arg)
{
    struct stream *s = NULL;

    (void)arg;
    sim_cluster_start(server, write_and_serve, NULL);
    while (dial(&s) != ERR_OK)
        CHECK(rt_sleep_ms(1) == ERR_OK);
    CHECK(ask_within(s, 'a', 1000) == ERR_OK);
    sim_cluster_crash(server, SIM_KILL);
    CHECK(ask_within(s, 'b', 5000) == ERR_CLOSED);
    rt_stream_close(&s);
    wait_down(server);
    CHECK_U64(served, 1);
    CHECK(dial(&s) == ERR_CLOSED);
    sim_cluster_start(server, look_for_note, NULL);
    wait_down(server);
    CHECK(found);
    begin_server(&s);
    CHECK(ask_within(s, 'c', 1000) == ERR_OK);
    rt_stream_close(&s);
    end_server();
}

static void
test_killed(void)
{
    in_cluster(8, killed);
}

/* The machine dies: silence, also towards a new connection, until it runs again and knows nothing of the old one. */
static void
power_lost(void *arg)
{
    struct stream *s = NULL, *none = NULL;

    (void)arg;
    begin_server(&s);
    CHECK(ask_within(s, 'a', 1000) == ERR_OK);
    sim_cluster_crash(server, SIM_POWER);
    CHECK(ask_within(s, 'b', 5000) == ERR_TIMEOUT);
    CHECK(dial(&none) == ERR_TIMEOUT);
    wait_down(server);
    begin_server(&none);
    CHECK(ask_within(s, 'c', 5000) == ERR_CLOSED);
    CHECK(ask_within(none, 'd', 1000) == ERR_OK);
    CHECK_U64(served, 2);
    rt_stream_close(&none);
    rt_stream_close(&s);
    end_server();
}

static void
test_power_lost(void)
{
    in_cluster(9, power_lost);
}

static unsigned lost;

static void
unsynced(void *arg)
{
    struct stream *s = NULL;

    (void)arg;
    sim_cluster_start(server, write_and_serve, NULL);
    while (dial(&s) != ERR_OK)
        CHECK(rt_sleep_ms(1) == ERR_OK);
    sim_cluster_crash(server, SIM_POWER);
    wait_down(server);
    rt_stream_close(&s);
    sim_cluster_start(server, look_for_note, NULL);
    wait_down(server);
    lost += !found;
}

static void
test_power_takes_what_was_not_synced(void)
{
    lost = 0;
    for (uint64_t seed = 1; seed <= 20; seed++)
        in_cluster(seed, unsynced);
    CHECK(lost > 0 && lost < 20);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_two_nodes_talk);
    RUN(test_clocks_differ);
    RUN(test_paused);
    RUN(test_cut_one_way);
    RUN(test_slow_way);
    RUN(test_resets);
    RUN(test_killed);
    RUN(test_power_lost);
    RUN(test_power_takes_what_was_not_synced);
    return check_done();
}
