/* index: the members of a tar or zip; see index.h. */
#include "shard/index.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/mem.h"
#include "shard/stream.h"
#include "shard/zip.h"

static_assert(SHARD_INDEX_BYTES_MAX < UINT32_MAX, "places of names have 32 bits");

struct shard_index *
shard_index_ref(struct shard_index *x)
{
    unsigned before = atomic_fetch_add_explicit(&x->refs, 1, memory_order_relaxed);

    assert(before > 0);
    return x;
}

void
shard_index_drop(struct shard_index **xp)
{
    struct shard_index *x = *xp;

    *xp = NULL;
    if (x == NULL || atomic_fetch_sub_explicit(&x->refs, 1, memory_order_acq_rel) > 1)
        return;
    free(x->entries);
    free(x->names);
    free(x->table);
    free(x);
}

size_t
shard_index_bytes(const struct shard_index *x)
{
    return sizeof *x + x->room * sizeof *x->entries + x->names_room +
           (x->table != NULL ? ((size_t)x->mask + 1) * sizeof *x->table : 0);
}

static enum err
index_grow(struct shard_index *x, size_t name_len, struct errbuf *eb)
{
    if (x->count == SHARD_MEMBERS_MAX)
        return err_set(eb, ERR_TOO_LARGE, "the archive has more than %u members",
                       SHARD_MEMBERS_MAX);
    if (shard_index_bytes(x) + name_len > SHARD_INDEX_BYTES_MAX / 2 &&
        (x->count == x->room || x->names_len + name_len > x->names_room))
        return err_set(
            eb, ERR_TOO_LARGE,
            "the names of the archive's members need more than %u MiB of memory",
            SHARD_INDEX_BYTES_MAX >> 20);
    if (x->count == x->room) {
        x->room = x->room == 0 ? 64 : x->room * 2;
        x->entries = xrealloc(x->entries, x->room * sizeof *x->entries);
    }
    if (x->names_len + name_len > x->names_room) {
        x->names_room = MAX(x->names_room * 2, x->names_len + name_len + 4096);
        x->names = xrealloc(x->names, x->names_room);
    }
    return ERR_OK;
}

struct shard_index *
shard_index_new(enum shard_format f)
{
    struct shard_index *x = xcalloc(1, sizeof *x);

    assert(shard_format_is_indexed(f));
    x->refs = 1;
    x->format = f;
    return x;
}

enum err
shard_index_add(struct shard_index *x, const struct shard_entry *e, struct span name,
                struct errbuf *eb)
{
    enum err rc = index_grow(x, name.len, eb);

    if (rc != ERR_OK)
        return rc;
    assert(name.len > 0 && name.len <= UINT16_MAX);
    assert(x->count < x->room);
    memcpy(x->names + x->names_len, name.at, name.len);
    x->entries[x->count] = *e;
    x->entries[x->count].name_at = (uint32_t)x->names_len;
    x->entries[x->count].name_len = (uint16_t)name.len;
    x->names_len += name.len;
    x->count++;
    return ERR_OK;
}

static uint32_t
index_slot(const struct shard_index *x, struct span name)
{
    return (uint32_t)hash_xxh3(name.at, name.len, 0) & x->mask;
}

const struct shard_entry *
shard_index_find(const struct shard_index *x, struct span name)
{
    if (x->count == 0)
        return NULL;
    assert(x->table != NULL);
    for (uint32_t at = index_slot(x, name);; at = (at + 1) & x->mask) {
        const struct shard_entry *e;

        if (x->table[at] == 0)
            return NULL;
        assert(x->table[at] <= x->count);
        e = &x->entries[x->table[at] - 1];
        if (span_eq(shard_entry_name(x, e), name))
            return e;
    }
}

void
shard_index_seal(struct shard_index *x)
{
    uint32_t slots = 16;

    assert(x->table == NULL);
    assert(x->count <= SHARD_MEMBERS_MAX);
    while (slots < x->count + x->count / 2)
        slots *= 2;
    x->mask = slots - 1;
    x->table = xcalloc(slots, sizeof *x->table);
    for (uint32_t i = 0; i < x->count; i++) {
        struct span name = shard_entry_name(x, &x->entries[i]);
        uint32_t at = index_slot(x, name);

        if (shard_index_find(x, name) != NULL)
            continue; /* the first of a name counts */
        while (x->table[at] != 0)
            at = (at + 1) & x->mask;
        x->table[at] = i + 1;
    }
}

/* ---- tar ---- */

static enum err
index_build_tar(struct shard_input *in, struct shard_index *x, struct errbuf *eb)
{
    struct shard_stream *s;
    struct shard_member m;
    bool end = false;
    enum err rc = shard_stream_open(in, SHARD_TAR, &s, eb);

    while (rc == ERR_OK) {
        rc = shard_stream_next(s, &m, &end, eb);
        if (rc != ERR_OK || end)
            break;
        rc = shard_index_add(x,
                             &(struct shard_entry){.offset = m.offset,
                                                   .size = m.size,
                                                   .stored = m.size,
                                                   .mtime_s = m.mtime_s},
                             m.name, eb);
    }
    shard_stream_close(&s);
    return rc;
}

/* ---- zip ---- */

/* Reads a range whole. */
static enum err
index_read_range(struct shard_input *in, uint64_t first, uint64_t len, struct buf *out,
                 struct errbuf *eb)
{
    struct span piece = {"", 0};
    enum err rc = in->begin(in, first, len, eb);

