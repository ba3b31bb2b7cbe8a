/* loop_disk: the bare loop with a disk behind it: each request is answered by one O_DIRECT read at a random place of the files
 * given, a ready-made head before it, in one send. No parser, index, sum or log; the files and the memory are known to the
 * ring, requests come by multishot receive. What a server that looks up and verifies can come near to, not reach.
 *
 *     loop_disk PORT SIZE DEPTH LENGTH FILE...
 *
 * At most DEPTH reads of SIZE bytes (made a multiple of 4 KiB) within the first LENGTH bytes of a file at a time. Serves until
 * it is killed; prints "ready" when it listens. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "listen.h"

enum { PAGE = 4096, FDS_MAX = 65536, IN = 2048, IN_BUFFERS = 1024, BUFFERS = 512 };
enum { ACCEPT = 1, RECV, READ, SEND };

static struct io_uring ring;
static struct io_uring_buf_ring *in_ring;
static char *in_bytes;

static size_t size, block, head_len, stride;
static char head[256];
static char *bodies; /* BUFFERS of: a page that ends with the head, then the block */
static unsigned idle[BUFFERS], idle_count;
static unsigned file_count, depth, reads;
static uint64_t places, seed = 88172645463325252u;

static struct conn {
    unsigned owed;   /* requests without an answer */
    unsigned seen;   /* how much of the empty line the last bytes were */
    unsigned buffer; /* of the answer on its way, from 1 */
    size_t sent;
    int queued, closed;
} conns[FDS_MAX];
static int queue[FDS_MAX]; /* connections that wait for a read; a ring */
static unsigned queue_at, queue_count;

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
    return fd;
}

