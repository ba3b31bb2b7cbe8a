/* The map of nodes as bytes and in memory, and where keys lie: shares, what moves when a node comes or goes, failure
 * domains, and the scores that AIS clients compute. */
#include "base/hash.h"
#include "base/mem.h"
#include "check.h"
#include "map/node_place.h"
#include "meta/meta.h"
#include "wire/record.h"

static struct node_map *
map_of(unsigned nodes)
{
    struct node_map *m = node_map_new(7);
    struct errbuf eb = {{0}};

    m->cluster = xstrdup("bay");
    memset(m->cluster_id, 9, sizeof m->cluster_id);
    for (unsigned i = 0; i < nodes; i++) {
        struct node_entry *n;
        char name[16];

        snprintf(name, sizeof name, "node-%u", i);
        CHECK(node_map_add(m, span_of(name), &n, &eb) == ERR_OK);
        n->state = NODE_UP;
        n->since = i % 7;
        m->now.at[i].number = n->number;
        m->now.at[i].weight = MAP_NODE_WEIGHT;
    }
    m->now.count = nodes;
    return m;
}

static uint64_t
key_digest(unsigned i)
{
    char key[40];
    int n = snprintf(key, sizeof key, "ais/@#/bucket/train/%08u.tar", i);

    return node_place_digest((struct span){key, (size_t)n});
}

/* ---- bytes ---- */

static struct node_map *
full_map(void)
{
    struct node_map *m = map_of(3);
    struct node_entry *n = &m->nodes[1];

    n->incarnation = 5;
    n->domain = xstrdup("rack=r1");
    n->data = xstrdup("10.0.0.2:9001");
    n->control = xstrdup("10.0.0.2:9002");
    n->clients = xstrdup("bay.example:9000");
    n->disks = xcalloc(MAP_NODE_DISKS_MAX, sizeof *n->disks);
    n->disk_count = 2;
    memset(n->disks[1].id, 0xab, 16);
    n->disks[1].in_sync = true;
    n->strikes_ms[0] = 1000;
    n->strikes_ms[1] = 2000;
    n->strike_count = 2;
    m->nodes[2].state = NODE_DRAINING;
    m->moves = true;
    m->next.at[0].number = 2;
    m->next.at[0].weight = 10;
    m->next.count = 1;
    m->flipped = 0x8000000000000001u;
    return m;
}

static void
write_corpus(const struct buf *b, const char *name)
{
    const char *corpus = getenv("CORPUS");
    char path[300];
    FILE *f;

    if (corpus == NULL)
        return;
    snprintf(path, sizeof path, "%s/node_map/%s", corpus, name);
    f = fopen(path, "w");
    REQUIRE(f != NULL);
    CHECK_U64(fwrite(b->at, 1, b->len, f), b->len);
    fclose(f);
}

static void
test_bytes(void)
{
    struct node_map *m = full_map(), *back = NULL, *copy;
    struct errbuf eb = {{0}};
    struct buf one, two;

    buf_init(&one, META_VALUE_MAX);
    buf_init(&two, META_VALUE_MAX);
    node_map_encode(m, &one);
    write_corpus(&one, "three");
    CHECK(node_map_decode(buf_span(&one), &back, &eb) == ERR_OK);
    CHECK_STR(eb.text, "");
    REQUIRE(back != NULL);
    CHECK_U64(back->count, 3);
    CHECK_STR(back->nodes[1].clients, "bay.example:9000");
    CHECK(back->nodes[1].disks[1].in_sync && !back->nodes[1].disks[0].in_sync);
    CHECK(back->nodes[2].state == NODE_DRAINING && back->next_number == 4);
    CHECK(back->moves && back->flipped == m->flipped && back->next.at[0].weight == 10);
    copy = node_map_copy(back);
    node_map_encode(copy, &two);
    CHECK(span_eq(buf_span(&one), buf_span(&two)));
    for (size_t i = 0; i < one.len; i++) {
        struct node_map *bad = NULL;

        one.at[i] ^= 4;
        CHECK(node_map_decode(buf_span(&one), &bad, &eb) != ERR_OK && bad == NULL);
        one.at[i] ^= 4;
    }
    buf_fini(&one);
    buf_fini(&two);
    node_map_free(&copy);
    node_map_free(&back);
    node_map_free(&m);
}

