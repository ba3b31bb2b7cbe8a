/* meta over etcd, against the model of etcd in the simulator: the suite of all backends, and what only a model can be made
 * to do: answers that are lost at a given request, requests that arrive late, doors that are shut. */
#include "base/log.h"
#include "etcd_model.h"
#include "rt/sim.h"
#include "unit/meta/suite.h"

static enum err
etcd_open(const char *urls, struct meta **out, struct errbuf *eb)
{
    return meta_open_etcd(
        &(struct meta_etcd_options){.endpoints = urls, .prefix = "forebay/t/"}, out, eb);
}

static void
world(fiber_fn *fn, uint64_t seed)
{
    struct sim *s = sim_new(&(struct sim_options){.seed = seed, .max_delay_us = 500});
    struct errbuf eb = {{0}};

    CHECK(sim_run_world(s, fn, NULL, &eb) == ERR_OK);
    sim_free(&s);
}

static void
the_suite(void *arg)
{
    struct model *model = model_new();
    struct meta *m = NULL;
    struct errbuf eb = {{0}};

    (void)arg;
    CHECK(etcd_open(model_door(model, 0), &m, &eb) == ERR_OK);
    CHECK_STR(eb.text, "");
    if (m != NULL) {
        CHECK_U64(meta_cluster_id(m), 77);
        suite_all(m, true);
    }
    meta_close(&m);
    model_free(&model);
}

static void
test_suite(void)
{
    for (uint64_t seed = 1; seed <= 3; seed++)
        world(the_suite, seed);
}

static unsigned woken;

static void
on_woken(void *arg)
{
    (void)arg;
    woken++;
}

/* Since `woken` was set to 0. */
static void
wait_woken(unsigned want)
{
    for (unsigned i = 0; i < 60000 && woken < want; i++)
        (void)!rt_sleep_ms(1);
    CHECK(woken >= want);
}

/* Two writers of one key, one of which loses every answer: a change is made once, and each writer learns what became of it. */
static void
lost_answers(void *arg)
{
    struct model *model = model_new();
    struct meta *a = NULL, *b = NULL;
    struct meta_result r;
    struct errbuf eb = {{0}};
    struct arena *arena = arena_new(4096, 1u << 20);
    struct meta_change c = {.key = SPAN("k"), .value = SPAN("one"), .if_revision = 0};
    struct meta_txn t = {.changes = &c, .change_count = 1};

    (void)arg;
    CHECK(etcd_open(model_door(model, 0), &a, &eb) == ERR_OK);
    CHECK(etcd_open(model_door(model, 1), &b, &eb) == ERR_OK);
    model->doors[0].lose_answers = 1;
    CHECK(meta_apply_txn(a, &t, arena, &r, &eb) == ERR_OK && !r.unknown);
    CHECK_U64(r.revision, model->revision);
    /* The request itself is lost: the second one makes the change. */
    c = (struct meta_change){
        .key = SPAN("k"), .value = SPAN("two"), .if_revision = r.revision};
    model->doors[0].lose_answers = 3;
    CHECK(meta_apply_txn(a, &t, arena, &r, &eb) == ERR_OK && !r.unknown);
    CHECK_U64(model->revision, r.revision);
    /* No condition: not sent again. */
    c.if_revision = META_ANY;
    model->doors[0].lose_answers = 1;
    CHECK(meta_apply_txn(a, &t, arena, &r, &eb) != ERR_OK && r.unknown);
    /* The request waits in front of the store while the other one writes. */
    c = (struct meta_change){
        .key = SPAN("k"), .value = SPAN("late"), .if_revision = model->revision};
    model->doors[0].delay_ms = 6000; /* longer than one try */
    CHECK(meta_apply_txn(a, &t, arena, &r, &eb) == ERR_OK || r.unknown);
    model->doors[0].delay_ms = 0;
    meta_close(&a);
    meta_close(&b);
    arena_free(&arena);
    model_free(&model);
}

static void
test_lost_answers(void)
{
    world(lost_answers, 5);
}

/* ---- many writers, many lost answers ---- */

#define WRITERS 3u
#define WRITES  15u

struct writer {
    struct model *model;
    struct meta *meta;
    unsigned number;
    struct {
        enum err rc;
        bool unknown;
        char value[24];
    } writes[WRITES];
};

