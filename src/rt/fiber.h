/* fiber: straight-line code that waits without blocking its loop.
 *
 * A fiber lives and dies on the loop that started it. Between two calls marked "may switch" nothing else runs on that
 * loop. Every wait ends early: with ERR_TIMEOUT at the sooner of its own deadline and the fiber's scope, and with
 * ERR_CANCELLED once the fiber is cancelled. Cancellation is sticky, so each later wait fails too, except inside
 * rt_shield(). errno does not survive a switch.
 *
 * Stacks: 64 KiB and a guard page (more under sanitizers), pooled. Out of stacks is ERR_BUSY.
 */
#pragma once
#include <stdbool.h>

#include "base/err.h"
#include "base/list.h"
#include "rt/time.h"

typedef void fiber_fn(void *arg);
struct fiber;

struct fiber *rt_self(void); /* NULL outside fibers */
void rt_yield(void); /* lets the other ready fibers of this loop run once. May switch. */
/* Runs the fibers that this fiber has woken or started since it ran last, before the others of this turn, and then
 * continues. For work that a client waits for while much else is ready. May switch. */
void rt_run_woken(void);
bool rt_others_ready(void); /* whether other fibers of this loop are ready to run */
/* Both: ERR_OK when the time is over. May switch. */
enum err rt_sleep_ms(uint64_t ms) MUST_CHECK;
enum err rt_sleep_until(struct deadline when) MUST_CHECK;
bool rt_cancelled(void); /* whether this fiber has been cancelled, shield or not */
/* What this fiber does, a literal: for the log line about a turn that took too long. */
void rt_doing(const char *what);
void rt_cancel(struct fiber *f); /* same loop; idempotent; wakes it if it waits */

/* A scope: inside it no wait lasts longer than `by`, nor than the scope around it. */
struct rt_scope {
    struct deadline outer;
};
void rt_scope_begin(struct rt_scope *s, struct deadline by);
void rt_scope_end(struct rt_scope *s);
struct deadline rt_scope_now(void);

/* The retry budget of a request. A lookup that races with a concurrent change is repeated; all such loops of a request,
 * nested or in a row, and in calls to other loops, share one budget of RT_RETRIES. Outside of a request the outermost
 * loop has a budget of its own:
 *
 *     rt_retries_begin(&retries);
 *     do {
 *         rc = look(...);
 *     } while (rc == ERR_NOT_FOUND && rt_retry());
 *     rt_retries_end(&retries);
 */
#define RT_RETRIES 64u
struct rt_retries {
    unsigned left;
    bool outermost;
};
void rt_retries_begin(struct rt_retries *r);
void rt_retries_end(struct rt_retries *r);
bool rt_retry(void); /* takes one; false: the budget is used up */

/* A shield, for clean-up that must wait: inside it, cancellation and outer scopes have no effect. Nests. */
struct rt_shield {
    struct deadline outer;
};
void rt_shield_begin(struct rt_shield *s);
void rt_shield_end(struct rt_shield *s);

/* A group of child fibers on this loop (structured concurrency). The parent joins it before it returns; cancelling a
 * parent cancels its groups. Children inherit the parent's scope. */
struct rt_group {
    struct list members;
    struct fiber *joiner;
    unsigned alive;
    bool cancelled;
    struct list of_parent;
};
void rt_group_begin(struct rt_group *g);
/* The child runs at the next turn. In a cancelled group it runs too, cancelled from the start, since it may own what it
 * was given. ERR_BUSY: out of stacks. */
enum err rt_group_start(struct rt_group *g, fiber_fn *fn, void *arg) MUST_CHECK;
void rt_group_cancel(struct rt_group *g);
/* Returns when no child is alive, even when this fiber is cancelled. May switch. */
void rt_group_join(struct rt_group *g);

/* A fiber of the loop's own group: connections, daemons. The end of rt_run() cancels and joins them. */
enum err rt_spawn(fiber_fn *fn, void *arg) MUST_CHECK;
