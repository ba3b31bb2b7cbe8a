#include <inttypes.h>
#include <stdio.h>

#include "base/hash.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/store_entry.h"
#include "store/store_exported.h"
#include "wire/tar.h"

#define EXPORTED_KIND   48
#define EXPORTED_RECORD 1
#define EXPORTED_NEWEST 2 /* of a record that is no plain object */
#define BODY_MOST       ((uint64_t)5 << 30)

bool
exported_is_safe(struct span bucket, struct span key)
{
    return bucket.len > 0 && bucket.len <= 255 && bucket.at[0] != '.' &&
           memchr(bucket.at, '/', bucket.len) == NULL && tar_path_safe(bucket) &&
           tar_path_safe(key);
}

static void
exported_put_version(const struct version *v, uint8_t out[16])
{
    for (unsigned i = 0; i < 8; i++) {
        out[i] = (uint8_t)(v->epoch >> (56 - 8 * i));
        out[8 + i] = (uint8_t)(v->counter >> (56 - 8 * i));
    }
}

static size_t
path_of_id(const char *folder, const uint8_t id[16], uint32_t part,
           char out[EXPORTED_PATH_ROOM])
{
    char hex[33];
    int len;

    hex_encode(id, 16, hex);
    if (part > 0)
        len = snprintf(out, EXPORTED_PATH_ROOM, "%s%s/%05u", folder, hex, (unsigned)part);
    else
        len = snprintf(out, EXPORTED_PATH_ROOM, "%s%s", folder, hex);
    return (size_t)len;
}

size_t
exported_path(const struct exported *e, bool aside, char out[EXPORTED_PATH_ROOM])
{
    uint8_t id[16];

    if (e->what == EXPORTED_MARKER || (e->what == EXPORTED_VERSION && e->older)) {
        exported_put_version(&e->born, id);
        return path_of_id(EXPORTED_OLDER, id, 0, out);
    }
    if (e->what == EXPORTED_UPLOAD || e->what == EXPORTED_PART)
        return path_of_id(e->what == EXPORTED_PART ? ".forebay/part/"
                                                   : ".forebay/upload/",
                          e->upload.id.bytes, e->part, out);
    if (aside || !exported_is_safe(e->bucket, e->key))
        return path_of_id(EXPORTED_ID, e->content.bytes, 0, out);
    memcpy(out, e->bucket.at, e->bucket.len);
    out[e->bucket.len] = '/';
    memcpy(out + e->bucket.len + 1, e->key.at, e->key.len);
    out[e->bucket.len + 1 + e->key.len] = '\0';
    return e->bucket.len + 1 + e->key.len;
}

void
exported_place(struct exported *e, struct span path)
{
    e->older = e->what == EXPORTED_VERSION && span_starts(path, SPAN(EXPORTED_OLDER));
}

bool
exported_as_object(struct exported *e)
{
    if (e->what == EXPORTED_VERSION && !e->older)
        e->what = EXPORTED_OBJECT;
    return e->what == EXPORTED_OBJECT;
}

/* What makes it another thing than an object. Fields ascend. */
static void
exported_put_what(struct record_writer *w, const struct exported *e)
{
    uint8_t born[16];

    if (e->what == EXPORTED_UPLOAD || e->what == EXPORTED_PART)
        record_put_span(
            w, FIELD_UPLOAD,
            (struct span){(const char *)e->upload.id.bytes, sizeof e->upload.id.bytes});
    if (e->what == EXPORTED_PART)
        record_put_u64(w, FIELD_PART, e->part);
    if (e->what == EXPORTED_VERSION || e->what == EXPORTED_MARKER) {
        exported_put_version(&e->born, born);
        record_put_span(w, FIELD_BORN, (struct span){(const char *)born, sizeof born});
    }
    if (e->what == EXPORTED_MARKER)
        record_put_span(w, FIELD_MARKER, (struct span){"", 0});
}

void
exported_put_record(struct buf *out, const struct exported *e)
{
    struct record_writer w;
    char sum[4];

    for (unsigned i = 0; i < sizeof sum; i++)
        sum[i] = (char)(e->sum >> (8 * (3 - i)));
    record_begin(&w, out, EXPORTED_KIND,
                 e->what == EXPORTED_OBJECT ? EXPORTED_RECORD : EXPORTED_NEWEST);
    record_put_span(&w, FIELD_IMMUTABLE_NAME, e->bucket);
    record_put_span(&w, FIELD_KEY, e->key);
    record_put_span(&w, FIELD_CONTENT,
                    (struct span){(const char *)e->content.bytes, sizeof e->content});
    record_put_u64(&w, FIELD_SIZE, e->size);
    record_put_span(&w, FIELD_PAYLOAD_SUM, (struct span){sum, sizeof sum});
    exported_put_what(&w, e);
    meta_put(&w, &e->meta);
    record_end(&w);
}

void
exported_put_head(struct buf *out, const struct exported *e, bool aside)
{
    char path[EXPORTED_PATH_ROOM];
    struct tar_member t = {.size = e->size,
                           .mtime_s = MAX(e->meta.mtime_ms, 0) / 1000,
                           .mode = 0644,
                           .type = TAR_FILE};
    struct buf record;

    buf_init(&record, EXPORTED_HEAD_MAX);
    exported_put_record(&record, e);
    t.path = (struct span){path, exported_path(e, aside, path)};
    t.xattr = buf_span(&record);
    tar_put_head(out, &t, 0);
    buf_fini(&record);
}

