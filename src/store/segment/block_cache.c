#include "store/segment/block_cache.h"

#include <assert.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/account.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "rt/bigmem.h"
#include "rt/sendable.h"
#include "store/store_block_cache.h"
#include "store/store_entry.h"

#define WAYS 8u /* places in the table for a piece */
/* Average assumed for the table's size. A large cache assumes larger pieces: its table would take
 * several GiB otherwise, for objects of 8 KiB that few such sets consist of. */
#define BYTES_A_PIECE       KIB(8)
#define BYTES_A_LARGE_PIECE KIB(32)
#define LARGE_CACHE         GIB(16)
#define ALIGN               64u /* of extents: a head never crosses a cache line */
#define PAGE                SENDABLE_PAGE
#define STEPS_MAX           256u /* limit of extents visited for one place */
#define CHANCES_MAX         64u  /* limit of those spared because they were read lately */
#define WINDOW_SHARE                                                                     \
    4u /* of the pieces in it: so many reads of the disk are "of late" once it is full */
#define MORE_SHARE    4u   /* of the memory, for pins of block_cache_get_more() */
#define SEEK_MAX      256u /* extents visited for one that the kernel has yet to back */
#define RELEASE_BYTES MIB(8)
#define HOLES         16u
#define LOCK_TRIES    10000u
#define GROW_STEP     MIB(4) /* room for less than this does not count as room */
#define LUCKY_ONE                                                                        \
    32u /* reads of the disk, of which one is wanted in any case when it is not the first */

/* The state of a piece, in one word, so that readers pin by compare-and-swap. */
#define READY       1u  /* may be pinned */
#define MINE        2u  /* owned by the adder: being filled or evicted */
#define READ_LATELY 4u  /* the CLOCK bit */
#define HAS_FRONT   8u  /* has bytes in front, */
#define FRONT_TAKEN 16u /* which one of its pins holds */
#define PIN         256u

struct piece {
    _Atomic uint32_t word;
    _Atomic uint32_t tag; /* of the hash, 0: none; avoids most pins of other pieces */
    /* The adder writes these while MINE; holders of a pin read them. */
    uint32_t len;
    struct content_id id;
    uint64_t number;
    uint64_t at;    /* of its extent in the arena */
    uint64_t bytes; /* their offset in the arena */
} __attribute__((aligned(64)));

/* Extents tile the arena, in order; each begins with this head. Only the adder reads heads.
 *
 *     small   head 64 | from BLOCK_CACHE_FRONT_FROM on: BLOCK_CACHE_FRONT | bytes, filled to 64
 *     large   head 64 | nothing up to a page | whole pages, sent by reference
 *
 * A page that was sent by reference is never written again: it is cut out of the arena when its
 * piece is evicted.
 *
 * A fresh extent is free, and but for its head the kernel has no memory behind it: it was never
 * written, or it was released. Extents that are not fresh are held: their sum is the memory that
 * the cache takes, and a new piece may use fresh ones only as long as that is below the target. */
struct extent {
    uint64_t len;   /* head included, a multiple of ALIGN */
    uint32_t piece; /* + 1; 0: free */
    bool fresh;
};

struct block_cache {
    struct sendable *memory; /* owned; touched as the ring advances */
    char *arena;             /* its bytes */
    uint64_t size;
    struct piece *pieces; /* owned; sets of WAYS */
    uint64_t set_mask;
    /* Owned; sets of WAYS. The last disk read of a piece: its tag, and below it the number of
     * such reads before. */
    _Atomic uint64_t *firsts;
    _Atomic uint32_t disk_reads;
    _Atomic uint32_t count;  /* of pieces in it */
    _Atomic uint64_t bytes;  /* theirs */
    _Atomic uint32_t more;   /* pins of block_cache_get_more() */
    _Atomic bool full;       /* the ring has wrapped: a new piece replaces another */
    _Atomic bool adding;     /* the fiber that sets it may add; others skip */
    _Atomic uint64_t target; /* bytes that may be held; at most size */
    _Atomic uint64_t held;   /* written by the adder */
    uint64_t hand;           /* the adder's: position in the ring */
    uint64_t holes[HOLES];   /* the adder's: fresh extents, the latest last */
    unsigned hole_count;
};