    buf_clear(out);
    while (rc == ERR_OK) {
        rc = in->next(in, &piece, eb);
        if (rc != ERR_OK || piece.len == 0)
            break;
        buf_put_span(out, piece);
    }
    if (rc == ERR_OK && (out->full || out->len != len))
        rc = err_set(eb, ERR_INCOMPLETE, "the archive ended early");
    return rc;
}

static enum err
index_find_zip_end(struct shard_input *in, struct zip_end *end, struct errbuf *eb)
{
    uint64_t tail = MIN(in->size, (uint64_t)ZIP_TAIL_MAX);
    struct buf b;
    enum err rc;

    buf_init(&b, ZIP_TAIL_MAX);
    rc = index_read_range(in, in->size - tail, tail, &b, eb);
    if (rc == ERR_OK)
        rc = zip_end_find(buf_span(&b), in->size, end, eb);
    if (rc == ERR_OK && end->end64_at != 0)
        rc = index_read_range(in, end->end64_at, ZIP_END64_LEN, &b, eb);
    if (rc == ERR_OK && end->end64_at != 0)
        rc = zip_end64_parse(buf_span(&b), in->size, end, eb);
    buf_fini(&b);
    return rc;
}

/* What an entry says must be possible; *stored adds up, so that members cannot share bytes (overlapping bombs). */
static enum err
index_check_zip_entry(const struct zip_entry *e, const struct zip_end *end,
                      uint64_t *stored, struct errbuf *eb)
{
    int len = (int)MIN(e->name.len, 200);
    uint64_t room = end->dir_at;

    if ((e->flags & 1) != 0)
        return err_set(eb, ERR_BAD_REQUEST, "zip: member \"%.*s\" is encrypted", len,
                       e->name.at);
    if (e->method != ZIP_STORED && e->method != ZIP_DEFLATED)
        return err_set(eb, ERR_BAD_REQUEST,
                       "zip: member \"%.*s\" has compression method %u; 0 and 8 are read",
                       len, e->name.at, e->method);
    if (e->local_at > room || e->stored > room - e->local_at || *stored > room ||
        e->stored > room - *stored || (e->method == ZIP_STORED && e->stored != e->size))
        return err_set(eb, ERR_BAD_REQUEST,
                       "zip: member \"%.*s\" has impossible sizes: %" PRIu64
                       " bytes at %" PRIu64 " in %" PRIu64,
                       len, e->name.at, e->stored, e->local_at, room);
    *stored += e->stored;
    return ERR_OK;
}

struct zip_scan {
    struct zip_end end;
    uint64_t seen, stored;
};

/* All whole entries at the front of `b`. */
static enum err
index_take_zip_entries(struct shard_index *x, struct zip_scan *scan, struct buf *b,
                       struct errbuf *eb)
{
    size_t at = 0;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && scan->seen < scan->end.count) {
        struct zip_entry e;
        size_t used;

        rc = zip_entry_parse(span_from(buf_span(b), at), &e, &used, eb);
        if (rc != ERR_OK || used == 0)
            break;
        at += used;
        scan->seen++;
        if (e.name.at[e.name.len - 1] == '/') /* a folder */
            continue;
        rc = index_check_zip_entry(&e, &scan->end, &scan->stored, eb);
        if (rc == ERR_OK)
            rc = shard_index_add(x,
                                 &(struct shard_entry){.offset = e.local_at,
                                                       .size = e.size,
                                                       .stored = e.stored,
                                                       .mtime_s = e.mtime_s,
                                                       .crc = e.crc,
                                                       .method = e.method},
                                 e.name, eb);
    }
    buf_consume(b, at);
    return rc;
}

static enum err
index_build_zip(struct shard_input *in, struct shard_index *x, struct errbuf *eb)
{
    struct zip_scan scan = {.seen = 0};
    struct span piece = {"", 0};
    struct buf b;
    enum err rc = index_find_zip_end(in, &scan.end, eb);

    buf_init(&b, ZIP_ENTRY_MAX + MIB(2));
    if (rc == ERR_OK)
        rc = in->begin(in, scan.end.dir_at, scan.end.dir_size, eb);
    while (rc == ERR_OK) {
        rc = in->next(in, &piece, eb);
        if (rc != ERR_OK || piece.len == 0)
            break;
        while (rc == ERR_OK && piece.len > 0) {
            struct span part = {piece.at, MIN(piece.len, (size_t)MIB(1))};

            piece = span_from(piece, part.len);
            buf_put_span(&b, part);
            rc = index_take_zip_entries(x, &scan, &b, eb);
            assert(rc != ERR_OK || !b.full);
        }
    }
    buf_fini(&b);
    if (rc == ERR_OK && scan.seen != scan.end.count)
        rc = err_set(eb, ERR_BAD_REQUEST,
                     "zip: %" PRIu64 " members in its directory, %" PRIu64
                     " by its end record",
                     scan.seen, scan.end.count);
    return rc;
}

enum err
shard_index_build(struct shard_input *in, enum shard_format f, struct shard_index **out,
                  struct errbuf *eb)
{
    struct shard_index *x = shard_index_new(f);
    enum err rc;

    *out = NULL;
    rc = f == SHARD_TAR ? index_build_tar(in, x, eb) : index_build_zip(in, x, eb);
    if (rc != ERR_OK) {
        shard_index_drop(&x);
        return rc;
    }
    shard_index_seal(x);
    *out = x;
    return ERR_OK;
}
