/* Writers of bodies, and the calls that create and delete objects, on one disk or on several. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "disks/rebalance.h"
#include "disks/write.h"
#include "rt/point.h"
#include "rt/time.h"

/* ---- begin ---- */

struct disks_writer *
writer_new(struct disks *ds, const struct disks_key *k, enum store_class class)
{
    size_t birth = k->at.immutable_name.len, key = k->at.key.len;
    struct disks_writer *w = xcalloc(1, sizeof *w + birth + key);

    w->disks = ds;
    w->class = class;
    w->generation = generation_enter(ds);
    if (birth > 0)
        memcpy(w->names, k->at.immutable_name.at, birth);
    if (key > 0)
        memcpy(w->names + birth, k->at.key.at, key);
    w->key = *k;
    w->key.at.immutable_name = (struct span){w->names, birth};
    w->key.at.key = (struct span){w->names + birth, key};
    return w;
}

/* Number of disks that a write needs for success. */
unsigned
copies_least(const struct disks_key *k)
{
    unsigned copies = MAX(k->copies, 1u);

    assert(k->copies <= DISKS_COPIES_MAX);
    return k->min_copies > 0 ? MIN(k->min_copies, copies) : copies;
}

enum err
too_few(unsigned have, unsigned want, struct errbuf *eb)
{
    return err_set(eb, ERR_UNAVAILABLE,
                   "%u of the node's disks can take this object, its bucket wants %u "
                   "copies; add a disk, or lower copies or min_copies of the bucket",
                   have, want);
}

/* Adds a disk that receives the body. */
void
writer_joins(struct disks_writer *w, unsigned slot, struct replica_writer *to)
{
    assert(w->count < DISKS_COPIES_MAX);
    w->slot[w->count] = (uint8_t)slot;
    w->to[w->count++] = to;
}

static enum err
begin_on(struct disks_writer *w, unsigned i, uint64_t size, struct errbuf *eb)
{
    const struct content_id *content = w->count > 0 ? writer_content(w) : NULL;
    struct replica *r = replica_enter(w->disks, i);
    struct replica_writer *to = NULL;
    enum err rc =
        r != NULL ? r->ops->write_begin(r, &w->key.at, w->class, size, content, &to, eb)
                  : err_unreachable(eb);

    if (rc == ERR_OK)
        writer_joins(w, i, to); /* stays in the slot until writer_drop() */
    else
        replica_leave(r);
    return rc;
}

static enum err
begin_on_all(struct disks_writer *w, uint64_t size, struct errbuf *eb)
{
    struct places p;
    enum err rc = ERR_OK;

    places_of_change(w->disks, &w->key,
                     w->class == STORE_NATIVE && atomic_load(&w->disks->guarded), &p);
    w->least = copies_least(&w->key);
    w->placed = p.placed;
    if (p.placed < w->least)
        return too_few(p.placed, MAX(w->key.copies, 1u), eb);
    for (unsigned i = 0; i < p.placed; i++) {
        rc = begin_on(w, p.at[i], size, eb);
        if (rc != ERR_OK && (i == 0 || w->count + (p.placed - i - 1) < w->least))
            return rc;
    }
    return ERR_OK;
}

enum err
disks_write_begin(struct disks *ds, const struct disks_key *k, enum store_class class,
                  uint64_t size, struct disks_writer **out, struct errbuf *eb)
{
    struct disks_writer *w;
    enum err rc;

    *out = NULL;
    if (k->copies > DISKS_COPIES_MAX)
        return err_set(eb, ERR_BAD_REQUEST, "%u copies, at most %u", k->copies,
                       DISKS_COPIES_MAX);
    w = writer_new(ds, k, class);
    rc = begin_on_all(w, size, eb);
    if (rc != ERR_OK)
        disks_write_abort(&w);
    *out = w;
    return rc;
}

/* ---- bytes ---- */

