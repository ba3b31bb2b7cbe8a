/* Connections that have not said what they want, or want nothing more: bounded, and closed before others suffer. Connections of
 * one address. A TLS hello on a plain port. */
#include "base/ip.h"
#include "http/peers.h"
#include "unit/http/http_raw.h"

static void
raw_free(struct raw **wp)
{
    rt_stream_close(&(*wp)->s);
    free(*wp);
    *wp = NULL;
}

static struct raw *
say(struct rig *rig, const char *bytes)
{
    struct raw *w = xcalloc(1, sizeof *w);

    w->s = raw_connect(rig);
    CHECK(w->s != NULL);
    if (w->s == NULL)
        return w;
    raw_send(w->s, bytes, strlen(bytes));
    CHECK(rt_sleep_ms(20) == ERR_OK); /* the server has read it */
    return w;
}

static void
check_served(struct rig *rig)
{
    struct raw *w = say(rig, "GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    struct buf body;

    buf_init(&body, 1u << 20);
    CHECK_U64(raw_answer(w, HTTP_METHOD_GET, &body), 200);
    buf_fini(&body);
    raw_free(&w);
}

/* Five heads may be unfinished; of eight the three oldest are closed, with no answer, and the others can be finished. */
static void
unfinished_heads(struct rig *rig)
{
    struct raw *w[8];
    struct buf body;

    buf_init(&body, 1u << 20);
    for (unsigned i = 0; i < 8; i++)
        w[i] = say(rig, "GET /x HTTP/1.1\r\nHo");
    for (unsigned i = 0; i < 3; i++)
        CHECK(raw_is_closed(w[i]));
    check_served(rig); /* closes the fourth: its own head is one more until it is read */
    for (unsigned i = 4; i < 8; i++) {
        raw_send(w[i]->s, "st: a\r\n\r\n", 9);
        CHECK_U64(raw_answer(w[i], HTTP_METHOD_GET, &body), 200);
    }
    for (unsigned i = 0; i < 8; i++)
        raw_free(&w[i]);
    buf_fini(&body);
}

static void
test_unfinished_heads_are_bounded(void)
{
    static const struct rig few = {.options = {.header_ms = PATIENCE_MS,
                                               .idle_ms = PATIENCE_MS,
                                               .heads_max = 5,
                                               .linger_ms = 50}};

    rig_everywhere(&few, unfinished_heads);
}

/* Refused clients that do not close are the first to go, before heads that began earlier. */
static void
lingering(struct rig *rig)
{
    struct raw *first = say(rig, "GET /x HTTP/1.1\r\nHo"), *bad[2], *more[2];
    struct buf body;

    buf_init(&body, 1u << 20);
    for (unsigned i = 0; i < 2; i++) {
        bad[i] = say(rig, "GET /x HTTP/1.1\r\nHost\r\n\r\nmore");
        CHECK_U64(raw_answer(bad[i], HTTP_METHOD_GET, &body), 400);
    }
    for (unsigned i = 0; i < 2; i++)
        more[i] = say(rig, "GET /x HTTP/1.1\r\nHo");
    for (unsigned i = 0; i < 2; i++) {
        enum err rc = rt_send(bad[i]->s, "x", 1, deadline_in_ms(1000), NULL);

        CHECK(rt_sleep_ms(20) ==
              ERR_OK); /* a first send may still succeed: the reset follows it */
        if (rc == ERR_OK)
            rc = rt_send(bad[i]->s, "x", 1, deadline_in_ms(1000), NULL);
        CHECK(rc != ERR_OK);
    }
    raw_send(first->s, "st: a\r\n\r\n", 9);
    CHECK_U64(raw_answer(first, HTTP_METHOD_GET, &body), 200);
    for (unsigned i = 0; i < 2; i++) {
        raw_free(&bad[i]);
        raw_free(&more[i]);
    }
    raw_free(&first);
    buf_fini(&body);
}

static void
test_those_that_linger_go_first(void)
{
    static const struct rig few = {.options = {.header_ms = PATIENCE_MS,
                                               .idle_ms = PATIENCE_MS,
                                               .heads_max = 3,
                                               .linger_ms = PATIENCE_MS}};

    rig_everywhere(&few, lingering);
}

static void
one_address(struct rig *rig)
{
    struct raw *w[4];
    struct buf body;

    buf_init(&body, 1u << 20);
    for (unsigned i = 0; i < 4; i++) {
        w[i] = say(rig, "GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
        CHECK_U64(raw_answer(w[i], HTTP_METHOD_GET, &body), i < 2 ? 200 : 503);
        if (i == 2)
            CHECK(memmem(body.at, body.len, "http.connections_per_address", 28) != NULL);
    }
    CHECK(raw_is_closed(w[2]));
    for (unsigned i = 0; i < 4; i++)
        raw_free(&w[i]);
    CHECK(rt_sleep_ms(50) == ERR_OK);
    check_served(rig); /* their places are free again */
    buf_fini(&body);
}

static void
test_connections_of_one_address(void)
{
    static const struct rig few = {.options = {.idle_ms = PATIENCE_MS,
                                               .linger_ms = PATIENCE_MS,
                                               .connections_max = 100,
                                               .peer_max = 2,
                                               .peer_loopback = true,
                                               .rejected_max = 1}};

    rig_everywhere(&few, one_address);
}

static void
tls_hello(struct rig *rig)
{
    struct raw *w = say(rig, "\x16\x03\x01\x02\x05\x01");

    CHECK(raw_is_closed(w));
    raw_free(&w);
    check_served(rig);
}

static void
test_a_tls_hello_on_a_plain_port_is_closed_at_once(void)
{
    static const struct rig patient = {
        .options = {.header_ms = PATIENCE_MS, .idle_ms = PATIENCE_MS}};

    rig_everywhere(&patient, tls_hello);
}

static void
test_what_an_address_is(void)
{
    static struct peers p = {.seed = 1};
    static const char *const same[][2] = {
        {"192.0.2.1:80", "192.0.2.1:9999"},
        {"[2001:db8:0:1::1]:80", "[2001:db8:0:1:ffff::2]:81"},
    };
    static const char *const other[][2] = {
        {"192.0.2.1:80", "192.0.2.2:80"},
        {"[2001:db8:0:1::1]:80", "[2001:db8:0:2::1]:80"},
    };
    uint64_t a, b;

    for (size_t i = 0; i < ARRAY_LEN(same); i++)
        CHECK(peers_address(&p, same[i][0]) == peers_address(&p, same[i][1]));
    for (size_t i = 0; i < ARRAY_LEN(other); i++)
        CHECK(peers_address(&p, other[i][0]) != peers_address(&p, other[i][1]));
    a = peers_address(&p, other[0][0]);
    b = peers_address(&p, other[0][1]);
    CHECK_U64(peers_enter(&p, a), 1);
    CHECK_U64(peers_enter(&p, a), 2);
    CHECK_U64(peers_enter(&p, b), 1);
    peers_leave(&p, a);
    CHECK_U64(peers_enter(&p, a), 2);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_what_an_address_is);
    RUN(test_unfinished_heads_are_bounded);
    RUN(test_those_that_linger_go_first);
    RUN(test_connections_of_one_address);
    RUN(test_a_tls_hello_on_a_plain_port_is_closed_at_once);
    return check_done();
}
