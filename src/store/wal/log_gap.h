/* log_gap: commit batches that are missing in the cached log.
 *
 * Not every batch of the cached log is synced before a reply, so a power cut may lose one and keep a later one. Each batch says
 * which batches before it were not synced yet: a missing one of those was lost in a power cut, any other one is damaged. The
 * durable mark (truncated.h) says the same of batches that have no later one. What a damaged batch said of older objects
 * (deleted, in doubt, replaced) is unknown, so the whole cached class of the disk is dropped: it can be fetched again.
 *
 * Replay and check. Owner loop; may switch where said. docs/formats.md, section 6, "Gaps".
 */
#pragma once
#include "store/segment/scan.h"

struct log_record;
struct store;

enum log_gap {
    LOG_GAP_NONE,   /* no later batch: the log ends here */
    LOG_GAP_LOST,   /* no reply waited for what is missing: the log goes on behind it */
    LOG_GAP_DAMAGE, /* what is missing had been synced */
};
/* After SCAN_END in a cached log. Searches `far` bytes; but for LOG_GAP_NONE *next is the batch behind the gap. May switch. */
enum log_gap log_gap_find(const struct store *d, struct wal_scan *scan, uint64_t far,
                          struct wal_scan_next_batch *next);
/* Does the log in `source`, whose first batch has that number, prove that `wanted` and all between them had been synced?
 * May switch. */
bool log_gap_log_proves(const struct store *d, const struct scan_source *source,
                        uint64_t first_batch, uint64_t epoch, uint64_t wanted);
