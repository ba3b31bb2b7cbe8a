#include "rt/real.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>

#include "base/log.h"
#include "rt/internal.h"
#include "rt/test_hooks.h"

void
real_raise_limits(void)
{
    struct rlimit l;

    if (getrlimit(RLIMIT_NOFILE, &l) != 0 || l.rlim_cur == l.rlim_max)
        return;
    l.rlim_cur = l.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &l) != 0)
        LOG(LOG_WARN, "rt.limits", "the limit of descriptors could not be raised",
            L_U64("limit", l.rlim_cur));
}

static uint64_t
read_clock(clockid_t id)
{
    struct timespec ts;

    clock_gettime(id, &ts);
    assert(ts.tv_sec >= 0);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t
real_now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t
real_boot_ns(void)
{
    return read_clock(CLOCK_BOOTTIME);
}

uint64_t
real_wall_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

void
real_random(void *out, size_t len)
{
    char *at = out;

    while (len > 0) {
        ssize_t n = getrandom(at, len, 0);

        if (n < 0 && errno != EINTR)
            abort(); /* without random bytes nothing may continue */
        if (n > 0) {
            assert((size_t)n <= len);
            at += n;
            len -= (size_t)n;
        }
    }
}

unsigned
watch_edges(uint32_t poll_bits)
{
    unsigned edges = 0;

    if ((poll_bits & (POLLIN | POLLRDHUP | POLLHUP | POLLERR)) != 0)
        edges |= EDGE_IN;
    if ((poll_bits & (POLLOUT | POLLHUP | POLLERR)) != 0)
        edges |= EDGE_OUT;
    if ((poll_bits & (POLLRDHUP | POLLHUP | POLLERR)) != 0)
        edges |= EDGE_HANGUP;
    return edges;
}

enum err
real_blocking(void (*work)(void *arg), void *arg, struct deadline by)
{
    return pool_run(POOL_WORK, work, arg, by);
}

#ifdef FB_TEST_HOOKS
static _Atomic uint64_t waits, disturb_at;
static _Atomic enum err disturb_with;

void
rt_test_disturb_wait(uint64_t nth, enum err err)
{
    assert(nth == 0 || err != ERR_OK);
    disturb_with = err;
    disturb_at = nth;
    waits = 0;
}

uint64_t
rt_test_waits(void)
{
    return waits;
}

enum err
real_before_wait(struct loop *l, bool owed)
{
    uint64_t nth = atomic_fetch_add(&waits, 1) + 1;
    enum err err = disturb_with;

    if (nth != disturb_at)
        return ERR_OK;
    if (err == ERR_CANCELLED)
        rt_cancel(l->self);
    return owed ? ERR_OK : err;
}
#endif
