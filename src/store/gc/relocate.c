#include "store/gc/relocate.h"

#include <assert.h>

#include "store/core/core.h"
#include "store/index/entry.h"
#include "store/index/find.h"
#include "store/index/list.h"
#include "store/index/run.h"
#include "store/index/suspect.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/record/manifest.h"
#include "store/segment/read.h"
#include "store/store_entry.h"
#include "store/wal/change.h"
#include "store/wal/change_version.h"
#include "store/wal/prepared.h"

#define OLDER_PAGE 32u

static struct place
record_place_of(const struct log_record *m) /* of its body, or of itself */
{
    if (m->place.segment != 0)
        return m->place;
    return (struct place){
        .segment = m->segment, .generation = m->generation, .offset = m->offset};
}

static bool
entry_is_at(const struct entry *entry, const struct place *p)
{
    return entry->place.segment == p->segment && entry->place.offset == p->offset;
}

/* ---- the owner of a part ---- */

static enum err
manifest_has_part(struct store *d, const struct entry *entry, uint32_t segment,
                  uint64_t offset, bool *out, struct errbuf *eb)
{
    struct manifest m;
    enum err rc;

    *out = false;
    if ((entry->flags & (ENTRY_PARTS | ENTRY_TOMBSTONE)) != ENTRY_PARTS)
        return ERR_OK;
    rc = manifest_load(d, entry, &m, eb);
    if (rc != ERR_OK)
        return rc;
    for (uint32_t i = 0; !*out && i < m.count; i++)
        *out = m.entries[i].segment == segment && m.entries[i].offset == offset;
    manifest_fini(&m);
    return ERR_OK;
}

static enum err
find_older_owner(struct store *d, uint64_t bucket, struct span key, uint32_t segment,
                 uint64_t offset, struct entry *out, struct errbuf *eb)
{
    struct version after = {UINT64_MAX, UINT64_MAX};
    struct arena *a = arena_new(KIB(8), MIB(1));
    bool more = true, has = false;
    enum err rc = ERR_OK;

    assert(segment > 0);
    while (rc == ERR_OK && more && !has) {
        struct entry *entries;
        uint32_t count;

        arena_reset(a);
        rc = list_older(d->memtable, d->index, bucket, key, &after, OLDER_PAGE, a,
                        &entries, &count, &more, eb);
        for (uint32_t i = 0; rc == ERR_OK && !has && i < count; i++) {
            after = entry_born(&entries[i]);
            *out = entries[i];
            rc = manifest_has_part(d, out, segment, offset, &has, eb);
        }
        more = more && rc == ERR_OK && count > 0;
    }
    arena_free(&a);
    return rc == ERR_OK && !has ? ERR_NOT_FOUND : rc;
}

enum err
relocate_find_owner(struct store *d, uint64_t bucket, struct span key, uint32_t segment,
                    uint64_t offset, struct entry *out, struct errbuf *eb)
{
    bool has;
    enum err rc = find_object(d->memtable, d->index, bucket, key, true, out, eb);

    assert(segment > 0);
    assert(key.len > 0);
    if (rc != ERR_OK)
        return rc;
    rc = manifest_has_part(d, out, segment, offset, &has, eb);
    if (rc != ERR_OK || has)
        return rc;
    if ((out->flags & (ENTRY_VERSIONED | ENTRY_SUSPENDED)) == 0)
        return ERR_NOT_FOUND; /* no version is older */
    return find_older_owner(d, bucket, key, segment, offset, out, eb);
}

enum err
relocate_body_is_live(struct store *d, const struct log_record *m, bool *out,
                      struct errbuf *eb)
{
    struct part_entry part;
    struct entry entry;
    enum err rc;

