#include "map/node_map.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "meta/meta.h"
#include "wire/record.h"

enum { KIND_MAP = 51, KIND_NODE = 52, MAP_VERSION = 1, NODE_VERSION = 1 };
enum {
    F_EPOCH = 1,
    F_CLUSTER = 2,
    F_CLUSTER_ID = 3,
    F_NEXT_NUMBER = 4,
    F_NODE = 5,
    F_NOW = 6,
    F_MOVES = 7,
    F_NEXT = 8,
    F_FLIPPED = 9,
};
enum {
    F_NUMBER = 1,
    F_NAME = 2,
    F_INCARNATION = 3,
    F_STATE = 4,
    F_SINCE = 5,
    F_WEIGHT = 6,
    F_DOMAIN = 7,
    F_DATA = 8,
    F_CONTROL = 9,
    F_CLIENTS = 10,
    F_DISK = 11,
    F_STRIKE = 12,
};
enum { DISK_BYTES = 17, PLACE_BYTES = 8 };
static_assert(NODE_REMOVED == 5, "states are stored as numbers");

const char *
node_state_name(enum node_state s)
{
    static const char *const names[NODE_STATES_] = {"joining",  "up",          "down",
                                                    "draining", "maintenance", "removed"};

    assert(s < NODE_STATES_);
    return names[s];
}

/* ---- writing ---- */

static void
node_put_text(struct record_writer *w, uint8_t id, const char *text)
{
    if (text != NULL)
        record_put_span(w, id, span_of(text));
}

static void
node_put_number(struct record_writer *w, uint8_t id, uint64_t n)
{
    if (n != 0)
        record_put_u64(w, id, n);
}

static void
node_entry_encode(const struct node_entry *n, struct buf *out)
{
    struct record_writer w;

    assert(n->number > 0);
    assert(n->name != NULL);
    assert(n->state < NODE_STATES_);
    assert(n->strike_count <= MAP_NODE_STRIKES_MAX);
    record_begin(&w, out, KIND_NODE, NODE_VERSION);
    record_put_u64(&w, F_NUMBER, n->number);
    node_put_text(&w, F_NAME, n->name);
    node_put_number(&w, F_INCARNATION, n->incarnation);
    node_put_number(&w, F_STATE, n->state);
    node_put_number(&w, F_SINCE, n->since);
    record_put_u64(&w, F_WEIGHT, n->weight);
    node_put_text(&w, F_DOMAIN, n->domain);
    node_put_text(&w, F_DATA, n->data);
    node_put_text(&w, F_CONTROL, n->control);
    node_put_text(&w, F_CLIENTS, n->clients);
    for (uint32_t i = 0; i < n->disk_count; i++) {
        char bytes[DISK_BYTES];

        memcpy(bytes, n->disks[i].id, 16);
        bytes[16] = n->disks[i].in_sync;
        record_put_span(&w, F_DISK, (struct span){bytes, sizeof bytes});
    }
    for (uint32_t i = 0; i < n->strike_count; i++)
        record_put_u64(&w, F_STRIKE, (uint64_t)n->strikes_ms[i]);
    record_end(&w);
}

static void
placement_put(struct record_writer *w, uint8_t id, const struct node_placement *p)
{
    assert(p->count <= MAP_NODES_MAX);
    for (uint32_t i = 0; i < p->count; i++) {
        struct buf b;

        buf_init(&b, PLACE_BYTES);
        buf_be(&b, p->at[i].number, 4);
        buf_be(&b, p->at[i].weight, 4);
        record_put_span(w, id, buf_span(&b));
        buf_fini(&b);
    }
}

void
node_map_encode(const struct node_map *m, struct buf *out)
{
    struct record_writer w;

    assert(m->epoch > 0);
    assert(m->count <= MAP_NODES_MAX);
    assert(m->moves || (m->next.count == 0 && m->flipped == 0));
    record_begin(&w, out, KIND_MAP, MAP_VERSION);
    record_put_u64(&w, F_EPOCH, m->epoch);
    node_put_text(&w, F_CLUSTER, m->cluster);
    if (m->cluster != NULL)
        record_put_span(&w, F_CLUSTER_ID,
                        (struct span){(const char *)m->cluster_id, sizeof m->cluster_id});
    node_put_number(&w, F_NEXT_NUMBER, m->next_number);
    for (uint32_t i = 0; i < m->count; i++) {
        struct buf node;

        buf_init(&node, META_VALUE_MAX);
        node_entry_encode(&m->nodes[i], &node);
        assert(!node.full);
        record_put_span(&w, F_NODE, buf_span(&node));
        buf_fini(&node);
    }
    placement_put(&w, F_NOW, &m->now);
    node_put_number(&w, F_MOVES, m->moves);
    placement_put(&w, F_NEXT, &m->next);
    node_put_number(&w, F_FLIPPED, m->flipped);
    record_end(&w);
}

