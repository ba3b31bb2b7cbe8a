#include "wire/record.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

#define HEAD_LEN  8
#define SUM_LEN   RECORD_SUM
#define FIELD_MAX 0xffffffu
static_assert(HEAD_LEN + SUM_LEN == RECORD_OVERHEAD, "as the header says");
static_assert(RECORD_MAX <= FIELD_MAX, "a field's length has three bytes");

/* ---- writing ---- */

void
record_begin(struct record_writer *w, struct buf *out, uint8_t kind, uint8_t version)
{
    *w = (struct record_writer){.out = out, .start = out->len};
    buf_put(out, "FR", 2);
    buf_be(out, kind, 1);
    buf_be(out, version, 1);
    buf_be(out, 0, 4); /* the length: known in record_end() */
}

void
record_put_span(struct record_writer *w, uint8_t id, struct span value)
{
    char *at;

    assert(id != 0);
    assert(id >= w->last_id);
    assert(value.len <= FIELD_MAX);
    w->last_id = id;
    at = buf_reserve(w->out, RECORD_FIELD_OVERHEAD + value.len);
    if (at == NULL)
        return;
    w->out->len += RECORD_FIELD_OVERHEAD + value.len;
    at[0] = (char)id;
    at[1] = (char)(value.len >> 16);
    at[2] = (char)(value.len >> 8);
    at[3] = (char)value.len;
    if (value.len > 0)
        memcpy(at + RECORD_FIELD_OVERHEAD, value.at, value.len);
}

size_t
record_u64_len(uint64_t value)
{
    return value == 0 ? 0 : 8 - (size_t)__builtin_clzll(value) / 8;
}

void
record_put_u64(struct record_writer *w, uint8_t id, uint64_t value)
{
    char bytes[8];
    size_t len = record_u64_len(value);

    for (size_t i = len; i-- > 0; value >>= 8)
        bytes[i] = (char)value;
    record_put_span(w, id, (struct span){bytes, len});
}

void
record_end(struct record_writer *w)
{
    struct buf *out = w->out;
    size_t len = out->len - w->start + SUM_LEN;

    if (len > RECORD_MAX)
        out->full = true;
    if (out->full)
        return;
    for (unsigned i = 0; i < 4; i++)
        out->at[w->start + 4 + i] = (char)(len >> (8 * (3 - i)));
    buf_be(out, hash_crc32c(0, out->at + w->start, len - SUM_LEN), SUM_LEN);
}

/* ---- reading ---- */

static bool
next_field(struct cursor *c, uint8_t *id, struct span *value)
{
    size_t left = cursor_left(c), len;

    if (c->bad || left == 0)
        return false;
    c->bad = left < RECORD_FIELD_OVERHEAD;
    if (c->bad)
        return false;
    len = (size_t)c->at[1] << 16 | (size_t)c->at[2] << 8 | c->at[3];
    c->bad = len > left - RECORD_FIELD_OVERHEAD;
    if (c->bad)
        return false;
    *id = c->at[0];
    *value = (struct span){(const char *)c->at + RECORD_FIELD_OVERHEAD, len};
    c->at += RECORD_FIELD_OVERHEAD + len;
    return true;
}

/* Once here, so that record_next() can't meet a broken field later. */
static enum err
check_fields(struct cursor c, struct errbuf *eb)
{
    uint8_t id = 0, last = 0;
    struct span value;

    while (next_field(&c, &id, &value)) {
        if (id == 0 || id < last)
            return err_set(eb, ERR_CORRUPT, "record: field %u follows field %u", id,
                           last);
        last = id;
    }
    if (c.bad)
        return err_set(eb, ERR_CORRUPT, "record: a field reaches beyond the record");
    return ERR_OK;
}

enum err
record_open(struct span bytes, struct record *out, struct errbuf *eb)
{
    struct cursor c = cursor_of(bytes.at, bytes.len);
    struct span magic = take_span(&c, 2);
    uint64_t len, sum;

    *out = (struct record){0};
    out->kind = (uint8_t)take_be(&c, 1);
    out->version = (uint8_t)take_be(&c, 1);
    len = take_be(&c, 4);
    if (c.bad)
        return err_set(eb, ERR_CORRUPT, "record: %zu bytes are too few for its head",
                       bytes.len);
    if (!span_is(magic, "FR"))
        return err_set(eb, ERR_CORRUPT, "record: does not begin with \"FR\"");
    if (len < RECORD_OVERHEAD || len > RECORD_MAX || len > bytes.len)
        return err_set(eb, ERR_CORRUPT,
                       "record: a length of %" PRIu64 " where %zu bytes are there and %u "
                       "are allowed",
                       len, bytes.len, (unsigned)RECORD_MAX);

    out->len = (size_t)len;
    out->all = cursor_of(bytes.at + HEAD_LEN, (size_t)len - RECORD_OVERHEAD);
    out->fields = out->all;
    c = cursor_of(bytes.at + len - SUM_LEN, SUM_LEN);
    sum = take_be(&c, SUM_LEN);
    if (sum != hash_crc32c(0, bytes.at, (size_t)len - SUM_LEN))
        return err_set(eb, ERR_CORRUPT, "record: its sum is wrong");
    return check_fields(out->all, eb);
}

void
record_reopen(struct span bytes, struct record *out)
{
    struct cursor c = cursor_of(bytes.at, bytes.len);

    assert(bytes.len >= RECORD_OVERHEAD);
    *out = (struct record){0};
    (void)take_span(&c, 2);
    out->kind = (uint8_t)take_be(&c, 1);
    out->version = (uint8_t)take_be(&c, 1);
    out->len = (size_t)take_be(&c, 4);
    assert(out->len >= RECORD_OVERHEAD && out->len <= bytes.len);
    out->all = cursor_of(bytes.at + HEAD_LEN, out->len - RECORD_OVERHEAD);
    out->fields = out->all;
}

bool
record_next(struct record *r, uint8_t *id, struct span *value)
{
    return next_field(&r->fields, id, value);
}

bool
record_find(const struct record *r, uint8_t id, struct span *value)
{
    struct cursor c = r->all;
    uint8_t at;

    while (next_field(&c, &at, value)) {
        if (at == id)
            return true;
        if (at > id)
            break;
    }
    return false;
}

enum err
record_u64(struct span value, uint64_t *out)
{
    struct cursor c = cursor_of(value.at, value.len);

    *out = 0;
    if (value.len > 8 || (value.len > 0 && value.at[0] == '\0'))
        return ERR_CORRUPT;
    if (value.len > 0)
        *out = take_be(&c, (unsigned)value.len);
    return ERR_OK;
}
