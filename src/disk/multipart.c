/* Multipart uploads: parts are bodies of their own, Complete is one record with a manifest. */
#include <inttypes.h>
#include <stdlib.h>

#include "disk/block.h"
#include "disk/commit.h"
#include "disk/manifest.h"
#include "disk/read.h"
#include "disk/writer.h"

static enum err
begin_upload(struct disk *d, const struct disk_key *k, enum disk_class class,
             const struct object_meta *meta, const struct upload_id *u, bool copy,
             struct errbuf *eb)
{
    struct object_meta stamped = *meta;
    struct commit c = {.kind = MEMBER_UPLOAD_BEGIN,
                       .key = k,
                       .meta = &stamped,
                       .upload = *u,
                       .copy = copy};
    enum err rc = meta_check(meta, eb);

    if (rc != ERR_OK)
        return rc;
    if (stamped.mtime_ms == 0)
        stamped.mtime_ms = (int64_t)(rt_wall_ns() / 1000000);
    return commit_submit(d, class, &c, eb);
}

enum err
disk_upload_begin(struct disk *d, const struct disk_key *k, enum disk_class class,
                  const struct object_meta *meta, struct upload_id *out,
                  struct errbuf *eb)
{
    out->id = content_mint(d);
    return begin_upload(d, k, class, meta, out, false, eb);
}

static enum err
begin_upload_as(struct disk *d, const struct disk_key *k, const struct object_meta *meta,
                const struct upload_id *u, bool copy, struct errbuf *eb)
{
    struct upload_row row;
    enum err rc = find_upload(d->tail, d->index, k->bucket, k->key, u, &row, eb);

    if (rc == ERR_OK)
        return err_set(eb, ERR_EXISTS, "the upload is here already");
    return rc == ERR_NO_UPLOAD ? begin_upload(d, k, DISK_NATIVE, meta, u, copy, eb) : rc;
}

enum err
disk_upload_begin_as(struct disk *d, const struct disk_key *k,
                     const struct object_meta *meta, const struct upload_id *u,
                     struct errbuf *eb)
{
    return begin_upload_as(d, k, meta, u, false, eb);
}

enum err
disk_copy_begin(struct disk *d, const struct disk_key *k, const struct row *row,
                struct upload_id *out, struct errbuf *eb)
{
    struct object_meta none = {.mtime_ms = row->mtime_ms};

    out->id = row->content;
    return begin_upload_as(d, k, &none, out, true, eb);
}

static enum err
upload_of(struct disk *d, const struct disk_key *k, const struct upload_id *u,
          struct upload_row *out, struct errbuf *eb)
{
    return find_upload(d->tail, d->index, k->bucket, k->key, u, out, eb);
}

static enum err
begin_part(struct disk *d, const struct disk_key *k, const struct upload_id *u,
           uint32_t number, uint64_t size, const struct content_id *content,
           struct disk_writer **out, struct errbuf *eb)
{
    struct upload_row row;
    enum err rc;

    *out = NULL;
    if (number < 1 || number > PART_MAX)
        return err_set(eb, ERR_BAD_REQUEST,
                       "part number %" PRIu32 ", 1 to %u are allowed", number, PART_MAX);
    rc = upload_of(d, k, u, &row, eb);
    return rc == ERR_OK
               ? writer_begin_as(d, k, row.class, size, content, u, number, out, eb)
               : rc;
}

enum err
disk_part_begin(struct disk *d, const struct disk_key *k, const struct upload_id *u,
                uint32_t number, uint64_t size, struct disk_writer **out,
                struct errbuf *eb)
{
    return begin_part(d, k, u, number, size, NULL, out, eb);
}

enum err
disk_part_begin_as(struct disk *d, const struct disk_key *k, const struct upload_id *u,
                   uint32_t number, uint64_t size, const struct content_id *content,
                   struct disk_writer **out, struct errbuf *eb)
{
    return begin_part(d, k, u, number, size, content, out, eb);
}

enum err
disk_part_commit(struct disk_writer **wp, const struct object_meta *meta,
                 struct errbuf *eb)
{
    return writer_commit(wp, meta, NULL, NULL, eb);
}

