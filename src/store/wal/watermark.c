#include "store/wal/watermark.h"

#include <assert.h>
#include <endian.h>
#include <stdlib.h>

#include "base/cursor.h"
#include "base/hash.h"
#include "base/log.h"
#include "store/core/core.h"
#include "store/index/suspect.h"
#include "store/record/format.h"
#include "store/wal/wal.h"

#define HEAD_BYTES 64u
#define KEY_BYTES  20u
#define SUM_AT     8u
#define FEW_KEYS   100u /* of earlier batches, where the last one has fewer */
static const char magic[8] = {'F', 'B', 'M', 'A', 'R', 'K', '\0', '\1'};
static_assert(HEAD_BYTES + WATERMARK_KEYS * KEY_BYTES <= WATERMARK_SLOT,
              "a slot holds all keys");
static_assert(WATERMARK_KEYS >= BATCH_RECORDS + FEW_KEYS, "the keys of a batch fit");

struct watermark *
watermark_new(void)
{
    return xcalloc(1, sizeof(struct watermark));
}

void
watermark_free(struct watermark **wp)
{
    struct watermark *w = *wp;

    *wp = NULL;
    if (w == NULL)
        return;
    rt_file_close(&w->file);
    iobuf_drop(&w->buf);
    free(w);
}

/* ---- bytes ---- */

static uint32_t
watermark_sum(const char *bytes, size_t len)
{
    static const char zeros[4];
    uint32_t sum = hash_crc32c(0, bytes, SUM_AT);

    sum = hash_crc32c(sum, zeros, sizeof zeros);
    return hash_crc32c(sum, bytes + SUM_AT + 4, len - SUM_AT - 4);
}

size_t
watermark_encode(const struct watermark *w, char out[WATERMARK_SLOT])
{
    size_t len = HEAD_BYTES + (size_t)w->count * KEY_BYTES;
    char *at = out + HEAD_BYTES;

    assert(w->count <= WATERMARK_KEYS);
    assert(w->whole_from > 0);
    memset(out, 0, HEAD_BYTES);
    memcpy(out, magic, sizeof magic);
    format_put_be(out + 12, w->count, 4);
    format_put_be(out + 16, w->batch, 8);
    format_put_be(out + 24, w->whole_from, 8);
    format_put_be(out + 32, w->version.epoch, 8);
    format_put_be(out + 40, w->version.counter, 8);
    for (uint32_t i = 0; i < w->count; i++, at += KEY_BYTES) {
        uint64_t batch = htobe64(w->keys[i].batch), hash = htobe64(w->keys[i].hash);
        uint32_t bucket = htobe32(w->keys[i].bucket);

        memcpy(at, &batch, sizeof batch); /* of each commit batch: no loop over bytes */
        memcpy(at + 8, &hash, sizeof hash);
        memcpy(at + 16, &bucket, sizeof bucket);
    }
    memset(at, 0, align_up(len, 512) - len);
    format_put_be(out + SUM_AT, watermark_sum(out, len), 4);
    return align_up(len, 512);
}

bool
watermark_decode(struct span bytes, struct watermark *out)
{
    struct cursor c = cursor_of(bytes.at, bytes.len);
    struct span found = take_span(&c, sizeof magic);
    uint32_t sum = (uint32_t)take_be(&c, 4), count = (uint32_t)take_be(&c, 4);
    size_t len = HEAD_BYTES + (size_t)count * KEY_BYTES;

    out->batch = 0;
    out->count = 0;
    if (c.bad || memcmp(found.at, magic, sizeof magic) != 0 || count > WATERMARK_KEYS ||
        len > bytes.len || watermark_sum(bytes.at, len) != sum)
        return false;
    out->batch = take_be(&c, 8);
    out->whole_from = take_be(&c, 8);
    out->version.epoch = take_be(&c, 8);
    out->version.counter = take_be(&c, 8);
    (void)take_span(&c, HEAD_BYTES - 48);
    for (uint32_t i = 0; i < count; i++) {
        struct watermark_key *k = &out->keys[i];

        k->batch = take_be(&c, 8);
        k->hash = take_be(&c, 8);
        k->bucket = (uint32_t)take_be(&c, 4);
    }
    out->count = count;
    return !c.bad && out->whole_from > 0;
}

