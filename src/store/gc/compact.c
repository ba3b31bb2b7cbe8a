#include "store/gc/compact.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "store/core/core.h"
#include "store/gc/compactor.h"
#include "store/gc/punch.h"
#include "store/index/index.h"
#include "store/index/suspect.h"
#include "store/segment/segment.h"
#include "store/segment/space.h"
#include "store/store_entry.h"
#include "store/store_health.h"
#include "store/store_space.h"
#include "store/wal/flush.h"
#include "store/wal/wal.h"

#define ROUND_MS     1000u
#define QUIET_MS     5000u /* time without user writes after which compaction does more */
#define RATE_DEFAULT MIB(64)

/* ---- pace ---- */

static uint64_t
now_ms(void)
{
    return rt_now_ns() / 1000000u;
}

static bool
is_busy(const struct compactor *k)
{
    return k->urgent == 0 && now_ms() - k->quiet_since_ms < QUIET_MS;
}

/* Asserts the invariants that hold between two switches. */
void
compactor_check(const struct compactor *k)
{
    assert(k->disk != NULL);
    assert(k->disk->compactor == k);
    assert(k->arena != NULL);
    assert(k->batch != NULL);
}

enum compact_mood
compact_mood(const struct compactor *k)
{
    if (space_is_full(k->disk->space))
        return COMPACT_FULL;
    return is_busy(k) && !space_is_tight(k->disk->space) ? COMPACT_BUSY : COMPACT_QUIET;
}

static void
look_who_writes(struct compactor *k)
{
    struct store_space now;

    store_space(k->disk, &now);
    if (now.user_bytes != k->user_bytes) {
        k->user_bytes = now.user_bytes;
        k->quiet_since_ms = now_ms();
    }
}

enum err
compact_pace(struct compactor *k, uint64_t bytes)
{
    uint64_t rate =
        k->disk->o.compact_bytes_s != 0 ? k->disk->o.compact_bytes_s : RATE_DEFAULT;
    uint64_t ms;

    assert(on_owner(k->disk));
    look_who_writes(k);
    if (k->urgent > 0 || space_is_full(k->disk->space)) {
        rt_yield();
        return k->stop ? ERR_CANCELLED : ERR_OK;
    }
    if (is_busy(k))
        rate /= 4;
    ms = bytes * 1000 / MAX(rate, 1u);
    while (ms > 0 && !k->stop) {
        enum err rc = rt_sleep_ms(MIN(ms, 50u));

        if (rc != ERR_OK)
            return rc;
        ms -= MIN(ms, 50u);
    }
    return k->stop ? ERR_CANCELLED : ERR_OK;
}

void
compact_hold(struct store *d, struct segment *s, const char *why)
{
    assert(on_owner(d));
    assert(why != NULL);
    assert(s->disk == d);
    s->owner.held = true;
    LOG(LOG_WARN, "store.segment_held", "it is not compacted until the next start",
        L_TEXT("disk", rt_dir_path(d->root)), L_U64("segment", s->id),
        L_TEXT("why", why));
}

/* ---- rounds ---- */

/* Compacts the one segment most worth it, if any. *did: there may be more. */
static enum err
compact_one(struct compactor *k, const struct compact_kind *kind, enum store_class class,
            bool *did, struct errbuf *eb)
{
    struct segment *s = NULL;
    enum err rc = kind->choose(k, class, &s, eb);

    assert(class < STORE_CLASSES_);
    assert(kind->choose != NULL);
    assert(kind->compact != NULL);
    if (rc == ERR_NOT_FOUND || rc == ERR_BUSY) {
        *did = *did || rc == ERR_BUSY;
        return ERR_OK;
    }
    if (rc == ERR_OK) {
        assert(s != NULL);
        assert(s->class == class);
        *did = true;
        rc = kind->compact(k, &s, eb);
    }
    segment_drop(&s);
    return rc;
}

