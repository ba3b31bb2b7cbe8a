/* arena: memory that dies with the request. Bump allocation in blocks; reset keeps the first block.
 *
 * One loop or thread at a time. An arena has a limit; beyond it arena_try() answers NULL (the caller says
 * ERR_BUSY or ERR_TOO_LARGE) and arena_alloc() stops the process, so what a peer sizes uses arena_try().
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct arena;

struct arena *arena_new(size_t first_block, size_t limit);
void arena_free(struct arena **ap);                 /* NULL is fine */
void arena_reset(struct arena *a);                  /* everything given out is gone */
void *arena_alloc(struct arena *a, size_t size);    /* zeroed, aligned to 16 */
void *arena_try(struct arena *a, size_t size);      /* the same; NULL beyond the limit */
char *arena_strdup(struct arena *a, struct span s); /* NUL-terminated copy */
struct span arena_span(struct arena *a, struct span s);
char *arena_printf(struct arena *a, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#ifdef FB_TEST_HOOKS
/* The nth arena_try() of the process from now on (from 1) answers NULL, as if its arena had come to its limit; 0: none. Restarts
 * the count. Any thread. */
void arena_test_refuse(uint64_t nth);
uint64_t arena_test_tries(void); /* asked for since then */
#endif
