/* signature_cache: a client that signs as before is admitted faster, and only as long as the gate would admit it. Each request
 * here is sent often enough that its like is remembered. Protects S4. */
#include "base/log.h"
#include "base/metrics.h"
#include "rt/sim.h"
#include "rt/time.h"
#include "unit/api/api_rig.h"
#include "wire/sigv4.h"

#define OFTEN 6

/* A GET signed at now_s; `spoil`: the digit of the signature that is changed, or -1. */
static int
get_at(struct site *s, const struct auth_new_key *who, const char *target, int spoil,
       int64_t now_s)
{
    struct arena *a = arena_new(16384, MIB(1));
    const struct query none = {0};
    char host[32], *value;
    struct field headers[8] = {{SPAN("host"), {host, 0}}};
    struct sigv4_creds creds = {span_of(who->id), span_of(who->secret),
                                span_of(who->token), SPAN("us-east-1")};
    struct sigv4_request req = {.method = SPAN("GET"), .path = span_of(target)};
    struct sigv4_signed sig = {.add_count = 0};
    struct ask ask = {.method = "GET", .target = target};
    struct span *authorization;
    int status;

    headers[0].value.len = (size_t)snprintf(host, sizeof host, "127.0.0.1:%u", s->port);
    req.headers = (struct fields){headers, 1};
    CHECK(sigv4_sign(&req, &none, &creds, SPAN("UNSIGNED-PAYLOAD"), NULL, now_s, a,
                     &sig) == ERR_OK);
    authorization = &sig.add[sig.add_count - 1].value;
    value = arena_alloc(a, authorization->len);
    memcpy(value, authorization->at, authorization->len);
    authorization->at = value;
    if (spoil >= 0) {
        char *digit = &value[authorization->len - SHA256_HEX + (unsigned)spoil];

        *digit = *digit == '0' ? '1' : '0';
    }
    for (size_t i = 0; i < sig.add_count; i++)
        headers[i] = sig.add[i];
    ask.headers = headers;
    ask.header_count = sig.add_count;
    status = site_status(s, &ask);
    arena_free(&a);
    return status;
}

static int
get(struct site *s, const struct auth_new_key *who, const char *target, int spoil)
{
    return get_at(s, who, target, spoil, (int64_t)(rt_wall_ns() / 1000000000u));
}

static void
often(struct site *s, const struct auth_new_key *who, const char *target, int want)
{
    for (int i = 0; i < OFTEN; i++)
        CHECK_U64((unsigned)get(s, who, target, -1), (unsigned)want);
}

static struct auth_new_key
user(struct site *s, const char *name, const char *bucket, const char *prefix)
{
    struct auth_new_key made;

    CHECK(auth_user_add(s->auth, span_of(name), &made, &s->eb) == ERR_OK);
    if (bucket != NULL)
        CHECK(auth_user_grant(s->auth, span_of(name), AUTH_READ, span_of(bucket),
                              span_of(prefix), &s->eb) == ERR_OK);
    return made;
}

static void
a_wrong_signature_is_refused_each_time(struct site *s, const struct auth_new_key *reader)
{
    int64_t kept;

    often(s, reader, "/bkt/a", 200);
    kept = metric_read(M_RESPONSE_CACHE_HITS, 0);
    for (int digit = 0; digit < SHA256_HEX; digit++) {
        CHECK_U64((unsigned)get(s, reader, "/bkt/a", digit), 403);
        CHECK_U64((unsigned)get(s, reader, "/bkt/a", -1), 200);
    }
    CHECK_U64((uint64_t)(metric_read(M_RESPONSE_CACHE_HITS, 0) - kept), SHA256_HEX);
}

/* All claim the same times and lines but for their key: none gets another's answer. */
static void
rights_are_each_ones_own(struct site *s, const struct auth_new_key *reader)
{
    struct auth_new_key stranger = user(s, "stranger", NULL, NULL);
    struct auth_new_key narrow = user(s, "narrow", "bkt", "b/");
    struct auth_new_key forger = *reader;

    forger.secret[0] ^= 1;
    for (int i = 0; i < OFTEN; i++) {
        CHECK_U64((unsigned)get(s, reader, "/bkt/a", -1), 200);
        CHECK_U64((unsigned)get(s, &stranger, "/bkt/a", -1), 403);
        CHECK_U64((unsigned)get(s, &narrow, "/bkt/a", -1), 403);
        CHECK_U64((unsigned)get(s, &narrow, "/bkt/b/1", -1), 200);
        CHECK_U64((unsigned)get(s, &forger, "/bkt/a", -1), 403);
        CHECK_U64((unsigned)get(s, reader, "/bkt/b/1", -1), 200);
        CHECK_U64((unsigned)get(s, reader, "/other/a", -1), 403);
    }
}

