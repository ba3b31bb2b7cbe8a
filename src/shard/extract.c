/* extract: the bytes of one entry of a tar or zip; see internal.h. */
#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/mem.h"
#include "shard/internal.h"
#include "shard/zip.h"

static enum err PRINTF(3, 4)
    extract_bad(const struct shard_extract *x, struct errbuf *eb, const char *fmt, ...)
{
    char what[160];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return err_set(eb, ERR_BAD_REQUEST, "member \"%.*s\": %s", (int)MIN(x->name.len, 150),
                   x->name.at, what);
}

static enum err
extract_refill(struct shard_extract *x, struct errbuf *eb)
{
    enum err rc;

    assert(x->raw.len == 0);
    rc = x->in->next(x->in, &x->raw, eb);
    if (rc == ERR_OK && x->raw.len == 0)
        rc = extract_bad(x, eb, "the archive ends inside it");
    return rc;
}

/* Reads the local header in front of the data, and leaves the rest of the piece in `raw`. */
static enum err
extract_local_header(struct shard_extract *x, struct errbuf *eb)
{
    size_t want = ZIP_LOCAL_MIN + x->name.len;
    uint64_t data = 0, skip;
    struct buf head;
    enum err rc = ERR_OK;

    buf_init(&head, want);
    while (rc == ERR_OK && head.len < want) {
        size_t n;

        if (x->raw.len == 0)
            rc = extract_refill(x, eb);
        n = MIN(x->raw.len, want - head.len);
        buf_put(&head, x->raw.at, n);
        x->raw = span_from(x->raw, n);
    }
    if (rc == ERR_OK)
        rc = zip_local_parse(buf_span(&head), x->name, &data, eb);
    skip = data - (rc == ERR_OK ? want : data);
    while (rc == ERR_OK && skip > 0) {
        size_t n;

        if (x->raw.len == 0)
            rc = extract_refill(x, eb);
        n = (size_t)MIN((uint64_t)x->raw.len, skip);
        x->raw = span_from(x->raw, n);
        skip -= n;
    }
    buf_fini(&head);
    return rc;
}

static enum err
extract_begin_zip(struct shard_extract *x, struct errbuf *eb)
{
    /* The length of the local header is known once it is read: at most this. */
    uint64_t most = ZIP_LOCAL_MIN + x->name.len + 65535u + x->entry.stored;
    enum err rc = x->in->begin(x->in, x->entry.offset,
                               MIN(most, x->in->size - x->entry.offset), eb);

    if (rc == ERR_OK)
        rc = extract_local_header(x, eb);
    if (rc == ERR_OK && x->entry.method == ZIP_DEFLATED)
        rc = shard_decoder_new(SHARD_DEFLATE, &x->decoder, eb);
    return rc;
}

enum err
extract_begin(struct shard_extract *x, struct shard_input *in,
              const struct shard_index *ix, const struct shard_entry *e, uint64_t first,
              uint64_t len, struct errbuf *eb)
{
    assert(first <= e->size);
    assert(len <= e->size - first);
    *x = (struct shard_extract){.in = in,
                                .entry = *e,
                                .name = shard_entry_name(ix, e),
                                .raw_left = e->stored,
                                .left = len,
                                .skip = first,
                                .is_zip = ix->format == SHARD_ZIP};
    if (x->is_zip)
        return extract_begin_zip(x, eb);
    assert(e->stored == e->size && e->offset <= in->size);
    x->raw_left = len;
    x->skip = 0;
    return in->begin(in, e->offset + first, len, eb);
}

/* The next bytes of the member, wherever the range is. */
static enum err
extract_decoded(struct shard_extract *x, struct span *out, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    *out = (struct span){"", 0};
    while (rc == ERR_OK && out->len == 0) {
        struct span given;
        size_t before;

        if (x->raw.len == 0 && x->raw_left > 0)
            rc = extract_refill(x, eb);
        if (rc != ERR_OK)
            break;
        given = x->raw;
        given.len = (size_t)MIN((uint64_t)given.len, x->raw_left);
        before = given.len;
        if (x->decoder == NULL) {
            *out = given;
            given.len = 0;
        } else {
            rc = shard_decoder_next(x->decoder, &given, out, eb);
        }
        x->raw = span_from(x->raw, before - given.len);
        x->raw_left -= before - given.len;
        if (rc == ERR_OK && out->len == 0 && x->raw_left == 0)
            return extract_bad(
                x, eb, "its data ends %" PRIu64 " bytes before its size of %" PRIu64,
                x->entry.size - x->made, x->entry.size);
    }
    if (rc == ERR_OK && out->len > x->entry.size - x->made)
        return extract_bad(x, eb, "its data is longer than its size of %" PRIu64,
                           x->entry.size);
    if (rc == ERR_BAD_REQUEST)
        err_prefix(eb, "member \"%.*s\"", (int)MIN(x->name.len, 150), x->name.at);
    return rc;
}

/* After the last byte: a zip has a sum over all of them. */
static enum err
extract_check_sum(const struct shard_extract *x, struct errbuf *eb)
{
    if (!x->is_zip || x->made < x->entry.size || x->crc == x->entry.crc)
        return ERR_OK;
    return extract_bad(x, eb, "its CRC-32 is %08x, the directory says %08x",
                       (unsigned)x->crc, (unsigned)x->entry.crc);
}

enum err
extract_next(struct shard_extract *x, struct span *piece, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    *piece = (struct span){"", 0};
    while (rc == ERR_OK && x->left > 0 && piece->len == 0) {
        size_t n;

        if (!x->is_zip) {
            rc = x->in->next(x->in, piece, eb);
            if (rc == ERR_OK && piece->len == 0)
                return extract_bad(x, eb, "the archive ends inside it");
        } else {
            rc = extract_decoded(x, piece, eb);
            if (rc == ERR_OK) {
                x->crc = hash_crc32(x->crc, piece->at, piece->len);
                x->made += piece->len;
                rc = extract_check_sum(x, eb);
            }
        }
        if (rc != ERR_OK)
            break;
        n = (size_t)MIN((uint64_t)piece->len, x->skip);
        *piece = span_from(*piece, n);
        x->skip -= n;
        piece->len = (size_t)MIN((uint64_t)piece->len, x->left);
        x->left -= piece->len;
    }
    if (rc != ERR_OK)
        *piece = (struct span){"", 0};
    return rc;
}

void
extract_end(struct shard_extract *x)
{
    shard_decoder_free(&x->decoder);
}
