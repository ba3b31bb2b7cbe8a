/* loop: one event loop a core, and what goes between loops.
 *
 * rt_run() starts the loops, runs `start` as a fiber on loop 0 and returns when that
 * fiber has returned and everything it started has been cancelled and joined. Engines:
 * uring, epoll (both real), sim (rt/sim.h has its own entry). The limit of descriptors
 * is raised as far as it goes; SIGPIPE is ignored.
 */
#pragma once
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "rt/fiber.h"

enum rt_engine { RT_AUTO, RT_URING, RT_EPOLL, RT_SIM };

struct rt_options {
    enum rt_engine
        engine;       /* RT_AUTO: uring where it is allowed, else epoll and a log line */
    unsigned loops;   /* 0: one for each CPU of the affinity mask */
    unsigned workers; /* threads of the blocking pool; 0: 8 */
    unsigned worker_queue; /* jobs that may wait; 0: 1024. Beyond: ERR_BUSY */
    unsigned fibers_max;   /* a loop; 0: as many as there can be stacks, at most 65,536 */
    uint64_t iobuf_bytes;  /* limit of pooled I/O buffers, all loops; 0: 256 MiB */
    uint64_t turn_limit_ms; /* a turn that takes longer is told in the log; 0: 50 */
    bool pin;               /* bind loop i to the i-th CPU of the mask */
};

enum err rt_run(const struct rt_options *options, fiber_fn *start, void *arg,
                struct errbuf *eb) MUST_CHECK;

enum rt_engine rt_engine_now(void);
const char *rt_engine_name(enum rt_engine e); /* "uring", "epoll", "sim" */
unsigned rt_loop_count(void);
unsigned rt_loop_index(void); /* of this thread; asserts that it is a loop's */
bool rt_on_loop(void);

/* A message to another loop; the sender embeds it, so posting can't fail and their number
 * is bounded by what holds them. `fn` runs on the loop outside any fiber and must not
 * switch. Any thread may post. */
struct rt_msg {
    struct rt_msg *next;
    void (*fn)(struct rt_msg *m);
};
void rt_post(unsigned loop, struct rt_msg *m);
/* Once, on this loop, when what the kernel just told is heard: before messages, timers and fibers, outside any fiber.
 * `fn` must not switch. From this loop only; the owner embeds it and leaves it alone until then. */
struct rt_after_poll {
    struct list link;
    void (*fn)(struct rt_after_poll *s);
};
void rt_after_poll(struct rt_after_poll *s);
/* The same, for a inline_handler (rt/net.h): sooner, before the disk operations that were prepared meanwhile go to the kernel. */
void rt_before_submit(struct rt_after_poll *s);

/* Runs fn(arg) as a fiber on `loop`, waits for its end even when cancelled. ERR_BUSY: out
 * of stacks there. May switch. */
enum err rt_call(unsigned loop, fiber_fn *fn, void *arg) MUST_CHECK;
/* The same, but who is cancelled meanwhile cancels fn(arg), and then waits for its end. May switch. */
enum err rt_call_cancellable(unsigned loop, fiber_fn *fn, void *arg) MUST_CHECK;

/* Wakes a fiber of any loop that waits in rt_wait(); once for each wait. The pair for
 * completions that come from other threads: rt_wait() returns when rt_wake() was called
 * since rt_waiter_init(). */
struct rt_waiter {
    struct rt_msg msg;
    struct fiber *fiber;
    unsigned loop;
    bool done;
};
void rt_waiter_init(struct rt_waiter *w); /* by the fiber that will wait */
/* No deadline, not cancelled: the waker owes it. May switch. */
void rt_wait(struct rt_waiter *w);
void rt_wake(struct rt_waiter *w); /* any thread; the last touch of *w by the waker */

/* fn(ptr) is called once every loop has passed on from what it runs now: for snapshots
 * that loops read without a lock between switches. From a loop only. */
void rt_retire(void (*fn)(void *ptr), void *ptr);

/* What must really block, on the bounded pool. ERR_BUSY: queue full. Cancelled or timed
 * out before it began: taken back; once begun it is waited for. In the simulator it runs
 * inline. May switch. */
enum err rt_blocking(void (*work)(void *arg), void *arg, struct deadline by) MUST_CHECK;

/* Signals: the handler runs as a fiber on loop 0. SIGTERM, SIGINT, SIGHUP. */
void rt_on_signal(int signo, fiber_fn *fn, void *arg);
