#include "disk/change.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "disk/change_copies.h"
#include "disk/change_moved.h"
#include "disk/change_upload.h"
#include "disk/change_version.h"
#include "disk/known.h"
#include "disk/manifest.h"

struct changes *
changes_new(struct disk *d, enum disk_class class)
{
    struct changes *c = xcalloc(1, sizeof *c);

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

bool
row_is_object(const struct row *row)
{
    static const struct content_id none;

    if ((row->flags & ROW_TOMBSTONE) != 0)
        return false;
    return (row->flags & ROW_DOUBT) == 0 || !content_eq(&row->content, &none);
}

bool
changes_ended(const struct changes *c, const struct upload_id *id)
{
    for (uint32_t i = 0; i < c->ended_count; i++) {
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
changes_settles(const struct changes *c, const struct content_id *content)
{
    for (uint32_t i = 0; i < c->prepared_count; i++) {
        if (content_eq(&c->prepared[i].who.content, content))
            return true;
    }
    return false;
}

/* Is this the key of the record at hand, which lies in the window of the log until the group is over? */
static bool
is_hashed(const struct changes *c, uint64_t bucket, struct span key)
{
    const struct key_hashed *h = &c->hashed;

    return h->key.at == key.at && h->key.len == key.len && h->bucket == bucket;
}

/* A replay's is known. */
static uint64_t
key_hash(const struct changes *c, uint64_t bucket, struct span key)
{
    return is_hashed(c, bucket, key) ? c->hashed.hash : run_key_hash(bucket, key);
}

/* Where the key stands, or would stand, in c->slots. */
static uint16_t *
slot_of(struct changes *c, uint64_t hash, uint64_t bucket, struct span key)
{
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
changed(struct changes *c, uint64_t bucket, struct span key)
{
    uint16_t slot = *slot_of(c, key_hash(c, bucket, key), bucket, key);

    return slot != 0 ? &c->objects[slot - 1] : NULL;
}

/* The same key of the same caller, who holds it until the group is over. */
static bool
is_seen(const struct changes *c, uint64_t bucket, struct span key)
{
    return c->has_seen && c->seen.bucket == bucket && c->seen.key.at == key.at &&
           c->seen.key.len == key.len;
}

/* Is it sure that neither the tail nor the index has this key? */
static bool
is_new(const struct changes *c, uint64_t bucket, struct span key)
{
    const struct known *known = c->disk->home.known;

    return known != NULL && known_is_complete(known) &&
           !known_maybe(known, key_hash(c, bucket, key)) &&
           !index_is_hiding(c->disk->index);
}

enum err
changes_current(struct changes *c, uint64_t bucket, struct span key, struct row *out,
                struct errbuf *eb)
{
    const struct changed_object *o;
    enum err rc;

    if (!is_hashed(c, bucket, key))
        c->hashed = (struct key_hashed){
            .bucket = bucket, .hash = run_key_hash(bucket, key), .key = key};
    o = changed(c, bucket, key);
    if (o != NULL) {
        *out = o->row;
        return ERR_OK;
    }
    if (is_seen(c, bucket, key)) { /* judged a moment ago, now it is applied */
        if (!c->found_seen)
            return ERR_NOT_FOUND;
        *out = c->seen.row;
        return ERR_OK;
    }
    rc = is_new(c, bucket, key)
             ? ERR_NOT_FOUND
             : find_object(c->disk->tail, c->disk->index, bucket, key, true, out, eb);
    c->seen = (struct changed_object){.bucket = bucket, .key = key};
    c->has_seen = rc == ERR_OK || rc == ERR_NOT_FOUND;
    c->found_seen = rc == ERR_OK;
    if (rc == ERR_OK)
        c->seen.row = *out;
    else
        c->seen.row.flags = ROW_TOMBSTONE;
    return rc;
}

/* What the bucket holds changes with the current row. Whoever sets one has just asked for the one before. */
static void
note_usage(struct changes *c, uint64_t bucket, struct span key,
           const struct changed_object *before, const struct row *row)
{
    struct row unused;

    if (before == NULL && !is_seen(c, bucket, key)) {
        enum err rc = changes_current(c, bucket, key, &unused, NULL);

        if (rc != ERR_OK && rc != ERR_NOT_FOUND)
            return; /* not known: off by one until the next start */
    }
    usage_note(&c->usage, bucket, before != NULL ? &before->row : &c->seen.row, row);
}

void
changes_set_object(struct changes *c, uint64_t bucket, struct span key,
                   const struct row *row)
{
    struct changed_object *o = changed(c, bucket, key);
    uint64_t hash = key_hash(c, bucket, key);

    note_usage(c, bucket, key, o, row);
    if (o == NULL) {
        uint16_t *slot = slot_of(c, hash, bucket, key);

        assert(c->object_count < GROUP_MEMBERS);
        o = &c->objects[c->object_count++];
        *slot = (uint16_t)c->object_count;
        if (c->disk->home.known != NULL)
            known_add(c->disk->home.known, hash);
        *o = (struct changed_object){.hash = hash, .bucket = bucket, .key = key};
    }
    o->row = *row;
    if (is_hashed(c, bucket, key) && c->hashed.coded.len > 0)
        run_object_coded(c->run, bucket, key, hash, c->hashed.coded);
    else
        run_object_hashed(c->run, bucket, key, hash, row);
}

/* ---- bytes that died ---- */

void
changes_note_dying(struct disk *d, enum disk_class class, uint32_t segment,
                   uint64_t offset, const struct content_id *content)
{
    if (d->home.dying_count == d->home.dying_room) {
        d->home.dying_room = d->home.dying_room == 0 ? 64 : 2 * d->home.dying_room;
        d->home.dying =
            xrealloc(d->home.dying, d->home.dying_room * sizeof *d->home.dying);
    }
    d->home.dying[d->home.dying_count++] = (struct dying){
        .class = class, .segment = segment, .offset = offset, .content = *content};
    d->home.deaths[class]++;
}

/* A part comes to an upload, or to an object with its manifest; or leaves it for the other. */
void
changes_count_part(struct changes *c, uint32_t segment, bool in_log, uint64_t size,
                   int sign)
{
    run_segment(c->run, c->class, segment, sign * segment_weight(in_log, size), 0);
}

static void
part_died(struct changes *c, uint32_t segment, uint64_t offset,
          const struct content_id *content, bool in_log, uint64_t size)
{
    int64_t weight = segment_weight(in_log, size);

    run_segment(c->run, c->class, segment, -weight, weight);
    if (!in_log)
        changes_note_dying(c->disk, c->class, segment, offset, content);
}

void
changes_part_row_died(struct changes *c, const struct row *row)
{
    part_died(c, row->segment, row->offset, &row->content, (row->flags & ROW_INLINE) != 0,
              row->size);
}

void
changes_place_died(struct changes *c, const struct manifest_entry *e)
{
    changes_note_dying(c->disk, c->class, e->segment, e->offset, &e->content);
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

/* A row was replaced or deleted. What lies at its own place the index counts by itself. */
void
changes_row_died(struct changes *c, const struct row *old)
{
    if (!row_is_object(old))
        return;
    if ((old->flags & ROW_PARTS) != 0) {
        struct manifest m;
        struct errbuf eb = {0};

        if (manifest_load_quiet(c->disk, old, &m, &eb) != ERR_OK) {
            /* Its parts stay counted as living until a rebuild; the object is gone all the same. */
            LOG(LOG_WARN, "disk.manifest_unreadable",
                "parts of a replaced object are not given back",
                L_TEXT("error", eb.text));
            return;
        }
        changes_manifest_died(c, &m);
        manifest_fini(&m);
    } else if ((old->flags & ROW_INLINE) == 0) {
        changes_note_dying(c->disk,
                           (old->flags & ROW_CACHED) != 0 ? DISK_CACHED : DISK_NATIVE,
                           old->segment, old->offset, &old->content);
    }
}

/* ---- objects ---- */

enum err
changes_put(struct changes *c, const struct member *m, struct row *row, struct errbuf *eb)
{
    struct row old;
    enum err rc = changes_current(c, m->bucket, m->key, &old, eb);

    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return rc;
    if (rc == ERR_OK) /* what was there before may change it */
        c->hashed.coded.len = 0;
    if (rc == ERR_OK && (row->flags & (ROW_VERSIONED | ROW_SUSPENDED)) != 0)
        return changes_insert(c, m, row, eb);
    /* At replay the other class's log, or the index, may be ahead of this record. */
    if (rc == ERR_OK && version_cmp(&old.version, &row->version) > 0)
        return ERR_OK;
    rc = rc == ERR_OK ? changes_succeed(c, m, &old, row, eb) : ERR_OK;
    if (rc == ERR_OK)
        changes_set_object(c, m->bucket, m->key, row);
    return rc;
}

static enum err
apply_put(struct changes *c, const struct member *m, struct row *row, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    if (m->row != NULL) {
        *row = *m->row;
        if (m->key_hash != 0) /* a record of ours that is just written has none */
            c->hashed = (struct key_hashed){m->bucket, m->key_hash, m->key, m->coded};
    } else {
        rc = member_row(m, c->class, row, eb);
    }
    return rc == ERR_OK ? changes_put(c, m, row, eb) : rc;
}

bool
changes_take_new(struct changes *c, const struct member *m)
{
    struct run *gathered = tail_gathered(c->disk->tail);
    struct known *known = c->disk->home.known;

    if (gathered == NULL || m->coded.len == 0 ||
        (m->kind != MEMBER_PUT && m->kind != MEMBER_COMMIT))
        return false;
    if (known == NULL || !known_is_complete(known) || known_maybe(known, m->key_hash) ||
        index_is_hiding(c->disk->index))
        return false;
    usage_note(&c->usage, m->bucket, NULL, m->row);
    known_add(known, m->key_hash);
    run_gather_new(gathered, m->bucket, m->key, m->key_hash, m->coded);
    return true;
}

static enum err
apply_delete(struct changes *c, const struct member *m, struct row *row,
             struct errbuf *eb)
{
    struct row said;
    enum err rc = member_row(m, c->class, &said, eb); /* for its time and versioning */
    uint32_t versioning = said.flags & (ROW_VERSIONED | ROW_SUSPENDED);

    *row =
        (struct row){.flags = ROW_TOMBSTONE | (c->class == DISK_CACHED ? ROW_CACHED : 0),
                     .version = m->version};
    if (rc != ERR_OK)
        return rc;
    if (versioning != 0) {
        row->flags |= ROW_MARKER | versioning;
        row->born = m->born;
    }
    if (m->kind == MEMBER_TOMBSTONE)
        row->flags |= ROW_KEPT;
    if (versioning != 0 || m->kind == MEMBER_TOMBSTONE)
        row->mtime_ms = said.mtime_ms;
    return changes_put(c, m, row, eb);
}

/* In doubt: the row gets a flag; without one there is a row that only says so, under a version of its own. */
static enum err
apply_doubt(struct changes *c, const struct member *m, struct row *row, struct errbuf *eb)
{
    enum err rc = changes_current(c, m->bucket, m->key, row, eb);

    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return rc;
    if (rc == ERR_NOT_FOUND || !row_is_object(row))
        *row = (struct row){.flags = ROW_CACHED, .version = m->version};
    row->flags |= ROW_DOUBT;
    changes_set_object(c, m->bucket, m->key, row);
    return ERR_OK;
}

static enum err
apply_doubt_clear(struct changes *c, const struct member *m, struct row *row,
                  struct errbuf *eb)
{
    enum err rc = changes_current(c, m->bucket, m->key, row, eb);

    if (rc == ERR_NOT_FOUND)
        return ERR_OK;
    if (rc != ERR_OK)
        return rc;
    if (row_is_object(row))
        row->flags &= ~(uint32_t)ROW_DOUBT;
    else
        *row = (struct row){.flags = ROW_TOMBSTONE | ROW_CACHED, .version = m->version};
    changes_set_object(c, m->bucket, m->key, row);
    return ERR_OK;
}

/* ---- records ---- */

enum err
changes_apply(struct changes *c, const struct member *m, struct row *out,
              struct errbuf *eb)
{
    struct row unused;
    struct row *row = out != NULL ? out : &unused;

    *row = (struct row){0};
    if (c->run == NULL)
        c->run = run_new();
    switch ((unsigned)m->kind) {
    case MEMBER_PUT:
    case MEMBER_COMMIT:
        return apply_put(c, m, row, eb);
    case MEMBER_DELETE:
    case MEMBER_TOMBSTONE:
        return apply_delete(c, m, row, eb);
    case MEMBER_MOVED:
        return changes_moved(c, m, row, eb);
    case MEMBER_META:
        return changes_meta(c, m, row, eb);
    case MEMBER_VERSION_DELETE:
        return changes_version_delete(c, m, row, eb);
    case MEMBER_PREPARE:
    case MEMBER_DECIDE:
    case MEMBER_ABORT:
    case MEMBER_TOMBSTONE_END:
    case MEMBER_OBSOLETE:
        return changes_copies(c, m, row, eb);
    case MEMBER_DOUBT:
        return apply_doubt(c, m, row, eb);
    case MEMBER_DOUBT_CLEAR:
        return apply_doubt_clear(c, m, row, eb);
    case MEMBER_UPLOAD_BEGIN:
    case MEMBER_PART:
    case MEMBER_UPLOAD_COMPLETE:
    case MEMBER_UPLOAD_ABORT:
        return changes_upload(c, m, row, eb);
    case MEMBER_BUCKET: /* read by a rebuild of the bucket table, never by the index */
        return ERR_OK;
    default:
        return err_set(eb, ERR_CORRUPT, "a record \"%s\" does not belong in a log",
                       member_kind_name(m->kind));
    }
}

void
changes_publish(struct changes *c)
{
    if (tail_gathered(c->disk->tail) != NULL)
        tail_gather(c->disk->tail, &c->run);
    else if (c->run != NULL && run_count(c->run) > 0)
        tail_push(c->disk->tail, &c->run);
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
    run_free(&c->run);
    if (c->object_count > 0)
        memset(c->slots, 0, sizeof c->slots);
    c->object_count = 0;
    c->has_seen = false;
    c->hashed.key.at = NULL;
    c->usage.count = 0;
    c->version_count = 0;
    c->ended_count = 0;
    c->begun_count = 0;
    c->part_count = 0;
    c->prepared_count = 0;
}
