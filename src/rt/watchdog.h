/* watchdog: measures how long the turns of a loop take, and names what was running in one that took too long. Inside
 * `rt` only.
 *
 * A turn begins when the engine has delivered events and ends where the loop could poll again. Between turns without
 * a sleep the clock is read once, which the turn needs anyway; before a sleep once more. The longest stretch is
 * found by the processor's cycle counter, not by the clock.
 *
 * Threads: the loop's own; any thread reads the counts. */
#pragma once
#include <stdatomic.h>
#include <stdint.h>

#include "base/buf.h"
#include "rt/fiber.h"

#define TURN_BOUNDS 10 /* and one for what is longer than all of them */

struct watchdog {
    /* Only on the loop. */
    uint64_t limit_ns, from_ns; /* from_ns 0: no turn is open */
    uint64_t at,
        most;       /* of the processor's counter: the last mark, the longest stretch */
    uint64_t begun; /* the same: when the turn began */
    const char *doing; /* what the running fiber says it does, or NULL */
    const char *what;  /* of the longest stretch */
    fiber_fn *fn;
    uint64_t said_ns, unsaid; /* the last log line, and how many were suppressed since */

    /* Any thread reads. */
    _Atomic uint64_t counts[TURN_BOUNDS + 1];
    _Atomic uint64_t sum_ns, max_ns;
};

static inline uint64_t
watchdog_cycles(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t at;

    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(at));
    return at;
#else
    return rt_now_ns();
#endif
}

static inline void
watchdog_begin(struct watchdog *w, uint64_t now_ns)
{
    w->from_ns = now_ns;
    w->begun = w->at = watchdog_cycles();
    w->most = 0;
}

/* What ran since the last mark was `what` (a literal), or the fiber of `fn`. */
static inline void
watchdog_mark(struct watchdog *w, const char *what, fiber_fn *fn)
{
    uint64_t now = watchdog_cycles(), took = now - w->at;

    w->at = now;
    if (took <= w->most)
        return;
    w->most = took;
    w->what = what;
    w->fn = fn;
}

void watchdog_init(struct watchdog *w, uint64_t limit_ms); /* 0: 50 */
/* The turn is over. */
void watchdog_end(struct watchdog *w, unsigned loop, uint64_t now_ns);
/* The histogram of a loop, in the text format. */
void watchdog_report(const struct watchdog *w, unsigned loop, struct buf *out);
#define WATCHDOG_FAMILY                                                                  \
    "# HELP forebay_loop_turn_seconds time a loop ran without asking the kernel\n"       \
    "# TYPE forebay_loop_turn_seconds histogram\n"
