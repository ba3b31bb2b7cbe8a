/* write: an archive under construction; see write.h. */
#include "shard/write.h"

#include <assert.h>
#include <lz4frame.h>
#include <stdlib.h>
#include <zlib.h>

#include "base/hash.h"
#include "base/mem.h"
#include "shard/zip_write.h"

#define OUT_BYTES  (128u << 10)
#define IN_BYTES   (32u << 10) /* given to the LZ4 coder at a time */
#define GZIP_LEVEL 1

struct shard_writer {
    enum shard_format format;
    struct shard_sink sink;
    struct buf out; /* towards the sink */
    uint64_t left;  /* of the member */
    uint64_t size;
    bool open; /* a member */
    z_stream z;
    bool z_open, lz4_begun;
    LZ4F_cctx *lz4;
    struct zip_writer zip;
};

static enum err
writer_sink(struct shard_writer *w, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    if (w->out.len > 0)
        rc = w->sink.put(w->sink.arg, buf_span(&w->out), eb);
    buf_clear(&w->out);
    return rc;
}

static enum err
writer_deflate(struct shard_writer *w, struct span in, int how, struct errbuf *eb)
{
    enum err rc = ERR_OK;
    uInt room;

    w->z.next_in = (Bytef *)(uintptr_t)in.at;
    w->z.avail_in = (uInt)in.len;
    do {
        char *at = buf_reserve(&w->out, 4096);

        if (at == NULL) {
            rc = writer_sink(w, eb);
            if (rc != ERR_OK)
                break;
            at = buf_reserve(&w->out, 4096);
        }
        assert(at != NULL);
        room = (uInt)MIN(w->out.room - w->out.len, (size_t)OUT_BYTES);
        w->z.next_out = (Bytef *)w->out.at + w->out.len;
        w->z.avail_out = room;
        deflate(&w->z, how);
        w->out.len += room - w->z.avail_out;
    } while (w->z.avail_in > 0 || w->z.avail_out == 0);
    return rc;
}

static enum err
writer_lz4_result(struct shard_writer *w, size_t n, struct errbuf *eb)
{
    if (LZ4F_isError(n))
        return err_set(eb, ERR_INTERNAL, "lz4: %s", LZ4F_getErrorName(n));
    w->out.len += n;
    return w->out.len >= OUT_BYTES / 2 ? writer_sink(w, eb) : ERR_OK;
}

static enum err
writer_lz4(struct shard_writer *w, struct span in, bool flush, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    while (rc == ERR_OK && (in.len > 0 || flush)) {
        size_t n = MIN(in.len, (size_t)IN_BYTES), most = LZ4F_compressBound(n, NULL);
        char *at;

        if (w->out.len + most > w->out.limit)
            rc = writer_sink(w, eb);
        at = buf_reserve(&w->out, most);
        assert(at != NULL);
        if (rc != ERR_OK)
            break;
        rc = writer_lz4_result(w,
                               n > 0
                                   ? LZ4F_compressUpdate(w->lz4, at, most, in.at, n, NULL)
                                   : LZ4F_flush(w->lz4, at, most, NULL),
                               eb);
        in = span_from(in, n);
        if (n == 0)
            break;
    }
    return rc;
}

/* Bytes of the tar or of the zip, on their way to the sink. */
static enum err
writer_put(struct shard_writer *w, struct span bytes, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    if (w->format == SHARD_TGZ)
        return bytes.len > 0 ? writer_deflate(w, bytes, Z_NO_FLUSH, eb) : ERR_OK;
    if (w->format == SHARD_TAR_LZ4)
        return writer_lz4(w, bytes, false, eb);
    if (w->out.len + bytes.len > OUT_BYTES)
        rc = writer_sink(w, eb);
    if (rc == ERR_OK && bytes.len >= OUT_BYTES)
        return w->sink.put(w->sink.arg, bytes, eb);
    if (rc == ERR_OK)
        buf_put_span(&w->out, bytes);
    return rc;
}

static enum err
writer_open_codec(struct shard_writer *w, struct errbuf *eb)
{
    size_t n;

    if (w->format == SHARD_TGZ) {
        w->z_open = deflateInit2(&w->z, GZIP_LEVEL, Z_DEFLATED, 15 + 16, 8,
                                 Z_DEFAULT_STRATEGY) == Z_OK;
        return w->z_open ? ERR_OK : err_set(eb, ERR_BUSY, "no memory for gzip");
    }
    if (w->format != SHARD_TAR_LZ4)
        return ERR_OK;
    if (LZ4F_isError(LZ4F_createCompressionContext(&w->lz4, LZ4F_VERSION)))
        return err_set(eb, ERR_BUSY, "no memory for LZ4");
    n = LZ4F_compressBegin(w->lz4, buf_reserve(&w->out, LZ4F_HEADER_SIZE_MAX),
                           LZ4F_HEADER_SIZE_MAX, NULL);
    return writer_lz4_result(w, n, eb);
}

