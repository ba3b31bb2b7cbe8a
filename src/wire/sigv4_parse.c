/* What a request claims: the Authorization header or the query of a presigned URL. */
#include <assert.h>
#include <stdio.h>

#include "base/mem.h"
#include "wire/sigv4_canon.h"

#define ALGORITHM "AWS4-HMAC-SHA256"

/* Which code and which beginning a malformed claim has. */
struct claim {
    enum s3_code code;
    const char *about_credential;
};
static const struct claim in_header = {S3_AuthorizationHeaderMalformed,
                                       "The authorization header is malformed; "};
static const struct claim in_query = {S3_AuthorizationQueryParametersError,
                                      "Error parsing the X-Amz-Credential parameter; "};

#define SHOW(s) (int)MIN((s).len, 80), (s).at /* for "%.*s" of what came */

/* ---- Credential=AKID/20261121/us-east-1/s3/aws4_request ---- */

static bool
all_digits(struct span s, size_t len)
{
    if (s.len != len)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (s.at[i] < '0' || s.at[i] > '9')
            return false;
    }
    return true;
}

static bool
sigv4_split5(struct span s, struct span part[5])
{
    for (unsigned i = 0; i < 5; i++) {
        const char *slash = span_find(s, '/');

        if ((slash == NULL) != (i == 4))
            return false;
        part[i] = s;
        if (slash != NULL)
            part[i].len = (size_t)(slash - s.at);
        if (part[i].len == 0)
            return false;
        s = span_from(s, part[i].len + 1);
    }
    return true;
}

static enum err
take_region(struct sigv4_auth *auth, struct span want, const struct claim *c,
            struct fault *f)
{
    if (auth->region.len > SIGV4_REGION_MAX)
        return fault_set(f, c->code, "%sthe region is longer than %d bytes",
                         c->about_credential, SIGV4_REGION_MAX);
    if (want.len == 0 || span_eq(want, auth->region))
        return ERR_OK;
    fault_set(f, c->code, "%sthe region '%.*s' is wrong; expecting '%.*s'",
              c->about_credential, SHOW(auth->region), SHOW(want));
    fault_add(f, "Region", want);
    return ERR_BAD_REQUEST;
}

static enum err
take_credential(struct sigv4_auth *auth, struct span text, struct span want_region,
                const struct claim *c, struct fault *f)
{
    struct span part[5];

    if (!sigv4_split5(text, part))
        return fault_set(f, c->code,
                         "%sthe Credential is mal-formed; expecting "
                         "\"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\".",
                         c->about_credential);
    if (!all_digits(part[1], 8))
        return fault_set(f, c->code,
                         "%sincorrect date format \"%.*s\". This date in the credential "
                         "must be in the format \"yyyyMMdd\".",
                         c->about_credential, SHOW(part[1]));
    if (!span_is(part[3], "s3"))
        return fault_set(f, c->code,
                         "%sincorrect service \"%.*s\". This endpoint belongs to \"s3\".",
                         c->about_credential, SHOW(part[3]));
    if (!span_is(part[4], "aws4_request"))
        return fault_set(
            f, c->code,
            "%sincorrect terminal \"%.*s\". This endpoint uses \"aws4_request\".",
            c->about_credential, SHOW(part[4]));
    auth->access_key = part[0];
    auth->day = part[1];
    auth->region = part[2];
    auth->scope = span_from(text, part[0].len + 1);
    return take_region(auth, want_region, c, f);
}

static enum err
check_day(const struct sigv4_auth *auth, const struct claim *c, struct fault *f)
{
    if (memcmp(auth->day.at, auth->date, 8) == 0)
        return ERR_OK;
    return fault_set(f, c->code,
                     "%sInvalid credential date \"%.*s\". This date is not the same as "
                     "X-Amz-Date: \"%.8s\".",
                     c->about_credential, SHOW(auth->day), auth->date);
}

static enum err
check_signed_headers(const struct sigv4_auth *auth, const struct claim *c,
                     struct fault *f)
{
    struct span list = auth->signed_headers, name;
    unsigned count = 0;

    while (canon_next_name(&list, &name)) {
        if (name.len == 0 || ++count > SIGV4_SIGNED_HEADERS_MAX)
            return fault_set(f, c->code,
                             "SignedHeaders is mal-formed; expecting up to %d names "
                             "between semicolons",
                             SIGV4_SIGNED_HEADERS_MAX);
    }
    return ERR_OK;
}

/* ---- the header ---- */

static enum err
three_components(struct fault *f)
{
    return fault_set(f, S3_AuthorizationHeaderMalformed,
                     "The authorization header is malformed; the authorization header "
                     "requires three components: Credential, SignedHeaders, and "
                     "Signature.");
}

