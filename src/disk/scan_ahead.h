/* scan_ahead: the groups of several logs, read and checked before they are asked for: fibers read on, over the ends of
 * segments too, and threads of the pool parse what they have read, while whoever asks works on what was found before.
 *
 * It gives what log_scan_next() would, or nothing: where a log does not go on as it should, the asker scans for himself.
 * One loop; calls may switch.
 */
#pragma once
#include "disk/scan.h"

struct scan_ahead;
struct scan_ahead_log {
    struct scan_source source;
    uint64_t offset, group; /* of the first group wanted */
};

/* Takes `logs` (heap), in the order in which they will be asked for; what their sources borrow outlives it. NULL where there
 * is nobody to do it: fine for the others. */
struct scan_ahead *scan_ahead_begin(struct scan_ahead_log *logs, uint32_t count,
                                    enum disk_class class, uint64_t far);
void scan_ahead_end(struct scan_ahead **ap);
/* What stands where `s` is, as log_scan_next() would tell: SCAN_GROUP; or SCAN_END, and log_scan_behind() would find nothing
 * within `far` either. SCAN_MORE: he knows nothing, ask them. */
enum scanned scan_ahead_take(struct scan_ahead *a, struct log_scan *s, struct errbuf *eb);