    assert(m->segment > 0);
    *out = m->kind == LOG_RECORD_BODY;
    if (!*out ||
        (prepared_count(d->prepared) > 0 &&
         (prepared_has(d->prepared, &m->content) ||
          (log_record_has_upload(m) && prepared_has_upload(d->prepared, &m->upload)))))
        return ERR_OK;
    if (m->part == 0) {
        rc = find_content(d->memtable, d->index, m->bucket, m->key, &m->content, &entry,
                          eb);
        *out = rc == ERR_OK && entry.place.segment == m->segment &&
               entry.place.offset == m->offset;
        return rc == ERR_NOT_FOUND ? ERR_OK : rc;
    }
    rc = find_part(d->memtable, d->index, &m->upload, m->part, &part, eb);
    if (rc == ERR_OK && part.entry.place.segment == m->segment &&
        part.entry.place.offset == m->offset)
        return ERR_OK;
    if (rc == ERR_OK || rc == ERR_NO_UPLOAD)
        rc = relocate_find_owner(d, m->bucket, m->key, m->segment, m->offset, &entry, eb);
    *out = rc != ERR_NOT_FOUND;
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

/* ---- classification ---- */

static enum err
classify_stuck(struct relocation *out)
{
    out->what = RELOCATE_STUCK;
    return ERR_OK;
}

static enum err
classify_negative(struct relocation *out, bool oldest)
{
    out->what = oldest ? RELOCATE_DROP : RELOCATE_WAIT;
    return ERR_OK;
}

/* A prepared version, whose prepare record this is. */
static enum err
classify_prepared(struct store *d, const struct log_record *m, struct relocation *out,
                  struct errbuf *eb)
{
    struct place at = record_place_of(m);
    char key[STORE_KEY_MAX];
    struct prepared_entry p;
    enum err rc = find_prepared(d->memtable, d->index, &m->content, key, &p, eb);

    assert(out->m == m);
    if (rc == ERR_OK && m->kind == LOG_RECORD_PREPARE && entry_is_at(&p.entry, &at)) {
        out->what = RELOCATE_KEEP;
        out->by = RELOCATE_BY_PREPARED;
    }
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static enum err
classify_body(struct store *d, const struct log_record *m, struct relocation *out,
              struct errbuf *eb)
{
    struct place at = record_place_of(m);
    enum err rc;

    assert(out->m == m);
    if (prepared_has(d->prepared, &m->content))
        return classify_prepared(d, m, out, eb);
    rc = find_content(d->memtable, d->index, m->bucket, m->key, &m->content, &out->entry,
                      eb);
    if (rc == ERR_OK && entry_is_at(&out->entry, &at)) {
        out->what = RELOCATE_MOVE;
        out->by = RELOCATE_BY_VERSION;
    }
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static enum err
upload_is_open(struct store *d, const struct log_record *m, bool *out, struct errbuf *eb)
{
    struct upload_entry u;
    enum err rc =
        find_upload(d->memtable, d->index, m->bucket, m->key, &m->upload, &u, eb);

    *out = rc == ERR_OK;
    return rc == ERR_NO_UPLOAD ? ERR_OK : rc;
}

/* A manifest without an entry has still ended its upload. */
static enum err
classify_manifest(struct store *d, const struct log_record *m, bool oldest,
                  struct relocation *out, struct errbuf *eb)
{
    struct place at = record_place_of(m);
    bool open;
    enum err rc;

    assert(out->m == m);
    if (prepared_has(d->prepared, &m->content))
        return classify_prepared(d, m, out, eb);
    rc = find_content(d->memtable, d->index, m->bucket, m->key, &m->content, &out->entry,
                      eb);
    if (rc == ERR_OK && entry_is_at(&out->entry, &at)) {
        out->what = RELOCATE_MANIFEST;
        out->by = RELOCATE_BY_VERSION;
    }
    if (rc != ERR_NOT_FOUND) /* a relocated one ends the upload as well */
        return rc;
    rc = upload_is_open(d, m, &open, eb);
    if (rc == ERR_OK && !open && !oldest)
        out->what = RELOCATE_END;
    return rc;
}

/* A part in the log that an object may have. */
static enum err
classify_owned_part(struct store *d, const struct log_record *m, struct relocation *out,
                    struct errbuf *eb)
{
    enum err rc;

