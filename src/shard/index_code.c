/* index_code: an index as bytes; see index_code.h. */
#include "shard/index_code.h"

#include <assert.h>
#include <string.h>

#include "base/cursor.h"
#include "base/hash.h"
#include "base/mem.h"
#include "wire/record.h"

enum { KIND_SHARD_INDEX = 60, VERSION = 1, ENTRY_BYTES = 40 };
enum {
    F_BUCKET = 1,
    F_KEY = 2,
    F_SIZE = 3,
    F_MTIME = 4,
    F_NULL = 5,
    F_EPOCH = 6,
    F_COUNTER = 7,
    F_ETAG = 8,
    F_FORMAT = 9,
    F_COUNT = 10,
    F_SUM = 11,
};

static_assert(SHARD_FORMATS_ <= UINT8_MAX, "a format is a small number");

/* What the record says beside the object and its version. */
struct index_head {
    uint64_t format, count, sum;
};

static void
put_index_head(const struct index_head *h, uint64_t bucket, struct span key,
               const struct shard_version *v, struct buf *out)
{
    struct record_writer w;

    record_begin(&w, out, KIND_SHARD_INDEX, VERSION);
    record_put_u64(&w, F_BUCKET, bucket);
    record_put_span(&w, F_KEY, key);
    record_put_u64(&w, F_SIZE, v->size);
    record_put_u64(&w, F_MTIME, (uint64_t)v->mtime_s);
    record_put_u64(&w, F_NULL, v->version.null);
    record_put_u64(&w, F_EPOCH, v->version.born.epoch);
    record_put_u64(&w, F_COUNTER, v->version.born.counter);
    record_put_span(&w, F_ETAG, (struct span){v->etag, strnlen(v->etag, sizeof v->etag)});
    record_put_u64(&w, F_FORMAT, h->format);
    record_put_u64(&w, F_COUNT, h->count);
    record_put_u64(&w, F_SUM, h->sum);
    record_end(&w);
}

static void
put_index_entries(const struct shard_index *x, struct buf *out)
{
    for (uint32_t i = 0; i < x->count; i++) {
        const struct shard_entry *e = &x->entries[i];

        buf_be(out, e->offset, 8);
        buf_be(out, e->size, 8);
        buf_be(out, e->stored, 8);
        buf_be(out, (uint64_t)e->mtime_s, 8);
        buf_be(out, e->crc, 4);
        buf_be(out, e->method, 2);
        buf_be(out, e->name_len, 2);
    }
    buf_put(out, x->names, x->names_len);
}

void
shard_index_encode(const struct shard_index *x, uint64_t bucket, struct span key,
                   const struct shard_version *v, struct buf *out)
{
    struct index_head h = {.format = x->format, .count = x->count};
    struct buf body;

    assert(x->table != NULL);
    buf_init(&body, out->limit);
    put_index_entries(x, &body);
    out->full = out->full || body.full;
    if (!out->full) {
        h.sum = hash_xxh3(body.at, body.len, 0);
        put_index_head(&h, bucket, key, v, out);
        buf_put_span(out, buf_span(&body));
    }
    buf_fini(&body);
}

static bool
head_number(const struct record *r, uint8_t id, uint64_t *out)
{
    struct span field;

    return record_find(r, id, &field) && record_u64(field, out) == ERR_OK;
}

/* Is it of this object and version? The record is made again from what is wanted: each field must be equal. */
static enum err
check_head(struct span bytes, const struct record *r, const struct index_head *h,
           uint64_t bucket, struct span key, const struct shard_version *v,
           struct errbuf *eb)
{
    struct buf want;
    bool same;

    buf_init(&want, KIB(8));
    put_index_head(h, bucket, key, v, &want);
    same = !want.full && span_eq(buf_span(&want), (struct span){bytes.at, r->len});
    buf_fini(&want);
    return same ? ERR_OK
                : err_set(eb, ERR_NOT_FOUND,
                          "the index is of another object or version than \"%.*s\"",
                          (int)MIN(key.len, 100), key.at);
}

/* An entry lies inside its archive. */
static bool
entry_is_possible(const struct shard_index *x, const struct shard_entry *e,
                  uint64_t archive)
{
    if (e->name_len == 0 || e->offset > archive || e->stored > archive - e->offset)
        return false;
    return x->format != SHARD_TAR ||
           (e->stored == e->size && e->crc == 0 && e->method == 0);
}

enum err
shard_index_parse_body(enum shard_format f, uint64_t count, struct span body,
                       uint64_t archive, struct shard_index **out, struct errbuf *eb)
{
    struct cursor c = cursor_of(body.at, body.len), names = c;
    struct shard_index *x;
    enum err rc = ERR_OK;

    *out = NULL;
    if (count > SHARD_MEMBERS_MAX || body.len / ENTRY_BYTES < count)
        return err_set(eb, ERR_CORRUPT, "%llu members in %zu bytes",
                       (unsigned long long)count, body.len);
    x = shard_index_new(f);
    (void)take_span(&names, (size_t)count * ENTRY_BYTES);
    for (uint64_t i = 0; rc == ERR_OK && i < count; i++) {
        struct shard_entry e = {
            .offset = take_be(&c, 8), .size = take_be(&c, 8), .stored = take_be(&c, 8)};
        struct span name;

        e.mtime_s = (int64_t)take_be(&c, 8);
        e.crc = (uint32_t)take_be(&c, 4);
        e.method = (uint16_t)take_be(&c, 2);
        e.name_len = (uint16_t)take_be(&c, 2);
        name = take_span(&names, e.name_len);
        if (names.bad || !entry_is_possible(x, &e, archive))
            rc = err_set(eb, ERR_CORRUPT, "member %llu is impossible",
                         (unsigned long long)i);
        else
            rc = shard_index_add(x, &e, name, eb);
    }
    assert(!c.bad);
    if (rc == ERR_OK && cursor_left(&names) > 0)
        rc = err_set(eb, ERR_CORRUPT, "%zu bytes behind the last name",
                     cursor_left(&names));
    if (rc != ERR_OK) {
        shard_index_drop(&x);
        return rc;
    }
    shard_index_seal(x);
    *out = x;
    return ERR_OK;
}

enum err
shard_index_parse(struct span bytes, uint64_t bucket, struct span key,
                  const struct shard_version *v, struct shard_index **out,
                  struct errbuf *eb)
{
    struct index_head h = {0};
    struct record r;
    struct span body;
    enum err rc = record_open(bytes, &r, eb);

    *out = NULL;
    if (rc != ERR_OK)
        return rc;
    if (r.kind != KIND_SHARD_INDEX || r.version != VERSION ||
        !head_number(&r, F_FORMAT, &h.format) || !head_number(&r, F_COUNT, &h.count) ||
        !head_number(&r, F_SUM, &h.sum) || h.format >= SHARD_FORMATS_ ||
        !shard_format_is_indexed((enum shard_format)h.format))
        return err_set(eb, ERR_CORRUPT, "it is no index of a shard");
    rc = check_head(bytes, &r, &h, bucket, key, v, eb);
    if (rc != ERR_OK)
        return rc;
    body = span_from(bytes, r.len);
    if (hash_xxh3(body.at, body.len, 0) != h.sum)
        return err_set(eb, ERR_CORRUPT, "the sum of the entries does not match");
    return shard_index_parse_body((enum shard_format)h.format, h.count, body, v->size,
                                  out, eb);
}
