/* Metadata of an object as fields of a record, both ways, and what of it the entry carries. */

#include <inttypes.h>

#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/store_entry.h"
#include "wire/checksum.h"

/* The plain texts: where they stand in struct object_meta. */
static const struct {
    uint8_t field;
    size_t at;
} texts[] = {
    {FIELD_CONTENT_TYPE, offsetof(struct object_meta, content_type)},
    {FIELD_CACHE_CONTROL, offsetof(struct object_meta, cache_control)},
    {FIELD_CONTENT_DISPOSITION, offsetof(struct object_meta, content_disposition)},
    {FIELD_CONTENT_ENCODING, offsetof(struct object_meta, content_encoding)},
    {FIELD_CONTENT_LANGUAGE, offsetof(struct object_meta, content_language)},
    {FIELD_EXPIRES, offsetof(struct object_meta, expires)},
    {FIELD_ETAG_TEXT, offsetof(struct object_meta, etag_text)},
    {FIELD_BACKEND_VERSION, offsetof(struct object_meta, backend_version)},
    {FIELD_STORAGE_CLASS, offsetof(struct object_meta, storage_class)},
    {FIELD_OBJECT_TAGS, offsetof(struct object_meta, tags)},
    {FIELD_ACL, offsetof(struct object_meta, acl)},
};

static const struct span *
meta_text_of(const struct object_meta *m, unsigned i)
{
    return (const struct span *)(const void *)((const char *)m + texts[i].at);
}

static struct span *
text_in(struct object_meta *m, unsigned i)
{
    return (struct span *)(void *)((char *)m + texts[i].at);
}

#define CHUNKS_LEN 12 /* be64 bytes of the object, be32 of a chunk */

/* ---- writing ---- */

size_t
meta_len(const struct object_meta *meta)
{
    size_t len = 6 * RECORD_FIELD_OVERHEAD + 8 + 16 + 4 + 1 + CHUNKS_LEN + 8;

    for (unsigned i = 0; i < ARRAY_LEN(texts); i++)
        len += RECORD_FIELD_OVERHEAD + meta_text_of(meta, i)->len;
    for (uint32_t i = 0; i < meta->user_count; i++)
        len +=
            RECORD_FIELD_OVERHEAD + 2 + meta->user[i].name.len + meta->user[i].value.len;
    return len + RECORD_FIELD_OVERHEAD + 2 + meta->checksum.len;
}

enum err
meta_check(const struct object_meta *meta, struct errbuf *eb)
{
    size_t len = meta_len(meta);

    if (len > META_MAX)
        return err_set(eb, ERR_BAD_REQUEST, "metadata of %zu bytes, at most %u", len,
                       META_MAX);
    return ERR_OK;
}

bool
meta_is_alike(const struct object_meta *a, const struct object_meta *b)
{
    for (unsigned i = 0; i < ARRAY_LEN(texts); i++) {
        if (!span_eq(*meta_text_of(a, i), *meta_text_of(b, i)))
            return false;
    }
    return a->user_count == 0 && b->user_count == 0 && a->parts == b->parts &&
           a->versioning == b->versioning && a->overwrites == b->overwrites &&
           a->whole_bytes == b->whole_bytes && a->chunk_bytes == b->chunk_bytes &&
           a->checksum_algorithm == b->checksum_algorithm &&
           a->checksum_type == b->checksum_type && a->checksum.len == b->checksum.len;
}

static void
meta_put_text(struct record_writer *w, uint8_t field, struct span text)
{
    if (text.len > 0)
        record_put_span(w, field, text);
}

static void
put_users(struct record_writer *w, const struct object_meta *meta)
{
    struct buf pair;

    buf_init(&pair, META_MAX);
    for (uint32_t i = 0; i < meta->user_count; i++) {
        buf_clear(&pair);
        buf_be(&pair, meta->user[i].name.len, 2);
        buf_put_span(&pair, meta->user[i].name);
        buf_put_span(&pair, meta->user[i].value);
        record_put_span(w, FIELD_USER, buf_span(&pair));
    }
    buf_fini(&pair);
}

static void
put_checksum(struct record_writer *w, const struct object_meta *meta)
{
    char value[2 + 64];

    if (meta->checksum_algorithm == 0)
        return;
    value[0] = (char)meta->checksum_algorithm;
    value[1] = (char)meta->checksum_type;
    if (meta->checksum.len > 0)
        memcpy(value + 2, meta->checksum.at, MIN(meta->checksum.len, sizeof value - 2));
    record_put_span(w, FIELD_CHECKSUM,
                    (struct span){value, 2 + MIN(meta->checksum.len, sizeof value - 2)});
}

static void
put_chunks(struct record_writer *w, const struct object_meta *meta)
{
    struct buf value;

    if (meta->whole_bytes == 0)
        return;
    buf_init(&value, CHUNKS_LEN);
    buf_be(&value, meta->whole_bytes, 8);
    buf_be(&value, meta->chunk_bytes, 4);
    record_put_span(w, FIELD_CHUNKS, buf_span(&value));
    buf_fini(&value);
}

