#include "base/ip.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/mem.h"

/* The first match counts. */
static const struct {
    unsigned char at[4];
    unsigned bits;
    enum ip_class is;
} four[] = {
    {{100, 100, 100, 200}, 32, IP_LINK_LOCAL}, /* one cloud's metadata */
    {{127, 0, 0, 0}, 8, IP_LOOPBACK},
    {{169, 254, 0, 0}, 16, IP_LINK_LOCAL},
    {{10, 0, 0, 0}, 8, IP_PRIVATE},
    {{172, 16, 0, 0}, 12, IP_PRIVATE},
    {{192, 168, 0, 0}, 16, IP_PRIVATE},
    {{100, 64, 0, 0}, 10, IP_PRIVATE},
    {{0, 0, 0, 0}, 8, IP_SPECIAL},
    {{192, 0, 0, 0}, 24, IP_SPECIAL},
    {{198, 18, 0, 0}, 15, IP_PRIVATE},
    {{192, 0, 2, 0}, 24, IP_PRIVATE},
    {{198, 51, 100, 0}, 24, IP_PRIVATE},
    {{203, 0, 113, 0}, 24, IP_PRIVATE},
    {{224, 0, 0, 0}, 3, IP_SPECIAL}, /* multicast, reserved, broadcast */
};

/* `carries`: where the address of version 4 stands in it; 0: none. */
static const struct {
    unsigned char at[16];
    unsigned bits, carries;
    enum ip_class is;
} six[] = {
    {{[10] = 0xff, 0xff}, 96, 12, IP_SPECIAL},
    {{0, 0x64, 0xff, 0x9b}, 96, 12, IP_SPECIAL},
    {{0x20, 0x02}, 16, 2, IP_SPECIAL},
    {{[15] = 1}, 128, 0, IP_LOOPBACK},
    {{0}, 96, 0, IP_SPECIAL},
    {{0xfd, 0, 0x0e, 0xc2}, 32, 0, IP_LINK_LOCAL},
    {{0xfc}, 7, 0, IP_PRIVATE},
    {{0xfe, 0x80}, 10, 0, IP_LINK_LOCAL},
    {{0xfe, 0xc0}, 10, 0, IP_PRIVATE},
    {{0xff}, 8, 0, IP_SPECIAL},
};

bool
ip_same_prefix(const unsigned char *a, const unsigned char *b, unsigned bits)
{
    unsigned rest = bits % 8, whole = bits / 8;

    return memcmp(a, b, whole) == 0 &&
           (rest == 0 || a[whole] >> (8 - rest) == b[whole] >> (8 - rest));
}

enum ip_class
ip_class_of(const unsigned char *bytes, size_t len)
{
    for (size_t i = 0; len == 4 && i < ARRAY_LEN(four); i++)
        if (ip_same_prefix(bytes, four[i].at, four[i].bits))
            return four[i].is;
    for (size_t i = 0; len == 16 && i < ARRAY_LEN(six); i++)
        if (ip_same_prefix(bytes, six[i].at, six[i].bits))
            return six[i].carries != 0 ? ip_class_of(bytes + six[i].carries, 4)
                                       : six[i].is;
    return len == 4 || len == 16 ? IP_PUBLIC : IP_SPECIAL;
}

const char *
ip_class_name(enum ip_class c)
{
    static const char *const names[] = {
        [IP_PUBLIC] = "public",         [IP_PRIVATE] = "private",
        [IP_LOOPBACK] = "loopback",     [IP_LINK_LOCAL] = "link-local",
        [IP_SPECIAL] = "not for hosts",
    };

    return names[c];
}

size_t
ip_parse(struct span text, unsigned char out[16])
{
    char copy[INET6_ADDRSTRLEN + 1];

    if (text.len >= 2 && text.at[0] == '[' && text.at[text.len - 1] == ']')
        text = (struct span){text.at + 1, text.len - 2};
    if (text.len == 0 || text.len >= sizeof copy)
        return 0;
    memcpy(copy, text.at, text.len);
    copy[text.len] = '\0';
    if (strlen(copy) != text.len)
        return 0;
    if (inet_pton(AF_INET, copy, out) == 1)
        return 4;
    return inet_pton(AF_INET6, copy, out) == 1 ? 16 : 0;
}
