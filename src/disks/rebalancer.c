/* The rebalancer: its fiber moves objects to where their key's order says. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "disks/rebalancer.h"
#include "disks/version_tombstone.h"
#include "rt/point.h"
#include "rt/time.h"

#define TICK_MS        250
#define RETRY_MS       10000u /* after a pass that left keys unreconciled */
#define ENTRIES_A_TIME 256u
#define SCRATCH_BYTES  MIB(2)
#define MOVE_RATE      MIB(128) /* bytes a second, the default */

/* ---- waking ---- */

struct wake_msg {
    struct rt_msg msg;
    struct disks *ds;
};

static void
on_wake(struct rt_msg *m)
{
    struct wake_msg *w = CONTAINER_OF(m, struct wake_msg, msg);
    struct rebalancer *rb = w->ds->rebalancer;

    if (rb != NULL) {
        atomic_store(&rb->woken, false);
        rt_cond_broadcast(&rb->wake);
    }
    free(w);
}

void
rebalancer_wake(struct disks *ds)
{
    struct wake_msg *w;

    atomic_fetch_add(&ds->rebalancer->wishes, 1);
    if (atomic_exchange(&ds->rebalancer->woken, true))
        return; /* one message is in flight */
    w = xcalloc(1, sizeof *w);
    w->msg.fn = on_wake;
    w->ds = ds;
    rt_post(0, &w->msg);
}

/* ---- one key ---- */

void
rebalancer_guard(struct disks *ds)
{
    assert(rt_loop_index() == 0);

    if (!atomic_exchange(&ds->guarded, true))
        set_changed(ds);
    changes_before_end(ds);
}

static void
rebalancer_count_failure(struct rebalancer *rb, const struct disks_key *k, enum err rc,
                         const struct errbuf *eb)
{
    assert(rc != ERR_OK);

    rb->now.failed++;
    snprintf(rb->now.why, sizeof rb->now.why, "%s", eb->text);
    if (rb->now.failed <= 10)
        LOG(LOG_WARN, "disks.move", eb->text, L_U64("bucket", k->at.bucket),
            L_SPAN("key", k->at.key), L_TEXT("code", err_name(rc)));
}

/* False if the pass must end: its placement is that of its beginning, and a slot has changed
 * since. */
static bool
pass_goes_on(const struct disks *ds)
{
    return !ds->rebalancer->stopping &&
           ds->rebalancer->states_of_pass == ds->control.states;
}

/* Limits the rate to `rebalance_rate`. If a pass ends here, the next one waits for the rest. */
static void
throttle(struct disks *ds, uint64_t bytes, bool of_pass)
{
    struct rebalancer *rb = ds->rebalancer;
    uint64_t rate =
        ds->control.rebalance_rate > 0 ? ds->control.rebalance_rate : MOVE_RATE;
    uint64_t now = rt_now_ns();

    rb->throttle_ns = MAX(rb->throttle_ns, now) + bytes * 1000 / rate * 1000000;
    while (rb->throttle_ns > now + 1000000u && (!of_pass || pass_goes_on(ds))) {
        if (rt_sleep_ms(MIN((rb->throttle_ns - now) / 1000000u, (uint64_t)TICK_MS)) !=
            ERR_OK)
            return; /* cancelled: the caller checks `stopping` */
        now = rt_now_ns();
    }
}

bool
rebalancer_reconcile(struct disks *ds, const struct disks_key *k, uint64_t damaged,
                     bool repair)
{
    struct errbuf eb = {{0}};
    struct reconciled done = {0};
    enum err rc = key_reconcile(ds, k, damaged, &done, &eb);

    assert(rt_loop_index() == 0);
    assert(atomic_load(&ds->guarded));
    if (rc != ERR_OK)
        rebalancer_count_failure(ds->rebalancer, k, rc, &eb);
    else if (repair)
        atomic_fetch_add(&ds->rebalancer->repaired, 1);
    if (done.bytes > 0) {
        ds->rebalancer->now.moved++;
        ds->rebalancer->now.moved_bytes += done.bytes;
        ds->rebalancer->now.copied_bytes += done.bytes;
    }
    throttle(ds, done.bytes, !repair);
    return done.changed || rc != ERR_OK;
}

