#include "store/wal/change.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "store/core/core.h"
#include "store/index/entry.h"
#include "store/index/find.h"
#include "store/index/index.h"
#include "store/index/key_filter.h"
#include "store/index/memtable.h"
#include "store/index/run.h"
#include "store/index/suspect.h"
#include "store/index/usage.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/record/manifest.h"
#include "store/segment/read.h"
#include "store/store_entry.h"
#include "store/wal/change_relocation.h"
#include "store/wal/change_replica.h"
#include "store/wal/change_upload.h"
#include "store/wal/change_version.h"
#include "store/wal/prepared.h"
#include "store/wal/wal.h"

struct changes *
changes_new(struct store *d, enum store_class class)
{
    struct changes *c = xcalloc(1, sizeof *c);

    assert(class < STORE_CLASSES_);
    c->disk = d;
    c->class = class;
    return c;
}

void
changes_free(struct changes **cp)
{
    struct changes *c = *cp;

    *cp = NULL;
    if (c == NULL)
        return;
    run_free(&c->run);
    free(c->versions);
    free(c->usage.at);
    free(c);
}

/* Asserts the invariants that hold between two records. */
static void
changes_check(const struct changes *c)
{
    assert(c->disk != NULL && c->class < STORE_CLASSES_);
    assert(c->object_count <= BATCH_RECORDS);
    assert(c->ended_uploads_count <= BATCH_RECORDS);
    assert(c->begun_count <= BATCH_RECORDS);
    assert(c->part_count <= BATCH_RECORDS);
    assert(c->prepared_count <= BATCH_RECORDS);
    assert(c->version_count <= c->version_room);
    assert(c->class == STORE_NATIVE || c->prepared_count == 0);
}

bool
entry_is_object(const struct entry *entry)
{
    static const struct content_id none;

    if ((entry->flags & ENTRY_TOMBSTONE) != 0)
        return false;
    return (entry->flags & ENTRY_IN_DOUBT) == 0 || !content_eq(&entry->content, &none);
}

bool
changes_ended(const struct changes *c, const struct upload_id *id)
{
    for (uint32_t i = 0; i < c->ended_uploads_count; i++) {
        if (content_eq(&c->ended[i].id, &id->id))
            return true;
    }
    return false;
}

struct changed_part *
changes_part(struct changes *c, const struct upload_id *id, uint32_t number)
{
    for (uint32_t i = 0; i < c->part_count; i++) {
        if (c->parts[i].number == number && content_eq(&c->parts[i].upload.id, &id->id))
            return &c->parts[i];
    }
    return NULL;
}

bool
changes_resolves(const struct changes *c, const struct content_id *content)
{
    for (uint32_t i = 0; i < c->prepared_count; i++) {
        if (content_eq(&c->prepared[i].who.content, content))
            return true;
    }
    return false;
}

/* True if this is the key of the current record. Its bytes stay in the log window until the
 * batch is over. */
static bool
is_hashed(const struct changes *c, uint64_t bucket, struct span key)
{
    const struct key_hashed *h = &c->hashed;

    return h->key.at == key.at && h->key.len == key.len && h->bucket == bucket;
}

/* A replay has computed the hash already. */
static uint64_t
change_key_hash(const struct changes *c, uint64_t bucket, struct span key)
{
    return is_hashed(c, bucket, key) ? c->hashed.hash : run_key_hash(bucket, key);
}

/* Returns the key's slot in c->slots, or the free slot for it. */
static uint16_t *
change_slot_of(struct changes *c, uint64_t hash, uint64_t bucket, struct span key)
{
    assert(c->object_count < CHANGED_SLOTS);
    for (uint64_t at = hash % CHANGED_SLOTS;; at = (at + 1) % CHANGED_SLOTS) {
        const struct changed_object *o;

        if (c->slots[at] == 0)
            return &c->slots[at];
        o = &c->objects[c->slots[at] - 1];
        if (o->hash == hash && o->bucket == bucket && span_eq(o->key, key))
            return &c->slots[at];
    }
}