/* "Name=value" between commas, with blanks around or without. */
static enum err
split_components(struct span rest, struct span *credential, struct span *signed_headers,
                 struct span *signature, struct fault *f)
{
    struct {
        const char *name;
        struct span *into;
    } known[] = {{"Credential", credential},
                 {"SignedHeaders", signed_headers},
                 {"Signature", signature}};

    while (rest.len > 0) {
        const char *comma = span_find(rest, ',');
        struct span one = {rest.at, comma ? (size_t)(comma - rest.at) : rest.len};
        const char *equals;
        size_t i;

        rest = span_from(rest, one.len + 1);
        one = span_trim(one);
        if (one.len == 0)
            continue;
        equals = span_find(one, '=');
        for (i = 0; equals != NULL && i < ARRAY_LEN(known); i++) {
            struct span name = {one.at, (size_t)(equals - one.at)};

            if (span_is(name, known[i].name) && known[i].into->at == NULL) {
                *known[i].into = span_from(one, name.len + 1);
                break;
            }
        }
        if (equals == NULL || i == ARRAY_LEN(known))
            return fault_set(f, S3_AuthorizationHeaderMalformed,
                             "The authorization header is malformed; the authorization "
                             "component \"%.*s\" is malformed.",
                             SHOW(one));
    }
    if (credential->len == 0 || signed_headers->len == 0 || signature->len == 0)
        return three_components(f);
    return ERR_OK;
}

/* The date as it is signed, "20261121T151600Z", from any form it may have. */
static bool
take_date(struct sigv4_auth *auth, struct span text)
{
    char date[NUM_DATE_TEXT], gmt[40];

    if (text.len == sizeof auth->date - 1 &&
        date_amz_parse(text, &auth->date_s) == ERR_OK) {
        memcpy(auth->date, text.at, text.len);
        return true;
    }
    /* botocore signs a Date as mail has it, with a zone in numbers. */
    if (text.len > 6 && text.len < sizeof gmt &&
        (memcmp(text.at + text.len - 6, " -0000", 6) == 0 ||
         memcmp(text.at + text.len - 6, " +0000", 6) == 0)) {
        snprintf(gmt, sizeof gmt, "%.*s GMT", (int)text.len - 6, text.at);
        text = span_of(gmt);
    }
    if (date_http_parse(text, &auth->date_s) != ERR_OK)
        return false;
    date_amz(auth->date_s, date);
    snprintf(auth->date, sizeof auth->date, "%.16s", date);
    return true;
}

/* x-amz-date, or Date where that is absent. */
static enum err
take_header_date(struct sigv4_auth *auth, struct fields headers, struct fault *f)
{
    struct span text = fields_get(headers, "x-amz-date");

    if (text.at == NULL)
        text = fields_get(headers, "date");
    if (text.at != NULL && take_date(auth, text))
        return ERR_OK;
    return fault_set(f, S3_AccessDenied,
                     "AWS authentication requires a valid Date or x-amz-date header");
}

static void
take_absent_payload(struct sigv4_auth *auth, struct span method)
{
    bool sends_body = span_is(method, "PUT") || span_is(method, "POST");

    auth->payload_absent = true;
    auth->payload.kind = sends_body ? PAYLOAD_UNSIGNED : PAYLOAD_SHA256;
    auth->payload_text = sends_body ? SPAN("UNSIGNED-PAYLOAD") : SPAN(EMPTY_SHA256);
    if (!sends_body)
        hex_decode(EMPTY_SHA256, SHA256_HEX, auth->payload.sha256, SHA256_LEN);
}

/* The first sentences are AWS's; the rest says what to set. */
static enum err
not_version_2(struct fault *f)
{
    return fault_set(
        f, S3_InvalidRequest,
        "The authorization mechanism you have provided is not supported. "
        "Please use AWS4-HMAC-SHA256. This is Signature Version 2: set "
        "signature_version to s3v4 (boto3: Config(signature_version='s3v4'); "
        "AWS CLI: aws configure set default.s3.signature_version s3v4), or "
        "use forebay share");
}

static enum err
sigv4_parse_header(const struct sigv4_request *req, struct span value, struct span region,
                   struct sigv4_auth *auth, struct fault *f)
{
    const char *blank = span_find(value, ' ');
    struct span scheme = {value.at, blank ? (size_t)(blank - value.at) : value.len};
    struct span credential = {NULL, 0};
    enum err rc;

