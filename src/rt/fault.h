/* fault: reading a map of a file whose disk fails, or gives other bytes than were written. The kernel says the first by SIGBUS, in
 * the middle of whatever touches the page; the second leads a library that trusts its pages (LMDB) to any address, which ends
 * in SIGSEGV. Neither has an error to return then. A guard turns both into one.
 *
 * Any thread, fiber or not. What runs under a guard must not switch.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Runs fn(arg), which does little else than to ask that library. False when a page of [map, map + len) that cannot be had
 * (SIGBUS), or an address that is none (SIGSEGV), ended it: what fn had begun stays as it was then, and nobody undoes it. SIGBUS
 * elsewhere kills, as without a guard. Nests: a SIGSEGV ends the innermost. */
bool rt_guard(const void *map, size_t len, void (*fn)(void *arg), void *arg) MUST_CHECK;

/* Ends the innermost guard of this thread as a fault does: for a library that would end the process where it does not believe its
 * pages. Without a guard it ends the process. */
_Noreturn void rt_guard_leave(void);

/* Is all of it in memory, as far as can be told? A touch of it waits for no disk then. In the simulation it always is. Does not block. */
bool rt_map_is_here(const void *at, size_t len) MUST_CHECK;

/* The mapping that holds `at`; false when there is none. Reads /proc: for set-up. */
bool rt_map_range(const void *at, const void **from, size_t *len) MUST_CHECK;

/* Brings pages in, so that a later touch does not wait. Blocks: on a worker. Where the kernel is too old to be
 * asked for it, each page is touched, under a guard. ERR_IO: the disk does not give them. ERR_BUSY: there is no memory
 * for them. */
enum err rt_map_populate(const void *at, size_t len) MUST_CHECK;
