#include "store/wal/change_version.h"

#include "base/hash.h"
#include "store/core/core.h"
#include "store/index/find.h"
#include "store/index/index.h"
#include "store/index/list.h"
#include "store/index/run.h"
#include "store/index/usage.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/segment/read.h"
#include "store/store_entry.h"
#include "store/wal/change.h"

bool
entry_is_version(const struct entry *entry)
{
    return entry_is_object(entry) || (entry->flags & ENTRY_MARKER) != 0;
}

static bool
change_same_version(const struct version *a, const struct version *b)
{
    return version_cmp(a, b) == 0;
}

/* ---- older versions changed by this batch ---- */

static struct changed_version *
change_changed(struct changes *c, uint64_t bucket, struct span key,
               const struct version *born)
{
    uint64_t hash = hash_xxh3(key.at, key.len, bucket);

    for (uint32_t i = 0; i < c->version_count; i++) {
        struct changed_version *v = &c->versions[i];

        if (v->hash == hash && v->bucket == bucket &&
            change_same_version(&v->born, born) && span_eq(v->key, key))
            return v;
    }
    return NULL;
}

/* The key of the row that points to the null version. */
static const struct version null_pointer;

static enum err
find_older(struct changes *c, uint64_t bucket, struct span key,
           const struct version *born, struct entry *out, struct errbuf *eb)
{
    const struct changed_version *v = change_changed(c, bucket, key, born);

    if (v == NULL)
        return find_version(c->disk->memtable, c->disk->index, bucket, key, born, out,
                            eb);
    if (v->gone)
        return ERR_NOT_FOUND;
    *out = v->entry;
    return ERR_OK;
}

/* Updates the bucket's usage for its older versions. */
static void
note_older(struct changes *c, const struct log_record *m, const struct version *born,
           const struct entry *entry)
{
    struct entry before;
    enum err rc;

    if (change_same_version(born, &null_pointer))
        return;
    rc = find_older(c, m->bucket, m->key, born, &before, NULL);
    /* Else the usage is off by one until the next start. */
    if (rc == ERR_OK || rc == ERR_NOT_FOUND)
        usage_note(&c->usage, usage_of_older(m->bucket), rc == ERR_OK ? &before : NULL,
                   entry);
}

static void
set_version(struct changes *c, const struct log_record *m, const struct version *born,
            const struct entry *entry)
{
    struct changed_version *v;

    note_older(c, m, born, entry);
    v = change_changed(c, m->bucket, m->key, born);
    if (v == NULL) {
        if (c->version_count == c->version_room) {
            c->version_room = c->version_room == 0 ? 64 : 2 * c->version_room;
            c->versions = xrealloc(c->versions, c->version_room * sizeof *c->versions);
        }
        v = &c->versions[c->version_count++];
        *v = (struct changed_version){.hash = hash_xxh3(m->key.at, m->key.len, m->bucket),
                                      .bucket = m->bucket,
                                      .key = m->key,
                                      .born = *born};
    }
    v->gone = entry == NULL;
    if (entry != NULL)
        v->entry = *entry;
    run_version(c->run, m->bucket, m->key, born, entry);
}

static enum err
find_older_null(struct changes *c, uint64_t bucket, struct span key, struct entry *out,
                struct errbuf *eb)
{
    enum err rc = find_older(c, bucket, key, &null_pointer, out, eb);
    struct version born;

    if (rc != ERR_OK)
        return rc;
    born = entry_born(out);
    return find_older(c, bucket, key, &born, out, eb);
}

/* Returns the newest older version: of those this batch added and those present before and not
 * removed. */
static enum err
newest_older(struct changes *c, const struct log_record *m, struct entry *out,
             struct errbuf *eb)
{
    struct store *d = c->disk;
    struct version after = {UINT64_MAX, UINT64_MAX}, best = {0}, born;
    struct arena *a = arena_new(KIB(4), KIB(256));
    struct entry *entries;
    uint32_t count;
    bool more = true, found = false;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && more && !found) {
        arena_reset(a);
        rc = list_older(d->memtable, d->index, m->bucket, m->key, &after, 8, a, &entries,
                        &count, &more, eb);
        for (uint32_t i = 0; rc == ERR_OK && i < count && !found; i++) {
            after = entry_born(&entries[i]);
            found = change_changed(c, m->bucket, m->key, &after) == NULL;
            *out = entries[i];
            best = after;
        }
        more = more && count > 0;
    }
    arena_free(&a);
    if (rc == ERR_OK) /* else the look-up could skip a hidden version, or lose the key */
        rc = index_lists_all(d->index, eb);
    for (uint32_t i = 0; rc == ERR_OK && i < c->version_count; i++) {
        const struct changed_version *v = &c->versions[i];

        if (v->bucket != m->bucket || v->gone || !span_eq(v->key, m->key) ||
            change_same_version(&v->born, &null_pointer))
            continue;
        born = v->born;
        if (found && version_cmp(&born, &best) < 0)
            continue;
        *out = v->entry;
        best = born;
        found = true;
    }
    return rc == ERR_OK && !found ? ERR_NOT_FOUND : rc;
}

