/* Any bytes as a chunked body: read whole and byte by byte it gives the same body and
 * the same end, and the body, written as chunks of our own, reads back. */
#include <assert.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "wire/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads up to `size` bytes, at most `step` at a time, into `body`; *end: bytes used. */
static enum http_chunk
read_all(const char *in, size_t size, size_t step, struct buf *body, size_t *end)
{
    struct http_chunked c;
    enum http_chunk what = HTTP_CHUNK_MORE;
    size_t at = 0;

    http_chunked_init(&c);
    while (at < size && (what == HTTP_CHUNK_MORE || what == HTTP_CHUNK_DATA)) {
        struct span piece;
        size_t len = MIN(step, size - at), used;
        uint64_t surely = http_chunked_left(&c);

        what = http_chunked_next(&c, in + at, len, &used, &piece);
        assert(used <= len);
        assert(used > 0);
        assert(piece.len == 0 ||
               (piece.at >= in + at && piece.at + piece.len == in + at + used));
        assert(what != HTTP_CHUNK_DATA || surely == 0 || piece.len == MIN(surely, len));
        assert(what != HTTP_CHUNK_BAD || c.why != NULL);
        buf_put_span(body, piece);
        at += used;
    }
    *end = at;
    return what == HTTP_CHUNK_DATA ? HTTP_CHUNK_MORE : what;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *in = size > 0 ? (const char *)data : "";
    struct buf whole, bytes, ours, back;
    size_t end, end_bytes;
    enum http_chunk what;

    buf_init(&whole, size + 1);
    buf_init(&bytes, size + 1);
    buf_init(&ours, 2 * size + 64);
    buf_init(&back, size + 1);
    what = read_all(in, size, size, &whole, &end);
    assert(read_all(in, size, 1, &bytes, &end_bytes) == what);
    assert(end == end_bytes);
    assert(span_eq(buf_span(&whole), buf_span(&bytes)));

    if (whole.len > 0) {
        char head[HTTP_CHUNK_HEAD_ROOM];

        buf_put(&ours, head, http_chunk_head(head, whole.len));
        buf_put_span(&ours, buf_span(&whole));
        buf_puts(&ours, "\r\n");
    }
    buf_puts(&ours, "0\r\n\r\n");
    assert(!ours.full);
    assert(read_all(ours.at, ours.len, 3, &back, &end) == HTTP_CHUNK_END);
    assert(end == ours.len);
    assert(span_eq(buf_span(&back), buf_span(&whole)));
    buf_fini(&whole);
    buf_fini(&bytes);
    buf_fini(&ours);
    buf_fini(&back);
    return 0;
}
