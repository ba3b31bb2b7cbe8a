/* health: what is wrong with a disk, and when it has to leave.
 *
 *            mean time > 10x its own usual, 3 s long
 *     OK  <---------------------------------------->  SLOW
 *      \  a sync failed, the log failed, read-only      |
 *       '--> READ_ONLY (no write begins) <--------------'
 *      \      |    errors beyond the limit, folder gone, nothing answers, a fault in the index
 *       '-----+--> FAILED (has left: nothing begins, everything is ERR_IO at once)
 *
 * It observes the disk's folder (rt_dir_observe), so each read, write, sync and name
 * of every file below it is reported. What rt does not see (the index's own map and commits) and what only
 * readers know (a wrong sum) is reported by the calls below. A damaged block is counted and takes no disk out. READ_ONLY
 * and FAILED last until the disk is opened again.
 *
 * Threads: reports, any; the tick is a fiber of the owner loop. Nothing here is on the way of a warm read but
 * health_gone(). Outlives the disk: files that the kernel still works on hold it.
 */
#pragma once
#include "store/store_health.h"
#include "store/store_options.h"
#include <stdatomic.h>

#include "base/buf.h"
#include "rt/file.h"

struct health;

/* `path` is copied. Its owner's reference ends with health_free(). */
struct health *health_new(const char *path, const struct store_limits *limits);
void health_free(struct health **hp); /* NULL is fine */
struct rt_observer *health_observer(struct health *h);
/* Looks at the disk once a second from now on; `disk_id` must lie in its folder. Home; health_stop() may switch. */
enum err health_start(struct health *h, const uint8_t disk_id[16],
                      struct errbuf *eb) MUST_CHECK;
void health_stop(struct health *h);

/* The first field of struct health, on a line of its own. */
struct health_now {
    _Alignas(64) _Atomic bool gone; /* FAILED */
    _Atomic bool no_writes;         /* READ_ONLY or FAILED */
};
/* NULL: a disk of the check's, which has none. */
static inline bool
health_gone(const struct health *h)
{
    return h != NULL && atomic_load_explicit(&((const struct health_now *)h)->gone,
                                             memory_order_relaxed);
}
/* ERR_OK, or ERR_IO with the sentence. */
enum err health_refuse(const struct health *h, bool write, struct errbuf *eb);
static inline enum err
health_may_read(const struct health *h, struct errbuf *eb)
{
    return health_gone(h) ? health_refuse(h, false, eb) : ERR_OK;
}
static inline enum err
health_may_write(const struct health *h, struct errbuf *eb)
{
    return h != NULL && atomic_load_explicit(&((const struct health_now *)h)->no_writes,
                                             memory_order_relaxed)
               ? health_refuse(h, true, eb)
               : ERR_OK;
}

void health_check(
    const struct health *h); /* asserts what holds between ticks; owner loop */

/* ---- reporting: any thread, NULL is fine ---- */
void health_corrupt_block(struct health *h); /* a sum is wrong */
void health_log_missing(struct health *h,
                        const char *what); /* "native/log-… is missing" */
void health_log_failed(struct health *h, const char *class);
void health_index_fault(struct health *h); /* a fault in reading its map */
void health_index_is(struct health *h, enum store_index state); /* what is known of it */
void health_index_commit(
    struct health *h, int error); /* its commit failed with an errno, or a code of LMDB */

void health_report(void); /* adds the disks to the metrics page; again is fine */
void health_read(const struct health *h, struct store_health *out);
