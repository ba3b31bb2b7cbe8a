/* A damaged index: bits, pages that change places, entries hidden from searches, older states of a page. What is damaged is noticed
 * or does no harm; a start, or a rebuild, has everything. Protects I5 (and I1: nothing damaged is read). */
#include "base/mem.h"
#include "findings.h"
#include "store/core/core.h"
#include "store/index/index.h"
#include "store/segment/segment.h"
#include "store/store.h"
#include "store/store_entry.h"
#include "store/store_health.h"
#include "store/store_options.h"
#include "store/store_rescue.h"
#include "world_damage.h"

static char *data;

#define SMALL 60u

static void
put_small(struct store *d, unsigned from, unsigned to)
{
    for (unsigned n = from; n < to; n++) {
        struct entry entry;
        char key[20];

        snprintf(key, sizeof key, "small-%02u", n);
        CHECK(world_put(d, key, data + n, 100 + n, &entry) == ERR_OK);
    }
}

static bool
all_there(void)
{
    struct store *d = world_open(NULL);
    bool good = true;

    for (unsigned i = 0; i < SMALL; i++) {
        char key[20];

        snprintf(key, sizeof key, "small-%02u", i);
        good &= world_get_damaged(d, key, data + i, 100 + i) == ERR_OK;
    }
    store_close(&d);
    return good;
}

/* Ten bits at a time: the check sees a difference, or there is none; a rebuild makes it whole. */
static void
flips_over_the_index(void *arg)
{
    struct store *d = world_open(NULL);
    struct stat st;
    char path[400];
    unsigned seen = 0;

    (void)arg;
    put_small(d, 0, SMALL);
    store_close(&d);
    snprintf(path, sizeof path, "%s/index/data.mdb", world_path);
    for (unsigned round = 0; round < 20; round++) {
        struct store_rebuild_options o = {.from_bodies = false};
        struct store_rebuilt rebuilt;
        struct store_checked c;
        struct errbuf eb = {0};
        struct findings h;
        int fd = world_file("index/data.mdb");

        CHECK(stat(path, &st) == 0);
        for (unsigned n = 0; n < 10; n++)
            world_flip(fd, world_some((uint64_t)st.st_size * 8));
        close(fd);
        h = check(&c);
        CHECK_U64(c.objects, SMALL); /* what lives is known from the logs */
        seen += c.faults > 0 || h.notes > 0;
        if (c.faults == 0 && h.notes == 0) /* they hit nothing that is used */
            CHECK(all_there());
        CHECK(store_rebuild(world_path, &o, &rebuilt, &eb) == ERR_OK);
        CHECK_U64(rebuilt.objects, SMALL);
        CHECK(all_there());
        h = check(&c);
        CHECK_U64(c.faults + h.notes, 0);
    }
    CHECK(seen > 0);
}

static void
test_flips_over_the_index(void)
{
    world_run(flips_over_the_index, NULL);
}

/* How many of the objects are given out, told to be unreadable, and told not to be there? */
struct answers {
    unsigned good, refused, missing;
};

static struct answers
read_small(struct store *d)
{
    struct answers n = {0};

    for (unsigned i = 0; i < SMALL; i++) {
        char key[20];
        enum err rc;

        snprintf(key, sizeof key, "small-%02u", i);
        rc = world_get_damaged(d, key, data + i, 100 + i);
        n.good += rc == ERR_OK;
        n.missing += rc == ERR_NOT_FOUND;
        n.refused += rc == ERR_CORRUPT || rc == ERR_IO;
    }
    CHECK_U64(n.good + n.refused + n.missing, SMALL);
    return n;
}

static void
swap_pages(int fd, uint64_t a, uint64_t b)
{
    static char one[4096], other[4096];

    CHECK(pread(fd, one, 4096, (off_t)(4096 * a)) == 4096);
    CHECK(pread(fd, other, 4096, (off_t)(4096 * b)) == 4096);
    CHECK(pwrite(fd, other, 4096, (off_t)(4096 * a)) == 4096);
    CHECK(pwrite(fd, one, 4096, (off_t)(4096 * b)) == 4096);
}

/* A page that says that it is this one, with what stands in another: an older state of it, say. */
static void
other_page(int fd, uint64_t page, uint64_t other)
{
    char bytes[4096];

    CHECK(pread(fd, bytes, sizeof bytes, (off_t)(4096 * other)) == 4096);
    memcpy(bytes, &page, sizeof page);
    CHECK(pwrite(fd, bytes, sizeof bytes, (off_t)(4096 * page)) == 4096);
}

