/* loops: reaching every loop at the end. Inside `http` only. */
#pragma once
#include "rt/loop.h"

/* rt_call(), again until there is a stack for it: what ends a server or a client may
 * not be left out. May switch. */
void loops_call(unsigned loop, fiber_fn *fn, void *arg);
/* A short sleep that nothing cancels; the caller looks again afterwards. May switch. */
void loops_pause(void);
