/* scan: reading a log batch by batch, and a body segment place by place, believing nothing. Recovery uses it, and
 * the check, which has no open disk. Any loop; calls may switch. docs/formats.md, section 6.
 */
#pragma once
#include "rt/fiber.h"
#include "rt/file.h"
#include "store/record/log_record.h"

/* Which segment is read, and what binds its bytes. */
struct scan_source {
    struct rt_file *file; /* borrowed */
    uint32_t segment, generation;
    uint64_t size;        /* of the file */
    uint32_t cluster_sum; /* crc32c of the cluster id */
    bool
        cached; /* a log of that class: a search behind damage takes only whole batches that say what was synced */
};

enum scanned {
    SCAN_BATCH, /* a whole batch, every sum right */
    SCAN_END,   /* no batch stands here: the log ends, if nothing says otherwise */
    SCAN_NEWER, /* one of a version that this program does not know */
    SCAN_ERROR, /* the disk can't be read, or memory is out */
    SCAN_MORE,  /* the window does not reach: of wal_scan_within() only */
};

/* Buffers that were read into and are free again: fresh ones cost a page fault for each 4 KiB. */
struct scan_spare {
    struct iobuf *at[4]; /* owned */
    uint32_t count;
};
void scan_spare_keep(struct scan_spare *s,
                     struct iobuf **bp); /* or drops it. NULL is fine */
void scan_spare_free(struct scan_spare *s);

#define SCAN_READAHEAD 2
struct wal_scan {
    struct scan_source source;
    struct scan_spare *spare; /* borrowed; NULL: none are kept */
    uint64_t offset;          /* of the next batch */
    uint64_t batch;           /* number of the next batch; 0: any */
    uint64_t epoch;           /* of the last one: it never decreases */

    /* The batch found: good until the next call. */
    struct log_record *records; /* borrowed: `own`, or what another gave */
    uint32_t count;
    struct log_record *own; /* owned; BATCH_RECORDS */
    bool within;            /* the window stays as it is */

    /* What is in memory of the file; a sequential reader's next piece is on its way meanwhile. */
    struct iobuf *window; /* owned */
    uint64_t window_at, window_len;
    uint32_t window_from; /* of the window in its buffer */
    uint64_t moves; /* counts changes of the window: spans from before are no good */
    unsigned wide;  /* so many pieces are on their way: 1 or SCAN_READAHEAD */
    struct scan_piece {
        struct wal_scan *scan; /* borrowed */
        struct rt_group batch;
        struct iobuf *buf; /* owned */
        uint64_t from;
        uint32_t have;
        enum err rc;
        bool busy; /* begun, not taken */
    } readahead[SCAN_READAHEAD];
};
void wal_scan_begin(struct wal_scan *s, const struct scan_source *source, uint64_t offset,
                    uint64_t batch, uint64_t epoch);
void wal_scan_end(struct wal_scan *s); /* twice is fine */
/* On SCAN_BATCH records[0, count) are the batch, payloads in `body`, and offset, batch, epoch are those of the next.
 * On SCAN_END the sentence says what stands there instead (a block of zeros: empty). */
enum scanned wal_scan_next(struct wal_scan *s, struct errbuf *eb);
/* The same in two steps, for parsing on another thread. The window is made to begin with the next batch; may switch. */
enum err wal_scan_fill(struct wal_scan *s, struct errbuf *eb) MUST_CHECK;
/* The next batch from the window alone, its records to `into` (BATCH_RECORDS): SCAN_BATCH, SCAN_MORE, or what else stands
 * there. Does not switch: any thread, one at a time. */
enum scanned wal_scan_within(struct wal_scan *s, struct log_record *into);

/* After SCAN_END: does a later batch stand behind, whole? In a log whose batches are synced one by one (native) what stands
 * here was acknowledged then, and is damaged; of a cached one log_gap.h decides. Looks `far` bytes ahead. False: none, the
 * scan is as it was, and *eb too. May switch. */
struct wal_scan_next_batch {
    uint64_t offset, batch, epoch;
    uint64_t
        unsynced; /* the first batch that was not synced when it was written; native: 0 */
};
bool wal_scan_find_next(struct wal_scan *s, uint64_t far,
                        struct wal_scan_next_batch *out);
/* Reads what is left of damaged batches between here and `to`: records whose header is whole and belongs to a batch
 * from the one wanted up to `below`, in their order. A payload that is not right has m->body_damaged set and no body;
 * fn may apply it all the same: a reader will find out. *whole: no header was missing up to the end of the
 * last of these batches, or to `to` where that is not the end of the file, so that nothing is lost but payloads. The scan stays where it is. */
typedef enum err wal_salvage_fn(void *arg, struct log_record *m);
enum err wal_scan_salvage(struct wal_scan *s, uint64_t to, uint64_t below,
                          wal_salvage_fn *fn, void *arg, bool *whole,
                          struct errbuf *eb) MUST_CHECK;
/* The epoch of the batch that ends where the scan stands; 0: not to be found. May switch. */
uint64_t wal_scan_epoch_before(struct wal_scan *s);
/* Goes on there. */
void wal_scan_resume(struct wal_scan *s, const struct wal_scan_next_batch *to);

/* One place of a body segment. SCAN_BATCH: its header, checked, in *out (spans lie in `buf`, which the caller drops),
 * *next is where the next place stands. */
enum scanned place_scan(const struct scan_source *s, uint64_t offset,
                        struct log_record *out, struct iobuf **buf, uint64_t *next,
                        struct errbuf *eb);
