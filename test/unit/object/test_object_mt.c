/* object: listings against a plain model; a cached bucket before a remote that does as the test says: one fetch for all
 * readers on two loops, the end held back until it is verified, nothing kept of what failed or was left, writes
 * through with their in-doubt records. */
#include <unistd.h>

#include "base/log.h"
#include "folder.h"
#include "unit/cloud/fake_remote.h"
#include "unit/object/stand.h"

#define SIZE (2u << 20)
#define HELD (16u << 10)

static char folder[] = "/tmp/fb-object-XXXXXX";
static char body[SIZE], other[SIZE];

struct rig {
    struct fake fake;
    struct stand at;
    const struct map_bucket *native, *cached;
    struct arena *arena;
    struct errbuf eb;
};

/* ---- reading ---- */

struct reader {
    struct rig *g;
    const char *key;
    uint64_t stop_after; /* leaves then; 0: never */
    const char *want;    /* the bytes */
    uint64_t got;
    enum err rc;
    enum object_source source;
    char *etag;
};

/* Whatever happens, each byte that comes is the right one. */
static void
read_object(void *arg)
{
    struct reader *r = arg;
    struct arena *a = arena_new(4096, 1u << 20);
    struct object_info info = {0};
    struct object_get *get = NULL;
    struct errbuf eb = {{0}};
    struct span piece = {"", 0};

    r->got = 0;
    r->rc = object_get_begin(r->g->at.object, r->g->cached, span_of(r->key), a, &info,
                             &get, &eb);
    if (r->rc == ERR_OK)
        r->rc = object_get_range(get, 0, info.size, &eb);
    r->source = info.source;
    while (r->rc == ERR_OK) {
        r->rc = object_get_next(get, DEADLINE_NEVER, &piece, &eb);
        if (r->rc != ERR_OK || piece.len == 0)
            break;
        CHECK(r->got + piece.len <= SIZE &&
              memcmp(piece.at, r->want + r->got, piece.len) == 0);
        r->got += piece.len;
        if (r->stop_after > 0 && r->got >= r->stop_after)
            break;
    }
    object_get_end(&get);
    arena_free(&a);
}

static struct reader
read_key(struct rig *g, const char *key, const char *want)
{
    struct reader r = {.g = g, .key = key, .want = want};

    read_object(&r);
    return r;
}

static bool
is_here(struct rig *g, const char *key)
{
    struct disks_key k = {.at.bucket = g->cached->id,
                          .at.immutable_name = span_of(g->cached->immutable_name),
                          .at.key = span_of(key)};
    struct entry entry;
    struct errbuf eb = {{0}};

    return disks_lookup(g->at.disks, &k, &entry, &eb) == ERR_OK &&
           (entry.flags & ENTRY_IN_DOUBT) == 0;
}

/* A reader has its last bytes before the disk has: the copy is here soon. */
static bool
comes_here(struct rig *g, const char *key)
{
    while (!is_here(g, key))
        if (rt_sleep_ms(2) != ERR_OK)
            break;
    return is_here(g, key);
}

#define READERS 20

struct crowd {
    struct reader readers[READERS];
};

static void
crowd_here(void *arg)
{
    struct crowd *c = arg;
    struct rt_group group;

    rt_group_begin(&group);
    for (int i = 0; i < READERS; i++)
        CHECK(rt_group_start(&group, read_object, &c->readers[i]) == ERR_OK);
    rt_group_join(&group);
}

static void
crowd_there(void *arg)
{
    CHECK(rt_call(1, crowd_here, arg) == ERR_OK);
}

static void
one_fetch_for_all(struct rig *g)
{
    struct crowd *crowds = xcalloc(2, sizeof *crowds);
    struct rt_group group;
    unsigned cold = 0;

    fake_set(&g->fake, body, SIZE);
    g->fake.requests = 0;
    for (int i = 0; i < 2 * READERS; i++)
        crowds[i / READERS].readers[i % READERS] =
            (struct reader){.g = g, .key = "shared", .want = body};
    rt_group_begin(&group);
    CHECK(rt_group_start(&group, crowd_there, &crowds[1]) == ERR_OK);
    CHECK(rt_group_start(&group, crowd_here, &crowds[0]) == ERR_OK);
    rt_group_join(&group);
    for (int i = 0; i < 2 * READERS; i++) {
        const struct reader *r = &crowds[i / READERS].readers[i % READERS];

        CHECK(r->rc == ERR_OK);
        CHECK_U64(r->got, SIZE);
        cold += r->source == OBJECT_FETCHED;
    }
    CHECK_U64(g->fake.requests, 1);
    CHECK_U64(cold, 1);
    CHECK(comes_here(g, "shared"));
    CHECK(read_key(g, "shared", body).source == OBJECT_LOCAL);
    CHECK_U64(g->fake.requests, 1);
    free(crowds);
}

