/* Copies one object from replica to replica, and reconciles one key. */
#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "disks/history.h"
#include "disks/rebalancer.h"
#include "rt/point.h"
#include "rt/time.h"

#define DURABLE_TRIES 3 /* for a key that is overwritten repeatedly */
#define COPIES_PAGE   256u
#define META_ARENA    MIB(4) /* 10,000 parts */

static bool
same_version(const struct version *a, const struct version *b)
{
    return a->epoch == b->epoch && a->counter == b->counter;
}

/* Reads bytes of the object from `at` on, as many as the writer accepts. */
static enum err
copy_bytes(struct replica *from, struct replica *to, const struct store_key *k,
           const struct entry *entry, uint64_t at, uint64_t len, struct replica_writer *w,
           struct errbuf *eb)
{
    struct replica_reader *r = NULL;
    uint64_t copied = 0;
    struct span piece;
    enum err rc = from->ops->read_begin(from, k, entry, at, len, &r, eb);

    assert(w != NULL);
    while (rc == ERR_OK && copied < len) {
        rc = from->ops->read_next(r, DEADLINE_NEVER, &piece, eb);
        if (rc == ERR_OK)
            rc = to->ops->write(w, piece.at, piece.len, eb);
        copied += rc == ERR_OK ? piece.len : 0;
    }
    assert(rc != ERR_OK || copied == len);
    from->ops->read_end(&r);
    return rc;
}

static enum err
copy_whole(struct replica *from, struct replica *to, const struct store_key *k,
           const struct entry *entry, const struct object_meta *meta, struct errbuf *eb)
{
    struct replica_writer *w = NULL;
    enum err rc =
        to->ops->write_begin(to, k, STORE_NATIVE, entry->size, &entry->content, &w, eb);

    if (rc == ERR_OK)
        rc = copy_bytes(from, to, k, entry, 0, entry->size, w, eb);
    if (rc == ERR_OK)
        rc = to->ops->commit_replica(&w, meta, entry, eb);
    to->ops->write_abort(&w);
    return rc;
}

/* True if an interrupted copy has left this part already. Both lists ascend. */
static bool
have_part(const struct store_part *have, uint32_t count,
          const struct store_object_part *p)
{
    for (uint32_t i = 0; i < count; i++)
        if (have[i].number == p->number)
            return memcmp(&have[i].content, &p->content, sizeof p->content) == 0;
    return false;
}

static enum err
copy_part(struct replica *from, struct replica *to, const struct store_key *k,
          const struct entry *entry, const struct upload_id *u,
          const struct store_object_part *p, struct errbuf *eb)
{
    struct object_meta meta = {.mtime_ms = entry->mtime_ms,
                               .checksum_algorithm = p->checksum_algorithm,
                               .checksum = p->checksum};
    struct replica_writer *w = NULL;
    enum err rc = to->ops->part_begin(to, k, u, p->number, p->size, &p->content, &w, eb);

    memcpy(meta.md5, p->md5, sizeof meta.md5);
    if (rc == ERR_OK)
        rc = copy_bytes(from, to, k, entry, p->offset, p->size, w, eb);
    if (rc == ERR_OK)
        rc = to->ops->part_commit(&w, &meta, eb);
    to->ops->write_abort(&w);
    return rc;
}

/* Copies a multipart object, part by part, each a body of its own. Keeps what an interrupted
 * copy has written. */
static enum err
copy_parts(struct replica *from, struct replica *to, const struct store_key *k,
           const struct entry *entry, const struct object_meta *meta, struct arena *a,
           struct errbuf *eb)
{
    struct store_object_part *parts = NULL;
    struct store_part *have = NULL, *named;
    struct upload_id u;
    uint32_t count = 0, there = 0;
    bool more = false;
    enum err rc = replica_object_parts(from, entry, a, &parts, &count, eb);