/* Takes a disk out of this write and ends its writer. */
static void
writer_drop(struct disks_writer *w, unsigned i)
{
    struct replica *r = writer_replica(w, i);

    assert(i < w->count);
    r->ops->write_abort(&w->to[i]);
    replica_leave(r);
    w->slot[i] = w->slot[w->count - 1];
    w->to[i] = w->to[w->count - 1];
    w->to[--w->count] = NULL;
}

enum err
disks_write(struct disks_writer *w, const void *data, size_t len, struct errbuf *eb)
{
    enum err rc = writer_replica(w, 0)->ops->write(w->to[0], data, len, eb);

    assert(w->count > 0);
    assert(w->to[0] != NULL);
    for (unsigned i = 1; rc == ERR_OK && i < w->count; i++) {
        enum err copy = writer_replica(w, i)->ops->write(w->to[i], data, len, eb);

        if (copy == ERR_OK)
            continue;
        if (w->count - 1 < w->least)
            return copy;
        writer_drop(w, i--);
    }
    return rc;
}

size_t
disks_write_room(struct disks_writer *w, void **at)
{
    assert(w->count > 0);

    *at = NULL;
    return w->placed == 1 && w->count == 1
               ? store_write_room(replica_local_writer(w->to[0]), at)
               : 0;
}

void
disks_write_filled(struct disks_writer *w, size_t len)
{
    assert(w->placed == 1);

    store_write_filled(replica_local_writer(w->to[0]), len);
}

enum err
disks_write_flush(struct disks_writer *w, struct errbuf *eb)
{
    return store_write_flush(replica_local_writer(w->to[0]), eb);
}

bool
disks_write_lend(struct disks_writer *w, struct span body)
{
    bool one = w->placed == 1 && w->count == 1 && body.len <= STORE_INLINE_MAX;

    if (one)
        store_write_zero_copy(replica_local_writer(w->to[0]), body);
    return one;
}

enum err
disks_write_peek(struct disks_writer *w, uint64_t offset, void *buf, size_t len,
                 size_t *n, struct errbuf *eb)
{
    assert(w->count > 0);

    return store_write_peek(replica_local_writer(w->to[0]), offset, buf, len, n, eb);
}

void
disks_write_abort(struct disks_writer **wp)
{
    struct disks_writer *w = *wp;

    *wp = NULL;
    if (w == NULL)
        return;
    while (w->count > 0)
        writer_drop(w, w->count - 1);
    generation_leave(w->disks, w->generation);
    free(w);
}

/* ---- the end ---- */

/* Marks the set as not converged in place of a missing copy: the next pass makes it. */
static void
copy_is_missing(struct disks *ds, const struct disks_key *k, unsigned slot)
{
    struct errbuf eb = {{0}};

    assert(slot < atomic_load(&ds->slot_count));
    if (set_diverge(ds, &eb) != ERR_OK)
        LOG(LOG_WARN, "disks.list", eb.text, L_U64("slot", slot));
    repair_later(ds, k, slot);
}

static void
abort_prepared_copy(struct disks_writer *w, unsigned i, const struct content_id *content)
{
    struct errbuf eb = {{0}};
    struct replica *d = writer_replica(w, i);

    assert(i < w->count);
    if (replica_abort_prepared(d, &w->key.at, content, &eb) == ERR_OK)
        return;
    LOG(LOG_WARN, "disks.abort", eb.text, L_SPAN("key", w->key.at.key));
    if (set_diverge(w->disks, &eb) != ERR_OK) /* a pass repairs it */
        LOG(LOG_WARN, "disks.list", eb.text, L_SPAN("key", w->key.at.key));
}

void
writer_remove_copy(struct disks_writer *w, unsigned i, const struct content_id *content)
{
    assert(i > 0);

    abort_prepared_copy(w, i, content);
    writer_drop(w, i);
}

