/* Multipart uploads: parts lie on the disks where the object should lie, under the same ids on
 * each. An upload stays on the disks on which it was begun; these are its upload_replicas. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "disks/rebalance.h"
#include "disks/version_tombstone.h"
#include "disks/write.h"
#include "rt/point.h"

/* ---- upload_replicas ---- */

#ifdef FB_TEST_HOOKS
uint64_t upload_replicas_unreachable;
#else
static const uint64_t upload_replicas_unreachable = 0;
#endif

void
upload_replicas_leave(struct upload_replicas *h)
{
    while (h->count > 0)
        replica_leave(upload_replica(h, --h->count));
}

struct replica *
upload_replica(const struct upload_replicas *h, unsigned i)
{
    assert(i < DISKS_COPIES_MAX);
    return &h->ds->slots[h->at[i]].at;
}

static enum err
has_upload(struct replica *r, const struct disks_key *k, const struct upload_id *u,
           struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(1), KIB(64));
    struct store_part *parts;
    uint32_t count;
    bool more;
    enum err rc =
        replica_part_list(r, &k->at, u, STORE_PARTS_MAX, 1, a, &parts, &count, &more, eb);

    arena_free(&a);
    return rc;
}

/* A sole replica needs no search: the next call finds out whether it has the upload. */
static enum err
upload_replicas_sole(struct disks *ds, unsigned slot, struct upload_replicas *out,
                     struct errbuf *eb)
{
    if (replica_enter(ds, slot) == NULL)
        return err_unreachable(eb);
    out->at[out->count++] = (uint8_t)slot;
    return ERR_OK;
}

enum err
upload_replicas_find(struct disks *ds, const struct disks_key *k,
                     const struct upload_id *u, struct upload_replicas *out,
                     struct errbuf *eb)
{
    struct places p;
    unsigned slot;
    bool ended;

    *out = (struct upload_replicas){.ds = ds};
    if (sole_slot(ds, &slot))
        return upload_replicas_sole(ds, slot, out, eb);
    places_of(ds, k, &p);
    POINT(PLACES_CHOSEN);
    for (unsigned i = 0; i < p.count && out->count < DISKS_COPIES_MAX; i++) {
        struct replica *r = replica_enter(ds, p.at[i]);
        enum err rc = r != NULL ? has_upload(r, k, u, eb) : ERR_UNAVAILABLE;

        if ((upload_replicas_unreachable >> p.at[i] & 1) != 0)
            rc = ERR_IO;
        if (rc == ERR_OK) {
            out->at[out->count++] = p.at[i];
            continue;
        }
        replica_leave(r);
        out->incomplete |= rc != ERR_NO_UPLOAD && !replica_is_removed(ds, p.at[i]);
    }
    if (out->count > 0 && !upload_tombstone_find(ds, k, u))
        return ERR_OK;
    ended = out->count > 0;
    upload_replicas_leave(out); /* aborted while they were away */
    return !ended && (out->incomplete || p.unreachable)
               ? err_unreachable(eb)
               : err_set(eb, ERR_NO_UPLOAD, "there is no such upload");
}

/* ---- begin ---- */

static enum err
upload_begin_on_all(struct disks *ds, const struct disks_key *k,
                    const struct object_meta *meta, struct upload_id *out,
                    struct errbuf *eb)
{
    struct places p;
    unsigned have = 0, least = copies_least(k);
    enum err first = ERR_OK;

    places_of(ds, k, &p);
    if (p.placed < least)
        return too_few(p.placed, MAX(k->copies, 1u), eb);
    for (unsigned i = 0; i < p.placed; i++) {
        struct replica *r = replica_enter(ds, p.at[i]);
        enum err rc;

        if (r != NULL && have == 0)
            out->id = store_mint_id(r->store);
        rc = replica_upload_begin_as(r, &k->at, meta, out, eb);
        replica_leave(r);
        if (rc == ERR_OK)
            have++;
        else if (first == ERR_OK)
            first = rc;
    }
    if (have >= least)
        return ERR_OK;
    /* An upload just begun holds no bytes. If the abort fails now, the upload stays listed until
     * a client aborts it. */
    if (have > 0 && disks_upload_abort(ds, k, out, NULL) != ERR_OK)
        LOG(LOG_WARN, "disks.upload", "an upload that was refused is listed all the same",
            L_SPAN("key", k->at.key));
    return first;
}

