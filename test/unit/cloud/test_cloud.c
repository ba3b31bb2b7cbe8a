/* cloud: what a remote's trouble becomes: repeated within a budget, resumed where it broke, never glued together from
 * two versions; outcomes of writes known or unknown; stored keys private and gone when they are removed. */
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "cloud/cloud.h"
#include "unit/cloud/fake_remote.h"

#define SIZE (3u << 20)

static char folder[] = "/tmp/fb-cloud-XXXXXX";
static char body[SIZE];

struct rig {
    struct fake fake;
    struct cloud *cloud;
    struct map_bucket bucket;
    struct arena *arena;
    struct errbuf eb;
};

static void
begin(struct rig *g, unsigned fail_times, int status)
{
    fake_set(&g->fake, body, SIZE);
    g->fake.requests = g->fake.gets = g->fake.ranges = g->fake.conditions = 0;
    g->fake.fail_times = fail_times;
    g->fake.fail_status = status;
    g->fake.cut_times = 0;
    g->fake.change_after_cut = false;
    g->eb = (struct errbuf){{0}};
    arena_reset(g->arena);
}

/* Reads the whole object; the bytes that came are right ones, and all of them when it ends well. */
static enum err
read_all(struct rig *g, uint64_t *got)
{
    static char piece[100000];
    struct s3_object_info info;
    struct cloud_get *get = NULL;
    size_t n = 1;
    enum err rc = cloud_get_begin(g->cloud, &g->bucket, SPAN("k"), 0, UINT64_MAX,
                                  SPAN(""), g->arena, &info, &get, &g->eb);

    *got = 0;
    while (rc == ERR_OK && n > 0) {
        rc = cloud_get_read(get, piece, sizeof piece, &n, &g->eb);
        if (rc == ERR_OK)
            CHECK(*got + n <= SIZE && memcmp(piece, body + *got, n) == 0);
        *got += rc == ERR_OK ? n : 0;
    }
    if (rc == ERR_OK)
        CHECK_U64(*got, SIZE);
    cloud_get_end(&get);
    return rc;
}

static void
reads(struct rig *g)
{
    uint64_t got;

    begin(g, 2, 503);
    CHECK(read_all(g, &got) == ERR_OK);
    CHECK_U64(g->fake.requests, 3);
    begin(g, 100, 500);
    CHECK(read_all(g, &got) == ERR_BACKEND);
    CHECK_SAYS(g->eb.text, "InternalError (500): said the remote");
    CHECK_U64(g->fake.requests, 4); /* one, and three repeats */
    begin(g, 100, 0);
    CHECK(read_all(g, &got) == ERR_BACKEND);
    begin(g, 100, 403); /* refused in words: not repeated */
    CHECK(read_all(g, &got) == ERR_DENIED);
    CHECK_SAYS(g->eb.text, "AccessDenied");
    CHECK_U64(g->fake.requests, 1);
    begin(g, 1, 307); /* not followed */
    CHECK(read_all(g, &got) == ERR_BACKEND);
    CHECK_U64(g->fake.requests, 1);
    begin(g, 0, 0);
    g->fake.body = NULL;
    CHECK(read_all(g, &got) == ERR_NOT_FOUND);
    CHECK_U64(g->fake.requests, 1);
}

static void
resumes(struct rig *g)
{
    uint64_t got;

    begin(g, 0, 0);
    g->fake.cut_times = 2;
    g->fake.cut_after = 1u << 20;
    CHECK(read_all(g, &got) == ERR_OK);
    CHECK_U64(g->fake.requests, 3);
    CHECK_U64(g->fake.ranges, 2);
    CHECK_U64(g->fake.conditions, 2);
    /* It always breaks, but comes on by a MiB each time: more breaks than one budget has. */
    begin(g, 0, 0);
    g->fake.cut_times = 100;
    g->fake.cut_after = 600000;
    CHECK(read_all(g, &got) == ERR_OK);
    CHECK_U64(g->fake.requests, SIZE / 600000 + 1);
    /* It breaks before the first byte, for ever. */
    begin(g, 0, 0);
    g->fake.cut_times = 100;
    g->fake.cut_after = 0;
    CHECK(read_all(g, &got) == ERR_BACKEND);
    CHECK(g->fake.requests <= 8);
    /* Half of one version and half of the next is no object. */
    begin(g, 0, 0);
    g->fake.cut_times = 1;
    g->fake.cut_after = 1u << 20;
    g->fake.change_after_cut = true;
    CHECK(read_all(g, &got) == ERR_BACKEND);
    CHECK_SAYS(g->eb.text, "changed at the backend");
    CHECK(got < SIZE);
}

