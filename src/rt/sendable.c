#include "rt/sendable.h"

#include <assert.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "rt/bigmem.h"
#include "rt/syscall.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif
#define REGIONS        4 /* a node has one; tests have more */
#define PORTION_PIECES 5 /* at most: four of the block cache, and the head before them */
#define AT_A_TIME      16u /* pages that splice() passes to a socket at a time */
#define FRONT_MOST     KIB(1)
#define FRONTS         KIB(256)
#define LINE           64u /* of cache */

static_assert(FRONT_MOST <= SENDABLE_PAGE, "a head fits a page");
static_assert(SENDABLE_CAUTIOUS <= SENDABLE_PORTION, "less");

struct sendable {
    char *at; /* owned */
    size_t bytes;
};

/* The table that sends look up. `bytes` is 0 while an entry changes. */
static struct region {
    _Atomic uintptr_t at; /* 0: free */
    _Atomic size_t bytes;
} regions[REGIONS];

/* Regions beyond the table are sent by copy. */
static void
sendable_publish(const struct sendable *s)
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
sendable_withdraw(const struct sendable *s)
{
    for (unsigned i = 0; i < REGIONS; i++) {
        if (atomic_load(&regions[i].at) != (uintptr_t)s->at)
            continue;
        atomic_store(&regions[i].bytes, 0);
        atomic_store(&regions[i].at, 0);
    }
}

/* Another region may replace the entry during the look-up. */
static bool
lies_in(const struct region *r, uintptr_t at)
{
    uintptr_t from = atomic_load_explicit(&r->at, memory_order_acquire);
    size_t bytes = atomic_load_explicit(&r->bytes, memory_order_acquire);

    return at - from < bytes && atomic_load(&r->at) == from;
}

static struct sendable *
sendable_of(void *at, size_t bytes)
{
    struct sendable *s = xcalloc(1, sizeof *s);

    assert(at != NULL);
    *s = (struct sendable){.at = at, .bytes = bytes};
    sendable_publish(s);
    return s;
}

struct sendable *
sendable_new(size_t bytes)
{
    assert(bytes > 0);
    bytes = align_up(bytes, SENDABLE_PAGE);
    return sendable_of(bigmem_new(bytes), bytes);
}

struct sendable *
sendable_try(size_t bytes)
{
    void *at;

    assert(bytes > 0);
    bytes = align_up(bytes, SENDABLE_PAGE);
    at = bigmem_try(bytes);
    return at != NULL ? sendable_of(at, bytes) : NULL;
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

    assert((char *)at >= s->at);
    assert(bytes <= s->bytes);
    assert((char *)at + bytes <= s->at + s->bytes);
    if (to > from && madvise((void *)from, to - from, MADV_DONTNEED) != 0)
        abort(); /* later writes would change what was sent */
}

void
sendable_free(struct sendable **sp)
{
    struct sendable *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
    sendable_withdraw(s);
    bigmem_free(s->at, s->bytes);
    free(s);
}

bool
sendable_has(const void *at, size_t len)
{
    bool found = false;

    for (unsigned i = 0; i < REGIONS && len >= RT_ZERO_COPY_MIN; i++)
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
sendable_open_pipe(struct sendable_pipe *p)
{
    int fds[2], room;

    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0)
        return false;
    p->out = fds[0];
    p->in = fds[1];
    p->nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    p->open = true;
    /* The kernel limits the pipe pages of a user: then portions are smaller. */
    room = fcntl(p->in, F_SETPIPE_SZ, SENDABLE_PORTION);
    if (room < 0)
        room = fcntl(p->in, F_SETPIPE_SZ, SENDABLE_CAUTIOUS);
    p->room = room > 0 ? (size_t)room : 0;
    return p->nowhere >= 0 && room >= (int)SENDABLE_CAUTIOUS;
}

static void
close_pipe(struct sendable_pipe *p)
{
    if (!p->open)
        return;
    close(p->in);
    close(p->out);
    if (p->nowhere >= 0)
        close(p->nowhere);
    p->open = false;
}

static void
fronts_free(struct sendable_pipe *p)
{
    if (p->fronts != NULL)
        munmap(p->fronts, FRONTS);
    p->fronts = NULL;
}

void
sendable_pipe_free(struct sendable_pipe *p)
{
    close_pipe(p);
    fronts_free(p);
}

