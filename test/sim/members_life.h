/* members_life: several nodes of a cluster in one world: heartbeats, leases and maps, on a model of etcd, in virtual time.
 *
 * Each node has a clock of its own (rates of 0.9 to 1.1), a door of its own to etcd, and is paused, cut off in one direction
 * or both, slowed down, crashed, restarted and taken out in order, as the seed says. A monitor looks every few milliseconds:
 *
 *   one owner      no two nodes may order writes of one key at the same moment;
 *   epochs rise    who orders a key has a map at least as new as who ordered it before;
 *   no panic       an outage of etcd, with all nodes alive behind it, evicts none of them;
 *   recovery       when the trouble ends all nodes come in, with one map, and each key has an owner.
 */
#pragma once
#include "etcd_model.h"
#include "map/node_place.h"
#include "members/members.h"
#include "rt/sim.h"

#define LIFE_NODES 3u
#define LIFE_KEYS  12u

struct life_node {
    struct life *life;
    unsigned index;
    char name[16];
    struct meta *meta;
    struct members *members; /* NULL: not running */
    struct members_clock clock;
    double rate;
    uint64_t offset_ns;
    bool paused;
    struct {
        bool mine;
        uint64_t since; /* the epoch with which it was gained */
    } keys[LIFE_KEYS];
    uint64_t epoch; /* adopted */
    uint32_t number;
    uint64_t floor; /* what its disks have seen */
};
struct life {
    struct model *model;
    struct life_node nodes[LIFE_NODES];
    uint64_t keys[LIFE_KEYS], ordered_epoch[LIFE_KEYS];
    bool over;
    unsigned two_owners, epochs_fell, orders, evicted_in_outage, starts;
};

/* ---- a node ---- */

static inline uint64_t
life_clock_now(void *arg)
{
    const struct life_node *n = arg;

    return n->offset_ns + (uint64_t)((double)rt_now_ns() * n->rate);
}

static inline enum err
life_clock_wait(void *arg, struct rt_cond *c, uint64_t ms)
{
    struct life_node *n = arg;
    enum err rc = rt_cond_wait(c, deadline_in_ms((uint64_t)((double)ms / n->rate) + 1));

    while (n->paused && rc != ERR_CANCELLED)
        rc = rt_sleep_ms(10);
    return rc;
}

/* What it owned before counts as gained when it was out meanwhile. */
static inline void
life_on_map(void *arg, const struct node_map *m)
{
    struct life_node *n = arg;
    const struct node_entry *me = node_map_named(m, span_of(n->name));

    for (unsigned k = 0; k < LIFE_KEYS; k++) {
        bool mine = me != NULL && node_place_live_owner(m, n->life->keys[k]) == me;

        if (mine && (!n->keys[k].mine || me->since > n->epoch))
            n->keys[k].since = m->epoch;
        n->keys[k].mine = mine;
    }
    n->epoch = m->epoch;
    n->floor = m->epoch;
    if (me != NULL)
        n->number = me->number;
}

static inline bool
life_may_order(const struct life_node *n, unsigned key)
{
    return n->members != NULL && n->keys[key].mine &&
           members_lease_left_ns(n->members) > 0 &&
           members_acknowledged(n->members, n->keys[key].since);
}

/* False: it could not come in, for trouble went on. */
static inline bool
life_node_start(struct life_node *n)
{
    struct members_options o = {.cluster = "bay",
                                .node = n->name,
                                .takes_keys = true,
                                .number = n->number,
                                .epoch = n->floor,
                                .clock = &n->clock,
                                .on_map = life_on_map,
                                .arg = n};
    struct meta_etcd_options e = {.endpoints = model_door(n->life->model, n->index),
                                  .prefix = "forebay/bay/",
                                  .timeout_ms = 5000};
    struct errbuf eb = {{0}};
    struct rt_scope scope;
    enum err rc;

    assert(n->meta == NULL && n->members == NULL);
    memset(n->keys, 0, sizeof n->keys);
    n->epoch = 0;
    rt_scope_begin(&scope, deadline_in_ms(60000));
    rc = meta_open_etcd(&e, &n->meta, &eb);
    rt_scope_end(&scope);
    if (rc != ERR_OK)
        return false;
    o.meta = n->meta;
    rt_scope_begin(&scope, deadline_in_ms(60000));
    rc = members_join(&o, &n->members, &eb);
    rt_scope_end(&scope);
    n->life->starts += rc == ERR_OK;
    if (rc != ERR_OK)
        meta_close(&n->meta);
    return rc == ERR_OK;
}

static inline void
life_node_stop(struct life_node *n, bool in_order)
{
    if (in_order)
        members_leave(&n->members);
    else
        members_abandon(&n->members);
    meta_close(&n->meta);
}

/* ---- the monitor ---- */

static inline void
life_look(struct life *l)
{
    for (unsigned k = 0; k < LIFE_KEYS; k++) {
        const struct life_node *owner = NULL;

        for (unsigned i = 0; i < LIFE_NODES; i++) {
            if (!life_may_order(&l->nodes[i], k))
                continue;
            l->two_owners += owner != NULL;
            owner = &l->nodes[i];
            l->epochs_fell += owner->epoch < l->ordered_epoch[k];
            l->ordered_epoch[k] = MAX(l->ordered_epoch[k], owner->epoch);
            l->orders++;
        }
    }
}

