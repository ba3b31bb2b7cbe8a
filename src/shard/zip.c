/* zip: parsers of its directory; see zip.h. */
#include "shard/zip.h"

#include <assert.h>
#include <inttypes.h>

#include "base/cursor.h"
#include "base/mem.h"
#include "wire/tar.h"

#define SIG_END     0x06054b50u
#define SIG_END64   0x06064b50u
#define SIG_LOCATOR 0x07064b50u
#define SIG_ENTRY   0x02014b50u
#define SIG_LOCAL   0x04034b50u
#define END_LEN     22u
#define LOCATOR_LEN 20u
#define ENTRY_LEN   46u
#define EXTRA_ZIP64 1u

static uint64_t
take_le(struct cursor *c, unsigned bytes)
{
    struct span s = take_span(c, bytes);
    uint64_t v = 0;

    for (size_t i = s.len; i > 0; i--)
        v = v << 8 | (unsigned char)s.at[i - 1];
    return v;
}

static enum err
zip_end_check(const struct zip_end *e, uint64_t size, struct errbuf *eb)
{
    if (e->dir_at > size || e->dir_size > size - e->dir_at)
        return err_set(eb, ERR_BAD_REQUEST,
                       "zip: the directory lies at %" PRIu64 "+%" PRIu64
                       " in an archive of %" PRIu64 " bytes",
                       e->dir_at, e->dir_size, size);
    if (e->count > e->dir_size / ENTRY_LEN)
        return err_set(eb, ERR_BAD_REQUEST,
                       "zip: %" PRIu64 " members in a directory of %" PRIu64 " bytes",
                       e->count, e->dir_size);
    return ERR_OK;
}

/* The locator stands in front of the end record. */
static void
find_locator(struct span tail, size_t end, struct zip_end *out)
{
    struct cursor c;

    if (end < LOCATOR_LEN)
        return;
    c = cursor_of(tail.at + end - LOCATOR_LEN, LOCATOR_LEN);
    if (take_le(&c, 4) != SIG_LOCATOR)
        return;
    take_le(&c, 4);
    out->end64_at = take_le(&c, 8);
}

enum err
zip_end_find(struct span tail, uint64_t size, struct zip_end *out, struct errbuf *eb)
{
    *out = (struct zip_end){0};
    for (size_t back = END_LEN; back <= tail.len; back++) {
        struct cursor c = cursor_of(tail.at + tail.len - back, back);
        uint64_t disk, dir_disk, here;

        if (take_le(&c, 4) != SIG_END)
            continue;
        disk = take_le(&c, 2);
        dir_disk = take_le(&c, 2);
        here = take_le(&c, 2);
        out->count = take_le(&c, 2);
        out->dir_size = take_le(&c, 4);
        out->dir_at = take_le(&c, 4);
        if (take_le(&c, 2) != cursor_left(&c)) /* the comment ends the archive */
            continue;
        if (out->count == 0xffff || out->dir_size == 0xffffffffu ||
            out->dir_at == 0xffffffffu)
            find_locator(tail, tail.len - back, out);
        if (out->end64_at != 0)
            return out->end64_at <= size && size - out->end64_at >= ZIP_END64_LEN
                       ? ERR_OK
                       : err_set(eb, ERR_BAD_REQUEST,
                                 "zip: its zip64 record lies outside");
        if (disk != 0 || dir_disk != 0 || here != out->count)
            return err_set(eb, ERR_BAD_REQUEST, "zip: it has several volumes");
        return zip_end_check(out, size, eb);
    }
    return err_set(eb, ERR_BAD_REQUEST, "zip: no end record: it is no zip, or cut short");
}

enum err
zip_end64_parse(struct span bytes, uint64_t size, struct zip_end *out, struct errbuf *eb)
{
    struct cursor c = cursor_of(bytes.at, bytes.len);
    uint64_t sig = take_le(&c, 4), disk, dir_disk, here;

    take_span(&c, 8 + 2 + 2); /* length, versions */
    disk = take_le(&c, 4);
    dir_disk = take_le(&c, 4);
    here = take_le(&c, 8);
    out->count = take_le(&c, 8);
    out->dir_size = take_le(&c, 8);
    out->dir_at = take_le(&c, 8);
    if (c.bad || sig != SIG_END64)
        return err_set(eb, ERR_BAD_REQUEST, "zip: no zip64 record where one should be");
    if (disk != 0 || dir_disk != 0 || here != out->count)
        return err_set(eb, ERR_BAD_REQUEST, "zip: it has several volumes");
    return zip_end_check(out, size, eb);
}

