/* server: state shared by the loops, limits, listeners, drain and stop. */
#include "http/server.h"

#include "base/account.h"
#include "base/log.h"
#include "http/internal.h"
#include "http/loops.h"
#include "rt/file.h"

#define LISTEN_PATIENCE_MS 1500

static void
fill_defaults(struct http_server_options *o)
{
#define DEFAULT(field, value) o->field = o->field != 0 ? o->field : (value)
    DEFAULT(connections_max, 65536);
    DEFAULT(peer_max, MAX(o->connections_max / 4, 1u));
    DEFAULT(heads_max, 1024);
    DEFAULT(requests_max, 4096);
    DEFAULT(waiting_max, 4096);
    DEFAULT(wait_ms, 100);
    DEFAULT(buffer_bytes, 16384);
    DEFAULT(arena_bytes, 4u << 20);
    DEFAULT(header_ms, 10000);
    DEFAULT(idle_ms, 75000);
    DEFAULT(body_grace_ms, 10000);
    DEFAULT(body_rate, 1024);
    DEFAULT(body_idle_ms, 300000);
    DEFAULT(send_stall_ms, 1800000);
    DEFAULT(retry_after_s, 1);
    DEFAULT(rejected_max, 64);
    DEFAULT(drain_bytes, 65536);
    DEFAULT(linger_ms, 2000);
#undef DEFAULT
}

enum err
http_server_new(const struct http_server_options *o, const struct http_handler *h,
                struct http_server **out, struct errbuf *eb)
{
    unsigned loops = rt_loop_count();
    struct http_server *s;

    *out = NULL;
    assert(h->handle != NULL);
    if (o->buffer_bytes != 0 && o->buffer_bytes < 4096)
        return err_set(eb, ERR_BAD_REQUEST,
                       "connection buffers of %u bytes, at least 4096", o->buffer_bytes);
    s = xcalloc(1, sizeof *s + loops * sizeof s->at[0]);
    s->options = *o;
    fill_defaults(&s->options);
    s->handler = *h;
    s->loops = loops;
    /* Connections spread evenly over the loops, so each loop enforces its share of the limits without synchronisation. */
    s->connections_a_loop = (s->options.connections_max + loops - 1) / loops;
    s->requests_a_loop = (s->options.requests_max + loops - 1) / loops;
    s->heads_a_loop = (s->options.heads_max + loops - 1) / loops;
    s->waiting_a_loop = (s->options.waiting_max + loops - 1) / loops;
    rt_random(&s->id_seed, sizeof s->id_seed);
    rt_random(&s->peers.seed, sizeof s->peers.seed);
    for (unsigned i = 0; i < loops; i++) {
        s->at[i].server = s;
        list_init(&s->at[i].conns);
        list_init(&s->at[i].heads);
        list_init(&s->at[i].lingering);
        list_init(&s->at[i].works);
        list_init(&s->at[i].pending);
        list_init(&s->at[i].waiting);
        list_init(&s->at[i].queue);
        s->at[i].send = (struct rt_after_poll){.fn = conn_send_replies};
        list_init(&s->at[i].send.link);
        s->at[i].answer = (struct rt_after_poll){.fn = conn_inline_answer};
        list_init(&s->at[i].answer.link);
        s->at[i].known = http_head_cache_new();
    }
    *out = s;
    return ERR_OK;
}

/* Retries: the port of a killed predecessor is released late, because the kernel tears its rings down in the background. */
static enum err
listen_patiently(const char *addr, uint16_t port, const struct rt_listen_options *o,
                 struct listener **out, struct errbuf *eb)
{
    struct deadline by = deadline_in_ms(LISTEN_PATIENCE_MS);
    enum err rc = rt_listen(addr, port, o, out, eb);

    while (rc == ERR_EXISTS && port != 0 && !deadline_passed(by) && !rt_cancelled()) {
        loops_pause();
        err_forget(eb);
        rc = rt_listen(addr, port, o, out, eb);
    }
    return rc;
}

enum err
http_server_listen(struct http_server *s, const char *addr, uint16_t port,
                   const struct rt_listen_options *o, uint16_t *bound, struct errbuf *eb)
{
    struct rt_listen_options none = {0};
    struct listener *l = NULL;
    enum err rc = listen_patiently(addr, port, o != NULL ? o : &none, &l, eb);

    if (rc != ERR_OK)
        return rc;
    s->listeners =
        xrealloc(s->listeners, (s->listener_count + 1) * sizeof(struct listener *));
    s->listeners[s->listener_count++] = l;
    if (bound != NULL)
        *bound = rt_listener_port(l);
    rt_listener_serve(l, conn_accepted, s);
    return ERR_OK;
}

/* ---- work sets ---- */

/* Arena and buffer account for their own memory. */
#define WORK_BYTES ((int64_t)(sizeof(struct work) + REPLY_PREFIX_MAX + REPLY_LINES_MAX))

