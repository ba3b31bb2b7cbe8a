#include "store/wal/precondition.h"

#include <assert.h>

#include "store/core/core.h"
#include "store/index/entry.h"
#include "store/index/find.h"
#include "store/index/suspect.h"
#include "store/record/format.h"
#include "store/record/manifest.h"
#include "store/store_entry.h"
#include "store/wal/change.h"
#include "store/wal/commit.h"
#include "store/wal/precondition_replica.h"
#include "store/wal/precondition_version.h"
#include "store/wal/wal.h"

static bool
is_upload(const struct commit *c)
{
    static const struct content_id none;

    return !content_eq(&c->upload.id, &none);
}

/* Rule 4 of the format: a record that makes a cached version obsolete is synced, unless a synced
 * in-doubt record already announced it. */
static bool
must_sync(const struct commit *c, bool exists, const struct entry *old)
{
    if (c->class == STORE_NATIVE || c->kind == LOG_RECORD_DELETE ||
        c->kind == LOG_RECORD_IN_DOUBT)
        return true;
    if (c->kind != LOG_RECORD_PUT && c->kind != LOG_RECORD_COMMIT &&
        c->kind != LOG_RECORD_UPLOAD_COMPLETE)
        return false;
    return exists && (old->flags & ENTRY_IN_DOUBT) == 0;
}

static bool
is_delete(const struct commit *c)
{
    return c->kind == LOG_RECORD_DELETE || c->kind == LOG_RECORD_TOMBSTONE;
}

/* True if a delete needs a record. A delete that another disk committed does not if the entry
 * here is newer. */
static bool
must_say(const struct commit *c, bool exists, const struct entry *old)
{
    bool marks = c->meta != NULL && c->meta->versioning != STORE_UNVERSIONED;

    /* A delete marker is a version of its own, however late it arrives. */
    if (marks)
        return true;
    if (commit_has_version(c) && version_cmp(&old->version, &c->version) >= 0)
        return false;
    if (exists || (c->kind == LOG_RECORD_TOMBSTONE && c->of.tombstone.always) ||
        (old->flags & ENTRY_IN_DOUBT) != 0)
        return true;
    /* A tombstone that others must receive may only be replaced by one that is kept, too. */
    return c->kind == LOG_RECORD_TOMBSTONE && (old->flags & ENTRY_KEPT) != 0;
}

/* Counts an in-doubt write before it is visible. Rejects a clear if the count has changed since:
 * a later write is in doubt. */
static enum err
check_in_doubt(struct changes *changes, struct commit *c)
{
    _Atomic uint32_t *in_doubt = in_doubt_of(changes->disk, c->key_hash);

    if (c->kind == LOG_RECORD_IN_DOUBT)
        atomic_fetch_add_explicit(in_doubt, 1, memory_order_relaxed);
    if (c->kind == LOG_RECORD_IN_DOUBT_CLEAR && c->of.in_doubt.count != NULL &&
        *c->of.in_doubt.count != atomic_load_explicit(in_doubt, memory_order_relaxed))
        return err_set(&c->eb, ERR_PRECONDITION, "the key is in doubt once more");
    return ERR_OK;
}

/* The record of a change says whether it is a version, a null version or a marker: what a rebuild finds below it may be
 * gone by then. What another disk has committed is taken as it is. */
static bool
is_late(const struct commit *c, const struct entry *old)
{
    return (c->kind == LOG_RECORD_PUT || c->kind == LOG_RECORD_COMMIT || is_delete(c)) &&
           c->relocation == NULL && c->version.epoch == 0 &&
           (c->meta == NULL || c->meta->versioning == STORE_UNVERSIONED) &&
           (old->flags & (ENTRY_VERSIONED | ENTRY_SUSPENDED)) != 0;
}

static enum verdict
check_object(struct changes *changes, struct commit *c, bool *sync)
{
    struct entry old;
    enum err rc;
    bool exists;

    changes_expect(changes, c->key->bucket, c->key->key, c->key_hash);
    rc = changes_current(changes, c->key->bucket, c->key->key, &old, &c->eb);
    if (rc == ERR_NOT_FOUND)
        old = (struct entry){0};
    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return refuse(c, rc);
    if (c->condition != NULL && suspects_any(changes->disk->suspects)) {
        enum err verified = suspects_verify(changes->disk->suspects, c->key_hash,
                                            rc == ERR_OK ? &old : NULL, &c->eb);

        if (verified != ERR_OK)
            return refuse(c, verified);
    }
    exists = rc == ERR_OK && entry_is_object(&old);
    c->existed = exists;
    if (rc == ERR_OK && is_late(c, &old)) {
        c->late = true;
        return refuse(c, err_set(&c->eb, ERR_BUSY, "the key has versions"));
    }
    rc = precondition_check_condition(c->condition, exists, &old, &c->eb);
    if (rc == ERR_OK)
        rc = check_in_doubt(changes, c);
    if (rc != ERR_OK)
        return refuse(c, rc);
    if (is_delete(c) && !must_say(c, exists, &old) &&
        !(suspects_any(changes->disk->suspects) &&
          suspects_has(changes->disk->suspects, c->key_hash)))
        return refuse(c, ERR_OK); /* nothing to delete: no record */
    if (c->kind == LOG_RECORD_IN_DOUBT_CLEAR && (old.flags & ENTRY_IN_DOUBT) == 0)
        return refuse(c, ERR_OK);
    *sync = must_sync(c, exists, &old);
    return VERDICT_WRITE;
}

