/* ais_archives: an archive is replaced or deleted at each point between its look-up and its commit. The append says 409 and
 * changes nothing; it never says 404 of what it may create. A read returns one whole version. */
#include <unistd.h>

#include "base/log.h"
#include "folder.h"
#include "rt/test_hooks.h"
#include "unit/api/api_rig.h"

static char folder[32];

static int
send_member(struct site *s, const char *target, const char *body, const char *pine)
{
    struct field headers[] = {{SPAN("ais-pine"), span_of(pine)}};

    return site_status(s, &(struct ask){.method = "PUT",
                                        .target = target,
                                        .body = span_of(body),
                                        .headers = headers,
                                        .header_count = 1});
}

#ifdef FB_TEST_HOOKS
/* ---- what another client does at a point ---- */

static struct {
    struct site *site; /* NULL: done */
    enum point at;
    const char *archive;
    bool deletes;
} meanwhile;

static void
replace_archive(enum point p)
{
    struct site *s = meanwhile.site;
    char target[96];

    if (s == NULL || p != meanwhile.at)
        return;
    meanwhile.site = NULL;
    snprintf(target, sizeof target, "/v1/objects/bkt/%s%s", meanwhile.archive,
             meanwhile.deletes ? "" : "?archpath=other");
    if (meanwhile.deletes)
        CHECK(site_status(s, &(struct ask){.method = "DELETE", .target = target}) == 200);
    else
        CHECK(send_member(s, target, "of the other", "2") == 200);
}

static bool
has_member(struct site *s, const char *archive, const char *member, const char *says)
{
    struct buf out;
    char target[96];
    int status;
    bool is;

    snprintf(target, sizeof target, "/v1/objects/bkt/%s?archpath=%s", archive, member);
    status = site_ask(s, &(struct ask){.method = "GET", .target = target}, &out);
    is = status == 200 && span_is(buf_span(&out), says);
    buf_fini(&out);
    return is;
}

static void
append_against(struct site *s, const char *archive, const char *pine)
{
    char target[96];

    snprintf(target, sizeof target, "/v1/objects/bkt/%s?archpath=first", archive);
    CHECK(send_member(s, target, "of the first", "0") == 200);
    meanwhile.site = s;
    meanwhile.archive = archive;
    snprintf(target, sizeof target, "/v1/objects/bkt/%s?archpath=mine", archive);
    CHECK(send_member(s, target, "lost", pine) == 409);
    CHECK(meanwhile.site == NULL); /* the point was passed */
    CHECK(!has_member(s, archive, "mine", "lost"));
    CHECK(has_member(s, archive, "first", "of the first") == !meanwhile.deletes);
    CHECK(has_member(s, archive, "other", "of the other") == !meanwhile.deletes);
    CHECK(send_member(s, target, "kept", "2") == 200);
    CHECK(has_member(s, archive, "mine", "kept"));
    CHECK(has_member(s, archive, "first", "of the first") == !meanwhile.deletes);
}

static void
appends_that_lose(struct site *s)
{
    static const char *const archives[] = {"a.tar", "a.tgz", "a.tar.lz4", "a.zip"};
    static const enum point points[] = {POINT_SHARD_FOUND, POINT_SHARD_OPENED};

    for (unsigned i = 0; i < ARRAY_LEN(archives) * 8; i++) {
        meanwhile.at = points[i / 2 % 2];
        meanwhile.deletes = i % 2 == 0;
        append_against(s, archives[i / 8], i / 4 % 2 == 0 ? "1" : "2");
    }
}

static void
reads_that_are_overtaken(struct site *s)
{
    static const char *const archives[] = {"r.tar", "r.tgz", "r.zip"};

    meanwhile.at = POINT_SHARD_OPENED;
    meanwhile.deletes = false;
    for (unsigned i = 0; i < ARRAY_LEN(archives); i++) {
        char target[96];

        snprintf(target, sizeof target, "/v1/objects/bkt/%s?archpath=a", archives[i]);
        CHECK(send_member(s, target, "bytes of a", "0") == 200);
        meanwhile.site = s;
        meanwhile.archive = archives[i];
        CHECK(has_member(s, archives[i], "a", "bytes of a"));
        CHECK(meanwhile.site == NULL);
        meanwhile.site = s;
        snprintf(target, sizeof target, "/v1/objects/bkt/%s?archregx=a&archmode=prefix",
                 archives[i]);
        CHECK(site_status(s, &(struct ask){.method = "GET", .target = target}) == 200);
        CHECK(meanwhile.site == NULL);
    }
}
#endif

static void
of_nothing(struct site *s)
{
    CHECK(send_member(s, "/v1/objects/bkt/n.tar?archpath=a", "A", "1") == 404);
    CHECK(send_member(s, "/v1/objects/bkt/n.tar?archpath=a", "A", "2") == 200);
}

static void
run_archives(void *arg)
{
    struct site s = {.path = folder, .block_cache_bytes = MIB(64)};

    (void)arg;
    CHECK_U64(site_open(&s), ERR_OK);
    CHECK(site_status(&s, &(struct ask){.method = "POST",
                                        .target = "/v1/buckets/bkt",
                                        .body = SPAN("{\"action\":\"create-bck\"}")}) ==
          200);
    of_nothing(&s);
#ifdef FB_TEST_HOOKS
    rt_test_on_point = replace_archive;
    appends_that_lose(&s);
    reads_that_are_overtaken(&s);
    rt_test_on_point = NULL;
#endif
    site_close(&s);
}

static void
test_appends_lose_their_race_with_409(void)
{
    struct rt_options o = {.loops = 1, .fibers_max = 2000};
    struct errbuf eb = {{0}};

    snprintf(folder, sizeof folder, "/tmp/fb-ais-XXXXXX");
    REQUIRE(mkdtemp(folder) != NULL);
    CHECK(rt_run(&o, run_archives, NULL, &eb) == ERR_OK);
    folder_remove(folder);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
    RUN(test_appends_lose_their_race_with_409);
    return check_done();
}
