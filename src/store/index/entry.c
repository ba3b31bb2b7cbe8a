#include "store/index/entry.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

#include "base/cursor.h"
#include "base/hash.h"
#include "base/mem.h"
#include "store/record/keys.h"
#include "store/store_entry.h"

#define ENTRY_FORMAT    1u
#define PREPARED_FORMAT 2u /* of a prepared version with a coordinator; else 1 */
/* In the coded flags only: the content id does not share epoch and counter with the version; it was born with another
 * version than it has. */
#define FLAG_CONTENT 128u
#define FLAG_BORN    4096u
#define FLAGS_CODED  (2 * ENTRY_CHUNKS - 1)
#define FLAGS_OWN    (FLAGS_CODED & ~(FLAG_CONTENT | FLAG_BORN))
#define OTHERS       (ENTRY_SUSPENDED | ENTRY_KEPT | ENTRY_CHUNKS)
static_assert((FLAGS_OWN & (FLAG_CONTENT | FLAG_BORN)) == 0, "flags of the coding alone");
static_assert((ENTRY_PREPARED & FLAGS_CODED) == 0, "never stored");
static_assert((FLAGS_OWN & OTHERS) == OTHERS,
              "the coding's own flags are none of a row's");

/* ---- varints: 7 bits a byte, low first, shortest form ---- */

static unsigned char *
put_varint(unsigned char *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *out++ = (unsigned char)(value | 0x80);
    *out++ = (unsigned char)value;
    return out;
}

/* Of up to 8 bytes at `at`, all eight of which may be_value read; *len: how many it has, 0: more than that, or not the
 * shortest form. The first byte goes on. */
static uint64_t
varint_in_word(const unsigned char *at, unsigned *len)
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
take_varint(struct cursor *c, uint64_t max)
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
        value = varint_in_word(at, &byte);
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
be_value(const uint8_t *at, unsigned bytes)
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

/* ---- the sum ---- */

static uint32_t
entry_sum(const struct entry_key *where, const void *value, size_t len)
{
    unsigned char head[13];
    uint32_t crc;

    head[0] = (unsigned char)where->table;
    put_be(head + 1, where->bucket, 8);
    put_be(head + 9, where->key.len, 4);
    crc = hash_crc32c(0, head, sizeof head);
    crc = hash_crc32c(crc, where->key.at, where->key.len);
    return hash_crc32c(crc, value, len);
}

static size_t
entry_seal(const struct entry_key *where, unsigned char *out, const unsigned char *end)
{
    size_t len = (size_t)(end - out);

    assert(end > out);
    assert(len + 4 <= VALUE_CODED_MAX);
    put_be(out + len, entry_sum(where, out, len), 4);
    return len + 4;
}

/* What lies between format byte and sum; `bad` when the format is another. */
static struct cursor
open_format(struct span value, unsigned format)
{
    struct cursor c = {.bad = true};

    if (value.len < 5 || value.len > VALUE_CODED_MAX)
        return c;
    c = cursor_of(value.at, value.len - 4);
    if (take_be(&c, 1) != format)
        c.bad = true;
    return c;
}

static struct cursor
entry_open_value(struct span value)
{
    return open_format(value, ENTRY_FORMAT);
}

/* The same; `bad` when the sum is wrong, too. */
static struct cursor
unseal_format(const struct entry_key *where, struct span value, unsigned format)
{
    struct cursor c = open_format(value, format), tail;

    if (c.bad)
        return c;
    tail = cursor_of(value.at + value.len - 4, 4);
    c.bad = (uint32_t)take_be(&tail, 4) != entry_sum(where, value.at, value.len - 4);
    return c;
}

static struct cursor
entry_unseal(const struct entry_key *where, struct span value)
{
    return unseal_format(where, value, ENTRY_FORMAT);
}

static enum err
cursor_at_end(const struct cursor *c)
{
    return c->bad || cursor_left(c) != 0 ? ERR_CORRUPT : ERR_OK;
}

/* ---- entries of objects, which parts and completed uploads embed ---- */