enum err
disks_upload_begin(struct disks *ds, const struct disks_key *k,
                   const struct object_meta *meta, struct upload_id *out,
                   struct errbuf *eb)
{
    uint32_t phase;
    enum err rc;

    (void)change_begin(ds, &phase);
    rc = bucket_takes(ds, k->at.bucket, eb);
    if (rc == ERR_OK)
        rc = upload_begin_on_all(ds, k, meta, out, eb);
    change_end(ds, phase);
    return rc;
}

/* ---- parts ---- */

static enum err
part_on_replicas(struct disks_writer *w, const struct upload_replicas *h,
                 const struct upload_id *u, uint32_t number, uint64_t size,
                 struct errbuf *eb)
{
    assert(w->count == 0);
    assert(h->count <= DISKS_COPIES_MAX);

    w->least = copies_least(&w->key);
    w->placed = h->count;
    if (h->count < w->least)
        return too_few(h->count, MAX(w->key.copies, 1u), eb);
    for (unsigned i = 0; i < h->count; i++) {
        const struct content_id *content = w->count > 0 ? writer_content(w) : NULL;
        struct replica *r = replica_enter(w->disks, h->at[i]);
        struct replica_writer *to = NULL;
        enum err rc = r != NULL ? r->ops->part_begin(r, &w->key.at, u, number, size,
                                                     content, &to, eb)
                                : err_unreachable(eb);

        if (rc == ERR_OK) {
            writer_joins(w, h->at[i], to);
            continue;
        }
        replica_leave(r);
        if (i == 0 || w->count + (h->count - i - 1) < w->least)
            return rc;
    }
    return ERR_OK;
}

enum err
disks_part_begin(struct disks *ds, const struct disks_key *k, const struct upload_id *u,
                 uint32_t number, uint64_t size, struct disks_writer **out,
                 struct errbuf *eb)
{
    struct disks_writer *w = writer_new(ds, k, STORE_NATIVE);
    struct upload_replicas h;
    enum err rc = upload_replicas_find(ds, k, u, &h, eb);

    *out = NULL;
    if (rc == ERR_OK)
        rc = part_on_replicas(w, &h, u, number, size, eb);
    w->upload = *u;
    w->part = number;
    upload_replicas_leave(&h);
    if (rc != ERR_OK)
        disks_write_abort(&w);
    *out = w;
    return rc;
}

/* Two bodies of one part, as a client sends them that tries again too early, come to all disks in
 * one order: else each disk would keep another one, and no Complete could name either. Any key's
 * lock does: no fiber that holds one asks for another. */
static uint64_t
part_lock_hash(const struct disks_writer *w)
{
    return hash_xxh3(w->upload.id.bytes, sizeof w->upload.id.bytes, w->part);
}

enum err
disks_part_commit(struct disks_writer **wp, const struct object_meta *meta,
                  struct errbuf *eb)
{
    struct disks_writer *w = *wp;
    struct disks *ds = w->disks;
    uint64_t hash = part_lock_hash(w);
    bool several = w->count > 1;
    unsigned have = 0;
    enum err rc = ERR_OK;
    uint32_t phase;

    assert(w->count <= w->placed);
    assert(w->part > 0);
    (void)change_begin(ds, &phase);
    if (several)
        keylock_take(ds->keylocks, hash);
    for (unsigned i = 0; i < w->count; i++) {
        struct errbuf one = {{0}};
        enum err copy = writer_replica(w, i)->ops->part_commit(&w->to[i], meta, &one);

        have += copy == ERR_OK;
        note_first(copy, &one, &rc, eb);
        if (copy != ERR_OK && i == 0)
            break; /* its list lacks what only the others have */
    }
    if (w->count > 0 && have >= w->least && have > 0)
        rc = ERR_OK;
    if (several)
        keylock_release(ds->keylocks, hash);
    change_end(ds, phase);
    disks_write_abort(wp);
    return rc;
}