enum err
prepare_copies(struct disks_writer *w, const struct content_id *content,
               const struct object_meta *meta, struct errbuf *eb)
{
    assert(w->count > 0);
    assert(w->count <= w->placed);

    for (unsigned i = 1; i < w->count; i++) {
        enum err rc;

        POINT(COPY_WRITTEN);
        rc = writer_replica(w, i)->ops->prepare(&w->to[i], meta, NULL, eb);
        POINT(COPY_PREPARED);
        if (rc == ERR_OK)
            continue;
        if (w->count - 1 < w->least)
            return rc;
        writer_remove_copy(w, i--, content);
    }
    return ERR_OK;
}

void
abort_copies(struct disks_writer *w, const struct content_id *content)
{
    for (unsigned i = 1; i < w->count; i++)
        if (w->to[i] == NULL) /* its prepare was begun */
            abort_prepared_copy(w, i, content);
}

void
commit_copies(struct disks_writer *w, const struct content_id *content,
              const struct version *v)
{
    assert(v->epoch != 0);
    assert(w->count > 0);

    for (unsigned i = 1; i < w->count; i++) {
        struct errbuf eb = {{0}};
        struct replica *d = writer_replica(w, i);

        if (replica_commit_prepared(d, &w->key.at, content, v, &eb) == ERR_OK) {
            POINT(COPY_RESOLVED);
            continue;
        }
        LOG(LOG_WARN, "disks.commit", eb.text, L_SPAN("key", w->key.at.key));
        copy_is_missing(w->disks, &w->key, w->slot[i]);
    }
    if (w->count < w->placed)
        copy_is_missing(w->disks, &w->key, w->slot[0]);
}

/* Drops a cached key on all other disks. A begin or an end of an in-doubt write makes their
 * entries obsolete. */
static enum err
purge_others(struct disks *ds, const struct disks_key *k, unsigned keep,
             struct errbuf *eb)
{
    uint8_t all[DISKS_MAX];
    unsigned count = places_all(ds, all);

    assert(keep < atomic_load(&ds->slot_count));
    for (unsigned i = 0; i < count; i++) {
        bool dropped;
        enum err rc = all[i] != keep ? cached_drop(ds, k, all[i], &dropped, eb) : ERR_OK;

        if (rc != ERR_OK)
            return rc;
    }
    return ERR_OK;
}

/* The writer's first replica checks preconditions, even if it no longer owns the key: it first
 * gets a copy of the key's present state. */
enum err
owner_make_current(struct disks_writer *w, const struct store_condition *c,
                   struct errbuf *eb)
{
    uint64_t targets = 0;
    struct entry entry;

    assert(w->count > 0);
    if (w->class == STORE_CACHED)
        return purge_others(w->disks, &w->key, w->slot[0], eb);
    /* The other disks need the older versions, too: this write hides or replaces them there. */
    if (c == NULL && (lookup_all(w->disks, &w->key, &entry, NULL) != ERR_OK ||
                      (entry.flags & ENTRY_HISTORY) == 0))
        return ERR_OK;
    for (unsigned i = 0; i < w->count; i++)
        targets |= (uint64_t)1 << w->slot[i];
    return copy_to_owner(w->disks, &w->key, w->slot[0], targets, eb);
}

static enum err
commit_on_all(struct disks_writer *w, const struct object_meta *meta,
              const struct store_condition *c, struct entry *out, struct errbuf *eb)
{
    struct content_id content = *writer_content(w);
    struct key_change change = key_change_begin(w->disks, &w->key);
    enum err rc = bucket_takes(w->disks, w->key.at.bucket, eb);

    if (rc == ERR_OK && change.locked)
        rc = owner_make_current(w, c, eb);
    if (rc == ERR_OK)
        rc = prepare_copies(w, &content, meta, eb);
    if (rc == ERR_OK)
        rc = writer_replica(w, 0)->ops->commit(&w->to[0], meta, c, out, eb);
    if (rc == ERR_OK) {
        POINT(COPY_OWNED);
        assert(w->count >= w->least);
        out->place.disk = w->slot[0];
        commit_copies(w, &content, &out->version);
    } else {
        abort_copies(w, &content);
    }
    key_change_end(&change);
    return rc;
}

