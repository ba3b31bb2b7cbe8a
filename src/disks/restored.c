/* Reads that only a backup needs, and writes of a restore under the original ids: versions,
 * delete markers, uploads in progress. A disk accepts them like copies of what another disk
 * committed. */
#include <string.h>

#include "base/mem.h"
#include "disks/write.h"

/* ---- parts of an upload in progress ---- */

enum err
disks_part_read_begin(struct disks *ds, const struct disks_key *k,
                      const struct upload_id *u, uint32_t number, struct entry *entry,
                      struct disks_reader *out, struct errbuf *eb)
{
    struct disks_key one = *k;
    struct upload_replicas h;
    enum err rc = upload_replicas_find(ds, k, u, &h, eb);

    one.copies =
        1; /* no hedged read: a look-up of its key finds no other copy of a part */
    for (unsigned i = 0; i < h.count; i++) {
        rc = replica_part_find(upload_replica(&h, i), &k->at, u, number, entry, eb);
        entry->place.disk = h.at[i];
        if (rc == ERR_OK)
            rc = disks_read_begin(ds, &one, entry, 0, entry->size, out, eb);
        if (rc == ERR_OK)
            break;
    }
    upload_replicas_leave(&h);
    return rc;
}

/* ---- one version on all of its disks ---- */

/* Applied on each of the disks; fn may end the bodies of `w`. */
typedef enum err each_fn(struct replica *d, const struct store_key *k, unsigned i,
                         void *arg, struct errbuf *eb);

/* Writes to the owner first: a restore that is interrupted and repeated reads there what exists.
 * The other disks get what they lack at the next start, because they were not closed in order. */
static enum err
on_each(struct disks *ds, const struct disks_key *k, const uint8_t *slots, unsigned count,
        each_fn *fn, void *arg, struct errbuf *eb)
{
    struct key_change change = key_change_begin(ds, k);
    enum err rc = bucket_takes(ds, k->at.bucket, eb);

    for (unsigned i = 0; rc == ERR_OK && i < count; i++) {
        struct replica *d = replica_enter(ds, slots[i]);

        rc = d != NULL ? fn(d, &k->at, i, arg, eb) : err_unreachable(eb);
        replica_leave(d);
    }
    key_change_end(&change);
    return rc;
}

struct coming {
    struct disks_writer *writer;
    const struct object_meta *meta;
    struct entry entry;
    const struct upload_id *upload;
    const struct store_part *parts;
    uint32_t count;
};

static enum err
commit_one(struct replica *d, const struct store_key *k, unsigned i, void *arg,
           struct errbuf *eb)
{
    struct coming *c = arg;

    (void)k;
    return d->ops->commit_replica(&c->writer->to[i], c->meta, &c->entry, eb);
}

enum err
disks_commit_version(struct disks_writer **wp, const struct object_meta *meta,
                     const struct version *born, struct errbuf *eb)
{
    struct disks_writer *w = *wp;
    struct coming c = {.writer = w,
                       .meta = meta,
                       .entry = {.content = *writer_content(w), .version = *born}};
    enum err rc = on_each(w->disks, &w->key, w->slot, w->count, commit_one, &c, eb);

    disks_write_abort(wp);
    return rc;
}

static enum err
complete_one(struct replica *d, const struct store_key *k, unsigned i, void *arg,
             struct errbuf *eb)
{
    struct coming *c = arg;

    (void)i;
    return replica_copy_complete(d, k, c->upload, c->parts, c->count, c->meta, &c->entry,
                                 eb);
}

enum err
disks_upload_complete_version(struct disks *ds, const struct disks_key *k,
                              const struct upload_id *u, const struct store_part *parts,
                              uint32_t count, const struct object_meta *meta,
                              const struct version *born, struct errbuf *eb)
{
    struct coming c = {.meta = meta,
                       .entry = {.version = *born},
                       .upload = u,
                       .parts = parts,
                       .count = count};
    struct upload_replicas h;
    enum err rc = upload_replicas_find(ds, k, u, &h, eb);

    if (rc == ERR_OK) {
        c.entry.content = store_mint_id(upload_replica(&h, 0)->store);
        rc = on_each(ds, k, h.at, h.count, complete_one, &c, eb);
    }
    upload_replicas_leave(&h);
    return rc;
}

static enum err
mark_one(struct replica *d, const struct store_key *k, unsigned i, void *arg,
         struct errbuf *eb)
{
    const struct entry *entry = arg;
    struct entry marker = *entry;

    (void)i;
    return replica_delete_mark(
        d, k, (entry->flags & ENTRY_VERSIONED) != 0 ? STORE_VERSIONED : STORE_SUSPENDED,
        NULL, &entry->version, &marker, eb);
}

enum err
disks_restore_marker(struct disks *ds, const struct disks_key *k,
                     const struct entry *marker, struct errbuf *eb)
{
    struct entry entry = *marker;
    struct places p;

    places_of(ds, k, &p);
    return p.placed > 0 ? on_each(ds, k, p.at, p.placed, mark_one, &entry, eb)
                        : err_unreachable(eb);
}

/* ---- an upload ---- */

struct beginning {
    const struct object_meta *meta;
    const struct upload_id *upload;
    unsigned begun;
};

static enum err
begin_one(struct replica *d, const struct store_key *k, unsigned i, void *arg,
          struct errbuf *eb)
{
    struct beginning *b = arg;
    enum err rc = replica_upload_begin_as(d, k, b->meta, b->upload, eb);

    (void)i;
    b->begun += rc == ERR_OK;
    return rc == ERR_EXISTS ? ERR_OK : rc;
}

enum err
disks_upload_begin_as(struct disks *ds, const struct disks_key *k,
                      const struct object_meta *meta, const struct upload_id *u,
                      struct errbuf *eb)
{
    struct beginning b = {.meta = meta, .upload = u};
    struct places p;
    enum err rc;

    places_of(ds, k, &p);
    if (p.placed < copies_least(k))
        return too_few(p.placed, MAX(k->copies, 1u), eb);
    rc = on_each(ds, k, p.at, p.placed, begin_one, &b, eb);
    if (rc == ERR_OK && b.begun == 0)
        rc = err_set(eb, ERR_EXISTS, "the upload is there already");
    return rc;
}
