/* etcd_model: etcd as far as `meta` uses it, for the simulator: a store with revisions and a history, and the JSON gateway
 * in front of it, served by our HTTP server over the simulated network.
 *
 * One store, several *doors*: a door is an address of its own, so that each node of a simulated cluster can be cut off
 * alone. A door may hold requests before they reach the store, or answers on the way back, and both of them for a while
 * or for ever. Everything else is linearizable, as etcd is.
 *
 *     struct model *m = model_new();
 *     const char *url = model_door(m, 0);          "http://etcd-0:2379"
 *     m->doors[0].in = MODEL_HOLD;
 *     model_free(&m);
 *
 * In a simulated cluster (rt/sim_cluster.h) it is a node of its own: model_door_open() at that node's address. What the store
 * has outlives the worlds of that node, as etcd's disks do; only fibers of that node may use it.
 *
 * Test programs only: what it does not expect stops the program.
 */
#pragma once
#include <assert.h>
#include <jansson.h>

#include "base/hash.h"
#include "base/mem.h"
#include "check.h"
#include "http/server.h"
#include "rt/sync.h"
#include "rt/time.h"
#include "wire/json.h"

#define MODEL_DOORS 8u

enum model_way {
    MODEL_OPEN,
    MODEL_HOLD, /* nothing passes; when it is opened again, what was held goes on */
    MODEL_LOSE, /* the connection breaks instead */
};

/* One change of one key. */
struct model_event {
    uint64_t revision;
    struct span key, value; /* owned */
    bool removed;
};
struct model_door {
    struct model *model;
    char url[40];
    struct http_server *server;
    enum model_way in, out;
    uint64_t delay_ms; /* of each request, in front of the store */
    uint64_t
        stale; /* not 0: reads show this revision, as those of a member that is behind would */
    unsigned lose_answers; /* of so many requests that come next; they are carried out */
};
struct model {
    uint64_t cluster, revision, compacted;
    struct model_event *events; /* owned; the history, oldest first */
    size_t count, room;
    struct rt_cond changed;
    bool stopping;
    const char *password; /* NULL: no users; else "user" has this one */
    unsigned token;       /* the valid one; a new number makes all others invalid */
    uint64_t requests;
    struct model_door doors[MODEL_DOORS];
};

/* ---- the store ---- */

static inline struct span
model_copy(struct span s)
{
    return (struct span){xmemdup0(s.at, s.len), s.len};
}

/* The latest event of a key up to `revision`; NULL: there is no such key then. */
static inline const struct model_event *
model_find(const struct model *m, struct span key, uint64_t revision)
{
    for (size_t i = m->count; i-- > 0;) {
        const struct model_event *e = &m->events[i];

        if (e->revision <= revision && span_eq(e->key, key))
            return e->removed ? NULL : e;
    }
    return NULL;
}

/* The smallest key from `from` on and below `end` that exists at `revision`. */
static inline const struct model_event *
model_next(const struct model *m, struct span from, bool behind, struct span end,
           uint64_t revision)
{
    const struct model_event *best = NULL;

    for (size_t i = 0; i < m->count; i++) {
        const struct model_event *e = &m->events[i];
        int c = span_cmp(e->key, from);

        if (e->revision > revision || c < 0 || (c == 0 && behind) ||
            span_cmp(e->key, end) >= 0 ||
            (best != NULL && span_cmp(e->key, best->key) >= 0))
            continue;
        if (model_find(m, e->key, revision) != NULL)
            best = e;
    }
    return best != NULL ? model_find(m, best->key, revision) : NULL;
}

static inline void
model_add(struct model *m, uint64_t revision, struct span key, struct span value,
          bool removed)
{
    if (m->count == m->room) {
        m->room = MAX(2 * m->room, 64u);
        m->events = xrealloc(m->events, m->room * sizeof *m->events);
    }
    m->events[m->count++] =
        (struct model_event){revision, model_copy(key), model_copy(value), removed};
    m->revision = revision;
}

static inline void
model_forget(struct model *m, size_t i)
{
    free((char *)(uintptr_t)m->events[i].key.at);
    free((char *)(uintptr_t)m->events[i].value.at);
}

/* Revisions below `revision` cannot be read or watched any more. */
static inline void
model_compact(struct model *m, uint64_t revision)
{
    m->compacted = MIN(revision, m->revision);
}

/* As after a restore from a backup of then. */
static inline void
model_restore(struct model *m, uint64_t revision)
{
    while (m->count > 0 && m->events[m->count - 1].revision > revision)
        model_forget(m, --m->count);
    m->revision = revision;
}

/* ---- JSON ---- */

