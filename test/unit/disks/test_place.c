/* Where keys lie: evenly, by weight, and nowhere else than before but for a new disk's share. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "disks/place.h"

#define KEYS 1000000u

static struct place_disk
a_disk(unsigned i, uint64_t weight)
{
    uint8_t id[16] = {0};

    memset(id, (int)(17 * i + 3), sizeof id);
    return (struct place_disk){place_seed(id), weight};
}

static uint64_t
hash_of(unsigned i)
{
    char key[64];
    int n = snprintf(key, sizeof key, "train/shard-%06u.tar", i);

    return place_hash(SPAN("imagenet"), (struct span){key, (size_t)n});
}

/* Each disk has its share of a million keys, to 3 %. */
static void
even(const uint64_t *weights, unsigned count)
{
    struct place_disk disks[8];
    uint32_t keys[8] = {0};
    double total = 0;

    for (unsigned i = 0; i < count; i++) {
        disks[i] = a_disk(i, weights[i]);
        total += (double)weights[i];
    }
    for (unsigned i = 0; i < KEYS; i++) {
        uint8_t first;

        REQUIRE(place_order(hash_of(i), disks, count, &first, 1) == 1);
        keys[first]++;
    }
    for (unsigned i = 0; i < count; i++) {
        double share = (double)weights[i] / total * KEYS, off = keys[i] / share - 1;

        if (off > 0.03 || off < -0.03)
            fprintf(stderr, "disk %u of %u: %u keys, %.0f are its share\n", i, count,
                    keys[i], share);
        CHECK(off <= 0.03 && off >= -0.03);
    }
}

static void
test_even_fill(void)
{
    even((const uint64_t[]){1000, 1000, 1000}, 3);
    even((const uint64_t[]){7, 7, 7, 7, 7, 7, 7, 7}, 8);
}

static void
test_fill_by_weight(void)
{
    even((const uint64_t[]){1000, 2000, 4000}, 3);
    even((const uint64_t[]){1, 1, 1, 2, 2, 2, 4, 3}, 8);
}

/* A ninth disk takes its share and moves nothing else; the same with second copies. */
static void
test_a_new_disk_moves_only_its_share(void)
{
    struct place_disk disks[9];
    uint32_t moved = 0;

    for (unsigned i = 0; i < 9; i++)
        disks[i] = a_disk(i, 500);
    for (unsigned i = 0; i < KEYS / 4; i++) {
        uint8_t was[2], is[2];
        uint64_t hash = hash_of(i);

        REQUIRE(place_order(hash, disks, 8, was, 2) == 2);
        REQUIRE(place_order(hash, disks, 9, is, 2) == 2);
        CHECK(was[0] != was[1]);
        if (is[0] == 8) {
            moved++;
            CHECK(is[1] == was[0]);
        } else {
            CHECK(is[0] == was[0] && (is[1] == was[1] || is[1] == 8));
        }
    }
    CHECK(moved > KEYS / 4 / 9 * 97 / 100 && moved < KEYS / 4 / 9 * 103 / 100);
}

static void
test_the_order_of_disks_does_not_matter(void)
{
    struct place_disk there[5], back[5];

    for (unsigned i = 0; i < 5; i++)
        back[4 - i] = there[i] = a_disk(i, 100 + 10 * i);
    for (unsigned i = 0; i < 1000; i++) {
        uint8_t a[5], b[5];

        REQUIRE(place_order(hash_of(i), there, 5, a, 5) == 5);
        REQUIRE(place_order(hash_of(i), back, 5, b, 5) == 5);
        for (unsigned j = 0; j < 5; j++)
            CHECK(a[j] == 4 - b[j]);
    }
}

static void
test_no_weight_takes_nothing(void)
{
    struct place_disk disks[3] = {a_disk(0, 5), a_disk(1, 0), a_disk(2, 5)};

    for (unsigned i = 0; i < 1000; i++) {
        uint8_t out[3];

        REQUIRE(place_order(hash_of(i), disks, 3, out, 3) == 2);
        CHECK(out[0] != 1 && out[1] != 1);
    }
}

/* Data lies where this says: on every machine, for ever. */
static void
test_golden(void)
{
    struct place_disk disks[8];
    char got[64 + 1] = "";
    uint8_t out[2];

    for (unsigned i = 0; i < 8; i++)
        disks[i] = a_disk(i, 1 + i);
    for (unsigned i = 0; i < 32; i++) {
        REQUIRE(place_order(hash_of(i), disks, 8, out, 2) == 2);
        got[2 * i] = (char)('0' + out[0]);
        got[2 * i + 1] = (char)('0' + out[1]);
    }
    CHECK_STR(got, "2665653673707573745326367510622515077362616256616273407356766534");
}

/* One disk takes all, unless it weighs nothing: then none does. */
static void
test_one_disk(void)
{
    struct place_disk disk = {.seed = 7, .weight = 3};
    uint8_t at = 9;

    for (uint64_t i = 0; i < 100; i++)
        CHECK(place_order(i * 0x9e3779b97f4a7c15u, &disk, 1, &at, 1) == 1 && at == 0);
    disk.weight = 0;
    CHECK(place_order(1, &disk, 1, &at, 1) == 0);
    CHECK(place_order(1, &disk, 1, &at, 0) == 0);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_one_disk);
    RUN(test_even_fill);
    RUN(test_fill_by_weight);
    RUN(test_a_new_disk_moves_only_its_share);
    RUN(test_the_order_of_disks_does_not_matter);
    RUN(test_no_weight_takes_nothing);
    RUN(test_golden);
    return check_done();
}
