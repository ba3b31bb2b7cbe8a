/* http_rig: a server with a small test application, a client, and raw connections, on
 * every engine. */
#pragma once
#include "check.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/num.h"
#include "http/client.h"
#include "http/server.h"
#include "rt/loop.h"
#include "rt/sim.h"
#include "rt/sync.h"

struct rig {
    enum rt_engine engine;
    struct http_server_options options;
    struct http_client_options client_options;
    struct http_server *server;
    struct http_client *client;
    uint16_t port;
    void (*body)(struct rig *rig);
    /* What the application and its hooks have seen. */
    unsigned handled, done, last_status, bad_bodies;
    bool last_whole;
    uint64_t last_in, last_out;
    enum err last_error;    /* of a read or write inside the handler */
    struct rt_cond release; /* wakes /wait */
    unsigned waiting;
    unsigned answered_inline, lent,
        released;       /* answers given without a fiber; of /lent/N: lent, given back */
    unsigned abandoned; /* of these */
    unsigned looked_ahead;      /* last steps of app_ahead() */
    struct http_request *later; /* of /later/N: waits for app_later() */
};

/* ---- the application ---- */

static void
pattern(char *at, uint64_t from, size_t len)
{
    for (size_t i = 0; i < len; i++)
        at[i] = (char)('a' + (from + i) % 23);
}

static uint64_t
number_behind(struct span path, const char *prefix)
{
    uint64_t n = 0;

    if (num_u64(span_from(path, strlen(prefix)), &n) != ERR_OK)
        return 0;
    return n;
}

/* /echo: the body comes back as it comes, chunked when it came so. One that is all here is taken from where it lies. */
static void
app_echo(struct http_request *r, struct rig *rig)
{
    char piece[5000];
    size_t n = 1;
    struct span here;
    struct buf all;

    buf_init(&all, 64u << 20);
    if (http_body_here(r, &here)) {
        CHECK_U64(here.len, (uint64_t)http_body_length(r));
        buf_put_span(&all, here);
        CHECK(!http_body_here(r, &here));
    }
    while (n > 0) {
        rig->last_error = http_body_read(r, piece, sizeof piece, &n, NULL);
        if (rig->last_error != ERR_OK)
            break;
        buf_put(&all, piece, n);
    }
    if (rig->last_error == ERR_TIMEOUT || rig->last_error == ERR_BAD_REQUEST)
        (void)http_reply(r, 400, SPAN("bad body"));
    if (rig->last_error == ERR_OK && http_body_length(r) == HTTP_CHUNKED) {
        REQUIRE(http_reply_begin(r, 200, HTTP_CHUNKED) == ERR_OK);
        for (size_t at = 0; at < all.len; at += 3000)
            rig->last_error = http_reply_write(r, all.at + at, MIN(3000, all.len - at));
        (void)http_reply_end(r);
    } else if (rig->last_error == ERR_OK) {
        (void)http_reply(r, 200, buf_span(&all));
    }
    if (rig->last_error != ERR_OK)
        rig->bad_bodies++;
    buf_fini(&all);
}

/* /size/N: N bytes in pieces of 10,000; /chunked/N the same without a length. */
static void
app_size(struct http_request *r, struct rig *rig, uint64_t size, bool chunked)
{
    static _Thread_local char piece[10000];

    if (http_reply_begin(r, 200, chunked ? HTTP_CHUNKED : (int64_t)size) != ERR_OK)
        return;
    for (uint64_t at = 0; at < size && rig->last_error == ERR_OK; at += sizeof piece) {
        size_t n = MIN(sizeof piece, size - at);

        pattern(piece, at, n);
        rig->last_error = http_reply_write(r, piece, n);
    }
    if (rig->last_error == ERR_OK)
        rig->last_error = http_reply_end(r);
}

/* /lent/N: N bytes in two pieces, which are given back; an odd N in one that has room in front, or, every second time, too little of it. */
struct lent {
    struct rig *rig;
    char bytes[];
};

static void
app_release(void *arg)
{
    struct lent *l = arg;

    l->rig->released++;
    free(l);
}