/* ---- a pass ---- */

struct pass {
    struct disks *ds;
    struct arena *scratch; /* owned */
    uint64_t wrong;        /* keys that were misplaced */
    bool uploads_astray, broken;
};

/* True if the entry needs no work. Takes no lock: a finding is checked again under the key's
 * lock. */
static bool
entry_is_right(struct disks *ds, const struct disks_key *k, unsigned slot,
               const struct entry *entry)
{
    struct places p;
    bool placed = false;

    assert(slot < atomic_load(&ds->slot_count));
    places_of(ds, k, &p);
    for (unsigned i = 0; i < p.placed; i++)
        placed |= p.at[i] == slot;
    if (!placed || (entry->flags & (ENTRY_TOMBSTONE | ENTRY_HISTORY)) != 0)
        return false; /* for a key with versions the current one says nothing of the others */
    for (unsigned i = 0; i < p.placed; i++) {
        struct replica *d;
        struct entry other;
        enum err rc;

        if (p.at[i] == slot)
            continue;
        d = replica_enter(ds, p.at[i]);
        rc = d != NULL ? replica_lookup_any(d, &k->at, &other, NULL) : ERR_UNAVAILABLE;
        replica_leave(d);
        if (rc != ERR_OK || other.version.epoch != entry->version.epoch ||
            other.version.counter != entry->version.counter)
            return false;
    }
    return true;
}

static void
walk_bucket(struct pass *ps, const struct disks_bucket *b, unsigned slot)
{
    struct disks *ds = ps->ds;
    struct rebalancer *rb = ds->rebalancer;
    char last[STORE_KEY_MAX];
    struct span after = {last, 0};
    bool more = true;

    assert(slot < atomic_load(&ds->slot_count));
    assert(b->id != 0);
    while (more && pass_goes_on(ds)) {
        struct replica *d = replica_enter(ds, slot);
        struct store_entry *entries = NULL;
        struct errbuf eb = {{0}};
        uint32_t count = 0;
        enum err rc;

        if (d == NULL)
            return;
        arena_reset(ps->scratch);
        POINT(MOVE_LISTED);
        rc = replica_list_any(d, b->id, after, false, ENTRIES_A_TIME, ps->scratch,
                              &entries, &count, &more, &eb);
        replica_leave(d);
        if (rc != ERR_OK) {
            ps->broken = true;
            rebalancer_count_failure(rb, &(struct disks_key){.at.bucket = b->id}, rc,
                                     &eb);
            return;
        }
        for (uint32_t i = 0; i < count && pass_goes_on(ds); i++) {
            struct disks_key k = {
                .at = {.bucket = b->id,
                       .immutable_name = b->immutable_name,
                       .key = entries[i].key},
                .copies = (entries[i].entry.flags & ENTRY_CACHED) != 0 ? 1 : b->copies};

            rb->now.seen++;
            if (!entry_is_right(ds, &k, slot, &entries[i].entry))
                ps->wrong += rebalancer_reconcile(ds, &k, 0, false);
        }
        if (count > 0) {
            after.len = entries[count - 1].key.len;
            memcpy(last, entries[count - 1].key.at, after.len);
        }
        rt_yield();
    }
}

static bool
reconcile_tombstone(void *arg, const struct disks_key *k, const struct upload_id *u)
{
    struct pass *ps = arg;
    uint64_t failed = ps->ds->rebalancer->now.failed;
    struct errbuf eb = {{0}};

    if (u != NULL) {
        enum err rc = upload_end_everywhere(ps->ds, k, u, &eb);

        ps->broken |= rc != ERR_OK;
        if (rc != ERR_OK)
            rebalancer_count_failure(ps->ds->rebalancer, k, rc, &eb);
        return rc == ERR_OK;
    }
    ps->wrong += rebalancer_reconcile(ps->ds, k, 0, false);
    return ps->ds->rebalancer->now.failed == failed && pass_goes_on(ps->ds);
}

