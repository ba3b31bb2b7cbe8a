#include "store/segment/block_cache.h"

#include <assert.h>
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

#define WAYS          8u     /* places in the table for a piece */
#define BYTES_A_PIECE KIB(8) /* average assumed for the table's size */
#define ALIGN         64u    /* of extents: a head never crosses a cache line */
#define PAGE          SENDABLE_PAGE
#define STEPS_MAX     256u /* limit of extents visited for one place */
#define CHANCES_MAX   64u  /* limit of those spared because they were read lately */
#define WINDOW_SHARE                                                                     \
    4u /* of the pieces in it: so many reads of the disk are "of late" once it is full */
#define MORE_SHARE 4u /* of the memory, for pins of block_cache_get_more() */
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
 * piece is evicted. */
struct extent {
    uint64_t len;   /* head included, a multiple of ALIGN */
    uint32_t piece; /* + 1; 0: free */
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
    _Atomic uint32_t count; /* of pieces in it */
    _Atomic uint64_t bytes; /* theirs */
    _Atomic uint32_t more;  /* pins of block_cache_get_more() */
    _Atomic bool full;      /* the ring has wrapped: a new piece replaces another */
    _Atomic bool adding;    /* the fiber that sets it may add; others skip */
    uint64_t hand;          /* the adder's: position in the ring */
};

struct block_cache *
block_cache_new(uint64_t bytes)
{
    struct block_cache *h;
    uint64_t sets = 1;

    bytes = align_down(bytes, ALIGN);
    if (bytes < 2 * (BLOCK_CACHE_PIECE + PAGE))
        return NULL;
    while (sets * WAYS * BYTES_A_PIECE < bytes)
        sets *= 2;
    h = xcalloc(1, sizeof *h);
    h->size = bytes;
    h->memory = sendable_new(bytes);
    h->arena = sendable_at(h->memory);
    h->pieces = bigmem_new(sets * WAYS * sizeof *h->pieces);
    h->set_mask = sets - 1;
    h->firsts = bigmem_new(sets * WAYS * sizeof *h->firsts);
    memcpy(h->arena, &(struct extent){.len = bytes}, sizeof(struct extent));
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
    sendable_free(&h->memory);
    bigmem_free(h->pieces, (h->set_mask + 1) * WAYS * sizeof *h->pieces);
    bigmem_free(h->firsts, (h->set_mask + 1) * WAYS * sizeof *h->firsts);
    free(h);
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

    if (held <= h->size / BLOCK_CACHE_PIECE / MORE_SHARE)
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
    return (uint32_t)(was >> 32) == at.tag && is_of_late(h, now, now - (uint32_t)was);
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
put_extent(struct block_cache *h, uint64_t at, uint64_t len, uint32_t piece)
{
    struct extent e = {.len = len, .piece = piece};

    if (len > 0)
        memcpy(h->arena + at, &e, sizeof e);
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

/* Advances the ring until `need` contiguous bytes are free; false if pinned or recently read
 * pieces prevent that. */
static bool
make_place(struct block_cache *h, uint64_t need, uint64_t *out)
{
    uint64_t from = h->hand, to = h->hand; /* [from, to) is free */
    unsigned chances = 0;

    for (unsigned steps = 0; to - from < need; steps++) {
        struct extent e;
        struct piece *p;

        if (to == h->size || steps == STEPS_MAX) {
            put_extent(h, from, to - from, 0);
            if (to == h->size)
                atomic_store_explicit(&h->full, true, memory_order_relaxed);
            h->hand = from = to = to == h->size ? 0 : to;
            if (steps == STEPS_MAX)
                return false;
            continue;
        }
        e = extent_at(h, to);
        p = e.piece != 0 ? &h->pieces[e.piece - 1] : NULL;
        if (p != NULL &&
            ((chances < CHANCES_MAX && block_cache_spare(p) && ++chances > 0) ||
             !take_out(h, p))) {
            put_extent(h, from, to - from, 0);
            from = to = to + e.len;
        } else {
            to += e.len;
        }
    }
    put_extent(h, from + need, to - from - need, 0);
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
        put_extent(h, where, extent_at(h, where).len, 0);
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
    if (!make_place(h, need, &where)) {
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
        put_extent(h, end, h->hand - end, 0);
        h->hand = end;
    }
    put_extent(h, where, end - where, (uint32_t)(p - h->pieces) + 1);
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

void
block_cache_shrink(struct block_cache *h, uint64_t bytes)
{
    uint64_t step =
        h != NULL ? MIN((uint64_t)BLOCK_CACHE_PIECE, align_down(h->size / 4, ALIGN)) : 0;

    for (uint64_t gone = 0; h != NULL && gone < bytes && block_cache_bytes(h) > 0;
         gone += step) {
        uint64_t at;
        bool place;

        if (atomic_exchange_explicit(&h->adding, true, memory_order_acquire))
            return; /* another fiber is adding: skip */
        place = make_place(h, step, &at);
        if (place) {
            put_extent(h, at, step, 0);
            sendable_release(h->memory, h->arena + at + ALIGN,
                             step - ALIGN); /* all but its head */
        }
        /* There is free space. */
        atomic_store_explicit(&h->full, false, memory_order_relaxed);
        atomic_store_explicit(&h->adding, false, memory_order_release);
    }
}
