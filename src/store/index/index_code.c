/* The small values of the index as bytes: docs/formats.md, section "index". */
#include <assert.h>
#include <string.h>

#include "base/cursor.h"
#include "base/hash.h"
#include "store/index/index_internal.h"
#include "store/record/keys.h"
#include "store/store_entry.h"

#define META_FORMAT                                                                      \
    4u /* 1: counted neither buckets nor records without a payload; 2: had no tally; 3: did not count older versions */
#define META_BAD   1u
#define CELL_ENTRY 1u
#define CELL_LAYER 2u

static unsigned char *
put_be(unsigned char *out, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        out[i] = (unsigned char)(value >> (8 * (bytes - 1 - i)));
    return out + bytes;
}

void
index_meta_encode(const struct index_meta *m, unsigned char out[INDEX_META_BYTES])
{
    unsigned char *at = out;

    memset(out, 0, INDEX_META_BYTES);
    at = put_be(at, META_FORMAT, 1);
    at = put_be(at, m->bad ? META_BAD : 0, 1);
    memcpy(at, m->disk_id, sizeof m->disk_id);
    at = put_be(at + sizeof m->disk_id, m->checkpoint.generation, 8);
    for (unsigned c = 0; c < STORE_CLASSES_; c++) {
        at = put_be(at, m->checkpoint.log[c].generation, 8);
        at = put_be(at, m->checkpoint.log[c].batch, 8);
        at = put_be(at, m->checkpoint.log[c].segment, 4);
        at = put_be(at, m->checkpoint.log[c].offset, 8);
    }
    at = put_be(at, m->next_space, 4);
    at = put_be(at, m->objects, 8);
    at = put_be(at, m->tally.pairs, 8);
    at = put_be(at, m->tally.sum, 8);
    assert(at <= out + INDEX_META_BYTES - 4);
    put_be(out + INDEX_META_BYTES - 4, hash_crc32c(0, out, INDEX_META_BYTES - 4), 4);
}

bool
index_meta_decode(struct span value, struct index_meta *out)
{
    struct cursor c = cursor_of(value.at, value.len);
    struct span id;
    unsigned flags;

    *out = (struct index_meta){0};
    if (value.len != INDEX_META_BYTES || take_be(&c, 1) != META_FORMAT)
        return false;
    flags = (unsigned)take_be(&c, 1);
    out->bad = (flags & META_BAD) != 0;
    id = take_span(&c, sizeof out->disk_id);
    memcpy(out->disk_id, id.at, id.len);
    out->checkpoint.generation = take_be(&c, 8);
    for (unsigned k = 0; k < STORE_CLASSES_; k++) {
        out->checkpoint.log[k].generation = take_be(&c, 8);
        out->checkpoint.log[k].batch = take_be(&c, 8);
        out->checkpoint.log[k].segment = (uint32_t)take_be(&c, 4);
        out->checkpoint.log[k].offset = take_be(&c, 8);
    }
    out->next_space = (uint32_t)take_be(&c, 4);
    out->objects = take_be(&c, 8);
    out->tally.pairs = take_be(&c, 8);
    out->tally.sum = take_be(&c, 8);
    c = cursor_of(value.at + INDEX_META_BYTES - 4, 4);
    return (uint32_t)take_be(&c, 4) == hash_crc32c(0, value.at, INDEX_META_BYTES - 4);
}

uint64_t
index_pair_sum(unsigned db, const MDB_val *key, const MDB_val *value)
{
    return hash_xxh3(value->mv_data, value->mv_size,
                     hash_xxh3(key->mv_data, key->mv_size, db));
}

static uint32_t
layer_sum(const MDB_val *key, const unsigned char *space)
{
    return hash_crc32c(hash_crc32c(0, key->mv_data, key->mv_size), space, 4);
}

bool
index_cell_parse(const MDB_val *key, const MDB_val *value, struct index_cell *out)
{
    struct cursor c = cursor_of(value->mv_data, value->mv_size);
    unsigned kind;

    *out = (struct index_cell){.entry = {value->mv_data, value->mv_size}};
    if (key->mv_size < KEY_CODED_MAX)
        return value->mv_size > 0;
    kind = (unsigned)take_be(&c, 1);
    if (kind == 0 || kind > (CELL_ENTRY | CELL_LAYER))
        return false;
    if ((kind & CELL_LAYER) != 0) {
        const unsigned char *at = c.at;

        out->layer = (uint32_t)take_be(&c, 4);
        if ((uint32_t)take_be(&c, 4) != (c.bad ? 0 : layer_sum(key, at)) ||
            out->layer == 0)
            return false;
    }
    out->entry = (struct span){(const char *)c.at, cursor_left(&c)};
    return !c.bad && (out->entry.len > 0) == ((kind & CELL_ENTRY) != 0);
}

