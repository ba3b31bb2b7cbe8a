#include "rt/blocks.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "rt/bigmem.h"
#include "rt/internal.h"
#include "rt/sanitize.h"

/* With ASan, a gap behind each buffer catches writes past its end. */
#define BLOCK  (2u << 20)
#define PLACE  (BLOCKS_LEAST + (FB_ASAN ? 4096u : 0u))
#define PLACES (BLOCK / PLACE)
#define ALL    ((uint32_t)((UINT64_C(1) << PLACES) - 1))
#define OURS   (UINT64_C(1) << 63) /* in block.taken: the loop's reference */

struct block {
    struct list link;       /* blocks.roomy or .full */
    char *at;               /* owned */
    uint32_t slot;          /* block_slot() */
    uint32_t held;          /* taken places as of the loop's last look */
    uint32_t gone;          /* free places whose pages were returned */
    bool torn;              /* some were: its pages are small pages now */
    _Atomic uint64_t taken; /* places as bits, and OURS; 0: unused, to be freed */
};

static_assert(PLACES <= 32, "a bit per place");
static_assert(BLOCKS_MOST / BLOCKS_LEAST <= 8,
              "the alignments that blocks_find_free() knows");

static _Atomic uint64_t bytes;

uint64_t
blocks_bytes(void)
{
    return bytes;
}

/* ---- one block ---- */

static void
block_release(struct block *b, uint64_t bits)
{
    uint64_t before = atomic_fetch_and(&b->taken, ~bits);

    assert((before & bits) == bits); /* nothing is released twice */
    if ((before & ~bits) != 0)
        return;
    ASAN_CLEAN(b->at, BLOCK);
    bigmem_free(b->at, BLOCK);
    free(b);
    atomic_fetch_sub(&bytes, BLOCK);
}

static struct block *
block_new_for(struct blocks *bs)
{
    char *at = bigmem_try(BLOCK);
    struct block *b;

    if (at == NULL)
        return NULL;
    ASAN_POISON(at, BLOCK);
    atomic_fetch_add(&bytes, BLOCK);
    b = xcalloc(1, sizeof *b);
    b->at = at;
    b->taken = OURS;
    bs->idle += (uint64_t)PLACES * BLOCKS_LEAST;
    list_push_front(&bs->roomy, &b->link);
    return b;
}

static uint64_t
blocks_mask_bytes(uint32_t places)
{
    return (uint64_t)(unsigned)__builtin_popcount(places) * BLOCKS_LEAST;
}

static uint32_t
idle_places(const struct block *b)
{
    return ALL & ~b->held & ~b->gone;
}

/* `count` places from `first` on. */
static uint32_t
blocks_mask(unsigned first, unsigned count)
{
    assert(count > 0);
    assert(first + count <= PLACES);
    return ((1u << count) - 1) << first;
}

static uint32_t
blocks_mask_at(const struct block *b, const char *at, size_t room)
{
    return blocks_mask((unsigned)((size_t)(at - b->at) / PLACE),
                       (unsigned)(room / BLOCKS_LEAST));
}

/* The first of `count` free places, which begin at a multiple of it; -1: there are none. */
static int
blocks_find_free(uint32_t free, unsigned count)
{
    static const uint32_t begins[] = {
        [1] = UINT32_MAX, [2] = 0x55555555, [4] = 0x11111111, [8] = 0x01010101};

    for (unsigned step = 1; step < count; step *= 2)
        free &= free >> step;
    free &= begins[count];
    return free != 0 ? __builtin_ctz(free) : -1;
}

/* ---- of one loop ---- */

/* Adds places that other threads have released to the idle ones. */
static void
block_refresh(struct blocks *bs, struct block *b)
{
    uint32_t now = (uint32_t)atomic_load(&b->taken), freed = b->held & ~now;
    bool was_full = b->held == ALL;

    if (freed == 0)
        return;
    b->held = now;
    bs->idle += blocks_mask_bytes(freed);
    if (now != 0 && !was_full)
        return;
    list_remove(&b->link);
    if (now == 0)
        list_push_back(&bs->roomy, &b->link);
    else
        list_push_front(&bs->roomy, &b->link);
}

static void
blocks_refresh_all(struct blocks *bs)
{
    LIST_EACH(&bs->full, n)
    block_refresh(bs, LIST_ENTRY(n, struct block, link));
    LIST_EACH(&bs->roomy, n)
    block_refresh(bs, LIST_ENTRY(n, struct block, link));
}

static char *
blocks_mark_taken(struct blocks *bs, struct block *b, unsigned first, unsigned count)
{
    uint32_t mine = blocks_mask(first, count);
    char *at = b->at + (size_t)first * PLACE;

    bs->idle -= blocks_mask_bytes(mine & ~b->gone);
    assert((b->held & mine) == 0);
    b->gone &= ~mine;
    b->held |= mine;
    atomic_fetch_or(&b->taken, mine);
    if (b->held == ALL) {
        list_remove(&b->link);
        list_push_back(&bs->full, &b->link);
    }
    ASAN_CLEAN(at, (size_t)count * BLOCKS_LEAST);
    return at;
}

