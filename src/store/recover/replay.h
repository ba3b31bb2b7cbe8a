/* replay: the logs of a class from a position to their end, into memtable and index. Home; may switch.
 * docs/formats.md, section 6.
 */
#pragma once
#include "store/segment/scan.h"
#include "store/store_entry.h"
#include "store/wal/change.h"
#include "store/wal/flush.h"

struct log_record;
struct segment;
struct store;
struct wal_position;

/* What a replay reports to a check of a store that is offline. With a visitor it writes nothing to the disk, goes on behind a
 * record that it cannot apply, and searches a damaged log to its end. */
enum replay_event {
    REPLAY_BATCH,      /* a commit batch was applied: scan->records */
    REPLAY_BAD_RECORD, /* `record` cannot be applied: `why` */
    REPLAY_DROPPED,    /* `record` of the cached log: its bytes are missing */
    REPLAY_SALVAGED,   /* `record` of a damaged batch was applied */
    REPLAY_DAMAGE, /* `next` is the good batch behind a damaged one; `whole`: no record is lost */
    REPLAY_MISSING_BATCH, /* the log `segment` begins with a later batch than the one wanted */
    REPLAY_LOST_END,      /* batches up to next->batch were synced, and are missing */
    REPLAY_END,           /* the log ends; `why`: with something that is no batch */
};
struct replay_seen {
    enum replay_event event;
    enum store_class class;
    const struct wal_scan
        *scan; /* stands in front of what is reported, but for REPLAY_BATCH */
    const struct log_record *record;
    const struct wal_scan_next_batch *next;
    const struct segment *segment;
    bool whole;
    const char *why;
};
struct replay_visitor {
    void (*visit)(void *arg, const struct replay_seen *seen);
    void *arg;
    bool
        trust_cached; /* bodies of the cached class are not looked for: the index covers their records */
    uint64_t up_to[STORE_CLASSES_]; /* a class ends behind this batch */
};

/* Afterwards d->wals->of[class] is where the next batch goes. `from`: what the index covers. */
enum err replay_class(struct store *d, enum store_class class,
                      const struct wal_position *from, struct errbuf *eb) MUST_CHECK;
struct segment *replay_oldest_log(struct store *d, enum store_class class); /* borrowed */

/* Applies a record of the cached log, as far as it can be believed. One whose bytes are lost still says that what was there
 * before is obsolete: it becomes a delete. A part is just not there. */
enum err replay_cached(struct changes *c, struct log_record *m,
                       struct errbuf *eb) MUST_CHECK;
/* *there: the disk has the bytes that a cached entry names. May switch. */
enum err replay_row_is_intact(struct store *d, const struct entry *entry, bool *there,
                              struct errbuf *eb) MUST_CHECK;
/* Counters of this start go on behind what is in the log. */
void replay_advance_counters(struct store *d, const struct log_record *m);

/* Bringing the memtable into the index beside the replay: LMDB works on a thread of the pool, the loop reads on. */
struct background_flush {
    struct store *disk;
    struct rt_group batch;
    struct flush flush;
    struct segment *log; /* owned: the one that was read last */
    bool busy;           /* begun, not joined */
    enum err rc;
    struct errbuf eb;
};
/* Begins a round when the former one is over. */
enum err background_flush_begin(struct background_flush *b, struct segment *log,
                                struct errbuf *eb) MUST_CHECK;
enum err background_flush_end(struct background_flush *b, struct errbuf *eb) MUST_CHECK;
/* All that is in the memtable, and `log`, which was read last. */
enum err replay_flush(struct store *d, struct segment *log, struct errbuf *eb) MUST_CHECK;

/* The segment at hand. */
struct replaying {
    struct store *disk;
    struct changes *changes;
    struct background_flush *beside;
    struct segment *segment; /* borrowed */
    bool
        last; /* the log that was written last: only of this one bytes are written again */
    uint64_t again; /* what stands from here on was not */
    struct wal_scan scan;
};
/* Tells the visitor, if there is one; false: none. */
bool replay_report(const struct replaying *r, struct replay_seen seen);
/* Writes what was read again, up to there, where that has to be. */
enum err replay_rewrite(struct replaying *r, uint64_t to, struct errbuf *eb) MUST_CHECK;
/* How far behind a missing batch another one is looked for: where it stands, the missing one may have been acknowledged. */
uint64_t replay_search_bytes(const struct store *d);
/* Groups up to where the scan stands were read. */
void replay_set_end(struct replaying *r, uint64_t before);
/* replay_damage.c. After SCAN_END: the next batch behind what is missing, if it was acknowledged or a cut explains it. */
enum scanned replay_after_gap(struct replaying *r, struct errbuf *eb);
/* Before the native batch at hand is applied: ends the damage in front of it. May switch. */
enum err replay_keys_of_batch(struct replaying *r, struct errbuf *eb) MUST_CHECK;
/* All batches up to `below` are missing behind this segment, and were acknowledged. */
enum err replay_missing_wals(struct replaying *r, const struct segment *next,
                             struct errbuf *eb) MUST_CHECK;
/* No log goes on: batches of the cached one are missing nevertheless where the durable mark says that they were synced. */
enum err replay_lost_end(struct replaying *r, struct errbuf *eb) MUST_CHECK;

/* Bytes of a segment that are to be believed are written once more: a sync of them may have failed before the process died,
 * and no later sync brings them to the disk (D9). */
enum err replay_rewrite_range(struct segment *s, uint64_t from, uint64_t to,
                              struct errbuf *eb) MUST_CHECK;
/* The same for the segment's own header, and for its size. */
enum err replay_renew_segment(struct segment *s, struct errbuf *eb) MUST_CHECK;

/* Does this record do nothing behind a gap? One that ends an in-doubt write does not: a put before it may be lost in the gap. */
bool replay_hides(const struct store *d, const struct log_record *m);

/* The cached class of this disk is damaged: durably, the next try to open the disk drops it. ERR_CORRUPT, or why that cannot be
 * written down. A store that is read only just remembers it. May switch. */
enum err replay_drop_cached(struct store *d, uint64_t batch,
                            struct errbuf *eb) MUST_CHECK;