/* ---- reading ---- */

static enum err
map_corrupt(struct errbuf *eb, const char *what)
{
    return err_set(eb, ERR_CORRUPT, "a map record with %s", what);
}

static enum err
node_take_number(struct span v, uint64_t most, uint64_t *out, struct errbuf *eb)
{
    if (record_u64(v, out) != ERR_OK || *out == 0 || *out > most)
        return map_corrupt(eb, "a number that is out of range");
    return ERR_OK;
}

static enum err
node_take_text(struct span v, size_t most, char **out, struct errbuf *eb)
{
    if (*out != NULL || v.len == 0 || v.len > most || memchr(v.at, 0, v.len) != NULL)
        return map_corrupt(eb, "a text that is none");
    *out = xmemdup0(v.at, v.len);
    return ERR_OK;
}

static enum err
node_take_disk(struct node_entry *n, struct span v, struct errbuf *eb)
{
    if (v.len != DISK_BYTES || (unsigned char)v.at[16] > 1 ||
        n->disk_count == MAP_NODE_DISKS_MAX)
        return map_corrupt(eb, "a disk that is none");
    if (n->disks == NULL)
        n->disks = xcalloc(MAP_NODE_DISKS_MAX, sizeof *n->disks);
    memcpy(n->disks[n->disk_count].id, v.at, 16);
    n->disks[n->disk_count++].in_sync = v.at[16] == 1;
    return ERR_OK;
}

static enum err
node_take_strike(struct node_entry *n, struct span v, struct errbuf *eb)
{
    uint64_t ms;
    enum err rc = node_take_number(v, INT64_MAX, &ms, eb);

    if (rc == ERR_OK && n->strike_count == MAP_NODE_STRIKES_MAX)
        rc = map_corrupt(eb, "too many evictions");
    if (rc == ERR_OK)
        n->strikes_ms[n->strike_count++] = (int64_t)ms;
    return rc;
}

static enum err
node_take_field(struct node_entry *n, uint8_t id, struct span v, struct errbuf *eb)
{
    uint64_t number = 0;
    enum err rc = ERR_OK;

    switch (id) {
    case F_NUMBER:
        rc = node_take_number(v, UINT32_MAX - 1, &number, eb);
        n->number = (uint32_t)number;
        return rc;
    case F_NAME:
        return node_take_text(v, MAP_NODE_NAME_MAX, &n->name, eb);
    case F_INCARNATION:
        return node_take_number(v, UINT64_MAX, &n->incarnation, eb);
    case F_STATE:
        rc = node_take_number(v, NODE_STATES_ - 1, &number, eb);
        n->state = (enum node_state)number;
        return rc;
    case F_SINCE:
        return node_take_number(v, UINT64_MAX, &n->since, eb);
    case F_WEIGHT:
        rc = node_take_number(v, MAP_NODE_WEIGHT_MAX, &number, eb);
        n->weight = (uint32_t)number;
        return rc;
    case F_DOMAIN:
        return node_take_text(v, MAP_NODE_TEXT_MAX, &n->domain, eb);
    case F_DATA:
        return node_take_text(v, MAP_NODE_TEXT_MAX, &n->data, eb);
    case F_CONTROL:
        return node_take_text(v, MAP_NODE_TEXT_MAX, &n->control, eb);
    case F_CLIENTS:
        return node_take_text(v, MAP_NODE_TEXT_MAX, &n->clients, eb);
    case F_DISK:
        return node_take_disk(n, v, eb);
    case F_STRIKE:
        return node_take_strike(n, v, eb);
    default:
        return ERR_OK; /* of a newer program */
    }
}

static void
node_entry_fini(struct node_entry *n)
{
    free(n->name);
    free(n->domain);
    free(n->data);
    free(n->control);
    free(n->clients);
    free(n->disks);
    *n = (struct node_entry){0};
}

