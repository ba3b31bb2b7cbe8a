/* The set of disks: placement of keys, changes in progress, and the list on disk. */
#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "disks/rebalance.h"
#include "rt/point.h"

/* ---- places ---- */

static bool
is_here(enum replica_state s)
{
    return s == REPLICA_ACTIVE || s == REPLICA_DRAINING || s == REPLICA_FROZEN;
}

/* True if all disks that should hold the key are out. Before they failed the key was placed on
 * them, and each had every acknowledged write. */
static bool
only_out_could_hold(uint64_t hash, const struct place_disk *all,
                    const enum replica_state *states, unsigned count, unsigned copies)
{
    uint8_t order[DISKS_MAX];
    unsigned n = place_order(hash, all, count, order, MAX(copies, 1u));

    for (unsigned i = 0; i < n; i++)
        if (states[order[i]] != REPLICA_OUT)
            return false;
    return n > 0;
}

void
places_of(struct disks *ds, const struct disks_key *k, struct places *out)
{
    unsigned count = atomic_load(&ds->slot_count), want = MAX(k->copies, 1u), n;
    struct place_disk active[DISKS_MAX], all[DISKS_MAX];
    uint64_t hash;
    enum replica_state states[DISKS_MAX];
    bool out_is_there = false;

    if (sole_slot(ds, &n)) { /* for every key */
        out->at[0] = (uint8_t)n;
        out->count = out->placed = 1;
        out->with = 0;
        out->unreachable = false;
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        states[i] = replica_state(&ds->slots[i]);
        active[i] = all[i] = ds->slots[i].place;
        if (states[i] != REPLICA_ACTIVE)
            active[i].weight = 0;
        if (states[i] != REPLICA_ACTIVE && states[i] != REPLICA_OUT &&
            states[i] != REPLICA_FROZEN)
            all[i].weight = 0;
        out_is_there |= states[i] == REPLICA_OUT;
    }
    hash = place_hash(k->at.immutable_name, k->at.key);
    n = place_order(hash, active, count, out->at, count);
    out->placed = MIN(n, want);
    for (unsigned i = 0; i < count; i++)
        if (states[i] == REPLICA_DRAINING || states[i] == REPLICA_FROZEN ||
            (states[i] == REPLICA_ACTIVE && active[i].weight == 0))
            out->at[n++] = (uint8_t)i;
    out->count = n;
    out->unreachable =
        out_is_there && (atomic_load(&ds->out_diverged) ||
                         only_out_could_hold(hash, all, states, count, want));
}

bool
any_replica_unreachable(struct disks *ds)
{
    assert(atomic_load(&ds->slot_count) <= DISKS_MAX);

    if (is_sole(ds))
        return false; /* a sole disk has everything */
    for (unsigned i = 0; i < atomic_load(&ds->slot_count); i++) {
        const struct replica_slot *s = &ds->slots[i];
        enum replica_state state = replica_state(s);

        if (state == REPLICA_OUT || state == REPLICA_FROZEN)
            return true;
        /* Its log has just failed, and the control loop has not noticed yet. Its last writes may
         * exist after the next start, though it does not report them now. */
        if (state != REPLICA_REMOVED && s->at.store != NULL &&
            !store_accepts_writes(s->at.store))
            return true;
    }
    return false;
}

unsigned
places_all(struct disks *ds, uint8_t out[DISKS_MAX])
{
    unsigned count = atomic_load(&ds->slot_count), n = 0;

    for (unsigned i = 0; i < count; i++)
        if (replica_state(&ds->slots[i]) == REPLICA_DRAINING ||
            replica_state(&ds->slots[i]) == REPLICA_FROZEN)
            out[n++] = (uint8_t)i;
    for (unsigned i = 0; i < count; i++)
        if (replica_state(&ds->slots[i]) == REPLICA_ACTIVE)
            out[n++] = (uint8_t)i;
    return n;
}

static void
count_inside(struct disks *ds, unsigned i, int more)
{
    _Atomic uint64_t *count = &ds->inside[rt_loop_index()].of_slot[i];

    /* Only this loop writes the counter. */
    atomic_store_explicit(count,
                          atomic_load_explicit(count, memory_order_relaxed) +
                              (uint64_t)(int64_t)more,
                          memory_order_release);
}

/* Checks the state after counting: a removal first waits until every loop has passed, then for
 * the counts. */
