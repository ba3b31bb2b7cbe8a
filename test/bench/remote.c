/* remote: an S3 server that is far away and costs little: every object has SIZE bytes, every answer waits LATENCY_MS,
 * every stream is held to MIB_S. What the cold GETs of the bench read from, through us and directly.
 *
 *     remote PORT SIZE LATENCY_MS MIB_S [KEYS]      (MIB_S 0: no limit) serves until it is killed
 *
 * Any path of two parts and more is an object (GET with and without "Range: bytes=A-" or "A-B", HEAD); a path of one part is a
 * bucket (HEAD, and GET lists, in both ways to go on: below whatever prefix is asked for stand KEYS keys, nine digits each, none if not said). Names and signatures are not looked at. One thread; two queues in time's
 * order: answers that wait for the latency, and streams that wait for their next piece.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "listen.h"

enum {
    CONNS_MAX = 4096,
    IN = 8192,
    PIECE = 128 * 1024,
    PAGE_KEYS = 1000,
    PAGE_ROOM = 512 * PAGE_KEYS
};

struct conn {
    char in[IN];
    size_t have;
    char head[512];
    size_t head_len, head_at;
    const char *from;   /* the body's bytes */
    char *page;         /* owned; of a listing, NULL before the first */
    uint64_t at, end;   /* of the body */
    uint64_t due_ns;    /* the head, or the next piece */
    uint64_t allowed;   /* bytes up to here may go */
    struct conn *next;  /* in a queue */
    bool busy, blocked; /* a request is on its way; the socket is full */
    bool gone;
    int fd;
};

struct queue {
    struct conn *first, **last;
};

static struct conn *conns[CONNS_MAX];
static struct queue waits = {.last = &waits.first}, paced = {.last = &paced.first};
static uint64_t size, latency_ns, piece_ns, key_count;
static char *body, etag[40];
static int ep;