void
meta_put(struct record_writer *w, const struct object_meta *meta)
{
    static const uint8_t no_md5[16];

    if (meta->mtime_ms > 0)
        record_put_u64(w, FIELD_MTIME, (uint64_t)meta->mtime_ms);
    if (memcmp(meta->md5, no_md5, sizeof no_md5) != 0)
        record_put_span(w, FIELD_MD5,
                        (struct span){(const char *)meta->md5, sizeof meta->md5});
    if (meta->parts > 0)
        record_put_u64(w, FIELD_PARTS, meta->parts);
    meta_put_text(w, FIELD_CONTENT_TYPE, meta->content_type);
    meta_put_text(w, FIELD_CACHE_CONTROL, meta->cache_control);
    meta_put_text(w, FIELD_CONTENT_DISPOSITION, meta->content_disposition);
    meta_put_text(w, FIELD_CONTENT_ENCODING, meta->content_encoding);
    meta_put_text(w, FIELD_CONTENT_LANGUAGE, meta->content_language);
    meta_put_text(w, FIELD_EXPIRES, meta->expires);
    put_users(w, meta);
    meta_put_text(w, FIELD_ETAG_TEXT, meta->etag_text);
    meta_put_text(w, FIELD_BACKEND_VERSION, meta->backend_version);
    put_checksum(w, meta);
    meta_put_text(w, FIELD_STORAGE_CLASS, meta->storage_class);
    meta_put_text(w, FIELD_OBJECT_TAGS, meta->tags);
    if (meta->versioning != STORE_UNVERSIONED)
        record_put_u64(w, FIELD_VERSIONING, meta->versioning);
    put_chunks(w, meta);
    if (meta->overwrites > 0)
        record_put_u64(w, FIELD_OVERWRITES, meta->overwrites);
    meta_put_text(w, FIELD_ACL, meta->acl);
}

/* ---- reading ---- */

static bool
take_text(struct object_meta *out, uint8_t field, struct span value)
{
    for (unsigned i = 0; i < ARRAY_LEN(texts); i++) {
        if (texts[i].field == field) {
            *text_in(out, i) = value;
            return true;
        }
    }
    return false;
}

static bool
meta_take_chunks(struct span value, struct object_meta *out)
{
    struct cursor c = cursor_of(value.at, value.len);

    out->whole_bytes = take_be(&c, 8);
    out->chunk_bytes = (uint32_t)take_be(&c, 4);
    return !c.bad && cursor_left(&c) == 0 && out->whole_bytes > 0 && out->chunk_bytes > 0;
}

/* What fits in struct object_meta without an arena; counts the pairs. */
static enum err
meta_take_fields(struct record r, struct object_meta *out)
{
    uint8_t field;
    struct span value;
    uint64_t number;

    while (record_next(&r, &field, &value)) {
        if (field < FIELD_MTIME || take_text(out, field, value))
            continue;
        if (field == FIELD_MTIME || field == FIELD_PARTS || field == FIELD_VERSIONING ||
            field == FIELD_OVERWRITES) {
            if (record_u64(value, &number) != ERR_OK || number > INT64_MAX ||
                (field == FIELD_OVERWRITES && number > UINT32_MAX) ||
                (field == FIELD_VERSIONING && number > STORE_SUSPENDED))
                return ERR_CORRUPT;
            if (field == FIELD_MTIME)
                out->mtime_ms = (int64_t)number;
            else if (field == FIELD_VERSIONING)
                out->versioning = (uint8_t)number;
            else if (field == FIELD_OVERWRITES)
                out->overwrites = (uint32_t)number;
            else
                out->parts = (uint32_t)number;
        } else if (field == FIELD_MD5) {
            if (value.len != sizeof out->md5)
                return ERR_CORRUPT;
            memcpy(out->md5, value.at, sizeof out->md5);
        } else if (field == FIELD_CHECKSUM) {
            if (value.len < 2)
                return ERR_CORRUPT;
            out->checksum_algorithm = (uint8_t)value.at[0];
            out->checksum_type = (uint8_t)value.at[1];
            out->checksum = span_from(value, 2);
        } else if (field == FIELD_CHUNKS) {
            if (!meta_take_chunks(value, out))
                return ERR_CORRUPT;
        } else if (field == FIELD_USER) {
            out->user_count++;
        }
    }
    return ERR_OK;
}

static enum err
take_users(struct record r, struct object_pair *out)
{
    uint8_t field;
    struct span value;

    while (record_next(&r, &field, &value)) {
        struct cursor c = cursor_of(value.at, value.len);

        if (field != FIELD_USER)
            continue;
        out->name = take_span(&c, (size_t)take_be(&c, 2));
        if (c.bad)
            return ERR_CORRUPT;
        out->value = take_span(&c, cursor_left(&c));
        out++;
    }
    return ERR_OK;
}

