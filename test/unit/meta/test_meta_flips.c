/* meta_flips: the node's state after single changed bits in its files, files that are gone, behind or old: the right
 * state, or an error in words; never silently less. Protects I5. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "check.h"
#include "folder.h"
#include "meta/meta.h"
#include "rt/loop.h"

#define PAIRS 90u
#define FLIPS 500u

static char folder[64];
static const char *const files[] = {"data.mdb", "second.mdb", "lock.mdb",
                                    "second.mdb-lock"};

static enum err
try_open(struct meta **out, struct errbuf *eb)
{
    struct rt_dir *dir = NULL;
    enum err rc;

    *out = NULL;
    *eb = (struct errbuf){{0}};
    CHECK(rt_dir_open(folder, &dir, eb) == ERR_OK);
    rc = meta_open_embedded(dir, out, eb);
    rt_dir_close(&dir);
    return rc;
}

/* Key i and its value, of generation `turn`: users, buckets, CORS rules of several pages. */
static struct span
pair_of(unsigned i, unsigned turn, char key[40], char *value)
{
    size_t len = i % 10 == 3 ? 9000 : 40 + i * 7;

    snprintf(key, 40, "%s/%04u", i % 2 == 0 ? "bucket" : "user", i);
    for (size_t k = 0; k < len; k++)
        value[k] = (char)('a' + (k * 7 + i * 13 + turn) % 26);
    return (struct span){value, len};
}

static void
fill(struct meta *m, unsigned turn)
{
    char key[40], *value = xmalloc(10000);
    struct errbuf eb;

    for (unsigned i = 0; i < PAIRS; i++) {
        struct meta_change c = {.value = pair_of(i, turn, key, value),
                                .if_revision = META_ANY};

        c.key = span_of(key);
        CHECK(meta_apply(m, &c, 1, NULL, &eb) == ERR_OK);
    }
    free(value);
}

/* Every pair, by the list and by a look-up of its own. */
static bool
is_whole(struct meta *m, unsigned turn)
{
    struct arena *a = arena_new(KIB(64), MIB(4));
    char key[40], *value = xmalloc(10000);
    struct meta_pair *pairs, one;
    uint64_t revision;
    uint32_t count = 0;
    struct errbuf eb;
    bool whole = meta_list(m, SPAN(""), a, &pairs, &count, &revision, &eb) == ERR_OK &&
                 count == PAIRS && revision == (turn + 1) * (uint64_t)PAIRS;

    for (unsigned i = 0; whole && i < PAIRS; i++) {
        struct span want = pair_of(i, turn, key, value);

        whole =
            meta_get(m, span_of(key), a, &one, &eb) == ERR_OK && span_eq(one.value, want);
        whole &= span_eq(pairs[(i & 1) * (PAIRS / 2) + i / 2].value, want);
    }
    free(value);
    arena_free(&a);
    return whole;
}

/* ---- the files as they were ---- */

struct kept {
    char *bytes;
    size_t len;
};

static void
keep(struct kept out[4])
{
    for (unsigned i = 0; i < 4; i++) {
        char path[128];
        struct stat st;
        int fd;

        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        fd = open(path, O_RDONLY);
        REQUIRE(fd >= 0 && fstat(fd, &st) == 0);
        out[i].len = (size_t)st.st_size;
        out[i].bytes = xmalloc(out[i].len + 1);
        CHECK(read(fd, out[i].bytes, out[i].len) == (ssize_t)out[i].len);
        close(fd);
    }
}

static void
put_file(unsigned i, const struct kept *k)
{
    char path[128];
    int fd;

    snprintf(path, sizeof path, "%s/%s", folder, files[i]);
    unlink(path);
    if (k == NULL)
        return;
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    REQUIRE(fd >= 0);
    CHECK(write(fd, k->bytes, k->len) == (ssize_t)k->len);
    close(fd);
}

static void
put_back(const struct kept k[4])
{
    for (unsigned i = 0; i < 4; i++)
        put_file(i, &k[i]);
}

static void
drop(struct kept k[4])
{
    for (unsigned i = 0; i < 4; i++)
        free(k[i].bytes);
}

/* `turns` generations of all pairs. */
static void
begin(unsigned turns, struct kept out[4])
{
    struct meta *m;
    struct errbuf eb;

    REQUIRE(try_open(&m, &eb) == ERR_OK);
    for (unsigned turn = 0; turn < turns; turn++)
        fill(m, turn);
    CHECK(is_whole(m, turns - 1));
    meta_close(&m);
    keep(out);
}

