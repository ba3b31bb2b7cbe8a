/* The readers of store_read.h: metadata, and bodies piece by piece. */

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/account.h"
#include "base/metrics.h"
#include "store/core/core.h"
#include "store/index/lookup_cache.h"
#include "store/index/memtable.h"
#include "store/record/block.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/record/manifest.h"
#include "store/segment/block_cache.h"
#include "store/segment/read.h"
#include "store/segment/reading.h"
#include "store/store_entry.h"
#include "store/store_read.h"

#define READAHEAD_BUFFERS                                                                \
    MIB(64) /* used by all readers: above this there is no read-ahead */

struct readahead {
    struct rt_group batch;
    struct iobuf *buf;
    uint64_t from, len, have; /* of the body */
    uint32_t skip;
    enum err rc;
    bool busy; /* started, not taken */
};

struct store_reader {
    struct store *disk;
    struct entry entry; /* the object, or the part, being read */
    uint64_t pos, end;
    uint64_t bucket;
    char *key; /* owned */
    size_t key_len;

    /* Holds the memory of the last pieces returned. */
    struct block_cache_pin pin, more[STORE_READ_MORE];
    unsigned more_count;
    struct iobuf *piece;

    /* A log record: read once, whole. */
    struct loaded record;
    bool loaded;

    /* A body. */
    struct read_file file;
    bool opened;
    struct sums sums;
    struct readahead readahead;

    /* A multipart object. */
    struct manifest manifest;
    struct store_reader *part;  /* owned */
    struct store_reader *whole; /* of a part: the reader of the object */
    struct reading reading;     /* of a body, or of a multipart object */
};

/* Asserts the invariants of a reader that hold between two pieces. */
static void
reader_check(const struct store_reader *r)
{
    assert(r->disk != NULL);
    assert(r->pos <= r->end);
    assert(r->end <= r->entry.size);
    assert(r->more_count <= STORE_READ_MORE);
    assert(r->pin.at != NULL || r->more_count == 0);
    assert(r->pin.at == NULL || r->piece == NULL);
    assert(r->part == NULL || r->part->whole == r);
    assert(r->whole == NULL || r->part == NULL);
}

/* ---- relocation during a read ---- */

static struct span
key_of(const struct store_reader *r)
{
    return (struct span){r->key, r->key_len};
}

/* Loads the manifest again, which was rewritten because a part was moved. */
static enum err
part_again(struct store_reader *r, struct errbuf *eb)
{
    struct store_reader *w = r->whole;
    struct manifest m;
    enum err rc = read_relookup(w->disk, w->bucket, key_of(w), &w->entry, eb);

    if (rc == ERR_OK)
        rc = manifest_load(w->disk, &w->entry, &m, eb);
    if (rc != ERR_OK)
        return rc;
    manifest_fini(&w->manifest);
    w->manifest = m;
    rc = ERR_NOT_FOUND;
    for (uint32_t i = 0; rc == ERR_NOT_FOUND && i < m.count; i++) {
        const struct manifest_entry *e = &m.entries[i];

        if (!content_eq(&e->content, &r->entry.content))
            continue;
        rc = e->segment == r->entry.place.segment && e->offset == r->entry.place.offset
                 ? ERR_CORRUPT
                 : ERR_OK;
        r->entry.place.segment = e->segment;
        r->entry.place.offset = e->offset;
    }
    return rc;
}

/* Handles `rc`, the result of reading the place. ERR_OK: the place is another one now, try
 * again; else the final result. */
static enum err
reader_relookup(struct store_reader *r, enum err rc, uint64_t block, struct errbuf *eb)
{
    if (rc != ERR_CORRUPT && rc != ERR_NOT_FOUND)
        return rc;
    rc = r->whole != NULL ? part_again(r, eb)
                          : read_relookup(r->disk, r->bucket, key_of(r), &r->entry, eb);
    return rc == ERR_CORRUPT ? read_damage(r->disk, &r->entry, block, eb) : rc;
}

/* ---- metadata ---- */

