/* httpload: a load generator that costs little, so that the server is what is measured. One thread, N keep-alive
 * connections, each with one request at a time; bodies are thrown away in the kernel (MSG_TRUNC). Every answer's
 * status and length are checked.
 *
 *     httpload [-c CONNS] [-d SECONDS] [-w WARMUP] [-r RATE] [-s SIZE] [-n COUNT] [-f FIRST] [-a PASSES]
 *              [-m METHOD] [-b BYTES] [-R] [-T] [-B] [-L] [-E FILE] [-P FILE] [-H 'Name: value']... [-p FILE] HOST PORT PATH
 *
 * PATH may hold one %u, which counts from -f FIRST (0) over -n COUNT numbers (in random order). -p reads paths, one
 * a line, instead; header lines of a path's own may stand behind it, each behind a tab (signatures). -a: each path in turn, PASSES times, and that is all: fills and warms caches, reads what is
 * cold once. -r: that many requests a second in all, and latencies count from when a request was due, so that a
 * stall is not hidden. -s: what Content-Length must be. -m, -b: PUT with a body of so many bytes. -R: bodies are
 * copied out, as a reader would who wants them; a server that sends pages by reference has nothing read otherwise.
 * -T: over TLS 1.3, whatever the certificate says; everything is decrypted, so -R makes no difference.
 * -B: the server may be busy: a 503 with Retry-After, and a connection that it closes, is counted as refused and no error;
 * who is refused comes again at once, on the same connection if that is kept.
 * -P: how many were answered so far, and how many of them wrongly, stand in the first two eight bytes of FILE, for who
 * stops this process and has it go on: what was asked before a stop has no latency then ("untimed" counts it), and SIGTERM
 * is the end of the run. It dies with its parent.
 * -L: all latencies too, as [us, how many]: those of several runs can be taken together.
 * -E, with a rate: of each request that was due while it counted, four points in time go to FILE, eight bytes each, in ns of
 * CLOCK_MONOTONIC: due, asked, head received, answered. At the end it waits for those that were due.
 *
 * Prints "begin" when it starts to count and one line of JSON at the end; exit 1 when anything was wrong.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum {
    CONNS_MAX = 4096,
    IN = 8192,
    SUB_BITS = 10, /* a bucket is a thousandth of its value wide */
    SUB = 1 << SUB_BITS,
    SEND_TURN = 256 << 10,
    TLS_TURN = 64 << 10,
    TRIES_BUSY = 1000,
    PATIENCE_S = 10 /* for what was due and has no answer yet */
};

/* Of one request, in ns. */
struct span {
    uint64_t due, asked, head, answered;
};

struct conn {
    int fd;
    SSL *ssl; /* NULL: in the clear */
    uint64_t due_ns;
    struct span span;
    uint64_t left; /* of a body */
    size_t have;   /* bytes of a head */
    bool busy, in_body;
    bool refusal, closes; /* of the answer whose body is read */
    struct iovec out[2];  /* what is left of a long request */
    size_t out_left;
    char in[IN];
};

static struct {
    unsigned conns, count, first, passes;
    double seconds, warmup, rate;
    long long size;
    size_t body;
    bool read, tls, busy, latencies;
    const char *host, *path, *file, *method, *progress, *each;
    uint16_t port;
    char headers[4096];
} opt = {.conns = 16, .seconds = 3, .warmup = 1, .size = -1, .count = 1, .method = "GET"};

static char **requests;
static size_t *request_lens;
static unsigned request_count;
static struct conn *conns;
static unsigned idle[CONNS_MAX], idle_count;
static uint64_t done, refused, errors, bytes, next_due, seed = 88172645463325252u;
static uint64_t *progress; /* of -P */
static uint64_t timed;     /* of those done: what stands in the histogram */
static _Atomic uint64_t stood_until_ns;
static volatile sig_atomic_t told_to_end;
static struct span *spans; /* of -E */
static size_t span_count, span_room;
static uint64_t counted_from,
    last_due = UINT64_MAX; /* none is asked that were due then or later */
