/* decode: gzip, raw deflate and LZ4 frames; see decode.h. */
#include "shard/decode.h"

#include <assert.h>
#include <inttypes.h>
#include <lz4frame.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <zlib.h>

#include "base/mem.h"

#define OUT_BYTES (64u << 10)

struct shard_decoder {
    enum shard_coding coding;
    z_stream z;
    LZ4F_dctx *lz4;
    bool z_open;
    bool ended;  /* at the end of a frame or gzip member: another may follow */
    bool closed; /* what follows is no coded data */
    uint64_t in, out;
    char *room; /* owned */
};

static _Atomic unsigned decoders;

static enum err
decoder_open(struct shard_decoder *d, struct errbuf *eb)
{
    if (d->coding == SHARD_LZ4)
        return LZ4F_isError(LZ4F_createDecompressionContext(&d->lz4, LZ4F_VERSION))
                   ? err_set(eb, ERR_BUSY, "no memory to decode LZ4")
                   : ERR_OK;
    d->z_open = inflateInit2(&d->z, d->coding == SHARD_GZIP ? 15 + 16 : -15) == Z_OK;
    return d->z_open ? ERR_OK : err_set(eb, ERR_BUSY, "no memory to decode deflate");
}

enum err
shard_decoder_new(enum shard_coding coding, struct shard_decoder **out, struct errbuf *eb)
{
    struct shard_decoder *d;
    enum err rc;

    *out = NULL;
    if (atomic_fetch_add(&decoders, 1) >= SHARD_DECODERS_MAX) {
        atomic_fetch_sub(&decoders, 1);
        return err_set(eb, ERR_BUSY,
                       "%u compressed archives are being read already, the limit",
                       SHARD_DECODERS_MAX);
    }
    d = xcalloc(1, sizeof *d);
    d->coding = coding;
    d->room = xmalloc(OUT_BYTES);
    rc = decoder_open(d, eb);
    if (rc != ERR_OK)
        shard_decoder_free(&d);
    *out = d;
    return rc;
}

void
shard_decoder_free(struct shard_decoder **dp)
{
    struct shard_decoder *d = *dp;

    *dp = NULL;
    if (d == NULL)
        return;
    assert(atomic_load(&decoders) > 0);
    if (d->z_open)
        inflateEnd(&d->z);
    if (d->lz4 != NULL)
        LZ4F_freeDecompressionContext(d->lz4);
    free(d->room);
    free(d);
    atomic_fetch_sub(&decoders, 1);
}

/* Behind the end of a gzip member: another one, or something that gzip ignores as well. */
static bool
decoder_goes_on(struct shard_decoder *d, struct span *in)
{
    if (d->coding == SHARD_GZIP && (unsigned char)in->at[0] == 0x1f &&
        inflateReset(&d->z) == Z_OK) {
        d->ended = false;
        return true;
    }
    d->closed = true;
    in->at += in->len;
    in->len = 0;
    return false;
}

static enum err
inflate_some(struct shard_decoder *d, struct span *in, struct span *out,
             struct errbuf *eb)
{
    uInt given = (uInt)MIN(in->len, (size_t)1 << 20);
    int z;

    if (d->ended && !decoder_goes_on(d, in))
        return ERR_OK;
    d->z.next_in = (Bytef *)(uintptr_t)in->at;
    d->z.avail_in = given;
    d->z.next_out = (Bytef *)d->room;
    d->z.avail_out = OUT_BYTES;
    z = inflate(&d->z, Z_NO_FLUSH);
    assert(d->z.avail_in <= given);
    d->in += given - d->z.avail_in;
    *in = span_from(*in, given - d->z.avail_in);
    *out = (struct span){d->room, OUT_BYTES - d->z.avail_out};
    d->ended = z == Z_STREAM_END;
    if (z == Z_OK || z == Z_STREAM_END || z == Z_BUF_ERROR)
        return ERR_OK;
    return err_set(eb, ERR_BAD_REQUEST, "the compressed data is damaged: %s",
                   d->z.msg != NULL ? d->z.msg : "not deflate");
}

static enum err
lz4_some(struct shard_decoder *d, struct span *in, struct span *out, struct errbuf *eb)
{
    size_t used = in->len, made = OUT_BYTES;
    size_t want = LZ4F_decompress(d->lz4, d->room, &made, in->at, &used, NULL);

    if (LZ4F_isError(want)) {
        if (d->ended && d->in > 0) { /* behind a whole frame: no LZ4 any more */
            d->closed = true;
            *in = span_from(*in, in->len);
            return ERR_OK;
        }
        return err_set(eb, ERR_BAD_REQUEST, "the compressed data is damaged: %s",
                       LZ4F_getErrorName(want));
    }
    assert(used <= in->len);
    assert(made <= OUT_BYTES);
    d->in += used;
    *in = span_from(*in, used);
    *out = (struct span){d->room, made};
    d->ended = want == 0;
    return ERR_OK;
}

enum err
shard_decoder_next(struct shard_decoder *d, struct span *in, struct span *out,
                   struct errbuf *eb)
{
    enum err rc = ERR_OK;
    size_t before;

    *out = (struct span){"", 0};
    do { /* a step may use input without output, or the other way round */
        before = in->len;
        if (d->closed)
            *in = span_from(*in, in->len);
        else if (in->len > 0 || !d->ended)
            rc = d->coding == SHARD_LZ4 ? lz4_some(d, in, out, eb)
                                        : inflate_some(d, in, out, eb);
    } while (rc == ERR_OK && out->len == 0 && in->len > 0 && in->len < before);
    if (rc == ERR_OK && out->len == 0 && in->len > 0)
        return err_set(eb, ERR_BAD_REQUEST,
                       "the compressed data is damaged: no progress");
    d->out += out->len;
    if (rc == ERR_OK && d->out > SHARD_RATIO_FROM && d->out / SHARD_RATIO_MAX > d->in)
        return err_set(eb, ERR_BAD_REQUEST,
                       "%" PRIu64 " bytes expand to more than %" PRIu64
                       ": beyond the limit of %u times",
                       d->in, d->out, SHARD_RATIO_MAX);
    return rc;
}

enum err
shard_decoder_finish(const struct shard_decoder *d, struct errbuf *eb)
{
    if (d->ended || d->closed)
        return ERR_OK;
    return err_set(eb, ERR_INCOMPLETE,
                   "the compressed data ends early, after %" PRIu64 " bytes", d->in);
}
