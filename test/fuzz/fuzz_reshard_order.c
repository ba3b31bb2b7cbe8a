/* Any bytes as an order file of a reshard: an error that says something, or ranks that are all different, by shard and line. */
#include <assert.h>
#include <stdint.h>

#include "job/reshard.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reshard_order *o;
    struct errbuf eb = {{0}};
    struct buf text;

    buf_init(&text, 1u << 20);
    buf_put(&text, data, size);
    if (text.full || reshard_order_parse(&text, "\t", &o, &eb) != ERR_OK) {
        assert(text.full || eb.text[0] != '\0');
        buf_fini(&text);
        return 0;
    }
    assert(reshard_order_count(o) > 0);
    for (uint32_t i = 0; i < reshard_order_count(o); i++) {
        const struct reshard_line *l = reshard_order_rank(o, i), *before;

        assert(l->rank == i && reshard_order_find(o, l->name) == l);
        assert(span_eq(reshard_order_class(o, l->class)->shard, l->shard));
        before = i > 0 ? reshard_order_rank(o, i - 1) : NULL;
        assert(before == NULL || before->class < l->class ||
               (before->class == l->class && before->line < l->line));
    }
    reshard_order_free(&o);
    buf_fini(&text);
    return 0;
}
