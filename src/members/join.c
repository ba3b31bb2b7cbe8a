/* join: a node enters the map, becomes up after a probation, and leaves. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "map/map.h"
#include "members/internal.h"
#include "rt/file.h"
#include "rt/time.h"

#define NS 1000000u

/* ---- what stands there ---- */

struct found_map {
    struct node_map *map; /* owned; NULL: there is none */
    uint64_t revision;
    struct meta_pair beat; /* of our number, in the arena; revision 0: none */
};

static enum err
map_read(struct members *m, struct arena *a, struct found_map *out, struct errbuf *eb)
{
    struct meta_pair pair;
    enum err rc = meta_get(m->o.meta, SPAN("map"), a, &pair, eb);

    *out = (struct found_map){0};
    if (rc == ERR_NOT_FOUND) {
        err_forget(eb);
        return ERR_OK;
    }
    if (rc != ERR_OK)
        return ERR_BUSY;
    out->revision = pair.revision;
    return node_map_decode(pair.value, &out->map, eb);
}

static enum err
beat_read(struct members *m, uint32_t number, struct arena *a, struct meta_pair *out,
          struct errbuf *eb)
{
    char name[BEAT_KEY_MAX];
    enum err rc = meta_get(m->o.meta, beat_key(number, name), a, out, eb);

    if (rc == ERR_NOT_FOUND) {
        *out = (struct meta_pair){0};
        err_forget(eb);
        return ERR_OK;
    }
    return rc == ERR_OK ? ERR_OK : ERR_BUSY;
}

/* Is it the cluster, and a state of it, that the disks know? */
static enum err
map_is_ours(const struct members *m, const struct node_map *map, struct errbuf *eb)
{
    uint64_t known = MAX(m->o.epoch, m->map != NULL ? m->map->epoch : 0);

    if (map == NULL && known > 0)
        return err_set(
            eb, ERR_UNAVAILABLE,
            "etcd has no cluster \"%s\", and the disks of this node belong to one, at "
            "epoch %llu: is this the right etcd? (docs/cluster.md)",
            m->o.cluster, (unsigned long long)known);
    if (map == NULL)
        return ERR_OK;
    if (map->cluster == NULL || strcmp(map->cluster, m->o.cluster) != 0)
        return err_set(eb, ERR_UNAVAILABLE, "etcd has cluster \"%s\" here, not \"%s\"",
                       map->cluster != NULL ? map->cluster : "", m->o.cluster);
    if (m->o.cluster_id != NULL && memcmp(m->o.cluster_id, map->cluster_id, 16) != 0)
        return err_set(
            eb, ERR_UNAVAILABLE,
            "the disks of this node belong to another cluster than \"%s\" in this "
            "etcd, though it has the same name",
            m->o.cluster);
    if (map->epoch < known)
        return err_set(
            eb, ERR_UNAVAILABLE,
            "the map in etcd has epoch %llu, and this node has seen %llu: was etcd "
            "restored from an older backup? (docs/cluster.md)",
            (unsigned long long)map->epoch, (unsigned long long)known);
    return ERR_OK;
}

/* ---- the next map ---- */

static void
text_set(char **to, const char *from)
{
    free(*to);
    *to = from != NULL ? xstrdup(from) : NULL;
}

static void
placement_add(struct node_placement *p, uint32_t number, uint32_t weight)
{
    uint32_t at = 0;

    while (at < p->count && p->at[at].number < number)
        at++;
    if (at == p->count || p->at[at].number != number) {
        assert(p->count < MAP_NODES_MAX);
        memmove(&p->at[at + 1], &p->at[at], (p->count - at) * sizeof p->at[0]);
        p->count++;
    }
    p->at[at].number = number;
    p->at[at].weight = weight;
}

/* Evicted MAP_NODE_STRIKES_MAX times within MEMBERS_STRIKES_MS. Wall clocks: a skew makes this too mild or too strict, and
 * nothing wrong. */
static bool
flaps(const struct node_entry *n)
{
    int64_t now_ms = (int64_t)(rt_wall_ns() / NS);

    return n->strike_count == MAP_NODE_STRIKES_MAX &&
           now_ms - n->strikes_ms[0] < (int64_t)MEMBERS_STRIKES_MS;
}

