/* Adds and removes disks while the node serves. */
#include "disks/replica_slot.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "disks/rebalance.h"
#include "rt/time.h"

/* ---- slots ---- */

struct replica_slot *
replica_slot_new(struct disks *ds, const uint8_t id[16], const char *path,
                 uint64_t weight, struct store *store)
{
    struct replica_slot *s = &ds->slots[atomic_load(&ds->slot_count)];

    assert(atomic_load(&ds->slot_count) < DISKS_MAX);
    assert(path != NULL);
    *s = (struct replica_slot){.path = xstrdup(path),
                               .place = {.seed = place_seed(id), .weight = weight},
                               .disks = ds,
                               .at = {&replica_local_ops, store}};
    memcpy(s->id, id, sizeof s->id);
    return s;
}

void
replica_slot_publish(struct disks *ds)
{
    unsigned i = atomic_load(&ds->slot_count);

    assert(i < DISKS_MAX);
    assert(ds->slots[i].path != NULL);
    ds->slots[i].in_list = replica_state(&ds->slots[i]);
    atomic_store(&ds->slot_count, i + 1);
    ds->control.states++;
    set_changed(ds);
}

static enum err
list_it(struct disks *ds, struct store *d, const char *path, uint64_t *weight,
        uint8_t id[16], struct errbuf *eb)
{
    struct membership_disk *listed;
    struct store_stat st;
    enum err rc;

    store_id(d, id);
    store_stat(d, &st);
    listed = membership_find(&ds->control.membership, id);
    if (listed != NULL) { /* the path may have changed */
        free(listed->path);
        listed->path = xstrdup(path);
        *weight = listed->weight;
        return ERR_OK;
    }
    /* A disk of this cluster that is on no list: if empty, a crash interrupted its addition;
     * otherwise it has objects unknown to this node. */
    if (ds->control.membership.count > 0 && st.objects + st.older > 0)
        return err_set(
            eb, ERR_DENIED,
            "%s has objects but is not on this node's list of disks; move them "
            "in by an export and an import",
            path);
    *weight = MAX(st.total_bytes >> 20, (uint64_t)1);
    rc = membership_add(&ds->control.membership, id, *weight, path, eb);
    return rc;
}

/* Called if the disk's scrub finds a damaged copy. */
static enum err
on_damage(void *arg, const struct store_key *k, const struct entry *entry,
          struct errbuf *eb)
{
    struct replica_slot *s = arg;

    assert(s->disks != NULL);
    (void)entry;
    return repair_now(s->disks, k, (unsigned)(s - s->disks->slots), eb);
}

enum err
replica_slot_open(struct disks *ds, const char *path, bool node_state, struct errbuf *eb)
{
    unsigned i = atomic_load(&ds->slot_count);
    struct store_options o = ds->control.o;
    struct store *d = NULL;
    uint64_t weight = 0;
    uint8_t id[16];
    enum err rc;

    if (i == DISKS_MAX)
        return err_set(eb, ERR_BUSY,
                       "%u disks came and went since the start; restart the node", i);
    o.owner_loop = (ds->control.o.owner_loop + i) % rt_loop_count();
    o.state_elsewhere = !node_state;
    rc = store_open(path, &o, &d, eb);
    if (rc == ERR_OK)
        rc = list_it(ds, d, path, &weight, id, eb);
    if (rc == ERR_OK)
        store_on_damage(d, on_damage, replica_slot_new(ds, id, path, weight, d));
    else
        store_close(&d);
    return rc;
}

/* ---- changes ---- */

/* Finds a disk by its path as listed, or by the first 6 or more characters of its id. */
static enum err
find_slot(struct disks *ds, const char *which, unsigned *out, struct errbuf *eb)
{
    unsigned found = 0;

    for (unsigned i = 0; i < atomic_load(&ds->slot_count); i++) {
        const struct replica_slot *s = &ds->slots[i];
        char id[33];

        hex_encode(s->id, sizeof s->id, id);
        if (replica_state(s) == REPLICA_REMOVED ||
            (strcmp(which, s->path) != 0 &&
             (strlen(which) < 6 || strncmp(which, id, strlen(which)) != 0)))
            continue;
        *out = i;
        found++;
    }
    if (found == 1)
        return ERR_OK;
    return err_set(eb, found == 0 ? ERR_NOT_FOUND : ERR_BAD_REQUEST,
                   found == 0
                       ? "\"%s\" is no disk of this node; forebay disk ls shows them"
                       : "\"%s\" says more than one disk; give more of its id",
                   which);
}