/* Handles versions that ended while a disk was away. */
static void
walk_ended(struct pass *ps, const struct disks_bucket *b, unsigned slot)
{
    struct errbuf eb = {{0}};
    enum err rc = version_tombstones_walk(ps->ds, b, slot, reconcile_tombstone, ps, &eb);

    assert(b->id != 0);
    if (rc == ERR_OK)
        return;
    ps->broken = true;
    rebalancer_count_failure(ps->ds->rebalancer, &(struct disks_key){.at.bucket = b->id},
                             rc, &eb);
}

/* Checks that uploads in progress are on the right disks. They stay where they were begun; if
 * one is misplaced, the set does not converge. */
static void
look_at_upload(struct pass *ps, const struct disks_bucket *b, unsigned slot,
               const struct store_upload *u)
{
    struct disks *ds = ps->ds;
    struct disks_key k = {
        .at = {.bucket = b->id, .immutable_name = b->immutable_name, .key = u->key},
        .copies = b->copies};
    struct errbuf eb = {{0}};
    struct places p;
    bool placed = false;
    enum err rc;

    assert(slot < atomic_load(&ds->slot_count));
    places_of(ds, &k, &p);
    for (unsigned j = 0; j < p.placed; j++)
        placed |= p.at[j] == slot;
    ps->uploads_astray |= !placed;
    rc = upload_end_done(ds, &k, &u->id, slot, &eb);
    if (rc != ERR_OK) {
        ps->broken = true;
        rebalancer_count_failure(ds->rebalancer, &k, rc, &eb);
    }
}

/* Where a page ended. */
struct upload_place {
    char key[STORE_KEY_MAX];
    size_t len;
    struct upload_id id;
};

/* Visits one page of uploads. True: there are more after *at. */
static bool
look_for_some_uploads(struct pass *ps, const struct disks_bucket *b, unsigned slot,
                      struct upload_place *at)
{
    struct replica *d = replica_enter(ps->ds, slot);
    struct store_upload *found = NULL;
    struct errbuf eb = {{0}};
    uint32_t count = 0;
    bool more = false;
    enum err rc;

    assert(at->len <= STORE_KEY_MAX);
    if (d == NULL)
        return false;
    arena_reset(ps->scratch);
    rc = replica_upload_list(d, b->id, (struct span){at->key, at->len},
                             at->len > 0 ? &at->id : NULL, ENTRIES_A_TIME, ps->scratch,
                             &found, &count, &more, &eb);
    replica_leave(d);
    if (rc != ERR_OK) {
        ps->broken = true;
        rebalancer_count_failure(ps->ds->rebalancer,
                                 &(struct disks_key){.at.bucket = b->id}, rc, &eb);
        return false;
    }
    for (uint32_t i = 0; i < count && pass_goes_on(ps->ds); i++)
        look_at_upload(ps, b, slot, &found[i]);
    if (count == 0)
        return false;
    at->len = found[count - 1].key.len;
    memcpy(at->key, found[count - 1].key.at, at->len);
    at->id = found[count - 1].id;
    return more;
}

static void
look_for_uploads(struct pass *ps, const struct disks_bucket *b, unsigned slot)
{
    struct upload_place at = {.len = 0};

    while (look_for_some_uploads(ps, b, slot, &at) && pass_goes_on(ps->ds))
        rt_yield();
}

static void
end_copies(struct pass *ps, const struct disks_bucket *b, unsigned slot)
{
    struct errbuf eb = {{0}};
    enum err rc;

    arena_reset(ps->scratch);
    rc = copy_uploads_abort(ps->ds, b, slot, ps->scratch, &eb);
    if (rc == ERR_OK)
        return;
    ps->broken = true;
    rebalancer_count_failure(ps->ds->rebalancer, &(struct disks_key){.at.bucket = b->id},
                             rc, &eb);
}

/* Resolves prepared versions before copying: those need no copy. */
static void
resolve_orphans(struct pass *ps)
{
    struct errbuf eb = {{0}};
    enum err rc = prepared_resolve_orphans(ps->ds, &eb);

    if (rc == ERR_OK)
        return;
    ps->broken = true;
    rebalancer_count_failure(ps->ds->rebalancer, &(struct disks_key){0}, rc, &eb);
}

static uint64_t
objects_in_all(struct disks *ds)
{
    struct store_stat st;

    disks_stat(ds, &st);
    return st.objects;
}

