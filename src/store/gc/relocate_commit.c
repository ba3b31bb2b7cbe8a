/* relocate_commit: builds the record that replaces a moved one, and checks that it may still be
 * written. */

#include <assert.h>

#include "store/core/core.h"
#include "store/gc/relocate.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/store_entry.h"
#include "store/store_upload.h"
#include "store/wal/change.h"
#include "store/wal/change_version.h"
#include "store/wal/commit.h"
#include "store/wal/precondition.h"
#include "store/wal/prepared.h"

static enum verdict relocate_still_holds(struct changes *changes, struct commit *c,
                                         uint32_t written);

/* ---- the replacement ---- */

/* Adds what the entry has and the record lacks: the bucket's versioning was suspended. */
static void
add_versioning(const struct entry *entry, struct object_meta *meta)
{
    if ((entry->flags & ENTRY_VERSIONED) != 0)
        meta->versioning = STORE_VERSIONED;
    else if ((entry->flags & ENTRY_SUSPENDED) != 0)
        meta->versioning = STORE_SUSPENDED;
}

static void
commit_as_relocation(const struct relocation *from, struct object_meta *meta,
                     struct commit *c)
{
    const struct entry *entry = &from->entry;

    c->kind = LOG_RECORD_RELOCATED;
    c->old_place = relocate_old_place(from);
    /* Not part of an object yet: the version is meaningless. */
    if (from->what == RELOCATE_PART)
        c->version = (struct version){.counter = 1};
    else
        c->version = entry->version;
    if (from->what != RELOCATE_PART) {
        c->born = entry->born;
        add_versioning(entry, meta);
    }
    /* Also for a committed prepare without an upload. */
    if (from->what == RELOCATE_MOVE) {
        c->upload = (struct upload_id){0};
        c->of.upload.part = 0;
    }
    if (from->what == RELOCATE_MANIFEST)
        c->of.upload.part = 0;
}

/* Takes the fields of the present entry. A delete from before versioning was known also left a
 * marker. Metadata changes and ends of newer versions raised its version. A tombstone that every
 * replica has applied is not kept any more. */
static void
commit_as_delete(const struct entry *entry, struct object_meta *meta, struct commit *c)
{
    assert((entry->flags & ENTRY_TOMBSTONE) != 0);
    c->kind = (entry->flags & ENTRY_KEPT) != 0 ? LOG_RECORD_TOMBSTONE : LOG_RECORD_DELETE;
    c->version = entry->version;
    c->born = entry->born;
    if ((entry->flags & ENTRY_MARKER) != 0)
        add_versioning(entry, meta);
}

/* Keeps what the marker ended, without the marker. */
static void
commit_as_version_end(const struct relocation *from, struct object_meta *meta,
                      struct commit *c)
{
    static const struct version none;

    *meta = (struct object_meta){.versioning = STORE_SUSPENDED};
    *c = (struct commit){.kind = LOG_RECORD_VERSION_DELETE,
                         .key = c->key,
                         .meta = meta,
                         .version = c->version,
                         .born = version_cmp(&c->born, &none) == 0 ? c->version : c->born,
                         .relocation = from,
                         .still_holds = relocate_still_holds};
}

enum err
relocate_commit(const struct relocation *from, struct arena *a, struct store_key *key,
                struct commit *c, struct errbuf *eb)
{
    const struct log_record *m = from->m;
    struct object_meta *meta = arena_alloc(a, sizeof *meta);
    enum err rc =
        log_record_meta(from->meta_of != NULL ? from->meta_of : m, a, false, meta, eb);

    assert(m != NULL);
    assert(from->what != RELOCATE_DROP);
    assert(from->what != RELOCATE_STUCK);
    if (rc != ERR_OK)
        return rc;
    *key = (struct store_key){
        .bucket = m->bucket, .immutable_name = m->immutable_name, .key = m->key};
    *c = (struct commit){
        .kind = m->kind,
        .key = key,
        .meta = meta,
        .content = m->content,
        .size = m->size,
        .payload = m->body,
        .block_sums = m->block_sums,
        .place = m->place,
        .upload = m->upload,
        .of.upload = {.part = m->part, .copy = m->copy, .coordinator = m->coordinator},
        .version = m->version,
        .born = m->born,
        .layout = m->layout,
        .relocation = from,
        .still_holds = relocate_still_holds};
    switch (from->what) {
    case RELOCATE_MOVE:
    case RELOCATE_MANIFEST:
    case RELOCATE_PART:
        commit_as_relocation(from, meta, c);
        break;
    case RELOCATE_END:
        *c = (struct commit){.kind = LOG_RECORD_UPLOAD_ABORT,
                             .key = key,
                             .upload = m->upload,
                             .relocation = from,
                             .still_holds = relocate_still_holds};
        break;
    case RELOCATE_ENDED:
        commit_as_version_end(from, meta, c);
        break;
    case RELOCATE_KEEP:
        if (m->kind == LOG_RECORD_DELETE || m->kind == LOG_RECORD_TOMBSTONE)
            commit_as_delete(&from->entry, meta, c);
        break;
    case RELOCATE_WAIT:
        /* A tombstone that must be kept is KEEP. One that every replica has applied still hides older records here,
         * as a delete does. As a tombstone it would be kept once more, and nothing would end it. */
        if (m->kind == LOG_RECORD_TOMBSTONE)
            c->kind = LOG_RECORD_DELETE;
        break;
    case RELOCATE_DROP:
    case RELOCATE_STUCK:
        break;
    }
    /* Since the record was written the body may have moved, and newer versions may have ended. */
    if (from->by == RELOCATE_BY_META) {
        c->version = from->entry.version;
        c->place.segment = from->entry.place.segment;
        c->place.offset = from->entry.place.offset;
    }
    return ERR_OK;
}