static inline struct span
model_bytes(const json_t *o, const char *name)
{
    const char *text = json_string_value(json_object_get(o, name));
    size_t len = text != NULL ? strlen(text) : 0;
    char *out = xmalloc(len + 1);
    int n = base64_decode(text != NULL ? text : "", len, out, len + 1);

    assert(n >= 0);
    return (struct span){out, (size_t)n};
}

static inline uint64_t
model_number(const json_t *o, const char *name)
{
    const char *text = json_string_value(json_object_get(o, name));

    return text != NULL ? strtoull(text, NULL, 10) : 0;
}

static inline void
model_put_bytes(struct json *j, const char *name, struct span s)
{
    char *text = xmalloc(BASE64_LEN(s.len) + 1);

    base64_encode(s.at, s.len, text);
    if (s.len > 0)
        json_text(j, name, text);
    free(text);
}

static inline void
model_put_number(struct json *j, const char *name, uint64_t n)
{
    char text[24];

    snprintf(text, sizeof text, "%llu", (unsigned long long)n);
    if (n > 0)
        json_text(j, name, text);
}

static inline void
model_put_header(const struct model *m, struct json *j, uint64_t revision)
{
    json_open_object(j, "header");
    model_put_number(j, "cluster_id", m->cluster);
    model_put_number(j, "revision", revision);
    json_end(j);
}

static inline void
model_put_kv(struct json *j, const char *name, const struct model_event *e,
             bool keys_only)
{
    json_open_object(j, name);
    model_put_bytes(j, "key", e->key);
    model_put_number(j, "mod_revision", e->revision);
    if (!keys_only)
        model_put_bytes(j, "value", e->value);
    json_end(j);
}

static inline void
model_error(struct http_request *r, int status, int code, const char *message)
{
    char text[200];

    snprintf(text, sizeof text, "{\"error\":\"%s\",\"message\":\"%s\",\"code\":%d}",
             message, message, code);
    (void)http_reply(r, status, span_of(text));
}

/* ---- operations ---- */

/* The members of a range answer. */
static inline void
model_range(struct model *m, struct json *j, const json_t *q, uint64_t now)
{
    struct span key = model_bytes(q, "key"), end = model_bytes(q, "range_end");
    uint64_t limit = model_number(q, "limit"), at = model_number(q, "revision"), n = 0;
    bool keys_only = json_is_true(json_object_get(q, "keys_only"));
    const struct model_event *e;
    struct span from = key;
    bool more = false;

    at = at > 0 ? at : now;
    json_open_array(j, "kvs");
    if (end.len == 0) {
        e = model_find(m, key, at);
        if (e != NULL)
            model_put_kv(j, NULL, e, keys_only);
    } else {
        for (e = model_next(m, from, false, end, at); e != NULL;
             e = model_next(m, from, true, end, at)) {
            if (limit > 0 && n++ == limit) {
                more = true;
                break;
            }
            model_put_kv(j, NULL, e, keys_only);
            from = e->key;
        }
    }
    json_end(j);
    if (more)
        json_bool(j, "more", true);
    free((char *)(uintptr_t)key.at);
    free((char *)(uintptr_t)end.at);
}

static inline bool
model_holds(const struct model *m, const json_t *compare)
{
    struct span key = model_bytes(compare, "key");
    const struct model_event *e = model_find(m, key, m->revision);

    assert(strcmp(json_string_value(json_object_get(compare, "target")), "MOD") == 0);
    free((char *)(uintptr_t)key.at);
    return (e != NULL ? e->revision : 0) == model_number(compare, "mod_revision");
}

/* Changes of one transaction share its revision. */
static inline void
model_operation(struct model *m, struct json *j, const json_t *op, uint64_t revision)
{
    const json_t *put = json_object_get(op, "request_put"),
                 *removal = json_object_get(op, "request_delete_range"),
                 *range = json_object_get(op, "request_range");
    const json_t *q = put != NULL ? put : removal != NULL ? removal : range;
    struct span key = model_bytes(q, "key"), value = model_bytes(q, "value");

    json_open_object(j, NULL);
    if (put != NULL || (removal != NULL && model_find(m, key, m->revision) != NULL))
        model_add(m, revision, key, value, removal != NULL);
    json_open_object(j, put != NULL       ? "response_put"
                        : removal != NULL ? "response_delete_range"
                                          : "response_range");
    if (range != NULL)
        model_range(m, j, range, m->revision);
    json_end(j);
    json_end(j);
    free((char *)(uintptr_t)key.at);
    free((char *)(uintptr_t)value.at);
}

