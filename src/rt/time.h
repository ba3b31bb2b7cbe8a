/* time: the two clocks and deadlines. In the simulator both are virtual. Any thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

uint64_t rt_now_ns(void); /* monotonic */
/* The same, as of the start of this loop's turn, at no cost; on other threads: now. */
uint64_t rt_turn_ns(void);
/* Monotonic too, and goes on while the machine is suspended (CLOCK_BOOTTIME): for leases. */
uint64_t rt_boot_ns(void);
uint64_t rt_wall_ns(void); /* since 1970; never used to order anything */

/* A moment on the monotonic clock. Absolute, so it nests and travels. */
struct deadline {
    uint64_t at_ns;
};
#define DEADLINE_NEVER ((struct deadline){UINT64_MAX})

/* A request sets several deadlines, and one reading of the clock is a hundredth of what a small request costs: so long
 * deadlines count from the start of the turn. */
#define DEADLINE_LONG_MS 1000
static inline struct deadline
deadline_in_ms(uint64_t ms)
{
    return (struct deadline){(ms < DEADLINE_LONG_MS ? rt_now_ns() : rt_turn_ns()) +
                             ms * 1000000u};
}
static inline struct deadline
deadline_sooner(struct deadline a, struct deadline b)
{
    return a.at_ns < b.at_ns ? a : b;
}
static inline bool
deadline_passed(struct deadline d)
{
    return d.at_ns != UINT64_MAX && rt_now_ns() >= d.at_ns;
}
