/* net: waiting for bytes and closing streams, whatever backend moves the bytes; park.c has streams without a waiting
 * fiber. */
#include "rt/net.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "rt/internal.h"

/* A fiber whose peer is always faster never waits: after this many calls it yields. */
enum { CALLS_BEFORE_YIELD = 64 };

void
stream_init(struct stream *s, const struct stream_ops *ops, const char *peer,
            bool loopback)
{
    size_t len = MIN(strlen(peer), sizeof s->peer - 1);

    assert(loop_self != NULL);
    assert(ops->try_recv != NULL);
    assert(ops->try_sendv != NULL);
    assert(ops->destroy != NULL);
    *s = (struct stream){
        .ops = ops, .loop = loop_self, .may_out = true, .loopback = loopback};
    memcpy(s->peer, peer, len);
    list_init(&s->park.of_loop);
    timer_init(&s->park.timer, stream_on_park_deadline);
}

/* ---- calls in progress ---- */

static void
stream_enter(struct stream *s)
{
    assert(s->loop == loop_self);
    assert(!s->closed);
    s->users++;
}

static void
stream_destroy(struct stream *s)
{
    assert(s->closed);
    assert(s->users == 0);
    assert(s->receiver == NULL);
    assert(s->sender == NULL);
    assert(s->park.timer.place == TIMER_IDLE);
    if (s->layer != NULL)
        s->layer->destroy(s);
    if (s->counted)
        atomic_fetch_sub(&s->loop->connections, 1);
    s->ops->destroy(s);
}

void
stream_leave(struct stream *s)
{
    assert(s->users > 0);
    if (--s->users == 0 && s->closed)
        stream_destroy(s);
}

void
rt_stream_close(struct stream **sp)
{
    struct stream *s = *sp;

    if (s == NULL)
        return;
    *sp = NULL;
    stream_enter(s);
    s->closed = true;
    timer_remove(&s->loop->timers, &s->park.timer);
    list_remove(&s->park.of_loop);
    if (s->receiver != NULL)
        fiber_wake(s->receiver, ERR_CLOSED);
    if (s->sender != NULL)
        fiber_wake(s->sender, ERR_CLOSED);
    stream_leave(s);
}

void
rt_stream_reset(struct stream **sp)
{
    if (*sp != NULL)
        (*sp)->reset = true;
    rt_stream_close(sp);
}

/* ---- waiting for an edge ---- */

static enum err
wait_edge(struct stream *s, struct fiber **waiter, struct deadline by)
{
    enum err rc;

    assert(waiter == &s->receiver || waiter == &s->sender);
    assert(*waiter == NULL); /* one fiber at a time in each direction */
    *waiter = rt_self();
    rc = fiber_wait(by);
    assert(*waiter == rt_self());
    *waiter = NULL;
    return s->closed ? ERR_CLOSED : rc;
}

static enum err
wait_failed(const struct stream *s, enum err rc, const char *doing, struct errbuf *eb)
{
    const char *why = rc == ERR_TIMEOUT     ? "the deadline has passed"
                      : rc == ERR_CANCELLED ? "cancelled"
                      : rc == ERR_CLOSED    ? "the stream was closed"
                                            : err_name(rc);

    return err_set(eb, rc, "%s %s: %s", doing, s->peer, why);
}

static enum err
io_failed(const struct stream *s, int error, const char *doing, struct errbuf *eb)
{
    switch (error) {
    case ECONNRESET:
    case EPIPE:
    case ETIMEDOUT:
    case ECONNABORTED:
    case ENOTCONN:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENETDOWN:
    case EHOSTDOWN:
        return err_errno(eb, ERR_CLOSED, error, "%s %s", doing, s->peer);
    default:
        return err_errno(eb, ERR_IO, error, "%s %s", doing, s->peer);
    }
}

static void
be_fair(struct stream *s)
{
    if (++s->loop->spent >= CALLS_BEFORE_YIELD)
        rt_yield();
}