static void
app_lend(struct http_request *r, struct rig *rig)
{
    bool later = span_starts(r->head->path, SPAN("/later/"));
    size_t size = number_behind(r->head->path, later ? "/later/" : "/lent/");
    size_t room = size % 4 == 1 ? 4096 : size % 4 == 3 ? 10 : 0;
    size_t first = room > 0 ? size : size / 3;
    struct lent *l = xmalloc(sizeof *l + room + size);
    char *at = l->bytes + room;
    struct span pieces[] = {{at, first}, {at + first, size - first}};

    l->rig = rig;
    rig->lent++;
    pattern(at, 0, size);
    http_reply_headroom(r, room);
    rig->last_error =
        http_reply_zero_copy(r, 200, pieces, room > 0 ? 1 : 2, app_release, l);
}

static void
app_abandon(struct http_request *r)
{
    struct rig *rig = r->user;

    CHECK(rig->later == r && rt_self() != NULL);
    rig->later = NULL;
    rig->abandoned++;
}

/* Each request comes step by step, all steps before the question. */
static void
app_ahead(struct http_request *r, unsigned step, void *arg)
{
    struct rig *rig = arg;

    CHECK(rt_self() == NULL && !r->tried);
    CHECK_U64(r->handler_hash, step);
    r->handler_hash = step + 1;
    rig->looked_ahead += step + 1 == HTTP_PREFETCH_STEPS;
}

static bool
app_try_inline(struct http_request *r, void *arg)
{
    struct rig *rig = arg;

    CHECK(rt_self() == NULL && !r->tried);
    CHECK(r->handler_hash == 0 || r->handler_hash == HTTP_PREFETCH_STEPS);
    if (span_starts(r->head->path, SPAN("/later/")) && rig->later == NULL) {
        rig->later = r;
        r->user = rig;
        http_defer(r, app_abandon);
        return true;
    }
    if (!span_starts(r->head->path, SPAN("/lent/")))
        return false;
    rig->answered_inline++;
    app_lend(r, rig);
    return true;
}

/* What waits is answered now, or given to the handler. */
static inline void
app_later(struct rig *rig, bool answered)
{
    struct http_request *r = rig->later;

    rig->later = NULL;
    if (answered)
        app_lend(r, rig);
    http_deferred_done(r, answered);
}

static void
app_handle(struct http_request *r, void *arg)
{
    struct rig *rig = arg;
    struct span path = r->head->path;

    rig->handled++;
    rig->last_error = ERR_OK;
    if (span_is(path, "/echo") || (span_is(path, "/") && http_body_length(r) != 0)) {
        app_echo(r, rig);
    } else if (span_is(path, "/trust")) {
        http_body_trust(r);
        app_echo(r, rig);
    } else if (span_starts(path, SPAN("/size/"))) {
        app_size(r, rig, number_behind(path, "/size/"), false);
    } else if (span_starts(path, SPAN("/chunked/"))) {
        app_size(r, rig, number_behind(path, "/chunked/"), true);
    } else if (span_is(path, "/all")) { /* at most 1,000 bytes, in one piece */
        struct errbuf eb = {0};
        struct span body;

        rig->last_error = http_body_all(r, 1000, &body, &eb);
        (void)http_reply(r,
                         rig->last_error == ERR_OK          ? 200
                         : rig->last_error == ERR_TOO_LARGE ? 413
                                                            : 400,
                         rig->last_error == ERR_OK ? body : span_of(eb.text));
    } else if (span_starts(path, SPAN("/lent/")) || span_starts(path, SPAN("/later/"))) {
        app_lend(r, rig);
    } else if (span_is(path, "/short")) {
        if (http_reply_begin(r, 200, 100) == ERR_OK)
            rig->last_error = http_reply_write(r, "only this", 9);
    } else if (span_is(path, "/abort")) {
        if (http_reply_begin(r, 200, HTTP_CHUNKED) == ERR_OK)
            rig->last_error = http_reply_write(r, "some", 4);
        http_reply_abort(r);
    } else if (span_is(path, "/none")) {
        return;
    } else if (span_is(path, "/deny")) {
        (void)http_reply(r, 403, SPAN("denied"));
    } else if (span_is(path, "/empty")) {
        (void)http_reply(r, 204, SPAN(""));
    } else if (span_is(path, "/split")) {
        http_header(r, "X-Value", SPAN("a\r\nX-Evil: b"));
        rig->last_error = http_reply(r, 200, SPAN("never"));
    } else if (span_is(path, "/close")) {
        http_reply_close_after(r);
        (void)http_reply(r, 200, SPAN("bye"));
    } else if (span_starts(path, SPAN("/sleep/"))) { /* so many milliseconds */
        rig->last_error = rt_sleep_ms(number_behind(path, "/sleep/"));
        if (rig->last_error == ERR_OK)
            (void)http_reply(r, 200, r->head->target);
    } else if (span_is(path, "/wait")) {
        rig->waiting++;
        rig->last_error = rt_cond_wait(&rig->release, DEADLINE_NEVER);
        rig->waiting--;
        if (rig->last_error == ERR_OK)
            (void)http_reply(r, 200, SPAN("waited"));
    } else if (span_is(path, "/last")) {
        rig->waiting++;
        rig->last_error = rt_cond_wait(&rig->release, DEADLINE_NEVER);
        rig->waiting--;
        if (rig->last_error == ERR_OK)
            rig->last_error = http_reply_last(r, 204);
    } else {
        http_header(r, "X-Id", span_of(r->id));
        http_headerf(r, "X-Peer", "%s %d", r->peer, r->is_loopback);
        (void)http_reply(r, 200, r->head->target);
    }
}

