/* access_freq: how often readers lately read the objects of each cached segment; eviction uses
 * it. Each segment has two counters: for the current window and for the one before. Nothing is
 * saved: after a start every segment counts as cold until it is read.
 *
 * Counting: any loop, no lock. access_freq_rotate(): one caller at a time.
 */
#pragma once
#include "store/core/core.h"

/* Frequencies are in sixteenths of a read of each live byte. */
#define ACCESS_FREQ_READ 16u

struct access_freq;
struct access_freq *access_freq_new(void);
void access_freq_free(struct access_freq **hp); /* NULL is fine */
void access_freq_add(struct access_freq *h, uint32_t segment, uint64_t bytes);
void access_freq_rotate(struct access_freq *h);
uint32_t access_freq_of(const struct access_freq *h, uint32_t segment, uint64_t living);
