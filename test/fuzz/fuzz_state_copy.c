/* A copy of the node's state: what is read is written again to something that reads the same, whatever its sums. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "node/state_copy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
there_and_back(const struct state_copy *c)
{
    struct state_copy again;
    struct errbuf eb = {{0}};
    struct buf out;

    buf_init(&out, MIB(2));
    state_copy_encode(c, &out);
    assert(!out.full);
    assert(state_copy_parse(buf_span(&out), &again, &eb) == ERR_OK);
    assert(again.node == c->node && again.starts == c->starts &&
           again.number == c->number && span_eq(again.pairs, c->pairs));
    assert(memcmp(again.cluster_id, c->cluster_id, sizeof c->cluster_id) == 0);
    assert(!state_copy_newer(&again, c) && !state_copy_newer(c, &again));
    buf_fini(&out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span bytes = {(const char *)data, size};
    struct state_copy c = {.node = 1, .pairs = bytes};
    struct errbuf eb = {{0}};

    if (size > MIB(1))
        return 0;
    if (size >= 17) { /* behind the sums */
        memcpy(c.cluster_id, data, 16);
        c.starts = data[16];
        there_and_back(&c);
    }
    if (state_copy_parse(bytes, &c, &eb) == ERR_OK)
        there_and_back(&c);
    else
        assert(eb.text[0] != '\0');
    return 0;
}
