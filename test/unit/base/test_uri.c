/* Percent encoding and UTF-8. */
#include "base/uri.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "check.h"

static const char *
encoded(struct span s, bool keep_slash)
{
    static char text[256];
    struct buf b;

    buf_init(&b, sizeof text - 1);
    uri_encode(&b, s, keep_slash);
    memcpy(text, b.at != NULL ? b.at : "", b.len);
    text[b.len] = '\0';
    buf_fini(&b);
    return text;
}

static void
test_keys_as_clients_send_them(void)
{
    char out[64];
    int n;

    CHECK_STR(encoded(SPAN("dir/a b+c%2F~\xc3\xa9.txt"), true),
              "dir/a%20b%2Bc%252F~%C3%A9.txt");
    CHECK_STR(encoded(SPAN("a/b!*'()"), false), "a%2Fb%21%2A%27%28%29");
    n = uri_decode(SPAN("dir/a%20b%2Bc%252F~%c3%A9.txt"), out);
    CHECK(n == 19 && memcmp(out, "dir/a b+c%2F~\xc3\xa9.txt", 19) == 0);
    CHECK(uri_decode(SPAN("a+b"), out) == 3 && memcmp(out, "a+b", 3) == 0);
    CHECK(uri_decode(SPAN("%00"), out) == 1 && out[0] == '\0');
}

static void
test_every_byte_there_and_back(void)
{
    char all[256], back[3 * 256];
    struct buf b;

    for (size_t i = 0; i < sizeof all; i++)
        all[i] = (char)i;
    for (int keep = 0; keep < 2; keep++) {
        buf_init(&b, 3 * sizeof all);
        uri_encode(&b, (struct span){all, sizeof all}, keep);
        REQUIRE(uri_decode(buf_span(&b), back) == 256 && memcmp(all, back, 256) == 0);
        REQUIRE(uri_decode(buf_span(&b), b.at) == 256 &&
                memcmp(all, b.at, 256) == 0); /* in place */
        buf_fini(&b);
    }
}

static void
test_bad_escapes(void)
{
    static const char *const bad[] = {"%",  "%4",   "%4g",  "%g4",
                                      "a%", "%%41", "% 41", "%-1"};
    char out[8];

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK(uri_decode(span_of(bad[i]), out) == -1);
}

static void
test_utf8_every_scalar(void)
{
    for (uint32_t code = 0; code <= 0x10FFFF; code += code < 0x3000 ? 1 : 61) {
        char text[4];
        uint32_t back = 0;
        size_t len;

        if (code >= 0xD800 && code <= 0xDFFF)
            continue;
        len = utf8_put(code, text);
        REQUIRE(utf8_next((struct span){text, len}, &back) == len && back == code);
        REQUIRE(utf8_valid((struct span){text, len}));
        REQUIRE(len == 1 || !utf8_valid((struct span){text, len - 1})); /* cut off */
    }
}

static void
test_utf8_refuses(void)
{
    static const char *const bad[] = {
        "\x80",             /* a continuation alone */
        "\xc0\x80",         /* overlong NUL */
        "\xc1\xbf",         /* overlong */
        "\xe0\x80\x80",     /* overlong */
        "\xe0\x9f\xbf",     /* overlong */
        "\xf0\x8f\xbf\xbf", /* overlong */
        "\xed\xa0\x80",     /* a surrogate */
        "\xf4\x90\x80\x80", /* beyond U+10FFFF */
        "\xf5\x80\x80\x80",
        "\xff",
        "\xc3\x28",
        "twelve chars\xc3",
        "12345678\xff\xff-----",
    };
    uint32_t code;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        CHECK(!utf8_valid(span_of(bad[i])));
    CHECK(utf8_next((struct span){"", 0}, &code) == 0);
    CHECK(utf8_valid((struct span){"", 0}));
    CHECK(utf8_valid(SPAN("plain ascii of some length, gr\xc3\xbc\xc3\x9f"
                          "e \xf0\x9f\x8c\x8a")));
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_keys_as_clients_send_them);
    RUN(test_every_byte_there_and_back);
    RUN(test_bad_escapes);
    RUN(test_utf8_every_scalar);
    RUN(test_utf8_refuses);
    return check_done();
}
