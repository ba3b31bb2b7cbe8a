/* The client against our server and against servers that misbehave: pool, streaming
 * both ways, early answers, repeats, deadlines, and bodies cut short. On every engine. */
#include "unit/http/http_rig.h"

static const struct rig usual = {
    .options = {.header_ms = PATIENCE_MS, .idle_ms = PATIENCE_MS, .linger_ms = 200},
    .client_options = {.between_ms = PATIENCE_MS,
                       .first_byte_ms = PATIENCE_MS,
                       .continue_ms = PATIENCE_MS,
                       .idle_ms = PATIENCE_MS},
};

static struct http_call_request
request_to(const struct rig *rig, const char *method, const char *target)
{
    return (struct http_call_request){.host = "127.0.0.1",
                                      .port = rig->port,
                                      .method = method,
                                      .target = span_of(target),
                                      .length = HTTP_NO_BODY};
}

/* The whole call; the status, or -err. */
static int
simple(const struct rig *rig, const struct http_call_request *req, struct span body,
       struct buf *out)
{
    struct errbuf eb = {0};
    int status = 0;
    enum err rc = http_call_simple(rig->client, req, body, &status, out, NULL, NULL, &eb);

    CHECK((rc == ERR_OK) == (eb.text[0] == '\0'));
    return rc == ERR_OK ? status : -(int)rc;
}

static bool
is_pattern(struct span s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.at[i] != (char)('a' + i % 23))
            return false;
    }
    return true;
}

/* ---- the pool ---- */

static void
reuse(struct rig *rig)
{
    struct http_call_request req = request_to(rig, "GET", "/size/100000");
    struct http_client_stats stats;
    struct buf out;

    buf_init(&out, 1u << 20);
    for (unsigned i = 0; i < 20; i++) {
        buf_clear(&out);
        req.target = span_of(i % 2 == 0 ? "/size/100000" : "/chunked/100000");
        CHECK_U64(simple(rig, &req, SPAN(""), &out), 200);
        CHECK_U64(out.len, 100000);
        CHECK(is_pattern(buf_span(&out)));
    }
    http_client_stats(rig->client, &stats);
    CHECK_U64(stats.connects, 1);
    CHECK_U64(stats.reused, 19);
    CHECK_U64(stats.connections, 1);
    CHECK_U64(stats.idle, 1);
    CHECK_U64(stats.retried, 0);
    /* What closes is not kept. */
    req.target = span_of("/close");
    CHECK_U64(simple(rig, &req, SPAN(""), &out), 200);
    http_client_stats(rig->client, &stats);
    CHECK_U64(stats.connections, 0);
    buf_fini(&out);
}

static void
test_a_connection_is_reused(void)
{
    rig_everywhere(&usual, reuse);
}

struct many {
    struct rig *rig;
    unsigned done;
};

static void
one_of_many(void *arg)
{
    struct many *m = arg;
    struct http_call_request req = request_to(m->rig, "GET", "/size/5000");
    struct buf out;

    buf_init(&out, 10000);
    CHECK_U64(simple(m->rig, &req, SPAN(""), &out), 200);
    CHECK_U64(out.len, 5000);
    m->done++;
    buf_fini(&out);
}

static void
limited(struct rig *rig)
{
    struct many m = {.rig = rig};
    struct http_client_stats stats;
    struct rt_group g;

    rt_group_begin(&g);
    for (unsigned i = 0; i < 40; i++)
        CHECK(rt_group_start(&g, one_of_many, &m) == ERR_OK);
    rt_group_join(&g);
    CHECK_U64(m.done, 40);
    http_client_stats(rig->client, &stats);
    CHECK(stats.connects <= 3);
    CHECK_U64(stats.connections, stats.idle);
}

static void
test_calls_beyond_the_limit_wait_their_turn(void)
{
    struct rig rig = usual;

    rig.client_options.per_host_max = 3;
    rig_everywhere(&rig, limited);
}

static void
idle_ends(struct rig *rig)
{
    struct http_call_request req = request_to(rig, "GET", "/x");
    struct http_client_stats stats;
    struct buf out;

    buf_init(&out, 1000);
    CHECK_U64(simple(rig, &req, SPAN(""), &out), 200);
    do {
        CHECK(rt_sleep_ms(10) == ERR_OK);
        http_client_stats(rig->client, &stats);
    } while (stats.connections > 0);
    CHECK_U64(simple(rig, &req, SPAN(""), &out), 200);
    buf_fini(&out);
}

