#include "disk/exported.h"

#include <stdio.h>

#include "base/hash.h"
#include "disk/member.h"
#include "wire/tar.h"

#define EXPORTED_KIND    48
#define EXPORTED_VERSION 1

bool
exported_is_safe(struct span bucket, struct span key)
{
    return bucket.len > 0 && bucket.len <= 255 && bucket.at[0] != '.' &&
           memchr(bucket.at, '/', bucket.len) == NULL && tar_path_safe(bucket) &&
           tar_path_safe(key);
}

size_t
exported_path(const struct exported *e, bool aside, char out[EXPORTED_PATH_ROOM])
{
    if (aside || !exported_is_safe(e->bucket, e->key)) {
        char cid[33];

        hex_encode(e->content.bytes, sizeof e->content.bytes, cid);
        return (size_t)snprintf(out, EXPORTED_PATH_ROOM, EXPORTED_ID "%s", cid);
    }
    memcpy(out, e->bucket.at, e->bucket.len);
    out[e->bucket.len] = '/';
    memcpy(out + e->bucket.len + 1, e->key.at, e->key.len);
    out[e->bucket.len + 1 + e->key.len] = '\0';
    return e->bucket.len + 1 + e->key.len;
}

void
exported_put_record(struct buf *out, const struct exported *e)
{
    struct record_writer w;
    char sum[4];

    for (unsigned i = 0; i < sizeof sum; i++)
        sum[i] = (char)(e->sum >> (8 * (3 - i)));
    record_begin(&w, out, EXPORTED_KIND, EXPORTED_VERSION);
    record_put_span(&w, FIELD_BIRTH_NAME, e->bucket);
    record_put_span(&w, FIELD_KEY, e->key);
    record_put_span(&w, FIELD_CONTENT,
                    (struct span){(const char *)e->content.bytes, sizeof e->content});
    record_put_u64(&w, FIELD_SIZE, e->size);
    record_put_span(&w, FIELD_PAYLOAD_SUM, (struct span){sum, sizeof sum});
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
take_field(struct exported *e, uint8_t field, struct span value)
{
    struct cursor c = cursor_of(value.at, value.len);

    switch (field) {
    case FIELD_BIRTH_NAME:
        e->bucket = value;
        return value.len >= 1 && value.len <= 255;
    case FIELD_KEY:
        e->key = value;
        return value.len >= 1 && value.len <= DISK_KEY_MAX;
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

enum err
exported_read(struct span bytes, struct arena *a, struct exported *out, struct errbuf *eb)
{
    struct record r;
    struct member m = {.kind = MEMBER_PUT};
    struct span value;
    uint8_t field;
    enum err rc = record_open(bytes, &r, eb);

    *out = (struct exported){0};
    if (rc != ERR_OK)
        return rc;
    if (r.kind != EXPORTED_KIND)
        return err_set(eb, ERR_NOT_FOUND, "a record of kind %u is no exported object",
                       r.kind);
    if (r.version != EXPORTED_VERSION)
        return err_set(eb, ERR_NOT_BUILT,
                       "an exported object of version %u; this program reads %u",
                       r.version, EXPORTED_VERSION);
    m.record = (struct span){bytes.at, r.len};
    while (record_next(&r, &field, &value))
        if (!take_field(out, field, value))
            return err_set(eb, ERR_CORRUPT, "field %u of an exported object is malformed",
                           field);
    if (out->bucket.len == 0 || out->key.len == 0)
        return err_set(eb, ERR_CORRUPT, "an exported object without bucket or key");
    rc = member_meta(&m, a, false, &out->meta, eb);
    return rc == ERR_OK ? meta_check(&out->meta, eb) : rc;
}
