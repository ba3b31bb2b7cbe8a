#include "disk/row.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

#include "base/cursor.h"
#include "base/hash.h"
#include "base/mem.h"

#define ROW_FORMAT 1u
/* In the coded flags only: the content id does not share epoch and counter with the version; it was born with another
 * version than it has. */
#define FLAG_CONTENT 128u
#define FLAG_BORN    4096u
#define FLAGS_CODED  (2 * ROW_CHUNKS - 1)
#define FLAGS_OWN    (FLAGS_CODED & ~(FLAG_CONTENT | FLAG_BORN))
#define OTHERS       (ROW_SUSPENDED | ROW_KEPT | ROW_CHUNKS)
static_assert((FLAGS_OWN & OTHERS) == OTHERS,
              "the coding's own flags are none of a row's");

/* ---- varints: 7 bits a byte, low first, shortest form ---- */

static unsigned char *
put_number(unsigned char *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *out++ = (unsigned char)(value | 0x80);
    *out++ = (unsigned char)value;
    return out;
}

/* Of up to 8 bytes at `at`, all eight of which may be read; *len: how many it has, 0: more than that, or not the
 * shortest form. The first byte goes on. */
static uint64_t
number_in_word(const unsigned char *at, unsigned *len)
{
    uint64_t word, ends;
    unsigned bytes;

    memcpy(&word, at, sizeof word);
    word = le64toh(word);
    ends = ~word & 0x8080808080808080u; /* bytes behind which nothing goes on */
    bytes = ends != 0 ? (unsigned)__builtin_ctzll(ends) / 8 + 1 : 0;
    *len = bytes;
    if (bytes == 0 || at[bytes - 1] == 0) {
        *len = 0;
        return 0;
    }
    word &= UINT64_MAX >> (64 - 8 * bytes);
    /* Seven bits of each byte, then of each two, of each four, beside each other. */
    word = (word & 0x007F007F007F007Fu) | (word & 0x7F007F007F007F00u) >> 1;
    word = (word & 0x00003FFF00003FFFu) | (word & 0x3FFF00003FFF0000u) >> 2;
    return (word & 0x000000000FFFFFFFu) | (word & 0x0FFFFFFF00000000u) >> 4;
}

static uint64_t
take_number(struct cursor *c, uint64_t max)
{
    const unsigned char *at = c->at;
    uint64_t value = 0;
    unsigned shift = 0, byte;

    if (c->bad)
        return 0;
    if (at != c->end && *at < 0x80 && *at <= max) { /* most are small */
        c->at = at + 1;
        return *at;
    }
    if (c->end - at >= 8) {
        value = number_in_word(at, &byte);
        if (byte != 0 && value <= max) {
            c->at = at + byte;
            return value;
        }
        value = 0;
    }
    do {
        if (at == c->end || shift > 63) {
            c->bad = true;
            return 0;
        }
        byte = *at++;
        if ((shift == 63 && byte > 1) || (shift > 0 && byte == 0)) {
            c->bad = true; /* too large, or not the shortest form */
            return 0;
        }
        value |= (uint64_t)(byte & 0x7F) << shift;
        shift += 7;
    } while ((byte & 0x80) != 0);
    c->at = at;
    if (value > max)
        c->bad = true;
    return c->bad ? 0 : value;
}

/* Signed numbers in zigzag: small ones of both signs stay short. */
static uint64_t
zigzag(int64_t v)
{
    return ((uint64_t)v << 1) ^ (v < 0 ? UINT64_MAX : 0);
}

static int64_t
unzigzag(uint64_t v)
{
    return (int64_t)((v >> 1) ^ ((v & 1) != 0 ? UINT64_MAX : 0));
}

static uint64_t
be(const uint8_t *at, unsigned bytes)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < bytes; i++)
        v = v << 8 | at[i];
    return v;
}

static void
put_be(unsigned char *out, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        out[i] = (unsigned char)(value >> (8 * (bytes - 1 - i)));
}

struct content_id
content_id_of(uint64_t epoch, uint16_t node, uint64_t counter)
{
    struct content_id id;

    assert(epoch < (uint64_t)1 << 48);
    epoch = htobe64(epoch << 16 | node);
    counter = htobe64(counter);
    memcpy(id.bytes, &epoch, 8);
    memcpy(id.bytes + 8, &counter, 8);
    return id;
}