    if (span_is(scheme, "AWS4-ECDSA-P256-SHA256"))
        return fault_set(f, S3_NotImplemented,
                         "AWS4-ECDSA-P256-SHA256 is not implemented");
    if (span_is(scheme, "AWS"))
        return not_version_2(f);
    if (!span_is(scheme, ALGORITHM))
        return fault_argument(f, "Authorization", value,
                              "Unsupported Authorization Type");
    rc = split_components(span_from(value, scheme.len), &credential,
                          &auth->signed_headers, &auth->signature, f);
    if (rc != ERR_OK)
        return rc;
    rc = take_credential(auth, credential, region, &in_header, f);
    if (rc != ERR_OK)
        return rc;
    rc = check_signed_headers(auth, &in_header, f);
    if (rc != ERR_OK)
        return rc;
    rc = take_header_date(auth, req->headers, f);
    if (rc != ERR_OK)
        return rc;
    rc = check_day(auth, &in_header, f);
    if (rc != ERR_OK)
        return rc;

    auth->payload_text = fields_get(req->headers, "x-amz-content-sha256");
    auth->token = fields_get(req->headers, "x-amz-security-token");
    if (auth->payload_text.at != NULL)
        return payload_parse(auth->payload_text, &auth->payload, f);
    take_absent_payload(auth, req->method);
    return ERR_OK;
}

/* ---- the query ---- */

/* The only one of that name, in any case; *twice when there are more. */
static struct span
query_one(const struct query *q, const char *name, bool *twice)
{
    struct span found = {NULL, 0};

    for (size_t i = 0; i < q->count; i++) {
        if (!span_case_is(q->at[i].name, name))
            continue;
        *twice = *twice || found.at != NULL;
        found = q->at[i].value;
    }
    return found;
}

static enum err
take_expires(struct sigv4_auth *auth, struct span text, struct fault *f)
{
    const enum s3_code code = S3_AuthorizationQueryParametersError;
    bool negative = text.at[0] == '-';

    if (num_u64(negative ? span_from(text, 1) : text, &auth->expires_s) != ERR_OK) {
        if (!negative && text.len > 7 && all_digits(text, text.len))
            auth->expires_s = UINT64_MAX; /* a number, beyond what fits */
        else
            return fault_set(f, code, "X-Amz-Expires should be a number");
    }
    if (negative)
        return fault_set(f, code, "X-Amz-Expires must be non-negative");
    if (auth->expires_s > SIGV4_EXPIRES_MAX_S)
        return fault_set(f, code,
                         "X-Amz-Expires must be less than a week (in seconds); that is, "
                         "the given X-Amz-Expires must be less than 604800 seconds");
    return ERR_OK;
}

static enum err
take_query_payload(const struct sigv4_request *req, const struct query *q,
                   struct sigv4_auth *auth, bool *twice, struct fault *f)
{
    struct span text = query_one(q, "X-Amz-Content-Sha256", twice);

    if (text.at == NULL &&
        canon_list_has(auth->signed_headers, SPAN("x-amz-content-sha256")))
        text = fields_get(req->headers, "x-amz-content-sha256");
    if (text.at == NULL)
        text = SPAN("UNSIGNED-PAYLOAD");
    auth->payload_text = text;
    return payload_parse(text, &auth->payload, f);
}

static enum err
check_query_form(struct span algorithm, struct span date, struct sigv4_auth *auth,
                 struct fault *f)
{
    const enum s3_code code = S3_AuthorizationQueryParametersError;

    if (span_is(algorithm, "AWS4-ECDSA-P256-SHA256"))
        return fault_set(f, S3_NotImplemented,
                         "AWS4-ECDSA-P256-SHA256 is not implemented");
    if (!span_is(algorithm, ALGORITHM))
        return fault_set(f, code, "X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\"");
    if (date.len != sizeof auth->date - 1 || !take_date(auth, date))
        return fault_set(f, code,
                         "X-Amz-Date must be in the ISO8601 Long Format "
                         "\"yyyyMMdd'T'HHmmss'Z'\"");
    return ERR_OK;
}

static enum err
parse_query(const struct sigv4_request *req, const struct query *q, struct span region,
            struct sigv4_auth *auth, struct fault *f)
{
    bool twice = false;
    struct span algorithm = query_one(q, "X-Amz-Algorithm", &twice);
    struct span credential = query_one(q, "X-Amz-Credential", &twice);
    struct span date = query_one(q, "X-Amz-Date", &twice);
    struct span expires = query_one(q, "X-Amz-Expires", &twice);
    enum err rc;

