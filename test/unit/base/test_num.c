/* Numbers, sizes, durations, dates: what is taken, what is refused, and that dates come
 * back. */
#include "base/num.h"

#include <time.h>

#include "base/mem.h"
#include "check.h"

static void
test_u64(void)
{
    static const struct {
        const char *text;
        bool good;
        uint64_t want;
    } rows[] = {
        {"0", true, 0},
        {"18446744073709551615", true, UINT64_MAX},
        {"007", true, 7},
        {"18446744073709551616", false, 0},
        {"99999999999999999999", false, 0},
        {"", false, 0},
        {"-1", false, 0},
        {"+1", false, 0},
        {" 1", false, 0},
        {"1 ", false, 0},
        {"0x10", false, 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        uint64_t v = 77;

        CHECK((num_u64(span_of(rows[i].text), &v) == ERR_OK) == rows[i].good);
        CHECK_U64(v, rows[i].good ? rows[i].want : 77); /* untouched when refused */
    }
}

static void
test_hex64(void)
{
    uint64_t v = 0;

    CHECK(num_hex64(SPAN("ffffffffffffffff"), &v) == ERR_OK && v == UINT64_MAX);
    CHECK(num_hex64(SPAN("1aB"), &v) == ERR_OK && v == 0x1ab);
    CHECK(num_hex64(SPAN("10000000000000000"), &v) != ERR_OK);
    CHECK(num_hex64(SPAN(""), &v) != ERR_OK);
    CHECK(num_hex64(SPAN("0x1"), &v) != ERR_OK);
}

static void
test_size(void)
{
    static const struct {
        const char *text;
        bool good;
        uint64_t want;
    } rows[] = {
        {"4096", true, 4096},
        {"0", true, 0},
        {"64KiB", true, 65536},
        {"64kib", true, 65536},
        {"10GB", true, 10000000000},
        {"10gb", true, 10000000000},
        {"1.5GiB", true, GIB(3) / 2},
        {"0.1KB", true, 100},
        {"1.25TiB", true, GIB(1280)},
        {"512B", true, 512},
        {"16777215TiB", true, (uint64_t)16777215 << 40},
        {"16777216TiB", false, 0},
        {"1.5", false, 0},
        {"1.5B", false, 0},
        {"1.KiB", false, 0},
        {".5KiB", false, 0},
        {"64 KiB", false, 0},
        {"64K", false, 0},
        {"64kIb", false, 0},
        {"KiB", false, 0},
        {"-1KiB", false, 0},
        {"", false, 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct errbuf eb = {0};
        uint64_t v = 0;
        enum err rc = num_size(span_of(rows[i].text), &v, &eb);

        CHECK((rc == ERR_OK) == rows[i].good);
        if (rc == ERR_OK)
            CHECK_U64(v, rows[i].want);
        else
            CHECK_SAYS(eb.text, rows[i].text);
    }
}

static void
test_duration(void)
{
    struct errbuf eb = {0};
    uint64_t v = 0;

    CHECK(num_duration_ms(SPAN("250ms"), &v, &eb) == ERR_OK && v == 250);
    CHECK(num_duration_ms(SPAN("10s"), &v, &eb) == ERR_OK && v == 10000);
    CHECK(num_duration_ms(SPAN("5m"), &v, &eb) == ERR_OK && v == 300000);
    CHECK(num_duration_ms(SPAN("2h"), &v, &eb) == ERR_OK && v == 7200000);
    CHECK(num_duration_ms(SPAN("7d"), &v, &eb) == ERR_OK && v == 604800000);
    CHECK(num_duration_ms(SPAN("10"), &v, &eb) == ERR_BAD_REQUEST);
    CHECK_SAYS(eb.text, "\"10\" is not a duration");
    CHECK(num_duration_ms(SPAN("1.5s"), &v, &eb) == ERR_BAD_REQUEST);
    CHECK(num_duration_ms(SPAN("999999999999d"), &v, &eb) == ERR_BAD_REQUEST);
}

static void
test_size_text(void)
{
    char out[NUM_SIZE_TEXT];

    CHECK_STR(num_size_in(999, NUM_SI, out), "999 B");
    CHECK_STR(num_size_in(1000, NUM_SI, out), "1.0 kB");
    CHECK_STR(num_size_in(999950, NUM_SI, out), "1.0 MB");
    CHECK_STR(num_size_in(UINT64_MAX, NUM_SI, out), "18.4 EB");
    CHECK_STR(num_size_in(UINT64_MAX, NUM_RAW, out), "18446744073709551615");
    CHECK_STR(num_size_text(0, out), "0 B");
    CHECK_STR(num_size_text(1023, out), "1023 B");
    CHECK_STR(num_size_text(1024, out), "1.0 KiB");
    CHECK_STR(num_size_text(1048575, out), "1.0 MiB");
    CHECK_STR(num_size_text(UINT64_MAX, out), "16.0 EiB");
}

static void
test_dates_written(void)
{
    char out[NUM_DATE_TEXT];

    date_http(784111777, out);
    CHECK_STR(out, "Sun, 06 Nov 1994 08:49:37 GMT"); /* RFC 9110 */
    date_iso(1795253039000 + 7, out);
    CHECK_STR(out, "2026-11-21T09:23:59.007Z");
    date_amz(1369353600, out);
    CHECK_STR(out, "20130524T000000Z");
    date_iso(-5, out); /* out of range: the nearest that is in */
    CHECK_STR(out, "1970-01-01T00:00:00.000Z");
    date_iso(INT64_MAX, out);
    CHECK_STR(out, "9999-12-31T23:59:59.999Z");
}

/* Every day of 1970 to 2399 against the C library. */
static void
test_calendar_agrees_with_libc(void)
{
    for (int64_t day = 0; day < 157000; day++) {
        int64_t s = day * 86400 + day % 86400, back = 0;
        char mine[NUM_DATE_TEXT], libc[NUM_DATE_TEXT];
        struct tm tm;
        time_t t = (time_t)s;

        gmtime_r(&t, &tm);
        strftime(libc, sizeof libc, "%a, %d %b %Y %H:%M:%S GMT", &tm);
        date_http(s, mine);
        REQUIRE(strcmp(mine, libc) == 0);
        REQUIRE(date_http_parse(span_of(mine), &back) == ERR_OK && back == s);
        date_amz(s, mine);
        REQUIRE(date_amz_parse(span_of(mine), &back) == ERR_OK && back == s);
        date_iso(s * 1000 + day % 1000, mine);
        REQUIRE(date_iso_parse(span_of(mine), &back) == ERR_OK &&
                back == s * 1000 + day % 1000);
    }
}

static void
test_dates_read(void)
{
    static const char *const same[] = {
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
    };
    static const char *const bad[] = {
        "",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 nov 1994 08:49:37 GMT",
        "Sun, 31 Feb 1994 08:49:37 GMT",
        "Sun, 29 Feb 2100 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:49:37 GMT",
        "Sun, 06 Nov 1969 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        "06 Nov 1994 08:49:37 GMT",
        "1994-11-06",
    };
    int64_t s = 0, ms = 0;

    for (size_t i = 0; i < ARRAY_LEN(same); i++)
        CHECK(date_http_parse(span_of(same[i]), &s) == ERR_OK && s == 784111777);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK(date_http_parse(span_of(bad[i]), &s) == ERR_BAD_REQUEST);
    CHECK(date_http_parse(SPAN("Fri, 31 Dec 2016 23:59:60 GMT"), &s) == ERR_OK &&
          s == 1483228799);
    CHECK(date_amz_parse(SPAN("20130524T000000Z"), &s) == ERR_OK && s == 1369353600);
    CHECK(date_amz_parse(SPAN("20130524T000000"), &s) == ERR_BAD_REQUEST);
    CHECK(date_amz_parse(SPAN("20131324T000000Z"), &s) == ERR_BAD_REQUEST);
    CHECK(date_iso_parse(SPAN("2013-05-24T00:00:00Z"), &ms) == ERR_OK &&
          ms == 1369353600000);
    CHECK(date_iso_parse(SPAN("2013-05-24T00:00:00.25Z"), &ms) == ERR_OK &&
          ms == 1369353600250);
    CHECK(date_iso_parse(SPAN("2013-05-24T00:00:00.123456789+00:00"), &ms) == ERR_OK &&
          ms == 1369353600123);
    CHECK(date_iso_parse(SPAN("2013-05-24T00:00:00.Z"), &ms) == ERR_BAD_REQUEST);
    CHECK(date_iso_parse(SPAN("2013-05-24T00:00:00+02:00"), &ms) == ERR_BAD_REQUEST);
    CHECK(date_iso_parse(SPAN("2013-05-24T00:00:00"), &ms) == ERR_BAD_REQUEST);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_u64);
    RUN(test_hex64);
    RUN(test_size);
    RUN(test_duration);
    RUN(test_size_text);
    RUN(test_dates_written);
    RUN(test_calendar_agrees_with_libc);
    RUN(test_dates_read);
    return check_done();
}
