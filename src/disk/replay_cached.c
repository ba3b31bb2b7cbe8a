/* What a replay believes of the class cached, whose bodies were not synced before a reply: a power cut may leave the record
 * and any part of what it names.
 *
 * Payload and sums are read. And the headers, from the first place of a shared segment on, must lead to the body's own final
 * one: where they do not, the start takes its place for one that nobody has, and gives it out again (recover_bodies.c).
 */
#include <stdlib.h>

#include "disk/find.h"
#include "disk/hole.h"
#include "disk/manifest.h"
#include "disk/read.h"
#include "disk/replay.h"
#include "disk/scan.h"
#include "disk/segment.h"

#define CHAINS 8u /* segments whose places are remembered */

/* Where the places of a shared segment begin that its headers lead to. */
struct chain {
    uint32_t segment; /* 0: free */
    uint32_t count, room;
    uint32_t *pages; /* of 4 KiB, ascending; owned */
};
struct chains {
    struct chain at[CHAINS];
    uint32_t next; /* the one that is given up next */
};

void
replay_chains_free(struct chains **cp)
{
    struct chains *c = *cp;

    *cp = NULL;
    for (uint32_t i = 0; c != NULL && i < CHAINS; i++)
        free(c->at[i].pages);
    free(c);
}

static void
chain_add(struct chain *c, uint64_t offset)
{
    if (c->count == c->room) {
        c->room = MAX(64u, 2 * c->room);
        c->pages = xrealloc(c->pages, c->room * sizeof *c->pages);
    }
    c->pages[c->count++] = (uint32_t)(offset / DISK_ALIGN);
}

static bool
chain_has(const struct chain *c, uint64_t offset)
{
    uint64_t page = offset / DISK_ALIGN;
    uint32_t from = 0, to = c->count;

    while (from < to) {
        uint32_t middle = from + (to - from) / 2;

        if (c->pages[middle] < page)
            from = middle + 1;
        else
            to = middle;
    }
    return from < c->count && c->pages[from] == page;
}

/* Nothing is written to body segments while logs are replayed, so one walk is enough. */
static enum err
chain_walk(struct chain *c, const struct scan_source *source, struct errbuf *eb)
{
    uint64_t at = DISK_ALIGN, next;
    enum scanned got = SCAN_GROUP;
    struct errbuf why = {0};

    c->segment = source->segment;
    c->count = 0;
    while (got == SCAN_GROUP) {
        struct iobuf *buf;
        struct member m;

        got = place_scan(source, at, &m, &buf, &next, &why);
        if (got == SCAN_GROUP)
            chain_add(c, at);
        iobuf_drop(&buf);
        at = next;
    }
    if (got != SCAN_ERROR)
        return ERR_OK;
    c->segment = 0;
    return err_set(eb, ERR_IO, "%s", why.text);
}

static enum err
chain_of(struct disk *d, const struct scan_source *source, const struct chain **out,
         struct errbuf *eb)
{
    struct chains *c = d->home.chains;
    struct chain *mine;

    if (c == NULL)
        c = d->home.chains = xcalloc(1, sizeof *c);
    for (uint32_t i = 0; i < CHAINS; i++) {
        *out = &c->at[i];
        if (c->at[i].segment == source->segment)
            return ERR_OK;
    }
    *out = mine = &c->at[c->next++ % CHAINS];
    return chain_walk(mine, source, eb);
}

/* Is the header that stands there this body's final one? */
static enum err
has_final_header(const struct scan_source *source, const struct row *row, bool *out,
                 struct errbuf *eb)
{
    struct iobuf *buf;
    struct member m;
    uint64_t next;
    enum scanned got = place_scan(source, row->offset, &m, &buf, &next, eb);

    *out = got == SCAN_GROUP && m.kind == MEMBER_BODY &&
           content_eq(&m.content, &row->content);
    iobuf_drop(&buf);
    return got == SCAN_ERROR ? ERR_IO : ERR_OK;
}

