/* durable: whether a group is written and then synced, or both in one operation: what was quicker lately.
 *
 * One operation saves a turn of the loop and a thread that syncs, and is one request to the disk instead of two where that can
 * write through. But a worker of the kernel ends it, on whatever CPU the disk interrupts: where others keep that busy it comes late.
 * No option could know that, so each log measures both.
 *
 * Home loop. All zeros is the beginning: two operations.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct durable {
    uint64_t usual_ns[2]; /* of a group as two operations, as one; 0: never seen */
    uint32_t asked;
    bool one; /* is quicker */
};

/* For the next group; every so often the answer is the slower way, to be measured. */
bool durable_as_one(struct durable *d);
/* How long such a group took. */
void durable_took(struct durable *d, bool one, uint64_t ns);