/* ---- what fails is not kept ---- */

static void
wrong_bytes_are_held_back(struct rig *g)
{
    struct reader r;

    fake_set(&g->fake, body, SIZE);
    g->fake.flip_last = true;
    r = read_key(g, "flipped", body);
    CHECK(r.rc == ERR_BACKEND);
    CHECK(r.got <= SIZE - HELD);
    CHECK(!is_here(g, "flipped"));
    g->fake.flip_last = false;
    r = read_key(g, "flipped", body);
    CHECK(r.rc == ERR_OK && r.got == SIZE && comes_here(g, "flipped"));
}

static void
who_leaves_leaves_nothing(struct rig *g)
{
    struct reader r = {.g = g, .key = "left", .want = body, .stop_after = 100000};

    fake_set(&g->fake, body, SIZE);
    g->fake.requests = 0;
    g->fake.hold = true;
    read_object(&r);
    CHECK(r.rc == ERR_OK && r.got >= 100000 && r.got < SIZE);
    fake_release(&g->fake);
    for (int i = 0; i < 50; i++)
        CHECK(rt_sleep_ms(2) == ERR_OK);
    CHECK(!is_here(g, "left"));
    CHECK(read_key(g, "left", body).got == SIZE);
    CHECK_U64(g->fake.requests, 2);
}

static void
a_missing_key_is_not_kept(struct rig *g)
{
    g->fake.body = NULL;
    CHECK(read_key(g, "missing", body).rc == ERR_NOT_FOUND);
    fake_set(&g->fake, body, SIZE);
    CHECK(read_key(g, "missing", body).rc == ERR_OK);
}

/* ---- writes go through ---- */

static enum err
put(struct rig *g, const char *key, const char *bytes)
{
    struct object_put_options o = {.size = SIZE};
    struct object_meta meta = {0};
    struct object_info info;
    struct object_put *p = NULL;
    enum err rc = object_put_begin(g->at.object, g->cached, span_of(key), &o, &p, &g->eb);

    if (rc == ERR_OK)
        rc = object_put_write(p, bytes, SIZE, &g->eb);
    if (rc == ERR_OK)
        rc = object_put_commit(&p, &meta, g->arena, &info, &g->eb);
    object_put_abort(&p);
    arena_reset(g->arena);
    return rc;
}

static void
writes_and_in_doubt_records(struct rig *g)
{
    struct reader r;

    CHECK(put(g, "w", body) == ERR_OK);
    CHECK(g->fake.stored.len == SIZE && memcmp(g->fake.stored.at, body, SIZE) == 0);
    g->fake.requests = 0;
    CHECK(read_key(g, "w", body).source == OBJECT_LOCAL);
    CHECK_U64(g->fake.requests, 0);

    /* Refused in words: what was here still is. */
    g->fake.fail_times = 1;
    g->fake.fail_status = 403;
    CHECK(put(g, "w", other) == ERR_DENIED);
    g->fake.requests = 0;
    CHECK(read_key(g, "w", body).source == OBJECT_LOCAL);
    CHECK_U64(g->fake.requests, 0);

    /* No answer: the next read asks the remote, which has it. */
    g->fake.fail_times = 100;
    g->fake.fail_status = 0;
    CHECK(put(g, "w", other) == ERR_BACKEND);
    CHECK(!is_here(g, "w"));
    g->fake.fail_times = 0;
    fake_set(&g->fake, other, SIZE);
    r = read_key(g, "w", other);
    CHECK(r.rc == ERR_OK && r.source == OBJECT_FETCHED && r.got == SIZE);
    CHECK(comes_here(g, "w"));

    /* The same of a key that was never here: it can be kept again, too. */
    g->fake.fail_times = 100;
    CHECK(put(g, "never", body) == ERR_BACKEND);
    g->fake.fail_times = 0;
    r = read_key(g, "never", other);
    CHECK(r.rc == ERR_OK && r.got == SIZE && comes_here(g, "never"));
    CHECK(read_key(g, "never", other).source == OBJECT_LOCAL);

    /* And one that the remote turns out not to have. */
    g->fake.fail_times = 100;
    CHECK(put(g, "nowhere", body) == ERR_BACKEND);
    g->fake.fail_times = 0;
    g->fake.body = NULL;
    CHECK(read_key(g, "nowhere", body).rc == ERR_NOT_FOUND);

    fake_set(&g->fake, other, SIZE);
    CHECK(object_delete(g->at.object, g->cached, SPAN("w"), &g->eb) == ERR_OK);
    CHECK(read_key(g, "w", body).rc == ERR_NOT_FOUND);
}

