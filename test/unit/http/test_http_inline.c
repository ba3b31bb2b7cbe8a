/* Answers without a fiber: the same bytes in the same order as with one, whatever the client does meanwhile; what is lent
 * is given back exactly once; deadlines, drain and limits hold. Protects F7, V2. */
#include <unistd.h>

#include "unit/http/http_raw.h"

#define HEAD  " HTTP/1.1\r\nHost: a\r\n\r\n"
#define MANY  20u
#define CROWD 90u /* more than are answered together */

static const struct rig usual = {
    .options = {.header_ms = PATIENCE_MS, .idle_ms = PATIENCE_MS}};

static struct raw *
connect_raw(struct rig *rig)
{
    struct raw *w = xcalloc(1, sizeof *w);

    w->s = raw_connect(rig);
    return w;
}

static void
leave(struct raw **wp)
{
    rt_stream_close(&(*wp)->s);
    free(*wp);
    *wp = NULL;
}

static void
ask(struct raw *w, const char *text)
{
    raw_send(w->s, text, strlen(text));
}

/* `size` bytes of the pattern with 200. */
static void
receive(struct raw *w, size_t size)
{
    struct buf body;
    bool same = true;

    buf_init(&body, 64u << 20);
    CHECK_U64((unsigned)raw_answer(w, HTTP_METHOD_GET, &body), 200);
    CHECK_U64(body.len, size);
    for (size_t i = 0; i < body.len; i++)
        same = same && body.at[i] == (char)('a' + i % 23);
    CHECK(same);
    buf_fini(&body);
}

/* Its head is known from then on. */
static void
get_known(struct raw *w)
{
    for (unsigned i = 0; i < 3; i++) {
        ask(w, "GET /lent/10" HEAD);
        receive(w, 10);
    }
}

static void
all_given_back(struct rig *rig)
{
    while (rig->released < rig->lent)
        CHECK(rt_sleep_ms(10) == ERR_OK);
    CHECK_U64(rig->released, rig->lent);
}

static void
nothing_in_flight(struct rig *rig)
{
    struct http_server_stats stats;

    for (http_server_stats(rig->server, &stats); stats.in_flight > 0;
         http_server_stats(rig->server, &stats))
        CHECK(rt_sleep_ms(10) == ERR_OK);
}

static void
one_after_the_other(struct rig *rig)
{
    struct raw *w = connect_raw(rig);
    unsigned before;

    get_known(w);
    before = rig->answered_inline;
    for (unsigned i = 0; i < 100; i++) {
        char text[64];

        snprintf(text, sizeof text, "GET /lent/%u" HEAD, i * 37);
        ask(w, text);
        receive(w, i * 37);
        CHECK_U64(rig->last_out, i * 37);
        CHECK(rig->last_whole);
    }
    /* The simulator delivers in pieces, and a head in pieces is for a fiber. */
    CHECK(rig->engine == RT_SIM ? rig->answered_inline > before
                                : rig->answered_inline - before == 100);
    CHECK_U64(rig->done, 103);
    CHECK_U64(rig->released, rig->lent);
    leave(&w);
}

static void
test_one_after_the_other(void)
{
    rig_everywhere(&usual, one_after_the_other);
}

/* The first of them goes at once, the others are behind it in the buffer, one of them for the handler. */
static void
several_in_one_send(struct rig *rig)
{
    struct raw *w = connect_raw(rig);
    struct buf body;

    get_known(w);
    ask(w, "GET /lent/1" HEAD "GET /lent/2" HEAD "GET /other" HEAD "GET /lent/3" HEAD
           "GET /len");
    receive(w, 1);
    receive(w, 2);
    buf_init(&body, 1000);
    CHECK_U64((unsigned)raw_answer(w, HTTP_METHOD_GET, &body), 200);
    CHECK(span_is(buf_span(&body), "/other"));
    buf_fini(&body);
    receive(w, 3);
    ask(w, "t/4" HEAD);
    receive(w, 4);
    leave(&w);
    all_given_back(rig);
}

static void
test_several_in_one_send(void)
{
    rig_everywhere(&usual, several_in_one_send);
}

/* A known head in two pieces, and one that is not for the inline handler. */
static void
in_pieces(struct rig *rig)
{
    struct raw *w = connect_raw(rig);
    struct buf body;
    unsigned handled;

    get_known(w);
    ask(w, "GET /lent/5 HTTP/1.1\r\nHo");
    CHECK(rt_sleep_ms(20) == ERR_OK);
    ask(w, "st: a\r\n\r\n");
    receive(w, 5);
    handled = rig->handled;
    buf_init(&body, 1000);
    ask(w, "GET /none" HEAD);
    CHECK_U64((unsigned)raw_answer(w, HTTP_METHOD_GET, &body), 500);
    CHECK_U64(rig->handled, handled + 1);
    buf_fini(&body);
    leave(&w);
}

