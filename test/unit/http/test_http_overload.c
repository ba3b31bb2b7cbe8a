/* Beyond http.requests: who comes waits for a place, first come first served, bounded in number and time, and gets 503
 * with Retry-After then; with three and ten times the clients that there are places for, the server does as much as
 * before, and no served client waits much longer. In virtual time, so that no machine is too slow for it. Protects F6. */
#include "unit/http/http_raw.h"

#define PLACES   4u
#define WORK_MS  10u
#define WAIT_MS  100u
#define MOST     (32u * PLACES)
#define MEASURED (UINT64_C(2) * 1000000000)

static const struct rig crowded = {.options = {.requests_max = PLACES,
                                               .waiting_max = MOST,
                                               .wait_ms = WAIT_MS,
                                               .retry_after_s = 7,
                                               .linger_ms = 50}};

static struct raw *
connect_raw(struct rig *rig)
{
    struct raw *w = xcalloc(1, sizeof *w);

    w->s = raw_connect(rig);
    CHECK(w->s != NULL);
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
ask(struct raw *w, const char *path)
{
    char request[100];

    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path);
    raw_send(w->s, request, strlen(request));
}

static int
receive(struct raw *w)
{
    struct buf body;
    int status;

    buf_init(&body, 1u << 16);
    status = raw_answer(w, HTTP_METHOD_GET, &body);
    buf_fini(&body);
    return status;
}

/* ---- how much is served ---- */

struct load {
    struct rig *rig;
    uint64_t until_ns;
    unsigned served, refused;
    uint64_t longest_ns; /* that an answer 200 took */
};

/* Asks, and asks again at once, whatever the answer. */
static void
one_client(void *arg)
{
    struct load *l = arg;
    struct raw *w = connect_raw(l->rig);
    char path[32];

    snprintf(path, sizeof path, "/sleep/%u", WORK_MS);
    while (rt_now_ns() < l->until_ns) {
        uint64_t from = rt_now_ns();
        int status;

        ask(w, path);
        status = receive(w);
        CHECK(status == 200 || status == 503);
        if (status == 503) {
            CHECK(span_is(http_get(&w->head, HTTP_RETRY_AFTER), "7"));
            CHECK(rt_now_ns() - from >= WAIT_MS * UINT64_C(1000000));
            l->refused++;
        } else if (status == 200) {
            l->served++;
            l->longest_ns = MAX(l->longest_ns, rt_now_ns() - from);
        }
    }
    leave(&w);
}

static struct load
load_of(struct rig *rig, unsigned clients)
{
    struct load l = {.rig = rig, .until_ns = rt_now_ns() + MEASURED};
    struct rt_group g;

    rt_group_begin(&g);
    for (unsigned i = 0; i < clients; i++)
        CHECK(rt_group_start(&g, one_client, &l) == ERR_OK);
    rt_group_join(&g);
    printf("  %u clients for %u places: %u served, %u refused, %.1f ms at most\n",
           clients, PLACES, l.served, l.refused, (double)l.longest_ns / 1e6);
    return l;
}

static void
goodput(struct rig *rig)
{
    struct load alone = load_of(rig, 1), peak = load_of(rig, PLACES);
    struct load three = load_of(rig, 3 * PLACES), ten = load_of(rig, 10 * PLACES);
    struct load thirty = load_of(rig, 30 * PLACES);

    CHECK(peak.served > 3 * alone.served);
    CHECK(10 * three.served >= 8 * peak.served);
    CHECK(10 * ten.served >= 8 * peak.served);
    CHECK(10 * thirty.served >= 8 * peak.served);
    CHECK(three.longest_ns <= 5 * alone.longest_ns);
    /* A refusal takes what serving takes, nearly: there must be few of them. */
    CHECK_U64(three.refused, 0);
    CHECK_U64(ten.refused, 0);
    CHECK(thirty.refused > 0);
    CHECK(thirty.refused <= 30 * PLACES * (MEASURED / 1000000 / WAIT_MS + 1));
    CHECK(thirty.longest_ns < (WAIT_MS + 2 * WORK_MS) * UINT64_C(1000000));
}

static void
test_goodput_at_three_and_ten_times_the_load(void)
{
    rig_in_virtual_time(&crowded, goodput);
}

/* ---- who waits ---- */

static const struct rig narrow = {.options = {.requests_max = 1,
                                              .waiting_max = 3,
                                              .wait_ms = WAIT_MS,
                                              .retry_after_s = 7,
                                              .linger_ms = 50}};

struct turn {
    struct rig *rig;
    struct raw *w;
    unsigned came, *answered; /* the how manyth it was, and how many have been answered */
};

static void
hear_in_turn(void *arg)
{
    struct turn *t = arg;

    CHECK(receive(t->w) == 200);
    CHECK_U64((*t->answered)++, t->came);
}

/* A request that is on its way to the server is there after this. */
static void
let_others_run(void)
{
    CHECK(rt_sleep_ms(5) == ERR_OK);
}

