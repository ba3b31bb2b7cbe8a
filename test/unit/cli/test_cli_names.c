/* names: braces, patterns, filters, and what may be a file. */
#include "cli/names.h"

#include "base/buf.h"
#include "check.h"
#include "cli/note.h"

static enum err
collect(void *arg, struct span name, struct errbuf *eb)
{
    struct buf *b = arg;

    (void)eb;
    CHECK(name.at[name.len] == '\0');
    buf_put_span(b, name);
    buf_putc(b, ' ');
    return ERR_OK;
}

static void
test_braces(void)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"plain", "plain "},
        {"a{b,c}d", "abd acd "},
        {"{0..3}", "0 1 2 3 "},
        {"s-{008..011}.tar", "s-008.tar s-009.tar s-010.tar s-011.tar "},
        {"{2..0}", "2 1 0 "},
        {"{a,b}{1,2}", "a1 a2 b1 b2 "},
        {"{a,b{1..2}}x", "ax b1x b2x "},
        {"{a,}x", "ax x "},
        {"{x}", "{x} "},
        {"{}", "{} "},
        {"a\\{b,c\\}", "a{b,c} "},
        {"{a\\,b,c}", "a,b c "},
        {"\\{{1,2}\\}", "{1} {2} "},
        {"", " "},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct errbuf eb = {{0}};
        struct buf b;

        buf_init(&b, 10000);
        CHECK(names_expand(span_of(rows[i].text), collect, &b, &eb) == ERR_OK);
        buf_putc(&b, '\0');
        CHECK_STR(b.at, rows[i].want);
        buf_fini(&b);
    }
}

static enum err
count(void *arg, struct span name, struct errbuf *eb)
{
    (void)name;
    (void)eb;
    ++*(unsigned *)arg;
    return ERR_OK;
}

static void
test_braces_have_limits(void)
{
    static const struct {
        const char *text;
        enum err err;
        const char *says;
    } rows[] = {
        {"{0..1000000}", ERR_TOO_LARGE, "over 1000000"},
        {"{0..999}{0..999}{0..1}", ERR_TOO_LARGE, "over 1000000"},
        {"{a,b", ERR_BAD_REQUEST, "not closed"},
        {"{{{{{{{{{{{{{{{{{a,b},c},c},c},c},c},c},c},c},c},c},c},c},c},c},c},c}",
         ERR_BAD_REQUEST, "inside each other"},
    };
    unsigned n = 0;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct errbuf eb = {{0}};

        CHECK(names_expand(span_of(rows[i].text), count, &n, &eb) == rows[i].err);
        CHECK_SAYS(eb.text, rows[i].says);
    }
}

static void
test_patterns(void)
{
    static const struct {
        const char *pattern, *name;
        bool want;
    } rows[] = {
        {"*.jpg", "a.jpg", true},
        {"*.jpg", "d/a.jpg", false},
        {"**.jpg", "d/e/a.jpg", true},
        {"a/**/b", "a/b", true},
        {"a/**/b", "a/x/y/b", true},
        {"a/**/b", "a/xb", false},
        {"?", "/", false},
        {"[a-c]x", "bx", true},
        {"[!a-c]x", "bx", false},
        {"[]]", "]", true},
        {"[", "[", true},
        {"\\*", "*", true},
        {"\\*", "x", false},
        {"", "", true},
        {"*", "", true},
        {"*a*a*a*b", "aaaaaaaaaaaaaaaa", false},
        {"tmp/**", "tmp/a/b", true},
        {"tmp/*", "tmp/a/b", false},
        {"a*b?d", "axxbcd", true},
        {"**", "a/b", true},
        {"x/**y", "x/a/by", true},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (glob_match(span_of(rows[i].pattern), span_of(rows[i].name)) != rows[i].want) {
            fprintf(stderr, "\"%s\" and \"%s\"\n", rows[i].pattern, rows[i].name);
            CHECK(false);
        }
    CHECK(glob_is(SPAN("a*")) && !glob_is(SPAN("abc{}")));
    CHECK_U64(glob_literal(SPAN("dir/s-*.tar")), 6);
}

static void
test_filters(void)
{
    const char *exclude[] = {"*.tmp", "old/**"}, *include[] = {"keep.tmp"};
    struct filter both = {exclude, include, 2, 1}, only = {NULL, include, 0, 1},
                  none = {0};

    CHECK(filter_takes(&none, SPAN("x")));
    CHECK(filter_takes(&both, SPAN("a/b.txt")));
    CHECK(!filter_takes(&both, SPAN("a/b.tmp")));
    CHECK(filter_takes(&both, SPAN("a/keep.tmp")));
    CHECK(!filter_takes(&both, SPAN("old/x/y")));
    CHECK(filter_takes(&only, SPAN("z/keep.tmp")) && !filter_takes(&only, SPAN("b")));
}

static void
test_what_may_be_a_file(void)
{
    static const char *const bad[] = {"",     "/a",  "a//b", "../a", "a/../b", "..",
                                      "a/..", "./a", "a/.",  "a/",   "/"};
    static const char *const good[] = {"a",       "a/b",  "..a", "a..",
                                       ".hidden", "a\nb", "..."};
    struct arena *a = arena_new(1000, 10000);

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK(name_problem(span_of(bad[i])) != NULL);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        CHECK(name_problem(span_of(good[i])) == NULL);
    CHECK(name_problem((struct span){"a\0b", 3}) != NULL);
    CHECK(span_is(name_shown(SPAN("a\nb\x1b[2J"), a), "a\\nb\\x1b[2J"));
    CHECK(span_is(name_shown(SPAN("\xff\xc3\xa9"), a), "\\xff\xc3\xa9"));
    arena_free(&a);
}

static void
test_notes(void)
{
    char have[2501], text[3000];
    struct note n;

    memset(have, '0', sizeof have - 1);
    have[sizeof have - 1] = '\0';
    have[1] = '5';
    snprintf(text, sizeof text,
             "forebay-note 1\nsize 100\nmtime 7\npart 30\nid abc\nhave %s\n", have);
    REQUIRE(note_parse(span_of(text), &n));
    CHECK(n.size == 100 && n.mtime_ns == 7 && n.part_bytes == 30 && n.have[0] == 5);
    CHECK_STR(n.id, "abc");
    for (size_t len = 0; len < strlen(text); len++)
        CHECK(!note_parse((struct span){text, len}, &n));
    snprintf(text, sizeof text,
             "forebay-note 1\nsize 100001\nmtime 7\npart 10\nid abc\nhave %s\n", have);
    CHECK(!note_parse(span_of(text), &n)); /* over 10,000 parts */
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_braces);
    RUN(test_braces_have_limits);
    RUN(test_patterns);
    RUN(test_filters);
    RUN(test_what_may_be_a_file);
    RUN(test_notes);
    return check_done();
}
