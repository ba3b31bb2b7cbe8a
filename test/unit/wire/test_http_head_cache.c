/* What is known again is what parsing would have made of it; everything else is parsed. */
#include "check.h"

#include "base/mem.h"
#include "wire/http_head_cache.h"

#define LINES "Host: h:9000\r\nAccept: */*\r\n\r\n"
#define AUTH                                                                             \
    "Authorization: AWS4-HMAC-SHA256 Credential=AK/d/r/s3/aws4_request, "                \
    "SignedHeaders=host, Signature="
#define SUM_A "0000000000000000000000000000000000000000000000000000000000000000"
#define SUM_B "89abcdef0123456789abcdef0123456789abcdef0123456789abcdef01234567"

static struct http_head head;

/* Parsed twice, and so kept in a new table. */
static struct http_head_cache *
keep(const char *text, unsigned *place)
{
    struct http_head_cache *k = http_head_cache_new();

    *place = 0;
    for (unsigned i = 0; i < 2; i++) {
        http_head_init(&head);
        if (http_request_parse(&head, text, strlen(text)) == HTTP_DONE)
            http_head_cache_insert(k, place, &head, text);
        CHECK(i == 1 || head.lines_id == 0);
    }
    return k;
}

static const struct case_row {
    const char *what, *first, *second;
    bool known;
} rows[] = {
    {"another target", "GET /a HTTP/1.1\r\n" LINES, "GET /b/c?x=%20 HTTP/1.1\r\n" LINES,
     true},
    {"more bytes behind", "GET /a HTTP/1.1\r\n" LINES, "GET /a HTTP/1.1\r\n" LINES "GET ",
     true},
    {"another signature", "GET /a HTTP/1.1\r\nHost: h\r\n" AUTH SUM_A "\r\n\r\n",
     "GET /b HTTP/1.1\r\nHost: h\r\n" AUTH SUM_B "\r\n\r\n", true},
    {"not whole", "GET /a HTTP/1.1\r\n" LINES,
     "GET /a HTTP/1.1\r\nHost: h:9000\r\nAccept: */*\r\n\r", false},
    {"a PUT of as many bytes",
     "PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 12\r\n\r\nxyz",
     "PUT /b HTTP/1.1\r\nHost: h\r\nContent-Length: 12\r\n\r\n\r\n", true},
    {"a PUT of other bytes", "PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 12\r\n\r\n",
     "PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 13\r\n\r\n", false},
    {"a PUT that asks first",
     "PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n",
     "PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n",
     false},
    {"a PUT in chunks",
     "PUT /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n",
     "PUT /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", false},
    {"a PUT that says no length", "PUT /a HTTP/1.1\r\n" LINES,
     "PUT /a HTTP/1.1\r\n" LINES, false},
    {"a GET with the lines of a PUT",
     "PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx",
     "GET /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx", false},
    {"another method", "GET /a HTTP/1.1\r\n" LINES, "PUT /a HTTP/1.1\r\n" LINES, false},
    {"another version", "GET /a HTTP/1.1\r\n" LINES, "GET /a HTTP/1.0\r\n" LINES, false},
    {"bare LF", "GET /a HTTP/1.1\r\n" LINES, "GET /a HTTP/1.1\n" LINES, false},
    {"a blank more", "GET /a HTTP/1.1\r\n" LINES, "GET /a  HTTP/1.1\r\n" LINES, false},
    {"a fragment", "GET /a HTTP/1.1\r\n" LINES, "GET /a#b HTTP/1.1\r\n" LINES, false},
    {"a control byte", "GET /a HTTP/1.1\r\n" LINES, "GET /a\x01 HTTP/1.1\r\n" LINES,
     false},
    {"no slash", "GET /a HTTP/1.1\r\n" LINES, "GET a HTTP/1.1\r\n" LINES, false},
    {"an absolute target", "GET http://h:9000/ HTTP/1.1\r\n" LINES,
     "GET http://h:9000/ HTTP/1.1\r\n" LINES, false},
    {"another letter", "GET /a HTTP/1.1\r\n" LINES,
     "GET /a HTTP/1.1\r\nHost: h:9001\r\nAccept: */*\r\n\r\n", false},
    {"a line more", "GET /a HTTP/1.1\r\n" LINES,
     "GET /a HTTP/1.1\r\nHost: h:9000\r\nAccept: */*\r\nRange: bytes=0-0\r\n\r\n", false},
    {"a body", "GET /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx",
     "GET /a HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx", false},
    {"a signature with a line's end",
     "GET /a HTTP/1.1\r\nHost: h\r\n" AUTH SUM_A "\r\n\r\n",
     "GET /a HTTP/1.1\r\nHost: h\r\n" AUTH
     "00000000000000000000000000000000\r\nX: 000000000000000000000000000\r\n\r\n",
     false},
    {"a signature that ends in a blank",
     "GET /a HTTP/1.1\r\nHost: h\r\n" AUTH SUM_A "\r\n\r\n",
     "GET /a HTTP/1.1\r\nHost: h\r\n" AUTH
     "000000000000000000000000000000000000000000000000000000000000000 \r\n\r\n",
     false},
    {"signatures in another line",
     "GET /a HTTP/1.1\r\nHost: h\r\nX-Other: Signature=" SUM_A "\r\n\r\n",
     "GET /a HTTP/1.1\r\nHost: h\r\nX-Other: Signature=" SUM_B "\r\n\r\n", false},
};

