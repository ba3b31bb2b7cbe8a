#include "store/wal/precondition_version.h"

#include <assert.h>

#include "store/core/core.h"
#include "store/index/suspect.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/store_entry.h"
#include "store/wal/change.h"
#include "store/wal/change_version.h"
#include "store/wal/commit.h"

static bool
etag_is_one_of(const struct md5_etag *etags, uint32_t count, const struct entry *entry)
{
    assert(count == 0 || etags != NULL);
    if ((entry->flags & ENTRY_ETAG_TEXT) != 0)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (etags[i].parts == entry->parts &&
            memcmp(etags[i].md5, entry->md5, sizeof entry->md5) == 0)
            return true;
    return false;
}

/* The S3 conditions: they compare the object's properties, not its identity. */
static enum err
check_state(const struct store_condition *c, bool exists, const struct entry *entry,
            struct errbuf *eb)
{
    if (exists && etag_is_one_of(c->none_etags, c->none_count, entry))
        return err_set(eb, ERR_PRECONDITION, "the object has this ETag");
    if (!c->if_exists && c->etag_count == 0 && !c->if_size && !c->if_mtime)
        return ERR_OK;
    if (!exists && c->or_absent && (entry->flags & ENTRY_MARKER) != 0)
        return err_set(eb, ERR_PRECONDITION, "the current version is a delete marker");
    if (!exists)
        return c->or_absent ? ERR_OK
                            : err_set(eb, ERR_NOT_FOUND, "the object does not exist");
    if (c->etag_count > 0 && !etag_is_one_of(c->etags, c->etag_count, entry))
        return err_set(eb, ERR_PRECONDITION, "the object has another ETag");
    if (c->if_size && entry->size != c->size)
        return err_set(eb, ERR_PRECONDITION, "the object has another size");
    if (c->if_mtime && entry->mtime_ms / 1000 != c->mtime_s)
        return err_set(eb, ERR_PRECONDITION, "the object was modified at another time");
    return ERR_OK;
}

enum err
precondition_check_condition(const struct store_condition *c, bool exists,
                             const struct entry *entry, struct errbuf *eb)
{
    if (c == NULL)
        return ERR_OK;
    if (c->if_absent && exists)
        return err_set(eb, ERR_PRECONDITION, "the object exists");
    if (c->if_content && !exists)
        return err_set(eb, ERR_NOT_FOUND, "the object does not exist");
    if (c->if_content && !content_eq(&entry->content, &c->content))
        return err_set(eb, ERR_PRECONDITION, "the object has changed");
    if (c->if_version) {
        /* A key in doubt may have a version but no object; store_lookup() has returned that
         * version. */
        struct version now = exists || (entry->flags & ENTRY_IN_DOUBT) != 0
                                 ? entry->version
                                 : (struct version){0};

        if (version_cmp(&now, &c->version) != 0)
            return err_set(eb, ERR_PRECONDITION, "the object has changed");
    }
    return check_state(c, exists, entry, eb);
}

/* Fills in the fields of a `meta` record. The record must suffice on its own: it names the body
 * and the birth version. */
static void
fill_meta(struct commit *c)
{
    const struct entry *entry = &c->of.version.was;

    c->content = entry->content;
    c->size = entry->size;
    c->layout = (entry->flags & ENTRY_PARTS) != 0 ? LAYOUT_PARTS : LAYOUT_PLAIN;
    c->place = (struct place){.segment = entry->place.segment,
                              .offset = entry->place.offset,
                              .span = (entry->flags & ENTRY_INLINE) != 0 ? 0 : 1};
    c->of.version.stamped->versioning =
        (entry->flags & ENTRY_VERSIONED) != 0   ? STORE_VERSIONED
        : (entry->flags & ENTRY_SUSPENDED) != 0 ? STORE_SUSPENDED
                                                : STORE_UNVERSIONED;
}

enum err
precondition_check_version(struct changes *k, struct commit *c)
{
    bool current;
    enum err rc;

    if (c->of.version.current)
        rc = changes_current(k, c->key->bucket, c->key->key, &c->of.version.was, &c->eb);
    else
        rc = changes_version(k, c->key->bucket, c->key->key, c->of.version.which,
                             &c->of.version.was, &current, &c->eb);
    if ((rc == ERR_OK || rc == ERR_NOT_FOUND) && suspects_any(k->disk->suspects)) {
        enum err verified =
            suspects_verify(k->disk->suspects, c->key_hash,
                            rc == ERR_OK ? &c->of.version.was : NULL, &c->eb);

        if (verified != ERR_OK)
            return verified;
    }
    if (rc == ERR_OK && c->kind == LOG_RECORD_META &&
        !entry_is_object(&c->of.version.was))
        rc = ERR_NOT_FOUND;
    if (rc == ERR_NOT_FOUND)
        return err_set(&c->eb, rc, "the version does not exist");
    if (rc == ERR_OK && c->version.epoch == 0) /* the committing disk has checked it */
        rc = precondition_check_condition(c->condition,
                                          entry_is_object(&c->of.version.was),
                                          &c->of.version.was, &c->eb);
    if (rc != ERR_OK)
        return rc;
    c->existed = true;
    c->born = entry_born(&c->of.version.was);
    if (c->kind == LOG_RECORD_META) {
        fill_meta(c);
    } else if (entry_is_null_version(&c->of.version.was) &&
               c->of.version.stamped != NULL) {
        c->of.version.stamped->versioning = STORE_SUSPENDED;
        c->meta = c->of.version.stamped;
    }
    return ERR_OK;
}