static void
test_idle_connections_go_when_either_side_has_had_enough(void)
{
    struct rig ours = usual, theirs = usual;

    ours.client_options.idle_ms = 100;
    rig_everywhere(&ours, idle_ends);
    theirs.options.idle_ms =
        100; /* a server takes a client that stands still for an idle one */
    rig_in_virtual_time(&theirs, idle_ends);
}

/* ---- bodies ---- */

static void
uploads(struct rig *rig)
{
    static const struct {
        bool chunked, expect;
        size_t size, piece;
    } rows[] = {
        {false, false, 0, 1},         {false, false, 1, 1},
        {false, true, 5000, 999},     {false, false, 3000000, 65536},
        {true, false, 0, 1},          {true, false, 100000, 7777},
        {true, true, 3000000, 65536}, {false, true, 2000000, 2000000},
    };
    char *data = xmalloc(3000000), *back = xmalloc(3000001);

    pattern(data, 0, 3000000);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct http_call_request req = request_to(rig, "PUT", "/echo");
        const struct http_head *head = NULL;
        struct http_call *call = NULL;
        struct errbuf eb = {0};
        size_t got = 0, n = 1;

        req.length = rows[i].chunked ? HTTP_CHUNKED : (int64_t)rows[i].size;
        req.expect_continue = rows[i].expect;
        REQUIRE(http_call_begin(rig->client, &req, &call, &eb) == ERR_OK);
        for (size_t at = 0; at < rows[i].size; at += rows[i].piece)
            CHECK(http_call_write(call, data + at, MIN(rows[i].piece, rows[i].size - at),
                                  &eb) == ERR_OK);
        REQUIRE(http_call_finish(call, &head, &eb) == ERR_OK);
        CHECK_U64(head->code, 200);
        CHECK(http_call_sent_all(call));
        CHECK((head->body_length == HTTP_CHUNKED) == rows[i].chunked);
        while (n > 0 && got < 3000000) {
            if (http_call_read(call, back + got, 3000001 - got, &n, &eb) != ERR_OK) {
                fprintf(stderr, "row %zu: %s\n", i, eb.text);
                CHECK(false);
                break;
            }
            got += n;
        }
        CHECK_U64(got, rows[i].size);
        CHECK(memcmp(back, data, got) == 0);
        if (got == 3000000)
            CHECK(http_call_read(call, back, 1, &n, &eb) == ERR_OK && n == 0);
        http_call_end(&call);
        CHECK_STR(eb.text, "");
    }
    free(data);
    free(back);
}

static void
test_bodies_both_ways(void)
{
    rig_everywhere(&usual, uploads);
}

/* A refusal while we send: the answer is received, whatever of the body went out. */
static void
early_answer(struct rig *rig)
{
    static char piece[100000];

    for (unsigned expect = 0; expect <= 1; expect++) {
        struct http_call_request req = request_to(rig, "PUT", "/deny");
        const struct http_head *head = NULL;
        struct http_call *call = NULL;
        struct errbuf eb = {0};

        req.length = 40000000;
        req.expect_continue = expect != 0;
        REQUIRE(http_call_begin(rig->client, &req, &call, &eb) == ERR_OK);
        for (unsigned i = 0; i < 400; i++)
            CHECK(http_call_write(call, piece, sizeof piece, &eb) == ERR_OK);
        CHECK(http_call_finish(call, &head, &eb) == ERR_OK);
        CHECK_STR(eb.text, "");
        CHECK(head != NULL && head->code == 403);
        if (expect != 0)
            CHECK(!http_call_sent_all(call));
        http_call_end(&call);
    }
}

static void
test_an_answer_before_the_body_is_sent(void)
{
    rig_everywhere(&usual, early_answer);
}

