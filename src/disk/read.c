/* The readers of disk_read.h: metadata, and bodies piece by piece. */
#include "disk/read.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/account.h"
#include "base/metrics.h"
#include "disk/block.h"
#include "disk/manifest.h"
#include "disk/reading.h"

#define AHEAD_BUFFERS MIB(64) /* in use by all: beyond, nobody reads ahead */

struct ahead {
    struct rt_group group;
    struct iobuf *buf;
    uint64_t from, len, have; /* of the body */
    uint32_t skip;
    enum err rc;
    bool busy; /* begun, not taken */
};

struct disk_reader {
    struct disk *disk;
    struct row row; /* of what is read: the object, or one part of it */
    uint64_t pos, end;
    uint64_t bucket;
    char *key; /* owned */
    size_t key_len;

    /* What the last piece given out lies in. */
    struct hot_pin pin, more[DISK_MORE];
    unsigned more_count;
    struct iobuf *piece;

    /* A member of a log: read once, whole. */
    struct loaded member;
    bool loaded;

    /* A body. */
    struct read_file file;
    bool opened;
    struct sums sums;
    struct ahead ahead;

    /* An object of parts. */
    struct manifest manifest;
    struct disk_reader *part;  /* owned */
    struct disk_reader *whole; /* of a part: whose it is */
    struct reading reading;    /* of a body, or of an object of parts */
};

/* ---- what compaction moves under a reader ---- */

static struct span
key_of(const struct disk_reader *r)
{
    return (struct span){r->key, r->key_len};
}

/* The manifest of the object was written again, because one of its parts was moved. */
static enum err
part_again(struct disk_reader *r, struct errbuf *eb)
{
    struct disk_reader *w = r->whole;
    struct manifest m;
    enum err rc = read_again(w->disk, w->bucket, key_of(w), &w->row, eb);

    if (rc == ERR_OK)
        rc = manifest_load(w->disk, &w->row, &m, eb);
    if (rc != ERR_OK)
        return rc;
    manifest_fini(&w->manifest);
    w->manifest = m;
    rc = ERR_NOT_FOUND;
    for (uint32_t i = 0; rc == ERR_NOT_FOUND && i < m.count; i++) {
        const struct manifest_entry *e = &m.entries[i];

        if (!content_eq(&e->content, &r->row.content))
            continue;
        rc = e->segment == r->row.segment && e->offset == r->row.offset ? ERR_CORRUPT
                                                                        : ERR_OK;
        r->row.segment = e->segment;
        r->row.offset = e->offset;
    }
    return rc;
}

/* `rc` is what reading said of the place. ERR_OK: it is another place now, try that; else the answer. */
static enum err
look_again(struct disk_reader *r, enum err rc, uint64_t block, struct errbuf *eb)
{
    if (rc != ERR_CORRUPT && rc != ERR_NOT_FOUND)
        return rc;
    rc = r->whole != NULL ? part_again(r, eb)
                          : read_again(r->disk, r->bucket, key_of(r), &r->row, eb);
    return rc == ERR_CORRUPT ? read_damage(r->disk, &r->row, block, eb) : rc;
}

/* ---- metadata ---- */

static enum err
check_key(const struct member *m, uint64_t bucket, struct span key)
{
    return m->bucket == bucket && span_eq(m->key, key) ? ERR_OK : ERR_CORRUPT;
}

/* Header of a body at its place, or (behind) of its sums. */
static enum err
load_body_head(struct rt_file *f, const struct row *row, bool behind, struct loaded *out,
               struct errbuf *eb)
{
    uint64_t from = behind ? body_payload(row) + align_up(row->size, 512) : row->offset,
             have;
    uint64_t len = behind ? HEAD_MAX : BODY_HEAD;
    uint32_t skip;
    size_t need;
    enum err rc = read_span(f, from, len, DEADLINE_NEVER, &out->buf, &skip, &have, eb);

    if (rc != ERR_OK)
        return rc;
    if (member_parse((struct span){out->buf->at + skip, have}, &out->m, &need, eb) !=
            MEMBER_GOOD ||
        out->m.kind != (behind ? MEMBER_SUMS : MEMBER_BODY) ||
        out->m.segment != row->segment || out->m.offset != from ||
        !content_eq(&out->m.content, &row->content))
        return ERR_CORRUPT;
    return ERR_OK;
}

