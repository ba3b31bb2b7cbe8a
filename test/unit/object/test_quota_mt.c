/* quota: many who write into one bucket at once never pass its quota together, in any order of their steps (virtual time), and
 * on two loops; and what they had announced is given back in every way that a body can end: committed, aborted, refused, with
 * a failed condition, as a part, as parts that become an object. Protects S11. */
#include <stdatomic.h>

#include "base/log.h"
#include "base/mem.h"
#include "check.h"
#include "folder.h"
#include "rt/loop.h"
#include "rt/sim.h"
#include "unit/object/stand.h"

#define CLIENTS 12u
#define DEEDS   10u
#define KEYS    9u
#define BYTES   20000u /* the quota */
#define OBJECTS 7u
#define BODY    6000u

struct rig {
    struct stand at;
    const struct map_bucket *bucket;
    _Atomic unsigned taken, refused, over;
    uint64_t seed;
};
struct client {
    struct rig *g;
    uint64_t state;
};

static unsigned
draw(struct client *c, unsigned below)
{
    c->state = c->state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(c->state >> 33) % below;
}

static enum err
give_quota(struct map_bucket *b, void *arg, struct errbuf *eb)
{
    (void)arg;
    (void)eb;
    b->quota_bytes = BYTES;
    b->quota_objects = OBJECTS;
    return ERR_OK;
}

static void
open_rig(struct rig *g)
{
    struct stand *s = &g->at;
    const struct map_bucket *made;

    s->cloud_options = (struct cloud_options){.retries = 1,
                                              .retry_ms = PATIENCE_MS,
                                              .timeout_ms = PATIENCE_MS,
                                              .connect_ms = PATIENCE_MS};
    stand_open(s);
    REQUIRE(map_bucket_create(s->map, SPAN("b"), NULL, 1, &made, &s->eb) == ERR_OK);
    REQUIRE(map_bucket_change(s->map, SPAN("b"), made->id, give_quota, NULL, &g->bucket,
                              &s->eb) == ERR_OK);
    map_bucket_drop(&made);
}

static void
close_rig(struct rig *g)
{
    map_bucket_drop(&g->bucket);
    stand_close(&g->at);
}

/* Is more there than the quota says? Of a part that becomes an object just now on another loop both are seen: there only the
 * objects. */
static bool
is_over(struct rig *g)
{
    uint64_t objects, bytes, parts, open = 0;

    disks_bucket_usage(g->at.disks, g->bucket->id, USAGE_LIVE, 1, &objects, &bytes);
    if (rt_loop_count() == 1)
        disks_bucket_usage(g->at.disks, g->bucket->id, USAGE_OPEN, 1, &parts, &open);
    return objects > OBJECTS || bytes + open > BYTES;
}

static void
count(struct rig *g, enum err rc)
{
    if (rc != ERR_OK && rc != ERR_QUOTA && rc != ERR_PRECONDITION && rc != ERR_BUSY)
        CHECK_STR(err_name(rc), "an answer");
    g->taken += rc == ERR_OK;
    g->refused += rc == ERR_QUOTA;
}

/* The body in pieces, with others' steps between them; one in four clients goes away. */
static enum err
send(struct client *c, struct object_put **put, uint64_t size, struct arena *a,
     struct object_info *info)
{
    static const char body[BODY];
    struct object_meta meta = {.mtime_ms = 1};
    struct errbuf eb = {{0}};
    enum err rc = ERR_OK;

    for (uint64_t at = 0; rc == ERR_OK && at < size;) {
        uint64_t n = 1 + draw(c, BODY / 2);

        n = MIN(n, size - at);
        rc = object_put_write(*put, body, n, &eb);
        at += n;
        if (rt_sleep_ms(draw(c, 3)) != ERR_OK)
            break;
    }
    if (draw(c, 4) == 0) {
        object_put_abort(put);
        return ERR_PRECONDITION; /* nothing to count */
    }
    return rc == ERR_OK ? object_put_commit(put, &meta, a, info, &eb) : rc;
}

static void
put_one(struct client *c, struct span key, struct arena *a)
{
    struct object_condition absent = {.disk = {.if_absent = true}};
    uint64_t size = draw(c, BODY);
    struct object_put_options o = {.size = draw(c, 3) == 0 ? STORE_SIZE_UNKNOWN : size,
                                   .condition = draw(c, 4) == 0 ? &absent : NULL};
    struct object_put *put = NULL;
    struct object_info info;
    struct errbuf eb = {{0}};
    enum err rc = object_put_begin(c->g->at.object, c->g->bucket, key, &o, &put, &eb);

    if (rc == ERR_OK)
        rc = send(c, &put, size, a, &info);
    object_put_abort(&put);
    count(c->g, rc);
}