    if (rc == ERR_OK)
        rc = replica_copy_begin(to, k, entry, &u, eb);
    if (rc == ERR_EXISTS)
        rc =
            replica_part_list(to, k, &u, 0, STORE_PARTS_MAX, a, &have, &there, &more, eb);
    if (rc != ERR_OK)
        return rc;
    named = arena_try(a, (count + 1) * sizeof *named);
    if (named == NULL)
        rc = err_set(eb, ERR_BUSY, "no memory for %u parts", count);
    for (uint32_t i = 0; rc == ERR_OK && i < count; i++) {
        named[i] = (struct store_part){.number = parts[i].number,
                                       .size = parts[i].size,
                                       .mtime_ms = entry->mtime_ms,
                                       .content = parts[i].content};
        memcpy(named[i].md5, parts[i].md5, sizeof named[i].md5);
        if (!have_part(have, there, &parts[i]))
            rc = copy_part(from, to, k, entry, &u, &parts[i], eb);
    }
    return rc == ERR_OK ? replica_copy_complete(to, k, &u, named, count, meta, entry, eb)
                        : rc;
}

enum err
copy_object(struct disks *ds, const struct disks_key *k, const struct entry *entry,
            unsigned to, uint64_t *bytes, struct errbuf *eb)
{
    struct replica *from = replica_enter(ds, entry->place.disk),
                   *dest = replica_enter(ds, to);
    struct arena *a = arena_new(KIB(8), META_ARENA);
    struct object_meta meta;
    enum err rc = from == NULL || dest == NULL ? err_unreachable(eb) : ERR_OK;

    assert(to != entry->place.disk);
    assert(to < atomic_load(&ds->slot_count));
    if (rc == ERR_OK)
        rc = replica_meta(from, &k->at, entry, a, &meta, eb);
    if (rc == ERR_OK && meta.versioning == STORE_UNVERSIONED &&
        (entry->flags & ENTRY_SUSPENDED) != 0)
        meta.versioning = STORE_SUSPENDED;
    if (rc == ERR_OK)
        rc = (entry->flags & ENTRY_PARTS) != 0
                 ? copy_parts(from, dest, &k->at, entry, &meta, a, eb)
                 : copy_whole(from, dest, &k->at, entry, &meta, eb);
    POINT(MOVE_COPIED);
    if (rc == ERR_OK)
        *bytes += entry->size;
    replica_leave(from);
    replica_leave(dest);
    arena_free(&a);
    return rc;
}

static enum err
copy_tombstone(struct disks *ds, const struct disks_key *k, const struct entry *entry,
               unsigned to, struct errbuf *eb)
{
    struct store_delete_options o = {.version = &entry->version,
                                     .keep_tombstone = true,
                                     .always = true,
                                     .now_ms = entry->mtime_ms};
    struct store_deleted done;
    struct replica *d = replica_enter(ds, to);
    enum err rc = replica_delete_with(d, &k->at, &o, &done, eb);

    assert(to < atomic_load(&ds->slot_count));
    replica_leave(d);
    return rc;
}

enum err
copy_to_owner(struct disks *ds, const struct disks_key *k, unsigned to, uint64_t also,
              struct errbuf *eb)
{
    struct entry entry;
    uint64_t bytes = 0;
    enum err rc = lookup_all(ds, k, &entry, eb);

    assert(to < atomic_load(&ds->slot_count));
    if (rc == ERR_NOT_FOUND)
        return ERR_OK;
    if (rc == ERR_OK && (entry.flags & ENTRY_HISTORY) != 0)
        return history_copy_to_owner(ds, k, to, also, eb);
    if (rc != ERR_OK || entry.place.disk == to)
        return rc;
    if ((entry.flags & ENTRY_TOMBSTONE) != 0)
        return copy_tombstone(ds, k, &entry, to, eb);
    rc = copy_object(ds, k, &entry, to, &bytes, eb);
    return rc == ERR_PRECONDITION ? ERR_OK
                                  : rc; /* it has that version, or a newer one, already */
}

/* ---- reconciling one key ---- */

/* The state of a key on one slot. */
static enum err
entry_on(struct disks *ds, const struct disks_key *k, unsigned i, struct entry *out,
         struct errbuf *eb)
{
    struct replica *d = replica_enter(ds, i);
    enum err rc = replica_lookup_any(d, &k->at, out, eb);

    assert(i < atomic_load(&ds->slot_count));
    replica_leave(d);
    return rc;
}