static struct changed_object *
change_changed(struct changes *c, uint64_t bucket, struct span key)
{
    uint16_t slot = *change_slot_of(c, change_key_hash(c, bucket, key), bucket, key);

    return slot != 0 ? &c->objects[slot - 1] : NULL;
}

/* True if both spans are the same bytes of the same caller, which keeps them until the batch is
 * over. */
static bool
is_seen(const struct changes *c, uint64_t bucket, struct span key)
{
    return c->has_seen && c->seen.bucket == bucket && c->seen.key.at == key.at &&
           c->seen.key.len == key.len;
}

/* True if certainly neither the memtable nor the index has this key. */
static bool
is_new(const struct changes *c, uint64_t bucket, struct span key)
{
    const struct key_filter *key_filter = c->disk->key_filter;

    return key_filter != NULL && key_filter_is_complete(key_filter) &&
           !key_filter_maybe(key_filter, change_key_hash(c, bucket, key)) &&
           !index_is_hiding(c->disk->index);
}

enum err
changes_current(struct changes *c, uint64_t bucket, struct span key, struct entry *out,
                struct errbuf *eb)
{
    const struct changed_object *o;
    enum err rc;

    if (!is_hashed(c, bucket, key))
        c->hashed = (struct key_hashed){
            .bucket = bucket, .hash = run_key_hash(bucket, key), .key = key};
    o = change_changed(c, bucket, key);
    if (o != NULL) {
        *out = o->entry;
        return ERR_OK;
    }
    if (is_seen(c, bucket, key)) { /* the check before the write looked it up */
        if (!c->found_seen)
            return ERR_NOT_FOUND;
        *out = c->seen.entry;
        return ERR_OK;
    }
    rc = is_new(c, bucket, key) ? ERR_NOT_FOUND
                                : find_object_known(c->disk->memtable, c->disk->index,
                                                    bucket, key, true, out, eb);
    c->seen = (struct changed_object){.bucket = bucket, .key = key};
    c->has_seen = rc == ERR_OK || rc == ERR_NOT_FOUND;
    c->found_seen = rc == ERR_OK;
    if (rc == ERR_OK)
        c->seen.entry = *out;
    else
        c->seen.entry.flags = ENTRY_TOMBSTONE;
    return rc;
}

/* Updates the bucket's usage for a new current entry. The caller has just looked up the former
 * one. */
static void
note_usage(struct changes *c, uint64_t bucket, struct span key,
           const struct changed_object *before, const struct entry *entry)
{
    struct entry unused;

    if (before == NULL && !is_seen(c, bucket, key)) {
        enum err rc = changes_current(c, bucket, key, &unused, NULL);

        if (rc != ERR_OK && rc != ERR_NOT_FOUND)
            return; /* not counted: the usage is off by one until the next start */
    }
    usage_note(&c->usage, bucket, before != NULL ? &before->entry : &c->seen.entry,
               entry);
}

void
changes_set_object(struct changes *c, uint64_t bucket, struct span key,
                   const struct entry *entry)
{
    struct changed_object *o = change_changed(c, bucket, key);
    uint64_t hash = change_key_hash(c, bucket, key);

    assert(c->run != NULL);
    assert(key.len > 0 && key.len <= STORE_KEY_MAX);
    if (c->disk->suspects->count > 0)
        suspects_resolve(c->disk->suspects, hash, c->batch);
    note_usage(c, bucket, key, o, entry);
    if (o == NULL) {
        uint16_t *slot = change_slot_of(c, hash, bucket, key);

        assert(c->object_count < BATCH_RECORDS);
        o = &c->objects[c->object_count++];
        *slot = (uint16_t)c->object_count;
        if (c->disk->key_filter != NULL)
            key_filter_add(c->disk->key_filter, hash);
        *o = (struct changed_object){.hash = hash, .bucket = bucket, .key = key};
    }
    o->entry = *entry;
    if (is_hashed(c, bucket, key) && c->hashed.coded.len > 0)
        run_object_coded(c->run, bucket, key, hash, c->hashed.coded);
    else
        run_object_hashed(c->run, bucket, key, hash, entry);
}

