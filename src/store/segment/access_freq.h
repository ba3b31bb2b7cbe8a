/* access_freq: how often objects of each cached segment were read lately, for eviction. Two counters a segment, of this window and of
 * the one before; saved nowhere: after a start everything is cold until it is read.
 *
 * Counting: any loop, no lock. access_freq_rotate(): one caller at a time.
 */
#pragma once
#include "store/core/core.h"

/* Frequencies are in sixteenths of a read of each byte that lives. */
#define ACCESS_FREQ_READ 16u

struct access_freq;
struct access_freq *access_freq_new(void);
void access_freq_free(struct access_freq **hp); /* NULL is fine */
void access_freq_add(struct access_freq *h, uint32_t segment, uint64_t bytes);
void access_freq_rotate(struct access_freq *h);
uint32_t access_freq_of(const struct access_freq *h, uint32_t segment, uint64_t living);