/* A change of the key is lost on this slot, and entry_on() is ERR_CORRUPT: a copy of what the others have ends that. */
static bool
is_suspect_on(struct disks *ds, const struct disks_key *k, unsigned i)
{
    struct replica *d = replica_enter(ds, i);
    bool suspect =
        d != NULL && d->store != NULL && store_key_is_suspect(d->store, &k->at);

    assert(i < atomic_load(&ds->slot_count));
    replica_leave(d);
    return suspect;
}

/* Copies the object to slot `to`, from any readable copy. */
static enum err
copy_from_any(struct disks *ds, const struct disks_key *k, const struct entry *best,
              const struct places *p, unsigned to, struct reconciled *done,
              struct errbuf *eb)
{
    enum err rc = ERR_NOT_FOUND;

    assert(p->placed <= p->count);
    assert((best->flags & ENTRY_TOMBSTONE) == 0);
    for (unsigned i = 0; i < p->count; i++) {
        struct entry entry;

        if (p->at[i] == to || entry_on(ds, k, p->at[i], &entry, NULL) != ERR_OK ||
            !same_version(&entry.version, &best->version))
            continue;
        entry.place.disk = p->at[i];
        done->changed = true;
        rc = copy_object(ds, k, &entry, to, &done->bytes, eb);
        if (rc == ERR_OK || rc == ERR_PRECONDITION)
            return ERR_OK;
    }
    return rc == ERR_NOT_FOUND
               ? err_set(eb, ERR_CORRUPT, "no other disk has a copy that can be read")
               : rc;
}

static enum err
forget_on(struct disks *ds, const struct disks_key *k, unsigned i,
          const struct entry *entry, struct errbuf *eb)
{
    struct replica *d = replica_enter(ds, i);
    enum err rc = replica_drop_copy(d, &k->at, &entry->version, eb);

    assert(i < atomic_load(&ds->slot_count));
    POINT(MOVE_FORGOTTEN);
    replica_leave(d);
    if (rc == ERR_OK)
        atomic_fetch_add(&ds->removals, 1);
    return rc == ERR_NOT_FOUND || rc == ERR_PRECONDITION ? ERR_OK : rc;
}

/* Waits a moment for a listing that removals have disturbed. */
static void
let_listings_pass(struct disks *ds)
{
    for (unsigned ms = 0; atomic_load(&ds->pauses) > 0 && ms < 2000; ms++)
        if (rt_sleep_ms(1) != ERR_OK)
            return;
}

static enum err
end_tombstone_everywhere(struct disks *ds, const struct disks_key *k,
                         const struct places *p, const struct entry *t, struct errbuf *eb)
{
    for (unsigned i = 0; i < p->count; i++) {
        struct replica *d = replica_enter(ds, p->at[i]);
        enum err rc = replica_tombstone_drop(d, &k->at, &t->version, eb);

        replica_leave(d);
        if (rc != ERR_OK)
            return rc;
    }
    return ERR_OK;
}

/* Brings the delete to every replica with an older version. Once all have it, drops the
 * tombstones. */
static enum err
deliver_delete(struct disks *ds, const struct disks_key *k, const struct places *p,
               const struct entry *best, struct reconciled *done, struct errbuf *eb)
{
    assert((best->flags & ENTRY_TOMBSTONE) != 0);

    for (unsigned i = 0; i < p->count; i++) {
        struct entry entry;
        enum err rc = entry_on(ds, k, p->at[i], &entry, eb);

        if ((rc == ERR_OK && !same_version(&entry.version, &best->version)) ||
            (rc == ERR_CORRUPT && is_suspect_on(ds, k, p->at[i]))) {
            done->changed = true;
            rc = copy_tombstone(ds, k, best, p->at[i], eb);
        }
        if (rc != ERR_OK && rc != ERR_NOT_FOUND)
            return rc;
    }
    if (any_replica_unreachable(ds))
        return ERR_OK; /* it may return with an older object: the tombstones stay */
    done->changed = true;
    return end_tombstone_everywhere(ds, k, p, best, eb);
}

/* The commit of a prepared version is not synced. While a power cut could undo it, the owner's
 * entry must stay. */
