/* aws-chunked: published signatures, the exact bytes of clients, every split, every lie. */
#include "check.h"

#include "base/mem.h"
#include "wire/awschunked.h"

#define SECRET     "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
#define SEED       "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
#define SEED_TRAIL "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e"
#define CRC32      "x-amz-checksum-crc32"

static struct hmac_key key;
static struct fault fault;

static struct sigv4_auth
auth_of(const char *seed)
{
    struct sigv4_auth a = {.scope = SPAN("20130524/us-east-1/s3/aws4_request"),
                           .signature = span_of(seed),
                           .date = "20130524T000000Z"};

    return a;
}

/* A decoder for a body of `length` bytes with an announced trailer (or NULL). */
static enum err
begin(struct awschunked *d, enum payload_kind kind, const char *length,
      const char *trailer)
{
    struct sigv4_auth auth =
        auth_of(kind == PAYLOAD_CHUNKED_SIGNED_TRAILER ? SEED_TRAIL : SEED);
    struct field fs[2] = {{SPAN("X-Amz-Decoded-Content-Length"), span_of(length)},
                          {SPAN("x-amz-trailer"), span_of(trailer)}};
    struct fields headers = {fs, 2};

    if (length == NULL)
        headers = (struct fields){fs + 1, 1};
    memset(&fault, 0, sizeof fault);
    return awschunked_init(d, kind, &auth, &key, headers, &fault);
}

/* Feeds `body` in pieces of `piece` bytes; the decoded body goes to `out`. */
static enum err
feed(struct awschunked *d, struct span body, size_t piece, struct buf *out)
{
    enum awschunked_got got = AWSCHUNKED_MORE;

    while (body.len > 0 && got != AWSCHUNKED_BAD) {
        /* Memory of its own: a decoder that keeps a pointer to its input is caught. */
        size_t len = MIN(piece, body.len);
        char *copy = xmemdup0(body.at, len);
        struct span in = {copy, len}, data;

        body = span_from(body, len);
        while ((got = awschunked_next(d, &in, &data)) == AWSCHUNKED_DATA)
            buf_put_span(out, data);
        CHECK(got == AWSCHUNKED_BAD || in.len == 0);
        free(copy);
    }
    return awschunked_finish(d, &fault);
}

static enum s3_code
decode(enum payload_kind kind, const char *length, const char *trailer, struct span body,
       size_t piece, struct buf *out)
{
    struct awschunked *d = xmalloc(sizeof *d);
    enum err rc = begin(d, kind, length, trailer);

    buf_clear(out);
    if (rc == ERR_OK)
        rc = feed(d, body, piece, out);
    CHECK((rc == ERR_OK) == (fault.code == S3_OK));
    if (rc == ERR_OK && trailer != NULL)
        CHECK(awschunked_trailers(d).count == 1);
    awschunked_fini(d);
    free(d);
    return fault.code;
}

/* ---- AWS's example: 66560 times 'a' in chunks of 65536 and 1024 ---- */

static void
put_signed_chunk(struct buf *b, size_t len, const char *signature)
{
    buf_printf(b, "%zx;chunk-signature=%s\r\n", len, signature);
    for (size_t i = 0; i < len; i++)
        buf_putc(b, 'a');
    buf_puts(b, "\r\n");
}

static void
make_published(struct buf *b, bool trailer)
{
    buf_init(b, 1 << 20);
    put_signed_chunk(
        b, 65536,
        trailer ? "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2"
                : "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648");
    put_signed_chunk(
        b, 1024,
        trailer ? "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7"
                : "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497");
    buf_printf(b, "0;chunk-signature=%s\r\n",
               trailer
                   ? "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992"
                   : "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9");
    if (trailer)
        buf_puts(b,
                 "x-amz-checksum-crc32c:sOO8/Q==\r\n"
                 "x-amz-trailer-signature:"
                 "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n");
    buf_puts(b, "\r\n");
}