    assert(m->part > 0);
    if (m->place.segment != 0)
        return ERR_OK; /* the manifest has its place: the record is not needed */
    if (prepared_has_upload(d->prepared, &m->upload))
        return classify_stuck(out);
    rc =
        relocate_find_owner(d, m->bucket, m->key, m->segment, m->offset, &out->entry, eb);
    if (rc == ERR_OK)
        out->what = RELOCATE_PART;
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static enum err
classify_part(struct store *d, const struct log_record *m, struct relocation *out,
              struct errbuf *eb)
{
    struct place at = record_place_of(m);
    struct part_entry part;
    bool open;
    enum err rc = upload_is_open(d, m, &open, eb);

    assert(m->kind == LOG_RECORD_PART);
    assert(m->part > 0);
    if (rc != ERR_OK)
        return rc;
    if (!open)
        return classify_owned_part(d, m, out, eb);
    rc = find_part(d->memtable, d->index, &m->upload, m->part, &part, eb);
    if (rc == ERR_NO_UPLOAD)
        return ERR_OK;
    if (rc != ERR_OK || !entry_is_at(&part.entry, &at))
        return rc;
    /* A manifest that is not committed names its place. */
    if (m->place.segment == 0 && prepared_has_upload(d->prepared, &m->upload))
        return classify_stuck(out);
    out->what = RELOCATE_KEEP;
    out->by = RELOCATE_BY_PART;
    out->entry = part.entry;
    return ERR_OK;
}

static enum err
classify_upload_begin(struct store *d, const struct log_record *m, struct relocation *out,
                      struct errbuf *eb)
{
    struct upload_entry u;
    enum err rc =
        find_upload(d->memtable, d->index, m->bucket, m->key, &m->upload, &u, eb);

    assert(m->kind == LOG_RECORD_UPLOAD_BEGIN);
    if (rc == ERR_OK && u.segment == m->segment && u.offset == m->offset) {
        out->what = RELOCATE_KEEP;
        out->by = RELOCATE_BY_UPLOAD;
    }
    return rc == ERR_NO_UPLOAD ? ERR_OK : rc;
}

/* Finds a version by its birth, the current one or an older one. */
static enum err
find_born(struct store *d, const struct log_record *m, const struct version *born,
          struct entry *out, struct errbuf *eb)
{
    struct version now;
    enum err rc = find_object(d->memtable, d->index, m->bucket, m->key, true, out, eb);

    if (rc != ERR_OK)
        return rc;
    now = entry_born(out);
    if (version_cmp(&now, born) == 0)
        return ERR_OK;
    return find_version(d->memtable, d->index, m->bucket, m->key, born, out, eb);
}

/* True if what the record removed from this disk has returned from another one: the same
 * version, by a later record in the log. Written after that record, this one would remove it
 * again. A newer version of a key without versions also hides older ones. */
bool
relocate_is_superseded(enum log_record_kind kind, const struct version *v,
                       const struct entry *now)
{
    int c = version_cmp(&now->version, v);

    switch ((unsigned)kind) {
    case LOG_RECORD_OBSOLETE:
        return entry_is_object(now) && c >= 0;
    case LOG_RECORD_TOMBSTONE_END:
        return (now->flags & ENTRY_KEPT) != 0 && c == 0;
    default:
        return entry_is_version(now);
    }
}

static enum err
classify_version_end(struct store *d, const struct log_record *m, bool oldest,
                     struct relocation *out, struct errbuf *eb)
{
    struct entry now;
    enum err rc =
        m->kind == LOG_RECORD_VERSION_DELETE
            ? find_born(d, m, &m->born, &now, eb)
            : find_object(d->memtable, d->index, m->bucket, m->key, true, &now, eb);

    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return rc;
    out->by = RELOCATE_BY_GONE;
    return rc == ERR_OK && relocate_is_superseded(m->kind, &m->version, &now)
               ? ERR_OK
               : classify_negative(out, oldest);
}

static enum err
classify_meta(struct store *d, const struct log_record *m, struct relocation *out,
              struct errbuf *eb)
{
    enum err rc = find_born(d, m, &m->born, &out->entry, eb);

