/* What a replay believes of the class cached, whose bodies were not synced before a reply. */
#include "disk/manifest.h"
#include "disk/read.h"
#include "disk/replay.h"

/* Cached bodies are not synced before their reply: what the index does not cover yet is read once. */
static enum err
cached_body_is_there(struct disk *d, const struct member *m, bool *out, struct errbuf *eb)
{
    struct row row = {.flags = ROW_CACHED,
                      .content = m->content,
                      .size = m->size,
                      .segment = m->place.segment,
                      .offset = m->place.offset};
    struct read_file f = {0};
    uint64_t bad;
    enum err rc = read_file_open(d, &row, &f, eb);

    if (rc == ERR_OK)
        rc = rt_sync(read_file_of(&f), eb);
    if (rc == ERR_OK)
        rc = body_is_whole(read_file_of(&f), d->cluster_sum, &row, &bad, eb);
    read_file_close(&f);
    *out = rc == ERR_OK;
    return rc == ERR_CORRUPT || rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static enum err
cached_entry_is_there(struct disk *d, const struct manifest_entry *e, bool *out,
                      struct errbuf *eb)
{
    struct member body = {.content = e->content,
                          .size = e->size,
                          .place = {.segment = e->segment, .offset = e->offset}};
    struct row row = {.flags = ROW_CACHED | ROW_INLINE,
                      .content = e->content,
                      .size = e->size,
                      .segment = e->segment,
                      .offset = e->offset};
    struct loaded l;
    enum err rc;

    if (!e->in_log)
        return cached_body_is_there(d, &body, out, eb);
    rc = read_log_member_quiet(d, &row, true, &l, eb); /* moved on, perhaps: no damage */
    loaded_fini(&l);
    *out = rc == ERR_OK;
    return rc == ERR_CORRUPT || rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static enum err
cached_parts_are_there(struct disk *d, const struct member *m, bool *out,
                       struct errbuf *eb)
{
    struct manifest manifest;
    enum err rc = manifest_decode(m->body, &manifest, eb);

    *out = rc == ERR_OK;
    for (uint32_t i = 0; rc == ERR_OK && *out && i < manifest.count; i++) {
        const struct manifest_entry *e = &manifest.entries[i];
        struct part_row part;

        rc = find_part(d->tail, d->index, &m->upload, e->number, &part, eb);
        *out = rc == ERR_OK && content_eq(&part.row.content, &e->content);
        if (rc ==
            ERR_NO_UPLOAD) /* its record was of no use any more when its log was compacted */
            rc = cached_entry_is_there(d, e, out, eb);
    }
    manifest_fini(&manifest);
    return rc;
}

/* A cached record whose bytes are lost still says that what was there before is obsolete: it becomes a delete. A
 * part is just not there. */
enum err
replay_soften(struct disk *d, struct member *m, bool *skip, struct errbuf *eb)
{
    bool there = true;
    enum err rc = ERR_OK;

    *skip = false;
    if (m->place.segment != 0 && m->kind != MEMBER_META)
        rc = cached_body_is_there(d, m, &there, eb);
    else if (m->kind == MEMBER_UPLOAD_COMPLETE)
        rc = cached_parts_are_there(d, m, &there, eb);
    if (rc != ERR_OK || there)
        return rc;
    if (m->kind == MEMBER_PART)
        *skip = true;
    else
        m->kind = MEMBER_DELETE;
    return ERR_OK;
}
