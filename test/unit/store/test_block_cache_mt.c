/* What is found in the block cache is what was put there, whatever else goes on; what is pinned stays. */
#include "base/mem.h"
#include "check.h"
#include "rt/sendable.h"

#include "store/segment/block_cache.h"
#include "store/store_block_cache.h"
#include "store/store_entry.h"
#include <pthread.h>
#include <stdatomic.h>

static struct content_id
id_of(uint64_t n)
{
    struct content_id id = {{0}};

    memcpy(id.bytes, &n, sizeof n);
    return id;
}

/* The bytes of a piece are a function of its name. */
static uint32_t
make(uint64_t n, uint64_t number, char *out)
{
    uint32_t len = (uint32_t)((n * 7919 + number * 104729) % BLOCK_CACHE_PIECE) + 1;

    memset(out, (int)(n * 31 + number), len);
    memcpy(out, &n, MIN(len, sizeof n));
    return len;
}

static bool
right(uint64_t n, uint64_t number, const struct block_cache_pin *pin, char *scratch)
{
    return pin->len == make(n, number, scratch) &&
           memcmp(pin->at, scratch, pin->len) == 0;
}

static void
test_no_block_cache_is_an_empty_one(void)
{
    struct block_cache *h = block_cache_new(0);
    struct content_id id = id_of(1);
    struct block_cache_pin pin;

    CHECK(h == NULL);
    CHECK(!block_cache_get(h, &id, 0, &pin));
    CHECK(!block_cache_wants(h, &id, 0));
    CHECK(!block_cache_wants(h, &id, 0));
    block_cache_add(h, &id, 0, "x", 1);
    block_cache_unpin(h, &pin);
    CHECK_U64(block_cache_bytes(h), 0);
    block_cache_free(&h);
    CHECK(block_cache_new(BLOCK_CACHE_PIECE) == NULL);
}

static void
test_second_read_is_wanted_and_kept(void)
{
    struct block_cache *h = block_cache_new(MIB(4));
    struct content_id id = id_of(1), other = id_of(2);
    struct block_cache_pin pin;

    CHECK(!block_cache_wants(h, &id, 3));
    CHECK(block_cache_wants(h, &id, 3));
    CHECK(!block_cache_wants(h, &id, 4));
    block_cache_add(h, &id, 3, "hello", 5);
    CHECK_U64(block_cache_bytes(h), 5);
    CHECK(!block_cache_get(h, &id, 4, &pin));
    CHECK(!block_cache_get(h, &other, 3, &pin));
    REQUIRE(block_cache_get(h, &id, 3, &pin));
    CHECK(pin.len == 5 && memcmp(pin.at, "hello", 5) == 0);
    block_cache_unpin(h, &pin);
    block_cache_unpin(h, &pin);
    block_cache_add(h, &id, 3, "again", 5); /* is there: nothing happens */
    CHECK_U64(block_cache_bytes(h), 5);
    block_cache_free(&h);
    CHECK(h == NULL);
}

/* Far more than fits: what is there is right, the bound holds, what is pinned or read stays. */
/* Pieces that come in one and the same order, as of a training run that does not shuffle: all are wanted soon. */
static void
test_one_and_the_same_order(void)
{
    enum { PIECES = 256 }; /* half of what the table is sized for */

    struct block_cache *h = block_cache_new(MIB(4));
    bool wanted[PIECES] = {0};
    unsigned count = 0;

    for (unsigned pass = 0; pass < 5; pass++)
        for (unsigned n = 0; n < PIECES; n++) {
            struct content_id id = id_of(n);

            if (!wanted[n] && block_cache_wants(h, &id, 0)) {
                wanted[n] = true;
                count++;
            }
        }
    CHECK_U64(count, PIECES);
    block_cache_free(&h);
}

static void
test_the_ring_goes_round(void)
{
    static char bytes[BLOCK_CACHE_PIECE], scratch[BLOCK_CACHE_PIECE];
    struct block_cache *h = block_cache_new(MIB(4));
    struct content_id pinned = id_of(0), loved = id_of(1);
    struct block_cache_pin pin, again;
    unsigned there = 0;

    block_cache_add(h, &pinned, 0, bytes, make(0, 0, bytes));
    block_cache_add(h, &loved, 0, bytes, make(1, 0, bytes));
    REQUIRE(block_cache_get(h, &pinned, 0, &pin));
    for (uint64_t n = 2; n < 2000; n++) {
        struct content_id id = id_of(n);

        block_cache_add(h, &id, n % 3, bytes, make(n, n % 3, bytes));
        CHECK(block_cache_bytes(h) <= MIB(4));
        if (n % 4 == 0) {
            CHECK(block_cache_get(h, &loved, 0, &again));
            CHECK(right(1, 0, &again, scratch));
            block_cache_unpin(h, &again);
        }
    }
    CHECK(right(0, 0, &pin, scratch));
    block_cache_unpin(h, &pin);
    CHECK(block_cache_bytes(h) > MIB(2));
    for (uint64_t n = 0; n < 2000; n++) {
        struct content_id id = id_of(n);
        uint64_t number = n < 2 ? 0 : n % 3;

        if (!block_cache_get(h, &id, number, &pin))
            continue;
        there++;
        CHECK(right(n, number, &pin, scratch));
        block_cache_unpin(h, &pin);
    }
    CHECK(there >= 10);
    block_cache_free(&h);
}