bool
is_durable(struct disks *ds, unsigned i, const struct version *v)
{
    assert(i < atomic_load(&ds->slot_count));

    return v->epoch < ds->control.first_map_epoch || v->counter <= ds->slots[i].durable;
}

/* Makes all present commits durable on the placed disks. The caller holds no key's lock. */
static enum err
make_durable(struct disks *ds, const struct places *p, struct errbuf *eb)
{
    uint64_t upto = atomic_load(&ds->ids.counter);

    assert(rt_loop_index() == 0);
    assert(p->placed <= p->count);
    changes_before_end(ds);
    for (unsigned i = 0; i < p->placed; i++) {
        struct replica *d = replica_enter(ds, p->at[i]);
        enum err rc = replica_flush(d, eb);

        replica_leave(d);
        if (rc != ERR_OK)
            return rc;
        ds->slots[p->at[i]].durable = upto;
    }
    return ERR_OK;
}

static enum err
remove_surplus(struct disks *ds, const struct disks_key *k, const struct places *p,
               struct reconciled *done, struct errbuf *eb)
{
    assert(p->placed <= p->count);

    assert(p->placed > 0); /* a placed replica keeps it */
    let_listings_pass(ds);
    for (unsigned i = p->placed; i < p->count; i++) {
        struct entry entry;
        enum err rc = entry_on(ds, k, p->at[i], &entry, eb);

        if (rc == ERR_OK) {
            done->changed = true;
            rc = forget_on(ds, k, p->at[i], &entry, eb);
        }
        if (rc != ERR_OK && rc != ERR_NOT_FOUND)
            return rc;
    }
    return ERR_OK;
}

/* ERR_BUSY: *early, the copies must be made durable before the others are dropped. */
static enum err
deliver_object(struct disks *ds, const struct disks_key *k, const struct places *p,
               const struct entry *best, uint64_t damaged, struct reconciled *done,
               bool *early, struct errbuf *eb)
{
    assert(p->placed > 0);
    assert((best->flags & ENTRY_TOMBSTONE) == 0);

    *early = false;
    for (unsigned i = 0; i < p->placed; i++) {
        struct entry entry;
        enum err rc = entry_on(ds, k, p->at[i], &entry, eb);

        if (rc != ERR_OK && rc != ERR_NOT_FOUND &&
            !(rc == ERR_CORRUPT && is_suspect_on(ds, k, p->at[i])))
            return rc;
        if (rc == ERR_OK && same_version(&entry.version, &best->version) &&
            (damaged >> p->at[i] & 1) == 0)
            continue;
        rc = copy_from_any(ds, k, best, p, p->at[i], done, eb);
        if (rc != ERR_OK)
            return rc;
    }
    for (unsigned i = 0; i < p->placed && p->count > p->placed; i++)
        *early |= !is_durable(ds, p->at[i], &best->version);
    return *early ? err_set(eb, ERR_BUSY, "its copies are not durable yet")
                  : remove_surplus(ds, k, p, done, eb);
}

enum err
cached_drop(struct disks *ds, const struct disks_key *k, unsigned slot, bool *dropped,
            struct errbuf *eb)
{
    struct replica *r = replica_enter(ds, slot);
    struct entry entry;
    bool existed;
    enum err rc = r != NULL ? replica_lookup(r, &k->at, &entry, eb) : ERR_NOT_FOUND;

    assert(slot < atomic_load(&ds->slot_count));
    *dropped = rc == ERR_OK && (entry.flags & ENTRY_CACHED) != 0;
    if (*dropped)
        rc = store_delete(r->store, &k->at, STORE_CACHED, NULL, &existed, eb);
    replica_leave(r);
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

/* The backend has cached objects, so this drops the copies on other replicas. */
static enum err
drop_cached(struct disks *ds, const struct disks_key *k, const struct places *p,
            struct reconciled *done, struct errbuf *eb)
{
    assert(p->placed > 0);

