/* http_chars: which bytes may stand where; shared by heads, chunks and the writer.
 * Private to wire. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Bit c of word c / 64: the token characters of RFC 9110, "!#$%&'*+-.^_`|~", digits and
 * letters. */
static inline bool
is_token_char(unsigned char c)
{
    static const uint64_t set[4] = {UINT64_C(0x03ff6cfa00000000),
                                    UINT64_C(0x57ffffffc7fffffe), 0, 0};

    return (set[c >> 6] >> (c & 63) & 1) != 0;
}

/* Is none of these bytes below 0x20 or 0x7f? Eight at a time. */
static inline bool
has_no_control(const char *at, size_t len)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7;
    uint64_t found = 0;
    size_t i = 0;

    for (; i + 8 <= len; i += 8) {
        uint64_t v, del;

        memcpy(&v, at + i, 8);
        del = v ^ (ones * 0x7f);
        found |= (v - ones * 0x20) & ~v & tops;
        found |= (del - ones) & ~del & tops;
    }
    for (; i < len; i++) {
        unsigned char c = (unsigned char)at[i];

        found |= (uint64_t)(c < 0x20 || c == 0x7f);
    }
    return found == 0;
}

/* The same, tabs allowed: what may stand in a value. */
static inline bool
has_no_control_but_tab(const char *at, size_t len)
{
    if (has_no_control(at, len))
        return true;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)at[i];

        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}
