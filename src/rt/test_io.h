/* test_io: where the settings of test_hooks.h take effect. Inside `rt` only; without FB_TEST_HOOKS nothing is left. */
#pragma once
#include "rt/internal.h"

#ifdef FB_TEST_HOOKS
int test_io_error(const struct rt_observer *o,
                  enum rt_io kind); /* 0, or a positive errno */
uint64_t test_io_delay_ns(const struct rt_observer *o, enum rt_io kind);
bool test_io_no_buffer(void);
#else
static inline bool
test_io_no_buffer(void)
{
    return false;
}

static inline int
test_io_error(const struct rt_observer *o, enum rt_io kind)
{
    (void)o, (void)kind;
    return 0;
}

static inline uint64_t
test_io_delay_ns(const struct rt_observer *o, enum rt_io kind)
{
    (void)o, (void)kind;
    return 0;
}
#endif