static void
test_in_pieces(void)
{
    rig_everywhere(&usual, in_pieces);
}

/* More than a socket takes: a fiber sends the rest. Then one whose client leaves in the middle. */
static void
more_than_fits(struct rig *rig)
{
    struct raw *w = connect_raw(rig);

    get_known(w);
    for (unsigned i = 0; i < 3; i++) {
        char text[64];

        snprintf(text, sizeof text, "GET /lent/%u" HEAD, 20000000 + i);
        ask(w, text);
        CHECK(rt_sleep_ms(20) == ERR_OK);
        receive(w, 20000000 + i);
        ask(w, "GET /lent/10" HEAD);
        receive(w, 10);
    }
    ask(w, "GET /lent/20000001" HEAD);
    CHECK(rt_sleep_ms(20) == ERR_OK);
    leave(&w);
    all_given_back(rig);
    nothing_in_flight(rig);
}

static void
test_more_than_fits(void)
{
    rig_everywhere(&usual, more_than_fits);
}

static void
many_together(struct rig *rig)
{
    struct raw *w[CROWD];

    for (unsigned i = 0; i < CROWD; i++) {
        w[i] = connect_raw(rig);
        get_known(w[i]);
    }
    for (unsigned round = 0; round < 10; round++) {
        for (unsigned i = 0; i < CROWD; i++)
            ask(w[i], i % 3 != 0 ? "GET /lent/5000" HEAD : "GET /size/5000" HEAD);
        for (unsigned i = 0; i < CROWD; i++)
            receive(w[i], 5000);
    }
    for (unsigned i = 0; i < CROWD; i++)
        leave(&w[i]);
    CHECK_U64(rig->released, rig->lent);
    CHECK(rig->engine == RT_SIM || rig->looked_ahead > 0);
}

static void
test_many_together(void)
{
    rig_everywhere(&usual, many_together);
}

