#include "base/utf8.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"

size_t
utf8_next(struct span s, uint32_t *code)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *p = (const void *)s.at;
    size_t len;
    uint32_t c;

    if (s.len == 0)
        return 0;
    c = p[0];
    if (c < 0x80) {
        *code = c;
        return 1;
    }
    if (c < 0xC2 ||
        c > 0xF4) /* a continuation, always overlong, or beyond the last plane */
        return 0;
    len = c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
    if (s.len < len)
        return 0;
    c &= 0x7Fu >> len;
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xC0) != 0x80)
            return 0;
        c = c << 6 | (p[i] & 0x3F);
    }
    if (c < least[len] || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF))
        return 0;
    *code = c;
    return len;
}

/* Are these eight bytes ASCII? */
static bool
is_ascii(const char *at)
{
    uint64_t eight;

    memcpy(&eight, at, 8);
    return (eight & UINT64_C(0x8080808080808080)) == 0;
}

bool
utf8_valid(struct span s)
{
    const char *begin = s.at;

    while (s.len > 0) {
        size_t n = MIN(s.len, 8);
        uint32_t code;

        /* Most text is ASCII. Of less than eight bytes the last eight are looked at. */
        if ((size_t)(s.at - begin) + n >= 8 && is_ascii(s.at + n - 8)) {
            s = span_from(s, n);
            continue;
        }
        n = utf8_next(s, &code);
        if (n == 0)
            return false;
        s = span_from(s, n);
    }
    return true;
}

size_t
utf8_put(uint32_t code, char out[4])
{
    assert(code <= 0x10FFFF);
    assert(code < 0xD800 || code > 0xDFFF);
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xC0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xE0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3F));
        out[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3F));
    out[2] = (char)(0x80 | (code >> 6 & 0x3F));
    out[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}
