/* meta: the embedded store: conditions, lists, revisions that only grow, and all of it after a restart. */
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "check.h"
#include "meta/follow.h"
#include "rt/loop.h"

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

static enum err
put(struct meta *m, const char *key, const char *value, uint64_t if_revision,
    uint64_t *revision)
{
    struct errbuf eb = {{0}};
    struct meta_change c = {
        .key = span_of(key), .value = span_of(value), .if_revision = if_revision};

    return meta_apply(m, &c, 1, revision, &eb);
}

static void
conditions(struct meta *m, struct arena *a)
{
    struct meta_pair pair;
    struct errbuf eb = {{0}};
    uint64_t first = 0, second = 0;

    CHECK(meta_get(m, SPAN("a"), a, &pair, &eb) == ERR_NOT_FOUND);
    CHECK_SAYS(eb.text, "\"a\"");
    CHECK(put(m, "a", "one", 0, &first) == ERR_OK);
    CHECK(put(m, "a", "two", 0, NULL) == ERR_PRECONDITION);
    CHECK(put(m, "a", "two", first + 7, NULL) == ERR_PRECONDITION);
    CHECK(put(m, "a", "two", first, &second) == ERR_OK);
    CHECK(second > first);
    CHECK(meta_get(m, SPAN("a"), a, &pair, &eb) == ERR_OK);
    CHECK(span_is(pair.value, "two") && pair.revision == second);
    CHECK(put(m, "a", "", META_ANY, NULL) == ERR_OK); /* an empty value is one */
    CHECK(meta_get(m, SPAN("a"), a, &pair, &eb) == ERR_OK && pair.value.len == 0);
}

/* All or nothing. */
static void
several(struct meta *m, struct arena *a)
{
    struct errbuf eb = {{0}};
    struct meta_pair pair;
    struct meta_change c[2] = {{.key = SPAN("b"), .value = SPAN("new"), .if_revision = 0},
                               {.key = SPAN("a"), .value = SPAN("x"), .if_revision = 0}};

    CHECK(meta_apply(m, c, 2, NULL, &eb) == ERR_PRECONDITION);
    CHECK_SAYS(eb.text, "\"a\" has changed");
    CHECK(meta_get(m, SPAN("b"), a, &pair, &eb) == ERR_NOT_FOUND);
    c[1].if_revision = META_ANY;
    CHECK(meta_apply(m, c, 2, NULL, &eb) == ERR_OK);
    CHECK(meta_get(m, SPAN("b"), a, &pair, &eb) == ERR_OK);
    c[0] =
        (struct meta_change){.key = SPAN("b"), .remove = true, .if_revision = META_ANY};
    CHECK(meta_apply(m, c, 1, NULL, &eb) == ERR_OK);
    CHECK(meta_apply(m, c, 1, NULL, &eb) == ERR_OK); /* removing nothing is fine */
    CHECK(meta_get(m, SPAN("b"), a, &pair, &eb) == ERR_NOT_FOUND);
}

static void
limits(struct meta *m)
{
    static char big[META_VALUE_MAX + 1], long_key[META_KEY_MAX + 1];
    struct errbuf eb = {{0}};
    struct meta_change c = {.key = SPAN("k"), .value = {big, sizeof big}};

    CHECK(meta_apply(m, &c, 1, NULL, &eb) == ERR_TOO_LARGE);
    CHECK(meta_apply(m, &c, 0, NULL, &eb) == ERR_BAD_REQUEST);
    CHECK(meta_apply(m, &c, META_CHANGE_MAX + 1, NULL, &eb) == ERR_BAD_REQUEST);
    memset(long_key, 'k', sizeof long_key);
    c = (struct meta_change){.key = {long_key, sizeof long_key}};
    CHECK(meta_apply(m, &c, 1, NULL, &eb) == ERR_BAD_REQUEST);
    c.key.len = 0;
    CHECK(meta_apply(m, &c, 1, NULL, &eb) == ERR_BAD_REQUEST);
}

