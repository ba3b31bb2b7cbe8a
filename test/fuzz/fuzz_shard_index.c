/* Any bytes as the entries of a kept index: the first byte chooses tar or zip, the second is the number of members. What parses
 * formats back to the same bytes, and each member is found by its name, or an earlier one of that name is. */
#include <assert.h>
#include <stdint.h>

#include "shard/index_code.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ARCHIVE_BYTES (1u << 20)

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct shard_version v = {.size = ARCHIVE_BYTES, .etag = "abc"};
    struct span body;
    struct shard_index *x, *again;
    struct errbuf eb = {{0}};
    struct buf bytes;

    if (size < 2)
        return 0;
    body = (struct span){(const char *)data + 2, size - 2};
    if (shard_index_parse_body(data[0] % 2 == 0 ? SHARD_TAR : SHARD_ZIP, data[1], body,
                               ARCHIVE_BYTES, &x, &eb) != ERR_OK) {
        assert(eb.text[0] != '\0');
        return 0;
    }
    for (uint32_t i = 0; i < x->count; i++) {
        const struct shard_entry *e =
            shard_index_find(x, shard_entry_name(x, &x->entries[i]));

        assert(e != NULL && e <= &x->entries[i]);
    }
    buf_init(&bytes, 1u << 24);
    shard_index_encode(x, 7, SPAN("a.tar"), &v, &bytes);
    assert(!bytes.full && bytes.len >= body.len);
    assert(span_eq(span_from(buf_span(&bytes), bytes.len - body.len), body));
    assert(shard_index_parse(buf_span(&bytes), 7, SPAN("a.tar"), &v, &again, &eb) ==
           ERR_OK);
    assert(again->count == x->count);
    shard_index_drop(&again);
    v.etag[0] = 'b';
    assert(shard_index_parse(buf_span(&bytes), 7, SPAN("a.tar"), &v, &again, &eb) ==
           ERR_NOT_FOUND);
    shard_index_drop(&x);
    buf_fini(&bytes);
    return 0;
}