/* True: nothing was misplaced, and nothing in progress can misplace anything. */
static bool
rebalancer_pass(struct disks *ds)
{
    struct rebalancer *rb = ds->rebalancer;
    struct pass ps = {.ds = ds};
    bool old_writers;
    uint64_t bucket = 0;
    struct disks_bucket b;
    uint8_t all[DISKS_MAX];
    unsigned n;

    assert(rt_loop_index() == 0);
    assert(!is_sole(ds));
    rb->wishes_of_pass = atomic_load(&rb->wishes);
    rb->states_of_pass = ds->control.states;
    rebalancer_guard(ds);
    old_writers = writers_old(ds);
    rb->now.pass = ++rb->passes;
    rb->now.seen = rb->now.failed = 0;
    rb->now.total = objects_in_all(ds);
    rb->now.began_ms = rt_now_ns() / 1000000u;
    ps.scratch = arena_new(KIB(64), SCRATCH_BYTES);
    n = places_all(ds, all);
    resolve_orphans(&ps);
    while (pass_goes_on(ds) &&
           ds->control.next_bucket(ds->control.buckets_arg, bucket, &b)) {
        for (unsigned i = 0; i < n && pass_goes_on(ds); i++)
            walk_ended(&ps, &b, all[i]);
        for (unsigned i = 0; i < n && pass_goes_on(ds); i++) {
            walk_bucket(&ps, &b, all[i]);
            look_for_uploads(&ps, &b, all[i]);
        }
        for (unsigned i = 0; i < n && pass_goes_on(ds); i++)
            end_copies(&ps, &b, all[i]);
        bucket = b.id;
        disks_bucket_fini(&b);
    }
    arena_free(&ps.scratch);
    rb->now.waiting = old_writers || ps.uploads_astray;
    return ps.wrong == 0 && !ps.broken && !rb->now.waiting && pass_goes_on(ds);
}

/* ---- converging ---- */

/* One disk is left and none is missed: from now on the set behaves as if it had always been
 * alone. */
static void
collapse_to_one(struct disks *ds)
{
    unsigned count = atomic_load(&ds->slot_count), here = 0, last = 0;

    assert(rt_loop_index() == 0);
    assert(atomic_load(&ds->converged));
    for (unsigned i = 0; i < count; i++) {
        enum replica_state s = replica_state(&ds->slots[i]);

        if (s == REPLICA_OUT || s == REPLICA_FROZEN)
            return;
        if (s == REPLICA_ACTIVE) {
            here++;
            last = i;
        } else if (s == REPLICA_DRAINING) {
            return;
        }
    }
    if (here == 1) {
        atomic_store(&ds->sole, last + 1);
    }
}

static void
rebalancer_converge(struct disks *ds)
{
    struct rebalancer *rb = ds->rebalancer;
    struct errbuf eb = {{0}};

    assert(rt_loop_index() == 0);
    assert(!is_sole(ds));
    /* Nothing switches between this check and the change: a later change that makes the set
     * diverge is noticed below. */
    if (atomic_load(&rb->wishes) != rb->wishes_of_pass || atomic_load(&rb->holds) > 0)
        return;
    atomic_store(&ds->converged, true);
    if (membership_store(ds, &eb) != ERR_OK) {
        atomic_store(&ds->converged, false);
        LOG(LOG_WARN, "disks.list", eb.text, L_U64("pass", rb->passes));
        rb->retry_at_ms = rt_now_ns() / 1000000u + RETRY_MS;
        return;
    }
    if (!atomic_load(&ds->converged)) /* something changed during the write */
        return;
    unguard(ds);
    collapse_to_one(ds);
    ds->control.after_crash = false;
    ds->control.closed_well = true;
    LOG(LOG_INFO, "disks.converged", "every object lies where it should",
        L_U64("objects", rb->now.seen), L_U64("moved", rb->now.moved),
        L_U64("bytes", rb->now.moved_bytes));
    rb->now.pass = rb->now.moved = rb->now.moved_bytes = 0;
    rb->now.why[0] = '\0';
}