enum err
disks_part_list(struct disks *ds, const struct disks_key *k, const struct upload_id *u,
                uint32_t after, uint32_t max, struct arena *a, struct store_part **out,
                uint32_t *count, bool *more, struct errbuf *eb)
{
    struct upload_replicas h;
    enum err rc = upload_replicas_find(ds, k, u, &h, eb);

    if (rc == ERR_OK)
        rc = replica_part_list(upload_replica(&h, 0), &k->at, u, after, max, a, out,
                               count, more, eb);
    upload_replicas_leave(&h);
    return rc;
}

enum err
disks_upload_meta(struct disks *ds, const struct disks_key *k, const struct upload_id *u,
                  struct arena *a, struct object_meta *out, struct errbuf *eb)
{
    struct upload_replicas h;
    enum err rc = upload_replicas_find(ds, k, u, &h, eb);

    for (unsigned i = 0; i < h.count; i++) {
        rc = replica_upload_meta(upload_replica(&h, i), &k->at, u, a, out, eb);
        if (rc == ERR_OK)
            break;
    }
    upload_replicas_leave(&h);
    return rc;
}

/* ---- the end ---- */

static enum err
completed_on(struct replica *d, const struct store_key *k, const struct upload_id *u,
             struct entry *out, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(4), MIB(1));
    struct object_meta meta;
    enum err rc = replica_upload_meta(d, k, u, a, &meta, eb);

    arena_free(&a);
    if (rc == ERR_OK)
        return err_set(eb, ERR_NO_UPLOAD, "the upload is not completed");
    return rc == ERR_NO_UPLOAD
               ? replica_upload_complete(d, k, u, NULL, 0, NULL, NULL, out, eb)
               : rc;
}

/* Perhaps an earlier call completed it: then a replica has a record of that. */
static enum err
completed_before(struct disks *ds, const struct disks_key *k, const struct upload_id *u,
                 struct entry *out, struct errbuf *eb)
{
    struct places p;
    enum err rc = ERR_NO_UPLOAD;

    places_of(ds, k, &p);
    for (unsigned i = 0; i < p.count && rc != ERR_OK; i++) {
        struct replica *d = replica_enter(ds, p.at[i]);

        if (d == NULL)
            continue;
        rc = completed_on(d, &k->at, u, out, eb);
        replica_leave(d);
        out->place.disk = p.at[i];
    }
    return rc;
}

/* True if a disk completed the upload while another disk, on which it is open, was away. */
static bool
was_completed(struct disks *ds, const struct disks_key *k, const struct upload_id *u)
{
    struct entry entry;

    return completed_before(ds, k, u, &entry, NULL) == ERR_OK;
}

enum err
upload_end_done(struct disks *ds, const struct disks_key *k, const struct upload_id *u,
                unsigned slot, struct errbuf *eb)
{
    uint64_t hash = place_hash(k->at.immutable_name, k->at.key);
    struct replica *d = replica_state(&ds->slots[slot]) != REPLICA_FROZEN
                            ? replica_enter(ds, slot)
                            : NULL;
    enum err rc = ERR_OK;

    assert(rt_loop_index() == 0);
    assert(slot < atomic_load(&ds->slot_count));
    if (d == NULL)
        return ERR_OK;
    keylock_take(ds->keylocks, hash); /* no call is completing it now */
    if (was_completed(ds, k, u) || upload_tombstone_find(ds, k, u))
        rc = replica_upload_abort(d, &k->at, u, eb);
    keylock_release(ds->keylocks, hash);
    replica_leave(d);
    return rc == ERR_NO_UPLOAD ? ERR_OK : rc;
}

enum err
upload_end_everywhere(struct disks *ds, const struct disks_key *k,
                      const struct upload_id *u, struct errbuf *eb)
{
    uint64_t hash = place_hash(k->at.immutable_name, k->at.key);
    uint8_t all[DISKS_MAX];
    unsigned n = places_all(ds, all);
    enum err rc = ERR_OK;

    assert(rt_loop_index() == 0);
    keylock_take(ds->keylocks, hash);
    for (unsigned i = 0; i < n; i++) {
        struct replica *d = replica_state(&ds->slots[all[i]]) != REPLICA_FROZEN
                                ? replica_enter(ds, all[i])
                                : NULL;
        struct errbuf why = {{0}};
        enum err one = d != NULL ? replica_upload_abort(d, &k->at, u, &why) : ERR_OK;

        replica_leave(d);
        note_first(one == ERR_NO_UPLOAD ? ERR_OK : one, &why, &rc, eb);
    }
    keylock_release(ds->keylocks, hash);
    return rc;
}

