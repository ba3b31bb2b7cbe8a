/* What a bucket holds in parts of uploads in progress: random uploads that get, replace and abort parts, that are completed
 * and aborted, some at the same time, over compactions, restarts and rebuilds; after each step it is what the listings
 * say, and what a model says. Protects S11: a quota counts what lies on the disk.
 */
#include "open_parts.h"
#include "unit/store/world.h"

#include <stdlib.h>

#define KEYS    4u
#define NUMBERS 5u
#define LARGE   300000u /* a body of its own */
#define STEPS   120u

static char data[LARGE];
static uint64_t state;

static uint32_t
rnd(uint32_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

struct model {
    struct one {
        bool open;
        struct upload_id id;
        uint64_t size[NUMBERS + 1]; /* by number; 0: none */
    } of[KEYS];
};

static struct store_key
key_of(unsigned i)
{
    static const char *const names[KEYS] = {"a", "a/b", "b", "c"};

    return world_key(7, names[i]);
}

static void
check_model(struct store *d, const struct model *m)
{
    uint64_t parts = 0, bytes = 0, got, got_bytes;
    struct errbuf eb = {{0}};
    struct store_stat st;

    for (unsigned i = 0; i < KEYS; i++)
        for (unsigned n = 1; m->of[i].open && n <= NUMBERS; n++) {
            parts += m->of[i].size[n] > 0;
            bytes += m->of[i].size[n];
        }
    store_bucket_usage(d, 7, USAGE_OPEN, &got, &got_bytes);
    CHECK_U64(got, parts);
    CHECK_U64(got_bytes, bytes);
    CHECK(check_open_parts(d, 7, &eb) == ERR_OK);
    store_stat(d, &st);
    CHECK_U64(st.open_parts, parts);
    CHECK_U64(st.open_bytes, bytes);
}

struct putting {
    struct store *disk;
    struct store_key key;
    struct upload_id id;
    uint32_t number;
    uint64_t size;
    enum err rc;
};

static void
put_part(void *arg)
{
    struct putting *p = arg;
    struct object_meta meta = {.mtime_ms = 5};
    struct store_writer *w = NULL;
    struct errbuf eb = {{0}};

    p->rc = store_part_begin(p->disk, &p->key, &p->id, p->number, p->size, &w, &eb);
    if (p->rc == ERR_OK)
        p->rc = store_write(w, data, p->size, &eb);
    if (p->rc == ERR_OK)
        p->rc = store_part_commit(&w, &meta, &eb);
    store_write_abort(&w);
}

static uint64_t
some_size(void)
{
    return rnd(4) == 0 ? LARGE - rnd(1000) : 1 + rnd(9000);
}

static void
begin(struct store *d, struct model *m, unsigned i)
{
    struct store_key k = key_of(i);
    struct object_meta meta = {.content_type = SPAN("text/parts")};
    struct errbuf eb = {{0}};

    m->of[i] = (struct one){.open = true};
    CHECK(store_upload_begin(d, &k, STORE_NATIVE, &meta, &m->of[i].id, &eb) == ERR_OK);
}

/* Two of one number at once: they may meet in one batch, and the later one is there. */
static void
put(struct store *d, struct model *m, unsigned i, bool twice)
{
    uint32_t number = 1 + rnd(NUMBERS);
    struct putting p[2] = {{d, key_of(i), m->of[i].id, number, some_size(), ERR_BUSY},
                           {d, key_of(i), m->of[i].id, number, some_size(), ERR_BUSY}};
    struct store_part *parts;
    struct arena *a = arena_new(KIB(4), MIB(1));
    struct rt_group g;
    struct errbuf eb = {{0}};
    uint32_t count;
    bool more;

    rt_group_begin(&g);
    for (unsigned n = 0; n < (twice ? 2u : 1u); n++)
        CHECK(rt_group_start(&g, put_part, &p[n]) == ERR_OK);
    rt_group_join(&g);
    CHECK(p[0].rc == ERR_OK && (!twice || p[1].rc == ERR_OK));
    REQUIRE(store_part_list(d, &p[0].key, &p[0].id, number - 1, 1, a, &parts, &count,
                            &more, &eb) == ERR_OK);
    REQUIRE(count == 1 && parts->number == number);
    CHECK(parts->size == p[0].size || (twice && parts->size == p[1].size));
    m->of[i].size[number] = parts->size;
    arena_free(&a);
}

static void
complete(struct store *d, struct model *m, unsigned i)
{
    struct store_key k = key_of(i);
    struct store_part *parts;
    struct object_meta meta = {.mtime_ms = 9, .parts = 1};
    struct arena *a = arena_new(KIB(4), MIB(1));
    struct errbuf eb = {{0}};
    struct entry entry;
    uint32_t count, less = rnd(2); /* what is not named is aborted */
    bool more;

    REQUIRE(store_part_list(d, &k, &m->of[i].id, 0, 100, a, &parts, &count, &more, &eb) ==
            ERR_OK);
    if (count > 0)
        CHECK(store_upload_complete(d, &k, &m->of[i].id, parts,
                                    count > 1 ? count - less : count, &meta, NULL, &entry,
                                    &eb) == ERR_OK);
    m->of[i].open = m->of[i].open && count == 0;
    arena_free(&a);
}

struct aborting {
    struct store *disk;
    struct store_key key;
    struct upload_id id;
};

static void
abort_it(void *arg)
{
    struct aborting *b = arg;
    struct errbuf eb = {{0}};

    CHECK(store_upload_abort(b->disk, &b->key, &b->id, &eb) == ERR_OK);
}

/* Beside a part that comes: it is there before the end, or is refused. */
static void
abort_upload(struct store *d, struct model *m, unsigned i)
{
    struct putting p = {d, key_of(i), m->of[i].id, 1 + rnd(NUMBERS), some_size(), ERR_OK};
    struct aborting b = {d, key_of(i), m->of[i].id};
    struct rt_group g;

    rt_group_begin(&g);
    CHECK(rt_group_start(&g, put_part, &p) == ERR_OK);
    CHECK(rt_group_start(&g, abort_it, &b) == ERR_OK);
    rt_group_join(&g);
    CHECK(p.rc == ERR_OK || p.rc == ERR_NO_UPLOAD);
    m->of[i].open = false;
}

static void
restart(struct store **dp, bool rebuild)
{
    char command[300];

    store_close(dp);
    if (rebuild) {
        snprintf(command, sizeof command, "rm -r '%s/index'", world_path);
        CHECK(system(command) == 0);
    }
    *dp = world_open_small_logs();
}

static void
step(struct store **dp, struct model *m)
{
    unsigned i = rnd(KEYS), what = rnd(20);
    struct errbuf eb = {{0}};

    if (what == 0)
        restart(dp, rnd(2) == 0);
    else if (what == 1)
        CHECK(store_compact(*dp, &eb) == ERR_OK);
    else if (!m->of[i].open)
        begin(*dp, m, i);
    else if (what < 4)
        complete(*dp, m, i);
    else if (what < 6)
        abort_upload(*dp, m, i);
    else
        put(*dp, m, i, what < 10);
}

static void
life(void *arg)
{
    struct store *d = world_open_small_logs();
    struct model m = {0};

    state = *(uint64_t *)arg;
    for (unsigned n = 0; n < STEPS; n++) {
        step(&d, &m);
        check_model(d, &m);
    }
    for (unsigned rebuild = 0; rebuild < 2; rebuild++) {
        restart(&d, rebuild == 1);
        check_model(d, &m);
    }
    store_close(&d);
    world_check_sound();
}

static void
test_open_uploads(void)
{
    const char *given = getenv("SEED");
    uint64_t first = given != NULL ? strtoull(given, NULL, 10) : 1;

    for (uint64_t seed = first; seed < first + (given != NULL ? 1 : 8); seed++)
        world_run(life, &seed);
}

/* An upload that copies an object of another disk is none of a client's. */
static void
copying(void *arg)
{
    struct store *d = world_open(NULL);
    struct store_key k = world_key(7, "key");
    struct entry entry = {.version = {1, 5}, .content = {{1, 2, 3}}, .mtime_ms = 5};
    struct putting p = {.disk = d, .key = k, .number = 1, .size = 5000};
    struct errbuf eb = {{0}};
    uint64_t parts, bytes;

    (void)arg;
    CHECK(store_replica_begin(d, &k, &entry, &p.id, &eb) == ERR_OK);
    put_part(&p);
    CHECK(p.rc == ERR_OK);
    for (unsigned rebuild = 0; rebuild < 2; rebuild++) {
        store_bucket_usage(d, 7, USAGE_OPEN, &parts, &bytes);
        CHECK(parts == 0 && bytes == 0);
        restart(&d, rebuild == 1);
    }
    store_close(&d);
}

static void
test_copies_do_not_count(void)
{
    world_run(copying, NULL);
}

int
main(int argc, char **argv)
{
    world_fill(data, sizeof data, 1);
    CHECK_MAIN(argc, argv);
    RUN(test_open_uploads);
    RUN(test_copies_do_not_count);
    return check_done();
}
