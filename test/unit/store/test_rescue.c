/* What the tools for a stopped disk mend, and what they say of the rest: each kind of damage by itself; two hundred bits
 * and swapped blocks over segments; logs that are gone. Protects I3, I5 (and I1: nothing damaged is read). */
#include "base/mem.h"
#include "findings.h"
#include "rt/fiber.h"
#include "world_damage.h"

#define BIG (300u << 10)
static char *data;

static void
put_with_meta(struct store *d, const char *key, uint64_t size, struct entry *entry)
{
    struct store_key k = world_key(7, key);
    struct object_pair pair = {SPAN("colour"), SPAN("green")};
    struct object_meta meta = {.mtime_ms = 1700000000123,
                               .content_type = SPAN("text/x-green"),
                               .user = &pair,
                               .user_count = 1};
    struct store_writer *w;
    struct errbuf eb = {0};

    CHECK(store_write_begin(d, &k, STORE_NATIVE, size, &w, &eb) == ERR_OK);
    CHECK(store_write(w, data, size, &eb) == ERR_OK);
    CHECK(store_commit(&w, &meta, NULL, entry, &eb) == ERR_OK);
}

static bool
has_meta(struct store *d, const char *key)
{
    struct store_key k = world_key(7, key);
    struct arena *a = arena_new(4096, MIB(1));
    struct object_meta meta;
    struct errbuf eb = {0};
    struct entry entry;
    bool good = store_lookup(d, &k, &entry, &eb) == ERR_OK &&
                store_meta(d, &k, &entry, a, &meta, &eb) == ERR_OK &&
                meta.user_count == 1 && span_is(meta.content_type, "text/x-green") &&
                span_is(meta.user[0].value, "green");

    arena_free(&a);
    return good;
}

/* ---- one kind of damage at a time ---- */

static void
each_kind(void *arg)
{
    struct store *d = world_open(NULL);
    struct store_repaired r;
    struct store_checked c;
    struct findings h;
    struct entry first, second, small, own;

    (void)arg;
    put_with_meta(d, "first", BIG, &first);
    put_with_meta(d, "second", BIG, &second);
    CHECK(world_put(d, "small", data, 5000, &small) == ERR_OK);
    put_with_meta(d, "own", 17u << 20, &own);
    store_close(&d);
    h = repair(false, &r);
    CHECK(h.count + h.notes + h.mended == 0 && r.after.objects == 4);

    /* Headers of bodies come back from the records, metadata and all. */
    world_flip_at(world_file("native/body-000002.tar"), first.place.offset + 700);
    world_flip_at(world_file("native/one-000003.tar"), own.place.offset + 700);
    h = check(&c);
    CHECK(c.faults > 0);
    h = repair(false, &r);
    CHECK_STR(h.first[0] != '\0' ? "said" : "", "said");
    CHECK_U64(r.after.faults, 0);
    CHECK_U64(r.mended, 2);
    d = world_open(NULL);
    CHECK(has_meta(d, "first") && has_meta(d, "second") && has_meta(d, "own"));
    CHECK(world_get_damaged(d, "first", data, BIG) == ERR_OK);
    store_close(&d);

    /* Headers of segments, both superblocks, one after the other, the index. */
    world_flip_at(world_file("native/log-000001.tar"), 600);
    world_flip_at(world_file("native/body-000002.tar"), 600);
    world_flip_at(world_file("native/one-000003.tar"), 600);
    world_flip_at(world_file(".forebay/superblock"), 30);
    h = repair(false, &r);
    CHECK_U64(r.after.faults, 0);
    CHECK_U64(r.mended, 4);
    world_flip_at(world_file(".forebay/superblock"), 30);
    world_flip_at(world_file(".forebay/superblock.2"), 30);
    h = repair(false, &r);
    CHECK_U64(r.after.faults, 0);
    h = check(&c);
    CHECK_U64(c.faults + c.notes, 0);
    CHECK_U64(c.objects, 4);
}

static void
test_each_kind(void)
{
    world_run(each_kind, NULL);
}

/* A byte of one object in a batch of the log: that object is damaged, its neighbours are not, also when the index is
 * rebuilt; what it replaced does not come back. Dropped, it is gone for good. */