static enum err
node_entry_decode(struct span bytes, struct node_entry *n, struct errbuf *eb)
{
    struct record r;
    struct span v;
    uint8_t id;
    enum err rc = record_open(bytes, &r, eb);

    if (rc == ERR_OK && (r.kind != KIND_NODE || r.len != bytes.len))
        return map_corrupt(eb, "a node that is none");
    if (rc == ERR_OK && r.version != NODE_VERSION)
        return err_set(eb, ERR_NOT_IMPLEMENTED,
                       "a node of the map has version %u; this program reads %u",
                       r.version, NODE_VERSION);
    while (rc == ERR_OK && record_next(&r, &id, &v))
        rc = node_take_field(n, id, v, eb);
    if (rc == ERR_OK && (n->number == 0 || n->name == NULL || n->weight == 0))
        rc = map_corrupt(eb, "a node without number, name or weight");
    return rc;
}

static enum err
map_take_node(struct node_map *m, struct span v, struct errbuf *eb)
{
    enum err rc;

    if (m->count == MAP_NODES_MAX)
        return map_corrupt(eb, "too many nodes");
    m->nodes = xrealloc(m->nodes, (m->count + 1) * sizeof *m->nodes);
    m->nodes[m->count] = (struct node_entry){0};
    rc = node_entry_decode(v, &m->nodes[m->count], eb);
    m->count++;
    if (rc == ERR_OK && m->count > 1 &&
        m->nodes[m->count - 2].number >= m->nodes[m->count - 1].number)
        rc = map_corrupt(eb, "nodes out of order");
    return rc;
}

static enum err
map_take_place(struct node_placement *p, struct span v, struct errbuf *eb)
{
    struct cursor c = cursor_of(v.at, v.len);
    uint32_t number = (uint32_t)take_be(&c, 4), weight = (uint32_t)take_be(&c, 4);

    if (c.bad || v.len != PLACE_BYTES || number == 0 || weight == 0 ||
        weight > MAP_NODE_WEIGHT_MAX || p->count == MAP_NODES_MAX ||
        (p->count > 0 && p->at[p->count - 1].number >= number))
        return map_corrupt(eb, "a placement that is none");
    p->at[p->count].number = number;
    p->at[p->count++].weight = weight;
    return ERR_OK;
}

static enum err
map_take_field(struct node_map *m, uint8_t id, struct span v, struct errbuf *eb)
{
    uint64_t number = 0;
    enum err rc;

    switch (id) {
    case F_EPOCH:
        return node_take_number(v, UINT64_MAX - 1, &m->epoch, eb);
    case F_CLUSTER:
        return node_take_text(v, MAP_NODE_NAME_MAX, &m->cluster, eb);
    case F_CLUSTER_ID:
        if (v.len != sizeof m->cluster_id)
            return map_corrupt(eb, "a cluster id that is none");
        memcpy(m->cluster_id, v.at, sizeof m->cluster_id);
        return ERR_OK;
    case F_NEXT_NUMBER:
        rc = node_take_number(v, UINT32_MAX - 1, &number, eb);
        m->next_number = (uint32_t)number;
        return rc;
    case F_NODE:
        return map_take_node(m, v, eb);
    case F_NOW:
        return map_take_place(&m->now, v, eb);
    case F_MOVES:
        m->moves = true;
        return node_take_number(v, 1, &number, eb);
    case F_NEXT:
        return map_take_place(&m->next, v, eb);
    case F_FLIPPED:
        return node_take_number(v, UINT64_MAX, &m->flipped, eb);
    default:
        return ERR_OK;
    }
}

static bool
placement_is_known(const struct node_map *m, const struct node_placement *p)
{
    for (uint32_t i = 0; i < p->count; i++) {
        if (node_map_find(m, p->at[i].number) == NULL)
            return false;
    }
    return true;
}

/* What holds between the fields. */
static enum err
map_check(const struct node_map *m, struct errbuf *eb)
{
    if (m->epoch == 0)
        return map_corrupt(eb, "no epoch");
    if (!m->moves && (m->next.count > 0 || m->flipped != 0))
        return map_corrupt(eb, "a next placement that does not count");
    if (m->count > 0 && m->nodes[m->count - 1].number >= m->next_number)
        return map_corrupt(eb, "a number that could be given twice");
    for (uint32_t i = 0; i < m->count; i++) {
        if (m->nodes[i].since > m->epoch ||
            node_map_named(m, span_of(m->nodes[i].name)) != &m->nodes[i])
            return map_corrupt(eb, "two nodes of one name, or a state of a later epoch");
    }
    return placement_is_known(m, &m->now) && placement_is_known(m, &m->next)
               ? ERR_OK
               : map_corrupt(eb, "a place for a node that is not there");
}

