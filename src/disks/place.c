#include "disks/place.h"

#include <assert.h>

#include "base/hash.h"

#define PLACE_MAX 256

/* No fused multiply-add: it rounds differently on different machines. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif

uint64_t
place_seed(const uint8_t disk_id[16])
{
    return hash_xxh3(disk_id, 16, 0);
}

uint64_t
place_hash(struct span immutable_name, struct span key)
{
    return hash_xxh3(key.at, key.len,
                     hash_xxh3(immutable_name.at, immutable_name.len, 1));
}

/* Finalizer of Steele and Vigna: each bit of the result depends on each bit of x. */
static uint64_t
mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* -ln of (draw + 1/2) / 2^53, exact to a few units in the last place, also near 0, where the
 * winners are. The number is m * 2^-e with m around 1, and ln m = 2 artanh((m - 1) / (m + 1)). */
static double
minus_ln(uint64_t draw)
{
    const double ln2 = 0.693147180559945309417232121458;
    double m = ((double)draw + 0.5) * 0x1p-53, s, s2, sum = 0, power;
    int e = 0;

    assert(draw < (uint64_t)1 << 53);
    while (m < 0.70710678118654752) {
        m *= 2;
        e++;
    }
    s = (m - 1) / (m + 1);
    s2 = s * s;
    power = s;
    for (int k = 1; k <= 23; k += 2) {
        sum += power / k;
        power *= s2;
    }
    return (double)e * ln2 - 2 * sum;
}

unsigned
place_order(uint64_t key_hash, const struct place_disk *disks, unsigned count,
            uint8_t *out, unsigned want)
{
    double score[PLACE_MAX];
    unsigned found = 0;

    assert(count <= PLACE_MAX);
    if (count == 1 && want > 0) { /* its score does not matter */
        out[0] = 0;
        return disks[0].weight != 0;
    }
    for (unsigned i = 0; i < count; i++) {
        uint64_t draw = mix(key_hash ^ disks[i].seed) >> 11;
        unsigned at;

        if (disks[i].weight == 0)
            continue;
        score[i] = (double)disks[i].weight / minus_ln(draw);
        /* Insertion sort, since `want` is small. Ties go to the smaller seed, so the result does
         * not depend on the order of disks. */
        for (at = found; at > 0; at--) {
            unsigned other = out[at - 1];

            if (score[other] > score[i] ||
                (score[other] == score[i] && disks[other].seed < disks[i].seed))
                break;
            if (at < want)
                out[at] = out[at - 1];
        }
        if (at < want) {
            out[at] = (uint8_t)i;
            found += found < want;
        }
    }
    return found;
}