static enum err
body_meta(struct disk *d, const struct disk_key *k, const struct row *row,
          struct arena *a, struct object_meta *out, struct errbuf *eb)
{
    struct read_file f;
    struct loaded l = {0};
    enum err rc = read_file_open(d, row, &f, eb);

    if (rc == ERR_OK)
        rc = load_body_head(read_file_of(&f), row, false, &l, eb);
    if (rc == ERR_OK)
        rc = check_key(&l.m, k->bucket, k->key);
    if (rc == ERR_OK && l.m.meta_behind) {
        loaded_fini(&l);
        rc = load_body_head(read_file_of(&f), row, true, &l, eb);
    }
    if (rc == ERR_OK)
        rc = member_meta(&l.m, a, true, out, eb);
    loaded_fini(&l);
    read_file_close(&f);
    return rc;
}

static enum err
meta_of(struct disk *d, const struct disk_key *k, const struct row *row, struct arena *a,
        struct object_meta *out, struct errbuf *eb)
{
    struct row at = *row;
    struct loaded l;
    enum err rc;

    if ((row->flags & ROW_META_APART) != 0) {
        at.flags = ROW_INLINE;
        at.segment = row->meta_segment;
        at.offset = row->meta_offset;
    } else if ((row->flags & ROW_INLINE) == 0) {
        return body_meta(d, k, row, a, out, eb);
    }
    rc = read_log_member_quiet(d, &at, false, &l, eb);
    if (rc != ERR_OK)
        return rc;
    rc = check_key(&l.m, k->bucket, k->key);
    if (rc == ERR_OK)
        rc = member_meta(&l.m, a, true, out, eb);
    loaded_fini(&l);
    return rc;
}

enum err
disk_meta(struct disk *d, const struct disk_key *k, const struct row *row,
          struct arena *a, struct object_meta *out, struct errbuf *eb)
{
    struct row at = *row;
    enum err rc = ERR_OK;

    *out = (struct object_meta){0};
    if (row->segment == 0)
        return err_set(eb, ERR_NOT_FOUND, "there is no object, only a write in doubt");
    for (;;) {
        rc = meta_of(d, k, &at, a, out, eb);
        if (rc != ERR_CORRUPT && rc != ERR_NOT_FOUND)
            return rc;
        rc = read_again(d, k->bucket, k->key, &at, eb); /* was it moved meanwhile? */
        if (rc != ERR_OK)
            return rc == ERR_CORRUPT ? read_damage(d, &at, 0, eb) : rc;
    }
}

/* ---- bodies ---- */

/* Opened now, so that the file stays although the object may be deleted meanwhile. */
static enum err
open_row(struct disk_reader *r, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    r->reading.segment = r->row.segment;
    r->reading.offset = r->row.offset;
    if ((r->row.flags & ROW_PARTS) != 0) {
        r->reading.segment = 0;
        r->reading.manifest = &r->manifest;
        rc = manifest_load_quiet(r->disk, &r->row, &r->manifest, eb);
    } else {
        rc = read_file_open(r->disk, &r->row, &r->file, eb);
        r->opened = rc == ERR_OK;
    }
    return rc;
}

static enum err
begin(struct disk *d, const struct disk_key *k, const struct row *row, uint64_t offset,
      uint64_t len, struct disk_reader *whole, struct disk_reader **out,
      struct errbuf *eb)
{
    struct disk_reader *r;
    enum err rc = ERR_OK;

    *out = NULL;
    if (offset > row->size || len > row->size - offset)
        return err_set(eb, ERR_RANGE, "bytes %" PRIu64 " to %" PRIu64 " of %" PRIu64,
                       offset, offset + len, row->size);
    r = xcalloc(1, sizeof *r);
    r->disk = d;
    r->row = *row;
    r->pos = offset;
    r->end = offset + len;
    r->bucket = k->bucket;
    r->key = xmemdup0(k->key.at, k->key.len);
    r->key_len = k->key.len;
    r->whole = whole;
    if ((row->flags & ROW_PARTS) != 0 ? len > 0 : (row->flags & ROW_INLINE) == 0) {
        reading_begin(d, &r->reading);
        do {
            rc = open_row(r, eb);
        } while (rc != ERR_OK && (rc = look_again(r, rc, 0, eb)) == ERR_OK);
    }
    if (rc != ERR_OK) {
        disk_read_end(&r);
        return rc;
    }
    *out = r;
    return ERR_OK;
}

