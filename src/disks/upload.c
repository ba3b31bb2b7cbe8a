/* Multipart uploads: parts lie where the object is to lie, under the same ids on each of its disks. An upload stays on the
 * disks on which it was begun; these are its upload_replicas. */
#include <stdlib.h>
#include <string.h>

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
        replica_leave(h->ds, h->at[--h->count]);
}

struct store *
upload_replica_store(const struct upload_replicas *h, unsigned i)
{
    return h->ds->slots[h->at[i]].disk;
}

static enum err
has_upload(struct store *d, const struct disks_key *k, const struct upload_id *u,
           struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(1), KIB(64));
    struct store_part *parts;
    uint32_t count;
    bool more;
    enum err rc =
        store_part_list(d, &k->at, u, STORE_PARTS_MAX, 1, a, &parts, &count, &more, eb);

    arena_free(&a);
    return rc;
}

enum err
upload_replicas_find(struct disks *ds, const struct disks_key *k,
                     const struct upload_id *u, struct upload_replicas *out,
                     struct errbuf *eb)
{
    struct places p;
    bool ended;

    *out = (struct upload_replicas){.ds = ds};
    places_of(ds, k, &p);
    POINT(PLACES_CHOSEN);
    for (unsigned i = 0; i < p.count && out->count < DISKS_COPIES_MAX; i++) {
        struct store *d = replica_enter(ds, p.at[i]);
        enum err rc = d != NULL ? has_upload(d, k, u, eb) : ERR_UNAVAILABLE;

        if ((upload_replicas_unreachable >> p.at[i] & 1) != 0)
            rc = ERR_IO;
        if (rc == ERR_OK) {
            out->at[out->count++] = p.at[i];
            continue;
        }
        if (d != NULL)
            replica_leave(ds, p.at[i]);
        out->incomplete |= rc != ERR_NO_UPLOAD && !replica_is_removed(ds, p.at[i]);
    }
    if (out->count > 0 && !upload_tombstone_find(ds, k, u))
        return ERR_OK;
    ended = out->count > 0;
    upload_replicas_leave(out); /* aborted while they were away */
    return !ended && (out->incomplete || p.unreachable)
               ? unreachable(eb)
               : err_set(eb, ERR_NO_UPLOAD, "there is no such upload");
}

/* ---- begin ---- */

static enum err
upload_begin_many(struct disks *ds, const struct disks_key *k,
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
        struct store *d = replica_enter(ds, p.at[i]);
        enum err rc = d != NULL ? ERR_OK : unreachable(eb);

        if (rc == ERR_OK && have == 0)
            out->id = store_mint_id(d);
        if (rc == ERR_OK)
            rc = store_upload_begin_as(d, &k->at, meta, out, eb);
        if (d != NULL)
            replica_leave(ds, p.at[i]);
        if (rc == ERR_OK)
            have++;
        else if (first == ERR_OK)
            first = rc;
    }
    if (have >= least)
        return ERR_OK;
    /* What was begun holds no bytes; where it can't be ended now, it is listed until somebody does. */
    if (have > 0 && disks_upload_abort(ds, k, out, NULL) != ERR_OK)
        LOG(LOG_WARN, "disks.upload", "an upload that was refused is listed all the same",
            L_SPAN("key", k->at.key));
    return first;
}

enum err
disks_upload_begin(struct disks *ds, const struct disks_key *k, enum store_class class,
                   const struct object_meta *meta, struct upload_id *out,
                   struct errbuf *eb)
{
    struct store *d;
    uint32_t phase;
    enum err rc;

    (void)change_begin(ds, &phase);
    d = only_disk(ds);
    rc = bucket_takes(ds, k->at.bucket, eb);
    if (rc == ERR_OK)
        rc = d != NULL && copies_least(k) == 1
                 ? store_upload_begin(d, &k->at, class, meta, out, eb)
                 : upload_begin_many(ds, k, meta, out, eb);
    change_end(ds, phase);
    return rc;
}

/* ---- parts ---- */

static enum err
part_on_replicas(struct disks_writer *w, const struct upload_replicas *h,
                 const struct upload_id *u, uint32_t number, uint64_t size,
                 struct errbuf *eb)
{
    w->least = copies_least(&w->key);
    w->placed = h->count;
    if (h->count < w->least)
        return too_few(h->count, MAX(w->key.copies, 1u), eb);
    for (unsigned i = 0; i < h->count; i++) {
        struct store *d = replica_enter(w->disks, h->at[i]);
        struct store_writer *to = NULL;
        enum err rc = d != NULL ? ERR_OK : unreachable(eb);

        if (rc == ERR_OK)
            rc = w->count == 0
                     ? store_part_begin(d, &w->key.at, u, number, size, &to, eb)
                     : store_part_begin_as(d, &w->key.at, u, number, size,
                                           store_writer_content(w->to[0]), &to, eb);
        if (rc == ERR_OK) {
            writer_joins(w, h->at[i], to);
            continue;
        }
        if (d != NULL)
            replica_leave(w->disks, h->at[i]);
        if (i == 0 || w->count + (h->count - i - 1) < w->least)
            return rc;
    }
    return ERR_OK;
}

