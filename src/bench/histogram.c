#include "bench/histogram.h"

#include <assert.h>

#include "base/mem.h"

/* Values below 2 * SUB have a bucket each; from there on SUB buckets share a doubling. */
static unsigned
histogram_bucket_of(uint64_t value)
{
    unsigned top = 63u - (unsigned)__builtin_clzll(value | HISTOGRAM_SUB);
    unsigned shift = top - 6;

    static_assert(HISTOGRAM_SUB == 1u << 6, "six bits below the top one tell the bucket");
    static_assert(HISTOGRAM_BUCKETS == (63 - 6 + 2) * HISTOGRAM_SUB, "64 bits fit");
    return shift * HISTOGRAM_SUB + (unsigned)(value >> shift);
}

/* The middle of a bucket. */
static uint64_t
histogram_value_of(unsigned bucket)
{
    unsigned shift = bucket < 2 * HISTOGRAM_SUB ? 0 : bucket / HISTOGRAM_SUB - 1;
    uint64_t low = (uint64_t)(bucket - shift * HISTOGRAM_SUB) << shift;

    return low + ((1ull << shift) - 1) / 2;
}

void
histogram_add(struct histogram *h, uint64_t value)
{
    h->counts[histogram_bucket_of(value)]++;
    h->least = h->total == 0 ? value : MIN(h->least, value);
    h->most = MAX(h->most, value);
    h->sum += value;
    h->total++;
}

void
histogram_merge(struct histogram *to, const struct histogram *h)
{
    if (h->total == 0)
        return;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        to->counts[i] += h->counts[i];
    to->least = to->total == 0 ? h->least : MIN(to->least, h->least);
    to->most = MAX(to->most, h->most);
    to->sum += h->sum;
    to->total += h->total;
}

uint64_t
histogram_at(const struct histogram *h, double q)
{
    uint64_t want = (uint64_t)(q * (double)h->total), seen = 0;

    assert(q >= 0 && q <= 1);
    if (h->total == 0 || want >= h->total)
        return h->most;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += h->counts[i];
        if (seen > want)
            return MIN(MAX(histogram_value_of(i), h->least), h->most);
    }
    return h->most;
}

double
histogram_mean(const struct histogram *h)
{
    return h->total > 0 ? (double)h->sum / (double)h->total : 0;
}
