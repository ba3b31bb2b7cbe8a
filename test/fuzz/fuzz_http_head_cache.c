/* Two heads, with a line of ==== between them. The second one, when it is taken for known after the first, must be
 * exactly what parsing makes of it; so must the first one, met again. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/mem.h"
#include "wire/http_head_cache.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool
same_place(struct span a, struct span b)
{
    return a.at == b.at && a.len == b.len;
}

static void
check_same(const struct http_head *a, const struct http_head *b)
{
    assert(a->method == b->method);
    assert(same_place(a->method_text, b->method_text));
    assert(same_place(a->target, b->target));
    assert(same_place(a->path, b->path));
    assert(same_place(a->query, b->query));
    assert(same_place(a->host, b->host));
    assert(a->code == b->code && a->minor == b->minor);
    assert(a->body_length == b->body_length && a->has_length == b->has_length);
    assert(a->keep_alive == b->keep_alive && a->expect == b->expect);
    assert(a->count == b->count && a->unknown_count == b->unknown_count);
    assert(a->seen == b->seen && a->repeated == b->repeated);
    assert(memcmp(a->first, b->first, sizeof a->first) == 0);
    assert(a->len == b->len && a->status == b->status && a->why == b->why);
    assert(a->scanned_ == b->scanned_ && a->line_at_ == b->line_at_);
    assert(a->block_at_ == b->block_at_ && a->blank_ == b->blank_);
    for (unsigned i = 0; i < a->count; i++) {
        assert(same_place(a->headers[i].name, b->headers[i].name));
        assert(same_place(a->headers[i].value, b->headers[i].value));
    }
}

static void
meet(struct http_head_cache *k, unsigned *place, const char *bytes, size_t size)
{
    static struct http_head parsed, known;
    enum http_parse rc;

    http_head_init(&parsed);
    rc = http_request_parse(&parsed, bytes, size);
    if (http_head_cache_parse(k, place, &known, bytes, size)) {
        assert(rc == HTTP_DONE);
        check_same(&parsed, &known);
        assert((known.lines_id != 0) == (known.method == HTTP_METHOD_GET));
    }
    for (unsigned i = 0; i < 2 && rc == HTTP_DONE; i++)
        http_head_cache_insert(k, place, &parsed, bytes);
    if (rc == HTTP_DONE && parsed.lines_id != 0) {
        assert(http_head_cache_parse(k, place, &known, bytes, size));
        assert(known.lines_id == parsed.lines_id);
        check_same(&parsed, &known);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char mark[] = "====\n";
    const char *bytes = size > 0 ? (const char *)data : "";
    const char *between = memmem(bytes, size, mark, sizeof mark - 1);
    struct http_head_cache *k = http_head_cache_new();
    unsigned place = 0;

    meet(k, &place, bytes, between != NULL ? (size_t)(between - bytes) : size);
    if (between != NULL) {
        /* Of its own, so that reading beyond either end is noticed. */
        size_t len = size - (size_t)(between - bytes) - (sizeof mark - 1);
        char *second = xmemdup0(between + sizeof mark - 1, len);

        meet(k, &place, second, len);
        free(second);
    }
    http_head_cache_free(&k);
    return 0;
}
