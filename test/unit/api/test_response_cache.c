/* answers: what is kept of a small hot object is served as long as it is true, and never after. Protects V2, V3, S4. */
#include <unistd.h>

#include "base/log.h"
#include "base/metrics.h"
#include "folder.h"
#include "unit/api/api_rig.h"

static char folder[] = "/tmp/fb-answers-XXXXXX";

static int64_t
kept_answers(void)
{
    return metric_read(M_RESPONSE_CACHE_HITS, 0);
}

static int
ask(struct site *s, const char *method, const char *target, const char *body,
    struct buf *out)
{
    struct ask q = {.method = method, .target = target, .body = span_of(body)};

    if (body == NULL)
        q.body = (struct span){NULL, 0};
    return site_ask(s, &q, out);
}

static void
do_200(struct site *s, const char *method, const char *target, const char *body)
{
    struct buf out;
    int status = ask(s, method, target, body, &out);

    CHECK(status == 200 || status == 204);
    buf_fini(&out);
}

static void
reads(struct site *s, const char *target, int want, const char *body)
{
    struct buf out;

    CHECK_U64((unsigned)ask(s, "GET", target, NULL, &out), (unsigned)want);
    if (body != NULL)
        CHECK(span_is(buf_span(&out), body));
    buf_fini(&out);
}

/* Until the next GET of it is served from what was kept. */
static void
warm(struct site *s, const char *target, const char *body)
{
    for (int i = 0; i < 4; i++)
        reads(s, target, 200, body);
}

/* How many answers a GET with this header took from what was kept. */
static int64_t
with_header(struct site *s, const char *name, const char *value, int want,
            const char *body)
{
    struct field header = {.name = span_of(name), .value = span_of(value)};
    struct ask q = {
        .method = "GET", .target = "/bkt/a", .headers = &header, .header_count = 1};
    struct buf out;
    int64_t before = kept_answers();

    CHECK_U64((unsigned)site_ask(s, &q, &out), (unsigned)want);
    CHECK(span_is(buf_span(&out), body));
    buf_fini(&out);
    return kept_answers() - before;
}

static void
what_is_read_again_is_kept(struct site *s)
{
    int64_t before;

    do_200(s, "PUT", "/bkt/a", "first");
    warm(s, "/bkt/a", "first");
    before = kept_answers();
    for (int i = 0; i < 10; i++)
        reads(s, "/bkt/a", 200, "first");
    CHECK_U64((uint64_t)(kept_answers() - before), 10);
}

static void
what_the_head_asks_for_is_heard(struct site *s)
{
    struct ask other = {.method = "GET", .target = "/bkt/a"};

    CHECK_U64((uint64_t)(with_header(s, "User-Agent", "curl/7", 200, "first")), 1);
    CHECK_U64((uint64_t)(with_header(s, "Range", "bytes=1-2", 206, "ir")), 0);
    CHECK_U64((uint64_t)(with_header(s, "If-None-Match", "*", 304, "")), 0);
    CHECK_U64((uint64_t)(with_header(s, "x-amz-checksum-mode", "ENABLED", 200, "first")),
              0);
    CHECK_U64((uint64_t)(with_header(s, "x-unknown", "1", 200, "first")), 0);
    reads(s, "/bkt/a?response-content-type=text%2Fplain", 200, "first");
    other.host = "other.example";
    CHECK_U64((unsigned)site_status(s, &other), 403);
}

static void
a_change_is_seen_at_once(struct site *s)
{
    for (int i = 0; i < 20; i++) {
        char body[32];

        snprintf(body, sizeof body, "body %d", i);
        do_200(s, "PUT", "/bkt/a", body);
        warm(s, "/bkt/a", body);
    }
    do_200(s, "DELETE", "/bkt/a", NULL);
    reads(s, "/bkt/a", 404, NULL);
    do_200(s, "PUT", "/bkt/a", "back");
    reads(s, "/bkt/a", 200, "back");
}

static void
a_bucket_of_the_same_name_is_another(struct site *s)
{
    do_200(s, "PUT", "/gone", "");
    do_200(s, "PUT", "/gone/a", "old");
    warm(s, "/gone/a", "old");
    do_200(s, "DELETE", "/gone/a", NULL);
    do_200(s, "DELETE", "/gone", NULL);
    reads(s, "/gone/a", 404, NULL);
    do_200(s, "PUT", "/gone", "");
    reads(s, "/gone/a", 404, NULL);
}

/* Of several pieces: all of them, or the long way. */
static void
a_large_one_is_kept(struct site *s)
{
    enum { LARGE = 700000 };
    char *body = xmalloc(LARGE + 1);

    body[LARGE] = '\0';
    for (char fill = 'a'; fill < 'd'; fill++) {
        int64_t before;

        for (size_t i = 0; i < LARGE; i++)
            body[i] = (char)(fill + (int)(i % 251 % 23));
        do_200(s, "PUT", "/bkt/large", body);
        warm(s, "/bkt/large", body);
        before = kept_answers();
        for (int i = 0; i < 5; i++)
            reads(s, "/bkt/large", 200, body);
        CHECK_U64((uint64_t)(kept_answers() - before), 5);
    }
    do_200(s, "DELETE", "/bkt/large", NULL);
    reads(s, "/bkt/large", 404, NULL);
    free(body);
}

/* More objects than a table has places: the least that must hold is that each body is its own. */
static void
many_share_the_places(struct site *s)
{
    enum { MANY = 3000 };
    char target[32], body[32];
    int64_t before;

    for (int i = 0; i < MANY; i++) {
        snprintf(target, sizeof target, "/bkt/many/%d", i);
        snprintf(body, sizeof body, "number %d", i);
        do_200(s, "PUT", target, body);
    }
    before = kept_answers();
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < MANY; i++) {
            snprintf(target, sizeof target, "/bkt/many/%d", i);
            snprintf(body, sizeof body, "number %d", i);
            reads(s, target, 200, body);
        }
    }
    CHECK(kept_answers() > before);
}

static void
open_world(void *arg)
{
    struct site s = {.path = folder, .block_cache_bytes = MIB(8)};

    (void)arg;
    REQUIRE(site_open(&s) == ERR_OK);
    do_200(&s, "PUT", "/bkt", "");
    what_is_read_again_is_kept(&s);
    what_the_head_asks_for_is_heard(&s);
    a_change_is_seen_at_once(&s);
    a_large_one_is_kept(&s);
    a_bucket_of_the_same_name_is_another(&s);
    many_share_the_places(&s);
    site_close(&s);
}

static void
test_kept_answers_are_true(void)
{
    struct rt_options o = {.engine = RT_EPOLL, .loops = 1};
    struct errbuf eb = {{0}};

    REQUIRE(mkdtemp(folder) != NULL);
    CHECK(rt_run(&o, open_world, NULL, &eb) == ERR_OK);
    folder_remove(folder);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
    RUN(test_kept_answers_are_true);
    return check_done();
}
