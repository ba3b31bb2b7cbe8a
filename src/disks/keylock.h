/* keylock: one at a time on a key, among fibers of all loops. Stripes by hash: two keys may share one. Held over switches,
 * for as long as one object is written or moved; waiting can't be cancelled.
 */
#pragma once
#include <stdint.h>

#include "rt/loop.h"

struct keylocks;
struct keylocks *keylocks_new(void);
void keylocks_free(struct keylocks **lp); /* nothing is held; NULL is fine */

/* May switch. */
void keylock_take(struct keylocks *l, uint64_t key_hash);
/* Any fiber; the next one that waits has it. */
void keylock_release(struct keylocks *l, uint64_t key_hash);
