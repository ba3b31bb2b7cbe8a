/* loops: calls on every loop during shutdown. Inside `http` only. */
#pragma once
#include "rt/loop.h"

/* rt_call(), retried until a fiber stack is free: shutdown must reach every loop. May switch. */
void loops_call(unsigned loop, fiber_fn *fn, void *arg);
/* A short sleep under a shield from cancellation; for polling. May switch. */
void loops_pause(void);
