#include "members/beat.h"

#include <assert.h>
#include <stdio.h>

#include "base/num.h"
#include "wire/record.h"

enum { KIND_BEAT = 53, BEAT_VERSION = 1 };
enum { F_INCARNATION = 1, F_SEQUENCE = 2, F_EPOCH = 3, F_WALL_MS = 4, F_ADOPTED = 5 };

static_assert(MEMBERS_ADOPTED_ == 2, "fields 5 and 6");

struct span
beat_key(uint32_t number, char out[BEAT_KEY_MAX])
{
    int n = snprintf(out, BEAT_KEY_MAX, "beat/%u", number);

    assert(number > 0);
    assert(n > 0);
    return (struct span){out, (size_t)n};
}

uint32_t
beat_key_number(struct span key)
{
    uint64_t n = 0;

    if (!span_starts(key, SPAN("beat/")) || num_u64(span_from(key, 5), &n) != ERR_OK ||
        n > UINT32_MAX)
        return 0;
    return (uint32_t)n;
}

void
beat_encode(const struct beat *b, struct buf *out)
{
    struct record_writer w;

    assert(b->incarnation > 0);
    assert(b->sequence > 0);
    record_begin(&w, out, KIND_BEAT, BEAT_VERSION);
    record_put_u64(&w, F_INCARNATION, b->incarnation);
    record_put_u64(&w, F_SEQUENCE, b->sequence);
    record_put_u64(&w, F_EPOCH, b->epoch);
    record_put_u64(&w, F_WALL_MS, (uint64_t)b->wall_ms);
    for (unsigned i = 0; i < MEMBERS_ADOPTED_; i++)
        record_put_u64(&w, (uint8_t)(F_ADOPTED + i), b->adopted[i]);
    record_end(&w);
}

static enum err
beat_number(const struct record *r, uint8_t id, uint64_t *out)
{
    struct span v;

    return record_find(r, id, &v) ? record_u64(v, out) : ERR_CORRUPT;
}

enum err
beat_decode(struct span bytes, struct beat *out, struct errbuf *eb)
{
    struct record r;
    uint64_t wall = 0;
    enum err rc = record_open(bytes, &r, eb);

    *out = (struct beat){0};
    if (rc != ERR_OK)
        return rc;
    if (r.kind != KIND_BEAT || r.version != BEAT_VERSION)
        return err_set(eb, ERR_NOT_IMPLEMENTED,
                       "a beat of kind %u, version %u; this program reads %u, %u", r.kind,
                       r.version, KIND_BEAT, BEAT_VERSION);
    if (beat_number(&r, F_INCARNATION, &out->incarnation) != ERR_OK ||
        beat_number(&r, F_SEQUENCE, &out->sequence) != ERR_OK ||
        beat_number(&r, F_EPOCH, &out->epoch) != ERR_OK ||
        beat_number(&r, F_WALL_MS, &wall) != ERR_OK || wall > INT64_MAX ||
        out->incarnation == 0 || out->sequence == 0)
        return err_set(eb, ERR_CORRUPT, "a beat without a number that it needs");
    out->wall_ms = (int64_t)wall;
    for (unsigned i = 0; i < MEMBERS_ADOPTED_; i++) {
        if (beat_number(&r, (uint8_t)(F_ADOPTED + i), &out->adopted[i]) != ERR_OK)
            return err_set(eb, ERR_CORRUPT, "a beat without a revision that it needs");
    }
    return ERR_OK;
}
