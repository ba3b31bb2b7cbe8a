/* Every framing case, in one piece and byte by byte, gives the same verdict; limits
 * hold to the byte; what is accepted can be written back and read again as the same.
 * Protects promise S5. */
#include "check.h"

#include "base/mem.h"
#include "unit/wire/http_framing_rows.h"
#include "wire/http.h"

/* Reads `bytes` as a request with its body, `step` bytes at a time. 200, 0 or the
 * refusing status. */
static int
verdict(struct http_head *h, const char *bytes, size_t len, size_t step)
{
    struct http_chunked c;
    size_t seen = 0, at;
    enum http_parse rc;

    http_head_init(h);
    do {
        seen = MIN(seen + step, len);
        rc = http_request_parse(h, bytes, seen);
    } while (rc == HTTP_MORE && seen < len);
    if (rc != HTTP_DONE)
        return rc == HTTP_MORE ? 0 : h->status;
    if (h->body_length >= 0)
        return len - h->len >= (size_t)h->body_length ? 200 : 0;
    http_chunked_init(&c);
    for (at = h->len; at < len;) {
        struct span piece;
        size_t used;
        enum http_chunk what =
            http_chunked_next(&c, bytes + at, MIN(step, len - at), &used, &piece);

        at += used;
        if (what == HTTP_CHUNK_END)
            return 200;
        if (what == HTTP_CHUNK_BAD)
            return c.why != NULL ? 400 : -1;
    }
    return 0;
}

static void
test_every_row_in_pieces_of_every_size(void)
{
    static struct http_head h;

    for (size_t i = 0; i < ARRAY_LEN(framing_rows); i++) {
        const struct framing_row *r = &framing_rows[i];

        for (size_t step = 1; step <= r->len + 1; step++) {
            /* A copy without a byte behind it, so that ASan sees a read beyond. */
            char *copy = xmalloc(r->len + (r->len == 0));
            int got;

            memcpy(copy, r->bytes, r->len);
            got = verdict(&h, copy, r->len, step);
            if (got != r->want) {
                fprintf(stderr, "row %zu (%s), pieces of %zu: %d, wanted %d (%s)\n", i,
                        r->reason, step, got, r->want, h.why != NULL ? h.why : "");
                CHECK(got == r->want);
            }
            free(copy);
        }
    }
    CHECK(ARRAY_LEN(framing_rows) >= 60);
    printf("%zu framing cases\n", ARRAY_LEN(framing_rows));
}

/* Bytes behind a request are the next one's: never looked at. */
static void
test_a_head_ends_where_it_ends(void)
{
    static struct http_head h;
    const char two[] = "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\nbroken";

    http_head_init(&h);
    CHECK(http_request_parse(&h, two, sizeof two - 1) == HTTP_DONE);
    CHECK_U64(h.len, strlen("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n"));
    CHECK(span_is(h.target, "/1"));
}

/* A request whose first line is `line` bytes and whose header block is `block` bytes,
 * `count` headers. */
static char *
build(size_t line, size_t block, unsigned count, size_t *len)
{
    const char *host = "Host: a\r\n";
    size_t host_len = strlen(host), i;
    char *b = xmalloc(line + 2 + block + 1), *at = b;

    at = (char *)memcpy(at, "GET /", 5) + 5;
    for (i = 5; i < line - 9; i++)
        *at++ = 'x';
    at = (char *)memcpy(at, " HTTP/1.1\r\n", 11) + 11;
    at = (char *)memcpy(at, host, host_len) + host_len;
    block -= host_len + 2;
    for (i = 1; i < count; i++) {
        size_t n = i + 1 < count ? 5 : block;

        *at++ = 'A';
        *at++ = ':';
        for (size_t j = 0; j < n - 4; j++)
            *at++ = 'v';
        *at++ = '\r';
        *at++ = '\n';
        block -= n;
    }
    at = (char *)memcpy(at, "\r\n", 2) + 2;
    *len = (size_t)(at - b);
    return b;
}

static void
test_limits_to_the_byte(void)
{
    static struct http_head h;
    static const struct {
        size_t line, block;
        unsigned count;
        int want;
    } rows[] = {
        {8192, 100, 3, 200},  {8193, 100, 3, 414},   {20, 65536, 3, 200},
        {20, 65537, 3, 431},  {8192, 65536, 3, 200}, {20, 2000, 100, 200},
        {20, 2000, 101, 431},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        size_t len;
        char *b = build(rows[i].line, rows[i].block, rows[i].count, &len);

        CHECK_U64(verdict(&h, b, len, len), rows[i].want);
        CHECK_U64(verdict(&h, b, len, 997), rows[i].want);
        CHECK(rows[i].want != 200 || len <= HTTP_HEAD_ROOM);
        free(b);
    }
}

/* Without any line end the verdict must come while the bytes still fit the room. */
static void
test_endless_lines_are_refused_in_bounded_room(void)
{
    static struct http_head h;
    static char b[HTTP_HEAD_ROOM];

    memset(b, 'x', sizeof b);
    CHECK_U64(verdict(&h, b, sizeof b, 1000), 414);
    memcpy(b, "GET / HTTP/1.1\r\nA:", 18);
    CHECK_U64(verdict(&h, b, sizeof b, 1000), 431);
    memset(b, 'x', sizeof b);
    memcpy(b, "\r\nGET /", 7);
    memcpy(b + 8192 - 7, " HTTP/1.1\r\nA:", 13);
    CHECK_U64(verdict(&h, b, sizeof b, sizeof b), 431);
}

static void
test_chunk_limits_to_the_byte(void)
{
    static char in[HTTP_TRAILERS_MAX + 64];
    struct http_chunked c;
    struct span piece;
    size_t used;

    for (unsigned over = 0; over <= 1; over++) {
        size_t n = HTTP_CHUNK_LINE_MAX + over;

        memset(in, 'x', sizeof in);
        memcpy(in, "0;", 2);
        memcpy(in + n - 2, "\r\n", 2);
        http_chunked_init(&c);
        CHECK(http_chunked_next(&c, in, n, &used, &piece) ==
              (over ? HTTP_CHUNK_BAD : HTTP_CHUNK_MORE));

        n = HTTP_TRAILERS_MAX + over;
        memset(in, 'x', sizeof in);
        memcpy(in, "0\r\nA:", 5);
        memcpy(in + 3 + n - 4, "\r\n\r\n", 4);
        http_chunked_init(&c);
        CHECK(http_chunked_next(&c, in, 3 + n, &used, &piece) ==
              (over ? HTTP_CHUNK_BAD : HTTP_CHUNK_END));
    }
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_every_row_in_pieces_of_every_size);
    RUN(test_a_head_ends_where_it_ends);
    RUN(test_limits_to_the_byte);
    RUN(test_endless_lines_are_refused_in_bounded_room);
    RUN(test_chunk_limits_to_the_byte);
    return check_done();
}
