/* evict: the beats of the others, as this node sees them, and what follows when one stands still. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "members/internal.h"
#include "rt/time.h"

#define NS 1000000u

struct members_seen *
members_seen_of(struct members *m, uint32_t number)
{
    for (uint32_t i = 0; i < m->seen_count; i++) {
        if (m->seen[i].number == number)
            return &m->seen[i];
    }
    return NULL;
}

const struct members_seen *
members_see(struct members *m, uint32_t number, const struct meta_pair *pair)
{
    struct members_seen *s = members_seen_of(m, number);
    int64_t now_ms = (int64_t)(rt_wall_ns() / NS);

    if (s == NULL) {
        assert(m->seen_count < MAP_NODES_MAX);
        s = &m->seen[m->seen_count++];
        *s = (struct members_seen){.number = number, .revision = META_ANY};
    }
    if (s->revision == pair->revision)
        return s;
    s->revision = pair->revision;
    s->first_ns = members_now_ns(m); /* after the answer: never too old */
    if (pair->revision == 0 || beat_decode(pair->value, &s->beat, NULL) != ERR_OK)
        s->beat = (struct beat){0};
    else
        s->skew_ms = s->beat.wall_ms - now_ms;
    return s;
}

/* ---- looking ---- */

static bool
has_beat_of(const struct node_map *map, uint32_t number)
{
    return number != 0 && node_map_find(map, number) != NULL;
}

/* Beats of numbers that are not in the map are of no interest. */
static enum err
read_beats(struct members *m)
{
    struct arena *a = arena_new(16384, MAP_NODES_MAX * 1024u);
    struct meta_pair *pairs = NULL, none = {0};
    struct errbuf eb = {{0}};
    struct rt_scope scope;
    uint64_t revision;
    uint32_t count = 0;
    enum err rc;

    members_request_begin(&scope);
    rc = meta_list(m->o.meta, SPAN("beat/"), a, &pairs, &count, &revision, &eb);
    rt_scope_end(&scope);
    for (uint32_t i = 0; rc == ERR_OK && i < m->map->count; i++) {
        uint32_t number = m->map->nodes[i].number;
        const struct meta_pair *found = &none;

        for (uint32_t k = 0; k < count; k++) {
            if (beat_key_number(pairs[k].key) == number)
                found = &pairs[k];
        }
        assert(has_beat_of(m->map, number));
        if (number != m->number)
            (void)members_see(m, number, found);
    }
    arena_free(&a);
    return rc;
}

/* After a while without a look nothing is known of the time between: all beats count as new. So an outage of etcd evicts
 * no node. */
static void
forget_ages(struct members *m, uint64_t now)
{
    if (MEMBERS_PLANTED(MEMBERS_PLANT_BLIND))
        return;
    for (uint32_t i = 0; i < m->seen_count; i++)
        m->seen[i].first_ns = now;
}

/* ---- evicting ---- */

static bool
is_overdue(const struct members *m, const struct node_entry *n)
{
    const struct members_seen *s =
        members_seen_of((struct members *)(uintptr_t)m, n->number);
    uint64_t limit = (uint64_t)MEMBERS_EVICT_MS * NS;

    if (MEMBERS_PLANTED(MEMBERS_PLANT_EVICT_EARLY))
        limit /= 2;
    if (s == NULL || n->number == m->number || n->state == NODE_REMOVED)
        return false;
    if (!node_is_live(n) && s->revision == 0)
        return false; /* it is out already */
    return members_now_ns(m) - s->first_ns >= limit;
}

static void
add_strike(struct node_entry *n)
{
    if (n->strike_count == MAP_NODE_STRIKES_MAX) {
        memmove(n->strikes_ms, n->strikes_ms + 1,
                (MAP_NODE_STRIKES_MAX - 1) * sizeof n->strikes_ms[0]);
        n->strike_count--;
    }
    n->strikes_ms[n->strike_count++] = (int64_t)(rt_wall_ns() / NS);
}

