/* relay: the least that stands between a client and a far server: what comes from the one goes to the other, on one thread, each client with
 * a connection of its own to the far side. Nothing is parsed, verified or kept: the limit for cold GETs of the bench.
 *
 *     relay PORT FAR_PORT      serves until it is killed
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "listen.h"

enum { PIECE = 128 * 1024, FDS_MAX = 4096 };

/* One direction: bytes of `from` that `to` has not taken yet. */
struct side {
    struct side *other;
    char *held; /* PIECE bytes, owned */
    size_t at, end;
    int fd;
};

static struct side *sides[FDS_MAX];
static uint16_t far_port;
static int ep;

static void
die(const char *what)
{
    fprintf(stderr, "relay: %s: %s\n", what, strerror(errno));
    exit(1);
}

static struct side *
side_new(int fd)
{
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.fd = fd};
    struct side *s = calloc(1, sizeof *s);
    int one = 1;

    if (s == NULL || (s->held = malloc(PIECE)) == NULL || fd < 0 || fd >= FDS_MAX)
        die("a connection");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    s->fd = fd;
    sides[fd] = s;
    if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e) != 0)
        die("epoll_ctl");
    return s;
}

static void
side_free(struct side *s)
{
    sides[s->fd] = NULL;
    close(s->fd);
    free(s->held);
    free(s);
}

static int
connect_far(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons(far_port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) != 0)
        die("connecting to the far server");
    return fd;
}

/* From s->fd to the other side's, until one of them has no more. False: it is over. */
static bool
carry(struct side *s)
{
    for (;;) {
        ssize_t n;

        if (s->at == s->end) {
            n = recv(s->fd, s->held, PIECE, MSG_DONTWAIT);
            if (n <= 0)
                return n < 0 && errno == EAGAIN;
            s->at = 0;
            s->end = (size_t)n;
        }
        n = send(s->other->fd, s->held + s->at, s->end - s->at,
                 MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0)
            return errno == EAGAIN;
        s->at += (size_t)n;
    }
}

static void
on_event(int fd)
{
    struct side *s = sides[fd], *o;

    if (s == NULL)
        return;
    o = s->other;
    if (carry(s) && carry(o))
        return;
    side_free(s);
    side_free(o);
}

static void
on_listener(int lfd)
{
    int fd;

    while ((fd = accept4(lfd, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        struct side *near = side_new(fd), *far = side_new(connect_far());

        near->other = far;
        far->other = near;
    }
}

int
main(int argc, char **argv)
{
    static struct epoll_event events[256];
    struct epoll_event e = {.events = EPOLLIN};
    int lfd;

    if (argc != 3) {
        fprintf(stderr, "relay PORT FAR_PORT\n");
        return 2;
    }
    far_port = (uint16_t)strtoul(argv[2], NULL, 10);
    lfd = listen_on((uint16_t)strtoul(argv[1], NULL, 10));
    ep = epoll_create1(0);
    e.data.fd = lfd;
    if (lfd < 0 || ep < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, lfd, &e) != 0)
        die("listen");
    for (;;) {
        int count = epoll_wait(ep, events, 256, -1);

        for (int i = 0; i < count; i++) {
            if (events[i].data.fd == lfd)
                on_listener(lfd);
            else
                on_event(events[i].data.fd);
        }
    }
}
