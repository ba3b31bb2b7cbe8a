/* Listings over memtable and index: batches skipped by seeking, deletions that hide, pages that end where they say. And
 * with rows on their way from memtable to index while another loop reads: nothing is ever in neither. */
#include <stdatomic.h>

#include "base/mem.h"
#include "scratch.h"
#include "store/index/find.h"
#include "store/index/index.h"
#include "store/index/list.h"
#include "store/index/memtable.h"
#include "store/index/run.h"
#include "store/store_entry.h"

static struct rt_dir *dir;
static struct memtable *memtable;
static struct index *idx;
static uint64_t counter;

static void
open_all(void)
{
    struct index_options o = {.disk_id = "disk", .map_bytes = MIB(256)};
    struct index_checkpoint checkpoint;
    enum index_state state;
    struct errbuf eb = {0};

    REQUIRE(rt_dir_open(scratch_path, &dir, &eb) == ERR_OK);
    o.dir = dir;
    memtable = memtable_new();
    REQUIRE(index_open(&o, &idx, &state, &checkpoint, &eb) == ERR_OK);
}

static void
close_all(void)
{
    index_close(&idx);
    memtable_free(&memtable);
    rt_dir_close(&dir);
}

static void
flush(void)
{
    struct index_checkpoint checkpoint = {0};
    struct errbuf eb = {0};
    struct frozen_runs b;

    if (!memtable_freeze(memtable, &b))
        return;
    REQUIRE(index_apply(idx, &b, &checkpoint, &eb) == ERR_OK);
    memtable_drop(memtable, &b);
}

static void
add(struct run *r, const char *key, bool deleted)
{
    struct entry entry = {.version = {1, ++counter},
                          .flags = deleted ? ENTRY_TOMBSTONE : 0};

    run_object(r, 1, span_of(key), &entry);
}

static void
put(const char *key, bool deleted)
{
    struct run *r = run_new();

    add(r, key, deleted);
    memtable_push(memtable, &r);
}

static char *
listed(const char *after, bool inclusive, uint32_t max, bool *more)
{
    static char text[512];
    struct arena *a = arena_new(KIB(16), MIB(1));
    struct store_entry *e;
    struct errbuf eb = {0};
    uint32_t count;
    size_t n = 0;

    text[0] = '\0';
    CHECK(list_objects(memtable, idx, 1, span_of(after), inclusive, max, a, &e, &count,
                       more, &eb) == ERR_OK);
    for (uint32_t i = 0; i < count; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%.*s", i > 0 ? " " : "",
                              SPAN_ARG(e[i].key));
    arena_free(&a);
    return text;
}

#define MANY 100000

static void
fill(uint32_t from, uint32_t to)
{
    while (from < to) {
        struct run *r = run_new();
        char key[64];

        for (uint32_t i = 0; i < 1000 && from < to; i++, from++) {
            snprintf(key, sizeof key, "train/class-%03u/sample-%06u.jpg", from / 1000,
                     from);
            add(r, key, false);
        }
        memtable_push(memtable, &r);
        flush();
    }
}

/* Rows of the index that a page of 1,000 behind the nth key looks at. */
static uint64_t
cost_of_page(uint32_t n)
{
    struct arena *a = arena_new(KIB(16), MIB(4));
    uint64_t before = index_entries_walked;
    struct store_entry *e;
    struct errbuf eb = {0};
    uint32_t count;
    char after[64];
    bool more;

    snprintf(after, sizeof after, "train/class-%03u/sample-%06u.jpg", n / 1000, n);
    CHECK(list_objects(memtable, idx, 1, span_of(after), false, 1000, a, &e, &count,
                       &more, &eb) == ERR_OK &&
          count == 1000);
    arena_free(&a);
    return index_entries_walked - before;
}