static void
work_free(struct work *w)
{
    account_add(ACCOUNT_CONNECTIONS, -WORK_BYTES);
    arena_free(&w->arena);
    free(w->reply.lines_at);
    inbuf_fini(&w->in);
    free(w);
}

struct work *
work_acquire(struct http_loop *l)
{
    struct list *n = list_pop_front(&l->works);
    struct work *w;

    assert((n == NULL) == (l->works_idle == 0));
    if (n != NULL) {
        struct work *kept = LIST_ENTRY(n, struct work, link);

        l->works_idle--;
        assert(!kept->is_inline);
        assert(!kept->later);
        assert(list_empty(&kept->waits));
        return kept;
    }
    account_add(ACCOUNT_CONNECTIONS, WORK_BYTES);
    w = xmalloc(sizeof *w);
    memset(&w->body, 0, sizeof w->body);
    memset(&w->reply, 0, sizeof w->reply);
    list_init(&w->link);
    list_init(&w->waits);
    w->is_inline = w->later = w->tried = w->has_place = false;
    inbuf_init(&w->in, l->server->options.buffer_bytes);
    w->arena = arena_new(4096, l->server->options.arena_bytes);
    w->reply.lines_at = xmalloc(REPLY_PREFIX_MAX + REPLY_LINES_MAX);
    return w;
}

void
work_release(struct http_loop *l, struct work **wp)
{
    struct work *w = *wp;

    *wp = NULL;
    if (w == NULL)
        return;
    assert(w->reply.release == NULL);
    assert(!w->has_place);
    assert(!w->later);
    assert(list_empty(&w->waits));
    if (l->works_idle >= WORKS_POOLED || w->in.room != l->server->options.buffer_bytes) {
        work_free(w);
        return;
    }
    w->in.at = w->in.end = 0;
    arena_reset(w->arena);
    /* Most recently used first: its memory is still in the CPU cache. */
    list_push_front(&l->works, &w->link);
    l->works_idle++;
}

/* ---- the end ---- */

void
http_server_stats(const struct http_server *s, struct http_server_stats *out)
{
    *out = (struct http_server_stats){0};
    for (unsigned i = 0; i < s->loops; i++) {
        const struct http_loop *l = &s->at[i];

        out->connections += atomic_load_explicit(&l->connections, memory_order_acquire);
        out->idle += atomic_load_explicit(&l->idle, memory_order_relaxed);
        out->in_flight += atomic_load_explicit(&l->in_flight, memory_order_relaxed);
        out->accepted += atomic_load_explicit(&l->accepted, memory_order_relaxed);
        out->requests += atomic_load_explicit(&l->requests, memory_order_relaxed);
        out->refused += atomic_load_explicit(&l->refused, memory_order_relaxed);
    }
}

struct order {
    struct http_server *server;
    void (*conn)(struct http_conn *c);
    bool stopping;
};

/* A fiber on each loop in turn. */
static void
order_loop(void *arg)
{
    struct order *o = arg;
    struct http_loop *l = &o->server->at[rt_loop_index()];

    l->stopping = l->stopping || o->stopping;
    LIST_EACH(&l->conns, n)
    o->conn(LIST_ENTRY(n, struct http_conn, link));
}

static void
order_all(struct http_server *s, void (*conn)(struct http_conn *c), bool stopping)
{
    struct order o = {.server = s, .conn = conn, .stopping = stopping};

    for (unsigned i = 0; i < s->loops; i++)
        loops_call(i, order_loop, &o);
}

bool
http_server_drain(struct http_server *s, struct deadline by)
{
    struct http_server_stats stats;

    atomic_store(&s->draining, true);
    order_all(s, conn_close_when_idle, false);
    for (;;) {
        http_server_stats(s, &stats);
        if (stats.in_flight == 0)
            return true;
        if (deadline_passed(by) ||
            rt_sleep_until(deadline_sooner(by, deadline_in_ms(10))) != ERR_OK)
            return false;
    }
}

void
http_server_stop(struct http_server **sp)
{
    struct http_server *s = *sp;
    struct http_server_stats stats;

    *sp = NULL;
    if (s == NULL)
        return;
    atomic_store(&s->draining, true);
    for (unsigned i = 0; i < s->listener_count; i++)
        rt_listener_close(&s->listeners[i]);
    for (;;) {
        /* Repeated each time: a stream may still have been in transit to its loop. */
        order_all(s, conn_abort, true);
        http_server_stats(s, &stats);
        if (stats.connections == 0)
            break;
        loops_pause();
    }
    for (unsigned i = 0; i < s->loops; i++) {
        struct list *n;

        while ((n = list_pop_front(&s->at[i].works)) != NULL)
            work_free(LIST_ENTRY(n, struct work, link));
        http_head_cache_free(&s->at[i].known);
    }
    free(s->listeners);
    free(s);
}
