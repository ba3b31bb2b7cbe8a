/* Which node a request goes to: owners of native and cached keys, nodes that are away, leases, and keys that a node gained
 * before all nodes had acknowledged the map. */
#include "base/mem.h"
#include "check.h"
#include "map/node_place.h"
#include "nodes/nodes.h"
#include "rt/loop.h"

struct world {
    uint64_t lease_ns;
    uint64_t fetched;       /* the epoch that was asked for last */
    struct node_map *newer; /* what fetch_map publishes; NULL: nothing */
    struct nodes *nodes;
};

static uint64_t
lease_left(void *arg)
{
    return ((struct world *)arg)->lease_ns;
}

static enum err
fetch(void *arg, uint64_t epoch, struct errbuf *eb)
{
    struct world *w = arg;

    (void)eb;
    w->fetched = epoch;
    if (w->newer != NULL)
        nodes_publish(w->nodes, w->newer);
    return ERR_OK;
}

static struct node_map *
map_of(unsigned count, uint64_t epoch)
{
    struct node_map *m = node_map_new(epoch);
    struct errbuf eb = {{0}};

    m->cluster = xstrdup("bay");
    for (unsigned i = 0; i < count; i++) {
        struct node_entry *n;
        char text[32];

        snprintf(text, sizeof text, "node-%u", i);
        CHECK(node_map_add(m, span_of(text), &n, &eb) == ERR_OK);
        n->state = NODE_UP;
        snprintf(text, sizeof text, "127.0.0.1:%u", 9000 + i);
        n->control = xstrdup(text);
        m->now.at[i].number = n->number;
        m->now.at[i].weight = MAP_NODE_WEIGHT;
    }
    m->now.count = count;
    return m;
}

static const struct map_bucket native = {.refs = 1,
                                         .id = 1,
                                         .ns = "",
                                         .name = "bucket",
                                         .uname = "bucket",
                                         .immutable_name = "bucket"};
static const struct map_bucket cached = {.refs = 1,
                                         .id = 2,
                                         .provider = MAP_AWS,
                                         .ns = "",
                                         .name = "far",
                                         .uname = "far",
                                         .immutable_name = "far",
                                         .cached = true};

/* A key of bucket `b` whose first node is `number`. */
static struct span
key_of(const struct node_map *m, const struct map_bucket *b, uint32_t number,
       char text[32])
{
    for (unsigned i = 0;; i++) {
        struct span key = {text, (size_t)snprintf(text, 32, "key-%u", i)};

        if (node_place_owner(m, nodes_key_digest(b, key))->number == number)
            return key;
    }
}

static void
world_open(struct world *w, const struct node_map *m)
{
    *w = (struct world){.lease_ns = 1000000000};
    w->nodes = nodes_new(&(struct nodes_options){
        .self = 1, .lease_left_ns = lease_left, .fetch_map = fetch, .arg = w});
    if (m != NULL)
        nodes_publish(w->nodes, m);
}

static void
test_no_cluster(void)
{
    struct nodes_route r, all[MAP_NODES_MAX];
    struct errbuf eb = {{0}};
    uint32_t count;

    CHECK(nodes_route(NULL, &native, SPAN("k"), &r, &eb) == ERR_OK);
    CHECK(r.here && r.epoch == 0);
    CHECK(nodes_owns(NULL, &native, SPAN("k")));
    CHECK(nodes_has_lease(NULL));
    CHECK(nodes_epoch(NULL) == 0 && nodes_map(NULL) == NULL);
    CHECK(nodes_catch_up(NULL, 9, &eb) == ERR_OK);
    CHECK(nodes_holders(NULL, false, all, &count, &eb) == ERR_OK);
    CHECK(count == 1 && all[0].here);
}

static void
test_digest_is_that_of_ais(void)
{
    struct map_bucket qualified = native;

    CHECK(nodes_key_digest(&native, SPAN("train/00000001.tar")) ==
          node_place_digest(SPAN("ais/@#/bucket/train/00000001.tar")));
    CHECK(nodes_key_digest(&cached, SPAN("o")) ==
          node_place_digest(SPAN("aws/@#/far/o")));
    qualified.ns = "team";
    qualified.qualified = true;
    qualified.immutable_name = "ais@team@bucket";
    CHECK(nodes_key_digest(&qualified, SPAN("o")) ==
          node_place_digest(SPAN("ais/@#team/bucket/o")));
}

static void
run_owners(void *arg)
{
    struct node_map *m = map_of(3, 5);
    struct errbuf eb = {{0}};
    struct nodes_route r;
    struct world w;
    char text[32];

    (void)arg;
    world_open(&w, NULL);
    CHECK(nodes_route(w.nodes, &native, SPAN("k"), &r, &eb) == ERR_UNAVAILABLE);
    CHECK_SAYS(eb.text, "no map");
    nodes_publish(w.nodes, m);
    nodes_acknowledge(w.nodes, 5);
    CHECK(nodes_route(w.nodes, &native, key_of(m, &native, 1, text), &r, &eb) == ERR_OK);
    CHECK(r.here && r.number == 1 && r.epoch == 5 && r.address == NULL);
    CHECK(nodes_route(w.nodes, &native, key_of(m, &native, 3, text), &r, &eb) == ERR_OK);
    CHECK(!r.here && r.number == 3);
    CHECK_STR(r.address, "127.0.0.1:9002");
    CHECK(!nodes_owns(w.nodes, &native, key_of(m, &native, 3, text)));

    /* Without a lease it still passes on what others hold. */
    w.lease_ns = 0;
    CHECK(nodes_route(w.nodes, &native, key_of(m, &native, 3, text), &r, &eb) == ERR_OK);
    CHECK(nodes_route(w.nodes, &native, key_of(m, &native, 1, text), &r, &eb) ==
          ERR_UNAVAILABLE);
    CHECK_SAYS(eb.text, "no lease");
    CHECK(!nodes_owns(w.nodes, &native, key_of(m, &native, 1, text)));
    node_map_free(&m);
    nodes_free(&w.nodes);
}

