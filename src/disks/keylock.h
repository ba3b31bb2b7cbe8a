/* keylock: one fiber at a time per key, among fibers of all loops. Stripes by hash: two keys may
 * share one. Held across switches, for as long as one object is written or moved. The wait can't
 * be cancelled.
 */
#pragma once
#include <stdint.h>

#include "rt/loop.h"

struct keylocks;
struct keylocks *keylocks_new(void);
void keylocks_free(struct keylocks **lp); /* nothing is held; NULL is fine */

/* May switch. */
void keylock_take(struct keylocks *l, uint64_t key_hash);
/* Any fiber; the lock passes to the next waiter. */
void keylock_release(struct keylocks *l, uint64_t key_hash);
