/* The network of the simulator: a link has two directions, each a bounded pipe with latency. Bytes arrive in pieces
 * drawn from the seed; room returns with a delay as well. Nothing is lost, as in TCP; closing with unread bytes
 * resets the other end. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/metrics.h"
#include "rt/sim_engine.h"

#define PIPE_BYTES  (64u << 10)
#define BACKLOG_MAX 4096u

/* Bytes from one end to the other. Positions only grow: acked <= taken <= seen <= sent. */
struct direction {
    uint64_t sent;              /* written by the sender */
    uint64_t seen;              /* arrived at the receiver */
    uint64_t taken;             /* read by it */
    uint64_t acked;             /* room returned to the sender */
    bool ended, reset;          /* by the sender; in transit behind the bytes */
    bool end_seen, reset_seen;  /* arrived */
    bool refused, refused_seen; /* the receiver is gone; the sender knows */
    bool short_read;            /* a part was held back: an edge is owed */
    struct timer forth, back;
    struct sim_end *to, *from; /* NULL once closed */
    char at[PIPE_BYTES];
};
struct link {
    uint64_t id;
    unsigned ends; /* alive */
    struct direction way[2];
};
struct sim_end {
    struct stream s;
    struct link *link;
    struct direction *in, *out;
    struct list of_listener; /* in its backlog */
};

struct sim_listener {
    struct listener l;
    struct list of_sim; /* sim->listeners */
    char addr[64];
    struct list backlog; /* sim_end.of_listener */
    unsigned waiting;
    bool serving;
    bool closed;
    unsigned accepting; /* fibers in accept: the last one frees the listener */
    struct rt_cond came;
    struct timer hand_over;
};

static struct sim_end *
sim_net_end_of(struct stream *s)
{
    return CONTAINER_OF(s, struct sim_end, s);
}

/* ---- directions ---- */
static void
sim_net_arm(struct timer *t)
{
    if (t->place == TIMER_IDLE)
        sim_after(t, sim_delay_ns());
}

/* What holds between any two events. */
static void
direction_check(const struct direction *d)
{
    assert(d->acked <= d->taken);
    assert(d->taken <= d->seen);
    assert(d->seen <= d->sent);
    assert(d->sent - d->acked <= PIPE_BYTES);
    assert(!d->end_seen || d->ended);
    assert(!d->reset_seen || d->reset);
    assert(!d->refused_seen || d->refused);
}

/* True once in `of` times. */
static bool
in_pieces(unsigned of)
{
    return !sim_world->options.calm && sim_rng_next(&sim_world->rng) % of == 0;
}

/* Bytes arrive at the receiver: some, or all, and then the end. */
static void
on_forth(struct timer *t)
{
    struct direction *d = CONTAINER_OF(t, struct direction, forth);
    uint64_t coming = d->sent - d->seen;

    direction_check(d);
    if (coming > 0 && in_pieces(4))
        coming = 1 + sim_rng_next(&sim_world->rng) % coming;
    d->seen += coming;
    d->short_read = false;
    if (d->reset)
        d->reset_seen = true;
    else if (d->seen == d->sent && d->ended)
        d->end_seen = true;
    if (d->seen < d->sent)
        sim_net_arm(t);
    sim_note(TRACE_RECV, d->seen, d->end_seen);
    if (d->to != NULL)
        stream_edge(&d->to->s,
                    EDGE_IN | (d->end_seen || d->reset_seen ? EDGE_HANGUP : 0));
}

static void
on_back(struct timer *t)
{
    struct direction *d = CONTAINER_OF(t, struct direction, back);

    direction_check(d);
    d->acked = d->taken;
    d->refused_seen = d->refused;
    if (d->from != NULL)
        stream_edge(&d->from->s, EDGE_OUT);
}

static ssize_t
sim_net_try_recv(struct stream *s, void *buf, size_t len)
{
    struct direction *d = sim_net_end_of(s)->in;
    uint64_t have = d->seen - d->taken;
    size_t n = (size_t)MIN(len, have);

    direction_check(d);
    if (d->reset_seen)
        return -ECONNRESET;
    if (n == 0)
        return d->end_seen ? 0 : -EAGAIN;
    if (n > 1 && !d->end_seen && in_pieces(8)) {
        n = 1 +
            (size_t)(sim_rng_next(&sim_world->rng) % (n - 1)); /* fewer than there are */
        sim_net_arm(&d->forth);
    }
    for (size_t done = 0; done < n;) {
        size_t from = (size_t)(d->taken % PIPE_BYTES);
        size_t part = MIN(n - done, PIPE_BYTES - from);

        memcpy((char *)buf + done, d->at + from, part);
        d->taken += part;
        done += part;
    }
    sim_net_arm(&d->back);
    return (ssize_t)n;
}