enum err
changes_version(struct changes *c, uint64_t bucket, struct span key,
                const struct version *born, struct entry *out, bool *current,
                struct errbuf *eb)
{
    enum err rc = changes_current(c, bucket, key, out, eb);
    struct version now;

    *current = false;
    if (rc != ERR_OK)
        return rc;
    now = entry_born(out);
    *current = entry_is_version(out) && (born != NULL ? change_same_version(&now, born)
                                                      : entry_is_null_version(out));
    if (*current)
        return ERR_OK;
    return born != NULL ? find_older(c, bucket, key, born, out, eb)
                        : find_older_null(c, bucket, key, out, eb);
}

/* ---- adding and removing ---- */

void
changes_set_older(struct changes *c, const struct log_record *m,
                  const struct entry *entry)
{
    struct version born = entry_born(entry);

    set_version(c, m, &born, entry);
    if (entry_is_null_version(entry)) {
        struct entry pointer = {.flags = ENTRY_TOMBSTONE, .version = born};

        set_version(c, m, &null_pointer, &pointer);
    }
}

/* Removes an older version: it was deleted or becomes the current one. */
static void
leave_older(struct changes *c, const struct log_record *m, const struct entry *entry)
{
    struct version born = entry_born(entry);

    set_version(c, m, &born, NULL);
    if (entry_is_null_version(entry))
        set_version(c, m, &null_pointer, NULL);
}

