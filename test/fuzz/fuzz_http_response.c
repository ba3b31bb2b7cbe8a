/* Any bytes as a response head; the first byte chooses the request's method. Whole and
 * in pieces agree. */
#include <assert.h>

#include "base/mem.h"
#include "wire/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct http_head h, pieces;
    enum http_method method =
        size > 0 && data[0] == 'H' ? HTTP_METHOD_HEAD : HTTP_METHOD_GET;
    const char *bytes = size > 0 ? (const char *)data : "";
    enum http_parse rc, again = HTTP_MORE;

    http_head_init(&h);
    rc = http_response_parse(&h, bytes, size, method);
    http_head_init(&pieces);
    for (size_t n = 0; again == HTTP_MORE && n < size; n += 1 + n % 5)
        again = http_response_parse(&pieces, bytes, n, method);
    if (again == HTTP_MORE)
        again = http_response_parse(&pieces, bytes, size, method);
    assert(again == rc);
    if (rc == HTTP_BAD)
        assert(h.status == 502 && h.why != NULL);
    if (rc != HTTP_DONE)
        return 0;
    assert(h.code >= 100 && h.code <= 599);
    assert(h.len <= size && h.len == pieces.len);
    assert(h.body_length == pieces.body_length && h.body_length >= HTTP_TO_END);
    assert(h.keep_alive == pieces.keep_alive);
    assert(!(h.body_length == HTTP_TO_END && h.keep_alive));
    for (unsigned i = 0; i < h.count; i++) {
        assert(http_is_token(h.headers[i].name));
        assert(span_trim(h.headers[i].value).len == h.headers[i].value.len);
    }
    return 0;
}