static enum err
reader_check_key(const struct log_record *m, uint64_t bucket, struct span key)
{
    return m->bucket == bucket && span_eq(m->key, key) ? ERR_OK : ERR_CORRUPT;
}

/* Reads the header of a body at its place, or (behind) that of its sums. */
static enum err
load_body_head(struct rt_file *f, const struct entry *entry, bool behind,
               struct loaded *out, struct errbuf *eb)
{
    uint64_t from = behind ? body_payload(entry) + align_up(entry->size, 512)
                           : entry->place.offset,
             have;
    uint64_t len = behind ? HEAD_MAX : BODY_HEAD;
    uint32_t skip;
    size_t need;
    enum err rc = read_span(f, from, len, DEADLINE_NEVER, &out->buf, &skip, &have, eb);

    if (rc != ERR_OK)
        return rc;
    if (log_record_parse((struct span){out->buf->at + skip, have}, &out->m, &need, eb) !=
            LOG_RECORD_OK ||
        out->m.kind != (behind ? LOG_RECORD_SUMS : LOG_RECORD_BODY) ||
        out->m.segment != entry->place.segment || out->m.offset != from ||
        !content_eq(&out->m.content, &entry->content))
        return ERR_CORRUPT;
    return ERR_OK;
}

static enum err
body_meta(struct store *d, const struct store_key *k, const struct entry *entry,
          struct arena *a, struct object_meta *out, struct errbuf *eb)
{
    struct read_file f;
    struct loaded l = {0};
    enum err rc = read_file_open(d, entry, &f, eb);

    if (rc == ERR_OK)
        rc = load_body_head(read_file_of(&f), entry, false, &l, eb);
    if (rc == ERR_OK)
        rc = reader_check_key(&l.m, k->bucket, k->key);
    if (rc == ERR_OK && l.m.meta_behind) {
        loaded_fini(&l);
        rc = load_body_head(read_file_of(&f), entry, true, &l, eb);
    }
    if (rc == ERR_OK)
        rc = log_record_meta(&l.m, a, true, out, eb);
    loaded_fini(&l);
    read_file_close(&f);
    return rc;
}

static enum err
meta_of(struct store *d, const struct store_key *k, const struct entry *entry,
        struct arena *a, struct object_meta *out, struct errbuf *eb)
{
    struct entry at = *entry;
    struct loaded l;
    enum err rc;

    if ((entry->flags & ENTRY_META_APART) != 0) {
        at.flags = ENTRY_INLINE;
        at.place.segment = entry->place.meta_segment;
        at.place.offset = entry->place.meta_offset;
    } else if ((entry->flags & ENTRY_INLINE) == 0) {
        return body_meta(d, k, entry, a, out, eb);
    }
    rc = read_log_record_quiet(d, &at, false, &l, eb);
    if (rc != ERR_OK)
        return rc;
    rc = reader_check_key(&l.m, k->bucket, k->key);
    if (rc == ERR_OK)
        rc = log_record_meta(&l.m, a, true, out, eb);
    loaded_fini(&l);
    return rc;
}

enum err
store_meta(struct store *d, const struct store_key *k, const struct entry *entry,
           struct arena *a, struct object_meta *out, struct errbuf *eb)
{
    struct entry at = *entry;
    enum err rc = ERR_OK;

    *out = (struct object_meta){0};
    if (entry->place.segment == 0)
        return err_set(eb, ERR_NOT_FOUND, "there is no object, only a write in doubt");
    for (;;) {
        rc = meta_of(d, k, &at, a, out, eb);
        if (rc != ERR_CORRUPT && rc != ERR_NOT_FOUND)
            return rc;
        /* It may have moved meanwhile. */
        rc = read_relookup(d, k->bucket, k->key, &at, eb);
        if (rc != ERR_OK)
            return rc == ERR_CORRUPT ? read_damage(d, &at, 0, eb) : rc;
    }
}

/* ---- bodies ---- */

