/* A turn that takes too long is counted where it belongs, and the log names what ran. Protects "no turn of a loop over
 * 50 ms" of the disk's trouble: without the figure it would be invisible. */
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/metrics.h"
#include "engines.h"

static uint64_t
count_of(const char *family)
{
    struct buf text;
    const char *at;
    uint64_t n = UINT64_MAX;

    buf_init(&text, 1u << 20);
    metrics_write(&text);
    buf_put(&text, "", 1);
    at = strstr(text.at, family);
    CHECK(at != NULL);
    if (at != NULL)
        n = strtoull(at + strlen(family), NULL, 10);
    buf_fini(&text);
    return n;
}

static void
spin(uint64_t ms)
{
    uint64_t until = rt_now_ns() + ms * 1000000;

    while (rt_now_ns() < until)
        ;
}

static void
dig(void *arg)
{
    (void)arg;
    rt_doing("digging");
    spin(150);
}

static void
busy_fiber(void *arg)
{
    (void)arg;
    CHECK(rt_spawn(dig, NULL) == ERR_OK);
    /* Both ways a turn can end: into the next one, and into a sleep. */
    for (unsigned i = 0; i < 4; i++)
        rt_yield();
    CHECK(rt_spawn(dig, NULL) == ERR_OK);
    while (count_of("forebay_loop_turn_seconds_bucket{loop=\"0\",le=\"+Inf\"} ") <
           count_of("forebay_loop_turn_seconds_bucket{loop=\"0\",le=\"0.1\"} ") + 2)
        CHECK(rt_sleep_ms(1) == ERR_OK);
    CHECK(count_of("forebay_loop_turn_seconds_count{loop=\"0\"} ") > 4);
}

static void
run(enum rt_engine engine)
{
    struct rt_options o = {.engine = engine, .loops = 1, .turn_limit_ms = 100};
    struct errbuf eb = {0};
    enum err rc = rt_run(&o, busy_fiber, NULL, &eb);

    if (engine == RT_URING && strstr(eb.text, "Function not implemented") != NULL)
        return;
    CHECK(rc == ERR_OK);
}

/* What the log says goes to stderr: read back through a pipe. */
static void
test_a_long_turn_is_counted_and_named(void)
{
    int to[2], kept = dup(2);
    char said[8192];
    ssize_t n;

    CHECK(pipe(to) == 0);
    CHECK(dup2(to[1], 2) == 2);
    run(RT_EPOLL);
    run(RT_URING);
    CHECK(dup2(kept, 2) == 2);
    close(to[1]);
    n = read(to[0], said, sizeof said - 1);
    said[n > 0 ? n : 0] = '\0';
    close(to[0]);
    close(kept);
    CHECK_SAYS(said, "loop.slow_turn");
    CHECK_SAYS(said, "longest=digging");
    CHECK_SAYS(said, "at=test_watchdog+0x");
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_a_long_turn_is_counted_and_named);
    return check_done();
}
