/* pace: bytes a second of what is brought for readers to come, for all fetches of one job together, below one object too. Any thread;
 * the last reference frees it. */
#pragma once
#include <stdint.h>

struct pace;
struct pace *pace_new(uint64_t bytes_per_s); /* 0: as fast as it comes */
struct pace *pace_ref(struct pace *p);
void pace_drop(struct pace **pp); /* NULL is fine */
/* So many bytes came at `now_ns`: until when the next have to wait, in the time of rt_now_ns(). */
uint64_t pace_spent(struct pace *p, uint64_t now_ns, uint64_t bytes);
/* The same without taking any. */
uint64_t pace_due(const struct pace *p);
