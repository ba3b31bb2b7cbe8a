/* memory: what this process may use of the machine's memory, and how short it is. From /proc and the control groups of
 * version 1 and 2: a dozen small files, so for start-up and for workers. Any thread.
 *
 * With test hooks, FOREBAY_TEST_MEMORY names a folder that stands for "/": its proc/meminfo, proc/self/cgroup,
 * proc/pressure/memory and sys/fs/cgroup are read instead. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct rt_memory {
    uint64_t machine; /* bytes of the machine */
    uint64_t
        limit; /* the least of the machine's and of the limits of each control group above this process */
    /* Bytes that this process can take before something other than page cache has to go: the least of the machine's
     * (MemAvailable) and of each group's. */
    uint64_t available;
    /* Microseconds in which some process waited for memory, since their counting began: of this process's control
     * group, and of the machine. 0 where the kernel does not count. */
    uint64_t group_stalled_us, machine_stalled_us;
};
void rt_memory_look(struct rt_memory *out);
void rt_memory_look_at(const char *root, struct rt_memory *out); /* "": the machine */
uint64_t rt_memory_max(void);                                    /* its `limit` */
