/* What the tools for a stopped disk mend, and what they say of the rest: each kind of damage by itself; two hundred bits
 * and swapped blocks over segments, as many bits over the index. Protects I3, I5 (and I1: nothing damaged is read). */
#include "world.h"

#include <errno.h>

#include "base/mem.h"
#include "disk/index.h"
#include "disk/index_probe.h"
#include "disk/internal.h"
#include "disk/rescue.h"
#include "disk/segment.h"
#include "rt/fiber.h"

#define BIG (300u << 10)
static char *data;

#define NAMES_MAX 200u
static char names[NAMES_MAX]
                 [64]; /* of the latest check or repair: too large for a fiber's stack */

struct heard {
    char (*damaged)[64]; /* `names` */
    unsigned count, notes, mended;
    char first[512];
};

/* The key in a sentence: object "KEY" of bucket 7. */
static void
take_key(struct heard *h, const char *sentence)
{
    const char *at = strstr(sentence, "object \""), *end;

    if (at == NULL || h->count == NAMES_MAX)
        return;
    at += strlen("object \"");
    end = strchr(at, '"');
    snprintf(h->damaged[h->count++], sizeof h->damaged[0], "%.*s", (int)(end - at), at);
}

static void
hear(void *arg, enum disk_says what, const char *sentence)
{
    struct heard *h = arg;

    if (what == DISK_SAYS_DAMAGED && h->first[0] == '\0')
        snprintf(h->first, sizeof h->first, "%s", sentence);
    if (what == DISK_SAYS_DAMAGED)
        take_key(h, sentence);
    h->notes += what == DISK_SAYS_NOTE;
    h->mended += what == DISK_SAYS_MENDED;
}

static void
hear_check(void *arg, bool fault, const char *sentence)
{
    hear(arg, fault ? DISK_SAYS_DAMAGED : DISK_SAYS_NOTE, sentence);
}

static void
scratch_of(char out[256])
{
    snprintf(out, 256, "%.*s", (int)(strlen(world_path) - 5), world_path);
}

static struct heard
check(struct disk_checked *out)
{
    struct heard h = {.damaged = names};
    struct errbuf eb = {0};
    char scratch[256];

    scratch_of(scratch);
    if (disk_check(world_path, scratch, hear_check, &h, out, &eb) != ERR_OK)
        CHECK_STR(eb.text, "");
    return h;
}

static struct heard
repair(bool drop, struct disk_repaired *out)
{
    struct heard h = {.damaged = names};
    struct errbuf eb = {0};
    char scratch[256];
    struct disk_repair_options o = {
        .scratch = scratch, .drop_damaged = drop, .say = hear, .arg = &h};

    scratch_of(scratch);
    if (disk_repair(world_path, &o, out, &eb) != ERR_OK)
        CHECK_STR(eb.text, "");
    return h;
}

static int
open_file(const char *name)
{
    char path[400];
    int fd;

    snprintf(path, sizeof path, "%s/%s", world_path, name);
    fd = open(path, O_RDWR);
    if (fd < 0) {
        perror(path);
        abort();
    }
    return fd;
}

static void
flip(int fd, uint64_t bit)
{
    unsigned char c = 0;

    CHECK(pread(fd, &c, 1, (off_t)(bit / 8)) == 1);
    c ^= (unsigned char)(1u << (bit % 8));
    CHECK(pwrite(fd, &c, 1, (off_t)(bit / 8)) == 1);
}

static void
flip_in(const char *name, uint64_t at)
{
    int fd = open_file(name);

    flip(fd, at * 8 + 3);
    close(fd);
}

static uint64_t
some(uint64_t below)
{
    static uint64_t state = 20261121;

    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 20) % below;
}

static void
put_with_meta(struct disk *d, const char *key, uint64_t size, struct row *row)
{
    struct disk_key k = world_key(7, key);
    struct object_pair pair = {SPAN("colour"), SPAN("green")};
    struct object_meta meta = {.mtime_ms = 1700000000123,
                               .content_type = SPAN("text/x-green"),
                               .user = &pair,
                               .user_count = 1};
    struct disk_writer *w;
    struct errbuf eb = {0};

    CHECK(disk_write_begin(d, &k, DISK_NATIVE, size, &w, &eb) == ERR_OK);
    CHECK(disk_write(w, data, size, &eb) == ERR_OK);
    CHECK(disk_commit(&w, &meta, NULL, row, &eb) == ERR_OK);
}

