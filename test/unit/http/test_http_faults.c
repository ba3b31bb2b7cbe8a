/* An exchange in which every wait, one after the other, is cancelled or fails: of the
 * server, of the client, of the caller. Nothing leaks (ASan sees), nothing hangs,
 * no answer that looks whole is wrong, and the server ends with no connection left. */
#include "unit/http/http_rig.h"

/* At least so many waits the exchange has, whatever the pieces its bytes come in. */
#define WAITS_MIN 20
#define SEEDS     4

static char payload[150000];

/* An upload in chunks that waits for 100, and a download, on one connection. */
static void
exchange(struct rig *rig)
{
    struct http_call_request req = {.host = "127.0.0.1",
                                    .port = rig->port,
                                    .method = "PUT",
                                    .target = SPAN("/echo"),
                                    .length = HTTP_CHUNKED,
                                    .expect_continue = true,
                                    .by = deadline_in_ms(20000)};
    const struct http_head *head = NULL;
    struct http_call *call = NULL;
    struct errbuf eb = {0};
    struct buf out;
    int status = 0;
    size_t n = 1;
    enum err rc;

    buf_init(&out, 1u << 20);
    rc = http_call_begin(rig->client, &req, &call, &eb);
    for (size_t at = 0; rc == ERR_OK && at < sizeof payload; at += 50000)
        rc = http_call_write(call, payload + at, 50000, &eb);
    if (rc == ERR_OK)
        rc = http_call_finish(call, &head, &eb);
    while (rc == ERR_OK && n > 0) {
        char *to = buf_reserve(&out, 20000);

        REQUIRE(to != NULL);
        rc = http_call_read(call, to, 20000, &n, &eb);
        out.len += rc == ERR_OK ? n : 0;
    }
    CHECK((rc == ERR_OK) == (eb.text[0] == '\0'));
    if (rc == ERR_OK && head->code == 200) {
        CHECK_U64(out.len, sizeof payload);
        CHECK(memcmp(out.at, payload, sizeof payload) == 0);
    }
    http_call_end(&call);

    req.method = "GET";
    req.target = SPAN("/size/300000");
    req.length = HTTP_NO_BODY;
    req.expect_continue = false;
    buf_clear(&out);
    rc = http_call_simple(rig->client, &req, SPAN(""), &status, &out, NULL, NULL, &eb);
    if (rc == ERR_OK && status == 200)
        CHECK_U64(out.len, 300000);
    buf_fini(&out);
}

static void
fault_main(void *arg)
{
    struct rig *rig = arg;
    struct http_handler h = {.handle = app_handle, .on_done = app_done, .arg = rig};
    struct http_server_stats stats = {0};
    struct errbuf eb = {0};

    rt_cond_init(&rig->release);
    if (http_server_new(&rig->options, &h, &rig->server, &eb) == ERR_OK &&
        http_server_listen(rig->server, "127.0.0.1", 0, NULL, &rig->port, &eb) ==
            ERR_OK &&
        http_client_new(&rig->client_options, &rig->client, &eb) == ERR_OK)
        exchange(rig);
    http_client_free(&rig->client);
    if (rig->server != NULL) {
        (void)http_server_drain(rig->server, deadline_in_ms(1000));
        http_server_stats(rig->server, &stats);
        CHECK(stats.in_flight == 0 || rt_cancelled());
    }
    http_server_stop(&rig->server);
}

/* Runs the exchange with wait `nth` disturbed; returns the number of waits there were. */
static uint64_t
run_disturbed(uint64_t seed, uint64_t nth, enum err err, unsigned *handled)
{
    struct sim_options so = {.seed = seed, .calm = seed == 1, .max_delay_us = 100};
    struct sim *sim = sim_new(&so);
    struct rig rig = {.engine = RT_SIM,
                      .options = {.linger_ms = 100},
                      .client_options = {
                          .first_byte_ms = 5000, .between_ms = 5000, .continue_ms = 500}};
    struct errbuf eb = {0};
    uint64_t waits;

    if (nth > 0)
        sim_disturb_wait(sim, nth, err);
    CHECK(sim_run_world(sim, fault_main, &rig, &eb) == ERR_OK);
    waits = sim_waits(sim);
    *handled = rig.handled;
    CHECK_U64(rig.handled, rig.done);
    sim_free(&sim);
    return waits;
}

static void
disturb_every_wait(uint64_t seed, uint64_t *runs)
{
    static const enum err errs[] = {ERR_CANCELLED, ERR_TIMEOUT, ERR_CLOSED};
    unsigned handled;
    uint64_t waits = run_disturbed(seed, 0, ERR_OK, &handled);

    CHECK_U64(handled, 2);
    CHECK(waits >= WAITS_MIN);
    for (size_t e = 0; e < ARRAY_LEN(errs); e++) {
        for (uint64_t nth = 1; nth <= waits; nth++) {
            unsigned before = check_failures_;

            run_disturbed(seed, nth, errs[e], &handled);
            CHECK(handled <= 3);
            if (check_failures_ != before)
                fprintf(stderr, "  ... seed %llu, wait %llu, %s\n",
                        (unsigned long long)seed, (unsigned long long)nth,
                        err_name(errs[e]));
        }
        *runs += waits;
    }
    printf("seed %llu: %llu waits, each cancelled, out of time, cut off\n",
           (unsigned long long)seed, (unsigned long long)waits);
}

static void
test_every_wait_cancelled_and_failed(void)
{
    uint64_t runs = 0;

    pattern(payload, 0, sizeof payload);
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        disturb_every_wait(seed, &runs);
    printf("%llu disturbed exchanges\n", (unsigned long long)runs);
    CHECK(runs >= SEEDS * 3 * WAITS_MIN);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_every_wait_cancelled_and_failed);
    return check_done();
}
