/* Entity tags, ranges, conditions: the tables of S3. */
#include "check.h"

#include "base/mem.h"
#include "wire/etag.h"

static struct fault fault;

static void
test_text_and_back(void)
{
    unsigned char md5[DIGEST_MAX], back[16];
    unsigned parts;
    char text[ETAG_TEXT_MAX];

    digest_oneshot(DIGEST_MD5, "hello world", 11, md5);
    CHECK_U64(etag_text(md5, 0, text), 32);
    CHECK_STR(text, "5eb63bbbe01eeed093cb22bb8f5acdc3");
    CHECK(etag_parse(span_of(text), back, &parts) && parts == 0);
    CHECK(memcmp(md5, back, 16) == 0);
    CHECK_U64(etag_text(md5, 10000, text), 38);
    CHECK(etag_parse(span_of(text), back, &parts) && parts == 10000);
    static const char *const bad[] = {
        "",
        "5eb63bbbe01eeed093cb22bb8f5acdc",
        "5eb63bbbe01eeed093cb22bb8f5acdc3-",
        "5eb63bbbe01eeed093cb22bb8f5acdc3-0",
        "5eb63bbbe01eeed093cb22bb8f5acdc3-01",
        "5eb63bbbe01eeed093cb22bb8f5acdc3-x",
        "5eb63bbbe01eeed093cb22bb8f5acdc3-999999",
        "zeb63bbbe01eeed093cb22bb8f5acdc3",
        "\"5eb63bbbe01eeed093cb22bb8f5acdc3\"",
        "0x8DC1234567890AB",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK(!etag_parse(span_of(bad[i]), back, &parts));
}

static void
test_multipart(void)
{
    const size_t len = (size_t)5 << 20;
    char *part = xmalloc(len), text[ETAG_TEXT_MAX];
    unsigned char md5[DIGEST_MAX], out[16];
    struct etag_multipart m;

    etag_multipart_init(&m);
    for (int c = 'A'; c <= 'C'; c++) {
        memset(part, c, len);
        digest_oneshot(DIGEST_MD5, part, len, md5);
        etag_multipart_add(&m, md5);
    }
    etag_multipart_end(&m, out, text);
    CHECK_STR(text, "b2add96cc9702bbf4efb0ccdfc6b7747-3");
    free(part);
}

static void
test_lists(void)
{
    static const struct {
        const char *list;
        bool matches;
    } rows[] = {
        {"\"abc\"", true},
        {"abc", true},
        {" abc ", true},
        {"W/\"abc\"", true},
        {"*", true},
        {" * ", true},
        {"\"x\", \"abc\"", true},
        {"x,abc", true},
        {"\"x\",\"abc\" ,y", true},
        {"\"abcd\"", false},
        {"ab", false},
        {"", false},
        {",", false},
        {"\"a,abc\"", false},
        {"\"x\", \"y\"", false},
        {"ABC", false},
        {"\"*\"", false},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        CHECK_U64(etag_in_list(span_of(rows[i].list), SPAN("abc")), rows[i].matches);
    CHECK(span_is(etag_unquote(SPAN("\"")), "\""));
    CHECK(span_is(etag_unquote(SPAN("\"\"")), ""));
}

/* ---- ranges ---- */

static void
test_ranges(void)
{
    static const struct {
        const char *header;
        uint64_t size;
        enum range_got got;
        uint64_t first, len;
        const char *text;
    } rows[] = {
        {"bytes=0-3", 10, RANGE_PART, 0, 4, "bytes 0-3/10"},
        {"bytes=4-", 10, RANGE_PART, 4, 6, "bytes 4-9/10"},
        {"bytes=4-999", 10, RANGE_PART, 4, 6, "bytes 4-9/10"},
        {"bytes=-3", 10, RANGE_PART, 7, 3, "bytes 7-9/10"},
        {"bytes=-999", 10, RANGE_PART, 0, 10, "bytes 0-9/10"},
        {"bytes=0-9", 10, RANGE_PART, 0, 10, "bytes 0-9/10"},
        {"bytes=9-9", 10, RANGE_PART, 9, 1, "bytes 9-9/10"},
        {"Bytes=0-3", 10, RANGE_PART, 0, 4, "bytes 0-3/10"},
        {"bytes=0-18446744073709551615", 10, RANGE_PART, 0, 10, "bytes 0-9/10"},
        {"bytes=0-99999999999999999999999", 10, RANGE_PART, 0, 10, "bytes 0-9/10"},
        {"bytes=-99999999999999999999999", 10, RANGE_PART, 0, 10, "bytes 0-9/10"},
        {"bytes=10-", 10, RANGE_UNSATISFIABLE, 0, 10, "bytes */10"},
        {"bytes=10-20", 10, RANGE_UNSATISFIABLE, 0, 10, "bytes */10"},
        {"bytes=-0", 10, RANGE_UNSATISFIABLE, 0, 10, "bytes */10"},
        {"bytes=99999999999999999999999-", 10, RANGE_UNSATISFIABLE, 0, 10, "bytes */10"},
        {"bytes=5-2", 10, RANGE_WHOLE, 0, 10, NULL},
        {"bytes=a-b", 10, RANGE_WHOLE, 0, 10, NULL},
        {"bytes=-", 10, RANGE_WHOLE, 0, 10, NULL},
        {"items=0-1", 10, RANGE_WHOLE, 0, 10, NULL},
        {"bytes=0-1,3-4", 10, RANGE_WHOLE, 0, 10, NULL},
        {"bytes=0", 10, RANGE_WHOLE, 0, 10, NULL},
        {"bytes=", 10, RANGE_WHOLE, 0, 10, NULL},
        {"bytes", 10, RANGE_WHOLE, 0, 10, NULL},
        {"bytes=0x1-2", 10, RANGE_WHOLE, 0, 10, NULL},
        {"bytes=--3", 10, RANGE_WHOLE, 0, 10, NULL},
        {"bytes=+1-2", 10, RANGE_WHOLE, 0, 10, NULL},
        {"", 10, RANGE_WHOLE, 0, 10, NULL},
        {NULL, 10, RANGE_WHOLE, 0, 10, NULL},
        {"bytes=0-", 0, RANGE_UNSATISFIABLE, 0, 0, "bytes */0"},
        {"bytes=0-0", 0, RANGE_UNSATISFIABLE, 0, 0, "bytes */0"},
        {"bytes=-5", 0, RANGE_WHOLE, 0, 0, NULL},
        {"bytes=0-18446744073709551614", UINT64_MAX, RANGE_PART, 0, UINT64_MAX,
         "bytes 0-18446744073709551614/18446744073709551615"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct range r, told;
        uint64_t size;
        enum range_got got = range_resolve(span_of(rows[i].header), rows[i].size, &r);

        CHECK_U64(got, rows[i].got);
        CHECK_U64(r.first, rows[i].first);
        CHECK_U64(r.len, rows[i].len);
        if (got != RANGE_PART || rows[i].text == NULL)
            continue;
        /* A client reads the same from the Content-Range of that answer. */
        CHECK(content_range_parse(span_of(rows[i].text), &told, &size) == ERR_OK);
        CHECK(told.first == r.first && told.len == r.len && size == rows[i].size);
    }
}

static void
test_range_fault(void)
{
    char text[24];

    CHECK(range_fault(SPAN("bytes=10-"), 10, text, &fault) == ERR_RANGE);
    CHECK_U64(s3_code_status(fault.code), 416);
    REQUIRE(fault.extra_count == 2);
    CHECK_STR(fault.extra[0].name, "RangeRequested");
    CHECK(span_is(fault.extra[0].value, "bytes=10-"));
    CHECK_STR(fault.extra[1].name, "ActualObjectSize");
    CHECK(span_is(fault.extra[1].value, "10"));
}

static void
test_content_range(void)
{
    static const struct {
        const char *text;
        bool good;
        uint64_t first, len, size;
    } rows[] = {
        {"bytes 0-3/10", true, 0, 4, 10},
        {"bytes 7-9/10", true, 7, 3, 10},
        {"bytes 0-0/*", true, 0, 1, UINT64_MAX},
        {"bytes 3-2/10", false, 0, 0, 0},
        {"bytes 0-10/10", false, 0, 0, 0}, /* a last byte beyond the size */
        {"bytes */10", false, 0, 0, 0},
        {"bytes 0-3", false, 0, 0, 0},
        {"items 0-3/10", false, 0, 0, 0},
        {"bytes 0-/10", false, 0, 0, 0},
        {"bytes 0-3/", false, 0, 0, 0},
        {"", false, 0, 0, 0},
        {"bytes 0-18446744073709551615/*", false, 0, 0, 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct range r = {0};
        uint64_t size = 0;
        enum err rc = content_range_parse(span_of(rows[i].text), &r, &size);

        CHECK_U64(rc == ERR_OK, rows[i].good);
        if (rc == ERR_OK)
            CHECK(r.first == rows[i].first && r.len == rows[i].len &&
                  size == rows[i].size);
    }
}

static void
test_copy_ranges(void)
{
    static const char *const bad[] = {
        "0-2", "bytes=0", "bytes=hello-", "bytes=-3", "bytes=0-2,3-5", "bytes=2-1", ""};
    struct range r;

    CHECK(copy_range_parse(SPAN("bytes=5-9"), &r, &fault) == ERR_OK);
    CHECK(r.first == 5 && r.len == 5);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CHECK(copy_range_parse(span_of(bad[i]), &r, &fault) == ERR_BAD_REQUEST);
        CHECK_U64(fault.code, S3_InvalidArgument);
        CHECK(span_is(fault.extra[0].value, "x-amz-copy-source-range"));
    }
}

/* ---- conditions ---- */

#define OLD     "Fri, 20 Nov 2026 00:00:00 GMT"
#define AT      "Sat, 21 Nov 2026 00:00:00 GMT"
#define NEW     "Sun, 22 Nov 2026 00:00:00 GMT"
#define FUT     "Fri, 20 Nov 2036 00:00:00 GMT"
#define MTIME_S 1795219200 /* AT */

static void
test_conditions(void)
{
    static const struct {
        const char *match, *none, *modified, *unmodified;
        enum err want;
        const char *condition;
    } rows[] = {
        {NULL, NULL, NULL, NULL, ERR_OK, NULL},
        {"\"e\"", NULL, NULL, NULL, ERR_OK, NULL},
        {"e", NULL, NULL, NULL, ERR_OK, NULL},
        {"*", NULL, NULL, NULL, ERR_OK, NULL},
        {"\"x\"", NULL, NULL, NULL, ERR_PRECONDITION, "If-Match"},
        {"", NULL, NULL, NULL, ERR_PRECONDITION, "If-Match"},
        /* 1: If-Match holds, If-Unmodified-Since is not looked at */
        {"\"e\"", NULL, NULL, OLD, ERR_OK, NULL},
        {"\"x\"", NULL, NULL, NEW, ERR_PRECONDITION, "If-Match"},
        /* 2 */
        {NULL, NULL, NULL, OLD, ERR_PRECONDITION, "If-Unmodified-Since"},
        {NULL, NULL, NULL, AT, ERR_OK, NULL},
        {NULL, NULL, NULL, NEW, ERR_OK, NULL},
        {NULL, NULL, NULL, "rubbish", ERR_OK, NULL},
        /* 3: If-None-Match does not match, If-Modified-Since is not looked at */
        {NULL, "\"e\"", NULL, NULL, ERR_NOT_MODIFIED, NULL},
        {NULL, "*", NULL, NULL, ERR_NOT_MODIFIED, NULL},
        {NULL, "\"x\", \"e\"", OLD, NULL, ERR_NOT_MODIFIED, NULL},
        {NULL, "\"x\"", NEW, NULL, ERR_OK, NULL},
        {NULL, "\"x\"", AT, NULL, ERR_OK, NULL},
        /* 4 */
        {NULL, NULL, OLD, NULL, ERR_OK, NULL},
        {NULL, NULL, AT, NULL, ERR_NOT_MODIFIED, NULL},
        {NULL, NULL, NEW, NULL, ERR_NOT_MODIFIED, NULL},
        {NULL, NULL, FUT, NULL, ERR_OK, NULL},
        {NULL, NULL, "rubbish", NULL, ERR_OK, NULL},
        /* 412 goes before 304 */
        {"\"x\"", "\"e\"", NULL, NULL, ERR_PRECONDITION, "If-Match"},
        {"\"e\"", "\"e\"", NULL, NULL, ERR_NOT_MODIFIED, NULL},
        {"\"e\"", NULL, NEW, NULL, ERR_NOT_MODIFIED, NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct conditions c = {.if_match = span_of(rows[i].match),
                               .if_none_match = span_of(rows[i].none),
                               .if_modified_since = span_of(rows[i].modified),
                               .if_unmodified_since = span_of(rows[i].unmodified)};

        memset(&fault, 0, sizeof fault);
        CHECK_U64(
            preconditions_check(&c, SPAN("e"), MTIME_S, MTIME_S + 3 * 86400, &fault),
            rows[i].want);
        if (rows[i].condition != NULL) {
            REQUIRE(fault.extra_count == 1);
            CHECK_STR(fault.extra[0].name, "Condition");
            CHECK(span_is(fault.extra[0].value, rows[i].condition));
            CHECK_U64(s3_code_status(fault.code), 412);
        }
    }
}

static void
test_if_range(void)
{
    CHECK(if_range_holds((struct span){NULL, 0}, SPAN("e"), MTIME_S));
    CHECK(if_range_holds(SPAN("\"e\""), SPAN("e"), MTIME_S));
    CHECK(if_range_holds(SPAN(AT), SPAN("e"), MTIME_S));
    CHECK(!if_range_holds(SPAN("W/\"e\""), SPAN("e"), MTIME_S));
    CHECK(!if_range_holds(SPAN("\"x\""), SPAN("e"), MTIME_S));
    CHECK(!if_range_holds(SPAN(NEW), SPAN("e"), MTIME_S));
    CHECK(!if_range_holds(SPAN(OLD), SPAN("e"), MTIME_S));
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_text_and_back);
    RUN(test_multipart);
    RUN(test_lists);
    RUN(test_ranges);
    RUN(test_range_fault);
    RUN(test_content_range);
    RUN(test_copy_ranges);
    RUN(test_conditions);
    RUN(test_if_range);
    return check_done();
}