/* Opens the file now, so that it stays readable even if the object is deleted meanwhile. */
static enum err
open_entry(struct store_reader *r, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    r->reading.segment = r->entry.place.segment;
    r->reading.offset = r->entry.place.offset;
    if ((r->entry.flags & ENTRY_PARTS) != 0) {
        r->reading.segment = 0;
        r->reading.manifest = &r->manifest;
        rc = manifest_load_quiet(r->disk, &r->entry, &r->manifest, eb);
    } else {
        rc = read_file_open(r->disk, &r->entry, &r->file, eb);
        r->opened = rc == ERR_OK;
    }
    return rc;
}

static enum err
reader_begin(struct store *d, const struct store_key *k, const struct entry *entry,
             uint64_t offset, uint64_t len, struct store_reader *whole,
             struct store_reader **out, struct errbuf *eb)
{
    struct store_reader *r;
    enum err rc = ERR_OK;

    assert(offset + len <= entry->size || len == 0);
    assert(k->key.len > 0);
    *out = NULL;
    if (offset > entry->size || len > entry->size - offset)
        return err_set(eb, ERR_RANGE, "bytes %" PRIu64 " to %" PRIu64 " of %" PRIu64,
                       offset, offset + len, entry->size);
    r = xcalloc(1, sizeof *r);
    r->disk = d;
    r->entry = *entry;
    r->pos = offset;
    r->end = offset + len;
    r->bucket = k->bucket;
    r->key = xmemdup0(k->key.at, k->key.len);
    r->key_len = k->key.len;
    r->whole = whole;
    if ((entry->flags & ENTRY_PARTS) != 0 ? len > 0
                                          : (entry->flags & ENTRY_INLINE) == 0) {
        reading_begin(d, &r->reading);
        do {
            rc = open_entry(r, eb);
        } while (rc != ERR_OK && (rc = reader_relookup(r, rc, 0, eb)) == ERR_OK);
    }
    if (rc != ERR_OK) {
        store_read_end(&r);
        return rc;
    }
    *out = r;
    return ERR_OK;
}

enum err
store_read_begin(struct store *d, const struct store_key *k, const struct entry *entry,
                 uint64_t offset, uint64_t len, struct store_reader **out,
                 struct errbuf *eb)
{
    return reader_begin(d, k, entry, offset, len, NULL, out, eb);
}

static void reader_stop_readahead(struct store_reader *r);

static void
release_piece(struct store_reader *r)
{
    block_cache_unpin(r->disk->block_cache, &r->pin);
    block_cache_unpin_more(r->disk->block_cache, r->more, r->more_count);
    r->more_count = 0;
    iobuf_drop(&r->piece);
}

void
store_read_end(struct store_reader **rp)
{
    struct store_reader *r = *rp;

    *rp = NULL;
    if (r == NULL)
        return;
    store_read_end(&r->part);
    reading_end(&r->reading);
    reader_stop_readahead(r);
    release_piece(r);
    loaded_fini(&r->record);
    sums_fini(&r->sums);
    if (r->opened)
        read_file_close(&r->file);
    manifest_fini(&r->manifest);
    free(r->key);
    free(r);
}

static void
reader_give(struct store_reader *r, const char *at, uint64_t at_offset, uint64_t len,
            struct span *piece)
{
    uint64_t n = MIN(r->end, at_offset + len) - r->pos;

    *piece = (struct span){at + (r->pos - at_offset), n};
    r->pos += n;
}

static enum err
reader_next_of_record(struct store_reader *r, struct span *piece, struct errbuf *eb)
{
    const struct content_id *id = &r->entry.content;
    enum err rc;

    while (!r->loaded) {
        bool wanted = block_cache_wants(r->disk->block_cache, id, 0);

        rc = read_log_record_quiet(r->disk, &r->entry, true, &r->record, eb);
        if (rc == ERR_OK &&
            (r->record.m.payload != r->entry.size ||
             reader_check_key(&r->record.m, r->bucket, key_of(r)) != ERR_OK)) {
            loaded_fini(&r->record);
            rc = ERR_CORRUPT;
        }
        if (rc != ERR_OK) {
            rc = reader_relookup(r, rc, 0, eb);
            if (rc != ERR_OK)
                return rc;
            continue;
        }
        r->loaded = true;
        if (wanted)
            block_cache_add(r->disk->block_cache, id, 0, r->record.m.body.at,
                            (uint32_t)r->record.m.payload);
    }
    reader_give(r, r->record.m.body.at, 0, r->entry.size, piece);
    return ERR_OK;
}

