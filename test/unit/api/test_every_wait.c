/* A bucket made, an object put, read whole and in part, listed and deleted, through http, api, object and disk in one
 * simulated world, in which every wait, one after the other, is cancelled or fails. Nothing leaks (ASan sees),
 * nothing hangs, no answer that looks whole is wrong; what was acknowledged is there in the next world, and what was
 * not is there whole or not at all. Protects D1, D3. */
#include "base/log.h"
#include "rt/sim.h"
#include "unit/api/api_rig.h"

/* The waits of the exchange: a new one must change these on purpose. */
#define WAITS_WHOLE  288 /* messages that arrive as they were sent */
#define WAITS_PIECES 295 /* bytes in any pieces, as the seed says */
#define CALM         1 /* the seed whose bytes arrive as they were sent; others in any pieces */
#define BIG          300000
#define SMALL        1000

static char body[BIG];

struct life {
    bool put_big, put_small, deleted; /* acknowledged */
    bool open;
    unsigned answers;
};

static int
one(struct site *s, const char *method, const char *target, struct span sent,
    struct buf *out)
{
    struct ask q = {.method = method, .target = target, .body = sent};

    return site_ask(s, &q, out);
}

/* 200 is the right bytes, whatever else happened. */
static void
check_read(struct site *s, struct life *l, const char *target, size_t size)
{
    struct buf out;
    int status = one(s, "GET", target, (struct span){NULL, 0}, &out);

    if (status == 200) {
        CHECK_U64(out.len, size);
        CHECK(out.len == size && memcmp(out.at, body, size) == 0);
    }
    /* 408: the server's wait for the head of the request is out of time. */
    CHECK(status == 200 || status == 404 || status == 408 || status == 500 ||
          status == 503 || status == 0);
    l->answers += status == 200;
    buf_fini(&out);
}

static bool
change(struct site *s, struct life *l, const char *method, const char *target,
       struct span sent)
{
    struct buf out;
    int status = one(s, method, target, sent, &out);

    CHECK(status == 0 || status == 200 || status == 204 || status >= 400);
    l->answers += status == 200 || status == 204;
    buf_fini(&out);
    return status == 200 || status == 204;
}

static void
exchange(struct site *s, struct life *l)
{
    struct field range = {SPAN("range"), SPAN("bytes=100000-100009")};
    struct ask part = {
        .method = "GET", .target = "/made/big", .headers = &range, .header_count = 1};
    struct buf out;
    int status;

    change(s, l, "PUT", "/made", (struct span){"", 0});
    l->put_big = change(s, l, "PUT", "/made/big", (struct span){body, BIG});
    l->put_small = change(s, l, "PUT", "/made/small", (struct span){body, SMALL});
    check_read(s, l, "/made/big", BIG);
    status = site_ask(s, &part, &out);
    if (status == 206)
        CHECK(out.len == 10 && memcmp(out.at, body + 100000, 10) == 0);
    l->answers += status == 206;
    buf_fini(&out);
    status = one(s, "GET", "/made?list-type=2", (struct span){NULL, 0}, &out);
    if (status == 200 && l->put_big && l->put_small)
        CHECK(strstr(out.at, "<Key>big</Key>") != NULL &&
              strstr(out.at, "<Key>small</Key>") != NULL);
    l->answers += status == 200;
    buf_fini(&out);
    l->deleted = change(s, l, "DELETE", "/made/small", (struct span){NULL, 0});
}

static struct site
new_site(void)
{
    return (struct site){.path = "/disk",
                         .http_options = {.linger_ms = 100},
                         .client_options = {.first_byte_ms = 5000, .between_ms = 5000}};
}

static void
first_world(void *arg)
{
    struct life *l = arg;
    struct site s = new_site();

    l->open = site_open(&s) == ERR_OK;
    if (l->open)
        exchange(&s, l);
    site_close(&s);
}

/* Nothing disturbs this one: what was promised must hold. */
static void
second_world(void *arg)
{
    struct life *l = arg;
    struct site s = new_site();
    struct buf out;
    int status;

    s.epoch = 1;
    if (site_open(&s) != ERR_OK) {
        CHECK_STR(s.eb.text, "");
        site_close(&s);
        return;
    }
    status = one(&s, "GET", "/made/big", (struct span){NULL, 0}, &out);
    CHECK(l->put_big ? status == 200 : status == 200 || status == 404);
    if (status == 200)
        CHECK(out.len == BIG && memcmp(out.at, body, BIG) == 0);
    buf_fini(&out);
    status = one(&s, "GET", "/made/small", (struct span){NULL, 0}, &out);
    CHECK(l->deleted ? status == 404 : status == 200 || status == 404);
    if (status == 200)
        CHECK(out.len == SMALL && memcmp(out.at, body, SMALL) == 0);
    buf_fini(&out);
    site_close(&s);
}

/* Returns the number of waits there were. */
static uint64_t
run_disturbed(uint64_t seed, uint64_t nth, enum err err, struct life *l)
{
    struct sim_options o = {.seed = seed, .calm = seed == CALM, .max_delay_us = 100};
    struct sim *sim = sim_new(&o);
    struct errbuf eb = {{0}};
    uint64_t waits;

    *l = (struct life){0};
    if (nth > 0)
        sim_disturb_wait(sim, nth, err);
    CHECK(sim_run_world(sim, first_world, l, &eb) == ERR_OK);
    waits = sim_waits(sim);
    sim_disturb_wait(sim, 0, ERR_CANCELLED);
    CHECK(sim_run_world(sim, second_world, l, &eb) == ERR_OK);
    sim_free(&sim);
    return waits;
}

static void
disturb_every_wait(uint64_t seed, uint64_t want)
{
    static const enum err errs[] = {ERR_CANCELLED, ERR_TIMEOUT, ERR_IO};
    struct life l;
    uint64_t waits = run_disturbed(seed, 0, ERR_OK, &l), runs = 0;

    CHECK(l.open && l.put_big && l.put_small && l.deleted);
    CHECK_U64(l.answers, 7);
    CHECK_U64(waits, want);
    for (size_t e = 0; e < ARRAY_LEN(errs); e++) {
        for (uint64_t nth = 1; nth <= waits; nth++, runs++) {
            unsigned before = check_failures_;

            run_disturbed(seed, nth, errs[e], &l);
            if (check_failures_ != before)
                fprintf(stderr, "  ... seed %llu, wait %llu, %s\n",
                        (unsigned long long)seed, (unsigned long long)nth,
                        err_name(errs[e]));
        }
    }
    printf("seed %llu: %llu waits, each cancelled, out of time, failed: %llu worlds\n",
           (unsigned long long)seed, (unsigned long long)waits, (unsigned long long)runs);
    CHECK_U64(runs, waits * ARRAY_LEN(errs));
}

static void
test_every_wait_whole_messages(void)
{
    disturb_every_wait(CALM, WAITS_WHOLE);
}

static void
test_every_wait_bytes_in_any_pieces(void)
{
    disturb_every_wait(CALM + 1, WAITS_PIECES);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
    for (size_t i = 0; i < sizeof body; i++)
        body[i] = (char)('a' + i % 23);
    RUN(test_every_wait_whole_messages);
    RUN(test_every_wait_bytes_in_any_pieces);
    return check_done();
}
