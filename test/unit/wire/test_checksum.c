/* Checksums of S3: the values of the reference, the rules of headers, multipart. */
#include "check.h"

#include "base/mem.h"
#include "wire/checksum.h"

static struct fault fault;

static const struct {
    const char *input, *text[CHECKSUM_KIND_COUNT_];
} known[] = {
    {"",
     {"", "AAAAAA==", "AAAAAA==", "AAAAAAAAAAA=", "2jmj7l5rSw0yVb/vlWAYkK/YBwk=",
      "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="}},
    {"123456789",
     {"", "y/Q5Jg==", "4waSgw==", "rosUhgp5mIg=", "98O8HYCOBHMq32eZZczDTKeuNEE=",
      "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU="}},
    {"hello world",
     {"", "DUoRhQ==", "yZRlqg==", "jSnVw/bqjr4=", "Kq5sNclPz7QV2+lfQIuc6R7oRu0=",
      "uU0nuZNNPgilLlLX2n2r+sSE7+N6U4DukIj3rOLvzek="}},
};

static struct checksum_value
sum_of(enum checksum_kind kind, const void *data, size_t len)
{
    struct checksum c;
    struct checksum_value v;

    checksum_init(&c, kind);
    checksum_add(&c, data, len / 2);
    checksum_add(&c, (const char *)data + len / 2, len - len / 2);
    checksum_end(&c, &v);
    return v;
}

static void
test_known_values(void)
{
    char text[CHECKSUM_TEXT_MAX];

    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        for (enum checksum_kind k = 1; k < CHECKSUM_S3_KINDS_; k++) {
            struct checksum_value v = sum_of(k, known[i].input, strlen(known[i].input));
            struct checksum_value back;

            CHECK_U64(checksum_text(&v, text), strlen(known[i].text[k]));
            CHECK_STR(text, known[i].text[k]);
            CHECK(checksum_parse(k, span_of(text), &back, &fault) == ERR_OK);
            CHECK(checksum_eq(&v, &back));
            CHECK(checksum_check(&v, &back, &fault) == ERR_OK);
            back.bytes[0] ^= 1;
            CHECK(checksum_check(&v, &back, &fault) == ERR_BAD_DIGEST);
            CHECK_U64(fault.code, S3_BadDigest);
            CHECK_SAYS(fault.message, checksum_name(k));
            CHECK_SAYS(fault.message,
                       "you specified did not match the calculated checksum.");
        }
    }
}

static void
test_names(void)
{
    enum checksum_kind k;

    for (enum checksum_kind i = 1; i < CHECKSUM_S3_KINDS_; i++) {
        CHECK(checksum_of_header(span_of(checksum_header(i))) == i);
        CHECK(checksum_of_element(span_of(checksum_element(i))) == i);
        CHECK(checksum_of_name(span_of(checksum_name(i)), &k, &fault) == ERR_OK &&
              k == i);
    }
    CHECK(checksum_of_header(SPAN("X-Amz-Checksum-CRC32C")) == CHECKSUM_CRC32C);
    CHECK(checksum_of_header(SPAN("x-amz-checksum-mode")) == CHECKSUM_NONE);
    CHECK(checksum_of_header(SPAN("")) == CHECKSUM_NONE);
    CHECK(checksum_of_name(SPAN("crc64nvme"), &k, &fault) == ERR_OK);
    CHECK(checksum_of_name(SPAN("XXHASH64"), &k, &fault) == ERR_NOT_IMPLEMENTED);
    CHECK_SAYS(fault.message, "XXHASH64");
    CHECK(checksum_of_name(SPAN("CRC31"), &k, &fault) == ERR_BAD_REQUEST);
    CHECK_U64(fault.code, S3_InvalidRequest);
}

static void
test_invalid_values(void)
{
    static const struct {
        enum checksum_kind kind;
        const char *text;
    } rows[] = {
        {CHECKSUM_CRC32, ""},          {CHECKSUM_CRC32, "AAAAAAA="},
        {CHECKSUM_CRC32, "AAAA"},      {CHECKSUM_CRC32, "AAAAA!=="},
        {CHECKSUM_CRC32, "AAAAAA"},    {CHECKSUM_CRC32, "DUoRhR=="}, /* loose bits */
        {CHECKSUM_SHA256, "AAAAAA=="}, {CHECKSUM_CRC64NVME, "AAAAAAAAAAAA"},
    };
    struct checksum_value v;

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CHECK(checksum_parse(rows[i].kind, span_of(rows[i].text), &v, &fault) ==
              ERR_BAD_REQUEST);
        CHECK_U64(fault.code, S3_InvalidRequest);
        CHECK_SAYS(fault.message, "header is invalid.");
    }
    CHECK(checksum_parse(CHECKSUM_CRC32, SPAN("x"), &v, &fault) != ERR_OK);
    CHECK_STR(fault.message, "Value for x-amz-checksum-crc32 header is invalid.");
}

