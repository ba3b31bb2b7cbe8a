#include "members/internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "rt/file.h"
#include "rt/loop.h"
#include "rt/time.h"

#define REQUEST_MS 3000u
#define RETRY_MS   500u
#define AWAIT_MS   100u     /* between looks while others have not acknowledged the map */
#define NS         1000000u /* in a millisecond */

static_assert(MEMBERS_LEASE_MS * 11 < MEMBERS_EVICT_MS * 9,
              "clock rates may differ by 10 % either way");

#ifdef FB_TEST_HOOKS
unsigned members_plant;
#endif

static uint64_t
boot_now(void *arg)
{
    (void)arg;
    return rt_boot_ns();
}

static enum err
boot_wait(void *arg, struct rt_cond *c, uint64_t ms)
{
    (void)arg;
    return rt_cond_wait(c, deadline_in_ms(ms));
}

uint64_t
members_now_ns(const struct members *m)
{
    return m->clock.now_ns(m->clock.arg);
}

void
members_request_begin(struct rt_scope *s)
{
    rt_scope_begin(s, deadline_in_ms(REQUEST_MS));
}

/* ---- the lease ---- */

uint64_t
members_lease_left_ns(const struct members *m)
{
    uint64_t until = atomic_load(&m->lease_until_ns), now = members_now_ns(m);

    return until > now ? until - now : 0;
}

void
members_lease_extend(struct members *m, uint64_t sent_ns)
{
    uint64_t from =
        MEMBERS_PLANTED(MEMBERS_PLANT_LEASE_FROM_ANSWER) ? members_now_ns(m) : sent_ns;

    assert(sent_ns > 0);
    assert(m->state == MEMBERS_IN);
    atomic_store(&m->lease_until_ns, from + (uint64_t)MEMBERS_LEASE_MS * NS);
}

void
members_lost(struct members *m, const char *why)
{
    atomic_store(&m->lease_until_ns, 0);
    m->beat_revision = 0;
    if (m->state == MEMBERS_REFUSED)
        return;
    (void)err_set(&m->why, ERR_UNAVAILABLE, "%s", why);
    if (m->state != MEMBERS_OUT)
        LOG(LOG_WARN, "members.lost", why, L_U64("number", m->number));
    m->state = MEMBERS_OUT;
}

void
members_refuse(struct members *m)
{
    atomic_store(&m->lease_until_ns, 0);
    m->state = MEMBERS_REFUSED;
    LOG(LOG_ERROR, "members.refused", m->why.text, L_U64("number", m->number));
    if (m->o.on_refused != NULL)
        m->o.on_refused(m->o.arg);
    rt_cond_broadcast(&m->changed);
}

/* ---- the map ---- */

/* What the map says of this process. */
static void
find_myself(struct members *m)
{
    const struct node_entry *me = node_map_find(m->map, m->number);

    if (me != NULL && me->state == NODE_REMOVED) {
        (void)err_set(&m->why, ERR_UNAVAILABLE,
                      "node \"%s\" was removed from cluster \"%s\"", m->o.node,
                      m->o.cluster);
        members_refuse(m);
    } else if (me == NULL || me->incarnation != m->incarnation)
        members_lost(m, "another start of this node, or its removal, stands in the map");
    else if (me->state == NODE_DOWN && m->state == MEMBERS_IN)
        members_lost(m, "this node was evicted: its beats did not arrive in time");
    else if (node_is_live(me) && m->state == MEMBERS_PROBATION)
        m->state = MEMBERS_IN;
    else if (!node_is_live(me) && m->state == MEMBERS_IN) { /* an operator says so */
        atomic_store(&m->lease_until_ns, 0);
        m->state = MEMBERS_PROBATION;
    }
}

enum err
members_adopt(struct members *m, const struct meta_pair *pair, struct errbuf *eb)
{
    struct node_map *map, *old = m->map;
    enum err rc;

    assert(!m->adopting);
    if (pair->revision == m->map_revision)
        return ERR_OK;
    if (pair->revision == 0)
        return err_set(eb, ERR_UNAVAILABLE, "the map of the cluster is gone from etcd");
    rc = node_map_decode(pair->value, &map, eb);
    if (rc != ERR_OK)
        return rc;
    if (old != NULL && map->epoch <= old->epoch && pair->revision > m->map_revision) {
        rc = err_set(
            eb, ERR_UNAVAILABLE,
            "the map has epoch %llu, and had %llu: was etcd restored from an older "
            "backup? (docs/cluster.md)",
            (unsigned long long)map->epoch, (unsigned long long)old->epoch);
        m->why = *eb;
        members_refuse(m);
    }
    if (rc != ERR_OK || (old != NULL && map->epoch <= old->epoch)) {
        node_map_free(&map);
        return rc;
    }
    m->map = map;
    m->map_revision = pair->revision;
    find_myself(m); /* the lease ends before the new map is published */
    m->adopting = true;
    if (m->o.on_map != NULL)
        m->o.on_map(m->o.arg, map);
    m->adopting = false;
    node_map_free(&old);
    m->poked = true; /* the others wait for the acknowledgement */
    rt_cond_broadcast(&m->changed);
    return ERR_OK;
}