static void
test_what_is_known(void)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct case_row *r = &rows[i];
        static struct http_head parsed;
        unsigned place;
        struct http_head_cache *k = keep(r->first, &place);
        size_t len = strlen(r->second);
        bool known = http_head_cache_parse(k, &place, &head, r->second, len);

        if (known != r->known) {
            fprintf(stderr, "row \"%s\"\n", r->what);
            CHECK(known == r->known);
        }
        if (known) {
            http_head_init(&parsed);
            CHECK(http_request_parse(&parsed, r->second, len) == HTTP_DONE);
            CHECK(head.len == parsed.len && head.count == parsed.count);
            CHECK(head.method == parsed.method && head.has_length == parsed.has_length);
            CHECK(head.body_length == parsed.body_length);
            CHECK((head.lines_id != 0) == (head.method == HTTP_METHOD_GET));
            CHECK(span_eq(head.path, parsed.path) && span_eq(head.query, parsed.query));
            CHECK(head.host.at == parsed.host.at && head.host.len == parsed.host.len);
            CHECK(head.headers[head.count - 1].value.at ==
                  parsed.headers[parsed.count - 1].value.at);
        } else {
            CHECK(head.count == 0 && head.lines_id == 0 && head.target.len == 0);
        }
        http_head_cache_free(&k);
    }
}

/* Any byte of a head changed to any other: never known as what it is not. (The fuzz target does more of it.) */
static void
test_every_byte_counts(void)
{
    static const char first[] =
        "GET /bucket/key HTTP/1.1\r\nHost: h\r\n" AUTH SUM_A "\r\n\r\n";
    static struct http_head parsed;
    char text[sizeof first];
    unsigned place;
    struct http_head_cache *k = keep(first, &place);

    for (size_t at = 0; at + 1 < sizeof first; at++) {
        memcpy(text, first, sizeof first);
        for (unsigned c = 0; c < 256; c++) {
            enum http_parse rc;

            text[at] = (char)c;
            if (!http_head_cache_parse(k, &place, &head, text, sizeof first - 1))
                continue;
            http_head_init(&parsed);
            rc = http_request_parse(&parsed, text, sizeof first - 1);
            REQUIRE(rc == HTTP_DONE);
            REQUIRE(parsed.len == head.len && parsed.seen == head.seen);
            REQUIRE(span_eq(parsed.path, head.path));
            REQUIRE(parsed.count == head.count && parsed.keep_alive == head.keep_alive);
        }
    }
    http_head_cache_free(&k);
}

/* The number of the lines is the same as long as they are known, over others in between, and never that of others. */
static void
test_numbers_of_lines(void)
{
    static const char text[] = "GET /a HTTP/1.1\r\n" LINES;
    unsigned place, elsewhere;
    struct http_head_cache *k = keep(text, &place), *other_table;
    uint64_t id = head.lines_id;

    CHECK(id != 0);
    for (unsigned i = 0; i < 40; i++) {
        char other[128];

        CHECK(http_head_cache_parse(k, &place, &head, text, sizeof text - 1) == (i < 16));
        CHECK(head.lines_id == (i < 16 ? id : 0));
        snprintf(other, sizeof other, "GET /a HTTP/1.1\r\nHost: h\r\nAccept: %u\r\n\r\n",
                 i);
        for (unsigned times = 0; times < 2; times++) {
            http_head_init(&head);
            CHECK(http_request_parse(&head, other, strlen(other)) == HTTP_DONE);
            http_head_cache_insert(k, &elsewhere, &head, other);
            CHECK((head.lines_id != 0) == (times == 1) && head.lines_id != id);
        }
    }
    other_table = keep(text, &elsewhere);
    CHECK(head.lines_id != 0 && head.lines_id != id);
    http_head_cache_free(&other_table);
    http_head_cache_free(&k);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_what_is_known);
    RUN(test_every_byte_counts);
    RUN(test_numbers_of_lines);
    return check_done();
}