void
stream_edge(struct stream *s, unsigned edges)
{
    assert(s->loop == loop_self);
    if ((edges & EDGE_HANGUP) != 0)
        s->hangup = true;
    if ((edges & EDGE_OUT) != 0) {
        s->may_out = true;
        if (s->sender != NULL)
            fiber_wake(s->sender, ERR_OK);
    }
    if ((edges & EDGE_IN) != 0) {
        s->may_in = true;
        if (s->receiver != NULL)
            fiber_wake(s->receiver, ERR_OK);
        else if (s->parked && !stream_run_inline(s))
            stream_unpark(s, ERR_OK);
    }
}

/* ---- bytes ---- */

/* A receive shorter than its room has emptied the queue: the next bytes make an edge, so no second call is needed to
 * get EAGAIN. Not so once the end is known: its edge has been delivered already. */
enum err
stream_recv_raw(struct stream *s, void *buf, size_t len, struct deadline by, size_t *n,
                struct errbuf *eb)
{
    *n = 0;
    be_fair(s);
    for (;;) {
        enum err rc;

        if (s->closed)
            return wait_failed(s, ERR_CLOSED, "receiving from", eb);
        if (s->may_in) {
            ssize_t got = s->ops->try_recv(s, buf, len);

            if (got >= 0) {
                assert((size_t)got <= len);
                if ((size_t)got < len && !s->hangup)
                    s->may_in = false;
                *n = (size_t)got;
                return ERR_OK;
            }
            if (got != -EAGAIN)
                return io_failed(s, (int)-got, "receiving from", eb);
            s->may_in = false;
        }
        rc = wait_edge(s, &s->receiver, by);
        if (rc != ERR_OK)
            return wait_failed(s, rc, "receiving from", eb);
    }
}

/* Returns 0 also for an end or an error: the next rt_recv() reports it. */
size_t
rt_try_recv(struct stream *s, void *buf, size_t len)
{
    ssize_t got;

    assert(s->loop == loop_self);
    assert(s->layer == NULL);
    assert(len > 0);
    if (s->closed || !s->may_in)
        return 0;
    got = s->ops->try_recv(s, buf, len);
    if (got == -EAGAIN || (got > 0 && (size_t)got < len && !s->hangup))
        s->may_in = false;
    return got > 0 ? (size_t)got : 0;
}

size_t
rt_try_sendv(struct stream *s, const struct iovec *iov, int count)
{
    ssize_t put;

    assert(s->loop == loop_self);
    assert(s->layer == NULL);
    assert(count > 0);
    if (s->closed || !s->may_out)
        return 0;
    put = s->ops->try_sendv(s, iov, count);
    if (put == -EAGAIN)
        s->may_out = false;
    return put > 0 ? (size_t)put : 0;
}

static void
iov_advance(struct iovec **iov, int *count, size_t bytes)
{
    while (*count > 0 && bytes >= (*iov)->iov_len) {
        bytes -= (*iov)->iov_len;
        (*iov)++;
        (*count)--;
    }
    if (bytes > 0) {
        assert(*count > 0);
        (*iov)->iov_base = (char *)(*iov)->iov_base + bytes;
        (*iov)->iov_len -= bytes;
    }
}

enum err
stream_sendv_raw(struct stream *s, struct iovec *iov, int count, struct deadline by,
                 struct errbuf *eb)
{
    be_fair(s);
    iov_advance(&iov, &count, 0);
    while (count > 0) {
        enum err rc;

        if (s->closed)
            return wait_failed(s, ERR_CLOSED, "sending to", eb);
        if (s->may_out) {
            ssize_t put = s->ops->try_sendv(s, iov, count);

            if (put >= 0) {
                iov_advance(&iov, &count, (size_t)put);
                continue;
            }
            if (put != -EAGAIN)
                return io_failed(s, (int)-put, "sending to", eb);
            s->may_out = false;
        }
        rc = wait_edge(s, &s->sender, by);
        if (rc != ERR_OK)
            return wait_failed(s, rc, "sending to", eb);
    }
    return ERR_OK;
}

enum err
stream_send_end_raw(struct stream *s, struct deadline by)
{
    int rc;

    (void)by;
    if (s->closed)
        return ERR_CLOSED;
    rc = s->ops->shut(s);
    return rc == 0 ? ERR_OK : io_failed(s, -rc, "ending", NULL);
}