/* From the first block with room; `also_gone`: also places without pages. */
static char *
blocks_cut_from_any(struct blocks *bs, unsigned count, bool also_gone, struct block **of)
{
    LIST_EACH(&bs->roomy, n)
    {
        struct block *b = LIST_ENTRY(n, struct block, link);
        int first = blocks_find_free(idle_places(b) | (also_gone ? b->gone : 0), count);

        if (first < 0)
            continue;
        *of = b;
        return blocks_mark_taken(bs, b, (unsigned)first, count);
    }
    return NULL;
}

char *
blocks_cut(struct blocks *bs, size_t room, struct block **of)
{
    unsigned count = (unsigned)(room / BLOCKS_LEAST);
    char *at;

    assert(room >= BLOCKS_LEAST);
    assert(room <= BLOCKS_MOST);
    assert((room & (room - 1)) == 0);
    if (bs->roomy.next == NULL) {
        list_init(&bs->roomy);
        list_init(&bs->full);
    }
    at = blocks_cut_from_any(bs, count, false, of);
    if (at != NULL)
        return at;
    blocks_refresh_all(bs);
    at = blocks_cut_from_any(bs, count, true, of);
    if (at == NULL && block_new_for(bs) != NULL)
        at = blocks_cut_from_any(bs, count, false, of);
    return at;
}

void
block_put(struct block *b, char *at, size_t room)
{
    ASAN_POISON(at, room);
    block_release(b, blocks_mask_at(b, at, room));
}

/* False: the ring still uses its slot. */
static bool
block_unregister(struct loop *l, struct block *b)
{
    if (b->slot != 0 && !l->ops->forget_slot(l, b->slot))
        return false;
    b->slot = 0;
    return true;
}

/* Unlinks a block without users and drops the loop's reference. */
static void
block_unlink(struct blocks *bs, struct block *b)
{
    assert(b->held == 0);
    assert(b->slot == 0);
    bs->idle -= blocks_mask_bytes(idle_places(b));
    list_remove(&b->link);
    block_release(b, OURS);
}

/* Returns the pages of idle places to the system. */
static void
block_punch_idle(struct blocks *bs, struct block *b)
{
    uint32_t left = idle_places(b);

    bs->idle -= blocks_mask_bytes(left);
    assert((b->gone & left) == 0);
    b->gone |= left;
    b->torn = true;
    while (left != 0) {
        unsigned first = (unsigned)__builtin_ctz(left);
        unsigned count = (unsigned)__builtin_ctz(~(left >> first));

        (void)madvise(b->at + (size_t)first * PLACE, (size_t)count * PLACE,
                      MADV_DONTNEED);
        left &= ~blocks_mask(first, count);
    }
}

/* A torn block that becomes empty is freed: it is no huge page any more. Other blocks may have become empty by other
 * threads. */
void
blocks_recycle(struct blocks *bs, struct block *b, char *at, size_t room)
{
    block_put(b, at, room);
    block_refresh(bs, b);
    if (b->held != 0)
        return;
    blocks_refresh_all(bs);
    if (b->torn)
        block_unlink(bs, b);
}

/* The block with the fewest taken places, of those with idle ones. */
static struct block *
blocks_emptiest(struct blocks *bs)
{
    struct block *least = NULL;

    LIST_EACH(&bs->roomy, n)
    {
        struct block *b = LIST_ENTRY(n, struct block, link);

        if (idle_places(b) != 0 && (least == NULL || __builtin_popcount(b->held) <
                                                         __builtin_popcount(least->held)))
            least = b;
    }
    return least;
}

bool
blocks_shrink(struct loop *l, struct blocks *bs)
{
    struct block *b;

    if (bs->idle == 0)
        return false;
    b = blocks_emptiest(bs);
    assert(b != NULL);
    if (!block_unregister(l, b))
        return false;
    if (b->held == 0)
        block_unlink(bs, b);
    else
        block_punch_idle(bs, b);
    return true;
}

/* A torn block is no huge page: pinned, it would get all its pages again. */
uint32_t *
block_slot(struct block *b, struct iovec *memory)
{
    *memory = (struct iovec){b->at, BLOCK};
    return b->torn ? NULL : &b->slot;
}

void
blocks_end(struct blocks *bs)
{
    if (bs->roomy.next == NULL)
        return;
    LIST_EACH(&bs->full, n)
    block_release(LIST_ENTRY(n, struct block, link), OURS);
    LIST_EACH(&bs->roomy, n)
    block_release(LIST_ENTRY(n, struct block, link), OURS);
    *bs = (struct blocks){0};
}