/* Two parts, one of them again, completed or not: what is left is aborted. */
static void
upload_one(struct client *c, struct span key, struct arena *a)
{
    struct rig *g = c->g;
    struct object_meta meta = {.mtime_ms = 1};
    struct object_complete_part part;
    struct object_complete what = {
        .parts = &part, .count = 1, .want_size = OBJECT_ANY_SIZE};
    struct object_bad_part bad;
    struct object_info info = {0};
    struct errbuf eb = {{0}};
    struct span id;
    enum err rc = object_upload_begin(g->at.object, g->bucket, key, &meta, a, &id, &eb);

    CHECK(rc == ERR_OK);
    for (unsigned i = 0; i < 2; i++) {
        struct object_put_options o = {.size = draw(c, BODY)};
        struct object_put *put = NULL;
        enum err one =
            object_part_begin(g->at.object, g->bucket, key, id, 1, &o, &put, &eb);

        if (one == ERR_OK)
            one = send(c, &put, o.size, a, &info);
        object_put_abort(&put);
        count(g, one);
        if (one == ERR_OK)
            part = (struct object_complete_part){
                .number = 1, .etag = span_of(arena_strdup(a, span_of(info.etag)))};
        rc = one == ERR_OK || i == 0 ? one : rc;
    }
    if (rc == ERR_OK && draw(c, 3) > 0) {
        rc = object_upload_complete(g->at.object, g->bucket, key, id, &what, a, &info,
                                    &bad, &eb);
        count(g, rc);
        if (rc == ERR_OK)
            return;
    }
    CHECK(object_upload_abort(g->at.object, g->bucket, key, id, &eb) == ERR_OK);
}

static void
client(void *arg)
{
    struct client *c = arg;

    for (unsigned i = 0; i < DEEDS && !rt_cancelled(); i++) {
        struct arena *a = arena_new(4096, 1u << 20);
        unsigned what = draw(c, 8);
        struct errbuf eb = {{0}};
        char name[8];

        snprintf(name, sizeof name, "k%u", draw(c, KEYS));
        if (what == 0)
            CHECK(object_delete(c->g->at.object, c->g->bucket, span_of(name), &eb) ==
                  ERR_OK);
        else if (what < 3)
            upload_one(c, span_of(name), a);
        else
            put_one(c, span_of(name), a);
        c->g->over += is_over(c->g);
        arena_free(&a);
    }
}

struct half {
    struct rig *g;
    unsigned index;
};

static void
half(void *arg)
{
    struct half *h = arg;
    struct client clients[CLIENTS / 2];
    struct rt_group group;

    rt_group_begin(&group);
    for (unsigned i = 0; i < ARRAY_LEN(clients); i++) {
        clients[i] = (struct client){h->g, h->g->seed * 1000 + h->index * 100 + i};
        CHECK(rt_group_start(&group, client, &clients[i]) == ERR_OK);
    }
    rt_group_join(&group);
}

static void
other_half(void *arg)
{
    CHECK(rt_call(rt_loop_count() - 1, half, arg) == ERR_OK);
}

/* All of the quota is to be had again, to the byte, and no more. */
static void
fill(struct rig *g)
{
    struct errbuf eb = {{0}};
    struct object_put_options o = {.size = BYTES};
    struct object_put *put = NULL, *more = NULL;
    char name[8];

    for (unsigned i = 0; i < KEYS; i++) {
        snprintf(name, sizeof name, "k%u", i);
        CHECK(object_delete(g->at.object, g->bucket, span_of(name), &eb) == ERR_OK);
    }
    CHECK(object_put_begin(g->at.object, g->bucket, SPAN("all"), &o, &put, &eb) ==
          ERR_OK);
    o.size = 1;
    CHECK(object_put_begin(g->at.object, g->bucket, SPAN("k"), &o, &more, &eb) ==
          ERR_QUOTA);
    CHECK_SAYS(eb.text, "20000 are on their way; with 1 more it would be over");
    object_put_abort(&put);
    CHECK(object_put_begin(g->at.object, g->bucket, SPAN("k"), &o, &more, &eb) == ERR_OK);
    object_put_abort(&more);
}

static void
world(void *arg)
{
    struct rig *g = arg;
    struct half halves[2] = {{g, 0}, {g, 1}};
    struct rt_group group;

    open_rig(g);
    rt_group_begin(&group);
    CHECK(rt_group_start(&group, half, &halves[0]) == ERR_OK);
    CHECK(rt_group_start(&group, other_half, &halves[1]) == ERR_OK);
    rt_group_join(&group);
    CHECK_U64(g->over, 0);
    CHECK(g->taken > 0 && g->refused > 0);
    fill(g);
    close_rig(g);
}

static void
test_in_any_order(void)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct sim_options o = {.seed = seed, .max_delay_us = 2000};
        struct rig g = {.at.path = "/disk", .seed = seed};
        struct sim *sim = sim_new(&o);
        struct errbuf eb = {{0}};
        unsigned before = check_failures_;

        CHECK(sim_run_world(sim, world, &g, &eb) == ERR_OK);
        if (check_failures_ != before)
            fprintf(stderr, "  ... seed %llu\n", (unsigned long long)seed);
        sim_free(&sim);
    }
}

static void
test_on_two_loops(void)
{
    char folder[] = "/tmp/fb-quota-XXXXXX";
    struct rt_options o = {.engine = RT_EPOLL, .loops = 2};
    struct rig g = {.at.path = folder, .seed = 7};
    struct errbuf eb = {{0}};

    REQUIRE(mkdtemp(folder) != NULL);
    CHECK(rt_run(&o, world, &g, &eb) == ERR_OK);
    folder_remove(folder);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
    RUN(test_in_any_order);
    RUN(test_on_two_loops);
    return check_done();
}
