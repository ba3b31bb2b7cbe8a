/* What a backup takes of one bucket: its uploads in progress, then its objects, or all versions of them. */
#include "base/log.h"
#include "object/backup_internal.h"

#define PAGE 200u
/* An object that is replaced while it is read is looked at again so often. */
#define LOOKUP_ATTEMPTS 20

static struct disks_key
key_in(const struct map_bucket *bucket, struct span key)
{
    return (struct disks_key){.at = {.bucket = bucket->id,
                                     .immutable_name = span_of(bucket->immutable_name),
                                     .key = key},
                              .copies = bucket->copies};
}

/* Is the backup over for this reason? Else it is one thing that is left out. */
static bool
backup_is_over(const struct backup *b, enum err rc)
{
    return b->receiver_gone || rc == ERR_CANCELLED;
}

/* ---- objects and their versions ---- */

static enum err
send_object(struct backup *b, struct backup_item *s, struct errbuf *eb)
{
    enum err rc;

    arena_reset(b->arena);
    rc = disks_meta(b->disks, &s->key, &s->entry, b->arena, &s->e.meta, eb);
    if (rc != ERR_OK)
        return rc;
    s->e.size = s->entry.size;
    s->e.content = s->entry.content;
    if (s->e.what == EXPORTED_VERSION)
        s->e.meta.versioning =
            entry_is_null_version(&s->entry) ? STORE_SUSPENDED : STORE_VERSIONED;
    else
        s->e.meta.versioning = STORE_UNVERSIONED;
    return backup_send_body(b, s, eb);
}

static enum err
find_current(struct backup *b, struct backup_item *s, struct errbuf *eb)
{
    bool current;

    return s->e.what == EXPORTED_VERSION
               ? disks_version_find(b->disks, &s->key, &s->e.born, &s->entry, &current,
                                    eb)
               : disks_lookup(b->disks, &s->key, &s->entry, eb);
}

/* One that was listed: as it is now, or gone. */
static enum err
backup_object(struct backup *b, struct backup_item *s, uint64_t *count)
{
    struct errbuf eb = {{0}};
    enum err rc = ERR_NOT_FOUND;

    for (unsigned i = 0; rc == ERR_NOT_FOUND && !b->receiver_gone && i < LOOKUP_ATTEMPTS;
         i++) {
        if (i > 0 && find_current(b, s, &eb) == ERR_NOT_FOUND)
            return ERR_OK; /* deleted meanwhile */
        rc = send_object(b, s, &eb);
    }
    *count += rc == ERR_OK;
    if (rc == ERR_OK || backup_is_over(b, rc))
        return rc;
    backup_record_damage(b, s, eb.text);
    return ERR_OK;
}

static enum err
backup_version(struct backup *b, const struct map_bucket *bucket,
               const struct store_version *v)
{
    bool marker = (v->entry.flags & ENTRY_MARKER) != 0;
    struct backup_item s = {.e = {.what = marker ? EXPORTED_MARKER : EXPORTED_VERSION,
                                  .bucket = span_of(bucket->name),
                                  .key = v->key,
                                  .older = !v->latest,
                                  .born = entry_born(&v->entry)},
                            .key = key_in(bucket, v->key),
                            .entry = v->entry};
    enum err rc;

    if (!marker)
        return backup_object(b, &s, v->latest ? &b->objects : &b->older);
    s.e.meta.mtime_ms = v->entry.mtime_ms;
    s.e.meta.versioning =
        entry_is_null_version(&v->entry) ? STORE_SUSPENDED : STORE_VERSIONED;
    rc = backup_send_record(b, &s);
    b->markers += rc == ERR_OK;
    return rc;
}

static enum err
backup_versions(struct backup *b, const struct map_bucket *bucket, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(64), MIB(4));
    char last[STORE_KEY_MAX];
    struct span key = {last, 0};
    struct version after = {0};
    bool more = true;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && more) {
        struct store_version *found;
        uint32_t count;

        arena_reset(a);
        rc = disks_version_list(b->disks, bucket->id, bucket->copies, key, key.len == 0,
                                key.len == 0 ? NULL : &after, PAGE, a, &found, &count,
                                &more, eb);
        for (uint32_t i = 0; rc == ERR_OK && i < count; i++)
            rc = backup_version(b, bucket, &found[i]);
        if (rc == ERR_OK && count > 0) {
            key.len = found[count - 1].key.len;
            memcpy(last, found[count - 1].key.at, key.len);
            after = entry_born(&found[count - 1].entry);
        }
    }
    arena_free(&a);
    return rc;
}

