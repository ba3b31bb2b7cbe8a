#include "disk/change_version.h"

#include "base/hash.h"
#include "disk/read.h"

bool
row_is_version(const struct row *row)
{
    return row_is_object(row) || (row->flags & ROW_MARKER) != 0;
}

static bool
same_version(const struct version *a, const struct version *b)
{
    return version_cmp(a, b) == 0;
}

/* ---- what this group has done to older versions ---- */

static struct changed_version *
changed(struct changes *c, uint64_t bucket, struct span key, const struct version *born)
{
    uint64_t hash = hash_xxh3(key.at, key.len, bucket);

    for (uint32_t i = 0; i < c->version_count; i++) {
        struct changed_version *v = &c->versions[i];

        if (v->hash == hash && v->bucket == bucket && same_version(&v->born, born) &&
            span_eq(v->key, key))
            return v;
    }
    return NULL;
}

static const struct version null_pointer; /* the key of what points to it */

static enum err
find_older(struct changes *c, uint64_t bucket, struct span key,
           const struct version *born, struct row *out, struct errbuf *eb)
{
    const struct changed_version *v = changed(c, bucket, key, born);

    if (v == NULL)
        return find_version(c->disk->tail, c->disk->index, bucket, key, born, out, eb);
    if (v->gone)
        return ERR_NOT_FOUND;
    *out = v->row;
    return ERR_OK;
}

/* What a bucket holds changes with its older versions, too. */
static void
note_older(struct changes *c, const struct member *m, const struct version *born,
           const struct row *row)
{
    struct row before;
    enum err rc;

    if (same_version(born, &null_pointer))
        return;
    rc = find_older(c, m->bucket, m->key, born, &before, NULL);
    if (rc == ERR_OK || rc == ERR_NOT_FOUND) /* else: off by one until the next start */
        usage_note(&c->usage, usage_of_older(m->bucket), rc == ERR_OK ? &before : NULL,
                   row);
}

static void
set_version(struct changes *c, const struct member *m, const struct version *born,
            const struct row *row)
{
    struct changed_version *v;

    note_older(c, m, born, row);
    v = changed(c, m->bucket, m->key, born);
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
    v->gone = row == NULL;
    if (row != NULL)
        v->row = *row;
    run_version(c->run, m->bucket, m->key, born, row);
}

static enum err
find_older_null(struct changes *c, uint64_t bucket, struct span key, struct row *out,
                struct errbuf *eb)
{
    enum err rc = find_older(c, bucket, key, &null_pointer, out, eb);
    struct version born;

    if (rc != ERR_OK)
        return rc;
    born = row_born(out);
    return find_older(c, bucket, key, &born, out, eb);
}

/* The newest of the older ones: of what the group brought, and of what was there and is not gone. */
static enum err
newest_older(struct changes *c, const struct member *m, struct row *out,
             struct errbuf *eb)
{
    struct disk *d = c->disk;
    struct version after = {UINT64_MAX, UINT64_MAX}, best = {0}, born;
    struct arena *a = arena_new(KIB(4), KIB(256));
    struct row *rows;
    uint32_t count;
    bool more = true, found = false;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && more && !found) {
        arena_reset(a);
        rc = list_older(d->tail, d->index, m->bucket, m->key, &after, 8, a, &rows, &count,
                        &more, eb);
        for (uint32_t i = 0; rc == ERR_OK && i < count && !found; i++) {
            after = row_born(&rows[i]);
            found = changed(c, m->bucket, m->key, &after) == NULL;
            *out = rows[i];
            best = after;
        }
        more = more && count > 0;
    }
    arena_free(&a);
    if (rc == ERR_OK) /* else a hidden one would be passed over, or the key be gone */
        rc = index_lists_all(d->index, eb);
    for (uint32_t i = 0; rc == ERR_OK && i < c->version_count; i++) {
        const struct changed_version *v = &c->versions[i];

        if (v->bucket != m->bucket || v->gone || !span_eq(v->key, m->key) ||
            same_version(&v->born, &null_pointer))
            continue;
        born = v->born;
        if (found && version_cmp(&born, &best) < 0)
            continue;
        *out = v->row;
        best = born;
        found = true;
    }
    return rc == ERR_OK && !found ? ERR_NOT_FOUND : rc;
}

