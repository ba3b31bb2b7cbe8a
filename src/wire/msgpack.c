#include "wire/msgpack.h"

#include <assert.h>

/* A type byte, and a big-endian number of `bytes`. */
static void
put_head(struct buf *out, unsigned char type, uint64_t number, unsigned bytes)
{
    buf_putc(out, (char)type);
    buf_be(out, number, bytes);
}

void
msgpack_map(struct buf *out, uint32_t members)
{
    if (members < 16)
        buf_putc(out, (char)(0x80u | members));
    else if (members <= UINT16_MAX)
        put_head(out, 0xde, members, 2);
    else
        put_head(out, 0xdf, members, 4);
}

void
msgpack_array(struct buf *out, uint32_t members)
{
    if (members < 16)
        buf_putc(out, (char)(0x90u | members));
    else if (members <= UINT16_MAX)
        put_head(out, 0xdc, members, 2);
    else
        put_head(out, 0xdd, members, 4);
}

void
msgpack_text(struct buf *out, struct span text)
{
    assert(text.len <= UINT32_MAX);
    if (text.len < 32)
        buf_putc(out, (char)(0xa0u | text.len));
    else if (text.len <= UINT8_MAX)
        put_head(out, 0xd9, text.len, 1);
    else if (text.len <= UINT16_MAX)
        put_head(out, 0xda, text.len, 2);
    else
        put_head(out, 0xdb, text.len, 4);
    buf_put_span(out, text);
}

void
msgpack_u64(struct buf *out, uint64_t value)
{
    if (value < 128)
        buf_putc(out, (char)value);
    else if (value <= UINT8_MAX)
        put_head(out, 0xcc, value, 1);
    else if (value <= UINT16_MAX)
        put_head(out, 0xcd, value, 2);
    else if (value <= UINT32_MAX)
        put_head(out, 0xce, value, 4);
    else
        put_head(out, 0xcf, value, 8);
}