/* ---- check at the time of writing ---- */

static enum verdict
changed_since(struct commit *c)
{
    return refuse(c, err_set(&c->eb, ERR_PRECONDITION, "changed since it was looked at"));
}

static enum verdict
still_same_version(struct changes *changes, struct commit *c)
{
    const struct entry *seen = &c->relocation->entry;
    struct version born = entry_born(seen);
    struct entry now;
    bool current;
    enum err rc = changes_version(changes, c->key->bucket, c->key->key, &born, &now,
                                  &current, &c->eb);

    if (rc != ERR_OK)
        return rc == ERR_NOT_FOUND ? changed_since(c) : refuse(c, rc);
    if (now.place.segment != seen->place.segment ||
        now.place.offset != seen->place.offset ||
        version_cmp(&now.version, &seen->version) != 0 ||
        now.place.meta_segment != seen->place.meta_segment ||
        now.place.meta_offset != seen->place.meta_offset ||
        ((now.flags ^ seen->flags) & (ENTRY_TOMBSTONE | ENTRY_KEPT)) != 0 ||
        !content_eq(&now.content, &seen->content))
        return changed_since(c);
    return VERDICT_WRITE;
}

static enum verdict
still_same_key(struct changes *changes, struct commit *c)
{
    struct entry now;
    enum err rc = changes_current(changes, c->key->bucket, c->key->key, &now, &c->eb);

    if (rc != ERR_OK)
        return rc == ERR_NOT_FOUND ? changed_since(c) : refuse(c, rc);
    return now.flags == c->relocation->entry.flags &&
                   version_cmp(&now.version, &c->relocation->entry.version) == 0
               ? VERDICT_WRITE
               : changed_since(c);
}

static enum verdict
still_unversioned(struct changes *changes, struct commit *c)
{
    struct entry now;
    enum err rc = changes_current(changes, c->key->bucket, c->key->key, &now, &c->eb);

    if (rc == ERR_NOT_FOUND)
        return VERDICT_WRITE;
    if (rc != ERR_OK)
        return refuse(c, rc);
    return (now.flags & (ENTRY_VERSIONED | ENTRY_SUSPENDED)) == 0 ? VERDICT_WRITE
                                                                  : changed_since(c);
}

static enum verdict
still_gone(struct changes *changes, struct commit *c)
{
    struct entry now;
    bool current;
    enum err rc =
        c->kind == LOG_RECORD_VERSION_DELETE
            ? changes_version(changes, c->key->bucket, c->key->key, &c->born, &now,
                              &current, &c->eb)
            : changes_current(changes, c->key->bucket, c->key->key, &now, &c->eb);

    if (rc == ERR_NOT_FOUND)
        return VERDICT_WRITE;
    if (rc != ERR_OK)
        return refuse(c, rc);
    return relocate_is_superseded(c->kind, &c->version, &now) ? changed_since(c)
                                                              : VERDICT_WRITE;
}

/* Parts of this batch are not visible yet. */
static enum verdict
still_open_upload(struct changes *changes, struct commit *c, uint32_t written)
{
    struct store *d = changes->disk;
    struct relocation now = {0};
    enum err rc;

    if (written > 0)
        return VERDICT_DEFERRED;
    rc =
        c->relocation->m->kind == LOG_RECORD_BODY
            ? relocate_classify_body(d, c->relocation->m, &now, &c->eb)
            : relocate_classify(d, changes->class, c->relocation->m, false, &now, &c->eb);
    if (rc != ERR_OK)
        return refuse(c, rc);
    return now.what == RELOCATE_KEEP ? VERDICT_WRITE : changed_since(c);
}

static enum verdict
relocate_still_holds(struct changes *changes, struct commit *c, uint32_t written)
{
    assert(c->relocation != NULL);
    switch (c->relocation->by) {
    case RELOCATE_BY_NOTHING:
        return VERDICT_WRITE;
    case RELOCATE_BY_VERSION:
    case RELOCATE_BY_META:
        return still_same_version(changes, c);
    case RELOCATE_BY_KEY:
        return still_same_key(changes, c);
    case RELOCATE_BY_UNVERSIONED:
        return still_unversioned(changes, c);
    case RELOCATE_BY_GONE:
        return still_gone(changes, c);
    case RELOCATE_BY_UPLOAD:
    case RELOCATE_BY_PART:
        return still_open_upload(changes, c, written);
    case RELOCATE_BY_PREPARED:
        if (changes_resolves(changes, &c->content))
            return VERDICT_DEFERRED;
        return prepared_has(changes->disk->prepared, &c->content) ? VERDICT_WRITE
                                                                  : changed_since(c);
    }
    return changed_since(c);
}
