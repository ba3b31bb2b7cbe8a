/* durable: whether a batch is written and then synced, or both in one operation: what was quicker lately.
 *
 * One operation saves a turn of the loop and a thread that syncs, and is one request to the disk instead of two where that can
 * write through. But a worker of the kernel ends it, on whatever CPU the disk interrupts: where others keep that busy it comes late.
 * No option could know that, so each log measures both.
 *
 * Owner loop. All zeros is the beginning: two operations.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct sync_mode {
    uint64_t usual_ns[2]; /* of a batch as two operations, as one; 0: never seen */
    uint32_t asked;
    bool one; /* is quicker */
};

/* For the next batch; every so often the answer is the slower way, to be measured. */
bool sync_mode_as_one(struct sync_mode *d);
/* How long such a batch took. */
void sync_mode_took(struct sync_mode *d, bool one, uint64_t ns);
