/* spill: temporary files of records; see spill.h. */
#include "shard/spill.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "base/hash.h"
#include "base/mem.h"

#define SPILL_BUFFER (256u << 10)
#define SPILL_END    0xffffffffu
#define SPILL_HEAD   8u

static_assert(SPILL_RECORD_MAX < SPILL_END, "a length is never the end mark");

struct spill_writer {
    struct rt_file *file;
    struct iobuf *buf; /* owned */
    uint32_t len;      /* in `buf` */
    uint64_t at;       /* of `buf` in the file */
};

enum err
spill_create(struct rt_dir *dir, const char *name, struct spill_writer **out,
             struct errbuf *eb)
{
    struct spill_writer *w = xcalloc(1, sizeof *w);
    enum err rc =
        rt_open(dir, name, RT_O_WRITE | RT_O_CREATE | RT_O_TRUNC, 0600, &w->file, eb);

    if (rc == ERR_OK) {
        rc = iobuf_wait(SPILL_BUFFER, deadline_in_ms(IOBUF_WAIT_MS), &w->buf);
        if (rc != ERR_OK)
            (void)err_set(eb, rc, "no buffer is free to write temporary data");
    }
    if (rc != ERR_OK)
        spill_abort(&w);
    *out = w;
    return rc;
}

static enum err
spill_flush(struct spill_writer *w, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    assert(w->len <= w->buf->room);
    if (w->len > 0)
        rc = rt_write(w->file, w->at, w->buf, 0, w->len, RT_BACKGROUND, eb);
    w->at += w->len;
    w->len = 0;
    return rc;
}

enum err
spill_raw(struct spill_writer *w, struct span bytes, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    while (rc == ERR_OK && bytes.len > 0) {
        uint32_t n = (uint32_t)MIN(bytes.len, (size_t)(w->buf->room - w->len));

        memcpy(w->buf->at + w->len, bytes.at, n);
        w->len += n;
        bytes = span_from(bytes, n);
        if (w->len == w->buf->room)
            rc = spill_flush(w, eb);
    }
    return rc;
}

enum err
spill_put(struct spill_writer *w, struct span payload, struct errbuf *eb)
{
    char head_bytes[SPILL_HEAD];
    uint32_t crc = hash_crc32c(0, payload.at, payload.len);
    enum err rc;

    if (payload.len > SPILL_RECORD_MAX)
        return err_set(eb, ERR_TOO_LARGE, "a record of %zu bytes, at most %u",
                       payload.len, SPILL_RECORD_MAX);
    for (unsigned i = 0; i < 4; i++) {
        head_bytes[i] = (char)(payload.len >> (24 - 8 * i));
        head_bytes[4 + i] = (char)(crc >> (24 - 8 * i));
    }
    rc = spill_raw(w, (struct span){head_bytes, sizeof head_bytes}, eb);
    return rc == ERR_OK ? spill_raw(w, payload, eb) : rc;
}

uint64_t
spill_size(const struct spill_writer *w)
{
    return w->at + w->len;
}

enum err
spill_end(struct spill_writer **wp, struct errbuf *eb)
{
    enum err rc = spill_raw(*wp, SPAN("\xff\xff\xff\xff"), eb);

    if (rc == ERR_OK)
        rc = spill_flush(*wp, eb);
    if (rc == ERR_OK)
        rc = rt_sync((*wp)->file, eb);
    spill_abort(wp);
    return rc;
}

void
spill_abort(struct spill_writer **wp)
{
    struct spill_writer *w = *wp;

    *wp = NULL;
    if (w == NULL)
        return;
    iobuf_drop(&w->buf);
    rt_file_close(&w->file);
    free(w);
}

/* ---- reading ---- */

struct spill_reader {
    struct rt_file *file;
    struct iobuf *buf; /* owned */
    uint64_t buf_at;   /* of `buf` in the file */
    uint32_t have;     /* bytes in it */
    uint64_t at;       /* of the next record */
    struct buf record; /* of the last call */
};

enum err
spill_open(struct rt_dir *dir, const char *name, struct spill_reader **out,
           struct errbuf *eb)
{
    struct spill_reader *r = xcalloc(1, sizeof *r);
    enum err rc = rt_open(dir, name, 0, 0, &r->file, eb);