static enum err
end_older_null(struct changes *c, const struct log_record *m, struct errbuf *eb)
{
    struct entry entry;
    enum err rc = find_older_null(c, m->bucket, m->key, &entry, eb);

    if (rc == ERR_OK) {
        changes_entry_died(c, &entry);
        leave_older(c, m, &entry);
    }
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

enum err
changes_succeed(struct changes *c, const struct log_record *m, const struct entry *old,
                struct entry *entry, struct errbuf *eb)
{
    const uint32_t known = ENTRY_VERSIONED | ENTRY_SUSPENDED;
    struct version was = entry_born(old), is = entry_born(entry);

    /* This write began before versioning was on. */
    if ((old->flags & known) != 0 && (entry->flags & known) == 0)
        entry->flags |=
            ENTRY_SUSPENDED | ((entry->flags & ENTRY_TOMBSTONE) != 0 ? ENTRY_MARKER : 0);
    if (!entry_is_version(old) || change_same_version(&was, &is)) {
        /* The same body may have a new place: a damaged copy was replaced, or compaction moved
         * it. */
        if (!content_eq(&old->content, &entry->content) ||
            old->place.segment != entry->place.segment ||
            old->place.offset != entry->place.offset)
            changes_entry_died(c, old);
        return ERR_OK;
    }
    if ((entry->flags & known) == 0 ||
        ((entry->flags & ENTRY_SUSPENDED) != 0 && entry_is_null_version(old))) {
        changes_entry_died(c, old);
        return ERR_OK;
    }
    changes_set_older(c, m, old);
    return (entry->flags & ENTRY_SUSPENDED) != 0 ? end_older_null(c, m, eb) : ERR_OK;
}

/* Replaces a deleted current version by the newest older one. The promoted entry gets a version
 * newer than the deleted one's. */
static enum err
change_promote(struct changes *c, const struct log_record *m, struct entry *entry,
               struct errbuf *eb)
{
    struct entry next;
    enum err rc = newest_older(c, m, &next, eb);

    *entry = (struct entry){.flags = ENTRY_TOMBSTONE, .version = m->version};
    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return rc;
    if (rc == ERR_OK) {
        leave_older(c, m, &next);
        *entry = next;
        entry->born = entry_born(&next);
        entry->version = m->version;
        /* Removal from `versions` counts the body as garbage; count it as live again. */
        if ((next.flags & (ENTRY_TOMBSTONE | ENTRY_PARTS)) == 0)
            run_segment(c->run, c->class, next.place.segment, 0, -(int64_t)next.size);
    }
    changes_set_object(c, m->bucket, m->key, entry);
    return ERR_OK;
}

/* Finds the version that a version-delete ends. For the null version this is any present null
 * version up to the named one. The record of the named one may be lost, and with it the end of
 * the one before. */
static enum err
find_ended(struct changes *c, const struct log_record *m, struct entry *entry,
           bool *current, struct errbuf *eb)
{
    struct entry said;
    struct version born;
    enum err rc = record_entry(m, c->class, &said, eb); /* for its versioning flags */

    if (rc != ERR_OK)
        return rc;
    if ((said.flags & ENTRY_SUSPENDED) == 0)
        return changes_version(c, m->bucket, m->key, &m->born, entry, current, eb);
    rc = changes_version(c, m->bucket, m->key, NULL, entry, current, eb);
    born = entry_born(entry);
    return rc == ERR_OK && version_cmp(&born, &m->born) > 0 ? ERR_NOT_FOUND : rc;
}

enum err
changes_version_delete(struct changes *c, const struct log_record *m, struct entry *entry,
                       struct errbuf *eb)
{
    bool current;
    enum err rc = find_ended(c, m, entry, &current, eb);
    struct entry ended = *entry;

    if (rc == ERR_NOT_FOUND)
        return ERR_OK;
    if (rc == ERR_OK && current)
        rc = change_promote(c, m, entry, eb);
    if (rc != ERR_OK)
        return rc;
    changes_entry_died(c, &ended);
    if (current)
        return ERR_OK;
    leave_older(c, m, entry);
    return changes_current(c, m->bucket, m->key, entry, eb);
}

enum err
changes_insert(struct changes *c, const struct log_record *m, struct entry *entry,
               struct errbuf *eb)
{
    struct entry now;
    struct version born = entry_born(entry), at;
    enum err rc = changes_current(c, m->bucket, m->key, &now, eb);

    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return rc;
    at = entry_born(&now);
    /* The same version is present with newer metadata. */
    if (rc == ERR_OK && change_same_version(&at, &born) &&
        version_cmp(&now.version, &entry->version) > 0)
        return ERR_OK;
    if (rc == ERR_NOT_FOUND || version_cmp(&at, &born) <= 0 || entry_is_blank(&now)) {
        /* Of two entries of a key the one with the higher version wins. So an entry whose
         * metadata changed after this write must not keep the higher version. */
        if (rc == ERR_OK && version_cmp(&now.version, &entry->version) > 0) {
            entry->born = born;
            entry->version = now.version;
        }
        rc = rc == ERR_OK ? changes_succeed(c, m, &now, entry, eb) : ERR_OK;
        if (rc == ERR_OK)
            changes_set_object(c, m->bucket, m->key, entry);
        return rc;
    }
    /* A newer version is current. Without versioning, or if both are null versions, it replaced
     * this one. */
    if ((now.flags & (ENTRY_VERSIONED | ENTRY_SUSPENDED)) == 0)
        return ERR_OK;
    if (entry_is_null_version(entry)) {
        struct entry other;

        if (entry_is_null_version(&now))
            return ERR_OK;
        rc = find_older_null(c, m->bucket, m->key, &other, eb);
        if (rc != ERR_NOT_FOUND) {
            at = entry_born(&other);
            if (rc != ERR_OK || version_cmp(&at, &born) > 0)
                return rc;
            rc = end_older_null(c, m, eb);
            if (rc != ERR_OK)
                return rc;
        }
    }
    changes_set_older(c, m, entry);
    return ERR_OK;
}

/* Returns the version at which the entry's metadata was set. The entry's own version may be
 * higher: promotion gives it the version of the delete above it. Replay does the same if it
 * meets a relocated newer version after its delete. */
static struct version
meta_since(struct changes *c, const struct entry *entry)
{
    struct entry at = *entry;
    struct loaded l;
    struct errbuf eb = {0};
    struct version v = entry->version;

    if ((entry->flags & ENTRY_META_APART) == 0)
        return entry_born(entry);
    at.place.segment = entry->place.meta_segment;
    at.place.offset = entry->place.meta_offset;
    if (read_log_record_quiet(c->disk, &at, false, &l, &eb) != ERR_OK)
        return v;
    v = l.m.version;
    loaded_fini(&l);
    return v;
}

enum err
changes_meta(struct changes *c, const struct log_record *m, struct entry *entry,
             struct errbuf *eb)
{
    struct entry old;
    bool current;
    enum err rc = record_entry(m, c->class, entry, eb);

    if (rc != ERR_OK)
        return rc;
    rc = changes_version(c, m->bucket, m->key, &m->born, &old, &current, eb);
    if (rc == ERR_NOT_FOUND)
        return changes_insert(c, m, entry, eb);
    if (rc != ERR_OK)
        return rc;
    if (version_cmp(&old.version, &entry->version) > 0) {
        struct version since = meta_since(c, &old);

        if (version_cmp(&since, &entry->version) > 0)
            return ERR_OK;
        entry->version = old.version;
    }
    /* The body may have moved since the record was written; the present entry has the right
     * place. */
    entry->place.segment = old.place.segment;
    entry->place.offset = old.place.offset;
    entry->overwrites = old.overwrites;
    entry->flags = (entry->flags & ~(uint32_t)ENTRY_INLINE) | (old.flags & ENTRY_INLINE);
    if (current)
        changes_set_object(c, m->bucket, m->key, entry);
    else
        changes_set_older(c, m, entry);
    return ERR_OK;
}