static void
damage_index(unsigned swaps)
{
    int fd = world_file("index/data.mdb");
    struct stat st;
    uint64_t pages;

    CHECK(fstat(fd, &st) == 0);
    pages = (uint64_t)st.st_size / 4096;
    for (unsigned n = 0; n < 4; n++)
        world_flip(fd, 2 * 4096 * 8 + world_some((pages - 2) * 4096 * 8));
    for (unsigned n = 0; n < swaps; n++)
        swap_pages(fd, 2 + world_some(pages - 2), 2 + world_some(pages - 2));
    close(fd);
}

/* What is damaged before a start is rebuilt by it. Under an open disk: what is known to be damaged is not believed when it
 * says that a key is not there, all of it is known when the index was verified, and the next start has everything. */
static void
damaged_index_serves(void *arg)
{
    struct store *d = world_open(NULL);
    unsigned refused = 0, found = 0;

    (void)arg;
    put_small(d, 0, SMALL);
    store_close(&d);
    for (unsigned round = 0; round < 24; round++) {
        struct answers first, second;

        damage_index(round % 3);
        CHECK(all_there());
        d = world_open(NULL);
        damage_index(round % 3);
        first = read_small(d);
        second = read_small(d);
        if (first.refused > 0 && index_is_hiding(d->index))
            CHECK_U64(second.missing, 0);
        refused += first.refused;
        found += index_verify(d->index, NULL, NULL, NULL) != ERR_OK;
        second = read_small(d);
        CHECK_U64(second.missing, 0);
        if (!index_is_bad(d->index))
            CHECK_U64(second.good, SMALL);
        store_close(&d);
        CHECK(all_there());
    }
    CHECK(refused > 0 && found > 0);
}

static void
test_a_damaged_index_is_not_believed(void)
{
    world_run(damaged_index_serves, NULL);
}

/* A byte so far behind the begin of each such key in the index. */
static void
flip_index_at(const char *key, size_t ahead)
{
    struct stat st;
    int fd = world_file("index/data.mdb");
    char *all, *at, *end;

    CHECK(fstat(fd, &st) == 0);
    all = xmalloc((size_t)st.st_size);
    end = all + st.st_size;
    CHECK(pread(fd, all, (size_t)st.st_size, 0) == st.st_size);
    for (at = all; (at = memmem(at, (size_t)(end - at), key, strlen(key))) != NULL;) {
        world_flip(fd, (uint64_t)(at - all) * 8 + ahead * 8);
        at += strlen(key);
    }
    free(all);
    close(fd);
}

static void
copy_index(const char *from, const char *to)
{
    char text[900];

    snprintf(text, sizeof text, "cp %s/%s %s/%s", world_path, from, world_path, to);
    CHECK(system(text) == 0); /* a path of the test's own */
}

/* An older index, one entry of it damaged, and logs that go on behind it with this very key: the start that meets it has the
 * index rebuilt at once. */
static void
replay_meets_damage(void *arg)
{
    struct store_options o;
    struct store_ids ids = {0};
    struct store_identity found;
    struct errbuf eb = {0};
    struct store *d;

    (void)arg;
    for (unsigned round = 0; round < 2; round++) {
        d = world_open(NULL);
        put_small(d, 0, SMALL);
        store_close(&d);
        if (round == 0)
            copy_index("index/data.mdb", "older");
    }
    copy_index("older", "index/data.mdb");
    flip_index_at("small-31", strlen("small-31") + 9);
    index_probe_all_of = 0; /* as if it were a large one */
    CHECK(store_identify(world_path, &found, &eb) == ERR_OK);
    o = world_options();
    o.ids = &ids;
    o.epoch = MAX(o.epoch, found.epoch + 1);
    atomic_store(&ids.map_epoch, found.map_epoch + 1);
    REQUIRE(store_open(world_path, &o, &d, &eb) ==
            ERR_OK); /* of a node that counts epochs */
    store_close(&d);
    CHECK(store_identify(world_path, &found, &eb) == ERR_OK);
    CHECK_U64(found.epoch, o.epoch);
    CHECK(all_there());
    index_probe_all_of = MIB(32);
}

static void
test_a_replay_that_meets_a_damaged_entry(void)
{
    world_run(replay_meets_damage, NULL);
}

/* The bit lies in the space in front of the key: the entry stands at its place, and searches around it go astray; to a listing, and
 * to a scrub that lists, the bucket ends before it. */
static void
hidden_in_another_bucket(void)
{
    struct store *d = world_open(NULL);
    struct errbuf eb = {0};
    struct answers n;

    CHECK(index_verify(d->index, NULL, NULL, &eb) == ERR_OK);
    flip_index_at("small-27", (size_t)-3);
    CHECK(index_verify(d->index, NULL, NULL, &eb) == ERR_CORRUPT);
    CHECK_SAYS(eb.text, "has a key that no search comes to");
    n = read_small(d);
    CHECK(n.missing == 0 && n.refused > 0 && n.good > 0);
    store_close(&d);
    CHECK(all_there());
}

