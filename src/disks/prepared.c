/* Resolves in-doubt versions: prepared here, outcome unknown. It reads the state of the other
 * replicas:
 *
 *     a replica has it, as a version of the key:   it was committed, as that version
 *     its coordinator is out:                      it may have been acknowledged: commit it in its coordinator's order
 *     no replica has it, and all have answered:    it was rejected, or something newer has replaced it: abort it
 *     a replica that may know gave no answer:      it stays, until that one answers, comes back, or is removed
 *
 * A version that another node coordinates is committed where a replica here has it as a version of
 * the key. Otherwise it stays, past any start, until that node or a new owner of the key ends it.
 */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "disks/history.h"
#include "disks/rebalancer.h"

#define PREPARED_PAGE 256u

#ifdef FB_TEST_HOOKS
uint64_t prepared_unreachable;
#else
static const uint64_t prepared_unreachable = 0;
#endif

/* Returns the immutable name of a bucket, which placement hashes. */
bool
bucket_of(struct disks *ds, uint64_t id, struct disks_bucket *out)
{
    return ds->control.next_bucket != NULL &&
           ds->control.next_bucket(ds->control.buckets_arg, id - 1, out) && out->id == id;
}

/* An in-doubt version that is being resolved. */
struct ending {
    struct disks *ds;
    const struct store_prepared *what;
    unsigned slot;      /* the slot on which it is prepared */
    struct replica *on; /* the disk of that slot */
    uint64_t going;     /* bits of slots that are about to be removed */
    bool known;         /* its bucket is known; else `key` has no immutable name */
    bool leftover;      /* from a start before this one */
    bool foreign; /* another node coordinates it: only that node's outcome ends it here */
    struct disks_key key;
    struct disks_bucket bucket; /* owned */
};

/* The map epoch under which it was prepared: below that of this start, no write in progress. */
static uint64_t
prepared_epoch(const struct store_prepared *u)
{
    return u->coordinator.node != 0 ? u->coordinator.epoch : u->prepared.epoch;
}

static struct ending
ending_of(struct disks *ds, unsigned slot, const struct store_prepared *u)
{
    struct ending e = {.ds = ds,
                       .what = u,
                       .slot = slot,
                       .on = &ds->slots[slot].at,
                       .leftover = prepared_epoch(u) < ds->control.first_map_epoch,
                       .foreign = u->coordinator.node != 0 &&
                                  u->coordinator.node != ds->control.o.node,
                       .key.at = {.bucket = u->bucket, .key = u->key}};

    assert(slot < atomic_load(&ds->slot_count));
    assert(ds->slots[slot].at.store != NULL);
    e.known = bucket_of(ds, u->bucket, &e.bucket);
    e.key.at.immutable_name = e.bucket.immutable_name;
    return e;
}

/* True if the disk of this slot was present when the version was prepared. */
static bool
was_there(const struct ending *e, const struct replica_slot *s)
{
    assert(s->disks == e->ds);

    return e->leftover || e->what->prepared.counter <= s->went_at;
}

/* True if a disk that is now out ordered the writes of this key then. If that disk reported
 * before it went out that it has no such version, it rejected the write. */
static bool
coordinator_is_out(const struct ending *e, uint64_t said_no)
{
    struct disks *ds = e->ds;
    struct place_disk all[DISKS_MAX];
    unsigned count = atomic_load(&ds->slot_count);
    uint8_t first;

    if (!e->known)
        return false;
    for (unsigned i = 0; i < count; i++) {
        const struct replica_slot *s = &ds->slots[i];
        enum replica_state state = replica_state(s);

        all[i] = s->place;
        if (state != REPLICA_ACTIVE && (state != REPLICA_OUT || !was_there(e, s)))
            all[i].weight = 0;
    }
    return place_order(place_hash(e->key.at.immutable_name, e->key.at.key), all, count,
                       &first, 1) == 1 &&
           replica_state(&ds->slots[first]) == REPLICA_OUT && (said_no >> first & 1) == 0;
}

/* ---- answers of the other replicas ---- */

struct said {
    bool decided;
    struct version as; /* its birth; a pass brings later changes */
    uint64_t away;     /* bits of slots that may know, and are out */
    uint64_t dumb;     /* bits of slots in service that gave no answer */
    uint64_t no;       /* bits of slots in service without the version */
    enum err rc;       /* error of the first such slot */
};

/* Finds the version with this content on one disk, current or older. */
static enum err
version_with(struct replica *d, const struct ending *e, struct version *born,
             struct errbuf *eb)
{
    const struct content_id *content = &e->what->content;
    struct entry entry;
    enum err rc = replica_lookup_any(d, &e->key.at, &entry, eb);

