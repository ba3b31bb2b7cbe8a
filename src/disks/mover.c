/* The fiber that brings objects to where they should be. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "disks/ended.h"
#include "disks/mover.h"
#include "rt/point.h"
#include "rt/time.h"

#define TICK_MS       250
#define RETRY_MS      10000u /* after a pass that could not put everything right */
#define ROWS_A_TIME   256u
#define SCRATCH_BYTES MIB(2)
#define MOVE_RATE     MIB(128) /* bytes a second, where nothing else was said */

/* ---- waking ---- */

struct wake_msg {
    struct rt_msg msg;
    struct disks *ds;
};

static void
on_wake(struct rt_msg *m)
{
    struct wake_msg *w = CONTAINER_OF(m, struct wake_msg, msg);
    struct mover *mv = w->ds->mover;

    if (mv != NULL) {
        atomic_store(&mv->woken, false);
        rt_cond_broadcast(&mv->wake);
    }
    free(w);
}

void
mover_wake(struct disks *ds)
{
    struct wake_msg *w;

    atomic_fetch_add(&ds->mover->wishes, 1);
    if (atomic_exchange(&ds->mover->woken, true))
        return; /* one message is on its way */
    w = xcalloc(1, sizeof *w);
    w->msg.fn = on_wake;
    w->ds = ds;
    rt_post(0, &w->msg);
}

/* ---- one key ---- */

void
mover_guard(struct disks *ds)
{
    if (!atomic_exchange(&ds->guarded, true))
        set_changed(ds);
    changes_before_end(ds);
}

static void
count_failure(struct mover *mv, const struct disks_key *k, enum err rc,
              const struct errbuf *eb)
{
    mv->now.failed++;
    snprintf(mv->now.why, sizeof mv->now.why, "%s", eb->text);
    if (mv->now.failed <= 10)
        LOG(LOG_WARN, "disks.move", eb->text, L_U64("bucket", k->at.bucket),
            L_SPAN("key", k->at.key), L_TEXT("code", err_name(rc)));
}

/* The places that a pass holds are those of its beginning. */
static bool
pass_goes_on(const struct disks *ds)
{
    return !ds->mover->stopping && ds->mover->states_of_pass == ds->keeper.states;
}

/* No more bytes a second than we may; what a pass that ends here owes the next one waits for. */
static void
throttle(struct disks *ds, uint64_t bytes, bool of_pass)
{
    struct mover *mv = ds->mover;
    uint64_t rate = ds->keeper.move_rate > 0 ? ds->keeper.move_rate : MOVE_RATE;
    uint64_t now = rt_now_ns();

    mv->throttle_ns = MAX(mv->throttle_ns, now) + bytes * 1000 / rate * 1000000;
    while (mv->throttle_ns > now + 1000000u && (!of_pass || pass_goes_on(ds))) {
        if (rt_sleep_ms(MIN((mv->throttle_ns - now) / 1000000u, (uint64_t)TICK_MS)) !=
            ERR_OK)
            return; /* cancelled: the caller looks at `stopping` */
        now = rt_now_ns();
    }
}

bool
mover_put_right(struct disks *ds, const struct disks_key *k, uint64_t damaged,
                bool repair)
{
    struct errbuf eb = {{0}};
    struct put_right done = {0};
    enum err rc = key_put_right(ds, k, damaged, &done, &eb);

    if (rc != ERR_OK)
        count_failure(ds->mover, k, rc, &eb);
    else if (repair)
        atomic_fetch_add(&ds->mover->repaired, 1);
    if (done.bytes > 0) {
        ds->mover->now.moved++;
        ds->mover->now.moved_bytes += done.bytes;
        ds->mover->now.copied_bytes += done.bytes;
    }
    throttle(ds, done.bytes, !repair);
    return done.changed || rc != ERR_OK;
}

/* ---- a pass ---- */

struct pass {
    struct disks *ds;
    struct arena *scratch; /* owned */
    uint64_t wrong;        /* keys that were not where they should be */
    bool uploads_astray, broken;
};