static enum err
only_replica(struct disks *ds, struct upload_replicas *out)
{
    uint8_t all[DISKS_MAX];

    *out = (struct upload_replicas){.ds = ds};
    if (places_all(ds, all) == 0 || replica_enter(ds, all[0]) == NULL)
        return ERR_UNAVAILABLE;
    out->at[out->count++] = all[0];
    return ERR_OK;
}

enum err
disks_part_begin(struct disks *ds, const struct disks_key *k, const struct upload_id *u,
                 uint32_t number, uint64_t size, struct disks_writer **out,
                 struct errbuf *eb)
{
    struct disks_writer *w = writer_new(ds, k, STORE_NATIVE);
    struct upload_replicas h;
    enum err rc = only_disk(ds) != NULL ? only_replica(ds, &h)
                                        : upload_replicas_find(ds, k, u, &h, eb);

    *out = NULL;
    if (rc == ERR_OK)
        rc = part_on_replicas(w, &h, u, number, size, eb);
    upload_replicas_leave(&h);
    if (rc != ERR_OK)
        disks_write_abort(&w);
    *out = w;
    return rc;
}

enum err
disks_part_commit(struct disks_writer **wp, const struct object_meta *meta,
                  struct errbuf *eb)
{
    struct disks_writer *w = *wp;
    unsigned have = 0;
    enum err rc = ERR_OK;
    uint32_t phase;

    (void)change_begin(w->disks, &phase);
    for (unsigned i = 0; i < w->count; i++) {
        struct errbuf one = {{0}};
        enum err copy = store_part_commit(&w->to[i], meta, &one);

        if (copy == ERR_OK) {
            have++;
        } else if (rc == ERR_OK) {
            rc = copy;
            if (eb != NULL)
                *eb = one;
        }
        if (copy != ERR_OK && i == 0)
            break; /* what the others have is not in its list */
    }
    if (w->count > 0 && have >= w->least && have > 0)
        rc = ERR_OK;
    change_end(w->disks, phase);
    disks_write_abort(wp);
    return rc;
}

enum err
disks_part_list(struct disks *ds, const struct disks_key *k, const struct upload_id *u,
                uint32_t after, uint32_t max, struct arena *a, struct store_part **out,
                uint32_t *count, bool *more, struct errbuf *eb)
{
    _Atomic uint64_t *counted;
    struct store *d = one_enter(ds, &counted);
    struct upload_replicas h;
    enum err rc;

    if (d != NULL) {
        rc = store_part_list(d, &k->at, u, after, max, a, out, count, more, eb);
        one_leave(counted);
        return rc;
    }
    rc = upload_replicas_find(ds, k, u, &h, eb);
    if (rc == ERR_OK)
        rc = store_part_list(upload_replica_store(&h, 0), &k->at, u, after, max, a, out,
                             count, more, eb);
    upload_replicas_leave(&h);
    return rc;
}

enum err
disks_upload_meta(struct disks *ds, const struct disks_key *k, const struct upload_id *u,
                  struct arena *a, struct object_meta *out, struct errbuf *eb)
{
    _Atomic uint64_t *counted;
    struct store *d = one_enter(ds, &counted);
    struct upload_replicas h;
    enum err rc;

    if (d != NULL) {
        rc = store_upload_meta(d, &k->at, u, a, out, eb);
        one_leave(counted);
        return rc;
    }
    rc = upload_replicas_find(ds, k, u, &h, eb);
    for (unsigned i = 0; i < h.count; i++) {
        rc = store_upload_meta(upload_replica_store(&h, i), &k->at, u, a, out, eb);
        if (rc == ERR_OK)
            break;
    }
    upload_replicas_leave(&h);
    return rc;
}

/* ---- the end ---- */

static enum err
completed_on(struct store *d, const struct store_key *k, const struct upload_id *u,
             struct entry *out, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(4), MIB(1));
    struct object_meta meta;
    enum err rc = store_upload_meta(d, k, u, a, &meta, eb);

    arena_free(&a);
    if (rc == ERR_OK)
        return err_set(eb, ERR_NO_UPLOAD, "the upload is not completed");
    return rc == ERR_NO_UPLOAD
               ? store_upload_complete(d, k, u, NULL, 0, NULL, NULL, out, eb)
               : rc;
}

/* Perhaps it was completed before: then somebody remembers. */
static enum err
completed_before(struct disks *ds, const struct disks_key *k, const struct upload_id *u,
                 struct entry *out, struct errbuf *eb)
{
    struct places p;
    enum err rc = ERR_NO_UPLOAD;

