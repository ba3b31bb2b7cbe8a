#include "disk/judge.h"

#include "disk/carry.h"
#include "disk/judge_copies.h"
#include "disk/judge_version.h"
#include "disk/manifest.h"

static bool
is_upload(const struct commit *c)
{
    static const struct content_id none;

    return !content_eq(&c->upload.id, &none);
}

/* Rule 4 of the format: what makes a cached version obsolete is synced, unless a synced doubt already did. */
static bool
must_sync(const struct commit *c, bool exists, const struct row *old)
{
    if (c->class == DISK_NATIVE || c->kind == MEMBER_DELETE || c->kind == MEMBER_DOUBT)
        return true;
    if (c->kind != MEMBER_PUT && c->kind != MEMBER_COMMIT &&
        c->kind != MEMBER_UPLOAD_COMPLETE)
        return false;
    return exists && (old->flags & ROW_DOUBT) == 0;
}

static bool
is_delete(const struct commit *c)
{
    return c->kind == MEMBER_DELETE || c->kind == MEMBER_TOMBSTONE;
}

/* Does a delete change anything? One that another disk has decided is older than what it decided later. */
static bool
must_say(const struct commit *c, bool exists, const struct row *old)
{
    bool marks = c->meta != NULL && c->meta->versioning != DISK_UNVERSIONED;

    /* A marker takes its place among the versions, however late it comes. */
    if (marks)
        return true;
    if (commit_has_version(c) && version_cmp(&old->version, &c->version) >= 0)
        return false;
    if (exists || c->always || (old->flags & ROW_DOUBT) != 0)
        return true;
    /* A tombstone that others must hear of stays what it is until one that is kept too takes its place. */
    return c->kind == MEMBER_TOMBSTONE && (old->flags & ROW_KEPT) != 0;
}

/* Counts a doubt, before anybody sees it; where a clear is of those until a count, refuses it behind a later one. */
static enum err
judge_doubts(struct changes *changes, struct commit *c)
{
    _Atomic uint32_t *doubts = doubts_of(changes->disk, c->key_hash);

    if (c->kind == MEMBER_DOUBT)
        atomic_fetch_add_explicit(doubts, 1, memory_order_relaxed);
    return c->doubts == NULL ||
                   *c->doubts == atomic_load_explicit(doubts, memory_order_relaxed)
               ? ERR_OK
               : err_set(&c->eb, ERR_PRECONDITION, "the key is in doubt once more");
}

static enum verdict
judge_object(struct changes *changes, struct commit *c, bool *sync)
{
    struct row old;
    enum err rc;
    bool exists;

    changes_expect(changes, c->key->bucket, c->key->key, c->key_hash);
    rc = changes_current(changes, c->key->bucket, c->key->key, &old, &c->eb);
    if (rc == ERR_NOT_FOUND)
        old = (struct row){0};
    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return refuse(c, rc);
    exists = rc == ERR_OK && row_is_object(&old);
    c->existed = exists;
    rc = judge_condition(c->condition, exists, &old, &c->eb);
    if (rc == ERR_OK)
        rc = judge_doubts(changes, c);
    if (rc != ERR_OK)
        return refuse(c, rc);
    if (is_delete(c) && !must_say(c, exists, &old))
        return refuse(c, ERR_OK); /* nothing to delete, nothing to write */
    if (c->kind == MEMBER_DOUBT_CLEAR && (old.flags & ROW_DOUBT) == 0)
        return refuse(c, ERR_OK);
    *sync = must_sync(c, exists, &old);
    return WRITE;
}

/* The parts that the manifest names must be the ones that are there now, and where they are now: compaction may have moved
 * one since the manifest was made. */