static void
work(struct disks *ds)
{
    struct rebalancer *rb = ds->rebalancer;

    repair_run_queued(ds);
    if (atomic_exchange(&rb->repairs_lost, false)) {
        struct errbuf eb = {{0}};

        if (set_diverge(ds, &eb) != ERR_OK)
            LOG(LOG_WARN, "disks.list", eb.text, L_U64("pass", rb->passes));
    }
    if (atomic_load(&ds->converged)) {
        if (atomic_load(&ds->guarded) && atomic_load(&rb->repairs) == 0)
            unguard(ds);
        return;
    }
    if (ds->control.next_bucket == NULL || (rt_now_ns() / 1000000u < rb->retry_at_ms &&
                                            rb->states_of_pass == ds->control.states))
        return;
    if (!rebalancer_pass(ds)) {
        rb->retry_at_ms = rb->now.failed > 0 ? rt_now_ns() / 1000000u + RETRY_MS : 0;
        return;
    }
    if (!rt_sem_try_acquire(&ds->control.changing))
        return; /* the set is changing right now */
    rebalancer_converge(ds);
    rt_sem_release(&ds->control.changing);
}

/* ---- the fibers ---- */

static void
look_at_health(struct disks *ds)
{
    assert(rt_loop_index() == 0);

    for (unsigned i = 0; i < atomic_load(&ds->slot_count); i++) {
        struct replica_slot *s = &ds->slots[i];
        enum replica_state state = replica_state(s);
        struct store_health h;

        if (s->at.store == NULL || state == REPLICA_OUT || state == REPLICA_REMOVED ||
            s->in_list == REPLICA_REMOVED) /* it is being removed */
            continue;
        store_health(s->at.store, &h);
        if (h.state == STORE_FAILED)
            replica_take_out(ds, i);
        else if (h.state == STORE_READ_ONLY && state != REPLICA_FROZEN)
            replica_freeze(ds, i);
    }
}

/* Handles deletes after a crash. An acknowledged delete may not have reached every copy when
 * power failed. The first disk then has a tombstone, which hides the copies from look-ups, and a
 * pass brings it to them. Without copies there is nothing to bring. Acknowledged writes are on
 * all their disks. So the list on disk still says that the set is converged, and a disk that is
 * lost meanwhile is not missed. */
static void
look_after_a_crash(struct disks *ds)
{
    struct disks_bucket b;
    uint64_t after = 0;
    bool copies = false;

    assert(rt_loop_index() == 0);
    if (ds->control.closed_well)
        return;
    while (!copies && ds->control.next_bucket(ds->control.buckets_arg, after, &b)) {
        after = b.id;
        copies = b.copies > 1;
        disks_bucket_fini(&b);
    }
    if (copies || !ds->control.after_crash)
        return; /* a pass follows */
    ds->control.closed_well = true;
    ds->control.after_crash = false;
    atomic_store(&ds->converged, true);
    set_changed(ds);
}

/* Resolves prepared versions, and leaves the rest to passes. False: a decision may not be
 * durable yet; try again. */
static bool
resolve_leftovers(struct disks *ds)
{
    struct errbuf eb = {{0}};

    if (prepared_resolve(ds, &eb) != ERR_OK) {
        LOG(LOG_WARN, "disks.prepared", eb.text, L_U64("pass", ds->rebalancer->passes));
        if (set_diverge(ds, &eb) != ERR_OK)
            LOG(LOG_WARN, "disks.list", eb.text, L_U64("pass", ds->rebalancer->passes));
    }
    if (prepared_flush(ds, &eb) == ERR_OK)
        return true;
    LOG(LOG_WARN, "disks.prepared", eb.text, L_U64("pass", ds->rebalancer->passes));
    return false;
}

/* False: the fiber ends. */
static bool
wait_a_tick(struct disks *ds, bool always)
{
    struct rebalancer *rb = ds->rebalancer;

    return !rb->stopping &&
           rt_cond_wait(&rb->wake, always || !is_sole(ds)
                                       ? deadline_in_ms(TICK_MS)
                                       : DEADLINE_NEVER) != ERR_CANCELLED;
}

/* Resolves prepared versions in a fiber of its own. A version whose coordinator is lost stays
 * unreadable until then, and a pass may be copying a large object, or waiting for its next try. */
