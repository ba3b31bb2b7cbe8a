/* replay: the logs of a class from a position to their end, into tail and index. Home; may switch.
 * docs/formats.md, section 6.
 */
#pragma once
#include "disk/change.h"
#include "disk/flush.h"
#include "disk/scan.h"

/* Afterwards d->home.log[class] is where the next group goes. `from`: what the index covers. */
enum err replay_class(struct disk *d, enum disk_class class,
                      const struct log_position *from, struct errbuf *eb) MUST_CHECK;
struct segment *replay_oldest_log(struct disk *d, enum disk_class class); /* borrowed */

/* Applies a record of the cached log, as far as it can be believed. One whose bytes are lost still says that what was there
 * before is obsolete: it becomes a delete. A part is just not there. */
enum err replay_cached(struct changes *c, struct member *m, struct errbuf *eb) MUST_CHECK;
/* In two steps, the first of which writes nothing on a disk that is read only. *there: its bytes are, and what it names. May
 * switch. */
enum err replay_is_there(struct disk *d, const struct member *m, bool *there,
                         struct errbuf *eb) MUST_CHECK;
/* The same of what a cached row names. */
enum err replay_row_is_there(struct disk *d, const struct row *row, bool *there,
                             struct errbuf *eb) MUST_CHECK;
enum err replay_cached_as(struct changes *c, struct member *m, bool there,
                          struct errbuf *eb) MUST_CHECK;
/* Counters of this start go on behind what is in the log. */
void replay_take_counters(struct disk *d, const struct member *m);

/* What it remembers of segments; NULL is fine. */
struct chains;
void replay_chains_free(struct chains **cp);

/* Bringing the tail into the index beside the replay: LMDB works on a thread of the pool, the loop reads on. */
struct beside {
    struct disk *disk;
    struct rt_group group;
    struct flush flush;
    struct segment *log; /* owned: the one that was read last */
    bool busy;           /* begun, not joined */
    enum err rc;
    struct errbuf eb;
};
/* Begins a round when the former one is over. */
enum err beside_begin(struct beside *b, struct segment *log,
                      struct errbuf *eb) MUST_CHECK;
enum err beside_end(struct beside *b, struct errbuf *eb) MUST_CHECK;
/* All that is in the tail, and `log`, which was read last. */
enum err replay_flush(struct disk *d, struct segment *log, struct errbuf *eb) MUST_CHECK;

/* The segment at hand. */
struct replaying {
    struct disk *disk;
    struct changes *changes;
    struct beside *beside;
    struct segment *segment; /* borrowed */
    bool
        last; /* the log that was written last: only of this one bytes are written again */
    uint64_t again; /* what stands from here on was not */
    bool cut_off;   /* the last groups are lost, and no header says what they were */
    struct log_scan scan;
};
/* Writes what was read again, up to there, where that has to be. */
enum err replay_again(struct replaying *r, uint64_t to, struct errbuf *eb) MUST_CHECK;
/* How far behind a missing group another one is looked for: where it stands, the missing one may have been acknowledged. */
uint64_t replay_look_behind(const struct disk *d);
/* Groups up to where the scan stands were read. */
void replay_set_end(struct replaying *r, uint64_t before);
/* replay_damage.c. After SCAN_END: the next group behind what is missing, if it was acknowledged or a cut explains it. */
enum scanned replay_behind(struct replaying *r, struct errbuf *eb);
/* All groups up to `below` are missing behind this segment, and were acknowledged. */
enum err replay_gap(struct replaying *r, uint64_t below, struct errbuf *eb) MUST_CHECK;
/* No log goes on: groups of the cached one may be missing nevertheless, where they had been promised. */
enum err replay_last(struct replaying *r, struct errbuf *eb) MUST_CHECK;
/* Then, when all is in the index: the next group goes into a new log. */
enum err replay_begin_anew(struct disk *d, struct errbuf *eb) MUST_CHECK;

/* Bytes of a segment that are to be believed are written once more: a sync of them may have failed before the process died,
 * and no later sync brings them to the disk (D9). */
enum err replay_write_again(struct segment *s, uint64_t from, uint64_t to,
                            struct errbuf *eb) MUST_CHECK;
/* The same for the segment's own header, and for its size. */
enum err replay_renew_segment(struct segment *s, struct errbuf *eb) MUST_CHECK;
