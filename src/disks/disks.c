/* Opening, closing and counting the disks of a node. */
#include "disks/disks.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "disks/rebalance.h"
#include "disks/replica_slot.h"
#include "store/store_block_cache.h"

#define STATE_FOLDER "/.forebay/node"

/* ---- the given folders ---- */

enum given_kind {
    GIVEN_NEW,
    GIVEN_DISK,
    GIVEN_ROLLED_BACK, /* older than the list knows it: as if it were not given */
};

/* One DIR of the command line. */
struct given {
    const char *path;
    enum given_kind kind;
    bool unreadable; /* new, or a disk with both superblocks damaged */
    struct store_identity is;
};

static enum err
identify(const char *path, struct given *out, struct errbuf *eb)
{
    struct errbuf why = {{0}};
    enum err rc = store_identify(path, &out->is, &why);

    out->path = path;
    out->kind = rc == ERR_OK ? GIVEN_DISK : GIVEN_NEW;
    out->unreadable = rc == ERR_CORRUPT;
    if (rc == ERR_OK && out->is.removed)
        return err_set(eb, ERR_DENIED,
                       "%s was removed from its node, and what is on it is no longer "
                       "current; empty the folder to use it as a new disk",
                       path);
    /* store_open() handles a superblock that a crash left incomplete: it knows whether there are
     * segments. */
    if (rc == ERR_OK || rc == ERR_NOT_FOUND || rc == ERR_CORRUPT)
        return ERR_OK;
    if (eb != NULL)
        *eb = why;
    err_prefix(eb, "disk \"%s\"", path);
    return rc;
}

static enum err
identify_all(const char *const *paths, unsigned count, struct given *out,
             struct errbuf *eb)
{
    for (unsigned i = 0; i < count; i++) {
        enum err rc = identify(paths[i], &out[i], eb);

        if (rc != ERR_OK)
            return rc;
        for (unsigned j = 0; j < i; j++)
            if (strcmp(paths[i], paths[j]) == 0 ||
                (out[i].kind == GIVEN_DISK && out[j].kind == GIVEN_DISK &&
                 memcmp(out[i].is.disk_id, out[j].is.disk_id, 16) == 0))
                return err_set(eb, ERR_DENIED,
                               "%s and %s are the same disk, or one is a copy of the "
                               "other; name the original once",
                               paths[j], paths[i]);
    }
    return ERR_OK;
}

static enum err
rolled_back_refuse(const char *path, uint64_t found, uint64_t known, struct errbuf *eb)
{
    return err_set(eb, ERR_DENIED,
                   "%s was rolled back to a snapshot (superblock %" PRIu64
                   ", it was %" PRIu64 ") and holds the node's state: put the right disk "
                   "back, or start with the other disks and --without %s",
                   path, found, known, path);
}

enum err
disks_check_state(const char *path, struct span list, struct errbuf *eb)
{
    struct membership known;
    struct store_identity is;
    const struct membership_disk *d;
    enum err rc = membership_parse(list, &known, eb);

    if (rc == ERR_OK)
        rc = store_identify(path, &is, eb);
    d = rc == ERR_OK ? membership_find(&known, is.disk_id) : NULL;
    if (d != NULL && !is.rebuilt && is.generation < d->generation)
        rc = rolled_back_refuse(path, is.generation, d->generation, eb);
    membership_fini(&known);
    return rc;
}

/* Reads the list from a disk that holds the node's state. */
static enum err
list_on(const char *path, struct membership *out)
{
    char *folder = xasprintf("%s" STATE_FOLDER, path), *text = NULL;
    struct rt_dir *dir = NULL;
    size_t len = 0;
    enum err rc = rt_dir_open(folder, &dir, NULL);

    *out = (struct membership){0};
    if (rc == ERR_OK)
        rc = rt_file_load(dir, MEMBERSHIP_FILE, MEMBERSHIP_BYTES_MAX, &text, &len, NULL);
    if (rc == ERR_OK)
        rc = membership_parse((struct span){text, len}, out, NULL);
    rt_dir_close(&dir);
    free(text);
    free(folder);
    return rc;
}

static bool
lists_as_out(const struct membership *r, const struct given *g)
{
    const struct membership_disk *d = membership_find(r, g->is.disk_id);

    return d != NULL && (d->state == MEMBERSHIP_OUT || d->state == MEMBERSHIP_MISSED);
}

/* True if `a` continued with the node from a copy of its state while `old`, which had it, was
 * away. Then `old` does not know that. If `old` had also continued, without `a`, there would be
 * two histories. */