struct block_cache *
block_cache_new(uint64_t bytes)
{
    struct sendable *memory = NULL;
    struct block_cache *h;
    uint64_t sets = 1;

    /* Where the kernel does not overcommit, half of the machine may be more than it gives. */
    for (bytes = align_down(bytes, ALIGN);
         memory == NULL && bytes >= 2 * (BLOCK_CACHE_PIECE + PAGE);) {
        memory = sendable_try(bytes);
        if (memory == NULL)
            bytes = align_down(bytes / 2, ALIGN);
    }
    if (memory == NULL)
        return NULL;
    while (sets * WAYS * (bytes > LARGE_CACHE ? BYTES_A_LARGE_PIECE : BYTES_A_PIECE) <
           bytes)
        sets *= 2;
    h = xcalloc(1, sizeof *h);
    h->size = bytes;
    h->target = bytes;
    metric_add(M_BLOCK_CACHE_TARGET, 0, (int64_t)bytes);
    h->memory = memory;
    h->arena = sendable_at(h->memory);
    h->pieces = bigmem_new(sets * WAYS * sizeof *h->pieces);
    h->set_mask = sets - 1;
    h->firsts = bigmem_new(sets * WAYS * sizeof *h->firsts);
    memcpy(h->arena, &(struct extent){.len = bytes, .fresh = true},
           sizeof(struct extent));
    return h;
}

void
block_cache_free(struct block_cache **hp)
{
    struct block_cache *h = *hp;

    *hp = NULL;
    if (h == NULL)
        return;
    metric_add(M_BLOCK_CACHE_BYTES, 0, -(int64_t)atomic_load(&h->bytes));
    metric_add(M_BLOCK_CACHE_HELD, 0, -(int64_t)atomic_load(&h->held));
    metric_add(M_BLOCK_CACHE_TARGET, 0, -(int64_t)atomic_load(&h->target));
    sendable_free(&h->memory);
    bigmem_free(h->pieces, (h->set_mask + 1) * WAYS * sizeof *h->pieces);
    bigmem_free(h->firsts, (h->set_mask + 1) * WAYS * sizeof *h->firsts);
    free(h);
}

uint64_t
block_cache_held(const struct block_cache *h)
{
    return h != NULL ? atomic_load_explicit(&h->held, memory_order_relaxed) : 0;
}

uint64_t
block_cache_target(const struct block_cache *h)
{
    return h != NULL ? atomic_load_explicit(&h->target, memory_order_relaxed) : 0;
}

uint64_t
block_cache_bytes(const struct block_cache *h)
{
    return h != NULL ? atomic_load_explicit(&h->bytes, memory_order_relaxed) : 0;
}

/* ---- finding and pinning: any thread, no lock ---- */

struct place {
    struct piece *set;
    uint64_t hash;
    uint32_t tag;
};

static struct place
block_cache_place_of(const struct block_cache *h, const struct content_id *id,
                     uint64_t number)
{
    uint64_t hash = hash_xxh3(id->bytes, sizeof id->bytes, number);

    return (struct place){&h->pieces[(hash & h->set_mask) * WAYS], hash,
                          (uint32_t)(hash >> 32) | 1};
}

/* Pins the piece. *front, unless NULL: FRONT_TAKEN if it has bytes in front and no other pin,
 * else 0. Pass it to unpin(). */
static bool
pin(struct piece *p, uint32_t *front)
{
    uint32_t word = atomic_load_explicit(&p->word, memory_order_relaxed), take = 0;

    while ((word & READY) != 0) {
        if (front != NULL)
            take = word < PIN && (word & HAS_FRONT) != 0 ? FRONT_TAKEN : 0;
        if (!atomic_compare_exchange_weak_explicit(
                &p->word, &word, (word | READ_LATELY | take) + PIN, memory_order_acquire,
                memory_order_relaxed))
            continue;
        if (front != NULL)
            *front = take;
        return true;
    }
    return false;
}

