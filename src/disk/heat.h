/* heat: how often objects of each cached segment were read lately, for eviction. Two counters a segment, of this window and of
 * the one before; saved nowhere: after a start everything is cold until it is read.
 *
 * Counting: any loop, no lock. heat_rotate(): one caller at a time.
 */
#pragma once
#include "disk/internal.h"

/* Heats are in sixteenths of a read of each byte that lives. */
#define HEAT_READ 16u

struct heat;
struct heat *heat_new(void);
void heat_free(struct heat **hp); /* NULL is fine */
void heat_add(struct heat *h, uint32_t segment, uint64_t bytes);
void heat_rotate(struct heat *h);
uint32_t heat_of(const struct heat *h, uint32_t segment, uint64_t living);
