/* replay: the logs of a class from a position to their end, into tail and index. Home; may switch.
 * docs/formats.md, section 6.
 */
#pragma once
#include "disk/flush.h"
#include "disk/member.h"

/* Afterwards d->home.log[class] is where the next group goes. `from`: what the index covers. */
enum err replay_class(struct disk *d, enum disk_class class,
                      const struct log_position *from, struct errbuf *eb) MUST_CHECK;
struct segment *replay_oldest_log(struct disk *d, enum disk_class class); /* borrowed */

/* A cached record whose bytes are lost still says that what was there before is obsolete: it becomes a delete. A
 * part is just not there. */
enum err replay_soften(struct disk *d, struct member *m, bool *skip,
                       struct errbuf *eb) MUST_CHECK;

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

/* Bytes of a segment that are to be believed are written once more: a sync of them may have failed before the process died,
 * and no later sync brings them to the disk (D9). */
enum err replay_write_again(struct segment *s, uint64_t from, uint64_t to,
                            struct errbuf *eb) MUST_CHECK;
/* The same for the segment's own header, and for its size. */
enum err replay_renew_segment(struct segment *s, struct errbuf *eb) MUST_CHECK;
