/* A large index is not read by the start but behind it: whatever is damaged in it, an older state of a page too, is found then; until
 * it is, nothing that it does not know of is given back; from then on it is not believed when it lacks something, and the next
 * start has everything. Protects I5. */
#include "world_damage.h"

#include <inttypes.h>

#include "base/mem.h"
#include "rt/fiber.h"
#include "store/core/core.h"
#include "store/index/index.h"
#include "store/segment/segment.h"
#include "store/store.h"
#include "store/store_entry.h"
#include "store/store_health.h"
#include "store/store_options.h"
#include "store/store_space.h"

#define SMALL 150u
#define PAGE  4096u
#define LARGE (17u << 20) /* a segment of its own */
static char *data;

/* What LMDB had in hand when a damaged page ended it stays as it was (rt/fault.h). */
const char *__lsan_default_suppressions(void);
const char *
__lsan_default_suppressions(void)
{
    return "leak:liblmdb";
}

static void
key_of(unsigned i, char out[20])
{
    snprintf(out, 20, "small-%03u", i);
}

/* Each tenth is a commit of the index: pages are used again and again. */
static void
put_small(unsigned from, unsigned to)
{
    struct store *d = world_open(NULL);

    for (unsigned i = from; i < to; i++) {
        struct entry entry;
        char key[20];

        key_of(i, key);
        CHECK(world_put(d, key, data + i, 100 + i, &entry) == ERR_OK);
        if (i % 10 == 9)
            CHECK(store_flush(d, NULL) == ERR_OK);
    }
    store_close(&d);
}

static void
copy(const char *from, const char *to)
{
    char text[900];

    snprintf(text, sizeof text, "cp %s/%s %s/%s", world_path, from, world_path, to);
    CHECK(system(text) == 0); /* a path of the test's own */
}

static char *
load(const char *name, uint64_t *pages)
{
    char path[400], *all;
    struct stat st;
    int fd;

    snprintf(path, sizeof path, "%s/%s", world_path, name);
    fd = open(path, O_RDONLY);
    CHECK(fd >= 0 && fstat(fd, &st) == 0);
    all = xmalloc((size_t)st.st_size);
    CHECK(read(fd, all, (size_t)st.st_size) == st.st_size);
    close(fd);
    *pages = (uint64_t)st.st_size / PAGE;
    return all;
}

static void
write_page(uint64_t number, const char *bytes)
{
    char path[400];
    int fd;

    snprintf(path, sizeof path, "%s/index/data.mdb", world_path);
    fd = open(path, O_WRONLY);
    CHECK(pwrite(fd, bytes, PAGE, (off_t)(number * PAGE)) == PAGE);
    close(fd);
}

struct answers {
    unsigned good, missing;
};

static struct answers
read_small(struct store *d)
{
    struct answers n = {0};

    for (unsigned i = 0; i < SMALL; i++) {
        char key[20];
        enum err rc;

        key_of(i, key);
        rc = world_get_damaged(d, key, data + i, 100 + i);
        n.good += rc == ERR_OK;
        n.missing += rc == ERR_NOT_FOUND;
    }
    return n;
}

static enum err
list(struct store *d, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(64), MIB(1));
    struct store_entry *entries;
    uint32_t count;
    bool more;
    enum err rc = store_list(d, 7, SPAN(""), true, 1000, a, &entries, &count, &more, eb);

    arena_free(&a);
    return rc;
}

/* As if the index were a large one. */
static struct store *
open_large(void)
{
    struct store_options o = world_options();
    struct store *d;

    o.index_interval_ms = 20;
    index_probe_all_of = 0;
    d = world_open(&o);
    index_probe_all_of = MIB(32);
    return d;
}

static enum store_index
wait_for_proof(struct store *d)
{
    struct store_stat st;

    for (unsigned i = 0; i < PATIENCE_MS / 5; i++) {
        store_stat(d, &st);
        if (st.index != STORE_INDEX_UNPROVEN)
            return st.index;
        CHECK(rt_sleep_ms(5) == ERR_OK);
    }
    CHECK(false && "the index is never proven");
    return STORE_INDEX_UNPROVEN;
}