static unsigned char *
entry_put_fields(unsigned char *out, const struct entry *entry)
{
    uint64_t content_epoch = be_value(entry->content.bytes, 6);
    uint64_t content_counter = be_value(entry->content.bytes + 8, 8);
    bool other = content_epoch != entry->version.epoch ||
                 content_counter != entry->version.counter;
    struct version born = entry_born(entry);
    bool reborn =
        born.epoch != entry->version.epoch || born.counter != entry->version.counter;

    out = put_varint(out, (entry->flags & FLAGS_OWN) | (other ? FLAG_CONTENT : 0) |
                              (reborn ? FLAG_BORN : 0));
    out = put_varint(out, entry->version.epoch);
    out = put_varint(out, entry->version.counter);
    out = put_varint(out, be_value(entry->content.bytes + 6, 2));
    if (other) {
        out = put_varint(out, content_epoch);
        out = put_varint(out, content_counter);
    }
    if (reborn) {
        out = put_varint(out, born.epoch);
        out = put_varint(out, born.counter);
    }
    if ((entry->flags & ENTRY_META_APART) != 0) {
        out = put_varint(out, entry->place.meta_segment);
        out = put_varint(out, entry->place.meta_offset);
    }
    out = put_varint(out, entry->size);
    out = put_varint(out, zigzag(entry->mtime_ms));
    out = put_varint(out, entry->place.segment);
    out = put_varint(out, entry->place.offset);
    out = put_varint(out, entry->parts);
    out = put_varint(out, entry->overwrites);
    memcpy(out, entry->md5, sizeof entry->md5);
    return out + sizeof entry->md5;
}

static void
entry_take_fields(struct cursor *c, struct entry *entry)
{
    uint32_t flags = (uint32_t)take_varint(c, FLAGS_CODED);
    uint64_t content_epoch, content_counter;
    uint16_t node;
    struct span md5;

    *entry = (struct entry){.flags = flags & FLAGS_OWN};
    entry->version.epoch = take_varint(c, UINT64_MAX);
    entry->version.counter = take_varint(c, UINT64_MAX);
    node = (uint16_t)take_varint(c, UINT16_MAX);
    content_epoch = entry->version.epoch;
    content_counter = entry->version.counter;
    if ((flags & FLAG_CONTENT) != 0) {
        content_epoch = take_varint(c, ((uint64_t)1 << 48) - 1);
        content_counter = take_varint(c, UINT64_MAX);
        if (content_epoch == entry->version.epoch &&
            content_counter == entry->version.counter)
            c->bad = true; /* not the shortest form */
    }
    if (content_epoch >= (uint64_t)1 << 48) {
        c->bad = true;
        return;
    }
    entry->content = content_id_of(content_epoch, node, content_counter);
    if ((flags & FLAG_BORN) != 0) {
        entry->born.epoch = take_varint(c, UINT64_MAX);
        entry->born.counter = take_varint(c, UINT64_MAX);
        if ((entry->born.epoch == entry->version.epoch &&
             entry->born.counter == entry->version.counter) ||
            (entry->born.epoch == 0 && entry->born.counter == 0))
            c->bad = true; /* not the shortest form */
    }
    if ((flags & ENTRY_META_APART) != 0) {
        entry->place.meta_segment = (uint32_t)take_varint(c, UINT32_MAX);
        entry->place.meta_offset = take_varint(c, UINT64_MAX);
    }
    entry->size = take_varint(c, UINT64_MAX);
    entry->mtime_ms = unzigzag(take_varint(c, UINT64_MAX));
    entry->place.segment = (uint32_t)take_varint(c, UINT32_MAX);
    entry->place.offset = take_varint(c, UINT64_MAX);
    entry->parts = (uint32_t)take_varint(c, UINT32_MAX);
    entry->overwrites = (uint32_t)take_varint(c, UINT32_MAX);
    md5 = take_span(c, sizeof entry->md5);
    memcpy(entry->md5, md5.at, md5.len);
}

size_t
entry_encode(const struct entry_key *where, const struct entry *entry, unsigned char *out)
{
    size_t len;

    assert(where->table == TABLE_OBJECTS || where->table == TABLE_VERSIONS);
    out[0] = ENTRY_FORMAT;
    len = entry_seal(where, out, entry_put_fields(out + 1, entry));
    assert(len <= ENTRY_CODED_MAX);
    return len;
}

enum err
entry_decode(const struct entry_key *where, struct span value, struct entry *out)
{
    struct cursor c = entry_unseal(where, value);

    entry_take_fields(&c, out);
    return cursor_at_end(&c);
}