static void
what_was_taken_away_is_gone_at_once(struct site *s, const struct auth_new_key *reader)
{
    struct span name = SPAN("reader"), bucket = SPAN("bkt"), none = {"", 0};
    struct auth_new_key fresh;

    often(s, reader, "/bkt/a", 200);
    CHECK(auth_user_revoke(s->auth, name, AUTH_READ, bucket, none, &s->eb) == ERR_OK);
    often(s, reader, "/bkt/a", 403);
    CHECK(auth_user_grant(s->auth, name, AUTH_READ, bucket, none, &s->eb) == ERR_OK);
    often(s, reader, "/bkt/a", 200);
    CHECK(auth_user_rotate(s->auth, name, 0, &fresh, &s->eb) == ERR_OK);
    often(s, reader, "/bkt/a", 403);
    often(s, &fresh, "/bkt/a", 200);
    CHECK(auth_user_remove(s->auth, name, &s->eb) == ERR_OK);
    often(s, &fresh, "/bkt/a", 403);
}

static void
a_temporary_key_ends(struct site *s)
{
    struct auth_new_key made, without;

    (void)user(s, "guest", "bkt", "");
    CHECK(auth_user_temporary(s->auth, SPAN("guest"), 3000, &made, &s->eb) == ERR_OK);
    without = made;
    without.token[0] = '\0';
    often(s, &made, "/bkt/a", 200);
    often(s, &without, "/bkt/a", 403);
    CHECK(rt_sleep_until((struct deadline){rt_now_ns() + UINT64_C(3100000000)}) ==
          ERR_OK);
    often(s, &made, "/bkt/a", 400);
}

/* A date at the edge of what counts, remembered, and then beyond it: the same lines, refused. */
static void
an_old_date_counts_no_longer(struct site *s)
{
    struct auth_new_key late = user(s, "late", "bkt", "");
    int64_t now_s = (int64_t)(rt_wall_ns() / 1000000000u), date_s = now_s - 898;

    for (int i = 0; i < OFTEN; i++)
        CHECK_U64((unsigned)get_at(s, &late, "/bkt/a", -1, date_s), 200);
    CHECK(rt_sleep_until((struct deadline){rt_now_ns() + UINT64_C(4000000000)}) ==
          ERR_OK);
    for (int i = 0; i < OFTEN; i++)
        CHECK_U64((unsigned)get_at(s, &late, "/bkt/a", -1, date_s), 403);
}

static void
put(struct site *s, const char *target, const char *body)
{
    struct ask q = {.method = "PUT", .target = target, .body = span_of(body)};

    CHECK_U64((unsigned)site_status(s, &q), 200);
}

static void
open_world(void *arg)
{
    struct site s = {.path = "/node", .block_cache_bytes = MIB(8)};
    struct auth_new_key reader;

    (void)arg;
    REQUIRE(site_open(&s) == ERR_OK);
    put(&s, "/bkt", "");
    put(&s, "/other", "");
    put(&s, "/bkt/a", "a");
    put(&s, "/bkt/b/1", "b");
    put(&s, "/other/a", "c");
    reader = user(&s, "reader", "bkt", "");
    a_wrong_signature_is_refused_each_time(&s, &reader);
    rights_are_each_ones_own(&s, &reader);
    what_was_taken_away_is_gone_at_once(&s, &reader);
    an_old_date_counts_no_longer(&s);
    a_temporary_key_ends(&s);
    site_close(&s);
}

/* Virtual time: waiting for a key to end costs nothing, and no machine is too slow for it. */
static void
test_only_as_long_as_the_gate_would(void)
{
    struct sim_options o = {.seed = 1, .calm = true, .max_delay_us = 100};
    struct sim *sim = sim_new(&o);
    struct errbuf eb = {{0}};

    CHECK(sim_run_world(sim, open_world, NULL, &eb) == ERR_OK);
    sim_free(&sim);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
    RUN(test_only_as_long_as_the_gate_would);
    return check_done();
}