/* A record that is whole and makes no sense. */
static void
decode_wrong(void (*spoil)(struct node_map *m), const char *says)
{
    struct node_map *m = full_map(), *bad = NULL;
    struct errbuf eb = {{0}};
    struct buf b;

    spoil(m);
    buf_init(&b, META_VALUE_MAX);
    node_map_encode(m, &b);
    CHECK(node_map_decode(buf_span(&b), &bad, &eb) == ERR_CORRUPT && bad == NULL);
    CHECK_SAYS(eb.text, says);
    buf_fini(&b);
    node_map_free(&m);
}

static void
spoil_name(struct node_map *m)
{
    free(m->nodes[2].name);
    m->nodes[2].name = xstrdup("node-0");
}
static void
spoil_place(struct node_map *m)
{
    m->now.at[2].number = 17;
}
static void
spoil_since(struct node_map *m)
{
    m->nodes[0].since = m->epoch + 1;
}
static void
spoil_next_number(struct node_map *m)
{
    m->next_number = 3;
}
static void
spoil_order(struct node_map *m)
{
    m->nodes[1].number = 1;
}

static void
test_what_makes_no_sense(void)
{
    decode_wrong(spoil_name, "two nodes of one name");
    decode_wrong(spoil_place, "a node that is not there");
    decode_wrong(spoil_since, "a later epoch");
    decode_wrong(spoil_next_number, "given twice");
    decode_wrong(spoil_order, "out of order");
}

static void
test_names(void)
{
    struct node_map *m = map_of(MAP_NODES_MAX);
    struct node_entry *n;
    struct errbuf eb = {{0}};
    struct buf b;

    CHECK(node_map_add(m, SPAN("one more"), &n, &eb) == ERR_BAD_REQUEST);
    CHECK_SAYS(eb.text, "letters, digits");
    CHECK(node_map_add(m, SPAN(""), &n, &eb) == ERR_BAD_REQUEST);
    CHECK(node_map_add(m, SPAN("node-1"), &n, &eb) == ERR_EXISTS);
    CHECK(node_map_add(m, SPAN("one-more"), &n, &eb) == ERR_TOO_LARGE);
    CHECK_SAYS(eb.text, "128");
    buf_init(&b, META_VALUE_MAX);
    node_map_encode(m, &b); /* as many nodes as there can be fit into one value */
    CHECK(!b.full);
    buf_fini(&b);
    node_map_free(&m);
}

/* ---- placement ---- */

#define KEYS 1000000u

/* The shares of a million keys on 8 equal nodes, and what one more node takes: its share, and nothing else moves. */
static void
test_a_million_keys(void)
{
    struct node_map *eight = map_of(8), *nine = map_of(9);
    unsigned counts[10] = {0}, moved = 0, moved_elsewhere = 0;

    for (unsigned i = 0; i < KEYS; i++) {
        uint64_t key = key_digest(i);
        uint32_t a = node_place_owner(eight, key)->number,
                 b = node_place_owner(nine, key)->number;

        counts[a]++;
        moved += a != b;
        moved_elsewhere += a != b && b != 9;
    }
    for (unsigned i = 1; i <= 8; i++)
        CHECK(counts[i] > KEYS / 8 * 985 / 1000 && counts[i] < KEYS / 8 * 1015 / 1000);
    CHECK(moved > KEYS / 9 * 98 / 100 && moved < KEYS / 9 * 102 / 100);
    CHECK_U64(moved_elsewhere, 0);
    node_map_free(&eight);
    node_map_free(&nine);
}

/* 1 : 2 : 5, within 1.5 %; a heavier node takes keys from the others, and gives none away. */
static void
test_weights(void)
{
    struct node_map *m = map_of(3), *heavier;
    unsigned counts[4] = {0}, wrong = 0;

    m->now.at[1].weight = 2 * MAP_NODE_WEIGHT;
    m->now.at[2].weight = 5 * MAP_NODE_WEIGHT;
    heavier = node_map_copy(m);
    heavier->now.at[0].weight = 3 * MAP_NODE_WEIGHT;
    for (unsigned i = 0; i < KEYS / 2; i++) {
        uint64_t key = key_digest(i);
        uint32_t a = node_place_owner(m, key)->number,
                 b = node_place_owner(heavier, key)->number;

        counts[a]++;
        wrong += a != b && b != 1;
    }
    for (unsigned i = 1; i <= 3; i++) {
        unsigned want = KEYS / 2 / 8 * (i == 1 ? 1 : i == 2 ? 2 : 5);

        CHECK(counts[i] > want * 985 / 1000 && counts[i] < want * 1015 / 1000);
    }
    CHECK_U64(wrong, 0);
    node_map_free(&m);
    node_map_free(&heavier);
}