static void
too_large(struct rig *rig)
{
    struct http_call_request req = request_to(rig, "GET", "/size/1000");
    struct buf out;

    for (size_t limit = 999; limit <= 1000; limit++) {
        buf_init(&out, limit);
        CHECK(simple(rig, &req, SPAN(""), &out) ==
              (limit == 1000 ? 200 : -(int)ERR_TOO_LARGE));
        buf_fini(&out);
        req.target = span_of("/chunked/1000");
        buf_init(&out, limit);
        CHECK(simple(rig, &req, SPAN(""), &out) ==
              (limit == 1000 ? 200 : -(int)ERR_TOO_LARGE));
        buf_fini(&out);
    }
}

static void
test_the_limit_of_a_simple_call(void)
{
    rig_everywhere(&usual, too_large);
}

/* ---- servers that misbehave ---- */

/* Receives one request without a body; nothing of it stays unread, since a close would
 * then be a reset. */
static bool
hear_request(struct stream *s)
{
    char in[4096];
    size_t len = 0, n;

    while (len < sizeof in) {
        if (rt_recv(s, in + len, sizeof in - len, deadline_in_ms(60000), &n, NULL) !=
                ERR_OK ||
            n == 0)
            return false;
        len += n;
        if (len >= 4 && memcmp(in + len - 4, "\r\n\r\n", 4) == 0)
            return true;
    }
    return false;
}

/* Takes connections one after the other; on each reads a head, sends `script[i]`,
 * closes or stays. */
struct liar {
    struct rig *rig;
    struct listener *listener;
    uint16_t port;
    struct {
        const char *says;
        bool stays;  /* the connection is left open and silent */
        bool unread; /* does not wait for a request */
    } script[4];
    unsigned count, served;
    struct stream *held[4];
};

static void
lie(void *arg)
{
    struct liar *l = arg;

    for (l->served = 0; l->served < l->count;) {
        struct stream *s = NULL;

        if (rt_accept(l->listener, deadline_in_ms(60000), &s, NULL) != ERR_OK)
            return;
        if (!l->script[l->served].unread)
            CHECK(hear_request(s));
        if (l->script[l->served].says != NULL)
            (void)!rt_send(s, l->script[l->served].says,
                           strlen(l->script[l->served].says), deadline_in_ms(60000),
                           NULL);
        if (l->script[l->served].stays)
            l->held[l->served] = s;
        else
            rt_stream_close(&s);
        l->served++;
    }
}

static void
liar_run(struct liar *l, void (*ask)(struct liar *l, struct http_call_request *req))
{
    struct http_call_request req = request_to(l->rig, "GET", "/x");
    struct rt_group g;
    struct errbuf eb = {0};

    REQUIRE(rt_listen("127.0.0.1", 0, NULL, &l->listener, &eb) == ERR_OK);
    req.port = l->port = rt_listener_port(l->listener);
    rt_group_begin(&g);
    CHECK(rt_group_start(&g, lie, l) == ERR_OK);
    ask(l, &req);
    rt_group_cancel(&g);
    rt_group_join(&g);
    for (unsigned i = 0; i < ARRAY_LEN(l->held); i++)
        rt_stream_close(&l->held[i]);
    rt_listener_close(&l->listener);
}

static const struct {
    const char *says;
    bool stays;
    enum err want;
    const char *why;
} lies[] = {
    {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", false, ERR_INCOMPLETE,
     "in the middle of a body"},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n", false,
     ERR_INCOMPLETE, "in the middle of a body"},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", false,
     ERR_INCOMPLETE, "in the middle of a body"},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", true, ERR_BACKEND,
     "not hexadecimal"},
    {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nstall", true, ERR_TIMEOUT,
     "nothing came from"},
    {"HTTP/1.1 200 OK\r\nContent-Le", true, ERR_TIMEOUT, "no answer from"},
    {"HTTP/1.1 200 OK\r\nContent-Le", false, ERR_CLOSED, "before its answer"},
    {NULL, true, ERR_TIMEOUT, "no answer from"},
    {NULL, false, ERR_CLOSED, ""},
    {"220 mail.example ESMTP\r\n", true, ERR_BACKEND, "status line"},
    {"HTTP/1.1 200 OK\nContent-Length: 1\n\na", true, ERR_BACKEND, "without CR"},
    {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na", true,
     ERR_BACKEND, "twice"},
    {"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", true, ERR_BACKEND, "1xx"},
    {"HTTP/1.1 200 OK\r\n\r\nto the end", false, ERR_OK, ""},
    {"HTTP/1.1 103 Hints\r\nLink: a\r\n\r\nHTTP/1.1 102 P\r\n\r\nHTTP/1.1 200 "
     "OK\r\nContent-Length: 10\r\n\r\nto the"
     " end",
     true, ERR_OK, ""},
    {"HTTP/1.0 200 OK\r\nContent-Length: 10\r\n\r\nto the end, and more", true, ERR_OK,
     ""},
};

