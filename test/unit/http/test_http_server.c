/* The server as a client sees it: framing, keep-alive, pipelining, bodies both ways,
 * what a handler leaves undone, and its ends. On every engine. */
#include "unit/http/http_raw.h"
#include "unit/wire/http_framing_rows.h"

static const struct rig usual = {
    .options = {.header_ms = PATIENCE_MS, .idle_ms = PATIENCE_MS, .linger_ms = 200}};

static struct raw *
raw_new(struct rig *rig)
{
    struct raw *w = xcalloc(1, sizeof *w);

    w->s = raw_connect(rig);
    return w;
}

static void
raw_free(struct raw **wp)
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

/* ---- framing (promise S5) ---- */

static void
framing(struct rig *rig)
{
    struct buf body;

    buf_init(&body, 1u << 20);
    for (size_t i = 0; i < ARRAY_LEN(framing_rows); i++) {
        const struct framing_row *row = &framing_rows[i];
        struct raw *w = raw_new(rig);
        char *bytes = xmemdup0(row->bytes, row->len);
        char *path = strstr(bytes, " / HTTP/1.");
        unsigned handled = rig->handled;
        int got;

        REQUIRE(w->s != NULL);
        if (row->len > 0)
            raw_send(w->s, bytes, row->len);
        CHECK(rt_send_end(w->s, deadline_in_ms(60000)) == ERR_OK);
        got = raw_answer(
            w, path != NULL && path - bytes == 4 ? HTTP_METHOD_GET : HTTP_METHOD_POST,
            &body);
        if (got != row->want && !(row->want == 400 && got == 500)) {
            fprintf(stderr, "row %zu (%s): %d, wanted %d\n", i, row->reason, got,
                    row->want);
            CHECK(got == row->want);
        }
        /* A refused head never reaches a handler, a refused body ends in one; both
         * close. */
        if (row->want != 200)
            CHECK(raw_is_closed(w));
        if (row->want >= 400 &&
            strstr(row->bytes, "Transfer-Encoding: chunked\r\n\r\n") == NULL)
            CHECK(rig->handled == handled);
        free(bytes);
        raw_free(&w);
    }
    buf_fini(&body);
}

static void
test_framing_rows(void)
{
    rig_everywhere(&usual, framing);
}

/* ---- keep-alive, pipelining ---- */