/* A bit of its key hides an entry: wherever that stands now, the object is not said to be missing, and the next start has it. */
static void
hidden_entry(void *arg)
{
    static const char *const keys[] = {"small-01", "small-31", "small-59", "small-42"};

    (void)arg;
    for (unsigned i = 0; i < ARRAY_LEN(keys); i++) {
        struct store *d = world_open(NULL);
        struct errbuf eb = {0};
        struct store_key k = world_key(7, keys[i]), none = world_key(7, "small-3");
        struct entry entry;

        put_small(d, 0, SMALL);
        CHECK(store_flush(d, &eb) == ERR_OK);
        CHECK(store_lookup(d, &none, &entry, &eb) == ERR_NOT_FOUND);
        store_close(&d);
        d = world_open(NULL);
        flip_index_at(keys[i], i % 2 == 0 ? 7 : 5);
        CHECK(store_lookup(d, &k, &entry, &eb) == ERR_CORRUPT);
        CHECK(store_lookup(d, &none, &entry, &eb) == ERR_CORRUPT); /* who knows, now */
        store_close(&d);
        CHECK(all_there());
    }
    hidden_in_another_bucket();
}

static void
test_a_entry_that_a_bit_hides_is_not_missing(void)
{
    world_run(hidden_entry, NULL);
}

static bool
verified(void)
{
    struct rt_dir *dir;
    struct index_options o = {.read_only = true};
    struct index_checkpoint checkpoint;
    struct store_identity found;
    enum index_state state;
    struct index *x;
    struct errbuf eb = {0};
    bool good;

    CHECK(rt_dir_open(world_path, &dir, &eb) == ERR_OK);
    o.dir = dir;
    CHECK(store_identify(world_path, &found, &eb) == ERR_OK);
    memcpy(o.disk_id, found.disk_id, sizeof o.disk_id);
    CHECK(index_open(&o, &x, &state, &checkpoint, &eb) == ERR_OK);
    good = x != NULL && index_verify(x, NULL, NULL, &eb) == ERR_OK;
    index_close(&x);
    rt_dir_close(&dir);
    return good;
}

/* A page of the index that is an older state of itself, or another: its entries have the right sums, and those that should stand
 * there are hidden. A bit in what leads to the pages, or in the list of free ones, hides entries as well, now or later. What is
 * found good has everything, without that a start looks at it; what is not is rebuilt by the start. */
static void
each_page(void *arg)
{
    struct store *d = world_open(NULL);
    struct stat st;
    char path[400];
    uint64_t pages;
    unsigned found = 0;

    (void)arg;
    put_small(d, 0, 20);
    store_close(&d);
    d = world_open(NULL);
    put_small(d, 10, SMALL);
    store_close(&d);
    copy_index("index/data.mdb", "newer");
    snprintf(path, sizeof path, "%s/newer", world_path);
    CHECK(stat(path, &st) == 0);
    pages = (uint64_t)st.st_size / 4096;
    CHECK(verified());
    for (uint64_t p = 2; p < pages; p++)
        for (unsigned how = 0; how < 5; how++) {
            int fd;

            copy_index("newer", "index/data.mdb");
            fd = world_file("index/data.mdb");
            if (how < 2)
                other_page(fd, p, 2 + world_some(pages - 2));
            else if (how == 2)
                swap_pages(fd, p, 2 + world_some(pages - 2));
            else
                world_flip(fd, 4096 * 8 * p + world_some((how == 3 ? 64 : 4096) * 8));
            close(fd);
            index_probe_all_of = verified() ? 0 : MIB(32);
            found += index_probe_all_of != 0;
            CHECK(all_there());
        }
    index_probe_all_of = MIB(32);
    CHECK(found > pages);
}

static void
test_each_page_of_the_index(void)
{
    world_run(each_page, NULL);
}

int
main(int argc, char **argv)
{
    log_set_level(LOG_ERROR + 1);
    data = xmalloc(1000);
    world_fill(data, 1000, 7);
    CHECK_MAIN(argc, argv);
    RUN(test_flips_over_the_index);
    RUN(test_a_damaged_index_is_not_believed);
    RUN(test_a_replay_that_meets_a_damaged_entry);
    RUN(test_a_entry_that_a_bit_hides_is_not_missing);
    RUN(test_each_page_of_the_index);
    free(data);
    return check_done();
}
