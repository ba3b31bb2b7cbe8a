/* listen: listening sockets of the real engines. Loop 0 accepts and hands each connection to the loop with the
 * fewest: SO_REUSEPORT balances badly (runtime notes: 1.2 to 1.8 times the mean) and resets clients when a socket
 * closes. */
#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "rt/real.h"
#include "rt/socket.h"

enum { BACKLOG = 4096, ACCEPTS_A_TURN = 128 };
#define PAUSE_NS (100u * 1000000u)

struct real_listener {
    struct listener l;
    struct watch watch;
    struct fiber *acceptor;
    struct timer again; /* resumes accepting: next turn, or after a pause */
    bool may_have;      /* no EAGAIN since the last edge */
    bool paused;        /* the pause has been logged */
    bool closed;
    bool unix_path;
    char path[108]; /* removed at the end */
};

/* A connection in transit to its loop. */
struct handover {
    struct rt_msg msg;
    int fd;
    union address peer;
    void (*on_stream)(struct stream *s, void *arg);
    void *arg;
};

static struct real_listener *
real_listener_of(struct listener *l)
{
    return CONTAINER_OF(l, struct real_listener, l);
}

static void
on_handover(struct rt_msg *m)
{
    struct handover *h = CONTAINER_OF(m, struct handover, msg);
    struct errbuf eb = {0};
    struct stream *s;

    assert(h->fd >= 0);
    assert(h->on_stream != NULL);
    if (socket_stream(h->fd, &h->peer, true, &s, &eb) == ERR_OK) {
        s->counted = true;
        h->on_stream(s, h->arg);
    } else {
        atomic_fetch_sub(&loop_self->connections, 1);
        LOG(LOG_WARN, "rt.accept", "a connection was dropped", L_TEXT("why", eb.text));
    }
    free(h);
}

static unsigned
emptiest_loop(void)
{
    unsigned best = 0, fewest = UINT32_MAX;

    for (unsigned i = 0; i < rt_loop_count(); i++) {
        unsigned n = atomic_load_explicit(&loop_at(i)->connections, memory_order_relaxed);

        if (n < fewest) {
            fewest = n;
            best = i;
        }
    }
    return best;
}

static void
hand_over(struct real_listener *r, int fd, const union address *peer)
{
    struct handover *h = xmalloc(sizeof *h);
    unsigned loop = emptiest_loop();

    assert(loop < rt_loop_count());
    assert(fd >= 0);
    *h = (struct handover){.msg.fn = on_handover,
                           .fd = fd,
                           .peer = *peer,
                           .on_stream = r->l.on_stream,
                           .arg = r->l.arg};
    metric_add(M_ACCEPTED, 0, 1);
    atomic_fetch_add(&loop_at(loop)->connections, 1);
    rt_post(loop, &h->msg);
}

