/* Records of exported objects: what they hold, where the object stands in an archive, and what is refused. Writes the
 * corpus of fuzz_exported and fuzz_meta_dump when CORPUS names test/fuzz/corpus. */
#include "check.h"

#include "base/mem.h"
#include "disk/exported.h"
#include "wire/record.h"

static struct exported
example(struct span key)
{
    static const struct object_pair user[] = {{{"colour", 6}, {"green", 5}},
                                              {{"empty", 5}, {"", 0}}};

    return (struct exported){.bucket = SPAN("photos"),
                             .key = key,
                             .size = 1234567,
                             .sum = 0xdeadbeef,
                             .content = {{1, 2, 3, 0, 5}},
                             .meta = {.mtime_ms = 1700000000123,
                                      .content_type = SPAN("image/jpeg"),
                                      .user = user,
                                      .user_count = 2,
                                      .md5 = {9, 8, 7},
                                      .parts = 3}};
}

static void
keep(const char *dir, const char *name, struct span bytes)
{
    const char *corpus = getenv("CORPUS");
    char path[300];
    FILE *f;

    if (corpus == NULL)
        return;
    snprintf(path, sizeof path, "%s/%s/%s", corpus, dir, name);
    f = fopen(path, "w");
    REQUIRE(f != NULL);
    CHECK_U64(fwrite(bytes.at, 1, bytes.len, f), bytes.len);
    fclose(f);
}

static void
test_round(void)
{
    static const char *const keys[] = {"a/b.jpg", "a//b", "../x", "\n"};
    struct arena *a = arena_new(4096, MIB(1));

    for (unsigned i = 0; i < ARRAY_LEN(keys); i++) {
        struct exported e = example(span_of(keys[i])), got;
        struct errbuf eb = {{0}};
        struct buf record;
        char name[20];

        buf_init(&record, EXPORTED_HEAD_MAX);
        exported_put_record(&record, &e);
        REQUIRE(exported_read(buf_span(&record), a, &got, &eb) == ERR_OK);
        CHECK(span_eq(got.key, e.key) && span_eq(got.bucket, e.bucket));
        CHECK(got.size == e.size && got.sum == e.sum);
        CHECK(memcmp(&got.content, &e.content, 16) == 0);
        CHECK(got.meta.parts == 3 && got.meta.user_count == 2);
        CHECK(got.meta.mtime_ms == e.meta.mtime_ms);
        CHECK(memcmp(got.meta.md5, e.meta.md5, 16) == 0);
        CHECK(span_is(got.meta.user[0].value, "green"));
        CHECK(span_is(got.meta.content_type, "image/jpeg"));
        snprintf(name, sizeof name, "key-%u", i);
        keep("exported", name, buf_span(&record));
        for (size_t bit = 0; bit < record.len * 8; bit += 11) {
            record.at[bit / 8] ^= (char)(1 << bit % 8);
            CHECK(exported_read(buf_span(&record), a, &got, &eb) != ERR_OK);
            record.at[bit / 8] ^= (char)(1 << bit % 8);
        }
        buf_fini(&record);
    }
    arena_free(&a);
}

static void
test_paths(void)
{
    static const struct {
        const char *bucket, *key;
        bool aside;
        const char *path;
    } rows[] = {
        {"b", "a/b", false, "b/a/b"},
        {"b", "a/b", true, ".forebay/id/01020300050000000000000000000000"},
        {"b", "a//b", false, ".forebay/id/01020300050000000000000000000000"},
        {"b", "/a", false, ".forebay/id/01020300050000000000000000000000"},
        {"b", "a/", false, ".forebay/id/01020300050000000000000000000000"},
        {"b", "../a", false, ".forebay/id/01020300050000000000000000000000"},
        {"b", "a/./b", false, ".forebay/id/01020300050000000000000000000000"},
        {"b", "a\x01", false, ".forebay/id/01020300050000000000000000000000"},
        {".b", "a", false, ".forebay/id/01020300050000000000000000000000"},
        {"b/c", "a", false, ".forebay/id/01020300050000000000000000000000"},
        {"b", "\xc3\xa4", false, "b/\xc3\xa4"},
        {"b", "\xff", false, ".forebay/id/01020300050000000000000000000000"},
    };

    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        struct exported e = example(span_of(rows[i].key));
        char path[EXPORTED_PATH_ROOM];

        e.bucket = span_of(rows[i].bucket);
        CHECK_U64(exported_path(&e, rows[i].aside, path), strlen(rows[i].path));
        CHECK_STR(path, rows[i].path);
    }
}

static void
test_refused(void)
{
    struct arena *a = arena_new(4096, MIB(1));
    struct exported e = example(SPAN("k")), got;
    struct errbuf eb = {{0}};
    struct record_writer w;
    struct buf record;

    buf_init(&record, EXPORTED_HEAD_MAX);
    CHECK(exported_read(SPAN("no record"), a, &got, &eb) == ERR_CORRUPT);
    e.key = SPAN("");
    exported_put_record(&record, &e);
    CHECK(exported_read(buf_span(&record), a, &got, &eb) == ERR_CORRUPT);
    CHECK_SAYS(eb.text, "malformed");
    buf_clear(&record);
    record_begin(&w, &record, 2, 1); /* a member of a segment */
    record_end(&w);
    CHECK(exported_read(buf_span(&record), a, &got, &eb) == ERR_NOT_FOUND);
    buf_clear(&record);
    record_begin(&w, &record, 48, 2);
    record_end(&w);
    CHECK(exported_read(buf_span(&record), a, &got, &eb) == ERR_NOT_BUILT);
    CHECK_SAYS(eb.text, "of version 2; this program reads 1");
    buf_fini(&record);
    arena_free(&a);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_round);
    RUN(test_paths);
    RUN(test_refused);
    return check_done();
}
