#include "rt/sendable.h"

#include <assert.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "rt/bigmem.h"
#include "rt/syscall.h"

#define REGIONS        4 /* a node has one; tests have more */
#define PORTION_PIECES 4 /* at most; pieces of the hot set have 256 KiB */

struct sendable {
    char *at; /* owned */
    size_t bytes;
};

/* Where sockets look. `bytes` is 0 while an entry changes. */
static struct region {
    _Atomic uintptr_t at; /* 0: free */
    _Atomic size_t bytes;
} regions[REGIONS];

/* Regions beyond the table are sent by copy. */
static void
publish(const struct sendable *s)
{
    for (unsigned i = 0; i < REGIONS; i++) {
        uintptr_t none = 0;

        if (atomic_compare_exchange_strong(&regions[i].at, &none, (uintptr_t)s->at)) {
            atomic_store(&regions[i].bytes, s->bytes);
            return;
        }
    }
}

static void
withdraw(const struct sendable *s)
{
    for (unsigned i = 0; i < REGIONS; i++) {
        if (atomic_load(&regions[i].at) != (uintptr_t)s->at)
            continue;
        atomic_store(&regions[i].bytes, 0);
        atomic_store(&regions[i].at, 0);
    }
}

/* Another region may take the entry's place while it is looked at. */
static bool
lies_in(const struct region *r, uintptr_t at)
{
    uintptr_t from = atomic_load_explicit(&r->at, memory_order_acquire);
    size_t bytes = atomic_load_explicit(&r->bytes, memory_order_acquire);

    return at - from < bytes && atomic_load(&r->at) == from;
}

struct sendable *
sendable_new(size_t bytes)
{
    struct sendable *s = xcalloc(1, sizeof *s);

    s->bytes = align_up(bytes, SENDABLE_PAGE);
    s->at = bigmem_new(s->bytes);
    publish(s);
    return s;
}

char *
sendable_at(const struct sendable *s)
{
    return s->at;
}

void
sendable_release(struct sendable *s, void *at, size_t bytes)
{
    uintptr_t from = align_up((uintptr_t)at, SENDABLE_PAGE),
              to = align_down((uintptr_t)at + bytes, SENDABLE_PAGE);

    assert((char *)at >= s->at && bytes <= s->bytes);
    if (to > from && madvise((void *)from, to - from, MADV_DONTNEED) != 0)
        abort(); /* what was sent would be written over */
}

void
sendable_free(struct sendable **sp)
{
    struct sendable *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
    withdraw(s);
    bigmem_free(s->at, s->bytes);
    free(s);
}

bool
sendable_has(const void *at, size_t len)
{
    bool found = false;

    for (unsigned i = 0; i < REGIONS && len >= RT_BY_REFERENCE; i++)
        found = found || lies_in(&regions[i], (uintptr_t)at);
    return found;
}

/* ---- sending ---- */

static ssize_t
call_vmsplice(int fd, const struct iovec *v, int count)
{
    return syscall_raw(SYS_vmsplice, fd, (long)(uintptr_t)v, count, SPLICE_F_NONBLOCK, 0,
                       0);
}

static ssize_t
call_splice(int from, int to, size_t len)
{
    return syscall_raw(SYS_splice, from, 0, to, 0, (long)len, SPLICE_F_NONBLOCK);
}

static bool
open_pipe(struct sendable_pipe *p)
{
    int fds[2], room;

    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0)
        return false;
    p->out = fds[0];
    p->in = fds[1];
    p->nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    p->open = true;
    /* A user may have so many pages in pipes, and no more: then portions are what fits. */
    room = fcntl(p->in, F_SETPIPE_SZ, SENDABLE_PORTION);
    if (room < 0)
        room = fcntl(p->in, F_SETPIPE_SZ, SENDABLE_CAUTIOUS);
    return p->nowhere >= 0 && room >= (int)SENDABLE_CAUTIOUS;
}

void
sendable_pipe_close(struct sendable_pipe *p)
{
    if (!p->open)
        return;
    close(p->in);
    close(p->out);
    if (p->nowhere >= 0)
        close(p->nowhere);
    p->open = false;
}

/* From now on everything is copied. */
static ssize_t
give_up(struct sendable_pipe *p)
{
    sendable_pipe_close(p);
    p->useless = true;
    return -ENOSYS;
}

/* False: it can't be emptied. */
static bool
throw_away(struct sendable_pipe *p, size_t left)
{
    while (left > 0) {
        ssize_t n = call_splice(p->out, p->nowhere, left);

        if (n <= 0 && n != -EINTR)
            return false;
        left -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* As much of the pieces, from `at` of the first one on, as one portion of `room` bytes takes: how many vectors that are. */
static int
next_portion(const struct iovec *iov, int count, size_t at, size_t room,
             struct iovec out[PORTION_PIECES])
{
    int n = 0;

    for (; n < count && n < PORTION_PIECES && room > 0; n++, at = 0) {
        out[n] =
            (struct iovec){(char *)iov[n].iov_base + at, MIN(iov[n].iov_len - at, room)};
        room -= out[n].iov_len;
    }
    return n;
}

/* *put: how much went into the pipe; what the socket took of it is returned, the rest thrown away. */
static ssize_t
send_portion(struct sendable_pipe *p, int fd, const struct iovec *v, int count,
             size_t *put)
{
    ssize_t in, sent;

    *put = 0;
    if (p->useless || (!p->open && !open_pipe(p)))
        return give_up(p);
    in = call_vmsplice(p->in, v, count);
    if (in <= 0)
        return give_up(p);
    *put = (size_t)in;
    do {
        sent = call_splice(p->out, fd, *put);
    } while (sent == -EINTR);
    if (sent == -EINVAL)
        sent = -ENOSYS;
    if (!throw_away(p, *put - (sent > 0 ? (size_t)sent : 0)))
        sendable_pipe_close(p); /* there will be another */
    return sent == -ENOSYS ? give_up(p) : sent;
}

ssize_t
sendable_send(struct sendable_pipe *p, int fd, const struct iovec *iov, int count,
              size_t portion)
{
    size_t at = 0; /* of iov[0] */
    ssize_t took = 0;

    while (count > 0) {
        struct iovec v[PORTION_PIECES];
        size_t put;
        ssize_t n =
            send_portion(p, fd, v, next_portion(iov, count, at, portion, v), &put);

        if (n < 0)
            return took > 0 ? took : n;
        took += n;
        if ((size_t)n < put)
            return took; /* it is full */
        for (at += put; count > 0 && at >= iov->iov_len; count--)
            at -= iov++->iov_len;
    }
    return took;
}
