/* scan_readahead: the batches of several logs, read and checked before they are asked for: fibers read on, over the ends of
 * segments too, and threads of the pool parse what they have read, while the replay works on what was found before.
 *
 * It gives what wal_scan_next() would, or nothing: where a log does not go on as it should, the asker scans for himself.
 * One loop; calls may switch.
 */
#pragma once
#include "store/segment/scan.h"
#include "store/store_entry.h"

struct scan_readahead;
struct scan_readahead_wal {
    struct scan_source source;
    uint64_t offset, batch; /* of the first batch wanted */
};

/* Takes `logs` (heap), in the order in which they will be asked for; what their sources borrow outlives it. NULL where there
 * is no fiber for it: fine for the others. */
struct scan_readahead *scan_readahead_begin(struct scan_readahead_wal *logs,
                                            uint32_t count, enum store_class class,
                                            uint64_t far);
void scan_readahead_end(struct scan_readahead **ap);
/* What stands where `s` is, as wal_scan_next() would say: SCAN_BATCH; or SCAN_END, and wal_scan_find_next() would find nothing
 * within `far` either. SCAN_MORE: not known here, ask them. */
enum scanned scan_readahead_take(struct scan_readahead *a, struct wal_scan *s,
                                 struct errbuf *eb);
