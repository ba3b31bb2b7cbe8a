/* limits: what this process may use, besides memory (rt/memory.h). Small reads of /proc: for start-up. Any thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

/* Descriptors: the limit, to which rt_run() raises it, and how many are open. */
uint64_t rt_descriptors_max(void);
uint64_t rt_descriptors_open(void);
unsigned rt_cpus(void); /* of the affinity mask */
