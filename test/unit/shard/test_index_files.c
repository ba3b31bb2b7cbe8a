/* Indexes kept in a folder: found again after a start, never one of another version, none that is damaged; the least recently used
 * leave beyond the limit, and names that nothing owns are removed. Also the forms for other programs. */
#include "check.h"

#include <unistd.h>

#include "base/log.h"
#include "folder.h"
#include "shard/files.h"
#include "shard/index_text.h"

static char folder[] = "/tmp/fb-shard-index-XXXXXX";

static struct shard_index *
make_index(unsigned count)
{
    struct shard_index *x = shard_index_new(SHARD_TAR);
    struct errbuf eb = {{0}};

    for (unsigned i = 0; i < count; i++) {
        struct shard_entry e = {.offset = 512 + 1024ull * i, .size = i, .stored = i};
        char name[64];

        snprintf(name, sizeof name, "d.x/%06u.%s", i / 2, i % 2 == 0 ? "jpg" : "seg.cls");
        CHECK(shard_index_add(x, &e, span_of(name), &eb) == ERR_OK);
    }
    shard_index_seal(x);
    return x;
}

static struct shard_version
version_of(const char *etag)
{
    struct shard_version v = {.size = 1u << 30, .version = {.born = {3, 9}}};

    snprintf(v.etag, sizeof v.etag, "%s", etag);
    return v;
}

struct names {
    unsigned count;
    char last[256];
};

static void
on_name(const char *name, void *arg)
{
    struct names *n = arg;

    n->count++;
    snprintf(n->last, sizeof n->last, "%s", name);
}

static struct names
names_in(struct rt_dir *dir)
{
    struct names n = {0};
    struct errbuf eb = {{0}};

    CHECK(rt_dir_list(dir, on_name, &n, &eb) == ERR_OK);
    return n;
}

static void
test_kept_over_a_start(void)
{
    struct shard_version v = version_of("aa"), other = version_of("ab");
    struct shard_index *x = make_index(1000), *got;
    struct shard_files *f;
    struct shard_files_stats stats;
    struct errbuf eb = {{0}};
    struct rt_dir *dir;

    REQUIRE(rt_dir_open(folder, &dir, &eb) == ERR_OK);
    REQUIRE(rt_file_store(dir, "strange", "x", 1, 0600, &eb) == ERR_OK);
    REQUIRE(shard_files_open(dir, MIB(1), &f, &eb) == ERR_OK);
    CHECK(names_in(dir).count == 0);
    CHECK(shard_files_load(f, 5, SPAN("a.tar"), &v) == NULL);
    shard_files_keep(f, 5, SPAN("a.tar"), &v, x);
    shard_files_close(&f);

    REQUIRE(shard_files_open(dir, MIB(1), &f, &eb) == ERR_OK);
    shard_files_stats(f, &stats);
    CHECK(stats.count == 1 && stats.bytes > 40000);
    CHECK(shard_files_load(f, 6, SPAN("a.tar"), &v) == NULL);
    got = shard_files_load(f, 5, SPAN("a.tar"), &v);
    REQUIRE(got != NULL);
    CHECK(got->count == 1000 &&
          shard_index_find(got, SPAN("d.x/000499.jpg"))->size == 998);
    shard_index_drop(&got);
    CHECK(shard_files_load(f, 5, SPAN("a.tar"), &other) == NULL); /* and it leaves */
    CHECK(names_in(dir).count == 0);
    shard_files_keep(f, 5, SPAN("a.tar"), &v, x);
    shard_files_drop(f, 5, SPAN("b.tar"));
    CHECK(names_in(dir).count == 1);
    shard_files_drop(f, 5, SPAN("a.tar"));
    CHECK(names_in(dir).count == 0);
    shard_files_close(&f);
    shard_index_drop(&x);
    rt_dir_close(&dir);
}

/* Any flipped byte: the index is made again, never a wrong one. */
static void
test_damage_is_never_used(void)
{
    struct shard_version v = version_of("aa");
    struct shard_index *x = make_index(3), *got;
    struct shard_files *f;
    struct errbuf eb = {{0}};
    struct rt_dir *dir;
    char *bytes, name[256];
    size_t len;

    REQUIRE(rt_dir_open(folder, &dir, &eb) == ERR_OK);
    REQUIRE(shard_files_open(dir, MIB(1), &f, &eb) == ERR_OK);
    shard_files_keep(f, 5, SPAN("a.tar"), &v, x);
    snprintf(name, sizeof name, "%s", names_in(dir).last);
    REQUIRE(rt_file_load(dir, name, MIB(1), &bytes, &len, &eb) == ERR_OK);
    for (size_t i = 0; i < len; i++) {
        shard_files_keep(f, 5, SPAN("a.tar"), &v, x);
        bytes[i] ^= 0x10;
        REQUIRE(rt_file_store(dir, name, bytes, len, 0600, &eb) == ERR_OK);
        bytes[i] ^= 0x10;
        CHECK(shard_files_load(f, 5, SPAN("a.tar"), &v) == NULL);
    }
    shard_files_keep(f, 5, SPAN("a.tar"), &v, x);
    got = shard_files_load(f, 5, SPAN("a.tar"), &v);
    CHECK(got != NULL);
    shard_index_drop(&got);
    shard_files_drop(f, 5, SPAN("a.tar"));
    free(bytes);
    shard_files_close(&f);
    shard_index_drop(&x);
    rt_dir_close(&dir);
}

