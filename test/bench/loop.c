/* loop: the bare loop that other servers are measured against: ready-made answers of
 * one size to whatever ends with an empty line; no parser, index, check or log. One
 * thread, keep-alive and pipelining, nothing else.
 *
 *     loop PORT SIZE [epoll|uring [COUNT]]    serves until it is killed; prints "ready" when it listens. COUNT (1) answers that lie
 *                                         apart, by chance: one alone stays in the cache, which the objects of a store do not
 *     loop PORT SIZE epoll COUNT splice   the same, each body by reference: vmsplice() and splice(), from huge pages
 *     loop PORT SIZE put FILE             the other way round: takes bodies of SIZE, makes them durable, answers without one
 *
 * What is put is written to FILE, which is removed and was written full of zeros before: all bodies that came while the
 * batch before was in transit to the disk go as one write and one fdatasync. No hash, no name, no record: no server that
 * answers a PUT when it is durable is faster on the same core and disk. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "listen.h"

enum { FDS_MAX = 65536, IN = 8192, BUFFERS = 1024 };

static char *answer; /* answer_count of them */
static size_t answer_len, answer_count = 1;
static struct conn {
    const char *answer;
    size_t owed;   /* bytes of answers to send */
    size_t at;     /* in the answer that is on its way */
    unsigned seen; /* how much of the empty line the last bytes were */
    int sending;   /* uring: a send is in flight */
    int closed;
} conns[FDS_MAX];

static void
die(const char *what)
{
    perror(what);
    exit(1);
}

static int
must_listen(uint16_t port)
{
    int fd = listen_on(port);

    if (fd < 0)
        die("listen");
    printf("ready\n");
    fflush(stdout);
    return fd;
}

/* Of the answers, by chance, as objects are asked for: in order the CPU would know which page comes next. */
static size_t
which(void)
{
    static uint64_t seed = 88172645463325252u;

    if (answer_count == 1)
        return 0;
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % answer_count;
}

/* What is to be sent, and how far it is. */
static const char *
answer_of(struct conn *c)
{
    if (c->answer == NULL)
        c->answer = answer + which() * answer_len;
    return c->answer + c->at;
}

static void
was_sent(struct conn *c, size_t n)
{
    c->at = (c->at + n) % answer_len;
    if (c->at == 0)
        c->answer = NULL;
}

/* Counts heads by their empty lines, which may come in pieces. */
static void
take(struct conn *c, const char *in, size_t len)
{
    const char *end = in + len;

    if (c->seen == 0 && len >= 4 && memcmp(end - 4, "\r\n\r\n", 4) == 0 &&
        memmem(in, len - 4, "\r\n\r\n", 4) == NULL) { /* the usual: one whole head */
        c->owed += answer_len;
        return;
    }
    for (; in < end; in++) {
        c->seen = *in == "\r\n\r\n"[c->seen] ? c->seen + 1 : *in == '\r';
        if (c->seen == 4) {
            c->owed += answer_len;
            c->seen = 0;
        }
    }
}

/* ---- answers by reference: a head that is copied, and pages that the socket is given ---- */

enum { PAGE = 4096, HUGE_PAGE = 2 << 20, PIPE = 1 << 20 };

static struct {
    const char *head;
    size_t head_len, body_len;
    char *
        bodies; /* NULL: answers are copied; answer_count of them, `apart` from each other */
    size_t apart;
    int in, out,
        nowhere; /* a pipe, empty between two calls, and where what a socket did not take goes */
} by_ref;