static enum err
backup_objects(struct backup *b, const struct map_bucket *bucket, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(64), MIB(4));
    char last[STORE_KEY_MAX];
    struct span after = {last, 0};
    bool more = true;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && more) {
        struct store_entry *entries;
        uint32_t count;

        arena_reset(a);
        rc = disks_list(b->disks, bucket->id, bucket->copies, after, after.len == 0, PAGE,
                        a, &entries, &count, &more, eb);
        for (uint32_t i = 0; rc == ERR_OK && i < count; i++) {
            struct backup_item s = {
                .e = {.bucket = span_of(bucket->name), .key = entries[i].key},
                .key = key_in(bucket, entries[i].key),
                .entry = entries[i].entry};

            rc = backup_object(b, &s, &b->objects);
        }
        if (rc == ERR_OK && count > 0) {
            after.len = entries[count - 1].key.len;
            memcpy(last, entries[count - 1].key.at, after.len);
        }
    }
    arena_free(&a);
    return rc;
}

/* ---- uploads in progress ---- */

/* The first part behind s->e.part, as it is now. *found false: there is none, or the upload has ended. */
static enum err
next_part(struct backup *b, struct backup_item *s, bool *found, struct errbuf *eb)
{
    struct store_part *p;
    uint32_t count;
    bool more;
    enum err rc;

    arena_reset(b->arena);
    rc = disks_part_list(b->disks, &s->key, &s->e.upload, s->e.part, 1, b->arena, &p,
                         &count, &more, eb);
    *found = rc == ERR_OK && count > 0;
    if (!*found)
        return rc == ERR_NO_UPLOAD ? ERR_OK : rc;
    s->e.part = p->number;
    s->e.size = p->size;
    s->e.content = p->content;
    s->e.meta = (struct object_meta){.mtime_ms = p->mtime_ms,
                                     .checksum_algorithm = p->checksum_algorithm,
                                     .checksum = p->checksum};
    memcpy(s->e.meta.md5, p->md5, sizeof s->e.meta.md5);
    return ERR_OK;
}

static enum err
backup_parts(struct backup *b, struct backup_item *s, struct errbuf *eb)
{
    enum err rc = ERR_OK;
    bool found = true;

    s->e.what = EXPORTED_PART;
    while (rc == ERR_OK && found) {
        uint32_t before = s->e.part;

        rc = ERR_NOT_FOUND;
        for (unsigned i = 0; rc == ERR_NOT_FOUND && i < LOOKUP_ATTEMPTS; i++) {
            s->e.part = before;
            rc = next_part(b, s, &found, eb);
            if (rc == ERR_OK && found)
                rc = backup_send_body(b, s, eb);
        }
        b->parts += rc == ERR_OK && found;
        if (rc == ERR_NO_UPLOAD) /* it has ended meanwhile */
            return ERR_OK;
        if (rc == ERR_OK || backup_is_over(b, rc))
            continue;
        backup_record_damage(b, s, eb->text);
        rc = ERR_OK;
    }
    return rc;
}

static enum err
backup_upload(struct backup *b, const struct map_bucket *bucket,
              const struct store_upload *u, struct errbuf *eb)
{
    struct backup_item s = {.e = {.what = EXPORTED_UPLOAD,
                                  .bucket = span_of(bucket->name),
                                  .key = u->key,
                                  .upload = u->id},
                            .key = key_in(bucket, u->key)};
    enum err rc;

    arena_reset(b->arena);
    rc = disks_upload_meta(b->disks, &s.key, &u->id, b->arena, &s.e.meta, eb);
    if (rc == ERR_NO_UPLOAD)
        return ERR_OK;
    if (rc != ERR_OK && !backup_is_over(b, rc)) {
        backup_record_damage(b, &s, eb->text);
        return ERR_OK;
    }
    if (rc == ERR_OK)
        rc = backup_send_record(b, &s);
    b->uploads += rc == ERR_OK;
    return rc == ERR_OK ? backup_parts(b, &s, eb) : rc;
}

static enum err
backup_uploads(struct backup *b, const struct map_bucket *bucket, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(64), MIB(4));
    char last[STORE_KEY_MAX];
    struct span key = {last, 0};
    struct upload_id after = {{{0}}};
    bool more = true;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && more) {
        struct store_upload *found;
        uint32_t count;

        arena_reset(a);
        rc = disks_upload_list(b->disks, bucket->id, bucket->copies, key,
                               key.len == 0 ? NULL : &after, PAGE, a, &found, &count,
                               &more, eb);
        for (uint32_t i = 0; rc == ERR_OK && i < count; i++)
            rc = backup_upload(b, bucket, &found[i], eb);
        if (rc == ERR_OK && count > 0) {
            key.len = found[count - 1].key.len;
            memcpy(last, found[count - 1].key.at, key.len);
            after = found[count - 1].id;
        }
    }
    arena_free(&a);
    return rc;
}

/* ---- both ---- */

enum err
backup_bucket(struct backup *b, const struct map_bucket *bucket)
{
    struct errbuf eb = {{0}};
    enum err rc = backup_uploads(b, bucket, &eb);

    if (rc == ERR_OK)
        rc = bucket->versioning == MAP_UNVERSIONED ? backup_objects(b, bucket, &eb)
                                                   : backup_versions(b, bucket, &eb);
    if (eb.text[0] != '\0' && rc != ERR_OK)
        LOG(LOG_ERROR, "backup.failed", "a backup is cut off", L_TEXT("why", eb.text));
    return rc;
}
