/* Multipart uploads: parts are bodies of their own; Complete is one record with a manifest. */
#include "store/core/core.h"
#include "store/index/entry.h"
#include "store/index/find.h"
#include "store/index/index.h"
#include "store/index/list.h"
#include "store/index/suspect.h"
#include "store/ops/writer.h"
#include "store/record/block.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/record/manifest.h"
#include "store/segment/read.h"
#include "store/store_entry.h"
#include "store/store_upload.h"
#include "store/wal/commit.h"
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

static enum err
upload_begin_record(struct store *d, const struct store_key *k, enum store_class class,
                    const struct object_meta *meta, const struct upload_id *u, bool copy,
                    struct errbuf *eb)
{
    struct object_meta stamped = *meta;
    struct commit c = {.kind = LOG_RECORD_UPLOAD_BEGIN,
                       .key = k,
                       .meta = &stamped,
                       .upload = *u,
                       .of.upload.copy = copy};
    enum err rc = meta_check(meta, eb);

    assert(k->key.len > 0 && k->key.len <= STORE_KEY_MAX);
    if (rc != ERR_OK)
        return rc;
    if (stamped.mtime_ms == 0)
        stamped.mtime_ms = (int64_t)(rt_wall_ns() / 1000000);
    return commit_submit(d, class, &c, eb);
}

enum err
store_upload_begin(struct store *d, const struct store_key *k, enum store_class class,
                   const struct object_meta *meta, struct upload_id *out,
                   struct errbuf *eb)
{
    out->id = content_mint(d);
    return upload_begin_record(d, k, class, meta, out, false, eb);
}

static enum err
begin_upload_as(struct store *d, const struct store_key *k,
                const struct object_meta *meta, const struct upload_id *u, bool copy,
                struct errbuf *eb)
{
    struct upload_entry entry;
    enum err rc = find_upload(d->memtable, d->index, k->bucket, k->key, u, &entry, eb);

    if (rc == ERR_OK)
        return err_set(eb, ERR_EXISTS, "the upload is here already");
    return rc == ERR_NO_UPLOAD
               ? upload_begin_record(d, k, STORE_NATIVE, meta, u, copy, eb)
               : rc;
}

enum err
store_upload_begin_as(struct store *d, const struct store_key *k,
                      const struct object_meta *meta, const struct upload_id *u,
                      struct errbuf *eb)
{
    return begin_upload_as(d, k, meta, u, false, eb);
}

enum err
store_replica_begin(struct store *d, const struct store_key *k, const struct entry *entry,
                    struct upload_id *out, struct errbuf *eb)
{
    struct object_meta none = {.mtime_ms = entry->mtime_ms};

    out->id = entry->content;
    return begin_upload_as(d, k, &none, out, true, eb);
}

static enum err
upload_of(struct store *d, const struct store_key *k, const struct upload_id *u,
          struct upload_entry *out, struct errbuf *eb)
{
    return find_upload(d->memtable, d->index, k->bucket, k->key, u, out, eb);
}

static enum err
upload_begin_part(struct store *d, const struct store_key *k, const struct upload_id *u,
                  uint32_t number, uint64_t size, const struct content_id *content,
                  struct store_writer **out, struct errbuf *eb)
{
    struct upload_entry entry;
    enum err rc;

    assert(number > 0 && number <= PART_MAX);
    *out = NULL;
    if (number < 1 || number > PART_MAX)
        return err_set(eb, ERR_BAD_REQUEST,
                       "part number %" PRIu32 ", 1 to %u are allowed", number, PART_MAX);
    rc = upload_of(d, k, u, &entry, eb);
    return rc == ERR_OK
               ? writer_begin_as(d, k, entry.class, size, content, u, number, out, eb)
               : rc;
}

enum err
store_part_begin(struct store *d, const struct store_key *k, const struct upload_id *u,
                 uint32_t number, uint64_t size, struct store_writer **out,
                 struct errbuf *eb)
{
    return upload_begin_part(d, k, u, number, size, NULL, out, eb);
}