static void
keep_alive(struct rig *rig)
{
    static const struct {
        const char *request;
        const char *connection; /* in the answer; NULL: none */
        bool closes;
    } rows[] = {
        {"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n", NULL, false},
        {"GET /1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "close", true},
        {"GET /1 HTTP/1.0\r\n\r\n", "close", true},
        {"GET /1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "keep-alive", false},
        {"GET /close HTTP/1.1\r\nHost: a\r\n\r\n", "close", true},
        {"GET /chunked/9 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "close", true},
        {"POST /deny HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", NULL, false},
        {"POST /deny HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
         "chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
         NULL, false},
        {"POST /deny HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\nhello",
         "close", true},
        {"POST /deny HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: "
         "100-continue\r\n\r\n",
         "close", true},
    };
    struct buf body;

    buf_init(&body, 1u << 20);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct raw *w = raw_new(rig);
        struct span said;

        REQUIRE(w->s != NULL);
        raw_send(w->s, rows[i].request, strlen(rows[i].request));
        CHECK(raw_answer(w, HTTP_METHOD_GET, &body) >= 200);
        said = http_get(&w->head, HTTP_CONNECTION);
        if (rows[i].connection == NULL)
            CHECK(said.at == NULL);
        else
            CHECK(span_is(said, rows[i].connection));
        if (rows[i].closes) {
            CHECK(raw_is_closed(w));
        } else {
            const char *again = "GET /2 HTTP/1.1\r\nHost: a\r\n\r\n";

            raw_send(w->s, again, strlen(again));
            CHECK(raw_answer(w, HTTP_METHOD_GET, &body) == 200);
            CHECK(span_is(buf_span(&body), "/2"));
        }
        raw_free(&w);
    }
    buf_fini(&body);
}

static void
test_keep_alive(void)
{
    rig_everywhere(&usual, keep_alive);
}

/* A hundred requests in one send, more than the buffer holds; answers in order,
 * nothing lost between a body and the next head. */
static void
pipelining(struct rig *rig)
{
    struct raw *w = raw_new(rig);
    struct buf all, body;

    REQUIRE(w->s != NULL);
    buf_init(&all, 1u << 20);
    buf_init(&body, 1u << 20);
    for (unsigned i = 0; i < 100; i++) {
        if (i % 3 == 0)
            buf_printf(&all, "GET /n/%u HTTP/1.1\r\nHost: a\r\nX-Pad: %0400d\r\n\r\n", i,
                       0);
        else if (i % 3 == 1)
            buf_printf(
                &all, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nnr%04u",
                i);
        else
            buf_printf(&all,
                       "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
                       "chunked\r\n\r\n2\r\nnr\r\n4\r\n%04u"
                       "\r\n0\r\nTrail: er\r\n\r\n",
                       i);
    }
    raw_send(w->s, all.at, all.len);
    for (unsigned i = 0; i < 100; i++) {
        char want[16];

        snprintf(want, sizeof want, i % 3 == 0 ? "/n/%u" : "nr%04u", i);
        CHECK_U64(raw_answer(w, HTTP_METHOD_GET, &body), 200);
        CHECK(span_is(buf_span(&body), want));
    }
    CHECK_U64(rig->handled, 100);
    CHECK_U64(rig->done, 100);
    buf_fini(&all);
    buf_fini(&body);
    raw_free(&w);
}

static void
test_pipelining_of_100(void)
{
    rig_everywhere(&usual, pipelining);
}

/* Heads longer than the buffer, byte by byte, and the longest there may be. */
static void
long_heads(struct rig *rig)
{
    struct raw *w = raw_new(rig);
    struct buf all, body;
    const char *slow = "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n";

    REQUIRE(w->s != NULL);
    buf_init(&all, 1u << 20);
    buf_init(&body, 1u << 20);
    for (unsigned round = 0; round < 2; round++) {
        buf_clear(&all);
        buf_puts(&all,
                 "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n");
        for (unsigned i = 0; i < 60; i++)
            buf_printf(&all, "X-%u: %01000d\r\n", i, 0);
        buf_puts(&all, "\r\n3\r\nabc\r\n0\r\n\r\nGET /after HTTP/1.1\r\nHost: a\r\n\r\n");
        raw_send(w->s, all.at, all.len);
        CHECK_U64(raw_answer(w, HTTP_METHOD_POST, &body), 200);
        CHECK(span_is(buf_span(&body), "abc"));
        CHECK_U64(raw_answer(w, HTTP_METHOD_GET, &body), 200);
        CHECK(span_is(buf_span(&body), "/after"));
    }
    for (const char *c = slow; *c != '\0'; c++) {
        raw_send(w->s, c, 1);
        rt_yield();
    }
    CHECK_U64(raw_answer(w, HTTP_METHOD_GET, &body), 200);
    CHECK(span_is(buf_span(&body), "/slow"));
    buf_fini(&all);
    buf_fini(&body);
    raw_free(&w);
}

static void
test_long_heads(void)
{
    rig_everywhere(&usual, long_heads);
}

/* ---- bodies ---- */

static void
expect_continue(struct rig *rig)
{
    struct raw *w = raw_new(rig);
    const char *head = "PUT /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: "
                       "100-continue\r\n\r\n";
    struct buf body;

    REQUIRE(w->s != NULL);
    buf_init(&body, 1u << 20);
    raw_send(w->s, head, strlen(head));
    CHECK_U64(raw_answer(w, HTTP_METHOD_PUT, &body), 100);
    raw_send(w->s, "hello", 5);
    CHECK_U64(raw_answer(w, HTTP_METHOD_PUT, &body), 200);
    CHECK(span_is(buf_span(&body), "hello"));
    /* Before an empty body as well: old botocore is confused without it. */
    head = "PUT /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nExpect: "
           "100-continue\r\n\r\n";
    raw_send(w->s, head, strlen(head));
    CHECK_U64(raw_answer(w, HTTP_METHOD_PUT, &body), 100);
    CHECK_U64(raw_answer(w, HTTP_METHOD_PUT, &body), 200);
    CHECK_U64(body.len, 0);
    head = "PUT /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: "
           "100-continue\r\n\r\n";
    /* Sent together: no client waits, so no 100 is owed. */
    buf_clear(&body);
    buf_puts(&body, head);
    buf_puts(&body, "world");
    raw_send(w->s, body.at, body.len);
    CHECK_U64(raw_answer(w, HTTP_METHOD_PUT, &body), 200);
    CHECK(span_is(buf_span(&body), "world"));
    /* Refused without a look at the body: the final status and nothing before it. */
    head = "PUT /deny HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: "
           "100-continue\r\n\r\n";
    raw_send(w->s, head, strlen(head));
    CHECK_U64(raw_answer(w, HTTP_METHOD_PUT, &body), 403);
    CHECK(raw_is_closed(w));
    buf_fini(&body);
    raw_free(&w);
}

static void
test_expect_continue(void)
{
    rig_everywhere(&usual, expect_continue);
}

static void
whole_bodies(struct rig *rig)
{
    static const struct {
        size_t size;
        bool chunked;
        int want;
        const char *says;
    } rows[] = {{0, false, 200, ""},
                {1000, false, 200, ""},
                {1001, false, 413, "a body of 1001 bytes, at most 1000"},
                {0, true, 200, ""},
                {1000, true, 200, ""},
                {1001, true, 413, "a body of more than 1000 bytes"}};
    char data[1001];
    struct buf all, body;

    buf_init(&all, 1u << 20);
    buf_init(&body, 1u << 20);
    pattern(data, 0, sizeof data);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct raw *w = raw_new(rig);

        REQUIRE(w->s != NULL);
        buf_clear(&all);
        buf_puts(&all, "PUT /all HTTP/1.1\r\nHost: a\r\n");
        if (!rows[i].chunked)
            buf_printf(&all, "Content-Length: %zu\r\n\r\n", rows[i].size);
        else
            buf_puts(&all, "Transfer-Encoding: chunked\r\n\r\n");
        if (rows[i].chunked && rows[i].size > 0)
            buf_printf(&all, "%zx\r\n", rows[i].size);
        buf_put(&all, data, rows[i].size);
        if (rows[i].chunked)
            buf_puts(&all, rows[i].size > 0 ? "\r\n0\r\n\r\n" : "0\r\n\r\n");
        raw_send(w->s, all.at, all.len);
        CHECK_U64(raw_answer(w, HTTP_METHOD_PUT, &body), rows[i].want);
        if (rows[i].want == 200) {
            CHECK_U64(body.len, rows[i].size);
            CHECK(body.len == 0 || memcmp(body.at, data, body.len) == 0);
        } else {
            buf_putc(&body, '\0');
            CHECK_STR(body.at, rows[i].says);
        }
        raw_free(&w);
    }
    buf_fini(&all);
    buf_fini(&body);
}

static void
test_a_body_in_one_piece_has_a_limit(void)
{
    rig_everywhere(&usual, whole_bodies);
}

static void
silent_answers(struct rig *rig)
{
    struct raw *w = raw_new(rig);
    const char *all = "HEAD /size/1234567 HTTP/1.1\r\nHost: a\r\n\r\nHEAD /x "
                      "HTTP/1.1\r\nHost: a\r\n\r\n"
                      "HEAD /chunked/5 HTTP/1.1\r\nHost: a\r\n\r\nGET /empty "
                      "HTTP/1.1\r\nHost: a\r\n\r\n"
                      "GET /end HTTP/1.1\r\nHost: a\r\n\r\n";
    struct buf body;

    REQUIRE(w->s != NULL);
    buf_init(&body, 1u << 20);
    raw_send(w->s, all, strlen(all));
    CHECK_U64(raw_answer(w, HTTP_METHOD_HEAD, &body), 200);
    CHECK(span_is(http_get(&w->head, HTTP_CONTENT_LENGTH), "1234567"));
    CHECK_U64(raw_answer(w, HTTP_METHOD_HEAD, &body), 200);
    CHECK(span_is(http_get(&w->head, HTTP_CONTENT_LENGTH), "2"));
    CHECK(http_get(&w->head, HTTP_DATE).len == 29);
    CHECK(http_has(&w->head, HTTP_SERVER));
    CHECK_U64(raw_answer(w, HTTP_METHOD_HEAD, &body), 200);
    CHECK_U64(raw_answer(w, HTTP_METHOD_GET, &body), 204);
    CHECK(!http_has(&w->head, HTTP_CONTENT_LENGTH));
    CHECK_U64(raw_answer(w, HTTP_METHOD_GET, &body), 200);
    CHECK(span_is(buf_span(&body), "/end"));
    buf_fini(&body);
    raw_free(&w);
}

static void
test_head_and_204_have_no_body(void)
{
    rig_everywhere(&usual, silent_answers);
}

/* What a handler leaves undone: no answer is 500, a short one a reset, and never a
 * whole-looking one. */
static void
undone(struct rig *rig)
{
    static const struct {
        const char *path;
        int want;
        bool closes;
    } rows[] = {{"/none", 500, false},
                {"/short", 0, true},
                {"/abort", 0, true},
                {"/old-abort", 0, true},
                {"/split", 500, false}};
    struct buf body;

    buf_init(&body, 1u << 20);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct raw *w = raw_new(rig);
        char request[100];

        REQUIRE(w->s != NULL);
        snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n",
                 rows[i].path);
        /* Without a length only a reset tells a cut from the end. */
        if (strcmp(rows[i].path, "/old-abort") == 0)
            snprintf(request, sizeof request, "GET /abort HTTP/1.0\r\n\r\n");
        raw_send(w->s, request, strlen(request));
        CHECK(raw_answer(w, HTTP_METHOD_GET, &body) == rows[i].want);
        CHECK(fields_get(http_fields(&w->head), "x-evil").at == NULL);
        if (rows[i].closes)
            CHECK(raw_is_closed(w));
        raw_free(&w);
        CHECK_U64(rig->done, i + 1);
        CHECK(rig->last_whole == (rows[i].want != 0));
    }
    buf_fini(&body);
}