    for (unsigned i = 1; i < p->count; i++) {
        bool dropped;
        enum err rc = cached_drop(ds, k, p->at[i], &dropped, eb);

        if (rc != ERR_OK)
            return rc;
        done->changed |= dropped;
        atomic_fetch_add(&ds->removals, 1);
    }
    return ERR_OK;
}

/* Aborts an upload. If that fails, the upload stays; *rc has the error, and the caller
 * continues. */
static void
copy_upload_abort(struct disks *ds, struct replica *d, const struct store_key *k,
                  const struct upload_id *u, enum err *rc, struct errbuf *eb)
{
    uint64_t hash = place_hash(k->immutable_name, k->key);
    struct errbuf why = {{0}};
    enum err one;

    /* A write that copies the key to its owner holds the key's lock, so its upload is not taken
     * for a leftover. */
    keylock_take(ds->keylocks, hash);
    one = replica_upload_abort(d, k, u, &why);
    keylock_release(ds->keylocks, hash);
    note_first(one == ERR_NO_UPLOAD ? ERR_OK : one, &why, rc, eb);
}

enum err
copy_uploads_abort(struct disks *ds, const struct disks_bucket *b, unsigned slot,
                   struct arena *a, struct errbuf *eb)
{
    struct replica *d = replica_state(&ds->slots[slot]) != REPLICA_FROZEN
                            ? replica_enter(ds, slot)
                            : NULL;
    char last[STORE_KEY_MAX];
    struct span after = {last, 0};
    struct upload_id id;
    enum err rc = ERR_OK;
    bool more = true;

    assert(rt_loop_index() == 0);
    assert(slot < atomic_load(&ds->slot_count));
    if (d == NULL)
        return ERR_OK;
    while (more && !ds->rebalancer->stopping) {
        struct store_upload *found = NULL;
        struct errbuf why = {{0}};
        uint32_t count = 0;
        enum err listed;

        arena_reset(a);
        listed = replica_copy_list(d, b->id, after, after.len > 0 ? &id : NULL,
                                   COPIES_PAGE, a, &found, &count, &more, &why);
        if (listed != ERR_OK) {
            rc = listed;
            *eb = why;
            break;
        }
        for (uint32_t i = 0; i < count; i++)
            copy_upload_abort(ds, d,
                              &(struct store_key){.bucket = b->id,
                                                  .immutable_name = b->immutable_name,
                                                  .key = found[i].key},
                              &found[i].id, &rc, eb);
        if (count == 0)
            break;
        after.len = found[count - 1].key.len;
        memcpy(last, found[count - 1].key.at, after.len);
        id = found[count - 1].id;
    }
    replica_leave(d);
    return rc;
}

static enum err
reconcile_locked(struct disks *ds, const struct disks_key *k, uint64_t damaged,
                 struct places *p, struct reconciled *done, bool *early,
                 struct errbuf *eb)
{
    struct entry best;
    enum err rc;

    *early = false;
    places_of(ds, k, p);
    if (p->placed == 0)
        return err_set(eb, ERR_UNAVAILABLE,
                       "no disk of the node takes objects: what lies on those that are "
                       "drained stays there");
    rc = lookup_all(ds, k, &best, eb);
    if (rc != ERR_OK)
        return rc;
    if ((best.flags & ENTRY_CACHED) != 0)
        return drop_cached(ds, k, p, done, eb);
    if ((best.flags & ENTRY_HISTORY) != 0)
        return history_reconcile(ds, k, p, damaged, done, early, eb);
    return (best.flags & ENTRY_TOMBSTONE) != 0
               ? deliver_delete(ds, k, p, &best, done, eb)
               : deliver_object(ds, k, p, &best, damaged, done, early, eb);
}

enum err
key_reconcile(struct disks *ds, const struct disks_key *k, uint64_t damaged,
              struct reconciled *done, struct errbuf *eb)
{
    uint64_t hash = place_hash(k->at.immutable_name, k->at.key);
    struct places p;
    enum err rc;

    assert(k->at.bucket != 0);
    assert(done != NULL);
    for (unsigned i = 0;; i++) {
        bool early;

        keylock_take(ds->keylocks, hash);
        rc = reconcile_locked(ds, k, damaged, &p, done, &early, eb);
        keylock_release(ds->keylocks, hash);
        if (!early || i == DURABLE_TRIES)
            break;
        rc = make_durable(ds, &p, eb);
        if (rc != ERR_OK)
            break;
        damaged = 0;
    }
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}