struct replica *
replica_enter(struct disks *ds, unsigned i)
{
    struct replica_slot *s = &ds->slots[i];

    assert(i < atomic_load_explicit(&ds->slot_count, memory_order_relaxed));
    count_inside(ds, i, 1);
    if (s->at.store != NULL && is_here(replica_state(s)))
        return &s->at;
    count_inside(ds, i, -1);
    return NULL;
}

void
replica_leave(struct replica *r)
{
    if (r != NULL)
        count_inside(CONTAINER_OF(r, struct replica_slot, at)->disks, replica_slot_of(r),
                     -1);
}

struct replica_walk
replica_walk(struct disks *ds)
{
    struct replica_walk w;

    w.ds = ds;
    w.at = NULL;
    w.slot = w.next = 0;
    w.count = places_all(ds, w.all);
    return w;
}

bool
replica_walk_next(struct replica_walk *w)
{
    assert(w->next <= w->count);
    assert(w->count <= DISKS_MAX);

    replica_walk_end(w);
    while (w->at == NULL && w->next < w->count) {
        w->slot = w->all[w->next++];
        w->at = replica_enter(w->ds, w->slot);
    }
    return w->at != NULL;
}

void
replica_walk_end(struct replica_walk *w)
{
    replica_leave(w->at);
    w->at = NULL;
}

uint64_t
replica_inside(struct disks *ds, unsigned i)
{
    uint64_t sum = 0;

    assert(i < DISKS_MAX);
    for (unsigned loop = 0; loop < rt_loop_count() && loop < LOOPS_MAX; loop++)
        sum += atomic_load(&ds->inside[loop].of_slot[i]);
    return sum;
}

bool
replica_is_removed(struct disks *ds, unsigned i)
{
    assert(i < atomic_load(&ds->slot_count));

    return replica_state(&ds->slots[i]) == REPLICA_REMOVED;
}

enum err
err_unreachable(struct errbuf *eb)
{
    return err_set(
        eb, ERR_UNAVAILABLE,
        "a disk that could hold this object is out of service; forebay disk ls "
        "says which");
}

void
note_first(enum err one, const struct errbuf *why, enum err *first, struct errbuf *eb)
{
    assert(first != NULL);

    if (one == ERR_OK || *first != ERR_OK)
        return;
    *first = one;
    if (eb != NULL)
        *eb = *why;
}

/* ---- changes under way ---- */

struct key_change
key_change_begin(struct disks *ds, const struct disks_key *k)
{
    struct key_change c = {.ds = ds};

    assert(ds != NULL);
    c.locked = change_begin(ds, &c.phase);
    if (c.locked) {
        c.hash = place_hash(k->at.immutable_name, k->at.key);
        keylock_take(ds->keylocks, c.hash);
    }
    return c;
}

void
key_change_end(struct key_change *c)
{
    assert(c->ds != NULL);
    if (c->locked)
        keylock_release(c->ds->keylocks, c->hash);
    change_end(c->ds, c->phase);
    c->ds = NULL;
}

bool
change_begin(struct disks *ds, uint32_t *phase)
{
    for (;;) {
        *phase = atomic_load(&ds->phase);
        atomic_fetch_add(&ds->changes[*phase & 1], 1);
        if (atomic_load(&ds->phase) == *phase)
            return atomic_load(&ds->guarded);
        change_end(ds, *phase);
    }
}

void
change_end(struct disks *ds, uint32_t phase)
{
    struct rt_waiter *who = NULL;

    assert(atomic_load(&ds->changes[phase & 1]) > 0);
    /* The last change of a past phase. The waiter is published before it reads the count. */
    if (atomic_fetch_sub(&ds->changes[phase & 1], 1) == 1 &&
        (atomic_load(&ds->phase) & 1) != (phase & 1))
        who = atomic_exchange(&ds->ender, NULL);
    if (who != NULL)
        rt_wake(who);
}

void
changes_before_end(struct disks *ds)
{
    struct rt_waiter me;
    struct rt_shield shield;
    uint64_t unguarded;
    uint32_t before;
    bool guarded;

    assert(rt_loop_index() == 0);
    rt_shield_begin(&shield);
    if (rt_sem_acquire(&ds->control.ending, DEADLINE_NEVER) == ERR_OK) {
        rt_waiter_init(&me);
        guarded = atomic_load(&ds->guarded);
        unguarded = ds->control.unguarded;
        before = atomic_fetch_add(&ds->phase, 1);
        atomic_store(&ds->ender, &me);
        if (atomic_load(&ds->changes[before & 1]) > 0 ||
            atomic_exchange(&ds->ender, NULL) == NULL)
            rt_wait(&me); /* the last change wakes this fiber */
        if (guarded && unguarded == ds->control.unguarded)
            atomic_store(&ds->all_locked, true);
        rt_sem_release(&ds->control.ending);
    } /* else a simulated power cut */
    rt_shield_end(&shield);
}

