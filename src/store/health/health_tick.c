/* The tick of a disk's health: is it slow, does it answer, is it still there? Home. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "store/health/health.h"
#include "store/health/health_internal.h"
#include "store/record/superblock.h"
#include "store/store_health.h"

#define PROBE_MS      10000u /* a healthy disk is looked for so often */
#define PROBES_FAILED 3u     /* in an entry: it answers nothing */
#define SLOW_TICKS    3u
#define FINE_TICKS    10u
#define LEARN_TICKS   5u

static_assert(SLOW_TICKS > 0 && FINE_TICKS > 0, "ticks are counted up to them");
static const char *const meter_names[METERS] = {"small reads", "large reads",
                                                "small writes", "large writes", "syncs"};

/* What holds between two ticks. */
void
health_check(const struct health *h)
{
    assert(h->owner.probes_failed <= PROBES_FAILED);
    assert(h->owner.slow_ticks == 0 || h->owner.fine_ticks == 0);
    assert(atomic_load(&h->state) <= STORE_FAILED);
    assert(h->limits.tick_ms > 0);
    for (unsigned i = 0; i < METERS; i++)
        assert(h->meters[i].owner.count <= atomic_load(&h->meters[i].count));
}

/* ---- slowness ---- */

/* One meter over the last tick: is it slow? *used: it had anything to measure. */
static bool
check_meter(struct health *h, struct meter *m, bool *used)
{
    uint64_t count = atomic_load(&m->count), sum = atomic_load(&m->sum_ns),
             share = atomic_load(&m->share_ns), n = count - m->owner.count;
    uint64_t usual = atomic_load(&m->usual_ns), mean, mean_share, part;
    bool slow;

    assert(h->limits.slow_factor > 0);
    if (n == 0)
        return false;
    *used = true;
    mean = (sum - m->owner.sum_ns) / n;
    mean_share = (share - m->owner.share_ns) / n;
    m->owner.count = count;
    m->owner.sum_ns = sum;
    m->owner.share_ns = share;
    if (h->limits.slow_ms > 0)
        slow = mean > h->limits.slow_ms * 1000000;
    else
        slow = m->owner.learned >= LEARN_TICKS && mean > SLOW_FLOOR_NS &&
               mean / MAX(usual, UINT64_C(1)) >= h->limits.slow_factor &&
               mean_share / MAX(m->owner.usual_share_ns, UINT64_C(1)) >=
                   h->limits.slow_factor;
    if (slow)
        return true; /* a slow disk does not teach what is usual */
    part = ++m->owner.learned < 16 ? m->owner.learned : 16;
    atomic_store(&m->usual_ns, usual + mean / part - usual / part);
    m->owner.usual_share_ns += mean_share / part - m->owner.usual_share_ns / part;
    return false;
}

/* Counted in ticks, as check_stall() does. */
static void
check_slowness(struct health *h)
{
    assert(h->limits.tick_ms > 0);
    if (atomic_load(&h->state) == STORE_SLOW && h->limits.slow_leave_ms > 0 &&
        ++h->owner.slow_for > h->limits.slow_leave_ms / h->limits.tick_ms)
        (void)health_move(h, STORE_FAILED, "it has been slow for too long", 0);
}

static void
check_speed(struct health *h)
{
    const char *slowest = NULL;
    bool used = false;
    unsigned slow = STORE_SLOW;
    char why[64];

    for (unsigned i = 0; i < METERS; i++)
        if (check_meter(h, &h->meters[i], &used))
            slowest = meter_names[i];
    if (slowest != NULL) {
        h->owner.fine_ticks = 0;
        if (++h->owner.slow_ticks < SLOW_TICKS)
            return;
        (void)snprintf(why, sizeof why, "%s take too long", slowest);
        if (health_move(h, STORE_SLOW, why, 0))
            h->owner.slow_for = 0;
    } else if (used) {
        h->owner.slow_ticks = 0;
        if (++h->owner.fine_ticks >= FINE_TICKS &&
            atomic_compare_exchange_strong(&h->state, &slow, STORE_OK))
            LOG(LOG_INFO, "disk.state", "the disk is as fast as usual again",
                L_TEXT("disk", h->path));
    }
}

/* ---- the probe: is it still there? ---- */

/* By its path, so that a folder that was removed, unmounted or replaced shows. */
static enum err
look(struct health *h, struct superblock *s, struct errbuf *eb)
{
    struct rt_dir *root = NULL, *state = NULL;
    enum err rc = rt_dir_open(h->path, &root, eb);

    if (rc == ERR_OK) {
        rt_dir_observe(root, &h->observer);
        rc = rt_dir_open_at(root, ".forebay", &state, eb);
    }
    if (rc == ERR_OK)
        rc = superblock_load(state, s, eb);
    rt_dir_close(&state);
    rt_dir_close(&root);
    return rc;
}

