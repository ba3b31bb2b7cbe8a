/* Dumps of the node's state, from a backup: pairs that come out go in again as the same bytes. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "meta/dump.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span dump = {(const char *)data, size}, key, value, before = dump;
    struct errbuf eb = {{0}};
    enum err rc;

    while ((rc = meta_dump_next(&dump, &key, &value, &eb)) == ERR_OK) {
        struct span again, key2, value2;
        struct buf out;

        assert(dump.len < before.len && key.len > 0);
        buf_init(&out, MIB(2));
        meta_dump_put(&out, key, value);
        again = buf_span(&out);
        assert(meta_dump_next(&again, &key2, &value2, &eb) == ERR_OK);
        assert(again.len == 0 && span_eq(key, key2) && span_eq(value, value2));
        buf_fini(&out);
        before = dump;
    }
    assert(rc == ERR_NOT_FOUND || eb.text[0] != '\0');
    return 0;
}
