/* The network of the simulator: a link has two directions, each a bounded pipe with latency. Bytes arrive in pieces
 * drawn from the seed; room returns with a delay as well. Nothing is lost, as in TCP; closing with unread bytes
 * resets the other end.
 *
 * Between nodes of a cluster: what arrives is an event of the receiver, what returns is one of the sender. A way that is
 * cut delivers nothing, and tries again, as TCP does. A node that lost its power says nothing; when it runs again it
 * answers with a reset to who goes on sending. */
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
#define RETRY_NS    200000000u /* between two tries on a way that is cut */

/* Bytes from one end to the other. Positions only grow: acked <= taken <= seen <= sent. */
struct direction {
    struct link *link;
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
    struct sim *to_node, *from_node;
    char at[PIPE_BYTES];
};
struct link {
    uint64_t id;
    unsigned ends;    /* alive */
    struct sim *lost; /* the node whose power went with its end open; NULL */
    uint64_t told;    /* what had been sent to it by then */
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
    struct sim *node;
    struct list of_sim; /* sim_shared.listeners */
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
sim_net_arm_forth(struct direction *d)
{
    if (d->forth.place == TIMER_IDLE)
        sim_after_at(d->to_node, &d->forth,
                     sim_delay_ns() + sim_way_delay_ns(d->from_node, d->to_node));
}

static void
sim_net_arm_back(struct direction *d)
{
    if (d->back.place == TIMER_IDLE)
        sim_after_at(d->from_node, &d->back,
                     sim_delay_ns() + sim_way_delay_ns(d->to_node, d->from_node));
}

static struct direction *
opposite_of(struct direction *d)
{
    struct link *k = d->link;

    return d == &k->way[0] ? &k->way[1] : &k->way[0];
}

/* Whether a node that lost its power has nothing to say yet: it is down, or was sent nothing since. */
static bool
sim_net_is_silent(const struct link *k, const struct sim *from)
{
    const struct direction *to_it = &k->way[k->way[0].to_node == from ? 0 : 1];

    return k->lost == from && (from->member.runtime == NULL || to_it->sent == k->told);
}

/* True: nothing passes from one node to the other now, and the timer is set for another try. */
static bool
sim_net_holds(const struct link *k, struct timer *t, const struct sim *from,
              struct sim *to)
{
    if (!sim_net_is_silent(k, from) && !sim_way_is_cut(from, to))
        return false;
    sim_after_at(to, t, RETRY_NS);
    return true;
}

/* The connection breaks for both ends. */
static void
sim_net_break(struct direction *d)
{
    struct direction *other = opposite_of(d);

    d->reset = d->ended = true;
    other->reset = other->ended = true;
    sim_net_arm_forth(other);
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
    return !sim_world->options.calm && sim_rng_next(&sim_world->shared->rng) % of == 0;
}

/* Bytes arrive at the receiver: some, or all, and then the end. */
static void
on_forth(struct timer *t)
{
    struct direction *d = CONTAINER_OF(t, struct direction, forth);
    uint64_t coming = d->sent - d->seen;

    direction_check(d);
    if (sim_net_holds(d->link, t, d->from_node, d->to_node))
        return;
    if (coming > 0 && sim_way_resets(d->from_node, d->to_node))
        sim_net_break(d);
    if (d->link->lost == d->from_node) /* it has forgotten the connection */
        d->reset = true;
    if (coming > 0 && in_pieces(4))
        coming = 1 + sim_rng_next(&sim_world->shared->rng) % coming;
    d->seen += coming;
    d->short_read = false;
    if (d->reset)
        d->reset_seen = true;
    else if (d->seen == d->sent && d->ended)
        d->end_seen = true;
    if (d->seen < d->sent)
        sim_net_arm_forth(d);
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
    if (sim_net_holds(d->link, t, d->to_node, d->from_node))
        return;
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
        n = 1 + (size_t)(sim_rng_next(&sim_world->shared->rng) %
                         (n - 1)); /* fewer than there are */
        sim_net_arm_forth(d);
    }
    for (size_t done = 0; done < n;) {
        size_t from = (size_t)(d->taken % PIPE_BYTES);
        size_t part = MIN(n - done, PIPE_BYTES - from);

        memcpy((char *)buf + done, d->at + from, part);
        d->taken += part;
        done += part;
    }
    sim_net_arm_back(d);
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

    if (d->refused_seen || d->ended || e->in->reset_seen || sim_is_dead(sim_world))
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
    sim_net_arm_forth(d);
    return (ssize_t)n;
}

