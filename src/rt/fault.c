#include "rt/fault.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/mem.h"
#include "rt/loop.h"
#include "rt/sanitize.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif
#define PAGE_BYTES   4096u /* the smallest there is: a step over pages, no more */
#define FAULT_AROUND (8u << 20)
#define LOOK_PAGES   1024u

struct guard {
    sigjmp_buf back;
    uintptr_t from, to;
    uintptr_t stack; /* the stack pointer at the fault */
    struct guard *outer;
};

static _Thread_local struct guard *armed;
static struct sigaction before_bus, before_segv; /* the earlier handlers */

static uintptr_t
stack_of(const ucontext_t *at)
{
#if defined(__x86_64__)
    return (uintptr_t)at->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
    return (uintptr_t)at->uc_mcontext.sp;
#else
#error "where does this machine keep its stack pointer?"
#endif
}

/* A disk failure hits a page of the map; damaged pages may lead to any address. */
static bool
is_of(const struct guard *g, int signo, uintptr_t at)
{
    return signo == SIGSEGV || (at >= g->from && at < g->to);
}

static void
guard_on_fault(int signo, siginfo_t *info, void *context)
{
    for (struct guard *g = armed; g != NULL; g = g->outer) {
        if (!is_of(g, signo, (uintptr_t)info->si_addr))
            continue;
        armed = g->outer;
        g->stack = stack_of(context);
        siglongjmp(g->back, 1);
    }
    /* Not ours: the instruction runs again under the earlier handler. */
    (void)sigaction(signo, signo == SIGBUS ? &before_bus : &before_segv, NULL);
}

static void
fault_install(void)
{
    /* SA_NODEFER: the handler leaves by a jump that restores no mask; otherwise a second fault would kill. */
    struct sigaction sa = {.sa_sigaction = guard_on_fault,
                           .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};

    (void)sigemptyset(&sa.sa_mask);
    (void)sigaction(SIGBUS, &sa, &before_bus);
    (void)sigaction(SIGSEGV, &sa, &before_segv);
}

/* A thread that blocks these signals would be killed by a fault at once. */
static void
let_through(void)
{
    static _Thread_local bool done;
    sigset_t set;

    if (done)
        return;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGBUS);
    (void)sigaddset(&set, SIGSEGV);
    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    done = true;
}

bool
rt_guard(const void *map, size_t len, void (*fn)(void *arg), void *arg)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct guard g = {.from = (uintptr_t)map, .to = (uintptr_t)map + len, .outer = armed};

    (void)pthread_once(&once, fault_install);
    let_through();
    if (sigsetjmp(g.back, 0) != 0) { /* the handler has removed it from the list */
        /* ASan looks for the skipped frames on the thread's stack; a fiber has its own. */
        ASAN_CLEAN((void *)g.stack, (uintptr_t)&g - g.stack);
        return false;
    }
    assert(fn != NULL);
    armed = &g;
    fn(arg);
    assert(armed == &g); /* inner guards have ended */
    armed = g.outer;
    return true;
}

_Noreturn void
rt_guard_leave(void)
{
    struct guard *g = armed;

    if (g == NULL)
        abort();
    armed = g->outer;
    g->stack = (uintptr_t)&g;
    siglongjmp(g->back, 1);
}

/* The unit of mincore(). */
static size_t
system_page(void)
{
    static _Atomic size_t known;
    size_t bytes = atomic_load_explicit(&known, memory_order_relaxed);

    if (bytes == 0) {
        bytes = (size_t)sysconf(_SC_PAGESIZE);
        assert(bytes >= PAGE_BYTES);
        assert((bytes & (bytes - 1)) == 0);
        atomic_store_explicit(&known, bytes, memory_order_relaxed);
    }
    return bytes;
}

bool
rt_map_is_here(const void *at, size_t len)
{
    size_t page = system_page();
    uintptr_t from = (uintptr_t)at & ~(uintptr_t)(page - 1);
    uintptr_t to = (uintptr_t)at + len;
    unsigned char here[LOOK_PAGES];

    if (rt_engine_now() == RT_SIM)
        return true;
    while (from < to) {
        size_t n = MIN(to - from, sizeof here * page);

        if (mincore((void *)from, n, here) != 0)
            return false;
        for (size_t i = 0; i < (n + page - 1) / page; i++)
            if ((here[i] & 1) == 0)
                return false;
        from += n;
    }
    return true;
}

bool
rt_map_range(const void *at, const void **from, size_t *len)
{
    FILE *f = fopen("/proc/self/maps", "re");
    uintptr_t wanted = (uintptr_t)at, low, high;
    bool found = false;
    char line[512];

    if (f == NULL)
        return false;
    while (!found && fgets(line, sizeof line, f) != NULL) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &low, &high) != 2)
            continue; /* the rest of a long path */
        found = wanted >= low && wanted < high;
    }
    (void)fclose(f);
    if (found) {
        assert(low < high);
        *from = (const void *)low;
        *len = high - low;
    }
    return found;
}

struct touch {
    const volatile char *at;
    size_t len;
};

static void
touch_pages(void *arg)
{
    const struct touch *t = arg;

    for (size_t i = 0; i < t->len; i += PAGE_BYTES)
        (void)t->at[i];
}

/* Reads in one step: `len` bytes from a page on. */
static enum err
fault_populate(uintptr_t from, size_t len)
{
    struct touch t = {.at = (const char *)from, .len = len};
    int rc = 0;

    do
        rc = madvise((void *)from, len, MADV_POPULATE_READ);
    while (rc != 0 && errno == EINTR);
    if (rc == 0)
        return ERR_OK;
    if (errno != EINVAL)
        return errno == ENOMEM ? ERR_BUSY : ERR_IO;
    return rt_guard((const void *)from, len, touch_pages, &t) ? ERR_OK : ERR_IO;
}

/* A map without kernel readahead (LMDB's) is read page by page, at a hundredth of the disk's speed. So this requests
 * large pieces, each while it waits for the piece before. */
enum err
rt_map_populate(const void *at, size_t len)
{
    uintptr_t from = (uintptr_t)at & ~(uintptr_t)(PAGE_BYTES - 1);
    uintptr_t to = (uintptr_t)at + len;
    enum err rc = ERR_OK;

    assert(from <= to);
    (void)madvise((void *)from, MIN(to - from, (size_t)FAULT_AROUND), MADV_WILLNEED);
    for (; rc == ERR_OK && from < to; from += MIN(to - from, (size_t)FAULT_AROUND)) {
        size_t n = MIN(to - from, (size_t)FAULT_AROUND);

        if (to - from > n)
            (void)madvise((void *)(from + n), MIN(to - from - n, (size_t)FAULT_AROUND),
                          MADV_WILLNEED);
        rc = fault_populate(from, n);
    }
    return rc;
}