/* ---- the sum ---- */

static uint32_t
sum_of(const struct row_home *home, const void *value, size_t len)
{
    unsigned char head[13];
    uint32_t crc;

    head[0] = (unsigned char)home->table;
    put_be(head + 1, home->bucket, 8);
    put_be(head + 9, home->key.len, 4);
    crc = hash_crc32c(0, head, sizeof head);
    crc = hash_crc32c(crc, home->key.at, home->key.len);
    return hash_crc32c(crc, value, len);
}

static size_t
seal(const struct row_home *home, unsigned char *out, const unsigned char *end)
{
    size_t len = (size_t)(end - out);

    put_be(out + len, sum_of(home, out, len), 4);
    return len + 4;
}

/* What lies between format byte and sum; `bad` when the format is not ours. */
static struct cursor
open_value(struct span value)
{
    struct cursor c = {.bad = true};

    if (value.len < 5 || value.len > VALUE_CODED_MAX)
        return c;
    c = cursor_of(value.at, value.len - 4);
    if (take_be(&c, 1) != ROW_FORMAT)
        c.bad = true;
    return c;
}

/* The same; `bad` when the sum is wrong, too. */
static struct cursor
unseal(const struct row_home *home, struct span value)
{
    struct cursor c = open_value(value), tail;

    if (c.bad)
        return c;
    tail = cursor_of(value.at + value.len - 4, 4);
    c.bad = (uint32_t)take_be(&tail, 4) != sum_of(home, value.at, value.len - 4);
    return c;
}

static enum err
ended(const struct cursor *c)
{
    return c->bad || cursor_left(c) != 0 ? ERR_CORRUPT : ERR_OK;
}

/* ---- rows of objects, which parts and completed uploads embed ---- */

static unsigned char *
put_row(unsigned char *out, const struct row *row)
{
    uint64_t content_epoch = be(row->content.bytes, 6);
    uint64_t content_counter = be(row->content.bytes + 8, 8);
    bool other =
        content_epoch != row->version.epoch || content_counter != row->version.counter;
    struct version born = row_born(row);
    bool reborn =
        born.epoch != row->version.epoch || born.counter != row->version.counter;

    out = put_number(out, (row->flags & FLAGS_OWN) | (other ? FLAG_CONTENT : 0) |
                              (reborn ? FLAG_BORN : 0));
    out = put_number(out, row->version.epoch);
    out = put_number(out, row->version.counter);
    out = put_number(out, be(row->content.bytes + 6, 2));
    if (other) {
        out = put_number(out, content_epoch);
        out = put_number(out, content_counter);
    }
    if (reborn) {
        out = put_number(out, born.epoch);
        out = put_number(out, born.counter);
    }
    if ((row->flags & ROW_META_APART) != 0) {
        out = put_number(out, row->meta_segment);
        out = put_number(out, row->meta_offset);
    }
    out = put_number(out, row->size);
    out = put_number(out, zigzag(row->mtime_ms));
    out = put_number(out, row->segment);
    out = put_number(out, row->offset);
    out = put_number(out, row->parts);
    out = put_number(out, row->overwrites);
    memcpy(out, row->md5, sizeof row->md5);
    return out + sizeof row->md5;
}

static void
take_row(struct cursor *c, struct row *row)
{
    uint32_t flags = (uint32_t)take_number(c, FLAGS_CODED);
    uint64_t content_epoch, content_counter;
    uint16_t node;
    struct span md5;

    *row = (struct row){.flags = flags & FLAGS_OWN};
    row->version.epoch = take_number(c, UINT64_MAX);
    row->version.counter = take_number(c, UINT64_MAX);
    node = (uint16_t)take_number(c, UINT16_MAX);
    content_epoch = row->version.epoch;
    content_counter = row->version.counter;
    if ((flags & FLAG_CONTENT) != 0) {
        content_epoch = take_number(c, ((uint64_t)1 << 48) - 1);
        content_counter = take_number(c, UINT64_MAX);
        if (content_epoch == row->version.epoch &&
            content_counter == row->version.counter)
            c->bad = true; /* not the shortest form */
    }
    if (content_epoch >= (uint64_t)1 << 48) {
        c->bad = true;
        return;
    }
    row->content = content_id_of(content_epoch, node, content_counter);
    if ((flags & FLAG_BORN) != 0) {
        row->born.epoch = take_number(c, UINT64_MAX);
        row->born.counter = take_number(c, UINT64_MAX);
        if ((row->born.epoch == row->version.epoch &&
             row->born.counter == row->version.counter) ||
            (row->born.epoch == 0 && row->born.counter == 0))
            c->bad = true; /* not the shortest form */
    }
    if ((flags & ROW_META_APART) != 0) {
        row->meta_segment = (uint32_t)take_number(c, UINT32_MAX);
        row->meta_offset = take_number(c, UINT64_MAX);
    }
    row->size = take_number(c, UINT64_MAX);
    row->mtime_ms = unzigzag(take_number(c, UINT64_MAX));
    row->segment = (uint32_t)take_number(c, UINT32_MAX);
    row->offset = take_number(c, UINT64_MAX);
    row->parts = (uint32_t)take_number(c, UINT32_MAX);
    row->overwrites = (uint32_t)take_number(c, UINT32_MAX);
    md5 = take_span(c, sizeof row->md5);
    memcpy(row->md5, md5.at, md5.len);
}

