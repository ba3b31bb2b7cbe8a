/* The hasher: streams of one loop come out right whether they are alone or together, and a stream alone does not wait. */
#include "object/hasher.h"

#include "base/hash.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/num.h"
#include "check.h"
#include "rt/fiber.h"
#include "rt/loop.h"

enum { STREAMS = 40, PIECES = 5, PIECE = 3000 };

static struct object_service service;
static unsigned char data[STREAMS + PIECES * PIECE];
static unsigned switched; /* fibers that ran while another one hashed */

static void
want(unsigned i, size_t len, unsigned char out[16])
{
    unsigned char sum[DIGEST_MAX];

    digest_oneshot(DIGEST_MD5, data + i, len, sum);
    memcpy(out, sum, 16);
}

/* Stream i has the bytes from i on, i pieces fewer or more, and its last piece is odd. */
static void
stream(void *arg)
{
    unsigned i = *(unsigned *)arg, pieces = 1 + i % PIECES;
    size_t len = 0;
    struct md5 m;
    unsigned char got[16], wanted[16];

    switched++;
    md5_init(&m);
    for (unsigned p = 0; p < pieces; p++) {
        size_t n = p + 1 < pieces ? PIECE : PIECE - i;

        hasher_add(&service, &m, data + i + len, n, p + 1 < pieces ? NULL : got);
        len += n;
    }
    want(i, len, wanted);
    CHECK(memcmp(got, wanted, 16) == 0);
}

static void
many(void *arg)
{
    static unsigned numbers[STREAMS];
    struct rt_group g;
    int64_t before = metric_read(M_MD5_BYTES, 1);

    rt_group_begin(&g);
    for (unsigned i = 0; i < STREAMS; i++) {
        numbers[i] = i;
        if (rt_group_start(&g, stream, &numbers[i]) != ERR_OK)
            abort();
    }
    if (arg != NULL)
        rt_group_cancel(&g); /* sums are made all the same */
    rt_group_join(&g);
    CHECK(switched == STREAMS);
    switched = 0;
    CHECK(metric_read(M_MD5_BYTES, 1) > before);
    CHECK(service.hashing[0].jobs == NULL);
}

static void
alone(void *arg)
{
    int64_t before = metric_read(M_MD5_BYTES, 1);
    unsigned number = 17;

    (void)arg;
    stream(&number);
    CHECK(metric_read(M_MD5_BYTES, 1) == before);
    CHECK(service.hashing[0].jobs == NULL);
    switched = 0;
}

/* Stream i of those that lag: pieces of its own buffer, converged now and then; every fourth one is aborted halfway. */
static void
lagging_stream(void *arg)
{
    unsigned i = *(unsigned *)arg;
    size_t len = sizeof data - STREAMS - 100 * i, at = 0;
    struct hash_stream h;
    unsigned char got[16], wanted[16];

    switched++;
    hash_stream_begin(&service, &h);
    while (at < len) {
        size_t n = MIN(len - at, 700 + 31 * i);

        hash_stream_add(&service, &h, data + i + at, n);
        at += n;
        CHECK(h.len <= at);
        if (i % 4 == 3 && at > len / 2) {
            hash_stream_end(&h);
            hash_stream_end(&h);
            return;
        }
        if (i % 2 == 0 && h.len > 2000)
            hash_stream_drain(&service, &h, false);
        rt_yield();
    }
    hash_stream_drain(&service, &h, false);
    CHECK_U64(h.len, 0);
    md5_end(&h.md5, got);
    hash_stream_end(&h);
    want(i, len, wanted);
    CHECK(memcmp(got, wanted, 16) == 0);
}

static void
many_that_lag(void *arg)
{
    static unsigned numbers[STREAMS];
    struct rt_group g;

    rt_group_begin(&g);
    for (unsigned i = 0; i < STREAMS; i++) {
        numbers[i] = i;
        if (rt_group_start(&g, lagging_stream, &numbers[i]) != ERR_OK)
            abort();
    }
    if (arg != NULL)
        rt_group_cancel(&g);
    rt_group_join(&g);
    CHECK(switched == STREAMS);
    switched = 0;
    CHECK(list_empty(&service.hashing[0].lagging));
}

static void
one_that_could_lag(void *arg)
{
    struct hash_stream h, other;

    (void)arg;
    hash_stream_begin(&service, &h);
    hash_stream_add(&service, &h, data, PIECE);
    CHECK_U64(h.len, 0);
    hash_stream_begin(&service, &other);
    hash_stream_add(&service, &h, data + PIECE, PIECE);
    CHECK_U64(h.len, PIECE);
    hash_stream_end(&other);
    hash_stream_add(&service, &h, data + 2 * PIECE, PIECE); /* alone again */
    CHECK_U64(h.len, 0);
    hash_stream_end(&h);
}

/* Lays down its bytes in pieces, a turn each, and then wants its sum. */
static void
slow_stream(void *arg)
{
    unsigned i = *(unsigned *)arg;
    struct hash_stream h;

    hash_stream_begin(&service, &h);
    for (unsigned p = 0; p < i; p++)
        rt_yield();
    hash_stream_add(&service, &h, data, PIECE);
    hash_stream_drain(&service, &h, false);
    while (!list_empty(&service.hashing[0].lagging) && switched < STREAMS / 8)
        rt_yield(); /* as a put that is committed: it still counts among those that lag */
    hash_stream_end(&h);
    switched++;
}

