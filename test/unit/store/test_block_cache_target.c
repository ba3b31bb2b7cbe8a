/* The block cache follows its target: it holds no more than that, gives back what it holds beyond, and grows into what it
 * gave back without evicting. What is found is what was put there. */
#include "base/mem.h"
#include "base/metrics.h"
#include "check.h"

#include "store/segment/block_cache.h"
#include "store/store_block_cache.h"
#include "store/store_entry.h"

enum { SIZE = MIB(64) };

static struct content_id
id_of(uint64_t n)
{
    struct content_id id = {{0}};

    memcpy(id.bytes, &n, sizeof n);
    return id;
}

static uint32_t
len_of(uint64_t n)
{
    return n % 3 == 0 ? BLOCK_CACHE_PIECE : (uint32_t)(n * 7919 % 20000 + 1);
}

static void
add(struct block_cache *h, uint64_t n)
{
    static char bytes[BLOCK_CACHE_PIECE];
    struct content_id id = id_of(n);

    memset(bytes, (int)(n % 251), len_of(n));
    block_cache_add(h, &id, 0, bytes, len_of(n));
}

/* Whether it is there; what is there must be right. */
static bool
has(struct block_cache *h, uint64_t n)
{
    struct content_id id = id_of(n);
    struct block_cache_pin pin;

    if (!block_cache_get(h, &id, 0, &pin))
        return false;
    CHECK_U64(pin.len, len_of(n));
    for (uint32_t i = 0; i < pin.len; i += 509)
        CHECK((unsigned char)pin.at[i] == n % 251);
    block_cache_unpin(h, &pin);
    return true;
}

static unsigned
count_there(struct block_cache *h, uint64_t from, uint64_t to)
{
    unsigned there = 0;

    for (uint64_t n = from; n < to; n++)
        there += has(h, n);
    return there;
}

static void
test_it_holds_no_more_than_its_target(void)
{
    struct block_cache *h = block_cache_new(SIZE);

    CHECK_U64(block_cache_held(h), 0);
    CHECK_U64(block_cache_target(h), SIZE);
    block_cache_set_target(h, MIB(8));
    for (uint64_t n = 0; n < 3000; n++) {
        add(h, n);
        CHECK(block_cache_held(h) <= MIB(8));
        CHECK(block_cache_bytes(h) <= block_cache_held(h));
    }
    CHECK(block_cache_held(h) > MIB(7));
    CHECK(count_there(h, 0, 3000) > 20);
    block_cache_set_target(h, SIZE);
    for (uint64_t n = 3000; n < 6000; n++)
        add(h, n);
    CHECK(block_cache_held(h) > MIB(60));
    CHECK(count_there(h, 0, 6000) > 300);
    block_cache_free(&h);
}

static void
test_it_gives_back_what_it_holds_beyond(void)
{
    struct block_cache *h = block_cache_new(SIZE);
    uint64_t targets[] = {MIB(40), MIB(39), MIB(17), MIB(3), 0};

    for (uint64_t n = 0; n < 2000; n++)
        add(h, n);
    for (unsigned i = 0; i < ARRAY_LEN(targets); i++) {
        block_cache_set_target(h, targets[i]);
        CHECK(block_cache_held(h) <= MAX(targets[i], MIB(1)) + BLOCK_CACHE_PIECE);
        for (uint64_t n = 10000 * (i + 1); n < 10000 * (i + 1) + 200; n++)
            add(h, n); /* it is in order and goes on */
        CHECK(block_cache_held(h) <= MAX(targets[i], MIB(1)) + BLOCK_CACHE_PIECE);
        (void)count_there(h, 0, 2000);
    }
    block_cache_free(&h);
}

/* What it gave back is used before anything is evicted, but for fragments too short for a piece. */
static void
test_growing_evicts_nothing(void)
{
    struct block_cache *h = block_cache_new(SIZE);
    uint64_t held;
    unsigned there;

    for (uint64_t n = 0; n < 2000; n++)
        add(h, n);
    block_cache_set_target(h, MIB(32));
    there = count_there(h, 0, 2000);
    held = block_cache_held(h);
    block_cache_set_target(h, SIZE);
    for (uint64_t n = 3000; n < 3300; n++)
        add(h, n);
    CHECK(block_cache_held(h) > held + MIB(16));
    CHECK(count_there(h, 0, 2000) >= there * 97 / 100);
    CHECK(count_there(h, 3000, 3300) >= 290);
    block_cache_free(&h);
}

/* Pins keep their bytes; the next call gives back the rest. */
static void
test_pins_stay(void)
{
    struct block_cache *h = block_cache_new(SIZE);
    static struct block_cache_pin pins[64];
    struct content_id id;

    for (uint64_t n = 0; n < 64; n++) {
        add(h, 3 * n);
        id = id_of(3 * n);
        REQUIRE(block_cache_get(h, &id, 0, &pins[n]));
    }
    block_cache_set_target(h, MIB(1));
    CHECK(block_cache_held(h) >= MIB(16));
    for (uint64_t n = 0; n < 64; n++) {
        CHECK((unsigned char)pins[n].at[BLOCK_CACHE_PIECE - 1] == 3 * n % 251);
        block_cache_unpin(h, &pins[n]);
    }
    block_cache_set_target(h, MIB(1));
    block_cache_set_target(h, MIB(1)); /* the first one only took away "was read" */
    CHECK(block_cache_held(h) <= MIB(2));
    block_cache_free(&h);
}

static void
test_what_more_would_gain(void)
{
    struct block_cache *h = block_cache_new(MIB(4));
    int64_t twice = metric_read(M_BLOCK_CACHE_REREADS, 0),
            more = metric_read(M_BLOCK_CACHE_REREADS, 1);

    for (uint64_t n = 0; n < 400; n++)
        add(h, 3 * n); /* full: about 15 pieces */
    for (unsigned pass = 0; pass < 2; pass++)
        for (uint64_t n = 9000; n < 9010; n++) {
            struct content_id id = id_of(n);

            (void)block_cache_wants(h, &id, 0);
        }
    CHECK_U64(metric_read(M_BLOCK_CACHE_REREADS, 0) - twice, 10);
    for (unsigned pass = 0; pass < 2; pass++)
        for (uint64_t n = 9100; n < 9200; n++) {
            struct content_id id = id_of(n);

            (void)block_cache_wants(h, &id, 0);
        }
    CHECK(metric_read(M_BLOCK_CACHE_REREADS, 1) - more >= 90);
    CHECK_U64(metric_read(M_BLOCK_CACHE_REREADS, 0) - twice, 10);
    block_cache_free(&h);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_it_holds_no_more_than_its_target);
    RUN(test_it_gives_back_what_it_holds_beyond);
    RUN(test_growing_evicts_nothing);
    RUN(test_pins_stay);
    RUN(test_what_more_would_gain);
    return check_done();
}