static bool
took_over(const struct given *a, const struct given *old)
{
    struct membership mine, its;
    bool did = false;

    if (memcmp(a->is.cluster_id, old->is.cluster_id, 16) != 0)
        return false;
    if (list_on(a->path, &mine) == ERR_OK && list_on(old->path, &its) == ERR_OK)
        did = lists_as_out(&mine, old) && !lists_as_out(&its, a) &&
              membership_find(&its, a->is.disk_id) != NULL;
    membership_fini(&mine);
    membership_fini(&its);
    return did;
}

enum err
disks_find_state(const char *const *paths, unsigned count, unsigned *which,
                 struct errbuf *eb)
{
    struct given *g = xcalloc(count + 1, sizeof *g);
    enum err rc = identify_all(paths, count, g, eb);
    unsigned disks = 0, states = 0;

    *which = 0;
    for (unsigned i = 0; rc == ERR_OK && i < count; i++) {
        disks += g[i].kind == GIVEN_DISK;
        if (g[i].kind != GIVEN_DISK || !g[i].is.node_state)
            continue;
        if (states++ == 0 || took_over(&g[i], &g[*which]))
            *which = i;
        else if (!took_over(&g[*which], &g[i]))
            rc = err_set(eb, ERR_DENIED,
                         "%s and %s both hold the state of a node: they are disks of two "
                         "nodes; serve them apart",
                         paths[*which], paths[i]);
    }
    for (unsigned i = 0; rc == ERR_OK && disks > 0 && states == 0 && i < count; i++)
        if (g[i].unreadable)
            rc = err_set(
                eb, ERR_CORRUPT,
                "neither superblock of %s is good, and no other disk holds the "
                "node's state: forebay disk rebuild %s makes one from its segments",
                paths[i], paths[i]);
    if (rc == ERR_OK && disks > 0 && states == 0)
        rc = err_set(eb, ERR_NOT_FOUND,
                     "none of these disks holds the node's state (.forebay/node); name "
                     "the disk that does as well, mount it first if it is not mounted");
    free(g);
    return rc;
}

/* ---- the list and the given folders ---- */

static bool
in_without(const struct disks_options *o, const struct membership_disk *d)
{
    char id[33];

    hex_encode(d->id, sizeof d->id, id);
    for (unsigned i = 0; i < o->without_count; i++)
        if (strcmp(o->without[i], d->path) == 0 ||
            (strlen(o->without[i]) >= 6 &&
             strncmp(o->without[i], id, strlen(o->without[i])) == 0))
            return true;
    return false;
}

static struct given *
given_of(struct given *g, unsigned count, const struct membership_disk *d)
{
    for (unsigned i = 0; i < count; i++)
        if (g[i].kind == GIVEN_DISK && memcmp(g[i].is.disk_id, d->id, 16) == 0)
            return &g[i];
    return NULL;
}

/* A disk whose superblock is older than the list knows it is a snapshot: it lacks what was
 * written and deleted since, and nothing on it says what. It counts as absent, so the other disks
 * answer and make its copies again. */
static enum err
check_not_rolled_back(struct given *g, unsigned count, const struct membership *r,
                      struct errbuf *eb)
{
    const struct membership_disk *d =
        g->kind == GIVEN_DISK ? membership_find(r, g->is.disk_id) : NULL;
    struct errbuf why;

    if (d == NULL || g->is.rebuilt || g->is.generation >= d->generation)
        return ERR_OK;
    if (count == 1 || g->is.node_state)
        return rolled_back_refuse(g->path, g->is.generation, d->generation, eb);
    (void)err_set(&why, ERR_DENIED,
                  "the disk was rolled back to a snapshot (superblock %" PRIu64
                  ", it was %" PRIu64
                  ") and is not used: the others make its copies again; what only it "
                  "had is unavailable. Put the right disk back, or empty the folder and "
                  "start with it as a new disk",
                  g->is.generation, d->generation);
    LOG(LOG_ERROR, "disks.rolled_back", why.text, L_TEXT("path", g->path),
        L_U64("generation", g->is.generation), L_U64("known", d->generation));
    g->kind = GIVEN_ROLLED_BACK;
    return ERR_OK;
}

static bool
was_rolled_back(const struct given *g, unsigned count, const struct membership_disk *d)
{
    for (unsigned i = 0; i < count; i++)
        if (g[i].kind == GIVEN_ROLLED_BACK && memcmp(g[i].is.disk_id, d->id, 16) == 0)
            return true;
    return false;
}