/* Opens, compares, and opens once more: what was made again is whole. */
static void
check_whole(const char *what, unsigned turn)
{
    for (unsigned again = 0; again < 2; again++) {
        struct meta *m;
        struct errbuf eb;
        enum err rc = try_open(&m, &eb);

        if (rc != ERR_OK)
            fprintf(stderr, "%s: %s\n", what, eb.text);
        REQUIRE(rc == ERR_OK);
        if (!is_whole(m, turn))
            fprintf(stderr, "%s: not what was written\n", what);
        CHECK(is_whole(m, turn));
        meta_close(&m);
    }
}

/* ---- the cases ---- */

static uint64_t
flips_next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

/* One bit of one file: with the other one whole every pair is there. */
static void
flips(void *arg)
{
    struct kept k[4];
    uint64_t seed = 20261124;

    (void)arg;
    begin(2, k);
    for (unsigned n = 0; n < FLIPS; n++) {
        unsigned file = n % 10 < 8 ? n % 2 : 2 + n % 2;
        size_t at = flips_next(&seed) % k[file].len;
        char bit = (char)(1 << flips_next(&seed) % 8);
        char what[100];

        if (n % 4 == 0) /* what decides about all else: the first pages */
            at = flips_next(&seed) % MIN(k[file].len, 8192u);
        k[file].bytes[at] ^= bit;
        put_back(k);
        k[file].bytes[at] ^= bit;
        snprintf(what, sizeof what, "bit %d of byte %zu of %s", bit, at, files[file]);
        check_whole(what, 1);
    }
    drop(k);
}

/* The same with the only file that is left: whole, or an error in words. */
static void
flips_of_one(void *arg)
{
    struct kept k[4];
    uint64_t seed = 4711;
    unsigned refused = 0;

    (void)arg;
    begin(1, k);
    for (unsigned n = 0; n < FLIPS; n++) {
        size_t at = flips_next(&seed) % k[0].len;
        char bit = (char)(1 << flips_next(&seed) % 8);
        struct meta *m;
        struct errbuf eb;
        enum err rc;

        k[0].bytes[at] ^= bit;
        put_back(k);
        k[0].bytes[at] ^= bit;
        put_file(1, NULL);
        put_file(3, NULL);
        rc = try_open(&m, &eb);
        if (rc != ERR_OK)
            CHECK_SAYS(eb.text, "data.mdb is damaged");
        else if (!is_whole(m, 0)) /* the older of LMDB's two roots: one change less */
            fprintf(stderr, "bit %d of byte %zu\n", bit, at);
        refused += rc != ERR_OK;
        CHECK(rc != ERR_OK || is_whole(m, 0) || at < 8192);
        meta_close(&m);
    }
    CHECK(refused > 20 && refused < FLIPS);
    drop(k);
}

/* A file that is gone, cut, or of a former day. */
static void
other_damage(void *arg)
{
    struct kept k[4], old[4];
    struct meta *m;
    struct errbuf eb;

    (void)arg;
    begin(1, old);
    REQUIRE(try_open(&m, &eb) == ERR_OK);
    fill(m, 1);
    meta_close(&m);
    keep(k);
    for (unsigned file = 0; file < 2; file++) {
        struct kept cut = {k[file].bytes, k[file].len / 2};

        put_back(k);
        put_file(file, NULL);
        check_whole("a file is gone", 1);
        put_back(k);
        put_file(file, &cut);
        check_whole("a file is cut", 1);
        put_back(k);
        put_file(file, &old[file]);
        check_whole("a file is of a former day", 1);
    }
    for (unsigned file = 0; file < 2; file++) {
        struct kept cut = {k[file].bytes, k[file].len / 2};

        put_file(file, &cut);
    }
    CHECK(try_open(&m, &eb) == ERR_CORRUPT);
    CHECK_SAYS(eb.text, "second.mdb is damaged as well");
    drop(k);
    drop(old);
}

static void
run_in_folder(fiber_fn *fn)
{
    struct rt_options o = {.engine = RT_EPOLL, .loops = 1, .workers = 1};
    struct errbuf eb = {{0}};

    strcpy(folder, "/tmp/fb-flips-XXXXXX");
    REQUIRE(mkdtemp(folder) != NULL);
    CHECK(rt_run(&o, fn, NULL, &eb) == ERR_OK);
    folder_remove(folder);
}

static void
test_single_flips_lose_nothing(void)
{
    run_in_folder(flips);
}
static void
test_without_the_second_file_they_are_errors(void)
{
    run_in_folder(flips_of_one);
}
static void
test_a_file_that_is_gone_cut_or_old(void)
{
    run_in_folder(other_damage);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_single_flips_lose_nothing);
    RUN(test_without_the_second_file_they_are_errors);
    RUN(test_a_file_that_is_gone_cut_or_old);
    return check_done();
}