int64_t
zip_time(uint16_t date, uint16_t time)
{
    int64_t y = 1980 + (date >> 9), m = date >> 5 & 15, d = date & 31, days;

    /* Days from 1970, by years that begin in March. */
    y -= m <= 2;
    days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 +
           d - 1 - 719468;
    return days * 86400 + (time >> 11) * 3600 + (time >> 5 & 63) * 60 + (time & 31) * 2;
}

/* Sizes that did not fit stand in an extra field, in this order. */
static enum err
zip_entry_extra(struct span extra, struct zip_entry *e, struct errbuf *eb)
{
    struct cursor c = cursor_of(extra.at, extra.len);

    while (cursor_left(&c) >= 4 && !c.bad) {
        uint64_t id = take_le(&c, 2);
        struct span field = take_span(&c, (size_t)take_le(&c, 2));
        struct cursor f = cursor_of(field.at, field.len);

        if (id != EXTRA_ZIP64 || c.bad)
            continue;
        if (e->size == 0xffffffffu)
            e->size = take_le(&f, 8);
        if (e->stored == 0xffffffffu)
            e->stored = take_le(&f, 8);
        if (e->local_at == 0xffffffffu)
            e->local_at = take_le(&f, 8);
        if (f.bad)
            return err_set(eb, ERR_BAD_REQUEST,
                           "zip: member \"%.*s\": a short zip64 field",
                           (int)MIN(e->name.len, 200), e->name.at);
    }
    return ERR_OK;
}

enum err
zip_entry_parse(struct span window, struct zip_entry *out, size_t *used,
                struct errbuf *eb)
{
    struct cursor c = cursor_of(window.at, window.len);
    uint64_t name, extra, comment;
    uint16_t time;
    struct span text;

    *used = 0;
    *out = (struct zip_entry){0};
    if (window.len < ENTRY_LEN)
        return ERR_OK;
    if (take_le(&c, 4) != SIG_ENTRY)
        return err_set(eb, ERR_BAD_REQUEST, "zip: no entry where one should be");
    take_le(&c, 4); /* versions */
    out->flags = (uint16_t)take_le(&c, 2);
    out->method = (uint16_t)take_le(&c, 2);
    time = (uint16_t)take_le(&c, 2);
    out->mtime_s = zip_time((uint16_t)take_le(&c, 2), time);
    out->crc = (uint32_t)take_le(&c, 4);
    out->stored = take_le(&c, 4);
    out->size = take_le(&c, 4);
    name = take_le(&c, 2);
    extra = take_le(&c, 2);
    comment = take_le(&c, 2);
    take_span(&c, 2 + 2 + 4); /* disk, attributes */
    out->local_at = take_le(&c, 4);
    if (cursor_left(&c) < name + extra + comment)
        return ERR_OK;
    out->name = take_span(&c, (size_t)name);
    text = take_span(&c, (size_t)extra);
    assert(!c.bad);
    *used = ENTRY_LEN + (size_t)(name + extra + comment);
    if (name == 0 || name > TAR_PATH_MAX || span_find(out->name, '\0') != NULL)
        return err_set(eb, ERR_BAD_REQUEST, "zip: a name of %u bytes, 1 to %u are taken",
                       (unsigned)name, TAR_PATH_MAX);
    return zip_entry_extra(text, out, eb);
}

enum err
zip_local_parse(struct span bytes, struct span name, uint64_t *data, struct errbuf *eb)
{
    struct cursor c = cursor_of(bytes.at, bytes.len);
    uint64_t sig = take_le(&c, 4), name_len, extra_len;

    take_span(&c, ZIP_LOCAL_MIN - 8);
    name_len = take_le(&c, 2);
    extra_len = take_le(&c, 2);
    if (c.bad || sig != SIG_LOCAL || name_len != name.len ||
        !span_eq(take_span(&c, name.len), name))
        return err_set(eb, ERR_BAD_REQUEST,
                       "zip: the directory says that \"%.*s\" lies where it does not",
                       (int)MIN(name.len, 200), name.at);
    *data = ZIP_LOCAL_MIN + name_len + extra_len;
    return ERR_OK;
}