static bool
is_marked(void)
{
    char path[400];

    snprintf(path, sizeof path, "%s/index/damaged", world_path);
    return access(path, F_OK) == 0;
}

/* Whatever the start said of it: proven means that all is there. */
static void
believe_only_what_is_whole(unsigned *damaged)
{
    struct store *d = open_large();
    struct errbuf eb = {0};
    struct answers n;

    if (wait_for_proof(d) == STORE_INDEX_PROVEN) {
        CHECK_U64(read_small(d).good, SMALL);
        CHECK(list(d, &eb) == ERR_OK);
    } else {
        (*damaged)++;
        n = read_small(d);
        CHECK_U64(n.missing, 0);
        if (!store_has_left(d)) {
            CHECK(list(d, &eb) == ERR_CORRUPT);
            CHECK_SAYS(eb.text, "is damaged, and what it lists may not be all");
        }
        while (!is_marked() && !store_has_left(d))
            CHECK(rt_sleep_ms(5) == ERR_OK);
        CHECK(is_marked() ||
              store_has_left(d)); /* a kill would not make it believed again */
    }
    store_close(&d);
    CHECK(!is_marked());
    d = world_open(NULL);
    CHECK_U64(read_small(d).good, SMALL);
    store_close(&d);
}

static void
each_page(void *arg)
{
    uint64_t pages, old_pages;
    char *newer, *older, page[PAGE];
    unsigned found = 0, old_found = 0;

    (void)arg;
    put_small(0, SMALL - 50);
    copy("index/data.mdb", "older");
    put_small(SMALL - 100, SMALL);
    copy("index/data.mdb", "newer");
    newer = load("newer", &pages);
    older = load("older", &old_pages);
    believe_only_what_is_whole(&found);
    CHECK_U64(found, 0);
    for (uint64_t p = 2; p < pages; p++)
        for (unsigned how = 0; how < 4; how++) {
            uint64_t other = how == 0 ? p : 2 + world_some(pages - 2);

            if (how == 0 &&
                (p >= old_pages || memcmp(older + p * PAGE, newer + p * PAGE, PAGE) == 0))
                continue;
            copy("newer", "index/data.mdb");
            memcpy(page, (how == 0 ? older : newer) + other * PAGE, PAGE);
            if (how == 1)
                memcpy(page, &p,
                       sizeof p); /* another page that says that it is this one */
            else if (how > 1)
                memcpy(page, newer + p * PAGE, PAGE);
            if (how > 1)
                page[world_some(how == 2 ? 64 : PAGE)] ^= (char)(1u << world_some(8));
            write_page(p, page);
            believe_only_what_is_whole(how == 0 ? &old_found : &found);
        }
    fprintf(stderr, "%" PRIu64 " pages: %u of another, %u of an older state were found\n",
            pages, found, old_found);
    CHECK(found > 5);
    CHECK(old_found > 2); /* pages of an older state, found behind the start */
    free(newer);
    free(older);
}

static void
test_each_page_behind_a_start(void)
{
    world_run(each_page, NULL);
}

/* A bit of a key in a branch, under an open disk: who searches there comes to a page that is not the key's. */
static void
branches(void *arg)
{
    uint64_t pages;
    unsigned tried = 0;
    char *all;

    (void)arg;
    put_small(0, SMALL);
    copy("index/data.mdb", "newer");
    all = load("newer", &pages);
    for (uint64_t p = 2; p < pages; p++) {
        uint16_t flags, end, at;

        memcpy(&flags, all + p * PAGE + 10, 2);
        memcpy(&end, all + p * PAGE + 12, 2);
        if ((flags & 1) == 0)
            continue;
        for (unsigned i = 1; i < (end - 16u) / 2; i++)
            for (unsigned bit = 0; bit < 5; bit++) {
                char page[PAGE];
                struct store *d;
                uint16_t len;

                memcpy(page, all + p * PAGE, PAGE);
                memcpy(&at, page + 16 + 2 * i, 2);
                memcpy(&len, page + at + 6, 2);
                page[at + 8 + len - 1] ^= (char)(1u << bit);
                copy("newer", "index/data.mdb");
                d = world_open(NULL);
                write_page(p, page);
                CHECK_U64(read_small(d).missing, 0);
                store_close(&d);
                tried++;
            }
    }
    fprintf(stderr, "%u bits of branches\n", tried);
    CHECK(tried >= 5);
    free(all);
}

