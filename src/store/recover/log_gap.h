/* hole: batches that are missing in the middle of the cached log, where no power cut explains them or where one does.
 *
 * Groups of the cached log are not all synced before a reply, so a cut may lose one and keep what comes behind. Each batch
 * says which batches were not synced when it was written: a missing one among those was promised to nobody, any other was,
 * and is damaged. What a damaged batch said of older objects (deleted, in doubt, replaced) nobody knows: so nothing that
 * stands before it is believed any more, and is fetched anew from the remote.
 *
 * Replay and check. Home; may switch where said. docs/formats.md, section 6, "Holes".
 */
#pragma once
#include "store/segment/scan.h"
#include "store/wal/change.h"

struct entry;
struct log_record;
struct store;

enum log_gap {
    LOG_GAP_NONE,   /* nothing stands behind: the log ends here */
    LOG_GAP_LOST,   /* what is missing was never promised: the log goes on behind it */
    LOG_GAP_DAMAGE, /* it was */
};
/* After SCAN_END in a cached log. Looks `far` bytes ahead; but for LOG_GAP_NONE *behind is where the log goes on: a later batch
 * stands there, or what was promised ends there and only bytes of it are lost. May switch. */
enum log_gap log_gap_find(const struct store *d, struct wal_scan *scan, uint64_t far,
                          struct wal_scan_next_batch *behind);
/* Does the log in `source`, whose first batch has that number, prove that `wanted` and all between them had been synced?
 * May switch. */
bool log_gap_log_proves(const struct store *d, const struct scan_source *source,
                        uint64_t first_batch, uint64_t epoch, uint64_t wanted);

/* Behind LOG_GAP_NONE, where no later log goes on: up to this batch all had been there; 0 where that is what was found. */
uint64_t log_gap_lost_end(const struct store *d, uint64_t wanted);
/* A number that no batch has that is left in a cached log: batches are missing in front of it, and stay so. */
uint64_t log_gap_number_after(const struct store *d);

/* A replay begins behind this batch, which one that was cut off had come to: what that had passed counts. */
void log_gap_begin_after(struct store *d, uint64_t batch);
/* Is it a record that does nothing behind a hole: one that clears a doubt, for what was put in between may be lost? */
bool log_gap_hides(const struct store *d, const struct log_record *m);
/* After a record behind damage was applied, which left `entry`: one that moved an object whose doubt may be lost. */
enum err log_gap_relocated(struct changes *c, const struct log_record *m,
                           const struct entry *entry, struct errbuf *eb) MUST_CHECK;
/* No cached object that memtable and index know is believed any more: plain ones go; of one in chunks the entry is in doubt, the
 * chunks name their version and stay. `flush` brings the memtable into the index; all of it is there before and afterwards. May
 * switch. */
typedef enum err log_gap_flush_fn(void *arg, struct errbuf *eb);
enum err log_gap_invalidate(struct store *d, struct changes *c, log_gap_flush_fn *flush,
                            void *arg, struct errbuf *eb) MUST_CHECK;
