/* Records of exported objects: what they hold, where the object stands in an archive, and what is refused. Writes the
 * corpus of fuzz_exported and fuzz_meta_dump when CORPUS names test/fuzz/corpus. */
#include "check.h"

#include "base/mem.h"
#include "store/store_entry.h"
#include "store/store_exported.h"
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
    record_begin(&w, &record, 48, 3);
    record_end(&w);
    CHECK(exported_read(buf_span(&record), a, &got, &eb) == ERR_NOT_IMPLEMENTED);
    CHECK_SAYS(eb.text, "of version 3; this program reads 1 to 2");
    buf_fini(&record);
    arena_free(&a);
}

/* One of each kind, as only a backup has them. */
static struct exported
kind_of_example(enum exported_what what)
{
    struct exported e = example(SPAN("a/b.jpg"));
    bool versioned = what == EXPORTED_VERSION || what == EXPORTED_MARKER;

    e.what = what;
    if (versioned) {
        e.born = (struct version){7, 0x1234};
        e.meta.versioning = STORE_VERSIONED;
    }
    if (what == EXPORTED_UPLOAD || what == EXPORTED_PART)
        e.upload.id = (struct content_id){{9, 8, 7}};
    if (what == EXPORTED_PART)
        e.part = 42;
    if (what == EXPORTED_MARKER || what == EXPORTED_UPLOAD)
        e.size = 0;
    return e;
}

static void
test_kinds(void)
{
    static const struct {
        enum exported_what what;
        bool older;
        const char *path;
        bool is_object;
    } rows[] = {
        {EXPORTED_OBJECT, false, "photos/a/b.jpg", true},
        {EXPORTED_VERSION, false, "photos/a/b.jpg", true},
        {EXPORTED_VERSION, true, ".forebay/version/00000000000000070000000000001234",
         false},
        {EXPORTED_MARKER, false, ".forebay/version/00000000000000070000000000001234",
         false},
        {EXPORTED_UPLOAD, false, ".forebay/upload/09080700000000000000000000000000",
         false},
        {EXPORTED_PART, false, ".forebay/part/09080700000000000000000000000000/00042",
         false},
    };
    struct arena *a = arena_new(4096, MIB(1));

    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        struct exported e = kind_of_example(rows[i].what), got;
        struct errbuf eb = {{0}};
        struct buf record;
        char path[EXPORTED_PATH_ROOM], name[20];

        e.older = rows[i].older;
        (void)exported_path(&e, false, path);
        CHECK_STR(path, rows[i].path);
        buf_init(&record, EXPORTED_HEAD_MAX);
        exported_put_record(&record, &e);
        REQUIRE(exported_read(buf_span(&record), a, &got, &eb) == ERR_OK);
        exported_place(&got, span_of(path));
        CHECK(got.what == e.what && got.older == e.older);
        CHECK(got.born.epoch == e.born.epoch && got.born.counter == e.born.counter);
        CHECK(got.part == e.part && memcmp(&got.upload, &e.upload, 16) == 0);
        CHECK_U64(got.meta.versioning, e.meta.versioning);
        CHECK(exported_as_object(&got) == rows[i].is_object);
        snprintf(name, sizeof name, "kind-%u", i);
        keep("exported", name, buf_span(&record));
        buf_fini(&record);
    }
    arena_free(&a);
}

/* Fields that do not belong together, and numbers that no node would write. */
static void
test_kinds_refused(void)
{
    static const struct {
        enum exported_what what;
        uint64_t epoch, size;
        uint32_t part;
        uint8_t versioning;
        const char *says;
    } rows[] = {
        {EXPORTED_VERSION, 0, 5, 0, 1, "field 36 of an exported object is malformed"},
        {EXPORTED_VERSION, EXPORTED_EPOCH_MAX + 1, 5, 0, 1, "field 36"},
        {EXPORTED_VERSION, 7, 5, 0, 0, "a version that does not say of which kind"},
        {EXPORTED_MARKER, 7, 5, 0, 1, "5 bytes of what has none"},
        {EXPORTED_UPLOAD, 0, 5, 0, 0, "5 bytes of what has none"},
        {EXPORTED_PART, 0, 5, 10001, 0, "field 28"},
        {EXPORTED_PART, 0, (UINT64_C(5) << 30) + 1, 1, 0,
         "a part of 5368709121 bytes, at most 5368709120"},
    };
    struct arena *a = arena_new(4096, MIB(1));

    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        struct exported e = kind_of_example(rows[i].what), got;
        struct errbuf eb = {{0}};
        struct buf record;

        e.born.epoch = rows[i].epoch;
        e.size = rows[i].size;
        e.part = rows[i].part;
        e.meta.versioning = rows[i].versioning;
        buf_init(&record, EXPORTED_HEAD_MAX);
        exported_put_record(&record, &e);
        CHECK(exported_read(buf_span(&record), a, &got, &eb) == ERR_CORRUPT);
        CHECK_SAYS(eb.text, rows[i].says);
        buf_fini(&record);
    }
    arena_free(&a);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_round);
    RUN(test_paths);
    RUN(test_refused);
    RUN(test_kinds);
    RUN(test_kinds_refused);
    return check_done();
}
