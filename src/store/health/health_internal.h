/* Inside of health*.c. */
#pragma once
#include "store/health/health.h"
#include "store/store_health.h"
#include "store/store_options.h"
#include <assert.h>

#include "base/list.h"
#include "base/lock.h"
#include "rt/loop.h"
#include "rt/sync.h"

#define ERROR_PLACES  64u
#define SLOW_FLOOR_NS (UINT64_C(20) * 1000000) /* no disk is slow below that */

/* Operations that are comparable with each other. */
enum meter_of { SMALL_READS, LARGE_READS, SMALL_WRITES, LARGE_WRITES, SYNCS, METERS };

/* How long they take. `share` is the time divided by how many the disk had at once: a deep queue makes every disk
 * slower, an empty one makes the share larger; a slow disk shows in both. */
struct meter {
    /* Any thread. */
    _Atomic uint64_t count, sum_ns, share_ns;
    _Atomic uint64_t usual_ns; /* 0: not known yet */

    /* Home: as it was at the last tick. */
    struct {
        uint64_t count, sum_ns, share_ns;
        uint64_t usual_share_ns;
        unsigned learned;
    } owner;
};

struct health {
    struct health_now now;

    /* Set at birth. */
    struct rt_observer observer;
    struct store_limits limits;
    char *path; /* owned */

    /* Any thread. */
    _Atomic unsigned state; /* enum store_state: never goes down but from SLOW to OK */
    _Atomic uint64_t read_errors, write_errors, sync_errors, name_errors, corrupt_blocks,
        slow_ops, index_faults;
    _Atomic uint64_t last_errors; /* in the window at hand, at different places */
    _Atomic uint64_t places[ERROR_PLACES];
    _Atomic uint64_t unanswered; /* errors since the last probe */
    struct meter meters[METERS];
    _Atomic unsigned index; /* enum store_index */

    /* Under healths_lock. */
    char why[sizeof((struct store_health *)0)->why];
    struct list of_all; /* `healths`, while it is started */

    /* Home. */
    struct {
        struct rt_cond wake;
        struct rt_daemon daemon;
        uint8_t disk_id[16];
        uint64_t window_ns, probed_ns,
            done; /* operations at the last tick that saw one more */
        unsigned slow_ticks, fine_ticks, silent_ticks, probes_failed;
        unsigned slow_for; /* ticks since it became STORE_SLOW */
        bool stop, probing;
    } owner;
};
static_assert(offsetof(struct health, now) == 0, "health_gone() relies on it");

extern struct lock healths_lock;
extern struct list healths; /* those that are started */

/* The first caller says why. True: the state is `to` now and was lower before. `error`: an errno or 0. */
bool health_move(struct health *h, enum store_state to, const char *why, int error);
void health_counts(const struct health *h, struct store_health *out);
