/* crc: what crc.c shares with its kernels and its test. Everybody else includes hash.h.
 *
 * All three CRCs are reflected. A kernel folds a long message into sixteen bytes that are
 * congruent to it modulo the polynomial; the tables (or the CPU's crc32 instruction) do
 * those sixteen and the tail. So one folding kernel serves every polynomial, with two
 * constants for each distance, and needs no Barrett step.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Multipliers for moving a 128-bit block forward by a distance: k[0] for its low half
 * (the higher powers), k[1] for its high half. */
struct crc_fold {
    uint64_t by128[2];
    uint64_t by512[2];
    uint64_t by2048[2];
};

/* fold() takes len bytes, a multiple of 64 and not 0, into out; `crc` (register form) goes
 * in front. */
struct crc_kernel {
    const char *name;
    void (*fold)(const struct crc_fold *f, uint64_t crc, const unsigned char *data,
                 size_t len, unsigned char out[16]);
    /* The CPU's crc32 instruction, register form; NULL where it has none for that
     * polynomial. */
    uint32_t (*crc32)(uint32_t crc, const unsigned char *data, size_t len);
    uint32_t (*crc32c)(uint32_t crc, const unsigned char *data, size_t len);
};

/* The kernels this CPU can run, best first, ending with the portable one. */
const struct crc_kernel *const *crc_kernels(unsigned *count);
/* For tests: from now on use the kernel of that name; false when this CPU cannot. Not
 * while others count. */
bool crc_use(const char *name);
const char *crc_used(void);
