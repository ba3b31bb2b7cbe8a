/* fiber_group: fibers that nobody waits for, which fetch or ask ahead, and end together when the service does.
 *
 * Any loop; a fiber stays on the one that began it, and is counted there.
 */
#pragma once
#include <stdbool.h>

#include "base/err.h"

struct fiber_group;                        /* of all loops */
struct fiber_group *fiber_group_new(void); /* the caller owns it */
/* Cancels all of them, those that have not begun as soon as they do, and waits for their ends; none begins any more. On any
 * loop. May switch. NULL is fine. */
void fiber_group_end(struct fiber_group **gp);

/* At the next switch, on this loop. ERR_CANCELLED: the group ends; ERR_BUSY: no stack. Then `run` is not called. */
enum err fiber_group_spawn(struct fiber_group *g, void (*run)(void *arg),
                           void *arg) MUST_CHECK;
unsigned fiber_group_busy(const struct fiber_group *g); /* of this loop */
bool fiber_group_is_ending(const struct fiber_group *g);