enum err
log_record_meta(const struct log_record *m, struct arena *a, bool copy,
                struct object_meta *out, struct errbuf *eb)
{
    struct record r;
    struct object_meta meta = {0};
    enum err rc = record_open(m->record, &r, eb);

    if (rc == ERR_OK)
        rc = meta_take_fields(r, &meta);
    if (rc == ERR_OK && meta.user_count > 0) {
        struct object_pair *pairs = arena_try(a, meta.user_count * sizeof *pairs);

        if (pairs == NULL)
            return err_set(eb, ERR_BUSY, "no memory for %" PRIu32 " metadata pairs",
                           meta.user_count);
        meta.user = pairs;
        rc = take_users(r, pairs);
    }
    if (rc != ERR_OK)
        return err_set(eb, rc,
                       "metadata of member at %" PRIu64 " of segment %" PRIu32
                       " is malformed",
                       m->offset, m->segment);
    if (copy)
        meta_copy(a, &meta, out);
    else
        *out = meta;
    return ERR_OK;
}

void
meta_copy(struct arena *a, const struct object_meta *from, struct object_meta *to)
{
    *to = *from;
    for (unsigned i = 0; i < ARRAY_LEN(texts); i++) {
        struct span text = *meta_text_of(from, i);

        *text_in(to, i) = text.len > 0 ? arena_span(a, text) : (struct span){"", 0};
    }
    to->checksum = arena_span(a, from->checksum);
    if (from->user_count > 0) {
        struct object_pair *pairs = arena_alloc(a, from->user_count * sizeof *pairs);

        for (uint32_t i = 0; i < from->user_count; i++) {
            pairs[i].name = arena_span(a, from->user[i].name);
            pairs[i].value = arena_span(a, from->user[i].value);
        }
        to->user = pairs;
    }
}

/* ---- the entry ---- */

/* The checksum that we make where a client sends none does not count, or no entry were plain. Of a cached object it is the
 * backend's, and shown without being asked for. */
static bool
meta_is_plain(const struct object_meta *m, enum store_class class)
{
    for (unsigned i = 0; i < ARRAY_LEN(texts); i++) {
        if (meta_text_of(m, i)->len > 0)
            return false;
    }
    return m->user_count == 0 && m->whole_bytes == 0 &&
           (m->checksum_algorithm == CHECKSUM_NONE ||
            (m->checksum_algorithm == CHECKSUM_CRC64NVME && class == STORE_NATIVE));
}

/* A record of metadata names the place of its body. */
static void
meta_entry(const struct log_record *m, struct entry *out)
{
    out->flags |= ENTRY_META_APART | (m->place.span == 0 ? ENTRY_INLINE : 0) |
                  (m->layout == LAYOUT_PARTS ? ENTRY_PARTS : 0);
    out->place.segment = m->place.segment;
    out->place.offset = m->place.offset;
    out->place.meta_segment = m->segment;
    out->place.meta_offset = m->offset;
}

enum err
record_entry(const struct log_record *m, enum store_class class, struct entry *out,
             struct errbuf *eb)
{
    struct record r;
    struct object_meta meta = {0};
    enum err rc;

    record_reopen(m->record, &r);
    rc = meta_take_fields(r, &meta);
    if (rc != ERR_OK)
        return err_set(eb, ERR_CORRUPT,
                       "metadata of member at %" PRIu64 " of segment %" PRIu32
                       " is malformed",
                       m->offset, m->segment);
    *out = (struct entry){.version = m->version,
                          .born = m->born,
                          .content = m->content,
                          .size = m->size,
                          .mtime_ms = meta.mtime_ms,
                          .parts = meta.parts,
                          .overwrites = meta.overwrites,
                          .place.segment = m->segment,
                          .place.offset = m->offset};
    memcpy(out->md5, meta.md5, sizeof out->md5);
    out->flags = (class == STORE_CACHED ? ENTRY_CACHED : 0) |
                 (meta_is_plain(&meta, class) ? ENTRY_PLAIN : 0) |
                 (meta.etag_text.len > 0 ? ENTRY_ETAG_TEXT : 0) |
                 (meta.whole_bytes > 0 ? ENTRY_CHUNKS : 0) |
                 (meta.versioning == STORE_VERSIONED   ? ENTRY_VERSIONED
                  : meta.versioning == STORE_SUSPENDED ? ENTRY_SUSPENDED
                                                       : 0);
    if (m->kind == LOG_RECORD_META) {
        meta_entry(m, out);
        return ERR_OK;
    }
    if (m->place.segment != 0) {
        out->place.segment = m->place.segment;
        out->place.offset = m->place.offset;
    } else {
        out->flags |= ENTRY_INLINE;
    }
    if (m->kind == LOG_RECORD_UPLOAD_COMPLETE || log_record_is_prepared_upload(m))
        out->flags |= ENTRY_PARTS;
    return ERR_OK;
}
