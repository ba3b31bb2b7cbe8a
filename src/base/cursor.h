/* cursor: reading bytes from outside without leaving them. Past the end a take yields 0 (or an empty span)
 * and sets `bad`; the reader checks `bad` once, before it believes anything. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct cursor {
    const unsigned char *at;
    const unsigned char *end;
    bool bad;
};

static inline struct cursor
cursor_of(const void *data, size_t len)
{
    return (struct cursor){.at = data, .end = (const unsigned char *)data + len};
}
static inline size_t
cursor_left(const struct cursor *c)
{
    return (size_t)(c->end - c->at);
}
static inline struct span
take_span(struct cursor *c, size_t len)
{
    struct span s = {(const char *)c->at, len};

    if (c->bad || len > cursor_left(c)) {
        c->bad = true;
        return (struct span){"", 0};
    }
    c->at += len;
    return s;
}
/* A big-endian number of 1 to 8 bytes. */
static inline uint64_t
take_be(struct cursor *c, unsigned bytes)
{
    struct span s = take_span(c, bytes);
    uint64_t v = 0;

    for (size_t i = 0; i < s.len; i++)
        v = v << 8 | (unsigned char)s.at[i];
    return v;
}
