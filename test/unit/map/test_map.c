/* map: buckets made, found, removed; what a snapshot lends; records there and back; and after a restart. */
#include <unistd.h>

#include "base/mem.h"
#include "check.h"
#include "map/codec.h"
#include "map/map.h"
#include "rt/loop.h"

static char folder[] = "/tmp/fb-map-XXXXXX";

static const struct map_backend remote = {.endpoint = (char *)"http://127.0.0.1:8333",
                                          .region = (char *)"eu-1",
                                          .bucket = (char *)"there",
                                          .credentials = (char *)"there-1234",
                                          .path_style = true,
                                          .plain_http = true,
                                          .requester_pays = true,
                                          .network = 1};
static char *pins[] = {(char *)"p/", (char *)"q/"};

static void
test_records_there_and_back(void)
{
    struct map_bucket b = {.refs = 1,
                           .id = 77,
                           .name = (char *)"here",
                           .immutable_name = (char *)"born",
                           .created_ms = 1234567890123,
                           .cached = true,
                           .backend = remote,
                           .copies = 3,
                           .versioning = MAP_SUSPENDED,
                           .anonymous_read = true,
                           .cors = (char *)"<CORS/>",
                           .tags = (char *)"<T/>",
                           .min_copies = 2,
                           .cache_budget = 99,
                           .ttl_ms = 5,
                           .upload_ttl_ms = 604800000,
                           .fail_stale = true,
                           .pins = pins,
                           .pin_count = 2};
    struct map_bucket *back = NULL;
    struct errbuf eb = {{0}};
    struct buf one, two;

    buf_init(&one, META_VALUE_MAX);
    buf_init(&two, META_VALUE_MAX);
    map_bucket_encode(&b, &one);
    REQUIRE(map_bucket_decode(buf_span(&one), &back, &eb) == ERR_OK);
    CHECK_U64(back->id, 77);
    CHECK_U64(back->created_ms, 1234567890123);
    CHECK_STR(back->immutable_name, "born");
    CHECK_STR(back->backend.endpoint, remote.endpoint);
    CHECK_STR(back->backend.credentials, remote.credentials);
    CHECK(back->cached && back->backend.path_style);
    CHECK_U64(back->copies, 3);
    CHECK_U64(back->upload_ttl_ms, 604800000);
    CHECK(back->versioning == MAP_SUSPENDED && back->anonymous_read);
    CHECK_STR(back->cors, "<CORS/>");
    CHECK_STR(back->tags, "<T/>");
    CHECK(back->backend.plain_http && back->backend.requester_pays && back->fail_stale);
    CHECK_U64(back->backend.network, 1);
    REQUIRE(back->pin_count == 2);
    CHECK_STR(back->pins[1], "q/");
    map_bucket_encode(back, &two);
    CHECK(span_eq(buf_span(&one), buf_span(&two)));
    map_bucket_drop((const struct map_bucket **)(void *)&back);
    /* Cut anywhere, or with any byte changed: refused, or read whole; never more than that. */
    for (size_t len = 0; len < one.len; len++)
        CHECK(map_bucket_decode((struct span){one.at, len}, &back, &eb) != ERR_OK &&
              back == NULL);
    for (size_t i = 0; i < one.len; i++) {
        one.at[i] = (char)(one.at[i] ^ 0x20);
        if (map_bucket_decode(buf_span(&one), &back, &eb) == ERR_OK)
            map_bucket_drop((const struct map_bucket **)(void *)&back);
        CHECK(back == NULL);
        one.at[i] = (char)(one.at[i] ^ 0x20);
    }
    buf_fini(&one);
    buf_fini(&two);
}

