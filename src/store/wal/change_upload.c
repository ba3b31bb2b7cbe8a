#include "store/wal/change_upload.h"

#include "store/index/list.h"

#include "store/core/core.h"
#include "store/index/entry.h"
#include "store/index/find.h"
#include "store/index/run.h"
#include "store/index/usage.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/record/manifest.h"
#include "store/store_entry.h"
#include "store/wal/change.h"
#include "store/wal/change_relocation.h"
#include "store/wal/change_version.h"
#include <assert.h>

#define PARTS_A_TIME 1000u

/* Finds out whether the upload is open, in this batch and before it. The index may still hold
 * parts of an ended upload until it sweeps them. *counts: its parts count in the bucket's usage. */
static enum err
change_upload_is_open(struct changes *c, const struct log_record *m,
                      const struct upload_id *id, bool *out, bool *counts,
                      struct errbuf *eb)
{
    struct store *d = c->disk;
    struct upload_entry u = {0};
    enum err rc = ERR_NO_UPLOAD;

    for (uint32_t i = 0; i < c->begun_count && rc != ERR_OK; i++)
        if (content_eq(&c->begun[i].id.id, &id->id)) {
            u.copy = c->begun[i].copy;
            rc = ERR_OK;
        }
    if (changes_ended(c, id))
        rc = ERR_NO_UPLOAD;
    else if (rc != ERR_OK)
        rc = find_upload(d->memtable, d->index, m->bucket, m->key, id, &u, eb);
    *out = rc == ERR_OK;
    *counts = rc == ERR_OK && !u.copy;
    return rc == ERR_NO_UPLOAD ? ERR_OK : rc;
}

static void
note_open(struct changes *c, const struct log_record *m, int64_t parts, int64_t bytes)
{
    usage_note_bytes(&c->usage, usage_of_open(m->bucket), parts, bytes);
}

struct parts_sum {
    int64_t count, bytes;
};

/* The upload's changes in this batch, which no listing shows yet. */
static enum err
add_own_parts(struct changes *c, const struct upload_id *id, struct parts_sum *sum,
              struct errbuf *eb)
{
    for (uint32_t i = 0; i < c->part_count; i++) {
        const struct changed_part *p = &c->parts[i];
        struct part_entry old;
        enum err rc;

        if (!content_eq(&p->upload.id, &id->id))
            continue;
        rc = find_part(c->disk->memtable, c->disk->index, id, p->number, &old, eb);
        if (rc != ERR_OK && rc != ERR_NO_UPLOAD)
            return rc;
        sum->count += rc != ERR_OK;
        sum->bytes += (int64_t)p->size - (rc == ERR_OK ? (int64_t)old.entry.size : 0);
    }
    return ERR_OK;
}

static enum err
sum_part(void *arg, const struct list_part *p, struct errbuf *eb)
{
    struct parts_sum *sum = arg;

    (void)eb;
    sum->bytes += (int64_t)p->part.entry.size;
    sum->count++;
    return ERR_OK;
}

/* All parts of the upload. */
static enum err
sum_parts(struct changes *c, const struct upload_id *id, struct parts_sum *sum,
          struct errbuf *eb)
{
    enum err rc = list_each_part(c->disk->memtable, c->disk->index, id, PARTS_A_TIME,
                                 sum_part, sum, eb);

    return rc == ERR_OK ? add_own_parts(c, id, sum, eb) : rc;
}

/* A new upload may already have parts: compaction moved its record behind theirs, and this is a
 * replay. */
