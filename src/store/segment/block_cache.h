/* block_cache: verified bytes that were read twice, kept in memory and sent with no second look (decision D5;
 * docs/decisions/0001-hot-set.md).
 *
 * One anonymous arena of a fixed size for the disk, touched only as it fills. Pieces are whole aligned ranges
 * of BLOCK_CACHE_PIECE bytes of a body (the last may be shorter), keyed by content id and piece number. Readers of any
 * loop find and pin without a lock; adding takes a lock by trying, and does nothing when it is taken: it
 * is only a cache. The place of a pinned piece is not reused. CLOCK over a ring.
 *
 * A NULL block cache is fine everywhere: it holds nothing.
 */
#pragma once
#include "store/store_block_cache.h"
#include "store/store_entry.h"

#define BLOCK_CACHE_PIECE (256u << 10)
/* Room in front of a piece of so many bytes, as long as it is none that is sent by reference: for the head of an answer, which then leaves with
 * the piece as one. Before smaller ones it would take too much memory. */
#define BLOCK_CACHE_FRONT      448u
#define BLOCK_CACHE_FRONT_FROM (8u << 10)

struct block_cache;
struct block_cache *block_cache_new(
    uint64_t bytes);                            /* NULL when 0 or too small for a piece */
void block_cache_free(struct block_cache **hp); /* nothing is pinned */

struct block_cache_pin {
    const char *at; /* NULL: none */
    uint32_t len;
    uint32_t entry;
    uint32_t
        front; /* so many bytes before `at` are this pin's alone, to be written over */
};
/* True: the piece, pinned until block_cache_unpin(). May be held over switches, by anybody. Counts M_BLOCK_CACHE. */
bool block_cache_get(struct block_cache *h, const struct content_id *id, uint64_t piece,
                     struct block_cache_pin *out);
/* The same for a piece that was in `entry` a while ago: looks there only. Who is the first to pin it gets the room in front. */
bool block_cache_get_at(struct block_cache *h, uint32_t entry,
                        const struct content_id *id, uint64_t piece,
                        struct block_cache_pin *out);
/* Asks for the memory that this looks at, and for the room in front of a piece of `len` bytes that was at `at`. */
void block_cache_prefetch(const struct block_cache *h, uint32_t entry, const char *at,
                          uint32_t len);
/* Pieces that stand behind one that the caller has pinned, as many as there are in an entry from `first` on: pinned until
 * block_cache_unpin_more(). All such pins together hold no more than a quarter of the memory, so slow readers cannot pin all of it. Counts M_BLOCK_CACHE. */
unsigned block_cache_get_more(struct block_cache *h, const struct content_id *id,
                              uint64_t first, struct block_cache_pin *out, unsigned max);
void block_cache_unpin_more(struct block_cache *h, struct block_cache_pin *pins,
                            unsigned count);
/* Is it probably there? Counts nothing. NULL: no. */
bool block_cache_has(struct block_cache *h, const struct content_id *id, uint64_t piece);
void block_cache_unpin(
    struct block_cache *h,
    struct block_cache_pin *pin); /* any thread; twice is fine: at is NULL afterwards */

/* A read of this piece goes to the disk. True when it is not the first one of late: then read the whole piece,
 * verify it and give it to block_cache_add(). Once there is no free room "of late" is while a quarter of the pieces in it would be read. */
bool block_cache_wants(struct block_cache *h, const struct content_id *id,
                       uint64_t piece);
/* Copies verified bytes in; drops them when there is no place now. `len` at most BLOCK_CACHE_PIECE. */
void block_cache_add(struct block_cache *h, const struct content_id *id, uint64_t piece,
                     const void *bytes, uint32_t len);
