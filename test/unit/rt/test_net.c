/* Streams of the real engines: bytes, ends, deadlines, closing under a waiter, parking. */
#include <netinet/in.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "engines.h"
#include "rt/net.h"
#include "rt/sync.h"

#define SOON deadline_in_ms(5000)

/* ---- pairs of connected streams, by kind ---- */

enum kind { TCP, TCP6, UNIX, PIPE, KINDS_ };

static void
pair(enum kind kind, struct stream **a, struct stream **b)
{
    struct listener *l = NULL;
    struct errbuf eb = {0};
    char path[64];
    const char *addr = kind == TCP ? "127.0.0.1" : kind == TCP6 ? "::1" : path;
    struct rt_listen_options o = {.unlink_first = true};

    *a = *b = NULL;
    if (kind == PIPE) {
        CHECK(rt_pipe(a, b) == ERR_OK);
        return;
    }
    snprintf(path, sizeof path, "unix:/tmp/fb-test-net-%d", getpid());
    CHECK(rt_listen(addr, 0, &o, &l, &eb) == ERR_OK);
    REQUIRE(l != NULL);
    CHECK(rt_connect(addr, rt_listener_port(l), SOON, a, &eb) == ERR_OK);
    CHECK(rt_accept(l, SOON, b, &eb) == ERR_OK);
    rt_listener_close(&l);
    CHECK(l == NULL);
}

static void
run_each_kind(void (*fn)(struct stream *a, struct stream *b))
{
    for (enum kind k = TCP; k < KINDS_; k++) {
        struct stream *a, *b;

        pair(k, &a, &b);
        REQUIRE(a != NULL && b != NULL);
        fn(a, b);
    }
}

/* ---- bytes and ends ---- */

static void
both_ways(struct stream *a, struct stream *b)
{
    char got[64];
    size_t n;

    CHECK(rt_send(a, "hello", 5, SOON, NULL) == ERR_OK);
    CHECK(rt_recv(b, got, sizeof got, SOON, &n, NULL) == ERR_OK);
    CHECK(n == 5 && memcmp(got, "hello", 5) == 0);
    CHECK(!rt_may_have_bytes(b)); /* shorter than the room: drained */
    CHECK(rt_send(b, "yes", 3, SOON, NULL) == ERR_OK);
    CHECK(rt_recv(a, got, 2, SOON, &n, NULL) == ERR_OK);
    CHECK(n == 2 && memcmp(got, "ye", 2) == 0);
    CHECK(rt_recv(a, got, 2, SOON, &n, NULL) == ERR_OK);
    CHECK(n == 1 && got[0] == 's');

    /* Half close: a has said all, b may still answer. */
    CHECK(rt_send(a, "last", 4, SOON, NULL) == ERR_OK);
    CHECK(rt_send_end(a, SOON) == ERR_OK);
    CHECK(rt_recv(b, got, sizeof got, SOON, &n, NULL) == ERR_OK && n == 4);
    CHECK(rt_recv(b, got, sizeof got, SOON, &n, NULL) == ERR_OK && n == 0);
    CHECK(rt_recv(b, got, sizeof got, SOON, &n, NULL) == ERR_OK && n == 0);
    CHECK(rt_send(b, "bye", 3, SOON, NULL) == ERR_OK);
    CHECK(rt_recv(a, got, sizeof got, SOON, &n, NULL) == ERR_OK && n == 3);
    rt_stream_close(&b);
    CHECK(rt_recv(a, got, sizeof got, SOON, &n, NULL) == ERR_OK && n == 0);
    rt_stream_close(&a);
}

static void
bytes_fiber(void *arg)
{
    (void)arg;
    run_each_kind(both_ways);
}
CASE(test_bytes_go_both_ways_and_end, 1, bytes_fiber)

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_bytes_go_both_ways_and_end);
    return check_done();
}
