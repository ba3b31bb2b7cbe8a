/* adopt: a change of buckets or users is answered when every live node acts by it. Beats carry the revisions. */
#include <assert.h>

#include "members/internal.h"
#include "rt/loop.h"
#include "rt/time.h"

#define ADOPT_POLL_MS 25u
/* A node that does not adopt is evicted well before this. */
#define ADOPT_WAIT_MS (2u * MEMBERS_EVICT_MS)

static void
beat_now(struct members *m)
{
    m->poked = true;
    rt_cond_signal(&m->wake);
}

void
members_adopted(struct members *m, enum members_adopted what, uint64_t revision)
{
    assert(rt_loop_index() == 0);
    assert(what < MEMBERS_ADOPTED_);
    if (revision <= m->adopted[what])
        return;
    m->adopted[what] = revision;
    beat_now(m);
}

/* The first live node that has not said so. */
static const struct node_entry *
who_lags(struct members *m, enum members_adopted what, uint64_t revision)
{
    for (uint32_t i = 0; i < m->map->count; i++) {
        const struct node_entry *n = &m->map->nodes[i];
        const struct members_seen *s = members_seen_of(m, n->number);

        bool joins = n->state == NODE_JOINING && s != NULL && s->revision != 0;

        if (n->number == m->number || (!node_is_live(n) && !joins))
            continue;
        if (s == NULL || s->revision == 0 || s->beat.incarnation != n->incarnation ||
            s->beat.adopted[what] < revision)
            return n;
    }
    return NULL;
}

enum err
members_wait_adopted(struct members *m, enum members_adopted what, uint64_t revision,
                     struct errbuf *eb)
{
    struct deadline by = deadline_in_ms(ADOPT_WAIT_MS);
    const struct node_entry *lags;
    enum err rc = members_catch_up(m, eb); /* a node that has just joined counts, too */

    assert(rt_loop_index() == 0);
    assert(what < MEMBERS_ADOPTED_);
    if (rc != ERR_OK)
        return rc;
    while ((lags = who_lags(m, what, revision)) != NULL) {
        if (members_lease_left_ns(m) == 0)
            return err_set(eb, ERR_UNAVAILABLE,
                           "the change is made, and this node has no lease to see that "
                           "all nodes know it");
        if (deadline_passed(by))
            return err_set(eb, ERR_UNAVAILABLE,
                           "the change is made, and node \"%s\" does not know it yet",
                           lags->name);
        beat_now(m); /* a round looks at all beats */
        rc = rt_sleep_ms(ADOPT_POLL_MS);
        if (rc != ERR_OK)
            return err_set(eb, rc,
                           "the change is made, and was not waited for on all nodes");
    }
    return ERR_OK;
}

enum err
members_catch_up(struct members *m, struct errbuf *eb)
{
    struct arena *a = arena_new(4096, 4 * META_VALUE_MAX);
    struct deadline by = deadline_in_ms(MEMBERS_EVICT_MS);
    struct meta_pair pair;
    enum err rc = meta_get(m->o.meta, SPAN("map"), a, &pair, eb);

    assert(rt_loop_index() == 0);
    while (rc == ERR_OK && (m->map_revision < pair.revision || m->adopting)) {
        if (m->stopping || m->state == MEMBERS_REFUSED)
            rc = err_set(eb, ERR_UNAVAILABLE, "this node leaves its cluster");
        else if (deadline_passed(by))
            rc = err_set(eb, ERR_TIMEOUT, "the map of the cluster is not adopted: %s",
                         m->why.text);
        else {
            beat_now(m);
            rc = rt_cond_wait(&m->changed, deadline_in_ms(ADOPT_POLL_MS));
            rc = rc == ERR_TIMEOUT ? ERR_OK : rc;
        }
    }
    arena_free(&a);
    return rc;
}
