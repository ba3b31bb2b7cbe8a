/* iobuf: the pool behind rt/file.h's buffers. Inside `rt` only. */
#pragma once
#include "rt/internal.h"

void iobuf_set_limit(uint64_t bytes); /* of all that are handed out; 0: 256 MiB */
void iobuf_free_idle(struct loop *l); /* when the loop ends */