enum err
rt_recv(struct stream *s, void *buf, size_t len, struct deadline by, size_t *n,
        struct errbuf *eb)
{
    enum err rc;

    assert(len > 0);
    assert(rt_self() != NULL);
    stream_enter(s);
    rc = s->layer != NULL ? s->layer->recv(s, buf, len, by, n, eb)
                          : stream_recv_raw(s, buf, len, by, n, eb);
    stream_leave(s);
    return rc;
}

enum err
rt_sendv(struct stream *s, struct iovec *iov, int count, struct deadline by,
         struct errbuf *eb)
{
    enum err rc;

    stream_enter(s);
    rc = s->layer != NULL ? s->layer->sendv(s, iov, count, by, eb)
                          : stream_sendv_raw(s, iov, count, by, eb);
    stream_leave(s);
    return rc;
}

enum err
rt_sendv_more(struct stream *s, struct iovec *iov, int count, struct deadline by,
              struct errbuf *eb)
{
    enum err rc;

    stream_enter(s);
    assert(!s->more);
    s->more = true;
    rc = s->layer != NULL ? s->layer->sendv(s, iov, count, by, eb)
                          : stream_sendv_raw(s, iov, count, by, eb);
    s->more = false;
    stream_leave(s);
    return rc;
}

enum err
rt_send(struct stream *s, const void *buf, size_t len, struct deadline by,
        struct errbuf *eb)
{
    struct iovec one = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};

    return rt_sendv(s, &one, 1, by, eb);
}

enum err
rt_send_end(struct stream *s, struct deadline by)
{
    enum err rc;

    stream_enter(s);
    rc = s->layer != NULL ? s->layer->send_end(s, by) : stream_send_end_raw(s, by);
    stream_leave(s);
    return rc;
}

/* ---- inspectors ---- */

bool
rt_may_have_bytes(const struct stream *s)
{
    return s->may_in || (s->layer != NULL && s->layer->has_bytes(s));
}

const char *
rt_stream_peer(const struct stream *s)
{
    return s->peer;
}

bool
rt_stream_is_loopback(const struct stream *s)
{
    return s->loopback;
}

bool
rt_stream_is_tls(const struct stream *s)
{
    return s->tls != NULL;
}

void
rt_stream_set_lowat(struct stream *s, unsigned bytes)
{
    if (s->ops->set_lowat != NULL)
        s->ops->set_lowat(s, bytes);
}

/* ---- the engine's part ---- */

enum err
rt_listen(const char *addr, uint16_t port, const struct rt_listen_options *o,
          struct listener **out, struct errbuf *eb)
{
    static const struct rt_listen_options defaults;

    *out = NULL;
    return rt_engine_ops()->listen(addr, port, o != NULL ? o : &defaults, out, eb);
}

uint16_t
rt_listener_port(const struct listener *l)
{
    return l->port;
}

void
rt_listener_serve(struct listener *l, void (*on_stream)(struct stream *s, void *arg),
                  void *arg)
{
    assert(l->on_stream == NULL);
    assert(l->loop == loop_self);
    assert(on_stream != NULL);
    l->on_stream = on_stream;
    l->arg = arg;
    l->ops->serve(l);
}

enum err
rt_accept(struct listener *l, struct deadline by, struct stream **out, struct errbuf *eb)
{
    *out = NULL;
    assert(l->on_stream == NULL);
    assert(l->loop == loop_self);
    return l->ops->accept(l, by, out, eb);
}

void
rt_listener_close(struct listener **lp)
{
    struct listener *l = *lp;

    *lp = NULL;
    if (l != NULL)
        l->ops->close(l);
}

enum err
rt_connect(const char *host, uint16_t port, struct deadline by, struct stream **out,
           struct errbuf *eb)
{
    return rt_connect_within(host, port, 0, by, out, eb);
}

enum err
rt_connect_within(const char *host, uint16_t port, unsigned refuse, struct deadline by,
                  struct stream **out, struct errbuf *eb)
{
    *out = NULL;
    return rt_engine_ops()->connect(host, port, refuse, by, out, eb);
}

enum err
rt_pipe(struct stream **a, struct stream **b)
{
    *a = *b = NULL;
    return rt_engine_ops()->pipe(a, b);
}