static unsigned lie_at;

static void
ask_liar(struct liar *l, struct http_call_request *req)
{
    struct errbuf eb = {0};
    struct http_client_stats stats;
    struct buf out;
    int status = 0;
    enum err rc;

    buf_init(&out, 1000);
    if (lies[lie_at].want == ERR_TIMEOUT && strstr(lies[lie_at].why, "no answer") != NULL)
        req->first_byte_ms = 200;
    else if (lies[lie_at].want == ERR_TIMEOUT)
        req->between_ms = 200;
    rc = http_call_simple(l->rig->client, req, SPAN(""), &status, &out, NULL, NULL, &eb);
    if (rc != lies[lie_at].want || strstr(eb.text, lies[lie_at].why) == NULL) {
        fprintf(stderr, "lie %u: %s \"%s\"\n", lie_at, err_name(rc), eb.text);
        CHECK(rc == lies[lie_at].want);
        CHECK_SAYS(eb.text, lies[lie_at].why);
    }
    if (rc == ERR_OK)
        CHECK(span_is(buf_span(&out), "to the end"));
    /* Only a whole answer with nothing behind it leaves a connection. */
    http_client_stats(l->rig->client, &stats);
    CHECK_U64(stats.connections,
              rc == ERR_OK && strstr(lies[lie_at].says, "Hints") != NULL);
    buf_fini(&out);
}

static void
lying(struct rig *rig)
{
    for (lie_at = 0; lie_at < ARRAY_LEN(lies); lie_at++) {
        struct liar l = {.rig = rig, .count = 1};

        l.script[0].says = lies[lie_at].says;
        l.script[0].stays = lies[lie_at].stays;
        liar_run(&l, ask_liar);
        http_client_free(&rig->client);
        REQUIRE(http_client_new(&rig->client_options, &rig->client, NULL) == ERR_OK);
    }
}

static void
test_servers_that_lie_stall_or_leave(void)
{
    rig_everywhere(&usual, lying);
}

/* The second call goes out on a connection that the server closes in that moment. */
static void
ask_twice(struct liar *l, struct http_call_request *req)
{
    struct http_client_stats stats;
    struct buf out;

    buf_init(&out, 1000);
    CHECK_U64(simple(l->rig, req, SPAN(""), &out), 200);
    CHECK(l->held[0] != NULL);
    http_client_stats(l->rig->client, &stats);
    CHECK_U64(stats.idle, 1);
    /* The end is on its way but has not been seen: nothing waits between this and the
     * call. */
    rt_stream_close(&l->held[0]);
    buf_clear(&out);
    CHECK_U64(simple(l->rig, req, SPAN(""), &out), 200);
    CHECK(span_is(buf_span(&out), "second"));
    http_client_stats(l->rig->client, &stats);
    CHECK_U64(stats.connects, 2);
    buf_fini(&out);
}

static void
stale(struct rig *rig)
{
    struct liar l = {.rig = rig, .count = 2};

    l.script[0].says = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst";
    l.script[0].stays = true;
    l.script[1].says = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond";
    liar_run(&l, ask_twice);
}

static void
test_a_stale_connection_is_replaced(void)
{
    rig_everywhere(&usual, stale);
}

/* The server takes the second request and closes without a word: once more for GET, an
 * error for POST. */
struct silent_second {
    struct rig *rig;
    struct listener *listener;
    unsigned requests;
};

static void
serve_silent_second(void *arg)
{
    struct silent_second *t = arg;

    for (;;) {
        static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        struct stream *s = NULL;

        if (rt_accept(t->listener, deadline_in_ms(60000), &s, NULL) != ERR_OK)
            return;
        for (unsigned i = 0; i < 2; i++) {
            if (!hear_request(s))
                break;
            t->requests++;
            if (i == 0)
                CHECK(rt_send(s, answer, sizeof answer - 1, deadline_in_ms(60000),
                              NULL) == ERR_OK);
        }
        rt_stream_close(&s);
    }
}

