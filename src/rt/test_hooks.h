/* test_hooks: faults on purpose, for tests of the real engines (FB_TEST_HOOKS builds
 * only). The simulator has its own in rt/sim.h. Counts go over all loops of the process:
 * tests that use them run one loop. */
#pragma once
#include <stdint.h>

#include "base/err.h"
#include "rt/point.h"

/* The nth wait from now on (from 1: a call that may switch and would wait) is cancelled
 * (ERR_CANCELLED: sticky, also where the wait itself can't fail) or fails with `err`; 0:
 * none. Restarts the count. */
void rt_test_disturb_wait(uint64_t nth, enum err err);
uint64_t rt_test_waits(void); /* waits since then */

/* The nth buffer from now on (from 1) that is asked of the pool is refused (ERR_BUSY), as if the pool had come to its limit;
 * 0: none. Restarts the count. In the simulator, too. */
void rt_test_refuse_buffer(uint64_t nth);
uint64_t rt_test_buffers(void); /* asked for since then */

/* Called at each point (rt/point.h) that is passed outside the simulator, before anything else there; may wait as
 * the caller may. NULL: none. Set it while no point is passed. */
extern void (*rt_test_on_point)(enum point p);

/* What observed disks do (rt/file.h): one page of settings for the process, or, where the environment names a file in
 * FOREBAY_TEST_IO, that file, mapped: so a test outside turns a disk of a running server bad and good again. */
struct rt_test_io {
    _Atomic uint64_t disk;     /* the nth observer of the process; 0: all */
    _Atomic uint64_t kinds;    /* bits 1 << enum rt_io; 0: nothing happens */
    _Atomic uint64_t error;    /* what those fail with; 0: they do not */
    _Atomic uint64_t skip;     /* so many pass first */
    _Atomic uint64_t count;    /* so many fail then; UINT64_MAX: all */
    _Atomic uint64_t delay_us; /* added to each of them */
    _Atomic uint64_t seen;     /* so many were meant; counts up */
};
struct rt_test_io *rt_test_io(void);