#define NONE CHECKSUM_NONE
static const struct {
    const char *headers[4][2];
    enum s3_code code;
    const char *says;
    enum checksum_kind kind;
    bool given, trailer, md5;
} requests[] = {
    {{{NULL}}, S3_OK, "", NONE, false, false, false},
    {{{"X-Amz-Checksum-Crc32", "DUoRhQ=="}},
     S3_OK,
     "",
     CHECKSUM_CRC32,
     true,
     false,
     false},
    {{{"x-amz-checksum-crc32", "DUoRhQ=="}, {"x-amz-sdk-checksum-algorithm", "CRC32"}},
     S3_OK,
     "",
     CHECKSUM_CRC32,
     true,
     false,
     false},
    /* both disagree: the value wins */
    {{{"x-amz-checksum-crc32", "DUoRhQ=="}, {"x-amz-sdk-checksum-algorithm", "SHA1"}},
     S3_OK,
     "",
     CHECKSUM_CRC32,
     true,
     false,
     false},
    {{{"x-amz-trailer", "x-amz-checksum-crc64nvme"}},
     S3_OK,
     "",
     CHECKSUM_CRC64NVME,
     false,
     true,
     false},
    {{{"x-amz-trailer", "x-amz-meta-a"}},
     S3_InvalidRequest,
     "x-amz-trailer header is not supported",
     NONE,
     0,
     0,
     0},
    {{{"x-amz-trailer", "x-amz-checksum-md5"}}, S3_NotImplemented, "md5", NONE, 0, 0, 0},
    {{{"x-amz-trailer", "x-amz-checksum-crc32"}, {"x-amz-checksum-sha1", "x"}},
     S3_InvalidRequest,
     "x-amz-checksum-sha1 header is invalid",
     NONE,
     0,
     0,
     0},
    {{{"x-amz-trailer", "x-amz-checksum-crc32"}, {"x-amz-checksum-crc32", "DUoRhQ=="}},
     S3_InvalidRequest,
     "Expecting a single x-amz-checksum- header",
     NONE,
     0,
     0,
     0},
    {{{"x-amz-checksum-crc32", "DUoRhQ=="}, {"x-amz-checksum-crc32c", "yZRlqg=="}},
     S3_InvalidRequest,
     "Expecting a single",
     NONE,
     0,
     0,
     0},
    {{{"x-amz-checksum-xxhash3", "AAAA"}}, S3_NotImplemented, "xxhash3", NONE, 0, 0, 0},
    {{{"x-amz-sdk-checksum-algorithm", "CRC32"}},
     S3_InvalidRequest,
     "but no corresponding x-amz-checksum-*",
     NONE,
     0,
     0,
     0},
    {{{"x-amz-sdk-checksum-algorithm", "CRC31"}},
     S3_InvalidRequest,
     "unsupported",
     NONE,
     0,
     0,
     0},
    {{{"x-amz-checksum-mode", "ENABLED"},
      {"x-amz-checksum-algorithm", "CRC32"},
      {"x-amz-checksum-type", "COMPOSITE"}},
     S3_OK,
     "",
     NONE,
     false,
     false,
     false},
    {{{"content-md5", "XrY7u+Ae7tCTyyK7j1rNww=="}}, S3_OK, "", NONE, false, false, true},
    {{{"content-md5", ""}}, S3_InvalidDigest, "Content-MD5", NONE, 0, 0, 0},
    {{{"content-md5", "XrY7u+Ae7tCTyyK7j1rNw"}}, S3_InvalidDigest, "", NONE, 0, 0, 0},
    {{{"content-md5", "AAAA"}}, S3_InvalidDigest, "", NONE, 0, 0, 0},
};

