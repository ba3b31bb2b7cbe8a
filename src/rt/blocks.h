/* blocks: huge pages from which a loop cuts its buffers for large reads (iobuf.c). Inside `rt` only.
 *
 * A block has places of 64 KiB; a buffer takes 1, 2, 4 or 8 of them. Released places are reused, from the fullest
 * blocks first, so that other blocks become empty. Empty blocks stay as long as the loop keeps idle memory, and are
 * then unmapped whole: returning part of a huge page does not help the system before memory is short. When only
 * parts are left to return, they are returned all the same.
 *
 * Everything belongs to the loop except block_put(), which any thread may call, also after the loop's end. The loop
 * sees such releases when it looks for room. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/list.h"

#define BLOCKS_LEAST (64u << 10) /* of a buffer; below, pinning gains nothing */
#define BLOCKS_MOST  (512u << 10)

struct loop;
struct block;
struct blocks { /* zeros at first */
    struct list
        roomy; /* blocks with a free place: the one that was full most recently first, empty ones last */
    struct list full; /* as of the loop's last look */
    uint64_t idle;    /* bytes of free places whose pages stay */
};

/* `room`: a power of two from BLOCKS_LEAST to BLOCKS_MOST. NULL: there is no memory. */
char *blocks_cut(struct blocks *bs, size_t room, struct block **of);
/* Releases a place; *b may be gone then. */
void block_put(struct block *b, char *at, size_t room);
/* The same, by the loop itself. */
void blocks_recycle(struct blocks *bs, struct block *b, char *at, size_t room);
/* Shrinks `idle`. False: nothing to release, or the ring cannot release its slot now. */
bool blocks_shrink(struct loop *l, struct blocks *bs);
/* Where the ring's slot number for the whole block is kept (iobuf_slot()). NULL: the block must not be registered. */
uint32_t *block_slot(struct block *b, struct iovec *memory);
/* At the loop's end. Buffers in use stay until they are put. */
void blocks_end(struct blocks *bs);
uint64_t blocks_bytes(void); /* of all loops, including parts that were returned */