enum err
store_part_begin_as(struct store *d, const struct store_key *k, const struct upload_id *u,
                    uint32_t number, uint64_t size, const struct content_id *content,
                    struct store_writer **out, struct errbuf *eb)
{
    return upload_begin_part(d, k, u, number, size, content, out, eb);
}

enum err
store_part_commit(struct store_writer **wp, const struct object_meta *meta,
                  struct errbuf *eb)
{
    return writer_commit(wp, meta, NULL, NULL, eb);
}

enum err
store_part_list(struct store *d, const struct store_key *k, const struct upload_id *u,
                uint32_t after, uint32_t max, struct arena *a, struct store_part **out,
                uint32_t *count, bool *more, struct errbuf *eb)
{
    struct upload_entry entry;
    struct list_part *parts;
    struct store_part *copies;
    enum err rc = upload_of(d, k, u, &entry, eb);

    *out = NULL;
    *count = 0;
    *more = false;
    if (rc == ERR_OK)
        rc = index_lists_all(d->index, eb);
    if (rc == ERR_OK)
        rc = list_parts(d->memtable, d->index, u, after, max, a, &parts, count, more, eb);
    if (rc != ERR_OK)
        return rc;
    copies = arena_try(a, (*count + 1) * sizeof *copies);
    if (copies == NULL)
        return err_set(eb, ERR_BUSY, "no memory to list %" PRIu32 " parts", *count);
    for (uint32_t i = 0; i < *count; i++) {
        const struct part_entry *p = &parts[i].part;

        copies[i] = (struct store_part){
            .number = parts[i].number,
            .size = p->entry.size,
            .mtime_ms = p->entry.mtime_ms,
            .content = p->entry.content,
            .checksum_algorithm = p->checksum_algorithm,
            .checksum = {(const char *)p->checksum,
                         p->checksum_len}, /* the list stays in the arena */
        };
        memcpy(copies[i].md5, p->entry.md5, sizeof copies[i].md5);
    }
    *out = copies;
    return ERR_OK;
}

enum err
store_part_find(struct store *d, const struct store_key *k, const struct upload_id *u,
                uint32_t number, struct entry *out, struct errbuf *eb)
{
    struct upload_entry entry;
    struct part_entry part;
    enum err rc = upload_of(d, k, u, &entry, eb);

    if (rc == ERR_OK)
        rc = find_part(d->memtable, d->index, u, number, &part, eb);
    if (rc == ERR_OK)
        *out = part.entry;
    return rc;
}

enum err
store_upload_meta(struct store *d, const struct store_key *k, const struct upload_id *u,
                  struct arena *a, struct object_meta *out, struct errbuf *eb)
{
    struct upload_entry u_entry;
    struct loaded l;
    struct entry entry;
    enum err rc = upload_of(d, k, u, &u_entry, eb);

    *out = (struct object_meta){0};
    if (rc != ERR_OK)
        return rc;
    do { /* repeats if compaction moves a part meanwhile */
        entry = (struct entry){.flags = ENTRY_INLINE,
                               .place.segment = u_entry.segment,
                               .place.offset = u_entry.offset};
        rc = read_log_record_quiet(d, &entry, false, &l, eb);
        if (rc != ERR_CORRUPT && rc != ERR_NOT_FOUND)
            break;
        rc = upload_of(d, k, u, &u_entry, eb);
        if (rc == ERR_OK && u_entry.segment == entry.place.segment &&
            u_entry.offset == entry.place.offset)
            return read_damage(d, &entry, 0, eb);
        if (rc == ERR_OK)
            rc = ERR_CORRUPT;
    } while (rc == ERR_CORRUPT);
    if (rc != ERR_OK)
        return rc;
    if (l.m.kind == LOG_RECORD_UPLOAD_BEGIN && content_eq(&l.m.upload.id, &u->id))
        rc = log_record_meta(&l.m, a, true, out, eb);
    else
        rc = read_damage(d, &entry, 0, eb);
    loaded_fini(&l);
    return rc;
}

