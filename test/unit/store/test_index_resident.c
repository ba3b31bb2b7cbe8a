/* Look-ups of an index that is not in memory: LMDB touches no page but those that were asked for, what is away is brought by the
 * engine, and rows are the same as ever; damaged pages lead nowhere. Protects I5, and that no loop waits for the
 * index. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "rt/fiber.h"
#include "scratch.h"
#include "store/core/core.h"
#include "store/index/entry.h"
#include "store/index/find.h"
#include "store/index/index.h"
#include "store/index/index_internal.h"
#include "store/index/index_resident.h"
#include "store/index/memtable.h"
#include "store/index/run.h"
#include "store/record/keys.h"
#include "store/segment/segment.h"
#include "store/store_entry.h"

#define ROWS    30000u
#define BUCKETS 3u
#define PAGES   32768u
#define PAGE    4096u

static struct rt_dir *dir;
static struct index *x;
static struct memtable *nothing;
static bool asked[PAGES]; /* for, since all were shut */
static unsigned brought;

/* Of every length, so that leaves and branches hold few of them or many. */
static struct span
key_of(uint32_t n, char out[STORE_KEY_MAX])
{
    uint32_t mixed = n * 2654435761u;
    size_t len = (size_t)snprintf(out, 32, "%08x", mixed);

    memset(out + len, 'k', 400);
    return (struct span){out, len + mixed % 400};
}

static void
put_entries(uint32_t from, uint32_t to)
{
    struct index_checkpoint checkpoint = {.log[0].batch = to};
    struct run *r = run_new();
    struct memtable *t = memtable_new();
    struct errbuf eb = {0};
    struct frozen_runs b;

    for (uint32_t n = from; n < to; n++) {
        struct entry entry = {.version = {1, 1}, .size = n};
        char key[STORE_KEY_MAX];

        run_object(r, 1 + n % BUCKETS, key_of(n, key), &entry);
    }
    memtable_push(t, &r);
    REQUIRE(memtable_freeze(t, &b));
    CHECK(index_apply(x, &b, &checkpoint, &eb) == ERR_OK);
    memtable_thaw(t, &b);
    memtable_free(&t);
}

static void
begin(uint64_t memory_bytes)
{
    struct index_options o = {
        .disk_id = "disk", .map_bytes = PAGES * PAGE, .memory_bytes = memory_bytes};
    enum index_state state;
    struct index_checkpoint checkpoint;
    struct errbuf eb = {0};

    REQUIRE(rt_dir_open(scratch_path, &dir, &eb) == ERR_OK);
    o.dir = dir;
    REQUIRE(index_open(&o, &x, &state, &checkpoint, &eb) == ERR_OK);
    nothing = memtable_new();
    put_entries(0, ROWS / 2);
    put_entries(ROWS / 2, ROWS);
    REQUIRE(x->page_bytes == PAGE);
}

static void
end(void)
{
    index_resident_hook = NULL;
    memtable_free(&nothing);
    index_close(&x);
    rt_dir_close(&dir);
}

static enum err
get(uint32_t n, struct entry *entry, struct errbuf *eb)
{
    char key[STORE_KEY_MAX];

    return find_object(nothing, x, 1 + n % BUCKETS, key_of(n, key), false, entry, eb);
}

static void
forget_what_was_here(void)
{
    memset(x->readers[rt_loop_index()].here, 0, sizeof x->readers[0].here);
}

/* ---- only what was asked for ---- */

static char *
page_at(uint64_t page)
{
    return (char *)(uintptr_t)x->map + page * PAGE;
}

static void
shut_all(void)
{
    memset(asked, 0, sizeof asked);
    forget_what_was_here();
    REQUIRE(mprotect(page_at(0), x->map_len, PROT_NONE) == 0);
}

/* The first time it is away; who touches another page ends under the guard. */
static bool
away_once(uint64_t page)
{
    if (page >= PAGES || asked[page])
        return false;
    asked[page] = true;
    brought++;
    CHECK(mprotect(page_at(page), PAGE, PROT_READ) == 0);
    return true;
}