/* Is everything about this row as it should be? No lock: what is wrong is looked at again under it. */
static bool
row_is_right(struct disks *ds, const struct disks_key *k, unsigned slot,
             const struct row *row)
{
    struct places p;
    bool placed = false;

    places_of(ds, k, &p);
    for (unsigned i = 0; i < p.placed; i++)
        placed |= p.at[i] == slot;
    if (!placed || (row->flags & (ROW_TOMBSTONE | ROW_HISTORY)) != 0)
        return false; /* of a key with versions the current one does not say what the others are */
    for (unsigned i = 0; i < p.placed; i++) {
        struct disk *d;
        struct row other;
        enum err rc;

        if (p.at[i] == slot)
            continue;
        d = slot_enter(ds, p.at[i]);
        rc = d != NULL ? disk_lookup_any(d, &k->at, &other, NULL) : ERR_UNAVAILABLE;
        if (d != NULL)
            slot_leave(ds, p.at[i]);
        if (rc != ERR_OK || other.version.epoch != row->version.epoch ||
            other.version.counter != row->version.counter)
            return false;
    }
    return true;
}

static void
walk_bucket(struct pass *ps, const struct disks_bucket *b, unsigned slot)
{
    struct disks *ds = ps->ds;
    struct mover *mv = ds->mover;
    char last[DISK_KEY_MAX];
    struct span after = {last, 0};
    bool more = true;

    while (more && pass_goes_on(ds)) {
        struct disk *d = slot_enter(ds, slot);
        struct disk_entry *rows = NULL;
        struct errbuf eb = {{0}};
        uint32_t count = 0;
        enum err rc;

        if (d == NULL)
            return;
        arena_reset(ps->scratch);
        POINT(MOVE_LISTED);
        rc = disk_list_any(d, b->id, after, false, ROWS_A_TIME, ps->scratch, &rows,
                           &count, &more, &eb);
        slot_leave(ds, slot);
        if (rc != ERR_OK) {
            ps->broken = true;
            count_failure(mv, &(struct disks_key){.at.bucket = b->id}, rc, &eb);
            return;
        }
        for (uint32_t i = 0; i < count && pass_goes_on(ds); i++) {
            struct disks_key k = {
                .at = {.bucket = b->id, .birth_name = b->birth_name, .key = rows[i].key},
                .copies = (rows[i].row.flags & ROW_CACHED) != 0 ? 1 : b->copies};

            mv->now.seen++;
            if (!row_is_right(ds, &k, slot, &rows[i].row))
                ps->wrong += mover_put_right(ds, &k, 0, false);
        }
        if (count > 0) {
            after.len = rows[count - 1].key.len;
            memcpy(last, rows[count - 1].key.at, after.len);
        }
        rt_yield();
    }
}

static bool
put_marked_right(void *arg, const struct disks_key *k, const struct upload_id *u)
{
    struct pass *ps = arg;
    uint64_t failed = ps->ds->mover->now.failed;
    struct errbuf eb = {{0}};

    if (u != NULL) {
        enum err rc = upload_end_everywhere(ps->ds, k, u, &eb);

        ps->broken |= rc != ERR_OK;
        if (rc != ERR_OK)
            count_failure(ps->ds->mover, k, rc, &eb);
        return rc == ERR_OK;
    }
    ps->wrong += mover_put_right(ps->ds, k, 0, false);
    return ps->ds->mover->now.failed == failed && pass_goes_on(ps->ds);
}

/* Versions that were ended while a disk was away. */
static void
walk_ended(struct pass *ps, const struct disks_bucket *b, unsigned slot)
{
    struct errbuf eb = {{0}};
    enum err rc = ended_walk(ps->ds, b, slot, put_marked_right, ps, &eb);

    if (rc == ERR_OK)
        return;
    ps->broken = true;
    count_failure(ps->ds->mover, &(struct disks_key){.at.bucket = b->id}, rc, &eb);
}

/* Uploads in progress stay where they were begun; where that is no longer right, the set does not settle. */
static void
look_at_upload(struct pass *ps, const struct disks_bucket *b, unsigned slot,
               const struct disk_upload *u)
{
    struct disks *ds = ps->ds;
    struct disks_key k = {
        .at = {.bucket = b->id, .birth_name = b->birth_name, .key = u->key},
        .copies = b->copies};
    struct errbuf eb = {{0}};
    struct places p;
    bool placed = false;
    enum err rc;

    places_of(ds, &k, &p);
    for (unsigned j = 0; j < p.placed; j++)
        placed |= p.at[j] == slot;
    ps->uploads_astray |= !placed;
    rc = upload_end_done(ds, &k, &u->id, slot, &eb);
    if (rc != ERR_OK) {
        ps->broken = true;
        count_failure(ds->mover, &k, rc, &eb);
    }
}

