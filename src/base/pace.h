/* pace: a rate limit in bytes per second, shared by all fetches of one prefetch job, also within one object. Any
 * thread; the last reference frees it. */
#pragma once
#include <stdint.h>

struct pace;
struct pace *pace_new(uint64_t bytes_per_s); /* 0: no limit */
struct pace *pace_ref(struct pace *p);
void pace_drop(struct pace **pp); /* NULL is fine */
/* Counts bytes that arrived at `now_ns` and returns until when the next must wait, in the time of rt_now_ns(). */
uint64_t pace_spent(struct pace *p, uint64_t now_ns, uint64_t bytes);
/* The same without counting any. */
uint64_t pace_due(const struct pace *p);
