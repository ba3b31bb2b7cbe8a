/* meta: the embedded store: conditions, lists, revisions that only grow, and all of it after a restart. */
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "check.h"
#include "rt/loop.h"
#include "unit/meta/suite.h"

static char folder[] = "/tmp/fb-meta-XXXXXX";

static struct meta *
open_meta(void)
{
    struct errbuf eb = {{0}};
    struct rt_dir *dir = NULL;
    struct meta *m = NULL;

    CHECK(rt_dir_open(folder, &dir, &eb) == ERR_OK);
    CHECK(meta_open_embedded(dir, &m, &eb) == ERR_OK);
    rt_dir_close(&dir);
    return m;
}

static void
world(void *arg)
{
    struct arena *a = arena_new(4096, 1u << 20);
    struct meta *m = open_meta();
    struct errbuf eb = {{0}};
    struct meta_pair pair = {0};
    uint64_t before = 0, after = 0;

    (void)arg;
    suite_all(m, false);
    CHECK(suite_put(m, "kept", "value", META_ANY, &before) == ERR_OK);
    meta_close(&m);
    m = open_meta();
    CHECK(meta_get(m, SPAN("kept"), a, &pair, &eb) == ERR_OK);
    CHECK(span_is(pair.value, "value") && pair.revision == before);
    CHECK(suite_put(m, "kept", "more", before, &after) == ERR_OK);
    CHECK(after > before);
    meta_close(&m);
    arena_free(&a);
}

static void
fill(struct meta *m)
{
    static char value[META_VALUE_MAX];
    struct errbuf eb = {{0}};

    for (unsigned i = 0; i < 20; i++) {
        char key[32];
        struct meta_change c = {.value = {value, sizeof value}, .if_revision = META_ANY};

        snprintf(key, sizeof key, "f/%u", i);
        c.key = span_of(key);
        CHECK(meta_apply(m, &c, 1, NULL, &eb) == ERR_OK);
    }
}

static off_t
state_bytes(void)
{
    struct stat st = {0};
    char path[64];

    snprintf(path, sizeof path, "%s/data.mdb", folder);
    CHECK(stat(path, &st) == 0);
    return st.st_size;
}

static void
cut_state(off_t size)
{
    char path[64];

    snprintf(path, sizeof path, "%s/data.mdb", folder);
    CHECK(truncate(path, size) == 0);
}

/* The disk takes the file away below us: calls fail, the process lives, and the file is not used again. */
static void
cut_while_open(void *arg)
{
    bool writing = *(bool *)arg;
    struct arena *a = arena_new(4096, 8u << 20);
    struct meta *m = open_meta();
    struct meta_pair *pairs = NULL, pair;
    struct errbuf eb = {{0}};
    uint64_t revision;
    uint32_t count;

    fill(m);
    cut_state(4096 * 3);
    if (writing) {
        CHECK(suite_put(m, "f/9", "value", META_ANY, NULL) == ERR_IO);
    } else {
        CHECK(meta_list(m, SPAN(""), a, &pairs, &count, &revision, &eb) == ERR_IO);
        CHECK_SAYS(eb.text, "SIGBUS");
    }
    CHECK(meta_get(m, SPAN("f/1"), a, &pair, &eb) == ERR_IO);
    CHECK(suite_put(m, "f/1", "value", META_ANY, NULL) == ERR_IO);
    meta_close(&m);
    arena_free(&a);
}

/* A file that is shorter than it says is refused with its name, and left as it is. */
static void
cut_before_opening(void *arg)
{
    struct meta *m = open_meta();
    struct errbuf eb = {{0}};
    struct rt_dir *dir = NULL;
    off_t size;

    (void)arg;
    fill(m);
    meta_close(&m);
    CHECK(chdir(folder) == 0 && unlink("second.mdb") == 0);
    size = state_bytes() / 2 / 4096 * 4096;
    cut_state(size);
    CHECK(rt_dir_open(folder, &dir, &eb) == ERR_OK);
    CHECK(meta_open_embedded(dir, &m, &eb) == ERR_CORRUPT && m == NULL);
    CHECK_SAYS(eb.text, "data.mdb is damaged");
    CHECK_SAYS(eb.text, folder);
    CHECK_SAYS(eb.text, "second.mdb is not there");
    CHECK(state_bytes() == size);
    CHECK(meta_open_embedded(dir, &m, &eb) == ERR_CORRUPT); /* nothing new was made */
    rt_dir_close(&dir);
}

static void
run_in_folder(void (*fn)(void *arg), void *arg)
{
    struct rt_options o = {.engine = RT_EPOLL, .loops = 1};
    struct errbuf eb = {{0}};

    memcpy(folder + sizeof folder - 7, "XXXXXX", 6);
    REQUIRE(mkdtemp(folder) != NULL);
    CHECK(rt_run(&o, fn, arg, &eb) == ERR_OK);
    REQUIRE(chdir(folder) == 0);
    unlink("data.mdb");
    unlink("lock.mdb");
    unlink("second.mdb");
    unlink("second.mdb-lock");
    rmdir(folder);
}

static void
test_a_cut_file(void)
{
    bool writing[] = {false, true};

    run_in_folder(cut_while_open, &writing[0]);
    run_in_folder(cut_while_open, &writing[1]);
    run_in_folder(cut_before_opening, NULL);
}

static void
test_embedded(void)
{
    run_in_folder(world, NULL);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_embedded);
    RUN(test_a_cut_file);
    return check_done();
}
