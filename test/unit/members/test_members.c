/* members, in virtual time on a model of etcd: joining, eviction, names given twice, probation, an etcd that went back, and
 * random lives with a checker. Each fault that can be planted must be found by it. */
#include "base/log.h"
#include "sim/members_life.h"

static struct life life;

static uint64_t
life_world(fiber_fn *fn, uint64_t seed)
{
    struct sim *s = sim_new(&(struct sim_options){.seed = seed, .max_delay_us = 2000});
    struct errbuf eb = {{0}};
    uint64_t hash;

    CHECK(sim_run_world(s, fn, NULL, &eb) == ERR_OK);
    hash = sim_trace_hash(s);
    sim_free(&s);
    return hash;
}

static void
start_all(struct life *l)
{
    life_begin(l);
    for (unsigned i = 0; i < LIFE_NODES; i++)
        CHECK(life_node_start(&l->nodes[i]));
    CHECK(life_wait_whole(l, 20));
}

/* Three nodes; one stands still: its keys have another owner within 12 s of its last lease, and it comes back. */
static void
evicted(void *arg)
{
    struct life *l = &life;
    struct life_node *n;
    const struct node_entry *e;
    uint64_t began;

    (void)arg;
    start_all(l);
    CHECK_U64(node_map_named(members_map(l->nodes[2].members), SPAN("node-c"))->number,
              3);
    n = &l->nodes[1];
    n->paused = true;
    l->model->doors[1].out = MODEL_HOLD;
    began = rt_now_ns();
    do
        (void)!rt_sleep_ms(10);
    while (life_owned_keys(l) < LIFE_KEYS || l->nodes[0].epoch < 4);
    CHECK(rt_now_ns() - began < 16000000000u);
    CHECK_U64(members_lease_left_ns(n->members), 0);
    e = node_map_named(members_map(l->nodes[0].members), SPAN("node-b"));
    CHECK(e->state == NODE_DOWN && e->strike_count == 1);
    life_heal(n);
    CHECK(life_wait_whole(l, 20));
    CHECK(members_why(n->members)[0] == '\0');
    life_end(l);
}

static void
test_evicted_and_back(void)
{
    life_world(evicted, 1);
}

/* A node that leaves in order is not waited for; one that crashed is, until it is certain that its lease is over. */
static void
left_and_crashed(void *arg)
{
    struct life *l = &life;
    uint64_t began;

    (void)arg;
    start_all(l);
    life_node_stop(&l->nodes[1], true);
    CHECK(life_node_start(&l->nodes[1]));
    began = rt_now_ns();
    CHECK(life_wait_whole(l, 20));
    CHECK(rt_now_ns() - began < 6000000000u);
    life_node_stop(&l->nodes[1], false);
    began = rt_now_ns();
    CHECK(life_node_start(&l->nodes[1]));
    CHECK(rt_now_ns() - began > 5000000000u);
    CHECK(life_wait_whole(l, 20));
    CHECK_U64(node_map_named(members_map(l->nodes[0].members), SPAN("node-b"))->number,
              2);
    life_end(l);
}

static void
test_left_and_crashed(void)
{
    life_world(left_and_crashed, 2);
}

/* Two processes with one name: the second one is refused in words, the first one goes on. */
static void
name_given_twice(void *arg)
{
    struct life *l = &life;
    struct members_options o = {.cluster = "bay", .node = "node-b"};
    struct members *second = NULL;
    struct errbuf eb = {{0}};

    (void)arg;
    start_all(l);
    o.meta = l->nodes[0].meta;
    CHECK(members_join(&o, &second, &eb) == ERR_UNAVAILABLE && second == NULL);
    CHECK_SAYS(eb.text, "another process runs as node \"node-b\"");
    CHECK(life_is_whole(l));
    life_end(l);
}

static void
test_name_given_twice(void)
{
    life_world(name_given_twice, 3);
}

static void
join_refused(struct life *l, const struct members_options *with, const char *says)
{
    struct members_options o = *with;
    struct members *m = NULL;
    struct errbuf eb = {{0}};

    o.meta = l->nodes[0].meta;
    CHECK(members_join(&o, &m, &eb) == ERR_UNAVAILABLE && m == NULL);
    CHECK_SAYS(eb.text, says);
}

