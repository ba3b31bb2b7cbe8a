/* samples: pages of metrics, and what lies between two. */
#include "cli/samples.h"

#include <math.h>

#include "check.h"

static const char first[] =
    "# HELP x y\nforebay_up 1\n"
    "req{op=\"get\",code=\"200\"} 5\nreq{op=\"get\",code=\"404\"} 2\nreq{op=\"put\"} "
    "1e3\n"
    "h_bucket{op=\"get\",le=\"0.001\"} 10\nh_bucket{op=\"get\",le=\"0.01\"} 10\n"
    "h_bucket{op=\"get\",le=\"+Inf\"} 10\nnot a sample\nx NaN\n \n";
static const char second[] =
    "h_bucket{op=\"get\",le=\"0.001\"} 60\nh_bucket{op=\"get\",le=\"0.01\"} 110\n"
    "h_bucket{op=\"get\",le=\"+Inf\"} 110\n";

static void
test_sums_and_quantiles(void)
{
    struct samples *a = NULL, *b = NULL;
    struct errbuf eb = {{0}};
    struct span value;

    REQUIRE(samples_parse(span_of(first), &a, &eb) == ERR_OK);
    REQUIRE(samples_parse(span_of(second), &b, &eb) == ERR_OK);
    CHECK(samples_sum(a, "forebay_up", NULL, NULL) == 1);
    CHECK(samples_sum(a, "req", NULL, NULL) == 1007);
    CHECK(samples_sum(a, "req", "op=\"get\"", NULL) == 7);
    CHECK(samples_sum(a, "req", "op=\"get\"", "code=\"404\"") == 2);
    CHECK(samples_sum(a, "none", NULL, NULL) == 0);
    REQUIRE(samples_label(a, "req", "code", 1, &value));
    CHECK(span_is(value, "404"));
    CHECK(!samples_label(a, "req", "code", 2, &value)); /* it has none */
    CHECK(!samples_label(a, "req", "op", 3, &value));
    CHECK(fabs(samples_quantile(a, b, "h_bucket", "op=\"get\"", 0.5) - 0.001) < 1e-9);
    CHECK(fabs(samples_quantile(a, b, "h_bucket", "op=\"get\"", 0.75) - 0.0055) < 1e-9);
    CHECK(samples_quantile(a, a, "h_bucket", NULL, 0.5) == 0);
    samples_free(&a);
    samples_free(&b);
}

static void
test_any_bytes(void)
{
    static const char *const odd[] = {"",    "{",           "a{ 1",       "a} 1", "{} 1",
                                      "a{}", "a{x 1\n\n\n", "a{le=\"} 1", " 1"};

    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        struct samples *s = NULL;
        struct errbuf eb = {{0}};

        CHECK(samples_parse(span_of(odd[i]), &s, &eb) == ERR_OK);
        (void)samples_quantile(s, s, "a", NULL, 0.5);
        samples_free(&s);
    }
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_sums_and_quantiles);
    RUN(test_any_bytes);
    return check_done();
}