static void
unpin(struct piece *p, uint32_t front)
{
    uint32_t before =
        atomic_fetch_sub_explicit(&p->word, PIN + front, memory_order_release);

    assert(before >= PIN);
    assert((before & front) == front);
}

static bool
block_cache_is(const struct piece *p, const struct content_id *id, uint64_t number)
{
    return p->number == number && memcmp(&p->id, id, sizeof p->id) == 0;
}

bool
block_cache_get(struct block_cache *h, const struct content_id *id, uint64_t number,
                struct block_cache_pin *out)
{
    struct place at;

    *out = (struct block_cache_pin){0};
    if (h == NULL)
        goto missed;
    at = block_cache_place_of(h, id, number);
    for (unsigned way = 0; way < WAYS; way++) {
        struct piece *p = &at.set[way];

        if (atomic_load_explicit(&p->tag, memory_order_relaxed) != at.tag ||
            !pin(p, NULL))
            continue;
        if (block_cache_is(p, id, number)) {
            *out = (struct block_cache_pin){h->arena + p->bytes, p->len,
                                            (uint32_t)(p - h->pieces), 0};
            metric_add(M_BLOCK_CACHE, 0, 1);
            return true;
        }
        unpin(p, 0);
    }
missed:
    metric_add(M_BLOCK_CACHE, 1, 1);
    return false;
}

/* True if sockets may hold its pages. */
static bool
is_large(uint32_t len)
{
    return len >= RT_ZERO_COPY_MIN;
}

/* Bytes in front of a piece. Pieces with such bytes must be too short for sockets to hold their
 * pages, since these are overwritten once no pin is left. */
static uint32_t
block_cache_front_of(uint32_t len)
{
    return len >= BLOCK_CACHE_FRONT_FROM && !is_large(len + BLOCK_CACHE_FRONT)
               ? BLOCK_CACHE_FRONT
               : 0;
}

/* In memory that no cache holds, writing a head there would cost more than it saves. */
void
block_cache_prefetch(const struct block_cache *h, uint32_t entry, const char *at,
                     uint32_t len)
{
    __builtin_prefetch(&h->pieces[entry], 1);
    for (uint32_t back = ALIGN; back <= block_cache_front_of(len); back += ALIGN)
        __builtin_prefetch(at - back, 1);
}

bool
block_cache_get_at(struct block_cache *h, uint32_t entry, const struct content_id *id,
                   uint64_t number, struct block_cache_pin *out)
{
    struct piece *p = &h->pieces[entry];
    uint32_t front;

    *out = (struct block_cache_pin){0};
    if (!pin(p, &front))
        return false;
    if (!block_cache_is(p, id, number)) {
        unpin(p, front);
        return false;
    }
    *out = (struct block_cache_pin){h->arena + p->bytes, p->len, entry,
                                    front != 0 ? BLOCK_CACHE_FRONT : 0};
    metric_add(M_BLOCK_CACHE, 0, 1);
    return true;
}

bool
block_cache_has(struct block_cache *h, const struct content_id *id, uint64_t number)
{
    struct place at;

    if (h == NULL)
        return false;
    at = block_cache_place_of(h, id, number);
    for (unsigned way = 0; way < WAYS; way++)
        if (atomic_load_explicit(&at.set[way].tag, memory_order_relaxed) == at.tag)
            return true;
    return false;
}

void
block_cache_unpin(struct block_cache *h, struct block_cache_pin *held)
{
    if (held->at != NULL)
        unpin(&h->pieces[held->entry], held->front != 0 ? FRONT_TAKEN : 0);
    *held = (struct block_cache_pin){0};
}

unsigned
block_cache_get_more(struct block_cache *h, const struct content_id *id, uint64_t first,
                     struct block_cache_pin *out, unsigned max)
{
    uint32_t held = atomic_fetch_add_explicit(&h->more, max, memory_order_relaxed) + max;
    unsigned n = 0;