/* What the disks know decides: another cluster, an older map, another node's number. */
static void
identities(void *arg)
{
    static const unsigned char other[16] = {1};
    struct life *l = &life;

    (void)arg;
    start_all(l);
    join_refused(l, &(struct members_options){.cluster = "sea", .node = "x"},
                 "etcd has cluster \"bay\" here, not \"sea\"");
    join_refused(l,
                 &(struct members_options){.cluster = "bay", .node = "x", .epoch = 400},
                 "restored from an older backup");
    join_refused(
        l, &(struct members_options){.cluster = "bay", .node = "x", .cluster_id = other},
        "belong to another cluster");
    join_refused(l, &(struct members_options){.cluster = "bay", .node = "x", .number = 2},
                 "belong to node 2, and that is \"node-b\"");
    join_refused(l, &(struct members_options){.cluster = "bay", .node = "no name"},
                 "letters, digits");
    CHECK(life_is_whole(l));
    life_end(l);
}

static void
no_cluster_here(void *arg)
{
    struct life *l = &life;

    (void)arg;
    life_begin(l);
    CHECK(meta_open_etcd(&(struct meta_etcd_options){.endpoints = model_door(l->model, 0),
                                                     .prefix = "forebay/bay/"},
                         &l->nodes[0].meta, NULL) == ERR_OK);
    join_refused(l, &(struct members_options){.cluster = "bay", .node = "x", .epoch = 3},
                 "etcd has no cluster \"bay\"");
    life_end(l);
}

static void
test_identities(void)
{
    life_world(identities, 4);
    life_world(no_cluster_here, 4);
}

/* Evicted three times in ten minutes: out for five minutes of good beats, then up. */
static void
flapping(void *arg)
{
    struct life *l = &life;
    struct life_node *n = &l->nodes[2];
    uint64_t began;

    (void)arg;
    start_all(l);
    for (unsigned i = 0; i < 3; i++) {
        n->paused = true;
        l->model->doors[2].out = MODEL_HOLD;
        (void)!rt_sleep_ms(20000);
        life_heal(n);
        (void)!rt_sleep_ms(10000);
    }
    CHECK(members_state_now(n->members) == MEMBERS_PROBATION);
    CHECK_U64(members_lease_left_ns(n->members), 0);
    CHECK_U64(life_owned_keys(l), LIFE_KEYS); /* by the others */
    began = rt_now_ns();
    CHECK(life_wait_whole(l, 400));
    CHECK(rt_now_ns() - began > 240000000000u);
    life_end(l);
}

static void
test_flapping(void)
{
    life_world(flapping, 5);
}

/* etcd is gone for a minute: leases end, no node is evicted, all go on within 10 s of its return. */
static void
outage(void *arg)
{
    struct life *l = &life;

    (void)arg;
    start_all(l);
    for (unsigned i = 0; i < LIFE_NODES; i++)
        l->model->doors[i].in = MODEL_HOLD;
    (void)!rt_sleep_ms(60000);
    CHECK_U64(life_owned_keys(l), 0);
    for (unsigned i = 0; i < LIFE_NODES; i++)
        l->model->doors[i].in = MODEL_OPEN;
    CHECK(life_wait_whole(l, 10));
    CHECK_U64(l->nodes[0].epoch, 3);
    life_end(l);
}

static void
test_outage(void)
{
    life_world(outage, 6);
}

/* ---- random lives ---- */

#define PLANT_SEEDS 30u

static unsigned trouble_s;
static uint64_t last_seed = 3;

static void
random_life(void *arg)
{
    struct life *l = &life;
    struct rt_group g;

    (void)arg;
    life_begin(l);
    rt_group_begin(&g);
    CHECK(rt_group_start(&g, life_monitor, l) == ERR_OK);
    for (unsigned i = 0; i < LIFE_NODES; i++)
        CHECK(rt_group_start(&g, life_node_run, &l->nodes[i]) == ERR_OK);
    (void)!rt_sleep_ms(trouble_s * 1000u);
    l->over = true;
    rt_group_join(&g);
    for (unsigned i = 0; i < LIFE_NODES; i++) {
        while (l->nodes[i].members == NULL && !life_node_start(&l->nodes[i]))
            continue;
    }
    l->over = false;
    rt_group_begin(&g);
    CHECK(rt_group_start(&g, life_monitor, l) == ERR_OK);
    if (members_plant == 0)
        CHECK(life_wait_whole(l, 400));
    else
        (void)life_wait_whole(l, 20);
    life_outage(l, 20);
    l->over = true;
    rt_group_join(&g);
    life_end(l);
}