/* ---- the beat ---- */

void
members_next_beat(struct members *m, uint64_t epoch, struct buf *out)
{
    struct beat b = {.incarnation = m->incarnation,
                     .sequence = ++m->sequence,
                     .epoch = epoch,
                     .wall_ms = (int64_t)(rt_wall_ns() / NS)};

    memcpy(b.adopted, m->adopted, sizeof b.adopted);
    buf_init(out, 256);
    beat_encode(&b, out);
    assert(!out->full);
}

/* The beat is not as this process left it. */
static void
beat_changed(struct members *m, const struct meta_pair *now)
{
    struct beat b;

    if (now->revision == 0) {
        members_lost(m, "this node was evicted: its beats did not arrive in time");
        return;
    }
    if (beat_decode(now->value, &b, &m->why) == ERR_OK &&
        b.incarnation == m->incarnation) {
        m->beat_revision = now->revision; /* an earlier request has arrived after all */
        m->poked = true;
        return;
    }
    (void)err_set(
        &m->why, ERR_EXISTS,
        "another process runs as node \"%s\" of cluster \"%s\": is its data folder "
        "served twice, or its name given twice?",
        m->o.node, m->o.cluster);
    members_refuse(m);
}

static void
beat_once(struct members *m)
{
    struct arena *a = arena_new(4096, 4 * META_VALUE_MAX);
    char name[BEAT_KEY_MAX];
    struct meta_change c = {.key = beat_key(m->number, name),
                            .if_revision = m->beat_revision};
    struct span reads[] = {SPAN("map"), c.key};
    struct meta_txn t = {&c, 1, reads, 2};
    struct meta_result r;
    struct rt_scope scope;
    struct errbuf eb = {{0}};
    struct buf value;
    uint64_t sent_ns;
    enum err rc;

    assert(m->beat_revision > 0);
    assert(m->map != NULL);
    members_next_beat(m, m->map->epoch, &value);
    c.value = buf_span(&value);
    members_request_begin(&scope);
    sent_ns = members_now_ns(m);
    rc = meta_apply_txn(m->o.meta, &t, a, &r, &eb);
    rt_scope_end(&scope);
    if (rc == ERR_PRECONDITION) {
        beat_changed(m, &r.reads[1]);
    } else if (rc == ERR_OK) {
        m->beat_revision = r.revision;
        rc = members_adopt(m, &r.reads[0], &eb);
        if (m->state == MEMBERS_IN)
            members_lease_extend(m, sent_ns);
    }
    if (rc != ERR_OK && rc != ERR_PRECONDITION) {
        m->why = eb;
        LOG(LOG_WARN, "members.beat", eb.text,
            L_U64("lease_left_ms", members_lease_left_ns(m) / NS));
    }
    buf_fini(&value);
    arena_free(&a);
}

/* ---- the fiber ---- */

static void
members_round(struct members *m)
{
    struct errbuf eb = {{0}};

    m->poked = false;
    if (m->state == MEMBERS_OUT) {
        enum err rc = members_try_join(m, &eb);

        if (rc != ERR_OK && strcmp(m->why.text, eb.text) != 0)
            LOG(LOG_WARN, "members.join", eb.text, L_TEXT("node", m->o.node));
        if (rc != ERR_OK)
            m->why = eb;
        if (rc == ERR_EXISTS || rc == ERR_UNAVAILABLE || rc == ERR_BAD_REQUEST)
            members_refuse(m);
    } else {
        beat_once(m);
    }
    if (m->state == MEMBERS_IN || m->state == MEMBERS_PROBATION)
        members_look(m);
    if (m->state == MEMBERS_PROBATION)
        members_try_promote(m);
    if (m->o.on_look != NULL && m->map != NULL)
        m->o.on_look(m->o.arg);
    rt_cond_broadcast(&m->changed);
}

/* Keys that this node gains are ordered by no node until all have acknowledged the map. */
static bool
awaits_others(const struct members *m)
{
    return m->state == MEMBERS_IN && m->o.on_look != NULL &&
           !members_acknowledged(m, m->map->epoch);
}

