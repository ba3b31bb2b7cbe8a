/* Any bytes as a request head: whole and in pieces the verdict is the same, and what
 * is accepted, written back from its parts, reads as the same again. */
#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "wire/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_same(const struct http_head *a, const struct http_head *b)
{
    assert(a->method == b->method);
    assert(span_eq(a->method_text, b->method_text));
    assert(span_eq(a->target, b->target));
    assert(span_eq(a->path, b->path));
    assert(span_eq(a->query, b->query));
    assert((a->query.at == NULL) == (b->query.at == NULL));
    assert(span_eq(a->host, b->host));
    assert(a->body_length == b->body_length);
    assert(a->keep_alive == b->keep_alive);
    assert(a->expect == b->expect);
    assert(a->count == b->count);
    assert(a->repeated == b->repeated);
    for (unsigned i = 0; i < a->count; i++) {
        assert(span_eq(a->headers[i].name, b->headers[i].name));
        assert(span_eq(a->headers[i].value, b->headers[i].value));
    }
}

/* Bytes of one line end or of none are given at a time; a byte more never takes a
 * verdict back. */
static void
check_pieces(const char *bytes, size_t size, const struct http_head *whole,
             enum http_parse want)
{
    static struct http_head h;
    enum http_parse rc = HTTP_MORE;

    http_head_init(&h);
    for (size_t n = 0; rc == HTTP_MORE && n <= size; n += 1 + n % 7)
        rc = http_request_parse(&h, bytes, n);
    if (rc == HTTP_MORE)
        rc = http_request_parse(&h, bytes, size);
    assert(rc == want);
    if (rc == HTTP_BAD)
        assert(h.status == whole->status);
    if (rc == HTTP_DONE)
        check_same(whole, &h);
}

static void
check_written_back(const struct http_head *h)
{
    static struct http_head again;
    static char room[HTTP_HEAD_ROOM + 8 * HTTP_HEADERS_MAX];
    struct http_lines l = {.at = room, .room = sizeof room};
    char *method = xmemdup0(h->method_text.at, h->method_text.len);

    http_put_request(&l, method, h->target);
    free(method);
    if (h->minor == 0)
        room[l.len - 3] = '0';
    for (unsigned i = 0; i < h->count; i++) {
        char *name = xmemdup0(h->headers[i].name.at, h->headers[i].name.len);

        http_put(&l, name, h->headers[i].value);
        free(name);
    }
    http_put_end(&l);
    assert(!l.bad);
    http_head_init(&again);
    /* Blanks were made one a header, so only the limit of the block may speak up. */
    if (http_request_parse(&again, room, l.len) == HTTP_DONE)
        check_same(h, &again);
    else
        assert(again.status == 431);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct http_head h;
    const char *bytes = size > 0 ? (const char *)data : "";
    enum http_parse rc;

    http_head_init(&h);
    rc = http_request_parse(&h, bytes, size);
    check_pieces(bytes, size, &h, rc);
    if (rc == HTTP_BAD)
        assert(h.why != NULL && h.status >= 400 && h.status < 600);
    if (rc == HTTP_DONE) {
        assert(h.len <= size);
        check_written_back(&h);
    }
    return 0;
}