static bool
has_meta(struct disk *d, const char *key)
{
    struct disk_key k = world_key(7, key);
    struct arena *a = arena_new(4096, MIB(1));
    struct object_meta meta;
    struct errbuf eb = {0};
    struct row row;
    bool good = disk_lookup(d, &k, &row, &eb) == ERR_OK &&
                disk_meta(d, &k, &row, a, &meta, &eb) == ERR_OK && meta.user_count == 1 &&
                span_is(meta.content_type, "text/x-green") &&
                span_is(meta.user[0].value, "green");

    arena_free(&a);
    return good;
}

/* As world_get(), for what may be damaged. Bytes that are not as written fail the test. */
static enum err
get(struct disk *d, const char *key, const char *want, uint64_t len)
{
    struct disk_key k = world_key(7, key);
    struct disk_reader *r = NULL;
    struct errbuf eb = {0};
    struct span piece = {"", 1};
    struct row row;
    uint64_t at = 0;
    enum err rc = disk_lookup(d, &k, &row, &eb);

    if (rc == ERR_OK)
        rc = disk_read_begin(d, &k, &row, 0, row.size, &r, &eb);
    while (rc == ERR_OK && piece.len > 0) {
        rc = disk_read_next(r, DEADLINE_NEVER, &piece, &eb);
        if (rc == ERR_OK)
            CHECK(at + piece.len <= len && memcmp(piece.at, want + at, piece.len) == 0);
        at += rc == ERR_OK ? piece.len : 0;
    }
    disk_read_end(&r);
    if (rc == ERR_OK)
        CHECK_U64(at, len);
    return rc;
}

/* ---- one kind of damage at a time ---- */

