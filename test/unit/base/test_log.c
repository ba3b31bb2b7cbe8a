/* The log: both formats to the byte, nothing that forges a line or drives a terminal,
 * whole lines when cut. */
#include "base/log.h"

#include "base/mem.h"
#include "check.h"

static char last[4096];
static size_t last_len;
static unsigned lines;

static void
keep(const char *line, size_t len)
{
    last_len = MIN(len, sizeof last - 1);
    memcpy(last, line, last_len);
    last[last_len] = '\0';
    lines++;
}

static uint64_t
a_fixed_time(void)
{
    return 1795253039007000000u;
}

static void
start(enum log_format format)
{
    log_set_sink(keep);
    log_set_clock(a_fixed_time);
    log_set_level(LOG_INFO);
    log_set_format(format);
    lines = 0;
    last[0] = '\0';
}

#define WHEN "2026-11-21T09:23:59.007Z"

static void
test_logfmt(void)
{
    start(LOG_LOGFMT);
    LOG(LOG_INFO, "store.opened", "disk opened", L_TEXT("path", "/srv/a"),
        L_U64("objects", 12), L_I64("drift", -3), L_F64("ratio", 0.25),
        L_SPAN("why", SPAN("a=b \"c\"")), L_TEXT("none", ""));
    CHECK_STR(last,
              "time=" WHEN
              " level=info event=store.opened msg=\"disk opened\" path=/srv/a objects=12"
              " drift=-3 ratio=0.25 why=\"a=b \\\"c\\\"\" none=\"\"\n");
    LOG0(LOG_ERROR, "x", "short");
    CHECK_STR(last, "time=" WHEN " level=error event=x msg=short\n");
}

static void
test_json(void)
{
    start(LOG_JSON);
    LOG(LOG_WARN, "disk.slow", "say \"hi\"", L_U64("objects", 12),
        L_F64("nan", 0.0 / 0.0), L_TEXT("null", NULL));
    CHECK_STR(last,
              "{\"time\":\"" WHEN
              "\",\"level\":\"warn\",\"event\":\"disk.slow\",\"msg\":\"say \\\"hi\\\"\","
              "\"objects\":12,\"nan\":null}\n");
}

static void
test_nothing_forges_a_line(void)
{
    static const char nasty[] = "a\r\nlevel=error\t\x1b[2J\x7f\xc2\x9b\xff\xc3\xa9\\";

    start(LOG_LOGFMT);
    LOG(LOG_INFO, "e", "m", L_TEXT("v", nasty));
    CHECK_STR(
        last,
        "time=" WHEN
        " level=info event=e msg=m v=\"a\\r\\nlevel=error\\t\\u001b[2J\\u007f\\u009b"
        "\\xff\xc3\xa9\\\\\"\n");
    start(LOG_JSON);
    LOG(LOG_INFO, "e", "m", L_TEXT("v", nasty));
    CHECK_SAYS(
        last,
        "\"v\":\"a\\r\\nlevel=error\\t\\u001b[2J\\u007f\\u009b\\ufffd\xc3\xa9\\\\\"}\n");
    for (size_t i = 0; i + 1 < last_len; i++)
        CHECK((unsigned char)last[i] >= ' ');
}

static void
test_levels(void)
{
    start(LOG_LOGFMT);
    LOG0(LOG_DEBUG, "e", "m");
    CHECK_U64(lines, 0);
    CHECK(!log_wants(LOG_DEBUG) && log_wants(LOG_INFO));
    log_set_level(LOG_ERROR);
    LOG0(LOG_WARN, "e", "m");
    CHECK_U64(lines, 0);
    log_set_level(LOG_DEBUG);
    LOG0(LOG_DEBUG, "e", "m");
    CHECK_U64(lines, 1);
}

/* Whatever the lengths, a line ends with a newline, fits, and JSON still closes. */
static void
test_long_lines_are_cut_whole(void)
{
    static char text[5000];

    for (int format = LOG_LOGFMT; format <= LOG_JSON; format++) {
        start((enum log_format)format);
        for (size_t len = 0; len < sizeof text; len += len < 900 || len > 1100 ? 61 : 1) {
            for (size_t i = 0; i < len; i++)
                text[i] = i % 7 == 0 ? '"' : 'x'; /* escapes must not be cut in two */
            text[len] = '\0';
            LOG(LOG_INFO, "e", text, L_TEXT("a", text), L_TEXT("b", text),
                L_U64("id", 7));
            REQUIRE(last_len <= 2048 && last[last_len - 1] == '\n');
            if (format == LOG_JSON)
                REQUIRE(last_len > 2 && last[last_len - 2] == '}');
            if (len > 3000)
                CHECK_SAYS(last, "...");
            if (len < 100)
                CHECK_SAYS(last, "id");
        }
    }
}

/* One long value leaves room for the others. */
static void
test_one_long_value_pushes_nothing_out(void)
{
    static char text[3000];

    memset(text, 'y', sizeof text - 1);
    start(LOG_JSON);
    LOG(LOG_INFO, "e", text, L_TEXT("request", "0123"));
    CHECK_SAYS(last, "yyy...\",\"request\":\"0123\"}\n");
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_logfmt);
    RUN(test_json);
    RUN(test_nothing_forges_a_line);
    RUN(test_levels);
    RUN(test_long_lines_are_cut_whole);
    RUN(test_one_long_value_pushes_nothing_out);
    return check_done();
}