/* Runs one round. *did: there may be more. */
static enum err
round_of(struct compactor *k, bool *did, struct errbuf *eb)
{
    struct store *d = k->disk;
    enum err rc;

    assert(on_owner(d));
    store_invariants(d);
    *did = false;
    if (index_trust(d->index) !=
        STORE_INDEX_PROVEN) /* an unverified index may lack live data */
        return ERR_OK;
    /* What seems to be garbage may be all that is left while a part of the log is lost. */
    if (d->wals->missing > 0 || d->suspects->all)
        return ERR_OK;
    rc = puncher_round(d->puncher, did, eb);
    *did = *did && k->urgent > 0; /* otherwise one segment per round */
    look_who_writes(k);
    for (unsigned c = 0; rc == ERR_OK && c < STORE_CLASSES_; c++) {
        rc = compact_one(k, &compact_logs, (enum store_class)c, did, eb);
        if (rc == ERR_OK)
            rc = compact_one(k, &compact_bodies, (enum store_class)c, did, eb);
    }
    return rc;
}

static enum err
take_turn(struct compactor *k, bool *did, struct errbuf *eb)
{
    struct rt_shield shield;
    enum err rc;

    rt_shield_begin(&shield);
    rc = rt_sem_acquire(&k->turn, DEADLINE_NEVER);
    if (rc == ERR_OK) {
        rc = k->stop ? ERR_CANCELLED : round_of(k, did, eb);
        rt_sem_release(&k->turn);
    }
    rt_shield_end(&shield);
    return rc;
}

static void
compactor_run(void *arg)
{
    struct compactor *k = arg;
    enum err rc = ERR_OK, last = ERR_OK;

    while (!k->stop && (rc == ERR_OK || rc == ERR_TIMEOUT)) {
        struct errbuf eb = {0};
        bool did = false;
        enum err now = take_turn(k, &did, &eb);

        if (now != ERR_OK && now != ERR_CANCELLED && now != last)
            LOG(LOG_WARN, "store.compaction_failed", "it is tried again",
                L_TEXT("disk", rt_dir_path(k->disk->root)), L_TEXT("error", eb.text));
        last = now;
        if (!k->stop && !(did && now == ERR_OK))
            rc = rt_cond_wait(&k->wake, deadline_in_ms(ROUND_MS));
    }
    rt_daemon_over(&k->daemon);
}

enum err
compactor_start(struct store *d, struct errbuf *eb)
{
    struct compactor *k = xcalloc(1, sizeof *k);
    enum err rc;

    assert(on_owner(d));
    assert(d->compactor == NULL);
    k->disk = d;
    rt_cond_init(&k->wake);
    rt_sem_init(&k->turn, 1);
    k->arena = arena_new(KIB(64), MIB(16));
    k->batch = compact_batch_new();
    k->quiet_since_ms = now_ms();
    d->compactor = k;
    rc = rt_daemon_start(&k->daemon, compactor_run, k);
    if (rc != ERR_OK)
        return err_set(eb, rc, "no fiber to compact a disk");
    return ERR_OK;
}

void
compactor_stop(struct store *d)
{
    struct compactor *k = d->compactor;

    if (k == NULL)
        return;
    k->stop = true;
    rt_cond_signal(&k->wake);
    rt_daemon_join(&k->daemon);
}

void
compactor_free(struct compactor **kp)
{
    struct compactor *k = *kp;

    *kp = NULL;
    if (k == NULL)
        return;
    arena_free(&k->arena);
    free(k->batch);
    free(k);
}

/* ---- at once ---- */

struct compact_call {
    struct store *disk;
    struct errbuf *eb;
    enum err rc;
};

static void
compact_on_owner(void *arg)
{
    struct compact_call *a = arg;
    struct compactor *k = a->disk->compactor;
    uint64_t used = atomic_load(&a->disk->segments->used_bytes[STORE_NATIVE]) +
                    atomic_load(&a->disk->segments->used_bytes[STORE_CACHED]);
    struct store_space before, now;
    bool did = true;

    assert(k != NULL);
    store_space(a->disk, &before);
    a->rc = flush_wait(a->disk, a->eb);
    k->urgent++;
    do { /* does not wait for what others write meanwhile */
        if (a->rc == ERR_OK)
            a->rc = take_turn(k, &did, a->eb);
        store_space(a->disk, &now);
    } while (a->rc == ERR_OK && did && now.moved_bytes - before.moved_bytes <= 4 * used);
    assert(k->urgent > 0);
    k->urgent--;
}

enum err
store_compact(struct store *d, struct errbuf *eb)
{
    struct compact_call a = {.disk = d, .eb = eb, .rc = ERR_CANCELLED};
    enum err rc = on_owner_loop(d, compact_on_owner, &a);

    return rc == ERR_OK ? a.rc : rc;
}
