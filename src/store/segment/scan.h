/* scan: reads a log batch by batch, or a body segment place by place, and trusts nothing it
 * reads. Used by recovery and by the check, which has no open disk. Any loop; calls may switch.
 * docs/formats.md, section 6.
 */
#pragma once
#include "rt/fiber.h"
#include "rt/file.h"
#include "store/record/log_record.h"

/* The segment to read, and the values that its records must match. */
struct scan_source {
    struct rt_file *file; /* borrowed */
    uint32_t segment, generation;
    uint64_t size;        /* of the file */
    uint32_t cluster_sum; /* crc32c of the cluster id */
    bool
        cached; /* a cached log: a search behind damage accepts only batches that list unsynced
                 * ones */
};

enum scanned {
    SCAN_BATCH, /* a whole batch; every sum is right */
    SCAN_END,   /* no batch here: the log ends, unless other evidence contradicts */
    SCAN_NEWER, /* a batch of a newer format version */
    SCAN_ERROR, /* the disk can't be read, or out of memory */
    SCAN_MORE,  /* wal_scan_within() only: the batch extends beyond the window */
};

/* Read buffers for reuse: a new buffer costs a page fault for each 4 KiB. */
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
    struct scan_spare *spare; /* borrowed; NULL: no reuse */
    uint64_t offset;          /* of the next batch */
    uint64_t batch;           /* number of the next batch; 0: any */
    uint64_t epoch;           /* of the last batch; never decreases */

    /* The batch found; valid until the next call. */
    struct log_record *records; /* borrowed: `own`, or the caller's */
    uint32_t count;
    struct log_record *own; /* owned; BATCH_RECORDS */
    bool within;            /* must not move the window */

    /* The bytes of the file in memory. A sequential scan reads the next piece meanwhile. */
    struct iobuf *window; /* owned */
    uint64_t window_at, window_len;
    uint32_t window_from; /* offset of the window in its buffer */
    uint64_t moves;       /* counts moves of the window; a move invalidates spans */
    unsigned wide;        /* pieces read ahead: 1 or SCAN_READAHEAD */
    struct scan_piece {
        struct wal_scan *scan; /* borrowed */
        struct rt_group batch;
        struct iobuf *buf; /* owned */
        uint64_t from;
        uint32_t have;
        enum err rc;
        bool busy; /* started, not taken */
    } readahead[SCAN_READAHEAD];
};
void wal_scan_begin(struct wal_scan *s, const struct scan_source *source, uint64_t offset,
                    uint64_t batch, uint64_t epoch);
void wal_scan_end(struct wal_scan *s); /* idempotent */
/* On SCAN_BATCH, records[0, count) are the batch, with payloads in `body`; offset, batch and
 * epoch then describe the next one. On SCAN_END, *eb says what is there instead (a block of
 * zeros: empty). */
enum scanned wal_scan_next(struct wal_scan *s, struct errbuf *eb);
/* The same in two steps, to parse on another thread. This step makes the window begin at the
 * next batch. May switch. */
enum err wal_scan_fill(struct wal_scan *s, struct errbuf *eb) MUST_CHECK;
/* The second step: parses the next batch from the window alone, into `into` (BATCH_RECORDS).
 * SCAN_BATCH, SCAN_MORE or another result of wal_scan_next(). Does not switch: any thread, one
 * at a time. */
enum scanned wal_scan_within(struct wal_scan *s, struct log_record *into);

/* After SCAN_END: searches `far` bytes ahead for a later whole batch. In a native log, whose
 * batches are synced one by one, a later batch proves that this one was acknowledged and is
 * damaged. For a cached log log_gap.h decides. False: none; the scan and *eb are unchanged. May
 * switch. */
struct wal_scan_next_batch {
    uint64_t offset, batch, epoch;
    uint64_t unsynced; /* first batch not yet synced when this was written; native: 0 */
};
bool wal_scan_find_next(struct wal_scan *s, uint64_t far,
                        struct wal_scan_next_batch *out);
/* Reads what is left of damaged batches between here and `to`, in order: records with an intact
 * header whose batch number is from the one wanted up to `below`. A record with a damaged
 * payload has m->body_damaged set and no body. fn may still apply it: a reader will detect the
 * damage.
 *
 * *whole: no header was missing up to the end of the last of these batches (or up to `to`, if
 * that is not the end of the file), so only payloads are lost. The scan does not move. */
typedef enum err wal_salvage_fn(void *arg, struct log_record *m);
enum err wal_scan_salvage(struct wal_scan *s, uint64_t to, uint64_t below,
                          wal_salvage_fn *fn, void *arg, bool *whole,
                          struct errbuf *eb) MUST_CHECK;
/* Returns the epoch of the batch that ends at the scan's position; 0: not found. May switch. */
uint64_t wal_scan_epoch_before(struct wal_scan *s);
/* Continues the scan at that batch. */
void wal_scan_resume(struct wal_scan *s, const struct wal_scan_next_batch *to);

/* Reads one place of a body segment. SCAN_BATCH: *out has its verified header (spans lie in
 * `buf`, which the caller drops) and *next the offset of the next place. */
enum scanned place_scan(const struct scan_source *s, uint64_t offset,
                        struct log_record *out, struct iobuf **buf, uint64_t *next,
                        struct errbuf *eb);