/* Everything pinned: an add goes without, and nothing pinned changes. */
static void
test_all_pinned(void)
{
    static char bytes[BLOCK_CACHE_PIECE], scratch[BLOCK_CACHE_PIECE];
    static struct block_cache_pin pins[64];
    struct block_cache *h = block_cache_new(MIB(1));
    unsigned count = 0;

    for (uint64_t n = 0; n < ARRAY_LEN(pins); n++) {
        struct content_id id = id_of(n);

        block_cache_add(h, &id, 0, bytes, make(n, 0, bytes));
        if (block_cache_get(h, &id, 0, &pins[n]))
            count++;
    }
    CHECK(count > 2 && count < ARRAY_LEN(pins));
    for (uint64_t n = 0; n < ARRAY_LEN(pins); n++)
        if (pins[n].at != NULL) {
            CHECK(right(n, 0, &pins[n], scratch));
            block_cache_unpin(h, &pins[n]);
        }
    block_cache_free(&h);
}

#define THREADS 4
#define NAMES   300
#define TURNS   4000
static struct block_cache *shared;
static _Atomic unsigned wrong, hits, fronts;

/* Every second time as who knows where it was; the room in front is then his to write. False: it is gone meanwhile. */
static bool
look_there(unsigned turn, const struct content_id *id, struct block_cache_pin *pin)
{
    uint32_t entry = pin->entry;

    if (turn % 2 == 0)
        return true;
    block_cache_unpin(shared, pin);
    if (!block_cache_get_at(shared, entry, id, 0, pin))
        return false;
    memset((char *)(uintptr_t)pin->at - pin->front, (int)turn, pin->front);
    return true;
}

static bool
front_is(const struct block_cache_pin *pin, unsigned turn)
{
    for (uint32_t i = 1; i <= pin->front; i++)
        if (pin->at[-(int64_t)i] != (char)turn)
            return false;
    return true;
}

static void *
worker(void *arg)
{
    uint64_t seed = (uint64_t)(uintptr_t)arg * 77777 + 1;
    char *bytes = xmalloc(BLOCK_CACHE_PIECE), *scratch = xmalloc(BLOCK_CACHE_PIECE);
    struct block_cache_pin held = {0};
    uint64_t held_n = 0;
    unsigned held_turn = 0;

    for (unsigned i = 0; i < TURNS; i++) {
        uint64_t n;
        struct content_id id;
        struct block_cache_pin pin;

        seed = seed * 6364136223846793005u + 1442695040888963407u;
        n = (seed >> 33) % NAMES;
        n = n * n / NAMES; /* some are liked better */
        id = id_of(n);
        if (!block_cache_get(shared, &id, 0, &pin)) {
            block_cache_add(shared, &id, 0, bytes, make(n, 0, bytes));
            continue;
        }
        if (!look_there(i, &id, &pin))
            continue;
        atomic_fetch_add(&hits, 1);
        atomic_fetch_add(&fronts, pin.front != 0);
        if (!right(n, 0, &pin, scratch))
            atomic_fetch_add(&wrong, 1);
        if (held.at != NULL &&
            (!right(held_n, 0, &held, scratch) || !front_is(&held, held_turn)))
            atomic_fetch_add(&wrong, 1);
        block_cache_unpin(shared, &held); /* each pin is held until the next find */
        held = pin;
        held_n = n;
        held_turn = i;
    }
    block_cache_unpin(shared, &held);
    free(bytes);
    free(scratch);
    return NULL;
}

/* What stands behind pinned pieces may hold a quarter of the memory, and no more. */
static void
test_slow_readers_do_not_hold_it(void)
{
    struct block_cache *h = block_cache_new(MIB(8));
    static char bytes[BLOCK_CACHE_PIECE];
    struct content_id id = id_of(1);
    struct block_cache_pin pins[5][3];

    for (unsigned n = 0; n < 4; n++)
        block_cache_add(h, &id, n, bytes, make(1, n, bytes));
    CHECK_U64(block_cache_get_more(h, &id, 2, pins[0], 3), 2); /* there are no more */
    block_cache_unpin_more(h, pins[0], 2);
    CHECK_U64(block_cache_get_more(h, &id, 4, pins[0], 3), 0);
    for (unsigned i = 0; i < 2; i++)
        CHECK_U64(block_cache_get_more(h, &id, 1, pins[i], 3), 3);
    CHECK_U64(block_cache_get_more(h, &id, 1, pins[2], 3), 0); /* of 32 places 8 */
    CHECK_U64(block_cache_get_more(h, &id, 1, pins[2], 2), 2);
    block_cache_unpin_more(h, pins[2], 2);
    for (unsigned i = 0; i < 2; i++)
        block_cache_unpin_more(h, pins[i], 3);
    CHECK_U64(block_cache_get_more(h, &id, 1, pins[2], 3), 3);
    block_cache_unpin_more(h, pins[2], 3);
    block_cache_free(&h);
}

