/* Work dealt out to several loops: each part once, on its loop; one that fails ends the others with its own sentence; accelerators of
 * several loops read each file once. */
#include "bench/spread.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/mem.h"
#include "bench/accelerator.h"
#include "check.h"
#include "rt/fiber.h"
#include "rt/loop.h"

#define LOOPS 3u
#define PARTS 20u

struct seen {
    _Atomic unsigned runs, of[PARTS], wrong_loop, cancelled;
    unsigned fails; /* the part that does; PARTS: none */
};

static enum err
part(void *arg, unsigned i, struct errbuf *eb)
{
    struct seen *s = arg;

    s->runs++;
    s->of[i]++;
    s->wrong_loop += rt_loop_index() != i % LOOPS;
    if (i == s->fails)
        return err_set(eb, ERR_IO, "part %u fails", i);
    if (s->fails < PARTS && rt_sleep_ms(600000) == ERR_CANCELLED) {
        s->cancelled++;
        return ERR_CANCELLED;
    }
    return ERR_OK;
}

static void
run_parts(void *arg)
{
    struct seen *s = arg;
    struct errbuf eb = {{0}};
    enum err rc = spread_run(PARTS, LOOPS, part, s, &eb);

    CHECK(rc == (s->fails < PARTS ? ERR_IO : ERR_OK));
    if (rc != ERR_OK)
        CHECK_SAYS(eb.text, "part 7 fails");
}

static void
on_loops(fiber_fn *fn, void *arg)
{
    struct rt_options o = {.engine = RT_EPOLL, .loops = LOOPS};
    struct errbuf eb = {{0}};

    CHECK(rt_run(&o, fn, arg, &eb) == ERR_OK);
}

static void
test_each_part_once(void)
{
    struct seen s = {.fails = PARTS};

    on_loops(run_parts, &s);
    CHECK_U64(s.runs, PARTS);
    for (unsigned i = 0; i < PARTS; i++)
        CHECK_U64(s.of[i], 1);
    CHECK_U64(s.wrong_loop, 0);
}

static void
test_one_that_fails_ends_the_others(void)
{
    struct seen s = {.fails = 7};

    on_loops(run_parts, &s);
    CHECK_U64(s.cancelled + 1, s.runs);
}

/* ---- accelerators ---- */

#define FILES 500u

struct source {
    _Atomic unsigned of[FILES], loops[LOOPS];
};

static bool
all_have_fetched(const struct source *s)
{
    unsigned n = 0;

    for (unsigned i = 0; i < LOOPS; i++)
        n += s->loops[i] > 0;
    return n == LOOPS;
}

/* No loop takes all of the order before another one has begun. */
static enum err
fetch(void *arg, const struct train_piece *p, uint64_t *bytes, struct errbuf *eb)
{
    struct source *s = arg;
    enum err rc;

    (void)eb;
    s->of[p->file]++;
    s->loops[rt_loop_index()]++;
    *bytes = p->bytes;
    do {
        rc = rt_sleep_ms(1);
    } while (rc == ERR_OK && !all_have_fetched(s));
    return rc;
}

static void
train_on(void *arg)
{
    static struct train_file files[FILES];
    struct train_order order;
    struct train_options o = {.accelerators = 5,
                              .loops = LOOPS,
                              .readers = 2,
                              .prefetch = 2,
                              .batch = 4,
                              .step_ns = 1000000,
                              .order = &order,
                              .fetch = fetch,
                              .arg = arg};
    struct train_result *r = xcalloc(1, sizeof *r);
    struct errbuf eb = {{0}};

    for (unsigned i = 0; i < FILES; i++)
        files[i] = (struct train_file){.bytes = 10, .samples = 1};
    train_order_init(&order, files, FILES,
                     &(struct train_layout){.sample_bytes = 10, .request_bytes = 10}, 3);
    train_order_again(&order, true);
    CHECK(train_run(&o, r, &eb) == ERR_OK);
    CHECK_U64(r->requests, FILES);
    CHECK_U64(r->bytes, FILES * 10);
    CHECK_U64(r->took.total, FILES);
    CHECK(r->samples <= FILES && r->samples >= FILES - 5 * 3);
    CHECK(r->au > 0 && r->au <= 1 && r->au_least <= r->au);
    free(r);
}

static void
test_accelerators_of_several_loops_share_an_order(void)
{
    struct source s = {.of = {0}};

    on_loops(train_on, &s);
    for (unsigned i = 0; i < FILES; i++)
        CHECK_U64(s.of[i], 1);
    for (unsigned i = 0; i < LOOPS; i++)
        CHECK(s.loops[i] > 0);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_each_part_once);
    RUN(test_one_that_fails_ends_the_others);
    RUN(test_accelerators_of_several_loops_share_an_order);
    return check_done();
}