/* Reads the next piece in a fiber of its own while a sequential reader sends this one. The piece
 * is verified when it is taken. */
static void
reader_read_readahead(void *arg)
{
    struct store_reader *r = arg;
    struct readahead *a = &r->readahead;

    a->rc = read_span(read_file_of(&r->file), body_payload(&r->entry) + a->from, a->len,
                      DEADLINE_NEVER, &a->buf, &a->skip, &a->have, NULL);
}

static void
reader_start_readahead(struct store_reader *r)
{
    struct readahead *a = &r->readahead;

    if (r->pos == r->end || account_tight() != 0 || iobuf_in_use() > READAHEAD_BUFFERS)
        return;
    a->from = r->pos; /* a piece ends where the next one begins */
    a->len = MIN(align_up(r->end, BLOCK_BYTES), r->entry.size) - a->from;
    a->len = MIN(a->len, (uint64_t)BLOCK_CACHE_PIECE);
    rt_group_begin(&a->batch);
    a->busy = rt_group_start(&a->batch, reader_read_readahead, r) == ERR_OK;
    if (!a->busy)
        rt_group_join(&a->batch);
}

static void
reader_stop_readahead(struct store_reader *r)
{
    if (!r->readahead.busy)
        return;
    rt_group_cancel(&r->readahead.batch);
    rt_group_join(&r->readahead.batch);
    iobuf_drop(&r->readahead.buf);
    r->readahead.busy = false;
}

/* Takes the read-ahead piece if it matches; false: read it. */
static bool
reader_take_readahead(struct store_reader *r, uint64_t from, uint64_t len, uint32_t *skip,
                      uint64_t *have)
{
    struct readahead *a = &r->readahead;

    assert(len > 0);
    if (!a->busy)
        return false;
    if (a->from != from || a->len != len) {
        reader_stop_readahead(r);
        return false;
    }
    rt_group_join(&a->batch);
    a->busy = false;
    if (a->rc != ERR_OK)
        return false;
    r->piece = a->buf;
    a->buf = NULL;
    *skip = a->skip;
    *have = a->have;
    return true;
}

/* Reads bytes [from, from + len) of the body, whole blocks, verified, into r->piece.
 * ERR_CORRUPT: *bad is the first wrong block. */
static enum err
load_blocks(struct store_reader *r, uint64_t from, uint64_t len, struct deadline by,
            const char **out, uint64_t *bad, struct errbuf *eb)
{
    struct rt_file *f = read_file_of(&r->file);
    uint64_t first = from / BLOCK_BYTES, have = 0;
    const char *sums;
    uint32_t skip = 0;
    enum err rc = sums_get(f, &r->entry, first, block_count(len), &r->sums, &sums, eb);

    *bad = first;
    if (rc == ERR_OK && !reader_take_readahead(r, from, len, &skip, &have))
        rc = read_span(f, body_payload(&r->entry) + from, len, by, &r->piece, &skip,
                       &have, eb);
    if (rc == ERR_OK && have < len)
        rc = ERR_CORRUPT;
    if (rc == ERR_OK)
        rc = block_check(block_seed(r->disk->cluster_sum, &r->entry.content, 0), first,
                         r->piece->at + skip, len, sums, bad);
    if (rc != ERR_OK) {
        iobuf_drop(&r->piece);
        return rc;
    }
    *out = r->piece->at + skip;
    return ERR_OK;
}

/* Opens the body at its new place. */
static enum err
reader_reopen(struct store_reader *r, struct errbuf *eb)
{
    reader_stop_readahead(r);
    sums_fini(&r->sums);
    read_file_close(&r->file);
    r->opened = false;
    return open_entry(r, eb);
}