    if (held <= block_cache_target(h) / BLOCK_CACHE_PIECE / MORE_SHARE)
        while (n < max && block_cache_has(h, id, first + n) &&
               block_cache_get(h, id, first + n, &out[n]))
            n++;
    atomic_fetch_sub_explicit(&h->more, max - n, memory_order_relaxed);
    return n;
}

void
block_cache_unpin_more(struct block_cache *h, struct block_cache_pin *pins,
                       unsigned count)
{
    if (count == 0)
        return;
    for (unsigned n = 0; n < count; n++)
        block_cache_unpin(h, &pins[n]);
    atomic_fetch_sub_explicit(&h->more, count, memory_order_relaxed);
}

/* Decides whether to admit a piece to a full cache. Adding costs more than the read it saves. So
 * a piece must be read again sooner than the cached pieces would be; otherwise the working set
 * exceeds the cache, and each piece would only displace the next. A few are admitted anyway, or
 * pieces that are no longer read would stay forever. */
static bool
is_of_late(const struct block_cache *h, uint32_t now, uint32_t ago)
{
    return !atomic_load_explicit(&h->full, memory_order_relaxed) ||
           ago < atomic_load_explicit(&h->count, memory_order_relaxed) / WINDOW_SHARE ||
           now % LUCKY_ONE == 0;
}

/* The place of a set that remembers the first read of a piece, or will: an empty one, else one
 * chosen by the read counter. With a fixed choice, pieces of one set that are read cyclically
 * would always displace each other. */
static _Atomic uint64_t *
first_of(const struct block_cache *h, const struct place *at, uint32_t now)
{
    _Atomic uint64_t *set = &h->firsts[(at->hash & h->set_mask) * WAYS];
    _Atomic uint64_t *to = &set[now % WAYS];

    for (unsigned way = 0; way < WAYS; way++) {
        uint64_t one = atomic_load_explicit(&set[way], memory_order_relaxed);

        if ((uint32_t)(one >> 32) == at->tag)
            return &set[way];
        if (one == 0)
            to = &set[way];
    }
    return to;
}

/* Would a cache of twice the size have had a piece that was read `ago` disk reads before? As far
 * as reads are as likely for one piece as for another: between two reads of a piece the disk
 * served those of the others that are not cached. */
static bool
is_within_twice(const struct block_cache *h, uint32_t ago)
{
    return ago <= atomic_load_explicit(&h->count, memory_order_relaxed);
}

bool
block_cache_wants(struct block_cache *h, const struct content_id *id, uint64_t number)
{
    struct place at;
    _Atomic uint64_t *first;
    uint64_t was;
    uint32_t now;

    if (h == NULL)
        return false;
    at = block_cache_place_of(h, id, number);
    now = atomic_fetch_add_explicit(&h->disk_reads, 1, memory_order_relaxed);
    first = first_of(h, &at, now);
    was = atomic_load_explicit(first, memory_order_relaxed);
    atomic_store_explicit(first, (uint64_t)at.tag << 32 | now, memory_order_relaxed);
    if ((uint32_t)(was >> 32) != at.tag)
        return false;
    metric_add(M_BLOCK_CACHE_REREADS, is_within_twice(h, now - (uint32_t)was) ? 0 : 1, 1);
    return is_of_late(h, now, now - (uint32_t)was);
}

/* ---- adding: one at a time ---- */

static struct extent
extent_at(const struct block_cache *h, uint64_t at)
{
    struct extent e;

    memcpy(&e, h->arena + at, sizeof e);
    return e;
}

static void
put_extent(struct block_cache *h, uint64_t at, struct extent e)
{
    assert(at + e.len <= h->size);
    assert(!e.fresh || e.piece == 0);
    if (e.len > 0)
        memcpy(h->arena + at, &e, sizeof e);
}

static void
put_free(struct block_cache *h, uint64_t at, uint64_t len)
{
    put_extent(h, at, (struct extent){.len = len});
}

