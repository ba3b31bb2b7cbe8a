#include "rt/socket.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "rt/real.h"
#include "rt/sanitize.h"
#include "rt/sendable.h"
#include "rt/syscall.h"

/* ---- addresses ---- */

bool
address_parse(const char *text, uint16_t port, union address *out, socklen_t *len)
{
    *out = (union address){0};
    if (strncmp(text, "unix:", 5) == 0) {
        size_t n = strlen(text + 5);

        if (n == 0 || n >= sizeof out->path.sun_path)
            return false;
        out->path.sun_family = AF_UNIX;
        memcpy(out->path.sun_path, text + 5, n);
        *len = sizeof out->path;
        return true;
    }
    if (inet_pton(AF_INET, text, &out->v4.sin_addr) == 1) {
        out->v4.sin_family = AF_INET;
        out->v4.sin_port = htons(port);
        *len = sizeof out->v4;
        return true;
    }
    if (inet_pton(AF_INET6, text, &out->v6.sin6_addr) == 1) {
        out->v6.sin6_family = AF_INET6;
        out->v6.sin6_port = htons(port);
        *len = sizeof out->v6;
        return true;
    }
    return false;
}

void
address_text(const union address *a, char out[ADDRESS_TEXT])
{
    char ip[INET6_ADDRSTRLEN] = "?";

    if (a->any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &a->v4.sin_addr, ip, sizeof ip);
        snprintf(out, ADDRESS_TEXT, "%s:%u", ip, ntohs(a->v4.sin_port));
    } else if (a->any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &a->v6.sin6_addr, ip, sizeof ip);
        snprintf(out, ADDRESS_TEXT, "[%s]:%u", ip, ntohs(a->v6.sin6_port));
    } else {
        snprintf(out, ADDRESS_TEXT, "unix");
    }
}

bool
address_is_loopback(const union address *a)
{
    const struct in6_addr *six = &a->v6.sin6_addr;

    if (a->any.sa_family == AF_INET)
        return ntohl(a->v4.sin_addr.s_addr) >> 24 == 127;
    if (a->any.sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(six) ||
               (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127);
    return true;
}

/* ---- streams ---- */

#define REFERRED_MOST 4 /* pieces that can share a call with the head before them */

struct socket {
    struct stream stream;
    struct watch watch;
    unsigned lowat; /* TCP_NOTSENT_LOWAT; 0: unchanged */
    bool
        corked; /* TCP_CORK is set: an incomplete segment leaves only when it is pushed */
    bool was_full; /* at the last zero-copy send */
};

static struct socket *
socket_of(struct stream *s)
{
    return CONTAINER_OF(s, struct socket, stream);
}

/* In a threaded process glibc makes each of these calls a cancellation point, at two locked instructions a call;
 * this process cancels no threads (rt/syscall.h). The sanitizers intercept the libc functions, so their builds use
 * those. Each returns what syscall_raw() does. */
static ssize_t
call_recv(int fd, void *buf, size_t len)
{
    ssize_t n;

    if (!FB_ASAN && !FB_TSAN)
        return syscall_raw(SYS_recvfrom, fd, (long)(uintptr_t)buf, (long)len, 0, 0, 0);
    n = recv(fd, buf, len, 0);
    return n >= 0 ? n : -errno;
}

static ssize_t
socket_call_send(int fd, const void *at, size_t len, int flags)
{
    ssize_t n;

    flags |= MSG_NOSIGNAL;
    if (!FB_ASAN && !FB_TSAN)
        return syscall_raw(SYS_sendto, fd, (long)(uintptr_t)at, (long)len, flags, 0, 0);
    n = send(fd, at, len, flags);
    return n >= 0 ? n : -errno;
}

static ssize_t
call_sendmsg(int fd, const struct msghdr *msg, int flags)
{
    ssize_t n;

    flags |= MSG_NOSIGNAL;
    if (!FB_ASAN && !FB_TSAN)
        return syscall_raw(SYS_sendmsg, fd, (long)(uintptr_t)msg, flags, 0, 0, 0);
    n = sendmsg(fd, msg, flags);
    return n >= 0 ? n : -errno;
}

static ssize_t
socket_try_recv(struct stream *s, void *buf, size_t len)
{
    ssize_t n;

    do {
        n = call_recv(socket_of(s)->watch.fd, buf, len);
    } while (n == -EINTR);
    return n;
}

static ssize_t
send_copied(int fd, const struct iovec *iov, int count, int flags)
{
    struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov,
                         .msg_iovlen = (size_t)count};
    ssize_t n;

    do {
        n = count == 1 ? socket_call_send(fd, iov->iov_base, iov->iov_len, flags)
                       : call_sendmsg(fd, &msg, flags);
    } while (n == -EINTR);
    return n;
}

static size_t
socket_bytes_of(const struct iovec *iov, int count)
{
    size_t len = 0;

    for (int i = 0; i < count; i++)
        len += iov[i].iov_len;
    return len;
}

static int
set_tcp(int fd, int option, int on)
{
    return setsockopt(fd, IPPROTO_TCP, option, &on, sizeof on);
}

/* MSG_MORE would not do: on a socket without Nagle's algorithm the data it holds back leaves with the next
 * acknowledgement. */
static void
socket_cork(struct socket *k, int on)
{
    if (set_tcp(k->watch.fd, TCP_CORK, on) == 0)
        k->corked = on != 0;
}

/* Sends the end of a reply and keeps the cork for the next one: setting TCP_NODELAY again pushes what is queued. One
 * call instead of two. */
static void
socket_push(struct socket *k)
{
    if (set_tcp(k->watch.fd, TCP_NODELAY, 1) != 0)
        socket_cork(k, 0);
}