static enum err
next_of_body(struct store_reader *r, struct deadline by, struct span *piece,
             struct errbuf *eb)
{
    uint64_t number = r->pos / BLOCK_CACHE_PIECE, piece_at = number * BLOCK_CACHE_PIECE;
    uint64_t piece_end = MIN(piece_at + BLOCK_CACHE_PIECE, r->entry.size);
    bool wanted = block_cache_wants(r->disk->block_cache, &r->entry.content, number);
    uint64_t from = wanted ? piece_at : align_down(r->pos, BLOCK_BYTES);
    uint64_t to = wanted
                      ? piece_end
                      : MIN(align_up(MIN(r->end, piece_end), BLOCK_BYTES), r->entry.size);
    const char *at = NULL;
    uint64_t bad;
    enum err rc = load_blocks(r, from, to - from, by, &at, &bad, eb);

    while (rc != ERR_OK) {
        rc = reader_relookup(r, rc, bad, eb);
        if (rc != ERR_OK)
            return rc;
        rc = reader_reopen(r, eb);
        if (rc == ERR_OK)
            rc = load_blocks(r, from, to - from, by, &at, &bad, eb);
    }
    if (wanted)
        block_cache_add(r->disk->block_cache, &r->entry.content, number, at,
                        (uint32_t)(to - from));
    reader_give(r, at, from, to - from, piece);
    reader_start_readahead(r);
    return ERR_OK;
}

/* ---- multipart objects ---- */

static enum err
open_part(struct store_reader *r, struct errbuf *eb)
{
    const struct manifest_entry *e = NULL;
    struct store_key k = {.bucket = r->bucket, .key = {r->key, r->key_len}};
    uint32_t low = 0, high = r->manifest.count;
    struct entry entry;

    while (
        low <
        high) { /* the last part that begins at or before pos; empty ones are passed over */
        uint32_t middle = low + (high - low) / 2;

        if (r->manifest.entries[middle].at <= r->pos)
            low = middle + 1;
        else
            high = middle;
    }
    if (low > 0)
        e = &r->manifest.entries[low - 1];
    if (e == NULL || r->pos >= e->at + e->size)
        return read_damage(r->disk, &r->entry, 0, eb);
    entry = (struct entry){.flags = (r->entry.flags & ENTRY_CACHED) |
                                    (e->in_log ? ENTRY_INLINE : 0),
                           .content = e->content,
                           .size = e->size,
                           .place.segment = e->segment,
                           .place.offset = e->offset};
    return reader_begin(r->disk, &k, &entry, r->pos - e->at,
                        MIN(r->end, e->at + e->size) - r->pos, r, &r->part, eb);
}

static enum err
next_of_parts(struct store_reader *r, struct deadline by, struct span *piece,
              struct errbuf *eb)
{
    enum err rc;

    do {
        rc = r->part == NULL ? open_part(r, eb) : ERR_OK;
        if (rc == ERR_OK)
            rc = store_read_next(r->part, by, piece, eb);
        if (rc != ERR_OK)
            return rc;
        if (piece->len == 0)
            store_read_end(&r->part);
    } while (piece->len == 0);
    r->pos += piece->len;
    return ERR_OK;
}

enum err
store_read_next(struct store_reader *r, struct deadline by, struct span *piece,
                struct errbuf *eb)
{
    uint64_t number = r->pos / BLOCK_CACHE_PIECE;

    reader_check(r);
    *piece = (struct span){"", 0};
    release_piece(r);
    if (r->pos == r->end)
        return ERR_OK;
    if ((r->entry.flags & ENTRY_PARTS) != 0)
        return next_of_parts(r, by, piece, eb);
    if (!r->loaded &&
        block_cache_get(r->disk->block_cache, &r->entry.content, number, &r->pin)) {
        reader_give(r, r->pin.at, number * BLOCK_CACHE_PIECE, r->pin.len, piece);
        return ERR_OK;
    }
    return (r->entry.flags & ENTRY_INLINE) != 0 ? reader_next_of_record(r, piece, eb)
                                                : next_of_body(r, by, piece, eb);
}