static void
test_what_a_handler_leaves_undone(void)
{
    rig_everywhere(&usual, undone);
}

static void
client_leaves(struct rig *rig)
{
    struct raw *w = raw_new(rig);
    const char *half = "PUT /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\nhalf";
    const char *big = "GET /size/50000000 HTTP/1.1\r\nHost: a\r\n\r\n";

    REQUIRE(w->s != NULL);
    raw_send(w->s, half, strlen(half));
    raw_free(&w);
    for (unsigned i = 0; i < 30000 && rig->done < 1; i++)
        CHECK(rt_sleep_ms(2) == ERR_OK);
    CHECK_U64(rig->done, 1);
    CHECK(rig->last_error == ERR_INCOMPLETE);
    CHECK_U64(rig->last_status, 0);
    CHECK(!rig->last_whole);

    w = raw_new(rig);
    REQUIRE(w->s != NULL);
    raw_send(w->s, big, strlen(big));
    CHECK(raw_more(w) == ERR_OK);
    raw_free(&w);
    for (unsigned i = 0; i < 30000 && rig->done < 2; i++)
        CHECK(rt_sleep_ms(2) == ERR_OK);
    CHECK_U64(rig->done, 2);
    CHECK(rig->last_error == ERR_CLOSED);
    CHECK(!rig->last_whole);
}

