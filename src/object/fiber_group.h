/* fiber_group: background fibers (prefetch, readahead) that end together when the service stops.
 *
 * Any loop; a fiber stays on the loop that started it, and is counted there.
 */
#pragma once
#include <stdbool.h>

#include "base/err.h"

struct fiber_group;                        /* of all loops */
struct fiber_group *fiber_group_new(void); /* the caller owns it */
/* Cancels all fibers, waits for their ends and lets no other start; a fiber that has not run yet is cancelled when
 * it does. On any loop. May switch. NULL is fine. */
void fiber_group_end(struct fiber_group **gp);

/* Starts at the next switch, on this loop. ERR_CANCELLED: the group is ending; ERR_BUSY: no stack is free. In both
 * cases `run` is not called. */
enum err fiber_group_spawn(struct fiber_group *g, void (*run)(void *arg),
                           void *arg) MUST_CHECK;
unsigned fiber_group_busy(const struct fiber_group *g); /* on this loop */
bool fiber_group_is_ending(const struct fiber_group *g);
