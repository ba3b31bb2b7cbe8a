/* Heads give what stood in them, raw; responses tell where their body ends; what is
 * written is what is read. */
#include "check.h"

#include "base/mem.h"
#include "wire/http.h"

static struct http_head head;

static enum http_parse
request(const char *bytes)
{
    http_head_init(&head);
    return http_request_parse(&head, bytes, strlen(bytes));
}

static enum http_parse
response(const char *bytes, enum http_method method)
{
    http_head_init(&head);
    return http_response_parse(&head, bytes, strlen(bytes), method);
}

static void
test_a_request_keeps_its_bytes(void)
{
    REQUIRE(
        request("PUT /b//k%2F../?x=%20&y HTTP/1.1\r\nhost: B.example:9000\r\nX-Odd-name: "
                " a  b \t\r\n"
                "Content-length: 12\r\nx-amz-META-q: \r\nEXPECT: 100-Continue\r\n\r\n") ==
        HTTP_DONE);
    CHECK(head.method == HTTP_METHOD_PUT);
    CHECK(span_is(head.target, "/b//k%2F../?x=%20&y"));
    CHECK(span_is(head.path, "/b//k%2F../"));
    CHECK(span_is(head.query, "x=%20&y"));
    CHECK(span_is(head.host, "B.example:9000"));
    CHECK_U64(head.count, 5);
    CHECK(span_is(head.headers[1].name, "X-Odd-name"));
    CHECK(span_is(head.headers[1].value, "a  b"));
    CHECK(span_is(fields_get(http_fields(&head), "x-odd-name"), "a  b"));
    CHECK(fields_get(http_fields(&head), "x-amz-meta-q").len == 0);
    CHECK(fields_get(http_fields(&head), "x-amz-meta-q").at != NULL);
    CHECK(fields_get(http_fields(&head), "x-none").at == NULL);
    CHECK_U64(head.body_length, 12);
    CHECK(head.has_length);
    CHECK(head.expect);
    CHECK(head.keep_alive);
    CHECK_U64(head.minor, 1);
}

static void
test_query_absent_and_empty_differ(void)
{
    REQUIRE(request("GET /a HTTP/1.1\r\nHost: a\r\n\r\n") == HTTP_DONE);
    CHECK(head.query.at == NULL);
    REQUIRE(request("GET /a? HTTP/1.1\r\nHost: a\r\n\r\n") == HTTP_DONE);
    CHECK(head.query.at != NULL);
    CHECK_U64(head.query.len, 0);
    REQUIRE(request("GET http://a?q HTTP/1.1\r\nHost: a\r\n\r\n") == HTTP_DONE);
    CHECK(span_is(head.path, "/"));
    CHECK(span_is(head.query, "q"));
    CHECK(span_is(head.target, "http://a?q"));
}

