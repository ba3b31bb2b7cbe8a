/* Streams of the real engines: bytes, ends, deadlines, closing under a waiter,
 * parking. */
#include <unistd.h>

#include "base/mem.h"
#include "engines.h"
#include "rt/net.h"
#include "rt/sync.h"

#define SOON deadline_in_ms(PATIENCE_MS)

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

/* ---- much at once ---- */

enum { BULK = 3 << 20 };

struct bulk {
    struct stream *s;
    uint64_t sum;
    size_t len;
};

static void
send_bulk(void *arg)
{
    struct bulk *b = arg;
    unsigned char *bytes = xmalloc(BULK);

    for (size_t i = 0; i < BULK; i++) {
        bytes[i] = (unsigned char)(i * 7 + i / 255);
        b->sum += bytes[i] * (i + 1);
    }
    struct iovec iov[4] = {{bytes, 1000},
                           {bytes + 1000, 0},
                           {bytes + 1000, 4096},
                           {bytes + 5096, BULK - 5096}};
    CHECK(rt_sendv(b->s, iov, 4, SOON, NULL) == ERR_OK);
    CHECK(rt_send_end(b->s, SOON) == ERR_OK);
    free(bytes);
}

static void
receive_bulk(void *arg)
{
    struct bulk *b = arg;
    unsigned char part[5000];
    size_t n;

    do {
        CHECK(rt_recv(b->s, part, sizeof part, SOON, &n, NULL) == ERR_OK);
        for (size_t i = 0; i < n; i++)
            b->sum += part[i] * (b->len + i + 1);
        b->len += n;
    } while (n > 0);
}

static void
bulk_both_ways(struct stream *a, struct stream *b)
{
    struct bulk ends[4] = {{a, 0, 0}, {b, 0, 0}, {b, 0, 0}, {a, 0, 0}};
    struct rt_group g;

    rt_group_begin(&g);
    CHECK(rt_group_start(&g, send_bulk, &ends[0]) == ERR_OK);
    CHECK(rt_group_start(&g, receive_bulk, &ends[1]) == ERR_OK);
    CHECK(rt_group_start(&g, send_bulk, &ends[2]) == ERR_OK);
    CHECK(rt_group_start(&g, receive_bulk, &ends[3]) == ERR_OK);
    rt_group_join(&g);
    CHECK_U64(ends[1].len, BULK);
    CHECK_U64(ends[3].len, BULK);
    CHECK(ends[0].sum == ends[1].sum && ends[2].sum == ends[3].sum);
    rt_stream_close(&a);
    rt_stream_close(&b);
}

static void
bulk_fiber(void *arg)
{
    (void)arg;
    run_each_kind(bulk_both_ways);
}
CASE(test_megabytes_go_both_ways_at_once, 1, bulk_fiber)

/* ---- waits that end otherwise ---- */

static void
late(struct stream *a, struct stream *b)
{
    struct errbuf eb = {0};
    char got[16];
    size_t n;
    static char much[1 << 20];
    enum err rc = ERR_OK;

    CHECK(rt_recv(a, got, sizeof got, deadline_in_ms(5), &n, &eb) == ERR_TIMEOUT &&
          n == 0);
    CHECK_SAYS(eb.text, "deadline");
    CHECK(rt_send(b, "x", 1, SOON, NULL) == ERR_OK); /* what comes later is not lost */
    CHECK(rt_recv(a, got, sizeof got, SOON, &n, NULL) == ERR_OK && n == 1);
    for (int mib = 0; rc == ERR_OK && mib < 64; mib++) /* the kernel takes some */
        rc = rt_send(a, much, sizeof much, deadline_in_ms(20), &eb);
    CHECK(rc == ERR_TIMEOUT);
    rt_stream_close(&b);
    rt_stream_close(&a);
}

static void
late_fiber(void *arg)
{
    (void)arg;
    run_each_kind(late);
}
CASE(test_deadlines_end_receiving_and_sending, 1, late_fiber)

struct reader {
    struct stream *s;
    struct fiber *self;
    enum err rc;
};

static void
read_once(void *arg)
{
    struct reader *r = arg;
    char got[16];
    size_t n;

    r->self = rt_self();
    r->rc = rt_recv(r->s, got, sizeof got, DEADLINE_NEVER, &n, NULL);
}

static void
close_under_a_waiter(struct stream *a, struct stream *b)
{
    struct reader r = {.s = a}, woken = {.s = b};
    struct rt_group g;

    rt_group_begin(&g);
    CHECK(rt_group_start(&g, read_once, &r) == ERR_OK);
    CHECK(rt_sleep_ms(1) == ERR_OK);
    rt_stream_close(&a);
    rt_group_join(&g);
    CHECK(r.rc == ERR_CLOSED);

    /* Bytes have woken the reader, but before it runs the stream is closed. */
    rt_group_begin(&g);
    CHECK(rt_group_start(&g, read_once, &woken) == ERR_OK);
    rt_yield();
    rt_yield(); /* the end of a has woken it, or it has read that end */
    rt_stream_close(&b);
    rt_group_join(&g);
    CHECK(woken.rc == ERR_CLOSED || woken.rc == ERR_OK);
}

