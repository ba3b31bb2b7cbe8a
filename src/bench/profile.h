/* profile: what one emulated accelerator asks of storage, and from when on it counts as kept busy. The facts are those that the
 * field's training benchmark gives for its models; anything can be set by the user. Any thread.
 */
#pragma once
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

#define PROFILE_NAME 48 /* NUL included */

struct profile {
    char name[PROFILE_NAME];
    uint64_t sample_bytes;     /* on average */
    uint64_t spread_bytes;     /* of a sample that is a file: standard deviation */
    uint32_t samples_per_file; /* 1: a file is a sample, whatever its size */
    uint32_t batch;            /* samples that one step takes */
    uint64_t step_ns;          /* what the real chip computes on a batch */
    double floor;              /* utilisation from which on a run passes: 0.9 */
    uint32_t columns;          /* of a sample that is a row; 0: it is read whole */
    uint64_t read_bytes;       /* of such a sample, by these columns together */
};
/* ERR_BAD_REQUEST, with the names there are. */
enum err profile_find(const char *name, struct profile *out,
                      struct errbuf *eb) MUST_CHECK;
/* The one of that number; NULL: there are fewer. */
const struct profile *profile_at(unsigned i);
/* What one accelerator takes that never waits. */
double profile_samples_s(const struct profile *p);
/* What is read of a sample, on average. */
uint64_t profile_read_bytes(const struct profile *p);
/* Samples in a file of that many bytes, at least 1. */
uint32_t profile_samples_in(const struct profile *p, uint64_t file_bytes);
/* The size of file `number` of a set that is made for the profile: the same each time. */
uint64_t profile_file_bytes(const struct profile *p, uint64_t number);