static enum err
source(void *arg, uint64_t offset, void *buf, size_t len, size_t *n, struct errbuf *eb)
{
    (void)arg;
    (void)eb;
    *n = MIN(len, SIZE - offset);
    memcpy(buf, body + offset, *n);
    return ERR_OK;
}

static enum err
put(struct rig *g, bool *unknown)
{
    struct s3_put p = {.bucket = SPAN("there"), .key = SPAN("k"), .size = SIZE};
    struct span etag;

    return cloud_put(g->cloud, &g->bucket, &p, source, NULL, g->arena, &etag, unknown,
                     &g->eb);
}

static void
writes(struct rig *g)
{
    bool unknown;

    begin(g, 1, 503);
    CHECK(put(g, &unknown) == ERR_OK);
    CHECK(g->fake.stored.len == SIZE && memcmp(g->fake.stored.at, body, SIZE) == 0);
    begin(g, 1, 403);
    CHECK(put(g, &unknown) == ERR_DENIED && !unknown);
    begin(g, 100, 500);
    CHECK(put(g, &unknown) == ERR_BACKEND && unknown);
    begin(g, 100, 0);
    CHECK(put(g, &unknown) == ERR_BACKEND && unknown);
    begin(g, 100, 403);
    CHECK(cloud_delete(g->cloud, &g->bucket, SPAN("k"), NULL, 0, &unknown, &g->eb) ==
              ERR_DENIED &&
          !unknown);
    begin(g, 0, 0);
    CHECK(cloud_delete(g->cloud, &g->bucket, SPAN("k"), NULL, 0, &unknown, &g->eb) ==
          ERR_OK);
}

static void
lists(struct rig *g)
{
    struct s3_list l = {.bucket = SPAN("there")};
    struct s3_list_page page;
    bool down;

    begin(g, 0, 0);
    g->fake.document = "no list at all";
    CHECK(cloud_list(g->cloud, &g->bucket, &l, g->arena, &page, &down, &g->eb) ==
          ERR_BACKEND);
    CHECK(!down);
    begin(g, 100, 503);
    CHECK(cloud_list(g->cloud, &g->bucket, &l, g->arena, &page, &down, &g->eb) ==
          ERR_BACKEND);
    CHECK(down);
    begin(g, 0, 0);
    g->fake.document =
        "<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>false"
        "</IsTruncated><Contents><Key>b%2Fc</Key><Size>3</Size></Contents>"
        "<Contents><Key>a</Key><Size>1</Size></Contents></ListBucketResult>";
    CHECK(cloud_list(g->cloud, &g->bucket, &l, g->arena, &page, &down, &g->eb) == ERR_OK);
    REQUIRE(page.count == 2);
    CHECK(span_is(page.entries[0].key, "a") && span_is(page.entries[1].key, "b/c"));
}

static void
keys(struct rig *g)
{
    struct s3_credentials wrong = {.access_key = (char *)"WRONG",
                                   .secret_key = (char *)"s"},
                          right = {.access_key = (char *)"RIGHT",
                                   .secret_key = (char *)"t"},
                          bad = {.access_key = (char *)"A\nB", .secret_key = (char *)"u"};
    char one[CLOUD_SECRET_NAME], two[CLOUD_SECRET_NAME], three[CLOUD_SECRET_NAME];
    char path[2 * CLOUD_SECRET_NAME];
    char region[CLOUD_REGION_TEXT];
    struct map_backend b = g->bucket.backend;
    struct stat st;

    begin(g, 0, 0);
    g->fake.document = "<ListBucketResult/>";
    REQUIRE(cloud_credentials_store(g->cloud, "name", &wrong, one, &g->eb) == ERR_OK);
    REQUIRE(cloud_credentials_store(g->cloud, "name", &right, two, &g->eb) == ERR_OK);
    CHECK(strcmp(one, two) != 0);
    snprintf(path, sizeof path, "sets/%s", one);
    CHECK(stat(path, &st) == 0 && (st.st_mode & 07777) == 0600);
    /* What an earlier set was used with is not what the next one finds. */
    b.credentials = one;
    CHECK(cloud_probe(g->cloud, &b, region, &g->eb) == ERR_OK);
    CHECK_SAYS(g->fake.last_authorization, "Credential=WRONG/");
    b.credentials = two;
    CHECK(cloud_probe(g->cloud, &b, region, &g->eb) == ERR_OK);
    CHECK_SAYS(g->fake.last_authorization, "Credential=RIGHT/");
    cloud_credentials_remove(g->cloud, one);
    cloud_credentials_remove(g->cloud, two);
    CHECK(stat(path, &st) != 0);
    CHECK(cloud_probe(g->cloud, &b, region, &g->eb) == ERR_NOT_FOUND);
    CHECK(cloud_credentials_store(g->cloud, "name", &bad, three, &g->eb) ==
          ERR_BAD_REQUEST);
    cloud_credentials_remove(g->cloud, three); /* "" is fine */
}