static void
count_held(struct block_cache *h, int64_t delta)
{
    uint64_t now =
        atomic_fetch_add_explicit(&h->held, (uint64_t)delta, memory_order_relaxed) +
        (uint64_t)delta;

    assert(now <= h->size);
    metric_add(M_BLOCK_CACHE_HELD, 0, delta);
}

static void
count_bytes(struct block_cache *h, int64_t delta)
{
    atomic_fetch_add_explicit(&h->bytes, (uint64_t)delta, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->count, delta > 0 ? 1u : UINT32_MAX,
                              memory_order_relaxed);
    metric_add(M_BLOCK_CACHE_BYTES, 0, delta);
}

/* Evicts a piece unless it is pinned. The caller may then reuse its extent. */
static bool
take_out(struct block_cache *h, struct piece *p)
{
    uint32_t word = atomic_load_explicit(&p->word, memory_order_relaxed);

    do {
        if ((word & READY) == 0 || word >= PIN)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(
        &p->word, &word, MINE, memory_order_acquire, memory_order_relaxed));
    count_bytes(h, -(int64_t)p->len);
    if (is_large(p->len))
        sendable_release(h->memory, h->arena + p->bytes, align_up(p->len, PAGE));
    atomic_store_explicit(&p->tag, 0, memory_order_relaxed);
    atomic_store_explicit(&p->word, 0, memory_order_release);
    return true;
}

/* CLOCK: spares a recently read piece once. */
static bool
block_cache_spare(struct piece *p)
{
    return (atomic_fetch_and_explicit(&p->word, ~READ_LATELY, memory_order_relaxed) &
            READ_LATELY) != 0;
}

/* Is there fresh memory, and may the cache use it? Then evicting is only because none is near the hand. */
static bool
has_room(const struct block_cache *h)
{
    uint64_t held = block_cache_held(h);

    return held + GROW_STEP < MIN(block_cache_target(h), h->size);
}

/* Moves the hand to fresh memory near it, so that growing displaces nothing. */
static void
seek_fresh(struct block_cache *h, uint64_t need)
{
    uint64_t at = h->hole_count > 0 ? h->holes[h->hole_count - 1] : h->hand;

    if (block_cache_held(h) + need > block_cache_target(h) ||
        block_cache_held(h) == h->size)
        return;
    for (unsigned step = 0; step < SEEK_MAX; step++) {
        struct extent e = extent_at(h, at == h->size ? 0 : at);

        at = at == h->size ? 0 : at;
        if (e.fresh) {
            h->hand = at;
            return;
        }
        at += e.len;
    }
}

/* May a place use `len` bytes of a fresh extent? */
static bool
may_grow(const struct block_cache *h, bool grow, uint64_t len)
{
    return grow && block_cache_held(h) + len <= block_cache_target(h);
}

/* Takes a fresh extent into a place: all of it is held until what is left over is put back. */
static void
hold_extent(struct block_cache *h, uint64_t at, const struct extent *e)
{
    assert(e->fresh);
    count_held(h, (int64_t)e->len);
    for (unsigned i = 0; i < h->hole_count; i++)
        if (h->holes[i] == at) {
            h->hole_count--;
            memmove(&h->holes[i], &h->holes[i + 1],
                    (h->hole_count - i) * sizeof h->holes[0]);
        }
    assert(h->hole_count <= HOLES);
}

/* Remembers a fresh extent; forgets the one that it has remembered for longest if there are too many. The hand
 * finds those. */
static void
note_hole(struct block_cache *h, uint64_t at)
{
    if (h->hole_count == HOLES) {
        h->hole_count--;
        memmove(&h->holes[0], &h->holes[1], h->hole_count * sizeof h->holes[0]);
    }
    h->holes[h->hole_count++] = at;
    assert(at < h->size);
}

/* Advances the ring until `need` contiguous bytes are free; false if pinned or recently read
 * pieces prevent that, or fresh extents that it may not use (`grow` is false, or the target). */