static uint64_t histogram[64 * SUB], first_bytes[64 * SUB];
static uint64_t asked;  /* with passes */
static unsigned active; /* connections with a request on its way */
static char *body;
static bool measuring;
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
    fprintf(stderr, "httpload: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* ---- latencies: 64 buckets to each doubling, so within 1.6 % ---- */

static unsigned
bucket_of(uint64_t ns)
{
    unsigned top = 63u - (unsigned)__builtin_clzll(ns | SUB);

    return (top - SUB_BITS) * SUB + (unsigned)(ns >> (top - SUB_BITS));
}

/* Its middle. */
static double
bucket_us(unsigned i)
{
    unsigned shift = i < 2 * SUB ? 0 : i / SUB - 1;
    uint64_t low = i < 2 * SUB ? i : (uint64_t)(i % SUB + SUB) << shift;

    return ((double)low + (double)(1ull << shift) / 2) / 1000;
}

static double
quantile_us(const uint64_t *of, double q)
{
    uint64_t want = (uint64_t)(q * (double)timed), seen = 0;

    for (unsigned i = 0; i < 64 * SUB; i++) {
        seen += of[i];
        if (seen > want)
            return bucket_us(i);
    }
    return 0;
}

static void
print_latencies(void)
{
    const char *between = "";

    printf("\"latencies\":[");
    for (unsigned i = 0; i < 64 * SUB; i++) {
        if (histogram[i] == 0)
            continue;
        printf("%s[%.1f,%llu]", between, bucket_us(i), (unsigned long long)histogram[i]);
        between = ",";
    }
    printf("],");
}

/* ---- requests ---- */

/* `line`: a path, and headers of its own behind tabs. */
static void
add_request(const char *line)
{
    size_t path_len = strcspn(line, "\t");
    char *text, own[2048] = "";
    char length[64] = "";
    int n;

    for (const char *tab = line + path_len; *tab == '\t';
         tab += 1 + strcspn(tab + 1, "\t"))
        snprintf(own + strlen(own), sizeof own - strlen(own), "%.*s\r\n",
                 (int)strcspn(tab + 1, "\t"), tab + 1);

    if (opt.body > 0)
        snprintf(length, sizeof length, "Content-Length: %zu\r\n", opt.body);
    n = asprintf(&text, "%s %.*s HTTP/1.1\r\nHost: %s:%u\r\n%s%s%s\r\n", opt.method,
                 (int)path_len, line, opt.host, opt.port, length, opt.headers, own);

    if (n < 0)
        die("memory");
    requests = realloc(requests, (request_count + 1) * sizeof *requests);
    request_lens = realloc(request_lens, (request_count + 1) * sizeof *request_lens);
    if (requests == NULL || request_lens == NULL)
        die("memory");
    requests[request_count] = text;
    request_lens[request_count++] = (size_t)n;
}

static void
make_requests(void)
{
    char line[4096];

    if (opt.file != NULL) {
        FILE *f = fopen(opt.file, "r");

        if (f == NULL)
            die(opt.file);
        while (fgets(line, sizeof line, f) != NULL) {
            line[strcspn(line, "\r\n")] = '\0';
            if (line[0] != '\0')
                add_request(line);
        }
        fclose(f);
    } else {
        const char *mark = strstr(opt.path, "%u");

        for (unsigned i = 0; i < (mark != NULL ? opt.count : 1); i++) {
            if (mark != NULL)
                snprintf(line, sizeof line, "%.*s%u%s", (int)(mark - opt.path), opt.path,
                         opt.first + i, mark + 2);
            else
                snprintf(line, sizeof line, "%s", opt.path);
            add_request(line);
        }
    }
    if (request_count == 0) {
        fprintf(stderr, "httpload: no paths\n");
        exit(2);
    }
}

/* Blocks: connecting is not what is measured. */
static void
shake_hands(struct conn *c)
{
    static SSL_CTX *context;

    if (context == NULL) {
        context = SSL_CTX_new(TLS_client_method());
        if (context == NULL || !SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION))
            die("TLS");
        SSL_CTX_set_read_ahead(context, 1); /* several records a call */
        SSL_CTX_set_default_read_buffer_len(context, TLS_TURN);
        SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    }
    SSL_free(c->ssl);
    c->ssl = SSL_new(context);
    if (c->ssl == NULL || SSL_set_fd(c->ssl, c->fd) != 1 || SSL_connect(c->ssl) != 1 ||
        fcntl(c->fd, F_SETFL, O_NONBLOCK) != 0) {
        fprintf(stderr, "httpload: no handshake\n");
        exit(1);
    }
}

