/* A request as text: method, path, query, then "name:value" lines. Verified as it is; then signed and
 * presigned by us, which must verify, whatever is in it. */
#include <assert.h>
#include <stdint.h>

#include "base/mem.h"
#include "wire/s3name.h"
#include "wire/sigv4.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NOW_S 1369353600
static const struct span secret = {"secret", 6};

static struct span
take_line(struct span *rest)
{
    const char *end = memchr(rest->at, '\n', rest->len);
    struct span line = {rest->at, end != NULL ? (size_t)(end - rest->at) : rest->len};

    *rest = span_from(*rest, line.len + 1);
    return line;
}

static enum err
verify(const struct sigv4_request *req, const struct query *q, struct arena *a,
       struct sigv4_auth *auth, struct fault *f)
{
    struct sigv4_opts opts = {.region = {NULL, 0}};
    enum err rc = sigv4_parse(req, q, &opts, auth, f);

    if (rc == ERR_OK && auth->kind != SIGV4_ANONYMOUS)
        rc = sigv4_verify(req, q, auth, secret, NULL, NOW_S, a, NULL, f);
    return rc;
}

/* Names that our client would send, and nothing that signing itself adds. */
static bool
is_ours(struct span name)
{
    static const char *const added[] = {"authorization", "x-amz-date",
                                        "x-amz-content-sha256", "x-amz-security-token"};

    for (size_t i = 0; i < ARRAY_LEN(added); i++) {
        if (span_case_is(name, added[i]))
            return false;
    }
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];

        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && c != '-')
            return false;
    }
    return name.len > 0;
}

static bool
claims_something(const struct query *q)
{
    for (size_t i = 0; i < q->count; i++) {
        struct span n = q->at[i].name;

        if (n.len > 6 && strncasecmp(n.at, "x-amz-", 6) == 0)
            return true;
        if (span_is(n, "Signature"))
            return true;
    }
    return q->count + 6 > QUERY_PARAMS_MAX;
}

/* The short way of the next request: it must take what is right as well, and nothing that sigv4_verify() would not. */
static void
check_again(struct sigv4_request req, const struct sigv4_auth *auth, struct span other,
            const struct sigv4_creds *creds, struct arena *a)
{
    const struct query none = {0};
    struct field *own = (struct field *)(uintptr_t)req.headers.at;
    struct sigv4_request next = req, bare = req;
    struct sigv4_template k;
    struct sigv4_auth auth_of_next;
    struct hmac_key key;
    struct sigv4_signed s;
    struct fault f = {0};
    bool right;

    sigv4_key(NULL, secret, auth->day, auth->region, &key);
    if (!sigv4_template_make(&req, auth, &key, a, &k))
        return;
    assert(sigv4_template_verify(&k, req.path, auth->signature, NOW_S));
    assert(
        sigv4_template_verify(&k, req.path, auth->signature, NOW_S + SIGV4_SKEW_MAX_S));
    assert(!sigv4_template_verify(&k, req.path, auth->signature,
                                  NOW_S + SIGV4_SKEW_MAX_S + 1));
    next.path = other;
    right = verify(&next, &none, a, &auth_of_next, &f) == ERR_OK;
    assert(right || !sigv4_template_verify(&k, other, auth->signature, NOW_S));
    /* The lines that signing adds stand last: without them it is signed again, for the other path. */
    bare.path = other;
    bare.headers.count -= 4;
    if (sigv4_sign(&bare, &none, creds, SPAN("UNSIGNED-PAYLOAD"), NULL, NOW_S, a, &s) !=
        ERR_OK)
        return;
    own[req.headers.count - 1] = s.add[s.add_count - 1];
    assert(verify(&next, &none, a, &auth_of_next, &f) == ERR_OK);
    assert(sigv4_template_verify(&k, other, s.signature, NOW_S) ||
           3 * other.len > SIGV4_TEMPLATE_PATH);
}

static void
sign_and_verify(struct sigv4_request req, const struct query *q, struct arena *a)
{
    static const struct sigv4_creds creds = {
        .access_key = {"AK", 2}, .secret = {"secret", 6}, .token = {"t/+", 3}};
    struct field all[32] = {{SPAN("Host"), SPAN("h:9000")}};
    struct fields given = req.headers;
    struct sigv4_signed s;
    struct sigv4_auth auth;
    struct fault f = {0};
    struct query presigned;
    struct span text;
    size_t n = 1;

    for (size_t i = 0; i < given.count && n < 24; i++) {
        if (is_ours(given.at[i].name) && !span_case_is(given.at[i].name, "host"))
            all[n++] = given.at[i];
    }
    req.headers = (struct fields){all, n};
    if (sigv4_sign(&req, q, &creds, SPAN("UNSIGNED-PAYLOAD"), NULL, NOW_S, a, &s) ==
        ERR_OK) {
        for (size_t i = 0; i < s.add_count; i++)
            all[n + i] = s.add[i];
        req.headers.count = n + s.add_count;
        assert(verify(&req, q, a, &auth, &f) == ERR_OK);
        assert(auth.kind == SIGV4_HEADER);
        assert(span_is(auth.token, "t/+"));
        assert(s.add_count == 4);
        if (q->count == 0)
            check_again(req, &auth, given.count > 0 ? given.at[0].value : SPAN("/other"),
                        &creds, a);
    }
    req.headers.count = n;
    if (sigv4_presign(&req, q, &creds, 60, NULL, NOW_S, a, &text) == ERR_OK) {
        assert(query_parse(text, a, &presigned, &f) == ERR_OK);
        assert(verify(&req, &presigned, a, &auth, &f) == ERR_OK);
        assert(auth.kind == SIGV4_QUERY);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span rest = {(const char *)data, size};
    struct field fields[32];
    struct sigv4_request req = {.headers = {fields, 0}};
    struct arena *a = arena_new(4096, (size_t)1 << 22);
    struct sigv4_auth auth;
    struct fault f = {0};
    struct s3_name name;
    struct query q;
    struct span raw_query;

    req.method = take_line(&rest);
    req.path = take_line(&rest);
    raw_query = take_line(&rest);
    while (rest.len > 0 && req.headers.count < ARRAY_LEN(fields)) {
        struct span line = take_line(&rest);
        const char *colon = memchr(line.at, ':', line.len);
        struct span n = {line.at, colon != NULL ? (size_t)(colon - line.at) : line.len};

        fields[req.headers.count++] =
            (struct field){n, span_trim(span_from(line, n.len + 1))};
    }
    if (s3_name_split(req.path, fields_get(req.headers, "host"), NULL, 0, a, &name, &f) ==
        ERR_OK)
        assert(name.key.len <= S3_KEY_MAX);
    if (query_parse(raw_query, a, &q, &f) == ERR_OK) {
        f.code = S3_OK;
        assert((verify(&req, &q, a, &auth, &f) == ERR_OK) == (f.code == S3_OK));
        if (!claims_something(&q))
            sign_and_verify(req, &q, a);
    }
    arena_free(&a);
    return 0;
}
