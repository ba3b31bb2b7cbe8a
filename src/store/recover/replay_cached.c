/* What a replay believes of the class cached, whose bodies are not synced before a reply: a power cut may leave the record
 * and any part of what it names. Payload, sums and the body's own final header are read. A header in front of it may be lost
 * all the same: then recover_bodies.c gives no place of that segment out again.
 */
#include "store/core/core.h"
#include "store/index/entry.h"
#include "store/index/find.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/record/manifest.h"
#include "store/recover/recovery.h"
#include "store/recover/replay.h"
#include "store/segment/read.h"
#include "store/segment/scan.h"
#include "store/segment/segment.h"
#include "store/store_entry.h"
#include "store/wal/change.h"
#include "store/wal/log_gap.h"
#include <assert.h>
#include <stdlib.h>

/* Is the header that stands there this body's final one? */
static enum err
body_header_is_final(const struct scan_source *source, const struct entry *entry,
                     bool *out, struct errbuf *eb)
{
    struct iobuf *buf;
    struct log_record m;
    uint64_t next;
    enum scanned got = place_scan(source, entry->place.offset, &m, &buf, &next, eb);

    assert(entry->place.segment == source->segment);
    *out = got == SCAN_BATCH && m.kind == LOG_RECORD_BODY &&
           content_eq(&m.content, &entry->content);
    iobuf_drop(&buf);
    return got == SCAN_ERROR ? ERR_IO : ERR_OK;
}

/* What binds the bytes of the file, *size included. */
static enum err
replay_cached_source_of(const struct read_file *f, const struct entry *entry,
                        struct scan_source *out, struct errbuf *eb)
{
    struct log_record head;
    enum err rc;