static void
lists(struct meta *m, struct arena *a)
{
    static const char *const keys[] = {"l/a", "l/b", "l", "l0", "k/z", "l/", "l/a/b"};
    struct arena *small = arena_new(64, 64);
    struct meta_pair *pairs = NULL;
    struct errbuf eb = {{0}};
    uint64_t revision = 0;
    uint32_t count = 0;

    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        CHECK(put(m, keys[i], keys[i], META_ANY, NULL) == ERR_OK);
    CHECK(meta_list(m, SPAN("l/"), a, &pairs, &count, &revision, &eb) == ERR_OK);
    CHECK_U64(count, 4);
    CHECK(count == 4 && span_is(pairs[0].key, "l/") && span_is(pairs[1].key, "l/a") &&
          span_is(pairs[2].key, "l/a/b") && span_is(pairs[3].value, "l/b"));
    CHECK(meta_list(m, SPAN("nothing"), a, &pairs, &count, &revision, &eb) == ERR_OK);
    CHECK_U64(count, 0);
    /* More than the arena holds is an error, not the end of the process. */
    CHECK(meta_list(m, SPAN(""), small, &pairs, &count, &revision, &eb) == ERR_TOO_LARGE);
    arena_free(&small);
}

static unsigned calls;

static void
on_change(void *arg)
{
    (void)arg;
    calls++;
}

static void
watches(struct meta *m)
{
    struct errbuf eb = {{0}};
    struct meta_watch *w = NULL;

    CHECK(meta_watch_start(m, SPAN("w/"), on_change, NULL, &w, &eb) == ERR_OK);
    CHECK(put(m, "v", "", META_ANY, NULL) == ERR_OK);
    rt_yield();
    CHECK_U64(calls, 0);
    CHECK(put(m, "w/1", "", META_ANY, NULL) == ERR_OK);
    for (int i = 0; i < 100 && calls == 0; i++)
        rt_yield();
    CHECK_U64(calls, 1);
    meta_watch_stop(&w);
    CHECK(w == NULL);
    CHECK(put(m, "w/1", "", META_ANY, NULL) == ERR_OK);
    for (int i = 0; i < 100; i++)
        rt_yield();
    CHECK_U64(calls, 1);
}

/* A transaction reads in its own step: what stands behind the change, or what refused it. */
static void
reads_in_the_same_step(struct meta *m, struct arena *a)
{
    struct span reads[] = {SPAN("t/1"), SPAN("t/none")};
    struct meta_change c = {.key = SPAN("t/1"), .value = SPAN("one"), .if_revision = 0};
    struct meta_txn t = {
        .changes = &c, .change_count = 1, .reads = reads, .read_count = 2};
    struct meta_result r;
    struct errbuf eb = {{0}};
    uint64_t first;

    CHECK(meta_apply_txn(m, &t, a, &r, &eb) == ERR_OK && !r.unknown);
    CHECK(span_is(r.reads[0].value, "one") && r.reads[0].revision == r.revision);
    CHECK_U64(r.reads[1].revision, 0);
    first = r.revision;
    c.value = SPAN("two");
    CHECK(meta_apply_txn(m, &t, a, &r, &eb) == ERR_PRECONDITION && !r.unknown);
    CHECK_U64(r.failed, 0);
    CHECK(span_is(r.reads[0].value, "one") && r.reads[0].revision == first);
    c.if_revision = r.reads[0].revision; /* no second read is needed */
    CHECK(meta_apply_txn(m, &t, a, &r, &eb) == ERR_OK);
    CHECK(span_is(r.reads[0].value, "two") && r.reads[0].revision > first);
}

/* A commit whose outcome is lost says so; a read tells. */
static void
unknown_outcome(struct meta *m, struct arena *a)
{
    struct span key = SPAN("u/1");
    struct meta_change c = {.key = key, .value = SPAN("made"), .if_revision = 0};
    struct meta_txn t = {.changes = &c, .change_count = 1};
    struct meta_result r;
    struct meta_pair pair;
    struct errbuf eb = {{0}};

    meta_lose_outcome = true;
    CHECK(meta_apply_txn(m, &t, a, &r, &eb) == ERR_IO && r.unknown);
    CHECK_SAYS(eb.text, "unknown");
    CHECK(meta_get(m, key, a, &pair, &eb) == ERR_OK && span_is(pair.value, "made"));
    c.if_revision = 1; /* a refusal is known */
    CHECK(meta_apply_txn(m, &t, a, &r, &eb) == ERR_PRECONDITION && !r.unknown);
}