static void
disturb(struct model_door *d)
{
    switch (sim_random() % 6) {
    case 0:
        d->lose_answers = 1 + (unsigned)(sim_random() % 3);
        break;
    case 1:
        d->delay_ms = sim_random() % 7000;
        break;
    case 2:
        d->in = sim_random() % 2 == 0 ? MODEL_LOSE : MODEL_HOLD;
        break;
    case 3:
        d->out = sim_random() % 2 == 0 ? MODEL_LOSE : MODEL_HOLD;
        break;
    default:
        d->lose_answers = 0;
        d->delay_ms = 0;
        d->in = d->out = MODEL_OPEN;
        break;
    }
}

/* Each write has a value of its own and the revision that this writer read before. */
static void
write_often(void *arg)
{
    struct writer *w = arg;

    for (unsigned i = 0; i < WRITES; i++) {
        struct arena *a = arena_new(4096, KIB(64));
        struct meta_change c = {.key = SPAN("k")};
        struct meta_txn t = {.changes = &c, .change_count = 1};
        struct meta_result r;
        struct meta_pair pair = {0};
        struct errbuf eb = {{0}};
        enum err rc;

        do {
            disturb(&w->model->doors[w->number]);
            rc = meta_get(w->meta, c.key, a, &pair, &eb);
        } while (rc != ERR_OK && rc != ERR_NOT_FOUND);
        disturb(&w->model->doors[w->number]);
        (void)!rt_sleep_ms(sim_random() % 3000); /* another one may write meanwhile */
        snprintf(w->writes[i].value, sizeof w->writes[i].value, "%u-%u", w->number, i);
        c.value = span_of(w->writes[i].value);
        c.if_revision = pair.revision;
        w->writes[i].rc = meta_apply_txn(w->meta, &t, a, &r, &eb);
        w->writes[i].unknown = r.unknown;
        arena_free(&a);
    }
}

static unsigned
times_in_history(const struct model *m, const char *value)
{
    unsigned n = 0;

    for (size_t i = 0; i < m->count; i++)
        n += span_is(m->events[i].value, value);
    return n;
}

static unsigned outcomes[3]; /* made, not made, unknown */

/* Made: once in the history. Not made: never, also not later. Unknown: at most once. */
static void
check_writes(const struct writer *w)
{
    for (unsigned i = 0; i < WRITES; i++) {
        unsigned n = times_in_history(w->model, w->writes[i].value);
        bool made = w->writes[i].rc == ERR_OK;

        CHECK(n <= 1);
        CHECK(!made || (n == 1 && !w->writes[i].unknown));
        CHECK(made || w->writes[i].unknown || n == 0);
        outcomes[w->writes[i].unknown ? 2 : !made]++;
    }
}

static void
many_writers(void *arg)
{
    struct model *model = model_new();
    struct writer *writers = xcalloc(WRITERS, sizeof *writers);
    struct errbuf eb = {{0}};
    struct rt_group g;

    (void)arg;
    for (unsigned i = 0; i < WRITERS; i++) {
        writers[i].model = model;
        writers[i].number = i;
        CHECK(etcd_open(model_door(model, i), &writers[i].meta, &eb) == ERR_OK);
    }
    rt_group_begin(&g);
    for (unsigned i = 0; i < WRITERS; i++)
        CHECK(rt_group_start(&g, write_often, &writers[i]) == ERR_OK);
    rt_group_join(&g);
    for (unsigned i = 0; i < WRITERS; i++)
        model->doors[i].in = model->doors[i].out = MODEL_OPEN;
    (void)!rt_sleep_ms(30000); /* what is held up arrives */
    for (unsigned i = 0; i < WRITERS; i++) {
        check_writes(&writers[i]);
        meta_close(&writers[i].meta);
    }
    free(writers);
    model_free(&model);
}

static void
test_a_change_is_made_once(void)
{
    log_set_level(LOG_ERROR);
    for (uint64_t seed = 100; seed < 102; seed++)
        world(many_writers, seed);
    log_set_level(LOG_INFO);
    for (unsigned i = 0; i < 3; i++)
        CHECK(outcomes[i] > 2);
}