enum err
changes_version(struct changes *c, uint64_t bucket, struct span key,
                const struct version *born, struct row *out, bool *current,
                struct errbuf *eb)
{
    enum err rc = changes_current(c, bucket, key, out, eb);
    struct version now;

    *current = false;
    if (rc != ERR_OK)
        return rc;
    now = row_born(out);
    *current = row_is_version(out) &&
               (born != NULL ? same_version(&now, born) : row_is_null_version(out));
    if (*current)
        return ERR_OK;
    return born != NULL ? find_older(c, bucket, key, born, out, eb)
                        : find_older_null(c, bucket, key, out, eb);
}

/* ---- coming and going ---- */

void
changes_set_older(struct changes *c, const struct member *m, const struct row *row)
{
    struct version born = row_born(row);

    set_version(c, m, &born, row);
    if (row_is_null_version(row)) {
        struct row pointer = {.flags = ROW_TOMBSTONE, .version = born};

        set_version(c, m, &null_pointer, &pointer);
    }
}

/* It is no older version any more: gone, or the current one. */
static void
leave_older(struct changes *c, const struct member *m, const struct row *row)
{
    struct version born = row_born(row);

    set_version(c, m, &born, NULL);
    if (row_is_null_version(row))
        set_version(c, m, &null_pointer, NULL);
}

