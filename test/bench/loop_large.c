/* loop_large: the least that a durable PUT of a large body costs, beside which ours are measured.
 *
 *     loop_large PORT SIZE FILE [md5]     takes bodies of SIZE, makes them durable, answers; prints "ready" when it listens
 *
 * A body is received straight into the buffer that goes to the disk. All that came while the group before was on its way go as
 * one write each (O_DIRECT, side by side in FILE, which is removed and was written full of zeros before) and one fdatasync for
 * all. One thread receives and answers, one writes. With md5 the bodies of a group are hashed in lanes first. No name, no record, no
 * block sums, no place of its own for a body: no server that answers when a body is durable does less. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>

#include "base/md5.h"
#include "listen.h"

enum {
    FDS_MAX = 4096,
    GROUP = 64,
    HEAD_ROOM = 4096,
    FILE_BYTES = 256 << 20,
    STEP = 4 << 20,
    TURN = 256 << 10 /* received of one before the next */
};

static struct putter {
    char *body;           /* aligned, body_len */
    char head[HEAD_ROOM]; /* with the first bytes of the body */
    size_t head_len;
    size_t got;  /* of the body */
    int in_body; /* its head is over */
    int waits;   /* in a group: nothing more is read */
    int left;    /* the client has gone meanwhile */
    struct md5 md5;
} * putters[FDS_MAX];
static struct group {
    int fds[GROUP];
    int count;
} groups[2];
static size_t body_len;
static int file, synced_fd, hashes;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t handed_in = PTHREAD_COND_INITIALIZER;
static struct group *on_its_way; /* holding the mutex */

static void
die(const char *what)
{
    perror(what);
    exit(1);
}

static char *
aligned(size_t len)
{
    char *at;

    if (posix_memalign((void **)&at, 4096, len) != 0)
        die("memory");
    memset(at, 0, len);
    return at;
}

static void
open_file(const char *path)
{
    char *zeros = aligned(STEP);

    file = open(path, O_CREAT | O_EXCL | O_RDWR | O_DIRECT, 0600);
    if (file < 0 || unlink(path) != 0)
        die(path);
    for (off_t at = 0; at < FILE_BYTES; at += STEP)
        if (pwrite(file, zeros, STEP, at) != STEP)
            die(path);
    if (fsync(file) != 0)
        die(path);
    free(zeros);
}

static void
write_group(const struct group *g, off_t at)
{
    struct iovec parts[GROUP];
    size_t len = (size_t)g->count * body_len;

    for (int i = 0; i < g->count; i++)
        parts[i] = (struct iovec){putters[g->fds[i]]->body, body_len};
    if (pwritev(file, parts, g->count, at) != (ssize_t)len || fdatasync(file) != 0)
        die("the file");
}

static void *
write_groups(void *unused)
{
    off_t at = 0;

    (void)unused;
    for (;;) {
        struct group *g;
        uint64_t one = 1;

        pthread_mutex_lock(&mutex);
        while (on_its_way == NULL)
            pthread_cond_wait(&handed_in, &mutex);
        g = on_its_way;
        pthread_mutex_unlock(&mutex);
        if (at + (off_t)((size_t)g->count * body_len) > FILE_BYTES)
            at = 0;
        write_group(g, at);
        at += (off_t)((size_t)g->count * body_len);
        pthread_mutex_lock(&mutex);
        on_its_way = NULL;
        pthread_mutex_unlock(&mutex);
        if (write(synced_fd, &one, sizeof one) != sizeof one)
            die("eventfd");
    }
    return NULL;
}

/* In lanes, 64 KiB of each at a time. */
static void
hash_group(const struct group *g)
{
    static struct md5_job jobs[GROUP];
    size_t slice = 64 << 10;

    for (size_t at = 0; at < body_len; at += slice) {
        for (int i = 0; i < g->count; i++) {
            struct putter *p = putters[g->fds[i]];
            size_t len = body_len - at < slice ? body_len - at : slice;

            if (at == 0)
                md5_init(&p->md5);
            jobs[i] = (struct md5_job){.next = i + 1 < g->count ? &jobs[i + 1] : NULL,
                                       .md5 = &p->md5,
                                       .data = (unsigned char *)p->body + at,
                                       .len = len};
        }
        md5_run(jobs);
    }
}

static ssize_t
receive(int fd, struct putter *p)
{
    size_t room = body_len - p->got;

    if (p->in_body)
        return recv(fd, p->body + p->got, room < TURN ? room : TURN, 0);
    return recv(fd, p->head + p->head_len, HEAD_ROOM - p->head_len, 0);
}