void
unguard(struct disks *ds)
{
    assert(rt_loop_index() == 0);

    ds->control.unguarded++;
    atomic_store(&ds->all_locked, false);
    atomic_store(&ds->guarded, false);
    set_changed(ds);
}

static void
wait_for_changes(void *arg)
{
    changes_before_end(arg);
}

static enum err
changes_before_end_there(struct disks *ds)
{
    struct rt_shield shield;
    enum err rc;

    rt_shield_begin(&shield);
    rc = rt_call(0, wait_for_changes, ds);
    rt_shield_end(&shield);
    return rc;
}

enum err
unlocked_before_end(struct disks *ds, struct errbuf *eb)
{
    enum err rc = atomic_load(&ds->all_locked) ? ERR_OK : changes_before_end_there(ds);

    if (rc == ERR_OK && rt_cancelled())
        rc = ERR_CANCELLED; /* a simulated power cut: the wait may be incomplete */
    return rc == ERR_OK ? rc : err_set(eb, rc, "waiting for other changes was cancelled");
}

/* ---- closing buckets ---- */

static _Atomic uint64_t *
closed_slot(struct disks *ds, uint64_t bucket)
{
    return &ds->closed[bucket % CLOSED_BUCKETS];
}

enum err
bucket_takes(struct disks *ds, uint64_t bucket, struct errbuf *eb)
{
    assert(ds != NULL);

    return atomic_load(closed_slot(ds, bucket)) == bucket && bucket != 0
               ? err_set(eb, ERR_BUSY, "the bucket is being deleted")
               : ERR_OK;
}

enum err
disks_bucket_close(struct disks *ds, uint64_t bucket, struct errbuf *eb)
{
    enum err rc;

    assert(bucket != 0);
    if (atomic_exchange(closed_slot(ds, bucket), bucket) == bucket)
        return err_set(eb, ERR_BUSY, "the bucket is being deleted");
    rc = changes_before_end_there(ds);
    if (rc == ERR_OK)
        return rc;
    disks_bucket_reopen(ds, bucket);
    return err_set(eb, rc, "waiting for writes into the bucket was cancelled");
}

void
disks_bucket_reopen(struct disks *ds, uint64_t bucket)
{
    assert(bucket != 0);

    (void)atomic_compare_exchange_strong(closed_slot(ds, bucket), &(uint64_t){bucket}, 0);
}

uint32_t
generation_enter(struct disks *ds)
{
    for (;;) {
        uint32_t g = atomic_load(&ds->generation);

        atomic_fetch_add(&ds->writers[g % WRITER_GENERATIONS], 1);
        if (atomic_load(&ds->generation) == g)
            return g;
        atomic_fetch_sub(&ds->writers[g % WRITER_GENERATIONS], 1);
    }
}

void
generation_leave(struct disks *ds, uint32_t generation)
{
    assert(atomic_load(&ds->writers[generation % WRITER_GENERATIONS]) > 0);

    atomic_fetch_sub(&ds->writers[generation % WRITER_GENERATIONS], 1);
}

bool
writers_may_next(struct disks *ds)
{
    uint32_t next = atomic_load(&ds->generation) + 1;

    return atomic_load(&ds->writers[next % WRITER_GENERATIONS]) == 0;
}

void
writers_next(struct disks *ds)
{
    assert(rt_loop_index() == 0);

    if (writers_may_next(ds))
        atomic_fetch_add(&ds->generation, 1);
}

bool
writers_old(struct disks *ds)
{
    uint32_t now = atomic_load(&ds->generation) % WRITER_GENERATIONS;

    for (uint32_t g = 0; g < WRITER_GENERATIONS; g++)
        if (g != now && atomic_load(&ds->writers[g]) > 0)
            return true;
    return false;
}

/* ---- missed disks ---- */

void
missed_count(struct disks *ds)
{
    bool any = false;

    assert(rt_loop_index() == 0);
    for (unsigned i = 0; i < atomic_load(&ds->slot_count); i++)
        any |= replica_state(&ds->slots[i]) == REPLICA_OUT && ds->slots[i].missed;
    atomic_store(&ds->out_diverged, any);
}

/* ---- the list on disk ---- */