static enum err
check_listed(const struct disks_options *o, struct given *g,
             const struct membership_disk *d, struct errbuf *eb)
{
    const struct given *found = given_of(g, o->count, d);
    char id[33];

    hex_encode(d->id, sizeof d->id, id);
    id[8] = '\0';
    if (d->state == MEMBERSHIP_REMOVED && found != NULL)
        return err_set(
            eb, ERR_DENIED,
            "%s is disk %s, which was removed from this node: what is on it is "
            "no longer current; empty the folder to use it as a new disk",
            found->path, id);
    if (d->state == MEMBERSHIP_REMOVED || d->state == MEMBERSHIP_OUT ||
        d->state == MEMBERSHIP_MISSED || found != NULL || in_without(o, d) ||
        was_rolled_back(g, o->count, d))
        return ERR_OK;
    for (unsigned i = 0; i < o->count; i++)
        if (g[i].kind == GIVEN_NEW && strcmp(g[i].path, d->path) == 0)
            return err_set(eb, ERR_DENIED,
                           "%s held disk %s and is empty now: is its file system not "
                           "mounted? Mount it; or, if the disk is lost, leave %s out and "
                           "add --without %s",
                           d->path, id, d->path, id);
    return err_set(
        eb, ERR_DENIED,
        "disk %s (%s) of this node is missing: name its folder too; or, if the "
        "disk is lost, add --without %s",
        id, d->path, id);
}

static enum err
check_given(struct given *g, const struct membership *r, const uint8_t cluster[16],
            struct errbuf *eb)
{
    if (g->kind == GIVEN_NEW)
        return ERR_OK;
    if (memcmp(g->is.cluster_id, cluster, 16) != 0)
        return err_set(eb, ERR_DENIED,
                       "%s is a disk of another cluster; its objects come over by an "
                       "export and an import",
                       g->path);
    if (r->count > 0 && membership_find(r, g->is.disk_id) == NULL && g->is.node_state)
        return err_set(eb, ERR_CORRUPT, "%s is not in its own list of disks", g->path);
    return ERR_OK;
}