/* Checks that the parts in the manifest still exist at the named places. Compaction may have
 * moved one since the manifest was made. */
static enum err
check_manifest(struct changes *changes, struct commit *c)
{
    struct manifest m;
    enum err rc = manifest_decode(c->payload, &m, &c->eb);

    for (uint32_t i = 0; rc == ERR_OK && i < m.count; i++) {
        const struct manifest_entry *e = &m.entries[i];
        struct part_entry part;

        rc = find_part(changes->disk->memtable, changes->disk->index, &c->upload,
                       e->number, &part, &c->eb);
        if (rc == ERR_NO_UPLOAD ||
            (rc == ERR_OK && !content_eq(&part.entry.content, &e->content))) {
            rc =
                err_set(&c->eb, ERR_BUSY,
                        "part %u was replaced while the upload was completed", e->number);
        } else if (rc == ERR_OK && (part.entry.place.segment != e->segment ||
                                    part.entry.place.offset != e->offset)) {
            c->of.upload.parts_moved = true;
            rc = err_set(&c->eb, ERR_BUSY,
                         "part %u was moved while the upload was completed", e->number);
        }
    }
    manifest_fini(&m);
    return rc;
}

/* Answers a repeated Complete with the result of the first. */
static enum verdict
reply_from_completed(struct changes *changes, struct commit *c)
{
    char key[STORE_KEY_MAX];
    struct done_entry done;
    enum err rc = find_done(changes->disk->memtable, changes->disk->index, &c->upload,
                            key, &done, &c->eb);

    if (rc == ERR_OK &&
        (done.bucket != c->key->bucket || !span_eq(done.key, c->key->key)))
        rc = ERR_NO_UPLOAD;
    if (rc == ERR_OK)
        c->entry = done.entry;
    return refuse(c, rc);
}

static enum verdict
precondition_check_upload(struct changes *changes, struct commit *c, uint32_t written,
                          bool *sync)
{
    struct upload_entry u;
    enum err rc;

    if (changes_ended(changes, &c->upload))
        return VERDICT_DEFERRED; /* checked again once that batch is visible */
    rc = find_upload(changes->disk->memtable, changes->disk->index, c->key->bucket,
                     c->key->key, &c->upload, &u, &c->eb);
    if (rc == ERR_NO_UPLOAD && c->kind == LOG_RECORD_UPLOAD_COMPLETE)
        return reply_from_completed(changes, c);
    if (rc != ERR_OK)
        return refuse(c, rc);
    if (precondition_upload_is_held(changes->disk, c))
        return VERDICT_REFUSED;
    if (c->kind == LOG_RECORD_PART)
        return changes_part(changes, &c->upload, c->of.upload.part) != NULL
                   ? VERDICT_DEFERRED
                   : VERDICT_WRITE;
    /* Parts of the current batch are not visible yet. */
    if (written > 0)
        return VERDICT_DEFERRED;
    if (c->kind == LOG_RECORD_UPLOAD_ABORT)
        return VERDICT_WRITE;
    rc = check_manifest(changes, c);
    if (rc != ERR_OK)
        return refuse(c, rc);
    return c->kind == LOG_RECORD_PREPARE || commit_has_version(c)
               ? precondition_check_replica(changes, c, sync)
               : check_object(changes, c, sync);
}

/* ---- kinds ---- */

static enum verdict
check_nothing(struct changes *changes, struct commit *c, uint32_t written, bool *sync)
{
    (void)changes, (void)c, (void)written, (void)sync;
    return VERDICT_WRITE;
}

static enum verdict
precondition_check_change(struct changes *changes, struct commit *c, uint32_t written,
                          bool *sync)
{
    (void)written;
    return check_object(changes, c, sync);
}

static enum verdict
check_put(struct changes *changes, struct commit *c, uint32_t written, bool *sync)
{
    (void)written;
    return commit_has_version(c) ? precondition_check_replica(changes, c, sync)
                                 : check_object(changes, c, sync);
}

