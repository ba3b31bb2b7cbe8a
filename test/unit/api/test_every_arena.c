/* Each piece of an arena that a request asks for, whose size its sender chose, is refused once: one request after the other,
 * first its first piece, then its second, until none of it is left. No crash, no leak (ASan sees, and the
 * account of arenas), an answer that says 503 or names what was too large, nothing half-done, and the same request is served right behind it. Signed
 * requests, so that what the gate reads is in it. Protects F8, D14. */
#include "base/account.h"
#include "base/log.h"
#include "rt/sim.h"
#include "rt/time.h"
#include "unit/api/api_rig.h"
#include "wire/sigv4.h"

#define TRIES_MOST 3000u /* that one request may have; no request here needs more */

struct step {
    const char *method, *target, *body; /* NULL: none */
    int want;
    const char *says; /* in the answer's body; NULL: nothing is looked for */
    const char *name, *value, *other, *worth; /* headers; NULL: none */
};

/* In this order. A step that is served twice must answer the same: its faults are found one by one. */
static const struct step steps[] = {
    {.method = "PUT",
     .target = "/made/a",
     .body = "hello",
     .want = 200,
     .name = "x-amz-meta-who",
     .value = "me",
     .other = "x-amz-tagging",
     .worth = "k=v&l=w"},
    {.method = "PUT",
     .target = "/made/dir/b%20c",
     .body = "world",
     .want = 200,
     .name = "x-amz-meta-more",
     .value = "some"},
    {.method = "GET",
     .target = "/made/a",
     .want = 200,
     .says = "hello",
     .name = "if-none-match",
     .value = "\"x\", \"y\""},
    {.method = "HEAD", .target = "/made/dir/b%20c", .want = 200},
    {.method = "GET",
     .target = "/made/a?tagging",
     .want = 200,
     .says = "<Value>w</Value>"},
    {.method = "PUT",
     .target = "/made/a?tagging",
     .body =
         "<Tagging><TagSet><Tag><Key>k</Key><Value>w</Value></Tag></TagSet></Tagging>",
     .want = 200},
    {.method = "GET",
     .target = "/made/a?attributes",
     .want = 200,
     .says = "ObjectSize",
     .name = "x-amz-object-attributes",
     .value = "ETag,ObjectSize"},
    {.method = "PUT",
     .target = "/made/copy",
     .want = 200,
     .says = "CopyObjectResult",
     .name = "x-amz-copy-source",
     .value = "/made/dir/b%20c"},
    {.method = "GET",
     .target = "/made?list-type=2&prefix=&encoding-type=url",
     .want = 200,
     .says = "<Key>copy</Key>"},
    {.method = "GET",
     .target = "/made?delimiter=%2F&max-keys=2",
     .want = 200,
     .says = "<Key>a</Key>"},
    {.method = "GET", .target = "/made?versions", .want = 200, .says = "<Key>a</Key>"},
    {.method = "GET", .target = "/", .want = 200, .says = "<Name>made</Name>"},
    {.method = "POST",
     .target = "/made/parts?uploads",
     .body = "",
     .want = 200,
     .says = "UploadId",
     .name = "x-amz-meta-who",
     .value = "me"},
    {.method = "GET",
     .target = "/made?uploads&prefix=par",
     .want = 200,
     .says = "<Key>parts</Key>"},
    {.method = "POST",
     .target = "/made?delete",
     .body = "<Delete><Object><Key>copy</Key></Object><Object><Key>none</Key></Object></"
             "Delete>",
     .want = 200,
     .says = "<Key>copy</Key>",
     .name = "content-md5",
     .value = "UmnPNELYyL+vp/06a7J8kg=="},
    {.method = "DELETE", .target = "/made/dir/b%20c", .want = 204},
};

struct world {
    struct site site;
    struct auth_new_key who;
    uint64_t refused; /* over all steps */
};

/* The signature is made before anything is refused. */
static int
send_signed(struct world *w, const struct step *t, uint64_t refuse, uint64_t *tries,
            struct buf *out)
{
    struct arena *a = arena_new(16384, MIB(1));
    struct query query = {0};
    struct fault fault = {0};
    char host[32], *path = arena_strdup(a, span_of(t->target)), *mark = strchr(path, '?');
    struct field headers[10] = {{SPAN("host"), {host, 0}}};
    struct sigv4_creds creds = {span_of(w->who.id), span_of(w->who.secret),
                                span_of(w->who.token), SPAN("us-east-1")};
    struct sigv4_request req = {.method = span_of(t->method)};
    struct sigv4_signed sig = {.add_count = 0};
    struct ask ask = {.method = t->method, .target = t->target};
    size_t n = 1;
    int status;