static void
only_what_was_asked(void *arg)
{
    struct errbuf eb = {0};
    unsigned most = 0;

    (void)arg;
    begin(PAGE);
    index_resident_hook = away_once;
    for (unsigned i = 0; i < 3000; i++) {
        uint32_t n = (uint32_t)(scratch_random() % (ROWS + ROWS / 4));
        struct entry entry;
        enum err rc;

        if (i % 3 != 2) /* else most of the way is here */
            shut_all();
        brought = 0;
        rc = get(n, &entry, &eb);
        CHECK(rc == (n < ROWS ? ERR_OK : ERR_NOT_FOUND));
        CHECK(rc != ERR_OK || entry.size == n);
        most = MAX(most, brought);
    }
    CHECK(most >= 7 &&
          most < 10); /* metas, the tree of trees, spaces, a tree of three or four */
    CHECK(!index_is_bad(x) && !atomic_load(&x->faulted));
    REQUIRE(mprotect(page_at(0), x->map_len, PROT_READ) == 0);
    end();
}

static void
test_only_what_was_asked_for_is_touched(void)
{
    scratch_run(1, only_what_was_asked, NULL);
}

/* ---- what does not come ---- */

static bool
away_always(uint64_t page)
{
    (void)page;
    brought++;
    return true;
}

/* The file cannot be read, or pages go as fast as they come: the pool is asked, as it was before. */
static void
does_not_come(void *arg)
{
    struct errbuf eb = {0};
    struct index_want want = {0};
    unsigned char value[VALUE_CODED_MAX];
    char key[STORE_KEY_MAX];
    struct entry entry;
    size_t len;

    (void)arg;
    begin(PAGE);
    brought = 0;
    index_resident_hook = away_always;
    CHECK(get(7, &entry, &eb) == ERR_OK && entry.size == 7);
    CHECK_U64(brought, 16);
    CHECK(index_find(x, TABLE_OBJECTS, 1 + 7 % BUCKETS, key_of(7, key), &want, value,
                     &len, &eb) == ERR_BUSY);
    CHECK(want.known && want.page == 0);
    rt_file_close(&x->pages);
    brought = 0;
    CHECK(get(8, &entry, &eb) == ERR_OK && entry.size == 8);
    CHECK_U64(brought, 1);
    end();
}

static void
test_what_does_not_come_is_asked_of_the_pool(void)
{
    scratch_run(1, does_not_come, NULL);
}

/* ---- what goes out of memory ---- */

static void
goes_out(void *arg)
{
    struct errbuf eb = {0};
    struct entry entry;
    unsigned looks = 0;

    (void)arg;
    begin(GIB(1));
    CHECK(atomic_load(&x->resident));
    for (uint32_t n = 0; n < 200; n++)
        CHECK(get(n, &entry, &eb) == ERR_OK && entry.size == n);
    CHECK(atomic_load(&x->resident)); /* of what is there nothing is said */
    memset(asked, 0, sizeof asked);
    forget_what_was_here();
    index_resident_hook = away_always;
    for (; looks < 100 && atomic_load(&x->resident); looks++)
        CHECK(get(looks, &entry, &eb) == ERR_OK && entry.size == looks);
    CHECK(looks > 0 && looks <= 32);
    index_resident_hook = NULL;
    CHECK(get(5, &entry, &eb) == ERR_OK && entry.size == 5);
    put_entries(ROWS, ROWS + 1);
    index_populate_behind(x);
    CHECK(!x->populating); /* not at once again */
    atomic_store(&x->away_ns, 1);
    index_populate_behind(x);
    CHECK(x->populating);
    put_entries(ROWS + 1, ROWS + 2); /* beside it */
    index_wait_populated(x, NULL);
    CHECK(atomic_load(&x->resident) && x->populated_bytes == atomic_load(&x->used_bytes));
    CHECK(get(ROWS + 1, &entry, &eb) == ERR_OK && entry.size == ROWS + 1);
    end();
}

static void
test_what_goes_out_of_memory_is_noticed(void)
{
    scratch_run(1, goes_out, NULL);
}

/* ---- what comes back ---- */

static _Atomic unsigned pieces, may_go; /* asked for; so many may be read */

/* On a worker. */
static void
hold_piece(void)
{
    unsigned mine = atomic_fetch_add(&pieces, 1) + 1;

    while (atomic_load(&may_go) < mine)
        usleep(1000);
}