static void
those_that_come_while_one_waits(void *arg)
{
    static unsigned numbers[STREAMS / 8];
    int64_t alone_before = metric_read(M_MD5_BYTES, 0);
    struct rt_group g;

    (void)arg;
    rt_group_begin(&g);
    for (unsigned i = 0; i < ARRAY_LEN(numbers); i++) {
        numbers[i] = i;
        if (rt_group_start(&g, slow_stream, &numbers[i]) != ERR_OK)
            abort();
    }
    for (unsigned i = 0; i < 100 && switched == 0; i++)
        rt_yield(); /* the loop has other work */
    switched = STREAMS / 8;
    rt_group_join(&g);
    switched = 0;
    CHECK_U64(metric_read(M_MD5_BYTES, 0), alone_before);
    CHECK(!service.hashing[0].led);
}

/* Wants its sum at once. */
static void
patient_stream(void *arg)
{
    struct hash_stream *h = arg;

    hash_stream_drain(&service, h, true);
    switched++;
}

#define PATIENT 6u /* and as many again, where one is not */

static void
begin_patient(struct hash_stream *h)
{
    for (unsigned i = 0; i < PATIENT; i++)
        hash_stream_begin(&service, &h[i]);
}

static void
end_patient(struct hash_stream *h)
{
    for (unsigned i = 0; i < 2 * PATIENT; i++)
        hash_stream_end(&h[i]);
    switched = 0;
    CHECK(!service.hashing[0].led);
}

/* The loop has nothing else to do but to look here: the first of six streams waits until three want their sums, or one
 * that is not patient does. */
static void
those_that_come_to_an_idle_loop(void *arg)
{
    int64_t alone_before = metric_read(M_MD5_BYTES, 0);
    bool hasty = arg != NULL;
    struct hash_stream h[2 * PATIENT] = {0};
    struct rt_group g;

    service.hashing[0].patience_ns = UINT64_MAX / 4;
    begin_patient(h);
    rt_group_begin(&g);
    for (unsigned i = 0; i < 2; i++) {
        hash_stream_add(&service, &h[i], data, PIECE);
        CHECK(rt_group_start(&g, patient_stream, &h[i]) == ERR_OK);
    }
    for (unsigned i = 0; i < 100; i++)
        rt_yield();
    CHECK(service.hashing[0].led);
    CHECK_U64(h[0].len, PIECE);
    CHECK_U64(h[1].len, PIECE);
    CHECK(switched == 0);
    hash_stream_add(&service, &h[2], data, PIECE);
    if (hasty) /* three of twelve are too few */
        begin_patient(h + PATIENT);
    hash_stream_drain(&service, &h[2], !hasty);
    rt_group_join(&g);
    CHECK_U64(h[0].len, 0);
    CHECK_U64(h[1].len, 0);
    CHECK_U64(h[2].len, 0);
    CHECK_U64(metric_read(M_MD5_BYTES, 0), alone_before);
    CHECK_U64(service.hashing[0].in_vain, 0);
    end_patient(h);
}

/* No other stream arrives: it is hashed alone, without waiting after the eighth time, until another stream arrives. */
static void
those_who_wait_in_vain(void *arg)
{
    struct hash_stream h[2 * PATIENT] = {0};

    (void)arg;
    service.hashing[0].patience_ns = 1000000;
    begin_patient(h);
    for (unsigned i = 0; i < 16; i++) {
        if (i == 9)
            service.hashing[0].patience_ns = UINT64_MAX / 4;
        hash_stream_add(&service, &h[0], data, PIECE);
        hash_stream_drain(&service, &h[0], true);
        CHECK_U64(h[0].len, 0);
        CHECK_U64(service.hashing[0].in_vain, i + 1);
    }
    service.hashing[0].in_vain = 0;
    end_patient(h);
}

static void
run(fiber_fn *fn, void *arg)
{
    struct rt_options o = {.engine = RT_EPOLL, .loops = 1, .workers = 1};
    struct errbuf eb = {{0}};

    CHECK(rt_run(&o, fn, arg, &eb) == ERR_OK);
}

static void
test_many_streams_at_once(void)
{
    run(many, NULL);
}

static void
test_cancelled_streams_are_summed_too(void)
{
    run(many, &service);
}

static void
test_a_stream_alone_is_hashed_at_once(void)
{
    run(alone, NULL);
}

static void
test_streams_that_lag(void)
{
    run(many_that_lag, NULL);
}

static void
test_cancelled_streams_that_lag(void)
{
    run(many_that_lag, &service);
}

static void
test_lanes_fill_while_there_is_other_work(void)
{
    run(those_that_come_while_one_waits, NULL);
}

static void
test_lanes_fill_while_the_loop_is_idle(void)
{
    run(those_that_come_to_an_idle_loop, NULL);
    run(those_that_come_to_an_idle_loop, &service);
}

static void
test_nobody_waits_again_where_nobody_came(void)
{
    run(those_who_wait_in_vain, NULL);
}

static void
test_a_stream_alone_never_lags(void)
{
    run(one_that_could_lag, NULL);
}

int
main(int argc, char **argv)
{
    struct hashing none;

    CHECK_MAIN(argc, argv);
    hashing_init(&none);
    service.hashing = &none;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 2654435761u >> 13);
    RUN(test_many_streams_at_once);
    RUN(test_cancelled_streams_are_summed_too);
    RUN(test_a_stream_alone_is_hashed_at_once);
    RUN(test_streams_that_lag);
    RUN(test_cancelled_streams_that_lag);
    RUN(test_a_stream_alone_never_lags);
    RUN(test_lanes_fill_while_there_is_other_work);
    RUN(test_lanes_fill_while_the_loop_is_idle);
    RUN(test_nobody_waits_again_where_nobody_came);
    return check_done();
}
