#include "store/wal/change_replica.h"

#include "store/index/entry.h"
#include "store/index/find.h"
#include "store/index/run.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/record/manifest.h"
#include "store/segment/read.h"
#include "store/store_entry.h"
#include "store/wal/change.h"
#include "store/wal/change_relocation.h"
#include "store/wal/change_upload.h"
#include "store/wal/change_version.h"
#include <assert.h>

static void
change_resolve(struct changes *c, const struct log_record *m,
               const struct upload_id *upload, bool comes)
{
    struct changed_prepared *p = &c->prepared[c->prepared_count++];

    assert(c->prepared_count <= BATCH_RECORDS);
    *p = (struct changed_prepared){.who = {.content = m->content,
                                           .bucket = m->bucket,
                                           .key = m->key,
                                           .upload = *upload},
                                   .comes = comes};
}

/* Removes the entry in the table `prepared`, which counted the body as live. */
static void
prepared_died(struct changes *c, const struct entry *entry)
{
    if ((entry->flags & (ENTRY_PARTS | ENTRY_INLINE)) == 0)
        changes_note_garbage(c->disk, c->class, entry->place.segment, entry->place.offset,
                             &entry->content);
}

static enum err
apply_prepare(struct changes *c, const struct log_record *m, struct entry *entry,
              struct errbuf *eb)
{
    struct prepared_entry p = {.bucket = m->bucket,
                               .key = m->key,
                               .upload = m->upload,
                               .coordinator = m->coordinator};
    enum err rc = record_entry(m, c->class, &p.entry, eb);

    if (rc != ERR_OK)
        return rc;
    run_prepared(c->run, &m->content, &p);
    change_resolve(c, m, &m->upload, true);
    *entry = p.entry;
    return ERR_OK;
}

/* Ends the upload with the commit that completes it. `won`: its object is the current one now. */
static enum err
end_prepared_upload(struct changes *c, const struct log_record *m,
                    const struct prepared_entry *p, bool won, struct errbuf *eb)
{
    struct log_record of_upload = *m;
    struct done_entry done = {.bucket = m->bucket, .key = m->key};
    struct manifest kept = {0};
    enum err rc = won ? manifest_load(c->disk, &p->entry, &kept, eb) : ERR_OK;

    if (rc == ERR_OK)
        rc = changes_drop_parts(c, m, &p->upload, won ? &kept : NULL, eb);
    if (rc == ERR_OK)
        changes_manifest_lives(c, &kept);
    manifest_fini(&kept);
    if (rc != ERR_OK)
        return rc;
    of_upload.upload = p->upload;
    changes_end_upload(c, &of_upload);
    done.entry = p->entry;
    done.entry.version = m->version;
    done.completed_ms = p->entry.mtime_ms;
    run_done(c->run, &p->upload, &done);
    return ERR_OK;
}

/* True if the prepared version becomes an entry in place of `now`. False if the version is here
 * already: this disk had lost the commit and received a copy. That copy may be a repair of the
 * prepared body itself. */
static bool
commit_prepared_wins(const struct entry *now, const struct prepared_entry *p,
                     const struct log_record *m)
{
    int order = version_cmp(&now->version, &m->version);

    if (order == 0 && content_eq(&now->content, &m->content))
        return false;
    return order <= 0 || (p->entry.flags & (ENTRY_VERSIONED | ENTRY_SUSPENDED)) !=
                             0; /* becomes an older version */
}

static enum err
apply_commit_prepared(struct changes *c, const struct log_record *m, struct entry *entry,
                      struct errbuf *eb)
{
    static const struct content_id none;
    char key[STORE_KEY_MAX];
    struct prepared_entry p;
    struct entry old;
    bool won;
    enum err rc =
        find_prepared(c->disk->memtable, c->disk->index, &m->content, key, &p, eb);

    if (rc == ERR_NOT_FOUND) /* committed before: the index was ahead of the log */
        return ERR_OK;
    if (rc == ERR_OK)
        rc = changes_current(c, m->bucket, m->key, &old, eb);
    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return rc;
    won = rc == ERR_NOT_FOUND || commit_prepared_wins(&old, &p, m);
    *entry = p.entry;
    entry->version = m->version;
    rc = ERR_OK;
    if (!content_eq(&p.upload.id, &none))
        rc = end_prepared_upload(c, m, &p, won, eb);
    if (rc != ERR_OK)
        return rc;
    run_prepared(c->run, &m->content, NULL);
    change_resolve(c, m, &p.upload, false);
    if (!won) {
        prepared_died(c, &p.entry);
        return ERR_OK;
    }
    return changes_put(c, m, entry, eb);
}

static enum err
apply_abort_prepared(struct changes *c, const struct log_record *m, struct errbuf *eb)
{
    char key[STORE_KEY_MAX];
    struct prepared_entry p;
    enum err rc =
        find_prepared(c->disk->memtable, c->disk->index, &m->content, key, &p, eb);

    if (rc == ERR_NOT_FOUND)
        return ERR_OK;
    if (rc != ERR_OK)
        return rc;
    prepared_died(c, &p.entry);
    run_prepared(c->run, &m->content, NULL);
    change_resolve(c, m, &p.upload, false);
    return ERR_OK;
}

static enum err
apply_tombstone_end(struct changes *c, const struct log_record *m, struct entry *entry,
                    struct errbuf *eb)
{
    enum err rc = changes_current(c, m->bucket, m->key, entry, eb);

    if (rc == ERR_NOT_FOUND)
        return ERR_OK;
    if (rc != ERR_OK || (entry->flags & ENTRY_KEPT) == 0 ||
        version_cmp(&entry->version, &m->version) != 0)
        return rc;
    entry->flags &=
        ~(uint32_t)ENTRY_KEPT; /* leaving the memtable removes it from the disk */
    changes_set_object(c, m->bucket, m->key, entry);
    return ERR_OK;
}

/* Removes this disk's replica of a version; other disks see no delete. Also removes an older
 * entry that the version had replaced here: compaction may have dropped the version's record
 * with its log. */
static enum err
apply_obsolete(struct changes *c, const struct log_record *m, struct entry *entry,
               struct errbuf *eb)
{
    enum err rc = changes_current(c, m->bucket, m->key, entry, eb);
    int order;

    if (rc == ERR_NOT_FOUND)
        return ERR_OK;
    if (rc != ERR_OK || !entry_is_object(entry))
        return rc;
    order = version_cmp(&entry->version, &m->version);
    if (order > 0 || (order == 0 && !content_eq(&entry->content, &m->content)) ||
        (order < 0 && (entry->flags & (ENTRY_VERSIONED | ENTRY_SUSPENDED)) != 0))
        return ERR_OK;
    changes_entry_died(c, entry);
    *entry = (struct entry){.flags = ENTRY_TOMBSTONE | (entry->flags & ENTRY_CACHED),
                            .version = m->version};
    changes_set_object(c, m->bucket, m->key, entry);
    return ERR_OK;
}

enum err
changes_replica(struct changes *c, const struct log_record *m, struct entry *entry,
                struct errbuf *eb)
{
    switch ((unsigned)m->kind) {
    case LOG_RECORD_PREPARE:
        return apply_prepare(c, m, entry, eb);
    case LOG_RECORD_COMMIT_PREPARED:
        return apply_commit_prepared(c, m, entry, eb);
    case LOG_RECORD_ABORT_PREPARED:
        return apply_abort_prepared(c, m, eb);
    case LOG_RECORD_TOMBSTONE_END:
        return apply_tombstone_end(c, m, entry, eb);
    default:
        return apply_obsolete(c, m, entry, eb);
    }
}