size_t
row_encode(const struct row_home *home, const struct row *row, unsigned char *out)
{
    out[0] = ROW_FORMAT;
    return seal(home, out, put_row(out + 1, row));
}

enum err
row_decode(const struct row_home *home, struct span value, struct row *out)
{
    struct cursor c = unseal(home, value);

    take_row(&c, out);
    return ended(&c);
}

enum err
row_decode_own(struct span value, struct row *out)
{
    struct cursor c = open_value(value);

    take_row(&c, out);
    return ended(&c);
}

/* ---- multipart ---- */

#define UPLOAD_COPY 2u /* beside the class */
static_assert(DISK_CLASSES_ == UPLOAD_COPY, "classes end below the flag");

size_t
upload_row_encode(const struct row_home *home, const struct upload_row *u,
                  unsigned char *out)
{
    unsigned char *at = out;

    *at++ = ROW_FORMAT;
    at = put_number(at, (uint64_t)u->class | (u->copy ? UPLOAD_COPY : 0));
    at = put_number(at, zigzag(u->begun_ms));
    at = put_number(at, u->segment);
    at = put_number(at, u->offset);
    return seal(home, out, at);
}

enum err
upload_row_decode(const struct row_home *home, struct span value, struct upload_row *out)
{
    struct cursor c = unseal(home, value);
    uint64_t first;

    *out = (struct upload_row){0};
    first = take_number(&c, UPLOAD_COPY | (DISK_CLASSES_ - 1));
    out->class = (enum disk_class)(first & ~(uint64_t)UPLOAD_COPY);
    out->copy = (first & UPLOAD_COPY) != 0;
    out->begun_ms = unzigzag(take_number(&c, UINT64_MAX));
    out->segment = (uint32_t)take_number(&c, UINT32_MAX);
    out->offset = take_number(&c, UINT64_MAX);
    return ended(&c);
}

size_t
part_row_encode(const struct row_home *home, const struct part_row *p, unsigned char *out)
{
    unsigned char *at = out;

    assert(p->checksum_len <= sizeof p->checksum);
    *at++ = ROW_FORMAT;
    *at++ = p->checksum_algorithm;
    *at++ = p->checksum_len;
    memcpy(at, p->checksum, p->checksum_len);
    at = put_row(at + p->checksum_len, &p->row);
    return seal(home, out, at);
}

enum err
part_row_decode(const struct row_home *home, struct span value, struct part_row *out)
{
    struct cursor c = unseal(home, value);
    struct span checksum;

    *out = (struct part_row){0};
    out->checksum_algorithm = (uint8_t)take_be(&c, 1);
    out->checksum_len = (uint8_t)take_be(&c, 1);
    if (out->checksum_len > sizeof out->checksum)
        return ERR_CORRUPT;
    checksum = take_span(&c, out->checksum_len);
    memcpy(out->checksum, checksum.at, checksum.len);
    take_row(&c, &out->row);
    return ended(&c);
}

size_t
done_row_encode(const struct row_home *home, const struct done_row *d, unsigned char *out)
{
    unsigned char *at = out;

    assert(d->key.len <= DISK_KEY_MAX);
    *at++ = ROW_FORMAT;
    at = put_number(at, zigzag(d->completed_ms));
    at = put_number(at, d->bucket);
    at = put_number(at, d->key.len);
    if (d->key.len > 0)
        memcpy(at, d->key.at, d->key.len);
    at = put_row(at + d->key.len, &d->row);
    return seal(home, out, at);
}