static enum err
membership_load(struct disks *ds, struct errbuf *eb)
{
    char *text = NULL;
    size_t len = 0;
    enum err rc;

    if (ds->control.state == NULL)
        return ERR_OK;
    rc = rt_file_load(ds->control.state, MEMBERSHIP_FILE, MEMBERSHIP_BYTES_MAX, &text,
                      &len, eb);
    if (rc == ERR_OK) {
        rc = membership_parse((struct span){text, len}, &ds->control.membership, eb);
        ds->control.stored_converged = ds->control.membership.converged;
        ds->control.closed_well = !ds->control.membership.open;
    }
    free(text);
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

/* ---- opening ---- */

/* Disks of the list that are missing keep their place in the order of keys. */
static void
add_absent(struct disks *ds, const struct membership_disk *d)
{
    struct replica_slot *s = replica_slot_new(ds, d->id, d->path, d->weight, NULL);
    bool leaves_now = d->state != MEMBERSHIP_OUT && d->state != MEMBERSHIP_MISSED;

    assert(rt_loop_index() == 0);
    assert(d->state != MEMBERSHIP_REMOVED);
    s->missed = d->state == MEMBERSHIP_MISSED ||
                (leaves_now && !ds->control.membership.converged);
    atomic_store(&s->state, REPLICA_OUT);
    replica_slot_publish(ds);
}

/* True if the disk at this path contains the folder of the node's state. */
static bool
holds_state(const struct disks_options *o, const char *path)
{
    size_t len = strlen(path);

    return o->state != NULL && strncmp(o->state, path, len) == 0 &&
           strcmp(o->state + len, STATE_FOLDER) == 0;
}

/* True if the disk's superblock should have the mark. If the state folder is on no disk (in
 * tests), the first disk has it. */
static bool
should_say_state(const struct disks_options *o, const struct given *g, bool first)
{
    for (unsigned i = 0; i < o->count; i++)
        if (holds_state(o, o->paths[i]))
            return holds_state(o, g->path);
    return g->kind == GIVEN_DISK ? g->is.node_state : first;
}

static enum err
open_given(struct disks *ds, const struct disks_options *o, struct given *g, bool *came,
           struct errbuf *eb)
{
    struct membership_disk *listed =
        g->kind == GIVEN_DISK ? membership_find(&ds->control.membership, g->is.disk_id)
                              : NULL;
    enum membership_state was = listed != NULL ? listed->state : MEMBERSHIP_ACTIVE;
    struct replica_slot *s = &ds->slots[atomic_load(&ds->slot_count)];
    bool state = should_say_state(o, g, s == &ds->slots[0]);
    enum err rc = replica_slot_open(ds, g->path, state, eb);

    assert(rt_loop_index() == 0);
    if (rc != ERR_OK)
        return rc;
    /* The state was copied here; or this disk was lost then, and has returned. */
    if (g->kind == GIVEN_DISK && g->is.node_state != state)
        rc = store_mark_state(s->at.store, state, eb);
    *came |= listed == NULL || was == MEMBERSHIP_OUT || was == MEMBERSHIP_MISSED;
    atomic_store(&s->state,
                 was == MEMBERSHIP_DRAINING ? REPLICA_DRAINING : REPLICA_ACTIVE);
    replica_slot_publish(ds);
    return rc;
}

static bool
changes_are_lost(struct disks *ds)
{
    for (unsigned i = 0; i < atomic_load(&ds->slot_count); i++)
        if (ds->slots[i].at.store != NULL && store_list_lacks(ds->slots[i].at.store, 0))
            return true;
    return false;
}

static enum err
open_all(struct disks *ds, const struct disks_options *o, struct given *g,
         struct errbuf *eb)
{
    bool first = ds->control.membership.count == 0, came = false, out = false;
    unsigned here = 0;
    enum err rc = ERR_OK;

    assert(rt_loop_index() == 0);
    assert(atomic_load(&ds->slot_count) == 0);
    for (unsigned i = 0; rc == ERR_OK && i < ds->control.membership.count; i++) {
        const struct membership_disk *d = &ds->control.membership.disks[i];

        if (d->state != MEMBERSHIP_REMOVED && given_of(g, o->count, d) == NULL) {
            came |= d->state != MEMBERSHIP_OUT &&
                    d->state != MEMBERSHIP_MISSED; /* goes out now */
            out = true;
            add_absent(ds, d);
        }
    }
    for (unsigned i = 0; rc == ERR_OK && i < o->count; i++) {
        bool new_one = false;

        if (g[i].kind == GIVEN_ROLLED_BACK)
            continue;
        rc = open_given(ds, o, &g[i], &new_one, eb);
        came |= new_one && !(first && o->count == 1);
        here++;
    }
    if (rc != ERR_OK)
        return rc;
    /* In a set of new disks nothing can be misplaced. */
    if (first) {
        struct store_stat st;

        disks_stat(ds, &st);
        came = came && st.objects + st.older > 0;
        ds->control.membership.converged = true;
        ds->control.closed_well = true;
    }
    if (changes_are_lost(
            ds)) /* a pass makes the keys in question again from their other copies */
        ds->control.closed_well = false;
    atomic_store(&ds->converged, ds->control.membership.converged && !came);
    atomic_store(&ds->guarded, !atomic_load(&ds->converged));
    missed_count(ds);
    if (here == 1 && !out && atomic_load(&ds->converged)) {
        atomic_store(&ds->sole, 1);
        if (first)
            return ERR_OK; /* a node of one disk has no list */
    } else if (atomic_load(&ds->converged) && !ds->control.closed_well) {
        ds->control.after_crash =
            true; /* until the rebalancer has checked, look-ups read all disks */
        atomic_store(&ds->converged, false);
        atomic_store(&ds->guarded, true);
    }
    ds->control.membership.open = true;
    return membership_store(ds, eb);
}

static struct disks *
disks_new(const struct store_options *o)
{
    struct disks *ds = xcalloc(1, sizeof *ds);

    ds->control.o = *o;
    if (o->map_epoch == 0)
        ds->control.o.map_epoch = o->epoch;
    ds->block_cache = block_cache_new(o->block_cache_bytes);
    atomic_init(&ds->hedge.credit, HEDGE_CREDIT_MAX);
    ds->keylocks = keylocks_new();
    rt_sem_init(&ds->control.storing, 1);
    rt_sem_init(&ds->control.changing, 1);
    rt_sem_init(&ds->control.ending, 1);
    ds->control.o.ids = &ds->ids;
    ds->control.o.block_cache = ds->block_cache;
    return ds;
}

static enum err
open_set(struct disks *ds, const struct disks_options *o, struct errbuf *eb)
{
    struct given *g = xcalloc(o->count + 1, sizeof *g);
    enum err rc = ERR_OK;

    g[0].path = o->count > 0 ? o->paths[0] : NULL;
    if (o->count < 1 || o->count > DISKS_MAX / 2)
        rc = err_set(eb, ERR_BAD_REQUEST, "%u disks, 1 to %u are possible", o->count,
                     DISKS_MAX / 2);
    else if (o->state != NULL || o->count > 1)
        rc = identify_all(o->paths, o->count, g, eb);
    if (rc == ERR_OK && o->state != NULL)
        rc = rt_dir_open(o->state, &ds->control.state, eb);
    if (rc == ERR_OK)
        rc = membership_load(ds, eb);
    for (unsigned i = 0; rc == ERR_OK && i < o->count; i++) {
        rc = check_given(&g[i], &ds->control.membership, o->disk.cluster_id, eb);
        if (rc == ERR_OK)
            rc = check_not_rolled_back(&g[i], o->count, &ds->control.membership, eb);
        ds->control.o.epoch = MAX(ds->control.o.epoch, g[i].is.epoch + 1);
        ds->control.o.map_epoch = MAX(ds->control.o.map_epoch, g[i].is.map_epoch + 1);
    }
    if (rc == ERR_OK)
        map_epoch_begin(ds);
    for (unsigned i = 0; rc == ERR_OK && i < ds->control.membership.count; i++)
        rc = check_listed(o, g, &ds->control.membership.disks[i], eb);
    if (rc == ERR_OK)
        rc = open_all(ds, o, g, eb);
    if (rc == ERR_OK)
        rc = map_epoch_opened(ds, eb);
    free(g);
    return rc;
}

/* Counts the space of a shared file system once. */
static bool
is_first_of(uint64_t filesystem, const uint64_t *counted, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (counted[i] == filesystem && filesystem != 0)
            return false;
    return true;
}

/* Warns, once per start, that copies on one file system are lost together. */
static void
warn_of_shared_filesystem(struct disks *ds)
{
    uint64_t seen[DISKS_MAX];
    unsigned count = atomic_load(&ds->slot_count);

    assert(atomic_load(&ds->slot_count) <= DISKS_MAX);
    for (unsigned i = 0; i < count; i++) {
        struct store_stat one = {0};

        if (ds->slots[i].at.store != NULL)
            store_stat(ds->slots[i].at.store, &one);
        seen[i] = one.filesystem;
        if (is_first_of(seen[i], seen, i))
            continue;
        LOG(LOG_WARN, "disks.shared",
            "disks of this node lie on one file system: copies do not survive its loss",
            L_TEXT("path", ds->slots[i].path));
        return;
    }
}

enum err
disks_open(const struct disks_options *o, struct disks **out, struct errbuf *eb)
{
    struct disks *ds = disks_new(&o->disk);
    enum err rc;

    assert(rt_loop_index() == 0);
    *out = NULL;
    ds->control.rebalance_rate = o->rebalance_rate;
    ds->control.on_list = o->on_list;
    ds->control.on_list_arg = o->arg;
    rc = open_set(ds, o, eb);
    if (rc == ERR_OK)
        rc = rebalancer_start(ds, eb);
    if (rc == ERR_OK && atomic_load(&ds->slot_count) > 1)
        warn_of_shared_filesystem(ds);
    if (rc == ERR_OK)
        *out = ds;
    else
        disks_close(&ds);
    return rc;
}

enum err
disks_open_one(const char *path, const struct store_options *o, struct disks **out,
               struct errbuf *eb)
{
    struct disks_options all = {.paths = &path, .count = 1, .disk = *o};

    return disks_open(&all, out, eb);
}

/* True if a disk in service accepts no more writes. */
static bool
some_log_failed(struct disks *ds)
{
    for (unsigned i = 0; i < atomic_load(&ds->slot_count); i++) {
        const struct replica_slot *s = &ds->slots[i];

        if (s->at.store != NULL && replica_state(s) != REPLICA_OUT &&
            replica_state(s) != REPLICA_REMOVED && !store_accepts_writes(s->at.store))
            return true;
    }
    return false;
}

/* A snapshot of a disk that was made while it was served is older than what the list has then. */
static void
note_generations(struct disks *ds)
{
    for (struct replica_walk w = replica_walk(ds); replica_walk_next(&w);) {
        struct errbuf eb = {{0}};

        if (store_accepts_writes(w.at->store) &&
            store_raise_map_epoch(w.at->store, disks_map_epoch(ds), &eb) != ERR_OK)
            LOG(LOG_WARN, "disks.list", eb.text, L_U64("slot", w.slot));
    }
}

/* Records an orderly end in the list: every change has ended. Not if a disk accepts no writes:
 * its last writes may exist at the next start, and the other disks lack them. */
static void
close_list(struct disks *ds)
{
    struct errbuf eb = {{0}};

    assert(rt_loop_index() == 0);
    if (!ds->control.membership.open || !ds->control.closed_well || some_log_failed(ds))
        return; /* not listed, or the former end is not handled yet */
    ds->control.membership.open = false;
    note_generations(ds);
    if (membership_store(ds, &eb) != ERR_OK)
        LOG(LOG_WARN, "disks.list", eb.text,
            L_U64("disks", ds->control.membership.count));
}

void
disks_close(struct disks **dp)
{
    struct disks *ds = *dp;

    *dp = NULL;
    if (ds == NULL)
        return;
    rebalancer_stop(ds);
    close_list(ds);
    for (unsigned i = 0; i < atomic_load(&ds->slot_count); i++) {
        store_close(&ds->slots[i].at.store);
        free(ds->slots[i].path);
    }
    membership_fini(&ds->control.membership);
    rt_dir_close(&ds->control.state);
    keylocks_free(&ds->keylocks);
    block_cache_free(&ds->block_cache);
    free(ds);
}

/* ---- all of them ---- */

enum err
disks_flush(struct disks *ds, struct errbuf *eb)
{
    for (struct replica_walk w = replica_walk(ds); replica_walk_next(&w);) {
        enum err rc = replica_flush(w.at, eb);

        if (rc == ERR_OK)
            continue;
        replica_walk_end(&w);
        return rc;
    }
    return ERR_OK;
}

/* One disk suffices: the records are for a rebuild; the buckets are in the node's state. */
enum err
disks_bucket_note(struct disks *ds, uint64_t bucket, struct span record,
                  struct errbuf *eb)
{
    unsigned have = 0;
    enum err first = ERR_OK;

    for (struct replica_walk w = replica_walk(ds); replica_walk_next(&w);) {
        enum err rc = store_bucket_note(w.at->store, bucket, record, eb);

        have += rc == ERR_OK;
        first = first == ERR_OK ? rc : first;
    }
    return have > 0 ? ERR_OK : first;
}

void
disks_bucket_usage(struct disks *ds, uint64_t bucket, enum usage_kind which,
                   unsigned copies, uint64_t *objects, uint64_t *bytes)
{
    unsigned n = 0;

    *objects = *bytes = 0;
    for (struct replica_walk w = replica_walk(ds); replica_walk_next(&w); n++) {
        uint64_t o, b;

        store_bucket_usage(w.at->store, bucket, which, &o, &b);
        *objects += o;
        *bytes += b;
    }
    copies = MAX(MIN(copies, n), 1u);
    *objects /= copies;
    *bytes /= copies;
}

void
disks_stat(struct disks *ds, struct store_stat *out)
{
    uint64_t counted[DISKS_MAX];
    unsigned filesystems = 0;

    *out = (struct store_stat){0};
    for (struct replica_walk w = replica_walk(ds); replica_walk_next(&w);) {
        struct store_stat one;

        store_stat(w.at->store, &one);
        if (is_first_of(one.filesystem, counted, filesystems)) {
            counted[filesystems++] = one.filesystem;
            out->total_bytes += one.total_bytes;
            out->free_bytes += one.free_bytes;
        }
        out->native_bytes += one.native_bytes;
        out->cached_bytes += one.cached_bytes;
        out->objects += one.objects;
        out->older += one.older;
        out->open_parts += one.open_parts;
        out->open_bytes += one.open_bytes;
        out->memtable_bytes += one.memtable_bytes;
        out->prepared += one.prepared;
    }
    out->block_cache_bytes = block_cache_bytes(ds->block_cache);
}

uint64_t
disks_cached_bytes(struct disks *ds)
{
    uint64_t bytes = 0;

    for (struct replica_walk w = replica_walk(ds); replica_walk_next(&w);)
        bytes += store_cached_bytes(w.at->store);
    return bytes;
}

void
disks_block_cache(struct disks *ds, struct disks_block_cache *out)
{
    *out = (struct disks_block_cache){block_cache_bytes(ds->block_cache),
                                      block_cache_held(ds->block_cache),
                                      block_cache_target(ds->block_cache)};
}

void
disks_block_cache_target(struct disks *ds, uint64_t bytes)
{
    block_cache_set_target(ds->block_cache, bytes);
}
