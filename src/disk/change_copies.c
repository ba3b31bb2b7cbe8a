#include "disk/change_copies.h"

#include <assert.h>

#include "disk/change_moved.h"
#include "disk/change_upload.h"
#include "disk/change_version.h"
#include "disk/manifest.h"

static void
settle(struct changes *c, const struct member *m, const struct upload_id *upload,
       bool comes)
{
    struct changed_prepared *p = &c->prepared[c->prepared_count++];

    assert(c->prepared_count <= GROUP_MEMBERS);
    *p = (struct changed_prepared){.who = {.content = m->content,
                                           .bucket = m->bucket,
                                           .key = m->key,
                                           .upload = *upload},
                                   .comes = comes};
}

/* It was counted as living by its row in the table `prepared`, and that goes. */
static void
prepared_died(struct changes *c, const struct row *row)
{
    if ((row->flags & (ROW_PARTS | ROW_INLINE)) == 0)
        changes_note_dying(c->disk, c->class, row->segment, row->offset, &row->content);
}

static enum err
apply_prepare(struct changes *c, const struct member *m, struct row *row,
              struct errbuf *eb)
{
    struct prepared_row p = {.bucket = m->bucket, .key = m->key, .upload = m->upload};
    enum err rc = member_row(m, c->class, &p.row, eb);

    if (rc != ERR_OK)
        return rc;
    run_prepared(c->run, &m->content, &p);
    settle(c, m, &m->upload, true);
    *row = p.row;
    return ERR_OK;
}

/* The upload ends with the decision that completes it. `won`: its object is the current one now. */
static enum err
end_prepared_upload(struct changes *c, const struct member *m,
                    const struct prepared_row *p, bool won, struct errbuf *eb)
{
    struct member of_upload = *m;
    struct done_row done = {.bucket = m->bucket, .key = m->key};
    struct manifest kept = {0};
    enum err rc = won ? manifest_load(c->disk, &p->row, &kept, eb) : ERR_OK;

    if (rc == ERR_OK)
        rc = changes_drop_parts(c, m, &p->upload, won ? &kept : NULL, eb);
    if (rc == ERR_OK)
        changes_manifest_lives(c, &kept);
    manifest_fini(&kept);
    if (rc != ERR_OK)
        return rc;
    of_upload.upload = p->upload;
    changes_end_upload(c, &of_upload);
    done.row = p->row;
    done.row.version = m->version;
    done.completed_ms = p->row.mtime_ms;
    run_done(c->run, &p->upload, &done);
    return ERR_OK;
}

/* Does what was prepared become a row, over `now`? Not where the version is here already: then this disk had lost the decision,
 * and a copy came, which may be the repair of the very body that was prepared. */
static bool
decision_wins(const struct row *now, const struct prepared_row *p, const struct member *m)
{
    int order = version_cmp(&now->version, &m->version);

    if (order == 0 && content_eq(&now->content, &m->content))
        return false;
    return order <= 0 || (p->row.flags & (ROW_VERSIONED | ROW_SUSPENDED)) !=
                             0; /* becomes an older one */
}

static enum err
apply_decide(struct changes *c, const struct member *m, struct row *row,
             struct errbuf *eb)
{
    static const struct content_id none;
    char key[DISK_KEY_MAX];
    struct prepared_row p;
    struct row old;
    bool won;
    enum err rc = find_prepared(c->disk->tail, c->disk->index, &m->content, key, &p, eb);

    if (rc == ERR_NOT_FOUND) /* decided before: the index was ahead of the log */
        return ERR_OK;
    if (rc == ERR_OK)
        rc = changes_current(c, m->bucket, m->key, &old, eb);
    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return rc;
    won = rc == ERR_NOT_FOUND || decision_wins(&old, &p, m);
    *row = p.row;
    row->version = m->version;
    rc = ERR_OK;
    if (!content_eq(&p.upload.id, &none))
        rc = end_prepared_upload(c, m, &p, won, eb);
    if (rc != ERR_OK)
        return rc;
    run_prepared(c->run, &m->content, NULL);
    settle(c, m, &p.upload, false);
    if (!won) {
        prepared_died(c, &p.row);
        return ERR_OK;
    }
    return changes_put(c, m, row, eb);
}

static enum err
apply_give_up(struct changes *c, const struct member *m, struct errbuf *eb)
{
    char key[DISK_KEY_MAX];
    struct prepared_row p;
    enum err rc = find_prepared(c->disk->tail, c->disk->index, &m->content, key, &p, eb);

    if (rc == ERR_NOT_FOUND)
        return ERR_OK;
    if (rc != ERR_OK)
        return rc;
    prepared_died(c, &p.row);
    run_prepared(c->run, &m->content, NULL);
    settle(c, m, &p.upload, false);
    return ERR_OK;
}

static enum err
apply_tombstone_end(struct changes *c, const struct member *m, struct row *row,
                    struct errbuf *eb)
{
    enum err rc = changes_current(c, m->bucket, m->key, row, eb);

    if (rc == ERR_NOT_FOUND)
        return ERR_OK;
    if (rc != ERR_OK || (row->flags & ROW_KEPT) == 0 ||
        version_cmp(&row->version, &m->version) != 0)
        return rc;
    row->flags &= ~(uint32_t)ROW_KEPT; /* as it leaves the tail it leaves the disk */
    changes_set_object(c, m->bucket, m->key, row);
    return ERR_OK;
}

/* This disk's copy of a version goes; nobody hears that the object is deleted. Of an older one as well, which the version had
 * replaced here: its record may be gone, when its log was compacted. */
static enum err
apply_obsolete(struct changes *c, const struct member *m, struct row *row,
               struct errbuf *eb)
{
    enum err rc = changes_current(c, m->bucket, m->key, row, eb);
    int order;

    if (rc == ERR_NOT_FOUND)
        return ERR_OK;
    if (rc != ERR_OK || !row_is_object(row))
        return rc;
    order = version_cmp(&row->version, &m->version);
    if (order > 0 || (order == 0 && !content_eq(&row->content, &m->content)) ||
        (order < 0 && (row->flags & (ROW_VERSIONED | ROW_SUSPENDED)) != 0))
        return ERR_OK;
    changes_row_died(c, row);
    *row = (struct row){.flags = ROW_TOMBSTONE | (row->flags & ROW_CACHED),
                        .version = m->version};
    changes_set_object(c, m->bucket, m->key, row);
    return ERR_OK;
}

enum err
changes_copies(struct changes *c, const struct member *m, struct row *row,
               struct errbuf *eb)
{
    switch ((unsigned)m->kind) {
    case MEMBER_PREPARE:
        return apply_prepare(c, m, row, eb);
    case MEMBER_DECIDE:
        return apply_decide(c, m, row, eb);
    case MEMBER_ABORT:
        return apply_give_up(c, m, eb);
    case MEMBER_TOMBSTONE_END:
        return apply_tombstone_end(c, m, row, eb);
    default:
        return apply_obsolete(c, m, row, eb);
    }
}
