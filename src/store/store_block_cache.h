/* store_block_cache: the block cache of a node, shared by its stores
 * (store_options.block_cache). */
#pragma once
#include <stdint.h>

struct block_cache;
struct block_cache *block_cache_new(
    uint64_t bytes);                            /* NULL when 0 or too small for a piece */
void block_cache_free(struct block_cache **hp); /* nothing is pinned */
/* Evicts pieces until about `bytes` are returned to the system; fewer if too many are pinned.
 * Any thread; slow: use a worker. */
void block_cache_shrink(struct block_cache *h, uint64_t bytes);
/* The bytes that the cache may hold from now on, at most what it was made for: it grows up to
 * there as pieces come, and returns what it holds beyond. Any thread, one at a time; slow: use a
 * worker. */
void block_cache_set_target(struct block_cache *h, uint64_t bytes);
uint64_t block_cache_target(const struct block_cache *h);
uint64_t block_cache_held(const struct block_cache *h);  /* memory behind the arena */
uint64_t block_cache_bytes(const struct block_cache *h); /* bytes of the cached pieces */