static void
app_done(struct http_request *r, const struct http_done *d, void *arg)
{
    struct rig *rig = arg;

    (void)r;
    rig->done++;
    rig->last_status = (unsigned)d->status;
    rig->last_whole = d->whole;
    rig->last_in = d->bytes_in;
    rig->last_out = d->bytes_out;
    CHECK(d->first_byte_ns <= d->duration_ns);
}

static inline bool
app_is_vital(const struct http_head *head, void *arg)
{
    (void)arg;
    return span_is(head->path, "/_/livez");
}

/* ---- running ---- */

static inline void
rig_main(void *arg)
{
    struct rig *rig = arg;
    struct http_handler h = {.handle = app_handle,
                             .prefetch = app_ahead,
                             .try_inline = app_try_inline,
                             .on_done = app_done,
                             .is_vital = app_is_vital,
                             .arg = rig};
    struct errbuf eb = {0};

    rt_cond_init(&rig->release);
    REQUIRE(http_server_new(&rig->options, &h, &rig->server, &eb) == ERR_OK);
    REQUIRE(http_server_listen(rig->server, "127.0.0.1", 0, NULL, &rig->port, &eb) ==
            ERR_OK);
    REQUIRE(http_client_new(&rig->client_options, &rig->client, &eb) == ERR_OK);
    rig->body(rig);
    http_client_free(&rig->client);
    http_server_stop(&rig->server);
    CHECK(rig->server == NULL);
}

/* Runs `body` with a fresh server on one engine. False: the engine is not to be had
 * here. */
static inline bool
rig_run(struct rig *rig, enum rt_engine engine, void (*body)(struct rig *rig))
{
    struct rt_options o = {.engine = engine, .loops = 1};
    struct errbuf eb = {0};
    enum err rc;

    rig->engine = engine;
    rig->body = body;
    if (engine == RT_SIM) {
        struct sim_options so = {.seed = 7, .max_delay_us = 200};
        struct sim *sim = sim_new(&so);

        rc = sim_run_world(sim, rig_main, rig, &eb);
        sim_free(&sim);
    } else {
        rc = rt_run(&o, rig_main, rig, &eb);
    }
    if (rc != ERR_OK)
        printf("SKIPPED on %s: %s\n", rt_engine_name(engine), eb.text);
    return rc == ERR_OK;
}

/* Where time itself is looked at: on the real engines a machine that stands still would be taken for a slow client. */
static inline void
rig_in_virtual_time(const struct rig *like, void (*body)(struct rig *rig))
{
    struct rig rig = *like;

    CHECK(rig_run(&rig, RT_SIM, body));
}

static const enum rt_engine rig_engines[] = {RT_EPOLL, RT_URING, RT_SIM};

static inline void
rig_everywhere(const struct rig *like, void (*body)(struct rig *rig))
{
    const char *only = getenv("FOREBAY_TEST_ENGINE"); /* to look at one by itself */
    unsigned ran = 0;

    for (size_t i = 0; i < ARRAY_LEN(rig_engines); i++) {
        struct rig rig = *like;
        unsigned before = check_failures_;

        if (only != NULL && strcmp(only, rt_engine_name(rig_engines[i])) != 0)
            continue;
        ran += rig_run(&rig, rig_engines[i], body);
        if (check_failures_ != before)
            fprintf(stderr, "  ... on %s\n", rt_engine_name(rig_engines[i]));
    }
    CHECK(ran >= 1);
}
