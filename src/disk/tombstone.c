/* Deletes that other disks must hear of, and what is known of keys beyond the living rows. */
#include "disk/commit.h"
#include "disk/health.h"
#include "disk/prepare.h"

enum err
disk_lookup_any(struct disk *d, const struct disk_key *k, struct row *out,
                struct errbuf *eb)
{
    enum err rc = health_may_read(d->health, eb);

    if (rc == ERR_OK)
        rc = find_object(d->tail, d->index, k->bucket, k->key, true, out, eb);
    /* One that is not kept is here by chance: until the next index commit. */
    if (rc == ERR_OK && (out->flags & ROW_TOMBSTONE) != 0 &&
        (out->flags & (ROW_KEPT | ROW_MARKER)) == 0)
        rc = ERR_NOT_FOUND;
    if (rc == ERR_NOT_FOUND)
        *out = (struct row){0};
    return prepared_count(d->prepared) == 0 ? rc : prepared_mark(d, k, rc, out, eb);
}

enum err
disk_list_any(struct disk *d, uint64_t bucket, struct span after, bool inclusive,
              uint32_t max, struct arena *a, struct disk_entry **out, uint32_t *count,
              bool *more, struct errbuf *eb)
{
    enum err rc = health_may_read(d->health, eb);

    if (rc == ERR_OK)
        rc = index_lists_all(d->index, eb);
    if (rc != ERR_OK)
        return rc;
    return list_objects_any(d->tail, d->index, bucket, after, inclusive, max, a, out,
                            count, more, eb);
}

enum err
disk_delete_with(struct disk *d, const struct disk_key *k,
                 const struct disk_delete_options *o, struct disk_deleted *out,
                 struct errbuf *eb)
{
    struct object_meta stamp = {.mtime_ms = o->now_ms};
    struct commit c = {.kind = o->keep_tombstone ? MEMBER_TOMBSTONE : MEMBER_DELETE,
                       .key = k,
                       .condition = o->condition,
                       .meta = &stamp,
                       .always = o->always && o->keep_tombstone};
    enum err rc;

    *out = (struct disk_deleted){0};
    if (o->version != NULL)
        c.version = *o->version;
    rc = commit_submit(d, DISK_NATIVE, &c, eb);
    if (rc == ERR_OK)
        *out = (struct disk_deleted){.existed = c.existed, .version = c.row.version};
    return rc;
}

enum err
disk_tombstone_end(struct disk *d, const struct disk_key *k, const struct version *v,
                   struct errbuf *eb)
{
    struct commit c = {.kind = MEMBER_TOMBSTONE_END, .key = k, .version = *v};

    return commit_submit(d, DISK_NATIVE, &c, eb);
}