    buf_init(&r->record, SPILL_RECORD_MAX);
    if (rc == ERR_OK) {
        rc = iobuf_wait(SPILL_BUFFER, deadline_in_ms(IOBUF_WAIT_MS), &r->buf);
        if (rc != ERR_OK)
            (void)err_set(eb, rc, "no buffer is free to read temporary data");
    }
    if (rc == ERR_NOT_FOUND)
        rc = err_set(eb, ERR_CORRUPT, "temporary file \"%s\" is gone", name);
    if (rc != ERR_OK)
        spill_close(&r);
    *out = r;
    return rc;
}

void
spill_seek(struct spill_reader *r, uint64_t offset)
{
    r->at = offset;
}

uint64_t
spill_at(const struct spill_reader *r)
{
    return r->at;
}

enum err
spill_bytes(struct spill_reader *r, uint64_t offset, uint64_t most, struct span *out,
            struct errbuf *eb)
{
    enum err rc = ERR_OK;
    size_t skip;

    assert(most > 0);
    if (offset < r->buf_at || offset >= r->buf_at + r->have) {
        r->buf_at = offset;
        r->have = 0;
        rc = rt_read(r->file, offset, r->buf, 0, r->buf->room, RT_BACKGROUND,
                     DEADLINE_NEVER, &r->have, eb);
    }
    if (rc == ERR_OK && r->have == 0)
        rc = err_set(eb, ERR_CORRUPT, "a temporary file ends at %llu",
                     (unsigned long long)offset);
    if (rc != ERR_OK)
        return rc;
    skip = (size_t)(offset - r->buf_at);
    *out =
        (struct span){r->buf->at + skip, (size_t)MIN((uint64_t)(r->have - skip), most)};
    return ERR_OK;
}

/* Copies `len` bytes at `offset` into `record`. */
static enum err
spill_gather(struct spill_reader *r, uint64_t offset, size_t len, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    buf_clear(&r->record);
    while (rc == ERR_OK && r->record.len < len) {
        struct span piece;

        rc = spill_bytes(r, offset + r->record.len, len - r->record.len, &piece, eb);
        if (rc == ERR_OK)
            buf_put_span(&r->record, piece);
    }
    assert(!r->record.full);
    return rc;
}

enum err
spill_next(struct spill_reader *r, struct span *payload, bool *end, struct errbuf *eb)
{
    struct cursor c;
    uint32_t len, crc;
    enum err rc = spill_gather(r, r->at, 4, eb);

    *end = false;
    *payload = (struct span){"", 0};
    if (rc != ERR_OK)
        return rc;
    c = cursor_of(r->record.at, r->record.len);
    len = (uint32_t)take_be(&c, 4);
    *end = len == SPILL_END;
    if (*end)
        return ERR_OK;
    if (len > SPILL_RECORD_MAX)
        return err_set(eb, ERR_CORRUPT, "a record of %u bytes in a temporary file", len);
    rc = spill_gather(r, r->at + 4, 4, eb);
    if (rc != ERR_OK)
        return rc;
    c = cursor_of(r->record.at, r->record.len);
    crc = (uint32_t)take_be(&c, 4);
    rc = spill_gather(r, r->at + SPILL_HEAD, len, eb);
    if (rc == ERR_OK && hash_crc32c(0, r->record.at, r->record.len) != crc)
        rc = err_set(eb, ERR_CORRUPT,
                     "a record at %llu of a temporary file has a wrong sum",
                     (unsigned long long)r->at);
    r->at += SPILL_HEAD + len;
    *payload = buf_span(&r->record);
    return rc;
}

void
spill_close(struct spill_reader **rp)
{
    struct spill_reader *r = *rp;

    *rp = NULL;
    if (r == NULL)
        return;
    buf_fini(&r->record);
    iobuf_drop(&r->buf);
    rt_file_close(&r->file);
    free(r);
}

/* ---- removing ---- */

struct spill_names {
    const char *prefix;
    struct buf names; /* a NUL behind each */
};

static void
on_spill_name(const char *name, void *arg)
{
    struct spill_names *n = arg;

    if (strncmp(name, n->prefix, strlen(n->prefix)) == 0)
        buf_put(&n->names, name, strlen(name) + 1);
}

enum err
spill_remove(struct rt_dir *dir, const char *prefix, struct errbuf *eb)
{
    struct spill_names n = {.prefix = prefix};
    enum err rc;

    buf_init(&n.names, MIB(64));
    rc = rt_dir_list(dir, on_spill_name, &n, eb);
    for (size_t at = 0; rc == ERR_OK && at < n.names.len;) {
        rc = rt_dir_unlink(dir, n.names.at + at, eb);
        at += strlen(n.names.at + at) + 1;
    }
    buf_fini(&n.names);
    return rc;
}
