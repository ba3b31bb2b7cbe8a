/* limits: what this process may use, besides memory (rt/memory.h). Small reads of /proc: for start-up. Any thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* Descriptors: the limit, to which rt_run() raises it, and how many are open. */
uint64_t rt_descriptors_max(void);
uint64_t rt_descriptors_open(void);
/* ERR_UNAVAILABLE with a sentence: too few descriptors, or no file may have `file_bytes`. A write beyond the limit of a file's
 * size is an error from now on, and no signal. */
#define DESCRIPTORS_LEAST UINT64_C(48)
enum err rt_limits_check(uint64_t file_bytes, struct errbuf *eb) MUST_CHECK;
unsigned rt_cpus(void); /* of the affinity mask */