/* ---- a page while the remote is down ---- */

static void
the_remote_is_down(struct rig *g)
{
    struct object_list_options o = {.max = 100};
    struct object_page page;
    bool seen = false;

    g->fake.fail_times = 100;
    g->fake.fail_status = 503;
    CHECK(object_list(g->at.object, g->cached, &o, g->arena, &page, &g->eb) == ERR_OK);
    CHECK(page.stale && page.count > 0);
    for (uint32_t i = 0; i < page.count; i++) {
        seen = seen || span_is(page.entries[i].name, "shared");
        CHECK(!span_is(page.entries[i].name, "nowhere"));
    }
    CHECK(seen);
    CHECK(read_key(g, "shared", body).rc == ERR_OK);
    g->fake.fail_times = 0;
    arena_reset(g->arena);
}

/* ---- listings against a model ---- */

#define KEYS 700

static struct {
    char text[40];
    size_t len;
} keys[KEYS];

static int
by_bytes(const void *a, const void *b)
{
    return span_cmp((struct span){a, strlen(a)}, (struct span){b, strlen(b)});
}

/* What a listing from `after` on must give: the plain definition, without any cleverness. */
static uint32_t
model(const struct object_list_options *o, struct span *names, bool *more)
{
    uint32_t count = 0;

    *more = false;
    for (int i = 0; i < KEYS; i++) {
        struct span name = {keys[i].text, keys[i].len};
        const char *at = NULL;

        if (!span_starts(name, o->prefix))
            continue;
        if (o->delimiter.len > 0)
            at = memmem(name.at + o->prefix.len, name.len - o->prefix.len,
                        o->delimiter.at, o->delimiter.len);
        if (at != NULL)
            name.len = (size_t)(at - name.at) + o->delimiter.len;
        if (span_cmp((struct span){keys[i].text, keys[i].len}, o->after) <= 0 ||
            (at != NULL && span_eq(name, o->after)) ||
            (count > 0 && span_eq(names[count - 1], name)))
            continue;
        if (count == o->max) {
            *more = true;
            break;
        }
        names[count++] = name;
    }
    return count;
}

static void
compare(struct rig *g, struct object_list_options *o)
{
    static struct span names[1000];
    char after[64] = "";
    bool more = true;

    while (more) {
        struct object_page page;
        uint32_t want = model(o, names, &more);

        REQUIRE(object_list(g->at.object, g->native, o, g->arena, &page, &g->eb) ==
                ERR_OK);
        CHECK_U64(page.count, want);
        CHECK(page.truncated == more);
        for (uint32_t i = 0; i < page.count && i < want; i++)
            CHECK(span_eq(page.entries[i].name, names[i]));
        if (page.count != want || page.truncated != more) {
            fprintf(stderr, "  ... prefix \"%.*s\", delimiter \"%.*s\", after \"%.*s\"\n",
                    SPAN_ARG(o->prefix), SPAN_ARG(o->delimiter), SPAN_ARG(o->after));
            return;
        }
        snprintf(after, sizeof after, "%.*s", SPAN_ARG(page.next_after));
        o->after = span_of(after);
        arena_reset(g->arena);
    }
}