static void
test_a_client_that_leaves(void)
{
    rig_everywhere(&usual, client_leaves);
}

/* ---- time (promise F7): only that of the case is short, or a machine that stands still ends what is not meant ---- */

static void
slow_head(struct rig *rig)
{
    struct raw *w = raw_new(rig);
    uint64_t from = rt_now_ns();
    struct buf body;

    REQUIRE(w->s != NULL);
    buf_init(&body, 1u << 20);
    /* A byte now and then does not help: the time is for the whole head. */
    for (const char *c = "GET /x HTTP/1.1\r\nHost: a\r\nA: bbbbbbbbbbbb"; *c != '\0';
         c++) {
        if (rt_send(w->s, c, 1, deadline_in_ms(60000), NULL) != ERR_OK)
            break;
        CHECK(rt_sleep_ms(10) == ERR_OK);
    }
    CHECK_U64(raw_answer(w, HTTP_METHOD_GET, &body), 408);
    CHECK(raw_is_closed(w));
    CHECK(rt_now_ns() - from >= 150000000u);
    CHECK_U64(rig->handled, 0);
    buf_fini(&body);
    raw_free(&w);
}

static void
test_a_slow_head_is_408(void)
{
    static const struct rig hasty = {
        .options = {.header_ms = 150, .idle_ms = PATIENCE_MS, .linger_ms = 50}};

    rig_everywhere(&hasty, slow_head);
}