    if (rc != ERR_OK)
        return rc;
    if (memcmp(&entry.content, content, sizeof *content) != 0)
        return (entry.flags & ENTRY_HISTORY) != 0
                   ? history_find(d, &e->key.at, content, born, eb)
                   : ERR_NOT_FOUND;
    *born = entry_born(&entry);
    return ERR_OK;
}

static void
prepared_ask_one(const struct ending *e, unsigned slot, struct said *out,
                 struct errbuf *eb)
{
    struct errbuf why = {{0}};
    struct replica *d =
        (prepared_unreachable >> slot & 1) == 0 ? replica_enter(e->ds, slot) : NULL;
    enum err rc = d != NULL ? version_with(d, e, &out->as, &why) : err_unreachable(&why);

    assert(slot < DISKS_MAX);
    assert(!out->decided);
    replica_leave(d);
    out->decided = rc == ERR_OK;
    out->no |= (uint64_t)(rc == ERR_NOT_FOUND) << slot;
    if (rc == ERR_OK || rc == ERR_NOT_FOUND)
        return;
    if (out->dumb == 0) {
        out->rc = rc;
        *eb = why;
    }
    out->dumb |= (uint64_t)1 << slot;
}

static struct said
prepared_ask_all(const struct ending *e, struct errbuf *eb)
{
    struct said said = {.rc = ERR_OK};
    uint8_t all[DISKS_MAX];
    unsigned n = places_all(e->ds, all);

    for (unsigned i = 0; i < n && !said.decided; i++)
        prepared_ask_one(e, all[i], &said, eb);
    for (unsigned i = 0; i < atomic_load(&e->ds->slot_count); i++) {
        const struct replica_slot *s = &e->ds->slots[i];

        if (replica_state(s) == REPLICA_OUT && s->missed && was_there(e, s))
            said.away |= (uint64_t)1 << i;
    }
    return said;
}

/* ---- resolving one ---- */

/* *decided: by a record that is not synced yet. */
static enum err
resolve_prepared(const struct ending *e, bool *decided, struct errbuf *eb)
{
    const struct store_prepared *u = e->what;
    struct errbuf why = {{0}};
    struct said said = prepared_ask_all(e, &why);
    enum err rc;

    assert(!e->foreign || u->coordinator.epoch > 0);
    *decided =
        said.decided || (!e->foreign && (coordinator_is_out(e, said.no) ||
                                         ((said.away | said.dumb) & e->going) != 0));
    if (*decided) {
        rc = replica_commit_prepared(e->on, &e->key.at, &u->content,
                                     said.decided ? &said.as : &u->prepared, eb);
        *decided = rc == ERR_OK;
        return rc;
    }
    if (e->foreign)
        return ERR_OK; /* the coordinator commits or aborts it, or the key's new owner */
    if (said.dumb != 0) {
        *eb = why;
        return said.rc;
    }
    return said.away == 0 && replica_state(&e->ds->slots[e->slot]) != REPLICA_FROZEN
               ? replica_abort_prepared(e->on, &e->key.at, &u->content, eb)
               : ERR_OK;
}

/* Resolves a version of an earlier start, without the key's lock: no write in progress is that
 * old. For a version of this start the coordinator may be another disk than the key's first
 * (places_of_change(), an upload's upload_replicas), and may be about to commit or abort it. */
static enum err
resolve_one(struct ending *e, struct errbuf *eb)
{
    bool decided;

    return e->leftover ? resolve_prepared(e, &decided, eb) : ERR_OK;
}

/* True if it is still prepared as listed. Ids ascend: it must be the first after the id before
 * its own. */
static enum err
still_prepared(const struct ending *e, bool *is, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(4), KIB(64));
    struct content_id before = e->what->content;
    struct store_prepared *found = NULL;
    uint32_t count = 0;
    bool more;
    enum err rc;

    assert(e->on != NULL);
    for (unsigned i = sizeof before.bytes; i-- > 0 && before.bytes[i]-- == 0;)
        ;
    rc = replica_prepared(e->on, &before, 1, a, &found, &count, &more, eb);
    *is = rc == ERR_OK && count > 0 &&
          memcmp(&found->content, &e->what->content, sizeof before) == 0;
    arena_free(&a);
    return rc;
}

/* Resolves a version that may belong to a write in progress. Under the key's lock that write has
 * ended, mostly with its outcome known. */
