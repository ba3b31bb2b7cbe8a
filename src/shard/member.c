/* member: one member of a shard, and all that match; see member.h. */
#include "shard/member.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "shard/internal.h"

/* ---- one ---- */

struct shard_reader {
    struct shard_open archive;
    const struct shard_entry *entry; /* of the index; NULL: a stream */
    struct shard_extract extract;
    struct shard_stream *stream; /* owned */
    uint64_t size;
    uint64_t skip, left; /* of a stream */
    bool begun;
};

static enum err
no_member(const struct shard_ask *ask, struct span member, struct errbuf *eb)
{
    return err_set(eb, ERR_NOT_FOUND, "archive \"%.*s\": member \"%.*s\" does not exist",
                   (int)MIN(ask->key.len, 150), ask->key.at, (int)MIN(member.len, 150),
                   member.at);
}

/* Decodes the archive up to the member. */
static enum err
reader_find_stream(struct shard_reader *r, const struct shard_ask *ask,
                   struct span member, struct errbuf *eb)
{
    struct shard_member m;
    bool end = false;
    enum err rc =
        shard_stream_open(&r->archive.object.in, r->archive.format, &r->stream, eb);

    while (rc == ERR_OK) {
        rc = shard_stream_next(r->stream, &m, &end, eb);
        if (rc == ERR_OK && end)
            return no_member(ask, member, eb);
        if (rc == ERR_OK && span_eq(m.name, member)) {
            r->size = m.size;
            return ERR_OK;
        }
    }
    if (rc == ERR_BAD_REQUEST)
        err_prefix(eb, "archive \"%.*s\"", (int)MIN(ask->key.len, 150), ask->key.at);
    return rc;
}

enum err
shard_member_open(struct shard_service *s, const struct shard_ask *ask,
                  struct span member, struct shard_reader **out, struct errbuf *eb)
{
    struct shard_reader *r = xcalloc(1, sizeof *r);
    enum err rc = shard_open_archive(s, ask, &r->archive, eb);

    *out = NULL;
    if (rc == ERR_OK && r->archive.index == NULL) {
        rc = reader_find_stream(r, ask, member, eb);
    } else if (rc == ERR_OK) {
        r->entry = shard_index_find(r->archive.index, member);
        rc = r->entry != NULL ? ERR_OK : no_member(ask, member, eb);
        r->size = r->entry != NULL ? r->entry->size : 0;
    }
    if (rc != ERR_OK)
        shard_member_close(&r);
    *out = r;
    return rc;
}

uint64_t
shard_member_size(const struct shard_reader *r)
{
    return r->size;
}

const struct object_info *
shard_member_archive(const struct shard_reader *r)
{
    return &r->archive.object.info;
}

enum err
shard_member_range(struct shard_reader *r, uint64_t first, uint64_t len,
                   struct errbuf *eb)
{
    assert(!r->begun);
    assert(first <= r->size);
    assert(len <= r->size - first);
    r->begun = true;
    r->skip = first;
    r->left = len;
    if (r->entry == NULL)
        return ERR_OK;
    return extract_begin(&r->extract, &r->archive.object.in, r->archive.index, r->entry,
                         first, len, eb);
}

enum err
shard_member_next(struct shard_reader *r, struct span *piece, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    assert(r->begun);
    if (r->entry != NULL)
        return extract_next(&r->extract, piece, eb);
    *piece = (struct span){"", 0};
    while (rc == ERR_OK && r->left > 0 && piece->len == 0) {
        size_t n;

        rc = shard_stream_data(r->stream, piece, eb);
        n = (size_t)MIN((uint64_t)piece->len, r->skip);
        *piece = span_from(*piece, n);
        r->skip -= n;
        piece->len = (size_t)MIN((uint64_t)piece->len, r->left);
        r->left -= piece->len;
    }
    return rc;
}

unsigned
shard_member_more(struct shard_reader *r, struct span *pieces, unsigned max)
{
    struct shard_extract *x = &r->extract;
    unsigned n;

    if (r->entry == NULL || x->is_zip || x->left == 0)
        return 0;
    n = object_get_more(r->archive.object.get, pieces, max);
    for (unsigned i = 0; i < n; i++) {
        assert(pieces[i].len <= x->left);
        x->left -= pieces[i].len;
    }
    return n;
}