static inline void
model_txn(struct model *m, struct buf *out, const json_t *q)
{
    const json_t *compares = json_object_get(q, "compare"), *branch, *one;
    uint64_t before = m->revision;
    bool holds = true;
    struct json j;
    size_t i;

    json_array_foreach(compares, i, one) holds = holds && model_holds(m, one);
    branch = json_object_get(q, holds ? "success" : "failure");
    json_begin(&j, out);
    json_open_object(&j, NULL);
    if (holds)
        json_bool(&j, "succeeded", true);
    json_open_array(&j, "responses");
    json_array_foreach(branch, i, one) model_operation(m, &j, one, before + 1);
    json_end(&j);
    model_put_header(m, &j, m->revision);
    json_end(&j);
    if (m->revision > before)
        rt_cond_broadcast(&m->changed);
}

/* ---- the gateway ---- */

/* False: the connection is to break. */
static inline bool
model_pass(struct model_door *d, const enum model_way *way)
{
    while (*way == MODEL_HOLD && !d->model->stopping) {
        if (rt_sleep_ms(250) != ERR_OK)
            return false;
    }
    return *way == MODEL_OPEN && !d->model->stopping;
}

/* All events of one revision as one line. Returns where the next revision begins. */
static inline size_t
model_line(struct model *m, struct buf *out, size_t at, struct span key, struct span end)
{
    uint64_t revision = m->events[at].revision;
    struct json j;
    bool any = false;

    buf_clear(out);
    json_begin(&j, out);
    json_open_object(&j, NULL);
    json_open_object(&j, "result");
    model_put_header(m, &j, revision);
    json_open_array(&j, "events");
    for (; at < m->count && m->events[at].revision == revision; at++) {
        const struct model_event *e = &m->events[at];

        if (span_cmp(e->key, key) < 0 || span_cmp(e->key, end) >= 0)
            continue;
        any = true;
        json_open_object(&j, NULL);
        if (e->removed)
            json_text(&j, "type", "DELETE");
        model_put_kv(&j, "kv", e, false);
        json_end(&j);
    }
    json_end(&j);
    json_end(&j);
    json_end(&j);
    buf_putc(out, '\n');
    if (!any)
        buf_clear(out);
    return at;
}

static inline void
model_watch(struct model_door *d, struct http_request *r, const json_t *q)
{
    const json_t *create = json_object_get(q, "create_request");
    struct span key = model_bytes(create, "key"), end = model_bytes(create, "range_end");
    uint64_t next = model_number(create, "start_revision");
    struct model *m = d->model;
    struct buf line;
    enum err rc = http_reply_begin(r, 200, HTTP_CHUNKED);

    buf_init(&line, MIB(16));
    if (next <= m->compacted && next <= m->revision)
        buf_printf(&line,
                   "{\"result\":{\"header\":{\"cluster_id\":\"%llu\"},\"canceled\":true,"
                   "\"compact_revision\":\"%llu\"}}\n",
                   (unsigned long long)m->cluster, (unsigned long long)m->compacted + 1);
    else
        buf_printf(
            &line,
            "{\"result\":{\"header\":{\"cluster_id\":\"%llu\",\"revision\":\"%llu\"},"
            "\"created\":true}}\n",
            (unsigned long long)m->cluster, (unsigned long long)m->revision);
    if (rc == ERR_OK)
        rc = http_reply_write(r, line.at, line.len);
    while (rc == ERR_OK && !m->stopping && next > m->compacted) {
        size_t at = 0;

        while (at < m->count && m->events[at].revision < next)
            at++;
        if (at == m->count) {
            rc = rt_cond_wait(&m->changed, DEADLINE_NEVER);
            continue;
        }
        next = m->events[at].revision + 1;
        (void)model_line(m, &line, at, key, end);
        if (!model_pass(d, &d->out))
            rc = ERR_CLOSED;
        if (rc == ERR_OK && line.len > 0)
            rc = http_reply_write(r, line.at, line.len);
    }
    if (rc == ERR_OK)
        (void)http_reply_end(r);
    else
        http_reply_abort(r);
    buf_fini(&line);
    free((char *)(uintptr_t)key.at);
    free((char *)(uintptr_t)end.at);
}

static inline bool
model_knows(struct model *m, const struct http_request *r)
{
    char want[16];

    snprintf(want, sizeof want, "token-%u", m->token);
    return m->password == NULL ||
           span_is(fields_get(http_fields(r->head), "authorization"), want);
}