static uint64_t
now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void
die(const char *what)
{
    fprintf(stderr, "remote: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void
push(struct queue *q, struct conn *c, uint64_t due_ns)
{
    c->due_ns = due_ns;
    c->next = NULL;
    *q->last = c;
    q->last = &c->next;
}

static struct conn *
pop_due(struct queue *q, uint64_t now)
{
    struct conn *c = q->first;

    if (c == NULL || c->due_ns > now)
        return NULL;
    q->first = c->next;
    if (q->first == NULL)
        q->last = &q->first;
    return c;
}

/* ---- answers ---- */

/* "GET /bucket/key?query HTTP/1.1": is there something behind the bucket's slash? */
static bool
is_object(const char *in)
{
    const char *path = strchr(in, '/');
    size_t len = path != NULL ? strcspn(path + 1, " ?\r") : 0;
    const char *slash = path != NULL ? memchr(path + 1, '/', len) : NULL;

    return slash != NULL && slash + 1 < path + 1 + len;
}

static void
build_head(struct conn *c, const char *status, const char *type, uint64_t length,
           const char *more)
{
    int n = snprintf(
        c->head, sizeof c->head,
        "HTTP/1.1 %s\r\nServer: remote\r\nContent-Type: %s\r\n"
        "Content-Length: %llu\r\nLast-Modified: Sat, 21 Nov 2026 12:00:00 GMT\r\n"
        "%s\r\n",
        status, type, (unsigned long long)length, more);

    c->head_len = (size_t)n;
    c->head_at = 0;
}

static void
answer_object(struct conn *c, bool with_body)
{
    const char *range = strcasestr(c->in, "\r\nrange: bytes=");
    char *dash = NULL;
    uint64_t from =
        range != NULL ? strtoull(range + strlen("\r\nrange: bytes="), &dash, 10) : 0;
    uint64_t end = size;
    char more[200];
    int n = snprintf(more, sizeof more, "ETag: \"%s\"\r\nAccept-Ranges: bytes\r\n", etag);

    if (range != NULL && dash[0] == '-' && dash[1] >= '0' && dash[1] <= '9')
        end = strtoull(dash + 1, NULL, 10) + 1;
    if (end > size || end <= from)
        end = size;
    if (range != NULL && from < size) {
        snprintf(more + n, sizeof more - (size_t)n,
                 "Content-Range: bytes %llu-%llu/%llu\r\n", (unsigned long long)from,
                 (unsigned long long)end - 1, (unsigned long long)size);
    } else {
        from = 0;
        end = size;
    }
    build_head(c, from > 0 || range != NULL ? "206 Partial Content" : "200 OK",
               "application/octet-stream", end - from, more);
    c->from = body;
    c->at = from;
    c->end = with_body ? end : from;
}

/* The value of "&name=" or "?name=", its escapes undone, cut off at `room`. */
static void
parameter(const char *in, const char *name, char *out, size_t room)
{
    const char *end = strchr(in, '\r'), *at = in;
    size_t n = 0, len = strlen(name);

    do {
        at = strpbrk(at + 1, "?&\r");
    } while (at != NULL && at < end &&
             (strncmp(at + 1, name, len) != 0 || at[1 + len] != '='));
    for (at = at != NULL && at < end ? at + len + 2 : NULL;
         at != NULL && strchr("& \r", *at) == NULL && n + 1 < room; at++) {
        unsigned byte;

        if (*at == '%' && sscanf(at + 1, "%2x", &byte) == 1) {
            out[n++] = (char)byte;
            at += 2;
        } else {
            out[n++] = *at;
        }
    }
    out[n] = '\0';
}

static void
answer_list(struct conn *c, bool with_body)
{
    char prefix[512], after[600], max[16];
    uint64_t key, last;
    size_t n;

    if (c->page == NULL && (c->page = malloc(PAGE_ROOM)) == NULL)
        die("memory");
    parameter(c->in, "prefix", prefix, sizeof prefix);
    parameter(c->in, "max-keys", max, sizeof max);
    parameter(c->in, "continuation-token", after, sizeof after);
    if (after[0] == '\0')
        parameter(c->in, "start-after", after, sizeof after);
    n = strlen(prefix);
    key = strlen(after) > n ? strtoull(after + n, NULL, 10) + 1 : 0;
    last = key + (max[0] != '\0' ? strtoull(max, NULL, 10) : PAGE_KEYS);
    if (last > key + PAGE_KEYS)
        last = key + PAGE_KEYS;
    if (last > key_count)
        last = key_count > key ? key_count : key;
    n = (size_t)snprintf(
        c->page, PAGE_ROOM,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult><Name>far</Name>"
        "<Prefix>%s</Prefix><KeyCount>%llu</KeyCount><MaxKeys>1000</MaxKeys>"
        "<IsTruncated>%s</IsTruncated>",
        prefix, (unsigned long long)(last - key), last < key_count ? "true" : "false");
    if (last < key_count && last > 0)
        n += (size_t)snprintf(c->page + n, PAGE_ROOM - n,
                              "<NextContinuationToken>%s%09llu</NextContinuationToken>",
                              prefix, (unsigned long long)last - 1);
    for (; key < last && n < PAGE_ROOM - 1200; key++)
        n += (size_t)snprintf(
            c->page + n, PAGE_ROOM - n,
            "<Contents><Key>%s%09llu</Key><LastModified>2026-11-21T12:00:00.000Z"
            "</LastModified><ETag>&quot;%s&quot;</ETag><Size>%llu</Size>"
            "<StorageClass>STANDARD</StorageClass></Contents>",
            prefix, (unsigned long long)key, etag, (unsigned long long)size);
    n += (size_t)snprintf(c->page + n, PAGE_ROOM - n, "</ListBucketResult>");
    build_head(c, "200 OK", "application/xml", with_body ? n : 0, "");
    c->from = c->page;
    c->at = 0;
    c->end = with_body ? n : 0;
}

static void
take_request(struct conn *c)
{
    bool get = memcmp(c->in, "GET ", 4) == 0, object = is_object(c->in);

    if (object)
        answer_object(c, get);
    else
        answer_list(c, get);
    c->busy = true;
    c->have = 0;
    c->allowed = piece_ns == 0 ? UINT64_MAX : c->at;
    push(&waits, c, now_ns() + latency_ns);
}

static void
drop(struct conn *c)
{
    if (c->busy && !c->blocked) { /* it stands in a queue, which will find it gone */
        c->gone = true;
        return;
    }
    conns[c->fd] = NULL;
    close(c->fd);
    free(c->page);
    free(c);
}

/* What may go now; false: the other end is gone. */
static bool
send_some(struct conn *c)
{
    c->blocked = false;
    while (c->head_at < c->head_len ||
           c->at < (c->end < c->allowed ? c->end : c->allowed)) {
        uint64_t to = c->end < c->allowed ? c->end : c->allowed;
        bool head = c->head_at < c->head_len;
        ssize_t n = head ? send(c->fd, c->head + c->head_at, c->head_len - c->head_at,
                                MSG_NOSIGNAL | (c->at < to ? MSG_MORE : 0))
                         : send(c->fd, c->from + c->at, to - c->at, MSG_NOSIGNAL);

        if (n < 0 && errno == EAGAIN) {
            c->blocked = true;
            return true;
        }
        if (n < 0)
            return false;
        if (head)
            c->head_at += (size_t)n;
        else
            c->at += (uint64_t)n;
    }
    return true;
}

static void
go_on(struct conn *c)
{
    if (c->gone || !send_some(c)) {
        c->busy = false;
        drop(c);
    } else if (!c->blocked && c->at == c->end) {
        c->busy = false;
    } else if (!c->blocked) {
        push(&paced, c, c->due_ns + piece_ns);
    }
}

/* ---- the loop ---- */

static void
on_readable(struct conn *c)
{
    ssize_t n = recv(c->fd, c->in + c->have, IN - 1 - c->have, 0);

    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0 || c->busy) {
        drop(c);
        return;
    }
    c->have += (size_t)n;
    c->in[c->have] = '\0';
    if (strstr(c->in, "\r\n\r\n") != NULL)
        take_request(c);
    else if (c->have == IN - 1)
        drop(c);
}

static void
on_listener(int lfd)
{
    int fd, one = 1;

    while ((fd = accept4(lfd, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.fd = fd};
        struct conn *c = calloc(1, sizeof *c);

        if (c == NULL || fd >= CONNS_MAX || epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e) != 0)
            die("accept");
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        c->fd = fd;
        conns[fd] = c;
    }
}

/* Until the next piece is due, to the microsecond: what it is late by is measured as latency. NULL: nothing is. */
static struct timespec *
wait_time(uint64_t now)
{
    static struct timespec out;
    uint64_t due = UINT64_MAX;

    if (waits.first != NULL)
        due = waits.first->due_ns;
    if (paced.first != NULL && paced.first->due_ns < due)
        due = paced.first->due_ns;
    if (due == UINT64_MAX)
        return NULL;
    due = due <= now ? 0 : due - now;
    out = (struct timespec){(time_t)(due / 1000000000), (long)(due % 1000000000)};
    return &out;
}

static void
run_due(void)
{
    uint64_t now = now_ns();
    struct conn *c;

    while ((c = pop_due(&waits, now)) != NULL) {
        if (piece_ns != 0)
            c->allowed = c->at + PIECE;
        go_on(c);
    }
    while ((c = pop_due(&paced, now)) != NULL) {
        c->allowed += PIECE;
        go_on(c);
    }
}

static void
serve(int lfd)
{
    static struct epoll_event events[256];
    struct epoll_event e = {.events = EPOLLIN, .data.fd = lfd};

    ep = epoll_create1(0);
    epoll_ctl(ep, EPOLL_CTL_ADD, lfd, &e);
    for (;;) {
        int count = epoll_pwait2(ep, events, 256, wait_time(now_ns()), NULL);

        for (int i = 0; i < count; i++) {
            struct conn *c = events[i].data.fd == lfd ? NULL : conns[events[i].data.fd];

            if (events[i].data.fd == lfd) {
                on_listener(lfd);
                continue;
            }
            if (c != NULL && (events[i].events & EPOLLOUT) != 0 && c->blocked)
                go_on(c);
            c = conns[events[i].data.fd];
            if (c != NULL && (events[i].events & EPOLLIN) != 0)
                on_readable(c);
        }
        run_due();
    }
}

static int
must_listen(uint16_t port)
{
    int fd = listen_on(port);

    if (fd < 0)
        die("listen");
    return fd;
}

static void
make_body(void)
{
    uint64_t seed = 88172645463325252u;
    unsigned char sum[DIGEST_MAX];

    body = malloc(size + 8);
    if (body == NULL)
        die("memory");
    for (size_t i = 0; i < size; i += 8) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        memcpy(body + i, &seed, 8);
    }
    hex_encode(sum, digest_oneshot(DIGEST_MD5, body, size, sum), etag);
}

int
main(int argc, char **argv)
{
    double mib_s;

    if (argc != 5 && argc != 6) {
        fprintf(stderr, "remote PORT SIZE LATENCY_MS MIB_S [KEYS]\n");
        return 2;
    }
    size = strtoull(argv[2], NULL, 10);
    latency_ns = strtoull(argv[3], NULL, 10) * 1000000;
    mib_s = strtod(argv[4], NULL);
    key_count = argc == 6 ? strtoull(argv[5], NULL, 10) : 0;
    piece_ns = mib_s > 0 ? (uint64_t)(PIECE / (mib_s * 1048576) * 1e9) : 0;
    make_body();
    prctl(PR_SET_TIMERSLACK, 1UL); /* ns */
    serve(must_listen((uint16_t)strtoul(argv[1], NULL, 10)));
    return 0;
}
