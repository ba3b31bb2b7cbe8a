/* Keys of samples sort as what they stand for; records in temporary files come back, and what is damaged or cut off is an error. */
#include "check.h"

#include <unistd.h>

#include "folder.h"
#include "shard/sample.h"
#include "shard/spill.h"

static char folder[] = "/tmp/fb-sample-XXXXXX";

static void
test_keys_sort_as_numbers(void)
{
    static const double reals[] = {-1e300, -2.5, -1, -1e-300, 0, 1e-300, 1, 2.5, 1e300};
    static const int64_t wholes[] = {INT64_MIN, -300, -1, 0, 1, 255, 256, INT64_MAX};
    struct buf a, b;

    buf_init(&a, 64);
    buf_init(&b, 64);
    for (size_t i = 0; i + 1 < ARRAY_LEN(reals); i++) {
        buf_clear(&a);
        buf_clear(&b);
        sample_key_f64(&a, reals[i]);
        sample_key_f64(&b, reals[i + 1]);
        CHECK(span_cmp(buf_span(&a), buf_span(&b)) < 0);
    }
    for (size_t i = 0; i + 1 < ARRAY_LEN(wholes); i++) {
        buf_clear(&a);
        buf_clear(&b);
        sample_key_i64(&a, wholes[i]);
        sample_key_i64(&b, wholes[i + 1]);
        CHECK(span_cmp(buf_span(&a), buf_span(&b)) < 0);
    }
    buf_clear(&a);
    buf_clear(&b);
    sample_key_f64(&a, -0.0);
    sample_key_f64(&b, 0.0);
    CHECK(span_eq(buf_span(&a), buf_span(&b)));
    buf_fini(&a);
    buf_fini(&b);
}

static void
test_order_has_no_ties(void)
{
    struct sample a = {.input = 1, .number = 2, .key = SPAN("k")}, b = a;

    CHECK(sample_cmp(&a, &b, false) == 0);
    b.number = 3;
    CHECK(sample_cmp(&a, &b, false) < 0 && sample_cmp(&a, &b, true) < 0);
    b.key = SPAN("j");
    CHECK(sample_cmp(&a, &b, false) > 0 && sample_cmp(&a, &b, true) < 0);
}

/* Reads all records; how many came whole before the end, or before an error. */
static enum err
read_records(struct rt_dir *dir, const char *name, unsigned *count)
{
    struct spill_reader *r;
    struct errbuf eb = {{0}};
    struct span got;
    bool end = false;
    enum err rc = spill_open(dir, name, &r, &eb);

    for (*count = 0; rc == ERR_OK; ++*count) {
        rc = spill_next(r, &got, &end, &eb);
        if (rc != ERR_OK || end)
            break;
        CHECK(got.len == *count * 7777u);
        for (size_t i = 0; i < got.len; i += 997)
            CHECK((unsigned char)got.at[i] == (unsigned char)(*count + i));
    }
    CHECK(rc == ERR_OK || eb.text[0] != '\0');
    spill_close(&r);
    return rc;
}

static void
test_records_come_back(void)
{
    static char bytes[100 * 7777];
    struct spill_writer *w;
    struct errbuf eb = {{0}};
    struct rt_dir *dir;
    unsigned count;
    char *all;
    size_t len;

    REQUIRE(rt_dir_open(folder, &dir, &eb) == ERR_OK);
    REQUIRE(spill_create(dir, "job-run-1", &w, &eb) == ERR_OK);
    for (unsigned n = 0; n < 100; n++) {
        for (size_t i = 0; i < n * 7777u; i++)
            bytes[i] = (char)(n + i);
        REQUIRE(spill_put(w, (struct span){bytes, n * 7777u}, &eb) == ERR_OK);
    }
    REQUIRE(spill_end(&w, &eb) == ERR_OK);
    CHECK(read_records(dir, "job-run-1", &count) == ERR_OK && count == 100);
    REQUIRE(rt_file_load(dir, "job-run-1", MIB(64), &all, &len, &eb) == ERR_OK);
    REQUIRE(rt_file_store(dir, "job-cut", all, len - 4, 0600, &eb) == ERR_OK);
    CHECK(read_records(dir, "job-cut", &count) == ERR_CORRUPT && count == 100);
    all[len / 2] ^= 1;
    REQUIRE(rt_file_store(dir, "job-flip", all, len, 0600, &eb) == ERR_OK);
    CHECK(read_records(dir, "job-flip", &count) == ERR_CORRUPT && count < 100);
    CHECK(read_records(dir, "job-none", &count) == ERR_CORRUPT);
    CHECK(spill_remove(dir, "job-", &eb) == ERR_OK);
    CHECK(read_records(dir, "job-run-1", &count) == ERR_CORRUPT);
    free(all);
    rt_dir_close(&dir);
}

static void
run_all(void *arg)
{
    (void)arg;
    RUN(test_keys_sort_as_numbers);
    RUN(test_order_has_no_ties);
    RUN(test_records_come_back);
}

int
main(int argc, char **argv)
{
    struct rt_options o = {.loops = 1, .workers = 2};
    struct errbuf eb = {{0}};

    CHECK_MAIN(argc, argv);
    CHECK(mkdtemp(folder) != NULL);
    CHECK(rt_run(&o, run_all, NULL, &eb) == ERR_OK);
    folder_remove(folder);
    return check_done();
}