unsigned
store_read_more(struct store_reader *r, struct span *pieces, unsigned max)
{
    uint64_t left = (r->end - r->pos + BLOCK_CACHE_PIECE - 1) / BLOCK_CACHE_PIECE;
    unsigned n = 0;

    assert(max <= STORE_READ_MORE);
    assert(r->more_count == 0);
    if (r->part != NULL) {
        n = store_read_more(r->part, pieces, max);
        for (unsigned i = 0; i < n; i++)
            r->pos += pieces[i].len;
        return n;
    }
    if (r->pin.at == NULL || left == 0)
        return 0;
    r->more_count = block_cache_get_more(r->disk->block_cache, &r->entry.content,
                                         r->pos / BLOCK_CACHE_PIECE, r->more,
                                         (unsigned)MIN(left, MIN(max, STORE_READ_MORE)));
    for (; n < r->more_count; n++)
        reader_give(r, r->more[n].at, r->pos, r->more[n].len, &pieces[n]);
    return n;
}

bool
store_read_from_memory(const struct store_reader *r)
{
    return r->part != NULL ? store_read_from_memory(r->part) : r->pin.at != NULL;
}

/* ---- revalidated reads ---- */

bool
store_revalidated_keep(struct store *d, const struct store_key *k,
                       const struct store_reader *r, struct store_revalidated *out)
{
    if (r->pin.at == NULL || (r->entry.flags & ENTRY_PARTS) != 0 ||
        r->entry.size > (1 + STORE_READ_MORE) * BLOCK_CACHE_PIECE ||
        r->end != r->entry.size || r->pos != r->pin.len)
        return false;
    *out = (struct store_revalidated){.content = r->entry.content,
                                      .entry = r->pin.entry,
                                      .len = (uint32_t)r->entry.size,
                                      .at = r->pin.at};
    return lookup_cache_stamp_of(memtable_lookup_cache(d->memtable), k->bucket, k->key,
                                 &r->entry, &out->hash, &out->stamp);
}

static void
reader_hold(struct store_pinned *held, const struct block_cache_pin *pin)
{
    assert(held->count <= STORE_READ_MORE);
    held->pieces[held->count] = (struct span){pin->at, pin->len};
    held->entries[held->count++] = pin->entry;
}

void
store_revalidated_prefetch(struct store *d, const struct store_revalidated *a)
{
    lookup_cache_prefetch(memtable_lookup_cache(d->memtable), a->hash);
    block_cache_prefetch(d->block_cache, a->entry, a->at, a->len);
}

bool
store_revalidated_begin(struct store *d, const struct store_revalidated *a,
                        struct store_pinned *out)
{
    unsigned behind = (a->len - 1) / BLOCK_CACHE_PIECE, got = 0;
    struct block_cache_pin pin, more[STORE_READ_MORE];

    if (!lookup_cache_is_unchanged(memtable_lookup_cache(d->memtable), a->hash,
                                   a->stamp) ||
        !block_cache_get_at(d->block_cache, a->entry, &a->content, 0, &pin))
        return false;
    out->block_cache = d->block_cache;
    out->count = 0;
    out->front = pin.front;
    reader_hold(out, &pin);
    if (behind > 0)
        got = block_cache_get_more(d->block_cache, &a->content, 1, more, behind);
    for (unsigned i = 0; i < got; i++)
        reader_hold(out, &more[i]);
    if (got == behind)
        return true;
    store_revalidated_end(out);
    return false;
}

void
store_revalidated_end(struct store_pinned *held)
{
    struct block_cache_pin pins[1 + STORE_READ_MORE];

    for (unsigned i = 0; i < held->count; i++)
        pins[i] =
            (struct block_cache_pin){held->pieces[i].at, (uint32_t)held->pieces[i].len,
                                     held->entries[i], i == 0 ? held->front : 0};
    if (held->count > 0)
        block_cache_unpin(held->block_cache, &pins[0]);
    if (held->count > 1)
        block_cache_unpin_more(held->block_cache, pins + 1, held->count - 1);
    held->count = 0;
}