static void
members_work(void *arg)
{
    struct members *m = arg;

    while (!m->stopping && !rt_cancelled() && m->state != MEMBERS_REFUSED) {
        uint64_t began = members_now_ns(m), took_ms, wait_ms;

        members_round(m);
        took_ms = (members_now_ns(m) - began) / NS;
        wait_ms = m->state == MEMBERS_OUT     ? RETRY_MS
                  : awaits_others(m)          ? AWAIT_MS
                  : took_ms < MEMBERS_BEAT_MS ? MEMBERS_BEAT_MS - took_ms
                                              : 1;
        if (!m->poked && !m->stopping &&
            m->clock.wait(m->clock.arg, &m->wake, wait_ms) == ERR_CANCELLED)
            break;
    }
    m->stopping = true;
    rt_cond_broadcast(&m->changed);
}

static void
on_map_key(void *arg)
{
    struct members *m = arg;

    m->poked = true;
    rt_cond_signal(&m->wake);
}

/* ---- begin and end ---- */

static char *
text_copy(const char *s)
{
    return s != NULL ? xstrdup(s) : NULL;
}

static void
members_free(struct members *m)
{
    meta_watch_stop(&m->watch);
    node_map_free(&m->map);
    free((char *)(uintptr_t)m->o.cluster);
    free((char *)(uintptr_t)m->o.node);
    free((char *)(uintptr_t)m->o.data);
    free((char *)(uintptr_t)m->o.control);
    free((char *)(uintptr_t)m->o.clients);
    free((char *)(uintptr_t)m->o.domain);
    free(m);
}

static struct members *
members_new(const struct members_options *o)
{
    struct members *m = xcalloc(1, sizeof *m);

    m->o = *o;
    m->o.cluster = text_copy(o->cluster);
    m->o.node = text_copy(o->node);
    m->o.data = text_copy(o->data);
    m->o.control = text_copy(o->control);
    m->o.clients = text_copy(o->clients);
    m->o.domain = text_copy(o->domain);
    m->clock =
        o->clock != NULL ? *o->clock : (struct members_clock){boot_now, boot_wait, NULL};
    while (m->incarnation == 0)
        rt_random(&m->incarnation, sizeof m->incarnation);
    rt_cond_init(&m->wake);
    rt_cond_init(&m->changed);
    m->ready = !o->waits;
    rt_group_begin(&m->group);
    return m;
}

enum err
members_join(const struct members_options *o, struct members **out, struct errbuf *eb)
{
    struct members *m = members_new(o);
    struct rt_shield shield;
    enum err rc;

    assert(rt_loop_index() == 0);
    assert(o->meta != NULL && o->cluster != NULL && o->node != NULL);
    *out = NULL;
    rc = meta_watch_start(o->meta, SPAN("map"), on_map_key, m, &m->watch, eb);
    rt_shield_begin(&shield); /* the beats outlive the scope of this call */
    if (rc == ERR_OK)
        rc = rt_group_start(&m->group, members_work, m);
    rt_shield_end(&shield);
    while (rc == ERR_OK && m->state == MEMBERS_OUT && !m->stopping)
        rc = rt_cond_wait(&m->changed, DEADLINE_NEVER);
    if (rc == ERR_OK && m->state != MEMBERS_OUT && m->state != MEMBERS_REFUSED) {
        *out = m;
        return ERR_OK;
    }
    if (m->why.text[0] != '\0')
        (void)err_set(eb, ERR_OK, "%s", m->why.text);
    rc = m->state == MEMBERS_REFUSED ? ERR_UNAVAILABLE
         : rc == ERR_OK              ? ERR_CANCELLED
                                     : rc;
    members_abandon(&m);
    return rc;
}

void
members_ready(struct members *m, const struct node_disk *disks, uint32_t count)
{
    assert(!m->ready);
    assert(count <= MAP_NODE_DISKS_MAX);
    memcpy(m->disks, disks, count * sizeof *disks);
    m->disk_count = count;
    m->ready = true;
    m->poked = true;
    rt_cond_signal(&m->wake);
}

void
members_abandon(struct members **mp)
{
    struct members *m = *mp;

    *mp = NULL;
    if (m == NULL)
        return;
    m->stopping = true;
    rt_group_cancel(&m->group);
    rt_group_join(&m->group);
    members_free(m);
}

void
members_leave(struct members **mp)
{
    struct members *m = *mp;

    if (m == NULL)
        return;
    m->stopping = true;
    rt_cond_broadcast(&m->wake);
    rt_group_cancel(&m->group);
    rt_group_join(&m->group);
    atomic_store(&m->lease_until_ns, 0); /* before the map says so */
    members_try_leave(m);
    members_abandon(mp);
}

/* ---- what others ask ---- */

enum members_state
members_state_now(const struct members *m)
{
    return m->state;
}

const char *
members_why(const struct members *m)
{
    return m->why.text;
}

uint32_t
members_number(const struct members *m)
{
    return m->number;
}

const struct node_map *
members_map(const struct members *m)
{
    return m->map;
}
