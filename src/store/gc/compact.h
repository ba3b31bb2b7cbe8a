/* compact: the fiber that reclaims space. It punches garbage (punch.h), compacts shared body
 * segments that are mostly garbage (compact_body.c), and compacts logs. To compact a log it
 * appends the live records again, like any change. Once the index has them durably and nothing
 * names the old log, it removes that log or makes it the spare for the next one.
 *
 * Choice of the log: the one with the largest share of garbage, once a quarter of all logs is
 * garbage. The limit falls to five hundredths if no user writes or space gets short, and to one
 * hundredth on a full disk. Compaction first counts the live bytes of a log by reading it (a
 * survey), so it moves nothing in vain. Records that cancel older ones (deletes) can be dropped
 * only once no older log exists; if these are a tenth of the logs, the oldest log is chosen.
 *
 * Moved data is verified. A log with a damaged batch stays unchanged, and is reported once. A
 * crash leaves entries that name the old place or the new one, and both exist.
 *
 * Owner loop.
 */
#pragma once
#include "store/core/core.h"

struct compactor;

enum err compactor_start(struct store *d, struct errbuf *eb) MUST_CHECK;
void compactor_stop(struct store *d); /* within one batch. Switches. */
/* Asserts the invariants that hold between switches. */
void compactor_check(const struct compactor *k);
void compactor_free(struct compactor **cp);
