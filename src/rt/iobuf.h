/* iobuf: the pool behind rt/file.h's buffers. Inside `rt` only. */
#pragma once
#include <sys/uio.h>

#include "rt/internal.h"

void iobuf_set_limit(uint64_t bytes); /* of all that are handed out; 0: 256 MiB */
void iobuf_free_idle(struct loop *l); /* when the loop ends, and its engine has */
/* Where the engine notes the slot, from 1, under which this loop's ring knows the buffer (0: it does not yet), and the memory
 * that the slot is to stand for: the buffer, or what it was cut from. NULL: not a buffer that this loop reads into again and
 * again. */
uint32_t *iobuf_slot(struct iobuf *b, struct iovec *memory);