bool
shard_member_is_plain(const struct shard_reader *r)
{
    return r->entry != NULL && r->archive.index->format == SHARD_TAR;
}

void
shard_member_close(struct shard_reader **rp)
{
    struct shard_reader *r = *rp;

    *rp = NULL;
    if (r == NULL)
        return;
    extract_end(&r->extract);
    shard_stream_close(&r->stream);
    shard_close_archive(&r->archive);
    free(r);
}

/* ---- all that match ---- */

struct shard_scan {
    struct shard_open archive;
    struct shard_match *match;   /* borrowed */
    struct shard_stream *stream; /* owned; NULL: by index */
    uint32_t at;                 /* of the index */
    struct shard_extract extract;
    bool extracting;
    const struct shard_entry *entry; /* the current one; its bytes were not asked for */
};

enum err
shard_scan_open(struct shard_service *s, const struct shard_ask *ask,
                struct shard_match *m, struct shard_scan **out, struct errbuf *eb)
{
    struct shard_scan *n = xcalloc(1, sizeof *n);
    enum err rc = shard_open_archive(s, ask, &n->archive, eb);

    n->match = m;
    if (rc == ERR_OK && n->archive.index == NULL)
        rc = shard_stream_open(&n->archive.object.in, n->archive.format, &n->stream, eb);
    if (rc != ERR_OK)
        shard_scan_close(&n);
    *out = n;
    return rc;
}

static void
scan_end_extract(struct shard_scan *n)
{
    if (n->extracting)
        extract_end(&n->extract);
    n->extracting = false;
    n->entry = NULL;
}

static enum err
scan_next_entry(struct shard_scan *n, struct shard_member *m, bool *end,
                struct errbuf *eb)
{
    const struct shard_index *x = n->archive.index;

    scan_end_extract(n);
    while (n->at < x->count) {
        const struct shard_entry *e = &x->entries[n->at++];
        bool yes;
        enum err rc = shard_match_test(n->match, shard_entry_name(x, e), &yes, eb);

        if (rc != ERR_OK)
            return rc;
        if (!yes)
            continue;
        n->entry = e;
        *m = (struct shard_member){.name = shard_entry_name(x, e),
                                   .size = e->size,
                                   .offset = e->offset,
                                   .mtime_s = e->mtime_s};
        return ERR_OK;
    }
    *end = true;
    return ERR_OK;
}

enum err
shard_scan_next(struct shard_scan *n, struct shard_member *m, bool *end,
                struct errbuf *eb)
{
    *end = false;
    if (n->stream == NULL)
        return scan_next_entry(n, m, end, eb);
    for (;;) {
        bool yes = false;
        enum err rc = shard_stream_next(n->stream, m, end, eb);

        if (rc == ERR_BAD_REQUEST)
            err_prefix(eb, "archive \"%.*s\"", (int)MIN(n->archive.object.key.len, 150),
                       n->archive.object.key.at);
        if (rc == ERR_OK && !*end)
            rc = shard_match_test(n->match, m->name, &yes, eb);
        if (rc != ERR_OK || *end || yes)
            return rc;
    }
}

enum err
shard_scan_data(struct shard_scan *n, struct span *piece, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    if (n->stream != NULL)
        return shard_stream_data(n->stream, piece, eb);
    assert(n->entry != NULL);
    *piece = (struct span){"", 0};
    if (!n->extracting) {
        n->extracting = true;
        rc = extract_begin(&n->extract, &n->archive.object.in, n->archive.index, n->entry,
                           0, n->entry->size, eb);
    }
    return rc == ERR_OK ? extract_next(&n->extract, piece, eb) : rc;
}

void
shard_scan_close(struct shard_scan **np)
{
    struct shard_scan *n = *np;

    *np = NULL;
    if (n == NULL)
        return;
    scan_end_extract(n);
    shard_stream_close(&n->stream);
    shard_close_archive(&n->archive);
    free(n);
}