static void
refer(const char *head, size_t head_len, size_t size)
{
    size_t all;
    int fds[2];

    if (size == 0 || size > PIPE) {
        fprintf(stderr, "loop: bodies by reference have 1 to %d bytes, not %zu\n", PIPE,
                size);
        exit(2);
    }
    by_ref.head = head;
    by_ref.head_len = head_len;
    by_ref.body_len = size;
    by_ref.apart = (size + PAGE - 1) / PAGE * PAGE;
    all = (answer_count * by_ref.apart + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    by_ref.bodies = aligned_alloc(HUGE_PAGE, all);
    if (by_ref.bodies == NULL)
        die("memory");
    (void)madvise(by_ref.bodies, all, MADV_HUGEPAGE); /* small pages will do */
    memset(by_ref.bodies, 'x', all);
    by_ref.nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0 || by_ref.nowhere < 0 ||
        fcntl(fds[1], F_SETPIPE_SZ, PIPE) < 0)
        die("pipe");
    by_ref.out = fds[0];
    by_ref.in = fds[1];
}

static ssize_t
send_referred(int fd, struct conn *c)
{
    size_t at = c->at < by_ref.head_len ? 0 : c->at - by_ref.head_len;
    struct iovec v;
    ssize_t put, sent;
    int why;

    if (c->answer == NULL)
        c->answer = by_ref.bodies + which() * by_ref.apart;
    if (c->at < by_ref.head_len)
        return send(fd, by_ref.head + c->at, by_ref.head_len - c->at,
                    MSG_NOSIGNAL | MSG_MORE);
    v = (struct iovec){(char *)(uintptr_t)c->answer + at, by_ref.body_len - at};
    put = vmsplice(by_ref.in, &v, 1, SPLICE_F_NONBLOCK);
    if (put <= 0)
        die("vmsplice");
    sent = splice(by_ref.out, NULL, fd, NULL, (size_t)put, SPLICE_F_NONBLOCK);
    why = errno;
    for (ssize_t left = put - (sent > 0 ? sent : 0), n; left > 0; left -= n) {
        n = splice(by_ref.out, NULL, by_ref.nowhere, NULL, (size_t)left,
                   SPLICE_F_NONBLOCK);
        if (n <= 0)
            die("emptying the pipe");
    }
    errno = why;
    return sent;
}

/* ---- epoll ---- */

static ssize_t
send_deferred(int fd, struct conn *c)
{
    return by_ref.bodies != NULL
               ? send_referred(fd, c)
               : send(fd, answer_of(c), answer_len - c->at, MSG_NOSIGNAL);
}

static void
flush_owed(int ep, int fd)
{
    struct conn *c = &conns[fd];

    while (c->owed > 0) {
        ssize_t n = send_deferred(fd, c);

        if (n < 0) {
            struct epoll_event e = {.events = EPOLLIN | EPOLLOUT, .data.fd = fd};

            if (errno != EAGAIN)
                c->owed = 0;
            else if (c->sending++ == 0)
                epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e);
            return;
        }
        was_sent(c, (size_t)n);
        c->owed -= (size_t)n;
    }
    if (c->sending != 0) {
        struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};

        c->sending = 0;
        epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e);
    }
}

