/* block_cache: verified bytes that were read twice, kept in memory and sent without verifying
 * them again (decision D5; docs/decisions/0001 says why).
 *
 * One anonymous arena of fixed size; its memory is touched only as it fills. A piece is a whole
 * aligned range of BLOCK_CACHE_PIECE bytes of a body (the last may be shorter). Its key is the
 * content id and the piece number. Readers on any loop find and pin pieces without a lock.
 * Adding tries a lock and does nothing if another fiber holds it. The memory of a pinned piece
 * is never reused. The replacement policy is CLOCK over a ring.
 *
 * Every call accepts a NULL block cache, which is empty.
 */
#pragma once
#include "store/store_block_cache.h"
#include "store/store_entry.h"

#define BLOCK_CACHE_PIECE (256u << 10)
/* Free bytes in front of a piece of at least this size, unless the piece is sent by reference.
 * The head of a response goes there, so that head and piece leave in one write. Smaller pieces
 * have none: it would cost too much memory. */
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
        front; /* this many bytes before `at` belong to this pin and may be overwritten */
};
/* True: *pin has the piece, pinned until block_cache_unpin(). Any fiber may hold the pin across
 * switches. Counts M_BLOCK_CACHE. */
bool block_cache_get(struct block_cache *h, const struct content_id *id, uint64_t piece,
                     struct block_cache_pin *out);
/* The same for a piece that was in `entry` earlier; looks only there. The first pin of the piece
 * gets the bytes in front. */
bool block_cache_get_at(struct block_cache *h, uint32_t entry,
                        const struct content_id *id, uint64_t piece,
                        struct block_cache_pin *out);
/* Prefetches the memory of `entry`, and the bytes in front of a piece of `len` bytes that was at
 * `at`. */
void block_cache_prefetch(const struct block_cache *h, uint32_t entry, const char *at,
                          uint32_t len);
/* Pins the pieces after one that the caller has pinned, from `first` on, as far as they are in
 * the cache; until block_cache_unpin_more(). All such pins together hold at most a quarter of
 * the memory, so that slow readers cannot pin all of it. Counts M_BLOCK_CACHE. */
unsigned block_cache_get_more(struct block_cache *h, const struct content_id *id,
                              uint64_t first, struct block_cache_pin *out, unsigned max);
void block_cache_unpin_more(struct block_cache *h, struct block_cache_pin *pins,
                            unsigned count);
/* True if the piece is probably cached. Counts nothing. NULL: false. */
bool block_cache_has(struct block_cache *h, const struct content_id *id, uint64_t piece);
void block_cache_unpin(
    struct block_cache *h,
    struct block_cache_pin *pin); /* any thread; idempotent: sets at to NULL */

/* Reports a disk read of this piece. True if it was also read recently: then read the whole
 * piece, verify it and pass it to block_cache_add(). While the cache has free space, any earlier
 * read counts as recent. Once it is full, recent means: within as many reads as a quarter of the
 * cached pieces. */
bool block_cache_wants(struct block_cache *h, const struct content_id *id,
                       uint64_t piece);
/* Copies verified bytes into the cache, or drops them if there is no space now. `len` is at most
 * BLOCK_CACHE_PIECE. */
void block_cache_add(struct block_cache *h, const struct content_id *id, uint64_t piece,
                     const void *bytes, uint32_t len);
