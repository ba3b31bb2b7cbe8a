#include "store/wal/precondition_replica.h"

#include "store/core/core.h"
#include "store/index/entry.h"
#include "store/index/find.h"
#include "store/record/format.h"
#include "store/store_entry.h"
#include "store/wal/change.h"
#include "store/wal/change_version.h"
#include "store/wal/commit.h"
#include "store/wal/precondition.h"
#include "store/wal/prepared.h"

bool
precondition_upload_is_held(struct store *d, struct commit *c)
{
    if (prepared_count(d->prepared) == 0 || !prepared_has_upload(d->prepared, &c->upload))
        return false;
    c->rc = err_set(&c->eb, ERR_BUSY,
                    "the upload is being completed: its outcome is not known yet");
    return true;
}

/* Reads the entry of the key, tombstones included. *exists: it holds an object. */
static enum err
precondition_current(struct changes *changes, struct commit *c, struct entry *entry,
                     bool *exists)
{
    enum err rc;

    *entry = (struct entry){0};
    rc = changes_current(changes, c->key->bucket, c->key->key, entry, &c->eb);
    *exists = rc == ERR_OK && entry_is_object(entry);
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static enum verdict
precondition_check_prepare(struct changes *changes, struct commit *c)
{
    struct store *d = changes->disk;
    struct entry entry;
    bool exists;
    enum err rc;

    if (prepared_has(d->prepared, &c->content))
        return refuse(c, err_set(&c->eb, ERR_EXISTS, "this body is prepared already"));
    if (prepared_count(d->prepared) + changes->prepared_count >= d->o.prepared_max)
        return refuse(c, err_set(&c->eb, ERR_BUSY,
                                 "%u prepared versions wait for a decision, at most %u",
                                 prepared_count(d->prepared), d->o.prepared_max));
    rc = precondition_current(changes, c, &entry, &exists);
    if (rc != ERR_OK)
        return refuse(c, rc);
    if (exists && content_eq(&entry.content, &c->content))
        return refuse(c, err_set(&c->eb, ERR_EXISTS, "this body is committed already"));
    return VERDICT_WRITE;
}

/* Handles a commit without a prepared version: either it was never prepared or it was committed
 * before. */
static enum verdict
reply_committed(struct changes *changes, struct commit *c)
{
    bool exists;
    enum err rc = precondition_current(changes, c, &c->entry, &exists);

    if (rc == ERR_OK && c->kind == LOG_RECORD_ABORT_PREPARED && exists &&
        content_eq(&c->entry.content, &c->content))
        rc = err_set(&c->eb, ERR_PRECONDITION, "the body is committed: it is the object");
    else if (rc == ERR_OK && c->kind == LOG_RECORD_COMMIT_PREPARED &&
             version_cmp(&c->entry.version, &c->version) < 0)
        rc = err_set(&c->eb, ERR_NOT_FOUND,
                     "no body is prepared here under this content id");
    return refuse(c, rc);
}

static enum verdict
check_commit_prepared(struct changes *changes, struct commit *c)
{
    struct store *d = changes->disk;
    char key[STORE_KEY_MAX];
    struct prepared_entry p;
    enum err rc;

    if (!prepared_has(d->prepared, &c->content))
        return reply_committed(changes, c);
    rc = find_prepared(d->memtable, d->index, &c->content, key, &p, &c->eb);
    if (rc == ERR_OK && (p.bucket != c->key->bucket || !span_eq(p.key, c->key->key)))
        rc = err_set(&c->eb, ERR_NOT_FOUND, "the body was prepared for another key");
    return rc == ERR_OK ? VERDICT_WRITE : refuse(c, rc);
}

/* True if the record may add an older version: the key has versions, or all of its versions were
 * removed here. In the latter case the entry is a tombstone that is not kept; no other replica
 * needs it. */
static bool
may_be_older(const struct commit *c, const struct entry *entry)
{
    return c->meta != NULL && c->meta->versioning != STORE_UNVERSIONED &&
           ((entry->flags & (ENTRY_VERSIONED | ENTRY_SUSPENDED)) != 0 ||
            entry_is_blank(entry));
}

/* Checks a copy of what another disk committed. It never replaces something newer. */
static enum verdict
precondition_check_copy(struct changes *changes, struct commit *c)
{
    struct entry entry;
    bool exists;
    enum err rc = precondition_current(changes, c, &entry, &exists);

    if (rc == ERR_OK && version_cmp(&entry.version, &c->version) > 0 &&
        !may_be_older(c, &entry))
        rc = err_set(&c->eb, ERR_PRECONDITION, "%s of the key is here",
                     exists ? "a newer version" : "the delete");
    c->existed = exists;
    return rc == ERR_OK ? VERDICT_WRITE : refuse(c, rc);
}

static enum verdict
check_drop_replica(struct changes *changes, struct commit *c)
{
    struct entry entry;
    bool exists;
    enum err rc = precondition_current(changes, c, &entry, &exists);

    if (rc == ERR_OK && !exists)
        rc = err_set(&c->eb, ERR_NOT_FOUND, "this disk has no object of the key");
    if (rc == ERR_OK && version_cmp(&entry.version, &c->version) != 0)
        rc = err_set(&c->eb, ERR_PRECONDITION, "the object has changed");
    c->content = entry.content;
    return rc == ERR_OK ? VERDICT_WRITE : refuse(c, rc);
}

static enum verdict
check_tombstone_drop(struct changes *changes, struct commit *c)
{
    struct entry entry;
    bool exists;
    enum err rc = precondition_current(changes, c, &entry, &exists);

    if (rc == ERR_OK && (entry.flags & ENTRY_KEPT) != 0 &&
        version_cmp(&entry.version, &c->version) == 0)
        return VERDICT_WRITE;
    return refuse(c, rc);
}

enum verdict
precondition_check_replica(struct changes *changes, struct commit *c, bool *sync)
{
    if (changes_resolves(changes, &c->content))
        return VERDICT_DEFERRED;
    switch ((unsigned)c->kind) {
    case LOG_RECORD_PREPARE:
        *sync = true;
        return precondition_check_prepare(changes, c);
    case LOG_RECORD_COMMIT_PREPARED:
        *sync = false; /* after a crash the node resolves it with the owner again */
        return check_commit_prepared(changes, c);
    /* The rejection is reported after it; if the owner is lost, a version still prepared is
     * kept. */
    case LOG_RECORD_ABORT_PREPARED:
        *sync = true;
        return check_commit_prepared(changes, c);
    case LOG_RECORD_TOMBSTONE_END:
        *sync = false;
        return check_tombstone_drop(changes, c);
    case LOG_RECORD_OBSOLETE:
        *sync = true;
        return check_drop_replica(changes, c);
    default:
        *sync = true;
        return precondition_check_copy(changes, c);
    }
}
