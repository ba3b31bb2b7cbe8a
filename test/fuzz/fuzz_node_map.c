/* Any bytes as a map record: what decodes encodes to a record that decodes to the same, and places every key. */
#include <assert.h>
#include <stdint.h>

#include "map/node_place.h"
#include "meta/meta.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct node_map *m = NULL, *again = NULL;
    struct errbuf eb = {{0}};
    struct buf one, two;

    if (node_map_decode((struct span){(const char *)data, size}, &m, &eb) != ERR_OK) {
        assert(m == NULL);
        assert(eb.text[0] != '\0');
        return 0;
    }
    assert(m->epoch > 0);
    assert((node_place_owner(m, size) != NULL) == (node_place_of(m, size)->count > 0));
    buf_init(&one, META_VALUE_MAX);
    buf_init(&two, META_VALUE_MAX);
    node_map_encode(m, &one);
    if (!one.full) {
        enum err rc = node_map_decode(buf_span(&one), &again, &eb);

        assert(rc == ERR_OK);
        node_map_encode(again, &two);
        assert(span_eq(buf_span(&one), buf_span(&two)));
    }
    node_map_free(&m);
    node_map_free(&again);
    buf_fini(&one);
    buf_fini(&two);
    return 0;
}