/* What is to be aborted stays half; the other half comes late where it is waited for. */
static void
half_a_body(struct rig *rig, const char *path, int want)
{
    struct raw *w = raw_new(rig);
    char head[100];
    struct buf body;

    REQUIRE(w->s != NULL);
    buf_init(&body, 1u << 20);
    snprintf(head, sizeof head,
             "PUT %s HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc", path);
    raw_send(w->s, head, strlen(head));
    if (want == 200) {
        CHECK(rt_sleep_ms(300) == ERR_OK);
        raw_send(w->s, "def", 3);
    }
    CHECK_U64(raw_answer(w, HTTP_METHOD_PUT, &body), want);
    CHECK(rig->last_error == (want == 200 ? ERR_OK : ERR_TIMEOUT));
    buf_fini(&body);
    raw_free(&w);
}

static void
slow_body(struct rig *rig)
{
    half_a_body(rig, "/echo",
                400); /* beyond the grace, and the rate is a megabyte a second */
    half_a_body(rig, "/trust", 200); /* it has shown who it is */
}

static void
silent_body(struct rig *rig)
{
    half_a_body(rig, "/trust", 400); /* but not for ever */
}

static void
test_a_slow_body_and_a_trusted_one(void)
{
    static const struct rig slow = {.options = {.header_ms = PATIENCE_MS,
                                                .idle_ms = PATIENCE_MS,
                                                .body_grace_ms = 150,
                                                .body_rate = 1000000,
                                                .body_idle_ms = PATIENCE_MS,
                                                .linger_ms = 50}};
    struct rig silent = slow;

    rig_everywhere(&slow, slow_body);
    silent.options.body_idle_ms = 500;
    rig_everywhere(&silent, silent_body);
}

/* Nothing said: closed without a word after idle_ms. */
static void
idle(struct rig *rig)
{
    uint64_t from = rt_now_ns();
    struct raw *w = raw_new(rig);

    REQUIRE(w->s != NULL);
    CHECK(raw_is_closed(w));
    CHECK(rt_now_ns() - from >= 390000000u);
    if (rig->engine == RT_SIM)
        CHECK(rt_now_ns() - from < 500000000u);
    raw_free(&w);
}

/* Nothing taken: the answer is aborted after send_stall_ms. */
static void
stall(struct rig *rig)
{
    struct raw *w = raw_new(rig);

    REQUIRE(w->s != NULL);
    ask(w, "/size/50000000");
    while (rig->done < 1)
        CHECK(rt_sleep_ms(50) == ERR_OK);
    CHECK(rig->last_error == ERR_TIMEOUT);
    raw_free(&w);
}

