/* pool: threads for what has no asynchronous form. Two of them: workers (disk,
 * rt_blocking) and resolvers (names), so that a slow name server never stands before a
 * disk. Real engines only. Threads start when there is work.
 *
 * Threads: a job is submitted and taken back by a loop; its `done` runs on that loop. */
#pragma once
#include "rt/engine.h"

enum pool_kind { POOL_WORK, POOL_RESOLVE, POOLS_ };

void pools_start(unsigned workers, unsigned queue_max);
void pools_stop(void); /* every job is done */
/* ERR_BUSY: as many wait as may. Owns nothing; *j lives until `done` or until it was
 * taken back. */
enum err pool_submit(enum pool_kind kind, struct rt_job *j) MUST_CHECK;
/* The same for jobs whose number is bounded elsewhere (class limits of disks). */
void pool_submit_always(enum pool_kind kind, struct rt_job *j);
bool pool_cancel(enum pool_kind kind,
                 struct rt_job *j); /* true: it had not begun and never will */

/* Runs work(arg) there and waits; contract of rt_blocking(). */
enum err pool_run(enum pool_kind kind, void (*work)(void *arg), void *arg,
                  struct deadline by) MUST_CHECK;
