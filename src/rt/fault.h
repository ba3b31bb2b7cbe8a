/* fault: reading a map of a file whose disk fails. The kernel says so by SIGBUS, in the middle of whatever
 * touches the page: a library (LMDB) has no error to return then. A guard turns it into one.
 *
 * Any thread, fiber or not. What runs under a guard must not switch.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Runs fn(arg). False when a fault inside [map, map + len) ended it: what fn had begun stays as it was then,
 * and nobody undoes it. Faults elsewhere kill, as without a guard. Nests. */
bool rt_guard(const void *map, size_t len, void (*fn)(void *arg), void *arg) MUST_CHECK;

/* The mapping that holds `at`; false when there is none. Reads /proc: for set-up. */
bool rt_map_range(const void *at, const void **from, size_t *len) MUST_CHECK;

/* Brings pages in, so that a later touch does not wait. Blocks: on a worker. Where the kernel is too old to be
 * asked for it, each page is touched, under a guard. ERR_IO: the disk does not give them. */
enum err rt_map_populate(const void *at, size_t len) MUST_CHECK;
