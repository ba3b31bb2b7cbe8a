#include "base/buf.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void
buf_init(struct buf *b, size_t limit)
{
    *b = (struct buf){.limit = limit};
}

void
buf_fini(struct buf *b)
{
    free(b->at);
    *b = (struct buf){.limit = b->limit};
}

void
buf_clear(struct buf *b)
{
    b->len = 0;
    b->full = false;
}

char *
buf_reserve(struct buf *b, size_t more)
{
    size_t want;

    if (more > b->limit - b->len) {
        b->full = true;
        return NULL;
    }
    if (more > b->room - b->len) {
        want = MAX(b->len + more, b->room * 2);
        want = MAX(want, 256);
        want = MIN(want, b->limit);
        b->at = xrealloc(b->at, want);
        b->room = want;
    }
    return b->at + b->len;
}

void
buf_put(struct buf *b, const void *data, size_t len)
{
    char *p;

    if (len == 0)
        return;
    p = buf_reserve(b, len);
    if (p != NULL) {
        memcpy(p, data, len);
        b->len += len;
    }
}

void
buf_putc(struct buf *b, char c)
{
    buf_put(b, &c, 1);
}

void
buf_puts(struct buf *b, const char *cstr)
{
    buf_put(b, cstr, strlen(cstr));
}

void
buf_put_span(struct buf *b, struct span s)
{
    buf_put(b, s.at, s.len);
}

void
buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    char *p;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    assert(n >= 0);
    p = buf_reserve(b, (size_t)n + 1);
    if (p == NULL)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(p, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
}

void
buf_be(struct buf *b, uint64_t value, unsigned bytes)
{
    char tmp[8];

    assert(bytes >= 1 && bytes <= 8);
    for (unsigned i = 0; i < bytes; i++)
        tmp[i] = (char)(value >> (8 * (bytes - 1 - i)));
    buf_put(b, tmp, bytes);
}

void
buf_zero(struct buf *b, size_t count)
{
    char *p = count > 0 ? buf_reserve(b, count) : NULL;

    if (p != NULL) {
        memset(p, 0, count);
        b->len += count;
    }
}

void
buf_consume(struct buf *b, size_t count)
{
    assert(count <= b->len);
    if (count > 0 && count < b->len)
        memmove(b->at, b->at + count, b->len - count);
    b->len -= count;
}
