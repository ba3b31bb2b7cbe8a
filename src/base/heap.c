#include "base/heap.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"

enum { CHILDREN = 4 };

static void
set(struct heap *h, size_t index, struct heap_entry e)
{
    h->entries[index] = e;
    e.node->place = index + 1;
}

/* Finds the place of `e` from the hole at `index` towards the root; returns where it
 * went. */
static size_t
sift_up(struct heap *h, size_t index, struct heap_entry e)
{
    while (index > 0) {
        size_t parent = (index - 1) / CHILDREN;

        if (h->entries[parent].key <= e.key)
            break;
        set(h, index, h->entries[parent]);
        index = parent;
    }
    set(h, index, e);
    return index;
}

static void
sift_down(struct heap *h, size_t index, struct heap_entry e)
{
    for (;;) {
        size_t first = index * CHILDREN + 1;
        size_t end = MIN(first + CHILDREN, h->count);
        size_t least = first;

        if (first >= h->count)
            break;
        for (size_t i = first + 1; i < end; i++) {
            if (h->entries[i].key < h->entries[least].key)
                least = i;
        }
        if (h->entries[least].key >= e.key)
            break;
        set(h, index, h->entries[least]);
        index = least;
    }
    set(h, index, e);
}

/* Puts `e` where the hole at `index` is, then wherever it belongs. */
static void
settle(struct heap *h, size_t index, struct heap_entry e)
{
    if (sift_up(h, index, e) == index)
        sift_down(h, index, e);
}

void
heap_init(struct heap *h)
{
    *h = (struct heap){0};
}

void
heap_fini(struct heap *h)
{
    for (size_t i = 0; i < h->count; i++)
        h->entries[i].node->place = 0;
    free(h->entries);
    *h = (struct heap){0};
}

void
heap_push(struct heap *h, struct heap_node *n, uint64_t key)
{
    assert(!heap_has(n));
    if (h->count == h->room) {
        h->room = MAX(h->room * 2, 64);
        h->entries = xrealloc(h->entries, h->room * sizeof *h->entries);
    }
    h->count++;
    sift_up(h, h->count - 1, (struct heap_entry){key, n});
}

void
heap_remove(struct heap *h, struct heap_node *n)
{
    size_t index = n->place - 1;
    struct heap_entry last;

    if (!heap_has(n))
        return;
    assert(index < h->count);
    assert(h->entries[index].node == n);
    n->place = 0;
    last = h->entries[--h->count];
    if (index < h->count)
        settle(h, index, last);
}

void
heap_move(struct heap *h, struct heap_node *n, uint64_t key)
{
    assert(heap_has(n));
    assert(h->entries[n->place - 1].node == n);
    settle(h, n->place - 1, (struct heap_entry){key, n});
}

struct heap_node *
heap_pop(struct heap *h)
{
    struct heap_node *n = heap_first(h);

    if (n != NULL)
        heap_remove(h, n);
    return n;
}