static void
test_keep_alive(void)
{
    static const struct {
        const char *bytes;
        bool want;
    } rows[] = {
        {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", true},
        {"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", false},
        {"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, CLOSE\r\n\r\n", false},
        {"GET / HTTP/1.1\r\nHost: a\r\nConnection: te\r\nA: b\r\nConnection: "
         "x,,close\r\n\r\n",
         false},
        {"GET / HTTP/1.1\r\nHost: a\r\nConnection: closed\r\n\r\n", true},
        {"GET / HTTP/1.0\r\n\r\n", false},
        {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true},
        {"GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", false},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CHECK(request(rows[i].bytes) == HTTP_DONE);
        CHECK(head.keep_alive == rows[i].want);
    }
}

static void
test_expect_is_for_bodies_of_http_1_1(void)
{
    REQUIRE(request("PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n") ==
            HTTP_DONE);
    CHECK(!head.expect);
    REQUIRE(request("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nExpect: "
                    "100-continue\r\n\r\n") == HTTP_DONE);
    CHECK(head.expect);
    REQUIRE(
        request("PUT / HTTP/1.0\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n") ==
        HTTP_DONE);
    CHECK(!head.expect);
    REQUIRE(
        request(
            "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: 200-ok\r\n\r\n") ==
        HTTP_DONE);
    CHECK(!head.expect);
    REQUIRE(request("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nexpect: "
                    "100-CONTINUE\r\n\r\n") == HTTP_DONE);
    CHECK(head.expect);
}

static void
test_every_name_of_the_table_is_found(void)
{
    static const char *const names[] = {
#define X(id, name) name,
        HTTP_FIELD_TABLE(X)
#undef X
    };

    for (unsigned f = 0; f < HTTP_FIELD_COUNT_; f++) {
        char *name = xstrdup(names[f]);

        CHECK_U64(http_field_of(span_of(name)), f);
        for (char *c = name; *c != '\0'; c++) {
            if (*c >= 'a' && *c <= 'z')
                *c = (char)(*c - 0x20);
        }
        CHECK_U64(http_field_of(span_of(name)), f);
        name[strlen(name) - 1] = '!';
        CHECK_U64(http_field_of(span_of(name)), HTTP_FIELD_COUNT_);
        free(name);
    }
    for (unsigned len = 0; len < 80; len++) {
        char many[80];

        memset(many, 'x', sizeof many);
        CHECK_U64(http_field_of((struct span){many, len}), HTTP_FIELD_COUNT_);
    }
}

static void
test_first_and_again(void)
{
    REQUIRE(request("GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\nrange: "
                    "bytes=2-3\r\nDate: x\r\n\r\n") == HTTP_DONE);
    CHECK(span_is(http_get(&head, HTTP_RANGE), "bytes=0-1"));
    CHECK(http_is_repeated(&head, HTTP_RANGE));
    CHECK(!http_is_repeated(&head, HTTP_DATE));
    CHECK(!http_has(&head, HTTP_ETAG));
    CHECK(http_get(&head, HTTP_ETAG).at == NULL);
}

static void
test_where_a_response_body_ends(void)
{
    static const struct {
        const char *bytes;
        enum http_method method;
        int64_t want; /* -9: refused */
        bool keep;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", HTTP_METHOD_GET, 5, true},
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", HTTP_METHOD_HEAD, 0, true},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", HTTP_METHOD_GET,
         HTTP_CHUNKED, true},
        {"HTTP/1.1 200 OK\r\n\r\n", HTTP_METHOD_GET, HTTP_TO_END, false},
        {"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", HTTP_METHOD_GET, 0, true},
        {"HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", HTTP_METHOD_GET, 0, true},
        {"HTTP/1.1 204 No Content\r\n\r\n", HTTP_METHOD_DELETE, 0, true},
        {"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", HTTP_METHOD_GET, 0,
         true},
        {"HTTP/1.1 100 Continue\r\n\r\n", HTTP_METHOD_PUT, 0, true},
        {"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n", HTTP_METHOD_GET, 5, false},
        {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\n",
         HTTP_METHOD_GET, 5, false},
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
         HTTP_METHOD_GET, -9, false},
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
         HTTP_METHOD_GET, -9, false},
        {"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", HTTP_METHOD_GET, -9,
         false},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", HTTP_METHOD_GET, -9,
         false},
        {"HTTP/2 200\r\n\r\n", HTTP_METHOD_GET, -9, false},
        {"HTTP/1.1 2000 OK\r\n\r\n", HTTP_METHOD_GET, -9, false},
        {"HTTP/1.1 099 OK\r\n\r\n", HTTP_METHOD_GET, -9, false},
        {"HTTP/1.1 2x0 OK\r\n\r\n", HTTP_METHOD_GET, -9, false},
        {"HTTP/1.1\t200 OK\r\n\r\n", HTTP_METHOD_GET, -9, false},
        {"HTTP/1.1 200 OK\nContent-Length: 5\r\n\r\n", HTTP_METHOD_GET, -9, false},
        {"\r\nHTTP/1.1 200 OK\r\n\r\n", HTTP_METHOD_GET, -9, false},
        {"SSH-2.0-OpenSSH_9.2p1\r\n", HTTP_METHOD_GET, -9, false},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        enum http_parse rc = response(rows[i].bytes, rows[i].method);

        if (rows[i].want == -9) {
            CHECK(rc == HTTP_BAD);
            CHECK_U64(head.status, 502);
            CHECK(head.why != NULL);
            continue;
        }
        CHECK(rc == HTTP_DONE);
        CHECK_U64(head.body_length, rows[i].want);
        CHECK(head.keep_alive == rows[i].keep);
        CHECK_U64(head.len, strlen(rows[i].bytes));
    }
}

