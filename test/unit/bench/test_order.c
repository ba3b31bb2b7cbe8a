/* The order: each file once in a pass, no two passes alike, the same for the same seed; pieces of samples and of columns add up
 * to what there is. */
#include "bench/order.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "check.h"

#define FILES_MOST 300u

static struct train_file files[FILES_MOST];
static const struct train_layout whole = {.sample_bytes = 1000, .request_bytes = 4000};

static void
make_files(uint64_t bytes, uint32_t samples)
{
    for (unsigned i = 0; i < FILES_MOST; i++)
        files[i] = (struct train_file){.bytes = bytes, .samples = samples};
}

/* ---- files ---- */

static void
take_pass(struct train_order *o, uint32_t *out)
{
    for (uint32_t i = 0; i < o->file_count; i++) {
        struct train_cursor c = {0};
        struct train_piece p;

        REQUIRE(train_order_cut(o, &c, 10, &p));
        CHECK(p.file < o->file_count);
        out[i] = p.file;
    }
}

static void
test_each_file_once_a_pass(void)
{
    uint32_t first[FILES_MOST], second[FILES_MOST];

    make_files(1000, 1);
    for (uint32_t count = 1; count <= FILES_MOST; count++) {
        bool seen[FILES_MOST] = {false};
        struct train_order o;

        train_order_init(&o, files, count, &whole, count);
        take_pass(&o, first);
        take_pass(&o, second);
        for (uint32_t i = 0; i < count; i++) {
            CHECK(!seen[first[i]]);
            seen[first[i]] = true;
        }
        memset(seen, 0, sizeof seen);
        for (uint32_t i = 0; i < count; i++) {
            CHECK(!seen[second[i]]);
            seen[second[i]] = true;
        }
        if (count > 10)
            CHECK(memcmp(first, second, count * sizeof *first) != 0);
    }
}

static void
test_the_seed_is_the_order(void)
{
    uint32_t a[FILES_MOST], b[FILES_MOST], other[FILES_MOST];
    struct train_order o;

    make_files(1000, 1);
    train_order_init(&o, files, FILES_MOST, &whole, 7);
    take_pass(&o, a);
    train_order_init(&o, files, FILES_MOST, &whole, 7);
    take_pass(&o, b);
    CHECK(memcmp(a, b, sizeof a) == 0);
    train_order_init(&o, files, FILES_MOST, &whole, 8);
    take_pass(&o, other);
    CHECK(memcmp(a, other, sizeof a) != 0);
}

static void
test_once_is_once(void)
{
    struct train_cursor c = {0}, other = {0};
    struct train_order o;
    struct train_piece p;

    make_files(1000, 1);
    train_order_init(&o, files, 3, &whole, 1);
    train_order_again(&o, true);
    CHECK(train_order_cut(&o, &c, 10, &p));
    CHECK(train_order_cut(&o, &other, 10, &p)); /* cursors share it */
    CHECK(train_order_cut(&o, &c, 10, &p));
    CHECK(!train_order_cut(&o, &c, 10, &p));
    CHECK(!train_order_cut(&o, &other, 10, &p));
    train_order_again(&o, false);
    for (unsigned i = 0; i < 10; i++)
        CHECK(train_order_cut(&o, &c, 10, &p));
}

/* ---- columns ---- */

/* What is read of `rows` rows in one file: bytes, no two pieces on the same ones, all within the file. */
static uint64_t
read_columns(const struct train_layout *l, uint32_t rows, uint64_t *samples,
             unsigned *pieces)
{
    char *seen = xcalloc(rows, l->sample_bytes);
    struct train_cursor c = {0};
    struct train_order o;
    struct train_piece p;
    uint64_t bytes = 0;

    make_files(rows * l->sample_bytes, rows);
    *samples = 0;
    *pieces = 0;
    train_order_init(&o, files, 1, l, 1);
    train_order_again(&o, true);
    while (train_order_cut(&o, &c, l->batch, &p) && ++*pieces < 10000) {
        CHECK(!p.whole && p.bytes > 0);
        CHECK(p.offset + p.bytes <= files[0].bytes);
        for (uint64_t i = p.offset; i < p.offset + p.bytes; i++) {
            CHECK(seen[i] == 0);
            seen[i] = 1;
        }
        bytes += p.bytes;
        *samples += p.samples;
    }
    free(seen);
    return bytes;
}

static void
test_chunks_are_the_columns(void)
{
    static const struct train_layout l = {
        .sample_bytes = 76, .columns = 4, .read_bytes = 16, .batch = 100};
    uint64_t samples;
    unsigned pieces;

    CHECK_U64(read_columns(&l, 300, &samples, &pieces), 300 * 16);
    CHECK_U64(samples, 300); /* a batch is a row group */
    CHECK_U64(pieces, 3 * 4);
    CHECK_U64(read_columns(&l, 350, &samples, &pieces), 350 * 16); /* a short one */
    CHECK_U64(samples, 350);
    CHECK_U64(pieces, 4 * 4);
    CHECK_U64(read_columns(&l, 3, &samples, &pieces), 3 * 16); /* fewer than columns */
    CHECK_U64(samples, 3);
}

/* Where a batch begins within a group, a chunk gives no more than is missing. */
static void
test_a_chunk_gives_no_more_than_is_wanted(void)
{
    static const struct train_layout l = {
        .sample_bytes = 76, .columns = 4, .read_bytes = 16, .batch = 100};
    struct train_cursor c = {0};
    struct train_order o;
    struct train_piece p;

    make_files(7600, 100);
    train_order_init(&o, files, 1, &l, 1);
    CHECK(train_order_cut(&o, &c, 10, &p));
    CHECK_U64(p.samples, 10);
    CHECK_U64(p.bytes, 400);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_each_file_once_a_pass);
    RUN(test_the_seed_is_the_order);
    RUN(test_once_is_once);
    RUN(test_chunks_are_the_columns);
    RUN(test_a_chunk_gives_no_more_than_is_wanted);
    return check_done();
}