static bool
make_place(struct block_cache *h, uint64_t need, bool grow, uint64_t *out)
{
    uint64_t from = h->hand, to = h->hand; /* [from, to) is free */
    unsigned chances = 0;
    bool fresh = false; /* the last extent of it */

    for (unsigned steps = 0; to - from < need; steps++) {
        struct extent e;
        struct piece *p;

        if (to == h->size || steps >= STEPS_MAX) {
            put_free(h, from, to - from);
            h->hand = from = to = to == h->size ? 0 : to;
            if (steps >= STEPS_MAX)
                return false;
            continue;
        }
        e = extent_at(h, to);
        p = e.piece != 0 ? &h->pieces[e.piece - 1] : NULL;
        if ((e.fresh && !may_grow(h, grow, MIN(e.len, need - (to - from)))) ||
            (p != NULL &&
             ((chances < CHANCES_MAX && block_cache_spare(p) && ++chances > 0) ||
              !take_out(h, p)))) {
            put_free(h, from, to - from);
            from = to = to + e.len;
            continue;
        }
        if (p != NULL && !has_room(h))
            atomic_store_explicit(&h->full, true, memory_order_relaxed);
        if (e.fresh)
            hold_extent(h, to, &e);
        fresh = e.fresh;
        to += e.len;
    }
    put_extent(h, from + need, (struct extent){.len = to - from - need, .fresh = fresh});
    if (fresh && to > from + need) {
        count_held(h, -(int64_t)(to - from - need));
        note_hole(h, from + need);
    }
    h->hand = from + need;
    *out = from;
    return true;
}

/* Returns a free entry of the set; evicts its least used piece if all are used. NULL: the piece
 * is cached already, or all are pinned. */
static struct piece *
free_entry(struct block_cache *h, const struct place *at, const struct content_id *id,
           uint64_t number)
{
    struct piece *free_one = NULL;

    for (unsigned way = 0; way < WAYS; way++) {
        struct piece *p = &at->set[way];

        if (atomic_load_explicit(&p->word, memory_order_relaxed) == 0)
            free_one = p;
        else if (block_cache_is(p, id, number))
            return NULL;
    }
    for (unsigned way = 0; free_one == NULL && way < 2 * WAYS; way++) {
        struct piece *p = &at->set[way % WAYS];
        uint64_t where = p->at;

        if ((way < WAYS && block_cache_spare(p)) || !take_out(h, p))
            continue;
        put_free(h, where, extent_at(h, where).len);
        free_one = p;
    }
    return free_one;
}

/* Reserves entry and place. Both belong to the caller until it sets READY. */
static struct piece *
block_cache_reserve(struct block_cache *h, const struct content_id *id, uint64_t number,
                    uint32_t len)
{
    struct place at = block_cache_place_of(h, id, number);
    uint64_t need =
                 is_large(len)
                     ? PAGE + align_up(len, PAGE)
                     : align_up((uint64_t)len + block_cache_front_of(len) + ALIGN, ALIGN),
             where, end;
    struct piece *p = free_entry(h, &at, id, number);

    if (p == NULL)
        return NULL;
    atomic_store_explicit(&p->word, MINE, memory_order_relaxed);
    seek_fresh(h, need);
    if (!make_place(h, need, true, &where)) {
        atomic_store_explicit(&p->word, 0, memory_order_relaxed);
        return NULL;
    }
    p->len = len;
    p->id = *id;
    p->number = number;
    p->at = where;
    p->bytes = is_large(len) ? align_up(where + ALIGN, PAGE)
                             : where + ALIGN + block_cache_front_of(len);
    end = is_large(len) ? p->bytes + align_up(len, PAGE) : where + need;
    if (end < h->hand) { /* one page less: the rest is free for the next extent */
        put_free(h, end, h->hand - end);
        h->hand = end;
    }
    put_extent(
        h, where,
        (struct extent){.len = end - where, .piece = (uint32_t)(p - h->pieces) + 1});
    atomic_store_explicit(&p->tag, at.tag, memory_order_relaxed);
    count_bytes(h, len);
    return p;
}

