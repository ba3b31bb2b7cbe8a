/* throttle: limits concurrent transfers from a backend. SlowDown halves the limit, and each successful round
 * raises it by one (additive increase, multiplicative decrease). Fibers of one loop. */
#pragma once
#include "rt/sync.h"

#define THROTTLE_CUT_MS 100 /* answers to one burst count once */
#define THROTTLE_WAIT_MS                                                                 \
    2000 /* the longest wait: a transfer may itself wait for a slow reader */

struct throttle {
    double limit;
    unsigned most; /* the initial and highest limit */
    unsigned busy;
    uint64_t cut_ns;
    struct rt_cond freed;
};
void throttle_init(struct throttle *t, unsigned most);
/* Waits for a place. ERR_CANCELLED; else throttle_leave() follows. */
enum err throttle_enter(struct throttle *t) MUST_CHECK;
void throttle_leave(struct throttle *t);
void throttle_success(struct throttle *t);
/* True: the limit was cut. */
bool throttle_slow_down(struct throttle *t, uint64_t now_ns);