static void
decide(void *arg)
{
    struct disks *ds = arg;
    struct errbuf eb = {{0}};

    rebalancer_guard(ds);
    if (prepared_resolve_orphans(ds, &eb) != ERR_OK)
        LOG(LOG_WARN, "disks.prepared", eb.text, L_U64("pass", ds->rebalancer->passes));
}

void
rebalancer_resolve_prepared(struct disks *ds)
{
    if (ds->control.next_bucket != NULL && !ds->rebalancer->stopping &&
        rt_group_start(&ds->rebalancer->group, decide, ds) != ERR_OK)
        LOG(LOG_WARN, "disks.prepared", "out of fibers: the next pass decides",
            L_U64("pass", ds->rebalancer->passes));
}

/* Runs beside the pass, which takes hours: a disk that fails meanwhile orders no write from the
 * next tick on. */
static void
watch_run(void *arg)
{
    struct disks *ds = arg;

    do {
        if (!is_sole(ds))
            look_at_health(ds);
    } while (wait_a_tick(ds, false));
}

static void
rebalancer_run(void *arg)
{
    struct disks *ds = arg;
    struct rebalancer *rb = ds->rebalancer;
    bool leftovers = true;

    do {
        if (!is_sole(ds)) {
            if (leftovers && ds->control.next_bucket != NULL) {
                look_after_a_crash(ds);
                leftovers = !resolve_leftovers(ds);
            }
            if (!leftovers)
                work(ds);
        }
    } while (!rb->stopping && wait_a_tick(ds, replicas_close_removed(ds)));
}

enum err
rebalancer_start(struct disks *ds, struct errbuf *eb)
{
    struct rebalancer *rb = xcalloc(1, sizeof *rb);
    enum err rc;

    assert(rt_loop_index() == 0);
    assert(ds->rebalancer == NULL);
    rt_cond_init(&rb->wake);
    lock_init(&rb->lock, LOCK_KEYS);
    list_init(&rb->queue);
    ds->rebalancer = rb;
    rt_group_begin(&rb->group);
    rc = rt_group_start(&rb->group, watch_run, ds);
    if (rc == ERR_OK)
        rc = rt_group_start(&rb->group, rebalancer_run, ds);
    return rc == ERR_OK ? rc : err_set(eb, rc, "no fiber to look after the disks");
}

void
rebalancer_stop(struct disks *ds)
{
    struct rebalancer *rb = ds->rebalancer;

    if (rb == NULL)
        return;
    rb->stopping = true;
    rt_group_cancel(&rb->group);
    rt_group_join(&rb->group);
    while (rb->waited_for > 0 ||
           atomic_load(&rb->woken)) /* the message has the address of `rb` */
        rt_yield();
    ds->rebalancer = NULL;
    repair_forget_queued(rb);
    lock_fini(&rb->lock);
    free(rb);
}

void
rebalancer_status(struct disks *ds, struct disks_status *out)
{
    struct rebalancer *rb = ds->rebalancer;

    out->pass = rb->now.pass;
    out->seen = rb->now.seen;
    /* A copy that the pass made is looked at again on its new disk. */
    out->total = MAX(rb->now.total, rb->now.seen);
    out->elapsed_ms = rb->now.pass > 0 ? rt_now_ns() / 1000000u - rb->now.began_ms : 0;
    out->moved = rb->now.moved;
    out->moved_bytes = rb->now.moved_bytes;
    out->copied_bytes = rb->now.copied_bytes;
    out->failed = rb->now.failed;
    out->waiting = rb->now.waiting;
    out->repairs = atomic_load(&rb->repairs);
    out->repaired = atomic_load(&rb->repaired);
    snprintf(out->why, sizeof out->why, "%s", rb->now.why);
}

uint64_t
disks_copied_bytes(struct disks *ds)
{
    return ds->rebalancer != NULL ? ds->rebalancer->now.copied_bytes : 0;
}

void
rebalancer_hold(struct disks *ds, int more)
{
    atomic_fetch_add(&ds->rebalancer->holds, (uint32_t)more);
    rebalancer_wake(ds);
}