static void
test_a_bit_of_a_branch_hides_nothing(void)
{
    world_run(branches, NULL);
}

/* Pages of a state that does not know a body yet: neither the start nor compaction gives it back. */
static void
living_bodies(void *arg)
{
    uint64_t pages, old_pages;
    char *newer, *older;
    struct store *d;
    struct entry entry;
    unsigned tried = 0;

    (void)arg;
    put_small(0, SMALL);
    copy("index/data.mdb", "older");
    d = world_open(NULL);
    CHECK(world_put(d, "large", data, LARGE, &entry) == ERR_OK);
    CHECK(world_put(d, "shared", data, 300u << 10, &entry) == ERR_OK);
    store_close(&d);
    put_small(0, 50);
    copy("index/data.mdb", "newer");
    newer = load("newer", &pages);
    older = load("older", &old_pages);
    for (uint64_t p = 2; p < MIN(pages, old_pages); p++) {
        if (memcmp(older + p * PAGE, newer + p * PAGE, PAGE) == 0)
            continue;
        tried++;
        copy("newer", "index/data.mdb");
        write_page(p, older + p * PAGE);
        d = open_large();
        (void)!store_compact(d, NULL);
        (void)wait_for_proof(d);
        (void)!store_compact(d, NULL);
        store_close(&d);
        d = world_open(NULL);
        CHECK(world_get_damaged(d, "large", data, LARGE) == ERR_OK);
        CHECK(world_get_damaged(d, "shared", data, 300u << 10) == ERR_OK);
        CHECK_U64(read_small(d).good, SMALL);
        store_close(&d);
    }
    fprintf(stderr, "%u pages of an older state\n", tried);
    CHECK(tried > 2);
    free(newer);
    free(older);
}

static void
test_living_bodies_are_not_given_back(void)
{
    world_run(living_bodies, NULL);
}

/* What a start before the proof left in place goes behind it: a segment whose only body has no record. */
static void
dead_bodies(void *arg)
{
    char path[600];
    struct store *d;
    struct entry entry;
    struct stat st;

    (void)arg;
    put_small(0, SMALL);
    d = world_open(NULL);
    CHECK(world_put(d, "large", data, LARGE, &entry) == ERR_OK);
    snprintf(path, sizeof path, "%s/native/one-%06u.tar", world_path,
             entry.place.segment);
    CHECK(stat(path, &st) == 0);
    copy("index/data.mdb", "unused");
    store_close(&d);
    snprintf(path, sizeof path, "native/one-%06u.tar", entry.place.segment);
    copy(path, "native/one-000999.tar"); /* unknown to the store */
    snprintf(path, sizeof path, "%s/native/one-000999.tar", world_path);
    d = open_large();
    CHECK(wait_for_proof(d) == STORE_INDEX_PROVEN);
    CHECK(store_compact(d, NULL) == ERR_OK);
    CHECK(stat(path, &st) != 0);
    CHECK(world_get_damaged(d, "large", data, LARGE) == ERR_OK);
    store_close(&d);
}

static void
test_dead_bodies_go_behind_the_proof(void)
{
    world_run(dead_bodies, NULL);
}

int
main(int argc, char **argv)
{
    data = xmalloc(LARGE);
    world_fill(data, LARGE, 7);
    CHECK_MAIN(argc, argv);
    RUN(test_each_page_behind_a_start);
    RUN(test_a_bit_of_a_branch_hides_nothing);
    RUN(test_living_bodies_are_not_given_back);
    RUN(test_dead_bodies_go_behind_the_proof);
    free(data);
    return check_done();
}
