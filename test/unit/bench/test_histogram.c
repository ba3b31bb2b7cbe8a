/* Durations are kept within 1.6 %, whatever their size, and quantiles are those of the sorted list. */
#include "bench/histogram.h"
#include "check.h"

static uint64_t
next(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static bool
near(uint64_t got, uint64_t want)
{
    uint64_t off = got > want ? got - want : want - got;

    return (double)off <= (double)want * 0.016;
}

static int
by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void
test_one_value_of_each_size(void)
{
    for (unsigned bit = 0; bit < 64; bit++) {
        struct histogram *h = calloc(1, sizeof *h);
        uint64_t value = 1ull << bit;

        REQUIRE(h != NULL);
        histogram_add(h, value - 1);
        histogram_add(h, value);
        CHECK(near(histogram_at(h, 0.6), value));
        CHECK(near(histogram_at(h, 0), value - 1));
        CHECK_U64(histogram_at(h, 1), value);
        CHECK_U64(h->total, 2);
        free(h);
    }
}

static void
test_quantiles_are_those_of_the_sorted_list(void)
{
    enum { COUNT = 20000 };
    static uint64_t values[COUNT];
    static const double shares[] = {0, 0.01, 0.5, 0.9, 0.99, 0.999, 0.9999};
    struct histogram *h = calloc(1, sizeof *h);
    uint64_t seed = 88172645463325252u;
    double sum = 0;

    REQUIRE(h != NULL);
    for (int i = 0; i < COUNT; i++) {
        values[i] = next(&seed) >> (next(&seed) % 50 + 14);
        histogram_add(h, values[i]);
        sum += (double)values[i];
    }
    qsort(values, COUNT, sizeof values[0], by_value);
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++)
        CHECK(near(histogram_at(h, shares[i]), values[(size_t)(shares[i] * COUNT)]));
    CHECK_U64(histogram_at(h, 1), values[COUNT - 1]);
    CHECK_U64((uint64_t)histogram_mean(h), (uint64_t)(sum / COUNT));
    free(h);
}

static void
test_merged_is_as_if_added_there(void)
{
    struct histogram *all = calloc(1, sizeof *all), *half[2], *sum;
    uint64_t seed = 5;

    half[0] = calloc(1, sizeof *all);
    half[1] = calloc(1, sizeof *all);
    sum = calloc(1, sizeof *all);
    REQUIRE(all != NULL && half[0] != NULL && half[1] != NULL && sum != NULL);
    histogram_merge(sum, half[0]); /* of nothing */
    CHECK_U64(sum->total, 0);
    for (int i = 0; i < 10000; i++) {
        uint64_t value = next(&seed) >> 30;

        histogram_add(all, value);
        histogram_add(half[i % 2], value);
    }
    histogram_merge(sum, half[0]);
    histogram_merge(sum, half[1]);
    CHECK(memcmp(sum, all, sizeof *all) == 0);
    free(all);
    free(half[0]);
    free(half[1]);
    free(sum);
}

static void
test_nothing_is_nothing(void)
{
    struct histogram *h = calloc(1, sizeof *h);

    REQUIRE(h != NULL);
    CHECK_U64(histogram_at(h, 0.5), 0);
    CHECK_U64(histogram_at(h, 1), 0);
    CHECK(histogram_mean(h) == 0);
    free(h);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_one_value_of_each_size);
    RUN(test_quantiles_are_those_of_the_sorted_list);
    RUN(test_merged_is_as_if_added_there);
    RUN(test_nothing_is_nothing);
    return check_done();
}
