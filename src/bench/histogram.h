/* histogram: durations in buckets of 1.6 %: 64 to each doubling, from 1 ns to hours, in the manner of HDR histograms.
 * Plain data of 30 KiB: belongs on the heap. One thread.
 */
#pragma once
#include <stdint.h>

#define HISTOGRAM_SUB     64u
#define HISTOGRAM_BUCKETS (59u * HISTOGRAM_SUB)

struct histogram {
    uint64_t counts[HISTOGRAM_BUCKETS];
    uint64_t total, sum, most, least;
};
void histogram_add(struct histogram *h, uint64_t value);
void histogram_merge(struct histogram *to,
                     const struct histogram *h); /* as if all had been added there */
/* The value that a share `q` of all are not above, within 1.6 %; 0 when there is none. q = 1: the greatest, exactly. */
uint64_t histogram_at(const struct histogram *h, double q);
double histogram_mean(const struct histogram *h);