/* Whether more data follows a zero-copy piece. */
static bool
is_one_of_several(const struct iovec *iov, int count, bool more)
{
    for (int i = 0; i < count; i++)
        if (iov[i].iov_len >= RT_ZERO_COPY_MIN &&
            (more || i + 1 < count || iov[i].iov_len > SENDABLE_PORTION) &&
            sendable_has(iov[i].iov_base, iov[i].iov_len))
            return true;
    return false;
}

/* Sends zero-copy pieces and `copied` others before them: in one call with them, or in one of their own right
 * before. */
static ssize_t
send_referred(struct socket *k, const struct iovec *iov, int copied, int referred)
{
    struct sendable_pipe *p = &k->stream.loop->zero_copy_pipe;
    size_t portion = k->was_full ? SENDABLE_CAUTIOUS : SENDABLE_PORTION;
    struct iovec with[1 + REFERRED_MOST];
    ssize_t n = 0, more;
    int fd = k->watch.fd;

    assert(copied >= 0);
    assert(referred > 0);
    if (copied > 0 && referred <= REFERRED_MOST &&
        sendable_front(p, iov, copied, iov + copied, referred, portion, &with[0])) {
        memcpy(with + 1, iov + copied, (size_t)referred * sizeof *iov);
        iov = with;
        referred++;
    } else if (copied > 0) {
        n = send_copied(fd, iov, copied, MSG_MORE);
        if (n < 0 || (size_t)n < socket_bytes_of(iov, copied))
            return n;
        iov += copied;
    }
    more = sendable_send(p, fd, iov, referred, portion);
    k->was_full = more < (ssize_t)socket_bytes_of(iov, referred);
    if (more == -ENOSYS)
        more = send_copied(fd, iov, referred, 0);
    return more >= 0 ? n + more : n > 0 ? n : more;
}

/* Sends pieces of sendable memory by reference; a head before the first of them shares a segment with its beginning.
 * Nothing behind them is held back. */
static ssize_t
send_some(struct socket *k, const struct iovec *iov, int count)
{
    int copied = 0, end;

    assert(count > 0);
    while (copied < count && !sendable_has(iov[copied].iov_base, iov[copied].iov_len))
        copied++;
    if (copied == count)
        return send_copied(k->watch.fd, iov, count, 0);
    end = copied + 1;
    while (end < count && sendable_has(iov[end].iov_base, iov[end].iov_len))
        end++;
    return send_referred(k, iov, copied, end - copied);
}

static ssize_t
socket_try_sendv(struct stream *s, const struct iovec *iov, int count)
{
    struct socket *k = socket_of(s);
    bool several = is_one_of_several(iov, count, s->more);
    ssize_t n;

    if (!k->corked && several)
        socket_cork(k, 1);
    n = send_some(k, iov, count);
    if (!k->corked || s->more || n != (ssize_t)socket_bytes_of(iov, count))
        return n;
    if (sendable_has(iov[count - 1].iov_base, iov[count - 1].iov_len))
        socket_push(k);
    else
        socket_cork(k, 0);
    return n;
}

static int
socket_shut(struct stream *s)
{
    return shutdown(socket_of(s)->watch.fd, SHUT_WR) == 0 ? 0 : -errno;
}

static void
socket_set_lowat(struct stream *s, unsigned bytes)
{
    struct socket *k = socket_of(s);

    if (k->lowat == bytes)
        return;
    k->lowat = bytes;
    /* Fails on Unix sockets, which have no such option. */
    (void)setsockopt(k->watch.fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
}

static void
socket_destroy(struct stream *s)
{
    struct socket *k = socket_of(s);
    struct linger no_linger = {.l_onoff = 1};

    assert(s->closed);
    if (s->reset)
        (void)setsockopt(k->watch.fd, SOL_SOCKET, SO_LINGER, &no_linger,
                         sizeof no_linger);
    s->loop->ops->unwatch(s->loop, &k->watch);
    close(k->watch.fd);
    free(k);
}

static const struct stream_ops socket_ops = {
    .try_recv = socket_try_recv,
    .try_sendv = socket_try_sendv,
    .shut = socket_shut,
    .set_lowat = socket_set_lowat,
    .destroy = socket_destroy,
};

static void
socket_on_edge(struct watch *w, unsigned edges)
{
    stream_edge(&CONTAINER_OF(w, struct socket, watch)->stream, edges);
}

enum err
socket_stream(int fd, const union address *peer, bool writable, struct stream **out,
              struct errbuf *eb)
{
    struct socket *k = xcalloc(1, sizeof *k);
    char text[ADDRESS_TEXT];
    int rc, on = 1;

    assert(fd >= 0);
    assert(loop_self != NULL);
    address_text(peer, text);
    stream_init(&k->stream, &socket_ops, text, address_is_loopback(peer));
    k->stream.may_out = writable;
    k->watch = (struct watch){.fd = fd, .on_edge = socket_on_edge};
    if (peer->any.sa_family != AF_UNIX)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    rc = loop_self->ops->watch(loop_self, &k->watch);
    if (rc == 0) {
        *out = &k->stream;
        return ERR_OK;
    }
    close(fd);
    free(k);
    *out = NULL;
    return err_errno(eb, ERR_BUSY, -rc, "watching the connection to %s", text);
}

enum err
real_pipe(struct stream **a, struct stream **b)
{
    union address here = {.any.sa_family = AF_UNIX};
    int fds[2];
    enum err rc;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0)
        return ERR_BUSY;
    rc = socket_stream(fds[0], &here, true, a, NULL);
    if (rc != ERR_OK) {
        close(fds[1]);
        return rc;
    }
    rc = socket_stream(fds[1], &here, true, b, NULL);
    if (rc != ERR_OK)
        rt_stream_close(a);
    return rc;
}
