/* What a GET of something small costs the disk: one read, and little more than the object. Protects the promise of 1.1
 * reads for each small GET, whatever the batches and heads of the log look like; and that no loop waits for the index. */
#include <errno.h>

#include "base/metrics.h"
#include "rt/test_hooks.h"
#include "store/core/core.h"
#include "store/index/index.h"
#include "store/index/index_resident.h"
#include "store/segment/segment.h"
#include "store/store.h"
#include "store/store_entry.h"
#include "store/store_options.h"
#include "store/store_read.h"
#include "store/store_write.h"
#include "world.h"

#define SIZE    4096
#define OBJECTS 48
#define MOST    (12u << 10) /* one read of a record of 5.5 KiB, to blocks of 4 KiB */

static char data[SIZE];

static const char *
key_of(unsigned i)
{
    static char key[32];

    snprintf(key, sizeof key, "train/%08u.bin", i);
    return key;
}

/* With so many bytes of metadata of the user's. */
static void
put(struct store *d, unsigned i, uint32_t meta_bytes)
{
    static char value[8192];
    struct object_pair pair = {.name = SPAN("note"), .value = {value, meta_bytes}};
    struct object_meta meta = {.mtime_ms = 1700000000123,
                               .user = meta_bytes > 0 ? &pair : NULL,
                               .user_count = meta_bytes > 0};
    struct store_key k = world_key(7, key_of(i));
    struct store_writer *w;
    struct errbuf eb = {0};

    memset(value, 'v', sizeof value);
    REQUIRE(store_write_begin(d, &k, STORE_NATIVE, SIZE, &w, &eb) == ERR_OK);
    CHECK(store_write(w, data, SIZE, &eb) == ERR_OK);
    CHECK(store_commit(&w, &meta, NULL, NULL, &eb) == ERR_OK);
}

static uint64_t
cost_of_get(struct store *d, unsigned i)
{
    int64_t before = metric_read(M_DISK_IO_BYTES, 0);

    CHECK(world_get(d, key_of(i), data, SIZE, 0, SIZE) == ERR_OK);
    return (uint64_t)(metric_read(M_DISK_IO_BYTES, 0) - before);
}

struct one {
    struct store *disk;
    unsigned number;
};

static void
put_one(void *arg)
{
    struct one *o = arg;

    put(o->disk, o->number, 0);
}

/* Each in a batch of its own, filled up to 4 KiB. */
static void
alone(void *arg)
{
    struct store *d = world_open(NULL);

    (void)arg;
    for (unsigned i = 0; i < OBJECTS; i++)
        put(d, i, 0);
    for (unsigned i = 0; i < OBJECTS; i++)
        CHECK(cost_of_get(d, i) <= MOST);
    store_close(&d);
}

/* Many in a batch, at any multiple of 512. */
static void
together(void *arg)
{
    struct store *d = world_open(NULL);
    struct one of[OBJECTS];
    struct rt_group batch;

    (void)arg;
    rt_group_begin(&batch);
    for (unsigned i = 0; i < OBJECTS; i++) {
        of[i] = (struct one){d, i};
        CHECK(rt_group_start(&batch, put_one, &of[i]) == ERR_OK);
    }
    rt_group_join(&batch);
    for (unsigned i = 0; i < OBJECTS; i++)
        CHECK(cost_of_get(d, i) <= MOST);
    store_close(&d);
}

/* Heads longer than most: found out once, by a second read. */
static void
long_heads(void *arg)
{
    static const uint32_t meta_bytes[] = {1500, 3000, 5000, 6900};
    struct store *d = world_open(NULL);

    (void)arg;
    for (unsigned m = 0; m < 4; m++) {
        uint64_t one_read = align_up(SIZE + meta_bytes[m] + 2048, 4096) + 4096;

        for (unsigned i = 0; i < OBJECTS; i++)
            put(d, m * OBJECTS + i, meta_bytes[m]);
        (void)cost_of_get(d, m * OBJECTS);
        for (unsigned i = 1; i < OBJECTS; i++)
            CHECK(cost_of_get(d, m * OBJECTS + i) <= one_read);
    }
    store_close(&d);
}

static void
test_one_read_for_each_get(void)
{
    world_run_loops(RT_EPOLL, 1, alone, NULL);
    world_run_loops(RT_AUTO, 1, alone, NULL);
    world_run_loops(RT_AUTO, 1, together, NULL);
    world_run_loops(RT_AUTO, 1, long_heads, NULL);
}

/* ---- what is in memory ---- */

#define LARGE (1500u << 10) /* five pieces, and most of a sixth */
#define HERE  (256u << 10)

static char large[LARGE];

/* Reads these bytes; `want` has a digit for each time that pieces were given: how many together. */
static void
given(struct store *d, uint64_t from, uint64_t to, unsigned want)
{
    struct store_key k = world_key(7, "large");
    struct store_reader *r;
    struct span pieces[1 + STORE_READ_MORE];
    struct errbuf eb = {0};
    struct entry entry;
    unsigned said = 0, n;

    REQUIRE(store_lookup(d, &k, &entry, &eb) == ERR_OK);
    REQUIRE(store_read_begin(d, &k, &entry, from, to - from, &r, &eb) == ERR_OK);
    for (;;) {
        REQUIRE(store_read_next(r, DEADLINE_NEVER, &pieces[0], &eb) == ERR_OK);
        if (pieces[0].len == 0)
            break;
        n = 1 + store_read_more(r, pieces + 1, STORE_READ_MORE);
        for (unsigned i = 0; i < n; i++) {
            CHECK(from + pieces[i].len <= to &&
                  memcmp(pieces[i].at, large + from, pieces[i].len) == 0);
            from += pieces[i].len;
        }
        said = said * 10 + n;
    }
    CHECK_U64(from, to);
    store_read_end(&r);
    CHECK_U64(said, want);
}

