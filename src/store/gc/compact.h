/* compact: the fiber that gives space back. It punches what died (punch.h), compacts segments of many bodies that are mostly
 * dead (compact_body.c), and compacts logs: the living records of one are appended again, as any change is; when the index
 * has them durably and nothing names the old log, it goes, or becomes the spare that the next log overwrites.
 *
 * Which log: the one with the largest share of dead bytes, once these are a quarter of all logs; five hundredths when
 * no user writes or room gets short, one hundredth on a full disk. What a log holds is counted by reading it (a survey)
 * before anything is moved, so nothing is moved in vain. Records that say no to older ones (deletes) can go only when
 * no older log is left; when these are a tenth of the logs, the oldest log is taken.
 *
 * What is moved was verified; a log with a damaged batch stays as it is, and that is said once. Crashing anywhere leaves
 * entries that name the old place or the new one, and both are there.
 *
 * Owner loop.
 */
#pragma once
#include "store/core/core.h"

struct compactor;

enum err compactor_start(struct store *d, struct errbuf *eb) MUST_CHECK;
void compactor_stop(struct store *d);            /* within one batch. Switches. */
void compactor_check(const struct compactor *k); /* asserts what holds between switches */
void compactor_free(struct compactor **cp);