enum err
shard_writer_new(enum shard_format f, struct shard_sink sink, struct shard_writer **out,
                 struct errbuf *eb)
{
    struct shard_writer *w = xcalloc(1, sizeof *w);
    enum err rc;

    assert(f != SHARD_NONE);
    w->format = f;
    w->sink = sink;
    buf_init(&w->out, 2 * OUT_BYTES + LZ4F_compressBound(IN_BYTES, NULL));
    zip_writer_init(&w->zip);
    rc = writer_open_codec(w, eb);
    if (rc != ERR_OK)
        shard_writer_free(&w);
    *out = w;
    return rc;
}

/* What stands behind the payload of the open member. */
static enum err
writer_end_member(struct shard_writer *w, struct errbuf *eb)
{
    char tail[TAR_BLOCK] = {0};

    if (!w->open)
        return ERR_OK;
    assert(w->left == 0);
    w->open = false;
    if (w->format == SHARD_ZIP)
        return writer_put(w, zip_writer_end_member(&w->zip, tail), eb);
    return writer_put(w, (struct span){tail, (size_t)tar_padding(w->size)}, eb);
}

enum err
shard_writer_member(struct shard_writer *w, struct span name, uint64_t size,
                    int64_t mtime_s, struct errbuf *eb)
{
    enum err rc = writer_end_member(w, eb);
    struct buf head;

    assert(name.len > 0 && name.len <= TAR_PATH_MAX);
    if (rc != ERR_OK)
        return rc;
    buf_init(&head, TAR_HEAD_MAX);
    if (w->format == SHARD_ZIP)
        rc = zip_writer_member(&w->zip, name, size, mtime_s, &head, eb);
    else
        tar_put_head(
            &head,
            &(struct tar_member){.path = name, .size = size, .mtime_s = MAX(mtime_s, 0)},
            0);
    if (rc == ERR_OK)
        rc = writer_put(w, buf_span(&head), eb);
    buf_fini(&head);
    w->open = rc == ERR_OK;
    w->left = w->size = size;
    return rc;
}

enum err
shard_writer_data(struct shard_writer *w, struct span bytes, struct errbuf *eb)
{
    assert(w->open);
    assert(bytes.len <= w->left);
    w->left -= bytes.len;
    if (w->format == SHARD_ZIP)
        zip_writer_data(&w->zip, bytes);
    return writer_put(w, bytes, eb);
}

enum err
shard_writer_flush(struct shard_writer *w, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    if (w->format == SHARD_TGZ)
        rc = writer_deflate(w, (struct span){"", 0}, Z_SYNC_FLUSH, eb);
    if (w->format == SHARD_TAR_LZ4)
        rc = writer_lz4(w, (struct span){"", 0}, true, eb);
    return rc == ERR_OK ? writer_sink(w, eb) : rc;
}

static enum err
writer_end_codec(struct shard_writer *w, struct errbuf *eb)
{
    enum err rc = ERR_OK;
    size_t most = LZ4F_compressBound(0, NULL);

    if (w->format == SHARD_TGZ)
        rc = writer_deflate(w, (struct span){"", 0}, Z_FINISH, eb);
    if (w->format == SHARD_TAR_LZ4) {
        rc = writer_sink(w, eb);
        if (rc == ERR_OK)
            rc = writer_lz4_result(
                w, LZ4F_compressEnd(w->lz4, buf_reserve(&w->out, most), most, NULL), eb);
    }
    return rc == ERR_OK ? writer_sink(w, eb) : rc;
}

enum err
shard_writer_end(struct shard_writer *w, struct errbuf *eb)
{
    static const char zeros[2 * TAR_BLOCK];
    enum err rc = writer_end_member(w, eb);

    if (rc != ERR_OK)
        return rc;
    if (w->format != SHARD_ZIP) {
        rc = writer_put(w, (struct span){zeros, sizeof zeros}, eb);
    } else {
        zip_writer_finish(&w->zip);
        for (struct span d = buf_span(&w->zip.directory); rc == ERR_OK && d.len > 0;) {
            struct span part = {d.at, MIN(d.len, (size_t)OUT_BYTES)};

            rc = writer_put(w, part, eb);
            d = span_from(d, part.len);
        }
    }
    return rc == ERR_OK ? writer_end_codec(w, eb) : rc;
}

void
shard_writer_free(struct shard_writer **wp)
{
    struct shard_writer *w = *wp;

    *wp = NULL;
    if (w == NULL)
        return;
    if (w->z_open)
        deflateEnd(&w->z);
    if (w->lz4 != NULL)
        LZ4F_freeCompressionContext(w->lz4);
    zip_writer_fini(&w->zip);
    buf_fini(&w->out);
    free(w);
}