struct many {
    struct store *d;
    unsigned from;
};

static void
put_one(void *arg)
{
    struct many *m = arg;
    struct entry entry;
    char key[20];

    snprintf(key, sizeof key, "k%02u", m->from++);
    CHECK(world_put(m->d, key, data, 3000, &entry) == ERR_OK);
}

static void
one_of_a_batch(void *arg)
{
    struct store *d = world_open(NULL);
    struct many m = {d, 0};
    struct rt_group g;
    struct store_key k = world_key(7, "k07");
    struct store_repaired r;
    struct store_rebuilt rebuilt;
    struct store_rebuild_options o = {.from_bodies = false};
    struct errbuf eb = {0};
    struct findings h;
    struct entry entry;

    (void)arg;
    CHECK(world_put(d, "k07", data + 1, 2000, &entry) == ERR_OK); /* replaced below */
    rt_group_begin(&g);
    for (unsigned i = 0; i < 20; i++)
        CHECK(rt_group_start(&g, put_one, &m) == ERR_OK);
    rt_group_join(&g);
    CHECK(world_put(d, "later", data, 3000, &entry) == ERR_OK);
    CHECK(store_lookup(d, &k, &entry, &eb) == ERR_OK);
    store_close(&d);

    world_flip_at(world_file("native/log-000001.tar"), entry.place.offset + 1024 + 1500);
    CHECK(store_rebuild(world_path, &o, &rebuilt, &eb) == ERR_OK);
    CHECK(!rebuilt.wal_damaged); /* bytes are, no record is lost */
    CHECK_U64(rebuilt.objects, 21);
    h = repair(false, &r);
    CHECK_U64(h.count, 2); /* the first look, and what is left */
    CHECK_STR(h.damaged[0], "k07");
    d = world_open(NULL);
    for (unsigned i = 0; i < 20; i++) {
        char key[20];

        snprintf(key, sizeof key, "k%02u", i);
        if (i != 7)
            CHECK(world_get_damaged(d, key, data, 3000) == ERR_OK);
    }
    CHECK(store_lookup(d, &k, &entry, &eb) == ERR_OK);
    CHECK_U64(entry.size, 3000); /* not the version before */
    CHECK(world_get_damaged(d, "k07", data, 3000) == ERR_CORRUPT);
    store_close(&d);

    h = repair(true, &r);
    CHECK_U64(r.dropped, 1);
    d = world_open(NULL);
    CHECK(store_lookup(d, &k, &entry, &eb) == ERR_NOT_FOUND);
    CHECK(world_get_damaged(d, "k08", data, 3000) == ERR_OK);
    store_close(&d);
}

static void
test_one_of_a_batch(void)
{
    world_run(one_of_a_batch, NULL);
}

/* Two batches, one behind the other, and a byte of an object in each. What is found behind the first damage is the second
 * half of the second batch: what stands in front of it counts as well. */
static void
two_batches(void *arg)
{
    struct store *d = world_open(NULL);
    struct many m = {d, 0};
    struct store_rebuild_options o = {.from_bodies = false};
    struct store_rebuilt rebuilt;
    struct errbuf eb = {0};
    struct entry entries[2];

    (void)arg;
    for (unsigned n = 0; n < 2; n++) {
        struct store_key k = world_key(7, n == 0 ? "k03" : "k12");
        struct rt_group g;

        rt_group_begin(&g);
        for (unsigned i = 0; i < 10; i++)
            CHECK(rt_group_start(&g, put_one, &m) == ERR_OK);
        rt_group_join(&g);
        CHECK(store_lookup(d, &k, &entries[n], &eb) == ERR_OK);
    }
    put_one(&m);
    store_close(&d);

    world_flip_at(world_file("native/log-000001.tar"),
                  entries[0].place.offset + 1024 + 1500);
    world_flip_at(world_file("native/log-000001.tar"),
                  entries[1].place.offset + 1024 + 1500);
    CHECK(store_rebuild(world_path, &o, &rebuilt, &eb) == ERR_OK);
    CHECK_U64(rebuilt.objects, 21);
    d = world_open(NULL);
    for (unsigned i = 0; i < 21; i++) {
        char key[20];

        snprintf(key, sizeof key, "k%02u", i);
        CHECK(world_get_damaged(d, key, data, 3000) ==
              (i == 3 || i == 12 ? ERR_CORRUPT : ERR_OK));
    }
    store_close(&d);
}