/* This node in the next map. NULL: it cannot be. */
static struct node_entry *
enter_map(struct members *m, struct node_map *map, struct errbuf *eb)
{
    struct node_entry *n = m->number != 0     ? node_map_find(map, m->number)
                           : m->o.number != 0 ? node_map_find(map, m->o.number)
                                              : node_map_named(map, span_of(m->o.node));

    if (m->o.number != 0 && (n == NULL || strcmp(n->name, m->o.node) != 0)) {
        (void)err_set(
            eb, ERR_UNAVAILABLE,
            "the disks of this node belong to node %u, and that is \"%s\" in the map, "
            "not \"%s\"",
            m->o.number, n != NULL ? n->name : "nothing", m->o.node);
        return NULL;
    }
    if (n == NULL && node_map_add(map, span_of(m->o.node), &n, eb) != ERR_OK)
        return NULL;
    if (n->state == NODE_REMOVED) {
        (void)err_set(
            eb, ERR_UNAVAILABLE,
            "node \"%s\" was removed from cluster \"%s\": join with an empty folder "
            "under another name",
            m->o.node, m->o.cluster);
        return NULL;
    }
    if (m->o.number == 0 && m->number == 0 && n->disk_count > 0) {
        (void)err_set(
            eb, ERR_UNAVAILABLE,
            "node \"%s\" of cluster \"%s\" has disks with data, and this folder is "
            "empty: is it the right folder? If those disks are lost for good: forebay "
            "cluster remove %s, then join under another name",
            m->o.node, m->o.cluster, m->o.node);
        return NULL;
    }
    text_set(&n->data, m->o.data);
    text_set(&n->control, m->o.control);
    text_set(&n->clients, m->o.clients);
    text_set(&n->domain, m->o.domain);
    n->weight = m->o.weight > 0 ? m->o.weight : MAP_NODE_WEIGHT;
    n->incarnation = m->incarnation;
    n->since = map->epoch;
    if (n->state != NODE_DRAINING && n->state != NODE_MAINTENANCE)
        n->state = flaps(n) ? NODE_DOWN : m->ready ? NODE_UP : NODE_JOINING;
    return n;
}

static struct node_map *
first_map(const struct members *m)
{
    struct node_map *map = node_map_new(MAX(m->o.first_epoch, 1));

    map->cluster = xstrdup(m->o.cluster);
    if (m->o.cluster_id != NULL)
        memcpy(map->cluster_id, m->o.cluster_id, sizeof map->cluster_id);
    else
        rt_random(map->cluster_id, sizeof map->cluster_id);
    return map;
}

/* ---- keys ---- */

static bool
is_placed(const struct node_placement *p, const struct node_entry *n)
{
    for (uint32_t i = 0; i < p->count; i++) {
        if (p->at[i].number == n->number)
            return p->at[i].weight == n->weight;
    }
    return false;
}

/* Takes keys as configured. They may change owners only while there is no native bucket, so no object of which only one
 * node knows. *fence keeps that true until the map is written: making a bucket changes the same key. */
static enum err
join_take_keys(struct members *m, struct node_map *map, const struct node_entry *n,
               struct meta_change *fence, struct arena *a, struct errbuf *eb)
{
    bool native = false, first = map->now.count == 0;
    enum err rc;

    *fence = (struct meta_change){0};
    if (!m->o.takes_keys || is_placed(&map->now, n))
        return ERR_OK;
    rc = map_bucket_fence(m->o.meta, a, fence, &native, eb);
    if (rc != ERR_OK)
        return ERR_BUSY;
    if (!native || first)
        placement_add(&map->now, n->number, n->weight);
    else
        LOG(LOG_WARN, "members.no_keys",
            "native buckets exist, and their objects cannot move yet: this node keeps "
            "the "
            "keys it had",
            L_TEXT("node", n->name));
    return ERR_OK;
}

/* ---- writing it ---- */

/* Beat, map and fence in one transaction: all are as they were read, or nothing changes. */
static enum err
write_beat_and_map(struct members *m, const struct meta_change *beat,
                   const struct meta_change *fence, const struct node_map *map,
                   uint64_t map_revision, struct meta_result *r, struct arena *a,
                   struct errbuf *eb)
{
    struct meta_change changes[3] = {*beat,
                                     {.key = SPAN("map"), .if_revision = map_revision}};
    struct span reads[] = {SPAN("map")};
    struct meta_txn t = {changes, 2, reads, 1};
    struct rt_scope scope;
    struct buf value;
    enum err rc;

    buf_init(&value, META_VALUE_MAX);
    node_map_encode(map, &value);
    changes[1].value = buf_span(&value);
    if (fence != NULL && fence->key.len > 0)
        changes[t.change_count++] = *fence;
    members_request_begin(&scope);
    rc = value.full
             ? err_set(eb, ERR_TOO_LARGE, "the map is over %u bytes", META_VALUE_MAX)
             : meta_apply_txn(m->o.meta, &t, a, r, eb);
    rt_scope_end(&scope);
    buf_fini(&value);
    return rc;
}

