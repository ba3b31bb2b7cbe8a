/* Any bytes: a record that opens formats back to the same bytes. */
#include <assert.h>
#include <stdint.h>

#include "wire/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span bytes = {(const char *)data, size};
    struct record_writer w;
    struct errbuf eb = {0};
    struct record r;
    struct span value;
    struct buf again;
    uint8_t id;
    uint64_t n;

    if (record_open(bytes, &r, &eb) != ERR_OK) {
        assert(eb.text[0] != '\0');
        return 0;
    }
    assert(r.len <= size);
    buf_init(&again, RECORD_MAX);
    record_begin(&w, &again, r.kind, r.version);
    while (record_next(&r, &id, &value)) {
        if (record_u64(value, &n) == ERR_OK)
            record_put_u64(&w, id, n); /* a number has one form */
        else
            record_put_span(&w, id, value);
    }
    record_end(&w);
    assert(span_eq(buf_span(&again), (struct span){bytes.at, r.len}));
    buf_fini(&again);
    return 0;
}