enum err
disks_commit(struct disks_writer **wp, const struct object_meta *meta,
             const struct store_condition *c, struct entry *out, struct errbuf *eb)
{
    struct entry entry;
    enum err rc = commit_on_all(*wp, meta, c, out != NULL ? out : &entry, eb);

    disks_write_abort(wp);
    return rc;
}

/* ---- delete ---- */

/* Deletes from every other replica that has, or could have, an older version. Call after the
 * owner's delete. */
static bool
delete_on_others(struct disks *ds, const struct disks_key *k, const struct places *p,
                 const struct store_delete_options *o)
{
    bool all = true;

    assert(o->version != NULL);
    for (unsigned i = 1; i < p->count; i++) {
        struct replica *d = replica_enter(ds, p->at[i]);
        struct store_deleted done = {0};
        struct errbuf eb = {{0}};

        if (replica_delete_with(d, &k->at, o, &done, &eb) != ERR_OK) {
            LOG(LOG_WARN, "disks.delete", eb.text, L_SPAN("key", k->at.key));
            all = false;
        }
        replica_leave(d);
    }
    return all;
}

static void
end_tombstones(struct disks *ds, const struct disks_key *k, const struct places *p,
               const struct version *v)
{
    assert(v->epoch != 0);

    for (unsigned i = 0; i < p->count; i++) {
        struct replica *d = replica_enter(ds, p->at[i]);
        struct errbuf eb = {{0}};

        if (d == NULL)
            continue;
        if (replica_tombstone_drop(d, &k->at, v, &eb) != ERR_OK)
            LOG(LOG_WARN, "disks.tombstone", eb.text, L_SPAN("key", k->at.key));
        replica_leave(d);
    }
}

/* Deletes a key on all disks. The owner checks the condition and assigns the version. A
 * tombstone stays wherever the key was until every replica has the delete.
 *
 * The owner keeps one too if there are several disks. Its log may fail while writing this very
 * record; then its objects are copied to another disk. When it returns, the delete must have
 * happened on all disks or on none. Without a tombstone the copy would be visible, be copied
 * back to the owner behind the delete in its log, and vanish at the next replay. */
static enum err
delete_everywhere(struct disks *ds, const struct disks_key *k, struct places *p,
                  bool guarded, const struct store_condition *c, bool *existed,
                  struct errbuf *eb)
{
    bool out = any_replica_unreachable(ds), sole = is_sole(ds);
    struct store_delete_options o = {.condition = c,
                                     .keep_tombstone = !sole,
                                     .always = !sole && (guarded || out),
                                     .now_ms = (int64_t)(rt_wall_ns() / 1000000u)};
    struct store_deleted done = {0};
    struct replica *owner = replica_enter(ds, p->at[0]);
    enum err rc = replica_delete_with(owner, &k->at, &o, &done, eb);

    assert(p->placed > 0);
    assert(p->placed <= p->count);
    replica_leave(owner);
    if (rc != ERR_OK)
        return rc;
    if (!guarded)
        *existed = done.existed;
    if (sole ||
        done.version.epoch == 0) /* 0: there was nothing, and nothing was written */
        return ERR_OK;
    if (!guarded)
        p->count = p->placed; /* the other disks have nothing of the key */
    o.condition = NULL;
    o.always = false;
    o.version = &done.version;
    if (!delete_on_others(ds, k, p, &o))
        return set_diverge(ds, eb); /* the tombstone stays for the next pass */
    if (!out)
        end_tombstones(ds, k, p, &done.version);
    return ERR_OK;
}

static enum err
delete_native(struct disks *ds, const struct disks_key *k,
              const struct store_condition *c, bool *existed, struct errbuf *eb)
{
    struct key_change change = key_change_begin(ds, k);
    struct entry entry;
    struct places p;
    enum err rc;

    places_of_change(ds, k, change.locked, &p);
    rc = p.placed > 0 ? ERR_OK : err_unreachable(eb);
    if (rc == ERR_OK && change.locked)
        *existed = lookup_all(ds, k, &entry, NULL) == ERR_OK &&
                   (entry.flags & ENTRY_TOMBSTONE) == 0;
    if (rc == ERR_OK && change.locked && c != NULL)
        rc = copy_to_owner(ds, k, p.at[0], 0, eb);
    if (rc == ERR_OK)
        rc = delete_everywhere(ds, k, &p, change.locked, c, existed, eb);
    key_change_end(&change);
    return rc;
}

