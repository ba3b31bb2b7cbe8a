#include "object/admission.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"

#define COUNT_MAX     255u
#define MORE_WANTED   2u /* reads that a newcomer must be ahead of the segment it evicts */
#define WINDOW_ROUNDS 4u /* window: reads per object that fits */
#define WINDOW_LEAST  256u
#define CELLS         ((size_t)ADMISSION_ROWS * ADMISSION_WIDTH)

void
admission_init(struct admission *a)
{
    *a = (struct admission){0};
    for (unsigned i = 0; i < 2; i++)
        a->counts[i] = xcalloc(CELLS, sizeof **a->counts);
    assert(a->counts[1] != NULL);
}

void
admission_fini(struct admission *a)
{
    for (unsigned i = 0; i < 2; i++) {
        free((void *)a->counts[i]);
        a->counts[i] = NULL;
    }
}

/* The counter of a key in one row: each row uses other bits of the hash. */
static size_t
cell(uint64_t hash, unsigned row)
{
    uint64_t mixed = (hash ^ (hash >> 29)) * (0x9e3779b97f4a7c15u + 2 * (uint64_t)row);

    assert(row < ADMISSION_ROWS);
    return (size_t)row * ADMISSION_WIDTH + (size_t)(mixed >> 45);
}
static_assert(ADMISSION_WIDTH == 1u << (64 - 45), "all of a row is used");
static_assert(COUNT_MAX == UINT8_MAX, "a counter is a byte");
static_assert(WINDOW_LEAST <= ADMISSION_WIDTH, "a window fits the sketch");

static uint32_t
least(const _Atomic(uint8_t) *counts, uint64_t hash)
{
    uint32_t n = COUNT_MAX;

    for (unsigned row = 0; row < ADMISSION_ROWS; row++)
        n = MIN(n, (uint32_t)atomic_load_explicit(&counts[cell(hash, row)],
                                                  memory_order_relaxed));
    return n;
}

uint32_t
admission_seen(const struct admission *a, uint64_t key_hash)
{
    return least(a->counts[0], key_hash) + least(a->counts[1], key_hash);
}

uint32_t
admission_count(struct admission *a, uint64_t key_hash)
{
    _Atomic(uint8_t) *now =
        a->counts[atomic_load_explicit(&a->now, memory_order_relaxed)];
    uint32_t seen = admission_seen(a, key_hash), n = least(now, key_hash);

    assert(a->counts[0] != NULL);
    assert(a->counts[1] != NULL);
    assert(n <= COUNT_MAX);
    /* Conservative update: only the smallest counters are raised, the others count other keys too. */
    for (unsigned row = 0; n < COUNT_MAX && row < ADMISSION_ROWS; row++) {
        _Atomic(uint8_t) *c = &now[cell(key_hash, row)];

        if (atomic_load_explicit(c, memory_order_relaxed) == n)
            atomic_store_explicit(c, (uint8_t)(n + 1), memory_order_relaxed);
    }
    return seen;
}

bool
admission_is_wanted(const struct admission *a, uint32_t seen)
{
    uint32_t coldest = atomic_load_explicit(&a->coldest, memory_order_relaxed);

    return (uint64_t)seen * ACCESS_FREQ_ONE >=
           (uint64_t)coldest + MORE_WANTED * ACCESS_FREQ_ONE;
}

bool
admission_allows(const struct admission *a, uint32_t seen)
{
    switch ((enum admission_room)atomic_load_explicit(&a->room, memory_order_relaxed)) {
    case ROOM_NEW:
        return true;
    case ROOM_LEFT:
        return seen > 0;
    case ROOM_NONE:
        break;
    }
    return admission_is_wanted(a, seen);
}

bool
admission_stays(const struct admission *a, uint64_t key_hash, uint32_t access_freq)
{
    return (uint64_t)admission_seen(a, key_hash) * ACCESS_FREQ_ONE > access_freq;
}

uint64_t
admission_window(uint64_t objects)
{
    return MIN(MAX(WINDOW_ROUNDS * objects, WINDOW_LEAST), ADMISSION_WIDTH);
}

void
admission_rotate(struct admission *a)
{
    uint32_t next = 1 - atomic_load_explicit(&a->now, memory_order_relaxed);

    assert(next <= 1);
    for (size_t i = 0; i < CELLS; i++)
        atomic_store_explicit(&a->counts[next][i], 0, memory_order_relaxed);
    atomic_store_explicit(&a->now, next, memory_order_relaxed);
}
