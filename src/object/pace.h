/* pace: bytes a second of what is brought for readers to come, for all fetches of one job together, below one object too. Any thread;
 * the last reference frees it. */
#pragma once
#include <stdint.h>

struct object_pace;
struct object_pace *object_pace_new(uint64_t bytes_per_s); /* 0: as fast as it comes */
struct object_pace *object_pace_ref(struct object_pace *p);
void object_pace_drop(struct object_pace **pp); /* NULL is fine */
/* So many bytes came at `now_ns`: until when the next have to wait, in the time of rt_now_ns(). */
uint64_t object_pace_took(struct object_pace *p, uint64_t now_ns, uint64_t bytes);
/* The same without taking any. */
uint64_t object_pace_due(const struct object_pace *p);