static void
test_idle_connections_and_stalled_readers_end(void)
{
    static const struct rig idling = {
        .options = {.header_ms = PATIENCE_MS, .idle_ms = 400, .linger_ms = 50}};
    static const struct rig stalling = {.options = {.header_ms = PATIENCE_MS,
                                                    .idle_ms = PATIENCE_MS,
                                                    .send_stall_ms = 300,
                                                    .linger_ms = 50}};

    rig_everywhere(&idling, idle);
    rig_everywhere(&stalling, stall);
}

/* ---- limits ---- */

static const struct rig narrow = {
    .options = {
        .connections_max = 3, .requests_max = 1, .retry_after_s = 7, .linger_ms = 50}};

static void
too_many_requests(struct rig *rig)
{
    struct raw *a = raw_new(rig), *b = raw_new(rig);
    const char *put = "PUT /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nExpect: "
                      "100-continue\r\n\r\n";
    struct buf body;

    REQUIRE(a->s != NULL && b->s != NULL);
    buf_init(&body, 1u << 20);
    ask(a, "/wait");
    while (rig->waiting == 0)
        CHECK(rt_sleep_ms(1) == ERR_OK);
    ask(b, "/x");
    CHECK_U64(raw_answer(b, HTTP_METHOD_GET, &body), 503);
    CHECK(span_is(http_get(&b->head, HTTP_RETRY_AFTER), "7"));
    /* Probes are answered all the same, and a refusal does not cost the connection. */
    ask(b, "/_/livez");
    CHECK_U64(raw_answer(b, HTTP_METHOD_GET, &body), 200);
    /* Decided before the body: no 100 comes. */
    raw_send(b->s, put, strlen(put));
    CHECK_U64(raw_answer(b, HTTP_METHOD_PUT, &body), 503);
    rt_cond_broadcast(&rig->release);
    CHECK_U64(raw_answer(a, HTTP_METHOD_GET, &body), 200);
    ask(a, "/x");
    CHECK_U64(raw_answer(a, HTTP_METHOD_GET, &body), 200);
    buf_fini(&body);
    raw_free(&a);
    raw_free(&b);
}

static void
test_too_many_requests_are_503_before_the_body(void)
{
    rig_everywhere(&narrow, too_many_requests);
}

static void
too_many_connections(struct rig *rig)
{
    struct raw *w[4];
    struct buf body;

    buf_init(&body, 1u << 20);
    for (unsigned i = 0; i < 4; i++) {
        w[i] = raw_new(rig);
        REQUIRE(w[i]->s != NULL);
        ask(w[i], "/x");
        CHECK_U64(raw_answer(w[i], HTTP_METHOD_GET, &body), i < 3 ? 200 : 503);
    }
    CHECK(raw_is_closed(w[3]));
    for (unsigned i = 0; i < 4; i++)
        raw_free(&w[i]);
    buf_fini(&body);
}

static void
test_too_many_connections_are_told_503(void)
{
    rig_everywhere(&narrow, too_many_connections);
}

/* ---- the end ---- */

static void
drain_now(void *arg)
{
    struct rig *rig = arg;

    CHECK(http_server_drain(rig->server, deadline_in_ms(60000)));
    rig->bad_bodies = 99; /* over */
}

static void
draining(struct rig *rig)
{
    struct raw *busy = raw_new(rig), *idle = raw_new(rig), *late;
    struct rt_group g;
    struct buf body;

    REQUIRE(busy->s != NULL && idle->s != NULL);
    buf_init(&body, 1u << 20);
    ask(idle, "/x");
    CHECK_U64(raw_answer(idle, HTTP_METHOD_GET, &body), 200);
    ask(busy, "/wait");
    while (rig->waiting == 0)
        CHECK(rt_sleep_ms(1) == ERR_OK);
    rt_group_begin(&g);
    CHECK(rt_group_start(&g, drain_now, rig) == ERR_OK);
    CHECK(raw_is_closed(idle));
    /* The listener still answers, so that clients receive 503 and not a refused
     * connection. */
    late = raw_new(rig);
    REQUIRE(late->s != NULL);
    ask(late, "/x");
    CHECK_U64(raw_answer(late, HTTP_METHOD_GET, &body), 503);
    CHECK(http_has(&late->head, HTTP_RETRY_AFTER));
    CHECK(raw_is_closed(late));
    CHECK(rig->bad_bodies != 99);
    rt_cond_broadcast(&rig->release);
    CHECK_U64(raw_answer(busy, HTTP_METHOD_GET, &body), 200);
    CHECK(span_is(http_get(&busy->head, HTTP_CONNECTION), "close"));
    rt_group_join(&g);
    CHECK_U64(rig->bad_bodies, 99);
    raw_free(&busy);
    raw_free(&idle);
    raw_free(&late);
    buf_fini(&body);
}

