/* client: the client as a whole, and the pool of its connections on each loop. */
#include "http/client.h"

#include <stdlib.h>

#include "base/mem.h"
#include "http/loops.h"
#include "http/pool.h"
#include "http/tunnel.h"
#include "rt/frames.h"

enum err
http_client_new(const struct http_client_options *o, struct http_client **out,
                struct errbuf *eb)
{
    unsigned loops = rt_loop_count();
    struct http_client *c = xcalloc(1, sizeof *c + loops * sizeof c->at[0]);

    (void)eb;
    c->options = *o;
#define DEFAULT(field, value)                                                            \
    c->options.field = c->options.field != 0 ? c->options.field : (value)
    DEFAULT(per_host_max, 64);
    DEFAULT(hosts_max, 1024);
    DEFAULT(idle_ms, 20000);
    DEFAULT(connect_ms, 10000);
    DEFAULT(first_byte_ms, 60000);
    DEFAULT(between_ms, 30000);
    DEFAULT(continue_ms, 1000);
#undef DEFAULT
    c->loops = loops;
    for (unsigned i = 0; i < loops; i++) {
        c->at[i].client = c;
        list_init(&c->at[i].hosts);
        list_init(&c->at[i].spaces);
    }
    *out = c;
    return ERR_OK;
}

/* ---- hosts ---- */

static void
host_free(struct pool_host *h)
{
    assert(h->open == 0);
    list_remove(&h->link);
    free(h->name);
    free(h->tls_name);
    free(h);
}

static bool
host_is(const struct pool_host *h, const struct http_call_request *req,
        const char *tls_name)
{
    return h->port == req->port && h->direct == req->direct &&
           strcmp(h->name, req->host) == 0 &&
           (h->tls_name != NULL) == (tls_name != NULL) &&
           (tls_name == NULL || strcmp(h->tls_name, tls_name) == 0);
}

const struct proxy *
pool_proxy(const struct http_client *c, const struct http_call_request *req)
{
    return req->direct ? NULL
                       : proxies_for(c->options.proxies, req->host, req->port, req->tls);
}

/* Drops a host without connections to make room for another one. */
static bool
forget_one(struct pool *p)
{
    for (struct list *n = p->hosts.prev; n != &p->hosts; n = n->prev) {
        struct pool_host *h = LIST_ENTRY(n, struct pool_host, link);

        assert(h->open > 0 || list_empty(&h->idle));
        if (h->open == 0 && h->waiting == 0) {
            assert(p->host_count > 0);
            host_free(h);
            p->host_count--;
            return true;
        }
    }
    return false;
}

static struct pool_host *
host_get(struct pool *p, const struct http_call_request *req)
{
    const char *tls_name = !req->tls               ? NULL
                           : req->tls_name != NULL ? req->tls_name
                                                   : req->host;
    struct pool_host *h;

    LIST_EACH(&p->hosts, n)
    {
        h = LIST_ENTRY(n, struct pool_host, link);
        if (host_is(h, req, tls_name)) {
            list_remove(&h->link);
            list_push_front(&p->hosts, &h->link);
            return h;
        }
    }
    if (p->host_count >= p->client->options.hosts_max && !forget_one(p))
        return NULL;
    h = xcalloc(1, sizeof *h);
    h->name = xstrdup(req->host);
    h->tls_name = tls_name != NULL ? xstrdup(tls_name) : NULL;
    h->port = req->port;
    h->direct = req->direct;
    h->proxy = pool_proxy(p->client, req);
    list_init(&h->idle);
    rt_cond_init(&h->turn);
    list_push_front(&p->hosts, &h->link);
    p->host_count++;
    return h;
}

/* ---- connections ---- */

static void
conn_close(struct pool_conn *c)
{
    struct pool_host *h = c->host;

    assert(h->open > 0);
    assert(c->pool->stats.connections > 0);
    if (c->state == POOL_PARKED) {
        assert(c->pool->stats.idle > 0);
        c->pool->stats.idle--;
    }
    list_remove(&c->link);
    rt_stream_close(&c->stream);
    h->open--;
    c->pool->stats.connections--;
    free(c);
    rt_cond_signal(&h->turn);
}

/* True if the stream has neither bytes nor an end. A parked stream may wake without either: the last receive filled its
 * buffer exactly, or TLS consumed a record. Does not wait. */
static bool
is_quiet(struct pool_conn *c)
{
    char byte;
    size_t n;

    return rt_recv(c->stream, &byte, 1, (struct deadline){0}, &n, NULL) == ERR_TIMEOUT;
}

/* The fiber of a parked connection that woke: the server sent bytes or closed, it expired, or a call takes it. */
static void
pool_on_ready(void *arg, enum err why)
{
    struct pool_conn *c = arg;
    bool good = why == ERR_CANCELLED || (why == ERR_OK && is_quiet(c));

    if (c->state == POOL_WANTED) {
        c->state = good ? POOL_BUSY : POOL_GONE;
        rt_wake(&c->handed);
    } else if (good && why == ERR_OK) {
        rt_park(c->stream, c->idle_by, pool_on_ready, c);
    } else {
        conn_close(c);
    }
}