static void
reconnect(struct conn *c)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(opt.port)};
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    int one = 1;

    if (c->fd >= 0)
        close(c->fd);
    if (inet_pton(AF_INET, opt.host, &a.sin_addr) != 1) {
        fprintf(stderr, "httpload: \"%s\" is no IPv4 address\n", opt.host);
        exit(2);
    }
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&a, sizeof a) != 0 ||
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0 ||
        epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &e) != 0)
        die("connect");
    c->have = 0;
    c->in_body = c->refusal = c->closes = false;
    c->out_left = 0;
    if (opt.tls)
        shake_hands(c);
}

static void ask(struct conn *c, uint64_t due);

/* The connection is free: at once again, or when the next request is due; with passes until all is asked. */
static void
rest(struct conn *c)
{
    active -= c->busy;
    c->busy = false;
    if (opt.rate > 0)
        idle[idle_count++] = (unsigned)(c - conns);
    else if (opt.passes == 0 || asked < (uint64_t)opt.passes * request_count)
        ask(c, now_ns());
}

static void
failed(struct conn *c, const char *why)
{
    if (opt.busy)
        refused += measuring;
    else if (errors++ < 3)
        fprintf(stderr, "httpload: %s: %.*s\n", why, (int)strcspn(c->in, "\r\n"),
                c->have > 0 ? c->in : "");
    reconnect(c);
    rest(c);
}

static void
want_events(struct conn *c, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = c};

    if (epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &e) != 0)
        die("epoll");
}

/* Once; false: the connection is gone. */
static bool
send_some(struct conn *c, int flags)
{
    size_t head = c->out[0].iov_len, room = SEND_TURN > head ? SEND_TURN - head : 0;
    size_t rest = c->out[1].iov_len < room ? c->out[1].iov_len : room;
    struct iovec now[2] = {c->out[0], {c->out[1].iov_base, rest}};
    struct msghdr m = {.msg_iov = now, .msg_iovlen = 2};
    ssize_t n = sendmsg(c->fd, &m, MSG_NOSIGNAL | flags);

    if (n < 0 && errno == EAGAIN)
        return true;
    if (n <= 0)
        return false;
    c->out_left -= (size_t)n;
    for (int k = 0; k < 2; k++) {
        size_t gone = (size_t)n < c->out[k].iov_len ? (size_t)n : c->out[k].iov_len;

        c->out[k].iov_base = (char *)c->out[k].iov_base + gone;
        c->out[k].iov_len -= gone;
        n -= (ssize_t)gone;
    }
    return true;
}

/* A short request in one blocking call: the server reads while we wait. Long ones go a piece at a time, each connection in
 * its turn, as if clients were many. */
static bool
send_request(struct conn *c, unsigned i)
{
    if (c->ssl != NULL)
        return SSL_write(c->ssl, requests[i], (int)request_lens[i]) ==
               (int)request_lens[i];
    c->out[0] = (struct iovec){requests[i], request_lens[i]};
    c->out[1] = (struct iovec){body, opt.body};
    c->out_left = request_lens[i] + opt.body;
    if (c->out_left > SEND_TURN) {
        want_events(c, EPOLLIN | EPOLLOUT);
        return send_some(c, MSG_DONTWAIT);
    }
    while (c->out_left > 0)
        if (!send_some(c, 0))
            return false;
    return true;
}

static void
on_writable(struct conn *c)
{
    if (c->out_left > 0 && !send_some(c, MSG_DONTWAIT)) {
        failed(c, "the server closed a connection");
        return;
    }
    if (c->out_left == 0)
        want_events(c, EPOLLIN);
}

static unsigned
next_request(void)
{
    if (opt.passes > 0)
        return (unsigned)(asked++ % request_count);
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return request_count == 1 ? 0 : (unsigned)(seed % request_count);
}

static void
ask(struct conn *c, uint64_t due)
{
    unsigned i = next_request();

    c->due_ns = due;
    c->span = (struct span){.due = due, .asked = spans != NULL ? now_ns() : 0};
    for (unsigned tries = 0; !send_request(c, i); tries++) {
        if (tries == (opt.busy ? TRIES_BUSY : 1))
            die("send");
        *(opt.busy ? &refused : &errors) += 1;
        reconnect(c);
    }
    c->busy = true;
    active++;
}

