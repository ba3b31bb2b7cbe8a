/* Any bytes as the list of a batch; the first byte chooses text or JSON. What is accepted is within the limits. */
#include <assert.h>
#include <stdint.h>

#include "wire/batchlist.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span text = {(const char *)data, size};
    struct errbuf eb = {{0}};
    struct batchlist l;
    struct arena *a;
    enum err rc;

    if (size < 1)
        return 0;
    a = arena_new(4096, (size_t)1 << 24);
    text = span_from(text, 1);
    rc = (data[0] & 1) != 0 ? batchlist_parse_json(text, a, &l, &eb)
                            : batchlist_parse_text(text, a, &l, &eb);
    assert((rc == ERR_OK) == (eb.text[0] == '\0'));
    for (uint32_t i = 0; rc == ERR_OK && i < l.count; i++) {
        const struct batchlist_item *it = &l.items[i];

        assert(it->name.len > 0 && it->name.len <= BATCHLIST_NAME_MAX);
        assert(it->member.at == NULL || it->member.len > 0);
        assert(it->first <= it->last);
        assert(span_find(it->name, '\0') == NULL);
    }
    assert(rc != ERR_OK || (l.count > 0 && l.count <= BATCHLIST_ITEMS_MAX));
    arena_free(&a);
    return 0;
}