static enum err
end_older_null(struct changes *c, const struct member *m, struct errbuf *eb)
{
    struct row row;
    enum err rc = find_older_null(c, m->bucket, m->key, &row, eb);

    if (rc == ERR_OK) {
        changes_row_died(c, &row);
        leave_older(c, m, &row);
    }
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

enum err
changes_succeed(struct changes *c, const struct member *m, const struct row *old,
                struct row *row, struct errbuf *eb)
{
    const uint32_t known = ROW_VERSIONED | ROW_SUSPENDED;
    struct version was = row_born(old), is = row_born(row);

    /* Begun before versioning was on. */
    if ((old->flags & known) != 0 && (row->flags & known) == 0)
        row->flags |=
            ROW_SUSPENDED | ((row->flags & ROW_TOMBSTONE) != 0 ? ROW_MARKER : 0);
    if (!row_is_version(old) || same_version(&was, &is)) {
        /* The same body may come to another place: a copy was damaged there, or is moved. */
        if (!content_eq(&old->content, &row->content) || old->segment != row->segment ||
            old->offset != row->offset)
            changes_row_died(c, old);
        return ERR_OK;
    }
    if ((row->flags & known) == 0 ||
        ((row->flags & ROW_SUSPENDED) != 0 && row_is_null_version(old))) {
        changes_row_died(c, old);
        return ERR_OK;
    }
    changes_set_older(c, m, old);
    return (row->flags & ROW_SUSPENDED) != 0 ? end_older_null(c, m, eb) : ERR_OK;
}

/* The current version is gone: the newest of the others takes its place, under a version that is newer than what it
 * replaces. */
static enum err
promote(struct changes *c, const struct member *m, struct row *row, struct errbuf *eb)
{
    struct row next;
    enum err rc = newest_older(c, m, &next, eb);

    *row = (struct row){.flags = ROW_TOMBSTONE, .version = m->version};
    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return rc;
    if (rc == ERR_OK) {
        leave_older(c, m, &next);
        *row = next;
        row->born = row_born(&next);
        row->version = m->version;
        /* Leaving `versions` counts it as dead. */
        if ((next.flags & (ROW_TOMBSTONE | ROW_PARTS)) == 0)
            run_segment(c->run, c->class, next.segment, 0, -(int64_t)next.size);
    }
    changes_set_object(c, m->bucket, m->key, row);
    return ERR_OK;
}

/* What a version-delete ends. Where it was the null version, that is whichever there is, up to the one it names: the record of
 * that one may be gone, and with it what had ended the one before. */
static enum err
find_ended(struct changes *c, const struct member *m, struct row *row, bool *current,
           struct errbuf *eb)
{
    struct row said;
    struct version born;
    enum err rc = member_row(m, c->class, &said, eb); /* for its versioning */

    if (rc != ERR_OK)
        return rc;
    if ((said.flags & ROW_SUSPENDED) == 0)
        return changes_version(c, m->bucket, m->key, &m->born, row, current, eb);
    rc = changes_version(c, m->bucket, m->key, NULL, row, current, eb);
    born = row_born(row);
    return rc == ERR_OK && version_cmp(&born, &m->born) > 0 ? ERR_NOT_FOUND : rc;
}

enum err
changes_version_delete(struct changes *c, const struct member *m, struct row *row,
                       struct errbuf *eb)
{
    bool current;
    enum err rc = find_ended(c, m, row, &current, eb);
    struct row ended = *row;

    if (rc == ERR_NOT_FOUND)
        return ERR_OK;
    if (rc == ERR_OK && current)
        rc = promote(c, m, row, eb);
    if (rc != ERR_OK)
        return rc;
    changes_row_died(c, &ended);
    if (current)
        return ERR_OK;
    leave_older(c, m, row);
    return changes_current(c, m->bucket, m->key, row, eb);
}

enum err
changes_insert(struct changes *c, const struct member *m, struct row *row,
               struct errbuf *eb)
{
    struct row now;
    struct version born = row_born(row), at;
    enum err rc = changes_current(c, m->bucket, m->key, &now, eb);

    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return rc;
    at = row_born(&now);
    /* The same, with newer metadata. */
    if (rc == ERR_OK && same_version(&at, &born) &&
        version_cmp(&now.version, &row->version) > 0)
        return ERR_OK;
    if (rc == ERR_NOT_FOUND || version_cmp(&at, &born) <= 0 || row_is_blank(&now)) {
        /* Of two rows of a key the one with the higher version stands: one whose metadata changed later than this was
         * written must not. */
        if (rc == ERR_OK && version_cmp(&now.version, &row->version) > 0) {
            row->born = born;
            row->version = now.version;
        }
        rc = rc == ERR_OK ? changes_succeed(c, m, &now, row, eb) : ERR_OK;
        if (rc == ERR_OK)
            changes_set_object(c, m->bucket, m->key, row);
        return rc;
    }
    /* A newer one is current. Without versioning it replaced this one; so did a newer null version. */
    if ((now.flags & (ROW_VERSIONED | ROW_SUSPENDED)) == 0)
        return ERR_OK;
    if (row_is_null_version(row)) {
        struct row other;

        if (row_is_null_version(&now))
            return ERR_OK;
        rc = find_older_null(c, m->bucket, m->key, &other, eb);
        if (rc != ERR_NOT_FOUND) {
            at = row_born(&other);
            if (rc != ERR_OK || version_cmp(&at, &born) > 0)
                return rc;
            rc = end_older_null(c, m, eb);
            if (rc != ERR_OK)
                return rc;
        }
    }
    changes_set_older(c, m, row);
    return ERR_OK;
}

/* Since when a version has the metadata that it has. The version of its row may be higher: that of what ended the one above it, also
 * where a replay meets the one above, which was moved, later than its end. */
static struct version
meta_since(struct changes *c, const struct row *row)
{
    struct row at = *row;
    struct loaded l;
    struct errbuf eb = {0};
    struct version v = row->version;

    if ((row->flags & ROW_META_APART) == 0)
        return row_born(row);
    at.segment = row->meta_segment;
    at.offset = row->meta_offset;
    if (read_log_member_quiet(c->disk, &at, false, &l, &eb) != ERR_OK)
        return v;
    v = l.m.version;
    loaded_fini(&l);
    return v;
}

enum err
changes_meta(struct changes *c, const struct member *m, struct row *row,
             struct errbuf *eb)
{
    struct row old;
    bool current;
    enum err rc = member_row(m, c->class, row, eb);

    if (rc != ERR_OK)
        return rc;
    rc = changes_version(c, m->bucket, m->key, &m->born, &old, &current, eb);
    if (rc == ERR_NOT_FOUND)
        return changes_insert(c, m, row, eb);
    if (rc != ERR_OK)
        return rc;
    if (version_cmp(&old.version, &row->version) > 0) {
        struct version since = meta_since(c, &old);

        if (version_cmp(&since, &row->version) > 0)
            return ERR_OK;
        row->version = old.version;
    }
    /* The body may have moved since; what the row says of its place is right. */
    row->segment = old.segment;
    row->offset = old.offset;
    row->overwrites = old.overwrites;
    row->flags = (row->flags & ~(uint32_t)ROW_INLINE) | (old.flags & ROW_INLINE);
    if (current)
        changes_set_object(c, m->bucket, m->key, row);
    else
        changes_set_older(c, m, row);
    return ERR_OK;
}
