#include "disk/judge_copies.h"

#include "disk/change_version.h"
#include "disk/prepare.h"

bool
judge_is_held(struct disk *d, struct commit *c)
{
    if (prepared_count(d->prepared) == 0 || !prepared_has_upload(d->prepared, &c->upload))
        return false;
    c->rc = err_set(
        &c->eb, ERR_BUSY,
        "the upload is being completed: whether that is decided is not known yet");
    return true;
}

/* The row of the key, tombstones included; *exists: there is an object in it. */
static enum err
current(struct changes *changes, struct commit *c, struct row *row, bool *exists)
{
    enum err rc;

    *row = (struct row){0};
    rc = changes_current(changes, c->key->bucket, c->key->key, row, &c->eb);
    *exists = rc == ERR_OK && row_is_object(row);
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static enum verdict
judge_prepare(struct changes *changes, struct commit *c)
{
    struct disk *d = changes->disk;
    struct row row;
    bool exists;
    enum err rc;

    if (prepared_has(d->prepared, &c->content))
        return refuse(c, err_set(&c->eb, ERR_EXISTS, "this body is prepared already"));
    if (prepared_count(d->prepared) + changes->prepared_count >= d->o.undecided_max)
        return refuse(c, err_set(&c->eb, ERR_BUSY,
                                 "%u prepared versions wait for a decision, at most %u",
                                 prepared_count(d->prepared), d->o.undecided_max));
    rc = current(changes, c, &row, &exists);
    if (rc != ERR_OK)
        return refuse(c, rc);
    if (exists && content_eq(&row.content, &c->content))
        return refuse(c, err_set(&c->eb, ERR_EXISTS, "this body is decided already"));
    return WRITE;
}

/* Nothing is prepared under this content: was that so, or has it been decided before? */
static enum verdict
answer_decided(struct changes *changes, struct commit *c)
{
    bool exists;
    enum err rc = current(changes, c, &c->row, &exists);

    if (rc == ERR_OK && c->kind == MEMBER_ABORT && exists &&
        content_eq(&c->row.content, &c->content))
        rc = err_set(&c->eb, ERR_PRECONDITION, "the body is decided: it is the object");
    else if (rc == ERR_OK && c->kind == MEMBER_DECIDE &&
             version_cmp(&c->row.version, &c->version) < 0)
        rc = err_set(&c->eb, ERR_NOT_FOUND,
                     "no body is prepared here under this content id");
    return refuse(c, rc);
}

static enum verdict
judge_decision(struct changes *changes, struct commit *c)
{
    struct disk *d = changes->disk;
    char key[DISK_KEY_MAX];
    struct prepared_row p;
    enum err rc;

    if (!prepared_has(d->prepared, &c->content))
        return answer_decided(changes, c);
    rc = find_prepared(d->tail, d->index, &c->content, key, &p, &c->eb);
    if (rc == ERR_OK && (p.bucket != c->key->bucket || !span_eq(p.key, c->key->key)))
        rc = err_set(&c->eb, ERR_NOT_FOUND, "the body was prepared for another key");
    return rc == ERR_OK ? WRITE : refuse(c, rc);
}

/* An older version of a key with versions takes its place among them; or of one that had all of its versions taken away
 * from here: nobody is told anything by a tombstone that is not kept. */
static bool
may_be_older(const struct commit *c, const struct row *row)
{
    return c->meta != NULL && c->meta->versioning != DISK_UNVERSIONED &&
           ((row->flags & (ROW_VERSIONED | ROW_SUSPENDED)) != 0 || row_is_blank(row));
}

/* A copy of what another disk has decided; never in place of something newer. */
static enum verdict
judge_copy(struct changes *changes, struct commit *c)
{
    struct row row;
    bool exists;
    enum err rc = current(changes, c, &row, &exists);

    if (rc == ERR_OK && version_cmp(&row.version, &c->version) > 0 &&
        !may_be_older(c, &row))
        rc = err_set(&c->eb, ERR_PRECONDITION, "%s of the key is here",
                     exists ? "a newer version" : "the delete");
    c->existed = exists;
    return rc == ERR_OK ? WRITE : refuse(c, rc);
}

static enum verdict
judge_forget(struct changes *changes, struct commit *c)
{
    struct row row;
    bool exists;
    enum err rc = current(changes, c, &row, &exists);

    if (rc == ERR_OK && !exists)
        rc = err_set(&c->eb, ERR_NOT_FOUND, "this disk has no object of the key");
    if (rc == ERR_OK && version_cmp(&row.version, &c->version) != 0)
        rc = err_set(&c->eb, ERR_PRECONDITION, "the object has changed");
    c->content = row.content;
    return rc == ERR_OK ? WRITE : refuse(c, rc);
}

static enum verdict
judge_tombstone_end(struct changes *changes, struct commit *c)
{
    struct row row;
    bool exists;
    enum err rc = current(changes, c, &row, &exists);

    if (rc == ERR_OK && (row.flags & ROW_KEPT) != 0 &&
        version_cmp(&row.version, &c->version) == 0)
        return WRITE;
    return refuse(c, rc);
}

enum verdict
judge_copies(struct changes *changes, struct commit *c, bool *sync)
{
    if (changes_settles(changes, &c->content))
        return DEFERRED;
    switch ((unsigned)c->kind) {
    case MEMBER_PREPARE:
        *sync = true;
        return judge_prepare(changes, c);
    case MEMBER_DECIDE:
        *sync = false; /* after a crash the owner is asked again */
        return judge_decision(changes, c);
    case MEMBER_ABORT: /* a refusal is told behind it; what is still prepared when the owner is lost is kept */
        *sync = true;
        return judge_decision(changes, c);
    case MEMBER_TOMBSTONE_END:
        *sync = false;
        return judge_tombstone_end(changes, c);
    case MEMBER_OBSOLETE:
        *sync = true;
        return judge_forget(changes, c);
    default:
        *sync = true;
        return judge_copy(changes, c);
    }
}