/* The lease begins later: with the map that has this node. */
static void
joined(struct members *m, const struct node_entry *me, uint64_t beat_revision)
{
    m->number = me->number;
    m->beat_revision = beat_revision;
    m->state = node_is_live(me) ? MEMBERS_IN : MEMBERS_PROBATION;
    m->probation_ns = members_now_ns(m);
    m->seen_count = 0; /* what was seen before this node was away says nothing */
    m->looked_ns = 0;
    m->former = 0;
    err_forget(&m->why);
    LOG(LOG_INFO, "members.joined",
        m->state == MEMBERS_IN      ? "this node is in the map"
        : me->state == NODE_JOINING ? "this node joins: its disks open"
        : me->state == NODE_MAINTENANCE
            ? "this node is in maintenance: forebay cluster maintenance NODE --off ends "
              "it"
            : "this node was evicted three times in ten minutes: it stays "
              "out until it has been up for five",
        L_U64("number", m->number), L_TEXT("node", m->o.node));
}

/* A process may hold the name: its beat must be gone, or unchanged for as long as an eviction takes. ERR_EXISTS: it beats. */
static enum err
wait_for_former(struct members *m, uint32_t number, const struct meta_pair *beat,
                struct errbuf *eb)
{
    const struct members_seen *was = members_seen_of(m, number), *now;
    uint64_t before = was != NULL ? was->revision : 0;

    if (beat->revision == 0)
        return ERR_OK;
    /* Once is a request that was under way when it died. */
    if (before != 0 && before != beat->revision && ++m->former > 1)
        return err_set(
            eb, ERR_EXISTS,
            "another process runs as node \"%s\" of cluster \"%s\": is its data "
            "folder served twice, or its name given twice?",
            m->o.node, m->o.cluster);
    now = members_see(m, number, beat);
    if (members_now_ns(m) - now->first_ns >= (uint64_t)MEMBERS_EVICT_MS * NS)
        return ERR_OK;
    return err_set(
        eb, ERR_BUSY,
        "the former process of node \"%s\" may still have a lease: this takes up to "
        "%u s",
        m->o.node, MEMBERS_EVICT_MS / 1000);
}

/* With the map as it was read. Takes it. */
static enum err
join_with(struct members *m, struct found_map *f, struct arena *a, struct errbuf *eb)
{
    char name[BEAT_KEY_MAX];
    struct meta_change beat = {0}, fence;
    struct meta_result r;
    struct node_entry *me;
    struct buf value;
    uint64_t sent_ns;
    enum err rc;

    if (f->map == NULL)
        f->map = first_map(m);
    else
        f->map->epoch++;
    me = enter_map(m, f->map, eb);
    if (me == NULL)
        return ERR_UNAVAILABLE;
    rc = beat_read(m, me->number, a, &f->beat, eb);
    if (rc == ERR_OK)
        rc = wait_for_former(m, me->number, &f->beat, eb);
    if (rc == ERR_OK)
        rc = join_take_keys(m, f->map, me, &fence, a, eb);
    if (rc != ERR_OK)
        return rc;
    members_next_beat(m, 0, &value);
    beat.key = beat_key(me->number, name);
    beat.value = buf_span(&value);
    beat.if_revision = f->beat.revision;
    sent_ns = members_now_ns(m);
    rc = write_beat_and_map(m, &beat, &fence, f->map, f->revision, &r, a, eb);
    buf_fini(&value);
    if (rc != ERR_OK)
        return ERR_BUSY; /* another one was faster, or the outcome is unknown: the next try reads again */
    joined(m, me, r.revision);
    rc = members_adopt(m, &r.reads[0], eb);
    if (rc == ERR_OK && m->state == MEMBERS_IN)
        members_lease_extend(m, sent_ns);
    return rc;
}

/* An earlier try whose answer was lost has entered this process. */
static bool
is_in_already(struct members *m, const struct found_map *f, struct arena *a)
{
    const struct node_entry *n =
        f->map != NULL ? node_map_named(f->map, span_of(m->o.node)) : NULL;
    struct meta_pair beat;
    struct beat b;

    if (n == NULL || n->incarnation != m->incarnation ||
        beat_read(m, n->number, a, &beat, NULL) != ERR_OK || beat.revision == 0 ||
        beat_decode(beat.value, &b, NULL) != ERR_OK || b.incarnation != m->incarnation)
        return false;
    joined(m, n, beat.revision);
    return true; /* without a lease: the next beat brings it */
}

