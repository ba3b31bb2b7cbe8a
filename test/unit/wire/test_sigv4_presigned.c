/* Presigned URLs: how long they hold, what may be added to them, every malformed claim. */
#include "unit/wire/sigv4_rig.h"

static void
presign(struct request *r, uint64_t expires_s, char *room, size_t room_len)
{
    struct field fields[HEADERS_MAX];
    struct sigv4_request req = wire_of(r, fields);
    struct query q;
    struct span out;

    arena_reset(arena);
    CHECK(query_parse(span_of(r->query), arena, &q, NULL) == ERR_OK);
    CHECK(sigv4_presign(&req, &q, &creds, expires_s, NULL, NOW_S, arena, &out) == ERR_OK);
    snprintf(room, room_len, "%.*s", SPAN_ARG(out));
    r->query = room;
}

static void
test_presigned(void)
{
    static const struct {
        uint64_t expires_s;
        int64_t off_s;
        enum s3_code code;
        const char *says;
    } rows[] = {
        {60, 0, S3_OK, ""},
        {60, 59, S3_OK, ""},
        {60, 61, S3_AccessDenied, "Request has expired"},
        {604800, 604799, S3_OK, ""},
        {604800, 604800, S3_AccessDenied, "has expired"},
        {0, 0, S3_AccessDenied, "has expired"},
        {604801, 0, S3_AuthorizationQueryParametersError, "less than a week"},
        {60, -900, S3_OK, ""},
        {60, -901, S3_AccessDenied, "not valid yet"},
        {86400, 1000, S3_OK, ""}, /* the skew rule is for headers */
    };
    char room[2048];

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct request r = {"GET",           "/b/k", "versionId=3&a=b%2Bc",
                            {{"host", "h"}}, 0,      NULL};

        presign(&r, rows[i].expires_s, room, sizeof room);
        CHECK_U64(verify(&r, NULL, SECRET, NOW_S + rows[i].off_s), rows[i].code);
        CHECK_SAYS(fault.message, rows[i].says);
        if (rows[i].off_s == 61) {
            CHECK_STR(extra("X-Amz-Expires"), "60");
            CHECK_STR(extra("Expires"), "2013-05-24T00:01:00.000Z");
            CHECK_STR(extra("ServerTime"), "2013-05-24T00:01:01.000Z");
        }
    }

    struct request r = {"GET", "/b/k", NULL, {{"host", "h"}}, false, NULL};
    presign(&r, 60, room, sizeof room);
    CHECK(verify(&r, NULL, SECRET, NOW_S) == S3_OK);
    CHECK(auth.kind == SIGV4_QUERY && auth.payload.kind == PAYLOAD_UNSIGNED);
    r.method = "HEAD"; /* the method is signed */
    CHECK_U64(verify(&r, NULL, SECRET, NOW_S), S3_SignatureDoesNotMatch);
    r.method = "GET";
    r.headers[1][0] = "accept"; /* others may be added, but not x-amz-* */
    r.headers[1][1] = "*/*";
    CHECK_U64(verify(&r, NULL, SECRET, NOW_S), S3_OK);
    r.headers[1][0] = "x-amz-acl";
    CHECK_U64(verify(&r, NULL, SECRET, NOW_S), S3_AccessDenied);
    r.headers[1][0] = "authorization";
    r.headers[1][1] = "AWS4-HMAC-SHA256 x";
    CHECK_U64(verify(&r, NULL, SECRET, NOW_S), S3_InvalidArgument);
    CHECK_SAYS(fault.message, "Only one auth mechanism allowed");
}

static void
test_malformed_presigned(void)
{
    static const char alg[] = "X-Amz-Algorithm=AWS4-HMAC-SHA256";
    static const char cred[] =
        "&X-Amz-Credential=" AKID "%2F20130524%2Fus-east-1%2Fs3%2Faws4_request";
    static const char date[] = "&X-Amz-Date=20130524T000000Z";
    static const char sh[] = "&X-Amz-SignedHeaders=host";
    static const char sig[] = "&X-Amz-Signature=" EMPTY;
    static const struct {
        const char *part[6];
        enum s3_code code;
        const char *says;
    } rows[] = {
        {{alg, cred, date, sh, sig, "&X-Amz-Expires=60"},
         S3_SignatureDoesNotMatch,
         "sign"},
        {{"", cred, date, sh, sig, "&X-Amz-Expires=60"},
         S3_AuthorizationQueryParametersError,
         "requires the X-Amz-Algorithm"},
        {{alg, "", date, sh, sig, "&X-Amz-Expires=60"},
         S3_AuthorizationQueryParametersError,
         "requires"},
        {{alg, cred, "", sh, sig, "&X-Amz-Expires=60"},
         S3_AuthorizationQueryParametersError,
         "requires"},
        {{alg, cred, date, "", sig, "&X-Amz-Expires=60"},
         S3_AuthorizationQueryParametersError,
         "requires"},
        {{alg, cred, date, sh, "", "&X-Amz-Expires=60"},
         S3_AuthorizationQueryParametersError,
         "requires"},
        {{alg, cred, date, sh, sig, ""},
         S3_AuthorizationQueryParametersError,
         "requires"},
        {{alg, cred, date, sh, sig, "&X-Amz-Expires=60&X-Amz-Date=1"},
         S3_AuthorizationQueryParametersError,
         "requires"},
        {{alg, cred, date, sh, sig, "&X-Amz-Expires=soon"},
         S3_AuthorizationQueryParametersError,
         "should be a number"},
        {{alg, cred, date, sh, sig, "&X-Amz-Expires=-1"},
         S3_AuthorizationQueryParametersError,
         "non-negative"},
        {{alg, cred, date, sh, sig, "&X-Amz-Expires=99999999999999999999999"},
         S3_AuthorizationQueryParametersError,
         "less than a week"},
        {{"X-Amz-Algorithm=HMAC", cred, date, sh, sig, "&X-Amz-Expires=60"},
         S3_AuthorizationQueryParametersError,
         "only supports"},
        {{alg, "&X-Amz-Credential=a", date, sh, sig, "&X-Amz-Expires=60"},
         S3_AuthorizationQueryParametersError,
         "Error parsing the X-Amz-Credential"},
        {{alg, cred, "&X-Amz-Date=20130524", sh, sig, "&X-Amz-Expires=60"},
         S3_AuthorizationQueryParametersError,
         "ISO8601"},
        {{alg, cred, "&X-Amz-Date=20130525T000000Z", sh, sig, "&X-Amz-Expires=60"},
         S3_AuthorizationQueryParametersError,
         "Invalid credential date"},
        {{"AWSAccessKeyId=a&Expires=1&Signature=b", "", "", "", "", ""},
         S3_InvalidRequest,
         "Please use AWS4-HMAC-SHA256. This is Signature Version 2: set "
         "signature_version"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char query[1024] = "";
        struct request r = {"GET", "/b/k", query, {{"host", "h"}}, false, NULL};

        for (size_t k = 0; k < 6; k++)
            strcat(query, rows[i].part[k]);
        CHECK_U64(verify(&r, "us-east-1", SECRET, NOW_S), rows[i].code);
        CHECK_SAYS(fault.message, rows[i].says);
    }
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    arena = arena_new(4096, 1 << 20);
    RUN(test_presigned);
    RUN(test_malformed_presigned);
    arena_free(&arena);
    return check_done();
}