/* The fields that are not metadata. */
static bool
exported_take_field(struct exported *e, uint8_t field, struct span value)
{
    struct cursor c = cursor_of(value.at, value.len);

    switch (field) {
    case FIELD_IMMUTABLE_NAME:
        e->bucket = value;
        return value.len >= 1 && value.len <= 255;
    case FIELD_KEY:
        e->key = value;
        return value.len >= 1 && value.len <= STORE_KEY_MAX;
    case FIELD_CONTENT:
        if (value.len == sizeof e->content)
            memcpy(e->content.bytes, value.at, value.len);
        return value.len == sizeof e->content;
    case FIELD_SIZE:
        return record_u64(value, &e->size) == ERR_OK && e->size <= INT64_MAX;
    case FIELD_PAYLOAD_SUM:
        e->sum = (uint32_t)take_be(&c, 4);
        return value.len == 4;
    default:
        return true;
    }
}

/* Of a record of version 2: what it is. */
static bool
take_what(struct exported *e, uint8_t field, struct span value)
{
    struct cursor c = cursor_of(value.at, value.len);
    uint64_t number;

    switch (field) {
    case FIELD_BORN:
        e->born.epoch = take_be(&c, 8);
        e->born.counter = take_be(&c, 8);
        if (e->what == EXPORTED_OBJECT)
            e->what = EXPORTED_VERSION;
        return e->what == EXPORTED_VERSION && value.len == 16 && e->born.epoch > 0 &&
               e->born.epoch <= EXPORTED_EPOCH_MAX;
    case FIELD_MARKER:
        if (e->what != EXPORTED_VERSION)
            return false;
        e->what = EXPORTED_MARKER;
        return value.len == 0;
    case FIELD_UPLOAD:
        if (e->what != EXPORTED_OBJECT || value.len != sizeof e->upload.id.bytes)
            return false;
        e->what = EXPORTED_UPLOAD;
        memcpy(e->upload.id.bytes, value.at, value.len);
        return true;
    case FIELD_PART:
        if (e->what != EXPORTED_UPLOAD || record_u64(value, &number) != ERR_OK)
            return false;
        e->what = EXPORTED_PART;
        e->part = (uint32_t)MIN(number, UINT32_MAX);
        return number >= 1 && number <= PART_MAX;
    default:
        return true;
    }
}

/* Do the fields belong together? */
static enum err
check_what(const struct exported *e, struct errbuf *eb)
{
    bool versioned = e->what == EXPORTED_VERSION || e->what == EXPORTED_MARKER;

    if (e->what == EXPORTED_OBJECT)
        return err_set(eb, ERR_CORRUPT,
                       "a record of version 2 that is no version and of no upload");
    if ((e->what == EXPORTED_MARKER || e->what == EXPORTED_UPLOAD) && e->size > 0)
        return err_set(eb, ERR_CORRUPT, "%" PRIu64 " bytes of what has none", e->size);
    if (e->what == EXPORTED_PART && e->size > BODY_MOST)
        return err_set(eb, ERR_CORRUPT, "a part of %" PRIu64 " bytes, at most %" PRIu64,
                       e->size, BODY_MOST);
    return versioned && e->meta.versioning == STORE_UNVERSIONED
               ? err_set(eb, ERR_CORRUPT, "a version that does not say of which kind")
               : ERR_OK;
}

enum err
exported_read(struct span bytes, struct arena *a, struct exported *out, struct errbuf *eb)
{
    struct record r;
    struct log_record m = {.kind = LOG_RECORD_PUT};
    struct span value;
    uint8_t field;
    enum err rc = record_open(bytes, &r, eb);

    *out = (struct exported){0};
    if (rc != ERR_OK)
        return rc;
    if (r.kind != EXPORTED_KIND)
        return err_set(eb, ERR_NOT_FOUND, "a record of kind %u is no exported object",
                       r.kind);
    if (r.version < EXPORTED_RECORD || r.version > EXPORTED_NEWEST)
        return err_set(eb, ERR_NOT_IMPLEMENTED,
                       "an exported object of version %u; this program reads %u to %u",
                       r.version, EXPORTED_RECORD, EXPORTED_NEWEST);
    m.record = (struct span){bytes.at, r.len};
    while (record_next(&r, &field, &value))
        if (!exported_take_field(out, field, value) ||
            (r.version == EXPORTED_NEWEST && !take_what(out, field, value)))
            return err_set(eb, ERR_CORRUPT, "field %u of an exported object is malformed",
                           field);
    if (out->bucket.len == 0 || out->key.len == 0)
        return err_set(eb, ERR_CORRUPT, "an exported object without bucket or key");
    rc = log_record_meta(&m, a, false, &out->meta, eb);
    if (rc == ERR_OK)
        rc = meta_check(&out->meta, eb);
    return rc == ERR_OK && r.version == EXPORTED_NEWEST ? check_what(out, eb) : rc;
}