void
block_cache_add(struct block_cache *h, const struct content_id *id, uint64_t number,
                const void *bytes, uint32_t len)
{
    struct piece *p;

    assert(len <= BLOCK_CACHE_PIECE);
    if (h == NULL || len == 0 || (account_tight() & TIGHT_MEMORY) != 0 ||
        atomic_exchange_explicit(&h->adding, true, memory_order_acquire))
        return;
    p = block_cache_reserve(h, id, number, len);
    atomic_store_explicit(&h->adding, false, memory_order_release);
    if (p == NULL)
        return;
    memcpy(h->arena + p->bytes, bytes,
           len); /* not reachable by others: no lock is needed */
    atomic_store_explicit(&p->word,
                          block_cache_front_of(len) > 0 ? READY | HAS_FRONT : READY,
                          memory_order_release);
}

/* Two pieces fit in any case, so that a place can be found. */
static uint64_t
block_cache_least(const struct block_cache *h)
{
    return MIN(h->size, 2 * (uint64_t)(BLOCK_CACHE_PIECE + PAGE));
}

/* ---- giving memory back: a worker, one at a time with the adder ---- */

static bool
cache_lock(struct block_cache *h)
{
    for (unsigned tries = 0; tries < LOCK_TRIES; tries++) {
        if (!atomic_exchange_explicit(&h->adding, true, memory_order_acquire))
            return true;
        sched_yield(); /* an adder holds it for microseconds */
    }
    return false;
}

/* Makes [at, at + len) one fresh extent. */
static void
release_extent(struct block_cache *h, uint64_t at, uint64_t len)
{
    if (len == 0)
        return;
    put_extent(h, at, (struct extent){.len = len, .fresh = true});
    sendable_release(h->memory, h->arena + at + ALIGN,
                     len - ALIGN); /* all but its head */
    count_held(h, -(int64_t)len);
    note_hole(h, at);
}

/* Evicts in the order of the ring and releases what follows each other at once: releasing costs a
 * call for each run, not for each piece. Returns what it released. */
static uint64_t
release_some(struct block_cache *h, uint64_t bytes)
{
    uint64_t step = MIN((uint64_t)BLOCK_CACHE_PIECE, align_down(h->size / 4, ALIGN));
    uint64_t run = 0, len = 0, released = 0, at;

    for (uint64_t tried = 0; tried < bytes; tried += step) {
        if (!make_place(h, step, false, &at))
            continue;
        if (len > 0 && at != run + len) {
            release_extent(h, run, len);
            len = 0;
        }
        run = len == 0 ? at : run;
        len += step;
        released += step;
        put_extent(h, at, (struct extent){.len = step, .fresh = true}); /* not again */
        put_extent(h, run, (struct extent){.len = len, .fresh = true});
    }
    release_extent(h, run, len);
    return released;
}

void
block_cache_shrink(struct block_cache *h, uint64_t bytes)
{
    for (uint64_t gone = 0; h != NULL && gone < bytes && block_cache_bytes(h) > 0;) {
        uint64_t step = MIN(bytes - gone, RELEASE_BYTES);

        if (!cache_lock(h))
            return; /* the next call goes on */
        (void)release_some(h, step);
        /* There is room again, unless the target is reached. */
        if (block_cache_held(h) + 2 * BLOCK_CACHE_PIECE < block_cache_target(h))
            atomic_store_explicit(&h->full, false, memory_order_relaxed);
        atomic_store_explicit(&h->adding, false, memory_order_release);
        gone += step;
    }
}

void
block_cache_set_target(struct block_cache *h, uint64_t bytes)
{
    uint64_t held;

    if (h == NULL)
        return;
    bytes = MIN(MAX(bytes, block_cache_least(h)), h->size);
    metric_add(M_BLOCK_CACHE_TARGET, 0,
               (int64_t)(bytes - atomic_exchange_explicit(&h->target, bytes,
                                                          memory_order_relaxed)));
    held = block_cache_held(h);
    if (held > bytes)
        block_cache_shrink(h, held - bytes);
    else if (held + GROW_STEP < bytes)
        atomic_store_explicit(&h->full, false, memory_order_relaxed);
}