static inline void
model_login(struct model *m, struct http_request *r, const json_t *q)
{
    char text[64];

    if (fields_get(http_fields(r->head), "authorization").at != NULL &&
        !model_knows(m, r)) {
        model_error(r, 401, 16, "etcdserver: invalid auth token"); /* here too */
    } else if (m->password == NULL) {
        model_error(r, 400, 9, "etcdserver: authentication is not enabled");
    } else if (strcmp(json_string_value(json_object_get(q, "password")), m->password) !=
               0) {
        model_error(r, 400, 3,
                    "etcdserver: authentication failed, invalid user ID or password");
    } else {
        snprintf(text, sizeof text, "{\"token\":\"token-%u\"}", m->token);
        (void)http_reply(r, 200, span_of(text));
    }
}

static inline void
model_answer(struct model_door *d, struct http_request *r, const json_t *q,
             struct buf *out)
{
    struct model *m = d->model;
    struct span path = r->head->target;

    if (span_is(path, "/v3/kv/range")) {
        uint64_t at = model_number(q, "revision");
        struct json j;

        if (at > 0 && at < m->compacted) {
            model_error(r, 400, 11,
                        "etcdserver: mvcc: required revision has been compacted");
            return;
        }
        json_begin(&j, out);
        json_open_object(&j, NULL);
        model_put_header(m, &j, m->revision);
        model_range(m, &j, q, d->stale > 0 ? d->stale : m->revision);
        json_end(&j);
    } else {
        assert(span_is(path, "/v3/kv/txn"));
        model_txn(m, out, q);
    }
    assert(!out->full);
    if (d->lose_answers > 0) {
        d->lose_answers--;
        http_reply_abort(r);
    } else if (model_pass(d, &d->out)) {
        (void)http_reply(r, 200, buf_span(out));
    } else {
        http_reply_abort(r);
    }
}

static inline void
model_handle(struct http_request *r, void *arg)
{
    struct model_door *d = arg;
    struct errbuf eb = {{0}};
    struct span body;
    struct buf out;
    json_t *q;

    d->model->requests++;
    if (http_body_all(r, MIB(8), &body, &eb) != ERR_OK ||
        (d->delay_ms > 0 && rt_sleep_ms(d->delay_ms) != ERR_OK) ||
        !model_pass(d, &d->in)) {
        http_reply_abort(r);
        return;
    }
    q = json_loadb(body.at, body.len, 0, NULL);
    assert(q != NULL);
    buf_init(&out, MIB(16));
    if (span_is(r->head->target, "/v3/auth/authenticate"))
        model_login(d->model, r, q);
    else if (!model_knows(d->model, r))
        model_error(r, 401, 16, "etcdserver: invalid auth token");
    else if (span_is(r->head->target, "/v3/watch"))
        model_watch(d, r, q);
    else
        model_answer(d, r, q, &out);
    buf_fini(&out);
    json_decref(q);
}

/* ---- doors ---- */

/* At this address, if it is not open. */
static inline enum err
model_door_open(struct model *m, unsigned index, const char *host, struct errbuf *eb)
{
    struct model_door *d = &m->doors[index];
    struct http_handler h = {.handle = model_handle, .arg = d};
    struct http_server_options o = {.arena_bytes = MIB(16)};
    uint16_t port;
    enum err rc;

    assert(index < MODEL_DOORS);
    if (d->server != NULL)
        return ERR_OK;
    d->model = m;
    snprintf(d->url, sizeof d->url, "http://%s:2379", host);
    rc = http_server_new(&o, &h, &d->server, eb);
    return rc == ERR_OK ? http_server_listen(d->server, host, 2379, NULL, &port, eb) : rc;
}

/* Opens the door if it is not there. */
static inline const char *
model_door(struct model *m, unsigned index)
{
    struct errbuf eb = {{0}};
    char host[16];

    snprintf(host, sizeof host, "etcd-%u", index);
    CHECK(model_door_open(m, index, host, &eb) == ERR_OK);
    return m->doors[index].url;
}

/* The member behind it ends: all connections break, and none is accepted. model_door() starts it again. */
static inline void
model_door_close(struct model *m, unsigned index)
{
    http_server_stop(&m->doors[index].server);
}

static inline struct model *
model_new(void)
{
    struct model *m = xcalloc(1, sizeof *m);

    m->cluster = 77;
    m->revision = 1;
    m->token = 1;
    rt_cond_init(&m->changed);
    return m;
}

/* Without doors it needs no world. */
static inline void
model_drop(struct model **mp)
{
    struct model *m = *mp;

    *mp = NULL;
    while (m->count > 0)
        model_forget(m, --m->count);
    free(m->events);
    free(m);
}

/* In the world in which it was made. May switch. */
static inline void
model_free(struct model **mp)
{
    struct model *m = *mp;

    m->stopping = true;
    rt_cond_broadcast(&m->changed);
    for (unsigned i = 0; i < MODEL_DOORS; i++)
        http_server_stop(&m->doors[i].server);
    model_drop(mp);
}