/* ---- the cached class: one replica, on a disk of this node ---- */

/* A change in progress of a cached key, which lies on one disk. */
struct cached_change {
    struct key_change change;
    struct replica *at; /* entered; NULL after an error */
};

/* Begins the change: first drops what other disks have of the key, durably. cached_end() ends it
 * in any case. */
static enum err
cached_begin(struct disks *ds, const struct disks_key *k, struct cached_change *out,
             struct errbuf *eb)
{
    struct disks_key one = *k;
    struct places p;
    enum err rc = ERR_OK;

    out->change = key_change_begin(ds, k);
    out->at = NULL;
    one.copies = 1;
    places_of(ds, &one, &p);
    if (p.placed > 0 && out->change.locked)
        rc = purge_others(ds, k, p.at[0], eb);
    if (rc != ERR_OK)
        return rc;
    out->at = p.placed > 0 ? replica_enter(ds, p.at[0]) : NULL;
    return out->at != NULL ? ERR_OK : err_unreachable(eb);
}

static void
cached_end(struct cached_change *c)
{
    replica_leave(c->at);
    key_change_end(&c->change);
}

enum err
disks_in_doubt_begin(struct disks *ds, const struct disks_key *k, struct errbuf *eb)
{
    struct cached_change c;
    enum err rc = cached_begin(ds, k, &c, eb);

    if (rc == ERR_OK)
        rc = store_in_doubt_begin(c.at->store, &k->at, eb);
    cached_end(&c);
    return rc;
}

enum err
disks_in_doubt_clear(struct disks *ds, const struct disks_key *k, struct errbuf *eb)
{
    struct cached_change c;
    enum err rc = cached_begin(ds, k, &c, eb);

    if (rc == ERR_OK)
        rc = store_in_doubt_clear(c.at->store, &k->at, eb);
    cached_end(&c);
    return rc;
}

uint32_t
disks_in_doubt_count(struct disks *ds, const struct disks_key *k,
                     const struct entry *entry)
{
    struct replica *r = replica_enter(ds, entry->place.disk);
    uint32_t count = r != NULL ? store_in_doubt_count(r->store, &k->at) : 0;

    replica_leave(r);
    return count;
}

enum err
disks_in_doubt_resolve(struct disks *ds, const struct disks_key *k,
                       const struct entry *entry, uint32_t count, struct errbuf *eb)
{
    struct cached_change c;
    enum err rc = cached_begin(ds, k, &c, eb);

    if (rc == ERR_OK && replica_slot_of(c.at) != entry->place.disk)
        rc = err_set(eb, ERR_PRECONDITION, "the key has another owner");
    if (rc == ERR_OK)
        rc = store_in_doubt_resolve(c.at->store, &k->at, &entry->version, count, eb);
    cached_end(&c);
    return rc;
}

static enum err
delete_cached(struct disks *ds, const struct disks_key *k,
              const struct store_condition *condition, bool *existed, struct errbuf *eb)
{
    struct cached_change c;
    enum err rc = cached_begin(ds, k, &c, eb);

    if (rc == ERR_OK)
        rc = store_delete(c.at->store, &k->at, STORE_CACHED, condition, existed, eb);
    cached_end(&c);
    return rc;
}

enum err
disks_delete(struct disks *ds, const struct disks_key *k, enum store_class class,
             const struct store_condition *c, bool *existed, struct errbuf *eb)
{
    *existed = false;
    return class == STORE_CACHED ? delete_cached(ds, k, c, existed, eb)
                                 : delete_native(ds, k, c, existed, eb);
}