struct completing {
    const struct upload_id *upload;
    const struct store_part *parts;
    uint32_t count;
    const struct object_meta *meta;
    const struct store_condition *condition;
    struct content_id content;
};

/* Like a write whose bodies are in place already. */
static enum err
complete_on_replicas(struct disks_writer *w, const struct completing *c,
                     struct entry *out, struct errbuf *eb)
{
    struct replica *owner = writer_replica(w, 0);
    enum err rc = ERR_OK;

    assert(w->count >= w->least);
    assert(c->parts != NULL);
    for (unsigned i = 1; rc == ERR_OK && i < w->count; i++) {
        rc = replica_upload_prepare(writer_replica(w, i), &w->key.at, c->upload, c->parts,
                                    c->count, &c->content, c->meta, NULL, eb);
        if (rc != ERR_OK && w->count - 1 >= w->least) {
            writer_remove_copy(w, i--, &c->content);
            rc = ERR_OK;
        }
    }
    if (rc == ERR_OK)
        rc = replica_upload_complete_as(owner, &w->key.at, c->upload, c->parts, c->count,
                                        &c->content, c->meta, c->condition, out, eb);
    if (rc == ERR_OK)
        out->place.disk = w->slot[0];
    if (rc == ERR_OK && memcmp(&out->content, &c->content, sizeof c->content) == 0)
        commit_copies(w, &c->content, &out->version);
    else
        abort_copies(w, &c->content);
    return rc;
}

/* The end of an upload with copies: Complete and Abort go from disk to disk. Without the key's lock
 * the one could end the upload on its first disk while the other holds it prepared on the second:
 * it would stay open there, and neither call could end it. Taken also while no object moves. */
struct upload_end {
    struct key_change change;
    uint64_t hash;
    bool locked; /* by this; else the change holds the lock, or there is one disk */
};

static struct upload_end
upload_end_begin(struct disks *ds, const struct disks_key *k)
{
    struct upload_end e = {.change = key_change_begin(ds, k),
                           .hash = place_hash(k->at.immutable_name, k->at.key)};

    e.locked = !e.change.locked && !is_sole(ds);
    if (e.locked)
        keylock_take(ds->keylocks, e.hash);
    return e;
}

static void
upload_end_end(struct upload_end *e)
{
    assert(!e->locked || !e->change.locked);
    if (e->locked)
        keylock_release(e->change.ds->keylocks, e->hash);
    key_change_end(&e->change);
}

enum err
disks_upload_complete(struct disks *ds, const struct disks_key *k,
                      const struct upload_id *u, const struct store_part *parts,
                      uint32_t count, const struct object_meta *meta,
                      const struct store_condition *condition, struct entry *out,
                      struct errbuf *eb)
{
    struct completing c = {.upload = u,
                           .parts = parts,
                           .count = count,
                           .meta = meta,
                           .condition = condition};
    struct upload_replicas h = {.ds = ds};
    struct disks_writer *w;
    struct upload_end end;
    enum err rc;

    if (parts == NULL)
        return completed_before(ds, k, u, out, eb);
    w = writer_new(ds, k, STORE_NATIVE);
    end = upload_end_begin(ds, k);
    rc = bucket_takes(ds, k->at.bucket, eb);
    if (rc == ERR_OK)
        rc = upload_replicas_find(ds, k, u, &h, eb);
    if (rc == ERR_OK && end.change.locked && was_completed(ds, k, u)) {
        rc = err_set(eb, ERR_NO_UPLOAD, "the upload was completed before");
        upload_replicas_leave(&h); /* one was away at the abort and has returned */
    }
    for (unsigned i = 0; i < h.count; i++)
        if (replica_enter(ds, h.at[i]) != NULL)
            writer_joins(w, h.at[i], NULL);
    w->least = copies_least(k);
    w->placed = w->count;
    if (rc == ERR_OK && w->count < w->least)
        rc = too_few(w->count, MAX(k->copies, 1u), eb);
    if (rc == ERR_OK && end.change.locked)
        rc = owner_make_current(w, condition, eb);
    if (rc == ERR_OK) {
        c.content = store_mint_id(writer_replica(w, 0)->store);
        rc = complete_on_replicas(w, &c, out, eb);
    }
    upload_end_end(&end);
    upload_replicas_leave(&h);
    disks_write_abort(&w);
    return rc == ERR_NO_UPLOAD ? completed_before(ds, k, u, out, eb) : rc;
}

