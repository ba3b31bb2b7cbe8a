#include "disk/carry.h"

#include "disk/change_version.h"
#include "disk/manifest.h"
#include "disk/prepare.h"

#define OLDER_PAGE 32u

static struct place
place_of(const struct member *m) /* of its body, or of itself */
{
    if (m->place.segment != 0)
        return m->place;
    return (struct place){
        .segment = m->segment, .generation = m->generation, .offset = m->offset};
}

static bool
stands_at(const struct row *row, const struct place *p)
{
    return row->segment == p->segment && row->offset == p->offset;
}

/* ---- who has this part ---- */

static enum err
has_part(struct disk *d, const struct row *row, uint32_t segment, uint64_t offset,
         bool *out, struct errbuf *eb)
{
    struct manifest m;
    enum err rc;

    *out = false;
    if ((row->flags & (ROW_PARTS | ROW_TOMBSTONE)) != ROW_PARTS)
        return ERR_OK;
    rc = manifest_load(d, row, &m, eb);
    if (rc != ERR_OK)
        return rc;
    for (uint32_t i = 0; !*out && i < m.count; i++)
        *out = m.entries[i].segment == segment && m.entries[i].offset == offset;
    manifest_fini(&m);
    return ERR_OK;
}

static enum err
older_owner(struct disk *d, uint64_t bucket, struct span key, uint32_t segment,
            uint64_t offset, struct row *out, struct errbuf *eb)
{
    struct version after = {UINT64_MAX, UINT64_MAX};
    struct arena *a = arena_new(KIB(8), MIB(1));
    bool more = true, has = false;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && more && !has) {
        struct row *rows;
        uint32_t count;

        arena_reset(a);
        rc = list_older(d->tail, d->index, bucket, key, &after, OLDER_PAGE, a, &rows,
                        &count, &more, eb);
        for (uint32_t i = 0; rc == ERR_OK && !has && i < count; i++) {
            after = row_born(&rows[i]);
            *out = rows[i];
            rc = has_part(d, out, segment, offset, &has, eb);
        }
        more = more && rc == ERR_OK && count > 0;
    }
    arena_free(&a);
    return rc == ERR_OK && !has ? ERR_NOT_FOUND : rc;
}

enum err
carry_owner(struct disk *d, uint64_t bucket, struct span key, uint32_t segment,
            uint64_t offset, struct row *out, struct errbuf *eb)
{
    bool has;
    enum err rc = find_object(d->tail, d->index, bucket, key, true, out, eb);

    if (rc != ERR_OK)
        return rc;
    rc = has_part(d, out, segment, offset, &has, eb);
    if (rc != ERR_OK || has)
        return rc;
    if ((out->flags & (ROW_VERSIONED | ROW_SUSPENDED)) == 0)
        return ERR_NOT_FOUND; /* nothing is older */
    return older_owner(d, bucket, key, segment, offset, out, eb);
}