enum err
entry_decode_own(struct span value, struct entry *out)
{
    struct cursor c = entry_open_value(value);

    entry_take_fields(&c, out);
    return cursor_at_end(&c);
}

/* ---- multipart ---- */

#define UPLOAD_COPY 2u /* beside the class */
static_assert(STORE_CLASSES_ == UPLOAD_COPY, "classes end below the flag");

size_t
upload_entry_encode(const struct entry_key *where, const struct upload_entry *u,
                    unsigned char *out)
{
    unsigned char *at = out;

    assert(where->table == TABLE_UPLOADS);
    assert(u->class < STORE_CLASSES_);
    *at++ = ENTRY_FORMAT;
    at = put_varint(at, (uint64_t)u->class | (u->copy ? UPLOAD_COPY : 0));
    at = put_varint(at, zigzag(u->begun_ms));
    at = put_varint(at, u->segment);
    at = put_varint(at, u->offset);
    return entry_seal(where, out, at);
}

enum err
upload_entry_decode(const struct entry_key *where, struct span value,
                    struct upload_entry *out)
{
    struct cursor c = entry_unseal(where, value);
    uint64_t first;

    *out = (struct upload_entry){0};
    first = take_varint(&c, UPLOAD_COPY | (STORE_CLASSES_ - 1));
    out->class = (enum store_class)(first & ~(uint64_t)UPLOAD_COPY);
    out->copy = (first & UPLOAD_COPY) != 0;
    out->begun_ms = unzigzag(take_varint(&c, UINT64_MAX));
    out->segment = (uint32_t)take_varint(&c, UINT32_MAX);
    out->offset = take_varint(&c, UINT64_MAX);
    return cursor_at_end(&c);
}

size_t
part_entry_encode(const struct entry_key *where, const struct part_entry *p,
                  unsigned char *out)
{
    unsigned char *at = out;

    assert(where->table == TABLE_PARTS);
    assert(p->checksum_len <= sizeof p->checksum);
    *at++ = ENTRY_FORMAT;
    *at++ = p->checksum_algorithm;
    *at++ = p->checksum_len;
    memcpy(at, p->checksum, p->checksum_len);
    at = entry_put_fields(at + p->checksum_len, &p->entry);
    return entry_seal(where, out, at);
}

enum err
part_entry_decode(const struct entry_key *where, struct span value,
                  struct part_entry *out)
{
    struct cursor c = entry_unseal(where, value);
    struct span checksum;

    *out = (struct part_entry){0};
    out->checksum_algorithm = (uint8_t)take_be(&c, 1);
    out->checksum_len = (uint8_t)take_be(&c, 1);
    if (out->checksum_len > sizeof out->checksum)
        return ERR_CORRUPT;
    checksum = take_span(&c, out->checksum_len);
    memcpy(out->checksum, checksum.at, checksum.len);
    entry_take_fields(&c, &out->entry);
    return cursor_at_end(&c);
}

size_t
done_entry_encode(const struct entry_key *where, const struct done_entry *d,
                  unsigned char *out)
{
    unsigned char *at = out;

    assert(where->table == TABLE_DONE);
    assert(d->key.len <= STORE_KEY_MAX);
    *at++ = ENTRY_FORMAT;
    at = put_varint(at, zigzag(d->completed_ms));
    at = put_varint(at, d->bucket);
    at = put_varint(at, d->key.len);
    if (d->key.len > 0)
        memcpy(at, d->key.at, d->key.len);
    at = entry_put_fields(at + d->key.len, &d->entry);
    return entry_seal(where, out, at);
}

enum err
done_entry_decode(const struct entry_key *where, struct span value,
                  struct done_entry *out)
{
    struct cursor c = entry_unseal(where, value);

    *out = (struct done_entry){0};
    out->completed_ms = unzigzag(take_varint(&c, UINT64_MAX));
    out->bucket = take_varint(&c, UINT64_MAX);
    out->key = take_span(&c, take_varint(&c, STORE_KEY_MAX));
    entry_take_fields(&c, &out->entry);
    return cursor_at_end(&c);
}