static void
close_is_heard(struct rig *rig)
{
    for (unsigned i = 0; i < 4; i++) {
        struct raw *w = connect_raw(rig);

        ask(w, "GET /lent/7 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        receive(w, 7);
        CHECK(raw_is_closed(w));
        CHECK(w->ended);
        leave(&w);
    }
    CHECK(rig->answered_inline >= 1);
}

static void
test_close_is_heard(void)
{
    rig_everywhere(&usual, close_is_heard);
}

/* Each answer moves the end of an idle connection on; without one it comes. */
static void
idle_ends(struct rig *rig)
{
    struct raw *w = connect_raw(rig);
    uint64_t from;

    get_known(w);
    for (unsigned i = 0; i < 12; i++) {
        CHECK(rt_sleep_ms(1900) == ERR_OK);
        ask(w, "GET /lent/10" HEAD);
        receive(w, 10);
    }
    from = rt_now_ns();
    CHECK(raw_is_closed(w));
    CHECK(rt_now_ns() - from >= UINT64_C(1500) * 1000000);
    leave(&w);
}

static void
test_idle_ends(void)
{
    static const struct rig idling = {.options = {.idle_ms = 2000}};

    rig_in_virtual_time(&idling, idle_ends);
}

static void
drain_ends(struct rig *rig)
{
    struct raw *w = connect_raw(rig);

    get_known(w);
    ask(w, "GET /lent/10" HEAD);
    CHECK(http_server_drain(rig->server, deadline_in_ms(60000)));
    CHECK(rt_sleep_ms(20) == ERR_OK);
    CHECK_U64(rig->released, rig->lent);
    leave(&w);
}

static void
test_drain_ends(void)
{
    rig_everywhere(&usual, drain_ends);
}

/* ---- answers of a later turn ---- */

/* True: it waits for app_later(). The simulator delivers in pieces: then a fiber has it. */
static bool
ask_later_for(struct rig *rig, struct raw *w, const char *request)
{
    unsigned handled = rig->handled;

    ask(w, request);
    while (rig->later == NULL && rig->handled == handled)
        CHECK(rt_sleep_ms(10) == ERR_OK);
    CHECK(rig->later != NULL || (rig->engine == RT_SIM && rig->handled > handled));
    return rig->later != NULL;
}

static bool
ask_later(struct rig *rig, struct raw *w)
{
    return ask_later_for(rig, w, "GET /later/10" HEAD);
}

static void
later_is_answered_or_handled(struct rig *rig)
{
    struct raw *w = connect_raw(rig), *other = connect_raw(rig);
    struct http_server_stats stats;

    get_known(w);
    get_known(other);
    for (unsigned i = 0; i < 20; i++) {
        unsigned handled = rig->handled;
        bool waits = ask_later(rig, w);

        http_server_stats(rig->server, &stats);
        CHECK_U64(stats.in_flight, waits ? 1 : 0);
        ask(other, "GET /lent/10" HEAD); /* others go on */
        receive(other, 10);
        ask(w, "GET /lent/7" HEAD); /* stays behind it */
        if (waits)
            app_later(rig, i % 2 == 0);
        receive(w, 10);
        receive(w, 7);
        if (waits && rig->engine != RT_SIM)
            CHECK_U64(rig->handled - handled, i % 2 == 0 ? 1 : 2);
    }
    http_server_stats(rig->server, &stats);
    CHECK_U64(stats.in_flight, 0);
    CHECK_U64(rig->done, 6 + 60);
    leave(&other);
    leave(&w);
    all_given_back(rig);
}

/* More than waits for the end of a turn, and more than a socket takes at once. */
static void
later_is_large(struct rig *rig)
{
    struct raw *w = connect_raw(rig);

    get_known(w);
    for (unsigned i = 0; i < 6; i++) {
        bool small = i % 2 == 0;

        if (ask_later_for(rig, w,
                          small ? "GET /later/70000" HEAD : "GET /later/9000000" HEAD))
            app_later(rig, true);
        ask(w, "GET /lent/7" HEAD);
        receive(w, small ? 70000 : 9000000);
        receive(w, 7);
    }
    leave(&w);
    all_given_back(rig);
}

static void
test_later_is_large(void)
{
    rig_everywhere(&usual, later_is_large);
}

static void
test_later_is_answered_or_handled(void)
{
    rig_everywhere(&usual, later_is_answered_or_handled);
}

/* The client is gone before the answer is there: it waits all the same. */
static void
later_without_a_client(struct rig *rig)
{
    struct raw *w = connect_raw(rig);

    for (unsigned i = 0; i < 2; i++) {
        get_known(w);
        if (ask_later(rig, w)) {
            leave(&w);
            CHECK(rt_sleep_ms(50) == ERR_OK);
            app_later(rig, i == 0);
        } else {
            leave(&w);
        }
        w = connect_raw(rig);
    }
    leave(&w);
    all_given_back(rig);
    nothing_in_flight(rig);
}

static void
test_later_without_a_client(void)
{
    rig_everywhere(&usual, later_without_a_client);
}

/* The time of an idle connection is not that of an answer. */
static void
later_outlasts_idling(struct rig *rig)
{
    struct raw *w = connect_raw(rig);
    unsigned waited[2] = {0, 0};

    for (unsigned i = 0; i < 40; i++) {
        get_known(w);
        if (ask_later(rig, w)) {
            waited[i % 2]++;
            CHECK(rt_sleep_ms(1800) == ERR_OK);
            app_later(rig, i % 2 == 0);
        }
        receive(w, 10);
    }
    CHECK(waited[0] > 0 && waited[1] > 0); /* the others' heads came in pieces */
    leave(&w);
    all_given_back(rig);
}

static void
test_later_outlasts_idling(void)
{
    static const struct rig short_idling = {.options = {.idle_ms = 1200}};

    rig_in_virtual_time(&short_idling, later_outlasts_idling);
}

/* A machine that stands still for so long between two requests would be taken for an idle client. */
#define MET_MS 5000u

/* The idle time ends in the very turn in which the answer is given: it is sent. */
static void
later_meets_the_deadline(struct rig *rig)
{
    struct raw *w = connect_raw(rig);

    for (unsigned i = 0; i < 2; i++) {
        get_known(w);
        if (ask_later(rig, w)) {
            /* No turn meanwhile, but for the simulator, whose time would stand still. */
            if (rig->engine != RT_SIM)
                usleep((MET_MS + 100) * 1000);
            rt_yield(); /* to the turn whose timers see it; we run before the fibers that they wake */
            app_later(rig, i == 0);
        }
        receive(w, 10);
    }
    leave(&w);
    all_given_back(rig);
}

static void
test_later_meets_the_deadline(void)
{
    static const struct rig short_idling = {.options = {.idle_ms = MET_MS}};

    rig_everywhere(&short_idling, later_meets_the_deadline);
}

static void
stop_server(void *arg)
{
    struct rig *rig = arg;

    http_server_stop(&rig->server);
}

/* A server that ends does not wait: the owner of the request is cancelled. */
static void
later_ends_with_the_server(struct rig *rig)
{
    struct raw *w = connect_raw(rig);
    struct rt_group stopper;

    get_known(w);
    if (ask_later(rig, w)) {
        rt_group_begin(&stopper);
        CHECK(rt_group_start(&stopper, stop_server, rig) == ERR_OK);
        rt_group_join(&stopper);
        CHECK(rig->later == NULL);
        CHECK_U64(rig->abandoned, 1);
    }
    leave(&w);
    CHECK_U64(rig->released, rig->lent);
}

static void
test_later_ends_with_the_server(void)
{
    rig_everywhere(&usual, later_ends_with_the_server);
}

/* ---- answers that leave behind their handlers ---- */

/* As many handlers as there are connections wait, then all go on in one turn. */
static void
ask_last(struct rig *rig, struct raw *w[MANY], const char *request)
{
    for (unsigned i = 0; i < MANY; i++)
        ask(w[i], request);
    while (rig->waiting < MANY)
        CHECK(rt_sleep_ms(10) == ERR_OK);
    CHECK_U64(rig->waiting, MANY);
    rt_cond_broadcast(&rig->release);
}

static void
hear_last(struct raw *w)
{
    struct buf body;

    buf_init(&body, 1000);
    CHECK_U64((unsigned)raw_answer(w, HTTP_METHOD_GET, &body), 204);
    buf_fini(&body);
}

/* All handlers have returned before the first answer leaves; what is counted in flight, and told, follows the answers. */
static void
last_leave_together(struct rig *rig)
{
    struct http_server_stats stats;
    struct raw *w[MANY];

    for (unsigned i = 0; i < MANY; i++)
        w[i] = connect_raw(rig);
    for (unsigned round = 0; round < 5; round++) {
        unsigned done = rig->done;

        ask_last(rig, w, "GET /last" HEAD);
        rt_yield();
        http_server_stats(rig->server, &stats);
        CHECK_U64(rig->waiting, 0);
        CHECK_U64(rig->done, done);
        CHECK_U64(stats.in_flight, MANY);
        for (unsigned i = 0; i < MANY; i++)
            hear_last(w[i]);
        http_server_stats(rig->server, &stats);
        CHECK_U64(rig->done, done + MANY);
        CHECK_U64(stats.in_flight, 0);
        CHECK(rig->last_whole);
        CHECK_U64(rig->last_status, 204);
    }
    /* What came behind it is answered behind it. */
    ask_last(rig, w, "GET /last" HEAD "GET /lent/10" HEAD);
    for (unsigned i = 0; i < MANY; i++) {
        hear_last(w[i]);
        receive(w[i], 10);
    }
    ask_last(rig, w, "GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    for (unsigned i = 0; i < MANY; i++) {
        hear_last(w[i]);
        CHECK(raw_is_closed(w[i]));
        leave(&w[i]);
    }
    CHECK_U64(rig->released, rig->lent);
}

static void
test_last_leave_together(void)
{
    rig_everywhere(&usual, last_leave_together);
}

/* What was done is answered: by a server that ends, and to clients that have gone. */
static void
last_outlive_the_server(struct rig *rig)
{
    struct rt_group stopper;
    struct raw *w[MANY];

    for (unsigned i = 0; i < MANY; i++)
        w[i] = connect_raw(rig);
    ask_last(rig, w, "GET /last" HEAD);
    leave(&w[0]);
    rt_yield();
    CHECK(rig->done <= 1); /* a client that has gone is not waited for */
    rt_group_begin(&stopper);
    CHECK(rt_group_start(&stopper, stop_server, rig) == ERR_OK);
    rt_group_join(&stopper);
    CHECK_U64(rig->done, MANY);
    for (unsigned i = 1; i < MANY; i++) {
        hear_last(w[i]);
        CHECK(raw_is_closed(w[i]));
        leave(&w[i]);
    }
}

static void
test_last_outlive_the_server(void)
{
    rig_everywhere(&usual, last_outlive_the_server);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_one_after_the_other);
    RUN(test_several_in_one_send);
    RUN(test_in_pieces);
    RUN(test_more_than_fits);
    RUN(test_many_together);
    RUN(test_close_is_heard);
    RUN(test_idle_ends);
    RUN(test_drain_ends);
    RUN(test_later_is_answered_or_handled);
    RUN(test_later_is_large);
    RUN(test_later_without_a_client);
    RUN(test_later_outlasts_idling);
    RUN(test_later_meets_the_deadline);
    RUN(test_later_ends_with_the_server);
    RUN(test_last_leave_together);
    RUN(test_last_outlive_the_server);
    return check_done();
}
