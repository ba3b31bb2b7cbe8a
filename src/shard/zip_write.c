/* zip_write: the headers of a zip; see zip_write.h. */
#include "shard/zip_write.h"

#include <assert.h>
#include <time.h>

#include "base/hash.h"
#include "base/mem.h"
#include "shard/write.h"

#define LIMIT32    0xffffffffu
#define HAS_SUM    8u    /* flag 3: the CRC-32 stands behind the data */
#define NAME_UTF8  2048u /* flag 11 */
#define VERSION_64 45u

static void
put_le(struct buf *b, uint64_t v, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        buf_putc(b, (char)(v >> (8 * i) & 0xff));
}

void
zip_writer_init(struct zip_writer *z)
{
    *z = (struct zip_writer){0};
    buf_init(&z->directory, SHARD_ZIP_NAMES_MAX + 128);
    buf_init(&z->name, TAR_PATH_MAX);
}

void
zip_writer_fini(struct zip_writer *z)
{
    buf_fini(&z->directory);
    buf_fini(&z->name);
}

static void
zip_set_time(struct zip_writer *z, int64_t mtime_s)
{
    time_t t = (time_t)mtime_s;
    struct tm tm = {0};

    z->date = 1u << 5 | 1u; /* 1980 */
    z->time = 0;
    if (gmtime_r(&t, &tm) == NULL || tm.tm_year < 80 || tm.tm_year > 207)
        return;
    z->date = (uint16_t)((tm.tm_year - 80) << 9 | (tm.tm_mon + 1) << 5 | tm.tm_mday);
    z->time = (uint16_t)(tm.tm_hour << 11 | tm.tm_min << 5 | tm.tm_sec / 2);
}

enum err
zip_writer_member(struct zip_writer *z, struct span name, uint64_t size, int64_t mtime_s,
                  struct buf *head, struct errbuf *eb)
{
    bool big = size >= LIMIT32;

    if (z->directory.len + name.len + 128 > SHARD_ZIP_NAMES_MAX)
        return err_set(eb, ERR_TOO_LARGE,
                       "the directory of the zip is larger than %u MiB; use tar",
                       SHARD_ZIP_NAMES_MAX >> 20);
    buf_clear(&z->name);
    buf_put_span(&z->name, name);
    zip_set_time(z, mtime_s);
    z->local_at = z->at;
    z->size = size;
    z->crc = 0;
    put_le(head, 0x04034b50u, 4);
    put_le(head, big ? VERSION_64 : 20, 2);
    put_le(head, HAS_SUM | NAME_UTF8, 2);
    put_le(head, 0, 2); /* stored */
    put_le(head, z->time, 2);
    put_le(head, z->date, 2);
    put_le(head, 0, 4); /* its CRC-32 is not known yet */
    put_le(head, big ? LIMIT32 : size, 4);
    put_le(head, big ? LIMIT32 : size, 4);
    put_le(head, name.len, 2);
    put_le(head, big ? 20 : 0, 2);
    buf_put_span(head, name);
    if (big) {
        put_le(head, 1, 2);
        put_le(head, 16, 2);
        put_le(head, size, 8);
        put_le(head, size, 8);
    }
    z->at += head->len + size;
    return ERR_OK;
}

void
zip_writer_data(struct zip_writer *z, struct span bytes)
{
    z->crc = hash_crc32(z->crc, bytes.at, bytes.len);
}

static void
zip_put_entry(struct zip_writer *z)
{
    struct buf *d = &z->directory;
    bool big = z->size >= LIMIT32, far = z->local_at >= LIMIT32;
    unsigned extra = (big ? 16u : 0u) + (far ? 8u : 0u);

    put_le(d, 0x02014b50u, 4);
    put_le(d, 3u << 8 | VERSION_64, 2); /* written on Unix */
    put_le(d, extra > 0 ? VERSION_64 : 20, 2);
    put_le(d, HAS_SUM | NAME_UTF8, 2);
    put_le(d, 0, 2);
    put_le(d, z->time, 2);
    put_le(d, z->date, 2);
    put_le(d, z->crc, 4);
    put_le(d, big ? LIMIT32 : z->size, 4);
    put_le(d, big ? LIMIT32 : z->size, 4);
    put_le(d, z->name.len, 2);
    put_le(d, extra > 0 ? extra + 4 : 0, 2);
    put_le(d, 0, 2 + 2 + 2); /* comment, disk, internal attributes */
    put_le(d, 0100644u << 16, 4);
    put_le(d, far ? LIMIT32 : z->local_at, 4);
    buf_put_span(d, buf_span(&z->name));
    if (extra > 0) {
        put_le(d, 1, 2);
        put_le(d, extra, 2);
        if (big) {
            put_le(d, z->size, 8);
            put_le(d, z->size, 8);
        }
        if (far)
            put_le(d, z->local_at, 8);
    }
    z->count++;
}

struct span
zip_writer_end_member(struct zip_writer *z, char room[24])
{
    struct buf b;
    size_t len;

    buf_init(&b, 24);
    put_le(&b, 0x08074b50u, 4);
    put_le(&b, z->crc, 4);
    put_le(&b, z->size, z->size >= LIMIT32 ? 8 : 4);
    put_le(&b, z->size, z->size >= LIMIT32 ? 8 : 4);
    assert(!b.full);
    len = b.len;
    memcpy(room, b.at, len);
    buf_fini(&b);
    z->at += len;
    zip_put_entry(z);
    return (struct span){room, len};
}

void
zip_writer_finish(struct zip_writer *z)
{
    struct buf *d = &z->directory;
    uint64_t size = d->len, end64 = z->at + size;
    bool big = z->count >= 0xffff || size >= LIMIT32 || z->at >= LIMIT32;

    if (big) {
        put_le(d, 0x06064b50u, 4);
        put_le(d, 44, 8);
        put_le(d, VERSION_64, 2);
        put_le(d, VERSION_64, 2);
        put_le(d, 0, 4);
        put_le(d, 0, 4);
        put_le(d, z->count, 8);
        put_le(d, z->count, 8);
        put_le(d, size, 8);
        put_le(d, z->at, 8);
        put_le(d, 0x07064b50u, 4);
        put_le(d, 0, 4);
        put_le(d, end64, 8);
        put_le(d, 1, 4);
    }
    put_le(d, 0x06054b50u, 4);
    put_le(d, 0, 2 + 2);
    put_le(d, MIN(z->count, 0xffffu), 2);
    put_le(d, MIN(z->count, 0xffffu), 2);
    put_le(d, MIN(size, (uint64_t)LIMIT32), 4);
    put_le(d, MIN(z->at, (uint64_t)LIMIT32), 4);
    put_le(d, 0, 2);
    assert(!d->full);
}