/* ---- keys of remotes at rest ---- */

static enum err
load(struct secrets *s, const char *name, const char *want)
{
    struct buf b;
    enum err rc;

    buf_init(&b, 4096);
    rc = secrets_load(s, name, &b, NULL);
    if (rc == ERR_OK)
        CHECK(span_is(buf_span(&b), want));
    buf_fini(&b);
    return rc;
}

static void
load_new(void *arg)
{
    CHECK(load(arg, "new-1", "planted-too") == ERR_OK);
}

#define LOAD_FROM "load.now" /* from then on the first that has read a set waits */

/* One has read the set, sealed under the key that goes now. */
static void
rotate_under_a_reader(struct secrets *s, unsigned *count)
{
    struct rt_group reader;
    struct errbuf eb = {{0}};
    FILE *f = fopen(LOAD_FROM, "w");

    REQUIRE(f != NULL && fclose(f) == 0);
    rt_group_begin(&reader);
    REQUIRE(rt_group_start(&reader, load_new, s) == ERR_OK);
    CHECK(
        rt_sleep_ms(100) ==
        ERR_OK); /* most often it stands there by now; if not, it succeeds all the same */
    CHECK(secrets_rotate(s, count, &eb) == ERR_OK);
    rt_group_join(&reader);
    CHECK(unlink(LOAD_FROM) == 0);
}

static bool
file_has(struct rt_dir *dir, const char *name, const char *text)
{
    char *bytes;
    size_t len;
    bool has;

    if (rt_file_load(dir, name, 65536, &bytes, &len, NULL) != ERR_OK)
        return true; /* there is no such file */
    has = memmem(bytes, len, text, strlen(text)) != NULL;
    free(bytes);
    return has;
}

static enum err
count_sets(void *arg, const char *name, struct span plain, struct errbuf *eb)
{
    (void)name;
    (void)plain;
    (void)eb;
    ++*(unsigned *)arg;
    return ERR_OK;
}

/* Sealed; what lay there in the clear too; under the name they were sealed by; under the newest key. */
static void
secrets_at_rest(struct rig *g, struct rt_dir *sets, struct rt_dir *state)
{
    struct secrets *s;
    unsigned count = 0;
    char *key, *bytes;
    size_t key_len, len;

    CHECK(rt_file_store(sets, "old-1", "planted-plain", 13, 0600, &g->eb) == ERR_OK);
    CHECK(rt_file_store(sets, "x.12.tmp", "planted-plain", 13, 0600, &g->eb) == ERR_OK);
    REQUIRE(secrets_open(sets, state, NULL, &s, &g->eb) == ERR_OK);
    CHECK(!file_has(sets, "old-1", "planted"));
    CHECK(rt_file_load(sets, "x.12.tmp", 100, &bytes, &len, NULL) == ERR_NOT_FOUND);
    CHECK(load(s, "old-1", "planted-plain") == ERR_OK);
    CHECK(secrets_store(s, "new-1", SPAN("planted-too"), &g->eb) == ERR_OK);
    CHECK(!file_has(sets, "new-1", "planted"));
    CHECK(load(s, "new-1", "planted-too") == ERR_OK);
    CHECK(load(s, "never", "") == ERR_NOT_FOUND);
    /* What stands under another's name does not open. */
    REQUIRE(rt_file_load(sets, "new-1", 100, &bytes, &len, NULL) == ERR_OK);
    CHECK(rt_file_store(sets, "moved", bytes, len, 0600, &g->eb) == ERR_OK);
    CHECK(load(s, "moved", "") == ERR_DENIED);
    bytes[len - 1] ^= 1;
    CHECK(rt_file_store(sets, "moved", bytes, len, 0600, &g->eb) == ERR_OK);
    CHECK(load(s, "moved", "") == ERR_DENIED);
    CHECK(rt_dir_unlink(sets, "moved", &g->eb) == ERR_OK);
    free(bytes);
    /* A new key; what was taken away under the old one does not open any more. */
    REQUIRE(rt_file_load(state, SECRETS_KEY_FILE, 1000, &key, &key_len, NULL) == ERR_OK);
    REQUIRE(rt_file_load(sets, "new-1", 100, &bytes, &len, NULL) == ERR_OK);
    rotate_under_a_reader(s, &count);
    CHECK_U64(count, 2);
    CHECK(load(s, "new-1", "planted-too") == ERR_OK);
    CHECK(load(s, "old-1", "planted-plain") == ERR_OK);
    CHECK(!file_has(state, SECRETS_KEY_FILE, key));
    count = 0;
    CHECK(secrets_each(s, count_sets, &count, &g->eb) == ERR_OK && count == 2);
    CHECK(rt_file_store(sets, "new-1", bytes, len, 0600, &g->eb) == ERR_OK);
    free(bytes);
    CHECK(load(s, "new-1", "") == ERR_DENIED);
    secrets_close(&s);
    /* The end of a rotation that was cut off: the new key in front, one set sealed under the old one. */
    CHECK(rt_file_load(state, SECRETS_KEY_FILE, 1000, &bytes, &len, NULL) == ERR_OK);
    {
        char *both = xasprintf("%s%s", bytes, key);

        CHECK(rt_file_store(state, SECRETS_KEY_FILE, both, strlen(both), 0600, NULL) ==
              ERR_OK);
        free(both);
    }
    free(bytes);
    REQUIRE(secrets_open(sets, state, NULL, &s, &g->eb) == ERR_OK);
    CHECK(load(s, "new-1", "planted-too") == ERR_OK);
    CHECK(load(s, "old-1", "planted-plain") == ERR_OK);
    CHECK(!file_has(state, SECRETS_KEY_FILE, key));
    CHECK(secrets_remove(s, "new-1", &g->eb) == ERR_OK);
    CHECK(load(s, "new-1", "") == ERR_NOT_FOUND);
    secrets_close(&s);
    /* A file of the administrator's own. */
    CHECK(secrets_open(sets, state, "none.key", &s, &g->eb) == ERR_NOT_FOUND);
    CHECK(rt_file_store(state, "mine.key", "short\n", 6, 0600, NULL) == ERR_OK);
    CHECK(secrets_open(sets, state, "mine.key", &s, &g->eb) == ERR_BAD_REQUEST);
    CHECK_SAYS(g->eb.text, "expected 64 hex digits");
    CHECK(rt_file_store(state, "mine.key", key, key_len, 0644, NULL) == ERR_OK);
    CHECK(secrets_open(sets, state, "mine.key", &s, &g->eb) == ERR_DENIED);
    CHECK_SAYS(g->eb.text, "can be read by other users");
    free(key);
}

