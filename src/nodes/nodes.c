/* nodes: the snapshot of the map that all loops read. Loop 0 replaces it; readers borrow it until they switch. */
#include "nodes/nodes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "nodes/internal.h"
#include "rt/loop.h"

struct nodes *
nodes_new(const struct nodes_options *o)
{
    struct nodes *n = xcalloc(1, sizeof *n);

    assert(o->self > 0);
    assert(o->lease_left_ns != NULL);
    assert(o->fetch_map != NULL);
    n->o = *o;
    atomic_store(&n->now, NULL);
    return n;
}

static void
free_snapshot(void *arg)
{
    struct nodes_snapshot *s = arg;

    if (s == NULL)
        return;
    node_map_free(&s->map);
    node_map_free(&s->agreed);
    free(s);
}

void
nodes_free(struct nodes **np)
{
    struct nodes *n = *np;

    *np = NULL;
    if (n == NULL)
        return;
    free_snapshot(atomic_load(&n->now));
    free(n);
}

/* Whether the nodes of `p` have the same states in both maps, and did not start again between them. */
static bool
same_states(const struct node_map *a, const struct node_map *b,
            const struct node_placement *p)
{
    assert(p->count <= MAP_NODES_MAX);
    for (uint32_t i = 0; i < p->count; i++) {
        const struct node_entry *x = node_map_find(a, p->at[i].number);
        const struct node_entry *y = node_map_find(b, p->at[i].number);

        if ((x == NULL) != (y == NULL) ||
            (x != NULL && (x->state != y->state || x->since != y->since ||
                           x->incarnation != y->incarnation)))
            return false;
    }
    return true;
}

static bool
same_placement(const struct node_placement *a, const struct node_placement *b)
{
    return a->count == b->count && memcmp(a->at, b->at, a->count * sizeof a->at[0]) == 0;
}

/* Whether each key of an attached bucket has the same owner in both maps, and had it in those between them. */
static bool
same_owners(const struct node_map *a, const struct node_map *b)
{
    return a->moves == b->moves && same_placement(&a->now, &b->now) &&
           same_states(a, b, &a->now) &&
           (!a->moves ||
            (a->flipped == b->flipped && same_placement(&a->next, &b->next) &&
             same_states(a, b, &a->next)));
}

void
nodes_publish(struct nodes *n, const struct node_map *m)
{
    struct nodes_snapshot *old = atomic_load_explicit(&n->now, memory_order_relaxed);
    struct nodes_snapshot *s;
    const struct node_map *agreed = NULL;

    assert(rt_loop_index() == 0);
    assert(m->epoch > 0);
    if (old != NULL && m->epoch <= old->map->epoch)
        return; /* a map that was overtaken, or the same one again */
    if (old != NULL)
        agreed = atomic_load(&old->acknowledged) ? old->map : old->agreed;
    s = xcalloc(1, sizeof *s);
    s->map = node_map_copy(m);
    s->agreed = agreed != NULL ? node_map_copy(agreed) : NULL;
    assert(s->agreed == NULL || s->agreed->epoch < s->map->epoch);
    s->stable_since =
        old != NULL && same_owners(old->map, m) ? old->stable_since : m->epoch;
    assert(s->stable_since > 0);
    assert(s->stable_since <= m->epoch);
    atomic_init(&s->acknowledged, false);
    atomic_store_explicit(&n->now, s, memory_order_release);
    if (old != NULL)
        rt_retire(free_snapshot, old);
}

void
nodes_acknowledge(struct nodes *n, uint64_t epoch)
{
    struct nodes_snapshot *s = atomic_load_explicit(&n->now, memory_order_relaxed);

    assert(rt_loop_index() == 0);
    if (s == NULL || s->map->epoch != epoch)
        return;
    atomic_store_explicit(&s->acknowledged, true, memory_order_release);
}

const struct node_map *
nodes_map(const struct nodes *n)
{
    const struct nodes_snapshot *s = n != NULL ? nodes_snapshot_now(n) : NULL;

    return s != NULL ? s->map : NULL;
}

uint64_t
nodes_epoch(const struct nodes *n)
{
    const struct node_map *m = nodes_map(n);

    return m != NULL ? m->epoch : 0;
}

bool
nodes_is_acknowledged(const struct nodes *n)
{
    const struct nodes_snapshot *s = n != NULL ? nodes_snapshot_now(n) : NULL;

    return n == NULL ||
           (s != NULL && atomic_load_explicit(&s->acknowledged, memory_order_acquire));
}

uint64_t
nodes_stable_since(const struct nodes *n)
{
    const struct nodes_snapshot *s = n != NULL ? nodes_snapshot_now(n) : NULL;

    if (n == NULL)
        return 0;
    return s != NULL ? s->stable_since : UINT64_MAX;
}

uint32_t
nodes_self(const struct nodes *n)
{
    return n != NULL ? n->o.self : 0;
}

bool
nodes_has_lease(const struct nodes *n)
{
    return n == NULL || n->o.lease_left_ns(n->o.arg) > 0;
}

enum err
nodes_catch_up(struct nodes *n, uint64_t epoch, struct errbuf *eb)
{
    enum err rc;

    if (n == NULL || nodes_epoch(n) >= epoch)
        return ERR_OK;
    rc = n->o.fetch_map(n->o.arg, epoch, eb); /* may switch */
    if (rc == ERR_OK && nodes_epoch(n) < epoch)
        rc = err_set(eb, ERR_UNAVAILABLE,
                     "the map of the cluster has epoch %llu here, and another node has "
                     "%llu; retry later",
                     (unsigned long long)nodes_epoch(n), (unsigned long long)epoch);
    return rc;
}