static void
test_published_signatures(void)
{
    static const size_t pieces[] = {1, 7, 8192, 65536, 1 << 20};
    struct buf body, out;

    buf_init(&out, 1 << 20);
    for (unsigned trailer = 0; trailer < 2; trailer++) {
        make_published(&body, trailer);
        if (!trailer)
            CHECK_U64(body.len, 66824); /* the Content-Length of the example */
        for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
            CHECK_U64(
                decode(trailer ? PAYLOAD_CHUNKED_SIGNED_TRAILER : PAYLOAD_CHUNKED_SIGNED,
                       "66560", trailer ? "x-amz-checksum-crc32c" : NULL, buf_span(&body),
                       pieces[i], &out),
                S3_OK);
            CHECK_U64(out.len, 66560);
            CHECK(out.len > 0 && out.at[0] == 'a' &&
                  memcmp(out.at, out.at + 1, out.len - 1) == 0);
        }
        buf_fini(&body);
    }
    buf_fini(&out);
}

/* Any byte of a signed body changed: never believed. */
static void
test_every_signed_byte_counts(void)
{
    struct buf body, out;

    buf_init(&out, 1 << 20);
    make_published(&body, true);
    for (size_t i = 0; i<body.len; i += i> 90 && i < body.len - 400 ? 977 : 1) {
        body.at[i] ^= 1;
        enum s3_code code = decode(PAYLOAD_CHUNKED_SIGNED_TRAILER, "66560",
                                   "x-amz-checksum-crc32c", buf_span(&body), 4096, &out);
        CHECK(code != S3_OK);
        CHECK(code == S3_SignatureDoesNotMatch || code == S3_IncompleteBody ||
              code == S3_MalformedTrailerError);
        body.at[i] ^= 1;
    }
    buf_fini(&body);
    buf_fini(&out);
}

static void
test_signature_of_another_key(void)
{
    struct buf body, out;
    struct hmac_key right = key;

    buf_init(&out, 1 << 20);
    make_published(&body, false);
    hmac_key_init(&key, "another", 7);
    CHECK_U64(decode(PAYLOAD_CHUNKED_SIGNED, "66560", NULL, buf_span(&body), 4096, &out),
              S3_SignatureDoesNotMatch);
    key = right;
    buf_fini(&body);
    buf_fini(&out);
}

/* ---- what clients send, and what they must not ---- */