enum err
disk_read_begin(struct disk *d, const struct disk_key *k, const struct row *row,
                uint64_t offset, uint64_t len, struct disk_reader **out,
                struct errbuf *eb)
{
    return begin(d, k, row, offset, len, NULL, out, eb);
}

static void stop_ahead(struct disk_reader *r);

static void
release_piece(struct disk_reader *r)
{
    hot_unpin(r->disk->hot, &r->pin);
    hot_unpin_more(r->disk->hot, r->more, r->more_count);
    r->more_count = 0;
    iobuf_drop(&r->piece);
}

void
disk_read_end(struct disk_reader **rp)
{
    struct disk_reader *r = *rp;

    *rp = NULL;
    if (r == NULL)
        return;
    disk_read_end(&r->part);
    reading_end(&r->reading);
    stop_ahead(r);
    release_piece(r);
    loaded_fini(&r->member);
    sums_fini(&r->sums);
    if (r->opened)
        read_file_close(&r->file);
    manifest_fini(&r->manifest);
    free(r->key);
    free(r);
}

static void
give(struct disk_reader *r, const char *at, uint64_t at_offset, uint64_t len,
     struct span *piece)
{
    uint64_t n = MIN(r->end, at_offset + len) - r->pos;

    *piece = (struct span){at + (r->pos - at_offset), n};
    r->pos += n;
}

static enum err
next_of_member(struct disk_reader *r, struct span *piece, struct errbuf *eb)
{
    const struct content_id *id = &r->row.content;
    enum err rc;

    while (!r->loaded) {
        bool wanted = hot_wants(r->disk->hot, id, 0);

        rc = read_log_member_quiet(r->disk, &r->row, true, &r->member, eb);
        if (rc == ERR_OK && (r->member.m.payload != r->row.size ||
                             check_key(&r->member.m, r->bucket, key_of(r)) != ERR_OK)) {
            loaded_fini(&r->member);
            rc = ERR_CORRUPT;
        }
        if (rc != ERR_OK) {
            rc = look_again(r, rc, 0, eb);
            if (rc != ERR_OK)
                return rc;
            continue;
        }
        r->loaded = true;
        if (wanted)
            hot_add(r->disk->hot, id, 0, r->member.m.body.at,
                    (uint32_t)r->member.m.payload);
    }
    give(r, r->member.m.body.at, 0, r->row.size, piece);
    return ERR_OK;
}

/* The next piece of a sequential reader is on its way while he sends this one. A fiber of its own reads it; it is
 * compared with its sums when it is taken. */
static void
read_ahead(void *arg)
{
    struct disk_reader *r = arg;
    struct ahead *a = &r->ahead;

    a->rc = read_span(read_file_of(&r->file), body_payload(&r->row) + a->from, a->len,
                      DEADLINE_NEVER, &a->buf, &a->skip, &a->have, NULL);
}

static void
start_ahead(struct disk_reader *r)
{
    struct ahead *a = &r->ahead;

    if (r->pos == r->end || account_tight() != 0 || iobuf_in_use() > AHEAD_BUFFERS)
        return;
    a->from = r->pos; /* a piece ends where the next one begins */
    a->len = MIN(align_up(r->end, BLOCK_BYTES), r->row.size) - a->from;
    a->len = MIN(a->len, (uint64_t)HOT_PIECE);
    rt_group_begin(&a->group);
    a->busy = rt_group_start(&a->group, read_ahead, r) == ERR_OK;
    if (!a->busy)
        rt_group_join(&a->group);
}

static void
stop_ahead(struct disk_reader *r)
{
    if (!r->ahead.busy)
        return;
    rt_group_cancel(&r->ahead.group);
    rt_group_join(&r->ahead.group);
    iobuf_drop(&r->ahead.buf);
    r->ahead.busy = false;
}

/* Takes what was read ahead when it is this; false: it has to be read. */
static bool
take_ahead(struct disk_reader *r, uint64_t from, uint64_t len, uint32_t *skip,
           uint64_t *have)
{
    struct ahead *a = &r->ahead;

    if (!a->busy)
        return false;
    if (a->from != from || a->len != len) {
        stop_ahead(r);
        return false;
    }
    rt_group_join(&a->group);
    a->busy = false;
    if (a->rc != ERR_OK)
        return false;
    r->piece = a->buf;
    a->buf = NULL;
    *skip = a->skip;
    *have = a->have;
    return true;
}