static void
test_it_shrinks(void)
{
    struct block_cache *h = block_cache_new(MIB(8));
    static char bytes[BLOCK_CACHE_PIECE], scratch[BLOCK_CACHE_PIECE];
    struct content_id last = id_of(199);
    struct block_cache_pin held;
    uint64_t full;

    for (uint64_t n = 0; n < 200; n++) {
        struct content_id id = id_of(n);

        block_cache_add(h, &id, 0, bytes, make(n, 0, bytes));
    }
    full = block_cache_bytes(h);
    REQUIRE(block_cache_get(h, &last, 0, &held));
    block_cache_shrink(h, MIB(4));
    CHECK(block_cache_bytes(h) <= full - MIB(2));
    block_cache_shrink(h, MIB(64));
    CHECK(block_cache_bytes(h) <= held.len); /* what is pinned stays, and stays right */
    CHECK(right(199, 0, &held, scratch));
    block_cache_unpin(h, &held);
    for (uint64_t n = 300; n < 320; n++) { /* it fills again */
        struct content_id id = id_of(n);

        block_cache_add(h, &id, 0, bytes, make(n, 0, bytes));
        REQUIRE(block_cache_get(h, &id, 0, &held));
        CHECK(right(n, 0, &held, scratch));
        block_cache_unpin(h, &held);
    }
    block_cache_free(&h);
    block_cache_shrink(NULL, 1);
}

/* Who is the first to pin a piece that is large enough, and copied, may write in front of it: that and nothing else. */
static void
test_the_room_in_front(void)
{
    static const uint32_t lens[] = {BLOCK_CACHE_FRONT_FROM - 1,
                                    BLOCK_CACHE_FRONT_FROM,
                                    20000,
                                    RT_ZERO_COPY_MIN - BLOCK_CACHE_FRONT - 1,
                                    RT_ZERO_COPY_MIN - BLOCK_CACHE_FRONT,
                                    RT_ZERO_COPY_MIN - 1,
                                    RT_ZERO_COPY_MIN};
    static char bytes[BLOCK_CACHE_PIECE];
    struct block_cache *h = block_cache_new(MIB(4));
    struct block_cache_pin first, second;

    for (unsigned turn = 0; turn < 2; turn++)
        for (uint64_t n = 0; n < ARRAY_LEN(lens); n++) {
            struct content_id id = id_of(n);
            uint32_t front = n > 0 && lens[n] + BLOCK_CACHE_FRONT < RT_ZERO_COPY_MIN
                                 ? BLOCK_CACHE_FRONT
                                 : 0,
                     entry;

            memset(bytes, (int)n + 1, sizeof bytes);
            block_cache_add(h, &id, 0, bytes, lens[n]);
            REQUIRE(block_cache_get(h, &id, 0, &first));
            CHECK_U64(first.front, 0); /* who only reads has none */
            entry = first.entry;
            REQUIRE(block_cache_get_at(h, entry, &id, 0, &second));
            CHECK_U64(second.front, 0);
            block_cache_unpin(h, &first);
            block_cache_unpin(h, &second);

            REQUIRE(block_cache_get_at(h, entry, &id, 0, &first));
            CHECK_U64(first.front, front);
            memset((char *)(uintptr_t)first.at - front, 99, front);
            REQUIRE(block_cache_get_at(h, entry, &id, 0, &second));
            CHECK_U64(second.front, 0);
            block_cache_unpin(h, &first);
            REQUIRE(block_cache_get_at(h, entry, &id, 0,
                                       &first)); /* the second reads still */
            CHECK_U64(first.front, 0);
            CHECK(first.len == lens[n] && memcmp(first.at, bytes, lens[n]) == 0);
            block_cache_unpin(h, &first);
            block_cache_unpin(h, &second);
        }
    for (uint64_t n = 0; n < ARRAY_LEN(lens); n++) {
        struct content_id id = id_of(n);

        memset(bytes, (int)n + 1, sizeof bytes);
        REQUIRE(block_cache_get(h, &id, 0, &first));
        CHECK(first.len == lens[n] && memcmp(first.at, bytes, lens[n]) == 0);
        block_cache_unpin(h, &first);
    }
    block_cache_shrink(h, MIB(64)); /* its extents are still in order */
    CHECK_U64(block_cache_bytes(h), 0);
    block_cache_free(&h);
}

static void
test_many_threads(void)
{
    pthread_t threads[THREADS];

    shared = block_cache_new(MIB(8));
    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, worker, (void *)(i + 1)) == 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_U64(wrong, 0);
    CHECK(hits > TURNS / 10);
    CHECK(fronts > 0);
    block_cache_free(&shared);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_no_block_cache_is_an_empty_one);
    RUN(test_second_read_is_wanted_and_kept);
    RUN(test_one_and_the_same_order);
    RUN(test_the_ring_goes_round);
    RUN(test_all_pinned);
    RUN(test_slow_readers_do_not_hold_it);
    RUN(test_it_shrinks);
    RUN(test_the_room_in_front);
    RUN(test_many_threads);
    return check_done();
}