    assert(m->kind == LOG_RECORD_META);
    if (rc == ERR_OK && (out->entry.flags & ENTRY_META_APART) != 0 &&
        out->entry.place.meta_segment == m->segment &&
        out->entry.place.meta_offset == m->offset) {
        out->what = RELOCATE_KEEP;
        out->by = RELOCATE_BY_META;
    }
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

/* The record made the present entry: a delete marker, or a tombstone that other replicas still
 * need. */
static void
classify_live_delete(struct relocation *out)
{
    out->what = RELOCATE_KEEP;
    out->by =
        (out->entry.flags & ENTRY_MARKER) != 0 ? RELOCATE_BY_VERSION : RELOCATE_BY_KEY;
}

/* A marker that was ended or replaced: written unchanged, it would return. Among versions it hid
 * none. A null marker ended the null version before it, whose record may be in an older log. */
static enum relocate_action
classify_ended_marker(const struct entry *said, bool oldest)
{
    return (said->flags & ENTRY_SUSPENDED) == 0 || oldest ? RELOCATE_DROP
                                                          : RELOCATE_ENDED;
}

/* A delete that ignored versions. It can be dropped if nothing that it hides is on the disk; a
 * newer entry hides that as well. Written unchanged after a record that lets older ones be
 * versions, it would come too late, and what it hid was a null version. */
static enum err
classify_unversioned_delete(struct store *d, const struct log_record *m, bool oldest,
                            struct relocation *out, struct errbuf *eb)
{
    struct entry now;
    enum err rc = find_object(d->memtable, d->index, m->bucket, m->key, true, &now, eb);

    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return rc;
    out->by = RELOCATE_BY_UNVERSIONED;
    if (rc == ERR_NOT_FOUND)
        return classify_negative(out, oldest);
    if ((now.flags & (ENTRY_VERSIONED | ENTRY_SUSPENDED)) != 0) {
        out->what = oldest ? RELOCATE_DROP : RELOCATE_ENDED;
        out->by = RELOCATE_BY_NOTHING;
        return ERR_OK;
    }
    return entry_is_object(&now) && version_cmp(&now.version, &m->version) > 0
               ? ERR_OK
               : classify_negative(out, oldest);
}

static enum err
classify_delete(struct store *d, enum store_class class, const struct log_record *m,
                bool oldest, struct relocation *out, struct errbuf *eb)
{
    struct entry said;
    struct version born;
    enum err rc = record_entry(m, class, &said, eb);

    assert(m->kind == LOG_RECORD_DELETE || m->kind == LOG_RECORD_TOMBSTONE);
    if (rc != ERR_OK)
        return rc;
    born = entry_born(&said);
    rc = find_born(d, m, &born, &out->entry, eb);
    if (rc == ERR_OK && (out->entry.flags & (ENTRY_MARKER | ENTRY_KEPT)) != 0) {
        classify_live_delete(out);
        return ERR_OK;
    }
    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return rc;
    if ((said.flags & (ENTRY_VERSIONED | ENTRY_SUSPENDED)) == 0)
        return classify_unversioned_delete(d, m, oldest, out, eb);
    out->what = classify_ended_marker(&said, oldest);
    return ERR_OK;
}

static enum err
classify_in_doubt(struct store *d, const struct log_record *m, struct relocation *out,
                  struct errbuf *eb)
{
    enum err rc =
        find_object(d->memtable, d->index, m->bucket, m->key, true, &out->entry, eb);

