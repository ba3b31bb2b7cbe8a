/* Versions of one key are prepared and decided from one loop while others look it up: what they see only rises, is whole,
 * and a version that was decided before the look-up began is seen. Protects V1 and V3 for copies; runs under TSan. */
#include "replicas.h"

#include "rt/fiber.h"

#define LOOPS  3
#define ROUNDS 60

static struct store *d;
static _Atomic uint64_t decided;
static _Atomic bool over;

static void
writer(void *arg)
{
    (void)arg;
    for (uint8_t n = 1; n <= ROUNDS; n++) {
        uint64_t len = n % 7 == 0 ? 300000 : 1000;

        CHECK(copies_prepare(d, "key", n, n, len) == ERR_OK);
        CHECK(replicas_prepared(d, "key"));
        CHECK(copies_prepare(d, "other", (uint8_t)(n + 100), 0, 10) == ERR_OK);
        if (n % 5 == 0) {
            CHECK(replicas_abort_prepared(d, "key", n) == ERR_OK);
        } else {
            CHECK(replicas_commit_prepared(d, "key", n, n) == ERR_OK);
            atomic_store(&decided, n);
        }
        if (n % 2 == 0)
            CHECK(replicas_abort_prepared(d, "other", (uint8_t)(n + 100)) == ERR_OK);
    }
    CHECK(!replicas_prepared(d, "key") && replicas_prepared(d, "other"));
    atomic_store(&over, true);
}

static void
reader(void *arg)
{
    struct store_key k = world_key(7, "key");
    uint64_t last = 0;

    (void)arg;
    while (!atomic_load(&over)) {
        uint64_t least = atomic_load(&decided);
        struct errbuf eb = {0};
        struct entry entry;
        enum err rc = store_lookup(d, &k, &entry, &eb);

        CHECK(rc == ERR_OK || (rc == ERR_NOT_FOUND && least == 0));
        if (rc == ERR_OK) {
            CHECK(entry.version.counter >= least && entry.version.counter >= last);
            CHECK_U64(entry.content.bytes[15], entry.version.counter);
            CHECK(entry.version.counter % 5 != 0);
            last = entry.version.counter;
        }
        rt_yield();
    }
}

static void
call_writer(void *arg)
{
    (void)arg;
    CHECK(rt_call(1, writer, NULL) == ERR_OK);
}

static void
call_reader(void *arg)
{
    CHECK(rt_call(*(unsigned *)arg, reader, NULL) == ERR_OK);
}

static void
all_loops(void *arg)
{
    static unsigned loops[LOOPS] = {0, 1, 2};
    struct store_options o = world_options();
    struct rt_group g;

    (void)arg;
    o.index_interval_ms = 3;
    o.owner_loop = 0;
    d = copies_open_with(o);
    atomic_store(&decided, 0);
    atomic_store(&over, false);
    rt_group_begin(&g);
    for (unsigned i = 0; i < LOOPS; i++)
        CHECK(rt_group_start(&g, call_reader, &loops[i]) == ERR_OK);
    CHECK(rt_group_start(&g, call_writer, NULL) == ERR_OK);
    rt_group_join(&g);
    copies_close(&d);
}

static void
test_readers_on_all_loops(void)
{
    for (unsigned i = 0; i < 2; i++)
        world_run_loops(i == 0 ? RT_EPOLL : RT_AUTO, LOOPS, all_loops, NULL);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
    copies_data = malloc(COPIES_DATA);
    world_fill(copies_data, COPIES_DATA, 1);
    RUN(test_readers_on_all_loops);
    free(copies_data);
    return check_done();
}
