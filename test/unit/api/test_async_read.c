/* once: small objects that are read from the disk with no fiber waiting are the same objects, for the same people, with the
 * same head. Protects V1, V2, V3, S4. */
#include <fcntl.h>
#include <glob.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/metrics.h"
#include "folder.h"
#include "rt/file.h"
#include "rt/test_hooks.h"
#include "unit/api/api_rig.h"

static char folder[] = "/tmp/fb-once-XXXXXX";

static int64_t
read_once(void)
{
    return metric_read(M_ASYNC_READS, 0);
}

static int
ask(struct site *s, const char *method, const char *target, const char *body)
{
    struct ask q = {.method = method, .target = target};

    if (body != NULL)
        q.body = span_of(body);
    return site_status(s, &q);
}

static void
reads(struct site *s, const char *target, int want, const char *body)
{
    struct ask q = {.method = "GET", .target = target};
    struct buf out;

    CHECK_U64((unsigned)site_ask(s, &q, &out), (unsigned)want);
    if (body != NULL)
        CHECK(span_is(buf_span(&out), body));
    buf_fini(&out);
}

/* From the third on its head is known by its bytes. */
static void
make_known(struct site *s)
{
    CHECK_U64((unsigned)ask(s, "PUT", "/bkt/known", "x"), 200);
    for (int i = 0; i < 4; i++)
        reads(s, "/bkt/known", 200, "x");
}

static void
each_read_of_a_small_object(struct site *s)
{
    int64_t before;

    make_known(s);
    before = read_once();
    for (int i = 0; i < 10; i++)
        reads(s, "/bkt/known", 200, "x");
    CHECK_U64((uint64_t)(read_once() - before), 10);
}

static void
what_changes_is_seen(struct site *s)
{
    for (int i = 0; i < 20; i++) {
        char body[32];

        snprintf(body, sizeof body, "body %d", i);
        CHECK_U64((unsigned)ask(s, "PUT", "/bkt/known", body), 200);
        for (int j = 0; j < 3; j++)
            reads(s, "/bkt/known", 200, body);
    }
    CHECK_U64((unsigned)ask(s, "DELETE", "/bkt/known", NULL), 204);
    reads(s, "/bkt/known", 404, NULL);
    reads(s, "/nowhere/known", 404, NULL);
}

/* How many of these went without a fiber. */
static int64_t
of_three(struct site *s, const char *target, int want, const char *body)
{
    int64_t before = read_once();

    for (int i = 0; i < 3; i++)
        reads(s, target, want, body);
    return read_once() - before;
}

/* The rest of what a socket does not take at once is a fiber's. */
static void
as_well_when_larger(struct site *s)
{
    static const size_t sizes[] = {16000, 66000, 100000, 262144};

    make_known(s);
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        char *body = xmalloc(sizes[i] + 1);

        memset(body, 'a' + (int)i, sizes[i]);
        body[sizes[i]] = '\0';
        CHECK_U64((unsigned)ask(s, "PUT", "/bkt/large", body), 200);
        CHECK_U64((uint64_t)of_three(s, "/bkt/large", 200, body), 3);
        free(body);
    }
}

static void
what_is_unusual_goes_the_long_way(struct site *s)
{
    struct field type = {SPAN("content-type"), SPAN("text/plain")},
                 range = {SPAN("Range"), SPAN("bytes=0-0")};
    struct ask put = {.method = "PUT",
                      .target = "/bkt/typed",
                      .body = SPAN("typed"),
                      .headers = &type,
                      .header_count = 1},
               part = {.method = "GET",
                       .target = "/bkt/known",
                       .headers = &range,
                       .header_count = 1};
    char *big = xmalloc(300001); /* one that has a body of its own; others lie in a log */

    make_known(s);
    memset(big, 'b', 300000);
    big[300000] = '\0';
    CHECK_U64((unsigned)site_status(s, &put), 200);
    CHECK_U64((uint64_t)of_three(s, "/bkt/typed", 200, "typed"), 0);
    CHECK_U64((unsigned)ask(s, "PUT", "/bkt/big", big), 200);
    CHECK_U64((uint64_t)of_three(s, "/bkt/big", 200, big), 0);
    CHECK_U64((unsigned)ask(s, "PUT", "/bkt/empty", ""), 200);
    CHECK_U64((uint64_t)of_three(s, "/bkt/empty", 200, ""), 0);
    CHECK_U64((uint64_t)of_three(s, "/bkt/known?response-content-type=a", 200, "x"), 0);
    CHECK_U64((uint64_t)of_three(s, "/bkt/%6bnown", 200, "x"), 3);
    CHECK_U64((uint64_t)of_three(s, "/_/livez", 200, NULL), 0);
    CHECK_U64((unsigned)site_status(s, &part), 206);
    free(big);
}

/* Turns a bit of `text` round wherever it stands in a log. */
static void
spoil(const char *text)
{
    char pattern[128], *bytes = xmalloc(MIB(1));
    glob_t found;

    snprintf(pattern, sizeof pattern, "%s/native/log-*.tar", folder);
    REQUIRE(glob(pattern, 0, NULL, &found) == 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        int fd = open(found.gl_pathv[i], O_RDWR | O_CLOEXEC);
        ssize_t n = pread(fd, bytes, MIB(1), 0);
        char *at = n > 0 ? memmem(bytes, (size_t)n, text, strlen(text)) : NULL;

        if (at != NULL) {
            *at ^= 1;
            CHECK(pwrite(fd, at, 1, at - bytes) == 1);
            CHECK(fsync(fd) == 0);
        }
        close(fd);
    }
    globfree(&found);
    free(bytes);
}

