/* spread: the same thing several times at once, on as many loops as are wanted. Fibers of loop 0. */
#pragma once
#include "base/err.h"

/* `i` counts from 0; runs on loop i % loops. */
typedef enum err spread_fn(void *arg, unsigned i, struct errbuf *eb);
/* fn(arg, 0) to fn(arg, count - 1). Returns when all have ended; the first that fails cancels the others, and its code and
 * sentence are the result. Cancelled: all are. May switch. */
enum err spread_run(unsigned count, unsigned loops, spread_fn *fn, void *arg,
                    struct errbuf *eb) MUST_CHECK;
