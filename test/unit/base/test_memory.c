/* arena, buf, cursor, span and err: limits are kept, and what is refused leaves what was
 * there. */
#include "base/arena.h"
#include "base/buf.h"
#include "base/cursor.h"
#include "base/err.h"
#include "base/mem.h"
#include "check.h"

static void
test_arena_limit_and_reset(void)
{
    struct arena *a = arena_new(256, 4096);
    unsigned char *p;
    size_t got = 0;

    for (size_t size = 1; (p = arena_try(a, size)) != NULL; size += 7) {
        CHECK((uintptr_t)p % 16 == 0);
        for (size_t i = 0; i < size; i++)
            REQUIRE(p[i] == 0);
        memset(p, 0xAB, size);
        got += size;
    }
    CHECK(got > 2048 && got <= 4096);
    arena_reset(a);
    p = arena_try(a, 100);
    REQUIRE(p != NULL);
    for (size_t i = 0; i < 100; i++)
        REQUIRE(p[i] == 0); /* zeroed again after a reset */
    CHECK(arena_try(a, 5000) == NULL);
    CHECK(arena_try(a, SIZE_MAX - 8) == NULL);
    arena_free(&a);
    CHECK(a == NULL);
    arena_free(&a);
}

static void
test_arena_texts(void)
{
    struct arena *a = arena_new(64, 1 << 16);
    struct span s = arena_span(a, SPAN("some bytes"));

    CHECK(span_is(s, "some bytes"));
    CHECK_STR(arena_strdup(a, SPAN("abc")), "abc");
    CHECK_STR(arena_strdup(a, (struct span){"", 0}), "");
    CHECK_STR(arena_printf(a, "%d-%s", 7, "x"), "7-x");
    arena_free(&a);
}

static void
test_buf_grows_to_its_limit_and_no_further(void)
{
    struct buf b;

    buf_init(&b, 1000);
    for (int i = 0; i < 1000; i++)
        buf_putc(&b, (char)i);
    CHECK(b.len == 1000 && !b.full);
    buf_putc(&b, 'x');
    CHECK(b.len == 1000 && b.full);
    for (int i = 0; i < 1000; i++)
        REQUIRE(b.at[i] == (char)i);
    buf_consume(&b, 990);
    CHECK(b.len == 10 && b.at[0] == (char)990);
    buf_clear(&b);
    CHECK(b.len == 0 && !b.full);
    buf_put(&b, "abc", 3);
    buf_puts(&b, "def");
    buf_put_span(&b, SPAN("ghi"));
    buf_printf(&b, "%03d", 7);
    buf_be(&b, 0x010203, 3);
    buf_zero(&b, 2);
    CHECK(span_eq(buf_span(&b), SPAN("abcdefghi007\1\2\3\0\0")));
    CHECK(buf_reserve(&b, SIZE_MAX) == NULL && b.full);
    buf_fini(&b);
    buf_fini(&b);
}

static void
test_cursor_stays_inside(void)
{
    struct cursor c = cursor_of("\x01\x02\x03\x04\x05", 5);

    CHECK_U64(take_be(&c, 2), 0x0102);
    CHECK(span_is(take_span(&c, 2), "\3\4"));
    CHECK(!c.bad && cursor_left(&c) == 1);
    CHECK_U64(take_be(&c, 2), 0);
    CHECK(c.bad);
    CHECK_U64(take_be(&c, 1), 0); /* bad stays bad */
    c = cursor_of("x", 1);
    CHECK(take_span(&c, SIZE_MAX).len == 0 && c.bad);
}

static void
test_spans(void)
{
    CHECK(span_eq(span_trim(SPAN(" \t a b\t ")), SPAN("a b")));
    CHECK(span_trim(SPAN("  ")).len == 0);
    CHECK(span_cmp(SPAN("a"), SPAN("b")) < 0);
    CHECK(span_cmp(SPAN("a"), SPAN("a\0")) < 0);
    CHECK(span_cmp(SPAN("\xff"), SPAN("a")) > 0); /* bytes, not chars */
    CHECK(span_starts(SPAN("abc"), SPAN("ab")) && !span_starts(SPAN("a"), SPAN("ab")));
    CHECK(span_from(SPAN("abc"), 9).len == 0);
    CHECK(span_case_is(SPAN("Content-MD5"), "content-md5"));
}

static void
test_errors(void)
{
    struct errbuf eb = {0};
    char longer[600];

    CHECK(err_set(&eb, ERR_RANGE, "byte %d of \"%s\"", 7, "x") == ERR_RANGE);
    err_prefix(&eb, "disk %d", 3);
    CHECK_STR(eb.text, "disk 3: byte 7 of \"x\"");
    CHECK(err_errno(&eb, ERR_IO, 2, "open \"%s\"", "f") == ERR_IO);
    CHECK_SAYS(eb.text, "open \"f\": No such file");
    CHECK(err_set(NULL, ERR_BUSY, "no buffer") == ERR_BUSY);
    CHECK_STR(err_name(ERR_NOT_IMPLEMENTED), "NOT_IMPLEMENTED");
    memset(longer, 'z', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    err_set(&eb, ERR_IO, "%s", longer);
    CHECK_U64(strlen(eb.text), sizeof eb.text - 1);
    for (int i = 0; i < 3; i++) {
        err_prefix(&eb, "%s", longer); /* a prefix that leaves no room */
        CHECK_U64(strlen(eb.text), sizeof eb.text - 1);
    }
    err_errno(&eb, ERR_IO, 5, "%s", longer);
    CHECK_U64(strlen(eb.text), sizeof eb.text - 1);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_arena_limit_and_reset);
    RUN(test_arena_texts);
    RUN(test_buf_grows_to_its_limit_and_no_further);
    RUN(test_cursor_stays_inside);
    RUN(test_spans);
    RUN(test_errors);
    return check_done();
}