static unsigned
count_in(struct disks *ds, enum replica_state state)
{
    unsigned n = 0;

    for (unsigned i = 0; i < atomic_load(&ds->slot_count); i++)
        n += replica_state(&ds->slots[i]) == state;
    return n;
}

/* True if every bucket has a second copy of everything: then a disk that is out held nothing
 * alone. */
static bool
all_have_copies(struct disks *ds)
{
    struct disks_bucket b;
    uint64_t after = 0;
    bool all = true;

    if (ds->control.next_bucket == NULL)
        return false;
    while (all && ds->control.next_bucket(ds->control.buckets_arg, after, &b)) {
        after = b.id;
        all = b.copies > count_in(ds, REPLICA_OUT) || b.cached;
        disks_bucket_fini(&b);
    }
    return all;
}

/* Marks disks as missed. Keys are about to be placed on disks that did not own them when others
 * went out. Objects only on the latter would be reported as absent. */
static void
out_become_missed(struct disks *ds)
{
    assert(rt_loop_index() == 0);

    if (count_in(ds, REPLICA_OUT) == 0 ||
        (atomic_load(&ds->converged) && !atomic_load(&ds->out_diverged) &&
         all_have_copies(ds)))
        return;
    for (unsigned i = 0; i < atomic_load(&ds->slot_count); i++)
        ds->slots[i].missed |= replica_state(&ds->slots[i]) == REPLICA_OUT;
    missed_count(ds);
}

/* Makes every look-up read all disks and every write lock its key, and waits for the changes
 * that began before. */
static void
set_change_open(struct disks *ds)
{
    atomic_store(&ds->guarded, true);
    atomic_store(&ds->converged, false);
    ds->control.after_crash = false;
    atomic_store(&ds->sole, 0);
    set_changed(ds);
    changes_before_end(ds);
}

void
replica_set_open(struct disks *ds)
{
    assert(rt_loop_index() == 0);
    out_become_missed(ds);
    set_change_open(ds);
}

void
replica_slot_abandon(struct disks *ds)
{
    struct replica_slot *s = &ds->slots[atomic_load(&ds->slot_count)];

    assert(s->at.store != NULL);
    store_close(&s->at.store);
    free(s->path);
    *s = (struct replica_slot){0};
}

struct change {
    struct disks *ds;
    const char *which;
    bool flag; /* undo, or force */
    uint8_t *id;
    struct errbuf *eb;
    enum err rc;
    enum err (*fn)(struct change *c);
};

static void
set_change_run(void *arg)
{
    struct change *c = arg;
    struct rt_shield shield;

    rt_shield_begin(&shield);
    c->rc = rt_sem_acquire(&c->ds->control.changing, DEADLINE_NEVER);
    if (c->rc == ERR_OK) {
        c->rc = c->fn(c);
        rt_sem_release(&c->ds->control.changing);
    }
    rt_shield_end(&shield);
    rebalancer_wake(c->ds);
}

static enum err
on_control_loop(struct change *c)
{
    struct errbuf unused = {{0}};
    enum err rc;

    if (c->eb == NULL)
        c->eb = &unused;
    rc = rt_call(0, set_change_run, c);
    return rc == ERR_OK ? c->rc : rc;
}

static enum err
check_generation(struct disks *ds, struct errbuf *eb)
{
    return writers_may_next(ds)
               ? ERR_OK
               : err_set(eb, ERR_BUSY,
                         "an upload that began %u changes ago is still under way; try "
                         "again when it has ended",
                         WRITER_GENERATIONS);
}

/* ---- add ---- */

/* *former: the slot in which this disk went out of service; DISKS_MAX: it is new. */
static enum err
check_new(struct disks *ds, const char *path, struct store_identity *is, unsigned *former,
          struct errbuf *eb)
{
    enum err rc = store_identify(path, is, eb);