/* Where a page ended. */
struct upload_place {
    char key[DISK_KEY_MAX];
    size_t len;
    struct upload_id id;
};

/* One page of them. True: there is more behind *at. */
static bool
look_for_some_uploads(struct pass *ps, const struct disks_bucket *b, unsigned slot,
                      struct upload_place *at)
{
    struct disk *d = slot_enter(ps->ds, slot);
    struct disk_upload *found = NULL;
    struct errbuf eb = {{0}};
    uint32_t count = 0;
    bool more = false;
    enum err rc;

    if (d == NULL)
        return false;
    arena_reset(ps->scratch);
    rc = disk_upload_list(d, b->id, (struct span){at->key, at->len},
                          at->len > 0 ? &at->id : NULL, ROWS_A_TIME, ps->scratch, &found,
                          &count, &more, &eb);
    slot_leave(ps->ds, slot);
    if (rc != ERR_OK) {
        ps->broken = true;
        count_failure(ps->ds->mover, &(struct disks_key){.at.bucket = b->id}, rc, &eb);
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
    rc = copies_give_up(ps->ds, b, slot, ps->scratch, &eb);
    if (rc == ERR_OK)
        return;
    ps->broken = true;
    count_failure(ps->ds->mover, &(struct disks_key){.at.bucket = b->id}, rc, &eb);
}

/* Before anything is copied: what only waits for its decision need not be. */
static void
end_forgotten(struct pass *ps)
{
    struct errbuf eb = {{0}};
    enum err rc = undecided_end_forgotten(ps->ds, &eb);

    if (rc == ERR_OK)
        return;
    ps->broken = true;
    count_failure(ps->ds->mover, &(struct disks_key){0}, rc, &eb);
}

static uint64_t
objects_in_all(struct disks *ds)
{
    struct disk_stat st;

    disks_stat(ds, &st);
    return st.objects;
}

/* True: nothing was wrong, and nothing that is under way can make it so. */
static bool
run_pass(struct disks *ds)
{
    struct mover *mv = ds->mover;
    struct pass ps = {.ds = ds};
    bool old_writers;
    uint64_t bucket = 0;
    struct disks_bucket b;
    uint8_t all[DISKS_MAX];
    unsigned n;

    mv->wishes_of_pass = atomic_load(&mv->wishes);
    mv->states_of_pass = ds->keeper.states;
    mover_guard(ds);
    old_writers = writers_old(ds);
    mv->now.pass = ++mv->passes;
    mv->now.seen = mv->now.failed = 0;
    mv->now.total = objects_in_all(ds);
    mv->now.began_ms = rt_now_ns() / 1000000u;
    ps.scratch = arena_new(KIB(64), SCRATCH_BYTES);
    n = places_all(ds, all);
    end_forgotten(&ps);
    while (pass_goes_on(ds) &&
           ds->keeper.next_bucket(ds->keeper.buckets_arg, bucket, &b)) {
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
    mv->now.waiting = old_writers || ps.uploads_astray;
    return ps.wrong == 0 && !ps.broken && !mv->now.waiting && pass_goes_on(ds);
}

/* ---- settling ---- */

/* One disk is left, and nobody is missed: from here on it is as if there had never been more. */
static void
perhaps_only_one(struct disks *ds)
{
    unsigned count = atomic_load(&ds->slot_count), here = 0, last = 0;

    for (unsigned i = 0; i < count; i++) {
        enum slot_state s = slot_state(&ds->slots[i]);

        if (s == SLOT_OUT || s == SLOT_FROZEN)
            return;
        if (s == SLOT_ACTIVE) {
            here++;
            last = i;
        } else if (s == SLOT_DRAINING) {
            return;
        }
    }
    if (here == 1) {
        atomic_store(&ds->one_slot, last);
        atomic_store(&ds->one, ds->slots[last].disk);
    }
}

static void
settle(struct disks *ds)
{
    struct mover *mv = ds->mover;
    struct errbuf eb = {{0}};

    /* Nothing switches from here to there: whoever unsettles the set later is seen below. */
    if (atomic_load(&mv->wishes) != mv->wishes_of_pass || atomic_load(&mv->holds) > 0)
        return;
    atomic_store(&ds->settled, true);
    if (roster_store(ds, &eb) != ERR_OK) {
        atomic_store(&ds->settled, false);
        LOG(LOG_WARN, "disks.list", eb.text, L_U64("pass", mv->passes));
        mv->retry_at_ms = rt_now_ns() / 1000000u + RETRY_MS;
        return;
    }
    if (!atomic_load(&ds->settled)) /* something happened while that was written */
        return;
    unguard(ds);
    perhaps_only_one(ds);
    ds->keeper.after_crash = false;
    ds->keeper.closed_well = true;
    LOG(LOG_INFO, "disks.settled", "every object lies where it should",
        L_U64("objects", mv->now.seen), L_U64("moved", mv->now.moved),
        L_U64("bytes", mv->now.moved_bytes));
    mv->now.pass = mv->now.moved = mv->now.moved_bytes = 0;
    mv->now.why[0] = '\0';
}

static void
work(struct disks *ds)
{
    struct mover *mv = ds->mover;

    repair_run_queued(ds);
    if (atomic_exchange(&mv->repairs_lost, false)) {
        struct errbuf eb = {{0}};

        if (set_unsettle(ds, &eb) != ERR_OK)
            LOG(LOG_WARN, "disks.list", eb.text, L_U64("pass", mv->passes));
    }
    if (atomic_load(&ds->settled)) {
        if (atomic_load(&ds->guarded) && atomic_load(&mv->repairs) == 0)
            unguard(ds);
        return;
    }
    if (ds->keeper.next_bucket == NULL || (rt_now_ns() / 1000000u < mv->retry_at_ms &&
                                           mv->states_of_pass == ds->keeper.states))
        return;
    if (!run_pass(ds)) {
        if (mv->now.failed > 0)
            mv->retry_at_ms = rt_now_ns() / 1000000u + RETRY_MS;
        return;
    }
    if (!rt_sem_try(&ds->keeper.changing))
        return; /* the set changes right now */
    settle(ds);
    rt_sem_give(&ds->keeper.changing);
}

/* ---- the fibers ---- */

static void
look_at_health(struct disks *ds)
{
    for (unsigned i = 0; i < atomic_load(&ds->slot_count); i++) {
        struct slot *s = &ds->slots[i];
        enum slot_state state = slot_state(s);
        struct disk_health h;

        if (s->disk == NULL || state == SLOT_OUT || state == SLOT_GONE ||
            s->in_list == SLOT_GONE) /* it is being removed */
            continue;
        disk_health(s->disk, &h);
        if (h.state == DISK_FAILED)
            slot_goes_out(ds, i);
        else if (h.state == DISK_READ_ONLY && state != SLOT_FROZEN)
            slot_freezes(ds, i);
    }
}

/* A delete that was answered may not have reached every copy when the power went: the first disk has a tombstone then, and
 * as long as it is there nobody sees the others. A pass brings it to them; where no bucket has copies there is nothing to
 * bring. What was answered lies on all disks that it should: so the list on disk goes on saying that the set is settled, and a
 * disk that is lost meanwhile is missed by nobody. */
static void
look_after_a_crash(struct disks *ds)
{
    struct disks_bucket b;
    uint64_t after = 0;
    bool copies = false;

    if (ds->keeper.closed_well)
        return;
    while (!copies && ds->keeper.next_bucket(ds->keeper.buckets_arg, after, &b)) {
        after = b.id;
        copies = b.copies > 1;
        disks_bucket_fini(&b);
    }
    if (copies || !ds->keeper.after_crash)
        return; /* there is a pass to come */
    ds->keeper.closed_well = true;
    ds->keeper.after_crash = false;
    atomic_store(&ds->settled, true);
    set_changed(ds);
}

/* What can't be ended now is left to passes. False: what was decided might not stay so, once more. */
static bool
resolve_leftovers(struct disks *ds)
{
    struct errbuf eb = {{0}};

    if (undecided_resolve(ds, &eb) != ERR_OK) {
        LOG(LOG_WARN, "disks.undecided", eb.text, L_U64("pass", ds->mover->passes));
        if (set_unsettle(ds, &eb) != ERR_OK)
            LOG(LOG_WARN, "disks.list", eb.text, L_U64("pass", ds->mover->passes));
    }
    if (undecided_settle(ds, &eb) == ERR_OK)
        return true;
    LOG(LOG_WARN, "disks.undecided", eb.text, L_U64("pass", ds->mover->passes));
    return false;
}

/* False: the end. */
static bool
wait_a_tick(struct disks *ds, bool always)
{
    struct mover *mv = ds->mover;

    return !mv->stopping &&
           rt_cond_wait(&mv->wake, always || only_disk(ds) == NULL
                                       ? deadline_in_ms(TICK_MS)
                                       : DEADLINE_NEVER) != ERR_CANCELLED;
}

/* What waits for the decision of a disk that has gone is read by nobody so long, and a pass may be in the middle of something
 * large, or wait to be tried again. */
static void
decide(void *arg)
{
    struct disks *ds = arg;
    struct errbuf eb = {{0}};

    mover_guard(ds);
    if (undecided_end_forgotten(ds, &eb) != ERR_OK)
        LOG(LOG_WARN, "disks.undecided", eb.text, L_U64("pass", ds->mover->passes));
}

void
mover_decides(struct disks *ds)
{
    if (ds->keeper.next_bucket != NULL && !ds->mover->stopping &&
        rt_group_start(&ds->mover->group, decide, ds) != ERR_OK)
        LOG(LOG_WARN, "disks.undecided", "out of fibers: the next pass decides",
            L_U64("pass", ds->mover->passes));
}

/* Beside the other one: a pass takes hours, and a disk that fails meanwhile orders no write from the next tick on. */
static void
watch_run(void *arg)
{
    struct disks *ds = arg;

    do {
        if (only_disk(ds) == NULL)
            look_at_health(ds);
    } while (wait_a_tick(ds, false));
}

static void
mover_run(void *arg)
{
    struct disks *ds = arg;
    struct mover *mv = ds->mover;
    bool leftovers = true;

    do {
        if (only_disk(ds) == NULL) {
            if (leftovers && ds->keeper.next_bucket != NULL) {
                look_after_a_crash(ds);
                leftovers = !resolve_leftovers(ds);
            }
            if (!leftovers)
                work(ds);
        }
    } while (!mv->stopping && wait_a_tick(ds, slots_close_gone(ds)));
}

enum err
mover_start(struct disks *ds, struct errbuf *eb)
{
    struct mover *mv = xcalloc(1, sizeof *mv);
    enum err rc;

    rt_cond_init(&mv->wake);
    lock_init(&mv->lock, LOCK_KEYS);
    list_init(&mv->queue);
    ds->mover = mv;
    rt_group_begin(&mv->group);
    rc = rt_group_start(&mv->group, watch_run, ds);
    if (rc == ERR_OK)
        rc = rt_group_start(&mv->group, mover_run, ds);
    return rc == ERR_OK ? rc : err_set(eb, rc, "no fiber to look after the disks");
}

void
mover_stop(struct disks *ds)
{
    struct mover *mv = ds->mover;

    if (mv == NULL)
        return;
    mv->stopping = true;
    rt_group_cancel(&mv->group);
    rt_group_join(&mv->group);
    while (mv->at_once > 0 || atomic_load(&mv->woken)) /* the message has our address */
        rt_yield();
    ds->mover = NULL;
    repair_forget_queued(mv);
    lock_fini(&mv->lock);
    free(mv);
}

void
mover_status(struct disks *ds, struct disks_status *out)
{
    struct mover *mv = ds->mover;

    out->pass = mv->now.pass;
    out->seen = mv->now.seen;
    out->total = mv->now.total;
    out->elapsed_ms = mv->now.pass > 0 ? rt_now_ns() / 1000000u - mv->now.began_ms : 0;
    out->moved = mv->now.moved;
    out->moved_bytes = mv->now.moved_bytes;
    out->copied_bytes = mv->now.copied_bytes;
    out->failed = mv->now.failed;
    out->waiting = mv->now.waiting;
    out->repairs = atomic_load(&mv->repairs);
    out->repaired = atomic_load(&mv->repaired);
    snprintf(out->why, sizeof out->why, "%s", mv->now.why);
}

uint64_t
disks_copied_bytes(struct disks *ds)
{
    return ds->mover != NULL ? ds->mover->now.copied_bytes : 0;
}

void
mover_hold(struct disks *ds, int more)
{
    atomic_fetch_add(&ds->mover->holds, (uint32_t)more);
    mover_wake(ds);
}