#define U             PAYLOAD_CHUNKED_UNSIGNED_TRAILER
#define HELLO_TRAILER "x-amz-checksum-crc32:DUoRhQ=="
static const struct {
    const char *length, *trailer, *body, *decoded;
    enum s3_code code;
} rows[] = {
    /* boto3 over https */
    {"11", CRC32, "b\r\nhello world\r\n0\r\n" HELLO_TRAILER "\r\n\r\n", "hello world",
     S3_OK},
    /* upper-case hex, several chunks, spaces, leading zeros */
    {"11", CRC32, "0005 \r\nhello\r\n6\r\n world\r\n0\r\n" HELLO_TRAILER "\r\n\r\n",
     "hello world", S3_OK},
    {"11", CRC32, "B\r\nhello world\r\n0\r\nX-Amz-Checksum-CRC32 : DUoRhQ== \r\n\r\n",
     "hello world", S3_OK},
    /* older clients: bare LF at the end of the trailer's line */
    {"11", CRC32, "b\r\nhello world\r\n0\r\n" HELLO_TRAILER "\n\r\n", "hello world",
     S3_OK},
    {"11", CRC32, "b\r\nhello world\r\n0\r\n" HELLO_TRAILER "\n\r\n\r\n", "hello world",
     S3_OK},
    /* no trailer announced, none there */
    {"11", NULL, "b\r\nhello world\r\n0\r\n\r\n", "hello world", S3_OK},
    {"0", NULL, "0\r\n\r\n", "", S3_OK},
    {"0", CRC32, "0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n", "", S3_OK},
    /* trailers that are not what was announced */
    {"11", CRC32, "b\r\nhello world\r\n0\r\n\r\n", NULL, S3_MalformedTrailerError},
    {"11", NULL, "b\r\nhello world\r\n0\r\n" HELLO_TRAILER "\r\n\r\n", NULL,
     S3_MalformedTrailerError},
    {"11", CRC32, "b\r\nhello world\r\n0\r\nx-amz-checksum-sha1:AAAA\r\n\r\n", NULL,
     S3_MalformedTrailerError},
    {"11", CRC32,
     "b\r\nhello world\r\n0\r\n" HELLO_TRAILER "\r\n" HELLO_TRAILER "\r\n\r\n", NULL,
     S3_MalformedTrailerError},
    {"11", CRC32, "b\r\nhello world\r\n0\r\nno colon\r\n\r\n", NULL,
     S3_MalformedTrailerError},
    {"11", CRC32,
     "b\r\nhello world\r\n0\r\n" HELLO_TRAILER "\r\nx-amz-trailer-signature:0\r\n\r\n",
     NULL, S3_MalformedTrailerError},
    /* lengths */
    {"12", NULL, "b\r\nhello world\r\n0\r\n\r\n", NULL, S3_IncompleteBody},
    {"10", NULL, "b\r\nhello world\r\n0\r\n\r\n", NULL, S3_IncompleteBody},
    {"11", NULL, "ffffffffffffffff\r\nhello", NULL, S3_IncompleteBody},
    {"11", NULL, "10000000000000000\r\nhello", NULL, S3_IncompleteBody},
    {"18446744073709551615", NULL, "b\r\nhello world\r\nffffffffffffffff\r\n", NULL,
     S3_IncompleteBody},
    {NULL, NULL, "0\r\n\r\n", NULL, S3_MissingContentLength},
    {"", NULL, "0\r\n\r\n", NULL, S3_MissingContentLength},
    {"-1", NULL, "0\r\n\r\n", NULL, S3_MissingContentLength},
    {"1e3", NULL, "0\r\n\r\n", NULL, S3_MissingContentLength},
    /* framing */
    {"11", NULL, "b\nhello world\r\n0\r\n\r\n", NULL, S3_IncompleteBody},
    {"11", NULL, "b\r\nhello worldX\r\n0\r\n\r\n", NULL, S3_IncompleteBody},
    {"11", NULL, "b\r\nhello world\n0\r\n\r\n", NULL, S3_IncompleteBody},
    {"11", NULL, "b\r\nhello world0\r\n\r\n", NULL, S3_IncompleteBody},
    {"11", NULL, "\r\nhello world\r\n", NULL, S3_IncompleteBody},
    {"11", NULL, "0xb\r\nhello world\r\n", NULL, S3_IncompleteBody},
    {"11", NULL, "-b\r\nhello world\r\n", NULL, S3_IncompleteBody},
    {"11", NULL, "b;x=y\r\nhello world\r\n0\r\n\r\n", NULL, S3_IncompleteBody},
    {"11", NULL, "hello world", NULL, S3_IncompleteBody},
    {"11", NULL, "b\r\nhello world\r\n0\r\n\r\nmore", NULL, S3_IncompleteBody},
    {"11", NULL, "b\r\nhello world\r\n0\r\n\r\n\r\n", NULL, S3_IncompleteBody},
    {"11", CRC32, "b\r\nhello world\r\n0\r\n" HELLO_TRAILER "\n\r\n\r\n\r\n", NULL,
     S3_IncompleteBody},
    /* x-amz-trailer itself */
    {"11", "x-amz-meta-a", "0\r\n\r\n", NULL, S3_InvalidRequest},
    {"11", "x-amz-checksum-md5", "0\r\n\r\n", NULL, S3_InvalidRequest},
};

static void
test_rows_at_every_split(void)
{
    struct buf out;

    buf_init(&out, 4096);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct span body = span_of(rows[i].body);

        for (size_t piece = 1; piece <= body.len; piece++) {
            enum s3_code code =
                decode(U, rows[i].length, rows[i].trailer, body, piece, &out);

            if (code != rows[i].code)
                fprintf(stderr, "row %zu, pieces of %zu\n", i, piece);
            CHECK_U64(code, rows[i].code);
            if (rows[i].decoded != NULL)
                CHECK(span_is(buf_span(&out), rows[i].decoded));
        }
    }
    buf_fini(&out);
}

/* Ends early at every byte: never taken for whole. */
static void
test_cut_short(void)
{
    struct buf out;

    buf_init(&out, 4096);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct span body = span_of(rows[i].body);

        if (rows[i].code != S3_OK)
            continue;
        for (size_t len = 0; len < body.len; len++) {
            /* "...==\n\r\n\r\n" is whole without its last line too */
            bool whole = i == 4 && len >= body.len - 2;

            CHECK_U64(decode(U, rows[i].length, rows[i].trailer,
                             (struct span){body.at, len}, 3, &out),
                      whole ? S3_OK : S3_IncompleteBody);
        }
    }
    buf_fini(&out);
}