enum err
carry_place_lives(struct disk *d, const struct member *m, bool *out, struct errbuf *eb)
{
    struct part_row part;
    struct row row;
    enum err rc;

    *out = m->kind == MEMBER_BODY;
    if (!*out ||
        (prepared_count(d->prepared) > 0 &&
         (prepared_has(d->prepared, &m->content) ||
          (member_has_upload(m) && prepared_has_upload(d->prepared, &m->upload)))))
        return ERR_OK;
    if (m->part == 0) {
        rc = find_content(d->tail, d->index, m->bucket, m->key, &m->content, &row, eb);
        *out = rc == ERR_OK && row.segment == m->segment && row.offset == m->offset;
        return rc == ERR_NOT_FOUND ? ERR_OK : rc;
    }
    rc = find_part(d->tail, d->index, &m->upload, m->part, &part, eb);
    if (rc == ERR_OK && part.row.segment == m->segment && part.row.offset == m->offset)
        return ERR_OK;
    if (rc == ERR_OK || rc == ERR_NO_UPLOAD)
        rc = carry_owner(d, m->bucket, m->key, m->segment, m->offset, &row, eb);
    *out = rc != ERR_NOT_FOUND;
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

/* ---- looking ---- */

static enum err
stuck(struct carried *out)
{
    out->what = CARRY_STUCK;
    return ERR_OK;
}

static enum err
says_no(struct carried *out, bool oldest)
{
    out->what = oldest ? CARRY_DROP : CARRY_WAIT;
    return ERR_OK;
}

/* Undecided, and this is the record that prepared it. */
static enum err
look_at_prepared(struct disk *d, const struct member *m, struct carried *out,
                 struct errbuf *eb)
{
    struct place at = place_of(m);
    char key[DISK_KEY_MAX];
    struct prepared_row p;
    enum err rc = find_prepared(d->tail, d->index, &m->content, key, &p, eb);

    if (rc == ERR_OK && m->kind == MEMBER_PREPARE && stands_at(&p.row, &at)) {
        out->what = CARRY_KEEP;
        out->by = BY_PREPARED;
    }
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static enum err
look_at_body(struct disk *d, const struct member *m, struct carried *out,
             struct errbuf *eb)
{
    struct place at = place_of(m);
    enum err rc;

    if (prepared_has(d->prepared, &m->content))
        return look_at_prepared(d, m, out, eb);
    rc = find_content(d->tail, d->index, m->bucket, m->key, &m->content, &out->row, eb);
    if (rc == ERR_OK && stands_at(&out->row, &at)) {
        out->what = CARRY_MOVE;
        out->by = BY_VERSION;
    }
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static enum err
upload_is_open(struct disk *d, const struct member *m, bool *out, struct errbuf *eb)
{
    struct upload_row u;
    enum err rc = find_upload(d->tail, d->index, m->bucket, m->key, &m->upload, &u, eb);

    *out = rc == ERR_OK;
    return rc == ERR_NO_UPLOAD ? ERR_OK : rc;
}

/* A manifest that nobody names has ended its upload nevertheless. */
static enum err
look_at_manifest(struct disk *d, const struct member *m, bool oldest, struct carried *out,
                 struct errbuf *eb)
{
    struct place at = place_of(m);
    bool open;
    enum err rc;

    if (prepared_has(d->prepared, &m->content))
        return look_at_prepared(d, m, out, eb);
    rc = find_content(d->tail, d->index, m->bucket, m->key, &m->content, &out->row, eb);
    if (rc == ERR_OK && stands_at(&out->row, &at)) {
        out->what = CARRY_MANIFEST;
        out->by = BY_VERSION;
    }
    if (rc != ERR_NOT_FOUND) /* one that was moved ends the upload as well */
        return rc;
    rc = upload_is_open(d, m, &open, eb);
    if (rc == ERR_OK && !open && !oldest)
        out->what = CARRY_END;
    return rc;
}

/* A part in the log that an object may have. */
static enum err
look_for_owner(struct disk *d, const struct member *m, struct carried *out,
               struct errbuf *eb)
{
    enum err rc;

    if (m->place.segment != 0)
        return ERR_OK; /* the manifest says where it is, nobody needs the record */
    if (prepared_has_upload(d->prepared, &m->upload))
        return stuck(out);
    rc = carry_owner(d, m->bucket, m->key, m->segment, m->offset, &out->row, eb);
    if (rc == ERR_OK)
        out->what = CARRY_PART;
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static enum err
look_at_part(struct disk *d, const struct member *m, struct carried *out,
             struct errbuf *eb)
{
    struct place at = place_of(m);
    struct part_row part;
    bool open;
    enum err rc = upload_is_open(d, m, &open, eb);

    if (rc != ERR_OK)
        return rc;
    if (!open)
        return look_for_owner(d, m, out, eb);
    rc = find_part(d->tail, d->index, &m->upload, m->part, &part, eb);
    if (rc == ERR_NO_UPLOAD)
        return ERR_OK;
    if (rc != ERR_OK || !stands_at(&part.row, &at))
        return rc;
    /* Its place stands in a manifest that is not decided. */
    if (m->place.segment == 0 && prepared_has_upload(d->prepared, &m->upload))
        return stuck(out);
    out->what = CARRY_KEEP;
    out->by = BY_PART;
    out->row = part.row;
    return ERR_OK;
}

static enum err
look_at_begin(struct disk *d, const struct member *m, struct carried *out,
              struct errbuf *eb)
{
    struct upload_row u;
    enum err rc = find_upload(d->tail, d->index, m->bucket, m->key, &m->upload, &u, eb);

    if (rc == ERR_OK && u.segment == m->segment && u.offset == m->offset) {
        out->what = CARRY_KEEP;
        out->by = BY_UPLOAD;
    }
    return rc == ERR_NO_UPLOAD ? ERR_OK : rc;
}

/* A version by the one it was born with, the current one or an older one. */
static enum err
find_born(struct disk *d, const struct member *m, const struct version *born,
          struct row *out, struct errbuf *eb)
{
    struct version now;
    enum err rc = find_object(d->tail, d->index, m->bucket, m->key, true, out, eb);

    if (rc != ERR_OK)
        return rc;
    now = row_born(out);
    if (version_cmp(&now, born) == 0)
        return ERR_OK;
    return find_version(d->tail, d->index, m->bucket, m->key, born, out, eb);
}

/* What a record took away from this disk may have come back from another one, as the same version, by a record that is later
 * in the log: behind that one it would take it away again. A newer one of a key without versions hides the older ones as well. */
bool
carry_is_back(enum member_kind kind, const struct version *v, const struct row *now)
{
    int c = version_cmp(&now->version, v);

    switch ((unsigned)kind) {
    case MEMBER_OBSOLETE:
        return row_is_object(now) && c >= 0;
    case MEMBER_TOMBSTONE_END:
        return (now->flags & ROW_KEPT) != 0 && c == 0;
    default:
        return row_is_version(now);
    }
}

static enum err
look_at_leaving(struct disk *d, const struct member *m, bool oldest, struct carried *out,
                struct errbuf *eb)
{
    struct row now;
    enum err rc = m->kind == MEMBER_VERSION_DELETE
                      ? find_born(d, m, &m->born, &now, eb)
                      : find_object(d->tail, d->index, m->bucket, m->key, true, &now, eb);

    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return rc;
    out->by = BY_GONE;
    return rc == ERR_OK && carry_is_back(m->kind, &m->version, &now)
               ? ERR_OK
               : says_no(out, oldest);
}

static enum err
look_at_meta(struct disk *d, const struct member *m, struct carried *out,
             struct errbuf *eb)
{
    enum err rc = find_born(d, m, &m->born, &out->row, eb);

    if (rc == ERR_OK && (out->row.flags & ROW_META_APART) != 0 &&
        out->row.meta_segment == m->segment && out->row.meta_offset == m->offset) {
        out->what = CARRY_KEEP;
        out->by = BY_META;
    }
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

/* It makes the row that there is: a delete marker, or a tombstone that others must hear of. */
static void
keep_delete(struct carried *out)
{
    out->what = CARRY_KEEP;
    out->by = (out->row.flags & ROW_MARKER) != 0 ? BY_VERSION : BY_KEY;
}

/* A marker that was ended or replaced: as it is it would be there again. Beside versions it hid none; a null one ended the
 * null version before it, whose record may be in an older log. */
static enum carry
ended_marker(const struct row *said, bool oldest)
{
    return (said->flags & ROW_SUSPENDED) == 0 || oldest ? CARRY_DROP : CARRY_ENDED;
}

/* A delete that knew of no versions. It can go when nothing that it hides is on the disk; a newer row hides it as well.
 * Behind one that lets older ones be versions it would come too late as it is, and what it hid was a null version. */
static enum err
look_at_hidden(struct disk *d, const struct member *m, bool oldest, struct carried *out,
               struct errbuf *eb)
{
    struct row now;
    enum err rc = find_object(d->tail, d->index, m->bucket, m->key, true, &now, eb);

    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return rc;
    out->by = BY_UNVERSIONED;
    if (rc == ERR_NOT_FOUND)
        return says_no(out, oldest);
    if ((now.flags & (ROW_VERSIONED | ROW_SUSPENDED)) != 0) {
        out->what = oldest ? CARRY_DROP : CARRY_ENDED;
        out->by = BY_NOTHING;
        return ERR_OK;
    }
    return row_is_object(&now) && version_cmp(&now.version, &m->version) > 0
               ? ERR_OK
               : says_no(out, oldest);
}

static enum err
look_at_delete(struct disk *d, enum disk_class class, const struct member *m, bool oldest,
               struct carried *out, struct errbuf *eb)
{
    struct row said;
    struct version born;
    enum err rc = member_row(m, class, &said, eb);

    if (rc != ERR_OK)
        return rc;
    born = row_born(&said);
    rc = find_born(d, m, &born, &out->row, eb);
    if (rc == ERR_OK && (out->row.flags & (ROW_MARKER | ROW_KEPT)) != 0) {
        keep_delete(out);
        return ERR_OK;
    }
    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return rc;
    if ((said.flags & (ROW_VERSIONED | ROW_SUSPENDED)) == 0)
        return look_at_hidden(d, m, oldest, out, eb);
    out->what = ended_marker(&said, oldest);
    return ERR_OK;
}

static enum err
look_at_doubt(struct disk *d, const struct member *m, struct carried *out,
              struct errbuf *eb)
{
    enum err rc = find_object(d->tail, d->index, m->bucket, m->key, true, &out->row, eb);

    if (rc == ERR_OK && (out->row.flags & ROW_DOUBT) != 0) {
        out->what = CARRY_KEEP;
        out->by = BY_KEY;
    }
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

enum err
carry_look(struct disk *d, enum disk_class class, const struct member *m, bool oldest,
           struct carried *out, struct errbuf *eb)
{
    *out = (struct carried){.what = CARRY_DROP, .m = m};
    switch ((unsigned)m->kind) {
    case MEMBER_PUT:
    case MEMBER_COMMIT:
        return look_at_body(d, m, out, eb);
    case MEMBER_MOVED:
        if (m->part > 0)
            return look_for_owner(d, m, out, eb);
        return member_has_upload(m) ? look_at_manifest(d, m, oldest, out, eb)
                                    : look_at_body(d, m, out, eb);
    case MEMBER_PREPARE:
        return member_has_upload(m) ? look_at_manifest(d, m, oldest, out, eb)
                                    : look_at_body(d, m, out, eb);
    case MEMBER_UPLOAD_COMPLETE:
        return look_at_manifest(d, m, oldest, out, eb);
    case MEMBER_PART:
        return look_at_part(d, m, out, eb);
    case MEMBER_UPLOAD_BEGIN:
        return look_at_begin(d, m, out, eb);
    case MEMBER_META:
        return look_at_meta(d, m, out, eb);
    case MEMBER_DELETE:
    case MEMBER_TOMBSTONE:
        return look_at_delete(d, class, m, oldest, out, eb);
    case MEMBER_DOUBT:
        return look_at_doubt(d, m, out, eb);
    case MEMBER_DOUBT_CLEAR: /* without it a version is asked for again, no more */
        return ERR_OK;
    case MEMBER_BUCKET:
        out->what = CARRY_KEEP;
        return ERR_OK;
    case MEMBER_VERSION_DELETE:
    case MEMBER_OBSOLETE:
    case MEMBER_TOMBSTONE_END:
        return look_at_leaving(d, m, oldest, out, eb);
    case MEMBER_UPLOAD_ABORT:
    case MEMBER_ABORT:
    case MEMBER_DECIDE:
        return says_no(out, oldest);
    default:
        return stuck(out);
    }
}

/* ---- bodies in body segments ---- */

static enum err
look_at_part_place(struct disk *d, const struct member *m, struct carried *out,
                   struct errbuf *eb)
{
    struct place at = place_of(m);
    struct part_row part;
    bool open;
    enum err rc = upload_is_open(d, m, &open, eb);

    if (rc == ERR_OK)
        rc = open ? find_part(d->tail, d->index, &m->upload, m->part, &part, eb)
                  : ERR_NO_UPLOAD;
    if (rc == ERR_OK && stands_at(&part.row, &at)) {
        out->what = CARRY_KEEP;
        out->by = BY_PART;
        out->row = part.row;
        return ERR_OK;
    }
    if (rc != ERR_OK && rc != ERR_NO_UPLOAD)
        return rc;
    rc = carry_owner(d, m->bucket, m->key, m->segment, m->offset, &out->row, eb);
    if (rc == ERR_OK) {
        out->what = CARRY_PART;
        out->by = BY_VERSION;
    }
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

enum err
carry_look_place(struct disk *d, const struct member *m, struct carried *out,
                 struct errbuf *eb)
{
    const struct member *meta_of = out->meta_of;

    *out = (struct carried){.what = CARRY_DROP, .m = m, .meta_of = meta_of};
    if (m->kind != MEMBER_BODY)
        return ERR_OK;
    if (prepared_has(d->prepared, &m->content) ||
        (member_has_upload(m) && prepared_has_upload(d->prepared, &m->upload)))
        return stuck(out);
    return m->part == 0 ? look_at_body(d, m, out, eb) : look_at_part_place(d, m, out, eb);
}

struct place
carry_old_place(const struct carried *c)
{
    return place_of(c->m);
}