/* A bucket of the AIS name space, closing, with properties; and a flat one whose record is as before there were any. */
static void
test_identities(void)
{
    static char *properties[] = {(char *)"ec.enabled=false", (char *)"a="};
    struct map_bucket b = {.refs = 1,
                           .id = 5,
                           .provider = MAP_GCP,
                           .ns = (char *)"team",
                           .name = (char *)"Data_1",
                           .qualified = true,
                           .immutable_name = (char *)"gcp@team@Data_1",
                           .closing = true,
                           .properties = properties,
                           .property_count = 2};
    struct map_bucket *back = NULL;
    struct errbuf eb = {{0}};
    struct buf one, two;

    buf_init(&one, META_VALUE_MAX);
    buf_init(&two, META_VALUE_MAX);
    map_bucket_encode(&b, &one);
    REQUIRE(map_bucket_decode(buf_span(&one), &back, &eb) == ERR_OK);
    CHECK_STR(back->uname, "gcp@team@Data_1");
    CHECK(back->provider == MAP_GCP && back->qualified && back->closing);
    CHECK_STR(back->ns, "team");
    CHECK_STR(map_bucket_property(back, "ec.enabled"), "false");
    CHECK_STR(map_bucket_property(back, "a"), "");
    CHECK(map_bucket_property(back, "ec") == NULL);
    map_bucket_encode(back, &two);
    CHECK(span_eq(buf_span(&one), buf_span(&two)));
    map_bucket_drop((const struct map_bucket **)(void *)&back);

    b = (struct map_bucket){.refs = 1,
                            .id = 6,
                            .provider = MAP_HTTP,
                            .ns = (char *)"",
                            .name = (char *)"flat",
                            .immutable_name = (char *)"flat",
                            .cached = true,
                            .backend = remote};
    one.len = 0;
    map_bucket_encode(&b, &one);
    b.ns = NULL; /* as the record was written before there were namespaces */
    two.len = 0;
    map_bucket_encode(&b, &two);
    CHECK(span_eq(buf_span(&one), buf_span(&two)));
    REQUIRE(map_bucket_decode(buf_span(&one), &back, &eb) == ERR_OK);
    CHECK(back->provider == MAP_HTTP && !back->qualified);
    CHECK_STR(back->uname, "flat");
    map_bucket_drop((const struct map_bucket **)(void *)&back);
    buf_fini(&one);
    buf_fini(&two);
}

static struct meta *meta;
static struct map_service *map;

static void
open_map(void)
{
    struct errbuf eb = {{0}};
    struct rt_dir *dir = NULL;

    CHECK(rt_dir_open(folder, &dir, &eb) == ERR_OK);
    CHECK(meta_open_embedded(dir, &meta, &eb) == ERR_OK);
    CHECK(map_start(meta, &map, &eb) == ERR_OK);
    rt_dir_close(&dir);
}

static void
close_map(void)
{
    map_stop(&map);
    meta_close(&meta);
}

static enum err
make(const char *name, const struct map_backend *backend, uint64_t *id)
{
    const struct map_bucket *made = NULL;
    struct errbuf eb = {{0}};
    enum err rc = map_bucket_create(map, span_of(name), backend, 1, &made, &eb);

    CHECK((rc == ERR_OK) == (made != NULL));
    if (id != NULL && made != NULL)
        *id = made->id;
    map_bucket_drop(&made);
    return rc;
}

static enum err
edit(struct map_bucket *b, void *arg, struct errbuf *eb)
{
    const char *cors = arg;

    if (cors == NULL)
        return err_set(eb, ERR_BAD_REQUEST, "no");
    free(b->cors);
    b->cors = xstrdup(cors);
    b->anonymous_read = true;
    return ERR_OK;
}

/* A change is seen when it returns, keeps all else, and is not made where the editor refuses. */
/* Qualified buckets stand beside flat ones of the same name, and a closing one says so until it is opened. */
static void
check_identities_in_map(void)
{
    struct map_bucket_id id = {
        .provider = MAP_AIS, .ns = SPAN("ns"), .name = SPAN("flat"), .qualified = true};
    const struct map_bucket *made = NULL, *b;
    struct errbuf eb = {{0}};

    CHECK(make("flat", NULL, NULL) == ERR_OK);
    REQUIRE(map_bucket_create_as(map, &id, NULL, 1, &made, &eb) == ERR_OK);
    CHECK_STR(made->uname, "ais@ns@flat");
    map_bucket_drop(&made);
    CHECK(map_bucket_create_as(map, &id, NULL, 1, &made, &eb) == ERR_EXISTS);
    id.name = SPAN("no/slash");
    CHECK(map_bucket_create_as(map, &id, NULL, 1, &made, &eb) == ERR_BAD_REQUEST);
    b = map_bucket_find(map_now(map), SPAN("flat"));
    REQUIRE(b != NULL && !b->closing);
    made = map_bucket_ref(b);
    CHECK(map_bucket_set_closing(map, made, true, &eb) == ERR_OK);
    CHECK(map_bucket_find(map_now(map), SPAN("flat"))->closing);
    close_map();
    open_map();
    CHECK(map_bucket_find(map_now(map), SPAN("flat"))->closing);
    CHECK(map_bucket_find(map_now(map), SPAN("ais@ns@flat"))->qualified);
    CHECK(map_bucket_set_closing(map, made, false, &eb) == ERR_OK);
    CHECK(!map_bucket_find(map_now(map), SPAN("flat"))->closing);
    CHECK(map_bucket_remove(map, SPAN("flat"), made->id, &eb) == ERR_OK);
    b = map_bucket_find(map_now(map), SPAN("ais@ns@flat"));
    CHECK(map_bucket_remove(map, SPAN("ais@ns@flat"), b->id, &eb) == ERR_OK);
    map_bucket_drop(&made);
}

