/* Any bytes as a page of names from another node: what decodes encodes to a page that decodes to the same. */
#include <assert.h>
#include <stdint.h>

#include "api/share.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a = arena_new(4096, 64u << 20);
    struct share_page page, again;
    struct errbuf eb = {{0}};
    struct buf out;

    buf_init(&out, 64u << 20);
    if (share_page_decode((struct span){(const char *)data, size}, a, &page, &eb) ==
        ERR_OK) {
        enum err rc;

        share_page_encode(&page, &out);
        rc = share_page_decode(buf_span(&out), a, &again, &eb);
        assert(rc == ERR_OK);
        assert(again.count == page.count && again.truncated == page.truncated);
        for (uint32_t i = 0; i < page.count; i++) {
            assert(span_eq(page.entries[i].name, again.entries[i].name));
            assert(span_eq(page.entries[i].etag, again.entries[i].etag));
            assert(page.entries[i].size == again.entries[i].size);
        }
    } else {
        assert(eb.text[0] != '\0');
    }
    buf_fini(&out);
    arena_free(&a);
    return 0;
}