/* What changes while the watch is broken is seen when it is back; also where etcd has forgotten it. */
static void
watch_gaps(void *arg)
{
    struct model *model = model_new();
    struct meta *a = NULL, *b = NULL;
    struct meta_watch *w = NULL;
    struct errbuf eb = {{0}};
    struct rt_scope scope;

    (void)arg;
    rt_scope_begin(&scope, deadline_in_ms(1000)); /* bounds the call, not the watch */
    CHECK(etcd_open(model_door(model, 0), &a, &eb) == ERR_OK);
    rt_scope_end(&scope);
    CHECK(etcd_open(model_door(model, 1), &b, &eb) == ERR_OK);
    REQUIRE(a != NULL && b != NULL);
    CHECK(meta_watch_start(a, SPAN("w/"), on_woken, NULL, &w, &eb) == ERR_OK);
    woken = 0;
    CHECK(suite_put(b, "w/1", "", META_ANY, NULL) == ERR_OK);
    wait_woken(1);
    model_door_close(model, 0);
    CHECK(suite_put(b, "w/1", "while it is away", META_ANY, NULL) == ERR_OK);
    (void)!rt_sleep_ms(1000);
    woken = 0;
    model_door(model, 0);
    wait_woken(1);
    model_door_close(model, 0); /* and now its history is gone too */
    CHECK(suite_put(b, "w/1", "forgotten", META_ANY, NULL) == ERR_OK);
    CHECK(suite_put(b, "other", "", META_ANY, NULL) == ERR_OK);
    model_compact(model, model->revision);
    woken = 0;
    model_door(model, 0);
    wait_woken(1);
    woken = 0;
    CHECK(suite_put(b, "w/2", "", META_ANY, NULL) == ERR_OK);
    wait_woken(1);
    /* A door that keeps its connections and lets nothing through: closed after a while. */
    model->doors[0].out = MODEL_HOLD;
    CHECK(suite_put(b, "w/3", "", META_ANY, NULL) == ERR_OK);
    (void)!rt_sleep_ms(40000);
    woken = 0;
    model->doors[0].out = MODEL_OPEN;
    wait_woken(1);
    meta_watch_stop(&w);
    meta_close(&a);
    meta_close(&b);
    model_free(&model);
}

static void
test_watch_gaps(void)
{
    world(watch_gaps, 7);
}

/* One of two endpoints is down, then the other one, then both: calls go on, or end in time and in words. */
static void
endpoints_fail(void *arg)
{
    struct model *model = model_new();
    struct meta *m = NULL;
    struct meta_pair pair;
    struct arena *a = arena_new(4096, 1u << 20);
    struct errbuf eb = {{0}};
    char urls[100];
    uint64_t began;

    (void)arg;
    snprintf(urls, sizeof urls, "%s,%s/", model_door(model, 0), model_door(model, 1));
    CHECK(etcd_open(urls, &m, &eb) == ERR_OK);
    REQUIRE(m != NULL);
    model_door_close(model, 0);
    CHECK(suite_put(m, "k", "one", META_ANY, NULL) == ERR_OK ||
          suite_put(m, "k", "one", META_ANY, NULL) == ERR_OK);
    model_door(model, 0);
    model_door_close(model, 1);
    CHECK(meta_get(m, SPAN("k"), a, &pair, &eb) == ERR_OK && span_is(pair.value, "one"));
    model_door_close(model, 0);
    began = rt_now_ns();
    CHECK(meta_get(m, SPAN("k"), a, &pair, &eb) != ERR_OK);
    CHECK(eb.text[0] != '\0');
    CHECK(rt_now_ns() - began < 11000000000u);
    model_door(model, 1);
    CHECK(meta_get(m, SPAN("k"), a, &pair, &eb) == ERR_OK);
    meta_close(&m);
    arena_free(&a);
    model_free(&model);
}

static void
test_endpoints(void)
{
    world(endpoints_fail, 9);
}

/* Users and passwords; a token that is not valid any more is renewed. */
static void
users(void *arg)
{
    struct model *model = model_new();
    struct meta_etcd_options o = {
        .endpoints = model_door(model, 0), .prefix = "p/", .user = "user"};
    struct meta *m = NULL;
    struct errbuf eb = {{0}};

    (void)arg;
    model->password = "right";
    o.password = "wrong";
    CHECK(meta_open_etcd(&o, &m, &eb) == ERR_DENIED && m == NULL);
    CHECK_SAYS(eb.text, "\"user\"");
    CHECK_SAYS(eb.text, "invalid user ID or password");
    o.user = NULL;
    CHECK(meta_open_etcd(&o, &m, &eb) == ERR_DENIED && m == NULL);
    CHECK_SAYS(eb.text, "wants a user");
    o.user = "user";
    o.password = "right";
    CHECK(meta_open_etcd(&o, &m, &eb) == ERR_OK);
    REQUIRE(m != NULL);
    CHECK(suite_put(m, "k", "one", META_ANY, NULL) == ERR_OK);
    model->token++;
    CHECK(suite_put(m, "k", "two", META_ANY, NULL) == ERR_OK);
    meta_close(&m);
    model->password = NULL; /* it knows no users: a name and a password do no harm */
    CHECK(meta_open_etcd(&o, &m, &eb) == ERR_OK);
    meta_close(&m);
    model_free(&model);
}