static void
check_settings(uint64_t id)
{
    const struct map_bucket *changed = NULL;
    struct errbuf eb = {{0}};

    CHECK(map_bucket_change(map, SPAN("zzz"), id, edit, (void *)(uintptr_t) "<C/>",
                            &changed, &eb) == ERR_OK);
    REQUIRE(changed != NULL);
    CHECK_STR(changed->cors, "<C/>");
    CHECK_STR(changed->backend.bucket, remote.bucket);
    map_bucket_drop(&changed);
    CHECK_STR(map_bucket_find(map_now(map), SPAN("zzz"))->cors, "<C/>");
    CHECK(map_bucket_change(map, SPAN("zzz"), id, edit, NULL, &changed, &eb) ==
          ERR_BAD_REQUEST);
    CHECK(changed == NULL);
    CHECK(map_bucket_change(map, SPAN("zzz"), id + 1, edit, NULL, &changed, &eb) ==
          ERR_NO_BUCKET);
    CHECK_STR(map_bucket_find(map_now(map), SPAN("zzz"))->cors, "<C/>");
}

struct rush {
    unsigned made, refused;
};

static void
rush_one(void *arg)
{
    struct rush *r = arg;
    enum err rc = make("contested", NULL, NULL);

    r->made += rc == ERR_OK;
    r->refused += rc == ERR_EXISTS;
}

static enum err
rename_to(const char *from, const char *to, struct errbuf *eb)
{
    const struct map_bucket *b =
        map_bucket_ref(map_bucket_find(map_now(map), span_of(from)));
    struct map_bucket_id id = {.provider = MAP_AIS, .ns = SPAN(""), .name = span_of(to)};
    const struct map_bucket *made = NULL;
    enum err rc = map_bucket_rename(map, b, &id, &made, eb);

    CHECK((rc == ERR_OK) == (made != NULL));
    map_bucket_drop(&made);
    map_bucket_drop(&b);
    return rc;
}

static enum err
set_policy(struct map_bucket *b, void *arg, struct errbuf *eb)
{
    return map_bucket_set_policy(b, span_of(arg), eb);
}

/* A renamed bucket is the same one: its id, its settings, and the name that placement hashes. */
static void
renames(void)
{
    static char policy[] =
        "{\"Version\":\"2012-10-17\",\"Statement\":[{\"Effect\":\"Allow\","
        "\"Principal\":\"*\",\"Action\":\"s3:GetObject\","
        "\"Resource\":\"arn:aws:s3:::new-name/*\"}]}";
    const struct map_bucket *b, *changed = NULL;
    struct errbuf eb = {{0}};
    uint64_t id, again;
    uint32_t count;

    CHECK(make("old-name", NULL, &id) == ERR_OK);
    CHECK(make("in-the-way", NULL, NULL) == ERR_OK);
    count = map_bucket_count(map_now(map));
    CHECK(rename_to("old-name", "in-the-way", &eb) == ERR_EXISTS);
    CHECK(rename_to("old-name", "", &eb) == ERR_BAD_REQUEST);
    CHECK(rename_to("old-name", "new-name", &eb) == ERR_OK);
    CHECK_U64(map_bucket_count(map_now(map)), count);
    CHECK(map_bucket_find(map_now(map), SPAN("old-name")) == NULL);
    close_map();
    open_map();
    b = map_bucket_find(map_now(map), SPAN("new-name"));
    REQUIRE(b != NULL);
    CHECK_U64(b->id, id);
    CHECK_STR(b->immutable_name, "old-name");
    CHECK(make("old-name", NULL, &again) == ERR_OK && again != id);
    CHECK(map_bucket_change(map, SPAN("new-name"), id, set_policy, policy, &changed,
                            &eb) == ERR_OK);
    map_bucket_drop(&changed);
    CHECK(rename_to("new-name", "third", &eb) == ERR_BAD_REQUEST);
    CHECK_SAYS(eb.text, "has a policy");
}