/* What came. 0: the client has left, or sends what is no request. */
static int
take(int fd, struct group *g)
{
    struct putter *p = putters[fd];
    ssize_t n = p->waits ? 0 : receive(fd, p);
    char *end;

    if (n < 0 && errno == EAGAIN)
        return 1;
    if (n <= 0)
        return 0;
    if (p->in_body) {
        p->got += (size_t)n;
    } else {
        p->head_len += (size_t)n;
        end = memmem(p->head, p->head_len, "\r\n\r\n", 4);
        if (end == NULL)
            return p->head_len < HEAD_ROOM;
        p->in_body = 1;
        p->got = p->head_len - (size_t)(end + 4 - p->head);
        if (p->got > body_len)
            return 0;
        memcpy(p->body, end + 4, p->got);
    }
    if (p->got < body_len)
        return 1;
    if (g->count == GROUP)
        die("too many requests at once");
    g->fds[g->count++] = fd;
    p->waits = 1;
    return 1;
}

static void
answer(struct group *g)
{
    static const char text[] =
        "HTTP/1.1 200 OK\r\nServer: loop\r\nContent-Length: 0\r\n\r\n";

    for (int i = 0; i < g->count; i++) {
        struct putter *p = putters[g->fds[i]];

        p->waits = p->in_body = 0;
        p->head_len = p->got = 0;
        if (p->left)
            close(g->fds[i]);
        else if (send(g->fds[i], text, sizeof text - 1, MSG_NOSIGNAL) < 0 &&
                 errno != EPIPE && errno != ECONNRESET)
            die("send");
    }
    g->count = 0;
}

static void
leave(int ep, int fd)
{
    epoll_ctl(ep, EPOLL_CTL_DEL, fd, NULL);
    putters[fd]->left = 1;
    if (!putters[fd]->waits)
        close(fd);
}

static void
welcome(int ep, int lfd)
{
    struct epoll_event e = {.events = EPOLLIN};
    int fd;

    while ((fd = accept4(lfd, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        char *body;

        if (fd >= FDS_MAX)
            die("too many connections");
        if (putters[fd] == NULL) {
            putters[fd] = calloc(1, sizeof *putters[fd]);
            if (putters[fd] == NULL)
                die("memory");
            putters[fd]->body = aligned(body_len);
        }
        body = putters[fd]->body;
        *putters[fd] = (struct putter){.body = body};
        e.data.fd = fd;
        epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
    }
}

static void
serve(int lfd)
{
    static struct epoll_event events[256];
    struct group *filled = &groups[0], *other = &groups[1];
    int ep = epoll_create1(0), busy = 0;
    struct epoll_event e = {.events = EPOLLIN, .data.fd = lfd};

    epoll_ctl(ep, EPOLL_CTL_ADD, lfd, &e);
    e.data.fd = synced_fd;
    epoll_ctl(ep, EPOLL_CTL_ADD, synced_fd, &e);
    for (;;) {
        int count = epoll_wait(ep, events, 256, -1);

        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd;
            uint64_t told;

            if (fd == synced_fd && read(fd, &told, sizeof told) == sizeof told) {
                answer(other);
                busy = 0;
            } else if (fd == lfd) {
                welcome(ep, lfd);
            } else if (!take(fd, filled)) {
                leave(ep, fd);
            }
        }
        if (!busy && filled->count > 0) {
            struct group *now = filled;

            filled = other;
            other = now;
            busy = 1;
            if (hashes)
                hash_group(now);
            pthread_mutex_lock(&mutex);
            on_its_way = now;
            pthread_cond_signal(&handed_in);
            pthread_mutex_unlock(&mutex);
        }
    }
}

int
main(int argc, char **argv)
{
    pthread_t writer;
    int lfd;

    if (argc < 4) {
        fprintf(stderr, "loop_large PORT SIZE FILE [md5]\n");
        return 2;
    }
    body_len = strtoul(argv[2], NULL, 10);
    hashes = argc > 4 && strcmp(argv[4], "md5") == 0;
    if (body_len == 0 || body_len % 4096 != 0 || body_len > FILE_BYTES / GROUP) {
        fprintf(stderr, "loop_large: bodies are multiples of 4096 bytes, at most %d\n",
                FILE_BYTES / GROUP);
        return 2;
    }
    open_file(argv[3]);
    synced_fd = eventfd(0, EFD_NONBLOCK);
    lfd = listen_on((uint16_t)strtoul(argv[1], NULL, 10));
    if (lfd < 0)
        die("listen");
    if (pthread_create(&writer, NULL, write_groups, NULL) != 0)
        die("thread");
    printf("ready\n");
    fflush(stdout);
    serve(lfd);
    return 0;
}