size_t
prepared_entry_encode(const struct entry_key *where, const struct prepared_entry *p,
                      unsigned char *out)
{
    unsigned char *at = out;

    assert(where->table == TABLE_PREPARED);
    assert(p->key.len <= STORE_KEY_MAX);
    *at++ = p->coordinator.node != 0 ? PREPARED_FORMAT : ENTRY_FORMAT;
    at = put_varint(at, p->bucket);
    at = put_varint(at, p->key.len);
    if (p->key.len > 0)
        memcpy(at, p->key.at, p->key.len);
    at += p->key.len;
    memcpy(at, p->upload.id.bytes, sizeof p->upload.id.bytes);
    at += sizeof p->upload.id.bytes;
    if (p->coordinator.node != 0) {
        at = put_varint(at, p->coordinator.node);
        at = put_varint(at, p->coordinator.epoch);
    }
    at = entry_put_fields(at, &p->entry);
    return entry_seal(where, out, at);
}

enum err
prepared_entry_decode(const struct entry_key *where, struct span value,
                      struct prepared_entry *out)
{
    bool named = value.len > 0 && (unsigned char)value.at[0] == PREPARED_FORMAT;
    struct cursor c = unseal_format(where, value, named ? PREPARED_FORMAT : ENTRY_FORMAT);
    struct span upload;

    *out = (struct prepared_entry){0};
    out->bucket = take_varint(&c, UINT64_MAX);
    out->key = take_span(&c, take_varint(&c, STORE_KEY_MAX));
    upload = take_span(&c, sizeof out->upload.id.bytes);
    memcpy(out->upload.id.bytes, upload.at, upload.len);
    if (named) {
        out->coordinator.node = (uint16_t)take_varint(&c, UINT16_MAX);
        out->coordinator.epoch = take_varint(&c, UINT64_MAX);
        c.bad |= out->coordinator.node == 0;
    }
    entry_take_fields(&c, &out->entry);
    return cursor_at_end(&c);
}

/* ---- order ---- */

/* The version of a coded entry. Does not check the sum: the reader that serves the entry does. */
static bool
take_version(struct span value, struct version *out)
{
    struct cursor c = cursor_of(value.at, value.len);

    if (take_be(&c, 1) != ENTRY_FORMAT)
        return false;
    (void)take_varint(&c, UINT64_MAX);
    out->epoch = take_varint(&c, UINT64_MAX);
    out->counter = take_varint(&c, UINT64_MAX);
    return !c.bad;
}

bool
entry_is_newer(enum table table, struct span first, struct span second)
{
    struct version a, b;

    if (table != TABLE_OBJECTS || !take_version(first, &a) || !take_version(second, &b))
        return true;
    return b.epoch != a.epoch ? b.epoch > a.epoch : b.counter >= a.counter;
}

static uint32_t
entry_flags_of(struct span value)
{
    struct cursor c = cursor_of(value.at, value.len);
    bool ours = take_be(&c, 1) == ENTRY_FORMAT;
    uint32_t flags = (uint32_t)take_varint(&c, FLAGS_CODED);

    return ours && !c.bad ? flags : 0;
}

bool
entry_is_tombstone(struct span value)
{
    return (entry_flags_of(value) & ENTRY_TOMBSTONE) != 0;
}

bool
upload_entry_is_copy(struct span value)
{
    struct cursor c = cursor_of(value.at, value.len);

    return take_be(&c, 1) == ENTRY_FORMAT &&
           (take_varint(&c, UINT64_MAX) & UPLOAD_COPY) != 0 && !c.bad;
}

bool
entry_is_marker(struct span value)
{
    return (entry_flags_of(value) & ENTRY_MARKER) != 0;
}

bool
entry_is_kept(struct span value)
{
    return (entry_flags_of(value) & ENTRY_KEPT) != 0;
}

bool
entry_has_object(const struct entry *entry)
{
    static const struct content_id none;

    if ((entry->flags & ENTRY_TOMBSTONE) != 0)
        return false;
    return (entry->flags & ENTRY_IN_DOUBT) == 0 ||
           memcmp(&entry->content, &none, sizeof none) != 0;
}

int64_t
segment_weight(bool in_log, uint64_t size)
{
    return in_log ? (int64_t)align_up(size, 512) + RECORD_WEIGHT : (int64_t)MAX(size, 1u);
}

int64_t
entry_weight(const struct entry *entry)
{
    if ((entry->flags & ENTRY_PARTS) != 0)
        return 512 + RECORD_WEIGHT + 64 * (int64_t)entry->parts;
    return segment_weight((entry->flags & ENTRY_INLINE) != 0, entry->size);
}
