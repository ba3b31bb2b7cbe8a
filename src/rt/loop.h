/* loop: one event loop per core, and the messages between loops.
 *
 * rt_run() starts the loops, runs `start` as a fiber on loop 0, and returns when that fiber has returned and everything
 * it started has been cancelled and joined. Engines: uring and epoll (both real), sim (rt/sim.h has its own entry).
 * rt_run() raises the limit of descriptors as far as it goes and ignores SIGPIPE.
 */
#pragma once
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "rt/fiber.h"

enum rt_engine { RT_AUTO, RT_URING, RT_EPOLL, RT_SIM };

struct rt_options {
    enum rt_engine
        engine; /* RT_AUTO: uring where the kernel allows it, else epoll and a log line */
    unsigned loops;        /* 0: one per CPU of the affinity mask */
    unsigned workers;      /* threads of the blocking pool; 0: 8 */
    unsigned worker_queue; /* jobs that may wait; 0: 1024. Beyond: ERR_BUSY */
    unsigned fibers_max; /* per loop; 0: as many as there can be stacks, at most 65,536 */
    uint64_t iobuf_bytes;   /* limit of pooled I/O buffers, all loops; 0: 256 MiB */
    uint64_t turn_limit_ms; /* a longer turn is logged; 0: 50 */
    bool pin;               /* bind loop i to the i-th CPU of the mask */
};

enum err rt_run(const struct rt_options *options, fiber_fn *start, void *arg,
                struct errbuf *eb) MUST_CHECK;

enum rt_engine rt_engine_now(void);
const char *rt_engine_name(enum rt_engine e); /* "uring", "epoll", "sim" */
unsigned rt_loop_count(void);
unsigned rt_loop_index(void); /* of this thread; asserts that it is a loop's */
bool rt_on_loop(void);

/* A message to another loop. The sender embeds it, so posting cannot fail, and the number of messages is bounded by
 * what contains them. `fn` runs on the loop outside any fiber and must not switch. Any thread may post. */
struct rt_msg {
    struct rt_msg *next;
    void (*fn)(struct rt_msg *m);
};
void rt_post(unsigned loop, struct rt_msg *m);
/* Runs `fn` once, on this loop, after the kernel's events of this turn are handled: before messages, timers and fibers,
 * outside any fiber. `fn` must not switch. The owner embeds the struct and leaves it alone until then. This loop only. */
struct rt_after_poll {
    struct list link;
    void (*fn)(struct rt_after_poll *s);
};
void rt_after_poll(struct rt_after_poll *s);
/* The same for an inline handler (rt/net.h), but earlier: before prepared disk operations go to the kernel. */
void rt_before_submit(struct rt_after_poll *s);

/* Runs fn(arg) as a fiber on `loop` and waits for its end, even when cancelled. ERR_BUSY: that loop is out of stacks.
 * May switch. */
enum err rt_call(unsigned loop, fiber_fn *fn, void *arg) MUST_CHECK;
/* The same, but cancelling the caller cancels fn(arg) too; the call still waits for its end. May switch. */
enum err rt_call_cancellable(unsigned loop, fiber_fn *fn, void *arg) MUST_CHECK;

/* Wakes a fiber of any loop that waits in rt_wait(), once per wait: for completions that come from other threads.
 * rt_wait() returns when rt_wake() has been called since rt_waiter_init(). */
struct rt_waiter {
    struct rt_msg msg;
    struct fiber *fiber;
    unsigned loop;
    bool done;
};
void rt_waiter_init(struct rt_waiter *w); /* by the fiber that will wait */
/* Ignores deadlines and cancellation: the waker owes the wake. May switch. */
void rt_wait(struct rt_waiter *w);
void rt_wake(struct rt_waiter *w); /* any thread; the waker's last touch of *w */

/* Epoch-based reclamation: calls fn(ptr) once every loop has left what it runs now. For snapshots that loops read
 * without a lock between switches. Loops only. */
void rt_retire(void (*fn)(void *ptr), void *ptr);

/* Runs blocking work on the bounded pool. ERR_BUSY: the queue is full. Cancelled or timed out before it began: it is
 * taken off the queue; once begun it is waited for. The simulator runs it inline. May switch. */
enum err rt_blocking(void (*work)(void *arg), void *arg, struct deadline by) MUST_CHECK;

/* Signals: the handler runs as a fiber on loop 0. SIGTERM, SIGINT, SIGHUP. */
void rt_on_signal(int signo, fiber_fn *fn, void *arg);

/* A daemon: a fiber that lives as long as what it serves, such as a store's committer or its scrub. The owner asks it
 * to end in its own way, then joins it. All on one loop. Zero it before use. */
struct rt_daemon {
    struct rt_waiter *joiner;
    bool running; /* from rt_daemon_start() to rt_daemon_over() */
};
enum err rt_daemon_start(struct rt_daemon *d, fiber_fn *run, void *arg) MUST_CHECK;
/* The last call of its fiber, cancelled or not: the joiner may free the daemon afterwards. */
void rt_daemon_over(struct rt_daemon *d);
/* Returns when it is over, even when this fiber is cancelled; at once when it never ran. May switch. */
void rt_daemon_join(struct rt_daemon *d);