/* What binds the bytes of the file, *size included. */
static enum err
source_of(const struct read_file *f, const struct row *row, struct scan_source *out,
          struct errbuf *eb)
{
    struct member head;
    enum err rc;

    *out = (struct scan_source){.file = read_file_of(f), .segment = row->segment};
    if (f->pin != NULL) {
        out->generation = f->pin->generation;
        out->size = f->pin->home.size;
        return ERR_OK;
    }
    rc = rt_file_size(out->file, &out->size, eb);
    if (rc == ERR_OK)
        rc = segment_header_read(out->file, &head, eb);
    if (rc == ERR_OK)
        out->generation = head.generation;
    return rc;
}

static enum err
header_is_there(struct disk *d, const struct read_file *f, const struct row *row,
                bool *out, struct errbuf *eb)
{
    struct scan_source source;
    const struct chain *chain;
    enum err rc = source_of(f, row, &source, eb);

    *out = false;
    if (rc == ERR_OK && f->pin != NULL) {
        rc = chain_of(d, &source, &chain, eb);
        if (rc == ERR_OK && !chain_has(chain, row->offset))
            return ERR_OK;
    }
    return rc == ERR_OK ? has_final_header(&source, row, out, eb) : rc;
}

/* What the index does not cover yet is read once. */
static enum err
cached_body_is_there(struct disk *d, const struct member *m, bool *out, struct errbuf *eb)
{
    struct row row = {.flags = ROW_CACHED,
                      .content = m->content,
                      .size = m->size,
                      .segment = m->place.segment,
                      .offset = m->place.offset};
    struct read_file f = {0};
    bool header = false;
    uint64_t bad;
    enum err rc = read_file_open(d, &row, &f, eb);

    if (rc == ERR_OK && !d->read_only)
        rc = rt_sync(read_file_of(&f), eb);
    if (rc == ERR_OK)
        rc = header_is_there(d, &f, &row, &header, eb);
    if (rc == ERR_OK && header)
        rc = body_is_whole(read_file_of(&f), d->cluster_sum, &row, &bad, eb);
    read_file_close(&f);
    *out = rc == ERR_OK && header;
    return rc == ERR_CORRUPT || rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static enum err
cached_entry_is_there(struct disk *d, const struct manifest_entry *e, bool *out,
                      struct errbuf *eb)
{
    struct member body = {.content = e->content,
                          .size = e->size,
                          .place = {.segment = e->segment, .offset = e->offset}};
    struct row row = {.flags = ROW_CACHED | ROW_INLINE,
                      .content = e->content,
                      .size = e->size,
                      .segment = e->segment,
                      .offset = e->offset};
    struct loaded l;
    enum err rc;

    if (!e->in_log)
        return cached_body_is_there(d, &body, out, eb);
    rc = read_log_member_quiet(d, &row, true, &l, eb); /* moved on, perhaps: no damage */
    loaded_fini(&l);
    *out = rc == ERR_OK;
    return rc == ERR_CORRUPT || rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static enum err
cached_parts_are_there(struct disk *d, const struct member *m, bool *out,
                       struct errbuf *eb)
{
    struct manifest manifest;
    enum err rc = manifest_decode(m->body, &manifest, eb);

    *out = rc == ERR_OK;
    for (uint32_t i = 0; rc == ERR_OK && *out && i < manifest.count; i++) {
        const struct manifest_entry *e = &manifest.entries[i];
        struct part_row part;

        rc = find_part(d->tail, d->index, &m->upload, e->number, &part, eb);
        *out = rc == ERR_OK && content_eq(&part.row.content, &e->content);
        if (rc ==
            ERR_NO_UPLOAD) /* its record was of no use any more when its log was compacted */
            rc = cached_entry_is_there(d, e, out, eb);
    }
    manifest_fini(&manifest);
    return rc;
}

static bool
entry_stood(const struct manifest *before, uint32_t i, const struct manifest_entry *e)
{
    const struct manifest_entry *was;

    if (i >= before->count)
        return false;
    was = &before->entries[i];
    return was->segment == e->segment && was->offset == e->offset &&
           content_eq(&was->content, &e->content);
}

/* The manifest that the object has before this record; none: empty. */
static enum err
former_manifest(struct disk *d, const struct member *m, struct manifest *out,
                struct errbuf *eb)
{
    struct row row;
    enum err rc =
        find_content(d->tail, d->index, m->bucket, m->key, &m->content, &row, eb);

    *out = (struct manifest){0};
    if (rc == ERR_OK && (row.flags & (ROW_PARTS | ROW_TOMBSTONE)) == ROW_PARTS)
        rc = manifest_load_quiet(d, &row, out, eb);
    if (rc == ERR_NOT_FOUND || rc == ERR_CORRUPT) {
        *out = (struct manifest){0};
        rc = ERR_OK;
    }
    return rc;
}

/* A manifest that compaction wrote anew: what it names elsewhere than the former one did was moved, and may be lost as any
 * body. */
static enum err
moved_parts_are_there(struct disk *d, const struct member *m, bool *out,
                      struct errbuf *eb)
{
    struct manifest now, before = {0};
    enum err rc = manifest_decode(m->body, &now, eb);

    if (rc == ERR_OK)
        rc = former_manifest(d, m, &before, eb);
    *out = rc == ERR_OK;
    for (uint32_t i = 0; rc == ERR_OK && *out && i < now.count; i++) {
        if (!entry_stood(&before, i, &now.entries[i]))
            rc = cached_entry_is_there(d, &now.entries[i], out, eb);
    }
    manifest_fini(&before);
    manifest_fini(&now);
    return rc;
}

enum err
replay_row_is_there(struct disk *d, const struct row *row, bool *there, struct errbuf *eb)
{
    struct manifest_entry body = {.content = row->content,
                                  .size = row->size,
                                  .segment = row->segment,
                                  .offset = row->offset};
    struct manifest m = {0};
    enum err rc;

    *there = true;
    if ((row->flags & ROW_PARTS) == 0)
        return (row->flags & ROW_INLINE) != 0
                   ? ERR_OK
                   : cached_entry_is_there(d, &body, there, eb);
    rc = manifest_load_quiet(d, row, &m, eb);
    for (uint32_t i = 0; rc == ERR_OK && *there && i < m.count; i++)
        rc = cached_entry_is_there(d, &m.entries[i], there, eb);
    manifest_fini(&m);
    return rc;
}

enum err
replay_is_there(struct disk *d, const struct member *m, bool *there, struct errbuf *eb)
{
    *there = !m->body_damaged;
    if (!*there)
        return ERR_OK;
    if (m->place.segment != 0 && m->kind != MEMBER_META)
        return cached_body_is_there(d, m, there, eb);
    if (m->kind == MEMBER_UPLOAD_COMPLETE)
        return cached_parts_are_there(d, m, there, eb);
    if (m->kind == MEMBER_MOVED && m->part == 0 && member_has_upload(m))
        return moved_parts_are_there(d, m, there, eb);
    return ERR_OK;
}

enum err
replay_cached(struct changes *c, struct member *m, struct errbuf *eb)
{
    bool there;
    enum err rc = replay_is_there(c->disk, m, &there, eb);

    return rc == ERR_OK ? replay_cached_as(c, m, there, eb) : rc;
}

enum err
replay_cached_as(struct changes *c, struct member *m, bool there, struct errbuf *eb)
{
    struct row row;
    enum err rc;

    if (hole_hides(c->disk, m))
        return ERR_OK;
    if (!there && (m->kind == MEMBER_PART || (m->kind == MEMBER_MOVED && m->part > 0)))
        return ERR_OK;
    if (!there)
        m->kind = MEMBER_DELETE;
    rc = changes_apply(c, m, &row, eb);
    return rc == ERR_OK ? hole_moved(c, m, &row, eb) : rc;
}