    *former = DISKS_MAX;
    if (rc == ERR_NOT_FOUND)
        return ERR_OK;
    if (rc != ERR_OK)
        return rc;
    if (replica_find_out(ds, is->disk_id, former))
        return ERR_OK;
    for (unsigned i = 0; i < atomic_load(&ds->slot_count); i++)
        if (replica_state(&ds->slots[i]) != REPLICA_REMOVED &&
            memcmp(ds->slots[i].id, is->disk_id, 16) == 0)
            return err_set(eb, ERR_EXISTS, "%s is, or is a copy of, disk %s of this node",
                           path, ds->slots[i].path);
    if (is->removed)
        return err_set(eb, ERR_DENIED,
                       "%s was removed from its node, and what is on it is no longer "
                       "current; empty the folder to use it as a new disk",
                       path);
    if (memcmp(is->cluster_id, ds->control.o.cluster_id, 16) != 0)
        return err_set(eb, ERR_DENIED,
                       "%s is a disk of another cluster; its objects come over by an "
                       "export and an import",
                       path);
    return is->node_state
               ? err_set(eb, ERR_DENIED, "%s holds the state of a node of its own", path)
               : ERR_OK;
}

static enum err
add(struct change *c)
{
    struct disks *ds = c->ds;
    struct store_identity is = {.generation = 0};
    struct replica_slot *s;
    unsigned former;
    enum err rc;

    if (ds->control.state == NULL)
        return err_set(c->eb, ERR_NOT_IMPLEMENTED, "this node keeps no list of disks");
    rc = check_new(ds, c->which, &is, &former, c->eb);
    if (rc == ERR_OK)
        rc = check_generation(ds, c->eb);
    if (rc == ERR_OK && former != DISKS_MAX) {
        memcpy(c->id, is.disk_id, sizeof is.disk_id);
        return replica_take_back(ds, former, c->which, &is, c->eb);
    }
    if (rc == ERR_OK)
        rc = replica_slot_open(ds, c->which, false, c->eb);
    if (rc != ERR_OK)
        return rc;
    s = &ds->slots[atomic_load(&ds->slot_count)];
    replica_set_open(ds);
    ds->control.membership.open = true;
    atomic_store(&s->state, REPLICA_ACTIVE);
    rc = membership_store(ds, c->eb);
    if (rc != ERR_OK) { /* not on the list: nothing may be written there */
        struct membership *r = &ds->control.membership;

        free(r->disks[--r->count].path);
        replica_slot_abandon(ds);
        return rc;
    }
    memcpy(c->id, s->id, sizeof s->id);
    LOG(LOG_INFO, "disks.added", "a disk was added", L_TEXT("path", s->path));
    replica_slot_publish(ds);
    writers_next(ds);
    return ERR_OK;
}

enum err
disks_add(struct disks *ds, const char *path, uint8_t id[16], struct errbuf *eb)
{
    struct change c = {.ds = ds, .which = path, .id = id, .eb = eb, .fn = add};

    return on_control_loop(&c);
}

/* ---- drain ---- */

/* True if the remaining disks suffice for the copies that every bucket wants. Otherwise draining
 * would drop copies without making new ones. */
static enum err
left_are_enough(struct disks *ds, const struct replica_slot *s, struct errbuf *eb)
{
    unsigned left = count_in(ds, REPLICA_ACTIVE) - 1;
    struct disks_bucket b;
    uint64_t after = 0;

    assert(replica_state(s) == REPLICA_ACTIVE);
    while (ds->control.next_bucket != NULL &&
           ds->control.next_bucket(ds->control.buckets_arg, after, &b)) {
        unsigned copies = b.cached ? 1 : b.copies;

        after = b.id;
        if (copies > left)
            err_set(eb, ERR_DENIED,
                    "%s cannot go: bucket \"%.*s\" wants %u copies, and %u %s would be "
                    "left; add a disk first, or set fewer copies",
                    s->path, SPAN_ARG(b.immutable_name), copies, left,
                    left == 1 ? "disk" : "disks");
        disks_bucket_fini(&b);
        if (copies > left)
            return ERR_DENIED;
    }
    return ERR_OK;
}

