/* operate: changes of the map that an operator asks for. Any node may write them: the map is changed by compare-and-set. */
#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "members/internal.h"

#define OPERATE_TRIES 8u

/* Changes a copy of the map. ERR_OK: it is to be written. */
typedef enum err operate_edit(struct members *m, struct node_map *next,
                              struct node_entry *n, bool yes, struct errbuf *eb);

struct operation {
    struct span node;
    operate_edit *edit;
    bool yes; /* of the edit: maintenance, or the objects are lost */
};

/* Behind maintenance a running node is joining, and makes itself up: only it knows whether it can serve. */
static enum err
edit_maintenance(struct members *m, struct node_map *next, struct node_entry *n, bool on,
                 struct errbuf *eb)
{
    const struct members_seen *s = members_seen_of(m, n->number);
    bool beats = n->number == m->number || (s != NULL && s->revision != 0);

    if (n->state == NODE_REMOVED)
        return err_set(eb, ERR_EXISTS, "node \"%s\" was removed", n->name);
    if ((n->state == NODE_MAINTENANCE) == on)
        return err_set(eb, ERR_EXISTS, "node \"%s\" is %s maintenance already", n->name,
                       on ? "in" : "not in");
    n->state = on ? NODE_MAINTENANCE : beats ? NODE_JOINING : NODE_DOWN;
    n->since = next->epoch;
    return ERR_OK;
}

static void
placement_remove(struct node_placement *p, uint32_t number)
{
    for (uint32_t i = 0; i < p->count; i++) {
        if (p->at[i].number != number)
            continue;
        memmove(&p->at[i], &p->at[i + 1], (p->count - i - 1) * sizeof p->at[0]);
        p->count--;
        return;
    }
}

static bool
has_keys(const struct node_placement *p, uint32_t number)
{
    for (uint32_t i = 0; i < p->count; i++) {
        if (p->at[i].number == number)
            return true;
    }
    return false;
}

static enum err
edit_remove(struct members *m, struct node_map *next, struct node_entry *n, bool lost,
            struct errbuf *eb)
{
    if (n->state == NODE_REMOVED)
        return err_set(eb, ERR_EXISTS, "node \"%s\" was removed already", n->name);
    if (node_is_live(n) || n->state == NODE_JOINING)
        return err_set(eb, ERR_EXISTS,
                       "node \"%s\" is %s: stop it first, or wait until it is evicted",
                       n->name, node_state_name(n->state));
    if (has_keys(&next->now, n->number) && !lost)
        return err_set(
            eb, ERR_PRECONDITION,
            "node \"%s\" holds keys, and their objects cannot move yet: start it "
            "again, or declare them lost with --lost",
            n->name);
    if (has_keys(&next->now, n->number) && next->now.count == 1)
        return err_set(eb, ERR_PRECONDITION,
                       "node \"%s\" is the only one that holds keys", n->name);
    assert(n->number != m->number);
    placement_remove(&next->now, n->number);
    n->state = NODE_REMOVED;
    n->since = next->epoch;
    return ERR_OK;
}

/* With the map as it was adopted last. ERR_PRECONDITION from meta is ERR_BUSY here: another map stands there. */
static enum err
operate_once(struct members *m, const struct operation *op, struct errbuf *eb)
{
    struct arena *a = arena_new(4096, 4 * META_VALUE_MAX);
    struct node_map *next = node_map_copy(m->map);
    struct node_entry *n = node_map_named(next, op->node);
    struct meta_change c = {.key = SPAN("map"), .if_revision = m->map_revision};
    struct span reads[] = {SPAN("map")};
    struct meta_txn t = {&c, 1, reads, 1};
    struct meta_result r;
    struct buf value;
    enum err rc;

    next->epoch++;
    buf_init(&value, META_VALUE_MAX);
    rc = n == NULL ? err_set(eb, ERR_NOT_FOUND, "no node \"%.*s\" in cluster \"%s\"",
                             SPAN_ARG(op->node), m->o.cluster)
                   : op->edit(m, next, n, op->yes, eb);
    if (rc == ERR_OK) {
        node_map_encode(next, &value);
        assert(!value.full);
        c.value = buf_span(&value);
        rc = meta_apply_txn(m->o.meta, &t, a, &r, eb);
        if (rc == ERR_PRECONDITION)
            rc = ERR_BUSY;
    }
    if (rc == ERR_OK)
        LOG(LOG_INFO, "members.operator", "an operator has changed the state of a node",
            L_TEXT("node", n->name), L_TEXT("state", node_state_name(n->state)),
            L_U64("epoch", next->epoch));
    buf_fini(&value);
    node_map_free(&next);
    arena_free(&a);
    return rc;
}

static enum err
operate(struct members *m, const struct operation *op, struct errbuf *eb)
{
    enum err rc = ERR_BUSY;

    assert(m->map != NULL);
    for (unsigned i = 0; rc == ERR_BUSY && i < OPERATE_TRIES; i++) {
        uint64_t revision = m->map_revision;

        rc = operate_once(m, op, eb);
        if (rc != ERR_BUSY)
            break;
        /* The members' fiber adopts the map that is there now. */
        m->poked = true;
        rt_cond_signal(&m->wake);
        while (m->map_revision == revision && !m->stopping) {
            if (rt_cond_wait(&m->changed, deadline_in_ms(MEMBERS_BEAT_MS)) != ERR_OK)
                break;
        }
    }
    return rc == ERR_BUSY
               ? err_set(eb, ERR_BUSY, "the map is changed elsewhere; try again")
               : rc;
}

enum err
members_set_maintenance(struct members *m, struct span node, bool on, struct errbuf *eb)
{
    struct operation op = {.node = node, .edit = edit_maintenance, .yes = on};

    return operate(m, &op, eb);
}

enum err
members_remove_node(struct members *m, struct span node, bool lost, struct errbuf *eb)
{
    struct operation op = {.node = node, .edit = edit_remove, .yes = lost};

    return operate(m, &op, eb);
}
