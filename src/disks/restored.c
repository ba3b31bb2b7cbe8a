/* What a backup takes that no other reader does, and what a restore brings back under the ids it had: versions, delete markers,
 * uploads in progress. A disk takes them as it takes copies of what another disk has decided. */
#include <string.h>

#include "base/mem.h"
#include "disks/write.h"

uint64_t
disks_epoch(const struct disks *ds)
{
    return ds->keeper.o.epoch;
}

/* ---- parts of an upload in progress ---- */

enum err
disks_part_read_begin(struct disks *ds, const struct disks_key *k,
                      const struct upload_id *u, uint32_t number, struct row *row,
                      struct disks_reader *out, struct errbuf *eb)
{
    struct disks_key one = *k;
    struct homes h;
    enum err rc = homes_find(ds, k, u, &h, eb);

    one.copies =
        1; /* nobody hurries to another copy: a part has none that a look-up of its key would find */
    for (unsigned i = 0; i < h.count; i++) {
        rc = disk_part_find(home_disk(&h, i), &k->at, u, number, row, eb);
        row->disk = h.at[i];
        if (rc == ERR_OK)
            rc = disks_read_begin(ds, &one, row, 0, row->size, out, eb);
        if (rc == ERR_OK)
            break;
    }
    homes_leave(&h);
    return rc;
}

/* ---- one version on all of its disks ---- */

/* What it is to be on each of them; fn may end the bodies of `w`. */
typedef enum err each_fn(struct disk *d, const struct disk_key *k, unsigned i, void *arg,
                         struct errbuf *eb);

/* The owner first: a restore that is broken off and begun again asks it what is there. What the others lack then, they get
 * when the node starts: its disks were not closed. */
static enum err
on_each(struct disks *ds, const struct disks_key *k, const uint8_t *slots, unsigned count,
        each_fn *fn, void *arg, struct errbuf *eb)
{
    uint64_t hash = place_hash(k->at.birth_name, k->at.key);
    uint32_t phase;
    bool locked = change_begin(ds, &phase);
    enum err rc = bucket_takes(ds, k->at.bucket, eb);

    if (locked)
        keylock_take(ds->keylocks, hash);
    for (unsigned i = 0; rc == ERR_OK && i < count; i++) {
        struct disk *d = slot_enter(ds, slots[i]);

        rc = d != NULL ? fn(d, &k->at, i, arg, eb) : unheard(eb);
        if (d != NULL)
            slot_leave(ds, slots[i]);
    }
    if (locked)
        keylock_release(ds->keylocks, hash);
    change_end(ds, phase);
    return rc;
}

struct coming {
    struct disks_writer *writer;
    const struct object_meta *meta;
    struct row row;
    const struct upload_id *upload;
    const struct disk_part *parts;
    uint32_t count;
};

static enum err
commit_one(struct disk *d, const struct disk_key *k, unsigned i, void *arg,
           struct errbuf *eb)
{
    struct coming *c = arg;

    (void)d;
    (void)k;
    return disk_commit_copy(&c->writer->to[i], c->meta, &c->row, eb);
}

enum err
disks_commit_version(struct disks_writer **wp, const struct object_meta *meta,
                     const struct version *born, struct errbuf *eb)
{
    struct disks_writer *w = *wp;
    struct coming c = {
        .writer = w,
        .meta = meta,
        .row = {.content = *disk_writer_content(w->to[0]), .version = *born}};
    enum err rc = on_each(w->disks, &w->key, w->slot, w->count, commit_one, &c, eb);

    disks_write_abort(wp);
    return rc;
}

static enum err
complete_one(struct disk *d, const struct disk_key *k, unsigned i, void *arg,
             struct errbuf *eb)
{
    struct coming *c = arg;

    (void)i;
    return disk_copy_complete(d, k, c->upload, c->parts, c->count, c->meta, &c->row, eb);
}

enum err
disks_upload_complete_version(struct disks *ds, const struct disks_key *k,
                              const struct upload_id *u, const struct disk_part *parts,
                              uint32_t count, const struct object_meta *meta,
                              const struct version *born, struct errbuf *eb)
{
    struct coming c = {.meta = meta,
                       .row = {.version = *born},
                       .upload = u,
                       .parts = parts,
                       .count = count};
    struct homes h;
    enum err rc = homes_find(ds, k, u, &h, eb);

    if (rc == ERR_OK) {
        c.row.content = disk_mint(home_disk(&h, 0));
        rc = on_each(ds, k, h.at, h.count, complete_one, &c, eb);
    }
    homes_leave(&h);
    return rc;
}

static enum err
mark_one(struct disk *d, const struct disk_key *k, unsigned i, void *arg,
         struct errbuf *eb)
{
    const struct row *row = arg;
    struct row marker = *row;

    (void)i;
    return disk_delete_mark(
        d, k, (row->flags & ROW_VERSIONED) != 0 ? DISK_VERSIONED : DISK_SUSPENDED, NULL,
        &row->version, &marker, eb);
}

enum err
disks_restore_marker(struct disks *ds, const struct disks_key *k,
                     const struct row *marker, struct errbuf *eb)
{
    struct row row = *marker;
    struct places p;

    places_of(ds, k, &p);
    return p.placed > 0 ? on_each(ds, k, p.at, p.placed, mark_one, &row, eb)
                        : unheard(eb);
}

/* ---- an upload ---- */

struct beginning {
    const struct object_meta *meta;
    const struct upload_id *upload;
    unsigned begun;
};

static enum err
begin_one(struct disk *d, const struct disk_key *k, unsigned i, void *arg,
          struct errbuf *eb)
{
    struct beginning *b = arg;
    enum err rc = disk_upload_begin_as(d, k, b->meta, b->upload, eb);

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
    if (p.placed < least_of(k))
        return too_few(p.placed, MAX(k->copies, 1u), eb);
    rc = on_each(ds, k, p.at, p.placed, begin_one, &b, eb);
    if (rc == ERR_OK && b.begun == 0)
        rc = err_set(eb, ERR_EXISTS, "the upload is there already");
    return rc;
}
