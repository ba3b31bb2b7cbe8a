/* Bodies on their way in, and what makes and ends objects: on one disk, or on several as one. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "disks/move.h"
#include "disks/write.h"
#include "rt/point.h"
#include "rt/small.h"
#include "rt/time.h"

/* ---- begin ---- */

struct disks_writer *
writer_new(struct disks *ds, const struct disks_key *k, enum disk_class class)
{
    size_t birth = k->at.birth_name.len, key = k->at.key.len;
    struct disks_writer *w = small_get(sizeof *w + birth + key);

    w->disks = ds;
    w->class = class;
    w->generation = generation_enter(ds);
    if (birth > 0)
        memcpy(w->names, k->at.birth_name.at, birth);
    if (key > 0)
        memcpy(w->names + birth, k->at.key.at, key);
    w->key = *k;
    w->key.at.birth_name = (struct span){w->names, birth};
    w->key.at.key = (struct span){w->names + birth, key};
    return w;
}

/* So many disks must take a write. */
unsigned
least_of(const struct disks_key *k)
{
    unsigned copies = MAX(k->copies, 1u);

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

/* One more disk has the body under way. */
void
writer_joins(struct disks_writer *w, unsigned slot, struct disk_writer *to)
{
    w->slot[w->count] = (uint8_t)slot;
    w->to[w->count++] = to;
}

static enum err
begin_on(struct disks_writer *w, unsigned i, uint64_t size, struct errbuf *eb)
{
    struct disk *d = slot_enter(w->disks, i);
    struct disk_writer *to = NULL;
    enum err rc;

    if (d == NULL)
        return unheard(eb);
    if (w->count == 0)
        rc = disk_write_begin(d, &w->key.at, w->class, size, &to, eb);
    else
        rc = disk_write_begin_as(d, &w->key.at, size, disk_writer_content(w->to[0]), &to,
                                 eb);
    if (rc == ERR_OK)
        writer_joins(w, i, to); /* stays in the slot until writer_drop() */
    else
        slot_leave(w->disks, i);
    return rc;
}

static enum err
begin_on_all(struct disks_writer *w, uint64_t size, struct errbuf *eb)
{
    struct places p;
    enum err rc = ERR_OK;

    places_of_change(w->disks, &w->key,
                     w->class == DISK_NATIVE && atomic_load(&w->disks->guarded), &p);
    w->least = least_of(&w->key);
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
disks_write_begin(struct disks *ds, const struct disks_key *k, enum disk_class class,
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

/* This disk is out of this write; its writer is ended. */
static void
writer_drop(struct disks_writer *w, unsigned i)
{
    disk_write_abort(&w->to[i]);
    slot_leave(w->disks, w->slot[i]);
    w->slot[i] = w->slot[w->count - 1];
    w->to[i] = w->to[w->count - 1];
    w->to[--w->count] = NULL;
}

enum err
disks_write(struct disks_writer *w, const void *data, size_t len, struct errbuf *eb)
{
    enum err rc = disk_write(w->to[0], data, len, eb);

    for (unsigned i = 1; rc == ERR_OK && i < w->count; i++) {
        enum err copy = disk_write(w->to[i], data, len, eb);

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
    *at = NULL;
    return w->placed == 1 && w->count == 1 ? disk_write_room(w->to[0], at) : 0;
}

void
disks_write_filled(struct disks_writer *w, size_t len)
{
    disk_write_filled(w->to[0], len);
}

enum err
disks_write_flush(struct disks_writer *w, struct errbuf *eb)
{
    return disk_write_flush(w->to[0], eb);
}

bool
disks_write_lend(struct disks_writer *w, struct span body)
{
    bool one = w->placed == 1 && w->count == 1 && body.len <= DISK_INLINE_MAX;

    if (one)
        disk_write_lend(w->to[0], body);
    return one;
}

enum err
disks_write_peek(struct disks_writer *w, uint64_t offset, void *buf, size_t len,
                 size_t *n, struct errbuf *eb)
{
    return disk_write_peek(w->to[0], offset, buf, len, n, eb);
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
    small_put(w, sizeof *w + w->key.at.birth_name.len + w->key.at.key.len);
}

/* ---- the end ---- */

/* What stands in for "this copy was not made": the next pass over the disks makes it. */
static void
copy_is_missing(struct disks *ds, const struct disks_key *k, unsigned slot)
{
    struct errbuf eb = {{0}};

    if (set_unsettle(ds, &eb) != ERR_OK)
        LOG(LOG_WARN, "disks.list", eb.text, L_U64("slot", slot));
    repair_later(ds, k, slot);
}

static void
give_up_one(struct disks_writer *w, unsigned i, const struct content_id *content)
{
    struct errbuf eb = {{0}};
    struct disk *d = w->disks->slots[w->slot[i]].disk;

    if (disk_give_up(d, &w->key.at, content, &eb) == ERR_OK)
        return;
    LOG(LOG_WARN, "disks.give_up", eb.text, L_SPAN("key", w->key.at.key));
    if (set_unsettle(w->disks, &eb) != ERR_OK) /* a pass does it */
        LOG(LOG_WARN, "disks.list", eb.text, L_SPAN("key", w->key.at.key));
}

void
writer_leaves(struct disks_writer *w, unsigned i, const struct content_id *content)
{
    give_up_one(w, i, content);
    writer_drop(w, i);
}

enum err
prepare_copies(struct disks_writer *w, const struct content_id *content,
               const struct object_meta *meta, struct errbuf *eb)
{
    for (unsigned i = 1; i < w->count; i++) {
        enum err rc;

        POINT(COPY_WRITTEN);
        rc = disk_prepare(&w->to[i], meta, eb);
        POINT(COPY_PREPARED);
        if (rc == ERR_OK)
            continue;
        if (w->count - 1 < w->least)
            return rc;
        writer_leaves(w, i--, content);
    }
    return ERR_OK;
}

void
give_up_copies(struct disks_writer *w, const struct content_id *content)
{
    for (unsigned i = 1; i < w->count; i++)
        if (w->to[i] == NULL) /* its prepare was begun */
            give_up_one(w, i, content);
}

void
decide_copies(struct disks_writer *w, const struct content_id *content,
              const struct version *v)
{
    for (unsigned i = 1; i < w->count; i++) {
        struct errbuf eb = {{0}};
        struct disk *d = w->disks->slots[w->slot[i]].disk;

        if (disk_decide(d, &w->key.at, content, v, &eb) == ERR_OK) {
            POINT(COPY_DECIDED);
            continue;
        }
        LOG(LOG_WARN, "disks.decide", eb.text, L_SPAN("key", w->key.at.key));
        copy_is_missing(w->disks, &w->key, w->slot[i]);
    }
    if (w->count < w->placed)
        copy_is_missing(w->disks, &w->key, w->slot[0]);
}

/* In doubt, or no longer: what other disks have of a cached key is old from here on. */
static enum err
purge_others(struct disks *ds, const struct disks_key *k, unsigned keep,
             struct errbuf *eb)
{
    uint8_t all[DISKS_MAX];
    unsigned count = places_all(ds, all);

    for (unsigned i = 0; i < count; i++) {
        struct disk *d = all[i] != keep ? slot_enter(ds, all[i]) : NULL;
        struct row row;
        bool existed;
        enum err rc;

        if (d == NULL)
            continue;
        rc = disk_lookup(d, &k->at, &row, eb);
        if (rc == ERR_OK && (row.flags & ROW_CACHED) != 0)
            rc = disk_delete(d, &k->at, DISK_CACHED, NULL, &existed, eb);
        slot_leave(ds, all[i]);
        if (rc != ERR_OK && rc != ERR_NOT_FOUND)
            return rc;
    }
    return ERR_OK;
}

/* The writer's first disk judges, whether or not it is the key's owner by now: what the key is stands there first. */
enum err
ready_to_judge(struct disks_writer *w, const struct disk_condition *c, struct errbuf *eb)
{
    uint64_t targets = 0;
    struct row row;

    if (w->class == DISK_CACHED)
        return purge_others(w->disks, &w->key, w->slot[0], eb);
    /* Older versions are hidden, or replaced, where they stand: they must be there too. */
    if (c == NULL && (lookup_all(w->disks, &w->key, &row, NULL) != ERR_OK ||
                      (row.flags & ROW_HISTORY) == 0))
        return ERR_OK;
    for (unsigned i = 0; i < w->count; i++)
        targets |= (uint64_t)1 << w->slot[i];
    return bring_home(w->disks, &w->key, w->slot[0], targets, eb);
}

static enum err
commit_on_all(struct disks_writer *w, const struct object_meta *meta,
              const struct disk_condition *c, struct row *out, struct errbuf *eb)
{
    struct content_id content = *disk_writer_content(w->to[0]);
    uint32_t phase;
    bool locked = change_begin(w->disks, &phase);
    uint64_t hash = locked ? place_hash(w->key.at.birth_name, w->key.at.key) : 0;
    enum err rc = bucket_takes(w->disks, w->key.at.bucket, eb);

    if (locked)
        keylock_take(w->disks->keylocks, hash);
    if (rc == ERR_OK && locked)
        rc = ready_to_judge(w, c, eb);
    if (rc == ERR_OK)
        rc = prepare_copies(w, &content, meta, eb);
    if (rc == ERR_OK)
        rc = disk_commit(&w->to[0], meta, c, out, eb);
    if (rc == ERR_OK) {
        POINT(COPY_OWNED);
        out->disk = w->slot[0];
        decide_copies(w, &content, &out->version);
    } else {
        give_up_copies(w, &content);
    }
    if (locked)
        keylock_release(w->disks->keylocks, hash);
    change_end(w->disks, phase);
    return rc;
}

enum err
disks_commit(struct disks_writer **wp, const struct object_meta *meta,
             const struct disk_condition *c, struct row *out, struct errbuf *eb)
{
    struct row row;
    enum err rc = commit_on_all(*wp, meta, c, out != NULL ? out : &row, eb);

    disks_write_abort(wp);
    return rc;
}

/* ---- delete ---- */

/* After the owner: everybody else who has, or could have, an older version. */
static bool
delete_on_others(struct disks *ds, const struct disks_key *k, const struct places *p,
                 const struct disk_delete_options *o)
{
    bool all = true;

    for (unsigned i = 1; i < p->count; i++) {
        struct disk *d = slot_enter(ds, p->at[i]);
        struct disk_deleted done = {0};
        struct errbuf eb = {{0}};

        if (d == NULL || disk_delete_with(d, &k->at, o, &done, &eb) != ERR_OK) {
            LOG(LOG_WARN, "disks.delete", eb.text, L_SPAN("key", k->at.key));
            all = false;
        }
        if (d != NULL)
            slot_leave(ds, p->at[i]);
    }
    return all;
}

static void
end_tombstones(struct disks *ds, const struct disks_key *k, const struct places *p,
               const struct version *v)
{
    for (unsigned i = 0; i < p->count; i++) {
        struct disk *d = slot_enter(ds, p->at[i]);
        struct errbuf eb = {{0}};

        if (d == NULL)
            continue;
        if (disk_tombstone_end(d, &k->at, v, &eb) != ERR_OK)
            LOG(LOG_WARN, "disks.tombstone", eb.text, L_SPAN("key", k->at.key));
        slot_leave(ds, p->at[i]);
    }
}

/* The owner judges and gives the version; a tombstone stays wherever the key was until all have heard of it. On the owner
 * always: its log may fail over this very record, and what it held is copied to another disk then. When it comes back, the
 * delete has happened for all of them or for none: without a tombstone the copy would be seen, brought home behind the
 * delete in the log, and be gone at the next replay. */
static enum err
delete_everywhere(struct disks *ds, const struct disks_key *k, struct places *p,
                  bool guarded, const struct disk_condition *c, bool *existed,
                  struct errbuf *eb)
{
    bool out = somebody_is_deaf(ds);
    struct disk_delete_options o = {.condition = c,
                                    .keep_tombstone = true,
                                    .always = guarded || out,
                                    .now_ms = (int64_t)(rt_wall_ns() / 1000000u)};
    struct disk_deleted done = {0};
    struct disk *d = slot_enter(ds, p->at[0]);
    enum err rc;

    if (d == NULL)
        return unheard(eb);
    rc = disk_delete_with(d, &k->at, &o, &done, eb);
    slot_leave(ds, p->at[0]);
    if (rc != ERR_OK)
        return rc;
    if (!guarded)
        *existed = done.existed;
    if (done.version.epoch == 0) /* nothing was there, and nothing was written */
        return ERR_OK;
    if (!guarded)
        p->count = p->placed; /* the others hold nothing of it */
    o.condition = NULL;
    o.always = false;
    o.version = &done.version;
    if (!delete_on_others(ds, k, p, &o))
        return set_unsettle(ds, eb); /* the tombstone stays for the next pass */
    if (!out)
        end_tombstones(ds, k, p, &done.version);
    return ERR_OK;
}

static enum err
delete_native(struct disks *ds, const struct disks_key *k, const struct disk_condition *c,
              bool *existed, struct errbuf *eb)
{
    uint64_t hash = place_hash(k->at.birth_name, k->at.key);
    struct row row;
    struct places p;
    uint32_t phase;
    bool locked = change_begin(ds, &phase);
    enum err rc = ERR_OK;

    if (locked)
        keylock_take(ds->keylocks, hash);
    places_of_change(ds, k, locked, &p);
    if (p.placed == 0)
        rc = unheard(eb);
    if (rc == ERR_OK && locked)
        *existed =
            lookup_all(ds, k, &row, NULL) == ERR_OK && (row.flags & ROW_TOMBSTONE) == 0;
    if (rc == ERR_OK && locked && c != NULL)
        rc = bring_home(ds, k, p.at[0], 0, eb);
    if (rc == ERR_OK)
        rc = delete_everywhere(ds, k, &p, locked, c, existed, eb);
    if (locked)
        keylock_release(ds->keylocks, hash);
    change_end(ds, phase);
    return rc;
}

/* ---- cached ---- */

typedef enum err cached_fn(struct disk *d, const struct disk_key *k, void *arg,
                           struct errbuf *eb);

/* A cached key lies on one disk; what others have of it from before goes first, durably. */
static enum err
on_cached(struct disks *ds, const struct disks_key *k, cached_fn *fn, void *arg,
          struct errbuf *eb)
{
    struct disks_key one = *k;
    struct disk *d = only_disk(ds);
    struct places p;
    uint32_t phase;
    bool locked = change_begin(ds, &phase);
    uint64_t hash = place_hash(k->at.birth_name, k->at.key);
    enum err rc = ERR_OK;

    if (d != NULL) {
        rc = fn(d, &k->at, arg, eb);
        change_end(ds, phase);
        return rc;
    }
    one.copies = 1;
    if (locked)
        keylock_take(ds->keylocks, hash);
    places_of(ds, &one, &p);
    if (p.placed > 0 && locked)
        rc = purge_others(ds, k, p.at[0], eb);
    d = p.placed > 0 && rc == ERR_OK ? slot_enter(ds, p.at[0]) : NULL;
    if (d != NULL) {
        rc = fn(d, &k->at, arg, eb);
        slot_leave(ds, p.at[0]);
    } else if (rc == ERR_OK) {
        rc = unheard(eb);
    }
    if (locked)
        keylock_release(ds->keylocks, hash);
    change_end(ds, phase);
    return rc;
}

struct cached_delete {
    const struct disk_condition *condition;
    bool *existed;
};

static enum err
cached_delete(struct disk *d, const struct disk_key *k, void *arg, struct errbuf *eb)
{
    struct cached_delete *x = arg;

    return disk_delete(d, k, DISK_CACHED, x->condition, x->existed, eb);
}

static enum err
cached_doubt(struct disk *d, const struct disk_key *k, void *arg, struct errbuf *eb)
{
    (void)arg;
    return disk_doubt(d, k, eb);
}

static enum err
cached_doubt_clear(struct disk *d, const struct disk_key *k, void *arg, struct errbuf *eb)
{
    (void)arg;
    return disk_doubt_clear(d, k, eb);
}

enum err
disks_doubt(struct disks *ds, const struct disks_key *k, struct errbuf *eb)
{
    return on_cached(ds, k, cached_doubt, NULL, eb);
}

enum err
disks_doubt_clear(struct disks *ds, const struct disks_key *k, struct errbuf *eb)
{
    return on_cached(ds, k, cached_doubt_clear, NULL, eb);
}

uint32_t
disks_doubts(struct disks *ds, const struct disks_key *k, const struct row *row)
{
    struct disk *d = slot_enter(ds, row->disk);
    uint32_t doubts = d != NULL ? disk_doubts(d, &k->at) : 0;

    if (d != NULL)
        slot_leave(ds, row->disk);
    return doubts;
}

struct cached_settle {
    const struct row *row;
    uint32_t doubts;
};

static enum err
cached_settle(struct disk *d, const struct disk_key *k, void *arg, struct errbuf *eb)
{
    struct cached_settle *x = arg;

    return disk_doubt_settle(d, k, &x->row->version, x->doubts, eb);
}

enum err
disks_doubt_settle(struct disks *ds, const struct disks_key *k, const struct row *row,
                   uint32_t doubts, struct errbuf *eb)
{
    struct cached_settle x = {row, doubts};
    struct disks_key one = *k;
    struct places p;

    one.copies = 1;
    places_of(ds, &one, &p);
    if (only_disk(ds) == NULL && (p.placed == 0 || p.at[0] != row->disk))
        return err_set(eb, ERR_PRECONDITION, "the key has another owner");
    return on_cached(ds, k, cached_settle, &x, eb);
}

enum err
disks_delete(struct disks *ds, const struct disks_key *k, enum disk_class class,
             const struct disk_condition *c, bool *existed, struct errbuf *eb)
{
    struct disk *d = only_disk(ds);
    uint32_t phase;
    enum err rc;

    *existed = false;
    if (class == DISK_CACHED)
        return on_cached(ds, k, cached_delete, &(struct cached_delete){c, existed}, eb);
    if (d == NULL)
        return delete_native(ds, k, c, existed, eb);
    (void)change_begin(ds, &phase);
    rc = disk_delete(d, &k->at, class, c, existed, eb);
    change_end(ds, phase);
    return rc;
}
