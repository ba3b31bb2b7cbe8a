/* One disk on real files: put, get, delete, list, reopen. Protects D1 (what was acknowledged is there after a
 * restart) and V2 (a list after a 2xx shows it). */
#include "world.h"

#define BIG (20u << 20)
static char *data; /* BIG bytes that say where they belong */

static const uint64_t sizes[] = {0,      1,      4095,   4096,    4097,    16384, 16385,
                                 100000, 262144, 262145, 1000000, 3 << 20, BIG};

static void
put_all(struct store *d, bool known)
{
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char key[32];
        struct entry entry;

        snprintf(key, sizeof key, "dir/size-%u-%d", i, known);
        CHECK(world_put_class(d, STORE_NATIVE, key, data, sizes[i], known, NULL,
                              &entry) == ERR_OK);
        CHECK_U64(entry.size, sizes[i]);
    }
}

static void
get_all(struct store *d, bool known)
{
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char key[32];
        uint64_t n = sizes[i];

        snprintf(key, sizeof key, "dir/size-%u-%d", i, known);
        CHECK(world_get(d, key, data, n, 0, n) == ERR_OK);
        CHECK(world_get(d, key, data, n, n / 3, n - n / 7) == ERR_OK);
        CHECK(world_get(d, key, data, n, n / 2, n / 2 + (n > 2)) == ERR_OK);
    }
}

static uint32_t
count_keys(struct store *d)
{
    struct arena *a = arena_new(4096, 1 << 20);
    struct store_entry *entries;
    uint32_t count, total = 0;
    bool more = true;
    struct errbuf eb = {0};
    char after[STORE_KEY_MAX];
    struct span last = {after, 0};

    while (more) {
        CHECK(store_list(d, 7, last, false, 5, a, &entries, &count, &more, &eb) ==
              ERR_OK);
        for (uint32_t i = 0; i < count; i++) {
            CHECK(span_cmp(last, entries[i].key) < 0);
            memcpy(after, entries[i].key.at, entries[i].key.len);
            last.len = entries[i].key.len;
        }
        total += count;
        if (count == 0)
            break;
    }
    arena_free(&a);
    return total;
}

static void
roundtrip(void *arg)
{
    struct store_options o = world_options();
    struct store *d = world_open(&o);
    struct store_key k = world_key(7, "dir/size-3-1");
    struct errbuf eb = {0};
    bool existed;
    unsigned n = sizeof sizes / sizeof sizes[0];

    (void)arg;
    put_all(d, true);
    put_all(d, false);
    get_all(d, true);
    get_all(d, false);
    CHECK_U64(count_keys(d), 2 * n);
    CHECK(store_flush(d, &eb) == ERR_OK);
    get_all(d, true);
    CHECK_U64(count_keys(d), 2 * n);
    store_close(&d);
    o = world_options();
    d = world_open(&o);
    get_all(d, true);
    get_all(d, false);
    CHECK(store_delete(d, &k, STORE_NATIVE, NULL, &existed, &eb) == ERR_OK && existed);
    CHECK(store_delete(d, &k, STORE_NATIVE, NULL, &existed, &eb) == ERR_OK && !existed);
    CHECK(world_get(d, "dir/size-3-1", data, 4096, 0, 4096) == ERR_NOT_FOUND);
    CHECK_U64(count_keys(d), 2 * n - 1);
    store_close(&d);
    o = world_options();
    d = world_open(&o);
    CHECK(world_get(d, "dir/size-3-1", data, 4096, 0, 4096) == ERR_NOT_FOUND);
    CHECK_U64(count_keys(d), 2 * n - 1);
    store_close(&d);
}

static void
test_roundtrip_and_reopen(void)
{
    world_run_loops(RT_EPOLL, 1, roundtrip, NULL);
    world_run_loops(RT_AUTO, 1, roundtrip, NULL);
}

/* ---- the way out: other people's tar ---- */

static const char *const odd_keys[] = {"plain", "a/b/c.txt",   "a//b",    "../up",
                                       "dir/",  "\001control", "\303\244"};

/* Lists and extracts every segment with the tar of this machine; nothing on its stderr, and the bytes are those
 * that were put. */
static void
tar_all(void)
{
    static const char script[] =
        "cd '%s/native' && mkdir ../out && for s in *.tar; do"
        " tar -tvf $s >> ../list 2>> ../err && tar -C ../out -xf $s 2>> ../err || exit "
        "1; done"
        " && test ! -s ../err && grep -q 'bucket/a/b/c.txt' ../list && test \"$(grep -c "
        "' .forebay/id/' ../list)\" = 4"
        " && test $(stat -c %%s ../out/bucket/large) = 700000 && test $(stat -c %%s "
        "../out/bucket/one) = %u"
        " && cmp -n 400000 ../out/bucket/large ../out/bucket/larger";
    char command[1200];

    snprintf(command, sizeof command, script, world_path, BIG);
    CHECK(system(command) == 0);
}

static void
put_odd(void *arg)
{
    struct store_options o = world_options();
    struct store *d = world_open(&o);
    struct entry entry;

    (void)arg;
    for (unsigned i = 0; i < sizeof odd_keys / sizeof odd_keys[0]; i++)
        CHECK(world_put(d, odd_keys[i], data + i, 100 + i, &entry) == ERR_OK);
    CHECK(world_put(d, "large", data, 700000, &entry) == ERR_OK);
    CHECK(world_put(d, "larger", data, 400000, &entry) == ERR_OK);
    CHECK(world_put(d, "one", data, BIG, &entry) == ERR_OK);
    store_close(&d);
    tar_all();
}

static void
test_tar_reads_every_segment(void)
{
    if (system("tar --version >/dev/null 2>&1") != 0) {
        fprintf(stderr, "skipped: no tar here\n");
        return;
    }
    world_run(put_odd, NULL);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_WARN);
    data = malloc(BIG);
    world_fill(data, BIG, 1);
    RUN(test_roundtrip_and_reopen);
    RUN(test_tar_reads_every_segment);
    free(data);
    return check_done();
}
