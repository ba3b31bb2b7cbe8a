/* throttle: how many transfers a backend is asked for at once. One that says SlowDown is asked for half as many, and for one
 * more with each round that went well (additive increase, multiplicative decrease). Fibers of one loop.
 */
#pragma once
#include "rt/sync.h"

#define THROTTLE_CUT_MS 100 /* answers to one burst count once */
#define THROTTLE_WAIT_MS                                                                 \
    2000 /* nobody waits longer: a transfer may itself wait for a slow reader */

struct throttle {
    double limit;
    unsigned most; /* where it begins, and its highest */
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
