/* blocks: huge pages that a loop cuts its buffers for large reads from (iobuf.c). Inside `rt` only.
 *
 * A block is of places of 64 KiB, and a buffer takes 1, 2, 4 or 8 of them. What is given back is cut again, of the fullest
 * blocks first, so that others become empty. Those stay as long as the loop keeps idle memory, and are unmapped whole
 * then: a part of a huge page that is given back does the system no good before memory is short. When only parts are left
 * to give back they are all the same.
 *
 * All is the loop's own but block_put(), which any thread may call, after the loop's end as well. What others put the loop
 * polling of when it looks for room. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/list.h"

#define BLOCKS_LEAST                                                                     \
    (64u << 10) /* of a buffer: below, pinning costs nothing against the rest */
#define BLOCKS_MOST (512u << 10)

struct loop;
struct block;
struct blocks { /* zeros at first */
    struct list
        roomy; /* those with a free place: the latest that was full first, empty ones last */
    struct list full; /* as far as the loop knows */
    uint64_t idle;    /* bytes of places that nobody has, and whose pages stay */
};

/* `room`: a power of two from BLOCKS_LEAST to BLOCKS_MOST. NULL: there is no memory. */
char *blocks_cut(struct blocks *bs, size_t room, struct block **of);
/* Gives a place back; *b may be gone then. */
void block_put(struct block *b, char *at, size_t room);
/* The same, by the loop itself. */
void blocks_recycle(struct blocks *bs, struct block *b, char *at, size_t room);
/* Makes `idle` less. False: there is nothing, or the ring cannot forget it now. */
bool blocks_shrink(struct loop *l, struct blocks *bs);
/* Where the ring's slot of all of it is noted (iobuf_slot()). NULL: it shall have none. */
uint32_t *block_slot(struct block *b, struct iovec *memory);
/* When the loop ends. What is in use stays until it is put. */
void blocks_end(struct blocks *bs);
uint64_t blocks_bytes(void); /* of all loops, what was given back in parts included */