static enum err
apply_upload_begin(struct changes *c, const struct log_record *m, struct errbuf *eb)
{
    struct entry entry;
    struct parts_sum sum = {0};
    bool open = false, counts;
    enum err rc = record_entry(m, c->class, &entry, eb); /* for its time */
    struct upload_entry u = {.class = c->class,
                             .begun_ms = entry.mtime_ms,
                             .copy = m->copy,
                             .segment = m->segment,
                             .offset = m->offset};

    if (rc != ERR_OK)
        return rc;
    /* On an error the usage misses it until the next start. */
    if (change_upload_is_open(c, m, &m->upload, &open, &counts, NULL) == ERR_OK &&
        !open && !u.copy && sum_parts(c, &m->upload, &sum, NULL) == ERR_OK)
        note_open(c, m, sum.count, sum.bytes);
    assert(c->begun_count < BATCH_RECORDS);
    c->begun[c->begun_count++] =
        (struct changed_upload){.id = m->upload, .copy = m->copy};
    run_upload(c->run, m->bucket, m->key, &m->upload, &u);
    return ERR_OK;
}

/* `old`: the part with this number before this batch; NULL: none. */
static void
count_in_bucket(struct changes *c, const struct log_record *m, const struct entry *old,
                uint64_t size)
{
    struct changed_part *own = changes_part(c, &m->upload, m->part);
    bool open, counts, had = own != NULL || old != NULL;
    uint64_t before = own != NULL ? own->size : old != NULL ? old->size : 0;

    if (change_upload_is_open(c, m, &m->upload, &open, &counts, NULL) == ERR_OK && counts)
        note_open(c, m, had ? 0 : 1, (int64_t)size - (int64_t)before);
    if (own == NULL) {
        assert(c->part_count < BATCH_RECORDS);
        own = &c->parts[c->part_count++];
    }
    *own = (struct changed_part){.upload = m->upload, .number = m->part, .size = size};
}

static enum err
apply_part(struct changes *c, const struct log_record *m, struct entry *entry,
           struct errbuf *eb)
{
    struct part_entry old, part = {0};
    struct object_meta meta;
    struct arena *a;
    enum err rc =
        find_part(c->disk->memtable, c->disk->index, &m->upload, m->part, &old, eb);
    bool had = rc == ERR_OK;

    if (rc != ERR_OK && rc != ERR_NO_UPLOAD)
        return rc;
    if (rc == ERR_OK && m->place.segment != 0 &&
        old.entry.place.segment == m->place.segment &&
        old.entry.place.offset == m->place.offset) /* only its record moved */
        changes_count_part(c, old.entry.place.segment, false, old.entry.size, -1);
    else if (rc == ERR_OK)
        changes_part_entry_died(c, &old.entry);
    rc = record_entry(m, c->class, &part.entry, eb);
    if (rc != ERR_OK)
        return rc;
    count_in_bucket(c, m, had ? &old.entry : NULL, part.entry.size);
    a = arena_new(1024, KIB(64));
    rc = log_record_meta(m, a, false, &meta, eb);
    if (rc == ERR_OK) {
        part.checksum_algorithm = meta.checksum_algorithm;
        part.checksum_len = (uint8_t)MIN(meta.checksum.len, sizeof part.checksum);
        if (part.checksum_len > 0)
            memcpy(part.checksum, meta.checksum.at, part.checksum_len);
        run_part(c->run, &m->upload, m->part, &part);
        changes_count_part(c, part.entry.place.segment,
                           (part.entry.flags & ENTRY_INLINE) != 0, part.entry.size, 1);
        *entry = part.entry;
    }
    arena_free(&a);
    return rc;
}

struct dropping {
    struct changes *changes;
    const struct manifest *kept; /* NULL: no part is kept */
    uint32_t at;                 /* index in `kept`; the parts before it are done */
    struct parts_sum sum;
};

static enum err
drop_part(void *arg, const struct list_part *p, struct errbuf *eb)
{
    struct dropping *g = arg;
    const struct manifest *kept = g->kept;
    const struct entry *entry = &p->part.entry;

    g->sum.bytes += (int64_t)entry->size;
    g->sum.count++;
    while (kept != NULL && g->at < kept->count && kept->entries[g->at].number < p->number)
        g->at++;
    if (kept != NULL && g->at < kept->count && kept->entries[g->at].number == p->number &&
        content_eq(&kept->entries[g->at].content, &entry->content))
        changes_count_part(g->changes, entry->place.segment,
                           (entry->flags & ENTRY_INLINE) != 0, entry->size, -1);
    else
        changes_part_entry_died(g->changes, entry);
    (void)eb;
    return ERR_OK;
}