static void
take_states(struct disks *ds)
{
    static const enum membership_state of[] = {[REPLICA_ACTIVE] = MEMBERSHIP_ACTIVE,
                                               [REPLICA_DRAINING] = MEMBERSHIP_DRAINING,
                                               [REPLICA_FROZEN] = MEMBERSHIP_OUT,
                                               [REPLICA_OUT] = MEMBERSHIP_OUT,
                                               [REPLICA_REMOVED] = MEMBERSHIP_REMOVED};
    struct membership *r = &ds->control.membership;

    assert(rt_loop_index() == 0);
    r->converged = atomic_load(&ds->converged) || ds->control.after_crash;
    for (unsigned i = 0; i < atomic_load(&ds->slot_count); i++) {
        struct membership_disk *d = membership_find(r, ds->slots[i].id);

        assert(d != NULL);
        if (ds->slots[i].replaced)
            continue; /* a later slot tells */
        if (ds->slots[i].at.store != NULL)
            d->generation = store_generation(ds->slots[i].at.store);
        d->state = of[ds->slots[i].in_list];
        if (d->state == MEMBERSHIP_OUT && ds->slots[i].missed)
            d->state = MEMBERSHIP_MISSED;
    }
}

enum err
membership_store(struct disks *ds, struct errbuf *eb)
{
    struct rt_shield shield;
    struct buf text;
    bool converged;
    enum err rc;

    assert(rt_loop_index() == 0);
    if (ds->control.state == NULL)
        return ERR_OK;
    rt_shield_begin(&shield);
    rc = rt_sem_acquire(&ds->control.storing, DEADLINE_NEVER);
    if (rc != ERR_OK) { /* no deadline; only a simulated power cut cancels it here */
        rt_shield_end(&shield);
        return err_set(eb, rc, "the list of disks was not written");
    }
    take_states(ds);
    converged = ds->control.membership.converged;
    buf_init(&text, MEMBERSHIP_BYTES_MAX);
    membership_print(&ds->control.membership, &text);
    rc = text.full ? err_set(eb, ERR_TOO_LARGE, "the list of disks is over %u KiB",
                             MEMBERSHIP_BYTES_MAX >> 10)
                   : rt_file_store(ds->control.state, MEMBERSHIP_FILE, text.at, text.len,
                                   0600, eb);
    POINT(MOVE_SAVED);
    if (rc == ERR_OK)
        ds->control.stored_converged = converged;
    buf_fini(&text);
    rt_sem_release(&ds->control.storing);
    if (rc == ERR_OK && ds->control.on_list != NULL)
        ds->control.on_list(ds->control.on_list_arg);
    rt_shield_end(&shield);
    return rc;
}

void
replica_publish_state(struct disks *ds, unsigned i, enum replica_state state)
{
    assert(rt_loop_index() == 0);
    assert(i < atomic_load(&ds->slot_count));

    atomic_store(&ds->slots[i].state, state);
    ds->control.states++;
    set_changed(ds);
    writers_next(ds);
}

enum err
replica_set_state(struct disks *ds, unsigned i, enum replica_state state,
                  struct errbuf *eb)
{
    enum replica_state before = ds->slots[i].in_list;
    enum err rc;

    assert(rt_loop_index() == 0);
    assert(i < atomic_load(&ds->slot_count));
    assert(state <= REPLICA_REMOVED);
    ds->slots[i].in_list = state;
    rc = membership_store(ds, eb);
    if (rc != ERR_OK) {
        ds->slots[i].in_list = before;
        return rc;
    }
    replica_publish_state(ds, i, state);
    return ERR_OK;
}

struct diverge {
    struct disks *ds;
    struct errbuf *eb;
    enum err rc;
};

static void
diverge(void *arg)
{
    struct diverge *u = arg;
    struct disks *ds = u->ds;

    assert(rt_loop_index() == 0);
    /* Writers lock their keys before anything may move. The rebalancer waits for those that
     * began without the lock (rebalancer.c). */
    atomic_store(&ds->guarded, true);
    atomic_store(&ds->converged, false);
    ds->control.after_crash = false;
    set_changed(ds);
    rebalancer_wake(ds);
    u->rc = ds->control.stored_converged ? membership_store(ds, u->eb) : ERR_OK;
}

enum err
set_diverge(struct disks *ds, struct errbuf *eb)
{
    struct diverge u = {.ds = ds, .eb = eb, .rc = ERR_CANCELLED};
    struct rt_shield shield;
    enum err rc;

    rt_shield_begin(&shield);
    rc = rt_call(0, diverge, &u);
    rt_shield_end(&shield);
    return rc == ERR_OK ? u.rc : rc;
}
