#include "disk/change_moved.h"

#include "disk/change_upload.h"
#include "disk/change_version.h"

/* The upload was completed by the record that is gone. */
static enum err
end_of_upload(struct changes *c, const struct member *m, const struct row *row,
              const struct manifest *parts, struct errbuf *eb)
{
    struct done_row done = {
        .bucket = m->bucket, .key = m->key, .completed_ms = row->mtime_ms, .row = *row};
    enum err rc = changes_drop_parts(c, m, &m->upload, parts, eb);

    if (rc != ERR_OK)
        return rc;
    changes_end_upload(c, m);
    run_done(c->run, &m->upload, &done);
    return ERR_OK;
}

/* Only what is the key's row moves. So what a replay has met before, under a higher version, ended nothing: a doubt, whose
 * object it is that moved behind it, or what became of one that was cleared. The row takes that version, so that it stands
 * above it wherever the two meet, and has it already when it is moved again; the one that it was born with says that it is
 * the same. */
static enum err
above_doubt(struct changes *c, const struct member *m, struct row *row, struct errbuf *eb)
{
    struct row now;
    enum err rc = changes_current(c, m->bucket, m->key, &now, eb);

    if (rc == ERR_NOT_FOUND || (rc == ERR_OK && c->class != DISK_CACHED))
        return ERR_OK;
    if (rc == ERR_OK && !row_is_object(&now) &&
        (now.flags & (ROW_CACHED | ROW_KEPT | ROW_MARKER)) == ROW_CACHED &&
        version_cmp(&now.version, &row->version) >= 0) {
        row->born = row_born(row);
        row->version = now.version;
        row->flags |= now.flags & ROW_DOUBT;
    }
    /* A log that stays longer than others (a damaged one is not compacted) has an older object, and the doubt was met before its own:
     * it may be of this one. If not, it is asked for once more. */
    if (rc == ERR_OK && row_is_object(&now) && (now.flags & ROW_CACHED) != 0)
        row->flags |= now.flags & ROW_DOUBT;
    return rc;
}

/* Nothing of this version is known: the record makes it. */
static enum err
make_row(struct changes *c, const struct member *m, struct row *row,
         const struct manifest *parts, struct errbuf *eb)
{
    enum err rc = above_doubt(c, m, row, eb);

    if (rc == ERR_OK)
        rc = changes_put(c, m, row, eb);

    if (rc == ERR_OK && (row->flags & ROW_PARTS) != 0)
        rc = changes_take_parts(c, m, row, parts, eb);
    return rc;
}

/* Parts that were in the manifest before leave, the same ones at other places enter. */
static enum err
swap_parts(struct changes *c, const struct row *old, const struct manifest *parts,
           struct errbuf *eb)
{
    struct manifest before;
    enum err rc = manifest_load_quiet(c->disk, old, &before, eb);

    /* A replay onto an index that is older than the compaction: the old log is gone. What the parts count in their
     * segments is off then, and only decides when these are looked at. */
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
            changes_place_died(c, was); /* its body was moved */
    }
    changes_manifest_lives(c, parts);
    manifest_fini(&before);
    return ERR_OK;
}

static enum err
move_row(struct changes *c, const struct member *m, const struct row *old, bool current,
         const struct manifest *parts, struct row *row, struct errbuf *eb)
{
    uint32_t inlined = row->flags & ROW_INLINE, segment = row->segment;
    uint64_t offset = row->offset;
    bool stays = old->segment == segment && old->offset == offset;
    enum err rc = ERR_OK;

    if ((old->flags & ROW_PARTS) != 0 && !stays)
        rc = swap_parts(c, old, parts, eb);
    else if ((old->flags & ROW_INLINE) == 0 && !stays)
        changes_row_died(c, old); /* its former place */
    if (rc != ERR_OK)
        return rc;
    *row = *old;
    row->segment = segment;
    row->offset = offset;
    row->flags = (old->flags & ~(uint32_t)ROW_INLINE) | inlined;
    if (current)
        changes_set_object(c, m->bucket, m->key, row);
    else
        changes_set_older(c, m, row);
    return ERR_OK;
}

enum err
changes_moved(struct changes *c, const struct member *m, struct row *row,
              struct errbuf *eb)
{
    struct manifest parts = {0};
    struct version born;
    struct row old;
    bool current, manifest = member_has_upload(m) && m->part == 0;
    enum err rc = member_row(m, c->class, row, eb);

    if (rc != ERR_OK || m->part > 0)
        return rc;
    if (manifest) {
        row->flags |= ROW_PARTS;
        rc = manifest_decode(m->body, &parts, eb);
    }
    born = row_born(row);
    if (rc == ERR_OK)
        rc = changes_version(c, m->bucket, m->key, &born, &old, &current, eb);
    if (rc == ERR_NOT_FOUND)
        rc = make_row(c, m, row, &parts, eb);
    else if (rc == ERR_OK && content_eq(&old.content, &row->content))
        rc = move_row(c, m, &old, current, &parts, row, eb);
    if (rc == ERR_OK && manifest)
        rc = end_of_upload(c, m, row, &parts, eb);
    manifest_fini(&parts);
    return rc;
}