    assert(m->kind == LOG_RECORD_IN_DOUBT);
    if (rc == ERR_OK && (out->entry.flags & ENTRY_IN_DOUBT) != 0) {
        out->what = RELOCATE_KEEP;
        out->by = RELOCATE_BY_KEY;
    }
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

/* A change of this key, or of any, may be lost: what seems to be dead may be all that is left of it. */
static bool
is_suspect(const struct store *d, enum store_class class, const struct log_record *m)
{
    const struct suspects *s = d->suspects;
    uint64_t hash;
    uint32_t bucket;

    return class == STORE_NATIVE && suspects_any(s) &&
           suspect_of(m, run_key_hash(m->bucket, m->key), &hash, &bucket) &&
           (s->all || suspects_has(s, hash));
}

enum err
relocate_classify(struct store *d, enum store_class class, const struct log_record *m,
                  bool oldest, struct relocation *out, struct errbuf *eb)
{
    assert(on_owner(d));
    assert(class < STORE_CLASSES_);
    *out = (struct relocation){.what = RELOCATE_DROP, .m = m};
    if (is_suspect(d, class, m))
        return classify_stuck(out);
    switch ((unsigned)m->kind) {
    case LOG_RECORD_PUT:
    case LOG_RECORD_COMMIT:
        return classify_body(d, m, out, eb);
    case LOG_RECORD_RELOCATED:
        if (m->part > 0)
            return classify_owned_part(d, m, out, eb);
        return log_record_has_upload(m) ? classify_manifest(d, m, oldest, out, eb)
                                        : classify_body(d, m, out, eb);
    case LOG_RECORD_PREPARE:
        return log_record_has_upload(m) ? classify_manifest(d, m, oldest, out, eb)
                                        : classify_body(d, m, out, eb);
    case LOG_RECORD_UPLOAD_COMPLETE:
        return classify_manifest(d, m, oldest, out, eb);
    case LOG_RECORD_PART:
        return classify_part(d, m, out, eb);
    case LOG_RECORD_UPLOAD_BEGIN:
        return classify_upload_begin(d, m, out, eb);
    case LOG_RECORD_META:
        return classify_meta(d, m, out, eb);
    case LOG_RECORD_DELETE:
    case LOG_RECORD_TOMBSTONE:
        return classify_delete(d, class, m, oldest, out, eb);
    case LOG_RECORD_IN_DOUBT:
        return classify_in_doubt(d, m, out, eb);
    case LOG_RECORD_KEYS:
        return ERR_OK;
    case LOG_RECORD_IN_DOUBT_CLEAR: /* without it a version is only resolved once more */
        return ERR_OK;
    case LOG_RECORD_BUCKET:
        out->what = RELOCATE_KEEP;
        return ERR_OK;
    case LOG_RECORD_VERSION_DELETE:
    case LOG_RECORD_OBSOLETE:
    case LOG_RECORD_TOMBSTONE_END:
        return classify_version_end(d, m, oldest, out, eb);
    case LOG_RECORD_UPLOAD_ABORT:
    case LOG_RECORD_ABORT_PREPARED:
    case LOG_RECORD_COMMIT_PREPARED:
        return classify_negative(out, oldest);
    default:
        return classify_stuck(out);
    }
}

/* ---- bodies in body segments ---- */

static enum err
classify_part_body(struct store *d, const struct log_record *m, struct relocation *out,
                   struct errbuf *eb)
{
    struct place at = record_place_of(m);
    struct part_entry part;
    bool open;
    enum err rc = upload_is_open(d, m, &open, eb);

    if (rc == ERR_OK)
        rc = open ? find_part(d->memtable, d->index, &m->upload, m->part, &part, eb)
                  : ERR_NO_UPLOAD;
    if (rc == ERR_OK && entry_is_at(&part.entry, &at)) {
        out->what = RELOCATE_KEEP;
        out->by = RELOCATE_BY_PART;
        out->entry = part.entry;
        return ERR_OK;
    }
    if (rc != ERR_OK && rc != ERR_NO_UPLOAD)
        return rc;
    rc =
        relocate_find_owner(d, m->bucket, m->key, m->segment, m->offset, &out->entry, eb);
    if (rc == ERR_OK) {
        out->what = RELOCATE_PART;
        out->by = RELOCATE_BY_VERSION;
    }
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

enum err
relocate_classify_body(struct store *d, const struct log_record *m,
                       struct relocation *out, struct errbuf *eb)
{
    const struct log_record *meta_of = out->meta_of;

    assert(on_owner(d));
    *out = (struct relocation){.what = RELOCATE_DROP, .m = m, .meta_of = meta_of};
    if (m->kind != LOG_RECORD_BODY)
        return ERR_OK;
    if (prepared_has(d->prepared, &m->content) ||
        (log_record_has_upload(m) && prepared_has_upload(d->prepared, &m->upload)))
        return classify_stuck(out);
    return m->part == 0 ? classify_body(d, m, out, eb)
                        : classify_part_body(d, m, out, eb);
}

struct place
relocate_old_place(const struct relocation *c)
{
    assert(c->m != NULL);
    return record_place_of(c->m);
}
