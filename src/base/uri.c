#include "base/uri.h"

#include <stdint.h>

#include "base/hash.h"

static bool
uri_is_plain(unsigned char c, bool keep_slash)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '-' || c == '.' || c == '_' || c == '~' || (c == '/' && keep_slash);
}

int
uri_decode(struct span s, char *out)
{
    size_t n = 0;

    if (s.len > INT32_MAX)
        return -1;
    for (size_t i = 0; i < s.len; i++) {
        if (s.at[i] != '%') {
            out[n++] = s.at[i];
            continue;
        }
        if (s.len - i < 3 || hex_decode(s.at + i + 1, 2, out + n, 1) != 1)
            return -1;
        n++;
        i += 2;
    }
    return (int)n;
}

void
uri_encode(struct buf *out, struct span s, bool keep_slash)
{
    static const char digits[] = "0123456789ABCDEF";

    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.at[i];
        char hex[3] = {'%', digits[c >> 4], digits[c & 15]};

        if (uri_is_plain(c, keep_slash))
            buf_putc(out, (char)c);
        else
            buf_put(out, hex, sizeof hex);
    }
}