#define CALLERS 4u

static void
put_with_old_token(void *arg)
{
    for (unsigned i = 0; i < 8; i++) {
        CHECK(suite_put(arg, "k", "v", META_ANY, NULL) == ERR_OK);
        (void)!rt_sleep_ms(sim_random() % 3);
    }
}

/* The token ends while several fibers call: each logs in, and none loses or frees the token of another. */
static void
users_at_once(void *arg)
{
    struct model *model = model_new();
    struct meta_etcd_options o = {.endpoints = model_door(model, 0),
                                  .prefix = "p/",
                                  .user = "user",
                                  .password = "right"};
    struct meta *m = NULL;
    struct errbuf eb = {{0}};
    struct rt_group g;

    (void)arg;
    model->password = "right";
    CHECK(meta_open_etcd(&o, &m, &eb) == ERR_OK);
    REQUIRE(m != NULL);
    for (unsigned round = 0; round < 10; round++) {
        model->token++;
        rt_group_begin(&g);
        for (unsigned i = 0; i < CALLERS; i++)
            CHECK(rt_group_start(&g, put_with_old_token, m) == ERR_OK);
        rt_group_join(&g);
    }
    meta_close(&m);
    model_free(&model);
}

static void
test_users(void)
{
    world(users, 11);
    for (uint64_t seed = 20; seed < 25; seed++)
        world(users_at_once, seed);
}

/* A store that went back in time, or another one, is refused from the first answer on. */
static void
went_back(void *arg)
{
    struct model *model = model_new();
    struct meta *m = NULL;
    struct meta_pair pair;
    struct arena *a = arena_new(4096, 1u << 20);
    struct errbuf eb = {{0}};

    (void)arg;
    CHECK(etcd_open(model_door(model, 0), &m, &eb) == ERR_OK);
    REQUIRE(m != NULL);
    for (int i = 0; i < 5; i++)
        CHECK(suite_put(m, "k", "v", META_ANY, NULL) == ERR_OK);
    model_restore(model, 3);
    CHECK(meta_get(m, SPAN("k"), a, &pair, &eb) == ERR_UNAVAILABLE);
    CHECK_SAYS(eb.text, "revision 3 and was at 6");
    CHECK(suite_put(m, "k", "v", META_ANY, NULL) == ERR_UNAVAILABLE);
    CHECK_U64(model->revision, 3);
    meta_close(&m);
    CHECK(etcd_open(model_door(model, 0), &m, &eb) == ERR_OK);
    REQUIRE(m != NULL);
    model->cluster = 78;
    CHECK(meta_get(m, SPAN("k"), a, &pair, &eb) == ERR_UNAVAILABLE);
    CHECK_SAYS(eb.text, "cluster 4e");
    meta_close(&m);
    arena_free(&a);
    model_free(&model);
}

static void
test_went_back(void)
{
    world(went_back, 13);
}

static void
options(void *arg)
{
    static const struct {
        const char *urls, *says;
    } rows[] = {
        {"", "no address"},
        {"10.0.0.1:2379", "http://HOST:PORT"},
        {"http://etcd", "a host and a port"},
        {"http://:2379", "a host and a port"},
        {"http://etcd:0", "a host and a port"},
        {"http://etcd:99999", "a host and a port"},
        {"http://etcd:2379/x", "a host and a port"},
        {"http://a:1,https://b:2", "not both"},
        {"http://a:1,,http://b:2", "http://HOST:PORT"},
    };
    struct meta *m = NULL;

    (void)arg;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct errbuf eb = {{0}};

        CHECK(etcd_open(rows[i].urls, &m, &eb) == ERR_BAD_REQUEST && m == NULL);
        CHECK_SAYS(eb.text, rows[i].says);
    }
}

static void
test_options(void)
{
    world(options, 15);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_suite);
    RUN(test_lost_answers);
    RUN(test_a_change_is_made_once);
    RUN(test_watch_gaps);
    RUN(test_endpoints);
    RUN(test_users);
    RUN(test_went_back);
    RUN(test_options);
    return check_done();
}
