/* SigV4: AWS's published values, every malformed claim, what clients really send. */
#include "unit/wire/sigv4_rig.h"

#define AUTHORIZATION(signed_headers, signature)                                         \
    {                                                                                    \
        "Authorization", "AWS4-HMAC-SHA256 Credential=" AKID "/" SCOPE                   \
                         ",SignedHeaders=" signed_headers ",Signature=" signature        \
    }
#define GET_SIGNATURE "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"

static void
test_published_values(void)
{
    static const struct request rows[] = {
        {"GET",
         "/test.txt",
         NULL,
         {{"Host", HOST},
          AUTHORIZATION("host;range;x-amz-content-sha256;x-amz-date", GET_SIGNATURE),
          {"Range", "bytes=0-9"},
          {"x-amz-content-sha256", EMPTY},
          {"x-amz-date", "20130524T000000Z"}},
         false,
         NULL},
        {"PUT",
         "/test%24file.text",
         NULL,
         {{"Host", HOST},
          {"Date", "Fri, 24 May 2013 00:00:00 GMT"},
          AUTHORIZATION(
              "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
              "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"),
          {"x-amz-date", "20130524T000000Z"},
          {"x-amz-storage-class", "REDUCED_REDUNDANCY"},
          {"x-amz-content-sha256",
           "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"}},
         false,
         NULL},
        {"GET",
         "/",
         "lifecycle",
         {{"Host", HOST},
          AUTHORIZATION(
              "host;x-amz-content-sha256;x-amz-date",
              "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
          {"x-amz-content-sha256", EMPTY},
          {"x-amz-date", "20130524T000000Z"}},
         false,
         NULL},
        {"GET",
         "/",
         "prefix=J&max-keys=2",
         {{"Host", HOST},
          AUTHORIZATION(
              "host;x-amz-content-sha256;x-amz-date",
              "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
          {"x-amz-content-sha256", EMPTY},
          {"x-amz-date", "20130524T000000Z"}},
         false,
         NULL},
        {"GET",
         "/test.txt",
         "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=" AKID
         "%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z"
         "&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature="
         "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404",
         {{"Host", HOST}},
         false,
         NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CHECK_U64(verify(&rows[i], "us-east-1", SECRET, NOW_S), S3_OK);
        CHECK_U64(verify(&rows[i], NULL, "another", NOW_S), S3_SignatureDoesNotMatch);
        CHECK(extra("CanonicalRequest") != NULL);
    }
    /* The empty-valued sub-resource may be written either way. */
    struct request other = rows[2];
    other.query = "lifecycle=";
    CHECK_U64(verify(&other, "us-east-1", SECRET, NOW_S), S3_OK);
}

static void
test_header_order_and_spacing_do_not_matter(void)
{
    static const struct request r = {
        "GET",
        "/test.txt",
        NULL,
        {{"X-AMZ-DATE", "20130524T000000Z"},
         {"range", "  bytes=0-9 "},
         {"authorization",
          "AWS4-HMAC-SHA256   Signature=" GET_SIGNATURE
          " , SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,  "
          "Credential=" AKID "/" SCOPE},
         {"X-Amz-Content-SHA256", EMPTY},
         {"accept-encoding", "gzip"},
         {"host", HOST}},
        false,
        NULL};

    CHECK_U64(verify(&r, "us-east-1", SECRET, NOW_S), S3_OK);
    CHECK(auth.kind == SIGV4_HEADER);
    CHECK(span_is(auth.access_key, AKID));
    CHECK(span_is(auth.scope, SCOPE));
    CHECK(auth.payload.kind == PAYLOAD_SHA256);
}

static void
test_mismatch_says_what_was_computed(void)
{
    static const struct request r = {
        "GET",
        "/test.txt",
        NULL,
        {{"Host", HOST},
         AUTHORIZATION("host;range;x-amz-content-sha256;x-amz-date", GET_SIGNATURE),
         {"Range", "bytes=0-8"},
         {"x-amz-content-sha256", EMPTY},
         {"x-amz-date", "20130524T000000Z"}},
        false,
        NULL};

    REQUIRE(verify(&r, NULL, SECRET, NOW_S) == S3_SignatureDoesNotMatch);
    CHECK_STR(extra("AWSAccessKeyId"), AKID);
    CHECK_STR(extra("SignatureProvided"), GET_SIGNATURE);
    CHECK_SAYS(extra("StringToSign"), "AWS4-HMAC-SHA256\n20130524T000000Z\n" SCOPE "\n");
    CHECK_SAYS(extra("StringToSignBytes"), "41 57 53 34 2d");
    CHECK_STR(
        extra("CanonicalRequest"),
        "GET\n/test.txt\n\nhost:" HOST "\nrange:bytes=0-8\nx-amz-content-sha256:" EMPTY
        "\nx-amz-date:20130524T000000Z\n\nhost;range;x-amz-content-sha256;x-amz-date"
        "\n" EMPTY);
    CHECK_SAYS(extra("CanonicalRequestBytes"), "47 45 54 0a 2f 74");
}

/* One wrong thing in a header that is right otherwise. */
static void
test_malformed_headers(void)
{
    static const struct {
        const char *authorization;
        enum s3_code code;
        const char *says;
    } rows[] = {
        {"AWS AKID:signature", S3_InvalidRequest, "Signature Version 2"},
        {"Bearer abc", S3_InvalidArgument, "Unsupported Authorization Type"},
        {"AWS4-ECDSA-P256-SHA256 Credential=x", S3_NotImplemented, "not implemented"},
        {"AWS4-HMAC-SHA256", S3_AuthorizationHeaderMalformed,
         "requires three components"},
        {"AWS4-HMAC-SHA256 ", S3_AuthorizationHeaderMalformed, "requires three"},
        {"AWS4-HMAC-SHA256 Credential=" AKID "/" SCOPE ",SignedHeaders=host",
         S3_AuthorizationHeaderMalformed, "requires three"},
        {"AWS4-HMAC-SHA256 Credential=" AKID "/" SCOPE ",Signature=" EMPTY,
         S3_AuthorizationHeaderMalformed, "requires three"},
        {"AWS4-HMAC-SHA256 SignedHeaders=host,Signature=" EMPTY,
         S3_AuthorizationHeaderMalformed, "requires three"},
        {"AWS4-HMAC-SHA256 Credential=,SignedHeaders=host,Signature=" EMPTY,
         S3_AuthorizationHeaderMalformed, "requires three"},
        {"AWS4-HMAC-SHA256 Credential=" AKID "/" SCOPE
         ",SignedHeaders=host,Signature=" EMPTY ",More=1",
         S3_AuthorizationHeaderMalformed, "\"More=1\" is malformed"},
        {"AWS4-HMAC-SHA256 Credential=" AKID "/" SCOPE
         ",SignedHeaders=host,Signature=" EMPTY ",Signature=" EMPTY,
         S3_AuthorizationHeaderMalformed, "is malformed"},
        {"AWS4-HMAC-SHA256 nonsense", S3_AuthorizationHeaderMalformed, "\"nonsense\""},
        {"AWS4-HMAC-SHA256 Credential=" AKID "/20130524/us-east-1/s3"
         ",SignedHeaders=host,Signature=" EMPTY,
         S3_AuthorizationHeaderMalformed, "the Credential is mal-formed"},
        {"AWS4-HMAC-SHA256 Credential=" AKID "/more/" SCOPE
         ",SignedHeaders=host,Signature=" EMPTY,
         S3_AuthorizationHeaderMalformed, "the Credential is mal-formed"},
        {"AWS4-HMAC-SHA256 Credential=/" SCOPE ",SignedHeaders=host,Signature=" EMPTY,
         S3_AuthorizationHeaderMalformed, "the Credential is mal-formed"},
        {"AWS4-HMAC-SHA256 Credential=" AKID "/2013-05-24/us-east-1/s3/aws4_request"
         ",SignedHeaders=host,Signature=" EMPTY,
         S3_AuthorizationHeaderMalformed, "incorrect date format \"2013-05-24\""},
        {"AWS4-HMAC-SHA256 Credential=" AKID "/20130523/us-east-1/s3/aws4_request"
         ",SignedHeaders=host,Signature=" EMPTY,
         S3_AuthorizationHeaderMalformed, "Invalid credential date \"20130523\""},
        {"AWS4-HMAC-SHA256 Credential=" AKID "/20130524/us-east-1/ec2/aws4_request"
         ",SignedHeaders=host,Signature=" EMPTY,
         S3_AuthorizationHeaderMalformed, "incorrect service \"ec2\""},
        {"AWS4-HMAC-SHA256 Credential=" AKID "/20130524/us-east-1/s3/aws5_request"
         ",SignedHeaders=host,Signature=" EMPTY,
         S3_AuthorizationHeaderMalformed, "incorrect terminal \"aws5_request\""},
        {"AWS4-HMAC-SHA256 Credential=" AKID "/20130524/eu-west-1/s3/aws4_request"
         ",SignedHeaders=host,Signature=" EMPTY,
         S3_AuthorizationHeaderMalformed,
         "the region 'eu-west-1' is wrong; expecting 'us-east-1'"},
        {"AWS4-HMAC-SHA256 Credential=" AKID "/" SCOPE
         ",SignedHeaders=host;;x-amz-date,Signature=" EMPTY,
         S3_AuthorizationHeaderMalformed, "SignedHeaders is mal-formed"},
        {"AWS4-HMAC-SHA256 Credential=" AKID "/" SCOPE
         ",SignedHeaders=host;x-amz-date;x-amz-content-sha256,Signature=xyz",
         S3_SignatureDoesNotMatch, "signature we calculated"},
        {"AWS4-HMAC-SHA256 Credential=" AKID "/" SCOPE
         ",SignedHeaders=host;x-amz-date;x-amz-content-sha256,Signature=" EMPTY,
         S3_SignatureDoesNotMatch, "signature we calculated"},
        {"AWS4-HMAC-SHA256 Credential=" AKID "/" SCOPE
         ",SignedHeaders=x-amz-date;x-amz-content-sha256,Signature=" EMPTY,
         S3_AccessDenied, "not signed"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct request r = {"GET",
                            "/a",
                            NULL,
                            {{"host", "h"},
                             {"x-amz-date", "20130524T000000Z"},
                             {"x-amz-content-sha256", EMPTY},
                             {"authorization", rows[i].authorization}},
                            false,
                            NULL};

        CHECK_U64(verify(&r, "us-east-1", SECRET, NOW_S), rows[i].code);
        CHECK_SAYS(fault.message, rows[i].says);
    }
}

static void
test_region_is_told(void)
{
    struct request r = {"GET",
                        "/a",
                        NULL,
                        {{"host", "h"},
                         {"x-amz-date", "20130524T000000Z"},
                         AUTHORIZATION("host;x-amz-date", EMPTY)},
                        false,
                        NULL};

    CHECK_U64(verify(&r, "eu-north-1", SECRET, NOW_S), S3_AuthorizationHeaderMalformed);
    CHECK_STR(extra("Region"), "eu-north-1");
    CHECK_U64(verify(&r, NULL, SECRET, NOW_S),
              S3_SignatureDoesNotMatch); /* any will do */
}

static void
test_payload_values(void)
{
    static const struct {
        const char *value;
        enum s3_code code;
        enum payload_kind kind;
    } rows[] = {
        {"UNSIGNED-PAYLOAD", S3_OK, PAYLOAD_UNSIGNED},
        {EMPTY, S3_OK, PAYLOAD_SHA256},
        {"STREAMING-UNSIGNED-PAYLOAD-TRAILER", S3_OK, PAYLOAD_CHUNKED_UNSIGNED_TRAILER},
        {"STREAMING-AWS4-HMAC-SHA256-PAYLOAD", S3_OK, PAYLOAD_CHUNKED_SIGNED},
        {"STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", S3_OK,
         PAYLOAD_CHUNKED_SIGNED_TRAILER},
        {"STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD", S3_NotImplemented, 0},
        {"STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER", S3_NotImplemented, 0},
        {"", S3_InvalidArgument, 0},
        {"unsigned-payload", S3_InvalidArgument, 0},
        {"STREAMING-PAYLOAD", S3_InvalidArgument, 0},
        {"e3b0c44298fc1c149afbf4c8996fb924", S3_InvalidArgument, 0},
        {"z3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
         S3_InvalidArgument, 0},
    };
    struct payload p;
    unsigned char other[SHA256_LEN] = {1};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        memset(&fault, 0, sizeof fault);
        enum err rc = payload_parse(span_of(rows[i].value), &p, &fault);

        CHECK_U64(fault.code, rows[i].code);
        CHECK((rc == ERR_OK) == (rows[i].code == S3_OK));
        if (rc == ERR_OK)
            CHECK_U64(p.kind, rows[i].kind);
    }
    REQUIRE(payload_parse(SPAN(EMPTY), &p, NULL) == ERR_OK);
    CHECK(payload_check(&p, p.sha256, arena, &fault) == ERR_OK);
    CHECK(payload_check(&p, other, arena, &fault) == ERR_BAD_DIGEST);
    CHECK_U64(fault.code, S3_XAmzContentSHA256Mismatch);
    CHECK_STR(extra("ClientComputedContentSHA256"), EMPTY);
    CHECK_STR(extra("S3ComputedContentSHA256"),
              "0100000000000000000000000000000000000000000000000000000000000000");
}

/* ---- what our own client signs, the server accepts: every case below is built this way ---- */

static void
test_signed_by_us(void)
{
    static const struct request rows[] = {
        {"GET", "/b/dir/a%20b%2Bc%252F~%C3%A9.txt", NULL, {{"host", "h:9000"}}, 0, NULL},
        {"GET",
         "/b",
         "list-type=2&prefix=%2F&x-id=ListObjectsV2",
         {{"host", "h"}},
         0,
         NULL},
        {"GET", "/b", "a=2&a=1&a&a-b=&a%2Fb=%C3%A9", {{"host", "h"}}, 0, NULL},
        {"PUT",
         "/b/k",
         NULL,
         {{"host", "h"},
          {"content-type", "text/plain;  charset=utf-8"},
          {"user-agent", "x"},
          {"x-amz-meta-b", "1"},
          {"x-amz-meta-b", "2"},
          {"X-Amz-Meta-A", " many   blanks "}},
         0,
         NULL},
        {"HEAD", "/%21%2A%27%28%29", "", {{"HOST", "h"}, {"Range", "bytes=0-"}}, 0, NULL},
        {"GET", "", "", {{"host", "h"}}, 0, NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct request r = rows[i];
        struct sigv4_creds with = creds;

        if (i % 2 == 1)
            with.token = SPAN("token+/=");
        sign(&r, "UNSIGNED-PAYLOAD", with);
        CHECK_U64(verify(&r, NULL, SECRET, NOW_S + 900), S3_OK);
        CHECK(span_is(auth.region, "eu-west-3"));
        CHECK(span_eq(auth.token, with.token));
        r.method = "DELETE";
        CHECK_U64(verify(&r, NULL, SECRET, NOW_S), S3_SignatureDoesNotMatch);
        free_signed(&r);
    }
}

static void
test_lower_case_escapes_and_raw_bytes_are_one(void)
{
    static const char *const paths[] = {"/b/%C3%A9%7E%2A", "/b/%c3%a9~*",
                                        "/b/\xc3\xa9~%2a"};
    struct request r = {"GET", paths[0], "p=%C3%A9", {{"host", "h"}}, false, NULL};

    sign(&r, EMPTY, creds);
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        r.path = paths[i];
        r.query = i == 1 ? "p=%c3%a9" : "p=\xc3\xa9";
        CHECK_U64(verify(&r, NULL, SECRET, NOW_S), S3_OK);
    }
    r.path = "/b/%C3%A9%7E%2B";
    CHECK_U64(verify(&r, NULL, SECRET, NOW_S), S3_SignatureDoesNotMatch);
    free_signed(&r);
}

static void
test_default_ports_and_proxies(void)
{
    static const struct {
        const char *signed_as, *received, *forwarded;
        bool tls;
        enum s3_code code;
    } rows[] = {
        {"h", "h", NULL, false, S3_OK},
        {"h:80", "h", NULL, false, S3_OK},
        {"h", "h:80", NULL, false, S3_OK},
        {"h:443", "h", NULL, true, S3_OK},
        {"h", "h:443", NULL, true, S3_OK},
        {"h", "h:443", NULL, false, S3_SignatureDoesNotMatch},
        {"h:9000", "h:9000", NULL, false, S3_OK},
        {"h", "h:9000", NULL, false, S3_SignatureDoesNotMatch},
        {"[::1]:80", "[::1]", NULL, false, S3_OK},
        {"[::1]", "[::1]:80", NULL, false, S3_OK},
        {"s3.example.com", "10.0.0.1:9000", "s3.example.com", false, S3_OK},
        {"s3.example.com", "10.0.0.1:9000", NULL, false, S3_SignatureDoesNotMatch},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct request r = {"GET",       "/b/k",
                            NULL,        {{"host", rows[i].signed_as}},
                            rows[i].tls, rows[i].forwarded};

        sign(&r, EMPTY, creds);
        r.headers[0][1] = rows[i].received;
        CHECK_U64(verify(&r, NULL, SECRET, NOW_S), rows[i].code);
        free_signed(&r);
    }
}

static void
test_unsigned_amz_headers(void)
{
    struct request r = {"PUT", "/b/k", NULL, {{"host", "h"}}, false, NULL};

    sign(&r, EMPTY, creds);
    size_t n = at_header(&r, "authorization") + 1;
    r.headers[n][0] = xstrdup("x-amz-meta-more");
    r.headers[n][1] = xstrdup("1");
    r.headers[n + 1][0] = xstrdup("X-Amz-Acl");
    r.headers[n + 1][1] = xstrdup("private");
    CHECK_U64(verify(&r, NULL, SECRET, NOW_S), S3_AccessDenied);
    CHECK_SAYS(fault.message, "not signed");
    CHECK_STR(extra("HeadersNotSigned"), "x-amz-meta-more, X-Amz-Acl");
    free_signed(&r);
}

static void
test_dates(void)
{
    static const struct {
        int64_t off_s;
        enum s3_code code;
    } rows[] = {{0, S3_OK},
                {900, S3_OK},
                {-900, S3_OK},
                {901, S3_RequestTimeTooSkewed},
                {-901, S3_RequestTimeTooSkewed}};
    struct request r = {"GET", "/b/k", NULL, {{"host", "h"}}, false, NULL};

    sign(&r, EMPTY, creds);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        CHECK_U64(verify(&r, NULL, SECRET, NOW_S + rows[i].off_s), rows[i].code);
    CHECK_STR(extra("RequestTime"), "2013-05-24T00:00:00.000Z");
    CHECK_STR(extra("ServerTime"), "2013-05-23T23:44:59.000Z");
    CHECK_STR(extra("MaxAllowedSkewMilliseconds"), "900000");

    /* Date where there is no x-amz-date: then that one is signed, in its ISO form. */
    size_t at = at_header(&r, "x-amz-date");
    char *name = (char *)(uintptr_t)r.headers[at][0];
    memcpy(name, "date\0", 5);
    CHECK_U64(verify(&r, NULL, SECRET, NOW_S), S3_SignatureDoesNotMatch);
    CHECK_SAYS(extra("StringToSign"), "\n20130524T000000Z\n");
    char *value = (char *)(uintptr_t)r.headers[at][1], *held = value;
    value = strdup("Fri, 24 May 2013 00:00:00 -0000"); /* as botocore writes it */
    r.headers[at][1] = value;
    CHECK_U64(verify(&r, NULL, SECRET, NOW_S), S3_SignatureDoesNotMatch);
    CHECK_SAYS(extra("StringToSign"), "\n20130524T000000Z\n");
    free(held);
    value[5] = 'x';
    CHECK_U64(verify(&r, NULL, SECRET, NOW_S), S3_AccessDenied);
    CHECK_SAYS(fault.message, "valid Date or x-amz-date");
    memcpy(name, "none", 4);
    CHECK_U64(verify(&r, NULL, SECRET, NOW_S), S3_AccessDenied);
    for (size_t i = 1; i < HEADERS_MAX && r.headers[i][0] != NULL; i++) {
        free((void *)(uintptr_t)r.headers[i][0]);
        free((void *)(uintptr_t)r.headers[i][1]);
    }
}

/* curl 7.88 sends no x-amz-content-sha256. These were signed by curl 7.88.1 itself, given
 * --aws-sigv4 aws:amz:us-east-1:s3; the PUTs are -T and -X PUT. */
static void
test_curl_788(void)
{
    static const struct {
        const char *method, *path, *query, *signature;
    } rows[] = {
        {"GET", "/b/k", "",
         "678d5a31f3213d94e5dd72bf077a9e7faee8ba3ade380d89b185924cd656f8e2"},
        {"GET", "/b", "list-type=2&prefix=a",
         "26fa30b159ad25f556cf751469cbdb8ce9a22877218e13ec26af0ca17dfd7917"},
        {"PUT", "/b/k", "",
         "427188e4e80721b30cf0676c6871778c37a8a549fe7ce7924d4684f9b2635e41"},
        {"DELETE", "/b/k", "",
         "888df602c7ed85870c3d26bb43af4adf9eec51bd67884455985274b19e7ad7d1"},
        {"HEAD", "/b/k%20x", "",
         "6bfe23b78f9d51c04846d84d6a7866f2326d7e56ffe0eb6b447b3f633630c230"},
        {"PUT", "/newbucket", "",
         "8a213a8bf54a9d31241872ff4bfd5d601e652529076131be7f5f5aeb9d4816b2"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char header[512];
        struct request r = {rows[i].method,
                            rows[i].path,
                            rows[i].query,
                            {{"Host", "127.0.0.1:47069"},
                             {"Authorization", header},
                             {"X-Amz-Date", "20261121T160034Z"},
                             {"User-Agent", "curl/7.88.1"}},
                            false,
                            NULL};

        snprintf(header, sizeof header,
                 "AWS4-HMAC-SHA256 Credential=" AKID
                 "/20261121/us-east-1/s3/aws4_request, SignedHeaders=host;x-amz-date, "
                 "Signature=%s",
                 rows[i].signature);
        CHECK_U64(verify(&r, NULL, SECRET, 1795276834), S3_OK);
        CHECK(auth.payload_absent);
        CHECK(auth.payload.kind ==
              (strcmp(rows[i].method, "PUT") == 0 ? PAYLOAD_UNSIGNED : PAYLOAD_SHA256));
    }
}

static void
test_anonymous(void)
{
    struct request r = {"GET", "/b/k", "list-type=2", {{"host", "h"}}, false, NULL};

    CHECK_U64(verify(&r, NULL, SECRET, NOW_S), S3_OK);
    CHECK(auth.kind == SIGV4_ANONYMOUS);
    r.headers[1][0] = "Authorization"; /* empty is none */
    r.headers[1][1] = "  ";
    CHECK_U64(verify(&r, NULL, SECRET, NOW_S), S3_OK);
    CHECK(auth.kind == SIGV4_ANONYMOUS);
    r.headers[1][0] = "x-amz-content-sha256";
    r.headers[1][1] = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
    CHECK_U64(verify(&r, NULL, SECRET, NOW_S), S3_OK);
    CHECK(auth.payload.kind == PAYLOAD_CHUNKED_UNSIGNED_TRAILER);
    r.headers[1][1] = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
    CHECK_U64(verify(&r, NULL, SECRET, NOW_S), S3_InvalidArgument);
}

static void
test_cache_keeps_apart(void)
{
    struct sigv4_cache *cache = sigv4_cache_new();
    static const char *const secrets[] = {SECRET, "other", "x"};
    static const char *const days[] = {"20130524", "20130525"};
    static const char *const regions[] = {"us-east-1", "eu-west-1", "eu-west-2"};

    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 18; i++) {
            struct hmac_key plain, kept;
            struct span s = span_of(secrets[i % 3]), d = span_of(days[i / 3 % 2]),
                        g = span_of(regions[i / 6]);

            sigv4_key(NULL, s, d, g, &plain);
            sigv4_key(cache, s, d, g, &kept);
            CHECK(memcmp(&plain, &kept, sizeof plain) == 0);
        }
    }
    char long_secret[200]; /* is not kept, but works */
    struct hmac_key plain, other;
    memset(long_secret, 's', sizeof long_secret);
    sigv4_key(cache, (struct span){long_secret, 200}, SPAN("20130524"), SPAN("r"),
              &plain);
    sigv4_key(cache, (struct span){long_secret, 199}, SPAN("20130524"), SPAN("r"),
              &other);
    CHECK(memcmp(&plain, &other, sizeof plain) != 0);
    sigv4_cache_free(&cache);
    CHECK(cache == NULL);
    sigv4_cache_free(&cache);
}

static void
test_unknown_key(void)
{
    struct sigv4_auth a = {.access_key = SPAN("UNKNOWN")};

    CHECK(sigv4_unknown_key(&a, &fault) == ERR_DENIED);
    CHECK_U64(fault.code, S3_InvalidAccessKeyId);
    CHECK_STR(extra("AWSAccessKeyId"), "UNKNOWN");
}

/* A request too large for the arena is refused in words, wherever memory ends. */
static void
test_small_arenas(void)
{
    struct request r = {"GET", "/b/k%20", "a=b&c=d", {{"host", "h"}}, false, NULL};
    struct field room[HEADERS_MAX];
    bool fits = false;

    sign(&r, EMPTY, creds);
    struct sigv4_request req = wire_of(&r, room);
    for (size_t limit = 16; limit < 4096 && !fits; limit += 16) {
        struct arena *small = arena_new(16, limit);
        struct sigv4_opts opts = {.region = {NULL, 0}};
        struct query q;
        enum err rc = query_parse(span_of(r.query), small, &q, &fault);

        if (rc == ERR_OK)
            rc = sigv4_parse(&req, &q, &opts, &auth, &fault);
        if (rc == ERR_OK)
            rc = sigv4_verify(&req, &q, &auth, SPAN(SECRET), NULL, NOW_S, small, NULL,
                              &fault);
        CHECK(rc == ERR_OK || fault.code == S3_RequestHeaderSectionTooLarge);
        fits = rc == ERR_OK;
        arena_free(&small);
    }
    CHECK(fits);
    free_signed(&r);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    arena = arena_new(4096, 1 << 20);
    RUN(test_published_values);
    RUN(test_header_order_and_spacing_do_not_matter);
    RUN(test_mismatch_says_what_was_computed);
    RUN(test_malformed_headers);
    RUN(test_region_is_told);
    RUN(test_payload_values);
    RUN(test_signed_by_us);
    RUN(test_lower_case_escapes_and_raw_bytes_are_one);
    RUN(test_default_ports_and_proxies);
    RUN(test_unsigned_amz_headers);
    RUN(test_dates);
    RUN(test_curl_788);
    RUN(test_anonymous);
    RUN(test_cache_keeps_apart);
    RUN(test_unknown_key);
    RUN(test_small_arenas);
    arena_free(&arena);
    return check_done();
}
