/* A request signed like one that passed: the short way says yes exactly when the long way does. */
#include "unit/wire/sigv4_rig.h"

#define AGAIN_PATH "/bucket/a%20key"
static struct field again_lines[8];

/* Signed by us for `path` at NOW_S; the last line is the Authorization. */
static struct sigv4_request
signed_for(const char *path, struct span host_signed)
{
    static const struct sigv4_creds mine = {.access_key = {AKID, sizeof AKID - 1},
                                            .secret = {SECRET, sizeof SECRET - 1}};
    const struct query none = {0};
    struct sigv4_request req = {.method = SPAN("GET"), .path = span_of(path)};
    struct sigv4_signed s;

    again_lines[0] = (struct field){SPAN("host"), host_signed};
    req.headers = (struct fields){again_lines, 1};
    CHECK(sigv4_sign(&req, &none, &mine, SPAN(EMPTY), NULL, NOW_S, arena, &s) == ERR_OK);
    for (size_t i = 0; i < s.add_count; i++)
        again_lines[1 + i] = s.add[i];
    again_lines[0].value = SPAN(HOST);
    req.headers.count = 1 + s.add_count;
    return req;
}

static enum err
verify_template(const struct sigv4_request *req, int64_t now_s)
{
    const struct query none = {0};
    struct sigv4_opts opts = {.region = {NULL, 0}};
    enum err rc;

    memset(&fault, 0, sizeof fault);
    rc = sigv4_parse(req, &none, &opts, &auth, &fault);
    return rc != ERR_OK ? rc
                        : sigv4_verify(req, &none, &auth, SPAN(SECRET), NULL, now_s,
                                       arena, NULL, &fault);
}

static bool
kept(const struct sigv4_request *req, struct sigv4_template *k)
{
    struct hmac_key key;

    CHECK(verify_template(req, NOW_S) == ERR_OK);
    sigv4_key(NULL, SPAN(SECRET), auth.day, auth.region, &key);
    return sigv4_template_make(req, &auth, &key, arena, k);
}

/* Every other path, signature and time: the short way says yes exactly when the long way does. */
static void
test_again_is_as_strict(void)
{
    static const char *const paths[] = {AGAIN_PATH,
                                        "/bucket/a%20ke",
                                        "/bucket/a%20key/",
                                        "/bucket/a key",
                                        "/bucket/a+key",
                                        "/Bucket/a%20key",
                                        "/",
                                        "",
                                        "//bucket/a%20key",
                                        "/bucket/%61%20key",
                                        "/bucket/a%2520key",
                                        "/bucket/a%20key%00"};
    static const int64_t times[] = {NOW_S,       NOW_S - 900, NOW_S + 900,
                                    NOW_S - 901, NOW_S + 901, NOW_S + 86400};
    struct sigv4_template k;
    unsigned yes = 0;

    arena_reset(arena);
    for (size_t of = 0; of < ARRAY_LEN(paths); of++) {
        struct sigv4_request req = signed_for(AGAIN_PATH, SPAN(HOST));

        REQUIRE(kept(&req, &k));
        req = signed_for(paths[of], SPAN(HOST));
        for (size_t as = 0; as < ARRAY_LEN(paths); as++)
            for (size_t t = 0; t < ARRAY_LEN(times); t++) {
                bool right, again;

                req.path = span_of(paths[as]);
                right = verify_template(&req, times[t]) == ERR_OK;
                again = sigv4_template_verify(&k, req.path, auth.signature, times[t]);
                CHECK(again == right);
                yes += again;
                arena_reset(arena);
                req = signed_for(paths[of], SPAN(HOST));
            }
    }
    CHECK(yes > ARRAY_LEN(paths)); /* some are the same path, written otherwise */
}

static void
test_again_every_digit_counts(void)
{
    struct sigv4_request req;
    struct sigv4_template k;
    char digits[SHA256_HEX];

    arena_reset(arena);
    req = signed_for(AGAIN_PATH, SPAN(HOST));
    REQUIRE(kept(&req, &k));
    for (size_t i = 0; i < SHA256_HEX; i++) {
        memcpy(digits, auth.signature.at, SHA256_HEX);
        digits[i] = digits[i] == '0' ? '1' : '0';
        CHECK(!sigv4_template_verify(&k, req.path, (struct span){digits, SHA256_HEX},
                                     NOW_S));
        digits[i] = 'g';
        CHECK(!sigv4_template_verify(&k, req.path, (struct span){digits, SHA256_HEX},
                                     NOW_S));
    }
    CHECK(!sigv4_template_verify(&k, req.path, span_from(auth.signature, 2), NOW_S));
    CHECK(sigv4_template_verify(&k, req.path, auth.signature, NOW_S));
}

/* What is right in another reading only, by the scheme's port, is for the long way each time. */
static void
test_again_wants_the_plain_reading(void)
{
    struct sigv4_request req;
    struct sigv4_template k;

    arena_reset(arena);
    req = signed_for(AGAIN_PATH, SPAN(HOST ":80"));
    CHECK(!kept(&req, &k));
    CHECK(k.text_len == 0);
    CHECK(!sigv4_template_verify(&k, req.path, auth.signature, NOW_S));
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    arena = arena_new(4096, 1 << 20);
    RUN(test_again_is_as_strict);
    RUN(test_again_every_digit_counts);
    RUN(test_again_wants_the_plain_reading);
    arena_free(&arena);
    return check_done();
}