size_t
index_cell_encode(const MDB_val *key, const struct index_cell *cell, unsigned char *out)
{
    unsigned char *at = out;

    assert(key->mv_size <= KEY_CODED_MAX);
    assert(cell->layer == 0 || key->mv_size == KEY_CODED_MAX);
    assert(cell->entry.len <= ENTRY_CODED_MAX);
    if (key->mv_size == KEY_CODED_MAX) {
        *at++ = (unsigned char)((cell->entry.len > 0 ? CELL_ENTRY : 0u) |
                                (cell->layer != 0 ? CELL_LAYER : 0u));
        if (cell->layer != 0) {
            at = put_be(at, cell->layer, 4);
            at = put_be(at, layer_sum(key, at - 4), 4);
        }
    }
    if (cell->entry.len > 0)
        memcpy(at, cell->entry.at, cell->entry.len);
    return (size_t)(at - out) + cell->entry.len;
}

static uint32_t
space_sum(uint64_t bucket, uint32_t space)
{
    unsigned char bytes[12];

    put_be(put_be(bytes, bucket, 8), space, 4);
    return hash_crc32c(0, bytes, sizeof bytes);
}

void
index_space_encode(uint64_t bucket, uint32_t space, unsigned char out[INDEX_SPACE_BYTES])
{
    assert(space != 0);
    put_be(put_be(out, space, 4), space_sum(bucket, space), 4);
}

bool
index_space_decode(uint64_t bucket, const MDB_val *value, uint32_t *space)
{
    struct cursor c = cursor_of(value->mv_data, value->mv_size);

    *space = (uint32_t)take_be(&c, 4);
    return (uint32_t)take_be(&c, 4) == space_sum(bucket, *space) && !c.bad &&
           cursor_left(&c) == 0 && *space != 0;
}

void
index_segment_key(enum store_class class, uint32_t segment,
                  unsigned char out[INDEX_SEGMENT_KEY])
{
    assert(class < STORE_CLASSES_);
    put_be(put_be(out, (uint64_t) class, 1), segment, 4);
}

static uint32_t
segment_sum(const unsigned char *key, const unsigned char *value)
{
    return hash_crc32c(hash_crc32c(0, key, INDEX_SEGMENT_KEY), value,
                       INDEX_SEGMENT_BYTES - 4);
}

static uint32_t
usage_sum(const unsigned char *key, const unsigned char *value)
{
    return hash_crc32c(hash_crc32c(0, key, 8), value, INDEX_USAGE_BYTES - 4);
}

void
index_usage_key(uint64_t bucket, unsigned char out[8])
{
    put_be(out, bucket, 8);
}

void
index_usage_encode(const unsigned char *key, const struct index_usage *u,
                   unsigned char *out)
{
    put_be(put_be(out, (uint64_t)u->objects, 8), (uint64_t)u->bytes, 8);
    put_be(out + INDEX_USAGE_BYTES - 4, usage_sum(key, out), 4);
}

bool
index_usage_decode(const unsigned char *key, const MDB_val *value,
                   struct index_usage *out)
{
    struct cursor c = cursor_of(value->mv_data, value->mv_size);
    struct cursor k = cursor_of(key, 8);

    out->bucket = take_be(&k, 8);
    out->objects = (int64_t)take_be(&c, 8);
    out->bytes = (int64_t)take_be(&c, 8);
    return value->mv_size == INDEX_USAGE_BYTES &&
           (uint32_t)take_be(&c, 4) == usage_sum(key, value->mv_data);
}

void
index_segment_encode(const unsigned char *key, const struct index_segment *s,
                     unsigned char *out)
{
    put_be(put_be(out, (uint64_t)s->living, 8), (uint64_t)s->dead, 8);
    put_be(out + INDEX_SEGMENT_BYTES - 4, segment_sum(key, out), 4);
}

bool
index_segment_decode(const unsigned char *key, const MDB_val *value,
                     struct index_segment *out)
{
    struct cursor c = cursor_of(value->mv_data, value->mv_size);

    out->living = (int64_t)take_be(&c, 8);
    out->dead = (int64_t)take_be(&c, 8);
    return value->mv_size == INDEX_SEGMENT_BYTES &&
           (uint32_t)take_be(&c, 4) == segment_sum(key, value->mv_data);
}
