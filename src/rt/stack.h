/* stack: the stacks of one loop's fibers, cut from one mapping, each over a guard page;
 * reused last in first out. The struct fiber lies at the top of its stack. Only the
 * loop's thread enters. Inside `rt` only. */
#pragma once
#include "rt/internal.h"

/* fibers_max 0: as many as the kernel allows, at most FIBERS_MOST. */
#define FIBERS_MOST 65536u
enum err stacks_init(struct stacks *st, unsigned fibers_max, unsigned loops,
                     struct errbuf *eb) MUST_CHECK;
void stacks_fini(struct stacks *st);
/* NULL: all are in use. Only the fields of the stack itself are set in the result. */
struct fiber *stacks_get(struct stacks *st);
void stacks_put(struct stacks *st, struct fiber *f);
/* Does an address lie in a guard page? For the handler of SIGSEGV. */
bool stacks_in_guard(const struct stacks *st, const void *address);
