/* Ten thousand connections that have asked once and now rest cost less than 60 MiB of
 * private memory: an idle connection holds neither fiber nor buffer. Each of them
 * still answers afterwards. */
#include "check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "http/server.h"
#include "rt/loop.h"

#define CONNECTIONS  10000
#define BATCH        250
#define RSS_ANON_MAX (60u << 20)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

static unsigned connections; /* fewer under sanitizers, where memory says nothing */

static uint64_t
rss_anon(void)
{
    FILE *f = fopen("/proc/self/status", "r");
    unsigned long long kib = 0;
    char line[200];

    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        if (sscanf(line, "RssAnon: %llu kB", &kib) == 1)
            break;
    }
    if (f != NULL)
        fclose(f);
    return kib * 1024;
}

static void
handle(struct http_request *r, void *arg)
{
    (void)arg;
    (void)http_reply(r, 200, SPAN("hello"));
}

static int
dial(uint16_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons(port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* ---- the clients: a process of their own, told what to do by single bytes ---- */

static bool
ask_all(const int *fds, unsigned from, unsigned to)
{
    static const char request[] = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n";
    char answer[1000];

    for (unsigned i = from; i < to; i++) {
        if (send(fds[i], request, sizeof request - 1, MSG_NOSIGNAL) !=
            (ssize_t)(sizeof request - 1))
            return false;
    }
    for (unsigned i = from; i < to; i++) {
        ssize_t n = recv(fds[i], answer, sizeof answer, 0);

        if (n < 20 || memcmp(answer, "HTTP/1.1 200 OK\r\n", 17) != 0)
            return false;
    }
    return true;
}

/* Reads the port; connects and asks; says 'c'; waits for a byte; asks again; says 'd';
 * waits and ends. */
static void
clients(int pipe_in, int pipe_out)
{
    int *fds = xcalloc(connections, sizeof *fds);
    uint16_t port = 0;
    bool good = read(pipe_in, &port, sizeof port) == sizeof port;
    char byte;

    for (unsigned i = 0; good && i < connections; i++) {
        fds[i] = dial(port);
        good = fds[i] >= 0;
        if (good && (i + 1) % BATCH == 0)
            good = ask_all(fds, i + 1 - BATCH, i + 1);
    }
    if (!good || write(pipe_out, "c", 1) != 1 || read(pipe_in, &byte, 1) != 1)
        _exit(1);
    for (unsigned i = 0; good && i < connections; i += BATCH)
        good = ask_all(fds, i, i + BATCH);
    if (!good || write(pipe_out, "d", 1) != 1 || read(pipe_in, &byte, 1) != 1)
        _exit(1);
    _exit(0);
}

/* ---- the server ---- */

struct pipes {
    int in, out; /* `in` does not block: the loop sleeps between looks */
};

static bool
receives(const struct pipes *p, char wanted)
{
    for (unsigned i = 0; i < 12000; i++) {
        char byte;
        ssize_t n = read(p->in, &byte, 1);

        if (n == 1)
            return byte == wanted;
        if (n == 0)
            return false;
        if (rt_sleep_ms(5) != ERR_OK)
            return false;
    }
    return false;
}

static void
idle_main(void *arg)
{
    const struct pipes *p = arg;
    struct http_server_options o = {.connections_max = CONNECTIONS + 100,
                                    .idle_ms = 600000};
    struct http_handler h = {.handle = handle};
    struct http_server *server = NULL;
    struct http_server_stats stats;
    struct errbuf eb = {0};
    uint64_t before, with;
    uint16_t port;

    REQUIRE(http_server_new(&o, &h, &server, &eb) == ERR_OK);
    REQUIRE(http_server_listen(server, "127.0.0.1", 0, NULL, &port, &eb) == ERR_OK);
    before = rss_anon();
    CHECK(write(p->out, &port, sizeof port) == sizeof port);
    CHECK(receives(p, 'c'));
    http_server_stats(server, &stats);
    CHECK_U64(stats.connections, connections);
    CHECK_U64(stats.idle, connections);
    CHECK_U64(stats.in_flight, 0);
    with = rss_anon();
    printf("%s: %u idle connections: RssAnon %.1f MiB, %.1f before; %.0f bytes each\n",
           rt_engine_name(rt_engine_now()), connections, (double)with / 1048576,
           (double)before / 1048576, (double)(with - before) / connections);
    if (!SANITIZED)
        CHECK(with < RSS_ANON_MAX);
    CHECK(write(p->out, "a", 1) == 1);
    CHECK(receives(p, 'd'));
    CHECK(write(p->out, "e", 1) == 1);
    for (unsigned i = 0; i < 12000 && stats.connections > 0; i++) {
        CHECK(rt_sleep_ms(5) == ERR_OK);
        http_server_stats(server, &stats);
    }
    CHECK_U64(stats.connections, 0);
    CHECK_U64(stats.requests, 2 * connections);
    http_server_stop(&server);
}

static void
run_on(enum rt_engine engine)
{
    struct rt_options o = {.engine = engine, .loops = 1};
    struct errbuf eb = {0};
    int there[2], back[2], status = -1;
    struct pipes p;
    pid_t child;

    REQUIRE(pipe(there) == 0 && pipe(back) == 0);
    fflush(stdout);
    child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        close(there[1]);
        close(back[0]);
        clients(there[0], back[1]);
    }
    close(there[0]);
    close(back[1]);
    p = (struct pipes){.in = back[0], .out = there[1]};
    CHECK(fcntl(p.in, F_SETFL, O_NONBLOCK) == 0);
    if (rt_run(&o, idle_main, &p, &eb) != ERR_OK) {
        printf("SKIPPED on %s: %s\n", rt_engine_name(engine), eb.text);
        kill(child, SIGKILL);
        status = 0;
    }
    close(p.in);
    close(p.out);
    CHECK(waitpid(child, status == 0 ? NULL : &status, 0) == child);
    CHECK_U64(status, 0);
}

static void
test_ten_thousand_idle_connections(void)
{
    struct rlimit files = {0};

    connections = SANITIZED ? 1000 : CONNECTIONS;
    REQUIRE(getrlimit(RLIMIT_NOFILE, &files) == 0);
    if (files.rlim_cur < connections + 100) {
        files.rlim_cur = connections + 100;
        if (files.rlim_max < files.rlim_cur)
            files.rlim_max = files.rlim_cur;
        if (setrlimit(RLIMIT_NOFILE, &files) != 0) {
            printf("SKIPPED: %u descriptors are not allowed here: %s\n",
                   connections + 100, strerror(errno));
            return;
        }
    }
    run_on(RT_EPOLL);
    run_on(RT_URING);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_ten_thousand_idle_connections);
    return check_done();
}
