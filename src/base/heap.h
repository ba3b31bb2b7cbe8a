/* heap: a 4-ary min-heap of 64-bit keys. Nodes are embedded in what they stand for and
 * know their place, so any of them leaves or moves in O(log n). Four children a node:
 * half the depth of a binary heap, and the keys of siblings share a cache line. Equal
 * keys come out in any order. One loop or thread at a time.
 *
 * Memory: the heap owns its array, which grows and is never shrunk; it borrows the nodes.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_node {
    size_t place; /* 1 + index; 0: in no heap, so zeroed memory is ready */
};
struct heap {
    struct heap_entry {
        uint64_t key;
        struct heap_node *node;
    } * entries;
    size_t count, room;
};

void heap_init(struct heap *h);
void heap_fini(struct heap *h); /* nodes still in it become free ones */
void heap_push(struct heap *h, struct heap_node *n, uint64_t key); /* n is in no heap */
void heap_remove(struct heap *h, struct heap_node *n);             /* twice is fine */
void heap_move(struct heap *h, struct heap_node *n,
               uint64_t key);               /* gives n another key */
struct heap_node *heap_pop(struct heap *h); /* NULL when empty */
static inline bool
heap_has(const struct heap_node *n)
{
    return n->place != 0;
}
/* The least key, UINT64_MAX when empty. */
static inline uint64_t
heap_least(const struct heap *h)
{
    return h->count > 0 ? h->entries[0].key : UINT64_MAX;
}
static inline struct heap_node *
heap_first(const struct heap *h)
{
    return h->count > 0 ? h->entries[0].node : NULL;
}