    places_of(ds, k, &p);
    for (unsigned i = 0; i < p.count && rc != ERR_OK; i++) {
        struct store *d = replica_enter(ds, p.at[i]);

        if (d == NULL)
            continue;
        rc = completed_on(d, &k->at, u, out, eb);
        replica_leave(ds, p.at[i]);
        out->place.disk = p.at[i];
    }
    return rc;
}

/* Has a disk completed it that was there, while another one, on which it is open, was not? */
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
    struct store *d = replica_state(&ds->slots[slot]) != REPLICA_FROZEN
                          ? replica_enter(ds, slot)
                          : NULL;
    enum err rc = ERR_OK;

    if (d == NULL)
        return ERR_OK;
    keylock_take(ds->keylocks, hash); /* it is not being completed just now */
    if (was_completed(ds, k, u) || upload_tombstone_find(ds, k, u))
        rc = store_upload_abort(d, &k->at, u, eb);
    keylock_release(ds->keylocks, hash);
    replica_leave(ds, slot);
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

    keylock_take(ds->keylocks, hash);
    for (unsigned i = 0; i < n; i++) {
        struct store *d = replica_state(&ds->slots[all[i]]) != REPLICA_FROZEN
                              ? replica_enter(ds, all[i])
                              : NULL;
        struct errbuf why = {{0}};
        enum err one = d != NULL ? store_upload_abort(d, &k->at, u, &why) : ERR_OK;

        if (d != NULL)
            replica_leave(ds, all[i]);
        if (one == ERR_OK || one == ERR_NO_UPLOAD || rc != ERR_OK)
            continue;
        rc = one;
        *eb = why;
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

/* As a write whose bodies are there already. */
static enum err
complete_on_replicas(struct disks_writer *w, const struct completing *c,
                     struct entry *out, struct errbuf *eb)
{
    struct store *owner = w->disks->slots[w->slot[0]].disk;
    enum err rc = ERR_OK;

    for (unsigned i = 1; rc == ERR_OK && i < w->count; i++) {
        struct store *d = w->disks->slots[w->slot[i]].disk;

        rc = store_upload_prepare(d, &w->key.at, c->upload, c->parts, c->count,
                                  &c->content, c->meta, eb);
        if (rc != ERR_OK && w->count - 1 >= w->least) {
            writer_remove_copy(w, i--, &c->content);
            rc = ERR_OK;
        }
    }
    if (rc == ERR_OK)
        rc = store_upload_complete_as(owner, &w->key.at, c->upload, c->parts, c->count,
                                      &c->content, c->meta, c->condition, out, eb);
    if (rc == ERR_OK && memcmp(&out->content, &c->content, sizeof c->content) == 0) {
        out->place.disk = w->slot[0];
        commit_copies(w, &c->content, &out->version);
    } else {
        abort_copies(w, &c->content);
    }
    return rc;
}

static enum err
complete_many(struct disks *ds, const struct disks_key *k, struct completing *c,
              struct entry *out, struct errbuf *eb)
{
    struct disks_writer *w = writer_new(ds, k, STORE_NATIVE);
    uint64_t hash = place_hash(k->at.immutable_name, k->at.key);
    struct upload_replicas h;
    uint32_t phase;
    bool locked = change_begin(ds, &phase);
    enum err rc = bucket_takes(ds, k->at.bucket, eb);

    if (locked)
        keylock_take(ds->keylocks, hash);
    h = (struct upload_replicas){.ds = ds};
    if (rc == ERR_OK)
        rc = upload_replicas_find(ds, k, c->upload, &h, eb);
    if (rc == ERR_OK && locked && was_completed(ds, k, c->upload)) {
        rc = err_set(eb, ERR_NO_UPLOAD, "the upload was completed before");
        upload_replicas_leave(&h); /* one that was away then, and is back */
    }
    for (unsigned i = 0; i < h.count; i++)
        if (replica_enter(ds, h.at[i]) != NULL)
            writer_joins(w, h.at[i], NULL);
    w->least = copies_least(k);
    w->placed = w->count;
    if (rc == ERR_OK && w->count < w->least)
        rc = too_few(w->count, MAX(k->copies, 1u), eb);
    if (rc == ERR_OK && locked)
        rc = owner_make_current(w, c->condition, eb);
    if (rc == ERR_OK) {
        c->content = store_mint_id(ds->slots[w->slot[0]].disk);
        rc = complete_on_replicas(w, c, out, eb);
    }
    if (locked)
        keylock_release(ds->keylocks, hash);
    change_end(ds, phase);
    upload_replicas_leave(&h);
    disks_write_abort(&w);
    return rc == ERR_NO_UPLOAD ? completed_before(ds, k, c->upload, out, eb) : rc;
}

enum err
disks_upload_complete(struct disks *ds, const struct disks_key *k,
                      const struct upload_id *u, const struct store_part *parts,
                      uint32_t count, const struct object_meta *meta,
                      const struct store_condition *c, struct entry *out,
                      struct errbuf *eb)
{
    struct store *d = only_disk(ds);
    struct completing all = {
        .upload = u, .parts = parts, .count = count, .meta = meta, .condition = c};
    uint32_t phase;
    enum err rc;

    if (d == NULL && parts == NULL)
        return completed_before(ds, k, u, out, eb);
    if (d == NULL)
        return complete_many(ds, k, &all, out, eb);
    (void)change_begin(ds, &phase);
    rc = bucket_takes(ds, k->at.bucket, eb);
    if (rc == ERR_OK)
        rc = store_upload_complete(d, &k->at, u, parts, count, meta, c, out, eb);
    change_end(ds, phase);
    return rc;
}

/* On every disk that has it; where one may not hear of it, the others keep that first. */
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
        enum err one = store_upload_abort(upload_replica_store(&h, i), &k->at, u, eb);

        rc = one != ERR_OK ? one : rc;
    }
    upload_replicas_leave(&h);
    return rc;
}

