/* test_hooks: faults on purpose, for tests of the real engines (FB_TEST_HOOKS builds
 * only). The simulator has its own in rt/sim.h. Counts go over all loops of the process:
 * tests that use them run one loop. */
#pragma once
#include <stdint.h>

#include "base/err.h"

/* The nth wait from now on (from 1: a call that may switch and would wait) is cancelled
 * (ERR_CANCELLED: sticky, also where the wait itself can't fail) or fails with `err`; 0:
 * none. Restarts the count. */
void rt_test_disturb_wait(uint64_t nth, enum err err);
uint64_t rt_test_waits(void); /* waits since then */
