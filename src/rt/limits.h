/* limits: what this process may use, as the machine and its control groups say. Small reads of /proc and /sys: for
 * start-up. Any thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* Bytes of memory: the least of the machine's and of each control group above this process (version 1 and 2). */
uint64_t rt_memory_max(void);
/* Do processes of this control group (or of the machine) wait for memory for a tenth of their time? Any thread. */
bool rt_memory_pressed(void);
/* Descriptors: the limit, to which rt_run() raises it, and how many are open. */
uint64_t rt_descriptors_max(void);
uint64_t rt_descriptors_open(void);