/* A page costs what stands on it, wherever it begins and however large the bucket is: counted, not timed. */
static void
cost(void *arg)
{
    uint64_t small;

    (void)arg;
    open_all();
    fill(0, 2000);
    small = cost_of_page(500);
    CHECK(small >= 1000 && small < 1100);
    fill(2000, MANY);
    for (uint32_t n = 500; n < MANY - 1000; n += 9500)
        CHECK(cost_of_page(n) <= small);
    close_all();
}

static void
pages(void *arg)
{
    bool more;

    (void)arg;
    open_all();
    CHECK_STR(listed("", true, 5, &more), "");
    CHECK(!more);
    put("b", false);
    put("d", false);
    put("f", false);
    flush();
    put("a", false);
    put("c", false);
    put("d", true); /* in the memtable, hides the entry of the index */
    put("x", true); /* never was */
    CHECK_STR(listed("", true, 10, &more), "a b c f");
    CHECK(!more);
    CHECK_STR(listed("", true, 4, &more),
              "a b c f"); /* a tombstone behind is not "more" */
    CHECK(!more);
    CHECK_STR(listed("", true, 3, &more), "a b c");
    CHECK(more);
    CHECK_STR(listed("c", false, 3, &more), "f");
    CHECK(!more);
    CHECK_STR(listed("c", true, 1, &more), "c");
    CHECK(more);
    CHECK_STR(listed("d", true, 3, &more), "f");
    CHECK_STR(listed("bb", false, 3, &more), "c f");
    CHECK_STR(listed("f", false, 3, &more), "");
    CHECK(!more);
    CHECK_STR(listed("", true, 0, &more), "");
    CHECK(more);
    put("d", false);
    flush();
    put("f", true);
    CHECK_STR(listed("", true, 10, &more), "a b c d");
    flush();
    CHECK_STR(listed("", true, 10, &more), "a b c d");
    close_all();
}

static void
test_pages(void)
{
    scratch_run(1, pages, NULL);
}

/* The first key behind everything that begins with `batch`: its last byte raised. */
static void
batches(void *arg)
{
    char seen[256] = "", key[64];
    struct arena *a = arena_new(KIB(16), MIB(1));
    struct errbuf eb = {0};
    unsigned seeks = 0;

    (void)arg;
    open_all();
    for (unsigned g = 0; g < 5; g++) {
        struct run *r = run_new();

        for (unsigned i = 0; i < 400; i++) {
            snprintf(key, sizeof key, "dir%u/%u", g, i);
            add(r, key, false);
        }
        memtable_push(memtable, &r);
        if (g % 2 == 0)
            flush();
    }
    put("dir1", false);
    put("zz", false);
    for (char after[64] = "";;) { /* as a listing with delimiter '/' does */
        struct store_entry *e;
        uint32_t count;
        const char *slash;
        bool more;

        arena_reset(a);
        REQUIRE(list_objects(memtable, idx, 1, span_of(after), true, 1, a, &e, &count,
                             &more, &eb) == ERR_OK);
        seeks++;
        if (count == 0)
            break;
        snprintf(key, sizeof key, "%.*s", SPAN_ARG(e[0].key));
        slash = strchr(key, '/');
        if (slash != NULL)
            key[slash - key + 1] = '\0';
        strcat(strcat(seen, key), " ");
        snprintf(after, sizeof after, "%s", key);
        if (slash != NULL)
            after[slash - key]++;
        else
            strcat(after, "\1"); /* keys have no byte 1 here */
    }
    arena_free(&a);
    CHECK_STR(seen, "dir0/ dir1 dir1/ dir2/ dir3/ dir4/ zz ");
    CHECK_U64(seeks, 8);
    close_all();
}

static void
test_groups(void)
{
    scratch_run(1, batches, NULL);
}

/* Thousands of deletions before the first living key: several rounds, one answer. */
static void
many_tombstones(void *arg)
{
    struct run *r = run_new();
    char key[32];
    bool more;

    (void)arg;
    open_all();
    for (unsigned i = 0; i < 3000; i++) {
        snprintf(key, sizeof key, "k%05u", i);
        add(r, key, false);
    }
    memtable_push(memtable, &r);
    flush();
    r = run_new();
    for (unsigned i = 0; i < 3000; i++) {
        snprintf(key, sizeof key, "k%05u", i);
        if (i != 2500)
            add(r, key, true);
    }
    memtable_push(memtable, &r);
    CHECK_STR(listed("", true, 5, &more), "k02500");
    CHECK(!more);
    flush();
    CHECK_STR(listed("", true, 5, &more), "k02500");
    close_all();
}