static enum verdict
check_replica(struct changes *changes, struct commit *c, uint32_t written, bool *sync)
{
    (void)written;
    return precondition_check_replica(changes, c, sync);
}

static enum verdict
precondition_check_prepare(struct changes *changes, struct commit *c, uint32_t written,
                           bool *sync)
{
    return is_upload(c) ? precondition_check_upload(changes, c, written, sync)
                        : precondition_check_replica(changes, c, sync);
}

static enum verdict
check_version(struct changes *changes, struct commit *c, uint32_t written, bool *sync)
{
    enum err rc = precondition_check_version(changes, c);

    (void)written, (void)sync;
    return rc == ERR_OK ? VERDICT_WRITE : refuse(c, rc);
}

/* clang-format off */
static const struct commit_kind kinds[] = {
    [LOG_RECORD_PUT]             = {ARM_NONE,      POINT_RECORD_PUT,             false, false, check_put},
    [LOG_RECORD_COMMIT]          = {ARM_NONE,      POINT_RECORD_COMMIT,          false, false, check_put},
    [LOG_RECORD_DELETE]          = {ARM_NONE,      POINT_RECORD_DELETE,          true,  false, precondition_check_change},
    [LOG_RECORD_META]            = {ARM_VERSION,   POINT_RECORD_OTHER,           false, false, check_version},
    [LOG_RECORD_IN_DOUBT]        = {ARM_NONE,      POINT_RECORD_IN_DOUBT,        true,  false, precondition_check_change},
    [LOG_RECORD_IN_DOUBT_CLEAR]  = {ARM_IN_DOUBT,  POINT_RECORD_OTHER,           true,  false, precondition_check_change},
    [LOG_RECORD_UPLOAD_BEGIN]    = {ARM_UPLOAD,    POINT_RECORD_UPLOAD_BEGIN,    false, true,  check_nothing},
    [LOG_RECORD_PART]            = {ARM_UPLOAD,    POINT_RECORD_PART,            false, true,  precondition_check_upload},
    [LOG_RECORD_UPLOAD_COMPLETE] = {ARM_UPLOAD,    POINT_RECORD_UPLOAD_COMPLETE, false, false, precondition_check_upload},
    [LOG_RECORD_UPLOAD_ABORT]    = {ARM_NONE,      POINT_RECORD_UPLOAD_ABORT,    false, true,  precondition_check_upload},
    [LOG_RECORD_BUCKET]          = {ARM_NONE,      POINT_RECORD_BUCKET,          true,  false, check_nothing},
    [LOG_RECORD_OBSOLETE]        = {ARM_NONE,      POINT_RECORD_OTHER,           true,  false, check_replica},
    [LOG_RECORD_ABORT_PREPARED]  = {ARM_NONE,      POINT_RECORD_OTHER,           true,  true,  check_replica},
    [LOG_RECORD_RELOCATED]       = {ARM_UPLOAD,    POINT_RECORD_OTHER,           false, false, NULL},
    [LOG_RECORD_TOMBSTONE]       = {ARM_TOMBSTONE, POINT_RECORD_DELETE,          true,  false, precondition_check_change},
    [LOG_RECORD_TOMBSTONE_END]   = {ARM_NONE,      POINT_RECORD_OTHER,           true,  false, check_replica},
    [LOG_RECORD_PREPARE]         = {ARM_UPLOAD,    POINT_RECORD_PREPARE,         false, false, precondition_check_prepare},
    [LOG_RECORD_COMMIT_PREPARED] = {ARM_NONE,      POINT_RECORD_COMMIT_PREPARED, true,  false, check_replica},
    [LOG_RECORD_VERSION_DELETE]  = {ARM_VERSION,   POINT_RECORD_OTHER,           true,  false, check_version},
};
/* clang-format on */

const struct commit_kind *
commit_kind_of(enum log_record_kind kind)
{
    assert((unsigned)kind < ARRAY_LEN(kinds));
    assert(kind == LOG_RECORD_RELOCATED || kinds[kind].check != NULL);
    return &kinds[kind];
}

enum verdict
precondition_check(struct changes *changes, struct commit *c, uint32_t written,
                   bool *sync)
{
    assert(c->class == changes->class);
    assert((c->relocation == NULL) == (c->still_holds == NULL));
    *sync = c->class == STORE_NATIVE;
    if (c->relocation != NULL) {
        *sync =
            false; /* no sync: the replaced records stay durable until their log goes, after the
                    * index has them */
        return c->still_holds(changes, c, written);
    }
    return commit_kind_of(c->kind)->check(changes, c, written, sync);
}