/* Returns a descriptor, -EAGAIN, or another -errno. Skips errors that belong to one connection. */
static int
listen_accept_one(struct real_listener *r, union address *peer)
{
    for (;;) {
        socklen_t len = sizeof *peer;
        int fd;

        *peer = (union address){0};
        fd = accept4(r->watch.fd, &peer->any, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            return fd;
        switch (errno) {
        case EINTR:
        case ECONNABORTED:
        case EPROTO:
        case ENETDOWN:
        case EHOSTDOWN:
        case EHOSTUNREACH:
        case ENETUNREACH:
        case ETIMEDOUT:
            continue;
        default:
            return -errno;
        }
    }
}

/* Clients wait in the backlog until descriptors are free again. */
static void
pause_accepting(struct real_listener *r, int error)
{
    char why[64];

    if (!r->paused)
        LOG(LOG_WARN, "rt.accept", "accepting pauses",
            L_TEXT("why", strerror_r(error, why, sizeof why)), L_U64("port", r->l.port));
    r->paused = true;
    timer_add(&r->l.loop->timers, &r->again, r->l.loop->ops->now_ns() + PAUSE_NS);
}

static void
accept_some(struct real_listener *r)
{
    union address peer;

    assert(!r->closed);
    assert(r->l.on_stream != NULL);
    for (unsigned i = 0; i < ACCEPTS_A_TURN; i++) {
        int fd = listen_accept_one(r, &peer);

        if (fd == -EAGAIN) {
            r->may_have = false;
            return;
        }
        if (fd < 0) {
            pause_accepting(r, -fd);
            return;
        }
        r->paused = false;
        hand_over(r, fd, &peer);
    }
    timer_add(&r->l.loop->timers, &r->again,
              r->l.loop->now_ns + 1); /* other work first */
}

static void
on_resume_accept(struct timer *t)
{
    accept_some(CONTAINER_OF(t, struct real_listener, again));
}

static void
listen_on_edge(struct watch *w, unsigned edges)
{
    struct real_listener *r = CONTAINER_OF(w, struct real_listener, watch);

    (void)edges;
    r->may_have = true;
    if (r->acceptor != NULL)
        fiber_wake(r->acceptor, ERR_OK);
    else if (r->l.on_stream != NULL && r->again.place == TIMER_IDLE)
        accept_some(r);
}

static void
listener_serve(struct listener *l)
{
    struct real_listener *r = real_listener_of(l);

    assert(l->loop->index == 0);
    timer_add(&l->loop->timers, &r->again, l->loop->now_ns);
}

static enum err
accept_stream(struct listener *l, struct deadline by, struct stream **out,
              struct errbuf *eb)
{
    struct real_listener *r = real_listener_of(l);
    union address peer;

    assert(r->acceptor == NULL);
    for (;;) {
        enum err rc;
        int fd = r->may_have ? listen_accept_one(r, &peer) : -EAGAIN;

        if (fd >= 0)
            return socket_stream(fd, &peer, true, out, eb);
        if (fd != -EAGAIN)
            return err_errno(eb, ERR_BUSY, -fd, "accepting on port %u", l->port);
        r->may_have = false;
        r->acceptor = rt_self();
        rc = fiber_wait(by);
        r->acceptor = NULL;
        if (r->closed) {
            free(r);
            return err_set(eb, ERR_CLOSED, "the listener was closed");
        }
        if (rc != ERR_OK)
            return err_set(eb, rc, "no connection on port %u: %s", l->port, err_name(rc));
    }
}

static void
close_listener(struct listener *l)
{
    struct real_listener *r = real_listener_of(l);

    assert(l->loop == loop_self);
    assert(!r->closed);
    timer_remove(&l->loop->timers, &r->again);
    l->loop->ops->unwatch(l->loop, &r->watch);
    close(r->watch.fd);
    if (r->unix_path)
        unlink(r->path);
    r->closed = true;
    if (r->acceptor == NULL) {
        free(r);
        return;
    }
    fiber_wake(r->acceptor,
               ERR_CLOSED); /* it frees r; no effect when it is awake already */
}

static const struct listener_ops listener_ops = {
    .serve = listener_serve,
    .accept = accept_stream,
    .close = close_listener,
};

/* ---- opening ---- */

/* A socket file without a listener blocks the next server. */
static enum err
clear_path(const char *path, struct errbuf *eb)
{
    struct stat st;

    if (lstat(path, &st) != 0)
        return ERR_OK;
    if (!S_ISSOCK(st.st_mode))
        return err_set(eb, ERR_EXISTS, "'%s' exists and is no socket", path);
    if (unlink(path) != 0)
        return err_errno(eb, ERR_IO, errno, "removing '%s'", path);
    return ERR_OK;
}

static enum err
set_up(int fd, const union address *a, socklen_t len, const struct rt_listen_options *o,
       struct errbuf *eb)
{
    int on = 1;

    if (a->any.sa_family != AF_UNIX) {
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (a->any.sa_family == AF_INET6)
            (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
        if (o->congestion != NULL &&
            setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, o->congestion,
                       (socklen_t)strlen(o->congestion)) != 0)
            return err_errno(eb, ERR_BAD_REQUEST, errno, "congestion control '%s'",
                             o->congestion);
    }
    if (bind(fd, &a->any, len) != 0 ||
        listen(fd, o->backlog > 0 ? (int)o->backlog : BACKLOG) != 0)
        return err_errno(eb, errno == EADDRINUSE ? ERR_EXISTS : ERR_IO, errno,
                         "listening");
    return ERR_OK;
}

static enum err
open_socket(const char *addr, uint16_t port, const struct rt_listen_options *o,
            int *fd_out, union address *bound, struct errbuf *eb)
{
    socklen_t len;
    enum err rc;
    int fd;

    if (!address_parse(addr, port, bound, &len))
        return err_set(eb, ERR_BAD_REQUEST,
                       "'%s' is no address to listen on: give an IPv4 or IPv6 address, "
                       "or unix:/path",
                       addr);
    if (bound->any.sa_family == AF_UNIX && o->unlink_first) {
        rc = clear_path(bound->path.sun_path, eb);
        if (rc != ERR_OK)
            return rc;
    }
    fd = socket(bound->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_errno(eb, ERR_BUSY, errno, "a socket for %s", addr);
    rc = set_up(fd, bound, len, o, eb);
    if (rc != ERR_OK) {
        err_prefix(eb, "%s port %u", addr, port);
        close(fd);
        return rc;
    }
    if (bound->any.sa_family != AF_UNIX) {
        len = sizeof *bound;
        if (getsockname(fd, &bound->any, &len) != 0)
            abort(); /* our own socket, just bound */
    }
    *fd_out = fd;
    return ERR_OK;
}

enum err
real_listen(const char *addr, uint16_t port, const struct rt_listen_options *o,
            struct listener **out, struct errbuf *eb)
{
    struct real_listener *r;
    union address bound;
    enum err rc;
    int fd = -1, error;

    rc = open_socket(addr, port, o, &fd, &bound, eb);
    if (rc != ERR_OK)
        return rc;
    r = xcalloc(1, sizeof *r);
    r->l = (struct listener){.ops = &listener_ops, .loop = loop_self};
    r->watch = (struct watch){.fd = fd, .on_edge = listen_on_edge};
    timer_init(&r->again, on_resume_accept);
    if (bound.any.sa_family == AF_UNIX) {
        r->unix_path = true;
        memcpy(r->path, bound.path.sun_path, sizeof r->path);
    } else {
        r->l.port = ntohs(bound.any.sa_family == AF_INET ? bound.v4.sin_port
                                                         : bound.v6.sin6_port);
    }
    error = r->l.loop->ops->watch(r->l.loop, &r->watch);
    if (error != 0) {
        close(fd);
        free(r);
        return err_errno(eb, ERR_BUSY, -error, "watching port %u of %s", port, addr);
    }
    assert(r->again.place == TIMER_IDLE);
    *out = &r->l;
    return ERR_OK;
}