enum err
members_try_join(struct members *m, struct errbuf *eb)
{
    struct arena *a = arena_new(4096, 8 * META_VALUE_MAX);
    struct found_map f;
    struct rt_scope scope;
    enum err rc;

    assert(m->state == MEMBERS_OUT);
    members_request_begin(&scope);
    rc = map_read(m, a, &f, eb);
    rt_scope_end(&scope);
    if (rc == ERR_OK)
        rc = map_is_ours(m, f.map, eb);
    if (rc == ERR_OK && is_in_already(m, &f, a)) {
        struct meta_pair pair;

        rc = meta_get(m->o.meta, SPAN("map"), a, &pair, eb);
        if (rc == ERR_OK)
            rc = members_adopt(m, &pair, eb);
        if (rc != ERR_OK && m->state != MEMBERS_REFUSED)
            m->state = MEMBERS_OUT;
        m->poked = true;
    } else if (rc == ERR_OK) {
        rc = join_with(m, &f, a, eb);
    }
    node_map_free(&f.map);
    arena_free(&a);
    return rc;
}

/* ---- later ---- */

/* The map with this node in another state. The beat goes on by `beat`. */
static enum err
change_myself(struct members *m, enum node_state to, const struct meta_change *beat,
              struct meta_result *r, struct arena *a)
{
    struct node_map *next = node_map_copy(m->map);
    struct node_entry *me = node_map_find(next, m->number);
    struct errbuf eb = {{0}};
    enum err rc;

    assert(me != NULL);
    next->epoch++;
    if (to == NODE_UP && me->state == NODE_DOWN)
        me->strike_count = 0; /* its probation is over */
    me->state = to;
    me->since = next->epoch;
    if (to == NODE_UP && m->disk_count > 0) {
        free(me->disks);
        me->disks = xcalloc(m->disk_count, sizeof m->disks[0]);
        memcpy(me->disks, m->disks, m->disk_count * sizeof m->disks[0]);
        me->disk_count = m->disk_count;
    }
    rc = write_beat_and_map(m, beat, NULL, next, m->map_revision, r, a, &eb);
    node_map_free(&next);
    return rc;
}

/* It waited for its disks, or was evicted too often and has been there for long enough. Maintenance is an operator's. */
static bool
may_be_up(const struct members *m, uint64_t now)
{
    const struct node_entry *me = node_map_find(m->map, m->number);

    if (me == NULL || !m->ready)
        return false;
    return me->state == NODE_JOINING ||
           (me->state == NODE_DOWN &&
            now - m->probation_ns >= (uint64_t)MEMBERS_PROBATION_MS * NS);
}

void
members_try_promote(struct members *m)
{
    struct arena *a = arena_new(4096, 4 * META_VALUE_MAX);
    char name[BEAT_KEY_MAX];
    struct meta_change beat = {.key = beat_key(m->number, name),
                               .if_revision = m->beat_revision};
    uint64_t sent_ns = members_now_ns(m);
    struct meta_result r;
    struct errbuf eb = {{0}};
    struct buf value;

    assert(m->state == MEMBERS_PROBATION);
    assert(m->map != NULL);
    if (m->beat_revision != 0 && may_be_up(m, sent_ns)) {
        members_next_beat(m, m->map->epoch, &value);
        beat.value = buf_span(&value);
        if (change_myself(m, NODE_UP, &beat, &r, a) == ERR_OK) {
            m->beat_revision = r.revision;
            (void)members_adopt(m, &r.reads[0], &eb);
            if (m->state == MEMBERS_IN)
                members_lease_extend(m, sent_ns);
        }
        buf_fini(&value);
    }
    arena_free(&a);
}

void
members_try_leave(struct members *m)
{
    struct arena *a = arena_new(4096, 4 * META_VALUE_MAX);
    char name[BEAT_KEY_MAX];
    struct meta_change beat = {.remove = true, .if_revision = m->beat_revision};
    struct meta_result r;

    if (m->beat_revision != 0 && m->map != NULL && !rt_cancelled()) {
        const struct node_entry *me = node_map_find(m->map, m->number);

        beat.key = beat_key(m->number, name);
        if (me != NULL && me->incarnation == m->incarnation)
            (void)!change_myself(
                m,
                me->state == NODE_UP || me->state == NODE_JOINING ? NODE_DOWN : me->state,
                &beat, &r, a);
    }
    arena_free(&a);
}
