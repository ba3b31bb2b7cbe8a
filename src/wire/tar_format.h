/* tar_format: offsets of a ustar header. Only for tar_*.c and store/record/log_record_peek.c. */
#pragma once
#include <assert.h>
#include <stdint.h>
#include <string.h>

enum ustar_offset {
    USTAR_NAME = 0,
    USTAR_MODE = 100,
    USTAR_UID = 108,
    USTAR_GID = 116,
    USTAR_SIZE = 124,
    USTAR_MTIME = 136,
    USTAR_SUM = 148,
    USTAR_TYPE = 156,
    USTAR_LINK = 157,
    USTAR_MAGIC = 257, /* "ustar\0" "00"; GNU's old one is "ustar  \0" */
    USTAR_PREFIX = 345,
};
#define USTAR_NAME_LEN   100u
#define USTAR_PREFIX_LEN 155u

/* Adds up all bytes, and counts those above 127: eight at a time, because every record that is written or replayed
 * has two headers. */
static inline void
ustar_add_bytes(const char *at, size_t words, int64_t *sum, int64_t *high)
{
    const uint64_t even = 0x00ff00ff00ff00ffu;
    uint64_t lanes = 0; /* four of 16 bits: 64 words of two times 255 fit */

    assert(words <= 64);
    *high = 0;
    for (size_t i = 0; i < words; i++) {
        uint64_t w;

        memcpy(&w, at + 8 * i, sizeof w);
        lanes += (w & even) + (w >> 8 & even);
        *high += __builtin_popcountll(w & 0x8080808080808080u);
    }
    *sum = 0;
    for (unsigned i = 0; i < 4; i++)
        *sum += (int64_t)(lanes >> (16 * i) & 0xffff);
}
