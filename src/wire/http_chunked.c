/* http_chunked: the chunked coding, read strictly, a byte at a time between pieces of the
 * body. */
#include "base/mem.h"
#include "wire/http.h"
#include "wire/http_chars.h"

/*   SIZE -> [EXTENSION] -> SIZE_LF -> DATA -> DATA_CR -> DATA_LF -> SIZE
 *                              \ (size 0)
 *                               TRAILER -> NAME -> VALUE -> VALUE_LF -> TRAILER
 *                                  \ -> END_LF -> END */
enum {
    SIZE,
    EXTENSION,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER,
    NAME,
    VALUE,
    VALUE_LF,
    END_LF,
    END
};
#define DIGITS_MAX 15 /* sizes stay below 2^60, so nothing overflows */

void
http_chunked_init(struct http_chunked *c)
{
    *c = (struct http_chunked){.state = SIZE};
}

uint64_t
http_chunked_left(const struct http_chunked *c)
{
    return c->state == DATA ? c->left : 0;
}

static bool
chunked_fail(struct http_chunked *c, const char *why)
{
    c->why = why;
    return false;
}

static int
hex_value(unsigned char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool
step_size(struct http_chunked *c, unsigned char b)
{
    int v = hex_value(b);

    if (v >= 0) {
        if (c->digits++ == DIGITS_MAX)
            return chunked_fail(c, "a chunk's size has more than 15 digits");
        c->left = c->left << 4 | (unsigned)v;
        return true;
    }
    if (c->digits == 0)
        return chunked_fail(c, "a chunk's size is not hexadecimal");
    if (b == '\r')
        c->state = SIZE_LF;
    else if (b == ';')
        c->state = EXTENSION;
    else
        return chunked_fail(c, "a chunk's size is followed by neither ; nor CR LF");
    return true;
}

/* Extensions mean nothing here; they may only not hold what could be read as something
 * else. */
static bool
step_extension(struct http_chunked *c, unsigned char b)
{
    if (b == '\r')
        c->state = SIZE_LF;
    else if ((b < 0x20 && b != '\t') || b == 0x7f)
        return chunked_fail(c, "a chunk's extension holds a control byte");
    return true;
}

static bool
step_lf(struct http_chunked *c, unsigned char b, unsigned next)
{
    if (b != '\n')
        return chunked_fail(c, "CR is not followed by LF");
    c->state = next;
    c->line = 0;
    return true;
}

static bool
step_trailer(struct http_chunked *c, unsigned char b)
{
    switch (c->state) {
    case TRAILER:
        if (b == '\r')
            c->state = END_LF;
        else if (is_token_char(b))
            c->state = NAME;
        else
            return chunked_fail(c, "a trailer's name is no token");
        break;
    case NAME:
        if (b == ':')
            c->state = VALUE;
        else if (!is_token_char(b))
            return chunked_fail(c, "a trailer's name is no token");
        break;
    default:
        if (b == '\r')
            c->state = VALUE_LF;
        else if ((b < 0x20 && b != '\t') || b == 0x7f)
            return chunked_fail(c, "a trailer's value holds a control byte");
        break;
    }
    return true;
}

/* One byte that is not body. False: `why` says what is wrong with it. */
static bool
chunked_step(struct http_chunked *c, unsigned char b)
{
    if (c->state <= SIZE_LF && ++c->line > HTTP_CHUNK_LINE_MAX)
        return chunked_fail(c, "the line of a chunk's size is longer than 256 bytes");
    if (c->state >= TRAILER && ++c->trailers > HTTP_TRAILERS_MAX)
        return chunked_fail(c, "trailers are longer than 8192 bytes");
    switch (c->state) {
    case SIZE:
        return step_size(c, b);
    case EXTENSION:
        return step_extension(c, b);
    case SIZE_LF:
        c->digits = 0;
        return step_lf(c, b, c->left > 0 ? DATA : TRAILER);
    case DATA_CR:
        if (b != '\r')
            return chunked_fail(c, "a chunk is longer than its size");
        c->state = DATA_LF;
        return true;
    case DATA_LF:
        return step_lf(c, b, SIZE);
    case VALUE_LF:
        return step_lf(c, b, TRAILER);
    case END_LF:
        return step_lf(c, b, END);
    default:
        return step_trailer(c, b);
    }
}

enum http_chunk
http_chunked_next(struct http_chunked *c, const char *in, size_t len, size_t *used,
                  struct span *data)
{
    size_t i = 0;

    *data = (struct span){in, 0};
    while (c->state != END && c->why == NULL && i < len) {
        if (c->state == DATA) {
            size_t n = MIN(len - i, c->left);

            *data = (struct span){in + i, n};
            *used = i + n;
            c->left -= n;
            if (c->left == 0)
                c->state = DATA_CR;
            return HTTP_CHUNK_DATA;
        }
        (void)chunked_step(c, (unsigned char)in[i++]); /* failed: why is set */
    }
    *used = i;
    if (c->why != NULL)
        return HTTP_CHUNK_BAD;
    return c->state == END ? HTTP_CHUNK_END : HTTP_CHUNK_MORE;
}