static void
lists_as_the_model_says(struct rig *g)
{
    static const char *const parts[] = {"a", "b", "/", "//", "-", "a/", "\xc3\xbf", "~"};
    static const char *const prefixes[] = {"", "a", "a/", "b/a", "/", "//", "zz", "\xc3"};
    static const char *const delimiters[] = {"", "/", "//", "a", "\xc3\xbf"};
    static const char *const afters[] = {"", "a", "a/", "a/b", "b", "~~~~~", "/", "//a"};
    static const uint32_t pages[] = {1, 3, 1000};
    struct object_put_options o = {.size = 1};
    struct object_meta meta = {0};
    uint64_t seed = 5;

    for (int i = 0; i < KEYS; i++) {
        for (int k = 0; k < 5; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            strcat(keys[i].text, parts[(seed >> 33) % ARRAY_LEN(parts)]);
            if ((seed >> 50) % 4 == 0)
                break;
        }
    }
    qsort(keys, KEYS, sizeof keys[0], by_bytes);
    for (int i = 0; i < KEYS; i++) {
        struct object_put *p = NULL;
        struct object_info info;

        keys[i].len = strlen(keys[i].text);
        if (i > 0 && strcmp(keys[i].text, keys[i - 1].text) == 0)
            continue; /* the model sees it once, too: equal to the one before */
        REQUIRE(object_put_begin(g->at.object, g->native,
                                 (struct span){keys[i].text, keys[i].len}, &o, &p,
                                 &g->eb) == ERR_OK);
        CHECK(object_put_write(p, "x", 1, &g->eb) == ERR_OK);
        CHECK(object_put_commit(&p, &meta, g->arena, &info, &g->eb) == ERR_OK);
    }
    arena_reset(g->arena);
    for (size_t p = 0; p < ARRAY_LEN(prefixes); p++)
        for (size_t d = 0; d < ARRAY_LEN(delimiters); d++)
            for (size_t a = 0; a < ARRAY_LEN(afters); a++)
                for (size_t m = 0; m < ARRAY_LEN(pages); m++) {
                    struct object_list_options l = {.prefix = span_of(prefixes[p]),
                                                    .delimiter = span_of(delimiters[d]),
                                                    .after = span_of(afters[a]),
                                                    .max = pages[m]};

                    if (pages[m] == 1 && prefixes[p][0] == '\0' && a > 1)
                        continue; /* many small pages: a few of them are enough */
                    compare(g, &l);
                }
}

/* ---- the rig ---- */

static void
open_rig(struct rig *g)
{
    struct stand *s = &g->at;
    struct map_backend b = {
        .bucket = (char *)"there", .credentials = (char *)"", .path_style = true};

    fake_start(&g->fake);
    b.endpoint = g->fake.endpoint;
    g->arena = arena_new(4096, 4u << 20);
    s->path = folder;
    s->cloud_options = (struct cloud_options){.retries = 2,
                                              .retry_ms = PATIENCE_MS,
                                              .timeout_ms = PATIENCE_MS,
                                              .connect_ms = PATIENCE_MS};
    stand_open(s);
    REQUIRE(map_bucket_create(s->map, SPAN("native"), NULL, 1, &g->native, &g->eb) ==
            ERR_OK);
    REQUIRE(map_bucket_create(s->map, SPAN("cached"), &b, 1, &g->cached, &g->eb) ==
            ERR_OK);
}

static void
world(void *arg)
{
    struct rig *g = arg;

    open_rig(g);
    one_fetch_for_all(g);
    wrong_bytes_are_held_back(g);
    who_leaves_leaves_nothing(g);
    a_missing_key_is_not_kept(g);
    writes_and_in_doubt_records(g);
    the_remote_is_down(g);
    lists_as_the_model_says(g);
    map_bucket_drop(&g->native);
    map_bucket_drop(&g->cached);
    object_end_fetches(g->at.object);
    stand_close(&g->at);
    arena_free(&g->arena);
    fake_stop(&g->fake);
}

static void
test_objects_native_and_cached(void)
{
    static struct rig g;
    struct rt_options o = {.engine = RT_EPOLL, .loops = 2};
    struct errbuf eb = {{0}};

    for (size_t i = 0; i < SIZE; i++) {
        body[i] = (char)(i * 7 + i / 251);
        other[i] = (char)(i * 5 + i / 253);
    }
    REQUIRE(mkdtemp(folder) != NULL);
    CHECK(rt_run(&o, world, &g, &eb) == ERR_OK);
    folder_remove(folder);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
    RUN(test_objects_native_and_cached);
    return check_done();
}
