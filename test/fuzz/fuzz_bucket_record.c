/* Any bytes as a bucket record: what decodes encodes to a record that decodes to the same. */
#include <assert.h>
#include <stdint.h>

#include "map/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct map_bucket *b = NULL, *again = NULL;
    struct errbuf eb = {{0}};
    struct buf one, two;

    if (map_bucket_decode((struct span){(const char *)data, size}, &b, &eb) != ERR_OK) {
        assert(b == NULL);
        assert(eb.text[0] != '\0');
        return 0;
    }
    buf_init(&one, META_VALUE_MAX);
    buf_init(&two, META_VALUE_MAX);
    map_bucket_encode(b, &one);
    if (!one.full) {
        enum err rc = map_bucket_decode(buf_span(&one), &again, &eb);

        assert(rc == ERR_OK);
        map_bucket_encode(again, &two);
        assert(span_eq(buf_span(&one), buf_span(&two)));
        map_bucket_drop((const struct map_bucket **)(void *)&again);
    }
    map_bucket_drop((const struct map_bucket **)(void *)&b);
    buf_fini(&one);
    buf_fini(&two);
    return 0;
}