enum err
disks_upload_abort(struct disks *ds, const struct disks_key *k, const struct upload_id *u,
                   struct errbuf *eb)
{
    struct store *d = only_disk(ds);
    uint64_t hash;
    uint32_t phase;
    bool locked;
    enum err rc;

    if (d != NULL)
        return store_upload_abort(d, &k->at, u, eb);
    hash = place_hash(k->at.immutable_name, k->at.key);
    locked = change_begin(ds, &phase);
    if (locked) /* a pass that meets the mark does not come before us */
        keylock_take(ds->keylocks, hash);
    rc = abort_on_replicas(ds, k, u, eb);
    if (locked)
        keylock_release(ds->keylocks, hash);
    change_end(ds, phase);
    return rc;
}

/* ---- listing ---- */

static bool
upload_before(const struct store_upload *a, const struct store_upload *b)
{
    int order = span_cmp(a->key, b->key);

    return order < 0 || (order == 0 && memcmp(&a->id, &b->id, sizeof a->id) < 0);
}

/* Each disk's page has up to `max`, so the merged one is full before any of them has to be asked again. */
static void
merge_uploads(struct store_upload **pages, uint32_t *counts, unsigned n, uint32_t max,
              struct store_upload *out, uint32_t *count, bool *more)
{
    for (;;) {
        const struct store_upload *next = NULL;

        for (unsigned i = 0; i < n; i++)
            if (counts[i] > 0 && (next == NULL || upload_before(pages[i], next)))
                next = pages[i];
        if (next == NULL)
            return;
        if (*count == max) {
            *more = true;
            return;
        }
        out[(*count)++] = *next;
        for (unsigned i = 0; i < n; i++)
            if (counts[i] > 0 && !upload_before(&out[*count - 1], pages[i])) {
                pages[i]++;
                counts[i]--;
            }
    }
}

enum err
disks_upload_list(struct disks *ds, uint64_t bucket, unsigned copies,
                  struct span after_key, const struct upload_id *after_id, uint32_t max,
                  struct arena *a, struct store_upload **out, uint32_t *count, bool *more,
                  struct errbuf *eb)
{
    _Atomic uint64_t *counted;
    struct store *d = one_enter(ds, &counted);
    struct store_upload *pages[DISKS_MAX];
    uint32_t counts[DISKS_MAX];
    uint8_t all[DISKS_MAX];
    unsigned n, have = 0;

    if (d != NULL) {
        enum err rc = store_upload_list(d, bucket, after_key, after_id, max, a, out,
                                        count, more, eb);

        one_leave(counted);
        return rc;
    }
    *count = 0;
    *more = false;
    if (listing_incomplete(ds, copies))
        return unreachable(eb);
    n = places_all(ds, all);
    for (unsigned i = 0; i < n; i++) {
        bool own_more;
        enum err rc;

        d = replica_enter(ds, all[i]);
        if (d == NULL)
            continue;
        rc = store_upload_list(d, bucket, after_key, after_id, max, a, &pages[have],
                               &counts[have], &own_more, eb);
        replica_leave(ds, all[i]);
        if (rc != ERR_OK)
            return rc;
        *more |= own_more;
        have++;
    }
    *out = arena_try(a, (max + 1) * sizeof **out);
    if (*out == NULL)
        return err_set(eb, ERR_BUSY, "no memory for a page of %u uploads", max);
    merge_uploads(pages, counts, have, max, *out, count, more);
    /* One has left before it was asked. */
    return listing_incomplete(ds, copies) ? unreachable(eb) : ERR_OK;
}