enum err
done_row_decode(const struct row_home *home, struct span value, struct done_row *out)
{
    struct cursor c = unseal(home, value);

    *out = (struct done_row){0};
    out->completed_ms = unzigzag(take_number(&c, UINT64_MAX));
    out->bucket = take_number(&c, UINT64_MAX);
    out->key = take_span(&c, take_number(&c, DISK_KEY_MAX));
    take_row(&c, &out->row);
    return ended(&c);
}

size_t
prepared_row_encode(const struct row_home *home, const struct prepared_row *p,
                    unsigned char *out)
{
    unsigned char *at = out;

    assert(p->key.len <= DISK_KEY_MAX);
    *at++ = ROW_FORMAT;
    at = put_number(at, p->bucket);
    at = put_number(at, p->key.len);
    if (p->key.len > 0)
        memcpy(at, p->key.at, p->key.len);
    at += p->key.len;
    memcpy(at, p->upload.id.bytes, sizeof p->upload.id.bytes);
    at = put_row(at + sizeof p->upload.id.bytes, &p->row);
    return seal(home, out, at);
}

enum err
prepared_row_decode(const struct row_home *home, struct span value,
                    struct prepared_row *out)
{
    struct cursor c = unseal(home, value);
    struct span upload;

    *out = (struct prepared_row){0};
    out->bucket = take_number(&c, UINT64_MAX);
    out->key = take_span(&c, take_number(&c, DISK_KEY_MAX));
    upload = take_span(&c, sizeof out->upload.id.bytes);
    memcpy(out->upload.id.bytes, upload.at, upload.len);
    take_row(&c, &out->row);
    return ended(&c);
}

/* ---- order ---- */

/* The version of a coded row, without a look at its sum: that is checked by whoever serves it. */
static bool
version_of(struct span value, struct version *out)
{
    struct cursor c = cursor_of(value.at, value.len);

    if (take_be(&c, 1) != ROW_FORMAT)
        return false;
    (void)take_number(&c, UINT64_MAX);
    out->epoch = take_number(&c, UINT64_MAX);
    out->counter = take_number(&c, UINT64_MAX);
    return !c.bad;
}

bool
row_is_newer(enum table table, struct span first, struct span second)
{
    struct version a, b;

    if (table != TABLE_OBJECTS || !version_of(first, &a) || !version_of(second, &b))
        return true;
    return b.epoch != a.epoch ? b.epoch > a.epoch : b.counter >= a.counter;
}

static uint32_t
flags_of(struct span value)
{
    struct cursor c = cursor_of(value.at, value.len);
    bool ours = take_be(&c, 1) == ROW_FORMAT;
    uint32_t flags = (uint32_t)take_number(&c, FLAGS_CODED);

    return ours && !c.bad ? flags : 0;
}

bool
row_is_tombstone(struct span value)
{
    return (flags_of(value) & ROW_TOMBSTONE) != 0;
}

bool
upload_row_is_copy(struct span value)
{
    struct cursor c = cursor_of(value.at, value.len);

    return take_be(&c, 1) == ROW_FORMAT &&
           (take_number(&c, UINT64_MAX) & UPLOAD_COPY) != 0 && !c.bad;
}

bool
row_is_marker(struct span value)
{
    return (flags_of(value) & ROW_MARKER) != 0;
}

bool
row_is_kept(struct span value)
{
    return (flags_of(value) & ROW_KEPT) != 0;
}

bool
row_has_object(const struct row *row)
{
    static const struct content_id none;

    if ((row->flags & ROW_TOMBSTONE) != 0)
        return false;
    return (row->flags & ROW_DOUBT) == 0 ||
           memcmp(&row->content, &none, sizeof none) != 0;
}

int64_t
segment_weight(bool in_log, uint64_t size)
{
    return in_log ? (int64_t)align_up(size, 512) + RECORD_WEIGHT : (int64_t)MAX(size, 1u);
}

int64_t
row_weight(const struct row *row)
{
    if ((row->flags & ROW_PARTS) != 0)
        return 512 + RECORD_WEIGHT + 64 * (int64_t)row->parts;
    return segment_weight((row->flags & ROW_INLINE) != 0, row->size);
}
