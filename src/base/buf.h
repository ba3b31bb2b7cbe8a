/* buf: bytes that grow up to a limit set at birth; what is written beyond it sets `full`, which the writer
 * checks once at the end. One loop or thread at a time. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct buf {
    char *at;    /* owned; NULL until the first byte */
    size_t len;  /* bytes written */
    size_t room; /* bytes allocated */
    size_t limit;
    bool full; /* something did not fit; `at` holds what came before */
};

void buf_init(struct buf *b, size_t limit);
void buf_fini(struct buf *b);
void buf_clear(struct buf *b); /* keeps the memory */
/* Room for `more` bytes behind len, or NULL and full. */
char *buf_reserve(struct buf *b, size_t more);
void buf_put(struct buf *b, const void *data, size_t len);
void buf_putc(struct buf *b, char c);
void buf_puts(struct buf *b, const char *cstr);
void buf_put_span(struct buf *b, struct span s);
void buf_printf(struct buf *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* A big-endian number of 1 to 8 bytes. */
void buf_be(struct buf *b, uint64_t value, unsigned bytes);
void buf_zero(struct buf *b, size_t count);
void buf_consume(struct buf *b, size_t count); /* drops the first bytes */
static inline struct span
buf_span(const struct buf *b)
{
    return (struct span){b->at, b->len};
}
