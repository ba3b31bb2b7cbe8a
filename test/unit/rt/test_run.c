/* Starting: which engine, how many loops; and what a fiber that overflows its stack says
 * before it dies. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/metrics.h"
#include "engines.h"
#include "rt/sanitize.h"

/* Runs fn in a child process; its exit status, and what it wrote to stderr. */
static int
in_child(void (*fn)(void), char *says, size_t room)
{
    int fds[2], status = -1;
    size_t len = 0;
    ssize_t n;
    pid_t pid;

    CHECK(pipe(fds) == 0);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        dup2(fds[1], STDERR_FILENO);
        close(fds[0]);
        close(fds[1]);
        fn();
        _exit(0);
    }
    close(fds[1]);
    while (len + 1 < room && (n = read(fds[0], says + len, room - 1 - len)) > 0)
        len += (size_t)n;
    says[len] = '\0';
    close(fds[0]);
    CHECK(waitpid(pid, &status, 0) == pid);
    return status;
}

/* ---- engines ---- */

static enum rt_engine seen;

static void
see_engine(void *arg)
{
    (void)arg;
    seen = rt_engine_now();
}

static void
run_forbidden(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = 4, .filter = code};
    struct rt_options o = {.engine = RT_AUTO, .loops = 2};
    struct errbuf eb = {0};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(77);
    if (rt_run(&o, see_engine, NULL, &eb) != ERR_OK || seen != RT_EPOLL)
        _exit(1);
    o.engine = RT_URING;
    if (rt_run(&o, see_engine, NULL, &eb) == ERR_OK ||
        strstr(eb.text, "io_uring_setup") == NULL)
        _exit(2);
    _exit(0);
}

static void
test_where_io_uring_is_forbidden_auto_means_epoll(void)
{
    char says[4096];
    int status = in_child(run_forbidden, says, sizeof says);

    CHECK(WIFEXITED(status));
    CHECK_U64(WEXITSTATUS(status), 0);
    CHECK_SAYS(says, "using epoll");
    CHECK_SAYS(says, "Operation not permitted");
}

static void
test_auto_is_uring_where_it_works(void)
{
    struct rt_options o = {.engine = RT_AUTO, .loops = 1};

    CHECK(rt_run(&o, see_engine, NULL, NULL) == ERR_OK);
    if (seen != RT_URING)
        fprintf(stderr, "note: no io_uring here\n");
    CHECK(seen == RT_URING || seen == RT_EPOLL);
    CHECK_STR(rt_engine_name(RT_URING), "uring");
}

/* ---- loops ---- */

static unsigned loops_seen;

static void
count_loops(void *arg)
{
    (void)arg;
    loops_seen = rt_loop_count();
}

static void
test_one_loop_for_each_cpu_of_the_mask(void)
{
    struct rt_options o = {.pin = true};
    cpu_set_t before, one, after;
    size_t cpu = 0;

    CHECK(sched_getaffinity(0, sizeof before, &before) == 0);
    CHECK(rt_run(&o, count_loops, NULL, NULL) == ERR_OK);
    CHECK_U64(loops_seen, CPU_COUNT(&before));
    while (!CPU_ISSET(cpu, &before))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK(rt_run(&o, count_loops, NULL, NULL) == ERR_OK);
    CHECK_U64(loops_seen, 1);
    CHECK(sched_getaffinity(0, sizeof after, &after) == 0);
    CHECK(CPU_EQUAL(&one, &after)); /* a bound loop 0 gives its thread back as it was */
    CHECK(sched_setaffinity(0, sizeof before, &before) == 0);
}

/* ---- what the metrics page says of it ---- */

static void
scrape_fiber(void *arg)
{
    struct buf out;

    (void)arg;
    buf_init(&out, 256 << 10);
    rt_yield();
    metrics_write(&out);
    buf_putc(&out, '\0');
    CHECK(!out.full);
    CHECK_SAYS(out.at, "forebay_fiber_stack_high_water_bytes{loop=\"1\"} ");
    CHECK_SAYS(out.at, "forebay_loop_connections{loop=\"0\"} 0\n");
    CHECK_SAYS(out.at, "forebay_io_buffer_bytes 0\n");
    CHECK_SAYS(out.at, "forebay_fibers 1\n");
    CHECK_SAYS(out.at, rt_engine_name(rt_engine_now()));
    buf_fini(&out);
}
REAL_CASE(test_the_runtime_shows_in_the_metrics, 2, scrape_fiber)

/* ---- overflow ---- */

static unsigned
too_deep(unsigned n)
{
    volatile char room[512];

    room[n % sizeof room] = (char)n;
    return n == UINT32_MAX ? 0 : too_deep(n + 1) + (unsigned)room[n % sizeof room];
}

static void
overflow_fiber(void *arg)
{
    *(volatile unsigned *)arg = too_deep(0);
}

static void
run_overflow(void)
{
    struct rt_options o = {.engine = RT_EPOLL, .loops = 1};
    unsigned n;

    if (rt_run(&o, overflow_fiber, &n, NULL) != ERR_OK)
        _exit(1);
}

static void
test_an_overflow_says_so(void)
{
    static char says[1 << 16];
    int status = in_child(run_overflow, says, sizeof says);

    CHECK(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
    CHECK_SAYS(says, FB_ASAN || FB_TSAN ? "Sanitizer" : "fiber stack overflow");
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_where_io_uring_is_forbidden_auto_means_epoll);
    RUN(test_auto_is_uring_where_it_works);
    RUN(test_one_loop_for_each_cpu_of_the_mask);
    RUN(test_the_runtime_shows_in_the_metrics);
    RUN(test_an_overflow_says_so);
    return check_done();
}