/* ---- completing ---- */

/* Keeps the checksums only if all parts have the same algorithm. */
static void
keep_sum(struct manifest *m, uint32_t index, const struct part_entry *p)
{
    assert(index < m->count);
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

/* Looks up the present places of the named parts; the committer checks that they are unchanged. */
static enum err
fill_manifest(struct store *d, const struct upload_id *u, const struct store_part *parts,
              struct manifest *m, uint64_t *size, struct errbuf *eb)
{
    struct manifest_entry *entries = m->entries;

    *size = 0;
    for (uint32_t i = 0; i < m->count; i++) {
        struct part_entry p;
        enum err rc;

        if (i > 0 && parts[i].number <= parts[i - 1].number)
            return err_set(eb, ERR_BAD_REQUEST, "part %" PRIu32 " follows part %" PRIu32,
                           parts[i].number, parts[i - 1].number);
        rc = find_part(d->memtable, d->index, u, parts[i].number, &p, eb);
        if (rc == ERR_NO_UPLOAD)
            return err_set(eb, ERR_BAD_REQUEST, "part %" PRIu32 " was not uploaded",
                           parts[i].number);
        if (rc != ERR_OK)
            return rc;
        if (!content_eq(&p.entry.content, &parts[i].content))
            return err_set(eb, ERR_BUSY,
                           "part %" PRIu32 " was replaced while the upload was completed",
                           parts[i].number);
        entries[i] =
            (struct manifest_entry){.content = p.entry.content,
                                    .at = *size,
                                    .size = p.entry.size,
                                    .offset = p.entry.place.offset,
                                    .segment = p.entry.place.segment,
                                    .number = (uint16_t)parts[i].number,
                                    .in_log = (p.entry.flags & ENTRY_INLINE) != 0};
        memcpy(entries[i].md5, p.entry.md5, sizeof entries[i].md5);
        keep_sum(m, i, &p);
        *size += p.entry.size;
    }
    return ERR_OK;
}

/* Fills in the fields that *c lacks. */
static enum err
submit_complete(struct store *d, enum store_class class, struct commit *c,
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

/* Returns the result of an earlier Complete. */
static enum err
done_before(struct store *d, const struct store_key *k, const struct upload_id *u,
            struct entry *out, struct errbuf *eb)
{
    char key[STORE_KEY_MAX];
    struct done_entry done;
    enum err rc = find_done(d->memtable, d->index, u, key, &done, eb);

    if (rc == ERR_OK && (done.bucket != k->bucket || !span_eq(done.key, k->key)))
        return err_set(eb, ERR_NO_UPLOAD, "no such upload of this key");
    if (rc == ERR_OK)
        *out = done.entry;
    return rc;
}

#define TRIES 16u /* of a Complete whose parts keep moving */

/* Completes or prepares an upload: *c has kind, key, content, condition, metadata.
 * ERR_NO_UPLOAD: there is no such upload any more. */
static enum err
multipart_complete(struct store *d, const struct upload_id *u,
                   const struct store_part *parts, uint32_t count, struct commit *c,
                   struct errbuf *eb)
{
    struct upload_entry entry;
    enum err rc = upload_of(d, c->key, u, &entry, eb);

    if (rc == ERR_OK)
        rc = meta_check(c->meta, eb);
    if (rc != ERR_OK)
        return rc;
    if (count < 1 || count > PART_MAX)
        return err_set(eb, ERR_BAD_REQUEST, "%" PRIu32 " parts, 1 to %u are allowed",
                       count, PART_MAX);
    c->upload = *u;
    for (unsigned i = 0; i == 0 || (c->of.upload.parts_moved && i < TRIES); i++) {
        struct manifest m = {.count = count,
                             .entries = xcalloc(count, sizeof *m.entries)};

        c->size = 0;
        c->of.upload.parts_moved = false;
        rc = fill_manifest(d, u, parts, &m, &c->size, eb);
        if (rc == ERR_OK)
            rc = submit_complete(d, entry.class, c, &m, eb);
        manifest_fini(&m);
    }
    return rc;
}

enum err
store_replica_complete(struct store *d, const struct store_key *k,
                       const struct upload_id *u, const struct store_part *parts,
                       uint32_t count, const struct object_meta *meta,
                       const struct entry *entry, struct errbuf *eb)
{
    struct commit c = {.kind = LOG_RECORD_UPLOAD_COMPLETE,
                       .key = k,
                       .meta = meta,
                       .content = entry->content,
                       .version = entry->version,
                       .born = entry->born};

    return multipart_complete(d, u, parts, count, &c, eb);
}

enum err
store_replica_list(struct store *d, uint64_t bucket, struct span after_key,
                   const struct upload_id *after_id, uint32_t max, struct arena *a,
                   struct store_upload **out, uint32_t *count, bool *more,
                   struct errbuf *eb)
{
    enum err rc = index_lists_all(d->index, eb);

    if (rc != ERR_OK)
        return rc;
    return list_uploads(d->memtable, d->index, bucket, LIST_COPIES, after_key, after_id,
                        max, a, out, count, more, eb);
}

enum err
store_upload_complete_as(struct store *d, const struct store_key *k,
                         const struct upload_id *u, const struct store_part *parts,
                         uint32_t count, const struct content_id *content,
                         const struct object_meta *meta,
                         const struct store_condition *cond, struct entry *out,
                         struct errbuf *eb)
{
    struct commit c = {.kind = LOG_RECORD_UPLOAD_COMPLETE,
                       .key = k,
                       .condition = cond,
                       .meta = meta,
                       .content = *content};
    enum err rc = multipart_complete(d, u, parts, count, &c, eb);

    if (rc == ERR_NO_UPLOAD)
        return done_before(d, k, u, out, eb);
    *out = c.entry;
    return rc;
}

enum err
store_upload_complete(struct store *d, const struct store_key *k,
                      const struct upload_id *u, const struct store_part *parts,
                      uint32_t count, const struct object_meta *meta,
                      const struct store_condition *c, struct entry *out,
                      struct errbuf *eb)
{
    struct content_id content = content_mint(d);

    return store_upload_complete_as(d, k, u, parts, count, &content, meta, c, out, eb);
}

enum err
store_upload_prepare(struct store *d, const struct store_key *k,
                     const struct upload_id *u, const struct store_part *parts,
                     uint32_t count, const struct content_id *content,
                     const struct object_meta *meta, const struct coordinator *by,
                     struct errbuf *eb)
{
    struct commit c = {
        .kind = LOG_RECORD_PREPARE, .key = k, .meta = meta, .content = *content};

    if (by != NULL)
        c.of.upload.coordinator = *by;
    return multipart_complete(d, u, parts, count, &c, eb);
}

enum err
store_upload_abort(struct store *d, const struct store_key *k, const struct upload_id *u,
                   struct errbuf *eb)
{
    struct upload_entry entry;
    struct commit c = {.kind = LOG_RECORD_UPLOAD_ABORT, .key = k, .upload = *u};
    enum err rc = upload_of(d, k, u, &entry, eb);

    return rc == ERR_OK ? commit_submit(d, entry.class, &c, eb) : rc;
}

enum err
store_upload_list(struct store *d, uint64_t bucket, struct span after_key,
                  const struct upload_id *after_id, uint32_t max, struct arena *a,
                  struct store_upload **out, uint32_t *count, bool *more,
                  struct errbuf *eb)
{
    enum err rc = index_lists_all(d->index, eb);

    if (rc == ERR_OK && suspects_any(d->suspects))
        rc = suspects_verify_list(d->suspects, suspect_bucket_of_uploads(bucket), eb);
    if (rc != ERR_OK)
        return rc;
    return list_uploads(d->memtable, d->index, bucket, LIST_UPLOADS, after_key, after_id,
                        max, a, out, count, more, eb);
}