static void
answered(struct conn *c)
{
    if (measuring && c->refusal) {
        refused++;
    } else if (measuring) {
        uint64_t now = now_ns();

        done++;
        if (c->due_ns >= stood_until_ns) {
            histogram[bucket_of(now - c->due_ns)]++;
            timed++;
        }
        c->span.answered = now;
        if (c->due_ns >= counted_from && span_count < span_room)
            spans[span_count++] = c->span;
        if (progress != NULL) {
            progress[0] = done;
            progress[1] = errors;
        }
    }
    if (c->closes)
        reconnect(c);
    c->have = 0;
    c->in_body = c->refusal = c->closes = false;
    rest(c);
}

/* True: the head is whole and right; c->left is what is missing of the body. */
static bool
read_head(struct conn *c, const char **why)
{
    const char *end = memmem(c->in, c->have, "\r\n\r\n", 4), *p;
    long long length = -1;
    size_t behind;
    bool empty; /* 204: the answer to a DELETE */

    *why = NULL;
    if (end == NULL) {
        *why = c->have == IN ? "a head of more than 8192 bytes" : NULL;
        return false;
    }
    empty = c->have >= 12 && memcmp(c->in, "HTTP/1.1 204", 12) == 0;
    if (!empty && (c->have < 12 || memcmp(c->in, "HTTP/1.1 200", 12) != 0)) {
        bool busy = c->have >= 12 && memcmp(c->in, "HTTP/1.1 503", 12) == 0 &&
                    memmem(c->in, c->have, "\r\nRetry-After:", 14) != NULL;

        if (opt.busy && !busy)
            die("a status other than 200, 204 or 503 with Retry-After");
        *why = "a status other than 200 or 204";
        if (!opt.busy)
            return false;
        *why = NULL;
        c->refusal = true;
        c->closes =
            memmem(c->in, (size_t)(end - c->in), "\r\nConnection: close", 19) != NULL;
    }
    for (p = c->in; p < end;
         p = (const char *)memchr(p, '\n', (size_t)(end + 2 - p)) + 1) {
        if ((*p | 0x20) == 'c' && strncasecmp(p, "content-length:", 15) == 0)
            length = strtoll(p + 15, NULL, 10);
    }
    behind = c->have - (size_t)(end + 4 - c->in);
    if (empty && length < 0)
        length = 0;
    if (length < 0 || (opt.size >= 0 && length != opt.size && !c->refusal) ||
        behind > (size_t)length) {
        *why = "a wrong length";
        return false;
    }
    if (measuring && !c->refusal) {
        uint64_t now = now_ns();

        bytes += (uint64_t)length;
        c->span.head = now;
        if (c->due_ns >= stood_until_ns)
            first_bytes[bucket_of(now - c->due_ns)]++;
    }
    c->left = (uint64_t)length - behind;
    c->in_body = true;
    return true;
}

static size_t
least(uint64_t a, size_t b)
{
    return a < b ? (size_t)a : b;
}

/* As recv(); no room for the bytes: they are dropped, on TCP in the kernel (MSG_TRUNC) instead of being copied. */
static ssize_t
receive(struct conn *c, char *to, size_t len)
{
    static char sink[256 << 10];
    size_t n = 0;
    char *at = to != NULL ? to : sink;

    if (c->ssl == NULL)
        return recv(c->fd, to, len, MSG_DONTWAIT | (to == NULL ? MSG_TRUNC : 0));
    if (SSL_read_ex(c->ssl, at, len < sizeof sink ? len : sizeof sink, &n))
        return (ssize_t)n;
    errno = EAGAIN;
    return SSL_want_read(c->ssl) ? -1 : 0;
}

static void
on_readable(struct conn *c)
{
    const char *why;
    ssize_t n;

    if (!c->in_body) {
        n = receive(c, c->in + c->have, IN - c->have);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0 || !c->busy) {
            failed(c, "the server closed a connection, or spoke unasked");
            return;
        }
        c->have += (size_t)n;
        if (!read_head(c, &why)) {
            if (why != NULL)
                failed(c, why);
            return;
        }
    } else {
        static char sink[256 << 10];

        n = receive(c, opt.read ? sink : NULL,
                    opt.read ? least(c->left, sizeof sink) : least(c->left, 4u << 20));
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            failed(c, "a body cut short");
            return;
        }
        c->left -= (uint64_t)n;
    }
    if (c->left == 0)
        answered(c);
}