/* From now on everything is copied. */
static ssize_t
sendable_disable(struct sendable_pipe *p)
{
    close_pipe(p);
    p->useless = true;
    return -ENOSYS;
}

/* False: the pipe cannot be emptied. */
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

/* Fills `out` with as much of the pieces, from `at` of the first one on, as one portion of `room` bytes takes.
 * Returns the number of vectors. */
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

/* ---- fronts ---- */

/* Small pages, so that a holder of one head holds no more than a page. */
static bool
fronts_new(struct sendable_pipe *p)
{
    char *at =
        mmap(NULL, FRONTS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED)
        return false;
    (void)madvise(at, FRONTS, MADV_NOHUGEPAGE);
    p->fronts = at;
    p->fronts_used = FRONTS;
    return true;
}

/* All of it has been written once: those pages belong to the sockets from now on, and fresh ones replace them, all
 * at once where the kernel can. False: later writes would change what was sent. */
static bool
fronts_renew(struct sendable_pipe *p)
{
    if (madvise(p->fronts, FRONTS, MADV_DONTNEED) != 0)
        return false;
    (void)madvise(p->fronts, FRONTS, MADV_POPULATE_WRITE);
    p->fronts_used = 0;
    return true;
}

/* Bytes within one page that have not been written since it was mapped. NULL: no memory. */
static char *
front_room(struct sendable_pipe *p, size_t len)
{
    size_t at;

    assert(len > 0);
    assert(len <= FRONT_MOST);
    if (p->fronts == NULL && !fronts_new(p))
        return NULL;
    at = align_up(p->fronts_used, LINE);
    if (at / SENDABLE_PAGE != (at + len - 1) / SENDABLE_PAGE)
        at = align_up(at, SENDABLE_PAGE);
    if (at + len > FRONTS) {
        if (!fronts_renew(p)) {
            fronts_free(p); /* the next call maps others */
            return NULL;
        }
        at = 0;
    }
    assert(at + len <= FRONTS);
    assert(at / SENDABLE_PAGE == (at + len - 1) / SENDABLE_PAGE);
    p->fronts_used = at + len;
    return p->fronts + at;
}

static size_t
pages_of(const struct iovec *iov, int count)
{
    size_t pages = 0;

    for (int i = 0; i < count; i++)
        pages += align_up(iov[i].iov_len, SENDABLE_PAGE) / SENDABLE_PAGE;
    return pages;
}

/* A separate call for the head costs as much as one more page for which splice() asks the socket. */
bool
sendable_front(struct sendable_pipe *p, const struct iovec *front, int count,
               const struct iovec *pieces, int piece_count, size_t portion,
               struct iovec *out)
{
    size_t pages = pages_of(pieces, piece_count), len = 0;
    char *at;

    for (int i = 0; i < count; i++)
        len += front[i].iov_len;
    if (len == 0 || len > FRONT_MOST || piece_count >= PORTION_PIECES ||
        pages == AT_A_TIME || p->useless ||
        (pages + 1) * SENDABLE_PAGE > (p->open ? MIN(portion, p->room) : portion))
        return false;
    at = front_room(p, len);
    if (at == NULL)
        return false;
    *out = (struct iovec){at, len};
    for (int i = 0; i < count; i++) {
        memcpy(at, front[i].iov_base, front[i].iov_len);
        at += front[i].iov_len;
    }
    return true;
}

/* *put: the bytes that went into the pipe. Returns what the socket accepted; the rest is discarded. */
static ssize_t
send_portion(struct sendable_pipe *p, int fd, const struct iovec *v, int count,
             size_t *put)
{
    ssize_t in, sent;

    *put = 0;
    if (p->useless || (!p->open && !sendable_open_pipe(p)))
        return sendable_disable(p);
    in = call_vmsplice(p->in, v, count);
    if (in <= 0)
        return sendable_disable(p);
    assert(p->open);
    *put = (size_t)in;
    do {
        sent = call_splice(p->out, fd, *put);
    } while (sent == -EINTR);
    if (sent == -EINVAL)
        sent = -ENOSYS;
    if (!throw_away(p, *put - (sent > 0 ? (size_t)sent : 0)))
        close_pipe(p); /* a new one is opened later */
    assert(sent <= in);
    return sent == -ENOSYS ? sendable_disable(p) : sent;
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
            return took; /* the socket is full */
        for (at += put; count > 0 && at >= iov->iov_len; count--)
            at -= iov++->iov_len;
    }
    return took;
}