enum err
disk_part_list(struct disk *d, const struct disk_key *k, const struct upload_id *u,
               uint32_t after, uint32_t max, struct arena *a, struct disk_part **out,
               uint32_t *count, bool *more, struct errbuf *eb)
{
    struct upload_row row;
    struct list_part *parts;
    struct disk_part *copies;
    enum err rc = upload_of(d, k, u, &row, eb);

    *out = NULL;
    *count = 0;
    *more = false;
    if (rc == ERR_OK)
        rc = index_lists_all(d->index, eb);
    if (rc == ERR_OK)
        rc = list_parts(d->tail, d->index, u, after, max, a, &parts, count, more, eb);
    if (rc != ERR_OK)
        return rc;
    copies = arena_try(a, (*count + 1) * sizeof *copies);
    if (copies == NULL)
        return err_set(eb, ERR_BUSY, "no memory to list %" PRIu32 " parts", *count);
    for (uint32_t i = 0; i < *count; i++) {
        const struct part_row *p = &parts[i].part;

        copies[i] = (struct disk_part){
            .number = parts[i].number,
            .size = p->row.size,
            .mtime_ms = p->row.mtime_ms,
            .content = p->row.content,
            .checksum_algorithm = p->checksum_algorithm,
            .checksum = {(const char *)p->checksum,
                         p->checksum_len}, /* the list stays in the arena */
        };
        memcpy(copies[i].md5, p->row.md5, sizeof copies[i].md5);
    }
    *out = copies;
    return ERR_OK;
}

enum err
disk_part_find(struct disk *d, const struct disk_key *k, const struct upload_id *u,
               uint32_t number, struct row *out, struct errbuf *eb)
{
    struct upload_row row;
    struct part_row part;
    enum err rc = upload_of(d, k, u, &row, eb);

    if (rc == ERR_OK)
        rc = find_part(d->tail, d->index, u, number, &part, eb);
    if (rc == ERR_OK)
        *out = part.row;
    return rc;
}

enum err
disk_upload_meta(struct disk *d, const struct disk_key *k, const struct upload_id *u,
                 struct arena *a, struct object_meta *out, struct errbuf *eb)
{
    struct upload_row u_row;
    struct loaded l;
    struct row row;
    enum err rc = upload_of(d, k, u, &u_row, eb);

    *out = (struct object_meta){0};
    if (rc != ERR_OK)
        return rc;
    do { /* as often as its log is compacted meanwhile */
        row = (struct row){
            .flags = ROW_INLINE, .segment = u_row.segment, .offset = u_row.offset};
        rc = read_log_member_quiet(d, &row, false, &l, eb);
        if (rc != ERR_CORRUPT && rc != ERR_NOT_FOUND)
            break;
        rc = upload_of(d, k, u, &u_row, eb);
        if (rc == ERR_OK && u_row.segment == row.segment && u_row.offset == row.offset)
            return read_damage(d, &row, 0, eb);
        if (rc == ERR_OK)
            rc = ERR_CORRUPT;
    } while (rc == ERR_CORRUPT);
    if (rc != ERR_OK)
        return rc;
    if (l.m.kind == MEMBER_UPLOAD_BEGIN && content_eq(&l.m.upload.id, &u->id))
        rc = member_meta(&l.m, a, true, out, eb);
    else
        rc = read_damage(d, &row, 0, eb);
    loaded_fini(&l);
    return rc;
}

/* ---- completing ---- */

/* Of one algorithm with those before it, or none is kept. */
static void
keep_sum(struct manifest *m, uint32_t index, const struct part_row *p)
{
    if (index == 0 && p->checksum_algorithm != 0 && p->checksum_len > 0 &&
        p->checksum_len <= MANIFEST_SUM_MAX) {
        m->sum_algorithm = p->checksum_algorithm;
        m->sum_len = p->checksum_len;
        m->sums = xmalloc((size_t)m->count * m->sum_len);
    }
    if (m->sums == NULL)
        return;
    if (p->checksum_algorithm == m->sum_algorithm && p->checksum_len == m->sum_len) {
        memcpy(m->sums + (size_t)index * m->sum_len, p->checksum, m->sum_len);
        return;
    }
    free(m->sums);
    m->sums = NULL;
    m->sum_algorithm = m->sum_len = 0;
}