static int
sim_net_shut(struct stream *s)
{
    struct direction *d = sim_net_end_of(s)->out;

    if (sim_is_dead(sim_world))
        return -EPIPE;
    d->ended = true;
    sim_net_arm_forth(d);
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
    if (sim_is_dead(sim_world) && sim_world->member.power) {
        k->lost = sim_world;
        k->told = e->in->sent;
    }
    free(e);
    assert(k->ends > 0);
    if (--k->ends > 0) {
        for (int i = 0; i < 2; i++) {
            sim_net_arm_forth(&k->way[i]);
            sim_net_arm_back(&k->way[i]);
        }
        return;
    }
    for (int i = 0; i < 2; i++) {
        timer_remove(&k->way[i].to_node->events, &k->way[i].forth);
        timer_remove(&k->way[i].from_node->events, &k->way[i].back);
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

/* An end in the node that is entered. */
static struct sim_end *
end_new(struct link *k, unsigned in, const char *peer, bool loopback)
{
    struct sim_end *e = xcalloc(1, sizeof *e);

    stream_init(&e->s, &stream_ops, peer, loopback);
    e->link = k;
    list_init(&e->of_listener);
    e->in = &k->way[in];
    e->out = &k->way[1 - in];
    e->in->to = e;
    e->in->to_node = sim_world;
    e->out->from = e;
    e->out->from_node = sim_world;
    k->ends++;
    assert(k->ends <= 2);
    return e;
}

/* From the node that is entered to `server`. */
static void
link_new(struct sim *server, const char *peer_of_a, const char *peer_of_b,
         struct stream **a, struct stream **b)
{
    struct link *k = xcalloc(1, sizeof *k);
    bool loopback = server == sim_world;
    struct sim_context before;

    k->id = ++sim_world->shared->next_link;
    for (int i = 0; i < 2; i++) {
        k->way[i].link = k;
        timer_init(&k->way[i].forth, on_forth);
        timer_init(&k->way[i].back, on_back);
    }
    *a = &end_new(k, 0, peer_of_a, loopback)->s;
    before = sim_enter(server);
    *b = &end_new(k, 1, peer_of_b, loopback)->s;
    sim_leave(before);
}

enum err
sim_pipe(struct stream **a, struct stream **b)
{
    link_new(sim_world, "pipe", "pipe", a, b);
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
    if (sl->hand_over.place == TIMER_IDLE)
        sim_after_at(sl->node, &sl->hand_over, sim_delay_ns());
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
    timer_remove(&sl->node->events, &sl->hand_over);
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

/* Loopback addresses and sockets in files belong to one node each. */
static bool
sim_net_is_local(const char *host)
{
    return strncmp(host, "unix:", 5) == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0;
}

static bool
sim_net_matches(const struct sim_listener *sl, const char *host, uint16_t port)
{
    bool any = strcmp(sl->addr, "0.0.0.0") == 0 || strcmp(sl->addr, "::") == 0;
    bool alone = sim_world->shared->cluster == NULL;

    if (sim_is_dead(sl->node) ||
        (!alone && sim_net_is_local(host) && sl->node != sim_world))
        return false;
    if (strncmp(host, "unix:", 5) == 0)
        return strcmp(sl->addr, host) == 0;
    if (sl->l.port != port || strncmp(sl->addr, "unix:", 5) == 0)
        return false;
    if (any)
        return alone || sim_net_is_local(host) ||
               strcmp(host, sl->node->member.addr) == 0;
    return strcmp(sl->addr, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host) == 0;
}

static struct sim_listener *
find_listener(const char *host, uint16_t port)
{
    LIST_EACH(&sim_world->shared->listeners, n)
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
    struct sim_shared *s = sim_world->shared;
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
    sl->node = sim_world;
    sl->l.port = port;
    memcpy(sl->addr, addr, strlen(addr) + 1);
    list_init(&sl->backlog);
    rt_cond_init(&sl->came);
    timer_init(&sl->hand_over, on_hand_over);
    list_push_back(&s->listeners, &sl->of_sim);
    *out = &sl->l;
    return ERR_OK;
}

/* A listener that answers: both ways must be open. A node without power does not even refuse. */
static enum err
sim_net_find(const char *host, uint16_t port, struct deadline by,
             struct sim_listener **out)
{
    enum err rc = sim_pause(by);

    *out = NULL;
    while (rc == ERR_OK) {
        const struct sim *there;

        *out = find_listener(host, port);
        there = *out != NULL ? (*out)->node : sim_member_at(sim_world, host);
        if (there == NULL || there == sim_world ||
            (!sim_way_is_cut(sim_world, there) && !sim_way_is_cut(there, sim_world) &&
             (there->member.runtime != NULL || !there->member.power)))
            return ERR_OK;
        *out = NULL;
        rc = rt_sleep_ms(RETRY_NS / 1000000u);
        if (rc == ERR_OK && deadline_passed(by))
            rc = ERR_TIMEOUT;
    }
    return rc;
}

enum err
sim_connect(const char *host, uint16_t port, unsigned refuse, struct deadline by,
            struct stream **out, struct errbuf *eb)
{
    struct sim_listener *sl;
    enum err rc = sim_net_find(host, port, by, &sl);
    const char *from = sim_world->member.addr;
    struct sim_context before;
    struct stream *accepted;
    char theirs[56], ours[56];

    (void)refuse; /* its names resolve to themselves only */
    *out = NULL;
    if (rc != ERR_OK)
        return err_set(eb, rc, "connecting to %s port %u: %s", host, port, err_name(rc));
    if (sl == NULL || sl->waiting >= BACKLOG_MAX || sim_is_dead(sim_world))
        return err_set(eb, ERR_CLOSED, "connecting to %s port %u: connection refused",
                       host, port);
    snprintf(theirs, sizeof theirs, "%.40s:%u", host, port);
    snprintf(ours, sizeof ours, "%s:%u",
             from[0] != '\0' && sl->node != sim_world ? from : "127.0.0.1",
             sim_world->shared->next_port++);
    link_new(sl->node, theirs, ours, out, &accepted);
    list_push_back(&sl->backlog, &sim_net_end_of(accepted)->of_listener);
    sl->waiting++;
    if (sl->serving) {
        if (sl->hand_over.place == TIMER_IDLE)
            sim_after_at(sl->node, &sl->hand_over, sim_delay_ns());
        return ERR_OK;
    }
    before = sim_enter(sl->node);
    rt_cond_signal(&sl->came);
    sim_leave(before);
    return ERR_OK;
}

bool
sim_net_listens(const struct list *of_sim, const struct sim *node)
{
    return LIST_ENTRY((struct list *)(uintptr_t)of_sim, struct sim_listener, of_sim)
               ->node == node;
}

/* Open listeners at the end of a world are a leak. */
void
sim_net_end(struct sim_shared *sh)
{
    assert(list_empty(&sh->listeners));
}
