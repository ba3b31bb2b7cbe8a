/* daemon: a fiber that lives as long as what it serves: a disk's committer, its scrub, the look after a cache. Whoever began
 * it tells it to end in its own words, then joins it. All on one loop.
 */
#pragma once
#include "rt/fiber.h"

/* Zero it before use. */
struct rt_daemon {
    struct rt_waiter *joiner;
    bool running; /* from rt_daemon_start() to rt_daemon_over() */
};
enum err rt_daemon_start(struct rt_daemon *d, fiber_fn *run, void *arg) MUST_CHECK;
/* The last word of its fiber, cancelled or not: the joiner may free what the daemon lies in. */
void rt_daemon_over(struct rt_daemon *d);
/* Returns when it is over, whether this fiber is cancelled or not; at once when it never ran. May switch. */
void rt_daemon_join(struct rt_daemon *d);