static void
test_random_lives(void)
{
    log_set_level(LOG_ERROR);
    trouble_s = 60;
    for (uint64_t seed = 1; seed <= last_seed; seed++) {
        uint64_t hash = life_world(random_life, seed);

        if (life.two_owners + life.epochs_fell + life.evicted_in_outage > 0)
            fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
        CHECK_U64(life.two_owners, 0);
        CHECK_U64(life.epochs_fell, 0);
        CHECK_U64(life.evicted_in_outage, 0);
        CHECK(life.orders > 1000 && life.starts >= LIFE_NODES);
        if (seed == 1)
            CHECK_U64(life_world(random_life, seed), hash);
    }
    log_set_level(LOG_INFO);
}

/* A beat whose answer takes 2.5 s, and then nothing passes any more: the lease must not have gained that time. */
static void
late_answer(void *arg)
{
    struct life *l = &life;
    struct rt_group g;
    uint64_t revision;

    (void)arg;
    life_begin(l);
    for (unsigned i = 0; i < LIFE_NODES; i++)
        l->nodes[i].rate = i == 1 ? 0.9 : 1.1;
    for (unsigned i = 0; i < LIFE_NODES; i++)
        CHECK(life_node_start(&l->nodes[i]));
    CHECK(life_wait_whole(l, 20));
    rt_group_begin(&g);
    CHECK(rt_group_start(&g, life_monitor, l) == ERR_OK);
    l->model->doors[1].out = MODEL_HOLD;
    do {
        revision = l->model->revision;
        (void)!rt_sleep_ms(1);
    } while (l->model->revision == revision ||
             !span_is(l->model->events[l->model->count - 1].key, "forebay/bay/beat/2"));
    (void)!rt_sleep_ms(2300);
    l->model->doors[1].out = MODEL_OPEN;
    l->model->doors[1].in = MODEL_HOLD;
    (void)!rt_sleep_ms(20000);
    CHECK_U64(life_owned_keys(l), LIFE_KEYS);
    l->over = true;
    rt_group_join(&g);
    life_end(l);
}

static void
test_late_answer(void)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        life_world(late_answer, seed);
        CHECK_U64(life.two_owners, 0);
    }
}

static void
outage_only(void *arg)
{
    (void)arg;
    start_all(&life);
    life_outage(&life, 20);
    life_end(&life);
}

/* Each of them breaks a promise that the checker holds: found within some seeds, or the checker is blind. */
static void
test_planted_faults_are_found(void)
{
    static const struct {
        unsigned plant;
        fiber_fn *life;
    } rows[] = {
        {MEMBERS_PLANT_LEASE_FROM_ANSWER, late_answer},
        {MEMBERS_PLANT_EVICT_UNSEEN, random_life},
        {MEMBERS_PLANT_EVICT_EARLY, random_life},
        {MEMBERS_PLANT_NO_ACKNOWLEDGE, random_life},
        {MEMBERS_PLANT_BLIND, outage_only},
    };

    log_set_level(LOG_ERROR);
    trouble_s = 100;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        bool found = false;
        uint64_t seed;

        members_plant = rows[i].plant;
        for (seed = 1; !found && seed <= PLANT_SEEDS; seed++) {
            life_world(rows[i].life, seed);
            found = life.two_owners + life.epochs_fell + life.evicted_in_outage > 0;
        }
        if (!found || getenv("PLANTS") != NULL)
            fprintf(stderr, "planted %u: %s after %llu seeds\n", rows[i].plant,
                    found ? "found" : "not found", (unsigned long long)seed - 1);
        CHECK(found);
    }
    members_plant = 0;
    log_set_level(LOG_INFO);
}

int
main(int argc, char **argv)
{
    const char *seeds = getenv("SEEDS"); /* more of the random lives */

    if (seeds != NULL)
        last_seed = strtoull(seeds, NULL, 10);
    CHECK_MAIN(argc, argv);
    RUN(test_evicted_and_back);
    RUN(test_left_and_crashed);
    RUN(test_name_given_twice);
    RUN(test_identities);
    RUN(test_flapping);
    RUN(test_outage);
    RUN(test_random_lives);
    RUN(test_late_answer);
    RUN(test_planted_faults_are_found);
    return check_done();
}