static void
test_request_headers(void)
{
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        struct field fs[4];
        struct fields headers = {fs, 0};
        struct checksum_request r;

        while (headers.count < 4 && requests[i].headers[headers.count][0] != NULL) {
            fs[headers.count] =
                (struct field){span_of(requests[i].headers[headers.count][0]),
                               span_of(requests[i].headers[headers.count][1])};
            headers.count++;
        }
        memset(&fault, 0, sizeof fault);
        enum err rc = checksum_request_parse(headers, &r, &fault);
        CHECK_U64(fault.code, requests[i].code);
        CHECK_SAYS(fault.message, requests[i].says);
        if (rc != ERR_OK)
            continue;
        CHECK_U64(r.kind, requests[i].kind);
        CHECK_U64(r.given, requests[i].given);
        CHECK_U64(r.in_trailer, requests[i].trailer);
        CHECK_U64(r.has_md5, requests[i].md5);
        rc = checksum_request_demand(&r, &fault);
        CHECK((rc == ERR_OK) == (r.has_md5 || r.kind != NONE));
        if (rc != ERR_OK)
            CHECK_SAYS(fault.message, "Content-MD5 OR x-amz-checksum-*");
    }
}

static void
test_trailer_brings_the_value(void)
{
    struct field announce = {SPAN("x-amz-trailer"), SPAN("x-amz-checksum-crc32")};
    struct field good = {SPAN("x-amz-checksum-crc32"), SPAN("DUoRhQ==")};
    struct field bad = {SPAN("x-amz-checksum-crc32"), SPAN("DUoRhQ")};
    struct checksum_request r;
    struct checksum_value want = sum_of(CHECKSUM_CRC32, "hello world", 11);

    REQUIRE(checksum_request_parse((struct fields){&announce, 1}, &r, &fault) == ERR_OK);
    CHECK(checksum_request_trailer(&r, (struct fields){NULL, 0}, &fault) != ERR_OK);
    CHECK_U64(fault.code, S3_MalformedTrailerError);
    CHECK(checksum_request_trailer(&r, (struct fields){&bad, 1}, &fault) != ERR_OK);
    CHECK_U64(fault.code, S3_InvalidRequest);
    CHECK(!r.given);
    CHECK(checksum_request_trailer(&r, (struct fields){&good, 1}, &fault) == ERR_OK);
    CHECK(r.given && checksum_eq(&r.want, &want));
}

static void
test_md5(void)
{
    struct arena *a = arena_new(256, 4096);
    unsigned char want[16] = {0}, got[16] = {1};

    CHECK(content_md5_check(want, want, a, &fault) == ERR_OK);
    CHECK(content_md5_check(want, got, a, &fault) == ERR_BAD_DIGEST);
    CHECK_U64(fault.code, S3_BadDigest);
    REQUIRE(fault.extra_count == 2);
    CHECK_STR(fault.extra[0].name, "ExpectedDigest");
    CHECK(span_is(fault.extra[0].value, "AAAAAAAAAAAAAAAAAAAAAA=="));
    CHECK_STR(fault.extra[1].name, "CalculatedDigest");
    CHECK(span_is(fault.extra[1].value, "AQAAAAAAAAAAAAAAAAAAAA=="));
    arena_free(&a);
}

/* ---- multipart ---- */

#define FULL CHECKSUM_FULL_OBJECT
#define COMP CHECKSUM_COMPOSITE

static void
test_multipart_rules(void)
{
    static const struct {
        const char *algorithm, *type;
        enum s3_code code;
        const char *says;
        enum checksum_kind kind;
        enum checksum_type got;
    } rows[] = {
        {"", "", S3_OK, "", CHECKSUM_CRC64NVME, FULL},
        {"CRC64NVME", "", S3_OK, "", CHECKSUM_CRC64NVME, FULL},
        {"CRC64NVME", "FULL_OBJECT", S3_OK, "", CHECKSUM_CRC64NVME, FULL},
        {"CRC64NVME", "COMPOSITE", S3_InvalidRequest,
         "The COMPOSITE checksum type cannot be used with the crc64nvme checksum "
         "algorithm.",
         0, 0},
        {"CRC32", "", S3_OK, "", CHECKSUM_CRC32, COMP},
        {"CRC32", "FULL_OBJECT", S3_OK, "", CHECKSUM_CRC32, FULL},
        {"CRC32", "COMPOSITE", S3_OK, "", CHECKSUM_CRC32, COMP},
        {"crc32c", "", S3_OK, "", CHECKSUM_CRC32C, COMP},
        {"CRC32C", "FULL_OBJECT", S3_OK, "", CHECKSUM_CRC32C, FULL},
        {"SHA1", "", S3_OK, "", CHECKSUM_SHA1, COMP},
        {"SHA256", "COMPOSITE", S3_OK, "", CHECKSUM_SHA256, COMP},
        {"SHA256", "FULL_OBJECT", S3_InvalidRequest,
         "The FULL_OBJECT checksum type cannot be used with the sha256 checksum "
         "algorithm.",
         0, 0},
        {"SHA1", "FULL_OBJECT", S3_InvalidRequest, "with the sha1", 0, 0},
        {"SHA512", "", S3_NotImplemented, "SHA512", 0, 0},
        {"CRC", "", S3_InvalidRequest, "unsupported", 0, 0},
        {"", "COMPOSITE", S3_InvalidRequest, "can only be used with", 0, 0},
        {"CRC32", "HALF", S3_InvalidRequest, "x-amz-checksum-type header is invalid", 0,
         0},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        enum checksum_kind kind;
        enum checksum_type type;

        memset(&fault, 0, sizeof fault);
        enum err rc = checksum_multipart(span_of(rows[i].algorithm),
                                         span_of(rows[i].type), &kind, &type, &fault);
        CHECK_U64(fault.code, rows[i].code);
        CHECK_SAYS(fault.message, rows[i].says);
        if (rc == ERR_OK)
            CHECK(kind == rows[i].kind && type == rows[i].got);
    }
}