static enum err
drain(struct change *c)
{
    struct disks *ds = c->ds;
    enum replica_state want = c->flag ? REPLICA_ACTIVE : REPLICA_DRAINING;
    unsigned i = 0;
    enum err rc = find_slot(ds, c->which, &i, c->eb);

    if (rc != ERR_OK)
        return rc;
    if (replica_state(&ds->slots[i]) == REPLICA_FROZEN)
        return err_set(c->eb, ERR_UNAVAILABLE,
                       "disk %s takes no writes, so nothing can be taken away from it; "
                       "what it has gets copies on the others; see forebay disk ls",
                       ds->slots[i].path);
    if (replica_state(&ds->slots[i]) == REPLICA_OUT)
        return err_set(
            c->eb, ERR_UNAVAILABLE,
            "disk %s is out of service: nothing can be read from it; its copies "
            "are made good from the others, then forebay disk remove ends it",
            ds->slots[i].path);
    if (replica_state(&ds->slots[i]) == want)
        return ERR_OK;
    if (!c->flag && count_in(ds, REPLICA_ACTIVE) == 1)
        return err_set(c->eb, ERR_DENIED,
                       "%s is the only disk that takes objects: add another one first",
                       ds->slots[i].path);
    if (!c->flag)
        rc = left_are_enough(ds, &ds->slots[i], c->eb);
    if (rc == ERR_OK)
        rc = check_generation(ds, c->eb);
    if (rc != ERR_OK)
        return rc;
    if (want == REPLICA_ACTIVE)
        out_become_missed(ds);
    set_change_open(ds);
    rc = replica_set_state(ds, i, want, c->eb);
    if (rc != ERR_OK)
        return rc;
    LOG(LOG_INFO, "disks.drain",
        c->flag ? "a disk takes objects again" : "a disk is drained",
        L_TEXT("path", ds->slots[i].path));
    return rc;
}

enum err
disks_drain(struct disks *ds, const char *which, bool undo, struct errbuf *eb)
{
    struct change c = {.ds = ds, .which = which, .flag = undo, .eb = eb, .fn = drain};

    return on_control_loop(&c);
}

/* ---- remove ---- */

static enum err
may_go(struct disks *ds, unsigned i, struct errbuf *eb)
{
    const struct replica_slot *s = &ds->slots[i];
    bool converged = atomic_load(&ds->converged);

    assert(i < atomic_load(&ds->slot_count));
    switch (replica_state(s)) {
    case REPLICA_ACTIVE:
        return err_set(eb, ERR_DENIED,
                       "disk %s is in use: forebay disk drain moves its objects to the "
                       "others first; --force drops what only it holds",
                       s->path);
    case REPLICA_DRAINING:
        return converged
                   ? ERR_OK
                   : err_set(eb, ERR_DENIED,
                             "disk %s is still drained, objects lie on it alone: wait "
                             "until forebay disk ls says drained; --force drops them",
                             s->path);
    case REPLICA_FROZEN:
        return err_set(
            eb, ERR_DENIED,
            "disk %s takes no writes: what it has gets copies on the others, but "
            "that all of it has cannot be seen; restart the node with a disk that "
            "works, or --force",
            s->path);
    case REPLICA_OUT:
        if (converged && !atomic_load(&ds->out_diverged) && all_have_copies(ds))
            return ERR_OK;
        return err_set(eb, ERR_DENIED,
                       "disk %s is out of service and may hold the only copy of objects; "
                       "--force drops them for ever",
                       s->path);
    case REPLICA_REMOVED:
        break;
    }
    return err_set(eb, ERR_NOT_FOUND, "disk %s was removed before", s->path);
}

static enum err
remove_slot(struct change *c)
{
    struct disks *ds = c->ds;
    struct store_identity is;
    struct replica_slot *s;
    unsigned i = 0;
    enum err rc = find_slot(ds, c->which, &i, c->eb);

    if (rc != ERR_OK)
        return rc;
    s = &ds->slots[i];
    if (replica_state(s) == REPLICA_ACTIVE && count_in(ds, REPLICA_ACTIVE) == 1)
        return err_set(c->eb, ERR_DENIED, "%s is the only disk of this node", s->path);
    if (s->at.store != NULL && store_identify(s->path, &is, NULL) == ERR_OK &&
        is.node_state)
        return err_set(
            c->eb, ERR_DENIED,
            "%s holds the node's state (.forebay/node): it is the last disk to "
            "go",
            s->path);
    if (!c->flag)
        rc = may_go(ds, i, c->eb);
    if (rc == ERR_OK)
        rc = check_generation(ds, c->eb);
    if (rc != ERR_OK)
        return rc;
    set_change_open(ds);
    rc = prepared_before_removal(ds, i, c->eb);
    if (rc == ERR_OK)
        rc = replica_set_state(ds, i, REPLICA_REMOVED, c->eb);
    if (rc != ERR_OK)
        return rc;
    missed_count(ds);
    if (s->at.store != NULL && !store_has_left(s->at.store)) {
        struct errbuf eb = {{0}};

        if (store_mark_removed(s->at.store, &eb) != ERR_OK) /* the list records it too */
            LOG(LOG_WARN, "disks.remove", eb.text, L_TEXT("path", s->path));
    }
    LOG(LOG_INFO, "disks.removed", "a disk was removed", L_TEXT("path", s->path));
    return rc;
}

