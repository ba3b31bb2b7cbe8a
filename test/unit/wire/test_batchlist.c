/* The list of a batch: what each form says, and errors that name the item and the limit. */
#include "check.h"

#include "base/buf.h"
#include "base/mem.h"
#include "wire/batchlist.h"

static enum err
parse(const char *text, struct arena *a, struct batchlist *out, struct errbuf *eb)
{
    return text[0] == '{' || text[0] == '['
               ? batchlist_parse_json(span_of(text), a, out, eb)
               : batchlist_parse_text(span_of(text), a, out, eb);
}

static void
test_forms(void)
{
    struct arena *a = arena_new(4096, 1u << 20);
    struct errbuf eb = {{0}};
    struct batchlist l;

    REQUIRE(parse("a b\r\n\n/x/\tc\t\n", a, &l, &eb) == ERR_BAD_REQUEST);
    REQUIRE(parse("a b\r\n\nc\t10-19\nd\t5-", a, &l, &eb) == ERR_OK);
    CHECK_U64(l.count, 3);
    CHECK(span_is(l.items[0].name, "a b") && l.items[0].plain && l.items[0].first == 0 &&
          l.items[0].last == BATCHLIST_TO_END);
    CHECK(span_is(l.items[1].name, "c") && l.items[1].first == 10 &&
          l.items[1].last == 19);
    CHECK(span_is(l.items[2].name, "d") && l.items[2].first == 5 &&
          l.items[2].last == BATCHLIST_TO_END);
    REQUIRE(
        parse(
            "[\"a\", {\"object\": \"t\\t.tar/x\", \"member\": \"m\", \"bucket\": \"b\", "
            "\"start\": 1, \"end\": 1}]",
            a, &l, &eb) == ERR_OK);
    CHECK_U64(l.count, 2);
    CHECK(span_is(l.items[0].name, "a") && l.items[0].plain &&
          l.items[0].member.at == NULL);
    CHECK(span_is(l.items[1].name, "t\t.tar/x") && !l.items[1].plain &&
          span_is(l.items[1].member, "m") && span_is(l.items[1].bucket, "b") &&
          l.items[1].first == 1 && l.items[1].last == 1);
    REQUIRE(parse("{\"items\": [\"a\"], \"on_missing\": \"fail\", \"format\": \"zip\"}",
                  a, &l, &eb) == ERR_OK);
    CHECK(l.fail_on_missing && span_is(l.format, "zip"));
    arena_free(&a);
}

static void
test_errors_name_the_item(void)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"", "without items"},
        {"\n\n", "without items"},
        {"a\nb\tx-y\n", "line 2: \"x-y\" is no range"},
        {"a\t9-3\n", "line 1: a range that ends before it begins"},
        {"a\t99999999999999999999-\n", "is no range"},
        {"\t1-2\n", "line 1: a name of 0 bytes"},
        {"[]", "without items"},
        {"{}", "without items"},
        {"{\"items\": 3}", "without items"},
        {"[1]", "item 0: a name"},
        {"[\"a\", {\"object\": 3}]", "item 1: a name"},
        {"[{\"object\": \"a\", \"start\": -1}]", "item 0: a name"},
        {"[{\"object\": \"a\", \"start\": 1.5}]", "item 0: a name"},
        {"[{\"object\": \"a\", \"member\": \"\"}]", "item 0: a member name of 0"},
        {"[{\"object\": \"a\\u0000b\"}]", "zero byte"},
        {"[{\"member\": \"a\"}]", "item 0: a name of 0 bytes"},
        {"{\"items\": [\"a\"], \"on_missing\": \"skip\"}", "\"mark\" or \"fail\""},
        {"[\"a\"", "no JSON"},
        {"[\"\\ud800\"]", "no JSON"},
    };

    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        struct arena *a = arena_new(4096, 1u << 20);
        struct errbuf eb = {{0}};
        struct batchlist l;

        CHECK(parse(rows[i].text, a, &l, &eb) == ERR_BAD_REQUEST);
        CHECK_SAYS(eb.text, rows[i].says);
        arena_free(&a);
    }
}

static void
test_limits(void)
{
    struct arena *a = arena_new(4096, 64u << 20), *small = arena_new(4096, 64u << 10);
    struct errbuf eb = {{0}};
    struct batchlist l;
    struct buf many;

    buf_init(&many, 8u << 20);
    for (unsigned i = 0; i < BATCHLIST_ITEMS_MAX; i++)
        buf_puts(&many, "a\n");
    CHECK(batchlist_parse_text(buf_span(&many), a, &l, &eb) == ERR_OK);
    CHECK_U64(l.count, BATCHLIST_ITEMS_MAX);
    CHECK(batchlist_parse_text(buf_span(&many), small, &l, &eb) == ERR_TOO_LARGE);
    buf_puts(&many, "a");
    CHECK(batchlist_parse_text(buf_span(&many), a, &l, &eb) == ERR_TOO_LARGE);
    CHECK_SAYS(eb.text, "32768");
    buf_clear(&many);
    buf_puts(&many, "[0");
    for (unsigned i = 0; i < BATCHLIST_ITEMS_MAX; i++)
        buf_puts(&many, ",0");
    buf_puts(&many, "]");
    CHECK(batchlist_parse_json(buf_span(&many), a, &l, &eb) == ERR_TOO_LARGE);
    buf_clear(&many);
    for (unsigned i = 0; i < 1u << 20; i++)
        buf_putc(&many, '[');
    CHECK(batchlist_parse_json(buf_span(&many), a, &l, &eb) == ERR_BAD_REQUEST);
    buf_clear(&many);
    for (unsigned i = 0; i <= BATCHLIST_NAME_MAX; i++)
        buf_putc(&many, 'a');
    CHECK(batchlist_parse_text(buf_span(&many), a, &l, &eb) == ERR_BAD_REQUEST);
    CHECK_SAYS(eb.text, "4096");
    buf_fini(&many);
    arena_free(&small);
    arena_free(&a);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_forms);
    RUN(test_errors_name_the_item);
    RUN(test_limits);
    return check_done();
}