/* Weights that differ by next to nothing give the order of equal ones: both computations agree. */
static void
test_both_orders_agree(void)
{
    struct node_map *equal = map_of(8), *nearly = map_of(8);
    unsigned differ = 0;

    for (unsigned i = 0; i < 8; i++)
        nearly->now.at[i].weight = equal->now.at[i].weight =
            MAP_NODE_WEIGHT_MAX - (i == 7);
    for (unsigned i = 0; i < 8; i++)
        equal->now.at[i].weight = MAP_NODE_WEIGHT_MAX;
    for (unsigned i = 0; i < 100000; i++)
        differ += node_place_owner(equal, key_digest(i))->number !=
                  node_place_owner(nearly, key_digest(i))->number;
    CHECK(differ < 5);
    node_map_free(&equal);
    node_map_free(&nearly);
}

/* Computed with another program by the formula that AIS clients use. */
static void
test_scores_of_ais(void)
{
    static const struct {
        const char *node, *key;
        uint64_t node_digest, key_digest, score;
    } rows[] = {
#include "unit/map/ais_scores.h"
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CHECK_U64(node_place_digest(span_of(rows[i].node)), rows[i].node_digest);
        CHECK_U64(node_place_digest(span_of(rows[i].key)), rows[i].key_digest);
        CHECK_U64(node_place_score(rows[i].node_digest, rows[i].key_digest),
                  rows[i].score);
    }
}

/* Six nodes in three racks: the first three holders are in three racks, and the first one is that without racks. */
static void
test_failure_domains(void)
{
    struct node_map *m = map_of(6), *plain = map_of(6);
    const struct node_entry *out[6], *want[6];
    uint32_t domains = 0;

    for (unsigned i = 0; i < 6; i++)
        m->nodes[i].domain = xasprintf("rack=r%u", i / 2);
    for (unsigned i = 0; i < 20000; i++) {
        uint64_t key = key_digest(i);

        CHECK_U64(node_place_order(m, &m->now, key, 3, out, 6, &domains), 6);
        CHECK_U64(domains, 3);
        CHECK(strcmp(out[0]->domain, out[1]->domain) != 0 &&
              strcmp(out[0]->domain, out[2]->domain) != 0 &&
              strcmp(out[1]->domain, out[2]->domain) != 0);
        CHECK_U64(node_place_order(plain, &plain->now, key, 3, want, 6, &domains), 6);
        CHECK(out[0]->number == want[0]->number && out[0] == node_place_owner(m, key));
        CHECK_U64(domains, 3);
    }
    CHECK_U64(node_place_order(m, &m->now, 1, 4, out, 6, &domains), 6);
    CHECK_U64(domains, 3); /* fewer than replicas: the caller says so */
    node_map_free(&m);
    node_map_free(&plain);
}

static void
test_states_and_ranges(void)
{
    struct node_map *m = map_of(3);
    uint64_t key = key_digest(1);
    const struct node_entry *first = node_place_owner(m, key), *second;

    CHECK(node_place_live_owner(m, key) == first);
    node_map_find(m, first->number)->state = NODE_DOWN;
    CHECK(node_place_owner(m, key) == first); /* a death moves no key */
    second = node_place_live_owner(m, key);
    CHECK(second != NULL && second != first);
    m->moves = true;
    m->next = m->now;
    m->next.count = 0;
    for (unsigned i = 0; i < 3; i++) {
        if (m->now.at[i].number != first->number)
            m->next.at[m->next.count++] = m->now.at[i];
    }
    CHECK(node_place_owner(m, key) == first);
    m->flipped = (uint64_t)1 << node_place_range(key);
    CHECK(node_place_owner(m, key) == second);
    m->flipped = ~m->flipped;
    CHECK(node_place_owner(m, key) == first);
    for (unsigned i = 0; i < 3; i++)
        m->nodes[i].state = NODE_DOWN;
    CHECK(node_place_live_owner(m, key) == NULL);
    node_map_free(&m);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_bytes);
    RUN(test_what_makes_no_sense);
    RUN(test_names);
    RUN(test_a_million_keys);
    RUN(test_weights);
    RUN(test_both_orders_agree);
    RUN(test_scores_of_ais);
    RUN(test_failure_domains);
    RUN(test_states_and_ranges);
    return check_done();
}
