/* Several loops: connections are spread over them, one client serves calls from all,
 * drain and stop reach every one. Runs under TSan too. */
#include "check.h"

#include <stdatomic.h>

#include "base/buf.h"
#include "base/mem.h"
#include "http/client.h"
#include "http/server.h"
#include "rt/loop.h"
#include "rt/sync.h"

#define LOOPS   3
#define CALLERS 12
#define CALLS   40

static struct {
    struct http_server *server;
    struct http_client *client;
    uint16_t port;
    atomic_uint handled, answered, cut, slow;
    atomic_uint on_loop[LOOPS];
} all;

static void
handle(struct http_request *r, void *arg)
{
    char body[3000];

    (void)arg;
    atomic_fetch_add(&all.handled, 1);
    atomic_fetch_add(&all.on_loop[rt_loop_index()], 1);
    if (span_is(r->head->path, "/slow")) {
        atomic_fetch_add(&all.slow, 1);
        if (rt_sleep_ms(PATIENCE_MS) != ERR_OK)
            return; /* cancelled by the stop: no answer */
    }
    memset(body, 'x', sizeof body);
    (void)http_reply(r, 200, (struct span){body, sizeof body});
}

static enum err
call_once(const char *target, int *status)
{
    struct http_call_request req = {.host = "127.0.0.1",
                                    .port = all.port,
                                    .method = "GET",
                                    .target = span_of(target),
                                    .length = HTTP_NO_BODY};
    struct buf out;
    enum err rc;

    buf_init(&out, 10000);
    rc = http_call_simple(all.client, &req, SPAN(""), status, &out, NULL, NULL, NULL);
    if (rc == ERR_OK && *status == 200)
        CHECK_U64(out.len, 3000);
    buf_fini(&out);
    return rc;
}

/* On any loop. */
static void
call_many(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < CALLS; i++) {
        int status = 0;

        CHECK(call_once("/x", &status) == ERR_OK);
        CHECK_U64(status, 200);
        atomic_fetch_add(&all.answered, status == 200);
    }
}

static void
call_slow(void *arg)
{
    int status = 0;

    (void)arg;
    CHECK(call_once("/slow", &status) != ERR_OK);
    atomic_fetch_add(&all.cut, 1);
}

struct errand {
    unsigned loop;
    fiber_fn *fn;
};

static void
run_errand(void *arg)
{
    const struct errand *e = arg;

    CHECK(rt_call(e->loop, e->fn, NULL) == ERR_OK);
}

static void
start_everywhere(struct rt_group *g, struct errand errands[CALLERS], fiber_fn *fn)
{
    rt_group_begin(g);
    for (unsigned i = 0; i < CALLERS; i++) {
        errands[i] = (struct errand){.loop = i % LOOPS, .fn = fn};
        CHECK(rt_group_start(g, run_errand, &errands[i]) == ERR_OK);
    }
}

static void
start_server(void)
{
    struct http_server_options o = {.header_ms = PATIENCE_MS, .idle_ms = PATIENCE_MS};
    struct http_handler h = {.handle = handle};
    struct errbuf eb = {0};

    REQUIRE(http_server_new(&o, &h, &all.server, &eb) == ERR_OK);
    REQUIRE(http_server_listen(all.server, "127.0.0.1", 0, NULL, &all.port, &eb) ==
            ERR_OK);
    REQUIRE(http_client_new(&(struct http_client_options){.first_byte_ms = PATIENCE_MS},
                            &all.client, &eb) == ERR_OK);
}

static void
spread_main(void *arg)
{
    struct errand errands[CALLERS];
    struct http_server_stats stats;
    struct rt_group g;

    (void)arg;
    start_server();
    start_everywhere(&g, errands, call_many);
    rt_group_join(&g);
    CHECK_U64(atomic_load(&all.answered), CALLERS * CALLS);
    for (unsigned i = 0; i < LOOPS; i++)
        CHECK(atomic_load(&all.on_loop[i]) > 0);
    http_server_stats(all.server, &stats);
    CHECK_U64(stats.requests, CALLERS * CALLS);
    CHECK(http_server_drain(all.server, deadline_in_ms(60000)));
    http_client_free(&all.client);
    http_server_stop(&all.server);
}

static void
cut_main(void *arg)
{
    struct errand errands[CALLERS];
    struct rt_group g;

    (void)arg;
    start_server();
    start_everywhere(&g, errands, call_slow);
    while (atomic_load(&all.slow) < CALLERS)
        CHECK(rt_sleep_ms(2) == ERR_OK);
    CHECK(!http_server_drain(all.server,
                             deadline_in_ms(50))); /* they are too slow for it */
    http_server_stop(&all.server);
    rt_group_join(&g);
    CHECK_U64(atomic_load(&all.cut), CALLERS);
    http_client_free(&all.client);
}

static void
run_on_all_engines(fiber_fn *start)
{
    static const enum rt_engine engines[] = {RT_EPOLL, RT_URING};

    for (size_t i = 0; i < ARRAY_LEN(engines); i++) {
        struct rt_options o = {.engine = engines[i], .loops = LOOPS};
        struct errbuf eb = {0};

        memset(&all, 0, sizeof all);
        if (rt_run(&o, start, NULL, &eb) != ERR_OK)
            printf("SKIPPED on %s: %s\n", rt_engine_name(engines[i]), eb.text);
    }
}

static void
test_calls_from_and_to_all_loops(void)
{
    run_on_all_engines(spread_main);
}

static void
test_stop_cuts_requests_on_all_loops(void)
{
    run_on_all_engines(cut_main);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_calls_from_and_to_all_loops);
    RUN(test_stop_cuts_requests_on_all_loops);
    return check_done();
}
