/* machine: memory and load of the machine, as the kernel tells them. Any thread; does not wait. */
#pragma once
#include <stdint.h>

struct rt_machine {
    uint64_t memory_bytes, available_bytes;
    unsigned cpus;  /* at least 1 */
    double load[3]; /* of the last 1, 5 and 15 minutes */
};
void rt_machine_now(struct rt_machine *out);