static inline void
life_monitor(void *arg)
{
    struct life *l = arg;

    while (!l->over && rt_sleep_ms(7) == ERR_OK)
        life_look(l);
}

/* ---- trouble ---- */

static inline void
life_heal(struct life_node *n)
{
    struct model_door *d = &n->life->model->doors[n->index];

    d->in = d->out = MODEL_OPEN;
    d->delay_ms = 0;
    d->stale = 0;
    d->lose_answers = 0;
    n->paused = false;
}

static inline void
life_disturb(struct life_node *n)
{
    struct model_door *d = &n->life->model->doors[n->index];

    switch (sim_random() % 10) {
    case 0:
    case 1:
        n->paused = true; /* its answers wait too */
        d->out = MODEL_HOLD;
        break;
    case 2:
        d->in = sim_random() % 2 == 0 ? MODEL_HOLD : MODEL_LOSE;
        break;
    case 3:
    case 4:
        d->out = sim_random() % 2 == 0 ? MODEL_HOLD : MODEL_LOSE;
        break;
    case 5:
        d->delay_ms = sim_random() % 3000;
        break;
    case 6:
        d->stale = n->life->model->revision;
        break;
    case 7:
        d->lose_answers = 1 + (unsigned)(sim_random() % 4);
        break;
    case 8:
    default:
        d->in = d->out = MODEL_HOLD;
        break;
    }
}

/* One node through its life: trouble, calm, sometimes the end and another start. */
static inline void
life_node_run(void *arg)
{
    struct life_node *n = arg;
    struct life *l = n->life;

    while (!l->over) {
        if (n->members == NULL && !life_node_start(n)) {
            (void)!rt_sleep_ms(500);
            continue;
        }
        (void)!rt_sleep_ms(sim_random() % 12000);
        if (l->over)
            break;
        if (n->members != NULL &&
            (members_state_now(n->members) == MEMBERS_REFUSED || sim_random() % 6 == 0)) {
            life_heal(n);
            life_node_stop(n, sim_random() % 2 == 0);
            continue;
        }
        life_disturb(n);
        (void)!rt_sleep_ms(sim_random() % 16000);
        life_heal(n);
    }
    life_heal(n);
    life_node_stop(n, false); /* before the fiber that started it ends */
}

static inline unsigned
life_count_in(const struct life *l)
{
    unsigned in = 0;

    for (unsigned i = 0; i < LIFE_NODES; i++)
        in += l->nodes[i].members != NULL &&
              members_state_now(l->nodes[i].members) == MEMBERS_IN &&
              members_lease_left_ns(l->nodes[i].members) > 0 &&
              l->nodes[i].epoch == l->nodes[0].epoch;
    return in;
}

static inline unsigned
life_owned_keys(const struct life *l)
{
    unsigned owned = 0;

    for (unsigned k = 0; k < LIFE_KEYS; k++) {
        for (unsigned i = 0; i < LIFE_NODES; i++)
            owned += life_may_order(&l->nodes[i], k);
    }
    return owned;
}

static inline bool
life_is_whole(const struct life *l)
{
    return life_count_in(l) == LIFE_NODES && life_owned_keys(l) == LIFE_KEYS;
}

static inline bool
life_wait_whole(struct life *l, unsigned seconds)
{
    for (unsigned i = 0; i < seconds * 10 && !life_is_whole(l); i++)
        (void)!rt_sleep_ms(100);
    return life_is_whole(l);
}

/* All nodes live, and no one reaches etcd for a while. */
static inline void
life_outage(struct life *l, unsigned seconds)
{
    uint64_t before = l->nodes[0].epoch;

    if (!life_is_whole(l))
        return;
    for (unsigned i = 0; i < LIFE_NODES; i++)
        l->model->doors[i].in = MODEL_HOLD;
    (void)!rt_sleep_ms(seconds * 1000u);
    for (unsigned i = 0; i < LIFE_NODES; i++)
        l->model->doors[i].in = MODEL_OPEN;
    (void)!rt_sleep_ms(12000);
    l->evicted_in_outage += l->nodes[0].epoch != before;
}

static inline void
life_begin(struct life *l)
{
    *l = (struct life){.model = model_new()};
    for (unsigned k = 0; k < LIFE_KEYS; k++)
        l->keys[k] = sim_random();
    for (unsigned i = 0; i < LIFE_NODES; i++) {
        struct life_node *n = &l->nodes[i];

        n->life = l;
        n->index = i;
        n->rate = 0.9 + 0.2 * (double)(sim_random() % 1001) / 1000.0;
        n->offset_ns = sim_random() % 1000000000000u;
        n->clock = (struct members_clock){life_clock_now, life_clock_wait, n};
        snprintf(n->name, sizeof n->name, "node-%c", 'a' + (int)i);
        (void)model_door(l->model, i);
    }
}

static inline void
life_end(struct life *l)
{
    for (unsigned i = 0; i < LIFE_NODES; i++)
        life_node_stop(&l->nodes[i], false);
    model_free(&l->model);
}
