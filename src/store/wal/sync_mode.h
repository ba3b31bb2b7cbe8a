/* sync_mode: chooses between writing a batch and then syncing it, and doing both in one
 * operation. It picks the mode that was faster lately.
 *
 * One operation saves a loop iteration and a sync thread, and is a single request to a disk that
 * can write through. But a kernel worker completes it, on the CPU that handles the disk's
 * interrupt; on a busy CPU that is late. No fixed option fits every machine, so each log
 * measures both modes.
 *
 * Owner loop. All zeros is the initial state: two operations.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct sync_mode {
    uint64_t usual_ns[2]; /* batch time as two operations, as one; 0: unknown */
    uint32_t asked;
    bool one; /* one operation is faster */
};

/* Returns the mode for the next batch. Now and then it returns the slower mode, to measure it. */
bool sync_mode_as_one(struct sync_mode *d);
/* Records how long a batch took in that mode. */
void sync_mode_took(struct sync_mode *d, bool one, uint64_t ns);
