#include "disk/judge_version.h"

#include "disk/change_version.h"

static bool
etag_is_one_of(const struct disk_condition *c, const struct row *row)
{
    if ((row->flags & ROW_ETAG_TEXT) != 0)
        return false;
    for (uint32_t i = 0; i < c->etag_count; i++)
        if (c->etags[i].parts == row->parts &&
            memcmp(c->etags[i].md5, row->md5, sizeof row->md5) == 0)
            return true;
    return false;
}

/* S3's: about what the object is, not which. */
static enum err
judge_state(const struct disk_condition *c, bool exists, const struct row *row,
            struct errbuf *eb)
{
    if (!c->if_exists && c->etag_count == 0 && !c->if_size && !c->if_mtime)
        return ERR_OK;
    if (!exists)
        return c->or_absent ? ERR_OK
                            : err_set(eb, ERR_NOT_FOUND, "the object does not exist");
    if (c->etag_count > 0 && !etag_is_one_of(c, row))
        return err_set(eb, ERR_PRECONDITION, "the object has another ETag");
    if (c->if_size && row->size != c->size)
        return err_set(eb, ERR_PRECONDITION, "the object has another size");
    if (c->if_mtime && row->mtime_ms / 1000 != c->mtime_s)
        return err_set(eb, ERR_PRECONDITION, "the object was modified at another time");
    return ERR_OK;
}

enum err
judge_condition(const struct disk_condition *c, bool exists, const struct row *row,
                struct errbuf *eb)
{
    if (c == NULL)
        return ERR_OK;
    if (c->if_absent && exists)
        return err_set(eb, ERR_PRECONDITION, "the object exists");
    if (c->if_content && !exists)
        return err_set(eb, ERR_NOT_FOUND, "the object does not exist");
    if (c->if_content && !content_eq(&row->content, &c->content))
        return err_set(eb, ERR_PRECONDITION, "the object has changed");
    if (c->if_version) {
        /* A key in doubt has a version without an object: disk_lookup() gave it out. */
        struct version now =
            exists || (row->flags & ROW_DOUBT) != 0 ? row->version : (struct version){0};

        if (version_cmp(&now, &c->version) != 0)
            return err_set(eb, ERR_PRECONDITION, "the object has changed");
    }
    return judge_state(c, exists, row, eb);
}

/* The record stands alone: it names the body, and what the version was born with. */
static void
fill_meta(struct commit *c)
{
    const struct row *row = &c->was;

    c->content = row->content;
    c->size = row->size;
    c->layout = (row->flags & ROW_PARTS) != 0 ? LAYOUT_PARTS : LAYOUT_PLAIN;
    c->place = (struct place){.segment = row->segment,
                              .offset = row->offset,
                              .span = (row->flags & ROW_INLINE) != 0 ? 0 : 1};
    c->stamped->versioning = (row->flags & ROW_VERSIONED) != 0   ? DISK_VERSIONED
                             : (row->flags & ROW_SUSPENDED) != 0 ? DISK_SUSPENDED
                                                                 : DISK_UNVERSIONED;
}

enum err
judge_version(struct changes *k, struct commit *c)
{
    bool current;
    enum err rc;

    if (c->current_version)
        rc = changes_current(k, c->key->bucket, c->key->key, &c->was, &c->eb);
    else
        rc = changes_version(k, c->key->bucket, c->key->key, c->which, &c->was, &current,
                             &c->eb);
    if (rc == ERR_OK && c->kind == MEMBER_META && !row_is_object(&c->was))
        rc = ERR_NOT_FOUND;
    if (rc == ERR_NOT_FOUND)
        return err_set(&c->eb, rc, "the version does not exist");
    if (rc == ERR_OK && c->version.epoch == 0) /* what another disk decided, it judged */
        rc = judge_condition(c->condition, row_is_object(&c->was), &c->was, &c->eb);
    if (rc != ERR_OK)
        return rc;
    c->existed = true;
    c->born = row_born(&c->was);
    if (c->kind == MEMBER_META) {
        fill_meta(c);
    } else if (row_is_null_version(&c->was) && c->stamped != NULL) {
        c->stamped->versioning = DISK_SUSPENDED;
        c->meta = c->stamped;
    }
    return ERR_OK;
}