static void
test_two_batches(void)
{
    world_run(two_batches, NULL);
}

/* ---- two hundred ---- */

#define OBJECTS 40u
static void
name_of(unsigned i, char key[20])
{
    snprintf(key, 20, "body-%02u", i);
}

/* Every object that was hit is named, no other is, and none of its bytes is given out. */
static void
hold_against(const bool hit[OBJECTS], const char *what)
{
    struct store_checked c;
    struct findings h = check(&c);
    struct store *d = world_open(NULL);

    for (unsigned i = 0; i < OBJECTS; i++) {
        char key[20];
        bool named = false;

        name_of(i, key);
        for (unsigned n = 0; n < h.count; n++)
            named |= strcmp(h.damaged[n], key) == 0;
        if (named != hit[i])
            fprintf(stderr, "%s: %s: hit %d, named %d\n", what, key, hit[i], named);
        CHECK(named == hit[i]);
        CHECK(world_get_damaged(d, key, data + i, BIG) ==
              (hit[i] ? ERR_CORRUPT : ERR_OK));
    }
    store_close(&d);
}

static void
flips_over_segments(void *arg)
{
    struct store *d = world_open(NULL);
    struct entry entries[OBJECTS];
    static char block[2][16384];
    char file[64];
    int fds[8] = {0};

    (void)arg;
    for (unsigned i = 0; i < OBJECTS; i++) {
        char key[20];

        name_of(i, key);
        CHECK(world_put(d, key, data + i, BIG, &entries[i]) == ERR_OK);
        CHECK(entries[i].place.segment < ARRAY_LEN(fds));
    }
    store_close(&d);
    for (unsigned i = 0; i < OBJECTS; i++) {
        snprintf(file, sizeof file, "native/body-%06u.tar", entries[i].place.segment);
        if (fds[entries[i].place.segment] == 0)
            fds[entries[i].place.segment] = world_file("%s", file);
    }
    for (unsigned round = 0; round < 10; round++) { /* 200 bits, in payload and sums */
        bool hit[OBJECTS] = {false};
        uint64_t bits[OBJECTS] = {0};

        for (unsigned n = 0; n < 20; n++) {
            unsigned i = (n * 2 + round) % OBJECTS;
            uint64_t at = n % 5 == 4 ? BIG + 512 + world_some(1000) : world_some(BIG);

            if (n % 5 == 4) /* in the header of the sums, which binds them */
                at = (BIG + 511) / 512 * 512 + 512 + world_some(300);
            bits[i] = (entries[i].place.offset + 4096 + at) * 8 + world_some(8);
            world_flip(fds[entries[i].place.segment], bits[i]);
            hit[i] = true;
        }
        hold_against(hit, "a bit");
        for (unsigned i = 0; i < OBJECTS; i++)
            if (hit[i])
                world_flip(fds[entries[i].place.segment], bits[i]);
    }
    for (unsigned n = 0; n < 5; n++) { /* blocks of two bodies change places */
        bool hit[OBJECTS] = {false};
        unsigned a = n * 3, b = n * 3 + 1;
        off_t pa = (off_t)(entries[a].place.offset + 4096 + 16384 * world_some(18));
        off_t pb = (off_t)(entries[b].place.offset + 4096 + 16384 * world_some(18));

        hit[a] = hit[b] = true;
        for (unsigned turn = 0; turn < 2; turn++) {
            int fa = fds[entries[a].place.segment], fb = fds[entries[b].place.segment];

            CHECK(pread(fa, block[0], 16384, pa) == 16384);
            CHECK(pread(fb, block[1], 16384, pb) == 16384);
            CHECK(pwrite(fa, block[1], 16384, pa) == 16384);
            CHECK(pwrite(fb, block[0], 16384, pb) == 16384);
            if (turn == 0)
                hold_against(hit, "a swapped block");
        }
    }
    hold_against((const bool[OBJECTS]){false}, "mended by hand");
    for (unsigned i = 0; i < ARRAY_LEN(fds); i++)
        if (fds[i] != 0)
            close(fds[i]);
}