static void
close_fiber(void *arg)
{
    (void)arg;
    run_each_kind(close_under_a_waiter);
}
CASE(test_closing_ends_the_wait_of_another_fiber, 1, close_fiber)

static void
cancel_a_reader(struct stream *a, struct stream *b)
{
    struct reader r = {.s = a};
    struct rt_group g;
    char got[16];
    size_t n;

    rt_group_begin(&g);
    CHECK(rt_group_start(&g, read_once, &r) == ERR_OK);
    CHECK(rt_sleep_ms(1) == ERR_OK);
    rt_cancel(r.self);
    rt_group_join(&g);
    CHECK(r.rc == ERR_CANCELLED);
    CHECK(rt_send(b, "later", 5, SOON, NULL) == ERR_OK);
    CHECK(rt_recv(a, got, sizeof got, SOON, &n, NULL) == ERR_OK && n == 5);
    rt_stream_close(&a);
    rt_stream_close(&b);
}

static void
cancel_fiber(void *arg)
{
    (void)arg;
    run_each_kind(cancel_a_reader);
}
CASE(test_a_cancelled_recv_leaves_the_bytes, 1, cancel_fiber)

static void
reset_fiber(void *arg)
{
    struct stream *a, *b;
    char got[16];
    enum err rc;
    size_t n;

    (void)arg;
    pair(TCP, &a, &b);
    CHECK(rt_stream_is_loopback(a) && !rt_stream_is_tls(a));
    CHECK_SAYS(rt_stream_peer(a), "127.0.0.1:");
    CHECK(rt_send(a, "half", 4, SOON, NULL) == ERR_OK);
    rt_stream_reset(&a);
    CHECK(a == NULL);
    while ((rc = rt_recv(b, got, sizeof got, SOON, &n, NULL)) == ERR_OK) {
        CHECK(n == 4); /* no end */
        if (n == 0)
            break;
    }
    CHECK(rc == ERR_CLOSED);
    CHECK(rt_send(b, "x", 1, SOON, NULL) == ERR_CLOSED); /* and no SIGPIPE */
    rt_stream_close(&b);
}
REAL_CASE(test_a_reset_is_no_end, 1, reset_fiber)

static void
refused_fiber(void *arg)
{
    struct errbuf eb = {0};
    struct listener *l, *second;
    struct stream *s;
    uint16_t port;

    (void)arg;
    CHECK(rt_listen("127.0.0.1", 0, NULL, &l, &eb) == ERR_OK);
    port = rt_listener_port(l);
    CHECK(rt_listen("127.0.0.1", port, NULL, &second, &eb) == ERR_EXISTS &&
          second == NULL);
    CHECK(rt_accept(l, deadline_in_ms(2), &s, &eb) == ERR_TIMEOUT && s == NULL);
    rt_listener_close(&l);
    rt_yield(); /* uring lets go of a descriptor at the next turn */
    CHECK(rt_connect("127.0.0.1", port, SOON, &s, &eb) == ERR_CLOSED && s == NULL);
    CHECK_SAYS(eb.text, "refused");
    CHECK(rt_connect("unix:/tmp/fb-no-such-socket", 0, SOON, &s, &eb) == ERR_CLOSED);
    CHECK(rt_listen("not an address", 0, NULL, &l, &eb) == ERR_BAD_REQUEST);
    CHECK_SAYS(eb.text, "not an address");
    CHECK(rt_connect("localhost", port, SOON, &s, &eb) ==
          ERR_CLOSED); /* resolved, then refused */
    CHECK_SAYS(eb.text, "refused");
    CHECK(rt_connect("no-such-name.invalid", port, SOON, &s, &eb) == ERR_CLOSED);
    CHECK_SAYS(eb.text, "resolving");
}
REAL_CASE(test_failures_to_connect_say_why, 1, refused_fiber)

/* ---- parking ---- */

struct parked {
    struct stream *s;
    enum err why;
    unsigned calls;
    struct rt_cond ready;
};

static void
on_ready(void *arg, enum err why)
{
    struct parked *p = arg;

    p->why = why;
    p->calls++;
    rt_cond_broadcast(&p->ready);
}

static void
park_and_wait(struct parked *p, struct deadline by)
{
    unsigned before = p->calls;

    rt_park(p->s, by, on_ready, p);
    while (p->calls == before)
        CHECK(rt_cond_wait(&p->ready, SOON) == ERR_OK);
}