static void
test_draining(void)
{
    rig_everywhere(&usual, draining);
}

/* Stopped in the middle of a request: cancelled, nothing left; the same port serves
 * again at once. */
static void
stopped_and_started(struct rig *rig)
{
    struct raw *w = raw_new(rig);
    struct http_handler h = {.handle = app_handle, .arg = rig};
    struct errbuf eb = {0};
    struct buf body;

    REQUIRE(w->s != NULL);
    buf_init(&body, 1u << 20);
    ask(w, "/wait");
    while (rig->waiting == 0)
        CHECK(rt_sleep_ms(1) == ERR_OK);
    http_server_stop(&rig->server);
    CHECK(rig->last_error == ERR_CANCELLED);
    CHECK_U64(raw_answer(w, HTTP_METHOD_GET, &body), 0);
    raw_free(&w);
    REQUIRE(http_server_new(&rig->options, &h, &rig->server, &eb) == ERR_OK);
    REQUIRE(http_server_listen(rig->server, "127.0.0.1", rig->port, NULL, NULL, &eb) ==
            ERR_OK);
    w = raw_new(rig);
    REQUIRE(w->s != NULL);
    ask(w, "/again");
    CHECK_U64(raw_answer(w, HTTP_METHOD_GET, &body), 200);
    raw_free(&w);
    buf_fini(&body);
}

static void
test_stopped_and_started_on_the_same_port(void)
{
    rig_everywhere(&usual, stopped_and_started);
}

static void
ids(struct rig *rig)
{
    struct raw *w = raw_new(rig);
    char seen[50][17];
    struct buf body;

    REQUIRE(w->s != NULL);
    buf_init(&body, 1u << 20);
    for (unsigned i = 0; i < 50; i++) {
        struct span id;

        ask(w, "/x");
        CHECK_U64(raw_answer(w, HTTP_METHOD_GET, &body), 200);
        id = fields_get(http_fields(&w->head), "x-id");
        REQUIRE(id.len == 16);
        memcpy(seen[i], id.at, 16);
        for (unsigned j = 0; j < i; j++)
            CHECK(memcmp(seen[i], seen[j], 16) != 0);
        if (rig->engine != RT_SIM)
            CHECK(span_starts(fields_get(http_fields(&w->head), "x-peer"),
                              SPAN("127.0.0.1:")));
    }
    buf_fini(&body);
    raw_free(&w);
}

static void
test_every_request_has_an_id(void)
{
    rig_everywhere(&usual, ids);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_framing_rows);
    RUN(test_keep_alive);
    RUN(test_pipelining_of_100);
    RUN(test_long_heads);
    RUN(test_expect_continue);
    RUN(test_a_body_in_one_piece_has_a_limit);
    RUN(test_head_and_204_have_no_body);
    RUN(test_what_a_handler_leaves_undone);
    RUN(test_a_client_that_leaves);
    RUN(test_a_slow_head_is_408);
    RUN(test_a_slow_body_and_a_trusted_one);
    RUN(test_idle_connections_and_stalled_readers_end);
    RUN(test_too_many_requests_are_503_before_the_body);
    RUN(test_too_many_connections_are_told_503);
    RUN(test_draining);
    RUN(test_stopped_and_started_on_the_same_port);
    RUN(test_every_request_has_an_id);
    return check_done();
}