enum err
node_map_decode(struct span bytes, struct node_map **out, struct errbuf *eb)
{
    struct node_map *m = xcalloc(1, sizeof *m);
    struct record r;
    struct span v;
    uint8_t id;
    enum err rc = record_open(bytes, &r, eb);

    *out = NULL;
    if (rc == ERR_OK && (r.kind != KIND_MAP || r.version != MAP_VERSION))
        rc = err_set(eb, ERR_NOT_IMPLEMENTED,
                     "a record of kind %u, version %u; this program reads %u, %u", r.kind,
                     r.version, KIND_MAP, MAP_VERSION);
    while (rc == ERR_OK && record_next(&r, &id, &v))
        rc = map_take_field(m, id, v, eb);
    if (rc == ERR_OK)
        rc = map_check(m, eb);
    if (rc != ERR_OK) {
        node_map_free(&m);
        return rc;
    }
    *out = m;
    return ERR_OK;
}

/* ---- in memory ---- */

struct node_map *
node_map_new(uint64_t epoch)
{
    struct node_map *m = xcalloc(1, sizeof *m);

    assert(epoch > 0);
    m->epoch = epoch;
    return m;
}

struct node_map *
node_map_copy(const struct node_map *m)
{
    struct node_map *copy = NULL;
    struct buf b;
    enum err rc;

    buf_init(&b, RECORD_MAX);
    node_map_encode(m, &b);
    assert(!b.full);
    rc = node_map_decode(buf_span(&b), &copy, NULL);
    assert(rc == ERR_OK);
    (void)rc;
    buf_fini(&b);
    return copy;
}

void
node_map_free(struct node_map **mp)
{
    struct node_map *m = *mp;

    *mp = NULL;
    if (m == NULL)
        return;
    for (uint32_t i = 0; i < m->count; i++)
        node_entry_fini(&m->nodes[i]);
    free(m->nodes);
    free(m->cluster);
    free(m);
}

struct node_entry *
node_map_find(const struct node_map *m, uint32_t number)
{
    for (uint32_t i = 0; i < m->count; i++) {
        if (m->nodes[i].number == number)
            return &m->nodes[i];
    }
    return NULL;
}

struct node_entry *
node_map_named(const struct node_map *m, struct span name)
{
    for (uint32_t i = 0; i < m->count; i++) {
        if (m->nodes[i].state != NODE_REMOVED && span_is(name, m->nodes[i].name))
            return &m->nodes[i];
    }
    for (uint32_t i = 0; i < m->count; i++) {
        if (span_is(name, m->nodes[i].name))
            return &m->nodes[i];
    }
    return NULL;
}

bool
node_name_is_good(struct span name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.'))
            return false;
    }
    return name.len > 0 && name.len <= MAP_NODE_NAME_MAX;
}

enum err
node_map_add(struct node_map *m, struct span name, struct node_entry **out,
             struct errbuf *eb)
{
    struct node_entry *n;

    *out = NULL;
    if (!node_name_is_good(name))
        return err_set(
            eb, ERR_BAD_REQUEST,
            "node \"%.*s\": a name has 1 to %u letters, digits, '-', '_' and '.'",
            SPAN_ARG(name), MAP_NODE_NAME_MAX);
    if (node_map_named(m, name) != NULL)
        return err_set(eb, ERR_EXISTS, "the cluster has a node \"%.*s\" already",
                       SPAN_ARG(name));
    if (m->count == MAP_NODES_MAX)
        return err_set(eb, ERR_TOO_LARGE, "the cluster has %u nodes, the limit",
                       MAP_NODES_MAX);
    if (m->next_number == 0)
        m->next_number = 1;
    m->nodes = xrealloc(m->nodes, (m->count + 1) * sizeof *m->nodes);
    n = &m->nodes[m->count++];
    *n = (struct node_entry){.number = m->next_number++,
                             .name = xmemdup0(name.at, name.len),
                             .weight = MAP_NODE_WEIGHT,
                             .state = NODE_JOINING};
    *out = n;
    return ERR_OK;
}
