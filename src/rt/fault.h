/* fault: reading a map of a file whose disk fails, or returns other bytes than were written. In the first case the
 * kernel sends SIGBUS in the middle of the access; in the second a library that trusts its pages (LMDB) may follow
 * them to any address, which ends in SIGSEGV. Neither can return an error. A guard turns both into one.
 *
 * Any thread, fiber or not. Code under a guard must not switch. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Runs fn(arg), which should only call that library. False when SIGBUS in [map, map + len), or a SIGSEGV anywhere,
 * ended it: what fn had begun is not undone. SIGBUS elsewhere kills the process, as without a guard. Nests: a
 * SIGSEGV ends the innermost guard. */
bool rt_guard(const void *map, size_t len, void (*fn)(void *arg), void *arg) MUST_CHECK;

/* Ends the innermost guard of this thread as a fault does: for a library that would end the process when it rejects
 * its pages. Without a guard it ends the process. */
_Noreturn void rt_guard_leave(void);

/* Whether all of it is resident, so that reading it does not wait for a disk. Always true in the simulator. Does not
 * block. */
bool rt_map_is_here(const void *at, size_t len) MUST_CHECK;

/* The mapping that holds `at`; false when there is none. Reads /proc: for set-up. */
bool rt_map_range(const void *at, const void **from, size_t *len) MUST_CHECK;

/* Reads pages in, so that later accesses do not wait. Blocks: call it on a worker. On kernels without the advice
 * each page is touched under a guard. ERR_IO: the disk failed. ERR_BUSY: no memory. */
enum err rt_map_populate(const void *at, size_t len) MUST_CHECK;