/* Places of the parts named, as they are now; the committer checks that they still are. */
static enum err
fill_manifest(struct disk *d, const struct upload_id *u, const struct disk_part *parts,
              struct manifest *m, uint64_t *size, struct errbuf *eb)
{
    struct manifest_entry *entries = m->entries;

    *size = 0;
    for (uint32_t i = 0; i < m->count; i++) {
        struct part_row p;
        enum err rc;

        if (i > 0 && parts[i].number <= parts[i - 1].number)
            return err_set(eb, ERR_BAD_REQUEST, "part %" PRIu32 " follows part %" PRIu32,
                           parts[i].number, parts[i - 1].number);
        rc = find_part(d->tail, d->index, u, parts[i].number, &p, eb);
        if (rc == ERR_NO_UPLOAD)
            return err_set(eb, ERR_BAD_REQUEST, "part %" PRIu32 " was not uploaded",
                           parts[i].number);
        if (rc != ERR_OK)
            return rc;
        if (!content_eq(&p.row.content, &parts[i].content))
            return err_set(eb, ERR_BUSY,
                           "part %" PRIu32 " was replaced while the upload was completed",
                           parts[i].number);
        entries[i] = (struct manifest_entry){.content = p.row.content,
                                             .at = *size,
                                             .size = p.row.size,
                                             .offset = p.row.offset,
                                             .segment = p.row.segment,
                                             .number = (uint16_t)parts[i].number,
                                             .in_log = (p.row.flags & ROW_INLINE) != 0};
        memcpy(entries[i].md5, p.row.md5, sizeof entries[i].md5);
        keep_sum(m, i, &p);
        *size += p.row.size;
    }
    return ERR_OK;
}

/* Fills in what *c lacks. */
static enum err
submit_complete(struct disk *d, enum disk_class class, struct commit *c,
                const struct manifest *m, struct errbuf *eb)
{
    size_t len = manifest_len(m->count, m->sum_len);
    char *payload = xmalloc(len + 1), *sums = xmalloc(4 * block_count(len) + 1);
    enum err rc;

    c->payload = (struct span){payload, len};
    c->block_sums = (struct span){sums, 4 * block_count(len)};
    manifest_encode(m, payload);
    block_sums_put(block_seed(d->cluster_sum, &c->content, 0), 0, payload, len, sums);
    rc = commit_submit(d, class, c, eb);
    free(payload);
    free(sums);
    return rc;
}

/* What a Complete that came before has made. */
static enum err
done_before(struct disk *d, const struct disk_key *k, const struct upload_id *u,
            struct row *out, struct errbuf *eb)
{
    char key[DISK_KEY_MAX];
    struct done_row done;
    enum err rc = find_done(d->tail, d->index, u, key, &done, eb);

    if (rc == ERR_OK && (done.bucket != k->bucket || !span_eq(done.key, k->key)))
        return err_set(eb, ERR_NO_UPLOAD, "no such upload of this key");
    if (rc == ERR_OK)
        *out = done.row;
    return rc;
}

#define TRIES 16u /* of a Complete whose parts are moved meanwhile */

/* Both kinds of completing: *c has kind, key, content, condition, metadata. ERR_NO_UPLOAD: there is no such upload, or
 * no longer. */