static enum err
judge_manifest(struct changes *changes, struct commit *c)
{
    struct manifest m;
    enum err rc = manifest_decode(c->payload, &m, &c->eb);

    for (uint32_t i = 0; rc == ERR_OK && i < m.count; i++) {
        const struct manifest_entry *e = &m.entries[i];
        struct part_row part;

        rc = find_part(changes->disk->tail, changes->disk->index, &c->upload, e->number,
                       &part, &c->eb);
        if (rc == ERR_NO_UPLOAD ||
            (rc == ERR_OK && !content_eq(&part.row.content, &e->content))) {
            rc =
                err_set(&c->eb, ERR_BUSY,
                        "part %u was replaced while the upload was completed", e->number);
        } else if (rc == ERR_OK &&
                   (part.row.segment != e->segment || part.row.offset != e->offset)) {
            c->parts_moved = true;
            rc = err_set(&c->eb, ERR_BUSY,
                         "part %u was moved while the upload was completed", e->number);
        }
    }
    manifest_fini(&m);
    return rc;
}

/* A repeated Complete is answered with what the first one made. */
static enum verdict
answer_from_done(struct changes *changes, struct commit *c)
{
    char key[DISK_KEY_MAX];
    struct done_row done;
    enum err rc = find_done(changes->disk->tail, changes->disk->index, &c->upload, key,
                            &done, &c->eb);

    if (rc == ERR_OK &&
        (done.bucket != c->key->bucket || !span_eq(done.key, c->key->key)))
        rc = ERR_NO_UPLOAD;
    if (rc == ERR_OK)
        c->row = done.row;
    return refuse(c, rc);
}

static enum verdict
judge_upload(struct changes *changes, struct commit *c, uint32_t written, bool *sync)
{
    struct upload_row u;
    enum err rc;

    if (changes_ended(changes, &c->upload))
        return DEFERRED; /* it is looked at again when that is visible */
    rc = find_upload(changes->disk->tail, changes->disk->index, c->key->bucket,
                     c->key->key, &c->upload, &u, &c->eb);
    if (rc == ERR_NO_UPLOAD && c->kind == MEMBER_UPLOAD_COMPLETE)
        return answer_from_done(changes, c);
    if (rc != ERR_OK)
        return refuse(c, rc);
    if (judge_is_held(changes->disk, c))
        return REFUSED;
    if (c->kind == MEMBER_PART)
        return changes_part(changes, &c->upload, c->part) != NULL ? DEFERRED : WRITE;
    /* Parts of this group are not visible yet. */
    if (written > 0)
        return DEFERRED;
    if (c->kind == MEMBER_UPLOAD_ABORT)
        return WRITE;
    rc = judge_manifest(changes, c);
    if (rc != ERR_OK)
        return refuse(c, rc);
    return c->kind == MEMBER_PREPARE || commit_has_version(c)
               ? judge_copies(changes, c, sync)
               : judge_object(changes, c, sync);
}

enum verdict
judge_change(struct changes *changes, struct commit *c, uint32_t written, bool *sync)
{
    enum err rc;

    *sync = c->class == DISK_NATIVE;
    if (c->carried != NULL) {
        *sync =
            false; /* what it stands for is durable until its log goes, and that waits for the index */
        return carry_allowed(changes, c, written);
    }
    switch ((unsigned)c->kind) {
    case MEMBER_UPLOAD_BEGIN:
    case MEMBER_BUCKET:
        return WRITE;
    case MEMBER_PART:
    case MEMBER_UPLOAD_ABORT:
    case MEMBER_UPLOAD_COMPLETE:
        return judge_upload(changes, c, written, sync);
    case MEMBER_META:
    case MEMBER_VERSION_DELETE:
        rc = judge_version(changes, c);
        return rc == ERR_OK ? WRITE : refuse(c, rc);
    case MEMBER_PREPARE:
        return is_upload(c) ? judge_upload(changes, c, written, sync)
                            : judge_copies(changes, c, sync);
    case MEMBER_DECIDE:
    case MEMBER_ABORT:
    case MEMBER_TOMBSTONE_END:
    case MEMBER_OBSOLETE:
        return judge_copies(changes, c, sync);
    case MEMBER_PUT:
    case MEMBER_COMMIT:
        return commit_has_version(c) ? judge_copies(changes, c, sync)
                                     : judge_object(changes, c, sync);
    default:
        return judge_object(changes, c, sync);
    }
}