static void
test_parts_of_an_upload(void)
{
    CHECK(checksum_part_check(CHECKSUM_CRC32, COMP, CHECKSUM_CRC32, &fault) == ERR_OK);
    CHECK(checksum_part_check(CHECKSUM_CRC32, FULL, NONE, &fault) == ERR_OK);
    CHECK(checksum_part_check(CHECKSUM_CRC32, COMP, NONE, &fault) == ERR_BAD_REQUEST);
    CHECK_STR(fault.message,
              "Checksum Type mismatch occurred, expected checksum Type: crc32, "
              "actual checksum Type: null");
    CHECK(checksum_part_check(CHECKSUM_CRC32, FULL, CHECKSUM_SHA1, &fault) ==
          ERR_BAD_REQUEST);
    CHECK_SAYS(fault.message, "actual checksum Type: sha1");
}

/* Three parts of 5 MiB 'A', 'B', 'C'. */
static void
test_composite_and_full_object(void)
{
    static const struct {
        enum checksum_kind kind;
        const char *part[3], *composite, *full;
    } rows[] = {
        {CHECKSUM_CRC32, {"JRTCyQ==", "QoZTGg==", "YAgjqw=="}, "Z+ry2Q==-3", "WgDhBQ=="},
        {CHECKSUM_SHA256,
         {NULL, NULL, NULL},
         "uWBwpe1dxI4Vw8Gf0X9ynOdw/SS6VBzfWm9giiv1sf4=-3",
         NULL},
        {CHECKSUM_CRC64NVME, {NULL, NULL, NULL}, NULL, "i+6LR0y3eFo="},
    };
    const size_t len = (size_t)5 << 20;
    char *part = xmalloc(len), text[CHECKSUM_TEXT_MAX];

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct checksum_composite c;
        struct checksum_value full = {0}, v;

        checksum_composite_init(&c, rows[i].kind);
        for (unsigned n = 0; n < 3; n++) {
            memset(part, 'A' + (int)n, len);
            v = sum_of(rows[i].kind, part, len);
            if (rows[i].part[n] != NULL) {
                checksum_text(&v, text);
                CHECK_STR(text, rows[i].part[n]);
            }
            checksum_composite_add(&c, &v);
            if (n == 0)
                full = v;
            else
                CHECK(checksum_combine(&full, &v, len) == (rows[i].full != NULL));
        }
        CHECK_U64(c.parts, 3);
        checksum_composite_end(&c, &v);
        CHECK_U64(checksum_composite_text(&v, 3, text), strlen(text));
        if (rows[i].composite != NULL)
            CHECK_STR(text, rows[i].composite);
        checksum_text(&full, text);
        if (rows[i].full != NULL)
            CHECK_STR(text, rows[i].full);
    }
    free(part);
}

static void
test_abandoned(void)
{
    struct checksum c;

    checksum_init(&c, CHECKSUM_SHA256);
    checksum_add(&c, "x", 1);
    checksum_fini(&c); /* leaks are the sanitizer's to find */
    checksum_fini(&c);
    CHECK(c.kind == CHECKSUM_NONE);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_known_values);
    RUN(test_names);
    RUN(test_invalid_values);
    RUN(test_request_headers);
    RUN(test_trailer_brings_the_value);
    RUN(test_md5);
    RUN(test_multipart_rules);
    RUN(test_parts_of_an_upload);
    RUN(test_composite_and_full_object);
    RUN(test_abandoned);
    return check_done();
}
