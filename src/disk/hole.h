/* hole: groups that are missing in the middle of the cached log, where no power cut explains them or where one does.
 *
 * Groups of the cached log are not all synced before a reply, so a cut may lose one and keep what comes behind. Each group
 * says which groups were not synced when it was written: a missing one among those was promised to nobody, any other was,
 * and is damaged. What a damaged group said of older objects (deleted, in doubt, replaced) nobody knows: so nothing that
 * stands before it is believed any more, and is fetched anew from the remote.
 *
 * Replay and check. Home; may switch where said. docs/formats.md, section 6, "Holes".
 */
#pragma once
#include "disk/change.h"
#include "disk/scan.h"

enum hole {
    HOLE_END,    /* nothing stands behind: the log ends here */
    HOLE_CUT,    /* what is missing was never promised: the log goes on behind it */
    HOLE_DAMAGE, /* it was */
};
/* After SCAN_END in a cached log. Looks `far` bytes ahead; but for HOLE_END *behind is where the log goes on: a later group
 * stands there, or what was promised ends there and only bytes of it are lost. May switch. */
enum hole hole_look(const struct disk *d, struct log_scan *scan, uint64_t far,
                    struct log_behind *behind);
/* Does the log in `source`, whose first group has that number, prove that `wanted` and all between them had been synced?
 * May switch. */
bool hole_log_proves(const struct disk *d, const struct scan_source *source,
                     uint64_t first_group, uint64_t epoch, uint64_t wanted);

/* Behind HOLE_END, where no later log goes on: up to this group all had been there; 0 where that is what was found. */
uint64_t hole_lost_end(const struct disk *d, uint64_t wanted);
/* A number that no group has that is left in a cached log: groups are missing in front of it, and stay so. */
uint64_t hole_number_behind(const struct disk *d);

/* A replay begins behind this group, which one that was cut off had come to: what that had passed counts. */
void hole_begin_behind(struct disk *d, uint64_t group);
/* Is it a record that does nothing behind a hole: one that clears a doubt, for what was put in between may be lost? */
bool hole_hides(const struct disk *d, const struct member *m);
/* After a record behind damage was applied, which left `row`: one that moved an object whose doubt may be lost. */
enum err hole_moved(struct changes *c, const struct member *m, const struct row *row,
                    struct errbuf *eb) MUST_CHECK;
/* No cached object that tail and index know is believed any more: plain ones go; of one in chunks the row is in doubt, the
 * chunks name their version and stay. `flush` brings the tail into the index; all of it is there before and afterwards. May
 * switch. */
typedef enum err hole_flush_fn(void *arg, struct errbuf *eb);
enum err hole_distrust(struct disk *d, struct changes *c, hole_flush_fn *flush, void *arg,
                       struct errbuf *eb) MUST_CHECK;
