/* carry_commit: the record that takes the place of one which is moved, and whether it may still be written. */
#include "disk/carry.h"
#include "disk/change_version.h"
#include "disk/prepare.h"

/* ---- the record anew ---- */

/* What the row knows and the record did not: that its bucket's versioning was suspended. */
static void
add_versioning(const struct row *row, struct object_meta *meta)
{
    if ((row->flags & ROW_VERSIONED) != 0)
        meta->versioning = DISK_VERSIONED;
    else if ((row->flags & ROW_SUSPENDED) != 0)
        meta->versioning = DISK_SUSPENDED;
}

static void
as_moved(const struct carried *from, struct object_meta *meta, struct commit *c)
{
    const struct row *row = &from->row;

    c->kind = MEMBER_MOVED;
    if (from->what == CARRY_PART) /* of no object yet: a version that says nothing */
        c->version = (struct version){.counter = 1};
    else
        c->version = row->version;
    if (from->what != CARRY_PART) {
        c->born = row->born;
        add_versioning(row, meta);
    }
    if (from->what == CARRY_MOVE) { /* of a decided upload-less prepare, too */
        c->upload = (struct upload_id){0};
        c->part = 0;
    }
    if (from->what == CARRY_MANIFEST)
        c->part = 0;
}

/* As its row says: a delete that came before versioning was known left a marker too, metadata and the end of a newer version
 * raised its version, and what all have heard of is no tombstone any more. */
static void
as_delete(const struct row *row, struct object_meta *meta, struct commit *c)
{
    c->kind = (row->flags & ROW_KEPT) != 0 ? MEMBER_TOMBSTONE : MEMBER_DELETE;
    c->version = row->version;
    c->born = row->born;
    if ((row->flags & ROW_MARKER) != 0)
        add_versioning(row, meta);
}

/* What the marker ended, without the marker. */
static void
as_ended(const struct carried *from, struct object_meta *meta, struct commit *c)
{
    static const struct version none;

    *meta = (struct object_meta){.versioning = DISK_SUSPENDED};
    *c = (struct commit){.kind = MEMBER_VERSION_DELETE,
                         .key = c->key,
                         .meta = meta,
                         .version = c->version,
                         .born = version_cmp(&c->born, &none) == 0 ? c->version : c->born,
                         .carried = from};
}

enum err
carry_commit(const struct carried *from, struct arena *a, struct disk_key *key,
             struct commit *c, struct errbuf *eb)
{
    const struct member *m = from->m;
    struct object_meta *meta = arena_alloc(a, sizeof *meta);
    enum err rc =
        member_meta(from->meta_of != NULL ? from->meta_of : m, a, false, meta, eb);

    if (rc != ERR_OK)
        return rc;
    *key = (struct disk_key){
        .bucket = m->bucket, .birth_name = m->birth_name, .key = m->key};
    *c = (struct commit){.kind = m->kind,
                         .key = key,
                         .meta = meta,
                         .content = m->content,
                         .size = m->size,
                         .payload = m->body,
                         .block_sums = m->block_sums,
                         .place = m->place,
                         .upload = m->upload,
                         .part = m->part,
                         .version = m->version,
                         .born = m->born,
                         .copy = m->copy,
                         .layout = m->layout,
                         .carried = from};
    switch (from->what) {
    case CARRY_MOVE:
    case CARRY_MANIFEST:
    case CARRY_PART:
        as_moved(from, meta, c);
        break;
    case CARRY_END:
        *c = (struct commit){.kind = MEMBER_UPLOAD_ABORT,
                             .key = key,
                             .upload = m->upload,
                             .carried = from};
        break;
    case CARRY_ENDED:
        as_ended(from, meta, c);
        break;
    case CARRY_KEEP:
        if (m->kind == MEMBER_DELETE || m->kind == MEMBER_TOMBSTONE)
            as_delete(&from->row, meta, c);
        break;
    case CARRY_DROP:
    case CARRY_WAIT:
    case CARRY_STUCK:
        break;
    }
    /* Since it was written the body may have moved, and what was newer ended. */
    if (from->by == BY_META) {
        c->version = from->row.version;
        c->place.segment = from->row.segment;
        c->place.offset = from->row.offset;
    }
    return ERR_OK;
}