static void
test_many_tombstones(void)
{
    scratch_run(1, many_tombstones, NULL);
}

/* ---- two loops ---- */

#define STABLE 300u
static _Atomic uint64_t
    acknowledged[STABLE]; /* the version that any later lookup must at least see */
static _Atomic bool over;
static _Atomic unsigned rounds;

static void
reader(void *arg)
{
    struct arena *a = arena_new(KIB(64), MIB(4));

    (void)arg;
    while (!over) {
        struct errbuf eb = {0};
        struct store_entry *e;
        char after[32] = "";
        unsigned seen = 0, n;
        bool more = true;

        for (unsigned i = 0; i < 20; i++) {
            unsigned k = (unsigned)(rt_now_ns() / 64 % STABLE);
            uint64_t least = acknowledged[k];
            char key[32];
            struct entry entry;

            snprintf(key, sizeof key, "stable%04u", k);
            REQUIRE(find_object(memtable, idx, 1, span_of(key), false, &entry, &eb) ==
                    ERR_OK);
            CHECK(entry.version.counter >= least);
        }
        while (more) {
            uint32_t count;

            arena_reset(a);
            REQUIRE(list_objects(memtable, idx, 1, span_of(after), false, 70, a, &e,
                                 &count, &more, &eb) == ERR_OK);
            REQUIRE(count > 0 || !more);
            for (uint32_t i = 0; i < count; i++) {
                CHECK(span_cmp(e[i].key, span_of(after)) > 0);
                snprintf(after, sizeof after, "%.*s", SPAN_ARG(e[i].key));
                if (sscanf(after, "stable%u", &n) == 1)
                    CHECK_U64(n, seen++);
            }
        }
        CHECK_U64(seen, STABLE);
        rounds++;
        rt_yield();
    }
    arena_free(&a);
}

static void
call_reader(void *arg)
{
    (void)arg;
    CHECK(rt_call(1, reader, NULL) == ERR_OK);
}

static void
put_stable(unsigned k, struct run *r)
{
    char key[32];

    snprintf(key, sizeof key, "stable%04u", k);
    add(r, key, false);
}

static void
on_their_way(void *arg)
{
    struct rt_group batch;
    struct run *r = run_new();

    (void)arg;
    open_all();
    for (unsigned k = 0; k < STABLE; k++)
        put_stable(k, r);
    memtable_push(memtable, &r);
    rt_group_begin(&batch);
    REQUIRE(rt_group_start(&batch, call_reader, NULL) == ERR_OK);
    for (unsigned turn = 0; turn < 300 || rounds < 20; turn++) {
        unsigned k = (unsigned)(scratch_random() % STABLE);
        char passing[32];

        r = run_new();
        put_stable(k, r);
        snprintf(passing, sizeof passing, "stab%05u",
                 (unsigned)(scratch_random() % 1000));
        add(r, passing, scratch_random() % 2 == 0);
        memtable_push(memtable, &r);
        acknowledged[k] = counter - 1;
        if (turn % 4 == 0)
            flush();
        rt_yield();
    }
    over = true;
    rt_group_join(&batch);
    close_all();
}

static void
test_entries_in_flight_are_never_missed(void)
{
    scratch_run(2, on_their_way, NULL);
    CHECK(rounds >= 20);
}

static void
test_a_page_costs_what_stands_on_it(void)
{
    scratch_run(1, cost, NULL);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_pages);
    RUN(test_groups);
    RUN(test_many_tombstones);
    RUN(test_a_page_costs_what_stands_on_it);
    RUN(test_entries_in_flight_are_never_missed);
    return check_done();
}