enum err
disks_remove(struct disks *ds, const char *which, bool force, struct errbuf *eb)
{
    struct change c = {
        .ds = ds, .which = which, .flag = force, .eb = eb, .fn = remove_slot};

    return on_control_loop(&c);
}

/* ---- buckets ---- */

void
disks_buckets(struct disks *ds,
              bool (*next)(void *arg, uint64_t after, struct disks_bucket *out),
              void *arg)
{
    assert(rt_loop_index() == 0);
    ds->control.buckets_arg = arg;
    ds->control.next_bucket = next;
    rebalancer_wake(ds);
}

void
disks_repair(struct disks *ds, const struct disks_key *k, unsigned slot)
{
    repair_later(ds, k, slot);
}

void
disks_each(struct disks *ds, void (*fn)(void *arg, unsigned slot, struct store *d),
           void *arg)
{
    for (unsigned i = 0; i < atomic_load(&ds->slot_count); i++) {
        struct replica *r = replica_enter(ds, i);

        if (r == NULL)
            continue;
        fn(arg, i, r->store);
        replica_leave(r);
    }
}

void
disks_bucket_fini(struct disks_bucket *b)
{
    free(b->owned);
    *b = (struct disks_bucket){0};
}

static enum err
hold(struct change *c)
{
    enum err rc;

    rebalancer_hold(c->ds, 1);
    if (is_sole(c->ds))
        return ERR_OK;
    set_change_open(c->ds);
    rc = membership_store(c->ds, c->eb);
    if (rc != ERR_OK)
        rebalancer_hold(c->ds, -1);
    return rc;
}

static enum err
release(struct change *c)
{
    writers_next(c->ds);
    rebalancer_hold(c->ds, -1);
    return ERR_OK;
}

enum err
disks_hold(struct disks *ds, struct errbuf *eb)
{
    struct change c = {.ds = ds, .eb = eb, .fn = hold};

    return on_control_loop(&c);
}

void
disks_release(struct disks *ds)
{
    struct change c = {.ds = ds, .fn = release};

    if (on_control_loop(&c) != ERR_OK)
        rebalancer_hold(ds, -1);
}

/* ---- status ---- */

static const char *
state_text(const struct replica_slot *s, bool converged)
{
    switch (replica_state(s)) {
    case REPLICA_ACTIVE:
        return "active";
    case REPLICA_DRAINING:
        return converged ? "drained" : "draining";
    case REPLICA_FROZEN:
        return "frozen";
    case REPLICA_OUT:
        return "out";
    case REPLICA_REMOVED:
        break;
    }
    return "removed";
}

void
disks_status(struct disks *ds, struct disks_status *out)
{
    unsigned count = atomic_load(&ds->slot_count);

    memset(out, 0, sizeof *out); /* too large for a temporary on the stack */
    out->converged = atomic_load(&ds->converged);
    rebalancer_status(ds, out);
    for (unsigned i = 0; i < count; i++) {
        struct replica_slot *s = &ds->slots[i];
        struct disks_one *one = &out->disks[out->count];
        struct replica *r;

        if (replica_state(s) == REPLICA_REMOVED)
            continue;
        *one = (struct disks_one){.path = s->path,
                                  .state = state_text(s, out->converged),
                                  .weight = s->place.weight};
        hex_encode(s->id, sizeof s->id, one->id);
        out->count++;
        r = replica_enter(ds, i);
        if (r == NULL) {
            if (s->at.store != NULL)
                store_health(s->at.store, &one->health);
            else
                snprintf(one->health.why, sizeof one->health.why, "it is not here");
            one->health.state = STORE_FAILED;
            continue;
        }
        store_stat(r->store, &one->stat);
        store_health(r->store, &one->health);
        replica_leave(r);
    }
}