static void
damage_is_never_sent(struct site *s)
{
    static const char body[] = "a body that nothing else looks like";
    int64_t failures, once;

    CHECK_U64((unsigned)ask(s, "PUT", "/bkt/spoilt", body), 200);
    CHECK_U64((uint64_t)of_three(s, "/bkt/spoilt", 200, body), 3);
    spoil(body);
    failures = metric_read(M_CHECKSUM_FAILURES, 0);
    once = read_once();
    for (int i = 0; i < 3; i++)
        CHECK_U64((unsigned)ask(s, "GET", "/bkt/spoilt", NULL), 500);
    CHECK_U64((uint64_t)(metric_read(M_CHECKSUM_FAILURES, 0) - failures), 3);
    CHECK_U64((uint64_t)(read_once() - once), 0);
    reads(s, "/bkt/known", 200, "x");
}

#ifdef FB_TEST_HOOKS

static int late_status;

static void
ask_known(void *site)
{
    struct site *s = site;
    struct ask q = {.method = "GET", .target = "/bkt/known"};
    struct buf out;

    late_status = site_ask(s, &q, &out);
    buf_fini(&out);
}

/* The answer would be 200 if anybody had waited for the disk. */
static void
a_disk_that_hangs_does_not_hold_up_the_end(struct site *s)
{
    struct rt_test_io *io = rt_test_io();
    uint64_t before = atomic_load(&io->seen);
    struct rt_group asking;

    make_known(s);
    late_status = -1;
    io->delay_us = 2000000;
    io->count = UINT64_MAX;
    io->kinds = 1u << RT_IO_READ;
    rt_group_begin(&asking);
    REQUIRE(rt_group_start(&asking, ask_known, s) == ERR_OK);
    while (atomic_load(&io->seen) == before)
        REQUIRE(rt_sleep_ms(1) == ERR_OK);
    http_server_stop(&s->server);
    rt_group_join(&asking);
    CHECK(late_status == 0);
    io->kinds = 0;
    io->delay_us = 0;
    io->count = 0;
}

#endif

static void
without_memory(void *arg)
{
    struct site s = {.path = folder};

    (void)arg;
    REQUIRE(site_open(&s) == ERR_OK);
    CHECK_U64((unsigned)ask(&s, "PUT", "/bkt", ""), 200);
    each_read_of_a_small_object(&s);
    what_changes_is_seen(&s);
    as_well_when_larger(&s);
    what_is_unusual_goes_the_long_way(&s);
    damage_is_never_sent(&s);
#ifdef FB_TEST_HOOKS
    a_disk_that_hangs_does_not_hold_up_the_end(&s);
#endif
    site_close(&s);
}

/* The first read and the second are from the disk; then it is in memory, and its head is kept. */
static void
with_memory(void *arg)
{
    struct site s = {.path = folder, .epoch = 1, .block_cache_bytes = MIB(8)};
    int64_t kept;

    (void)arg;
    REQUIRE(site_open(&s) == ERR_OK);
    make_known(&s);
    CHECK_U64((unsigned)ask(&s, "PUT", "/bkt/again", "read again"), 200);
    CHECK_U64((uint64_t)of_three(&s, "/bkt/again", 200, "read again"), 2);
    kept = metric_read(M_RESPONSE_CACHE_HITS, 0);
    CHECK_U64((uint64_t)of_three(&s, "/bkt/again", 200, "read again"), 0);
    CHECK_U64((uint64_t)(metric_read(M_RESPONSE_CACHE_HITS, 0) - kept), 3);
    site_close(&s);
}

/* Who has no key gets nothing, whatever was read before. */
static void
behind_the_gate(void *arg)
{
    struct site s = {.path = folder, .epoch = 2, .auth_required = true};

    (void)arg;
    REQUIRE(site_open(&s) == ERR_OK);
    CHECK_U64((uint64_t)of_three(&s, "/bkt/known", 403, NULL), 0);
    site_close(&s);
}

static void
test_small_objects_without_a_fiber(void)
{
    static const enum rt_engine engines[] = {RT_EPOLL, RT_URING};
    struct errbuf eb = {{0}};

    for (size_t i = 0; i < ARRAY_LEN(engines); i++) {
        struct rt_options o = {.engine = engines[i], .loops = 1};

        memcpy(folder + strlen(folder) - 6, "XXXXXX", 6);
        REQUIRE(mkdtemp(folder) != NULL);
        if (rt_run(&o, without_memory, NULL, &eb) == ERR_OK) {
            CHECK(rt_run(&o, with_memory, NULL, &eb) == ERR_OK);
            CHECK(rt_run(&o, behind_the_gate, NULL, &eb) == ERR_OK);
        } else {
            CHECK(engines[i] == RT_URING); /* not to be had here */
        }
        folder_remove(folder);
    }
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
    RUN(test_small_objects_without_a_fiber);
    return check_done();
}
