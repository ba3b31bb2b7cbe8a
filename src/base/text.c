/* Hex and base64 of hash.h. Strict: one text for each value, so that what parses formats
 * back the same. */
#include <endian.h>
#include <stdint.h>
#include <string.h>

#include "base/hash.h"

/* Of four bytes at once: each digit in a byte of its own, the first in the lowest, then the letters moved up. */
static void
eight_digits(const unsigned char *p, char *out)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint32_t four;
    uint64_t v, letters;

    memcpy(&four, p, sizeof four);
    v = le32toh(four);
    v = (v | v << 16) & UINT64_C(0x0000ffff0000ffff);
    v = (v | v << 8) & UINT64_C(0x00ff00ff00ff00ff);
    v = (v >> 4 | v << 8) & (ones * 0x0f);
    letters = (v + ones * 6) >> 4 & ones;
    v = htole64(v + ones * '0' + letters * ('a' - '0' - 10));
    memcpy(out, &v, sizeof v);
}

void
hex_encode(const void *data, size_t len, char *out)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *p = data;

    for (; len >= 4; len -= 4, p += 4, out += 8)
        eight_digits(p, out);
    for (size_t i = 0; i < len; i++) {
        *out++ = digits[p[i] >> 4];
        *out++ = digits[p[i] & 15];
    }
    *out = '\0';
}

/* One more than the value; 0: no hex digit. A table, since random digits make every branch a guess. */
static const unsigned char nibbles[256] = {
    ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,
    ['6'] = 7,  ['7'] = 8,  ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12,
    ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16, ['A'] = 11, ['B'] = 12,
    ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16,
};

int
hex_decode(const char *text, size_t len, void *out, size_t room)
{
    unsigned char *p = out;
    unsigned bad = 0;

    if (len % 2 != 0 || len / 2 > room || len / 2 > INT32_MAX)
        return -1;
    for (size_t i = 0; i < len; i += 2) {
        unsigned high = nibbles[(unsigned char)text[i]] - 1u;
        unsigned low = nibbles[(unsigned char)text[i + 1]] - 1u;

        bad |= high | low;
        *p++ = (unsigned char)(high << 4 | low);
    }
    return bad > 15 ? -1 : (int)(len / 2);
}

size_t
base64_encode(const void *data, size_t len, char *out)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *p = data;
    char *start = out;

    for (; len > 0; p += 3, len -= 3) {
        uint32_t three = (uint32_t)p[0] << 16;

        if (len > 1)
            three |= (uint32_t)p[1] << 8;
        if (len > 2)
            three |= p[2];
        *out++ = digits[three >> 18];
        *out++ = digits[three >> 12 & 63];
        *out++ = len > 1 ? digits[three >> 6 & 63] : '=';
        *out++ = len > 2 ? digits[three & 63] : '=';
        if (len < 3)
            break;
    }
    *out = '\0';
    return (size_t)(out - start);
}

static int
base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+')
        return 62;
    return c == '/' ? 63 : -1;
}

int
base64_decode(const char *text, size_t len, void *out, size_t room)
{
    unsigned char *p = out;
    size_t pad = 0;
    size_t bytes;
    uint32_t bits = 0;

    if (len % 4 != 0 || len / 4 * 3 > INT32_MAX)
        return -1;
    while (pad < 2 && pad < len && text[len - 1 - pad] == '=')
        pad++;
    bytes = len / 4 * 3 - pad;
    if (bytes > room)
        return -1;
    for (size_t i = 0, done = 0; i < len; i++) {
        int v = i < len - pad ? base64_value(text[i]) : 0;

        if (v < 0)
            return -1;
        bits = bits << 6 | (uint32_t)v;
        if (i % 4 != 3)
            continue;
        for (int shift = 16; shift >= 0; shift -= 8) {
            if (done < bytes) {
                p[done++] = (unsigned char)(bits >> shift);
            } else if ((bits >> shift & 255) != 0) {
                return -1; /* bits behind the last byte: a second spelling of the same
                              value */
            }
        }
        bits = 0;
    }
    return (int)bytes;
}
