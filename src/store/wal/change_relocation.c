

/* The record that completed the upload no longer exists. */
#include "store/wal/change_relocation.h"

#include "store/index/entry.h"
#include "store/index/run.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/record/manifest.h"
#include "store/segment/read.h"
#include "store/store_entry.h"
#include "store/wal/change.h"
#include "store/wal/change_upload.h"
#include "store/wal/change_version.h"

static enum err
end_of_upload(struct changes *c, const struct log_record *m, const struct entry *entry,
              const struct manifest *parts, struct errbuf *eb)
{
    struct done_entry done = {.bucket = m->bucket,
                              .key = m->key,
                              .completed_ms = entry->mtime_ms,
                              .entry = *entry};
    enum err rc = changes_drop_parts(c, m, &m->upload, parts, eb);

    if (rc != ERR_OK)
        return rc;
    changes_end_upload(c, m);
    run_done(c->run, &m->upload, &done);
    return ERR_OK;
}

/* Moves only the key's own entry.
 *
 * A replay may have met an entry with a higher version before: an in-doubt write whose object
 * moved behind it, or the result of a cleared one. That entry superseded nothing. The moved
 * entry takes that higher version, so it wins wherever the two meet and keeps it when moved
 * again. Its birth version still identifies it. */
static enum err
row_above_in_doubt(struct changes *c, const struct log_record *m, struct entry *entry,
                   struct errbuf *eb)
{
    struct entry now;
    enum err rc = changes_current(c, m->bucket, m->key, &now, eb);

    if (rc == ERR_NOT_FOUND || (rc == ERR_OK && c->class != STORE_CACHED))
        return ERR_OK;
    if (rc == ERR_OK && !entry_is_object(&now) &&
        (now.flags & (ENTRY_CACHED | ENTRY_KEPT | ENTRY_MARKER)) == ENTRY_CACHED &&
        version_cmp(&now.version, &entry->version) >= 0) {
        entry->born = entry_born(entry);
        entry->version = now.version;
        entry->flags |= now.flags & ENTRY_IN_DOUBT;
    }
    /* A log that outlives others (a damaged one is not compacted) may hold an older object.
     * Replay then met the in-doubt write before its own object; the write may concern this
     * object. If it does not, the owner only resolves it once more. */
    if (rc == ERR_OK && entry_is_object(&now) && (now.flags & ENTRY_CACHED) != 0)
        entry->flags |= now.flags & ENTRY_IN_DOUBT;
    return rc;
}

/* This version is unknown here: the record creates its entry. */
static enum err
make_entry(struct changes *c, const struct log_record *m, struct entry *entry,
           const struct manifest *parts, struct errbuf *eb)
{
    enum err rc = row_above_in_doubt(c, m, entry, eb);

    if (rc == ERR_OK)
        rc = changes_put(c, m, entry, eb);

    if (rc == ERR_OK && (entry->flags & ENTRY_PARTS) != 0)
        rc = changes_adopt_parts(c, m, entry, parts, eb);
    return rc;
}

/* Replaces the parts of the former manifest by the same parts at other places. */
static enum err
swap_parts(struct changes *c, const struct entry *old, const struct manifest *parts,
           struct errbuf *eb)
{
    struct manifest before;
    enum err rc = manifest_load_quiet(c->disk, old, &before, eb);

    /* Replay onto an index older than the compaction: the old log was removed. The segments'
     * counts of parts are then off; they only decide when compaction visits a segment. */
    if (rc == ERR_NOT_FOUND || rc == ERR_CORRUPT)
        return ERR_OK;
    if (rc != ERR_OK)
        return rc;
    for (uint32_t i = 0; i < before.count; i++) {
        const struct manifest_entry *was = &before.entries[i];

        changes_count_part(c, was->segment, was->in_log, was->size, -1);
        if (!was->in_log && i < parts->count &&
            (was->segment != parts->entries[i].segment ||
             was->offset != parts->entries[i].offset))
            changes_place_died(c, was); /* the body moved */
    }
    changes_manifest_lives(c, parts);
    manifest_fini(&before);
    return ERR_OK;
}

static enum err
relocate_row(struct changes *c, const struct log_record *m, const struct entry *old,
             bool current, const struct manifest *parts, struct entry *entry,
             struct errbuf *eb)
{
    uint32_t inlined = entry->flags & ENTRY_INLINE, segment = entry->place.segment;
    uint64_t offset = entry->place.offset;
    bool stays = old->place.segment == segment && old->place.offset == offset;
    enum err rc = ERR_OK;

    if ((old->flags & ENTRY_PARTS) != 0 && !stays)
        rc = swap_parts(c, old, parts, eb);
    else if ((old->flags & ENTRY_INLINE) == 0 && !stays)
        changes_entry_died(c, old); /* its former place */
    if (rc != ERR_OK)
        return rc;
    *entry = *old;
    entry->place.segment = segment;
    entry->place.offset = offset;
    entry->flags = (old->flags & ~(uint32_t)ENTRY_INLINE) | inlined;
    if (current)
        changes_set_object(c, m->bucket, m->key, entry);
    else
        changes_set_older(c, m, entry);
    return ERR_OK;
}

enum err
changes_relocation(struct changes *c, const struct log_record *m, struct entry *entry,
                   struct errbuf *eb)
{
    struct manifest parts = {0};
    struct version born;
    struct entry old;
    bool current, manifest = log_record_has_upload(m) && m->part == 0;
    enum err rc = record_entry(m, c->class, entry, eb);

    if (rc != ERR_OK || m->part > 0)
        return rc;
    if (manifest) {
        entry->flags |= ENTRY_PARTS;
        rc = manifest_decode(m->body, &parts, eb);
    }
    born = entry_born(entry);
    if (rc == ERR_OK)
        rc = changes_version(c, m->bucket, m->key, &born, &old, &current, eb);
    if (rc == ERR_NOT_FOUND)
        rc = make_entry(c, m, entry, &parts, eb);
    else if (rc == ERR_OK && content_eq(&old.content, &entry->content))
        rc = relocate_row(c, m, &old, current, &parts, entry, eb);
    if (rc == ERR_OK && manifest)
        rc = end_of_upload(c, m, entry, &parts, eb);
    manifest_fini(&parts);
    return rc;
}