/* Bytes [from, from + len) of the body, whole blocks, verified, in r->piece. ERR_CORRUPT: *bad is the first wrong one. */
static enum err
load_blocks(struct disk_reader *r, uint64_t from, uint64_t len, struct deadline by,
            const char **out, uint64_t *bad, struct errbuf *eb)
{
    struct rt_file *f = read_file_of(&r->file);
    uint64_t first = from / BLOCK_BYTES, have = 0;
    const char *sums;
    uint32_t skip = 0;
    enum err rc = sums_get(f, &r->row, first, block_count(len), &r->sums, &sums, eb);

    *bad = first;
    if (rc == ERR_OK && !take_ahead(r, from, len, &skip, &have))
        rc = read_span(f, body_payload(&r->row) + from, len, by, &r->piece, &skip, &have,
                       eb);
    if (rc == ERR_OK && have < len)
        rc = ERR_CORRUPT;
    if (rc == ERR_OK)
        rc = block_check(block_seed(r->disk->cluster_sum, &r->row.content, 0), first,
                         r->piece->at + skip, len, sums, bad);
    if (rc != ERR_OK) {
        iobuf_drop(&r->piece);
        return rc;
    }
    *out = r->piece->at + skip;
    return ERR_OK;
}

/* The body has another place now. */
static enum err
reopen(struct disk_reader *r, struct errbuf *eb)
{
    stop_ahead(r);
    sums_fini(&r->sums);
    read_file_close(&r->file);
    r->opened = false;
    return open_row(r, eb);
}

static enum err
next_of_body(struct disk_reader *r, struct deadline by, struct span *piece,
             struct errbuf *eb)
{
    uint64_t number = r->pos / HOT_PIECE, piece_at = number * HOT_PIECE;
    uint64_t piece_end = MIN(piece_at + HOT_PIECE, r->row.size);
    bool wanted = hot_wants(r->disk->hot, &r->row.content, number);
    uint64_t from = wanted ? piece_at : align_down(r->pos, BLOCK_BYTES);
    uint64_t to = wanted
                      ? piece_end
                      : MIN(align_up(MIN(r->end, piece_end), BLOCK_BYTES), r->row.size);
    const char *at = NULL;
    uint64_t bad;
    enum err rc = load_blocks(r, from, to - from, by, &at, &bad, eb);

    while (rc != ERR_OK) {
        rc = look_again(r, rc, bad, eb);
        if (rc != ERR_OK)
            return rc;
        rc = reopen(r, eb);
        if (rc == ERR_OK)
            rc = load_blocks(r, from, to - from, by, &at, &bad, eb);
    }
    if (wanted)
        hot_add(r->disk->hot, &r->row.content, number, at, (uint32_t)(to - from));
    give(r, at, from, to - from, piece);
    start_ahead(r);
    return ERR_OK;
}

/* ---- objects of parts ---- */

static enum err
open_part(struct disk_reader *r, struct errbuf *eb)
{
    const struct manifest_entry *e = NULL;
    struct disk_key k = {.bucket = r->bucket, .key = {r->key, r->key_len}};
    uint32_t low = 0, high = r->manifest.count;
    struct row row;

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
        return read_damage(r->disk, &r->row, 0, eb);
    row =
        (struct row){.flags = (r->row.flags & ROW_CACHED) | (e->in_log ? ROW_INLINE : 0),
                     .content = e->content,
                     .size = e->size,
                     .segment = e->segment,
                     .offset = e->offset};
    return begin(r->disk, &k, &row, r->pos - e->at, MIN(r->end, e->at + e->size) - r->pos,
                 r, &r->part, eb);
}

static enum err
next_of_parts(struct disk_reader *r, struct deadline by, struct span *piece,
              struct errbuf *eb)
{
    enum err rc;

    do {
        rc = r->part == NULL ? open_part(r, eb) : ERR_OK;
        if (rc == ERR_OK)
            rc = disk_read_next(r->part, by, piece, eb);
        if (rc != ERR_OK)
            return rc;
        if (piece->len == 0)
            disk_read_end(&r->part);
    } while (piece->len == 0);
    r->pos += piece->len;
    return ERR_OK;
}