static void
serve_epoll(int lfd)
{
    static struct epoll_event events[256];
    static char in[IN];
    int ep = epoll_create1(0);
    struct epoll_event e = {.events = EPOLLIN, .data.fd = lfd};

    epoll_ctl(ep, EPOLL_CTL_ADD, lfd, &e);
    for (;;) {
        int count = epoll_wait(ep, events, 256, -1);

        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd;
            ssize_t n;

            if (fd == lfd) {
                while ((fd = accept4(lfd, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
                    if (fd >= FDS_MAX)
                        die("too many connections");
                    conns[fd] = (struct conn){0};
                    e = (struct epoll_event){.events = EPOLLIN, .data.fd = fd};
                    epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
                }
                continue;
            }
            if ((events[i].events & ~(uint32_t)EPOLLOUT) != 0) {
                n = recv(fd, in, sizeof in, 0);
                if (n == 0 || (n < 0 && errno != EAGAIN)) {
                    close(fd);
                    continue;
                }
                if (n > 0)
                    take(&conns[fd], in, (size_t)n);
            }
            flush_owed(ep, fd);
        }
    }
}

/* ---- io_uring, multishot receive into a ring of buffers ---- */

static struct io_uring ring;
enum { ACCEPT = 1, RECV, SEND };

static struct io_uring_sqe *
sqe_for(unsigned what, int fd)
{
    struct io_uring_sqe *s = io_uring_get_sqe(&ring);

    if (s == NULL) {
        io_uring_submit(&ring);
        s = io_uring_get_sqe(&ring);
    }
    if (s == NULL)
        die("submission queue");
    s->user_data = (uint64_t)what << 32 | (unsigned)fd;
    return s;
}

static void
arm_recv(int fd)
{
    struct io_uring_sqe *s = sqe_for(RECV, fd);
    uint64_t tag = s->user_data;

    io_uring_prep_recv_multishot(s, fd, NULL, 0, 0);
    s->flags |= IOSQE_BUFFER_SELECT;
    s->buf_group = 0;
    s->user_data = tag;
}

static void
arm_send(int fd)
{
    struct conn *c = &conns[fd];

    if (c->owed > 0 && !c->sending) {
        struct io_uring_sqe *s = sqe_for(SEND, fd);
        uint64_t tag = s->user_data;

        io_uring_prep_send(s, fd, answer_of(c), answer_len - c->at,
                           MSG_NOSIGNAL | MSG_WAITALL);
        s->user_data = tag;
        c->sending = 1;
    }
}

static void
maybe_close(int fd)
{
    if (conns[fd].closed && !conns[fd].sending)
        close(fd);
}

static void
serve_uring(int lfd)
{
    struct io_uring_params p = {.flags = IORING_SETUP_SINGLE_ISSUER |
                                         IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE,
                                .cq_entries = 16384};
    struct io_uring_buf_ring *br = NULL;
    struct io_uring_buf_reg reg = {.ring_entries = BUFFERS};
    char *buffers = malloc((size_t)BUFFERS * IN);
    struct io_uring_sqe *s;

    if (io_uring_queue_init_params(4096, &ring, &p) != 0 ||
        posix_memalign((void **)&br, 4096, BUFFERS * sizeof(struct io_uring_buf)) != 0)
        die("io_uring");
    reg.ring_addr = (uint64_t)(uintptr_t)br;
    if (io_uring_register_buf_ring(&ring, &reg, 0) != 0)
        die("buffer ring");
    io_uring_buf_ring_init(br);
    for (int i = 0; i < BUFFERS; i++)
        io_uring_buf_ring_add(br, buffers + (size_t)i * IN, IN, (unsigned short)i,
                              BUFFERS - 1, i);
    io_uring_buf_ring_advance(br, BUFFERS);
    s = sqe_for(ACCEPT, lfd);
    io_uring_prep_multishot_accept(s, lfd, NULL, NULL, 0);
    s->user_data = (uint64_t)ACCEPT << 32 | (unsigned)lfd;
    for (;;) {
        struct io_uring_cqe *cqe;
        unsigned head, count = 0;

        io_uring_submit_and_wait(&ring, 1);
        io_uring_for_each_cqe(&ring, head, cqe)
        {
            unsigned what = (unsigned)(cqe->user_data >> 32);
            int fd = (int)(uint32_t)cqe->user_data, n = cqe->res;

            count++;
            if (what == ACCEPT && n >= 0) {
                conns[n] = (struct conn){0};
                arm_recv(n);
            } else if (what == RECV && n > 0) {
                unsigned id = cqe->flags >> IORING_CQE_BUFFER_SHIFT;

                take(&conns[fd], buffers + (size_t)id * IN, (size_t)n);
                io_uring_buf_ring_add(br, buffers + (size_t)id * IN, IN,
                                      (unsigned short)id, BUFFERS - 1, 0);
                io_uring_buf_ring_advance(br, 1);
                if ((cqe->flags & IORING_CQE_F_MORE) == 0)
                    arm_recv(fd);
                arm_send(fd);
            } else if (what == RECV && n == -ENOBUFS) {
                arm_recv(fd);
            } else if (what == RECV) {
                conns[fd].closed = 1;
                maybe_close(fd);
            } else if (what == SEND) {
                struct conn *c = &conns[fd];

                c->sending = 0;
                c->owed = n > 0 ? c->owed - (size_t)n : 0;
                if (n > 0)
                    was_sent(c, (size_t)n);
                else
                    c->at = 0;
                arm_send(fd);
                maybe_close(fd);
            }
        }
        io_uring_cq_advance(&ring, count);
    }
}

/* ---- PUTs: epoll, and a thread that syncs ---- */

enum { GROUP = 1024, FILE_BYTES = 256 << 20, HEAD_ROOM = 4096 };

/* One is filled while the other is on its way to the disk. */
static struct group {
    char *bodies; /* aligned */
    int fds[GROUP];
    unsigned count;
} groups[2];
static struct putter {
    char *in; /* HEAD_ROOM + body_len: a request as it comes */
    size_t have;
    int waits; /* its body is in a group */
    int left;  /* the client has gone meanwhile */
} putters[FDS_MAX];
static size_t body_len;
static int file, synced_fd;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t handed_in = PTHREAD_COND_INITIALIZER;
static struct group *on_its_way; /* holding the mutex */

static void
open_file(const char *path)
{
    size_t step = 4 << 20;
    char *zeros = NULL;

    file = open(path, O_CREAT | O_EXCL | O_RDWR | O_DIRECT, 0600);
    if (file < 0 || unlink(path) != 0 || posix_memalign((void **)&zeros, 4096, step) != 0)
        die(path);
    memset(zeros, 0, step);
    for (off_t at = 0; at < FILE_BYTES; at += (off_t)step)
        if (pwrite(file, zeros, step, at) != (ssize_t)step)
            die(path);
    if (fsync(file) != 0)
        die(path);
    free(zeros);
}

static void *
sync_groups(void *unused)
{
    off_t at = 0;

    (void)unused;
    for (;;) {
        struct group *g;
        uint64_t one = 1;
        size_t len;

        pthread_mutex_lock(&mutex);
        while (on_its_way == NULL)
            pthread_cond_wait(&handed_in, &mutex);
        g = on_its_way;
        pthread_mutex_unlock(&mutex);
        len = g->count * body_len;
        if (at + (off_t)len > FILE_BYTES)
            at = 0;
        if (pwrite(file, g->bodies, len, at) != (ssize_t)len || fdatasync(file) != 0)
            die("the file");
        at += (off_t)len;
        pthread_mutex_lock(&mutex);
        on_its_way = NULL;
        pthread_mutex_unlock(&mutex);
        if (write(synced_fd, &one, sizeof one) != sizeof one)
            die("eventfd");
    }
    return NULL;
}

/* A request that is whole goes into the group. False: the client has left. */
static int
take_put(int fd, struct group *g)
{
    struct putter *p = &putters[fd];
    char *end;
    ssize_t n = recv(fd, p->in + p->have, HEAD_ROOM + body_len - p->have, 0);

    if (n == 0 || (n < 0 && errno != EAGAIN))
        return 0;
    if (n < 0)
        return 1;
    p->have += (size_t)n;
    end = memmem(p->in, p->have, "\r\n\r\n", 4);
    if (end == NULL || p->have < (size_t)(end + 4 - p->in) + body_len)
        return 1;
    if (g->count == GROUP)
        die("too many requests at once");
    memcpy(g->bodies + g->count * body_len, end + 4, body_len);
    g->fds[g->count++] = fd;
    p->waits = 1;
    p->have = 0;
    return 1;
}

static void
answer_puts(struct group *g)
{
    for (unsigned i = 0; i < g->count; i++) {
        struct putter *p = &putters[g->fds[i]];

        p->waits = 0;
        if (p->left)
            close(g->fds[i]);
        else if (send(g->fds[i], answer, answer_len, MSG_NOSIGNAL) < 0 &&
                 errno != EPIPE && errno != ECONNRESET)
            die("send");
    }
    g->count = 0;
}

static void
leave(int ep, int fd)
{
    epoll_ctl(ep, EPOLL_CTL_DEL, fd, NULL);
    if (putters[fd].waits)
        putters[fd].left = 1;
    else
        close(fd);
}

static void
serve_puts(int lfd, const char *path)
{
    static struct epoll_event events[256];
    int ep = epoll_create1(0), fd;
    struct epoll_event e = {.events = EPOLLIN, .data.fd = lfd};
    struct group *filled = &groups[0], *other = &groups[1];
    int busy = 0;
    pthread_t syncer;

    if (body_len == 0 || body_len % 4096 != 0)
        die("bodies must be multiples of 4096 bytes");
    open_file(path);
    synced_fd = eventfd(0, EFD_NONBLOCK);
    for (int i = 0; i < 2; i++)
        if (posix_memalign((void **)&groups[i].bodies, 4096, GROUP * body_len) != 0)
            die("memory");
    if (pthread_create(&syncer, NULL, sync_groups, NULL) != 0)
        die("thread");
    epoll_ctl(ep, EPOLL_CTL_ADD, lfd, &e);
    e.data.fd = synced_fd;
    epoll_ctl(ep, EPOLL_CTL_ADD, synced_fd, &e);
    for (;;) {
        int count = epoll_wait(ep, events, 256, -1);

        for (int i = 0; i < count; i++) {
            uint64_t told;

            fd = events[i].data.fd;
            if (fd == synced_fd && read(fd, &told, sizeof told) == sizeof told) {
                answer_puts(other);
                busy = 0;
            } else if (fd == lfd) {
                while ((fd = accept4(lfd, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
                    if (putters[fd].in == NULL)
                        putters[fd].in = malloc(HEAD_ROOM + body_len);
                    putters[fd] = (struct putter){.in = putters[fd].in};
                    e.data.fd = fd;
                    epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
                }
            } else if (!take_put(fd, filled)) {
                leave(ep, fd);
            }
        }
        if (!busy && filled->count > 0) {
            struct group *now = filled;

            filled = other;
            other = now;
            busy = 1;
            pthread_mutex_lock(&mutex);
            on_its_way = now;
            pthread_cond_signal(&handed_in);
            pthread_mutex_unlock(&mutex);
        }
    }
}

static void
fill(const char *head, size_t head_len, size_t size)
{
    answer = calloc(answer_count, answer_len);
    if (answer == NULL)
        die("memory");
    for (size_t i = 0; i < answer_count; i++) {
        memcpy(answer + i * answer_len, head, head_len);
        memset(answer + i * answer_len + head_len, 'x', size);
    }
}

int
main(int argc, char **argv)
{
    int puts = argc > 4 && strcmp(argv[3], "put") == 0;
    size_t size = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    char head[256];
    int head_len, lfd;

    if (argc < 3) {
        fprintf(stderr, "loop PORT SIZE [epoll|uring [COUNT [splice]]|put FILE]\n");
        return 2;
    }
    if (puts) {
        body_len = size;
        size = 0;
    }
    head_len = snprintf(
        head, sizeof head,
        "HTTP/1.1 200 OK\r\nDate: Sat, 21 Nov 2026 15:16:00 GMT\r\nServer: loop\r\n"
        "Content-Type: application/octet-stream\r\nContent-Length: %zu\r\n\r\n",
        size);
    answer_len = (size_t)head_len + size;
    if (argc > 4 && !puts && strtoul(argv[4], NULL, 10) > 0)
        answer_count = strtoul(argv[4], NULL, 10);
    if (argc > 5 && strcmp(argv[3], "epoll") == 0 && strcmp(argv[5], "splice") == 0)
        refer(head, (size_t)head_len, size);
    else
        fill(head, (size_t)head_len, size);
    lfd = must_listen((uint16_t)strtoul(argv[1], NULL, 10));
    if (puts)
        serve_puts(lfd, argv[4]);
    else if (argc > 3 && strcmp(argv[3], "uring") == 0)
        serve_uring(lfd);
    else
        serve_epoll(lfd);
    return 0;
}