static void
each_kind(void *arg)
{
    struct disk *d = world_open(NULL);
    struct disk_repaired r;
    struct disk_checked c;
    struct heard h;
    struct row first, second, small, own;

    (void)arg;
    put_with_meta(d, "first", BIG, &first);
    put_with_meta(d, "second", BIG, &second);
    CHECK(world_put(d, "small", data, 5000, &small) == ERR_OK);
    put_with_meta(d, "own", 17u << 20, &own);
    disk_close(&d);
    h = repair(false, &r);
    CHECK(h.count + h.notes + h.mended == 0 && r.after.objects == 4);

    /* Headers of bodies come back from the records, metadata and all. */
    flip_in("native/body-000002.tar", first.offset + 700);
    flip_in("native/one-000003.tar", own.offset + 700);
    h = check(&c);
    CHECK(c.faults > 0);
    h = repair(false, &r);
    CHECK_STR(h.first[0] != '\0' ? "said" : "", "said");
    CHECK_U64(r.after.faults, 0);
    CHECK_U64(r.mended, 2);
    d = world_open(NULL);
    CHECK(has_meta(d, "first") && has_meta(d, "second") && has_meta(d, "own"));
    CHECK(get(d, "first", data, BIG) == ERR_OK);
    disk_close(&d);

    /* Headers of segments, both superblocks, one after the other, the index. */
    flip_in("native/log-000001.tar", 600);
    flip_in("native/body-000002.tar", 600);
    flip_in("native/one-000003.tar", 600);
    flip_in(".forebay/superblock", 30);
    h = repair(false, &r);
    CHECK_U64(r.after.faults, 0);
    CHECK_U64(r.mended, 4);
    flip_in(".forebay/superblock", 30);
    flip_in(".forebay/superblock.2", 30);
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

/* A byte of one object in a group of the log: that object is damaged, its neighbours are not, also when the index is
 * made anew; what it replaced does not come back. Dropped, it is gone for good. */
struct many {
    struct disk *d;
    unsigned from;
};

static void
put_one(void *arg)
{
    struct many *m = arg;
    struct row row;
    char key[20];

    snprintf(key, sizeof key, "k%02u", m->from++);
    CHECK(world_put(m->d, key, data, 3000, &row) == ERR_OK);
}

static void
one_of_a_group(void *arg)
{
    struct disk *d = world_open(NULL);
    struct many m = {d, 0};
    struct rt_group g;
    struct disk_key k = world_key(7, "k07");
    struct disk_repaired r;
    struct disk_rebuilt rebuilt;
    struct disk_rebuild_options o = {.from_bodies = false};
    struct errbuf eb = {0};
    struct heard h;
    struct row row;

    (void)arg;
    CHECK(world_put(d, "k07", data + 1, 2000, &row) == ERR_OK); /* replaced below */
    rt_group_begin(&g);
    for (unsigned i = 0; i < 20; i++)
        CHECK(rt_group_start(&g, put_one, &m) == ERR_OK);
    rt_group_join(&g);
    CHECK(world_put(d, "later", data, 3000, &row) == ERR_OK);
    CHECK(disk_lookup(d, &k, &row, &eb) == ERR_OK);
    disk_close(&d);

    flip_in("native/log-000001.tar", row.offset + 1024 + 1500);
    CHECK(disk_rebuild(world_path, &o, &rebuilt, &eb) == ERR_OK);
    CHECK(!rebuilt.log_damaged); /* bytes are, no record is lost */
    CHECK_U64(rebuilt.objects, 21);
    h = repair(false, &r);
    CHECK_U64(h.count, 2); /* the first look, and what is left */
    CHECK_STR(h.damaged[0], "k07");
    d = world_open(NULL);
    for (unsigned i = 0; i < 20; i++) {
        char key[20];

        snprintf(key, sizeof key, "k%02u", i);
        if (i != 7)
            CHECK(get(d, key, data, 3000) == ERR_OK);
    }
    CHECK(disk_lookup(d, &k, &row, &eb) == ERR_OK);
    CHECK_U64(row.size, 3000); /* not the version before */
    CHECK(get(d, "k07", data, 3000) == ERR_CORRUPT);
    disk_close(&d);

    h = repair(true, &r);
    CHECK_U64(r.dropped, 1);
    d = world_open(NULL);
    CHECK(disk_lookup(d, &k, &row, &eb) == ERR_NOT_FOUND);
    CHECK(get(d, "k08", data, 3000) == ERR_OK);
    disk_close(&d);
}

static void
test_one_of_a_group(void)
{
    world_run(one_of_a_group, NULL);
}

/* Two groups, one behind the other, and a byte of an object in each. What is found behind the first damage is the second
 * half of the second group: what stands in front of it counts as well. */
static void
two_groups(void *arg)
{
    struct disk *d = world_open(NULL);
    struct many m = {d, 0};
    struct disk_rebuild_options o = {.from_bodies = false};
    struct disk_rebuilt rebuilt;
    struct errbuf eb = {0};
    struct row rows[2];

    (void)arg;
    for (unsigned n = 0; n < 2; n++) {
        struct disk_key k = world_key(7, n == 0 ? "k03" : "k12");
        struct rt_group g;

        rt_group_begin(&g);
        for (unsigned i = 0; i < 10; i++)
            CHECK(rt_group_start(&g, put_one, &m) == ERR_OK);
        rt_group_join(&g);
        CHECK(disk_lookup(d, &k, &rows[n], &eb) == ERR_OK);
    }
    put_one(&m);
    disk_close(&d);

    flip_in("native/log-000001.tar", rows[0].offset + 1024 + 1500);
    flip_in("native/log-000001.tar", rows[1].offset + 1024 + 1500);
    CHECK(disk_rebuild(world_path, &o, &rebuilt, &eb) == ERR_OK);
    CHECK_U64(rebuilt.objects, 21);
    d = world_open(NULL);
    for (unsigned i = 0; i < 21; i++) {
        char key[20];

        snprintf(key, sizeof key, "k%02u", i);
        CHECK(get(d, key, data, 3000) == (i == 3 || i == 12 ? ERR_CORRUPT : ERR_OK));
    }
    disk_close(&d);
}

static void
test_two_groups(void)
{
    world_run(two_groups, NULL);
}

/* ---- a log without its head ---- */

#define FILLER (200u << 10) /* five of these fill a log of 1 MiB */

static const struct segment *
log_now(const struct disk *d)
{
    return d->home.log[DISK_NATIVE].now;
}

/* Numbered objects until the next log is begun, and one more; how many there are. */
static unsigned
fill_log(struct disk *d, unsigned from)
{
    const struct segment *was = log_now(d);
    struct row row;
    char key[20];

    do {
        snprintf(key, sizeof key, "f%02u", from++);
        CHECK(world_put(d, key, data, FILLER, &row) == ERR_OK);
    } while (log_now(d) == was);
    return from;
}

/* Header and the first bytes of the first group. */
static void
behead(uint32_t log, bool zeros)
{
    char name[40], block[4096];
    int fd;

    snprintf(name, sizeof name, "native/log-%06u.tar", (unsigned)log);
    flip_in(name, 600);
    fd = open_file(name);
    memset(block, zeros ? 0 : 0x55, sizeof block);
    CHECK(pwrite(fd, block, sizeof block, 4096) == (ssize_t)sizeof block);
    close(fd);
}

static void
lose_index(void)
{
    char command[400];

    snprintf(command, sizeof command, "rm -r '%s/index'", world_path);
    CHECK(system(command) == 0);
}

/* Which of these objects are there, whole. */
static unsigned
count_good(struct disk *d, unsigned count)
{
    unsigned good = 0;

    for (unsigned i = 0; i < count; i++) {
        char key[20];

        snprintf(key, sizeof key, "f%02u", i);
        good += get(d, key, data, FILLER) == ERR_OK;
    }
    return good;
}

/* Of three logs one loses both: only what its first group said is lost, with the index and without. */
static void
headless(void *arg)
{
    const unsigned which = *(const unsigned *)arg;
    struct disk_rebuild_options o = {.from_bodies = false};
    struct disk *d = world_open_small_logs();
    struct disk_rebuilt rebuilt;
    struct disk_checked c;
    struct errbuf eb = {0};
    struct row row;
    uint32_t logs[3];
    unsigned count = 0;

    for (unsigned i = 0; i < 3; i++) {
        CHECK(world_put(d, "first", data, 10, &row) == ERR_OK);
        logs[i] = log_now(d)->id;
        count = fill_log(d, count);
    }
    CHECK(disk_settle(d, &eb) == ERR_OK);
    disk_close(&d);
    behead(logs[which], false);
    CHECK(check(&c).count > 0 || c.faults > 0);
    d = world_open_small_logs(); /* the index has it all */
    CHECK(count_good(d, count) >= count - 1);
    disk_close(&d);
    CHECK(disk_rebuild(world_path, &o, &rebuilt, &eb) == ERR_OK);
    CHECK(rebuilt.log_damaged);
    d = world_open_small_logs();
    CHECK(count_good(d, count) >= count - 1);
    CHECK(world_put(d, "later", data, 5000, &row) == ERR_OK);
    disk_close(&d);
    lose_index();
    d = world_open_small_logs();
    CHECK(count_good(d, count) >= count - 1 && get(d, "later", data, 5000) == ERR_OK);
    disk_close(&d);
}

static void
test_a_log_without_its_head(void)
{
    for (unsigned which = 0; which < 3; which++)
        world_run(headless, &which);
}

/* A log that was used again: what stands behind its lost head is of its former life, and stays away. */
static void
headless_again(void *arg)
{
    struct disk_rebuild_options o = {.from_bodies = false};
    struct disk *d = world_open_small_logs();
    struct disk_key old = world_key(7, "old");
    struct disk_rebuilt rebuilt;
    struct errbuf eb = {0};
    struct row row;
    uint32_t first;
    unsigned count;
    bool existed;

    CHECK(world_put(d, "before", data, 3000, &row) == ERR_OK);
    CHECK(world_put(d, "old", data, 3000, &row) == ERR_OK);
    first = log_now(d)->id;
    count = fill_log(d, 0);
    CHECK(disk_delete(d, &old, DISK_NATIVE, NULL, &existed, &eb) == ERR_OK && existed);
    for (unsigned i = 0; i + 1 < count; i++) {
        char key[20];
        struct disk_key k;

        snprintf(key, sizeof key, "f%02u", i);
        k = world_key(7, key);
        CHECK(disk_delete(d, &k, DISK_NATIVE, NULL, &existed, &eb) == ERR_OK);
    }
    CHECK(disk_settle(d, &eb) == ERR_OK);
    segment_drop_spare(d, DISK_NATIVE); /* so that the log which goes takes its place */
    CHECK(disk_compact(d, &eb) == ERR_OK);
    count = fill_log(d, count);
    REQUIRE(log_now(d)->id == first && log_now(d)->generation > 1);
    disk_close(&d);
    behead(first, arg != NULL);
    CHECK(disk_rebuild(world_path, &o, &rebuilt, &eb) == ERR_OK);
    d = world_open_small_logs();
    CHECK(disk_lookup(d, &old, &row, &eb) == ERR_NOT_FOUND);
    CHECK(get(d, "before", data, 3000) == ERR_OK);
    disk_close(&d);
}

static void
test_a_lost_head_brings_no_former_life_back(void)
{
    bool zeros = true;

    world_run(headless_again, NULL);
    world_run(headless_again, &zeros);
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
    struct disk_checked c;
    struct heard h = check(&c);
    struct disk *d = world_open(NULL);

    for (unsigned i = 0; i < OBJECTS; i++) {
        char key[20];
        bool named = false;

        name_of(i, key);
        for (unsigned n = 0; n < h.count; n++)
            named |= strcmp(h.damaged[n], key) == 0;
        if (named != hit[i])
            fprintf(stderr, "%s: %s: hit %d, named %d\n", what, key, hit[i], named);
        CHECK(named == hit[i]);
        CHECK(get(d, key, data + i, BIG) == (hit[i] ? ERR_CORRUPT : ERR_OK));
    }
    disk_close(&d);
}

static void
flips_over_segments(void *arg)
{
    struct disk *d = world_open(NULL);
    struct row rows[OBJECTS];
    static char block[2][16384];
    char file[64];
    int fds[8] = {0};

    (void)arg;
    for (unsigned i = 0; i < OBJECTS; i++) {
        char key[20];

        name_of(i, key);
        CHECK(world_put(d, key, data + i, BIG, &rows[i]) == ERR_OK);
        CHECK(rows[i].segment < ARRAY_LEN(fds));
    }
    disk_close(&d);
    for (unsigned i = 0; i < OBJECTS; i++) {
        snprintf(file, sizeof file, "native/body-%06u.tar", rows[i].segment);
        if (fds[rows[i].segment] == 0)
            fds[rows[i].segment] = open_file(file);
    }
    for (unsigned round = 0; round < 10; round++) { /* 200 bits, in payload and sums */
        bool hit[OBJECTS] = {false};
        uint64_t bits[OBJECTS] = {0};

        for (unsigned n = 0; n < 20; n++) {
            unsigned i = (n * 2 + round) % OBJECTS;
            uint64_t at = n % 5 == 4 ? BIG + 512 + some(1000) : some(BIG);

            if (n % 5 == 4) /* in the header of the sums, which binds them */
                at = (BIG + 511) / 512 * 512 + 512 + some(300);
            bits[i] = (rows[i].offset + 4096 + at) * 8 + some(8);
            flip(fds[rows[i].segment], bits[i]);
            hit[i] = true;
        }
        hold_against(hit, "a bit");
        for (unsigned i = 0; i < OBJECTS; i++)
            if (hit[i])
                flip(fds[rows[i].segment], bits[i]);
    }
    for (unsigned n = 0; n < 5; n++) { /* blocks of two bodies change places */
        bool hit[OBJECTS] = {false};
        unsigned a = n * 3, b = n * 3 + 1;
        off_t pa = (off_t)(rows[a].offset + 4096 + 16384 * some(18));
        off_t pb = (off_t)(rows[b].offset + 4096 + 16384 * some(18));

        hit[a] = hit[b] = true;
        for (unsigned turn = 0; turn < 2; turn++) {
            int fa = fds[rows[a].segment], fb = fds[rows[b].segment];

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

static bool
all_there(void)
{
    struct disk *d = world_open(NULL);
    bool good = true;

    for (unsigned i = 0; i < 60; i++) {
        char key[20];

        snprintf(key, sizeof key, "small-%02u", i);
        good &= get(d, key, data + i, 100 + i) == ERR_OK;
    }
    disk_close(&d);
    return good;
}

/* Ten bits at a time: the check sees a difference, or there is none; a rebuild makes it whole. */
static void
flips_over_the_index(void *arg)
{
    struct disk *d = world_open(NULL);
    struct stat st;
    char path[400];
    unsigned seen = 0;

    (void)arg;
    for (unsigned i = 0; i < 60; i++) {
        struct row row;
        char key[20];

        snprintf(key, sizeof key, "small-%02u", i);
        CHECK(world_put(d, key, data + i, 100 + i, &row) == ERR_OK);
    }
    disk_close(&d);
    snprintf(path, sizeof path, "%s/index/data.mdb", world_path);
    for (unsigned round = 0; round < 20; round++) {
        struct disk_rebuild_options o = {.from_bodies = false};
        struct disk_rebuilt rebuilt;
        struct disk_checked c;
        struct errbuf eb = {0};
        struct heard h;
        int fd = open_file("index/data.mdb");

        CHECK(stat(path, &st) == 0);
        for (unsigned n = 0; n < 10; n++)
            flip(fd, some((uint64_t)st.st_size * 8));
        close(fd);
        h = check(&c);
        CHECK_U64(c.objects, 60); /* what lives is known from the logs */
        seen += c.faults > 0 || h.notes > 0;
        if (c.faults == 0 && h.notes == 0) /* they hit nothing that is used */
            CHECK(all_there());
        CHECK(disk_rebuild(world_path, &o, &rebuilt, &eb) == ERR_OK);
        CHECK_U64(rebuilt.objects, 60);
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
read_small(struct disk *d)
{
    struct answers n = {0};

    for (unsigned i = 0; i < 60; i++) {
        char key[20];
        enum err rc;

        snprintf(key, sizeof key, "small-%02u", i);
        rc = get(d, key, data + i, 100 + i);
        n.good += rc == ERR_OK;
        n.missing += rc == ERR_NOT_FOUND;
        n.refused += rc == ERR_CORRUPT || rc == ERR_IO;
    }
    CHECK_U64(n.good + n.refused + n.missing, 60);
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
    int fd = open_file("index/data.mdb");
    struct stat st;
    uint64_t pages;

    CHECK(fstat(fd, &st) == 0);
    pages = (uint64_t)st.st_size / 4096;
    for (unsigned n = 0; n < 4; n++)
        flip(fd, 2 * 4096 * 8 + some((pages - 2) * 4096 * 8));
    for (unsigned n = 0; n < swaps; n++)
        swap_pages(fd, 2 + some(pages - 2), 2 + some(pages - 2));
    close(fd);
}

/* What is damaged before a start is made anew by it. Under an open disk: what is known to be damaged is not believed when it
 * says that a key is not there, all of it is known when the index was verified, and the next start has everything. */
static void
damaged_index_serves(void *arg)
{
    struct disk *d = world_open(NULL);
    unsigned refused = 0, found = 0;

    (void)arg;
    for (unsigned i = 0; i < 60; i++) {
        struct row row;
        char key[20];

        snprintf(key, sizeof key, "small-%02u", i);
        CHECK(world_put(d, key, data + i, 100 + i, &row) == ERR_OK);
    }
    disk_close(&d);
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
            CHECK_U64(second.good, 60);
        disk_close(&d);
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
    int fd = open_file("index/data.mdb");
    char *all, *at, *end;

    CHECK(fstat(fd, &st) == 0);
    all = xmalloc((size_t)st.st_size);
    end = all + st.st_size;
    CHECK(pread(fd, all, (size_t)st.st_size, 0) == st.st_size);
    for (at = all; (at = memmem(at, (size_t)(end - at), key, strlen(key))) != NULL;) {
        flip(fd, (uint64_t)(at - all) * 8 + ahead * 8);
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

/* An older index, one row of it damaged, and logs that go on behind it with this very key: the start that meets it has the
 * index made anew at once. */
static void
replay_meets_damage(void *arg)
{
    struct disk_options o;
    struct disk_ids ids = {0};
    struct disk_identity found;
    struct errbuf eb = {0};
    struct disk *d;

    (void)arg;
    for (unsigned round = 0; round < 2; round++) {
        d = world_open(NULL);
        for (unsigned i = 0; i < 60; i++) {
            struct row row;
            char key[20];

            snprintf(key, sizeof key, "small-%02u", i);
            CHECK(world_put(d, key, data + i, 100 + i, &row) == ERR_OK);
        }
        disk_close(&d);
        if (round == 0)
            copy_index("index/data.mdb", "older");
    }
    copy_index("older", "index/data.mdb");
    flip_index_at("small-31", strlen("small-31") + 9);
    index_probe_all_of = 0; /* as if it were a large one */
    CHECK(disk_identify(world_path, &found, &eb) == ERR_OK);
    o = world_options();
    o.ids = &ids;
    o.epoch = MAX(o.epoch, found.epoch + 1);
    REQUIRE(disk_open(world_path, &o, &d, &eb) ==
            ERR_OK); /* of a node that counts epochs */
    disk_close(&d);
    CHECK(disk_identify(world_path, &found, &eb) == ERR_OK);
    CHECK_U64(found.epoch, o.epoch);
    CHECK(all_there());
    index_probe_all_of = MIB(32);
}

static void
test_a_replay_that_meets_a_damaged_row(void)
{
    world_run(replay_meets_damage, NULL);
}

/* The bit lies in the space in front of the key: the row stands at its place, and searches around it go astray; to a listing, and
 * to a scrub that lists, the bucket ends before it. */
static void
hidden_in_another_bucket(void)
{
    struct disk *d = world_open(NULL);
    struct errbuf eb = {0};
    struct answers n;

    CHECK(index_verify(d->index, NULL, NULL, &eb) == ERR_OK);
    flip_index_at("small-27", (size_t)-3);
    CHECK(index_verify(d->index, NULL, NULL, &eb) == ERR_CORRUPT);
    CHECK_SAYS(eb.text, "has a key that no search comes to");
    n = read_small(d);
    CHECK(n.missing == 0 && n.refused > 0 && n.good > 0);
    disk_close(&d);
    CHECK(all_there());
}

/* A bit of its key hides a row: wherever that stands now, the object is not said to be missing, and the next start has it. */
static void
hidden_row(void *arg)
{
    static const char *const keys[] = {"small-01", "small-31", "small-59", "small-42"};

    (void)arg;
    for (unsigned i = 0; i < ARRAY_LEN(keys); i++) {
        struct disk *d = world_open(NULL);
        struct errbuf eb = {0};
        struct disk_key k = world_key(7, keys[i]), none = world_key(7, "small-3");
        struct row row;

        for (unsigned n = 0; n < 60; n++) {
            char key[20];

            snprintf(key, sizeof key, "small-%02u", n);
            CHECK(world_put(d, key, data + n, 100 + n, &row) == ERR_OK);
        }
        CHECK(disk_settle(d, &eb) == ERR_OK);
        CHECK(disk_lookup(d, &none, &row, &eb) == ERR_NOT_FOUND);
        disk_close(&d);
        d = world_open(NULL);
        flip_index_at(keys[i], i % 2 == 0 ? 7 : 5);
        CHECK(disk_lookup(d, &k, &row, &eb) == ERR_CORRUPT);
        CHECK(disk_lookup(d, &none, &row, &eb) == ERR_CORRUPT); /* who knows, now */
        disk_close(&d);
        CHECK(all_there());
    }
    hidden_in_another_bucket();
}

static void
test_a_row_that_a_bit_hides_is_not_missing(void)
{
    world_run(hidden_row, NULL);
}

static void
put_small(unsigned from, unsigned to)
{
    struct disk *d = world_open(NULL);

    for (unsigned n = from; n < to; n++) {
        struct row row;
        char key[20];

        snprintf(key, sizeof key, "small-%02u", n);
        CHECK(world_put(d, key, data + n, 100 + n, &row) == ERR_OK);
    }
    disk_close(&d);
}

static bool
verified(void)
{
    struct rt_dir *dir;
    struct index_options o = {.read_only = true};
    struct index_covered covered;
    struct disk_identity found;
    enum index_state state;
    struct index *x;
    struct errbuf eb = {0};
    bool good;

    CHECK(rt_dir_open(world_path, &dir, &eb) == ERR_OK);
    o.dir = dir;
    CHECK(disk_identify(world_path, &found, &eb) == ERR_OK);
    memcpy(o.disk_id, found.disk_id, sizeof o.disk_id);
    CHECK(index_open(&o, &x, &state, &covered, &eb) == ERR_OK);
    good = x != NULL && index_verify(x, NULL, NULL, &eb) == ERR_OK;
    index_close(&x);
    rt_dir_close(&dir);
    return good;
}

/* A page of the index that is an older state of itself, or another: its rows have the right sums, and those that should stand
 * there are hidden. A bit in what leads to the pages, or in the list of free ones, hides rows as well, now or later. What is
 * found good has everything, without that a start looks at it; what is not is made anew by the start. */
static void
each_page(void *arg)
{
    struct stat st;
    char path[400];
    uint64_t pages;
    unsigned found = 0;

    (void)arg;
    put_small(0, 20);
    put_small(10, 60);
    copy_index("index/data.mdb", "newer");
    snprintf(path, sizeof path, "%s/newer", world_path);
    CHECK(stat(path, &st) == 0);
    pages = (uint64_t)st.st_size / 4096;
    CHECK(verified());
    for (uint64_t p = 2; p < pages; p++)
        for (unsigned how = 0; how < 5; how++) {
            int fd;

            copy_index("newer", "index/data.mdb");
            fd = open_file("index/data.mdb");
            if (how < 2)
                other_page(fd, p, 2 + some(pages - 2));
            else if (how == 2)
                swap_pages(fd, p, 2 + some(pages - 2));
            else
                flip(fd, 4096 * 8 * p + some((how == 3 ? 64 : 4096) * 8));
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

static void
first_log(void *arg)
{
    struct disk *d = world_open(NULL);
    char path[600];
    struct stat st;

    (void)arg;
    snprintf(path, sizeof path, "%s/native/log-000001.tar", world_path);
    CHECK(stat(path, &st) == 0 && st.st_size > 4096);
    disk_close(&d);
}

/* A body without any log is what logs that are lost leave behind (docs/recovery.md). */
static void
test_the_first_log_comes_before_any_body(void)
{
    world_run(first_log, NULL);
}

/* ---- logs that are gone ---- */

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
    struct disk *d = world_open(NULL);
    struct disk_options o;
    struct disk_key k = world_key(7, "deleted");
    struct disk_rebuild_options r = {.from_bodies = true};
    struct disk_rebuilt out;
    struct errbuf eb = {0};
    struct row row;
    char path[400];
    bool existed;

    (void)arg;
    put_with_meta(d, "kept", BIG, &row);
    put_with_meta(d, "own", 17u << 20, &row);
    CHECK(world_put(d, "deleted", data, BIG, &row) == ERR_OK);
    CHECK(disk_delete(d, &k, DISK_NATIVE, NULL, &existed, &eb) == ERR_OK && existed);
    CHECK(world_put(d, "in the log", data, 3000, &row) == ERR_OK);
    disk_close(&d);
    d = world_open(NULL);
    disk_close(&d);
    snprintf(path, sizeof path, "%s/native/log-000001.tar", world_path);
    CHECK(unlink(path) == 0);

    /* A server does not go on with less than its index knows. */
    o = world_options();
    CHECK(disk_open(world_path, &o, &d, &eb) == ERR_CORRUPT);
    CHECK_SAYS(eb.text, "native/log-000001.tar, which is not there");
    snprintf(path, sizeof path, "%s/index/data.mdb", world_path);
    CHECK(unlink(path) == 0);
    o = world_options();
    CHECK(disk_open(world_path, &o, &d, &eb) == ERR_CORRUPT);
    CHECK_SAYS(eb.text, "rebuild --from-bodies");

    r.dry_run = true;
    CHECK(disk_rebuild(world_path, &r, &out, &eb) == ERR_OK);
    CHECK(out.bodies >= 2);
    r.dry_run = false;
    CHECK(disk_rebuild(world_path, &r, &out, &eb) == ERR_OK);
    CHECK(out.log_damaged);
    CHECK_U64(out.objects, out.bodies);
    d = world_open(NULL);
    CHECK(has_meta(d, "kept") && has_meta(d, "own"));
    CHECK(get(d, "kept", data, BIG) == ERR_OK);
    CHECK(get(d, "in the log", data, 3000) == ERR_NOT_FOUND);
    disk_close(&d);
    CHECK(disk_rebuild(world_path, &r, &out, &eb) == ERR_OK); /* all are known now */
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
    struct disk *d = world_open(NULL);
    struct disk_condition only_new = {.if_absent = true};
    struct disk_rebuild_options r = {.from_bodies = true};
    struct disk_key k = world_key(7, "second");
    struct object_meta meta = {.mtime_ms = 1700000000123};
    struct disk_writer *w;
    struct disk_rebuilt out;
    struct errbuf eb = {0};
    struct row row;
    char path[400];

    (void)arg;
    CHECK(world_put(d, "first", data, BIG, &row) == ERR_OK);
    CHECK(world_put(d, "second", data, BIG, &row) == ERR_OK);
    CHECK(disk_write_begin(d, &k, DISK_NATIVE, BIG + 1, &w, &eb) == ERR_OK);
    CHECK(disk_write(w, data + 1, BIG + 1, &eb) == ERR_OK);
    CHECK(world_put(d, "third", data, BIG, &row) == ERR_OK);
    CHECK(disk_commit(&w, &meta, &only_new, &row, &eb) == ERR_PRECONDITION);
    CHECK(world_put_class(d, DISK_NATIVE, "first", data + 1, BIG + 1, true, &only_new,
                          &row) == ERR_PRECONDITION);
    disk_close(&d);
    remove_logs();
    snprintf(path, sizeof path, "%s/index/data.mdb", world_path);
    CHECK(unlink(path) == 0);

    CHECK(disk_rebuild(world_path, &r, &out, &eb) == ERR_OK);
    CHECK_U64(out.bodies, 3);
    d = world_open(NULL);
    CHECK(get(d, "first", data, BIG) == ERR_OK);
    CHECK(get(d, "second", data, BIG) == ERR_OK);
    CHECK(get(d, "third", data, BIG) == ERR_OK);
    disk_close(&d);
}

/* A younger body of which only the header is right, as a cut leaves it, does not come over the one that is whole. */
static void
torn_body(void *arg)
{
    struct disk *d = world_open(NULL);
    struct disk_rebuild_options r = {.from_bodies = true};
    struct disk_rebuilt out;
    struct errbuf eb = {0};
    struct row old, young;
    char path[400];
    int fd;

    (void)arg;
    CHECK(world_put(d, "key", data, BIG, &old) == ERR_OK);
    CHECK(world_put(d, "key", data + 1, BIG, &young) == ERR_OK);
    CHECK_U64(old.segment, young.segment);
    disk_close(&d);
    snprintf(path, sizeof path, "%s/native/body-%06u.tar", world_path, young.segment);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    REQUIRE(fd >= 0);
    CHECK(pwrite(fd, "torn", 4, (off_t)young.offset + 4096 + 70000) == 4);
    close(fd);
    remove_logs();
    snprintf(path, sizeof path, "%s/index/data.mdb", world_path);
    CHECK(unlink(path) == 0);

    CHECK(disk_rebuild(world_path, &r, &out, &eb) == ERR_OK);
    CHECK_U64(out.bodies, 1);
    d = world_open(NULL);
    CHECK(get(d, "key", data, BIG) == ERR_OK);
    disk_close(&d);
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
    RUN(test_one_of_a_group);
    RUN(test_two_groups);
    RUN(test_a_log_without_its_head);
    RUN(test_a_lost_head_brings_no_former_life_back);
    RUN(test_flips_over_segments);
    RUN(test_flips_over_the_index);
    RUN(test_a_damaged_index_is_not_believed);
    RUN(test_a_replay_that_meets_a_damaged_row);
    RUN(test_a_row_that_a_bit_hides_is_not_missing);
    RUN(test_each_page_of_the_index);
    RUN(test_the_first_log_comes_before_any_body);
    RUN(test_lost_logs);
    RUN(test_refused_bodies);
    RUN(test_torn_body);
    free(data);
    return check_done();
}