static void
test_the_least_used_leave(void)
{
    struct shard_version v = version_of("aa");
    struct shard_index *x = make_index(100), *got;
    struct shard_files *f;
    struct shard_files_stats stats;
    struct errbuf eb = {{0}};
    struct rt_dir *dir;
    char key[16];

    REQUIRE(rt_dir_open(folder, &dir, &eb) == ERR_OK);
    REQUIRE(shard_files_open(dir, KIB(30), &f, &eb) == ERR_OK);
    for (unsigned i = 0; i < 10; i++) {
        snprintf(key, sizeof key, "%u.tar", i);
        shard_files_keep(f, 5, span_of(key), &v, x);
        got = shard_files_load(f, 5, SPAN("0.tar"), &v);
        CHECK(got != NULL);
        shard_index_drop(&got);
    }
    shard_files_stats(f, &stats);
    CHECK(stats.bytes <= KIB(30) && stats.count >= 2 && stats.count < 10);
    CHECK_U64(names_in(dir).count, stats.count);
    CHECK(shard_files_load(f, 5, SPAN("1.tar"), &v) == NULL);
    shard_files_close(&f);
    REQUIRE(shard_files_open(dir, 0, &f, &eb) == ERR_OK); /* the limit was lowered */
    CHECK(names_in(dir).count == 0);
    shard_files_close(&f);
    shard_index_drop(&x);
    rt_dir_close(&dir);
}

/* ---- forms ---- */

static enum err
text_append(void *arg, struct span bytes, struct errbuf *eb)
{
    (void)eb;
    buf_put_span(arg, bytes);
    return ERR_OK;
}

static void
test_forms(void)
{
    static const char *const names[] = {"a/1.jpg",  "a/1.cls",     "README",
                                        "a/.2.jpg", "a/3.seg.png", "3."};
    struct shard_about about = {.url = SPAN("http://h/b/a.tar"),
                                .etag = SPAN("d41d"),
                                .size = 99,
                                .etag_is_md5 = true};
    struct shard_index *x = shard_index_new(SHARD_TAR), *zip = shard_index_new(SHARD_ZIP);
    struct errbuf eb = {{0}};
    struct buf out;
    struct shard_sink sink = {text_append, &out};
    struct shard_entry e = {.size = 7, .stored = 7};

    buf_init(&out, MIB(1));
    for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
        e.offset = 512ull * (i + 1);
        REQUIRE(shard_index_add(x, &e, span_of(names[i]), &eb) == ERR_OK);
    }
    shard_index_seal(x);
    shard_index_seal(zip);
    CHECK(shard_index_text(x, SHARD_TEXT_DALI, &about, sink, &eb) == ERR_OK);
    buf_putc(&out, '\0');
    CHECK_STR(out.at, "v1.2 2\njpg 512 7 a/1.jpg cls 1024 7 a/1.cls\n"
                      "seg.png 2560 7 a/3.seg.png\n");
    buf_clear(&out);
    CHECK(shard_index_text(x, SHARD_TEXT_WIDS, &about, sink, &eb) == ERR_OK);
    buf_putc(&out, '\0');
    CHECK_SAYS(out.at, "\"nsamples\":4,\"filesize\":99,\"md5sum\":\"d41d\"");
    CHECK(shard_index_text(zip, SHARD_TEXT_WIDS, &about, sink, &eb) == ERR_BAD_REQUEST);
    e.offset = 512;
    shard_index_drop(&x);
    x = shard_index_new(SHARD_TAR);
    REQUIRE(shard_index_add(x, &e, SPAN("a b.jpg"), &eb) == ERR_OK);
    shard_index_seal(x);
    buf_clear(&out);
    CHECK(shard_index_text(x, SHARD_TEXT_DALI, &about, sink, &eb) == ERR_BAD_REQUEST);
    CHECK_SAYS(eb.text, "a b.jpg");
    CHECK(out.len == 0);
    shard_index_drop(&x);
    shard_index_drop(&zip);
    buf_fini(&out);
}

static void
run_all(void *arg)
{
    (void)arg;
    RUN(test_kept_over_a_start);
    RUN(test_damage_is_never_used);
    RUN(test_the_least_used_leave);
    RUN(test_forms);
}

int
main(int argc, char **argv)
{
    struct rt_options o = {.loops = 1, .workers = 2};
    struct errbuf eb = {{0}};

    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR);
    CHECK(mkdtemp(folder) != NULL);
    CHECK(rt_run(&o, run_all, NULL, &eb) == ERR_OK);
    folder_remove(folder);
    return check_done();
}