enum err
changes_drop_parts(struct changes *c, const struct log_record *m,
                   const struct upload_id *id, const struct manifest *kept,
                   struct errbuf *eb)
{
    struct store *d = c->disk;
    struct dropping g = {.changes = c, .kept = kept};
    bool open = false, counts;
    enum err rc = change_upload_is_open(c, m, id, &open, &counts, eb);

    if (rc == ERR_OK && open)
        rc = list_each_part(d->memtable, d->index, id, PARTS_A_TIME, drop_part, &g, eb);
    if (rc == ERR_OK && counts)
        rc = add_own_parts(c, id, &g.sum, eb);
    if (rc == ERR_OK && counts)
        note_open(c, m, -g.sum.count, -g.sum.bytes);
    return rc;
}

void
changes_end_upload(struct changes *c, const struct log_record *m)
{
    run_upload(c->run, m->bucket, m->key, &m->upload, NULL);
    c->ended[c->ended_uploads_count++] = m->upload;
}

enum err
changes_adopt_parts(struct changes *c, const struct log_record *m,
                    const struct entry *entry, const struct manifest *parts,
                    struct errbuf *eb)
{
    struct version born = entry_born(entry);
    struct entry now;
    bool current;
    enum err rc = changes_version(c, m->bucket, m->key, &born, &now, &current, eb);

    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return rc;
    changes_manifest_lives(c, parts);
    if (rc == ERR_NOT_FOUND || now.place.segment != entry->place.segment ||
        now.place.offset != entry->place.offset)
        changes_manifest_died(c, parts); /* a newer entry is present */
    return ERR_OK;
}

static enum err
apply_complete(struct changes *c, const struct log_record *m, struct entry *entry,
               struct errbuf *eb)
{
    struct manifest kept;
    struct done_entry done = {.bucket = m->bucket, .key = m->key};
    enum err rc = record_entry(m, c->class, entry, eb);

    /* The list of parts that the object took is lost. The object exists but is unreadable. The
     * upload stays open so that a client can complete it again. The replaced object does not
     * return. */
    if (rc == ERR_OK && m->body_damaged)
        return changes_put(c, m, entry, eb);
    if (rc == ERR_OK)
        rc = manifest_decode(m->body, &kept, eb);
    if (rc != ERR_OK)
        return rc;
    rc = changes_drop_parts(c, m, &m->upload, &kept, eb);
    if (rc == ERR_OK)
        rc = changes_put(c, m, entry, eb);
    if (rc == ERR_OK)
        rc = changes_adopt_parts(c, m, entry, &kept, eb);
    manifest_fini(&kept);
    if (rc != ERR_OK)
        return rc;
    changes_end_upload(c, m);
    done.entry = *entry;
    done.completed_ms = entry->mtime_ms;
    run_done(c->run, &m->upload, &done);
    return ERR_OK;
}

static enum err
apply_abort(struct changes *c, const struct log_record *m, struct errbuf *eb)
{
    enum err rc = changes_drop_parts(c, m, &m->upload, NULL, eb);

    if (rc == ERR_OK)
        changes_end_upload(c, m);
    return rc;
}

enum err
changes_upload(struct changes *c, const struct log_record *m, struct entry *entry,
               struct errbuf *eb)
{
    switch ((unsigned)m->kind) {
    case LOG_RECORD_UPLOAD_BEGIN:
        return apply_upload_begin(c, m, eb);
    case LOG_RECORD_PART:
        return apply_part(c, m, entry, eb);
    case LOG_RECORD_UPLOAD_COMPLETE:
        return apply_complete(c, m, entry, eb);
    default:
        return apply_abort(c, m, eb);
    }
}