enum err
disk_read_next(struct disk_reader *r, struct deadline by, struct span *piece,
               struct errbuf *eb)
{
    uint64_t number = r->pos / HOT_PIECE;

    *piece = (struct span){"", 0};
    release_piece(r);
    if (r->pos == r->end)
        return ERR_OK;
    if ((r->row.flags & ROW_PARTS) != 0)
        return next_of_parts(r, by, piece, eb);
    if (!r->loaded && hot_get(r->disk->hot, &r->row.content, number, &r->pin)) {
        give(r, r->pin.at, number * HOT_PIECE, r->pin.len, piece);
        return ERR_OK;
    }
    return (r->row.flags & ROW_INLINE) != 0 ? next_of_member(r, piece, eb)
                                            : next_of_body(r, by, piece, eb);
}

unsigned
disk_read_more(struct disk_reader *r, struct span *pieces, unsigned max)
{
    uint64_t left = (r->end - r->pos + HOT_PIECE - 1) / HOT_PIECE;
    unsigned n = 0;

    assert(r->more_count == 0);
    if (r->part != NULL) {
        n = disk_read_more(r->part, pieces, max);
        for (unsigned i = 0; i < n; i++)
            r->pos += pieces[i].len;
        return n;
    }
    if (r->pin.at == NULL || left == 0)
        return 0;
    r->more_count = hot_get_more(r->disk->hot, &r->row.content, r->pos / HOT_PIECE,
                                 r->more, (unsigned)MIN(left, MIN(max, DISK_MORE)));
    for (; n < r->more_count; n++)
        give(r, r->more[n].at, r->pos, r->more[n].len, &pieces[n]);
    return n;
}

bool
disk_read_was_hot(const struct disk_reader *r)
{
    return r->part != NULL ? disk_read_was_hot(r->part) : r->pin.at != NULL;
}

/* ---- once more ---- */

bool
disk_again_keep(struct disk *d, const struct disk_key *k, const struct disk_reader *r,
                struct disk_again *out)
{
    if (r->pin.at == NULL || (r->row.flags & ROW_PARTS) != 0 ||
        r->row.size > (1 + DISK_MORE) * HOT_PIECE || r->end != r->row.size ||
        r->pos != r->pin.len)
        return false;
    *out = (struct disk_again){.content = r->row.content,
                               .entry = r->pin.entry,
                               .len = (uint32_t)r->row.size,
                               .at = r->pin.at};
    return recent_stand(tail_recent(d->tail), k->bucket, k->key, &r->row, &out->hash,
                        &out->stamp);
}

static void
hold(struct disk_held *held, const struct hot_pin *pin)
{
    held->pieces[held->count] = (struct span){pin->at, pin->len};
    held->entries[held->count++] = pin->entry;
}

void
disk_again_ahead(struct disk *d, const struct disk_again *a)
{
    recent_ahead(tail_recent(d->tail), a->hash);
    hot_ahead(d->hot, a->entry, a->at, a->len);
}

bool
disk_again_begin(struct disk *d, const struct disk_again *a, struct disk_held *out)
{
    unsigned behind = (a->len - 1) / HOT_PIECE, got = 0;
    struct hot_pin pin, more[DISK_MORE];

    if (!recent_stands(tail_recent(d->tail), a->hash, a->stamp) ||
        !hot_get_at(d->hot, a->entry, &a->content, 0, &pin))
        return false;
    out->hot = d->hot;
    out->count = 0;
    out->front = pin.front;
    hold(out, &pin);
    if (behind > 0)
        got = hot_get_more(d->hot, &a->content, 1, more, behind);
    for (unsigned i = 0; i < got; i++)
        hold(out, &more[i]);
    if (got == behind)
        return true;
    disk_again_end(out);
    return false;
}

void
disk_again_end(struct disk_held *held)
{
    struct hot_pin pins[1 + DISK_MORE];

    for (unsigned i = 0; i < held->count; i++)
        pins[i] = (struct hot_pin){held->pieces[i].at, (uint32_t)held->pieces[i].len,
                                   held->entries[i], i == 0 ? held->front : 0};
    if (held->count > 0)
        hot_unpin(held->hot, &pins[0]);
    if (held->count > 1)
        hot_unpin_more(held->hot, pins + 1, held->count - 1);
    held->count = 0;
}