static void
test_long_lines_are_bounded(void)
{
    struct buf body, out;

    buf_init(&body, 8192);
    buf_init(&out, 4096);
    for (size_t i = 0; i < 4096; i++)
        buf_putc(&body, '0');
    CHECK_U64(decode(U, "11", NULL, buf_span(&body), 100, &out), S3_IncompleteBody);
    buf_clear(&body);
    buf_puts(&body, "0\r\nx-amz-checksum-crc32:");
    for (size_t i = 0; i < 4096; i++)
        buf_putc(&body, 'A');
    CHECK_U64(decode(U, "0", CRC32, buf_span(&body), 100, &out), S3_IncompleteBody);
    buf_fini(&body);
    buf_fini(&out);
}

/* The AWS documents show "value\n" and then an empty line before the trailer's signature. */
static void
test_signed_trailer_after_bare_lf(void)
{
    struct buf body, out, other;

    buf_init(&out, 1 << 20);
    buf_init(&other, 1 << 20);
    make_published(&body, true);
    const char *cr = memmem(body.at, body.len, "sOO8/Q==\r\n", 10);
    REQUIRE(cr != NULL);
    size_t at = (size_t)(cr - body.at) + 8;

    buf_put(&other, body.at, at);
    buf_puts(&other, "\n\r\n");
    buf_put_span(&other, span_from(buf_span(&body), at + 2));
    CHECK_U64(decode(PAYLOAD_CHUNKED_SIGNED_TRAILER, "66560", "x-amz-checksum-crc32c",
                     buf_span(&other), 1000, &out),
              S3_OK);
    /* without a signature at all */
    buf_clear(&other);
    buf_put(&other, body.at, at);
    buf_puts(&other, "\r\n\r\n");
    CHECK_U64(decode(PAYLOAD_CHUNKED_SIGNED_TRAILER, "66560", "x-amz-checksum-crc32c",
                     buf_span(&other), 1000, &out),
              S3_MalformedTrailerError);
    buf_fini(&body);
    buf_fini(&other);
    buf_fini(&out);
}

static void
test_our_own_encoding(void)
{
    static const struct {
        size_t len, chunk;
        const char *trailer;
    } cases[] = {{0, 16, NULL},    {0, 16, CRC32},    {1, 16, CRC32},
                 {16, 16, NULL},   {17, 16, CRC32},   {4096, 4096, CRC32},
                 {5000, 16, NULL}, {1000, 255, CRC32}};
    struct buf plain, framed, out;

    buf_init(&plain, 8192);
    buf_init(&framed, 65536);
    buf_init(&out, 8192);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char length[24];

        buf_clear(&plain);
        buf_clear(&framed);
        for (size_t k = 0; k < cases[i].len; k++)
            buf_putc(&plain, (char)k);
        for (size_t at = 0; at < plain.len; at += cases[i].chunk) {
            size_t len = MIN(cases[i].chunk, plain.len - at);

            buf_printf(&framed, "%zx\r\n", len);
            buf_put(&framed, plain.at + at, len);
            buf_puts(&framed, "\r\n");
        }
        buf_puts(&framed, "0\r\n");
        if (cases[i].trailer != NULL)
            buf_printf(&framed, "%s:AAAAAA==\r\n", cases[i].trailer);
        buf_puts(&framed, "\r\n");
        snprintf(length, sizeof length, "%zu", cases[i].len);
        CHECK_U64(decode(U, length, cases[i].trailer, buf_span(&framed), 10, &out),
                  S3_OK);
        CHECK(span_eq(buf_span(&out), buf_span(&plain)));
    }
    buf_fini(&plain);
    buf_fini(&framed);
    buf_fini(&out);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    sigv4_key(NULL, SPAN(SECRET), SPAN("20130524"), SPAN("us-east-1"), &key);
    RUN(test_published_signatures);
    RUN(test_every_signed_byte_counts);
    RUN(test_signature_of_another_key);
    RUN(test_rows_at_every_split);
    RUN(test_cut_short);
    RUN(test_long_lines_are_bounded);
    RUN(test_signed_trailer_after_bare_lf);
    RUN(test_our_own_encoding);
    return check_done();
}
