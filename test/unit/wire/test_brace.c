/* brace: what bash makes of the same patterns, a name at a time. */
#include "base/mem.h"
#include "check.h"
#include "wire/brace.h"

struct case_row {
    const char *pattern;
    const char *names; /* one a line; NULL: refused */
};

static const struct case_row rows[] = {
    {"plain", "plain\n"},
    {"", "\n"},
    {"a{1..3}b", "a1b\na2b\na3b\n"},
    {"s-{08..11}.tar", "s-08.tar\ns-09.tar\ns-10.tar\ns-11.tar\n"},
    {"{3..1}", "3\n2\n1\n"},
    {"{1..10..4}", "1\n5\n9\n"},
    {"{10..1..-4}", "10\n6\n2\n"},
    {"{1..3..0}", "1\n2\n3\n"},
    {"{-1..1}", "-1\n0\n1\n"},
    {"{-01..1}", "-01\n000\n001\n"},
    {"{a..c}", "a\nb\nc\n"},
    {"{e..a..2}", "e\nc\na\n"},
    {"{x,yy,}z", "xz\nyyz\nz\n"},
    {"{a,b}{1..2}", "a1\na2\nb1\nb2\n"},
    {"{a,b}/{c,d}", "a/c\na/d\nb/c\nb/d\n"},
    {"{one}", "{one}\n"},
    {"{}", "{}\n"},
    {"{", "{\n"},
    {"}{", "}{\n"},
    {"{1..}", "{1..}\n"},
    {"{1..x}", "{1..x}\n"},
    {"{1..2..3..4}", "{1..2..3..4}\n"},
    {"{1..99999999999999999999}", "{1..99999999999999999999}\n"},
    {"${1..2}", "${1..2}\n"},
    {"\\{1..2}", "{1..2}\n"},
    {"{a\\,b,c}", "a,b\nc\n"},
    {"{a,b\\}", "{a,b}\n"},
    {"back\\\\slash", "back\\slash\n"},
    {"{a,{b,c}}", "a\nb\nc\n"},
    {"{a,b{1..2},}x", "ax\nb1x\nb2x\nx\n"},
    {"{x{a,b}}", "{xa}\n{xb}\n"},
    {"{a,{b,c}", "{a,b\n{a,c\n"},
    {"{{a,b},{c,d}}{1,2}", "a1\na2\nb1\nb2\nc1\nc2\nd1\nd2\n"},
    {"{a\\{,b}", "a{\nb\n"},
    {"{{{{{{{{{{{{{{{{{a,b},c},c},c},c},c},c},c},c},c},c},c},c},c},c},c},c}", NULL},
    {"{0..999999}{0..999}{1..2}", NULL},
    {"{1,1{1,1{1,1{1,1}}}}{0..9}{1,{2..999999}}{1..99999}", NULL},
};

static void
test_patterns(void)
{
    struct arena *a = arena_new(4096, MIB(1));
    struct errbuf eb = {0};
    struct buf text;

    buf_init(&text, KIB(64));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct brace *b;
        enum err rc = brace_parse(span_of(rows[i].pattern), a, &b, &eb);

        CHECK((rc == ERR_OK) == (rows[i].names != NULL));
        buf_clear(&text);
        for (uint64_t n = 0; rc == ERR_OK && n < brace_count(b); n++) {
            brace_name(b, n, &text);
            buf_putc(&text, '\n');
        }
        if (rc == ERR_OK && !span_is(buf_span(&text), rows[i].names))
            printf("%s gave\n%.*s", rows[i].pattern, SPAN_ARG(buf_span(&text)));
        CHECK(rc != ERR_OK || span_is(buf_span(&text), rows[i].names));
        arena_reset(a);
    }
    buf_fini(&text);
    arena_free(&a);
}

/* A billion names take no memory, and the last one is made at once. */
static void
test_many(void)
{
    struct arena *a = arena_new(4096, KIB(64));
    struct errbuf eb = {0};
    struct brace *b;
    struct buf text;

    buf_init(&text, KIB(1));
    CHECK(brace_parse(SPAN("{000..999}/{000000..999999}"), a, &b, &eb) == ERR_OK);
    CHECK_U64(brace_count(b), 1000000000);
    brace_name(b, 999999999, &text);
    CHECK(span_is(buf_span(&text), "999/999999"));
    CHECK(brace_parse(SPAN("{1..1000000001}"), a, &b, &eb) == ERR_TOO_LARGE);
    CHECK_SAYS(eb.text, "1000000000");
    buf_fini(&text);
    arena_free(&a);
}

/* For callers that continue with globs: their backslashes are left. */
static void
test_of_a_pattern(void)
{
    struct arena *a = arena_new(4096, KIB(64));
    struct errbuf eb = {0};
    struct brace *b;
    struct buf text;
    size_t at;

    buf_init(&text, KIB(1));
    CHECK(brace_parse(SPAN("{x\\*,\\{y\\,}\\\\"), a, &b, &eb) == ERR_OK);
    CHECK_U64(brace_count(b), 2);
    brace_pattern(b, 0, &text);
    CHECK(span_is(buf_span(&text), "x\\*\\\\"));
    buf_clear(&text);
    brace_pattern(b, 1, &text);
    CHECK(span_is(buf_span(&text), "{y,\\\\"));
    CHECK(brace_is_open(SPAN("a{b,c}d{e"), &at) && at == 7);
    CHECK(!brace_is_open(SPAN("a{b,{c}}\\{"), &at));
    buf_fini(&text);
    arena_free(&a);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_patterns);
    RUN(test_many);
    RUN(test_of_a_pattern);
    return check_done();
}
