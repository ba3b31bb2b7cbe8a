/* One disk, several loops: puts, overwrites, deletes, reads and listings from all of them at once; of N conditional
 * puts of one key exactly one wins. Protects V1, V3 and V4 on one disk; runs under TSan. */
#include <time.h>

#include "world.h"

#include "rt/fiber.h"
#include "rt/test_hooks.h"
#include "store/index/index_internal.h"
#include "store/store.h"
#include "store/store_entry.h"
#include "store/store_options.h"
#include "store/store_read.h"
#include "store/store_write.h"

#define LOOPS  3
#define FIBERS 4
#define ROUNDS 12
#define LARGE  (300u << 10)

static struct store *d;
static char *data; /* LARGE + 256 bytes */
static _Atomic unsigned wins, losses;

/* The body of version v of any key is data + v. */
static void
put_version(const char *key, unsigned v, uint64_t len)
{
    struct entry entry;

    CHECK(world_put_class(d, STORE_NATIVE, key, data + v, len, v % 2, NULL, &entry) ==
          ERR_OK);
}

/* Whole, and of one version: its first byte says which. */
static void
get_whole(const char *key)
{
    struct store_key k = world_key(7, key);
    struct entry entry;
    struct store_reader *r = NULL;
    struct errbuf eb = {0};
    struct span piece = {"", 0};
    uint64_t at = 0;
    unsigned version = 256;
    enum err rc = store_lookup(d, &k, &entry, &eb);

    if (rc == ERR_OK)
        rc = store_read_begin(d, &k, &entry, 0, entry.size, &r, &eb);
    if (rc == ERR_NOT_FOUND)
        return; /* deleted, or replaced between the two calls */
    while (rc == ERR_OK) {
        rc = store_read_next(r, DEADLINE_NEVER, &piece, &eb);
        if (rc != ERR_OK || piece.len == 0)
            break;
        for (unsigned v = 0; version == 256 && v < 256; v++) {
            if (memcmp(piece.at, data + v, piece.len) == 0)
                version = v;
        }
        CHECK(version < 256 && memcmp(piece.at, data + version + at, piece.len) == 0);
        at += piece.len;
    }
    CHECK(rc == ERR_OK && at == entry.size);
    store_read_end(&r);
}

static void
client(void *arg)
{
    unsigned n = *(unsigned *)arg;

    for (unsigned i = 0; i < ROUNDS; i++) {
        char key[32];
        struct errbuf eb = {0};
        bool existed;
        struct store_key k;

        snprintf(key, sizeof key, "key-%u", (n + i) % 5);
        k = world_key(7, key);
        put_version(key, (n * ROUNDS + i) % 256, i % 4 == 0 ? LARGE : 100 + i * 700);
        get_whole(key);
        if (i % 5 == 4)
            CHECK(store_delete(d, &k, STORE_NATIVE, NULL, &existed, &eb) == ERR_OK);
        snprintf(key, sizeof key, "key-%u", (n + i + 2) % 5);
        get_whole(key);
    }
}

static void
racer(void *arg)
{
    struct store_condition c = {.if_absent = true};

    (void)arg;
    for (unsigned i = 0; i < ROUNDS; i++) {
        char key[32];
        struct entry entry;
        enum err rc;

        snprintf(key, sizeof key, "race-%02u", i);
        rc = world_put_class(d, STORE_NATIVE, key, data, 50, true, &c, &entry);
        CHECK(rc == ERR_OK || rc == ERR_PRECONDITION);
        if (rc == ERR_OK)
            wins++;
        else
            losses++;
    }
}

static void
on_loop(void *arg)
{
    unsigned ids[FIBERS];
    struct rt_group g;

    rt_group_begin(&g);
    for (unsigned i = 0; i < FIBERS; i++) {
        ids[i] = *(unsigned *)arg * FIBERS + i;
        CHECK(rt_group_start(&g, client, &ids[i]) == ERR_OK);
        CHECK(rt_group_start(&g, racer, &ids[i]) == ERR_OK);
    }
    rt_group_join(&g);
}

struct job {
    unsigned loop;
};

static void
call_loop(void *arg)
{
    struct job *j = arg;

    CHECK(rt_call(j->loop, on_loop, &j->loop) == ERR_OK);
}

static void
all_loops(void *arg)
{
    struct store_options o = world_options();
    struct errbuf eb = {0};
    struct job jobs[LOOPS];
    struct rt_group g;

    (void)arg;
    o.owner_loop = 1;
    o.index_interval_ms = 5;
    o.block_cache_bytes = 4u << 20;
    CHECK(store_open(world_path, &o, &d, &eb) == ERR_OK);
    rt_group_begin(&g);
    for (unsigned i = 0; i < LOOPS; i++) {
        jobs[i] = (struct job){i};
        CHECK(rt_group_start(&g, call_loop, &jobs[i]) == ERR_OK);
    }
    rt_group_join(&g);
    CHECK_U64(wins, ROUNDS);
    CHECK_U64(losses, (LOOPS * FIBERS - 1) * ROUNDS);
    store_close(&d);
}

static void
test_clients_on_all_loops(void)
{
    for (unsigned i = 0; i < 2; i++) {
        wins = losses = 0;
        world_run_loops(i == 0 ? RT_EPOLL : RT_AUTO, LOOPS, all_loops, NULL);
    }
}

/* ---- a start that fails beside one's own work ---- */

static _Atomic unsigned pieces;

static void
slow_piece(void)
{
    struct timespec t = {.tv_nsec = 100000000};

    atomic_fetch_add(&pieces, 1);
    nanosleep(&t, NULL);
}

/* The start has failed by then. */
static void
until_a_piece_comes(enum point p)
{
    while (p == POINT_START_REPLAYED && atomic_load(&pieces) == 0)
        rt_yield();
}

/* A piece of the index is on its way into memory on the disk's loop while another loop learns that there are no logs. */
static void
fails_late(void *arg)
{
    struct store_options o = world_options();
    struct errbuf eb = {0};
    uint32_t before = index_populate_at_once;
    char command[600];

    (void)arg;
    o.owner_loop = 1;
    CHECK(store_open(world_path, &o, &d, &eb) == ERR_OK);
    put_version("kept", 1, 5000);
    store_close(&d);
    snprintf(command, sizeof command, "rm %s/native/log-* %s/.forebay/logs*", world_path,
             world_path);
    REQUIRE(system(command) == 0);
    index_populate_at_once = 0;
    index_on_populate = slow_piece;
    rt_test_on_point = until_a_piece_comes;
    CHECK(store_open(world_path, &o, &d, &eb) != ERR_OK);
    CHECK(strstr(eb.text, "log") != NULL);
    CHECK_U64(atomic_load(&pieces), 1);
    rt_test_on_point = NULL;
    index_on_populate = NULL;
    index_populate_at_once = before;
}

static void
test_a_start_that_fails_waits_for_its_index(void)
{
    world_run_loops(RT_AUTO, LOOPS, fails_late, NULL);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_WARN);
    data = malloc(LARGE + 256);
    world_fill(data, LARGE + 256, 1);
    RUN(test_clients_on_all_loops);
    RUN(test_a_start_that_fails_waits_for_its_index);
    free(data);
    return check_done();
}