/* Pages end at a count and at a size; a list of several pages is whole. */
static void
pages(struct meta *m)
{
    static char value[META_VALUE_MAX];
    struct arena *a = arena_new(4096, 16u << 20);
    struct meta_range r = {.prefix = SPAN("p/"), .max = 3};
    struct meta_page page;
    struct meta_pair *all;
    struct errbuf eb = {{0}};
    uint32_t seen = 0, count;
    uint64_t revision;

    for (unsigned i = 0; i < 20; i++) {
        char key[16];
        struct meta_change c = {.value = {value, sizeof value}, .if_revision = META_ANY};

        snprintf(key, sizeof key, "p/%02u", i);
        c.key = span_of(key);
        CHECK(meta_apply(m, &c, 1, NULL, &eb) == ERR_OK);
    }
    do {
        CHECK(meta_page(m, &r, a, &page, &eb) == ERR_OK);
        REQUIRE(page.count > 0 && page.count <= 3);
        CHECK(seen > 0 || span_is(page.pairs[0].key, "p/00"));
        seen += page.count;
        r.after = page.pairs[page.count - 1].key;
    } while (page.more);
    CHECK_U64(seen, 20);
    r = (struct meta_range){.prefix = SPAN("p/")};
    CHECK(meta_page(m, &r, a, &page, &eb) == ERR_OK && page.more);
    CHECK(page.count == META_PAGE_BYTES / (META_VALUE_MAX + 28));
    CHECK(meta_list(m, SPAN("p/"), a, &all, &count, &revision, &eb) == ERR_OK);
    CHECK_U64(count, 20);
    arena_free(&a);
}

static unsigned refreshes;
static bool refresh_fails;

static enum err
refresh(void *arg, uint64_t *revision, struct errbuf *eb)
{
    struct arena *a = arena_new(4096, 1u << 20);
    struct meta_page page;
    enum err rc =
        meta_page(arg, &(struct meta_range){.prefix = SPAN("f/")}, a, &page, eb);

    refreshes++;
    *revision = page.revision;
    arena_free(&a);
    return refresh_fails ? err_set(eb, ERR_IO, "planted") : rc;
}

static void
followers(struct meta *m)
{
    struct meta_follower *f = NULL;
    struct errbuf eb = {{0}};
    uint64_t revision = 0;

    refresh_fails = true;
    CHECK(meta_follow_start(m, SPAN("f/"), refresh, m, &f, &eb) == ERR_IO && f == NULL);
    refresh_fails = false;
    CHECK(meta_follow_start(m, SPAN("f/"), refresh, m, &f, &eb) == ERR_OK);
    CHECK_U64(refreshes, 2);
    CHECK(put(m, "f/1", "", META_ANY, &revision) == ERR_OK);
    CHECK(meta_follow_wait(f, revision, &eb) == ERR_OK);
    CHECK(refreshes >= 3);
    refresh_fails = true; /* the waiter gets the error; it is tried again */
    CHECK(put(m, "f/1", "", META_ANY, &revision) == ERR_OK);
    CHECK(meta_follow_wait(f, revision, &eb) == ERR_IO);
    CHECK_SAYS(eb.text, "planted");
    refresh_fails = false;
    CHECK(meta_follow_refresh(f, &eb) == ERR_OK);
    CHECK(meta_follow_wait(f, revision, &eb) == ERR_OK);
    meta_follow_stop(&f);
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
    conditions(m, a);
    several(m, a);
    limits(m);
    lists(m, a);
    watches(m);
    reads_in_the_same_step(m, a);
    unknown_outcome(m, a);
    pages(m);
    followers(m);
    CHECK(put(m, "kept", "value", META_ANY, &before) == ERR_OK);
    meta_close(&m);
    m = open_meta();
    CHECK(meta_get(m, SPAN("kept"), a, &pair, &eb) == ERR_OK);
    CHECK(span_is(pair.value, "value") && pair.revision == before);
    CHECK(put(m, "kept", "more", before, &after) == ERR_OK);
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
        CHECK(put(m, "f/9", "value", META_ANY, NULL) == ERR_IO);
    } else {
        CHECK(meta_list(m, SPAN(""), a, &pairs, &count, &revision, &eb) == ERR_IO);
        CHECK_SAYS(eb.text, "SIGBUS");
    }
    CHECK(meta_get(m, SPAN("f/1"), a, &pair, &eb) == ERR_IO);
    CHECK(put(m, "f/1", "value", META_ANY, NULL) == ERR_IO);
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
    size = state_bytes() / 2 / 4096 * 4096;
    cut_state(size);
    CHECK(rt_dir_open(folder, &dir, &eb) == ERR_OK);
    CHECK(meta_open_embedded(dir, &m, &eb) == ERR_CORRUPT && m == NULL);
    CHECK_SAYS(eb.text, "data.mdb is damaged");
    CHECK_SAYS(eb.text, folder);
    CHECK(state_bytes() == size);
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
