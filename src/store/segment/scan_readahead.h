/* scan_readahead: reads and checks the batches of several logs ahead of replay. Its fibers read
 * on across segment ends, and pool threads parse what was read, while replay applies earlier
 * batches.
 *
 * It returns what wal_scan_next() would, or nothing. If a log does not continue as expected, the
 * caller scans by itself. One loop; calls may switch.
 */
#pragma once
#include "store/segment/scan.h"
#include "store/store_entry.h"

struct scan_readahead;
struct scan_readahead_wal {
    struct scan_source source;
    uint64_t offset, batch; /* of the first batch wanted */
};

/* Takes `logs` (heap), in the order in which the caller will read them. What their sources
 * borrow must outlive the result. NULL if no fiber is available; the other calls accept NULL. */
struct scan_readahead *scan_readahead_begin(struct scan_readahead_wal *logs,
                                            uint32_t count, enum store_class class,
                                            uint64_t far);
void scan_readahead_end(struct scan_readahead **ap);
/* Returns the batch at the position of `s`, as wal_scan_next() would: SCAN_BATCH, or SCAN_END if
 * also wal_scan_find_next() would find nothing within `far`. SCAN_MORE: not known here, call
 * those instead. */
enum scanned scan_readahead_take(struct scan_readahead *a, struct wal_scan *s,
                                 struct errbuf *eb);
