#include "store/wal/log_gap.h"

#include <assert.h>

#include "store/core/core.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/segment/segment.h"
#include "store/wal/truncated.h"
#include "store/wal/wal.h"

/* True if the batch is from the current use of the file. Batches behind the log's end from
 * earlier uses have an older epoch. A scan that began at the checkpoint position has to look up
 * the epoch of the batch before it. */
static bool
is_of_this_life(struct wal_scan *scan, const struct wal_scan_next_batch *next)
{
    if (scan->epoch == 0 && scan->offset > STORE_ALIGN)
        scan->epoch = wal_scan_epoch_before(scan);
    return next->epoch >= scan->epoch;
}

enum log_gap
log_gap_find(const struct store *d, struct wal_scan *scan, uint64_t far,
             struct wal_scan_next_batch *next)
{
    const struct truncated *t = &d->wals->truncated;
    bool found = wal_scan_find_next(scan, far, next);

    assert(scan->source.cached);
    if (found && !is_of_this_life(scan, next))
        found = wal_scan_find_next(scan, far, next);
    if (!found)
        return LOG_GAP_NONE;
    assert(next->batch > scan->batch);
    assert(next->offset > scan->offset);
    if (truncated_covers_lost(t, scan->batch, next->batch - 1))
        return LOG_GAP_LOST;
    if (next->unsynced > scan->batch || t->durable_mark >= scan->batch)
        return LOG_GAP_DAMAGE;
    /* Earlier starts did not search further, so a batch there may be from an earlier use of the
     * file. */
    return next->offset - scan->offset <= BATCH_MAX ? LOG_GAP_LOST : LOG_GAP_NONE;
}

bool
log_gap_log_proves(const struct store *d, const struct scan_source *source,
                   uint64_t first_batch, uint64_t epoch, uint64_t wanted)
{
    struct wal_scan scan;
    struct wal_scan_next_batch next;
    enum scanned got;
    bool proves;

    assert(source->cached);
    assert(first_batch > wanted);
    if (d->wals->truncated.durable_mark >= wanted)
        return true;
    wal_scan_begin(&scan, source, STORE_ALIGN, first_batch, epoch);
    got = wal_scan_next(&scan, NULL);
    if (got == SCAN_BATCH)
        proves = scan.records[0].unsynced > wanted;
    else
        proves = got == SCAN_END && wal_scan_find_next(&scan, BATCH_MAX, &next) &&
                 next.unsynced > wanted;
    wal_scan_end(&scan);
    return proves;
}
