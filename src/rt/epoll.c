/* epoll: the engine for where io_uring is forbidden. Readiness by epoll, disk work by the
 * worker pool. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "rt/internal.h"
#include "rt/real.h"

enum { EVENTS = 256 };

struct epoll {
    int fd;
    int wake_fd; /* never read: edge-triggered, each write is an edge */
    bool no_pwait2;
    struct epoll_event events[EVENTS];
};

static enum err
epoll_open_engine(struct loop *l, struct errbuf *eb)
{
    struct epoll *e = xcalloc(1, sizeof *e);
    struct epoll_event ev = {.events = EPOLLIN | EPOLLET, .data.ptr = NULL};

    e->fd = epoll_create1(EPOLL_CLOEXEC);
    e->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    l->engine = e;
    if (e->fd >= 0 && e->wake_fd >= 0 &&
        epoll_ctl(e->fd, EPOLL_CTL_ADD, e->wake_fd, &ev) == 0)
        return ERR_OK;
    err_errno(eb, ERR_BUSY, errno, "epoll of loop %u", l->index);
    epoll_ops.close(l);
    return ERR_BUSY;
}

static void
epoll_close_engine(struct loop *l)
{
    struct epoll *e = l->engine;

    if (e->wake_fd >= 0)
        close(e->wake_fd);
    if (e->fd >= 0)
        close(e->fd);
    free(e);
    l->engine = NULL;
}

/* Kernels before 5.11 count in milliseconds only: then rather late than early. */
static int
poll_events(struct epoll *e, uint64_t until_ns)
{
    uint64_t now, left = 0;
    int n;

    if (until_ns == UINT64_MAX)
        return epoll_wait(e->fd, e->events, EVENTS, -1);
    if (until_ns > 0) {
        now = real_now_ns();
        left = until_ns > now ? until_ns - now : 0;
    }
    if (left == 0)
        return epoll_wait(e->fd, e->events, EVENTS, 0);
    if (!e->no_pwait2) {
        struct timespec ts = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};

        n = epoll_pwait2(e->fd, e->events, EVENTS, &ts, NULL);
        if (n >= 0 || errno != ENOSYS)
            return n;
        e->no_pwait2 = true;
    }
    return epoll_wait(e->fd, e->events, EVENTS,
                      (int)MIN((left + 999999) / 1000000, 3600000u));
}

static void
epoll_wait_events(struct loop *l, uint64_t until_ns)
{
    struct epoll *e = l->engine;
    int n = poll_events(e, until_ns);

    assert(n >= 0 || errno == EINTR);
    for (int i = 0; i < n; i++) {
        struct watch *w = e->events[i].data.ptr;
        uint32_t got = e->events[i].events;

        if (w != NULL)
            w->on_edge(w, watch_edges(got));
    }
}

static void
epoll_wake(struct loop *l)
{
    struct epoll *e = l->engine;

    eventfd_write(e->wake_fd, 1);
}

static int
epoll_watch(struct loop *l, struct watch *w)
{
    struct epoll *e = l->engine;
    struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                             .data.ptr = w};

    return epoll_ctl(e->fd, EPOLL_CTL_ADD, w->fd, &ev) == 0 ? 0 : -errno;
}

/* Edges are delivered within epoll_wait_events(), where nothing is unwatched: an event in hand never outlives its
 * watch. */
static void
epoll_unwatch(struct loop *l, struct watch *w)
{
    struct epoll *e = l->engine;

    epoll_ctl(e->fd, EPOLL_CTL_DEL, w->fd, NULL);
}

const struct engine_ops epoll_ops = {
    .kind = RT_EPOLL,
    .open = epoll_open_engine,
    .close = epoll_close_engine,
    .wait = epoll_wait_events,
    .wake = epoll_wake,
    .watch = epoll_watch,
    .unwatch = epoll_unwatch,
    .submit = real_submit_to_pool,
    REAL_ENGINE_OPS,
};