static void
world(void *arg)
{
    struct cloud_options o = {.retries = 3,
                              .retry_ms = PATIENCE_MS,
                              .timeout_ms = PATIENCE_MS,
                              .connect_ms = PATIENCE_MS};
    struct rt_dir *dir = NULL, *sets = NULL;
    struct rig *g = arg;

    fake_start(&g->fake);
    g->arena = arena_new(4096, 1u << 20);
    g->bucket = (struct map_bucket){.refs = 1,
                                    .id = 1,
                                    .name = (char *)"here",
                                    .immutable_name = (char *)"here",
                                    .cached = true,
                                    .backend = {.endpoint = g->fake.endpoint,
                                                .bucket = (char *)"there",
                                                .credentials = (char *)"",
                                                .path_style = true}};
    CHECK(rt_dir_open(folder, &dir, &g->eb) == ERR_OK);
    CHECK(rt_dir_make(dir, "sets", 0700, &g->eb) == ERR_OK);
    CHECK(rt_dir_open_at(dir, "sets", &sets, &g->eb) == ERR_OK);
    o.secrets = sets;
    o.state = dir;
    CHECK(cloud_start(&o, &g->cloud, &g->eb) == ERR_OK);
    reads(g);
    resumes(g);
    writes(g);
    lists(g);
    keys(g);
    cloud_stop(&g->cloud);
    secrets_at_rest(g, sets, dir);
    rt_dir_close(&sets);
    rt_dir_close(&dir);
    arena_free(&g->arena);
    fake_stop(&g->fake);
}

static void
test_a_remote_in_trouble(void)
{
    static struct rig g;
    struct rt_options o = {.engine = RT_EPOLL, .loops = 1};
    struct errbuf eb = {{0}};

    for (size_t i = 0; i < SIZE; i++)
        body[i] = (char)(i * 7 + i / 251);
    REQUIRE(setenv("FOREBAY_FAULT", "secret.read:1:sleep=700", 1) == 0 &&
            setenv("FOREBAY_FAULT_FROM", LOAD_FROM, 1) == 0);
    REQUIRE(mkdtemp(folder) != NULL && chdir(folder) == 0);
    CHECK(rt_run(&o, world, &g, &eb) == ERR_OK);
    CHECK(unlink("sets/old-1") == 0 && unlink(SECRETS_KEY_FILE) == 0);
    CHECK(unlink("mine.key") == 0 && rmdir("sets") == 0);
    CHECK(rmdir(folder) == 0); /* nothing was left behind */
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
    RUN(test_a_remote_in_trouble);
    return check_done();
}