/* What OpenSSL has taken from the socket makes no event. */
static void
read_all(struct conn *c)
{
    uint64_t before;

    do {
        before = c->left + c->have + done;
        on_readable(c);
    } while (c->ssl != NULL && SSL_has_pending(c->ssl) &&
             before != c->left + c->have + done);
}

/* ---- running ---- */

static void
on_event(const struct epoll_event *e)
{
    if ((e->events & (EPOLLOUT | EPOLLIN)) == EPOLLOUT)
        on_writable(e->data.ptr);
    else
        read_all(e->data.ptr);
}

static void
send_due(void)
{
    uint64_t now = now_ns();

    while (idle_count > 0 && next_due <= now && next_due < last_due) {
        ask(&conns[idle[--idle_count]], next_due);
        next_due += (uint64_t)(1e9 / opt.rate);
    }
}

static bool
goes_on(uint64_t end)
{
    if (opt.passes > 0)
        return active > 0;
    if (now_ns() < end)
        return true;
    return spans != NULL && measuring && (active > 0 || next_due < last_due) &&
           now_ns() < end + (uint64_t)PATIENCE_S * 1000000000u;
}

static void
run_until(uint64_t end)
{
    static struct epoll_event events[256];

    while (!told_to_end && goes_on(end)) {
        /* With a rate it spins: a timer would be too coarse. */
        int n = epoll_wait(ep, events, 256, opt.rate > 0 ? 0 : 100);

        for (int i = 0; i < n; i++)
            on_event(&events[i]);
        if (opt.rate > 0)
            send_due();
    }
}

