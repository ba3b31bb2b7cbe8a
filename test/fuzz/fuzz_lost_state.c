/* Any bytes: the list of logs, the list of suspect keys, a slot of the durable mark. What reads formats back to one that reads the same. */
#include "store/index/suspect.h"
#include "store/store_entry.h"
#include "store/wal/log_set.h"
#include "store/wal/watermark.h"
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
fuzz_logs(struct span bytes)
{
    struct log_set s, again;
    struct errbuf eb = {0};
    struct buf out;

    if (log_set_decode(bytes, &s, &eb) != ERR_OK) {
        assert(eb.text[0] != '\0' && s.count == 0);
        return;
    }
    buf_init(&out, 4u << 20);
    log_set_encode(&s, &out);
    assert(log_set_decode(buf_span(&out), &again, &eb) == ERR_OK);
    assert(again.count == s.count && again.generation == s.generation);
    assert(again.in_doubt == s.in_doubt && again.was_missing == s.was_missing);
    buf_fini(&out);
    log_set_fini(&s);
    log_set_fini(&again);
}

static void
fuzz_suspects(struct span bytes)
{
    struct suspects *s = suspects_new(), *again = suspects_new();
    struct errbuf eb = {0};
    struct buf out;

    buf_init(&out, 4u << 20);
    if (suspects_decode(bytes, s, &eb) == ERR_OK) {
        suspects_encode(s, &out);
        assert(suspects_decode(buf_span(&out), again, &eb) == ERR_OK);
        assert(again->count == s->count && again->all == s->all);
        assert(again->known_count == s->known_count);
    } else {
        assert(eb.text[0] != '\0' && s->count == 0 && !s->all);
    }
    buf_fini(&out);
    suspects_free(&s);
    suspects_free(&again);
}

static void
fuzz_watermark(struct span bytes)
{
    struct watermark *w = watermark_new(), *again = watermark_new();
    char *slot = malloc(WATERMARK_SLOT);

    if (slot != NULL && watermark_decode(bytes, w)) {
        size_t len = watermark_encode(w, slot);

        assert(watermark_decode((struct span){slot, len}, again));
        assert(again->batch == w->batch && again->count == w->count);
        assert(memcmp(again->keys, w->keys, w->count * sizeof w->keys[0]) == 0);
    }
    free(slot);
    watermark_free(&w);
    watermark_free(&again);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span bytes;

    if (size == 0)
        return 0;
    bytes = (struct span){(const char *)data + 1, size - 1};
    if (data[0] == 'l')
        fuzz_logs(bytes);
    else if (data[0] == 's')
        fuzz_suspects(bytes);
    else
        fuzz_watermark(bytes);
    return 0;
}