void
pool_release(struct pool_conn **cp, bool clean)
{
    struct pool_conn *c = *cp;

    *cp = NULL;
    if (c == NULL)
        return;
    if (!clean) {
        conn_close(c);
        return;
    }
    c->state = POOL_PARKED;
    c->pool->stats.idle++;
    list_push_front(&c->host->idle, &c->link);
    c->idle_by = deadline_in_ms(c->pool->client->options.idle_ms);
    rt_park(c->stream, c->idle_by, pool_on_ready, c);
    rt_cond_signal(&c->host->turn);
}

/* Unparks a connection for a call. False: it was dead and is closed now. May switch. */
static bool
pool_wake(struct pool_conn *c)
{
    assert(c->state == POOL_PARKED);
    assert(c->pool->stats.idle > 0);
    c->state = POOL_WANTED;
    c->pool->stats.idle--;
    list_remove(&c->link);
    rt_waiter_init(&c->handed);
    rt_unpark(c->stream);
    rt_run_woken();
    rt_wait(&c->handed); /* on_ready() runs soon, whatever happens to this fiber */
    assert(c->state == POOL_BUSY || c->state == POOL_GONE);
    if (c->state == POOL_BUSY)
        return true;
    conn_close(c);
    return false;
}

/* A new connection; host->open counts it already. May switch. */
static enum err
connect_new(struct pool *p, struct pool_host *h, struct deadline by, struct stream **out,
            struct errbuf *eb)
{
    const struct http_client_options *o = &p->client->options;
    enum err rc;

    by = deadline_sooner(by, deadline_in_ms(o->connect_ms));
    if (h->proxy != NULL)
        rc = tunnel_connect(h->proxy, h->tls_name != NULL ? h->name : NULL, h->port, by,
                            out, eb);
    else
        rc = rt_connect_within(h->name, h->port, o->refuse, by, out,
                               eb); /* its sentence says where to */
    if (rc == ERR_OK && h->tls_name != NULL) {
        rc = rt_tls_connect(o->tls, *out, h->tls_name, by, eb);
        if (rc != ERR_OK) {
            rt_stream_close(out);
            err_prefix(eb, "TLS with %s:%u", h->name, h->port);
        }
    }
    if (rc == ERR_OK && o->frames)
        rt_frames_begin(*out);
    return rc;
}

static enum err
pool_connect(struct pool *p, struct pool_host *h, struct deadline by,
             struct pool_conn **out, struct errbuf *eb)
{
    struct pool_conn *c;
    struct stream *s = NULL;
    enum err rc;

    h->open++;
    rc = connect_new(p, h, by, &s, eb);
    assert(h->open > 0);
    assert((rc == ERR_OK) == (s != NULL));
    if (rc != ERR_OK) {
        h->open--;
        rt_cond_signal(&h->turn);
        return rc;
    }
    c = xcalloc(1, sizeof *c);
    *c = (struct pool_conn){.host = h, .stream = s, .pool = p, .state = POOL_BUSY};
    list_init(&c->link);
    p->stats.connections++;
    p->stats.connects++;
    *out = c;
    return ERR_OK;
}

enum err
pool_acquire(struct pool *p, const struct http_call_request *req, bool fresh,
             struct deadline by, struct pool_conn **out, bool *reused, struct errbuf *eb)
{
    struct pool_host *h;

    *out = NULL;
    *reused = false;
    if (req->tls && p->client->options.tls == NULL)
        return err_set(eb, ERR_BAD_REQUEST, "no TLS is set up for calls to \"%s\"",
                       req->host);
    h = host_get(p, req);
    if (h == NULL)
        return err_set(eb, ERR_BUSY,
                       "connections to %u other hosts are open, which is the limit",
                       p->host_count);
    for (;;) {
        struct pool_conn *c = NULL;
        enum err rc;

        if (!list_empty(&h->idle))
            c = LIST_ENTRY(h->idle.next, struct pool_conn, link);
        if (c != NULL && fresh) {
            conn_close(c); /* most likely it fails like the previous one */
            continue;
        }
        if (c != NULL) {
            if (!pool_wake(c))
                continue;
            p->stats.reused++;
            *reused = true;
            *out = c;
            return ERR_OK;
        }
        if (h->open < p->client->options.per_host_max)
            return pool_connect(p, h, by, out, eb);
        h->waiting++;
        rc = rt_cond_wait(&h->turn, by);
        h->waiting--;
        if (rc != ERR_OK)
            return err_set(eb, rc, "waiting for one of %u connections to %s:%u",
                           p->client->options.per_host_max, h->name, h->port);
    }
}

/* ---- the whole ---- */

static void
pool_close_loop(void *arg)
{
    struct http_client *client = arg;
    struct pool *p = &client->at[rt_loop_index()];
    struct list *n;

    while ((n = p->hosts.next) != &p->hosts) {
        struct pool_host *h = LIST_ENTRY(n, struct pool_host, link);

        while (!list_empty(&h->idle))
            conn_close(LIST_ENTRY(h->idle.next, struct pool_conn, link));
        host_free(h);
    }
    call_spaces_free(p);
}

void
http_client_free(struct http_client **cp)
{
    struct http_client *c = *cp;

    *cp = NULL;
    if (c == NULL)
        return;
    for (unsigned i = 0; i < c->loops; i++)
        loops_call(i, pool_close_loop, c);
    free(c);
}

void
http_client_stats(const struct http_client *c, struct http_client_stats *out)
{
    *out = c->at[rt_loop_index()].stats;
}