static uint64_t
random_number(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static struct io_uring_sqe *
sqe_for(void)
{
    struct io_uring_sqe *s = io_uring_get_sqe(&ring);

    if (s == NULL) {
        io_uring_submit(&ring);
        s = io_uring_get_sqe(&ring);
    }
    if (s == NULL)
        die("submission queue");
    return s;
}

static void
tag(struct io_uring_sqe *s, unsigned what, int fd)
{
    s->user_data = (uint64_t)what << 32 | (unsigned)fd;
}

static char *
body_of(unsigned buffer)
{
    return bodies + (size_t)(buffer - 1) * stride + PAGE;
}

static void
arm_recv(int fd)
{
    struct io_uring_sqe *s = sqe_for();

    io_uring_prep_recv_multishot(s, fd, NULL, 0, 0);
    s->flags |= IOSQE_BUFFER_SELECT;
    s->buf_group = 0;
    tag(s, RECV, fd);
}

/* ---- reads ---- */

static void
begin_reads(void)
{
    while (queue_count > 0 && reads < depth && idle_count > 0) {
        int fd = queue[queue_at];
        struct io_uring_sqe *s = sqe_for();

        queue_at = (queue_at + 1) % FDS_MAX;
        queue_count--;
        reads++;
        conns[fd].queued = 0;
        conns[fd].buffer = idle[--idle_count];
        io_uring_prep_read_fixed(s, (int)(random_number() % file_count),
                                 body_of(conns[fd].buffer), (unsigned)block,
                                 random_number() % places * PAGE, 0);
        s->flags |= IOSQE_FIXED_FILE;
        tag(s, READ, fd);
    }
}

static void
want_read(int fd)
{
    struct conn *c = &conns[fd];

    if (c->owed == 0 || c->buffer != 0 || c->queued || c->closed)
        return;
    c->queued = 1;
    queue[(queue_at + queue_count++) % FDS_MAX] = fd;
}

/* ---- answers ---- */

static void
answered(int fd)
{
    struct conn *c = &conns[fd];

    idle[idle_count++] = c->buffer;
    c->buffer = 0;
    c->sent = 0;
    if (c->owed > 0)
        c->owed--;
    if (c->closed)
        close(fd);
    else
        want_read(fd);
}

/* At once; what the socket does not take is the ring's. */
static void
answer(int fd)
{
    struct conn *c = &conns[fd];
    const char *at = body_of(c->buffer) - head_len + c->sent;
    size_t left = head_len + size - c->sent;
    ssize_t n =
        c->closed ? (ssize_t)left : send(fd, at, left, MSG_NOSIGNAL | MSG_DONTWAIT);
    struct io_uring_sqe *s;

    if (n == (ssize_t)left || (n < 0 && errno != EAGAIN)) {
        answered(fd);
        return;
    }
    c->sent += n > 0 ? (size_t)n : 0;
    s = sqe_for();
    io_uring_prep_send(s, fd, body_of(c->buffer) - head_len + c->sent,
                       head_len + size - c->sent, MSG_NOSIGNAL | MSG_WAITALL);
    tag(s, SEND, fd);
}

static void
on_sent(int fd, int n)
{
    struct conn *c = &conns[fd];

    c->sent += n > 0 ? (size_t)n : 0;
    if (n <= 0 || c->sent == head_len + size)
        answered(fd);
    else
        answer(fd);
}

/* ---- requests ---- */

static void
on_recv(int fd, const struct io_uring_cqe *cqe)
{
    struct conn *c = &conns[fd];
    unsigned id = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
    const char *in = in_bytes + (size_t)id * IN;

    if (cqe->res == -ENOBUFS) {
        arm_recv(fd);
        return;
    }
    if (cqe->res <= 0) {
        c->closed = 1;
        if (c->buffer == 0 && !c->queued)
            close(fd);
        return;
    }
    for (int i = 0; i < cqe->res; i++) {
        c->seen = in[i] == "\r\n\r\n"[c->seen] ? c->seen + 1 : in[i] == '\r';
        if (c->seen == 4) {
            c->owed++;
            c->seen = 0;
        }
    }
    io_uring_buf_ring_add(in_ring, in_bytes + (size_t)id * IN, IN, (unsigned short)id,
                          IN_BUFFERS - 1, 0);
    io_uring_buf_ring_advance(in_ring, 1);
    if ((cqe->flags & IORING_CQE_F_MORE) == 0)
        arm_recv(fd);
    want_read(fd);
}

static void
arm_accept(int lfd)
{
    struct io_uring_sqe *s = sqe_for();

    io_uring_prep_multishot_accept(s, lfd, NULL, NULL, 0);
    tag(s, ACCEPT, lfd);
}

static void
on_accept(int fd)
{
    if (fd >= FDS_MAX)
        die("too many connections");
    if (fd >= 0) {
        conns[fd] = (struct conn){0};
        arm_recv(fd);
    }
}

static void
serve(int lfd)
{
    arm_accept(lfd);
    for (;;) {
        struct io_uring_cqe *cqe;
        unsigned at, count = 0;

        begin_reads();
        io_uring_submit_and_wait(&ring, 1);
        io_uring_for_each_cqe(&ring, at, cqe)
        {
            int fd = (int)(uint32_t)cqe->user_data;

            count++;
            switch (cqe->user_data >> 32) {
            case ACCEPT:
                on_accept(cqe->res);
                break;
            case RECV:
                on_recv(fd, cqe);
                break;
            case READ:
                if (cqe->res != (int)block) {
                    fprintf(stderr, "a read of %zu bytes: %d\n", block, cqe->res);
                    exit(1);
                }
                reads--;
                answer(fd);
                break;
            case SEND:
                on_sent(fd, cqe->res);
                break;
            }
        }
        io_uring_cq_advance(&ring, count);
    }
}

/* ---- setting up ---- */

static void
open_ring(void)
{
    struct io_uring_params p = {.flags = IORING_SETUP_SINGLE_ISSUER |
                                         IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE,
                                .cq_entries = 16384};
    struct io_uring_buf_reg reg = {.ring_entries = IN_BUFFERS};

    in_bytes = malloc((size_t)IN_BUFFERS * IN);
    if (io_uring_queue_init_params(4096, &ring, &p) != 0 || in_bytes == NULL ||
        posix_memalign((void **)&in_ring, PAGE,
                       IN_BUFFERS * sizeof(struct io_uring_buf)) != 0)
        die("io_uring");
    reg.ring_addr = (uint64_t)(uintptr_t)in_ring;
    if (io_uring_register_buf_ring(&ring, &reg, 0) != 0)
        die("buffer ring");
    io_uring_buf_ring_init(in_ring);
    for (int i = 0; i < IN_BUFFERS; i++)
        io_uring_buf_ring_add(in_ring, in_bytes + (size_t)i * IN, IN, (unsigned short)i,
                              IN_BUFFERS - 1, i);
    io_uring_buf_ring_advance(in_ring, IN_BUFFERS);
}

static void
make_bodies(void)
{
    struct iovec all;

    stride = PAGE + block;
    if (posix_memalign((void **)&bodies, PAGE, BUFFERS * stride) != 0)
        die("memory");
    memset(bodies, 0, BUFFERS * stride);
    for (unsigned i = BUFFERS; i > 0; i--) {
        idle[idle_count++] = i;
        memcpy(body_of(i) - head_len, head, head_len);
    }
    all = (struct iovec){bodies, BUFFERS * stride};
    if (io_uring_register_buffers(&ring, &all, 1) != 0)
        die("registering memory (ulimit -l)");
}

static void
open_files(char **names)
{
    int *fds = malloc(file_count * sizeof *fds);

    for (unsigned i = 0; fds != NULL && i < file_count; i++) {
        fds[i] = open(names[i], O_RDONLY | O_DIRECT);
        if (fds[i] < 0)
            die(names[i]);
    }
    if (fds == NULL || io_uring_register_files(&ring, fds, file_count) != 0)
        die("registering files");
    free(fds);
}

int
main(int argc, char **argv)
{
    uint64_t length;
    int lfd;

    if (argc < 6) {
        fprintf(stderr, "loop_disk PORT SIZE DEPTH LENGTH FILE...\n");
        return 2;
    }
    size = strtoul(argv[2], NULL, 10);
    block = (size + PAGE - 1) / PAGE * PAGE;
    depth = (unsigned)strtoul(argv[3], NULL, 10);
    length = strtoull(argv[4], NULL, 10);
    if (size == 0 || depth == 0 || length < block) {
        fprintf(stderr,
                "loop_disk: LENGTH must hold a read of SIZE, DEPTH be at least 1\n");
        return 2;
    }
    places = (length - block) / PAGE + 1;
    file_count = (unsigned)argc - 5;
    head_len = (size_t)snprintf(
        head, sizeof head,
        "HTTP/1.1 200 OK\r\nDate: Sat, 21 Nov 2026 15:16:00 GMT\r\nServer: loop\r\n"
        "Content-Type: application/octet-stream\r\nContent-Length: %zu\r\n\r\n",
        size);
    open_ring();
    make_bodies();
    open_files(argv + 5);
    lfd = must_listen((uint16_t)strtoul(argv[1], NULL, 10));
    printf("ready\n");
    fflush(stdout);
    serve(lfd);
    return 0;
}
