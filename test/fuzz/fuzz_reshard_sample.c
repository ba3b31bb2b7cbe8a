/* Any bytes as the record of a sample: what parses, members included, formats back to the same bytes. */
#include <assert.h>
#include <stdint.h>

#include "shard/sample.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span record = {(const char *)data, size}, rest;
    struct sample s;
    struct sample_member m;
    struct errbuf eb = {{0}};
    struct buf members, again;
    uint32_t count = 0;

    if (sample_parse(record, &s, &eb) != ERR_OK) {
        assert(eb.text[0] != '\0');
        return 0;
    }
    assert(sample_cmp(&s, &s, false) == 0);
    buf_init(&members, 1u << 20);
    buf_init(&again, 1u << 20);
    for (rest = s.members; rest.len > 0; count++) {
        if (sample_next_member(&rest, &m, &eb) != ERR_OK)
            break;
        sample_put_member(&members, &m);
    }
    if (rest.len == 0 && count == s.count) {
        s.members = buf_span(&members);
        sample_encode(&s, &again);
        assert(again.full || span_eq(buf_span(&again), record));
    }
    buf_fini(&members);
    buf_fini(&again);
    return 0;
}
