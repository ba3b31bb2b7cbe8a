#include "rt/internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "rt/sanitize.h"

enum { HANDLER_STACK = 64 << 10, SIGNALS_MAX = 8 };

/* ---- signals that become fibers ---- */

/* The handler writes the signal number into a pipe that loop 0 watches. */
static struct {
    int write_fd; /* read by handlers: set before the first handler is installed */

    /* Only on loop 0. */
    struct watch watch; /* of the reading end */
    bool open;
    unsigned count;
    struct {
        int signo;
        fiber_fn *fn;
        void *arg;
        struct sigaction before;
    } of[SIGNALS_MAX];
} signals;

static void
signals_deliver(int signo)
{
    int saved = errno;
    unsigned char byte = (unsigned char)signo;

    /* A full pipe means that this loop has more than enough to read. */
    if (write(signals.write_fd, &byte, 1) < 0)
        (void)0;
    errno = saved;
}

static void
on_pipe(struct watch *w, unsigned edges)
{
    unsigned char numbers[64];
    ssize_t n;

    assert(loop_self->index == 0);
    (void)edges;
    while ((n = read(w->fd, numbers, sizeof numbers)) > 0)
        for (ssize_t i = 0; i < n; i++)
            for (unsigned k = 0; k < signals.count; k++)
                if (signals.of[k].signo == numbers[i] &&
                    rt_spawn(signals.of[k].fn, signals.of[k].arg) != ERR_OK)
                    LOG(LOG_ERROR, "rt.signal",
                        "a signal was dropped: no fiber stack for its handler",
                        L_U64("signal", numbers[i]));
}

static void
signals_open_pipe(struct loop *l)
{
    int fds[2], error;

    assert(!signals.open);
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0)
        abort(); /* at start, without a free descriptor: nothing can be reported yet */
    signals.write_fd = fds[1];
    signals.watch = (struct watch){.fd = fds[0], .on_edge = on_pipe};
    error = l->ops->watch(l, &signals.watch);
    assert(error == 0);
    (void)error;
    signals.open = true;
}

void
rt_on_signal(int signo, fiber_fn *fn, void *arg)
{
    struct loop *l = loop_self;
    struct sigaction sa = {.sa_handler = signals_deliver,
                           .sa_flags = SA_RESTART | SA_ONSTACK};
    unsigned i = 0;

    assert(l != NULL);
    assert(l->index == 0);
    assert(fn != NULL);
    assert(signo > 0 && signo < 256); /* fits the pipe's byte */
    if (l->ops->watch == NULL)
        return; /* no signals in the simulator */
    if (!signals.open)
        signals_open_pipe(l);
    while (i < signals.count && signals.of[i].signo != signo)
        i++;
    assert(i < SIGNALS_MAX);
    signals.of[i].fn = fn;
    signals.of[i].arg = arg;
    if (i < signals.count)
        return;
    signals.of[i].signo = signo;
    signals.count++;
    sigaction(signo, &sa, &signals.of[i].before);
}

void
signals_close(struct loop *zero)
{
    if (!signals.open)
        return;
    assert(zero->index == 0);
    for (unsigned i = 0; i < signals.count; i++)
        sigaction(signals.of[i].signo, &signals.of[i].before, NULL);
    zero->ops->unwatch(zero, &signals.watch);
    close(signals.watch.fd);
    close(signals.write_fd);
    signals.open = false;
    signals.count = 0;
}

/* ---- handlers' stacks; overflow ---- */

#if !FB_ASAN && !FB_TSAN
static struct sigaction before_segv;

/* Reports the overflow, then lets the fault happen again under the earlier handler. */
static void
signals_on_fault(int signo, siginfo_t *info, void *context)
{
    static const char says[] = "fatal: fiber stack overflow\n";

    (void)context;
    if (loop_self != NULL && stacks_in_guard(&loop_self->stacks, info->si_addr) &&
        write(STDERR_FILENO, says, sizeof says - 1) < 0)
        (void)0;
    sigaction(signo, &before_segv, NULL);
}

static void
watch_faults(void)
{
    static atomic_flag once = ATOMIC_FLAG_INIT;
    struct sigaction sa = {.sa_sigaction = signals_on_fault,
                           .sa_flags = SA_SIGINFO | SA_ONSTACK};

    if (!atomic_flag_test_and_set(&once))
        sigaction(SIGSEGV, &sa, &before_segv);
}
#else
static void
watch_faults(void)
{
    /* The sanitizers' handler reports more. */
}
#endif

void
signals_thread_begin(struct signal_stack *st)
{
    stack_t old, mine = {.ss_size = HANDLER_STACK};

    st->at = NULL;
    signal(SIGPIPE, SIG_IGN);
    watch_faults();
    if (sigaltstack(NULL, &old) == 0 && (old.ss_flags & SS_DISABLE) == 0)
        return; /* a sanitizer's, or the caller's */
    mine.ss_sp = mmap(NULL, HANDLER_STACK, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (mine.ss_sp == MAP_FAILED)
        return; /* an overflow would kill the process silently: no reason not to run */
    st->at = mine.ss_sp;
    sigaltstack(&mine, NULL);
}

void
signals_thread_end(struct signal_stack *st)
{
    stack_t none = {.ss_flags = SS_DISABLE};

    if (st->at == NULL)
        return;
    sigaltstack(&none, NULL);
    munmap(st->at, HANDLER_STACK);
    st->at = NULL;
}