static void
test_flips_over_segments(void)
{
    world_run(flips_over_segments, NULL);
}

/* ---- logs that are gone ---- */

static void
first_log(void *arg)
{
    struct store *d = world_open(NULL);
    char path[600];
    struct stat st;

    (void)arg;
    snprintf(path, sizeof path, "%s/native/log-000001.tar", world_path);
    CHECK(stat(path, &st) == 0 && st.st_size > 4096);
    store_close(&d);
}

/* A body without any log is what logs that are lost leave behind (docs/recovery.md). */
static void
test_the_first_log_comes_before_any_body(void)
{
    world_run(first_log, NULL);
}

static void
remove_logs(void)
{
    char path[600];
    DIR *dir;

    snprintf(path, sizeof path, "%s/native", world_path);
    dir = opendir(path);
    REQUIRE(dir != NULL);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        snprintf(path, sizeof path, "%s/native/%s", world_path, e->d_name);
        if (strncmp(e->d_name, "log-", 4) == 0)
            CHECK(unlink(path) == 0);
    }
    closedir(dir);
}

static void
lost_logs(void *arg)
{
    struct store *d = world_open(NULL);
    struct store_options o;
    struct store_key k = world_key(7, "deleted");
    struct store_rebuild_options r = {.from_bodies = true};
    struct store_rebuilt out;
    struct errbuf eb = {0};
    struct entry entry;
    char path[400];
    bool existed;

    (void)arg;
    put_with_meta(d, "kept", BIG, &entry);
    put_with_meta(d, "own", 17u << 20, &entry);
    CHECK(world_put(d, "deleted", data, BIG, &entry) == ERR_OK);
    CHECK(store_delete(d, &k, STORE_NATIVE, NULL, &existed, &eb) == ERR_OK && existed);
    CHECK(world_put(d, "in the log", data, 3000, &entry) == ERR_OK);
    store_close(&d);
    d = world_open(NULL);
    store_close(&d);
    snprintf(path, sizeof path, "%s/native/log-000001.tar", world_path);
    CHECK(unlink(path) == 0);

    /* Missing: what the index knows is served, and nothing is written. */
    o = world_options();
    CHECK(store_open(world_path, &o, &d, &eb) == ERR_OK);
    CHECK(world_get_damaged(d, "kept", data, BIG) == ERR_OK);
    CHECK(store_delete(d, &k, STORE_NATIVE, NULL, &existed, &eb) == ERR_IO);
    store_close(&d);
    /* A server that does not know which logs there must be does not go on with less than its index knows. */
    snprintf(path, sizeof path, "rm %s/.forebay/logs*", world_path);
    CHECK(system(path) == 0);
    snprintf(path, sizeof path, "rm %s/.forebay/durable", world_path);
    CHECK(system(path) == 0);
    o = world_options();
    CHECK(store_open(world_path, &o, &d, &eb) == ERR_CORRUPT);
    CHECK_SAYS(eb.text, "native/log-000001.tar, which is not there");
    snprintf(path, sizeof path, "%s/index/data.mdb", world_path);
    CHECK(unlink(path) == 0);
    o = world_options();
    CHECK(store_open(world_path, &o, &d, &eb) == ERR_CORRUPT);
    CHECK_SAYS(eb.text, "rebuild --from-bodies");

    r.dry_run = true;
    CHECK(store_rebuild(world_path, &r, &out, &eb) == ERR_OK);
    CHECK(out.bodies >= 2);
    r.dry_run = false;
    CHECK(store_rebuild(world_path, &r, &out, &eb) == ERR_OK);
    CHECK(out.wal_damaged);
    CHECK_U64(out.objects, out.bodies);
    d = world_open(NULL);
    CHECK(has_meta(d, "kept") && has_meta(d, "own"));
    CHECK(world_get_damaged(d, "kept", data, BIG) == ERR_OK);
    CHECK(world_get_damaged(d, "in the log", data, 3000) == ERR_NOT_FOUND);
    store_close(&d);
    CHECK(store_rebuild(world_path, &r, &out, &eb) == ERR_OK); /* all are known now */
    CHECK_U64(out.bodies, 0);
}