    if (mark != NULL) {
        *mark = '\0';
        CHECK(query_parse(span_of(mark + 1), a, &query, &fault) == ERR_OK);
    }
    req.path = span_of(path);
    headers[0].value.len =
        (size_t)snprintf(host, sizeof host, "127.0.0.1:%u", w->site.port);
    if (t->name != NULL)
        headers[n++] = (struct field){span_of(t->name), span_of(t->value)};
    if (t->other != NULL)
        headers[n++] = (struct field){span_of(t->other), span_of(t->worth)};
    req.headers = (struct fields){headers, n};
    CHECK(sigv4_sign(&req, &query, &creds, SPAN("UNSIGNED-PAYLOAD"), NULL,
                     (int64_t)(rt_wall_ns() / 1000000000u), a, &sig) == ERR_OK);
    for (size_t i = 0; i < sig.add_count; i++)
        headers[n++] = sig.add[i];
    CHECK(n <= ARRAY_LEN(headers));
    ask.headers = headers + 1; /* but for the host, which is the client's */
    ask.header_count = n - 1;
    ask.body = t->body != NULL ? span_of(t->body) : (struct span){NULL, 0};
    arena_test_refuse(refuse);
    status = site_ask(&w->site, &ask, out);
    *tries = arena_test_tries();
    arena_test_refuse(0);
    arena_free(&a);
    return status;
}

static void
check_served(const struct step *t, int status, const struct buf *out)
{
    CHECK_U64((unsigned)status, (unsigned)t->want);
    if (t->says != NULL && strstr(out->at, t->says) == NULL) {
        fprintf(stderr, "%s\n", out->at);
        CHECK_STR("the answer does not say", t->says);
    }
}

/* "Come again", or "that was too large": an arena has the limit of one request. */
static bool
is_clear(const struct step *t, int status, const struct buf *out)
{
    static const char *const codes[] = {"SlowDown", "ServiceUnavailable",
                                        "RequestHeaderSectionTooLarge",
                                        "MaxMessageLengthExceeded"};
    bool named = strcmp(t->method, "HEAD") == 0;

    for (size_t i = 0; i < ARRAY_LEN(codes); i++)
        named = named || strstr(out->at, codes[i]) != NULL;
    return named && (status == 503 || status == 400);
}

/* True: something was refused, or may have been. */
static bool
refuse_one(struct world *w, const struct step *t, uint64_t nth)
{
    uint64_t tries;
    struct buf out;
    int status = send_signed(w, t, nth, &tries, &out);

    if (status == t->want) {
        check_served(t, status, &out);
    } else {
        w->refused++;
        if (!is_clear(t, status, &out)) {
            fprintf(stderr, "%s\n", out.at);
            CHECK_U64((unsigned)status, 503);
        }
    }
    buf_fini(&out);
    return tries >= nth;
}

static void
each_of(struct world *w, const struct step *t)
{
    uint64_t tries, refused = w->refused, nth = 1;
    struct buf out;

    for (; nth <= TRIES_MOST; nth++) {
        unsigned before = check_failures_;
        bool more = refuse_one(w, t, nth);

        if (check_failures_ != before)
            fprintf(stderr, "  ... %s %s, piece %u\n", t->method, t->target,
                    (unsigned)nth);
        if (!more)
            break;
    }
    CHECK(nth <= TRIES_MOST);
    check_served(t, send_signed(w, t, 0, &tries, &out), &out);
    buf_fini(&out);
    printf("%-7s%-50s %3u pieces, %3u times refused\n", t->method, t->target,
           (unsigned)(nth - 1), (unsigned)(w->refused - refused));
}

static void
a_world(void *arg)
{
    struct world *w = arg;
    struct ask make = {.method = "PUT", .target = "/made", .body = {"", 0}};

    REQUIRE(site_open(&w->site) == ERR_OK);
    CHECK_U64((unsigned)site_status(&w->site, &make), 200);
    REQUIRE(auth_user_add(w->site.auth, SPAN("one"), &w->who, &w->site.eb) == ERR_OK);
    REQUIRE(auth_user_grant(w->site.auth, SPAN("one"), AUTH_ALL, SPAN("*"), SPAN(""),
                            &w->site.eb) == ERR_OK);
    for (size_t i = 0; i < ARRAY_LEN(steps); i++)
        each_of(w, &steps[i]);
    CHECK(w->refused > 5 * ARRAY_LEN(steps));
    site_close(&w->site);
}

static void
test_every_piece_of_an_arena(void)
{
    struct sim_options o = {.seed = 1, .calm = true, .max_delay_us = 100};
    struct sim *sim = sim_new(&o);
    struct world w = {.site = {.path = "/disk", .http_options = {.linger_ms = 100}}};
    struct errbuf eb = {{0}};

    CHECK(sim_run_world(sim, a_world, &w, &eb) == ERR_OK);
    CHECK_U64(account_of(ACCOUNT_ARENAS), 0);
    sim_free(&sim);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
    RUN(test_every_piece_of_an_arena);
    return check_done();
}