static enum err
complete(struct disk *d, const struct upload_id *u, const struct disk_part *parts,
         uint32_t count, struct commit *c, struct errbuf *eb)
{
    struct upload_row row;
    enum err rc = upload_of(d, c->key, u, &row, eb);

    if (rc == ERR_OK)
        rc = meta_check(c->meta, eb);
    if (rc != ERR_OK)
        return rc;
    if (count < 1 || count > PART_MAX)
        return err_set(eb, ERR_BAD_REQUEST, "%" PRIu32 " parts, 1 to %u are allowed",
                       count, PART_MAX);
    c->upload = *u;
    for (unsigned i = 0; i == 0 || (c->parts_moved && i < TRIES); i++) {
        struct manifest m = {.count = count,
                             .entries = xcalloc(count, sizeof *m.entries)};

        c->size = 0;
        c->parts_moved = false;
        rc = fill_manifest(d, u, parts, &m, &c->size, eb);
        if (rc == ERR_OK)
            rc = submit_complete(d, row.class, c, &m, eb);
        manifest_fini(&m);
    }
    return rc;
}

enum err
disk_copy_complete(struct disk *d, const struct disk_key *k, const struct upload_id *u,
                   const struct disk_part *parts, uint32_t count,
                   const struct object_meta *meta, const struct row *row,
                   struct errbuf *eb)
{
    struct commit c = {.kind = MEMBER_UPLOAD_COMPLETE,
                       .key = k,
                       .meta = meta,
                       .content = row->content,
                       .version = row->version,
                       .born = row->born};

    return complete(d, u, parts, count, &c, eb);
}

enum err
disk_copy_list(struct disk *d, uint64_t bucket, struct span after_key,
               const struct upload_id *after_id, uint32_t max, struct arena *a,
               struct disk_upload **out, uint32_t *count, bool *more, struct errbuf *eb)
{
    enum err rc = index_lists_all(d->index, eb);

    if (rc != ERR_OK)
        return rc;
    return list_uploads(d->tail, d->index, bucket, LIST_COPIES, after_key, after_id, max,
                        a, out, count, more, eb);
}

enum err
disk_upload_complete_as(struct disk *d, const struct disk_key *k,
                        const struct upload_id *u, const struct disk_part *parts,
                        uint32_t count, const struct content_id *content,
                        const struct object_meta *meta, const struct disk_condition *cond,
                        struct row *out, struct errbuf *eb)
{
    struct commit c = {.kind = MEMBER_UPLOAD_COMPLETE,
                       .key = k,
                       .condition = cond,
                       .meta = meta,
                       .content = *content};
    enum err rc = complete(d, u, parts, count, &c, eb);

    if (rc == ERR_NO_UPLOAD)
        return done_before(d, k, u, out, eb);
    *out = c.row;
    return rc;
}

enum err
disk_upload_complete(struct disk *d, const struct disk_key *k, const struct upload_id *u,
                     const struct disk_part *parts, uint32_t count,
                     const struct object_meta *meta, const struct disk_condition *c,
                     struct row *out, struct errbuf *eb)
{
    struct content_id content = content_mint(d);

    return disk_upload_complete_as(d, k, u, parts, count, &content, meta, c, out, eb);
}

enum err
disk_upload_prepare(struct disk *d, const struct disk_key *k, const struct upload_id *u,
                    const struct disk_part *parts, uint32_t count,
                    const struct content_id *content, const struct object_meta *meta,
                    struct errbuf *eb)
{
    struct commit c = {
        .kind = MEMBER_PREPARE, .key = k, .meta = meta, .content = *content};

    return complete(d, u, parts, count, &c, eb);
}

enum err
disk_upload_abort(struct disk *d, const struct disk_key *k, const struct upload_id *u,
                  struct errbuf *eb)
{
    struct upload_row row;
    struct commit c = {.kind = MEMBER_UPLOAD_ABORT, .key = k, .upload = *u};
    enum err rc = upload_of(d, k, u, &row, eb);

    return rc == ERR_OK ? commit_submit(d, row.class, &c, eb) : rc;
}

enum err
disk_upload_list(struct disk *d, uint64_t bucket, struct span after_key,
                 const struct upload_id *after_id, uint32_t max, struct arena *a,
                 struct disk_upload **out, uint32_t *count, bool *more, struct errbuf *eb)
{
    enum err rc = index_lists_all(d->index, eb);

    if (rc != ERR_OK)
        return rc;
    return list_uploads(d->tail, d->index, bucket, LIST_UPLOADS, after_key, after_id, max,
                        a, out, count, more, eb);
}