/* ---- in the moment of writing ---- */

static enum verdict
changed_since(struct commit *c)
{
    return refuse(c, err_set(&c->eb, ERR_PRECONDITION, "changed since it was looked at"));
}

static enum verdict
ask_version(struct changes *changes, struct commit *c)
{
    const struct row *seen = &c->carried->row;
    struct version born = row_born(seen);
    struct row now;
    bool current;
    enum err rc = changes_version(changes, c->key->bucket, c->key->key, &born, &now,
                                  &current, &c->eb);

    if (rc != ERR_OK)
        return rc == ERR_NOT_FOUND ? changed_since(c) : refuse(c, rc);
    if (now.segment != seen->segment || now.offset != seen->offset ||
        version_cmp(&now.version, &seen->version) != 0 ||
        now.meta_segment != seen->meta_segment || now.meta_offset != seen->meta_offset ||
        ((now.flags ^ seen->flags) & (ROW_TOMBSTONE | ROW_KEPT)) != 0 ||
        !content_eq(&now.content, &seen->content))
        return changed_since(c);
    return WRITE;
}

static enum verdict
ask_key(struct changes *changes, struct commit *c)
{
    struct row now;
    enum err rc = changes_current(changes, c->key->bucket, c->key->key, &now, &c->eb);

    if (rc != ERR_OK)
        return rc == ERR_NOT_FOUND ? changed_since(c) : refuse(c, rc);
    return now.flags == c->carried->row.flags &&
                   version_cmp(&now.version, &c->carried->row.version) == 0
               ? WRITE
               : changed_since(c);
}

static enum verdict
ask_unversioned(struct changes *changes, struct commit *c)
{
    struct row now;
    enum err rc = changes_current(changes, c->key->bucket, c->key->key, &now, &c->eb);

    if (rc == ERR_NOT_FOUND)
        return WRITE;
    if (rc != ERR_OK)
        return refuse(c, rc);
    return (now.flags & (ROW_VERSIONED | ROW_SUSPENDED)) == 0 ? WRITE : changed_since(c);
}

static enum verdict
ask_gone(struct changes *changes, struct commit *c)
{
    struct row now;
    bool current;
    enum err rc =
        c->kind == MEMBER_VERSION_DELETE
            ? changes_version(changes, c->key->bucket, c->key->key, &c->born, &now,
                              &current, &c->eb)
            : changes_current(changes, c->key->bucket, c->key->key, &now, &c->eb);

    if (rc == ERR_NOT_FOUND)
        return WRITE;
    if (rc != ERR_OK)
        return refuse(c, rc);
    return carry_is_back(c->kind, &c->version, &now) ? changed_since(c) : WRITE;
}

/* Parts of this group are not visible yet. */
static enum verdict
ask_upload(struct changes *changes, struct commit *c, uint32_t written)
{
    struct disk *d = changes->disk;
    struct carried now = {0};
    enum err rc;

    if (written > 0)
        return DEFERRED;
    rc = c->carried->m->kind == MEMBER_BODY
             ? carry_look_place(d, c->carried->m, &now, &c->eb)
             : carry_look(d, changes->class, c->carried->m, false, &now, &c->eb);
    if (rc != ERR_OK)
        return refuse(c, rc);
    return now.what == CARRY_KEEP ? WRITE : changed_since(c);
}

enum verdict
carry_allowed(struct changes *changes, struct commit *c, uint32_t written)
{
    switch (c->carried->by) {
    case BY_NOTHING:
        return WRITE;
    case BY_VERSION:
    case BY_META:
        return ask_version(changes, c);
    case BY_KEY:
        return ask_key(changes, c);
    case BY_UNVERSIONED:
        return ask_unversioned(changes, c);
    case BY_GONE:
        return ask_gone(changes, c);
    case BY_UPLOAD:
    case BY_PART:
        return ask_upload(changes, c, written);
    case BY_PREPARED:
        if (changes_settles(changes, &c->content))
            return DEFERRED;
        return prepared_has(changes->disk->prepared, &c->content) ? WRITE
                                                                  : changed_since(c);
    }
    return changed_since(c);
}