static double
cpu_s(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void
parse_options(int argc, char **argv)
{
    int o;

    while ((o = getopt(argc, argv, "a:b:c:d:f:m:w:r:s:n:p:E:P:H:BLRT")) != -1) {
        switch (o) {
        case 'a':
            opt.passes = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'b':
            opt.body = strtoul(optarg, NULL, 10);
            opt.method = "PUT";
            break;
        case 'f':
            opt.first = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'm':
            opt.method = optarg;
            break;
        case 'R':
            opt.read = true;
            break;
        case 'T':
            opt.tls = true;
            break;
        case 'B':
            opt.busy = true;
            break;
        case 'L':
            opt.latencies = true;
            break;
        case 'c':
            opt.conns = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'd':
            opt.seconds = strtod(optarg, NULL);
            break;
        case 'w':
            opt.warmup = strtod(optarg, NULL);
            break;
        case 'r':
            opt.rate = strtod(optarg, NULL);
            break;
        case 's':
            opt.size = strtoll(optarg, NULL, 10);
            break;
        case 'n':
            opt.count = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'p':
            opt.file = optarg;
            break;
        case 'P':
            opt.progress = optarg;
            break;
        case 'E':
            opt.each = optarg;
            break;
        case 'H':
            snprintf(opt.headers + strlen(opt.headers),
                     sizeof opt.headers - strlen(opt.headers), "%s\r\n", optarg);
            break;
        default:
            exit(2);
        }
    }
    if (argc - optind != 3 || opt.conns == 0 || opt.conns > CONNS_MAX || opt.count == 0) {
        fprintf(
            stderr,
            "httpload [-c CONNS] [-d SECONDS] [-w WARMUP] [-r RATE] [-s SIZE] [-n COUNT] "
            "[-f FIRST] [-a PASSES] [-m METHOD] [-b BYTES] [-R] [-T] [-B] [-L] [-E FILE] "
            "[-P FILE] "
            "[-H "
            "HEADER]... [-p "
            "FILE] "
            "HOST PORT PATH\n");
        exit(2);
    }
    if (opt.tls && opt.body > 0) {
        fprintf(stderr, "httpload: -T goes with requests without a body\n");
        exit(2);
    }
    if (opt.each != NULL && opt.rate <= 0) {
        fprintf(stderr, "httpload: -E goes with a rate\n");
        exit(2);
    }
    opt.host = argv[optind];
    opt.port = (uint16_t)strtoul(argv[optind + 1], NULL, 10);
    opt.path = argv[optind + 2];
}

static void
on_signal(int signal)
{
    if (signal == SIGCONT)
        stood_until_ns = now_ns();
    else
        told_to_end = 1;
}

static void
map_progress(void)
{
    struct sigaction handled = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    int fd;

    if (opt.progress == NULL)
        return;
    /* Who stops this process and dies would leave it standing for good. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        die("prctl");
    fd = open(opt.progress, O_RDWR);
    if (fd < 0 || ftruncate(fd, 2 * sizeof *progress) < 0)
        die(opt.progress);
    progress =
        mmap(NULL, 2 * sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (progress == MAP_FAILED)
        die(opt.progress);
    close(fd);
    if (sigaction(SIGCONT, &handled, NULL) != 0 ||
        sigaction(SIGTERM, &handled, NULL) != 0)
        die("signals");
}

/* Touched before it counts: a page fault would be one more stall. */
static void
make_room_for_spans(void)
{
    if (opt.each == NULL)
        return;
    span_room = (size_t)(opt.rate * opt.seconds) + 2 * CONNS_MAX;
    spans = malloc(span_room * sizeof *spans);
    if (spans == NULL)
        die("memory");
    memset(spans, 1, span_room * sizeof *spans);
}

static void
write_spans(void)
{
    FILE *f;

    if (opt.each == NULL)
        return;
    f = fopen(opt.each, "w");
    if (f == NULL || fwrite(spans, sizeof *spans, span_count, f) != span_count ||
        fclose(f) != 0)
        die(opt.each);
}

/* Bytes that no server can squeeze. */
static void
make_body(void)
{
    body = malloc(opt.body + 8);
    if (body == NULL)
        die("memory");
    for (size_t i = 0; i < opt.body; i += 8) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        memcpy(body + i, &seed, 8);
    }
}

static void
connect_all(void)
{
    ep = epoll_create1(0);
    conns = calloc(opt.conns, sizeof *conns);
    if (conns == NULL || ep < 0)
        die("memory");
    next_due = now_ns();
    for (unsigned i = 0; i < opt.conns; i++) {
        conns[i].fd = -1;
        reconnect(&conns[i]);
    }
}

static void
begin(void)
{
    printf("begin\n");
    fflush(stdout);
    measuring = true;
}

static void
report(double took, double cpu)
{
    printf("{\"requests\":%llu,\"seconds\":%.3f,\"rps\":%.0f,\"mib_s\":%.1f,",
           (unsigned long long)done, took, (double)done / took,
           (double)bytes / took / 1048576);
    printf("\"p50_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f,\"max_us\":%.1f,",
           quantile_us(histogram, 0.5), quantile_us(histogram, 0.99),
           quantile_us(histogram, 0.999), quantile_us(histogram, 0.9999999));
    if (opt.latencies)
        print_latencies();
    printf("\"first_p50_us\":%.1f,\"first_p99_us\":%.1f,", quantile_us(first_bytes, 0.5),
           quantile_us(first_bytes, 0.99));
    printf("\"untimed\":%llu,", (unsigned long long)(done - timed));
    printf("\"refused\":%llu,\"errors\":%llu,\"connections\":%u,\"client_cpu_s\":%.3f}\n",
           (unsigned long long)refused, (unsigned long long)errors, opt.conns, cpu);
}

int
main(int argc, char **argv)
{
    uint64_t from;
    double cpu;

    parse_options(argc, argv);
    map_progress();
    make_body();
    make_requests();
    make_room_for_spans();
    connect_all();
    if (opt.passes > 0)
        begin();
    from = now_ns();
    cpu = cpu_s();
    for (unsigned i = 0; i < opt.conns; i++)
        rest(&conns[i]);
    run_until(now_ns() + (uint64_t)(opt.warmup * 1e9));
    if (opt.passes == 0) {
        begin();
        from = counted_from = now_ns();
        cpu = cpu_s();
        if (spans != NULL)
            last_due = from + (uint64_t)(opt.seconds * 1e9);
        run_until(from + (uint64_t)(opt.seconds * 1e9));
    }
    if (spans != NULL && (active > 0 || next_due < last_due))
        errors++;
    write_spans();
    report((double)(now_ns() - from) / 1e9, cpu_s() - cpu);
    return errors > 0 || done == 0;
}