/* ---- garbage ---- */

void
changes_note_garbage(struct store *d, enum store_class class, uint32_t segment,
                     uint64_t offset, const struct content_id *content)
{
    assert(on_owner(d));
    assert(d->wals->garbage_count <= d->wals->garbage_room);
    assert(offset % 512 == 0);
    if (d->wals->garbage_count == d->wals->garbage_room) {
        d->wals->garbage_room =
            d->wals->garbage_room == 0 ? 64 : 2 * d->wals->garbage_room;
        d->wals->garbage =
            xrealloc(d->wals->garbage, d->wals->garbage_room * sizeof *d->wals->garbage);
    }
    d->wals->garbage[d->wals->garbage_count++] = (struct garbage){
        .class = class, .segment = segment, .offset = offset, .content = *content};
    d->wals->deaths[class]++;
}

/* Moves a part into an upload or, with a manifest, into an object; or out of it. */
void
changes_count_part(struct changes *c, uint32_t segment, bool in_log, uint64_t size,
                   int sign)
{
    assert(sign == 1 || sign == -1);
    assert(c->run != NULL);
    run_segment(c->run, c->class, segment, sign * segment_weight(in_log, size), 0);
}

static void
part_died(struct changes *c, uint32_t segment, uint64_t offset,
          const struct content_id *content, bool in_log, uint64_t size)
{
    int64_t weight = segment_weight(in_log, size);

    run_segment(c->run, c->class, segment, -weight, weight);
    if (!in_log)
        changes_note_garbage(c->disk, c->class, segment, offset, content);
}

void
changes_part_entry_died(struct changes *c, const struct entry *entry)
{
    part_died(c, entry->place.segment, entry->place.offset, &entry->content,
              (entry->flags & ENTRY_INLINE) != 0, entry->size);
}

void
changes_place_died(struct changes *c, const struct manifest_entry *e)
{
    changes_note_garbage(c->disk, c->class, e->segment, e->offset, &e->content);
}

void
changes_manifest_died(struct changes *c, const struct manifest *m)
{
    for (uint32_t i = 0; i < m->count; i++) {
        const struct manifest_entry *e = &m->entries[i];

        part_died(c, e->segment, e->offset, &e->content, e->in_log, e->size);
    }
}

void
changes_manifest_lives(struct changes *c, const struct manifest *m)
{
    for (uint32_t i = 0; i < m->count; i++)
        changes_count_part(c, m->entries[i].segment, m->entries[i].in_log,
                           m->entries[i].size, 1);
}

/* Counts what a replaced or deleted entry leaves as garbage. The index itself counts the bytes
 * at the entry's own place. */
void
changes_entry_died(struct changes *c, const struct entry *old)
{
    if (!entry_is_object(old))
        return;
    if ((old->flags & ENTRY_PARTS) != 0) {
        struct manifest m;
        struct errbuf eb = {0};

        if (manifest_load_quiet(c->disk, old, &m, &eb) != ERR_OK) {
            /* The parts count as live until a rebuild, although the object is deleted. */
            LOG(LOG_WARN, "store.manifest_unreadable",
                "parts of a replaced object are not given back",
                L_TEXT("error", eb.text));
            return;
        }
        changes_manifest_died(c, &m);
        manifest_fini(&m);
    } else if ((old->flags & ENTRY_INLINE) == 0) {
        changes_note_garbage(
            c->disk, (old->flags & ENTRY_CACHED) != 0 ? STORE_CACHED : STORE_NATIVE,
            old->place.segment, old->place.offset, &old->content);
    }
}

/* ---- objects ---- */