/* Aborts the upload on every replica that has it. If one may not receive the abort, the others
 * first record a tombstone. */
static enum err
abort_on_replicas(struct disks *ds, const struct disks_key *k, const struct upload_id *u,
                  struct errbuf *eb)
{
    struct upload_replicas h;
    enum err rc = upload_replicas_find(ds, k, u, &h, eb);

    if (rc == ERR_OK && (h.incomplete || any_replica_unreachable(ds))) {
        struct places p;

        places_of(ds, k, &p);
        rc = upload_tombstone_put(ds, k, &p, u, eb);
        if (rc == ERR_OK && h.incomplete)
            rc = set_diverge(ds, eb); /* a pass ends it there */
        if (rc != ERR_OK)
            upload_replicas_leave(&h);
    }
    for (unsigned i = 0; i < h.count; i++) {
        enum err one = replica_upload_abort(upload_replica(&h, i), &k->at, u, eb);

        rc = one != ERR_OK ? one : rc;
    }
    upload_replicas_leave(&h);
    return rc;
}

enum err
disks_upload_abort(struct disks *ds, const struct disks_key *k, const struct upload_id *u,
                   struct errbuf *eb)
{
    struct upload_end end =
        upload_end_begin(ds, k); /* also keeps out a pass that finds the tombstone */
    enum err rc = abort_on_replicas(ds, k, u, eb);

    upload_end_end(&end);
    return rc;
}

/* ---- listing ---- */

static int
upload_cmp(const void *x, const void *y)
{
    const struct store_upload *a = x, *b = y;
    int c = span_cmp(a->key, b->key);

    return c != 0 ? c : memcmp(&a->id, &b->id, sizeof a->id);
}

/* Reads a page of each replica, each of up to `max`: so the merged page is full before any of
 * them ends. */
static enum err
upload_pages(struct disks *ds, uint64_t bucket, struct span after_key,
             const struct upload_id *after_id, uint32_t max, struct arena *a,
             struct pages *p, struct errbuf *eb)
{
    for (struct replica_walk w = replica_walk(ds); replica_walk_next(&w);) {
        struct store_upload *found = NULL;
        uint32_t n = 0;
        bool rest = false;
        enum err rc = replica_upload_list(w.at, bucket, after_key, after_id, max, a,
                                          &found, &n, &rest, eb);

        if (rc != ERR_OK) {
            replica_walk_end(&w);
            return rc;
        }
        pages_add(p, found, n, rest);
    }
    return ERR_OK;
}

enum err
disks_upload_list(struct disks *ds, uint64_t bucket, unsigned copies,
                  struct span after_key, const struct upload_id *after_id, uint32_t max,
                  struct arena *a, struct store_upload **out, uint32_t *count, bool *more,
                  struct errbuf *eb)
{
    struct pages *p = pages_new(a, sizeof **out, upload_cmp);
    enum err rc;

    *count = 0;
    *more = false;
    if (listing_incomplete(ds, copies))
        return err_unreachable(eb);
    *out = arena_try(a, (max + 1) * sizeof **out);
    if (p == NULL || *out == NULL)
        return err_set(eb, ERR_BUSY, "no memory for a page of %u uploads", max);
    rc = upload_pages(ds, bucket, after_key, after_id, max, a, p, eb);
    if (rc != ERR_OK)
        return rc;
    while (*count < max && pages_next(p, &(*out)[*count]))
        ++*count;
    *more = pages_left(p);
    /* A disk left before it was read. */
    return listing_incomplete(ds, copies) ? err_unreachable(eb) : ERR_OK;
}