static void
test_what_is_written_can_be_read(void)
{
    char room[512];
    struct http_lines l = {.at = room, .room = sizeof room};

    http_put_request(&l, "PUT", SPAN("/b/k?x"));
    http_put(&l, "Host", SPAN("a"));
    http_put_u64(&l, "Content-Length", UINT64_C(9223372036854775807));
    http_put(&l, "X-Empty", (struct span){NULL, 0});
    http_put(&l, "X-Blanks", SPAN(" a b "));
    http_put_end(&l);
    CHECK(!l.bad);
    http_head_init(&head);
    REQUIRE(http_request_parse(&head, room, l.len) == HTTP_DONE);
    CHECK_U64(head.len, l.len);
    CHECK(span_is(head.target, "/b/k?x"));
    CHECK_U64(head.body_length, INT64_MAX);
    CHECK(span_is(fields_get(http_fields(&head), "x-blanks"), "a b"));

    l.len = 0;
    http_put_status(&l, 404);
    http_put_status(&l, 599);
    CHECK(span_is((struct span){room, l.len},
                  "HTTP/1.1 404 Not Found\r\nHTTP/1.1 599 \r\n"));
}

/* Response splitting: no stored value may begin a line of its own. */
static void
test_nothing_gets_into_a_head_that_could_end_it(void)
{
    const struct {
        const char *name;
        struct span value;
    } rows[] = {
        {"A", SPAN("b\r\nSet-Cookie: c")},
        {"A", SPAN("b\nc")},
        {"A", SPAN("b\rc")},
        {"A", SPAN("b\0c")},
        {"A", SPAN("b\x7f")},
        {"A b", SPAN("c")},
        {"", SPAN("c")},
        {"A:", SPAN("c")},
        {"A\r\nB", SPAN("c")},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char room[64];
        struct http_lines l = {.at = room, .room = sizeof room};

        http_put(&l, rows[i].name, rows[i].value);
        CHECK(l.bad);
        CHECK_U64(l.len, 0);
    }
    for (size_t i = 0; i < 3; i++) {
        const struct span targets[] = {SPAN("/a b"), SPAN("/a\r\nX: y"), SPAN("")};
        char room[64];
        struct http_lines l = {.at = room, .room = sizeof room};

        http_put_request(&l, "GET", targets[i]);
        CHECK(l.bad);
        CHECK_U64(l.len, 0);
    }
}

static void
test_what_does_not_fit_is_said(void)
{
    char room[10];
    struct http_lines l = {.at = room, .room = sizeof room};

    http_put(&l, "A", SPAN("12345"));
    CHECK(!l.bad);
    CHECK_U64(l.len, 10);
    http_put_end(&l);
    CHECK(l.bad);
    CHECK_U64(l.len, 10);
}

static void
test_chunk_heads(void)
{
    static const struct {
        uint64_t size;
        const char *want;
    } rows[] = {{0, "0\r\n"},
                {1, "1\r\n"},
                {15, "f\r\n"},
                {16, "10\r\n"},
                {UINT64_MAX, "ffffffffffffffff\r\n"}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char out[HTTP_CHUNK_HEAD_ROOM];

        CHECK(span_is((struct span){out, http_chunk_head(out, rows[i].size)},
                      rows[i].want));
    }
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_a_request_keeps_its_bytes);
    RUN(test_query_absent_and_empty_differ);
    RUN(test_keep_alive);
    RUN(test_expect_is_for_bodies_of_http_1_1);
    RUN(test_every_name_of_the_table_is_found);
    RUN(test_first_and_again);
    RUN(test_where_a_response_body_ends);
    RUN(test_what_is_written_can_be_read);
    RUN(test_nothing_gets_into_a_head_that_could_end_it);
    RUN(test_what_does_not_fit_is_said);
    RUN(test_chunk_heads);
    return check_done();
}