static void
world(void *arg)
{
    const struct map_bucket *kept;
    struct errbuf eb = {{0}};
    struct rush rush = {0};
    struct rt_group g;
    uint64_t first = 0, second = 0, third = 0;
    char name[MAP_BUCKET_NAME_MAX + 2];

    (void)arg;
    open_map();
    check_identities_in_map();
    CHECK_U64(map_bucket_count(map_now(map)), 0);
    CHECK(make("mmm", NULL, &first) == ERR_OK);
    CHECK(make("mmm", NULL, NULL) == ERR_EXISTS);
    CHECK(make("zzz", &remote, &second) == ERR_OK);
    CHECK(make("aaa", NULL, NULL) == ERR_OK);
    CHECK(second > first);
    CHECK_STR(map_bucket_at(map_now(map), 0)->name, "aaa");
    CHECK_STR(map_bucket_at(map_now(map), 2)->name, "zzz");
    CHECK(map_bucket_find(map_now(map), SPAN("zz")) == NULL);
    memset(name, 'a', sizeof name);
    name[sizeof name - 1] = '\0';
    CHECK(make(name, NULL, NULL) == ERR_BAD_REQUEST);

    check_settings(second);

    /* Held by reference it outlives its removal. */
    kept = map_bucket_ref(map_bucket_find(map_now(map), SPAN("mmm")));
    CHECK(map_bucket_remove(map, SPAN("mmm"), first + 1, &eb) == ERR_NO_BUCKET);
    CHECK(map_bucket_remove(map, SPAN("mmm"), first, &eb) == ERR_OK);
    CHECK(map_bucket_remove(map, SPAN("mmm"), first, &eb) == ERR_NO_BUCKET);
    CHECK(map_bucket_find(map_now(map), SPAN("mmm")) == NULL);
    CHECK_STR(kept->name, "mmm");
    map_bucket_drop(&kept);
    /* Another bucket of the same name has another id, and is not removed in its stead. */
    CHECK(make("mmm", NULL, &third) == ERR_OK);
    CHECK(third > second);
    CHECK(map_bucket_remove(map, SPAN("mmm"), first, &eb) == ERR_NO_BUCKET);

    rt_group_begin(&g);
    for (int i = 0; i < 8; i++)
        CHECK(rt_group_start(&g, rush_one, &rush) == ERR_OK);
    rt_group_join(&g);
    CHECK_U64(rush.made, 1);
    CHECK_U64(rush.refused, 7);

    close_map();
    open_map();
    CHECK_U64(map_bucket_count(map_now(map)), 4);
    CHECK(make("later", NULL, &first) == ERR_OK);
    CHECK(first > third);
    CHECK(map_bucket_find(map_now(map), SPAN("zzz"))->cached);
    CHECK_STR(map_bucket_find(map_now(map), SPAN("zzz"))->cors,
              "<C/>"); /* settings stay */
    renames();
    close_map();
}

static void
test_buckets(void)
{
    struct rt_options o = {.engine = RT_EPOLL, .loops = 2};
    struct errbuf eb = {{0}};

    REQUIRE(mkdtemp(folder) != NULL);
    CHECK(rt_run(&o, world, NULL, &eb) == ERR_OK);
    REQUIRE(chdir(folder) == 0);
    unlink("data.mdb");
    unlink("lock.mdb");
    unlink("second.mdb");
    unlink("second.mdb-lock");
    rmdir(folder);
}

/* The epoch of versions: one higher for each start, never lower, and not a revision. */
static void
epochs(void *arg)
{
    struct meta_change bad = {
        .key = SPAN("map"), .value = SPAN("no record"), .if_revision = META_ANY};
    struct errbuf eb = {{0}};
    uint64_t epoch = 0;

    (void)arg;
    open_map();
    CHECK(map_epoch_next(meta, &epoch, &eb) == ERR_OK);
    CHECK_U64(epoch, 1); /* nothing is stored yet */
    CHECK(map_epoch_store(meta, 70, &eb) == ERR_OK);
    CHECK(map_epoch_store(meta, 70, &eb) == ERR_OK);
    CHECK(map_epoch_store(meta, 7, &eb) == ERR_OK); /* lower: ignored */
    CHECK(make("between", NULL, NULL) == ERR_OK);
    close_map();
    open_map();
    CHECK(map_epoch_next(meta, &epoch, &eb) == ERR_OK);
    CHECK_U64(epoch, 71);
    CHECK(map_bucket_remove(map, SPAN("between"),
                            map_bucket_find(map_now(map), SPAN("between"))->id,
                            &eb) == ERR_OK);
    CHECK(map_is_own_key(SPAN("map")));
    CHECK(!map_is_own_key(SPAN("bucket/map")));
    CHECK(meta_apply(meta, &bad, 1, NULL, &eb) == ERR_OK);
    CHECK(map_epoch_next(meta, &epoch, &eb) == ERR_CORRUPT);
    CHECK_SAYS(eb.text, "key \"map\" of the node's state");
    bad.remove = true;
    bad.value = SPAN("");
    CHECK(meta_apply(meta, &bad, 1, NULL, &eb) == ERR_OK);
    close_map();
}

static void
test_epochs(void)
{
    struct rt_options o = {.engine = RT_EPOLL, .loops = 1, .workers = 2};
    struct errbuf eb = {{0}};

    strcpy(folder, "/tmp/fb-map-XXXXXX");
    REQUIRE(mkdtemp(folder) != NULL);
    CHECK(rt_run(&o, epochs, NULL, &eb) == ERR_OK);
    REQUIRE(chdir(folder) == 0);
    unlink("data.mdb");
    unlink("lock.mdb");
    unlink("second.mdb");
    unlink("second.mdb-lock");
    rmdir(folder);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_records_there_and_back);
    RUN(test_identities);
    RUN(test_buckets);
    RUN(test_epochs);
    return check_done();
}
