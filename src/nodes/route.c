/* route: which node owns a key now, and which nodes a request over many keys asks. */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "map/node_place.h"
#include "nodes/internal.h"

#define KEY_BYTES_MAX  1024u
#define NAME_BYTES_MAX (16 + 2 + MAP_NAMESPACE_MAX + MAP_BUCKET_NAME_MAX + 4)

/* The name at birth, without what makes it unique among buckets of other namespaces. */
static struct span
name_of_bucket(const struct map_bucket *b)
{
    const char *at = strrchr(b->immutable_name, '@');

    return span_of(at != NULL ? at + 1 : b->immutable_name);
}

uint64_t
nodes_key_digest(const struct map_bucket *b, struct span key)
{
    char text[NAME_BYTES_MAX + KEY_BYTES_MAX];
    struct span name = name_of_bucket(b), parts[] = {
                                              span_of(map_provider_name(b->provider)),
                                              SPAN("/@#"),
                                              span_of(b->ns),
                                              SPAN("/"),
                                              name,
                                              SPAN("/"),
                                              key,
                                          };
    size_t len = 0;

    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        size_t n = MIN(parts[i].len, sizeof text - len); /* no store has a longer key */

        if (n > 0)
            memcpy(text + len, parts[i].at, n);
        len += n;
    }
    return node_place_digest((struct span){text, len});
}

static enum err
no_map(struct errbuf *eb)
{
    return err_set(eb, ERR_UNAVAILABLE,
                   "this node has no map of the cluster yet; retry later");
}

static enum err
no_lease(struct errbuf *eb)
{
    return err_set(eb, ERR_UNAVAILABLE,
                   "this node holds the key and has no lease: it does not reach etcd; "
                   "retry later");
}

static enum err
owner_is_away(const struct node_entry *owner, struct errbuf *eb)
{
    return err_set(eb, ERR_UNAVAILABLE,
                   "node %u (%s), which holds the key, is %s; retry later", owner->number,
                   owner->name, node_state_name(owner->state));
}

static const struct node_entry *
owner_in(const struct node_map *m, uint64_t digest, bool cached)
{
    return cached ? node_place_live_owner(m, digest) : node_place_owner(m, digest);
}

/* Whether this node may answer for a native key that it owns by the published map. */
static bool
had_before(const struct nodes *n, const struct nodes_snapshot *s, uint64_t digest,
           bool cached)
{
    const struct node_entry *before;

    if (cached || atomic_load_explicit(&s->acknowledged, memory_order_acquire))
        return true;
    before = s->agreed != NULL ? node_place_owner(s->agreed, digest) : NULL;
    return before != NULL && before->number == n->o.self;
}

enum err
nodes_route(const struct nodes *n, const struct map_bucket *b, struct span key,
            struct nodes_route *out, struct errbuf *eb)
{
    const struct nodes_snapshot *s;
    const struct node_entry *owner;
    uint64_t digest;

    *out = (struct nodes_route){.here = true};
    if (n == NULL)
        return ERR_OK;
    s = nodes_snapshot_now(n);
    if (s == NULL)
        return no_map(eb);
    digest = nodes_key_digest(b, key);
    owner = owner_in(s->map, digest, b->cached);
    if (owner == NULL)
        return err_set(
            eb, ERR_UNAVAILABLE,
            "no live node of the cluster takes keys; see forebay cluster show");
    *out = (struct nodes_route){.here = owner->number == n->o.self,
                                .number = owner->number,
                                .epoch = s->map->epoch};
    if (!node_is_live(owner))
        return owner_is_away(owner, eb);
    if (!out->here) {
        out->address = owner->control;
        return owner->control != NULL
                   ? ERR_OK
                   : err_set(eb, ERR_UNAVAILABLE,
                             "node %u (%s) gives no address for other nodes",
                             owner->number, owner->name);
    }
    if (!nodes_has_lease(n))
        return no_lease(eb);
    if (!had_before(n, s, digest, b->cached))
        return err_set(eb, ERR_UNAVAILABLE,
                       "this node has just got the key, and waits until all nodes know "
                       "(epoch %llu); retry later",
                       (unsigned long long)s->map->epoch);
    return ERR_OK;
}

bool
nodes_owns(const struct nodes *n, const struct map_bucket *b, struct span key)
{
    struct nodes_route r;

    return nodes_route(n, b, key, &r, NULL) == ERR_OK && r.here;
}

bool
nodes_places_here(const struct nodes *n, const struct map_bucket *b, struct span key)
{
    const struct nodes_snapshot *s = n != NULL ? nodes_snapshot_now(n) : NULL;
    const struct node_entry *owner =
        s != NULL ? node_place_owner(s->map, nodes_key_digest(b, key)) : NULL;

    return n == NULL || (owner != NULL && owner->number == n->o.self);
}

/* Whether a node has a place for keys, by `now` or `next`. */
static bool
has_place(const struct node_map *m, uint32_t number)
{
    for (uint32_t i = 0; i < m->now.count; i++)
        if (m->now.at[i].number == number)
            return true;
    for (uint32_t i = 0; m->moves && i < m->next.count; i++)
        if (m->next.at[i].number == number)
            return true;
    return false;
}

enum err
nodes_holders(const struct nodes *n, bool cached, struct nodes_route *out,
              uint32_t *count, struct errbuf *eb)
{
    const struct nodes_snapshot *s = n != NULL ? nodes_snapshot_now(n) : NULL;

    *count = 0;
    if (n == NULL) {
        out[(*count)++] = (struct nodes_route){.here = true};
        return ERR_OK;
    }
    if (s == NULL)
        return no_map(eb);
    for (uint32_t i = 0; i < s->map->count; i++) {
        const struct node_entry *e = &s->map->nodes[i];
        bool here = e->number == n->o.self;

        if (!has_place(s->map, e->number))
            continue;
        if (!node_is_live(e) && cached)
            continue; /* what it kept can be fetched again */
        if (!node_is_live(e))
            return owner_is_away(e, eb);
        if (here && !nodes_has_lease(n))
            return no_lease(eb);
        if (here && !cached && !atomic_load(&s->acknowledged) && s->agreed == NULL)
            return err_set(eb, ERR_UNAVAILABLE,
                           "this node has just joined, and waits until all nodes know "
                           "(epoch %llu); retry later",
                           (unsigned long long)s->map->epoch);
        out[(*count)++] = (struct nodes_route){.here = here,
                                               .number = e->number,
                                               .address = here ? NULL : e->control,
                                               .epoch = s->map->epoch};
    }
    assert(*count <= MAP_NODES_MAX);
    return *count > 0 ? ERR_OK
                      : err_set(eb, ERR_UNAVAILABLE,
                                "no live node of the cluster takes keys; see forebay "
                                "cluster show");
}
