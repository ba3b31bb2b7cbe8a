/* sample: records to sort; see sample.h. */
#include "shard/sample.h"

#include <assert.h>
#include <string.h>

#include "base/cursor.h"
#include "base/mem.h"
#include "wire/tar.h"

#define MEMBER_MIN 30u /* bytes of a member without its name */

void
sample_put_member(struct buf *members, const struct sample_member *m)
{
    assert(m->name.len > 0 && m->name.len <= UINT16_MAX);
    buf_be(members, m->offset, 8);
    buf_be(members, m->size, 8);
    buf_be(members, (uint64_t)m->mtime_s, 8);
    buf_be(members, m->crc, 4);
    buf_be(members, m->name.len, 2);
    buf_put_span(members, m->name);
}

uint64_t
sample_tar_bytes(uint64_t size)
{
    return TAR_BLOCK + size + tar_padding(size);
}

void
sample_encode(const struct sample *s, struct buf *out)
{
    assert(s->key.len <= SAMPLE_KEY_MAX);
    assert(s->count > 0 && s->members.len >= s->count * (size_t)MEMBER_MIN);
    buf_be(out, s->input, 4);
    buf_be(out, s->number, 4);
    buf_be(out, s->count, 4);
    buf_be(out, s->bytes, 8);
    buf_be(out, s->key.len, 2);
    buf_put_span(out, s->key);
    buf_put_span(out, s->members);
}

enum err
sample_parse(struct span record, struct sample *out, struct errbuf *eb)
{
    struct cursor c = cursor_of(record.at, record.len);

    *out = (struct sample){.input = (uint32_t)take_be(&c, 4)};
    out->number = (uint32_t)take_be(&c, 4);
    out->count = (uint32_t)take_be(&c, 4);
    out->bytes = take_be(&c, 8);
    out->key = take_span(&c, (size_t)take_be(&c, 2));
    out->members = take_span(&c, cursor_left(&c));
    if (c.bad || out->count == 0 || out->key.len > SAMPLE_KEY_MAX ||
        out->members.len / MEMBER_MIN < out->count)
        return err_set(eb, ERR_CORRUPT, "%zu bytes are no record of a sample",
                       record.len);
    return ERR_OK;
}

enum err
sample_next_member(struct span *members, struct sample_member *out, struct errbuf *eb)
{
    struct cursor c = cursor_of(members->at, members->len);

    *out = (struct sample_member){.offset = take_be(&c, 8)};
    out->size = take_be(&c, 8);
    out->mtime_s = (int64_t)take_be(&c, 8);
    out->crc = (uint32_t)take_be(&c, 4);
    out->name = take_span(&c, (size_t)take_be(&c, 2));
    if (c.bad || out->name.len == 0)
        return err_set(eb, ERR_CORRUPT, "a record of a sample ends inside a member");
    *members = span_from(*members, members->len - cursor_left(&c));
    return ERR_OK;
}

int
sample_cmp(const struct sample *a, const struct sample *b, bool descending)
{
    int c = span_cmp(a->key, b->key);

    if (c != 0)
        return descending ? -c : c;
    if (a->input != b->input)
        return a->input < b->input ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

void
sample_key_i64(struct buf *out, int64_t value)
{
    buf_be(out, (uint64_t)value ^ (1ull << 63), 8);
}

void
sample_key_f64(struct buf *out, double value)
{
    uint64_t bits;

    assert(value == value);
    if (value == 0)
        value = 0; /* -0 sorts as 0 */
    memcpy(&bits, &value, sizeof bits);
    buf_be(out, (bits >> 63) != 0 ? ~bits : bits | 1ull << 63, 8);
}