static void
run_away(void *arg)
{
    struct node_map *m = map_of(3, 5);
    struct nodes_route r, all[MAP_NODES_MAX];
    struct errbuf eb = {{0}};
    struct world w;
    char text[32];
    uint32_t count;

    (void)arg;
    m->nodes[1].state = NODE_DOWN;
    world_open(&w, m);
    nodes_acknowledge(w.nodes, 5);
    CHECK(nodes_route(w.nodes, &native, key_of(m, &native, 2, text), &r, &eb) ==
          ERR_UNAVAILABLE);
    CHECK_SAYS(eb.text, "node 2 (node-1), which holds the key, is down");
    CHECK(nodes_route(w.nodes, &cached, key_of(m, &cached, 2, text), &r, &eb) == ERR_OK);
    CHECK(r.number != 2);
    CHECK(nodes_holders(w.nodes, false, all, &count, &eb) == ERR_UNAVAILABLE);
    CHECK(nodes_holders(w.nodes, true, all, &count, &eb) == ERR_OK);
    CHECK_U64(count, 2);
    CHECK(all[0].here && all[1].number == 3);
    node_map_free(&m);
    nodes_free(&w.nodes);
}

/* Node 2 leaves the placement: until all know, node 1 answers only for keys that it had before. */
static void
run_gained(void *arg)
{
    struct node_map *m = map_of(2, 5), *next = map_of(2, 6);
    struct errbuf eb = {{0}};
    struct nodes_route r;
    struct world w;
    char text[32];

    (void)arg;
    next->now.count = 1;
    world_open(&w, m);
    nodes_acknowledge(w.nodes, 5);
    nodes_publish(w.nodes, next);
    CHECK(!nodes_is_acknowledged(w.nodes));
    CHECK(nodes_route(w.nodes, &native, key_of(m, &native, 1, text), &r, &eb) == ERR_OK);
    CHECK(nodes_route(w.nodes, &native, key_of(m, &native, 2, text), &r, &eb) ==
          ERR_UNAVAILABLE);
    CHECK_SAYS(eb.text, "epoch 6");
    CHECK(nodes_route(w.nodes, &cached, key_of(m, &cached, 2, text), &r, &eb) == ERR_OK);
    nodes_acknowledge(w.nodes, 5); /* of a map that is gone */
    CHECK(!nodes_is_acknowledged(w.nodes));
    nodes_acknowledge(w.nodes, 6);
    CHECK(nodes_route(w.nodes, &native, key_of(m, &native, 2, text), &r, &eb) == ERR_OK);
    CHECK(r.here && r.epoch == 6);
    node_map_free(&m);
    node_map_free(&next);
    nodes_free(&w.nodes);
}

static void
run_catches_up(void *arg)
{
    struct node_map *m = map_of(2, 5), *next = map_of(2, 8);
    struct errbuf eb = {{0}};
    struct world w;

    (void)arg;
    world_open(&w, m);
    CHECK(nodes_catch_up(w.nodes, 5, &eb) == ERR_OK);
    CHECK_U64(w.fetched, 0);
    CHECK(nodes_catch_up(w.nodes, 7, &eb) == ERR_UNAVAILABLE);
    CHECK_SAYS(eb.text, "epoch 5 here, and another node has 7");
    w.newer = next;
    CHECK(nodes_catch_up(w.nodes, 7, &eb) == ERR_OK);
    CHECK_U64(w.fetched, 7);
    CHECK_U64(nodes_epoch(w.nodes), 8);
    nodes_publish(w.nodes, m); /* overtaken */
    CHECK_U64(nodes_epoch(w.nodes), 8);
    node_map_free(&m);
    node_map_free(&next);
    nodes_free(&w.nodes);
}

static void
on_loop(fiber_fn *fn)
{
    struct errbuf eb = {{0}};

    CHECK(rt_run(&(struct rt_options){.engine = RT_EPOLL, .loops = 1}, fn, NULL, &eb) ==
          ERR_OK);
}

static void
test_owners(void)
{
    on_loop(run_owners);
}

static void
test_nodes_away(void)
{
    on_loop(run_away);
}

static void
test_gained_keys_wait(void)
{
    on_loop(run_gained);
}

static void
test_catches_up(void)
{
    on_loop(run_catches_up);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_no_cluster);
    RUN(test_digest_is_that_of_ais);
    RUN(test_owners);
    RUN(test_nodes_away);
    RUN(test_gained_keys_wait);
    RUN(test_catches_up);
    return check_done();
}
