/* log_gap: commit batches that are missing from the cached log.
 *
 * Not every batch of the cached log is synced before a reply. A power cut may therefore lose a
 * batch and keep a later one. Each batch lists the earlier batches that were not synced yet. A
 * missing batch in that list was lost in a power cut; any other missing batch is damage. For
 * batches without a later one, the durable mark (truncated.h) holds the same information.
 *
 * A damaged batch may have deleted or replaced older objects, or put them in doubt. The disk
 * therefore drops its whole cached class, which can be fetched again.
 *
 * Used by replay and check. May switch where said. docs/formats.md, section 6, "Gaps".
 */
#pragma once
#include "store/segment/scan.h"

struct log_record;
struct store;

enum log_gap {
    LOG_GAP_NONE, /* no later batch: the log ends here */
    /* No reply depended on the missing batches; the log continues after them. */
    LOG_GAP_LOST,
    LOG_GAP_DAMAGE, /* the missing batches had been synced */
};
/* Call after SCAN_END in a cached log. Searches the next `far` bytes. Unless the result is
 * LOG_GAP_NONE, *next is the batch after the gap. May switch. */
enum log_gap log_gap_find(const struct store *d, struct wal_scan *scan, uint64_t far,
                          struct wal_scan_next_batch *next);
/* True if the log in `source` proves that `wanted` and every batch up to its own first batch had
 * been synced. May switch. */
bool log_gap_log_proves(const struct store *d, const struct scan_source *source,
                        uint64_t first_batch, uint64_t epoch, uint64_t wanted);
