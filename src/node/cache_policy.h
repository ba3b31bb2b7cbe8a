/* cache_policy: how much memory the block cache may hold now. Pure: samples in, a target out; no clock, no files.
 *
 * The cache takes memory that nothing else uses, as the kernel's page cache does, up to `most`:
 *
 *   available below the reserve              gives back what is missing, at once
 *   stalls for memory, a tenth of the time   gives back an eighth of what it holds, each time
 *   stalls, a hundredth of the time          does not grow
 *   otherwise                                grows as pieces come, until the reserve is what is left
 *
 * Stalls (PSI) of the whole machine count only while little is available: a control group that thrashes within its own
 * limit is no reason for others to give back memory. After it gave back it waits CACHE_WAIT_MS before it grows, so that
 * it does not take memory away from a program that is about to use it. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "rt/memory.h"

#define CACHE_LOOK_MS 250u  /* how often a sample is taken, */
#define CACHE_REST_MS 1000u /* and while more than half of the memory is available */
#define CACHE_WAIT_MS 5000u /* from giving back to growing */

struct cache_policy {
    uint64_t most;  /* in bytes; set at start */
    bool fixed;     /* an option says `most`: no target but that one, except for stalls */
    bool tight;     /* it gave back memory in the last step */
    uint64_t quiet; /* in ms: does not grow before */
    uint64_t at_ms, group_us, machine_us; /* of the last sample */
};
struct cache_sample {
    uint64_t at_ms; /* never decreases */
    struct rt_memory memory;
    uint64_t held;      /* by the cache */
    bool clients_tight; /* TIGHT_MEMORY: what clients make us hold nears its limit */
};
void cache_policy_init(struct cache_policy *p, uint64_t most, bool fixed);
/* The bytes that the cache may hold until the next sample: at most `most`. */
uint64_t cache_policy_step(struct cache_policy *p, const struct cache_sample *s);
/* When to take the next sample. */
unsigned cache_policy_wait_ms(const struct cache_sample *s);
/* Memory that it leaves to others: a tenth, at least 64 MiB, at most 8 GiB. */
uint64_t cache_reserve(uint64_t limit);