    *out = (struct scan_source){.file = read_file_of(f), .segment = entry->place.segment};
    if (f->pin != NULL) {
        out->generation = f->pin->generation;
        out->size = f->pin->owner.size;
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
body_header_is_intact(const struct read_file *f, const struct entry *entry, bool *out,
                      struct errbuf *eb)
{
    struct scan_source source;
    enum err rc = replay_cached_source_of(f, entry, &source, eb);

    *out = false;
    return rc == ERR_OK ? body_header_is_final(&source, entry, out, eb) : rc;
}

/* What the index does not cover yet is read once. */
static enum err
cached_body_is_intact(struct store *d, const struct log_record *m, bool *out,
                      struct errbuf *eb)
{
    struct entry entry = {.flags = ENTRY_CACHED,
                          .content = m->content,
                          .size = m->size,
                          .place.segment = m->place.segment,
                          .place.offset = m->place.offset};
    struct read_file f = {0};
    bool header = false;
    uint64_t bad;
    enum err rc = read_file_open(d, &entry, &f, eb);

    assert(m->place.segment > 0);
    if (rc == ERR_OK && !d->read_only)
        rc = rt_sync(read_file_of(&f), eb);
    if (rc == ERR_OK)
        rc = body_header_is_intact(&f, &entry, &header, eb);
    if (rc == ERR_OK && header)
        rc = body_is_whole(read_file_of(&f), d->cluster_sum, &entry, &bad, eb);
    read_file_close(&f);
    *out = rc == ERR_OK && header;
    return rc == ERR_CORRUPT || rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static enum err
manifest_entry_is_intact(struct store *d, const struct manifest_entry *e, bool *out,
                         struct errbuf *eb)
{
    struct log_record body = {.content = e->content,
                              .size = e->size,
                              .place = {.segment = e->segment, .offset = e->offset}};
    struct entry entry = {.flags = ENTRY_CACHED | ENTRY_INLINE,
                          .content = e->content,
                          .size = e->size,
                          .place.segment = e->segment,
                          .place.offset = e->offset};
    struct loaded l;
    enum err rc;

    if (!e->in_log)
        return cached_body_is_intact(d, &body, out, eb);
    rc =
        read_log_record_quiet(d, &entry, true, &l, eb); /* moved on, perhaps: no damage */
    loaded_fini(&l);
    *out = rc == ERR_OK;
    return rc == ERR_CORRUPT || rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static enum err
cached_parts_are_intact(struct store *d, const struct log_record *m, bool *out,
                        struct errbuf *eb)
{
    struct manifest manifest;
    enum err rc = manifest_decode(m->body, &manifest, eb);

    assert(m->kind == LOG_RECORD_UPLOAD_COMPLETE);
    *out = rc == ERR_OK;
    for (uint32_t i = 0; rc == ERR_OK && *out && i < manifest.count; i++) {
        const struct manifest_entry *e = &manifest.entries[i];
        struct part_entry part;

        rc = find_part(d->memtable, d->index, &m->upload, e->number, &part, eb);
        *out = rc == ERR_OK && content_eq(&part.entry.content, &e->content);
        if (rc ==
            ERR_NO_UPLOAD) /* its record was of no use any more when its log was compacted */
            rc = manifest_entry_is_intact(d, e, out, eb);
    }
    manifest_fini(&manifest);
    return rc;
}

static bool
entry_is_unmoved(const struct manifest *before, uint32_t i,
                 const struct manifest_entry *e)
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
former_manifest(struct store *d, const struct log_record *m, struct manifest *out,
                struct errbuf *eb)
{
    struct entry entry;
    enum err rc =
        find_content(d->memtable, d->index, m->bucket, m->key, &m->content, &entry, eb);

    *out = (struct manifest){0};
    if (rc == ERR_OK && (entry.flags & (ENTRY_PARTS | ENTRY_TOMBSTONE)) == ENTRY_PARTS)
        rc = manifest_load_quiet(d, &entry, out, eb);
    if (rc == ERR_NOT_FOUND || rc == ERR_CORRUPT) {
        *out = (struct manifest){0};
        rc = ERR_OK;
    }
    return rc;
}

/* A manifest that compaction wrote again: what it names elsewhere than the former one did was moved, and may be lost as any
 * body. */
static enum err
relocated_parts_are_intact(struct store *d, const struct log_record *m, bool *out,
                           struct errbuf *eb)
{
    struct manifest now, before = {0};
    enum err rc = manifest_decode(m->body, &now, eb);

    assert(m->kind == LOG_RECORD_RELOCATED);
    if (rc == ERR_OK)
        rc = former_manifest(d, m, &before, eb);
    *out = rc == ERR_OK;
    for (uint32_t i = 0; rc == ERR_OK && *out && i < now.count; i++) {
        if (!entry_is_unmoved(&before, i, &now.entries[i]))
            rc = manifest_entry_is_intact(d, &now.entries[i], out, eb);
    }
    manifest_fini(&before);
    manifest_fini(&now);
    return rc;
}

enum err
replay_row_is_intact(struct store *d, const struct entry *entry, bool *there,
                     struct errbuf *eb)
{
    struct manifest_entry body = {.content = entry->content,
                                  .size = entry->size,
                                  .segment = entry->place.segment,
                                  .offset = entry->place.offset};
    struct manifest m = {0};
    enum err rc;

    *there = true;
    if ((entry->flags & ENTRY_PARTS) == 0)
        return (entry->flags & ENTRY_INLINE) != 0
                   ? ERR_OK
                   : manifest_entry_is_intact(d, &body, there, eb);
    rc = manifest_load_quiet(d, entry, &m, eb);
    for (uint32_t i = 0; rc == ERR_OK && *there && i < m.count; i++)
        rc = manifest_entry_is_intact(d, &m.entries[i], there, eb);
    manifest_fini(&m);
    return rc;
}

static enum err
record_is_intact(struct store *d, const struct log_record *m, bool *there,
                 struct errbuf *eb)
{
    *there = !m->body_damaged;
    if (!*there)
        return ERR_OK;
    if (m->place.segment != 0 && m->kind != LOG_RECORD_META)
        return cached_body_is_intact(d, m, there, eb);
    if (m->kind == LOG_RECORD_UPLOAD_COMPLETE)
        return cached_parts_are_intact(d, m, there, eb);
    if (m->kind == LOG_RECORD_RELOCATED && m->part == 0 && log_record_has_upload(m))
        return relocated_parts_are_intact(d, m, there, eb);
    return ERR_OK;
}

enum err
replay_cached(struct changes *c, struct log_record *m, struct errbuf *eb)
{
    const struct replay_visitor *v = c->disk->recovery->visitor;
    bool there = !m->body_damaged;
    enum err rc = ERR_OK;

    assert(c->class == STORE_CACHED);
    if (v == NULL || !v->trust_cached)
        rc = record_is_intact(c->disk, m, &there, eb);
    if (rc != ERR_OK)
        return rc;
    if (v != NULL && !there && !m->body_damaged)
        v->visit(v->arg, &(struct replay_seen){
                             .event = REPLAY_DROPPED, .class = c->class, .record = m});
    if (replay_hides(c->disk, m))
        return ERR_OK;
    if (!there &&
        (m->kind == LOG_RECORD_PART || (m->kind == LOG_RECORD_RELOCATED && m->part > 0)))
        return ERR_OK;
    if (!there)
        m->kind = LOG_RECORD_DELETE;
    return changes_apply(c, m, NULL, eb);
}