static void
test_lost_logs(void)
{
    world_run(lost_logs, NULL);
}

/* Bodies that came whole and were refused by their condition, one with another body behind it and one at the end of the
 * segment, are no younger versions of their keys. */
static void
refused_bodies(void *arg)
{
    struct store *d = world_open(NULL);
    struct store_condition only_new = {.if_absent = true};
    struct store_rebuild_options r = {.from_bodies = true};
    struct store_key k = world_key(7, "second");
    struct object_meta meta = {.mtime_ms = 1700000000123};
    struct store_writer *w;
    struct store_rebuilt out;
    struct errbuf eb = {0};
    struct entry entry;
    char path[400];

    (void)arg;
    CHECK(world_put(d, "first", data, BIG, &entry) == ERR_OK);
    CHECK(world_put(d, "second", data, BIG, &entry) == ERR_OK);
    CHECK(store_write_begin(d, &k, STORE_NATIVE, BIG + 1, &w, &eb) == ERR_OK);
    CHECK(store_write(w, data + 1, BIG + 1, &eb) == ERR_OK);
    CHECK(world_put(d, "third", data, BIG, &entry) == ERR_OK);
    CHECK(store_commit(&w, &meta, &only_new, &entry, &eb) == ERR_PRECONDITION);
    CHECK(world_put_class(d, STORE_NATIVE, "first", data + 1, BIG + 1, true, &only_new,
                          &entry) == ERR_PRECONDITION);
    store_close(&d);
    remove_logs();
    snprintf(path, sizeof path, "%s/index/data.mdb", world_path);
    CHECK(unlink(path) == 0);

    CHECK(store_rebuild(world_path, &r, &out, &eb) == ERR_OK);
    CHECK_U64(out.bodies, 3);
    d = world_open(NULL);
    CHECK(world_get_damaged(d, "first", data, BIG) == ERR_OK);
    CHECK(world_get_damaged(d, "second", data, BIG) == ERR_OK);
    CHECK(world_get_damaged(d, "third", data, BIG) == ERR_OK);
    store_close(&d);
}

/* A younger body of which only the header is right, as a cut leaves it, does not come over the one that is whole. */
static void
torn_body(void *arg)
{
    struct store *d = world_open(NULL);
    struct store_rebuild_options r = {.from_bodies = true};
    struct store_rebuilt out;
    struct errbuf eb = {0};
    struct entry old, young;
    char path[400];
    int fd;

    (void)arg;
    CHECK(world_put(d, "key", data, BIG, &old) == ERR_OK);
    CHECK(world_put(d, "key", data + 1, BIG, &young) == ERR_OK);
    CHECK_U64(old.place.segment, young.place.segment);
    store_close(&d);
    snprintf(path, sizeof path, "%s/native/body-%06u.tar", world_path,
             young.place.segment);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    REQUIRE(fd >= 0);
    CHECK(pwrite(fd, "torn", 4, (off_t)young.place.offset + 4096 + 70000) == 4);
    close(fd);
    remove_logs();
    snprintf(path, sizeof path, "%s/index/data.mdb", world_path);
    CHECK(unlink(path) == 0);

    CHECK(store_rebuild(world_path, &r, &out, &eb) == ERR_OK);
    CHECK_U64(out.bodies, 1);
    d = world_open(NULL);
    CHECK(world_get_damaged(d, "key", data, BIG) == ERR_OK);
    store_close(&d);
}

static void
test_torn_body(void)
{
    world_run(torn_body, NULL);
}

static void
test_refused_bodies(void)
{
    world_run(refused_bodies, NULL);
}

int
main(int argc, char **argv)
{
    log_set_level(LOG_ERROR + 1);
    data = xmalloc(18u << 20);
    world_fill(data, 18u << 20, 7);
    CHECK_MAIN(argc, argv);
    RUN(test_each_kind);
    RUN(test_one_of_a_batch);
    RUN(test_two_batches);
    RUN(test_flips_over_segments);
    RUN(test_the_first_log_comes_before_any_body);
    RUN(test_lost_logs);
    RUN(test_torn_body);
    RUN(test_refused_bodies);
    free(data);
    return check_done();
}