enum err
changes_put(struct changes *c, const struct log_record *m, struct entry *entry,
            struct errbuf *eb)
{
    struct entry old;
    enum err rc = changes_current(c, m->bucket, m->key, &old, eb);

    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return rc;
    if (rc == ERR_OK) /* the former entry may change it */
        c->hashed.coded.len = 0;
    if (rc == ERR_OK && (entry->flags & (ENTRY_VERSIONED | ENTRY_SUSPENDED)) != 0)
        return changes_insert(c, m, entry, eb);
    /* During replay, the index or the other class's log may be ahead of this record. */
    if (rc == ERR_OK && version_cmp(&old.version, &entry->version) > 0)
        return ERR_OK;
    rc = rc == ERR_OK ? changes_succeed(c, m, &old, entry, eb) : ERR_OK;
    if (rc == ERR_OK)
        changes_set_object(c, m->bucket, m->key, entry);
    return rc;
}

static enum err
apply_put(struct changes *c, const struct log_record *m, struct entry *entry,
          struct errbuf *eb)
{
    enum err rc = ERR_OK;

    if (m->entry != NULL) {
        *entry = *m->entry;
        if (m->key_hash != 0) /* a record just written by this process has none */
            c->hashed = (struct key_hashed){m->bucket, m->key_hash, m->key, m->coded};
    } else {
        rc = record_entry(m, c->class, entry, eb);
    }
    return rc == ERR_OK ? changes_put(c, m, entry, eb) : rc;
}

bool
changes_insert_new(struct changes *c, const struct log_record *m)
{
    struct run *gathered = memtable_gathered(c->disk->memtable);
    struct key_filter *key_filter = c->disk->key_filter;

    if (gathered == NULL || m->coded.len == 0 ||
        (m->kind != LOG_RECORD_PUT && m->kind != LOG_RECORD_COMMIT))
        return false;
    if (key_filter == NULL || !key_filter_is_complete(key_filter) ||
        key_filter_maybe(key_filter, m->key_hash) || index_is_hiding(c->disk->index))
        return false;
    if (c->disk->suspects->count > 0)
        suspects_resolve(c->disk->suspects, m->key_hash, m->batch);
    usage_note(&c->usage, m->bucket, NULL, m->entry);
    key_filter_add(key_filter, m->key_hash);
    run_gather_new(gathered, m->bucket, m->key, m->key_hash, m->coded);
    return true;
}

static enum err
apply_delete(struct changes *c, const struct log_record *m, struct entry *entry,
             struct errbuf *eb)
{
    struct entry said;
    /* For its time and versioning flags. */
    enum err rc = record_entry(m, c->class, &said, eb);
    uint32_t versioning = said.flags & (ENTRY_VERSIONED | ENTRY_SUSPENDED);

    *entry = (struct entry){.flags = ENTRY_TOMBSTONE |
                                     (c->class == STORE_CACHED ? ENTRY_CACHED : 0),
                            .version = m->version};
    if (rc != ERR_OK)
        return rc;
    if (versioning != 0) {
        entry->flags |= ENTRY_MARKER | versioning;
        entry->born = m->born;
    }
    if (m->kind == LOG_RECORD_TOMBSTONE)
        entry->flags |= ENTRY_KEPT;
    if (versioning != 0 || m->kind == LOG_RECORD_TOMBSTONE)
        entry->mtime_ms = said.mtime_ms;
    return changes_put(c, m, entry, eb);
}

/* Marks the key in doubt: sets a flag in its entry. A key without an entry gets one that has
 * only the flag and its own version. */
static enum err
apply_in_doubt(struct changes *c, const struct log_record *m, struct entry *entry,
               struct errbuf *eb)
{
    enum err rc = changes_current(c, m->bucket, m->key, entry, eb);

    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return rc;
    if (rc == ERR_NOT_FOUND || !entry_is_object(entry))
        *entry = (struct entry){.flags = ENTRY_CACHED, .version = m->version};
    entry->flags |= ENTRY_IN_DOUBT;
    changes_set_object(c, m->bucket, m->key, entry);
    return ERR_OK;
}

static enum err
apply_in_doubt_clear(struct changes *c, const struct log_record *m, struct entry *entry,
                     struct errbuf *eb)
{
    enum err rc = changes_current(c, m->bucket, m->key, entry, eb);