static size_t
sim_net_put(struct direction *d, const struct iovec *v)
{
    size_t n = MIN(v->iov_len, (size_t)(PIPE_BYTES - (d->sent - d->acked)));

    for (size_t done = 0; done < n;) {
        size_t to = (size_t)(d->sent % PIPE_BYTES);
        size_t part = MIN(n - done, PIPE_BYTES - to);

        memcpy(d->at + to, (const char *)v->iov_base + done, part);
        d->sent += part;
        done += part;
    }
    direction_check(d);
    return n;
}

static ssize_t
sim_net_try_sendv(struct stream *s, const struct iovec *iov, int count)
{
    struct sim_end *e = sim_net_end_of(s);
    struct direction *d = e->out;
    size_t n = 0;

    if (d->refused_seen || d->ended || e->in->reset_seen)
        return -EPIPE;
    for (int i = 0; i < count; i++) {
        size_t part = sim_net_put(d, &iov[i]);

        /* For cipher text only the length: OpenSSL reads the real clock. */
        sim_note(TRACE_SEND, e->link->id,
                 s->layer == NULL ? hash_xxh3(iov[i].iov_base, part, 0) : part);
        n += part;
        if (part < iov[i].iov_len)
            break;
    }
    if (n == 0)
        return -EAGAIN;
    sim_net_arm(&d->forth);
    return (ssize_t)n;
}

static int
sim_net_shut(struct stream *s)
{
    struct direction *d = sim_net_end_of(s)->out;

    d->ended = true;
    sim_net_arm(&d->forth);
    return 0;
}

static void
sim_net_set_lowat(struct stream *s, unsigned bytes)
{
    (void)s;
    (void)bytes;
}

static void
sim_net_destroy(struct stream *s)
{
    struct sim_end *e = sim_net_end_of(s);
    struct link *k = e->link;

    e->in->to = NULL;
    e->out->from = NULL;
    e->in->refused = true;
    if (s->reset || e->in->sent > e->in->taken)
        e->out->reset = true;
    e->out->ended = true;
    free(e);
    assert(k->ends > 0);
    if (--k->ends > 0) {
        sim_net_arm(&k->way[0].forth);
        sim_net_arm(&k->way[0].back);
        sim_net_arm(&k->way[1].forth);
        sim_net_arm(&k->way[1].back);
        return;
    }
    for (int i = 0; i < 2; i++) {
        timer_remove(&sim_world->events, &k->way[i].forth);
        timer_remove(&sim_world->events, &k->way[i].back);
    }
    free(k);
}

static const struct stream_ops stream_ops = {
    .try_recv = sim_net_try_recv,
    .try_sendv = sim_net_try_sendv,
    .shut = sim_net_shut,
    .set_lowat = sim_net_set_lowat,
    .destroy = sim_net_destroy,
};

static struct sim_end *
end_new(struct link *k, unsigned in, const char *peer)
{
    struct sim_end *e = xcalloc(1, sizeof *e);

    stream_init(&e->s, &stream_ops, peer, true);
    e->link = k;
    list_init(&e->of_listener);
    e->in = &k->way[in];
    e->out = &k->way[1 - in];
    e->in->to = e;
    e->out->from = e;
    k->ends++;
    assert(k->ends <= 2);
    return e;
}

static void
link_new(const char *peer_of_a, const char *peer_of_b, struct stream **a,
         struct stream **b)
{
    struct link *k = xcalloc(1, sizeof *k);

    k->id = ++sim_world->next_link;
    for (int i = 0; i < 2; i++) {
        timer_init(&k->way[i].forth, on_forth);
        timer_init(&k->way[i].back, on_back);
    }
    *a = &end_new(k, 0, peer_of_a)->s;
    *b = &end_new(k, 1, peer_of_b)->s;
}

enum err
sim_pipe(struct stream **a, struct stream **b)
{
    link_new("pipe", "pipe", a, b);
    return ERR_OK;
}

/* ---- listeners ---- */
static struct sim_listener *
sim_net_listener_of(struct listener *l)
{
    return CONTAINER_OF(l, struct sim_listener, l);
}

static struct stream *
next_stream(struct sim_listener *sl)
{
    struct list *n = list_pop_front(&sl->backlog);

    if (n == NULL)
        return NULL;
    assert(sl->waiting > 0);
    sl->waiting--;
    return &LIST_ENTRY(n, struct sim_end, of_listener)->s;
}

static void
on_hand_over(struct timer *t)
{
    struct sim_listener *sl = CONTAINER_OF(t, struct sim_listener, hand_over);
    struct stream *s;

    while (!sl->closed && (s = next_stream(sl)) != NULL) {
        s->counted = true;
        atomic_fetch_add(&s->loop->connections, 1);
        metric_add(M_ACCEPTED, 0, 1);
        sl->l.on_stream(s, sl->l.arg);
    }
}

static void
sim_net_serve(struct listener *l)
{
    struct sim_listener *sl = sim_net_listener_of(l);

    sl->serving = true;
    sim_net_arm(&sl->hand_over);
}

