#include "map/node_place.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

#define AIS_SEED 1103515245u /* clients compute with the same */

__extension__ typedef unsigned __int128 place_wide;

uint64_t
node_place_digest(struct span name)
{
    return hash_xxh64(name.at, name.len, AIS_SEED);
}

static uint64_t
mixed(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint64_t
node_place_score(uint64_t node_digest, uint64_t key_digest)
{
    const uint64_t step = 0x9e3779b97f4a7c15u;
    uint64_t z = mixed((node_digest ^ key_digest) + step) + step;

    z = mixed(z) * 5;
    return (z << 7 | z >> 57) * 9;
}

/* 2^40 * -log2(score / 2^64): 0 for the best score, and falls as the score rises. Digit by digit, by squaring. */
static uint64_t
place_cost(uint64_t score)
{
    unsigned whole;
    uint64_t x, digits = 0;

    if (score == 0)
        score = 1;
    whole = 63u - (unsigned)__builtin_clzll(score);
    x = score << (63u - whole); /* 1.0 is 2^63 */
    for (int i = 0; i < 40; i++) {
        place_wide square = (place_wide)x * x; /* in [1, 4), 1.0 is 2^126 */
        bool two = square >> 127 != 0; /* from 2 on: the digit is 1, and it is halved */

        x = (uint64_t)(square >> (two ? 64 : 63));
        digits = digits << 1 | two;
    }
    return ((uint64_t)64 << 40) - (((uint64_t)whole << 40) | digits);
}

struct placed {
    const struct node_entry *node;
    uint64_t score, cost;
    uint32_t weight;
};

/* Whether a comes before b: cost / weight, then the score, then the number. */
static bool
placed_before(const struct placed *a, const struct placed *b)
{
    if (a->weight != b->weight) {
        place_wide x = (place_wide)a->cost * b->weight;
        place_wide y = (place_wide)b->cost * a->weight;

        if (x != y)
            return x < y;
    }
    if (a->score != b->score)
        return a->score > b->score;
    return a->node->number < b->node->number;
}

static bool
weights_differ(const struct node_placement *p)
{
    for (uint32_t i = 1; i < p->count; i++) {
        if (p->at[i].weight != p->at[0].weight)
            return true;
    }
    return false;
}

static uint32_t
placed_fill(const struct node_map *m, const struct node_placement *p, uint64_t key,
            struct placed *all)
{
    bool weighted = weights_differ(p);
    uint32_t count = 0;

    for (uint32_t i = 0; i < p->count; i++) {
        const struct node_entry *n = node_map_find(m, p->at[i].number);
        struct placed one = {.node = n, .weight = p->at[i].weight};
        uint32_t at = count++;

        assert(n != NULL);
        one.score = node_place_score(node_place_digest(span_of(n->name)), key);
        one.cost = weighted ? place_cost(one.score) : 0;
        for (; at > 0 && placed_before(&one, &all[at - 1]); at--)
            all[at] = all[at - 1];
        all[at] = one;
    }
    return count;
}

static bool
domains_equal(const struct node_entry *a, const struct node_entry *b)
{
    if (a->domain == NULL || b->domain == NULL)
        return a == b;
    return strcmp(a->domain, b->domain) == 0;
}

static bool
domain_is_new(const struct node_entry *n, const struct node_entry *const *out,
              uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (domains_equal(n, out[i]))
            return false;
    }
    return true;
}

uint32_t
node_place_order(const struct node_map *m, const struct node_placement *p,
                 uint64_t key_digest, uint32_t replicas, const struct node_entry **out,
                 uint32_t max, uint32_t *domains)
{
    struct placed all[MAP_NODES_MAX]; /* 4 KiB */
    uint32_t count = placed_fill(m, p, key_digest, all), n = 0, fresh;

    assert(p->count <= MAP_NODES_MAX);
    assert(max > 0);
    max = MIN(max, count);
    for (uint32_t i = 0; i < count && n < MIN(replicas, max); i++) {
        if (domain_is_new(all[i].node, out, n)) {
            out[n++] = all[i].node;
            all[i].node = NULL;
        }
    }
    fresh = n;
    for (uint32_t i = 0; i < count && n < max; i++) {
        if (all[i].node != NULL)
            out[n++] = all[i].node;
    }
    if (domains != NULL)
        *domains = fresh;
    assert(n == max);
    return n;
}

const struct node_placement *
node_place_of(const struct node_map *m, uint64_t key_digest)
{
    bool moved = m->moves && (m->flipped >> node_place_range(key_digest) & 1) != 0;

    assert(m->moves || m->flipped == 0);
    return moved ? &m->next : &m->now;
}

/* The best one that `accept` takes, without an order of the others. */
static const struct node_entry *
best_of(const struct node_map *m, uint64_t key, bool live)
{
    const struct node_placement *p = node_place_of(m, key);
    bool weighted = weights_differ(p);
    struct placed best = {0};

    for (uint32_t i = 0; i < p->count; i++) {
        struct placed one = {.node = node_map_find(m, p->at[i].number),
                             .weight = p->at[i].weight};

        assert(one.node != NULL);
        if (live && !node_is_live(one.node))
            continue;
        one.score = node_place_score(node_place_digest(span_of(one.node->name)), key);
        one.cost = weighted ? place_cost(one.score) : 0;
        if (best.node == NULL || placed_before(&one, &best))
            best = one;
    }
    return best.node;
}

const struct node_entry *
node_place_owner(const struct node_map *m, uint64_t key_digest)
{
    return best_of(m, key_digest, false);
}

const struct node_entry *
node_place_live_owner(const struct node_map *m, uint64_t key_digest)
{
    return best_of(m, key_digest, true);
}