static enum err
resolve_orphan(struct ending *e, struct errbuf *eb)
{
    uint64_t hash = place_hash(e->key.at.immutable_name, e->key.at.key);
    bool decided = false, is = false;
    enum err rc = ERR_OK;

    assert(e->on != NULL);
    assert(e->what != NULL);
    if (!e->leftover && !e->known)
        return ERR_OK;
    keylock_take(e->ds->keylocks, hash);
    if (e->leftover || atomic_load(&e->ds->all_locked))
        rc = still_prepared(e, &is, eb);
    if (is)
        rc = resolve_prepared(e, &decided, eb);
    if (decided)
        rc = replica_flush(e->on, eb); /* makes true what is_durable() assumes */
    keylock_release(e->ds->keylocks, hash);
    return rc;
}

/* ---- resolving all ---- */

typedef enum err ending_fn(struct ending *e, struct errbuf *eb);

/* Resolves all versions prepared before it began; later ones would never end under load. A
 * failure does not stop the others. */
static enum err
each_on(struct disks *ds, unsigned slot, uint64_t going, ending_fn *end,
        struct errbuf *eb)
{
    const struct version begun = {disks_map_epoch(ds), atomic_load(&ds->ids.counter)};
    struct arena *a = arena_new(KIB(16), MIB(2));
    struct content_id last, *after = NULL;
    bool more = true;
    enum err first = ERR_OK;

    assert(rt_loop_index() == 0);
    assert(slot < atomic_load(&ds->slot_count));
    while (more) {
        struct store_prepared *found = NULL;
        struct errbuf why = {{0}};
        uint32_t count = 0;
        bool old = false;
        enum err rc;

        if (ds->rebalancer->stopping) {
            note_first(ERR_CANCELLED, &(struct errbuf){"the node stops"}, &first, eb);
            break;
        }
        arena_reset(a);
        rc = replica_prepared(&ds->slots[slot].at, after, PREPARED_PAGE, a, &found,
                              &count, &more, &why);
        note_first(rc, &why, &first, eb);
        if (rc != ERR_OK || count == 0)
            break;
        for (uint32_t i = 0; i < count; i++) {
            struct ending e;

            if (version_order(&found[i].prepared, &begun) > 0)
                continue;
            old = true;
            e = ending_of(ds, slot, &found[i]);
            e.going = going;
            note_first(end(&e, &why), &why, &first, eb);
            disks_bucket_fini(&e.bucket);
        }
        last = found[count - 1].content;
        after = &last;
        more &= old; /* content ids ascend */
    }
    arena_free(&a);
    return first;
}

/* A disk that accepts no writes keeps its prepared versions until the next start. Only a removal
 * must wait for them. */
static enum err
each_everywhere(struct disks *ds, uint64_t going, ending_fn *end, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    for (struct replica_walk w = replica_walk(ds); replica_walk_next(&w);) {
        struct errbuf why = {{0}};
        bool skip = (going >> w.slot & 1) != 0 ||
                    (going == 0 && replica_state(&ds->slots[w.slot]) == REPLICA_FROZEN);

        if (!skip)
            note_first(each_on(ds, w.slot, going, end, &why), &why, &rc, eb);
    }
    return rc;
}

enum err
prepared_resolve(struct disks *ds, struct errbuf *eb)
{
    assert(rt_loop_index() == 0);

    return each_everywhere(ds, 0, resolve_one, eb);
}

enum err
prepared_resolve_orphans(struct disks *ds, struct errbuf *eb)
{
    return each_everywhere(ds, 0, resolve_orphan, eb);
}

enum err
prepared_before_removal(struct disks *ds, unsigned slot, struct errbuf *eb)
{
    struct errbuf why = {{0}};
    enum err rc = ds->control.next_bucket != NULL
                      ? each_everywhere(ds, (uint64_t)1 << slot, resolve_orphan, &why)
                      : ERR_OK;

    assert(rt_loop_index() == 0);
    assert(slot < atomic_load(&ds->slot_count));
    return rc == ERR_OK
               ? rc
               : err_set(eb, rc,
                         "disk %s cannot go yet: what was written under its order may be "
                         "prepared on another disk without a known outcome: %s",
                         ds->slots[slot].path, why.text);
}

enum err
prepared_flush(struct disks *ds, struct errbuf *eb)
{
    uint8_t all[DISKS_MAX];
    unsigned n = places_all(ds, all);

    assert(rt_loop_index() == 0);
    for (unsigned i = 0; i < n; i++) {
        bool frozen = replica_state(&ds->slots[all[i]]) == REPLICA_FROZEN;
        struct replica *d = !frozen ? replica_enter(ds, all[i]) : NULL;
        enum err rc = d != NULL ? replica_flush(d, eb) : ERR_OK;

        replica_leave(d);
        if (rc != ERR_OK)
            return rc;
    }
    return ERR_OK;
}