static void
repeats(struct rig *rig)
{
    struct silent_second t = {.rig = rig};
    struct http_client_stats stats;
    struct http_call_request req;
    struct rt_group g;
    struct buf out;

    buf_init(&out, 1000);
    REQUIRE(rt_listen("127.0.0.1", 0, NULL, &t.listener, NULL) == ERR_OK);
    rt_group_begin(&g);
    CHECK(rt_group_start(&g, serve_silent_second, &t) == ERR_OK);
    req = request_to(rig, "GET", "/x");
    req.port = rt_listener_port(t.listener);
    CHECK_U64(simple(rig, &req, SPAN(""), &out), 200);
    CHECK_U64(t.requests, 1);
    CHECK_U64(simple(rig, &req, SPAN(""), &out), 200);
    CHECK_U64(t.requests, 3); /* the silent one and its repetition */
    http_client_stats(rig->client, &stats);
    CHECK_U64(stats.retried, 1);
    req.method = "POST"; /* who knows whether it was done */
    CHECK(simple(rig, &req, SPAN(""), &out) == -(int)ERR_CLOSED);
    CHECK_U64(t.requests, 4);
    http_client_stats(rig->client, &stats);
    CHECK_U64(stats.retried, 1);
    rt_group_cancel(&g);
    rt_group_join(&g);
    rt_listener_close(&t.listener);
    buf_fini(&out);
}

static void
test_only_what_is_idempotent_is_sent_again(void)
{
    rig_everywhere(&usual, repeats);
}

static void
no_server(struct rig *rig)
{
    struct http_call_request req = request_to(rig, "GET", "/x");
    struct http_client_stats stats;
    struct listener *l = NULL;
    struct http_call *call;
    struct errbuf eb = {0};

    REQUIRE(rt_listen("127.0.0.1", 0, NULL, &l, NULL) == ERR_OK);
    req.port = rt_listener_port(l);
    rt_listener_close(&l);
    CHECK(http_call_begin(rig->client, &req, &call, &eb) == ERR_CLOSED);
    CHECK(call == NULL);
    CHECK_SAYS(eb.text, "connecting to 127.0.0.1");
    req.tls = true;
    CHECK(http_call_begin(rig->client, &req, &call, &eb) == ERR_BAD_REQUEST);
    CHECK_SAYS(eb.text, "no TLS");
    req.tls = false;
    req.port = rig->port;
    req.target = span_of("/a b");
    CHECK(http_call_begin(rig->client, &req, &call, &eb) == ERR_BAD_REQUEST);
    http_client_stats(rig->client, &stats);
    CHECK_U64(stats.connections, 0);
}

static void
no_answer(struct rig *rig)
{
    struct http_call_request req = request_to(rig, "GET", "/wait");
    struct http_client_stats stats;
    struct http_call *call;
    struct errbuf eb = {0};

    req.by = deadline_in_ms(100);
    CHECK(http_call_begin(rig->client, &req, &call, &eb) == ERR_OK);
    if (call != NULL) {
        const struct http_head *head;

        CHECK(http_call_finish(call, &head, &eb) == ERR_TIMEOUT);
        http_call_end(&call);
    }
    rt_cond_broadcast(&rig->release);
    http_client_stats(rig->client, &stats);
    CHECK_U64(stats.connections, 0);
}

static void
test_errors_that_say_what_was_wanted(void)
{
    rig_everywhere(&usual, no_server);
    rig_in_virtual_time(&usual, no_answer);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_a_connection_is_reused);
    RUN(test_calls_beyond_the_limit_wait_their_turn);
    RUN(test_idle_connections_go_when_either_side_has_had_enough);
    RUN(test_bodies_both_ways);
    RUN(test_an_answer_before_the_body_is_sent);
    RUN(test_the_limit_of_a_simple_call);
    RUN(test_servers_that_lie_stall_or_leave);
    RUN(test_a_stale_connection_is_replaced);
    RUN(test_only_what_is_idempotent_is_sent_again);
    RUN(test_errors_that_say_what_was_wanted);
    return check_done();
}