    auth->signed_headers = query_one(q, "X-Amz-SignedHeaders", &twice);
    auth->signature = query_one(q, "X-Amz-Signature", &twice);
    auth->token = query_one(q, "X-Amz-Security-Token", &twice);
    rc = take_query_payload(req, q, auth, &twice, f);
    if (rc != ERR_OK)
        return rc;
    if (twice || algorithm.len == 0 || credential.len == 0 || date.len == 0 ||
        expires.len == 0 || auth->signed_headers.len == 0 || auth->signature.len == 0)
        return fault_set(
            f, S3_AuthorizationQueryParametersError,
            "Query-string authentication version 4 requires the "
            "X-Amz-Algorithm, X-Amz-Credential, X-Amz-Signature, X-Amz-Date, "
            "X-Amz-SignedHeaders, and X-Amz-Expires parameters.");
    rc = check_query_form(algorithm, date, auth, f);
    if (rc != ERR_OK)
        return rc;
    rc = take_expires(auth, expires, f);
    if (rc != ERR_OK)
        return rc;
    rc = take_credential(auth, credential, region, &in_query, f);
    if (rc != ERR_OK)
        return rc;
    rc = check_signed_headers(auth, &in_query, f);
    return rc != ERR_OK ? rc : check_day(auth, &in_query, f);
}

/* ---- which of them ---- */

static bool
claims_in_query(const struct query *q)
{
    bool twice = false;

    return query_one(q, "X-Amz-Signature", &twice).at != NULL ||
           query_one(q, "X-Amz-Algorithm", &twice).at != NULL ||
           query_one(q, "X-Amz-Credential", &twice).at != NULL;
}

/* The Authorization header, if there is exactly one. */
static enum err
find_authorization(struct fields headers, struct span *out, struct fault *f)
{
    *out = (struct span){NULL, 0};
    for (size_t i = 0; i < headers.count; i++) {
        if (!span_case_is(headers.at[i].name, "authorization"))
            continue;
        if (out->at != NULL)
            return fault_argument(f, "Authorization", headers.at[i].value,
                                  "Only one Authorization header allowed");
        *out = span_trim(headers.at[i].value);
    }
    return ERR_OK;
}

static enum err
parse_anonymous(const struct sigv4_request *req, struct sigv4_auth *auth, struct fault *f)
{
    struct span text = fields_get(req->headers, "x-amz-content-sha256");
    enum err rc;

    if (text.at == NULL)
        return ERR_OK; /* PAYLOAD_UNSIGNED */
    auth->payload_text = text;
    rc = payload_parse(text, &auth->payload, f);
    if (rc != ERR_OK)
        return rc;
    if (auth->payload.kind == PAYLOAD_CHUNKED_SIGNED ||
        auth->payload.kind == PAYLOAD_CHUNKED_SIGNED_TRAILER)
        return fault_argument(f, "x-amz-content-sha256", text,
                              "Signed chunks need a signed request");
    return ERR_OK;
}

enum err
sigv4_parse(const struct sigv4_request *req, const struct query *q,
            const struct sigv4_opts *opts, struct sigv4_auth *out, struct fault *f)
{
    struct span header;
    bool in_the_query = claims_in_query(q);
    enum err rc = find_authorization(req->headers, &header, f);

    *out = (struct sigv4_auth){
        .kind = SIGV4_ANONYMOUS,
        .skew_s = opts->skew_s > 0 ? opts->skew_s : SIGV4_SKEW_MAX_S,
    };
    if (rc != ERR_OK)
        return rc;
    if (header.len > 0 && in_the_query)
        return fault_argument(f, "Authorization", header,
                              "Only one auth mechanism allowed; only the X-Amz-Algorithm "
                              "query parameter or the Authorization header should be "
                              "specified");
    if (header.len > 0) {
        out->kind = SIGV4_HEADER;
        return sigv4_parse_header(req, header, opts->region, out, f);
    }
    if (in_the_query) {
        out->kind = SIGV4_QUERY;
        return parse_query(req, q, opts->region, out, f);
    }
    if (query_has(q, "Signature") && query_has(q, "AWSAccessKeyId"))
        return not_version_2(f);
    return parse_anonymous(req, out, f);
}

enum err
sigv4_parse_credential(struct span credential, struct span date, struct sigv4_auth *out,
                       struct fault *f)
{
    enum err rc;

    *out = (struct sigv4_auth){.kind = SIGV4_QUERY};
    rc = take_credential(out, credential, (struct span){NULL, 0}, &in_query, f);
    if (rc == ERR_OK && !take_date(out, date))
        rc = fault_argument(f, "X-Amz-Date", date,
                            "X-Amz-Date must be in the ISO8601 Long Format "
                            "\"yyyyMMdd'T'HHmmss'Z'\"");
    return rc == ERR_OK ? check_day(out, &in_query, f) : rc;
}