/* ---- the file ---- */

enum err
watermark_load(struct rt_dir *state, struct watermark *out, struct errbuf *eb)
{
    struct watermark *other = watermark_new();
    char *bytes = NULL;
    size_t len = 0;
    enum err rc =
        rt_file_load(state, WATERMARK_FILE, 2 * WATERMARK_SLOT, &bytes, &len, eb);

    for (unsigned i = 0; rc == ERR_OK && i < 2; i++) {
        size_t at = (size_t)i * WATERMARK_SLOT;

        if (at >= len ||
            !watermark_decode(
                (struct span){bytes + at, MIN(len - at, (size_t)WATERMARK_SLOT)},
                other) ||
            other->batch < out->batch)
            continue;
        assert(out->file == NULL);
        *out = *other;
    }
    free(bytes);
    watermark_free(&other);
    return rc == ERR_NOT_FOUND || rc == ERR_TOO_LARGE ? ERR_OK : rc;
}

static enum err
write_slot(struct store *d, unsigned slot, struct errbuf *eb)
{
    struct watermark *w = d->wals->mark;
    size_t len = watermark_encode(w, w->buf->at);

    return rt_write(w->file, (uint64_t)slot * WATERMARK_SLOT, w->buf, 0, (uint32_t)len,
                    RT_WRITE, eb);
}

enum err
watermark_begin(struct store *d, uint64_t batch, struct errbuf *eb)
{
    struct watermark *w = d->wals->mark;
    enum err rc =
        rt_open(d->state, WATERMARK_FILE, RT_O_WRITE | RT_O_CREATE, 0600, &w->file, eb);

    assert(on_owner(d));
    assert(!d->read_only);
    w->batch = batch;
    w->whole_from = batch + 1;
    w->count = 0;
    w->version = version_latest(d);
    if (rc == ERR_OK)
        rc = iobuf_get_beyond(WATERMARK_SLOT, &w->buf);
    for (unsigned i = 0; rc == ERR_OK && i < 2; i++)
        rc = write_slot(d, i, eb);
    if (rc == ERR_OK)
        rc = rt_sync(w->file, eb);
    if (rc == ERR_OK)
        return rt_dir_sync(d->state, eb);
    rt_file_close(&w->file);
    if (rc != ERR_NO_SPACE && rc != ERR_BUSY)
        return rc;
    err_forget(eb);
    return ERR_OK; /* a full disk: as if it were not there */
}

void
watermark_add(struct watermark *w, uint64_t batch, struct span keys)
{
    uint32_t count = (uint32_t)(keys.len / SUSPECT_ENTRY_BYTES), most, drop;

    assert(keys.len % SUSPECT_ENTRY_BYTES == 0);
    assert(count <= BATCH_RECORDS);
    most = MAX(FEW_KEYS, count);
    drop = w->count + count > most ? MIN(w->count, w->count + count - most) : 0;
    if (drop > 0) {
        w->whole_from = w->keys[drop - 1].batch + 1;
        memmove(w->keys, w->keys + drop, (w->count - drop) * sizeof w->keys[0]);
        w->count -= drop;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct watermark_key *k = &w->keys[w->count++];

        k->batch = batch;
        suspect_get(keys.at + (size_t)i * SUSPECT_ENTRY_BYTES, &k->hash, &k->bucket);
    }
    assert(w->count <= WATERMARK_KEYS);
}

void
watermark_write(struct store *d, uint64_t batch)
{
    struct watermark *w = d->wals->mark;
    struct errbuf eb = {0};

    assert(on_owner(d));
    assert(batch >= w->batch);
    if (w->file == NULL)
        return;
    w->batch = batch;
    w->version = version_latest(d);
    if (write_slot(d, (unsigned)(batch % 2), &eb) == ERR_OK || w->failed)
        return;
    w->failed = true;
    LOG(LOG_WARN, "store.watermark_not_written",
        "damage at the end of the log would not be noticed",
        L_TEXT("disk", rt_dir_path(d->root)), L_TEXT("error", eb.text));
}

bool
watermark_knows(const struct watermark *w, uint64_t batch)
{
    return batch >= w->whole_from && batch <= w->batch;
}