static void
listener_free(struct sim_listener *sl)
{
    struct stream *s;

    assert(sl->closed);
    assert(sl->accepting == 0);
    while ((s = next_stream(sl)) != NULL)
        rt_stream_close(&s);
    assert(sl->waiting == 0);
    timer_remove(&sim_world->events, &sl->hand_over);
    list_remove(&sl->of_sim);
    free(sl);
}

static enum err
sim_net_accept_one(struct listener *l, struct deadline by, struct stream **out,
                   struct errbuf *eb)
{
    struct sim_listener *sl = sim_net_listener_of(l);
    enum err rc = ERR_OK;

    *out = NULL;
    sl->accepting++;
    while (rc == ERR_OK && !sl->closed && (*out = next_stream(sl)) == NULL)
        rc = rt_cond_wait(&sl->came, by);
    assert(sl->accepting > 0);
    sl->accepting--;
    if (sl->closed) {
        rc = ERR_CLOSED;
        if (sl->accepting == 0)
            listener_free(sl);
    }
    return rc == ERR_OK ? rc
                        : err_set(eb, rc, "accepting a connection: %s", err_name(rc));
}

static void
listener_close(struct listener *l)
{
    struct sim_listener *sl = sim_net_listener_of(l);

    assert(!sl->closed);
    sl->closed = true;
    list_remove(&sl->of_sim);
    rt_cond_broadcast(&sl->came);
    if (sl->accepting == 0)
        listener_free(sl);
}

static const struct listener_ops listener_ops = {
    .serve = sim_net_serve,
    .accept = sim_net_accept_one,
    .close = listener_close,
};

static bool
sim_net_matches(const struct sim_listener *sl, const char *host, uint16_t port)
{
    bool any = strcmp(sl->addr, "0.0.0.0") == 0 || strcmp(sl->addr, "::") == 0;

    if (strncmp(host, "unix:", 5) == 0)
        return strcmp(sl->addr, host) == 0;
    if (sl->l.port != port || strncmp(sl->addr, "unix:", 5) == 0)
        return false;
    return any ||
           strcmp(sl->addr, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host) == 0;
}

static struct sim_listener *
find_listener(const char *host, uint16_t port)
{
    LIST_EACH(&sim_world->listeners, n)
    {
        struct sim_listener *sl = LIST_ENTRY(n, struct sim_listener, of_sim);

        if (sim_net_matches(sl, host, port))
            return sl;
    }
    return NULL;
}

enum err
sim_listen(const char *addr, uint16_t port, const struct rt_listen_options *o,
           struct listener **out, struct errbuf *eb)
{
    struct sim *s = sim_world;
    struct sim_listener *sl;

    (void)o;
    *out = NULL;
    if (strlen(addr) >= sizeof sl->addr)
        return err_set(eb, ERR_BAD_REQUEST, "\"%s\" is too long for an address", addr);
    if (port == 0 && strncmp(addr, "unix:", 5) != 0)
        port = s->next_port++;
    if (find_listener(addr, port) != NULL)
        return err_set(eb, ERR_EXISTS, "%s port %u is in use", addr, port);
    sl = xcalloc(1, sizeof *sl);
    sl->l.ops = &listener_ops;
    sl->l.loop = loop_self;
    sl->l.port = port;
    memcpy(sl->addr, addr, strlen(addr) + 1);
    list_init(&sl->backlog);
    rt_cond_init(&sl->came);
    timer_init(&sl->hand_over, on_hand_over);
    list_push_back(&s->listeners, &sl->of_sim);
    *out = &sl->l;
    return ERR_OK;
}

enum err
sim_connect(const char *host, uint16_t port, unsigned refuse, struct deadline by,
            struct stream **out, struct errbuf *eb)
{
    enum err rc = sim_pause(by);
    struct sim_listener *sl = find_listener(host, port);
    struct stream *accepted;
    char theirs[56], ours[56];

    (void)refuse; /* its names resolve to themselves only */
    *out = NULL;
    if (rc != ERR_OK)
        return err_set(eb, rc, "connecting to %s port %u: %s", host, port, err_name(rc));
    if (sl == NULL || sl->waiting >= BACKLOG_MAX)
        return err_set(eb, ERR_CLOSED, "connecting to %s port %u: connection refused",
                       host, port);
    snprintf(theirs, sizeof theirs, "%.40s:%u", host, port);
    snprintf(ours, sizeof ours, "127.0.0.1:%u", sim_world->next_port++);
    link_new(theirs, ours, out, &accepted);
    list_push_back(&sl->backlog, &sim_net_end_of(accepted)->of_listener);
    sl->waiting++;
    if (sl->serving)
        sim_net_arm(&sl->hand_over);
    else
        rt_cond_signal(&sl->came);
    return ERR_OK;
}

/* Open listeners at the end of a world are a leak. */
void
sim_net_end(struct sim *s)
{
    assert(list_empty(&s->listeners));
}