static void
probe(void *arg)
{
    struct health *h = arg;
    struct superblock s;
    struct errbuf eb = {0};
    enum err rc = look(h, &s, &eb);

    assert(h->owner.probing);
    if (rc == ERR_NOT_FOUND)
        (void)health_move(h, STORE_FAILED, "its folder is gone", 0);
    else if (rc == ERR_OK && memcmp(s.disk_id, h->owner.disk_id, sizeof s.disk_id) != 0)
        (void)health_move(h, STORE_FAILED, "another disk lies in its folder", 0);
    else if (rc == ERR_IO && ++h->owner.probes_failed >= PROBES_FAILED)
        (void)health_move(h, STORE_FAILED, "it answers with nothing but errors", 0);
    if (rc != ERR_IO)
        h->owner.probes_failed = 0;
    h->owner.probing = false;
    rt_cond_broadcast(&h->owner.wake);
}

static void
start_probe(struct health *h, uint64_t now_ns)
{
    bool errors = atomic_exchange(&h->unanswered, 0) > 0;

    assert(now_ns >= h->owner.probed_ns);
    if (h->owner.probing ||
        (!errors && now_ns - h->owner.probed_ns < PROBE_MS * UINT64_C(1000000)))
        return;
    h->owner.probed_ns = now_ns;
    h->owner.probing = true;
    if (rt_spawn(probe, h) != ERR_OK)
        h->owner.probing = false; /* out of stacks: the next tick tries again */
}

/* Operations are there and none has ended for too long. Counted in ticks: a process that stood still (stopped, frozen, its
 * machine paused) comes back to a clock that went on and to operations that ended meanwhile, which were not reported to it. */
static void
check_stall(struct health *h)
{
    uint64_t done = atomic_load(&h->observer.done);

    if (done != h->owner.done || atomic_load(&h->observer.in_flight) == 0) {
        h->owner.done = done;
        h->owner.silent_ticks = 0;
    } else if (++h->owner.silent_ticks > h->limits.stall_ms / h->limits.tick_ms) {
        (void)health_move(h, STORE_FAILED, "it does not answer", 0);
    }
}

static void
tick(struct health *h)
{
    uint64_t now_ns = rt_now_ns();

    health_check(h);
    if (now_ns - h->owner.window_ns > h->limits.error_window_ms * 1000000) {
        h->owner.window_ns = now_ns;
        atomic_store(&h->last_errors, 0);
        for (unsigned i = 0; i < ERROR_PLACES; i++)
            atomic_store(&h->places[i], 0);
    }
    check_stall(h);
    check_speed(h);
    check_slowness(h);
    if (!atomic_load(&h->now.gone))
        start_probe(h, now_ns);
}

static void
run(void *arg)
{
    struct health *h = arg;
    struct rt_shield shield;
    enum err rc = ERR_OK;

    rt_doing("disk health");
    while (!h->owner.stop && rc != ERR_CANCELLED) {
        rc = rt_cond_wait(&h->owner.wake, deadline_in_ms(h->limits.tick_ms));
        if (rc == ERR_TIMEOUT)
            tick(h);
    }
    rt_shield_begin(&shield);
    while (h->owner.probing) /* it ends by itself, or is cancelled with us */
        (void)!rt_cond_wait(&h->owner.wake, DEADLINE_NEVER);
    rt_shield_end(&shield);
    rt_daemon_over(&h->owner.daemon);
}

enum err
health_start(struct health *h, const uint8_t disk_id[16], struct errbuf *eb)
{
    enum err rc;

    assert(disk_id != NULL);
    memcpy(h->owner.disk_id, disk_id, sizeof h->owner.disk_id);
    h->owner.window_ns = h->owner.probed_ns = rt_now_ns();
    rc = rt_daemon_start(&h->owner.daemon, run, h);
    if (rc != ERR_OK)
        return err_set(eb, rc, "no fiber to look after the disk");
    lock_acquire(&healths_lock);
    list_push_back(&healths, &h->of_all);
    lock_release(&healths_lock);
    health_report();
    return ERR_OK;
}

void
health_stop(struct health *h)
{
    if (h == NULL)
        return;
    lock_acquire(&healths_lock);
    list_remove(&h->of_all);
    lock_release(&healths_lock);
    h->owner.stop = true;
    rt_cond_broadcast(&h->owner.wake);
    rt_daemon_join(&h->owner.daemon);
}