static void
in_memory(void *arg)
{
    struct store_options o = world_options();
    struct store *d;

    (void)arg;
    o.block_cache_bytes = MIB(32);
    d = world_open(&o);
    world_fill(large, LARGE, 3);
    CHECK(world_put(d, "large", large, LARGE, NULL) == ERR_OK);
    given(d, 0, LARGE, 111111); /* of the disk each comes by itself */
    given(d, HERE, HERE + 4, 1);
    given(d, HERE, 3 * HERE, 11); /* this is the second read of the third */
    given(d, HERE, 3 * HERE, 2);
    given(d, 0, LARGE, 12111); /* none of those behind was read twice before */
    given(d, 0, LARGE, 42);
    given(d, HERE / 2, 5 * HERE + 1, 42);
    given(d, HERE - 1, HERE, 1);
    given(d, HERE - 1, HERE + 1, 2);
    store_close(&d);
}

static void
test_what_is_in_memory_comes_together(void)
{
    world_run(in_memory, NULL);
}

static bool
is_resident(struct store *d)
{
    struct index_stat stat;

    index_stat(d->index, &stat);
    return stat.resident;
}

/* An index that is larger than what it was given is read by threads: no loop waits for a page of it. */
static void
index_beyond_memory(void *arg)
{
    struct store_options o = world_options();
    struct errbuf eb = {0};
    struct store *d;

    (void)arg;
    o.index_memory_bytes = 4096;
    d = world_open(&o);
    put(d, 0, 0);
    CHECK(store_flush(d, &eb) == ERR_OK);
    CHECK(!is_resident(d));
    CHECK(world_get(d, key_of(0), data, SIZE, 0, SIZE) == ERR_OK);
    store_close(&d);
    d = world_open(NULL);
    CHECK(is_resident(d));
    CHECK(world_get(d, key_of(0), data, SIZE, 0, SIZE) == ERR_OK);
    store_close(&d);
}

static void
test_an_index_beyond_memory_is_not_read_on_loops(void)
{
    world_run(index_beyond_memory, NULL);
}

/* ---- without a fiber ---- */

static unsigned long long
    away; /* pages: a bit for each of the first that is still to come */

static bool
is_away(uint64_t page)
{
    bool yes = page < 64 && (away >> page & 1) != 0;

    if (yes)
        away &= ~(1ull << page);
    return yes;
}

struct waits {
    struct store_async_read once;
    struct rt_cond cond;
    bool over, good;
};

static void
on_done(struct store_async_read *o, bool good)
{
    struct waits *w = CONTAINER_OF(o, struct waits, once);

    w->over = true;
    w->good = good;
    rt_cond_signal(&w->cond);
}

/* Reads key 0; `slot` of its disk. */
static bool
read_once(struct store *d, bool *good)
{
    struct store_key k = world_key(7, key_of(0));
    struct waits w = {.once = {.on_done = on_done, .slot = 5}};

    rt_cond_init(&w.cond);
    if (!store_async_read_begin(d, &k, &w.once))
        return false;
    while (!w.over)
        CHECK(rt_cond_wait(&w.cond, DEADLINE_NEVER) == ERR_OK);
    *good = w.good;
    CHECK(!w.good || (w.once.entry.place.disk == 5 && w.once.bytes.len == SIZE &&
                      memcmp(w.once.bytes.at, data, SIZE) == 0));
    store_async_read_end(&w.once);
    return true;
}

/* Pages of the index come first, one after the other; what cannot be read is for who waits in a fiber. */
static void
index_away_once(void *arg)
{
    struct store_options o = world_options();
    struct errbuf eb = {0};
    struct store *d;
    bool good = false;

    (void)arg;
    o.index_memory_bytes = 4096;
    d = world_open(&o);
    put(d, 0, 0);
    CHECK(store_flush(d, &eb) == ERR_OK);
    store_close(&d);
    d = world_open(&o);
    CHECK(!is_resident(d));
    index_resident_hook = is_away;
    away = ~0ull;
    rt_test_io()->error = EIO;
    rt_test_io()->count = UINT64_MAX;
    rt_test_io()->kinds = 1 << RT_IO_READ;
    CHECK(read_once(d, &good) && !good);
    rt_test_io()->kinds = 0;
    CHECK(__builtin_popcountll(~away) == 1);
    CHECK(read_once(d, &good) && good);
    CHECK(__builtin_popcountll(~away) >= 4); /* metas, and what leads to the entry */
    index_resident_hook = NULL;
    store_close(&d);
}

static void
test_what_is_away_of_the_index_is_read_without_a_fiber(void)
{
    world_run_loops(RT_AUTO, 1, index_away_once, NULL);
    world_run_loops(RT_EPOLL, 1, index_away_once, NULL);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_WARN);
    world_fill(data, sizeof data, 1);
    RUN(test_one_read_for_each_get);
    RUN(test_what_is_in_memory_comes_together);
    RUN(test_an_index_beyond_memory_is_not_read_on_loops);
    RUN(test_what_is_away_of_the_index_is_read_without_a_fiber);
    return check_done();
}