static void
evict_node(struct members *m, uint32_t number)
{
    struct arena *a = arena_new(4096, 4 * META_VALUE_MAX);
    struct node_map *next = node_map_copy(m->map);
    struct node_entry *n = node_map_find(next, number);
    const struct members_seen *s = members_seen_of(m, number);
    char name[BEAT_KEY_MAX];
    struct meta_change c[2] = {{.key = beat_key(number, name), .remove = true},
                               {.key = SPAN("map"), .if_revision = m->map_revision}};
    struct span reads[] = {SPAN("map")};
    struct meta_txn t = {c, 2, reads, 1};
    struct meta_result r;
    struct errbuf eb = {{0}};
    struct rt_scope scope;
    struct buf value;
    enum err rc;

    assert(n != NULL && s != NULL);
    assert(number != m->number);
    next->epoch++;
    if (node_is_live(n) || n->state == NODE_JOINING) {
        n->state = NODE_DOWN;
        n->since = next->epoch;
    }
    add_strike(n);
    c[0].if_revision =
        MEMBERS_PLANTED(MEMBERS_PLANT_EVICT_UNSEEN) ? META_ANY : s->revision;
    buf_init(&value, META_VALUE_MAX);
    node_map_encode(next, &value);
    assert(!value.full);
    c[1].value = buf_span(&value);
    members_request_begin(&scope);
    rc = meta_apply_txn(m->o.meta, &t, a, &r, &eb);
    rt_scope_end(&scope);
    if (rc == ERR_OK) {
        LOG(LOG_WARN, "members.evicted", "a node was evicted: its beats stand still",
            L_TEXT("node", n->name), L_U64("number", number),
            L_U64("epoch", next->epoch));
        rc = members_adopt(m, &r.reads[0], &eb);
    }
    if (rc != ERR_OK)
        LOG(LOG_INFO, "members.evict", eb.text, L_U64("number", number));
    buf_fini(&value);
    node_map_free(&next);
    arena_free(&a);
}

void
members_look(struct members *m)
{
    uint64_t now;

    assert(m->map != NULL);
    if (read_beats(m) != ERR_OK)
        return;
    now = members_now_ns(m);
    if (m->looked_ns == 0 || now - m->looked_ns > (uint64_t)MEMBERS_BLIND_MS * NS)
        forget_ages(m, now);
    m->looked_ns = now;
    for (uint32_t i = 0; i < m->map->count && m->state == MEMBERS_IN; i++) {
        if (members_lease_left_ns(m) > 0 && is_overdue(m, &m->map->nodes[i])) {
            evict_node(m, m->map->nodes[i].number); /* the map is another one now */
            return;
        }
    }
}

/* ---- what others ask ---- */

bool
members_acknowledged(const struct members *m, uint64_t epoch)
{
    if (MEMBERS_PLANTED(MEMBERS_PLANT_NO_ACKNOWLEDGE))
        return true;
    if (m->map == NULL || m->map->epoch < epoch || m->adopting)
        return false;
    for (uint32_t i = 0; i < m->map->count; i++) {
        const struct node_entry *n = &m->map->nodes[i];
        const struct members_seen *s =
            members_seen_of((struct members *)(uintptr_t)m, n->number);

        if (!node_is_live(n) || n->number == m->number)
            continue;
        if (s == NULL || s->revision == 0 || s->beat.incarnation != n->incarnation ||
            s->beat.epoch < epoch)
            return false;
        /* It has adopted a map that this node has not: that one may give the keys back, so its acknowledgement of this
         * one says nothing. */
        if (s->beat.epoch > m->map->epoch)
            return false;
    }
    return true;
}

uint32_t
members_peers(const struct members *m, struct members_peer *out, uint32_t max)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < m->seen_count && count < max; i++) {
        const struct members_seen *s = &m->seen[i];

        if (s->revision != 0)
            out[count++] =
                (struct members_peer){.number = s->number,
                                      .age_ns = members_now_ns(m) - s->first_ns,
                                      .skew_ms = s->skew_ms,
                                      .epoch = s->beat.epoch};
    }
    return count;
}