static void
go_away_and_come(void)
{
    index_populate_piece = 64u << 10;
    index_on_populate = hold_piece;
    atomic_store(&pieces, 0);
    atomic_store(&may_go, 0);
    index_is_absent(x);
    atomic_store(&x->away_ns, 1);
    index_populate_behind(x);
    while (atomic_load(&pieces) == 0)
        rt_yield();
}

static void
let_one_go(void *arg)
{
    const struct index *closed = arg;

    CHECK(closed->populate_no_more); /* who closes it waits */
    atomic_store(&may_go, UINT32_MAX);
}

/* A disk that does not give a page holds up no batch and no look-up; who closes the index waits for that piece only. */
static void
comes_back(void *arg)
{
    uint32_t piece = index_populate_piece;
    struct rt_group batch;
    struct errbuf eb = {0};
    struct entry entry;
    uint64_t all;

    (void)arg;
    begin(GIB(1));
    go_away_and_come();
    put_entries(ROWS, ROWS + 500);
    CHECK(get(ROWS + 1, &entry, &eb) == ERR_OK && entry.size == ROWS + 1);
    CHECK(!atomic_load(&x->resident) && x->populating);
    CHECK_U64(atomic_load(&pieces), 1);
    atomic_store(&may_go, UINT32_MAX);
    index_wait_populated(x, NULL);
    all = atomic_load(&x->used_bytes);
    CHECK(atomic_load(&x->resident) && x->populated_bytes == all);
    CHECK_U64(atomic_load(&pieces),
              (all + index_populate_piece - 1) / index_populate_piece);
    CHECK(atomic_load(&pieces) > 20);

    go_away_and_come();
    rt_group_begin(&batch);
    REQUIRE(rt_group_start(&batch, let_one_go, x) == ERR_OK);
    end();
    rt_group_join(&batch);
    CHECK_U64(atomic_load(&pieces), 1);
    index_on_populate = NULL;
    index_populate_piece = piece;
}

static void
test_what_comes_back_is_in_nobodys_way(void)
{
    scratch_run(1, comes_back, NULL);
}

/* ---- damage ---- */

/* Bits of all pages, a few at a time: an entry is what it was, or an error. */
static void
damaged(void *arg)
{
    struct errbuf eb = {0};
    unsigned wrong = 0, failed = 0;
    char path[128];
    int fd;

    (void)arg;
    begin(PAGE);
    snprintf(path, sizeof path, "%s/index/data.mdb", scratch_path);
    fd = open(path, O_RDWR | O_CLOEXEC);
    REQUIRE(fd >= 0);
    for (unsigned round = 0; round < 600 && !atomic_load(&x->dead); round++) {
        uint64_t at =
            PAGE * 2 + scratch_random() % (atomic_load(&x->used_bytes) - PAGE * 2);
        uint32_t n = (uint32_t)(scratch_random() % ROWS);
        struct entry entry;
        unsigned char byte;
        enum err rc;

        if (round % 2 == 0)
            at = at / PAGE * PAGE + at % 64; /* heads and places */
        REQUIRE(pread(fd, &byte, 1, (off_t)at) == 1);
        byte ^= (unsigned char)(1u << (round % 8));
        REQUIRE(pwrite(fd, &byte, 1, (off_t)at) == 1);
        for (unsigned i = 0; i < 20; i++) {
            uint32_t k = (n + i * 997) % ROWS;

            rc = get(k, &entry, &eb);
            wrong += rc == ERR_OK && entry.size != k;
            failed += rc != ERR_OK;
        }
    }
    CHECK_U64(wrong, 0);
    CHECK(failed > 0);
    close(fd);
    end();
}

static void
test_damaged_pages_lead_nowhere(void)
{
    for (unsigned i = 0; i < 4; i++)
        scratch_run(1, damaged, NULL);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_only_what_was_asked_for_is_touched);
    RUN(test_what_does_not_come_is_asked_of_the_pool);
    RUN(test_what_goes_out_of_memory_is_noticed);
    RUN(test_what_comes_back_is_in_nobodys_way);
    RUN(test_damaged_pages_lead_nowhere);
    return check_done();
}