    if (rc == ERR_NOT_FOUND)
        return ERR_OK;
    if (rc != ERR_OK)
        return rc;
    if (entry_is_object(entry))
        entry->flags &= ~(uint32_t)ENTRY_IN_DOUBT;
    else
        *entry = (struct entry){.flags = ENTRY_TOMBSTONE | ENTRY_CACHED,
                                .version = m->version};
    changes_set_object(c, m->bucket, m->key, entry);
    return ERR_OK;
}

/* ---- records ---- */

enum err
changes_apply(struct changes *c, const struct log_record *m, struct entry *out,
              struct errbuf *eb)
{
    struct entry unused;
    struct entry *entry = out != NULL ? out : &unused;

    changes_check(c);
    assert(m->kind != 0);
    *entry = (struct entry){0};
    c->batch = m->batch;
    if (c->run == NULL)
        c->run = run_new();
    switch ((unsigned)m->kind) {
    case LOG_RECORD_PUT:
    case LOG_RECORD_COMMIT:
        return apply_put(c, m, entry, eb);
    case LOG_RECORD_DELETE:
    case LOG_RECORD_TOMBSTONE:
        return apply_delete(c, m, entry, eb);
    case LOG_RECORD_RELOCATED:
        return changes_relocation(c, m, entry, eb);
    case LOG_RECORD_META:
        return changes_meta(c, m, entry, eb);
    case LOG_RECORD_VERSION_DELETE:
        return changes_version_delete(c, m, entry, eb);
    case LOG_RECORD_PREPARE:
    case LOG_RECORD_COMMIT_PREPARED:
    case LOG_RECORD_ABORT_PREPARED:
    case LOG_RECORD_TOMBSTONE_END:
    case LOG_RECORD_OBSOLETE:
        return changes_replica(c, m, entry, eb);
    case LOG_RECORD_IN_DOUBT:
        return apply_in_doubt(c, m, entry, eb);
    case LOG_RECORD_IN_DOUBT_CLEAR:
        return apply_in_doubt_clear(c, m, entry, eb);
    case LOG_RECORD_UPLOAD_BEGIN:
    case LOG_RECORD_PART:
    case LOG_RECORD_UPLOAD_COMPLETE:
    case LOG_RECORD_UPLOAD_ABORT:
        return changes_upload(c, m, entry, eb);
    case LOG_RECORD_KEYS:   /* says only what the others change */
    case LOG_RECORD_BUCKET: /* only a rebuild of the bucket table reads it */
        return ERR_OK;
    default:
        return err_set(eb, ERR_CORRUPT, "a record \"%s\" does not belong in a log",
                       log_record_kind_name(m->kind));
    }
}

void
changes_publish(struct changes *c)
{
    changes_check(c);
    assert(on_owner(c->disk));
    if (memtable_gathered(c->disk->memtable) != NULL)
        memtable_gather(c->disk->memtable, &c->run);
    else if (c->run != NULL && run_count(c->run) > 0)
        memtable_push(c->disk->memtable, &c->run);
    for (uint32_t i = 0; i < c->prepared_count; i++) {
        if (c->prepared[i].comes)
            prepared_add(c->disk->prepared, &c->prepared[i].who);
        else
            prepared_drop(c->disk->prepared, &c->prepared[i].who.content);
    }
    if (c->disk->usage != NULL)
        usage_apply(c->disk->usage, &c->usage);
    changes_forget(c);
}

void
changes_forget(struct changes *c)
{
    changes_check(c);
    run_free(&c->run);
    if (c->object_count > 0)
        memset(c->slots, 0, sizeof c->slots);
    c->object_count = 0;
    c->has_seen = false;
    c->hashed.key.at = NULL;
    c->usage.count = 0;
    c->version_count = 0;
    c->ended_uploads_count = 0;
    c->begun_count = 0;
    c->part_count = 0;
    c->prepared_count = 0;
}