static void
park_each_way(struct stream *a, struct stream *b)
{
    struct parked p = {.s = a};
    char got[16];
    size_t n;

    rt_cond_init(&p.ready);
    park_and_wait(&p, deadline_in_ms(3));
    CHECK(p.why == ERR_TIMEOUT);
    CHECK(rt_send(b, "1", 1, SOON, NULL) == ERR_OK);
    park_and_wait(&p, SOON); /* bytes were there before, or come meanwhile */
    CHECK(p.why == ERR_OK);
    CHECK(rt_recv(a, got, sizeof got, SOON, &n, NULL) == ERR_OK && n == 1);
    rt_park(a, DEADLINE_NEVER, on_ready, &p);
    CHECK(rt_sleep_ms(2) == ERR_OK);
    CHECK_U64(p.calls, 2);
    rt_unpark(a);
    rt_unpark(a); /* once is enough */
    while (p.calls < 3)
        CHECK(rt_sleep_ms(1) == ERR_OK);
    CHECK(p.calls == 3 && p.why == ERR_CANCELLED);
    rt_unpark(a); /* not parked */
    rt_stream_close(&b);
    park_and_wait(&p, SOON); /* the end wakes it as well */
    CHECK(p.why == ERR_OK);
    CHECK(rt_recv(a, got, sizeof got, SOON, &n, NULL) == ERR_OK && n == 0);
    rt_park(a, DEADLINE_NEVER, on_ready, &p);
    rt_stream_close(&a); /* a closed stream runs no callback */
    rt_yield();
    rt_yield();
    CHECK_U64(p.calls, 4);
}

static void
park_fiber(void *arg)
{
    (void)arg;
    run_each_kind(park_each_way);
}
CASE(test_parking_ends_by_bytes_deadline_unpark_and_end, 1, park_fiber)

static void
wait_for_cancel(void *arg)
{
    (void)arg;
    CHECK(rt_sleep_ms(60000) == ERR_CANCELLED);
}

static void
no_stack_fiber(void *arg)
{
    struct stream *a, *b;
    struct rt_group g;
    struct parked p = {0};

    (void)arg;
    pair(PIPE, &a, &b);
    p.s = a;
    rt_cond_init(&p.ready);
    rt_group_begin(&g);
    while (rt_group_start(&g, wait_for_cancel, NULL) == ERR_OK)
        ;
    rt_park(a, SOON, on_ready, &p);
    CHECK(rt_send(b, "x", 1, SOON, NULL) == ERR_OK);
    CHECK(rt_sleep_ms(5) == ERR_OK);
    CHECK_U64(p.calls, 0); /* stays parked while there is no stack */
    rt_group_cancel(&g);
    rt_group_join(&g);
    while (p.calls == 0)
        CHECK(rt_sleep_ms(1) == ERR_OK);
    CHECK(p.calls == 1 && p.why == ERR_OK);
    rt_stream_close(&a);
    rt_stream_close(&b);
}

static void
test_parked_streams_wait_for_a_stack(void)
{
    for (unsigned i = 0; i < 2; i++) {
        struct rt_options o = {.engine = engines_[i], .loops = 1, .fibers_max = 64};

        CHECK(rt_run(&o, no_stack_fiber, NULL, NULL) == ERR_OK);
    }
}

/* The caller of rt_park() owns the stream again at the end: on_ready with ERR_CANCELLED closes
 * it. */
static struct stream *left[2];
static unsigned closed_at_end;

static void
close_it(void *arg, enum err why)
{
    struct stream **sp = arg;

    CHECK(why == ERR_CANCELLED);
    rt_stream_close(sp);
    closed_at_end++;
}

static void
leave_parked_fiber(void *arg)
{
    (void)arg;
    pair(TCP, &left[0], &left[1]);
    rt_park(left[0], DEADLINE_NEVER, close_it, &left[0]);
    rt_park(left[1], deadline_in_ms(60000), close_it, &left[1]);
}

static void
test_the_end_unparks(void)
{
    for (unsigned i = 0; i < 2; i++) {
        closed_at_end = 0;
        run_fiber(engines_[i], 1, leave_parked_fiber, NULL);
        CHECK_U64(closed_at_end, 2);
    }
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_bytes_go_both_ways_and_end);
    RUN(test_megabytes_go_both_ways_at_once);
    RUN(test_deadlines_end_receiving_and_sending);
    RUN(test_closing_ends_the_wait_of_another_fiber);
    RUN(test_a_cancelled_recv_leaves_the_bytes);
    RUN(test_a_reset_is_no_end);
    RUN(test_failures_to_connect_say_why);
    RUN(test_parking_ends_by_bytes_deadline_unpark_and_end);
    RUN(test_parked_streams_wait_for_a_stack);
    RUN(test_the_end_unparks);
    return check_done();
}