static void
first_come(struct rig *rig)
{
    struct turn turns[4];
    struct raw *late = connect_raw(rig);
    unsigned answered = 0;
    struct rt_group g;
    uint64_t from;

    rt_group_begin(&g);
    for (unsigned i = 0; i < 4; i++) {
        turns[i] = (struct turn){rig, connect_raw(rig), i, &answered};
        ask(turns[i].w, "/sleep/30");
        let_others_run();
        CHECK(rt_group_start(&g, hear_in_turn, &turns[i]) == ERR_OK);
    }
    /* One is served and three wait, which is all that may. */
    from = rt_now_ns();
    ask(late, "/x");
    CHECK(receive(late) == 503);
    CHECK(rt_now_ns() - from < WAIT_MS * UINT64_C(1000000) / 4);
    /* Probes do not wait, and use no slot. */
    ask(late, "/_/livez");
    CHECK(receive(late) == 200);
    CHECK_U64(answered, 0);
    rt_group_join(&g);
    CHECK_U64(answered, 4);
    ask(late, "/x");
    CHECK(receive(late) == 200);
    for (unsigned i = 0; i < 4; i++)
        leave(&turns[i].w);
    leave(&late);
}

static void
test_first_come_first_served(void)
{
    rig_in_virtual_time(&narrow, first_come);
}

/* The place goes on past one whose time is over, one whose client has left, and one that asks for 100 before its body. */
static void
places_are_not_lost(struct rig *rig)
{
    struct raw *busy = connect_raw(rig), *patient = connect_raw(rig),
               *gone = connect_raw(rig), *put = connect_raw(rig);
    const char *head = "PUT /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: "
                       "100-continue\r\n\r\n";
    uint64_t from = rt_now_ns();

    ask(busy, "/wait");
    let_others_run();
    ask(patient, "/x");
    CHECK(receive(patient) == 503);
    CHECK(rt_now_ns() - from >= WAIT_MS * UINT64_C(1000000));
    ask(gone, "/x");
    let_others_run();
    raw_send(put->s, head, strlen(head));
    let_others_run();
    ask(patient, "/x");
    let_others_run();
    leave(&gone);
    rt_cond_broadcast(&rig->release);
    CHECK(receive(busy) == 200);
    CHECK(receive(put) == 100);
    raw_send(put->s, "hello", 5);
    CHECK(receive(put) == 200);
    CHECK(receive(patient) == 200);
    leave(&busy);
    leave(&patient);
    leave(&put);
}

static void
test_places_are_not_lost(void)
{
    rig_in_virtual_time(&narrow, places_are_not_lost);
}

/* A refused body is read over and the connection kept, up to 64 KiB of it; behind more it is closed. */
static void
kept(struct rig *rig)
{
    struct raw *busy = connect_raw(rig), *w = connect_raw(rig);
    const char *head = "PUT /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 65536\r\n\r\n";
    char *body = xcalloc(1, 65536);

    ask(busy, "/wait");
    while (rig->waiting == 0)
        CHECK(rt_sleep_ms(1) == ERR_OK);
    for (unsigned i = 0; i < 2; i++) {
        raw_send(w->s, head, strlen(head));
        raw_send(w->s, body, 65536);
        CHECK(receive(w) == 503);
        CHECK(!http_has(&w->head, HTTP_CONNECTION));
    }
    head = "PUT /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 65537\r\n\r\n";
    raw_send(w->s, head, strlen(head));
    CHECK(receive(w) == 503);
    CHECK(span_is(http_get(&w->head, HTTP_CONNECTION), "close"));
    CHECK(raw_is_closed(w));
    rt_cond_broadcast(&rig->release);
    CHECK(receive(busy) == 200);
    free(body);
    leave(&busy);
    leave(&w);
}

static void
test_a_refusal_keeps_the_connection(void)
{
    rig_everywhere(&narrow, kept);
}

/* The server is stopped while some wait: no connection stays. */
static void
stopped(struct rig *rig)
{
    struct raw *busy = connect_raw(rig), *w = connect_raw(rig);
    struct http_handler h = {.handle = app_handle, .arg = rig};
    struct errbuf eb = {0};

    ask(busy, "/wait");
    while (rig->waiting == 0)
        CHECK(rt_sleep_ms(1) == ERR_OK);
    ask(w, "/x");
    let_others_run();
    http_server_stop(&rig->server);
    CHECK(receive(busy) == 0);
    (void)receive(w); /* it may have got the place of the other */
    CHECK(raw_is_closed(w));
    leave(&busy);
    leave(&w);
    REQUIRE(http_server_new(&rig->options, &h, &rig->server, &eb) == ERR_OK);
}

static void
test_stopped_while_some_wait(void)
{
    rig_everywhere(&narrow, stopped);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_goodput_at_three_and_ten_times_the_load);
    RUN(test_first_come_first_served);
    RUN(test_places_are_not_lost);
    RUN(test_a_refusal_keeps_the_connection);
    RUN(test_stopped_while_some_wait);
    return check_done();
}
